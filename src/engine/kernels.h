/* kernels.h: arithmetic on arrays: N sources into one target, in one pass and in a stated order.
 *
 * The bits of a result depend on the operands and their order alone, never on how an array was cut into pieces or on
 * the instruction set (-ffp-contract=off, no reassociation). f16, bf16, f8, bfp: every operand is widened to f32,
 * combined there from left to right, divided if asked, and rounded once (to nearest even) at the end.
 *
 * Counts are of items: elements, or whole groups of a block float, which are aligned to nothing. */
#ifndef TU_KERNELS_H
#define TU_KERNELS_H

#include "base/types.h"
#include "engine/copy.h"

/* A user's operation as registered. */
struct tu_user_op {
  tutti_op_function *function;
  void *context;
  bool commutative;
  char name[64];
};

/* Everything about the arithmetic of one call. */
struct tu_arithmetic {
  tutti_datatype type;
  tutti_op op;                   /* a built-in one; ignored if user is set */
  const struct tu_user_op *user; /* or NULL */
  double scale;                  /* premul_sum */
  uint32_t divisor;              /* avg: the number of ranks */
};

/* dst[i] = srcs[0][i] op srcs[1][i] op ... (left to right), i < count, 1 <= source_count. If `final`, and the
 * operation is avg, the result is divided by divisor before it is rounded. dst may be one of srcs, or overlap none.
 * premul_sum adds here: operands have been scaled as they were loaded. Nothing needs to be aligned; a user's
 * function is given operands that are aligned to their element. */
void tu_reduce(const struct tu_arithmetic *a, void *dst, const void *const srcs[], uint32_t source_count, size_t count,
               bool final);

/* The same into several targets: sources are read once, and each block of the result goes to all targets from the
 * first-level cache. dsts[0] may be one of srcs, or overlap none; the others overlap nothing. Those past
 * the caches (engine/copy.h) had better begin on a line. */
void tu_reduce_into(const struct tu_arithmetic *a, void *const dsts[], uint32_t dst_count, enum tu_past past,
                    const void *const srcs[], uint32_t source_count, size_t count, bool final);

/* dst[i] = src[i] * scale, for premul_sum's first loads. dst may be src. */
void tu_scale(const struct tu_arithmetic *a, void *dst, const void *src, size_t count);

/* Is there such a thing (bit operations on floats are refused, scale fits an integer type, ...)? ARGUMENT if not. */
tutti_err tu_arithmetic_check(const struct tu_arithmetic *a, struct tu_error *error);

/* Block floats to and from f32: `count` items, 16 values to each. */
void tu_groups_to_f32(tutti_datatype type, float *values, const void *items, size_t count);
void tu_groups_from_f32(tutti_datatype type, void *items, const float *values, size_t count);

/* One element to and from double, for printing, filling and checking; exact where the type allows (round to nearest
 * even, integers wrap). Not of block floats. */
double tu_to_double(tutti_datatype type, const void *element);
void tu_from_double(tutti_datatype type, void *element, double value);

/* The loops are compiled for several instruction sets, and the best that the machine has is used, or what TUTTI_ISA says;
 * results have the same bits with all. Names of those that this machine has, the slowest first; NULL after the last. */
const char *tu_isa_name(uint32_t index);
/* The one in use; and to use another from now on, in the whole process. False: this machine has none of that name. */
const char *tu_isa_used(void);
bool tu_isa_use(const char *name);
/* ENVIRONMENT if TUTTI_ISA names none of them: such a name counts for nothing, so somebody should say so. */
tutti_err tu_isa_check(struct tu_error *error);

#endif
