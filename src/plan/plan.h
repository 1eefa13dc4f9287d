/* plan.h: a plan is a collective written as data: for each rank, a list of steps that move and reduce chunks.
 *
 * A plan names ranks, buffers and chunks. It never contains pointers, byte counts, datatypes or wires. A step may start
 * when the steps in its `after` list are done. A send is done when its source may be overwritten. A multicast is done
 * when every receiver has received it, or when its data has been copied out of the source.
 *
 * Why a plan of the builder cannot deadlock. A channel (in identifiers: ring) goes from one rank to another on one
 * lane. Let the calls of the builder be numbered in the order in which the algorithm makes them.
 *  - One call emits a send together with its receive. The `after` of a step names only steps of earlier calls.
 *  - Each channel is filled and drained in the order of the calls: the k-th message sent is the k-th message received.
 *  - A receive waits for its message (same call), for the steps in its `after` (earlier calls), and for the earlier
 *    messages of its channel (earlier calls).
 *  - A send waits for the steps in its `after` (earlier calls), and for a free slot. If the channel has only one slot,
 *    it is free when the previous message of the channel is received (an earlier call).
 * So the earliest unfinished call can always proceed, even if each channel has only one slot.
 *
 * Concurrent calls (tu_concurrent_begin) count as one call, because no source of theirs depends on a target of theirs.
 * A channel carries at most one of their messages. The target of a receive may overwrite the source of a concurrent
 * send of the same rank. Then target and source are the same span, and the receive waits for the send slice by slice (a
 * slice is what fits one slot). Slice i of the receive waits for slice i of the send. Slice i of the send waits for a
 * free slot, that is, until its receiver has received slice i - credits. So every chain of waits leads to earlier
 * slices, and ends at slice 0. The same holds within a single message that is longer than its channel.
 *
 * Joined messages cross as one message if together they fit a slot, otherwise one after the other. Both cases may occur
 * in one plan. If they cross as one, each of their receives waits until all of their sends have started. The receive
 * then also waits for all steps in the `after` of these sends. If the messages are of concurrent calls, this adds no
 * wait, because these calls together wait for all of these steps anyway. For messages joined by tu_go_on, and for plans
 * read from a file, this argument does not hold. There the checker (check/) decides, and a plan that it refuses never
 * runs. */
#ifndef TU_PLAN_H
#define TU_PLAN_H

#include "base/arena.h"
#include "plan/collective.h"

enum tu_buffer { TU_IN, TU_OUT, TU_TMP };

/* A span: `count` consecutive chunks of a buffer, beginning with chunk `first`. */
struct tu_span {
  uint32_t buffer; /* a value of enum tu_buffer: IN, OUT or TMP (scratch) */
  uint32_t first;
  uint32_t count;
};

enum tu_step_kind {
  TU_SEND,        /* send: source -> peers (several peers: a multicast) */
  TU_RECV,        /* receive: message of a peer -> target */
  TU_RECV_REDUCE, /* receive and reduce: operands, at least one of them a message of a peer -> target */
  TU_COPY,        /* local copy: source -> target */
  TU_REDUCE       /* local reduction: operands, all local -> target */
};

/* One operand of a reduction. Operands combine from left to right, without rounding between them, unless tu_step.tree is
 * set. */
#define TU_LOCAL UINT32_MAX
struct tu_operand {
  uint32_t peer;       /* rank whose next message is the operand, or TU_LOCAL */
  struct tu_span span; /* chunks of a local operand */
  bool first;          /* only for a local operand: it is input that premul_sum has not scaled yet, and scales here */
  /* Only for an operand from a peer: the message continues the previous message from that peer on the lane of the step.
   * tu_step.joined explains such messages. */
  bool joined;
};

struct tu_step {
  uint8_t kind; /* a value of enum tu_step_kind */
  uint8_t lane;
  bool first; /* only for a send or copy: the source is input that premul_sum has not scaled yet, and scales here */
  bool final; /* the target becomes a complete reduction over all ranks (avg divides it here) */
  /* Of a reduction of three or more operands: they combine as a tree that splits n operands at the largest power of two
   * below n, and every sum is rounded to the datatype. */
  bool tree;
  /* Of a send to one peer, or of a recv: the message continues this rank's previous message to (or from) that peer on
   * the lane. If both fit a slot together, they cross as one message of several spans, otherwise one after the other.
   * The send and the recv must both be marked. */
  bool joined;
  struct tu_span source;
  struct tu_span target;
  /* range of tu_rank_plan.peers: the receivers of a send, or the sender of a recv */
  uint32_t peer_first, peer_count;
  uint32_t operand_first, operand_count; /* operands of a reduction: range of tu_rank_plan.operands */
  uint32_t after_first, after_count;     /* earlier steps to wait for: range of tu_rank_plan.afters */
};

/* The size of a scratch chunk: the same as that of this chunk of IN or OUT, a buffer that the rank has. */
struct tu_like {
  uint32_t buffer;
  uint32_t chunk;
};

