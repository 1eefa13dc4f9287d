/* straight.c: a program of messages of which one slice holds each, and that nobody would lend, carried out one instruction
 * after the other. There is nothing to keep account of but which one is next: all before it are done, so whatever it comes
 * after is. That it waits for one message at a time, whichever others are there, costs no deadlock, as the
 * instructions are in the order of one builder's calls (see plan.h), but for some sends that go ahead; and when it has waited
 * for a while, it goes on as any other execution.
 *
 * While it runs nothing else of its communicator is open: it is its turn on every ring. */
#include <string.h>

#include "engine/copy.h"
#include "engine/engine.h"

bool tu_execution_goes_straight(const struct tu_execution *e, const void *in, const void *out) {
  const struct tu_transport *t = e->mover->transport;
  if (!e->program->order || (!e->arithmetic.user && e->arithmetic.op == TUTTI_PREMUL_SUM)) return false;
  return e->program->longest_bytes < e->direct_bytes || (!tu_transport_place(t, in) && !tu_transport_place(t, out));
}

void tu_execution_start_straight(struct tu_execution *e, const void *in, void *out, uint64_t tag) {
  memcpy(&e->base[TU_IN], &in, sizeof in);
  e->base[TU_OUT] = out;
  e->base[TU_TMP] = e->tmp;
  e->tag = tag;
  e->head = 0;
  e->unfinished = e->program->instruction_count;
  e->mismatch = false;
}

static inline unsigned char *at(const struct tu_execution *e, const struct tu_place *place) {
  return e->base[place->buffer] + place->offset;
}

static inline void publish(const struct tu_execution *e, struct tu_sender *s, size_t bytes) {
  tu_sender_commit(s, bytes, e->tag, bytes, false);
  s->tickets++;
  s->served++;
  tu_mover_ring(e->mover, s->world_peer);
}

/* The message lies outside of its line, once for all receivers. */
static bool send_staged(struct tu_execution *e, const struct tu_instruction *ins) {
  const struct tu_message *m = e->program->messages + ins->message_first;
  struct tu_cast *cast = ins->cast == TU_NO_CAST ? NULL : e->program->cast;
  uint64_t place = cast ? tu_cast_room(cast, ins->bytes) : tu_sender_room(m->sender, ins->bytes);
  if (!place) return false;
  void *to = m->sender->base + place;
  bool past = ins->bytes >= TU_STREAM_BYTES && tu_sender_far(m->sender);
  tu_copy_into(&to, 1, past ? TU_PAST_ALL : TU_PAST_NONE, at(e, &ins->source), ins->bytes);
  if (cast) tu_cast_fill(cast, place, ins->bytes);
  else tu_staging_fill(&m->sender->staging, place, ins->bytes);
  for (uint32_t i = 0; i < ins->message_count; i++) {
    if (cast) tu_cast_add(cast, m[i].sender);
    tu_sender_line(m[i].sender)->at.place = place;
    publish(e, m[i].sender, ins->bytes);
  }
  if (cast) cast->tickets++, cast->served++;
  return true;
}

/* Sends to all receivers, or to none. */
static inline bool send(struct tu_execution *e, const struct tu_instruction *ins) {
  const struct tu_message *m = e->program->messages + ins->message_first;
  for (uint32_t i = 0; i < ins->message_count; i++)
    if (!tu_sender_ready(m[i].sender)) return false;
  if (ins->bytes > TU_INLINE_BYTES) return send_staged(e, ins);
  const unsigned char *from = at(e, &ins->source);
  for (uint32_t i = 0; i < ins->message_count; i++) {
    tu_copy_short(tu_sender_line(m[i].sender)->at.payload, from, ins->bytes);
    publish(e, m[i].sender, ins->bytes);
  }
  return true;
}

/* Waits a while for a message; NULL: it has not come, or is not the one, or comes in several slices: a peer that does not go
 * straight may have made them from what it had by then. */
static inline const struct tu_line *await(const struct tu_execution *e, struct tu_receiver *r, size_t bytes,
                                          uint32_t *looks) {
  if (!r->lines) return NULL;
  const struct tu_line *line;
  while ((line = tu_receiver_line(r)) == NULL) {
    if (*looks == 0) return NULL;
    --*looks;
    tu_pause();
  }
  return line->tag == e->tag && line->message_bytes == bytes && line->bytes == bytes ? line : NULL;
}

static inline void used(const struct tu_execution *e, struct tu_receiver *r) {
  tu_receiver_release(r);
  r->tickets++;
  r->served++;
  tu_mover_ring(e->mover, r->world_peer);
}

static inline bool receive(struct tu_execution *e, const struct tu_instruction *ins, uint32_t *looks) {
  struct tu_receiver *r = e->program->messages[ins->message_first].receiver;
  const struct tu_line *line = await(e, r, ins->bytes, looks);
  if (!line) return false;
  tu_copy_short(at(e, &ins->target), tu_receiver_payload(r, line), ins->bytes);
  used(e, r);
  return true;
}

/* Takes the messages when all are there. */
static inline bool reduce(struct tu_execution *e, const struct tu_instruction *ins, uint32_t *looks) {
  const struct tu_program_operand *operands = e->program->operands + ins->operand_first;
  for (uint32_t i = 0; i < ins->operand_count; i++) {
    if (operands[i].message.ring == TU_NO_RING) {
      e->sources[i] = at(e, &operands[i].place);
      continue;
    }
    struct tu_receiver *r = operands[i].message.receiver;
    const struct tu_line *line = await(e, r, ins->bytes, looks);
    if (!line) return false;
    e->sources[i] = tu_receiver_payload(r, line);
  }
  size_t count = ins->bytes >> __builtin_ctz(tu_datatypes[e->arithmetic.type].bytes);
  tu_reduce(&e->arithmetic, at(e, &ins->target), e->sources, ins->operand_count, count, ins->final);
  for (uint32_t i = 0; i < ins->operand_count; i++)
    if (operands[i].message.ring != TU_NO_RING) used(e, operands[i].message.receiver);
  return true;
}

static inline void copy(struct tu_execution *e, const struct tu_instruction *ins) {
  unsigned char *to = at(e, &ins->target), *from = at(e, &ins->source);
  if (to != from) tu_copy_short(to, from, ins->bytes); /* in place only a first load would be left to do */
}

bool tu_execution_poll_straight(struct tu_execution *e, uint32_t looks) {
  const struct tu_program *p = e->program;
  for (; e->unfinished > 0; e->head++, e->unfinished--) {
    const struct tu_instruction *ins = &p->instructions[p->order[e->head]];
    bool done = true;
    switch (ins->kind) {
      case TU_SEND:
        while (!(done = send(e, ins)) && looks > 0) looks--, tu_pause();
        break;
      case TU_RECV: done = receive(e, ins, &looks); break;
      case TU_COPY: copy(e, ins); break;
      default: done = reduce(e, ins, &looks);
    }
    if (!done) return false;
  }
  return true;
}

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
