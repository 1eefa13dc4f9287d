/* kernels_avx512.c: the kernels for AVX-512 with BW, DQ and VL. */
#include "engine/kernels_set.h"

#if defined(__x86_64__)
#define KERNEL_SET tu_kernels_avx512
#define KERNEL_SET_NAME "avx512"
#include "engine/kernels_loops.h"
#endif
