/* sending.c: chooses the way in which a message crosses, when its first slice can be sent. The choice depends on where
 * the buffers of both ranks lie, which plan and program do not know. Every slice tells its receiver how it crosses.
 *
 * - inline: a short message lies in its line.
 * - stored (rendezvous put): the receiver has posted a target in memory that both ranks map.
 * - lent (rendezvous get): the source is in memory that both ranks map, and no instruction depends on the send. The
 *   receiver reads the source. Only then does the send end. To ranks of other hosts, any memory is lent: the wire reads
 *   it, and the send ends when it has done so.
 * - read: a long message of an alltoall, a scatter, a gather or an allgather, whose source is private, if no instruction depends
 *   on the send, and the receiver reads memory of this process (transport/peer_memory.h). The kernel copies it once, from the
 *   source to the target, and the receiver need not come back for each slice. Otherwise staging is faster: sender and receiver
 *   share its two copies, and a multicast has only one more than there are receivers.
 * - staged: all other messages.
 *
 * A send on which other instructions depend is never lent to ranks of this host. It must end as soon as this rank has
 * read its source. Otherwise two ranks that exchange data in place would wait for each other forever. Other hosts have
 * room for all slices that there are credits for, so what is lent to them ends when this rank or they look. */
#include "engine/engine.h"

/* A message of fewer bytes that may be both lent and stored is lent, because its target may be in the cache of the receiver. */
#define STORE_BYTES ((size_t)1 << 20)
/* For least_read: minimum number of ranks per CPU that are many, in the simulated world 2; how many ranks of a mesh are many. */
#ifndef TU_READ_SHARE
#define TU_READ_SHARE 3u
#endif
#define READ_RANKS 4u
/* minimum bytes of a lent slice, unless it is the last slice of its message */
#define LEND_SLICE ((size_t)64 << 10)
/* maximum bytes of a slice that is lent or stored, because message lines count bytes in 32 bits */
#define DIRECT_SLICE_MAX ((size_t)1 << 30)

static bool all_posted(const struct tu_execution *e, const struct tu_instruction *ins) {
  const struct tu_message *m = e->program->messages + ins->message_first;
  for (uint32_t i = 0; i < ins->message_count; i++)
    if (!tu_sender_posted(m[i].sender, e->tickets[m[i].ring] + m[i].ordinal)) return false;
  return true;
}

/* Returns true if every receiver is on another host (remote), or if every one is on this host. */
static bool all_are(const struct tu_execution *e, const struct tu_instruction *ins, bool remote) {
  const struct tu_message *m = e->program->messages + ins->message_first;
  bool all = true;
  for (uint32_t i = 0; i < ins->message_count; i++) all &= m[i].sender->remote == remote;
  return all;
}

/* Returns true if each receiver, or the wire to it, can read the source, and does so even if this rank only waits. */
static bool can_read(const struct tu_execution *e, const struct tu_instruction *ins) {
  if (e->mover->control.remote && all_are(e, ins, true)) return true;
  return ins->lasting && tu_execution_shared(e, &ins->source, ins->bytes) && all_are(e, ins, false);
}

static bool may_lend(const struct tu_execution *e, const struct tu_instruction *ins) {
  if (ins->bytes < e->direct_bytes || ins->source.run_count != 1 || ins->source.fold || !can_read(e, ins)) return false;
  if (ins->first && !e->arithmetic.user && e->arithmetic.op == TUTTI_PREMUL_SUM) return false;
  /* A lent message keeps its sender waiting until the receiver has read it. Users of send do not expect that of a
   * message that fits into its channel. So a point-to-point message is lent only if it is longer. */
  return !e->program->point_to_point || ins->bytes > e->mover->shape.ring_bytes;
}

/* Returns the address of a source of one run. */
static const unsigned char *source_of(const struct tu_execution *e, const struct tu_instruction *ins) {
  return e->base[ins->source.buffer] + ins->source.offset;
}

/* Where ranks share CPUs: minimum bytes of a message that is read. */
static size_t least_read_shared(enum tu_reading reading, bool many) {
  switch (reading) {
    case TU_READING_EXCHANGE: return TU_READ_BYTES * 8;
    case TU_READING_GATHER: return TU_READ_BYTES * (many ? 16 : 32);
    default: return TU_READ_BYTES * (many ? 8 : 16);
  }
}

