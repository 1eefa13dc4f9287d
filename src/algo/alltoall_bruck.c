/* alltoall, Bruck et al. (1997): in round k every rank passes on, to the one 2^k behind it, all blocks whose distance still to
 * go has bit k. ceil(log2 N)(alpha + beta m N/2) at powers of two: fewer messages for more bytes. The blocks of a round
 * cross as one message; a block on its way lies in scratch, by its distance. */
#include "algo/parts.h"

static bool is_last_hop(uint32_t distance, uint32_t bit) { return distance < 2 * bit; }

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  bool in_place = tu_build_in_place(b);
  struct tu_span *transit = tu_build_memory(b, (size_t)n * n, sizeof *transit); /* [rank * n + distance] */
  for (uint32_t rank = 0; rank < n; rank++) {
    for (uint32_t distance = 1; distance < n; distance++) {
      /* In place, arriving blocks lie where others have not left: all wait in scratch. */
      struct tu_span in = tu_in((rank + distance) % n, 1);
      bool hops = (distance & (distance - 1)) != 0;
      if (hops || in_place) transit[(size_t)rank * n + distance] = tu_tmp(b, rank, in, 1);
      if (in_place) tu_copy(b, rank, in, transit[(size_t)rank * n + distance]);
    }
  }
  for (uint32_t rank = 0; rank < n; rank++) tu_copy(b, rank, tu_in(rank, 1), tu_out(rank, 1));
  for (uint32_t bit = 1; bit < n; bit <<= 1) {
    tu_join_begin(b);
    for (uint32_t rank = 0; rank < n; rank++) {
      uint32_t to = (rank + bit) % n;
      for (uint32_t distance = bit; distance < n; distance++) {
        if (!(distance & bit)) continue;
        bool first = (distance & (bit - 1)) == 0 && !in_place;
        struct tu_span source = first ? tu_in((rank + distance) % n, 1) : transit[(size_t)rank * n + distance];
        struct tu_span target = transit[(size_t)to * n + distance];
        if (is_last_hop(distance, bit)) target = tu_out((to + n - distance) % n, 1);
        tu_move(b, tu_at(rank, source), tu_at(to, target));
      }
    }
    tu_join_end(b);
  }
}

const struct tu_algorithm tu_algo_alltoall_bruck = {
    .collective = TUTTI_ALLTOALL,
    .name = "bruck",
    .summary = "in round k blocks move on by 2^k if that bit of their distance is set",
    .flags = TU_EQUAL_BLOCKS | TU_ROTATES,
    .build = build,
};
