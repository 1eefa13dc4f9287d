/* draw_cluster_test.c: tests that pictures of clusters are complete and without overlaps: no two boxes overlap, no link
 * crosses a box that is not its end, and no label overlaps another label. */
#include "draw/draw_cluster.h"

#include <math.h>

#include "clusters.h"
#include "draw/draw_cluster_layout.h"

struct drawing {
  struct tu_cluster *cluster;
  struct tu_grid grid;
  struct tu_ring ring;
  struct tu_draw_cluster what;
  struct tu_draw_cluster_layout layout;
};

static void open_drawing(struct drawing *d, struct tu_cluster *c) {
  *d = (struct drawing){.cluster = c};
  tu_grid_find(c, &d->grid);
  tu_ring_find(c, &d->grid, &d->ring);
  d->what = (struct tu_draw_cluster){.cluster = c, .grid = &d->grid, .ring = &d->ring};
  tu_draw_cluster_layout_init(&d->layout, &d->what, 50);
}

static void close_drawing(struct drawing *d) {
  tu_draw_cluster_layout_fini(&d->layout);
  tu_ring_fini(&d->ring);
  tu_grid_fini(&d->grid);
  tu_cluster_destroy(d->cluster);
}

static uint32_t count(const char *text, const char *what) {
  uint32_t found = 0;
  for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) found++;
  return found;
}

/* Checks that boxes do not overlap and lie within the picture. */
static void check_boxes(const struct drawing *d, const char *name) {
  const struct tu_draw_cluster_layout *l = &d->layout;
  uint32_t n = d->cluster->node_count;
  for (uint32_t a = 0; a < n; a++) {
    double x = l->spots[a].x, y = l->spots[a].y, half = TU_DRAW_BOX / 2.0;
    CHECK(x >= half && y >= 50 + half && x + half <= l->width && y + half <= l->height, "%s: box %u is off the sheet",
          name, a);
    for (uint32_t b = 0; b < a; b++) {
      double apart = fmax(fabs(x - l->spots[b].x), fabs(y - l->spots[b].y));
      CHECK(apart >= TU_DRAW_BOX + 6, "%s: boxes %u and %u are %.0f apart", name, a, b, apart - TU_DRAW_BOX);
    }
  }
}

/* Computes point number `step` of the line between two nodes (if the pair has stubs: of the stub at `end`, with its
 * label). Returns false after the last point. */
static bool point_on(const struct tu_draw_pair *p, int end, uint32_t step, double *x, double *y) {
  double t = step / 150.0;
  if (t > 1) return false;
  if (p->shape == TU_DRAW_STUBS) {
    *x = p->end[end].x + p->way[end].x * (TU_DRAW_STUB + 14) * t; /* 14: length of the label */
    *y = p->end[end].y + p->way[end].y * (TU_DRAW_STUB + 14) * t;
    if (p->way[end].x != 0 && p->way[end].y != 0) {
      *x = p->end[end].x + p->way[end].x * (TU_DRAW_STUB * 0.6 + 14) * t;
      *y = p->end[end].y + p->way[end].y * (TU_DRAW_STUB * 0.6 + 14) * t;
    }
  } else if (p->shape == TU_DRAW_LINE) {
    *x = p->end[0].x + (p->end[1].x - p->end[0].x) * t;
    *y = p->end[0].y + (p->end[1].y - p->end[0].y) * t;
  } else {
    *x = (1 - t) * (1 - t) * p->end[0].x + 2 * t * (1 - t) * p->bend.x + t * t * p->end[1].x;
    *y = (1 - t) * (1 - t) * p->end[0].y + 2 * t * (1 - t) * p->bend.y + t * t * p->end[1].y;
  }
  return end == 0 || p->shape == TU_DRAW_STUBS;
}

