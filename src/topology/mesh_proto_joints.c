/* mesh_proto_joints.c: reads the links that do not belong to the grid of a mesh: express connections within a mesh, and
 * connections between the instances of a graph. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/mesh_proto.h"

/* A range of chips of a template, counted from the template's first chip. */
struct run {
  uint32_t first, count;
};

/* Adds a joint (links between two ranges of chips). All joints together may have at most TU_LINKS_MAX links, which
 * limits the memory that a file can request. */
static tutti_err add_joint(struct tu_mesh_proto *proto, uint32_t node, const struct tu_joint *joint) {
  proto->joint_links += joint->links;
  if (proto->joint_links > TU_LINKS_MAX)
    return tu_yaml_fail(proto->tree, node, proto->error, "the connections have more than 2^20 links in all");
  proto->joints = tu_arena_grow(&proto->cluster->arena, proto->joints, proto->joint_count, &proto->joint_capacity,
                                sizeof *proto->joints);
  proto->joints[proto->joint_count++] = *joint;
  return TUTTI_OK;
}

/* ---- express connections ---- */

static tutti_err add_express(struct tu_mesh_proto *proto, const struct tu_mesh_template *mesh, uint32_t node,
                             uint32_t from, uint32_t to) {
  struct tu_joint joint = {.first = {from, to}, .count = {1, 1}, .links = mesh->links, .relaxed = mesh->relaxed};
  return add_joint(proto, node, &joint);
}

static tutti_err read_express_connections(struct tu_mesh_proto *proto, const struct tu_mesh_template *mesh) {
  struct tu_field at = {0};
  tutti_err err = TUTTI_OK;
  for (uint32_t i = tu_field_next(proto, mesh->node, "express_connections", &at); err == TUTTI_OK && i != TU_YAML_NONE;
       i = tu_field_next(proto, mesh->node, "express_connections", &at)) {
    uint32_t from, to;
    err = tu_fields_check(proto, i, "express_connections", " src dst ");
    if (err == TUTTI_OK) err = tu_field_number(proto, i, "src", 0, mesh->chips - 1, &from);
    if (err == TUTTI_OK) err = tu_field_number(proto, i, "dst", 0, mesh->chips - 1, &to);
    if (err == TUTTI_OK && from == to) err = tu_yaml_refuse(proto->tree, i, proto->error, "two different chips");
    if (err == TUTTI_OK) err = add_express(proto, mesh, i, from, to);
  }
  return err;
}

/* Express links (extra links within a mesh) along one dimension: they divide the dimension into blocks of `step` chips
 * and link the two ends of each block. */
struct pattern {
  uint32_t dim, start, step;
  bool wraps;
};

static tutti_err read_pattern(const struct tu_mesh_proto *proto, const struct tu_mesh_template *mesh, uint32_t node,
                              struct pattern *p) {
  static const char *const kinds[2] = {"LINE", "RING"};
  uint32_t map;
  tutti_err err = tu_fields_check(proto, node, "express_links", " dim_idx pattern wrap ");
  if (err == TUTTI_OK) err = tu_field_number(proto, node, "dim_idx", 0, mesh->dims - 1, &p->dim);
  if (err == TUTTI_OK) err = tu_field_message(proto, node, "pattern", &map);
  if (err == TUTTI_OK && map == TU_YAML_NONE)
    err = tu_yaml_refuse(proto->tree, node, proto->error, "a message with a field 'pattern'");
  if (err == TUTTI_OK) err = tu_fields_check(proto, map, "pattern", " start step ");
  if (err != TUTTI_OK) return err;
  uint32_t size = mesh->size[p->dim];
  if (size < 2)
    return tu_yaml_refuse(proto->tree, node, proto->error, "'dim_idx' of a dimension with two chips or more");
  err = tu_field_number(proto, map, "start", 0, size - 1, &p->start);
  if (err == TUTTI_OK) err = tu_field_number(proto, map, "step", 2, size, &p->step);
  p->wraps = mesh->ring[p->dim];
  if (err == TUTTI_OK) err = tu_field_choice(proto, node, "wrap", kinds, &p->wraps);
  return err;
}

/* Divides the dimension into blocks of `step` chips, beginning at chip `start`. In each line of chips along the
 * dimension, links the first and the last chip of each block. A block that crosses the edge is used only if the pattern
 * wraps. */
