/* straight.c: the fast path for programs of short messages: each message fits one slice, and none would be lent. It
 * runs one instruction after the other. So all earlier instructions are finished, all dependencies are met, and the
 * index of the next instruction is the only state, with the number of its bytes that were sent or received: a rank that only
 * sends cuts longer messages, so that they are read while it writes. The fast path waits for one message at a time, even if
 * others have arrived. After a longer wait the execution leaves the fast path, and tu_execution_poll continues it.
 *
 * Waiting for one message at a time causes no deadlock, because the instructions have the order in which one algorithm
 * called the builder (see plan.h). Only some sends run earlier than in that order.
 *
 * A hop is an instruction that is prepared once for the current buffers. So there is little work between a received
 * message and the next send, except the arithmetic.
 *
 * While an execution is on the fast path, no other execution of the communicator is open. So the next message on every
 * channel is always one of this execution. */
#include <stdlib.h>
#include <string.h>

#include "engine/copy.h"
#include "engine/engine.h"

struct hop_end {
  struct tu_sender *sender; /* exactly one of sender and receiver is set */
  struct tu_receiver *receiver;
  const void **source; /* reduction: the entry of `sources` that gets the address of the message's bytes */
};

/* Staged messages of up to this many bytes are pushed out of this core's cache, if the receiver waits for them. An exchange of
 * 256 B on an Intel mesh takes 180 ns instead of 235. For longer ones, the receiver fetches many lines at once anyway. Not done
 * for several receivers: one of them may run on this core. */
#define PUSHED_BYTES 512u

/* While a rank polls for a staged message of up to this many bytes, it also fetches the lines where the message will probably be,
 * so that they do not come one after the other with the slice's line. Longer ones gain nothing where the ranks share a cache. */
#define FETCHED_BYTES 512u

/* Kind of a hop of which e->teller is told. So a run of which none is told takes no step more. */
#define TOLD UINT8_MAX

/* An instruction, prepared for the current addresses of the buffers. */
struct tu_hop {
  uint8_t kind; /* kind of the instruction (enum tu_step_kind), or TOLD */
  uint8_t how;  /* reduction: values of enum tu_how */
  bool cast;    /* send: the message goes through the ring of bytes for several readers (mover/cast.h) */
  uint32_t end_count, source_count;
  size_t bytes;
  union {
    size_t items;       /* reduction */
    size_t slice_bytes; /* send: maximum bytes of a slice */
  };
  unsigned char *to;
  const unsigned char *from;
  struct hop_end *ends; /* channels of the instruction's messages */
  const void **sources;
};

/* ---- preparation ---- */

bool tu_execution_goes_straight(const struct tu_execution *e, const void *in, const void *out) {
  struct tu_transport *t = e->mover->transport;
  if (!e->program->order || (e->teller && e->program->instruction_count == 0) || e->mover->pace ||
      e->mover->control.remote || (!e->arithmetic.user && e->arithmetic.op == TUTTI_PREMUL_SUM))
    return false;
  if (tu_execution_may_read(e) && tu_peer_memory_reads(t, t->rank)) return false;
  return e->program->longest_bytes < e->direct_bytes || (!tu_transport_offset(t, in) && !tu_transport_offset(t, out));
}

static unsigned char *at(const struct tu_execution *e, const struct tu_byte_range *range) {
  return e->base[range->buffer] + range->offset;
}

static void prepare_ends(const struct tu_execution *e, const struct tu_instruction *ins, struct tu_hop *hop) {
  for (uint32_t i = 0; i < ins->message_count; i++) {
    const struct tu_message *m = &e->program->messages[ins->message_first + i];
    hop->ends[hop->end_count++] = (struct hop_end){.sender = m->sender, .receiver = m->receiver};
  }
  for (uint32_t i = 0; i < ins->operand_count; i++) {
    const struct tu_program_operand *operand = &e->program->operands[ins->operand_first + i];
    const void **source = &hop->sources[hop->source_count++];
    if (operand->message.ring == TU_NO_RING) *source = at(e, &operand->range);
    else hop->ends[hop->end_count++] = (struct hop_end){.receiver = operand->message.receiver, .source = source};
  }
}

