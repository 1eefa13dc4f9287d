/* jobs.c: the jobs that are shown. */
#include "cli/top/jobs.h"

#include <poll.h>
#include <stdlib.h>

tutti_err top_jobs_add(struct top_jobs *jobs, struct tu_job_look *look, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  uint32_t known = 0;
  while (known < jobs->count && !(look->id && jobs->list[known].id == look->id)) known++;
  if (known == jobs->count && !jobs->closed) {
    jobs->list = tu_grow(jobs->list, jobs->count, &jobs->capacity, sizeof *jobs->list);
    jobs->list[jobs->count++] = *look;
    return TUTTI_OK;
  }
  if (known < jobs->count && tu_job_look_misses(&jobs->list[known], look))
    err = tu_job_look_add(&jobs->list[known], look, error);
  tu_job_look_fini(look);
  return err;
}

tutti_err top_jobs_look(struct top_jobs *jobs, const struct tu_segments *segments, uint32_t pause_ms,
                        struct tu_error *error) {
  struct tu_job_look *looks = tu_allocate(segments->count, sizeof *looks);
  tutti_err err = tu_job_looks_begin(segments->list, segments->count, looks, error);
  if (segments->count > 0) (void)poll(NULL, 0, (int)pause_ms);
  if (err == TUTTI_OK) err = tu_job_looks_end(segments->list, segments->count, looks, error);
  for (uint32_t i = 0; i < segments->count; i++) {
    if (err == TUTTI_OK) err = top_jobs_add(jobs, &looks[i], error);
    else tu_job_look_fini(&looks[i]);
  }
  free(looks);
  jobs->foreign += segments->foreign;
  jobs->unready += segments->unready;
  return err;
}

static bool has_process(const struct tu_job_look *job, pid_t pid) {
  for (uint32_t i = 0; i < job->now.here; i++)
    if (job->now.rank[i].life != TU_RANK_ABSENT && job->now.rank[i].pid == pid) return true;
  return job->launcher == pid;
}

void top_jobs_keep(struct top_jobs *jobs, pid_t pid) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < jobs->count; i++) {
    if (has_process(&jobs->list[i], pid)) jobs->list[kept++] = jobs->list[i];
    else tu_job_look_fini(&jobs->list[i]);
  }
  jobs->count = kept;
}

void top_jobs_fini(struct top_jobs *jobs) {
  for (uint32_t i = 0; i < jobs->count; i++) tu_job_look_fini(&jobs->list[i]);
  free(jobs->list);
  *jobs = (struct top_jobs){0};
}
