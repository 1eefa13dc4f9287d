/* path.h: what a job did, as a timeline that tu_draw_timeline_* draw, with its critical path. */
#ifndef TU_TRACE_PATH_H
#define TU_TRACE_PATH_H

#include "topology/timeline.h"
#include "trace/join.h"

/* The critical path: what the end of the job waited for, from the begin of the first call of any rank to the end of the last
 * one. Each part begins when the part before it ends. */
struct tu_traced_path {
  struct tu_deed *parts;
  uint32_t count, capacity;
};
void tu_trace_path(const struct tu_trace *trace, struct tu_traced_path *path);
void tu_traced_path_fini(struct tu_traced_path *path);

#endif