bool tu_execution_prepare_straight(struct tu_execution *e, const void *in, void *out) {
  const struct tu_program *p = e->program;
  memcpy(&e->base[TU_IN], &in, sizeof in);
  e->base[TU_OUT] = out;
  e->base[TU_TMP] = e->tmp;
  const bool told = e->teller;
  if (e->hops && e->hops_in == in && e->hops_out == out && (e->hops->kind == TOLD) == told) return true;
  e->hops_in = in;
  e->hops_out = out;
  size_t hops = (p->instruction_count + 1) * sizeof *e->hops;
  size_t ends = ((size_t)p->message_count + p->operand_count) * sizeof(struct hop_end);
  /* The sizes are those of the program, so that other buffers find the memory of the ones before. */
  unsigned char *memory = (unsigned char *)e->hops;
  if (!memory) memory = tu_try_allocate(1, hops + ends + p->operand_count * sizeof(void *));
  if (!memory) return false;
  struct hop_end *next_end = (struct hop_end *)(void *)(memory + hops);
  const void **next_source = (const void **)(void *)(memory + hops + ends);
  e->hops = (struct tu_hop *)(void *)memory;
  for (uint32_t i = 0; i < p->instruction_count; i++) {
    const struct tu_instruction *ins = &p->instructions[p->order[i]];
    struct tu_hop *hop = &e->hops[i];
    *hop = (struct tu_hop){
        .kind = told ? TOLD : ins->kind, .how = ins->how, .cast = ins->cast != TU_NO_CAST, .bytes = ins->bytes};
    hop->ends = next_end;
    hop->sources = next_source;
    if (ins->kind == TU_SEND) hop->slice_bytes = hop->cast ? hop->bytes : e->slot_bytes;
    if (ins->kind == TU_SEND || ins->kind == TU_COPY) hop->from = at(e, &ins->source);
    if (ins->kind != TU_SEND) hop->to = at(e, &ins->target);
    if (ins->operand_count > 0) hop->items = ins->bytes / p->item_bytes;
    prepare_ends(e, ins, hop);
    next_end += hop->end_count;
    next_source += hop->source_count;
  }
  return true;
}

/* ---- running ---- */

void tu_execution_start_straight(struct tu_execution *e, uint64_t tag) {
  e->tag = tag;
  e->announced = true; /* no program of the fast path lends */
  e->head = 0;
  e->unfit = e->mismatch = false;
}

/* Publishes a slice, which is the last one of its message or not. */
static inline void publish(const struct tu_execution *e, struct tu_sender *s, size_t bytes, size_t message_bytes,
                           bool last) {
  tu_sender_commit(s, bytes, e->tag, message_bytes, TU_IN_SEGMENT);
  s->tickets += last;
  s->served += last;
  tu_mover_ring(e->mover, s->bell);
}

/* Returns true if the receiver, to which lines take long, probably waits for this message: it has taken all others, as its own
 * last line says, but perhaps the last one, which may have crossed that line. */
static bool is_awaited(const struct tu_sender *s) {
  return s->back && s->sent - s->back->peer_taken <= 1 && tu_sender_far(s);
}

static inline bool has_credits(const struct tu_hop *hop) {
  for (uint32_t i = 0; i < hop->end_count; i++)
    if (!tu_sender_ready(hop->ends[i].sender)) return false;
  return true;
}

/* Sends a staged slice: writes its bytes once for all receivers, into a staging ring or the multicast ring. */
static bool send_slice(struct tu_execution *e, const struct tu_hop *hop, size_t done, size_t bytes) {
  struct tu_cast *cast = hop->cast ? e->program->cast : NULL;
  struct tu_sender *first = hop->ends[0].sender;
  const bool last = done + bytes == hop->bytes;
  uint64_t segment_offset = cast ? tu_cast_room(cast, bytes) : tu_sender_room(first, bytes);
  if (!segment_offset) return false;
  unsigned char *at = first->base + segment_offset;
  void *to = at;
  bool past = bytes >= TU_STREAM_BYTES && tu_sender_far(first) &&
              tu_fills_past(&e->mover->fills, tu_fills_place(cast ? &cast->staging : &first->staging, at));
  tu_copy_into(&to, 1, past ? TU_PAST_ALL : TU_PAST_NONE, hop->from + done, bytes);
  if (!cast && bytes <= PUSHED_BYTES && is_awaited(first)) tu_push_lines(at, bytes);
  if (cast) tu_cast_fill(cast, segment_offset, bytes);
  else tu_staging_fill(&first->staging, segment_offset, bytes);
  for (uint32_t i = 0; i < hop->end_count; i++) {
    struct tu_sender *s = hop->ends[i].sender;
    if (cast) tu_cast_add(cast, s);
    tu_sender_line(s)->at.offset = segment_offset;
    publish(e, s, bytes, hop->bytes, last);
  }
  if (cast) cast->tickets++, cast->served++;
  if (last) tu_execution_claim(e, cast ? &cast->staging : &first->staging, first, hop->bytes);
  return true;
}

