/* mesh_proto.c: reads mesh graph descriptors in protobuf's text format: reads all fields and templates, and computes
 * how many chips each template has. */
#include "topology/mesh_proto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- meshes ---- */

/* Reads the sizes in the field 'dims': one to TU_GRID_DIMS dimensions. */
static tutti_err read_dims(const struct tu_mesh_proto *proto, uint32_t map, uint32_t size[TU_GRID_DIMS],
                           uint32_t *dims) {
  struct tu_field at = {0};
  *dims = 0;
  for (uint32_t i = tu_field_next(proto, map, "dims", &at); i != TU_YAML_NONE;
       i = tu_field_next(proto, map, "dims", &at)) {
    if (*dims == TU_GRID_DIMS) return tu_yaml_fail(proto->tree, i, proto->error, "the mesh has more than 4 dimensions");
    tutti_err err = tu_field_number_at(proto, i, "dims", 1, TU_CHIPS_MAX, &size[(*dims)++]);
    if (err != TUTTI_OK) return err;
  }
  return *dims > 0 ? TUTTI_OK : tu_field_missing(proto, map, "dims");
}

static tutti_err read_device_topology(struct tu_mesh_proto *proto, struct tu_mesh_template *mesh) {
  static const char *const kinds[2] = {"LINE", "RING"};
  uint32_t map, given = 0;
  tutti_err err = tu_field_message(proto, mesh->node, "device_topology", &map);
  if (err == TUTTI_OK && map == TU_YAML_NONE) return tu_field_missing(proto, mesh->node, "device_topology");
  if (err == TUTTI_OK) err = tu_fields_check(proto, map, "device_topology", " dims* dim_types* types* ");
  if (err == TUTTI_OK) err = read_dims(proto, map, mesh->size, &mesh->dims);
  if (err != TUTTI_OK) return err;
  size_t chips = 1;
  for (uint32_t d = 0; d < mesh->dims; d++)
    if ((chips *= mesh->size[d]) > TU_CHIPS_MAX)
      return tu_yaml_fail(proto->tree, map, proto->error, "the mesh has more than 65536 chips");
  mesh->chips = (uint32_t)chips;
  mesh->sized = true;
  const char *key = tu_yaml_find(proto->tree, map, "dim_types") != TU_YAML_NONE ? "dim_types" : "types";
  struct tu_field at = {0};
  for (uint32_t i = tu_field_next(proto, map, key, &at); i != TU_YAML_NONE; i = tu_field_next(proto, map, key, &at)) {
    if (given == mesh->dims)
      return tu_yaml_fail(proto->tree, i, proto->error, "the mesh has more dimension types than dimensions");
    if ((err = tu_field_choice_at(proto, i, kinds, &mesh->ring[given])) != TUTTI_OK) return err;
    if (mesh->ring[given] && mesh->size[given] < 3)
      tu_cluster_note(proto->cluster, "line %u: RING over %u chip%s adds no link", proto->tree->nodes[i].line,
                      mesh->size[given], mesh->size[given] == 1 ? "" : "s");
    given++;
  }
  return TUTTI_OK;
}

/* Reads how the mesh's chips are divided among hosts, and notes it for the user. This adds no links. */
static tutti_err read_host_topology(struct tu_mesh_proto *proto, const struct tu_mesh_template *mesh) {
  uint32_t map, hosts[TU_GRID_DIMS], dims;
  tutti_err err = tu_field_message(proto, mesh->node, "host_topology", &map);
  if (err != TUTTI_OK || map == TU_YAML_NONE) return err;
  err = tu_fields_check(proto, map, "host_topology", " dims* ");
  if (err == TUTTI_OK) err = read_dims(proto, map, hosts, &dims);
  if (err != TUTTI_OK) return err;
  bool fits = dims == mesh->dims;
  for (uint32_t d = 0; d < dims && fits; d++) fits = mesh->size[d] % hosts[d] == 0;
  if (!fits)
    return tu_yaml_refuse(
        proto->tree, map, proto->error,
        "as many dimensions as the mesh has, each a divisor of the size of that dimension of the mesh");
  tu_note_hosts(proto->cluster, mesh->name, hosts, dims);
  return TUTTI_OK;
}

