/* test: slow timeout=300 */
/* plans_test.c: user-defined plans between real processes. MSCCL algorithms and plans in text form give correct results
 * with every type and operation. Ranks with different plans get an error, and so do calls for which a plan is not
 * made. */
#include <fcntl.h>

#include "algo/algo.h"
#include "base/text.h"
#include "ranks.h"
#include "reference.h"
#include "test.h"

#define EXAMPLES SOURCE_DIR "/tests/fuzz_seeds/msccl/"
static tutti_comm *world;
static uint64_t wrong;

static bool complain(tutti_err err, const char *what) {
  if (err == TUTTI_OK) return false;
  printf("rank %u: %s: %s: %s; %s\n", tutti_rank(world), what, tutti_err_name(err), tutti_error_message(world),
         tutti_error_message(NULL));
  wrong++;
  return true;
}

/* ---- correct results ---- */

static tutti_err call_and_wait(const tutti_call *call) {
  tutti_request *request;
  tutti_err err = tutti_start(world, call, &request);
  return err != TUTTI_OK ? err : tutti_wait(&request);
}

static bool run_case(const struct ref_case *c, const tutti_plan *plan) {
  struct ref_run run;
  char text[768];
  ref_run_init(&run, c, tutti_rank(world));
  run.call.plan = plan;
  ref_fill(&run);
  ref_want(&run);
  if (complain(call_and_wait(&run.call), "a call")) return false;
  if (!ref_agrees(&run, text, sizeof text) && wrong++ < 10) printf("%s\n", text);
  ref_run_fini(&run);
  return true;
}

/* Runs a plan file with counts below and above its number of chunks, and longer than a ring. The file names its
 * collective. */
static bool run_cases(const char *path) {
  static const size_t counts[] = {0, 1, 5, 64, 1001, 300007};
  struct tu_plan *p;
  tutti_plan *plan;
  char *data;
  size_t bytes;
  struct tu_error error;
  if (tu_read_file(path, &data, &bytes, &error) != TUTTI_OK ||
      tu_plan_read_any(data, bytes, path, false, &p, &error) != TUTTI_OK) {
    printf("%s\n", error.text);
    return false;
  }
  free(data);
  if (complain(tutti_plan_load(path, &plan), "loading")) return false;
  bool good = true;
  uint32_t ops = ref_reduces(p->collective) ? REF_OPS : 1;
  for (size_t k = 0; good && k < sizeof counts / sizeof counts[0]; k++) {
    for (uint32_t type = 0; good && type < REF_TYPES; type++) {
      for (uint32_t op = 0; good && op < ops; op++) {
        struct ref_case c = {
            .collective = p->collective,
            .type = ref_types[type],
            .op = op,
            .count = counts[k],
            .aliasing = p->in_place ? REF_SAME_POINTER + op % 2 : REF_APART,
            .root = p->root,
            .ranks = p->ranks,
            .seed = ref_mix(k * 1000 + type) & ~(1ull << 40)}; /* clears bit 40, so that unused buffers are not NULL */
        bool large = counts[k] > 5000 && (type != TUTTI_F32 || op != TUTTI_SUM);
        if (large || op == REF_AFFINE || !ref_valid(&c)) continue;
        good = run_case(&c, plan);
      }
    }
  }
  tutti_plan_free(plan);
  tu_plan_destroy(p);
  return good;
}

/* ---- requests, and the lifetime of plans ---- */

