/* npy.h: NumPy's file of one array: a header that says type and shape, then the elements.
 *
 * Read: versions 1 and 2, little-endian, in C order, of the types that both NumPy and this library have. Written: version
 * 1. The array is not copied: `data` points into what was read. */
#ifndef TU_NPY_H
#define TU_NPY_H

#include "base/base.h"

struct tu_text;

struct tu_npy {
  tutti_datatype type;
  uint32_t dims; /* 0: one element without a dimension */
  size_t shape[TUTTI_DIMS];
  size_t bytes; /* of all elements */
  const void *data;
};

/* The array in `bytes` bytes of a file; `name` is for messages. ARGUMENT if it is none, or one that is not taken. */
tutti_err tu_npy_read(const void *file, size_t bytes, const char *name, struct tu_npy *npy, struct tu_error *error);
/* ARGUMENT if NumPy has no such type; ->bytes is not looked at. */
tutti_err tu_npy_write(const char *path, const struct tu_npy *npy, struct tu_error *error);

/* What goes before the elements. Its bytes may be 0. The type must be one that NumPy has. */
void tu_npy_header(const struct tu_npy *npy, struct tu_text *header);
bool tu_npy_has(tutti_datatype type);

#endif
