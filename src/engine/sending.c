/* sending.c: how a message crosses is decided when its first slice is to go, by what each end's memory is: neither plan nor
 * program know it, and its receiver is told with each slice.
 *
 * A short message lies in its line. If its receiver has posted a target in memory that both map, it is stored there. If
 * the source is such memory, and nothing in the program waits for the send, it is lent: the receiver reads it there, and
 * the send is over when it has. (A send that is waited for must end when its source has been read here: partners that
 * exchange in place would wait for each other for ever.) Everything else is staged. */
#include "engine/engine.h"

/* What is shorter is better lent than stored: the target's lines may be in its owner's cache, who can write them faster; what
 * is longer is in no cache, and the one who has it shares the work. (What is just being made is stored on the way.) */
#define STORE_BYTES ((size_t)1 << 20)
#define LEND_SLICE ((size_t)64 << 10)      /* lent while its source is being made: at least so much at a time */
#define DIRECT_SLICE_MAX ((size_t)1 << 30) /* lent or stored: lines count in 32 bits */

static bool all_posted(const struct tu_execution *e, const struct tu_instruction *ins) {
  const struct tu_message *m = e->program->messages + ins->message_first;
  for (uint32_t i = 0; i < ins->message_count; i++)
    if (!tu_sender_posted(m[i].sender, e->tickets[m[i].ring] + m[i].ordinal)) return false;
  return true;
}

/* Does every receiver map this rank's memory? */
static bool all_map(const struct tu_execution *e, const struct tu_instruction *ins) {
  const struct tu_message *m = e->program->messages + ins->message_first;
  bool map = true;
  for (uint32_t i = 0; i < ins->message_count && e->mover->control.remote; i++)
    map &= tu_control_local(&e->mover->control, m[i].sender->peer) != TU_REMOTE;
  return map;
}

static bool may_lend(const struct tu_execution *e, const struct tu_instruction *ins) {
  if (!ins->lasting || ins->bytes < e->direct_bytes || ins->source.run_count != 1 || ins->source.fold ||
      !e->places[ins->source.buffer] || !all_map(e, ins))
    return false;
  if (ins->first && !e->arithmetic.user && e->arithmetic.op == TUTTI_PREMUL_SUM) return false;
  /* Who sends something that a channel can hold does not expect to wait for its receiver. */
  return !e->program->point_to_point || ins->bytes > e->mover->shape.ring_bytes;
}

static enum tu_way choose_way(const struct tu_execution *e, const struct tu_instruction *ins) {
  if (ins->bytes <= TU_INLINE_BYTES) return TU_WAY_INLINE;
  bool lend = may_lend(e, ins);
  if (lend && !ins->follows && ins->bytes < STORE_BYTES) return TU_WAY_LENT;
  if (all_posted(e, ins)) return TU_WAY_STORED;
  return lend ? TU_WAY_LENT : TU_WAY_STAGED;
}

/* Is it the message's turn, and is there a credit, on every ring? */
static bool is_ready(struct tu_execution *e, const struct tu_instruction *ins) {
  const struct tu_message *m = e->program->messages + ins->message_first;
  for (uint32_t i = 0; i < ins->message_count; i++) {
    struct tu_sender *s = m[i].sender;
    if (s->served != e->tickets[m[i].ring] + m[i].ordinal || !tu_sender_ready(s)) return false;
  }
  return ins->cast == TU_NO_CAST || e->program->cast->served == e->cast_ticket + ins->cast;
}

static bool stage(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                  size_t bytes) {
  if (ins->cast != TU_NO_CAST) progress->place = tu_cast_room(e->program->cast, bytes);
  else progress->place = tu_sender_room(e->program->messages[ins->message_first].sender, bytes);
  return progress->place != 0;
}

/* What a peer's cache may hold is written past the caches, if that peer is far. */
static bool is_far(const struct tu_execution *e, const struct tu_instruction *ins, size_t bytes) {
  const struct tu_message *m = e->program->messages + ins->message_first;
  bool far = false;
  for (uint32_t i = 0; i < ins->message_count; i++) far |= tu_sender_far(m[i].sender);
  return far && bytes >= TU_STREAM_BYTES;
}

