/* comm.h: a communicator and a request, as the library sees them. */
#ifndef TU_COMM_H
#define TU_COMM_H

#include "algo/tuning.h"
#include "api/facts.h"
#include "boot/boot_groups.h"
#include "engine/engine.h"

/* What makes two calls alike: one program serves both. Compared as bytes; vector variants compare their counts too. */
struct tu_signature {
  uint8_t collective, type;
  bool in_place;
  uint8_t lanes; /* as stated */
  uint32_t op;
  uint32_t root;  /* or the peer */
  uint32_t parts; /* how the program is used; no matter of which plan it is */
  uint64_t count;
  double scale;
  const char *algorithm; /* the forced one's name in the table, or NULL */
  uint64_t counts_hash;
  uint64_t plan;    /* hash of the user's, or 0 */
  uint64_t tensors; /* hash of their layouts, or 0 */
};
/* tu_signature.parts */
#define TU_FILLS 1u
#define TU_TELLS 2u
_Static_assert(sizeof(struct tu_signature) == 64, "one comparison of a cache line");

/* The tensors of a call. */
struct tu_call_tensors {
  uint32_t users;
  tutti_tensor in, out; /* of no dimensions: the rank has none */
  struct tu_map *in_map, *out_map;
  struct tu_fold in_fold, out_fold;
  uint64_t facts; /* hash of what all ranks must have alike: the block's shape, and how it is cut */
};

/* A call, checked and taken apart. */
struct tu_call {
  struct tu_signature signature;
  struct tu_view in, out; /* split is set when the algorithm is known; counts and offsets are the caller's */
  const void *in_data;
  void *out_data;
  const struct tu_algorithm *forced;
  const struct tu_plan *plan;      /* the user's, or NULL; needed until the request is made */
  struct tu_call_tensors *tensors; /* or NULL; the communicator's memo keeps them */
  bool point_to_point;
  uint32_t tag;
};

/* The last call that was taken apart, for the one that repeats it. */
struct tu_memo {
  bool valid;
  tutti_call call; /* of its tensors, whether there are any */
  tutti_tensor in, out;
  struct tu_call resolved;
  size_t in_begin, in_end, out_begin, out_end; /* of the bytes that lie in each buffer */
};

/* What the caller says of a call that has one buffer each, no tag and no peer. */
struct tu_brief {
  const void *send;
  void *recv;
  size_t count;
  tutti_collective collective;
  tutti_datatype type;
  tutti_op op;
  uint32_t root;
};

struct tutti_request {
  struct tutti_comm *comm;
  struct tu_brief brief; /* of one that is kept in `again` */
  uint64_t id;           /* among all that the communicator ever made; not 0 */
  struct tu_signature signature;
  struct tu_call_tensors *tensors;
  size_t *blocks; /* copied counts and offsets of a vector variant: in counts, in offsets, out counts, out offsets */
  struct tu_program *program;
  struct tu_execution execution;
  struct tu_user_op user; /* copy of the user's operation */
  struct tu_call_facts facts;
  const void *in_data;
  void *out_data;
  tutti_on_ready *on_ready;
  void *on_ready_context;
  uint32_t tag;
  uint64_t number; /* of the collective; 0 for send and recv */
  int timeout_ms;
  uint64_t stalled_since; /* 0: has not stalled yet */
  uint64_t looked_at;     /* when the peers were last looked at */
  uint32_t tests;
  bool persistent, open, done, detached;
  struct tu_error error;                 /* outcome */
  const void *queue;                     /* of the thread that started it; only that thread may test and wait */
  struct tutti_request *previous, *next; /* open ones, in that queue */
  struct tutti_request *idle_next;       /* idle ones, in the communicator's cache */
  struct tutti_request **children;       /* of a group */
  size_t child_count;
};

struct tu_cached_plan {
  struct tu_cached_plan *next;
  const struct tu_algorithm *algorithm;
  uint32_t rank, root, slot_pieces, segments, lanes;
  bool in_place;
  struct tu_plan *plan;
};

