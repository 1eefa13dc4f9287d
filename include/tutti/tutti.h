/* tutti.h: collective communication between processes.
 *
 * A communicator joins ranks, which are processes (or threads). In a collective call every rank describes the same
 * call. The library picks a plan and executes it. The call is complete on a rank when this rank's part of the result is
 * in its buffer. See tutti(7) and docs/.
 *
 * Errors. Every function that can fail returns a tutti_err; tutti_error_message() returns the message for it. A failure
 * on one rank becomes the verdict of the communicator (its first failure) on all of its ranks. From then on every call
 * on the communicator returns the verdict, and only tutti_comm_free() and tutti_comm_close() work. Other communicators
 * are not affected. The compiler warns if a program ignores the tutti_err of a function that is marked TUTTI_CHECKED.
 * Functions that only free something (tutti_comm_free, tutti_comm_close, tutti_free, tutti_deregister,
 * tutti_comm_op_free, tutti_window_free, tutti_session_free, tutti_mesh_free) are not marked, because programs also
 * call them after a failure, when only the first error counts.
 *
 * Who may call. The comments use these words. Collective: all ranks of the communicator, window or mesh call the
 * function. Local: the call concerns this rank alone; other ranks need not call it. Any thread: several threads may
 * call the function at once. One thread at a time: the program keeps threads apart.
 *
 * Memory. What a pointer argument points to is used only until the function returns, unless a comment says otherwise.
 * The caller owns an object that a function returns, and frees it with the function that the comment names. Strings
 * that are returned belong to the library; the program does not free them.
 *
 * Threads. Any thread may start calls on a communicator, test its requests and wait for them, even while another thread
 * waits on the same communicator. Overlapping calls of threads are executed one after the other. A thread that waits
 * also advances the open requests of all communicators of the process that no other thread is advancing. All ranks must
 * start the collectives of a communicator in the same order; if several threads start them, the program must ensure
 * this order. tutti_abort, tutti_rank, tutti_ranks, tutti_comm_set_user, tutti_comm_user, tutti_request_done and
 * tutti_error_message never wait for another thread; any thread may call them until tutti_comm_free or tutti_comm_close
 * begins. on_ready and user operations may be called by any thread that is inside a call of the library. For one
 * communicator, only one thread at a time calls them. The same holds for tutti_options.parallel.run.
 *
 * Without tutti_options.progress_thread, calls make progress only while a thread of the program is in a function of the
 * library. In a job of several hosts, the library may then have one thread, which sends what is unsent when a function
 * returns, carries out the one-sided calls of other hosts to windows of this rank, and does nothing else. With the
 * option, the process has one such thread, whatever the number of its worlds and communicators: from tutti_init until
 * the last communicator of the last world that asked for it is freed. It advances the open requests of all communicators
 * while no thread of the program waits, and sleeps otherwise.
 * It also calls on_ready and user operations. An error that it finds becomes the verdict, which the next call of the
 * program returns. It does not count time limits, has all signals blocked, and does not exist in a child of fork().
 *
 * Fork. If a child of fork() uses an object of its parent (communicator, request, window, channel), the call returns
 * TUTTI_ERR_ARGUMENT and has no effect. The child may call exec, or tutti_init to join another world. The child does
 * not keep its parent's rank alive, and its exit does not affect the job.
 *
 * Time limits are in ms. 0 is the default that the function or the field documents; TUTTI_NO_TIMEOUT means no limit;
 * other negative values return TUTTI_ERR_ARGUMENT. tutti_progress, tutti_probe and tutti_wait_for are different: with 0
 * they do not wait.
 *
 * Descriptors. The library keeps one file descriptor open, for the memory that the ranks share. The program may close
 * this descriptor (some programs close all descriptors from 3 on); the rank continues to work. */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#define TUTTI_CHECKED __attribute__((warn_unused_result))
#else
#define TUTTI_API
#define TUTTI_CHECKED
#endif

typedef enum tutti_err {
  TUTTI_OK = 0,
  TUTTI_ERR_ARGUMENT = 1,    /* invalid call, option or file */
  TUTTI_ERR_ENVIRONMENT = 2, /* environment variables that are incomplete, unknown or malformed */
  TUTTI_ERR_MISMATCH = 3,    /* two ranks disagree about a call */
  TUTTI_ERR_PEER = 4,        /* a rank died or left */
  TUTTI_ERR_TIMEOUT = 5,     /* a time limit ran out */
  TUTTI_ERR_ABORTED = 6,     /* a rank called tutti_abort() */
  TUTTI_ERR_MEMORY = 7,      /* out of memory */
  TUTTI_ERR_SYSTEM = 8,      /* a system call failed */
  TUTTI_ERR_UNSUPPORTED = 9, /* the operation is not supported on this host or in this configuration */
} tutti_err;

/* An enum has 4 bytes, in programs as in the library. Programs cannot be compiled with -fshort-enums. */
#if defined(__cplusplus)
static_assert(sizeof(tutti_err) == 4, "enums of tutti have 4 bytes");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(tutti_err) == 4, "enums of tutti have 4 bytes");
#endif

/* The values are part of the binary interface and never change. The unused values between them are for later
 * additions. */
typedef enum tutti_collective {
  TUTTI_ALLREDUCE = 0,
  TUTTI_REDUCE = 1,
  TUTTI_BROADCAST = 2,
  TUTTI_GATHER = 3,
  TUTTI_SCATTER = 4,
  TUTTI_ALLGATHER = 5,
  TUTTI_REDUCE_SCATTER = 6,
  TUTTI_ALLTOALL = 7,
  TUTTI_BARRIER = 8,
  TUTTI_SCAN = 9,
  TUTTI_EXSCAN = 10,
  TUTTI_GATHERV = 32,
  TUTTI_SCATTERV = 33,
  TUTTI_ALLGATHERV = 34,
  TUTTI_REDUCE_SCATTERV = 35,
  TUTTI_ALLTOALLV = 36,
  TUTTI_SEND = 64,
  TUTTI_RECV = 65,
} tutti_collective;

typedef enum tutti_datatype {
  TUTTI_I8 = 0,
  TUTTI_U8 = 1,
  TUTTI_I16 = 2,
  TUTTI_U16 = 3,
  TUTTI_I32 = 4,
  TUTTI_U32 = 5,
  TUTTI_I64 = 6,
  TUTTI_U64 = 7,
  TUTTI_BOOL = 8, /* one byte; every value other than 0 is true */
  TUTTI_F16 = 16,
  TUTTI_BF16 = 17,
  TUTTI_F32 = 18,
  TUTTI_F64 = 19,
  TUTTI_F8E4M3 = 24, /* OCP f8e4m3: no infinity; the largest number is 448, larger ones become NaN */
  TUTTI_F8E5M2 = 25, /* OCP f8e5m2 */
  TUTTI_BFP8 = 32,   /* block float with 8 bits per element and a shared exponent; only in tensors with tiles */
  TUTTI_BFP4 = 33,   /* block float with 4 bits per element and a shared exponent; only in tensors with tiles */
  TUTTI_BYTES = 40,  /* elements of tutti_call.element_bytes bytes, for moves and user operations; not in tensors */
} tutti_datatype;

/* Block floats. A group is 16 neighbouring elements in a row of a tile. It has one exponent byte E. Each element has a
 * sign bit and a magnitude M of 7 bits (bfp8) or 3 bits (bfp4). The element's value is M * 2^(E - 133) for bfp8 and M *
 * 2^(E - 129) for bfp4.
 *
 * Conversion from f32: E is the exponent byte of the largest element of the group, but at least 1; it is 0 if all
 * elements become zero. Each element is rounded to nearest even, but not up beyond the largest M. Zero has no sign. E =
 * 255 marks a group with an infinity or NaN. In such a group the largest M is NaN, and other values of 2^128 or more (M
 * >= 64 for bfp8, M >= 4 for bfp4) are infinity.
 *
 * Memory: the E of all groups of a tile come before all their magnitudes. An item is one group. An item of bfp8 has 17
 * bytes: E, and one byte for each of the 16 elements. An item of bfp4 has 9 bytes: E, and 8 bytes with two elements
 * each, the earlier element in the low half. Items are sent as a whole, and tutti_datatype_size() returns the size of
 * an item. */

