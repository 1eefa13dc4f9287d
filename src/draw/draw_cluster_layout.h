/* draw_cluster_layout.h: positions of all elements in the picture of a cluster. Private to draw/. */
#ifndef TU_DRAW_CLUSTER_LAYOUT_H
#define TU_DRAW_CLUSTER_LAYOUT_H

#include "draw/draw_cluster.h"

enum { TU_DRAW_BOX = 50, TU_DRAW_STUB = 34 };

struct tu_draw_spot {
  double x, y; /* coordinates in the picture; the position of a node is the middle of its box */
};

/* How the links of a pair of nodes are drawn. */
enum tu_draw_shape {
  TU_DRAW_LINE,
  TU_DRAW_CURVE, /* a quadratic curve with one control point */
  TU_DRAW_STUBS, /* a short line at each end, with a label that names the other end */
};

struct tu_draw_pair {
  uint32_t node[2];
  uint32_t links, usable;
  enum tu_draw_shape shape;
  struct tu_draw_spot end[2]; /* for each of the two boxes: the point at which the line or the stub begins */
  struct tu_draw_spot way[2]; /* for stubs: the direction of each stub, as a vector of length 1 */
  struct tu_draw_spot bend;   /* for a curve: its control point */
};

/* A caption in the picture, which shows the number of a plane (two dimensions of the grid). */
struct tu_draw_caption {
  struct tu_draw_spot at;
  uint32_t plane;
};

struct tu_draw_cluster_layout {
  const struct tu_draw_cluster *what;
  struct tu_draw_spot *spots; /* [node_count]: position of each node */
  struct tu_draw_pair *pairs;
  uint32_t pair_count;
  struct tu_draw_caption *captions;
  uint32_t caption_count;
  bool channels; /* true: there is space to print the channel numbers */
  /* loads of the ports, as passed to tu_draw_cluster_loads; NULL: links are drawn as plain lines */
  const double *loads;
  double width, height;
};

/* Computes all positions in the picture. `head` is the height that stays free above the picture. */
void tu_draw_cluster_layout_init(struct tu_draw_cluster_layout *l, const struct tu_draw_cluster *what, double head);
void tu_draw_cluster_layout_fini(struct tu_draw_cluster_layout *l);

/* Returns how far the k-th link of a pair of nodes is drawn from the straight line between the two nodes; negative: on
 * the other side of that line. */
double tu_draw_aside(const struct tu_draw_pair *pair, uint32_t k);
/* Maximum number of links between two nodes that are drawn one by one; more links are drawn as one thick line. */
#define TU_DRAW_LINKS_MAX 8u

/* ---- loads: draw_lanes.c ---- */

/* Appends the same picture as tu_draw_cluster_svg, but without the ring. Each link is drawn as two lanes, one per
 * direction. A lane lies to the right of the link's middle, seen in its direction, and its colour shows its load: 0
 * (idle) to 1 (always busy). loads[2 l] is the load of link l in the direction away from its end 0, loads[2 l + 1] in
 * the direction away from end 1. The attribute data-ports of a lane lists its ports (directed links). */
void tu_draw_cluster_loads(const struct tu_draw_cluster *what, const double loads[], struct tu_text *text);

/* Appends the two lanes of link `link` (one per direction), at distance `by` from the straight line between its two
 * nodes. If `link` is TU_NONE, the lanes stand for all links of the pair. */
void tu_draw_lanes(const struct tu_draw_cluster_layout *l, const struct tu_draw_pair *pair, uint32_t link, double by,
                   struct tu_text *text);
/* Number of colour classes for loads: from class 0 (idle) to class TU_DRAW_SHADES - 1 (always busy). */
enum { TU_DRAW_SHADES = 6 };
uint32_t tu_draw_shade(double load);
extern const char tu_draw_lanes_style[];

#endif