/* A plan may be freed while requests are open. The same content loaded again is the same plan. */
static void run_lives(const char *path) {
  int32_t in[2][40], out[2][40];
  uint32_t rank = tutti_rank(world), ranks = tutti_ranks(world);
  tutti_request *kept = NULL, *request;
  for (int round = 0; round < 20; round++) {
    tutti_plan *plan;
    if (complain(tutti_plan_load(path, &plan), "loading")) return;
    tutti_call call = {.collective = TUTTI_ALLREDUCE, .count = 40, .type = TUTTI_I32, .plan = plan};
    for (int i = 0; i < 40; i++) in[0][i] = in[1][i] = (int32_t)rank * 1000 + i + round;
    call.send = in[0], call.recv = out[0];
    if (round == 0 && complain(tutti_prepare(world, &call, &kept), "preparing")) return;
    call.send = in[1], call.recv = out[1];
    if (complain(tutti_restart(kept), "restarting") || complain(tutti_start(world, &call, &request), "starting"))
      return;
    tutti_plan_free(plan);
    if (complain(tutti_wait(&request), "waiting") || complain(tutti_wait(&kept), "waiting")) return;
    for (int k = 0; k < 2; k++)
      for (int i = 0; i < 40; i++)
        if (out[k][i] != (int32_t)(ranks * (ranks - 1) / 2 * 1000 + ranks * (uint32_t)(i + round))) wrong++;
  }
  tutti_request_free(kept);
  tutti_plan_free(NULL);
}

/* ---- errors; each on its own communicator, which fails ---- */

struct refusal {
  const char *file;
  tutti_call call;
  bool in_place;
  const char *facts;
};

static void never(void *result, const void *left, const void *right, size_t count, tutti_datatype type, void *context) {
  (void)result, (void)left, (void)right, (void)count, (void)type, (void)context;
}

static void run_refusals(const char *folder) {
  (void)folder;
  tutti_op op;
  if (complain(tutti_op_create(never, NULL, false, "apart", &op), "an operation")) return;
  const size_t counts[] = {1, 1, 1, 1};
  const struct refusal table[] = {
      {"allgather_ring_4", {.collective = TUTTI_ALLREDUCE}, false, "allreduce|'allgather_ring_4'|for allgather"},
      {"alltoall_direct_3", {.collective = TUTTI_ALLTOALL}, false, "3 ranks|has 4"},
      {"allgather_ring_4", {.collective = TUTTI_ALLGATHER}, true, "in_place no|in place"},
      {"allreduce_ring_4", {.collective = TUTTI_ALLREDUCE}, false, "in_place yes|out of place"},
      {"allreduce_ring_4", {.collective = TUTTI_ALLREDUCE, .op = op}, true, "'apart'|commut"},
      {"allreduce_ring_4", {.collective = TUTTI_ALLREDUCE, .algorithm = "ring"}, true, "'ring'|'allreduce_ring_4'"},
      {"allgather_ring_4", {.collective = TUTTI_ALLGATHERV, .counts = counts}, false, "equal_blocks"},
      {"allgather_ring_4", {.collective = TUTTI_SEND, .peer = 1}, false, "send|'allgather_ring_4'"},
  };
  int32_t in[64] = {0}, out[64];
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    tutti_comm *comm;
    tutti_plan *plan;
    char path[512];
    snprintf(path, sizeof path, EXAMPLES "%s.xml", table[i].file);
    if (complain(tutti_plan_load(path, &plan), "loading") || complain(tutti_comm_dup(world, &comm), "a communicator"))
      return;
    tutti_call call = table[i].call;
    call.plan = plan;
    call.count = 4;
    call.type = TUTTI_I32;
    call.send = table[i].in_place ? TUTTI_IN_PLACE : in;
    call.recv = out;
    tutti_request *request;
    tutti_err err = tutti_start(comm, &call, &request);
    if (err != TUTTI_ERR_ARGUMENT || !test_contains(tutti_error_message(comm), table[i].facts)) {
      printf("rank %u: expected the facts '%s', found %s: '%s'\n", tutti_rank(world), table[i].facts,
             tutti_err_name(err), tutti_error_message(comm));
      wrong++;
    }
    (void)tutti_comm_free(comm);
    tutti_plan_free(plan);
  }
}

/* ---- ranks with different plans ---- */

