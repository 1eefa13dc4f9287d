/* comm_ops.c: operations of a communicator: tutti_comm_op_create and tutti_comm_op_free. Requests have copies of their
 * operation, so they do not notice when it is freed. */
#include <stdio.h>

#include "base/sized.h"
#include "call/again.h"
#include "call/resolve.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "comm/operations.h"

static tutti_err create(tutti_comm *comm, const tutti_op_options *o, tutti_op *op) {
  struct tu_error error;
  struct tu_user_op user = {.function = o->function, .context = o->context, .commutative = o->commutative};
  snprintf(user.name, sizeof user.name, "%s", o->name ? o->name : "user");
  if (tu_comm_ops_add(comm, &user, op, &error) == TUTTI_OK) return TUTTI_OK;
  (void)tu_fail_in("tutti_comm_op_create", &error);
  return tu_thread_error(&error);
}

tutti_err tutti_comm_op_create_sized(tutti_comm *comm, const tutti_op_options *options, size_t options_bytes,
                                     tutti_op *op) {
  static const char name[] = "tutti_comm_op_create";
  struct tu_visit visit;
  struct tu_error error;
  tutti_op_options known;
  if (!comm || !options || !op) return tu_refuse_null(name, !comm ? "comm" : options ? "op" : "options");
  if (tu_sized_take(&tu_sized_op_options, options, options_bytes, &known, name, &error) != TUTTI_OK)
    return tu_thread_error(&error);
  if (!known.function) return tu_refuse_null(name, "options->function");
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(name);
  tutti_err err = create(comm, &known, op);
  tu_leave(&visit);
  return err;
}

/* Lets later calls with this operation be checked again, and refused. */
static void forget(tutti_comm *comm, tutti_op op) {
  comm->memo->valid = false;
  tu_again_forget_op(comm, op);
}

tutti_err tutti_comm_op_free(tutti_comm *comm, tutti_op op) {
  static const char name[] = "tutti_comm_op_free";
  struct tu_visit visit;
  struct tu_error error;
  if (!comm) return tu_refuse_null(name, "comm");
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(name);
  bool found = tu_comm_ops_remove(comm, op);
  if (found) forget(comm, op);
  tu_leave(&visit);
  if (found) return TUTTI_OK;
  tu_fail(&error, TUTTI_ERR_ARGUMENT,
          "%s: operation %u is not one of this communicator, or is freed; expected one from tutti_comm_op_create", name,
          op);
  return tu_thread_error(&error);
}
