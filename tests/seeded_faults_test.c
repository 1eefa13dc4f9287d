/* test: slow timeout=300 */
/* seeded_faults_test.c: faults drawn by seed, in real processes. A seed says how many ranks there are, what they call, who starts
 * them (this program, as a foreign launcher does, or `tutti run`), whether they wait or poll, and what happens to one of them,
 * the victim, when. Whatever it is: nothing hangs, no call that returns TUTTI_OK has a wrong element, and every sentence that a
 * survivor gets names the victim.
 *
 * Without arguments: seeds 0..49, or 0..1999 if TEST_LONG is set. With one: `seeded_faults_test 100..150` takes these seeds, and
 * says every 100 seeds how far it came, so that a range can be taken up again where it was left. TEST_SEED=n is n..n. */
#include <pthread.h>
#include <stdarg.h>

#include "algo/algo.h"
#include "ranks.h"
#include "test.h"

enum {
  RANKS = 6,
  STEPS = 12,
  ITEMS = 60000,
  TIMEOUT_MS = 300,
  JOIN_MS = 1000, /* less than tutti run gives the survivors */
  HANG_MS = 30000,
  AT_ONCE = 4,
  REPORT_BYTES = 6000,
  TRIES = 5, /* of a case that was disturbed: where other programs have the cores, ranks are late for that */
};

/* ---- what a seed says ---- */

enum fault {
  NOTHING,
  KILLED,
  STOPPED,
  STOPPED_AND_GOES_ON,
  EXITS,
  DISAGREES,
  ABORTS,
  NEVER_CALLS,
  NEVER_JOINS,
  DIES_JOINING,
  FAULTS
};
static const char *const fault_names[] = {
    "nothing",   "killed", "stopped",     "stopped, goes on", "exits",
    "disagrees", "aborts", "never calls", "never joins",      "killed while it joins"};
enum place { BEFORE, STARTED, ANY_TIME }; /* the call of that step, in which, or some time after it */
static const char *const place_names[] = {"before the call", "after its start", "any time"};
enum difference { COLLECTIVE, COUNT, TYPE, OP, ROOT, ALGORITHM, LENGTH, DIFFERENCES };
static const char *const difference_names[] = {"collective", "count", "type", "op", "root", "algorithm", "length"};

enum kind { RING = TUTTI_COLLECTIVES, PAIR, KINDS }; /* beside the collectives: send and recv; two calls at once */
struct step {
  int kind;
  tutti_datatype type;
  uint32_t count, root;
  const char *algorithm; /* or NULL */
  bool half;             /* in the communicator of this rank's half */
  bool blocks;           /* by the call that waits, if the ranks do not poll */
};

struct scene {
  uint64_t seed;
  uint32_t ranks, victim, at; /* the step of the fault */
  uint32_t steps;
  enum fault fault;
  enum place place;
  enum difference difference;
  int status;        /* EXITS: with */
  uint32_t delay_us; /* ANY_TIME: after the victim came to the step */
  uint32_t pause_ms; /* STOPPED_AND_GOES_ON: for so long */
  bool launched;     /* by tutti run */
  bool halves;       /* ranks of equal parity have a communicator of their own */
  bool polls;        /* tutti_test, else tutti_wait */
  uint32_t poll_us;  /* between two */
  struct step step[STEPS];
};

static const int plain_kinds[] = {TUTTI_ALLREDUCE,
                                  TUTTI_BROADCAST,
                                  TUTTI_REDUCE,
                                  TUTTI_GATHER,
                                  TUTTI_SCATTER,
                                  TUTTI_ALLGATHER,
                                  TUTTI_ALLTOALL,
                                  TUTTI_REDUCE_SCATTER,
                                  TUTTI_SCAN,
                                  TUTTI_EXSCAN,
                                  TUTTI_BARRIER,
                                  RING,
                                  PAIR};
enum { PLAIN_KINDS = sizeof plain_kinds / sizeof plain_kinds[0] };

static bool is_collective(int kind) { return kind < TUTTI_COLLECTIVES; }

/* One of the table's that serves so many ranks, or none. */
static const char *draw_algorithm(int kind, uint32_t ranks, uint64_t *state) {
  const char *found = NULL;
  uint32_t seen = 0;
  for (size_t i = 0; i < tu_algorithm_count && is_collective(kind); i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    if ((int)a->collective != kind || (a->flags & TU_OPEN_GROUPS) || !tu_algorithm_fits(a, ranks)) continue;
    if (ranks_random(state) % ++seen == 0) found = a->name;
  }
  return found;
}

static struct step draw_step(const struct scene *s, uint64_t *state) {
  static const uint32_t counts[] = {1, 6, 30, 600, 6000, ITEMS};
  static const tutti_datatype types[] = {TUTTI_I32, TUTTI_F32, TUTTI_I64};
  struct step step = {.kind = plain_kinds[ranks_random(state) % PLAIN_KINDS],
                      .type = types[ranks_random(state) % 3],
                      .count = counts[ranks_random(state) % 6]};
  step.half = s->halves && ranks_random(state) % 3 == 0;
  uint32_t ranks = step.half ? (s->ranks + 1) / 2 : s->ranks, fewer = step.half ? s->ranks / 2 : s->ranks;
  step.root = (uint32_t)(ranks_random(state) % fewer);
  if (ranks_random(state) % 2 && fewer == ranks) step.algorithm = draw_algorithm(step.kind, ranks, state);
  step.blocks = ranks_random(state) % 2;
  return step;
}

