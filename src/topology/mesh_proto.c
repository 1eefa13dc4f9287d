/* mesh_proto.c: reads mesh graph descriptors in protobuf's text format: the fields, the templates and how large each is. */
#include "topology/mesh_proto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields ---- */

uint32_t tu_field_next(const struct tu_mesh_proto *proto, uint32_t map, const char *name, struct tu_field *at) {
  const struct tu_yaml *y = proto->tree;
  if (at->item != 0) {
    at->item = tu_yaml_next(y, at->item);
    if (at->item != TU_YAML_NONE) return at->item;
  }
  at->item = 0;
  for (;;) {
    at->key = at->key == 0 ? tu_yaml_first(y, map) : tu_yaml_next(y, tu_yaml_next(y, at->key));
    if (at->key == TU_YAML_NONE) return TU_YAML_NONE;
    uint32_t value = tu_yaml_next(y, at->key);
    if (strcmp(y->nodes[at->key].chars, name) != 0) continue;
    if (y->nodes[value].kind != TU_YAML_LIST) return value;
    at->item = tu_yaml_first(y, value);
    if (at->item != TU_YAML_NONE) return at->item;
    at->item = 0;
  }
}

/* Does `known` have " name " or " name* "? */
static bool is_known(const char *known, const char *name, bool *repeats) {
  size_t length = strlen(name);
  for (const char *at = strstr(known, name); at; at = strstr(at + 1, name)) {
    *repeats = at[length] == '*';
    if (at > known && at[-1] == ' ' && (*repeats || at[length] == ' ')) return true;
  }
  return false;
}

tutti_err tu_fields_check(const struct tu_mesh_proto *proto, uint32_t map, const char *message, const char *known) {
  const struct tu_yaml *y = proto->tree;
  tutti_err err = tu_yaml_is(y, map, TU_YAML_MAP, message, proto->error);
  if (err != TUTTI_OK) return err;
  for (uint32_t key = tu_yaml_first(y, map); key != TU_YAML_NONE; key = tu_yaml_next(y, tu_yaml_next(y, key))) {
    const struct tu_yaml_node *node = &y->nodes[key];
    uint32_t value = tu_yaml_next(y, key);
    bool repeats;
    if (!is_known(known, node->chars, &repeats)) {
      tu_cluster_note(proto->cluster, "line %u: '%.60s' in %s is not known here, and passed over", node->line,
                      node->chars, message);
      continue;
    }
    if (repeats) continue;
    if (tu_yaml_find(y, map, node->chars) != value)
      return tu_yaml_refuse(y, key, proto->error, "a field that is given once");
    if (y->nodes[value].kind == TU_YAML_LIST) return tu_yaml_refuse(y, value, proto->error, "one value");
  }
  return TUTTI_OK;
}

tutti_err tu_field_message(const struct tu_mesh_proto *proto, uint32_t map, const char *name, uint32_t *message) {
  char expected[80];
  *message = tu_yaml_find(proto->tree, map, name);
  if (*message == TU_YAML_NONE) return TUTTI_OK;
  snprintf(expected, sizeof expected, "%s { ... }", name);
  return tu_yaml_is(proto->tree, *message, TU_YAML_MAP, expected, proto->error);
}

static tutti_err refuse_missing(const struct tu_mesh_proto *proto, uint32_t map, const char *name) {
  char expected[80];
  snprintf(expected, sizeof expected, "a message with a field '%s'", name);
  return tu_yaml_refuse(proto->tree, map, proto->error, expected);
}

static tutti_err number_at(const struct tu_mesh_proto *proto, uint32_t node, const char *name, uint32_t low,
                           uint32_t high, uint32_t *number) {
  const struct tu_yaml_node *n = &proto->tree->nodes[node];
  uint64_t read = 0;
  char expected[120];
  bool is_number = n->kind == TU_YAML_SCALAR && !n->quoted && tu_parse_uint(n->chars, high, &read) && read >= low;
  *number = (uint32_t)read;
  if (is_number) return TUTTI_OK;
  snprintf(expected, sizeof expected, "'%s', a whole number from %u to %u", name, low, high);
  return tu_yaml_refuse(proto->tree, node, proto->error, expected);
}

