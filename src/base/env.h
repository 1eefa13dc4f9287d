/* env.h: the environment variables of the library, in one table. Everything that reads a TUTTI_ name reads it here. */
#ifndef TU_ENV_H
#define TU_ENV_H

#include "base/base.h"

struct tu_env_name {
  const char *name;
  const char *value; /* what it takes, for people */
  const char *summary;
};
extern const struct tu_env_name tu_env_names[];
extern const size_t tu_env_name_count;

/* ENVIRONMENT if any TUTTI_ variable is not in the table; the message names the nearest one that is. */
tutti_err tu_env_check(struct tu_error *error);

/* The variable's value, or NULL if unset or empty. The name must be in the table. */
const char *tu_env(const char *name);
/* Is it set, perhaps to nothing? */
bool tu_env_is_set(const char *name);
/* The variable as a number in [0, max]; *number is left alone if it is unset. */
tutti_err tu_env_uint(const char *name, uint64_t max, uint64_t *number, struct tu_error *error);
/* ... in [min, max], which may be negative. */
tutti_err tu_env_int(const char *name, int64_t min, int64_t max, int64_t *number, struct tu_error *error);
tutti_err tu_env_bytes(const char *name, uint64_t *bytes, struct tu_error *error);

#endif
