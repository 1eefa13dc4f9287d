/* test: slow timeout=300 */
/* conformance_test.c: one table of checks, two ways to make the ranks: threads over the loop transport, and processes over
 * shared memory. What holds over one must hold over the other. Under TSan only the loop is run. */
#include "algo/algo.h"
#include "buffers.h"
#include "conform.h"
#include "hosts.h"

enum { SLOT_BYTES = 1 << 20 };

/* From here on a rank's buffers lie in memory of any kind, over the loop too. */
static bool begin_buffers(struct player *p) {
  if (buffers_init(p->comm, SLOT_BYTES) == TUTTI_OK) return true;
  wrong(p, "rank %u: buffers: %s", p->rank, tutti_error_message(NULL));
  return false;
}
static void end_buffers(struct player *p) {
  if (buffers_fini() != TUTTI_OK) wrong(p, "rank %u: end of the buffers: %s", p->rank, tutti_error_message(NULL));
}

/* ---- the checks ---- */

/* Every algorithm, on small and large counts. */
static void every_algorithm(struct player *p) {
  static const size_t counts[] = {0, 1, 5, 1000, 70001};
  uint64_t state = p->seed;
  if (!begin_buffers(p)) return;
  for (size_t k = 0; k < tu_algorithm_count; k++) {
    const struct tu_algorithm *a = tu_algorithms[k];
    if (a->collective >= TUTTI_SEND || !tu_algorithm_fits(a, p->ranks)) continue;
    for (int i = 0; i < 10 && p->stage->failures == 0; i++) {
      struct ref_case c = {
          .collective = a->collective, .algorithm = a->name, .ranks = p->ranks, .count = counts[i % 5]};
      c.place = (enum ref_place)(ranks_random(&state) % 2);
      c.type = i & 1 ? TUTTI_I32 : TUTTI_F32;
      c.root = (uint32_t)(ranks_random(&state) % p->ranks);
      c.op = a->flags & TU_RANK_ORDER && i > 4 ? REF_AFFINE : TUTTI_SUM;
      c.lanes = (uint32_t)(ranks_random(&state) % (tu_build_lanes_max(a) + 1));
      c.seed = ranks_random(&state);
      conform(p, &c, NULL);
    }
  }
  end_buffers(p);
}

/* Random calls of all kinds at the library's choice, vector variants too; ranks run at their own pace. */
static void random_calls(struct player *p) {
  uint64_t state = p->seed, own = p->seed + p->rank;
  if (!begin_buffers(p)) return;
  for (int i = 0; i < 400 && p->stage->failures == 0; i++) {
    struct ref_case c = {.collective = (tutti_collective)(ranks_random(&state) % TUTTI_SEND), .ranks = p->ranks};
    c.place = (enum ref_place)(ranks_random(&state) % 2);
    c.blocks = (enum ref_blocks)(ranks_random(&state) % REF_BLOCKS);
    c.type = (tutti_datatype)(ranks_random(&state) % REF_TYPES);
    c.op = (uint32_t)(ranks_random(&state) % REF_OPS);
    c.root = (uint32_t)(ranks_random(&state) % p->ranks);
    c.count = ranks_random(&state) % 5 ? ranks_random(&state) % 300 : ranks_random(&state) % 30000;
    c.lanes = ranks_random(&state) % 3 ? 0 : (uint32_t)(1 + ranks_random(&state) % 4);
    c.seed = ranks_random(&state);
    if (!ref_valid(&c)) continue;
    conform(p, &c, NULL);
    if (ranks_random(&own) % 50 == 0) ranks_sleep_us(ranks_random(&own) % 3000);
  }
  end_buffers(p);
}

