/* comm.h: a communicator and a request, as the library sees them. */
#ifndef TU_COMM_H
#define TU_COMM_H

#include "algo/tuning.h"
#include "api/facts.h"
#include "base/process.h"
#include "engine/engine.h"
#include "locality/cpus.h"
#include "locality/locality.h"

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

/* How long somebody has waited in vain: zero at first, and again when something has moved (tu_stall_moved). */
struct tu_stall {
  uint32_t polls, yields;
  uint32_t finished; /* tu_queue_finished before the caller looked whether it is done; 0: tu_stall takes it */
  int sleep_ms;      /* at a time; 0: as long as the bells allow */
  uint64_t since;    /* when the clock was first read; 0: not yet */
};
/* From then to now; another thread may have noted that it waits a moment after this one has looked at the clock. */
static inline uint64_t tu_elapsed_ns(uint64_t since, uint64_t now) { return now > since ? now - since : 0; }
static inline void tu_stall_moved(struct tu_stall *s) { s->polls = s->yields = 0, s->since = 0; }

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
  struct tu_stall tests;  /* vain ones */
  bool persistent, open, done, detached;
  struct tu_error error;                 /* outcome */
  const void *starter;                   /* &tu_thread of the thread that started it */
  struct tutti_request *previous, *next; /* in the communicator's list of those that are open */
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

/* What a rank does that waits in vain; see patience.c. */
struct tu_patience {
  bool adapts;      /* to what else runs on its core */
  uint32_t polls;   /* before it reads a clock */
  uint64_t spin_ns; /* ... before it yields its core or sleeps */
  uint32_t yields;  /* ... before it sleeps */
};

struct tutti_comm {
  const void *_Atomic inside; /* &tu_thread of the thread that holds it; NULL: none */
  _Atomic uint32_t wanted;    /* threads that wait to hold it */
  _Atomic uint32_t starving;  /* those of them that have waited for long: none that comes later goes first */
  uint64_t process;           /* tu_process_number of the one that made it */
  uint32_t rank, ranks;
  struct tu_transport *transport;
  struct tu_mover *mover;
  struct tu_error error; /* the last one; the verdict once failed */
  bool failed;
  struct tu_pace *pace; /* the mover's, or NULL */
  int timeout_ms;
  struct tu_patience patience;
  uint32_t share; /* ranks of the world that share a CPU, where it is worst; the same on all */
  uint64_t number;
  struct tutti_request *first, *last; /* open requests, in the order of their starts */
  uint32_t open_requests;
  struct tutti_request *lost;                  /* detached ones that failed, until their threads ask */
  struct tutti_comm *busy_before, *busy_after; /* communicators of the process that have requests (queue.c) */
  bool listed;                                 /* it is one of these */
  struct tutti_request *idle;
  uint32_t idle_count;
  uint64_t board_requests[TU_BOARD_CALLS]; /* whose call stands in each place of this rank's board; by id */
  uint64_t request_ids;
  /* The last blocking call's of each collective, if the same call may go straight; not in `idle`. */
  struct tutti_request *again[TUTTI_COLLECTIVES];
  struct tu_cached_plan *plans;
  struct tu_use *uses; /* of tutti_comm_create; under the lock of comm_make.c */
  uint32_t use_count, use_capacity;
  struct tu_tuning *tuning;  /* the same on all ranks; NULL: the built-in table alone */
  struct tu_domain *domains; /* [ranks]: where they run; NULL: not known */
  uint32_t group, host;      /* ranks of a group, and of a host, the same on all ranks; 0: no groups, one host */
  struct tu_memo memo;
  struct tutti_channel *channels; /* that are open; under channel.c's lock */
  bool *waits_for;                /* [ranks], scratch: whom this rank waits for */
  uint8_t *departed;              /* [ranks], scratch: enum tu_departed, when that was found out */
  uint32_t looked;                /* the first of those that were looked at last */
};

/* ---- enter.c: one thread at a time; the others wait, and children of fork() are refused ---- */

struct tu_visit {
  struct tutti_comm *comm; /* to be left; NULL: a call further out of the same thread does that */
};

