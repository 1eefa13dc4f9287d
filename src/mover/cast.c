/* cast.c: a ring of bytes with several readers. Finds out which of its pieces are free. */
#include "mover/cast.h"

static bool read_by_all(const struct tu_cast_piece *piece) {
  for (uint32_t i = 0; i < piece->reader_count; i++)
    if (!tu_sender_taken(piece->readers[i].sender, piece->readers[i].sequence)) return false;
  return true;
}

uint64_t tu_cast_room(struct tu_cast *c, size_t piece_bytes) {
  for (;;) {
    const struct tu_cast_piece *oldest = &c->pieces[c->first % c->credits];
    bool empty = c->first == c->next;
    uint64_t offset = 0;
    if (c->next - c->first < c->credits)
      offset = tu_staging_room(&c->staging, empty ? c->staging.filled : oldest->start, piece_bytes);
    if (offset) return offset;
    if (!empty && read_by_all(oldest)) c->first++;
    else if (c->next - c->first == c->credits || !tu_staging_is_full(&c->staging)) return 0;
  }
}

void tu_cast_reclaim(struct tu_cast *c) {
  while (c->first != c->next && read_by_all(&c->pieces[c->first % c->credits])) c->first++;
}

void tu_cast_fill(struct tu_cast *c, uint64_t offset, size_t piece_bytes) {
  struct tu_cast_piece *piece = &c->pieces[c->next++ % c->credits];
  piece->start = c->staging.filled;
  piece->reader_count = 0;
  tu_staging_fill(&c->staging, offset, piece_bytes);
}

void tu_cast_renew(struct tu_cast *c, struct tu_staging_ring *ring) {
  tu_staging_change(&c->staging, ring, c->next);
  for (uint32_t i = c->first; i != c->next; i++) c->pieces[i % c->credits].start = c->staging.filled;
}

void tu_cast_add(struct tu_cast *c, struct tu_sender *reader) {
  struct tu_cast_piece *piece = &c->pieces[(c->next - 1) % c->credits];
  tu_assert(piece->reader_count < c->readers_max);
  piece->readers[piece->reader_count++] = (struct tu_cast_reader){reader, reader->sent + 1};
}
