/* control.h: what the ranks of a communicator tell each other beside data: which call each one is in, the verdict when one
 * fails, where channels lie, what rank 0 says to all, and who has left.
 *
 * The ranks of a host do it through memory that they share: a block in the slice of the lowest of them, which leads the host
 * and frees the block last. The others find the block by the communicator's number, its *session*. What a rank of another
 * host says comes over a wire (remote.h), and whoever receives it writes it into the block of its own host: so readers never
 * ask where a rank runs, and know of a rank on another host what it has said, not all that it has done. */
#ifndef TU_CONTROL_H
#define TU_CONTROL_H

#include "mover/board.h"
#include "mover/channel.h"
#include "transport/transport.h"

/* The session of a world: it is alone among the ranks that it has. */
#define TU_WORLD_SESSION UINT64_C(1)

/* Shared by the ranks of a host; boards and doors follow. */
struct tu_block {
  _Atomic uint64_t session; /* the same number on all ranks, and of no other communicator that they have had */
  _Atomic uint32_t next;    /* page of its slice where the leader's next block is; 0: none */
  uint32_t ranks;
  struct tu_channel_shape shape;
  struct tu_verdict verdict;
  _Atomic uint32_t told; /* what follows is set: a place in the leader's slice; no bytes: rank 0 has nothing to tell */
  uint64_t words_place;
  size_t words_bytes;
};

/* What a rank has announced to another one of its host begins so, in its slice; the last is found by the door between them. */
struct tu_announced {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t lane;
  _Atomic uint32_t next; /* page of the slice where the one announced before it is; 0: none */
};

struct tu_control {
  struct tu_transport *transport;
  uint32_t rank, ranks;
  uint32_t leader;               /* the lowest rank of this host */
  bool remote;                   /* some ranks run on other hosts */
  bool left;                     /* this rank has departed: of the block it touches nothing any more, unless it leads */
  bool exposes;                  /* others have been told of memory of this rank's user into which they may write */
  struct tu_remote_session *far; /* remote.h's, once it has begun */
  /* [ranks], if some are remote: who of these has departed. What is in the block may have come to another rank of this host, and
   * what the one who departs sent to this rank before that may still be on its way. */
  _Atomic bool *departed;
  uint32_t *members; /* [ranks]: ranks of the job */
  uint64_t session;
  struct tu_channel_shape shape; /* the leader's; the others find it in the block */
  uint64_t place;                /* of the block */
  struct tu_block *block;        /* NULL: it has not been found yet */
  struct tu_board *boards;       /* [ranks], shared; of a rank on another host, what it has said */
  /* [from][to], shared: page of the slice of `from` where the last is that it has announced to `to`; 0: nothing. */
  _Atomic uint32_t *doors;
};

/* ---- beginning and end ---- */

/* Members are copied. The leader makes the block; the others wait for tu_control_ready. MEMORY. */
tutti_err tu_control_open(struct tu_control *c, struct tu_transport *t, const uint32_t members[], uint32_t ranks,
                          uint32_t rank, uint64_t session, struct tu_channel_shape shape, struct tu_error *error);
/* Has the leader made the block? Looks for it. */
bool tu_control_ready(struct tu_control *c);
/* Once it is ready: from now on ranks of other hosts are heard. MEMORY. */
tutti_err tu_control_begin(struct tu_control *c, struct tu_error *error);
/* in_order: all have departed, so that the leader frees the block; otherwise it is left alone. */
void tu_control_close(struct tu_control *c, bool in_order);

/* This rank cannot make its side of a communicator that the others may be making: they are told, and why. */
void tu_control_miss(struct tu_transport *t, uint64_t session, tutti_err why, const uint32_t members[], uint32_t ranks);
/* Has that rank said so? Then why; else TUTTI_OK. */
tutti_err tu_control_missed(const struct tu_control *c, uint32_t rank);

/* This rank has made its side: the others are told. Not all communicators need that. */
void tu_control_come(struct tu_control *c);
static inline bool tu_control_is_here(const struct tu_control *c, uint32_t rank) {
  return c->block && atomic_load(&c->boards[rank].here) != 0;
}

/* ---- how a rank is reached ---- */

