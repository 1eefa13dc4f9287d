/* program.h: a plan lowered for one rank and one call signature: flat instructions over byte ranges, with channels and
 * dependencies resolved. Only the addresses of the buffers are left open: they come with each start. */
#ifndef TU_PROGRAM_H
#define TU_PROGRAM_H

#include "base/arena.h"
#include "mover/mover.h"
#include "plan/plan.h"
#include "tensor/map.h"
#include "tensor/view.h"

/* Bytes of a buffer, in order: one run from `offset`, or several. If the buffer is a tensor that does not lie as it crosses,
 * runs are those of its packed form, and `fold` says where that lies. */
struct tu_place {
  uint32_t buffer; /* enum tu_buffer */
  uint32_t run_count;
  size_t offset;
  const struct tu_run *runs;
  const struct tu_fold *fold;
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
  uint32_t ordinal;         /* among the program's messages on that ring */
  uint32_t parts;           /* 1: a message of its own */
  struct tu_sender *sender; /* the ring's; one of the two */
  struct tu_receiver *receiver;
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

#define TU_DIRECT_BYTES (32u << 10) /* shorter messages are staged, not lent or stored: nobody waits for a reader */
#define TU_NO_CAST UINT32_MAX
struct tu_instruction {
  uint8_t kind; /* enum tu_step_kind */
  bool first, final;
  bool lasting;                          /* send: nothing waits for it, so nothing overwrites its source meanwhile */
  bool follows;                          /* send: is onward of an instruction */
  uint32_t message_first, message_count; /* send: one for each receiver; recv: one */
  uint32_t cast;                         /* send to several: its ordinal in the ring for many readers, or TU_NO_CAST */
  uint32_t operand_first, operand_count;
  uint32_t after_first, after_count;
  uint32_t onward_first, onward_count; /* sends of just this target: may go on as it is written */
  size_t bytes;
  struct tu_place source, target;
};

struct tu_program {
  struct tu_arena arena; /* all of it, this struct as well */
  struct tu_instruction *instructions;
  struct tu_message *messages; /* of sends and receives; those of operands stand there */
  struct tu_program_operand *operands;
  struct tu_after *afters;
  uint32_t *onward; /* instructions */
  uint32_t *order;  /* of the instructions, for straight.c; NULL: it does not serve this program */
  struct tu_ring_use *rings;
  struct tu_run *runs;
  struct tu_cast *cast;   /* NULL: unused */
  struct tu_parts *parts; /* NULL: the call is made as a whole; see parts.h */
  uint32_t instruction_count, message_count, operand_count, after_count, onward_count, ring_count, run_count;
  uint32_t cast_messages;
  uint32_t operands_max;     /* of one instruction */
  uint32_t targets_max;      /* of one instruction: where its bytes may go at once */
  uint32_t raw_operands_max; /* of one instruction: that are first loads */
  size_t tmp_bytes;
  size_t moved_bytes;   /* by all instructions */
  size_t longest_bytes; /* of one instruction */
  size_t extents[3];    /* of IN, OUT and TMP: what is touched lies before */
  size_t item_bytes;
  bool folded;         /* some place is */
  bool point_to_point; /* its messages are matched by tag */
};

/* So many bytes, as far as they are whole items: no slice ends within one, as whoever gets it may have to reduce it. */
static inline size_t tu_program_whole(const struct tu_program *p, size_t bytes) {
  return bytes - bytes % p->item_bytes;
}

/* How many tickets have been drawn on a ring that the program uses. */
static inline uint64_t *tu_program_tickets(const struct tu_program *p, uint32_t ring) {
  const struct tu_ring_use *use = &p->rings[ring];
  return use->sender ? &use->sender->tickets : &use->receiver->tickets;
}

struct tu_lowering {
  const struct tu_plan *plan; /* with this rank's steps */
  uint32_t plan_rank;         /* which rank of the plan this one is */
  const uint32_t *peers;      /* rank of the plan -> rank of the mover; NULL: the same */
  struct tu_mover *mover;
  struct tu_view in, out;
  bool point_to_point;
  bool
      in_builder_order; /* the plan's steps are in the order of one builder: its multicasts may wait for all receivers */
  bool fills, tells;    /* the input comes in parts; of the output parts are told of. See parts.h */
};

/* Errors: MEMORY (also: no room for a channel). */
tutti_err tu_program_create(const struct tu_lowering *lowering, struct tu_program **program, struct tu_error *error);
void tu_program_destroy(struct tu_program *program);

#endif