bool tu_send_room(struct tu_execution *e, uint32_t instruction, size_t *bytes, uint32_t *count) {
  const struct tu_instruction *ins = &e->program->instructions[instruction];
  struct tu_progress *progress = &e->progress[instruction];
  const struct tu_message *m = e->program->messages + ins->message_first;
  if (!is_ready(e, ins)) return false;
  if (progress->way == TU_WAY_OPEN) progress->way = (uint8_t)choose_way(e, ins);
  switch ((enum tu_way)progress->way) {
    case TU_WAY_STAGED:
      *bytes = tu_min(*bytes, e->slot_bytes);
      if (!stage(e, ins, progress, *bytes)) return false;
      e->targets[(*count)++] = e->mover->transport->base + progress->place;
      if (is_far(e, ins, *bytes)) e->past |= TU_PAST_REST;
      return true;
    case TU_WAY_STORED:
      if (*bytes > DIRECT_SLICE_MAX) *bytes = tu_program_whole(e->program, DIRECT_SLICE_MAX);
      for (uint32_t i = 0; i < ins->message_count; i++) {
        uint64_t place = tu_sender_posted(m[i].sender, e->tickets[m[i].ring] + m[i].ordinal);
        e->targets[(*count)++] = e->mover->transport->base + place + progress->done;
      }
      /* This core will not read it; nor will the other one soon, if there is much. */
      if (is_far(e, ins, *bytes) || e->past & TU_PAST_FIRST) e->past |= TU_PAST_REST;
      return true;
    case TU_WAY_LENT:
      if (*bytes > DIRECT_SLICE_MAX) *bytes = tu_program_whole(e->program, DIRECT_SLICE_MAX);
      return *bytes >= LEND_SLICE || progress->done + *bytes == ins->bytes;
    default:
      for (uint32_t i = 0; i < ins->message_count; i++)
        e->targets[(*count)++] = tu_sender_line(m[i].sender)->at.payload;
      return true;
  }
}

void tu_send_publish(struct tu_execution *e, uint32_t instruction, size_t bytes) {
  const struct tu_instruction *ins = &e->program->instructions[instruction];
  struct tu_progress *progress = &e->progress[instruction];
  const struct tu_message *m = e->program->messages + ins->message_first;
  bool last = progress->done + bytes == ins->bytes, staged = progress->way == TU_WAY_STAGED;
  if (staged && ins->cast != TU_NO_CAST) tu_cast_fill(e->program->cast, progress->place, bytes);
  if (progress->way == TU_WAY_LENT)
    progress->place = e->places[ins->source.buffer] + ins->source.offset + progress->done;
  for (uint32_t i = 0; i < ins->message_count; i++) {
    struct tu_sender *s = m[i].sender;
    if (staged && ins->cast == TU_NO_CAST) tu_staging_fill(&s->staging, progress->place, bytes);
    else if (staged) tu_cast_add(e->program->cast, s);
    if (progress->way != TU_WAY_INLINE) tu_sender_line(s)->at.place = progress->place;
    tu_sender_commit(s, bytes, e->tag, ins->bytes, progress->way == TU_WAY_STORED);
    e->sequences[ins->message_first + i] = s->sent;
    s->served += last;
    tu_mover_ring(e->mover, s->bell);
  }
  if (last && ins->cast != TU_NO_CAST) e->program->cast->served++;
  progress->done += bytes;
}

bool tu_send_returned(struct tu_execution *e, uint32_t instruction) {
  const struct tu_instruction *ins = &e->program->instructions[instruction];
  if (e->progress[instruction].way != TU_WAY_LENT) return true;
  for (uint32_t i = 0; i < ins->message_count; i++) {
    uint32_t message = ins->message_first + i;
    if (!tu_sender_taken(e->program->messages[message].sender, e->sequences[message])) return false;
  }
  return true;
}