/* The rank of the segment that has the same memory; TU_REMOTE: it runs on another host. */
static inline uint32_t tu_control_local(const struct tu_control *c, uint32_t rank) {
  return tu_transport_local(c->transport, c->members[rank]);
}
/* Whose bell is to be rung when something is published for that rank: a rank of the segment. For one on another host it is this
 * rank itself, of which a thread may sleep: it then sends. */
static inline uint32_t tu_control_bell(const struct tu_control *c, uint32_t rank) {
  uint32_t local = tu_control_local(c, rank);
  return local == TU_REMOTE ? c->transport->rank : local;
}
/* Does it live? May make a system call. */
bool tu_control_alive(const struct tu_control *c, uint32_t rank);
/* The same, of a rank of the job. */
bool tu_control_alive_in_job(struct tu_transport *t, uint32_t job_rank);
void tu_control_wake_all(const struct tu_control *c);

/* ---- calls ---- */

/* This rank's call of that number, for all to see who ask. */
static inline void tu_control_post(struct tu_control *c, uint64_t number, const uint64_t words[TU_BOARD_WORDS]) {
  tu_board_post(&c->boards[c->rank], number, words);
}
/* The same if the words are those of call number - TU_BOARD_CALLS, whose place the call takes. */
static inline void tu_control_repeat(struct tu_control *c, uint64_t number) {
  tu_board_repeat(&c->boards[c->rank], number);
}
/* What is known of the rank's call of that number; false: nothing, or nothing any more. */
static inline bool tu_control_call(const struct tu_control *c, uint32_t rank, uint64_t number,
                                   uint64_t words[TU_BOARD_WORDS]) {
  return tu_board_read(&c->boards[rank], number, words);
}
/* The number of the last call that the rank is known to have started; 0: none. */
static inline uint64_t tu_control_latest(const struct tu_control *c, uint32_t rank) {
  return c->block ? atomic_load(&c->boards[rank].latest) : 0;
}

/* Ranks on other hosts, of those marked, are told this rank's call, and asked for theirs of that number (0: their last). */
void tu_control_ask(const struct tu_control *c, const bool whom[], uint64_t number);

/* ---- the verdict ---- */

/* Sets it, if there is none yet, and wakes all. Any thread. */
void tu_control_fail(struct tu_control *c, const struct tu_error *error);
static inline bool tu_control_failed(const struct tu_control *c) {
  return atomic_load_explicit(&c->block->verdict.state, memory_order_relaxed) != 0;
}
/* Is there one? Copies it. Any thread. */
bool tu_control_verdict(const struct tu_control *c, struct tu_error *error);

/* ---- what rank 0 says ---- */

/* Once; it stays readable for as long as the communicator lives. */
tutti_err tu_control_tell(struct tu_control *c, const void *words, size_t bytes, struct tu_error *error);
/* Has it? Then *words lie in shared memory, and nothing is written there any more. */
bool tu_control_told(const struct tu_control *c, const void **words, size_t *bytes);

/* It has come over a wire: the leader keeps it for this host. MEMORY. */
tutti_err tu_control_hear_words(struct tu_control *c, const void *words, size_t bytes, struct tu_error *error);

/* ---- where things lie: between ranks of one host ---- */

/* Tells the peer where what belongs to that lane lies, behind a struct tu_announced in this rank's slice. Any thread. */
void tu_control_announce(const struct tu_control *c, uint32_t peer, uint32_t lane, uint64_t place);
/* The place of what the peer has announced to this rank for that lane; 0: nothing, or the peer has departed. */
uint64_t tu_control_look_up(const struct tu_control *c, uint32_t peer, uint32_t lane);

/* ---- leaving ---- */

/* From now on this rank touches nothing that others have, for this communicator. */
void tu_control_depart(struct tu_control *c);
static inline bool tu_control_departed(const struct tu_control *c, uint32_t rank) {
  return (c->block && atomic_load(&c->boards[rank].departed) != 0) || (c->departed && atomic_load(&c->departed[rank]));
}
/* May this rank close? The leader waits for the others of its host; marks those. */
bool tu_control_may_close(const struct tu_control *c, bool *waits_for);

#endif
