/* test: timeout=120 */
/* named_test.c: the named functions, blocking and non-blocking, and tutti_run_call. Each must give the same result as
 * tutti_start with an equal tutti_call. Calls are repeated, as a repeated short call takes a fast path, also while others
 * are open; counts and displacements change between calls, also in place, in the same arrays. */
#include "call/again.h"
#include "conform.h"

enum { ROUNDS = 6, REPEATS = 5 };
enum way { BLOCKING, NON_BLOCKING, RUN_CALL, WAYS };

static tutti_err call_blocking(tutti_comm *comm, const tutti_call *c) {
  switch (c->collective) {
    case TUTTI_ALLREDUCE: return tutti_allreduce(comm, c->send, c->recv, c->count, c->type, c->op);
    case TUTTI_REDUCE: return tutti_reduce(comm, c->send, c->recv, c->count, c->type, c->op, c->root);
    case TUTTI_BROADCAST: return tutti_broadcast(comm, c->recv, c->count, c->type, c->root);
    case TUTTI_GATHER: return tutti_gather(comm, c->send, c->recv, c->count, c->type, c->root);
    case TUTTI_SCATTER: return tutti_scatter(comm, c->send, c->recv, c->count, c->type, c->root);
    case TUTTI_ALLGATHER: return tutti_allgather(comm, c->send, c->recv, c->count, c->type);
    case TUTTI_REDUCE_SCATTER: return tutti_reduce_scatter(comm, c->send, c->recv, c->count, c->type, c->op);
    case TUTTI_ALLTOALL: return tutti_alltoall(comm, c->send, c->recv, c->count, c->type);
    case TUTTI_BARRIER: return tutti_barrier(comm);
    case TUTTI_SCAN: return tutti_scan(comm, c->send, c->recv, c->count, c->type, c->op);
    case TUTTI_EXSCAN: return tutti_exscan(comm, c->send, c->recv, c->count, c->type, c->op);
    case TUTTI_GATHERV: return tutti_gatherv(comm, c->send, c->count, c->recv, c->counts, c->offsets, c->type, c->root);
    case TUTTI_SCATTERV:
      return tutti_scatterv(comm, c->send, c->counts, c->offsets, c->recv, c->count, c->type, c->root);
    case TUTTI_ALLGATHERV: return tutti_allgatherv(comm, c->send, c->recv, c->counts, c->offsets, c->type);
    case TUTTI_REDUCE_SCATTERV:
      return tutti_reduce_scatterv(comm, c->send, c->counts, c->offsets, c->recv, c->type, c->op);
    default:
      return tutti_alltoallv(comm, c->send, c->counts, c->offsets, c->recv, c->recv_counts, c->recv_offsets, c->type);
  }
}

static tutti_err call_non_blocking(tutti_comm *comm, const tutti_call *c, tutti_request **r) {
  switch (c->collective) {
    case TUTTI_ALLREDUCE: return tutti_iallreduce(comm, c->send, c->recv, c->count, c->type, c->op, r);
    case TUTTI_REDUCE: return tutti_ireduce(comm, c->send, c->recv, c->count, c->type, c->op, c->root, r);
    case TUTTI_BROADCAST: return tutti_ibroadcast(comm, c->recv, c->count, c->type, c->root, r);
    case TUTTI_GATHER: return tutti_igather(comm, c->send, c->recv, c->count, c->type, c->root, r);
    case TUTTI_SCATTER: return tutti_iscatter(comm, c->send, c->recv, c->count, c->type, c->root, r);
    case TUTTI_ALLGATHER: return tutti_iallgather(comm, c->send, c->recv, c->count, c->type, r);
    case TUTTI_REDUCE_SCATTER: return tutti_ireduce_scatter(comm, c->send, c->recv, c->count, c->type, c->op, r);
    case TUTTI_ALLTOALL: return tutti_ialltoall(comm, c->send, c->recv, c->count, c->type, r);
    case TUTTI_BARRIER: return tutti_ibarrier(comm, r);
    case TUTTI_SCAN: return tutti_iscan(comm, c->send, c->recv, c->count, c->type, c->op, r);
    case TUTTI_EXSCAN: return tutti_iexscan(comm, c->send, c->recv, c->count, c->type, c->op, r);
    case TUTTI_GATHERV:
      return tutti_igatherv(comm, c->send, c->count, c->recv, c->counts, c->offsets, c->type, c->root, r);
    case TUTTI_SCATTERV:
      return tutti_iscatterv(comm, c->send, c->counts, c->offsets, c->recv, c->count, c->type, c->root, r);
    case TUTTI_ALLGATHERV: return tutti_iallgatherv(comm, c->send, c->recv, c->counts, c->offsets, c->type, r);
    case TUTTI_REDUCE_SCATTERV:
      return tutti_ireduce_scatterv(comm, c->send, c->counts, c->offsets, c->recv, c->type, c->op, r);
    default:
      return tutti_ialltoallv(comm, c->send, c->counts, c->offsets, c->recv, c->recv_counts, c->recv_offsets, c->type,
                              r);
  }
}

