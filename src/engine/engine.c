/* engine.c: the loop that carries out a program. Every instruction keeps its own progress in bytes, and may go as far as
 * those before it have come; a message goes slice by slice as credits and data allow. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 128u             /* instructions looked at together, from the earliest unfinished one on */
#define FOLD_BYTES 4096u        /* of a tensor that are packed at a time, where they are not packed into a message */
#define SCALED_BYTES FOLD_BYTES /* of a first load that is scaled on the way */
#define PAST_BYTES ((size_t)24 << 20)   /* who moves so much does not find it in the caches afterwards */
#define LOCAL_SLICE ((size_t)256 << 10) /* a local copy or reduction yields to the others after this much */

/* Memory where a cache line begins. */
static void *allocate_lines(size_t bytes) {
  void *memory = aligned_alloc(TU_LINE_BYTES, tu_round_up(bytes, TU_LINE_BYTES));
  if (!memory) tu_arena_refuse(bytes, 1);
  return memory;
}

static tutti_err prepare(void *argument, struct tu_error *error) {
  struct tu_execution *e = argument;
  const struct tu_program *program = e->program;
  struct tu_arena *arena = &e->arena;
  e->progress = tu_arena_allocate(arena, (size_t)program->instruction_count + 1, sizeof *e->progress);
  e->tickets = tu_arena_allocate(arena, (size_t)program->ring_count + 1, sizeof *e->tickets);
  e->sequences = tu_arena_allocate(arena, (size_t)program->message_count + 1, sizeof *e->sequences);
  e->sources = tu_arena_allocate(arena, (size_t)program->operands_max + 1, sizeof *e->sources);
  e->targets = tu_arena_allocate(arena, (size_t)program->targets_max + 1, sizeof *e->targets);
  e->chosen = tu_arena_allocate(arena, (size_t)program->onward_count + 1, sizeof *e->chosen);
  if (program->point_to_point && program->ring_count > 0 && program->rings[0].receiver) {
    for (uint32_t i = 0; i < program->ring_count; i++)
      if (!tu_matching_prepare(program->rings[i].receiver))
        return tu_fail_memory(error, 64, "receives from rank %u", program->rings[i].receiver->peer);
    e->expected = tu_arena_allocate(arena, program->ring_count, sizeof *e->expected);
  }
  if (program->raw_operands_max > 0) e->scratch = tu_arena_allocate(arena, program->raw_operands_max, SCALED_BYTES);
  tu_parts_init(e);
  if (program->folded) e->folded = allocate_lines(((size_t)program->operands_max + 1) * FOLD_BYTES);
  if (program->tmp_bytes > 0) e->tmp = allocate_lines(program->tmp_bytes);
  return TUTTI_OK;
}

tutti_err tu_execution_init(struct tu_execution *e, const struct tu_program *program, struct tu_mover *mover,
                            struct tu_error *error) {
  *e = (struct tu_execution){.program = program, .mover = mover};
  e->direct_bytes = TU_DIRECT_BYTES;
  e->fold_bytes = tu_program_whole(program, FOLD_BYTES);
  e->slot_bytes = tu_program_whole(program, mover->shape.slot_bytes);
  tutti_err err = tu_arena_build(prepare, e, "carrying out a call (algorithms without scratch need less)", error);
  if (err != TUTTI_OK) tu_execution_fini(e);
  return err;
}

void tu_execution_fini(struct tu_execution *e) {
  if (!e->program) return;
  if (e->unfinished > 0 && e->program->point_to_point)
    for (uint32_t i = 0; i < e->program->ring_count; i++)
      if (e->expected) tu_matching_cancel(&e->expected[i], e->program->rings[i].receiver);
  free(e->folded);
  free(e->tmp);
  free(e->hops);
  tu_arena_fini(&e->arena);
  e->program = NULL;
}

/* Says where a message may be stored, if it is worth it. */
static void post(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress) {
  const struct tu_message *m = &e->program->messages[ins->message_first];
  struct tu_receiver *r = m->receiver;
  uint64_t ticket = e->tickets[m->ring] + m->ordinal;
  if (ins->bytes < e->direct_bytes || !e->places[ins->target.buffer] || ins->target.run_count != 1 ||
      ins->target.fold || m->parts > 1)
    return;
  if (e->program->point_to_point || !tu_receiver_may_post(r, ticket)) return;
  e->mover->control.exposes = true;
  tu_receiver_post(r, ticket, e->places[ins->target.buffer] + ins->target.offset);
  progress->posted = true;
}

