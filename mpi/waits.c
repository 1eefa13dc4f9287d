/* waits.c: the functions of MPI that complete requests. A list may hold requests of the door and of the MPI. Those of the
 * MPI are passed on; those of the door are completed here. A thread that waits for either advances both libraries. */
#include <stdlib.h>
#include <string.h>

#include "requests.h"

/* ---- statuses ---- */

static MPI_Status empty_status;

void tm_waits_begin(void) {
  MPI_Request none = MPI_REQUEST_NULL;
  PMPI_Wait(&none, &empty_status);
  empty_status.MPI_ERROR = MPI_SUCCESS;
}

/* Collectives have no message of which a status could tell. The MPI sets MPI_ERROR only if several requests are completed. */
static void set_status(MPI_Status *status) {
  if (status == MPI_STATUS_IGNORE) return;
  const int error = status->MPI_ERROR;
  *status = empty_status;
  status->MPI_ERROR = error;
}
static MPI_Status *status_at(MPI_Status *statuses, int i) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

/* ---- lists ---- */

/* The requests of the MPI in a list. */
struct natives {
  int count;
  MPI_Request *requests; /* [count] */
  int *places;           /* [count] positions in the program's list */
  MPI_Status *statuses;  /* [count] */
  void *memory;
};

static bool has_own(int count, const MPI_Request *list) {
  for (int i = 0; i < count; i++)
    if (tm_request_of(list[i])) return true;
  return false;
}

/* Returns true if the list is left to the MPI: none of its requests is the door's, and the MPI advances those of the door
 * that are open. */
static bool is_native(int count, const MPI_Request *list) {
  if (count < 0 || !list) return true;
  const bool advanced = tm_mpi_advances_tutti || atomic_load_explicit(&tm_open, memory_order_relaxed) == 0;
  return advanced && !has_own(count, list);
}

static bool begin_natives(struct natives *n, int count, const MPI_Request *list) {
  const size_t room = (size_t)count + 1;
  n->count = 0;
  n->memory = malloc(room * (sizeof(MPI_Status) + sizeof(MPI_Request) + sizeof(int)));
  if (!n->memory) return false;
  n->statuses = n->memory;
  n->requests = (MPI_Request *)(void *)(n->statuses + room);
  n->places = (int *)(void *)(n->requests + room);
  for (int i = 0; i < count; i++) {
    if (tm_request_of(list[i])) continue;
    n->requests[n->count] = list[i];
    n->places[n->count++] = i;
  }
  return true;
}

/* Takes over what the MPI has done with its requests. */
static void end_natives(struct natives *n, MPI_Request *list) {
  for (int i = 0; i < n->count; i++) list[n->places[i]] = n->requests[i];
  free(n->memory);
}

static bool is_active(MPI_Request handle) {
  const struct tm_request *r = tm_request_of(handle);
  return r && r->active;
}

static int find_done(int count, const MPI_Request *list) {
  for (int i = 0; i < count; i++)
    if (is_active(list[i]) && tm_request_done(tm_request_of(list[i]))) return i;
  return -1;
}
static bool any_active(int count, const MPI_Request *list) {
  for (int i = 0; i < count; i++)
    if (is_active(list[i])) return true;
  return false;
}
static bool all_done(int count, const MPI_Request *list) {
  for (int i = 0; i < count; i++)
    if (is_active(list[i]) && !tm_request_done(tm_request_of(list[i]))) return false;
  return true;
}

/* Advances all open requests, and yields the core if ranks share it and no request has moved. */
static void advance_own(int count, const MPI_Request *list) {
  for (int i = 0; i < count; i++)
    if (is_active(list[i]) && !tm_request_done(tm_request_of(list[i]))) {
      tm_request_advance(tm_request_of(list[i]));
      return;
    }
  tm_advance_tutti();
}

/* ---- what the MPI is asked while a thread waits ---- */

struct ask {
  struct tm_watch watch;
  int count;
  MPI_Request *requests;
  MPI_Status *statuses;
  int *places;
  int flag, index, code;
};

