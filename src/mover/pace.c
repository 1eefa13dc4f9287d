/* pace.c: hides slices until a simulated wire of limited speed would have delivered them. */
#include "mover/pace.h"

#include <stdlib.h>
#include <string.h>

#include "mover/mover.h"

/* The simulated wire's state for one channel. */
struct reel {
  struct tu_receiver *receiver;
  struct tu_line *sent;  /* lines (slice headers) that the sender writes */
  struct tu_line *shown; /* lines (slice headers) that the receiver reads; owned */
  uint64_t *due_ns;      /* arrival time of slice n in ns, at index n % credits; owned */
  /* seen: number of slices that the sender has published; brought: number of slices delivered to the receiver;
   * receiver->received <= brought <= seen */
  uint32_t seen, brought;
};

struct tu_pace {
  double ns_per_byte;
  uint64_t free_ns; /* time in ns when the wire becomes free, that is, when the last started slice arrives */
  struct reel *reels;
  uint32_t reel_count, reel_capacity;
};

bool tu_pace_attach(struct tu_pace *w, struct tu_receiver *r) {
  struct reel *reels = tu_try_grow(w->reels, w->reel_count, &w->reel_capacity, sizeof *w->reels);
  if (!reels) return false;
  w->reels = reels;
  struct reel *reel = &w->reels[w->reel_count];
  *reel = (struct reel){.receiver = r, .sent = r->lines, .seen = r->received, .brought = r->received};
  reel->shown = aligned_alloc(TU_LINE_BYTES, r->credits * sizeof *reel->shown);
  reel->due_ns = tu_try_allocate(r->credits, sizeof *reel->due_ns);
  if (!reel->shown || !reel->due_ns) {
    free(reel->shown);
    free(reel->due_ns);
    return false;
  }
  w->reel_count++;
  memset(reel->shown, 0, r->credits * sizeof *reel->shown);
  /* Give every line a sequence number that the receiver does not wait for, so that no slice seems to have arrived. The
   * receiver waits for the number received + 1. */
  for (uint32_t i = 0; i < r->credits; i++) atomic_init(&reel->shown[i].sequence, r->received);
  r->lines = reel->shown;
  return true;
}

bool tu_pace_lay(struct tu_mover *m, double bytes_per_s) {
  tu_assert(!m->pace && bytes_per_s > 0);
  m->pace = tu_try_allocate(1, sizeof *m->pace);
  if (!m->pace) return false;
  m->pace->ns_per_byte = 1e9 / bytes_per_s;
  for (uint32_t i = 0; i < tu_mover_channels(m); i++) {
    struct tu_receiver *r = tu_mover_nth_receiver(m, i);
    if (!r || !r->lines || tu_pace_attach(m->pace, r)) continue;
    tu_pace_remove(m);
    return false;
  }
  return true;
}

void tu_pace_remove(struct tu_mover *m) {
  struct tu_pace *w = m->pace;
  if (!w) return;
  for (uint32_t i = 0; i < w->reel_count; i++) {
    w->reels[i].receiver->lines = w->reels[i].sent;
    free(w->reels[i].shown);
    free(w->reels[i].due_ns);
  }
  free(w->reels);
  free(w);
  m->pace = NULL;
}

/* Lets all slices that have been sent since the last call start on the simulated wire: computes when each of them
 * arrives. */
static void load(struct tu_pace *w, struct reel *reel, uint64_t now) {
  uint32_t mask = reel->receiver->credits - 1;
  for (;;) {
    const struct tu_line *line = &reel->sent[reel->seen & mask];
    if (atomic_load_explicit(&line->sequence, memory_order_acquire) != reel->seen + 1) return;
    w->free_ns = tu_max(w->free_ns, now) + (uint64_t)(line->bytes * w->ns_per_byte);
    reel->due_ns[reel->seen++ & mask] = w->free_ns;
  }
}

/* Delivers to the receiver the slices whose arrival time has come. */
static void bring(struct reel *reel, uint64_t now) {
  uint32_t mask = reel->receiver->credits - 1;
  while (reel->brought != reel->seen && reel->due_ns[reel->brought & mask] <= now) {
    uint32_t at = reel->brought++ & mask;
    reel->shown[at] = reel->sent[at];
  }
}

bool tu_pace_look(struct tu_pace *w) {
  uint64_t now = tu_clock_ns();
  bool on_its_way = false;
  for (uint32_t i = 0; i < w->reel_count; i++) {
    load(w, &w->reels[i], now);
    bring(&w->reels[i], now);
    on_its_way |= w->reels[i].brought != w->reels[i].seen;
  }
  return on_its_way;
}