void tu_execution_start(struct tu_execution *e, const void *in, void *out, uint64_t tag) {
  const struct tu_program *p = e->program;
  memcpy(&e->base[TU_IN], &in, sizeof in);
  e->base[TU_OUT] = out;
  e->base[TU_TMP] = e->tmp;
  for (int i = 0; i < 3; i++) e->places[i] = tu_transport_place_of(e->mover->transport, e->base[i], p->extents[i]);
  e->tag = tag;
  e->head = 0;
  e->unfinished = p->instruction_count;
  e->mismatch = e->no_memory = false;
  memset(e->progress, 0, p->instruction_count * sizeof *e->progress);
  for (uint32_t i = 0; i < p->ring_count; i++) {
    e->tickets[i] = *tu_program_tickets(p, i);
    *tu_program_tickets(p, i) += p->rings[i].messages;
    if (e->expected) tu_matching_post(&e->expected[i], (uint32_t)tag, p->rings[i].receiver);
  }
  if (p->cast) {
    e->cast_ticket = p->cast->tickets;
    p->cast->tickets += p->cast_messages;
  }
  if (e->parts) tu_parts_start(e);
  /* Before anything is sent: who has got a message of this call then knows where its answers may go. */
  if (e->places[TU_OUT] == 0) return;
  for (uint32_t i = 0; i < p->instruction_count; i++)
    if (p->instructions[i].kind == TU_RECV && p->instructions[i].after_count == 0)
      post(e, &p->instructions[i], &e->progress[i]);
}

/* ---- bytes ---- */

/* Where the byte at `done` of a place is in its buffer, and how many follow it without a gap. */
static inline size_t offset_of(const struct tu_place *place, size_t done, size_t *contiguous) {
  if (place->run_count <= 1) {
    *contiguous = SIZE_MAX;
    return place->offset + done;
  }
  const struct tu_run *run = place->runs;
  while (done >= run->bytes) done -= run++->bytes;
  *contiguous = run->bytes - done;
  return run->offset + done;
}

/* Bytes of a place to read, *bytes at most, which may become less. What does not lie as it crosses is packed into `room`:
 * FOLD_BYTES at most. */
static inline const unsigned char *read_place(const struct tu_execution *e, const struct tu_place *place, size_t done,
                                              size_t *bytes, unsigned char *room) {
  size_t contiguous, offset = offset_of(place, done, &contiguous);
  *bytes = tu_min(*bytes, contiguous);
  const unsigned char *base = e->base[place->buffer];
  if (!place->fold) return base + offset;
  *bytes = tu_min(*bytes, e->fold_bytes);
  tu_fold_pack(place->fold, base, offset, *bytes, room);
  return room;
}

/* Where bytes of a place are to be written: there, or in `room`, from where wrote_place brings them there. */
static inline unsigned char *write_place(const struct tu_execution *e, const struct tu_place *place, size_t done,
                                         size_t *bytes, unsigned char *room) {
  size_t contiguous, offset = offset_of(place, done, &contiguous);
  *bytes = tu_min(*bytes, contiguous);
  if (!place->fold) return e->base[place->buffer] + offset;
  *bytes = tu_min(*bytes, e->fold_bytes);
  return room;
}

static inline void wrote_place(const struct tu_execution *e, const struct tu_place *place, size_t done, size_t bytes,
                               const unsigned char *from) {
  size_t contiguous;
  if (place->fold)
    tu_fold_unpack(place->fold, e->base[place->buffer], offset_of(place, done, &contiguous), bytes, from);
}

static inline bool scales(const struct tu_execution *e, bool first) {
  return first && !e->arithmetic.user && e->arithmetic.op == TUTTI_PREMUL_SUM;
}

static size_t item_count(const struct tu_execution *e, size_t bytes) {
  return bytes / tutti_datatype_size(e->arithmetic.type);
}

/* Before a slice is made. e->targets will have this rank's own place first, then those of others. The own result goes past
 * the caches if they could not hold it; what goes to others, if it overwrites what is in a cache far away (sending.c). */
