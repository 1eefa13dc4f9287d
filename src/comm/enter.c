/* enter.c: how threads wait until another thread leaves a communicator. */
#include "comm/enter.h"

#include <sched.h>
#include <time.h>

_Thread_local struct tu_thread tu_thread;

enum { LOOKS = 64, YIELDS = 100, NAP_NS = 50000 };

/* Waits a moment before the next check. `looks`: number of unsuccessful checks so far. Below LOOKS checks this executes
 * a pause instruction. For the next YIELDS checks it yields the core. After that it sleeps for 50 us. */
static void stand_by(uint32_t looks) {
  if (looks < LOOKS) tu_pause();
  else if (looks < LOOKS + YIELDS) sched_yield();
  else (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static bool take(struct tutti_comm *comm) {
  const void *free_mark = NULL;
  return atomic_compare_exchange_strong_explicit(&comm->inside, &free_mark, &tu_thread, memory_order_acquire,
                                                 memory_order_relaxed);
}

/* Waits until no other thread holds the communicator, and then holds it. The wait is usually short. A thread that waits
 * for a message releases the communicator after each unsuccessful poll. A thread that carries out a call holds it only
 * briefly, unless the call runs user operations. But a thread that enters again and again, for example to call
 * tutti_test, could keep a waiting thread out. So a waiting thread gets priority after LOOKS + YIELDS / 2 attempts. */
void tu_hold_contended(struct tutti_comm *comm) {
  bool starves = false;
  atomic_fetch_add_explicit(&comm->wanted, 1, memory_order_relaxed);
  for (uint32_t looks = 0; starves ? !take(comm) : !tu_take_idle(comm); looks++) {
    if (looks == LOOKS + YIELDS / 2) {
      starves = true;
      atomic_fetch_add_explicit(&comm->starving, 1, memory_order_relaxed);
    }
    stand_by(looks);
  }
  if (starves) atomic_fetch_sub_explicit(&comm->starving, 1, memory_order_relaxed);
  atomic_fetch_sub_explicit(&comm->wanted, 1, memory_order_relaxed);
}

/* Leaves the communicator, so that a waiting thread can enter. Enters it again once a waiting thread has entered, or no
 * thread waits any more, or LOOKS + YIELDS checks have passed without either. */
void tu_let_in_contended(struct tutti_comm *comm) {
  tu_leave_idle(comm);
  for (uint32_t looks = 0; atomic_load_explicit(&comm->wanted, memory_order_relaxed) > 0 && looks < LOOKS + YIELDS &&
                           !atomic_load_explicit(&comm->inside, memory_order_relaxed);)
    stand_by(looks++);
  tu_regain(comm);
}
