/* plan_interpreter.h: a simple interpreter of plans, to test the checker against. It shares no code with src/check/,
 * nor with the code of src/plan/ for memory, sizes and promises: it derives these from the table in tutti.h.
 *
 * A value is the ordered list of the inputs that went into it, and a number that stands for the order in which they were
 * combined: like the bits of a float sum it depends on the tree, but not on which operand is the left one.
 *
 * Each chunk is a few units long. Units cross rings of a
 * few slots one by one, in random order. Of joined messages, all, none or a random part cross together in one slot; the
 * others cross one by one. */
#ifndef PLAN_INTERPRETER_H
#define PLAN_INTERPRETER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

enum { VM_RANKS = 8, VM_LEAVES = 12, VM_RING = 4, VM_UNITS = 3 };

struct vm_leaf {
  uint8_t rank, scaled; /* scaled: 0: no; rank + 1: once, by that rank; 255: twice */
  uint16_t chunk;
};

struct vm_value {
  uint8_t count;
  bool divided, broken; /* broken: invalid, because never written, too long, or divided and then used */
  uint64_t bits;        /* of the sum */
  struct vm_leaf leaf[VM_LEAVES];
};

struct vm_packet {
  struct vm_value value;
  uint32_t size;
  bool last; /* this is the last unit of its message */
};

/* A message on a ring, the queue from one rank to another on a lane. */
struct vm_message {
  uint32_t sender, receiver; /* the steps that send and receive it */
  bool sender_joins, receiver_joins;
  /* index of the first message that shares a slot with this one, and their number; count 1: it shares none */
  uint32_t first, count;
  struct vm_packet *packets; /* of a message that shares a slot: its units; NULL: it is not in the slot yet */
};

struct vm_ring {
  struct vm_packet packets[VM_RING];
  uint32_t put, taken;         /* number of slots filled and emptied so far */
  struct vm_message *messages; /* messages in the order in which they cross */
  uint32_t sends, receives, capacity;
  /* index of the next message to send and to receive; if several share a slot, of the first of them */
  uint32_t sending, receiving;
  uint32_t loaded,
      unloaded; /* of the messages that share the current slot: how many are in it, and how many were read */
};

struct vm_step {
  uint32_t units, done;   /* done: number of units written to the target, or read from the source */
  uint32_t put[VM_RANKS]; /* of a send: number of units sent to each peer */
};

struct vm {
  const struct tu_plan *plan;
  uint32_t units, depth; /* units: units per chunk; depth: slots per ring */
  /* true: a send is done once its message is in a shared slot; false: once all messages of the slot are in it */
  bool done_when_loaded;
  uint32_t held; /* rank that may not start yet; VM_RANKS: none */
  struct vm_value *memory[VM_RANKS];
  struct vm_step *steps[VM_RANKS];
  struct vm_ring *rings; /* [from][to][lane] */
  const char *fault;
};

static inline uint32_t vm_blocks(const struct tu_plan *p, uint32_t rank, uint32_t buffer) {
  bool root = rank == p->root, in = buffer == TU_IN;
  switch (p->collective) {
    case TUTTI_REDUCE: return in || root;
    case TUTTI_BROADCAST: return !in || root;
    case TUTTI_GATHER: return in ? 1 : root ? p->ranks : 0;
    case TUTTI_SCATTER: return !in ? 1 : root ? p->ranks : 0;
    case TUTTI_ALLGATHER: return in ? 1 : p->ranks;
    case TUTTI_REDUCE_SCATTER: return in ? p->ranks : 1;
    case TUTTI_ALLTOALL: return p->ranks;
    case TUTTI_EXSCAN: return in || rank > 0;
    case TUTTI_SEND: return in == root;
    default: return 1;
  }
}

static inline uint32_t vm_chunks(const struct tu_plan *p, uint32_t rank, uint32_t buffer) {
  return buffer == TU_TMP ? p->rank[rank].tmp_count : p->split * vm_blocks(p, rank, buffer);
}

