/* mesh_graph.c: reads mesh graph descriptors in YAML. A file has
 * - boards, which are meshes of chips;
 * - meshes, which are made of boards (in newer files: of chips);
 * - graphs that connect meshes: either through ports at the edges of the meshes, or by a number of links whose chips
 *   the file does not name.
 *
 * A file does not number the channels of a chip. So this reader numbers them in the order of the chip's ports: north
 * first, then east, south and west. A file does not say which chips a host reaches, either. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "topology/cluster_internal.h"

enum { NORTH, EAST, SOUTH, WEST, SIDES, MESHES_MAX = 4096 };
static const char side_letters[SIDES + 1] = "NESW";

struct mesh {
  uint32_t first; /* number of the mesh's first chip in the cluster */
  uint32_t rows, cols;
  /* wraps_rows: the last column is linked to the first; wraps_cols: the last row is linked to the first */
  bool wraps_rows, wraps_cols;
};

struct reading {
  const struct tu_yaml *yaml;
  struct tu_cluster *cluster;
  struct tu_error *error;
  uint32_t ports[SIDES], first_port[SIDES];
  char arch[TU_ARCH_BYTES];
  struct mesh *meshes; /* [mesh_count]: meshes, indexed by id */
  uint32_t mesh_count;
};

/* ---- the file ---- */

static tutti_err expect_key(const struct reading *r, uint32_t map, const char *key, uint32_t *value) {
  *value = tu_yaml_find(r->yaml, map, key);
  if (*value != TU_YAML_NONE) return TUTTI_OK;
  char expected[80];
  snprintf(expected, sizeof expected, "a map with a key '%s'", key);
  return tu_yaml_refuse(r->yaml, map, r->error, expected);
}

/* Reads the number at a key of a map. */
static tutti_err read_number(const struct reading *r, uint32_t map, const char *key, uint32_t max, uint32_t *number) {
  uint32_t node;
  uint64_t read;
  char what[80];
  tutti_err err = expect_key(r, map, key, &node);
  if (err != TUTTI_OK) return err;
  snprintf(what, sizeof what, "'%s'", key);
  if ((err = tu_yaml_uint(r->yaml, node, max, what, &read, r->error)) == TUTTI_OK) *number = (uint32_t)read;
  return err;
}

/* Adds a note (a line of text for the user) for each unknown key of a map; unknown keys are ignored. */
static void note_unknown(const struct reading *r, uint32_t map, const char *where, const char *known) {
  const struct tu_yaml *y = r->yaml;
  if (map == TU_YAML_NONE || y->nodes[map].kind != TU_YAML_MAP) return;
  for (uint32_t k = tu_yaml_first(y, map); k != TU_YAML_NONE; k = tu_yaml_next(y, tu_yaml_next(y, k))) {
    char key[40];
    snprintf(key, sizeof key, " %.36s ", y->nodes[k].chars);
    if (!strstr(known, key))
      tu_cluster_note(r->cluster, "line %u: '%.60s' in %s is unknown and ignored", y->nodes[k].line, y->nodes[k].chars,
                      where);
  }
}

/* Reads the pair [rows, columns] at a key, for example 'topology'. */
static tutti_err read_shape(const struct reading *r, uint32_t map, const char *key, uint32_t shape[2]) {
  uint32_t list;
  const char *expected = "rows and columns, for example [8, 4]";
  tutti_err err = expect_key(r, map, key, &list);
  if (err == TUTTI_OK) err = tu_yaml_is(r->yaml, list, TU_YAML_LIST, expected, r->error);
  if (err == TUTTI_OK && r->yaml->nodes[list].count != 2) err = tu_yaml_refuse(r->yaml, list, r->error, expected);
  if (err != TUTTI_OK) return err;
  uint32_t dim = 0;
  for (uint32_t i = tu_yaml_first(r->yaml, list); i != TU_YAML_NONE; i = tu_yaml_next(r->yaml, i)) {
    uint64_t number;
    if ((err = tu_yaml_uint(r->yaml, i, TU_CHIPS_MAX, expected, &number, r->error)) != TUTTI_OK) return err;
    if (number == 0) return tu_yaml_refuse(r->yaml, i, r->error, expected);
    shape[dim++] = (uint32_t)number;
  }
  return TUTTI_OK;
}

