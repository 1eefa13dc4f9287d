/* check_match.c: the k-th message that is sent on a ring is the k-th that is received from it. Every message has both
 * ends, and both agree on the size of every chunk. */
#include "check/check_parts.h"

struct ring {
  uint64_t key;   /* from, to and lane */
  uint32_t first; /* in messages */
  uint32_t sends, recvs;
};

struct match {
  struct tu_checking *c;
  struct ring *rings; /* in the order in which they were met */
  uint32_t ring_count, ring_capacity;
  uint32_t *table; /* of rings + 1, by hash, half empty at least; 0: free */
  uint32_t mask;
};

static uint32_t *place_of(const struct match *m, uint64_t key) {
  uint32_t at = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & m->mask;
  while (m->table[at] != 0 && m->rings[m->table[at] - 1].key != key) at = (at + 1) & m->mask;
  return &m->table[at];
}

static void grow_table(struct match *m) {
  tu_arena_free(m->c->arena, m->table);
  m->mask = m->mask * 2 + 1;
  m->table = tu_arena_allocate(m->c->arena, (size_t)m->mask + 1, sizeof *m->table);
  for (uint32_t i = 0; i < m->ring_count; i++) *place_of(m, m->rings[i].key) = i + 1;
}

static struct ring *find_ring(struct match *m, uint32_t from, uint32_t to, uint8_t lane) {
  uint64_t key = (uint64_t)from << 25 | (uint64_t)to << 8 | lane;
  uint32_t *place = place_of(m, key);
  if (*place == 0) {
    m->rings = tu_arena_grow(m->c->arena, m->rings, m->ring_count, &m->ring_capacity, sizeof *m->rings);
    m->rings[m->ring_count] = (struct ring){.key = key};
    *place = ++m->ring_count;
    if (m->ring_count > m->mask / 2) grow_table(m);
    return &m->rings[m->ring_count - 1];
  }
  return &m->rings[*place - 1];
}

/* An end of a message. */
struct end {
  uint32_t at; /* where to look for the next one; starts at 0 */
  uint32_t peer;
  bool joined;
};

/* Ends of the messages of a step, one after the other; false past the last one. */
static bool next_end(const struct tu_checking *c, uint32_t step, struct end *end) {
  const struct tu_step *s = tu_check_step_at(c, step);
  const struct tu_rank_plan *r = tu_check_rank_of(c, step);
  if (s->kind == TU_SEND || s->kind == TU_RECV) {
    if (end->at >= s->peer_count) return false;
    end->peer = r->peers[s->peer_first + end->at++];
    end->joined = s->joined;
    return true;
  }
  while (s->kind == TU_RECV_REDUCE && end->at < s->operand_count) {
    const struct tu_operand *o = &r->operands[s->operand_first + end->at++];
    if (o->peer == TU_LOCAL) continue;
    end->peer = o->peer;
    end->joined = o->joined;
    return true;
  }
  return false;
}

static void count_messages(struct match *m) {
  struct tu_checking *c = m->c;
  uint64_t ends = 0;
  uint32_t steps = tu_check_steps(c);
  for (uint32_t s = 0; s < steps; s++) {
    struct end end = {0};
    c->steps[s].message_first = (uint32_t)ends;
    while (next_end(c, s, &end)) c->steps[s].message_count++;
    ends += c->steps[s].message_count;
    if (tu_check_step_at(c, s)->kind == TU_SEND) c->message_count += c->steps[s].message_count;
  }
  tu_assert(ends < 1u << 30);
  c->step_messages = tu_arena_allocate(c->arena, ends, sizeof *c->step_messages);
  c->messages = tu_arena_allocate(c->arena, c->message_count, sizeof *c->messages);
  m->mask = 31;
  grow_table(m);
}

