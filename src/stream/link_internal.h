/* link_internal.h: definitions that link.c and link_stream.c share. */
#ifndef TU_LINK_INTERNAL_H
#define TU_LINK_INTERNAL_H

#include "stream/link.h"

/* Reports a step of the whole link to the trace function. */
static inline void tu_link_tell(const struct tu_link *link, enum tu_link_step step, uint64_t number) {
  if (!tu_link_trace) return;
  tu_link_trace(&(struct tu_link_event){.step = step,
                                        .rank = link->mover->rank,
                                        .peer = link->peer,
                                        .link = link->number,
                                        .operation = link->operation,
                                        .number = number});
}

/* Reports a step of one channel to the trace function. line: header of the message concerned, or NULL. Called only
 * if tu_link_trace is set. */
void tu_link_say(const struct tu_link_end *end, enum tu_link_step step, uint64_t number,
                 const struct tu_link_line *line);

static inline struct tu_link_line *tu_link_line_at(const struct tu_link_end *end, uint64_t message) {
  const struct tu_link *link = end->link;
  return (struct tu_link_line *)(void *)(end->lines + message % link->view.slots * link->line_stride);
}

#endif