/* Returns the index of a chunk in a rank's memory, in chunks: IN, then OUT if it is separate, then TMP. */
static inline uint32_t vm_index(const struct tu_plan *p, uint32_t rank, uint32_t buffer, uint32_t chunk) {
  uint32_t in = vm_chunks(p, rank, TU_IN), out = vm_chunks(p, rank, TU_OUT);
  if (buffer == TU_TMP) return in + out + chunk;
  bool shared = p->in_place && in > 0 && out > 0;
  switch (shared ? p->collective : TUTTI_BARRIER) {
    case TUTTI_GATHER: return buffer == TU_IN ? chunk + p->root * p->split : chunk;
    case TUTTI_ALLGATHER: return buffer == TU_IN ? chunk + rank * p->split : chunk;
    case TUTTI_SCATTER: return buffer == TU_OUT ? chunk + p->root * p->split : chunk;
    case TUTTI_REDUCE_SCATTER: return buffer == TU_OUT ? chunk + rank * p->split : chunk;
    default: break;
  }
  return buffer == TU_IN || shared ? chunk : in + chunk;
}

/* Returns a number that stands for the size of a chunk: chunks of different sizes have different numbers. */
static inline uint32_t vm_size(const struct tu_plan *p, uint32_t rank, uint32_t buffer, uint32_t chunk) {
  if (buffer == TU_TMP) {
    struct tu_like like = p->rank[rank].tmp[chunk];
    return vm_size(p, rank, like.buffer, like.chunk);
  }
  uint32_t block = chunk / p->split, class = 0;
  bool in = buffer == TU_IN;
  switch (p->collective) {
    case TUTTI_GATHER:
    case TUTTI_ALLGATHER: class = in ? rank : block; break;
    case TUTTI_SCATTER:
    case TUTTI_REDUCE_SCATTER: class = in ? block : rank; break;
    case TUTTI_ALLTOALL: class = in ? rank * p->ranks + block : block * p->ranks + rank; break;
    default: break;
  }
  return chunk % p->split + p->split * (p->equal_blocks ? 0 : class);
}

static inline struct vm_ring *vm_ring(struct vm *m, uint32_t from, uint32_t to, uint32_t lane) {
  return &m->rings[(from * VM_RANKS + to) * TU_LANES_MAX + lane];
}

/* ---- the bits of sums ---- */

static inline uint64_t vm_leaf_bits(uint32_t rank) { return (rank + 1) * 0xd6e8feb86659fd93u; }

/* A sum that is rounded to the datatype has other bits than one that is not. */
static inline uint64_t vm_sum(uint64_t a, uint64_t b, bool rounded) {
  const uint64_t low = a < b ? a : b, high = a < b ? b : a;
  const uint64_t mixed = (low ^ low >> 31) * 0x9fb21c651e98df25u + (high ^ high >> 29) * 0xc2b2ae3d27d4eb4fu + rounded;
  return (mixed ^ mixed >> 32) * 0x9fb21c651e98df25u;
}

static inline uint64_t vm_quotient(uint64_t sum, bool at_root) { return vm_sum(sum, at_root, false) + 1; }

/* Combines numbers as the canonical order does. */
static inline uint64_t vm_tree(const uint64_t bits[], uint32_t count) {
  uint32_t half = 1;
  while (2 * half < count) half *= 2;
  return count == 1 ? bits[0] : vm_sum(vm_tree(bits, half), vm_tree(bits + half, count - half), true);
}

static inline uint64_t vm_canonical(uint32_t ranks) {
  uint64_t bits[VM_RANKS];
  for (uint32_t r = 0; r < ranks; r++) bits[r] = vm_leaf_bits(r);
  return vm_tree(bits, ranks);
}

/* The bits of the result of a reduction. */
static inline uint64_t vm_combine(const struct tu_step *s, const uint64_t bits[]) {
  if (s->tree) return vm_tree(bits, s->operand_count);
  uint64_t sum = bits[0];
  for (uint32_t i = 1; i < s->operand_count; i++) sum = vm_sum(sum, bits[i], i + 1 == s->operand_count);
  return sum;
}

static inline void vm_load(struct vm_value *v, bool first, uint32_t rank) {
  for (uint32_t i = 0; first && i < v->count; i++) v->leaf[i].scaled = v->leaf[i].scaled ? 255 : (uint8_t)(rank + 1);
}

