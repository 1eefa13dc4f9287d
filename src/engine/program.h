/* program.h: a program is a plan that has been lowered (converted) for one rank and one call signature. It is a flat
 * list of instructions on byte ranges; their channels and dependencies are already determined. Only the buffer
 * addresses are missing; they are supplied at each start. */
#ifndef TU_PROGRAM_H
#define TU_PROGRAM_H

#include "base/arena.h"
#include "mover/mover.h"
#include "plan/plan.h"
#include "tensor/map.h"
#include "tensor/view.h"

/* Where a run of bytes lies in a buffer whose blocks have addresses of their own: `within` bytes behind the start of
 * that block. */
struct tu_place {
  uint32_t buffer, block;
  size_t within;
};

/* Bytes of a buffer, in order: one run from `offset`, or several runs. If the buffer is a tensor whose elements do not
 * lie in logical order, the runs are positions in the packed form of the tensor, and `fold` says where that packed form
 * lies in memory. */
struct tu_byte_range {
  uint32_t buffer; /* which buffer (enum tu_buffer) */
  uint32_t run_count;
  size_t offset;
  const struct tu_run *runs;
  const struct tu_fold *fold;
};

/* A channel that the program uses, and the number of its messages in one run of the program. */
struct tu_ring_use {
  struct tu_sender *sender; /* NULL on a receiving channel; exactly one of sender and receiver is set */
  struct tu_receiver *receiver;
  uint32_t messages;
};

#define TU_NO_RING UINT32_MAX
/* A message, or a part of a joined message. A plan may join messages of several steps to the same peer (tu_step.joined
 * in plan/plan.h). A joined message then consists of several parts, and crosses in one slice: `bytes` is the length of
 * the whole message, `offset` is where this part begins. If the joined parts are longer than a slot, each part crosses
 * as a message of its own. Sender and receiver know all lengths, so both make the same decision. */
struct tu_message {
  uint32_t ring;
  uint32_t ordinal;         /* position among the program's messages on this channel, from 0 */
  uint32_t parts;           /* number of parts of the joined message; 1: the message is not joined */
  struct tu_sender *sender; /* NULL for a receive; exactly one of sender and receiver is set */
  struct tu_receiver *receiver;
  size_t offset;
  size_t bytes;
};

struct tu_program_operand {
  /* the message that is the operand; its `ring` is TU_NO_RING for a local operand, whose bytes are `range` */
  struct tu_message message;
  bool first;
  struct tu_byte_range range;
};

/* A dependency on instruction `before`. sliced = true: each byte waits for the same byte of `before`. sliced = false:
 * every byte waits until `before` is finished. */
struct tu_after {
  uint32_t before;
  bool sliced;
};

/* Messages of fewer bytes never use rendezvous (get or put): they are copied, so that the sender does not wait for its
 * receiver. In the simulated world (tests/world) this depends on the seed. */
#ifndef TU_DIRECT_BYTES
#define TU_DIRECT_BYTES (32u << 10)
#endif

/* Which long messages of a program may be read by the kernel (TU_WAY_READ, sending.c): those of an exchange, in which each rank
 * sends and receives as much as any other, each block to one rank, and none reduces; those of an allgather of two ranks, of
 * which one may send more; those of one sender to each other rank; and, where ranks share CPUs, those of each rank to one or to
 * all others. */
enum tu_reading { TU_READING_NONE, TU_READING_EXCHANGE, TU_READING_PAIR, TU_READING_SCATTER, TU_READING_GATHER };

/* A message of fewer bytes is never read by the kernel (TU_WAY_READ), whose call costs more than a second copy. In the simulated
 * world this depends on the seed. */
#ifndef TU_READ_BYTES
#define TU_READ_BYTES (64u << 10)
#endif
#define TU_NO_CAST UINT32_MAX
struct tu_instruction {
  uint8_t kind; /* kind of the instruction (enum tu_step_kind) */
  bool first;
  uint8_t how;  /* of a reduction: values of enum tu_how */
  bool lasting; /* send: no instruction depends on this send, so the run never overwrites its source */
  /* send: its source is what another instruction writes; this send may forward each slice when it is written (see
   * onward) */
  bool follows;
  /* send: it may run before all other instructions, because it depends on none, and its message is the first one of the program
   * on its channel: only for that one there is sure to be room, as soon as the peer has finished earlier calls */
  bool ahead;
  uint32_t message_first, message_count; /* send: one message per receiver; recv: one message */
  uint32_t cast; /* send to several ranks: position among the program's multicasts, from 0; otherwise TU_NO_CAST */
  uint32_t operand_first, operand_count;
  uint32_t after_first, after_count;
  /* range of `onward`: the sends whose source is exactly this instruction's target; they forward each slice when it is
   * written */
  uint32_t onward_first, onward_count;
  size_t bytes;
  struct tu_byte_range source, target;
};

