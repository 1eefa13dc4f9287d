/* wait.h: waits for a condition. A thread first spins, then yields, then sleeps on the bell (the wake-up signal between
 * ranks). */
#ifndef TU_WAIT_H
#define TU_WAIT_H

#include "comm/patience.h"

/* A wait for a condition that is not the end of a request. All zero at the start, except timeout_ms (0 or
 * TUTTI_NO_TIMEOUT: no limit). */
struct tu_wait {
  struct tu_stall stall;
  int timeout_ms;
  /* since: time of the first call of tu_wait_due; looked_at: time of the last check whether the peers are alive; both
   * in ns; 0: not yet */
  uint64_t since, looked_at;
};
/* What a wait has to do next. TU_GO_ON: check the condition again. TU_LOOK_ROUND: check whether the peers are alive.
 * TU_TOO_LATE: the time-out has passed, so check the condition for the last time. */
enum tu_due { TU_GO_ON, TU_LOOK_ROUND, TU_TOO_LATE };
/* Returns what the wait has to do at time `now`, after a sleep. */
enum tu_due tu_wait_due(struct tu_wait *wait, uint64_t now);
/* Prepares the bell to wake this thread. Then calls left_ms, which checks the condition once more and returns the
 * maximum time to sleep, in ms. Sleeps until the bell rings or this time has passed. If left_ms returns 0, does not
 * sleep. */
void tu_wait_sleep(struct tu_transport *t, int (*left_ms)(void *context), void *context);
/* For a wait that calls the function `there` in a loop: call this after each time that `there` has returned false.
 * Pauses, yields or sleeps a little. Any thread may call this function, because it holds no communicator and advances
 * no requests. */
enum tu_due tu_wait_outside(const struct tutti_comm *comm, struct tu_wait *wait, bool (*there)(void *context),
                            void *context);

#endif
