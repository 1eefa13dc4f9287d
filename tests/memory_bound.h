/* memory_bound.h: upper bound of the memory that a communicator takes from its rank's slice of the shared memory: a
 * channel for each peer and lane on which the rank has sent, a ring for many readers if it has one, and at rank 0 what
 * all ranks share (verdict, boards, entries to channels).
 *
 *   channels * (round(head + credits * 64) + ring bytes) + (ring for many readers: ring bytes)
 *   + at rank 0: round(block) + round(ranks * board) + round(ranks^2 * lanes * 4) + round(words)
 *
 * round() rounds up to whole pages of 4096 bytes. docs/PERFORMANCE.md gives this bound in words: change both
 * together. */
#ifndef MEMORY_BOUND_H
#define MEMORY_BOUND_H

#include "comm/comm.h"

#define MEMORY_PAGE_BYTES 4096u
#define MEMORY_HEAD_BYTES MEMORY_PAGE_BYTES /* head of a slice, independent of communicators */

static inline size_t memory_round(size_t bytes) { return tu_round_up(bytes, MEMORY_PAGE_BYTES); }

/* Returns the bytes of all rings of a channel, including the smaller ones that a longer message has replaced. */
static inline uint64_t memory_rings(const struct tu_staging *staging) {
  uint64_t bytes = 0;
  for (const struct tu_staging_ring *ring = staging->ring; ring; ring = ring->older) bytes += memory_round(ring->bytes);
  return bytes;
}

/* Returns the bound for this rank in bytes, and adds the number of its channels to *channels. */
static inline uint64_t memory_bound(const tutti_comm *comm, uint64_t *channels) {
  const struct tu_mover *mover = comm->mover;
  uint64_t opened = 0, n = mover->ranks;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < tu_mover_channels(mover); i++) {
    const struct tu_sender *s = tu_mover_nth_sender(mover, i);
    if (!s) continue;
    opened++;
    bytes += memory_round(tu_channel_bytes(mover->shape)) + memory_rings(&s->staging);
  }
  *channels += opened;
  if (mover->cast) bytes += memory_rings(&mover->cast->staging);
  if (mover->rank == mover->control.leader)
    bytes += memory_round(sizeof(struct tu_block)) + memory_round(n * sizeof(struct tu_board)) +
             memory_round(n * n * sizeof(uint32_t)) + memory_round(mover->control.block->words_bytes);
  return bytes;
}

#endif
