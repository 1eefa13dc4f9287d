/* draw_internal.h: types and functions that the files of draw/ share. Private to draw/.
 *
 * A step number counts the steps of all ranks: first those of rank 0, then those of rank 1, and so on. So it is unique
 * in the plan. */
#ifndef TU_DRAW_INTERNAL_H
#define TU_DRAW_INTERNAL_H

#include "draw/draw.h"

/* ---- rounds: draw_rounds.c ---- */

/* One part of a message: a send step and the receive step that matches it. The parts of one message are adjacent in the
 * array. */
struct tu_draw_part {
  uint32_t from, to; /* ranks that send and receive the part */
  uint32_t send, recv;
  uint8_t lane;
  /* position of the part among all parts from rank `from` to rank `to` on the lane */
  uint32_t ordinal;
};

/* One message: a single part, or several parts that are joined into one message. */
struct tu_draw_message {
  uint32_t part_first, part_count;
  uint32_t sent, taken; /* round in which the message is sent, and round in which it is received (not earlier) */
};

/* Logical time of a plan, in rounds. A round is the time that one message takes. The rules:
 * - A send is in a later round than all steps it waits for, and than the rank's previous send on the lane. A multicast
 *   counts as one send.
 * - A receive is in the round of its message. It is in a later round if it overwrites a chunk that is still in use.
 * - A receive that reduces is one round later than the receive of the value that it reduces into.
 * - Local steps take no time. They belong to the round after which they can run; round 0 is before all messages.
 * - If a message is received in a later round, its send is delayed to that round, unless another step that waits for
 *   the send comes earlier.
 * In a round, all sends read their chunks first. Then the other steps of each rank run in order. */
struct tu_drawing {
  const struct tu_plan *plan;
  /* [ranks]: column in which each rank is drawn, as in struct tu_draw; set by the caller of tu_drawing_init */
  const uint32_t *column_of;
  /* [ranks + 1]: number of steps of all lower ranks, which is the plan-wide number of each rank's first step */
  uint32_t *step_base;
  uint32_t *rank_of; /* rank of each step */
  uint32_t *round;   /* round of each step */
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

/* ---- values of chunks: draw_values.c ---- */

/* The value of a chunk: the sum (reduction) of input chunk `chunk` of all ranks in the bit mask `ranks`. In a barrier,
 * the mask contains the ranks that are known to have arrived. If the mask is 0, the chunk is empty. */
struct tu_draw_value {
  uint32_t chunk;
  uint64_t ranks;
};

struct tu_draw_write {
  uint32_t round, rank, cell; /* cell: index of the written chunk among all chunks of the rank (tu_plan_cell) */
  struct tu_draw_value value;
};

/* The values that the steps of a plan send and write. Supports at most TU_DRAW_RANKS_MAX ranks. */
struct tu_draw_values {
  uint32_t *sent_first;         /* [steps + 1]: for each step, index in `sent` of the first value that it sends */
  struct tu_draw_value *sent;   /* one value for each chunk that a send carries */
  struct tu_draw_write *writes; /* all writes to chunks, ordered by round */
  uint32_t write_count, write_capacity;
  /* [ranks]: round after which the rank has its whole result; TU_DRAW_NEVER: the result stays incomplete */
  uint32_t *complete;
};
#define TU_DRAW_NEVER UINT32_MAX

void tu_draw_values_init(struct tu_draw_values *v, const struct tu_drawing *d);
void tu_draw_values_fini(struct tu_draw_values *v);

/* Returns the values that a message carries, in the order of its parts (send steps). The caller frees the array. */
struct tu_draw_value *tu_draw_carried(const struct tu_drawing *d, const struct tu_draw_values *v, uint32_t message,
                                      uint32_t *count);

/* tu_draw_initial returns the value of a cell (a chunk of a rank) before the first step. tu_draw_promised returns
 * the value that the collective requires in an output chunk. */
struct tu_draw_value tu_draw_initial(const struct tu_plan *plan, uint32_t rank, uint32_t cell);
struct tu_draw_value tu_draw_promised(const struct tu_plan *plan, uint32_t rank, uint32_t chunk);
uint32_t tu_draw_cells(const struct tu_plan *plan, uint32_t rank);

/* ---- names of values: draw_names.c ---- */

/* How pictures name a value. TU_BY_NUMBER: by its chunk number. TU_BY_RANKS: by the ranks whose inputs are summed; in a
 * barrier, by the ranks known to have arrived. TU_BY_PAIR: by both. */
enum tu_draw_naming { TU_BY_NUMBER, TU_BY_RANKS, TU_BY_PAIR };
enum tu_draw_naming tu_draw_naming(const struct tu_plan *plan);

/* tu_draw_key returns the colour number of a value; tu_draw_keys returns how many colours the plan uses. */
uint32_t tu_draw_key(const struct tu_plan *plan, struct tu_draw_value value);
uint32_t tu_draw_keys(const struct tu_plan *plan);
struct tu_draw_colour {
  char chars[8]; /* the colour as text: "#rrggbb" */
};
/* Colours for a light page and for a dark one. The viewer's system chooses; paper is light. */
enum tu_draw_scheme { TU_DRAW_LIGHT, TU_DRAW_DARK };
/* Opens the block of rules that replace the colours on a dark page. Rules outside use no variables, because programs
 * other than browsers know none. */
#define TU_DRAW_IF_DARK "@media screen and (prefers-color-scheme: dark) {\n"

struct tu_draw_colour tu_draw_colour(uint32_t key, uint32_t keys, enum tu_draw_scheme scheme);
/* Appends the style rules .k0, .k1, ...: the property `color` of each key, for light and dark pages. */
void tu_draw_palette(uint32_t keys, struct tu_text *text);

/* Appends a short name for a group of values. Examples: "2", "0-3", "0>2" (with an arrow instead of >), and "5 chunks",
 * which is used if it is shorter than a list. */
void tu_draw_label(const struct tu_plan *plan, const struct tu_draw_value values[], uint32_t count,
                   struct tu_text *text);
/* Appends a description of one value: "the sum of in[2] of ranks 0-3". */
void tu_draw_say(const struct tu_plan *plan, struct tu_draw_value value, struct tu_text *text);

/* Appends a summary of the plan: "4 ranks, 24 messages in 6 rounds, no scratch". */
void tu_draw_summary(const struct tu_drawing *d, struct tu_text *text);
/* Appends a text; characters with a special meaning in XML are escaped. */
void tu_draw_escape(const char *chars, struct tu_text *text);

/* Style of the picture of a plan, without the colours of tu_draw_palette: draw_svg.c. */
extern const char tu_draw_style[];

/* Appends the picture as SVG, without the XML declaration. If `v` is NULL (too many ranks), a line of text replaces
 * the picture. */
void tu_draw_picture(const struct tu_draw *what, const struct tu_drawing *d, const struct tu_draw_values *v,
                     struct tu_text *text);

#endif
