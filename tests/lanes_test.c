/* test: slow timeout=300 */
/* lanes_test.c: calls with a number of lanes. Results do not depend on lanes, a call uses as many channels as it has
 * lanes, and all ranks must give the same number. Ranks are threads or processes. */
#include "algo/algo.h"
#include "base/text.h"
#include "reference.h"
#include "troupe.h"

static bool carry_out(struct player *p, tutti_comm *comm, const struct ref_case *c) {
  struct ref_run run;
  char text[768];
  ref_run_init(&run, c, p->rank);
  ref_fill(&run);
  ref_want(&run);
  tutti_request *request = NULL;
  tutti_err err = tutti_start(comm, &run.call, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  bool right = err == TUTTI_OK && ref_agrees(&run, text, sizeof text);
  if (err != TUTTI_OK) {
    ref_case_print(c, text, sizeof text);
    wrong(p, "rank %u: %s: %s, in %s", p->rank, tutti_err_name(err), tutti_error_message(comm), text);
  } else if (!right) {
    wrong(p, "%s", text);
  }
  ref_run_fini(&run);
  return right;
}

/* Returns the lanes on which this rank has sent, of `count` lanes from `first` on, as bits. */
static uint32_t lanes_used(const tutti_comm *comm, uint32_t first, uint32_t count) {
  uint32_t used = 0;
  for (uint32_t peer = 0; peer < comm->ranks; peer++)
    for (uint32_t lane = 0; lane < count; lane++)
      if (tu_mover_known_sender(comm->mover, peer, first + lane)) used |= 1u << lane;
  return used;
}

/* ---- collectives ---- */

/* Runs every algorithm on every possible number of lanes, one after the other. */
static void every_algorithm(struct player *p) {
  static const size_t counts[] = {0, 1, 7, 1000, 30001};
  uint64_t state = p->seed;
  const struct tu_algorithm *a;
  for (size_t k = 0; (a = tu_algorithm_at(k)) != NULL; k++) {
    if (a->collective >= TUTTI_SEND || !tu_algorithm_fits(a, p->ranks)) continue;
    for (uint32_t lanes = 1; lanes <= tu_build_lanes_max(a) && p->stage->failures == 0; lanes++) {
      struct ref_case c = {.collective = a->collective, .algorithm = a->name, .ranks = p->ranks, .lanes = lanes};
      c.count = counts[ranks_random(&state) % 5];
      c.aliasing = (enum ref_aliasing)(ranks_random(&state) % 2);
      c.type = lanes & 1 ? TUTTI_I32 : TUTTI_F64;
      c.root = (uint32_t)(ranks_random(&state) % p->ranks);
      c.op = a->flags & TU_RANK_ORDER ? REF_AFFINE : TUTTI_SUM;
      if (c.op == REF_AFFINE) c.type = TUTTI_I32;
      c.seed = ranks_random(&state);
      carry_out(p, p->comm, &c);
    }
  }
}

/* Runs the v-forms, which divide each block among the lanes, whatever its length. */
static void unequal_blocks(struct player *p) {
  static const tutti_collective vectors[] = {TUTTI_GATHERV, TUTTI_SCATTERV, TUTTI_ALLGATHERV, TUTTI_REDUCE_SCATTERV,
                                             TUTTI_ALLTOALLV};
  uint64_t state = p->seed;
  for (int i = 0; i < 200 && p->stage->failures == 0; i++) {
    struct ref_case c = {.collective = vectors[i % 5], .ranks = p->ranks, .type = TUTTI_I32};
    c.blocks = (enum ref_blocks)(ranks_random(&state) % REF_BLOCKS);
    c.aliasing = (enum ref_aliasing)(ranks_random(&state) % 2);
    c.root = (uint32_t)(ranks_random(&state) % p->ranks);
    c.count = ranks_random(&state) % 2000;
    c.lanes = (uint32_t)(1 + ranks_random(&state) % 8);
    c.seed = ranks_random(&state);
    carry_out(p, p->comm, &c);
  }
}

/* Runs a vector so long that it is cut into segments; each lane has as many segments. */
static void long_vectors(struct player *p) {
  for (uint32_t lanes = 0; lanes < 4 && p->stage->failures == 0; lanes++) {
    struct ref_case c = {.collective = lanes % 2 ? TUTTI_BROADCAST : TUTTI_ALLREDUCE,
                         .ranks = p->ranks,
                         .count = (9 << 20) / 4 + 1,
                         .type = TUTTI_I32,
                         .lanes = lanes,
                         .seed = p->seed + lanes};
    carry_out(p, p->comm, &c);
  }
}

static void as_many_channels(struct player *p) {
  static const struct {
    tutti_collective collective;
    const char *algorithm;
    uint32_t own; /* lanes of the algorithm without a stated number */
  } cases[] = {{TUTTI_ALLREDUCE, "ring", 1},
               {TUTTI_ALLGATHER, "bucket", 1},
               {TUTTI_ALLTOALL, "direct", 1},
               {TUTTI_REDUCE_SCATTER, "bidirectional", 2},
               {TUTTI_ALLTOALL, "bidirectional", 2}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (uint32_t lanes = 1; lanes <= 8 / cases[i].own && p->ranks > 2; lanes++) {
      tutti_comm *dup;
      if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
      struct ref_case c = {.collective = cases[i].collective,
                           .algorithm = cases[i].algorithm,
                           .ranks = p->ranks,
                           .count = 1000,
                           .type = TUTTI_I32,
                           .lanes = lanes,
                           .seed = p->seed};
      carry_out(p, dup, &c);
      uint32_t used = lanes_used(dup, 0, TU_LANES_MAX), expected = (1u << lanes * cases[i].own) - 1;
      if (used != expected)
        wrong(p, "rank %u: %s.%s over %u lanes: used %x, expected %x", p->rank, tutti_collective_name(c.collective),
              c.algorithm, lanes, used, expected);
      good(p, tutti_comm_free(dup), "free of a dup");
    }
}

/* ---- send and recv ---- */

static tutti_call message(tutti_collective c, int32_t *data, size_t count, uint32_t peer, uint32_t lanes) {
  tutti_call call = {.collective = c, .count = count, .type = TUTTI_I32, .peer = peer, .lanes = lanes};
  if (c == TUTTI_SEND) call.send = data;
  else call.recv = data;
  return call;
}

/* Sends round a ring of one or more ranks: messages of any length, requests that are restarted, tags received in
 * reverse order. */
static void messages(struct player *p) {
  enum { LONG = 300000, TAGS = 3 };
  static const size_t counts[] = {0, 1, 5, 1000, LONG};
  uint32_t to = (p->rank + 1) % p->ranks, from = (p->rank + p->ranks - 1) % p->ranks;
  int32_t *in = calloc(TAGS * LONG, 4), *out = calloc(TAGS * LONG, 4);
  if (!in || !out) abort();
  for (uint32_t lanes = 0; lanes <= 8 && p->stage->failures == 0; lanes++)
    for (size_t c = 0; c < 5 && p->stage->failures == 0; c++) {
      size_t count = counts[c], bad = 0;
      tutti_request *requests[2 * TAGS];
      memset(out, 0xff, TAGS * LONG * 4);
      for (uint32_t k = 0; k < 2 * TAGS; k++) {
        uint32_t tag = k < TAGS ? k : 2 * TAGS - 1 - k;
        int32_t *data = (k < TAGS ? in : out) + tag * LONG;
        tutti_call call = message(k < TAGS ? TUTTI_SEND : TUTTI_RECV, data, count, k < TAGS ? to : from, lanes);
        call.tag = tag;
        for (size_t i = 0; i < count && k < TAGS; i++) data[i] = (int32_t)(p->rank * 1000 + tag * 7 + i);
        if (!good(p, tutti_start(p->comm, &call, &requests[k]), "start")) return;
      }
      if (!good(p, tutti_wait_all(requests, 2 * TAGS), "wait_all")) return;
      for (uint32_t tag = 0; tag < TAGS; tag++)
        for (size_t i = 0; i < count; i++) bad += out[tag * LONG + i] != (int32_t)(from * 1000 + tag * 7 + i);
      for (size_t i = count; i < LONG; i++) bad += out[i] != -1;
      if (bad) wrong(p, "rank %u: %zu of %zu items over %u lanes are wrong", p->rank, bad, count, lanes);
    }
  free(in);
  free(out);
}

static void prepared_messages(struct player *p) {
  enum { COUNT = 40000, ROUNDS = 20 };
  int32_t *in = calloc(COUNT, 4), *out = calloc(COUNT, 4);
  tutti_call send = message(TUTTI_SEND, in, COUNT, (p->rank + 1) % p->ranks, 3);
  tutti_call recv = message(TUTTI_RECV, out, COUNT, (p->rank + p->ranks - 1) % p->ranks, 3);
  tutti_request *requests[2];
  if (!good(p, tutti_prepare(p->comm, &send, &requests[0]), "prepare")) return;
  if (!good(p, tutti_prepare(p->comm, &recv, &requests[1]), "prepare")) return;
  for (int round = 0; round < ROUNDS && p->stage->failures == 0; round++) {
    size_t bad = 0;
    for (int i = 0; i < COUNT; i++) in[i] = (int32_t)p->rank + i * round;
    if (!good(p, tutti_restart(requests[0]), "restart") || !good(p, tutti_restart(requests[1]), "restart")) return;
    if (!good(p, tutti_wait_all(requests, 2), "wait_all")) return;
    for (int i = 0; i < COUNT; i++) bad += out[i] != (int32_t)recv.peer + i * round;
    if (bad) wrong(p, "rank %u: round %d: %zu items are wrong", p->rank, round, bad);
  }
  tutti_request_free(requests[0]);
  tutti_request_free(requests[1]);
  free(in);
  free(out);
}

static void as_many_channels_of_messages(struct player *p) {
  for (uint32_t lanes = 1; lanes <= 8 && p->ranks > 1; lanes++) {
    tutti_comm *dup;
    int32_t data[100] = {0};
    if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
    tutti_call call = message(p->rank == 0 ? TUTTI_SEND : TUTTI_RECV, data, 100, 1 - p->rank, lanes);
    if (p->rank < 2) {
      tutti_request *request;
      if (good(p, tutti_start(dup, &call, &request), "start")) good(p, tutti_wait(&request), "wait");
    }
    uint32_t used = lanes_used(dup, TU_POINT_TO_POINT_LANE, TU_POINT_TO_POINT_LANES);
    uint32_t expected = p->rank == 0 ? (1u << lanes) - 1 : 0;
    if (used != expected || lanes_used(dup, 0, TU_LANES_MAX) != 0)
      wrong(p, "rank %u: a message over %u lanes used %x, expected %x", p->rank, lanes, used, expected);
    good(p, tutti_comm_free(dup), "free of a dup");
  }
}

/* ---- errors ---- */

/* Checks that the call fails on every rank that makes it, with a message that contains all of `says`. */
static void fails(struct player *p, const tutti_call *call, tutti_err expected, const char *const says[3]) {
  tutti_comm *dup;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  tutti_request *request = NULL;
  tutti_err err = call ? tutti_start(dup, call, &request) : TUTTI_OK;
  if (err == TUTTI_OK) err = tutti_wait(&request);
  if (err == TUTTI_OK) err = tutti_barrier(dup); /* a send may complete before its receiver has looked at it */
  const char *text = tutti_error_message(dup);
  bool right = err == expected;
  for (int i = 0; i < 3 && says[i]; i++) right &= test_contains(text, says[i]);
  if (!right)
    wrong(p, "rank %u: %s, expected %s ('%s'): %s", p->rank, tutti_err_name(err), tutti_err_name(expected), says[0],
          text);
  tutti_comm_free(dup);
}

static void disagreement(struct player *p) {
  int32_t in[64] = {0}, out[64];
  if (p->ranks == 1) return;
  tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = 64, .type = TUTTI_I32};
  call.lanes = p->rank == 1 ? 2 : 3;
  fails(p, &call, TUTTI_ERR_MISMATCH, (const char *const[3]){"2 lanes", "3 lanes", "rank 1 called"});
  call.lanes = p->rank == 1 ? 1 : 0;
  fails(p, &call, TUTTI_ERR_MISMATCH, (const char *const[3]){"1 lane", "allreduce"});
}

static void disagreement_about_messages(struct player *p) {
  enum { COUNT = 1000 };
  static const struct {
    uint32_t sent, expected, share; /* the message is `share` times as long as the receive expects */
  } cases[] = {{2, 0, 1}, {2, 0, 2}, {1, 2, 1}, {3, 2, 2}};
  int32_t data[COUNT] = {0};
  if (p->ranks == 1) return;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char sent[32], expected[48];
    bool sends = p->rank == 0;
    tutti_call call = message(sends ? TUTTI_SEND : TUTTI_RECV, data, sends ? COUNT : COUNT / cases[i].share,
                              1 - p->rank, sends ? cases[i].sent : cases[i].expected);
    snprintf(sent, sizeof sent, "rank 0 sends over %u lanes", cases[i].sent);
    snprintf(expected, sizeof expected, "rank 1 expects %u,", cases[i].expected ? cases[i].expected : 1);
    fails(p, p->rank < 2 ? &call : NULL, TUTTI_ERR_MISMATCH, (const char *const[3]){sent, expected, "both must"});
  }
}

