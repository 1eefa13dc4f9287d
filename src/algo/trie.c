/* trie.c: phases that reduce in the canonical order. */
#include "algo/trie.h"

#include "algo/phases.h"

void tu_trie_reduce(struct tu_builder *b, uint32_t root, struct tu_span result) {
  const uint32_t n = tu_build_ranks(b);
  const struct tu_span in = tu_in_blocks_at(b, 0, 1);
  if (n == 1) tu_copy(b, root, in, result);
  /* [rank]: span of the rank's sum: its input, or the sum that it has stored */
  struct tu_span *have = tu_build_memory(b, n, sizeof *have);
  for (uint32_t rank = 0; rank < n; rank++) have[rank] = in;
  for (uint32_t half = 1; half < n; half <<= 1) {
    for (uint32_t low = 0; low + half < n; low += 2 * half) {
      const uint32_t high = low + half;
      const bool root_is_low = root >= low && root < high, root_is_high = root >= high && root < high + half;
      const uint32_t of_low = root_is_low ? root : low, of_high = root_is_high ? root : high;
      const uint32_t to = root_is_high ? of_high : of_low, from = root_is_high ? of_low : of_high;
      const struct tu_span sum = to == root ? result : half == 1 ? tu_tmp(b, to, in, 1) : have[to];
      tu_move_reduce(b, tu_at(from, have[from]), root_is_high ? TU_FROM_LEFT : TU_FROM_RIGHT, have[to], tu_at(to, sum));
      have[to] = sum;
    }
  }
}

/* Returns the first rank of the other half of a rank's block, where halves have `half` ranks. It may be N or more. */
static uint32_t other_half(uint32_t rank, uint32_t half) { return (rank ^ half) & ~(half - 1); }

void tu_trie_allreduce(struct tu_builder *b) {
  const uint32_t n = tu_build_ranks(b);
  const struct tu_span in = tu_in(0, 1), out = tu_out(0, 1);
  if (n == 1) tu_copy(b, 0, in, out);
  struct tu_span *have = tu_build_memory(b, n, sizeof *have);
  for (uint32_t rank = 0; rank < n; rank++) have[rank] = in;
  for (uint32_t half = 1; half < n; half <<= 1) {
    tu_concurrent_begin(b);
    for (uint32_t to = 0; to < n; to++) {
      const uint32_t other = other_half(to, half);
      if (other >= n) continue;
      /* the partner, or, if there is none, another rank of the last block, which is shorter */
      const uint32_t from = (to ^ half) < n ? to ^ half : other + (to & (half - 1)) % (n - other);
      tu_move_reduce(b, tu_at(from, have[from]), from < to ? TU_FROM_LEFT : TU_FROM_RIGHT, have[to], tu_at(to, out));
    }
    tu_concurrent_end(b);
    for (uint32_t rank = 0; rank < n; rank++)
      if (other_half(rank, half) < n) have[rank] = out;
  }
}

/* The sums of a rank while a scan is built. */
struct sums {
  struct tu_span block;    /* of its block */
  struct tu_span room;     /* scratch for that; count 0: none yet */
  struct tu_span received; /* scratch for the sum of the lower half; count 0: none yet */
  struct tu_span
      prefix; /* of the ranks of the block up to this one; exscan: before this one; count 0: there are none */
};

static struct tu_span scratch(struct tu_builder *b, uint32_t rank, struct tu_span *kept) {
  if (kept->count == 0) *kept = tu_tmp(b, rank, tu_in(0, 1), 1);
  return *kept;
}

/* Returns true if the sum of the rank's block of 2 * half ranks is used: if there are ranks above the block. Then both halves
 * have all their ranks. */
static bool is_used(uint32_t rank, uint32_t half, uint32_t n) {
  return (uint64_t)(rank & ~(2 * half - 1)) + 2 * (uint64_t)half < n;
}

/* The ranks of the upper half add the sum of the lower half. */
static void add_lower(struct tu_builder *b, uint32_t rank, struct sums *s, bool block_is_used) {
  const struct tu_span out = tu_out(0, 1);
  if (!block_is_used) return;
  const struct tu_span lower = s->received;
  tu_reduce_local(b, rank, lower, s->block, scratch(b, rank, &s->room));
  s->block = s->room;
  if (s->prefix.count > 0) tu_reduce_local(b, rank, lower, s->prefix, out);
  else tu_copy(b, rank, lower, out);
  s->prefix = out;
}

void tu_trie_scan(struct tu_builder *b, bool exclusive) {
  const uint32_t n = tu_build_ranks(b);
  const struct tu_span in = tu_in(0, 1), out = tu_out(0, 1);
  struct sums *sums = tu_build_memory(b, n, sizeof *sums);
  for (uint32_t rank = 0; rank < n; rank++) {
    sums[rank] = (struct sums){.block = in};
    if (!exclusive) sums[rank].prefix = in;
  }
  if (!exclusive) tu_copy(b, 0, in, out);
  for (uint32_t half = 1; half < n; half <<= 1) {
    tu_concurrent_begin(b);
    for (uint32_t rank = 0; rank < n; rank++) {
      const uint32_t partner = rank ^ half;
      struct sums *s = &sums[rank];
      const bool used = is_used(rank, half, n);
      if (rank & half && used)
        tu_move(b, tu_at(partner, sums[partner].block), tu_at(rank, scratch(b, rank, &s->received)));
      else if (rank & half && s->prefix.count > 0)
        tu_move_reduce(b, tu_at(partner, sums[partner].block), TU_FROM_LEFT, s->prefix, tu_at(rank, out));
      else if (rank & half) tu_move(b, tu_at(partner, sums[partner].block), tu_at(rank, out));
      else if (used)
        tu_move_reduce(b, tu_at(partner, sums[partner].block), TU_FROM_RIGHT, s->block,
                       tu_at(rank, scratch(b, rank, &s->room)));
    }
    tu_concurrent_end(b);
    for (uint32_t rank = 0; rank < n; rank++) {
      const bool used = is_used(rank, half, n);
      struct sums *s = &sums[rank];
      if (rank & half) add_lower(b, rank, s, used);
      if (rank & half) s->prefix = out;
      else if (used) s->block = s->room;
    }
  }
}

bool tu_canonical_if_folded(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement) {
  (void)a, (void)placement;
  const struct tu_folding f = tu_fold_of(ranks);
  /* Between participants, every block is whole. So the sum of two halves is canonical if both begin where they do in the
   * trie: all before the last are full. */
  for (uint32_t half = 1; half < f.power; half <<= 1)
    for (uint32_t p = 0; p + half < f.power; p += 2 * half) {
      const uint32_t low = tu_fold_rank(f, p), high = tu_fold_rank(f, p + half),
                     end = p + 2 * half < f.power ? tu_fold_rank(f, p + 2 * half) : ranks, count = high - low;
      if ((count & (count - 1)) != 0 || low % (2 * count) != 0 || end - high > count) return false;
    }
  return true;
}

bool tu_canonical_always(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement) {
  (void)a, (void)ranks, (void)placement;
  return true;
}
bool tu_canonical_by_blocks(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement) {
  (void)a;
  if (!placement) return true;
  const uint32_t length = placement->end[0];
  bool blocks = (length & (length - 1)) == 0;
  for (uint32_t host = 0; host < placement->hosts; host++)
    blocks &= placement->end[host] == tu_min((uint64_t)(host + 1) * length, ranks);
  return blocks;
}
bool tu_canonical_to_three(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement) {
  (void)a, (void)placement;
  return ranks <= 3;
}
bool tu_canonical_to_four(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement) {
  (void)a, (void)placement;
  return ranks <= 4;
}
