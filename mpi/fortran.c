/* fortran.c: the door's functions under their Fortran names. A program calls mpi_name_ (mpif.h and `use mpi`) or
 * mpi_name_f08_ (`use mpi_f08`), which are functions of the MPI. Where these call PMPI_ functions, the program would
 * not reach the door by the C names, and the door must have them: with Open MPI all; with MPICH mpi_name_f08_ of the
 * functions that have no buffer. MPICH's others call the C names.
 *
 * Both names have the same binary interface: all arguments are addresses, a handle is an integer or a struct of one,
 * and a LOGICAL is an integer, 0 or 1. An f08 program may leave ierror out; then its address is NULL.
 *
 * Each function here calls the C function of its name. The library is linked with -Bsymbolic-functions, so that this is
 * the door's own function, although another library may define the name, too, and precede the door. That one would pass
 * requests of the door to the MPI. */
#include <stdlib.h>
#include <string.h>

#include "door.h"

/* Counts, displacements, indices and logical values of Fortran are passed to C, and back, as they are. */
_Static_assert(_Generic((MPI_Fint)0, int : 1, default : 0), "INTEGER of Fortran is not int");
/* A status of Fortran is integer(MPI_STATUS_SIZE), or type(MPI_Status) in f08. Both have the layout of C. */
enum { STATUS_INTEGERS = TM_OPEN_MPI ? 6 : 5 };
_Static_assert(sizeof(MPI_Status) == STATUS_INTEGERS * sizeof(MPI_Fint), "a status of Fortran is not one of C");

/* ---- names ---- */

#define ALIAS(function, name) TM_EXPORT extern __typeof__(function) name __attribute__((alias(#function)));