static void place_sends(struct match *m) {
  struct tu_checking *c = m->c;
  uint32_t steps = tu_check_steps(c), first = 0;
  for (uint32_t s = 0; s < steps; s++) {
    const struct tu_step *step = tu_check_step_at(c, s);
    uint32_t *ids = c->step_messages + c->steps[s].message_first;
    for (struct end end = {0}; step->kind == TU_SEND && next_end(c, s, &end); ids++) {
      struct ring *ring = find_ring(m, c->steps[s].rank, end.peer, step->lane);
      ring->sends++;
      *ids = (uint32_t)(ring - m->rings); /* until the message has a number */
    }
  }
  for (uint32_t i = 0; i < m->ring_count; i++) {
    m->rings[i].first = first;
    first += m->rings[i].sends;
    m->rings[i].sends = 0;
  }
  for (uint32_t s = 0; s < steps; s++) {
    const struct tu_step *step = tu_check_step_at(c, s);
    uint32_t *ids = c->step_messages + c->steps[s].message_first;
    for (struct end end = {0}; step->kind == TU_SEND && next_end(c, s, &end); ids++) {
      struct ring *ring = &m->rings[*ids];
      *ids = ring->first + ring->sends;
      c->messages[*ids] =
          (struct tu_check_message){.send = s, .recv = UINT32_MAX, .place = ring->sends++, .joined = end.joined};
      c->messages[*ids].head = end.joined && c->messages[*ids].place > 0 ? c->messages[*ids - 1].head : *ids;
      c->joined_count += end.joined;
    }
  }
}

/* The two ends of a message have as many chunks, and of the same sizes. */
static bool check_sizes(struct tu_checking *c, const struct tu_check_message *m) {
  struct tu_span from = tu_check_step_at(c, m->send)->source, to = tu_check_step_at(c, m->recv)->target;
  uint32_t sender = c->steps[m->send].rank, receiver = c->steps[m->recv].rank;
  if (from.count != to.count)
    return tu_check_refuse_step(c, m->recv, "it expects %u chunks; rank %u sends %u in %s", to.count, sender,
                                from.count, tu_check_name(c, m->send).chars);
  for (uint32_t i = 0; i < from.count; i++) {
    uint32_t sent = tu_plan_chunk_class(c->plan, sender, (enum tu_buffer)from.buffer, from.first + i);
    uint32_t kept = tu_plan_chunk_class(c->plan, receiver, (enum tu_buffer)to.buffer, to.first + i);
    if (sent != kept)
      return tu_check_refuse_step(c, m->recv, "chunk %u of its target may differ in size from what rank %u sends in %s",
                                  i, sender, tu_check_name(c, m->send).chars);
  }
  return true;
}

/* Both ends say whether a message goes on with the one before it; the first on a ring has none before it. */
static bool check_joined(struct tu_checking *c, const struct tu_check_message *m, bool joined) {
  if (m->joined != joined)
    return tu_check_refuse_step(c, m->recv, "its message is %s here and %s in %s of rank %u: both ends must say it",
                                joined ? "joined" : "not joined", m->joined ? "joined" : "not joined",
                                tu_check_name(c, m->send).chars, c->steps[m->send].rank);
  if (joined && m->place == 0)
    return tu_check_refuse_step(c, m->recv, "its message is joined, but is the first from rank %u on its lane",
                                c->steps[m->send].rank);
  return true;
}

static bool place_recvs(struct match *m) {
  struct tu_checking *c = m->c;
  uint32_t steps = tu_check_steps(c);
  for (uint32_t s = 0; s < steps; s++) {
    const struct tu_step *step = tu_check_step_at(c, s);
    if (step->kind == TU_SEND) continue;
    uint32_t *ids = c->step_messages + c->steps[s].message_first;
    for (struct end end = {0}; next_end(c, s, &end); ids++) {
      struct ring *ring = find_ring(m, end.peer, c->steps[s].rank, step->lane);
      if (ring->recvs == ring->sends)
        return tu_check_refuse_step(c, s, "it waits for message %u from rank %u on lane %u, which sends it %u",
                                    ring->recvs + 1, end.peer, step->lane, ring->sends);
      *ids = ring->first + ring->recvs++;
      c->messages[*ids].recv = s;
      if (!check_sizes(c, &c->messages[*ids]) || !check_joined(c, &c->messages[*ids], end.joined)) return false;
    }
  }
  return true;
}

bool tu_check_match(struct tu_checking *c) {
  struct match m = {.c = c};
  count_messages(&m);
  place_sends(&m);
  bool good = place_recvs(&m);
  tu_arena_free(c->arena, m.rings);
  tu_arena_free(c->arena, m.table);
  for (uint32_t s = 0; good && s < tu_check_steps(c); s++) {
    struct end end = {0};
    if (tu_check_step_at(c, s)->kind != TU_SEND) continue;
    for (uint32_t i = c->steps[s].message_first; good && next_end(c, s, &end); i++)
      if (c->messages[c->step_messages[i]].recv == UINT32_MAX)
        good = tu_check_refuse_step(c, s, "rank %u never receives its message, number %u on their lane %u", end.peer,
                                    c->messages[c->step_messages[i]].place + 1, tu_check_step_at(c, s)->lane);
  }
  return good;
}
