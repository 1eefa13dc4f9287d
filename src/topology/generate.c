/* generate.c: creates clusters from a name and sizes: "ring:8", "mesh:4x8", ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "topology/cluster_internal.h"

struct order {
  uint32_t sizes[TU_GRID_DIMS];
  uint32_t size_count;
  uint32_t links; /* number of links between each two linked nodes */
};

struct generator {
  const char *name;
  uint32_t sizes_min, sizes_max;
  bool wraps;
  const char *form;
  /* creates the cluster, and returns false if it would be too large; NULL: the cluster is a grid, which make_grid
   * creates */
  bool (*make)(struct tu_cluster *cluster, const struct order *order);
};

/* ---- grids ---- */

/* Returns the next chip along dimension `dim` of the grid; after the last chip comes the first. *is_there: true if the
 * two chips are linked. */
static uint32_t neighbour(const struct tu_grid_links *grid, uint32_t dim, uint32_t chip, bool *is_there) {
  uint32_t stride = 1;
  for (uint32_t d = 0; d < dim; d++) stride *= grid->size[d];
  uint32_t at = chip / stride % grid->size[dim];
  *is_there = at + 1 < grid->size[dim] || (grid->wraps[dim] && grid->size[dim] > 2);
  return at + 1 < grid->size[dim] ? chip + stride : chip - at * stride;
}

void tu_connect_grid(struct tu_cluster *cluster, const struct tu_grid_links *grid) {
  uint32_t chips = 1;
  for (uint32_t d = 0; d < grid->dims; d++) chips *= grid->size[d];
  for (uint32_t chip = 0; chip < chips; chip++)
    for (uint32_t d = 0; d < grid->dims; d++) {
      bool is_there;
      uint32_t next = neighbour(grid, d, chip, &is_there);
      for (uint32_t l = 0; is_there && l < grid->links[d]; l++)
        tu_cluster_connect(cluster, (struct tu_cluster_link_end){grid->first + chip, grid->channel[2 * d + 1] + l},
                           (struct tu_cluster_link_end){grid->first + next, grid->channel[2 * d] + l});
    }
}

bool tu_connect_joint(struct tu_cluster *cluster, const struct tu_joint *joint, uint32_t next[], uint32_t *chip) {
  for (uint32_t l = 0; l < joint->links; l++) {
    struct tu_cluster_link_end ends[2];
    for (int e = 0; e < 2; e++) {
      *chip = joint->first[e] + (uint32_t)((uint64_t)l * joint->count[e] / joint->links);
      if (next[*chip] >= TU_CHANNELS_MAX) return false;
      ends[e] = (struct tu_cluster_link_end){*chip, next[*chip]++};
    }
    tu_cluster_connect(cluster, ends[0], ends[1]);
    cluster->links[cluster->link_count - 1].relaxed = joint->relaxed;
    cluster->links[cluster->link_count - 1].loose = joint->loose;
  }
  return true;
}

/* Prints sizes as "8 x 4". */
static void print_sizes(struct tu_text *text, const uint32_t sizes[], uint32_t dims) {
  for (uint32_t d = 0; d < dims; d++) tu_text_print(text, d ? " x %u" : "%u", sizes[d]);
}

void tu_note_mesh(struct tu_cluster *cluster, uint32_t id, uint32_t first, const uint32_t sizes[], uint32_t dims) {
  struct tu_text shape = {0};
  uint32_t chips = 1;
  for (uint32_t d = 0; d < dims; d++) chips *= sizes[d];
  print_sizes(&shape, sizes, dims);
  if (chips == 1) tu_cluster_note(cluster, "mesh %u has chip %u", id, first);
  else tu_cluster_note(cluster, "mesh %u has chips %u to %u, %s", id, first, first + chips - 1, shape.chars);
  tu_text_fini(&shape);
}

void tu_note_hosts(struct tu_cluster *cluster, const char *mesh, const uint32_t hosts[], uint32_t dims) {
  struct tu_text shape = {0};
  uint32_t all = 1;
  for (uint32_t d = 0; d < dims; d++) all *= hosts[d];
  print_sizes(&shape, hosts, dims);
  if (all > 1) tu_cluster_note(cluster, "mesh %.60s: its chips belong to %s hosts", mesh, shape.chars);
  tu_text_fini(&shape);
}

