/* tutti.h: collective communication between processes.
 *
 * A communicator joins `ranks` processes (or threads). Every rank describes the same call; a plan is picked,
 * carried out, and the call is done on a rank when its part of the result is there. See tutti(7) and docs/.
 *
 * Errors. Every function that can fail returns a tutti_err; tutti_error_message() holds the sentence for it. A failure
 * on one rank becomes the verdict of the communicator on all of its ranks: from then on every call on it returns
 * that verdict, and only tutti_comm_free() and tutti_comm_close() work. Other communicators are unaffected.
 *
 * Threads. Requests belong to a communicator: any thread may start calls there, test its requests and wait for them. Calls
 * that overlap are carried out one after the other. While one thread waits, others may start, test and wait on the same
 * communicator; a wait moves on the open requests of all communicators of the process that no other thread is moving. All
 * ranks must start the collectives of a communicator in one order; where several threads start some, that is the
 * program's part. tutti_abort, tutti_rank, tutti_ranks and tutti_error_message never wait for another thread, and may be
 * called by any until tutti_comm_free or tutti_comm_close begins; the text of tutti_error_message changes only by the
 * calling thread's next call. on_ready and user operations are called by any thread that is in the library, one at a time for a
 * communicator.
 *
 * Fork. A child of fork() that makes a call with what belongs to its parent (a communicator, a request, a window, a
 * channel) gets ARGUMENT, and nothing has happened; it may exec, or call tutti_init for a world of its own. It does not keep
 * its parent's rank alive, and its end does not matter to the job.
 *
 * Descriptors. The library has one open, of the memory that the ranks share. The program may close it, as one that closes all
 * from 3 on does: the rank goes on. */
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
  TUTTI_ERR_ARGUMENT,    /* a call, option or file that cannot be meant */
  TUTTI_ERR_ENVIRONMENT, /* variables half set, unknown or of a wrong form */
  TUTTI_ERR_MISMATCH,    /* two ranks disagree about a call */
  TUTTI_ERR_PEER,        /* a rank died or left */
  TUTTI_ERR_TIMEOUT,
  TUTTI_ERR_ABORTED, /* some rank called tutti_abort() */
  TUTTI_ERR_MEMORY,
  TUTTI_ERR_SYSTEM, /* the operating system refused */
  TUTTI_ERR_UNSUPPORTED,
} tutti_err;

typedef enum tutti_collective {
  TUTTI_ALLREDUCE,
  TUTTI_REDUCE,
  TUTTI_BROADCAST,
  TUTTI_GATHER,
  TUTTI_SCATTER,
  TUTTI_ALLGATHER,
  TUTTI_REDUCE_SCATTER,
  TUTTI_ALLTOALL,
  TUTTI_BARRIER,
  TUTTI_SCAN,
  TUTTI_EXSCAN,
  TUTTI_GATHERV,
  TUTTI_SCATTERV,
  TUTTI_ALLGATHERV,
  TUTTI_REDUCE_SCATTERV,
  TUTTI_ALLTOALLV,
  TUTTI_SEND,
  TUTTI_RECV,
  TUTTI_COLLECTIVES
} tutti_collective;

typedef enum tutti_datatype {
  TUTTI_I8,
  TUTTI_U8,
  TUTTI_I16,
  TUTTI_U16,
  TUTTI_I32,
  TUTTI_U32,
  TUTTI_I64,
  TUTTI_U64,
  TUTTI_F16,
  TUTTI_BF16,
  TUTTI_F32,
  TUTTI_F64,
  TUTTI_F8E4M3, /* OCP: no infinity, 448 is the largest, beyond it NaN */
  TUTTI_F8E5M2,
  TUTTI_BFP8, /* block floats: of tensors alone, in tiles */
  TUTTI_BFP4,
  TUTTI_DATATYPES
} tutti_datatype;