static bool ask_one(struct tm_watch *watch) {
  struct ask *a = (struct ask *)(void *)watch;
  if (!a->flag) a->code = PMPI_Test(a->requests, &a->flag, a->statuses);
  if (a->code != MPI_SUCCESS) a->flag = 1;
  return a->flag;
}
static bool ask_all(struct tm_watch *watch) {
  struct ask *a = (struct ask *)(void *)watch;
  if (!a->flag) a->code = PMPI_Testall(a->count, a->requests, &a->flag, a->statuses);
  if (a->code != MPI_SUCCESS) a->flag = 1;
  return a->flag;
}
/* flag and index MPI_UNDEFINED: no request is active */
static bool ask_any(struct tm_watch *watch) {
  struct ask *a = (struct ask *)(void *)watch;
  if (!a->flag) a->code = PMPI_Testany(a->count, a->requests, &a->index, &a->flag, a->statuses);
  if (a->code != MPI_SUCCESS) a->flag = 1;
  return a->flag && (a->index != MPI_UNDEFINED || a->code != MPI_SUCCESS);
}
/* index: number of completed requests; MPI_UNDEFINED: none is active */
static bool ask_some(struct tm_watch *watch) {
  struct ask *a = (struct ask *)(void *)watch;
  if (!a->flag) a->code = PMPI_Testsome(a->count, a->requests, &a->index, a->places, a->statuses);
  a->flag = a->code != MPI_SUCCESS || a->index > 0;
  return a->flag;
}

static struct ask ask_natives(bool (*met)(struct tm_watch *watch), const struct natives *n) {
  return (struct ask){{met}, n->count, n->requests, n->statuses, NULL, 0, MPI_UNDEFINED, MPI_SUCCESS};
}

/* ---- one request ---- */

TM_EXPORT int MPI_Wait(MPI_Request *handle, MPI_Status *status) {
  struct tm_request *r = handle ? tm_request_of(*handle) : NULL;
  if (!r) {
    if (!handle || is_native(1, handle)) return PMPI_Wait(handle, status);
    struct ask a = {{ask_one}, 1, handle, status, NULL, 0, 0, MPI_SUCCESS};
    while (!ask_one(&a.watch)) tm_watch_wait(&a.watch);
    return a.code;
  }
  set_status(status);
  return r->active ? tm_request_wait(r, handle) : MPI_SUCCESS;
}

TM_EXPORT int MPI_Test(MPI_Request *handle, int *flag, MPI_Status *status) {
  struct tm_request *r = handle ? tm_request_of(*handle) : NULL;
  if (!r) {
    tm_native_poll();
    return PMPI_Test(handle, flag, status);
  }
  if (r->active && !tm_request_done(r)) tm_request_advance(r);
  *flag = !r->active || tm_request_done(r);
  if (!*flag) return MPI_SUCCESS;
  set_status(status);
  return r->active ? tm_request_finish(r, handle) : MPI_SUCCESS;
}

TM_EXPORT int MPI_Request_get_status(MPI_Request handle, int *flag, MPI_Status *status) {
  struct tm_request *r = tm_request_of(handle);
  if (!r) {
    tm_native_poll();
    return PMPI_Request_get_status(handle, flag, status);
  }
  if (r->active && !tm_request_done(r)) tm_request_advance(r);
  *flag = !r->active || tm_request_done(r);
  if (*flag) set_status(status);
  return MPI_SUCCESS;
}

TM_EXPORT int MPI_Cancel(MPI_Request *handle) {
  if (!handle || !tm_request_of(*handle)) return PMPI_Cancel(handle);
  PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_REQUEST); /* collectives cannot be cancelled */
  return MPI_ERR_REQUEST;
}

/* ---- all of a list ---- */

/* Gives the program the outcome of the MPI's requests. */
static int give_natives(struct natives *n, int code, MPI_Request *list, MPI_Status *statuses) {
  for (int i = 0; i < n->count && statuses != MPI_STATUSES_IGNORE; i++) {
    statuses[n->places[i]] = n->statuses[i];
    if (code != MPI_ERR_IN_STATUS) statuses[n->places[i]].MPI_ERROR = code;
  }
  end_natives(n, list);
  return code;
}