static tutti_err run_one_way(tutti_comm *comm, const tutti_call *call, enum way way) {
  tutti_request *request = NULL;
  if (way == BLOCKING) return call_blocking(comm, call);
  if (way == RUN_CALL) return tutti_run_call(comm, call);
  tutti_err err = call_non_blocking(comm, call, &request);
  return err == TUTTI_OK ? tutti_wait(&request) : err;
}

/* Runs a call once, with new input. */
static void once(struct player *p, struct ref_run *run, enum way way, int repetition) {
  char text[768];
  ref_fill(run);
  ref_want(run);
  tutti_err err = run_one_way(p->comm, &run->call, way);
  if (err != TUTTI_OK) {
    ref_case_print(&run->c, text, sizeof text);
    wrong(p, "rank %u, way %d: %s: %s, in %s", p->rank, way, tutti_err_name(err), tutti_error_message(p->comm), text);
  } else if (!ref_agrees(run, text, sizeof text)) {
    wrong(p, "way %d, repetition %d: %s", way, repetition, text);
  }
}

/* Runs one case several times in one way, with new input each time. */
static void repeat(struct player *p, struct ref_case *c, enum way way) {
  struct ref_run run;
  ref_run_init(&run, c, p->rank);
  for (int i = 0; i < REPEATS && p->stage->failures == 0; i++) once(p, &run, way, i);
  ref_run_fini(&run);
}

static void every_function(struct player *p) {
  static const size_t counts[] = {0, 1, 7, 60, 3000};
  uint64_t state = p->seed;
  if (ref_register() != TUTTI_OK) wrong(p, "tutti_op_create: %s", tutti_error_message(NULL));
  for (int round = 0; round < ROUNDS; round++)
    for (uint32_t k = 0; k < REF_COLLECTIVES && p->stage->failures == 0; k++) {
      struct ref_case c = {.collective = ref_collectives[k], .ranks = p->ranks, .type = TUTTI_I32, .op = TUTTI_SUM};
      c.count = counts[ranks_random(&state) % 5];
      c.blocks = (enum ref_blocks)(ranks_random(&state) % REF_BLOCKS);
      c.root = (uint32_t)(ranks_random(&state) % p->ranks);
      c.aliasing = (enum ref_aliasing)(ranks_random(&state) % REF_ALIASINGS);
      if (c.collective == TUTTI_BROADCAST) c.aliasing = REF_SAME_POINTER; /* tutti_broadcast has one buffer */
      if (c.collective == TUTTI_BARRIER) c.aliasing = REF_APART;          /* tutti_barrier has no buffer */
      c.seed = ranks_random(&state);
      const enum way way = (enum way)(ranks_random(&state) % WAYS);
      c.pointers = way == RUN_CALL && c.seed >> 63; /* the named functions have no addresses of blocks */
      repeat(p, &c, way);
    }
}

