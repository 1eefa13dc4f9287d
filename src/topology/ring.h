/* ring.h: finds an order of a cluster's chips in which consecutive chips are linked. Also finds closed walks through
 * the chips. Only usable links count. */
#ifndef TU_RING_H
#define TU_RING_H

#include "topology/grid.h"

enum tu_ring_kind {
  TU_RING,  /* each chip is linked to the next one, and the last chip to the first */
  TU_LINE,  /* each chip is linked to the next one, but the last chip is not linked to the first */
  TU_TOUR,  /* some consecutive chips are not linked: the nodes between them forward the data */
  TU_APART, /* some chips are not connected; the order is that of the chips' numbers */
};

struct tu_ring {
  enum tu_ring_kind kind;
  /* true: it is proved that there is no ring. If `kind` is TU_TOUR, it is also proved that there is no line. */
  bool proved;
  uint32_t *order; /* [chips]: the chips, in the order that was found */
  /* total number of hops along the order (in a tour, two consecutive chips can be several hops apart); TU_NONE: not
   * counted */
  uint32_t hops;
  /* the smallest number of links that two consecutive chips have, which is the number of rings that can run at the same
   * time without sharing a link; 0 for a tour */
  uint32_t links;
  uint32_t tries; /* number of steps that the search took */
};

/* Finds a ring; if there is none, a line; if there is no line, a short tour. The answer is exact for up to
 * TU_RING_EXACT chips, and almost always for up to TU_HAMILTON_MAX chips. For more chips, only rings and lines in grids
 * are found. The order starts at chip 0; only that of a line starts with the lower of its two end chips. */
#define TU_RING_EXACT 32u
void tu_ring_find(const struct tu_cluster *cluster, const struct tu_grid *grid, struct tu_ring *ring);
void tu_ring_fini(struct tu_ring *ring);

/* ---- closed walks, longer or shorter than a ring ---- */

/* A walk that ends where it begins. It uses each link at most once: not a second time in the other direction,
 * either. */
struct tu_walk {
  uint32_t hops;
  uint32_t *chips; /* [hops]: the chips in the order of the walk */
  uint32_t *links; /* [hops]: the link from each chip to the next one */
};

/* Assigns links to the hops of the closed walk through chips[]; no link is used twice. Returns TUTTI_ERR_ARGUMENT if
 * two consecutive chips are not linked, or if the walk goes between two chips more often than they have links. The
 * message names the two chips. */
tutti_err tu_walk_assign(const struct tu_cluster *cluster, const uint32_t chips[], uint32_t hops, struct tu_walk *walk,
                         struct tu_error *error);
/* Finds a closed walk of `hops` hops. If there are at most `hops` chips, the walk visits all chips; otherwise it visits
 * `hops` different chips. It goes straight back to the chip that it came from only if necessary. Returns
 * TUTTI_ERR_ARGUMENT if no such walk exists (if too few links are the reason, the message names a pair), if none was
 * found, or if hops > TU_WALK_HOPS_MAX. */
#define TU_WALK_HOPS_MAX 65536u
tutti_err tu_walk_find(const struct tu_cluster *cluster, uint32_t hops, struct tu_walk *walk, struct tu_error *error);
void tu_walk_fini(struct tu_walk *walk);

#endif
