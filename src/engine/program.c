/* program.c: lowers a plan, that is, converts it to a program: spans become runs of bytes, peers become channels.
 *
 * A multicast is one instruction. It sends each slice to all receivers at once, so it waits until all of them have
 * room. In a plan that an algorithm has built, this causes no deadlock (see plan.h). The reason: the messages that
 * still fill a receiver's channel belong to earlier steps, and these steps finish without this multicast. In any other
 * plan, a multicast becomes single sends. */
#include "engine/program.h"

#include <string.h>

#include "engine/kernels.h"
#include "engine/partition.h"

/* A message, or a part of a joined message (which carries the data of several steps). settle_messages copies it into
 * the program. */
struct part {
  struct tu_message message;
  uint32_t index; /* index in p->operands (if of_operand) or in p->messages */
  bool of_operand;
  uint32_t head;       /* index of the first part of the joined message that this part belongs to */
  size_t joined_bytes; /* only for the first part of a joined message: total bytes of all parts of the message */
  uint32_t joined;     /* only for the first part of a joined message: number of parts of the message */
};

/* blocks of the arena of a lowering */
#define BLOCK_BYTES ((size_t)4 << 10)

struct lowerer {
  struct tu_arena arena; /* memory for the lowering; the program has its own arena */
  const struct tu_lowering *from;
  const struct tu_rank_plan *steps;
  struct tu_program *program;
  struct tu_error *error;
  struct tu_run *tmp;      /* offset and length of each scratch chunk */
  uint32_t *first_of_step; /* [step_count + 1]: for each step, the index of its first instruction */
  /* [peer] for sends, [number of ranks + peer] for receives: array of the lanes with the index of each channel in
   * `rings`, or TU_NO_RING; NULL: no channel with this peer yet */
  uint32_t **ring_of;
  struct part *parts; /* all messages and parts of joined messages, in step order */
  uint32_t part_count, part_capacity;
  uint32_t instruction_capacity, message_capacity, operand_capacity, after_capacity;
  uint32_t ring_capacity, run_capacity, place_capacity;
};

/* ---- spans (consecutive chunks) become runs of bytes ---- */

static const struct tu_view *view_of(const struct lowerer *l, uint32_t buffer) {
  return buffer == TU_IN ? &l->from->in : &l->from->out;
}

static void lay_out_tmp(struct lowerer *l) {
  l->tmp = tu_arena_allocate(&l->arena, l->steps->tmp_count + 1, sizeof *l->tmp);
  size_t at = 0;
  for (uint32_t i = 0; i < l->steps->tmp_count; i++) {
    const struct tu_like *like = &l->steps->tmp[i];
    struct tu_run run = tu_view_chunk(view_of(l, like->buffer), like->chunk);
    l->tmp[i] = (struct tu_run){at, run.bytes};
    at += run.bytes;
  }
  l->program->tmp_bytes = at;
}

/* Sets *place to where a chunk lies, if its buffer is pointed (each block has an address of its own). */
static void lower_place(const struct lowerer *l, struct tu_span span, uint32_t chunk, struct tu_place *place) {
  *place = (struct tu_place){.buffer = span.buffer};
  if (l->program->pointed[span.buffer])
    place->within = tu_view_part(view_of(l, span.buffer), chunk, &place->block).offset;
}

