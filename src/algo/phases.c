/* phases.c: phases (parts of algorithms, such as a ring allgather) that several algorithms share. */
#include "algo/phases.h"

#include <string.h>

uint32_t tu_split_ranks(const struct tu_build *what) { return what->ranks; }
uint32_t tu_split_two(const struct tu_build *what) {
  (void)what;
  return 2;
}
uint32_t tu_split_two_ranks(const struct tu_build *what) { return 2 * what->ranks; }

void tu_copy_own(struct tu_builder *b) {
  for (uint32_t rank = 0; rank < tu_build_ranks(b); rank++)
    tu_copy(b, rank, tu_in_blocks_at(b, 0, 1), tu_out_blocks_at(b, rank, 1));
}

/* ---- hosts ---- */

uint32_t tu_hosts(const struct tu_builder *b) {
  const struct tu_placement *p = tu_build_what(b)->placement;
  return p ? p->hosts : 1;
}

uint32_t tu_host_first(const struct tu_builder *b, uint32_t host) { return host > 0 ? tu_host_end(b, host - 1) : 0; }

uint32_t tu_host_end(const struct tu_builder *b, uint32_t host) {
  const struct tu_placement *p = tu_build_what(b)->placement;
  return p ? p->end[host] : tu_build_ranks(b);
}

uint32_t tu_host_delegate(const struct tu_builder *b, uint32_t host, uint32_t rank) {
  uint32_t first = tu_host_first(b, host), own = tu_host_first(b, tu_placement_host(tu_build_what(b)->placement, rank));
  return first + (rank - own) % (tu_host_end(b, host) - first);
}

/* ---- rings and lines ---- */

/* Returns the rank that is `steps` steps further in this direction (way), or N if a line ends before that rank. */
static uint32_t further(uint32_t n, const struct tu_way *way, uint32_t rank, uint32_t steps) {
  if (way->line && (way->down ? steps > rank : steps >= n - rank)) return n;
  return way->down ? (rank + n - steps % n) % n : (rank + steps) % n;
}

void tu_ring_allgather(struct tu_builder *b, uint32_t share, const struct tu_way ways[], uint32_t way_count) {
  uint32_t n = tu_build_ranks(b);
  for (uint32_t step = 0; step + 1 < n; step++) {
    for (uint32_t w = 0; w < way_count; w++) {
      const struct tu_way *way = &ways[w];
      tu_lane(b, way->lane);
      for (uint32_t block = 0; block < n && step < way->steps; block++) {
        uint32_t from = further(n, way, block, step), to = further(n, way, block, step + 1);
        struct tu_span part = tu_out(block * share + way->part_first, way->part_count);
        if (to < n) tu_move(b, tu_at(from, part), tu_at(to, part));
      }
    }
  }
  tu_lane(b, 0);
}

void tu_ring_reduce_scatter(struct tu_builder *b, uint32_t share, const struct tu_way ways[], uint32_t way_count,
                            const struct tu_span partial[], const struct tu_span result[]) {
  uint32_t n = tu_build_ranks(b);
  for (uint32_t step = 0; step + 1 < n; step++) {
    for (uint32_t w = 0; w < way_count; w++) {
      const struct tu_way *way = &ways[w];
      uint32_t first = way->part_first, count = way->part_count;
      tu_lane(b, way->lane);
      /* Each block starts at the rank after the one to which it belongs. */
      for (uint32_t block = 0; block < n; block++) {
        uint32_t from = further(n, way, block, step + 1), to = further(n, way, block, step + 2);
        struct tu_span in = tu_in(block * share + first, count);
        struct tu_span source = step == 0 ? in : tu_part(partial[(size_t)from * n + block], first, count);
        struct tu_span target = to == block ? result[to] : partial[(size_t)to * n + block];
        tu_move_reduce(b, tu_at(from, source), TU_FROM_LEFT, in, tu_at(to, tu_part(target, first, count)));
      }
    }
  }
  tu_lane(b, 0);
}