/* As before, with a message that arrived before its receive was started, and was set aside. */
static void disagreement_about_early_messages(struct player *p) {
  enum { COUNT = 100 };
  int32_t data[COUNT] = {0}, first[COUNT] = {0};
  tutti_comm *dup;
  if (p->ranks == 1 || !good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  tutti_request *requests[2] = {NULL};
  tutti_collective c = p->rank == 0 ? TUTTI_SEND : TUTTI_RECV;
  tutti_call early = message(c, data, COUNT, 1 - p->rank, p->rank == 0 ? 2 : 4);
  tutti_call late = message(c, first, COUNT, 1 - p->rank, 2);
  late.tag = 1;
  tutti_err err = TUTTI_OK;
  if (p->rank == 0) { /* rank 0 sends both; rank 1 receives the second one first */
    err = tutti_start(dup, &early, &requests[0]);
    if (err == TUTTI_OK) err = tutti_start(dup, &late, &requests[1]);
    if (err == TUTTI_OK) err = tutti_wait_all(requests, 2);
  } else if (p->rank == 1) {
    err = tutti_start(dup, &late, &requests[0]);
    if (err == TUTTI_OK) err = tutti_wait(&requests[0]);
    if (err == TUTTI_OK) err = tutti_start(dup, &early, &requests[1]);
    if (err == TUTTI_OK) err = tutti_wait(&requests[1]);
  }
  if (err == TUTTI_OK) err = tutti_barrier(dup);
  if (err != TUTTI_ERR_MISMATCH || !test_contains(tutti_error_message(dup), "2 lanes|rank 1 expects 4"))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(dup));
  tutti_comm_free(dup);
}