static size_t lower_span(struct lowerer *l, struct tu_span span, struct tu_byte_range *range) {
  struct tu_program *p = l->program;
  const bool has_places = p->pointed[TU_IN] || p->pointed[TU_OUT];
  uint32_t first = p->run_count;
  for (uint32_t i = 0; i < span.count; i++) {
    struct tu_run run;
    struct tu_place place;
    if (span.buffer == TU_TMP) run = l->tmp[span.first + i];
    else run = tu_view_chunk(view_of(l, span.buffer), span.first + i);
    if (run.bytes == 0) continue;
    lower_place(l, span, span.first + i, &place);
    struct tu_run *last = p->run_count > first ? &p->runs[p->run_count - 1] : NULL;
    if (last && last->offset + last->bytes == run.offset &&
        (!has_places || p->places[p->run_count - 1].block == place.block)) {
      last->bytes += run.bytes;
      continue;
    }
    if (has_places) {
      p->places = tu_arena_grow(&p->arena, p->places, p->run_count, &l->place_capacity, sizeof *p->places);
      p->places[p->run_count] = place;
    }
    p->runs = tu_arena_grow(&p->arena, p->runs, p->run_count, &l->run_capacity, sizeof *p->runs);
    p->runs[p->run_count++] = run;
  }
  size_t bytes = 0;
  for (uint32_t i = first; i < p->run_count; i++) bytes += p->runs[i].bytes;
  /* The array of runs may move while it grows. So `offset` holds the index of the range's first run, until
   * settle_ranges replaces it by that run's offset in bytes. */
  *range = (struct tu_byte_range){.buffer = span.buffer, .run_count = p->run_count - first, .offset = first};
  if (span.buffer != TU_TMP) range->fold = view_of(l, span.buffer)->fold;
  p->folded |= range->fold != NULL;
  return bytes;
}

static void settle_range(struct tu_program *p, struct tu_byte_range *range) {
  const struct tu_run *runs = range->run_count ? p->runs + range->offset : NULL;
  size_t *extent = &p->extents[range->buffer];
  for (uint32_t i = 0; i < range->run_count; i++) *extent = tu_max(*extent, runs[i].offset + runs[i].bytes);
  range->offset = range->run_count ? runs[0].offset : 0;
  range->runs = runs;
}

static void settle_ranges(struct tu_program *p) {
  for (uint32_t i = 0; i < p->instruction_count; i++) {
    settle_range(p, &p->instructions[i].source);
    settle_range(p, &p->instructions[i].target);
  }
  for (uint32_t i = 0; i < p->operand_count; i++) settle_range(p, &p->operands[i].range);
}

/* ---- channels ---- */

static uint32_t *lanes_of(struct lowerer *l, uint32_t direction) {
  uint32_t **lanes = &l->ring_of[direction];
  if (*lanes) return *lanes;
  *lanes = tu_arena_allocate(&l->arena, TU_MOVER_LANES, sizeof **lanes);
  return memset(*lanes, 0xff, TU_MOVER_LANES * sizeof **lanes);
}

/* Returns the index in p->rings of the channel to or from a peer. Opens the channel at first use. TU_NO_RING: out of
 * memory. */
static uint32_t use_ring(struct lowerer *l, bool sends, uint32_t plan_peer, uint32_t lane) {
  struct tu_program *p = l->program;
  uint32_t ranks = l->from->plan->ranks;
  if (l->from->point_to_point) lane += TU_POINT_TO_POINT_LANE;
  uint32_t *known = lanes_of(l, (sends ? 0 : ranks) + plan_peer) + lane;
  if (*known != TU_NO_RING) return *known;
  uint32_t peer = l->from->peers ? l->from->peers[plan_peer] : plan_peer;
  struct tu_ring_use use = {0};
  if (sends) use.sender = tu_mover_sender(l->from->mover, peer, lane, l->error);
  else if (!(use.receiver = tu_mover_receiver(l->from->mover, peer, lane)))
    tu_fail_memory(l->error, sizeof *use.receiver, "a channel from rank %u", peer);
  if (!use.sender && !use.receiver) return TU_NO_RING;
  p->rings = tu_arena_grow(&p->arena, p->rings, p->ring_count, &l->ring_capacity, sizeof *p->rings);
  p->rings[p->ring_count] = use;
  return *known = p->ring_count++;
}

/* Appends a message, or a part of a joined message, to l->parts. The message of a receive-and-reduce step belongs to
 * the operand that the caller adds next. Any other message gets a new entry in p->messages. Returns false if out of
 * memory. */
