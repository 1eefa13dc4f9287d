/* draw_cluster_layout.h: where everything stands in the picture of a cluster. Private to draw/. */
#ifndef TU_DRAW_CLUSTER_LAYOUT_H
#define TU_DRAW_CLUSTER_LAYOUT_H

#include "draw/draw_cluster.h"

enum { TU_DRAW_BOX = 50, TU_DRAW_STUB = 34 };

struct tu_draw_spot {
  double x, y; /* the middle of its box */
};

/* How a pair is drawn. */
enum tu_draw_shape {
  TU_DRAW_LINE,
  TU_DRAW_CURVE, /* with a point that bends it */
  TU_DRAW_STUBS, /* a short piece at each end, with a label that says whereto */
};

struct tu_draw_pair {
  uint32_t node[2];
  uint32_t links, usable;
  enum tu_draw_shape shape;
  struct tu_draw_spot end[2]; /* where it leaves the boxes; of stubs: where these begin */
  struct tu_draw_spot way[2]; /* of stubs: the direction, of length 1 */
  struct tu_draw_spot bend;
};

/* A word beside what is drawn: the number of a plane. */
struct tu_draw_caption {
  struct tu_draw_spot at;
  uint32_t plane;
};

struct tu_draw_cluster_layout {
  const struct tu_draw_cluster *what;
  struct tu_draw_spot *spots; /* [node_count] */
  struct tu_draw_pair *pairs;
  uint32_t pair_count;
  struct tu_draw_caption *captions;
  uint32_t caption_count;
  bool channels;       /* there is room for the channels' numbers */
  const double *loads; /* of the ports, as in tu_draw_cluster_loads; NULL: links are lines */
  double width, height;
};

/* `head`: what is to be left free above. */
void tu_draw_cluster_layout_init(struct tu_draw_cluster_layout *l, const struct tu_draw_cluster *what, double head);
void tu_draw_cluster_layout_fini(struct tu_draw_cluster_layout *l);

/* How far from the middle the k-th of a pair's links is drawn. */
double tu_draw_aside(const struct tu_draw_pair *pair, uint32_t k);
/* Pairs of more links than that are one thick line. */
#define TU_DRAW_LINKS_MAX 8u

/* ---- loads: draw_lanes.c ---- */

/* As tu_draw_cluster_svg, without the ring; each link is two lanes, each on the right of its way and coloured by its load, 0
 * to 1. loads[2 l] is of what leaves at end 0 of link l, loads[2 l + 1] at end 1. A lane names its ports in data-ports. */
void tu_draw_cluster_loads(const struct tu_draw_cluster *what, const double loads[], struct tu_text *text);

/* The lanes of one link, `by` beside the middle of its pair; of a bundle (TU_NONE), of all its links. */
void tu_draw_lanes(const struct tu_draw_cluster_layout *l, const struct tu_draw_pair *pair, uint32_t link, double by,
                   struct tu_text *text);
/* Colours come in classes: 0 is idle, 1 more than that, TU_DRAW_SHADES - 1 always taken. */
enum { TU_DRAW_SHADES = 6 };
uint32_t tu_draw_shade(double load);
extern const char tu_draw_lanes_style[];

#endif