/* Exports a static function f_name as mpi_name. Compilers other than gfortran may append no underscore, or two. */
#if TM_OPEN_MPI
#define EXPORT(prefix, name)           \
  ALIAS(f_##name, prefix##_##name)     \
  ALIAS(f_##name, prefix##_##name##_)  \
  ALIAS(f_##name, prefix##_##name##__) \
  ALIAS(f_##name, prefix##_##name##_f08_)
#define PERSISTENT(Name) MPIX_##Name##_init
#define EXPORT_PERSISTENT(name) EXPORT(mpix, name##_init)
#else
#define EXPORT(prefix, name) ALIAS(f_##name, prefix##_##name##_f08_)
#define PERSISTENT(Name) MPI_##Name##_init
#define EXPORT_PERSISTENT(name) EXPORT(mpi, name##_init)
#endif

/* ---- arguments ---- */

/* Constants of MPI that Fortran knows by their address. libmpi or libmpichfort has each of these variables; a Fortran
 * program or a module may have one of the same name, and the dynamic linker chooses one for all. The Fortran functions
 * of the MPI use that one as well. Weak: the process may have no Fortran. */
#if TM_OPEN_MPI
#define CONSTANT(name, symbol, other) __attribute__((weak)) extern MPI_Fint name __asm__(symbol);
#else
#define CONSTANT(name, other, symbol) __attribute__((weak)) extern MPI_Fint name __asm__(symbol);
#endif
CONSTANT(status_ignore, "mpi_fortran_status_ignore_", "MPIR_F08_MPI_STATUS_IGNORE_OBJ")
CONSTANT(statuses_ignore, "mpi_fortran_statuses_ignore_", "MPIR_F08_MPI_STATUSES_IGNORE_OBJ")
CONSTANT(unweighted, "mpi_fortran_unweighted_", "__mpi_f08_link_constants_MOD_mpi_unweighted")
CONSTANT(weights_empty, "mpi_fortran_weights_empty_", "__mpi_f08_link_constants_MOD_mpi_weights_empty")
CONSTANT(in_place, "mpi_fortran_in_place_", "MPIR_F08_MPI_IN_PLACE")
CONSTANT(bottom, "mpi_fortran_bottom_", "MPIR_F08_MPI_BOTTOM")

#if TM_OPEN_MPI
static void *buffer_of(void *address) {
  if (address && address == &in_place) return MPI_IN_PLACE;
  if (address && address == &bottom) return MPI_BOTTOM;
  return address;
}
#endif
static int *weights_of(MPI_Fint *address) {
  if (address && address == &unweighted) return MPI_UNWEIGHTED;
  if (address && address == &weights_empty) return MPI_WEIGHTS_EMPTY;
  return address;
}

static void give(MPI_Fint *ierror, int code) {
  if (ierror) *ierror = code;
}

/* A function of MPI has a row of its parameters, each with its kind. From the row come the parameters in Fortran,
 * PARAMETER_kind, and the arguments of the function in C, ARGUMENT_kind. */
#define PARAMETER_BUFFER(x) void *x
#define PARAMETER_NUMBER(x) const MPI_Fint *x
#define PARAMETER_LIST(x) const MPI_Fint *x
#define PARAMETER_WEIGHTS(x) MPI_Fint *x
#define PARAMETER_TYPE(x) const MPI_Fint *x
#define PARAMETER_OP(x) const MPI_Fint *x
#define PARAMETER_COMM(x) const MPI_Fint *x
#define PARAMETER_GROUP(x) const MPI_Fint *x
#define PARAMETER_INFO(x) const MPI_Fint *x

#define ARGUMENT_BUFFER(x) buffer_of(x)
#define ARGUMENT_NUMBER(x) *(x)
#define ARGUMENT_LIST(x) x
#define ARGUMENT_WEIGHTS(x) weights_of(x)
#define ARGUMENT_TYPE(x) PMPI_Type_f2c(*(x))
#define ARGUMENT_OP(x) PMPI_Op_f2c(*(x))
#define ARGUMENT_COMM(x) PMPI_Comm_f2c(*(x))
#define ARGUMENT_GROUP(x) PMPI_Group_f2c(*(x))
#define ARGUMENT_INFO(x) PMPI_Info_f2c(*(x))

/* ---- collectives ---- */

#define ROW_Barrier(P) P##COMM(comm)
#define ROW_Bcast(P) P##BUFFER(buffer), P##NUMBER(count), P##TYPE(type), P##NUMBER(root), P##COMM(comm)

#define ROW_Allreduce(P) P##BUFFER(in), P##BUFFER(out), P##NUMBER(count), P##TYPE(type), P##OP(op), P##COMM(comm)
#define ROW_Scan(P) ROW_Allreduce(P)
#define ROW_Exscan(P) ROW_Allreduce(P)
#define ROW_Reduce_scatter_block(P) ROW_Allreduce(P)
#define ROW_Reduce_scatter(P) P##BUFFER(in), P##BUFFER(out), P##LIST(counts), P##TYPE(type), P##OP(op), P##COMM(comm)
#define ROW_Reduce(P) \
  P##BUFFER(in), P##BUFFER(out), P##NUMBER(count), P##TYPE(type), P##OP(op), P##NUMBER(root), P##COMM(comm)

#define SEND(P) P##BUFFER(in), P##NUMBER(in_count), P##TYPE(in_type)
#define SEND_V(P) P##BUFFER(in), P##LIST(in_counts), P##LIST(in_displs), P##TYPE(in_type)
#define RECV(P) P##BUFFER(out), P##NUMBER(out_count), P##TYPE(out_type)
#define RECV_V(P) P##BUFFER(out), P##LIST(out_counts), P##LIST(out_displs), P##TYPE(out_type)

#define ROW_Allgather(P) SEND(P), RECV(P), P##COMM(comm)
#define ROW_Allgatherv(P) SEND(P), RECV_V(P), P##COMM(comm)
#define ROW_Alltoall(P) SEND(P), RECV(P), P##COMM(comm)
#define ROW_Alltoallv(P) SEND_V(P), RECV_V(P), P##COMM(comm)
#define ROW_Gather(P) SEND(P), RECV(P), P##NUMBER(root), P##COMM(comm)
#define ROW_Gatherv(P) SEND(P), RECV_V(P), P##NUMBER(root), P##COMM(comm)
#define ROW_Scatter(P) SEND(P), RECV(P), P##NUMBER(root), P##COMM(comm)
#define ROW_Scatterv(P) SEND_V(P), RECV(P), P##NUMBER(root), P##COMM(comm)

static void give_request(MPI_Fint *request, MPI_Request handle, MPI_Fint *ierror, int code) {
  if (code == MPI_SUCCESS) *request = MPI_Request_c2f(handle);
  give(ierror, code);
}

#define COLLECTIVE(Name, name)                                                                                        \
  static void f_##name(ROW_##Name(PARAMETER_), MPI_Fint *ierror) { give(ierror, MPI_##Name(ROW_##Name(ARGUMENT_))); } \
  static void f_i##name(ROW_##Name(PARAMETER_), MPI_Fint *request, MPI_Fint *ierror) {                                \
    MPI_Request handle = MPI_REQUEST_NULL;                                                                            \
    const int code = MPI_I##name(ROW_##Name(ARGUMENT_), &handle);                                                     \
    give_request(request, handle, ierror, code);                                                                      \
  }                                                                                                                   \
  static void f_##name##_init(ROW_##Name(PARAMETER_), MPI_Fint *info, MPI_Fint *request, MPI_Fint *ierror) {          \
    MPI_Request handle = MPI_REQUEST_NULL;                                                                            \
    const int code = PERSISTENT(Name)(ROW_##Name(ARGUMENT_), ARGUMENT_INFO(info), &handle);                           \
    give_request(request, handle, ierror, code);                                                                      \
  }                                                                                                                   \
  EXPORT(mpi, name)                                                                                                   \
  EXPORT(mpi, i##name)                                                                                                \
  EXPORT_PERSISTENT(name)

#if TM_OPEN_MPI
TM_COLLECTIVES(COLLECTIVE)
#else
COLLECTIVE(Barrier, barrier)
#endif

/* ---- functions that create communicators ---- */

#define ROW_Comm_dup(P) P##COMM(comm)
#define ROW_Comm_dup_with_info(P) P##COMM(comm), P##INFO(info)
#define ROW_Comm_split(P) P##COMM(comm), P##NUMBER(color), P##NUMBER(key)
#define ROW_Comm_split_type(P) P##COMM(comm), P##NUMBER(type), P##NUMBER(key), P##INFO(info)
#define ROW_Comm_create(P) P##COMM(comm), P##GROUP(group)
#define ROW_Comm_create_group(P) P##COMM(comm), P##GROUP(group), P##NUMBER(tag)
#define ROW_Intercomm_merge(P) P##COMM(comm), P##NUMBER(high)
#define ROW_Cart_create(P) P##COMM(comm), P##NUMBER(dims), P##LIST(sizes), P##LIST(periods), P##NUMBER(reorder)
#define ROW_Cart_sub(P) P##COMM(comm), P##LIST(remain)
#define ROW_Graph_create(P) P##COMM(comm), P##NUMBER(nodes), P##LIST(index), P##LIST(edges), P##NUMBER(reorder)
#define ROW_Dist_graph_create(P)                                                                               \
  P##COMM(comm), P##NUMBER(n), P##LIST(sources), P##LIST(degrees), P##LIST(destinations), P##WEIGHTS(weights), \
      P##INFO(info), P##NUMBER(reorder)
#define ROW_Dist_graph_create_adjacent(P)                                                                \
  P##COMM(comm), P##NUMBER(indegree), P##LIST(sources), P##WEIGHTS(sourceweights), P##NUMBER(outdegree), \
      P##LIST(destinations), P##WEIGHTS(destweights), P##INFO(info), P##NUMBER(reorder)

#define CREATOR(Name, name)                                                           \
  static void f_##name(ROW_##Name(PARAMETER_), MPI_Fint *created, MPI_Fint *ierror) { \
    MPI_Comm handle = MPI_COMM_NULL;                                                  \
    const int code = MPI_##Name(ROW_##Name(ARGUMENT_), &handle);                      \
    if (code == MPI_SUCCESS) *created = PMPI_Comm_c2f(handle);                        \
    give(ierror, code);                                                               \
  }                                                                                   \
  EXPORT(mpi, name)

CREATOR(Comm_dup, comm_dup)
CREATOR(Comm_dup_with_info, comm_dup_with_info)
CREATOR(Comm_split, comm_split)
CREATOR(Comm_split_type, comm_split_type)
CREATOR(Comm_create, comm_create)
CREATOR(Comm_create_group, comm_create_group)
CREATOR(Intercomm_merge, intercomm_merge)
CREATOR(Cart_create, cart_create)
CREATOR(Cart_sub, cart_sub)
CREATOR(Graph_create, graph_create)
CREATOR(Dist_graph_create, dist_graph_create)
CREATOR(Dist_graph_create_adjacent, dist_graph_create_adjacent)

/* ---- begin and end, operations, memory ---- */

static void f_init(MPI_Fint *ierror) { give(ierror, MPI_Init(NULL, NULL)); }
static void f_init_thread(const MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror) {
  give(ierror, MPI_Init_thread(NULL, NULL, *required, provided));
}
static void f_finalize(MPI_Fint *ierror) { give(ierror, MPI_Finalize()); }

static void f_op_free(MPI_Fint *op, MPI_Fint *ierror) {
  MPI_Op handle = PMPI_Op_f2c(*op);
  const int code = MPI_Op_free(&handle);
  if (code == MPI_SUCCESS) *op = PMPI_Op_c2f(handle);
  give(ierror, code);
}

/* base: an integer or a type(c_ptr) that takes the address; for MPI_Free_mem: the memory itself. */
static void f_alloc_mem(const MPI_Aint *bytes, const MPI_Fint *info, void *base, MPI_Fint *ierror) {
  give(ierror, MPI_Alloc_mem(*bytes, PMPI_Info_f2c(*info), base));
}

EXPORT(mpi, init)
EXPORT(mpi, init_thread)
EXPORT(mpi, finalize)
EXPORT(mpi, op_free)
EXPORT(mpi, alloc_mem)
#if TM_OPEN_MPI
static void f_free_mem(void *base, MPI_Fint *ierror) { give(ierror, MPI_Free_mem(base)); }
EXPORT(mpi, free_mem)
/* `use mpi` calls this one if base is a type(c_ptr). */
ALIAS(f_alloc_mem, mpi_alloc_mem_cptr)
ALIAS(f_alloc_mem, mpi_alloc_mem_cptr_)
ALIAS(f_alloc_mem, mpi_alloc_mem_cptr__)
#endif

/* ---- one request ---- */

/* A request of the program while a function of C has it. */
struct loan {
  MPI_Fint *number;
  MPI_Request handle, before;
};
static struct loan borrow(MPI_Fint *request) {
  const MPI_Request handle = MPI_Request_f2c(*request);
  return (struct loan){request, handle, handle};
}
/* Also after an error, because the request may be gone nevertheless. */
static void give_back(const struct loan *l) {
  if (l->handle != l->before) *l->number = MPI_Request_c2f(l->handle);
}

/* A status of the program while a function of C has it. The program's may lack the alignment of one in C. */
struct status {
  MPI_Fint *place; /* NULL: MPI_STATUS_IGNORE */
  MPI_Status status;
};
static MPI_Status *begin_status(struct status *s, MPI_Fint *place) {
  s->place = place == &status_ignore ? NULL : place;
  if (!s->place) return MPI_STATUS_IGNORE;
  memcpy(&s->status, place, sizeof s->status);
  return &s->status;
}
static void end_status(const struct status *s) {
  if (s->place) memcpy(s->place, &s->status, sizeof s->status);
}

static void f_wait(MPI_Fint *request, MPI_Fint *status, MPI_Fint *ierror) {
  struct loan l = borrow(request);
  struct status s;
  give(ierror, MPI_Wait(&l.handle, begin_status(&s, status)));
  end_status(&s);
  give_back(&l);
}

static void f_test(MPI_Fint *request, MPI_Fint *flag, MPI_Fint *status, MPI_Fint *ierror) {
  struct loan l = borrow(request);
  struct status s;
  give(ierror, MPI_Test(&l.handle, flag, begin_status(&s, status)));
  end_status(&s);
  give_back(&l);
}

static void f_request_get_status(const MPI_Fint *request, MPI_Fint *flag, MPI_Fint *status, MPI_Fint *ierror) {
  struct status s;
  give(ierror, MPI_Request_get_status(MPI_Request_f2c(*request), flag, begin_status(&s, status)));
  end_status(&s);
}

#define OF_ONE(Name, name)                                    \
  static void f_##name(MPI_Fint *request, MPI_Fint *ierror) { \
    struct loan l = borrow(request);                          \
    give(ierror, MPI_##Name(&l.handle));                      \
    give_back(&l);                                            \
  }                                                           \
  EXPORT(mpi, name)

EXPORT(mpi, wait)
EXPORT(mpi, test)
EXPORT(mpi, request_get_status)
OF_ONE(Request_free, request_free)
OF_ONE(Cancel, cancel)
OF_ONE(Start, start)

/* ---- lists of requests ---- */

/* Requests and statuses of the program while a function of C has them. */
struct lists {
  size_t count;
  MPI_Fint *numbers, *places;    /* of the program */
  MPI_Status *statuses;          /* [count]; may be MPI_STATUSES_IGNORE */
  MPI_Request *handles, *before; /* [count] */
  void *memory;
};

/* places: NULL: the function has no statuses. Returns false if memory is exhausted, after reporting it. */
static bool begin_lists(struct lists *l, MPI_Fint count, MPI_Fint *numbers, MPI_Fint *places, MPI_Fint *ierror) {
  l->count = count > 0 ? (size_t)count : 0;
  l->numbers = numbers;
  l->places = places == &statuses_ignore ? NULL : places;
  l->memory = malloc((l->count + 1) * (sizeof *l->statuses + 2 * sizeof *l->handles));
  if (!l->memory) {
    PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    give(ierror, MPI_ERR_NO_MEM);
    return false;
  }
  l->statuses = l->places ? l->memory : MPI_STATUSES_IGNORE;
  l->handles = (MPI_Request *)(void *)((MPI_Status *)l->memory + l->count + 1);
  l->before = l->handles + l->count;
  for (size_t i = 0; i < l->count; i++) l->handles[i] = l->before[i] = MPI_Request_f2c(numbers[i]);
  if (l->places) memcpy(l->statuses, l->places, l->count * sizeof *l->statuses);
  return true;
}

static void end_lists(const struct lists *l) {
  for (size_t i = 0; i < l->count; i++)
    if (l->handles[i] != l->before[i]) l->numbers[i] = MPI_Request_c2f(l->handles[i]);
  if (l->places) memcpy(l->places, l->statuses, l->count * sizeof *l->statuses);
  free(l->memory);
}

/* Returns the index of the first request of a list. It is 1, but MPICH 4.0.2 counts from 0 in mpi_f08. A program sees
 * with the door what it sees without, so MPICH is asked: by a receive that is complete from the start. */
static int first_index(void) {
#if TM_OPEN_MPI
  return 1;
#else
  __attribute__((weak)) extern void pmpir_waitany_f08_(const MPI_Fint *, MPI_Fint *, MPI_Fint *, void *, MPI_Fint *);
  static _Atomic int first = -1;
  MPI_Request none;
  MPI_Status status;
  int index = 1;
  if (first >= 0) return first;
  if (pmpir_waitany_f08_ && PMPI_Irecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &none) == MPI_SUCCESS)
    pmpir_waitany_f08_(&(MPI_Fint){1}, &none, &index, &status, NULL);
  first = index;
  return index;
#endif
}
static void give_index(MPI_Fint *index, int from) { *index = from == MPI_UNDEFINED ? from : from + first_index(); }
static void give_indices(MPI_Fint *indices, int count) { /* count may be MPI_UNDEFINED, which is negative */
  for (int i = 0; i < count; i++) indices[i] += first_index();
}

static void f_waitall(const MPI_Fint *count, MPI_Fint *requests, MPI_Fint *statuses, MPI_Fint *ierror) {
  struct lists l;
  if (!begin_lists(&l, *count, requests, statuses, ierror)) return;
  give(ierror, MPI_Waitall(*count, l.handles, l.statuses));
  end_lists(&l);
}

static void f_testall(const MPI_Fint *count, MPI_Fint *requests, MPI_Fint *flag, MPI_Fint *statuses, MPI_Fint *ierror) {
  struct lists l;
  if (!begin_lists(&l, *count, requests, statuses, ierror)) return;
  give(ierror, MPI_Testall(*count, l.handles, flag, l.statuses));
  end_lists(&l);
}

static void f_waitany(const MPI_Fint *count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *status, MPI_Fint *ierror) {
  struct lists l;
  struct status s;
  int from = MPI_UNDEFINED;
  if (!begin_lists(&l, *count, requests, NULL, ierror)) return;
  give(ierror, MPI_Waitany(*count, l.handles, &from, begin_status(&s, status)));
  give_index(index, from);
  end_status(&s);
  end_lists(&l);
}

static void f_testany(const MPI_Fint *count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *flag, MPI_Fint *status,
                      MPI_Fint *ierror) {
  struct lists l;
  struct status s;
  int from = MPI_UNDEFINED;
  if (!begin_lists(&l, *count, requests, NULL, ierror)) return;
  give(ierror, MPI_Testany(*count, l.handles, &from, flag, begin_status(&s, status)));
  give_index(index, from);
  end_status(&s);
  end_lists(&l);
}

#define SOME(Name, name)                                                                             \
  static void f_##name(const MPI_Fint *count, MPI_Fint *requests, MPI_Fint *done, MPI_Fint *indices, \
                       MPI_Fint *statuses, MPI_Fint *ierror) {                                       \
    struct lists l;                                                                                  \
    *done = 0;                                                                                       \
    if (!begin_lists(&l, *count, requests, statuses, ierror)) return;                                \
    give(ierror, MPI_##Name(*count, l.handles, done, indices, l.statuses));                          \
    give_indices(indices, *done);                                                                    \
    end_lists(&l);                                                                                   \
  }                                                                                                  \
  EXPORT(mpi, name)

static void f_startall(const MPI_Fint *count, MPI_Fint *requests, MPI_Fint *ierror) {
  struct lists l;
  if (!begin_lists(&l, *count, requests, NULL, ierror)) return;
  give(ierror, MPI_Startall(*count, l.handles));
  end_lists(&l);
}

EXPORT(mpi, waitall)
EXPORT(mpi, testall)
EXPORT(mpi, waitany)
EXPORT(mpi, testany)
SOME(Waitsome, waitsome)
SOME(Testsome, testsome)
EXPORT(mpi, startall)

#if !TM_OPEN_MPI
/* ---- probes (messages.c) ---- */

static void f_probe(const MPI_Fint *from, const MPI_Fint *tag, const MPI_Fint *comm, MPI_Fint *status,
                    MPI_Fint *ierror) {
  struct status s;
  give(ierror, MPI_Probe(*from, *tag, PMPI_Comm_f2c(*comm), begin_status(&s, status)));
  end_status(&s);
}

static void f_iprobe(const MPI_Fint *from, const MPI_Fint *tag, const MPI_Fint *comm, MPI_Fint *flag, MPI_Fint *status,
                     MPI_Fint *ierror) {
  struct status s;
  give(ierror, MPI_Iprobe(*from, *tag, PMPI_Comm_f2c(*comm), flag, begin_status(&s, status)));
  end_status(&s);
}

static void f_mprobe(const MPI_Fint *from, const MPI_Fint *tag, const MPI_Fint *comm, MPI_Message *message,
                     MPI_Fint *status, MPI_Fint *ierror) {
  struct status s;
  give(ierror, MPI_Mprobe(*from, *tag, PMPI_Comm_f2c(*comm), message, begin_status(&s, status)));
  end_status(&s);
}

static void f_improbe(const MPI_Fint *from, const MPI_Fint *tag, const MPI_Fint *comm, MPI_Fint *flag,
                      MPI_Message *message, MPI_Fint *status, MPI_Fint *ierror) {
  struct status s;
  give(ierror, MPI_Improbe(*from, *tag, PMPI_Comm_f2c(*comm), flag, message, begin_status(&s, status)));
  end_status(&s);
}

EXPORT(mpi, probe)
EXPORT(mpi, iprobe)
EXPORT(mpi, mprobe)
EXPORT(mpi, improbe)
#endif

/* ---- functions that are left to the MPI (left.c) ---- */

/* Each calls the function of the MPI with the words that it gets: addresses, and after them lengths of texts. A row has
 * their number. */
typedef uintptr_t word;
#define P2 word a, word b
#define P3 P2, word c
#define P4 P3, word d
#define P5 P4, word e
#define P6 P5, word f
#define P7 P6, word g
#define P8 P7, word h
#define P9 P8, word i
#define P10 P9, word j
#define P11 P10, word k
#define P12 P11, word l
#define A2 a, b
#define A3 A2, c
#define A4 A3, d
#define A5 A4, e
#define A6 A5, f
#define A7 A6, g
#define A8 A7, h
#define A9 A8, i
#define A10 A9, j
#define A11 A10, k
#define A12 A11, l

#define FORWARD(function, target, words, before, after) \
  __attribute__((weak)) extern void target(P##words);   \
  TM_EXPORT extern void function(P##words);             \
  void function(P##words) {                             \
    before;                                             \
    target(A##words);                                   \
    after;                                              \
  }

#if TM_OPEN_MPI
#define BEGIN(Name)                                            \
  if (tm_door.mode >= TM_REPORT) tm_count_other("MPI_" #Name); \
  tm_native_begin()
#define LEFT(Name, name, words)                                               \
  FORWARD(mpi_##name##_, pmpi_##name##_, words, BEGIN(Name), tm_native_end()) \
  FORWARD(mpi_##name##_f08_, pmpi_##name##_f08_, words, BEGIN(Name), tm_native_end())

LEFT(Alltoallw, alltoallw, 10)
LEFT(Ialltoallw, ialltoallw, 11)
LEFT(Neighbor_allgather, neighbor_allgather, 8)
LEFT(Ineighbor_allgather, ineighbor_allgather, 9)
LEFT(Neighbor_allgatherv, neighbor_allgatherv, 9)
LEFT(Ineighbor_allgatherv, ineighbor_allgatherv, 10)
LEFT(Neighbor_alltoall, neighbor_alltoall, 8)
LEFT(Ineighbor_alltoall, ineighbor_alltoall, 9)
LEFT(Neighbor_alltoallv, neighbor_alltoallv, 10)
LEFT(Ineighbor_alltoallv, ineighbor_alltoallv, 11)
LEFT(Neighbor_alltoallw, neighbor_alltoallw, 10)
LEFT(Ineighbor_alltoallw, ineighbor_alltoallw, 11)
#else
#define LEFT(name, words) FORWARD(mpi_##name##_f08_, pmpir_##name##_f08_, words, tm_native_begin(), tm_native_end())

LEFT(buffer_detach, 3)
LEFT(comm_accept, 7)
LEFT(comm_connect, 7)
LEFT(comm_disconnect, 2)
LEFT(comm_free, 2)
LEFT(comm_join, 3)
LEFT(comm_spawn, 11)
LEFT(comm_spawn_multiple, 12)
LEFT(file_close, 2)
LEFT(file_open, 7)
LEFT(file_preallocate, 3)
LEFT(file_set_size, 3)
LEFT(file_set_view, 8)
LEFT(file_sync, 2)
LEFT(intercomm_create, 7)
LEFT(win_allocate, 7)
LEFT(win_allocate_shared, 7)
LEFT(win_complete, 2)
LEFT(win_create_dynamic, 4)
LEFT(win_fence, 3)
LEFT(win_flush, 3)
LEFT(win_flush_all, 2)
LEFT(win_flush_local, 3)
LEFT(win_flush_local_all, 2)
LEFT(win_free, 2)
LEFT(win_lock, 5)
LEFT(win_lock_all, 3)
LEFT(win_start, 4)
LEFT(win_unlock, 3)
LEFT(win_unlock_all, 2)
LEFT(win_wait, 2)

/* A program may poll with these. */
#define POLLED(name, words) FORWARD(mpi_##name##_f08_, pmpir_##name##_f08_, words, tm_native_poll(), (void)0)

POLLED(parrived, 4)
POLLED(win_test, 3)
#endif
