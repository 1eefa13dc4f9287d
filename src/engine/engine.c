/* engine.c: the loop that carries out a program. Every instruction keeps its own progress in bytes, and may go as far as
 * those before it have come; a message goes slice by slice as credits and data allow. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 128u                     /* instructions looked at together, from the earliest unfinished one on */
#define SCALED_BYTES 4096u              /* of a first load that is scaled on the way */
#define LOCAL_SLICE ((size_t)256 << 10) /* a local copy or reduction yields to the others after this much */

tutti_err tu_execution_init(struct tu_execution *e, const struct tu_program *program, struct tu_mover *mover,
                            struct tu_error *error) {
  *e = (struct tu_execution){.program = program, .mover = mover};
  e->progress = tu_allocate((size_t)program->instruction_count + 1, sizeof *e->progress);
  e->tickets = tu_allocate((size_t)program->ring_count + 1, sizeof *e->tickets);
  e->sources = tu_allocate((size_t)program->operands_max + 1, sizeof *e->sources);
  if (program->raw_operands_max > 0) e->scratch = tu_allocate(program->raw_operands_max, SCALED_BYTES);
  if (program->tmp_bytes == 0) return TUTTI_OK;
  e->tmp = aligned_alloc(TU_LINE_BYTES, tu_round_up(program->tmp_bytes, TU_LINE_BYTES));
  if (e->tmp) return TUTTI_OK;
  tu_execution_fini(e);
  return tu_fail(error, TUTTI_ERR_MEMORY, "no memory for %zu bytes of scratch; an algorithm without scratch may fit",
                 program->tmp_bytes);
}

void tu_execution_fini(struct tu_execution *e) {
  if (!e->program) return;
  if (e->unfinished > 0 && e->program->point_to_point)
    for (uint32_t i = 0; i < e->program->ring_count; i++)
      if (e->program->rings[i].receiver) tu_matching_cancel(e, e->program->rings[i].receiver);
  free(e->progress);
  free(e->tickets);
  free((void *)e->sources);
  free(e->scratch);
  free(e->tmp);
  e->program = NULL;
}

void tu_execution_start(struct tu_execution *e, const void *in, void *out, uint64_t tag) {
  const struct tu_program *p = e->program;
  memcpy(&e->base[TU_IN], &in, sizeof in);
  e->base[TU_OUT] = out;
  e->base[TU_TMP] = e->tmp;
  e->tag = tag;
  e->head = 0;
  e->unfinished = p->instruction_count;
  e->mismatch = false;
  memset(e->progress, 0, p->instruction_count * sizeof *e->progress);
  for (uint32_t i = 0; i < p->ring_count; i++) {
    const struct tu_ring_use *use = &p->rings[i];
    uint64_t *tickets = use->sender ? &use->sender->tickets : &use->receiver->tickets;
    e->tickets[i] = *tickets;
    *tickets += use->messages;
    if (p->point_to_point && use->receiver) tu_matching_post(e, use->receiver);
  }
}

/* ---- bytes ---- */

/* The byte at `done` of a place, and how many follow it without a gap. */
static inline unsigned char *place_at(const struct tu_execution *e, const struct tu_place *place, size_t done,
                                      size_t *contiguous) {
  if (place->run_count <= 1) {
    *contiguous = SIZE_MAX;
    return e->base[place->buffer] + place->offset + done;
  }
  const struct tu_run *run = place->runs;
  while (done >= run->bytes) done -= run++->bytes;
  *contiguous = run->bytes - done;
  return e->base[place->buffer] + run->offset + done;
}

static inline void copy_bytes(void *to, const void *from, size_t bytes) {
  if (bytes == 8) memcpy(to, from, 8); /* the small call's hot case */
  else memcpy(to, from, bytes);
}

static inline bool scales(const struct tu_execution *e, bool first) {
  return first && !e->arithmetic.user && e->arithmetic.op == TUTTI_PREMUL_SUM;
}

static size_t item_count(const struct tu_execution *e, size_t bytes) {
  return bytes / tutti_datatype_size(e->arithmetic.type);
}

static void load(const struct tu_execution *e, const struct tu_place *from, size_t done, size_t bytes, bool first,
                 unsigned char *to) {
  while (bytes > 0) {
    size_t contiguous;
    const unsigned char *at = place_at(e, from, done, &contiguous);
    size_t piece = tu_min(bytes, contiguous);
    if (scales(e, first)) tu_scale(&e->arithmetic, to, at, item_count(e, piece));
    else copy_bytes(to, at, piece);
    done += piece, to += piece, bytes -= piece;
  }
}

