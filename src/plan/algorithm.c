/* algorithm.c: the numbers of ranks that an algorithm supports. */
#include "plan/algorithm.h"

#include "plan/placement.h"

bool tu_algorithm_fits(const struct tu_algorithm *a, uint32_t ranks) { return tu_algorithm_fits_on(a, ranks, NULL); }

bool tu_algorithm_fits_on(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement) {
  if (a->collective == TUTTI_SEND) return ranks == 2;
  if (a->fits) return a->fits(a, ranks, placement);
  return a->multiple_of == 0 || ranks % a->multiple_of == 0;
}

bool tu_algorithm_is_canonical(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement) {
  if (!tu_reduces(a->collective) || (placement && placement->order)) return false;
  return ranks <= 2 || (a->canonical && a->canonical(a, ranks, placement));
}