/* Block floats. 16 neighbours in the row of a tile are a group: they share an exponent E, a byte; each has a sign above a
 * magnitude M of 7 bits (bfp8) or 3 (bfp4), and is worth M * 2^(E - 133), or M * 2^(E - 129). Made from f32, E is the
 * exponent byte of the largest of the group (at least 1; 0 if all become zeros), and each is rounded to nearest even,
 * but not up beyond the largest M. Zero is written without a sign. E = 255 is of groups with an infinity or NaN: the
 * largest M there is NaN, and what is worth 2^128 or more (M >= 64, or 4) is infinity.
 * In memory, the E of all groups of a tile come before all their magnitudes. An *item*, which is what crosses as a whole
 * and what tutti_datatype_size counts, is a group as E and its 16 bytes (bfp8), or its 8, each with the earlier of two
 * elements in the low half (bfp4): 17 bytes, and 9. */

/* Operations. Floating min and max: NaN if any operand is NaN, and -0 < +0. Integer sum and prod wrap; integer avg is
 * the wrapped sum divided by the number of ranks, rounded toward zero. Bit and logical operations take integers only
 * (logical results are 0 or 1). f16, bf16, f8 and bfp are computed in f32 and rounded once per reduction step. avg divides
 * once, at the final write. premul_sum multiplies each rank's input by its own tutti_call.scale as it is first read
 * (integers: the scale must be an integer of that type). scan and exscan refuse avg. User
 * operations: tutti_op_create(). */
typedef uint32_t tutti_op;
enum {
  TUTTI_SUM,
  TUTTI_PROD,
  TUTTI_MIN,
  TUTTI_MAX,
  TUTTI_AVG,
  TUTTI_BAND,
  TUTTI_BOR,
  TUTTI_BXOR,
  TUTTI_LAND,
  TUTTI_LOR,
  TUTTI_LXOR,
  TUTTI_PREMUL_SUM,
  TUTTI_OPS
};

typedef struct tutti_comm tutti_comm;
typedef struct tutti_request tutti_request;
typedef struct tutti_plan tutti_plan;
typedef struct tutti_tensor tutti_tensor; /* tutti/tensor.h */

#define TUTTI_DIMS 5

/* ---- general ---------------------------------------------------------------------------------------------------- */

/* major * 10000 + minor * 100 + patch of the library that runs (the macros say what was compiled against). */
TUTTI_API int tutti_version(void);

/* Short name of an error, as "TUTTI_ERR_PEER"; never NULL. */
TUTTI_API const char *tutti_err_name(tutti_err err);

/* The sentence behind the last error of this thread; of a communicator that has failed, behind its verdict. Valid until this
 * thread's next call. Never NULL; "" if there was none. */
TUTTI_API const char *tutti_error_message(const tutti_comm *comm);

/* Bytes of an element, or of a block float's item; 0 if unknown. */
TUTTI_API size_t tutti_datatype_size(tutti_datatype type);
TUTTI_API const char *tutti_datatype_name(tutti_datatype type);
TUTTI_API const char *tutti_op_name(tutti_op op);
TUTTI_API const char *tutti_collective_name(tutti_collective collective);

/* ---- starting up ------------------------------------------------------------------------------------------------ */

/* How ranks that were started by something else find each other: by an allgather that they have, or by a key-value store.
 * All callbacks return 0, or another number if they failed, and are called by the thread that is in tutti_init alone,
 * until it returns; no time-out interrupts one. A rank that cannot go on still joins the next allgather and says so there, so
 * that the others end as well; only one whose options are refused, or that has no memory for the first, does not come. */