/* Reduction operations:
 *   min, max of floats     NaN if any operand is NaN; -0 < +0
 *   sum, prod of integers  wrap around
 *   avg                    divides once, when the result is written; not for scan and exscan
 *   avg of integers        the wrapped sum, divided by the number of ranks, rounded toward zero
 *   band, bor, bxor        integers only
 *   land, lor, lxor        integers only; results are 0 or 1
 *   premul_sum             each rank's input is multiplied by its tutti_call.scale when it is first read; for integers
 *                          the scale must be an integer of that datatype
 * f16, bf16, f8 and bfp are computed in f32 and rounded once per reduction step. tutti_comm_op_create() and
 * tutti_op_create() add user operations; elements of TUTTI_BYTES have no other operations.
 *
 * Operations of bool take every byte other than 0 as true, and their results are 0 or 1:
 *   min, prod, band, land  true if all operands are true
 *   max, sum, bor, lor     true if an operand is true
 *   bxor, lxor             true if an odd number of operands is true
 *   avg, premul_sum        refused with TUTTI_ERR_ARGUMENT
 * A result that one rank alone contributes to (one rank; rank 0 of a scan) is this rank's input, unchanged. The same
 * holds for land, lor and lxor of integers. */
typedef uint32_t tutti_op;
enum {
  TUTTI_SUM = 0,
  TUTTI_PROD = 1,
  TUTTI_MIN = 2,
  TUTTI_MAX = 3,
  TUTTI_AVG = 4,
  TUTTI_BAND = 5,
  TUTTI_BOR = 6,
  TUTTI_BXOR = 7,
  TUTTI_LAND = 8,
  TUTTI_LOR = 9,
  TUTTI_LXOR = 10,
  TUTTI_PREMUL_SUM = 11,
  TUTTI_USER_OPS = 1024,  /* first id of operations added by tutti_op_create(); ids of built-in operations are lower */
  TUTTI_COMM_OPS = 65536, /* first id of operations added by tutti_comm_op_create(); other ids are lower */
};

#define TUTTI_NO_TIMEOUT (-1) /* time limit in ms: no limit */

typedef struct tutti_comm tutti_comm;
typedef struct tutti_request tutti_request;
typedef struct tutti_plan tutti_plan;
typedef struct tutti_tensor tutti_tensor; /* see tutti/tensor.h */

#define TUTTI_DIMS 5 /* maximum number of dimensions of a tensor */

/* ---- general ---------------------------------------------------------------------------------------------------- */

/* Returns major * 10000 + minor * 100 + patch, for the library that is loaded. The macros TUTTI_VERSION_... give the
 * version that the program was compiled against. Any thread. */
TUTTI_API int tutti_version(void);

/* Returns the name of an error, such as "TUTTI_ERR_PEER". The result is never NULL. Any thread; the text stays. */
TUTTI_API const char *tutti_err_name(tutti_err err);

/* Returns the message of the calling thread's last error. If `comm` has failed, returns the message of its verdict (its
 * first failure) instead. comm may be NULL. The text stays valid until the calling thread's next call, and no other
 * thread changes it. The result is never NULL; it is "" if there was no error. Any thread. */
TUTTI_API const char *tutti_error_message(const tutti_comm *comm);

/* Returns the size of an element in bytes (for a block float: of an item, which is a group of 16 elements); 0 if the
 * datatype is unknown, and for TUTTI_BYTES, whose size every call gives. Any thread. */
TUTTI_API size_t tutti_datatype_size(tutti_datatype type);
/* Returns the short name of a datatype, such as "f32". The result is never NULL. Any thread; the text stays. */
TUTTI_API const char *tutti_datatype_name(tutti_datatype type);
/* Returns the short name of an operation, such as "sum"; "user" for an operation of a communicator. The result is never
 * NULL. Any thread; the text stays. */
TUTTI_API const char *tutti_op_name(tutti_op op);
/* Returns the short name of a collective, such as "allreduce". The result is never NULL. Any thread; the text stays. */
TUTTI_API const char *tutti_collective_name(tutti_collective collective);

/* ---- starting up ------------------------------------------------------------------------------------------------ */

/* Callbacks by which the ranks find each other if neither `tutti run` nor torchrun has started them: either an
 * allgather, or a key-value store (set and get). A callback returns 0 on success and any other number on failure. Only
 * the thread that called tutti_init calls them, and only until tutti_init returns. No time-out interrupts a callback. A
 * rank that fails still joins the next allgather and reports its error there, so that tutti_init fails on all ranks.
 * Exceptions: a rank whose options are refused, or that has no memory for the first allgather, does not join it. */
typedef struct tutti_bootstrap {
  uint32_t rank, ranks; /* rank of this process; number of ranks */
  /* Collective: blocks until all ranks have called it. All ranks call it the same number of times, with the same
   * `bytes` (a few hundred). Copies the data of rank r to all + r * bytes; `all` has ranks * bytes bytes. If the
   * callback is NULL, set and get are used instead. */
  int (*allgather)(void *context, const void *mine, void *all, size_t bytes);
  /* Stores a copy of the value under a key of at most 63 characters. No key may have been set before in this store. If
   * several worlds use one store, the program must make their keys different, for example by a prefix. Not called if
   * allgather is given. */
  int (*set)(void *context, const char *key, const void *value, size_t bytes);
  /* Waits until the key is set, and copies its value of exactly `bytes` bytes. Not called if allgather is given. */
  int (*get)(void *context, const char *key, void *value, size_t bytes);
  void *context; /* passed to every callback */
} tutti_bootstrap;

/* The program's own means to share out work among threads, such as OpenMP or at::parallel_for. The library cuts long
 * copies and reductions of this rank into parts with it; the results have the same bits. */
typedef struct tutti_parallel {
  /* Calls part(argument, i) once for each i < parts, on any threads, several at once or one after the other, and
   * returns when all these calls have returned. parts is 2 to threads. Called by any thread that advances calls: a
   * thread of the program in a function of the library, or the thread of tutti_options.progress_thread. Several threads
   * may call it at once if the program has several communicators. Neither run nor part may call the library. */
  void (*run)(void *context, size_t parts, void (*part)(void *argument, size_t i), void *argument);
  void *context;     /* passed to run */
  uint32_t threads;  /* number of threads that run uses, at most 1024; 0: nothing is shared out, and run is NULL */
  uint32_t reserved; /* 0 */
} tutti_parallel;

/* In which order reductions combine the inputs of the ranks. It matters to sums, averages and products of floats, to
 * block floats, and to operations of the program: their bits depend on the order. All other reductions have the same
 * bits in any order. docs/ORDER.md says what is promised. */
typedef enum tutti_order {
  TUTTI_ORDER_ANY = 0, /* that of the selected algorithm, which may change with the size of the call */
  /* The binary tree over the ranks, in rank order, that splits n ranks at the largest power of two below n, for every
   * element. So the bits do not depend on count, position, collective, algorithm, hosts, lanes or layout. */
  TUTTI_ORDER_CANONICAL = 1
} tutti_order;

/* Another library of this process that makes progress only while it is called, such as an MPI. A thread that waits in a
 * function of tutti calls it from time to time, so that a rank whose message goes through the other library does not wait
 * for this one for ever. */
typedef struct tutti_foreign {
  /* Advances the other library once, without waiting. Returns true if something that the program waits for has happened
   * there; tutti_progress returns then. Called by threads of the program only, several at once if several of them wait. It
   * must not call functions of tutti that wait. NULL: there is no such library. */
  bool (*progress)(void *context);
  void *context;     /* passed to progress */
  uint32_t sleep_ms; /* longest time between two calls of progress, in ms, while the thread sleeps; 0: 1 */
  uint32_t reserved; /* 0 */
} tutti_foreign;

