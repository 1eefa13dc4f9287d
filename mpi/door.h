/* door.h: what the files of the door between MPI programs and tutti share. The door is a library between a program and
 * its MPI: it defines functions of MPI under their MPI_ names, carries collectives out with tutti, and leaves everything
 * else to the MPI, which has the same functions under PMPI_ names. It sees only tutti's public headers. It is compiled
 * once for each MPI, because handles, constants and sizes differ. */
#ifndef TM_DOOR_H
#define TM_DOOR_H

#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/tensor.h>
#include <tutti/tutti.h>

#include "collectives.h"

#ifdef OPEN_MPI
#define TM_OPEN_MPI 1
#define TM_MPI_NAME "Open MPI"
#else
#define TM_OPEN_MPI 0
#define TM_MPI_NAME "MPICH"
#endif

/* Exported: found by the program before the function of the MPI. */
#define TM_EXPORT __attribute__((visibility("default")))

/* A handle of MPI as a number that is not 0: a pointer in Open MPI, an int in MPICH. */
#define TM_KEY(handle) ((uint64_t)(uintptr_t)(handle))

/* ---- state of the process (begin.c) ---- */

/* What TUTTI_MPI asks for. */
enum tm_mode { TM_OFF, TM_QUIET, TM_REPORT, TM_VERIFY };

struct tm_door {
  enum tm_mode mode;
  bool threads;       /* several threads may call at once (MPI_THREAD_MULTIPLE) */
  bool open;          /* calls are routed: from the end of MPI_Init to MPI_Finalize */
  tutti_comm *world;  /* all ranks of MPI_COMM_WORLD */
  tutti_comm *poller; /* this rank alone; for polls of all open requests */
  MPI_Comm lobby;     /* duplicate of MPI_COMM_WORLD, for messages of the door */
  MPI_Group group;    /* of MPI_COMM_WORLD */
  int rank, ranks;    /* in MPI_COMM_WORLD */
  struct tm_many {
    uint32_t at_once, calls;
  } many;                     /* TUTTI_MPI_MANY; see tm_comm_enter */
  tutti_op commutes, ordered; /* operations of tutti that call MPI_Reduce_local */
};
extern struct tm_door tm_door;

/* Adds to a number, and returns its value before. Without threads, in fewer ns. */
static inline uint32_t tm_add(_Atomic uint32_t *number, uint32_t change) {
  if (tm_door.threads) return atomic_fetch_add(number, change);
  const uint32_t before = atomic_load_explicit(number, memory_order_relaxed);
  atomic_store_explicit(number, before + change, memory_order_relaxed);
  return before;
}

/* Tells the launcher that this rank has a door. Before PMPI_Init. */
void tm_presence_say(void);
/* Returns a rank that has no door; -1: all have one, or it cannot be known. After PMPI_Init. */
int tm_presence_missing(int ranks);
/* Opens the door. Collective over MPI_COMM_WORLD, after PMPI_Init. */
void tm_begin(void);
/* Closes the door. Collective over MPI_COMM_WORLD, before PMPI_Finalize. */
void tm_end(void);
/* Prints a line on standard error: "tutti-mpi: rank R: ...". */
__attribute__((format(printf, 1, 2))) void tm_say(const char *format, ...);

/* ---- maps from handles to objects (map.c) ---- */

struct tm_table;
/* All zero: empty. Any thread may look up while another one changes the map. */
struct tm_map {
  _Atomic(struct tm_table *) table;
};
/* Returns the object of a handle; NULL: it has none. Takes a few ns. */
void *tm_map_find(const struct tm_map *map, uint64_t key);
/* Sets the object of a handle. Returns false if memory is exhausted. One thread at a time. */
bool tm_map_set(struct tm_map *map, uint64_t key, void *value);
/* Removes a handle, and returns its object, or NULL. One thread at a time. */
void *tm_map_remove(struct tm_map *map, uint64_t key);
/* Calls a function for each object. One thread at a time. */
void tm_map_each(struct tm_map *map, void (*visit)(void *value));

/* ---- communicators (comms.c) ---- */

