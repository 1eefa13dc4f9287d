/* straight.c: a program of messages of which one slice holds each, and that nobody would lend, carried out one instruction
 * after the other. There is nothing to keep account of but which one is next: all before it are done, so whatever it comes
 * after is. That it waits for one message at a time, whichever others are there, costs no deadlock, as the
 * instructions are in the order of one builder's calls (see plan.h), but for some sends that go ahead; and when it has waited
 * for a while, it goes on as any other execution.
 *
 * What an instruction means for the buffers in hand is worked out once: a hop. Between what a peer sent and what is sent next
 * there shall be little to do but the arithmetic.
 *
 * While it runs nothing else of its communicator is open: it is its turn on every ring. */
#include <stdlib.h>
#include <string.h>

#include "engine/copy.h"
#include "engine/engine.h"

struct hop_end {
  struct tu_sender *sender; /* one of the two */
  struct tu_receiver *receiver;
  const void **source; /* reduction: where it looks for the message's bytes */
};

/* An instruction. */
struct tu_hop {
  uint8_t kind; /* enum tu_step_kind */
  bool final;   /* reduction */
  bool cast;    /* send */
  uint32_t end_count, source_count;
  size_t bytes, items;
  unsigned char *to;
  const unsigned char *from;
  struct hop_end *ends; /* of its messages */
  const void **sources;
};

/* ---- preparing ---- */

bool tu_execution_goes_straight(const struct tu_execution *e, const void *in, const void *out) {
  struct tu_transport *t = e->mover->transport;
  if (!e->program->order || e->mover->pace || e->mover->control.remote ||
      (!e->arithmetic.user && e->arithmetic.op == TUTTI_PREMUL_SUM))
    return false;
  return e->program->longest_bytes < e->direct_bytes || (!tu_transport_place(t, in) && !tu_transport_place(t, out));
}

static unsigned char *at(const struct tu_execution *e, const struct tu_place *place) {
  return e->base[place->buffer] + place->offset;
}

static void prepare_ends(const struct tu_execution *e, const struct tu_instruction *ins, struct tu_hop *hop) {
  for (uint32_t i = 0; i < ins->message_count; i++) {
    const struct tu_message *m = &e->program->messages[ins->message_first + i];
    hop->ends[hop->end_count++] = (struct hop_end){.sender = m->sender, .receiver = m->receiver};
  }
  for (uint32_t i = 0; i < ins->operand_count; i++) {
    const struct tu_program_operand *operand = &e->program->operands[ins->operand_first + i];
    const void **source = &hop->sources[hop->source_count++];
    if (operand->message.ring == TU_NO_RING) *source = at(e, &operand->place);
    else hop->ends[hop->end_count++] = (struct hop_end){.receiver = operand->message.receiver, .source = source};
  }
}

bool tu_execution_prepare_straight(struct tu_execution *e, const void *in, void *out) {
  const struct tu_program *p = e->program;
  memcpy(&e->base[TU_IN], &in, sizeof in);
  e->base[TU_OUT] = out;
  e->base[TU_TMP] = e->tmp;
  if (e->hops && e->hops_in == in && e->hops_out == out) return true;
  e->hops_in = in;
  e->hops_out = out;
  free(e->hops);
  e->hops = NULL;
  size_t hops = (p->instruction_count + 1) * sizeof *e->hops;
  size_t ends = ((size_t)p->message_count + p->operand_count) * sizeof(struct hop_end);
  unsigned char *memory = tu_try_allocate(1, hops + ends + p->operand_count * sizeof(void *));
  if (!memory) return false;
  struct hop_end *next_end = (struct hop_end *)(void *)(memory + hops);
  const void **next_source = (const void **)(void *)(memory + hops + ends);
  e->hops = (struct tu_hop *)(void *)memory;
  for (uint32_t i = 0; i < p->instruction_count; i++) {
    const struct tu_instruction *ins = &p->instructions[p->order[i]];
    struct tu_hop *hop = &e->hops[i];
    *hop =
        (struct tu_hop){.kind = ins->kind, .final = ins->final, .cast = ins->cast != TU_NO_CAST, .bytes = ins->bytes};
    hop->ends = next_end;
    hop->sources = next_source;
    if (ins->kind == TU_SEND || ins->kind == TU_COPY) hop->from = at(e, &ins->source);
    if (ins->kind != TU_SEND) hop->to = at(e, &ins->target);
    if (ins->operand_count > 0) hop->items = ins->bytes / tu_datatypes[e->arithmetic.type].bytes;
    prepare_ends(e, ins, hop);
    next_end += hop->end_count;
    next_source += hop->source_count;
  }
  return true;
}

/* ---- going ---- */

void tu_execution_start_straight(struct tu_execution *e, uint64_t tag) {
  e->tag = tag;
  e->head = 0;
  e->mismatch = false;
}

static inline void publish(const struct tu_execution *e, struct tu_sender *s, size_t bytes) {
  tu_sender_commit(s, bytes, e->tag, bytes, false);
  s->tickets++;
  s->served++;
  tu_mover_ring(e->mover, s->bell);
}

/* The message lies outside of its line, once for all receivers. */
static bool send_staged(struct tu_execution *e, const struct tu_hop *hop) {
  struct tu_cast *cast = hop->cast ? e->program->cast : NULL;
  struct tu_sender *first = hop->ends[0].sender;
  uint64_t place = cast ? tu_cast_room(cast, hop->bytes) : tu_sender_room(first, hop->bytes);
  if (!place) return false;
  void *to = first->base + place;
  bool past = hop->bytes >= TU_STREAM_BYTES && tu_sender_far(first);
  tu_copy_into(&to, 1, past ? TU_PAST_ALL : TU_PAST_NONE, hop->from, hop->bytes);
  if (cast) tu_cast_fill(cast, place, hop->bytes);
  else tu_staging_fill(&first->staging, place, hop->bytes);
  for (uint32_t i = 0; i < hop->end_count; i++) {
    struct tu_sender *s = hop->ends[i].sender;
    if (cast) tu_cast_add(cast, s);
    tu_sender_line(s)->at.place = place;
    publish(e, s, hop->bytes);
  }
  if (cast) cast->tickets++, cast->served++;
  return true;
}

