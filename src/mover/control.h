/* control.h: what the ranks of a communicator tell each other besides data: each rank's current call, the verdict (the
 * first failure), where channels lie, data from rank 0 for all ranks, and who has departed.
 *
 * The ranks of a host share a block of memory for this. The block is in the slice of their lowest rank, which is the
 * leader of the host, and frees the block last. The other ranks find the block by the id of the communicator, comm_id.
 *
 * What a rank of another host tells comes over a wire (remote.h). The rank that receives it writes it into the block of
 * its own host. So readers find everything in the block, wherever a rank runs. But of a rank on another host, the block
 * contains only what that rank has sent, not all that it has done. */
#ifndef TU_CONTROL_H
#define TU_CONTROL_H

#include "mover/board.h"
#include "mover/channel.h"
#include "transport/transport.h"

/* Id of a world communicator. One endpoint belongs to one world only, so the id is unique there. */
#define TU_WORLD_ID UINT64_C(1)

/* The block: memory that the ranks of a communicator share on one host. The boards (each rank's published calls), the
 * job's rank numbers of the members, how long they have been waited for, and the doors (latest announcements) follow it in
 * memory. */
struct tu_block {
  /* Id of the communicator: equal on all its ranks. These ranks never use it for another communicator. */
  _Atomic uint64_t comm_id;
  _Atomic uint32_t next; /* number of the page, in the leader's slice, where the leader's next block begins; 0: none */
  uint32_t ranks;
  struct tu_channel_shape shape;
  struct tu_verdict verdict;
  /* Nonzero once the data of rank 0 is set: it lies at words_offset in the segment, in the leader's slice, and has
   * words_bytes bytes (0: rank 0 has no data). */
  _Atomic uint32_t told;
  uint64_t words_offset;
  size_t words_bytes;
};

/* The parts of a block that follow its struct: offsets from its beginning. */
static inline size_t tu_block_boards_at(void) { return tu_round_up(sizeof(struct tu_block), TU_OFFSET_ALIGN); }
static inline size_t tu_block_members_at(uint32_t ranks) {
  return tu_block_boards_at() + tu_round_up(ranks * sizeof(struct tu_board), TU_OFFSET_ALIGN);
}
static inline size_t tu_block_awaited_at(uint32_t ranks) {
  return tu_block_members_at(ranks) + tu_round_up(ranks * sizeof(uint32_t), TU_LINE_BYTES);
}
static inline size_t tu_block_doors_at(uint32_t ranks) {
  return tu_block_awaited_at(ranks) + tu_round_up(ranks * sizeof(uint64_t), TU_LINE_BYTES);
}
static inline size_t tu_block_bytes(uint32_t ranks) {
  return tu_block_doors_at(ranks) + (size_t)ranks * ranks * sizeof(uint32_t);
}

/* Header of memory that a rank announces to another rank of its host. The header lies in the slice of the rank that
 * announces. The table `doors` (struct tu_control) contains, for the two ranks, the page of the latest header. */
struct tu_announced {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t lane;
  /* number of the page, in the slice, of the header that was announced before this one; 0: none */
  _Atomic uint32_t next;
};

/* What this rank itself knows of a member on another host. */
struct tu_remote_member {
  /* true: this rank has received the member's departure. It does not suffice that another rank of this host has received
   * the departure and noted it in the shared block, because earlier frames from the member to this rank may still be on
   * their way. */
  _Atomic bool departed;
  bool asked; /* true: the member has not answered this rank's question about its call */
  /* true: this rank has received something from the member, so there was a path, by which it tells its departure */
  _Atomic bool heard;
};

struct tu_control;

/* What is told about links (stream/link.h) to ranks of other hosts. A frame begins with these fields. */
struct tu_link_head {
  uint64_t comm_id;
  uint8_t kind;
  uint8_t what;    /* stream/link_far.c; 0: the frame is received by `begin` and `end` */
  uint8_t link;    /* number of the link */
  uint8_t channel; /* number of the channel in the link */
  uint32_t operation;
  uint64_t number;
  uint32_t bytes, slot, last, reserved;
};

/* Functions that receive such frames (stream/link_far.c). They are called with a lock held under which frames are
 * received. `from` is the rank in the communicator. */
struct tu_link_hearer {
  /* A message begins to arrive: returns where its body goes; NULL: it is skipped. `end` is called when it is there. */
  void *(*begin)(struct tu_control *c, uint32_t from, const struct tu_link_head *head, size_t bytes);
  void (*end)(struct tu_control *c, uint32_t from, const struct tu_link_head *head);
  /* Any other frame has arrived. Returns false if out of memory. */
  bool (*hear)(struct tu_control *c, uint32_t from, const struct tu_link_head *head, const void *body, size_t bytes);
};

