/* kernels_avx2.c: the kernels for AVX2 with F16C. */
#include "engine/kernels_set.h"

#if defined(__x86_64__)
#define KERNEL_SET tu_kernels_avx2
#define KERNEL_SET_NAME "avx2"
#include "engine/kernels_loops.h"
#endif
