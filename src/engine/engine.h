/* engine.h: the engine, which runs a program (program.h) for one call. One poll advances the run as far as possible and
 * returns. The engine has no threads and no clock, and never sleeps. */
#ifndef TU_ENGINE_H
#define TU_ENGINE_H

#include "engine/copy.h"
#include "engine/kernels.h"
#include "engine/partition.h"
#include "engine/program.h"
#include "engine/share.h"

/* How a message is transferred (mover/channel.h explains these ways). INLINE: in its line. STAGED: copied through a
 * ring in shared memory. LENT: rendezvous get (the receiver reads the sender's buffer). READ: the same, with the help of the
 * kernel, from private memory. STORED: rendezvous put (the sender writes into the receiver's buffer). OPEN: not chosen
 * yet. */
enum tu_way { TU_WAY_OPEN, TU_WAY_INLINE, TU_WAY_STAGED, TU_WAY_LENT, TU_WAY_READ, TU_WAY_STORED, TU_WAYS };

struct tu_progress {
  size_t done; /* number of bytes that are finished */
  /* send: offset of the current slice in the shared memory segment, if the slice is staged or lent; its address in this
   * process, if it is read */
  uint64_t segment_offset;
  uint32_t afters_finished;
  uint8_t way; /* send: how the message is transferred (enum tu_way) */
  bool finished;
  bool posted; /* recv: the address of the target has been sent to the sender */
};

/* Returns true if the receivers of a send read its source, and the send ends only then. */
static inline bool tu_is_lent(const struct tu_progress *p) { return p->way == TU_WAY_LENT || p->way == TU_WAY_READ; }

struct tu_early; /* a message that arrived before its receive was started; see matching.c */

/* A point-to-point message that a receive waits for. Until the receive ends, this struct may be in a list of expected
 * messages that matching.c keeps: one for each channel, and one for receives from any rank. */
struct tu_expected {
  struct tu_expected *next;
  struct tu_receiver *receiver; /* channel of the message; NULL: of any rank, and no message has been found yet */
  struct tu_early *early;
  uint64_t order; /* position among all receives of the communicator, in the order in which they were started */
  uint32_t tag;   /* TUTTI_ANY_TAG: any tag, until a message is found */
  bool posted;
};

struct tu_execution;

/* Who is told how a run advances: by tu_execution_poll_and_tell, and on the fast path (straight.c). */
struct tu_teller {
  /* Called whenever an instruction has advanced by `bytes` bytes, and finished if `last`. */
  void (*tell)(struct tu_teller *teller, uint32_t instruction, size_t bytes, bool last);
  /* Called on the fast path, before each look whether the next instruction can run, and after the last instruction. */
  void (*look)(struct tu_execution *e);
  void (*end)(struct tu_execution *e);
  uint64_t since_ns; /* time until which the teller has been told; its own */
  uint32_t run;      /* number of the run; 0: none is told of; its own */
  uint32_t program;  /* number of the program; its own */
  void *latest;      /* what it has recorded of the run at last; its own */
  size_t told[];     /* [instruction_count]: bytes that it knows of; SIZE_MAX: and that the instruction is finished */
};

