/* groups.h: locality groups: the ranks of a communicator that share a cache or a host. The selection of algorithms uses
 * the groups (tutti-tuning(5)). */
#ifndef TU_GROUPS_H
#define TU_GROUPS_H

#include "comm/comm.h"
#include "locality/locality.h"

/* Sets the locality groups of the world communicator from the cores on which its ranks run. */
tutti_err tu_groups_begin(struct tutti_comm *world, const struct tu_locality *locality, struct tu_error *error);
/* Sets the locality groups of a communicator whose ranks are a subset of the parent's ranks. */
tutti_err tu_groups_inherit(struct tutti_comm *child, const struct tutti_comm *parent, struct tu_error *error);

#endif