typedef struct tutti_bootstrap {
  uint32_t rank, ranks; /* this process; of how many */
  /* Collective over the ranks: blocks until all have called it, the same number of times, with the same bytes (a few
   * hundred). all has room for ranks * bytes; what rank r brought goes to all + r * bytes. */
  int (*allgather)(void *context, const void *mine, void *all, size_t bytes);
  /* Instead of it: keeps a copy of the value under a key (at most 63 characters) that was never set before in this store; and
   * waits until a key is set, and copies its value of just so many bytes. For a second world by the same store the program
   * has to make the keys others, as by a prefix. */
  int (*set)(void *context, const char *key, const void *value, size_t bytes);
  int (*get)(void *context, const char *key, void *value, size_t bytes);
  void *context; /* what every callback is given */
} tutti_bootstrap;

typedef struct tutti_options {
  int timeout_ms;      /* for every call on the communicator; 0: TUTTI_TIMEOUT_MS, or none; negative: none */
  int join_timeout_ms; /* how long to wait for the other ranks to appear; 0: 60,000 */
  int spin_us; /* how long a waiting rank polls before it yields its core or sleeps; 0: TUTTI_SPIN_US, or as long as it finds
                * worth while with what else runs on its core; negative: not at all */
  /* What follows wins over the environment. */
  const tutti_bootstrap *bootstrap; /* how the ranks find each other; NULL: as below */
  uint32_t rank, ranks;             /* this process, and of how many; ranks 0: as the environment says */
  const char *address;              /* host name or address at which rank 0 listens */
  uint16_t port;                    /* ... and its port; on rank 0 0 is any that is free, with on_listen */
  const char *secret;               /* of the job, the same on all ranks; NULL: TUTTI_SECRET or TUTTI_SECRET_FILE */
  /* NULL, or called on rank 0 by this thread once it listens, with its port: so that the program can tell the other ranks */
  void (*on_listen)(void *context, uint16_t port);
  void *on_listen_context;
} tutti_options;

/* Joins the world that the environment describes and sets *world. Collective over all processes of the job. Reads
 * RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (as torchrun sets them; the port after MASTER_PORT is used), or
 * TUTTI_RANK, TUTTI_WORLD_SIZE, TUTTI_MASTER_ADDR and TUTTI_MASTER_PORT (used as it is). With none set: a world of one.
 * Or the world that the options describe; then no variable says which rank this is. options may be NULL. A failure of one rank
 * ends tutti_init on all of them. Errors: ARGUMENT (options that do not fit together), ENVIRONMENT (half set, unknown
 * TUTTI_ name), TIMEOUT (names the missing ranks), PEER, UNSUPPORTED (another host), SYSTEM, MEMORY; the sentence is at
 * tutti_error_message(NULL). */
TUTTI_API TUTTI_CHECKED tutti_err tutti_init(const tutti_options *options, tutti_comm **world);

/* ---- communicators ---------------------------------------------------------------------------------------------- */

/* A communicator of this rank alone; not collective. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_comm_self(tutti_comm *parent, tutti_comm **self);

#define TUTTI_NO_COLOR (-1)
/* Collective over parent: ranks of equal colour form a communicator, ordered by key, then by parent rank. Ranks that
 * give TUTTI_NO_COLOR get *comm = NULL. Colours are >= 0 otherwise. All ranks of the parent must live (else PEER, and the
 * parent has failed); others of the world may be dead. A rank that cannot make its side says why; the others' sides are
 * there, and fail with PEER when they wait for it. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_comm_split(tutti_comm *parent, int color, int key, tutti_comm **comm);

/* Collective over parent: the same ranks, with traffic of their own. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_comm_dup(tutti_comm *parent, tutti_comm **comm);

/* A communicator of some ranks of the parent: ranks[i] becomes its rank i. Only these ranks call, all with the same list and tag,
 * and each waits until all have: for as long as the parent's time limit says, or 60 s. Ranks make those communicators that
 * they share in one order; there is no order among the others, and threads of a rank may make several at a time, of one parent
 * (with lists or tags that differ). Errors: ARGUMENT (the list; no other rank is told), TIMEOUT (names who has not come, and a
 * circle of ranks that wait for each other), PEER, MEMORY; the parent stays as it was. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_comm_create(tutti_comm *parent, const uint32_t ranks[], size_t count,
                                                    uint64_t tag, tutti_comm **comm);

/* Collective over a healthy communicator: waits until every rank has got here and every credit has come home. Open
 * requests must have been waited for. On a failed communicator it is local and never waits. NULL is accepted. Returns
 * the error that kept it from ending in order; the communicator is gone in every case, but where the call was refused
 * (TUTTI_ERR_ARGUMENT) as a child's (see Fork above), or within on_ready. No other thread may use it. */