static tutti_err add_pattern(struct tu_mesh_proto *proto, const struct tu_mesh_template *mesh, uint32_t node,
                             const struct pattern *p) {
  uint32_t size = mesh->size[p->dim], stride = 1;
  for (uint32_t d = p->dim + 1; d < mesh->dims; d++) stride *= mesh->size[d];
  for (uint32_t block = 0; block < size; block += p->step) {
    uint32_t from = p->start + block, to = from + p->step - 1;
    if (to >= size && !p->wraps) break;
    for (uint32_t line = 0; line < mesh->chips / size; line++) {
      uint32_t first = line / stride * stride * size + line % stride;
      tutti_err err = add_express(proto, mesh, node, first + from % size * stride, first + to % size * stride);
      if (err != TUTTI_OK) return err;
    }
  }
  return TUTTI_OK;
}

static tutti_err read_express_links(struct tu_mesh_proto *proto, const struct tu_mesh_template *mesh) {
  struct tu_field at = {0};
  tutti_err err = TUTTI_OK;
  for (uint32_t i = tu_field_next(proto, mesh->node, "express_links", &at); err == TUTTI_OK && i != TU_YAML_NONE;
       i = tu_field_next(proto, mesh->node, "express_links", &at)) {
    struct pattern pattern = {0};
    err = read_pattern(proto, mesh, i, &pattern);
    if (err == TUTTI_OK) err = add_pattern(proto, mesh, i, &pattern);
  }
  return err;
}

/* ---- connections ---- */

/* Finds the instance in the graph that has this id and the template number `of`. Returns its index in proto's `members`;
 * TU_NONE: there is no such instance. */
static uint32_t find_member(const struct tu_mesh_proto *proto, const struct tu_mesh_template *graph, uint32_t id,
                            uint32_t of) {
  uint32_t low = 0, high = graph->member_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const struct tu_mesh_member *m = &proto->members[proto->by_id[graph->member_first + middle]];
    if (m->id < id || (m->id == id && m->of < of)) low = middle + 1;
    else high = middle;
  }
  if (low == graph->member_count) return TU_NONE;
  uint32_t member = proto->by_id[graph->member_first + low];
  return proto->members[member].id == id && proto->members[member].of == of ? member : TU_NONE;
}

/* Reads one end of a connection: an instance of the graph, or a part of an instance. A part can be an instance inside
 * the instance, at any depth, or a single chip. */
static tutti_err read_end(const struct tu_mesh_proto *proto, const struct tu_mesh_template *graph, uint32_t node,
                          struct run *run) {
  const struct tu_yaml *y = proto->tree;
  tutti_err err = tu_fields_check(proto, node, "nodes", " mesh graph switch ");
  run->first = 0;
  for (uint32_t map = node; err == TUTTI_OK;) {
    uint32_t reference, of, id, chip;
    if ((err = tu_field_reference(proto, map, &reference, &of, &id)) != TUTTI_OK) return err;
    uint32_t member = find_member(proto, graph, id, of);
    if (member == TU_NONE) return tu_yaml_refuse(y, reference, proto->error, "an instance of this graph");
    run->first += proto->members[member].first;
    run->count = proto->templates[of].chips;
    graph = &proto->templates[of];
    if (graph->graph) {
      bool deeper = false;
      deeper |= tu_yaml_find(y, reference, "mesh") != TU_YAML_NONE;
      deeper |= tu_yaml_find(y, reference, "graph") != TU_YAML_NONE;
      if (!deeper) return TUTTI_OK;
      map = reference;
      continue;
    }
    if (tu_yaml_find(y, reference, "device_id") == TU_YAML_NONE) return TUTTI_OK;
    if ((err = tu_field_number(proto, reference, "device_id", 0, run->count - 1, &chip)) != TUTTI_OK) return err;
    *run = (struct run){run->first + chip, 1};
    return TUTTI_OK;
  }
  return err;
}

static tutti_err join(struct tu_mesh_proto *proto, uint32_t node, const struct run runs[2], uint32_t links,
                      bool relaxed) {
  const struct run *a = &runs[0], *b = &runs[1];
  if (a->first < b->first + b->count && b->first < a->first + a->count)
    return tu_yaml_refuse(proto->tree, node, proto->error, "two ends without a chip in common");
  struct tu_joint joint = {.first = {a->first, b->first}, .count = {a->count, b->count}, .links = links};
  joint.relaxed = relaxed;
  joint.loose = a->count > 1 || b->count > 1;
  return add_joint(proto, node, &joint);
}