static inline void begin_slice(struct tu_execution *e) {
  e->past = e->program->moved_bytes >= PAST_BYTES ? TU_PAST_FIRST : TU_PAST_NONE;
}

/* The same of a send: all targets are others'. */
static inline enum tu_past past_of_send(const struct tu_execution *e) {
  return e->past & TU_PAST_REST ? TU_PAST_ALL : TU_PAST_NONE;
}

/* Writes bytes of a place to `count` targets. */
static void load(struct tu_execution *e, const struct tu_place *from, size_t done, size_t bytes, bool first,
                 uint32_t count) {
  if (bytes <= TU_INLINE_BYTES && count == 1 && !scales(e, first) && from->run_count <= 1 && !from->fold) {
    tu_copy_short(e->targets[0], e->base[from->buffer] + from->offset + done, bytes);
    return;
  }
  while (bytes > 0) {
    size_t contiguous, offset = offset_of(from, done, &contiguous), piece = tu_min(bytes, contiguous);
    const unsigned char *at = e->base[from->buffer] + offset;
    if (from->fold) {
      tu_fold_pack(from->fold, e->base[from->buffer], offset, piece, e->targets[0]);
      at = e->targets[0];
    }
    bool scaled = scales(e, first), there = scaled || from->fold;
    if (scaled) {
      tu_scale(&e->arithmetic, e->targets[0], at, item_count(e, piece));
      at = e->targets[0];
    }
    tu_copy_into((void *const *)e->targets + there, count - there, past_of_send(e), at, piece);
    for (uint32_t i = 0; i < count; i++) e->targets[i] += piece;
    done += piece, bytes -= piece;
  }
}

/* Writes bytes to a place, and to e->targets from 1 on. */
static void write_slice(struct tu_execution *e, const struct tu_place *to, size_t done, size_t bytes,
                        const unsigned char *from, uint32_t target_count) {
  while (bytes > 0) {
    size_t contiguous, offset = offset_of(to, done, &contiguous), piece = tu_min(bytes, contiguous);
    bool folded = to->fold != NULL;
    if (folded) tu_fold_unpack(to->fold, e->base[to->buffer], offset, piece, from);
    else e->targets[0] = e->base[to->buffer] + offset;
    tu_copy_into((void *const *)e->targets + folded, target_count - folded, folded ? past_of_send(e) : e->past, from,
                 piece);
    for (uint32_t i = 1; i < target_count; i++) e->targets[i] += piece;
    done += piece, from += piece, bytes -= piece;
  }
}

static void store(const struct tu_execution *e, const struct tu_place *to, size_t done, size_t bytes,
                  const unsigned char *from) {
  while (bytes > 0) {
    size_t contiguous, offset = offset_of(to, done, &contiguous), piece = tu_min(bytes, contiguous);
    if (to->fold) tu_fold_unpack(to->fold, e->base[to->buffer], offset, piece, from);
    else tu_copy_short(e->base[to->buffer] + offset, from, piece);
    done += piece, from += piece, bytes -= piece;
  }
}

/* ---- when ---- */

/* How far an instruction may go, in bytes; false if not at all. An instruction without bytes waits for all before it. */
static bool may_go(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                   size_t *limit) {
  *limit = ins->bytes;
  if (progress->afters_finished == ins->after_count) return true; /* there may be none, and no array of them */
  const struct tu_after *afters = e->program->afters + ins->after_first;
  while (progress->afters_finished < ins->after_count && e->progress[afters[progress->afters_finished].before].finished)
    progress->afters_finished++;
  if (progress->afters_finished == ins->after_count) return true;
  for (uint32_t i = progress->afters_finished; i < ins->after_count; i++) {
    const struct tu_progress *before = &e->progress[afters[i].before];
    if (before->finished) continue;
    if (!afters[i].sliced) return false;
    *limit = tu_min(*limit, before->done);
  }
  return *limit > progress->done;
}

static inline bool my_turn(const struct tu_execution *e, const struct tu_message *m, uint64_t served) {
  return served == e->tickets[m->ring] + m->ordinal;
}

static void finish(struct tu_execution *e, struct tu_progress *progress) {
  progress->finished = true;
  e->unfinished--;
}

static void note_mismatch(struct tu_execution *e, const struct tu_receiver *r, uint64_t tag, size_t bytes,
                          size_t expected_bytes) {
  e->mismatch = true;
  e->mismatch_peer = r->peer;
  e->mismatch_tag = tag;
  e->mismatch_bytes = bytes;
  e->expected_bytes = expected_bytes;
}

