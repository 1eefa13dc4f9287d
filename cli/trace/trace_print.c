/* trace_print.c: prints what the traces of a job tell, as text and as data. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/json.h"
#include "cli/trace/trace.h"
#include "cli/units.h"

enum { SHOWN_MAX = 16 };

const char *const trace_deed_names[] = {
    [TU_DEED_MESSAGE] = "message", [TU_DEED_REDUCTION] = "reduction", [TU_DEED_COPY] = "copy",
    [TU_DEED_SEND] = "send",       [TU_DEED_TAKE] = "take",           [TU_DEED_ROOM] = "room",
    [TU_DEED_OUTSIDE] = "outside", [TU_DEED_PAUSE] = "pause",
};

struct trace_path_sums trace_sum_path(const struct trace_job *job) {
  struct trace_path_sums sums = {.of_rank = tu_allocate(job->trace.ranks[0].head.ranks, sizeof(double))};
  for (uint32_t i = 0; i < job->path.count; i++) {
    const struct tu_deed *part = &job->path.parts[i];
    sums.of_kind[part->kind] += part->end - part->begin;
    sums.of_rank[job->trace.ranks[part->rank].head.rank] += part->end - part->begin;
    sums.messages += part->kind == TU_DEED_MESSAGE;
  }
  return sums;
}

/* ---- text ---- */

static void print_hosts(const struct tu_trace *t) {
  for (uint32_t h = 0; h < t->host_count; h++) {
    const struct tu_traced_host *host = &t->hosts[h];
    uint32_t ranks = 0;
    for (uint32_t r = 0; r < t->rank_count; r++) ranks += t->host_of[r] == h;
    printf("  host %-20s %u rank%s", host->name, ranks, ranks == 1 ? "" : "s");
    if (h > 0)
      printf("; clock %s %s", units_seconds(fabs(host->ahead_ns) * 1e-9).chars,
             host->ahead_ns < 0 ? "behind" : "ahead");
    if (h > 0 && host->error_ns >= 0) printf(", known to %s", units_seconds(host->error_ns * 1e-9).chars);
    if (h > 0 && host->error_ns < 0) printf(" by the time of day: there are not messages both ways");
    printf("\n");
  }
}

static void print_kind(const struct trace_job *job, uint32_t k) {
  const struct tu_traced_kind *kind = &job->sums.kinds[k];
  const double predicted = job->predicted_s[k];
  const bool ended = kind->calls > kind->open;
  printf("  %7s  %10s  %10s  %10s  %s\n", units_count(kind->calls).chars,
         ended ? units_seconds(kind->median_s).chars : "-", ended ? units_seconds(kind->longest_s).chars : "-",
         isfinite(predicted) ? units_seconds(predicted).chars : "-", kind->program->head.call);
  if (kind->latest != TU_NONE && kind->calls > kind->open && kind->late_s > 0)
    printf("           began last: rank %u, in %s of them; on average %s passed from the first begin to the last\n",
           kind->latest, units_count(kind->latest_calls).chars, units_seconds(kind->late_s / kind->calls).chars);
  if (kind->awaited != TU_NONE)
    printf("           waited for longest: rank %u, %s of %s\n", kind->awaited, units_seconds(kind->awaited_s).chars,
           units_seconds(kind->waited_s).chars);
  if (kind->open > 0) printf("           not ended on all ranks: %s of them\n", units_count(kind->open).chars);
}

static void print_ranks(const struct trace_job *job) {
  const struct tu_trace *t = &job->trace;
  printf("\nrank     in calls     waited  awaited by others, of that before it came\n");
  for (uint32_t r = 0; r < t->rank_count && r < SHOWN_MAX; r++) {
    const struct tu_traced_waits *w = &job->sums.waits[t->ranks[r].head.rank];
    printf("%4u   %10s %10s  %10s  %10s\n", t->ranks[r].head.rank, units_seconds(w->in_calls_s).chars,
           units_seconds(w->waited_s).chars, units_seconds(w->awaited_s).chars, units_seconds(w->late_s).chars);
  }
  if (t->rank_count > SHOWN_MAX) printf(" ...   %u more ranks: --json has them\n", t->rank_count - SHOWN_MAX);
}

