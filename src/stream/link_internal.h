/* link_internal.h: definitions that link.c and link_stream.c share. */
#ifndef TU_LINK_INTERNAL_H
#define TU_LINK_INTERNAL_H

#include "stream/link.h"

/* ---- link_memory.c ---- */

/* What an end knows of the other end, on another host (link_far.c). */
struct tu_far_link {
  struct tu_link_cell cell; /* of the peer */
  unsigned char *memory;    /* link memory of the peer's senders, for the operation that it has called last */
  /* [channel], written by the peer: for channels on which this end sends */
  struct {
    _Alignas(TU_LINE_BYTES) _Atomic uint32_t done, acked;
  } counts[TU_LINK_CHANNELS];
};

/* A rank's record of its links to one peer. */
struct tu_link_book {
  /* [TU_LINKS]: one cell (published state) per link, in this rank's slice of shared memory */
  struct tu_link_cell *cells;
  uint64_t offset;
  /* number of the last operation that was begun on each link. An operation is one use of a link, from building to
   * closing */
  uint32_t operations[TU_LINKS];
  bool taken[TU_LINKS]; /* true: the link of that number is open */
  /* If the peer is on another host: what this rank knows of the peer's ends; NULL: nothing yet */
  struct tu_far_link *far[TU_LINKS];
};

/* Protects all struct tu_link_book (records of links). They are used only when links are created or closed. */
extern pthread_mutex_t tu_link_books_lock;
/* Returns this rank's record of its links to that peer. The first call for a peer creates the record and announces its
 * cells to the peer. The caller holds the lock. Returns NULL and sets TUTTI_ERR_MEMORY if there is no memory. */
struct tu_link_book *tu_link_book_of(struct tu_mover *m, uint32_t peer, struct tu_error *error);

/* Returns the copies for the link of that number, made on first use; NULL: out of memory. The caller holds the lock. */
struct tu_far_link *tu_far_link_of(struct tu_link_book *book, uint32_t number);
/* Returns the cells behind the head of memory that a rank has announced. */
struct tu_link_cell *tu_link_cells_behind(struct tu_announced *memory);

/* Returns true if each line lies at the beginning of its message's slot (struct tu_link_line). */
static inline bool tu_link_is_merged(const struct tu_link_view *v) { return !v->shared && !v->separate; }
/* Computes where the counters, lines and slots of a channel lie in link memory. The layout depends on the view. */
void tu_link_locate(struct tu_link_end *end, unsigned char *memory, const struct tu_link_view *view);
size_t tu_link_line_stride(const struct tu_link_view *view);
size_t tu_link_slot_stride(const struct tu_link_view *view);

/* ---- link_far.c: links with a rank of another host ----
 * Each end has copies of the words and messages that the other end writes: of its cell, of the link memory of its senders,
 * and of the counters of its receivers. What an end writes is sent as a frame, in order, and written into the copy. So
 * both ends run the same protocol as on one host. */

/* Tell the peer what was written: this end's cell; a message; or the counter `done` or `acked`. Out of memory: the
 * communicator fails. */
void tu_far_link_tell_cell(struct tu_mover *m, uint32_t peer, uint32_t number, const struct tu_link_cell *cell);
void tu_far_link_tell_message(const struct tu_link_end *end, uint64_t message, const struct tu_link_line *line);
void tu_far_link_tell_count(const struct tu_link_end *end, bool done, uint64_t count);

/* ---- traces ---- */

/* Reports a step of the whole link to the trace function. */
static inline void tu_link_tell(const struct tu_link *link, enum tu_link_step step, uint64_t number) {
  if (!tu_link_trace) return;
  tu_link_trace(&(struct tu_link_event){.step = step,
                                        .rank = link->mover->rank,
                                        .peer = link->peer,
                                        .link = link->number,
                                        .operation = link->operation,
                                        .number = number});
}

/* Reports a step of one channel to the trace function. line: header of the message concerned, or NULL. Called only
 * if tu_link_trace is set. */
void tu_link_say(const struct tu_link_end *end, enum tu_link_step step, uint64_t number,
                 const struct tu_link_line *line);

static inline struct tu_link_line *tu_link_line_at(const struct tu_link_end *end, uint64_t message) {
  const struct tu_link *link = end->link;
  return (struct tu_link_line *)(void *)(end->lines + message % link->view.slots * link->line_stride);
}

#endif