/* Options of tutti_init. Zero is the default of every field. tutti_init does not use the struct after it has
 * returned. */
typedef struct tutti_options {
  /* Time limit in ms of calls that set no limit of their own; 0: the value of TUTTI_TIMEOUT_MS, or no limit. */
  int timeout_ms;
  int join_timeout_ms; /* time limit in ms of waiting for the other ranks in tutti_init; 0: 60,000 */
  /* Time in us for which a waiting rank polls before it yields its core or sleeps; 0: the value of TUTTI_SPIN_US, or a
   * time adapted to the load of the core; negative: the rank sleeps without polling. */
  int spin_us;
  /* All fields below take precedence over environment variables. */
  const tutti_bootstrap *bootstrap; /* callbacks by which the ranks find each other; NULL: they use address and port */
  uint32_t rank, ranks;             /* rank of this process, and number of ranks; if ranks is 0, both come from the
                                     * environment */
  const char *address;              /* host name or address at which rank 0 listens */
  uint16_t port;                    /* TCP port at which rank 0 listens; 0 on rank 0: any free port (see on_listen) */
  const char *secret;               /* secret of the job, equal on all ranks; NULL: TUTTI_SECRET or TUTTI_SECRET_FILE */
  /* Called on rank 0 with the port once rank 0 listens, by the thread in tutti_init, so that the program can send the
   * port to the other ranks. May be NULL if port is not 0. */
  void (*on_listen)(void *context, uint16_t port);
  void *on_listen_context; /* passed to on_listen */
  /* 1: a thread of the library moves the data of started calls while this process computes; 0: the value of
   * TUTTI_PROGRESS_THREAD, or no thread. Other values are errors. Each rank chooses for itself. See Threads above. */
  uint64_t progress_thread;
  /* Shares out copies and reductions of 512 KiB or more in all communicators of this world. Operations of
   * tutti_op_create are not shared out. The function and what its context points to are used until the last communicator
   * of the world is freed. Each rank chooses for itself. */
  tutti_parallel parallel;
  /* Order of reductions in all communicators of this world, equal on all ranks; TUTTI_ORDER_ANY: the value of
   * TUTTI_ORDER, or any. */
  tutti_order order;
  uint32_t reserved; /* 0 */
  /* Another library that threads advance while they wait in a communicator of this world. Its function and what its
   * context points to are used until the last communicator of the world is freed. Each rank chooses for itself. */
  tutti_foreign foreign;
} tutti_options;

/* Joins the world that the environment or the options describe, and sets *world to its communicator. Collective over
 * all processes of the job; in each process, one thread at a time. options may be NULL. tutti_init reads the
 * environment variables TUTTI_RANK, TUTTI_WORLD_SIZE, TUTTI_MASTER_ADDR and TUTTI_MASTER_PORT, or the same names
 * without TUTTI_, as torchrun sets them. The job uses the port TUTTI_MASTER_PORT, or the port after MASTER_PORT. If
 * none of these variables is set, the world has one rank. If the options give ranks or a bootstrap, these variables are
 * not read. A failure of one rank ends tutti_init on all ranks; *world is then NULL. The caller ends the world with
 * tutti_comm_free or tutti_comm_close.
 *
 * Errors, with the message at tutti_error_message(NULL): TUTTI_ERR_ARGUMENT (contradictory options),
 * TUTTI_ERR_ENVIRONMENT (variables that are incomplete or malformed, an unknown TUTTI_ name, or several processes
 * started by another launcher), TUTTI_ERR_TIMEOUT (names the missing ranks), TUTTI_ERR_PEER (a rank left, belongs to
 * another user, or has a wrong secret), TUTTI_ERR_SYSTEM,
 * TUTTI_ERR_MEMORY. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_init_sized(const tutti_options *options, size_t options_bytes,
                                                   tutti_comm **world);
TUTTI_CHECKED static inline tutti_err tutti_init(const tutti_options *options, tutti_comm **world) {
  return tutti_init_sized(options, sizeof *options, world);
}

/* ---- communicators ---------------------------------------------------------------------------------------------- */

/* Makes a communicator that contains only this rank, and sets *self to it. Not collective. Any thread. The caller frees
 * *self. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_comm_self(tutti_comm *parent, tutti_comm **self);

#define TUTTI_NO_COLOR (-1) /* colour of a rank that joins no new communicator in tutti_comm_split */
/* Splits a communicator: ranks with equal colour form a new communicator, ordered by key, then by rank in the parent.
 * Collective over the parent. Colours are 0 or more; a rank that gives TUTTI_NO_COLOR gets *comm = NULL. All ranks of
 * the parent must be alive, otherwise the split returns TUTTI_ERR_PEER and the parent has failed; other ranks of the
 * world may be dead. If one rank fails to create its part of a communicator, only this rank gets the error here. The
 * new communicator fails on its other ranks with TUTTI_ERR_PEER when they wait for this rank. The caller frees *comm.
 * Any thread; all ranks call it in the same order as their other collectives. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_comm_split(tutti_comm *parent, int color, int key, tutti_comm **comm);

/* Makes a communicator of the same ranks, whose messages are separate from the parent's. Collective over the parent;
 * errors as in tutti_comm_split. The caller frees *comm. Any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_comm_dup(tutti_comm *parent, tutti_comm **comm);

/* Makes a communicator of `count` ranks of the parent: ranks[i] becomes its rank i. Only these ranks call, all with the
 * same list and tag. Each rank waits until all have called, up to the parent's time limit, or for 60 s if the parent
 * has no limit. If two ranks make several communicators that contain both ranks, both must make them in the same order;
 * the order of other communicators is free. Threads of a rank may make several communicators of one parent at a time,
 * if their lists or tags differ. `ranks` is copied. The caller frees *comm.
 *
 * Errors, with the message at tutti_error_message(NULL): TUTTI_ERR_ARGUMENT (invalid list; the other ranks are not
 * notified), TUTTI_ERR_TIMEOUT (names the missing ranks, and a cycle of ranks that wait for each other),
 * TUTTI_ERR_PEER, TUTTI_ERR_MEMORY. An error leaves the parent unchanged. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_comm_create(tutti_comm *parent, const uint32_t ranks[], size_t count,
                                                    uint64_t tag, tutti_comm **comm);

/* Frees a communicator. Collective: waits until every rank has called tutti_comm_free and all credits of its channels
 * have returned. On a failed communicator the call is local and does not wait. All requests must have been waited for.
 * NULL is accepted. No other thread may use the communicator. Returns the error that prevented an orderly end. The
 * communicator is freed in every case, with two exceptions, which return TUTTI_ERR_ARGUMENT: a call in a child of
 * fork() (see Fork above), and a call within on_ready. */
TUTTI_API tutti_err tutti_comm_free(tutti_comm *comm);

/* What is known of a rank of a communicator. Times in ns. A rank counts a wait if it has polled in vain for some time: for
 * about 10 us if each rank has a core of its own. */
typedef struct tutti_rank_stats {
  uint64_t calls;           /* collectives that the rank has started; on another host: as far as it has told */
  uint64_t messages;        /* messages that it has sent or received point to point; on another host: 0 */
  uint64_t message_bytes;   /* their bytes */
  uint64_t waited_ns;       /* how long it has waited for others in this communicator; on another host: 0 */
  uint64_t awaited_ns;      /* how long the ranks of the calling rank's host have waited for it */
  uint64_t awaited_here_ns; /* how long the calling rank has waited for it */
  uint64_t reserved[4];     /* 0 */
} tutti_rank_stats;

