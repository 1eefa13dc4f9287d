/* ring.h: orders in which a cluster's chips can be gone through from neighbour to neighbour, over links that may be used. */
#ifndef TU_RING_H
#define TU_RING_H

#include "topology/grid.h"

enum tu_ring_kind {
  TU_RING,  /* each chip is linked to the next, and the last one to the first */
  TU_LINE,  /* ... but not the last one to the first */
  TU_TOUR,  /* some are not: what lies between passes the data on */
  TU_APART, /* there is no way between some of the chips: the order is that of their numbers */
};

struct tu_ring {
  enum tu_ring_kind kind;
  bool proved;     /* that there is no ring (and, of a tour: no line either) */
  uint32_t *order; /* [chips] */
  uint32_t hops;   /* over links, all the way (round); TU_NONE: nobody counted */
  uint32_t links;  /* that each hop has, at least: as many rings can run side by side. 0 of a tour */
  uint32_t tries;  /* what the search took */
};

/* A ring; where there is none a line; where there is none a short tour. Exact up to TU_RING_EXACT chips, and nearly always up
 * to TU_HAMILTON_MAX; beyond that rings and lines of grids only. Starts at chip 0, or at the line's lower end. */
#define TU_RING_EXACT 32u
void tu_ring_find(const struct tu_cluster *cluster, const struct tu_grid *grid, struct tu_ring *ring);
void tu_ring_fini(struct tu_ring *ring);

/* ---- closed walks, longer than a ring or shorter ---- */

/* A walk that ends where it begins. Each link is crossed once at most, in either direction. */
struct tu_walk {
  uint32_t hops;
  uint32_t *chips; /* [hops] */
  uint32_t *links; /* [hops]: over which link to the next one */
};

/* Gives each hop between these chips a link of its own. ARGUMENT: two that follow each other are not linked, or a pair's
 * links have run out; says which. */
tutti_err tu_walk_assign(const struct tu_cluster *cluster, const uint32_t chips[], uint32_t hops, struct tu_walk *walk,
                         struct tu_error *error);
/* Finds a walk of so many hops: through all chips, or, if there are more chips than hops, through as many as there are hops. Goes
 * back over the pair that it came by only if it must. ARGUMENT: there is none, and why (which pair's links run out); or none
 * was found. Up to TU_WALK_HOPS_MAX hops. */
#define TU_WALK_HOPS_MAX 65536u
tutti_err tu_walk_find(const struct tu_cluster *cluster, uint32_t hops, struct tu_walk *walk, struct tu_error *error);
void tu_walk_fini(struct tu_walk *walk);

#endif
