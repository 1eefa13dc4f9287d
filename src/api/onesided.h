/* onesided.h: what one-sided calls are made of: tensors found in windows, staging, and how data is carried from one
 * side to the other, straight or through tiles. */
#ifndef TU_ONESIDED_H
#define TU_ONESIDED_H

#include "api/staged.h"
#include "api/window.h"
#include "engine/kernels.h"
#include "tensor/slide.h"

/* ---- located.c ---- */

/* A tensor of a call. */
struct tu_located {
  const char *call, *name; /* for sentences */
  const tutti_tensor *tensor;
  struct tu_map *map;
  size_t extent;               /* bytes of memory that it takes */
  struct tutti_window *window; /* NULL: in none */
  uint32_t rank;               /* whose part of it */
};

/* Checks the tensor and finds it. ARGUMENT, or the verdict of a window whose communicator has failed. To be closed in
 * any case. */
tutti_err tu_located_open(struct tu_located *located, const char *call, const char *name, const tutti_tensor *tensor,
                          struct tu_error *error);
void tu_located_close(struct tu_located *located);
/* Nothing is in it: nothing happens. */
bool tu_located_is_empty(const struct tu_located *located);
tutti_err tu_located_need_window(const struct tu_located *located, struct tu_error *error);
/* Are both of one type, and of one shape, but perhaps for dimension 3? */
tutti_err tu_located_match(const struct tu_located *a, const struct tu_located *b, bool also_rows,
                           struct tu_error *error);

/* A part of a tensor: so many rows of dimension 3 from `row` on. */
struct tu_end {
  const struct tu_located *located;
  size_t row, rows;
};
struct tu_region tu_end_region(const struct tu_end *end);
static inline struct tu_end tu_end_whole(const struct tu_located *located) {
  return (struct tu_end){located, 0, located->tensor->shape[3]};
}
/* Is one the very place of the other, element by element? */
bool tu_end_same(const struct tu_end *a, const struct tu_end *b);
/* Do they share bytes? Tensors may lie in each other's gaps. MEMORY if there is none to find out. */
tutti_err tu_end_apart(const struct tu_end *to, const struct tu_end *from, struct tu_error *error);

/* ---- staging.c ---- */

/* What passes through tiles. */
struct tu_passage {
  const char *call;
  tutti_datatype type;
  const size_t *shape;
  const struct tu_located *located; /* tiles may not lie in their memory */
  size_t located_count;
};
/* Takes a user's staging apart. accumulator: a tile more, or NULL. */
tutti_err tu_staging_open(struct tu_stage *stage, const struct tu_passage *passage, const tutti_staging *staging,
                          void *accumulator, struct tu_error *error);

/* ---- carry.c ---- */

/* to[i] = from[i], all of the same extent. */
void tu_carry_pairs(const struct tu_stage *stage, const struct tu_end *to, const struct tu_end *from, uint32_t count);
/* to[i] = from. */
void tu_carry_cast(const struct tu_stage *stage, const struct tu_end *to, uint32_t count, const struct tu_end *from);
/* to += from, each element atomically. */
void tu_carry_add(const struct tu_stage *stage, const struct tu_end *to, const struct tu_end *from);
bool tu_carry_can_add(tutti_datatype type);
/* to = from[0] op from[1] op ..., rounded after each. MEMORY if there is none for the accumulator. */
tutti_err tu_carry_reduce(const struct tu_stage *stage, const struct tu_end *to, const struct tu_end *from,
                          uint32_t count, tutti_op op, struct tu_error *error);

/* ---- events.c ---- */

/* Waits for what a call is to wait for. Its own event is over when it returns: that is what it is told here. */
tutti_err tu_events_begin(const char *call, const tutti_events *events, struct tu_error *error);

/* A copy of one run of memory. */
struct tu_flat {
  void *to;
  const void *from;
  size_t bytes;
};
/* Is it of this process? */
tutti_err tu_session_check(const tutti_session *session, const char *call, struct tu_error *error);
tutti_event tu_session_start(tutti_session *session, const struct tu_flat *flat);

#endif
