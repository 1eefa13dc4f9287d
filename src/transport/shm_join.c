/* shm_join.c: how the ranks of a job come to share memory: the lowest rank of a host makes it and hands it to the others there;
 * each maps it; and all agree that it went well. */
#include <string.h>
#include <unistd.h>

#include "transport/shm_memory.h"
#include "transport/transport.h"

static tutti_err check_hosts(const struct tu_job *job, struct tu_error *error) {
  const struct tu_job_process *all = job->processes;
  for (uint32_t r = 1; r < job->ranks; r++) {
    if (all[r].host == all[0].host) continue;
    return tu_fail(
        error, TUTTI_ERR_UNSUPPORTED,
        "rank %u (pid %u on '%.63s') is not on the host, or in the container, of rank 0 (pid %u on '%.63s'): "
        "ranks of one host only can share memory",
        r, all[r].pid, all[r].hostname, all[0].pid, all[0].hostname);
  }
  return TUTTI_OK;
}

/* What the leader of this rank's host offers. */
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
  *t = NULL;
  tutti_err err = check_hosts(job, error);
  if (err != TUTTI_OK) return err; /* all ranks find the same */
  uint32_t leader = tu_job_host_leader(job, job->rank);
  bool leads = leader == job->rank;
  if (leads) err = tu_shm_memory_make(job->ranks, &memory, error);
  if (leads && err == TUTTI_OK) err = tu_shm_memory_hand_out(&memory, &handing, &mine, error);
  err = exchange_offers(job, &mine, err, &offer, error);
  if (err == TUTTI_OK) {
    if (!leads) err = tu_shm_memory_take(job, leader, &offer, job->ranks, &memory, error);
    if (err == TUTTI_OK) err = tu_shm_create(job->rank, job->ranks, memory.fd, memory.slice_bytes, t, error);
    job->step = "to map the shared memory";
    err = tu_job_agree(job, err, error);
  }
  tu_shm_memory_end(handing);
  if (err == TUTTI_OK) return err;
  if (*t) (*t)->ops->close(*t); /* and the memory */
  else if (memory.fd >= 0) close(memory.fd);
  *t = NULL;
  return err;
}
