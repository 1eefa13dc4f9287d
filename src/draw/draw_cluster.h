/* draw_cluster.h: shows a cluster: its chips and links as a picture (SVG), or as a page on which chips can be asked (HTML).
 * Pure: writes into a text. Grids are drawn as they are, up to four dimensions; what has switches, in levels; all else on a
 * circle, in the order of the ring or line that was found. */
#ifndef TU_DRAW_CLUSTER_H
#define TU_DRAW_CLUSTER_H

#include "base/text.h"
#include "topology/ring.h"

/* Pictures of more nodes than these are words. */
#define TU_DRAW_NODES_MAX 512u

struct tu_draw_cluster {
  const struct tu_cluster *cluster;
  const struct tu_grid *grid; /* dims 0: none */
  const struct tu_ring *ring;
  const char *title; /* NULL: the cluster's name */
};

void tu_draw_cluster_svg(const struct tu_draw_cluster *what, struct tu_text *text);
void tu_draw_cluster_html(const struct tu_draw_cluster *what, struct tu_text *text);
/* What both say in a line: "8 chips (4 with mmio), 20 links, 4 of them reserved, 10 pairs". */
void tu_draw_cluster_words(const struct tu_cluster *cluster, struct tu_text *text);

#endif
