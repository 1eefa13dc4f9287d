/* pace.c: a communicator over a slower wire than it has, for measurements. */
#include <math.h>

#include "api/comm.h"

/* What has been prepared to go straight looks at lines without asking for the wire. */
static void forget_straight(tutti_comm *comm) {
  for (unsigned c = 0; c < TUTTI_COLLECTIVES; c++) {
    if (comm->again[c]) tu_request_release(comm->again[c]);
    comm->again[c] = NULL;
  }
}

static tutti_err set_wire(tutti_comm *comm, double bytes_per_s) {
  struct tu_error error;
  if (bytes_per_s >= 0 && isfinite(bytes_per_s) && comm->open_requests == 0) {
    forget_straight(comm);
    tu_pace_remove(comm->mover);
    bool laid = bytes_per_s <= 0 || tu_pace_lay(comm->mover, bytes_per_s);
    comm->pace = comm->mover->pace;
    if (laid) return TUTTI_OK;
    tu_fail(&error, TUTTI_ERR_MEMORY, "tutti_comm_set_wire: no memory for lines of its own; there is no wire");
    return tu_thread_error(&error);
  }
  if (comm->open_requests > 0)
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_comm_set_wire: %u requests are open; wait for them first",
            comm->open_requests);
  else
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_comm_set_wire: %g bytes a second; a positive number is expected, or 0 for no wire", bytes_per_s);
  return tu_thread_error(&error);
}

tutti_err tutti_comm_set_wire(tutti_comm *comm, double bytes_per_s) {
  struct tu_error error;
  struct tu_visit visit;
  if (!comm) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_comm_set_wire: the communicator is NULL");
    return tu_thread_error(&error);
  }
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_comm_set_wire");
  tutti_err err = set_wire(comm, bytes_per_s);
  tu_leave(&visit);
  return err;
}
