/* share.h: copies and reductions that are cut into parts, which the program's own threads carry out
 * (tutti_options.parallel). The result has the same bits as without. A fork and join of threads costs 1 to 10 us, so
 * short ones are not shared. */
#ifndef TU_SHARE_H
#define TU_SHARE_H

#include "engine/kernels.h"

/* Minimum length of a part, in bytes of one array. From the caches, a core copies it in about 5 us. */
#define TU_PART_BYTES ((size_t)256 << 10)
/* Copies and reductions of fewer bytes are not shared. */
#define TU_SHARED_BYTES (2 * TU_PART_BYTES)
#define TU_PARALLEL_THREADS_MAX 1024u

/* Return TUTTI_ERR_ARGUMENT if the program's description is invalid. */
tutti_err tu_parallel_check(const tutti_parallel *parallel, struct tu_error *error);

/* The same as tu_copy_into and tu_reduce_into, in several parts. `parallel` is valid. Operations of the program are not
 * shared, because the program may not expect several threads in them at once. */
void tu_share_copy(const tutti_parallel *parallel, void *const dsts[], uint32_t dst_count, enum tu_past past,
                   const void *src, size_t bytes);
void tu_share_reduce(const tutti_parallel *parallel, const struct tu_arithmetic *a, void *const dsts[],
                     uint32_t dst_count, enum tu_past past, const void *const srcs[], uint32_t source_count,
                     size_t count, unsigned how);

#endif
