/* troupe.h: runs one function on all ranks of a communicator: on threads of one process over the loop transport, or on
 * processes over shared memory. Under TSan, only threads are used. troupe_main is the main function of a program that
 * runs a table of cases over every transport. */
#ifndef TROUPE_H
#define TROUPE_H

#include <pthread.h>
#include <stdarg.h>

#include "api/comm_create.h"
#include "comm/comm.h"
#include "comm/groups.h"
#include "ranks.h"
#include "test.h"
#include "transport/transport.h"

enum {
  TROUPE_MAX = 16,
  TROUPE_JOIN_MS = 20000,
  TROUPE_CALL_MS = 60000,
  TROUPE_SLICE = 64 << 20,
  TROUPE_JOB_MS = 600000
};

/* A rank that runs a test. */
struct player {
  tutti_comm *comm;
  uint32_t rank, ranks;
  uint64_t seed;
  struct tu_transport *transport;
  bool is_thread;
  struct stage *stage;
};

/* State that all ranks of a test share, whether they are threads or processes. */
struct stage {
  _Atomic uint32_t failures;
  _Atomic uint32_t here; /* number of troupe_meet calls of all ranks */
  _Atomic uint64_t counted;
  char text[1024]; /* message of the first failure */
};

__attribute__((format(printf, 2, 3))) static void wrong(struct player *p, const char *format, ...) {
  if (p->stage->failures++ > 0) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(p->stage->text, sizeof p->stage->text, format, arguments);
  va_end(arguments);
}

/* A barrier without the library: waits until every rank has called it as often as this rank. */
static inline void troupe_meet(struct player *p) {
  const uint64_t end = ranks_now_ms() + TROUPE_CALL_MS;
  const uint32_t all = (p->stage->here++ / p->ranks + 1) * p->ranks;
  while (p->stage->here < all && ranks_now_ms() < end) ranks_sleep_us(100);
  if (p->stage->here < all) wrong(p, "rank %u: the other ranks did not arrive", p->rank);
}

/* Checks that a call has succeeded. */
static inline bool good(struct player *p, tutti_err err, const char *what) {
  if (err == TUTTI_OK) return true;
  wrong(p, "rank %u: %s: %s: %s", p->rank, what, tutti_err_name(err), tutti_error_message(p->comm));
  return false;
}

/* ---- one rank, over either transport ---- */

struct troupe {
  void (*run)(struct player *p);
  bool rank_1_dies;
  bool fails; /* true: the communicator is expected to fail */
  uint32_t ranks;
  uint64_t seed;
  size_t slice_bytes; /* bytes of shared memory per process; 0: TROUPE_SLICE */
  bool threads;
  struct tu_transport *endpoints[TROUPE_MAX]; /* endpoints of the ranks, if they are threads */
  int memory_fd;                              /* shared memory of the ranks, if they are processes */
  struct stage *stage;
  const uint32_t *host; /* [rank]: number of the rank's host; NULL: all run on one host */
};

/* Tells the communicator on which hosts its ranks run, as tutti_init does. */
static tutti_err troupe_place(const struct troupe *t, tutti_comm *comm, struct tu_error *error) {
  struct tu_domain domains[TROUPE_MAX];
  for (uint32_t r = 0; t->host && r < t->ranks; r++)
    domains[r] = (struct tu_domain){.numa = TU_DOMAIN_ANY, .cache = TU_DOMAIN_ANY, .host = t->host[r]};
  return t->host ? tu_groups_begin(comm, &(struct tu_locality){.domains = domains}, error) : TUTTI_OK;
}

/* Runs the test as rank `rank` of this communicator, and frees it. */
static void troupe_play_on(struct troupe *t, tutti_comm *comm, uint32_t rank) {
  struct player p = {.comm = comm,
                     .rank = rank,
                     .ranks = t->ranks,
                     .seed = t->seed,
                     .transport = comm->transport,
                     .is_thread = t->threads,
                     .stage = t->stage};
  (void)!tutti_comm_set_timeout(p.comm, TROUPE_CALL_MS);
  if (tutti_rank(p.comm) != rank || tutti_ranks(p.comm) != t->ranks)
    wrong(&p, "rank %u: is %u of %u", rank, tutti_rank(p.comm), tutti_ranks(p.comm));
  t->run(&p);
  tutti_err err = tutti_comm_free(p.comm);
  if (!t->rank_1_dies && !t->fails && t->stage->failures == 0 && err != TUTTI_OK)
    wrong(&p, "rank %u: free: %s: %s", rank, tutti_err_name(err), tutti_error_message(NULL));
}