tutti_err tu_field_number(const struct tu_mesh_proto *proto, uint32_t map, const char *name, uint32_t low,
                          uint32_t high, uint32_t *number) {
  uint32_t node = tu_yaml_find(proto->tree, map, name);
  *number = 0;
  if (node == TU_YAML_NONE) return low == 0 ? TUTTI_OK : refuse_missing(proto, map, name);
  return number_at(proto, node, name, low, high, number);
}

tutti_err tu_field_string(const struct tu_mesh_proto *proto, uint32_t map, const char *name, const char **chars) {
  uint32_t node = tu_yaml_find(proto->tree, map, name);
  char expected[80];
  *chars = "";
  if (node == TU_YAML_NONE) return refuse_missing(proto, map, name);
  const struct tu_yaml_node *n = &proto->tree->nodes[node];
  if (n->kind == TU_YAML_SCALAR && n->quoted && n->chars[0]) {
    *chars = n->chars;
    return TUTTI_OK;
  }
  snprintf(expected, sizeof expected, "'%s', a name in quotation marks", name);
  return tu_yaml_refuse(proto->tree, node, proto->error, expected);
}

/* Which of the words does a scalar say? */
static tutti_err choice_at(const struct tu_mesh_proto *proto, uint32_t node, const char *const words[2], bool *second) {
  const struct tu_yaml_node *n = &proto->tree->nodes[node];
  char expected[80];
  for (int i = 0; i < 2; i++)
    if (n->kind == TU_YAML_SCALAR && !n->quoted && strcmp(n->chars, words[i]) == 0) {
      *second = i;
      return TUTTI_OK;
    }
  snprintf(expected, sizeof expected, "%s or %s", words[0], words[1]);
  return tu_yaml_refuse(proto->tree, node, proto->error, expected);
}

tutti_err tu_field_choice(const struct tu_mesh_proto *proto, uint32_t map, const char *name, const char *const words[2],
                          bool *second) {
  uint32_t node = tu_yaml_find(proto->tree, map, name);
  return node == TU_YAML_NONE ? TUTTI_OK : choice_at(proto, node, words, second);
}

tutti_err tu_field_channels(const struct tu_mesh_proto *proto, uint32_t map, uint32_t max, uint32_t *count,
                            bool *relaxed) {
  static const char *const policies[2] = {"STRICT", "RELAXED"};
  uint32_t channels;
  tutti_err err = tu_field_message(proto, map, "channels", &channels);
  *relaxed = false;
  if (err == TUTTI_OK && channels == TU_YAML_NONE) return refuse_missing(proto, map, "channels");
  if (err == TUTTI_OK) err = tu_fields_check(proto, channels, "channels", " count policy ");
  if (err == TUTTI_OK) err = tu_field_number(proto, channels, "count", 1, max, count);
  if (err == TUTTI_OK) err = tu_field_choice(proto, channels, "policy", policies, relaxed);
  return err;
}

tutti_err tu_field_reference(const struct tu_mesh_proto *proto, uint32_t map, uint32_t *reference, uint32_t *of,
                             uint32_t *id) {
  const struct tu_yaml *y = proto->tree;
  uint32_t mesh, graph;
  const char *name;
  if (tu_yaml_find(y, map, "switch") != TU_YAML_NONE)
    return tu_yaml_refuse(y, map, proto->error, "a mesh or a graph (switches are not understood here)");
  tutti_err err = tu_field_message(proto, map, "mesh", &mesh);
  if (err == TUTTI_OK) err = tu_field_message(proto, map, "graph", &graph);
  if (err != TUTTI_OK) return err;
  if ((mesh == TU_YAML_NONE) == (graph == TU_YAML_NONE))
    return tu_yaml_refuse(y, map, proto->error, "either mesh { ... } or graph { ... }");
  bool is_graph = mesh == TU_YAML_NONE;
  *reference = is_graph ? graph : mesh;
  err = is_graph ? tu_fields_check(proto, graph, "graph", " graph_descriptor graph_id mesh graph ")
                 : tu_fields_check(proto, mesh, "mesh", " mesh_descriptor mesh_id device_id ");
  if (err == TUTTI_OK)
    err = tu_field_string(proto, *reference, is_graph ? "graph_descriptor" : "mesh_descriptor", &name);
  if (err == TUTTI_OK) err = tu_field_number(proto, *reference, is_graph ? "graph_id" : "mesh_id", 0, INT32_MAX, id);
  if (err != TUTTI_OK) return err;
  for (*of = 0; *of < proto->template_count; ++*of) {
    const struct tu_mesh_template *t = &proto->templates[*of];
    if (t->graph == is_graph && strcmp(t->name, name) == 0) return TUTTI_OK;
  }
  char expected[80];
  snprintf(expected, sizeof expected, "a %s that the file describes, not '%.30s'", is_graph ? "graph" : "mesh", name);
  return tu_yaml_refuse(y, *reference, proto->error, expected);
}

