/* mesh_proto.h: what is between reading a mesh graph descriptor in protobuf's text format (mesh_proto.c) and building the
 * cluster that it describes (mesh_proto_build.c). Private to topology/.
 *
 * A descriptor has templates: meshes, and graphs of meshes or of graphs. The template that top_level_instance names is made
 * real, with all below it; the others count for nothing. As an instance's chips stand in a row, an instance inside a template is
 * a run of the template's chips, and so is each end of what joins two instances. */
#ifndef TU_MESH_PROTO_H
#define TU_MESH_PROTO_H

#include "topology/cluster_parts.h"

enum {
  TU_TEMPLATES_MAX = 256, /* of each kind */
  TU_GRAPH_DEPTH_MAX = 16 /* graphs inside graphs */
};

struct tu_mesh_template {
  uint32_t node; /* in the tree */
  const char *name;
  bool graph;
  bool sized; /* `chips` is known; saturates at TU_CHIPS_MAX + 1 */
  bool reached;
  uint32_t chips;

  /* Of a mesh. Slowest dimension first. */
  uint32_t dims, size[TU_PLACE_DIMS];
  bool ring[TU_PLACE_DIMS];
  uint32_t links; /* of a pair */
  bool relaxed;

  uint32_t member_first, member_count; /* of a graph */
  uint32_t joint_first, joint_count;   /* of one that is reached; chips count from the template's first */
};

struct tu_mesh_member {
  uint32_t id, node;
  uint32_t of;    /* which template it is an instance of */
  uint32_t first; /* chip, from the graph's first */
};

struct tu_mesh_proto {
  const struct tu_yaml *tree;
  struct tu_cluster *cluster;
  struct tu_error *error;
  char arch[TU_ARCH_BYTES];
  uint32_t template_count, template_capacity;
  struct tu_mesh_template *templates;
  uint32_t member_count, member_capacity;
  struct tu_mesh_member *members; /* in the order of the file */
  uint32_t *by_id;                /* of each graph the members by id: indexes of members */
  uint32_t joint_count, joint_capacity;
  struct tu_joint *joints;
  size_t joint_links; /* of all joints */
  uint32_t top, top_node;
};

/* mesh_proto_build.c: chips and links of the template `top`, which is sized and has its joints. */
tutti_err tu_mesh_proto_build(const struct tu_mesh_proto *proto);

/* mesh_proto_joints.c: the joints of a mesh (express connections) or of a graph (connections). */
tutti_err tu_mesh_proto_joints(struct tu_mesh_proto *proto, struct tu_mesh_template *of);

/* ---- fields (mesh_proto.c) ---- */

/* The values of a field that may be given several times, singly or as lists. */
struct tu_field {
  uint32_t key, item; /* zero: before the first */
};
uint32_t tu_field_next(const struct tu_mesh_proto *proto, uint32_t map, const char *name, struct tu_field *at);

/* Looks at a message's fields: " name arch dims* " lists those that are known, * marks those that may be given again. What is
 * not known is noted with its line and passed over: the schema grows. */
tutti_err tu_fields_check(const struct tu_mesh_proto *proto, uint32_t map, const char *message, const char *known);
/* A message at a field; *message = TU_YAML_NONE: there is none. */
tutti_err tu_field_message(const struct tu_mesh_proto *proto, uint32_t map, const char *name, uint32_t *message);
/* A whole number from low to high; missing: `low` if that is 0, else refused. */
tutti_err tu_field_number(const struct tu_mesh_proto *proto, uint32_t map, const char *name, uint32_t low,
                          uint32_t high, uint32_t *number);
/* A string that is not empty. */
tutti_err tu_field_string(const struct tu_mesh_proto *proto, uint32_t map, const char *name, const char **chars);
/* One of two words. Missing: *second stays as it is. */
tutti_err tu_field_choice(const struct tu_mesh_proto *proto, uint32_t map, const char *name, const char *const words[2],
                          bool *second);
/* channels { count policy }, of `map`. */
tutti_err tu_field_channels(const struct tu_mesh_proto *proto, uint32_t map, uint32_t max, uint32_t *count,
                            bool *relaxed);
/* Which template a reference (mesh { mesh_descriptor mesh_id }) names, and of what kind. */
tutti_err tu_field_reference(const struct tu_mesh_proto *proto, uint32_t map, uint32_t *reference, uint32_t *of,
                             uint32_t *id);

#endif