static inline void vm_append(struct vm_value *v, const struct vm_value *right) {
  v->broken |= right->broken || v->divided || right->divided || v->count + right->count > VM_LEAVES;
  if (v->broken) return;
  memcpy(v->leaf + v->count, right->leaf, right->count * sizeof v->leaf[0]);
  v->count = (uint8_t)(v->count + right->count);
}

/* Lists the spans that a step touches, and in writes[] whether it writes them; returns their number. */
static inline uint32_t vm_spans(const struct tu_plan *p, uint32_t rank, const struct tu_step *s, struct tu_span spans[],
                                bool writes[]) {
  uint32_t count = 0;
  if (s->kind == TU_SEND || s->kind == TU_COPY) {
    writes[count] = false;
    spans[count++] = s->source;
  }
  for (uint32_t i = 0; (s->kind == TU_REDUCE || s->kind == TU_RECV_REDUCE) && i < s->operand_count; i++) {
    const struct tu_operand *o = &p->rank[rank].operands[s->operand_first + i];
    if (o->peer != TU_LOCAL) continue;
    writes[count] = false;
    spans[count++] = o->span;
  }
  if (s->kind == TU_SEND) return count;
  writes[count] = true;
  spans[count++] = s->target;
  return count;
}

/* Returns true if step b may follow step a unit by unit: wherever both touch memory and one of them writes, both touch
 * exactly one and the same range of chunks. */
static inline bool vm_same_run(const struct tu_plan *p, uint32_t rank, const struct tu_step *a,
                               const struct tu_step *b) {
  struct tu_span x[VM_LEAVES + 2], y[VM_LEAVES + 2];
  bool x_writes[VM_LEAVES + 2], y_writes[VM_LEAVES + 2], met = false;
  uint32_t xs = vm_spans(p, rank, a, x, x_writes), ys = vm_spans(p, rank, b, y, y_writes);
  for (uint32_t i = 0; i < xs; i++) {
    for (uint32_t k = 0; k < ys; k++) {
      uint32_t from = vm_index(p, rank, x[i].buffer, x[i].first), to = vm_index(p, rank, y[k].buffer, y[k].first);
      bool apart = from + x[i].count <= to || to + y[k].count <= from;
      if (apart || (!x_writes[i] && !y_writes[k])) continue;
      if (from != to || x[i].count != y[k].count) return false;
      met = true;
    }
  }
  return met;
}

/* Returns true if the steps for which step `s` waits are far enough for unit `unit` of `s` to run. */
static inline bool vm_may(struct vm *m, uint32_t rank, const struct tu_step *s, uint32_t unit) {
  const struct tu_rank_plan *r = &m->plan->rank[rank];
  for (uint32_t i = 0; i < s->after_count; i++) {
    uint32_t before = r->afters[s->after_first + i];
    const struct vm_step *b = &m->steps[rank][before];
    if (b->done == b->units) continue;
    if (b->done <= unit || !vm_same_run(m->plan, rank, &r->steps[before], s)) return false;
  }
  return true;
}

/* Returns unit `unit` of the step's source, as it is sent. */
static inline struct vm_packet vm_packet(struct vm *m, uint32_t rank, const struct tu_step *s, uint32_t unit) {
  uint32_t chunk = s->source.first + unit / m->units, index = vm_index(m->plan, rank, s->source.buffer, chunk);
  struct vm_packet packet = {.value = m->memory[rank][index * m->units + unit % m->units]};
  vm_load(&packet.value, s->first, rank);
  packet.size = vm_size(m->plan, rank, s->source.buffer, chunk);
  packet.last = unit + 1 == s->source.count * m->units;
  return packet;
}

/* Records that `units` units of the step have been sent to `peer`. */
static inline void vm_sent(struct vm *m, uint32_t rank, uint32_t step, uint32_t peer, uint32_t units) {
  const struct tu_step *s = &m->plan->rank[rank].steps[step];
  struct vm_step *state = &m->steps[rank][step];
  state->done = state->units;
  for (uint32_t i = 0; i < s->peer_count; i++) {
    if (m->plan->rank[rank].peers[s->peer_first + i] == peer) state->put[i] = units;
    if (state->put[i] < state->done) state->done = state->put[i];
  }
}

/* Returns the step's message if it is the next message on the ring (messages that share a slot are next together),
 * otherwise NULL. */