/* Where a step of a plan that was an MSCCL file comes from: a threadblock, by its place in its GPU, and a line of the file. */
struct tu_origin {
  uint32_t threadblock, line;
};

struct tu_rank_plan {
  struct tu_step *steps;
  struct tu_origin *origins; /* [step_count]; NULL: the plan was no MSCCL file */
  uint32_t *peers;
  struct tu_operand *operands;
  uint32_t *afters;
  struct tu_like *tmp; /* [tmp_count]: size of each scratch chunk, stated as a chunk of equal size */
  uint32_t step_count, peer_count, operand_count, after_count, tmp_count;
};

#define TU_LANES_MAX 8u
#define TU_NAME_BYTES 100u
#define TU_RANKS_MAX 65536u

/* In which order the inputs of the ranks are reduced to an output, as the checker proves it: a binary tree over ranks. The
 * classes are in ascending order: a canonical plan is uniform, too. */
enum tu_order_class {
  TU_BY_CHUNK, /* the tree may differ from chunk to chunk, and from rank to rank */
  TU_UNIFORM,  /* one tree for all chunks and ranks (scan, exscan: for all chunks of a rank) */
  /* The tree over rank order that splits n ranks at the largest power of two below n; every sum is rounded to the datatype,
   * and avg divides where the last two operands are added (docs/ORDER.md). */
  TU_CANONICAL
};

struct tu_plan {
  /* the collective, with equal-sized blocks: a vector variant (gatherv) uses the plans of gather */
  tutti_collective collective;
  char algorithm[TU_NAME_BYTES];
  uint32_t ranks;
  uint32_t root;
  uint32_t split; /* chunks per block */
  bool in_place;
  bool equal_blocks;               /* the plan is for blocks of equal size only, so not for vector variants */
  bool rank_order;                 /* the plan claims that operands combine in rank order */
  enum tu_order_class order;       /* the order of reduction that the plan claims; TU_BY_CHUNK: none */
  uint32_t rank_first, rank_count; /* first rank and number of ranks whose steps are in the plan: all ranks, or one */
  struct tu_rank_plan *rank;       /* [rank_count]: steps and scratch of each rank */
  /* work done to build the plan: number of message ends, operands and runs of chunks that the builder visited */
  uint64_t work;
  struct tu_arena arena; /* memory of the whole plan, this struct included */
};

/* Creates an empty plan in an arena of its own. Everything that is added to the plan must come from that arena
 * (base/arena.h). */
struct tu_plan *tu_plan_create(void);
void tu_plan_destroy(struct tu_plan *plan);

/* Returns the number of chunks of a rank's buffer. If the buffer is TU_TMP, the plan must contain the rank's steps. */
uint32_t tu_plan_chunks(const struct tu_plan *plan, uint32_t rank, enum tu_buffer buffer);

/* Returns the cell of a chunk: its position among all chunks of the rank, first IN, then OUT, then TMP. In place, a
 * chunk of IN and a chunk of OUT may be the same memory. Then both have the same cell: their position in the longer
 * buffer. Chunks of different memory have different cells. */
uint32_t tu_plan_cell(const struct tu_plan *plan, uint32_t rank, enum tu_buffer buffer, uint32_t chunk);

/* Returns the size class of a chunk. Two chunks have the same class if and only if their sizes are equal for all counts
 * that the plan allows; with equal_blocks, only equal counts are allowed. */
uint32_t tu_plan_chunk_class(const struct tu_plan *plan, uint32_t rank, enum tu_buffer buffer, uint32_t chunk);

/* ---- text form (plan_text.c; grammar in tutti-plan(5)) ---- */
struct tu_text;
void tu_plan_write(const struct tu_plan *plan, struct tu_text *text);
/* Reads a plan with the steps of all ranks. For text that is not well formed (index out of range, `after` that names no
 * earlier step, ...), returns TUTTI_ERR_ARGUMENT and reports name and line. Does not prove that the plan is correct;
 * tu_check does. Returns TUTTI_ERR_MEMORY if out of memory. */
tutti_err tu_plan_read(const char *data, size_t bytes, const char *name, struct tu_plan **plan, struct tu_error *error);

/* ---- MSCCL algorithms, in XML (plan_msccl.c; format in tutti-msccl(5)) ---- */
/* Reads an MSCCL algorithm as a plan. If the file serves both in-place and out-of-place calls, `in_place` selects which
 * plan to make. For other files, `in_place` has no effect. */
tutti_err tu_plan_read_msccl(const char *data, size_t bytes, const char *name, bool in_place, struct tu_plan **plan,
                             struct tu_error *error);
/* Reads a plan in text form or an MSCCL algorithm in XML. The first character decides which. */
tutti_err tu_plan_read_any(const char *data, size_t bytes, const char *name, bool in_place, struct tu_plan **plan,
                           struct tu_error *error);

#endif