/* Stores what is known of a rank: who waits, and for whom. A rank for which the others wait long is slow, or gets more work
 * (a straggler). Local: does not wait for other ranks. Errors: TUTTI_ERR_ARGUMENT. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_stats(tutti_comm *comm, uint32_t rank, tutti_rank_stats *stats);

/* Ends a communicator on this rank alone and never waits, so that destructors can call it. Ranks may close their
 * communicators in any order. Memory of this rank that other ranks still need stays until they have used it; a later
 * tutti_comm_create, tutti_comm_close or tutti_comm_free releases it. For one communicator, either all ranks call
 * tutti_comm_close, or all call tutti_comm_free. If requests, windows or channels are open, tutti_comm_close returns
 * TUTTI_ERR_ARGUMENT, and the communicator fails on all ranks. NULL is accepted. The communicator is freed in every
 * case, with the same exceptions as in tutti_comm_free. Local; no other thread may use the communicator. */
TUTTI_API tutti_err tutti_comm_close(tutti_comm *comm);

/* Returns the rank of this process in the communicator. comm must not be NULL. Local; any thread. */
TUTTI_API uint32_t tutti_rank(const tutti_comm *comm);
/* Returns the number of ranks of the communicator. comm must not be NULL. Local; any thread. */
TUTTI_API uint32_t tutti_ranks(const tutti_comm *comm);

/* Sets the time limit in ms of those calls on the communicator that set no limit of their own; 0: no limit. Error:
 * TUTTI_ERR_ARGUMENT; the limit is then unchanged, and the message is at tutti_error_message(NULL). Local; any thread.
 * Requests that exist keep their limit. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_comm_set_timeout(tutti_comm *comm, int timeout_ms);

/* Keeps a pointer of the program with the communicator, for example to the object of another language that wraps it.
 * The library does not use what it points to. The pointer is NULL at first; a communicator that is made from this one
 * does not inherit it. comm must not be NULL. Local; any thread. A thread that gets the pointer also sees what the
 * thread that set it has written before. */
TUTTI_API void tutti_comm_set_user(tutti_comm *comm, void *user);
/* Returns the pointer that tutti_comm_set_user has set last. comm must not be NULL. Local; any thread. */
TUTTI_API void *tutti_comm_user(const tutti_comm *comm);

/* Fails the communicator on all of its ranks with TUTTI_ERR_ABORTED and this reason (NULL: no reason). Any thread may
 * call tutti_abort, on any rank; `reason` is copied. Threads that wait in a call on the communicator return with this
 * error. The caller must still free the communicator. */
TUTTI_API void tutti_abort(tutti_comm *comm, const char *reason);

/* ---- memory shared by all ranks of a host ------------------------------------------------------------------------ */

/* Allocates `bytes` bytes that all ranks of the host map, and sets *memory to them. With buffers in this memory, calls
 * need fewer copies: other ranks read the data directly from this memory, and write results directly into it. Calls
 * recognise the memory by its address. A buffer may be any part of the memory, and each rank decides independently
 * whether to use such buffers. A buffer that lies only partly in the memory counts as ordinary memory. The memory is
 * page-aligned, not cleared, and uses large pages if the system has any.
 *
 * Not collective; any thread may call it. The memory is taken from this rank's share of shared memory
 * (TUTTI_SHM_BYTES), and lives until tutti_free, or until the world is freed. After a failed call other ranks may
 * access the memory until all living ranks have freed the communicator. If the memory is freed earlier, the library
 * does not reuse it before that time. Errors, which concern this rank alone: TUTTI_ERR_ARGUMENT (comm or memory is
 * NULL), TUTTI_ERR_MEMORY. The message is at tutti_error_message(NULL). */
TUTTI_API TUTTI_CHECKED tutti_err tutti_alloc(tutti_comm *comm, size_t bytes, void **memory);
/* Frees memory that tutti_alloc returned for this communicator, or for another communicator of the same world. No open
 * call may use the memory. NULL is accepted. Error: TUTTI_ERR_ARGUMENT (`memory` is not the start of such memory).
 * Local; any thread. */
TUTTI_API tutti_err tutti_free(tutti_comm *comm, void *memory);

/* Moves the pages of the program's own memory into shared memory, at the same address and with their content, so that
 * calls treat them like memory of tutti_alloc. The call takes about 0.6 ms per MiB; no thread may use the memory during
 * the call. Afterwards a child of fork() shares the memory with its parent instead of having a copy; for this reason
 * the library never registers memory by itself. memory and bytes must be multiples of the page size. Errors:
 * TUTTI_ERR_ARGUMENT (not whole pages, or some of them are shared already), TUTTI_ERR_MEMORY, TUTTI_ERR_SYSTEM; the
 * memory is then unchanged. Local; any thread. The program still owns the memory. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_register(tutti_comm *comm, void *memory, size_t bytes);
/* Turns registered memory back into private memory of the process, with its content. Call it before the program unmaps
 * or frees the memory, because the library recognises the memory by its address. No open call on any rank may use the
 * memory. Memory that is not deregistered stays usable for the life of the process. Error: TUTTI_ERR_ARGUMENT (it was
 * not registered). Local; any thread. */
TUTTI_API tutti_err tutti_deregister(tutti_comm *comm, void *memory);

/* ---- user operations -------------------------------------------------------------------------------------------- */

/* A user operation: computes result[i] = left[i] op right[i] for i < count. The elements have the call's datatype
 * `type`; for block floats, count is in items. For TUTTI_BYTES the function must know the size of an element, for
 * example by its context. result may be equal to left or to right, but does not overlap them partly. All three arrays
 * are aligned to the size of an element (TUTTI_BYTES: to the largest power of two that divides it, at most 16). The
 * operation must be associative. Any thread that is
 * inside a call of the library, and the thread of tutti_options.progress_thread, may call the function. */
typedef void tutti_op_function(void *result, const void *left, const void *right, size_t count, tutti_datatype type,
                               void *context);

/* Registers a user operation in this process, until the process ends, and sets *op to its id. All ranks must register
 * their operations in the same order, because ranks compare the ids. If commutative is false, only algorithms that
 * combine in rank order are used. `context` is passed to the function; `name` is copied. Error: TUTTI_ERR_ARGUMENT
 * (function or op is NULL, or the table of 1024 operations is full). Local; any thread. The function and what `context`
 * points to are used until the process ends. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_op_create(tutti_op_function *function, void *context, bool commutative,
                                                  const char *name, tutti_op *op);

/* Options of tutti_comm_op_create. Zero is the default of every field but `function`. */
typedef struct tutti_op_options {
  tutti_op_function *function;
  void *context;    /* passed to the function, unless the call has its own, tutti_call.op_context */
  bool commutative; /* false: only algorithms that combine in rank order are used */
  const char *name; /* name in messages, at most 63 characters; NULL: "user". It is copied. */
  /* New fields are added at the end, here. */
} tutti_op_options;

/* Creates a user operation of this communicator, and sets *op to its id. Ids count the operations that were created on
 * the communicator, from TUTTI_COMM_OPS on, and are not used again. Ranks compare the ids, so all ranks create the
 * operations of a communicator in the same order. The operation is valid only in calls on this communicator, not in
 * those on communicators that are made from it, and ends with the communicator. Errors: TUTTI_ERR_ARGUMENT (an argument
 * or options->function is NULL), TUTTI_ERR_MEMORY. They concern this rank alone; the message is at
 * tutti_error_message(NULL). Local; any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_comm_op_create_sized(tutti_comm *comm, const tutti_op_options *options,
                                                             size_t options_bytes, tutti_op *op);
TUTTI_CHECKED static inline tutti_err tutti_comm_op_create(tutti_comm *comm, const tutti_op_options *options,
                                                           tutti_op *op) {
  return tutti_comm_op_create_sized(comm, options, sizeof *options, op);
}
/* Frees an operation that tutti_comm_op_create has created on this communicator. Later calls with this id are refused.
 * Calls that are open, and persistent requests, finish with the operation: until then the function and what its context
 * points to must stay. Error: TUTTI_ERR_ARGUMENT (there is no such operation), with the message at
 * tutti_error_message(NULL). Local; any thread. */
TUTTI_API tutti_err tutti_comm_op_free(tutti_comm *comm, tutti_op op);

/* ---- user plans ------------------------------------------------------------------------------------------------- */