/* A ring of messages, grouped, with tags taken in the other order; then one request for each. */
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
    calls[1].lanes = calls[4].lanes = round; /* 0: as the library has them, which is 1 */
    tutti_request *requests[6] = {NULL};
    bool started = true;
    if (round % 2) started = good(p, tutti_start_group(p->comm, calls, 6, &requests[0]), "group");
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
  tutti_comm_set_timeout(dup, 150);
  if (p->rank == 0) ranks_sleep_us(700000);
  tutti_err err = tutti_barrier(dup);
  if (err != TUTTI_ERR_TIMEOUT || !strstr(tutti_error_message(dup), "rank 0"))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(dup));
  tutti_comm_free(dup);
}

/* Meets outside the library, so that a rank can die while all others are in a call. */
static void gather_round(struct player *p) {
  p->stage->here++;
  while (p->stage->here < p->ranks) ranks_sleep_us(100);
}

/* A thread cannot be killed: its endpoint says that it is dead, and it touches nothing until the others know. */
static void die(struct player *p) {
  if (!p->is_thread) raise(SIGKILL);
  tu_loop_kill(p->transport);
  ranks_sleep_us(1500000);
}

/* The last check: rank 1 dies, the others learn it. */
static void death(struct player *p) {
  if (p->ranks == 1) return;
  gather_round(p);
  if (p->rank == 1) die(p);
  tutti_err err;
  do err = tutti_barrier(p->comm);
  while (err == TUTTI_OK);
  if (p->rank != 1 && (err != TUTTI_ERR_PEER || !strstr(tutti_error_message(p->comm), "rank 1")))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(p->comm));
}

static const struct check {
  const char *name;
  void (*run)(struct player *p);
} checks[] = {{"every_algorithm", every_algorithm},
              {"random_calls", random_calls},
              {"messages", messages},
              {"parts", parts},
              {"many_open", many_open},
              {"disagreement", disagreement},
              {"abortion", abortion},
              {"lateness", lateness},
              {"death", death}};
enum { CHECKS = sizeof checks / sizeof checks[0] };

/* Worlds, and with how many ranks; 0: no more. The thread sanitizer is slow. */
static const struct factory {
  const char *name;
  void (*over)(struct troupe *t);
  uint32_t ranks[6];
} factories[] = {
#ifdef __SANITIZE_THREAD__
    {"loop", troupe_over_loop, {2, 4}},
    {"two_hosts", troupe_over_two_hosts, {3}},
    {"three_hosts", troupe_over_three_hosts, {4}},
#else
    {"loop", troupe_over_loop, {1, 2, 3, 4, 7}},
    {"two_hosts", troupe_over_two_hosts, {2, 4, 7}},
    {"three_hosts", troupe_over_three_hosts, {3, 6}},
    {"shm", troupe_over_shm, {1, 2, 3, 4, 7}},
#endif
};

static void perform(const struct check *check, const struct factory *factory) {
  uint64_t seed = test_seed();
  for (size_t k = 0; factory->ranks[k] > 0; k++) {
    const struct troupe t = {
        .run = check->run, .rank_1_dies = check->run == death, .ranks = factory->ranks[k], .seed = seed};
    troupe_perform(t, factory->over);
  }
}

int main(int argc, char **argv) {
  size_t passed = 0, failed = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  ranks_clear_environment();
  if (ref_register() != TUTTI_OK) abort();
  ref_memory = (struct ref_memory){buffers_acquire, buffers_release};
  /* Processes are forked first of all, while there is one thread. */
  for (size_t f = sizeof factories / sizeof factories[0]; f-- > 0;)
    for (size_t k = 0; k < CHECKS; k++) {
      char name[64];
      snprintf(name, sizeof name, "%s.%s", factories[f].name, checks[k].name);
      bool wanted = argc < 2;
      for (int i = 1; i < argc; i++) wanted |= strcmp(argv[i], name) == 0 || strcmp(argv[i], factories[f].name) == 0;
      if (!wanted) continue;
      test_failures = 0;
      perform(&checks[k], &factories[f]);
      printf("%s %s\n", test_failures ? "FAILED" : "ok", name);
      if (test_failures) failed++;
      else passed++;
    }
  printf("%zu passed, %zu failed\n", passed, failed);
  return failed ? 1 : 0;
}