static void refusals(struct player *p) {
  int32_t in[64] = {0}, out[64];
  tutti_call call = {
      .collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = 64, .type = TUTTI_I32, .lanes = 9};
  fails(p, &call, TUTTI_ERR_ARGUMENT, (const char *const[3]){"allreduce|9 lanes|1 to 8"});
  call.lanes = UINT32_MAX;
  fails(p, &call, TUTTI_ERR_ARGUMENT, (const char *const[3]){"4294967295 lanes"});
  call.lanes = 5;
  call.algorithm = "bidirectional_ring";
  fails(p, &call, TUTTI_ERR_ARGUMENT, (const char *const[3]){"5 lanes|bidirectional_ring|1 to 4"});
  call = message(TUTTI_SEND, in, 64, p->rank, 9);
  fails(p, &call, TUTTI_ERR_ARGUMENT, (const char *const[3]){"send|9 lanes"});
}

/* A call with a plan may not give lanes, as the plan has its own. */
static void beside_a_plan(struct player *p) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/lanes_test.%d.%u.plan", (int)getpid(), p->rank);
  struct tu_plan *plan = tu_plan_build(&(struct tu_build){
      .algorithm = tu_algorithm_find(TUTTI_ALLREDUCE, "ring"), .ranks = p->ranks, .rank = TU_ALL_RANKS});
  struct tu_text text = {0};
  tu_plan_write(plan, &text);
  FILE *file = fopen(path, "w");
  if (!file || fputs(text.chars, file) < 0 || fclose(file) != 0) wrong(p, "rank %u: cannot write %s", p->rank, path);
  tu_text_fini(&text);
  tu_plan_destroy(plan);
  tutti_plan *loaded;
  if (!good(p, tutti_plan_load(path, &loaded), path)) return;
  remove(path);
  int32_t in[64] = {0}, out[64];
  const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                           .send = in,
                           .recv = out,
                           .count = 64,
                           .type = TUTTI_I32,
                           .plan = loaded,
                           .lanes = 2};
  fails(p, &call, TUTTI_ERR_ARGUMENT, (const char *const[3]){"2 lanes|plan"});
  tutti_plan_free(loaded);
}

