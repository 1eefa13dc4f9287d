/* operations.c: reduction operations that the program has created. Those of the process stay until it ends. Those of a
 * communicator are in a list that is ordered by id. */
#include "comm/operations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "comm/failure.h"

#define USER_OPS_MAX 1024u
static struct tu_user_op user_ops[USER_OPS_MAX];
static _Atomic uint32_t user_op_count;
static pthread_mutex_t user_op_lock = PTHREAD_MUTEX_INITIALIZER;

tutti_err tutti_op_create(tutti_op_function *function, void *context, bool commutative, const char *name,
                          tutti_op *op) {
  struct tu_error error;
  if (!function || !op) return tu_refuse_null("tutti_op_create", function ? "op" : "function");
  pthread_mutex_lock(&user_op_lock);
  uint32_t index = atomic_load(&user_op_count);
  if (index < USER_OPS_MAX) {
    user_ops[index] = (struct tu_user_op){function, context, commutative, ""};
    snprintf(user_ops[index].name, sizeof user_ops[index].name, "%s", name ? name : "user");
    atomic_store(&user_op_count, index + 1);
    *op = TUTTI_USER_OPS + index;
  }
  pthread_mutex_unlock(&user_op_lock);
  if (index < USER_OPS_MAX) return TUTTI_OK;
  tu_fail(&error, TUTTI_ERR_ARGUMENT,
          "tutti_op_create: all %u user operations are in use; create each operation once and keep it", USER_OPS_MAX);
  return tu_thread_error(&error);
}

/* An operation of a communicator. */
struct tu_comm_op {
  tutti_op id;
  struct tu_user_op user;
};

/* Returns the position of the operation in the communicator's list, or the length of the list. */
static uint32_t position_of(const struct tutti_comm *comm, tutti_op op) {
  uint32_t low = 0, high = comm->op_count; /* invariant: the operation, if it exists, is in [low, high) */
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (comm->ops[middle].id == op) return middle;
    if (comm->ops[middle].id < op) low = middle + 1;
    else high = middle;
  }
  return comm->op_count;
}

bool tu_user_op_find(const struct tutti_comm *comm, tutti_op op, struct tu_user_op *user) {
  if (op >= TUTTI_COMM_OPS) {
    uint32_t at = position_of(comm, op);
    if (at == comm->op_count) return false;
    *user = comm->ops[at].user;
    return true;
  }
  if (op < TUTTI_USER_OPS || op - TUTTI_USER_OPS >= atomic_load(&user_op_count)) return false;
  *user = user_ops[op - TUTTI_USER_OPS];
  return true;
}

const char *tu_op_name(const struct tutti_comm *comm, tutti_op op) {
  if (!comm || op < TUTTI_COMM_OPS) return tutti_op_name(op);
  const uint32_t at = position_of(comm, op);
  return at < comm->op_count ? comm->ops[at].user.name : tutti_op_name(op);
}

const char *tutti_op_name(tutti_op op) {
  if (op < TU_OPS) return tu_operations[op].name;
  if (op >= TUTTI_COMM_OPS) return "user";
  return op >= TUTTI_USER_OPS && op - TUTTI_USER_OPS < atomic_load(&user_op_count) ? user_ops[op - TUTTI_USER_OPS].name
                                                                                   : "unknown";
}

tutti_err tu_comm_ops_add(struct tutti_comm *comm, const struct tu_user_op *user, tutti_op *op,
                          struct tu_error *error) {
  if (comm->ops_created == TU_OPS_END - TUTTI_COMM_OPS)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%u operations were created on the communicator, which has no further id for one",
                   comm->ops_created);
  struct tu_comm_op *grown = comm->ops;
  if (comm->op_count == comm->op_capacity)
    grown = tu_try_grow(comm->ops, comm->op_count, &comm->op_capacity, sizeof *comm->ops);
  if (!grown) return tu_fail_memory(error, sizeof *comm->ops, "an operation");
  comm->ops = grown;
  *op = TUTTI_COMM_OPS + comm->ops_created++;
  comm->ops[comm->op_count++] = (struct tu_comm_op){*op, *user};
  return TUTTI_OK;
}

bool tu_comm_ops_remove(struct tutti_comm *comm, tutti_op op) {
  uint32_t at = position_of(comm, op);
  if (at == comm->op_count) return false;
  memmove(comm->ops + at, comm->ops + at + 1, (comm->op_count - at - 1) * sizeof *comm->ops);
  comm->op_count--;
  return true;
}

void tu_comm_ops_destroy(struct tutti_comm *comm) {
  free(comm->ops);
  comm->ops = NULL;
  comm->op_count = comm->op_capacity = 0;
}
