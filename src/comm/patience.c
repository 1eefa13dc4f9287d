/* patience.c: decides when a waiting rank polls again, when it yields its core, and when it sleeps. All waits of the
 * library use these decisions.
 *
 * A wait has three phases:
 * 1. The rank polls, without reading the clock. On the fast path, a rank that shares its CPU polls once if it waits for a
 *    rank of the same CPU, which cannot run meanwhile, and longer if all ranks of its CPU have done their part, or if
 *    it waits for a root on another CPU (call/stall.c).
 * 2. If each rank has its own core, the rank polls for SPIN_NS more (in a job of several hosts: for SPIN_HOSTS_NS). It
 *    does not sleep yet, because a sleep and a wake-up take about 5 to 20 us, and the message may come any moment. If
 *    ranks share a core, the rank yields instead, because another rank may need the core. It yields up to 100 times, but
 *    not for longer than TU_LOOK_NS, because it looks for dead peers and passed time-outs only before it sleeps. If ten
 *    other programs use two cores, a yield takes up to 20 ms, and 100 of them take 2 s.
 * 3. The rank sleeps.
 *
 * Other programs on the core slow such a wait down. If the rank polls, it uses up its share of the core. When its
 * message comes, another program may run first, for 1 to 4 ms. If the rank yields, another program may run for as long
 * at once. So a rank that notices other programs waits in another way for a while. If it soon notices them again, it
 * does so for twice as long.
 *
 * If each rank has its own core:
 * - The rank notices other programs by asking the kernel for the CPU time of its thread, at most once per ms. Time in
 *   which the thread neither ran nor slept went to other programs.
 * - While it assumes other programs, the rank sleeps after a few polls, and asks the kernel for short time slices (Linux
 *   6.12). A thread that has slept usually runs as soon as it is woken if its slices are shorter than those of the program
 *   that runs; otherwise it may wait for the next tick of the scheduler. It keeps the short slices for some time after it
 *   has ceased to assume other programs, because these are usually only resting.
 *
 * If ranks share a core:
 * - The rank notices other programs by a yield that took long, although no other rank of this host worked meanwhile. So
 *   ranks that compute do not count as other programs.
 * - While it assumes other programs, the rank still yields, but asks the kernel for short time slices (Linux 6.12). A
 *   yield then costs less, because it gives up one time slice of the thread, and a thread with shorter slices runs
 *   earlier. A sleep would be worse: each switch from rank to rank would cost a sleep and a wake-up.
 * - As soon as one rank of the host notices other programs, all its ranks ask for short slices. A rank with long slices
 *   would lose more with each yield than the others.
 * - If the kernel does not support short slices, the rank sleeps at once.
 *
 * In both cases a rank also checks, once per ms at most, whether it waits on a CPU of its own (places.h). */
#include "comm/patience.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/env.h"
#include "comm/places.h"

#define POLLS_ROOMY 256u /* number of polls without reading the clock if each rank has a core of its own: about 8 us */
/* If ranks share a core: number of polls without reading the clock, times the number of ranks per CPU. Then the rank yields,
 * so that another rank can use the core. The more ranks there are, the less likely it is that the sender of the message runs
 * now. */
#define POLLS_CROWDED 12u
/* the same while other programs use the core of the rank: about the time that a sleep and a wake-up take */
#define POLLS_BUSY 96u
#define POLLS_PER_US 16u      /* lower bound of polls per us: a poll takes about 30 ns */
#define POLLS_PER_CLOCK 8u    /* number of polls between two readings of the clock, while a rank polls by the clock */
#define POLLS_PER_FOREIGN 32u /* number of polls between two calls of tutti_foreign.progress, which take about 100 ns */
#define YIELDS_PER_FOREIGN 4u /* the same for yields: the first of them are for the other ranks */
/* For tu_core_watch.turn_ns: longest turn in which a rank has found nothing to do (a switch to it takes 1 us, in some virtual
 * machines 8), number of turns over which it is averaged, and time of a poll on the fast path. In ns. */
