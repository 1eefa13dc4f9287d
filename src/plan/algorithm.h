/* algorithm.h: the description of an algorithm: its properties, the rank counts that it supports, and the function that
 * builds its plan. The algorithms and the table of algorithms are in algo/. */
#ifndef TU_ALGORITHM_H
#define TU_ALGORITHM_H

#include "plan/plan.h"

struct tu_build;
struct tu_builder;
struct tu_placement;

enum {
  TU_RANK_ORDER = 1 << 0, /* operands combine in rank order: supports operations that are not commutative */
  /* every block must have the same size, so not for vector variants (gatherv, scatterv, alltoallv, ...) */
  TU_EQUAL_BLOCKS = 1 << 1,
  /* The plan of rank r is the plan of rank 0 with r added to all rank numbers (modulo N) and with its chunks
   * renumbered. Only the order of receiving steps may differ. So all ranks take the same time. */
  TU_ROTATES = 1 << 2,
  /* A message carries as many pieces of blocks as fit into a slot of the channel, so the plan depends on
   * tu_build.slot_pieces. */
  TU_AGGREGATES = 1 << 3,
  /* A composite algorithm (composite.h) whose name has "/g", so its group size is still open. It serves no call itself:
   * tu_algorithm_in_groups makes an algorithm with a fixed group size of it. */
  TU_OPEN_GROUPS = 1 << 4,
  /* Like TU_ROTATES, with chunks rotated as well. Rank r does with block i + r (modulo N) of a buffer of N blocks what
   * rank 0 does with block i. With chunks of other buffers, all ranks do the same. Loops over ranks that reduce or
   * allocate scratch must use tu_next_rank. Then the plan of one rank is built without visiting most other ranks. */
  TU_ROTATES_ROWS = 1 << 5,
  TU_BY_HOSTS = 1 << 6 /* made for ranks of several hosts; a composite whose name has "/h" serves no others */
};

struct tu_algorithm {
  /* the equal-sized collective that the algorithm carries out, such as gather (which serves gatherv, too) */
  tutti_collective collective;
  const char *name;
  const char *summary; /* one-line description for lists of algorithms */
  uint32_t flags;
  uint32_t lanes;       /* number of lanes that the algorithm uses; 0: one */
  uint32_t multiple_of; /* N must be a multiple of this; 0: any N */
  /* returns true for supported ranks; NULL: multiple_of decides. placement NULL: the ranks run on one host */
  bool (*fits)(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement);
  /* Returns true if the plan for so many ranks, built with tu_build.canonical, has the canonical order of reduction, whatever
   * the root. The algorithm fits. NULL: only for two ranks or fewer */
  bool (*canonical)(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement);
  uint32_t (*split)(const struct tu_build *what); /* returns the number of chunks per block; NULL: 1 */
  void (*build)(struct tu_builder *b);
};

/* Return true if the algorithm supports `ranks` ranks, on one host or placed on hosts (NULL: one host). */
bool tu_algorithm_fits(const struct tu_algorithm *a, uint32_t ranks);
bool tu_algorithm_fits_on(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement);
/* Returns true if the algorithm reduces, and its plan for these ranks, built with tu_build.canonical, has the canonical order
 * of reduction (TU_CANONICAL). The checker proves it. */
bool tu_algorithm_is_canonical(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement);

#endif
