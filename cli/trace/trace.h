/* trace.h: `tutti trace`: a job whose ranks have recorded what they did. */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include "sim/sim.h"
#include "trace/path.h"
#include "trace/sums.h"

/* What the files of a job tell. */
struct trace_job {
  uint64_t id;
  struct tu_trace trace;
  struct tu_traced_path path;
  struct tu_traced_sums sums;
  double *predicted_s;   /* [sums.kind_count]; NaN: not known */
  double begin_s, end_s; /* of the first call, of the last */
  uint64_t lost, unread; /* of all ranks: events that were overwritten; calls that cannot be read */
  uint32_t others;       /* files of other jobs that were left out */
};

/* trace_files.c: reads the traces of one job from files and directories: of the job with that number, or of the one that
 * began last. Returns CLI_GOOD, or prints the reason. */
int trace_read(const char *verb, const char *const paths[], uint32_t count, const char *id, struct trace_job *job);
void trace_close(struct trace_job *job);
/* Writes the timeline: as Chrome-trace JSON, and as a page; NULL: not wanted. */
int trace_write(const char *verb, const struct trace_job *job, double from_s, double until_s, const char *trace,
                const char *page);

/* trace_predict.c: predicts what the calls of each kind take, at costs of which those that are negative are taken from the
 * trace, and then set. */
void trace_predict(struct trace_job *job, struct tu_sim_cost *cost);

/* trace_print.c */
void trace_print(const struct trace_job *job, const struct tu_sim_cost *cost);
void trace_print_json(const struct trace_job *job, const struct tu_sim_cost *cost);

/* Sums of the critical path: seconds of each kind of deed, and of each rank (those of a message count for its sender). */
struct trace_path_sums {
  double of_kind[TU_DEED_PAUSE + 1];
  double *of_rank; /* [ranks of the job]; the caller frees it */
  uint32_t messages;
};
struct trace_path_sums trace_sum_path(const struct trace_job *job);
extern const char *const trace_deed_names[TU_DEED_PAUSE + 1];

#endif
