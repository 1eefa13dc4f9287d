/* program.h: a plan lowered for one rank and one call signature: flat instructions over byte ranges, with channels and
 * dependencies resolved. Only the addresses of the buffers are left open: they come with each start. */
#ifndef TU_PROGRAM_H
#define TU_PROGRAM_H

#include "mover/mover.h"
#include "plan/plan.h"
#include "tensor/view.h"

/* Bytes of a buffer, in order: one run from `offset`, or several. */
struct tu_place {
  uint32_t buffer; /* enum tu_buffer */
  uint32_t run_count;
  size_t offset;
  const struct tu_run *runs;
};

/* A channel that the program uses, and how many messages it moves on it. */
struct tu_ring_use {
  struct tu_sender *sender; /* one of the two */
  struct tu_receiver *receiver;
  uint32_t messages;
};

/* A message, or a part of one that is joined of several and crosses in one slice: `bytes` in all, this part from
 * `offset` on. Joined messages that are longer than a slot cross one by one, as if they were not joined; both ends know
 * all lengths, so they agree. */
#define TU_NO_RING UINT32_MAX
struct tu_message {
  uint32_t ring;
  uint32_t ordinal; /* among the program's messages on that ring */
  uint32_t parts;   /* 1: a message of its own */
  size_t offset;
  size_t bytes;
};

struct tu_program_operand {
  struct tu_message message; /* ring = TU_NO_RING: local, at `place` */
  bool first;
  struct tu_place place;
};

/* Instruction `before` comes first: wholly, or (sliced) byte range by byte range. */
struct tu_after {
  uint32_t before;
  bool sliced;
};

struct tu_instruction {
  uint8_t kind; /* enum tu_step_kind; a send has one receiver */
  bool first, final;
  struct tu_message message; /* send, recv */
  uint32_t operand_first, operand_count;
  uint32_t after_first, after_count;
  size_t bytes;
  struct tu_place source, target;
};

struct tu_program {
  struct tu_instruction *instructions;
  struct tu_program_operand *operands;
  struct tu_after *afters;
  struct tu_ring_use *rings;
  struct tu_run *runs;
  uint32_t instruction_count, operand_count, after_count, ring_count, run_count;
  uint32_t operands_max;     /* of one instruction */
  uint32_t raw_operands_max; /* ... that are first loads */
  size_t tmp_bytes;
  bool point_to_point; /* its messages are matched by tag */
};

struct tu_lowering {
  const struct tu_plan *plan; /* with this rank's steps */
  uint32_t plan_rank;         /* which rank of the plan this one is */
  const uint32_t *peers;      /* rank of the plan -> rank of the mover; NULL: the same */
  struct tu_mover *mover;
  struct tu_view in, out;
  bool point_to_point;
};

/* Errors: MEMORY (no room for a channel). */
tutti_err tu_program_create(const struct tu_lowering *lowering, struct tu_program **program, struct tu_error *error);
void tu_program_destroy(struct tu_program *program);

#endif
