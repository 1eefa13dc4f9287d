/* parts.c: phases that several algorithms share. */
#include "algo/parts.h"

#include <stdlib.h>

uint32_t tu_split_ranks(const struct tu_build *what) { return what->ranks; }

void tu_bucket_allgather(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  for (uint32_t step = 0; step + 1 < n; step++) {
    for (uint32_t rank = 0; rank < n; rank++) {
      struct tu_span chunk = tu_out((rank + n - step) % n, 1);
      tu_move(b, tu_at(rank, chunk), tu_at((rank + 1) % n, chunk));
    }
  }
}

void tu_bucket_reduce_scatter(struct tu_builder *b, const struct tu_span partial[], const struct tu_span result[]) {
  uint32_t n = tu_build_ranks(b);
  for (uint32_t step = 0; step + 1 < n; step++) {
    for (uint32_t rank = 0; rank < n; rank++) {
      uint32_t next = (rank + 1) % n, chunk = (rank + n - step - 1) % n;
      struct tu_span source = step == 0 ? tu_in(chunk, 1) : partial[rank * n + chunk];
      struct tu_span target = chunk == next ? result[next] : partial[next * n + chunk];
      tu_move_reduce(b, tu_at(rank, source), TU_FROM_LEFT, tu_in(chunk, 1), tu_at(next, target));
    }
  }
}

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
  /* What each relative rank has so far: its input, or the sum it keeps. */
  struct tu_span *have = tu_allocate(n, sizeof *have);
  for (uint32_t v = 0; v < n; v++) have[v] = in;
  for (uint32_t bit = 1; bit < n; bit <<= 1) {
    for (uint32_t v = 0; v + bit < n; v += 2 * bit) {
      uint32_t to = (root + v) % n, from = (root + v + bit) % n;
      struct tu_span sum = v == 0 ? result : bit == 1 ? tu_tmp(b, to, in, 1) : have[v];
      tu_move_reduce(b, tu_at(from, have[v + bit]), TU_FROM_RIGHT, have[v], tu_at(to, sum));
      have[v] = sum;
    }
  }
  free(have);
}

void tu_prefix_doubling(struct tu_builder *b, uint32_t first, struct tu_span value) {
  uint32_t n = tu_build_ranks(b);
  struct tu_span out = tu_out_blocks_at(b, 0, 1);
  for (uint32_t distance = 1; first + distance < n; distance <<= 1) {
    tu_group_begin(b);
    for (uint32_t rank = first; rank + distance < n; rank++) {
      struct tu_span have = distance > 1 ? out : value;
      tu_move_reduce(b, tu_at(rank, have), TU_FROM_LEFT, have, tu_at(rank + distance, out));
    }
    tu_group_end(b);
  }
}
