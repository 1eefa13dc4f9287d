/* plan_messages.h: lists the messages of a plan, with sender, receiver, lane and number of chunks. */
#ifndef TU_PLAN_MESSAGES_H
#define TU_PLAN_MESSAGES_H

#include "plan/plan.h"

struct tu_plan_message {
  uint32_t from, to, lane;
  uint32_t chunks; /* number of chunks; joined messages count as one message */
};

/* Returns all messages that the ranks of the plan send, ordered by sender and then by the sender's steps. A multicast
 * is one message to each receiver. The caller frees the array. */
struct tu_plan_message *tu_plan_messages(const struct tu_plan *plan, size_t *count);

#endif
