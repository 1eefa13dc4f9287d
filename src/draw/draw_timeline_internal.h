/* draw_timeline_internal.h: functions shared by the trace and the page of a timeline. Private to draw/.
 *
 * A crossing (struct tu_crossing) is one use of a port, that is, of one direction of a link. A deed (struct tu_deed)
 * is a message or a reduction of one rank. */
#ifndef TU_DRAW_TIMELINE_INTERNAL_H
#define TU_DRAW_TIMELINE_INTERNAL_H

#include "draw/draw_timeline.h"

/* ---- draw_timeline_internal.c ---- */

/* Returns the end of the timeline, in seconds: the end that the timeline states, or the end of its last event if
 * that is later. */
double tu_draw_timeline_end(const struct tu_timeline *timeline);
/* Returns the indices of the crossings (uses of links), sorted by port, then by begin. The array has crossing_count
 * entries; the caller frees it. */
uint32_t *tu_draw_crossing_order(const struct tu_timeline *timeline);
/* Returns the indices of the deeds (messages and reductions), sorted by rank, then by kind (messages first), then by
 * begin. The array has deed_count entries; the caller frees it. */
uint32_t *tu_draw_deed_order(const struct tu_timeline *timeline);
/* Returns the messages and reductions on the critical path, in order of time, as indices into the timeline's deeds.
 * The caller frees the array. */
uint32_t *tu_draw_critical(const struct tu_timeline *timeline, uint32_t *count);

/* Appends what a deed is: "to 3", "reduce", "outside calls". */
void tu_draw_deed_name(const struct tu_deed *deed, struct tu_text *text);

/* Rows of a chart for intervals that may overlap: each interval goes into the first row that is free at that
 * time. */
struct tu_draw_rows {
  double *free_at; /* [count]: time from which each row is free */
  uint32_t count, capacity;
};
uint32_t tu_draw_rows_take(struct tu_draw_rows *rows, double begin, double end);

/* Appends a text as a quoted JSON string. '<' is escaped, so the string may stand in an HTML page. Invalid UTF-8
 * becomes U+FFFD. */
void tu_draw_json_string(const char *chars, struct tu_text *text);
/* The same without quotes. */
void tu_draw_json_part(const char *chars, struct tu_text *text);
/* Appends the name of a port (directed link): "3.14 to 7.2" leads from chip 3, channel 14, to chip 7, channel 2. */
void tu_draw_port_name(const struct tu_cluster *cluster, uint32_t port, struct tu_text *text);
/* Returns the chip on which a rank runs. */
static inline uint32_t tu_draw_chip(const struct tu_draw_timeline *what, uint32_t rank) {
  return what->chip ? what->chip[rank] : rank;
}

/* ---- loads: draw_timeline_loads.c ---- */

/* Busy time of each port (directed link) in each time bin. Times at which several messages use the port count once. */
struct tu_draw_loads {
  uint32_t bins; /* number of time bins */
  double width;  /* width of a bin, in seconds */
  uint32_t count;
  uint32_t *ports;      /* [count]: ports with at least one crossing, in ascending order */
  double *taken;        /* [count * bins]: busy seconds of each port in each bin */
  double *busy, *bytes; /* [count]: busy seconds and bytes of each port in total */
  uint32_t *crossings;  /* [count]: number of crossings (uses) of each port */
};
/* Computes the loads. `order` is the result of tu_draw_crossing_order; `bins` must be positive. */
void tu_draw_loads_init(struct tu_draw_loads *loads, const struct tu_timeline *timeline, const uint32_t order[],
                        uint32_t bins);
void tu_draw_loads_fini(struct tu_draw_loads *loads);

/* Returns the busy time of each rank in each time bin, in seconds: [ranks * bins]. A rank is busy while a message of
 * it (if `reductions`: a reduction or a copy) is in progress. Other parts of a critical path do not count.
 * The caller frees the array. `order` is the result of
 * tu_draw_deed_order. */
double *tu_draw_rank_loads(const struct tu_draw_timeline *what, const uint32_t order[], uint32_t bins, bool reductions);

/* Which ports (directed links) each message on the critical path used: those that carried data from its sender to its
 * receiver while the message was in progress. Message path[k] used ports[first[k]] to ports[first[k + 1] - 1], in the
 * order of their first use. */
struct tu_draw_trail {
  uint32_t *first; /* [count + 1]: index in `ports` of each message's first port */
  uint32_t *ports;
};
void tu_draw_trail_init(struct tu_draw_trail *trail, const struct tu_timeline *timeline, const uint32_t path[],
                        uint32_t count);
void tu_draw_trail_fini(struct tu_draw_trail *trail);

#endif
