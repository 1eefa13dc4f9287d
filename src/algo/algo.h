/* algo.h: the table of algorithms. One file of this folder is one algorithm: COLLECTIVE_NAME.c exports
 * tu_algo_COLLECTIVE_NAME, and the build collects them; nothing else names them. */
#ifndef TU_ALGO_H
#define TU_ALGO_H

#include "plan/algorithm.h"
#include "plan/builder.h"

extern const struct tu_algorithm *const tu_algorithms[]; /* by collective, then name */
extern const size_t tu_algorithm_count;
/* Those of the table and then examples of composites (composite.h), for tests and proofs; NULL past the end. */
const struct tu_algorithm *tu_algorithm_at(size_t index);

/* By "collective" and "name"; NULL if there is none. Vector names find their family's algorithms. A composite's first
 * mention takes memory: a refusal ends the building that this is in (base/arena.h). The same holds for _in_groups. */
const struct tu_algorithm *tu_algorithm_find(tutti_collective collective, const char *name);
/* The name of that collective's algorithm that is most like `name`, or NULL. */
const char *tu_algorithm_nearest(tutti_collective collective, const char *name);

/* What an algorithm is wanted for; tuning.h picks one. */
struct tu_wanted {
  tutti_collective collective;
  uint32_t ranks;
  size_t bytes;    /* of the longest buffer of a rank; SIZE_MAX if that is not known to all */
  bool rank_order; /* the operation does not commute */
  bool any_blocks; /* some rank does not know every block's size, or blocks are unequal */
  uint32_t group;  /* ranks of a group, of which `ranks` is a multiple; 0: there are no groups */
  uint32_t host;   /* ranks of a host, likewise; 0: there is one host, or they have unlike numbers of ranks */
  uint32_t share;  /* ranks that share a CPU; 0 counts as 1 */
};
/* Can this algorithm do what is wanted? If not, `why` is a clause for a message. */
bool tu_algorithm_serves(const struct tu_algorithm *a, const struct tu_wanted *wanted, const char **why);
/* The algorithm that `a` is on groups of `group` ranks, or with TU_BY_HOSTS on hosts of `host` ranks: `a` itself unless its
 * groups are open (TU_OPEN_GROUPS). With no groups (0) those stay open. Lives as long as the process. */
const struct tu_algorithm *tu_algorithm_in_groups(const struct tu_algorithm *a, uint32_t group, uint32_t host);

#endif
