/* draw_timeline.h: shows the timeline of a plan's run on a cluster, in one of two forms:
 *  - Chrome-trace JSON (chrome://tracing, Perfetto), with rows for each rank and each direction of a link;
 *  - a page with a picture of the cluster, whose links are coloured by their load over time, and the critical path.
 * The functions only append to a text. */
#ifndef TU_DRAW_TIMELINE_H
#define TU_DRAW_TIMELINE_H

#include "draw/draw_cluster.h"
#include "topology/timeline.h"

struct tu_draw_timeline {
  struct tu_draw_cluster cluster;
  const struct tu_timeline *timeline;
  uint32_t ranks;
  const uint32_t *chip;      /* [ranks]: chip of each rank; NULL: rank i runs on chip i */
  const char *const *places; /* [ranks]: where each rank runs, as a text; NULL: on its chip */
};

void tu_draw_timeline_trace(const struct tu_draw_timeline *what, struct tu_text *text);
void tu_draw_timeline_html(const struct tu_draw_timeline *what, struct tu_text *text);

#endif