/* The state of one run of a program. Allocated once, and then started any number of times. */
struct tu_execution {
  struct tu_arena arena; /* memory of all fields marked "owned", except those marked "outside the arena" */
  const struct tu_program *program;
  struct tu_mover *mover;
  struct tu_arithmetic arithmetic;
  const tutti_parallel *parallel; /* shares out long copies and reductions; NULL: this thread does all */
  unsigned char *base[3];         /* addresses of the buffers IN, OUT and TMP */
  /* memory of the buffer TMP (the plan's scratch); owned, outside the arena */
  unsigned char *tmp;
  /* owned: room for operands of premul_sum that are multiplied by its factor before they are added */
  unsigned char *scratch;
  /* owned, outside the arena: packed pieces of a result and of its operands, fold_bytes each; used for tensors whose
   * layout is not the packed one */
  unsigned char *folded;
  size_t fold_bytes;
  size_t slot_bytes;       /* maximum bytes of a staged slice, rounded down to whole items */
  size_t cast_slot_bytes;  /* the same, of a slice that several ranks read */
  size_t far_slot_bytes;   /* the same, of a slice that is lent to another host */
  const void **sources;    /* owned: operand addresses of one reduction */
  unsigned char **targets; /* owned: addresses where the next bytes are written */
  uint32_t *chosen;        /* owned: indices of the sends that forward the current slice of an instruction */
  struct tu_progress *progress;
  /* owned, outside the arena: instructions that straight.c (the fast path) prepared for the buffers hops_in and
   * hops_out; NULL: none */
  struct tu_hop *hops;
  const void *hops_in, *hops_out;
  uint32_t *sequences; /* owned; [message_count]: for each sent message, the sequence number of its latest slice */
  /* offsets of IN, OUT and TMP in the shared memory segment; 0: other ranks do not map this memory, or the buffer is
   * pointed (program.h) */
  uint64_t segment_offsets[3];
  /* IN, OUT and TMP: true: in this run, the kernel has found both ends of the buffer (peer_memory.h) */
  bool readable[3];
  size_t direct_bytes; /* messages shorter than this never use rendezvous (get or put) */
  enum tu_past past;   /* which targets of the current slice get non-temporal stores */
  /* [ring_count]: ticket (position in the channel's order of messages) of the program's first message on each
   * channel */
  uint64_t *tickets;
  uint64_t cast_ticket;
  uint64_t tag;
  bool unfit;     /* true: it is on the fast path, which cannot take the message that it waits for: leave it at once */
  bool announced; /* true: the sends that may run ahead of all others, and lend their source, have been tried once */
  uint32_t head;  /* index of the first instruction that may be unfinished */
  uint32_t unfinished;
  /* True once a received message does not match this call. The fields mismatch_... hold the sender of that message, and
   * the tag and the length that its line states. */
  bool mismatch;
  /* true: `mismatch` is set only because there was no memory to copy an unexpected message out of its channel */
  bool no_memory;
  int unread; /* not 0: `mismatch` is set only because memory of that rank's process cannot be read; value of errno */
  uint32_t mismatch_peer;
  uint64_t mismatch_tag, mismatch_bytes, expected_bytes;
  /* owned; [ring_count]: the messages that point-to-point receives expect; NULL: the program has no such receive */
  struct tu_expected *expected;
  struct tu_partition_progress *partition; /* owned; progress of a partitioned call; otherwise NULL */
  size_t hop_done; /* on the fast path: bytes that instruction `head` has sent or received, if it has not finished */
  struct tu_teller *teller; /* owned, outside the arena; NULL: there is no trace */
};

/* Allocates what a run of the program needs. Error: TUTTI_ERR_MEMORY. */
tutti_err tu_execution_init(struct tu_execution *e, const struct tu_program *program, struct tu_mover *mover,
                            struct tu_error *error);
void tu_execution_fini(struct tu_execution *e);

/* Starts a run. Draws its tickets, which are the positions of its messages in the channels. After that,
 * tu_execution_poll can advance it. in and out: the buffers; NULL is allowed for one that the program does not use. */
void tu_execution_start(struct tu_execution *e, const void *in, void *out, uint64_t tag);

/* Sets where the blocks of a pointed buffer lie (tu_program_point), for the next runs. `program` is the program of the
 * execution, which is not running. */
void tu_execution_point(struct tu_execution *e, struct tu_program *program, enum tu_buffer buffer, const void *base,
                        const void *const addresses[]);

/* Returns the offset in the segment of `bytes` bytes of a contiguous range, from its start; 0: other ranks do not map
 * them. Blocks of a pointed buffer may lie partly in shared memory and partly elsewhere, so each is looked up. */
static inline uint64_t tu_execution_shared(const struct tu_execution *e, const struct tu_byte_range *range,
                                           size_t bytes) {
  if (e->program->pointed[range->buffer])
    return tu_transport_offset_of(e->mover->transport, e->base[range->buffer] + range->offset, bytes);
  return e->segment_offsets[range->buffer] ? e->segment_offsets[range->buffer] + range->offset : 0;
}

/* Advances the run; returns true if anything moved. The run is finished when e->unfinished is 0. If e->mismatch is set,
 * the run cannot finish. */
bool tu_execution_poll(struct tu_execution *e);
/* The same, and tells e->teller of all that moved. */
bool tu_execution_poll_and_tell(struct tu_execution *e);

