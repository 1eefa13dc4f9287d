/* parts.h: phases that several algorithms share. */
#ifndef TU_ALGO_PARTS_H
#define TU_ALGO_PARTS_H

#include "algo/algo.h"

/* One chunk a rank; two; as many as what is asked for says. */
uint32_t tu_split_ranks(const struct tu_build *what);
uint32_t tu_split_two(const struct tu_build *what);
uint32_t tu_split_two_ranks(const struct tu_build *what);

/* Every rank's own block of IN goes to its place in OUT. */
void tu_copy_own(struct tu_builder *b);

/* ---- rings and lines ---- */

/* One way of going round: which parts of every block travel, on which lane, up or down the ranks, how many steps. */
struct tu_way {
  uint32_t lane;
  bool down;
  bool line;                       /* there is no link between the first rank and the last */
  uint32_t steps;                  /* N - 1 is all the way */
  uint32_t part_first, part_count; /* of every block's chunks */
};

/* The row of N blocks has `share` chunks each (tu_build_split, or a part of it where one block is cut into N).
 * Block r of OUT is at rank r; it visits the `steps` ranks that follow. Ways are gone side by side. */
void tu_ring_allgather(struct tu_builder *b, uint32_t share, const struct tu_way ways[], uint32_t way_count);

/* Block r of the inputs is summed up at rank r on its way all around, in result[r]; at rank q, block c lies in
 * partial[q * N + c] on its way. Spans are of whole blocks; ways take parts of them. Not for lines. */
void tu_ring_reduce_scatter(struct tu_builder *b, uint32_t share, const struct tu_way ways[], uint32_t way_count,
                            const struct tu_span partial[], const struct tu_span result[]);
/* reduce_scatter that way: partial sums in scratch, results in OUT. */
void tu_ring_reduce_scatter_in_scratch(struct tu_builder *b, const struct tu_way ways[], uint32_t way_count);
/* allreduce that way, and back: OUT holds everything. */
void tu_ring_allreduce(struct tu_builder *b, const struct tu_way ways[], uint32_t way_count);

/* Every block goes to its rank along the way that reaches it within that way's steps; all on one way travel together, as one
 * message a step, and each rank takes out its own. All ways together reach every rank once. Not for lines. */
void tu_ring_alltoall(struct tu_builder *b, const struct tu_way ways[], uint32_t way_count);

/* Blocks travel to the root, or from it: `longest[0]` ranks lie before it, whose blocks travel up to it, and `longest[1]` behind
 * it. Every rank passes on what goes beyond it; scatter sends what goes farthest first. A block on its way lies in one of two
 * places of scratch, in turn. */
void tu_ring_gather(struct tu_builder *b, const uint32_t longest[2]);
/* ... `longest[0]` ranks lie behind the root, to which blocks travel up. */
void tu_ring_scatter(struct tu_builder *b, const uint32_t longest[2]);

/* ---- trees ---- */

/* Binomial tree: `at_root` goes to OUT of every other rank. */
void tu_binomial_broadcast(struct tu_builder *b, uint32_t root, struct tu_span at_root);

/* Binomial tree: every rank's IN is summed up in `result` at the root. In rank order if the root is 0. */
void tu_binomial_reduce(struct tu_builder *b, uint32_t root, struct tu_span result);

/* ---- butterflies: log2 rounds of exchange between partners, among a power of two of participants. Of the ranks beyond it,
 * `extra`, each odd one of the first 2 * extra ranks is folded into the even one before it. ---- */

struct tu_folding {
  uint32_t ranks, power, extra;
};
struct tu_folding tu_fold_of(uint32_t ranks);
static inline uint32_t tu_fold_rank(struct tu_folding f, uint32_t participant) {
  return participant < f.extra ? 2 * participant : participant + f.extra;
}
/* Ranks that a participant stands for: from tu_fold_rank on. */
static inline uint32_t tu_fold_count(struct tu_folding f, uint32_t participant) {
  return participant < f.extra ? 2 : 1;
}

/* The folded ranks' whole IN is reduced into OUT of their participants, and OUT comes back at the end. */
void tu_fold_in(struct tu_builder *b, struct tu_folding f);
void tu_fold_out(struct tu_builder *b, struct tu_folding f);

/* Partner of a participant in a round. Partners are each other's, and the partners of round s have met the same
 * participants' data before (rounds form a hypercube). */
typedef uint32_t tu_partner(uint32_t participant, uint32_t round, uint32_t power);
/* Distances 1, 2, 4, ... by exclusive or. */
uint32_t tu_partner_xor(uint32_t participant, uint32_t round, uint32_t power);
/* Distances 1, 1, 3, 5, 11, ... to alternating sides: short on a ring (De Sensi, Bonato, Saam, Hoefler: Swing, 2024). */
uint32_t tu_partner_swing(uint32_t participant, uint32_t round, uint32_t power);

/* Blocks that a participant is responsible for from each round on: reach[round] + participant * (power >> round), as many as
 * power >> round; one at the end: its own number. */
struct tu_reach {
  uint32_t rounds;
  uint32_t *round[32];
};
void tu_reach_init(struct tu_builder *b, struct tu_reach *r, uint32_t power, tu_partner *partner);

/* Where block `block` of participant p lies, for tu_butterfly_reduce_scatter: its partial sum so far, and where the next one is
 * to go. Both [rank * blocks + block]. */
struct tu_halves {
  struct tu_folding fold;
  tu_partner *partner;
  uint32_t blocks;      /* a row of `have` */
  bool per_rank;        /* a block a rank, and a participant stands for those of its ranks; else one a participant */
  struct tu_span *have; /* becomes `keep` as sums are made */
  const struct tu_span *keep;
};
/* Halving: in every round a participant sends the half of its blocks that its partner goes on with. One message a round. */
void tu_butterfly_reduce_scatter(struct tu_builder *b, const struct tu_halves *h);

/* allreduce by halving contiguous ranges of the vector, then doubling them again. Chunks per block: the power of two. */
uint32_t tu_split_power(const struct tu_build *what);
void tu_halving_doubling(struct tu_builder *b, tu_partner *partner);

/* ---- prefixes ---- */

/* Of ranks first .. N - 1, each one's OUT becomes the sum of its own `value` and all before it. (Rank first's OUT must hold
 * its value already.) ceil(log2(N - first)) rounds; in rank order. (Hillis and Steele 1986.) */
void tu_prefix_doubling(struct tu_builder *b, uint32_t first, struct tu_span value);

#endif
