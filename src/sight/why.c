/* why.c: follows the published waits of a job's ranks to the ranks that make the others wait. */
#include "sight/why.h"

#include <stdlib.h>
#include <string.h>

#define SILENT_NS UINT64_C(1000000000) /* a rank that waits checks every 100 ms, or as often as its program polls */

struct walk {
  const struct tu_job_state *state;
  struct tu_why *why;
  bool *seen;       /* [ranks of the job], temporary */
  uint32_t *list;   /* [ranks of the job], temporary */
  uint32_t *judged; /* [ranks of the job]: place in why->ranks, plus 1; 0: not there */
};

/* Returns true if the rank waits in the library, and goes on as soon as the ranks go on that it waits for. */
static bool passes_on(const struct tu_job_state *state, const struct tu_rank_state *r) {
  if (!r || r->life != TU_RANK_LIVES || r->run == 'T' || r->run == 't') return false;
  bool waits = false;
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++) {
    const struct tu_waits *w = &r->waits[i];
    if (w->count == 0 || w->until) continue;
    if (state->now > w->looked && state->now - w->looked > SILENT_NS) return false;
    for (size_t k = 0; k < w->count; k++)
      if (w->entries[k].flags & (TU_WAIT_INPUT | TU_WAIT_SIGNAL | TU_WAIT_ANY)) return false;
    waits = true;
  }
  return waits;
}

/* Returns what a rank does that others wait for, in the call of `entry`, and that does not pass the wait on. */
static enum tu_why_kind judge(const struct tu_job_state *state, const struct tu_wait_entry *entry) {
  const struct tu_rank_state *r = tu_job_state_rank(state, entry->rank);
  const struct tu_comm_state *comm = tu_job_state_comm(state, entry->comm);
  const struct tu_member_state *m = comm ? tu_comm_state_member(comm, entry->rank) : NULL;
  if (r && r->life == TU_RANK_DEAD) return TU_WHY_DEAD;
  if ((r && r->life == TU_RANK_CLOSED) || (m && m->departed)) return TU_WHY_LEFT;
  if (!r) return state->here < state->ranks ? TU_WHY_ELSEWHERE : TU_WHY_ABSENT;
  if (r->run == 'T' || r->run == 't') return TU_WHY_STOPPED;
  const struct tu_waits *w = tu_rank_state_wait(r);
  for (size_t k = 0; w && k < w->count; k++) {
    if (w->entries[k].flags & TU_WAIT_INPUT) return TU_WHY_INPUT;
    if (w->entries[k].flags & (TU_WAIT_SIGNAL | TU_WAIT_ANY)) return TU_WHY_SIGNAL;
  }
  if (w) return TU_WHY_SILENT;
  if (entry->flags & TU_WAIT_CREATE) return TU_WHY_NOT_COME;
  if (entry->number == 0 || !m) return entry->flags & TU_WAIT_NOT_COME ? TU_WHY_NOT_COME : TU_WHY_OUTSIDE;
  return (uint32_t)m->latest < entry->number ? TU_WHY_NOT_COME : TU_WHY_OUTSIDE;
}

/* A rank waits for another, which does not pass the wait on. */
static void blame(struct walk *w, const struct tu_wait_entry *entry, uint64_t since) {
  struct tu_why *why = w->why;
  uint32_t *place = &w->judged[entry->rank];
  if (*place == 0) {
    why->ranks[why->count] =
        (struct tu_why_rank){.kind = judge(w->state, entry), .rank = entry->rank, .since = UINT64_MAX};
    *place = ++why->count;
  }
  struct tu_why_rank *r = &why->ranks[*place - 1];
  if (since >= r->since) return;
  r->since = since;
  r->comm_id = entry->comm;
  r->number = entry->number;
}

