/* kernels_set.h: the loops for one instruction set, as kernels.c calls them. kernels_loops.h is compiled once for each
 * instruction set (in kernels_avx2.c and similar files), with compiler flags that CMakeLists.txt sets for each of these
 * files. */
#ifndef TU_KERNELS_SET_H
#define TU_KERNELS_SET_H

#include "base/types.h"

/* dst[i] = left[i] op right[i]. dst may be left or right; otherwise it overlaps neither of them. */
typedef void tu_pair_kernel(void *dst, const void *left, const void *right, size_t count);
/* dst[i] = src[i] op operand. The operand is a double, which holds every allowed operand exactly. */
typedef void tu_map_kernel(void *dst, const void *src, size_t count, double operand);
/* values[i] = values[i] op src[i]. The values are f32, as the function `widen` of the same type has written them. */
typedef void tu_accumulate_kernel(float *values, const void *src, size_t count);

/* A pair kernel with non-temporal stores, into several targets that begin on a cache line. `bytes` is a whole number of
 * cache lines. The caller adds the fence that orders these stores. */
typedef void tu_stream_kernel(void *const dsts[], uint32_t dst_count, const void *left, const void *right,
                              size_t bytes);

/* The kernels of one data type. Counts are numbers of items; an item of a block float has 16 values, in order. */
struct tu_type_kernels {
  tu_pair_kernel *pair[TU_OPS]; /* NULL: the type has no such operation */
  tu_stream_kernel *stream_sum; /* NULL: the type has no such kernel */
  /* NULL for narrow floats and bool. `scale` multiplies by any operand; `divide` divides by a positive whole number. */
  tu_map_kernel *scale, *divide;
  /* For narrow floats only, whose running results are f32. Each type has its own order of the values in `values`; for
   * example, bf16 separates even and odd elements. The order depends on `count`, so widen, accumulate and narrow must
   * be called with the same count. */
  void (*widen)(float *values, const void *src, size_t count);
  void (*narrow)(void *dst, const float *values, size_t count);
  tu_accumulate_kernel *accumulate[TU_OPS];
};

struct tu_kernel_set {
  const char *name; /* name of the instruction set, for example "avx2" */
  /* Copies `bytes` bytes, a whole number of cache lines. The addresses need no alignment. */
  void (*copy)(void *dst, const void *src, size_t bytes);
  /* Copies with non-temporal stores, under the same rules as tu_stream_kernel. NULL: the machine has no such stores. */
  void (*stream_copy)(void *const dsts[], uint32_t dst_count, const void *src, size_t bytes);
  struct tu_type_kernels types[TU_DATATYPES];
};
/* Rounds a double to the nearest integer, modulo 2^64. A narrower type uses the low bits of the result. */
uint64_t tu_integer_from(double number);

/* Returns the kernel set in use. */
const struct tu_kernel_set *tu_kernels(void);

extern const struct tu_kernel_set tu_kernels_plain;
#if defined(__x86_64__)
extern const struct tu_kernel_set tu_kernels_sse2, tu_kernels_avx2, tu_kernels_avx512;
#endif

#endif
