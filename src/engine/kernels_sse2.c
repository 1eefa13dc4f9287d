/* kernels_sse2.c: the kernels for SSE2, which every x86-64 machine has. */
#include "engine/kernels_set.h"

#if defined(__x86_64__)
#define KERNEL_SET tu_kernels_sse2
#define KERNEL_SET_NAME "sse2"
#include "engine/kernels_loops.h"
#endif
