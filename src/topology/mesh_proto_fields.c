/* mesh_proto_fields.c: the fields of messages: finds fields, reads numbers, names and choices, and reports errors in
 * them. */
#include <stdio.h>
#include <string.h>

#include "topology/mesh_proto.h"

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

/* Looks for the name in `known`, a list such as " name arch dims* ". Returns true if it is there; *repeats is true if a
 * * follows it. */
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
      tu_cluster_note(proto->cluster, "line %u: '%.60s' in %s is unknown and ignored", node->line, node->chars,
                      message);
      continue;
    }
    if (repeats) continue;
    if (tu_yaml_find(y, map, node->chars) != value)
      return tu_yaml_refuse(y, key, proto->error, "a field that occurs only once");
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

tutti_err tu_field_missing(const struct tu_mesh_proto *proto, uint32_t map, const char *name) {
  char expected[80];
  snprintf(expected, sizeof expected, "a message with a field '%s'", name);
  return tu_yaml_refuse(proto->tree, map, proto->error, expected);
}

tutti_err tu_field_number_at(const struct tu_mesh_proto *proto, uint32_t node, const char *name, uint32_t low,
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
  if (node == TU_YAML_NONE) return low == 0 ? TUTTI_OK : tu_field_missing(proto, map, name);
  return tu_field_number_at(proto, node, name, low, high, number);
}

tutti_err tu_field_string(const struct tu_mesh_proto *proto, uint32_t map, const char *name, const char **chars) {
  uint32_t node = tu_yaml_find(proto->tree, map, name);
  char expected[80];
  *chars = "";
  if (node == TU_YAML_NONE) return tu_field_missing(proto, map, name);
  const struct tu_yaml_node *n = &proto->tree->nodes[node];
  if (n->kind == TU_YAML_SCALAR && n->quoted && n->chars[0]) {
    *chars = n->chars;
    return TUTTI_OK;
  }
  snprintf(expected, sizeof expected, "'%s', a name in quotation marks", name);
  return tu_yaml_refuse(proto->tree, node, proto->error, expected);
}

/* Reads the scalar at a node as one of two words; *second is true for the second word. */
tutti_err tu_field_choice_at(const struct tu_mesh_proto *proto, uint32_t node, const char *const words[2],
                             bool *second) {
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
  return node == TU_YAML_NONE ? TUTTI_OK : tu_field_choice_at(proto, node, words, second);
}

tutti_err tu_field_channels(const struct tu_mesh_proto *proto, uint32_t map, uint32_t max, uint32_t *count,
                            bool *relaxed) {
  static const char *const policies[2] = {"STRICT", "RELAXED"};
  uint32_t channels;
  tutti_err err = tu_field_message(proto, map, "channels", &channels);
  *relaxed = false;
  if (err == TUTTI_OK && channels == TU_YAML_NONE) return tu_field_missing(proto, map, "channels");
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
    return tu_yaml_refuse(y, map, proto->error, "a mesh or a graph (switches are not supported)");
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
