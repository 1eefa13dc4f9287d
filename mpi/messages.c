/* messages.c: blocking functions of the MPI for messages. While requests of tutti are open, and the MPI does not advance them
 * (progress.h), each is carried out as a nonblocking one, and the thread advances both libraries while it waits. */
#include "door.h"

/* Returns true if the function is left to the MPI. */
static bool is_native(void) {
  return tm_mpi_advances_tutti || atomic_load_explicit(&tm_open, memory_order_relaxed) == 0;
}

static int wait_for(int code, MPI_Request *request, MPI_Status *status) {
  return code == MPI_SUCCESS ? MPI_Wait(request, status) : code;
}

#define SENDS(Name, start)                                                                                     \
  TM_EXPORT int MPI_##Name(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) { \
    MPI_Request request;                                                                                       \
    if (is_native()) return PMPI_##Name(buffer, count, type, to, tag, comm);                                   \
    return wait_for(PMPI_##start(buffer, count, type, to, tag, comm, &request), &request, MPI_STATUS_IGNORE);  \
  }
SENDS(Send, Isend)
SENDS(Ssend, Issend)
SENDS(Rsend, Irsend)

TM_EXPORT int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                       MPI_Status *status) {
  MPI_Request request;
  if (is_native()) return PMPI_Recv(buffer, count, type, from, tag, comm, status);
  return wait_for(PMPI_Irecv(buffer, count, type, from, tag, comm, &request), &request, status);
}

TM_EXPORT int MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status) {
  MPI_Request request;
  if (is_native()) return PMPI_Mrecv(buffer, count, type, message, status);
  return wait_for(PMPI_Imrecv(buffer, count, type, message, &request), &request, status);
}

TM_EXPORT int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag, void *in,
                           int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                           MPI_Status *status) {
  MPI_Request receive, send;
  if (is_native())
    return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, status);
  int code = PMPI_Irecv(in, in_count, in_type, from, in_tag, comm, &receive);
  if (code == MPI_SUCCESS) code = PMPI_Isend(out, out_count, out_type, to, out_tag, comm, &send);
  if (code != MPI_SUCCESS) return code;
  const int received = MPI_Wait(&receive, status), sent = MPI_Wait(&send, MPI_STATUS_IGNORE);
  return received != MPI_SUCCESS ? received : sent;
}

/* ---- probes ---- */

struct probe {
  struct tm_watch watch;
  int from, tag, flag, code;
  MPI_Comm comm;
  MPI_Status *status;
  MPI_Message *message; /* NULL: MPI_Probe */
};

static bool is_there(struct tm_watch *watch) {
  struct probe *p = (struct probe *)(void *)watch;
  if (p->flag) return true;
  if (p->message) p->code = PMPI_Improbe(p->from, p->tag, p->comm, &p->flag, p->message, p->status);
  else p->code = PMPI_Iprobe(p->from, p->tag, p->comm, &p->flag, p->status);
  if (p->code != MPI_SUCCESS) p->flag = 1;
  return p->flag;
}

static int probe(struct probe p) {
  p.watch.met = is_there;
  while (!is_there(&p.watch)) tm_watch_wait(&p.watch);
  return p.code;
}

TM_EXPORT int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status) {
  if (is_native()) return PMPI_Probe(from, tag, comm, status);
  return probe((struct probe){.from = from, .tag = tag, .comm = comm, .status = status});
}

TM_EXPORT int MPI_Mprobe(int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
  if (is_native()) return PMPI_Mprobe(from, tag, comm, message, status);
  return probe((struct probe){.from = from, .tag = tag, .comm = comm, .status = status, .message = message});
}

TM_EXPORT int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
  tm_native_poll();
  return PMPI_Iprobe(from, tag, comm, flag, status);
}

TM_EXPORT int MPI_Improbe(int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status) {
  tm_native_poll();
  return PMPI_Improbe(from, tag, comm, flag, message, status);
}