/* Why calls are left to the MPI. */
enum tm_reason {
  TM_ROUTED,    /* they are not */
  TM_CLOSED,    /* the door is not open */
  TM_INTERCOMM, /* an intercommunicator */
  TM_OTHER_JOB, /* some ranks are not of this MPI_COMM_WORLD */
  TM_UNSETTLED, /* the communicator was made without the door, and no blocking collective has been called on it yet */
  TM_NEW,       /* the communicator is one of many, and few blocking collectives have been called on it yet */
  TM_NO_MEMORY, /* a rank could not create the communicator of tutti */
  TM_OPERATION, /* the operation is not for this datatype, or its elements are too long */
  TM_ARGUMENTS, /* wrong arguments, which the MPI reports */
  TM_NOT_TAKEN, /* the door does not take this function */
  TM_REASONS
};

struct tm_comm {
  tutti_comm *tutti; /* NULL: calls are left to the MPI */
  uint32_t rank, ranks;
  enum tm_reason reason;
  _Atomic uint32_t users; /* the handle, and each request; the communicator of tutti is closed when the last one goes */
  MPI_Comm handle;
  /* How many communicators have been made from this one, and before it from the ones that it comes from, one from the
   * other; at most TM_LATE. Equal on all ranks. */
  uint32_t line;
  uint32_t calls; /* TM_NEW: blocking collectives so far */
};
/* Returns what is known of a communicator; NULL: nothing yet. */
struct tm_comm *tm_comm_find(MPI_Comm comm);
/* Returns what is known of a communicator. If it has no communicator of tutti yet, creates one. Collective over it, and waits
 * for the other ranks. NULL: the handle is none of a communicator. */
struct tm_comm *tm_comm_settle(MPI_Comm comm);
/* The same in a blocking collective. If the communicator is one of many, it is settled only if it has been used often. */
struct tm_comm *tm_comm_enter(MPI_Comm comm);
/* A communicator has been made from `parent`, by all its ranks; MPI_COMM_NULL: by some ranks only. `comm` MPI_COMM_NULL: this
 * rank is not in it. */
void tm_comm_made(MPI_Comm parent, MPI_Comm comm);
/* A communicator whose `line` is at most tm_door.many.at_once is settled when it is made. The others wait for blocking
 * collective number tm_door.many.calls: a communicator of tutti takes about 40 us, and its first calls have to be prepared. */
enum { TM_AT_ONCE = 16, TM_CALLS = 256, TM_LATE = 999999999 };
void tm_comm_release(struct tm_comm *comm);
tutti_err tm_comms_begin(void);
void tm_comms_end(void);

/* ---- datatypes and operations (types.c, operations.c) ---- */

/* Kinds of predefined datatypes, which decide what operations they have (MPI 4.0, 6.9.2). */
enum tm_class { TM_DERIVED, TM_INTEGER, TM_FLOAT, TM_COMPLEX, TM_LOGICAL, TM_BYTE, TM_PAIR, TM_CHARACTER, TM_CLASSES };

enum { TM_GRID_DIMS = 3 };
/* Pieces of data of an item that lie in a grid (strided.c). */
struct tm_grid {
  size_t piece; /* bytes of a piece; 0: the data of the datatype is no such grid */
  int dims;
  size_t counts[TM_GRID_DIMS];    /* [dims] number of pieces */
  MPI_Aint strides[TM_GRID_DIMS]; /* [dims] their distance, in bytes */
};

struct tm_type {
  size_t size;     /* bytes of data of an item */
  MPI_Aint extent; /* distance of two items */
  MPI_Aint first;  /* offset of the first byte of an item */
  MPI_Aint span;   /* distance from the first to behind the last byte of an item */
  bool solid;      /* the data of one item, in the order of MPI_Pack, is its memory from `first` on */
  bool dense;      /* the same is true of any number of items */
  enum tm_class class;
  bool native; /* tutti has this datatype, `type` */
  tutti_datatype type;
  struct tm_grid grid;
};
/* Sets t->grid. */
void tm_grid_find(MPI_Datatype type, struct tm_type *t);
/* Returns the properties of a datatype; NULL: it is none, or not committed. */
const struct tm_type *tm_type_find(MPI_Datatype type);
tutti_err tm_types_begin(void);
void tm_types_end(void);

