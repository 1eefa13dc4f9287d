/* identity.c: reads this process's rank and job from the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "boot/identity.h"

/* Maximum number of ranks. A star of TCP connections does not suit larger jobs. */
enum { RANKS_MAX = 65536 };

enum { RANK, RANKS, ADDRESS, PORT, NAMES };

/* The known launchers and the environment variables that they set. Only the first two launchers (SERVED) can define a
 * job: each setting (rank, ranks, address, port) comes from the first of the two whose variable is set. The variables
 * of the other launchers are only checked. Otherwise a process that such a launcher started would silently become a
 * world of one. SLURM_NTASKS is not in the table, because it is also set in batch scripts outside of job steps. */
static const struct launcher {
  const char *who;
  const char *names[NAMES];
  /* Number that is added to the port in the variable, to get the job's port. It is 1 for torchrun, because torchrun
   * itself listens on the port in the variable. */
  unsigned port_after;
} launchers[] = {
    {"tutti run", {"TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_MASTER_ADDR", "TUTTI_MASTER_PORT"}, 0},
    {"torchrun", {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}, 1},
    {"Open MPI's mpirun", {[RANKS] = "OMPI_COMM_WORLD_SIZE"}, 0},
    {"a launcher with PMI, such as MPICH's mpirun,", {[RANKS] = "PMI_SIZE"}, 0},
    {"MVAPICH2's mpirun", {[RANKS] = "MV2_COMM_WORLD_SIZE"}, 0},
    {"Slurm's srun", {[RANKS] = "SLURM_STEP_NUM_TASKS"}, 0},
    {"torchrun", {[RANKS] = "LOCAL_WORLD_SIZE"}, 0},
};
enum { OWN, SERVED = 2, LAUNCHERS = sizeof launchers / sizeof launchers[0] };

struct setting {
  const char *name; /* the variable from which the setting comes; if no launcher's variable is set, that of torchrun */
  const char *value;
  const struct launcher *launcher;
};

static struct setting look_up(int n) {
  struct setting found = {0};
  for (const struct launcher *l = launchers; l < launchers + SERVED && !found.value; l++) {
    const char *value = l == &launchers[OWN] ? tu_env(l->names[n]) : getenv(l->names[n]);
    found = (struct setting){l->names[n], value && *value ? value : NULL, l};
  }
  return found;
}

static tutti_err half_set(const struct setting settings[NAMES], struct tu_error *error) {
  char set[128] = "", missing[128] = "";
  for (int n = 0; n < NAMES; n++) {
    char *list = settings[n].value ? set : missing;
    size_t length = strlen(list);
    snprintf(list + length, sizeof set - length, "%s%s", length ? ", " : "", settings[n].name);
  }
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                 "the environment describes a job incompletely: set: %s; missing: %s (or the same name after TUTTI_). "
                 "Set all four, start with 'tutti run', or unset them all for a world of one",
                 set, missing);
}

static tutti_err read_number(const struct setting *setting, const char *what, uint64_t min, uint64_t max,
                             uint64_t *number, struct tu_error *error) {
  if (tu_parse_uint(setting->value, max, number) && *number >= min) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "%s is '%.64s'; expected %s from %llu to %llu", setting->name,
                 setting->value, what, (unsigned long long)min, (unsigned long long)max);
}

static tutti_err read_ranks(const struct setting settings[NAMES], struct tu_boot_identity *identity,
                            struct tu_error *error) {
  uint64_t rank, ranks;
  tutti_err err = read_number(&settings[RANKS], "a number of ranks", 1, RANKS_MAX, &ranks, error);
  if (err != TUTTI_OK) return err;
  if ((err = read_number(&settings[RANK], "a rank", 0, RANKS_MAX - 1, &rank, error)) != TUTTI_OK) return err;
  if (rank >= ranks) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "%s is %llu, but %s is %llu; expected a rank from 0 to %llu",
                   settings[RANK].name, (unsigned long long)rank, settings[RANKS].name, (unsigned long long)ranks,
                   (unsigned long long)ranks - 1);
  }
  identity->rank = (uint32_t)rank;
  identity->ranks = (uint32_t)ranks;
  return TUTTI_OK;
}

