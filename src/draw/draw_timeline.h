/* draw_timeline.h: shows what happened on a cluster while a plan ran: as Chrome-trace JSON (chrome://tracing, Perfetto), a row
 * for each rank and each direction of a link; and as a page with the cluster drawn, its links coloured by load over time, a
 * slider, and the critical path. Pure: writes into a text. */
#ifndef TU_DRAW_TIMELINE_H
#define TU_DRAW_TIMELINE_H

#include "draw/draw_cluster.h"
#include "topology/timeline.h"

struct tu_draw_timeline {
  struct tu_draw_cluster cluster;
  const struct tu_timeline *timeline;
  uint32_t ranks;
  const uint32_t *chip; /* [ranks]: where each is; NULL: rank i on chip i */
};

void tu_draw_timeline_trace(const struct tu_draw_timeline *what, struct tu_text *text);
void tu_draw_timeline_html(const struct tu_draw_timeline *what, struct tu_text *text);

#endif