static void troupe_play(struct troupe *t, struct tu_transport *endpoint, uint32_t rank) {
  uint32_t members[TROUPE_MAX];
  for (uint32_t r = 0; r < t->ranks; r++) members[r] = r;
  struct player p = {.rank = rank, .stage = t->stage};
  struct tu_error error = {0};
  if (tu_comm_create(endpoint, members, t->ranks, rank, TU_WORLD_ID, TROUPE_JOIN_MS, &p.comm, &error) == TUTTI_OK &&
      troupe_place(t, p.comm, &error) == TUTTI_OK)
    troupe_play_on(t, p.comm, rank);
  else wrong(&p, "rank %u: tu_comm_create: %s", rank, error.text);
}

/* ---- threads over loop ---- */

struct troupe_actor {
  struct troupe *troupe;
  uint32_t rank;
};

static void *troupe_act(void *argument) {
  struct troupe_actor *a = argument;
  troupe_play(a->troupe, a->troupe->endpoints[a->rank], a->rank);
  return NULL;
}

/* Runs the ranks as threads over t->endpoints. */
static inline void troupe_over_endpoints(struct troupe *t) {
  pthread_t threads[TROUPE_MAX];
  struct troupe_actor actors[TROUPE_MAX];
  t->threads = true;
  for (uint32_t r = 0; r < t->ranks; r++) {
    actors[r] = (struct troupe_actor){t, r};
    if (pthread_create(&threads[r], NULL, troupe_act, &actors[r]) != 0) abort();
  }
  for (uint32_t r = 0; r < t->ranks; r++) pthread_join(threads[r], NULL);
}

static inline void troupe_over_loop(struct troupe *t) {
  struct tu_error error = {0};
  if (tu_loop_create(t->ranks, TROUPE_SLICE, t->endpoints, &error) == TUTTI_OK) troupe_over_endpoints(t);
  else FAIL("tu_loop_create: %s", error.text);
}

/* ---- processes over shm ---- */

#ifndef __SANITIZE_THREAD__
static inline void troupe_over_shm(struct troupe *t) {
  pid_t pids[TROUPE_MAX];
  t->threads = false;
  t->memory_fd = memfd_create("troupe", MFD_CLOEXEC);
  size_t slice = t->slice_bytes ? tu_round_up(t->slice_bytes, TROUPE_SLICE) : TROUPE_SLICE;
  if (t->memory_fd < 0 || ftruncate(t->memory_fd, (off_t)(slice * t->ranks)) != 0) abort();
  fflush(stdout);
  for (uint32_t r = 0; r < t->ranks; r++) {
    if ((pids[r] = fork()) != 0) continue;
    struct tu_error error = {0};
    struct tu_transport *endpoint = NULL;
    struct player p = {.rank = r, .stage = t->stage};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (tu_shm_create(r, t->ranks, t->memory_fd, slice, &endpoint, &error) != TUTTI_OK)
      wrong(&p, "rank %u: tu_shm_create: %s", r, error.text);
    else troupe_play(t, endpoint, r);
    fflush(stdout);
    _exit(0);
  }
  close(t->memory_fd);
  for (uint32_t r = 0; r < t->ranks; r++) {
    int status = 0;
    waitpid(pids[r], &status, 0);
    bool victim = t->rank_1_dies && r == 1;
    CHECK(victim || status == 0, "%u ranks: rank %u: status %x", t->ranks, r, (unsigned)status);
  }
}
#endif

/* ---- processes of a job on several hosts, see placement.h ---- */

static int troupe_play_in_job(struct ranks_world *w, uint32_t rank) {
  struct troupe t = *(const struct troupe *)w->context;
  struct player p = {.rank = rank, .stage = t.stage};
  const tutti_options options = {.join_timeout_ms = TROUPE_CALL_MS, .timeout_ms = TROUPE_CALL_MS};
  if (tutti_init(&options, &p.comm) == TUTTI_OK) troupe_play_on(&t, p.comm, rank);
  else wrong(&p, "rank %u: tutti_init: %s", rank, tutti_error_message(NULL));
  return 0;
}

static inline void troupe_over_job(struct troupe *t) {
  struct ranks_world w = {.context = t};
  t->threads = false;
  ranks_start(&w, t->ranks, troupe_play_in_job);
  CHECK(ranks_end(&w, TROUPE_JOB_MS), "%u ranks: a rank hangs", t->ranks);
  for (uint32_t r = 0; r < t->ranks; r++)
    CHECK((t->rank_1_dies && r == 1) || w.status[r] == 0, "%u ranks: rank %u: status %x", t->ranks, r,
          (unsigned)w.status[r]);
  ranks_fini(&w);
}

