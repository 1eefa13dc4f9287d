/* mesh_proto.h: data shared by the reader of mesh graph descriptors in protobuf's text format (mesh_proto.c) and the
 * builder of the described cluster (mesh_proto_build.c). Private to topology/.
 *
 * A descriptor has templates: meshes, graphs of meshes, and graphs of graphs. The field top_level_instance names a
 * template. The cluster is an instance of this template, and contains instances of other templates. A template that is
 * not used is ignored.
 *
 * The chips of an instance have consecutive numbers. So an instance inside a template is a range of the template's
 * chips. A joint is a number of links between two instances. Each end of a joint is a range of chips, too. */
#ifndef TU_MESH_PROTO_H
#define TU_MESH_PROTO_H

#include "topology/cluster_internal.h"

enum {
  TU_TEMPLATES_MAX = 256, /* maximum number of templates of each kind */
  TU_GRAPH_DEPTH_MAX = 16 /* maximum depth of graphs inside graphs */
};

struct tu_mesh_template {
  uint32_t node; /* node that describes the template, in the tree read from the text */
  const char *name;
  bool graph;
  /* true: `chips` (number of chips) has been computed; a number above TU_CHIPS_MAX is stored as TU_CHIPS_MAX + 1 */
  bool sized;
  bool reached;
  uint32_t chips;

  /* For a mesh: number of dimensions, and the size of each. The first is the one whose coordinate changes slowest from
   * chip to chip. */
  uint32_t dims, size[TU_GRID_DIMS];
  bool ring[TU_GRID_DIMS];
  uint32_t links; /* number of links between two neighbouring chips */
  bool relaxed;

  uint32_t member_first, member_count; /* a graph's instances: first index and number of entries in `members` */
  /* If the top template contains this template: first index and number of its entries in `joints`. In these, chips are
   * counted from the template's first chip. */
  uint32_t joint_first, joint_count;
};

struct tu_mesh_member {
  uint32_t id, node;
  uint32_t of;    /* index in `templates` of the instance's template */
  uint32_t first; /* number of the instance's first chip, counted from the graph's first chip */
};

struct tu_mesh_proto {
  const struct tu_yaml *tree;
  struct tu_cluster *cluster;
  struct tu_error *error;
  char arch[TU_ARCH_BYTES];
  uint32_t template_count, template_capacity;
  struct tu_mesh_template *templates;
  uint32_t member_count, member_capacity;
  struct tu_mesh_member *members; /* the instances of all graphs, in the order of the file */
  uint32_t *by_id; /* indexes into `members`; those of one graph are adjacent and sorted by the instances' ids */
  uint32_t joint_count, joint_capacity;
  struct tu_joint *joints;
  size_t joint_links; /* total number of links of all joints (links between two ranges of chips) */
  uint32_t top, top_node;
};

/* mesh_proto_build.c: creates the chips and links of the template `top`, whose size and joints have been computed. */
tutti_err tu_mesh_proto_build(const struct tu_mesh_proto *proto);

/* mesh_proto_joints.c: reads the joints (additional links) of a mesh (express connections) or of a graph
 * (connections). */
tutti_err tu_mesh_proto_joints(struct tu_mesh_proto *proto, struct tu_mesh_template *of);

/* ---- fields (mesh_proto_fields.c) ---- */

/* Iterator over the values of a field. A field can have several values, because it occurs several times or because its
 * value is a list. */
struct tu_field {
  /* nodes of the tree. key: the current occurrence of the field; item: the current item, if the value is a list. Both
   * are 0 before the first value. */
  uint32_t key, item;
};
uint32_t tu_field_next(const struct tu_mesh_proto *proto, uint32_t map, const char *name, struct tu_field *at);

/* Checks that the fields of the message `map` are valid. `message` is the name of the message for errors. `known` lists
 * the valid fields, for example " name arch dims* "; * marks a field that may occur several times. An unknown field is
 * ignored, because the schema may grow, but a note tells the user its line. */
tutti_err tu_fields_check(const struct tu_mesh_proto *proto, uint32_t map, const char *message, const char *known);
/* Finds the message (a group of fields in { }) that is the value of the field `name`. *message is TU_YAML_NONE if the
 * field is missing. */
tutti_err tu_field_message(const struct tu_mesh_proto *proto, uint32_t map, const char *name, uint32_t *message);
/* Returns the error that the message `map` lacks a field of that name. */
tutti_err tu_field_missing(const struct tu_mesh_proto *proto, uint32_t map, const char *name);
/* tu_field_number_at reads the scalar at a node as a whole number from low to high; tu_field_choice_at reads it as one
 * of two words. `name` is the field's name for error messages. */
tutti_err tu_field_number_at(const struct tu_mesh_proto *proto, uint32_t node, const char *name, uint32_t low,
                             uint32_t high, uint32_t *number);
tutti_err tu_field_choice_at(const struct tu_mesh_proto *proto, uint32_t node, const char *const words[2],
                             bool *second);
/* Reads the field `name` as a whole number from low to high. If the field is missing, sets the number to 0 if low is 0;
 * otherwise this is an error. */
tutti_err tu_field_number(const struct tu_mesh_proto *proto, uint32_t map, const char *name, uint32_t low,
                          uint32_t high, uint32_t *number);
/* Reads the field `name` as a string. It is an error if the field is missing or the string is empty. */
tutti_err tu_field_string(const struct tu_mesh_proto *proto, uint32_t map, const char *name, const char **chars);
/* Reads the field `name` as one of two words; *second is true for the second word. If the field is missing, *second is
 * unchanged. */
tutti_err tu_field_choice(const struct tu_mesh_proto *proto, uint32_t map, const char *name, const char *const words[2],
                          bool *second);
/* Reads the field 'channels' of `map`: a message with the fields count (number of links) and policy (relaxed or
 * not). */
tutti_err tu_field_channels(const struct tu_mesh_proto *proto, uint32_t map, uint32_t max, uint32_t *count,
                            bool *relaxed);
/* Reads a reference to an instance in the message `map`, such as mesh { mesh_descriptor: "M0" mesh_id: 2 }. *reference:
 * the node of the part in braces; *of: index of the template that is named (here "M0"); *id: id of the instance (here
 * 2). */
tutti_err tu_field_reference(const struct tu_mesh_proto *proto, uint32_t map, uint32_t *reference, uint32_t *of,
                             uint32_t *id);

#endif