TUTTI_API tutti_err tutti_comm_free(tutti_comm *comm);

/* The same, of this rank alone: never waits, for destructors. Ranks close their communicators in any order, each in its own. What
 * others still need of this rank's memory stays until they have had it, and is given back in a later call of tutti_comm_create,
 * _close or _free. All ranks close, or all free. Open requests, windows or channels are an error (ARGUMENT), by which the
 * communicator has failed for all. It is gone in every case, as with tutti_comm_free. */
TUTTI_API tutti_err tutti_comm_close(tutti_comm *comm);

TUTTI_API uint32_t tutti_rank(const tutti_comm *comm);
TUTTI_API uint32_t tutti_ranks(const tutti_comm *comm);

/* Default for calls that state none, in ms; 0 or negative: no limit. */
TUTTI_API void tutti_comm_set_timeout(tutti_comm *comm, int timeout_ms);

/* For measurements: from now on what other ranks send to this one on the communicator comes as over a wire of so many bytes a
 * second, also while this rank computes; 0: as memory has it. It does not take this rank's time, but must be looked at, as
 * tutti_test does, before it has carried what a sender may put into it (TUTTI_RING_BYTES): else it is slower. It is this
 * rank's own; one-sided calls do not use it. Errors: ARGUMENT (no number, or a request is open). */
TUTTI_API TUTTI_CHECKED tutti_err tutti_comm_set_wire(tutti_comm *comm, double bytes_per_s);

/* Fails the communicator on all of its ranks with TUTTI_ERR_ABORTED and this reason (NULL: none given). Any thread may call,
 * also while another one waits in a call on it: that one returns with the verdict. */
TUTTI_API void tutti_abort(tutti_comm *comm, const char *reason);

/* ---- memory that all ranks see ----------------------------------------------------------------------------------- */

/* Memory in which collectives need no copies in between: the ranks of a machine map it, read a rank's data where it lies, and
 * store results where they belong. Calls recognise it by its address, any part of it will do, each rank decides for
 * itself. A buffer lies in it as a whole or counts as ordinary memory. Not collective. Aligned to a page; not cleared; in
 * large pages if the system has any. It comes out of the TUTTI_SHM_BYTES of this rank, and lives until it is freed, or until
 * the world is. After a failed call other ranks may still touch it until all that live have freed the communicator; if it is
 * given back before that, nothing else is put there meanwhile. Errors: ARGUMENT (memory is NULL), MEMORY. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_alloc(tutti_comm *comm, size_t bytes, void **memory);
/* Frees what tutti_alloc of that communicator, or of one of its world, gave; NULL is accepted. ARGUMENT if it did not. */
TUTTI_API tutti_err tutti_free(tutti_comm *comm, void *memory);

/* The same for memory that the program has already: its pages are moved into shared memory, at the same address and with their
 * content (about 0.6 ms a MiB). Nobody may use it during the call. From then on a child of fork() shares it, instead of
 * having a copy: that is why it must be asked for. memory and bytes are whole pages. Errors: ARGUMENT, MEMORY, SYSTEM;
 * the memory is then as it was. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_register(tutti_comm *comm, void *memory, size_t bytes);
/* Undoes it, before the program unmaps the memory or gives it to free(): the library knows it by its address. No call that
 * uses the memory may be open, on any rank. Not undone, it stays usable for the life of the process. */
TUTTI_API tutti_err tutti_deregister(tutti_comm *comm, void *memory);

