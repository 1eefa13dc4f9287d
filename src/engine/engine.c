/* engine.c: the main loop of the engine. Each instruction records its own progress in bytes. It may advance as far as
 * the instructions that it depends on allow. A message crosses slice by slice: a slice is sent when there is a credit
 * (a free slot) and its data is ready. */
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 128u /* number of instructions that are polled together, from the first unfinished one on */
/* bytes of a tensor that are packed (copied into logical order) at a time, if they are packed into a buffer of the
 * engine, not directly into a message */
#define FOLD_BYTES 4096u
/* bytes of a message in another process that are read at a time, if they belong into the layout of a tensor */
#define READ_ROOM 16384u
/* operation premul_sum: bytes of an operand that are multiplied by the factor at a time */
#define SCALED_BYTES FOLD_BYTES
/* A local copy or reduction stops after this many bytes, and continues after other instructions have run. */
#define LOCAL_SLICE ((size_t)256 << 10)
/* The same for one that is shared out, per thread: it is longer, so that few forks and joins of threads are needed. */
#define SHARED_LOCAL_SLICE ((size_t)1 << 20)
/* Maximum bytes of a local copy of an allgather before a message that is read (copy_own): half of a second-level cache of
 * 2 MiB. In an alltoallv of 1 MiB on two ranks of a mesh, 256 KiB take 7 us before, 14 after; an allgather of 2 MiB blocks gets
 * slower. */
#define OWN_BYTES_MAX ((size_t)1 << 20)

/* blocks of the arena of an execution: those of most have all of it */
#define BLOCK_BYTES ((size_t)1 << 10)

/* Allocates memory that begins on a cache line. */
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
        return tu_fail_memory(error, 64, "the state of receives from rank %u", program->rings[i].receiver->peer);
    if (program->from_any && tu_matching_prepare_from(e->mover, TUTTI_ANY_RANK, error) != TUTTI_OK) return error->code;
    e->expected = tu_arena_allocate(arena, program->ring_count, sizeof *e->expected);
  }
  if (program->raw_operands_max > 0) e->scratch = tu_arena_allocate(arena, program->raw_operands_max, SCALED_BYTES);
  tu_partition_init(e);
  if (program->folded) e->folded = allocate_lines(((size_t)program->operands_max + 1) * FOLD_BYTES);
  if (program->tmp_bytes > 0) e->tmp = allocate_lines(program->tmp_bytes);
  return TUTTI_OK;
}

tutti_err tu_execution_init(struct tu_execution *e, const struct tu_program *program, struct tu_mover *mover,
                            struct tu_error *error) {
  *e = (struct tu_execution){.program = program, .mover = mover, .arena.block_bytes = BLOCK_BYTES};
  if (mover->transport->parallel.threads > 1) e->parallel = &mover->transport->parallel;
  e->direct_bytes = TU_DIRECT_BYTES;
  e->fold_bytes = tu_program_whole(program, FOLD_BYTES);
  e->slot_bytes = tu_program_whole(program, program->slot_bytes);
  e->cast_slot_bytes = tu_program_whole(program, mover->shape.cast_slot_bytes);
  e->far_slot_bytes = tu_program_whole(program, mover->far_shape.slot_bytes);
  if (tu_execution_may_read(e)) tu_peer_memory_ask(mover->transport);
  tutti_err err =
      tu_arena_build(prepare, e, "the execution of a call (an algorithm without scratch buffers needs less)", error);
  if (err != TUTTI_OK) tu_execution_fini(e);
  return err;
}

void tu_execution_fini(struct tu_execution *e) {
  if (!e->program) return;
  if (e->unfinished > 0 && e->expected)
    for (uint32_t i = 0; i < e->program->ring_count; i++) tu_matching_cancel(e->mover, &e->expected[i]);
  free(e->folded);
  free(e->tmp);
  free(e->hops);
  free(e->teller);
  tu_arena_fini(&e->arena);
  e->program = NULL;
}

/* Sends the address of a receive's target to its sender (for rendezvous put), if the message is long enough and the
 * target is one contiguous run of shared memory. If the sender is on another host, tells the wire the address, and the
 * target may be in any memory. */