/* Reads a plan from a file and proves it correct, as `tutti check` does, for channels that hold one message. Not
 * collective. The file is in the text form of tutti-plan(5), or an MSCCL algorithm of tutti-msccl(5). A call uses the
 * plan if its field tutti_call.plan points to the plan; the plans of all ranks must have the same content. The caller
 * frees *plan with tutti_plan_free. Errors, with the message at tutti_error_message(NULL): TUTTI_ERR_ARGUMENT
 * (malformed file, or a wrong plan; the message names rank, step and reason), TUTTI_ERR_SYSTEM, TUTTI_ERR_MEMORY. Any
 * thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_plan_load(const char *path, tutti_plan **plan);

/* Frees a plan. Open requests that were started with the plan continue without it. NULL is accepted. Local; no thread
 * may start a call with the plan at this time. */
TUTTI_API void tutti_plan_free(tutti_plan *plan);

/* ---- one call --------------------------------------------------------------------------------------------------- */

#define TUTTI_IN_PLACE ((void *)-1)   /* passed instead of a buffer: the call is in place */
#define TUTTI_ELEMENT_BYTES_MAX 65536 /* maximum of tutti_call.element_bytes */
#define TUTTI_ANY_SHAPE 1u            /* bit of tutti_call.flags: see Tensors below */

/* Callback that reports that `count` elements of the output, from element `first` on, are final. The program may read
 * these elements at once, but may write them only after the call is complete. See tutti_call.on_ready. */
typedef void tutti_on_ready(void *context, size_t first, size_t count);

#define TUTTI_ANY_RANK 0xFFFFFFFFu /* peer of a receive: the message may come from any rank */
#define TUTTI_ANY_TAG 0xFFFFFFFFu /* tag of a receive: the message may have any tag; no message is sent with this tag */

/* What is known of a message of tutti_send. */
typedef struct tutti_message {
  uint32_t rank;  /* the rank that has sent it */
  uint32_t tag;   /* its tag */
  uint64_t bytes; /* its length */
} tutti_message;

/* Description of a call. Zero is the default of every field. The collective determines what the buffers hold, in
 * elements:
 *
 *   collective        send holds                  recv holds               in place (two equivalent forms)
 *   allreduce         count                       count                    send == recv, or send = TUTTI_IN_PLACE
 *   reduce            count                       count, at root           at root: as allreduce
 *   broadcast         count, at root              count (root may give     at root: as allreduce
 *                                                 send only, or in place)
 *   gather            count                       ranks * count, at root   at root: send == recv + root * count, or
 *                                                                          send = TUTTI_IN_PLACE
 *   scatter           ranks * count, at root      count                    at root: recv == send + root * count, or
 *                                                                          recv = TUTTI_IN_PLACE
 *   allgather         count                       ranks * count            send == recv + rank * count, or
 *                                                                          send = TUTTI_IN_PLACE
 *   reduce_scatter    ranks * count               count                    recv == send + rank * count (as in NCCL), or
 *                                                                          recv = TUTTI_IN_PLACE, which means the same.
 *                                                                          (MPI's form, with the result at the start
 *                                                                          of the buffer, is not supported.)
 *   alltoall          ranks * count               ranks * count            send == recv, or send = TUTTI_IN_PLACE
 *   scan, exscan      count                       count                    send == recv, or send = TUTTI_IN_PLACE
 *                                                 (exscan: rank 0's recv is unchanged)
 *   send, recv        count, to / from `peer`, matched by `tag` (see Messages below)
 *   barrier           nothing
 *
 * The vector variants take one count per rank, and offsets (displacements) in elements into the buffer; offsets NULL:
 * the blocks are packed in rank order. In place is as above, with the rank's own block at its offset.
 *   allgatherv, reduce_scatterv  counts[ranks], equal on all ranks; offsets for the long buffer
 *   gatherv, scatterv            counts[ranks], offsets at root; other ranks give `count`, their own
 *   alltoallv                    counts, offsets for send; recv_counts, recv_offsets for recv; in place: equal values
 *
 * Buffers. If the call is not in place, the received bytes must not overlap the sent bytes or each other; blocks of one
 * buffer may lie in the gaps of the other. A call is in place if the bytes of the rank's own block (alltoall,
 * alltoallv: of every block) are the same in both buffers, wherever the buffers begin. A buffer may be NULL only if
 * nothing in it is read or written. It may begin at any byte, but reductions can be slower if it is not aligned to its
 * elements.
 *
 * Blocks. If a collective cuts a buffer into one block per rank, the blocks may lie anywhere in memory: send_blocks and
 * recv_blocks give the address of each block, instead of send, recv and the offsets. recv_blocks is for gather(v),
 * allgather(v) and alltoall(v), send_blocks for scatter(v), reduce_scatter(v) and alltoall(v). In a call with a root,
 * only the root gives them. The number of elements of each block is that of the call without them. The address of an
 * empty block is not used. In place: the rank's own block has the same address as the other buffer, or the other buffer
 * is TUTTI_IN_PLACE; alltoall(v): all blocks have the same addresses in both buffers, or send is TUTTI_IN_PLACE. Each
 * rank decides for itself; blocks in memory of tutti_alloc, in registered and in other memory may be mixed. Repeated
 * calls are faster if the addresses are those of the call before. For on_ready and tutti_request_fill, elements are
 * numbered as if the blocks were packed in rank order.
 *
 * Tensors (tutti/tensor.h). `in` and `out` replace send, recv, count and type. A rank that has both buffers gives both
 * tensors; their layouts may differ. `dim` is the dimension along which a tensor is cut into one block per rank: 0 is
 * the tensor's first dimension, -1 its last. It cuts `out` in gather and allgather, `in` in scatter and reduce_scatter,
 * and both in alltoall. Other collectives cut nothing. alltoall may cut `out` along another dimension, `out_dim`. A
 * call is in place if both tensors have the same memory, shape and layout (alltoall: and are cut along the same
 * dimension). Otherwise they share no byte, but one may lie in the gaps of the other. Layouts may differ between ranks,
 * shapes may not, unless the flag TUTTI_ANY_SHAPE is set: then other ranks may give tensors of other shapes, with the
 * same flag, or buffers. Their blocks must have as many elements, which are in logical order. The vector variants take
 * no tensors.
 *
 * Messages. Messages of one pair of ranks and one tag are received in the order in which they were sent. A receive with
 * peer TUTTI_ANY_RANK takes a message of any rank of the communicator, with tag TUTTI_ANY_TAG one of any tag. `message`
 * then tells whose message it was. If several open receives could take a message, the one that was started first does. If
 * messages of several ranks are there, receives from any rank take them in turn, so no sender is left waiting for ever. The
 * length must be that of the message, so tutti_probe may have to ask for it first. Such receives use one lane. A receive
 * from any rank fails with TUTTI_ERR_PEER if another rank dies, or if all others have freed the communicator. A message
 * that arrives before a receive asks for it is copied aside if it is in front of one that is wanted, which takes memory.
 *
 * Lanes. With lanes > 0 every block is cut into that number of parts (a long block: into a multiple of that number),
 * and the algorithm runs on each part. Parts go to the lanes in turn; each lane has its own channels between any two
 * ranks. Allowed are 1 to 8 lanes, or 1 to 4 for an algorithm that uses two lanes itself. In send and recv both ranks
 * give the same number. Each lane then carries one part of the message directly from the sender to the receiver; no
 * other rank takes part. A barrier ignores lanes. A user plan defines its own lanes, so `lanes` must be 0 in a call
 * with a user plan.
 *
 * Leaves. A reduction with leaves = k has k inputs on each rank instead of one, and always has the canonical order:
 * its tree goes over all leaves in rank order. So with L leaves in all, the result has the same bits on every number
 * of ranks: 12 leaves on 12 ranks with 1 leaf each, on 6 with 2, on 3 with 4, or on 1 rank with 12. k is a power of
 * two; on a single rank it is any number. send holds k whole send buffers, one after the other, each as long as the
 * table above says, for the vector variants to the end of the last block; `in` describes the first of k tensors, of
 * which each begins where the memory of the one before ends. In place, recv is or lies in the first of them; otherwise
 * it shares no byte with what the leaves occupy, gaps included, except those of the first. For a plan such a call is
 * not in place. avg divides by ranks * k, and premul_sum multiplies every leaf by this rank's factor. tutti_start and
 * tutti_restart add up the leaves before they return, into memory of the library for one leaf. in_parts and
 * send_blocks are not possible. If the program has the leaves one after the other, tutti_fold adds them up, in less
 * memory; the call then has the same k and folded = true, and send is what tutti_fold_result returned (with in: the
 * tensor's memory is). in_parts and send_blocks are possible then if there is more than one rank. folded concerns this
 * rank alone.
 *
 * Partitioned calls. on_ready is called for each part of the output as soon as that part is final. Every element is
 * reported once, before the call is complete; the order is not fixed. Any thread may call on_ready while it is in
 * tutti_start, tutti_restart, tutti_test, tutti_progress or a function that waits, for this call or for another call.
 * Within on_ready only tutti_request_fill may be called, for requests of the same communicator. Output elements are
 * numbered from the start of recv. Elements of `out` are numbered in logical order, block after block if `dim` cuts
 * this tensor; for block floats, items are numbered instead. With in_parts the program provides the input in parts
 * while the call runs, by tutti_request_fill. The library does not read an element before the program has provided it;
 * if the call is in place, it does not write the element before, either. on_ready and in_parts concern this rank
 * alone. */