static bool add_part(struct lowerer *l, bool sends, uint32_t plan_peer, const struct tu_step *step, bool joined,
                     size_t bytes) {
  struct tu_program *p = l->program;
  uint32_t ring = use_ring(l, sends, plan_peer, step->lane);
  if (ring == TU_NO_RING) return false;
  bool of_operand = step->kind == TU_RECV_REDUCE;
  l->parts = tu_arena_grow(&l->arena, l->parts, l->part_count, &l->part_capacity, sizeof *l->parts);
  /* A part that is joined continues the last message of its channel. During lowering, the field `messages` of a channel
   * holds the index in l->parts of the first part of the channel's last message. settle_messages then sets the field to
   * the number of messages. */
  uint32_t head = joined ? p->rings[ring].messages : l->part_count;
  p->rings[ring].messages = head;
  l->parts[l->part_count++] = (struct part){.message = {.ring = ring, .parts = 1, .bytes = bytes},
                                            .index = of_operand ? p->operand_count : p->message_count,
                                            .of_operand = of_operand,
                                            .head = head};
  l->parts[head].joined_bytes += bytes;
  l->parts[head].joined++;
  if (of_operand) return true;
  p->messages = tu_arena_grow(&p->arena, p->messages, p->message_count, &l->message_capacity, sizeof *p->messages);
  p->message_count++; /* settle_messages fills in the entry that was added here */
  return true;
}

/* Reserves staging rings (buffers for message data). A message that is too long for a line may be staged, and needs a
 * staging ring on its channel. A multicast is staged in a ring of its own. */
static bool reserve_rings(struct lowerer *l) {
  const struct tu_program *p = l->program;
  for (uint32_t i = 0; i < p->instruction_count; i++) {
    const struct tu_instruction *ins = &p->instructions[i];
    if (ins->kind != TU_SEND || ins->cast != TU_NO_CAST) continue;
    for (uint32_t k = 0; k < ins->message_count; k++) {
      const struct tu_message *m = &p->messages[ins->message_first + k];
      size_t bytes = m->parts > 1 ? m->bytes : ins->bytes;
      if (bytes > TU_INLINE_BYTES && tu_mover_reserve(l->from->mover, m->sender, bytes, l->error) != TUTTI_OK)
        return false;
    }
  }
  return true;
}

/* Numbers the messages of each channel. If the parts of a joined message fit into one slot, they cross as one message,
 * with one number. Otherwise each part crosses as a message of its own, with a number of its own. Returns false if out
 * of memory. */
static bool settle_messages(struct lowerer *l) {
  struct tu_program *p = l->program;
  for (uint32_t i = 0; i < p->ring_count; i++) p->rings[i].messages = 0;
  for (uint32_t i = 0; i < l->part_count; i++) {
    struct part *part = &l->parts[i], *head = &l->parts[part->head];
    struct tu_message *m = &part->message;
    bool as_one = head->joined > 1 && head->joined_bytes <= l->from->mover->shape.slot_bytes;
    if (as_one) {
      m->parts = head->joined;
      /* so far, head->message.bytes is the sum of the bytes of the parts before this one */
      m->offset = part == head ? 0 : head->message.bytes;
      if (part != head) head->message.bytes += m->bytes;
      m->ordinal = part == head ? p->rings[m->ring].messages++ : head->message.ordinal;
    } else {
      m->ordinal = p->rings[m->ring].messages++;
    }
  }
  for (uint32_t i = 0; i < l->part_count; i++) {
    struct part *part = &l->parts[i];
    part->message.sender = p->rings[part->message.ring].sender;
    part->message.receiver = p->rings[part->message.ring].receiver;
    if (part->message.parts > 1) part->message.bytes = l->parts[part->head].joined_bytes;
    if (part->of_operand) p->operands[part->index].message = part->message;
    else p->messages[part->index] = part->message;
  }
  return reserve_rings(l);
}

/* ---- dependencies ---- */

struct touch {
  uint32_t first, count; /* range of cells (chunks of all buffers of the plan, numbered) that a step reads or writes */
  bool writes;
};