/* The step at which the victim is to differ must be one where that can be told. */
static void suit(struct scene *s, uint64_t *state) {
  struct step *step = &s->step[s->at];
  s->difference = (enum difference)(ranks_random(state) % DIFFERENCES);
  step->kind = s->difference == ROOT ? TUTTI_BROADCAST : s->difference == LENGTH ? RING : TUTTI_ALLREDUCE;
  step->algorithm = NULL;
  step->half = false;
}

static struct scene draw(uint64_t seed) {
  static const enum fault faults[] = {KILLED,      KILLED, KILLED,    STOPPED,     STOPPED,     STOPPED_AND_GOES_ON,
                                      EXITS,       EXITS,  DISAGREES, DISAGREES,   NEVER_CALLS, NEVER_CALLS,
                                      NEVER_CALLS, ABORTS, NOTHING,   NEVER_JOINS, DIES_JOINING};
  static const uint32_t intervals_us[] = {0, 100, 1000, 10000, 50000};
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  struct scene s = {.seed = seed, .ranks = 2 + (uint32_t)(ranks_random(&state) % (RANKS - 1))};
  s.fault = faults[ranks_random(&state) % (sizeof faults / sizeof faults[0])];
  s.victim = (uint32_t)(ranks_random(&state) % s.ranks);
  s.launched = ranks_random(&state) % 4 == 0;
  s.polls = ranks_random(&state) % 3 == 0;
  s.poll_us = intervals_us[ranks_random(&state) % 5];
  s.halves = s.ranks >= 4 && ranks_random(&state) % 2;
  s.steps = 2 + (uint32_t)(ranks_random(&state) % (STEPS - 1));
  s.at = (uint32_t)(ranks_random(&state) % s.steps);
  s.place = (enum place)(ranks_random(&state) % 3);
  bool by_signal = s.fault == KILLED || s.fault == STOPPED || s.fault == STOPPED_AND_GOES_ON;
  if (s.place == ANY_TIME && !by_signal) s.place = STARTED;
  if (s.fault == DISAGREES) s.place = BEFORE;
  s.status = ranks_random(&state) % 3 ? 7 : 0;
  if (s.fault == DIES_JOINING) s.place = ANY_TIME;
  s.delay_us = (uint32_t)(ranks_random(&state) % (s.fault == DIES_JOINING ? 20000 : 8000));
  s.pause_ms = ranks_random(&state) % 2 ? 60 : 900;
  for (uint32_t i = 0; i < s.steps; i++) s.step[i] = draw_step(&s, &state);
  if (s.fault == DISAGREES) suit(&s, &state);
  return s;
}

static int print_scene(const struct scene *s, char *text, size_t bytes) {
  char polling[40];
  snprintf(polling, sizeof polling, "polling every %u us", s->poll_us);
  return snprintf(text, bytes, "seed %llu: %u ranks by %s, %s%s, rank %u %s%s%s%s at step %u of %u (%s)",
                  (unsigned long long)s->seed, s->ranks, s->launched ? "tutti run" : "a foreign launcher",
                  s->polls ? polling : "waiting", s->halves ? ", in halves too" : "", s->victim, fault_names[s->fault],
                  s->fault == DISAGREES ? " about the " : "",
                  s->fault == DISAGREES ? difference_names[s->difference] : "",
                  s->fault == EXITS ? (s->status ? " with 7" : " with 0") : "", s->at, s->steps, place_names[s->place]);
}

/* ---- what ranks tell ---- */

/* ranks_shared.numbers: the pids of the ranks, and then: */
enum { FIRED_MS = RANKS, WRONG, OTHER_HALF, PAST /* the victim has passed the first of the last barriers */ };
/* ranks_shared.rank[].stage */
enum { STARTS, COMES, ARRIVED, THROUGH, TOLD };
/* ranks_shared.rank[].notes: the first error, of the half or of the world; then the world's */

enum { GOOD = 0, FAILED = 3 };

struct player {
  const struct scene *scene;
  struct ranks_shared *shared;
  uint32_t rank;
  tutti_comm *world, *half;
  bool half_failed;
  void *in[2], *out[2];
};

static void note_text(struct player *p, tutti_err err, const char *where, const char *sentence) {
  struct ranks_world w = {.shared = p->shared};
  char text[RANKS_TEXT];
  snprintf(text, sizeof text, "%s%s", where, sentence);
  ranks_note(&w, p->rank, err, text);
}

static void note(struct player *p, tutti_err err, const tutti_comm *comm) {
  note_text(p, err, comm && comm == p->half ? "in its half: " : "", tutti_error_message(comm));
}

static bool is_victim(const struct player *p) { return p->rank == p->scene->victim; }

static void fire(const struct player *p) {
  uint64_t none = 0;
  atomic_compare_exchange_strong(&p->shared->numbers[FIRED_MS], &none, ranks_now_ms());
}

static void sleep_until_told(struct player *p) {
  fire(p);
  while (!p->shared->go) ranks_sleep_us(1000);
}

