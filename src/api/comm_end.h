/* comm_end.h: cleans up after closed communicators. */
#ifndef TU_COMM_END_H
#define TU_COMM_END_H

#include "comm/comm.h"

/* Looks at the closed communicators that use endpoint t (access to the host's shared memory). Releases the memory of
 * those that no rank uses any more. */
void tu_comm_sweep(const struct tu_transport *t);
/* Empties the list of closed communicators in a child of fork(), because they belong to the parent process. */
void tu_comm_sweep_reset(void);

#endif
