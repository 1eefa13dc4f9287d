/* allgather_by_host.c: every block crosses once to each other host, to one rank of it, which distributes it there. The
 * ranks of a host take turns. If all ranks run on one host, this is direct.
 * Cost for blocks of m bytes and H hosts of g ranks: (H-1)(alpha + beta m) between hosts, and N-1 messages of m bytes to
 * each rank within its host or to it from others. */
#include "algo/phases.h"

/* The rank `from` has a block; the others of its host get it, the next one first, so that no two ranks send to the same
 * rank at the same time. */
static void distribute(struct tu_builder *b, uint32_t host, uint32_t from, uint32_t block, struct tu_at *targets) {
  struct tu_span span = tu_out_blocks_at(b, block, 1);
  uint32_t first = tu_host_first(b, host), size = tu_host_end(b, host) - first;
  for (uint32_t i = 1; i < size; i++) targets[i - 1] = tu_at(first + (from - first + i) % size, span);
  if (size > 1) tu_multicast(b, tu_at(from, span), targets, size - 1);
}

static void build(struct tu_builder *b) {
  struct tu_at *targets = tu_build_memory(b, tu_build_ranks(b), sizeof *targets);
  tu_copy_own(b);
  /* Blocks leave their hosts first, because wires are slow. The first is for the next host, so that hosts do not all
   * send to the same host at the same time. */
  for (uint32_t distance = 1; distance < tu_hosts(b); distance++)
    for (uint32_t host = 0; host < tu_hosts(b); host++)
      for (uint32_t rank = tu_host_first(b, host); rank < tu_host_end(b, host); rank++) {
        uint32_t to = tu_host_delegate(b, (host + distance) % tu_hosts(b), rank);
        struct tu_span span = tu_out_blocks_at(b, rank, 1);
        tu_move(b, tu_at(rank, span), tu_at(to, span));
      }
  for (uint32_t distance = 0; distance < tu_hosts(b); distance++)
    for (uint32_t host = 0; host < tu_hosts(b); host++)
      for (uint32_t rank = tu_host_first(b, host); rank < tu_host_end(b, host); rank++) {
        uint32_t there = (host + distance) % tu_hosts(b);
        distribute(b, there, distance > 0 ? tu_host_delegate(b, there, rank) : rank, rank, targets);
      }
}

const struct tu_algorithm tu_algo_allgather_by_host = {
    .collective = TUTTI_ALLGATHER,
    .name = "by_host",
    .summary = "every block crosses once to each other host, where one rank distributes it",
    .flags = TU_BY_HOSTS,
    .build = build,
};