static void check_links(const struct drawing *d, const char *name) {
  const struct tu_draw_cluster_layout *l = &d->layout;
  for (uint32_t i = 0; i < l->pair_count; i++) {
    const struct tu_draw_pair *p = &l->pairs[i];
    double aside = p->links > 1 ? fabs(tu_draw_aside(p, 0)) : 0, x, y;
    CHECK(aside <= TU_DRAW_BOX / 2.0 - 5, "%s: links of %u-%u stick out of their box", name, p->node[0], p->node[1]);
    for (int end = 0; end < 2; end++)
      for (uint32_t step = 0; point_on(p, end, step, &x, &y); step++)
        for (uint32_t n = 0; n < d->cluster->node_count; n++) {
          if (n == p->node[0] || n == p->node[1]) continue;
          double apart = fmax(fabs(x - l->spots[n].x), fabs(y - l->spots[n].y)) - TU_DRAW_BOX / 2.0;
          CHECK(apart > 0.5, "%s: %u-%u crosses box %u", name, p->node[0], p->node[1], n);
          if (apart <= 0.5) return;
        }
  }
}

/* Checks that labels of stubs do not overlap each other or a caption. */
static void check_labels(const struct drawing *d, const char *name) {
  const struct tu_draw_cluster_layout *l = &d->layout;
  struct tu_draw_spot *labels = tu_allocate(2 * (size_t)l->pair_count + 1, sizeof *labels);
  uint32_t labels_count = 0;
  for (uint32_t i = 0; i < l->pair_count; i++)
    for (int e = 0; e < 2 && l->pairs[i].shape == TU_DRAW_STUBS; e++) {
      const struct tu_draw_pair *p = &l->pairs[i];
      bool diagonal = p->way[e].x != 0 && p->way[e].y != 0;
      double length = (diagonal ? TU_DRAW_STUB * 0.6 : TU_DRAW_STUB) + 10;
      struct tu_draw_spot at = {p->end[e].x + p->way[e].x * length, p->end[e].y + p->way[e].y * length};
      for (uint32_t k = 0; k < labels_count; k++)
        CHECK(fabs(at.x - labels[k].x) >= 22 || fabs(at.y - labels[k].y) >= 11, "%s: labels of %u-%u lie on others",
              name, p->node[0], p->node[1]);
      for (uint32_t k = 0; k < l->caption_count; k++) {
        struct tu_draw_spot caption = l->captions[k].at; /* the caption's lower left corner */
        CHECK(at.x < caption.x - 10 || at.x > caption.x + 60 || fabs(at.y - caption.y + 4) >= 11,
              "%s: a label of %u-%u lies on the caption of plane %u", name, p->node[0], p->node[1], k);
      }
      labels[labels_count++] = at;
    }
  free(labels);
}

static void check_picture(const struct drawing *d, const char *name) {
  struct tu_text text = {0};
  const struct tu_cluster *c = d->cluster;
  tu_draw_cluster_svg(&d->what, &text);
  CHECK(count(text.chars, "data-node=") == c->node_count, "%s: %u boxes", name, count(text.chars, "data-node="));
  CHECK(count(text.chars, "class=\"pair\"") == d->layout.pair_count, "%s: pairs", name);
  uint32_t links = 0, reserved = 0, bundles = 0;
  for (uint32_t i = 0; i < d->layout.pair_count; i++) {
    const struct tu_draw_pair *p = &d->layout.pairs[i];
    uint32_t ends = p->shape == TU_DRAW_STUBS ? 2 : 1;
    if (p->links > TU_DRAW_LINKS_MAX) bundles += ends;
    else links += ends * p->links, reserved += ends * (p->links - p->usable);
  }
  uint32_t keys = c->link_count > 0, more = reserved > 0;
  CHECK(count(text.chars, "class=\"link\"") == links - reserved + keys, "%s: %u links drawn, not %u", name,
        count(text.chars, "class=\"link\""), links - reserved + keys);
  CHECK(count(text.chars, "class=\"link reserved\"") == reserved + more, "%s: %u reserved", name,
        count(text.chars, "class=\"link reserved\""));
  CHECK(count(text.chars, " thick\"") == bundles, "%s: %u bundles", name, count(text.chars, " thick\""));
  CHECK(count(text.chars, "<g") == count(text.chars, "</g>") && count(text.chars, "</svg>") == 1, "%s: not well formed",
        name);
  tu_text_fini(&text);
}

