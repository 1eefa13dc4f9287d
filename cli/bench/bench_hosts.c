/* bench_hosts.c: `tutti bench links --hosts`: measures, in a job on several hosts, what crosses between rank 0 and the
 * first rank of each other host. */
#include "cli/bench/bench_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "boot/identity.h"
#include "cli/json.h"
#include "comm/comm.h"
#include "mover/remote.h"
#include "plan/placement.h"

enum { WIRE_CHARS = 160, BYTES_MAX = 1 << 30 };

struct hosts_bench {
  struct bench_options sizes;
  bool chosen[HOSTS_TESTS];
  uint32_t time_ms, outstanding;
  bool json;
  tutti_comm *world;
  uint32_t rank, ranks;
  tutti_window *window;
  size_t stride;            /* distance between the buffers of a part of the window */
  char printed[WIRE_CHARS]; /* the wire of the rows that are printed */
  bool right;               /* no data was wrong */
};

static const char verb_name[] = "bench links";
static const char *const test_names[HOSTS_TESTS] = {"ping", "put", "get", "send", "both"};

/* ---- printing ---- */

/* The wire to a rank of another host, and, if it is a fabric, PROVIDER/DOMAIN. */
struct wire_name {
  const char *wire;
  char fabric[WIRE_CHARS - 16];
};

static struct wire_name name_of(const struct hosts_bench *b, uint32_t peer) {
  struct wire_name n = {.wire = "sockets"};
  if (tu_remote_fabric(b->world->transport, peer, n.fabric, sizeof n.fabric)) n.wire = "fabric";
  return n;
}

/* Prints a heading if the rank or the wire is not that of the row before. */
static void print_heading(struct hosts_bench *b, uint32_t peer, const struct wire_name *n) {
  char text[WIRE_CHARS];
  snprintf(text, sizeof text, "%u: %s%s%s", peer, n->wire, *n->fabric ? " " : "", n->fabric);
  if (strcmp(text, b->printed) == 0) return;
  snprintf(b->printed, sizeof b->printed, "%s", text);
  printf("# rank 0 with rank %s\n", text);
  printf("#%7s %12s %11s %11s %9s %11s %11s %7s\n", "test", "size", "time", "least", "bw", "cpu 0", "cpu peer",
         "#wrong");
  printf("#%7s %12s %11s %11s %9s %11s %11s\n", "", "(B)", "(us)", "(us)", "(GB/s)", "(us)", "(us)");
}

static void print_row(struct hosts_bench *b, uint32_t peer, enum hosts_test test, size_t bytes,
                      const struct hosts_row *r) {
  const struct wire_name n = name_of(b, peer);
  const double gbs = (double)bytes / 1000 / r->us;
  if (b->json) {
    json_print_head("bench");
    printf(
        ", \"links\": \"hosts\", \"test\": \"%s\", \"rank\": 0, \"peer\": %u, \"wire\": \"%s\", \"fabric\": \"%s\", "
        "\"bytes\": %zu, \"time_us\": %.3f, \"time_us_min\": %.3f, \"gbs\": %.6g, \"cpu_us\": %.3f, "
        "\"cpu_us_peer\": %.3f, \"wrong\": %.0f}\n",
        test_names[test], peer, n.wire, n.fabric, bytes, r->us, r->us_min, gbs, r->cpu_us, r->peer_us, r->wrong);
  } else {
    print_heading(b, peer, &n);
    printf("%8s %12zu %11.2f %11.2f %9.3f %11.2f %11.2f %7.0f\n", test_names[test], bytes, r->us, r->us_min, gbs,
           r->cpu_us, r->peer_us, r->wrong);
  }
  fflush(stdout);
}

/* ---- running as a rank ---- */

