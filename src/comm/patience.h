/* patience.h: decides what a waiting rank does next: poll again, yield its core, or sleep. */
#ifndef TU_PATIENCE_H
#define TU_PATIENCE_H

#include "comm/comm.h"

#define TU_SLEEP_MS 100 /* maximum duration of one sleep, in ms */
/* interval between two checks whether the peers are alive, in ns; each check of a peer is a system call */
#define TU_LOOK_NS 40000000u
#define TU_NS_PER_MS 1000000u

/* Returns the time from `since` to `now`. Returns 0 if `since` is later, because another thread may have set it after
 * this thread read the clock. */
static inline uint64_t tu_elapsed_ns(uint64_t since, uint64_t now) { return now > since ? now - since : 0; }
static inline void tu_stall_moved(struct tu_stall *s) {
  s->polls = s->yields = s->awaits = 0, s->since = s->counted = 0;
}

/* Maximum time to wait for an answer of a rank on another host, in ns of tu_poll_time. A rank answers only while it is
 * in the library. */
#define TU_ANSWER_NS (200 * (uint64_t)TU_NS_PER_MS)

/* How long a thread has waited, where the time in which others had its core counts less: of the time between two polls, at
 * most 1 ms counts, or a third if that is more. On a busy machine the other ranks are then given more turns, but the wait
 * takes at most three times as long. */
struct tu_poll_time {
  uint64_t last;    /* time of the last poll, in ns; 0: none yet */
  uint64_t counted; /* in ns */
};
/* Called at each poll, with the current time in ns. Returns the time that the thread has waited, in ns. */
static inline uint64_t tu_poll_time_at(struct tu_poll_time *time, uint64_t now) {
  const uint64_t passed = time->last ? now - time->last : 0;
  time->counted += tu_max(tu_min(passed, (uint64_t)TU_NS_PER_MS), passed / 3);
  time->last = now;
  return time->counted;
}

/* What this thread has observed about the use of its core by other programs. */
struct tu_core_watch {
  /* upper limit for the number of polls without reading the clock; low while sleeps_at_once is true */
  uint32_t polls;
  /* busy: the thread assumes that other programs use its core. sleeps_at_once: because of these programs, the thread
   * sleeps after a few polls, without yielding */
  bool busy, sleeps_at_once;
  /* busy_until: time until which `busy` stays true. busy_ns: length of the last period with `busy`. Both in ns */
  uint64_t busy_until, busy_ns;
  /* the thread's normal time slice in ns, while it has shorter ones; 0: its slices are normal */
  uint64_t slice_ns;
  /* time, in ns, when this thread last asked the kernel for its CPU time */
  uint64_t asked_at;
  uint64_t sleeps, slept_ns; /* number of the thread's voluntary sleeps since asked_at, and their total time in ns */
  uint64_t rested_at;        /* time when the thread's last yield or sleep ended, in ns; 0: none yet */
  /* yielded_at: time when the last yield began. others_worked: total time that the other ranks had worked until
   * others_at, which is at most WORK_NS earlier. All in ns */
  uint64_t yielded_at, others_worked, others_at;
  uint64_t placed_at; /* time when the thread last published its CPU before a yield, in ns */
  uint64_t here;      /* the ranks that shared its CPU then, as tu_places_look returns them */
  uint64_t turn_ns;   /* about how long the turn of one of these ranks takes, with the switch to it, in ns */
  /* what the kernel reported at asked_at: CPU time of the thread in us, and its numbers of involuntary (preempted) and
   * of voluntary (blocked) context switches */
  uint64_t cpu_us, preempted, blocked;
};
extern _Thread_local struct tu_core_watch tu_core_watch __attribute__((tls_model("initial-exec")));

/* Sets how a rank waits. spin_us: as in tutti_options. share: maximum number of ranks per CPU. hosts: the job has several
 * hosts. Error: TUTTI_ERR_ENVIRONMENT. */
tutti_err tu_patience_init(struct tu_patience *patience, int spin_us, uint32_t share, bool hosts,
                           struct tu_error *error);
/* Returns the number of polls before the clock is read. */
static inline uint32_t tu_patience_polls(const struct tutti_comm *comm) {
  return tu_core_watch.polls < comm->patience.polls ? tu_core_watch.polls : comm->patience.polls;
}
/* Returns true if ranks share CPUs, and this thread knows with which ones it shares its CPU (tu_core_watch.here). */
static inline bool tu_patience_knows_neighbours(const struct tutti_comm *comm) {
  return comm->share > 1 && comm->patience.adapts && tu_core_watch.placed_at > 0;
}
/* Returns how often a rank should poll for a message of another CPU before it yields: for as long as the turn of another rank of
 * its own CPU takes, which probably waits, too. 0 if only one other rank shares the CPU: that one goes on next. */
uint32_t tu_patience_turn_polls(void);
/* Returns the maximum duration of the next sleep of a wait, in ms. */
int tu_patience_sleep_ms(const struct tutti_comm *comm, const struct tu_stall *stall);
/* Called after an unsuccessful poll. Advances the library of tutti_options.foreign. Returns true if it is time to sleep.
 * Otherwise pauses or yields, and returns false. Any thread may call this function. */
bool tu_patience_ends(const struct tutti_comm *comm, struct tu_stall *stall);
/* For callers that must not sleep, but may check again at once. Call it after each check that found nothing. moved: the
 * check found nothing, but made progress. Yields if ranks share cores and `moved` is false. Returns true if it is time
 * to look for dead peers and passed time-outs. The first call of a wait costs nothing. */
bool tu_patience_test(const struct tutti_comm *comm, struct tu_stall *stall, bool moved);
/* Returns true if, by the clock, it is time to look for dead peers and passed time-outs. *looked_at: time when the
 * function last returned true. */
bool tu_patience_looks(uint64_t *looked_at);
/* Sleeps until the bell rings, for at most `ms` ms, and records the time as sleep, not as work. `token`: result of
 * tu_bell_arm, which was called before the last check for new data. */
void tu_patience_sleep(struct tu_transport *t, uint32_t token, int ms);

#endif
