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
#include "check/check_parts.h"

#define NONE UINT32_MAX

enum wait { FOR_AFTER, FOR_OTHER_END, FOR_RING, FOR_JOIN }; /* all but the second may be for the whole of a step */

/* A node is a step, or past the steps a message of a join. This goes through what a node waits for. */
struct waits {
  const uint32_t *after, *after_end, *message, *message_end;
  uint32_t step_base; /* of the rank whose steps are in `after` */
  uint32_t next_part; /* a node, or NONE */
  bool sends;
  uint8_t edge; /* of *message: the next one */
};

struct walk {
  uint32_t node;
  struct waits waits;
};

struct node {
  uint32_t index;     /* when it was reached, from 1; 0: not yet */
  uint32_t low;       /* the earliest node that it reaches */
  uint32_t component; /* from 1; 0: not known yet */
};

struct components {
  struct tu_checking *c;
  struct node *nodes;
  bool *may_wait;  /* of each component: has it more than a send and its receive, which wait for each other? */
  uint32_t *stack; /* nodes whose component is not known yet */
  struct walk *path;
  uint32_t reached, stacked, depth, found;
};

static bool has_next_part(const struct tu_checking *c, uint32_t message) {
  return message + 1 < c->message_count && c->messages[message + 1].joined; /* the first of a ring never is */
}

static struct waits waits_of(const struct tu_checking *c, uint32_t node) {
  uint32_t steps = tu_check_steps(c), step = node < steps ? node : c->messages[node - steps].send;
  const struct tu_check_step *k = &c->steps[step];
  const uint32_t *afters = tu_check_rank_of(c, step)->afters;
  struct waits w = {.step_base = c->ranks[k->rank].step_base, .next_part = NONE, .sends = k->step->kind == TU_SEND};
  if (k->step->after_count > 0) {
    w.after = afters + k->step->after_first;
    w.after_end = w.after + k->step->after_count;
  }
  if (node >= steps) {
    if (has_next_part(c, node - steps)) w.next_part = node + 1;
  } else if (k->message_count > 0) {
    w.message = c->step_messages + k->message_first;
    w.message_end = w.message + k->message_count;
  }
  return w;
}

/* Of a step with messages: the other end of each, the message before it on its ring, and all sends of its join. */
static enum wait next_of_message(const struct tu_checking *c, struct waits *w, uint32_t *other) {
  uint32_t message = *w->message;
  const struct tu_check_message *m = &c->messages[message];
  if (w->edge == 0) {
    bool more = m->place > 0 || (!w->sends && has_next_part(c, message));
    if (more) w->edge = m->place > 0 ? 1 : 2;
    else w->message++;
    *other = w->sends ? m->recv : m->send;
    return FOR_OTHER_END;
  }
  if (w->edge == 1) {
    bool more = !w->sends && (m->joined || has_next_part(c, message));
    w->edge = more ? 2 : 0;
    w->message += !more;
    *other = w->sends ? (m - 1)->send : (m - 1)->recv;
    return FOR_RING;
  }
  w->edge = 0;
  w->message++;
  *other = tu_check_steps(c) + m->head;
  return FOR_JOIN;
}

/* The next node that is waited for; false past the last one. */
static inline bool next_wait(const struct tu_checking *c, struct waits *w, uint32_t *other, enum wait *why) {
  if (w->after != w->after_end) {
    *other = w->step_base + *w->after++;
    *why = FOR_AFTER;
    return true;
  }
  if (w->message != w->message_end) {
    *why = next_of_message(c, w, other);
    return true;
  }
  *other = w->next_part;
  *why = FOR_JOIN;
  w->next_part = NONE;
  return *other != NONE;
}

static void reach(struct components *k, uint32_t node) {
  k->nodes[node].index = k->nodes[node].low = ++k->reached;
  k->stack[k->stacked++] = node;
  k->path[k->depth++] = (struct walk){node, waits_of(k->c, node)};
}

/* Tarjan's algorithm, with a path of its own instead of the machine's stack. */
static void find_components(struct components *k, uint32_t from) {
  reach(k, from);
  while (k->depth > 0) {
    struct walk *at = &k->path[k->depth - 1];
    uint32_t other, node = at->node;
    struct node *n = &k->nodes[node];
    enum wait why;
    if (next_wait(k->c, &at->waits, &other, &why)) {
      const struct node *o = &k->nodes[other];
      if (o->index == 0) reach(k, other);
      else if (o->component == 0) n->low = (uint32_t)tu_min(n->low, o->index);
      continue;
    }
    k->depth--;
    if (k->depth > 0) {
      struct node *parent = &k->nodes[k->path[k->depth - 1].node];
      parent->low = (uint32_t)tu_min(parent->low, n->low);
    }
    if (n->low != n->index) continue;
    k->found++;
    uint32_t before = k->stacked;
    do k->nodes[k->stack[--k->stacked]].component = k->found;
    while (k->stack[k->stacked] != node);
    k->may_wait[k->found] = before - k->stacked > 2;
  }
}

/* Does a step that receives a joined message lie on a circle by way of the join? */
static bool check_join(const struct components *k, uint32_t step) {
  struct tu_checking *c = k->c;
  struct waits waits = waits_of(c, step);
  uint32_t other;
  enum wait why;
  while (next_wait(c, &waits, &other, &why))
    if (why == FOR_JOIN && k->nodes[other].component == k->nodes[step].component)
      return tu_check_refuse_step(c, step,
                                  "deadlock where joined messages cross as one: it then waits for all that the sends "
                                  "of its message are after, and some of that waits for this step in turn");
  return true;
}

static bool check_waits(const struct components *k, uint32_t step) {
  struct tu_checking *c = k->c;
  struct waits waits = waits_of(c, step);
  uint32_t other;
  enum wait why;
  while (next_wait(c, &waits, &other, &why)) {
    if (k->nodes[other].component != k->nodes[step].component || why == FOR_OTHER_END) continue;
    if (why == FOR_RING)
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
                         .nodes = tu_arena_allocate(c->arena, nodes, sizeof *k.nodes),
                         .may_wait = tu_arena_allocate(c->arena, nodes + 1, sizeof *k.may_wait),
                         .stack = tu_arena_allocate(c->arena, nodes, sizeof *k.stack),
                         .path = tu_arena_allocate(c->arena, nodes, sizeof *k.path)};
  for (uint32_t s = 0; s < steps; s++)
    if (k.nodes[s].index == 0) find_components(&k, s);
  bool good = true;
  for (uint32_t s = 0; good && c->joined_count > 0 && s < steps; s++)
    if (k.may_wait[k.nodes[s].component]) good = check_join(&k, s);
  for (uint32_t s = 0; good && s < steps; s++)
    if (k.may_wait[k.nodes[s].component]) good = check_waits(&k, s);
  tu_arena_free(c->arena, k.nodes);
  tu_arena_free(c->arena, k.may_wait);
  tu_arena_free(c->arena, k.stack);
  tu_arena_free(c->arena, k.path);
  return good;
}
