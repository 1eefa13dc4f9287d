/* core.h: the core of the benchmark: options, input and expected output of a case, the measuring loop, and the printed
 * results. `tutti bench` shares it with the benchmarks of peer libraries (bench/mpi_bench.c, bench/gloo_bench.c), which
 * differ only in the calls. It is a static library, tutti_bench, and must not depend on the rest of the command. */
#ifndef BENCH_CORE_H
#define BENCH_CORE_H

#include "algo/algo.h"
#include "cli/cli.h"
#include "tensor/view.h"

/* ---- options (bench_options.c) ---- */

enum { BENCH_SIZES_MAX = 256 };

/* Allocator of the buffers. */
struct bench_memory {
  void *context;
  void *(*acquire)(void *context, size_t bytes); /* aligned to 4096; NULL: out of memory */
  void (*release)(void *context, void *memory);
};

struct bench_options {
  const char *verb; /* name of the command in messages */
  uint32_t ranks;   /* number of ranks; 0: not given */
  size_t sizes[BENCH_SIZES_MAX];
  uint32_t size_count;
  tutti_datatype type;
  tutti_op op;
  uint32_t root;
  uint32_t time_ms;  /* approximate time to measure one size, in ms */
  bool fixed_warmup; /* take `warmup` samples before those that are counted; false: as many as time_ms allows */
  uint32_t warmup;
  uint32_t iterations; /* number of samples; 0: as many as fit into time_ms */
  uint32_t lanes;      /* number of parallel lanes, as in tutti_call; 0: the library chooses */
  uint32_t late_ms;    /* delay of the last rank; not 0: measure the cost of waiting for it (bench_late.c) */
  uint32_t pool;       /* threads of each rank that compute while it measures (bench_pool.c); not with late_ms */
  uint32_t threads;    /* threads of each rank that share out long copies (tutti_options.parallel); 1: none */
  bool json, csv;
  bool quiet;                           /* do not tell the progress on standard error */
  bool each;                            /* print also each rank's own time */
  bool barrier;                         /* run a barrier before each operation, at every size */
  bool canonical;                       /* TUTTI_ORDER_CANONICAL */
  bool poll;                            /* poll with tutti_test instead of waiting; not with peer libraries */
  bool out_of_place;                    /* do not measure in place */
  bool heap;                            /* take buffers from tutti_alloc */
  const struct bench_memory *memory;    /* NULL: malloc of the C library */
  const struct tu_placement *placement; /* the hosts of the ranks; NULL: one host, or not known */
  const char *bind;
  const char *plan_path; /* file of the plan; NULL: no plan */
  /* The plan to measure instead of `names`; it also sets ranks and root. bench_options_fini frees it. NULL: none. */
  struct tu_plan *plan;
  char **names; /* [name_count]: COLLECTIVE[.NAME|.all] */
  uint32_t name_count;
};

/* Parses sizes and ranges LO:HI[:FACTOR], separated by commas, such as "8,64,1K:64M:4"; reports an error if invalid. */
int bench_read_sizes(const char *verb, const char *text, struct bench_options *options);
/* Reads an option --order, and sets TUTTI_ORDER accordingly, for this process and those that it starts. NULL: it is not
 * given. */
int bench_read_order(const char *verb, const char *order, struct bench_options *options);
/* Parses the command line. Reports every error that does not depend on the number of ranks. */
int bench_read_options(const struct cli_verb *verb, int argc, char **argv, struct bench_options *options, bool *done);

void bench_options_fini(struct bench_options *options);

/* One thing to measure: a collective with an algorithm or a user's plan; both NULL: the library chooses. */
struct bench_item {
  tutti_collective collective;
  const struct tu_algorithm *algorithm;
  const struct tu_plan *plan;
  bool in_place; /* measure the collective's form in place; not with a plan, which has one form only */
};
/* Returns true if the item has a form in place beside the other one. False: a collective with one buffer or none, a
 * message, or a plan. */
