/* draw_cluster.h: shows the chips and links of a cluster as a picture (SVG) or as an interactive page (HTML). The
 * functions only append to a text. A grid of at most four dimensions is drawn as a grid. A cluster with switches is
 * drawn in levels. Any other cluster is drawn on a circle; its chips stand in the order that
 * `ring` states. */
#ifndef TU_DRAW_CLUSTER_H
#define TU_DRAW_CLUSTER_H

#include "base/text.h"
#include "topology/ring.h"

/* Maximum number of nodes (chips, gateways, switches) in a picture; if there are more, a line of text replaces the
 * picture. */
#define TU_DRAW_NODES_MAX 512u

struct tu_draw_cluster {
  const struct tu_cluster *cluster;
  const struct tu_grid *grid; /* the grid that the cluster forms; dims 0: the cluster is no grid */
  const struct tu_ring *ring;
  const char *title; /* title of the picture; NULL: the cluster's name */
  const char
      *words; /* what stands below the title, without characters that XML escapes; NULL: the summary of the cluster */
};

void tu_draw_cluster_svg(const struct tu_draw_cluster *what, struct tu_text *text);
void tu_draw_cluster_html(const struct tu_draw_cluster *what, struct tu_text *text);
/* Appends a summary in one line: "8 chips (4 with mmio), 20 links, 4 of them reserved, 10 pairs". */
void tu_draw_cluster_words(const struct tu_cluster *cluster, struct tu_text *text);

#endif
