/* plan_msccl.c: makes a plan from an MSCCL algorithm. It checks the algorithm's tables (plan_msccl_settle.c), simulates
 * the algorithm (plan_msccl_play.c), and emits the steps of each rank (plan_msccl_emit.c). */
#include "plan/plan_msccl_internal.h"

#include <string.h>

static tutti_err make_plan(struct tu_msccl_convert *c) {
  struct tu_msccl *f = c->file;
  struct tu_plan *p = c->plan;
  tutti_err err;
  p->collective = f->collective;
  p->ranks = p->rank_count = f->ranks;
  p->in_place = f->in_place;
  memcpy(p->algorithm, f->name, sizeof p->algorithm);
  p->rank = tu_arena_allocate(&p->arena, p->ranks, sizeof *p->rank);
  if ((err = tu_msccl_find_root(c)) != TUTTI_OK) return err;
  if ((err = tu_msccl_lay_out(c)) != TUTTI_OK) return err;
  c->sums = tu_reduces(f->collective);
  c->steps = tu_arena_allocate(&c->arena, f->step_count, sizeof *c->steps);
  c->tbs = tu_arena_allocate(&c->arena, f->tb_count, sizeof *c->tbs);
  c->next_signal = tu_arena_allocate(&c->arena, f->step_count, sizeof *c->next_signal);
  c->order = tu_arena_allocate(&c->arena, f->step_count, sizeof *c->order);
  c->played = tu_arena_allocate(&c->arena, p->ranks, sizeof *c->played);
  c->cell_base = tu_arena_allocate(&c->arena, p->ranks + 1, sizeof *c->cell_base);
  c->queue = tu_arena_allocate(&c->arena, f->tb_count, sizeof *c->queue);
  if ((err = tu_msccl_settle(c)) != TUTTI_OK) return err;
  if ((err = tu_msccl_play_all(c)) != TUTTI_OK) return err;
  for (uint32_t g = 0; g < p->ranks; g++) tu_msccl_emit_rank(c, g);
  return TUTTI_OK;
}

static tutti_err convert(void *argument, struct tu_error *error) {
  struct tu_msccl_convert *c = argument;
  c->error = error;
  /* The plan is in place if the file serves in-place calls. If it serves out-of-place calls, too, c->in_place
   * decides. */
  c->file->in_place = c->file->in_place && (c->in_place || !c->file->out_of_place);
  c->plan = tu_plan_create();
  return make_plan(c);
}

tutti_err tu_plan_read_msccl(const char *data, size_t bytes, const char *name, bool in_place, struct tu_plan **plan,
                             struct tu_error *error) {
  struct tu_msccl file;
  tutti_err err = tu_msccl_read(data, bytes, name, &file, error);
  struct tu_msccl_convert c = {.file = &file, .bytes = bytes, .in_place = in_place};
  if (err == TUTTI_OK) err = tu_arena_build(convert, &c, file.file, error);
  tu_arena_fini(&c.arena);
  tu_msccl_fini(&file);
  if (err == TUTTI_OK) *plan = c.plan;
  else tu_plan_destroy(c.plan);
  return err;
}

tutti_err tu_plan_read_any(const char *data, size_t bytes, const char *name, bool in_place, struct tu_plan **plan,
                           struct tu_error *error) {
  /* XML begins with a tag or with a byte order mark; the text form of a plan does not. */
  size_t at = 0;
  while (at < bytes && strchr(" \t\r\n", data[at]) && data[at]) at++;
  bool xml = at < bytes && (data[at] == '<' || (unsigned char)data[at] >= 0xef);
  if (xml) return tu_plan_read_msccl(data, bytes, name, in_place, plan, error);
  return tu_plan_read(data, bytes, name, plan, error);
}
