/* await.h: the wait of a rank for other ranks, while it creates a communicator. */
#ifndef TU_AWAIT_H
#define TU_AWAIT_H

#include "comm/comm.h"

/* A goal: a condition that a rank waits for while it creates a communicator. */
struct tu_comm_goal {
  bool (*there)(const struct tutti_comm *comm);
  /* returns true if the given rank is missing: it has not yet done what the condition needs from it */
  bool (*lacks)(const struct tutti_comm *comm, uint32_t rank);
  /* what the missing ranks have to do, as text for messages: "to ..." */
  const char *what;
  /* true: the missing ranks are members of the communicator, and this rank publishes that it waits for them */
  bool chains;
};
/* Waits until the goal's condition holds. Errors: TUTTI_ERR_PEER if a missing rank (from which the condition still
 * needs something) has died; the error of a missing rank that has given up; TUTTI_ERR_TIMEOUT, with the missing ranks
 * in the message. */
tutti_err tu_comm_await(struct tutti_comm *comm, const struct tu_comm_goal *goal, int timeout_ms,
                        struct tu_error *error);

#endif
