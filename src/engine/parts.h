/* parts.h: calls that are used in parts: the input is filled in while the call is under way, the output is told of as it
 * becomes final. Both are lowered into the program of a call that asks for it; no other program knows of them.
 *
 * A *gate* is an instruction that the caller carries out: it is done as far as its bytes of the input are there, from the
 * first on. Every instruction that touches input waits for a gate of just the same bytes, and so byte range by byte range,
 * as for any other instruction that it comes after: also one that writes there, in place. A last gate is as long as the
 * whole input: the call is not complete before all of it has been given, whether anybody needs it or not.
 *
 * Part of the output is final when the last instruction of the rank that writes there has come so far: what an
 * instruction writes it writes once, from the first byte to the last, and after all that wrote there before. In place
 * some is input and stays as it is: final from the start, or when its gate is done. */
#ifndef TU_ENGINE_PARTS_H
#define TU_ENGINE_PARTS_H

#include "engine/program.h"

struct tu_execution;

#define TU_FILL (TU_REDUCE + 1) /* the kind of a gate's instruction */
#define TU_NO_GATE UINT32_MAX

struct tu_gate {
  uint32_t first, count; /* cells of the plan; count = 0: the whole input */
  uint32_t run_first, run_count;
};

/* Bytes [begin, begin + bytes) of what an instruction writes are, once written, the output's from `offset` on for good. */
#define TU_FROM_THE_START UINT32_MAX
struct tu_final {
  uint32_t instruction; /* or TU_FROM_THE_START */
  size_t begin, bytes, offset;
};

/* Of a program. */
struct tu_parts {
  struct tu_arena *arena; /* the program's */
  bool filled, told;      /* which of the two it is for */
  uint32_t gate_first;    /* instruction of the first gate; the others follow */
  uint32_t gate_count, gate_capacity, run_count, run_capacity;
  size_t input_bytes; /* of its view, gaps included */
  uint32_t final_count, final_capacity;
  struct tu_gate *gates;
  struct tu_run *runs; /* of gates: in the input's view, or from TU_NOT_INPUT on */
  struct tu_final *finals;
  uint32_t *input_of; /* cell -> chunk of IN that lies there, or UINT32_MAX; while it is lowered */
};
#define TU_NOT_INPUT SIZE_MAX

/* ---- lowering; program.c calls these ---- */
struct tu_parts *tu_parts_begin(struct tu_arena *arena, const struct tu_lowering *from, uint32_t gate_first);
/* The gate for cells that a step touches, or TU_NO_GATE if no input lies there. */
uint32_t tu_parts_gate(struct tu_parts *parts, const struct tu_lowering *from, uint32_t first, uint32_t count);
/* All steps have asked for their gates. first_of_step: step -> its instruction. */
void tu_parts_end(struct tu_parts *parts, const struct tu_lowering *from, const uint32_t first_of_step[]);
size_t tu_parts_gate_bytes(const struct tu_parts *parts, uint32_t gate);

/* ---- of an execution ---- */
struct tu_parts_progress {
  struct tu_run *filled; /* of the input's view: apart from each other, in order */
  uint32_t filled_count, filled_capacity;
  size_t filled_bytes;
  size_t *told; /* [final_count]: bytes */
  uint32_t untold_first;
};

void tu_parts_init(struct tu_execution *e);
void tu_parts_start(struct tu_execution *e);

/* Bytes [offset, offset + bytes) of the input's view are there; or some of them were already, or there is no memory to note it:
 * then nothing is done. */
enum tu_filling { TU_FILLED, TU_FILLED_BEFORE, TU_FILL_NO_MEMORY };
enum tu_filling tu_parts_fill(struct tu_execution *e, size_t offset, size_t bytes);
/* Is some of it missing? *offset: the first byte. */
bool tu_parts_missing(const struct tu_execution *e, size_t *offset);
/* Some of the output that has become final and has not been told of: *run, in its view. False: there is none. */
bool tu_parts_tell(struct tu_execution *e, struct tu_run *run);

#endif
