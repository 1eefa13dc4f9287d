/* moment.c: reads the state of a job twice, and compares. */
#include "sight/moment.h"

#include <string.h>
#include <time.h>

#include "sight/plate.h"

void tu_job_look_find_host(struct tu_job_look *job) {
  for (uint32_t i = job->now.here; i-- > 0;)
    if (job->now.rank[i].life != TU_RANK_ABSENT) memcpy(job->host, job->now.rank[i].host, sizeof job->host);
}

tutti_err tu_job_looks_begin(const struct tu_segment *segments, uint32_t count, struct tu_job_look *looks,
                             struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < count; i++)
    looks[i] = (struct tu_job_look){.launcher = segments[i].launcher, .id = segments[i].id};
  for (uint32_t i = 0; i < count && err == TUTTI_OK; i++)
    err = tu_job_state_read(&segments[i], &looks[i].before, error);
  return err;
}

tutti_err tu_job_looks_end(const struct tu_segment *segments, uint32_t count, struct tu_job_look *looks,
                           struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < count && err == TUTTI_OK; i++) {
    err = tu_job_state_read(&segments[i], &looks[i].now, error);
    if (err == TUTTI_OK) err = tu_why_find(&looks[i].now, &looks[i].why, error);
    tu_job_look_find_host(&looks[i]);
  }
  return err;
}

tutti_err tu_job_look_at(const struct tu_segment *segment, uint32_t pause_ms, struct tu_job_look *job,
                         struct tu_error *error) {
  tutti_err err = tu_job_looks_begin(segment, 1, job, error);
  if (err != TUTTI_OK) return err;
  nanosleep(&(struct timespec){.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000L}, NULL);
  return tu_job_looks_end(segment, 1, job, error);
}

void tu_job_look_launched(struct tu_job_look *job, pid_t launcher) {
  job->launcher = launcher;
  job->elsewhere = false;
  tu_plate_host(job->host);
}

bool tu_job_look_misses(const struct tu_job_look *job, const struct tu_job_look *other) {
  if (job->id == 0 || job->id != other->id || job->now.ranks != other->now.ranks) return false;
  for (uint32_t i = 0; i < other->now.here; i++)
    if (other->now.rank[i].life != TU_RANK_ABSENT)
      return !tu_job_state_rank(&job->now, other->now.rank[i].rank); /* the ranks of a host come together */
  return false;
}

tutti_err tu_job_look_add(struct tu_job_look *job, struct tu_job_look *from, struct tu_error *error) {
  tutti_err err = tu_job_state_merge(&job->before, &from->before, error);
  if (err == TUTTI_OK) err = tu_job_state_merge(&job->now, &from->now, error);
  tu_why_fini(&job->why);
  return err == TUTTI_OK ? tu_why_find(&job->now, &job->why, error) : err;
}

void tu_job_look_fini(struct tu_job_look *job) {
  tu_job_state_fini(&job->before);
  tu_job_state_fini(&job->now);
  tu_why_fini(&job->why);
}

/* Adds what a rank did in a communicator between the two moments. The bytes of its collectives are those of its last call,
 * for each. */
static void add_rates(const struct tu_member_state *m, const struct tu_member_state *old, double *calls,
                      double *bytes) {
  const double collectives = (double)(m->latest - (old ? old->latest : 0));
  const double messages = (double)(m->messages - (old ? old->messages : 0));
  *calls += collectives + messages;
  *bytes += (double)(m->message_bytes - (old ? old->message_bytes : 0));
  if (m->known) *bytes += collectives * (double)tu_facts_bytes(&m->facts);
}

struct tu_rank_rates tu_rank_rates_of(const struct tu_job_look *job, uint32_t local) {
  const struct tu_rank_state *r = &job->now.rank[local];
  const struct tu_rank_state *old = job->before.rank ? tu_job_state_rank(&job->before, r->rank) : NULL;
  double calls = 0, bytes = 0;
  if (!old || r->life == TU_RANK_ABSENT) return (struct tu_rank_rates){-1, -1, -1};
  const double s = (double)(job->now.now - job->before.now) * 1e-9;
  for (uint32_t i = 0; i < job->now.comms; i++) {
    const struct tu_comm_state *comm = &job->now.comm[i], *was = tu_job_state_comm(&job->before, comm->comm_id);
    const struct tu_member_state *m = tu_comm_state_member(comm, r->rank);
    if (m) add_rates(m, was ? tu_comm_state_member(was, r->rank) : NULL, &calls, &bytes);
  }
  return (struct tu_rank_rates){
      .cpu = (double)(r->cpu_ns - old->cpu_ns) * 1e-9 / s, .calls_per_s = calls / s, .bytes_per_s = bytes / s};
}

const struct tu_member_state *tu_rank_last_call(const struct tu_job_look *job, uint32_t local,
                                                const struct tu_comm_state **comm) {
  const struct tu_rank_state *r = &job->now.rank[local];
  const struct tu_waits *w = tu_rank_state_wait(r);
  const struct tu_member_state *best = NULL;
  uint64_t most = 0;
  *comm = w ? tu_job_state_comm(&job->now, w->entries[0].comm) : NULL;
  if (*comm) return tu_comm_state_member(*comm, r->rank);
  for (uint32_t i = 0; i < job->now.comms; i++) {
    const struct tu_comm_state *here = &job->now.comm[i], *was = tu_job_state_comm(&job->before, here->comm_id);
    const struct tu_member_state *m = tu_comm_state_member(here, r->rank);
    const struct tu_member_state *old = was ? tu_comm_state_member(was, r->rank) : NULL;
    if (!m || m->latest == 0) continue;
    const uint64_t calls = m->latest - (old ? old->latest : 0);
    if (best && calls <= most) continue;
    best = m;
    most = calls;
    *comm = here;
  }
  return best;
}

uint64_t tu_rank_awaited_ns(const struct tu_job_state *state, uint32_t rank) {
  uint64_t ns = 0;
  for (uint32_t i = 0; i < state->comms; i++) {
    const struct tu_member_state *m = tu_comm_state_member(&state->comm[i], rank);
    if (m) ns += m->awaited_ns;
  }
  return ns;
}

uint64_t tu_rank_waited_ns(const struct tu_job_state *state, uint32_t rank) {
  uint64_t ns = 0;
  for (uint32_t i = 0; i < state->comms; i++) {
    const struct tu_member_state *m = tu_comm_state_member(&state->comm[i], rank);
    if (m) ns += m->waited_ns;
  }
  return ns;
}

pid_t tu_job_pid(const struct tu_job_look *job) {
  if (job->launcher) return job->launcher;
  for (uint32_t i = 0; i < job->now.here; i++)
    if (job->now.rank[i].life == TU_RANK_LIVES && strcmp(job->now.rank[i].host, job->host) == 0)
      return job->now.rank[i].pid;
  return job->now.here > 0 ? job->now.rank[0].pid : 0;
}
