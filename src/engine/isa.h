/* isa.h: instruction sets for which the kernels are compiled. */
#ifndef TU_ISA_H
#define TU_ISA_H

#include "base/base.h"

/* Returns the name of instruction set number `index` of those that this machine has, the slowest first; NULL after the
 * last. The loops are compiled for several instruction sets. The fastest set of the machine is used, or the set that
 * TUTTI_ISA names; all sets give the same bits. */
const char *tu_isa_name(uint32_t index);
/* tu_isa_used returns the name of the instruction set in use. tu_isa_use selects another set for the whole process, and
 * returns false if this machine has no set of that name. */
const char *tu_isa_used(void);
bool tu_isa_use(const char *name);
/* Returns TUTTI_ERR_ENVIRONMENT if TUTTI_ISA names no instruction set of this machine. Reductions ignore such a name,
 * so the user must be told here. */
tutti_err tu_isa_check(struct tu_error *error);

#endif
