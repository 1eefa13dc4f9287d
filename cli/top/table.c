/* table.c: jobs and ranks as tables. */
#include <string.h>

#include "cli/top/top.h"

enum { CALL_CHARS = 60 };

static void print_rate(char *text, size_t bytes, double rate, const char *unit) {
  static const char *const prefixes[] = {"", "K", "M", "G", "T"};
  const double step = *unit ? 1024 : 1000;
  size_t i = 0;
  while (rate >= step && i + 1 < sizeof prefixes / sizeof prefixes[0]) rate /= step, i++;
  if (rate < 0) snprintf(text, bytes, "-");
  else if (i == 0) snprintf(text, bytes, "%.0f%s%s", rate, *unit ? " " : "", unit);
  else snprintf(text, bytes, "%.*f %s%s%s", rate < 10 ? 1 : 0, rate, prefixes[i], *unit ? "i" : "", unit);
}

/* Prints for which ranks a rank waits, such as "2, 5", and since when. */
static void print_wait(const struct tu_job_look *job, const struct tu_rank_state *r, char *since, char *whom,
                       size_t bytes) {
  const struct tu_waits *w = r->life == TU_RANK_LIVES ? tu_rank_state_wait(r) : NULL;
  size_t at = 0;
  snprintf(since, bytes, "-");
  snprintf(whom, bytes, "-");
  if (!w) return;
  tu_print_duration(since, bytes, job->now.now > w->since ? job->now.now - w->since : 0);
  for (size_t k = 0; k < w->count && at < bytes; k++) {
    const struct tu_wait_entry *e = &w->entries[k];
    const char *comma = at ? "," : "";
    if (e->flags & TU_WAIT_INPUT) at += (size_t)snprintf(whom + at, bytes - at, "%sits input", comma);
    else if (e->flags & TU_WAIT_SIGNAL) at += (size_t)snprintf(whom + at, bytes - at, "%sa signal", comma);
    else if (e->flags & TU_WAIT_ANY) at += (size_t)snprintf(whom + at, bytes - at, "%sany", comma);
    else at += (size_t)snprintf(whom + at, bytes - at, "%s%u", comma, e->rank);
  }
}

static void print_rank(FILE *file, const struct tu_job_look *job, uint32_t local) {
  const struct tu_rank_state *r = &job->now.rank[local];
  const struct tu_rank_rates rates = tu_rank_rates_of(job, local);
  const struct tu_comm_state *comm;
  const struct tu_member_state *m = r->life == TU_RANK_ABSENT ? NULL : tu_rank_last_call(job, local, &comm);
  char call[200] = "-", since[32], whom[32], cpu[16] = "-", calls[24], bytes[24], awaited[32];
  const bool several = tu_has_several_hosts(&job->now);
  if (several) fprintf(file, "%-12.12s ", r->host);
  if (r->life == TU_RANK_ABSENT) {
    fprintf(file, "%6s %8s %-10s\n", "?", "-", tu_rank_doing(r));
    return;
  }
  if (m && m->known) {
    char facts[170];
    tu_facts_print(NULL, &m->facts, facts, sizeof facts);
    snprintf(call, sizeof call, "%llu: %s", (unsigned long long)m->latest, facts);
  }
  print_wait(job, r, since, whom, sizeof since);
  if (rates.cpu >= 0) snprintf(cpu, sizeof cpu, "%.0f%%", 100 * rates.cpu);
  print_rate(calls, sizeof calls, rates.calls_per_s, "");
  print_rate(bytes, sizeof bytes, rates.bytes_per_s, "B");
  tu_print_duration(awaited, sizeof awaited, tu_rank_awaited_ns(&job->now, r->rank));
  if (strlen(call) > CALL_CHARS) snprintf(call + CALL_CHARS - 3, 4, "...");
  fprintf(file, "%6u %8d %-10s %5s %10s %10s %10s %12s %-10s %s\n", r->rank, (int)r->pid, tu_rank_doing(r), cpu, calls,
          bytes, awaited, since, whom, call);
}

static void print_head(FILE *file, const struct tu_job_look *job) {
  char since[32];
  const struct tu_job_state *s = &job->now;
  tu_print_duration(since, sizeof since, s->now > s->began_ns ? s->now - s->began_ns : 0);
  tu_report_name(file, job);
  fprintf(file, ": %u rank%s", s->ranks, s->ranks == 1 ? "" : "s");
  tu_report_unseen(file, job);
  fprintf(file, ", for %s\n", since);
}

static void print_failures(FILE *file, const struct tu_job_state *s) {
  for (uint32_t i = 0; i < s->comms; i++)
    if (s->comm[i].verdict.code != TUTTI_OK)
      fprintf(file, "communicator %u has failed: %s: %s\n", i, tutti_err_name(s->comm[i].verdict.code),
              s->comm[i].verdict.text);
}

void top_print_ranks(FILE *file, const struct tu_job_look *job) {
  char verdict[300];
  print_head(file, job);
  if (tu_has_several_hosts(&job->now)) fprintf(file, "%-12s ", "host");
  fprintf(file, "%6s %8s %-10s %5s %10s %10s %10s %12s %-10s %s\n", "rank", "pid", "state", "cpu", "calls/s", "bytes/s",
          "awaited", "waits since", "for", "last collective");
  for (uint32_t i = 0; i < job->now.here; i++) print_rank(file, job, i);
  tu_report_verdict(verdict, sizeof verdict, job);
  if (*verdict) fprintf(file, "%s\n", verdict);
  print_failures(file, &job->now);
}

void top_print_jobs(FILE *file, const struct top_jobs *jobs) {
  char since[32], verdict[300], ranks[32];
  bool elsewhere = false;
  for (uint32_t i = 0; i < jobs->count; i++) elsewhere |= jobs->list[i].elsewhere;
  if (elsewhere) fprintf(file, "%-12s ", "host");
  fprintf(file, "%8s %-10s %10s %12s  %s\n", "pid", "launcher", "ranks", "for", "");
  for (uint32_t i = 0; i < jobs->count; i++) {
    const struct tu_job_state *s = &jobs->list[i].now;
    tu_print_duration(since, sizeof since, s->now > s->began_ns ? s->now - s->began_ns : 0);
    if (s->here < s->ranks) snprintf(ranks, sizeof ranks, "%u of %u", s->here, s->ranks);
    else snprintf(ranks, sizeof ranks, "%u", s->ranks);
    tu_report_verdict(verdict, sizeof verdict, &jobs->list[i]);
    if (elsewhere) fprintf(file, "%-12.12s ", jobs->list[i].host);
    fprintf(file, "%8d %-10s %10s %12s  %s\n", (int)tu_job_pid(&jobs->list[i]),
            jobs->list[i].launcher ? "tutti run" : "-", ranks, since, *verdict ? verdict : "runs");
  }
}
