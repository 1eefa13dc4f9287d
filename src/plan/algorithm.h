/* algorithm.h: what the builder knows of an algorithm: its promises, how many ranks it serves, and the function that writes its
 * plan. algo/ has them and the table of them. */
#ifndef TU_ALGORITHM_H
#define TU_ALGORITHM_H

#include "plan/plan.h"

struct tu_build;
struct tu_builder;

enum {
  TU_RANK_ORDER = 1 << 0,   /* operands combine in rank order: serves operations that do not commute */
  TU_EQUAL_BLOCKS = 1 << 1, /* every rank must know every block's size: serves no gatherv, scatterv, alltoallv, ... */
  /* The plan of rank r is that of rank 0 with all ranks moved on by r, and its chunks under other numbers (the order of steps
   * that receive may differ): so the time of one rank is that of all. */
  TU_ROTATES = 1 << 2,
  /* Puts as many pieces into a message as fit a slot: its plan depends on tu_build.slot_pieces. */
  TU_AGGREGATES = 1 << 3,
  /* A composite with "/g" or "/h" in its name: it stands for those of every group size (tu_algorithm_in_groups), and serves
   * nothing itself. */
  TU_OPEN_GROUPS = 1 << 4,
  /* TU_ROTATES, and its chunks are moved on as well: what rank 0 does with a chunk of block i of a row of blocks, rank r
   * does with that of block i + r (modulo N), and with all other chunks the same. All its loops over ranks that reduce,
   * and those that make scratch, are tu_next_rank's, so that one rank is built without a look at most of the others. */
  TU_ROTATES_ROWS = 1 << 5,
  TU_BY_HOSTS = 1 << 6 /* with TU_OPEN_GROUPS: "/h", groups are the ranks of a host */
};

struct tu_algorithm {
  tutti_collective collective; /* a family */
  const char *name;
  const char *summary; /* one line */
  uint32_t flags;
  uint32_t lanes;                                             /* that it uses; 0: one */
  uint32_t multiple_of;                                       /* of which N must be a multiple; 0: any N */
  bool (*fits)(const struct tu_algorithm *a, uint32_t ranks); /* NULL: multiple_of says it all */
  uint32_t (*split)(const struct tu_build *what);             /* chunks per block; NULL: 1 */
  void (*build)(struct tu_builder *b);
};

/* Does it serve that many ranks? */
bool tu_algorithm_fits(const struct tu_algorithm *a, uint32_t ranks);

#endif
