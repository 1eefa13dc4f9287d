/* job_user.h: a job whose allgather the program has itself: by a callback, or by a key-value store. */
#ifndef TU_JOB_USER_H
#define TU_JOB_USER_H

#include "boot/job.h"

/* The callbacks are called by this thread, until the job is closed; nothing interrupts them. bootstrap->rank < bootstrap->ranks.
 * ARGUMENT if it says too little; MEMORY. */
tutti_err tu_job_user_create(const tutti_bootstrap *bootstrap, int timeout_ms, struct tu_job **job,
                             struct tu_error *error);

#endif
