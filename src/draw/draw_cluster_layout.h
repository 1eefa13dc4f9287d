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
  bool channels; /* there is room for the channels' numbers */
  double width, height;
};

/* `head`: what is to be left free above. */
void tu_draw_cluster_layout_init(struct tu_draw_cluster_layout *l, const struct tu_draw_cluster *what, double head);
void tu_draw_cluster_layout_fini(struct tu_draw_cluster_layout *l);

/* How far from the middle the k-th of a pair's links is drawn. */
double tu_draw_aside(const struct tu_draw_pair *pair, uint32_t k);
/* Pairs of more links than that are one thick line. */
#define TU_DRAW_LINKS_MAX 8u

#endif
