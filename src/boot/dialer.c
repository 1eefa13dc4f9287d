/* dialer.c: which ranks of different hosts have a control connection from the start. */
#include "boot/dialer.h"

#include <string.h>

/* Returns the number of ranks below `end` on the host of `rank`. */
static uint32_t count_on_host(const uint32_t host[], uint32_t end, uint32_t rank) {
  uint32_t count = 0;
  for (uint32_t r = host[rank]; r < end; r++) count += host[r] == host[rank];
  return count;
}

void tu_dialer_counterparts(const uint32_t host[], uint32_t ranks, uint32_t rank, bool counterparts[]) {
  const uint32_t mine = count_on_host(host, rank, rank), here = count_on_host(host, ranks, rank);
  memset(counterparts, 0, ranks * sizeof *counterparts);
  for (uint32_t leader = 0; leader < ranks; leader++) {
    if (host[leader] != leader || leader == host[rank]) continue;
    const uint32_t modulus = (uint32_t)tu_min(here, count_on_host(host, ranks, leader));
    for (uint32_t r = leader, local = 0; r < ranks; r++) {
      if (host[r] != leader) continue;
      counterparts[r] = local++ % modulus == mine % modulus;
    }
  }
}