static inline struct vm_message *vm_turn(const struct vm_ring *ring, bool sends, uint32_t step) {
  uint32_t turn = sends ? ring->sending : ring->receiving;
  if (turn >= ring->sends || turn >= ring->receives) return NULL;
  for (uint32_t i = turn; i < turn + ring->messages[turn].count; i++)
    if ((sends ? ring->messages[i].sender : ring->messages[i].receiver) == step) return &ring->messages[i];
  return NULL;
}

/* Puts a whole message into the slot that it shares with other messages. The last of these messages completes the
 * slot. */
static inline bool vm_put_joined(struct vm *m, uint32_t rank, struct vm_ring *ring, struct vm_message *message,
                                 uint32_t peer) {
  uint32_t step = message->sender, units = m->steps[rank][step].units;
  const struct tu_step *s = &m->plan->rank[rank].steps[step];
  if (message->packets || !vm_may(m, rank, s, units - 1)) return false;
  message->packets = calloc(units, sizeof *message->packets);
  for (uint32_t i = 0; i < units; i++) message->packets[i] = vm_packet(m, rank, s, i);
  if (m->done_when_loaded) vm_sent(m, rank, step, peer, units);
  if (++ring->loaded < message->count) return true;
  for (uint32_t i = message->first; i < message->first + message->count; i++) {
    uint32_t other = ring->messages[i].sender;
    vm_sent(m, rank, other, peer, m->steps[rank][other].units);
  }
  ring->loaded = 0;
  ring->put++;
  ring->sending += message->count;
  return true;
}

/* Puts one unit of a step into the ring to peer number `peer`; of messages that share a slot, one whole message.
 * Returns false if that is not possible now. */
static inline bool vm_put(struct vm *m, uint32_t rank, uint32_t step, uint32_t peer) {
  const struct tu_step *s = &m->plan->rank[rank].steps[step];
  uint32_t to = m->plan->rank[rank].peers[s->peer_first + peer], unit = m->steps[rank][step].put[peer];
  struct vm_ring *ring = vm_ring(m, rank, to, s->lane);
  struct vm_message *message = vm_turn(ring, true, step);
  if (!message || unit == m->steps[rank][step].units || ring->put - ring->taken == m->depth) return false;
  if (message->count > 1) return vm_put_joined(m, rank, ring, message, to);
  if (!vm_may(m, rank, s, unit)) return false;
  struct vm_packet *packet = &ring->packets[ring->put++ % VM_RING];
  *packet = vm_packet(m, rank, s, unit);
  vm_sent(m, rank, step, to, unit + 1);
  if (packet->last) ring->sending++;
  return true;
}

/* Returns unit `unit` of the step's message from `peer`; vm_has must have returned true. */
static inline struct vm_value vm_take(struct vm *m, uint32_t rank, uint32_t peer, uint32_t step, uint32_t unit,
                                      uint32_t size) {
  struct vm_ring *ring = vm_ring(m, peer, rank, m->plan->rank[rank].steps[step].lane);
  struct vm_message *message = vm_turn(ring, false, step);
  bool last = unit + 1 == m->steps[rank][step].units, as_one = message->count > 1;
  if (as_one && unit >= m->steps[peer][message->sender].units) {
    m->fault = "a message is too short";
    return (struct vm_value){.broken = true};
  }
  struct vm_packet packet = as_one ? message->packets[unit] : ring->packets[ring->taken % VM_RING];
  if (packet.size != size || packet.last != last) m->fault = "the message has a wrong size";
  if (as_one && last) ring->unloaded++;
  if (as_one && ring->unloaded < message->count) return packet.value;
  ring->unloaded = 0;
  ring->taken++;
  if (last) ring->receiving += message->count;
  return packet.value;
}

/* Returns true if a unit for the step is on its ring from `peer`. */
static inline bool vm_has(struct vm *m, uint32_t rank, uint32_t step, uint32_t peer) {
  struct vm_ring *ring = vm_ring(m, peer, rank, m->plan->rank[rank].steps[step].lane);
  return ring->put > ring->taken && vm_turn(ring, false, step) != NULL;
}

