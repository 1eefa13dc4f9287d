/* check_parts.h: what the parts of the checker share. Private to check/.
 *
 * All ranks' steps stand in one row, and so do all their cells: a number names a step or a cell of the whole plan. */
#ifndef TU_CHECK_PARTS_H
#define TU_CHECK_PARTS_H

#include "check/check.h"

struct tu_check_rank {
  uint32_t step_base; /* its first step in the row of all */
  uint32_t cell_base;
  uint32_t in_base; /* its first chunk in the row of all input */
  uint32_t cell[3]; /* of each buffer: its first one. They stand in a row */
};

struct tu_check_step {
  const struct tu_step *step;
  uint32_t rank;
  uint32_t message_first, message_count; /* in tu_checking.step_messages: in order of peers or operands */
  uint32_t pending;                      /* events that it waits for before it starts */
  uint32_t unsent;                       /* of a send: messages that are not in their rings yet */
  uint32_t snapshot;                     /* of a send: the values that it read */
  bool done;
};

/* Messages of one ring stand in a row, in the order of the ring. Joined ones follow the one that they go on with. */
struct tu_check_message {
  uint32_t send, recv; /* steps */
  uint32_t place;      /* in its ring */
  uint32_t need;       /* events before it is put */
  uint32_t head;       /* the message that its join begins with; itself, if it is none of a join, or the first */
  bool joined;
};

struct tu_values;

struct tu_checking {
  const struct tu_plan *plan;
  struct tu_arena *arena; /* of all that is allocated */
  uint32_t credits;
  struct tu_check_report *report;
  struct tu_check_rank *ranks; /* [plan->ranks + 1]: the last one holds the totals */
  struct tu_check_step *steps;
  struct tu_check_message *messages;
  uint32_t *step_messages;
  uint32_t message_count;
  uint32_t joined_count; /* of the messages: those that are part of an earlier one */
  uint32_t *order;       /* the steps in the order in which the play started them */
  bool *writable;        /* of each cell: not input that the caller keeps */
  struct tu_values *values;
};

/* A run of cells that a step reads or writes. */
struct tu_access {
  uint32_t cell;
  uint32_t count; /* 0: a message, no cells */
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

/* The index-th access of a step; false if it has no more. */
bool tu_check_access(const struct tu_checking *c, uint32_t step, uint32_t index, struct tu_access *access);

/* Must two steps that touch the same memory touch it in the same places, so that one may follow the other slice by
 * slice? False too if they share nothing: then `after` waits for the whole. */
bool tu_check_sliced(const struct tu_checking *c, uint32_t before, uint32_t step);

/* Refuse the plan: "rank R, step S (text): sentence". Return false. */
bool tu_check_refuse(struct tu_checking *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool tu_check_refuse_step(struct tu_checking *c, uint32_t step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "step S (text)", cut to a readable length. */
struct tu_check_name {
  char chars[120];
};
struct tu_check_name tu_check_name(const struct tu_checking *c, uint32_t step);

/* The parts, in this order; each returns false having refused. */
bool tu_check_form(struct tu_checking *c);   /* check_form.c; fills ranks, steps[].rank, writable */
bool tu_check_order(struct tu_checking *c);  /* check_order.c */
bool tu_check_match(struct tu_checking *c);  /* check_match.c; fills messages */
bool tu_check_play(struct tu_checking *c);   /* check_play.c; fills order, and the values: no deadlock */
bool tu_check_length(struct tu_checking *c); /* check_length.c: nor when messages are longer than rings, or joined */
bool tu_check_outputs(struct tu_checking *c);

/* check_values.c, called by the play. */
void tu_values_create(struct tu_checking *c);
void tu_values_send(struct tu_checking *c, uint32_t step);
bool tu_values_apply(struct tu_checking *c, uint32_t step);

#endif