void tu_ring_reduce_scatter_in_scratch(struct tu_builder *b, const struct tu_way ways[], uint32_t way_count) {
  uint32_t n = tu_build_ranks(b);
  struct tu_span own = tu_out_blocks_at(b, 0, 1);
  if (n == 1) tu_copy(b, 0, tu_in_blocks_at(b, 0, 1), own);
  struct tu_span *partial = tu_build_memory(b, (size_t)n * n, sizeof *partial);
  struct tu_span *result = tu_build_memory(b, n, sizeof *result);
  for (uint32_t rank = 0; rank < n; rank++) {
    result[rank] = own;
    for (uint32_t block = 0; block < n; block++) {
      /* A block needs no scratch at the rank to which it belongs, where its travel ends. If all blocks travel in one
       * direction, it needs none at the rank where it starts, either. */
      bool passes = block != rank && (way_count > 1 || further(n, &ways[0], block, 1) != rank);
      if (passes) partial[(size_t)rank * n + block] = tu_tmp(b, rank, tu_in_blocks_at(b, block, 1), 1);
    }
  }
  tu_ring_reduce_scatter(b, tu_build_split(b), ways, way_count, partial, result);
}

void tu_ring_allreduce(struct tu_builder *b, const struct tu_way ways[], uint32_t way_count) {
  uint32_t n = tu_build_ranks(b), share = tu_build_split(b) / n;
  if (n == 1) tu_copy(b, 0, tu_in(0, share), tu_out(0, share));
  struct tu_span *spans = tu_build_memory(b, (size_t)n * n, sizeof *spans);
  for (uint32_t i = 0; i < n * n; i++) spans[i] = tu_out(i % n * share, share);
  tu_ring_reduce_scatter(b, share, ways, way_count, spans, spans);
  tu_ring_allgather(b, share, ways, way_count);
}

/* Scratch for blocks in transit on a ring: two areas at every rank, used in alternation. In an area, blocks lie in the
 * order of the ranks that they are for. So the block for the next rank is the first on the way up and the last on the
 * way down. */
struct course {
  const struct tu_way *way;
  struct tu_span *areas[2];
};

static void lay_course(struct tu_builder *b, struct course *c) {
  uint32_t n = tu_build_ranks(b), steps = c->way->steps;
  for (int k = 0; k < 2; k++) c->areas[k] = tu_build_memory(b, n, sizeof *c->areas[k]);
  for (uint32_t rank = 0; rank < n && steps > 0; rank++) {
    for (int k = 0; k < 2; k++) c->areas[k][rank] = tu_tmp(b, rank, tu_in(0, 1), steps);
    uint32_t first = further(n, c->way, rank, c->way->down ? steps : 1);
    /* In place, an arriving block overwrites a block that is not sent yet. Therefore blocks are copied to scratch and
     * sent from there. */
    for (uint32_t i = 0; tu_build_in_place(b) && i < steps; i++)
      tu_copy(b, rank, tu_in((first + i) % n, 1), tu_part(c->areas[0][rank], i, 1));
  }
}

/* Sends the blocks that `rank` holds after `step` steps to the next rank. The next rank's own block goes to OUT, the
 * rest to scratch. In step 0, the rest is two messages if its destinations wrap past rank N - 1, because they are two
 * spans of IN. In place, the rest lies in scratch in one span. It is cut there, too, because the messages must be the
 * same in place and out of place. */
