/* channel.h: streams of messages between two ranks, for programs that move data in their own way. Messages are written
 * and read in place.
 *
 * A channel is a one-way sequence of messages from one rank to another. The messages pass through slots: buffers in
 * memory that both ranks map. The sender acquires a free slot, fills it and commits it. The receiver peeks at the
 * oldest message, reads it in its slot and releases it. These calls do not copy data, do not allocate memory and need
 * no lock; only shared slots need a lock of the sending rank. A sender can be ahead of its receiver by as many messages
 * as there are slots. docs/CHANNELS.md describes the protocol: which end writes which word, and when.
 *
 * A link is the set of channels that two ranks build together: 1 to 64 channels, each in one of the two directions.
 * Both ranks add the channels in the same order and mirrored: where one rank adds a sender, the other adds a receiver.
 * Before the first message the two ends do a handshake: they compare their channels and options, which must match. The
 * end that sends on the first channel starts the handshake.
 *
 * Waiting: each call that waits has a variant with `try` in its name, which checks once and does not wait. timeout_ms
 * is in milliseconds; 0: no time limit. TUTTI_ERR_TIMEOUT leaves the channel unchanged. A call that waits returns
 * TUTTI_ERR_PEER if a rank of the communicator has died, or if the peer has freed the communicator. A `try` call may
 * not see this at once, but returns the error in the end if it is repeated. The error then becomes the verdict of the
 * communicator (its first failure) on all of its ranks. Once the communicator has failed, calls return its verdict.
 *
 * Errors: TUTTI_ERR_ARGUMENT, unless a comment names others. An error leaves the channel unchanged.
 * tutti_error_message(NULL) returns the message.
 *
 * Who may call: all functions are local (tutti/tutti.h). Each of the two ranks builds, uses and closes its own end.
 * Threads: different channels, even those of one link, may be used by different threads at once, while another thread
 * uses the communicator. One end of a channel may be used by one thread at a time. If a second thread makes a call
 * during a call of the first, and the library detects this, the second call returns TUTTI_ERR_ARGUMENT. The library
 * always detects it while the first thread waits. A builder may be used by one thread at a time. */
#ifndef TUTTI_CHANNEL_H
#define TUTTI_CHANNEL_H

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_channel tutti_channel;
typedef struct tutti_channel_builder tutti_channel_builder;

typedef enum tutti_channel_direction {
  TUTTI_CHANNEL_SENDS = 0,
  TUTTI_CHANNEL_RECEIVES = 1,
} tutti_channel_direction;

/* When a stream of messages ends. */
typedef enum tutti_channel_ending {
  TUTTI_CHANNEL_MARKED = 0,  /* the stream ends after the message that is committed with last = true */
  TUTTI_CHANNEL_COUNTED = 1, /* the stream ends after a fixed number of messages, stated at both ends */
} tutti_channel_ending;

/* Options of a link. The default of each field is 0. All fields but memory, memory_bytes and timeout_ms must be
 * equal at both ends. */
typedef struct tutti_channel_options {
  uint32_t slots;    /* number of slots, 1 to 64 per channel, or per end if `shared` is true; 0 means 2 slots */
  size_t slot_bytes; /* maximum bytes of a message, up to 1 GiB; 0 means 16384 bytes */
  tutti_channel_ending ending;
  uint64_t messages; /* number of messages of a counted stream; only for tutti_channel_open */
  bool shared;       /* true: all channels on which an end sends share one pool of slots; false: each channel has its
                      * own slots */
  /* Position of a message's flag, by which the receiver sees that the message has arrived. true: the flag lies in a
   * cache line of its own; slots are then aligned to 64 bytes. false: the flag lies in the first 16 bytes of the slot,
   * before the payload; slots are then aligned to 16 bytes, and a message of up to 48 bytes is transferred as one cache
   * line. If `shared` is true, flags always lie in cache lines of their own. */
  bool separate_flag;
  uint32_t link;  /* number of the link, 0 to 15; two open links between the same two ranks need different numbers */
  int timeout_ms; /* time limit of tutti_channel_open, in ms; 0: no limit */
  /* Memory for the slots of this end's senders, from tutti_alloc or registered with tutti_register, aligned to 64
   * bytes, with at least tutti_channel_builder_bytes() bytes. The channels use the memory until all channels of the
   * builder are closed; then the caller may use it again. If NULL, the library allocates the memory. */
  void *memory;
  size_t memory_bytes;
  /* New fields are added at the end, here. */
} tutti_channel_options;