struct tu_control {
  struct tu_transport *transport;
  const struct tu_link_hearer *links; /* set before tu_control_begin */
  uint32_t rank, ranks;
  uint32_t leader; /* lowest rank of the communicator on this host, which owns the shared block and frees it last */
  bool remote;     /* true: some ranks run on other hosts */
  /* true: this rank has departed. It no longer accesses the shared block, except as the leader of its host. */
  bool left;
  bool exposes;                    /* true: other ranks can reach memory of this rank's user, and may write into it */
  struct tu_remote_comm *far;      /* state for ranks on other hosts (remote.h); NULL before tu_control_begin */
  struct tu_remote_member *others; /* [ranks]; NULL: all ranks run on this host */
  uint32_t *members;               /* [ranks]: the job's rank number of each member */
  uint64_t comm_id;
  /* Sizes of channels, as the leader chose them; the other ranks read them from the block. */
  struct tu_channel_shape shape;
  uint64_t offset;        /* offset of the shared block in the segment */
  struct tu_block *block; /* the shared block; NULL: not found yet */
  /* [ranks], in the shared block: each rank's published calls; for a rank on another host, the calls that it has
   * reported */
  struct tu_board *boards;
  /* [ranks], in the shared block: how long the ranks of this host have waited for each rank, in ns (comm/stats.h) */
  _Atomic uint64_t *awaited_ns;
  /* [from][to], in the shared block: page number, in the slice of `from`, of the latest header that `from` announced to
   * `to`; 0: none. */
  _Atomic uint32_t *doors;
};

/* ---- begin and end ---- */

/* Opens the control of a communicator (calls, verdict, announcements). `members` is copied. The leader of a host
 * creates the shared block; the other ranks wait for tu_control_ready. Error: TUTTI_ERR_MEMORY. */
tutti_err tu_control_open(struct tu_control *c, struct tu_transport *t, const uint32_t members[], uint32_t ranks,
                          uint32_t rank, uint64_t comm_id, struct tu_channel_shape shape, struct tu_error *error);
/* Looks for the block that the leader of this host has created. Returns true once the block is found. */
bool tu_control_ready(struct tu_control *c);
/* Called once tu_control_ready has returned true: from now on, frames from ranks of other hosts are handled. Error:
 * TUTTI_ERR_MEMORY. */
tutti_err tu_control_begin(struct tu_control *c, struct tu_error *error);
/* Closes the control of a communicator. in_order: all ranks have departed, so the leader frees the shared block.
 * Otherwise the block stays. */
void tu_control_close(struct tu_control *c, bool in_order);

/* Tells the other members that this rank cannot make its side of a communicator, and why. Some of them may still be
 * making their own sides; others may be waiting for this rank. */
void tu_control_miss(struct tu_transport *t, uint64_t comm_id, tutti_err why, const uint32_t members[], uint32_t ranks);
/* Returns the reason why that rank could not make its side of the communicator; TUTTI_OK: the rank has reported
 * none. */
tutti_err tu_control_missed(const struct tu_control *c, uint32_t rank);

/* Tells the other ranks that this rank has made its side of the communicator. Not all communicators need this
 * message. */
void tu_control_come(struct tu_control *c);
static inline bool tu_control_is_here(const struct tu_control *c, uint32_t rank) {
  return c->block && atomic_load(&c->boards[rank].here) != 0;
}

/* ---- how to reach a rank ---- */

/* Returns the rank's number in the segment; TU_REMOTE: it runs on another host. */
static inline uint32_t tu_control_local(const struct tu_control *c, uint32_t rank) {
  return tu_transport_local(c->transport, c->members[rank]);
}
/* Returns the communicator's rank for a rank of the job; TU_NONE: not a member. */
static inline uint32_t tu_control_member_of(const struct tu_control *c, uint32_t job_rank) {
  for (uint32_t i = 0; i < c->ranks; i++)
    if (c->members[i] == job_rank) return i;
  return TU_NONE;
}
/* Returns the rank, numbered in the segment, whose bell is to be rung after something was published for `rank`. If
 * `rank` is on another host, this is the calling rank itself: a thread of it may be asleep, and must wake up to send
 * what was published. */
static inline uint32_t tu_control_bell(const struct tu_control *c, uint32_t rank) {
  uint32_t local = tu_control_local(c, rank);
  return local == TU_REMOTE ? c->transport->rank : local;
}
/* Returns true if the rank is alive. May make a system call. */
bool tu_control_alive(const struct tu_control *c, uint32_t rank);
/* Returns true if it is certain that the rank has died, once it is neither alive nor departed. Of a rank of another host
 * that this rank has had no path to, the departure may be unknown. */
static inline bool tu_control_would_tell(const struct tu_control *c, uint32_t rank) {
  return tu_control_local(c, rank) != TU_REMOTE || atomic_load(&c->others[rank].heard);
}
/* Returns true if that rank of the job is alive. May make a system call. */
bool tu_control_alive_in_job(struct tu_transport *t, uint32_t job_rank);
void tu_control_wake_all(const struct tu_control *c);

/* ---- calls ---- */

/* Publishes this rank's call of that number, so that other ranks can compare it with theirs. */
static inline void tu_control_post(struct tu_control *c, uint64_t number, const uint64_t words[TU_BOARD_WORDS]) {
  tu_board_post(&c->boards[c->rank], number, words);
}
/* Publishes this rank's call of that number, whose description equals that of the call TU_BOARD_CALLS calls earlier.
 * Both calls use the same slot of the board, so only the number in the slot changes. */
