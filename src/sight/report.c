/* report.c: the report about a job that hangs: who makes the others wait, and where each rank stands. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sight/report.h"

void tu_print_duration(char *text, size_t bytes, uint64_t ns) {
  const uint64_t s = ns / 1000000000;
  if (ns < 1000000) snprintf(text, bytes, "%.0f us", (double)ns * 1e-3);
  else if (ns < 1000000000) snprintf(text, bytes, "%.0f ms", (double)ns * 1e-6);
  else if (s < 100) snprintf(text, bytes, "%.1f s", (double)ns * 1e-9);
  else if (s < 6000) snprintf(text, bytes, "%llu min %llu s", (unsigned long long)s / 60, (unsigned long long)s % 60);
  else snprintf(text, bytes, "%llu h %llu min", (unsigned long long)s / 3600, (unsigned long long)s / 60 % 60);
}

const char *tu_rank_doing(const struct tu_rank_state *r) {
  if (r->life == TU_RANK_ABSENT) return "not joined";
  if (r->life == TU_RANK_DEAD) return "dead";
  if (r->life == TU_RANK_CLOSED) return "left";
  if (r->run == 'T') return "stopped";
  if (r->run == 't') return "traced";
  if (tu_rank_state_wait(r)) return "waits";
  return r->run == 'R' ? "runs" : r->run == 'D' ? "blocked" : "sleeps";
}

bool tu_has_several_hosts(const struct tu_job_state *state) {
  const struct tu_rank_state *first = NULL;
  for (uint32_t i = 0; i < state->here; i++) {
    if (state->rank[i].life == TU_RANK_ABSENT) continue;
    if (first && strcmp(first->host, state->rank[i].host) != 0) return true;
    first = &state->rank[i];
  }
  return false;
}

static const struct tu_rank_state *state_of(const struct tu_job_look *job, uint32_t rank) {
  return tu_job_state_rank(&job->now, rank);
}

/* Writes what the process of a rank does, such as "its program runs (98% of a CPU)". */
static void print_process(const struct tu_job_look *job, uint32_t rank, char *text, size_t bytes) {
  const struct tu_rank_state *r = state_of(job, rank);
  const struct tu_rank_rates rates =
      r ? tu_rank_rates_of(job, (uint32_t)(r - job->now.rank)) : (struct tu_rank_rates){-1, -1, -1};
  if (!r || r->life != TU_RANK_LIVES) snprintf(text, bytes, "its state is unknown");
  else if (r->run == 'T') snprintf(text, bytes, "its process is stopped (SIGCONT continues it)");
  else if (r->run == 't') snprintf(text, bytes, "its process is stopped by a debugger");
  else if (rates.cpu >= 0.5 || r->run == 'R') /* on a busy machine it gets less */
    snprintf(text, bytes, "its program computes (%.0f%% of a CPU)", rates.cpu > 0 ? 100 * rates.cpu : 0);
  else if (r->run == 'D') snprintf(text, bytes, "its program is blocked in the kernel, such as by a file");
  else snprintf(text, bytes, "its program sleeps outside tutti");
}

static void print_reason(const struct tu_job_look *job, const struct tu_why_rank *w, char *text, size_t bytes) {
  char process[100], collective[40] = "the call";
  print_process(job, w->rank, process, sizeof process);
  if (w->number) snprintf(collective, sizeof collective, "collective %llu", (unsigned long long)w->number);
  switch (w->kind) {
    case TU_WHY_DEAD: snprintf(text, bytes, "has died or exited"); return;
    case TU_WHY_LEFT: snprintf(text, bytes, "has left: it has freed the communicator"); return;
    case TU_WHY_ABSENT: snprintf(text, bytes, "has not joined the job"); return;
    case TU_WHY_STOPPED: snprintf(text, bytes, "is stopped: %s", process); return;
    case TU_WHY_NOT_COME: snprintf(text, bytes, "has not started %s: %s", collective, process); return;
    case TU_WHY_OUTSIDE:
      snprintf(text, bytes, "has started %s, but does not wait for it in tutti: %s", collective, process);
      return;
    case TU_WHY_SILENT:
      snprintf(text, bytes, "waits itself, but does not look for its messages any more: %s", process);
      return;
    case TU_WHY_INPUT:
      snprintf(text, bytes, "waits until its own program fills in the input of %s", collective);
      return;
    case TU_WHY_SIGNAL: snprintf(text, bytes, "waits for a signal or a message of any rank"); return;
    case TU_WHY_ELSEWHERE: snprintf(text, bytes, "runs on a host that is not seen (tutti top --hosts asks it)"); return;
    default: snprintf(text, bytes, "does not go on"); return;
  }
}