/* Changes counts and displacements in place, in arrays at one address, between calls with the same buffers. */
static void arrays_change(struct player *p) {
  enum { MOST = 5, ROOM = TROUPE_MAX * 2 * MOST };
  int32_t in[MOST], out[ROOM];
  size_t counts[TROUPE_MAX], offsets[TROUPE_MAX];
  uint64_t state = p->seed;
  for (int i = 0; i < MOST; i++) in[i] = (int32_t)(100 * p->rank) + i;
  for (int round = 0; round < 60 && p->stage->failures == 0; round++) {
    if (round % 3 == 0)
      for (uint32_t r = 0; r < p->ranks; r++) counts[r] = ranks_random(&state) % (MOST + 1);
    bool gaps = round % 6 >= 3;
    for (uint32_t r = 0; r < p->ranks; r++) offsets[r] = r * 2 * MOST + (size_t)(round / 6 % MOST);
    for (int i = 0; i < ROOM; i++) out[i] = -1;
    if (!good(p, tutti_allgatherv(p->comm, in, out, counts, gaps ? offsets : NULL, TUTTI_I32), "tutti_allgatherv"))
      return;
    size_t packed = 0, written = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
      for (size_t i = 0; i < counts[r]; i++) {
        int32_t found = out[(gaps ? offsets[r] : packed) + i];
        if (found != (int32_t)(100 * r + i)) wrong(p, "round %d, rank %u: element %zu is %d", round, r, i, found);
      }
      packed += counts[r];
    }
    for (int i = 0; i < ROOM; i++) written += out[i] != -1;
    if (written != packed) wrong(p, "round %d: %zu elements are written, expected %zu", round, written, packed);
  }
}

/* TURNS_LONG: so many elements that the place where a call is kept does not depend on its count */
enum { TURNS_LONG = 1500, TURNS_MOST = TROUPE_MAX * (TURNS_LONG + 1) };

static int32_t value_of(uint32_t rank, int round, size_t i) { return (int32_t)(1000 * rank) + 10 * round + (int32_t)i; }

/* Returns the expected output element i of a call, whose input element i is value_of(rank, round, i). */
static int32_t output_of(const struct player *p, const tutti_call *c, int round, size_t i) {
  const uint32_t block = (uint32_t)(i / c->count);
  const size_t in_block = i % c->count, own = p->rank * c->count + i;
  int32_t sum = 0;
  switch (c->collective) {
    case TUTTI_BROADCAST: return value_of(c->root, round, i);
    case TUTTI_GATHER:
    case TUTTI_ALLGATHER: return value_of(block, round, in_block);
    case TUTTI_SCATTER: return value_of(c->root, round, own);
    case TUTTI_ALLTOALL: return value_of(block, round, p->rank * c->count + in_block);
    default:
      for (uint32_t r = 0; r < (c->collective == TUTTI_SCAN ? p->rank + 1 : p->ranks); r++)
        sum += value_of(r, round, c->collective == TUTTI_REDUCE_SCATTER ? own : i);
      return sum;
  }
}

/* Returns the number of elements of the output; 0: this rank has none. */
static size_t output_count(const struct player *p, const tutti_call *c) {
  if ((c->collective == TUTTI_GATHER || c->collective == TUTTI_REDUCE) && p->rank != c->root) return 0;
  const bool blocks =
      c->collective == TUTTI_GATHER || c->collective == TUTTI_ALLGATHER || c->collective == TUTTI_ALLTOALL;
  return c->count * (blocks ? p->ranks : 1);
}

/* Makes different calls in turns, which have the same buffers and roots, and so differ in their collective, count or order
 * alone. */