static tutti_err read_chip_spec(struct reading *r) {
  const struct tu_yaml *y = r->yaml;
  uint32_t spec, arch, ports;
  tutti_err err = expect_key(r, 0, "ChipSpec", &spec);
  if (err == TUTTI_OK) err = expect_key(r, spec, "ethernet_ports", &ports);
  if (err != TUTTI_OK) return err;
  note_unknown(r, spec, "ChipSpec", " arch ethernet_ports ");
  struct tu_node chip = {.arch = ""};
  if ((arch = tu_yaml_find(y, spec, "arch")) != TU_YAML_NONE && y->nodes[arch].kind == TU_YAML_SCALAR)
    tu_copy_arch(&chip, y->nodes[arch].chars);
  memcpy(r->arch, chip.arch, sizeof r->arch);
  uint32_t first = 0;
  for (int s = 0; s < SIDES; s++) {
    const char key[] = {side_letters[s], '\0'};
    if ((err = read_number(r, ports, key, TU_CHANNELS_MAX / SIDES, &r->ports[s])) != TUTTI_OK) return err;
    r->first_port[s] = first;
    first += r->ports[s];
  }
  return TUTTI_OK;
}

/* Finds the board (a type of mesh of chips) with this name. */
static tutti_err find_board(const struct reading *r, uint32_t name, uint32_t *board) {
  const struct tu_yaml *y = r->yaml;
  uint32_t list;
  tutti_err err = tu_yaml_is(y, name, TU_YAML_SCALAR, "a board's name", r->error);
  if (err == TUTTI_OK) err = expect_key(r, 0, "Board", &list);
  if (err == TUTTI_OK) err = tu_yaml_is(y, list, TU_YAML_LIST, "a list of boards", r->error);
  if (err != TUTTI_OK) return err;
  for (*board = tu_yaml_first(y, list); *board != TU_YAML_NONE; *board = tu_yaml_next(y, *board)) {
    uint32_t node;
    if ((err = expect_key(r, *board, "name", &node)) != TUTTI_OK) return err;
    if (y->nodes[node].kind == TU_YAML_SCALAR && strcmp(y->nodes[node].chars, y->nodes[name].chars) == 0)
      return TUTTI_OK;
  }
  return tu_yaml_refuse(y, name, r->error, "a board listed in 'Board'");
}

/* Reads from a board's type in which directions the board wraps. (TORUS_1D, in older files, wraps along the rows.) */
static tutti_err read_type(const struct reading *r, uint32_t board, struct mesh *mesh) {
  static const struct {
    const char *name;
    bool wraps_rows, wraps_cols;
  } types[] = {{"MESH", false, false},   {"TORUS_1D", true, false}, {"TORUS_X", true, false},
               {"TORUS_Y", false, true}, {"TORUS_XY", true, true},  {"TORUS_2D", true, true}};
  uint32_t node = tu_yaml_find(r->yaml, board, "type");
  if (node == TU_YAML_NONE) return TUTTI_OK;
  tutti_err err = tu_yaml_is(r->yaml, node, TU_YAML_SCALAR, "a board's type", r->error);
  if (err != TUTTI_OK) return err;
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (strcasecmp(types[i].name, r->yaml->nodes[node].chars) == 0) {
      mesh->wraps_rows = types[i].wraps_rows;
      mesh->wraps_cols = types[i].wraps_cols;
      return TUTTI_OK;
    }
  return tu_yaml_refuse(r->yaml, node, r->error, "one of Mesh, TORUS_X, TORUS_Y and TORUS_2D");
}

/* Reads how many rows and columns of chips the mesh has: 'device_topology'; in older files, the product of board
 * size and 'topology'. */
static tutti_err read_size(struct reading *r, uint32_t node, uint32_t board, size_t size[2]) {
  uint32_t chips[2], boards[2];
  bool devices = tu_yaml_find(r->yaml, node, "device_topology") != TU_YAML_NONE;
  tutti_err err = read_shape(r, board, "topology", chips);
  if (err == TUTTI_OK) err = read_shape(r, node, devices ? "device_topology" : "topology", boards);
  for (int d = 0; d < 2 && err == TUTTI_OK; d++) size[d] = devices ? boards[d] : (size_t)chips[d] * boards[d];
  if (err == TUTTI_OK && devices && (boards[0] % chips[0] != 0 || boards[1] % chips[1] != 0))
    tu_cluster_note(r->cluster, "line %u: a mesh of %u x %u is not made of whole boards of %u x %u",
                    r->yaml->nodes[node].line, boards[0], boards[1], chips[0], chips[1]);
  return err;
}

