/* test: slow timeout=300 */
/* seeded_faults_test.c: random faults in real processes. A seed determines the number of ranks, their calls, what
 * starts them (this program, as a foreign launcher does, or `tutti run`), whether they wait or poll, and which fault
 * happens to one of them, the victim, and when. Whatever the seed:
 * - No rank hangs, and none crashes.
 * - No call that returns TUTTI_OK has a wrong element.
 * - Every error that a survivor gets has the right code, and names the victim. `tutti run` exits with the right status.
 * - A survivor knows of a kill, an exit, an abort or a mismatch within 1 s, and of a stopped or missing rank within its
 *   time-out + 1 s. The time counts from the fault, or from the start of the survivor's call if that is later.
 * - Nothing is left behind: no process, no file, and no descriptor, thread or memory in a survivor.
 *
 * The ranks run on one host. With --hosts, each seed puts them on one to three hosts, which are values of TUTTI_HOST; a
 * rank may have the wrong secret, and strangers may connect to the ports of the ranks. With TEST_HOSTS (placement.h),
 * the hosts are namespaces, and a host's link may be cut or flap, too. tests/hosts_faults_test.sh does that.
 *
 * Without arguments: seeds 0 to 49, or 0 to 1999 if TEST_LONG is set. `seeded_faults_test 100..150` runs these seeds.
 * Every 100 seeds, the test prints which seeds are done, so that a range can be continued later. SIGINT or SIGTERM ends
 * it after the cases that run. TEST_SEED=n runs seed n only. `--load N` runs N busy processes meanwhile. */
#include <net/if.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "algo/algo.h"
#include "leftovers.h"
#include "ranks.h"
#include "strangers.h"
#include "test.h"

enum {
  RANKS = 6,
  STEPS = 12,
  ITEMS = 60000,
  TIMEOUT_MS = 300,
  LOADED_TIMEOUT_MS = 1000, /* instead of TIMEOUT_MS with --load, as other ranks than the victim may be late; and on
                             * several hosts, where the first message must wait until the ranks are connected */
  LONG_MS = 20000,          /* time-out in most cases of faults that a rank learns of without a time-out */
  KNOWS_MS = 1000, /* a survivor knows of a fault at the latest after this time, or after its time-out and this time */
  CUT_KNOWS_MS = 4000, /* the same if a host is cut off */
  FLAP_MS = 1200,      /* a link that is away for so long does no harm */
  JOIN_MS = 1000,      /* less than the time that tutti run gives the survivors */
  HANG_MS = 60000,
  AT_ONCE = 8,        /* cases at a time */
  LOADED_AT_ONCE = 4, /* with --load: the cases add to the load, so there are fewer */
  REPORT_BYTES = 6000,
  HEAP_SLACK = 24 << 10, /* the library keeps its tuning table and the algorithms found by name: 16 KB */
  TRIES = 5, /* tries of a case that was disturbed: on a busy machine, other ranks than the victim may be late */
};

static uint32_t load; /* number of busy processes */

/* Where the ranks run: on one host; on hosts that are names, or namespaces with links between them. */
enum where { ONE_HOST, NAMED_HOSTS, LINKED_HOSTS };
static uint32_t across;

/* ---- what a seed determines ---- */

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
  WRONG_SECRET, /* the last three: only on several hosts */
  CUT,          /* the link of the victim's host; only on LINKED_HOSTS, as FLAPS */
  FLAPS,
  FAULTS
};
static const char *const fault_names[] = {"nothing",
                                          "killed",
                                          "stopped",
                                          "stopped, goes on",
                                          "exits",
                                          "disagrees",
                                          "aborts",
                                          "never calls",
                                          "never joins",
                                          "killed while it joins",
                                          "has the wrong secret",
                                          "loses its link",
                                          "loses its link briefly"};
enum moment {
  BEFORE,
  STARTED,
  ANY_TIME
}; /* time of the fault: before the call of the step, in the call after its start, or after a delay */
static const char *const moment_names[] = {"before the call", "after its start", "any time"};
enum difference { COLLECTIVE, COUNT, TYPE, OP, ROOT, ALGORITHM, LENGTH, DIFFERENCES };
static const char *const difference_names[] = {"collective", "count", "type", "op", "root", "algorithm", "length"};

enum kind {
  RING = TU_COLLECTIVES,
  PAIR,
  KINDS
}; /* kinds of steps beside collectives: RING: send and recv; PAIR: two calls open at the same time */
struct step {
  int kind;
  tutti_datatype type;
  uint32_t count, root;
  const char *algorithm; /* NULL: the default */
  bool half;             /* on the communicator of this rank's half */
  bool blocks;           /* uses the blocking function, if the ranks do not poll */
};

