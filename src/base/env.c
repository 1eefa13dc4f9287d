/* env.c: the table of the library's environment variables, and its only readers. */
#include "base/env.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define PREFIX "TUTTI_"

const struct tu_env_name tu_env_names[] = {
    {"TUTTI_RANK", "0..", "this process's rank in the world"},
    {"TUTTI_WORLD_SIZE", "1..", "how many processes the job has"},
    {"TUTTI_MASTER_ADDR", "address", "where rank 0 can be reached"},
    {"TUTTI_MASTER_PORT", "1..65535", "the port rank 0 listens on, used as it is"},
    {"TUTTI_RESERVED_PORT", "1..65535",
     "the port that tutti run keeps for this job; rank 0 shares it with the launcher"},
    {"TUTTI_SECRET", "characters", "what a process must know to join over TCP; tutti run makes one for each job"},
    {"TUTTI_SECRET_FILE", "file", "the same, read from a file that only this user can read"},
    {"TUTTI_TIMEOUT_MS", "milliseconds", "limit for every call of a communicator that states none; 0: no limit"},
    {"TUTTI_SHM_BYTES", "bytes, K, M or G", "virtual memory that each rank reserves for staging and tutti_alloc"},
    {"TUTTI_RING_BYTES", "bytes, K, M or G", "staging memory from each rank to each other one"},
    {"TUTTI_SLOT_BYTES", "bytes, K, M or G", "how much of it one slice of a message takes at most"},
    {"TUTTI_SPIN_US", "microseconds", "how long a waiting rank polls before it yields or sleeps; 0: adapts, -1: never"},
    {"TUTTI_TUNING", "file or none", "the selection table; rank 0's counts"},
    {"TUTTI_ALGORITHM", "COLLECTIVE=NAME,...", "algorithms to run whatever the table says; rank 0's counts"},
    {"TUTTI_ISA", "name", "instruction set of the arithmetic: plain, sse2, avx2, avx512"},
    {"TUTTI_LOCAL_RANK", "0..", "this process's place among those on its machine"},
};
const size_t tu_env_name_count = sizeof tu_env_names / sizeof tu_env_names[0];

enum { NAMES = sizeof tu_env_names / sizeof tu_env_names[0] };

static bool is_known(const char *name, size_t length) {
  for (size_t i = 0; i < NAMES; i++)
    if (strlen(tu_env_names[i].name) == length && memcmp(tu_env_names[i].name, name, length) == 0) return true;
  return false;
}

/* When nothing is near, only the whole list helps. */
static tutti_err unknown(const char *name, size_t length, struct tu_error *error) {
  int shown = (int)tu_min(length, 64);
  /* Compared without the prefix: it is right already, and would make everything look alike. */
  const size_t prefix = sizeof PREFIX - 1;
  const char *names[NAMES];
  for (size_t i = 0; i < NAMES; i++) names[i] = tu_env_names[i].name + prefix;
  char *word = tu_allocate(length - prefix + 1, 1);
  memcpy(word, name + prefix, length - prefix);
  const char *nearest = tu_nearest(word, names, NAMES);
  free(word);
  if (nearest)
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "environment: unknown variable %.*s; did you mean " PREFIX "%s?",
                   shown, name, nearest);
  struct tu_text known = {0};
  for (size_t i = 0; i < NAMES; i++) tu_text_print(&known, "%s%s", i ? ", " : "", tu_env_names[i].name);
  tutti_err err = tu_fail(error, TUTTI_ERR_ENVIRONMENT, "environment: unknown variable %.*s; known are %s", shown, name,
                          known.chars);
  tu_text_fini(&known);
  return err;
}

tutti_err tu_env_check(struct tu_error *error) {
  for (char **entry = environ; entry && *entry; entry++) {
    if (strncmp(*entry, PREFIX, sizeof PREFIX - 1) != 0) continue;
    size_t length = strcspn(*entry, "=");
    if (!is_known(*entry, length)) return unknown(*entry, length, error);
  }
  return TUTTI_OK;
}

const char *tu_env(const char *name) {
  tu_assert(is_known(name, strlen(name)));
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

bool tu_env_is_set(const char *name) {
  tu_assert(is_known(name, strlen(name)));
  return getenv(name) != NULL;
}

tutti_err tu_env_uint(const char *name, uint64_t max, uint64_t *number, struct tu_error *error) {
  const char *value = tu_env(name);
  if (!value || tu_parse_uint(value, max, number)) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "environment: %s is '%.64s'; expected a whole number from 0 to %llu",
                 name, value, (unsigned long long)max);
}

tutti_err tu_env_int(const char *name, int64_t min, int64_t max, int64_t *number, struct tu_error *error) {
  const char *value = tu_env(name);
  if (!value) return TUTTI_OK;
  bool negative = *value == '-';
  uint64_t size;
  bool good = tu_parse_uint(value + negative, INT64_MAX, &size);
  int64_t read = !good ? 0 : negative ? -(int64_t)size : (int64_t)size;
  if (!good || read < min || read > max)
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "environment: %s is '%.64s'; expected a whole number from %lld to %lld", name, value, (long long)min,
                   (long long)max);
  *number = read;
  return TUTTI_OK;
}

tutti_err tu_env_bytes(const char *name, uint64_t *bytes, struct tu_error *error) {
  const char *value = tu_env(name);
  if (!value || tu_parse_bytes(value, bytes)) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                 "environment: %s is '%.64s'; expected a number of bytes, with K, M or G if wanted, as 64K", name,
                 value);
}
