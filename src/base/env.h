/* env.h: the table of the library's environment variables. All code reads variables that begin with TUTTI_ through
 * these functions. */
#ifndef TU_ENV_H
#define TU_ENV_H

#include "base/base.h"

struct tu_env_name {
  const char *name;
  const char *value; /* form of the value, as a text for users, such as "milliseconds" */
  const char *summary;
};
extern const struct tu_env_name tu_env_names[];
extern const size_t tu_env_name_count;

/* Returns TUTTI_ERR_ENVIRONMENT if a set TUTTI_ variable is not in the table. The message names the known variable with
 * the most similar name. */
tutti_err tu_env_check(struct tu_error *error);

/* Returns the variable's value, or NULL if it is unset or empty. The name must be in the table. */
const char *tu_env(const char *name);
/* Returns true if the variable is set, even to the empty string. */
bool tu_env_is_set(const char *name);
/* Reads the variable as a number in [0, max]. If the variable is unset, *number keeps its value. Returns
 * TUTTI_ERR_ENVIRONMENT if the value is not such a number. */
tutti_err tu_env_uint(const char *name, uint64_t max, uint64_t *number, struct tu_error *error);
/* Reads the variable as tu_env_uint does, but as a number in [min, max]. Both limits may be negative. */
tutti_err tu_env_int(const char *name, int64_t min, int64_t max, int64_t *number, struct tu_error *error);
/* Reads the variable as tu_env_uint does, but as a number of bytes, which may end in K, M or G (powers of 1024). */
tutti_err tu_env_bytes(const char *name, uint64_t *bytes, struct tu_error *error);

#endif
