/* progress.c: one progress for two libraries. A thread that waits in tutti advances the MPI (tutti_options.foreign). A
 * thread that waits in the MPI advances tutti: Open MPI has a table of functions that it calls while it waits. With
 * MPICH, the door carries blocking functions of the MPI out as nonblocking ones while requests of tutti are open
 * (messages.c). */
#include <pthread.h>

#include "door.h"

/* Only one thread at a time advances the MPI, and one tutti; the others need not. */
static atomic_flag advancing_mpi = ATOMIC_FLAG_INIT, advancing_tutti = ATOMIC_FLAG_INIT;
/* A receive that no message matches: a test of it advances the MPI. */
static MPI_Comm own_comm = MPI_COMM_NULL;
static MPI_Request never = MPI_REQUEST_NULL;
static int nothing;

static _Thread_local struct {
  bool inside; /* this thread is in one library on behalf of the other one */
  struct tm_watch *watch;
} thread;

/* Functions of Open MPI's library that no header of its declares. Weak: NULL with MPICH. */
typedef int progress_function(void);
extern __attribute__((weak)) int opal_progress_register(progress_function *function);
extern __attribute__((weak)) int opal_progress_unregister(progress_function *function);
extern __attribute__((weak)) bool opal_progress_set_yield_when_idle(bool yields);

bool tm_advance_mpi(void *context) {
  (void)context;
  if (thread.inside) return false;
  thread.inside = true;
  bool met = false;
  if (thread.watch) met = thread.watch->met(thread.watch);
  /* A watch whose requests are all complete does not advance the MPI. */
  if (!met && never != MPI_REQUEST_NULL && !atomic_flag_test_and_set_explicit(&advancing_mpi, memory_order_acquire)) {
    int flag;
    /* The thread is about to yield anyway. */
    const bool yields = opal_progress_set_yield_when_idle ? opal_progress_set_yield_when_idle(false) : false;
    PMPI_Test(&never, &flag, MPI_STATUS_IGNORE);
    if (yields) (void)opal_progress_set_yield_when_idle(true);
    atomic_flag_clear_explicit(&advancing_mpi, memory_order_release);
  }
  thread.inside = false;
  return met;
}

void tm_advance_tutti(void) {
  if (thread.inside || atomic_flag_test_and_set_explicit(&advancing_tutti, memory_order_acquire)) return;
  thread.inside = true;
  (void)!tutti_progress(tm_door.poller, 0);
  thread.inside = false;
  atomic_flag_clear_explicit(&advancing_tutti, memory_order_release);
}

void tm_native_poll(void) {
  if (!tm_mpi_advances_tutti && atomic_load_explicit(&tm_open, memory_order_relaxed) > 0) tm_advance_tutti();
}

void tm_watch_wait(struct tm_watch *watch) {
  thread.watch = watch;
  /* The end of a second execution wakes no thread. */
  (void)!tutti_progress(tm_door.poller, tm_door.mode == TM_VERIFY ? 1 : 100);
  thread.watch = NULL;
}

/* ---- Open MPI ---- */

static int on_progress(void) {
  if (atomic_load_explicit(&tm_open, memory_order_relaxed) > 0) tm_advance_tutti();
  return 0;
}

bool tm_mpi_advances_tutti;

/* ---- a thread that advances tutti, while other threads are in functions of the MPI that do not ---- */

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  bool exists, ends;
  uint32_t blocked; /* number of threads in such functions */
} helper = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static _Thread_local bool counted; /* this thread is one of them */

static void *help(void *argument) {
  thread.inside = true; /* it never calls the MPI */
  pthread_mutex_lock(&helper.lock);
  while (!helper.ends) {
    if (helper.blocked == 0) {
      pthread_cond_wait(&helper.changed, &helper.lock);
      continue;
    }
    pthread_mutex_unlock(&helper.lock);
    (void)!tutti_progress(tm_door.poller, 1);
    pthread_mutex_lock(&helper.lock);
  }
  pthread_mutex_unlock(&helper.lock);
  return argument;
}

void tm_native_begin(void) {
  if (tm_mpi_advances_tutti || atomic_load_explicit(&tm_open, memory_order_relaxed) == 0) return;
  pthread_mutex_lock(&helper.lock);
  if (!helper.exists) helper.exists = pthread_create(&helper.thread, NULL, help, NULL) == 0;
  helper.blocked++;
  counted = true;
  pthread_cond_signal(&helper.changed);
  pthread_mutex_unlock(&helper.lock);
}

void tm_native_end(void) {
  if (!counted) return;
  pthread_mutex_lock(&helper.lock);
  helper.blocked--;
  counted = false;
  pthread_mutex_unlock(&helper.lock);
}

/* The thread may still be in its last poll, although no function waits. */
void tm_progress_stop(void) {
  if (!helper.exists) return;
  pthread_mutex_lock(&helper.lock);
  helper.ends = true;
  pthread_cond_signal(&helper.changed);
  pthread_mutex_unlock(&helper.lock);
  pthread_join(helper.thread, NULL);
  helper.exists = helper.ends = false;
}

tutti_err tm_progress_begin(void) {
  if (PMPI_Comm_dup(MPI_COMM_SELF, &own_comm) != MPI_SUCCESS) return TUTTI_ERR_SYSTEM;
  if (PMPI_Irecv(&nothing, 1, MPI_INT, 0, 0, own_comm, &never) != MPI_SUCCESS) return TUTTI_ERR_SYSTEM;
  if (opal_progress_register && opal_progress_unregister)
    tm_mpi_advances_tutti = opal_progress_register(on_progress) == 0;
  return TUTTI_OK;
}

void tm_progress_end(void) {
  if (tm_mpi_advances_tutti) opal_progress_unregister(on_progress);
  tm_mpi_advances_tutti = false;
  if (never != MPI_REQUEST_NULL) {
    PMPI_Cancel(&never);
    PMPI_Wait(&never, MPI_STATUS_IGNORE);
  }
  if (own_comm != MPI_COMM_NULL) PMPI_Comm_free(&own_comm);
}
