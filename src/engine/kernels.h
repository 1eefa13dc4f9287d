/* kernels.h: arithmetic on arrays: combines N sources into one target, in one pass and in a defined order.
 *
 * The bits of a result depend on the operands and their order alone, not on how an array was cut into pieces or on the
 * instruction set (-ffp-contract=off, no reassociation). For f16, bf16, f8 and bfp, each operand is widened to f32. The
 * operands are combined in f32 from left to right, divided if required, and rounded once at the end (to nearest even).
 * In a tree every sum is rounded.
 *
 * Counts are numbers of items. An item is an element, or a whole group of a block float, which needs no alignment. */
#ifndef TU_KERNELS_H
#define TU_KERNELS_H

#include "base/types.h"
#include "engine/copy.h"

/* A user's operation, of tutti_op_create or tutti_comm_op_create. */
struct tu_user_op {
  tutti_op_function *function;
  void *context;
  bool commutative;
  char name[64];
};

/* The arithmetic of one call. */
struct tu_arithmetic {
  tutti_datatype type;
  tutti_op op;                   /* a built-in operation; ignored if user is set */
  const struct tu_user_op *user; /* NULL: a built-in operation */
  double scale;                  /* factor of premul_sum */
  uint32_t divisor;              /* avg: the number of ranks */
  size_t item_bytes;             /* TUTTI_BYTES: bytes of an element; 0 for all other datatypes */
  /* TUTTI_BYTES with elements of more than TU_KERNEL_BLOCK_BYTES, and a user's operation: memory for TU_KERNEL_BLOCKS
   * elements, aligned to 16 bytes. It must not be used by two reductions at a time. */
  void *room;
};

/* Bytes of a block: arrays are reduced block by block, if they are not reduced at once. A first-level cache of 32 KiB
 * holds all blocks that are used together: the running result, a second operand, and the data that is read and
 * written. */
enum { TU_KERNEL_BLOCK_BYTES = 4096, TU_KERNEL_BLOCKS = 3 + 16 };

/* How a reduction combines and ends; values are combined with |. */
enum tu_how {
  TU_FINAL = 1, /* if the operation is avg, the result is divided by the divisor before it is rounded */
  /* The sources combine as a tree, not from left to right: n sources are split at the largest power of two below n. Every
   * sum is rounded to the type. */
  TU_TREE = 2
};

/* Reduces: dst[i] = srcs[0][i] op srcs[1][i] op ... (left to right), for i < count; source_count is at least 1. `how` is
 * made of values of enum tu_how. dst may be one of
 * srcs; otherwise it overlaps none of them. premul_sum only adds here, because its operands were scaled when they were
 * loaded. No buffer needs an alignment. A user's function receives operands that are aligned to their element. */
void tu_reduce(const struct tu_arithmetic *a, void *dst, const void *const srcs[], uint32_t source_count, size_t count,
               unsigned how);

/* Reduces like tu_reduce, into several targets: reads the sources once, and copies each block of the result from the
 * first-level cache to all targets. dsts[0] may be one of srcs, or overlap none of them; the other targets overlap
 * nothing. Targets with non-temporal stores (engine/copy.h) are fastest if they begin on a cache line. */
void tu_reduce_into(const struct tu_arithmetic *a, void *const dsts[], uint32_t dst_count, enum tu_past past,
                    const void *const srcs[], uint32_t source_count, size_t count, unsigned how);

/* Scales operands of premul_sum when they are first loaded: dst[i] = src[i] * scale. dst may be src. */
void tu_scale(const struct tu_arithmetic *a, void *dst, const void *src, size_t count);

/* Checks that the arithmetic is valid: for example, no bit operation on floats, and a scale that fits an integer type.
 * Error: TUTTI_ERR_ARGUMENT. */
tutti_err tu_arithmetic_check(const struct tu_arithmetic *a, struct tu_error *error);

/* Convert block floats to f32, and f32 to block floats: `count` items of 16 values each. */
void tu_block_floats_to_f32(tutti_datatype type, float *values, const void *items, size_t count);
void tu_block_floats_from_f32(tutti_datatype type, void *items, const float *values, size_t count);

/* Convert one element to double, and a double to one element, for printing, filling and checking. Exact where the type
 * allows it; otherwise floats are rounded to nearest even, integers wrap, and a bool is 0 or 1. Not for block floats. */
double tu_to_double(tutti_datatype type, const void *element);
void tu_from_double(tutti_datatype type, void *element, double value);

#endif
