/* yaml.h: a YAML text as a tree, with the line of everything in it. libyaml parses; here is what cluster files need of it:
 * one document of maps, lists and scalars. Aliases are refused, so nothing can grow beyond the text, and nesting has a
 * limit. Linear. */
#ifndef TU_YAML_H
#define TU_YAML_H

#include "base/base.h"

enum tu_yaml_kind { TU_YAML_SCALAR, TU_YAML_LIST, TU_YAML_MAP };

#define TU_YAML_NONE UINT32_MAX

struct tu_yaml_node {
  enum tu_yaml_kind kind;
  uint32_t line;
  bool quoted;          /* a string of protobuf's text format (proto_text.h) */
  const char *chars;    /* of a scalar */
  uint32_t first, next; /* of a list's items, or a map's keys and values in turn; TU_YAML_NONE */
  uint32_t count;       /* items, or pairs of key and value */
};

struct tu_yaml {
  const char *name; /* of the text, for messages; the caller's */
  struct tu_yaml_node *nodes;
  uint32_t node_count, node_capacity;
  char *chars; /* of all scalars */
};

/* The root is node 0. */
tutti_err tu_yaml_read(const char *data, size_t bytes, const char *name, struct tu_yaml *yaml, struct tu_error *error);
void tu_yaml_fini(struct tu_yaml *yaml);

/* The value at a key of a map; TU_YAML_NONE if there is none, or `map` is none. Of a key that stands twice, the first. */
uint32_t tu_yaml_find(const struct tu_yaml *yaml, uint32_t map, const char *key);

/* "name:line: expected ..., found ..." */
tutti_err tu_yaml_refuse(const struct tu_yaml *yaml, uint32_t node, struct tu_error *error, const char *expected);

/* A whole number, in decimal. `what` it is, for the message: "a channel". */
tutti_err tu_yaml_uint(const struct tu_yaml *yaml, uint32_t node, uint64_t max, const char *what, uint64_t *number,
                       struct tu_error *error);
/* Is the node of that kind? If not, refuses it. */
tutti_err tu_yaml_is(const struct tu_yaml *yaml, uint32_t node, enum tu_yaml_kind kind, const char *expected,
                     struct tu_error *error);

/* Items of a list: for (uint32_t i = tu_yaml_first(y, list); i != TU_YAML_NONE; i = tu_yaml_next(y, i)). */
static inline uint32_t tu_yaml_first(const struct tu_yaml *yaml, uint32_t node) { return yaml->nodes[node].first; }
static inline uint32_t tu_yaml_next(const struct tu_yaml *yaml, uint32_t node) { return yaml->nodes[node].next; }

#endif