/* What happens to the victim at that place; the conductor does what comes at any time. */
static void suffer(struct player *p, uint32_t step, enum place place) {
  const struct scene *s = p->scene;
  if (!is_victim(p) || step != s->at || place != s->place) return;
  switch (s->fault) {
    case KILLED: fire(p), raise(SIGKILL); return;
    case STOPPED:
    case STOPPED_AND_GOES_ON: fire(p), raise(SIGSTOP); return;
    case EXITS: fire(p), exit(s->status);
    case ABORTS: fire(p), tutti_abort(p->world, "the disk is full"); return;
    case NEVER_CALLS: sleep_until_told(p); return;
    case DISAGREES: fire(p); return;
    default: return;
  }
}

/* ---- calls and their elements ---- */

static int64_t value(const struct player *p, uint32_t step, uint32_t world_rank, size_t i) {
  return (int64_t)((p->scene->seed + step * 5 + world_rank * 11 + i * 7) % 23);
}

static void put(void *data, tutti_datatype type, size_t i, int64_t x) {
  if (type == TUTTI_I32) ((int32_t *)data)[i] = (int32_t)x;
  else if (type == TUTTI_F32) ((float *)data)[i] = (float)x;
  else ((int64_t *)data)[i] = x;
}
static int64_t get(const void *data, tutti_datatype type, size_t i) {
  if (type == TUTTI_I32) return ((const int32_t *)data)[i];
  if (type == TUTTI_F32) return (int64_t)((const float *)data)[i];
  return ((const int64_t *)data)[i];
}

/* A step as one communicator's rank sees it. */
struct view {
  const struct player *player;
  const struct step *step;
  uint32_t index, ranks, rank;
  size_t block; /* items that each rank has of its own, in collectives of blocks */
};

static uint32_t world_rank(const struct view *v, uint32_t rank) {
  return v->step->half ? 2 * rank + v->player->rank % 2 : rank;
}

static bool has_blocks(int kind) {
  return kind == TUTTI_GATHER || kind == TUTTI_SCATTER || kind == TUTTI_ALLGATHER || kind == TUTTI_ALLTOALL ||
         kind == TUTTI_REDUCE_SCATTER;
}

/* How many elements of the result does this rank have? */
static size_t results(const struct view *v) {
  const struct step *s = v->step;
  switch (s->kind) {
    case TUTTI_BARRIER: return 0;
    case TUTTI_REDUCE: return v->rank == s->root ? s->count : 0;
    case TUTTI_GATHER: return v->rank == s->root ? v->block * v->ranks : 0;
    case TUTTI_ALLGATHER:
    case TUTTI_ALLTOALL: return v->block * v->ranks;
    case TUTTI_SCATTER:
    case TUTTI_REDUCE_SCATTER: return v->block;
    case TUTTI_EXSCAN: return v->rank > 0 ? s->count : 0;
    default: return s->count;
  }
}

static int64_t sum(const struct view *v, uint32_t ranks, size_t i) {
  int64_t all = 0;
  for (uint32_t r = 0; r < ranks; r++) all += value(v->player, v->index, world_rank(v, r), i);
  return all;
}

static int64_t expected(const struct view *v, size_t i) {
  const struct step *s = v->step;
  uint32_t of = v->block ? (uint32_t)(i / v->block) : 0;
  size_t within = v->block ? i % v->block : 0;
  switch (s->kind) {
    case TUTTI_BROADCAST: return value(v->player, v->index, world_rank(v, s->root), i);
    case TUTTI_GATHER:
    case TUTTI_ALLGATHER: return value(v->player, v->index, world_rank(v, of), within);
    case TUTTI_SCATTER: return value(v->player, v->index, world_rank(v, s->root), v->rank * v->block + i);
    case TUTTI_ALLTOALL: return value(v->player, v->index, world_rank(v, of), v->rank * v->block + within);
    case TUTTI_REDUCE_SCATTER: return sum(v, v->ranks, v->rank * v->block + i);
    case TUTTI_SCAN: return sum(v, v->rank + 1, i);
    case TUTTI_EXSCAN: return sum(v, v->rank, i);
    case RING: return value(v->player, v->index, world_rank(v, (v->rank + v->ranks - 1) % v->ranks), i);
    default: return sum(v, v->ranks, i); /* also of both calls of a pair */
  }
}

static void check_elements(const struct view *v, const void *out) {
  for (size_t i = 0, n = results(v); i < n; i++) {
    if (get(out, v->step->type, i) == expected(v, i)) continue;
    struct ranks_world w = {.shared = v->player->shared};
    char text[200];
    snprintf(text, sizeof text, "step %u, element %zu of %s is %lld, expected %lld", v->index, i,
             v->step->kind == RING   ? "a ring"
             : v->step->kind == PAIR ? "a pair"
                                     : tutti_collective_name((tutti_collective)v->step->kind),
             (long long)get(out, v->step->type, i), (long long)expected(v, i));
    ranks_note(&w, v->player->rank, TUTTI_OK, text);
    v->player->shared->numbers[WRONG]++;
    return;
  }
}

