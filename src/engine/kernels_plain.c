/* kernels_plain.c: the kernels without special instructions, for every machine. */
#include "engine/kernels_set.h"

#define KERNEL_SET tu_kernels_plain
#define KERNEL_SET_NAME "plain"
#include "engine/kernels_loops.h"
