/* patience.c: when a rank that waits in vain polls again, when it yields its core, and when it sleeps: the one place that
 * decides it, for all loops that wait.
 *
 * First come polls without a clock. Then, where each rank has a core, polls by the clock (SPIN_NS): a sleep and a wake-up
 * take some 5 to 20 us, but what is waited for may come any moment. Where ranks share a core, yields: it may be a rank that
 * needs it. Then sleep.
 *
 * Other programs spoil both. A rank that spins has used up its share of a core when its message comes, and loses a time
 * slice (1 to 4 ms); a yield gives them one at once. So a rank that sees that others want its core changes for a while, and
 * for longer if it soon sees it again:
 * - With a core for each rank it sleeps at once, and is woken at once. It sees others by what the kernel says that the
 *   thread has lost to them (asked once a ms at most).
 * - Where ranks share cores, all would sleep, and each switch take a sleep and a wake-up instead of a yield. So it yields as
 *   before, but asks for short slices (Linux 6.12): a yield gives up one slice of one's own, and who has a shorter one comes
 *   first. All ranks do as soon as one has seen others: who kept long ones would give up more with each yield than the rest.
 *   Where the kernel has no such thing they sleep at once. It sees others by a yield that took long although no rank of
 *   this host has worked meanwhile: a job's own start, or ranks that compute, are no other programs. */
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/comm.h"
#include "base/env.h"

#define POLLS_ROOMY 256u   /* without a clock: some 8 us */
#define POLLS_CROWDED 6u   /* ... before a yield: another rank can use the core */
#define POLLS_PER_US 16u   /* at least: a poll takes some 30 ns */
#define POLLS_PER_CLOCK 8u /* of those by the clock */
#define SPIN_NS 300000u
#define YIELDS 100u
#define FOREIGN_NS 500000u /* who gets its core back later than this yielded to another program */
#define LOST_NS 200000u    /* who has lost so much of its time, and more than one part in so many, is not alone */
#define LOST_PART 5u
#define WORK_NS 50000u         /* awake for so long at a stretch, a rank has worked, and not only looked */
#define ASK_NS 1000000u        /* how often the kernel is asked what this thread has lost */
#define SHORT_SLICE_NS 100000u /* the shortest that Linux gives */
#define BUSY_MIN_NS \
  1000000u /* so long a rank sleeps at once after others had its core; twice as long if they had it soon again */
#define BUSY_MAX_NS 256000000u
#define LOOK_NS 20000000u /* between two looks for deaths and deadlines of a program that polls */
#define NS_PER_US 1000u
#define ASKED_RANKS 64u /* of many ranks, the next ones stand for all */

_Thread_local struct tu_core_watch tu_core_watch = {.polls = UINT32_MAX};

tutti_err tu_patience_init(struct tu_patience *patience, int spin_us, uint32_t share, struct tu_error *error) {
  int64_t us = spin_us;
  tutti_err err = us == 0 ? tu_env_int("TUTTI_SPIN_US", -1, INT32_MAX, &us, error) : TUTTI_OK;
  if (us > 0)
    *patience = (struct tu_patience){.polls = (uint32_t)tu_min((size_t)us * POLLS_PER_US, POLLS_ROOMY),
                                     .spin_ns = (uint64_t)us * NS_PER_US};
  else if (us < 0) *patience = (struct tu_patience){.polls = 1};
  else if (share > 1) *patience = (struct tu_patience){.adapts = true, .polls = POLLS_CROWDED};
  else *patience = (struct tu_patience){.adapts = true, .polls = POLLS_ROOMY, .spin_ns = SPIN_NS};
  if (share > 1 && us >= 0) patience->yields = YIELDS;
  return err;
}

/* ---- who else wants this core? ---- */

/* The kernel's struct sched_attr; no header has it that goes with all C libraries' <sched.h>. */
struct scheduling {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime; /* of an ordinary thread: its slice, in ns */
  uint64_t deadline, period;
};

/* The thread asks for short slices, or for what it had; false: the kernel knows none, or the thread is no ordinary one. */
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
  w->sleeps_at_once = comm->share == 1 || !set_slices(true);
  if (w->sleeps_at_once) w->polls = POLLS_CROWDED;
}

static void note_busy(const struct tutti_comm *comm, uint64_t now) {
  struct tu_core_watch *w = &tu_core_watch;
  bool again = w->busy_ns > 0 && now < w->busy_until + 8 * w->busy_ns; /* or still */
  w->busy_ns = again ? tu_min(2 * w->busy_ns, BUSY_MAX_NS) : BUSY_MIN_NS;
  be_busy(comm, now + w->busy_ns);
  const struct tu_transport *t = comm->transport;
  atomic_store_explicit(&tu_transport_head(t, t->rank)->busy_until, w->busy_until, memory_order_relaxed);
}

