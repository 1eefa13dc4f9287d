/* plan.h: a plan is what a collective does, written down as data: which chunk goes where, after what.
 *
 * It names ranks, buffers and chunks: never a pointer, a byte count, a data type or a wire. Each rank has a list of
 * steps. A step may start when the steps in its `after` are done; a send is done when its source may be overwritten,
 * a multicast when every receiver has taken it or it is out of the source.
 *
 * Why it cannot deadlock. Each ring (the channel from one rank to another on one lane) is filled and drained in
 * builder order: the k-th message sent is the k-th received. One builder call emits a send and its receive together;
 * `after` points only to steps of earlier calls of the same rank. Give every call its place in builder order. A
 * receive waits for its message (same call) and for `after` (earlier calls) and for the ring's earlier messages (earlier
 * calls). A send waits for `after` and for room: with one credit, for the ring's previous message to be taken (an earlier
 * call). So the earliest unfinished call can always go on, and one credit suffices.
 *
 * A group counts as one call: no source in it depends on a target in it, and a ring carries at most one of its
 * messages. Its receives may wait for its sends on the same rank (a target overwrites a source); then the two spans are
 * the same, so that the wait is slice by slice: slice i of the receive needs slice i of the send, which needs room, that is
 * slice i - credits of the peer's receive, and so on down to slice 0. The same holds within any message that is longer
 * than its ring.
 *
 * Joined messages cross as one if together they fit a slot, else one after the other, so of one plan some so and some so.
 * As one, each receive waits for all of the sends, which start when their `after` are done: within a group that is
 * what the group waits for anyhow. Parts that are said far apart (tu_go_on) have no such promise, nor has a plan read
 * from a file: check/ decides, and nothing runs that it refuses. */
#ifndef TU_PLAN_H
#define TU_PLAN_H

#include "base/arena.h"
#include "plan/collective.h"

enum tu_buffer { TU_IN, TU_OUT, TU_TMP };

/* `count` chunks from `first`. */
struct tu_span {
  uint32_t buffer; /* enum tu_buffer */
  uint32_t first;
  uint32_t count;
};

enum tu_step_kind {
  TU_SEND,        /* source -> peers (more than one: a multicast) */
  TU_RECV,        /* peer -> target */
  TU_RECV_REDUCE, /* operands, at least one from a peer -> target */
  TU_COPY,        /* source -> target */
  TU_REDUCE       /* operands, all local -> target */
};

/* One operand of a reduction; operands combine from left to right, without rounding between. */
#define TU_LOCAL UINT32_MAX
struct tu_operand {
  uint32_t peer;       /* the rank whose next message it is, or TU_LOCAL */
  struct tu_span span; /* if local */
  bool first;          /* local: raw input, not read before (premul_sum scales it here) */
  bool joined;         /* from a peer: as in tu_step */
};

struct tu_step {
  uint8_t kind; /* enum tu_step_kind */
  uint8_t lane;
  bool first; /* send, copy: the source is raw input, not read before */
  bool final; /* the target is a finished reduction (avg divides here) */
  /* send to one peer, recv: goes on where this rank's last message to (from) that peer on the lane ended: the parts
   * cross as one message, of several spans. Both ends say so. */
  bool joined;
  struct tu_span source;
  struct tu_span target;
  uint32_t peer_first, peer_count;       /* send: receivers; recv: the sender. In tu_rank_plan.peers */
  uint32_t operand_first, operand_count; /* in tu_rank_plan.operands */
  uint32_t after_first, after_count;     /* in tu_rank_plan.afters: indices of earlier steps of this rank */
};

/* What the chunk of TMP is as large as: that chunk of IN or OUT, which this rank has. */
struct tu_like {
  uint32_t buffer;
  uint32_t chunk;
};

struct tu_rank_plan {
  struct tu_step *steps;
  uint32_t *peers;
  struct tu_operand *operands;
  uint32_t *afters;
  struct tu_like *tmp; /* [tmp_count] */
  uint32_t step_count, peer_count, operand_count, after_count, tmp_count;
};

#define TU_LANES_MAX 8u
#define TU_NAME_BYTES 100u
#define TU_RANKS_MAX 65536u

struct tu_plan {
  tutti_collective collective; /* a family (see collective.h) */
  char algorithm[TU_NAME_BYTES];
  uint32_t ranks;
  uint32_t root;
  uint32_t split; /* chunks per block */
  bool in_place;
  bool equal_blocks;               /* serves equal blocks only: no vector variant */
  bool rank_order;                 /* claims that operands combine in rank order */
  uint32_t rank_first, rank_count; /* whose steps are here: all ranks', or one's */
  struct tu_rank_plan *rank;       /* [rank_count] */
  uint64_t work; /* of a plan that was built: the ends of messages, operands and runs of chunks that were looked at */
  struct tu_arena arena; /* all of it, this struct as well */
};

/* A blank one in an arena of its own, which everything that is added to it comes from (base/arena.h). */
struct tu_plan *tu_plan_create(void);
void tu_plan_destroy(struct tu_plan *plan);

/* Number of chunks of a buffer at a rank; for TU_TMP the rank's steps must be here. */
uint32_t tu_plan_chunks(const struct tu_plan *plan, uint32_t rank, enum tu_buffer buffer);

/* In place, two spans may lie on the same memory. Returns a number that two chunks share exactly if they do: the
 * chunk's own place in a row of all chunks of a rank, IN first, then OUT, then TMP, aliases counted where they lie. */
uint32_t tu_plan_cell(const struct tu_plan *plan, uint32_t rank, enum tu_buffer buffer, uint32_t chunk);

/* Size class of a chunk: equal exactly if the chunks have one size under every admissible choice of counts. Classes
 * take equal_blocks into account. */
uint32_t tu_plan_chunk_class(const struct tu_plan *plan, uint32_t rank, enum tu_buffer buffer, uint32_t chunk);

/* ---- text form (plan_text.c; grammar in tutti-plan(5)) ---- */
struct tu_text;
void tu_plan_write(const struct tu_plan *plan, struct tu_text *text);
/* Reads the plan of all ranks. Refuses what is not well formed (indices out of range, after not pointing back, ...)
 * with name and line; whether it is right is for check/ to say. MEMORY. */
tutti_err tu_plan_read(const char *data, size_t bytes, const char *name, struct tu_plan **plan, struct tu_error *error);

/* ---- the XML of MSCCL algorithms (plan_msccl.c; tutti-msccl(5)) ---- */
/* A file that claims to serve calls in place and others gives the plan for those that `in_place` says; else it does not
 * matter. */
tutti_err tu_plan_read_msccl(const char *data, size_t bytes, const char *name, bool in_place, struct tu_plan **plan,
                             struct tu_error *error);
/* Either form, told apart by its beginning. */
tutti_err tu_plan_read_any(const char *data, size_t bytes, const char *name, bool in_place, struct tu_plan **plan,
                           struct tu_error *error);

#endif