/* ---- meshes ---- */

/* Sizes at the field 'dims': from one dimension up to the most that there may be. */
static tutti_err read_dims(const struct tu_mesh_proto *proto, uint32_t map, uint32_t size[TU_PLACE_DIMS],
                           uint32_t *dims) {
  struct tu_field at = {0};
  *dims = 0;
  for (uint32_t i = tu_field_next(proto, map, "dims", &at); i != TU_YAML_NONE;
       i = tu_field_next(proto, map, "dims", &at)) {
    if (*dims == TU_PLACE_DIMS) return tu_yaml_refuse(proto->tree, i, proto->error, "no more than 4 dimensions");
    tutti_err err = number_at(proto, i, "dims", 1, TU_CHIPS_MAX, &size[(*dims)++]);
    if (err != TUTTI_OK) return err;
  }
  return *dims > 0 ? TUTTI_OK : refuse_missing(proto, map, "dims");
}

static tutti_err read_device_topology(struct tu_mesh_proto *proto, struct tu_mesh_template *mesh) {
  static const char *const kinds[2] = {"LINE", "RING"};
  uint32_t map, given = 0;
  tutti_err err = tu_field_message(proto, mesh->node, "device_topology", &map);
  if (err == TUTTI_OK && map == TU_YAML_NONE) return refuse_missing(proto, mesh->node, "device_topology");
  if (err == TUTTI_OK) err = tu_fields_check(proto, map, "device_topology", " dims* dim_types* types* ");
  if (err == TUTTI_OK) err = read_dims(proto, map, mesh->size, &mesh->dims);
  if (err != TUTTI_OK) return err;
  size_t chips = 1;
  for (uint32_t d = 0; d < mesh->dims; d++)
    if ((chips *= mesh->size[d]) > TU_CHIPS_MAX)
      return tu_yaml_refuse(proto->tree, map, proto->error, "a mesh of no more than 65536 chips");
  mesh->chips = (uint32_t)chips;
  mesh->sized = true;
  const char *key = tu_yaml_find(proto->tree, map, "dim_types") != TU_YAML_NONE ? "dim_types" : "types";
  struct tu_field at = {0};
  for (uint32_t i = tu_field_next(proto, map, key, &at); i != TU_YAML_NONE; i = tu_field_next(proto, map, key, &at)) {
    if (given == mesh->dims) return tu_yaml_refuse(proto->tree, i, proto->error, "no more types than dimensions");
    if ((err = choice_at(proto, i, kinds, &mesh->ring[given])) != TUTTI_OK) return err;
    if (mesh->ring[given] && mesh->size[given] < 3)
      tu_cluster_note(proto->cluster, "line %u: RING over %u chip%s joins no pair that is not joined already",
                      proto->tree->nodes[i].line, mesh->size[given], mesh->size[given] == 1 ? "" : "s");
    given++;
  }
  return TUTTI_OK;
}

/* Hosts share out the chips; they add no link. */
static tutti_err read_host_topology(struct tu_mesh_proto *proto, const struct tu_mesh_template *mesh) {
  uint32_t map, hosts[TU_PLACE_DIMS], dims;
  tutti_err err = tu_field_message(proto, mesh->node, "host_topology", &map);
  if (err != TUTTI_OK || map == TU_YAML_NONE) return err;
  err = tu_fields_check(proto, map, "host_topology", " dims* ");
  if (err == TUTTI_OK) err = read_dims(proto, map, hosts, &dims);
  if (err != TUTTI_OK) return err;
  bool fits = dims == mesh->dims;
  for (uint32_t d = 0; d < dims && fits; d++) fits = mesh->size[d] % hosts[d] == 0;
  if (!fits)
    return tu_yaml_refuse(proto->tree, map, proto->error, "as many dimensions as the chips have, each a divisor");
  tu_note_hosts(proto->cluster, mesh->name, hosts, dims);
  return TUTTI_OK;
}

