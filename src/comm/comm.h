/* comm.h: the internal struct of a communicator. Other folders keep their own state in it, behind pointers. */
#ifndef TU_COMM_H
#define TU_COMM_H

#include <tutti/tutti.h>

#include "base/types.h"
#include "mover/mover.h"

struct tu_cached_plan;
struct tu_comm_op;
struct tu_domain;
struct tu_memo;
struct tu_pace;
struct tu_placement;
struct tu_tuning;
struct tu_use;
struct tutti_channel;
struct tutti_request;

/* How a waiting rank spends its time; see patience.c. */
struct tu_patience {
  bool adapts;      /* true: the rank changes the way it waits while other programs use its core */
  uint32_t polls;   /* number of polls before the rank reads the clock */
  uint64_t spin_ns; /* how long the rank polls by the clock before it yields its core or sleeps, in ns */
  uint32_t yields;  /* number of yields before the rank sleeps */
  /* true: the rank also yields its core between two polls, since a poll is a system call anyway, and ranks of other hosts
   * of the job may share the core, as on a host with containers */
  bool lends_core;
};

/* How long a wait has lasted without progress; see patience.h. All zero at the start; tu_stall_moved resets it after
 * progress. */
struct tu_stall {
  uint32_t polls, yields;
  /* number of completed requests (tu_queue_finished) that the caller read before it checked its condition; 0: tu_stall
   * reads this number itself */
  uint32_t finished;
  int sleep_ms;       /* maximum duration of one sleep, in ms; 0: TU_SLEEP_MS */
  bool foreign_moved; /* true: something has happened in the library of tutti_options.foreign */
  /* time when the wait first read the clock, in ns. If only tu_patience_test is called: time when it last returned
   * true. 0: not yet */
  uint64_t since;
  uint32_t awaits;  /* rank for which the wait waits, plus 1 (comm/stats.h); 0: not known */
  uint32_t run;     /* number of the run that waits for it (tu_teller); 0: it is not recorded */
  uint64_t counted; /* time until which the wait has been counted for a rank; 0: from `since` on */
  /* time of the last check for time-outs that was made although the wait had progressed, in ns; tu_stall_moved keeps
   * it */
  uint64_t looked_at;
};

enum { TU_AGAIN_PLACES = 64, TU_IDLE_BUCKETS = 256 }; /* powers of two */

struct tutti_comm {
  /* ---- threads: which thread is in the communicator (enter.h) ---- */
  /* address of the tu_thread of the thread that is now in the communicator; NULL: no thread */
  const void *_Atomic inside;
  _Atomic uint32_t wanted; /* number of threads that wait to hold the communicator */
  /* number of threads that have waited long for the communicator; while it is not 0, only these threads may enter */
  _Atomic uint32_t starving;
  uint64_t process; /* tu_process_number of the process that created the communicator */
  /* ---- identity and data path ---- */
  uint32_t rank, ranks;
  struct tu_transport *transport;
  struct tu_mover *mover;
  struct tu_error error; /* the last error; once `failed` is set, the verdict (the communicator's first failure) */
  bool failed;
  struct tu_pace *pace; /* a simulated slower wire that delays arriving messages; NULL: messages are not delayed */
  int timeout_ms;
  tutti_order order;  /* of reductions whose calls set none */
  void *_Atomic user; /* pointer of the program */
  struct tu_patience patience;
  /* maximum number of ranks per CPU in the world that this communicator belongs to; equal on all ranks */
  uint32_t share;
  /* ---- calls: open requests, and requests kept for reuse ---- */
  struct tu_awaited *awaited;         /* [ranks]: how long this rank has waited for each (stats.h) */
  uint64_t number;                    /* sequence number of the last collective that was started; 0: none */
  struct tutti_request *first, *last; /* open requests, in the order in which they were started */
  uint32_t open_requests;
  struct tu_stall probes; /* state of the wait that repeated calls of tutti_probe without a wait form */
  struct tu_stall tests;  /* state of the wait that repeated calls of tutti_test_some form */
  /* failed requests for which the program has no handle, each kept until the thread that started it gets the error */
  struct tutti_request *lost;
  /* neighbours in the process's list of communicators with open requests (queue.c) */
  struct tutti_comm *busy_before, *busy_after;
  bool listed; /* true: the communicator is in the process's list of communicators with open requests */
  struct tutti_request *idle, *idle_last; /* the one that was used last comes first */
  uint32_t idle_count;
  size_t idle_bytes; /* memory of the idle requests, about */
  /* [slot of this rank's board of published calls]: id of the request whose call the slot shows */
  uint64_t board_requests[TU_BOARD_CALLS];
  uint64_t request_ids;
  /* Requests of the last calls, if a repetition of the call can take the fast path (engine/straight.c), in places by the
   * arguments of the call (call/again.h). These requests are not in `idle`. */
  struct tutti_request *again[TU_AGAIN_PLACES];
  /* ---- operations that the program has created on this communicator (operations.h) ---- */
  struct tu_comm_op *ops;
  uint32_t op_count, op_capacity;
  uint32_t ops_created; /* number of operations created so far; this gives the next one's id */
  /* ---- selection of algorithms ---- */
  struct tu_cached_plan *plans;
  /* one entry per list of members and tag: how often tutti_comm_create has created a communicator with them from this
   * one; protected by the lock of comm_make.c */
  struct tu_use *uses;
  uint32_t use_count, use_capacity;
  struct tu_tuning *tuning;       /* selection table, equal on all ranks; NULL: only the built-in table is used */
  struct tu_domain *domains;      /* [ranks]: where each rank runs; NULL: unknown */
  uint32_t group;                 /* number of ranks per locality group, equal on all ranks; 0: there are no groups */
  struct tu_placement *placement; /* the hosts of the ranks, equal on all ranks; NULL: one host */
  struct tu_memo *memo;
  struct tutti_channel *channels; /* open channels; protected by the lock of stream/channel.c */
  /* ---- checks of peers (peers.h) ---- */
  bool *waits_for;   /* [ranks], temporary: true for each rank that this rank waits for */
  uint8_t *departed; /* [ranks], temporary: enum tu_departed of each rank, set by tu_note_departed */
  /* the rank with which the last tu_note_departed began; each call checks 64 ranks, and the next call begins after
   * them */
  uint32_t looked;
  /* ---- what short calls do not use, apart from what they do ---- */
  struct tutti_request *turn; /* open request at which the next pass begins, after the oldest; NULL: after them */
  struct tutti_request *idle_of[TU_IDLE_BUCKETS]; /* the idle requests, by a hash of their signatures */
};

#endif
