/* table.c: finds algorithms in the table of algorithms, which the build generates from the file names of this
 * folder. */
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/text.h"

const struct tu_algorithm *tu_algorithm_listed(tutti_collective collective, const char *name) {
  for (size_t i = 0; i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    if (a->collective == tu_collectives[collective].family && strcmp(a->name, name) == 0) return a;
  }
  return NULL;
}

const char *tu_algorithm_nearest(tutti_collective collective, const char *name) {
  const char **names = tu_try_allocate(tu_algorithm_count, sizeof *names);
  size_t count = 0;
  for (size_t i = 0; names && i < tu_algorithm_count; i++)
    if (tu_algorithms[i]->collective == tu_collectives[collective].family) names[count++] = tu_algorithms[i]->name;
  const char *nearest = tu_nearest(name, names, count);
  free(names);
  return nearest;
}

/* Returns the reason why an algorithm does not fit the ranks. */
static const char *misfit(const struct tu_algorithm *a, const struct tu_wanted *wanted,
                          const struct tu_placement *placement) {
  bool by_hosts = a->flags & TU_BY_HOSTS;
  if (by_hosts && !wanted->placement) return "its groups, /h, are hosts, but these ranks run on one host";
  if (by_hosts && !placement)
    return "its groups, /h, are hosts, but the ranks of a host are not consecutive, and the result depends on the "
           "order "
           "of the ranks";
  if (by_hosts) return "it does not serve these hosts; phases rs and ag with /h need the same number of ranks on each";
  return "it does not serve this number of ranks; tutti list shows its requirements";
}

bool tu_algorithm_serves(const struct tu_algorithm *a, const struct tu_wanted *wanted, const char **why) {
  const struct tu_placement *placement = tu_wanted_placement(wanted);
  *why = NULL;
  if (a->flags & TU_OPEN_GROUPS)
    *why = "its groups, /g, are those of caches or NUMA nodes, but these ranks have no such groups; see tutti info";
  else if (!tu_algorithm_fits_on(a, wanted->ranks, placement)) *why = misfit(a, wanted, placement);
  else if (wanted->rank_order && !(a->flags & TU_RANK_ORDER))
    *why = "the operation is not commutative, and the algorithm does not combine operands in rank order";
  else if (wanted->canonical && !tu_algorithm_is_canonical(a, wanted->ranks, placement))
    *why = "it does not reduce in the canonical order on these ranks; `tutti list` shows which algorithms do";
  else if (wanted->any_blocks && (a->flags & TU_EQUAL_BLOCKS)) *why = "it requires blocks of equal size";
  return *why == NULL;
}