/* Rank 1 uses another plan of the folder, or none. */
static void run_disagreement(const char *folder) {
  int32_t in[40] = {0}, out[40];
  for (int none = 0; none < 2; none++) {
    tutti_comm *comm;
    tutti_plan *plan[2];
    char path[512];
    for (int k = 0; k < 2; k++) {
      snprintf(path, sizeof path, "%s/%s.plan", folder, k ? "direct" : "ring");
      if (complain(tutti_plan_load(path, &plan[k]), "loading")) return;
    }
    if (complain(tutti_comm_dup(world, &comm), "a communicator")) return;
    bool odd = tutti_rank(world) == 1;
    tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = 40, .type = TUTTI_I32};
    if (!odd || !none) call.plan = plan[odd];
    else call.algorithm = "recursive_doubling";
    tutti_request *request;
    tutti_err err = tutti_start(comm, &call, &request);
    if (err == TUTTI_OK) err = tutti_wait(&request);
    const char *message = tutti_error_message(comm), *other = none ? "algorithm recursive_doubling" : "plan direct ";
    if (err != TUTTI_ERR_MISMATCH || !strstr(message, "plan ring ") || !strstr(message, other)) {
      printf("rank %u: expected plan ring and %s, found %s: '%s'\n", tutti_rank(world), other, tutti_err_name(err),
             message);
      wrong++;
    }
    (void)tutti_comm_free(comm);
    for (int k = 0; k < 2; k++) tutti_plan_free(plan[k]);
  }
}

/* ---- ranks and tests ---- */

static int be_a_rank(const char *role, const char *argument) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  tutti_err err = ref_register();
  if (err == TUTTI_OK) err = tutti_init(&(tutti_options){.timeout_ms = 60000}, &world);
  if (err != TUTTI_OK) {
    printf("%s\n", tutti_error_message(NULL));
    return 1;
  }
  if (strcmp(role, "cases") == 0) wrong += !run_cases(argument);
  if (strcmp(role, "lives") == 0) run_lives(argument);
  if (strcmp(role, "refusals") == 0) run_refusals(argument);
  if (strcmp(role, "disagreement") == 0) run_disagreement(argument);
  if (wrong == 0) complain(tutti_comm_free(world), "free");
  return wrong ? 1 : 0;
}

static void launch(uint32_t ranks, const char *role, const char *argument) {
  struct ranks_output output;
  int status = ranks_launch(ranks, role, argument, 100, &output);
  CHECK(status == 0, "%s of %s, %u ranks: exit status %d:\n%s", role, argument, ranks, status, output.chars);
  free(output.chars);
}

static void msccl_algorithms(void) {
  static const char *const names[] = {
      "allgather_ring_4", "allreduce_allpairs_4", "allreduce_halving_doubling_4", "allreduce_mixed_2",
      "allreduce_ring_4", "alltoall_direct_3",    "allreduce_two_channels_3",     "broadcast_chain_3",
      "gather_direct_3",  "reduce_chain_3",       "reduce_scatter_ring_4",        "scatter_direct_3"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char path[512];
    snprintf(path, sizeof path, EXAMPLES "%s.xml", names[i]);
    launch((uint32_t)(names[i][strlen(names[i]) - 1] - '0'), "cases", path);
  }
}

/* Writes the plan of an algorithm to folder/NAME.plan. */
static void write_plan(const char *folder, tutti_collective collective, const char *name, uint32_t ranks, bool in_place,
                       char *path, size_t path_bytes) {
  uint32_t root = tu_collectives[collective].rooted ? ranks / 2 : 0;
  struct tu_plan *plan = tu_plan_build(&(struct tu_build){.algorithm = tu_algorithm_find(collective, name),
                                                          .ranks = ranks,
                                                          .root = root,
                                                          .in_place = in_place,
                                                          .rank = TU_ALL_RANKS});
  struct tu_text text = {0};
  tu_plan_write(plan, &text);
  snprintf(path, path_bytes, "%s/%s.plan", folder, name);
  FILE *file = fopen(path, "we");
  if (!file || fputs(text.chars, file) == EOF || fclose(file) != 0) abort();
  tu_text_fini(&text);
  tu_plan_destroy(plan);
}

