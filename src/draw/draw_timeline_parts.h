/* draw_timeline_parts.h: what the trace and the page of a timeline share. Private to draw/. */
#ifndef TU_DRAW_TIMELINE_PARTS_H
#define TU_DRAW_TIMELINE_PARTS_H

#include "draw/draw_timeline.h"

/* ---- draw_timeline_parts.c ---- */

/* When all is over: the timeline's end, or later if something ends later. */
double tu_draw_timeline_end(const struct tu_timeline *timeline);
/* Crossings by port, then beginning. The caller frees. [crossing_count] */
uint32_t *tu_draw_crossing_order(const struct tu_timeline *timeline);
/* Deeds by rank, then messages before reductions, then beginning. The caller frees. [deed_count] */
uint32_t *tu_draw_deed_order(const struct tu_timeline *timeline);
/* The critical path, first deed first. The caller frees. */
uint32_t *tu_draw_critical(const struct tu_timeline *timeline, uint32_t *count);

/* Rows for what overlaps: each thing goes to the first row that is free. */
struct tu_draw_rows {
  double *free_at; /* [count] */
  uint32_t count, capacity;
};
uint32_t tu_draw_rows_take(struct tu_draw_rows *rows, double begin, double end);

/* A JSON string with its quotes, for a page too: no '<'; what is no UTF-8 becomes U+FFFD. */
void tu_draw_json_string(const char *chars, struct tu_text *text);
/* "3.14 to 7.2": from chip 3, channel 14. */
void tu_draw_port_name(const struct tu_cluster *cluster, uint32_t port, struct tu_text *text);
/* Where a rank is. */
static inline uint32_t tu_draw_chip(const struct tu_draw_timeline *what, uint32_t rank) {
  return what->chip ? what->chip[rank] : rank;
}

/* ---- loads: draw_timeline_loads.c ---- */

/* For how much of each part of the time each wire was taken. What crosses at once, as flows do, takes it once. */
struct tu_draw_loads {
  uint32_t bins;
  double width; /* of a bin, seconds */
  uint32_t count;
  uint32_t *ports;      /* [count]: on which something crossed, ascending */
  double *taken;        /* [count * bins]: seconds */
  double *busy, *bytes; /* [count]: of all the time */
  uint32_t *crossings;  /* [count] */
};
/* `order` as of tu_draw_crossing_order; bins > 0. */
void tu_draw_loads_init(struct tu_draw_loads *loads, const struct tu_timeline *timeline, const uint32_t order[],
                        uint32_t bins);
void tu_draw_loads_fini(struct tu_draw_loads *loads);

/* The same of ranks: how much of each part of the time they have messages (or reductions) under way. [ranks * bins] seconds;
 * the caller frees. `order` as of tu_draw_deed_order. */
double *tu_draw_rank_loads(const struct tu_draw_timeline *what, const uint32_t order[], uint32_t bins, bool reductions);

/* Which wires carried something from a message's sender to its receiver while the message was under way: of path[k],
 * ports[first[k]] and on, in the order in which they were taken first. */
struct tu_draw_trail {
  uint32_t *first; /* [count + 1] */
  uint32_t *ports;
};
void tu_draw_trail_init(struct tu_draw_trail *trail, const struct tu_timeline *timeline, const uint32_t path[],
                        uint32_t count);
void tu_draw_trail_fini(struct tu_draw_trail *trail);

#endif