static uint32_t describe(const struct view *v, tutti_call calls[2]) {
  const struct step *s = v->step;
  const struct player *p = v->player;
  tutti_call call = {.send = p->in[0], .recv = p->out[0], .count = s->count, .type = s->type, .root = s->root};
  call.collective = s->kind == PAIR ? TUTTI_ALLREDUCE : (tutti_collective)s->kind;
  call.algorithm = s->algorithm;
  if (has_blocks(s->kind)) call.count = v->block;
  if (s->kind == TUTTI_BROADCAST) call.send = v->rank == s->root ? p->out[0] : NULL;
  if (s->kind == TUTTI_BARRIER) call = (tutti_call){.collective = TUTTI_BARRIER, .algorithm = s->algorithm};
  calls[0] = calls[1] = call;
  calls[1].send = p->in[1];
  calls[1].recv = p->out[1];
  if (s->kind != RING) return s->kind == PAIR ? 2 : 1;
  calls[0] = (tutti_call){
      .collective = TUTTI_SEND, .send = p->in[0], .count = s->count, .type = s->type, .peer = (v->rank + 1) % v->ranks};
  calls[1] = (tutti_call){.collective = TUTTI_RECV,
                          .recv = p->out[0],
                          .count = s->count,
                          .type = s->type,
                          .peer = (v->rank + v->ranks - 1) % v->ranks};
  return 2;
}

static void differ(const struct scene *s, tutti_call calls[2], uint32_t count) {
  switch (s->difference) {
    case COLLECTIVE: calls[0].collective = TUTTI_SCAN; return;
    case COUNT: calls[0].count++; return;
    case TYPE: calls[0].type = calls[0].type == TUTTI_I32 ? TUTTI_U32 : TUTTI_I32; return;
    case OP: calls[0].op = TUTTI_MAX; return;
    case ROOT:
      calls[0].root = (calls[0].root + 1) % s->ranks;
      calls[0].send = s->victim == calls[0].root ? calls[0].recv : NULL;
      return;
    case ALGORITHM: calls[0].algorithm = "direct"; return;
    default:
      for (uint32_t i = 0; i < count; i++) calls[i].count++;
  }
}

static tutti_err finish(const struct scene *s, tutti_request **request) {
  bool done = false;
  tutti_err err = TUTTI_OK;
  if (!s->polls) return tutti_wait(request);
  while (err == TUTTI_OK && !done) {
    err = tutti_test(request, &done);
    if (err == TUTTI_OK && !done && s->poll_us) ranks_sleep_us(s->poll_us);
  }
  return err;
}

static tutti_err call_blocking(tutti_comm *comm, const tutti_call *c) {
  switch (c->collective) {
    case TUTTI_ALLREDUCE: return tutti_allreduce(comm, c->send, c->recv, c->count, c->type, c->op);
    case TUTTI_BROADCAST: return tutti_broadcast(comm, c->recv, c->count, c->type, c->root);
    case TUTTI_REDUCE: return tutti_reduce(comm, c->send, c->recv, c->count, c->type, c->op, c->root);
    case TUTTI_BARRIER: return tutti_barrier(comm);
    case TUTTI_ALLGATHER: return tutti_allgather(comm, c->send, c->recv, c->count, c->type);
    case TUTTI_SCAN: return tutti_scan(comm, c->send, c->recv, c->count, c->type, c->op);
    default: break;
  }
  tutti_request *request = NULL;
  tutti_err err = tutti_start(comm, c, &request);
  return err != TUTTI_OK ? err : tutti_wait(&request);
}

static void fill(const struct view *v) {
  const struct player *p = v->player;
  size_t n = has_blocks(v->step->kind) ? v->block * v->ranks : v->step->count;
  for (size_t i = 0; i < n; i++) {
    int64_t x = value(p, v->index, p->rank, i);
    put(p->in[0], v->step->type, i, x);
    put(p->in[1], v->step->type, i, x);
    put(p->out[0], v->step->type, i, v->step->kind == TUTTI_BROADCAST ? x : -1);
    put(p->out[1], v->step->type, i, -1);
  }
}

static tutti_err perform(struct player *p, tutti_comm *comm, uint32_t index) {
  const struct step *step = &p->scene->step[index];
  struct view v = {.player = p, .step = step, .index = index, .ranks = tutti_ranks(comm), .rank = tutti_rank(comm)};
  if (has_blocks(step->kind)) v.block = step->count / v.ranks;
  tutti_call calls[2];
  uint32_t count = describe(&v, calls);
  bool faulty = is_victim(p) && index == p->scene->at;
  fill(&v);
  if (faulty && p->scene->fault == DISAGREES) differ(p->scene, calls, count);
  if (count == 1 && step->blocks && !p->scene->polls && !faulty && !calls[0].algorithm) {
    tutti_err err = call_blocking(comm, &calls[0]);
    if (err == TUTTI_OK) check_elements(&v, p->out[0]);
    return err;
  }
  tutti_request *requests[2] = {NULL, NULL};
  tutti_err err = TUTTI_OK;
  if (step->kind == RING) err = tutti_start_group(comm, calls, 2, &requests[0]);
  for (uint32_t i = 0; step->kind != RING && i < count && err == TUTTI_OK; i++)
    err = tutti_start(comm, &calls[i], &requests[i]);
  suffer(p, index, STARTED);
  for (uint32_t i = 2; i-- > 0;) {
    tutti_err finished = requests[i] ? finish(p->scene, &requests[i]) : TUTTI_OK;
    if (err == TUTTI_OK) err = finished;
  }
  if (err != TUTTI_OK) return err;
  if (faulty && p->scene->fault == DISAGREES)
    return TUTTI_OK; /* it got what it asked for, if that needs no other rank */
  check_elements(&v, p->out[0]);
  if (step->kind == PAIR) check_elements(&v, p->out[1]);
  return TUTTI_OK;
}

/* ---- a rank's part ---- */

