/* phases.h: phases (parts of algorithms, such as a ring allgather) that several algorithms share. */
#ifndef TU_ALGO_PHASES_H
#define TU_ALGO_PHASES_H

#include "algo/algo.h"

/* Numbers of chunks per block, for tu_algorithm.split: N, 2 and 2N. (N is the number of ranks.) */
uint32_t tu_split_ranks(const struct tu_build *what);
uint32_t tu_split_two(const struct tu_build *what);
uint32_t tu_split_two_ranks(const struct tu_build *what);

/* Copies every rank's block of IN to its position in OUT. */
void tu_copy_own(struct tu_builder *b);

/* ---- hosts (tu_build.placement) ---- */

/* Return the number of hosts, the first rank of a host, and the rank after its last. Without placement, all ranks run on
 * one host. */
uint32_t tu_hosts(const struct tu_builder *b);
uint32_t tu_host_first(const struct tu_builder *b, uint32_t host);
uint32_t tu_host_end(const struct tu_builder *b, uint32_t host);
/* Returns the rank of a host that handles the block of a rank of another host. The ranks of a host take turns. */
uint32_t tu_host_delegate(const struct tu_builder *b, uint32_t host, uint32_t rank);

/* ---- rings and lines ---- */

/* A way: one direction in which data travels on a ring or line. It has a lane, a number of steps, and the part of every
 * block that travels in this direction. */
struct tu_way {
  uint32_t lane;
  bool down;
  bool line;                       /* true: there is no link between the first and the last rank */
  uint32_t steps;                  /* number of steps that data travels in this direction; N - 1: all the way round */
  uint32_t part_first, part_count; /* range of chunks of every block that travels in this direction */
};

/* Allgather on a ring or line. Block r of OUT starts at rank r and visits the next `steps` ranks. All ways (directions
 * of travel) run in parallel.
 * `share`: number of chunks of each of the N blocks. If the collective has N blocks, it is tu_build_split. If the
 * collective has one block, which is cut into N shares, it is tu_build_split / N. */
void tu_ring_allgather(struct tu_builder *b, uint32_t share, const struct tu_way ways[], uint32_t way_count);

/* Reduce-scatter on a ring: block r of the inputs travels all the way round and is summed at rank r in result[r]. On
 * its way, block c lies at rank q in partial[q * N + c]. The spans are whole blocks, and each way (direction of travel)
 * uses its part of every span. Not for lines. */
void tu_ring_reduce_scatter(struct tu_builder *b, uint32_t share, const struct tu_way ways[], uint32_t way_count,
                            const struct tu_span partial[], const struct tu_span result[]);
/* Builds reduce_scatter by tu_ring_reduce_scatter, with partial sums in scratch and results in OUT. */
void tu_ring_reduce_scatter_in_scratch(struct tu_builder *b, const struct tu_way ways[], uint32_t way_count);
/* Builds allreduce: tu_ring_reduce_scatter, then tu_ring_allgather, both in the buffer OUT. */
void tu_ring_allreduce(struct tu_builder *b, const struct tu_way ways[], uint32_t way_count);

/* Alltoall on a ring. Every block travels in the direction (way) that reaches its rank within the way's number of
 * steps. All blocks of one way travel together, as one message per step, and each rank removes its own block. All ways
 * together must reach every rank exactly once. Not for lines. */
void tu_ring_alltoall(struct tu_builder *b, const struct tu_way ways[], uint32_t way_count);

/* Gather on a ring or line: blocks travel to the root. The blocks of the longest[0] ranks before the root travel up,
 * and those of the longest[1] ranks after the root travel down. Every rank passes on the blocks of ranks that are
 * farther from the root. Blocks in transit use two scratch blocks in alternation. */
void tu_ring_gather(struct tu_builder *b, const uint32_t longest[2]);
/* Scatter on a ring or line: blocks travel from the root, up to the longest[0] ranks after the root and down to the
 * longest[1] ranks before it. The block for the farthest rank leaves first. Every rank passes on the blocks for ranks
 * that are farther away. Blocks in transit use two scratch blocks in alternation. */
void tu_ring_scatter(struct tu_builder *b, const uint32_t longest[2]);

/* ---- trees ---- */

/* Broadcasts on a binomial tree: copies the span `at_root` of the root to OUT of every other rank. */
void tu_binomial_broadcast(struct tu_builder *b, uint32_t root, struct tu_span at_root);