/* The next line of a receiver, if it is there and belongs to this call. */
static const struct tu_line *next_line(struct tu_execution *e, struct tu_receiver *r, size_t message_bytes) {
  if (!r->lines && !tu_mover_attach(e->mover, r)) return NULL;
  const struct tu_line *line = tu_receiver_line(r);
  if (!line) return NULL;
  if (line->tag == e->tag && line->message_bytes == message_bytes) return line;
  note_mismatch(e, r, line->tag, line->message_bytes, message_bytes);
  return NULL;
}

static void take(const struct tu_execution *e, struct tu_receiver *r) {
  tu_receiver_release(r);
  tu_mover_ring(e->mover, r->bell);
}

/* A part of the message in front has been used. */
static inline void take_part(const struct tu_execution *e, const struct tu_message *m, struct tu_receiver *r) {
  if (++r->parts_taken < m->parts) return;
  r->parts_taken = 0;
  r->served++;
  take(e, r);
}

/* Bytes of the slice in front have been used. */
static inline void use(const struct tu_execution *e, struct tu_receiver *r, const struct tu_line *line, size_t bytes) {
  r->used += (uint32_t)bytes;
  if (r->used == line->bytes) take(e, r);
}

/* ---- sends that go on with what an instruction writes ---- */

static bool only_waits_for(const struct tu_execution *e, const struct tu_instruction *ins, uint32_t producer) {
  for (uint32_t i = 0; i < ins->after_count; i++) {
    uint32_t before = e->program->afters[ins->after_first + i].before;
    if (before != producer && !e->progress[before].finished) return false;
  }
  return true;
}

/* Chooses the sends that can take the next slice of an instruction, now; *slice may become less. Never waits. */
static uint32_t choose_onward(struct tu_execution *e, uint32_t producer, size_t *slice, uint32_t *target_count) {
  const struct tu_instruction *ins = &e->program->instructions[producer];
  uint32_t count = 0;
  for (uint32_t i = 0; i < ins->onward_count; i++) {
    uint32_t send = e->program->onward[ins->onward_first + i], targets = *target_count;
    const struct tu_progress *p = &e->progress[send];
    if (p->done != e->progress[producer].done || p->way == TU_WAY_LENT) continue;
    if (!only_waits_for(e, &e->program->instructions[send], producer)) continue;
    if (!tu_send_room(e, send, slice, target_count)) continue;
    if (*target_count > targets) e->chosen[count++] = send; /* else it is lent, when it is there */
  }
  return count;
}

static void publish_onward(struct tu_execution *e, uint32_t count, size_t slice) {
  for (uint32_t i = 0; i < count; i++) {
    tu_send_publish(e, e->chosen[i], slice);
    struct tu_progress *p = &e->progress[e->chosen[i]];
    if (p->done == e->program->instructions[e->chosen[i]].bytes) finish(e, p);
  }
}

/* ---- instructions: each returns whether it moved ---- */

/* A part of a message that crosses as one goes into its place; the last one to be there sends it off. */
static bool send_part(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                      size_t limit) {
  const struct tu_message *m = &e->program->messages[ins->message_first];
  struct tu_sender *s = m->sender;
  if (limit < ins->bytes || !my_turn(e, m, s->served) || !tu_sender_ready(s)) return false;
  struct tu_line *line = tu_sender_line(s);
  bool staged = m->bytes > TU_INLINE_BYTES;
  uint64_t place = staged ? tu_sender_room(s, m->bytes) : 0;
  if (staged && !place) return false;
  begin_slice(e);
  e->targets[0] = (staged ? s->base + place : line->at.payload) + m->offset;
  load(e, &ins->source, 0, ins->bytes, ins->first, 1);
  finish(e, progress);
  if (++s->parts_filled < m->parts) return true;
  s->parts_filled = 0;
  if (staged) {
    tu_staging_fill(&s->staging, place, m->bytes);
    line->at.place = place;
  }
  tu_sender_commit(s, m->bytes, e->tag, m->bytes, false);
  tu_mover_ring(e->mover, s->bell);
  s->served++;
  tu_sender_renew(s);
  return true;
}