/* Completes the requests of the door in a list, waiting for those that are open. */
static int finish_own(int count, MPI_Request *list, MPI_Status *statuses) {
  int code = MPI_SUCCESS;
  for (int i = 0; i < count; i++) {
    struct tm_request *r = tm_request_of(list[i]);
    if (!r) continue;
    const int of_one = r->active ? tm_request_wait(r, &list[i]) : MPI_SUCCESS;
    set_status(status_at(statuses, i));
    if (statuses != MPI_STATUSES_IGNORE) statuses[i].MPI_ERROR = of_one;
    if (of_one != MPI_SUCCESS) code = MPI_ERR_IN_STATUS;
  }
  return code;
}

static int no_memory(void) {
  PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
  return MPI_ERR_NO_MEM;
}

TM_EXPORT int MPI_Waitall(int count, MPI_Request *list, MPI_Status *statuses) {
  struct natives n;
  if (is_native(count, list)) return PMPI_Waitall(count, list, statuses);
  if (!begin_natives(&n, count, list)) return no_memory();
  const int own = finish_own(count, list, statuses);
  struct ask a = ask_natives(ask_all, &n);
  while (!ask_all(&a.watch)) tm_watch_wait(&a.watch);
  const int code = give_natives(&n, a.code, list, statuses);
  return code != MPI_SUCCESS ? code : own;
}

TM_EXPORT int MPI_Testall(int count, MPI_Request *list, int *flag, MPI_Status *statuses) {
  struct natives n;
  if (is_native(count, list)) return PMPI_Testall(count, list, flag, statuses);
  if (!begin_natives(&n, count, list)) return no_memory();
  advance_own(count, list);
  if (!all_done(count, list)) {
    (void)tm_advance_mpi(NULL);
    free(n.memory);
    *flag = 0;
    return MPI_SUCCESS;
  }
  struct ask a = ask_natives(ask_all, &n);
  *flag = ask_all(&a.watch);
  if (!*flag) {
    free(n.memory);
    return MPI_SUCCESS;
  }
  const int own = finish_own(count, list, statuses), code = give_natives(&n, a.code, list, statuses);
  return code != MPI_SUCCESS ? code : own;
}

/* ---- one of a list ---- */

/* Completes one request if one is done. Returns false if none is. *index is MPI_UNDEFINED if none is active. */
static bool finish_any(int count, MPI_Request *list, struct natives *n, struct ask *a, int *index, MPI_Status *status,
                       int *code) {
  /* If the MPI has completed one of its requests already, that is reported first: its handle is gone. */
  const bool asked = a->flag && (a->index != MPI_UNDEFINED || a->code != MPI_SUCCESS);
  *index = asked ? -1 : find_done(count, list);
  if (*index >= 0) {
    set_status(status);
    *code = tm_request_finish(tm_request_of(list[*index]), &list[*index]);
    return true;
  }
  if (ask_any(&a->watch)) {
    *index = a->index == MPI_UNDEFINED ? a->index : n->places[a->index];
    if (status != MPI_STATUS_IGNORE) *status = n->statuses[0];
    *code = a->code;
    return true;
  }
  *index = MPI_UNDEFINED;
  if (!a->flag || any_active(count, list)) return false;
  set_status(status);
  return true;
}

TM_EXPORT int MPI_Waitany(int count, MPI_Request *list, int *index, MPI_Status *status) {
  struct natives n;
  if (is_native(count, list)) return PMPI_Waitany(count, list, index, status);
  if (!begin_natives(&n, count, list)) return no_memory();
  struct ask a = ask_natives(ask_any, &n);
  int code = MPI_SUCCESS;
  while (!finish_any(count, list, &n, &a, index, status, &code)) tm_watch_wait(&a.watch);
  end_natives(&n, list);
  return code;
}