static uint64_t longest_ns(const struct tu_job_look *job, const struct tu_why_rank *w) {
  return job->now.now > w->since ? job->now.now - w->since : 0;
}

void tu_report_verdict(char *text, size_t bytes, const struct tu_job_look *job) {
  char reason[200], since[32], more[32] = "";
  text[0] = '\0';
  if (job->why.count > 0) {
    const struct tu_why_rank *w = &job->why.ranks[0];
    print_reason(job, w, reason, sizeof reason);
    tu_print_duration(since, sizeof since, longest_ns(job, w));
    if (job->why.count > 1) snprintf(more, sizeof more, " (and %u more)", job->why.count - 1);
    snprintf(text, bytes, "%u rank%s for rank %u%s, for %s: it %s", w->waiters, w->waiters == 1 ? " waits" : "s wait",
             w->rank, more, since, reason);
  } else if (job->why.circle_count > 0) {
    size_t at = (size_t)snprintf(text, bytes, "ranks wait for each other: %u", job->why.circle[0]);
    for (uint32_t i = 1; i <= job->why.circle_count && at < bytes; i++)
      at += (size_t)snprintf(text + at, bytes - at, "%s%u", i == 1 ? " for " : ", that for ",
                             job->why.circle[i % job->why.circle_count]);
  }
}

/* ---- where each rank stands ---- */

static void print_place(FILE *file, const struct tu_job_look *job, uint32_t local) {
  const struct tu_rank_state *r = &job->now.rank[local];
  const struct tu_waits *w = r->life == TU_RANK_LIVES ? tu_rank_state_wait(r) : NULL;
  const struct tu_comm_state *comm;
  const struct tu_member_state *m = r->life == TU_RANK_ABSENT ? NULL : tu_rank_last_call(job, local, &comm);
  char since[32], call[200] = "has started no collective";
  if (r->life == TU_RANK_ABSENT) {
    fprintf(file, "  a rank of this host has not joined the job\n");
    return;
  }
  if (m && m->latest > 0) snprintf(call, sizeof call, "last collective %llu", (unsigned long long)m->latest);
  if (m && m->known) {
    const size_t at = strlen(call);
    snprintf(call + at, sizeof call - at, ", ");
    tu_facts_print(NULL, &m->facts, call + at + 2, sizeof call - at - 2);
  }
  const bool several = tu_has_several_hosts(&job->now);
  fprintf(file, "  rank %u (pid %d%s%s, %s): %s", r->rank, (int)r->pid, several ? " on " : "", several ? r->host : "",
          tu_rank_doing(r), call);
  if (w) {
    tu_print_duration(since, sizeof since, job->now.now > w->since ? job->now.now - w->since : 0);
    fprintf(file, "; has waited %s for", since);
    for (size_t k = 0; k < w->count; k++) {
      const struct tu_wait_entry *e = &w->entries[k];
      fprintf(file, "%s", k ? "," : "");
      if (e->flags & TU_WAIT_INPUT) fprintf(file, " its own input");
      else if (e->flags & TU_WAIT_SIGNAL) fprintf(file, " a signal");
      else if (e->flags & TU_WAIT_ANY) fprintf(file, " a message from any rank");
      else fprintf(file, " rank %u%s", e->rank, e->flags & TU_WAIT_NOT_COME ? " (had not come)" : "");
    }
  }
  fputc('\n', file);
}