bool bench_has_in_place(const struct bench_item *item);
/* Resolves the names into items for this number of ranks; *items is malloc'ed. `quiet`: print no error messages. */
int bench_list_items(const char *verb, const struct bench_options *options, uint32_t ranks, bool quiet,
                     struct bench_item **items, uint32_t *item_count);

/* ---- one case (bench_case.c) ---- */

struct bench_case {
  tutti_collective collective;
  const char *algorithm; /* name of the algorithm or plan; NULL: the library chooses */
  bool planned;          /* a user's plan is measured */
  bool in_place;         /* input and output of a rank share one buffer, which has the size of the longer one */
  tutti_datatype type;
  tutti_op op;
  uint32_t rank, ranks, root, lanes;
  double scale;           /* factor of this rank in premul_sum */
  size_t bytes;           /* length of the longest buffer of any rank: the size column */
  size_t count;           /* elements of this rank's block: tutti_call.count */
  size_t *counts;         /* [ranks]: block lengths of a vector variant; in alltoallv, of sent and of received blocks */
  struct tu_view in, out; /* layout of this rank's buffers; 0 blocks: no buffer */
  void *in_data, *out_data;
  const struct bench_memory *memory;
  unsigned char *in_tables, *out_tables; /* for each block, two periods of its values */
};

/* Creates a case of about `bytes` bytes: at least one element per block, unless bytes is 0. Returns false and prints an
 * error if memory runs out. */
bool bench_case_create(struct bench_case *c, const struct bench_options *options, const struct bench_item *item,
                       uint32_t rank, uint32_t ranks, size_t bytes);
void bench_case_destroy(struct bench_case *c);
/* Returns the actual size of a case of about `bytes` bytes. */
size_t bench_case_bytes(const struct bench_options *options, const struct bench_item *item, uint32_t ranks,
                        size_t bytes);
/* Writes the whole input of a round. */
void bench_case_produce(const struct bench_case *c, uint32_t round);
/* Compares the output with a naive evaluation of the round; returns the number of wrong elements. */
size_t bench_case_wrong(const struct bench_case *c, uint32_t round);

/* ---- measuring (bench_measure.c) ---- */

/* The library under test. All ranks call its functions in the same order; false: failed, and an error was printed. */
struct bench_side {
  const char *automatic; /* name in the output if no algorithm is forced */
  uint32_t rank, ranks;
  bool in_place;                        /* `operate` also carries out cases in place */
  bool shares;                          /* it can share out copies among threads (bench_options.threads) */
  struct bench_pool *pool;              /* set by bench_sweep; NULL: none */
  const struct tu_placement *placement; /* the hosts of the ranks; NULL: one host, or not known */
  bool (*select)(struct bench_side *side, const struct bench_case *c); /* sets the case for the next operations */
  bool (*operate)(struct bench_side *side);                            /* runs one operation to its end */
  bool (*barrier)(struct bench_side *side);
  bool (*combine)(struct bench_side *side, double *values, int count, tutti_op op); /* in-place allreduce; sum or max */
  /* Returns the name of the algorithm that the library uses for the selected case; the name stays valid. NULL: the library
   * does not say. Only if no algorithm is forced. */
  const char *(*chosen)(struct bench_side *side);
};

/* State of the measurement of one case; bench_measure.c describes a sample. */
struct bench_meter {
  struct bench_side *side;
  const struct bench_case *c;
  uint32_t batch; /* number of operations per sample; initially 1 */
  uint32_t round;
  uint64_t wrong;      /* number of wrong elements on this rank */
  uint64_t start, end; /* clock readings before and after the last sample's operations, in ns */
  double cpu_us;       /* CPU time of this process during the last sample's operations; 0 below 64 KiB */
  double
      sample_ns; /* time of a whole sample, with input and check: the last of bench_meter_warm; of the slowest rank */
};
/* Opens channels, warms caches and finds the batch size; *samples is the number of samples for options->time_ms. */
bool bench_meter_warm(struct bench_meter *m, const struct bench_options *options, uint32_t *samples);
/* Takes one sample; *ns is the time of all operations of the batch, on this rank. */
bool bench_meter_sample(struct bench_meter *m, double *ns);

