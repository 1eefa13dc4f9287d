/* channel.h: streams of messages between two ranks, written and read in place: the library's data mover for programs
 * that move data in their own way.
 *
 * A channel is a one-way sequence of messages from one rank to another, through slots in memory that both see. The
 * sender acquires a free slot, fills it and commits it; the receiver peeks at the oldest message, reads it where it lies
 * and releases it. Nothing is copied, and nothing is allocated or locked on the way (shared slots take a lock of the
 * sending rank). A sender runs ahead of its receiver by as many messages as there are slots. docs/CHANNELS.md says which
 * word is written by whom and when.
 *
 * Channels between the same two ranks that are built together are a link: at most 64, each in one of the two directions.
 * Both ranks build their ends, in the same order and mirrored: what one adds as a sender, the other adds as a receiver.
 * Before anything is sent the ends shake hands, and compare how they see the link; the end that has a sender begins, and if
 * both have, the one with the sender that was added first.
 *
 * Waiting: every call either waits or has a sibling with `try` in its name that looks once. timeout_ms: 0 or
 * negative: none. TIMEOUT leaves the channel as it was. Calls also return PEER if a rank of the communicator has died, or the
 * peer has freed the communicator, while they wait, or look again and again: that is the verdict of the communicator on
 * all of its ranks then; or the verdict that it has already.
 *
 * Other errors are ARGUMENT unless something else is said; they leave the channel as it was. The sentence is at
 * tutti_error_message(NULL).
 *
 * Threads: different channels, of the same link too, may be used by different threads at once, while another thread uses
 * the communicator. An end of a channel serves one thread at a time: one writer and one reader. A second one that comes while
 * the first is in a call gets ARGUMENT where that is seen; it is always seen while the first waits. Builders are
 * used by one thread at a time. */
#ifndef TUTTI_CHANNEL_H
#define TUTTI_CHANNEL_H

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_channel tutti_channel;
typedef struct tutti_channel_builder tutti_channel_builder;

typedef enum tutti_channel_direction { TUTTI_CHANNEL_SENDS, TUTTI_CHANNEL_RECEIVES } tutti_channel_direction;

/* How a stream ends. */
typedef enum tutti_channel_ending {
  TUTTI_CHANNEL_MARKED,  /* with the message that its sender marks as the last one */
  TUTTI_CHANNEL_COUNTED, /* after a number of messages that both ends know */
} tutti_channel_ending;

/* Zero is the default everywhere. All but `memory` and timeout_ms must be the same at both ends. */
typedef struct tutti_channel_options {
  uint32_t slots;    /* 1 to 64; of each channel, or of all that an end sends on if they are shared; 0: 2 */
  size_t slot_bytes; /* the longest message, up to 1 GiB; 0: 16384 */
  tutti_channel_ending ending;
  uint64_t messages;  /* COUNTED, tutti_channel_open: how many */
  bool shared;        /* slots: of all channels of a link that an end sends on; else each has its own */
  bool separate_flag; /* the flag of a message has a cache line of its own, and slots are aligned to 64 bytes; else
                         both share the first 64 bytes, slots are aligned to 16, and messages up to 48 bytes
                         cross as one cache line. Flags of shared slots are always separate. */
  uint32_t link;      /* 0 to 15: links between the same two ranks at the same time have different numbers */
  /* Where the slots of this end's senders lie: memory of tutti_alloc or registered (tutti_register), aligned to 64,
   * tutti_channel_builder_bytes() long at least. It is the channels' until all that this builder made are closed; then it may
   * serve others. NULL: the library's own. */
  void *memory;
  size_t memory_bytes;
  int timeout_ms; /* of tutti_channel_open */
} tutti_channel_options;

/* ---- building ---- */