/* A reduction that tutti does not have: it calls MPI_Reduce_local. */
struct tm_reduction {
  MPI_Op op;
  MPI_Datatype type;
  size_t extent;
};
/* Returns true if a predefined operation is defined for the predefined datatype, or if it is one of the program. *native:
 * tutti has it, as *op. */
bool tm_op_find(MPI_Op handle, const struct tm_type *type, tutti_op *op, bool *native);
bool tm_op_is_predefined(MPI_Op handle);
/* Keeps an operation of the program until tm_op_release, although the program frees it. */
void tm_op_hold(MPI_Op op);
void tm_op_release(MPI_Op op);
tutti_err tm_ops_begin(void);
void tm_ops_end(void);

/* ---- one call (job.c, native.c) ---- */

extern const char *const tm_kind_names[TM_KINDS];

struct tm_side {
  union {
    const void *buffer;
    void *target;
  };
  MPI_Count count;
  MPI_Datatype type;
  const void *counts; /* v-forms: int[ranks], or MPI_Count[ranks] in a large call */
  const void *displs; /* int[ranks], or MPI_Aint[ranks] in a large call */
};

/* A call as the program has made it. What the collective does not have is 0. */
struct tm_call {
  enum tm_kind kind;
  bool large; /* MPI_Name_c */
  int root;
  MPI_Op op;
  MPI_Comm comm;
  struct tm_side send, recv; /* reductions: count and type are in `send`; MPI_Bcast: all is in `recv` */
};
static inline MPI_Count tm_count(const struct tm_call *c, const struct tm_side *s, uint32_t i) {
  return c->large ? ((const MPI_Count *)s->counts)[i] : ((const int *)s->counts)[i];
}
static inline MPI_Aint tm_displ(const struct tm_call *c, const struct tm_side *s, uint32_t i) {
  return c->large ? ((const MPI_Aint *)s->displs)[i] : ((const int *)s->displs)[i];
}
static inline bool tm_reduces(enum tm_kind kind) {
  return kind == TM_Allreduce || kind == TM_Reduce || kind == TM_Reduce_scatter || kind == TM_Reduce_scatter_block ||
         kind == TM_Scan || kind == TM_Exscan;
}

/* Data of the program that the job moves through memory of its own, because it is not contiguous. */
struct tm_packing {
  char *packed; /* NULL: none */
  const struct tm_side *side;
  uint32_t blocks; /* number of blocks; v-forms: one per rank */
  bool by_counts;
  bool strided; /* packed has the items as they lie in memory, with gaps, for MPI_Reduce_local */
  size_t bytes;
  const struct tm_type *type;
};

enum { TM_FEW_RANKS = 16 };

/* A call of the program, translated into one of tutti. */
struct tm_job {
  tutti_call call;
  struct tm_comm *comm;
  const struct tm_call *from;
  void *memory; /* of everything below; NULL: the program's buffers are used as they are */
  struct tm_packing in, out;
  void *first_block;          /* reduce_scatter in place: where the result belongs; NULL: not needed */
  struct tm_side operands[2]; /* reductions: input and result */
  struct tm_reduction reduction;
  size_t few[4 * TM_FEW_RANKS]; /* counts and offsets, if there are few ranks; not set otherwise */
  tutti_tensor tensors[2];      /* of call.in and call.out, if these are set */
};
/* Translates a call. Returns TM_ROUTED, or why the call is left to the MPI. *from is used until tm_job_end. */
enum tm_reason tm_job_begin(struct tm_job *job, const struct tm_call *from, struct tm_comm *comm);
/* Copies what the job sends into its own memory, and what it has received from there. */
void tm_job_pack(const struct tm_job *job);
void tm_job_unpack(const struct tm_job *job);
void tm_job_end(struct tm_job *job);
/* Describes the sides of a move that is not in place by tensors, if one is strided and the other one contiguous. Returns
 * false if packing is better. */
