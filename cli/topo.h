/* topo.h: declarations common to the parts of `tutti topo`. */
#ifndef CLI_TOPO_H
#define CLI_TOPO_H

#include "base/text.h"
#include "topology/measure.h"
#include "topology/ring.h"
#include "topology/soc.h"

/* A cluster and its properties. */
struct topo {
  struct tu_cluster *cluster;
  struct tu_grid grid;
  struct tu_ring ring;
  struct tu_bounds diameter, bisection;
  struct tu_soc *soc; /* cores of a chip (option --soc); NULL: not given */
};

void topo_json(const struct topo *t);

/* topo_walk prints a closed walk, topo_routes prints routes. They print errors and return an exit status. */
int topo_walk(const struct topo *t, const char *walk, bool json);
int topo_routes(const struct topo *t, const char *routes, bool dimension_order, bool json);

#endif