/* Reads how the mesh's chips are divided among hosts, and notes it for the user. This adds no links. */
static tutti_err read_hosts(struct reading *r, uint32_t node, const struct mesh *mesh) {
  uint32_t hosts[2];
  char name[16];
  if (tu_yaml_find(r->yaml, node, "host_topology") == TU_YAML_NONE) return TUTTI_OK;
  tutti_err err = read_shape(r, node, "host_topology", hosts);
  if (err != TUTTI_OK) return err;
  if (mesh->rows % hosts[0] != 0 || mesh->cols % hosts[1] != 0)
    return tu_yaml_refuse(r->yaml, tu_yaml_find(r->yaml, node, "host_topology"), r->error,
                          "numbers of host rows and columns that divide the numbers of chip rows and columns");
  snprintf(name, sizeof name, "%u", (unsigned)(mesh - r->meshes));
  tu_note_hosts(r->cluster, name, hosts, 2);
  return TUTTI_OK;
}

static tutti_err read_mesh(struct reading *r, uint32_t node) {
  uint32_t id, board, name;
  size_t size[2], all;
  struct mesh mesh = {0};
  note_unknown(r, node, "Mesh", " id board topology device_topology host_topology host_ranks type ");
  tutti_err err = read_number(r, node, "id", r->mesh_count - 1, &id);
  if (err == TUTTI_OK && r->meshes[id].rows > 0)
    err = tu_yaml_refuse(r->yaml, tu_yaml_find(r->yaml, node, "id"), r->error, "an id that no other mesh has");
  if (err == TUTTI_OK) err = expect_key(r, node, "board", &name);
  if (err == TUTTI_OK) err = find_board(r, name, &board);
  if (err == TUTTI_OK) err = read_type(r, board, &mesh);
  if (err == TUTTI_OK) err = read_size(r, node, board, size);
  if (err != TUTTI_OK) return err;
  if (!tu_multiply(size[0], size[1], &all) || all > TU_CHIPS_MAX)
    return tu_yaml_fail(r->yaml, node, r->error, "the mesh has more than 65536 chips");
  mesh.rows = (uint32_t)size[0];
  mesh.cols = (uint32_t)size[1];
  r->meshes[id] = mesh;
  return read_hosts(r, node, &r->meshes[id]);
}

static tutti_err read_meshes(struct reading *r) {
  const struct tu_yaml *y = r->yaml;
  uint32_t list;
  tutti_err err = expect_key(r, 0, "Mesh", &list);
  if (err == TUTTI_OK) err = tu_yaml_is(y, list, TU_YAML_LIST, "a list of meshes", r->error);
  if (err != TUTTI_OK) return err;
  r->mesh_count = y->nodes[list].count;
  if (r->mesh_count - 1 >= MESHES_MAX) return tu_yaml_refuse(y, list, r->error, "1 to 4096 meshes");
  r->meshes = tu_arena_allocate(&r->cluster->arena, r->mesh_count, sizeof *r->meshes);
  for (uint32_t i = tu_yaml_first(y, list); i != TU_YAML_NONE; i = tu_yaml_next(y, i))
    if ((err = read_mesh(r, i)) != TUTTI_OK) return err;
  size_t chips = 0, links = tu_min(r->ports[EAST], r->ports[WEST]) + tu_min(r->ports[NORTH], r->ports[SOUTH]);
  for (uint32_t m = 0; m < r->mesh_count; m++) {
    r->meshes[m].first = (uint32_t)chips;
    chips += (size_t)r->meshes[m].rows * r->meshes[m].cols;
    if (chips > TU_CHIPS_MAX) return tu_yaml_fail(y, list, r->error, "the meshes have more than 65536 chips in all");
  }
  if (chips * links > TU_LINKS_MAX)
    return tu_fail(r->error, TUTTI_ERR_ARGUMENT,
                   "%s:%u: expected meshes with no more than 2^20 links in all, found %zu", y->name,
                   y->nodes[list].line, chips * links);
  return TUTTI_OK;
}