/* One architecture for the whole file, which may limit the dimensions. */
static tutti_err read_arch(struct tu_mesh_proto *proto, const struct tu_mesh_template *mesh) {
  static const struct {
    const char *name, *written;
    uint32_t dims;
  } known[] = {{"WORMHOLE_B0", "wormhole_b0", 2}, {"BLACKHOLE", "blackhole", 3}};
  const struct tu_yaml *y = proto->tree;
  uint32_t node = tu_yaml_find(y, mesh->node, "arch");
  if (node == TU_YAML_NONE) return TUTTI_OK;
  tutti_err err = tu_yaml_is(y, node, TU_YAML_SCALAR, "an architecture's name", proto->error);
  if (err != TUTTI_OK) return err;
  struct tu_node chip = {.arch = ""};
  tu_copy_arch(&chip, y->nodes[node].chars);
  bool found = false;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i].name, y->nodes[node].chars) != 0) continue;
    found = true;
    if (mesh->dims > known[i].dims)
      return tu_yaml_refuse(y, node, proto->error, "an architecture whose meshes have that many dimensions");
    tu_copy_arch(&chip, known[i].written);
  }
  if (!found)
    tu_cluster_note(proto->cluster, "line %u: the architecture '%s' is not known here", y->nodes[node].line, chip.arch);
  if (proto->arch[0] && strcmp(proto->arch, chip.arch) != 0)
    return tu_yaml_refuse(y, node, proto->error, "one architecture in the whole file");
  memcpy(proto->arch, chip.arch, sizeof proto->arch);
  return TUTTI_OK;
}

static tutti_err read_mesh(struct tu_mesh_proto *proto, struct tu_mesh_template *mesh) {
  tutti_err err =
      tu_fields_check(proto, mesh->node, "mesh_descriptors",
                      " name arch device_topology host_topology channels express_connections* express_links* ");
  if (err == TUTTI_OK) err = read_device_topology(proto, mesh);
  if (err == TUTTI_OK) err = read_arch(proto, mesh);
  if (err == TUTTI_OK)
    err = tu_field_channels(proto, mesh->node, TU_CHANNELS_MAX / (2 * mesh->dims), &mesh->links, &mesh->relaxed);
  return err;
}

/* ---- graphs ---- */