/* Executes one unit of a step that receives, copies or reduces; returns false if it cannot run yet. */
static inline bool vm_run(struct vm *m, uint32_t rank, uint32_t step) {
  const struct tu_plan *p = m->plan;
  const struct tu_rank_plan *r = &p->rank[rank];
  const struct tu_step *s = &r->steps[step];
  struct vm_step *state = &m->steps[rank][step];
  uint32_t unit = state->done, part = unit % m->units;
  if (unit == state->units || !vm_may(m, rank, s, unit)) return false;
  bool reduces = s->kind == TU_REDUCE || s->kind == TU_RECV_REDUCE;
  if (s->kind == TU_RECV && !vm_has(m, rank, step, r->peers[s->peer_first])) return false;
  for (uint32_t i = 0; reduces && i < s->operand_count; i++) {
    uint32_t peer = r->operands[s->operand_first + i].peer;
    if (peer != TU_LOCAL && !vm_has(m, rank, step, peer)) return false;
  }
  uint32_t chunk = unit / m->units, size = vm_size(p, rank, s->target.buffer, s->target.first + chunk);
  struct vm_value value = {0};
  uint64_t bits[VM_RANKS + 1] = {0};
  for (uint32_t i = 0; i < (reduces ? s->operand_count : 1); i++) {
    struct tu_operand o = {TU_LOCAL, s->source, s->first, false};
    if (s->kind == TU_RECV) o.peer = r->peers[s->peer_first];
    if (reduces) o = r->operands[s->operand_first + i];
    struct vm_value operand;
    if (o.peer != TU_LOCAL) {
      operand = vm_take(m, rank, o.peer, step, unit, size);
    } else {
      if (vm_size(p, rank, o.span.buffer, o.span.first + chunk) != size) m->fault = "the operand has a wrong size";
      operand = m->memory[rank][vm_index(p, rank, o.span.buffer, o.span.first + chunk) * m->units + part];
      vm_load(&operand, o.first, rank);
    }
    bits[i] = operand.bits;
    if (i == 0) value = operand;
    else vm_append(&value, &operand);
  }
  if (reduces) value.bits = vm_combine(s, bits);
  if (s->final) {
    value.broken |= value.divided;
    value.divided = true;
    value.bits = vm_quotient(value.bits, reduces || p->ranks == 1);
  }
  m->memory[rank][vm_index(p, rank, s->target.buffer, s->target.first + chunk) * m->units + part] = value;
  state->done++;
  return true;
}

static inline bool vm_rank_done(const struct vm *m, uint32_t rank) {
  for (uint32_t s = 0; s < m->plan->rank[rank].step_count; s++)
    if (m->steps[rank][s].done < m->steps[rank][s].units) return false;
  return true;
}

/* Executes one unit of one random step of a random rank; returns false if none can run. */
static inline bool vm_move(struct vm *m, uint64_t *seed) {
  const struct tu_plan *p = m->plan;
  uint32_t rank = (uint32_t)(tu_random(seed) % p->ranks);
  for (uint32_t i = 0; i < p->ranks; i++, rank = (rank + 1) % p->ranks) {
    uint32_t steps = p->rank[rank].step_count;
    if (rank == m->held || steps == 0) continue;
    uint32_t step = (uint32_t)(tu_random(seed) % steps);
    for (uint32_t k = 0; k < steps; k++, step = (step + 1) % steps) {
      const struct tu_step *s = &p->rank[rank].steps[step];
      if (m->steps[rank][step].done == m->steps[rank][step].units) continue;
      if (s->kind != TU_SEND) {
        if (vm_run(m, rank, step)) return true;
        continue;
      }
      uint32_t peer = (uint32_t)(tu_random(seed) % s->peer_count);
      for (uint32_t n = 0; n < s->peer_count; n++, peer = (peer + 1) % s->peer_count)
        if (vm_put(m, rank, step, peer)) return true;
    }
  }
  return false;
}

/* Appends a message that a step sends or receives to the ring's list. */
static inline void vm_note(struct vm_ring *ring, bool sends, uint32_t step, bool joins) {
  uint32_t index = sends ? ring->sends++ : ring->receives++;
  if (index == ring->capacity) {
    ring->capacity = ring->capacity * 2 + 8;
    ring->messages = realloc(ring->messages, ring->capacity * sizeof *ring->messages);
  }
  struct vm_message *message = &ring->messages[index];
  if (index + 1 > (sends ? ring->receives : ring->sends)) *message = (struct vm_message){0};
  if (sends) message->sender = step, message->sender_joins = joins;
  else message->receiver = step, message->receiver_joins = joins;
}

