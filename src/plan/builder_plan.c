/* builder_plan.c: builds a plan. It runs the algorithm once for each part of the blocks, and the algorithms of inner
 * collectives. */
#include "plan/builder_internal.h"
#include "plan/placement.h"

#include <stdio.h>
#include <string.h>

/* ---- inner collectives ---- */

uint32_t tu_build_sub_split(const struct tu_build *what, const struct tu_algorithm *algorithm, uint32_t ranks) {
  struct tu_build inner = *what;
  inner.algorithm = algorithm;
  inner.ranks = ranks;
  inner.placement = NULL;
  return algorithm->split ? algorithm->split(&inner) : 1;
}

void tu_build_sub(struct tu_builder *b, const struct tu_sub *sub) {
  /* inner collectives are not supported if only one rank is built and stands for all ranks (TU_ROTATES_ROWS): the
   * members of the inner collective would have to be rotated, too */
  tu_assert(!b->one_for_all);
  struct tu_build_frame *outer = b->frame, *f = tu_arena_allocate(&b->arena, 1, sizeof *f);
  *f = (struct tu_build_frame){.what = outer->what, .outer = outer};
  f->what.algorithm = sub->algorithm;
  f->what.ranks = sub->ranks;
  f->what.root = sub->root;
  f->what.in_place = sub->in_place;
  f->what.placement = NULL;
  f->split = tu_build_sub_split(&outer->what, sub->algorithm, sub->ranks);
  tutti_collective c = sub->algorithm->collective;
  uint32_t *members = tu_arena_allocate(&b->arena, sub->ranks, sizeof *members);
  struct tu_span *bases = tu_arena_allocate(&b->arena, (size_t)sub->ranks * TU_BUILD_BASES, sizeof *bases);
  for (uint32_t i = 0; i < sub->ranks; i++) {
    uint32_t rank = sub->members ? sub->members[i] : i;
    members[i] = tu_build_rank_in_plan(b, rank);
    const struct tu_span *given[2] = {&sub->in[i], &sub->out[i]};
    uint32_t need[2] = {tu_in_blocks(c, sub->ranks, sub->root, i) * f->split,
                        tu_out_blocks(c, sub->ranks, sub->root, i) * f->split};
    for (uint32_t k = 0; k < 2; k++) {
      if (need[k] == 0) continue;
      struct tu_span span = tu_build_in_plan(b, tu_at(rank, *given[k])).span;
      tu_assert(span.count % need[k] == 0 && (f->scale == 0 || f->scale == span.count / need[k]));
      f->scale = span.count / need[k];
      bases[i * TU_BUILD_BASES + k] = span;
    }
    bases[i * TU_BUILD_BASES + TU_TMP] = (struct tu_span){TU_TMP, tu_build_part_tmp(b, members[i]), 0};
    if (sub->row) bases[i * TU_BUILD_BASES + TU_BUILD_ROW] = tu_build_in_plan(b, tu_at(rank, sub->row[i])).span;
  }
  f->run = tu_build_frame_run(b, f);
  f->members = members;
  f->bases = bases;
  b->frame = f;
  sub->algorithm->build(b);
  b->frame = outer;
  tu_arena_fini(&f->arena);
  tu_arena_free(&b->arena, members);
  tu_arena_free(&b->arena, bases);
  tu_arena_free(&b->arena, f);
}

/* ---- building a plan ---- */

/* Runs the algorithm once for each part of the blocks. */
static void build_parts(struct tu_builder *b, const struct tu_build *what) {
  uint32_t lanes = (uint32_t)tu_max(what->lanes, 1);
  for (b->part = 0; b->part < b->parts; b->part++) {
    for (uint32_t rank = 0; rank < what->ranks; rank++) b->ranks[rank].tmp_first = b->ranks[rank].tmp_count;
    b->lane_first = b->part % lanes * b->lane_count;
    tu_lane(b, 0);
    what->algorithm->build(b);
    tu_arena_fini(tu_build_arena(b));
  }
}

uint32_t tu_build_lanes_max(const struct tu_algorithm *algorithm) {
  if (algorithm->collective == TUTTI_BARRIER) return 0;
  return TU_LANES_MAX / (uint32_t)tu_max(algorithm->lanes, 1);
}

