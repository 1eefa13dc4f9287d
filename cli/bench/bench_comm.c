/* bench_comm.c: `tutti bench comm`: measures the cost of a communicator that is used for one call: a dup, one
 * allreduce, and a free. Every result is checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/identity.h"
#include "cli/bench/bench.h"
#include "cli/json.h"
#include "comm/comm.h"

enum { SAMPLES_MIN = 20, SAMPLES_MAX = 20000, WARM = 20, RANKS_MAX = 1024, ALIVE_MAX = 100000 };
enum part { DUP, CALL, FREE, TOGETHER, PARTS };

struct comm_bench {
  struct bench_options sizes;
  uint32_t time_ms, alive;
  bool json;
  tutti_comm *world;
  tutti_comm **others; /* [alive]: communicators that stay open during the measurement */
  uint32_t rank, ranks;
  /* [SAMPLES_MAX] each: samples of the time of each part (dup, call, free) and of all together, in us */
  double *us[PARTS];
};

struct row {
  size_t bytes;
  /* us: median time of each part, in us; p99_us: 99th percentile of the time of all parts together, in us */
  double us[PARTS], p99_us;
  double shared_bytes; /* bytes of shared memory that one communicator takes from this rank's slice */
  double wrong;        /* number of wrong elements */
};

static const char verb_name[] = "bench comm";

static bool good(tutti_err err) {
  if (err != TUTTI_OK) cli_fail(verb_name, CLI_FAILED, "%s", tutti_error_message(NULL));
  return err == TUTTI_OK;
}

static size_t count_wrong(const float *data, size_t count, float wanted) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; i++) wrong += data[i] != wanted;
  return wrong;
}

/* Creates, uses and frees one communicator. us[part] receives the time of each part, in us; us may be NULL. */
static bool live(const struct comm_bench *b, float *data, struct row *row, double *us) {
  size_t count = row->bytes / sizeof *data, free_bytes = tu_transport_free_bytes(b->world->transport);
  for (size_t i = 0; i < count; i++) data[i] = (float)(b->rank + 1);
  tutti_comm *comm;
  if (!good(tutti_barrier(b->world))) return false;
  uint64_t began = tu_clock_ns();
  if (!good(tutti_comm_dup(b->world, &comm))) return false;
  uint64_t made = tu_clock_ns();
  if (!good(tutti_allreduce(comm, TUTTI_IN_PLACE, data, count, TUTTI_F32, TUTTI_SUM))) return false;
  uint64_t called = tu_clock_ns();
  row->shared_bytes = (double)(free_bytes - tu_transport_free_bytes(b->world->transport));
  uint64_t counted = tu_clock_ns();
  if (!good(tutti_comm_free(comm))) return false;
  uint64_t ended = tu_clock_ns();
  row->wrong += (double)count_wrong(data, count, (float)b->ranks * (float)(b->ranks + 1) / 2);
  if (!us) return true;
  us[DUP] = (double)(made - began) / 1e3;
  us[CALL] = (double)(called - made) / 1e3;
  us[FREE] = (double)(ended - counted) / 1e3;
  us[TOGETHER] = us[DUP] + us[CALL] + us[FREE];
  return true;
}

/* Warms up with WARM communicators. From their mean time on the slowest rank, computes how many samples fit into the
 * time limit. */
static bool warm(const struct comm_bench *b, float *data, struct row *row, uint32_t *samples) {
  uint64_t began = tu_clock_ns();
  for (int i = 0; i < WARM; i++)
    if (!live(b, data, row, NULL)) return false;
  double ns = (double)(tu_clock_ns() - began) / WARM;
  if (!good(tutti_allreduce(b->world, TUTTI_IN_PLACE, &ns, 1, TUTTI_F64, TUTTI_MAX))) return false;
  double fit = b->time_ms * 1e6 / ns;
  *samples = fit < SAMPLES_MIN ? SAMPLES_MIN : fit > SAMPLES_MAX ? SAMPLES_MAX : (uint32_t)fit;
  return true;
}

