/* plan_messages.h: the messages of a plan: who sends how much to whom. */
#ifndef TU_PLAN_MESSAGES_H
#define TU_PLAN_MESSAGES_H

#include "plan/plan.h"

struct tu_plan_message {
  uint32_t from, to, lane;
  uint32_t chunks; /* of all its parts: joined ones are one message */
};

/* All messages that the plan's ranks send, by sender and then in the order of its steps; a multicast is one to each
 * receiver. The caller frees the array. */
struct tu_plan_message *tu_plan_messages(const struct tu_plan *plan, size_t *count);

#endif
