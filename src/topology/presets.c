/* presets.c: clusters of common machines, with the links that their dispatchers reserve; and tu_cluster_load, which
 * finds a cluster by its name. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "topology/cluster_internal.h"

static const char wormhole[] = "wormhole_b0";

static void add_chip(struct tu_cluster *cluster, uint32_t x, uint32_t y, bool mmio) {
  struct tu_node chip = {.id = cluster->chip_count, .mmio = mmio, .has_coords = true, .coords = {x, y}};
  tu_copy_arch(&chip, wormhole);
  tu_cluster_add(cluster, &chip);
}

/* Adds two links between two nodes, at consecutive channels. */
static void join(struct tu_cluster *cluster, uint32_t a, uint32_t a_channel, uint32_t b, uint32_t b_channel) {
  for (uint32_t l = 0; l < 2; l++)
    tu_cluster_connect(cluster, (struct tu_cluster_link_end){a, a_channel + l},
                       (struct tu_cluster_link_end){b, b_channel + l});
}

/* Makes a board of two chips; the left chip is on the host's bus. */
static void make_n300(struct tu_cluster *c) {
  add_chip(c, 0, 0, true);
  add_chip(c, 1, 0, false);
  join(c, 0, 8, 1, 0);
}

/* Makes a 2 x 4 mesh of four n300 boards. The left chips 0 to 3 form a ring in the middle; the right chips 4 to 7 are
 * outside, each beside its left chip:
 *   4 0 3 7
 *   5 1 2 6 */
static void make_t3000(struct tu_cluster *c) {
  static const uint8_t coords[8][2] = {{1, 0}, {1, 1}, {2, 1}, {2, 0}, {0, 0}, {0, 1}, {3, 1}, {3, 0}};
  for (uint32_t i = 0; i < 8; i++) add_chip(c, coords[i][0], coords[i][1], i < 4);
  for (uint32_t left = 0; left < 4; left++) join(c, left, 8, left + 4, 0);
  join(c, 0, 14, 1, 14);
  join(c, 1, 0, 2, 0);
  join(c, 2, 14, 3, 14);
  join(c, 3, 6, 0, 6);
  join(c, 4, 6, 5, 6);
  join(c, 6, 6, 7, 6);
}

enum { GALAXY_ROWS = 8, GALAXY_COLS = 4, GALAXY_LINKS = 4, GATEWAYS = 4 };

static void make_galaxy_chips(struct tu_cluster *c, bool wraps, bool mmio) {
  for (uint32_t i = 0; i < GALAXY_ROWS * GALAXY_COLS; i++) add_chip(c, i % GALAXY_COLS, i / GALAXY_COLS, mmio);
  struct tu_grid_links grid = {.dims = 2, .size = {GALAXY_COLS, GALAXY_ROWS}, .wraps = {wraps, wraps}};
  for (uint32_t d = 0; d < 2; d++) grid.links[d] = GALAXY_LINKS;
  for (uint32_t k = 0; k < 4; k++) grid.channel[k] = k * GALAXY_LINKS;
  tu_connect_grid(c, &grid);
}

/* Makes a mesh that a host reaches through gateways. Each gateway is linked to the first chips of two rows. */
static void make_galaxy(struct tu_cluster *c) {
  make_galaxy_chips(c, false, false);
  for (uint32_t g = 0; g < GATEWAYS; g++) {
    struct tu_node gateway = {.kind = TU_GATEWAY, .id = g, .mmio = true};
    tu_copy_arch(&gateway, wormhole);
    uint32_t node = tu_cluster_add(c, &gateway);
    for (uint32_t k = 0; k < 2; k++)
      tu_cluster_connect(c, (struct tu_cluster_link_end){node, k},
                         (struct tu_cluster_link_end){(2 * g + k) * GALAXY_COLS, 0});
  }
}

/* Reserves the links over which data moves from the gateways to the chips. These are all links of gateways, and one
 * link of each two neighbours in the same row. */
static void reserve_galaxy(struct tu_cluster *c) {
  for (uint32_t l = 0; l < c->link_count; l++) {
    struct tu_cluster_link *link = &c->links[l];
    uint32_t a = link->ends[0].node, b = link->ends[1].node;
    bool in_row = a / GALAXY_COLS == b / GALAXY_COLS;
    link->reserved = b >= c->chip_count || a >= c->chip_count || (in_row && link->ends[0].channel % GALAXY_LINKS == 0);
  }
}

/* Makes a torus that uses all 16 channels of each chip. Each chip is on a host's bus. */
static void make_galaxy_torus(struct tu_cluster *c) { make_galaxy_chips(c, true, true); }

static const struct preset {
  const char *name;
  void (*make)(struct tu_cluster *cluster);
  const char *reserve;
  void (*mark)(struct tu_cluster *cluster); /* reserves the links that the text `reserve` cannot describe */
} presets[] = {
    {"n300", make_n300, "dispatch", NULL},
    {"t3000", make_t3000, "dispatch", NULL},
    {"galaxy", make_galaxy, NULL, reserve_galaxy},
    {"galaxy-torus", make_galaxy_torus, NULL, NULL},
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

tutti_err tu_cluster_preset(const char *what, struct tu_cluster **cluster, struct tu_error *error) {
  *cluster = NULL;
  for (size_t i = 0; i < PRESETS; i++) {
    if (strcmp(what, presets[i].name) != 0) continue;
    struct tu_cluster *made = *cluster = tu_cluster_create(what);
    presets[i].make(made);
    if (presets[i].mark) presets[i].mark(made);
    uint32_t clash = tu_cluster_index(made);
    tu_assert(clash == TU_NONE);
    return tu_cluster_reserve(made, presets[i].reserve, error);
  }
  return TUTTI_OK;
}

const char *tu_cluster_preset_name(uint32_t number) { return number < PRESETS ? presets[number].name : NULL; }

struct job {
  const char *what;
  struct tu_cluster *cluster;
};

static tutti_err make(void *argument, struct tu_error *error) {
  struct job *job = argument;
  tutti_err err = tu_cluster_preset(job->what, &job->cluster, error);
  return err == TUTTI_OK && !job->cluster ? tu_cluster_generate(job->what, &job->cluster, error) : err;
}

tutti_err tu_cluster_load(const char *what, struct tu_cluster **cluster, struct tu_error *error) {
  struct job job = {.what = what};
  tutti_err err = tu_arena_build(make, &job, what, error);
  if (err != TUTTI_OK) tu_cluster_destroy(job.cluster);
  *cluster = err == TUTTI_OK ? job.cluster : NULL;
  if (err != TUTTI_OK || *cluster) return err;
  char *data;
  size_t bytes;
  err = tu_read_file(what, &data, &bytes, error);
  if (err == TUTTI_OK) {
    err = tu_cluster_read(data, bytes, what, cluster, error);
    free(data);
    return err;
  }
  if (strpbrk(what, "/.") || strcmp(what, "-") == 0) return err;
  const char *names[PRESETS];
  for (size_t i = 0; i < PRESETS; i++) names[i] = presets[i].name;
  const char *near = tu_nearest(what, names, PRESETS);
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "unknown cluster '%.60s'%s%s%s: expected n300, t3000, galaxy, galaxy-torus, a generator such as "
                 "mesh:4x8 (ring, line, mesh, torus, fat-tree, hosts), or a file",
                 what, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}