static bool measure(struct comm_bench *b, float *data, struct row *row) {
  uint32_t samples;
  if (!warm(b, data, row, &samples)) return false;
  for (uint32_t i = 0; i < samples; i++) {
    double us[PARTS];
    if (!live(b, data, row, us)) return false;
    for (int part = 0; part < PARTS; part++) b->us[part][i] = us[part];
  }
  for (int part = 0; part < PARTS; part++) row->us[part] = bench_median(b->us[part], samples);
  row->p99_us = b->us[TOGETHER][(samples - 1) * 99 / 100];
  double most[] = {row->us[DUP], row->us[CALL], row->us[FREE], row->us[TOGETHER], row->p99_us, row->shared_bytes};
  if (!good(tutti_allreduce(b->world, TUTTI_IN_PLACE, most, 6, TUTTI_F64, TUTTI_MAX))) return false;
  if (!good(tutti_allreduce(b->world, TUTTI_IN_PLACE, &row->wrong, 1, TUTTI_F64, TUTTI_SUM))) return false;
  memcpy(row->us, most, sizeof row->us);
  row->p99_us = most[4];
  row->shared_bytes = most[5];
  return true;
}

static void print_head(const struct comm_bench *b) {
  printf(
      "# tutti_comm_dup, an allreduce of f32, tutti_comm_free: %u ranks, %u other communicators alive; microseconds\n"
      "#%11s %9s %9s %9s %9s %9s %9s %7s\n",
      b->ranks, b->alive, "size", "dup", "call", "free", "together", "p99", "KiB", "#wrong");
}

static void print_row(const struct comm_bench *b, const struct row *r) {
  double kib = r->shared_bytes / 1024;
  if (b->json) json_print_head("bench");
  if (b->json)
    printf(
        ", \"ranks\": %u, \"alive\": %u, \"bytes\": %zu, \"dup_us\": %.2f, \"call_us\": %.2f, \"free_us\": %.2f, "
        "\"together_us\": %.2f, \"together_us_p99\": %.2f, \"shared_kib\": %.0f, \"wrong\": %.0f}\n",
        b->ranks, b->alive, r->bytes, r->us[DUP], r->us[CALL], r->us[FREE], r->us[TOGETHER], r->p99_us, kib, r->wrong);
  else
    printf("%12zu %9.2f %9.2f %9.2f %9.2f %9.2f %9.0f %7.0f\n", r->bytes, r->us[DUP], r->us[CALL], r->us[FREE],
           r->us[TOGETHER], r->p99_us, kib, r->wrong);
  fflush(stdout);
}

static bool measure_sizes(struct comm_bench *b) {
  bool right = true;
  for (uint32_t i = 0; i < b->sizes.size_count; i++) {
    struct row row = {.bytes = tu_max(b->sizes.sizes[i] / sizeof(float), 1) * sizeof(float)};
    float *data = aligned_alloc(4096, tu_round_up(row.bytes, 4096));
    if (!data) {
      cli_fail(verb_name, CLI_FAILED, "out of memory: cannot allocate %zu bytes; give a smaller size with --bytes",
               row.bytes);
      return false;
    }
    bool done = measure(b, data, &row);
    free(data);
    if (!done) return false;
    if (b->rank == 0) print_row(b, &row);
    right &= row.wrong == 0;
  }
  return right;
}

/* Creates the communicators that stay open during the measurement, and uses each of them once. */
static bool make_others(struct comm_bench *b) {
  for (uint32_t i = 0; i < b->alive; i++) {
    double one = 1;
    if (!good(tutti_comm_dup(b->world, &b->others[i]))) return false;
    if (!good(tutti_allreduce(b->others[i], TUTTI_IN_PLACE, &one, 1, TUTTI_F64, TUTTI_SUM))) return false;
  }
  return true;
}

