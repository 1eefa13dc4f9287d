/* algo.c: look-ups in the table of algorithms that the build makes from this folder's file names. */
#include "algo/algo.h"

#include <stdlib.h>
#include <string.h>

#include "algo/composite.h"
#include "base/text.h"

const struct tu_algorithm *tu_algorithm_find(tutti_collective collective, const char *name) {
  tutti_collective family = tu_collectives[collective].family;
  for (size_t i = 0; i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    if (a->collective == family && strcmp(a->name, name) == 0) return a;
  }
  struct tu_error why;
  return tu_is_composite(name) ? tu_composite_find(family, name, &why) : NULL;
}

const struct tu_algorithm *tu_algorithm_at(size_t index) {
  if (index < tu_algorithm_count) return tu_algorithms[index];
  if (index - tu_algorithm_count >= tu_composite_example_count) return NULL;
  const struct tu_composite_example *e = &tu_composite_examples[index - tu_algorithm_count];
  const struct tu_algorithm *a = tu_algorithm_find(e->collective, e->name);
  tu_assert(a);
  return a;
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

const struct tu_algorithm *tu_algorithm_in_groups(const struct tu_algorithm *a, uint32_t group, uint32_t host) {
  uint32_t ranks = a->flags & TU_BY_HOSTS ? host : group;
  return (a->flags & TU_OPEN_GROUPS) && ranks > 0 ? tu_composite_in_groups(a, ranks) : a;
}

bool tu_algorithm_serves(const struct tu_algorithm *a, const struct tu_wanted *wanted, const char **why) {
  *why = NULL;
  if ((a->flags & TU_OPEN_GROUPS) && (a->flags & TU_BY_HOSTS))
    *why = "its groups, /h, are hosts of equal numbers of ranks, and these ranks are on one, or on unlike ones";
  else if (a->flags & TU_OPEN_GROUPS)
    *why = "its groups, /g, are those of caches or NUMA nodes, and these ranks have none; tutti info says more";
  else if (!tu_algorithm_fits(a, wanted->ranks))
    *why = "it does not serve that number of ranks; tutti list says what it requires";
  else if (wanted->rank_order && !(a->flags & TU_RANK_ORDER))
    *why = "the operation does not commute and it does not combine in rank order";
  else if (wanted->any_blocks && (a->flags & TU_EQUAL_BLOCKS)) *why = "it needs blocks of equal size";
  return *why == NULL;
}
