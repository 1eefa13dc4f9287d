/* npy.h: NumPy's .npy files: a header with datatype and shape, then the elements of one array.
 *
 * The reader accepts versions 1 and 2, little-endian elements in C order, and datatypes that both NumPy and this
 * library have. The writer writes version 1. */
#ifndef TU_NPY_H
#define TU_NPY_H

#include "base/base.h"

struct tu_text;

struct tu_npy {
  tutti_datatype type;
  uint32_t dims; /* number of dimensions; 0: a single element without a dimension */
  size_t shape[TUTTI_DIMS];
  size_t bytes;     /* size of all elements, in bytes */
  const void *data; /* the elements, not owned by this struct */
};

/* Reads the array in a file's content of `bytes` bytes, without a copy: npy->data points into `file`. `name` names the
 * file in messages. Returns TUTTI_ERR_ARGUMENT if the content is no .npy file, or a kind of .npy file that the reader
 * does not accept. */
tutti_err tu_npy_read(const void *file, size_t bytes, const char *name, struct tu_npy *npy, struct tu_error *error);
/* Writes the array to a file. npy->bytes is ignored. Returns TUTTI_ERR_ARGUMENT if NumPy has no such datatype,
 * TUTTI_ERR_SYSTEM if the file cannot be written. */
tutti_err tu_npy_write(const char *path, const struct tu_npy *npy, struct tu_error *error);

/* Appends the first two parts of a .npy file, its prefix and its header, to the text `header`. The text may contain NUL
 * bytes. The datatype must be one that NumPy has. */
void tu_npy_header(const struct tu_npy *npy, struct tu_text *header);
/* Returns true if NumPy has a corresponding datatype. */
bool tu_npy_has(tutti_datatype type);

#endif