static uint32_t add_touch(const struct lowerer *l, struct touch *touches, uint32_t n, struct tu_span span,
                          bool writes) {
  uint32_t first = tu_plan_cell(l->from->plan, l->from->plan_rank, (enum tu_buffer)span.buffer, span.first);
  touches[n] = (struct touch){first, span.count, writes};
  return n + 1;
}

static uint32_t step_touches(const struct lowerer *l, const struct tu_step *s, struct touch *touches) {
  uint32_t n = 0;
  if (s->kind == TU_SEND || s->kind == TU_COPY) n = add_touch(l, touches, n, s->source, false);
  if (s->kind == TU_RECV_REDUCE || s->kind == TU_REDUCE)
    for (uint32_t i = 0; i < s->operand_count; i++) {
      const struct tu_operand *o = &l->steps->operands[s->operand_first + i];
      if (o->peer == TU_LOCAL) n = add_touch(l, touches, n, o->span, false);
    }
  if (s->kind != TU_SEND) n = add_touch(l, touches, n, s->target, true);
  return n;
}

/* Returns true if step `later` may work on a byte range as soon as step `earlier` has finished the same range. Two
 * spans of the steps conflict if they overlap and at least one is written. The result is true if some spans conflict,
 * and all that conflict are equal. */
static bool follows_in_slices(const struct lowerer *l, const struct tu_step *earlier, const struct tu_step *later,
                              struct touch *a, struct touch *b) {
  uint32_t a_count = step_touches(l, earlier, a), b_count = step_touches(l, later, b);
  bool contend = false;
  for (uint32_t i = 0; i < a_count; i++)
    for (uint32_t k = 0; k < b_count; k++) {
      bool overlap = a[i].first < b[k].first + b[k].count && b[k].first < a[i].first + a[i].count;
      if (!overlap || !(a[i].writes || b[k].writes)) continue;
      if (a[i].first != b[k].first || a[i].count != b[k].count) return false;
      contend = true;
    }
  return contend;
}

static void add_after(struct lowerer *l, uint32_t before, bool sliced) {
  struct tu_program *p = l->program;
  p->afters = tu_arena_grow(&p->arena, p->afters, p->after_count, &l->after_capacity, sizeof *p->afters);
  p->afters[p->after_count++] = (struct tu_after){before, sliced};
}

/* Makes a step depend on the gates (instructions that wait for input) of the partitioned input that it touches. */
static void lower_gates(struct lowerer *l, const struct tu_step *step, struct touch *touches) {
  uint32_t count = step_touches(l, step, touches);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t gate = tu_partition_gate(l->program->partition, l->from, touches[i].first, touches[i].count);
    if (gate != TU_NO_GATE) add_after(l, gate, true);
  }
}

static void lower_afters(struct lowerer *l, uint32_t step_index, struct touch *a, struct touch *b) {
  struct tu_program *p = l->program;
  const struct tu_step *step = &l->steps->steps[step_index];
  uint32_t first = p->after_count;
  for (uint32_t i = 0; i < step->after_count; i++) {
    uint32_t earlier = l->steps->afters[step->after_first + i];
    bool sliced = follows_in_slices(l, &l->steps->steps[earlier], step, a, b);
    for (uint32_t k = l->first_of_step[earlier]; k < l->first_of_step[earlier + 1]; k++) add_after(l, k, sliced);
  }
  if (p->partition) lower_gates(l, step, a);
  for (uint32_t k = l->first_of_step[step_index]; k < l->first_of_step[step_index + 1]; k++) {
    p->instructions[k].after_first = first;
    p->instructions[k].after_count = p->after_count - first;
  }
}

/* ---- steps ---- */

