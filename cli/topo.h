/* topo.h: what the parts of `tutti topo` share. */
#ifndef CLI_TOPO_H
#define CLI_TOPO_H

#include "base/text.h"
#include "topology/measure.h"
#include "topology/ring.h"
#include "topology/soc.h"

/* A cluster, and what was found in it. */
struct topo {
  struct tu_cluster *cluster;
  struct tu_grid grid;
  struct tu_ring ring;
  struct tu_bounds diameter, bisection;
  struct tu_soc *soc; /* or NULL */
};

void topo_json(const struct topo *t, struct tu_text *text);

/* Print what is asked, or say what is wrong with it; exit codes. */
int topo_walk(const struct topo *t, const char *walk);
int topo_routes(const struct topo *t, const char *routes, bool dimension_order);

#endif
