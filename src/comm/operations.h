/* operations.h: reduction operations that the program has created: in a table of the process, and for one communicator.
 * Ids are never reused. */
#ifndef TU_OPERATIONS_H
#define TU_OPERATIONS_H

#include "comm/comm.h"
#include "engine/kernels.h"

/* One more than the largest id of an operation. Ranks publish ids in 27 bits (facts.h). */
#define TU_OPS_END (1u << 27)

/* Copies the operation with the id `op` to *user. Returns false if `op` is not an operation of the process or of the
 * communicator. The caller holds the communicator. */
bool tu_user_op_find(const struct tutti_comm *comm, tutti_op op, struct tu_user_op *user);
/* Returns the name of an operation that a rank of the communicator uses. All ranks create the operations of the
 * communicator in the same order, so this rank knows their names. The caller holds the communicator; NULL: a
 * reader that is no rank, which does not know the names of the program's operations. */
const char *tu_op_name(const struct tutti_comm *comm, tutti_op op);

/* Adds an operation to a communicator, and sets *op to its id. Error: TUTTI_ERR_MEMORY, or TUTTI_ERR_ARGUMENT if all ids
 * have been used. The caller holds the communicator. */
tutti_err tu_comm_ops_add(struct tutti_comm *comm, const struct tu_user_op *user, tutti_op *op, struct tu_error *error);
/* Removes an operation. Returns false if the communicator has no such operation. The caller holds the communicator. */
bool tu_comm_ops_remove(struct tutti_comm *comm, tutti_op op);
void tu_comm_ops_destroy(struct tutti_comm *comm);

#endif
