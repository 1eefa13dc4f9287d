/* placement.h: on which hosts the ranks of a plan run.
 *
 * Algorithms count ranks host by host, so that each host is a range of consecutive ranks. If the program numbers its
 * ranks in another way, the builder translates: each algorithm is built in the order of the placement, while blocks
 * stay in the order of the program. That changes the order of operands, so it is allowed only if no result depends on
 * this order (tu_placement_for). */
#ifndef TU_PLACEMENT_H
#define TU_PLACEMENT_H

#include "plan/collective.h"

struct tu_placement {
  uint32_t ranks, hosts; /* hosts >= 2 */
  uint32_t each;         /* number of ranks of every host; 0: the hosts have different numbers of ranks */
  uint32_t *end;         /* [hosts]: position after the last rank of each host, ascending */
  /* [position]: the ranks, host by host, in ascending order on each host. NULL: rank i is at position i, because the
   * ranks of every host are consecutive */
  uint32_t *order;
};

/* Sets *placement to the placement of ranks of which host[r] is the host of rank r: any number, the same for ranks of
 * one host. NULL: there is only one host. tu_placement_destroy frees it. Returns TUTTI_ERR_MEMORY if out of memory. */
tutti_err tu_placement_create(const uint32_t host[], uint32_t ranks, struct tu_placement **placement,
                              struct tu_error *error);
void tu_placement_destroy(struct tu_placement *placement);

/* Reads a placement from text: the numbers of ranks of the hosts, for example "4,4", or one letter per rank, which
 * names its host, for example "abab". *placement is NULL if there is only one host. */
tutti_err tu_placement_read(const char *text, uint32_t *ranks, struct tu_placement **placement, struct tu_error *error);

/* Returns the placement if plans of the collective may be built for it; otherwise NULL. They may not if the ranks of a
 * host are not consecutive, and the result depends on the order of the ranks. `rank_order`: the operation is not
 * commutative. Accepts NULL. */
const struct tu_placement *tu_placement_for(const struct tu_placement *placement, tutti_collective collective,
                                            bool rank_order);

/* Returns the index of the host whose range contains the position. */
uint32_t tu_placement_host(const struct tu_placement *placement, uint32_t position);
static inline uint32_t tu_placement_first(const struct tu_placement *placement, uint32_t host) {
  return host > 0 ? placement->end[host - 1] : 0;
}

#endif