#define TURN_MAX_NS 8000u
#define TURNS 8u
#define POLL_NS 16u
#define SPIN_NS 300000u
/* The same if the job has several hosts. Each poll is then a system call, and a message takes longer than a wake-up. The
 * rank yields after each poll, so it need not notice other programs. */
#define POLLS_HOSTS 1u
#define SPIN_HOSTS_NS 200000u
#define YIELDS 100u
#define FOREIGN_NS 500000u /* in ns; if sched_yield takes longer, another program may have used the core meanwhile */
/* This thread is assumed to share its core with other programs if both are true of the time in which it neither ran nor
 * slept: it is at least LOST_NS ns, and at least 1 / LOST_PART of the time since the last check. */
#define LOST_NS 200000u
#define LOST_PART 5u
/* A rank that was awake for at least this time (ns) between two yields or sleeps has worked, and has not only
 * polled. */
#define WORK_NS 50000u
/* minimum time, in ns, between two calls in which ask_kernel asks for the CPU time of this thread */
#define ASK_NS 1000000u
#define SHORT_SLICE_NS 100000u /* shortest time slice that Linux grants, in ns */
/* How long a rank assumes other programs on its core once it notices them, in ns: at first the minimum. The time is
 * doubled, up to the maximum, if it notices them again soon. */
#define BUSY_MIN_NS 1000000u
#define BUSY_MAX_NS 256000000u
/* From this length of that time on, in ns, ranks that share CPUs leave that CPU. A thread of the kernel that works for some ms
 * is over before they have moved. */
#define BUSY_LASTING_NS 8000000u
/* in a program that polls with tutti_test: minimum time between two checks for dead peers and time-outs, in ns */
#define LOOK_NS 20000000u
#define NS_PER_US 1000u

_Thread_local struct tu_core_watch tu_core_watch = {.polls = UINT32_MAX};

tutti_err tu_patience_init(struct tu_patience *patience, int spin_us, uint32_t share, bool hosts,
                           struct tu_error *error) {
  int64_t us = spin_us;
  tutti_err err = us == 0 ? tu_env_int("TUTTI_SPIN_US", -1, INT32_MAX, &us, error) : TUTTI_OK;
  if (us > 0)
    *patience = (struct tu_patience){.polls = (uint32_t)tu_min((size_t)us * POLLS_PER_US, POLLS_ROOMY),
                                     .spin_ns = (uint64_t)us * NS_PER_US};
  else if (us < 0) *patience = (struct tu_patience){.polls = 1};
  else if (share > 1)
    *patience = (struct tu_patience){.adapts = true, .polls = (uint32_t)tu_max(POLLS_CROWDED / share, 1)};
  else if (hosts) *patience = (struct tu_patience){.spin_ns = SPIN_HOSTS_NS};
  else *patience = (struct tu_patience){.adapts = true, .polls = POLLS_ROOMY, .spin_ns = SPIN_NS};
  if (hosts && patience->spin_ns > 0) patience->polls = POLLS_HOSTS;
  patience->lends_core = hosts;
  if (share > 1 && us >= 0) patience->yields = YIELDS;
  return err;
}

/* ---- other programs on this core ---- */

/* The kernel's struct sched_attr. No header defines it that is compatible with <sched.h> of every C library. */
struct scheduling {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime; /* for an ordinary thread: its time slice, in ns */
  uint64_t deadline, period;
};

/* Asks the kernel for short time slices for this thread, or for its normal ones. Returns false if the kernel does not
 * support time slices, or if the thread is not an ordinary one (SCHED_OTHER). */
static bool set_slices(bool shorter) {
  struct tu_core_watch *w = &tu_core_watch;
  struct scheduling s = {.size = sizeof s};
  if (shorter == (w->slice_ns > 0)) return true;
  if (syscall(SYS_sched_getattr, 0, &s, sizeof s, 0) != 0) return false;
  if (s.policy != SCHED_OTHER || (shorter && s.runtime <= SHORT_SLICE_NS)) return false;
  uint64_t before = s.runtime;
  s.runtime = shorter ? SHORT_SLICE_NS : w->slice_ns;
  if (syscall(SYS_sched_setattr, 0, &s, 0) != 0) return false;
  w->slice_ns = shorter ? before : 0;
  return true;
}