struct tu_program {
  struct tu_arena arena; /* memory of the whole program, including this struct */
  struct tu_instruction *instructions;
  struct tu_message *messages; /* messages of sends and receives; operands contain their own messages */
  struct tu_program_operand *operands;
  struct tu_after *afters;
  /* indices of the sends that forward what an instruction writes; each instruction has a range of them (onward_first,
   * onward_count) */
  uint32_t *onward;
  uint32_t *order; /* instruction order for straight.c; NULL: straight.c cannot run this program */
  struct tu_ring_use *rings;
  struct tu_run *runs;
  struct tu_place *places;        /* [run_count]: if some buffer is `pointed`; otherwise NULL */
  struct tu_cast *cast;           /* this rank's ring of bytes for multicasts; NULL: the program does not need it */
  struct tu_partition *partition; /* for a partitioned call (partition.h); otherwise NULL */
  uint32_t instruction_count, message_count, operand_count, after_count, onward_count, ring_count, run_count;
  uint32_t cast_messages;
  uint32_t operands_max;     /* largest number of operands of one instruction */
  uint32_t targets_max;      /* maximum number of addresses to which one instruction writes the same bytes */
  uint32_t raw_operands_max; /* maximum number of operands of one instruction that are raw input (not yet scaled) */
  size_t tmp_bytes;
  size_t moved_bytes;   /* total bytes of all instructions */
  size_t longest_bytes; /* bytes of the longest instruction */
  size_t slot_bytes;    /* maximum bytes of a staged slice to one rank: whole lines */
  size_t extents[3];    /* for each of IN, OUT and TMP: offset after the last byte that the program touches */
  size_t item_bytes;
  /* for each of IN, OUT and TMP: true: each block has an address of its own, and tu_program_point sets the offsets of
   * the runs. A run never extends beyond a block. */
  bool pointed[3];
  bool folded; /* true: some instruction uses a fold (a map from the packed form of a tensor to its layout) */
  enum tu_reading reading;
  bool gathers;        /* true: one rank gets data of all others (gather, reduce) */
  bool sends_only;     /* true: no other rank sends it anything */
  bool awaits_root;    /* true: it only receives one message, from the root of a broadcast or scatter */
  bool point_to_point; /* true: messages are matched by tag (send and recv) */
  bool from_any; /* true: receives from any rank; the channel in `messages` only stands for the one of the sender */
};

/* Rounds bytes down to whole items. A slice never ends within an item, because its receiver may have to reduce whole
 * items. */
static inline size_t tu_program_whole(const struct tu_program *p, size_t bytes) {
  return bytes - bytes % p->item_bytes;
}

/* Returns the counter of tickets (positions in the order of messages) drawn so far on a channel of the program. */
static inline uint64_t *tu_program_tickets(const struct tu_program *p, uint32_t ring) {
  const struct tu_ring_use *use = &p->rings[ring];
  return use->sender ? &use->sender->tickets : &use->receiver->tickets;
}

struct tu_lowering {
  const struct tu_plan *plan; /* the plan; it includes the steps of this rank */
  uint32_t plan_rank;         /* this rank's number in the plan */
  /* [plan->ranks]: for each rank of the plan, its rank in the communicator; NULL: the numbers are equal */
  const uint32_t *peers;
  struct tu_mover *mover;
  struct tu_view in, out;
  bool point_to_point, from_any; /* as in struct tu_program */
  /* true: all ranks list their steps in the order of one algorithm's calls of the builder (plan/builder.h), so a
   * multicast may wait for all its receivers without deadlock */
  bool in_builder_order;
  /* fills: the caller fills the input part by part; tells: the caller is told which parts of the output are final
   * (partition.h) */
  bool fills, tells;
};

/* Lowers a plan, that is, converts it to a program. Error: TUTTI_ERR_MEMORY, also if there is no room for a channel. */
tutti_err tu_program_create(const struct tu_lowering *lowering, struct tu_program **program, struct tu_error *error);
void tu_program_destroy(struct tu_program *program);

/* Sets where the blocks of a buffer lie, for the next runs of the program. The buffer must be `pointed`: its view had
 * addresses when the program was made. base: the address of the buffer with which the program will be started, at or
 * below every block that is not empty. */
void tu_program_point(struct tu_program *program, enum tu_buffer buffer, const void *base,
                      const void *const addresses[]);

#endif
