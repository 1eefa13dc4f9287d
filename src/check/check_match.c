/* check_match.c: matches sends and receives. The k-th message sent on a channel is the k-th message received from the
 * channel. Checks that every message has both ends, and that both ends agree on the size of every chunk. */
#include "check/check_internal.h"

struct ring {
  uint64_t key;   /* sender, receiver and lane of a channel, combined in one number */
  uint32_t first; /* number of the channel's first message among the messages of all channels */
  uint32_t sends, recvs;
};

struct match {
  struct tu_checking *c;
  struct ring *rings; /* channels, in the order in which they were first found */
  uint32_t ring_count, ring_capacity;
  uint32_t *table; /* hash table: 1 plus an index in `rings` (the channels); 0: free; at most half of it is used */
  uint32_t mask;
};

static uint32_t *entry_of(const struct match *m, uint64_t key) {
  uint32_t at = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & m->mask;
  while (m->table[at] != 0 && m->rings[m->table[at] - 1].key != key) at = (at + 1) & m->mask;
  return &m->table[at];
}

static void grow_table(struct match *m) {
  tu_arena_free(m->c->arena, m->table);
  m->mask = m->mask * 2 + 1;
  m->table = tu_arena_allocate(m->c->arena, (size_t)m->mask + 1, sizeof *m->table);
  for (uint32_t i = 0; i < m->ring_count; i++) *entry_of(m, m->rings[i].key) = i + 1;
}

static struct ring *find_ring(struct match *m, uint32_t from, uint32_t to, uint8_t lane) {
  uint64_t key = (uint64_t)from << 25 | (uint64_t)to << 8 | lane;
  uint32_t *entry = entry_of(m, key);
  if (*entry == 0) {
    m->rings = tu_arena_grow(m->c->arena, m->rings, m->ring_count, &m->ring_capacity, sizeof *m->rings);
    m->rings[m->ring_count] = (struct ring){.key = key};
    *entry = ++m->ring_count;
    if (m->ring_count > m->mask / 2) grow_table(m);
    return &m->rings[m->ring_count - 1];
  }
  return &m->rings[*entry - 1];
}

/* One end (send or receive) of a message. */
struct end {
  uint32_t at; /* where the search for the next end goes on: index in the step's peers or operands; 0 at first */
  uint32_t peer;
  bool joined;
};

/* Stores the next message end (send or receive) of a step in *end. Returns false if there are no more. */
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

static void number_sends(struct match *m) {
  struct tu_checking *c = m->c;
  uint32_t steps = tu_check_steps(c), first = 0;
  for (uint32_t s = 0; s < steps; s++) {
    const struct tu_step *step = tu_check_step_at(c, s);
    uint32_t *ids = c->step_messages + c->steps[s].message_first;
    for (struct end end = {0}; step->kind == TU_SEND && next_end(c, s, &end); ids++) {
      struct ring *ring = find_ring(m, c->steps[s].rank, end.peer, step->lane);
      ring->sends++;
      /* *ids holds the index of the channel for now; the last loop of this function replaces it by the message's
       * number */
      *ids = (uint32_t)(ring - m->rings);
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
          (struct tu_check_message){.send = s, .recv = UINT32_MAX, .ordinal = ring->sends++, .joined = end.joined};
      c->messages[*ids].head = end.joined && c->messages[*ids].ordinal > 0 ? c->messages[*ids - 1].head : *ids;
      c->joined_count += end.joined;
    }
  }
}

/* Checks that the send and the receive of a message have the same number of chunks, of the same sizes. */
static bool check_sizes(struct tu_checking *c, const struct tu_check_message *m) {
  struct tu_span from = tu_check_step_at(c, m->send)->source, to = tu_check_step_at(c, m->recv)->target;
  uint32_t sender = c->steps[m->send].rank, receiver = c->steps[m->recv].rank;
  if (from.count != to.count)
    return tu_check_refuse_step(c, m->recv, "the step expects %u chunks, but rank %u sends %u in %s", to.count, sender,
                                from.count, tu_check_name(c, m->send).chars);
  for (uint32_t i = 0; i < from.count; i++) {
    uint32_t sent = tu_plan_chunk_class(c->plan, sender, (enum tu_buffer)from.buffer, from.first + i);
    uint32_t kept = tu_plan_chunk_class(c->plan, receiver, (enum tu_buffer)to.buffer, to.first + i);
    if (sent != kept)
      return tu_check_refuse_step(
          c, m->recv, "chunk %u of the step's target may differ in size from the chunk that rank %u sends in %s", i,
          sender, tu_check_name(c, m->send).chars);
  }
  return true;
}

/* Checks that sender and receiver agree whether a message continues the previous one. The first message of a channel
 * must not continue another. */
static bool check_joined(struct tu_checking *c, const struct tu_check_message *m, bool joined) {
  if (m->joined != joined)
    return tu_check_refuse_step(c, m->recv,
                                "the step's message is %s here, but %s in %s of rank %u; both ends must agree",
                                joined ? "joined" : "not joined", m->joined ? "joined" : "not joined",
                                tu_check_name(c, m->send).chars, c->steps[m->send].rank);
  if (joined && m->ordinal == 0)
    return tu_check_refuse_step(
        c, m->recv,
        "the step's message is joined to the message before it, but it is the first message from rank %u on its lane",
        c->steps[m->send].rank);
  return true;
}

static bool match_recvs(struct match *m) {
  struct tu_checking *c = m->c;
  uint32_t steps = tu_check_steps(c);
  for (uint32_t s = 0; s < steps; s++) {
    const struct tu_step *step = tu_check_step_at(c, s);
    if (step->kind == TU_SEND) continue;
    uint32_t *ids = c->step_messages + c->steps[s].message_first;
    for (struct end end = {0}; next_end(c, s, &end); ids++) {
      struct ring *ring = find_ring(m, end.peer, c->steps[s].rank, step->lane);
      if (ring->recvs == ring->sends)
        return tu_check_refuse_step(
            c, s, "the step waits for message %u from rank %u on lane %u, but that rank sends %u messages on this lane",
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
  number_sends(&m);
  bool good = match_recvs(&m);
  tu_arena_free(c->arena, m.rings);
  tu_arena_free(c->arena, m.table);
  for (uint32_t s = 0; good && s < tu_check_steps(c); s++) {
    struct end end = {0};
    if (tu_check_step_at(c, s)->kind != TU_SEND) continue;
    for (uint32_t i = c->steps[s].message_first; good && next_end(c, s, &end); i++)
      if (c->messages[c->step_messages[i]].recv == UINT32_MAX)
        good = tu_check_refuse_step(c, s, "rank %u never receives the step's message (number %u on lane %u)", end.peer,
                                    c->messages[c->step_messages[i]].ordinal + 1, tu_check_step_at(c, s)->lane);
  }
  return good;
}