struct bench_result {
  /* of the samples' times of one operation, on the slowest rank: median, 99th percentile, minimum, quartiles, mean, and
   * standard deviation (0 for a single sample) */
  double time_us, p99_us, min_us, q1_us, q3_us, mean_us, dev_us;
  double last_us; /* from the start of the last rank to the end of the last rank, per operation */
  double cpu_us;  /* CPU time of one operation, with that of the pool: median of the sums over all ranks */
  double *own_us; /* [ranks]: each rank's own median time per operation; malloc'ed */
  double algbw_gbs, busbw_gbs;
  uint64_t wrong; /* wrong elements in all checked operations of all ranks */
};

/* Returns the CPU time of all threads of this process: some libraries have threads of their own. */
double bench_cpu_us(void);
/* Returns the median; sorts the values. */
double bench_median(double *values, uint32_t count);

bool bench_measure(struct bench_side *side, const struct bench_case *c, const struct bench_options *options,
                   struct bench_result *result);

/* ---- the cost of waiting (bench_late.c) ---- */

struct bench_late {
  double time_us; /* time of one operation, on the rank that waited longest */
  double cpu_us;  /* CPU time of a process in one operation; the maximum of the waiting ranks */
};

/* Measures the cost of waiting: the last rank starts every operation options->late_ms late. */
bool bench_measure_late(struct bench_side *side, const struct bench_case *c, const struct bench_options *options,
                        struct bench_late *result);

/* ---- computing threads (bench_pool.c) ---- */

struct bench_pool;

/* Starts threads, which sleep at first. They have the CPUs of the caller. Returns NULL and sets errno if pthread_create
 * fails. */
struct bench_pool *bench_pool_create(uint32_t threads);
void bench_pool_destroy(struct bench_pool *pool); /* NULL: does nothing */
/* Lets the threads compute, or sleep after their current bursts. NULL: does nothing. */
void bench_pool_work(struct bench_pool *pool, bool works);
/* Returns the number of bursts that all threads have computed. NULL: returns 0. */
uint64_t bench_pool_bursts(struct bench_pool *pool);

/* ---- output (bench_print.c) ---- */

/* One item at one size, with its results. */
struct bench_row {
  tutti_collective collective;
  const char *algorithm; /* name of the algorithm or plan that was asked for; bench_side.automatic: none */
  const char *ran;       /* name of the algorithm or plan that ran */
  tutti_datatype type;
  tutti_op op;
  uint32_t ranks, root;
  size_t bytes, count;
  bool in_place; /* the form in place was measured, too */
  struct bench_result result, result_in_place;
  struct bench_late late; /* with options->late_ms, instead of `result` */
};

/* Prints what comes before all rows: the names of the fields of CSV. */
void bench_print_begin(const struct bench_options *options);
/* Prints what comes before the rows of an item: the names of the columns of the table. `algorithm`: as in bench_row. */
void bench_print_item(const struct bench_side *side, const struct bench_options *options, const struct bench_item *item,
                      const char *algorithm);
void bench_print_row(const struct bench_options *options, const struct bench_row *row);

/* ---- all items and sizes (bench_sweep.c) ---- */

/* Returns true if the size with this index must be measured. False if it has as many elements as the previous size; a
 * barrier is measured once. */
bool bench_size_counts(const struct bench_options *options, const struct bench_item *item, uint32_t ranks,
                       uint32_t index);

/* Measures every item at every size; rank 0 prints the results. Returns CLI_FAILED on an error or a wrong result. */
int bench_sweep(struct bench_side *side, const struct bench_options *options, const struct bench_item *items,
                uint32_t item_count);

/* ---- two ranks without a library (bench_pair.c) ---- */

/* Connects the two ranks of a job over TCP. Rank 0 listens on the IPv4 address and port in the environment variable.
 * Returns the exit status; reports errors. */
int bench_pair_connect(const char *program, const char *variable, uint32_t rank, uint32_t ranks, int *fd);
/* Sends and receives at the same time, without sleeping. Returns false if the other rank is gone. */
bool bench_pair_exchange(int fd, const void *out, size_t out_bytes, void *in, size_t in_bytes);

#endif
