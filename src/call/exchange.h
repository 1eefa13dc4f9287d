/* exchange.h: an allgather of a few bytes, for the library's own use. */
#ifndef TU_EXCHANGE_H
#define TU_EXCHANGE_H

#include "comm/comm.h"

/* Gathers `bytes` bytes of each rank: all[r] becomes the bytes at `mine` of rank r. Collective. */
tutti_err tu_comm_exchange(struct tutti_comm *comm, const void *mine, void *all, size_t bytes);

#endif
