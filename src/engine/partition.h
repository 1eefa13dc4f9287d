/* partition.h: partitioned calls. The caller may fill the input part by part while the call runs, and may be told which
 * parts of the output are final. Only the program of a call that requests this contains what is described here.
 *
 * A *gate* is an instruction that the caller carries out by filling the input. The progress of a gate is the number of
 * its bytes, from the first one on, that are filled without a gap. An instruction that reads input depends on a gate
 * for exactly the bytes that it reads. In place, an instruction that overwrites input depends on a gate, too. Each byte
 * range of the instruction waits for the same byte range of the gate. The last gate covers the whole input, even input
 * that no instruction reads. So the call is complete only after all input has been filled.
 *
 * A part of the output is final when its last writer has written it. The last writer is the last instruction that
 * writes this part. It writes each byte once, from the first to the last, and after all earlier writers of that byte.
 * In place, a part that no instruction writes is input that keeps its value. Such a part is final from the start or, if
 * the input is filled part by part, when its gate is done. */
#ifndef TU_ENGINE_PARTITION_H
#define TU_ENGINE_PARTITION_H

#include "engine/program.h"

struct tu_execution;

#define TU_FILL (TU_REDUCE + 1) /* instruction kind of gates (instructions that wait for input) */
#define TU_NO_GATE UINT32_MAX

struct tu_gate {
  /* range of cells (numbered chunks of the plan's buffers) that the gate covers; count = 0: the whole input */
  uint32_t first, count;
  uint32_t run_first, run_count;
};

#define TU_FROM_THE_START UINT32_MAX
/* Bytes [begin, begin + bytes) of an instruction's target. Once they are written, they are final output, at `offset` of
 * the output. */
struct tu_final {
  uint32_t instruction; /* index of the instruction, or TU_FROM_THE_START: final before the call starts */
  size_t begin, bytes, offset;
};

/* The partitioned buffers of a program, with its gates and final ranges. */
struct tu_partition {
  struct tu_arena *arena; /* arena of the program */
  bool filled, told;      /* filled: the input is partitioned; told: the output is partitioned */
  uint32_t gate_first;    /* index of the first gate's instruction; the instructions of the other gates follow */
  uint32_t gate_count, gate_capacity, run_count, run_capacity;
  /* number of bytes from the start of the caller's input buffer to the end of its last block, gaps included */
  size_t input_bytes;
  uint32_t final_count, final_capacity;
  struct tu_gate *gates;
  /* byte ranges that the gates cover: offsets in the caller's input buffer; TU_NOT_INPUT: bytes that are no input */
  struct tu_run *runs;
  struct tu_final *finals;
  /* [cell, a numbered chunk of the plan's buffers]: the chunk of IN in that cell, or UINT32_MAX; NULL after lowering */
  uint32_t *input_of;
};
#define TU_NOT_INPUT SIZE_MAX

/* ---- lowering: program.c calls these ---- */
struct tu_partition *tu_partition_begin(struct tu_arena *arena, const struct tu_lowering *from, uint32_t gate_first);
/* Returns the index of the gate's instruction for a range of cells (numbered chunks of the plan's buffers) that a step
 * touches. Returns TU_NO_GATE if the cells contain no input. */
uint32_t tu_partition_gate(struct tu_partition *partition, const struct tu_lowering *from, uint32_t first,
                           uint32_t count);
/* Adds the last gate and lists the final ranges. Called once, after all calls of tu_partition_gate. first_of_step[s]:
 * index of the first instruction of step s. */
void tu_partition_end(struct tu_partition *partition, const struct tu_lowering *from, const uint32_t first_of_step[]);
size_t tu_partition_gate_bytes(const struct tu_partition *partition, uint32_t gate);

/* ---- progress of an execution ---- */
struct tu_partition_progress {
  struct tu_run *filled; /* filled byte ranges of the caller's input buffer, sorted; no two of them are adjacent */
  uint32_t filled_count, filled_capacity;
  size_t filled_bytes;
  size_t *told; /* [final_count]: number of bytes of each final range that were reported to the caller */
  uint32_t untold_first;
};

void tu_partition_init(struct tu_execution *e);
void tu_partition_start(struct tu_execution *e);

/* Marks bytes [offset, offset + bytes) of the caller's input buffer as filled. If some of these bytes were filled
 * before, or if out of memory, changes nothing and returns the reason. */
enum tu_filling { TU_FILLED, TU_FILLED_BEFORE, TU_FILL_NO_MEMORY };
enum tu_filling tu_partition_fill(struct tu_execution *e, size_t offset, size_t bytes);
/* Returns true if some input is not filled yet; *offset is then the offset of the first missing byte. */
bool tu_partition_missing(const struct tu_execution *e, size_t *offset);
/* Sets *run to a range of the caller's output buffer that is final and not yet reported, marks it as reported, and
 * returns true. Returns false if there is no such range. */
bool tu_partition_tell(struct tu_execution *e, struct tu_run *run);

#endif