static void post(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress) {
  const struct tu_message *m = &e->program->messages[ins->message_first];
  struct tu_receiver *r = m->receiver;
  uint64_t ticket = e->tickets[m->ring] + m->ordinal;
  if (ins->bytes < e->direct_bytes || ins->target.run_count != 1 || ins->target.fold || m->parts > 1 ||
      e->program->point_to_point || !tu_receiver_may_post(r, ticket))
    return;
  if (r->aims) {
    tu_receiver_aim(r, ticket, e->base[ins->target.buffer] + ins->target.offset, e->tag, ins->bytes);
  } else {
    const uint64_t target = tu_execution_shared(e, &ins->target, ins->bytes);
    if (!target) return;
    e->mover->control.exposes = true;
    tu_receiver_post(r, ticket, target);
  }
  progress->posted = true;
}

void tu_execution_point(struct tu_execution *e, struct tu_program *program, enum tu_buffer buffer, const void *base,
                        const void *const addresses[]) {
  tu_assert(e->program == program && (e->unfinished == 0 || e->mismatch));
  tu_program_point(program, buffer, base, addresses);
  /* the fast path has prepared its instructions for the addresses before */
  free(e->hops);
  e->hops = NULL;
}

void tu_execution_start(struct tu_execution *e, const void *in, void *out, uint64_t tag) {
  const struct tu_program *p = e->program;
  memcpy(&e->base[TU_IN], &in, sizeof in);
  e->base[TU_OUT] = out;
  e->base[TU_TMP] = e->tmp;
  for (int i = 0; i < 3; i++)
    e->segment_offsets[i] = p->pointed[i] ? 0 : tu_transport_offset_of(e->mover->transport, e->base[i], p->extents[i]);
  e->tag = tag;
  e->announced = p->point_to_point || p->longest_bytes < e->direct_bytes;
  e->head = 0;
  e->unfinished = p->instruction_count;
  e->mismatch = e->no_memory = false;
  e->unread = 0;
  memset(e->readable, 0, sizeof e->readable);
  memset(e->progress, 0, p->instruction_count * sizeof *e->progress);
  for (uint32_t i = 0; i < p->ring_count; i++) {
    e->tickets[i] = *tu_program_tickets(p, i);
    *tu_program_tickets(p, i) += p->rings[i].messages;
    if (p->from_any) tu_matching_post_any(e->mover, &e->expected[i], (uint32_t)tag);
    else if (e->expected) tu_matching_post(e->mover, &e->expected[i], (uint32_t)tag, p->rings[i].receiver);
  }
  if (p->cast) {
    e->cast_ticket = p->cast->tickets;
    p->cast->tickets += p->cast_messages;
  }
  if (e->partition) tu_partition_start(e);
  /* Posts the addresses of receive buffers (for rendezvous put) before this rank sends any message. So a peer that
   * sends only after it has received a message of this call already knows the address to write to. If other ranks do
   * not map OUT, they cannot write there, and no address is posted. */
  if (e->segment_offsets[TU_OUT] == 0 && !p->pointed[TU_OUT] && !e->mover->control.remote) return;
  for (uint32_t i = 0; i < p->instruction_count; i++)
    if (p->instructions[i].kind == TU_RECV && p->instructions[i].after_count == 0)
      post(e, &p->instructions[i], &e->progress[i]);
}

/* ---- addresses and copies ---- */

/* Returns where byte `done` of a byte range lies, as an offset in its buffer. *contiguous: number of bytes from there
 * without a gap. */
static inline size_t offset_of(const struct tu_byte_range *range, size_t done, size_t *contiguous) {
  if (range->run_count <= 1) {
    *contiguous = SIZE_MAX;
    return range->offset + done;
  }
  const struct tu_run *run = range->runs;
  while (done >= run->bytes) done -= run++->bytes;
  *contiguous = run->bytes - done;
  return run->offset + done;
}

/* Returns the address from which to read a byte range, from byte `done` on; may reduce *bytes. If the range has a
 * `fold`, the data lies in the layout of a tensor. Then at most FOLD_BYTES are packed into `room`, and the result is
 * `room`. */