/* In a mesh: minimum bytes of a message that is read. */
static size_t least_read_mesh(enum tu_reading reading, uint32_t ranks) {
  switch (reading) {
    case TU_READING_EXCHANGE: return TU_READ_BYTES * 2;
    case TU_READING_PAIR: return TU_READ_BYTES * 4;
    case TU_READING_SCATTER: return TU_READ_BYTES * (ranks >= READ_RANKS ? 2 : 16);
    default: return SIZE_MAX;
  }
}

/* Between two CPUs of AMD: minimum bytes of a message that is read. */
static size_t least_read_pair(enum tu_reading reading) {
  switch (reading) {
    case TU_READING_EXCHANGE: return TU_READ_BYTES * 32;
    case TU_READING_PAIR:
    case TU_READING_SCATTER: return TU_READ_BYTES * 64;
    default: return SIZE_MAX;
  }
}

static size_t least_read(const struct tu_execution *e) {
  const struct tu_mover *m = e->mover;
  const enum tu_reading reading = e->program->reading;
  if (reading == TU_READING_NONE) return SIZE_MAX;
  if (m->share > 1) return least_read_shared(reading, m->share >= TU_READ_SHARE);
  if (m->fills.slow) return m->ranks == 2 ? least_read_pair(reading) : SIZE_MAX;
  return least_read_mesh(reading, m->ranks);
}

/* Returns true if the length of a message alone decides whether it is read: not how fast lines are overwritten. */
static bool is_length_all(const struct tu_execution *e) { return e->mover->share > 1 || e->mover->fills.slow; }

bool tu_execution_may_read(const struct tu_execution *e) { return e->program->longest_bytes >= least_read(e); }

/* Returns true if lines take long to a rank to which this one sends, but are overwritten fast, as in Intel's meshes. Lines that
 * take no time are overwritten fast, too, but those are best staged. Not where ranks share CPUs: lines also take long to a rank
 * that has waited for its turn, which proves nothing. */
static bool is_mesh(const struct tu_execution *e) {
  if (!tu_fills_fast(&e->mover->fills)) return false;
  for (uint32_t i = 0; i < e->program->ring_count; i++) {
    const struct tu_sender *s = e->program->rings[i].sender;
    if (s && tu_sender_far(s)) return true;
  }
  return false;
}

/* Returns true if the caches hold what all ranks move in an exchange. If they do not, lines come late and are overwritten fast
 * wherever the ranks run. */
static bool caches_hold(const struct tu_execution *e) {
  const struct tu_mover *m = e->mover;
  return m->cache_bytes == 0 || e->program->moved_bytes < m->cache_bytes / m->ranks;
}

static const struct tu_staging *staging_of(const struct tu_execution *e, const struct tu_instruction *ins) {
  if (ins->cast != TU_NO_CAST) return &e->program->cast->staging;
  return &e->program->messages[ins->message_first].sender->staging;
}

/* Returns true if a message that the kernel copies from process to process is faster than a staged one, which is copied twice,
 * but by both ranks at once: in a mesh, where staging is slow; where ranks share CPUs, so that they take turns; and if it is so
 * long that the memory limits both. In a mesh, many ranks read no exchange that the caches cannot hold. docs/DECISIONS.md has the
 * figures. */
static bool is_read_faster(const struct tu_execution *e, const struct tu_instruction *ins) {
  if (ins->bytes < least_read(e)) return false;
  if (is_length_all(e)) return true;
  return is_mesh(e) && (e->program->reading != TU_READING_EXCHANGE || e->mover->ranks < READ_RANKS || caches_hold(e));
}

/* Returns true if the message should be staged so that this rank measures again how it overwrites lines. */
static bool must_measure(const struct tu_execution *e, const struct tu_instruction *ins) {
  struct tu_fills *f = &e->mover->fills;
  if (is_length_all(e)) return false;
  if (f->left == 0) return staging_of(e, ins)->wraps > 0;
  f->left--;
  return false;
}

/* Returns true if the kernel lets the receivers read the source. If it finds both ends of a buffer, it is not asked again for
 * parts of that buffer in this call. */
static bool is_source_readable(struct tu_execution *e, const struct tu_instruction *ins) {
  const uint32_t buffer = ins->source.buffer;
  bool *known = &e->readable[buffer];
  if (!*known && !e->program->pointed[buffer])
    *known = tu_peer_memory_is_readable(e->base[buffer], e->program->extents[buffer]);
  return *known || tu_peer_memory_is_readable(source_of(e, ins), ins->bytes);
}

