/* cluster_file.c: reads cluster description files in the format of tt-umd: their chips and links. Other parts of the
 * files (harvesting, boards, ...) are ignored. Mesh graph descriptors (YAML or protobuf text) are passed to the
 * functions that read them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "topology/cluster_internal.h"
#include "topology/proto_text.h"

struct reading {
  const struct tu_yaml *yaml;
  struct tu_cluster *cluster;
  struct tu_error *error;
  /* [links + remote links]: for each link, the line of the file that describes it; first all links inside the cluster,
   * then all links to chips outside it */
  uint32_t *lines;
  uint32_t line_count, line_capacity;
};

/* One key of a map and its value, both as nodes of the tree that was read from the file. */
struct pair {
  uint32_t key, value;
};
static struct pair first_pair(const struct tu_yaml *y, uint32_t map) {
  uint32_t key = tu_yaml_first(y, map);
  return (struct pair){key, key == TU_YAML_NONE ? TU_YAML_NONE : tu_yaml_next(y, key)};
}
static struct pair next_pair(const struct tu_yaml *y, struct pair pair) {
  uint32_t key = tu_yaml_next(y, pair.value);
  return (struct pair){key, key == TU_YAML_NONE ? TU_YAML_NONE : tu_yaml_next(y, key)};
}

static tutti_err read_id(const struct reading *r, uint32_t node, uint32_t *id) {
  uint64_t number;
  tutti_err err = tu_yaml_uint(r->yaml, node, UINT32_MAX - 1, "a chip's number", &number, r->error);
  if (err == TUTTI_OK) *id = (uint32_t)number;
  return err;
}

/* Reads a chip's id, and finds the chip with that id. */
static tutti_err read_chip(const struct reading *r, uint32_t node, uint32_t *chip) {
  uint32_t id;
  tutti_err err = read_id(r, node, &id);
  if (err != TUTTI_OK) return err;
  *chip = tu_cluster_chip(r->cluster, id);
  if (*chip != TU_NONE) return TUTTI_OK;
  return tu_yaml_refuse(r->yaml, node, r->error, "a chip listed in 'arch' or 'chips'");
}

/* ---- chips ---- */

static int compare_ids(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return a < b ? -1 : a > b;
}

/* Reads chip numbers from the keys of a map. A chip that occurs twice is an error. */
static tutti_err read_ids(const struct reading *r, uint32_t map, uint32_t ids[], uint32_t *count) {
  uint32_t before = *count;
  for (struct pair p = first_pair(r->yaml, map); p.key != TU_YAML_NONE; p = next_pair(r->yaml, p)) {
    tutti_err err = read_id(r, p.key, &ids[*count]);
    if (err != TUTTI_OK) return err;
    ++*count;
  }
  qsort(ids + before, *count - before, sizeof *ids, compare_ids);
  for (uint32_t i = before + 1; i < *count; i++)
    if (ids[i] == ids[i - 1])
      return tu_fail(r->error, TUTTI_ERR_ARGUMENT, "%s:%u: expected each chip once in this map, found chip %u twice",
                     r->yaml->name, r->yaml->nodes[map].line, ids[i]);
  return TUTTI_OK;
}

static tutti_err add_chips(const struct reading *r, uint32_t arch, uint32_t chips) {
  uint32_t maps[2] = {arch, chips}, most = 1, count = 0;
  for (int i = 0; i < 2; i++)
    if (maps[i] != TU_YAML_NONE) most += r->yaml->nodes[maps[i]].count;
  uint32_t *ids = tu_arena_allocate(&r->cluster->arena, most, sizeof *ids);
  tutti_err err = TUTTI_OK;
  for (int i = 0; i < 2 && err == TUTTI_OK; i++)
    if (maps[i] != TU_YAML_NONE) err = read_ids(r, maps[i], ids, &count);
  qsort(ids, count, sizeof *ids, compare_ids);
  for (uint32_t i = 0; i < count && err == TUTTI_OK; i++)
    if (i == 0 || ids[i] != ids[i - 1]) tu_cluster_add(r->cluster, &(struct tu_node){.id = ids[i]});
  tu_arena_free(&r->cluster->arena, ids);
  if (err != TUTTI_OK || r->cluster->chip_count - 1 < TU_CHIPS_MAX) return err;
  return tu_fail(r->error, TUTTI_ERR_ARGUMENT, "%s:%u: expected 1 to %d chips in 'arch' and 'chips', found %u",
                 r->yaml->name, r->yaml->nodes[arch == TU_YAML_NONE ? chips : arch].line, (int)TU_CHIPS_MAX,
                 r->cluster->chip_count);
}