/* ---- building ---- */

/* Creates a builder of channels. All its channels have the same options, which are copied; if `options` is NULL, all
 * options have their defaults. The communicator must outlive the builder and the channels. The caller frees the builder
 * with tutti_channel_builder_free. Errors: TUTTI_ERR_ARGUMENT, TUTTI_ERR_MEMORY, or the verdict of the communicator
 * (its first failure). Any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_builder_create_sized(tutti_comm *comm,
                                                                     const tutti_channel_options *options,
                                                                     size_t options_bytes,
                                                                     tutti_channel_builder **builder);
TUTTI_CHECKED static inline tutti_err tutti_channel_builder_create(tutti_comm *comm,
                                                                   const tutti_channel_options *options,
                                                                   tutti_channel_builder **builder) {
  return tutti_channel_builder_create_sized(comm, options, sizeof *options, builder);
}
/* Adds one channel: tutti_channel_add_sender adds a channel to rank `to`, tutti_channel_add_receiver a channel from
 * rank `from`. `to` or `from` must differ from the caller's own rank. `messages` is the number of messages of a counted
 * stream (at least 1), or 0 for a marked stream. *index, if not NULL, is set to the channel's index in the array of
 * tutti_channel_build(), from 0 in the order of adding. Errors: TUTTI_ERR_ARGUMENT, TUTTI_ERR_MEMORY. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_add_sender(tutti_channel_builder *builder, uint32_t to,
                                                           uint64_t messages, uint32_t *index);
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_add_receiver(tutti_channel_builder *builder, uint32_t from,
                                                             uint64_t messages, uint32_t *index);
/* Returns how many bytes of memory the senders that were added so far need; see tutti_channel_options.memory. The
 * thread that uses the builder. */
TUTTI_API size_t tutti_channel_builder_bytes(const tutti_channel_builder *builder);
/* Builds this rank's ends of all added channels and writes them to channels[], in the order of adding. Starts the
 * handshakes and does not wait for them; every later call of this rank that waits, on any communicator, continues
 * them. Errors: TUTTI_ERR_ARGUMENT if the builder has built before, or if a link with the same number to the same rank
 * is still open at this end; TUTTI_ERR_MEMORY; or the verdict of the communicator (its first failure). After an error
 * no channel exists. The caller provides the array, one entry per channel, and closes each channel with
 * tutti_channel_close. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_build(tutti_channel_builder *builder, tutti_channel **channels);
/* Frees the builder, but not the channels that it has built. NULL is accepted. The memory of the options stays in use
 * by the channels. */
TUTTI_API void tutti_channel_builder_free(tutti_channel_builder *builder);

/* Sets *ready to true once the other end of the link has been built and agrees with this end; tutti_channel_ready waits
 * until then. Calling these functions is optional: calls that move data make the same check. Further error:
 * TUTTI_ERR_MISMATCH, at both ends, if the ends differ in slots, slot bytes, sharing, flags, ending, number of
 * channels, directions or message counts. The message shows the values of both ends. After a mismatch the channels can
 * only be closed. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_try_ready(tutti_channel *channel, bool *ready);
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_ready(tutti_channel *channel, int timeout_ms);

/* Builds a link of one channel and waits until it is ready. If the link does not become ready, *channel is NULL. After
 * TUTTI_ERR_TIMEOUT the other end may still arrive, so the number of the link stays in use until the communicator is
 * freed. The caller closes the channel with tutti_channel_close. Any thread. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_open_sized(tutti_comm *comm, uint32_t peer,
                                                           tutti_channel_direction direction,
                                                           const tutti_channel_options *options, size_t options_bytes,
                                                           tutti_channel **channel);
TUTTI_CHECKED static inline tutti_err tutti_channel_open(tutti_comm *comm, uint32_t peer,
                                                         tutti_channel_direction direction,
                                                         const tutti_channel_options *options,
                                                         tutti_channel **channel) {
  return tutti_channel_open_sized(comm, peer, direction, options, sizeof *options, channel);
}

/* ---- sending ---- */