TM_EXPORT int MPI_Testany(int count, MPI_Request *list, int *index, int *flag, MPI_Status *status) {
  struct natives n;
  if (is_native(count, list)) return PMPI_Testany(count, list, index, flag, status);
  if (!begin_natives(&n, count, list)) return no_memory();
  advance_own(count, list);
  struct ask a = ask_natives(ask_any, &n);
  int code = MPI_SUCCESS;
  *flag = finish_any(count, list, &n, &a, index, status, &code);
  end_natives(&n, list);
  return code;
}

/* ---- some of a list ---- */

/* Completes all requests of a list that are done. *done: their number; MPI_UNDEFINED: none is active. */
static int finish_some(int count, MPI_Request *list, struct natives *n, struct ask *a, int *done, int *indices,
                       MPI_Status *statuses) {
  int code = MPI_SUCCESS;
  const bool active = any_active(count, list);
  *done = 0;
  (void)ask_some(&a->watch);
  if (a->code != MPI_SUCCESS) code = a->code;
  for (int i = 0; a->index != MPI_UNDEFINED && i < a->index; i++) {
    indices[*done] = n->places[a->places[i]];
    list[indices[*done]] = n->requests[a->places[i]];
    if (statuses != MPI_STATUSES_IGNORE) {
      statuses[*done] = n->statuses[i];
      if (code != MPI_ERR_IN_STATUS) statuses[*done].MPI_ERROR = code;
    }
    (*done)++;
  }
  for (int i = 0; i < count; i++) {
    if (!is_active(list[i]) || !tm_request_done(tm_request_of(list[i]))) continue;
    const int of_one = tm_request_finish(tm_request_of(list[i]), &list[i]);
    set_status(status_at(statuses, *done));
    if (statuses != MPI_STATUSES_IGNORE) statuses[*done].MPI_ERROR = of_one;
    if (of_one != MPI_SUCCESS) code = MPI_ERR_IN_STATUS;
    indices[(*done)++] = i;
  }
  if (*done == 0 && !active && a->index == MPI_UNDEFINED) *done = MPI_UNDEFINED;
  return code;
}

TM_EXPORT int MPI_Waitsome(int count, MPI_Request *list, int *done, int *indices, MPI_Status *statuses) {
  struct natives n;
  if (is_native(count, list)) return PMPI_Waitsome(count, list, done, indices, statuses);
  if (!begin_natives(&n, count, list)) return no_memory();
  int *places = malloc(((size_t)count + 1) * sizeof *places), code = MPI_ERR_NO_MEM;
  if (places) {
    struct ask a = ask_natives(ask_some, &n);
    a.places = places;
    while ((code = finish_some(count, list, &n, &a, done, indices, statuses)) == MPI_SUCCESS && *done == 0)
      tm_watch_wait(&a.watch);
  }
  free(places);
  free(n.memory);
  return places ? code : no_memory();
}

TM_EXPORT int MPI_Testsome(int count, MPI_Request *list, int *done, int *indices, MPI_Status *statuses) {
  struct natives n;
  if (is_native(count, list)) return PMPI_Testsome(count, list, done, indices, statuses);
  if (!begin_natives(&n, count, list)) return no_memory();
  advance_own(count, list);
  int *places = malloc(((size_t)count + 1) * sizeof *places), code = MPI_ERR_NO_MEM;
  if (places) {
    struct ask a = ask_natives(ask_some, &n);
    a.places = places;
    code = finish_some(count, list, &n, &a, done, indices, statuses);
  }
  free(places);
  free(n.memory);
  return places ? code : no_memory();
}

/* ---- starting persistent requests ---- */

TM_EXPORT int MPI_Start(MPI_Request *handle) {
  struct tm_request *r = handle ? tm_request_of(*handle) : NULL;
  return r ? tm_request_start(r) : PMPI_Start(handle);
}

TM_EXPORT int MPI_Startall(int count, MPI_Request *list) {
  if (count < 0 || !list || !has_own(count, list)) return PMPI_Startall(count, list);
  int code = MPI_SUCCESS;
  for (int i = 0; i < count; i++) {
    const int of_one = MPI_Start(&list[i]);
    if (of_one != MPI_SUCCESS) code = of_one;
  }
  return code;
}