struct tutti_comm {
  uint32_t rank, ranks;
  struct tu_transport *transport;
  struct tu_mover *mover;
  struct tu_error error; /* the last one; the verdict once failed */
  bool failed;
  struct tu_wire *wire; /* the mover's, or NULL */
  int timeout_ms;
  uint32_t spin;                        /* polls before a waiting rank yields its core */
  uint32_t share;                       /* ranks of the world that share a CPU, where it is worst; the same on all */
  uint32_t foreign_waits, foreign_span; /* waits without yields: so many more, of so many */
  uint64_t number;
  uint32_t open_requests;
  struct tutti_request *idle;
  uint32_t idle_count;
  uint64_t board_requests[TU_BOARD_CALLS]; /* whose call stands in each place of this rank's board; by id */
  uint64_t request_ids;
  /* The last blocking call's of each collective, if the same call may go straight; not in `idle`. */
  struct tutti_request *again[TUTTI_COLLECTIVES];
  struct tu_cached_plan *plans;
  struct tu_tuning *tuning;       /* the same on all ranks; NULL: the built-in table alone */
  struct tu_boot_domain *domains; /* [ranks]: where they run, as rank 0 saw it; NULL: nobody looked */
  uint32_t group;                 /* ranks of a group, the same on all ranks; 0: no groups */
  struct tu_memo memo;
  struct tutti_channel *channels; /* that are open; under channel.c's lock */
  bool *waits_for;                /* [ranks], scratch: whom this rank waits for */
  bool *departed;                 /* [ranks], scratch: who had departed when that was found out */
};

/* ---- comm.c ---- */
/* Keeps the sentence of an error that has no communicator for tutti_error_message(NULL). */
tutti_err tu_thread_error(const struct tu_error *error);
/* A world over an endpoint; waits for the leader at most join_timeout_ms. Owns the endpoint's reference. */
tutti_err tu_comm_create(struct tu_transport *t, const uint32_t members[], uint32_t ranks, uint32_t rank,
                         uint64_t place, int timeout_ms, struct tutti_comm **comm, struct tu_error *error);
/* Sleeps until `there` says yes; PEER if a rank has died and it still says no. `what` is waited for, in a sentence. */
tutti_err tu_comm_await(struct tutti_comm *comm, bool (*there)(const struct tutti_comm *comm), const char *what,
                        int timeout_ms, struct tu_error *error);
/* The communicator has failed on this rank: everybody is told, unless somebody was first. comm->error is the verdict. */
tutti_err tu_comm_fail(struct tutti_comm *comm, const struct tu_error *error);
/* The library's own allgather of a few bytes. */
tutti_err tu_comm_exchange(struct tutti_comm *comm, const void *mine, void *all, size_t bytes);
/* Has it failed? Looks at the verdict. */
bool tu_comm_find_verdict(struct tutti_comm *comm);
static inline bool tu_comm_failed(struct tutti_comm *comm) {
  const struct tu_verdict *verdict = &comm->mover->block->verdict;
  if (!comm->failed && atomic_load_explicit(&verdict->state, memory_order_relaxed) == 0) return false;
  return tu_comm_find_verdict(comm);
}

/* ---- window.c ---- */
/* Forgets the windows of a communicator that goes; returns how many there were. */
uint32_t tu_windows_abandon(const struct tutti_comm *comm);

/* ---- channel.c ---- */
/* Gives up the channels of a communicator that goes; returns how many there were. */
uint32_t tu_channels_abandon(struct tutti_comm *comm);

/* ---- tuning.c ---- */
/* What this process's environment says about selection; *tuning = NULL: nothing. */
tutti_err tu_tuning_load(struct tu_tuning **tuning, struct tu_error *error);
/* Collective over a new world: all ranks take what rank 0's environment says. A failure is the world's verdict. */
tutti_err tu_tuning_agree(struct tutti_comm *world, int timeout_ms);

/* ---- groups.c ---- */
/* Collective over a new world: all ranks learn where the others run. A failure is the world's verdict. */
tutti_err tu_groups_agree(struct tutti_comm *world, int timeout_ms);
/* The child's ranks are some of the parent's. */
tutti_err tu_groups_inherit(struct tutti_comm *child, const struct tutti_comm *parent, struct tu_error *error);

/* ---- call.c ---- */
/* Checks a call and takes it apart into comm->memo.resolved; ARGUMENT with a sentence. */
tutti_err tu_call_resolve(struct tutti_comm *comm, const tutti_call *call, struct tu_error *error);
bool tu_user_op_find(tutti_op op, struct tu_user_op *user);

/* ---- call_tensors.c ---- */
/* The call, whose buffers this rank has or has not, in vectors: *flat. resolved->tensors says how they lie. */
tutti_err tu_call_of_tensors(const struct tutti_comm *comm, const tutti_call *call, bool has_in, bool has_out,
                             tutti_call *flat, struct tu_call *resolved, bool *in_place, struct tu_error *error);