static void note_quiet(void) {
  struct tu_core_watch *w = &tu_core_watch;
  (void)set_slices(false);
  w->busy = w->sleeps_at_once = false;
  w->polls = UINT32_MAX;
}

/* Had it better sleep at once? */
static bool hurries(const struct tutti_comm *comm, uint64_t now) {
  if (tu_core_watch.busy && now >= tu_core_watch.busy_until) note_quiet();
  return comm->patience.adapts && tu_core_watch.sleeps_at_once;
}

/* Was the thread preempted, and has it lost a good part of its time so? What it has slept of its own will is no loss; if the
 * program has slept beside the library, it is not known for how long, and nothing is concluded. */
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
  w->asked_at = now;
  w->cpu_us = cpu_us;
  w->preempted = (uint64_t)u.ru_nivcsw;
  w->blocked = (uint64_t)u.ru_nvcsw;
  w->sleeps = 0;
  w->slept_ns = 0;
}

/* What the other ranks say. */
struct others {
  uint64_t worked_ns;  /* at a stretch, all together */
  uint64_t busy_until; /* the latest */
};

static struct others ask_others(const struct tu_transport *t) {
  struct others others = {0};
  for (uint32_t i = 1; i < tu_min(t->ranks, ASKED_RANKS); i++) {
    const struct tu_slice_head *head = tu_transport_head(t, (t->rank + i) % t->ranks);
    others.worked_ns += atomic_load_explicit(&head->worked_ns, memory_order_relaxed);
    others.busy_until = tu_max(others.busy_until, atomic_load_explicit(&head->busy_until, memory_order_relaxed));
  }
  return others;
}

static bool others_rest(const struct tu_transport *t) {
  bool rest = true;
  for (uint32_t i = 1; i < tu_min(t->ranks, ASKED_RANKS) && rest; i++)
    rest = atomic_load_explicit(&tu_transport_head(t, (t->rank + i) % t->ranks)->rests, memory_order_relaxed) != 0;
  return rest;
}

/* Between two rests of one wait a rank has only looked, however long that took. */
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

/* Since it began to yield this rank has done nothing. Was it long, and no other rank of the host at work? */
static void judge_yield(const struct tutti_comm *comm, uint64_t now) {
  const struct tu_core_watch *w = &tu_core_watch;
  uint64_t away_ns = now - w->yielded_at;
  if (!comm->patience.adapts || away_ns < FOREIGN_NS || !others_rest(comm->transport)) return;
  if (ask_others(comm->transport).worked_ns - w->others_worked < away_ns / 2) note_busy(comm, now);
}

static void yield_core(const struct tutti_comm *comm, uint64_t now, bool again) {
  const struct tu_transport *t = comm->transport;
  if (again) judge_yield(comm, now); /* it may have lost its core since the last one */
  begin_rest(t, now, again);
  if (comm->patience.adapts) {
    struct others others = ask_others(t);
    tu_core_watch.others_worked = others.worked_ns;
    if (others.busy_until > tu_max(now, tu_core_watch.busy_until)) be_busy(comm, others.busy_until);
  }
  tu_core_watch.yielded_at = now;
  sched_yield();
  judge_yield(comm, end_rest(t));
}

void tu_patience_sleep(struct tu_transport *t, uint32_t token, int ms) {
  uint64_t before = tu_clock_ns();
  begin_rest(t, before, true);
  tu_bell_sleep(t, token, ms);
  tu_core_watch.slept_ns += end_rest(t) - before;
  tu_core_watch.sleeps++;
}

/* ---- deciding ---- */

/* Spins on while its time lasts. */
static bool spins(const struct tutti_comm *comm, struct tu_stall *s) {
  if (s->polls % POLLS_PER_CLOCK != 0 && s->since > 0) return true;
  uint64_t now = tu_clock_ns();
  if (s->since == 0) s->since = now;
  if (comm->patience.adapts && comm->share == 1) ask_kernel(comm, now);
  return now - s->since < comm->patience.spin_ns && !hurries(comm, now);
}

bool tu_patience_ends(const struct tutti_comm *comm, struct tu_stall *s) {
  if (s->polls < UINT32_MAX) s->polls++;
  if (s->yields == 0 && (s->polls < tu_patience_polls(comm) || (comm->patience.spin_ns > 0 && spins(comm, s)))) {
    tu_pause();
    return false;
  }
  if (s->yields >= comm->patience.yields) return true;
  uint64_t now = tu_clock_ns();
  if (hurries(comm, now)) return true;
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
