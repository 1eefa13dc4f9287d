/* pace.c: lines are held back until a wire of some pace would have brought what they tell of. */
#include "mover/pace.h"

#include <stdlib.h>
#include <string.h>

#include "mover/mover.h"

/* One channel's end of it. */
struct reel {
  struct tu_receiver *receiver;
  struct tu_line *sent;   /* by the sender */
  struct tu_line *shown;  /* to the receiver; owned */
  uint64_t *due_ns;       /* owned; of slice n, at n % credits */
  uint32_t seen, brought; /* slices; received <= brought <= seen */
};

struct tu_pace {
  double ns_per_byte;
  uint64_t free_ns; /* when the last of what has set out will be there */
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
  /* No line is the next one: that has the number received + 1. */
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

/* What has been sent since the last look sets out. */
static void load(struct tu_pace *w, struct reel *reel, uint64_t now) {
  uint32_t mask = reel->receiver->credits - 1;
  for (;;) {
    const struct tu_line *line = &reel->sent[reel->seen & mask];
    if (atomic_load_explicit(&line->sequence, memory_order_acquire) != reel->seen + 1) return;
    w->free_ns = tu_max(w->free_ns, now) + (uint64_t)(line->bytes * w->ns_per_byte);
    reel->due_ns[reel->seen++ & mask] = w->free_ns;
  }
}

/* What is due is there. */
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
