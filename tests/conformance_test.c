/* test: slow timeout=600 */
/* conformance_test.c: one table of checks, run on threads over the loop transport, on threads of several simulated
 * hosts, and on processes over shared memory. All must behave alike. Under TSan, only threads are used. */
#include "algo/algo.h"
#include "buffers.h"
#include "conform.h"
#include "hosts.h"

enum { SLOT_BYTES = 1 << 20 };

/* Makes all following buffers of this rank lie in memory of any kind, also over the loop transport. */
static bool begin_buffers(struct player *p) {
  if (buffers_init(p->comm, SLOT_BYTES) == TUTTI_OK) return true;
  wrong(p, "rank %u: buffers: %s", p->rank, tutti_error_message(NULL));
  return false;
}
static void end_buffers(struct player *p) {
  if (buffers_fini() != TUTTI_OK) wrong(p, "rank %u: end of the buffers: %s", p->rank, tutti_error_message(NULL));
}

/* ---- the checks ---- */

/* Runs every algorithm with small and large counts. */
/* Calls of each algorithm. ThreadSanitizer takes ten times as long. */
#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 5 };
#else
enum { ROUNDS = 10 };
#endif

static void every_algorithm(struct player *p) {
  static const size_t counts[] = {0, 1, 5, 1000, 70001};
  uint64_t state = p->seed;
  if (!begin_buffers(p)) return;
  for (size_t k = 0; k < tu_algorithm_count; k++) {
    const struct tu_algorithm *a = tu_algorithms[k];
    if (a->collective >= TUTTI_SEND || !tu_algorithm_fits(a, p->ranks)) continue;
    for (int i = 0; i < ROUNDS && p->stage->failures == 0; i++) {
      struct ref_case c = {
          .collective = a->collective, .algorithm = a->name, .ranks = p->ranks, .count = counts[i % 5]};
      c.aliasing = (enum ref_aliasing)(ranks_random(&state) % 2);
      c.type = i & 1 ? TUTTI_I32 : TUTTI_F32;
      c.root = (uint32_t)(ranks_random(&state) % p->ranks);
      c.op = a->flags & TU_RANK_ORDER && i > 4 ? REF_AFFINE : TUTTI_SUM;
      c.lanes = (uint32_t)(ranks_random(&state) % (tu_build_lanes_max(a) + 1));
      c.seed = ranks_random(&state);
      c.pointers = c.seed >> 62;
      conform(p, &c, NULL);
    }
  }
  end_buffers(p);
}

/* Random calls of all collectives, v-forms included, with the library's choice of algorithm. Ranks run at their own
 * pace. */
static void random_calls(struct player *p) {
  uint64_t state = p->seed, own = p->seed + p->rank;
  if (!begin_buffers(p)) return;
  for (int i = 0; i < 400 && p->stage->failures == 0; i++) {
    struct ref_case c = {.collective = ref_collectives[ranks_random(&state) % REF_COLLECTIVES], .ranks = p->ranks};
    c.aliasing = (enum ref_aliasing)(ranks_random(&state) % 2);
    c.blocks = (enum ref_blocks)(ranks_random(&state) % REF_BLOCKS);
    c.type = ref_types[ranks_random(&state) % REF_TYPES];
    c.op = (uint32_t)(ranks_random(&state) % REF_OPS);
    c.root = (uint32_t)(ranks_random(&state) % p->ranks);
    c.count = ranks_random(&state) % 5 ? ranks_random(&state) % 300 : ranks_random(&state) % 30000;
    c.lanes = ranks_random(&state) % 3 ? 0 : (uint32_t)(1 + ranks_random(&state) % 4);
    c.seed = ranks_random(&state);
    c.pointers = c.seed >> 63;
    if (!ref_valid(&c)) continue;
    conform(p, &c, NULL);
    if (ranks_random(&own) % 50 == 0) ranks_sleep_us(ranks_random(&own) % 3000);
  }
  end_buffers(p);
}

/* A ring of messages, started as one group, with receives in another order than the tags; then with one request
 * each. */
