/* algo.c: look-ups in the table of algorithms that the build makes from this folder's file names. */
#include "algo/algo.h"

#include <string.h>

const struct tu_algorithm *tu_algorithm_find(tutti_collective collective, const char *name) {
  tutti_collective family = tu_collectives[collective].family;
  for (size_t i = 0; i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    if (a->collective == family && strcmp(a->name, name) == 0) return a;
  }
  return NULL;
}

bool tu_algorithm_fits(const struct tu_algorithm *a, uint32_t ranks) {
  if (a->collective == TUTTI_SEND) return ranks == 2;
  return a->multiple_of == 0 || ranks % a->multiple_of == 0;
}
