/* draw_tensor.h: shows the memory layout of a tensor: the matrix of its last two dimensions, and the memory beside it.
 * The functions only append to a text. Their time is linear in the number of elements, padding included. */
#ifndef TU_DRAW_TENSOR_H
#define TU_DRAW_TENSOR_H

#include "base/text.h"
#include "tensor/map.h"

#define TU_DRAW_CELLS_MAX 4096u

struct tu_draw_tensor {
  const tutti_tensor *tensor;
  const char *title; /* title of the picture, in one line; NULL: no title */
  /* Meaning of the colours. If blocks > 0, the colour shows the block of an element: dimension `axis` (0 to 4) is
   * divided into `blocks` blocks. If blocks = 0, the colour shows the element's page. If one_block is true, all
   * elements have the colour of block number `block`, because the tensor is one block of a larger tensor. */
  uint32_t blocks, axis, block;
  bool one_block;
};

/* Appends the picture as SVG. Returns TUTTI_ERR_ARGUMENT if the tensor is invalid, has too many elements, or has a
 * block-float datatype. */
tutti_err tu_draw_tensor_svg(const struct tu_draw_tensor *what, struct tu_text *text, struct tu_error *error);
/* Appends a table as plain text: for each element, its position in memory, counted in elements. Returns the same
 * errors as tu_draw_tensor_svg. */
tutti_err tu_draw_tensor_text(const struct tu_draw_tensor *what, struct tu_text *text, struct tu_error *error);

#endif