static void messages(struct player *p) {
  enum { LONG = 300000 };
  uint32_t to = (p->rank + 1) % p->ranks, from = (p->rank + p->ranks - 1) % p->ranks;
  int32_t *in = calloc(LONG, 4), *out = calloc(LONG, 4), small[2] = {-1, -1},
          mine[2] = {(int32_t)p->rank, (int32_t)p->rank + 100};
  if (!in || !out) abort();
  for (int i = 0; i < LONG; i++) in[i] = (int32_t)p->rank + i;
  for (uint32_t round = 0; round < 6; round++) {
    memset(out, 0, LONG * 4);
    tutti_call calls[] = {
        {.collective = TUTTI_SEND, .send = &mine[0], .count = 1, .type = TUTTI_I32, .peer = to, .tag = 1},
        {.collective = TUTTI_SEND, .send = in, .count = LONG, .type = TUTTI_I32, .peer = to, .tag = 2},
        {.collective = TUTTI_SEND, .send = &mine[1], .count = 1, .type = TUTTI_I32, .peer = to, .tag = 3},
        {.collective = TUTTI_RECV, .recv = &small[1], .count = 1, .type = TUTTI_I32, .peer = from, .tag = 3},
        {.collective = TUTTI_RECV, .recv = out, .count = LONG, .type = TUTTI_I32, .peer = from, .tag = 2},
        {.collective = TUTTI_RECV, .recv = &small[0], .count = 1, .type = TUTTI_I32, .peer = from, .tag = 1}};
    calls[1].lanes = calls[4].lanes = round; /* 0: the default, which is 1 */
    tutti_request *requests[6] = {NULL};
    bool started = true;
    if (round % 2) started = good(p, tutti_start_all(p->comm, calls, 6, &requests[0]), "group");
    for (int k = 0; k < 6 && round % 2 == 0; k++)
      started &= good(p, tutti_start(p->comm, &calls[k], &requests[k]), "start");
    if (!started || !good(p, tutti_wait_all(requests, 6), "wait_all")) break;
    size_t bad = 0;
    for (int i = 0; i < LONG; i++) bad += out[i] != (int32_t)from + i;
    if (bad || small[0] != (int32_t)from || small[1] != (int32_t)from + 100)
      wrong(p, "rank %u: %zu of the long message wrong; short ones %d, %d", p->rank, bad, small[0], small[1]);
  }
  free(in);
  free(out);
}

static void parts(struct player *p) {
  for (int round = 0; round < 5; round++) {
    tutti_comm *dup, *part;
    if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
    if (!good(p, tutti_comm_split(dup, (int)p->rank % 2, -(int)p->rank, &part), "split")) return;
    int32_t one = 1, sum = 0, all = 0;
    if (!good(p, tutti_allreduce(part, &one, &sum, 1, TUTTI_I32, TUTTI_SUM), "allreduce of a part")) return;
    if (!good(p, tutti_allreduce(dup, &one, &all, 1, TUTTI_I32, TUTTI_SUM), "allreduce of a dup")) return;
    uint32_t members = (p->ranks + 1 - p->rank % 2) / 2;
    if (sum != (int32_t)members || all != (int32_t)p->ranks || tutti_rank(part) != members - 1 - p->rank / 2)
      wrong(p, "rank %u: sums %d and %d, rank %u of the part", p->rank, sum, all, tutti_rank(part));
    good(p, tutti_comm_free(part), "free of a part");
    good(p, tutti_comm_free(dup), "free of a dup");
  }
}

static void many_open(struct player *p) {
  enum { OPEN = 16 };
  int32_t in[OPEN][64], out[OPEN][64];
  tutti_request *requests[OPEN];
  for (int k = 0; k < OPEN; k++) {
    for (int i = 0; i < 64; i++) in[k][i] = (int32_t)p->rank + i + k;
    tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = in[k], .recv = out[k], .count = 64, .type = TUTTI_I32};
    if (!good(p, tutti_start(p->comm, &call, &requests[k]), "start")) return;
  }
  for (int k = OPEN; k-- > 0;)
    if (!good(p, tutti_wait(&requests[k]), "wait")) return;
  for (int k = 0; k < OPEN; k++)
    for (int i = 0; i < 64; i++)
      if (out[k][i] != (int32_t)(p->ranks * (p->ranks - 1) / 2) + (int32_t)p->ranks * (i + k))
        wrong(p, "rank %u: request %d, item %d: %d", p->rank, k, i, out[k][i]);
}