/* Measures rank 0 with the peer. Collective: the other ranks wait. */
static tutti_err measure_pair(struct hosts_bench *b, uint32_t peer) {
  const bool plays = b->rank == 0 || b->rank == peer;
  struct hosts_end e = {.world = b->world,
                        .leads = b->rank == 0,
                        .peer = b->rank == 0 ? peer : 0,
                        .outstanding = b->outstanding,
                        .time_ms = b->time_ms,
                        .own = tutti_window_address(b->window, b->rank),
                        .stride = b->stride};
  e.others = tutti_window_address(b->window, e.peer);
  tutti_err err = plays ? tutti_session_create(&e.session) : TUTTI_OK;
  for (uint32_t t = 0; t < HOSTS_TESTS && err == TUTTI_OK; t++)
    for (uint32_t i = 0; b->chosen[t] && i < b->sizes.size_count && err == TUTTI_OK; i++) {
      struct hosts_row row = {0};
      if (plays) err = hosts_measure(&e, (enum hosts_test)t, b->sizes.sizes[i], &row);
      if (err == TUTTI_OK && b->rank == 0) print_row(b, peer, (enum hosts_test)t, b->sizes.sizes[i], &row);
      b->right &= row.wrong == 0;
      if (err == TUTTI_OK) err = tutti_barrier(b->world);
    }
  const tutti_err freed = tutti_session_free(e.session);
  return err == TUTTI_OK ? freed : err;
}

static uint32_t first_rank(const struct tu_placement *p, uint32_t host) {
  const uint32_t position = tu_placement_first(p, host);
  return p->order ? p->order[position] : position;
}

/* Measures rank 0 with the first rank of each other host. The buffers are from tutti_alloc, so that a fabric reads long
 * messages where they lie. */
static tutti_err measure_all(struct hosts_bench *b) {
  const struct tu_placement *p = b->world->placement;
  bool plays = false;
  b->stride = tu_round_up(b->sizes.sizes[b->sizes.size_count - 1], 4096);
  for (uint32_t h = 0; h < p->hosts; h++) plays |= first_rank(p, h) == b->rank;
  const size_t bytes = plays ? 2 * HOSTS_BUFFERS * b->stride : 0;
  void *memory;
  tutti_err err = tutti_alloc(b->world, bytes, &memory);
  if (err == TUTTI_OK) err = tutti_window_create(b->world, memory, bytes, &b->window);
  if (err != TUTTI_OK) return err;
  for (uint32_t h = 0; h < p->hosts && err == TUTTI_OK; h++)
    if (first_rank(p, h) != 0) err = measure_pair(b, first_rank(p, h));
  if (err != TUTTI_OK) tutti_abort(b->world, "a call of the benchmark has failed"); /* no rank waits for this one */
  tutti_err freed = tutti_window_free(b->window);
  if (freed == TUTTI_OK) freed = tutti_free(b->world, memory);
  return err == TUTTI_OK ? freed : err;
}

static int run_rank(struct hosts_bench *b, uint32_t wanted) {
  if (tutti_init(NULL, &b->world) != TUTTI_OK) return cli_fail(verb_name, CLI_FAILED, "%s", tutti_error_message(NULL));
  b->rank = tutti_rank(b->world);
  b->ranks = tutti_ranks(b->world);
  b->right = true;
  const bool quiet = b->rank > 0;
  int code = CLI_GOOD;
  if (wanted > 0 && wanted != b->ranks)
    code = quiet ? CLI_USAGE
                 : cli_fail(verb_name, CLI_USAGE, "-n %u is given, but this job has %u ranks; omit -n within a job",
                            wanted, b->ranks);
  else if (!b->world->placement)
    code = quiet
               ? CLI_USAGE
               : cli_fail(verb_name, CLI_USAGE,
                          "--hosts: expected a job on 2 or more hosts, but all %u ranks run on one; start it by tutti "
                          "run --hosts A:1,B:1 -- tutti bench links --hosts",
                          b->ranks);
  if (code == CLI_GOOD && measure_all(b) != TUTTI_OK)
    code = quiet ? CLI_FAILED : cli_fail(verb_name, CLI_FAILED, "%s", tutti_error_message(NULL));
  if (code == CLI_GOOD && !b->right) code = CLI_FAILED;
  const tutti_err err = tutti_comm_free(b->world);
  if (err != TUTTI_OK && code == CLI_GOOD)
    code = cli_fail(verb_name, CLI_FAILED, "tutti_comm_free failed on rank %u: %s", b->rank, tutti_error_message(NULL));
  return code;
}

