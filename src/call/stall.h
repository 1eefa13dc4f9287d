/* stall.h: waits of a thread that holds a communicator. While it waits, the thread advances all open requests. */
#ifndef TU_STALL_H
#define TU_STALL_H

#include "call/queue.h"
#include "comm/wait.h"

/* Advances every open request of the communicator, and of other communicators that no other thread holds. Returns true
 * if there was any progress. */
bool tu_poll_all(struct tutti_comm *comm);
/* Advances an execution on the fast path, and waits for a limited time. Returns true if the execution is finished. */
bool tu_wait_straight(struct tutti_comm *comm, struct tu_execution *e);
/* Called after an unsuccessful poll on `comm`, which the caller holds. Spins, yields or sleeps, and lets other threads
 * enter. Before it sleeps, it checks verdicts (first failures), boards (published calls), peers and time-outs for all
 * open requests. Returns true after a sleep. A caller that waits for something other than a request should then check
 * it. */
bool tu_stall(struct tutti_comm *comm, struct tu_stall *stall);
/* Called after a successful poll on `comm`, which the caller holds: the wait begins anew. In a job of several hosts
 * this function also checks the time-outs, at most every 20 ms. It must, because every frame from another host counts
 * as progress, even a question of a rank that waits itself. */
void tu_stall_goes_on(struct tutti_comm *comm, struct tu_stall *stall);

/* Like tu_stall, but waits for a condition other than requests. Afterwards the caller checks the condition.
 * TU_LOOK_ROUND: check whether the peers are alive. TU_TOO_LATE: the time-out has passed; check the condition for the
 * last time. */
enum tu_due tu_wait_inside(struct tutti_comm *comm, struct tu_wait *wait);

#endif