bool tm_job_stride(struct tm_job *job, bool sends, bool receives, bool in_direct, bool out_direct);
/* Runs a call that has been translated, and copies before and after. */
tutti_err tm_job_run(struct tm_job *job);

/* Carry a call out with the MPI: blocking, nonblocking, persistent. */
int tm_native_run(const struct tm_call *call);
int tm_native_start(const struct tm_call *call, MPI_Request *request);
int tm_native_init(const struct tm_call *call, MPI_Info info, MPI_Request *request);

/* ---- calls (call.c) ---- */

int tm_run(const struct tm_call *call);
/* Run, or start, a call whose buffers tutti uses as they are, and set *err to the outcome. Return false if it needs a job
 * (short.c). */
bool tm_run_short(const struct tm_call *call, const struct tm_comm *comm, tutti_err *err);
bool tm_start_short(const struct tm_call *call, const struct tm_comm *comm, tutti_request **request, tutti_err *err);
int tm_start(const struct tm_call *call, MPI_Request *request);
int tm_init(const struct tm_call *call, MPI_Info info, MPI_Request *request);
/* Reports an error of tutti on a communicator, as the error handler of the communicator says. Returns the code for the
 * program. */
int tm_fail(const struct tm_comm *comm, tutti_err err, const char *function);
int tm_fail_memory(const struct tm_comm *comm, const struct tm_call *call);

/* ---- requests (requests.c) ---- */

struct tm_request;
/* Returns the door's request; NULL: the handle is one of the MPI. */
struct tm_request *tm_request_of(MPI_Request handle);
/* number of started requests of the door that are not complete */
extern _Atomic uint32_t tm_open;
tutti_err tm_requests_begin(void);
void tm_requests_end(void);

/* ---- progress (progress.c) ---- */

/* A condition of the MPI for which a thread waits: `met` advances the MPI, and returns true when the condition holds, and
 * from then on. */
struct tm_watch {
  bool (*met)(struct tm_watch *watch);
};
/* Waits until the condition of the MPI holds, or one of the door's open requests has advanced. */
void tm_watch_wait(struct tm_watch *watch);
/* Called by threads of tutti that wait. */
bool tm_advance_mpi(void *context);
/* Advances open requests of the door once. */
void tm_advance_tutti(void);
/* Around a function of the MPI that waits for other ranks: if requests of tutti are open, and the MPI does not advance
 * them, a thread of the door does. */
void tm_native_begin(void);
void tm_native_end(void);
/* Before a function of the MPI with which a program may poll: advances tutti, if the MPI does not. */
void tm_native_poll(void);
/* The MPI advances tutti while it waits. Otherwise the door has to. */
extern bool tm_mpi_advances_tutti;
tutti_err tm_progress_begin(void);
/* Ends the thread of the door; before communicators of tutti are closed. */
void tm_progress_stop(void);
void tm_progress_end(void);

/* Learns what an empty status is (waits.c). */
void tm_waits_begin(void);

/* ---- what was routed (report.c) ---- */

enum tm_form { TM_BLOCKING, TM_NONBLOCKING, TM_PERSISTENT, TM_FORMS };
void tm_count_call(enum tm_kind kind, enum tm_form form, enum tm_reason reason);
void tm_count_other(const char *function);
void tm_report(void);

/* ---- verify (verify.c) ---- */

/* A second execution of a call, by the MPI, in other memory. */
struct tm_shadow;
/* Runs a blocking call twice, and compares. Ends the job. */
int tm_verify_run(struct tm_job *job);
/* Prepares the second execution of a request: in memory like that of *job now. NULL: out of memory. */
struct tm_shadow *tm_shadow_begin(const struct tm_job *job, bool persistent);
/* Starts it, after the buffers of the call have got their input. */
void tm_shadow_start(struct tm_shadow *shadow);
/* Returns true if it is complete. */
bool tm_shadow_done(struct tm_shadow *shadow);
/* Compares both results, after both are complete. */
void tm_shadow_compare(struct tm_shadow *shadow);
void tm_shadow_end(struct tm_shadow *shadow);
uint64_t tm_verify_calls(void);
uint64_t tm_verify_differences(void);

#endif
