/* progress.c: the thread that advances open requests, and sends what is unsent, while the program computes. It never
 * polls for long: after one unsuccessful poll it sleeps on the bell of its rank, as a waiting thread does. If it has
 * nothing to do, or a thread of the program waits, it sleeps on a condition variable instead. So messages of such a rank
 * wake it in vain at most once, and peers that send do not spend system calls on it. */
#include "call/progress.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "call/look.h"
#include "call/queue.h"

/* Maximum duration of one sleep, in ms, if something may be to do that does not ring the bell: the thread serves several
 * endpoints, of which each has a bell, or another thread holds a communicator, and may leave it any moment. */
#define SLEEP_SHORT_MS 1
/* Time from the start of a call, in ns, until the thread looks after it. If the program waits by then, the thread rests
 * again. Measured on two cores, 2 ranks that start an allreduce of 1 MiB and wait at once: 83 us instead of 90 to 180. */
#define AFTER_START_NS 20000

static struct {
  pthread_mutex_t life; /* held while the thread is created or ended */
  pthread_mutex_t lock; /* protects the fields below */
  pthread_cond_t news;  /* for the thread: requests may be open, or the thread is to end */
  pthread_cond_t left;  /* from the thread: it does not use `at` any more */
  pthread_t thread;
  struct tu_transport *first; /* list of the served endpoints */
  struct tu_transport *at;    /* endpoint that the thread uses now; NULL: none */
  bool ends;
  _Atomic bool exists; /* true: the thread has been created, and not ended */
  /* true: the thread waits for `news`, or is about to. Changed by exchange only: so the thread sees what another thread
   * has written before it found `rests` false. */
  _Atomic bool rests;
} progress = {.life = PTHREAD_MUTEX_INITIALIZER,
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .news = PTHREAD_COND_INITIALIZER,
              .left = PTHREAD_COND_INITIALIZER};

/* ---- waking ---- */

static bool is_unsent(const struct tu_transport *t) { return t->hosts && tu_remote_is_unsent(t); }

static void *run(void *unused);

/* Creates the thread, if there is none. Signals of the program are for its own threads. */
static tutti_err create(struct tu_error *error) {
  sigset_t all, before;
  int failed = 0;
  sigfillset(&all);
  pthread_mutex_lock(&progress.life);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (!atomic_load(&progress.exists)) failed = pthread_create(&progress.thread, NULL, run, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed == 0) atomic_store(&progress.exists, true);
  pthread_mutex_unlock(&progress.life);
  if (failed != 0)
    return tu_fail(error, TUTTI_ERR_SYSTEM, "pthread_create failed for the progress thread: %s", strerror(failed));
  return TUTTI_OK;
}

static void wake(void) {
  struct tu_error ignored;
  /* If the thread cannot be created, the next call tries again. */
  if (!atomic_load(&progress.exists) && create(&ignored) != TUTTI_OK) return;
  if (!atomic_exchange(&progress.rests, false)) return;
  pthread_mutex_lock(&progress.lock);
  pthread_cond_signal(&progress.news);
  pthread_mutex_unlock(&progress.lock);
}

void tu_progress_note_work(struct tu_transport *t, const struct tutti_comm *comm) {
  const bool is_open = t->advanced && ((comm && comm->first) || tu_queue_others(comm));
  if (is_open || atomic_load_explicit(&t->windows, memory_order_relaxed) > 0 || is_unsent(t)) wake();
}

tutti_err tu_progress_serve(struct tu_transport *t, struct tu_error *error) {
  if (!atomic_load(&progress.exists) && create(error) != TUTTI_OK) return error->code;
  atomic_fetch_add(&t->windows, 1);
  wake();
  return TUTTI_OK;
}

void tu_progress_serve_no_more(struct tu_transport *t) { atomic_fetch_sub(&t->windows, 1); }

/* ---- the thread ---- */

static bool has_work(const struct tu_transport *t) {
  if (atomic_load_explicit(&t->waiting, memory_order_relaxed) > 0) return false;
  return atomic_load_explicit(&t->windows, memory_order_relaxed) > 0 || (t->advanced && tu_queue_others(NULL)) ||
         is_unsent(t);
}

/* Advances open requests, or sends what is unsent. Returns true if anything moved. *missed: see tu_queue_poll_every. */
static bool work(struct tu_transport *t, bool *missed) {
  *missed = false;
  return (t->advanced && tu_queue_poll_every(missed)) || (t->hosts && tu_remote_flush(t, NULL));
}

/* Returns an endpoint with work; NULL: there is none. Moves it to the end of the list, so that the next call prefers
 * others. The caller holds the lock. */