static tutti_err take_step(struct player *p, uint32_t i) {
  const struct step *step = &p->scene->step[i];
  tutti_comm *comm = step->half ? p->half : p->world;
  if (is_victim(p) && i == p->scene->at) p->shared->rank[p->rank].stage = ARRIVED;
  suffer(p, i, BEFORE);
  if (step->half && p->half_failed) return TUTTI_OK;
  tutti_err err = perform(p, comm, i);
  if (err == TUTTI_OK || !step->half) return err;
  /* The other half knows nothing of it: both go on, and meet it in the world. */
  note(p, err, p->half);
  p->half_failed = true;
  return TUTTI_OK;
}

/* The world has failed, the half need not have: it goes on, and the half that the victim is not of makes and frees
 * communicators, which is nothing to the world. */
static void go_on_in_half(struct player *p, uint32_t step) {
  for (; p->half && !p->half_failed && step < p->scene->steps; step++)
    if (p->scene->step[step].half) (void)take_step(p, step);
  if (!p->half || p->half_failed || p->rank % 2 == p->scene->victim % 2) return;
  tutti_comm *part = NULL, *copy = NULL;
  int32_t x = 1, y = 0;
  tutti_err err = tutti_comm_split(p->half, 0, 0, &part);
  if (err == TUTTI_OK) err = tutti_comm_dup(part, &copy);
  if (err == TUTTI_OK) err = tutti_allreduce(copy, &x, &y, 1, TUTTI_I32, TUTTI_SUM);
  if (err == TUTTI_OK && (uint32_t)y != tutti_ranks(p->half)) p->shared->numbers[WRONG]++;
  if (err == TUTTI_OK) err = tutti_comm_free(copy);
  if (err == TUTTI_OK) err = tutti_comm_free(part);
  if (err == TUTTI_OK) return;
  p->shared->numbers[OTHER_HALF]++;
  note(p, err, NULL);
}

/* A rank may be stopped or killed while it frees: the others learn of that, too. */
static void free_in_order(struct player *p, tutti_err *err, tutti_comm *comm) {
  bool half = comm == p->half;
  tutti_err freed = tutti_comm_free(comm);
  if (freed == TUTTI_OK || *err != TUTTI_OK) return;
  if (half) p->half = NULL;
  note_text(p, freed, half ? "in its half: " : "", tutti_error_message(NULL));
  *err = freed;
}

static int play(struct player *p) {
  const struct scene *s = p->scene;
  p->shared->numbers[p->rank] = (uint64_t)getpid();
  p->shared->rank[p->rank].stage = COMES;
  for (int i = 0; i < 2; i++) {
    p->in[i] = malloc(ITEMS * 8 + 64), p->out[i] = malloc(ITEMS * 8 + 64);
    if (!p->in[i] || !p->out[i]) return 9;
  }
  if (s->fault == NEVER_JOINS && is_victim(p)) return sleep_until_told(p), FAILED;
  tutti_options options = {.timeout_ms = s->fault == NOTHING ? -1 : TIMEOUT_MS, .join_timeout_ms = 20000};
  if (s->fault == NEVER_JOINS || s->fault == DIES_JOINING) options.join_timeout_ms = JOIN_MS;
  uint32_t met = 0;
  tutti_err err = tutti_init(&options, &p->world);
  if (err == TUTTI_OK && s->halves) err = tutti_comm_split(p->world, (int)(p->rank % 2), 0, &p->half);
  for (uint32_t i = 0; i < s->steps && err == TUTTI_OK; i++, met = i) err = take_step(p, i);
  /* Past a second barrier no rank gets whom another one has not passed the first. */
  for (int i = 0; i < 2 && err == TUTTI_OK; i++) {
    if (i == 1 && is_victim(p)) p->shared->numbers[PAST] = 1;
    err = tutti_barrier(p->world);
  }
  if (err != TUTTI_OK) note(p, err, p->world);
  else p->shared->rank[p->rank].stage = THROUGH;
  if (err != TUTTI_OK) go_on_in_half(p, met);
  if (err != TUTTI_OK) p->shared->rank[p->rank].stage = TOLD;
  if (p->half_failed) (void)!tutti_comm_free(p->half);
  else free_in_order(p, &err, p->half);
  if (err != TUTTI_OK) (void)!tutti_comm_free(p->world);
  else free_in_order(p, &err, p->world);
  return err == TUTTI_OK && !p->half_failed ? GOOD : FAILED;
}

static int play_forked(struct ranks_world *w, uint32_t rank) {
  struct player p = {.scene = w->context, .shared = w->shared, .rank = rank};
  return play(&p);
}

/* "--as fault SEED:DESCRIPTOR": a rank under tutti run. */
static int play_launched(const char *argument) {
  char *rest;
  struct scene scene = draw(strtoull(argument, &rest, 10));
  int fd = atoi(rest + 1);
  struct ranks_shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  const char *rank = getenv("TUTTI_RANK");
  if (shared == MAP_FAILED || !rank) return 9;
  struct player p = {.scene = &scene, .shared = shared, .rank = (uint32_t)atoi(rank)};
  return play(&p);
}

/* ---- conducting a case ---- */

/* What one case came to; in memory that this program shares with the processes that conduct cases. */
struct outcome {
  bool hung, disturbed;
  bool early;     /* a limit ran out before the fault came: there is nothing to judge */
  uint32_t again; /* played so often again, as it was disturbed */
  uint32_t wrong, unnamed, other_half, statuses;
  char report[REPORT_BYTES];
};