/* Takes the communicator for this thread, after those that are in a call on it; calls may nest. False: it is a child's of fork();
 * nothing of it may be touched, and tu_refuse_visit says why. */
static inline bool tu_hold(struct tutti_comm *comm, struct tu_visit *visit);
void tu_hold_contended(struct tutti_comm *comm);
/* Takes it if no other thread has it; not for a child of fork(). */
static inline bool tu_try_hold(struct tutti_comm *comm, struct tu_visit *visit);
static inline void tu_leave(const struct tu_visit *visit);
/* This thread, which holds it and has nothing half done there, lets the others in that want it. */
void tu_let_in_contended(struct tutti_comm *comm);
static inline void tu_let_in(struct tutti_comm *comm) {
  if (atomic_load_explicit(&comm->wanted, memory_order_relaxed) > 0) tu_let_in_contended(comm);
}
/* Lets the others in while this thread sleeps, and takes it back, however often this thread has entered. */
static inline void tu_leave_idle(struct tutti_comm *comm);
static inline void tu_regain(struct tutti_comm *comm);
/* tu_hold for the usual case, that no thread is inside; false: tu_hold knows more. */
static inline bool tu_enter_idle(struct tutti_comm *comm);
tutti_err tu_refuse_visit(const char *call);
tutti_err tu_explain_visit(const char *call, struct tu_error *error);
/* For calls that any thread may make: ARGUMENT, if it was another process that made what they use. */
tutti_err tu_refuse_child(uint64_t process, const char *call, struct tu_error *error);

/* ---- comm.c ---- */
/* Keeps the sentence of an error that has no communicator for tutti_error_message(NULL). */
tutti_err tu_thread_error(const struct tu_error *error);
/* Over an endpoint, of which it owns a reference; waits at most timeout_ms for the leader, and for the ranks of the host to be
 * present. */
tutti_err tu_comm_create(struct tu_transport *t, const uint32_t members[], uint32_t ranks, uint32_t rank,
                         uint64_t session, int timeout_ms, struct tutti_comm **comm, struct tu_error *error);
/* Its memory, of which what is shared is given back only if it ended in order. */
void tu_comm_destroy(struct tutti_comm *comm, bool in_order);
/* The mover, and the reference of the endpoint, are another's from now on. */
void tu_comm_forget_mover(struct tutti_comm *comm);
void tu_comm_drop_endpoint(struct tu_transport *t);
/* What ranks wait for while they make a communicator. */
struct tu_comm_goal {
  bool (*there)(const struct tutti_comm *comm);
  bool (*lacks)(const struct tutti_comm *comm, uint32_t rank); /* is it (also) that rank's turn? */
  const char *what;                                            /* it is to do: "to ..." */
  bool chains; /* those that lack are members, and this rank tells the others that it waits for them */
};
/* Sleeps until the goal is there; PEER if a rank has died and it still is not, TIMEOUT names those whose turn it is. */
tutti_err tu_comm_await(struct tutti_comm *comm, const struct tu_comm_goal *goal, int timeout_ms,
                        struct tu_error *error);
/* The communicator has failed on this rank: everybody is told, unless somebody was first. comm->error is the verdict. */
tutti_err tu_comm_fail(struct tutti_comm *comm, const struct tu_error *error);
/* The library's own allgather of a few bytes. */
tutti_err tu_comm_exchange(struct tutti_comm *comm, const void *mine, void *all, size_t bytes);
/* The verdict, if there is one; for any thread: what is this rank's own is not looked at. */
tutti_err tu_comm_verdict(const struct tutti_comm *comm, struct tu_error *error);
/* Has it failed? Looks at the verdict. */
bool tu_comm_find_verdict(struct tutti_comm *comm);
static inline bool tu_comm_failed(struct tutti_comm *comm) {
  if (!comm->failed && !tu_control_failed(&comm->mover->control)) return false;
  return tu_comm_find_verdict(comm);
}
/* The same; what ranks of other hosts have sent is taken first. */
static inline bool tu_comm_failed_by_now(struct tutti_comm *comm) {
  (void)tu_mover_look(comm->mover);
  return tu_comm_failed(comm);
}