__attribute__((noinline)) static bool send_slices(struct tu_execution *e, const struct tu_hop *hop) {
  while (e->hop_done < hop->bytes) {
    const size_t bytes = tu_min(hop->slice_bytes, hop->bytes - e->hop_done);
    if (!has_credits(hop) || !send_slice(e, hop, e->hop_done, bytes)) return false;
    e->hop_done += bytes;
  }
  e->hop_done = 0;
  return true;
}

/* Sends the message to all its receivers. Returns false if some receiver has no free credit, or if the ring has no room; then
 * slices of it may have been sent. */
static inline bool send(struct tu_execution *e, const struct tu_hop *hop) {
  if (!has_credits(hop)) return false;
  if (hop->bytes > hop->slice_bytes) return send_slices(e, hop);
  if (hop->bytes > TU_INLINE_BYTES) return send_slice(e, hop, 0, hop->bytes);
  for (uint32_t i = 0; i < hop->end_count; i++) {
    tu_copy_short(tu_sender_line(hop->ends[i].sender)->at.payload, hop->from, hop->bytes);
    publish(e, hop->ends[i].sender, hop->bytes, hop->bytes, true);
  }
  return true;
}

static const struct tu_line *leave_at_once(struct tu_execution *e) {
  e->unfit = true;
  return NULL;
}

static inline void fetch(const unsigned char *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += TU_LINE_BYTES) __builtin_prefetch(at + i);
}

/* Polls for the next slice of a message of that many bytes, at most *looks times, and returns its line. Returns NULL if it
 * has not arrived; also if the message does not match this call: then e->unfit is set, too. */
static inline const struct tu_line *await(struct tu_execution *e, struct tu_receiver *r, size_t bytes,
                                          uint32_t *looks) {
  if (!r->lines) return leave_at_once(e);
  const bool fetches = bytes > TU_INLINE_BYTES && bytes <= FETCHED_BYTES;
  const struct tu_line *line;
  while ((line = tu_receiver_line(r)) == NULL) {
    if (*looks == 0) return NULL;
    --*looks;
    if (fetches) fetch(r->expected, bytes);
    tu_pause();
  }
  if (line->tag != e->tag || line->message_bytes != bytes) return leave_at_once(e);
  if (fetches) tu_receiver_expect(r, line);
  return line;
}

static inline void used(const struct tu_execution *e, struct tu_receiver *r, bool last) {
  tu_receiver_release(r);
  r->tickets += last;
  r->served += last;
  tu_mover_ring(e->mover, r->bell);
}

/* Receives the slices of the hop's only message, or reduces them with the other operands. *line: of the first slice that is
 * not used. */
__attribute__((noinline)) static bool take_slices(struct tu_execution *e, const struct tu_hop *hop,
                                                  const struct tu_line *line, uint32_t *looks) {
  struct tu_receiver *r = hop->ends[0].receiver;
  for (bool last = false; !last; line = NULL) {
    if (!line && !(line = await(e, r, hop->bytes, looks))) return false;
    const size_t bytes = line->bytes;
    const void *payload = tu_receiver_payload(r, line);
    unsigned char *to = hop->to + e->hop_done;
    for (uint32_t i = 0; i < hop->source_count; i++) {
      const bool comes = &hop->sources[i] == hop->ends[0].source;
      e->sources[i] = comes ? payload : (const unsigned char *)hop->sources[i] + e->hop_done;
    }
    if (hop->source_count == 0) tu_copy_short(to, payload, bytes);
    else tu_reduce(&e->arithmetic, to, e->sources, hop->source_count, bytes / e->program->item_bytes, hop->how);
    last = e->hop_done + bytes == hop->bytes;
    e->hop_done = last ? 0 : e->hop_done + bytes;
    used(e, r, last);
  }
  return true;
}