struct conductor {
  const struct scene *scene;
  struct ranks_shared *shared;
  atomic_bool over;
  bool late;
};

static void send_signal(const struct conductor *c, int number) {
  pid_t pid = (pid_t)c->shared->numbers[c->scene->victim];
  if (pid > 0) kill(pid, number);
}

static bool all_told(const struct conductor *c) {
  for (uint32_t r = 0; r < c->scene->ranks; r++)
    if (r != c->scene->victim && c->shared->rank[r].stage < THROUGH) return false;
  return true;
}

static bool wait_until_stage(struct conductor *c, uint32_t stage) {
  while (!c->over && c->shared->rank[c->scene->victim].stage < stage) ranks_sleep_us(50);
  return !c->over;
}

/* Does to the victim what it cannot do itself: a thread of the process that conducts the case. */
static void *lend_a_hand(void *context) {
  struct conductor *c = context;
  const struct scene *s = c->scene;
  bool stops = s->fault == STOPPED || s->fault == STOPPED_AND_GOES_ON;
  if (!wait_until_stage(c, s->fault == NEVER_JOINS || s->fault == DIES_JOINING ? COMES : ARRIVED)) return NULL;
  if (s->place == ANY_TIME) {
    ranks_sleep_us(s->delay_us);
    uint64_t none = 0;
    atomic_compare_exchange_strong(&c->shared->numbers[FIRED_MS], &none, ranks_now_ms());
    send_signal(c, s->fault == KILLED || s->fault == DIES_JOINING ? SIGKILL : SIGSTOP);
  }
  while (stops && !c->over && c->shared->numbers[FIRED_MS] == 0) ranks_sleep_us(50);
  if (s->fault == STOPPED_AND_GOES_ON) {
    ranks_sleep_us(s->pause_ms * 1000);
    send_signal(c, SIGCONT);
  }
  while (!c->over && !all_told(c)) ranks_sleep_us(500);
  c->shared->go = 1;
  /* Who is stopped is ended by tutti run, if another rank has failed for it, or here. */
  bool failed = false;
  for (uint32_t r = 0; r < s->ranks; r++) failed |= c->shared->rank[r].stage == TOLD;
  if (s->fault == STOPPED && !failed && !c->over) send_signal(c, SIGCONT);
  else if (s->fault == STOPPED && !s->launched && !c->over) send_signal(c, SIGKILL);
  return NULL;
}

static bool says(const char *text, const char *words) { return strstr(text, words) != NULL; }
static bool names_rank(const char *text, uint32_t rank) {
  char words[32];
  int length = snprintf(words, sizeof words, "rank %u", rank);
  for (const char *at = text; (at = strstr(at, words)); at += length)
    if (at[length] < '0' || at[length] > '9') return true;
  return false;
}
/* In a list: "ranks 1, 2". */
static bool lists_rank(const char *text, uint32_t rank) {
  const char *at = strstr(text, "ranks ");
  for (at = at ? at + 6 : NULL; at && *at >= '0' && *at <= '9';) {
    char *end;
    if (strtoul(at, &end, 10) == rank) return true;
    if (*end == '-' && strtoul(at, NULL, 10) <= rank && strtoul(end + 1, &end, 10) >= rank) return true;
    at = strncmp(end, ", ", 2) == 0 ? end + 2 : NULL;
  }
  return names_rank(text, rank);
}

static void add(struct outcome *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct outcome *o, const char *format, ...) {
  size_t used = strlen(o->report);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(o->report + used, sizeof o->report - used, format, arguments);
  va_end(arguments);
}

static tutti_err expected_error(const struct scene *s) {
  switch (s->fault) {
    case KILLED:
    case DIES_JOINING:
    case EXITS: return TUTTI_ERR_PEER;
    case DISAGREES: return TUTTI_ERR_MISMATCH;
    case ABORTS: return TUTTI_ERR_ABORTED;
    default: return TUTTI_ERR_TIMEOUT;
  }
}

/* Who waits too long for a rank says so: "rank 3 has waited ... for rank 0 (...)". The first that it waits for is at fault. */
static bool blames(const struct scene *s, const char *text, uint32_t victim) {
  if (s->fault == NEVER_JOINS || s->fault == DIES_JOINING) {
    /* Rank 0 gives the job up when a rank dies: one that comes later finds nobody who could say why. */
    bool too_late = s->fault == DIES_JOINING && says(text, "which did not let rank");
    return too_late || lists_rank(text, victim);
  }
  const char *waited = strstr(text, " has waited "), *rank = waited ? strstr(waited, "rank ") : NULL;
  if (!rank) return names_rank(text, victim);
  return (uint32_t)atoi(rank + 5) == victim;
}

/* A half may wait for one of its ranks that waits in the world for the victim. */
static bool blames_stranger(const char *text, uint32_t victim) {
  char words[40];
  snprintf(words, sizeof words, "rank %u of the world", victim);
  return says(text, words);
}

/* Must every survivor get an error? */
static bool must_fail(const struct scene *s, const struct ranks_shared *shared) {
  if (s->fault == NOTHING) return false;
  if (shared->numbers[PAST]) return false; /* the signal came when they needed no more of it */
  return s->fault != STOPPED_AND_GOES_ON || s->pause_ms > TIMEOUT_MS;
}

