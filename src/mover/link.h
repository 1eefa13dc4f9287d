/* link.h: one end of a link: the channels that two ranks have built together, for programs that move data in their own way.
 * docs/CHANNELS.md is the protocol: which word lies where, who writes it, in what order. Nothing here waits.
 *
 * The cells, through which the ends meet, stay as long as the communicator; the link memory, where a rank's senders have
 * their words and slots, belongs to one operation (from building to closing) and may then serve the next.
 *
 *   done <= max(acked, done) <= sent <= done + slots, of every channel.
 *
 * Different channels of a link may be used by different threads; one channel by one at a time. */
#ifndef TU_LINK_H
#define TU_LINK_H

#include "mover/mover.h"

enum {
  TU_LINKS = 16,         /* between two ranks at a time */
  TU_LINK_CHANNELS = 64, /* bits of a word */
  TU_LINK_SLOTS = 64,
  TU_LINK_HEAD_BYTES = 16, /* of a slot with a merged flag */
  TU_LINK_SLOT_BYTES_MAX = 1 << 30,
};

/* How one end sees the link. */
struct tu_link_view {
  uint32_t slots, slot_bytes;
  bool shared, separate, counted;
  uint32_t channels;
  uint64_t sends;                      /* bit n: this end sends on channel n */
  uint64_t place;                      /* of its link memory; 0: at `address`, for all ranks are in this process */
  uint64_t address;                    /* 0 and no place: it sends on none */
  uint64_t messages[TU_LINK_CHANNELS]; /* of counted streams, not 0 */
};

/* What an end tells the other, on one link. Only its owner writes. */
struct tu_link_cell {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t called; /* the operation for which the view has been written */
  _Atomic uint32_t hello;                          /* ... for which hands have been shaken */
  _Atomic uint32_t met;                            /* ... for which the views have been compared */
  _Atomic uint32_t closed;                         /* the last one that is over here */
  _Alignas(TU_LINE_BYTES) struct tu_link_view view;
};

/* What tells the receiver of a message. */
struct tu_link_line {
  _Atomic uint32_t sequence; /* k + 1: message k is there */
  uint32_t bytes;
  uint32_t slot;
  uint32_t last;
};
_Static_assert(sizeof(struct tu_link_line) == TU_LINK_HEAD_BYTES, "a line is the head of a slot");

struct tu_link;

/* One end of one channel. Counts are of all time; the words in memory are their low halves. */
struct tu_link_end {
  struct tu_link *link;
  uint32_t number; /* in the link */
  bool sends;
  uint64_t ends_at; /* so many messages has the stream; 0: nobody has said yet */
  /* In the sender's link memory; NULL until the link is open. */
  unsigned char *lines, *slots;
  _Atomic uint32_t *done, *acked;
  /* Sender. */
  uint64_t sent, done_seen, acked_seen;
  uint8_t slot_of[TU_LINK_SLOTS]; /* of message k, at k % slots */
  bool acquired;                  /* a slot, for message `sent` */
  /* Receiver. */
  uint64_t taken, peeked; /* released; looked at */
};

enum tu_link_stage { TU_LINK_IS_NEW, TU_LINK_IS_CALLING, TU_LINK_IS_GREETING, TU_LINK_IS_OPEN, TU_LINK_IS_REFUSED };

struct tu_link {
  struct tu_mover *mover;
  uint32_t peer, bell, number;
  uint32_t operation; /* of this link, from 1 */
  struct tu_link_view view;
  struct tu_link_cell *mine;
  const struct tu_link_cell *theirs; /* NULL: not known yet */
  unsigned char *memory;             /* of this end's senders */
  uint64_t own_place;                /* of memory that the link has acquired; 0: it is the user's */
  size_t line_stride, slot_stride;
  _Atomic uint32_t stage;
  struct tu_error refusal;                    /* once REFUSED */
  pthread_mutex_t lock;                       /* of the handshake, and of shared slots with all senders' done_seen */
  uint64_t free_slots;                        /* shared ones: a bit each */
  struct tu_link_end *ends[TU_LINK_CHANNELS]; /* NULL: closed */
  _Atomic uint32_t open_ends;
};

/* ---- making ---- */

/* Bytes that the senders of such a view need. */
size_t tu_link_memory_bytes(const struct tu_link_view *view);
/* An end to be; nobody is told before tu_link_begin. memory NULL: acquired here; else it is at `place` (view.place, or
 * view.address if that is 0). ARGUMENT if the link of that number to that peer is open at this end; MEMORY. */
