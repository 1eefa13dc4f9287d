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
  else if (never != MPI_REQUEST_NULL && !atomic_flag_test_and_set_explicit(&advancing_mpi, memory_order_acquire)) {
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

void tm_watch_wait(struct tm_watch *watch) {
  thread.watch = watch;
  (void)!tutti_progress(tm_door.poller, 100);
  thread.watch = NULL;
}

/* ---- Open MPI ---- */

static int on_progress(void) {
  if (atomic_load_explicit(&tm_open, memory_order_relaxed) > 0) tm_advance_tutti();
  return 0;
}

bool tm_mpi_advances_tutti;

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