static void disagreement(struct player *p) {
  tutti_comm *dup;
  if (p->ranks == 1 || !good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  int32_t x = 1, y = 0;
  tutti_err err = p->rank == 1 ? tutti_barrier(dup) : tutti_allreduce(dup, &x, &y, 1, TUTTI_I32, TUTTI_SUM);
  if (err == TUTTI_OK) err = tutti_barrier(dup);
  const char *text = tutti_error_message(dup);
  if (err != TUTTI_ERR_MISMATCH || !strstr(text, "rank 1") || !strstr(text, "allreduce") || !strstr(text, "barrier"))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), text);
  tutti_comm_free(dup);
  good(p, tutti_barrier(p->comm), "the other communicator");
}

static void abortion(struct player *p) {
  tutti_comm *dup;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  if (p->rank == p->ranks - 1) tutti_abort(dup, "enough");
  tutti_err err = tutti_barrier(dup);
  if (err != TUTTI_ERR_ABORTED || !strstr(tutti_error_message(dup), "enough"))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(dup));
  tutti_comm_free(dup);
}

static void lateness(struct player *p) {
  tutti_comm *dup;
  if (p->ranks == 1 || !good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  (void)!tutti_comm_set_timeout(dup, 1500); /* on a busy machine, a rank may need most of it to begin to wait */
  tutti_request *request = NULL;
  for (int i = 0; i < 2 && p->rank == 0; i++) troupe_meet(p); /* comes when the others have given up */
  tutti_err err = tutti_start(dup, &(tutti_call){.collective = TUTTI_BARRIER}, &request);
  if (p->rank != 0) troupe_meet(p); /* the time counts from the wait, when all others have started */
  if (err == TUTTI_OK) err = tutti_wait(&request);
  if (p->rank != 0) troupe_meet(p);
  if (err != TUTTI_ERR_TIMEOUT || !strstr(tutti_error_message(dup), "rank 0"))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(dup));
  tutti_comm_free(dup);
}

/* Ends this rank. A thread cannot be killed: its endpoint is marked as dead, and the thread touches nothing until the
 * others know and meet it. */
static void die(struct player *p) {
  if (!p->is_thread) raise(SIGKILL);
  tu_loop_kill(p->transport);
  troupe_meet(p);
}

/* The last check: rank 1 dies, and the other ranks get an error that names it. */
static void death(struct player *p) {
  if (p->ranks == 1) return;
  troupe_meet(p);
  if (p->rank == 1) die(p);
  tutti_err err;
  do err = tutti_barrier(p->comm);
  while (err == TUTTI_OK);
  if (p->rank != 1 && p->is_thread) troupe_meet(p);
  if (p->rank != 1 && (err != TUTTI_ERR_PEER || !strstr(tutti_error_message(p->comm), "rank 1")))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(p->comm));
}

static const struct troupe_case cases[] = {
    {TROUPE_CASE(every_algorithm)}, {TROUPE_CASE(random_calls)}, {TROUPE_CASE(messages)},
    {TROUPE_CASE(parts)},           {TROUPE_CASE(many_open)},    {TROUPE_CASE(disagreement)},
    {TROUPE_CASE(abortion)},        {TROUPE_CASE(lateness)},     {TROUPE_CASE(death), .rank_1_dies = true},
};

/* shm is first: processes must be forked before threads exist. Under TSan there are few ranks, as it is slow. */
static const struct troupe_transport transports[] = {
#ifdef __SANITIZE_THREAD__
    {"three_hosts", troupe_over_three_hosts, {4}},
    {"two_hosts", troupe_over_two_hosts, {3}},
    {"loop", troupe_over_loop, {2, 4}},
#else
    {"shm", troupe_over_shm, {1, 2, 3, 4, 7}},
    {"three_hosts", troupe_over_three_hosts, {3, 6}},
    {"two_hosts", troupe_over_two_hosts, {2, 4, 7}},
    {"loop", troupe_over_loop, {1, 2, 3, 4, 7}},
#endif
    {0},
};

int main(int argc, char **argv) {
  if (ref_register() != TUTTI_OK) return 1;
  ref_memory = (struct ref_memory){buffers_acquire, buffers_release};
  return troupe_main(cases, sizeof cases / sizeof cases[0], transports, argc, argv);
}
