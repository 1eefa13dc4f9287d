/* parts.h: phases that several algorithms share. */
#ifndef TU_PARTS_H
#define TU_PARTS_H

#include "algo/algo.h"

/* One chunk a rank. */
uint32_t tu_split_ranks(const struct tu_build *what);

/* Ring, N - 1 steps: chunk r of OUT is at rank r; afterwards every rank has every chunk. */
void tu_bucket_allgather(struct tu_builder *b);

/* Ring, N - 1 steps: chunk r of the inputs is summed up at rank r, in result[r]; on its way past rank q, chunk c lies in
 * partial[q * N + c]. */
void tu_bucket_reduce_scatter(struct tu_builder *b, const struct tu_span partial[], const struct tu_span result[]);

/* Binomial tree: `at_root` goes to OUT of every other rank. */
void tu_binomial_broadcast(struct tu_builder *b, uint32_t root, struct tu_span at_root);

/* Binomial tree: every rank's IN is summed up in `result` at the root. In rank order if the root is 0. */
void tu_binomial_reduce(struct tu_builder *b, uint32_t root, struct tu_span result);

/* Of ranks first .. N - 1, each one's OUT becomes the sum of its own `value` and all before it. (Rank first's OUT must hold
 * its value already.) ceil(log2(N - first)) rounds; in rank order. (Hillis and Steele 1986.) */
void tu_prefix_doubling(struct tu_builder *b, uint32_t first, struct tu_span value);

#endif