/* Adds the chips and links of all meshes. The chips get positions only if there is one mesh. */
static void add_chips(const struct reading *r) {
  for (uint32_t m = 0; m < r->mesh_count; m++) {
    const struct mesh *mesh = &r->meshes[m];
    for (uint32_t i = 0; i < mesh->rows * mesh->cols; i++) {
      struct tu_node chip = {.id = mesh->first + i, .has_coords = r->mesh_count == 1};
      chip.coords[0] = i % mesh->cols;
      chip.coords[1] = i / mesh->cols;
      memcpy(chip.arch, r->arch, sizeof chip.arch);
      tu_cluster_add(r->cluster, &chip);
    }
  }
  const uint32_t *first = r->first_port;
  for (uint32_t m = 0; m < r->mesh_count; m++) {
    const struct mesh *mesh = &r->meshes[m];
    struct tu_grid_links grid = {.first = mesh->first, .dims = 2, .size = {mesh->cols, mesh->rows}};
    grid.wraps[0] = mesh->wraps_rows, grid.wraps[1] = mesh->wraps_cols;
    grid.links[0] = (uint32_t)tu_min(r->ports[EAST], r->ports[WEST]);
    grid.links[1] = (uint32_t)tu_min(r->ports[NORTH], r->ports[SOUTH]);
    grid.channel[0] = first[WEST], grid.channel[1] = first[EAST];
    grid.channel[2] = first[NORTH], grid.channel[3] = first[SOUTH];
    tu_connect_grid(r->cluster, &grid);
  }
}

/* Reads one end of a link between meshes, written [mesh, port]. A port of a mesh is one port of one chip at an edge of
 * the mesh. N5, for example, is port 5, counted from 0 over all chips at the northern edge, from west to east. At the
 * eastern and western edges, ports are counted from north to south. */
static tutti_err read_port(const struct reading *r, uint32_t list, struct tu_cluster_link_end *end) {
  const struct tu_yaml *y = r->yaml;
  const char *expected = "a mesh and one of its ports, for example [0, N4]";
  uint64_t id, port;
  if (y->nodes[list].kind != TU_YAML_LIST || y->nodes[list].count != 2)
    return tu_yaml_refuse(y, list, r->error, expected);
  uint32_t first = tu_yaml_first(y, list), second = tu_yaml_next(y, first);
  tutti_err err = tu_yaml_uint(y, first, r->mesh_count - 1, "a mesh", &id, r->error);
  if (err == TUTTI_OK) err = tu_yaml_is(y, second, TU_YAML_SCALAR, expected, r->error);
  if (err != TUTTI_OK) return err;
  const char *chars = y->nodes[second].chars, *letter = chars[0] ? strchr(side_letters, chars[0]) : NULL;
  const struct mesh *mesh = &r->meshes[id];
  if (!letter || !tu_parse_uint(chars + 1, UINT32_MAX, &port)) return tu_yaml_refuse(y, second, r->error, expected);
  long side = letter - side_letters;
  uint32_t ports = r->ports[side], along = side == NORTH || side == SOUTH ? mesh->cols : mesh->rows;
  if (port >= (uint64_t)ports * along)
    return tu_yaml_refuse(y, second, r->error, "an existing port at this edge of the mesh");
  uint32_t at = (uint32_t)port / ports, chip = 0;
  if (side == NORTH) chip = at;
  else if (side == SOUTH) chip = (mesh->rows - 1) * mesh->cols + at;
  else chip = at * mesh->cols + (side == EAST ? mesh->cols - 1 : 0);
  *end = (struct tu_cluster_link_end){mesh->first + chip, r->first_port[side] + (uint32_t)port % ports};
  return TUTTI_OK;
}