static inline const unsigned char *read_range(const struct tu_execution *e, const struct tu_byte_range *range,
                                              size_t done, size_t *bytes, unsigned char *room) {
  size_t contiguous, offset = offset_of(range, done, &contiguous);
  *bytes = tu_min(*bytes, contiguous);
  const unsigned char *base = e->base[range->buffer];
  if (!range->fold) return base + offset;
  *bytes = tu_min(*bytes, e->fold_bytes);
  tu_fold_pack(range->fold, base, offset, *bytes, room);
  return room;
}

/* Returns the address at which to write a byte range, from byte `done` on; may reduce *bytes. If the range has a
 * `fold`, the data belongs into the layout of a tensor. Then the result is `room`, and the caller calls wrote_range
 * afterwards, which unpacks the bytes into the tensor. */
static inline unsigned char *write_range(const struct tu_execution *e, const struct tu_byte_range *range, size_t done,
                                         size_t *bytes, unsigned char *room) {
  size_t contiguous, offset = offset_of(range, done, &contiguous);
  *bytes = tu_min(*bytes, contiguous);
  if (!range->fold) return e->base[range->buffer] + offset;
  *bytes = tu_min(*bytes, e->fold_bytes);
  return room;
}

static inline void wrote_range(const struct tu_execution *e, const struct tu_byte_range *range, size_t done,
                               size_t bytes, const unsigned char *from) {
  size_t contiguous;
  if (range->fold)
    tu_fold_unpack(range->fold, e->base[range->buffer], offset_of(range, done, &contiguous), bytes, from);
}

static inline bool scales(const struct tu_execution *e, bool first) {
  return first && !e->arithmetic.user && e->arithmetic.op == TUTTI_PREMUL_SUM;
}

static size_t item_count(const struct tu_execution *e, size_t bytes) { return bytes / e->program->item_bytes; }

/* Sets e->past (which targets get non-temporal stores) for the next slice. The first target, e->targets[0], gets such
 * stores if the caches cannot hold all data that the program moves. The other targets get none yet: they belong to
 * other ranks, and sending.c decides about them. */
static inline void begin_slice(struct tu_execution *e) {
  e->past = tu_execution_overflows(e) ? TU_PAST_FIRST : TU_PAST_NONE;
}

/* Returns which targets get non-temporal stores if all targets belong to other ranks: all of them or none. */
static inline enum tu_past past_of_send(const struct tu_execution *e) {
  return e->past & TU_PAST_REST ? TU_PAST_ALL : TU_PAST_NONE;
}

/* Copies and reduces as tu_copy_into and tu_reduce_into do; long pieces are shared out. */
static inline void copy_piece(const struct tu_execution *e, void *const dsts[], uint32_t dst_count, enum tu_past past,
                              const void *src, size_t bytes) {
  if (e->parallel && bytes >= TU_SHARED_BYTES) tu_share_copy(e->parallel, dsts, dst_count, past, src, bytes);
  else tu_copy_into(dsts, dst_count, past, src, bytes);
}

static inline void reduce_piece(const struct tu_execution *e, uint32_t dst_count, uint32_t source_count, size_t bytes,
                                unsigned how) {
  void *const *dsts = (void *const *)e->targets;
  const size_t count = item_count(e, bytes);
  if (e->parallel && bytes >= TU_SHARED_BYTES)
    tu_share_reduce(e->parallel, &e->arithmetic, dsts, dst_count, e->past, e->sources, source_count, count, how);
  else tu_reduce_into(&e->arithmetic, dsts, dst_count, e->past, e->sources, source_count, count, how);
}

/* Reads `bytes` bytes of the range `from`, from byte `done` on, and writes them to the first `count` of e->targets.
 * first: the bytes are input that no step has scaled yet, so premul_sum multiplies them by its factor here. */
static void load(struct tu_execution *e, const struct tu_byte_range *from, size_t done, size_t bytes, bool first,
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
    copy_piece(e, (void *const *)e->targets + there, count - there, past_of_send(e), at, piece);
    for (uint32_t i = 0; i < count; i++) e->targets[i] += piece;
    done += piece, bytes -= piece;
  }
}

