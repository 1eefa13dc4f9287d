/* overlap.h: finds whether the buffers of a call share bytes. */
#ifndef TU_OVERLAP_H
#define TU_OVERLAP_H

#include "call/call.h"

/* Returns TUTTI_ERR_ARGUMENT if two blocks of the receive buffer share a byte; TUTTI_ERR_MEMORY if out of memory. */
tutti_err tu_blocks_apart(const struct tu_view *v, const char *collective, struct tu_error *error);
/* Returns true if every block has the same address and length in both buffers. If all blocks are empty: returns true if
 * both buffers begin at the same address. */
bool tu_views_coincide(const struct tu_view *a, const void *a_data, const struct tu_view *b, const void *b_data);
/* Returns TUTTI_ERR_ARGUMENT if a block of the receive buffer shares a byte with a block of the send buffer;
 * TUTTI_ERR_MEMORY if out of memory. Block `but` of the send buffer is ignored (UINT32_MAX: no block is ignored). The
 * blocks of the receive buffer must not overlap each other. */
tutti_err tu_buffers_apart(const struct tu_call *call, uint32_t but, const char *collective, struct tu_error *error);

#endif