typedef struct tutti_call {
  tutti_collective collective;
  const void *send; /* input buffer */
  void *recv;       /* output buffer */
  size_t count;     /* number of elements, as in the table above */
  tutti_datatype type;
  tutti_op op;                /* operation of a reduction */
  uint32_t root;              /* root of reduce, broadcast, gather(v) and scatter(v) */
  uint32_t peer;              /* for send: the receiving rank; for recv: the sending rank, or TUTTI_ANY_RANK */
  uint32_t tag;               /* message tag of send and recv; both ranks give the same number, or recv TUTTI_ANY_TAG */
  const size_t *counts;       /* vector variants: [ranks] elements of each block; for alltoallv, of the blocks in
                               * send */
  const size_t *offsets;      /* vector variants: [ranks] displacements of the blocks, in elements; NULL: packed */
  const size_t *recv_counts;  /* alltoallv: [ranks] elements of each block in recv */
  const size_t *recv_offsets; /* alltoallv: [ranks] displacements of the blocks in recv, in elements; NULL: packed */
  double scale;               /* premul_sum: factor by which this rank's input is multiplied */
  /* Name of the algorithm to use, such as "ring" (see `tutti list`), equal on all ranks. NULL: TUTTI_ALGORITHM or the
   * selection table, tutti-tuning(5), decides. */
  const char *algorithm;
  /* Plan to execute, with equal content on all ranks; NULL: none. The plan must fit the call: its collective, number of
   * ranks and root, and whether it is in place. */
  const tutti_plan *plan;
  int timeout_ms;          /* time limit in ms; 0: the limit of the communicator */
  const tutti_tensor *in;  /* input tensor, instead of send, count and type */
  const tutti_tensor *out; /* output tensor, instead of recv, count and type */
  int dim;                 /* call with tensors: dimension along which a tensor is cut into one block per rank (see
                            * Tensors above) */
  int out_dim;             /* alltoall of tensors: dimension along which `out` is cut; used only if has_out_dim is
                            * true */
  bool has_out_dim;
  bool in_parts;            /* the program provides the input in parts, by tutti_request_fill */
  uint32_t lanes;           /* number of lanes, equal on all ranks; 0: the library decides */
  tutti_on_ready *on_ready; /* callback that reports final parts of the output; NULL: none */
  void *on_ready_context;   /* passed to on_ready */
  tutti_message *message;   /* recv: set when the request is complete without an error; NULL: not wanted */
  /* [ranks] addresses of the blocks, instead of send or recv; NULL: the blocks lie in send, in recv (see Blocks above) */
  const void *const *send_blocks;
  void *const *recv_blocks;
  /* Reduction with a user operation: passed to the function instead of the operation's own context, in this call and on
   * this rank. It must stay until the request is complete. NULL: the operation's own context. */
  void *op_context;
  /* Bytes of an element if type is TUTTI_BYTES, equal on all ranks: 1 to TUTTI_ELEMENT_BYTES_MAX, and not more than
   * TUTTI_SLOT_BYTES, which is at least 8 KiB by default. 0 for all other datatypes. */
  size_t element_bytes;
  uint32_t flags; /* TUTTI_ANY_SHAPE, or 0 */
  /* Order of the reduction, equal on all ranks; TUTTI_ORDER_ANY: that of the communicator, which it has from
   * tutti_options. With TUTTI_ORDER_CANONICAL, an algorithm or a plan of another order is refused. */
  tutti_order order;
  uint32_t leaves; /* reduction: number of inputs in send, equal on all ranks (see Leaves above); 0: one */
  uint32_t folded; /* true: the leaves are added up already, send is the result of tutti_fold; false: they are not */
  /* New fields are added at the end, here. */
} tutti_call;

/* Starts a call and returns without waiting. All ranks start their collectives in the same order; sends and receives
 * are ordered only per pair of ranks and tag. If this rank can detect without the other ranks that a call is invalid,
 * tutti_start returns TUTTI_ERR_ARGUMENT, and this error becomes the verdict of the communicator (its first failure).
 * Any thread may call it. The buffers belong to the library until the request is complete; *call, the descriptions of
 * its tensors and its arrays of counts and offsets are copied; a plan is not needed after the call. What
 * on_ready_context and message point to stays in use until the request is complete. The library owns the request; tutti_wait and
 * tutti_test free it. If request is NULL, the call has no handle, and tutti_wait_all(NULL, 0) waits for it. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_start_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes,
                                                    tutti_request **request);
TUTTI_CHECKED static inline tutti_err tutti_start(tutti_comm *comm, const tutti_call *call, tutti_request **request) {
  return tutti_start_sized(comm, call, sizeof *call, request);
}

/* Starts a call and waits until it is complete. Ranks and threads as in tutti_start. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_run_call_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes);
TUTTI_CHECKED static inline tutti_err tutti_run_call(tutti_comm *comm, const tutti_call *call) {
  return tutti_run_call_sized(comm, call, sizeof *call);
}

/* Checks whether tutti_start, with a request, would accept the call on this rank now. Returns TUTTI_OK, or the error with
 * which tutti_start would refuse the call; the message is at tutti_error_message(NULL). Nothing is started, the
 * communicator does not fail, and no other rank learns of the check. If the communicator has failed, returns its verdict
 * (its first failure). What only several ranks can find out together, such as a call that differs from rank to rank, is
 * not checked. A start of the same call right after the check costs less. Local; any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_check_call_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes);
TUTTI_CHECKED static inline tutti_err tutti_check_call(tutti_comm *comm, const tutti_call *call) {
  return tutti_check_call_sized(comm, call, sizeof *call);
}

/* Tells what tutti_start, with a request, would use for the call on this rank now. *algorithm: the name of the algorithm,
 * as in `tutti list`, which stays valid; or that of the call's plan, which is valid while the plan exists. *canonical:
 * true: the result has the bits of the canonical order (TUTTI_ORDER_CANONICAL), because the call has that order, or
 * because its bits do not depend on any. Both may be NULL. Errors as in tutti_check_call; both are NULL and false then.
 * Local; any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_query_call_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes,
                                                         const char **algorithm, bool *canonical);
TUTTI_CHECKED static inline tutti_err tutti_query_call(tutti_comm *comm, const tutti_call *call, const char **algorithm,
                                                       bool *canonical) {
  return tutti_query_call_sized(comm, call, sizeof *call, algorithm, canonical);
}

/* Adds up the leaves of a later call, one at a time, so that the program need not hold all of them: it has memory for at
 * most log2(k) + 1 leaves, where k is tutti_call.leaves. Afterwards the call with folded = true has the same bits as one
 * with all leaves in send. */
