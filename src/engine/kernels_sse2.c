/* kernels_sse2.c: the loops for any x86-64. */
#include "engine/kernels_set.h"

#if defined(__x86_64__)
#define KERNEL_SET tu_kernels_sse2
#define KERNEL_SET_NAME "sse2"
#include "engine/kernels_loops.h"
#endif
