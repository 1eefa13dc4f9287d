/* requests.c: nonblocking and persistent collectives. A handle that the door gives to the program is none that the MPI could
 * give: with Open MPI, the address of a request in memory of the door; with MPICH, a number of a kind that MPICH does not
 * use. So a look at a handle tells whose it is. */
#include "requests.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { REQUESTS_MAX = 1 << 18 };

/* MPICH: a request handle of kind "invalid", which MPI_REQUEST_NULL (0x2c000000) is as well, with a number that is not 0. */
#define FIRST_HANDLE 0x2c000001u

static struct tm_request *requests; /* [REQUESTS_MAX]; only pages that were used take memory */
static uint32_t used, first_free = UINT32_MAX;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of both; taken only if there are threads */
_Atomic uint32_t tm_open;

/* ---- handles ---- */

#if TM_OPEN_MPI
static MPI_Request handle_of(struct tm_request *r) { return (MPI_Request)(void *)r; }

struct tm_request *tm_request_of(MPI_Request handle) {
  const uintptr_t offset = (uintptr_t)handle - (uintptr_t)requests;
  return offset < REQUESTS_MAX * sizeof *requests && requests ? (struct tm_request *)(void *)handle : NULL;
}

/* Numbers for Fortran: above all that Open MPI uses. */
enum { FIRST_NUMBER = 1 << 30 };

TM_EXPORT MPI_Fint MPI_Request_c2f(MPI_Request handle) {
  const struct tm_request *r = tm_request_of(handle);
  return r ? FIRST_NUMBER + (MPI_Fint)(r - requests) : PMPI_Request_c2f(handle);
}

TM_EXPORT MPI_Request MPI_Request_f2c(MPI_Fint number) {
  if (number < FIRST_NUMBER) return PMPI_Request_f2c(number);
  return number - FIRST_NUMBER < REQUESTS_MAX ? handle_of(&requests[number - FIRST_NUMBER]) : MPI_REQUEST_NULL;
}
#else
static MPI_Request handle_of(struct tm_request *r) { return (MPI_Request)(FIRST_HANDLE + (uint32_t)(r - requests)); }

struct tm_request *tm_request_of(MPI_Request handle) {
  const uint32_t number = (uint32_t)handle - FIRST_HANDLE;
  return number < REQUESTS_MAX && requests ? &requests[number] : NULL;
}
#endif

/* ---- memory of requests ---- */

static struct tm_request *take(void) {
  if (tm_door.threads) pthread_mutex_lock(&lock);
  uint32_t i = first_free;
  if (i != UINT32_MAX) first_free = requests[i].next_free;
  else if (requests && used < REQUESTS_MAX) i = used++;
  if (tm_door.threads) pthread_mutex_unlock(&lock);
  if (i == UINT32_MAX) return NULL;
  struct tm_request *r = &requests[i];
  memset(&r->comm, 0, sizeof *r - offsetof(struct tm_request, comm));
  return r;
}

static void give(struct tm_request *r) {
  r->persistent = false;
  if (tm_door.threads) pthread_mutex_lock(&lock);
  r->next_free = first_free;
  first_free = (uint32_t)(r - requests);
  if (tm_door.threads) pthread_mutex_unlock(&lock);
}

/* ---- what a request keeps ---- */

/* Replaces a derived datatype by a duplicate, because the program may free it while the request is open. */
static void keep_type(MPI_Datatype *type, const struct tm_type **t, bool *duplicated) {
  MPI_Datatype copy;
  if (!*t || (*t)->class != TM_DERIVED || PMPI_Type_dup(*type, &copy) != MPI_SUCCESS) return;
  *type = copy;
  *t = tm_type_find(copy);
  *duplicated = true;
}

/* Keeps what the program may free. Only the sides that count on this rank have valid datatypes. */
static void keep(struct tm_request *r) {
  struct tm_job *job = &r->job;
  if (tm_reduces(r->call.kind)) {
    keep_type(&r->call.send.type, &job->in.type, &r->duplicated[0]);
    job->out.type = job->in.type;
    job->operands[0].type = job->operands[1].type = job->reduction.type = r->call.send.type;
    r->holds_op = !tm_op_is_predefined(r->call.op);
    if (r->holds_op) tm_op_hold(r->call.op);
    return;
  }
  if (job->in.side == &r->call.send) keep_type(&r->call.send.type, &job->in.type, &r->duplicated[0]);
  if (job->out.side == &r->call.recv) keep_type(&r->call.recv.type, &job->out.type, &r->duplicated[1]);
  if (job->in.side == job->out.side) job->in.type = job->out.type;
}