static void pass_on(struct tu_builder *b, const struct course *c, uint32_t step, uint32_t rank) {
  uint32_t n = tu_build_ranks(b), to = further(n, c->way, rank, 1), rest = c->way->steps - 1 - step;
  /* the rank where the blocks started their travel */
  uint32_t from = further(n, &(struct tu_way){.down = !c->way->down}, rank, step);
  uint32_t first = further(n, c->way, rank, c->way->down ? rest + 1 : 2);
  bool in_scratch = step > 0 || tu_build_in_place(b);
  struct tu_span here = c->areas[step % 2][rank], there = c->areas[(step + 1) % 2][to];
  struct tu_span own = in_scratch ? tu_part(here, c->way->down ? rest : 0, 1) : tu_in(to, 1);
  tu_move(b, tu_at(rank, own), tu_at(to, tu_out(from, 1)));
  for (uint32_t done = 0, run; done < rest; done += run) {
    run = step > 0 ? rest : (uint32_t)tu_min(rest - done, n - first);
    struct tu_span source = in_scratch ? tu_part(here, (c->way->down ? 0 : 1) + done, run) : tu_in(first, run);
    tu_move(b, tu_at(rank, source), tu_at(to, tu_part(there, done, run)));
    first = 0;
  }
}

void tu_ring_alltoall(struct tu_builder *b, const struct tu_way ways[], uint32_t way_count) {
  uint32_t n = tu_build_ranks(b), steps = 0;
  struct course courses[2];
  tu_assert(way_count <= 2);
  for (uint32_t rank = 0; rank < n; rank++) tu_copy(b, rank, tu_in(rank, 1), tu_out(rank, 1));
  for (uint32_t w = 0; w < way_count; w++) {
    courses[w].way = &ways[w];
    lay_course(b, &courses[w]);
    steps = (uint32_t)tu_max(steps, ways[w].steps);
  }
  for (uint32_t step = 0; step < steps; step++) {
    for (uint32_t w = 0; w < way_count; w++) {
      if (step >= ways[w].steps) continue;
      tu_lane(b, ways[w].lane);
      tu_join_begin(b);
      for (uint32_t rank = 0; rank < n; rank++) pass_on(b, &courses[w], step, rank);
      tu_join_end(b);
    }
  }
  tu_lane(b, 0);
}

/* Returns the rank `distance` steps before the root on the way up (a lower rank) or down (a higher rank), modulo N. */
static uint32_t before(uint32_t n, uint32_t root, bool down, uint32_t distance) {
  return (root + (down ? distance : n - distance)) % n;
}

/* Allocates scratch at each rank that passes blocks on, on both sides of the root. A rank that passes on only one block
 * gets scratch for one block, other ranks for two.
 * longest[]: number of ranks on each side. like: a span of the size of a block.
 * Returns an array with the scratch of each rank. */
static struct tu_span *lay_scratch(struct tu_builder *b, const uint32_t longest[2], bool to_root, struct tu_span like) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  struct tu_span *scratch = tu_build_memory(b, n, sizeof *scratch);
  for (uint32_t down = 0; down < 2; down++)
    for (uint32_t distance = 1; distance < longest[down]; distance++) {
      uint32_t rank = before(n, root, to_root == (down == 1), distance);
      scratch[rank] = tu_tmp(b, rank, like, (uint32_t)tu_min(longest[down] - distance, 2));
    }
  return scratch;
}

/* In a gather, moves the blocks that are `step` steps away from their own ranks one step closer to the root. */
static void advance_to_root(struct tu_builder *b, bool down, uint32_t longest, uint32_t step,
                            const struct tu_span *scratch) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  for (uint32_t distance = 1; distance + step <= longest; distance++) {
    uint32_t from = before(n, root, down, distance), to = before(n, root, down, distance - 1);
    struct tu_span source = step == 0 ? tu_in(0, 1) : tu_part(scratch[from], (step - 1) % 2, 1);
    struct tu_span target = tu_out(before(n, root, down, distance + step), 1);
    tu_move(b, tu_at(from, source), tu_at(to, to == root ? target : tu_part(scratch[to], step % 2, 1)));
  }
}