/* Prints for each communicator in which ranks wait: the lowest collective that some rank has not started, and who. */
static void print_comm(FILE *file, const struct tu_job_look *job, const struct tu_comm_state *comm, uint32_t index) {
  uint64_t lowest = UINT64_MAX, highest = 0;
  uint32_t listed = 0;
  for (uint32_t i = 0; i < comm->ranks; i++) {
    if (comm->members[i].departed) continue;
    lowest = tu_min(lowest, comm->members[i].latest);
    highest = tu_max(highest, comm->members[i].latest);
  }
  (void)job;
  if (highest == 0 || lowest == highest) return;
  fprintf(file, "  communicator %u%s: collective %llu has been started; not yet collective %llu by rank", index,
          comm->comm_id == 1 ? " (the world)" : "", (unsigned long long)highest, (unsigned long long)lowest + 1);
  for (uint32_t i = 0; i < comm->ranks; i++)
    if (comm->members[i].latest == lowest && !comm->members[i].departed)
      fprintf(file, "%s%u", listed++ ? ", " : " ", comm->members[i].rank);
  fputc('\n', file);
}

void tu_report_name(FILE *file, const struct tu_job_look *job) {
  fprintf(file, "job %d%s%s%s", (int)tu_job_pid(job), job->elsewhere ? " on " : "", job->elsewhere ? job->host : "",
          job->launcher ? " (tutti run)" : "");
}

void tu_report_unseen(FILE *file, const struct tu_job_look *job) {
  if (job->now.here < job->now.ranks)
    fprintf(file, ", %u of them seen (tutti top --hosts HOST,... asks other hosts)", job->now.here);
}

void tu_report_print(FILE *file, const struct tu_job_look *job) {
  char reason[200], since[32], verdict[300];
  const struct tu_job_state *s = &job->now;
  tu_report_name(file, job);
  fprintf(file, ", %u rank%s", s->ranks, s->ranks == 1 ? "" : "s");
  tu_report_unseen(file, job);
  fprintf(file, ": %u wait%s\n", job->why.waiting, job->why.waiting == 1 ? "s" : "");
  for (uint32_t i = 0; i < job->why.count; i++) {
    const struct tu_why_rank *w = &job->why.ranks[i];
    print_reason(job, w, reason, sizeof reason);
    tu_print_duration(since, sizeof since, longest_ns(job, w));
    fprintf(file, "  rank %u %s; %u rank%s for it, for %s\n", w->rank, reason, w->waiters,
            w->waiters == 1 ? " waits" : "s wait", since);
  }
  tu_report_verdict(verdict, sizeof verdict, job);
  if (job->why.count == 0 && *verdict) fprintf(file, "  %s\n", verdict);
  for (uint32_t i = 0; i < s->comms; i++) {
    if (s->comm[i].verdict.code != TUTTI_OK)
      fprintf(file, "  communicator %u has failed: %s: %s\n", i, tutti_err_name(s->comm[i].verdict.code),
              s->comm[i].verdict.text);
    else print_comm(file, job, &s->comm[i], i);
  }
  for (uint32_t i = 0; i < s->here; i++) print_place(file, job, i);
}

void tu_report_own(struct tu_transport *t) {
  enum { LOOK_MS = 100 };
  const struct tu_segment segment = {.base = t->base,
                                     .bytes = t->slice_bytes * t->ranks,
                                     .slice_bytes = t->slice_bytes,
                                     .here = t->ranks,
                                     .ranks = tu_transport_job_ranks(t)};
  struct tu_job_look look;
  struct tu_error error;
  char *text = NULL;
  size_t bytes = 0;
  if (atomic_exchange(&tu_transport_head(t, 0)->reported, 1)) return;
  FILE *file = open_memstream(&text, &bytes);
  if (file && tu_job_look_at(&segment, LOOK_MS, &look, &error) == TUTTI_OK) tu_report_print(file, &look);
  if (file) tu_job_look_fini(&look), fclose(file);
  if (text) (void)!write(STDERR_FILENO, text, bytes);
  free(text);
}