/* An instance is a whole mesh or graph; only the ends of connections are parts of one. */
static tutti_err check_whole(const struct tu_mesh_proto *proto, uint32_t reference) {
  static const char *const parts[] = {"device_id", "mesh", "graph"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    if (tu_yaml_find(proto->tree, reference, parts[i]) != TU_YAML_NONE)
      return tu_yaml_refuse(proto->tree, reference, proto->error, "a whole instance, not a part of one");
  return TUTTI_OK;
}

static tutti_err read_graph(struct tu_mesh_proto *proto, struct tu_mesh_template *graph) {
  tutti_err err = tu_fields_check(proto, graph->node, "graph_descriptors",
                                  " name type instances* connections* graph_topology channels ");
  if (err != TUTTI_OK) return err;
  struct tu_field at = {0};
  graph->member_first = proto->member_count;
  for (uint32_t i = tu_field_next(proto, graph->node, "instances", &at); i != TU_YAML_NONE;
       i = tu_field_next(proto, graph->node, "instances", &at)) {
    struct tu_mesh_member member = {.node = i};
    uint32_t reference;
    err = tu_fields_check(proto, i, "instances", " mesh graph switch ");
    if (err == TUTTI_OK) err = tu_field_reference(proto, i, &reference, &member.of, &member.id);
    if (err != TUTTI_OK) return err;
    err = check_whole(proto, reference);
    if (err != TUTTI_OK) return err;
    bool is_graph = proto->templates[member.of].graph;
    if (graph->member_count > 0 && proto->templates[proto->members[graph->member_first].of].graph != is_graph)
      return tu_yaml_refuse(proto->tree, i, proto->error, "instances that are all meshes, or all graphs");
    if (graph->member_count == TU_CHIPS_MAX)
      return tu_yaml_refuse(proto->tree, i, proto->error, "no more than 65536 instances");
    proto->members = tu_arena_grow(&proto->cluster->arena, proto->members, proto->member_count, &proto->member_capacity,
                                   sizeof *proto->members);
    proto->members[proto->member_count++] = member;
    graph->member_count++;
  }
  return graph->member_count > 0 ? TUTTI_OK : refuse_missing(proto, graph->node, "instances");
}

/* Where each instance's chips begin. A graph is sized once all that it is made of is; what is still not after as many rounds as
 * graphs may nest is made of itself, or nests deeper. */
static void size_graphs(struct tu_mesh_proto *proto) {
  for (uint32_t round = 0; round < TU_GRAPH_DEPTH_MAX; round++)
    for (uint32_t t = 0; t < proto->template_count; t++) {
      struct tu_mesh_template *graph = &proto->templates[t];
      size_t chips = 0;
      bool all = !graph->sized;
      for (uint32_t m = 0; m < graph->member_count && all; m++) {
        struct tu_mesh_member *member = &proto->members[graph->member_first + m];
        const struct tu_mesh_template *of = &proto->templates[member->of];
        member->first = (uint32_t)chips;
        all = of->sized;
        chips = tu_min(chips + of->chips, TU_CHIPS_MAX + 1);
      }
      if (!all) continue;
      graph->chips = (uint32_t)chips;
      graph->sized = true;
    }
}

struct keyed {
  uint32_t id, of, member;
};
static int compare_keyed(const void *left, const void *right) {
  const struct keyed *a = left, *b = right;
  if (a->id != b->id) return a->id < b->id ? -1 : 1;
  if (a->of != b->of) return a->of < b->of ? -1 : 1;
  return a->member < b->member ? -1 : a->member > b->member;
}

/* An index of each graph's instances. No two have the same id, unless they are of different templates. */
static tutti_err index_members(struct tu_mesh_proto *proto) {
  struct keyed *keyed = tu_arena_allocate(&proto->cluster->arena, proto->member_count + 1, sizeof *keyed);
  proto->by_id = tu_arena_allocate(&proto->cluster->arena, proto->member_count + 1, sizeof *proto->by_id);
  tutti_err err = TUTTI_OK;
  for (uint32_t t = 0; t < proto->template_count && err == TUTTI_OK; t++) {
    uint32_t first = proto->templates[t].member_first, count = proto->templates[t].member_count;
    for (uint32_t i = 0; i < count; i++) {
      const struct tu_mesh_member *m = &proto->members[first + i];
      keyed[i] = (struct keyed){m->id, m->of, first + i};
    }
    qsort(keyed, count, sizeof *keyed, compare_keyed);
    for (uint32_t i = 0; i < count && err == TUTTI_OK; i++) {
      proto->by_id[first + i] = keyed[i].member;
      if (i > 0 && keyed[i].id == keyed[i - 1].id && keyed[i].of == keyed[i - 1].of)
        err = tu_yaml_refuse(proto->tree, proto->members[keyed[i].member].node, proto->error,
                             "an instance whose id no other of this graph has");
    }
  }
  tu_arena_free(&proto->cluster->arena, keyed);
  return err;
}

/* ---- the file ---- */

static tutti_err read_templates(struct tu_mesh_proto *proto, bool graph) {
  const char *field = graph ? "graph_descriptors" : "mesh_descriptors";
  struct tu_field at = {0};
  uint32_t first = proto->template_count;
  for (uint32_t i = tu_field_next(proto, 0, field, &at); i != TU_YAML_NONE; i = tu_field_next(proto, 0, field, &at)) {
    struct tu_mesh_template t = {.node = i, .graph = graph};
    if (proto->template_count - first == TU_TEMPLATES_MAX)
      return tu_yaml_refuse(proto->tree, i, proto->error, "no more than 256 descriptors of a kind");
    tutti_err err = tu_yaml_is(proto->tree, i, TU_YAML_MAP, "a descriptor, { name: \"...\" ... }", proto->error);
    if (err == TUTTI_OK) err = tu_field_string(proto, i, "name", &t.name);
    if (err != TUTTI_OK) return err;
    for (uint32_t other = first; other < proto->template_count; other++)
      if (strcmp(proto->templates[other].name, t.name) == 0)
        return tu_yaml_refuse(proto->tree, tu_yaml_find(proto->tree, i, "name"), proto->error,
                              "a name that no other descriptor of the kind has");
    proto->templates = tu_arena_grow(&proto->cluster->arena, proto->templates, proto->template_count,
                                     &proto->template_capacity, sizeof *proto->templates);
    proto->templates[proto->template_count++] = t;
  }
  for (uint32_t t = first; t < proto->template_count; t++) {
    tutti_err err = graph ? read_graph(proto, &proto->templates[t]) : read_mesh(proto, &proto->templates[t]);
    if (err != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}

/* They say at which place in a machine a chip must be: no link. */
static tutti_err read_pinnings(const struct tu_mesh_proto *proto) {
  struct tu_field at = {0};
  uint32_t count = 0;
  for (uint32_t i = tu_field_next(proto, 0, "pinnings", &at); i != TU_YAML_NONE;
       i = tu_field_next(proto, 0, "pinnings", &at)) {
    tutti_err err = tu_fields_check(proto, i, "pinnings", " logical_fabric_node_id physical_asic_position ");
    if (err != TUTTI_OK) return err;
    count++;
  }
  if (count > 0)
    tu_cluster_note(proto->cluster, "%u pinning%s of a chip to a place in a machine: not used here", count,
                    count == 1 ? "" : "s");
  return TUTTI_OK;
}

static tutti_err read_top(struct tu_mesh_proto *proto) {
  const struct tu_yaml *y = proto->tree;
  uint32_t reference, id;
  tutti_err err = tu_field_message(proto, 0, "top_level_instance", &proto->top_node);
  if (err == TUTTI_OK && proto->top_node == TU_YAML_NONE) return refuse_missing(proto, 0, "top_level_instance");
  if (err == TUTTI_OK) err = tu_fields_check(proto, proto->top_node, "top_level_instance", " mesh graph switch ");
  if (err == TUTTI_OK) err = tu_field_reference(proto, proto->top_node, &reference, &proto->top, &id);
  if (err == TUTTI_OK) err = check_whole(proto, reference);
  if (err != TUTTI_OK) return err;
  const struct tu_mesh_template *top = &proto->templates[proto->top];
  if (!top->sized)
    return tu_yaml_refuse(y, top->node, proto->error, "graphs that nest no more than 16 deep, and not in a circle");
  if (top->chips > TU_CHIPS_MAX)
    return tu_yaml_refuse(y, proto->top_node, proto->error, "no more than 65536 chips in all");
  return TUTTI_OK;
}

/* The joints of all templates that the top one needs. */
static tutti_err read_reached(struct tu_mesh_proto *proto) {
  uint32_t *queue = tu_arena_allocate(&proto->cluster->arena, proto->template_count, sizeof *queue), count = 1;
  tutti_err err = TUTTI_OK;
  queue[0] = proto->top;
  proto->templates[proto->top].reached = true;
  for (uint32_t i = 0; i < count && err == TUTTI_OK; i++) {
    struct tu_mesh_template *t = &proto->templates[queue[i]];
    if (!t->graph) err = read_host_topology(proto, t);
    if (err == TUTTI_OK) err = tu_mesh_proto_joints(proto, t);
    for (uint32_t m = 0; m < t->member_count; m++) {
      uint32_t of = proto->members[t->member_first + m].of;
      if (!proto->templates[of].reached) queue[count++] = of;
      proto->templates[of].reached = true;
    }
  }
  tu_arena_free(&proto->cluster->arena, queue);
  return err;
}

tutti_err tu_mesh_proto_read(const struct tu_yaml *tree, struct tu_cluster *cluster, struct tu_error *error) {
  struct tu_mesh_proto proto = {.tree = tree, .cluster = cluster, .error = error};
  tutti_err err = tu_fields_check(
      &proto, 0, "the file", " mesh_descriptors* graph_descriptors* switch_descriptors* top_level_instance pinnings* ");
  if (err == TUTTI_OK) err = read_templates(&proto, false);
  if (err == TUTTI_OK) err = read_templates(&proto, true);
  if (err == TUTTI_OK) err = index_members(&proto);
  if (err == TUTTI_OK) size_graphs(&proto);
  if (err == TUTTI_OK) err = read_top(&proto);
  if (err == TUTTI_OK) err = read_pinnings(&proto);
  if (err == TUTTI_OK) err = read_reached(&proto);
  if (err == TUTTI_OK) err = tu_mesh_proto_build(&proto);
  tu_arena_free(&cluster->arena, proto.templates);
  tu_arena_free(&cluster->arena, proto.members);
  tu_arena_free(&cluster->arena, proto.by_id);
  tu_arena_free(&cluster->arena, proto.joints);
  return err;
}