static bool run_send(struct tu_execution *e, uint32_t i, size_t limit) {
  const struct tu_instruction *ins = &e->program->instructions[i];
  struct tu_progress *progress = &e->progress[i];
  if (e->program->messages[ins->message_first].parts > 1) return send_part(e, ins, progress, limit);
  bool moved = false;
  while (progress->done < ins->bytes || progress->way == TU_WAY_OPEN) {
    size_t slice = limit - progress->done;
    uint32_t targets = 0;
    begin_slice(e);
    if (!tu_send_room(e, i, &slice, &targets)) return moved;
    if (targets > 0) load(e, &ins->source, progress->done, slice, ins->first, targets);
    tu_send_publish(e, i, slice);
    moved = true;
    if (progress->done == limit) break;
  }
  if (progress->done < ins->bytes || !tu_send_returned(e, i)) return moved;
  finish(e, progress);
  return true;
}

/* A message that had been set aside for this receive. */
static bool receive_early(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                          struct tu_receiver *r) {
  size_t bytes;
  uint64_t tag;
  struct tu_expected *expected = &e->expected[e->program->messages[ins->message_first].ring];
  const void *data = tu_matching_early(expected, &bytes, &tag);
  if (bytes != ins->bytes || tag != e->tag) {
    note_mismatch(e, r, tag, bytes, ins->bytes);
    return false;
  }
  store(e, &ins->target, 0, bytes, data);
  tu_matching_end(expected, r);
  progress->done = bytes;
  finish(e, progress);
  return true;
}

/* A part of a message that crosses as one: it has come as a whole. */
static bool receive_part(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                         size_t limit) {
  const struct tu_message *m = &e->program->messages[ins->message_first];
  struct tu_receiver *r = m->receiver;
  if (limit < ins->bytes || !my_turn(e, m, r->served)) return false;
  const struct tu_line *line = next_line(e, r, m->bytes);
  if (!line) return false;
  store(e, &ins->target, 0, ins->bytes, tu_receiver_payload(r, line) + m->offset);
  take_part(e, m, r);
  finish(e, progress);
  return true;
}

static bool run_recv(struct tu_execution *e, uint32_t i, size_t limit) {
  const struct tu_instruction *ins = &e->program->instructions[i];
  struct tu_progress *progress = &e->progress[i];
  const struct tu_message *m = &e->program->messages[ins->message_first];
  struct tu_receiver *r = m->receiver;
  if (m->parts > 1) return receive_part(e, ins, progress, limit);
  if (e->program->point_to_point) {
    if (!r->lines && !tu_mover_attach(e->mover, r)) return false;
    enum tu_match match = tu_matching_poll(e->mover, &e->expected[m->ring], r);
    if (match == TU_MATCH_NONE) return false;
    if (match == TU_MATCH_NO_MEMORY) {
      const struct tu_line *line = tu_receiver_line(r);
      note_mismatch(e, r, line->tag, line->message_bytes, ins->bytes);
      e->no_memory = true;
      return false;
    }
    if (match == TU_MATCH_EARLY) return receive_early(e, ins, progress, r);
  } else {
    if (!progress->posted && ins->bytes >= e->direct_bytes && limit == ins->bytes && progress->done == 0)
      post(e, ins, progress);
    if (!my_turn(e, m, r->served)) return false;
  }
  bool moved = false;
  while (!progress->finished) {
    const struct tu_line *line = next_line(e, r, m->bytes);
    if (!line) break;
    size_t slice = tu_min(line->bytes - r->used, limit - progress->done);
    if (slice == 0 && ins->bytes > 0) break;
    uint32_t chosen = 0;
    if (!line->stored) {
      uint32_t targets = 1;
      begin_slice(e);
      chosen = choose_onward(e, i, &slice, &targets);
      write_slice(e, &ins->target, progress->done, slice, tu_receiver_payload(r, line) + r->used, targets);
    }
    publish_onward(e, chosen, slice);
    progress->done += slice;
    use(e, r, line, slice);
    moved = true;
    if (progress->done < ins->bytes && chosen < ins->onward_count) break; /* lets them catch up */
    if (progress->done < ins->bytes) continue;
    r->served++;
    if (e->program->point_to_point) tu_matching_end(&e->expected[m->ring], r);
    finish(e, progress);
  }
  return moved;
}

