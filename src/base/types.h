/* types.h: what the library knows of its data types and built-in operations, as tables. */
#ifndef TU_TYPES_H
#define TU_TYPES_H

#include "base/base.h"

struct tu_datatype {
  const char *name; /* "f32" */
  uint8_t bytes;    /* of an item, which is an element, or ... */
  uint8_t group;    /* ... so many, with an exponent that they share; 0: one */
  bool floating;
  bool is_signed;
};
extern const struct tu_datatype tu_datatypes[TUTTI_DATATYPES];

struct tu_operation {
  const char *name; /* "sum" */
  bool integers_only;
};
extern const struct tu_operation tu_operations[TUTTI_OPS];

/* Elements of an item. */
static inline size_t tu_datatype_group(tutti_datatype type) {
  return tu_datatypes[type].group > 0 ? tu_datatypes[type].group : 1;
}

/* By name; false if there is none of it. */
bool tu_datatype_find(const char *name, tutti_datatype *type);
bool tu_operation_find(const char *name, tutti_op *op);

#endif
