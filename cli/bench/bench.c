/* bench.c: `tutti bench` measures collectives. Outside a job it starts its ranks with `tutti run`; inside a job it is
 * one of the ranks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/identity.h"
#include "cli/bench/bench.h"
#include "comm/comm.h"

/* ---- calls of the library ---- */

struct tutti_side {
  struct bench_side side;
  const char *verb;
  tutti_comm *world;
  tutti_plan *plan; /* plan given by the option --plan; NULL: option not given */
  tutti_call call;
  bool by_name, polls;
  struct bench_memory heap;
};

static struct tutti_side *self_of(struct bench_side *side) { return (struct tutti_side *)(void *)side; }

/* Returns true if err is TUTTI_OK; otherwise prints the error on rank 0 only, because all ranks get the same error. */
static bool check(struct tutti_side *s, tutti_err err) {
  if (err != TUTTI_OK && s->side.rank == 0) cli_fail(s->verb, CLI_FAILED, "%s", tutti_error_message(s->world));
  return err == TUTTI_OK;
}

static bool select_case(struct bench_side *side, const struct bench_case *c) {
  struct tutti_side *s = self_of(side);
  s->call = (tutti_call){
      .collective = c->collective,
      .send = c->in_data,
      .recv = c->out_data,
      .count = c->count,
      .type = c->type,
      .op = c->op,
      .root = c->root,
      .counts = c->counts,
      .recv_counts = c->counts,
      .scale = c->scale,
      .algorithm = c->planned ? NULL : c->algorithm,
      .plan = c->planned ? s->plan : NULL,
      .lanes = c->lanes,
  };
  s->by_name = !s->polls && !s->call.algorithm && !s->call.lanes && !s->call.plan && !s->call.counts &&
               c->collective != TUTTI_SEND && c->op != TUTTI_PREMUL_SUM;
  if (s->by_name && c->collective == TUTTI_BROADCAST) s->call.recv = c->rank == c->root ? c->in_data : c->out_data;
  else if (c->collective == TUTTI_BROADCAST && c->rank == c->root && c->in_place) s->call.recv = NULL;
  if (c->collective == TUTTI_SEND) {
    s->call.collective = c->rank == c->root ? TUTTI_SEND : TUTTI_RECV;
    s->call.peer = 1 - c->rank;
  }
  return true;
}

static const char *chosen(struct bench_side *side) {
  struct tutti_side *s = self_of(side);
  const char *algorithm;
  return check(s, tutti_query_call(s->world, &s->call, &algorithm, NULL)) ? algorithm : NULL;
}

/* Calls the collective by its named function, such as tutti_allreduce, as applications do. */
static tutti_err call_by_name(tutti_comm *comm, const tutti_call *c) {
  switch (c->collective) {
    case TUTTI_ALLREDUCE: return tutti_allreduce(comm, c->send, c->recv, c->count, c->type, c->op);
    case TUTTI_REDUCE: return tutti_reduce(comm, c->send, c->recv, c->count, c->type, c->op, c->root);
    case TUTTI_BROADCAST: return tutti_broadcast(comm, c->recv, c->count, c->type, c->root);
    case TUTTI_GATHER: return tutti_gather(comm, c->send, c->recv, c->count, c->type, c->root);
    case TUTTI_SCATTER: return tutti_scatter(comm, c->send, c->recv, c->count, c->type, c->root);
    case TUTTI_ALLGATHER: return tutti_allgather(comm, c->send, c->recv, c->count, c->type);
    case TUTTI_REDUCE_SCATTER: return tutti_reduce_scatter(comm, c->send, c->recv, c->count, c->type, c->op);
    case TUTTI_ALLTOALL: return tutti_alltoall(comm, c->send, c->recv, c->count, c->type);
    case TUTTI_SCAN: return tutti_scan(comm, c->send, c->recv, c->count, c->type, c->op);
    case TUTTI_EXSCAN: return tutti_exscan(comm, c->send, c->recv, c->count, c->type, c->op);
    default: return tutti_barrier(comm);
  }
}

static bool operate(struct bench_side *side) {
  struct tutti_side *s = self_of(side);
  if (s->by_name) return check(s, call_by_name(s->world, &s->call));
  if (!s->polls) return check(s, tutti_run_call(s->world, &s->call));
  tutti_request *request = NULL;
  tutti_err err = tutti_start(s->world, &s->call, &request);
  for (bool done = false; err == TUTTI_OK && !done;) err = tutti_test(&request, &done);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  return check(s, err);
}

static bool barrier(struct bench_side *side) {
  struct tutti_side *s = self_of(side);
  return check(s, tutti_barrier(s->world));
}

static bool combine(struct bench_side *side, double *values, int count, tutti_op op) {
  struct tutti_side *s = self_of(side);
  return check(s, tutti_allreduce(s->world, values, values, (size_t)count, TUTTI_F64, op));
}

static void *acquire(void *context, size_t bytes) {
  void *memory;
  return tutti_alloc(context, bytes, &memory) == TUTTI_OK ? memory : NULL;
}

static void release(void *context, void *memory) { (void)tutti_free(context, memory); }

/* ---- running as a rank, and starting ranks ---- */

struct bench_side *bench_open(const char *verb, tutti_parallel parallel) {
  struct tutti_side *s = tu_allocate(1, sizeof *s);
  *s = (struct tutti_side){.side = {.automatic = "auto",
                                    .in_place = true,
                                    .shares = true,
                                    .select = select_case,
                                    .operate = operate,
                                    .barrier = barrier,
                                    .combine = combine,
                                    .chosen = chosen},
                           .verb = verb};
  if (tutti_init(&(tutti_options){.parallel = parallel}, &s->world) != TUTTI_OK) {
    cli_fail(verb, CLI_FAILED, "%s", tutti_error_message(NULL));
    free(s);
    return NULL;
  }
  s->side.rank = tutti_rank(s->world);
  s->side.ranks = tutti_ranks(s->world);
  s->side.placement = s->world->placement;
  return &s->side;
}

