/* pace.h: a simulated, slower wire for a communicator, for measurements. */
#ifndef TU_CALL_PACE_H
#define TU_CALL_PACE_H

#include "comm/comm.h"

/* From now on, messages from other ranks to this rank on the communicator arrive as over a wire of this speed, in bytes
 * per second; 0: no wire. The wire uses no CPU time of this rank, but it delivers messages only while this rank looks
 * at its channels (mover/pace.h). The caller holds the communicator. Errors: TUTTI_ERR_ARGUMENT (invalid speed, or a
 * request is open), TUTTI_ERR_MEMORY. */
tutti_err tu_comm_set_wire(struct tutti_comm *comm, double bytes_per_s, struct tu_error *error);

#endif