tutti_err tu_link_create(struct tu_mover *m, uint32_t peer, uint32_t number, const struct tu_link_view *view,
                         unsigned char *memory, struct tu_link **link, struct tu_error *error);
/* The end becomes the link's channel of that number. */
void tu_link_adopt(struct tu_link *link, uint32_t number, struct tu_link_end *end);
/* Takes the number of the operation. From now on the peer may look. */
void tu_link_begin(struct tu_link *link);
/* Goes as far in the handshake as it can; true: the link is open or refused. For any thread. */
bool tu_link_advance(struct tu_link *link);
static inline bool tu_link_is_open(const struct tu_link *link) {
  return atomic_load_explicit(&link->stage, memory_order_acquire) == TU_LINK_IS_OPEN;
}
static inline bool tu_link_is_refused(const struct tu_link *link) {
  return atomic_load_explicit(&link->stage, memory_order_acquire) == TU_LINK_IS_REFUSED;
}

/* ---- moving; the link is open ---- */

/* The slot for the next message; NULL: none is free. Its end is not over. */
void *tu_link_acquire(struct tu_link_end *end);
/* A slot is acquired. */
void tu_link_commit(struct tu_link_end *end, size_t bytes, bool last);
/* How many messages have been released, by now. Shared slots: those of these are free again. */
uint64_t tu_link_done(struct tu_link_end *end);
/* How many have been acknowledged or released. */
uint64_t tu_link_acked(struct tu_link_end *end);

/* The line of message `taken + ahead`, or NULL if it is not there; *data: its payload. `ends_at` is known if the last
 * message is there, up to that one. */
const struct tu_link_line *tu_link_peek(struct tu_link_end *end, uint32_t ahead, const void **data);
void tu_link_ack(struct tu_link_end *end);
/* Message `taken` has been peeked at. */
void tu_link_release(struct tu_link_end *end);

/* Is the stream over at this end? */
static inline bool tu_link_end_is_over(const struct tu_link_end *end) {
  return end->ends_at > 0 && (end->sends ? end->sent : end->taken) == end->ends_at;
}

/* ---- the end ---- */

/* May the channel be closed: is a sender drained; does the other end know, too, that the views differ? */
bool tu_link_drained(struct tu_link_end *end);
/* The end is no part of the link any more. With the last one the operation is closed and the link is gone. in_order: it
 * was drained; else shared memory is left alone. */
void tu_link_leave(struct tu_link_end *end, bool in_order);
/* Frees the link, whatever is open; for one that nobody was told of, or of a communicator that goes. */
void tu_link_destroy(struct tu_link *link, bool in_order);

/* What the mover keeps of all links; from tu_mover_destroy. */
void tu_link_books_destroy(struct tu_mover *m, bool in_order);

/* ---- traces ---- */

enum tu_link_step {
  TU_LINK_SEE_PREVIOUS,
  TU_LINK_CLEAR,
  TU_LINK_CALL,
  TU_LINK_HELLO,
  TU_LINK_SEE_CALL,
  TU_LINK_MISMATCH,
  TU_LINK_SEE_HELLO,
  TU_LINK_WELCOME,
  TU_LINK_SEE_WELCOME,
  TU_LINK_OPEN,
  TU_LINK_SEE_CREDIT,
  TU_LINK_ACQUIRE,
  TU_LINK_FILL,
  TU_LINK_FLAG,
  TU_LINK_SEE_ACK,
  TU_LINK_SEE_FLAG,
  TU_LINK_ACK,
  TU_LINK_RELEASE,
  TU_LINK_DRAINED,
  TU_LINK_ENDED,
  TU_LINK_CLOSED,
  TU_LINK_STEPS
};

struct tu_link_event {
  enum tu_link_step step;
  uint32_t rank, peer, link; /* whose step it is, whom it concerns */
  uint32_t operation;        /* from 1 */
  uint32_t channel;          /* number in the link; steps of the whole link: 0 */
  uint64_t number;           /* of the message, or the value of the counter that was written or seen */
  uint32_t slot;             /* in which it lies */
  uint32_t bytes;
  bool last;
};

/* Called at every step by the thread that makes it: just before a store, just after a load that found something. NULL in
 * production; tests set it before there are links. */
extern void (*tu_link_trace)(const struct tu_link_event *event);

#endif