struct scene {
  uint64_t seed;
  uint32_t ranks, victim, at; /* at: step of the fault */
  uint32_t steps;
  enum fault fault;
  enum moment moment;
  enum difference difference;
  int status; /* EXITS: exit status */
  int timeout_ms, join_timeout_ms;
  uint32_t delay_us;     /* ANY_TIME: delay after the victim has reached the step */
  uint32_t pause_ms;     /* STOPPED_AND_GOES_ON: time until it continues */
  bool launched;         /* started by tutti run */
  bool halves;           /* even and odd ranks each have a communicator of their own */
  uint32_t hosts[RANKS]; /* NAMED_HOSTS: of each rank */
  enum strangers_kind strangers;
  bool polls;       /* tutti_test; else tutti_wait */
  uint32_t poll_us; /* time between two polls */
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

static bool is_collective(int kind) { return kind < TU_COLLECTIVES; }

/* Returns a random algorithm of the table that supports this number of ranks; NULL if there is none. */
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

/* Changes the step of the fault into one where a difference of this kind can be detected. */
static void suit(struct scene *s, uint64_t *state) {
  struct step *step = &s->step[s->at];
  s->difference = (enum difference)(ranks_random(state) % DIFFERENCES);
  step->kind = s->difference == ROOT ? TUTTI_BROADCAST : s->difference == LENGTH ? RING : TUTTI_ALLREDUCE;
  step->algorithm = NULL;
  step->half = false;
}

/* Returns the error that a survivor gets. */
static tutti_err expected_error(const struct scene *s) {
  switch (s->fault) {
    case KILLED:
    case DIES_JOINING:
    case CUT:
    case EXITS: return TUTTI_ERR_PEER;
    case DISAGREES: return TUTTI_ERR_MISMATCH;
    case ABORTS: return TUTTI_ERR_ABORTED;
    default: return TUTTI_ERR_TIMEOUT;
  }
}

/* If the time-out is long, a survivor that does not learn of the fault in another way is late. In a quarter of the
 * cases it is short, so that ranks run into it while others learn of the fault. */
static void draw_timeouts(struct scene *s, uint64_t *state) {
  bool is_short = ranks_random(state) % 4 == 0;
  s->timeout_ms = load || across != ONE_HOST ? LOADED_TIMEOUT_MS : TIMEOUT_MS;
  s->join_timeout_ms = LONG_MS;
  if (s->fault == NOTHING) s->timeout_ms = -1;
  else if (s->fault == CUT || s->fault == FLAPS) s->timeout_ms = LONG_MS;
  else if (!is_short && expected_error(s) != TUTTI_ERR_TIMEOUT) s->timeout_ms = LONG_MS;
  if (s->fault == NEVER_JOINS || s->fault == DIES_JOINING || s->fault == WRONG_SECRET) s->join_timeout_ms = JOIN_MS;
  if (s->fault == DIES_JOINING && !s->launched) s->join_timeout_ms = 3 * JOIN_MS;
}

/* Draws what differs on several hosts: in another sequence, so that the seeds for one host stay the same. */
static void draw_hosts(struct scene *s) {
  static const enum fault faults[] = {WRONG_SECRET, FLAPS, CUT};
  uint64_t state = s->seed * 0xd1342543de82ef95u + 7;
  const uint64_t count = 1 + ranks_random(&state) % 8 % 3; /* mostly two or three */
  for (uint32_t r = 0; r < s->ranks; r++) s->hosts[r] = (uint32_t)(ranks_random(&state) % count);
  s->strangers = ranks_random(&state) % 4 == 0 ? (enum strangers_kind)(1 + ranks_random(&state) % 2) : STRANGERS_NONE;
  if (ranks_random(&state) % (across == LINKED_HOSTS ? 3 : 8) != 0) return;
  s->fault = faults[ranks_random(&state) % (across == LINKED_HOSTS ? 3 : 1)];
  s->launched = s->halves = false;
  s->victim = 1 + s->victim % (s->ranks - 1); /* if rank 0 has the wrong secret, all others do */
  s->moment = s->fault == WRONG_SECRET ? BEFORE : ANY_TIME;
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
  s.moment = (enum moment)(ranks_random(&state) % 3);
  if (across != ONE_HOST) draw_hosts(&s);
  bool by_signal = s.fault == KILLED || s.fault == STOPPED || s.fault == STOPPED_AND_GOES_ON;
  if (s.moment == ANY_TIME && !by_signal && s.fault != CUT && s.fault != FLAPS) s.moment = STARTED;
  if (s.fault == DISAGREES) s.moment = BEFORE;
  s.status = ranks_random(&state) % 3 ? 7 : 0;
  if (s.fault == DIES_JOINING) s.moment = ANY_TIME;
  s.delay_us = (uint32_t)(ranks_random(&state) % (s.fault == DIES_JOINING ? 20000 : 8000));
  bool brief = ranks_random(&state) % 2;
  for (uint32_t i = 0; i < s.steps; i++) s.step[i] = draw_step(&s, &state);
  if (s.fault == DISAGREES) suit(&s, &state);
  draw_timeouts(&s, &state);
  s.pause_ms = brief ? 60 : (uint32_t)s.timeout_ms + (load ? 1500 : 600);
  if (s.fault == FLAPS) s.pause_ms = 50 + (uint32_t)(seed % (FLAP_MS - 49));
  return s;
}

/* Copies the name of a rank's host, or the words for its namespaces. */
static void print_host(const struct scene *s, uint32_t rank, char *text, size_t bytes) {
  if (across != LINKED_HOSTS || placement_word(rank, text, bytes) == 0)
    snprintf(text, bytes, "%c", (char)('a' + s->hosts[rank]));
}

static bool are_near(const struct scene *s, uint32_t a, uint32_t b) {
  char one[64], other[64];
  print_host(s, a, one, sizeof one);
  print_host(s, b, other, sizeof other);
  return strcmp(one, other) == 0;
}

/* Puts the ranks of this process on the hosts of the scene, see placement.h. */
static void place_ranks(const struct scene *s) {
  char list[64 * RANKS] = "", word[64];
  for (uint32_t r = 0; r < s->ranks; r++) {
    print_host(s, r, word, sizeof word);
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s ", word);
  }
  if (across == NAMED_HOSTS) setenv("TEST_HOSTS", list, 1);
}

static const char *const stranger_names[] = {"", ", with rude strangers", ", with strangers that storm"};

static int print_scene(const struct scene *s, char *text, size_t bytes) {
  char polling[40], hosts[32] = "";
  for (uint32_t r = 0; r < s->ranks && across == NAMED_HOSTS; r++)
    snprintf(hosts + strlen(hosts), sizeof hosts - strlen(hosts), "%s%c", r ? " " : " on hosts ",
             (char)('a' + s->hosts[r]));
  snprintf(polling, sizeof polling, "polling every %u us", s->poll_us);
  return snprintf(text, bytes,
                  "seed %llu: %u ranks%s by %s, %s%s%s, rank %u %s%s%s%s at step %u of %u (%s), time-outs %d and %d ms",
                  (unsigned long long)s->seed, s->ranks, hosts, s->launched ? "tutti run" : "a foreign launcher",
                  s->polls ? polling : "waiting", s->halves ? ", in halves too" : "", stranger_names[s->strangers],
                  s->victim, fault_names[s->fault], s->fault == DISAGREES ? " about the " : "",
                  s->fault == DISAGREES ? difference_names[s->difference] : "",
                  s->fault == EXITS ? (s->status ? " with 7" : " with 0") : "", s->at, s->steps,
                  moment_names[s->moment], s->timeout_ms, s->join_timeout_ms);
}

/* ---- what ranks report ---- */

/* Indices of ranks_shared.numbers. The first RANKS numbers are the pids of the ranks. */
enum { WRONG = RANKS, OTHER_HALF, PAST /* the victim has passed the first of the two last barriers */ };
/* Values of ranks_shared.rank[].stage. */
enum { STARTS, COMES, ARRIVED, THROUGH, TOLD };
/* In ranks_shared.rank[].notes: the first error, of the half or of the world; then the error of the world. */

enum { GOOD = 0, FAILED = 3 };

/* Times of a rank, in us. The rest of the time, it slept, or the kernel blocked it. */
struct core {
  uint64_t ran_us;
  uint64_t waited_us; /* it was ready to run, but had no core */
};

/* When a rank got an error. All times are in us. */
struct knowledge {
  uint64_t began_us; /* start of the call that returned the error */
  uint64_t knew_us;  /* its end */
  struct core core;  /* in between */
};

/* Memory shared by the ranks of a case and the process that conducts it. */
struct board {
  struct ranks_shared shared;
  _Atomic uint64_t fired_us;  /* time of the fault; 0: not yet */
  _Atomic uint64_t strangers; /* connections of strangers */
  uint64_t dead_us; /* time when a victim that this program had forked and killed was seen to be dead; 0: never */
  struct {
    struct knowledge of[RANKS_NOTES]; /* of the errors in shared.rank[].notes */
    uint64_t slowest_us; /* longest time from the fault, or from the call's start if that was later, to the end of a
                          * call without an error */
    bool ended;
    struct leftovers_held before, after; /* what the rank held before tutti_init, and when it had freed everything */
  } rank[RANKS];
};

struct player {
  const struct scene *scene;
  struct board *board;
  struct ranks_shared *shared; /* &board->shared */
  uint32_t rank;
  uint64_t began_us; /* start of the current call */
  struct core core;  /* until then */
  tutti_comm *world, *half;
  bool half_failed;
  void *in[2], *out[2];
};

/* Returns the times of this process; 0 if the kernel does not report them. */
static struct core look_at_core(void) {
  unsigned long long ran_ns = 0, waited_ns = 0;
  FILE *file = fopen("/proc/self/schedstat", "r");
  if (file && fscanf(file, "%llu %llu", &ran_ns, &waited_ns) != 2) ran_ns = waited_ns = 0;
  if (file) fclose(file);
  return (struct core){.ran_us = ran_ns / 1000, .waited_us = waited_ns / 1000};
}

static void begin_call(struct player *p) {
  p->core = look_at_core();
  p->began_us = ranks_now_us();
}

/* Returns the time from the fault, or from the start of the current call if that was later, until now. */
static uint64_t time_since_fault_us(const struct player *p) {
  uint64_t fired_us = p->board->fired_us, now_us = ranks_now_us();
  if (fired_us == 0) return 0;
  return now_us - (fired_us > p->began_us ? fired_us : p->began_us);
}

static void end_good_call(struct player *p) {
  uint64_t us = time_since_fault_us(p);
  if (us > p->board->rank[p->rank].slowest_us) p->board->rank[p->rank].slowest_us = us;
}

static void note_text(struct player *p, tutti_err err, const char *where, const char *sentence) {
  struct ranks_world w = {.shared = p->shared};
  char text[RANKS_TEXT];
  uint32_t n = p->shared->rank[p->rank].noted;
  struct knowledge of = {.began_us = p->began_us, .knew_us = ranks_now_us()};
  const struct core core = look_at_core();
  of.core = (struct core){.ran_us = core.ran_us - p->core.ran_us, .waited_us = core.waited_us - p->core.waited_us};
  if (n < RANKS_NOTES) p->board->rank[p->rank].of[n] = of;
  snprintf(text, sizeof text, "%s%s", where, sentence);
  ranks_note(&w, p->rank, err, text);
}

static void note(struct player *p, tutti_err err, const tutti_comm *comm) {
  note_text(p, err, comm && comm == p->half ? "in its half: " : "", tutti_error_message(comm));
}

static bool is_victim(const struct player *p) { return p->rank == p->scene->victim; }

static void fire(const struct player *p) {
  uint64_t none = 0;
  atomic_compare_exchange_strong(&p->board->fired_us, &none, ranks_now_us());
}

static void sleep_until_told(struct player *p) {
  fire(p);
  while (!p->shared->go) ranks_sleep_us(1000);
}

/* Causes the fault if this rank is the victim and this is the moment. Faults at ANY_TIME come from the conducting
 * process. */
static void suffer(struct player *p, uint32_t step, enum moment moment) {
  const struct scene *s = p->scene;
  if (!is_victim(p) || step != s->at || moment != s->moment) return;
  switch (s->fault) {
    case KILLED: fire(p), raise(SIGKILL); return;
    case STOPPED:
    case STOPPED_AND_GOES_ON: fire(p), raise(SIGSTOP); return;
    case EXITS: fire(p), exit(s->status);
    case ABORTS: fire(p), tutti_abort(p->world, "no space left on the disk"); return;
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

/* A step from the view of one rank of a communicator. */
struct view {
  const struct player *player;
  const struct step *step;
  uint32_t index, ranks, rank;
  size_t block; /* elements per rank, for collectives of blocks */
};

static uint32_t world_rank(const struct view *v, uint32_t rank) {
  return v->step->half ? 2 * rank + v->player->rank % 2 : rank;
}

static bool has_blocks(int kind) {
  return kind == TUTTI_GATHER || kind == TUTTI_SCATTER || kind == TUTTI_ALLGATHER || kind == TUTTI_ALLTOALL ||
         kind == TUTTI_REDUCE_SCATTER;
}

/* Returns the number of elements in this rank's result. */
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
    default: return sum(v, v->ranks, i); /* also the result of both calls of a pair */
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
  begin_call(p);
  if (count == 1 && step->blocks && !p->scene->polls && !faulty && !calls[0].algorithm) {
    tutti_err err = call_blocking(comm, &calls[0]);
    if (err == TUTTI_OK) end_good_call(p), check_elements(&v, p->out[0]);
    return err;
  }
  tutti_request *requests[2] = {NULL, NULL};
  tutti_err err = TUTTI_OK;
  if (step->kind == RING) err = tutti_start_all(comm, calls, 2, &requests[0]);
  for (uint32_t i = 0; step->kind != RING && i < count && err == TUTTI_OK; i++)
    err = tutti_start(comm, &calls[i], &requests[i]);
  suffer(p, index, STARTED);
  for (uint32_t i = 2; i-- > 0;) {
    tutti_err finished = requests[i] ? finish(p->scene, &requests[i]) : TUTTI_OK;
    if (err == TUTTI_OK) err = finished;
  }
  if (err != TUTTI_OK) return err;
  end_good_call(p);
  if (faulty && p->scene->fault == DISAGREES)
    return TUTTI_OK; /* the victim's call succeeds if it needs no other rank */
  check_elements(&v, p->out[0]);
  if (step->kind == PAIR) check_elements(&v, p->out[1]);
  return TUTTI_OK;
}

/* ---- one rank ---- */

static tutti_err take_step(struct player *p, uint32_t i) {
  const struct step *step = &p->scene->step[i];
  tutti_comm *comm = step->half ? p->half : p->world;
  if (is_victim(p) && i == p->scene->at) p->shared->rank[p->rank].stage = ARRIVED;
  suffer(p, i, BEFORE);
  if (step->half && p->half_failed) return TUTTI_OK;
  tutti_err err = perform(p, comm, i);
  if (err == TUTTI_OK || !step->half) return err;
  /* The other half does not see this error. Both halves go on, and see it in the world's next call. */
  note(p, err, p->half);
  p->half_failed = true;
  return TUTTI_OK;
}

static bool says(const char *text, const char *words) { return strstr(text, words) != NULL; }

/* Returns true if the message names the victim as a rank of the world. A half may wait for one of its ranks which waits
 * in the world for the victim. */
static bool blames_stranger(const char *text, uint32_t victim) {
  char words[40];
  snprintf(words, sizeof words, "rank %u of the world", victim);
  return says(text, words);
}

/* After the world has failed, the half may still work. Its steps go on. The half without the victim also creates and
 * frees communicators, which does not depend on the world. */
static void go_on_in_half(struct player *p, uint32_t step) {
  for (; p->half && !p->half_failed && step < p->scene->steps; step++)
    if (p->scene->step[step].half) (void)take_step(p, step);
  if (!p->half || p->half_failed || p->rank % 2 == p->scene->victim % 2) return;
  tutti_comm *part = NULL, *copy = NULL;
  int32_t x = 1, y = 0;
  begin_call(p);
  tutti_err err = tutti_comm_split(p->half, 0, 0, &part);
  if (err == TUTTI_OK) err = tutti_comm_dup(part, &copy);
  if (err == TUTTI_OK) err = tutti_allreduce(copy, &x, &y, 1, TUTTI_I32, TUTTI_SUM);
  if (err == TUTTI_OK && (uint32_t)y != tutti_ranks(p->half)) p->shared->numbers[WRONG]++;
  if (err == TUTTI_OK) err = tutti_comm_free(copy);
  if (err == TUTTI_OK) err = tutti_comm_free(part);
  if (err == TUTTI_OK || blames_stranger(tutti_error_message(NULL), p->scene->victim)) return;
  p->shared->numbers[OTHER_HALF]++;
  note(p, err, NULL);
}

/* Frees a communicator and notes an error, as the victim may be stopped or killed while ranks free it. */
static void free_in_order(struct player *p, tutti_err *err, tutti_comm *comm) {
  bool half = comm == p->half;
  begin_call(p);
  tutti_err freed = tutti_comm_free(comm);
  if (freed == TUTTI_OK || *err != TUTTI_OK) return;
  if (half) p->half = NULL;
  note_text(p, freed, half ? "in its half: " : "", tutti_error_message(NULL));
  *err = freed;
}

/* Joins, carries out the steps, and frees everything. */
static int use_library(struct player *p) {
  const struct scene *s = p->scene;
  tutti_options options = {.timeout_ms = s->timeout_ms, .join_timeout_ms = s->join_timeout_ms};
  uint32_t met = 0;
  begin_call(p);
  tutti_err err = tutti_init(&options, &p->world);
  if (err == TUTTI_OK) begin_call(p);
  if (err == TUTTI_OK && s->halves) err = tutti_comm_split(p->world, (int)(p->rank % 2), 0, &p->half);
  /* No rank is in the split any more when another one has passed this barrier, and may die. */
  if (err == TUTTI_OK && s->halves) begin_call(p), err = tutti_barrier(p->world);
  for (uint32_t i = 0; i < s->steps && err == TUTTI_OK; i++, met = i) err = take_step(p, i);
  /* No rank passes the second barrier before all have passed the first. */
  for (int i = 0; i < 2 && err == TUTTI_OK; i++) {
    if (i == 1 && is_victim(p)) p->shared->numbers[PAST] = 1;
    begin_call(p);
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

static int play(struct player *p) {
  p->shared->numbers[p->rank] = (uint64_t)getpid();
  p->shared->rank[p->rank].stage = COMES;
  for (int i = 0; i < 2; i++) {
    p->in[i] = malloc(ITEMS * 8 + 64), p->out[i] = malloc(ITEMS * 8 + 64);
    if (!p->in[i] || !p->out[i]) return 9;
  }
  if (p->scene->fault == NEVER_JOINS && is_victim(p)) return sleep_until_told(p), FAILED;
  if (p->scene->fault == WRONG_SECRET && is_victim(p)) fire(p), setenv("TUTTI_SECRET", "another secret", 1);
  p->board->rank[p->rank].before = leftovers_look();
  int status = use_library(p);
  p->board->rank[p->rank].after = leftovers_look();
  p->board->rank[p->rank].ended = true;
  return status;
}

static int play_forked(struct ranks_world *w, uint32_t rank) {
  struct player p = {.scene = w->context, .board = (struct board *)w->shared, .shared = w->shared, .rank = rank};
  return play(&p);
}

/* Runs a rank under tutti run: "--as fault SEED:DESCRIPTOR:LOAD:WHERE". */
static int play_launched(const char *argument) {
  unsigned long long seed;
  int fd;
  if (sscanf(argument, "%llu:%d:%u:%u", &seed, &fd, &load, &across) != 4) return 9;
  struct scene scene = draw(seed);
  struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  const char *rank = getenv("TUTTI_RANK");
  if (board == MAP_FAILED || !rank) return 9;
  struct player p = {.scene = &scene, .board = board, .shared = &board->shared, .rank = (uint32_t)atoi(rank)};
  return play(&p);
}

/* ---- running and judging a case ---- */

/* Result of one case, in memory shared by this program and the processes that run the cases. */
struct outcome {
  bool hung, disturbed;
  bool early;     /* a time limit passed before the fault: the case cannot be judged */
  bool fired;     /* the fault happened */
  uint32_t again; /* number of repetitions, as the case was disturbed */
  uint32_t wrong, unnamed, other_half, statuses, late, left;
  uint64_t strangers; /* their connections */
  uint32_t known;     /* number of entries in knew_us[] */
  struct {
    uint32_t us;  /* time until a survivor knew of the fault */
    bool missing; /* DIES_JOINING: the victim is reported as missing, since it died before the others knew of it */
  } knew[RANKS * RANKS_NOTES];
  char report[REPORT_BYTES];
};

struct conductor {
  const struct scene *scene;
  struct board *board;
  struct ranks_shared *shared; /* &board->shared */
  atomic_bool over;
};

static void send_signal(const struct conductor *c, int number) {
  uint32_t victim = c->scene->victim;
  pid_t pid = (pid_t)c->shared->numbers[victim];
  if (pid > 0 && !c->board->rank[victim].ended) kill(pid, number);
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

/* Records when the victim, a child of this process, is dead. */
static void note_death(const struct conductor *c) {
  siginfo_t info = {0};
  const pid_t victim = (pid_t)c->shared->numbers[c->scene->victim];
  while (!c->over && waitid(P_PID, (id_t)victim, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
    ranks_sleep_us(500);
  c->board->dead_us = ranks_now_us();
}

/* Sets the link of the victim's host up or down. */
static void set_link(const struct scene *s, bool up) {
  char word[64];
  struct ifreq request = {0};
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  print_host(s, s->victim, word, sizeof word);
  const char *colon = strchr(word, ':');
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", colon ? colon + 1 : "");
  bool good = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  if (!good || ioctl(fd, SIOCSIFFLAGS, &request) != 0) perror(word), abort();
  close(fd);
}

/* Causes a fault at ANY_TIME. */
static void strike(const struct conductor *c) {
  const struct scene *s = c->scene;
  uint64_t none = 0;
  const bool kills = s->fault == KILLED || s->fault == DIES_JOINING;
  atomic_compare_exchange_strong(&c->board->fired_us, &none, ranks_now_us());
  if (s->fault == CUT || s->fault == FLAPS) set_link(s, false);
  else send_signal(c, kills ? SIGKILL : SIGSTOP);
  if (kills && !s->launched) note_death(c);
}

/* Thread of the process that runs the case: sends signals to the victim. */
static void *lend_a_hand(void *context) {
  struct conductor *c = context;
  const struct scene *s = c->scene;
  bool stops = s->fault == STOPPED || s->fault == STOPPED_AND_GOES_ON;
  if (!wait_until_stage(c, s->fault == NEVER_JOINS || s->fault == DIES_JOINING ? COMES : ARRIVED)) return NULL;
  if (s->moment == ANY_TIME) {
    ranks_sleep_us(s->delay_us);
    strike(c);
  }
  if (s->fault == FLAPS) {
    ranks_sleep_us(s->pause_ms * 1000);
    set_link(s, true);
  }
  while (stops && !c->over && c->board->fired_us == 0) ranks_sleep_us(50);
  if (s->fault == STOPPED_AND_GOES_ON) {
    ranks_sleep_us(s->pause_ms * 1000);
    send_signal(c, SIGCONT);
  }
  while (!c->over && !all_told(c)) ranks_sleep_us(500);
  c->shared->go = 1;
  /* A stopped victim is ended by tutti run if another rank has failed because of it; else it is ended here. */
  bool failed = false;
  for (uint32_t r = 0; r < s->ranks; r++) failed |= c->shared->rank[r].stage == TOLD;
  if (s->fault == STOPPED && !failed && !c->over) send_signal(c, SIGCONT);
  else if (s->fault == STOPPED && !s->launched && !c->over) send_signal(c, SIGKILL);
  return NULL;
}

static bool names_rank(const char *text, uint32_t rank) {
  char words[32];
  int length = snprintf(words, sizeof words, "rank %u", rank);
  for (const char *at = text; (at = strstr(at, words)); at += length)
    if (at[length] < '0' || at[length] > '9') return true;
  return false;
}
/* Returns true if the text names the rank, also in a list such as "ranks 1, 2" or "ranks 1-3". */
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

/* Returns true if the message blames the victim. A time-out says "rank 3 has waited ... for rank 0 (...)"; the first
 * rank after that is to blame. */
static bool blames(const struct scene *s, const char *text, uint32_t victim) {
  if (s->fault == NEVER_JOINS || s->fault == DIES_JOINING || s->fault == WRONG_SECRET) {
    /* Rank 0 gives up the job when a rank dies. A rank that joins later cannot learn the reason. */
    bool too_late = s->fault == DIES_JOINING && says(text, "for rank 0 at ");
    return too_late || lists_rank(text, victim);
  }
  const char *waited = strstr(text, " has waited "), *rank = waited ? strstr(waited, "rank ") : NULL;
  if (!rank) return names_rank(text, victim);
  return (uint32_t)atoi(rank + 5) == victim;
}

/* Returns true if the text names a rank of another host. */
static bool names_across(const struct scene *s, const char *text, uint32_t rank) {
  for (uint32_t r = 0; r < s->ranks; r++)
    if (!are_near(s, r, rank) && names_rank(text, r)) return true;
  return false;
}

/* Returns true if every survivor must get an error. */
static bool must_fail(const struct scene *s, const struct ranks_shared *shared) {
  if (s->fault == NOTHING || s->fault == FLAPS) return false;
  if (shared->numbers[PAST]) return false; /* the fault came after the last communication */
  return s->fault != STOPPED_AND_GOES_ON || s->pause_ms > (uint32_t)s->timeout_ms;
}

static void judge_rank(const struct scene *s, const struct board *board, uint32_t r, struct outcome *o) {
  const struct ranks_shared *shared = &board->shared;
  uint32_t noted = shared->rank[r].noted, errors = 0;
  for (uint32_t k = 0; k < noted && k < RANKS_NOTES; k++) {
    const struct ranks_note *n = &shared->rank[r].notes[k];
    if (n->err == TUTTI_OK) continue;
    bool half = says(n->text, "in its half: ");
    bool blamed = s->fault == CUT          ? names_across(s, n->text, r)
                  : !half                  ? blames(s, n->text, s->victim)
                  : r % 2 == s->victim % 2 ? blames(s, n->text, s->victim / 2)
                                           : blames_stranger(n->text, s->victim);
    errors++;
    if (shared->numbers[OTHER_HALF] > 0 && k > 0) continue; /* counted already */
    if (board->fired_us == 0 || board->rank[r].of[k].knew_us < board->fired_us) o->disturbed = o->early = true;
    if (s->fault != NOTHING && s->fault != FLAPS && blamed) continue;
    o->unnamed++;
    add(o, "  rank %u does not name rank %u%s\n", r, s->victim, half ? " in its half" : "");
  }
  if (errors > 0 || r == s->victim || !must_fail(s, shared)) return;
  o->unnamed++;
  add(o, "  rank %u got no error\n", r);
}

static void judge_codes(const struct scene *s, const struct ranks_shared *shared, struct outcome *o) {
  for (uint32_t r = 0; r < s->ranks; r++) {
    const struct ranks_note *n = &shared->rank[r].notes[0];
    if (r == s->victim || shared->rank[r].noted == 0 || n->err == TUTTI_OK || n->err == expected_error(s)) continue;
    /* A rank that died before it joined is reported as missing only. */
    if (s->fault == DIES_JOINING && n->err == TUTTI_ERR_TIMEOUT) continue;
    /* The victim may not have got a core in time to act or to die. Then a time-out is correct, unless it is long. */
    o->disturbed |= n->err == TUTTI_ERR_TIMEOUT && s->timeout_ms < LONG_MS;
    o->statuses++;
    add(o, "  rank %u got %s, expected %s\n", r, tutti_err_name(n->err), tutti_err_name(expected_error(s)));
  }
}

/* ---- when survivors knew ---- */

/* Returns the time in which a survivor must know of the fault, in us. */
static uint64_t bound_us(const struct scene *s, tutti_err err) {
  tutti_err expected = expected_error(s);
  uint64_t us = s->fault == CUT ? CUT_KNOWS_MS * 1000 : KNOWS_MS * 1000;
  if (s->fault == NEVER_JOINS || s->fault == WRONG_SECRET || (s->fault == DIES_JOINING && err == TUTTI_ERR_TIMEOUT))
    us += (uint64_t)s->join_timeout_ms * 1000;
  else if (expected == TUTTI_ERR_TIMEOUT) us += (uint64_t)s->timeout_ms * 1000;
  return us;
}

static void judge_times_of_rank(const struct scene *s, const struct board *board, uint32_t r, struct outcome *o) {
  const uint64_t fired_us = board->fired_us, slowest_us = board->rank[r].slowest_us;
  for (uint32_t k = 0; k < board->shared.rank[r].noted && k < RANKS_NOTES; k++) {
    const tutti_err err = board->shared.rank[r].notes[k].err;
    const struct knowledge *of = &board->rank[r].of[k];
    if (err == TUTTI_OK) continue;
    uint64_t from_us = tu_max(fired_us, of->began_us), us = of->knew_us - from_us;
    o->knew[o->known].us = (uint32_t)us;
    o->knew[o->known++].missing = err == TUTTI_ERR_TIMEOUT;
    if (us <= bound_us(s, err)) continue;
    o->late++;
    add(o, "  rank %u knew after %.1f ms; allowed: %.1f ms; its call ran for %.1f ms and waited %.1f ms for a core\n",
        r, (double)us / 1000, (double)bound_us(s, err) / 1000, (double)of->core.ran_us / 1000,
        (double)of->core.waited_us / 1000);
  }
  if (slowest_us <= bound_us(s, expected_error(s))) return;
  o->late++;
  add(o, "  rank %u: a call without an error ended %.1f ms after the fault and its start\n", r,
      (double)slowest_us / 1000);
}

/* Checks when the survivors knew of the fault. The rank that makes another call than the others is a survivor, too. */
static void judge_times(const struct scene *s, const struct board *board, struct outcome *o) {
  if (s->fault == NOTHING || o->early || !board->fired_us) return;
  for (uint32_t r = 0; r < s->ranks; r++)
    if (r != s->victim || s->fault == DISAGREES) judge_times_of_rank(s, board, r, o);
}

/* ---- what is left behind ---- */

static void judge_count(const char *what, uint32_t r, uint64_t before, uint64_t after, struct outcome *o) {
  if (after <= before) return;
  o->left++;
  add(o, "  rank %u: %llu %s more than before tutti_init\n", r, (unsigned long long)(after - before), what);
}

/* Compares what the ranks held before tutti_init and at their end. */
static void judge_held(const struct scene *s, const struct board *board, struct outcome *o) {
  for (uint32_t r = 0; r < s->ranks; r++) {
    const struct leftovers_held *before = &board->rank[r].before, *after = &board->rank[r].after;
    if (!board->rank[r].ended) continue;
    judge_count("descriptors", r, before->fds, after->fds, o);
    judge_count("threads", r, before->threads, after->threads, o);
    judge_count("mappings of shared memory", r, before->mappings, after->mappings, o);
    if (after->heap_bytes > before->heap_bytes + HEAP_SLACK)
      judge_count("bytes of the heap", r, before->heap_bytes, after->heap_bytes, o);
  }
}

static void print_notes(const struct scene *s, const struct board *board, struct outcome *o) {
  const struct ranks_shared *shared = &board->shared;
  if (board->dead_us > board->fired_us)
    add(o, "  rank %u was dead %.1f ms after the signal\n", s->victim,
        (double)(board->dead_us - board->fired_us) / 1000);
  for (uint32_t r = 0; r < s->ranks; r++) {
    add(o, "  rank %u: stage %u\n", r, shared->rank[r].stage);
    for (uint32_t k = 0; k < shared->rank[r].noted && k < RANKS_NOTES; k++) {
      const struct ranks_note *n = &shared->rank[r].notes[k];
      const struct knowledge *of = &board->rank[r].of[k];
      double after_ms = (double)((int64_t)of->knew_us - (int64_t)board->fired_us) / 1000;
      add(o, "  rank %u: %s, %.1f ms after the fault, in a call of %.1f ms: %s\n", r, tutti_err_name(n->err), after_ms,
          (double)(of->knew_us - of->began_us) / 1000, n->text);
    }
  }
}

/* ---- a case ---- */

/* Returns true if the victim, too, ends by itself, after all its calls. */
static bool lives_on(const struct scene *s) {
  return s->fault == NOTHING || s->fault == STOPPED_AND_GOES_ON || s->fault == DISAGREES || s->fault == ABORTS ||
         s->fault == NEVER_CALLS || s->fault == WRONG_SECRET || s->fault == CUT || s->fault == FLAPS;
}

/* Checks that each survivor has ended by itself. said: what tutti run printed; NULL: this program forked the ranks. */
static void judge_ends(const struct scene *s, const struct board *board, const char *said, struct outcome *o) {
  if (said && says(said, "tutti run: ending the")) return;
  for (uint32_t r = 0; r < s->ranks; r++) {
    if (board->rank[r].ended || (r == s->victim && !lives_on(s))) continue;
    o->statuses++;
    add(o, "  rank %u crashed\n", r);
  }
}

/* Checks the exit status of tutti run, and that it names the victim first. */
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
    snprintf(words, sizeof words, "signal 9");
  } else if (s->fault == EXITS && s->status) {
    wanted = s->status;
    snprintf(words, sizeof words, "status %d", s->status);
  }
  const char *first = strstr(said, "tutti run: rank ");
  bool names = !words[0] || (first && (uint32_t)atoi(first + 16) == s->victim && says(first, words));
  if (killed && past && status == 128 + SIGKILL) wanted = status; /* killed while it freed its communicators */
  if (status == wanted && names) return;
  o->statuses++;
  add(o, "  tutti run exited with %d, expected %d; it should name rank %u: %s\n%s", status, wanted, s->victim, words,
      said);
}

/* Starts the strangers of a case; ends them if `pids` has some. */
static void start_strangers(const struct scene *s, struct board *board, pid_t pids[]) {
  for (uint32_t r = 0; r < s->ranks && s->strangers != STRANGERS_NONE; r++)
    pids[r] = strangers_start(s->strangers, r, s->seed, &board->shared.numbers[r], &board->strangers);
}
static void end_strangers(const pid_t pids[]) {
  for (uint32_t r = 0; r < RANKS; r++) {
    if (pids[r] <= 0) continue;
    kill(pids[r], SIGKILL);
    waitpid(pids[r], NULL, 0);
  }
}

/* Judges what all parts of a case have written on the board. */
static void judge(const struct scene *s, const struct board *board, struct outcome *o) {
  o->fired = board->fired_us != 0;
  o->strangers = board->strangers;
  o->wrong = (uint32_t)board->shared.numbers[WRONG];
  o->other_half = (uint32_t)board->shared.numbers[OTHER_HALF];
  if (o->wrong > 0) add(o, "  wrong elements\n");
  if (o->other_half > 0) add(o, "  %u ranks got an error in the half without the victim\n", o->other_half);
  for (uint32_t r = 0; r < s->ranks; r++) judge_rank(s, board, r, o);
  judge_codes(s, &board->shared, o);
  judge_times(s, board, o);
  judge_held(s, board, o);
}

static void conduct(const struct scene *s, struct outcome *o) {
  int fd = s->launched ? memfd_create("seeded_faults", 0) : -1, status = 0;
  if (s->launched && (fd < 0 || ftruncate(fd, sizeof(struct board)) != 0)) abort();
  struct board *board =
      mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | (s->launched ? 0 : MAP_ANONYMOUS), fd, 0);
  if (board == MAP_FAILED) abort();
  struct ranks_world w = {.context = s, .shared = &board->shared};
  struct conductor c = {.scene = s, .board = board, .shared = &board->shared};
  pthread_t hand;
  pid_t strangers[RANKS] = {0};
  struct ranks_output output = {0};
  memset(o, 0, sizeof *o);
  place_ranks(s);
  start_strangers(s, board, strangers);
  if (!s->launched) ranks_start(&w, s->ranks, play_forked);
  if (pthread_create(&hand, NULL, lend_a_hand, &c) != 0) abort();
  if (s->launched) {
    char argument[64];
    snprintf(argument, sizeof argument, "%llu:%d:%u:%u", (unsigned long long)s->seed, fd, load, across);
    status = ranks_launch(s->ranks, "fault", argument, HANG_MS / 1000, &output);
    o->hung = status < 0;
    close(fd);
  } else {
    o->hung = !ranks_end(&w, HANG_MS);
  }
  c.over = true;
  pthread_join(hand, NULL);
  end_strangers(strangers);
  if (across == LINKED_HOSTS) set_link(s, true);
  judge(s, board, o);
  if (s->launched && !o->hung) judge_launcher(s, &board->shared, status, output.chars, o);
  if (!o->hung) judge_ends(s, board, output.chars, o);
  if (o->hung || o->report[0]) print_notes(s, board, o);
  free(output.chars);
  munmap(board, sizeof *board);
}

/* Conducts a case in a process and a folder of its own, and checks what it has left there. */
static void conduct_alone(const struct scene *s, struct outcome *o) {
  const uint64_t fds = leftovers_look().fds;
  conduct(s, o);
  uint32_t left = leftovers_end_children();
  if (left > 0) add(o, "  %u processes are left\n", left);
  if (leftovers_look().fds > fds) left++, add(o, "  the process that started the ranks has more descriptors\n");
  o->left += left;
}

/* ---- many seeds, several at a time ---- */

/* Sums over the cases of one kind of fault. Row FAULTS: victims that died before the others knew of them. */
struct row {
  uint64_t cases, fired;
  uint32_t *knew_us;
  size_t known, capacity;
};

struct tally {
  uint64_t cases, faults, strangers, hangs, wrong, unnamed, other_half, statuses, late, left, again, early;
  struct row row[FAULTS + 1];
};

static void count_times(const struct scene *s, const struct outcome *o, struct tally *t) {
  t->row[s->fault].cases++;
  t->row[s->fault].fired += o->fired;
  t->faults += o->fired && s->fault != NOTHING;
  for (uint32_t i = 0; i < o->known; i++) {
    struct row *row = &t->row[s->fault == DIES_JOINING && o->knew[i].missing ? FAULTS : (uint32_t)s->fault];
    if (row->known == row->capacity) {
      row->capacity = row->capacity ? 2 * row->capacity : 256;
      row->knew_us = realloc(row->knew_us, row->capacity * sizeof *row->knew_us);
      if (!row->knew_us) abort();
    }
    row->knew_us[row->known++] = o->knew[i].us;
  }
}

static int compare(const void *left, const void *right) {
  const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return (a > b) - (a < b);
}

static void print_times(struct tally *t) {
  printf("  %-24s %6s %6s %9s  time until a survivor knew, in ms\n", "fault", "seeds", "faults", "survivors");
  printf("  %-24s %6s %6s %9s %8s %8s %8s\n", "", "", "", "", "median", "p99", "max");
  for (int i = 0; i <= FAULTS; i++) {
    struct row *row = &t->row[i];
    printf("  %-24s %6llu %6llu %9zu", i < FAULTS ? fault_names[i] : "  found as missing",
           (unsigned long long)row->cases, (unsigned long long)row->fired, row->known);
    if (row->known > 0) {
      qsort(row->knew_us, row->known, sizeof *row->knew_us, compare);
      const uint32_t median = row->knew_us[row->known / 2], p99 = row->knew_us[row->known * 99 / 100];
      printf(" %8.1f %8.1f %8.1f", (double)median / 1000, (double)p99 / 1000,
             (double)row->knew_us[row->known - 1] / 1000);
    }
    printf("\n");
    free(row->knew_us);
  }
}

static void count(const struct scene *s, const struct outcome *o, struct tally *t) {
  char text[300];
  t->cases++;
  t->again += o->again;
  t->left += o->left;
  t->strangers += o->strangers;
  count_times(s, o, t);
  if (o->early && s->fault != NOTHING && !o->hung && o->wrong == 0 && o->left == 0) {
    t->early++;
    return;
  }
  t->hangs += o->hung;
  t->wrong += o->wrong;
  t->unnamed += o->unnamed;
  t->other_half += o->other_half;
  t->statuses += o->statuses;
  t->late += o->late;
  if (!o->report[0]) return;
  print_scene(s, text, sizeof text);
  FAIL("%s\n%s%s", text, o->hung ? "  hangs\n" : "", o->report);
}

struct slot {
  pid_t pid; /* 0: free slot */
  uint64_t seed;
  struct outcome *outcome;
};

static char folder[200]; /* of the test; each case has a folder in it */

static void print_path(char *path, size_t bytes, uint64_t seed) {
  snprintf(path, bytes, "%s/%llu", folder, (unsigned long long)seed);
}

static void begin(struct slot *slot, uint64_t seed) {
  char path[240];
  slot->seed = seed;
  print_path(path, sizeof path, seed);
  fflush(stdout);
  if (mkdir(path, 0700) != 0) abort();
  if ((slot->pid = fork()) != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0); /* Ctrl-C asks the test to end, and not its cases */
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  leftovers_adopt();
  if (chdir(path) != 0) abort();
  setenv("TMPDIR", path, 1);
  struct scene scene = draw(seed);
  for (uint32_t i = 0; i < TRIES; i++) {
    conduct_alone(&scene, slot->outcome);
    slot->outcome->again = i;
    if (!slot->outcome->disturbed || scene.fault == NOTHING || slot->outcome->late || slot->outcome->left) break;
    ranks_sleep_us(200000 * (i + 1));
  }
  _exit(0);
}

/* Judges the case of a slot, whose process has ended. */
static void end(struct slot *slot, int status, struct tally *t) {
  char path[240];
  struct scene scene = draw(slot->seed);
  print_path(path, sizeof path, slot->seed);
  if (rmdir(path) != 0) slot->outcome->left++, add(slot->outcome, "  files are left in %s\n", path);
  count(&scene, slot->outcome, t);
  if (status != 0)
    FAIL("seed %llu: the process of the case ended with status %x", (unsigned long long)slot->seed, (unsigned)status);
  slot->pid = 0;
}

static uint64_t first_undone(const struct slot slots[AT_ONCE], uint64_t next) {
  for (int i = 0; i < AT_ONCE; i++)
    if (slots[i].pid && slots[i].seed < next) next = slots[i].seed;
  return next;
}

static volatile sig_atomic_t interrupted;
static void interrupt(int number) {
  (void)number;
  interrupted = 1;
}

/* Conducts the cases of all seeds. Returns the first seed that was not begun, as the test was interrupted; last + 1 if
 * all are done. */
static uint64_t conduct_seeds(uint64_t first, uint64_t last, struct tally *t) {
  struct slot slots[AT_ONCE] = {{0}};
  struct outcome *outcomes =
      mmap(NULL, AT_ONCE * sizeof *outcomes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (outcomes == MAP_FAILED) abort();
  /* A link that is cut or flaps is that of all cases. */
  const int at_once = across == LINKED_HOSTS ? 1 : load ? LOADED_AT_ONCE : AT_ONCE;
  uint64_t next = first, running = 0;
  while (running > 0 || (next <= last && !interrupted)) {
    for (int i = 0; i < at_once && next <= last && !interrupted; i++) {
      if (slots[i].pid) continue;
      slots[i].outcome = &outcomes[i];
      begin(&slots[i], next++);
      running++;
    }
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    for (int i = 0; i < AT_ONCE && pid > 0; i++) {
      if (slots[i].pid != pid) continue;
      end(&slots[i], status, t);
      running--;
      if (t->cases % 100 == 0)
        printf("  all seeds before %llu are done\n", (unsigned long long)first_undone(slots, next));
    }
  }
  munmap(outcomes, AT_ONCE * sizeof *outcomes);
  return next;
}

/* Starts processes that use a core all the time. The caller ends them with end_load. */
static pid_t *start_load(uint32_t processes) {
  pid_t *pids = calloc(processes + 1, sizeof *pids);
  if (!pids) abort();
  fflush(stdout);
  for (uint32_t i = 0; i < processes; i++) {
    if ((pids[i] = fork()) != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    for (volatile uint64_t turns = 0;; turns++) continue;
  }
  return pids;
}

static void end_load(pid_t *pids) {
  for (const pid_t *pid = pids; *pid > 0; pid++) {
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
  }
  free(pids);
}

static void run_seeds(uint64_t first, uint64_t last) {
  struct tally t = {0};
  const char *temporary = getenv("TMPDIR");
  const struct leftovers_held before = leftovers_look();
  const uint32_t shm_files = leftovers_files("/dev/shm", "tutti");
  const uint64_t begun_ms = ranks_now_ms();
  snprintf(folder, sizeof folder, "%s/seeded_faults.XXXXXX", temporary ? temporary : "/tmp");
  if (!mkdtemp(folder)) abort();
  const struct sigaction action = {.sa_handler = interrupt}; /* without SA_RESTART, so that it ends waitpid */
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  pid_t *busy = start_load(load);
  uint64_t next = conduct_seeds(first, last, &t);
  end_load(busy);
  const bool files = rmdir(folder) != 0, shared = leftovers_files("/dev/shm", "tutti") > shm_files,
             fds = leftovers_look().fds > before.fds;
  CHECK(!files, "files are left in %s", folder);
  CHECK(!shared, "files are left in /dev/shm");
  CHECK(!fds, "the test has more descriptors than before");
  t.left += (uint64_t)files + shared + fds;
  print_times(&t);
  printf(
      "  seeds %llu..%llu in %.1f s at load %u: %llu seeds, %llu faults; %llu hangs, %llu wrong elements, %llu "
      "messages "
      "that do not name the victim, %llu errors in the other half, %llu wrong statuses, %llu late, %llu left behind; "
      "%llu repetitions, %llu not judged\n",
      (unsigned long long)first, (unsigned long long)next - 1, (double)(ranks_now_ms() - begun_ms) / 1000, load,
      (unsigned long long)t.cases, (unsigned long long)t.faults, (unsigned long long)t.hangs,
      (unsigned long long)t.wrong, (unsigned long long)t.unnamed, (unsigned long long)t.other_half,
      (unsigned long long)t.statuses, (unsigned long long)t.late, (unsigned long long)t.left,
      (unsigned long long)t.again, (unsigned long long)t.early);
  if (across != ONE_HOST) printf("  %llu connections of strangers\n", (unsigned long long)t.strangers);
  if (next <= last) FAIL("interrupted; %llu..%llu remain", (unsigned long long)next, (unsigned long long)last);
  CHECK(t.early <= 1 + t.cases / 20, "the machine is too busy: time limits passed before the faults");
}

static uint64_t first_seed = 0, last_seed = 49;
static void faults_by_seed(void) { run_seeds(first_seed, last_seed); }

/* Starts this program again, with a C library that does not count freed memory as used (glibc keeps it for each thread).
 * Returns if that was done already. */
static void count_heap_exactly(char **argv) {
  if (getenv("GLIBC_TUNABLES")) return;
  setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
  execv("/proc/self/exe", argv);
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"faults_by_seed", faults_by_seed}};
  count_heap_exactly(argv);
  if (argc == 4 && strcmp(argv[1], "--as") == 0) return play_launched(argv[3]);
  ranks_clear_environment();
  if (test_long()) last_seed = 1999;
  const char *one = getenv("TEST_SEED");
  if (one) first_seed = last_seed = strtoull(one, NULL, 0);
  if (argc >= 3 && strcmp(argv[1], "--load") == 0) {
    load = (uint32_t)strtoul(argv[2], NULL, 0);
    argc -= 2, argv += 2;
  }
  if (argc >= 2 && strcmp(argv[1], "--hosts") == 0) {
    const char *hosts = getenv("TEST_HOSTS");
    across = hosts && strchr(hosts, ':') ? LINKED_HOSTS : NAMED_HOSTS;
    argc--, argv++;
  }
  if (argc == 2 && argv[1][0] >= '0' && argv[1][0] <= '9') {
    const char *dots = strstr(argv[1], "..");
    first_seed = last_seed = strtoull(argv[1], NULL, 0);
    if (dots) last_seed = strtoull(dots + 2, NULL, 0);
    argc = 1;
  }
  return test_main(tests, 1, argc, argv);
}
