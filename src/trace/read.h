/* read.h: reads the trace of one rank (format.h), which may be of a rank that was killed, and may be damaged. For tools: if
 * memory runs out, the process ends. */
#ifndef TU_TRACE_READ_H
#define TU_TRACE_READ_H

#include "base/base.h"
#include "trace/format.h"

struct tu_traced_comm {
  uint64_t id;
  uint32_t rank, ranks;
  uint32_t *members; /* [ranks]: ranks of the job */
};

struct tu_traced_program {
  struct tu_trace_program head;
  const struct tu_traced_comm *comm; /* never NULL */
  struct tu_trace_step *steps;
  struct tu_trace_message *messages;
};

/* One call on one rank. Its events are events[event_first] to events[event_first + event_count - 1], in order of time; the
 * first is its begin. */
struct tu_traced_call {
  const struct tu_traced_program *program;
  uint64_t number;           /* sequence number of the collective, or tag of a message */
  uint64_t begin_ns, end_ns; /* end: of the last event, if the call has not ended */
  uint32_t peer;             /* of a message between two ranks: rank of the communicator, or TU_NONE */
  bool ended, failed;
  uint32_t event_first, event_count;
};

struct tu_traced_rank {
  struct tu_trace_head head;
  uint64_t lost;   /* events that later ones have overwritten */
  uint64_t unread; /* calls that cannot be read: their programs were not recorded, or they are damaged */
  struct tu_traced_comm *comms;
  struct tu_traced_program *programs;
  struct tu_trace_event *events; /* ordered by call, and by time within a call */
  struct tu_traced_call *calls;  /* ordered by their begin */
  uint32_t comm_count, comm_capacity, program_count, program_capacity, event_count, call_count, call_capacity;
};

/* Reads the bytes of a file; they need not stay. `name` is that of the file, for messages. What a damaged file still tells is
 * kept. Error: TUTTI_ERR_ARGUMENT: it is no trace, or of another kind of machine. The caller calls tu_traced_fini in any
 * case. */
tutti_err tu_traced_read(const void *data, size_t bytes, const char *name, struct tu_traced_rank *rank,
                         struct tu_error *error);
void tu_traced_fini(struct tu_traced_rank *rank);

/* Orders communicators, of any ranks; 0: they are one. The parts of a split have one id, but no rank in common. */
static inline int tu_traced_compare_comms(const struct tu_traced_comm *a, const struct tu_traced_comm *b) {
  if (a->id != b->id) return a->id < b->id ? -1 : 1;
  return a->members[0] < b->members[0] ? -1 : a->members[0] > b->members[0];
}

static inline uint64_t tu_traced_begin(const struct tu_trace_event *e) {
  return e->end_ns > e->took_ns ? e->end_ns - e->took_ns : 0;
}
/* Returns true for a program of send or recv. */
static inline bool tu_traced_is_pair(const struct tu_traced_program *p) {
  return p->head.collective == TUTTI_SEND || p->head.collective == TUTTI_RECV;
}
static inline bool tu_traced_is_step(const struct tu_trace_event *e) {
  return e->kind == TU_TRACE_STEP || e->kind == TU_TRACE_LAST;
}

#endif
