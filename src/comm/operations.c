/* operations.c: reduction operations that the program has created. */
#include "comm/operations.h"

#include <stdio.h>

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

bool tu_user_op_find(tutti_op op, struct tu_user_op *user) {
  if (op < TUTTI_USER_OPS || op - TUTTI_USER_OPS >= atomic_load(&user_op_count)) return false;
  *user = user_ops[op - TUTTI_USER_OPS];
  return true;
}

const char *tutti_op_name(tutti_op op) {
  if (op < TU_OPS) return tu_operations[op].name;
  return op >= TUTTI_USER_OPS && op - TUTTI_USER_OPS < atomic_load(&user_op_count) ? user_ops[op - TUTTI_USER_OPS].name
                                                                                   : "unknown";
}
