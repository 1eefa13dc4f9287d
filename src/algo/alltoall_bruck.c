/* alltoall_bruck.c: the algorithm of Bruck et al. (1997). In round k every rank sends, to the rank 2^k after it, all
 * blocks whose distance to their destination has bit k set. The blocks of a round are sent as one message.
 * Cost for blocks of m bytes: ceil(log2 N)(alpha + beta m N/2) if N is a power of two. This needs fewer messages, but
 * more bytes, than sending every block directly.
 * A block in transit lies in scratch, at a position given by its distance to its destination. */
#include "algo/phases.h"

static bool is_last_hop(uint32_t distance, uint32_t bit) { return distance < 2 * bit; }

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  bool in_place = tu_build_in_place(b);
  /* scratch for blocks in transit, indexed [rank * n + distance to the destination] */
  struct tu_span *transit = tu_build_memory(b, (size_t)n * n, sizeof *transit);
  for (uint32_t rank = 0; rank < n; rank++) {
    for (uint32_t distance = 1; distance < n; distance++) {
      /* In place, an arriving block overwrites a block that is not sent yet. Therefore all blocks are first copied to
       * scratch. */
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
    .summary = "in round k blocks whose distance has bit k set move on by 2^k ranks",
    .flags = TU_EQUAL_BLOCKS | TU_ROTATES,
    .build = build,
};