typedef struct tutti_fold tutti_fold;
/* Creates a fold for the reduction that *call describes, which has leaves = k. Used are its collective, count or
 * counts and offsets, type and element_bytes, or its tensor `in`, without the tensor's memory, and dim; op,
 * op_context and scale; all is copied, but what the context of an operation points to stays in use until the fold is
 * freed. The memory is that of tutti_alloc if it takes at most a quarter of what is free there (TUTTI_SHM_BYTES).
 * Errors: TUTTI_ERR_ARGUMENT (no such call has such a fold), TUTTI_ERR_MEMORY. They concern this rank alone; the
 * message is at tutti_error_message(NULL). Local; any thread. tutti_fold_free frees it, before the communicator is
 * freed. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_fold_create_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes,
                                                          tutti_fold **fold);
TUTTI_CHECKED static inline tutti_err tutti_fold_create(tutti_comm *comm, const tutti_call *call, tutti_fold **fold) {
  return tutti_fold_create_sized(comm, call, sizeof *call, fold);
}
/* Adds the next leaf, in the order of the leaves: a send buffer, or the memory of a tensor with the layout of `in`. It is
 * not needed afterwards. The first leaf after the k-th begins a new fold, in the same memory; a request that reads the
 * fold before must be complete. Error: TUTTI_ERR_ARGUMENT (an argument is NULL), with the message at
 * tutti_error_message(NULL). Local; one thread at a time. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_fold_add(tutti_fold *fold, const void *leaf);
/* Returns the fold, for tutti_call.send; it is always the same memory. NULL: fewer than k leaves were added. On a single
 * rank it consists of two sums, one after the other, because the call adds the last two. */
TUTTI_API void *tutti_fold_result(const tutti_fold *fold);
/* Frees a fold. No open request may read it. NULL is accepted. Local; one thread at a time. */
TUTTI_API void tutti_fold_free(tutti_fold *fold);

/* Provides elements first to first + count - 1 of the input of a call that was started with in_parts. From now on these
 * elements belong to the library. Elements are numbered from the start of send, gaps between blocks included; elements
 * of `in` are numbered as in on_ready. Each element is filled once, in any order; with a persistent request, once after
 * each start. The call is complete only after all elements are filled. This function does not advance the call;
 * tutti_test does.
 *
 * A thread that waits for a call whose input it has not filled would wait for ever. A wait for a later call on the same
 * communicator would never end either, since messages of earlier calls are sent first. Such a wait returns
 * TUTTI_ERR_ARGUMENT in the thread that started the call, and the calls continue; other threads may wait, or fill the
 * input. For the same reason, if the output of one call becomes the input of another, start the call that produces the
 * output first. A call with in_parts cannot be one of the calls of tutti_start_all.
 *
 * Errors: TUTTI_ERR_ARGUMENT (no such elements, or some are filled already), TUTTI_ERR_MEMORY, or the error with which
 * the call has failed. Nothing is filled then. Local; any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_request_fill(tutti_request *request, size_t first, size_t count);

/* Starts `count` calls, for example sends and receives, as one request. The request is complete when all calls are
 * complete. Ranks, threads and memory as in tutti_start; the array is copied. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_start_all_sized(tutti_comm *comm, const tutti_call *calls, size_t call_bytes,
                                                        size_t count, tutti_request **request);
TUTTI_CHECKED static inline tutti_err tutti_start_all(tutti_comm *comm, const tutti_call *calls, size_t count,
                                                      tutti_request **request) {
  return tutti_start_all_sized(comm, calls, sizeof *calls, count, request);
}

/* Tests whether a request is complete, and sets *done. Advances open requests as tutti_wait does, but does not wait for
 * messages. If the request is complete, returns its result, frees the request and sets *request to NULL; a persistent
 * request is not freed. A NULL request counts as complete. Local; any thread, but one thread at a time for one request;
 * the same holds for the functions that wait. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_test(tutti_request **request, bool *done);

/* Blocks until the request is complete or has failed. Then returns its result and frees the request as tutti_test does.
 * After an error the buffers belong to the caller again. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_wait(tutti_request **request);

/* Waits like tutti_wait, but gives up after timeout_ms ms (0: does not wait, as tutti_test; TUTTI_NO_TIMEOUT: no limit).
 * If the request is complete or has failed, sets *done to true, returns its result and frees it as tutti_test does. If
 * this wait gives up, sets *done to false and returns TUTTI_OK: the request stays open, and the communicator stays
 * usable. This limit and that of the call are independent: if tutti_call.timeout_ms runs out, the communicator fails, as
 * in tutti_wait. A wait with a limit is not refused if input is missing (see tutti_request_fill). A NULL request counts
 * as complete. Local; any thread, as in tutti_test. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_wait_for(tutti_request **request, int timeout_ms, bool *done);

/* Returns true if the request is complete, or if it or its communicator has failed: a wait or test then returns at once,
 * with the result. Advances nothing. A request that no thread advances is not done, even if all messages have arrived. NULL
 * counts as complete, and so does a persistent request that has not been started. Takes a few ns, and never waits for
 * another thread. Local; any thread, also while other threads test the request or wait for it, but not while or after
 * one of them frees it. */
TUTTI_API bool tutti_request_done(const tutti_request *request);

/* Advances all open requests once (not once for each request of the list), and then finds those requests of a list that
 * are complete. Sets *done to their number, and indices[0] to indices[*done - 1] to their positions in the list, in
 * ascending order. Frees them as tutti_test does. `indices` has room for `count` positions.
 *
 * Returns TUTTI_OK, also if none is complete. If a request has failed, returns its error: its position is the last one
 * in `indices`, and the next call finds the complete requests behind it. If *done is 0, the error is not that of a
 * request, but TUTTI_ERR_ARGUMENT.
 *
 * Skips NULL entries, and persistent requests that have not been started; *done is 0 if there are no others. A persistent
 * request that is complete is found by every call until it is started again, or taken from the list. The requests may
 * belong to several communicators. Local; any thread, as in tutti_test. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_test_some(tutti_request **requests, size_t count, size_t *indices,
                                                  size_t *done);

/* Waits until one request of a list is complete, and sets *index to its position. Returns the result of this request
 * and frees it as tutti_test does. NULL entries are skipped; if all entries are NULL, *index is count. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_wait_any(tutti_request **requests, size_t count, size_t *index);

/* Waits until all requests of a list are complete, and returns their first error. If requests is NULL, waits for all
 * calls that this thread has started. The handles of these calls stay valid; their requests are then complete. Local;
 * any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_wait_all(tutti_request **requests, size_t count);

/* Advances the open requests of this communicator, and of those other communicators that no thread is advancing. For
 * programs with a progress thread. Waits at most timeout_ms ms (0: not at all; TUTTI_NO_TIMEOUT: without limit) until a
 * request has advanced, or the library of tutti_options.foreign; this includes requests that other threads start
 * meanwhile. If the communicator has failed,
 * returns its verdict (its first failure). Local; any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_progress(tutti_comm *comm, int timeout_ms);

/* Searches for a message that a receive from `rank` with that tag would take if it were started now. rank may be
 * TUTTI_ANY_RANK, and tag TUTTI_ANY_TAG. If there is one, sets *found to true and *message to what it is; the message stays
 * there. A message that an open receive takes does not count. Otherwise sets *found to false, which is no error. Waits for
 * a message for at most timeout_ms ms (0: not at all, but advances open requests; TUTTI_NO_TIMEOUT: without limit). If
 * several threads receive, one of them may take the message before the thread that has found it. Messages that were sent
 * over several lanes are found, too, but only a receive that names their sender, tag and lanes can take them. Errors:
 * TUTTI_ERR_ARGUMENT (no such rank), TUTTI_ERR_MEMORY, TUTTI_ERR_PEER (a rank has died, or none that could send is left;
 * then the communicator fails), or the verdict of the communicator. Local; any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_probe(tutti_comm *comm, uint32_t rank, uint32_t tag, int timeout_ms,
                                              bool *found, tutti_message *message);

/* Makes a persistent request, which can be started any number of times with the same buffers. Ranks, threads and memory
 * as in tutti_start, but the buffers must exist until the caller frees the request with tutti_request_free. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_prepare_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes,
                                                      tutti_request **request);
TUTTI_CHECKED static inline tutti_err tutti_prepare(tutti_comm *comm, const tutti_call *call, tutti_request **request) {
  return tutti_prepare_sized(comm, call, sizeof *call, request);
}
/* Starts a persistent request, which must not be open. Between tutti_restart and tutti_wait nothing is allocated, and
 * system calls are made only if a thread has to sleep. Ranks and threads as in tutti_start. The buffers belong to the
 * library until the request is complete. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_restart(tutti_request *request);
/* Frees a persistent request. NULL is accepted. If the request is open, its buffers are still in use: then its
 * communicator fails with TUTTI_ERR_ARGUMENT, and this failure ends the request. Local; any thread, but no other thread
 * may use the request. */
