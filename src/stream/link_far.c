/* link_far.c: links with a rank of another host: copies of what the peer writes, and the frames that carry it. */
#include <stdlib.h>
#include <string.h>

#include "stream/link_internal.h"

enum what { MESSAGE, CELL, DONE, ACKED }; /* what a frame carries (struct tu_link_head) */

/* The words of a cell, as they are sent. */
struct cell {
  uint32_t called, hello, met, closed;
  struct tu_link_view view;
};

/* ---- telling ---- */

static void fail(struct tu_mover *m, uint32_t peer, const struct tu_link_head *head, size_t bytes) {
  struct tu_error error;
  tu_fail_memory(&error, sizeof *head + bytes, "a message to rank %u about link %u", peer, head->link);
  tu_control_fail(&m->control, &error);
}

static void tell(struct tu_mover *m, uint32_t peer, struct tu_link_head *head, const void *body, size_t bytes,
                 void *owned) {
  if (!tu_remote_tell_link(&m->control, peer, head, body, bytes, owned)) fail(m, peer, head, bytes);
}

void tu_far_link_tell_cell(struct tu_mover *m, uint32_t peer, uint32_t number, const struct tu_link_cell *cell) {
  struct tu_link_head head = {.what = CELL, .link = (uint8_t)number};
  struct cell *copy = malloc(sizeof *copy);
  if (!copy) {
    fail(m, peer, &head, sizeof *copy);
    return;
  }
  *copy = (struct cell){.called = atomic_load(&cell->called),
                        .hello = atomic_load(&cell->hello),
                        .met = atomic_load(&cell->met),
                        .closed = atomic_load(&cell->closed),
                        .view = cell->view};
  tell(m, peer, &head, copy, sizeof *copy, copy);
}

static struct tu_link_head head_of(const struct tu_link_end *end, enum what what, uint64_t number) {
  return (struct tu_link_head){.what = (uint8_t)what,
                               .link = (uint8_t)end->link->number,
                               .channel = (uint8_t)end->number,
                               .operation = end->link->operation,
                               .number = number};
}

/* The message is sent from its slot, which stays unchanged until the peer has released the message. */
void tu_far_link_tell_message(const struct tu_link_end *end, uint64_t message, const struct tu_link_line *line) {
  struct tu_link_head head = head_of(end, MESSAGE, message);
  head.bytes = line->bytes;
  head.slot = line->slot;
  head.last = line->last;
  tell(end->link->mover, end->link->peer, &head, end->slots + line->slot * end->link->slot_stride, line->bytes, NULL);
}

void tu_far_link_tell_count(const struct tu_link_end *end, bool done, uint64_t count) {
  struct tu_link_head head = head_of(end, done ? DONE : ACKED, count);
  tell(end->link->mover, end->link->peer, &head, NULL, 0, NULL);
}

/* ---- hearing ---- */

/* Returns the copies for the link that the frame is about; NULL: out of memory, or there is no such link. */
static struct tu_far_link *find(struct tu_control *c, uint32_t from, const struct tu_link_head *head) {
  struct tu_mover *m = (struct tu_mover *)(void *)c; /* its first field */
  struct tu_error ignored;
  if (head->link >= TU_LINKS || head->channel >= TU_LINK_CHANNELS) return NULL;
  pthread_mutex_lock(&tu_link_books_lock);
  struct tu_link_book *book = tu_link_book_of(m, from, &ignored);
  struct tu_far_link *far = book ? tu_far_link_of(book, head->link) : NULL;
  pthread_mutex_unlock(&tu_link_books_lock);
  return far;
}

static bool is_valid(const struct tu_link_view *v) {
  return v->channels > 0 && v->channels <= TU_LINK_CHANNELS && v->slots > 0 && v->slots <= TU_LINK_SLOTS &&
         v->slot_bytes <= TU_LINK_SLOT_BYTES_MAX && (v->channels == TU_LINK_CHANNELS || v->sends >> v->channels == 0);
}

/* The peer calls for a new operation: makes a copy of the link memory of its senders. Both ends have closed the operation
 * before. */
static bool renew(struct tu_far_link *far, const struct tu_link_view *view) {
  const size_t bytes = is_valid(view) ? tu_link_memory_bytes(view) : 0;
  free(far->memory);
  far->cell.view = *view;
  far->memory = bytes > 0 ? aligned_alloc(TU_LINE_BYTES, tu_round_up(bytes, TU_LINE_BYTES)) : NULL;
  if (far->memory) memset(far->memory, 0, bytes);
  return far->memory || bytes == 0;
}

static bool hear_cell(struct tu_far_link *far, const struct cell *told) {
  struct tu_link_cell *cell = &far->cell;
  if (atomic_load(&cell->called) != told->called && !renew(far, &told->view)) return false;
  atomic_store_explicit(&cell->called, told->called, memory_order_release);
  atomic_store_explicit(&cell->hello, told->hello, memory_order_release);
  atomic_store_explicit(&cell->met, told->met, memory_order_release);
  atomic_store_explicit(&cell->closed, told->closed, memory_order_release);
  return true;
}

static bool hear(struct tu_control *c, uint32_t from, const struct tu_link_head *head, const void *body, size_t bytes) {
  struct tu_far_link *far = find(c, from, head);
  struct cell cell;
  if (!far) return false;
  switch ((enum what)head->what) {
    case CELL:
      if (bytes != sizeof cell) return true;
      memcpy(&cell, body, sizeof cell);
      return hear_cell(far, &cell);
    case DONE:
      atomic_store_explicit(&far->counts[head->channel].done, (uint32_t)head->number, memory_order_release);
      return true;
    case ACKED:
      atomic_store_explicit(&far->counts[head->channel].acked, (uint32_t)head->number, memory_order_release);
      return true;
    default: return true;
  }
}

/* Finds the line and the slot of a message in the copy of the peer's link memory. Returns NULL if there are none. */
static struct tu_link_line *line_of(const struct tu_far_link *far, const struct tu_link_head *head,
                                    unsigned char **slot) {
  const struct tu_link_view *v = &far->cell.view;
  struct tu_link_end end = {.number = head->channel};
  if (!far->memory || head->operation != atomic_load(&far->cell.called) || head->channel >= v->channels ||
      !(v->sends >> head->channel & 1) || head->slot >= v->slots || head->bytes > v->slot_bytes)
    return NULL;
  tu_link_locate(&end, far->memory, v);
  *slot = end.slots + head->slot * tu_link_slot_stride(v);
  return (struct tu_link_line *)(void *)(end.lines + head->number % v->slots * tu_link_line_stride(v));
}

static void *begin(struct tu_control *c, uint32_t from, const struct tu_link_head *head, size_t bytes) {
  const struct tu_far_link *far = find(c, from, head);
  unsigned char *slot;
  return far && bytes == head->bytes && line_of(far, head, &slot) ? slot : NULL;
}

static void end(struct tu_control *c, uint32_t from, const struct tu_link_head *head) {
  const struct tu_far_link *far = find(c, from, head);
  unsigned char *slot;
  struct tu_link_line *line = far ? line_of(far, head, &slot) : NULL;
  if (!line) return;
  line->bytes = head->bytes;
  line->slot = head->slot;
  line->last = head->last;
  atomic_store_explicit(&line->sequence, (uint32_t)(head->number + 1), memory_order_release);
}

const struct tu_link_hearer tu_link_hearer = {.begin = begin, .end = end, .hear = hear};