/* options NULL: all defaults; they are copied. The communicator must outlive the builder and the channels. Errors: also the
 * verdict. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_builder_create(tutti_comm *comm, const tutti_channel_options *options,
                                                               tutti_channel_builder **builder);
/* One more channel, to or from that rank, which is another one. messages: of a counted stream; 0 if it is marked.
 * *index (NULL: nobody asks): where in the list of tutti_channel_build() it will be, from 0 in the order of adding. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_add_sender(tutti_channel_builder *builder, uint32_t to,
                                                           uint64_t messages, uint32_t *index);
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_add_receiver(tutti_channel_builder *builder, uint32_t from,
                                                             uint64_t messages, uint32_t *index);
/* How much memory the senders need that have been added so far. */
TUTTI_API size_t tutti_channel_builder_bytes(const tutti_channel_builder *builder);
/* This rank's ends, in the order of adding, into channels[]; begins the handshakes and does not wait for them. A builder
 * builds once, and a link that is still open at this end is not built again: both are ARGUMENT. Errors: also MEMORY; then
 * there are no channels. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_build(tutti_channel_builder *builder, tutti_channel **channels);
/* NULL is accepted. Its channels stay. */
TUTTI_API void tutti_channel_builder_free(tutti_channel_builder *builder);

/* Has the other end come, and agreed? Calls that move data do it too, so nobody has to ask. Errors: MISMATCH, at both ends, if
 * they see the link differently: in slots, their size, sharing, flags, ending, the number of channels, their
 * directions or counts; the sentence says how each of them sees it, and the channels can only be closed. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_try_ready(tutti_channel *channel, bool *ready);
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_ready(tutti_channel *channel, int timeout_ms);

/* A link of one channel, built and ready. If it does not become ready, *channel is NULL; after TIMEOUT the other end may
 * still come, so that the link of this number stays taken until the communicator is freed. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_open(tutti_comm *comm, uint32_t peer, tutti_channel_direction direction,
                                                     const tutti_channel_options *options, tutti_channel **channel);

/* ---- sending ---- */

/* A free slot of slot_bytes, or *slot = NULL. Until it is committed the same one is returned again. After the end of the
 * stream: ARGUMENT. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_try_acquire(tutti_channel *channel, void **slot);
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_acquire(tutti_channel *channel, int timeout_ms, void **slot);
/* Sends the first `bytes` (0 to slot_bytes) of the acquired slot, which is the receiver's from now on. last: nothing follows;
 * of a marked stream only. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_commit(tutti_channel *channel, size_t bytes, bool last);
/* How many messages the receiver has acknowledged or released, of those that were sent. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_try_acked(tutti_channel *channel, uint64_t *messages);
/* Until that many of the stream have been; no more than have been sent. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_acked(tutti_channel *channel, uint64_t messages, int timeout_ms);

/* ---- receiving ---- */

typedef struct tutti_channel_message {
  const void *data; /* where it lies, until it is released; NULL: there is none */
  size_t bytes;
  uint64_t number; /* in the stream, from 0 */
  bool last;       /* nothing follows: marked so, or the last one of a counted stream */
} tutti_channel_message;

/* The oldest message that has not been released (ahead 0), or the one `ahead` messages after it: less than `slots`.
 * Beyond the end of the stream: ARGUMENT. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_try_peek(tutti_channel *channel, uint32_t ahead,
                                                         tutti_channel_message *message);
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_peek(tutti_channel *channel, uint32_t ahead, int timeout_ms,
                                                     tutti_channel_message *message);
/* Tells the sender that every message that has been peeked at has arrived. Their slots stay the receiver's. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_ack(tutti_channel *channel);
/* Gives the slot of the oldest message, which has been peeked at, back to the sender. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_release(tutti_channel *channel);

/* ---- the end ---- */

/* Is the stream over at this end: has everything been committed, or released? */
TUTTI_API bool tutti_channel_ended(const tutti_channel *channel);
/* Ends this end of a stream that is over (else ARGUMENT): a sender waits until every slot has come home. The channel is
 * gone when OK is returned, or *closed; also, with the verdict, if the communicator has failed, and with OK if the ends did not
 * agree. What else is returned leaves it open, and it may be closed again. Once all channels of this end of the link
 * are closed, its number and its memory may be used again, by the next link too, and nothing that belonged to this one
 * comes later. NULL is accepted. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_try_close(tutti_channel *channel, bool *closed);
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_close(tutti_channel *channel, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
