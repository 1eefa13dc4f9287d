/* sized.h: copies public structs between the library and programs that were compiled with another version of its
 * headers. New versions only add fields at the end of such a struct, and zero is the default of every field
 * (docs/ABI.md). */
#ifndef TU_SIZED_H
#define TU_SIZED_H

#include "base/base.h"

/* Describes a public struct to which later versions may add fields. */
struct tu_sized {
  const char *name, *size_name; /* names of the struct, and of the parameter or field that holds its size */
  /* size in bytes in version 0.1 (no program has a smaller struct); size in bytes in this version */
  size_t first_bytes, bytes;
};
extern const struct tu_sized tu_sized_options, tu_sized_op_options, tu_sized_call, tu_sized_tensor,
    tu_sized_channel_options, tu_sized_staging;

/* Copies the program's struct (theirs, of their_bytes bytes) to the library's struct (ours). If the program's struct is
 * shorter, sets the remaining fields of `ours` to zero. Error: TUTTI_ERR_ARGUMENT if their_bytes is no size that any
 * version of the struct can have, or if the program's struct is longer and its additional fields are not zero. `what`
 * is the beginning of the error message: the name of the function, or of the function and its argument. */
tutti_err tu_sized_take(const struct tu_sized *kind, const void *theirs, size_t their_bytes, void *ours,
                        const char *what, struct tu_error *error);
/* Returns true if the library can read the program's struct without a copy. This is the case if the struct has all
 * fields of this version, and all additional fields are zero. */
bool tu_sized_fits(const struct tu_sized *kind, const void *theirs, size_t their_bytes);
/* Returns TUTTI_ERR_ARGUMENT if their_bytes is no size that any version of the struct can have. `what` is the beginning
 * of the error message, as for tu_sized_take. */
tutti_err tu_sized_check(const struct tu_sized *kind, size_t their_bytes, const char *what, struct tu_error *error);
/* Copies the library's struct (ours) to the program's struct (theirs), whose size has been checked. If the program's
 * struct is shorter, the remaining fields of `ours` are not copied; if it is longer, its additional fields become
 * zero. */
void tu_sized_give(const struct tu_sized *kind, const void *ours, void *theirs, size_t their_bytes);

#endif