void tu_ring_gather(struct tu_builder *b, const uint32_t longest[2]) {
  uint32_t root = tu_build_root(b);
  struct tu_span *scratch = lay_scratch(b, longest, true, tu_in(0, 1));
  tu_copy(b, root, tu_in(0, 1), tu_out(root, 1));
  for (uint32_t step = 0; step < tu_max(longest[0], longest[1]); step++) {
    for (uint32_t down = 0; down < 2; down++) {
      tu_lane(b, down);
      advance_to_root(b, down, longest[down], step, scratch);
    }
  }
  tu_lane(b, 0);
}

/* In a scatter, moves all blocks in transit one rank further from the root, and sends one more block from the root. The
 * block for the farthest rank leaves first. */
static void advance_from_root(struct tu_builder *b, bool down, uint32_t longest, uint32_t step,
                              const struct tu_span *scratch) {
  uint32_t n = tu_build_ranks(b), root = tu_build_root(b);
  for (uint32_t distance = 0; distance <= step; distance++) {
    uint32_t goal = longest - (step - distance); /* distance from the root to the rank that the block is for */
    if (goal <= distance) continue;
    uint32_t from = before(n, root, !down, distance), to = before(n, root, !down, distance + 1);
    struct tu_span source = tu_in(before(n, root, !down, goal), 1);
    if (distance > 0) source = tu_part(scratch[from], (step - distance) % 2, 1);
    struct tu_span target = goal == distance + 1 ? tu_out(0, 1) : tu_part(scratch[to], (step - distance) % 2, 1);
    tu_move(b, tu_at(from, source), tu_at(to, target));
  }
}

void tu_ring_scatter(struct tu_builder *b, const uint32_t longest[2]) {
  uint32_t root = tu_build_root(b);
  struct tu_span *scratch = lay_scratch(b, longest, false, tu_out(0, 1));
  for (uint32_t step = 0; step < tu_max(longest[0], longest[1]); step++) {
    for (uint32_t down = 0; down < 2; down++) {
      tu_lane(b, down);
      if (step < longest[down]) advance_from_root(b, down, longest[down], step, scratch);
    }
  }
  tu_lane(b, 0);
  tu_copy(b, root, tu_in(root, 1), tu_out(0, 1));
}

/* ---- trees ---- */

void tu_binomial_broadcast(struct tu_builder *b, uint32_t root, struct tu_span at_root) {
  uint32_t n = tu_build_ranks(b);
  struct tu_span out = tu_out_blocks_at(b, 0, 1);
  for (uint32_t bit = 1u << tu_log2_ceil(n); bit > 0; bit >>= 1) {
    for (uint32_t v = 0; v + bit < n; v += 2 * bit) {
      uint32_t from = (root + v) % n, to = (root + v + bit) % n;
      tu_move(b, tu_at(from, v == 0 ? at_root : out), tu_at(to, out));
    }
  }
}

void tu_binomial_reduce(struct tu_builder *b, uint32_t root, struct tu_span result) {
  uint32_t n = tu_build_ranks(b);
  struct tu_span in = tu_in_blocks_at(b, 0, 1);
  if (n == 1) tu_copy(b, root, in, result);
  /* [v, a rank counted from the root]: span of the rank's partial sum: its input, or the sum that it has stored */
  struct tu_span *have = tu_build_memory(b, n, sizeof *have);
  for (uint32_t v = 0; v < n; v++) have[v] = in;
  for (uint32_t bit = 1; bit < n; bit <<= 1) {
    for (uint32_t v = 0; v + bit < n; v += 2 * bit) {
      uint32_t to = (root + v) % n, from = (root + v + bit) % n;
      struct tu_span sum = v == 0 ? result : bit == 1 ? tu_tmp(b, to, in, 1) : have[v];
      tu_move_reduce(b, tu_at(from, have[v + bit]), TU_FROM_RIGHT, have[v], tu_at(to, sum));
      have[v] = sum;
    }
  }
}

