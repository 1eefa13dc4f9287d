/* remote_waits.c: tells ranks of other hosts for which ranks this rank waits, if they ask. */
#include <stdlib.h>
#include <string.h>

#include "mover/remote_internal.h"

/* Clocks of two hosts differ, so a message contains ages instead of times; 0 stays 0. */
static void swap_age(uint64_t *time, uint64_t now) { *time = *time ? now - tu_min(*time, now) + 1 : 0; }

static void swap_ages(struct tu_waits *waits, uint64_t now) {
  swap_age(&waits->since, now);
  swap_age(&waits->looked, now);
  swap_age(&waits->until, now);
}

static void answer(struct tu_remote *r, uint32_t to) {
  struct tu_waits notes[TU_WAITS_THREADS];
  const struct tu_frame f = {.kind = TU_FRAME_WAITS};
  const uint64_t now = tu_clock_ns();
  memset(notes, 0, sizeof notes);
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++)
    if (tu_waits_read(r->transport, r->transport->rank, i, &notes[i])) swap_ages(&notes[i], now);
    else notes[i].count = 0;
  (void)r->wire->ops->post(r->wire, to, TU_URGENT, &f, notes, sizeof notes);
}

static struct tu_remote_waits *find(struct tu_remote *r, uint32_t rank) {
  struct tu_remote_waits *w = r->waits;
  while (w && w->rank != rank) w = w->next;
  return w;
}

/* Returns true if the waits name only ranks that exist. */
static bool is_valid(const struct tu_remote *r, const struct tu_waits *waits) {
  bool valid = waits->count <= TU_WAITS_ENTRIES;
  for (size_t i = 0; valid && i < waits->count; i++) valid = waits->entries[i].rank < r->hosts.ranks;
  return valid;
}

void tu_remote_hear_waits(struct tu_remote *r, uint32_t from, const struct tu_frame *f, const void *body,
                          size_t bytes) {
  struct tu_remote_waits *w = find(r, from);
  if (f->code == 1) answer(r, from);
  if (f->code == 1 || bytes != sizeof w->notes || !body) return;
  if (!w && (w = tu_try_allocate(1, sizeof *w))) {
    w->rank = from;
    w->next = r->waits;
    r->waits = w;
  }
  if (!w) return;
  w->at = tu_clock_ns();
  memcpy(w->notes, body, sizeof w->notes);
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++) {
    swap_ages(&w->notes[i], w->at);
    if (!is_valid(r, &w->notes[i])) w->notes[i].count = 0;
  }
}

void tu_remote_ask_waits(struct tu_transport *t, uint32_t job_rank) {
  struct tu_remote *r = tu_remote_of(t);
  const struct tu_frame f = {.kind = TU_FRAME_WAITS, .code = 1};
  pthread_mutex_lock(&r->lock);
  (void)r->wire->ops->post(r->wire, job_rank, TU_URGENT, &f, NULL, 0);
  pthread_mutex_unlock(&r->lock);
}

bool tu_remote_read_waits(struct tu_transport *t, uint32_t job_rank, uint64_t since,
                          struct tu_waits notes[TU_WAITS_THREADS]) {
  struct tu_remote *r = tu_remote_of(t);
  pthread_mutex_lock(&r->lock);
  const struct tu_remote_waits *w = find(r, job_rank);
  const bool told = w && w->at >= since;
  if (told) memcpy(notes, w->notes, sizeof w->notes);
  /* The answer may be older than now, because this rank has waited for others' answers. The rank goes on checking. */
  for (uint32_t i = 0; told && i < TU_WAITS_THREADS; i++) notes[i].looked += tu_clock_ns() - w->at;
  pthread_mutex_unlock(&r->lock);
  return told;
}

void tu_remote_free_waits(struct tu_remote *r) {
  for (struct tu_remote_waits *next; r->waits; r->waits = next) {
    next = r->waits->next;
    free(r->waits);
  }
}