__attribute__((always_inline)) static inline bool receive(struct tu_execution *e, const struct tu_hop *hop,
                                                          uint32_t *looks) {
  struct tu_receiver *r = hop->ends[0].receiver;
  const struct tu_line *line = await(e, r, hop->bytes, looks);
  if (!line) return false;
  if (line->bytes != hop->bytes) return take_slices(e, hop, line, looks);
  tu_copy_short(hop->to, tu_receiver_payload(r, line), hop->bytes);
  used(e, r, true);
  return true;
}

/* Waits for the messages of all operands, reduces them, and releases them. Returns false if a message is missing. */
static inline bool reduce(struct tu_execution *e, const struct tu_hop *hop, uint32_t *looks) {
  for (uint32_t i = 0; i < hop->end_count; i++) {
    struct tu_receiver *r = hop->ends[i].receiver;
    const struct tu_line *line = await(e, r, hop->bytes, looks);
    if (!line) return false;
    if (line->bytes < hop->bytes) {
      if (hop->end_count == 1) return take_slices(e, hop, line, looks);
      e->unfit = true;
      return false;
    }
    *hop->ends[i].source = tu_receiver_payload(r, line);
  }
  tu_reduce(&e->arithmetic, hop->to, hop->sources, hop->source_count, hop->items, hop->how);
  for (uint32_t i = 0; i < hop->end_count; i++) used(e, hop->ends[i].receiver, true);
  return true;
}

static inline void copy(const struct tu_hop *hop) {
  /* If source and target are equal, nothing is left to do. (Only premul_sum would have to scale the data, and it never
   * uses the fast path.) */
  if (hop->to != hop->from) tu_copy_short(hop->to, hop->from, hop->bytes);
}

__attribute__((noinline)) static bool carry_out_and_tell(struct tu_execution *e, const struct tu_hop *hop,
                                                         uint32_t *looks);

__attribute__((always_inline)) static inline bool carry_out(struct tu_execution *e, const struct tu_hop *hop,
                                                            uint32_t *looks) {
  bool done;
  switch (hop->kind) {
    case TU_SEND:
      while (!(done = send(e, hop)) && *looks > 0) --*looks, tu_pause();
      return done;
    case TU_RECV: return receive(e, hop, looks);
    case TU_COPY: copy(hop); return true;
    case TOLD: return carry_out_and_tell(e, hop, looks);
    default: return reduce(e, hop, looks);
  }
}

/* The teller is called at each look, so that an instruction does not seem to take the time in which it had to wait. */
static bool carry_out_and_tell(struct tu_execution *e, const struct tu_hop *hop, uint32_t *looks) {
  struct tu_teller *t = e->teller;
  const uint32_t head = (uint32_t)(hop - e->hops), instruction = e->program->order[head];
  struct tu_hop plain = *hop;
  plain.kind = e->program->instructions[instruction].kind;
  for (uint32_t none = 0; t->look(e), !carry_out(e, &plain, &none); --*looks) {
    if (*looks == 0) return false;
    tu_pause();
  }
  if (t->run == 0) return true;
  t->told[instruction] = SIZE_MAX;
  t->tell(t, instruction, hop->bytes, true);
  if (head + 1 == e->program->instruction_count) t->end(e);
  return true;
}

bool tu_execution_poll_straight(struct tu_execution *e, uint32_t looks) {
  uint32_t head = e->head, count = e->program->instruction_count;
  while (head < count && carry_out(e, &e->hops[head], &looks)) head++;
  e->head = head;
  return head == count;
}

uint32_t tu_execution_awaits_straight(const struct tu_execution *e) {
  if (e->head == e->program->instruction_count) return TU_NONE;
  const struct tu_hop *hop = &e->hops[e->head];
  for (uint32_t i = 0; i < hop->end_count; i++) {
    const struct hop_end *end = &hop->ends[i];
    if (end->sender && !tu_sender_ready(end->sender)) return end->sender->peer;
    if (end->receiver && (!end->receiver->lines || !tu_receiver_line(end->receiver))) return end->receiver->peer;
  }
  return TU_NONE;
}