/* Sets *slot to a free slot of slot_bytes bytes. If no slot is free, tutti_channel_try_acquire sets *slot to NULL, and
 * tutti_channel_acquire waits. Further calls return the same slot until it is committed. Error: TUTTI_ERR_ARGUMENT
 * after the end of the stream. The channel owns the memory of the slot; the program may write it until
 * tutti_channel_commit. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_try_acquire(tutti_channel *channel, void **slot);
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_acquire(tutti_channel *channel, int timeout_ms, void **slot);
/* Sends the first `bytes` bytes (0 to slot_bytes) of the acquired slot. The slot then belongs to the receiver. If
 * `last` is true, this is the last message; allowed only for marked streams. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_commit(tutti_channel *channel, size_t bytes, bool last);
/* Sets *messages to the number of sent messages that the receiver has acknowledged or released. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_try_acked(tutti_channel *channel, uint64_t *messages);
/* Waits until the receiver has acknowledged or released the first `messages` messages of the stream. `messages` must
 * not exceed the number of sent messages. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_acked(tutti_channel *channel, uint64_t messages, int timeout_ms);

/* ---- receiving ---- */

typedef struct tutti_channel_message {
  const void *data; /* payload, in its slot; valid until the message is released; NULL: there is no message */
  size_t bytes;
  uint64_t number; /* number of the message in the stream, from 0 */
  bool last;       /* true: this message is the last one (it is marked as last, or completes a counted stream) */
} tutti_channel_message;

/* Sets *message to the oldest message that is not released (ahead = 0), or to the message `ahead` positions after it;
 * `ahead` must be less than `slots`. If the message has not arrived, tutti_channel_try_peek sets message->data to NULL,
 * and tutti_channel_peek waits. Error: TUTTI_ERR_ARGUMENT beyond the end of the stream. The channel owns the
 * payload. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_try_peek(tutti_channel *channel, uint32_t ahead,
                                                         tutti_channel_message *message);
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_peek(tutti_channel *channel, uint32_t ahead, int timeout_ms,
                                                     tutti_channel_message *message);
/* Acknowledges all messages at which the receiver has peeked. Their slots still belong to the receiver. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_ack(tutti_channel *channel);
/* Returns the slot of the oldest message to the sender. The receiver must have peeked at this message. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_release(tutti_channel *channel);

/* ---- the end ---- */

/* Returns true if the stream is over at this end: the sender has committed, or the receiver has released, all messages.
 * The thread that uses this end. */
TUTTI_API bool tutti_channel_ended(const tutti_channel *channel);
/* Closes this end of a channel whose stream is over. Error: TUTTI_ERR_ARGUMENT if the stream is not over. A sender
 * waits until the receiver has released all slots.
 *
 * The channel is freed if the call returns TUTTI_OK (tutti_channel_try_close: if *closed is true). It is also freed if
 * the communicator has failed; the call then returns the verdict (the first failure). If the handshake has ended with
 * TUTTI_ERR_MISMATCH, the channel is freed, and the call returns TUTTI_OK. After any other result the channel stays
 * open, and may be closed again.
 *
 * Once all channels of this end of the link are closed, the number and the memory of the link may be used again, for
 * example by the next link. Nothing of the closed link arrives later. NULL is accepted. */
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_try_close(tutti_channel *channel, bool *closed);
TUTTI_API TUTTI_CHECKED tutti_err tutti_channel_close(tutti_channel *channel, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
