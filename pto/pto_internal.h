/* pto_internal.h: functions that the files of this folder share: error messages with a position in the text, and
 * types. */
#ifndef TU_PTO_INTERNAL_H
#define TU_PTO_INTERNAL_H

#include "pto/pto.h"

/* Sets *error to a message that begins with "NAME:LINE:COLUMN: " and returns TUTTI_ERR_ARGUMENT. */
tutti_err tu_pto_fail(const struct tu_pto_module *module, struct tu_pto_position position, struct tu_error *error,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Size of the buffer into which tu_pto_spell writes a type as text. tu_pto_spell returns this buffer. */
enum { TU_PTO_SPELLED = 160 };
const char *tu_pto_spell(const struct tu_pto_module *module, const struct tu_pto_type *type,
                         char spelled[TU_PTO_SPELLED]);

/* ---- types, see pto_types.c ---- */

/* Base-2 logarithm of the maximum size of a dimension, and of the maximum bytes of a memref. With this limit the sum of
 * two sizes always fits in 64 bits. */
enum { TU_PTO_SIZE_MAX_LOG2 = 46 };

/* Fills the unknown parts of `type` from `said`, another type that the text gives to the same value. Returns false if
 * the two types contradict each other. Both types must have the same kind. */
bool tu_pto_merge(struct tu_pto_module *module, struct tu_pto_type *type, const struct tu_pto_type *said);
/* Returns true if two tile types are equal. Neither type may be elided (written <...>). */
bool tu_pto_same_tile(const struct tu_pto_type *a, const struct tu_pto_type *b);
/* In all types of the module, replaces each name of a size whose number is known by the number. Returns
 * TUTTI_ERR_ARGUMENT if a type becomes invalid. */
tutti_err tu_pto_close_names(struct tu_pto_module *module, struct tu_error *error);

/* Returns NULL if the type is valid; otherwise a text that states what is expected of it, for an error message. */
const char *tu_pto_why_not(const struct tu_pto_type *type);

/* Returns true if a value of this integer type can represent the number. In this case stores the number in *number. */
bool tu_pto_fits(const struct tu_pto_type *type, bool negative, uint64_t magnitude, int64_t *number);

/* ---- building a module ---- */

/* Returns the index in module->names of the name of a size; adds the name if it is new. */
uint32_t tu_pto_size_name(struct tu_pto_module *module, const char *name);
/* Adds a value that has no type yet, and returns its index. The value's name must be new. */
uint32_t tu_pto_add_value(struct tu_pto_module *module, const char *name, enum tu_pto_origin origin,
                          struct tu_pto_position position);
void tu_pto_add_operand(struct tu_pto_module *module, const struct tu_pto_operand *operand);

#endif
