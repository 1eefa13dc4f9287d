/* trie.h: phases that reduce in the canonical order (TU_CANONICAL), for any number of ranks.
 *
 * The canonical tree is the trie of the ranks' bits. A *block* of level k is the ranks [a, a + 2^k), where a is a multiple
 * of 2^k; the last one may be shorter. The sum of a block of level k + 1 is the sum of its two halves, which are blocks
 * of level k. */
#ifndef TU_ALGO_TRIE_H
#define TU_ALGO_TRIE_H

#include "algo/algo.h"

/* Reduces IN of all ranks to `result` at the root. A block is led by the root, if it is inside, else by its first rank; the
 * leader of one half sends its sum to the leader of the other. ceil(log2 N) rounds. */
void tu_trie_reduce(struct tu_builder *b, uint32_t root, struct tu_span result);
/* Allreduce from IN to OUT: in round k every rank receives the sum of the other half of its block from a rank there.
 * ceil(log2 N) rounds. */
void tu_trie_allreduce(struct tu_builder *b);
/* Scan from IN to OUT, or exscan: in round k the ranks of the upper half of a block receive the sum of the lower half.
 * ceil(log2 N) rounds. */
void tu_trie_scan(struct tu_builder *b, bool exclusive);

/* For tu_algorithm.canonical. */
/* Any number of ranks. */
bool tu_canonical_always(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement);
/* Numbers of ranks for which folding (tu_fold_of), and then reducing between partners at distances 1, 2, 4, ..., has the
 * canonical order: 1, 2, 3, 4, 6, 7, 8, 12, 14, 15, 16, ... */
bool tu_canonical_if_folded(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement);
/* Hosts whose ranks are runs of 2^k ranks, of which the last may be shorter; or one host. */
bool tu_canonical_by_blocks(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement);
/* At most three ranks; at most four. */
bool tu_canonical_to_three(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement);
bool tu_canonical_to_four(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement);

#endif