static bool lower_operands(struct lowerer *l, const struct tu_step *step, struct tu_instruction *out) {
  struct tu_program *p = l->program;
  out->operand_first = p->operand_count;
  out->operand_count = step->operand_count;
  p->operands_max = (uint32_t)tu_max(p->operands_max, step->operand_count);
  uint32_t raw = 0;
  for (uint32_t i = 0; i < step->operand_count; i++) {
    const struct tu_operand *o = &l->steps->operands[step->operand_first + i];
    struct tu_program_operand operand = {.message.ring = TU_NO_RING, .first = o->first};
    if (o->peer == TU_LOCAL) lower_span(l, o->span, &operand.range);
    else if (!add_part(l, false, o->peer, step, o->joined, out->bytes)) return false;
    raw += o->first;
    p->operands = tu_arena_grow(&p->arena, p->operands, p->operand_count, &l->operand_capacity, sizeof *p->operands);
    p->operands[p->operand_count++] = operand;
  }
  p->raw_operands_max = (uint32_t)tu_max(p->raw_operands_max, raw);
  return true;
}

/* Adds the instruction's messages to or from `count` peers of the step. */
static bool lower_messages(struct lowerer *l, const struct tu_step *step, uint32_t first, uint32_t count,
                           struct tu_instruction *out) {
  struct tu_program *p = l->program;
  out->message_first = p->message_count;
  out->message_count = count;
  for (uint32_t i = 0; i < count; i++)
    if (!add_part(l, step->kind == TU_SEND, l->steps->peers[step->peer_first + first + i], step, step->joined,
                  out->bytes))
      return false;
  for (uint32_t i = l->part_count - count; count > 1 && i < l->part_count; i++)
    /* each message of a multicast goes to a different rank, and none is joined with other messages */
    tu_assert(p->rings[l->parts[i].message.ring].messages == i);
  if (count > 1 && out->bytes > TU_INLINE_BYTES) {
    if (!(p->cast = tu_mover_cast(l->from->mover, out->bytes, l->error))) return false;
    out->cast = p->cast_messages++;
  }
  return true;
}

static bool lower_step(struct lowerer *l, const struct tu_step *step) {
  struct tu_program *p = l->program;
  struct tu_instruction base = {.kind = step->kind, .first = step->first, .cast = TU_NO_CAST};
  base.how = (uint8_t)((step->final ? TU_FINAL : 0) | (step->tree ? TU_TREE : 0));
  if (step->kind == TU_SEND || step->kind == TU_COPY) base.bytes = lower_span(l, step->source, &base.source);
  if (step->kind != TU_SEND) base.bytes = lower_span(l, step->target, &base.target);
  bool crosses = step->kind == TU_SEND || step->kind == TU_RECV;
  uint32_t peers = crosses ? step->peer_count : 0, at_once = l->from->in_builder_order || peers == 0 ? peers : 1;
  uint32_t done = 0;
  do {
    struct tu_instruction instruction = base;
    if (crosses && !lower_messages(l, step, done, at_once, &instruction)) return false;
    if (!crosses && step->kind != TU_COPY && !lower_operands(l, step, &instruction)) return false;
    p->instructions = tu_arena_grow(&p->arena, p->instructions, p->instruction_count, &l->instruction_capacity,
                                    sizeof *p->instructions);
    p->instructions[p->instruction_count++] = instruction;
    p->moved_bytes += base.bytes;
    p->longest_bytes = tu_max(p->longest_bytes, base.bytes);
    done += at_once;
  } while (done < peers);
  return true;
}

/* ---- forwarding and instruction order ---- */

static bool same_range(const struct tu_byte_range *a, const struct tu_byte_range *b) {
  return a->buffer == b->buffer && a->run_count == 1 && b->run_count == 1 && a->offset == b->offset;
}

#define TU_NO_PRODUCER UINT32_MAX
/* Returns the index of the instruction whose target is exactly the source of the send, so that the send can forward
 * each slice when it is written. TU_NO_PRODUCER: no such instruction. */