static void be_busy(const struct tutti_comm *comm, uint64_t until) {
  struct tu_core_watch *w = &tu_core_watch;
  w->busy = true;
  w->busy_until = until;
  const bool has_slices = set_slices(true);
  w->sleeps_at_once = comm->share == 1 || !has_slices;
  if (w->sleeps_at_once) w->polls = POLLS_BUSY;
}

/* Returns until when other programs count as seen a short time ago: for 8 times the length of the last period in which the
 * thread assumed them. */
static uint64_t recent_until(const struct tu_core_watch *w) { return w->busy_until + 8 * w->busy_ns; }

static void note_busy(const struct tutti_comm *comm, uint64_t now) {
  struct tu_core_watch *w = &tu_core_watch;
  bool again = w->busy_ns > 0 && now < recent_until(w);
  w->busy_ns = again ? tu_min(2 * w->busy_ns, BUSY_MAX_NS) : BUSY_MIN_NS;
  be_busy(comm, now + w->busy_ns);
  tu_places_note_busy(comm->transport, w->busy_until, comm->share == 1 || w->busy_ns >= BUSY_LASTING_NS);
}

static void note_quiet(const struct tutti_comm *comm) {
  struct tu_core_watch *w = &tu_core_watch;
  if (comm->share > 1) (void)set_slices(false);
  w->busy = w->sleeps_at_once = false;
  w->polls = UINT32_MAX;
}

/* Returns true if the thread should sleep now, without polling or yielding first, because other programs use its
 * core. */
static bool hurries(const struct tutti_comm *comm, uint64_t now) {
  const struct tu_core_watch *w = &tu_core_watch;
  if (w->busy && now >= w->busy_until) note_quiet(comm);
  if (!w->busy && w->slice_ns > 0 && now >= recent_until(w)) (void)set_slices(false);
  return comm->patience.adapts && w->sleeps_at_once;
}

/* Asks the kernel for the CPU time of this thread. Time in which the thread neither ran nor slept voluntarily is lost
 * to other programs. If the thread was preempted and has lost much time, records that other programs use the core.
 * Records nothing if the thread has also slept outside the library, because the length of those sleeps is unknown. */
