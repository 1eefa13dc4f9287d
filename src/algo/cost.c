/* cost.c: estimates the cost of building a plan by building it for fewer ranks; see cost.h. */
#include "algo/cost.h"

#include <math.h>

#include "algo/composite.h"

/* Limit of the work for one sample plan: number of message ends, operands and runs of chunks that the builder visits
 * (tu_plan.work). Costs are extrapolated from sample plans. These are built for more and more ranks until one of them
 * reaches the limit, which takes some milliseconds. The last samples may exceed it tenfold. */
#define SAMPLE_WORK 3e4

/* maximum number of chunks per block in a sample plan (from which costs are extrapolated), if the caller sets the
 * number of chunks */
enum { CHUNKS_FEW = 16 };

/* The ranks of a sample plan: `count` groups of `group` ranks. Without groups, `group` is 1. */
struct shape {
  uint32_t group, count;
  uint32_t chunks; /* number of chunks per block, as in tu_build.chunks */
};

static uint64_t count_entries(const struct tu_plan *plan, uint64_t *steps) {
  uint64_t entries = 0;
  *steps = 0;
  for (uint32_t i = 0; i < plan->rank_count; i++) {
    const struct tu_rank_plan *r = &plan->rank[i];
    *steps += r->step_count;
    entries += (uint64_t)r->step_count + r->peer_count + r->operand_count + r->after_count + r->tmp_count;
  }
  return entries;
}

static struct tu_cost measure(const struct tu_build *what) {
  struct tu_plan *plan = tu_plan_build(what);
  uint64_t steps, entries = count_entries(plan, &steps);
  struct tu_cost cost = {.work = (double)plan->work, .entries = (double)entries, .steps = (double)steps};
  tu_plan_destroy(plan);
  return cost;
}

static struct tu_cost sample(const struct tu_build *what, struct tu_cost_memo *memo, struct shape shape) {
  struct tu_build less = *what;
  less.ranks = shape.group * shape.count;
  less.chunks = shape.chunks;
  if (tu_composite_group(what->algorithm)) less.algorithm = tu_composite_in_groups(what->algorithm, shape.group);
  less.root %= less.ranks;
  if (less.rank != TU_ALL_RANKS) less.rank %= less.ranks;
  bool all = less.rank == TU_ALL_RANKS;
  for (uint32_t i = 0; memo && i < memo->count; i++)
    if (memo->samples[i].algorithm == less.algorithm && memo->samples[i].ranks == less.ranks &&
        memo->samples[i].chunks == less.chunks && memo->samples[i].all == all)
      return memo->samples[i].cost;
  struct tu_cost cost = measure(&less);
  if (memo && memo->count < sizeof memo->samples / sizeof memo->samples[0]) {
    memo->samples[memo->count].algorithm = less.algorithm;
    memo->samples[memo->count].ranks = less.ranks;
    memo->samples[memo->count].chunks = less.chunks;
    memo->samples[memo->count].all = all;
    memo->samples[memo->count++].cost = cost;
  }
  return cost;
}

/* Extrapolates a cost: `known` is the cost at some size; returns the cost at `ratio` times that size. The cost is
 * assumed to be a power of the size. The exponent follows from two samples: `more` is the cost at twice the size of
 * `less`. */
static double grow(double known, double less, double more, double ratio) {
  if (less <= 0 || more <= less) return known;
  return known * pow(ratio, log2(more / less));
}

static void grow_all(struct tu_cost *cost, const struct tu_cost *less, const struct tu_cost *more, double ratio) {
  cost->work = grow(cost->work, less->work, more->work, ratio);
  cost->entries = grow(cost->entries, less->entries, more->entries, ratio);
  cost->steps = grow(cost->steps, less->steps, more->steps, ratio);
}

static double count_chunks(const struct tu_build *what) {
  tutti_collective c = what->algorithm->collective;
  double blocks = 0, split = what->algorithm->split ? what->algorithm->split(what) : 1;
  for (uint32_t rank = 0; rank < what->ranks; rank++)
    blocks += (double)tu_in_blocks(c, what->ranks, what->root, rank) + tu_out_blocks(c, what->ranks, what->root, rank);
  return blocks * split * (double)tu_max(tu_max(what->segments, what->lanes), 1);
}

void tu_cost_estimate(const struct tu_build *what, struct tu_cost_memo *memo, struct tu_cost *cost) {
  if (what->placement) { /* a placement of fewer ranks would be another one, so the plan itself is the sample */
    *cost = measure(what);
    cost->chunks = count_chunks(what);
    return;
  }
  uint32_t group = tu_composite_group(what->algorithm), chunks = (uint32_t)tu_min(what->chunks, CHUNKS_FEW);
  struct shape all = {.group = 1, .count = what->ranks};
  if (group) all.group = (uint32_t)tu_min(group, what->ranks), all.count = (what->ranks + group - 1) / group;
  struct shape s = {(uint32_t)tu_min(all.group, 4), (uint32_t)tu_min(all.count, group ? 4 : 8), chunks};
  *cost = sample(what, memo, s);
  while (cost->work < SAMPLE_WORK && (s.group < all.group || s.count < all.count)) {
    s.group = (uint32_t)tu_min(2 * s.group, all.group);
    s.count = (uint32_t)tu_min(2 * s.count, all.count);
    *cost = sample(what, memo, s);
  }
  struct tu_cost base = *cost;
  if (s.group < all.group) {
    struct tu_cost more = sample(what, memo, (struct shape){2 * s.group, s.count, chunks});
    grow_all(cost, &base, &more, (double)all.group / s.group);
  }
  if (s.count < all.count) {
    struct tu_cost more = sample(what, memo, (struct shape){s.group, 2 * s.count, chunks});
    grow_all(cost, &base, &more, (double)all.count / s.count);
  }
  if (chunks < what->chunks) {
    struct tu_cost less = sample(what, memo, (struct shape){s.group, s.count, chunks / 2});
    grow_all(cost, &less, &base, (double)what->chunks / chunks);
  }
  cost->chunks = count_chunks(what);
}