/* ---- straight.c: a faster path for programs of short messages ---- */
/* Returns true if the fast path can run this execution with these buffers. Then call tu_execution_prepare_straight once
 * for these buffers. After that, the execution can be started and polled on the fast path repeatedly, while no other
 * execution of the communicator is open. */
bool tu_execution_goes_straight(const struct tu_execution *e, const void *in, const void *out);
/* Prepares all instructions for the fast path with these buffers; if there is a teller, it is told of each. Returns false
 * if out of memory. */
bool tu_execution_prepare_straight(struct tu_execution *e, const void *in, void *out);
void tu_execution_start_straight(struct tu_execution *e, uint64_t tag);
/* Runs the instructions one after the other. When one has to wait for a message or a credit, polls for it, in this call
 * at most `looks` times in total. Returns true if the run is finished. */
bool tu_execution_poll_straight(struct tu_execution *e, uint32_t looks);
/* Leaves the fast path. From now on, tu_execution_poll advances the run. */
void tu_execution_leave_straight(struct tu_execution *e);
/* Whose messages or credits an execution on the fast path waits for, seen from the CPU of this rank. */
enum tu_awaits {
  TU_AWAITS_HERE, /* of a rank that shares this CPU, and so cannot run now */
  TU_AWAITS_AFAR, /* of ranks of other CPUs only; all ranks that share this one have sent what this rank gets */
  TU_AWAITS_ROOT, /* of a root on another CPU, which waits for no rank; this one has nothing else to do */
  TU_AWAITS_OTHER /* anything else: for example, this rank has more to send, or does not hear of a rank of its CPU */
};
/* here: the ranks that share this CPU, as tu_places_look returns them. */
enum tu_awaits tu_execution_awaits_where(const struct tu_execution *e, uint64_t here);
/* Returns the rank for whose message or credit an execution on the fast path waits now; TU_NONE: for none. */
uint32_t tu_execution_awaits_straight(const struct tu_execution *e);

/* Sets waits_for[rank] for each rank of the communicator that this execution waits for. None, if it waits for any rank. */
void tu_execution_blockers(const struct tu_execution *e, bool *waits_for);
/* Returns true if the run is a receive from any rank that has no message yet. */
static inline bool tu_execution_waits_for_any(const struct tu_execution *e) {
  return e->program->from_any && e->unfinished > 0 && !e->expected->receiver;
}

/* Returns true if the caches cannot hold all data that the program moves, so that results are best written past them. Never on
 * AMD's CPUs where ranks share them: there memcpy is faster (8 ranks on two CPUs, broadcast of 16 MiB: 1.3 times as fast). */
static inline bool tu_execution_overflows(const struct tu_execution *e) {
  const struct tu_mover *m = e->mover;
  return e->program->moved_bytes >= m->past_bytes && !(m->fills.slow && m->share > 1);
}

/* After a staged message of that many bytes, a rank claims the lines of its next one, while it would only wait: on an
 * Intel mesh 4 KiB allreduces of two ranks take 0.79 us instead of 0.98. Shorter messages have too few lines for a gain.
 * After longer ones it takes as long as it saves, and delays what the rank reads (64 KiB: 0.9 of the speed), unless it reads
 * nothing. Not with more ranks: claiming delays the messages to others, and a rank that shares its CPU does not wait there
 * (0.83 to 1.01 of the speed). */
#define TU_CLAIMED_MIN ((size_t)2 << 10)
#define TU_CLAIMED_MAX ((size_t)16 << 10)
#define TU_CLAIMED_ONE_WAY_MAX ((size_t)128 << 10)
/* maximum bytes of lines that are claimed */
#define TU_CLAIMED_LINES ((size_t)32 << 10)

/* To be called after the last slice of a message was published to that rank. */
static inline void tu_execution_claim(const struct tu_execution *e, const struct tu_staging *ring,
                                      const struct tu_sender *to, size_t bytes) {
  const size_t most = e->program->sends_only ? TU_CLAIMED_ONE_WAY_MAX : TU_CLAIMED_MAX;
  if (bytes >= TU_CLAIMED_MIN && bytes <= most && e->mover->is_pair)
    tu_fills_claim(&e->mover->fills, ring, to, tu_min(bytes, TU_CLAIMED_LINES));
}

