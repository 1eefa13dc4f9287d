/* pace.c: a simulated, slower wire for a communicator, for measurements. */
#include "call/pace.h"

#include <math.h>

#include "call/again.h"
#include "mover/pace.h"

tutti_err tu_comm_set_wire(struct tutti_comm *comm, double bytes_per_s, struct tu_error *error) {
  if (bytes_per_s < 0 || !isfinite(bytes_per_s))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "simulated wire: invalid speed %g; expected a positive number of bytes per second, or 0 for no wire",
                   bytes_per_s);
  if (comm->open_requests > 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "simulated wire: its speed cannot change while %u requests are open",
                   comm->open_requests);
  tu_again_forget(comm); /* the fast path reads messages directly, past the simulated wire */
  tu_pace_remove(comm->mover);
  bool laid = bytes_per_s <= 0 || tu_pace_lay(comm->mover, bytes_per_s);
  comm->pace = comm->mover->pace;
  return laid ? TUTTI_OK
              : tu_fail(error, TUTTI_ERR_MEMORY,
                        "simulated wire: out of memory: cannot allocate the state of its channels");
}
