/* check_length.c: no deadlock when messages are longer than their rings, however long, and whichever joined ones cross
 * as one.
 *
 * A long message crosses slice by slice, so its send cannot end before its receive has begun: each end waits for the
 * other. Seen as a graph of steps in which an edge says "waits for": a receive and its send wait for each other; a
 * step waits for those in `after`; a message waits for the one before it on its ring. Slice i waits for slice i of a
 * step that is followed slice by slice, and for slice i - credits at the other end of a message; these waits point
 * back, so a circle of them comes to an end. But a wait for the whole of a step on such a circle never ends once there
 * are enough slices. So: the two ends of a wait for a whole step must not lie on one circle, that is, in one strongly
 * connected component. A circle of nothing but waits for the same slice is a deadlock of messages of one slice, which
 * the play has found.
 *
 * Joined messages cross as one if they fit a slot, else one after the other: of one plan some so and some so, by the
 * sizes of a call. Two plays, one with all joins as one and one with none, would miss circles that need both. What a
 * join that crosses as one waits for in addition: each of its receives needs all of its sends, that is, all that these are
 * after (room they have as soon as the first has it). These edges are in the graph, always, and are waits for a whole: so
 * a circle through one of them is refused, and any other is one that needs no join to cross as one. To have few edges,
 * the messages of a join are nodes, too: each says what its send is after, and leads to the next. */
#include <stdlib.h>

#include "check/check_parts.h"

/* A node is a step, or past the steps a message of a join. */
struct walk {
  uint32_t step;
  uint32_t edge; /* the next one to look at */
};

struct components {
  struct tu_checking *c;
  uint32_t *index;     /* of each node: when it was reached, from 1; 0: not yet */
  uint32_t *low;       /* the earliest node that it reaches */
  uint32_t *component; /* from 1; 0: not known yet */
  uint32_t *stack;     /* nodes whose component is not known yet */
  struct walk *path;
  uint32_t reached, stacked, depth, found;
};

static bool has_next_part(const struct tu_checking *c, uint32_t message) {
  return message + 1 < c->message_count && c->messages[message + 1].joined; /* the first of a ring never is */
}

/* The edge-th wait of a message of a join: for what its send is after, then for the next message's. */
static bool wait_of_part(const struct tu_checking *c, uint32_t message, uint32_t edge, uint32_t *other) {
  uint32_t send = c->messages[message].send;
  const struct tu_step *s = tu_check_step_at(c, send);
  if (edge < s->after_count) {
    const uint32_t *afters = tu_check_rank_of(c, send)->afters;
    *other = c->ranks[c->steps[send].rank].step_base + afters[s->after_first + edge];
    return true;
  }
  *other = tu_check_steps(c) + message + 1;
  return edge == s->after_count && has_next_part(c, message);
}

/* The edge-th wait of a step for the other end of a message, for the message before it on its ring, and for all sends of
 * its join. */
static bool wait_of_message(const struct tu_checking *c, uint32_t step, uint32_t edge, uint32_t *other,
                            bool *may_be_whole) {
  enum { EDGES = 3 };
  const struct tu_check_step *k = &c->steps[step];
  if (edge / EDGES >= k->message_count) return false;
  uint32_t message = c->step_messages[k->message_first + edge / EDGES];
  const struct tu_check_message *m = &c->messages[message];
  bool sends = tu_check_step_at(c, step)->kind == TU_SEND;
  *may_be_whole = true;
  if (edge % EDGES == 1 && m->place > 0) {
    *other = sends ? (m - 1)->send : (m - 1)->recv;
  } else if (edge % EDGES == 2 && !sends && (m->joined || has_next_part(c, message))) {
    *other = tu_check_steps(c) + m->head;
  } else {
    *other = sends ? m->recv : m->send;
    *may_be_whole = false;
  }
  return true;
}

/* The edge-th node that `node` waits for; *may_be_whole: perhaps for the whole of it. False past the last one. */
static bool wait_of(const struct tu_checking *c, uint32_t node, uint32_t edge, uint32_t *other, bool *may_be_whole) {
  *may_be_whole = true;
  if (node >= tu_check_steps(c)) return wait_of_part(c, node - tu_check_steps(c), edge, other);
  const struct tu_step *s = tu_check_step_at(c, node);
  if (edge >= s->after_count) return wait_of_message(c, node, edge - s->after_count, other, may_be_whole);
  *other = c->ranks[c->steps[node].rank].step_base + tu_check_rank_of(c, node)->afters[s->after_first + edge];
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

/* Does a step that receives a joined message lie on a circle by way of the join? */
static bool check_join(struct components *k, uint32_t step) {
  struct tu_checking *c = k->c;
  uint32_t other;
  bool may_be_whole;
  for (uint32_t edge = 0; wait_of(c, step, edge, &other, &may_be_whole); edge++)
    if (other >= tu_check_steps(c) && k->component[other] == k->component[step])
      return tu_check_refuse_step(c, step,
                                  "deadlock where joined messages cross as one: it then waits for all that the sends "
                                  "of its message are after, and some of that waits for this step in turn");
  return true;
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
  size_t nodes = (size_t)steps + (c->joined_count > 0 ? c->message_count : 0);
  struct components k = {.c = c,
                         .index = tu_allocate(nodes, sizeof *k.index),
                         .low = tu_allocate(nodes, sizeof *k.low),
                         .component = tu_allocate(nodes, sizeof *k.component),
                         .stack = tu_allocate(nodes, sizeof *k.stack),
                         .path = tu_allocate(nodes, sizeof *k.path)};
  for (uint32_t s = 0; s < steps; s++)
    if (k.index[s] == 0) find_components(&k, s);
  bool good = true;
  for (uint32_t s = 0; good && c->joined_count > 0 && s < steps; s++) good = check_join(&k, s);
  for (uint32_t s = 0; good && s < steps; s++) good = check_waits(&k, s);
  free(k.index);
  free(k.low);
  free(k.component);
  free(k.stack);
  free(k.path);
  return good;
}