/* ---- options ---- */

static bool choose(const char *word, bool chosen[HOSTS_TESTS]) {
  for (uint32_t t = 0; t < HOSTS_TESTS; t++) {
    if (strcmp(word, test_names[t]) != 0) continue;
    chosen[t] = true;
    return true;
  }
  return false;
}

static int read_tests(const char *text, bool chosen[HOSTS_TESTS]) {
  char copy[128];
  bool good = snprintf(copy, sizeof copy, "%s", text) < (int)sizeof copy;
  for (char *word = copy, *next; word && good; word = next) {
    next = strchr(word, ',');
    if (next) *next++ = '\0';
    good = choose(word, chosen);
  }
  if (good) return CLI_GOOD;
  return cli_fail(verb_name, CLI_USAGE, "--tests: expected names among ping, put, get, send and both, found '%s'",
                  text);
}

static int read_options(int argc, char **argv, struct hosts_bench *b, uint32_t *ranks, bool *done) {
  static const struct cli_verb verb = {.name = verb_name,
                                       .summary = "measure what crosses between hosts",
                                       .synopsis = "bench links --hosts [options]   (within a job on several hosts)"};
  const char *sizes = "8,64,1K,8K,64K,256K,1M,4M,16M", *tests = "ping,put,get,send,both";
  bool hosts = false;
  const struct cli_option table[] = {
      {"--hosts", CLI_FLAG, &hosts, NULL, "measure rank 0 with the first rank of each other host"},
      {"-n", CLI_UINT, ranks, "N", "the number of ranks of the job"},
      {"--bytes", CLI_STRING, &sizes, "LIST", "sizes (8,64,1K,8K,64K,256K,1M,4M,16M)"},
      {"--tests", CLI_STRING, &tests, "LIST", "what to measure (ping,put,get,send,both)"},
      {"--outstanding", CLI_UINT, &b->outstanding, "K", "puts or gets that are started before a wait (64)"},
      {"--time-ms", CLI_UINT, &b->time_ms, "T", "approximate time to measure each figure, in ms (100)"},
      {"--json", CLI_FLAG, &b->json, NULL, "print one JSON object per line"},
  };
  int code = cli_parse(&verb, table, sizeof table / sizeof *table, &argc, argv, done);
  if (code != CLI_GOOD || *done) return code;
  if (argc > 1) return cli_fail(verb_name, CLI_USAGE, "expected options only, found '%s'", argv[1]);
  if (b->outstanding == 0 || b->outstanding > HOSTS_OUTSTANDING_MAX)
    return cli_fail(verb_name, CLI_USAGE, "--outstanding: expected 1 to %d, found %u", HOSTS_OUTSTANDING_MAX,
                    b->outstanding);
  if ((code = read_tests(tests, b->chosen)) != CLI_GOOD) return code;
  if ((code = bench_read_sizes(verb_name, sizes, &b->sizes)) != CLI_GOOD) return code;
  if (b->sizes.sizes[0] == 0 || b->sizes.sizes[b->sizes.size_count - 1] > BYTES_MAX)
    return cli_fail(verb_name, CLI_USAGE, "--bytes: expected sizes from 1 byte to 1G, found '%s'", sizes);
  return CLI_GOOD;
}

int bench_hosts(int argc, char **argv) {
  static struct hosts_bench b = {.outstanding = HOSTS_OUTSTANDING_MAX, .time_ms = 100};
  struct tu_boot_identity identity;
  struct tu_error error;
  uint32_t ranks = 0;
  bool done;
  const int code = read_options(argc, argv, &b, &ranks, &done);
  if (code != CLI_GOOD || done) return code;
  if (tu_boot_identity_read(&identity, &error) != TUTTI_OK) return cli_fail(verb_name, CLI_USAGE, "%s", error.text);
  if (!identity.alone) return run_rank(&b, ranks);
  return cli_fail(verb_name, CLI_USAGE,
                  "--hosts: expected a job on 2 or more hosts, found no job; start it by tutti run --hosts A:1,B:1 -- "
                  "tutti bench links --hosts");
}