struct joint {
  /* the two ends of the link; the end with the lower chip (then the lower channel) comes first */
  struct tu_cluster_link_end ends[2];
  uint32_t node;
};
static int compare_ends(struct tu_cluster_link_end a, struct tu_cluster_link_end b) {
  if (a.node != b.node) return a.node < b.node ? -1 : 1;
  return a.channel < b.channel ? -1 : a.channel > b.channel;
}
static int compare_joints(const void *left, const void *right) {
  const struct joint *a = left, *b = right;
  for (int e = 0; e < 2; e++) {
    int order = compare_ends(a->ends[e], b->ends[e]);
    if (order != 0) return order;
  }
  return a->node < b->node ? -1 : a->node > b->node;
}

static tutti_err read_joint(const struct reading *r, uint32_t node, struct joint *joint) {
  const struct tu_yaml *y = r->yaml;
  if (y->nodes[node].kind != TU_YAML_LIST || y->nodes[node].count != 2)
    return tu_yaml_refuse(y, node, r->error, "two connected ports, for example [[0, S0], [4, N0]]");
  uint32_t ends[2] = {tu_yaml_first(y, node)};
  ends[1] = tu_yaml_next(y, ends[0]);
  joint->node = node;
  for (int e = 0; e < 2; e++) {
    tutti_err err = read_port(r, ends[e], &joint->ends[e]);
    if (err != TUTTI_OK) return err;
  }
  if (compare_ends(joint->ends[0], joint->ends[1]) > 0) {
    struct tu_cluster_link_end first = joint->ends[1];
    joint->ends[1] = joint->ends[0];
    joint->ends[0] = first;
  }
  return TUTTI_OK;
}

/* Reads the joints (links between meshes). A file may list a joint once, or twice, once from each side. (*nodes)[i]
 * becomes the node of the YAML tree that describes joint i. Error messages need it. */
static tutti_err read_joints(const struct reading *r, uint32_t **nodes) {
  const struct tu_yaml *y = r->yaml;
  uint32_t list = tu_yaml_find(y, 0, "Graph"), count = 0;
  if (list == TU_YAML_NONE) return TUTTI_OK;
  tutti_err err = tu_yaml_is(y, list, TU_YAML_LIST, "a list of connected ports", r->error);
  if (err != TUTTI_OK) return err;
  struct joint *joints = tu_arena_allocate(&r->cluster->arena, y->nodes[list].count + 1, sizeof *joints);
  *nodes = tu_arena_allocate(&r->cluster->arena, y->nodes[list].count + 1, sizeof **nodes);
  for (uint32_t i = tu_yaml_first(y, list); err == TUTTI_OK && i != TU_YAML_NONE; i = tu_yaml_next(y, i))
    err = read_joint(r, i, &joints[count++]);
  if (err == TUTTI_OK) qsort(joints, count, sizeof *joints, compare_joints);
  for (uint32_t i = 0, kept = 0; err == TUTTI_OK && i < count; i++) {
    bool again = i > 0 && compare_ends(joints[i].ends[0], joints[i - 1].ends[0]) == 0 &&
                 compare_ends(joints[i].ends[1], joints[i - 1].ends[1]) == 0;
    if (again) continue;
    tu_cluster_connect(r->cluster, joints[i].ends[0], joints[i].ends[1]);
    (*nodes)[kept++] = joints[i].node;
  }
  tu_arena_free(&r->cluster->arena, joints);
  return err;
}

/* ---- links between meshes at unspecified chips ---- */

/* Reads a mesh's id, written as "M4" or as 4. */
static tutti_err read_mesh_name(const struct reading *r, uint32_t node, uint32_t *mesh) {
  const struct tu_yaml_node *n = &r->yaml->nodes[node];
  uint64_t id = 0;
  bool read = n->kind == TU_YAML_SCALAR && tu_parse_uint(n->chars + (n->chars[0] == 'M'), r->mesh_count - 1, &id);
  *mesh = (uint32_t)id;
  return read ? TUTTI_OK : tu_yaml_refuse(r->yaml, node, r->error, "a mesh listed in 'Mesh', for example M0");
}

/* Reads a relaxed connection, which the file prefers but does not require. [M0, M1, 4] means up to four links between
 * meshes 0 and 1. Their channels follow the channels of a chip's ports. */