static void check_all(struct tu_cluster *c) {
  struct drawing d;
  open_drawing(&d, c);
  check_boxes(&d, c->name);
  check_links(&d, c->name);
  check_labels(&d, c->name);
  check_picture(&d, c->name);
  close_drawing(&d);
}

static void known(void) {
  static const char *const names[] = {
      "n300",         "t3000",        "galaxy",         "galaxy-torus",    "ring:1",     "ring:2:2",
      "ring:3",       "ring:8:4",     "ring:100",       "line:2",          "line:9",     "line:35",
      "mesh:4x8:4",   "mesh:2x2",     "mesh:2x16",      "torus:3x3:8",     "torus:4x5",  "torus:8x8:2",
      "mesh:3x3x3",   "torus:3x3x3",  "torus:3x4x3x2",  "torus:3x3x3x3:3", "mesh:16x16", "mesh:2x2:16",
      "torus:3x5:30", "fat-tree:4x2", "fat-tree:2x4:2", "fat-tree:8x2",    "hosts:4x8",  "hosts:1x5",
      "hosts:9x3:2",  "mesh:22x22",   "torus:6x6x6",    "fat-tree:3x1",
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) check_all(cluster_of(names[i]));
  check_all(cluster_reserved("galaxy", "none"));
  check_all(cluster_reserved("torus:4x6", "0:0,5:3"));
}

static void at_random(void) {
  uint64_t seed = test_seed();
  for (uint32_t round = 0; round < (test_long() ? 300u : 40u); round++)
    check_all(cluster_random(&seed, 1 + below(&seed, 60), 2 + below(&seed, 50), 4));
}

static void on_files(bool own) {
  static const char *const files[] = {"own/eight.yaml",
                                      "own/pair.yaml",
                                      "own/ports.yaml",
                                      "own/relaxed.yaml",
                                      "own/express.textproto",
                                      "own/graphs.textproto",
                                      "t3k_cluster_desc.yaml",
                                      "6u_cluster_desc.yaml",
                                      "blackhole_4xP150.yaml",
                                      "wormhole_N150.yaml",
                                      "wormhole_N300_with_remote_connections.yaml",
                                      "mesh/tg_mesh_graph_descriptor.yaml",
                                      "mesh/dual_galaxy_mesh_graph_descriptor.yaml"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    if (cluster_is_own(files[i]) != own) continue;
    struct tu_cluster *c = cluster_shared(files[i]);
    if (c) check_all(c);
  }
}
static void own_clusters(void) { on_files(true); }
static void real_clusters(void) { on_files(false); }

/* Tests a cluster with too many nodes for a picture, and a title that must be escaped in XML. */
static void words(void) {
  struct tu_cluster *c = cluster_of("mesh:32x32");
  struct tu_grid none = {0};
  struct tu_ring ring;
  struct tu_text text = {0}, page = {0};
  tu_ring_find(c, &none, &ring);
  struct tu_draw_cluster what = {.cluster = c, .grid = &none, .ring = &ring, .title = "<a & b>"};
  tu_draw_cluster_svg(&what, &text);
  tu_draw_cluster_html(&what, &page);
  CHECK(strstr(text.chars, "&lt;a &amp; b&gt;") && strstr(text.chars, "1024 chips") && !strstr(text.chars, "<a &"),
        "%s", text.chars);
  CHECK(strstr(page.chars, "1024 chips") && strstr(page.chars, "</html>"), "the page");
  tu_text_fini(&text);
  tu_text_fini(&page);
  tu_ring_fini(&ring);
  tu_cluster_destroy(c);
}

static const struct test tests[] = {{"known", known},
                                    {"at random", at_random},
                                    {"own clusters", own_clusters},
                                    {"real clusters", real_clusters},
                                    {"words", words}};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