/* ---- comm_end.c ---- */
/* Gives back what closed communicators of that endpoint have in shared memory, of those that no rank uses any more. */
void tu_comm_sweep(const struct tu_transport *t);
/* In a child of fork(): they are its parent's. */
void tu_comm_sweep_reset(void);

/* ---- world.c ---- */
#define TU_JOIN_TIMEOUT_MS 60000
/* An endpoint for a communicator of this rank alone. */
tutti_err tu_world_alone(struct tu_transport **t, struct tu_error *error);

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
/* The world's ranks run where the locality says. */
tutti_err tu_groups_begin(struct tutti_comm *world, const struct tu_locality *locality, struct tu_error *error);
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

/* ---- overlap.c ---- */
/* ARGUMENT if two blocks of recv share a byte. */
tutti_err tu_blocks_apart(const struct tu_view *v, const char *collective, struct tu_error *error);
/* Is every block the same bytes in both? Of two that hold nothing: do they begin at one address? */
bool tu_views_coincide(const struct tu_view *a, const void *a_data, const struct tu_view *b, const void *b_data);
/* ARGUMENT if a block of recv shares a byte with a block of send, but for block `but` of this (UINT32_MAX: none). The blocks of
 * recv are apart. */
tutti_err tu_buffers_apart(const struct tu_call *call, uint32_t but, const char *collective, struct tu_error *error);

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
/* Does an open request of that communicator, `last` or an earlier one (NULL: any)? Then *error is ARGUMENT, with a sentence. */
bool tu_input_is_missing(const struct tutti_comm *comm, const struct tutti_request *last, struct tu_error *error);

/* ---- start.c ---- */
/* To start a call and not to be able to wait for it would leave it open, and its caller without a handle: so it is refused
 * while input of an earlier one is missing. */
tutti_err tu_refuse_to_hang(struct tutti_comm *comm);
tutti_err tu_call_and_wait(struct tutti_comm *comm, const tutti_call *call);

/* ---- patience.c ---- */
/* What this thread knows of its core. */
struct tu_core_watch {
  uint32_t polls;                      /* without a clock, at most: few while it is to sleep at once */
  bool busy, sleeps_at_once;           /* others want the core */
  uint64_t busy_until, busy_ns;        /* so long that is taken for granted, and for how long it was last */
  uint64_t slice_ns;                   /* the thread's slices before they were made short; 0: they are as they were */
  uint64_t asked_at;                   /* when the kernel was asked what the thread has lost */
  uint64_t sleeps, slept_ns;           /* of the thread's own will, since */
  uint64_t rested_at;                  /* when its last yield or sleep ended; 0: it has had none */
  uint64_t yielded_at, others_worked;  /* when its last yield began, and how long other ranks had worked by then */
  uint64_t cpu_us, preempted, blocked; /* its answer */
};
extern _Thread_local struct tu_core_watch tu_core_watch __attribute__((tls_model("initial-exec")));

/* spin_us as in tutti_options; share: of the communicator. ENVIRONMENT. */
tutti_err tu_patience_init(struct tu_patience *patience, int spin_us, uint32_t share, struct tu_error *error);
/* Polls before a clock is read. */
static inline uint32_t tu_patience_polls(const struct tutti_comm *comm) {
  return tu_core_watch.polls < comm->patience.polls ? tu_core_watch.polls : comm->patience.polls;
}
/* After a vain poll: pauses or yields, false; or it is time to sleep, true. Any thread. */
bool tu_patience_ends(const struct tutti_comm *comm, struct tu_stall *stall);
/* After a vain look of a caller who must not sleep, but may look again at once: yields where ranks share cores, unless something
 * has moved. True: it is time to look for deaths and deadlines. The first vain look costs nothing. */
bool tu_patience_test(const struct tutti_comm *comm, struct tu_stall *stall, bool moved);
/* Is it time for that, by the clock? *looked_at is when it was last time. */
bool tu_patience_looks(uint64_t *looked_at);
/* tu_bell_sleep, by a thread that waits. */
void tu_patience_sleep(struct tu_transport *t, uint32_t token, int ms);

