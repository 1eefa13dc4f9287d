/* memory_bound.h: what a communicator takes of its rank's slice of the shared memory, at most: a channel for each peer
 * and lane that the rank has sent on, a ring for many readers if it has one, and at rank 0 what all share: verdict,
 * boards, and the doors.
 *
 *   channels * (round(head + credits * 64) + ring bytes) + (ring for many readers: ring bytes)
 *   + at rank 0: round(block) + round(ranks * board) + round(ranks^2 * lanes * 4) + round(words)
 *
 * round is up to whole pages of 4096. docs/PERFORMANCE.md says it in words: both change together. */
#ifndef MEMORY_BOUND_H
#define MEMORY_BOUND_H

#include "api/comm.h"

#define MEMORY_PAGE_BYTES 4096u
#define MEMORY_HEAD_BYTES MEMORY_PAGE_BYTES /* of a slice, whatever the communicators */

static inline size_t memory_round(size_t bytes) { return tu_round_up(bytes, MEMORY_PAGE_BYTES); }

/* Also those that something shorter was staged in before. */
static inline uint64_t memory_rings(const struct tu_staging *staging) {
  uint64_t bytes = 0;
  for (const struct tu_staging_ring *ring = staging->ring; ring; ring = ring->older) bytes += memory_round(ring->bytes);
  return bytes;
}

/* Adds the channels to *channels. */
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
