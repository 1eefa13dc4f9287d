/* plan_msccl_internal.h: definitions that the plan_msccl*.c files share: the state of the conversion of one MSCCL
 * algorithm. plan_msccl_settle.c checks the tables, plan_msccl_play.c simulates the algorithm, plan_msccl_emit.c makes
 * the steps of the plan. */
#ifndef TU_PLAN_MSCCL_INTERNAL_H
#define TU_PLAN_MSCCL_INTERNAL_H

#include "plan/plan_msccl.h"

/* bit in the weight of a chunk: the chunk is input that premul_sum has not scaled yet */
#define TU_MSCCL_RAW (1u << 31)

/* What a type of MSCCL step does: whether it sends, receives, reads a source span, and writes a target span. */
struct tu_msccl_kind {
  bool sends, receives, source, target;
};
extern const struct tu_msccl_kind tu_msccl_kinds[]; /* indexed by enum tu_msccl_type */

/* Marks of one chunk of a step, as bits. Raw input is input that premul_sum has not scaled yet. SENDS_RAW, SOURCE_RAW,
 * TARGET_RAW: the step sends raw input, reads it as source, or reads it as target. FINAL: the step completes a
 * reduction over all ranks. */
enum { TU_MSCCL_SENDS_RAW = 1, TU_MSCCL_SOURCE_RAW = 2, TU_MSCCL_TARGET_RAW = 4, TU_MSCCL_FINAL = 8 };

/* What the simulation knows of the data in a chunk. weight: number of GPUs whose inputs are summed in it, plus
 * TU_MSCCL_RAW if premul_sum has not scaled it yet. part: the data has the size of chunk number `part` (0, 1, ...) of a
 * block. */
struct tu_msccl_value {
  uint32_t weight, part;
};

struct tu_msccl_step_state {
  uint32_t chunks; /* index of the step's first chunk in the arrays marks and sent */
  uint32_t from;   /* index of the step that sends the message which this step receives, or TU_MSCCL_NONE */
  bool taken;      /* true: the step that receives this step's message was found */
  /* chunks of the message have different marks (first, final), so they are sent one by one, as joined messages */
  bool cut_message;
  /* of a local step: its chunks have different marks (first, final), so each chunk becomes a step of the plan */
  bool cut;
  /* index in emitter.snapshots (vector clocks) if another step waits for this step, else TU_MSCCL_NONE */
  uint32_t snapshot;
};

struct tu_msccl_tb_state {
  uint32_t done;    /* number of steps of the threadblock that were simulated */
  uint32_t partner; /* threadblock that sends to this one, or TU_MSCCL_NONE */
  uint32_t taken;   /* number of steps of `partner` that were searched for messages to this threadblock so far */
  /* head of the list of threadblocks that wait for this one; next entry of the list that this one is in */
  uint32_t waiter, next;
  bool queued;
};

/* State of the conversion of one MSCCL file to a plan. */
struct tu_msccl_convert {
  struct tu_arena arena; /* memory of the conversion; the new plan has its own arena */
  struct tu_msccl *file;
  struct tu_error *error;
  struct tu_plan *plan;
  size_t bytes;  /* length of the file */
  bool in_place; /* make the in-place plan, if the file serves both in-place and out-of-place calls */
  bool sums;     /* the collective is a reduction */
  struct tu_msccl_step_state *steps;
  struct tu_msccl_tb_state *tbs;
  /* [step]: the first step, from this step to the end of its threadblock, that signals its end; TU_MSCCL_NONE: none */
  uint32_t *next_signal;
  uint32_t *order;  /* steps in the order in which they were simulated, grouped by GPU */
  uint32_t *played; /* [gpu]: number of entries of the GPU in `order`, that is, of its steps that were simulated */
  /* [ranks + 1]: number of the first cell (chunk) of each GPU, in a numbering of all GPUs' chunks */
  uint32_t *cell_base;
  uint32_t *weights; /* [cell, a chunk of some GPU]: weight of the chunk, see tu_msccl_value */
  /* [cell of a scratch chunk]: the scratch chunk has the size of chunk number parts[cell] (0, 1, ...) of a block.
   * TU_MSCCL_NONE until the scratch chunk is written. */
  uint32_t *parts;
  /* marks (first, final) of the chunks of all steps; a step's first entry has the index tu_msccl_step_state.chunks */
  uint8_t *marks;
  struct tu_msccl_value *sent; /* values of the chunks that each step sends; indexed like `marks` */
  uint32_t *queue;             /* threadblocks that may be able to proceed: a circular queue with tb_count entries */
  uint32_t queue_head, queue_count;
};

/* ---- plan_msccl_settle.c ---- */

/* Sets c->error to the message "file:line: ...", and returns TUTTI_ERR_ARGUMENT. */
tutti_err tu_msccl_fail_at(const struct tu_msccl_convert *c, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
tutti_err tu_msccl_find_root(struct tu_msccl_convert *c);
tutti_err tu_msccl_lay_out(struct tu_msccl_convert *c);
tutti_err tu_msccl_settle(struct tu_msccl_convert *c);

/* ---- plan_msccl_play.c ---- */

/* Returns the index of the GPU's first step. */
uint32_t tu_msccl_step_of(const struct tu_msccl_gpu *gpus, const struct tu_msccl *f, uint32_t gpu);
/* Returns the cell (number among the chunks of all GPUs) of the first chunk of a span. */
uint32_t tu_msccl_cell_at(const struct tu_msccl_convert *c, uint32_t gpu, struct tu_span span);
/* Returns the number p (0, 1, ...) for which chunk i of the span has the size of chunk p of a block. For scratch, the
 * first value written to it has decided this. `cell`: number of the span's first chunk among all GPUs' chunks. */
uint32_t tu_msccl_part_at(const struct tu_msccl_convert *c, struct tu_span span, uint32_t cell, uint32_t i);
tutti_err tu_msccl_play_all(struct tu_msccl_convert *c);

/* ---- plan_msccl_emit.c ---- */

/* Emits the steps and the scratch of one rank. tu_msccl_play_all must have run before. */
void tu_msccl_emit_rank(struct tu_msccl_convert *c, uint32_t gpu);

#endif
