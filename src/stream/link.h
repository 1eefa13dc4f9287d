/* link.h: one end of a link. A link is all channels that two ranks have built together (tutti/channel.h).
 * docs/CHANNELS.md describes the protocol: where each word lies, which end writes it, and in what order. No function
 * here waits.
 *
 * Each end has a cell, in which it publishes its state for the other end. Cells live as long as the communicator. One
 * use of a link, from building to closing, is an operation. During an operation, the link memory of an end holds the
 * counters, flags and slots of the channels on which the end sends. Afterwards a later operation may use the same
 * memory.
 *
 * For every channel: done <= max(acked, done) <= sent <= done + slots.
 *
 * Different channels of a link may be used by different threads. One channel may be used by one thread at a time. */
#ifndef TU_LINK_H
#define TU_LINK_H

#include "mover/mover.h"

enum {
  TU_LINKS = 16,         /* maximum open links between two ranks */
  TU_LINK_CHANNELS = 64, /* maximum channels of a link, as many as a 64-bit mask has bits */
  TU_LINK_SLOTS = 64,
  /* Bytes of a line, the header of a message. If a channel has its own slots and the option separate_flag is false,
   * each line lies at the beginning of its message's slot ("merged"). Otherwise the lines lie apart from the slots. */
  TU_LINK_HEAD_BYTES = 16,
  TU_LINK_SLOT_BYTES_MAX = 1 << 30,
};

/* The parameters of a link, as one end knows them: its view. The two ends compare their views. If the views do not
 * agree, the link is refused. */
struct tu_link_view {
  uint32_t slots, slot_bytes;
  bool shared, separate, counted;
  uint32_t channels;
  uint64_t sends; /* bit n is set: this end sends on channel n */
  /* offset in the segment of the end's link memory (counters, flags and slots); 0: use `address`, because all ranks are
   * in this process */
  uint64_t offset;
  uint64_t address; /* address of the end's link memory; address 0 and offset 0: the end has no senders */
  /* [channel]: if `counted` is true, the number of messages of the channel's stream, at least 1 */
  uint64_t messages[TU_LINK_CHANNELS];
};

/* A cell: shared memory in which one end of a link publishes its state for the other end. Only the owner writes the
 * cell. */
struct tu_link_cell {
  /* number of the last operation (use of the link) for which this end has written its view (parameters of the link) */
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t called;
  /* number of the last operation (use of the link) for which this end has sent its handshake */
  _Atomic uint32_t hello;
  /* number of the last operation (use of the link) for which this end has compared the views (parameters) of both
   * ends */
  _Atomic uint32_t met;
  _Atomic uint32_t closed; /* number of the last operation (use of the link) that this end has closed */
  _Alignas(TU_LINE_BYTES) struct tu_link_view view;
};

/* A line: the header of a message. It tells the receiver that the message has arrived, and where it lies. */
struct tu_link_line {
  _Atomic uint32_t sequence; /* k + 1 if message k has arrived and this is its line */
  uint32_t bytes;
  uint32_t slot;
  uint32_t last;
};
_Static_assert(sizeof(struct tu_link_line) == TU_LINK_HEAD_BYTES, "a line is the head of a slot");

struct tu_link;

/* One end of one channel. The 64-bit counters never overflow; shared memory contains their lower 32 bits. */
struct tu_link_end {
  struct tu_link *link;
  uint32_t number; /* number of the channel in the link */
  bool sends;
  /* number of messages of the whole stream; 0: not known yet, because the last message has not been sent or seen */
  uint64_t ends_at;
  /* Addresses in the sender's link memory: of the lines (message headers), the slots and the counters. NULL until the
   * handshake sets them. */
  unsigned char *lines, *slots;
  _Atomic uint32_t *done, *acked;
  /* Used by a sender. sent: number of messages sent. done_seen, acked_seen: the counters `done` and `acked`, as last
   * read. */
  uint64_t sent, done_seen, acked_seen;
  uint8_t slot_of[TU_LINK_SLOTS]; /* message k uses slot slot_of[k % slots] */
  bool acquired;                  /* true: a slot is acquired for message number `sent` */
  /* The following fields are used by a receiver. */
  uint64_t taken, peeked; /* taken: number of messages released; peeked: number peeked at */
};

enum tu_link_stage { TU_LINK_IS_NEW, TU_LINK_IS_CALLING, TU_LINK_IS_GREETING, TU_LINK_IS_OPEN, TU_LINK_IS_REFUSED };

struct tu_link {
  struct tu_mover *mover;
  uint32_t peer, bell, number;
  uint32_t operation; /* number of the current operation (one use of a link, from building to closing), from 1 */
  struct tu_link_view view;
  struct tu_link_cell *mine;
  const struct tu_link_cell *theirs; /* the peer's cell (its state in shared memory); NULL: not found yet */
  struct tu_far_link *far;           /* copies of what a peer on another host writes; NULL: it is on this host */
  unsigned char *memory;             /* link memory: counters, flags and slots of this end's senders */
  /* offset in the segment of link memory that the link has allocated; 0: the memory is the user's */
  uint64_t own_offset;
  size_t line_stride, slot_stride;
  _Atomic uint32_t stage;
  struct tu_error refusal; /* the error that describes the mismatch; valid once the stage is REFUSED */
  pthread_mutex_t lock;    /* protects the handshake; with shared slots, also free_slots and done_seen */
  uint64_t free_slots;     /* with shared slots: bit n is set if slot n is free */
  struct tu_link_end *ends[TU_LINK_CHANNELS]; /* the ends by channel number; NULL: that channel is closed */
  _Atomic uint32_t open_ends;
  struct tu_link *next; /* the next one of the links whose handshakes are not over */
};

