/* bench_case_test.c: the benchmark's check of results. All ranks' cases are in one process, and a simple reference
 * moves the data. A correct result must count no errors, one damaged element exactly one error, and data of another
 * round many. */
#include "../bench/core/bench_case.c"

#include <math.h>

#include "test.h"

enum { RANKS = 5, BYTES = 60000, ROUND = 7 };

static void make_cases(struct bench_case cases[RANKS], const struct bench_item *item) {
  const struct bench_options options = {.type = TUTTI_I32, .op = TUTTI_SUM, .root = 2};
  for (uint32_t r = 0; r < RANKS; r++) {
    if (!bench_case_create(&cases[r], &options, item, r, RANKS, BYTES)) FAIL("rank %u: cannot create the case", r);
    bench_case_produce(&cases[r], ROUND);
  }
}

/* Returns element i of a block of a rank's buffer, as i32. */
static int32_t *at(const struct bench_case *c, bool out, uint32_t block, size_t i) {
  unsigned char *data = out ? c->out_data : c->in_data;
  return (int32_t *)(void *)(data + tu_view_chunk(out ? &c->out : &c->in, block).offset) + i;
}

static void expect_wrong(const struct bench_case *c, uint32_t round, size_t least, size_t most, const char *what) {
  size_t wrong = bench_case_wrong(c, round);
  CHECK(wrong >= least && wrong <= most, "%s, rank %u, %s: %zu wrong, expected %zu to %zu",
        tutti_collective_name(c->collective), c->rank, what, wrong, least, most);
}

/* Checks the count of errors in correct data, in data with one bit changed, and in data of another round. */
static void expect_sight(struct bench_case cases[RANKS]) {
  for (uint32_t r = 0; r < RANKS; r++) {
    struct bench_case *c = &cases[r];
    if (c->out.blocks > 0) {
      size_t begin, bytes = tu_view_extent(&c->out, &begin), items = bytes / c->out.item_bytes;
      unsigned char *data = c->out_data;
      expect_wrong(c, ROUND, 0, 0, "right");
      const size_t positions[] = {0, bytes / 2, bytes - 1};
      for (size_t i = 0; i < 3; i++) {
        data[positions[i]] ^= 1;
        expect_wrong(c, ROUND, 1, 1, "one bit");
        data[positions[i]] ^= 1;
      }
      expect_wrong(c, ROUND + 1, items / 2, items, "data of another round");
    }
    bench_case_destroy(c);
  }
}

static void test_allreduce(void) {
  struct bench_case cases[RANKS];
  make_cases(cases, &(struct bench_item){.collective = TUTTI_ALLREDUCE});
  for (size_t i = 0; i < cases[0].count; i++) {
    int32_t sum = 0;
    for (uint32_t r = 0; r < RANKS; r++) sum += *at(&cases[r], false, 0, i);
    for (uint32_t r = 0; r < RANKS; r++) *at(&cases[r], true, 0, i) = sum;
  }
  expect_sight(cases);
}

static void test_alltoallv(void) {
  struct bench_case cases[RANKS];
  make_cases(cases, &(struct bench_item){.collective = TUTTI_ALLTOALLV});
  for (uint32_t from = 0; from < RANKS; from++)
    for (uint32_t to = 0; to < RANKS; to++) {
      size_t sent = cases[from].counts[to], taken = cases[to].counts[from];
      CHECK(sent == taken, "rank %u sends %zu elements to rank %u, which receives %zu", from, sent, to, taken);
      memcpy(at(&cases[to], true, from, 0), at(&cases[from], false, to, 0), sent * sizeof(int32_t));
    }
  expect_sight(cases);
}

static void test_gatherv(void) {
  struct bench_case cases[RANKS];
  make_cases(cases, &(struct bench_item){.collective = TUTTI_GATHERV});
  for (uint32_t r = 0; r < RANKS; r++)
    memcpy(at(&cases[2], true, r, 0), at(&cases[r], false, 0, 0), cases[r].count * sizeof(int32_t));
  CHECK(cases[0].out.blocks == 0 && cases[2].out.blocks == RANKS, "only the root has an output");
  expect_sight(cases);
}

/* In place, a rank's shorter buffer is its own block of the longer one, also if the blocks are of unequal size. */
static void test_in_place(void) {
  static const tutti_collective collectives[] = {TUTTI_ALLREDUCE,  TUTTI_GATHERV,         TUTTI_SCATTER,
                                                 TUTTI_ALLGATHERV, TUTTI_REDUCE_SCATTERV, TUTTI_ALLTOALLV,
                                                 TUTTI_EXSCAN};
  struct bench_case cases[RANKS];
  for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++) {
    make_cases(cases, &(struct bench_item){.collective = collectives[i], .in_place = true});
    for (uint32_t r = 0; r < RANKS; r++) {
      const struct bench_case *c = &cases[r];
      const struct tu_collective *k = &tu_collectives[c->collective];
      uint32_t in = k->in == TU_EACH && k->out == TU_ONE ? r : 0, out = k->in == TU_ONE && k->out == TU_EACH ? r : 0;
      bool both = c->in.blocks > 0 && c->out.blocks > 0;
      CHECK(!both || at(c, false, in, 0) == at(c, true, out, 0), "%s, rank %u: the block has two places", k->name, r);
      CHECK(both || c->in_data != c->out_data, "%s, rank %u: both buffers are one", k->name, r);
    }
    for (uint32_t r = 0; r < RANKS; r++) bench_case_destroy(&cases[r]);
  }
}

/* The absolute values that the ranks contribute to an element add up to a number that the type holds exactly. So every
 * partial sum is exact. This must hold for every type and every number of ranks. */
static void test_exactness(void) {
  for (uint32_t ranks = 1; ranks < 200; ranks = ranks * 2 + 1)
    for (tutti_datatype type = 0; type < TUTTI_BFP8;
         type = tu_datatype_next(type)) { /* block floats are measured by another benchmark */
      struct bench_case c = {.collective = TUTTI_ALLREDUCE, .type = type, .ranks = ranks};
      for (uint32_t i = 0; i < PERIOD; i++) {
        double sum = 0;
        for (uint32_t r = 0; r < ranks; r++) sum += fabs(value(&c, r, 0, i));
        if (sum > exact_max(c.type)) {
          FAIL("%s, %u ranks, element %u: absolute values sum up to %g", tutti_datatype_name(c.type), ranks, i, sum);
          break;
        }
      }
    }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"allreduce", test_allreduce}, {"alltoallv", test_alltoallv}, {"gatherv", test_gatherv},
      {"in place", test_in_place},   {"exactness", test_exactness},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
