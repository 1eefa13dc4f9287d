/* core.h: the core of the benchmark, which `tutti bench` shares with the benchmarks of peer libraries (bench/mpi_bench.c,
 * bench/gloo_bench.c): options, what one case sends and expects, the measuring loop, and what is printed. Only the calls
 * themselves differ. It is a static library, tutti_bench; nothing in it may need the rest of the command. */
#ifndef BENCH_CORE_H
#define BENCH_CORE_H

#include "algo/algo.h"
#include "cli/cli.h"
#include "tensor/view.h"

/* ---- options (bench_options.c) ---- */

enum { BENCH_SIZES_MAX = 256 };

/* Where buffers come from. */
struct bench_memory {
  void *context;
  void *(*acquire)(void *context, size_t bytes); /* aligned to 4096; NULL if there is no memory */
  void (*release)(void *context, void *memory);
};

struct bench_options {
  uint32_t ranks; /* 0: not given */
  size_t sizes[BENCH_SIZES_MAX];
  uint32_t size_count;
  tutti_datatype type;
  tutti_op op;
  uint32_t root;
  uint32_t time_ms; /* about how long one size is measured */
  uint32_t lanes;   /* as tutti_call has them */
  uint32_t late_ms; /* if not 0: what waiting for the last rank costs is measured instead (bench_late.c) */
  bool json;
  bool each;                         /* rank's own time is printed, too */
  bool barrier;                      /* a barrier before each operation, at every size */
  bool poll;                         /* ranks test until an operation is done, instead of waiting; not with peers */
  bool heap;                         /* buffers from tutti_alloc */
  const struct bench_memory *memory; /* NULL: the C library's */
  const char *bind;
  const char *plan_path; /* or NULL */
  struct tu_plan
      *plan;    /* what is measured instead of the names; says ranks and root too. Freed with bench_options_fini */
  char **names; /* [name_count], COLLECTIVE[.NAME|.all] */
  uint32_t name_count;
};

/* "8,64,1K:64M:4": sizes and ranges LO:HI[:FACTOR], with commas between; or says what was expected. */
int bench_read_sizes(const char *verb, const char *text, struct bench_options *options);
/* Reads the command line; everything that can be refused without knowing the number of ranks is refused here. */
int bench_read_options(const struct cli_verb *verb, int argc, char **argv, struct bench_options *options, bool *done);

void bench_options_fini(struct bench_options *options);

/* What is to be measured: a collective with its algorithm or a user's plan; both NULL: the library decides. */
struct bench_item {
  tutti_collective collective;
  const struct tu_algorithm *algorithm;
  const struct tu_plan *plan;
};
/* The names, taken apart for that many ranks; *items is malloc'ed. `quiet` ranks refuse without a word. */
int bench_list_items(const char *verb, const struct bench_options *options, uint32_t ranks, bool quiet,
                     struct bench_item **items, uint32_t *item_count);

/* ---- one case (bench_case.c) ---- */

struct bench_case {
  tutti_collective collective;
  const char *algorithm; /* or the plan's name, or NULL */
  bool planned;          /* by the user's plan */
  bool in_place;         /* the two buffers are one, where a rank has both; the longer one is then its memory */
  tutti_datatype type;
  tutti_op op;
  uint32_t rank, ranks, root, lanes;
  double scale;           /* premul_sum */
  size_t bytes;           /* of the longest buffer of any rank: the size column */
  size_t count;           /* of a block, of this rank: tutti_call.count */
  size_t *counts;         /* of a vector variant; alltoallv: received blocks are as long as sent ones */
  struct tu_view in, out; /* what this rank has; no blocks if nothing */
  void *in_data, *out_data;
  const struct bench_memory *memory;
  unsigned char *in_tables, *out_tables; /* the values of each block, which repeat */
};

/* A case of about `bytes` (at least one element a block, unless 0). False, having said why, if memory is short. */
bool bench_case_create(struct bench_case *c, const struct bench_options *options, const struct bench_item *item,
                       uint32_t rank, uint32_t ranks, size_t bytes);
void bench_case_destroy(struct bench_case *c);
/* The size that a case of about `bytes` has. */
size_t bench_case_bytes(const struct bench_options *options, const struct bench_item *item, uint32_t ranks,
                        size_t bytes);
/* Writes the input of that round, every byte of it. */
void bench_case_produce(const struct bench_case *c, uint32_t round);
/* Reads the output and returns how many of its elements are not what a naive evaluation of that round gives. */
size_t bench_case_wrong(const struct bench_case *c, uint32_t round);

/* ---- measuring (bench_measure.c) ---- */

/* Who carries the calls out. Its functions are called by all ranks alike; false: failed, and it has said why. */
struct bench_side {
  const char *automatic; /* the algorithm's name in the output when none is forced */
  uint32_t rank, ranks;
  bool (*select)(struct bench_side *side, const struct bench_case *c); /* the case of the following operations */
  bool (*operate)(struct bench_side *side);                            /* one operation, from start to end */
  bool (*barrier)(struct bench_side *side);
  bool (*combine)(struct bench_side *side, double *values, int count, tutti_op op); /* in place; sum or max */
};

/* Takes samples of a case that the side has selected; see bench_measure.c for what a sample is. */
struct bench_meter {
  struct bench_side *side;
  const struct bench_case *c;
  uint32_t batch; /* operations in a sample; starts as 1 */
  uint32_t round;
  uint64_t wrong;      /* elements, on this rank */
  uint64_t start, end; /* of the operations of the last sample */
};
/* Opens channels, warms caches, finds the length of a batch; *samples is how many fit into options->time_ms. */
bool bench_meter_warm(struct bench_meter *m, const struct bench_options *options, uint32_t *samples);
/* The time of all operations of a batch, on this rank. */
bool bench_meter_sample(struct bench_meter *m, double *ns);

struct bench_result {
  double time_us, p99_us; /* of one operation, on the rank where it took longest */
  double last_us;         /* from when the last rank began until the last one was done */
  double *own_us;         /* [ranks]: each rank's own; malloc'ed */
  double algbw_gbs, busbw_gbs;
  uint64_t wrong; /* elements, over all ranks and all operations that were checked */
};

/* Sorts them. */
double bench_median(double *values, uint32_t count);

bool bench_measure(struct bench_side *side, const struct bench_case *c, const struct bench_options *options,
                   struct bench_result *result);

/* ---- who waits (bench_late.c) ---- */

struct bench_late {
  double time_us; /* of one operation, on the rank that waited longest */
  double cpu_us;  /* CPU time of the process meanwhile, likewise */
};

/* One rank, the last, comes options->late_ms late to every operation: what does that cost those who wait? */
bool bench_measure_late(struct bench_side *side, const struct bench_case *c, const struct bench_options *options,
                        struct bench_late *result);

/* ---- all of it (bench_sweep.c) ---- */

/* Is that size one to measure? Neighbouring ones may come to the same number of elements, and a barrier has none. */
bool bench_size_counts(const struct bench_options *options, const struct bench_item *item, uint32_t ranks,
                       uint32_t index);

/* Measures every item at every size; rank 0 prints. CLI_FAILED if anything was wrong. */
int bench_sweep(struct bench_side *side, const struct bench_options *options, const struct bench_item *items,
                uint32_t item_count);

#endif
