/* select.c: which algorithm runs for which size: a table that a person can read. The first row that fits wins; rows
 * whose algorithm cannot do what is wanted are passed over. */
#include <string.h>

#include "algo/algo.h"

struct row {
  tutti_collective collective;
  uint32_t ranks_max;
  size_t bytes_max;
  const char *algorithm;
};

#define ANY_RANKS UINT32_MAX
#define ANY_BYTES SIZE_MAX
#define KIB ((size_t)1 << 10)

static const struct row rows[] = {
    {TUTTI_ALLREDUCE, 2, 64 * KIB, "direct"},
    {TUTTI_ALLREDUCE, 4, 8 * KIB, "direct"},
    {TUTTI_ALLREDUCE, ANY_RANKS, 8 * KIB, "recursive_doubling"},
    {TUTTI_ALLREDUCE, ANY_RANKS, ANY_BYTES, "ring"},
    {TUTTI_ALLREDUCE, ANY_RANKS, ANY_BYTES, "recursive_doubling"},
    {TUTTI_REDUCE, 4, ANY_BYTES, "direct"},
    {TUTTI_REDUCE, ANY_RANKS, ANY_BYTES, "binomial"},
    {TUTTI_REDUCE, ANY_RANKS, ANY_BYTES, "direct"},
    {TUTTI_BROADCAST, 4, ANY_BYTES, "direct"},
    {TUTTI_BROADCAST, ANY_RANKS, ANY_BYTES, "binomial"},
    {TUTTI_GATHER, ANY_RANKS, 16 * KIB, "binomial"},
    {TUTTI_GATHER, ANY_RANKS, ANY_BYTES, "direct"},
    {TUTTI_SCATTER, ANY_RANKS, 16 * KIB, "binomial"},
    {TUTTI_SCATTER, ANY_RANKS, ANY_BYTES, "direct"},
    {TUTTI_ALLGATHER, 8, ANY_BYTES, "direct"},
    {TUTTI_ALLGATHER, ANY_RANKS, ANY_BYTES, "bucket"},
    {TUTTI_REDUCE_SCATTER, 8, ANY_BYTES, "direct"},
    {TUTTI_REDUCE_SCATTER, ANY_RANKS, ANY_BYTES, "bucket"},
    {TUTTI_REDUCE_SCATTER, ANY_RANKS, ANY_BYTES, "direct"},
    {TUTTI_ALLTOALL, ANY_RANKS, 4 * KIB, "direct"},
    {TUTTI_ALLTOALL, ANY_RANKS, ANY_BYTES, "pairwise"},
    {TUTTI_BARRIER, ANY_RANKS, ANY_BYTES, "dissemination"},
    {TUTTI_SCAN, 4, ANY_BYTES, "chain"},
    {TUTTI_SCAN, ANY_RANKS, ANY_BYTES, "recursive_doubling"},
    {TUTTI_EXSCAN, 4, ANY_BYTES, "chain"},
    {TUTTI_EXSCAN, ANY_RANKS, ANY_BYTES, "recursive_doubling"},
    {TUTTI_SEND, ANY_RANKS, ANY_BYTES, "direct"},
};

bool tu_algorithm_serves(const struct tu_algorithm *a, const struct tu_wanted *wanted, const char **why) {
  *why = NULL;
  if (!tu_algorithm_fits(a, wanted->ranks))
    *why = "it does not serve that number of ranks; tutti list says what it requires";
  else if (wanted->rank_order && !(a->flags & TU_RANK_ORDER))
    *why = "the operation does not commute and it does not combine in rank order";
  else if (wanted->any_blocks && (a->flags & TU_EQUAL_BLOCKS)) *why = "it needs blocks of equal size";
  return *why == NULL;
}

const struct tu_algorithm *tu_algorithm_select(const struct tu_wanted *wanted) {
  tutti_collective family = tu_collectives[wanted->collective].family;
  const char *why;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct row *row = &rows[i];
    if (row->collective != family || wanted->ranks > row->ranks_max || wanted->bytes > row->bytes_max) continue;
    const struct tu_algorithm *a = tu_algorithm_find(family, row->algorithm);
    tu_assert(a);
    if (tu_algorithm_serves(a, wanted, &why)) return a;
  }
  tu_assert(!"every collective has a row that serves anything");
  return NULL;
}
