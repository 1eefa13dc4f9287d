/* top_json.c: jobs as JSON (--json). Times are in seconds, sizes in bytes. */
#include "cli/json.h"
#include "cli/top/top.h"

static const char *life_name(enum tu_rank_life life) {
  static const char *const names[] = {"not joined", "lives", "left", "dead"};
  return names[life];
}

static const char *why_name(enum tu_why_kind kind) {
  static const char *const names[] = {"dead",    "left",   "not joined", "stopped",  "not started",
                                      "outside", "silent", "input",      "any rank", "elsewhere"};
  return names[kind];
}

static double seconds_since(uint64_t since, uint64_t now) { return now > since ? (double)(now - since) * 1e-9 : 0; }

static void write_wait(struct json *j, const struct tu_job_look *job, const struct tu_rank_state *r) {
  const struct tu_waits *w = r->life == TU_RANK_LIVES ? tu_rank_state_wait(r) : NULL;
  if (!w) {
    json_null(j, "waits_s");
    json_null(j, "waits_for");
    return;
  }
  json_number(j, "waits_s", seconds_since(w->since, job->now.now));
  json_open(j, "waits_for", JSON_LIST);
  for (size_t k = 0; k < w->count; k++)
    if (!(w->entries[k].flags & (TU_WAIT_INPUT | TU_WAIT_SIGNAL | TU_WAIT_ANY)))
      json_count(j, NULL, w->entries[k].rank);
  json_close(j, JSON_LIST);
}

static void write_rate(struct json *j, const char *key, double rate) {
  if (rate < 0) json_null(j, key);
  else json_number(j, key, rate);
}

static void write_rank(struct json *j, const struct tu_job_look *job, uint32_t local) {
  const struct tu_rank_state *r = &job->now.rank[local];
  const struct tu_rank_rates rates = tu_rank_rates_of(job, local);
  const struct tu_comm_state *comm = NULL;
  const struct tu_member_state *m = r->life == TU_RANK_ABSENT ? NULL : tu_rank_last_call(job, local, &comm);
  char call[200], comm_id[24];
  json_line(j);
  json_open(j, NULL, JSON_OBJECT);
  if (r->life == TU_RANK_ABSENT) json_null(j, "rank");
  else json_count(j, "rank", r->rank);
  json_count(j, "pid", (uint64_t)r->pid);
  json_text(j, "host", r->host);
  json_text(j, "life", life_name(r->life));
  json_text(j, "state", tu_rank_doing(r));
  write_rate(j, "cpu", rates.cpu);
  write_rate(j, "calls_per_s", rates.calls_per_s);
  write_rate(j, "bytes_per_s", rates.bytes_per_s);
  json_number(j, "awaited_s", (double)tu_rank_awaited_ns(&job->now, r->rank) * 1e-9);
  json_number(j, "waited_s", (double)tu_rank_waited_ns(&job->now, r->rank) * 1e-9);
  write_wait(j, job, r);
  if (m && comm) {
    snprintf(comm_id, sizeof comm_id, "%llx", (unsigned long long)comm->comm_id);
    json_text(j, "communicator", comm_id);
    json_count(j, "collective", m->latest);
  } else {
    json_null(j, "communicator");
    json_null(j, "collective");
  }
  if (m && m->known) tu_facts_print(NULL, &m->facts, call, sizeof call);
  json_text(j, "call", m && m->known ? call : NULL);
  json_close(j, JSON_OBJECT);
}

static void write_why(struct json *j, const struct tu_job_look *job) {
  json_open(j, "why", JSON_LIST);
  for (uint32_t i = 0; i < job->why.count; i++) {
    const struct tu_why_rank *w = &job->why.ranks[i];
    json_line(j);
    json_open(j, NULL, JSON_OBJECT);
    json_count(j, "rank", w->rank);
    json_text(j, "reason", why_name(w->kind));
    json_count(j, "waiters", w->waiters);
    json_number(j, "since_s", seconds_since(w->since, job->now.now));
    json_close(j, JSON_OBJECT);
  }
  json_close(j, JSON_LIST);
  json_open(j, "circle", JSON_LIST);
  for (uint32_t i = 0; i < job->why.circle_count; i++) json_count(j, NULL, job->why.circle[i]);
  json_close(j, JSON_LIST);
}

static void write_failures(struct json *j, const struct tu_job_state *s) {
  char comm_id[24];
  json_open(j, "failures", JSON_LIST);
  for (uint32_t i = 0; i < s->comms; i++) {
    if (s->comm[i].verdict.code == TUTTI_OK) continue;
    snprintf(comm_id, sizeof comm_id, "%llx", (unsigned long long)s->comm[i].comm_id);
    json_open(j, NULL, JSON_OBJECT);
    json_text(j, "communicator", comm_id);
    json_text(j, "error", tutti_err_name(s->comm[i].verdict.code));
    json_text(j, "message", s->comm[i].verdict.text);
    json_close(j, JSON_OBJECT);
  }
  json_close(j, JSON_LIST);
}

static void write_hosts(struct json *j, const struct top_hosts *hosts) {
  json_open(j, "hosts", JSON_LIST);
  for (uint32_t i = 0; hosts && i < hosts->names.count; i++) {
    const struct run_host *host = &hosts->list[i].host;
    json_open(j, NULL, JSON_OBJECT);
    json_text(j, "host", host->name);
    json_text(j, "problem", host->reason[0] ? host->reason : NULL);
    json_close(j, JSON_OBJECT);
  }
  json_close(j, JSON_LIST);
}

void top_print_json(const struct top_jobs *jobs, const struct top_hosts *hosts) {
  struct json j = {0};
  json_begin(&j, "top");
  write_hosts(&j, hosts);
  json_open(&j, "jobs", JSON_LIST);
  for (uint32_t i = 0; i < jobs->count; i++) {
    const struct tu_job_look *job = &jobs->list[i];
    json_line(&j);
    json_open(&j, NULL, JSON_OBJECT);
    json_count(&j, "pid", (uint64_t)tu_job_pid(job));
    json_text(&j, "host", job->host);
    json_text(&j, "launcher", job->launcher ? "tutti run" : NULL);
    json_count(&j, "size", job->now.ranks);
    json_count(&j, "seen", job->now.here);
    json_number(&j, "runs_s", seconds_since(job->now.began_ns, job->now.now));
    json_count(&j, "waiting", job->why.waiting);
    json_open(&j, "ranks", JSON_LIST);
    for (uint32_t r = 0; r < job->now.here; r++) write_rank(&j, job, r);
    json_close(&j, JSON_LIST);
    write_why(&j, job);
    write_failures(&j, &job->now);
    json_close(&j, JSON_OBJECT);
  }
  json_close(&j, JSON_LIST);
  json_end(&j);
}