/* ---- a user's reduction ----------------------------------------------------------------------------------------- */

/* result[i] = left[i] op right[i] for i < count elements of the call's type; of block floats, items. result may be
 * left or right, never half of one. All three are aligned to their elements. Must be associative; may be called by any
 * thread that is in the library. */
typedef void tutti_op_function(void *result, const void *left, const void *right, size_t count, tutti_datatype type,
                               void *context);

/* Registers an operation in this process. Ranks must register their operations in the same order: the id is what
 * they compare. commutative = false: only algorithms that combine in rank order are used. name is copied. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_op_create(tutti_op_function *function, void *context, bool commutative,
                                                  const char *name, tutti_op *op);

/* ---- a user's algorithm ----------------------------------------------------------------------------------------- */

/* Reads a plan from a file and proves it, as `tutti check` does, for rings of one message; not collective. The file holds
 * its text form, tutti-plan(5), or an MSCCL algorithm, tutti-msccl(5). tutti_call.plan then names it. All ranks must name
 * plans of the same content. Errors: ARGUMENT (not well formed, or wrong: which rank and step, and why), SYSTEM, MEMORY; the
 * sentence is at tutti_error_message(NULL). The caller frees it. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_plan_load(const char *path, tutti_plan **plan);

/* May be called while requests that were started with it are open, which do not need it any more. NULL is accepted. */
TUTTI_API void tutti_plan_free(tutti_plan *plan);

/* ---- one call --------------------------------------------------------------------------------------------------- */

#define TUTTI_IN_PLACE ((void *)-1)

/* Tells that `count` elements of the output, from number `first` on, are final: they may be read, but not written before
 * the call is complete. See tutti_call.on_ready. */
typedef void tutti_on_ready(void *context, size_t first, size_t count);

/* What a call is. Zero is the default of every field. `count` is in elements:
 *
 *   collective        send holds                  recv holds               in place (both ways of saying it)
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
 *   reduce_scatter    ranks * count               count                    recv == send + rank * count (NCCL's form), or
 *                                                                          recv = TUTTI_IN_PLACE: the result lies there.
 *                                                                          (MPI's form puts it first in the buffer:
 *                                                                          not offered)
 *   alltoall          ranks * count               ranks * count            send == recv, or send = TUTTI_IN_PLACE
 *   scan, exscan      count                       count                    send == recv, or send = TUTTI_IN_PLACE
 *                                                 (exscan: rank 0's recv is left as it was)
 *   send, recv        count, to / from `peer`, matched by `tag`
 *   barrier           nothing
 *
 * The vector variants take one count a rank, and offsets in elements into the buffer (NULL: packed in rank order):
 *   allgatherv, reduce_scatterv: counts[ranks], the same on all ranks; offsets for the long buffer
 *   gatherv, scatterv:           counts[ranks], offsets at root; the others give `count`, their own
 *   alltoallv:                   counts, offsets for send; recv_counts, recv_offsets for recv; in place: the two equal
 * In place is as above, the own block being at its offset.
 *
 * Otherwise no byte that is received may be sent as well, or received twice; the blocks of one buffer may lie in the gaps of
 * the other. In place is told by the bytes of the own block (alltoall, alltoallv: of every block), wherever the buffers begin.
 * A buffer may be NULL only if nothing in it is read or written. It may begin at any byte; reductions can be slower where
 * it is not aligned to its elements.
 *
 * With tensors (tutti/tensor.h): `in` and `out` stand for send, recv, count and type; both are needed where the rank has both
 * buffers, and may lie in memory in different ways. `dim` is the dimension along which the longer tensor is cut into
 * one block a rank (from 0, or from -1 downwards, of the tensor's own); allreduce, reduce, broadcast, send and recv have none.
 * alltoall may join its blocks along another, `out_dim`. In place: the same memory and layout in both, where the shapes
 * are equal; else they share no byte, though one may lie in the gaps of the other. Layouts may differ from rank to rank,
 * shapes not. Vector variants take no tensors.
 *
 * With `lanes`, so many ways side by side: every block is cut into as many parts (or twice, three times, ... as many, if it
 * is long), and the algorithm is run on each; parts go to the lanes in turn, and each lane has channels of its own between
 * any two ranks. 1 to 8 are possible, to 4 of algorithms that go two ways themselves. send and recv: both ranks say the
 * same; a part of the message goes on each lane, straight from the one to the other: ranks in between make no call and carry
 * nothing. A barrier has nothing to cut, and a user's plan says its own lanes.
 *
 * With `on_ready`, the caller is told of each part of the output as soon as it is final: of every element once, in no
 * order, of all of them before the call is complete. It is called within tutti_start, tutti_restart, tutti_test,
 * tutti_progress and the functions that wait, for this call or any other, by whichever thread is there. Within it only
 * tutti_request_fill is possible, for requests of the same communicator. Elements are numbered from where recv begins; of
 * `out`, in logical order, block after block where `dim` cuts it, and if it is of block floats, items are counted. With
 * `in_parts`, the input is given in parts while the call is under way: nothing of it is read, or in place written, before
 * tutti_request_fill. Both are this rank's own affair. */