/* Has the views read and write what does not lie as it crosses where it lies. */
void tu_call_fold(struct tu_call *resolved, const tutti_call *flat);
bool tu_call_tensors_same(const struct tu_call_tensors *a, const struct tu_call_tensors *b);
/* The same memory, type, shape and layout? */
bool tu_tensor_same(const tutti_tensor *a, const tutti_tensor *b);
/* Are both of one shape, and lie in the same way? */
bool tu_tensors_alike(const tutti_tensor *a, const tutti_tensor *b);
void tu_call_tensors_release(struct tu_call_tensors *tensors);

/* ---- plan.c ---- */
const struct tu_plan *tu_user_plan(const tutti_plan *plan, uint64_t *hash);
/* Can the call, of which the views are known, run the plan that it names? ARGUMENT with a sentence if not. */
tutti_err tu_user_plan_serves(const struct tutti_comm *comm, const tutti_call *call, const struct tu_call *views,
                              bool in_place, struct tu_error *error);

/* ---- request.c ---- */
/* A request ready to be started: an idle one of the same signature, or a new one. */
tutti_err tu_request_acquire(struct tutti_comm *comm, const struct tu_call *call, struct tutti_request **request,
                             struct tu_error *error);
void tu_request_release(struct tutti_request *request); /* to the cache */
/* Out of the cache: the one that was released last. */
struct tutti_request *tu_request_take_idle(struct tutti_comm *comm);
void tu_request_destroy(struct tutti_request *request);
void tu_request_start(struct tutti_request *request);
/* Starts a request that may go straight, while nothing else is open. True: it is done already; else it is open. */
bool tu_request_run_straight(struct tutti_request *request);

/* ---- parts.c ---- */
/* Tells the caller what has become final of the output. */
void tu_request_tell(struct tutti_request *request);
/* Does it wait for its caller to fill in an element? */
bool tu_request_lacks_input(const struct tutti_request *request, size_t *element);
/* Does an open request of this thread and that communicator, `last` or an earlier one (NULL: any)? Then *error is ARGUMENT, with
 * a sentence. */
bool tu_input_is_missing(const struct tutti_comm *comm, const struct tutti_request *last, struct tu_error *error);

/* ---- start.c ---- */
/* To start a call and not to be able to wait for it would leave it open, and its caller without a handle: so it is refused
 * while input of an earlier one is missing. */
tutti_err tu_refuse_to_hang(struct tutti_comm *comm);
tutti_err tu_call_and_wait(struct tutti_comm *comm, const tutti_call *call);

/* ---- wait.c ---- */
/* The open requests of this thread, in the order of their starts. */
struct tu_queue {
  struct tutti_request *first, *last;
  bool telling; /* the thread is within a caller's on_ready: nothing may be moved */
};
/* Small enough for the space that programs keep for libraries which are loaded later. */
extern _Thread_local struct tu_queue tu_queue __attribute__((tls_model("initial-exec")));
void tu_queue_add(struct tutti_request *request);
/* Moves every open request of the thread; true if anything moved. */
bool tu_queue_poll(void);

/* How long somebody has waited in vain. */
struct tu_stall {
  uint32_t polls;
  int sleep_ms; /* at a time; 0: as long as the bells allow */
};
/* Moves an execution that goes straight, and waits for a while; true: it is finished. */
bool tu_wait_straight(struct tutti_comm *comm, struct tu_execution *e);
/* One more vain poll on `comm`: spins, yields or sleeps; looks at verdicts, boards, peers and deadlines of all that is open. */
void tu_stall(struct tutti_comm *comm, struct tu_stall *stall);

/* ---- diagnosis.c ---- */
/* Looks at verdicts, boards, peers and deadlines of all that this thread has open. now = 0: only at what needs no system call.
 * Communicators that fail here end their requests at the next poll. */
void tu_look_round(uint64_t now);
/* A message came that does not fit the request: the verdict says so. */
void tu_fail_mismatch(struct tutti_request *request);
/* Has a rank died? Or has one departed that this rank still waits for? Then *error says so; `doing` says in what. A rank
 * may be served and see its peer depart an instant later: so fill comm->departed first (tu_note_departed), move on, and only then
 * fill comm->waits_for. */
void tu_note_departed(struct tutti_comm *comm);
bool tu_peer_lost(const struct tutti_comm *comm, const char *doing, struct tu_error *error);
/* Has that rank died, without having left in order? For any thread. */
bool tu_peer_died(const struct tutti_comm *comm, uint32_t peer, const char *doing, struct tu_error *error);
/* It has left, and that is an error: says so; true. */
bool tu_peer_left(const struct tutti_comm *comm, uint32_t peer, const char *doing, struct tu_error *error);

#endif