static void judge_rank(const struct scene *s, const struct ranks_shared *shared, uint32_t r, struct outcome *o) {
  uint32_t noted = shared->rank[r].noted, errors = 0;
  for (uint32_t k = 0; k < noted && k < RANKS_NOTES; k++) {
    const struct ranks_note *n = &shared->rank[r].notes[k];
    if (n->err == TUTTI_OK) continue;
    bool half = says(n->text, "in its half: ");
    bool blamed = !half                    ? blames(s, n->text, s->victim)
                  : r % 2 == s->victim % 2 ? blames(s, n->text, s->victim / 2)
                                           : blames_stranger(n->text, s->victim);
    errors++;
    if (shared->numbers[OTHER_HALF] > 0 && k > 0) continue; /* counted already */
    if (shared->numbers[FIRED_MS] == 0 || n->at_ms < shared->numbers[FIRED_MS]) o->disturbed = o->early = true;
    if (s->fault != NOTHING && blamed) continue;
    o->unnamed++;
    add(o, "  rank %u names not rank %u%s\n", r, s->victim, half ? " in its half" : "");
  }
  if (errors > 0 || r == s->victim || !must_fail(s, shared)) return;
  o->unnamed++;
  add(o, "  rank %u got no error\n", r);
}

static void judge_codes(const struct scene *s, const struct ranks_shared *shared, struct outcome *o) {
  for (uint32_t r = 0; r < s->ranks; r++) {
    const struct ranks_note *n = &shared->rank[r].notes[0];
    if (r == s->victim || shared->rank[r].noted == 0 || n->err == TUTTI_OK || n->err == expected_error(s)) continue;
    /* Who had not come yet when it died is only missed. */
    if (s->fault == DIES_JOINING && n->err == TUTTI_ERR_TIMEOUT) continue;
    /* The victim may not have got a core in time, to do what it does or to die: then it is rightly said to be late. */
    o->disturbed |= n->err == TUTTI_ERR_TIMEOUT;
    o->unnamed++;
    add(o, "  rank %u got %s, expected %s\n", r, tutti_err_name(n->err), tutti_err_name(expected_error(s)));
  }
}

static void print_notes(const struct scene *s, const struct ranks_shared *shared, struct outcome *o) {
  for (uint32_t r = 0; r < s->ranks; r++) {
    add(o, "  rank %u: stage %u\n", r, shared->rank[r].stage);
    for (uint32_t k = 0; k < shared->rank[r].noted && k < RANKS_NOTES; k++) {
      const struct ranks_note *n = &shared->rank[r].notes[k];
      long long after = (long long)n->at_ms - (long long)shared->numbers[FIRED_MS];
      add(o, "  rank %u: %s, %lld ms after the fault: %s\n", r, tutti_err_name(n->err), after, n->text);
    }
  }
}

/* What tutti run must exit with and say first. */
static void judge_launcher(const struct scene *s, const struct ranks_shared *shared, int status, const char *said,
                           struct outcome *o) {
  char words[64] = "";
  int wanted = FAILED;
  bool past = shared->numbers[PAST] != 0, failed = must_fail(s, shared);
  for (uint32_t r = 0; r < s->ranks; r++)
    for (uint32_t k = 0; k < shared->rank[r].noted; k++) failed |= shared->rank[r].notes[k].err != TUTTI_OK;
  if (!failed) wanted = GOOD;
  bool killed = s->fault == KILLED || s->fault == DIES_JOINING;
  if (killed && !past) {
    wanted = 128 + SIGKILL;
    snprintf(words, sizeof words, "was killed by signal 9");
  } else if (s->fault == EXITS && s->status) {
    wanted = s->status;
    snprintf(words, sizeof words, "exited with status %d", s->status);
  }
  const char *first = strstr(said, "tutti run: rank ");
  bool names = !words[0] || (first && (uint32_t)atoi(first + 16) == s->victim && says(first, words));
  if (killed && past && status == 128 + SIGKILL) wanted = status; /* killed while it freed */
  if (status == wanted && names) return;
  o->statuses++;
  add(o, "  tutti run exited with %d, expected %d; it should name rank %u: %s\n%s", status, wanted, s->victim, words,
      said);
}