/* Reduces on a binomial tree: the sum of every rank's IN goes to `result` at the root. Operands combine in rank
 * order if the root is rank 0. */
void tu_binomial_reduce(struct tu_builder *b, uint32_t root, struct tu_span result);

/* ---- butterflies: exchanges in which the partner changes from round to round ----
 *
 * A butterfly has `power` participants, a power of two, which exchange with partners in log2(power) rounds. If N is no
 * power of two, `extra` ranks remain. Then each odd rank of the first 2 * extra ranks is folded into (represented by)
 * the even rank before it. */

struct tu_folding {
  uint32_t ranks, power, extra;
};
struct tu_folding tu_fold_of(uint32_t ranks);
static inline uint32_t tu_fold_rank(struct tu_folding f, uint32_t participant) {
  return participant < f.extra ? 2 * participant : participant + f.extra;
}
/* Returns the number of ranks that a participant of a butterfly represents. These are consecutive and begin with
 * tu_fold_rank. */
static inline uint32_t tu_fold_count(struct tu_folding f, uint32_t participant) {
  return participant < f.extra ? 2 : 1;
}

/* If N is no power of two, some participants of a butterfly represent two ranks: an even rank, and the odd rank after
 * it. The odd rank is folded, that is, takes no part in the butterfly. tu_fold_in reduces the whole IN of each folded
 * rank into OUT of the participant that represents it. At the end, tu_fold_out sends OUT of the participants back to
 * the folded ranks. */
void tu_fold_in(struct tu_builder *b, struct tu_folding f);
void tu_fold_out(struct tu_builder *b, struct tu_folding f);

/* A function that returns the partner of a butterfly participant in a round. The partner of the partner is the
 * participant itself. Before a round, the two partners are responsible for the same blocks, as in a hypercube. */
typedef uint32_t tu_partner(uint32_t participant, uint32_t round, uint32_t power);
/* Returns the partner in a butterfly with distances 1, 2, 4, ...: the participant's number exclusive or 2^round. */
uint32_t tu_partner_xor(uint32_t participant, uint32_t round, uint32_t power);
/* Returns the partner in a butterfly with distances 1, 1, 3, 5, 11, ... on alternating sides; such distances are short
 * on a ring (De Sensi, Bonato, Saam, Hoefler: Swing, 2024). */
uint32_t tu_partner_swing(uint32_t participant, uint32_t round, uint32_t power);

/* For each round of a butterfly of `power` participants: the blocks that each participant must still reduce. In round
 * r, these are the power >> r entries of round[r] from index participant * (power >> r) on. After the last round, one
 * block remains, with the participant's own number. */
struct tu_reach {
  uint32_t rounds;
  uint32_t *round[32];
};
void tu_reach_init(struct tu_builder *b, struct tu_reach *r, uint32_t power, tu_partner *partner);

/* Arguments of tu_butterfly_reduce_scatter. have and keep are indexed [rank * blocks + block]. have: span of the
 * block's partial sum so far. keep: span for its next partial sum. */
struct tu_halves {
  struct tu_folding fold;
  tu_partner *partner;
  uint32_t blocks; /* number of blocks per rank in the arrays have and keep */
  /* true: one block per rank, and a participant is responsible for the blocks of all ranks that it represents;
   * false: one block per participant */
  bool per_rank;
  /* spans of the partial sums so far; when the next sum of a block is made, the entry of `keep` is copied here */
  struct tu_span *have;
  const struct tu_span *keep;
};
/* Reduce-scatter by halving: in every round, a participant sends its partner the half of its blocks for which the
 * partner is responsible from then on. This half is one message. */
void tu_butterfly_reduce_scatter(struct tu_builder *b, const struct tu_halves *h);

/* tu_halving_doubling builds an allreduce: a reduce-scatter halves contiguous ranges of the vector, then an allgather
 * doubles them again. tu_split_power returns its number of chunks per block: the largest power of two that is at most
 * N. */
uint32_t tu_split_power(const struct tu_build *what);
void tu_halving_doubling(struct tu_builder *b, tu_partner *partner);

/* ---- prefix sums (scan and exscan) ---- */

/* Computes prefix sums in OUT of the ranks `first` to N - 1. OUT of a rank becomes the sum of the values (`value`) of
 * all ranks from `first` to that rank, in rank order. OUT of rank `first` must hold its value already. This takes
 * ceil(log2(N - first)) rounds. (Hillis and Steele 1986.) */
void tu_prefix_doubling(struct tu_builder *b, uint32_t first, struct tu_span value);

#endif