/* ---- sending.c: where the next slice of a send is written, for each way of crossing ---- */
/* Returns true if the first slice of a send may be published now, and is lent or read: the receivers copy it from where it
 * lies. */
bool tu_send_lends(struct tu_execution *e, uint32_t instruction);
/* Reserves room for a slice of *bytes; returns false if there is no room now. Appends the addresses to write to (one,
 * or one per receiver) to e->targets, and adds their number to *count. May reduce *bytes. A lent slice (rendezvous get)
 * has no such address, because the receiver reads the source. */
bool tu_send_room(struct tu_execution *e, uint32_t instruction, size_t *bytes, uint32_t *count);
/* Returns true if some rank may let others read messages of the program, which the fast path does not. Ranks may differ in
 * whether they do so, but not in the result of this function. */
bool tu_execution_may_read(const struct tu_execution *e);
/* Publishes the slice that was just written, so that its receivers can read it. */
void tu_send_publish(struct tu_execution *e, uint32_t instruction, size_t bytes);
/* Returns true when every lent slice of the send has been read. */
bool tu_send_returned(struct tu_execution *e, uint32_t instruction);
/* Returns how many bytes of a send that is lent to other hosts have been read, or fewer. */
size_t tu_send_returned_bytes(const struct tu_execution *e, uint32_t instruction);

/* ---- matching.c: matches receives with messages, by sender and tag, and in order ---- */

/* Returns the tag that the lines of a point-to-point message carry. Low 32 bits: the user's tag. High 32 bits: the
 * number of lanes minus one; each lane carries one part of the message. Matching compares the low half only, so that
 * two ranks with different numbers of lanes still match and detect the difference. */
static inline uint64_t tu_p2p_tag(uint32_t tag, uint32_t lanes) {
  return (uint64_t)(lanes > 1 ? lanes - 1 : 0) << 32 | tag;
}
static inline uint32_t tu_p2p_lanes(uint64_t tag) { return (uint32_t)(tag >> 32) + 1; }

/* Allocates the state with which a channel's messages are matched with receives by tag. Must be called before the first
 * tu_matching_post. Returns false if out of memory. */
bool tu_matching_prepare(struct tu_receiver *r);
/* The same for the channel from that rank, which it also opens. TUTTI_ANY_RANK: for the channels from all ranks. Must be
 * called before the first tu_matching_post_any, and before tu_matching_probe. */
tutti_err tu_matching_prepare_from(struct tu_mover *mover, uint32_t rank, struct tu_error *error);
/* Starts to expect a message of that channel; tag TUTTI_ANY_TAG: the next one that no other receive gets. */
void tu_matching_post(struct tu_mover *mover, struct tu_expected *e, uint32_t tag, struct tu_receiver *r);
/* Starts to expect a message of any rank. */
void tu_matching_post_any(struct tu_mover *mover, struct tu_expected *e, uint32_t tag);
/* State of the message that a receive expects. NONE: it cannot be received yet. HEAD: it is at the head of the channel.
 * EARLY: it has been copied aside and is complete. In these two cases e->receiver and e->tag are those of the message.
 * NO_MEMORY: another message is at the head of channel *r, and there is no memory to copy that one aside. */
enum tu_match { TU_MATCH_NONE, TU_MATCH_HEAD, TU_MATCH_EARLY, TU_MATCH_NO_MEMORY };
enum tu_match tu_matching_poll(struct tu_mover *mover, struct tu_expected *e, struct tu_receiver **r);
/* Returns the address of an EARLY message (one that was copied aside), its number of bytes, and the tag of its lines.
 * tu_matching_end frees the memory. */
const void *tu_matching_early(const struct tu_expected *e, size_t *bytes, uint64_t *tag);
void tu_matching_end(struct tu_expected *e);
/* Cancels a receive: its message is no longer expected. */
void tu_matching_cancel(struct tu_mover *mover, struct tu_expected *e);
/* Searches for the message that a receive from that rank, with that tag, would get if it were started now. If there is
 * one, sets *found and *message. Error: TUTTI_ERR_MEMORY. */
tutti_err tu_matching_probe(struct tu_mover *mover, uint32_t rank, uint32_t tag, bool *found, tutti_message *message,
                            struct tu_error *error);
void tu_matching_destroy(struct tu_matching *m);

#endif