/* Sends to all receivers, or to none. */
static inline bool send(struct tu_execution *e, const struct tu_hop *hop) {
  for (uint32_t i = 0; i < hop->end_count; i++)
    if (!tu_sender_ready(hop->ends[i].sender)) return false;
  if (hop->bytes > TU_INLINE_BYTES) return send_staged(e, hop);
  for (uint32_t i = 0; i < hop->end_count; i++) {
    tu_copy_short(tu_sender_line(hop->ends[i].sender)->at.payload, hop->from, hop->bytes);
    publish(e, hop->ends[i].sender, hop->bytes);
  }
  return true;
}

/* Waits a while for a message: its bytes. NULL: it has not come, or is not the one, or comes in several slices: a peer that
 * does not go straight may have made them from what it had by then. */
static inline const void *await(const struct tu_execution *e, struct tu_receiver *r, size_t bytes, uint32_t *looks) {
  if (!r->lines) return NULL;
  const struct tu_line *line;
  while ((line = tu_receiver_line(r)) == NULL) {
    if (*looks == 0) return NULL;
    --*looks;
    tu_pause();
  }
  bool is_it = line->tag == e->tag && line->message_bytes == bytes && line->bytes == bytes;
  return is_it ? tu_receiver_payload(r, line) : NULL;
}

static inline void used(const struct tu_execution *e, struct tu_receiver *r) {
  tu_receiver_release(r);
  r->tickets++;
  r->served++;
  tu_mover_ring(e->mover, r->bell);
}

static inline bool receive(struct tu_execution *e, const struct tu_hop *hop, uint32_t *looks) {
  struct tu_receiver *r = hop->ends[0].receiver;
  const void *payload = await(e, r, hop->bytes, looks);
  if (!payload) return false;
  tu_copy_short(hop->to, payload, hop->bytes);
  used(e, r);
  return true;
}

/* Takes the messages when all are there. */
static inline bool reduce(struct tu_execution *e, const struct tu_hop *hop, uint32_t *looks) {
  for (uint32_t i = 0; i < hop->end_count; i++)
    if (!(*hop->ends[i].source = await(e, hop->ends[i].receiver, hop->bytes, looks))) return false;
  tu_reduce(&e->arithmetic, hop->to, hop->sources, hop->source_count, hop->items, hop->final);
  for (uint32_t i = 0; i < hop->end_count; i++) used(e, hop->ends[i].receiver);
  return true;
}

static inline void copy(const struct tu_hop *hop) {
  if (hop->to != hop->from)
    tu_copy_short(hop->to, hop->from, hop->bytes); /* in place only a first load would be left to do */
}

static inline bool carry_out(struct tu_execution *e, const struct tu_hop *hop, uint32_t *looks) {
  bool done;
  switch (hop->kind) {
    case TU_SEND:
      while (!(done = send(e, hop)) && *looks > 0) --*looks, tu_pause();
      return done;
    case TU_RECV: return receive(e, hop, looks);
    case TU_COPY: copy(hop); return true;
    default: return reduce(e, hop, looks);
  }
}

bool tu_execution_poll_straight(struct tu_execution *e, uint32_t looks) {
  uint32_t head = e->head, count = e->program->instruction_count;
  while (head < count && carry_out(e, &e->hops[head], &looks)) head++;
  e->head = head;
  return head == count;
}

/* ---- leaving ---- */

/* Counts back to the program's first message on each ring. */
static void return_tickets(struct tu_execution *e, const struct tu_instruction *ins) {
  const struct tu_program *p = e->program;
  for (uint32_t i = 0; i < ins->message_count; i++) e->tickets[p->messages[ins->message_first + i].ring]--;
  for (uint32_t i = 0; i < ins->operand_count; i++) {
    uint32_t ring = p->operands[ins->operand_first + i].message.ring;
    if (ring != TU_NO_RING) e->tickets[ring]--;
  }
}

void tu_execution_leave_straight(struct tu_execution *e) {
  const struct tu_program *p = e->program;
  e->unfinished = p->instruction_count - e->head;
  memset(e->progress, 0, p->instruction_count * sizeof *e->progress);
  for (uint32_t i = 0; i < e->head; i++)
    e->progress[p->order[i]] = (struct tu_progress){.done = p->instructions[p->order[i]].bytes, .finished = true};
  if (p->cast) {
    e->cast_ticket = p->cast->tickets;
    for (uint32_t i = 0; i < e->head; i++) e->cast_ticket -= p->instructions[p->order[i]].cast != TU_NO_CAST;
    p->cast->tickets = e->cast_ticket + p->cast_messages;
  }
  /* The tickets of what is done have been drawn and served; those of the rest are drawn now. */
  for (uint32_t i = 0; i < p->ring_count; i++) e->tickets[i] = *tu_program_tickets(p, i);
  for (uint32_t i = 0; i < e->head; i++) return_tickets(e, &p->instructions[p->order[i]]);
  for (uint32_t i = 0; i < p->ring_count; i++) *tu_program_tickets(p, i) = e->tickets[i] + p->rings[i].messages;
  e->head = 0; /* from here on, of the instructions as they stand */
}