static tutti_err read_coords(const struct reading *r, uint32_t list, struct tu_node *node) {
  const char *expected = "four coordinates, [x, y, rack, shelf]";
  tutti_err err = tu_yaml_is(r->yaml, list, TU_YAML_LIST, expected, r->error);
  if (err == TUTTI_OK && r->yaml->nodes[list].count != TU_GRID_DIMS)
    err = tu_yaml_refuse(r->yaml, list, r->error, expected);
  uint32_t dim = 0;
  for (uint32_t i = tu_yaml_first(r->yaml, list); err == TUTTI_OK && i != TU_YAML_NONE; i = tu_yaml_next(r->yaml, i)) {
    uint64_t number;
    err = tu_yaml_uint(r->yaml, i, UINT32_MAX - 1, "a coordinate", &number, r->error);
    if (err == TUTTI_OK) node->coords[dim++] = (uint32_t)number;
  }
  node->has_coords = err == TUTTI_OK;
  return err;
}

static tutti_err read_chips(const struct reading *r) {
  const struct tu_yaml *y = r->yaml;
  uint32_t arch = tu_yaml_find(y, 0, "arch"), chips = tu_yaml_find(y, 0, "chips");
  tutti_err err = TUTTI_OK;
  if (arch == TU_YAML_NONE && chips == TU_YAML_NONE)
    return tu_fail(r->error, TUTTI_ERR_ARGUMENT,
                   "%s:%u: expected a key 'arch' or 'chips' that lists the chips, found none", y->name,
                   y->nodes[0].line);
  if (arch != TU_YAML_NONE) err = tu_yaml_is(y, arch, TU_YAML_MAP, "a map from chips to architectures", r->error);
  if (err == TUTTI_OK && chips != TU_YAML_NONE)
    err = tu_yaml_is(y, chips, TU_YAML_MAP, "a map from chips to coordinates", r->error);
  if (err == TUTTI_OK) err = add_chips(r, arch, chips);
  if (err != TUTTI_OK) return err;
  uint32_t chip;
  for (struct pair p = arch == TU_YAML_NONE ? (struct pair){arch, arch} : first_pair(y, arch); p.key != TU_YAML_NONE;
       p = next_pair(y, p)) {
    if ((err = read_chip(r, p.key, &chip)) != TUTTI_OK) return err;
    if ((err = tu_yaml_is(y, p.value, TU_YAML_SCALAR, "an architecture's name", r->error)) != TUTTI_OK) return err;
    tu_copy_arch(&r->cluster->nodes[chip], y->nodes[p.value].chars);
  }
  for (struct pair p = chips == TU_YAML_NONE ? (struct pair){chips, chips} : first_pair(y, chips);
       p.key != TU_YAML_NONE; p = next_pair(y, p)) {
    if ((err = read_chip(r, p.key, &chip)) != TUTTI_OK) return err;
    if ((err = read_coords(r, p.value, &r->cluster->nodes[chip])) != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}

/* Reads which chips have mmio (mapped by a host). Each item is a chip, or a map whose keys are chips. The map's
 * values, which are numbers of the host, are ignored. */
static tutti_err read_mmio(const struct reading *r) {
  const struct tu_yaml *y = r->yaml;
  uint32_t list = tu_yaml_find(y, 0, "chips_with_mmio"), chip;
  if (list == TU_YAML_NONE) return TUTTI_OK;
  tutti_err err = tu_yaml_is(y, list, TU_YAML_LIST, "a list of chips", r->error);
  if (err != TUTTI_OK) return err;
  for (uint32_t i = tu_yaml_first(y, list); i != TU_YAML_NONE; i = tu_yaml_next(y, i)) {
    if (y->nodes[i].kind != TU_YAML_MAP) {
      if ((err = read_chip(r, i, &chip)) != TUTTI_OK) return err;
      r->cluster->nodes[chip].mmio = true;
      continue;
    }
    for (struct pair p = first_pair(y, i); p.key != TU_YAML_NONE; p = next_pair(y, p)) {
      if ((err = read_chip(r, p.key, &chip)) != TUTTI_OK) return err;
      r->cluster->nodes[chip].mmio = true;
    }
  }
  return TUTTI_OK;
}

/* ---- links ---- */

static tutti_err read_channel(const struct reading *r, uint32_t map, uint32_t *channel) {
  uint32_t node = tu_yaml_find(r->yaml, map, "chan");
  if (node == TU_YAML_NONE) return tu_yaml_refuse(r->yaml, map, r->error, "one end of a connection with a key 'chan'");
  uint64_t number;
  tutti_err err = tu_yaml_uint(r->yaml, node, TU_CHANNELS_MAX - 1, "a channel", &number, r->error);
  if (err == TUTTI_OK) *channel = (uint32_t)number;
  return err;
}

static tutti_err read_end(const struct reading *r, uint32_t map, struct tu_cluster_link_end *end) {
  uint32_t chip = tu_yaml_find(r->yaml, map, "chip");
  if (chip == TU_YAML_NONE)
    return tu_yaml_refuse(r->yaml, map, r->error, "one end of a connection, for example {chip: 0, chan: 8}");
  tutti_err err = read_chip(r, chip, &end->node);
  return err == TUTTI_OK ? read_channel(r, map, &end->channel) : err;
}

static void note_line(struct reading *r, uint32_t line) {
  r->lines = tu_arena_grow(&r->cluster->arena, r->lines, r->line_count, &r->line_capacity, sizeof *r->lines);
  r->lines[r->line_count++] = line;
}

/* Finds the two ends of a connection (a link), which are its first two items. Further items are ignored. */
static tutti_err read_two(const struct reading *r, uint32_t connection, uint32_t ends[2]) {
  const char *expected = "a connection of two ends, for example [{chip: 0, chan: 8}, {chip: 1, chan: 0}]";
  const struct tu_yaml_node *node = &r->yaml->nodes[connection];
  if (node->kind != TU_YAML_LIST || node->count < 2) return tu_yaml_refuse(r->yaml, connection, r->error, expected);
  ends[0] = tu_yaml_first(r->yaml, connection);
  ends[1] = tu_yaml_next(r->yaml, ends[0]);
  return TUTTI_OK;
}

static tutti_err read_links(struct reading *r) {
  const struct tu_yaml *y = r->yaml;
  uint32_t list = tu_yaml_find(y, 0, "ethernet_connections");
  if (list == TU_YAML_NONE)
    return tu_fail(r->error, TUTTI_ERR_ARGUMENT,
                   "%s:%u: expected a key 'ethernet_connections' with a list (it may be empty), found none", y->name,
                   y->nodes[0].line);
  tutti_err err = tu_yaml_is(y, list, TU_YAML_LIST, "a list of connections", r->error);
  if (err != TUTTI_OK) return err;
  for (uint32_t i = tu_yaml_first(y, list); i != TU_YAML_NONE; i = tu_yaml_next(y, i)) {
    uint32_t nodes[2];
    struct tu_cluster_link_end ends[2];
    if ((err = read_two(r, i, nodes)) != TUTTI_OK) return err;
    for (int e = 0; e < 2; e++)
      if ((err = read_end(r, nodes[e], &ends[e])) != TUTTI_OK) return err;
    tu_cluster_connect(r->cluster, ends[0], ends[1]);
    note_line(r, y->nodes[i].line);
  }
  return TUTTI_OK;
}

static tutti_err read_remote(struct reading *r, uint32_t connection) {
  const struct tu_yaml *y = r->yaml;
  struct tu_cluster_remote remote;
  uint32_t nodes[2], id;
  tutti_err err = read_two(r, connection, nodes);
  if (err != TUTTI_OK) return err;
  /* One of the two ends is at a chip outside the cluster: the one with the key remote_chip_id. This is its index in
   * nodes[]. */
  int far = tu_yaml_find(y, nodes[0], "remote_chip_id") == TU_YAML_NONE;
  if ((id = tu_yaml_find(y, nodes[far], "remote_chip_id")) == TU_YAML_NONE)
    return tu_yaml_refuse(y, nodes[far], r->error,
                          "the remote end, for example {remote_chip_id: 14251335820, chan: 7}");
  if ((err = read_end(r, nodes[1 - far], &remote.end)) != TUTTI_OK) return err;
  if ((err = tu_yaml_uint(y, id, UINT64_MAX, "a unique id", &remote.chip, r->error)) != TUTTI_OK) return err;
  if ((err = read_channel(r, nodes[far], &remote.channel)) != TUTTI_OK) return err;
  struct tu_cluster *c = r->cluster;
  c->remotes = tu_arena_grow(&c->arena, c->remotes, c->remote_count, &c->remote_capacity, sizeof *c->remotes);
  c->remotes[c->remote_count++] = remote;
  note_line(r, y->nodes[connection].line);
  return TUTTI_OK;
}

static tutti_err read_remotes(struct reading *r) {
  uint32_t list = tu_yaml_find(r->yaml, 0, "ethernet_connections_to_remote_devices");
  if (list == TU_YAML_NONE) return TUTTI_OK;
  tutti_err err = tu_yaml_is(r->yaml, list, TU_YAML_LIST, "a list of connections", r->error);
  for (uint32_t i = tu_yaml_first(r->yaml, list); err == TUTTI_OK && i != TU_YAML_NONE; i = tu_yaml_next(r->yaml, i))
    err = read_remote(r, i);
  return err;
}

/* ---- checks ---- */

struct taken {
  struct tu_cluster_link_end end;
  uint32_t index; /* index in reading.lines of the line on which the link is described */
};
static int compare_taken(const void *left, const void *right) {
  const struct taken *a = left, *b = right;
  if (a->end.node != b->end.node) return a->end.node < b->end.node ? -1 : 1;
  if (a->end.channel != b->end.channel) return a->end.channel < b->end.channel ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

/* Checks that each channel has at most one link. */
static tutti_err check_channels(const struct reading *r) {
  const struct tu_cluster *c = r->cluster;
  struct taken *all =
      tu_arena_allocate(&r->cluster->arena, 2 * (size_t)c->link_count + c->remote_count + 1, sizeof *all);
  uint32_t count = 0;
  for (uint32_t l = 0; l < c->link_count; l++)
    for (int e = 0; e < 2; e++) all[count++] = (struct taken){c->links[l].ends[e], l};
  for (uint32_t i = 0; i < c->remote_count; i++) all[count++] = (struct taken){c->remotes[i].end, c->link_count + i};
  qsort(all, count, sizeof *all, compare_taken);
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 1; i < count && err == TUTTI_OK; i++) {
    const struct taken *a = &all[i - 1], *b = &all[i];
    if (a->end.node != b->end.node || a->end.channel != b->end.channel) continue;
    err = tu_fail(r->error, TUTTI_ERR_ARGUMENT,
                  "%s:%u: expected a channel without a link, found channel %u of chip %u, which line %u already links",
                  r->yaml->name, r->lines[b->index], b->end.channel, c->nodes[b->end.node].id, r->lines[a->index]);
  }
  tu_arena_free(&r->cluster->arena, all);
  return err;
}

static tutti_err read_description(const struct tu_yaml *yaml, struct tu_cluster *cluster, struct tu_error *error) {
  struct reading r = {.yaml = yaml, .cluster = cluster, .error = error};
  tutti_err err = read_chips(&r);
  if (err == TUTTI_OK) err = read_mmio(&r);
  if (err == TUTTI_OK) err = read_links(&r);
  if (err == TUTTI_OK) err = read_remotes(&r);
  if (err == TUTTI_OK) err = check_channels(&r);
  if (err == TUTTI_OK) {
    uint32_t clash = tu_cluster_index(cluster);
    tu_assert(clash == TU_NONE);
  }
  tu_arena_free(&cluster->arena, r.lines);
  return err;
}

/* Decides by the file's keys which kind of description it is, and reads it. */
static tutti_err read_kind(const struct tu_yaml *yaml, struct tu_cluster *cluster, struct tu_error *error) {
  static const char *const mesh_keys[] = {"ChipSpec", "Board", "Mesh", "Graph", "RelaxedGraph"};
  tutti_err err = tu_yaml_is(yaml, 0, TU_YAML_MAP, "a cluster description (a map)", error);
  if (err != TUTTI_OK) return err;
  for (size_t i = 0; i < sizeof mesh_keys / sizeof mesh_keys[0]; i++)
    if (tu_yaml_find(yaml, 0, mesh_keys[i]) != TU_YAML_NONE) return tu_mesh_graph_read(yaml, cluster, error);
  if (tu_yaml_find(yaml, 0, "functional_workers") != TU_YAML_NONE)
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "%s:%u: expected a cluster description or a mesh graph descriptor, found the description of a chip's cores",
        yaml->name, yaml->nodes[0].line);
  return read_description(yaml, cluster, error);
}

struct job {
  const char *data, *name;
  size_t bytes;
  struct tu_yaml yaml;
  struct tu_cluster *cluster;
};

static tutti_err read_file(void *argument, struct tu_error *error) {
  struct job *job = argument;
  bool proto = tu_proto_text_is(job->data, job->bytes, job->name);
  tutti_err err = proto ? tu_proto_text_read(job->data, job->bytes, job->name, &job->yaml, error)
                        : tu_yaml_read(job->data, job->bytes, job->name, &job->yaml, error);
  if (err != TUTTI_OK) return err;
  const char *slash = strrchr(job->name, '/');
  job->cluster = tu_cluster_create(slash ? slash + 1 : job->name);
  return proto ? tu_mesh_proto_read(&job->yaml, job->cluster, error) : read_kind(&job->yaml, job->cluster, error);
}

tutti_err tu_cluster_read(const char *data, size_t bytes, const char *name, struct tu_cluster **cluster,
                          struct tu_error *error) {
  struct job job = {.data = data, .name = name, .bytes = bytes};
  tutti_err err = tu_arena_build(read_file, &job, name, error);
  tu_yaml_fini(&job.yaml);
  if (err != TUTTI_OK) tu_cluster_destroy(job.cluster);
  *cluster = err == TUTTI_OK ? job.cluster : NULL;
  return err;
}
