/* job.c: operations common to all kinds of jobs: ranks exchange descriptions of their processes, and agree on the
 * result of a step. */
#include "boot/job.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"

#define NS_PER_MS 1000000u

/* The struct is sent as its bytes in memory, so it must have no padding. */
_Static_assert(sizeof(struct tu_job_process) == 80, "no padding");

uint64_t tu_job_deadline_ns(int timeout_ms) {
  return timeout_ms < 0 ? UINT64_MAX / 2 : tu_clock_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

tutti_err tu_job_init(struct tu_job *job, const struct tu_job_ops *ops, uint32_t rank, uint32_t ranks, int timeout_ms,
                      struct tu_error *error) {
  *job = (struct tu_job){.ops = ops, .rank = rank, .ranks = ranks, .timeout_ms = timeout_ms, .step = "to meet"};
  job->deadline_ns = tu_job_deadline_ns(timeout_ms);
  job->processes = tu_try_allocate(ranks, sizeof *job->processes);
  job->records = tu_try_allocate(ranks, TU_JOB_RECORD_BYTES);
  if (job->processes && job->records) return TUTTI_OK;
  tu_job_fini(job);
  return tu_fail_memory(error, ranks * (sizeof *job->processes + TU_JOB_RECORD_BYTES),
                        "rank %u's part of a job of %u ranks", rank, ranks);
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

/* Returns a hash that is equal for processes that can share memory and see each other: same kernel (boot id), same
 * network namespace (abstract sockets), same pid namespace, same hostname, same /dev/shm, same TUTTI_HOST. */
static uint64_t host_identity(const char *hostname) {
  const char *name = tu_env("TUTTI_HOST");
  uint64_t hash = tu_hash(hostname, strlen(hostname), 1);
  if (name) hash = tu_hash(name, strlen(name), hash);
  hash = hash_file("/proc/sys/kernel/random/boot_id", hash);
  hash = hash_inode("/proc/self/ns/net", hash);
  hash = hash_inode("/proc/self/ns/pid", hash);
  return hash_inode("/dev/shm", hash);
}

void tu_job_process_mine(struct tu_job_process *mine) {
  *mine = (struct tu_job_process){.pid = (uint32_t)getpid()};
  (void)!getrandom(&mine->random, sizeof mine->random, GRND_NONBLOCK);
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

uint64_t tu_job_id(const struct tu_job *job) { return tu_hash(&job->processes[0], sizeof job->processes[0], 0); }

uint32_t tu_job_host_leader(const struct tu_job *job, uint32_t rank) {
  uint32_t leader = 0;
  while (!tu_job_is_near(job, leader, rank)) leader++;
  return leader;
}

uint32_t tu_job_local(const struct tu_job *job, uint32_t rank) {
  uint32_t lower = 0;
  for (uint32_t r = 0; r < rank; r++) lower += tu_job_is_near(job, r, rank);
  return lower;
}

uint32_t tu_job_locals(const struct tu_job *job, uint32_t rank) {
  uint32_t count = 0;
  for (uint32_t r = 0; r < job->ranks; r++) count += tu_job_is_near(job, r, rank);
  return count;
}

/* ---- agreement on a result ---- */

/* Returns the lowest rank that failed, and sets *code to its error. Returns job->ranks if no rank failed. */
static uint32_t first_failed(const struct tu_job *job, uint32_t *code) {
  for (uint32_t r = 0; r < job->ranks; r++) {
    memcpy(code, job->records + r * sizeof *code, sizeof *code);
    if (*code != TUTTI_OK) return r;
  }
  return job->ranks;
}

/* Replaces `text`, this rank's error message, by the error message of rank `failed`. Collective: the ranks exchange all
 * messages, in pieces. Thus no rank needs memory for all whole messages. */
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
  /* A TUTTI_ERR_PEER or TUTTI_ERR_TIMEOUT error of this rank may only be a consequence of the failure of the job.
   * Therefore the job's error is returned instead of it. */
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