/* ---- creating ---- */

/* Returns the bytes of link memory (counters, flags and slots) that one end needs for its senders. */
size_t tu_link_memory_bytes(const struct tu_link_view *view);
/* Creates an end. The peer does not see it before tu_link_begin. If memory is NULL, this function allocates the link
 * memory. Otherwise the caller's memory is used: it lies at view.offset, or at view.address if view.offset is 0.
 * Errors: TUTTI_ERR_ARGUMENT if this end already has an open link of that number to that peer; TUTTI_ERR_MEMORY. */
tutti_err tu_link_create(struct tu_mover *m, uint32_t peer, uint32_t number, const struct tu_link_view *view,
                         unsigned char *memory, struct tu_link **link, struct tu_error *error);
/* Initializes `end` as this rank's end of the link's channel of that number. */
void tu_link_adopt(struct tu_link *link, uint32_t number, struct tu_link_end *end);
/* Begins the next operation of the link (one use, from building to closing) and gives it a number. From now on the peer
 * may see this end. */
void tu_link_begin(struct tu_link *link);
/* Forgets all links of the parent process, in a process that was forked from it. */
void tu_link_reset(void);
/* Continues the handshake as far as possible without waiting. Calls that wait do this for all links of the rank
 * (tu_mover_shake_hands). Returns true if the link is open, or refused (the two ends did not agree). Any thread may
 * call this function. */
bool tu_link_advance(struct tu_link *link);
static inline bool tu_link_is_open(const struct tu_link *link) {
  return atomic_load_explicit(&link->stage, memory_order_acquire) == TU_LINK_IS_OPEN;
}
static inline bool tu_link_is_refused(const struct tu_link *link) {
  return atomic_load_explicit(&link->stage, memory_order_acquire) == TU_LINK_IS_REFUSED;
}

/* ---- moving messages; the link is open ---- */

/* Returns the slot for the next message; NULL: no slot is free. The stream must not have ended. */
void *tu_link_acquire(struct tu_link_end *end);
/* Sends the message that is in the acquired slot. `last`: it is the last message of the stream. */
void tu_link_commit(struct tu_link_end *end, size_t bytes, bool last);
/* Returns the number of messages that the receiver has released. If the channels share slots, also marks the slots of
 * these messages as free. */
uint64_t tu_link_done(struct tu_link_end *end);
/* Returns the number of messages that the receiver has acknowledged or released. */
uint64_t tu_link_acked(struct tu_link_end *end);

/* Looks for message number `taken + ahead`. If it has arrived, returns its line (header), and sets *data to its
 * payload. Otherwise returns NULL. If the last message of the stream has been seen, ends_at is set. */
const struct tu_link_line *tu_link_peek(struct tu_link_end *end, uint32_t ahead, const void **data);
void tu_link_ack(struct tu_link_end *end);
/* Releases message number `taken`, which must have been peeked at. */
void tu_link_release(struct tu_link_end *end);

/* Returns true if the stream is over at this end. A sender's is over once it has sent the last message, a receiver's
 * once it has released the last message. */
static inline bool tu_link_end_is_over(const struct tu_link_end *end) {
  return end->ends_at > 0 && (end->sends ? end->sent : end->taken) == end->ends_at;
}

/* ---- closing ---- */

/* Returns true if the channel may be closed. A sending end may be closed once the receiver has released all messages; a
 * receiving end always. If the two ends did not agree: once the other end has learned of it. */
bool tu_link_drained(struct tu_link_end *end);
/* Removes the end of a channel from its link. If it was the last end, also ends the current use of the link, and frees
 * the link. in_order true: the end was drained, and the peer is told that the use has ended. false (the communicator
 * has failed, or ends): shared memory is not changed. */
void tu_link_leave(struct tu_link_end *end, bool in_order);
/* Frees the link, even if channels are open. in_order true: also releases its link memory and its number, so that
 * another link can use them. Used if the peer has not seen the link, or if the communicator ends. */
void tu_link_destroy(struct tu_link *link, bool in_order);

/* Receives what ranks of other hosts tell about links. */
extern const struct tu_link_hearer tu_link_hearer;

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
  uint32_t rank, peer, link; /* rank that performs the step; rank at the other end; number of the link */
  uint32_t operation;        /* number of the operation (use of the link), from 1 */
  uint32_t channel;          /* number of the channel in the link; 0 for a step of the whole link */
  uint64_t number;           /* number of the message, or value of the counter that was written or read */
  uint32_t slot;             /* number of the slot that holds the message */
  uint32_t bytes;
  bool last;
};

/* Called at every step by the thread that performs the step: just before a store, or just after a load that found
 * new data. NULL in production; tests set this function before they create links. */
extern void (*tu_link_trace)(const struct tu_link_event *event);

#endif
