/* carry.h: moves the data of one-sided calls, either directly or through tiles (small buffers of the user). */
#ifndef TU_CARRY_H
#define TU_CARRY_H

#include "onesided/located.h"
#include "onesided/staged.h"

/* Copies from[i] to to[i], for all i < count. All from[i] and to[i] have the same shape. Here and below, `stage`
 * describes the tiles through which the data moves, if any. */
void tu_carry_pairs(const struct tu_stage *stage, const struct tu_end *to, const struct tu_end *from, uint32_t count);
/* Copies `from` to each to[i], for all i < count. */
void tu_carry_cast(const struct tu_stage *stage, const struct tu_end *to, uint32_t count, const struct tu_end *from);
/* Adds the elements of `from` to those of `to`. The addition of each element is atomic. */
void tu_carry_add(const struct tu_stage *stage, const struct tu_end *to, const struct tu_end *from);
bool tu_carry_can_add(tutti_datatype type);
/* Computes to = from[0] op from[1] op ..., rounded after each operation. Error: TUTTI_ERR_MEMORY if the accumulator
 * (a tile for the result) cannot be allocated. */
tutti_err tu_carry_reduce(const struct tu_stage *stage, const struct tu_end *to, const struct tu_end *from,
                          uint32_t count, tutti_op op, struct tu_error *error);

#endif
