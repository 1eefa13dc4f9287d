/* reduce_scatter_by_host.c: every block is summed on each host, by one of its ranks, and the sum crosses to the rank to
 * which the block belongs. The ranks of a host take turns. If all ranks run on one host, this is direct.
 * Cost for blocks of m bytes and H hosts of g ranks: (H-1)(alpha + beta m) between hosts, and (g-1) H messages of m bytes
 * to each rank within its host. Operands combine in rank order. */
#include "algo/phases.h"
#include "algo/trie.h"

/* Sums the block of a rank on a host, at rank `at` of that host. Returns the span of the sum. */
static struct tu_at sum_on(struct tu_builder *b, uint32_t host, uint32_t at, uint32_t block, struct tu_at *sources) {
  uint32_t first = tu_host_first(b, host), count = tu_host_end(b, host) - first;
  struct tu_span in = tu_in_blocks_at(b, block, 1);
  if (count == 1) return tu_at(at, in);
  struct tu_at sum = tu_at(at, tu_tmp(b, at, in, 1));
  for (uint32_t i = 0; i < count; i++) sources[i] = tu_at(first + i, in);
  tu_reduce_from(b, sources, count, sum);
  return sum;
}

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b), hosts = tu_hosts(b);
  struct tu_at *sources = tu_build_memory(b, n, sizeof *sources);
  /* [host * N + block]: the block's sum on the host */
  struct tu_at *sums = tu_build_memory(b, (size_t)hosts * n, sizeof *sums);
  for (uint32_t distance = 1; distance < hosts; distance++)
    for (uint32_t host = 0; host < hosts; host++)
      for (uint32_t rank = tu_host_first(b, host); rank < tu_host_end(b, host); rank++) {
        uint32_t there = (host + distance) % hosts;
        sums[(size_t)there * n + rank] = sum_on(b, there, tu_host_delegate(b, there, rank), rank, sources);
      }
  for (uint32_t own = 0; own < hosts; own++)
    for (uint32_t rank = tu_host_first(b, own); rank < tu_host_end(b, own); rank++) {
      uint32_t count = 0;
      /* In the canonical order, the sum of this host is a node of its own. */
      const bool apart = tu_build_what(b)->canonical;
      if (apart) sums[(size_t)own * n + rank] = sum_on(b, own, rank, rank, sources);
      for (uint32_t host = 0; host < hosts; host++) {
        if (host != own || apart) sources[count++] = sums[(size_t)host * n + rank];
        for (uint32_t near = tu_host_first(b, own); host == own && !apart && near < tu_host_end(b, own); near++)
          sources[count++] = tu_at(near, tu_in_blocks_at(b, rank, 1));
      }
      tu_reduce_from(b, sources, count, tu_at(rank, tu_out_blocks_at(b, 0, 1)));
    }
}

const struct tu_algorithm tu_algo_reduce_scatter_by_host = {
    .collective = TUTTI_REDUCE_SCATTER,
    .name = "by_host",
    .summary = "every block is summed on each host, and the sums cross to the block's rank",
    .flags = TU_RANK_ORDER | TU_BY_HOSTS,
    .canonical = tu_canonical_by_blocks,
    .build = build,
};