/* A barrier has no data to divide, so different lanes are no mismatch. */
static void barriers(struct player *p) {
  tutti_request *request;
  tutti_call call = {.collective = TUTTI_BARRIER, .lanes = p->rank % 3};
  if (good(p, tutti_start(p->comm, &call, &request), "start")) good(p, tutti_wait(&request), "wait");
}

static const struct troupe_case cases[] = {
    {TROUPE_CASE(every_algorithm)},
    {TROUPE_CASE(unequal_blocks)},
    {TROUPE_CASE(long_vectors)},
    {TROUPE_CASE(as_many_channels)},
    {TROUPE_CASE(messages)},
    {TROUPE_CASE(prepared_messages)},
    {TROUPE_CASE(as_many_channels_of_messages)},
    {TROUPE_CASE(disagreement)},
    {TROUPE_CASE(disagreement_about_messages)},
    {TROUPE_CASE(disagreement_about_early_messages)},
    {TROUPE_CASE(refusals)},
    {TROUPE_CASE(beside_a_plan)},
    {TROUPE_CASE(barriers)},
};

int main(int argc, char **argv) {
  if (ref_register() != TUTTI_OK) return 1;
  return troupe_main(cases, sizeof cases / sizeof cases[0], TROUPE_TRANSPORTS(1, 2, 3, 5), argc, argv);
}