static void calls_in_turns(struct player *p) {
  static const tutti_collective turns[] = {TUTTI_ALLREDUCE, TUTTI_REDUCE,         TUTTI_BROADCAST,
                                           TUTTI_GATHER,    TUTTI_SCATTER,        TUTTI_ALLGATHER,
                                           TUTTI_ALLTOALL,  TUTTI_REDUCE_SCATTER, TUTTI_SCAN};
  int32_t in[TURNS_MOST], out[TURNS_MOST];
  uint64_t state = p->seed;
  for (int round = 0; round < 400 && p->stage->failures == 0; round++) {
    tutti_call call = {.collective = turns[ranks_random(&state) % (sizeof turns / sizeof turns[0])],
                       .send = in,
                       .recv = out,
                       .count = 1 + ranks_random(&state) % 2 + (ranks_random(&state) % 2 ? TURNS_LONG - 1 : 0),
                       .type = TUTTI_I32,
                       .root = (uint32_t)(ranks_random(&state) % p->ranks)};
    if (call.collective != TUTTI_BROADCAST && ranks_random(&state) % 4 == 0) call.order = TUTTI_ORDER_CANONICAL;
    const enum way way = call.order ? RUN_CALL : (enum way)(ranks_random(&state) % WAYS);
    for (size_t i = 0; i < p->ranks * call.count; i++) in[i] = value_of(p->rank, round, i), out[i] = -1;
    if (call.collective == TUTTI_BROADCAST && p->rank == call.root) memcpy(out, in, sizeof out);
    if (call.collective == TUTTI_BROADCAST) call.send = out;
    if (!good(p, run_one_way(p->comm, &call, way), "a call")) return;
    for (size_t i = 0; i < output_count(p, &call) && p->stage->failures == 0; i++)
      if (out[i] != output_of(p, &call, round, i))
        wrong(p, "rank %u, round %d, %s of %zu from root %u: element %zu is %d, expected %d", p->rank, round,
              tutti_collective_name(call.collective), call.count, call.root, i, out[i], output_of(p, &call, round, i));
  }
}

/* Calls with one root after the other are all kept, and are not taken for calls of another order. */
static void roots_are_kept(struct player *p) {
  int32_t in[TROUPE_MAX] = {0}, out[TROUPE_MAX] = {0};
  for (int round = 0; round < 3; round++)
    for (uint32_t root = 0; root < p->ranks; root++)
      if (!good(p, tutti_gather(p->comm, in, out, 1, TUTTI_I32, root), "tutti_gather")) return;
  for (uint32_t root = 0; root < p->ranks; root++) {
    struct tu_brief b = {in, out, 1, TUTTI_GATHER, TUTTI_I32, 0, root, TUTTI_ORDER_ANY, NULL};
    if (!tu_again_fits(*tu_again_place(p->comm, &b), &b)) wrong(p, "gather to rank %u is not kept", root);
    b.order = TUTTI_ORDER_CANONICAL;
    if (tu_again_fits(*tu_again_place(p->comm, &b), &b)) wrong(p, "gather to rank %u: kept for all orders", root);
  }
}

/* A call with an algorithm is kept. It is not taken for one without, nor for one with another name at the same address. */
static void algorithms_are_kept(struct player *p) {
  int32_t in[TROUPE_MAX] = {0}, out[TROUPE_MAX] = {0};
  char name[16] = "binomial";
  tutti_call call = {
      .collective = TUTTI_GATHER, .send = in, .recv = out, .count = 1, .type = TUTTI_I32, .algorithm = name};
  const struct tu_brief b = tu_brief_of(&call);
  for (int round = 0; round < 3; round++)
    if (!good(p, tutti_run_call(p->comm, &call), "gather by binomial")) return;
  const struct tutti_request *kept = *tu_again_place(p->comm, &b);
  if (!tu_again_fits_call(kept, &b, &call)) wrong(p, "gather by %s is not kept", name);
  strcpy(name, "direct");
  if (tu_again_fits_call(kept, &b, &call)) wrong(p, "gather by %s: taken for another algorithm", name);
  call.algorithm = NULL;
  const struct tu_brief any = tu_brief_of(&call);
  if (tu_again_fits_call(kept, &any, &call)) wrong(p, "gather: taken for one with an algorithm");
  call.algorithm = name;
  for (int round = 0; round < 3; round++)
    if (!good(p, tutti_run_call(p->comm, &call), "gather by direct")) return;
  kept = *tu_again_place(p->comm, &b);
  if (!tu_again_fits_call(kept, &b, &call) || strcmp(kept->algorithm->name, name) != 0)
    wrong(p, "gather by %s is not kept in its turn", name);
}

