/* types.h: tables of the properties of datatypes and built-in operations. */
#ifndef TU_TYPES_H
#define TU_TYPES_H

#include "base/base.h"

/* Upper bounds of the public enums: every value of an enum is below its bound. Not every number below the bound is a
 * value of the enum. */
#define TU_COLLECTIVES 66
#define TU_DATATYPES 34
#define TU_OPS 12
_Static_assert(TU_COLLECTIVES > TUTTI_RECV && TU_DATATYPES > TUTTI_BFP4 && TU_OPS > TUTTI_PREMUL_SUM, "bounds");

struct tu_datatype {
  const char *name; /* short name, such as "f32"; NULL: this index is not a datatype */
  /* Size of an item in bytes. An item is one element, or one group of block-float elements with its exponent. */
  uint8_t bytes;
  /* For block floats: number of elements of an item, which share an exponent; 0: an item is one element. */
  uint8_t elements;
  bool floating;
  bool is_signed;
  bool boolean; /* true: any byte other than 0 is true; operations give 0 or 1, and there is no average */
};
extern const struct tu_datatype tu_datatypes[TU_DATATYPES];

/* Returns true if `type` is a datatype of the table. `type` may be any number, also a negative one. TUTTI_BYTES is not
 * in the table: its elements have no size of their own and no built-in operations. */
static inline bool tu_is_datatype(tutti_datatype type) {
  return (uint32_t)type < TU_DATATYPES && tu_datatypes[type].name;
}
/* Returns the datatype whose enum value follows that of `type`, or TU_DATATYPES if `type` is the last one. For loops
 * over all datatypes. */
static inline tutti_datatype tu_datatype_next(tutti_datatype type) {
  uint32_t next = (uint32_t)type + 1;
  while (next < TU_DATATYPES && !tu_datatypes[next].name) next++;
  return (tutti_datatype)next;
}

struct tu_operation {
  const char *name; /* short name, such as "sum" */
  bool integers_only;
};
extern const struct tu_operation tu_operations[TU_OPS];

/* Returns the number of elements of an item: 16 for block floats, else 1. */
static inline size_t tu_item_elements(tutti_datatype type) {
  return tu_datatypes[type].elements > 0 ? tu_datatypes[type].elements : 1;
}

/* Returns true if the bits of a reduction depend on the order of its operands: sums, averages and products of floats, all
 * operations of block floats, whose exponent is rounded with each of them, and operations of the program. */
static inline bool tu_op_is_ordered(tutti_op op, tutti_datatype type) {
  if (op >= TU_OPS || !tu_is_datatype(type)) return true;
  const bool sums = op == TUTTI_SUM || op == TUTTI_AVG || op == TUTTI_PREMUL_SUM || op == TUTTI_PROD;
  return tu_datatypes[type].elements > 0 || (sums && tu_datatypes[type].floating);
}

/* Finds a datatype by its name ("f32"); returns false if there is none. */
bool tu_datatype_find(const char *name, tutti_datatype *type);
/* Finds a built-in operation by its name ("sum"); returns false if there is none. */
bool tu_operation_find(const char *name, tutti_op *op);

#endif