/* Makes a mesh or torus. The sizes in order->sizes begin with the dimension whose coordinate changes slowest from chip
 * to chip: rows, then columns. */
static bool make_grid(struct tu_cluster *cluster, const struct order *order, bool wraps) {
  struct tu_grid_links grid = {.dims = order->size_count};
  size_t chips = 1;
  for (uint32_t d = 0; d < grid.dims; d++) {
    grid.size[d] = order->sizes[grid.dims - 1 - d];
    grid.wraps[d] = wraps;
    grid.links[d] = order->links;
    for (uint32_t way = 0; way < 2; way++) grid.channel[2 * d + way] = (2 * d + way) * order->links;
    if ((chips *= grid.size[d]) > TU_CHIPS_MAX) return false;
  }
  if (chips * grid.dims * order->links > TU_LINKS_MAX) return false;
  for (uint32_t i = 0; i < chips; i++) {
    struct tu_node chip = {.id = i, .mmio = true, .has_coords = true};
    for (uint32_t d = 0, rest = i; d < grid.dims; rest /= grid.size[d], d++) chip.coords[d] = rest % grid.size[d];
    tu_cluster_add(cluster, &chip);
  }
  tu_connect_grid(cluster, &grid);
  return true;
}

/* ---- trees ---- */

static void add_chips(struct tu_cluster *cluster, size_t chips, size_t switches) {
  for (uint32_t i = 0; i < chips; i++) tu_cluster_add(cluster, &(struct tu_node){.id = i, .mmio = true});
  for (uint32_t i = 0; i < switches; i++) tu_cluster_add(cluster, &(struct tu_node){.kind = TU_SWITCH, .id = i});
}

static void connect(struct tu_cluster *cluster, struct tu_cluster_link_end a, struct tu_cluster_link_end b,
                    uint32_t links) {
  for (uint32_t l = 0; l < links; l++)
    tu_cluster_connect(cluster, (struct tu_cluster_link_end){a.node, a.channel * links + l},
                       (struct tu_cluster_link_end){b.node, b.channel * links + l});
}

/* Makes a K-ary fat tree of L levels: K^L chips, and above them L levels of K^(L-1) switches each. In each level, the
 * switches are numbered with L - 1 digits in base K. Let levels and digits be counted from 0. A switch of level l is
 * linked to K switches of the next level: their numbers are the same as its own, except that digit l (the lowest is
 * digit 0) has any value. Each switch below the top level has as many links upwards as downwards. So all chips can
 * exchange data in pairs at the same time. */
static bool make_fat_tree(struct tu_cluster *cluster, const struct order *order) {
  uint32_t arity = order->sizes[0], levels = order->sizes[1];
  size_t chips = 1, per_level = 1;
  tu_assert(arity > 0 && levels > 0);
  for (uint32_t l = 0; l < levels; l++) {
    per_level = chips;
    if ((chips *= arity) > TU_CHIPS_MAX) return false;
    if (arity == 1 && levels > 16) return false;
  }
  if (chips * levels * order->links > TU_LINKS_MAX) return false;
  add_chips(cluster, chips, per_level * levels);
  cluster->tree_arity = arity;
  cluster->tree_levels = levels;
  for (uint32_t chip = 0; chip < chips; chip++)
    connect(cluster, (struct tu_cluster_link_end){chip, 0},
            (struct tu_cluster_link_end){(uint32_t)chips + chip / arity, chip % arity}, order->links);
  for (uint32_t level = 0, power = 1; level + 1 < levels; level++, power *= arity)
    for (uint32_t s = 0; s < per_level; s++) {
      uint32_t digit = s / power % arity, from = (uint32_t)(chips + level * per_level);
      for (uint32_t up = 0; up < arity; up++)
        connect(cluster, (struct tu_cluster_link_end){from + s, arity + up},
                (struct tu_cluster_link_end){from + (uint32_t)per_level + s + (up - digit) * power, digit},
                order->links);
    }
  return true;
}

