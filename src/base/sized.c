/* sized.c: copies public structs between the library and programs that were compiled with another version of its
 * headers, in which these structs may be shorter or longer. */
#include "base/sized.h"

#include <stddef.h>
#include <string.h>

#include <tutti/channel.h>
#include <tutti/tensor.h>
#include <tutti/window.h>

/* Checks that no padding follows the last field of these structs. A field that a later version adds could otherwise lie
 * in today's padding, whose content programs leave undefined. */
_Static_assert(sizeof(tutti_options) == offsetof(tutti_options, foreign) + sizeof(tutti_foreign), "padding");
_Static_assert(sizeof(tutti_call) == offsetof(tutti_call, folded) + sizeof(uint32_t), "padding");
_Static_assert(sizeof(tutti_op_options) == offsetof(tutti_op_options, name) + sizeof(void *), "padding");
_Static_assert(sizeof(tutti_tensor) == offsetof(tutti_tensor, layout) + sizeof(tutti_layout), "padding");
_Static_assert(sizeof(tutti_channel_options) == offsetof(tutti_channel_options, memory_bytes) + sizeof(size_t),
               "padding");
_Static_assert(sizeof(tutti_staging) == offsetof(tutti_staging, valid_cols) + sizeof(size_t), "padding");

/* Maximum size, in bytes, that a program may state for its struct. A larger number means that the program did not
 * initialize the field that holds the size. */
#define BYTES_MAX 4096u

/* Initializer of the description of a public struct. size_name: the field or parameter that holds the struct's size;
 * last_field: the struct's last field in version 0.1. */
#define SIZED(type, size_name, last_field) \
  { #type, size_name, offsetof(type, last_field) + sizeof(((type *)NULL)->last_field), sizeof(type) }
const struct tu_sized tu_sized_options = SIZED(tutti_options, "options_bytes", on_listen_context);
const struct tu_sized tu_sized_call = SIZED(tutti_call, "call_bytes", on_ready_context);
const struct tu_sized tu_sized_op_options = SIZED(tutti_op_options, "options_bytes", name);
const struct tu_sized tu_sized_tensor = SIZED(tutti_tensor, "struct_bytes", layout);
const struct tu_sized tu_sized_channel_options = SIZED(tutti_channel_options, "options_bytes", memory_bytes);
const struct tu_sized tu_sized_staging = SIZED(tutti_staging, "staging_bytes", valid_cols);

tutti_err tu_sized_check(const struct tu_sized *kind, size_t their_bytes, const char *what, struct tu_error *error) {
  if (their_bytes >= kind->first_bytes && their_bytes <= BYTES_MAX) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s is %zu; expected sizeof(%s), which is %zu or more%s", what,
                 kind->size_name, their_bytes, kind->name, kind->first_bytes,
                 kind == &tu_sized_tensor ? " (tutti_tensor_strided and the other constructors set it)" : "");
}

static bool is_zero(const unsigned char *bytes, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    if (bytes[i] != 0) return false;
  return true;
}

bool tu_sized_fits(const struct tu_sized *kind, const void *theirs, size_t their_bytes) {
  return their_bytes >= kind->bytes && their_bytes <= BYTES_MAX && is_zero(theirs, kind->bytes, their_bytes);
}

tutti_err tu_sized_take(const struct tu_sized *kind, const void *theirs, size_t their_bytes, void *ours,
                        const char *what, struct tu_error *error) {
  tutti_err err = tu_sized_check(kind, their_bytes, what, error);
  if (err != TUTTI_OK) return err;
  if (!is_zero(theirs, kind->bytes, their_bytes))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: %s has %zu bytes, of which version %d.%d.%d of the library knows %zu, and a field beyond is "
                   "not zero; use the library that belongs to the program's headers",
                   what, kind->name, their_bytes, TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH,
                   kind->bytes);
  size_t both = tu_min(their_bytes, kind->bytes);
  memcpy(ours, theirs, both);
  memset((unsigned char *)ours + both, 0, kind->bytes - both);
  return TUTTI_OK;
}

void tu_sized_give(const struct tu_sized *kind, const void *ours, void *theirs, size_t their_bytes) {
  size_t both = tu_min(their_bytes, kind->bytes);
  memcpy(theirs, ours, both);
  memset((unsigned char *)theirs + both, 0, their_bytes - both);
}
