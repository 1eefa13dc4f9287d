/* cost_test.c: compares estimated costs of plans with the costs of the built plans. */
#include "algo/cost.h"

#include <stdlib.h>

#include "algo/composite.h"
#include "test.h"

static double entries_of(const struct tu_plan *plan) {
  double entries = 0;
  for (uint32_t i = 0; i < plan->rank_count; i++) {
    const struct tu_rank_plan *r = &plan->rank[i];
    entries += (double)r->step_count + r->peer_count + r->operand_count + r->after_count + r->tmp_count;
  }
  return entries;
}

static double chunks_of(const struct tu_plan *plan) {
  double chunks = 0;
  for (uint32_t rank = 0; rank < plan->ranks; rank++)
    chunks += (double)tu_plan_chunks(plan, rank, TU_IN) + tu_plan_chunks(plan, rank, TU_OUT);
  return chunks;
}

/* Checks that an estimate is between 1/3 and 4 times the true cost. The samples have powers of two as numbers of
 * ranks, which are a special case of some algorithms, by a factor of up to three. */
static void compare(const struct tu_build *what) {
  struct tu_cost cost;
  tu_cost_estimate(what, NULL, &cost);
  struct tu_plan *plan = tu_plan_build(what);
  const char *collective = tu_collectives[what->algorithm->collective].name, *name = what->algorithm->name;
  double work = (double)plan->work, entries = entries_of(plan);
  CHECK(cost.work > work / 3 && cost.work < work * 4, "%s.%s, %u ranks: work %g, is %g", collective, name, what->ranks,
        cost.work, work);
  CHECK(cost.entries > entries / 3 && cost.entries < entries * 4, "%s.%s, %u ranks: entries %g, are %g", collective,
        name, what->ranks, cost.entries, entries);
  CHECK(cost.chunks == chunks_of(plan), "%s.%s, %u ranks: chunks %g, are %g", collective, name, what->ranks,
        cost.chunks, chunks_of(plan));
  tu_plan_destroy(plan);
}

static void estimates_are_near(void) {
  const struct tu_algorithm *a;
  const uint32_t ranks[] = {168, 195};
  for (size_t i = 0; (a = tu_algorithm_at(i)) != NULL; i++)
    for (int k = 0; k < 2; k++) {
      if (!tu_algorithm_fits(a, ranks[k]) || (k == 1 && i % 4 > 0)) continue;
      bool one = k == 1 && a->flags & TU_ROTATES;
      compare(&(struct tu_build){.algorithm = a,
                                 .ranks = ranks[k],
                                 .rank = one ? 0 : TU_ALL_RANKS,
                                 .root = tu_collectives[a->collective].rooted && k == 1 ? ranks[k] - 1 : 0,
                                 .lanes = k == 1 && tu_build_lanes_max(a) > 2 ? 2 : 0});
    }
}

/* Large groups, many groups, a smaller last group, and one group of all ranks. */
static void groups(void) {
  const struct {
    tutti_collective collective;
    const char *name;
    uint32_t ranks;
  } cases[] = {{TUTTI_ALLREDUCE, "rs:bucket/64+ar:ring+ag:bucket/64", 192},
               {TUTTI_ALLREDUCE, "rs:bucket/2+ar:ring+ag:bucket/2", 256},
               {TUTTI_ALLREDUCE, "re:direct/100+ar:ring+bc:direct/100", 250},
               {TUTTI_ALLGATHER, "ag:bucket/200+ag:bucket", 200},
               {TUTTI_BROADCAST, "bc:binomial+bc:chain/500", 200}};
  struct tu_error error;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct tu_algorithm *a = tu_composite_find(cases[i].collective, cases[i].name, &error);
    if (a) compare(&(struct tu_build){.algorithm = a, .ranks = cases[i].ranks, .rank = TU_ALL_RANKS});
    else CHECK(false, "%s", error.text);
  }
}

/* More chunks per block: for an algorithm that cuts blocks, and for one that does not. */
static void pieces(void) {
  compare(&(struct tu_build){
      .algorithm = tu_algorithm_find(TUTTI_ALLGATHER, "pat"), .ranks = 12, .rank = TU_ALL_RANKS, .chunks = 1000});
  compare(&(struct tu_build){
      .algorithm = tu_algorithm_find(TUTTI_ALLGATHER, "bucket"), .ranks = 12, .rank = TU_ALL_RANKS, .chunks = 1000});
}

/* Estimates are immediate for plans that are too large to build: N^2 steps at 65,536 ranks, and N log N. A number of
 * chunks that cannot be counted exceeds every limit. */
static void beyond_what_can_be_built(void) {
  struct tu_cost cost;
  struct tu_cost_memo memo = {.count = 0};
  struct tu_error error;
  struct tu_build what = {
      .algorithm = tu_algorithm_find(TUTTI_ALLREDUCE, "ring"), .ranks = 65536, .rank = TU_ALL_RANKS};
  tu_cost_estimate(&what, &memo, &cost);
  CHECK(cost.steps > 1.6e10 && cost.steps < 1.9e10, "a ring's steps are 4 N (N - 1), got %g", cost.steps);
  uint32_t built = memo.count;
  double steps = cost.steps;
  what.ranks = 32768;
  tu_cost_estimate(&what, &memo, &cost);
  CHECK(memo.count == built && cost.steps > steps / 5 && cost.steps < steps / 3,
        "half the ranks: %u plans more built, %g steps", memo.count - built, cost.steps);
  what = (struct tu_build){
      .algorithm = tu_algorithm_find(TUTTI_BARRIER, "dissemination"), .ranks = 65536, .rank = TU_ALL_RANKS};
  tu_cost_estimate(&what, &memo, &cost);
  CHECK(cost.steps > 2e6 && cost.steps < 2.8e6, "a dissemination's steps are 2 N log N, got %g", cost.steps);
  const struct tu_algorithm *a =
      tu_composite_find(TUTTI_ALLREDUCE, "re:rs_gather/3001+rs:pat+ag:bruck+bc:direct/3001", &error);
  CHECK(a != NULL, "%s", error.text);
  if (!a) return;
  what = (struct tu_build){.algorithm = a, .ranks = 65519, .rank = TU_ALL_RANKS};
  tu_cost_estimate(&what, &memo, &cost);
  CHECK(cost.chunks > 1e12, "chunks: %g", cost.chunks);
}

static const struct test tests[] = {
    {"estimates_are_near", estimates_are_near},
    {"groups", groups},
    {"pieces", pieces},
    {"beyond_what_can_be_built", beyond_what_can_be_built},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