static void ask_kernel(const struct tutti_comm *comm, uint64_t now) {
  struct tu_core_watch *w = &tu_core_watch;
  struct rusage u;
  if (now - w->asked_at < ASK_NS || getrusage(RUSAGE_THREAD, &u) != 0) return;
  uint64_t cpu_us =
      (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
  uint64_t wall_ns = now - w->asked_at, here_ns = (cpu_us - w->cpu_us) * NS_PER_US + w->slept_ns;
  uint64_t preempted = (uint64_t)u.ru_nivcsw - w->preempted, blocked = (uint64_t)u.ru_nvcsw - w->blocked;
  bool known = w->asked_at > 0 && blocked <= w->sleeps && wall_ns > here_ns;
  uint64_t lost_ns = known ? wall_ns - here_ns : 0;
  if (preempted > 0 && lost_ns >= LOST_NS && lost_ns * LOST_PART >= wall_ns) note_busy(comm, now);
  (void)tu_places_look(comm->transport, now, preempted > 0, false);
  w->asked_at = now;
  w->cpu_us = cpu_us;
  w->preempted = (uint64_t)u.ru_nivcsw;
  w->blocked = (uint64_t)u.ru_nvcsw;
  w->sleeps = 0;
  w->slept_ns = 0;
}

/* What the other ranks of the host have published about the use of their cores. */
struct others {
  /* total time that the other ranks have worked, in ns; a stretch of work counts only if it is at least WORK_NS long */
  uint64_t worked_ns;
  uint64_t busy_until; /* latest time until which one of the other ranks assumes other programs on its core, in ns */
};

static struct others ask_others(const struct tu_transport *t) {
  struct others others = {0};
  for (uint32_t i = 1; i < tu_min(t->ranks, TU_SEEN_RANKS); i++) {
    const struct tu_slice_head *head = tu_transport_head(t, (t->rank + i) % t->ranks);
    others.worked_ns += atomic_load_explicit(&head->worked_ns, memory_order_relaxed);
    others.busy_until = tu_max(others.busy_until, atomic_load_explicit(&head->busy_until, memory_order_relaxed));
  }
  return others;
}

static bool others_rest(const struct tu_transport *t) {
  bool rest = true;
  for (uint32_t i = 1; i < tu_min(t->ranks, TU_SEEN_RANKS) && rest; i++)
    rest = atomic_load_explicit(&tu_transport_head(t, (t->rank + i) % t->ranks)->rests, memory_order_relaxed) != 0;
  return rest;
}

/* Begins a rest (a yield or a sleep). The time since the last rest counts as work if it is long enough. If `again` is
 * true, it does not count, because the rank has only polled since its last rest. */
static void begin_rest(const struct tu_transport *t, uint64_t now, bool again) {
  struct tu_slice_head *head = tu_transport_head(t, t->rank);
  uint64_t awake_ns = now - tu_core_watch.rested_at;
  if (!again && tu_core_watch.rested_at > 0 && awake_ns >= WORK_NS)
    atomic_store_explicit(&head->worked_ns, atomic_load_explicit(&head->worked_ns, memory_order_relaxed) + awake_ns,
                          memory_order_relaxed);
  atomic_store_explicit(&head->rests, 1, memory_order_relaxed);
}

static uint64_t end_rest(const struct tu_transport *t) {
  atomic_store_explicit(&tu_transport_head(t, t->rank)->rests, 0, memory_order_relaxed);
  return tu_core_watch.rested_at = tu_clock_ns();
}

/* Decides whether the core was given to another program since the last yield began, and records this. That is assumed
 * if three things are true: much time has passed, the other ranks of the host rest now, and they have worked for less
 * than half of that time. The caller knows that this rank has not worked in that time either. */
static void judge_yield(const struct tutti_comm *comm, uint64_t now) {
  const struct tu_core_watch *w = &tu_core_watch;
  uint64_t away_ns = now - w->yielded_at;
  if (!comm->patience.adapts || away_ns < FOREIGN_NS || !others_rest(comm->transport)) return;
  if (ask_others(comm->transport).worked_ns - w->others_worked < away_ns / 2) note_busy(comm, now);
}

/* Looks what the other ranks have published, and on which CPUs they wait. Each of them has written lines that may be in
 * another core's cache, so it is done at most once in a while. */
static void look_around(const struct tutti_comm *comm, uint64_t now) {
  struct tu_core_watch *w = &tu_core_watch;
  if (now - w->others_at >= WORK_NS) {
    const struct others others = ask_others(comm->transport);
    w->others_at = now;
    w->others_worked = others.worked_ns;
    if (others.busy_until > tu_max(now, w->busy_until)) be_busy(comm, others.busy_until);
  }
  if (now - w->placed_at < TU_PLACES_NS) return;
  w->placed_at = now;
  w->here = tu_places_look(comm->transport, now, true, true);
}

static uint32_t count_here(void) { return (uint32_t)__builtin_popcountll(tu_core_watch.here); }

/* Notes that a yield has taken that long: the other ranks of this CPU have had a turn each, and this one is switched to, too. */
static void note_turns(uint64_t away_ns) {
  struct tu_core_watch *w = &tu_core_watch;
  w->turn_ns -= w->turn_ns / TURNS;
  w->turn_ns += tu_min(away_ns / (count_here() + 1), TURN_MAX_NS) / TURNS;
}

uint32_t tu_patience_turn_polls(void) { return count_here() > 1 ? (uint32_t)(tu_core_watch.turn_ns / POLL_NS) : 0; }

static void yield_core(const struct tutti_comm *comm, uint64_t now, bool again) {
  const struct tu_transport *t = comm->transport;
  /* again: the rank has only polled since its last yield. So the time since that yield shows whether another program
   * ran. */
  if (again) judge_yield(comm, now);
  begin_rest(t, now, again);
  if (comm->patience.adapts) look_around(comm, now);
  tu_core_watch.yielded_at = now;
  sched_yield();
  const uint64_t ended = end_rest(t);
  note_turns(ended - now);
  judge_yield(comm, ended);
}

void tu_patience_sleep(struct tu_transport *t, uint32_t token, int ms) {
  uint64_t before = tu_clock_ns();
  begin_rest(t, before, true);
  tu_remote_arm(t);
  tu_bell_sleep(t, token, ms);
  tu_core_watch.slept_ns += end_rest(t) - before;
  tu_core_watch.sleeps++;
}

/* ---- deciding ---- */

/* Returns true while the rank should go on polling by the clock. */
static bool spins(const struct tutti_comm *comm, struct tu_stall *s) {
  /* A yield may take long, so the clock is read after each. */
  if (s->polls % POLLS_PER_CLOCK != 0 && s->since > 0 && !comm->patience.lends_core) return true;
  uint64_t now = tu_clock_ns();
  if (s->since == 0) s->since = now;
  if (comm->patience.adapts && comm->share == 1) ask_kernel(comm, now);
  return now - s->since < comm->patience.spin_ns && !hurries(comm, now);
}

int tu_patience_sleep_ms(const struct tutti_comm *comm, const struct tu_stall *s) {
  const tutti_foreign *foreign = &comm->transport->foreign;
  const int ms = s->sleep_ms > 0 ? s->sleep_ms : TU_SLEEP_MS;
  return foreign->progress ? (int)tu_min((size_t)ms, tu_max(foreign->sleep_ms, 1)) : ms;
}

/* Returns true if something has happened there. */
static bool advance_foreign(const struct tutti_comm *comm, struct tu_stall *s) {
  const tutti_foreign *foreign = &comm->transport->foreign;
  const bool moved = foreign->progress && foreign->progress(foreign->context);
  s->foreign_moved |= moved;
  return moved;
}

bool tu_patience_ends(const struct tutti_comm *comm, struct tu_stall *s) {
  if (s->polls < UINT32_MAX) s->polls++;
  if (s->yields == 0 && (s->polls < tu_patience_polls(comm) || (comm->patience.spin_ns > 0 && spins(comm, s)))) {
    if (s->polls % POLLS_PER_FOREIGN == 0) (void)advance_foreign(comm, s);
    if (comm->patience.lends_core) sched_yield();
    else tu_pause();
    return false;
  }
  const bool asks = (s->yields + 1) % YIELDS_PER_FOREIGN == 0 || s->yields >= comm->patience.yields;
  if (asks && advance_foreign(comm, s)) return false;
  if (s->yields >= comm->patience.yields) return true;
  uint64_t now = tu_clock_ns();
  if (s->since == 0) s->since = now;
  if (hurries(comm, now) || tu_elapsed_ns(s->since, now) >= TU_LOOK_NS) return asks || !advance_foreign(comm, s);
  yield_core(comm, now, s->yields++ > 0);
  return false;
}

bool tu_patience_test(const struct tutti_comm *comm, struct tu_stall *s, bool moved) {
  if (s->polls < UINT32_MAX) s->polls++;
  if (s->polls == 1) return false;
  if (!moved && comm->patience.yields > 0 && s->polls >= comm->patience.polls) {
    uint64_t now = tu_clock_ns();
    if (!hurries(comm, now)) yield_core(comm, now, false);
  }
  return tu_patience_looks(&s->since);
}

bool tu_patience_looks(uint64_t *looked_at) {
  uint64_t now = tu_clock_coarse_ns();
  if (now - *looked_at < LOOK_NS) return false;
  *looked_at = now;
  return true;
}