static void release(struct tm_request *r) {
  tm_job_end(&r->job);
  if (r->shadow) tm_shadow_end(r->shadow);
  if (r->duplicated[0]) PMPI_Type_free(&r->call.send.type);
  if (r->duplicated[1]) PMPI_Type_free(&r->call.recv.type);
  if (r->holds_op) tm_op_release(r->call.op);
  if (r->own) tutti_comm_close(r->own);
  tm_comm_release(r->comm);
  give(r);
}

/* Makes a request for a call. Sets *request to NULL if the call is left to the MPI; returns why. */
static enum tm_reason make(const struct tm_call *c, struct tm_comm *k, struct tm_request **request) {
  struct tm_request *r = take();
  *request = NULL;
  if (!r) return TM_NO_MEMORY;
  r->call = *c;
  enum tm_reason reason = tm_job_begin(&r->job, &r->call, k);
  if (reason != TM_ROUTED) {
    give(r);
    return reason;
  }
  r->comm = k;
  tm_add(&k->users, 1);
  keep(r);
  *request = r;
  return TM_ROUTED;
}

/* ---- starting ---- */

/* Ends the start of a nonblocking call, or the making of a persistent request: gives the program the handle, or the error. */
static int give_handle(struct tm_request *r, tutti_err err, MPI_Request *handle) {
  if (err == TUTTI_OK) {
    *handle = handle_of(r);
    return MPI_SUCCESS;
  }
  const int code = tm_fail(r->comm, err, tm_kind_names[r->call.kind]);
  release(r);
  *handle = MPI_REQUEST_NULL;
  return code;
}

static void note_open(struct tm_request *r) {
  r->active = true;
  tm_add(&tm_open, 1);
}

/* Starts a call that needs no job. Returns false if it needs one. */
static bool start_short(const struct tm_call *c, struct tm_comm *k, MPI_Request *handle, int *code) {
  tutti_request *request = NULL;
  tutti_err err;
  struct tm_request *r = take();
  if (!r) return false;
  if (!tm_start_short(c, k, &request, &err)) {
    give(r);
    return false;
  }
  r->call.kind = c->kind;
  /* there is nothing to unpack, and nothing to free */
  r->job.memory = r->job.first_block = r->job.out.packed = NULL;
  r->comm = k;
  r->tutti = request;
  tm_add(&k->users, 1);
  if (err == TUTTI_OK) note_open(r);
  *code = give_handle(r, err, handle);
  return true;
}

int tm_start(const struct tm_call *c, MPI_Request *handle) {
  struct tm_comm *k = tm_comm_find(c->comm);
  struct tm_request *r = NULL;
  int code;
  enum tm_reason reason = !tm_door.open ? TM_CLOSED : !k ? TM_UNSETTLED : k->reason;
  if (reason == TM_ROUTED && !handle) reason = TM_ARGUMENTS;
  if (reason == TM_ROUTED && tm_door.mode == TM_QUIET && start_short(c, k, handle, &code)) return code;
  if (reason == TM_ROUTED) reason = make(c, k, &r);
  if (tm_door.mode >= TM_REPORT) tm_count_call(c->kind, TM_NONBLOCKING, reason);
  if (reason == TM_NO_MEMORY && k && k->tutti) return tm_fail_memory(k, c);
  if (reason != TM_ROUTED) return tm_native_start(c, handle);
  tm_job_pack(&r->job);
  if (tm_door.mode == TM_VERIFY) {
    r->shadow = tm_shadow_begin(&r->job, false);
    if (r->shadow) tm_shadow_start(r->shadow);
  }
  const tutti_err err = tutti_start(k->tutti, &r->job.call, &r->tutti);
  if (err == TUTTI_OK) note_open(r);
  return give_handle(r, err, handle);
}

/* Persistent requests match in the order in which they are made, and may be started in any order. So each has a
 * communicator of its own. */