TUTTI_API void tutti_request_free(tutti_request *request);

/* ---- calls by name: each starts a call and waits for it --------------------------------------------------------- */

/* Reduces the inputs of all ranks; every rank gets the result. In this function and in all below, the buffers are as in
 * the table of tutti_call, and `count` is in elements. All functions are collective, except tutti_send and tutti_recv:
 * only the two ranks of the message call these. Any thread may call the functions. Buffers and arrays belong to the
 * caller again after the return. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_allreduce(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                  tutti_datatype type, tutti_op op);
/* Reduces the inputs of all ranks; only `root` gets the result. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_reduce(tutti_comm *comm, const void *send, void *recv, size_t count,
                                               tutti_datatype type, tutti_op op, uint32_t root);
/* Copies the buffer of `root` to all ranks. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_broadcast(tutti_comm *comm, void *buffer, size_t count, tutti_datatype type,
                                                  uint32_t root);
/* Collects the inputs of all ranks on `root`, in rank order. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_gather(tutti_comm *comm, const void *send, void *recv, size_t count,
                                               tutti_datatype type, uint32_t root);
/* Gives every rank its block of the buffer of `root`. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_scatter(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                tutti_datatype type, uint32_t root);
/* Collects the inputs of all ranks on every rank, in rank order. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_allgather(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                  tutti_datatype type);
/* Reduces the inputs of all ranks; every rank gets its block of the result. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_reduce_scatter(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                       tutti_datatype type, tutti_op op);
/* Sends block i of this rank's input to rank i, and collects the blocks sent to this rank, in rank order. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_alltoall(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                 tutti_datatype type);
/* Blocks until all ranks have called tutti_barrier. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_barrier(tutti_comm *comm);
/* Inclusive scan: rank r gets the reduction of the inputs of ranks 0 to r. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_scan(tutti_comm *comm, const void *send, void *recv, size_t count,
                                             tutti_datatype type, tutti_op op);
/* Exclusive scan: rank r gets the reduction of the inputs of ranks 0 to r - 1; the output of rank 0 is unchanged. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_exscan(tutti_comm *comm, const void *send, void *recv, size_t count,
                                               tutti_datatype type, tutti_op op);
/* Collects blocks of different sizes on `root`. count: elements of this rank's block. counts, offsets: one number per
 * rank, used only at root, as in tutti_call; they may be NULL on the other ranks. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_gatherv(tutti_comm *comm, const void *send, size_t count, void *recv,
                                                const size_t *counts, const size_t *offsets, tutti_datatype type,
                                                uint32_t root);
/* Distributes blocks of different sizes from `root`. counts, offsets: one number per rank, used only at root. count:
 * elements of this rank's block. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_scatterv(tutti_comm *comm, const void *send, const size_t *counts,
                                                 const size_t *offsets, void *recv, size_t count, tutti_datatype type,
                                                 uint32_t root);
/* Collects blocks of different sizes on all ranks. counts, offsets: one number per rank, equal on all ranks. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_allgatherv(tutti_comm *comm, const void *send, void *recv, const size_t *counts,
                                                   const size_t *offsets, tutti_datatype type);
/* Reduces the inputs of all ranks; each rank gets one block of the result. The blocks may differ in size. counts,
 * offsets: one number per rank, equal on all ranks. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_reduce_scatterv(tutti_comm *comm, const void *send, const size_t *counts,
                                                        const size_t *offsets, void *recv, tutti_datatype type,
                                                        tutti_op op);
/* Sends a block to every rank, and receives a block from every rank. The blocks may differ in size. All arrays have one
 * entry per rank. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_alltoallv(tutti_comm *comm, const void *send, const size_t *counts,
                                                  const size_t *offsets, void *recv, const size_t *recv_counts,
                                                  const size_t *recv_offsets, tutti_datatype type);
/* Sends a message to `peer`. Messages of one pair of ranks and one tag arrive in the order in which they were sent. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_send(tutti_comm *comm, const void *buffer, size_t count, tutti_datatype type,
                                             uint32_t peer, uint32_t tag);
/* Receives the next message from `peer` with this tag. peer may be TUTTI_ANY_RANK, and tag TUTTI_ANY_TAG. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_recv(tutti_comm *comm, void *buffer, size_t count, tutti_datatype type,
                                             uint32_t peer, uint32_t tag);

/* ---- calls by name that start a call without waiting ------------------------------------------------------------- */

/* These functions do the same as the functions without i, but return without waiting, as tutti_start does. The program
 * waits for *request or tests it. If request is NULL, the call has no handle, and tutti_wait_all(NULL, 0) waits for the
 * call. The arrays of counts and offsets are copied; the buffers belong to the library until the request is complete.
 * Ranks and threads as above. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_iallreduce(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                   tutti_datatype type, tutti_op op, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_ireduce(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                tutti_datatype type, tutti_op op, uint32_t root,
                                                tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_ibroadcast(tutti_comm *comm, void *buffer, size_t count, tutti_datatype type,
                                                   uint32_t root, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_igather(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                tutti_datatype type, uint32_t root, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_iscatter(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                 tutti_datatype type, uint32_t root, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_iallgather(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                   tutti_datatype type, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_ireduce_scatter(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                        tutti_datatype type, tutti_op op, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_ialltoall(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                  tutti_datatype type, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_ibarrier(tutti_comm *comm, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_iscan(tutti_comm *comm, const void *send, void *recv, size_t count,
                                              tutti_datatype type, tutti_op op, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_iexscan(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                tutti_datatype type, tutti_op op, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_igatherv(tutti_comm *comm, const void *send, size_t count, void *recv,
                                                 const size_t *counts, const size_t *offsets, tutti_datatype type,
                                                 uint32_t root, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_iscatterv(tutti_comm *comm, const void *send, const size_t *counts,
                                                  const size_t *offsets, void *recv, size_t count, tutti_datatype type,
                                                  uint32_t root, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_iallgatherv(tutti_comm *comm, const void *send, void *recv,
                                                    const size_t *counts, const size_t *offsets, tutti_datatype type,
                                                    tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_ireduce_scatterv(tutti_comm *comm, const void *send, const size_t *counts,
                                                         const size_t *offsets, void *recv, tutti_datatype type,
                                                         tutti_op op, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_ialltoallv(tutti_comm *comm, const void *send, const size_t *counts,
                                                   const size_t *offsets, void *recv, const size_t *recv_counts,
                                                   const size_t *recv_offsets, tutti_datatype type,
                                                   tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_isend(tutti_comm *comm, const void *buffer, size_t count, tutti_datatype type,
                                              uint32_t peer, uint32_t tag, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_irecv(tutti_comm *comm, void *buffer, size_t count, tutti_datatype type,
                                              uint32_t peer, uint32_t tag, tutti_request **request);

#ifdef __cplusplus
}
#endif
#endif