/* ---- queue.c: open requests, and who has some ---- */
/* What a thread is known by; small enough for the space that programs keep for libraries which are loaded later. */
struct tu_thread {
  bool telling; /* it is within a caller's on_ready: nothing may be moved */
};
extern _Thread_local struct tu_thread tu_thread __attribute__((tls_model("initial-exec")));

/* The communicator is held by the caller of what follows. */
void tu_queue_add(struct tutti_request *request);
/* It goes: no request of it is open. */
void tu_queue_forget(struct tutti_comm *comm);
/* Is what is listed the parent's, of which this process is a child? tu_queue_reset forgets it. */
bool tu_queue_is_foreign(void);
void tu_queue_reset(void);
/* Moves every open request of the communicator; true if anything moved. */
bool tu_queue_poll(struct tutti_comm *comm);
/* The same for the other communicators of the process that no other thread is in. */
bool tu_queue_poll_others(const struct tutti_comm *comm);
/* Visits the communicator and, as above, the others that have open requests. */
void tu_queue_visit(struct tutti_comm *comm, void (*visit)(struct tutti_comm *comm, void *context), void *context);
/* How many requests have been completed; never 0. A thread that finds it changed does not sleep: it may have been its own. */
extern _Atomic uint32_t tu_queue_finished;
/* Has another communicator of the process requests? It may be that they are complete by now. */
extern _Atomic uint32_t tu_queue_busy; /* communicators that are listed */
static inline bool tu_queue_others(const struct tutti_comm *comm) {
  return atomic_load_explicit(&tu_queue_busy, memory_order_relaxed) > (comm->listed ? 1 : 0);
}
/* A communicator on which the calling thread has started what is still open, held: to be left; NULL: none. Adds to *error what
 * failed of it, and was detached, if *error is none. */
struct tutti_comm *tu_queue_find_own(struct tu_visit *visit, struct tu_error *error);

/* ---- wait.c ---- */
/* It is free, and no thread has waited for long: takes it. */
static inline bool tu_take_idle(struct tutti_comm *comm) {
  const void *nobody = NULL;
  return !atomic_load_explicit(&comm->starving, memory_order_relaxed) &&
         atomic_compare_exchange_strong_explicit(&comm->inside, &nobody, &tu_thread, memory_order_acquire,
                                                 memory_order_relaxed);
}

static inline bool tu_try_hold(struct tutti_comm *comm, struct tu_visit *visit) {
  const void *inside = atomic_load_explicit(&comm->inside, memory_order_relaxed);
  visit->comm = NULL;
  if (inside == &tu_thread) return true;
  if (inside || !tu_take_idle(comm)) return false;
  visit->comm = comm;
  return true;
}

static inline bool tu_hold(struct tutti_comm *comm, struct tu_visit *visit) {
  visit->comm = NULL;
  if (!tu_process_is(comm->process)) return false;
  if (tu_try_hold(comm, visit)) return true;
  tu_hold_contended(comm);
  visit->comm = comm;
  return true;
}

static inline void tu_leave_idle(struct tutti_comm *comm) {
  atomic_store_explicit(&comm->inside, NULL, memory_order_release);
}

static inline void tu_leave(const struct tu_visit *visit) {
  if (visit->comm) tu_leave_idle(visit->comm);
}

static inline void tu_regain(struct tutti_comm *comm) {
  if (!tu_take_idle(comm)) tu_hold_contended(comm);
}

static inline bool tu_enter_idle(struct tutti_comm *comm) { return tu_process_is(comm->process) && tu_take_idle(comm); }

/* Moves an execution that goes straight, and waits for a while; true: it is finished. */
bool tu_wait_straight(struct tutti_comm *comm, struct tu_execution *e);
/* One more vain poll on `comm`, which is held: spins, yields or sleeps, and lets other threads in; before it sleeps it looks at
 * verdicts, boards, peers and deadlines of all that is open. True: it has slept, so it is time to look at what only the caller
 * knows. */
bool tu_stall(struct tutti_comm *comm, struct tu_stall *stall);

