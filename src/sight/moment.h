/* moment.h: reads the state of a job twice, for rates, and finds out who makes the others wait. */
#ifndef TU_MOMENT_H
#define TU_MOMENT_H

#include "sight/why.h"

/* A job at two moments. */
struct tu_job_look {
  pid_t launcher; /* pid of `tutti run`, or of its agent; 0: another launcher */
  uint64_t id;    /* of the job; 0: not known */
  char host[64];  /* where the process runs that stands for the job (tu_job_pid) */
  bool elsewhere; /* that is not this host */
  struct tu_job_state before, now;
  struct tu_why why;
};

/* What a rank did between the two moments. */
struct tu_rank_rates {
  double cpu;                      /* CPU seconds per second; < 0: unknown */
  double calls_per_s, bytes_per_s; /* collectives and messages; < 0: unknown */
};

/* Reads the job, and again after pause_ms ms. Error: TUTTI_ERR_MEMORY. The caller calls
 * tu_job_look_fini in any case. */
tutti_err tu_job_look_at(const struct tu_segment *segment, uint32_t pause_ms, struct tu_job_look *job,
                         struct tu_error *error);
/* The same for `count` jobs at once, in two steps, for the first moment and the second. The caller pauses between them, and
 * calls tu_job_look_fini for each of looks[count] in any case. Error: TUTTI_ERR_MEMORY. */
tutti_err tu_job_looks_begin(const struct tu_segment *segments, uint32_t count, struct tu_job_look *looks,
                             struct tu_error *error);
tutti_err tu_job_looks_end(const struct tu_segment *segments, uint32_t count, struct tu_job_look *looks,
                           struct tu_error *error);
/* Sets job->host to the host of the ranks that were read. */
void tu_job_look_find_host(struct tu_job_look *job);
/* A process of this host stands for the job: its launcher. */
void tu_job_look_launched(struct tu_job_look *job, pid_t launcher);
/* Returns true if the other is of the same job, and of ranks that are not in *job yet. */
bool tu_job_look_misses(const struct tu_job_look *job, const struct tu_job_look *other);
/* Adds what was read of the same job on another host (tu_job_look_misses); its content moves to *job. Error:
 * TUTTI_ERR_MEMORY. */
tutti_err tu_job_look_add(struct tu_job_look *job, struct tu_job_look *from, struct tu_error *error);
void tu_job_look_fini(struct tu_job_look *job);

/* `local`: index in job->now.rank. */
struct tu_rank_rates tu_rank_rates_of(const struct tu_job_look *job, uint32_t local);
/* Returns the rank as a member of the communicator in which it made its last call: that of its wait, or else the one with
 * most calls between the two moments. NULL: the rank has made no call. */
const struct tu_member_state *tu_rank_last_call(const struct tu_job_look *job, uint32_t local,
                                                const struct tu_comm_state **comm);
/* Returns how long the ranks of this host have waited for that rank, or it for others, in all communicators, in ns. */
uint64_t tu_rank_awaited_ns(const struct tu_job_state *state, uint32_t rank);
uint64_t tu_rank_waited_ns(const struct tu_job_state *state, uint32_t rank);
/* Returns the process that stands for the job: `tutti run`, or the rank of job->host with the lowest number. */
pid_t tu_job_pid(const struct tu_job_look *job);

#endif
