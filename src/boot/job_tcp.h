/* job_tcp.h: a job of processes that know where its rank 0 listens: a star of TCP connections. Rank 0 listens at the agreed
 * address, the others join there, and both sides prove the job's secret. An allgather goes to rank 0 and back. */
#ifndef TU_JOB_TCP_H
#define TU_JOB_TCP_H

#include "boot/job.h"
#include "boot/place.h"

/* Collective: joins the others. place->ranks > 1; it is copied. Rank 0 says on stderr if the job has no secret. timeout_ms <= 0:
 * a default. Errors: TIMEOUT names the ranks that have not come; PEER a rank of another user, with a wrong secret, or gone;
 * ENVIRONMENT an unusable secret, or ranks that do not fit together; SYSTEM a limit of this process; MEMORY. */
tutti_err tu_job_tcp_create(const struct tu_boot_place *place, int timeout_ms, struct tu_job **job,
                            struct tu_error *error);

#endif
