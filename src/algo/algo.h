/* algo.h: the table of algorithms. One file of this folder is one algorithm: COLLECTIVE_NAME.c exports
 * tu_algo_COLLECTIVE_NAME, and the build collects them; nothing else names them. */
#ifndef TU_ALGO_H
#define TU_ALGO_H

#include "plan/builder.h"

enum {
  TU_RANK_ORDER = 1 << 0,   /* operands combine in rank order: serves operations that do not commute */
  TU_EQUAL_BLOCKS = 1 << 1, /* every rank must know every block's size: serves no gatherv, scatterv, alltoallv, ... */
  /* The plan of rank r is that of rank 0 with all ranks moved on by r, and its chunks under other numbers (the order of steps
   * that receive may differ): so the time of one rank is that of all. */
  TU_ROTATES = 1 << 2,
  /* Puts as many pieces into a message as fit a slot: its plan depends on tu_build.slot_pieces. */
  TU_AGGREGATES = 1 << 3,
  /* A composite with "/g" in its name: it stands for those of every group size (tu_algorithm_in_groups), and serves
   * nothing itself. */
  TU_OPEN_GROUPS = 1 << 4,
  /* TU_ROTATES, and its chunks are moved on as well: what rank 0 does with a chunk of block i of a row of blocks, rank r
   * does with that of block i + r (modulo N), and with all other chunks the same. All its loops over ranks that reduce,
   * and those that make scratch, are tu_next_rank's, so that one rank is built without a look at most of the others. */
  TU_ROTATES_ROWS = 1 << 5
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
  uint32_t share;  /* ranks that share a CPU; 0 counts as 1 */
};
/* Can this algorithm do what is wanted? If not, `why` is a clause for a message. */
bool tu_algorithm_serves(const struct tu_algorithm *a, const struct tu_wanted *wanted, const char **why);
/* Does it serve that many ranks? */
bool tu_algorithm_fits(const struct tu_algorithm *a, uint32_t ranks);
/* The algorithm that `a` is on groups of `group` ranks: `a` itself unless its groups are open (TU_OPEN_GROUPS). With no
 * groups (0) those stay open. Lives as long as the process. */
const struct tu_algorithm *tu_algorithm_in_groups(const struct tu_algorithm *a, uint32_t group);

#endif