/* Calls `blame` for the ends of the chains of waits that begin at a rank, and counts the rank there as waiting. */
static void follow(struct walk *w, const struct tu_rank_state *first) {
  const struct tu_job_state *state = w->state;
  uint32_t seen = 0, *list = w->list;
  memset(w->seen, 0, state->ranks * sizeof *w->seen);
  w->seen[first->rank] = true;
  list[seen++] = first->rank;
  for (uint32_t i = 0; i < seen; i++) {
    const struct tu_rank_state *r = tu_job_state_rank(state, list[i]);
    if (i > 0 && !passes_on(state, r)) {
      if (w->judged[list[i]]) w->why->ranks[w->judged[list[i]] - 1].waiters++;
      continue;
    }
    for (uint32_t t = 0; t < TU_WAITS_THREADS; t++) {
      const struct tu_waits *waits = &r->waits[t];
      for (size_t k = 0; k < waits->count && waits->until == 0; k++) {
        const struct tu_wait_entry *entry = &waits->entries[k];
        if (entry->flags & (TU_WAIT_INPUT | TU_WAIT_SIGNAL | TU_WAIT_ANY)) continue;
        if (!passes_on(state, tu_job_state_rank(state, entry->rank))) blame(w, entry, waits->since);
        if (!w->seen[entry->rank]) w->seen[entry->rank] = true, list[seen++] = entry->rank;
      }
    }
  }
}

/* No rank is to blame: finds ranks that wait for each other, beginning at a rank that waits. */
static void find_circle(struct walk *w, uint32_t first) {
  uint32_t *list = w->why->circle, count = 0, at = first;
  memset(w->seen, 0, w->state->ranks * sizeof *w->seen);
  while (!w->seen[at]) {
    const struct tu_rank_state *r = tu_job_state_rank(w->state, at);
    const struct tu_waits *waits = r ? tu_rank_state_wait(r) : NULL;
    if (!waits) return;
    w->seen[at] = true;
    list[count++] = at;
    at = waits->entries[0].rank;
  }
  uint32_t begin = 0;
  while (list[begin] != at) begin++;
  memmove(list, list + begin, (count - begin) * sizeof *list);
  w->why->circle_count = count - begin;
}

static int by_certainty(const void *a, const void *b) {
  const struct tu_why_rank *one = a, *other = b;
  if (one->kind != other->kind) return one->kind < other->kind ? -1 : 1;
  return (one->rank > other->rank) - (one->rank < other->rank);
}

tutti_err tu_why_find(const struct tu_job_state *state, struct tu_why *why, struct tu_error *error) {
  *why = (struct tu_why){0};
  struct walk w = {.state = state, .why = why};
  why->ranks = tu_try_allocate(state->ranks, sizeof *why->ranks);
  why->circle = tu_try_allocate(state->ranks, sizeof *why->circle);
  w.seen = tu_try_allocate(state->ranks, sizeof *w.seen);
  w.list = tu_try_allocate(state->ranks, sizeof *w.list);
  w.judged = tu_try_allocate(state->ranks, sizeof *w.judged);
  if (why->ranks && why->circle && w.seen && w.list && w.judged) {
    const struct tu_rank_state *waiting = NULL;
    for (uint32_t i = 0; i < state->here; i++) {
      const struct tu_rank_state *r = &state->rank[i];
      if (r->life != TU_RANK_LIVES || !tu_rank_state_wait(r)) continue;
      why->waiting++;
      waiting = r;
      follow(&w, r);
    }
    qsort(why->ranks, why->count, sizeof *why->ranks, by_certainty);
    if (why->count == 0 && waiting) find_circle(&w, waiting->rank);
  } else {
    tu_fail_memory(error, state->ranks, "the search for the rank that makes others wait");
  }
  const bool good = w.judged && w.list && w.seen && why->circle && why->ranks;
  free(w.seen);
  free(w.list);
  free(w.judged);
  return good ? TUTTI_OK : error->code;
}

void tu_why_fini(struct tu_why *why) {
  free(why->ranks);
  free(why->circle);
  *why = (struct tu_why){0};
}