/* Reduces bytes [done, done + bytes) of the target; remote operands stand in e->sources, pointing at `done`; e->targets has
 * room for further copies of the result. Goes piece by piece where a local operand or the target has gaps, or is scaled
 * on the way. */
static void reduce_slice(struct tu_execution *e, const struct tu_instruction *ins, size_t done, size_t bytes,
                         uint32_t target_count) {
  const struct tu_program_operand *operands = e->program->operands + ins->operand_first;
  while (bytes > 0) {
    size_t piece = bytes;
    unsigned char *room = e->folded, *result = write_place(e, &ins->target, done, &piece, room);
    e->targets[0] = result;
    for (uint32_t i = 0; i < ins->operand_count; i++) {
      if (operands[i].message.ring != TU_NO_RING) continue;
      if (scales(e, operands[i].first)) piece = tu_min(piece, e->fold_bytes);
      if (operands[i].place.fold) room += e->fold_bytes;
      e->sources[i] = read_place(e, &operands[i].place, done, &piece, room);
    }
    size_t count = item_count(e, piece);
    unsigned char *scaled = e->scratch;
    for (uint32_t i = 0; i < ins->operand_count; i++) {
      if (operands[i].message.ring != TU_NO_RING || !scales(e, operands[i].first)) continue;
      tu_scale(&e->arithmetic, scaled, e->sources[i], count);
      e->sources[i] = scaled;
      scaled += SCALED_BYTES;
    }
    tu_reduce_into(&e->arithmetic, (void *const *)e->targets, target_count, e->past, e->sources, ins->operand_count,
                   count, ins->final);
    wrote_place(e, &ins->target, done, piece, result);
    for (uint32_t i = 0; i < ins->operand_count; i++)
      if (operands[i].message.ring != TU_NO_RING) e->sources[i] = (const unsigned char *)e->sources[i] + piece;
    for (uint32_t i = 1; i < target_count; i++) e->targets[i] += piece;
    done += piece, bytes -= piece;
  }
}

/* How far the reduction may go with what has come of its remote operands, and where that lies; false: not all is there. */
static bool gather_operands(struct tu_execution *e, const struct tu_instruction *ins, size_t done, size_t *slice) {
  const struct tu_program_operand *operands = e->program->operands + ins->operand_first;
  for (uint32_t i = 0; i < ins->operand_count; i++) {
    const struct tu_message *m = &operands[i].message;
    if (m->ring == TU_NO_RING) continue;
    struct tu_receiver *r = m->receiver;
    if (!my_turn(e, m, r->served)) return false;
    const struct tu_line *line = next_line(e, r, m->bytes);
    if (!line) return false;
    size_t there = m->parts > 1 ? ins->bytes - done : line->bytes - r->used;
    *slice = tu_min(*slice, there);
    e->sources[i] = tu_receiver_payload(r, line) + (m->parts > 1 ? m->offset + done : r->used);
  }
  return *slice > 0 || ins->bytes == 0;
}

static bool run_recv_reduce(struct tu_execution *e, uint32_t i, size_t limit) {
  const struct tu_instruction *ins = &e->program->instructions[i];
  struct tu_progress *progress = &e->progress[i];
  const struct tu_program_operand *operands = e->program->operands + ins->operand_first;
  bool moved = false;
  while (!progress->finished) {
    size_t slice = limit - progress->done;
    if (!gather_operands(e, ins, progress->done, &slice)) break;
    begin_slice(e);
    uint32_t targets = 1, chosen = choose_onward(e, i, &slice, &targets);
    reduce_slice(e, ins, progress->done, slice, targets);
    publish_onward(e, chosen, slice);
    progress->done += slice;
    bool last = progress->done == ins->bytes;
    for (uint32_t k = 0; k < ins->operand_count; k++) {
      const struct tu_message *m = &operands[k].message;
      if (m->ring == TU_NO_RING) continue;
      struct tu_receiver *r = m->receiver;
      if (m->parts > 1) {
        if (last) take_part(e, m, r);
        continue;
      }
      use(e, r, tu_receiver_line(r), slice);
      r->served += last;
    }
    moved = true;
    if (last) finish(e, progress);
    if (chosen < ins->onward_count) break; /* lets them catch up */
  }
  return moved;
}