void tu_prefix_doubling(struct tu_builder *b, uint32_t first, struct tu_span value) {
  uint32_t n = tu_build_ranks(b);
  struct tu_span out = tu_out_blocks_at(b, 0, 1);
  for (uint32_t distance = 1; first + distance < n; distance <<= 1) {
    tu_concurrent_begin(b);
    for (uint32_t rank = first; rank + distance < n; rank++) {
      struct tu_span have = distance > 1 ? out : value;
      tu_move_reduce(b, tu_at(rank, have), TU_FROM_LEFT, have, tu_at(rank + distance, out));
    }
    tu_concurrent_end(b);
  }
}

/* ---- butterflies: exchanges in which the partner changes from round to round ---- */

struct tu_folding tu_fold_of(uint32_t ranks) {
  uint32_t power = tu_pow2_floor(ranks);
  return (struct tu_folding){ranks, power, ranks - power};
}

void tu_fold_in(struct tu_builder *b, struct tu_folding f) {
  struct tu_span in = tu_in_blocks_at(b, 0, 1), out = tu_out_blocks_at(b, 0, 1);
  for (uint32_t p = 0; p < f.extra; p++) tu_move_reduce(b, tu_at(2 * p + 1, in), TU_FROM_RIGHT, in, tu_at(2 * p, out));
}

void tu_fold_out(struct tu_builder *b, struct tu_folding f) {
  struct tu_span out = tu_out_blocks_at(b, 0, 1);
  for (uint32_t p = 0; p < f.extra; p++) tu_move(b, tu_at(2 * p, out), tu_at(2 * p + 1, out));
}

uint32_t tu_partner_xor(uint32_t participant, uint32_t round, uint32_t power) {
  (void)power;
  return participant ^ 1u << round;
}

/* The distance to the partner is (1 - (-2)^(round + 1)) / 3, modulo `power` (the number of participants). The division
 * multiplies by 0xaaaaaaab, the inverse of 3 modulo 2^32. */
uint32_t tu_partner_swing(uint32_t participant, uint32_t round, uint32_t power) {
  uint32_t distance = (1u - (round % 2 == 0 ? 0u - (2u << round) : 2u << round)) * 0xaaaaaaabu;
  return (participant % 2 == 0 ? participant + distance : participant - distance) & (power - 1);
}

void tu_reach_init(struct tu_builder *b, struct tu_reach *r, uint32_t power, tu_partner *partner) {
  *r = (struct tu_reach){.rounds = tu_log2_ceil(power)};
  for (uint32_t round = r->rounds + 1; round-- > 0;) {
    uint32_t count = power >> round, half = count / 2;
    uint32_t *reach = r->round[round] = tu_build_memory(b, (size_t)power * count, sizeof *reach);
    for (uint32_t p = 0; p < power; p++, reach += count) {
      if (half == 0) {
        *reach = p;
        continue;
      }
      const uint32_t *next = r->round[round + 1];
      memcpy(reach, next + (size_t)p * half, half * sizeof *reach);
      memcpy(reach + half, next + (size_t)partner(p, round, power) * half, half * sizeof *reach);
    }
  }
}

/* Sends the blocks of butterfly participant `owner` from participant `from` to its partner `to`, which adds them to its
 * own partial sums. */
static void send_half(struct tu_builder *b, const struct tu_halves *h, uint32_t from, uint32_t to, uint32_t owner) {
  uint32_t source = tu_fold_rank(h->fold, from), target = tu_fold_rank(h->fold, to);
  uint32_t first = h->per_rank ? tu_fold_rank(h->fold, owner) : owner;
  uint32_t count = h->per_rank ? tu_fold_count(h->fold, owner) : 1;
  for (uint32_t block = first; block < first + count; block++) {
    struct tu_span *with = &h->have[(size_t)target * h->blocks + block];
    struct tu_span keep = h->keep[(size_t)target * h->blocks + block];
    tu_move_reduce(b, tu_at(source, h->have[(size_t)source * h->blocks + block]),
                   from < to ? TU_FROM_LEFT : TU_FROM_RIGHT, *with, tu_at(target, keep));
    *with = keep;
  }
}