/* Repeats broadcasts whose root may send several slices, while the others are on the fast path. */
static void slices(struct player *p) {
  enum { COUNT = 16 << 10 };
  int32_t *data = calloc(COUNT, sizeof *data);
  for (int round = 0; round < 20 && p->stage->failures == 0; round++) {
    for (size_t i = 0; p->rank == 0 && i < COUNT; i++) data[i] = value_of(0, round, i);
    if (!good(p, tutti_broadcast(p->comm, data, COUNT, TUTTI_I32, 0), "tutti_broadcast")) break;
    for (size_t i = 0; i < COUNT && p->stage->failures == 0; i++)
      if (data[i] != value_of(0, round, i)) wrong(p, "round %d: element %zu is %d", round, i, data[i]);
  }
  free(data);
}

/* The last rank calls with another count than before; the others are on the fast path, which cannot take its message. */
static void another_count(struct player *p) {
  int32_t in[5] = {0}, out[5];
  for (int round = 0; round < 3; round++)
    if (!good(p, tutti_allreduce(p->comm, in, out, 4, TUTTI_I32, TUTTI_SUM), "tutti_allreduce")) return;
  const size_t count = p->rank + 1 == p->ranks ? 5 : 4;
  const tutti_err err = tutti_allreduce(p->comm, in, out, count, TUTTI_I32, TUTTI_SUM);
  if (err != TUTTI_ERR_MISMATCH) wrong(p, "rank %u: %s, expected a mismatch", p->rank, tutti_err_name(err));
}

enum ending { WAITS, WAITS_BACKWARDS, TESTS, WAITS_A_MOMENT, WAITS_FOR_ANY, WAITS_FOR_ALL, ENDINGS };

static void end_one(struct player *p, tutti_request **request, enum ending ending) {
  for (bool done = false; !done && p->stage->failures == 0;) {
    tutti_err err = TUTTI_OK;
    if (ending == TESTS) err = tutti_test(request, &done);
    else if (ending == WAITS_A_MOMENT) err = tutti_wait_for(request, 1, &done);
    else done = (err = tutti_wait(request)) == TUTTI_OK;
    if (!good(p, err, "the end of a request")) return;
  }
}

static void end_all(struct player *p, tutti_request **requests, size_t count, enum ending ending) {
  size_t index;
  if (ending == WAITS_FOR_ALL) (void)good(p, tutti_wait_all(requests, count), "tutti_wait_all");
  for (size_t i = 0; i < count; i++) {
    if (ending == WAITS_FOR_ANY && good(p, tutti_wait_any(requests, count, &index), "tutti_wait_any"))
      requests[index] = NULL; /* a persistent one would be found again */
    if (ending != WAITS_FOR_ANY) end_one(p, &requests[ending == WAITS_BACKWARDS ? count - 1 - i : i], ending);
  }
}

/* Starts calls that repeat earlier ones, one or several at a time, some of them persistent, and ends them in all ways. */
static void repetitions_overlap(struct player *p) {
  enum { OPEN = 3, NUMBERS = 5 };
  int32_t in[OPEN][NUMBERS], out[OPEN][NUMBERS * TROUPE_MAX];
  tutti_request *requests[OPEN] = {NULL}, *persistent = NULL;
  uint64_t state = p->seed;
  const tutti_call call = {
      .collective = TUTTI_ALLREDUCE, .send = in[0], .recv = out[0], .count = NUMBERS, .type = TUTTI_I32};
  if (!good(p, tutti_prepare(p->comm, &call, &persistent), "tutti_prepare")) return;
  for (int round = 0; round < 400 && p->stage->failures == 0; round++) {
    const size_t open = 1 + ranks_random(&state) % OPEN;
    const bool restarts = ranks_random(&state) % 3 == 0;
    for (size_t i = 0; i < OPEN; i++)
      for (int n = 0; n < NUMBERS; n++) in[i][n] = round + n + (int32_t)(i * 100 + p->rank);
    if (restarts) requests[0] = persistent;
    tutti_err err = restarts ? tutti_restart(persistent)
                             : tutti_iallreduce(p->comm, in[0], out[0], NUMBERS, TUTTI_I32, TUTTI_SUM, &requests[0]);
    if (err == TUTTI_OK && open > 1) err = tutti_iallgather(p->comm, in[1], out[1], NUMBERS, TUTTI_I32, &requests[1]);
    if (err == TUTTI_OK && open > 2)
      err = tutti_iallreduce(p->comm, in[2], out[2], NUMBERS, TUTTI_I32, TUTTI_SUM, &requests[2]);
    if (!good(p, err, "a start")) break;
    end_all(p, requests, open, (enum ending)(ranks_random(&state) % ENDINGS));
    const int32_t ranks = (int32_t)p->ranks, sum = ranks * (round + 4) + ranks * (ranks - 1) / 2;
    if (out[0][4] != sum) wrong(p, "round %d: the first sum is %d, expected %d", round, out[0][4], sum);
    if (open > 1 && out[1][NUMBERS * (ranks - 1) + 4] != round + 104 + ranks - 1)
      wrong(p, "round %d: %d, expected %d", round, out[1][NUMBERS * (ranks - 1) + 4], round + 104 + ranks - 1);
    if (open > 2 && out[2][4] != sum + 200 * ranks) wrong(p, "round %d: the second sum is %d", round, out[2][4]);
    if (ranks_random(&state) % 4 == 0) (void)good(p, tutti_barrier(p->comm), "tutti_barrier");
  }
  tutti_request_free(persistent);
}

