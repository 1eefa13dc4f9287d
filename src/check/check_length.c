/* check_length.c: no deadlock when messages are longer than their rings, however long.
 *
 * Such a message crosses slice by slice, so its send cannot end before its receive has begun: each end waits for the
 * other. Seen as a graph of steps in which an edge says "waits for": a receive and its send wait for each other; a
 * step waits for those in `after`; a message waits for the one before it on its ring. Slice i waits for slice i of a
 * step that is followed slice by slice, and for slice i - credits at the other end of a message; these waits point
 * back, so a circle of them comes to an end. But a wait for the whole of a step on such a circle never ends once there
 * are enough slices. So: the two ends of a wait for a whole step must not lie on one circle, that is, in one strongly
 * connected component. A circle of nothing but waits for the same slice is a deadlock of messages of one slice, which
 * the play has found. */
#include <stdlib.h>

#include "check/check_parts.h"

struct walk {
  uint32_t step;
  uint32_t edge; /* the next one to look at */
};

struct components {
  struct tu_checking *c;
  uint32_t *index;     /* of each step: when it was reached, from 1; 0: not yet */
  uint32_t *low;       /* the earliest step that it reaches */
  uint32_t *component; /* from 1; 0: not known yet */
  uint32_t *stack;     /* steps whose component is not known yet */
  struct walk *path;
  uint32_t reached, stacked, depth, found;
};

/* The edge-th step that `step` waits for; *may_be_whole: perhaps for the whole of it. False past
 * the last one. */
static bool wait_of(const struct tu_checking *c, uint32_t step, uint32_t edge, uint32_t *other, bool *may_be_whole) {
  const struct tu_step *s = tu_check_step_at(c, step);
  const struct tu_check_step *k = &c->steps[step];
  *may_be_whole = true;
  if (edge < s->after_count) {
    *other = c->ranks[k->rank].step_base + tu_check_rank_of(c, step)->afters[s->after_first + edge];
    return true;
  }
  edge -= s->after_count;
  if (edge / 2 >= k->message_count) return false;
  const struct tu_check_message *m = &c->messages[c->step_messages[k->message_first + edge / 2]];
  bool sends = s->kind == TU_SEND;
  bool before = edge % 2 == 1 && m->place > 0;
  *may_be_whole = before;
  if (before) *other = sends ? (m - 1)->send : (m - 1)->recv;
  else *other = sends ? m->recv : m->send;
  return true;
}

static void reach(struct components *k, uint32_t step) {
  k->index[step] = k->low[step] = ++k->reached;
  k->stack[k->stacked++] = step;
  k->path[k->depth++] = (struct walk){step, 0};
}

/* Tarjan's algorithm, with a path of its own instead of the machine's stack. */
static void find_components(struct components *k, uint32_t from) {
  reach(k, from);
  while (k->depth > 0) {
    struct walk *at = &k->path[k->depth - 1];
    uint32_t other, step = at->step;
    bool may_be_whole;
    if (wait_of(k->c, step, at->edge, &other, &may_be_whole)) {
      at->edge++;
      if (k->index[other] == 0) reach(k, other);
      else if (k->component[other] == 0 && k->index[other] < k->low[step]) k->low[step] = k->index[other];
      continue;
    }
    k->depth--;
    if (k->depth > 0) {
      uint32_t parent = k->path[k->depth - 1].step;
      if (k->low[step] < k->low[parent]) k->low[parent] = k->low[step];
    }
    if (k->low[step] != k->index[step]) continue;
    k->found++;
    do k->component[k->stack[--k->stacked]] = k->found;
    while (k->stack[k->stacked] != step);
  }
}

static bool check_waits(struct components *k, uint32_t step) {
  struct tu_checking *c = k->c;
  uint32_t other, afters = tu_check_step_at(c, step)->after_count;
  bool may_be_whole;
  for (uint32_t edge = 0; wait_of(c, step, edge, &other, &may_be_whole); edge++) {
    if (!may_be_whole || k->component[other] != k->component[step]) continue;
    if (edge >= afters)
      return tu_check_refuse_step(c, step,
                                  "deadlock once messages are longer than their rings: its message follows that of %s, "
                                  "which waits for this step in turn",
                                  tu_check_name(c, other).chars);
    if (!tu_check_sliced(c, other, step))
      return tu_check_refuse_step(c, step,
                                  "deadlock once messages are longer than their rings: it waits for the whole of %s, "
                                  "which waits for this step in turn; only steps on one and the same span can follow "
                                  "each other slice by slice",
                                  tu_check_name(c, other).chars);
  }
  return true;
}

bool tu_check_length(struct tu_checking *c) {
  uint32_t steps = tu_check_steps(c);
  struct components k = {.c = c,
                         .index = tu_allocate(steps, sizeof *k.index),
                         .low = tu_allocate(steps, sizeof *k.low),
                         .component = tu_allocate(steps, sizeof *k.component),
                         .stack = tu_allocate(steps, sizeof *k.stack),
                         .path = tu_allocate(steps, sizeof *k.path)};
  for (uint32_t s = 0; s < steps; s++)
    if (k.index[s] == 0) find_components(&k, s);
  bool good = true;
  for (uint32_t s = 0; good && s < steps; s++) good = check_waits(&k, s);
  free(k.index);
  free(k.low);
  free(k.component);
  free(k.stack);
  free(k.path);
  return good;
}
