/* kernels_set.h: the loops of one instruction set, as kernels.c sees them. kernels_loops.h is compiled once for each set
 * (kernels_avx2.c and its like), with the compiler flags that CMakeLists.txt gives that file. */
#ifndef TU_KERNELS_SET_H
#define TU_KERNELS_SET_H

#include "base/types.h"

/* dst[i] = left[i] op right[i]. dst may be left or right, or overlap none. */
typedef void tu_pair_kernel(void *dst, const void *left, const void *right, size_t count);
/* With one operand for all elements; handed over as a double, which holds every one that is allowed. */
typedef void tu_map_kernel(void *dst, const void *src, size_t count, double operand);
/* values[i] = values[i] op src[i], where values are as the type's widen left them. */
typedef void tu_accumulate_kernel(float *values, const void *src, size_t count);

/* The same past the caches, to several targets that begin on a line; bytes are whole lines. A fence is yet to follow. */
typedef void tu_stream_kernel(void *const dsts[], uint32_t dst_count, const void *left, const void *right,
                              size_t bytes);

/* Counts are of items: block floats have 16 values to each, in order. */
struct tu_type_kernels {
  tu_pair_kernel *pair[TUTTI_OPS]; /* NULL: the type has no such operation */
  tu_stream_kernel *stream_sum;    /* NULL: there is none */
  /* For all but the narrow floats. Divide: by a positive whole number. */
  tu_map_kernel *scale, *divide;
  /* For the narrow floats alone, whose running results are f32. The order of a block's values is the type's own affair
   * (bf16 keeps even and odd ones apart): what widens, accumulates and narrows must be handed the same count. */
  void (*widen)(float *values, const void *src, size_t count);
  void (*narrow)(void *dst, const float *values, size_t count);
  tu_accumulate_kernel *accumulate[TUTTI_OPS];
};

struct tu_kernel_set {
  const char *name;                                       /* "avx2" */
  void (*copy)(void *dst, const void *src, size_t bytes); /* of whole lines, anywhere */
  /* As a tu_stream_kernel, but a copy. NULL: the machine has no such stores. */
  void (*stream_copy)(void *const dsts[], uint32_t dst_count, const void *src, size_t bytes);
  struct tu_type_kernels types[TUTTI_DATATYPES];
};
/* A double as an integer: to the nearest, then modulo 2^64; a narrower type takes the low bits of that. */
uint64_t tu_integer_from(double number);

/* The set in use. */
const struct tu_kernel_set *tu_kernels(void);

extern const struct tu_kernel_set tu_kernels_plain;
#if defined(__x86_64__)
extern const struct tu_kernel_set tu_kernels_sse2, tu_kernels_avx2, tu_kernels_avx512;
#endif

#endif
