/* yaml.h: reads a YAML text into a tree, by means of libyaml. Each node stores the number of its line. The tree
 * supports what cluster files need: one document of maps, lists and scalars. An alias is an error, because aliases
 * could make the tree much larger than the text. The nesting depth is limited. Time is linear in the size of the
 * text. */
#ifndef TU_YAML_H
#define TU_YAML_H

#include "base/base.h"

enum tu_yaml_kind { TU_YAML_SCALAR, TU_YAML_LIST, TU_YAML_MAP };

#define TU_YAML_NONE UINT32_MAX

struct tu_yaml_node {
  enum tu_yaml_kind kind;
  uint32_t line;
  bool quoted;       /* true: the scalar is a string of protobuf's text format (proto_text.h) */
  const char *chars; /* text of a scalar */
  /* first: of a list: its first item; of a map: its first key. next: the node behind this one in the same list or map;
   * in a map, each key is followed by its value. TU_YAML_NONE: there is none. */
  uint32_t first, next;
  uint32_t count; /* number of items of a list, or of key-value pairs of a map */
};

struct tu_yaml {
  const char *name; /* name of the text (usually its file) for error messages; owned by the caller */
  struct tu_yaml_node *nodes;
  uint32_t node_count, node_capacity;
  char *chars; /* memory that holds the texts of all scalars */
};

/* Reads a YAML text into a tree whose root is node 0. The caller frees the tree with tu_yaml_fini. */
tutti_err tu_yaml_read(const char *data, size_t bytes, const char *name, struct tu_yaml *yaml, struct tu_error *error);
void tu_yaml_fini(struct tu_yaml *yaml);

/* Returns the value at a key of a map; TU_YAML_NONE if the key is missing or `map` is TU_YAML_NONE. If the key
 * occurs twice, returns its first value. */
uint32_t tu_yaml_find(const struct tu_yaml *yaml, uint32_t map, const char *key);

/* Returns TUTTI_ERR_ARGUMENT with the message "name:line: expected ..., found ...", where `found` describes the
 * node. */
tutti_err tu_yaml_refuse(const struct tu_yaml *yaml, uint32_t node, struct tu_error *error, const char *expected);
/* Returns TUTTI_ERR_ARGUMENT with the message "name:line: problem", with the line of the node. */
tutti_err tu_yaml_fail(const struct tu_yaml *yaml, uint32_t node, struct tu_error *error, const char *problem);

/* Reads a whole decimal number from 0 to max. `what` describes the number in the error message, for example "a
 * channel". */
tutti_err tu_yaml_uint(const struct tu_yaml *yaml, uint32_t node, uint64_t max, const char *what, uint64_t *number,
                       struct tu_error *error);
/* Checks that the node has the given kind (map, list or scalar). Otherwise returns the error of tu_yaml_refuse, which
 * names the line. */
tutti_err tu_yaml_is(const struct tu_yaml *yaml, uint32_t node, enum tu_yaml_kind kind, const char *expected,
                     struct tu_error *error);

/* Iterates over the items of a list:
 *   for (uint32_t i = tu_yaml_first(y, list); i != TU_YAML_NONE; i = tu_yaml_next(y, i)) */
static inline uint32_t tu_yaml_first(const struct tu_yaml *yaml, uint32_t node) { return yaml->nodes[node].first; }
static inline uint32_t tu_yaml_next(const struct tu_yaml *yaml, uint32_t node) { return yaml->nodes[node].next; }

#endif
