/* builder_test.c: tests what the builder derives: the order of steps, marks, equal steps for one rank alone and among
 * all, and messages that do not depend on whether a call is in place. */
#include "plan/builder.h"

#include "algo/algo.h"
#include "base/text.h"
#include "test.h"

/* Returns a number of lanes for a call, from 0 to the maximum. */
static uint32_t some_lanes(const struct tu_algorithm *a, uint32_t n) { return n % (tu_build_lanes_max(a) + 1); }

static bool same_plan(const struct tu_rank_plan *a, const struct tu_rank_plan *b) {
  bool same = a->step_count == b->step_count && a->after_count == b->after_count && a->tmp_count == b->tmp_count &&
              a->operand_count == b->operand_count && a->peer_count == b->peer_count;
  same = same && (!a->after_count || memcmp(a->afters, b->afters, a->after_count * sizeof *a->afters) == 0);
  same = same && (!a->tmp_count || memcmp(a->tmp, b->tmp, a->tmp_count * sizeof *a->tmp) == 0);
  for (uint32_t k = 0; same && k < a->step_count; k++)
    same = memcmp(&a->steps[k], &b->steps[k], sizeof a->steps[k]) == 0;
  return same;
}

/* Compares the steps of every `stride`-th rank, built alone and built with all ranks. */
static void compare_with_ranks_alone(struct tu_build what, uint32_t stride) {
  what.rank = TU_ALL_RANKS;
  struct tu_plan *all = tu_plan_build(&what);
  for (uint32_t rank = 0; rank < what.ranks; rank += stride) {
    what.rank = rank;
    struct tu_plan *one = tu_plan_build(&what);
    CHECK(same_plan(&all->rank[rank], &one->rank[0]), "%s rank %u of %u differs when built alone", what.algorithm->name,
          rank, what.ranks);
    tu_plan_destroy(one);
  }
  tu_plan_destroy(all);
}

static void one_rank_alone_gets_the_same_steps(void) {
  for (size_t i = 0; tu_algorithm_at(i); i++)
    for (uint32_t n = 1; n <= 9; n++) {
      const struct tu_algorithm *a = tu_algorithm_at(i);
      if (!tu_algorithm_fits(a, n)) continue;
      struct tu_build what = {.algorithm = a, .ranks = n, .root = a->collective == TUTTI_SEND ? 0 : n / 2};
      what.lanes = some_lanes(a, n + 1);
      compare_with_ranks_alone(what, 1);
      if (!(a->flags & TU_AGGREGATES)) continue;
      what.in_place = true;
      for (what.slot_pieces = 2; what.slot_pieces <= 8; what.slot_pieces *= 2) compare_with_ranks_alone(what, 1);
    }
}

