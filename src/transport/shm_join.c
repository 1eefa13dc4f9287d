/* shm_join.c: sets up the shared memory of each host of a job. The lowest rank of a host creates the memory and hands it
 * to the other ranks of the host. Each rank maps the memory. Then all ranks exchange whether every rank succeeded. */
#include <string.h>
#include <unistd.h>

#include "transport/shm_memory.h"
#include "transport/transport.h"

/* Collective: gets the offer of the leader of this rank's host. The offer states where a rank gets the shared
 * memory. */
static tutti_err exchange_offers(struct tu_job *job, const struct tu_shm_offer *mine, tutti_err made,
                                 struct tu_shm_offer *offer, struct tu_error *error) {
  _Static_assert(sizeof *mine <= TU_JOB_RECORD_BYTES, "an offer is a record");
  job->step = "to offer the shared memory";
  tutti_err err = tu_job_agree(job, made, error);
  if (err == TUTTI_OK) err = tu_job_allgather(job, mine, job->records, sizeof *mine, error);
  if (err == TUTTI_OK) memcpy(offer, job->records + tu_job_host_leader(job, job->rank) * sizeof *offer, sizeof *offer);
  return err;
}

tutti_err tu_shm_join(struct tu_job *job, struct tu_transport **t, struct tu_error *error) {
  struct tu_shm_memory memory = {.fd = -1};
  struct tu_shm_offer mine = {0}, offer;
  struct tu_shm_handing *handing = NULL;
  tutti_err err = TUTTI_OK;
  const uint32_t leader = tu_job_host_leader(job, job->rank), here = tu_job_locals(job, job->rank);
  const bool leads = leader == job->rank;
  *t = NULL;
  (void)tu_bell_register(); /* does not wait here, but would after tu_shm_memory_hand_out, which starts a thread */
  if (leads) err = tu_shm_memory_make(here, &memory, error);
  if (leads && err == TUTTI_OK) tu_shm_memory_keep(&memory);
  if (leads && err == TUTTI_OK) err = tu_shm_memory_hand_out(&memory, &handing, &mine, error);
  err = exchange_offers(job, &mine, err, &offer, error);
  if (err == TUTTI_OK) {
    if (!leads) err = tu_shm_memory_take(job, leader, &offer, here, &memory, error);
    if (err == TUTTI_OK)
      err = tu_shm_create(tu_job_local(job, job->rank), here, memory.fd, memory.slice_bytes, t, error);
    job->step = "to map the shared memory";
    err = tu_job_agree(job, err, error);
  }
  tu_shm_memory_end(handing);
  if (err == TUTTI_OK) return err;
  if (*t) (*t)->ops->close(*t); /* closing the endpoint also closes memory.fd */
  else if (memory.fd >= 0) close(memory.fd);
  *t = NULL;
  return err;
}
