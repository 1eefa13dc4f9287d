/* link_stream.c: the messages of a channel, at both ends. A message uses a line (header) and a slot. When the receiver
 * releases the message, the sender may use both again. */
#include "stream/link_internal.h"

void tu_link_say(const struct tu_link_end *end, enum tu_link_step step, uint64_t number,
                 const struct tu_link_line *line) {
  const struct tu_link *link = end->link;
  tu_link_trace(&(struct tu_link_event){.step = step,
                                        .rank = link->mover->rank,
                                        .peer = link->peer,
                                        .link = link->number,
                                        .operation = link->operation,
                                        .channel = end->number,
                                        .number = number,
                                        .slot = line ? line->slot : 0,
                                        .bytes = line ? line->bytes : 0,
                                        .last = line && line->last});
}

/* ---- sending ---- */

/* Returns a 64-bit counter of which shared memory contains only the lower half, `word`. seen: the counter's last known
 * value. */
static uint64_t read_count(uint64_t seen, const _Atomic uint32_t *word) {
  return seen + (atomic_load_explicit(word, memory_order_acquire) - (uint32_t)seen);
}

/* Reads how many messages of this channel the receiver has released. If the channels share slots, also marks the slots
 * of these messages as free; the caller must then hold the link's lock. */
static uint64_t see_done(struct tu_link_end *end) {
  struct tu_link *link = end->link;
  uint64_t done = read_count(end->done_seen, end->done);
  if (done == end->done_seen) return done;
  if (tu_link_trace) tu_link_say(end, TU_LINK_SEE_CREDIT, done, NULL);
  for (uint64_t k = end->done_seen; link->view.shared && k < done; k++)
    link->free_slots |= UINT64_C(1) << end->slot_of[k % link->view.slots];
  return end->done_seen = done;
}

uint64_t tu_link_done(struct tu_link_end *end) {
  struct tu_link *link = end->link;
  if (!link->view.shared) return see_done(end);
  pthread_mutex_lock(&link->lock);
  uint64_t done = see_done(end);
  pthread_mutex_unlock(&link->lock);
  return done;
}

/* Takes a free slot from the pool that all channels of a link share. If no slot is free, first looks for messages that
 * the receivers have released, on all channels of the link. Other channels are included because their threads may not
 * look any more, if they have nothing more to send. */
static bool take_shared(struct tu_link_end *end) {
  struct tu_link *link = end->link;
  pthread_mutex_lock(&link->lock);
  for (uint32_t n = 0; n < link->view.channels && link->free_slots == 0; n++)
    if (link->ends[n] && link->ends[n]->sends) (void)see_done(link->ends[n]);
  bool found = link->free_slots != 0;
  if (found) {
    uint32_t slot = (uint32_t)__builtin_ctzll(link->free_slots);
    link->free_slots &= link->free_slots - 1;
    end->slot_of[end->sent % link->view.slots] = (uint8_t)slot;
  }
  pthread_mutex_unlock(&link->lock);
  return found;
}

static bool take_own(struct tu_link_end *end) {
  uint32_t slots = end->link->view.slots;
  if (end->sent - end->done_seen >= slots && end->sent - see_done(end) >= slots) return false;
  end->slot_of[end->sent % slots] = (uint8_t)(end->sent % slots);
  return true;
}

void *tu_link_acquire(struct tu_link_end *end) {
  const struct tu_link *link = end->link;
  if (!end->acquired) {
    if (!(link->view.shared ? take_shared(end) : take_own(end))) return NULL;
    end->acquired = true;
    if (tu_link_trace)
      tu_link_say(end, TU_LINK_ACQUIRE, end->sent,
                  &(struct tu_link_line){.slot = end->slot_of[end->sent % link->view.slots]});
  }
  return end->slots + end->slot_of[end->sent % link->view.slots] * link->slot_stride;
}

void tu_link_commit(struct tu_link_end *end, size_t bytes, bool last) {
  struct tu_link *link = end->link;
  struct tu_link_line *line = tu_link_line_at(end, end->sent);
  line->bytes = (uint32_t)bytes;
  line->slot = end->slot_of[end->sent % link->view.slots];
  line->last = last;
  if (tu_link_trace) {
    tu_link_say(end, TU_LINK_FILL, end->sent, line);
    tu_link_say(end, TU_LINK_FLAG, end->sent, line);
  }
  if (last) end->ends_at = end->sent + 1;
  end->acquired = false;
  atomic_store_explicit(&line->sequence, (uint32_t)++end->sent, memory_order_release);
  if (link->far) tu_far_link_tell_message(end, end->sent - 1, line);
  tu_mover_ring(link->mover, link->bell);
}

uint64_t tu_link_acked(struct tu_link_end *end) {
  uint64_t done = tu_link_done(end), acked = read_count(end->acked_seen, end->acked);
  if (acked != end->acked_seen && tu_link_trace) tu_link_say(end, TU_LINK_SEE_ACK, acked, NULL);
  end->acked_seen = acked;
  return tu_max(done, acked);
}

/* ---- receiving ---- */

/* If the next message that was not peeked at before has arrived, counts it as peeked at and returns true. */
static bool see_next(struct tu_link_end *end) {
  const struct tu_link_line *line = tu_link_line_at(end, end->peeked);
  if (end->ends_at > 0 && end->peeked == end->ends_at) return false;
  if (atomic_load_explicit(&line->sequence, memory_order_acquire) != (uint32_t)(end->peeked + 1)) return false;
  if (tu_link_trace) tu_link_say(end, TU_LINK_SEE_FLAG, end->peeked, line);
  end->peeked++;
  if (line->last) end->ends_at = end->peeked;
  return true;
}

const struct tu_link_line *tu_link_peek(struct tu_link_end *end, uint32_t ahead, const void **data) {
  uint64_t message = end->taken + ahead;
  while (end->peeked <= message)
    if (!see_next(end)) return NULL;
  const struct tu_link_line *line = tu_link_line_at(end, message);
  *data = end->slots + line->slot * end->link->slot_stride;
  return line;
}

void tu_link_ack(struct tu_link_end *end) {
  if (tu_link_trace) tu_link_say(end, TU_LINK_ACK, end->peeked, NULL);
  atomic_store_explicit(end->acked, (uint32_t)end->peeked, memory_order_release);
  if (end->link->far) tu_far_link_tell_count(end, false, end->peeked);
  tu_mover_ring(end->link->mover, end->link->bell);
}

void tu_link_release(struct tu_link_end *end) {
  if (tu_link_trace) tu_link_say(end, TU_LINK_RELEASE, end->taken, tu_link_line_at(end, end->taken));
  atomic_store_explicit(end->done, (uint32_t)++end->taken, memory_order_release);
  if (end->link->far) tu_far_link_tell_count(end, true, end->taken);
  tu_mover_ring(end->link->mover, end->link->bell);
}
