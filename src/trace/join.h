/* join.h: puts the traces of the ranks of a job together: aligns the clocks of hosts, and finds the receiver of each
 * message. */
#ifndef TU_TRACE_JOIN_H
#define TU_TRACE_JOIN_H

#include "trace/read.h"

/* One end of a message: the step that sends or takes it. `first` and `last` are the step's events. */
struct tu_traced_end {
  uint32_t rank; /* index in tu_trace.ranks */
  uint32_t call, step;
  uint32_t first, last;
};

struct tu_traced_message {
  uint64_t bytes;
  struct tu_traced_end sent, taken;
};

/* The clock of a host. At `origin_ns` of its own clock it is `ahead_ns` ahead of the clock of the first host, and `drift` ns
 * more with each ns. */
struct tu_traced_host {
  char name[TU_TRACE_HOST_BYTES];
  int64_t wall_ns; /* the clock of the day, minus this clock */
  uint64_t origin_ns;
  double ahead_ns, drift;
  double error_ns; /* how exactly that is known; negative: only by the clocks of the day */
};

struct tu_trace {
  struct tu_traced_rank *ranks; /* [rank_count]: in ascending order; ranks without a trace are left out */
  uint32_t rank_count;
  struct tu_traced_host *hosts;
  uint32_t host_count;
  uint32_t *host_of;                  /* [rank_count] */
  struct tu_traced_message *messages; /* ordered by the step that sends */
  uint32_t *by_taken;                 /* [message_count]: indices in `messages`, ordered by the step that takes */
  uint32_t message_count, message_capacity;
};

/* Joins the traces of ranks of one job. `ranks` and what belongs to it is the trace's from now on. */
void tu_trace_join(struct tu_traced_rank *ranks, uint32_t count, struct tu_trace *trace);
void tu_trace_fini(struct tu_trace *trace);

/* Aligns the clocks of the hosts by the messages between them (clocks.c): none is taken before it was sent. */
void tu_trace_align(struct tu_trace *trace);

/* Returns a time of a rank's clock in seconds since the trace of the first rank began. */
double tu_trace_time(const struct tu_trace *trace, uint32_t rank, uint64_t ns);

static inline double tu_trace_end_of(const struct tu_trace *trace, uint32_t rank, uint32_t event) {
  return tu_trace_time(trace, rank, trace->ranks[rank].events[event].end_ns);
}
static inline double tu_trace_begin_of(const struct tu_trace *trace, uint32_t rank, uint32_t event) {
  return tu_trace_time(trace, rank, tu_traced_begin(&trace->ranks[rank].events[event]));
}

/* Return the messages that a step of a call sends, or takes: `count` of them, from index `first` on, in trace->messages for
 * sent ones, and in trace->by_taken for the others. */
struct tu_traced_range {
  uint32_t first, count;
};
struct tu_traced_range tu_trace_sent(const struct tu_trace *trace, uint32_t rank, uint32_t call, uint32_t step);
struct tu_traced_range tu_trace_taken(const struct tu_trace *trace, uint32_t rank, uint32_t call, uint32_t step);

#endif
