/* kernels_plain.c: the loops as every machine can run them. */
#include "engine/kernels_set.h"

#define KERNEL_SET tu_kernels_plain
#define KERNEL_SET_NAME "plain"
#include "engine/kernels_loops.h"
