/* line.h: a job as a timeline on a cluster whose chips are the ranks, for tu_draw_timeline_trace and _html. */
#ifndef TU_TRACE_LINE_H
#define TU_TRACE_LINE_H

#include "topology/timeline.h"
#include "trace/path.h"

struct tu_traced_line {
  struct tu_timeline timeline;
  struct tu_cluster *cluster; /* a link for each two ranks with messages */
  uint32_t ranks;
  char **places; /* [ranks]: host of each rank */
};

/* from_s, until_s: the timeline shows this part of the run. */
void tu_trace_line(const struct tu_trace *trace, const struct tu_traced_path *path, double from_s, double until_s,
                   struct tu_traced_line *line);
void tu_traced_line_fini(struct tu_traced_line *line);

#endif
