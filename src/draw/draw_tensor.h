/* draw_tensor.h: shows how a tensor lies in memory: the matrix of its last two dimensions, and the memory beside it. Pure:
 * writes into a text. Linear in elements, padding included. */
#ifndef TU_DRAW_TENSOR_H
#define TU_DRAW_TENSOR_H

#include "base/text.h"
#include "tensor/map.h"

#define TU_DRAW_CELLS_MAX 4096u

struct tu_draw_tensor {
  const tutti_tensor *tensor;
  const char *title; /* a line, or NULL */
  /* What a colour stands for: the block that an element is of if the tensor is cut into `blocks` along `axis` (0 to 4), or, with
   * blocks = 0, the page that it lies in; with one_block all of it is block number `block`, of so many. */
  uint32_t blocks, axis, block;
  bool one_block;
};

/* ARGUMENT: the tensor cannot be, or has too many elements to be shown, or is of block floats. */
tutti_err tu_draw_tensor_svg(const struct tu_draw_tensor *what, struct tu_text *text, struct tu_error *error);
/* The same as characters: each element's position in memory, in elements. */
tutti_err tu_draw_tensor_text(const struct tu_draw_tensor *what, struct tu_text *text, struct tu_error *error);

#endif