static tutti_err read_connection(struct tu_mesh_proto *proto, const struct tu_mesh_template *graph, uint32_t node) {
  static const char *const truth[2] = {"false", "true"};
  struct run runs[2] = {{0}};
  struct tu_field at = {0};
  uint32_t ends = 0, links = 0;
  bool relaxed = false, directional = false;
  tutti_err err = tu_fields_check(proto, node, "connections",
                                  " nodes* channels directional assign_z_direction routing_direction* ");
  for (uint32_t i = tu_field_next(proto, node, "nodes", &at); err == TUTTI_OK && i != TU_YAML_NONE;
       i = tu_field_next(proto, node, "nodes", &at)) {
    if (ends == 2) return tu_yaml_fail(proto->tree, i, proto->error, "the connection has more than two nodes");
    err = read_end(proto, graph, i, &runs[ends++]);
  }
  if (err == TUTTI_OK && ends < 2)
    err = tu_yaml_refuse(proto->tree, node, proto->error, "a connection with two nodes { ... }");
  if (err == TUTTI_OK) err = tu_field_channels(proto, node, TU_LINKS_MAX, &links, &relaxed);
  if (err == TUTTI_OK) err = tu_field_choice(proto, node, "directional", truth, &directional);
  if (err == TUTTI_OK && directional)
    err = tu_yaml_refuse(proto->tree, node, proto->error,
                         "a connection that is not directional (links work in both directions)");
  return err == TUTTI_OK ? join(proto, node, runs, links, relaxed) : err;
}

static struct run run_of(const struct tu_mesh_proto *proto, const struct tu_mesh_template *graph, uint32_t member) {
  const struct tu_mesh_member *m = &proto->members[graph->member_first + member];
  return (struct run){m->first, proto->templates[m->of].chips};
}

/* Reads a graph's topology: ALL_TO_ALL, or RING in the order of the file. In the current format, the topology is a
 * message. If it has no field 'channels', that of the graph applies. In the first version of the format, the topology
 * is a single word, and the field of the graph always applies. */
static tutti_err read_layout(struct tu_mesh_proto *proto, const struct tu_mesh_template *graph, uint32_t layout) {
  static const char *const kinds[2] = {"ALL_TO_ALL", "RING"};
  bool word = proto->tree->nodes[layout].kind == TU_YAML_SCALAR, ring = false, relaxed;
  uint32_t map = word ? graph->node : layout, count = graph->member_count, links;
  const char *field = word ? "graph_topology" : "layout_type";
  tutti_err err =
      word ? TUTTI_OK : tu_fields_check(proto, layout, "graph_topology", " layout_type channels assign_z_direction ");
  if (err == TUTTI_OK && tu_yaml_find(proto->tree, map, field) == TU_YAML_NONE)
    err = tu_yaml_refuse(proto->tree, map, proto->error, "a message with a field 'layout_type'");
  if (err == TUTTI_OK) err = tu_field_choice(proto, map, field, kinds, &ring);
  if (err == TUTTI_OK && tu_yaml_find(proto->tree, map, "channels") == TU_YAML_NONE) map = graph->node;
  if (err == TUTTI_OK) err = tu_field_channels(proto, map, TU_LINKS_MAX, &links, &relaxed);
  for (uint32_t i = 0; i < count && err == TUTTI_OK; i++) {
    /* ALL_TO_ALL links instance i to all later instances; RING links it to the next one. The link from the last to the
     * first instance of a ring follows below. */
    uint32_t end = ring ? (uint32_t)tu_min(i + 2, count) : count;
    for (uint32_t j = i + 1; j < end && err == TUTTI_OK; j++)
      err = join(proto, layout, (struct run[]){run_of(proto, graph, i), run_of(proto, graph, j)}, links, relaxed);
  }
  if (err == TUTTI_OK && ring && count > 2)
    err = join(proto, layout, (struct run[]){run_of(proto, graph, count - 1), run_of(proto, graph, 0)}, links, relaxed);
  return err;
}

tutti_err tu_mesh_proto_joints(struct tu_mesh_proto *proto, struct tu_mesh_template *of) {
  struct tu_field at = {0};
  tutti_err err = TUTTI_OK;
  of->joint_first = proto->joint_count;
  if (!of->graph) {
    err = read_express_connections(proto, of);
    if (err == TUTTI_OK) err = read_express_links(proto, of);
  } else {
    uint32_t layout = tu_yaml_find(proto->tree, of->node, "graph_topology");
    uint32_t first = tu_field_next(proto, of->node, "connections", &at);
    if (layout != TU_YAML_NONE && first != TU_YAML_NONE)
      return tu_yaml_refuse(proto->tree, first, proto->error, "either 'connections' or 'graph_topology', not both");
    if (layout != TU_YAML_NONE) err = read_layout(proto, of, layout);
    for (uint32_t i = first; err == TUTTI_OK && i != TU_YAML_NONE;
         i = tu_field_next(proto, of->node, "connections", &at))
      err = read_connection(proto, of, i);
  }
  of->joint_count = proto->joint_count - of->joint_first;
  return err;
}
