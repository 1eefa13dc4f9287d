/* join.h: the endpoint of a rank of a job, with its host's segment and its connections to other hosts. */
#ifndef TU_JOIN_H
#define TU_JOIN_H

#include "boot/job.h"
#include "transport/transport.h"

/* Collective: makes this process a rank of the job. tu_job_meet must have succeeded. All ranks return the same error:
 * that of tu_shm_join or tu_job_dialer. */
tutti_err tu_join(struct tu_job *job, struct tu_transport **t, struct tu_error *error);

#endif
