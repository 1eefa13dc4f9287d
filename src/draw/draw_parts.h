/* draw_parts.h: what the parts of draw share. Private to draw/.
 *
 * All ranks' steps stand in one row: a number names a step of the whole plan. */
#ifndef TU_DRAW_PARTS_H
#define TU_DRAW_PARTS_H

#include "draw/draw.h"

/* ---- when: draw_rounds.c ---- */

/* One send and the receive that takes it. Parts of one message stand in a row. */
struct tu_draw_part {
  uint32_t from, to; /* ranks */
  uint32_t send, recv;
  uint8_t lane;
  uint32_t place; /* in its ring */
};

/* What crosses as one: one part, or several that are joined. */
struct tu_draw_message {
  uint32_t part_first, part_count;
  uint32_t sent, taken; /* rounds: sent <= taken */
};

/* Time, as far as the plan says what it is. A round is the time of one message:
 *  - a send is in a round after all that it waits for, and after the rank's last send on the lane (a multicast is one);
 *  - a receive is in the round of its message, or later if it overwrites what is still in use;
 *  - a receive that reduces comes a round after the receive of what it reduces into;
 *  - local steps take no time: they belong to the round after which they can run, 0 before all messages;
 *  - a send that nobody waits for yet is as late as that allows: where its receiver takes it.
 * In a round, sends read first; then the other steps of a rank follow in their order. */
struct tu_drawing {
  const struct tu_plan *plan;
  const uint32_t *column_of; /* as in tu_draw, whose maker sets it */
  uint32_t *step_base;       /* [ranks + 1] */
  uint32_t *rank_of;         /* of each step */
  uint32_t *round;           /* of each step */
  struct tu_draw_part *parts;
  uint32_t part_count;
  struct tu_draw_message *messages;
  uint32_t message_count;
  uint32_t rounds;
  uint32_t tmp_chunks_max;
};

void tu_drawing_init(struct tu_drawing *d, const struct tu_plan *plan);
void tu_drawing_fini(struct tu_drawing *d);

static inline uint32_t tu_drawing_steps(const struct tu_drawing *d) { return d->step_base[d->plan->ranks]; }
static inline const struct tu_rank_plan *tu_drawing_rank(const struct tu_drawing *d, uint32_t step) {
  return &d->plan->rank[d->rank_of[step]];
}
static inline const struct tu_step *tu_drawing_step(const struct tu_drawing *d, uint32_t step) {
  return &tu_drawing_rank(d, step)->steps[step - d->step_base[d->rank_of[step]]];
}

/* ---- what: draw_values.c ---- */

/* What a chunk holds: chunk `chunk` of the input of these ranks, reduced if they are several. Barrier: the ranks that one
 * knows to have come. No ranks: nothing. */
struct tu_draw_value {
  uint32_t chunk;
  uint64_t ranks;
};

struct tu_draw_write {
  uint32_t round, rank, cell; /* cell: tu_plan_cell */
  struct tu_draw_value value;
};

/* For up to TU_DRAW_RANKS_MAX ranks. */
struct tu_draw_values {
  uint32_t *sent_first;       /* of each step: what a send carries, in `sent` */
  struct tu_draw_value *sent; /* one for each chunk of its source */
  struct tu_draw_write *writes;
  uint32_t write_count, write_capacity; /* in order of time */
  uint32_t *complete; /* of each rank: the round after which it has all that it is promised, or NONE */
};
#define TU_DRAW_NEVER UINT32_MAX

void tu_draw_values_init(struct tu_draw_values *v, const struct tu_drawing *d);
void tu_draw_values_fini(struct tu_draw_values *v);

/* The values that a message carries, in the order of its parts. The caller frees. */
struct tu_draw_value *tu_draw_carried(const struct tu_drawing *d, const struct tu_draw_values *v, uint32_t message,
                                      uint32_t *count);

/* What a cell holds before the first step, and what an output chunk is to hold. */
struct tu_draw_value tu_draw_initial(const struct tu_plan *plan, uint32_t rank, uint32_t cell);
struct tu_draw_value tu_draw_promised(const struct tu_plan *plan, uint32_t rank, uint32_t chunk);
uint32_t tu_draw_cells(const struct tu_plan *plan, uint32_t rank);

/* ---- in words: draw_names.c ---- */

/* How values are called in a plan: by the number of a chunk, by the ranks that are summed (or known), or by both. */
enum tu_draw_naming { TU_BY_NUMBER, TU_BY_RANKS, TU_BY_PAIR };
enum tu_draw_naming tu_draw_naming(const struct tu_plan *plan);

/* Which colour a value has, of how many. */
uint32_t tu_draw_key(const struct tu_plan *plan, struct tu_draw_value value);
uint32_t tu_draw_keys(const struct tu_plan *plan);
struct tu_draw_colour {
  char chars[8]; /* "#rrggbb" */
};
struct tu_draw_colour tu_draw_colour(uint32_t key, uint32_t keys);

/* A short name for some values together: "2", "0-3", "0>2" with an arrow; "5 chunks" where that is shorter. */
void tu_draw_label(const struct tu_plan *plan, const struct tu_draw_value values[], uint32_t count,
                   struct tu_text *text);
/* One value in a sentence: "chunk 2, the sum of ranks 0-3". */
void tu_draw_say(const struct tu_plan *plan, struct tu_draw_value value, struct tu_text *text);

/* "4 ranks, 24 messages in 6 rounds, no scratch" */
void tu_draw_summary(const struct tu_drawing *d, struct tu_text *text);
/* What does not fit into XML, escaped. */
void tu_draw_escape(const char *chars, struct tu_text *text);

/* The whole picture but for the XML declaration. */
void tu_draw_picture(const struct tu_draw *what, const struct tu_drawing *d, const struct tu_draw_values *v,
                     struct tu_text *text);

#endif