#define TU_SLEEP_MS 100      /* at a time, at most */
#define TU_LOOK_NS 40000000u /* between two looks whether the peers live: a system call for each */
#define TU_NS_PER_MS 1000000u

/* A wait for something else than requests; zero, but for timeout_ms (0: none). */
struct tu_wait {
  struct tu_stall stall;
  int timeout_ms;
  uint64_t since, looked_at; /* 0: it has not slept yet */
};
enum tu_due { TU_GO_ON, TU_LOOK_ROUND, TU_TOO_LATE };
/* After a vain look of one who holds the communicator: waits a little, as tu_stall does. Then the caller looks again;
 * LOOK_ROUND: and whether the peers live; TOO_LATE: for the last time. */
enum tu_due tu_wait_inside(struct tutti_comm *comm, struct tu_wait *wait);
/* The same of any thread, which holds nothing, and moves nothing but what it looks at: `there` looks once more. */
enum tu_due tu_wait_outside(const struct tutti_comm *comm, struct tu_wait *wait, bool (*there)(void *context),
                            void *context);

/* ---- diagnosis.c ---- */
/* Looks at verdicts, boards, peers and deadlines of all that is open on the communicator and, as tu_queue_visit has it, on
 * others. Those that fail here end their requests at the next poll. Returns for how many ms, at most ms_max, nothing more is
 * to be looked at. */
int tu_look_round(struct tutti_comm *comm, uint64_t now, int ms_max);
/* What a peer's board says of its last collective: "its last is ...". */
void tu_print_last_call(const struct tutti_comm *comm, uint32_t peer, char *text, size_t bytes);
/* A message came that does not fit the request: the verdict says so. */
void tu_fail_mismatch(struct tutti_request *request);
/* Has a rank died? Or has one departed that this rank still waits for? Then *error says so; `doing` says in what. A rank
 * may be served and see its peer depart an instant later: so fill comm->departed first (tu_note_departed), move on, and only then
 * fill comm->waits_for. */
enum tu_departed { TU_IS_HERE, TU_HAS_DEPARTED, TU_NOT_LOOKED_AT };
/* Of many ranks, those that comm->waits_for has, and TU_LOOKED_RANKS others in turn: who waits must not look at all each time. */
#define TU_LOOKED_RANKS 64u
void tu_note_departed(struct tutti_comm *comm);
bool tu_peer_lost(const struct tutti_comm *comm, const char *doing, struct tu_error *error);
/* Has that rank died, without having left in order? For any thread. */
bool tu_peer_died(const struct tutti_comm *comm, uint32_t peer, const char *doing, struct tu_error *error);
/* It has left, and that is an error: says so; true. */
bool tu_peer_left(const struct tutti_comm *comm, uint32_t peer, const char *doing, struct tu_error *error);

/* ---- chain.c: whom ranks wait for ---- */
/* Tells the others whom this thread waits for in all that it moves on, if that takes long. */
void tu_chain_tell(struct tutti_comm *comm, uint64_t now);
/* The same of a call that is no request and has waited since then: for these members (creates: to make the communicator), or
 * for one (itself: for a signal). Any thread. */
void tu_chain_tell_members(const struct tutti_comm *comm, const bool waits_for[], bool creates, uint64_t since,
                           uint64_t now);
void tu_chain_tell_one(const struct tutti_comm *comm, uint32_t member, uint64_t since, uint64_t now);
/* This thread goes on. Cheap if it has told nothing. */
void tu_chain_go_on(struct tu_transport *t);
/* Whom a rank has waited for in vain. */
struct tu_chain_wait {
  const bool *members; /* [ranks], or NULL: `member` alone */
  uint32_t member;
  uint64_t number; /* of the collective, 0: of none */
  uint64_t since;
  bool creates; /* to make the communicator */
};
/* Says which ranks do not move, the surest first, and how this rank comes to wait for that one. False: it waits for no other
 * member. Any thread. */
bool tu_chain_print(const struct tutti_comm *comm, const struct tu_chain_wait *wait, char *text, size_t bytes);

#endif
