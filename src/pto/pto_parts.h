/* pto_parts.h: what the files of this folder share: sentences with a place, and types. */
#ifndef TU_PTO_PARTS_H
#define TU_PTO_PARTS_H

#include "pto/pto.h"

/* ARGUMENT, "name:line:column: ..." */
tutti_err tu_pto_fail(const struct tu_pto_module *module, struct tu_pto_place place, struct tu_error *error,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* A type as a sentence has it. */
enum { TU_PTO_SPELLED = 160 };
const char *tu_pto_spell(const struct tu_pto_module *module, const struct tu_pto_type *type,
                         char spelled[TU_PTO_SPELLED]);

/* ---- types, see pto_types.c ---- */

enum { TU_PTO_SIZE_MAX_LOG2 = 46 }; /* bytes of a memref, and any size: sums and products of two stay in 64 bits */

/* The first has what the second adds, where that is open; false if they contradict each other. Both are of one kind. */
bool tu_pto_merge(struct tu_pto_module *module, struct tu_pto_type *type, const struct tu_pto_type *said);
/* Of tiles that are not elided. */
bool tu_pto_same_tile(const struct tu_pto_type *a, const struct tu_pto_type *b);
/* Puts the numbers of names into all types. ARGUMENT if a type becomes impossible by that. */
tutti_err tu_pto_close_names(struct tu_pto_module *module, struct tu_error *error);

/* Why there can be no such type, or NULL. */
const char *tu_pto_why_not(const struct tu_pto_type *type);

/* Does the type, which is one of whole numbers, hold this one? */
bool tu_pto_fits(const struct tu_pto_type *type, bool negative, uint64_t magnitude, int64_t *number);

/* "!pto.memref", "index": how types of this kind begin. */
extern const char *const tu_pto_kinds[];

/* ---- building ---- */

/* The number of a name that types give a size, in ->names; a new one is added. */
uint32_t tu_pto_size_name(struct tu_pto_module *module, const char *name);
/* Without type; its name must be new. */
uint32_t tu_pto_add_value(struct tu_pto_module *module, const char *name, enum tu_pto_origin origin,
                          struct tu_pto_place place);
void tu_pto_add_operand(struct tu_pto_module *module, const struct tu_pto_operand *operand);

#endif
