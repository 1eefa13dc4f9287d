/* located.h: tensor arguments of one-sided calls: checks the tensors and finds the windows that hold them. */
#ifndef TU_LOCATED_H
#define TU_LOCATED_H

#include "onesided/far.h"
#include "onesided/window.h"
#include "tensor/map.h"

/* A tensor argument of a call, and the window and rank that hold the tensor. */
struct tu_located {
  const char *call, *name; /* names of the function and of the argument, for messages */
  tutti_tensor tensor;     /* copy of the argument (tu_tensor_take) */
  struct tu_map *map;
  size_t extent;               /* number of bytes that the tensor spans in memory */
  struct tutti_window *window; /* window that holds the tensor; NULL: the tensor is in no window */
  uint32_t rank;               /* rank whose part of the window holds the tensor */
  bool far;                    /* true: that rank runs on another host */
};

/* Checks the tensor and finds its window. Errors: TUTTI_ERR_ARGUMENT; TUTTI_ERR_MEMORY; the communicator's verdict
 * (its first failure) if the window's communicator has failed. The caller must call tu_located_close, also after an
 * error. */
tutti_err tu_located_open(struct tu_located *located, const char *call, const char *name, const tutti_tensor *tensor,
                          struct tu_error *error);
void tu_located_close(struct tu_located *located);
/* Returns true if the tensor has no elements; a call then moves nothing. */
bool tu_located_is_empty(const struct tu_located *located);
tutti_err tu_located_need_window(const struct tu_located *located, struct tu_error *error);
/* Returns the place of a tensor on another host (onesided/far.h). */
struct tu_far_memory tu_located_far(const struct tu_located *located);
/* Checks that tensors a and b have the same type and shape. Dimension 3 is compared only if also_rows is true. */
tutti_err tu_located_match(const struct tu_located *a, const struct tu_located *b, bool also_rows,
                           struct tu_error *error);

/* One side of a transfer: `rows` rows (indices of dimension 3) of a tensor, beginning at row number `row`. */
struct tu_end {
  const struct tu_located *located;
  size_t row, rows;
};
struct tu_region tu_end_region(const struct tu_end *end);
static inline struct tu_end tu_end_whole(const struct tu_located *located) {
  return (struct tu_end){located, 0, located->tensor.shape[3]};
}
/* Returns true if both sides are the same elements at the same addresses. */
bool tu_end_same(const struct tu_end *a, const struct tu_end *b);
/* Checks that the two sides of a transfer share no bytes; one side may lie in the gaps of the other. Errors:
 * TUTTI_ERR_ARGUMENT if they overlap; TUTTI_ERR_MEMORY if memory for the check cannot be allocated. */
tutti_err tu_end_apart(const struct tu_end *to, const struct tu_end *from, struct tu_error *error);

#endif
