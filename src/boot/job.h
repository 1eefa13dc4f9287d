/* job.h: the processes of a job before they share anything: who is which rank, and an allgather of a few bytes. All else
 * that they need to begin goes through it: which hosts they run on, who shares a cache with whom, the memory of a host.
 *
 * job_tcp.h makes a job of processes that know where rank 0 listens, job_user.h one of what the program has itself. */
#ifndef TU_JOB_H
#define TU_JOB_H

#include "base/base.h"

struct tu_job;

/* All of them may be called by the one thread only that has the job. */
struct tu_job_ops {
  /* Collective and blocking: all[r * bytes ...] is what rank r brought. All ranks call it the same number of times, with the
   * same `bytes`. After an error the job has failed: nothing but close is possible. Errors: TIMEOUT names the ranks that have
   * not come, PEER one that has died, or the error of a rank that gave up. */
  tutti_err (*allgather)(struct tu_job *job, const void *mine, void *all, size_t bytes, struct tu_error *error);
  /* This rank leaves the job for that reason, before its end: the others' next allgather fails with it, where the job can
   * tell them. */
  void (*fail)(struct tu_job *job, const struct tu_error *error);
  /* Frees the job; the others do not notice. */
  void (*close)(struct tu_job *job);
};

/* What a rank says of itself when all meet. */
struct tu_job_process {
  uint64_t host; /* equal on ranks that can share memory and see each other's processes */
  uint32_t pid;
  uint32_t reserved;
  char hostname[64];
};

struct tu_job {
  const struct tu_job_ops *ops;
  uint32_t rank, ranks;
  int timeout_ms;                   /* of the whole beginning */
  uint64_t deadline_ns;             /* tu_clock_ns() by which it must be over */
  const char *step;                 /* what ranks do now, for sentences: "to ..." */
  struct tu_job_process *processes; /* [ranks], owned; blank before tu_job_meet */
  unsigned char *records; /* [ranks * TU_JOB_RECORD_BYTES], owned: for short allgathers that must not fail here */
};
#define TU_JOB_RECORD_BYTES 128u

/* For implementations: what is common, and its end. MEMORY; then there is nothing to finish. */
tutti_err tu_job_init(struct tu_job *job, const struct tu_job_ops *ops, uint32_t rank, uint32_t ranks, int timeout_ms,
                      struct tu_error *error);
void tu_job_fini(struct tu_job *job);

/* What this process would say of itself. */
void tu_job_process_mine(struct tu_job_process *mine);
/* Collective: fills job->processes. `mine` NULL: what this process is. */
tutti_err tu_job_meet(struct tu_job *job, const struct tu_job_process *mine, struct tu_error *error);

static inline tutti_err tu_job_allgather(struct tu_job *job, const void *mine, void *all, size_t bytes,
                                         struct tu_error *error) {
  return job->ops->allgather(job, mine, all, bytes, error);
}

/* Collective: every rank brings how its own step went (`err`, and *error if it failed). TUTTI_OK if it went well on all of them;
 * else the same error on all: that of the lowest rank on which it failed. */
tutti_err tu_job_agree(struct tu_job *job, tutti_err err, struct tu_error *error);

/* NULL is ignored. */
void tu_job_close(struct tu_job *job);

/* The lowest rank that runs on the same host as `rank`; they have met. */
uint32_t tu_job_host_leader(const struct tu_job *job, uint32_t rank);

#endif
