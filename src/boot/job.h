/* job.h: the processes of a job before they share memory. The job provides their ranks and an allgather of a few bytes.
 * All data that the start of a world needs goes through this allgather: which hosts the ranks run on, which ranks share
 * caches, the memory of each host.
 *
 * There are two kinds of jobs: of processes that have the address of rank 0 (job_tcp.h), and of callbacks of the
 * program (job_user.h). */
#ifndef TU_JOB_H
#define TU_JOB_H

#include <sys/socket.h>

#include "base/base.h"

struct tu_job;

/* Operations of a job. Only the thread that made the job may call them. */
struct tu_job_ops {
  /* Collective and blocking: stores the data of each rank r at all + r * bytes. All ranks call it the same number of
   * times, with the same `bytes`. After an error the job has failed, and only close may be called. Errors:
   * TUTTI_ERR_TIMEOUT (names the missing ranks), TUTTI_ERR_PEER (names a rank that died), or the error of a rank that
   * called fail. */
  tutti_err (*allgather)(struct tu_job *job, const void *mine, void *all, size_t bytes, struct tu_error *error);
  /* Does not wait. Returns the error that the next allgather would return, if this rank can tell: the job has failed, or
   * a rank has left it. Otherwise returns TUTTI_OK. NULL: such a job cannot tell. */
  tutti_err (*look)(struct tu_job *job, struct tu_error *error);
  /* Removes this rank from the job after an error. If the job can send the error to the other ranks, their next
   * allgather fails with it. */
  void (*fail)(struct tu_job *job, const struct tu_error *error);
  /* Frees the job on this rank only; the other ranks are not affected. */
  void (*close)(struct tu_job *job);
};

/* Description of a rank's process. tu_job_meet sends it to all ranks. */
struct tu_job_process {
  uint64_t host; /* identity of the host: equal on ranks that can share memory and see each other's processes */
  uint32_t pid;
  uint32_t random; /* that of rank 0 tells two jobs apart that its process takes part in */
  char hostname[64];
};

#define TU_JOB_SECRET_BYTES 32u

struct tu_job {
  const struct tu_job_ops *ops;
  uint32_t rank, ranks;
  int timeout_ms;       /* time limit of the whole start, in ms; TUTTI_NO_TIMEOUT: none */
  uint64_t deadline_ns; /* time on tu_clock_ns() at which the start times out */
  const char *step;     /* the current step, for error messages, such as "to map the shared memory" */
  /* [ranks], owned: descriptions of all ranks' processes; zeros before tu_job_meet */
  struct tu_job_process *processes;
  unsigned char *records; /* [ranks * TU_JOB_RECORD_BYTES], owned: receives the results of short allgathers */
  /* Local address of this rank's connection to another rank, if possible to one of another host; family AF_UNSPEC: the
   * job has no connections. */
  struct sockaddr_storage address;
  uint8_t secret[TU_JOB_SECRET_BYTES]; /* hash of the job's secret; zeros: the job has none */
};
#define TU_JOB_RECORD_BYTES 128u

/* Returns the time on tu_clock_ns() that is timeout_ms ms from now. For TUTTI_NO_TIMEOUT, returns a time that never
 * comes. The caller may add up to an hour to this time; the sum does not overflow. */
uint64_t tu_job_deadline_ns(int timeout_ms);

/* Initialises the fields that all kinds of jobs have. Called by the code of each kind. Error: TUTTI_ERR_MEMORY; then
 * tu_job_fini is not needed. */
tutti_err tu_job_init(struct tu_job *job, const struct tu_job_ops *ops, uint32_t rank, uint32_t ranks, int timeout_ms,
                      struct tu_error *error);
/* Frees what tu_job_init has allocated, and the descriptions of the processes. */
void tu_job_fini(struct tu_job *job);

/* Fills in the description of this process. */
void tu_job_process_mine(struct tu_job_process *mine);
/* Collective: fills job->processes on all ranks. `mine` describes this rank; NULL: the function describes this process
 * itself. */
tutti_err tu_job_meet(struct tu_job *job, const struct tu_job_process *mine, struct tu_error *error);

static inline tutti_err tu_job_allgather(struct tu_job *job, const void *mine, void *all, size_t bytes,
                                         struct tu_error *error) {
  return job->ops->allgather(job, mine, all, bytes, error);
}

/* Collective: each rank passes the result of its step: `err`, and if the step failed, *error. If the step succeeded on
 * all ranks, returns TUTTI_OK. Otherwise all ranks return the error of the lowest rank that failed. */
tutti_err tu_job_agree(struct tu_job *job, tutti_err err, struct tu_error *error);

/* Frees the job. NULL is ignored. */
void tu_job_close(struct tu_job *job);

/* Returns a number that is the same on all ranks of the job, and that hardly any other job has. Valid only after
 * tu_job_meet. */
uint64_t tu_job_id(const struct tu_job *job);
/* Returns the lowest rank on the host of `rank`. Valid only after tu_job_meet. */
uint32_t tu_job_host_leader(const struct tu_job *job, uint32_t rank);
static inline bool tu_job_is_near(const struct tu_job *job, uint32_t a, uint32_t b) {
  return job->processes[a].host == job->processes[b].host;
}
/* Returns the number of ranks of the same host that are lower than `rank`: the rank's number on its host. */
uint32_t tu_job_local(const struct tu_job *job, uint32_t rank);
/* Returns the number of ranks on the host of `rank`. */
uint32_t tu_job_locals(const struct tu_job *job, uint32_t rank);

#endif
