/* operations.h: reduction operations that the program has created, in a table of the process. Ids are never reused. */
#ifndef TU_OPERATIONS_H
#define TU_OPERATIONS_H

#include "engine/kernels.h"

/* Copies the operation with the id `op` to *user. Returns false if `op` is not an operation that the program has
 * created. */
bool tu_user_op_find(tutti_op op, struct tu_user_op *user);

#endif
