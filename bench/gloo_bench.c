/* gloo_bench.c: measures Gloo with the benchmark of tutti: same command line, buffers, loop, checks and output.
 * bench-peers builds and runs it. To run it by hand:
 *   mkdir meet; GLOO_FOLDER=meet tutti run -n 2 -- gloo_bench allreduce --bytes 8:64K
 * The environment variable GLOO_SETTING is default, bcube or sync; see gloo_side.h. GLOO_INTERFACE: the network
 * interface, loopback by default. */
#include <stdlib.h>
#include <string.h>

#include "bench/core/core.h"
#include "boot/identity.h"
#include "gloo_side.h"

struct side {
  struct bench_side side;
  struct gloo_side *gloo;
};

static struct gloo_side *gloo_of(struct bench_side *side) { return ((struct side *)(void *)side)->gloo; }

static bool select_case(struct bench_side *side, const struct bench_case *c) {
  bool from_here = c->collective == TUTTI_BROADCAST && c->rank == c->root;
  const struct gloo_call call = {.collective = c->collective,
                                 .in = c->in_data,
                                 .out = from_here ? c->in_data : c->out_data,
                                 .count = c->count,
                                 .root = c->root};
  return gloo_side_prepare(gloo_of(side), &call);
}

static bool operate(struct bench_side *side) { return gloo_side_run(gloo_of(side)); }
static bool barrier(struct bench_side *side) { return gloo_side_barrier(gloo_of(side)); }

static bool combine(struct bench_side *side, double *values, int count, tutti_op op) {
  return gloo_side_combine(gloo_of(side), values, count, op == TUTTI_SUM);
}

/* Checks that the options are supported: nine collectives, type f32, operation sum. */
static int check_options(const struct bench_options *options, const struct bench_item *items, uint32_t count) {
  if (options->plan || options->type != TUTTI_F32 || options->op != TUTTI_SUM)
    return cli_fail("gloo_bench", CLI_USAGE, "--dtype, --op, --plan: expected f32, sum and no plan");
  for (uint32_t i = 0; i < count; i++)
    if (items[i].collective > TUTTI_BARRIER)
      return cli_fail("gloo_bench", CLI_USAGE,
                      "expected allreduce, reduce, broadcast, allgather, reduce_scatter, "
                      "alltoall, gather, scatter or barrier");
  return CLI_GOOD;
}

static int run_rank(struct side *s, const struct bench_options *options, const char *folder,
                    enum gloo_setting setting) {
  struct bench_item *items;
  uint32_t item_count;
  int code = bench_list_items("gloo_bench", options, s->side.ranks, s->side.rank != 0, &items, &item_count);
  if (code != CLI_GOOD) return code;
  code = check_options(options, items, item_count);
  if (code == CLI_GOOD) {
    s->gloo = gloo_side_open(folder, getenv("GLOO_INTERFACE"), s->side.rank, s->side.ranks, setting);
    code = s->gloo ? bench_sweep(&s->side, options, items, item_count) : CLI_FAILED;
    gloo_side_close(s->gloo);
  }
  free(items);
  return code;
}

static bool read_setting(enum gloo_setting *setting) {
  static const char *const names[] = {[GLOO_DEFAULT] = "default", [GLOO_BCUBE] = "bcube", [GLOO_SYNC] = "sync"};
  const char *wanted = getenv("GLOO_SETTING");
  for (int i = GLOO_DEFAULT; i <= GLOO_SYNC; i++) {
    *setting = (enum gloo_setting)i;
    if (!wanted || strcmp(wanted, names[i]) == 0) return true;
  }
  return false;
}

static int run(int argc, char **argv) {
  const struct cli_verb self = {.name = "gloo_bench",
                                .summary = "measure the collectives of Gloo in the way of tutti bench",
                                .synopsis = "gloo_bench [COLLECTIVE ...] [options]   (started by tutti run)",
                                .run = run};
  struct bench_options options;
  bool done;
  int code = bench_read_options(&self, argc, argv, &options, &done);
  if (code != CLI_GOOD || done) return code;
  if (options.poll) return cli_fail("gloo_bench", CLI_USAGE, "--poll: not supported with Gloo");
  if (options.lanes) return cli_fail("gloo_bench", CLI_USAGE, "--lanes: not supported with Gloo");
  struct side s = {
      .side = {.automatic = "gloo", .select = select_case, .operate = operate, .barrier = barrier, .combine = combine}};
  const char *folder = getenv("GLOO_FOLDER");
  struct tu_boot_identity identity;
  struct tu_error error;
  if (tu_boot_identity_read(&identity, &error) != TUTTI_OK) return cli_fail("gloo_bench", CLI_USAGE, "%s", error.text);
  if (identity.alone || !folder)
    return cli_fail("gloo_bench", CLI_USAGE, "start it with tutti run, and set GLOO_FOLDER to an empty folder");
  enum gloo_setting setting;
  if (!read_setting(&setting))
    return cli_fail("gloo_bench", CLI_USAGE, "GLOO_SETTING: expected default, bcube or sync, found '%s'",
                    getenv("GLOO_SETTING"));
  s.side.rank = identity.rank;
  s.side.ranks = identity.ranks;
  return run_rank(&s, &options, folder, setting);
}

int main(int argc, char **argv) { return run(argc, argv); }