/* Programs with more instructions are not searched, because that would take as long as a yield. */
#define SEARCHED 64u
/* Longer messages take other ranks longer than a rank of this CPU needs for something else. */
#define SOON_BYTES 2048u

/* Returns the bit of the rank with that bell in a set like `here`; 0: it has none. */
static uint64_t bit_of(const struct tu_execution *e, uint32_t bell) {
  const struct tu_transport *t = e->mover->transport;
  const uint32_t after = bell - t->rank + (bell < t->rank ? t->ranks : 0);
  return after < TU_SEEN_RANKS ? UINT64_C(1) << after : 0;
}

static enum tu_awaits awaited_by_send(const struct tu_execution *e, const struct tu_hop *hop, uint64_t here) {
  for (uint32_t i = 0; i < hop->end_count; i++)
    if (!tu_sender_ready(hop->ends[i].sender) && (bit_of(e, hop->ends[i].sender->bell) & here)) return TU_AWAITS_HERE;
  return TU_AWAITS_OTHER;
}

enum tu_awaits tu_execution_awaits_where(const struct tu_execution *e, uint64_t here) {
  const uint32_t count = e->program->instruction_count;
  uint64_t silent = here; /* the ranks of this CPU of which no message has come */
  if (count > SEARCHED || e->program->longest_bytes > SOON_BYTES) return TU_AWAITS_OTHER;
  if (e->program->awaits_root) return bit_of(e, e->hops->ends->receiver->bell) & here ? TU_AWAITS_HERE : TU_AWAITS_ROOT;
  for (uint32_t i = 0; i < count; i++) {
    const struct tu_hop *hop = &e->hops[i];
    const bool sends = hop->end_count > 0 && hop->ends[0].sender;
    if (sends && i < e->head) continue;
    if (sends) return i == e->head ? awaited_by_send(e, hop, here) : TU_AWAITS_OTHER;
    for (uint32_t k = 0; k < hop->end_count; k++) {
      struct tu_receiver *r = hop->ends[k].receiver;
      const uint64_t bit = bit_of(e, r->bell);
      if (!(bit & here)) continue;
      const struct tu_line *line = i >= e->head && r->lines ? tu_receiver_line(r) : NULL;
      if (i >= e->head && !line) return TU_AWAITS_HERE;
      if (i < e->head || line->bytes == hop->bytes) silent &= ~bit;
    }
  }
  return silent ? TU_AWAITS_OTHER : TU_AWAITS_AFAR;
}

/* ---- leaving the fast path ---- */

/* Takes back the tickets of a finished instruction: reduces e->tickets of each of its channels by one per message. When
 * this was done for all finished instructions, e->tickets is the ticket of the program's first message on each channel,
 * as elsewhere in the engine. */
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
  /* the instruction at the head may have sent or received some slices */
  if (e->hop_done > 0) e->progress[p->order[e->head]].done = e->hop_done;
  if (e->hop_done > 0 && p->instructions[p->order[e->head]].kind == TU_SEND)
    e->progress[p->order[e->head]].way = TU_WAY_STAGED;
  e->hop_done = 0;
  if (p->cast) {
    e->cast_ticket = p->cast->tickets;
    for (uint32_t i = 0; i < e->head; i++) e->cast_ticket -= p->instructions[p->order[i]].cast != TU_NO_CAST;
    p->cast->tickets = e->cast_ticket + p->cast_messages;
  }
  /* On the fast path a message draws its ticket only when it is sent or received. So draw the tickets of all remaining
   * messages now. */
  for (uint32_t i = 0; i < p->ring_count; i++) e->tickets[i] = *tu_program_tickets(p, i);
  for (uint32_t i = 0; i < e->head; i++) return_tickets(e, &p->instructions[p->order[i]]);
  for (uint32_t i = 0; i < p->ring_count; i++) *tu_program_tickets(p, i) = e->tickets[i] + p->rings[i].messages;
  e->head = 0; /* from now on, head is an index into p->instructions, no longer into p->order */
}