/* Returns true if the receivers may read the message from the memory of this process. */
static bool may_be_read(struct tu_execution *e, const struct tu_instruction *ins) {
  if (!is_read_faster(e, ins) || !ins->lasting || ins->source.run_count != 1 || ins->source.fold) return false;
  const struct tu_message *m = e->program->messages + ins->message_first;
  for (uint32_t i = 0; i < ins->message_count; i++)
    if (m[i].sender->remote || !tu_peer_memory_reads(e->mover->transport, m[i].sender->bell)) return false;
  return !must_measure(e, ins) && is_source_readable(e, ins);
}

/* Returns true if a message that may be both lent and stored is lent, so that the receiver copies it. Then each rank copies what
 * it gets, at the same time as the others, and it does not matter who comes first. A long message is stored if the receiver
 * gets as much from all other ranks; or if it goes to several ranks, and the caches cannot hold what the program moves: then the
 * sender reads its source once, instead of each receiver. Data that another instruction is just writing is always stored. */
static bool is_rather_lent(const struct tu_execution *e, const struct tu_instruction *ins) {
  if (ins->follows) return false;
  if (ins->bytes < STORE_BYTES) return true;
  return !e->program->gathers && (ins->message_count == 1 || !tu_execution_overflows(e));
}

static enum tu_way choose_way(struct tu_execution *e, const struct tu_instruction *ins) {
  if (ins->bytes <= TU_INLINE_BYTES) return TU_WAY_INLINE;
  bool lend = may_lend(e, ins);
  if (lend && is_rather_lent(e, ins)) return TU_WAY_LENT;
  if (all_posted(e, ins)) return TU_WAY_STORED;
  if (lend) return TU_WAY_LENT;
  return may_be_read(e, ins) ? TU_WAY_READ : TU_WAY_STAGED;
}

/* Returns true if the send may publish its next slice: on each of its channels, all earlier messages have been sent,
 * and a credit is free. */
static bool is_ready(struct tu_execution *e, const struct tu_instruction *ins) {
  const struct tu_message *m = e->program->messages + ins->message_first;
  for (uint32_t i = 0; i < ins->message_count; i++) {
    struct tu_sender *s = m[i].sender;
    if (s->served != e->tickets[m[i].ring] + m[i].ordinal || !tu_sender_ready(s)) return false;
  }
  return ins->cast == TU_NO_CAST || e->program->cast->served == e->cast_ticket + ins->cast;
}

bool tu_send_lends(struct tu_execution *e, uint32_t instruction) {
  const struct tu_instruction *ins = &e->program->instructions[instruction];
  if (!is_ready(e, ins)) return false;
  if (may_lend(e, ins)) {
    if (!is_rather_lent(e, ins)) return false;
    e->progress[instruction].way = TU_WAY_LENT;
  } else {
    if (all_posted(e, ins) || !may_be_read(e, ins)) return false;
    e->progress[instruction].way = TU_WAY_READ;
  }
  return true;
}

static bool stage(struct tu_execution *e, const struct tu_instruction *ins, struct tu_progress *progress,
                  size_t bytes) {
  if (ins->cast != TU_NO_CAST) progress->segment_offset = tu_cast_room(e->program->cast, bytes);
  else progress->segment_offset = tu_sender_room(e->program->messages[ins->message_first].sender, bytes);
  return progress->segment_offset != 0;
}

/* Returns true if non-temporal stores may be faster: the slice is long enough, and a receiver is far and may have the slice's
 * cache lines in its cache. */
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
  unsigned char *to, *far = NULL; /* a target of a rank to which lines take long */
  size_t most;
  if (!is_ready(e, ins)) return false;
  if (progress->way == TU_WAY_OPEN) progress->way = (uint8_t)choose_way(e, ins);
  switch ((enum tu_way)progress->way) {
    case TU_WAY_STAGED:
      *bytes = tu_min(*bytes, ins->cast == TU_NO_CAST ? e->slot_bytes : e->cast_slot_bytes);
      if (!stage(e, ins, progress, *bytes)) return false;
      to = e->mover->transport->base + progress->segment_offset;
      e->targets[(*count)++] = to;
      if (is_far(e, ins, *bytes) && tu_fills_past(&e->mover->fills, tu_fills_place(staging_of(e, ins), to)))
        e->past |= TU_PAST_REST;
      return true;
    case TU_WAY_STORED:
      if (*bytes > DIRECT_SLICE_MAX) *bytes = tu_program_whole(e->program, DIRECT_SLICE_MAX);
      for (uint32_t i = 0; i < ins->message_count; i++) {
        uint64_t segment_offset = tu_sender_posted(m[i].sender, e->tickets[m[i].ring] + m[i].ordinal);
        to = e->mover->transport->base + segment_offset + progress->done;
        e->targets[(*count)++] = to;
        if (tu_sender_far(m[i].sender)) far = to;
      }
      /* This core does not read the target. So write past the caches (with non-temporal stores) in two cases: if the
       * receiver is far, and overwriting its lines is slow; or if the program moves more than the caches hold. In the second
       * case the receiver does not read the target soon. */
      if (e->past & TU_PAST_FIRST || (far && *bytes >= TU_STREAM_BYTES && tu_fills_past(&e->mover->target_fills, far)))
        e->past |= TU_PAST_REST;
      return true;
    case TU_WAY_READ: *bytes = tu_min(*bytes, tu_program_whole(e->program, DIRECT_SLICE_MAX)); return true;
    case TU_WAY_LENT:
      most = m->sender->remote ? e->far_slot_bytes : tu_program_whole(e->program, DIRECT_SLICE_MAX);
      *bytes = tu_min(*bytes, most);
      return *bytes >= tu_min(LEND_SLICE, most) || progress->done + *bytes == ins->bytes;
    default:
      for (uint32_t i = 0; i < ins->message_count; i++)
        e->targets[(*count)++] = tu_sender_line(m[i].sender)->at.payload;
      return true;
  }
}

