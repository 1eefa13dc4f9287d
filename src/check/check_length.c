/* check_length.c: checks that messages longer than their channels cause no deadlock. The check covers messages of any
 * length. It also covers every choice of the joined messages that cross as one.
 *
 * A long message crosses slice by slice. Its send cannot end before its receive has begun, so each of the two waits for
 * the other. In a graph of steps, let an edge mean "waits for":
 *  - a receive and its send wait for each other;
 *  - a step waits for the steps in its `after`;
 *  - a message waits for the previous message of its channel.
 *
 * Some waits are for one slice. Slice i of a step waits for slice i of a step that it follows slice by slice. Slice i
 * of a receive waits for slice i of its send. Slice i of a send waits for slice i - credits of its receive. A cycle
 * with a wait for an earlier slice comes to an end at the first slice. A cycle of waits for the same slice stops
 * messages of one slice, too, and check_play.c has found it.
 * Other waits are for a whole step. On a cycle of waits, such a wait never ends if there are enough slices. So the plan
 * is refused if both ends of a wait for a whole step lie on one cycle, that is, in one strongly connected component.
 *
 * Joined messages cross as one if they fit a slot, otherwise one after the other. In one plan, some may cross as one
 * and some not, depending on the sizes of a call. A cycle may need both cases. Therefore it is not enough to check two
 * cases, one in which all joined messages cross as one and one in which none do.
 * If joined messages cross as one, each of their receives waits for all of their sends to start, and so for all steps
 * in the `after` of these sends. (When the first send has a free slot, all of them have.) The graph always has these
 * edges, as waits for a whole step. A cycle through such an edge is refused. Every other cycle exists even if no
 * messages cross as one.
 * To keep the number of edges small, joined messages are nodes, too. The node of a message has edges to the steps in
 * the `after` of its send, and to the next message that is joined with it. */
#include "check/check_internal.h"

#define NONE UINT32_MAX

/* Kinds of waits of a step. FOR_AFTER: for a step in its `after`. FOR_OTHER_END: for the other end of a message.
 * FOR_RING: for the previous message of the channel (ring). FOR_JOIN: for all sends of joined messages. A wait
 * FOR_OTHER_END is for one slice; the other kinds may wait for a whole step. */
enum wait { FOR_AFTER, FOR_OTHER_END, FOR_RING, FOR_JOIN };

/* Iterator over the waits of a node of the graph. A node is a step, or one of several joined messages. The nodes of
 * messages are numbered after all steps. */
struct waits {
  const uint32_t *after, *after_end, *message, *message_end;
  /* number of the first step of the rank, added to the numbers in `after`, which count the steps of the rank only */
  uint32_t step_base;
  /* if the node is a joined message: node of the next message that is joined with it; NONE if there is none */
  uint32_t next_part;
  bool sends;
  /* What the message at *message waits for next. 0: its other end. 1: the previous message of its channel. 2: the sends
   * of all messages that are joined with it. */
  uint8_t edge;
};

struct walk {
  uint32_t node;
  struct waits waits;
};

struct node {
  uint32_t index; /* order in which the search reached the node, from 1; 0: not reached */
  uint32_t low;   /* smallest `index` among the nodes that the search has reached from this node (Tarjan's low link) */
  uint32_t component; /* number of the node's strongly connected component, from 1; 0: not known yet */
};

struct components {
  struct tu_checking *c;
  struct node *nodes;
  /* [component]: true if the component has more than two nodes. Two nodes are a send and its receive, which always wait
   * for each other. */
  bool *may_wait;
  uint32_t *stack; /* nodes whose strongly connected component is not known yet */
  struct walk *path;
  uint32_t reached, stacked, depth, found;
};

static bool has_next_part(const struct tu_checking *c, uint32_t message) {
  return message + 1 < c->message_count &&
         /* A joined message belongs to the same channel as the message before it, because the first message of a
          * channel is never joined. */
         c->messages[message + 1].joined;
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

/* Returns the kind of the next wait of a step that has messages, and stores in *other what the step waits for. For each
 * message, the step waits for the message's other end (send or receive) and for the previous message of its channel. If
 * the step receives the message, it also waits for the sends of all messages that are joined with it. */
static enum wait next_of_message(const struct tu_checking *c, struct waits *w, uint32_t *other) {
  uint32_t message = *w->message;
  const struct tu_check_message *m = &c->messages[message];
  if (w->edge == 0) {
    bool more = m->ordinal > 0 || (!w->sends && has_next_part(c, message));
    if (more) w->edge = m->ordinal > 0 ? 1 : 2;
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

/* Stores in *other the next node that the given node waits for. Returns false if there are no more. */
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

/* Finds strongly connected components by Tarjan's algorithm, with an explicit stack (path) instead of recursion. In the
 * graph, an edge means "waits for". */
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

/* Refuses the plan if a step receives a joined message, and is on a cycle of waits that exists only if this message
 * crosses as one with the messages that it is joined with. */
static bool check_join(const struct components *k, uint32_t step) {
  struct tu_checking *c = k->c;
  struct waits waits = waits_of(c, step);
  uint32_t other;
  enum wait why;
  while (next_wait(c, &waits, &other, &why))
    if (why == FOR_JOIN && k->nodes[other].component == k->nodes[step].component)
      return tu_check_refuse_step(
          c, step,
          "deadlock if joined messages are sent together as one message: the step receives that message, and one of "
          "its sends waits for this step");
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
                                  "deadlock if messages are longer than their channels: the step's message waits "
                                  "behind the message of %s, which waits for this step",
                                  tu_check_name(c, other).chars);
    if (!tu_check_sliced(c, other, step))
      return tu_check_refuse_step(c, step,
                                  "deadlock if messages are longer than their channels: the step waits for the end of "
                                  "%s, which waits for this step; only steps on the same chunks can overlap in time",
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