int bench_close(struct bench_side *side, int code) {
  struct tutti_side *s = self_of(side);
  tutti_err err = tutti_comm_free(s->world);
  if (err != TUTTI_OK && code == CLI_GOOD)
    code =
        cli_fail(s->verb, CLI_FAILED, "tutti_comm_free failed on rank %u: %s", side->rank, tutti_error_message(NULL));
  free(s);
  return code;
}

static int load_plan(const struct bench_options *options, bool quiet, tutti_plan **plan) {
  *plan = NULL;
  if (!options->plan_path || tutti_plan_load(options->plan_path, plan) == TUTTI_OK) return CLI_GOOD;
  return quiet ? CLI_FAILED : cli_fail("bench", CLI_FAILED, "--plan: %s", tutti_error_message(NULL));
}

static int count_ranks(const struct bench_options *options, uint32_t ranks, bool quiet) {
  if (!options->ranks || options->ranks == ranks) return CLI_GOOD;
  if (quiet) return CLI_USAGE;
  if (options->plan)
    return cli_fail("bench", CLI_USAGE, "--plan: the plan is for %u ranks, but this job has %u", options->ranks, ranks);
  return cli_fail("bench", CLI_USAGE, "-n %u is given, but this job has %u ranks; omit -n within a job", options->ranks,
                  ranks);
}

static int run_rank(struct bench_options *options) {
  tutti_parallel parallel = {0};
  struct bench_team *team = options->threads > 1 ? bench_team_create(options->threads, &parallel) : NULL;
  if (options->threads > 1 && !team)
    return cli_fail("bench", CLI_FAILED, "--threads: cannot start %u threads: %s", options->threads, strerror(errno));
  struct bench_side *side = bench_open("bench", parallel);
  if (!side) {
    bench_team_destroy(team);
    return CLI_FAILED;
  }
  struct tutti_side *s = self_of(side);
  s->polls = options->poll;
  s->heap = (struct bench_memory){s->world, acquire, release};
  if (options->heap) options->memory = &s->heap;
  options->placement = side->placement;
  bool quiet = side->rank != 0;
  struct bench_item *items = NULL;
  uint32_t item_count;
  int code = count_ranks(options, side->ranks, quiet);
  if (code == CLI_GOOD) code = load_plan(options, quiet, &s->plan);
  if (code == CLI_GOOD) code = bench_list_items("bench", options, side->ranks, quiet, &items, &item_count);
  if (code == CLI_GOOD) code = bench_sweep(side, options, items, item_count);
  free(items);
  tutti_plan_free(s->plan);
  code = bench_close(side, code);
  bench_team_destroy(team);
  return code;
}

static int launch(const struct bench_options *options, int argc, char **argv) {
  /* Before any rank starts, check that all items (collectives and algorithms) can run on this number of ranks. */
  struct bench_item *items;
  uint32_t item_count;
  int code = bench_list_items("bench", options, options->ranks, false, &items, &item_count);
  if (code != CLI_GOOD) return code;
  free(items);
  tutti_plan *plan;
  if ((code = load_plan(options, false, &plan)) != CLI_GOOD) return code;
  tutti_plan_free(plan);
  return bench_launch("bench", options->ranks, options->bind, argc, argv);
}

static int run(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "kernels") == 0) return bench_kernels(argc - 1, argv + 1);
  if (argc > 1 && strcmp(argv[1], "tensor") == 0) return bench_tensor(argc - 1, argv + 1);
  if (argc > 1 && strcmp(argv[1], "onesided") == 0) return bench_onesided(argc, argv);
  if (argc > 1 && strcmp(argv[1], "comm") == 0) return bench_comm(argc, argv);
  if (argc > 1 && strcmp(argv[1], "links") == 0) return bench_links(argc, argv);
  /* cli_parse reorders its arguments. Parse a copy, so that the ranks get the original arguments. */
  char **copy = tu_allocate((size_t)argc + 1, sizeof *copy);
  memcpy(copy, argv, (size_t)argc * sizeof *copy);
  struct bench_options options = {0};
  bool done;
  int code = bench_read_options(&cli_bench, argc, copy, &options, &done);
  struct tu_boot_identity identity;
  struct tu_error error;
  if (code == CLI_GOOD && !done && tu_boot_identity_read(&identity, &error) != TUTTI_OK)
    code = cli_fail("bench", CLI_USAGE, "%s", error.text);
  if (code == CLI_GOOD && !done && identity.alone && options.ranks == 0)
    code = cli_fail("bench", CLI_USAGE, "-n: expected the number of ranks to start, found none");
  if (code == CLI_GOOD && !done) code = identity.alone ? launch(&options, argc, argv) : run_rank(&options);
  bench_options_fini(&options);
  free(copy);
  return code;
}

const struct cli_verb cli_bench = {
    .name = "bench",
    .summary = "measure collectives, and check their results",
    .synopsis =
        "bench [COLLECTIVE[.NAME|.all] ...] -n N [options], or bench --plan FILE [options], or bench kernels "
        "[options], bench tensor [options], bench onesided -n N [options], bench comm -n N [options], or bench links "
        "[-n N] [options] or --hosts [options]",
    .run = run,
    .arguments = "COLLECTIVE|ALGORITHM",
    .parts = "kernels|tensor|onesided|comm|links",
};