static int run_rank(struct comm_bench *b, uint32_t ranks) {
  if (!good(tutti_init(NULL, &b->world))) return CLI_FAILED;
  b->rank = tutti_rank(b->world);
  b->ranks = tutti_ranks(b->world);
  int code = CLI_GOOD;
  if (ranks && ranks != b->ranks)
    code = b->rank ? CLI_USAGE
                   : cli_fail(verb_name, CLI_USAGE, "-n %u is given, but this job has %u ranks; omit -n within a job",
                              ranks, b->ranks);
  if (code == CLI_GOOD) {
    for (int part = 0; part < PARTS; part++) b->us[part] = tu_allocate(SAMPLES_MAX, sizeof(double));
    b->others = tu_allocate((size_t)b->alive + 1, sizeof(tutti_comm *));
    if (b->rank == 0 && !b->json) print_head(b);
    if (!make_others(b) || !measure_sizes(b)) code = CLI_FAILED;
    for (uint32_t i = 0; i < b->alive; i++)
      if (!good(tutti_comm_free(b->others[i]))) code = CLI_FAILED;
    for (int part = 0; part < PARTS; part++) free(b->us[part]);
    free(b->others);
  }
  return good(tutti_comm_free(b->world)) ? code : CLI_FAILED;
}

static int read_options(const struct cli_verb *verb, int argc, char **argv, struct comm_bench *b, uint32_t *ranks,
                        const char **bind, bool *done) {
  const char *sizes = "8,4K,64K,1M";
  const struct cli_option table[] = {
      {"-n", CLI_UINT, ranks, "N", "ranks to start (2)"},
      {"--bytes", CLI_STRING, &sizes, "LIST", "bytes of each rank's input (8,4K,64K,1M)"},
      {"--alive", CLI_UINT, &b->alive, "A", "other communicators that stay alive, each used once (0)"},
      {"--time-ms", CLI_UINT, &b->time_ms, "T", "approximate time to measure each size, in ms (200)"},
      {"--bind", CLI_STRING, bind, "core|none", "bind each rank to one CPU, as tutti run does (none)"},
      {"--json", CLI_FLAG, &b->json, NULL, "print one JSON object per line"},
  };
  int code = cli_parse(verb, table, sizeof table / sizeof table[0], &argc, argv, done);
  if (code != CLI_GOOD || *done) return code;
  if (argc > 1) return cli_fail(verb->name, CLI_USAGE, "expected options only, found '%s'", argv[1]);
  if (*ranks > RANKS_MAX)
    return cli_fail(verb->name, CLI_USAGE, "-n: expected 1 to %d ranks, found %u", RANKS_MAX, *ranks);
  if (b->alive > ALIVE_MAX)
    return cli_fail(verb->name, CLI_USAGE, "--alive: expected 0 to %d communicators, found %u", ALIVE_MAX, b->alive);
  if (strcmp(*bind, "core") != 0 && strcmp(*bind, "none") != 0)
    return cli_fail(verb->name, CLI_USAGE, "--bind: expected 'core' or 'none', found '%s'", *bind);
  return bench_read_sizes(verb->name, sizes, &b->sizes);
}

int bench_comm(int argc, char **argv) {
  static const struct cli_verb verb = {
      .name = verb_name,
      .summary = "measure communicators that are used for one call: dup, one allreduce, free",
      .synopsis = "bench comm -n N [options]",
  };
  /* cli_parse reorders its arguments. Parse a copy, so that the ranks get the original arguments. */
  char **copy = tu_allocate((size_t)argc, sizeof *copy);
  memcpy(copy, argv + 1, (size_t)(argc - 1) * sizeof *copy);
  struct comm_bench b = {.time_ms = 200};
  const char *bind = "none";
  uint32_t ranks = 0;
  bool done;
  struct tu_boot_identity identity;
  struct tu_error error;
  int code = read_options(&verb, argc - 1, copy, &b, &ranks, &bind, &done);
  free(copy);
  if (code != CLI_GOOD || done) return code;
  if (tu_boot_identity_read(&identity, &error) != TUTTI_OK) return cli_fail(verb.name, CLI_USAGE, "%s", error.text);
  if (!identity.alone) return run_rank(&b, ranks);
  return bench_launch("bench", ranks ? ranks : 2, bind, argc, argv);
}
