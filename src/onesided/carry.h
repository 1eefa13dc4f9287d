/* carry.h: moves the data of one-sided calls, either directly or through tiles (small buffers of the user). */
#ifndef TU_CARRY_H
#define TU_CARRY_H

#include "onesided/located.h"
#include "onesided/staged.h"

/* Copies from[i] to to[i], for all i < count. All from[i] and to[i] have the same shape. Here and below, `stage`
 * describes the tiles through which the data moves, if any. Errors of these functions: TUTTI_ERR_MEMORY, and those of
 * communication with the host of a tensor, if that is another one. */
tutti_err tu_carry_pairs(const struct tu_stage *stage, const struct tu_end *to, const struct tu_end *from,
                         uint32_t count, struct tu_error *error);
/* Copies `from` to each to[i], for all i < count. */
tutti_err tu_carry_cast(const struct tu_stage *stage, const struct tu_end *to, uint32_t count,
                        const struct tu_end *from, struct tu_error *error);
/* Adds the elements of `from` to those of `to`. The addition of each element is atomic. */
tutti_err tu_carry_add(const struct tu_stage *given, const struct tu_end *to, const struct tu_end *from,
                       struct tu_error *error);
/* Adds the rows of a matrix to a region of a tensor whose data begins at `data`, atomically. */
void tu_carry_add_rows(tutti_datatype type, const struct tu_region *region, void *data, const void *rows, size_t pitch);
bool tu_carry_can_add(tutti_datatype type);
/* Computes to = from[0] op from[1] op ..., rounded after each operation. Error: TUTTI_ERR_MEMORY if the accumulator
 * (a tile for the result) cannot be allocated. */
tutti_err tu_carry_reduce(const struct tu_stage *stage, const struct tu_end *to, const struct tu_end *from,
                          uint32_t count, tutti_op op, struct tu_error *error);

#endif