/* Calls that are only checked, and a persistent request that is never started, have the buffers of no run. */
static void checks_between(struct player *p) {
  enum { BUFFERS = 4 };
  int32_t in[BUFFERS], out[BUFFERS];
  tutti_request *request = NULL, *other = NULL;
  tutti_call call = {.collective = TUTTI_ALLREDUCE, .count = 1, .type = TUTTI_I32};
  for (int round = 0; round < 60 && p->stage->failures == 0; round++) {
    for (int i = 0; i < BUFFERS; i++) in[i] = round + i, out[i] = -1;
    const int last = round % 5 == 2, unused = 2 + round % 2;
    call.send = &in[unused];
    call.recv = &out[unused];
    const bool between = round % 5 == 3;
    if (between && round % 10 < 5) (void)good(p, tutti_check_call(p->comm, &call), "tutti_check_call");
    if (between && round % 10 >= 5 && good(p, tutti_prepare(p->comm, &call, &request), "tutti_prepare"))
      tutti_request_free(request);
    tutti_err err = tutti_iallreduce(p->comm, &in[last], &out[last], 1, TUTTI_I32, TUTTI_SUM, &request);
    if (err == TUTTI_OK && between) err = tutti_ibarrier(p->comm, &other);
    if (err == TUTTI_OK) err = tutti_wait(&request);
    if (err == TUTTI_OK) err = tutti_wait(&other);
    if (!good(p, err, "a call")) return;
    for (int i = 0; i < BUFFERS; i++) {
      const int32_t expected = i == last ? (round + i) * (int32_t)p->ranks : -1;
      if (out[i] != expected) wrong(p, "round %d: result %d is %d, expected %d", round, i, out[i], expected);
    }
  }
}

/* Sends to the next rank, without blocking, and receives from the previous one. */
static void send_and_receive(struct player *p) {
  int32_t sent = (int32_t)p->rank, received = -1;
  tutti_request *requests[2] = {NULL, NULL};
  uint32_t next = (p->rank + 1) % p->ranks, previous = (p->rank + p->ranks - 1) % p->ranks;
  if (!good(p, tutti_irecv(p->comm, &received, 1, TUTTI_I32, previous, 3, &requests[0]), "tutti_irecv") ||
      !good(p, tutti_isend(p->comm, &sent, 1, TUTTI_I32, next, 3, &requests[1]), "tutti_isend") ||
      !good(p, tutti_wait_all(requests, 2), "tutti_wait_all"))
    return;
  if (received != (int32_t)previous) wrong(p, "rank %u received %d", p->rank, received);
}

static void on_ready(void *context, size_t first, size_t count) {
  (void)first;
  *(size_t *)context += count;
}