/* Makes a cluster of hosts. Each chip has one link to its host, and each host has `links` links to one network
 * switch. */
static bool make_hosts(struct tu_cluster *cluster, const struct order *order) {
  uint32_t hosts = order->sizes[0], each = order->sizes[1];
  size_t chips = (size_t)hosts * each;
  if (chips > TU_CHIPS_MAX || chips + (size_t)hosts * order->links > TU_LINKS_MAX) return false;
  add_chips(cluster, chips, hosts + (hosts > 1));
  uint32_t network = (uint32_t)chips + hosts;
  for (uint32_t host = 0; host < hosts; host++) {
    uint32_t node = (uint32_t)chips + host;
    for (uint32_t c = 0; c < each; c++)
      connect(cluster, (struct tu_cluster_link_end){host * each + c, 0},
              (struct tu_cluster_link_end){node, order->links + c}, 1);
    if (hosts > 1)
      connect(cluster, (struct tu_cluster_link_end){node, 0}, (struct tu_cluster_link_end){network, host},
              order->links);
  }
  return true;
}

/* ---- parsing ---- */

static const struct generator generators[] = {
    {"ring", 1, 1, true, "ring:N", NULL},
    {"line", 1, 1, false, "line:N", NULL},
    {"mesh", 1, TU_GRID_DIMS, false, "mesh:AxB.. with up to four sizes", NULL},
    {"torus", 1, TU_GRID_DIMS, true, "torus:AxB.. with up to four sizes", NULL},
    {"fat-tree", 2, 2, false, "fat-tree:KxL with L levels of switches, each with K links up and K links down",
     make_fat_tree},
    {"hosts", 2, 2, false, "hosts:HxC with H hosts of C chips each", make_hosts},
};
enum { GENERATORS = sizeof generators / sizeof generators[0], LINKS_MAX = 128 };

/* Reads sizes separated by x, with an optional ":LINKS" at the end. */
static bool read_order(const char *text, struct order *order) {
  *order = (struct order){.links = 1};
  for (bool links = false;;) {
    char digits[8];
    uint64_t number;
    size_t length = strspn(text, "0123456789");
    if (length >= sizeof digits) return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (!tu_parse_uint(digits, links ? LINKS_MAX : TU_CHIPS_MAX, &number) || number == 0) return false;
    if (links) order->links = (uint32_t)number;
    else if (order->size_count == TU_GRID_DIMS) return false;
    else order->sizes[order->size_count++] = (uint32_t)number;
    text += length;
    if (*text == '\0') return true;
    if (links || (*text != 'x' && *text != ':')) return false;
    links = *text++ == ':';
  }
}

static const struct generator *find_generator(const char *what) {
  const char *colon = strchr(what, ':');
  for (size_t i = 0; i < GENERATORS && colon; i++)
    if (strlen(generators[i].name) == (size_t)(colon - what) &&
        memcmp(generators[i].name, what, (size_t)(colon - what)) == 0)
      return &generators[i];
  return NULL;
}

tutti_err tu_cluster_generate(const char *what, struct tu_cluster **cluster, struct tu_error *error) {
  *cluster = NULL;
  const struct generator *g = find_generator(what);
  if (!g) return TUTTI_OK;
  struct order order;
  if (!read_order(strchr(what, ':') + 1, &order) || order.size_count < g->sizes_min || order.size_count > g->sizes_max)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "expected %s, optionally followed by :LINKS (links per pair of chips, up to %d), found '%.60s'",
                   g->form, (int)LINKS_MAX, what);
  struct tu_cluster *made = *cluster = tu_cluster_create(what);
  if (!(g->make ? g->make(made, &order) : make_grid(made, &order, g->wraps)))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "'%.60s': the cluster is too large; expected up to %d chips and 2^20 links", what,
                   (int)TU_CHIPS_MAX);
  uint32_t clash = tu_cluster_index(made);
  tu_assert(clash == TU_NONE);
  return TUTTI_OK;
}
