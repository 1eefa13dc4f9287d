/* link_memory.c: the layout of link memory, and a rank's records of its links to its peers. */
#include <stdlib.h>
#include <string.h>

#include "stream/link_internal.h"

pthread_mutex_t tu_link_books_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- layout ---- */

static uint32_t senders_of(const struct tu_link_view *v) { return (uint32_t)__builtin_popcountll(v->sends); }
/* Returns the index of channel n among the channels on which this end sends. */
static uint32_t sender_index(const struct tu_link_view *v, uint32_t n) {
  return (uint32_t)__builtin_popcountll(v->sends & ((UINT64_C(1) << n) - 1));
}

size_t tu_link_slot_stride(const struct tu_link_view *v) {
  return tu_round_up((tu_link_is_merged(v) ? TU_LINK_HEAD_BYTES : 0) + (size_t)v->slot_bytes, TU_LINE_BYTES);
}
size_t tu_link_line_stride(const struct tu_link_view *v) {
  return tu_link_is_merged(v) ? tu_link_slot_stride(v) : TU_LINE_BYTES;
}
/* Returns the bytes of the counters and lines (message headers) of one sender. The counters are `done` and `acked`.
 * Merged lines are not included, because a merged line lies in the slot of its message (see is_merged). */
static size_t words_bytes(const struct tu_link_view *v) {
  return 2 * TU_LINE_BYTES + (tu_link_is_merged(v) ? 0 : v->slots * (size_t)TU_LINE_BYTES);
}

size_t tu_link_memory_bytes(const struct tu_link_view *v) {
  size_t senders = senders_of(v), pools = v->shared ? senders > 0 : senders;
  return senders * words_bytes(v) + pools * v->slots * tu_link_slot_stride(v);
}

void tu_link_locate(struct tu_link_end *end, unsigned char *memory, const struct tu_link_view *v) {
  uint32_t index = sender_index(v, end->number);
  unsigned char *words = memory + index * words_bytes(v);
  unsigned char *slots = memory + senders_of(v) * words_bytes(v);
  if (!v->shared) slots += index * (v->slots * tu_link_slot_stride(v));
  end->done = (_Atomic uint32_t *)(void *)words;
  end->acked = (_Atomic uint32_t *)(void *)(words + TU_LINE_BYTES);
  end->lines = tu_link_is_merged(v) ? slots : words + (size_t)2 * TU_LINE_BYTES;
  end->slots = slots + (tu_link_is_merged(v) ? TU_LINK_HEAD_BYTES : 0);
}

/* ---- records ---- */

struct tu_far_link *tu_far_link_of(struct tu_link_book *book, uint32_t number) {
  struct tu_far_link **far = &book->far[number];
  if (!*far && (*far = aligned_alloc(TU_LINE_BYTES, sizeof **far))) memset(*far, 0, sizeof **far);
  return *far;
}

static void free_far(struct tu_far_link *far) {
  if (far) free(far->memory);
  free(far);
}

struct tu_link_cell *tu_link_cells_behind(struct tu_announced *memory) {
  return (struct tu_link_cell *)(void *)(memory + 1);
}

static void destroy_books(struct tu_mover *m, bool in_order) {
  for (uint32_t peer = 0; peer < m->ranks; peer++) {
    if (in_order && m->books[peer]) tu_transport_release(m->transport, m->books[peer]->offset);
    for (uint32_t i = 0; m->books[peer] && i < TU_LINKS; i++) free_far(m->books[peer]->far[i]);
    free(m->books[peer]);
  }
  free(m->books);
}

struct tu_link_book *tu_link_book_of(struct tu_mover *m, uint32_t peer, struct tu_error *error) {
  if (!m->books) m->books = tu_try_allocate(m->ranks, sizeof(struct tu_link_book *));
  m->destroy_books = destroy_books;
  if (m->books && m->books[peer]) return m->books[peer];
  struct tu_link_book *book = m->books ? tu_try_allocate(1, sizeof *book) : NULL;
  if (!book) {
    tu_fail_memory(error, sizeof *book, "links to rank %u", peer);
    return NULL;
  }
  uint64_t offset;
  const size_t bytes = sizeof(struct tu_announced) + TU_LINKS * sizeof(struct tu_link_cell);
  struct tu_announced *memory = tu_transport_acquire(m->transport, bytes, &offset, error);
  if (!memory) {
    free(book);
    return NULL;
  }
  memset(memory, 0, bytes);
  *book = (struct tu_link_book){.cells = tu_link_cells_behind(memory), .offset = offset};
  if (tu_control_local(&m->control, peer) != TU_REMOTE) tu_control_announce(&m->control, peer, TU_LINKS_LANE, offset);
  return m->books[peer] = book;
}