/* Sets the fields of a tutti_call that the named functions do not have. */
static void run_call_knows_all(struct player *p) {
  int32_t in[4] = {1, 2, 3, 4}, out[4] = {0};
  size_t told = 0;
  tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = 4, .type = TUTTI_I32};
  for (int i = 0; i < 8; i++) {
    call.algorithm = i == 1 ? "ring" : i == 5 ? "recursive_doubling" : NULL;
    call.timeout_ms = i == 2 ? 5000 : 0;
    call.lanes = i == 3 ? 2 : 0;
    call.on_ready = i == 4 ? on_ready : NULL;
    call.on_ready_context = &told;
    call.op = i == 6 ? TUTTI_MAX : TUTTI_SUM;
    if (!good(p, tutti_run_call(p->comm, &call), "tutti_run_call")) return;
    int32_t expected = i == 6 ? 4 : 4 * (int32_t)p->ranks;
    if (out[3] != expected) wrong(p, "call %d: %d, expected %d", i, out[3], expected);
  }
  if (told != 4) wrong(p, "on_ready got %zu elements, expected 4", told);
}

static void input_in_parts_is_refused(struct player *p) {
  int32_t in = 1, out;
  const tutti_call call = {
      .collective = TUTTI_ALLREDUCE, .send = &in, .recv = &out, .count = 1, .type = TUTTI_I32, .in_parts = true};
  tutti_err err = tutti_run_call(p->comm, &call);
  if (err != TUTTI_ERR_ARGUMENT || !strstr(tutti_error_message(p->comm), "in_parts"))
    wrong(p, "%s: %s", tutti_err_name(err), tutti_error_message(p->comm));
}

static void null_is_refused(void) {
  tutti_request *request = NULL;
  CHECK(tutti_iallreduce(NULL, NULL, NULL, 0, TUTTI_I32, TUTTI_SUM, &request) == TUTTI_ERR_ARGUMENT &&
            strstr(tutti_error_message(NULL), "tutti_iallreduce"),
        "'%s'", tutti_error_message(NULL));
  CHECK(tutti_alltoallv(NULL, NULL, NULL, NULL, NULL, NULL, NULL, TUTTI_I32) == TUTTI_ERR_ARGUMENT &&
            strstr(tutti_error_message(NULL), "tutti_alltoallv"),
        "'%s'", tutti_error_message(NULL));
  CHECK(tutti_run_call(NULL, NULL) == TUTTI_ERR_ARGUMENT && strstr(tutti_error_message(NULL), "tutti_run_call"), "'%s'",
        tutti_error_message(NULL));
}

static const struct {
  const char *name;
  void (*run)(struct player *p);
  bool fails;
} cases[] = {{"every function", every_function, false},
             {"arrays change in place", arrays_change, false},
             {"calls in turns", calls_in_turns, false},
             {"roots are kept", roots_are_kept, false},
             {"algorithms are kept", algorithms_are_kept, false},
             {"repetitions overlap", repetitions_overlap, false},
             {"checks between", checks_between, false},
             {"send and receive", send_and_receive, false},
             {"tutti_run_call takes every field", run_call_knows_all, false},
             {"input in parts is refused", input_in_parts_is_refused, true}};

static uint64_t seed;

static void play(void (*over)(struct troupe *t)) {
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (uint32_t ranks = 1; ranks <= 5; ranks++)
      (void)troupe_perform((struct troupe){.run = cases[i].run, .ranks = ranks, .seed = seed, .fails = cases[i].fails},
                           over);
}

/* No rank stops polling here before its message has come, so a rank that goes on waiting for one that it cannot take hangs. */
static void test_slices(void) {
  setenv("TUTTI_SPIN_US", "1000000000", 1);
  (void)troupe_perform((struct troupe){.run = slices, .ranks = 2, .seed = seed}, troupe_over_shm);
  (void)troupe_perform((struct troupe){.run = another_count, .ranks = 2, .seed = seed, .fails = true}, troupe_over_shm);
  unsetenv("TUTTI_SPIN_US");
}

static void test_loop(void) { play(troupe_over_loop); }
static void test_shm(void) { play(troupe_over_shm); }

int main(int argc, char **argv) {
  /* The test of processes is first: they must be forked before threads exist. */
  static const struct test tests[] = {
      {"shm", test_shm}, {"slices", test_slices}, {"loop", test_loop}, {"null", null_is_refused}};
  seed = test_seed();
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