static uint32_t producer_of(const struct tu_program *p, const struct tu_instruction *send) {
  if (send->kind != TU_SEND || send->first || send->bytes <= TU_INLINE_BYTES) return TU_NO_PRODUCER;
  if (p->messages[send->message_first].parts > 1) return TU_NO_PRODUCER;
  for (uint32_t i = 0; i < send->after_count; i++) {
    const struct tu_after *after = &p->afters[send->after_first + i];
    const struct tu_instruction *before = &p->instructions[after->before];
    if (after->sliced && before->kind != TU_SEND && same_range(&send->source, &before->target)) return after->before;
  }
  return TU_NO_PRODUCER;
}

static void lower_onward(struct lowerer *l) {
  struct tu_program *p = l->program;
  uint32_t *producers = tu_arena_allocate(&l->arena, (size_t)p->instruction_count + 1, sizeof *producers);
  for (uint32_t i = 0; i < p->instruction_count; i++) {
    producers[i] = producer_of(p, &p->instructions[i]);
    if (producers[i] == TU_NO_PRODUCER) continue;
    p->instructions[i].follows = true;
    p->instructions[producers[i]].onward_count++;
    p->onward_count++;
  }
  p->onward = tu_arena_allocate(&p->arena, (size_t)p->onward_count + 1, sizeof *p->onward);
  uint32_t first = 0;
  for (uint32_t i = 0; i < p->instruction_count; i++) {
    p->instructions[i].onward_first = first;
    first += p->instructions[i].onward_count;
    p->instructions[i].onward_count = 0;
  }
  for (uint32_t i = 0; i < p->instruction_count; i++) {
    if (producers[i] == TU_NO_PRODUCER) continue;
    struct tu_instruction *producer = &p->instructions[producers[i]];
    p->onward[producer->onward_first + producer->onward_count++] = i;
  }
}

/* Returns the number of addresses to which an instruction writes the same bytes. */
static uint32_t targets_of(const struct tu_program *p, const struct tu_instruction *ins) {
  if (ins->kind == TU_SEND) return ins->message_count;
  uint32_t targets = 1;
  for (uint32_t i = 0; i < ins->onward_count; i++)
    targets += p->instructions[p->onward[ins->onward_first + i]].message_count;
  return targets;
}

/* Appends the gates (instructions that wait for input) after all other instructions, for a partitioned call. */
static void lower_parts(struct lowerer *l) {
  struct tu_program *p = l->program;
  tu_partition_end(p->partition, l->from, l->first_of_step);
  for (uint32_t i = 0; i < p->partition->gate_count; i++) {
    p->instructions = tu_arena_grow(&p->arena, p->instructions, p->instruction_count, &l->instruction_capacity,
                                    sizeof *p->instructions);
    p->instructions[p->instruction_count++] =
        (struct tu_instruction){.kind = TU_FILL, .cast = TU_NO_CAST, .bytes = tu_partition_gate_bytes(p->partition, i)};
  }
}

static void lower_order(struct lowerer *l) {
  struct tu_program *p = l->program;
  if (l->from->fills || l->from->tells) p->partition = tu_partition_begin(&p->arena, l->from, p->instruction_count);
  struct touch *a = tu_arena_allocate(&l->arena, 2 * ((size_t)p->operands_max + 2), sizeof *a);
  for (uint32_t i = 0; i < l->steps->step_count; i++) lower_afters(l, i, a, a + p->operands_max + 2);
  if (p->partition) lower_parts(l);
  for (uint32_t i = 0; i < p->instruction_count; i++) p->instructions[i].lasting = true;
  for (uint32_t i = 0; i < p->after_count; i++) p->instructions[p->afters[i].before].lasting = false;
}

static bool goes_straight(const struct tu_lowering *from, const struct tu_program *p) {
  if (!from->in_builder_order || p->point_to_point || p->folded || p->partition) return false;
  for (uint32_t i = 0; i < p->instruction_count; i++) {
    const struct tu_instruction *ins = &p->instructions[i];
    if (ins->bytes > from->mover->shape.slot_bytes || ins->source.run_count > 1 || ins->target.run_count > 1)
      return false;
  }
  for (uint32_t i = 0; i < p->message_count; i++)
    if (p->messages[i].parts > 1) return false;
  for (uint32_t i = 0; i < p->operand_count; i++)
    if (p->operands[i].message.parts > 1 || p->operands[i].range.run_count > 1) return false;
  return true;
}

