/* algo.h: the table of algorithms. Each algorithm is one file of this folder: COLLECTIVE_NAME.c exports
 * tu_algo_COLLECTIVE_NAME, and the build collects them. No other file names an algorithm's struct. */
#ifndef TU_ALGO_H
#define TU_ALGO_H

#include "plan/algorithm.h"
#include "plan/builder.h"
#include "plan/placement.h"

/* array of all algorithms, sorted by collective and then by name */
extern const struct tu_algorithm *const tu_algorithms[];
extern const size_t tu_algorithm_count;
/* Returns the algorithm with this index, for tests and proofs. The algorithms of the table come first, then the
 * examples of composites (composite.h). Past the end, returns NULL. */
const struct tu_algorithm *tu_algorithm_at(size_t index);

/* Returns the algorithm `name` of a collective, or NULL. For a vector collective such as gatherv, returns an algorithm
 * of its equal-sized collective (gather). The first look-up of a composite allocates memory. If that fails, the
 * function does not return: it jumps (longjmp) to the enclosing tu_arena_build (base/arena.h), which returns
 * TUTTI_ERR_MEMORY. The same holds for tu_algorithm_in_groups. */
const struct tu_algorithm *tu_algorithm_find(tutti_collective collective, const char *name);
/* Like tu_algorithm_find, but looks only in the table, not for composites. Allocates no memory. */
const struct tu_algorithm *tu_algorithm_listed(tutti_collective collective, const char *name);
/* Returns the name of the collective's algorithm that is most similar to `name`, or NULL. */
const char *tu_algorithm_nearest(tutti_collective collective, const char *name);

/* Describes the call for which an algorithm is wanted. tu_tuning_choose (tuning.h) selects one. */
struct tu_wanted {
  tutti_collective collective;
  uint32_t ranks;
  size_t bytes;    /* size of a rank's longest buffer; SIZE_MAX: some rank does not know the size */
  bool rank_order; /* true: the operation is not commutative, so operands must combine in rank order */
  bool canonical;  /* true: the reduction must have the canonical order (TU_CANONICAL) */
  bool any_blocks; /* block sizes may differ, or some rank does not know the size of every block */
  uint32_t group;  /* ranks per locality group, a divisor of `ranks`; 0: there are no groups */
  uint32_t share;  /* number of ranks that share a CPU; 0 counts as 1 */
  const struct tu_placement *placement; /* the hosts of the ranks; NULL: one host */
  uint32_t lanes; /* number of lanes that the caller requested, at most TU_LANES_MAX; 0: none. For tu_tuning_select */
};
static inline uint32_t tu_wanted_hosts(const struct tu_wanted *wanted) {
  return wanted->placement ? wanted->placement->hosts : 1;
}
/* Returns the placement for which the plan of an algorithm is built, for this call; NULL: none. */
static inline const struct tu_placement *tu_wanted_placement(const struct tu_wanted *wanted) {
  return tu_placement_for(wanted->placement, tu_collectives[wanted->collective].family,
                          wanted->rank_order || wanted->canonical);
}
/* Returns true if the algorithm can serve the call. If not, sets *why to the reason, a clause for an error message. */
bool tu_algorithm_serves(const struct tu_algorithm *a, const struct tu_wanted *wanted, const char **why);
/* Returns the algorithm `a` with its open group size set to `group` ranks. Returns `a` itself if its group size is not
 * open (no flag TU_OPEN_GROUPS), or if `group` is 0. The result lives as long as the process. */
const struct tu_algorithm *tu_algorithm_in_groups(const struct tu_algorithm *a, uint32_t group);

#endif
