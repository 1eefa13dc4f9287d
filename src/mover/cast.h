/* cast.h: one write, many readers: a ring of bytes of one rank, for slices that several others shall read. Their channels carry
 * lines that point here, and a piece is free again when all its readers have given their credits back.
 *
 * Like a channel it is used in the order of tickets, so a piece only ever waits for readers of earlier messages. */
#ifndef TU_CAST_H
#define TU_CAST_H

#include "mover/channel.h"

struct tu_cast_reader {
  struct tu_sender *sender;
  uint32_t sequence; /* of the slice that points here */
};

struct tu_cast_piece {
  uint64_t start; /* of `staging`: how far it was filled before */
  uint32_t reader_count;
  struct tu_cast_reader *readers;
};

struct tu_cast {
  struct tu_staging staging;
  struct tu_cast_piece *pieces; /* [credits]: number n at n % credits */
  uint32_t first, next;         /* pieces in use */
  uint32_t credits, readers_max;
  uint64_t tickets, served;
};

/* Room for a piece, or 0; it is at most half of the ring. */
uint64_t tu_cast_room(struct tu_cast *c, size_t piece_bytes);
/* Forgets the pieces that all their readers have read. */
void tu_cast_reclaim(struct tu_cast *c);
/* The piece is there; before its slices are committed. */
void tu_cast_fill(struct tu_cast *c, uint64_t place, size_t piece_bytes);
/* Goes on in that ring. */
void tu_cast_renew(struct tu_cast *c, struct tu_staging_ring *ring);
/* One of its readers: the next slice of that sender. */
void tu_cast_add(struct tu_cast *c, struct tu_sender *reader);

#endif
