/* comm_create.h: creates and destroys communicators. */
#ifndef TU_COMM_CREATE_H
#define TU_COMM_CREATE_H

#include "comm/comm.h"

/* Creates an endpoint (through which a rank reaches the memory of other ranks) for a communicator with this rank as
 * its only rank. */
tutti_err tu_endpoint_alone(struct tu_transport **t, struct tu_error *error);

#define TU_JOIN_TIMEOUT_MS 60000

/* Creates a communicator over an endpoint, and adds a reference to the endpoint. Waits at most timeout_ms until all
 * ranks of the host have mapped the shared memory, and then at most timeout_ms until the leader (the communicator's
 * lowest rank on this host) has created the shared block. */
tutti_err tu_comm_create(struct tu_transport *t, const uint32_t members[], uint32_t ranks, uint32_t rank,
                         uint64_t comm_id, int timeout_ms, struct tutti_comm **comm, struct tu_error *error);
/* Frees the communicator. Releases the communicator's shared memory only if in_order is true: no rank uses this memory
 * any more. */
void tu_comm_destroy(struct tutti_comm *comm, bool in_order);
/* Removes two objects from the communicator: the mover, which moves its messages, and the reference to the endpoint.
 * From now on the caller owns both objects. */
void tu_comm_forget_mover(struct tutti_comm *comm);
void tu_comm_drop_endpoint(struct tu_transport *t);

#endif