int tm_init(const struct tm_call *c, MPI_Info info, MPI_Request *handle) {
  struct tm_comm *k = tm_comm_settle(c->comm);
  struct tm_request *r = NULL;
  enum tm_reason reason = !tm_door.open ? TM_CLOSED : !k ? TM_ARGUMENTS : k->reason;
  if (reason == TM_ROUTED && !handle) reason = TM_ARGUMENTS;
  if (reason == TM_ROUTED) reason = make(c, k, &r);
  if (tm_door.mode >= TM_REPORT) tm_count_call(c->kind, TM_PERSISTENT, reason);
  if (reason == TM_NO_MEMORY && k && k->tutti) return tm_fail_memory(k, c);
  if (reason != TM_ROUTED) return tm_native_init(c, info, handle);
  r->persistent = true;
  if (tm_door.mode == TM_VERIFY) r->shadow = tm_shadow_begin(&r->job, true);
  tutti_err err = tutti_comm_dup(k->tutti, &r->own);
  if (err == TUTTI_OK) err = tutti_prepare(r->own, &r->job.call, &r->tutti);
  return give_handle(r, err, handle);
}

int tm_request_start(struct tm_request *r) {
  if (r->active) return MPI_ERR_REQUEST;
  tm_job_pack(&r->job);
  if (r->shadow) tm_shadow_start(r->shadow);
  const tutti_err err = tutti_restart(r->tutti);
  if (err != TUTTI_OK) return tm_fail(r->comm, err, "Start");
  note_open(r);
  return MPI_SUCCESS;
}

/* ---- ending ---- */

bool tm_request_done(const struct tm_request *r) {
  return (r->ended || tutti_request_done(r->tutti)) && (!r->shadow || tm_shadow_done(r->shadow));
}

/* Ends a request whose call of tutti is complete. */
static int conclude(struct tm_request *r, MPI_Request *handle) {
  const tutti_err err = r->outcome;
  int code = MPI_SUCCESS;
  r->active = r->ended = false;
  tm_add(&tm_open, -1u);
  if (err == TUTTI_OK) tm_job_unpack(&r->job);
  if (err == TUTTI_OK && r->shadow) tm_shadow_compare(r->shadow);
  if (err != TUTTI_OK) code = tm_fail(r->comm, err, tm_kind_names[r->call.kind]);
  if (r->persistent) return code;
  release(r);
  *handle = MPI_REQUEST_NULL;
  return code;
}

/* Advances the call of tutti, and with it all others. */
static void test(struct tm_request *r) {
  if (r->ended) return;
  const tutti_err err = tutti_test(&r->tutti, &r->ended);
  if (r->ended) r->outcome = err;
}

int tm_request_finish(struct tm_request *r, MPI_Request *handle) {
  test(r);
  return conclude(r, handle);
}

void tm_request_advance(struct tm_request *r) {
  if (r->ended) tm_advance_tutti();
  else test(r);
  if (!tm_request_done(r)) (void)tm_advance_mpi(NULL);
}

/* A wait for the second execution of a request, which the MPI carries out. */
struct shadow_watch {
  struct tm_watch watch;
  struct tm_shadow *shadow;
};
static bool shadow_met(struct tm_watch *watch) {
  return tm_shadow_done(((struct shadow_watch *)(void *)watch)->shadow);
}

int tm_request_wait(struct tm_request *r, MPI_Request *handle) {
  if (!r->ended) r->outcome = tutti_wait(&r->tutti);
  r->ended = true;
  if (r->shadow && r->outcome == TUTTI_OK) {
    struct shadow_watch w = {{shadow_met}, r->shadow};
    while (!shadow_met(&w.watch)) tm_watch_wait(&w.watch);
  }
  return conclude(r, handle);
}

TM_EXPORT int MPI_Request_free(MPI_Request *handle) {
  struct tm_request *r = handle ? tm_request_of(*handle) : NULL;
  if (!r) return PMPI_Request_free(handle);
  int code = MPI_SUCCESS;
  if (r->active) code = tm_request_wait(r, handle);
  if (r->persistent) {
    tutti_request_free(r->tutti);
    release(r);
  }
  *handle = MPI_REQUEST_NULL;
  return code;
}

/* ---- begin and end ---- */

tutti_err tm_requests_begin(void) {
  void *memory = mmap(NULL, REQUESTS_MAX * sizeof *requests, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return TUTTI_ERR_MEMORY;
  requests = memory;
  return TUTTI_OK;
}

void tm_requests_end(void) {
  for (uint32_t i = 0; i < used; i++)
    if (requests[i].persistent && requests[i].own && !requests[i].active) {
      tutti_request_free(requests[i].tutti);
      tutti_comm_close(requests[i].own);
      requests[i].own = NULL;
    }
}