static void print_path(const struct trace_job *job) {
  static const char *const words[] = {
      [TU_DEED_MESSAGE] = "messages in flight",
      [TU_DEED_REDUCTION] = "reductions",
      [TU_DEED_COPY] = "copies",
      [TU_DEED_SEND] = "sending",
      [TU_DEED_TAKE] = "receiving",
      [TU_DEED_ROOM] = "waiting for room",
      [TU_DEED_OUTSIDE] = "outside calls",
      [TU_DEED_PAUSE] = "in a call, neither at work nor waiting",
  };
  struct trace_path_sums sums = trace_sum_path(job);
  double all = 0;
  for (int k = 0; k <= TU_DEED_PAUSE; k++) all += sums.of_kind[k];
  printf("\ncritical path: %s, %s messages\n", units_seconds(all).chars, units_count(sums.messages).chars);
  for (int k = 0; k <= TU_DEED_PAUSE; k++)
    if (sums.of_kind[k] > 0)
      printf("  %5.1f%%  %10s  %s\n", 100 * sums.of_kind[k] / all, units_seconds(sums.of_kind[k]).chars, words[k]);
  printf("  of ranks:");
  uint32_t shown = 0;
  for (double most = -1; shown < SHOWN_MAX && most != 0; shown++) { /* the ranks with the longest parts first */
    uint32_t rank = TU_NONE;
    for (uint32_t r = 0; r < job->trace.ranks[0].head.ranks; r++)
      if (sums.of_rank[r] > 0 && (rank == TU_NONE || sums.of_rank[r] > sums.of_rank[rank])) rank = r;
    if (rank == TU_NONE) break;
    printf("%s %u: %.1f%%", shown ? "," : "", rank, 100 * sums.of_rank[rank] / all);
    sums.of_rank[rank] = 0;
  }
  printf("\n");
  free(sums.of_rank);
}

void trace_print(const struct trace_job *job, const struct tu_sim_cost *cost) {
  const struct tu_trace *t = &job->trace;
  const uint32_t ranks = t->ranks[0].head.ranks;
  uint64_t steps = 0;
  for (uint32_t r = 0; r < t->rank_count; r++) steps += t->ranks[r].event_count;
  printf("job %016llx: %u ranks, %s from the first call to the end of the last; %s events\n",
         (unsigned long long)job->id, ranks, units_seconds(job->end_s - job->begin_s).chars, units_count(steps).chars);
  if (t->rank_count < ranks) printf("  the traces of %u ranks are missing\n", ranks - t->rank_count);
  if (job->lost > 0)
    printf("  %s earlier events were overwritten; TUTTI_TRACE_BYTES=SIZE keeps more\n", units_count(job->lost).chars);
  if (job->unread > 0)
    printf("  %s calls were not recorded, as there was no room for their programs; TUTTI_TRACE_BYTES=SIZE makes more\n",
           units_count(job->unread).chars);
  if (job->others > 0) printf("  %u files of other jobs were left out; --job JOB chooses one\n", job->others);
  print_hosts(t);
  printf("\n    calls      median     longest   predicted");
  if (isfinite(cost->alpha))
    printf("  at alpha %s, beta %s/B, gamma %s/B", units_seconds(cost->alpha).chars, units_seconds(cost->beta).chars,
           units_seconds(cost->gamma).chars);
  printf("\n");
  for (uint32_t k = 0; k < job->sums.kind_count && k < SHOWN_MAX; k++) print_kind(job, k);
  if (job->sums.kind_count > SHOWN_MAX)
    printf("      ...  %u more kinds of calls: --json has them\n", job->sums.kind_count - SHOWN_MAX);
  print_ranks(job);
  print_path(job);
}

/* ---- data ---- */