static void conduct(const struct scene *s, struct outcome *o) {
  struct ranks_world w = {.context = s};
  struct conductor c = {.scene = s};
  pthread_t hand;
  int fd = -1, status = 0;
  struct ranks_output output = {0};
  memset(o, 0, sizeof *o);
  if (s->launched) {
    fd = memfd_create("seeded_faults", 0);
    if (fd < 0 || ftruncate(fd, sizeof *w.shared) != 0) abort();
    w.shared = mmap(NULL, sizeof *w.shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (w.shared == MAP_FAILED) abort();
  } else {
    ranks_start(&w, s->ranks, play_forked);
  }
  c.shared = w.shared;
  if (pthread_create(&hand, NULL, lend_a_hand, &c) != 0) abort();
  if (s->launched) {
    char argument[48];
    snprintf(argument, sizeof argument, "%llu:%d", (unsigned long long)s->seed, fd);
    status = ranks_launch(s->ranks, "fault", argument, HANG_MS / 1000, &output);
    o->hung = status < 0;
    close(fd);
  } else {
    o->hung = !ranks_end(&w, HANG_MS);
  }
  c.over = true;
  pthread_join(hand, NULL);
  o->wrong = (uint32_t)w.shared->numbers[WRONG];
  o->other_half = (uint32_t)w.shared->numbers[OTHER_HALF];
  for (uint32_t r = 0; r < s->ranks; r++) judge_rank(s, w.shared, r, o);
  judge_codes(s, w.shared, o);
  if (s->launched && !o->hung) judge_launcher(s, w.shared, status, output.chars, o);
  if (o->hung || o->wrong || o->unnamed || o->other_half || o->statuses) print_notes(s, w.shared, o);
  for (uint32_t r = 0; r < s->ranks && !s->launched; r++)
    if (o->report[0]) add(o, "  rank %u: status %x\n", r, (unsigned)w.status[r]);
  free(output.chars);
  munmap(w.shared, sizeof *w.shared);
}

/* ---- many seeds, some at once ---- */

struct tally {
  uint64_t cases, hangs, wrong, unnamed, other_half, statuses, again, early;
};

static void count(const struct scene *s, const struct outcome *o, struct tally *t) {
  char text[300];
  t->cases++;
  t->again += o->again;
  if (o->early && s->fault != NOTHING && !o->hung && o->wrong == 0) {
    t->early++;
    return;
  }
  t->hangs += o->hung;
  t->wrong += o->wrong > 0;
  t->unnamed += o->unnamed > 0;
  t->other_half += o->other_half > 0;
  t->statuses += o->statuses > 0;
  if (!o->report[0]) return;
  print_scene(s, text, sizeof text);
  FAIL("%s\n%s%s", text, o->hung ? "  it hangs\n" : "", o->report);
}

struct slot {
  pid_t pid; /* 0: free */
  uint64_t seed;
  struct outcome *outcome;
};

static void begin(struct slot *slot, uint64_t seed) {
  slot->seed = seed;
  fflush(stdout);
  if ((slot->pid = fork()) != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct scene scene = draw(seed);
  for (uint32_t i = 0; i < TRIES; i++) {
    conduct(&scene, slot->outcome);
    slot->outcome->again = i;
    if (!slot->outcome->disturbed || scene.fault == NOTHING) break;
    ranks_sleep_us(200000 * (i + 1));
  }
  _exit(0);
}

static uint64_t first_undone(const struct slot slots[AT_ONCE], uint64_t next) {
  for (int i = 0; i < AT_ONCE; i++)
    if (slots[i].pid && slots[i].seed < next) next = slots[i].seed;
  return next;
}

static void run_seeds(uint64_t first, uint64_t last) {
  struct slot slots[AT_ONCE] = {{0}};
  struct tally t = {0};
  struct outcome *outcomes =
      mmap(NULL, AT_ONCE * sizeof *outcomes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (outcomes == MAP_FAILED) abort();
  uint64_t next = first, running = 0, begun = ranks_now_ms();
  while (running > 0 || next <= last) {
    for (int i = 0; i < AT_ONCE && next <= last; i++) {
      if (slots[i].pid) continue;
      slots[i].outcome = &outcomes[i];
      begin(&slots[i], next++);
      running++;
    }
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    for (int i = 0; i < AT_ONCE; i++) {
      if (slots[i].pid != pid) continue;
      struct scene scene = draw(slots[i].seed);
      count(&scene, slots[i].outcome, &t);
      if (status != 0)
        FAIL("seed %llu: its conductor ended with %x", (unsigned long long)slots[i].seed, (unsigned)status);
      slots[i].pid = 0;
      running--;
      if (t.cases % 100 == 0)
        printf("  all seeds before %llu are done\n", (unsigned long long)first_undone(slots, next));
    }
  }
  munmap(outcomes, AT_ONCE * sizeof *outcomes);
  printf(
      "  seeds %llu..%llu in %.1f s: %llu hangs, %llu with wrong elements, %llu with innocents named or the victim "
      "not, "
      "%llu where the other half failed, %llu with a wrong status; %llu played again, %llu never judged\n",
      (unsigned long long)first, (unsigned long long)last, (double)(ranks_now_ms() - begun) / 1000,
      (unsigned long long)t.hangs, (unsigned long long)t.wrong, (unsigned long long)t.unnamed,
      (unsigned long long)t.other_half, (unsigned long long)t.statuses, (unsigned long long)t.again,
      (unsigned long long)t.early);
  CHECK(t.early <= 1 + t.cases / 20, "the machine is too busy: limits run out before the faults come");
}

static uint64_t first_seed = 0, last_seed = 49;
static void faults_by_seed(void) { run_seeds(first_seed, last_seed); }

int main(int argc, char **argv) {
  const struct test tests[] = {{"faults_by_seed", faults_by_seed}};
  if (argc == 4 && strcmp(argv[1], "--as") == 0) return play_launched(argv[3]);
  ranks_clear_environment();
  if (test_long()) last_seed = 1999;
  const char *one = getenv("TEST_SEED");
  if (one) first_seed = last_seed = strtoull(one, NULL, 0);
  if (argc == 2 && argv[1][0] >= '0' && argv[1][0] <= '9') {
    const char *dots = strstr(argv[1], "..");
    first_seed = last_seed = strtoull(argv[1], NULL, 0);
    if (dots) last_seed = strtoull(dots + 2, NULL, 0);
    argc = 1;
  }
  return test_main(tests, 1, argc, argv);
}
