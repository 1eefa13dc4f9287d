/* request.h: a request is a call together with the program that carries it out. */
#ifndef TU_REQUEST_H
#define TU_REQUEST_H

#include "call/leaves.h"
#include "comm/facts.h"
#include "comm/patience.h"

/* Arguments of a call with at most one send and one receive buffer, without tag and peer. */
struct tu_brief {
  const void *send;
  void *recv;
  size_t count;
  tutti_collective collective;
  tutti_datatype type;
  tutti_op op;
  uint32_t root;
  tutti_order order;
  const char *algorithm; /* as in tutti_call */
};

/* State of a request. UNSTARTED: a persistent request that has never been started, or a new one. COMPLETE: also if it has
 * failed. */
enum tu_request_state { TU_REQUEST_UNSTARTED, TU_REQUEST_OPEN, TU_REQUEST_COMPLETE };

struct tutti_request {
  struct tutti_comm *comm;
  /* where in tutti_comm.again the request is kept when it is complete, for calls with the arguments `brief`; NULL: not
   * there */
  struct tutti_request **place;
  struct tu_brief brief;
  uint64_t id; /* number of this request among all that the communicator has created; never 0 */
  struct tu_signature signature;
  struct tu_call_tensors *tensors;
  /* copied counts and offsets of a vector variant: counts of in, offsets of in, counts of out, offsets of out */
  size_t *blocks;
  /* copied addresses of the blocks for which the program is pointed: of in, of out; NULL: a call without them */
  const void **addresses;
  struct tu_program *program;
  struct tu_execution execution;
  /* Copy of the user's operation, so the program may free the operation while the request exists. Its context is that
   * of the call, or the operation's own. */
  struct tu_user_op user;
  void *own_op_context;
  struct tu_call_facts facts;
  const struct tu_algorithm *algorithm; /* NULL: the call has a plan of the program */
  bool canonical;                       /* the result has the bits of the canonical order */
  const void *in_data;
  void *out_data;
  tutti_on_ready *on_ready;
  void *on_ready_context;
  uint32_t tag;
  tutti_message *message; /* of the program; NULL: not wanted */
  uint64_t number;        /* sequence number of the collective; 0: send or recv */
  int timeout_ms;
  bool slow;              /* true: the log has a line about its stall */
  uint64_t stalled_since; /* time when the request was first found without progress, in ns; 0: not yet */
  uint64_t looked_at;     /* time of the last check whether the peers are alive, in ns */
  uint32_t losses;        /* number of lost connections to other hosts at the time of that check */
  struct tu_stall tests;  /* state of the wait that repeated calls of tutti_test form */
  /* enum tu_request_state. Changed by a thread that holds the communicator; any thread may read it. A thread that finds the
   * request complete also sees its error and what the call has written. */
  _Atomic uint8_t state;
  bool persistent, detached;
  bool ready;            /* prepared for the fast path, with the buffers of the last run */
  bool straight;         /* open, and on the fast path; the request is then the only open one of the communicator */
  struct tu_error error; /* outcome of the completed request */
  /* address of the tu_thread (thread state) of the thread that started the request */
  const void *starter;
  struct tutti_request *previous, *next;           /* neighbours in the communicator's list of open requests */
  struct tutti_request *idle_next, *idle_previous; /* neighbours in the communicator's cache of idle requests */
  struct tutti_request **children; /* requests of the calls of a group; NULL: the request is not a group */
  size_t child_count;
  struct tu_leaf_sum *leaves; /* what this rank adds up when the request starts; NULL: nothing */
  /* ---- what short calls do not use ---- */
  struct tu_build built; /* how the plan was built; `algorithm` NULL: it has not been built */
  size_t longest_bytes;  /* size of the longest buffer of any rank; SIZE_MAX: not all ranks know it */
  struct tutti_request *bucket_next, *bucket_previous; /* neighbours in its bucket of that cache */
  size_t bytes;                                        /* memory that it holds, about */
};

static inline enum tu_request_state tu_request_state(const struct tutti_request *r) {
  return (enum tu_request_state)atomic_load_explicit(&r->state, memory_order_acquire);
}
static inline void tu_request_set_state(struct tutti_request *r, enum tu_request_state state) {
  atomic_store_explicit(&r->state, (uint8_t)state, memory_order_release);
}
static inline bool tu_request_is_open(const struct tutti_request *r) { return tu_request_state(r) == TU_REQUEST_OPEN; }

/* A plan that the communicator keeps for reuse, and the parameters for which it was built. */
struct tu_cached_plan {
  struct tu_cached_plan *next;
  const struct tu_algorithm *algorithm;
  uint32_t rank, root, slot_pieces, segments, lanes;
  bool in_place, canonical;
  const struct tu_placement *placement;
  struct tu_plan *plan;
};

/* Sets *request to a request that is ready to be started: an idle one of the same signature, or a new one. */
tutti_err tu_request_acquire(struct tutti_comm *comm, const struct tu_call *call, struct tutti_request **request,
                             struct tu_error *error);
/* Sets *a to the arithmetic of a call. user: its operation of the program, or NULL; must stay valid as long as *a. The
 * caller frees a->room. Error: TUTTI_ERR_MEMORY. */
tutti_err tu_call_arithmetic(const struct tutti_comm *comm, const struct tu_call *call, const struct tu_user_op *user,
                             struct tu_arithmetic *a, struct tu_error *error);
/* Returns true if the counts, displacements and addresses of blocks are those with which the request was made. */
bool tu_request_has_blocks(const struct tutti_request *request, const tutti_call *call);
/* Returns a request to the cache of idle requests; for a group of calls, returns each request of the group. */
void tu_request_retire(struct tutti_request *request);
void tu_request_destroy(struct tutti_request *request);
/* Frees the request that has been idle for the longest time. There is one. */
void tu_request_drop_idle(struct tutti_comm *comm);

#endif