/* Returns where the source of a send that is lent or read lies: its offset in the segment, or its address. */
static uint64_t lent_from(const struct tu_execution *e, const struct tu_instruction *ins, enum tu_way way,
                          bool remote) {
  if (way == TU_WAY_READ) return (uintptr_t)source_of(e, ins);
  if (!remote) return tu_execution_shared(e, &ins->source, ins->bytes);
  return (uintptr_t)source_of(e, ins) - (uintptr_t)e->mover->transport->base;
}

static enum tu_where where_of(enum tu_way way) {
  if (way == TU_WAY_READ) return TU_IN_PROCESS;
  return way == TU_WAY_STORED ? TU_IN_TARGET : TU_IN_SEGMENT;
}

void tu_send_publish(struct tu_execution *e, uint32_t instruction, size_t bytes) {
  const struct tu_instruction *ins = &e->program->instructions[instruction];
  struct tu_progress *progress = &e->progress[instruction];
  const struct tu_message *m = e->program->messages + ins->message_first;
  bool last = progress->done + bytes == ins->bytes, staged = progress->way == TU_WAY_STAGED;
  if (staged && ins->cast != TU_NO_CAST) tu_cast_fill(e->program->cast, progress->segment_offset, bytes);
  if (tu_is_lent(progress))
    progress->segment_offset = lent_from(e, ins, (enum tu_way)progress->way, m->sender->remote) + progress->done;
  for (uint32_t i = 0; i < ins->message_count; i++) {
    struct tu_sender *s = m[i].sender;
    if (staged && ins->cast == TU_NO_CAST) tu_staging_fill(&s->staging, progress->segment_offset, bytes);
    else if (staged) tu_cast_add(e->program->cast, s);
    if (progress->way != TU_WAY_INLINE) tu_sender_line(s)->at.offset = progress->segment_offset;
    tu_sender_commit(s, bytes, e->tag, ins->bytes, where_of((enum tu_way)progress->way));
    e->sequences[ins->message_first + i] = s->sent;
    s->served += last;
    tu_mover_ring(e->mover, s->bell);
  }
  if (last && ins->cast != TU_NO_CAST) e->program->cast->served++;
  if (staged && last) tu_execution_claim(e, staging_of(e, ins), m->sender, ins->bytes);
  progress->done += bytes;
}

size_t tu_send_returned_bytes(const struct tu_execution *e, uint32_t instruction) {
  const struct tu_instruction *ins = &e->program->instructions[instruction];
  const size_t done = e->progress[instruction].done;
  size_t unread = 0;
  if (done == 0) return 0; /* no slice has a number yet */
  for (uint32_t i = 0; i < ins->message_count; i++) {
    uint32_t message = ins->message_first + i;
    unread = tu_max(unread, tu_sender_unread(e->program->messages[message].sender, e->sequences[message]));
  }
  return done - tu_min(done, unread * e->far_slot_bytes);
}

bool tu_send_returned(struct tu_execution *e, uint32_t instruction) {
  const struct tu_instruction *ins = &e->program->instructions[instruction];
  if (!tu_is_lent(&e->progress[instruction])) return true;
  for (uint32_t i = 0; i < ins->message_count; i++) {
    uint32_t message = ins->message_first + i;
    if (!tu_sender_returned(e->program->messages[message].sender, e->sequences[message])) return false;
  }
  return true;
}
