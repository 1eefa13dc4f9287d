/* check_internal.h: data and functions that the parts of the checker share. Private to check/.
 *
 * The steps of all ranks are numbered in one sequence, and so are all cells. So the number of a step or cell identifies
 * it in the whole plan. (A cell is a chunk of a rank's memory.) */
#ifndef TU_CHECK_INTERNAL_H
#define TU_CHECK_INTERNAL_H

#include "check/check.h"

struct tu_check_rank {
  uint32_t step_base; /* number of the rank's first step among the steps of all ranks */
  uint32_t cell_base; /* number of the rank's first cell (chunk of memory) among the cells of all ranks */
  uint32_t in_base;   /* number of the rank's first input chunk among those of all ranks */
  /* [buffer]: number of the buffer's first cell (chunk of memory) among the cells of all ranks; the cells of a buffer
   * are consecutive */
  uint32_t cell[3];
};

struct tu_check_step {
  const struct tu_step *step;
  uint32_t rank;
  /* messages of the step: range of tu_checking.step_messages, in the order of its peers or operands */
  uint32_t message_first, message_count;
  /* number of events that must still happen before the step starts: earlier steps end, messages arrive, earlier
   * messages are received */
  uint32_t pending;
  /* only for a send: number of its messages that are not yet put into their channels */
  uint32_t unsent;
  /* only for a send: index in tu_values.sent where the values of the chunks that it sends begin */
  uint32_t snapshot;
  bool done;
};

/* One message. The messages of a channel are consecutive, in the order of the channel. A joined message comes directly
 * after the message that it continues. */
struct tu_check_message {
  uint32_t send, recv; /* number of the step that sends the message, and of the step that receives it */
  uint32_t ordinal;    /* position of the message among the messages of its channel, from 0 */
  /* number of events that must still happen before the message enters its channel: its send starts, the previous
   * message enters, a slot becomes free */
  uint32_t need;
  /* number of the first of the messages that are joined with this one; its own number if the message continues no
   * other */
  uint32_t head;
  bool joined;
};

struct tu_values;

struct tu_checking {
  const struct tu_plan *plan;
  struct tu_arena *arena; /* arena from which the check allocates all memory */
  uint32_t credits;
  struct tu_check_report *report;
  /* [plan->ranks + 1]: for each rank, the numbers of its first step, cell and input chunk; the last element has the
   * total numbers */
  struct tu_check_rank *ranks;
  struct tu_check_step *steps;
  struct tu_check_message *messages;
  uint32_t *step_messages;
  uint32_t message_count;
  uint32_t joined_count; /* number of messages that continue an earlier message (joined messages) */
  uint32_t *order;       /* all steps, in the order in which tu_check_play started them */
  bool *writable; /* [cell, a chunk of memory]: true if the plan may write it; false for input that the caller keeps */
  struct tu_values *values;
};

/* Consecutive cells (chunks of a rank's memory) that a step reads or writes. */
struct tu_access {
  uint32_t cell;
  uint32_t count; /* number of cells; 0: the operand is a message and has no cells */
  bool write;
};

static inline uint32_t tu_check_steps(const struct tu_checking *c) { return c->ranks[c->plan->ranks].step_base; }
static inline uint32_t tu_check_cells(const struct tu_checking *c) { return c->ranks[c->plan->ranks].cell_base; }
static inline const struct tu_rank_plan *tu_check_rank_of(const struct tu_checking *c, uint32_t step) {
  return &c->plan->rank[c->steps[step].rank];
}
static inline const struct tu_step *tu_check_step_at(const struct tu_checking *c, uint32_t step) {
  return c->steps[step].step;
}
static inline uint32_t tu_check_cell(const struct tu_checking *c, uint32_t rank, struct tu_span span) {
  return c->ranks[rank].cell[span.buffer] + span.first;
}

/* Stores in *access the cells of access number `index` of a step. Access 0: the cells that a send reads, or that a step
 * of another kind writes. Accesses 1, 2, ...: the cells that a step other than a send reads. Returns false if there is
 * no such access. */
bool tu_check_access(const struct tu_checking *c, uint32_t step, uint32_t index, struct tu_access *access);

/* Returns true if `step` may follow `before` slice by slice: they share memory that one of them writes, and there they
 * touch exactly the same cells (chunks of memory). Otherwise returns false; then `step` waits for the whole of
 * `before`. */
bool tu_check_sliced(const struct tu_checking *c, uint32_t before, uint32_t step);

/* Store the reason why the plan is refused, and return false. tu_check_refuse_step puts "rank R, step S (text): "
 * before the message. */
bool tu_check_refuse(struct tu_checking *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool tu_check_refuse_step(struct tu_checking *c, uint32_t step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The name of a step for error messages: "step S (text)", with the text shortened. */
struct tu_check_name {
  char chars[180];
};
struct tu_check_name tu_check_name(const struct tu_checking *c, uint32_t step);

/* The parts of the checker, in the order in which they run. Each function returns false if it refuses the plan. */
/* checks that indices and spans are valid; sets ranks, steps[].rank and writable */
bool tu_check_form(struct tu_checking *c);
/* checks that two steps of a rank that conflict (touch a chunk, one writes) are ordered */
bool tu_check_order(struct tu_checking *c);
bool tu_check_match(struct tu_checking *c); /* checks that every send has its receive; sets messages */
bool tu_check_play(struct tu_checking *c);  /* checks that there is no deadlock; sets order and values */
/* checks for deadlocks of messages longer than their channels, or joined */
bool tu_check_length(struct tu_checking *c);
bool tu_check_outputs(struct tu_checking *c); /* checks that outputs hold what the collective promises */

/* Functions of check_values.c (which follows the values of chunks) that tu_check_play calls. */
void tu_values_create(struct tu_checking *c);
void tu_values_send(struct tu_checking *c, uint32_t step);
bool tu_values_apply(struct tu_checking *c, uint32_t step);

#endif