static void json_kinds(struct json *j, const struct trace_job *job) {
  json_open(j, "calls", JSON_LIST);
  for (uint32_t k = 0; k < job->sums.kind_count; k++) {
    const struct tu_traced_kind *kind = &job->sums.kinds[k];
    const bool ended = kind->calls > kind->open;
    char comm[20];
    snprintf(comm, sizeof comm, "%llx", (unsigned long long)kind->program->head.comm);
    json_line(j);
    json_open(j, NULL, JSON_OBJECT);
    json_text(j, "call", kind->program->head.call);
    json_text(j, "communicator", comm);
    json_text(j, "algorithm", kind->program->head.algorithm);
    json_count(j, "count", kind->calls);
    json_count(j, "open", kind->open);
    json_number(j, "median_s", ended ? kind->median_s : NAN);
    json_number(j, "longest_s", ended ? kind->longest_s : NAN);
    json_number(j, "predicted_s", job->predicted_s[k]);
    json_number(j, "late_s", kind->late_s);
    if (kind->latest != TU_NONE) json_count(j, "latest", kind->latest);
    else json_null(j, "latest");
    json_number(j, "waited_s", kind->waited_s);
    if (kind->awaited != TU_NONE) json_count(j, "awaited", kind->awaited);
    else json_null(j, "awaited");
    json_number(j, "awaited_s", kind->awaited_s);
    json_close(j, JSON_OBJECT);
  }
  json_close(j, JSON_LIST);
}

static void json_ranks(struct json *j, const struct trace_job *job, const struct trace_path_sums *sums) {
  const struct tu_trace *t = &job->trace;
  json_open(j, "rank", JSON_LIST);
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const struct tu_traced_rank *rank = &t->ranks[r];
    const struct tu_traced_waits *w = &job->sums.waits[rank->head.rank];
    json_line(j);
    json_open(j, NULL, JSON_OBJECT);
    json_count(j, "rank", rank->head.rank);
    json_count(j, "pid", rank->head.pid);
    json_text(j, "host", rank->head.host);
    json_count(j, "calls", rank->call_count);
    json_number(j, "in_calls_s", w->in_calls_s);
    json_number(j, "waited_s", w->waited_s);
    json_number(j, "awaited_s", w->awaited_s);
    json_number(j, "late_s", w->late_s);
    json_number(j, "critical_s", sums->of_rank[rank->head.rank]);
    json_close(j, JSON_OBJECT);
  }
  json_close(j, JSON_LIST);
}

void trace_print_json(const struct trace_job *job, const struct tu_sim_cost *cost) {
  const struct tu_trace *t = &job->trace;
  struct trace_path_sums sums = trace_sum_path(job);
  struct json j = {0};
  char id[20];
  snprintf(id, sizeof id, "%016llx", (unsigned long long)job->id);
  json_begin(&j, "trace");
  json_text(&j, "job", id);
  json_count(&j, "ranks", t->ranks[0].head.ranks);
  json_count(&j, "traces", t->rank_count);
  json_count(&j, "lost", job->lost);
  json_count(&j, "unread", job->unread);
  json_number(&j, "time_s", job->end_s - job->begin_s);
  json_count(&j, "messages", t->message_count);
  json_number(&j, "alpha_s", cost->alpha);
  json_number(&j, "beta_s", cost->beta);
  json_number(&j, "gamma_s", cost->gamma);
  json_open(&j, "hosts", JSON_LIST);
  for (uint32_t h = 0; h < t->host_count; h++) {
    json_open(&j, NULL, JSON_OBJECT);
    json_text(&j, "host", t->hosts[h].name);
    json_number(&j, "ahead_s", t->hosts[h].ahead_ns * 1e-9);
    json_number(&j, "error_s", t->hosts[h].error_ns >= 0 ? t->hosts[h].error_ns * 1e-9 : NAN);
    json_close(&j, JSON_OBJECT);
  }
  json_close(&j, JSON_LIST);
  json_kinds(&j, job);
  json_ranks(&j, job, &sums);
  json_open(&j, "critical", JSON_OBJECT);
  for (int k = 0; k <= TU_DEED_PAUSE; k++) json_number(&j, trace_deed_names[k], sums.of_kind[k]);
  json_close(&j, JSON_OBJECT);
  json_end(&j);
  free(sums.of_rank);
}