static struct tu_transport *find_work(void) {
  struct tu_transport **link = &progress.first;
  while (*link && !has_work(*link)) link = &(*link)->served_next;
  struct tu_transport *t = *link;
  if (!t) return NULL;
  *link = t->served_next;
  while (*link) link = &(*link)->served_next;
  *link = t;
  t->served_next = NULL;
  return t;
}

/* Sleeps on the bell of the endpoint, unless there is something to do. */
static void sleep_on(struct tu_transport *t, bool is_alone) {
  const uint32_t token = tu_bell_arm(t);
  bool missed;
  if (!work(t, &missed) && has_work(t) && atomic_load(&t->served)) {
    const int ms = tu_look_round(NULL, tu_clock_ns(), is_alone && !missed ? TU_SLEEP_MS : SLEEP_SHORT_MS);
    /* not tu_patience_sleep, by which other ranks would learn that this rank rests */
    if (ms > 0) tu_remote_arm(t);
    if (ms > 0) tu_bell_sleep(t, token, ms);
  }
  tu_bell_disarm(t);
}

/* Waits until another thread finds work. Then waits a moment longer, because a program often waits for a call right after
 * it has started it. The caller holds the lock. */
static void rest(void) {
  if (atomic_load(&progress.rests)) pthread_cond_wait(&progress.news, &progress.lock);
  pthread_mutex_unlock(&progress.lock);
  nanosleep(&(struct timespec){.tv_nsec = AFTER_START_NS}, NULL);
  pthread_mutex_lock(&progress.lock);
}

static void *run(void *unused) {
  bool missed;
  (void)pthread_setname_np(pthread_self(), "tutti");
  pthread_mutex_lock(&progress.lock);
  for (;;) {
    atomic_exchange(&progress.rests, true);
    if (progress.ends) break;
    struct tu_transport *t = find_work();
    if (!t) {
      rest();
      continue;
    }
    atomic_exchange(&progress.rests, false);
    const bool is_alone = progress.first == t;
    progress.at = t;
    pthread_mutex_unlock(&progress.lock);
    if (!work(t, &missed)) sleep_on(t, is_alone);
    pthread_mutex_lock(&progress.lock);
    progress.at = NULL;
    pthread_cond_broadcast(&progress.left);
  }
  pthread_mutex_unlock(&progress.lock);
  return unused;
}

/* ---- beginning and ending ---- */

/* Removes the endpoint from the list, and waits until the thread does not use it. Returns true if it was the last one. */
static bool leave(struct tu_transport *t) {
  struct tu_transport **link = &progress.first;
  pthread_mutex_lock(&progress.lock);
  while (*link != t) link = &(*link)->served_next;
  *link = t->served_next;
  /* The thread reads `served` after it has armed the bell. If it finds true, the ring comes later than the token. */
  atomic_store(&t->served, false);
  if (progress.at == t) tu_bell_wake(t, t->rank);
  while (progress.at == t) pthread_cond_wait(&progress.left, &progress.lock);
  progress.ends = !progress.first;
  pthread_cond_signal(&progress.news);
  const bool last = progress.ends;
  pthread_mutex_unlock(&progress.lock);
  return last;
}

void tu_progress_end(struct tu_transport *t) {
  if (!atomic_load(&t->served)) return;
  pthread_mutex_lock(&progress.life);
  if (leave(t)) {
    if (atomic_load(&progress.exists)) (void)pthread_join(progress.thread, NULL);
    progress.ends = false;
    atomic_store(&progress.exists, false);
  }
  pthread_mutex_unlock(&progress.life);
}

tutti_err tu_progress_begin(struct tu_transport *t, bool advances, struct tu_error *error) {
  t->advanced = advances;
  pthread_mutex_lock(&progress.life);
  pthread_mutex_lock(&progress.lock);
  t->served_next = progress.first;
  progress.first = t;
  atomic_store(&t->served, true);
  pthread_mutex_unlock(&progress.lock);
  pthread_mutex_unlock(&progress.life);
  if (!advances || create(error) == TUTTI_OK) return TUTTI_OK;
  tu_progress_end(t);
  return error->code;
}

void tu_progress_reset(void) {
  pthread_mutex_init(&progress.life, NULL);
  pthread_mutex_init(&progress.lock, NULL);
  pthread_cond_init(&progress.news, NULL);
  pthread_cond_init(&progress.left, NULL);
  progress.first = progress.at = NULL;
  progress.ends = false;
  atomic_store(&progress.rests, false);
  atomic_store(&progress.exists, false);
}