/* Writes `bytes` bytes to the range `to`, from byte `done` on, and to e->targets[1] .. e->targets[target_count - 1]. */
static void write_slice(struct tu_execution *e, const struct tu_byte_range *to, size_t done, size_t bytes,
                        const unsigned char *from, uint32_t target_count) {
  while (bytes > 0) {
    size_t contiguous, offset = offset_of(to, done, &contiguous), piece = tu_min(bytes, contiguous);
    bool folded = to->fold != NULL;
    if (folded) tu_fold_unpack(to->fold, e->base[to->buffer], offset, piece, from);
    else e->targets[0] = e->base[to->buffer] + offset;
    copy_piece(e, (void *const *)e->targets + folded, target_count - folded, folded ? past_of_send(e) : e->past, from,
               piece);
    for (uint32_t i = 1; i < target_count; i++) e->targets[i] += piece;
    done += piece, from += piece, bytes -= piece;
  }
}

/* As write_slice, but reads the bytes from the address `from` of the process of rank `rank` of the segment. Returns false
 * if that is not possible. */
static bool fetch_slice(struct tu_execution *e, const struct tu_byte_range *to, size_t done, size_t bytes,
                        uint32_t rank, uint64_t from, uint32_t target_count) {
  unsigned char room[READ_ROOM];
  while (bytes > 0) {
    size_t contiguous, offset = offset_of(to, done, &contiguous), piece = tu_min(bytes, contiguous);
    if (to->fold) piece = tu_min(piece, sizeof room);
    unsigned char *at = to->fold ? room : e->base[to->buffer] + offset;
    if (!tu_peer_memory_read(e->mover->transport, rank, from, at, piece)) return false;
    if (to->fold) tu_fold_unpack(to->fold, e->base[to->buffer], offset, piece, at);
    if (target_count > 1) copy_piece(e, (void *const *)e->targets + 1, target_count - 1, past_of_send(e), at, piece);
    for (uint32_t i = 1; i < target_count; i++) e->targets[i] += piece;
    done += piece, from += piece, bytes -= piece;
  }
  return true;
}

static void store(const struct tu_execution *e, const struct tu_byte_range *to, size_t done, size_t bytes,
                  const unsigned char *from) {
  while (bytes > 0) {
    size_t contiguous, offset = offset_of(to, done, &contiguous), piece = tu_min(bytes, contiguous);
    if (to->fold) tu_fold_unpack(to->fold, e->base[to->buffer], offset, piece, from);
    else tu_copy_short(e->base[to->buffer] + offset, from, piece);
    done += piece, from += piece, bytes -= piece;
  }
}

/* ---- dependencies, and the order of messages on a channel ---- */

/* Returns true if an instruction may advance, and sets *limit to the number of its bytes that may be finished now.
 * These are the bytes for which all instructions that it depends on have advanced far enough. An instruction of 0 bytes
 * waits until all these instructions are finished. */
