/* troupe.h: ranks of one process (threads, over the loop transport) or of many (over shared memory) that play the same part.
 * Under TSan there are only threads. */
#ifndef TROUPE_H
#define TROUPE_H

#include <pthread.h>
#include <stdarg.h>

#include "api/comm.h"
#include "ranks.h"
#include "test.h"
#include "transport/transport.h"

enum { TROUPE_MAX = 16, TROUPE_JOIN_MS = 20000, TROUPE_CALL_MS = 60000, TROUPE_SLICE = 64 << 20 };

/* What a rank sees. */
struct player {
  tutti_comm *comm;
  uint32_t rank, ranks;
  uint64_t seed;
  struct tu_transport *transport;
  bool is_thread;
  struct stage *stage;
};

/* Shared by all ranks, whether threads or processes. */
struct stage {
  _Atomic uint32_t failures;
  _Atomic uint32_t here; /* ranks that wait for the others */
  _Atomic uint64_t counted;
  char text[1024]; /* of the first failure */
};

__attribute__((format(printf, 2, 3))) static void wrong(struct player *p, const char *format, ...) {
  if (p->stage->failures++ > 0) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(p->stage->text, sizeof p->stage->text, format, arguments);
  va_end(arguments);
}

/* A call that must work. */
static bool good(struct player *p, tutti_err err, const char *what) {
  if (err == TUTTI_OK) return true;
  wrong(p, "rank %u: %s: %s: %s", p->rank, what, tutti_err_name(err), tutti_error_message(p->comm));
  return false;
}

/* ---- a rank, over either transport ---- */

struct troupe {
  void (*run)(struct player *p);
  bool rank_1_dies;
  bool fails; /* the communicator does, as it should */
  uint32_t ranks;
  uint64_t seed;
  size_t slice_bytes; /* of memory that all see, of a process; 0: TROUPE_SLICE */
  bool threads;
  struct tu_transport *endpoints[TROUPE_MAX]; /* threads */
  int memory_fd;                              /* processes */
  struct stage *stage;
};

static void troupe_play(struct troupe *t, struct tu_transport *endpoint, uint32_t rank) {
  uint32_t members[TROUPE_MAX];
  for (uint32_t r = 0; r < t->ranks; r++) members[r] = r;
  struct player p = {.rank = rank,
                     .ranks = t->ranks,
                     .seed = t->seed,
                     .transport = endpoint,
                     .is_thread = t->threads,
                     .stage = t->stage};
  struct tu_error error = {0};
  if (tu_comm_create(endpoint, members, t->ranks, rank, TU_WORLD_SESSION, TROUPE_JOIN_MS, &p.comm, &error) !=
      TUTTI_OK) {
    wrong(&p, "rank %u: tu_comm_create: %s", rank, error.text);
    return;
  }
  tutti_comm_set_timeout(p.comm, TROUPE_CALL_MS);
  if (tutti_rank(p.comm) != rank || tutti_ranks(p.comm) != t->ranks)
    wrong(&p, "rank %u: is %u of %u", rank, tutti_rank(p.comm), tutti_ranks(p.comm));
  t->run(&p);
  tutti_err err = tutti_comm_free(p.comm);
  if (!t->rank_1_dies && !t->fails && t->stage->failures == 0 && err != TUTTI_OK)
    wrong(&p, "rank %u: free: %s: %s", rank, tutti_err_name(err), tutti_error_message(NULL));
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

/* Over endpoints of this process, which are closed at the end. */
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

/* Plays over `over` with so many ranks; a failure is the test's. Returns what they counted. */
static inline uint64_t troupe_perform(struct troupe t, void (*over)(struct troupe *t)) {
  t.stage = mmap(NULL, sizeof *t.stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (t.stage == MAP_FAILED) abort();
  t.rank_1_dies = t.rank_1_dies && t.ranks > 1;
  over(&t);
  CHECK(t.stage->failures == 0, "%u ranks: %u failures, first: %s", t.ranks, t.stage->failures, t.stage->text);
  uint64_t counted = t.stage->counted;
  munmap(t.stage, sizeof *t.stage);
  return counted;
}

#endif
