/* cast.h: a ring of bytes for slices that several other ranks read. A slice is written once, as a piece of the ring.
 * The lines (slice headers) in the channels to its readers point to the piece. A piece is free again when all its
 * readers have returned their credits.
 *
 * Messages use the ring in the order of their tickets, as in a channel. So a new piece waits only for readers of
 * earlier messages. */
#ifndef TU_CAST_H
#define TU_CAST_H

#include "mover/channel.h"

struct tu_cast_reader {
  struct tu_sender *sender;
  uint32_t sequence; /* number, from 1, of the slice of the reader's channel that points to the piece */
};

struct tu_cast_piece {
  uint64_t start; /* value of staging.filled (bytes written to the ring) before this piece */
  uint32_t reader_count;
  struct tu_cast_reader *readers;
};

struct tu_cast {
  struct tu_staging staging;
  struct tu_cast_piece *pieces; /* [credits]: piece n is at n % credits */
  uint32_t first, next;         /* pieces in use: from `first` to `next` - 1 */
  uint32_t credits, readers_max;
  uint64_t tickets, served;
};

/* Returns the offset in the segment where the next piece, of piece_bytes bytes, begins; 0: the ring has no room for it.
 * A piece occupies at most half of the ring. */
uint64_t tu_cast_room(struct tu_cast *c, size_t piece_bytes);
/* Frees the oldest pieces, up to the first piece that some reader has not read. */
void tu_cast_reclaim(struct tu_cast *c);
/* Marks a piece of the ring as written. Called before the slices that point to the piece are committed (published). */
void tu_cast_fill(struct tu_cast *c, uint64_t offset, size_t piece_bytes);
/* Writes all further pieces to another, empty ring. The old ring stays until its pieces have been read. */
void tu_cast_renew(struct tu_cast *c, struct tu_staging_ring *ring);
/* Adds a reader to the newest piece. `reader` is the sender of the channel to the rank that reads; the next slice of
 * this channel points to the piece. */
void tu_cast_add(struct tu_cast *c, struct tu_sender *reader);

#endif