static bool may_go(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                   size_t *limit) {
  *limit = ins->bytes;
  /* true for every instruction without dependencies; `afters` below may be NULL if no instruction has any */
  if (progress->afters_finished == ins->after_count) return true;
  const struct tu_after *afters = e->program->afters + ins->after_first;
  while (progress->afters_finished < ins->after_count && e->progress[afters[progress->afters_finished].before].finished)
    progress->afters_finished++;
  if (progress->afters_finished == ins->after_count) return true;
  for (uint32_t i = progress->afters_finished; i < ins->after_count; i++) {
    const struct tu_progress *before = &e->progress[afters[i].before];
    if (before->finished) continue;
    if (!afters[i].sliced) return false;
    *limit = tu_min(*limit, before->way == TU_WAY_LENT ? tu_send_returned_bytes(e, afters[i].before) : before->done);
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

/* Returns the next message line that a receiver has not read; NULL if no line has arrived, or if the line does not
 * match this call. A mismatch is recorded in the execution. */
static const struct tu_line *next_line(struct tu_execution *e, struct tu_receiver *r, size_t message_bytes) {
  if (!r->lines && !tu_mover_attach(e->mover, r)) return NULL;
  const struct tu_line *line = tu_receiver_line(r);
  if (!line) return NULL;
  if (line->tag == e->tag && line->message_bytes == message_bytes) return line;
  note_mismatch(e, r, line->tag, line->message_bytes, message_bytes);
  return NULL;
}

/* Reads bytes of a slice that lies in the sender's process. Returns false if that is not possible. Then the process has
 * ended, which the check of peers finds; or its program has changed what other processes may read, which is recorded. */
static bool read_slice(struct tu_execution *e, const struct tu_instruction *ins, size_t done, size_t bytes,
                       const struct tu_receiver *r, const struct tu_line *line, uint32_t target_count) {
  if (fetch_slice(e, &ins->target, done, bytes, r->bell, line->at.offset + r->used, target_count)) return true;
  if (errno == ESRCH) return false;
  e->unread = errno;
  note_mismatch(e, r, line->tag, line->message_bytes, ins->bytes);
  return false;
}

static void take(const struct tu_execution *e, struct tu_receiver *r) {
  tu_receiver_release(r);
  tu_mover_ring(e->mover, r->bell);
}

/* Marks one part of a joined message as used. (A joined message carries the data of several send steps in one slice.)
 * After the last part, returns the credit of the message, which is at the head of the channel. */
static inline void take_part(const struct tu_execution *e, const struct tu_message *m, struct tu_receiver *r) {
  if (++r->parts_taken < m->parts) return;
  r->parts_taken = 0;
  r->served++;
  take(e, r);
}

/* Marks bytes of the slice at the head of the channel as used. After the last byte, returns the credit of the slice. */
static inline void use(const struct tu_execution *e, struct tu_receiver *r, const struct tu_line *line, size_t bytes) {
  r->used += (uint32_t)bytes;
  if (r->used == line->bytes) take(e, r);
}

/* ---- sends that forward what an instruction writes ---- */

static bool only_waits_for(const struct tu_execution *e, const struct tu_instruction *ins, uint32_t producer) {
  for (uint32_t i = 0; i < ins->after_count; i++) {
    uint32_t before = e->program->afters[ins->after_first + i].before;
    if (before != producer && !e->progress[before].finished) return false;
  }
  return true;
}

/* Some sends forward what instruction `producer` writes. Chooses those that can forward its next slice now. Stores them
 * in e->chosen and returns their number; appends the addresses that they write to e->targets. May reduce *slice, the
 * bytes of the slice. Never waits. */
static uint32_t choose_onward(struct tu_execution *e, uint32_t producer, size_t *slice, uint32_t *target_count) {
  const struct tu_instruction *ins = &e->program->instructions[producer];
  uint32_t count = 0;
  for (uint32_t i = 0; i < ins->onward_count; i++) {
    uint32_t send = e->program->onward[ins->onward_first + i], targets = *target_count;
    const struct tu_progress *p = &e->progress[send];
    if (p->done != e->progress[producer].done || tu_is_lent(p)) continue;
    if (!only_waits_for(e, &e->program->instructions[send], producer)) continue;
    if (!tu_send_room(e, send, slice, target_count)) continue;
    /* A send that has added a target address is chosen. A send that has added none uses rendezvous get: its receivers
     * read this rank's buffer, so it is sent only after `producer` has written the data there. */
    if (*target_count > targets) e->chosen[count++] = send;
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

/* ---- instructions: each function returns true if the instruction advanced ---- */

/* Writes one part of a joined message, which carries the data of several send steps in one slice. The parts may be
 * written in any order. Writing the last one also publishes the slice. */
static bool send_part(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                      size_t limit) {
  const struct tu_message *m = &e->program->messages[ins->message_first];
  struct tu_sender *s = m->sender;
  if (limit < ins->bytes || !my_turn(e, m, s->served) || !tu_sender_ready(s)) return false;
  struct tu_line *line = tu_sender_line(s);
  bool staged = m->bytes > TU_INLINE_BYTES;
  uint64_t segment_offset = staged ? tu_sender_room(s, m->bytes) : 0;
  if (staged && !segment_offset) return false;
  begin_slice(e);
  e->targets[0] = (staged ? s->base + segment_offset : line->at.payload) + m->offset;
  load(e, &ins->source, 0, ins->bytes, ins->first, 1);
  finish(e, progress);
  if (++s->parts_filled < m->parts) return true;
  s->parts_filled = 0;
  if (staged) {
    tu_staging_fill(&s->staging, segment_offset, m->bytes);
    line->at.offset = segment_offset;
  }
  tu_sender_commit(s, m->bytes, e->tag, m->bytes, TU_IN_SEGMENT);
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

/* Receives a message that was copied into separate memory before its receive was started. */
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
  tu_matching_end(expected);
  progress->done = bytes;
  finish(e, progress);
  return true;
}

/* Searches for the message of a point-to-point receive. Sets *r to its channel, and e->tag to its tag. */
static enum tu_match find_message(struct tu_execution *e, const struct tu_instruction *ins, struct tu_receiver **r) {
  struct tu_expected *expected = &e->expected[e->program->messages[ins->message_first].ring];
  const enum tu_match match = tu_matching_poll(e->mover, expected, r);
  if (match == TU_MATCH_NO_MEMORY) {
    const struct tu_line *line = tu_receiver_line(*r);
    note_mismatch(e, *r, line->tag, line->message_bytes, ins->bytes);
    e->no_memory = true;
  } else if (match != TU_MATCH_NONE) {
    e->tag = tu_p2p_tag(expected->tag, tu_p2p_lanes(e->tag));
  }
  return match;
}

/* Receives one part of a joined message, which carries the data of several send steps in one slice. So all parts arrive
 * together, and each receive step takes its own part. */
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
  if (e->expected) {
    const enum tu_match match = find_message(e, ins, &r);
    if (match == TU_MATCH_EARLY) return receive_early(e, ins, progress, r);
    if (match != TU_MATCH_HEAD) return false;
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
    if (line->where != TU_IN_TARGET) {
      uint32_t targets = 1;
      begin_slice(e);
      chosen = choose_onward(e, i, &slice, &targets);
      if (line->where == TU_IN_PROCESS) {
        if (!read_slice(e, ins, progress->done, slice, r, line, targets)) break;
      } else {
        write_slice(e, &ins->target, progress->done, slice, tu_receiver_payload(r, line) + r->used, targets);
      }
    }
    publish_onward(e, chosen, slice);
    progress->done += slice;
    use(e, r, line, slice);
    moved = true;
    /* Some sends that forward this data could not take the slice. End this poll, so that they send it before more data
     * arrives. */
    if (progress->done < ins->bytes && chosen < ins->onward_count) break;
    if (progress->done < ins->bytes) continue;
    r->served++;
    if (e->expected) tu_matching_end(&e->expected[m->ring]);
    finish(e, progress);
  }
  return moved;
}

/* Reduces bytes [done, done + bytes) of the target. e->sources holds the addresses of the operands that peers have
 * sent, from byte `done` on. e->targets, from index 1 on, holds the addresses for further copies of the result. Works
 * piece by piece if a local operand or the target is not contiguous, or if an operand must be scaled. */
static void reduce_slice(struct tu_execution *e, const struct tu_instruction *ins, size_t done, size_t bytes,
                         uint32_t target_count) {
  const struct tu_program_operand *operands = e->program->operands + ins->operand_first;
  while (bytes > 0) {
    size_t piece = bytes;
    unsigned char *room = e->folded, *result = write_range(e, &ins->target, done, &piece, room);
    e->targets[0] = result;
    for (uint32_t i = 0; i < ins->operand_count; i++) {
      if (operands[i].message.ring != TU_NO_RING) continue;
      if (scales(e, operands[i].first)) piece = tu_min(piece, e->fold_bytes);
      if (operands[i].range.fold) room += e->fold_bytes;
      e->sources[i] = read_range(e, &operands[i].range, done, &piece, room);
    }
    size_t count = item_count(e, piece);
    unsigned char *scaled = e->scratch;
    for (uint32_t i = 0; i < ins->operand_count; i++) {
      if (operands[i].message.ring != TU_NO_RING || !scales(e, operands[i].first)) continue;
      tu_scale(&e->arithmetic, scaled, e->sources[i], count);
      e->sources[i] = scaled;
      scaled += SCALED_BYTES;
    }
    reduce_piece(e, target_count, ins->operand_count, piece, ins->how);
    wrote_range(e, &ins->target, done, piece, result);
    for (uint32_t i = 0; i < ins->operand_count; i++)
      if (operands[i].message.ring != TU_NO_RING) e->sources[i] = (const unsigned char *)e->sources[i] + piece;
    for (uint32_t i = 1; i < target_count; i++) e->targets[i] += piece;
    done += piece, bytes -= piece;
  }
}

/* Finds how many bytes have arrived of every operand that comes from a peer. Limits *slice to the smallest of these
 * numbers, and sets the operands' addresses in e->sources. Returns false if nothing has arrived of some operand. */
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
    /* Some sends that forward this result could not take the slice. End this poll, so that they send it before more is
     * reduced. */
    if (chosen < ins->onward_count) break;
  }
  return moved;
}

static void copy_slice(struct tu_execution *e, const struct tu_instruction *ins, size_t done, size_t bytes,
                       uint32_t target_count) {
  while (bytes > 0) {
    size_t piece = bytes;
    unsigned char *target = write_range(e, &ins->target, done, &piece, e->folded);
    const unsigned char *source = read_range(e, &ins->source, done, &piece, target);
    if (scales(e, ins->first)) {
      tu_scale(&e->arithmetic, target, source, item_count(e, piece));
      source = target;
    }
    /* true: copy_piece below need not write the target. Either source and target are the same memory, or the target
     * has a `fold`, and wrote_range copies the data to it. */
    bool there = source == target || ins->target.fold;
    wrote_range(e, &ins->target, done, piece, source);
    e->targets[0] = target;
    copy_piece(e, (void *const *)e->targets + there, target_count - there, there ? past_of_send(e) : e->past, source,
               piece);
    for (uint32_t i = 1; i < target_count; i++) e->targets[i] += piece;
    done += piece, bytes -= piece;
  }
}

static bool run_local(struct tu_execution *e, uint32_t i, size_t limit) {
  const struct tu_instruction *ins = &e->program->instructions[i];
  struct tu_progress *progress = &e->progress[i];
  size_t slice = limit - progress->done, most = LOCAL_SLICE;
  if (e->parallel) most = SHARED_LOCAL_SLICE * e->parallel->threads;
  if (slice > most) slice = tu_program_whole(e->program, most);
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

/* Advances instruction i as far as possible; returns true if it advanced. */
static bool move(struct tu_execution *e, uint32_t i) {
  const struct tu_instruction *ins = &e->program->instructions[i];
  struct tu_progress *progress = &e->progress[i];
  size_t limit;
  if (progress->finished || !may_go(e, ins, progress, &limit)) return false;
  switch (ins->kind) {
    case TU_SEND: return run_send(e, i, limit);
    case TU_RECV: return run_recv(e, i, limit);
    case TU_RECV_REDUCE: return run_recv_reduce(e, i, limit);
    case TU_FILL: return false; /* a gate (an instruction that waits for input) advances when the caller fills input */
    default: return run_local(e, i, limit);
  }
}

/* Tells what instruction i has done since the teller was last told. */
static void tell(struct tu_execution *e, uint32_t i) {
  const struct tu_progress *p = &e->progress[i];
  size_t *told = &e->teller->told[i], done = p->finished ? e->program->instructions[i].bytes : p->done;
  if (*told == SIZE_MAX || (done == *told && !p->finished)) return;
  e->teller->tell(e->teller, i, done - *told, p->finished);
  *told = p->finished ? SIZE_MAX : done;
}

/* Tells of instruction i, which has advanced, and of the sends that forward what it has written. */
static void tell_all(struct tu_execution *e, uint32_t i) {
  const struct tu_instruction *ins = &e->program->instructions[i];
  tell(e, i);
  for (uint32_t k = 0; k < ins->onward_count; k++) tell(e, e->program->onward[ins->onward_first + k]);
}

/* Carries out the local copies that wait for nothing, before a message is read from the other process: what they copy is still
 * in the cache of this core. Not long ones of an allgather, whose source the other rank also reads. With more ranks that saves
 * nothing, as the copies are a smaller part. */
static void copy_own(struct tu_execution *e, bool tells) {
  const size_t most = e->program->reading == TU_READING_EXCHANGE ? SIZE_MAX : OWN_BYTES_MAX;
  for (uint32_t i = 0; i < e->program->instruction_count; i++) {
    const struct tu_instruction *ins = &e->program->instructions[i];
    if (ins->kind != TU_COPY || ins->after_count > 0 || ins->bytes > most) continue;
    while (move(e, i))
      if (tells) tell_all(e, i);
  }
}

/* Publishes the sends of data that this rank already has, and that the receivers copy from where it lies, before this rank
 * copies anything itself. Otherwise a peer would wait for a rank that first copies what the peer has lent. */
static void announce(struct tu_execution *e, bool tells) {
  const struct tu_program *p = e->program;
  bool reads = false;
  e->announced = true;
  for (uint32_t i = 0; i < p->instruction_count; i++) {
    if (!p->instructions[i].ahead || !tu_send_lends(e, i)) continue;
    reads |= e->progress[i].way == TU_WAY_READ;
    if (move(e, i) && tells) tell_all(e, i);
  }
  if (reads && e->mover->ranks == 2) copy_own(e, tells);
}

/* Polls WINDOW instructions, from the first unfinished one on. If none of them advances, it polls the next WINDOW
 * instructions, and so on. This is necessary because a plan may list many sends before its first receive: the sends at
 * the beginning may all have to wait for a receive further on. */
static inline bool poll(struct tu_execution *e, bool tells) {
  uint32_t count = e->program->instruction_count;
  bool moved = false;
  if (!e->announced) announce(e, tells);
  for (uint32_t i = e->head; i < count && !moved && !e->mismatch;) {
    uint32_t end = (uint32_t)tu_min((size_t)i + WINDOW, count);
    for (; i < end && !e->mismatch; i++) {
      const bool advanced = move(e, i);
      if (tells && advanced) tell_all(e, i);
      moved |= advanced;
      if (e->progress[i].finished && i == e->head) e->head++;
    }
  }
  return moved;
}

bool tu_execution_poll(struct tu_execution *e) { return poll(e, false); }
bool tu_execution_poll_and_tell(struct tu_execution *e) { return poll(e, true); }

/* Marks the receivers for which an unfinished send waits: those that have not taken a lent message, or have no credit
 * for the next slice. If all have credits, the ring may have no room: then those that have not taken all slices. A
 * receiver that has taken all slices may have exited. A send may also wait for earlier sends of this rank alone. */
static void mark_receivers(const struct tu_execution *e, const struct tu_instruction *ins, bool *waits_for) {
  const struct tu_message *m = &e->program->messages[ins->message_first];
  const struct tu_progress *progress = &e->progress[ins - e->program->instructions];
  const bool published = tu_is_lent(progress) && progress->done == ins->bytes;
  bool any = false;
  for (uint32_t k = 0; k < ins->message_count; k++) {
    if (published ? tu_sender_returned(m[k].sender, e->sequences[ins->message_first + k])
                  : tu_sender_ready(m[k].sender))
      continue;
    waits_for[m[k].sender->peer] = any = true;
  }
  for (uint32_t k = 0; k < ins->message_count && !published && !any; k++)
    if (!tu_sender_drained(m[k].sender)) waits_for[m[k].sender->peer] = true;
}

void tu_execution_blockers(const struct tu_execution *e, bool *waits_for) {
  const struct tu_program *p = e->program;
  for (uint32_t i = e->head; i < p->instruction_count; i++) {
    const struct tu_instruction *ins = &p->instructions[i];
    const struct tu_progress *progress = &e->progress[i];
    if (progress->finished) continue;
    /* true: the instruction waits for another instruction of this rank, and the loop finds the ranks when it visits
     * that one */
    bool held = false;
    for (uint32_t k = progress->afters_finished; k < ins->after_count; k++)
      held |= !e->progress[p->afters[ins->after_first + k].before].finished;
    if (held) continue;
    for (uint32_t k = 0; k < ins->message_count && ins->kind == TU_RECV; k++) {
      const struct tu_message *m = &p->messages[ins->message_first + k];
      const struct tu_receiver *r = e->expected ? e->expected[m->ring].receiver : m->receiver;
      if (r) waits_for[r->peer] = true;
    }
    if (ins->kind == TU_SEND) mark_receivers(e, ins, waits_for);
    for (uint32_t k = 0; k < ins->operand_count; k++) {
      uint32_t ring = p->operands[ins->operand_first + k].message.ring;
      if (ring == TU_NO_RING) continue;
      struct tu_receiver *r = p->rings[ring].receiver;
      bool attached = r->lines || tu_mover_attach(e->mover, r);
      if (!attached || !tu_receiver_line(r)) waits_for[r->peer] = true;
    }
  }
}