static void store(const struct tu_execution *e, const struct tu_place *to, size_t done, size_t bytes,
                  const unsigned char *from) {
  while (bytes > 0) {
    size_t contiguous;
    unsigned char *at = place_at(e, to, done, &contiguous);
    size_t piece = tu_min(bytes, contiguous);
    copy_bytes(at, from, piece);
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

/* The next line of a receiver, if it is there and belongs to this call. */
static const struct tu_line *next_line(struct tu_execution *e, struct tu_receiver *r, size_t message_bytes) {
  if (!r->lines && !tu_mover_attach(e->mover, r)) return NULL;
  const struct tu_line *line = tu_receiver_line(r);
  if (!line) return NULL;
  if (line->tag == e->tag && line->message_bytes == message_bytes) return line;
  e->mismatch = true;
  e->mismatch_peer = r->peer;
  e->mismatch_tag = line->tag;
  e->mismatch_bytes = line->message_bytes;
  e->expected_bytes = message_bytes;
  return NULL;
}

static void take(const struct tu_execution *e, struct tu_receiver *r) {
  tu_receiver_release(r);
  tu_mover_ring(e->mover, r->world_peer);
}

/* A slice of the message has been used; `last`: all of this receive's bytes have. */
static inline void used(const struct tu_execution *e, const struct tu_message *m, struct tu_receiver *r, bool last) {
  if (m->parts > 1) {
    if (++r->parts_taken < m->parts) return;
    r->parts_taken = 0;
  }
  take(e, r);
  if (last) r->served++;
}

/* ---- instructions: each returns whether it moved ---- */

/* A part of a message that crosses as one goes into its place of the slot; the last one to be there sends it off. */
static bool send_part(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                      struct tu_sender *s, size_t limit) {
  const struct tu_message *m = &ins->message;
  if (limit < ins->bytes || !tu_sender_line(s)) return false;
  load(e, &ins->source, 0, ins->bytes, ins->first, (unsigned char *)tu_sender_payload(s, m->bytes) + m->offset);
  finish(e, progress);
  if (++s->parts_filled < m->parts) return true;
  s->parts_filled = 0;
  tu_sender_commit(s, m->bytes, e->tag, m->bytes);
  tu_mover_ring(e->mover, s->world_peer);
  s->served++;
  return true;
}

static bool run_send(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                     size_t limit) {
  struct tu_sender *s = e->program->rings[ins->message.ring].sender;
  if (!my_turn(e, &ins->message, s->served)) return false;
  if (ins->message.parts > 1) return send_part(e, ins, progress, s, limit);
  bool moved = false;
  while (!progress->finished) {
    size_t slice = tu_min(ins->bytes - progress->done, s->slot_bytes);
    if (progress->done + slice > limit || !tu_sender_line(s)) break;
    load(e, &ins->source, progress->done, slice, ins->first, tu_sender_payload(s, slice));
    tu_sender_commit(s, slice, e->tag, ins->bytes);
    tu_mover_ring(e->mover, s->world_peer);
    progress->done += slice;
    moved = true;
    if (progress->done < ins->bytes) continue;
    s->served++;
    finish(e, progress);
  }
  return moved;
}

/* A message that had been set aside for this receive. */
static bool receive_early(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                          struct tu_receiver *r) {
  size_t bytes;
  const void *data = tu_matching_early(e, &bytes);
  if (bytes != ins->bytes) {
    e->mismatch = true;
    e->mismatch_peer = r->peer;
    e->mismatch_tag = e->tag;
    e->mismatch_bytes = bytes;
    e->expected_bytes = ins->bytes;
    return false;
  }
  store(e, &ins->target, 0, bytes, data);
  tu_matching_end(e, r);
  progress->done = bytes;
  finish(e, progress);
  return true;
}

static bool run_recv(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                     size_t limit) {
  const struct tu_message *m = &ins->message;
  struct tu_receiver *r = e->program->rings[m->ring].receiver;
  if (e->program->point_to_point) {
    if (!r->lines && !tu_mover_attach(e->mover, r)) return false;
    enum tu_match match = tu_matching_poll(e, r);
    if (match == TU_MATCH_NONE) return false;
    if (match == TU_MATCH_EARLY) return receive_early(e, ins, progress, r);
  } else if (!my_turn(e, m, r->served)) {
    return false;
  }
  bool moved = false;
  while (!progress->finished) {
    size_t slice = tu_min(ins->bytes - progress->done, r->slot_bytes);
    if (progress->done + slice > limit) break;
    const struct tu_line *line = next_line(e, r, m->bytes);
    if (!line) break;
    store(e, &ins->target, progress->done, slice, (const unsigned char *)tu_receiver_payload(r, line) + m->offset);
    progress->done += slice;
    used(e, m, r, progress->done == ins->bytes);
    moved = true;
    if (progress->done < ins->bytes) continue;
    if (e->program->point_to_point) tu_matching_end(e, r);
    finish(e, progress);
  }
  return moved;
}

/* Reduces bytes [done, done + bytes) of the target; remote operands stand in e->sources, pointing at `done`. Goes piece by
 * piece where a local operand or the target has gaps, or is scaled on the way. */
static void reduce_slice(struct tu_execution *e, const struct tu_instruction *ins, size_t done, size_t bytes) {
  const struct tu_program_operand *operands = e->program->operands + ins->operand_first;
  while (bytes > 0) {
    size_t piece = bytes, contiguous;
    unsigned char *target = place_at(e, &ins->target, done, &contiguous);
    piece = tu_min(piece, contiguous);
    for (uint32_t i = 0; i < ins->operand_count; i++) {
      if (operands[i].message.ring != TU_NO_RING) continue;
      e->sources[i] = place_at(e, &operands[i].place, done, &contiguous);
      piece = tu_min(piece, contiguous);
      if (scales(e, operands[i].first)) piece = tu_min(piece, SCALED_BYTES);
    }
    size_t count = item_count(e, piece);
    unsigned char *scaled = e->scratch;
    for (uint32_t i = 0; i < ins->operand_count; i++) {
      if (operands[i].message.ring != TU_NO_RING || !scales(e, operands[i].first)) continue;
      tu_scale(&e->arithmetic, scaled, e->sources[i], count);
      e->sources[i] = scaled;
      scaled += SCALED_BYTES;
    }
    tu_reduce(&e->arithmetic, target, e->sources, ins->operand_count, count, ins->final);
    for (uint32_t i = 0; i < ins->operand_count; i++)
      if (operands[i].message.ring != TU_NO_RING) e->sources[i] = (const unsigned char *)e->sources[i] + piece;
    done += piece, bytes -= piece;
  }
}

static bool run_recv_reduce(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                            size_t limit) {
  const struct tu_program_operand *operands = e->program->operands + ins->operand_first;
  const struct tu_ring_use *rings = e->program->rings;
  bool moved = false;
  while (!progress->finished) {
    size_t slice = tu_min(ins->bytes - progress->done, e->mover->block->shape.slot_bytes);
    if (progress->done + slice > limit) break;
    for (uint32_t i = 0; i < ins->operand_count; i++) {
      const struct tu_message *m = &operands[i].message;
      if (m->ring == TU_NO_RING) continue;
      struct tu_receiver *r = rings[m->ring].receiver;
      if (!my_turn(e, m, r->served)) return moved;
      const struct tu_line *line = next_line(e, r, m->bytes);
      if (!line) return moved;
      e->sources[i] = (const unsigned char *)tu_receiver_payload(r, line) + m->offset;
    }
    reduce_slice(e, ins, progress->done, slice);
    progress->done += slice;
    bool last = progress->done == ins->bytes;
    for (uint32_t i = 0; i < ins->operand_count; i++) {
      const struct tu_message *m = &operands[i].message;
      if (m->ring != TU_NO_RING) used(e, m, rings[m->ring].receiver, last);
    }
    moved = true;
    if (last) finish(e, progress);
  }
  return moved;
}

static bool run_local(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                      size_t limit) {
  size_t bytes = tu_min(limit - progress->done, LOCAL_SLICE);
  if (ins->kind == TU_REDUCE) {
    reduce_slice(e, ins, progress->done, bytes);
  } else {
    size_t done = progress->done, left = bytes;
    while (left > 0) {
      size_t contiguous;
      unsigned char *target = place_at(e, &ins->target, done, &contiguous);
      size_t piece = tu_min(left, contiguous);
      /* In place only a first load is left to do. */
      size_t source_contiguous;
      if (scales(e, ins->first) || place_at(e, &ins->source, done, &source_contiguous) != target)
        load(e, &ins->source, done, piece, ins->first, target);
      done += piece, left -= piece;
    }
  }
  progress->done += bytes;
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
    case TU_SEND: return run_send(e, ins, progress, limit);
    case TU_RECV: return run_recv(e, ins, progress, limit);
    case TU_RECV_REDUCE: return run_recv_reduce(e, ins, progress, limit);
    default: return run_local(e, ins, progress, limit);
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
    if (ins->kind == TU_SEND) waits_for[p->rings[ins->message.ring].sender->peer] = true;
    if (ins->kind == TU_RECV) waits_for[p->rings[ins->message.ring].receiver->peer] = true;
    for (uint32_t k = 0; k < ins->operand_count; k++) {
      uint32_t ring = p->operands[ins->operand_first + k].message.ring;
      if (ring == TU_NO_RING) continue;
      const struct tu_receiver *r = p->rings[ring].receiver;
      if (!r->lines || !tu_receiver_line(r)) waits_for[r->peer] = true;
    }
  }
}