static tutti_err read_address(const struct setting settings[NAMES], struct tu_boot_identity *identity,
                              struct tu_error *error) {
  if (strlen(settings[ADDRESS].value) >= sizeof identity->address) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "%s is longer than %zu characters: expected a host name or address",
                   settings[ADDRESS].name, sizeof identity->address - 1);
  }
  snprintf(identity->address, sizeof identity->address, "%s", settings[ADDRESS].value);

  unsigned next = settings[PORT].launcher->port_after;
  uint64_t port;
  tutti_err err = read_number(&settings[PORT], next ? "a port (the one after it is used)" : "a port", 1, 65535 - next,
                              &port, error);
  if (err == TUTTI_OK) identity->port = (uint16_t)(port + next);
  return err;
}

/* Called if this process would be a world of one. Returns an error if a variable of another launcher states that it
 * started several processes. `said` is the setting that makes this process a world of one; NULL: no variable is set. */
static tutti_err check_alone(const struct setting *said, struct tu_error *error) {
  for (int i = SERVED; i < LAUNCHERS; i++) {
    const struct launcher *launcher = &launchers[i];
    const char *value = getenv(launcher->names[RANKS]);
    uint64_t processes;
    if (!value || !tu_parse_uint(value, UINT32_MAX, &processes) || processes <= 1) continue;
    const char *name = said ? said->name : "TUTTI_WORLD_SIZE";
    return tu_fail(
        error, TUTTI_ERR_ENVIRONMENT,
        "%s is %.20s: %s started that many processes, but %s is %s, which makes each process a world of one. "
        "Start them with 'tutti run' or torchrun; for worlds of one set TUTTI_RANK=0 TUTTI_WORLD_SIZE=1",
        launcher->names[RANKS], value, launcher->who, name, said ? said->value : "not set");
  }
  return TUTTI_OK;
}

/* Reads TUTTI_RESERVED_PORT, the port that `tutti run` has reserved. The job's port counts as reserved only if it
 * equals TUTTI_RESERVED_PORT, since a program may have chosen another port. */
static tutti_err read_reserved(struct tu_boot_identity *identity, struct tu_error *error) {
  uint64_t reserved = 0;
  tutti_err err = tu_env_uint("TUTTI_RESERVED_PORT", 65535, &reserved, error);
  identity->reserved = err == TUTTI_OK && reserved > 0 && reserved == identity->port;
  return err;
}

tutti_err tu_boot_identity_read(struct tu_boot_identity *identity, struct tu_error *error) {
  memset(identity, 0, sizeof *identity);
  identity->ranks = 1;
  struct setting settings[NAMES];
  int set = 0;
  for (int n = 0; n < NAMES; n++) {
    settings[n] = look_up(n);
    set += settings[n].value != NULL;
  }
  if (set == 0) {
    identity->alone = true;
    return check_alone(NULL, error);
  }
  /* The variables must give a rank and a number of ranks; a world of one rank needs no address. */
  bool ranked = settings[RANK].value && settings[RANKS].value;
  if (!ranked) return half_set(settings, error);
  tutti_err err = read_ranks(settings, identity, error);
  if (err != TUTTI_OK) return err;
  /* WORLD_SIZE=1: check that no other launcher has started several processes. With TUTTI_WORLD_SIZE=1 the user asks
   * explicitly for a world of one, so this is not checked. */
  if (identity->ranks == 1 && settings[RANKS].launcher != &launchers[OWN] &&
      (err = check_alone(&settings[RANKS], error)) != TUTTI_OK)
    return err;
  bool addressed = settings[ADDRESS].value && settings[PORT].value;
  if (!addressed && identity->ranks == 1) return TUTTI_OK;
  if (!addressed) return half_set(settings, error);
  if ((err = read_address(settings, identity, error)) != TUTTI_OK) return err;
  return read_reserved(identity, error);
}