static bool may_go_ahead(const struct tu_program *p, const struct tu_instruction *ins) {
  bool first = ins->kind == TU_SEND && ins->after_count == 0;
  for (uint32_t i = 0; i < ins->message_count; i++) first &= p->messages[ins->message_first + i].ordinal == 0;
  return first && (ins->cast == TU_NO_CAST || ins->cast == 0);
}

/* Sends that may run before all other instructions do so on the fast path. So no peer waits for data that this rank already
 * has. */
static void lay_straight(struct tu_program *p) {
  uint32_t count = 0;
  p->order = tu_arena_allocate(&p->arena, (size_t)p->instruction_count + 1, sizeof *p->order);
  for (int ahead = 1; ahead >= 0; ahead--)
    for (uint32_t i = 0; i < p->instruction_count; i++)
      if (p->instructions[i].ahead == ahead) p->order[count++] = i;
}

/* Sets how long the arrays of the program will be, most often. Returns the bytes of all of them. */
static size_t expect(struct lowerer *l) {
  const struct tu_program *p = l->program;
  const struct tu_rank_plan *plan = l->steps;
  enum { SMALL = 1024 }; /* afters, onward, order, channels, and heads of pieces */
  l->instruction_capacity = plan->step_count;
  l->message_capacity = plan->peer_count;
  l->operand_capacity = plan->operand_count;
  l->run_capacity = 2 * plan->step_count + plan->operand_count;
  return sizeof *p + l->instruction_capacity * sizeof *p->instructions + l->message_capacity * sizeof *p->messages +
         l->operand_capacity * sizeof *p->operands + l->run_capacity * sizeof *p->runs + SMALL;
}

static void reserve(const struct lowerer *l) {
  struct tu_program *p = l->program;
  p->instructions = tu_arena_allocate(&p->arena, l->instruction_capacity, sizeof *p->instructions);
  p->messages = tu_arena_allocate(&p->arena, l->message_capacity, sizeof *p->messages);
  p->operands = tu_arena_allocate(&p->arena, l->operand_capacity, sizeof *p->operands);
  p->runs = tu_arena_allocate(&p->arena, l->run_capacity, sizeof *p->runs);
}

static bool sends_only(const struct tu_program *p) {
  for (uint32_t i = 0; i < p->message_count; i++)
    if (p->messages[i].receiver) return false;
  for (uint32_t i = 0; i < p->operand_count; i++)
    if (p->operands[i].message.ring != TU_NO_RING) return false;
  return true;
}

static bool awaits_root(const struct tu_program *p, const struct tu_lowering *from) {
  const struct tu_plan *plan = from->plan;
  const struct tu_receiver *receiver =
      p->instruction_count == 1 && p->message_count == 1 ? p->messages->receiver : NULL;
  if (!receiver || (plan->collective != TUTTI_BROADCAST && plan->collective != TUTTI_SCATTER)) return false;
  return receiver->peer == (from->peers ? from->peers[plan->root] : plan->root);
}

/* Returns the maximum bytes of a staged slice. */
static size_t slot_bytes_of(const struct tu_program *p, const struct tu_channel_shape *shape) {
  if (!p->sends_only || p->point_to_point) return shape->slot_bytes;
  const size_t least = tu_max(p->item_bytes, p->longest_bytes / shape->credits + 1);
  return tu_min(shape->slot_bytes, tu_max(shape->one_way_slot_bytes, tu_round_up(least, TU_LINE_BYTES)));
}

static enum tu_reading reading_of(const struct tu_plan *plan) {
  switch (plan->collective) {
    case TUTTI_ALLTOALL: return TU_READING_EXCHANGE;
    case TUTTI_ALLGATHER: return plan->ranks == 2 ? TU_READING_PAIR : TU_READING_GATHER;
    case TUTTI_SCATTER: return TU_READING_SCATTER;
    case TUTTI_GATHER: return TU_READING_GATHER;
    default: return TU_READING_NONE;
  }
}