static void begin_plan(struct tu_plan *plan, const struct tu_build *what) {
  const struct tu_algorithm *algorithm = what->algorithm;
  plan->collective = algorithm->collective;
  plan->ranks = what->ranks;
  plan->root = what->root;
  plan->in_place = what->in_place;
  plan->equal_blocks = (algorithm->flags & TU_EQUAL_BLOCKS) != 0;
  plan->rank_order = (algorithm->flags & TU_RANK_ORDER) && !(what->placement && what->placement->order);
  if (what->canonical && tu_algorithm_is_canonical(algorithm, what->ranks, what->placement)) plan->order = TU_CANONICAL;
  plan->rank_first = what->rank == TU_ALL_RANKS ? 0 : what->rank;
  plan->rank_count = what->rank == TU_ALL_RANKS ? what->ranks : 1;
  tu_assert(strlen(algorithm->name) < sizeof plan->algorithm);
  memcpy(plan->algorithm, algorithm->name, strlen(algorithm->name) + 1);
  plan->rank = tu_arena_allocate(&plan->arena, plan->rank_count, sizeof *plan->rank);
}

/* Sets the order in which the algorithm numbers the ranks, and the number of the root in this order. */
static void set_order(struct tu_builder *b, const struct tu_build *what) {
  b->order = b->frame->members = what->placement ? what->placement->order : NULL;
  if (!b->order) return;
  uint32_t *root = &b->frame->what.root;
  for (*root = 0; b->order[*root] != what->root; ++*root) continue;
}

struct job {
  const struct tu_build *what;
  struct tu_builder b;
};

static tutti_err build(void *argument, struct tu_error *error) {
  struct job *job = argument;
  const struct tu_build *what = job->what;
  struct tu_builder *b = &job->b;
  (void)error;
  const struct tu_algorithm *algorithm = what->algorithm;
  uint32_t split = algorithm->split ? algorithm->split(what) : 1;
  struct tu_plan *plan = b->plan = tu_plan_create();
  begin_plan(plan, what);
  plan->split = split * b->parts;
  b->part_split = split;
  b->reduces = tu_reduces(plan->collective);
  b->frame = tu_arena_allocate(&b->arena, 1, sizeof *b->frame);
  *b->frame = (struct tu_build_frame){.what = *what, .split = split, .scale = 1, .run = split};
  set_order(b, what);
  b->ranks = tu_arena_allocate(&b->arena, what->ranks, sizeof *b->ranks);
  for (uint32_t i = 0; i < plan->rank_count; i++) b->ranks[plan->rank_first + i].plan = &plan->rank[i];
  for (uint32_t i = 0; i < what->ranks; i++) {
    b->ranks[i].cells.arena = &b->arena;
    for (int k = TU_IN; k <= TU_OUT; k++) {
      b->ranks[i].chunks[k] = tu_plan_chunks(plan, i, (enum tu_buffer)k);
      b->ranks[i].first_cell[TU_TMP] += b->ranks[i].chunks[k];
      b->ranks[i].first_cell[k] = tu_plan_cell(plan, i, (enum tu_buffer)k, 0);
    }
  }
  build_parts(b, what);
  tu_assert(b->concurrent_depth == 0);
  plan->work = b->work;
  return TUTTI_OK;
}

tutti_err tu_plan_try_build(const struct tu_build *what, struct tu_plan **plan, struct tu_error *error) {
  const struct tu_algorithm *algorithm = what->algorithm;
  uint32_t parts = (uint32_t)tu_max(tu_max(what->segments, what->lanes), 1);
  tu_assert(what->ranks > 0 && what->ranks <= TU_RANKS_MAX && what->root < what->ranks);
  tu_assert(tu_algorithm_fits_on(algorithm, what->ranks, what->placement));
  bool ordered = what->placement && what->placement->order;
  tu_assert(what->lanes <= tu_build_lanes_max(algorithm) && (parts == 1 || tu_build_lanes_max(algorithm) > 0));
  struct job job = {.what = what,
                    .b = {.one_for_all = what->rank != TU_ALL_RANKS && (algorithm->flags & TU_ROTATES_ROWS) && !ordered,
                          .parts = parts,
                          .lane_count = (uint32_t)tu_max(algorithm->lanes, 1)}};
  char thing[TU_NAME_BYTES + 64];
  snprintf(thing, sizeof thing, "a plan of %s.%s", tu_collectives[algorithm->collective].name, algorithm->name);
  tutti_err err = tu_arena_build(build, &job, thing, error);
  for (struct tu_build_frame *f = job.b.frame; f; f = f->outer) tu_arena_fini(&f->arena);
  tu_arena_fini(&job.b.arena);
  if (err == TUTTI_OK) *plan = job.b.plan;
  else tu_plan_destroy(job.b.plan);
  return err;
}

struct tu_plan *tu_plan_build(const struct tu_build *what) {
  struct tu_plan *plan;
  if (tu_plan_try_build(what, &plan, NULL) != TUTTI_OK) tu_arena_refuse_again();
  return plan;
}
