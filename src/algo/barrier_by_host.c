/* barrier_by_host.c: on each host, every rank notifies the first one. The first ranks of the hosts notify each other by
 * dissemination. Then each releases the ranks of its host. If all ranks run on one host, this is central.
 * Cost for H hosts of g ranks: 2 (g-1) alpha within the hosts, and ceil(log2 H) alpha between them. */
#include "algo/phases.h"

static void build(struct tu_builder *b) {
  uint32_t hosts = tu_hosts(b);
  struct tu_span in = tu_in(0, 1), out = tu_out(0, 1);
  struct tu_at *others = tu_build_memory(b, tu_build_ranks(b), sizeof *others);
  for (uint32_t host = 0; host < hosts; host++) {
    uint32_t first = tu_host_first(b, host);
    for (uint32_t rank = first + 1; rank < tu_host_end(b, host); rank++) tu_move(b, tu_at(rank, in), tu_at(first, out));
  }
  for (uint32_t distance = 1; distance < hosts; distance <<= 1) {
    tu_concurrent_begin(b);
    for (uint32_t host = 0; host < hosts; host++) {
      uint32_t first = tu_host_first(b, host);
      bool alone = tu_host_end(b, host) - first == 1; /* then it has received nothing yet that it could pass on */
      tu_move(b, tu_at(first, alone && distance == 1 ? in : out),
              tu_at(tu_host_first(b, (host + distance) % hosts), out));
    }
    tu_concurrent_end(b);
  }
  for (uint32_t host = 0; host < hosts; host++) {
    uint32_t first = tu_host_first(b, host), count = 0;
    for (uint32_t rank = first + 1; rank < tu_host_end(b, host); rank++) others[count++] = tu_at(rank, out);
    if (count > 0) tu_multicast(b, tu_at(first, out), others, count);
  }
}

const struct tu_algorithm tu_algo_barrier_by_host = {
    .collective = TUTTI_BARRIER,
    .name = "by_host",
    .summary = "the ranks of each host notify one of them; these notify each other and release their hosts",
    .flags = TU_BY_HOSTS,
    .build = build,
};
