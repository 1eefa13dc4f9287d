/* jobs.h: the jobs that are shown, each with what is known of it from all hosts. */
#ifndef CLI_TOP_JOBS_H
#define CLI_TOP_JOBS_H

#include "sight/moment.h"

struct top_jobs {
  struct tu_job_look *list; /* owned */
  uint32_t count, capacity;
  bool closed;      /* no job is added that is not there yet */
  uint32_t foreign; /* jobs of another build of the library, which cannot be read */
  uint32_t unready; /* jobs that are starting */
};

/* Adds what was read of a job: to what is known of it, if it has other ranks than that. Its content moves. Error:
 * TUTTI_ERR_MEMORY. */
tutti_err top_jobs_add(struct top_jobs *jobs, struct tu_job_look *look, struct tu_error *error);
/* Looks at the jobs of these segments, and adds them. Error: TUTTI_ERR_MEMORY. */
tutti_err top_jobs_look(struct top_jobs *jobs, const struct tu_segments *segments, uint32_t pause_ms,
                        struct tu_error *error);
/* Removes the jobs to which no process with that number belongs: a rank, on any host, or `tutti run`. */
void top_jobs_keep(struct top_jobs *jobs, pid_t pid);
void top_jobs_fini(struct top_jobs *jobs);

#endif
