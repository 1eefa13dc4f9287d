/* job_user.h: a job for which the program provides the communication: an allgather callback, or a key-value store. */
#ifndef TU_JOB_USER_H
#define TU_JOB_USER_H

#include "boot/job.h"

/* Makes a job from the callbacks in *bootstrap, which is copied; bootstrap->rank must be below bootstrap->ranks. Until
 * the job is closed, its callbacks are called only by the thread that called this function. No time-out interrupts a
 * callback. Errors: TUTTI_ERR_ARGUMENT (callbacks are missing), TUTTI_ERR_MEMORY. */
tutti_err tu_job_user_create(const tutti_bootstrap *bootstrap, int timeout_ms, struct tu_job **job,
                             struct tu_error *error);

#endif