/* Runs the test on t.ranks ranks, which `over` starts as threads or processes, and records failures. With
 * TEST_HOSTS, they are always the processes of a job. Returns
 * stage->counted, the sum of what the ranks counted. */
static inline uint64_t troupe_perform(struct troupe t, void (*over)(struct troupe *t)) {
  t.stage = mmap(NULL, sizeof *t.stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (t.stage == MAP_FAILED) abort();
  t.rank_1_dies = t.rank_1_dies && t.ranks > 1;
  if (placement_count() > 0) over = troupe_over_job;
  over(&t);
  CHECK(t.stage->failures == 0, "%u ranks: %u failures, first: %s", t.ranks, t.stage->failures, t.stage->text);
  uint64_t counted = t.stage->counted;
  munmap(t.stage, sizeof *t.stage);
  return counted;
}

/* ---- a test program: a table of cases, each run over every transport ---- */

struct troupe_case {
  const char *name;
  void (*run)(struct player *p);
  uint32_t ranks_max; /* largest number of ranks; 0: no limit */
  bool rank_1_dies;   /* rank 1 dies, so the case runs on 2 ranks or more */
  bool fails;         /* true: the communicator is expected to fail */
};

/* Sets the name and the function of a case; the name is that of the function: {TROUPE_CASE(f), .fails = true}. */
#define TROUPE_CASE(function) .name = #function, .run = function

struct troupe_transport {
  const char *name; /* NULL: end of the table */
  void (*over)(struct troupe *t);
  uint32_t ranks[6]; /* numbers of ranks, at most 5; 0 ends the list */
};

/* The transports of most tests, each with these numbers of ranks. shm is first: processes must be forked before threads
 * exist. */
#ifdef __SANITIZE_THREAD__
#define TROUPE_TRANSPORTS(...) ((const struct troupe_transport[]){{"loop", troupe_over_loop, {__VA_ARGS__}}, {0}})
#else
#define TROUPE_TRANSPORTS(...)        \
  ((const struct troupe_transport[]){ \
      {"shm", troupe_over_shm, {__VA_ARGS__}}, {"loop", troupe_over_loop, {__VA_ARGS__}}, {0}})
#endif

/* Runs one case over one transport, with every number of ranks until a check fails. Prints the sum of stage->counted,
 * if any. */
static inline void troupe_play_case(const struct troupe_case *c, const struct troupe_transport *transport,
                                    uint64_t seed) {
  uint64_t count = 0;
  for (const uint32_t *ranks = transport->ranks; *ranks > 0 && test_failures == 0; ranks++) {
    if ((c->ranks_max > 0 && *ranks > c->ranks_max) || (c->rank_1_dies && *ranks < 2)) continue;
    count += troupe_perform(
        (struct troupe){
            .run = c->run, .ranks = *ranks, .seed = seed + *ranks, .rank_1_dies = c->rank_1_dies, .fails = c->fails},
        transport->over);
  }
  if (count > 0 && test_failures == 0) printf("  %llu trials\n", (unsigned long long)count);
}

/* Runs every case over every transport, as a test with the name TRANSPORT.CASE. With TEST_HOSTS, the ranks are those of
 * the list only, and the transport is called "placed". An argument may name a test, a
 * transport or a case. Returns the exit status of the program. */
static inline int troupe_main(const struct troupe_case cases[], size_t count,
                              const struct troupe_transport transports[], int argc, char **argv) {
  struct test_counts counts = {0};
  setvbuf(stdout, NULL, _IOLBF, 0);
  ranks_clear_environment();
  uint64_t seed = test_seed();
  const struct troupe_transport placed[] = {{"placed", troupe_over_job, {placement_count()}}, {0}};
  if (placement_count() > 0) transports = placed;
  for (const struct troupe_transport *t = transports; t->name; t++)
    for (size_t i = 0; i < count; i++) {
      char name[96];
      snprintf(name, sizeof name, "%s.%s", t->name, cases[i].name);
      if (!test_wanted(name, argc, argv) && !test_wanted(t->name, argc, argv) &&
          !test_wanted(cases[i].name, argc, argv))
        continue;
      test_begin();
      troupe_play_case(&cases[i], t, seed);
      test_end(&counts, name);
    }
  return test_finish(&counts);
}

#endif