static inline void tu_control_repeat(struct tu_control *c, uint64_t number) {
  tu_board_repeat(&c->boards[c->rank], number);
}
/* Counts a message that this rank sends or receives point to point. Only the thread that holds the communicator calls it. */
static inline void tu_control_count(struct tu_control *c, uint64_t bytes) {
  struct tu_board *mine = &c->boards[c->rank];
  atomic_store_explicit(&mine->messages, atomic_load_explicit(&mine->messages, memory_order_relaxed) + 1,
                        memory_order_relaxed);
  atomic_store_explicit(&mine->message_bytes, atomic_load_explicit(&mine->message_bytes, memory_order_relaxed) + bytes,
                        memory_order_relaxed);
}
/* Copies the published words of the rank's call of that number. Returns false if they are not available (not yet, or
 * not any more). */
static inline bool tu_control_call(const struct tu_control *c, uint32_t rank, uint64_t number,
                                   uint64_t words[TU_BOARD_WORDS]) {
  return tu_board_read(&c->boards[rank], number, words);
}
/* Returns the number of the last call that the rank is known to have started; 0: none is known. */
static inline uint64_t tu_control_latest(const struct tu_control *c, uint32_t rank) {
  return c->block ? atomic_load(&c->boards[rank].latest) : 0;
}

/* Sends this rank's call of that number to the marked ranks of other hosts, and asks for their calls of that number (0:
 * their last call). A rank that has not answered the last question is asked only if this one is `urgent`, so that
 * questions do not pile up on a slow path. */
void tu_control_ask(const struct tu_control *c, const bool whom[], uint64_t number, bool urgent);

/* ---- waits ---- */

/* Asks a rank of the job for which ranks it waits, if it is on another host. Ranks of this host publish their waits. */
void tu_control_ask_waits(const struct tu_control *c, uint32_t job_rank);
/* Copies the waits of that rank. Returns false if the rank is on another host and has not answered since that time. */
bool tu_control_read_waits(const struct tu_control *c, uint32_t job_rank, uint64_t since,
                           struct tu_waits notes[TU_WAITS_THREADS]);

/* ---- the verdict ---- */

/* Sets the communicator's verdict (its first failure) if none is set, and wakes all ranks. Any thread may call it. */
void tu_control_fail(struct tu_control *c, const struct tu_error *error);
/* Passes the verdict on to ranks of other hosts. Called when this rank adopts the verdict. */
void tu_control_spread(const struct tu_control *c);
static inline bool tu_control_failed(const struct tu_control *c) {
  return atomic_load_explicit(&c->block->verdict.state, memory_order_relaxed) != 0;
}
/* Returns true if the communicator has a verdict (its first failure), and copies it. Any thread may call it. */
bool tu_control_verdict(const struct tu_control *c, struct tu_error *error);

/* ---- data from rank 0 ---- */

/* Publishes data of rank 0 for all ranks. Called once. The data stays readable as long as the communicator lives. */
tutti_err tu_control_tell(struct tu_control *c, const void *words, size_t bytes, struct tu_error *error);
/* Returns true once rank 0 has published its data. *words then points into shared memory, and no rank changes this data
 * any more. */
bool tu_control_told(const struct tu_control *c, const void **words, size_t *bytes);

/* Stores data of rank 0 in the block that the ranks of this host share, and wakes these ranks. */
tutti_err tu_control_keep_words(struct tu_control *c, const void *words, size_t bytes, struct tu_error *error);
/* Stores data of rank 0 that came over a wire. Only the leader of a host calls it. Error: TUTTI_ERR_MEMORY. */
tutti_err tu_control_hear_words(struct tu_control *c, const void *words, size_t bytes, struct tu_error *error);

/* ---- announcements between ranks of one host ---- */

/* Announces memory in this rank's slice to the peer, under the number `lane`. The memory begins with a struct
 * tu_announced. Any thread may call it. */
void tu_control_announce(const struct tu_control *c, uint32_t peer, uint32_t lane, uint64_t offset);
/* Returns the offset in the segment that the peer has announced to this rank under that lane; 0: none, or the peer has
 * departed and may reuse the offset. */
uint64_t tu_control_look_up(const struct tu_control *c, uint32_t peer, uint32_t lane);

/* ---- departing ---- */

/* Marks this rank as departed: from now on it accesses no memory of other ranks for this communicator. */
void tu_control_depart(struct tu_control *c);
/* Departs like tu_control_depart, but other ranks still find and take the messages that this rank has sent: its memory
 * for this communicator is never reused. */
void tu_control_depart_early(struct tu_control *c);
static inline bool tu_control_departed(const struct tu_control *c, uint32_t rank) {
  return (c->block && atomic_load(&c->boards[rank].departed) != 0) ||
         (c->others && atomic_load(&c->others[rank].departed));
}
/* Returns true if this rank may close its side of the communicator. The leader of a host has to wait until the other
 * ranks of its host have departed, and marks in waits_for those that have not. */
bool tu_control_may_close(const struct tu_control *c, bool *waits_for);

#endif
