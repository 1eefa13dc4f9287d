/* env.c: the table of the library's environment variables, and the only functions that read them. */
#include "base/env.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define PREFIX "TUTTI_"

const struct tu_env_name tu_env_names[] = {
    {"TUTTI_RANK", "0..", "this process's rank in the world"},
    {"TUTTI_WORLD_SIZE", "1..", "how many processes the job has"},
    {"TUTTI_MASTER_ADDR", "address", "host name or address at which rank 0 listens"},
    {"TUTTI_MASTER_PORT", "1..65535", "port on which rank 0 listens"},
    {"TUTTI_LAUNCHER", "name", "whose variables give the rank: tutti, pmi, pmix, torchrun, or none: a world of one"},
    {"TUTTI_RESERVED_PORT", "1..65535",
     "port that tutti run keeps bound for this job; rank 0 shares it with the launcher"},
    {"TUTTI_SECRET", "characters", "secret that a process needs to join over TCP; tutti run makes one for each job"},
    {"TUTTI_SECRET_FILE", "file", "file with that secret, readable by this user only"},
    {"TUTTI_KEEPER", "name", "socket of tutti run, which keeps the shared memory open for tutti top"},
    {"TUTTI_TIMEOUT_MS", "milliseconds", "time limit of calls and communicators that set none; 0 or -1: no limit"},
    {"TUTTI_HOST", "name", "ranks with different values count as ranks of different hosts"},
    {"TUTTI_INTERFACE", "name or address/bits", "network interface for connections between hosts"},
    {"TUTTI_FABRIC", "auto, none, or provider/domain", "provider of libfabric for data between hosts, beside sockets"},
    {"TUTTI_PORTS", "LO-HI", "ports at which ranks listen for connections from other hosts"},
    {"TUTTI_RSH", "command", "program that tutti run and top call instead of ssh: COMMAND [USER@]HOST PROGRAM"},
    {"TUTTI_SHM_BYTES", "bytes, K, M or G", "virtual memory that each rank reserves for staging and tutti_alloc"},
    {"TUTTI_RING_BYTES", "bytes, K, M or G", "staging memory of each channel (from one rank to another), at most"},
    {"TUTTI_SLOT_BYTES", "bytes, K, M or G",
     "part of a channel's staging memory that one piece of a message takes, at most"},
    {"TUTTI_SPIN_US", "microseconds",
     "how long a waiting rank polls before it yields or sleeps; 0: adapts, -1: does not poll"},
    {"TUTTI_PROGRESS_THREAD", "0 or 1", "1: a thread of the library moves the data of started calls"},
    {"TUTTI_WIRE_BYTES_PER_S", "bytes, K, M or G",
     "speed of a simulated wire in front of new communicators, for measurements; 0: none"},
    {"TUTTI_TUNING", "file or none", "selection table; rank 0's value applies to all ranks"},
    {"TUTTI_ALGORITHM", "COLLECTIVE=NAME,...", "algorithms that replace the table's choice; rank 0's value applies"},
    {"TUTTI_ORDER", "any or canonical", "order of reductions; canonical: the same bits for any size and algorithm"},
    {"TUTTI_MPI", "off, collectives, report or verify", "what libtutti_mpi.so does in programs of MPI"},
    {"TUTTI_MPI_MANY", "N,CALLS",
     "tutti takes N communicators of MPI when they are made, and others after CALLS collectives; rank 0's value "
     "applies"},
    {"TUTTI_ISA", "name", "instruction set of the arithmetic: plain, sse2, avx2, avx512"},
    {"TUTTI_LOG", "off, warn, info or debug, and :FILE", "what the library writes to standard error, or to the file"},
    {"TUTTI_DEBUG", "as TUTTI_LOG", "the same, if TUTTI_LOG is not set"},
    {"TUTTI_HANG_REPORT", "0 or 1", "1: a call whose time limit passes prints where each rank of the host stands"},
    {"TUTTI_TRACE", "directory", "where each rank records what it does, for tutti trace"},
    {"TUTTI_TRACE_BYTES", "bytes, K, M or G", "size of the ring in which a rank records events, 32 bytes each (8M)"},
    {"TUTTI_LOCAL_RANK", "0..", "index of this process among the job's processes on its host"},
};
const size_t tu_env_name_count = sizeof tu_env_names / sizeof tu_env_names[0];

enum { NAMES = sizeof tu_env_names / sizeof tu_env_names[0] };

static bool is_known(const char *name, size_t length) {
  for (size_t i = 0; i < NAMES; i++)
    if (strlen(tu_env_names[i].name) == length && memcmp(tu_env_names[i].name, name, length) == 0) return true;
  return false;
}

/* Sets *error to "unknown variable NAME" and returns TUTTI_ERR_ENVIRONMENT. The message also suggests the known
 * variable with the most similar name. If no name is similar, it lists all known variables. */
static tutti_err unknown(const char *name, size_t length, struct tu_error *error) {
  int shown = (int)tu_min(length, 64);
  /* Names are compared without their common prefix "TUTTI_", which would make unrelated names look similar. */
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
  tutti_err err = tu_fail(error, TUTTI_ERR_ENVIRONMENT, "environment: unknown variable %.*s; expected one of %s", shown,
                          name, known.chars);
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
                 "environment: %s is '%.64s'; expected a number of bytes, with or without K, M or G, such as 64K", name,
                 value);
}