typedef struct tutti_call {
  tutti_collective collective;
  const void *send;
  void *recv;
  size_t count;
  tutti_datatype type;
  tutti_op op;
  uint32_t root;
  uint32_t peer;
  uint32_t tag;
  const size_t *counts;
  const size_t *offsets;
  const size_t *recv_counts;
  const size_t *recv_offsets;
  double scale;           /* premul_sum */
  const char *algorithm;  /* force one, as "ring" (see tutti list); NULL: tutti-tuning(5) decides. Equal on all ranks */
  const tutti_plan *plan; /* run this one; it must be for such a call: collective, ranks, root, in place or not */
  int timeout_ms;         /* 0: the communicator's; negative: none */
  const tutti_tensor *in;
  const tutti_tensor *out;
  int dim;
  int out_dim; /* alltoall; read only if has_out_dim */
  bool has_out_dim;
  uint32_t lanes; /* 0: as the library has them. Equal on all ranks */
  tutti_on_ready *on_ready;
  void *on_ready_context;
  bool in_parts; /* the input comes in parts: tutti_request_fill */
} tutti_call;

/* Starts a call and returns. All ranks start their collectives in the same order; sends and receives are ordered per
 * pair and tag only. What can be refused locally is refused here, and that refusal is the communicator's verdict.
 * Buffers belong to the library until the request is complete; the arrays of counts and offsets are copied.
 * request = NULL: nobody asks for this one alone; tutti_wait_all(NULL, 0) waits for it. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_start(tutti_comm *comm, const tutti_call *call, tutti_request **request);

/* Elements first .. first + count - 1 of the input, of a call that was started with in_parts, are there: they belong to the
 * library from now on. Numbers count from where send begins, or as of on_ready, and gaps between blocks count too. Each
 * element is filled once, in any order, of a persistent request anew after each start; the call is not complete before all
 * are. Moves nothing: tutti_test does. To wait for such a call while something is missing would be for ever in a program of one
 * thread, and so would it be to wait for a later one of the communicator, as messages of earlier calls go first: to the
 * thread that started the call it returns ARGUMENT, and the calls go on; other threads may wait, or fill. (So what feeds
 * another call is started before it.) A call in parts has a request of its own, no group's.
 * Errors: ARGUMENT, or how the call has failed; nothing is filled then. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_request_fill(tutti_request *request, size_t first, size_t count);

/* Starts `count` sends and receives (or any calls) as one request, complete when all are. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_start_group(tutti_comm *comm, const tutti_call *calls, size_t count,
                                                    tutti_request **request);

/* Is it complete? Moves open requests on as a wait does, without waiting for messages. Sets *done; when done, returns the
 * request's outcome, frees it (persistent ones stay) and sets *request = NULL (likewise). *request == NULL is done. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_test(tutti_request **request, bool *done);

/* Blocks until complete or failed; frees as tutti_test does. After an error the buffers are the caller's again. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_wait(tutti_request **request);

/* Waits for one of a list (NULL entries are skipped) and sets *index; *index = count if all are NULL. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_wait_any(tutti_request **requests, size_t count, size_t *index);

/* Waits for all of a list; returns the first error after all have ended. With requests == NULL: everything that this
 * thread has started; handles stay valid and are complete. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_wait_all(tutti_request **requests, size_t count);

/* For programs with a thread of their own for it: moves on what is open, on this communicator and on others that no thread is
 * moving; waits at most so long (0: not at all; negative: without a limit) until something has moved, also for what other threads
 * start meanwhile. Returns the communicator's verdict, if it has failed. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_progress(tutti_comm *comm, int timeout_ms);

/* Persistent: made once, started often, with the same buffers. Between tutti_restart and tutti_wait nothing is
 * allocated, and no system call is made when nothing has to sleep. Only one start may be open at a time. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_prepare(tutti_comm *comm, const tutti_call *call, tutti_request **request);
TUTTI_API TUTTI_CHECKED tutti_err tutti_restart(tutti_request *request);
/* Frees a persistent request that is not open. NULL is accepted. An open one ends with its communicator, which fails with
 * TUTTI_ERR_ARGUMENT: its buffers are still in use. */