static void text_plans(void) {
  static const struct {
    tutti_collective collective;
    const char *name;
    uint32_t ranks;
    bool in_place;
  } table[] = {{TUTTI_ALLREDUCE, "ring", 3, false},       {TUTTI_ALLREDUCE, "recursive_doubling", 5, true},
               {TUTTI_REDUCE, "binomial", 4, true},       {TUTTI_SCAN, "recursive_doubling", 3, true},
               {TUTTI_EXSCAN, "chain", 3, true},          {TUTTI_ALLTOALL, "pairwise", 3, true},
               {TUTTI_REDUCE_SCATTER, "bucket", 4, true}, {TUTTI_BARRIER, "dissemination", 4, false}};
  char folder[] = "/tmp/tutti-plans-XXXXXX", path[512];
  if (!mkdtemp(folder)) abort();
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    write_plan(folder, table[i].collective, table[i].name, table[i].ranks, table[i].in_place, path, sizeof path);
    launch(table[i].ranks, "cases", path);
    unlink(path);
  }
  rmdir(folder);
}

static void lives(void) {
  char folder[] = "/tmp/tutti-plans-XXXXXX", path[512];
  if (!mkdtemp(folder)) abort();
  write_plan(folder, TUTTI_ALLREDUCE, "ring", 3, false, path, sizeof path);
  launch(3, "lives", path);
  unlink(path);
  rmdir(folder);
}

static void refusals(void) { launch(4, "refusals", ""); }

static void disagreement(void) {
  char folder[] = "/tmp/tutti-plans-XXXXXX", path[2][512];
  if (!mkdtemp(folder)) abort();
  write_plan(folder, TUTTI_ALLREDUCE, "ring", 3, false, path[0], sizeof path[0]);
  write_plan(folder, TUTTI_ALLREDUCE, "direct", 3, false, path[1], sizeof path[1]);
  launch(3, "disagreement", folder);
  for (int k = 0; k < 2; k++) unlink(path[k]);
  rmdir(folder);
}

/* Files that cannot be loaded, with the facts of their error messages. */
static void loading(void) {
  static const struct {
    const char *text, *facts;
  } table[] = {
      {"", ":1: |tutti-plan NUMBER|the text"},
      {"<algo/>", ":1: |<algo>|'name'"},
      {"tutti-plan 1\ncollective allreduce\nalgorithm x\nranks 2\nroot 0\nsplit 1\nin_place no\nequal_blocks no\n"
       "rank_order no\nrank 0\n0: send first in[0] to 1\n1: recv_reduce first in[0] + @1 into out[0]\n"
       "rank 1\n0: send first in[0] to 0\n1: recv_reduce first in[0] + @0 into out[0] final\n",
       "rank 0|out[0]|sum of in[0] of ranks 0-1|divided"},
      {"tutti-plan 1\ncollective broadcast\nalgorithm x\nranks 2\nroot 0\nsplit 1\nin_place yes\nequal_blocks no\n"
       "rank_order no\nrank 0\n0: send in[0] to 1\nrank 1\n",
       "rank 0, step 0|send in[0] to 1|rank 1"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    char path[] = "/tmp/tutti-plan-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, table[i].text, strlen(table[i].text)) != (ssize_t)strlen(table[i].text)) abort();
    close(fd);
    tutti_plan *plan = (tutti_plan *)&world;
    tutti_err err = tutti_plan_load(path, &plan);
    const char *message = tutti_error_message(NULL);
    CHECK(err == TUTTI_ERR_ARGUMENT && !plan && strstr(message, path) && test_contains(message, table[i].facts),
          "text %zu: %s: expected the facts '%s', found '%s'", i, tutti_err_name(err), table[i].facts, message);
    unlink(path);
  }
  tutti_plan *plan;
  tutti_err err = tutti_plan_load("/nowhere/is/this", &plan);
  CHECK(err == TUTTI_ERR_SYSTEM && strstr(tutti_error_message(NULL), "'/nowhere/is/this'"), "%s: %s",
        tutti_err_name(err), tutti_error_message(NULL));
  CHECK(tutti_plan_load(NULL, &plan) == TUTTI_ERR_ARGUMENT, "no path");
}

int main(int argc, char **argv) {
  if (argc > 3 && strcmp(argv[1], "--as") == 0) return be_a_rank(argv[2], argv[3]);
  const struct test tests[] = {{"loading", loading},       {"msccl_algorithms", msccl_algorithms},
                               {"text_plans", text_plans}, {"lives", lives},
                               {"refusals", refusals},     {"disagreement", disagreement}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
