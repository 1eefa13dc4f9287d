/* algo.c: finds algorithms by name: those of the table, and composites of several algorithms. */
#include "algo/algo.h"

#include "algo/composite.h"

const struct tu_algorithm *tu_algorithm_find(tutti_collective collective, const char *name) {
  struct tu_error why;
  const struct tu_algorithm *a = tu_algorithm_listed(collective, name);
  return a || !tu_is_composite(name) ? a : tu_composite_find(tu_collectives[collective].family, name, &why);
}

const struct tu_algorithm *tu_algorithm_at(size_t index) {
  if (index < tu_algorithm_count) return tu_algorithms[index];
  if (index - tu_algorithm_count >= tu_composite_example_count) return NULL;
  const struct tu_composite_example *e = &tu_composite_examples[index - tu_algorithm_count];
  const struct tu_algorithm *a = tu_algorithm_find(e->collective, e->name);
  tu_assert(a);
  return a;
}

const struct tu_algorithm *tu_algorithm_in_groups(const struct tu_algorithm *a, uint32_t group) {
  return (a->flags & TU_OPEN_GROUPS) && group > 0 ? tu_composite_in_groups(a, group) : a;
}