enum vm_joins { VM_APART, VM_AS_ONE, VM_MIXED, VM_JOINS };

/* Decides which joined messages share a slot: none, all, or a random part. */
static inline void vm_join(struct vm *m, struct vm_ring *ring, enum vm_joins joins, uint64_t *seed) {
  for (uint32_t i = 0; i < ring->sends && i < ring->receives;) {
    if (ring->messages[i].sender_joins || ring->messages[i].receiver_joins)
      m->fault = "a joined message has no predecessor";
    uint32_t end = i + 1;
    for (; end < ring->sends && end < ring->receives; end++) {
      const struct vm_message *next = &ring->messages[end];
      if (next->sender_joins != next->receiver_joins) m->fault = "sender and receiver disagree on a join";
      if (!next->sender_joins || !next->receiver_joins) break;
    }
    bool as_one = joins == VM_AS_ONE || (joins == VM_MIXED && tu_random(seed) % 2);
    for (uint32_t k = i; k < end; k++) {
      ring->messages[k].first = as_one ? i : k;
      ring->messages[k].count = as_one ? end - i : 1;
    }
    i = end;
  }
}

static inline void vm_start(struct vm *m) {
  const struct tu_plan *p = m->plan;
  m->rings = calloc((size_t)VM_RANKS * VM_RANKS * TU_LANES_MAX, sizeof *m->rings);
  for (uint32_t r = 0; r < p->ranks; r++) {
    uint32_t chunks = 0;
    for (uint32_t b = TU_IN; b <= TU_TMP; b++) chunks += vm_chunks(p, r, b);
    m->memory[r] = calloc((size_t)chunks * m->units + 1, sizeof *m->memory[r]);
    m->steps[r] = calloc((size_t)p->rank[r].step_count + 1, sizeof *m->steps[r]);
    for (uint32_t i = 0; i < chunks * m->units; i++) m->memory[r][i].broken = true;
    for (uint32_t i = 0; i < vm_chunks(p, r, TU_IN) * m->units; i++)
      m->memory[r][vm_index(p, r, TU_IN, 0) * m->units + i] =
          (struct vm_value){.count = 1, .bits = vm_leaf_bits(r), .leaf = {{(uint8_t)r, 0, (uint16_t)(i / m->units)}}};
    for (uint32_t s = 0; s < p->rank[r].step_count; s++) {
      const struct tu_step *step = &p->rank[r].steps[s];
      bool sends = step->kind == TU_SEND;
      m->steps[r][s].units = (sends ? step->source.count : step->target.count) * m->units;
      for (uint32_t i = 0; (sends || step->kind == TU_RECV) && i < step->peer_count; i++) {
        uint32_t peer = p->rank[r].peers[step->peer_first + i];
        struct vm_ring *ring = sends ? vm_ring(m, r, peer, step->lane) : vm_ring(m, peer, r, step->lane);
        vm_note(ring, sends, s, step->joined);
      }
      for (uint32_t i = 0; step->kind == TU_RECV_REDUCE && i < step->operand_count; i++) {
        const struct tu_operand *o = &p->rank[r].operands[step->operand_first + i];
        if (o->peer != TU_LOCAL) vm_note(vm_ring(m, o->peer, r, step->lane), false, s, o->joined);
      }
    }
  }
}

static inline void vm_end(struct vm *m) {
  for (uint32_t r = 0; r < m->plan->ranks; r++) {
    free(m->memory[r]);
    free(m->steps[r]);
  }
  for (uint32_t i = 0; i < VM_RANKS * VM_RANKS * TU_LANES_MAX; i++) {
    struct vm_ring *ring = &m->rings[i];
    for (uint32_t k = 0; k < ring->sends || k < ring->receives; k++) free(ring->messages[k].packets);
    free(ring->messages);
  }
  free(m->rings);
}

