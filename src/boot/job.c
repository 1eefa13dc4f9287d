/* job.c: what ranks do with any job: meet, and agree on how a step went. */
#include "boot/job.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_PER_MS 1000000u

/* Records travel as they lie in memory. */
_Static_assert(sizeof(struct tu_job_process) == 80, "no padding");

tutti_err tu_job_init(struct tu_job *job, const struct tu_job_ops *ops, uint32_t rank, uint32_t ranks, int timeout_ms,
                      struct tu_error *error) {
  *job = (struct tu_job){.ops = ops, .rank = rank, .ranks = ranks, .timeout_ms = timeout_ms, .step = "to meet"};
  job->deadline_ns = tu_clock_ns() + (uint64_t)timeout_ms * NS_PER_MS;
  job->processes = tu_try_allocate(ranks, sizeof *job->processes);
  job->records = tu_try_allocate(ranks, TU_JOB_RECORD_BYTES);
  if (job->processes && job->records) return TUTTI_OK;
  tu_job_fini(job);
  return tu_fail_memory(error, ranks * (sizeof *job->processes + TU_JOB_RECORD_BYTES), "rank %u: a job of %u ranks",
                        rank, ranks);
}

void tu_job_fini(struct tu_job *job) {
  free(job->processes);
  free(job->records);
}

/* ---- hosts ---- */

static uint64_t hash_file(const char *path, uint64_t hash) {
  char text[128];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
  if (fd >= 0) close(fd);
  return n > 0 ? tu_hash(text, (size_t)n, hash) : hash;
}

static uint64_t hash_inode(const char *path, uint64_t hash) {
  struct stat status;
  if (stat(path, &status) != 0) return hash;
  uint64_t identity[2] = {(uint64_t)status.st_dev, (uint64_t)status.st_ino};
  return tu_hash(identity, sizeof identity, hash);
}

/* Equal for processes that can share memory and see each other: one kernel, and one namespace each for abstract sockets
 * (network), for process numbers, and for what hostname and /dev/shm stand for. */
static uint64_t host_identity(const char *hostname) {
  uint64_t hash = tu_hash(hostname, strlen(hostname), 1);
  hash = hash_file("/proc/sys/kernel/random/boot_id", hash);
  hash = hash_inode("/proc/self/ns/net", hash);
  hash = hash_inode("/proc/self/ns/pid", hash);
  return hash_inode("/dev/shm", hash);
}

void tu_job_process_mine(struct tu_job_process *mine) {
  *mine = (struct tu_job_process){.pid = (uint32_t)getpid()};
  gethostname(mine->hostname, sizeof mine->hostname - 1);
  mine->host = host_identity(mine->hostname);
}

tutti_err tu_job_meet(struct tu_job *job, const struct tu_job_process *mine, struct tu_error *error) {
  struct tu_job_process own;
  tu_job_process_mine(&own);
  job->step = "to meet";
  tutti_err err = tu_job_allgather(job, mine ? mine : &own, job->processes, sizeof own, error);
  if (err != TUTTI_OK) return err;
  for (uint32_t r = 0; r < job->ranks; r++) job->processes[r].hostname[sizeof own.hostname - 1] = '\0';
  const struct tu_job_process *here = mine ? mine : &own, *heard = &job->processes[job->rank];
  if (heard->pid != here->pid || heard->host != here->host)
    err = tu_fail(error, TUTTI_ERR_ENVIRONMENT, "two processes say they are rank %u: pid %u on '%s' and pid %u on '%s'",
                  job->rank, heard->pid, heard->hostname, here->pid, here->hostname);
  return tu_job_agree(job, err, error);
}

uint32_t tu_job_host_leader(const struct tu_job *job, uint32_t rank) {
  uint32_t leader = 0;
  while (job->processes[leader].host != job->processes[rank].host) leader++;
  return leader;
}

/* ---- agreeing ---- */

/* The first rank that failed, and its code; job->ranks: none. */
static uint32_t first_failed(const struct tu_job *job, uint32_t *code) {
  for (uint32_t r = 0; r < job->ranks; r++) {
    memcpy(code, job->records + r * sizeof *code, sizeof *code);
    if (*code != TUTTI_OK) return r;
  }
  return job->ranks;
}

/* `text` is this rank's sentence, and becomes that of rank `failed`: piece by piece, so that no rank needs memory for the
 * sentences of all. */
static tutti_err hear(struct tu_job *job, uint32_t failed, char *text, size_t bytes, struct tu_error *lost) {
  tutti_err err = TUTTI_OK;
  for (size_t at = 0; at < bytes && err == TUTTI_OK; at += TU_JOB_RECORD_BYTES) {
    char piece[TU_JOB_RECORD_BYTES] = "";
    size_t length = tu_min(sizeof piece, bytes - at);
    memcpy(piece, text + at, length);
    err = tu_job_allgather(job, piece, job->records, sizeof piece, lost);
    if (err == TUTTI_OK) memcpy(text + at, job->records + failed * sizeof piece, length);
  }
  text[bytes - 1] = '\0';
  return err;
}

tutti_err tu_job_agree(struct tu_job *job, tutti_err err, struct tu_error *error) {
  struct tu_error lost, heard = {0};
  const uint32_t mine = err;
  uint32_t failed = 0, code = TUTTI_OK;
  if (err != TUTTI_OK) heard = *error;
  tutti_err met = tu_job_allgather(job, &mine, job->records, sizeof mine, &lost);
  if (met == TUTTI_OK) {
    failed = first_failed(job, &code);
    if (failed == job->ranks) return TUTTI_OK;
    met = hear(job, failed, heard.text, sizeof heard.text, &lost);
  }
  /* That others were missed here may be but what followed from what the job has failed with. */
  bool own_counts = err != TUTTI_OK && err != TUTTI_ERR_PEER && err != TUTTI_ERR_TIMEOUT;
  if (err != TUTTI_OK && (met == TUTTI_OK ? failed == job->rank : own_counts)) return err;
  if (met != TUTTI_OK) {
    *error = lost;
    return met;
  }
  if (code > TUTTI_ERR_UNSUPPORTED) code = TUTTI_ERR_PEER;
  return tu_fail(error, (tutti_err)code, "rank %u: %.490s", failed, heard.text);
}

void tu_job_close(struct tu_job *job) {
  if (job) job->ops->close(job);
}