/* Tests so many ranks that a rank's cells are stored as runs, not as single cells (CELLS_FEW). */
static void many_ranks_get_the_same_steps(void) {
  const struct {
    tutti_collective collective;
    const char *name;
  } cases[] = {{TUTTI_ALLGATHER, "recursive_doubling"},
               {TUTTI_ALLREDUCE, "rabenseifner"},
               {TUTTI_ALLREDUCE, "bine"},
               {TUTTI_GATHER, "binomial"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    compare_with_ranks_alone(
        (struct tu_build){.algorithm = tu_algorithm_find(cases[i].collective, cases[i].name), .ranks = 2050}, 683);
}

/* Prints the messages of a rank in order: kind, peer and number of chunks. */
static void print_messages(const struct tu_rank_plan *r, struct tu_text *text) {
  for (uint32_t i = 0; i < r->step_count; i++) {
    const struct tu_step *s = &r->steps[i];
    for (uint32_t k = 0; k < s->peer_count; k++)
      tu_text_print(text, "%d %u %u;", s->kind == TU_SEND, r->peers[s->peer_first + k],
                    s->kind == TU_SEND ? s->source.count : s->target.count);
    for (uint32_t k = 0; k < s->operand_count; k++)
      if (r->operands[s->operand_first + k].peer != TU_LOCAL)
        tu_text_print(text, "0 %u %u;", r->operands[s->operand_first + k].peer, s->target.count);
  }
}

/* Ranks of one call need not agree on in place. So the messages must be the same in both cases. */
static void in_place_changes_no_message(void) {
  for (size_t i = 0; tu_algorithm_at(i); i++)
    for (uint32_t k = 0; k < 18; k++) {
      uint32_t n = 1 + k / 2;
      if (!tu_algorithm_fits(tu_algorithm_at(i), n)) continue;
      struct tu_build what = {.algorithm = tu_algorithm_at(i), .ranks = n, .rank = TU_ALL_RANKS};
      if (k % 2) what.lanes = some_lanes(what.algorithm, n + 1);
      struct tu_plan *apart = tu_plan_build(&what);
      what.in_place = true;
      struct tu_plan *in_place = tu_plan_build(&what);
      for (uint32_t rank = 0; rank < n; rank++) {
        struct tu_text a = {0}, b = {0};
        tu_text_print(&a, "messages: ");
        tu_text_print(&b, "messages: ");
        print_messages(&apart->rank[rank], &a);
        print_messages(&in_place->rank[rank], &b);
        CHECK(strcmp(a.chars, b.chars) == 0, "%s rank %u of %u: %s in place: %s", tu_algorithm_at(i)->name, rank, n,
              a.chars, b.chars);
        tu_text_fini(&a);
        tu_text_fini(&b);
      }
      tu_plan_destroy(apart);
      tu_plan_destroy(in_place);
    }
}

/* A plan with several lanes is, on each lane, the plan of the algorithm for one part of every block. */
static void each_lane_is_a_plan(void) {
  const struct tu_algorithm *a = tu_algorithm_find(TUTTI_ALLGATHER, "bucket");
  struct tu_build what = {.algorithm = a, .ranks = 5, .rank = 3};
  struct tu_plan *one = tu_plan_build(&what);
  what.lanes = 3;
  struct tu_plan *three = tu_plan_build(&what);
  const struct tu_rank_plan *p = &one->rank[0], *q = &three->rank[0];
  CHECK(one->split == 1 && three->split == 3, "a block has %u chunks, of three lanes %u", one->split, three->split);
  CHECK(q->step_count == 3 * p->step_count, "%u steps, of three lanes %u", p->step_count, q->step_count);
  for (uint32_t i = 0; i < q->step_count && q->step_count == 3 * p->step_count; i++) {
    const struct tu_step *s = &q->steps[i], *of = &p->steps[i % p->step_count];
    uint32_t lane = i / p->step_count;
    bool alike = s->kind == of->kind && s->lane == lane &&
                 s->source.first == 3 * of->source.first + (of->source.count ? lane : 0) &&
                 s->target.first == 3 * of->target.first + (of->target.count ? lane : 0) &&
                 s->source.count == of->source.count && s->target.count == of->target.count;
    CHECK(alike, "step %u is on lane %u, of chunks %u and %u", i, s->lane, s->source.first, s->target.first);
  }
  tu_plan_destroy(one);
  tu_plan_destroy(three);
}

/* A message of several blocks stays one message: the parts of the blocks are joined. An algorithm with two lanes of its
 * own uses two lanes for each part. */
static void messages_stay_messages(void) {
  struct tu_build what = {.algorithm = tu_algorithm_find(TUTTI_ALLGATHER, "bruck"), .ranks = 8, .rank = 0, .lanes = 4};
  struct tu_plan *plan = tu_plan_build(&what);
  uint32_t messages = 0, parts = 0;
  for (uint32_t i = 0; i < plan->rank[0].step_count; i++) {
    const struct tu_step *s = &plan->rank[0].steps[i];
    if (s->kind != TU_SEND) continue;
    parts++;
    messages += !s->joined;
    CHECK(s->source.count == 1, "step %u sends %u chunks, which do not lie together", i, s->source.count);
  }
  CHECK(messages == 4 * 3 && parts == 4 * 7, "%u messages of %u parts; 4 lanes have 12 of 28", messages, parts);
  tu_plan_destroy(plan);
  what = (struct tu_build){
      .algorithm = tu_algorithm_find(TUTTI_ALLREDUCE, "bidirectional_ring"), .ranks = 4, .rank = 0, .lanes = 3};
  plan = tu_plan_build(&what);
  uint32_t used = 0;
  for (uint32_t i = 0; i < plan->rank[0].step_count; i++) used |= 1u << plan->rank[0].steps[i].lane;
  CHECK(used == 0x3f, "3 ways of two lanes each used %x", used);
  tu_plan_destroy(plan);
}

/* Segments use the lanes in turn. */
static void segments_take_turns(void) {
  const struct tu_algorithm *a = tu_algorithm_find(TUTTI_BROADCAST, "binomial");
  struct tu_plan *plan =
      tu_plan_build(&(struct tu_build){.algorithm = a, .ranks = 2, .rank = 0, .segments = 6, .lanes = 2});
  uint32_t sends = 0;
  CHECK(plan->split == 6, "%u chunks", plan->split);
  for (uint32_t i = 0; i < plan->rank[0].step_count; i++) {
    const struct tu_step *s = &plan->rank[0].steps[i];
    if (s->kind == TU_SEND)
      CHECK(s->source.first == sends && s->lane == sends % 2, "send %u is on lane %u", i, s->lane);
    sends += s->kind == TU_SEND;
  }
  CHECK(sends == 6, "%u sends", sends);
  tu_plan_destroy(plan);
}

static const struct test tests[] = {
    {"one_rank_alone_gets_the_same_steps", one_rank_alone_gets_the_same_steps},
    {"many_ranks_get_the_same_steps", many_ranks_get_the_same_steps},
    {"in_place_changes_no_message", in_place_changes_no_message},
    {"each_lane_is_a_plan", each_lane_is_a_plan},
    {"messages_stay_messages", messages_stay_messages},
    {"segments_take_turns", segments_take_turns},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