static tutti_err lower(void *argument, struct tu_error *error) {
  struct lowerer *l = argument;
  const struct tu_lowering *from = l->from;
  l->error = error;
  struct tu_arena arena = {.block_bytes = expect(l)};
  struct tu_program *p = l->program = tu_arena_allocate(&arena, 1, sizeof *p);
  p->arena = arena;
  p->point_to_point = from->point_to_point;
  p->from_any = from->from_any;
  p->reading = from->point_to_point ? TU_READING_NONE : reading_of(from->plan);
  p->gathers = from->plan->collective == TUTTI_GATHER || from->plan->collective == TUTTI_REDUCE;
  p->item_bytes = from->in.item_bytes;
  p->pointed[TU_IN] = from->in.addresses != NULL;
  p->pointed[TU_OUT] = from->out.addresses != NULL;
  reserve(l);
  lay_out_tmp(l);
  l->first_of_step = tu_arena_allocate(&l->arena, (size_t)l->steps->step_count + 1, sizeof *l->first_of_step);
  l->ring_of = tu_arena_allocate(&l->arena, 2 * (size_t)from->plan->ranks, sizeof(uint32_t *));
  for (uint32_t i = 0; i < l->steps->step_count; i++) {
    l->first_of_step[i] = p->instruction_count;
    if (!lower_step(l, &l->steps->steps[i])) return error->code;
  }
  l->first_of_step[l->steps->step_count] = p->instruction_count;
  lower_order(l);
  settle_ranges(p);
  if (!settle_messages(l)) return error->code;
  lower_onward(l);
  p->sends_only = sends_only(p);
  p->awaits_root = awaits_root(p, from);
  p->slot_bytes = slot_bytes_of(p, &from->mover->shape);
  for (uint32_t i = 0; i < p->instruction_count; i++)
    p->targets_max = (uint32_t)tu_max(p->targets_max, targets_of(p, &p->instructions[i]));
  for (uint32_t i = 0; i < p->instruction_count; i++) p->instructions[i].ahead = may_go_ahead(p, &p->instructions[i]);
  if (goes_straight(from, p)) lay_straight(p);
  return TUTTI_OK;
}

tutti_err tu_program_create(const struct tu_lowering *lowering, struct tu_program **program, struct tu_error *error) {
  const struct tu_plan *plan = lowering->plan;
  struct lowerer l = {
      .from = lowering, .steps = &plan->rank[lowering->plan_rank - plan->rank_first], .arena.block_bytes = BLOCK_BYTES};
  tutti_err err = tu_arena_build(lower, &l, "the program of a call", error);
  tu_arena_fini(&l.arena);
  if (err == TUTTI_OK) *program = l.program;
  else tu_program_destroy(l.program);
  return err;
}

void tu_program_destroy(struct tu_program *p) {
  if (p) tu_arena_fini(&p->arena);
}

/* ---- blocks with addresses of their own ---- */

static void point_range(struct tu_byte_range *range, enum tu_buffer buffer) {
  if (range->buffer == (uint32_t)buffer && range->run_count > 0) range->offset = range->runs[0].offset;
}

void tu_program_point(struct tu_program *p, enum tu_buffer buffer, const void *base, const void *const addresses[]) {
  tu_assert(p->pointed[buffer]);
  for (uint32_t i = 0; i < p->run_count; i++) {
    const struct tu_place *place = &p->places[i];
    if (place->buffer == (uint32_t)buffer)
      p->runs[i].offset = (uintptr_t)addresses[place->block] - (uintptr_t)base + place->within;
  }
  for (uint32_t i = 0; i < p->instruction_count; i++) {
    point_range(&p->instructions[i].source, buffer);
    point_range(&p->instructions[i].target, buffer);
  }
  for (uint32_t i = 0; i < p->operand_count; i++) point_range(&p->operands[i].range, buffer);
}
