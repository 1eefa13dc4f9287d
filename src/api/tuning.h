/* tuning.h: the selection table of a world communicator, which selects algorithms. */
#ifndef TU_API_TUNING_H
#define TU_API_TUNING_H

#include "comm/comm.h"

/* Loads the selection table of this process: the file that TUTTI_TUNING names, or a file in the configuration folders,
 * and TUTTI_ALGORITHM. If there is neither, *tuning is NULL. */
tutti_err tu_tuning_load(struct tu_tuning **tuning, struct tu_error *error);
/* Collective over a new world communicator: all ranks use the selection table that rank 0 finds. A failure becomes the
 * world's verdict (its first failure). */
tutti_err tu_tuning_agree(struct tutti_comm *world, int timeout_ms);

#endif