static tutti_err read_relaxed(const struct reading *r, uint32_t node, uint32_t next[]) {
  const struct tu_yaml *y = r->yaml;
  const char *expected = "two meshes and the number of links between them, for example [M0, M1, 4]";
  uint32_t mesh[2], chip;
  uint64_t links;
  if (y->nodes[node].kind != TU_YAML_LIST || y->nodes[node].count != 3)
    return tu_yaml_refuse(y, node, r->error, expected);
  uint32_t first = tu_yaml_first(y, node), second = tu_yaml_next(y, first), third = tu_yaml_next(y, second);
  tutti_err err = read_mesh_name(r, first, &mesh[0]);
  if (err == TUTTI_OK) err = read_mesh_name(r, second, &mesh[1]);
  if (err == TUTTI_OK) err = tu_yaml_uint(y, third, TU_LINKS_MAX, "a number of links", &links, r->error);
  if (err == TUTTI_OK && links == 0) err = tu_yaml_refuse(y, third, r->error, "one link or more");
  if (err == TUTTI_OK && mesh[0] == mesh[1]) err = tu_yaml_refuse(y, node, r->error, "two different meshes");
  if (err != TUTTI_OK) return err;
  if (r->cluster->link_count + links > TU_LINKS_MAX)
    return tu_yaml_fail(y, third, r->error, "with this number, the file has more than 2^20 links in all");
  struct tu_joint joint = {.links = (uint32_t)links, .relaxed = true};
  for (int e = 0; e < 2; e++) {
    joint.first[e] = r->meshes[mesh[e]].first;
    joint.count[e] = r->meshes[mesh[e]].rows * r->meshes[mesh[e]].cols;
    joint.loose |= joint.count[e] > 1;
  }
  if (!tu_connect_joint(r->cluster, &joint, next, &chip))
    return tu_yaml_refuse(y, third, r->error, "a number of links that gives no chip more than 1024 links");
  return TUTTI_OK;
}

static tutti_err read_relaxed_graph(const struct reading *r) {
  const struct tu_yaml *y = r->yaml;
  uint32_t list = tu_yaml_find(y, 0, "RelaxedGraph"), ports = 0;
  if (list == TU_YAML_NONE) return TUTTI_OK;
  tutti_err err = tu_yaml_is(y, list, TU_YAML_LIST, "a list of connected meshes", r->error);
  uint32_t *next = tu_arena_allocate(&r->cluster->arena, r->cluster->chip_count, sizeof *next);
  for (int s = 0; s < SIDES; s++) ports += r->ports[s];
  for (uint32_t i = 0; i < r->cluster->chip_count; i++) next[i] = ports;
  for (uint32_t i = tu_yaml_first(y, list); err == TUTTI_OK && i != TU_YAML_NONE; i = tu_yaml_next(y, i))
    err = read_relaxed(r, i, next);
  tu_arena_free(&r->cluster->arena, next);
  return err;
}

tutti_err tu_mesh_graph_read(const struct tu_yaml *yaml, struct tu_cluster *cluster, struct tu_error *error) {
  struct reading r = {.yaml = yaml, .cluster = cluster, .error = error};
  uint32_t *nodes = NULL;
  note_unknown(&r, 0, "the file", " ChipSpec Board Mesh Graph RelaxedGraph ");
  tutti_err err = read_chip_spec(&r);
  if (err == TUTTI_OK) err = read_meshes(&r);
  if (err == TUTTI_OK) {
    add_chips(&r);
    uint32_t inner = cluster->link_count;
    err = read_joints(&r, &nodes);
    uint32_t joined = cluster->link_count;
    if (err == TUTTI_OK) err = read_relaxed_graph(&r);
    uint32_t clash = err == TUTTI_OK ? tu_cluster_index(cluster) : TU_NONE;
    if (clash != TU_NONE) {
      tu_assert(clash >= inner && clash < joined);
      err = tu_yaml_refuse(yaml, nodes[clash - inner], error, "two ports that no other connection uses");
    }
  }
  for (uint32_t m = 0; err == TUTTI_OK && m < r.mesh_count && r.mesh_count > 1; m++)
    tu_note_mesh(cluster, m, r.meshes[m].first, (uint32_t[]){r.meshes[m].rows, r.meshes[m].cols}, 2);
  tu_arena_free(&cluster->arena, nodes);
  tu_arena_free(&cluster->arena, r.meshes);
  return err;
}