TUTTI_API void tutti_request_free(tutti_request *request);

/* ---- the same calls, named: start and wait in one --------------------------------------------------------------- */

TUTTI_API TUTTI_CHECKED tutti_err tutti_allreduce(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                  tutti_datatype type, tutti_op op);
TUTTI_API TUTTI_CHECKED tutti_err tutti_reduce(tutti_comm *comm, const void *send, void *recv, size_t count,
                                               tutti_datatype type, tutti_op op, uint32_t root);
TUTTI_API TUTTI_CHECKED tutti_err tutti_broadcast(tutti_comm *comm, void *buffer, size_t count, tutti_datatype type,
                                                  uint32_t root);
TUTTI_API TUTTI_CHECKED tutti_err tutti_gather(tutti_comm *comm, const void *send, void *recv, size_t count,
                                               tutti_datatype type, uint32_t root);
TUTTI_API TUTTI_CHECKED tutti_err tutti_scatter(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                tutti_datatype type, uint32_t root);
TUTTI_API TUTTI_CHECKED tutti_err tutti_allgather(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                  tutti_datatype type);
TUTTI_API TUTTI_CHECKED tutti_err tutti_reduce_scatter(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                       tutti_datatype type, tutti_op op);
TUTTI_API TUTTI_CHECKED tutti_err tutti_alltoall(tutti_comm *comm, const void *send, void *recv, size_t count,
                                                 tutti_datatype type);
TUTTI_API TUTTI_CHECKED tutti_err tutti_barrier(tutti_comm *comm);
TUTTI_API TUTTI_CHECKED tutti_err tutti_scan(tutti_comm *comm, const void *send, void *recv, size_t count,
                                             tutti_datatype type, tutti_op op);
TUTTI_API TUTTI_CHECKED tutti_err tutti_exscan(tutti_comm *comm, const void *send, void *recv, size_t count,
                                               tutti_datatype type, tutti_op op);
TUTTI_API TUTTI_CHECKED tutti_err tutti_send(tutti_comm *comm, const void *buffer, size_t count, tutti_datatype type,
                                             uint32_t peer, uint32_t tag);
TUTTI_API TUTTI_CHECKED tutti_err tutti_recv(tutti_comm *comm, void *buffer, size_t count, tutti_datatype type,
                                             uint32_t peer, uint32_t tag);

#ifdef __cplusplus
}
#endif
#endif