/* Reads the architecture, which limits the number of dimensions. All meshes of a file must have the same
 * architecture. */
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
      return tu_yaml_refuse(y, node, proto->error,
                            "an architecture whose meshes have as many dimensions as `dims` gives");
    tu_copy_arch(&chip, known[i].written);
  }
  if (!found)
    tu_cluster_note(proto->cluster, "line %u: the architecture '%s' is unknown", y->nodes[node].line, chip.arch);
  if (proto->arch[0] && strcmp(proto->arch, chip.arch) != 0)
    return tu_yaml_refuse(y, node, proto->error, "the same architecture for all meshes of the file");
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

/* Returns an error if a reference names only a part of an instance. Parts are allowed only as ends of connections. */
static tutti_err check_whole(const struct tu_mesh_proto *proto, uint32_t reference) {
  static const char *const parts[] = {"device_id", "mesh", "graph"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    if (tu_yaml_find(proto->tree, reference, parts[i]) != TU_YAML_NONE)
      return tu_yaml_fail(
          proto->tree, reference, proto->error,
          "expected a whole mesh or graph here, found a part of one (device_id, mesh or graph inside it)");
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
      return tu_yaml_fail(proto->tree, i, proto->error, "the graph has more than 65536 instances");
    proto->members = tu_arena_grow(&proto->cluster->arena, proto->members, proto->member_count, &proto->member_capacity,
                                   sizeof *proto->members);
    proto->members[proto->member_count++] = member;
    graph->member_count++;
  }
  return graph->member_count > 0 ? TUTTI_OK : tu_field_missing(proto, graph->node, "instances");
}

/* Computes the number of chips of each graph, and the first chip of each instance. A round gives a size to each graph
 * whose instances all have sizes. After TU_GRAPH_DEPTH_MAX rounds, a graph without a size contains itself or is nested
 * too deep. */
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

/* Sorts each graph's instances by id. Two instances may have the same id only if they have different templates. */
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
                             "an instance whose id is unique in this graph");
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
      return tu_yaml_fail(proto->tree, i, proto->error, "the file has more than 256 descriptors of this kind");
    tutti_err err = tu_yaml_is(proto->tree, i, TU_YAML_MAP, "a descriptor, { name: \"...\" ... }", proto->error);
    if (err == TUTTI_OK) err = tu_field_string(proto, i, "name", &t.name);
    if (err != TUTTI_OK) return err;
    for (uint32_t other = first; other < proto->template_count; other++)
      if (strcmp(proto->templates[other].name, t.name) == 0)
        return tu_yaml_refuse(proto->tree, tu_yaml_find(proto->tree, i, "name"), proto->error,
                              "a name that no other descriptor of this kind has");
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

/* Checks the pinnings, and notes for the user that they are ignored. A pinning fixes a chip's position in a machine; it
 * adds no link. */
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
    tu_cluster_note(proto->cluster, "%u pinning%s of a chip to a position in a machine: ignored", count,
                    count == 1 ? "" : "s");
  return TUTTI_OK;
}

static tutti_err read_top(struct tu_mesh_proto *proto) {
  const struct tu_yaml *y = proto->tree;
  uint32_t reference, id;
  tutti_err err = tu_field_message(proto, 0, "top_level_instance", &proto->top_node);
  if (err == TUTTI_OK && proto->top_node == TU_YAML_NONE) return tu_field_missing(proto, 0, "top_level_instance");
  if (err == TUTTI_OK) err = tu_fields_check(proto, proto->top_node, "top_level_instance", " mesh graph switch ");
  if (err == TUTTI_OK) err = tu_field_reference(proto, proto->top_node, &reference, &proto->top, &id);
  if (err == TUTTI_OK) err = check_whole(proto, reference);
  if (err != TUTTI_OK) return err;
  const struct tu_mesh_template *top = &proto->templates[proto->top];
  if (!top->sized)
    return tu_yaml_fail(y, top->node, proto->error,
                        "the graph contains itself, or graphs that are nested more than 16 deep");
  if (top->chips > TU_CHIPS_MAX)
    return tu_yaml_fail(y, proto->top_node, proto->error, "the cluster has more than 65536 chips");
  return TUTTI_OK;
}

/* Reads the joints (additional links) of the top template and of all templates that it contains. */
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