void tu_butterfly_reduce_scatter(struct tu_builder *b, const struct tu_halves *h) {
  uint32_t power = h->fold.power;
  struct tu_reach reach;
  tu_reach_init(b, &reach, power, h->partner);
  for (uint32_t round = 0; round < reach.rounds; round++) {
    uint32_t half = power >> (round + 1);
    tu_join_begin(b);
    for (uint32_t p = 0; p < power; p++) {
      uint32_t to = h->partner(p, round, power);
      for (uint32_t i = 0; i < half; i++) send_half(b, h, p, to, reach.round[round + 1][(size_t)to * half + i]);
    }
    tu_join_end(b);
  }
}

uint32_t tu_split_power(const struct tu_build *what) { return tu_pow2_floor(what->ranks); }

/* Returns an array with one entry for each participant of a butterfly in each round, at [round * power + participant].
 * The entry is the lowest block for which the participant is responsible from that round on. Of two partners, the one
 * with the lower entry continues with the lower half of their common range. */
static uint32_t *lowest_in_reach(struct tu_builder *b, uint32_t power, tu_partner *partner) {
  uint32_t rounds = tu_log2_ceil(power);
  uint32_t *lowest = tu_build_memory(b, (size_t)(rounds + 1) * power, sizeof *lowest);
  for (uint32_t p = 0; p < power; p++) lowest[(size_t)rounds * power + p] = p;
  for (uint32_t round = rounds; round-- > 0;) {
    const uint32_t *next = lowest + (size_t)(round + 1) * power;
    for (uint32_t p = 0; p < power; p++)
      lowest[(size_t)round * power + p] = (uint32_t)tu_min(next[p], next[partner(p, round, power)]);
  }
  return lowest;
}

void tu_halving_doubling(struct tu_builder *b, tu_partner *partner) {
  struct tu_folding f = tu_fold_of(tu_build_ranks(b));
  uint32_t rounds = tu_log2_ceil(f.power);
  uint32_t *lowest = lowest_in_reach(b, f.power, partner);
  /* [participant]: first chunk of the range on which the participant works in this round */
  uint32_t *first = tu_build_memory(b, f.power, sizeof *first);
  if (f.ranks == 1) tu_copy(b, 0, tu_in(0, 1), tu_out(0, 1));
  tu_fold_in(b, f);
  for (uint32_t round = 0; round < rounds; round++) {
    const uint32_t *low = lowest + (size_t)(round + 1) * f.power;
    uint32_t half = f.power >> (round + 1);
    tu_concurrent_begin(b);
    for (uint32_t p = 0; p < f.power; p++) {
      uint32_t to = partner(p, round, f.power), range = first[to] + (low[to] < low[p] ? 0 : half);
      struct tu_span in = tu_in(range, half), out = tu_out(range, half);
      tu_move_reduce(b, tu_at(tu_fold_rank(f, p), round > 0 || p < f.extra ? out : in),
                     p < to ? TU_FROM_LEFT : TU_FROM_RIGHT, round > 0 || to < f.extra ? out : in,
                     tu_at(tu_fold_rank(f, to), out));
    }
    tu_concurrent_end(b);
    for (uint32_t p = 0; p < f.power; p++) first[p] += low[p] < low[partner(p, round, f.power)] ? 0 : half;
  }
  for (uint32_t round = rounds; round-- > 0;) {
    uint32_t half = f.power >> (round + 1);
    tu_concurrent_begin(b);
    for (uint32_t p = 0; p < f.power; p++) {
      struct tu_span range = tu_out(first[p], half);
      tu_move(b, tu_at(tu_fold_rank(f, p), range), tu_at(tu_fold_rank(f, partner(p, round, f.power)), range));
    }
    tu_concurrent_end(b);
    for (uint32_t p = 0; p < f.power; p++) first[p] &= ~half;
  }
  tu_fold_out(b, f);
}
