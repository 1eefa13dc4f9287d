/* job_tcp.h: a job over TCP, for processes that have the address on which rank 0 listens. The connections form a star:
 * rank 0 listens, the other ranks connect to it, and both sides prove that they know the job's secret. In an allgather
 * all data goes to rank 0, which sends it to all ranks. */
#ifndef TU_JOB_TCP_H
#define TU_JOB_TCP_H

#include "boot/identity.h"
#include "boot/job.h"

/* Collective: creates the job and waits until all ranks have joined. *identity (of this process) is copied;
 * identity->ranks > 1. A timeout_ms of 0 means 60 s. Rank 0 prints a warning on stderr if the job has no
 * secret. Errors: TUTTI_ERR_TIMEOUT (names the missing ranks), TUTTI_ERR_PEER (a rank died, belongs to another user, or
 * has a wrong secret), TUTTI_ERR_ENVIRONMENT (unusable secret, or ranks that contradict each other), TUTTI_ERR_SYSTEM
 * (a limit of this process), TUTTI_ERR_MEMORY. */
tutti_err tu_job_tcp_create(const struct tu_boot_identity *identity, int timeout_ms, struct tu_job **job,
                            struct tu_error *error);

#endif
