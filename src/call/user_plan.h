/* user_plan.h: plans that a program has loaded. */
#ifndef TU_USER_PLAN_H
#define TU_USER_PLAN_H

#include "call/call.h"
#include "comm/comm.h"

/* Returns the plan behind the user's handle; *hash identifies it to other ranks. */
const struct tu_plan *tu_user_plan(const tutti_plan *plan, uint64_t *hash);
/* Returns the name of the plan, which is valid while the plan exists. */
const char *tu_user_plan_name(const tutti_plan *plan);
/* Returns TUTTI_ERR_ARGUMENT if the call cannot run the user's plan that it names. `views` states which bytes are the
 * call's input and output. */
tutti_err tu_user_plan_serves(const struct tutti_comm *comm, const tutti_call *call, const struct tu_call *views,
                              bool in_place, struct tu_error *error);

#endif
