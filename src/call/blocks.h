/* blocks.h: tutti_call.send_blocks and recv_blocks, which give the address of each block of a buffer. */
#ifndef TU_CALL_BLOCKS_H
#define TU_CALL_BLOCKS_H

#include "call/call.h"

/* Gives both views the addresses of the call's blocks, if the call has them and this rank has the buffer. Error:
 * TUTTI_ERR_ARGUMENT, if the collective does not cut the buffer into blocks, or if the call says in two ways where the
 * blocks lie. */
tutti_err tu_blocks_take(const tutti_call *call, struct tu_view *in, struct tu_view *out, struct tu_error *error);

/* Returns TUTTI_ERR_ARGUMENT if a block that is not empty has no address. `which`: "send" or "recv". */
tutti_err tu_blocks_check(const struct tu_view *view, const char *collective, const char *which,
                          struct tu_error *error);

#endif