/* Returns true if the value is the correct result for out[chunk] of the rank. */
static inline bool vm_right(const struct tu_plan *p, uint32_t rank, uint32_t chunk, const struct vm_value *v) {
  uint32_t low = 0, high = p->ranks, block = chunk / p->split, part = chunk % p->split, want = chunk;
  bool reduces = true, divided = false;
  switch (p->collective) {
    case TUTTI_BARRIER: return true;
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE: divided = true; break;
    case TUTTI_REDUCE_SCATTER: divided = true, want = rank * p->split + part; break;
    case TUTTI_SCAN: high = rank + 1; break;
    case TUTTI_EXSCAN: high = rank; break;
    case TUTTI_GATHER:
    case TUTTI_ALLGATHER: reduces = false, low = block, want = part; break;
    case TUTTI_SCATTER: reduces = false, low = p->root, want = rank * p->split + part; break;
    case TUTTI_ALLTOALL: reduces = false, low = block, want = rank * p->split + part; break;
    default: reduces = false, low = p->root; break;
  }
  if (!reduces) high = low + 1;
  if (v->broken || v->divided != divided || v->count != high - low) return false;
  uint32_t seen = 0;
  for (uint32_t i = 0; i < v->count; i++) {
    const struct vm_leaf *leaf = &v->leaf[i];
    if (leaf->chunk != want || leaf->rank < low || leaf->rank >= high || (seen >> leaf->rank & 1)) return false;
    if (leaf->scaled != (reduces ? leaf->rank + 1 : 0)) return false;
    if (reduces && p->rank_order && leaf->rank != low + i) return false;
    seen |= 1u << leaf->rank;
  }
  if (!reduces || p->order != TU_CANONICAL) return true;
  const uint64_t sum = vm_canonical(high);
  return v->bits == (divided ? vm_quotient(sum, true) : sum);
}

static inline const char *vm_judge(const struct vm *m) {
  const struct tu_plan *p = m->plan;
  for (uint32_t r = 0; r < p->ranks; r++) {
    uint32_t out = vm_chunks(p, r, TU_OUT), out_index = out ? vm_index(p, r, TU_OUT, 0) : 0;
    for (uint32_t i = 0; i < out * m->units; i++)
      if (!vm_right(p, r, i / m->units, &m->memory[r][out_index * m->units + i])) return "an output is wrong";
    for (uint32_t i = 0; i < vm_chunks(p, r, TU_IN) * m->units; i++) {
      uint32_t index = vm_index(p, r, TU_IN, i / m->units);
      if (index >= out_index && index < out_index + out) continue;
      const struct vm_value *v = &m->memory[r][index * m->units + i % m->units];
      if (v->count != 1 || v->leaf[0].rank != r || v->leaf[0].scaled || v->leaf[0].chunk != i / m->units)
        return "an input was overwritten";
    }
  }
  for (uint32_t i = 0; i < VM_RANKS * VM_RANKS * TU_LANES_MAX; i++)
    if (m->rings[i].put != m->rings[i].taken) return "a message was not received";
  return NULL;
}

/* Runs the plan once in random order. Returns what went wrong, or NULL. */
static inline const char *vm_play(const struct tu_plan *plan, uint32_t depth, uint64_t *seed) {
  struct vm m = {.plan = plan, .units = 1 + (uint32_t)(tu_random(seed) % VM_UNITS), .depth = depth, .held = VM_RANKS};
  vm_start(&m);
  enum vm_joins joins = (enum vm_joins)(tu_random(seed) % VM_JOINS);
  m.done_when_loaded = tu_random(seed) % 2;
  for (uint32_t i = 0; i < VM_RANKS * VM_RANKS * TU_LANES_MAX; i++) vm_join(&m, &m.rings[i], joins, seed);
  if (plan->collective == TUTTI_BARRIER) {
    m.held = (uint32_t)(tu_random(seed) % plan->ranks);
    while (!m.fault && vm_move(&m, seed)) continue;
    for (uint32_t r = 0; r < plan->ranks; r++)
      if (r != m.held && vm_rank_done(&m, r)) m.fault = "a rank left the barrier too early";
    m.held = VM_RANKS;
  }
  while (!m.fault && vm_move(&m, seed)) continue;
  for (uint32_t r = 0; r < plan->ranks; r++)
    if (!m.fault && !vm_rank_done(&m, r)) m.fault = "deadlock";
  if (!m.fault) m.fault = vm_judge(&m);
  const char *fault = m.fault;
  vm_end(&m);
  return fault;
}

#endif