static void copy_slice(struct tu_execution *e, const struct tu_instruction *ins, size_t done, size_t bytes,
                       uint32_t target_count) {
  while (bytes > 0) {
    size_t piece = bytes;
    unsigned char *target = write_place(e, &ins->target, done, &piece, e->folded);
    const unsigned char *source = read_place(e, &ins->source, done, &piece, target);
    if (scales(e, ins->first)) {
      tu_scale(&e->arithmetic, target, source, item_count(e, piece));
      source = target;
    }
    /* In place only a first load is left to do. */
    bool there = source == target || ins->target.fold;
    wrote_place(e, &ins->target, done, piece, source);
    e->targets[0] = target;
    tu_copy_into((void *const *)e->targets + there, target_count - there, there ? past_of_send(e) : e->past, source,
                 piece);
    for (uint32_t i = 1; i < target_count; i++) e->targets[i] += piece;
    done += piece, bytes -= piece;
  }
}

static bool run_local(struct tu_execution *e, uint32_t i, size_t limit) {
  const struct tu_instruction *ins = &e->program->instructions[i];
  struct tu_progress *progress = &e->progress[i];
  size_t slice = limit - progress->done;
  if (slice > LOCAL_SLICE) slice = tu_program_whole(e->program, LOCAL_SLICE);
  begin_slice(e);
  uint32_t targets = 1, chosen = choose_onward(e, i, &slice, &targets);
  if (ins->kind == TU_REDUCE) {
    reduce_slice(e, ins, progress->done, slice, targets);
  } else {
    copy_slice(e, ins, progress->done, slice, targets);
  }
  publish_onward(e, chosen, slice);
  progress->done += slice;
  if (progress->done == ins->bytes) finish(e, progress);
  return true;
}

/* Moves instruction i as far as it can go. */
static bool move(struct tu_execution *e, uint32_t i) {
  const struct tu_instruction *ins = &e->program->instructions[i];
  struct tu_progress *progress = &e->progress[i];
  size_t limit;
  if (progress->finished || !may_go(e, ins, progress, &limit)) return false;
  switch (ins->kind) {
    case TU_SEND: return run_send(e, i, limit);
    case TU_RECV: return run_recv(e, i, limit);
    case TU_RECV_REDUCE: return run_recv_reduce(e, i, limit);
    case TU_FILL: return false; /* the caller moves it */
    default: return run_local(e, i, limit);
  }
}

/* Where nothing near the head can move, it may wait for what stands far behind it: in a group of many ranks, or of many
 * joined messages, all sends come before the first receive. */
bool tu_execution_poll(struct tu_execution *e) {
  uint32_t count = e->program->instruction_count;
  bool moved = false;
  for (uint32_t i = e->head; i < count && !moved && !e->mismatch;) {
    uint32_t end = (uint32_t)tu_min((size_t)i + WINDOW, count);
    for (; i < end && !e->mismatch; i++) {
      moved |= move(e, i);
      if (e->progress[i].finished && i == e->head) e->head++;
    }
  }
  return moved;
}

void tu_execution_blockers(const struct tu_execution *e, bool *waits_for) {
  const struct tu_program *p = e->program;
  for (uint32_t i = e->head; i < p->instruction_count; i++) {
    const struct tu_instruction *ins = &p->instructions[i];
    const struct tu_progress *progress = &e->progress[i];
    if (progress->finished) continue;
    bool held = false; /* by another instruction of this rank, which names whom it waits for itself */
    for (uint32_t k = progress->afters_finished; k < ins->after_count; k++)
      held |= !e->progress[p->afters[ins->after_first + k].before].finished;
    if (held) continue;
    for (uint32_t k = 0; k < ins->message_count; k++) {
      const struct tu_message *m = &p->messages[ins->message_first + k];
      if (ins->kind == TU_RECV) waits_for[m->receiver->peer] = true;
      /* Who has taken all that was lent may have gone. */
      else if (progress->done < ins->bytes || !tu_sender_taken(m->sender, e->sequences[ins->message_first + k]))
        waits_for[m->sender->peer] = true;
    }
    for (uint32_t k = 0; k < ins->operand_count; k++) {
      uint32_t ring = p->operands[ins->operand_first + k].message.ring;
      if (ring == TU_NO_RING) continue;
      struct tu_receiver *r = p->rings[ring].receiver;
      if (!r->lines || !tu_receiver_line(r)) waits_for[r->peer] = true;
    }
  }
}
