/* place.c: which rank of which job this process is, as the environment says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "boot/place.h"

/* Beyond it a star of TCP connections is not the way to start a job. */
enum { RANKS_MAX = 65536 };

enum { RANK, RANKS, ADDRESS, PORT, NAMES };

/* Who starts processes, and in which variables it says what. The first two make a job, each variable from the first of them
 * that sets it. Of the others a program takes nothing: where one says that it started more than one process, this one would be
 * one of many worlds of one. Not SLURM_NTASKS: a batch script has it outside of any step. */
static const struct launcher {
  const char *who;
  const char *names[NAMES];
  unsigned port_after; /* the job meets so many ports after the one that is named: torchrun keeps that for itself */
} launchers[] = {
    {"tutti run", {"TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_MASTER_ADDR", "TUTTI_MASTER_PORT"}, 0},
    {"torchrun", {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}, 1},
    {"Open MPI's mpirun", {[RANKS] = "OMPI_COMM_WORLD_SIZE"}, 0},
    {"a launcher with PMI, as MPICH's mpirun,", {[RANKS] = "PMI_SIZE"}, 0},
    {"MVAPICH2's mpirun", {[RANKS] = "MV2_COMM_WORLD_SIZE"}, 0},
    {"Slurm's srun", {[RANKS] = "SLURM_STEP_NUM_TASKS"}, 0},
    {"torchrun", {[RANKS] = "LOCAL_WORLD_SIZE"}, 0},
};
enum { OWN, SERVED = 2, LAUNCHERS = sizeof launchers / sizeof launchers[0] };

struct setting {
  const char *name; /* the spelling that was found; else the plain one */
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
                 "the environment describes half a job: set: %s; missing: %s (or the same with TUTTI_ before it). Set "
                 "all four, start with 'tutti run', or unset them all for a world of one",
                 set, missing);
}

static tutti_err read_number(const struct setting *setting, const char *what, uint64_t min, uint64_t max,
                             uint64_t *number, struct tu_error *error) {
  if (tu_parse_uint(setting->value, max, number) && *number >= min) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "%s is '%.64s', expected %s from %llu to %llu", setting->name,
                 setting->value, what, (unsigned long long)min, (unsigned long long)max);
}

static tutti_err read_ranks(const struct setting settings[NAMES], struct tu_boot_place *place, struct tu_error *error) {
  uint64_t rank, ranks;
  tutti_err err = read_number(&settings[RANKS], "a number of ranks", 1, RANKS_MAX, &ranks, error);
  if (err != TUTTI_OK) return err;
  if ((err = read_number(&settings[RANK], "a rank", 0, RANKS_MAX - 1, &rank, error)) != TUTTI_OK) return err;
  if (rank >= ranks) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "%s is %llu, but %s is %llu: ranks count from 0 to %llu",
                   settings[RANK].name, (unsigned long long)rank, settings[RANKS].name, (unsigned long long)ranks,
                   (unsigned long long)ranks - 1);
  }
  place->rank = (uint32_t)rank;
  place->ranks = (uint32_t)ranks;
  return TUTTI_OK;
}

static tutti_err read_address(const struct setting settings[NAMES], struct tu_boot_place *place,
                              struct tu_error *error) {
  if (strlen(settings[ADDRESS].value) >= sizeof place->address) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "%s is longer than %zu characters: expected a host name or address",
                   settings[ADDRESS].name, sizeof place->address - 1);
  }
  snprintf(place->address, sizeof place->address, "%s", settings[ADDRESS].value);

  unsigned next = settings[PORT].launcher->port_after;
  uint64_t port;
  tutti_err err = read_number(&settings[PORT], next ? "a port (the one after it is used)" : "a port", 1, 65535 - next,
                              &port, error);
  if (err == TUTTI_OK) place->port = (uint16_t)(port + next);
  return err;
}

/* `said` is what makes this a world of one; NULL: that nothing was set. */
static tutti_err check_alone(const struct setting *said, struct tu_error *error) {
  for (int i = SERVED; i < LAUNCHERS; i++) {
    const struct launcher *launcher = &launchers[i];
    const char *value = getenv(launcher->names[RANKS]);
    uint64_t processes;
    if (!value || !tu_parse_uint(value, UINT32_MAX, &processes) || processes <= 1) continue;
    const char *name = said ? said->name : "TUTTI_WORLD_SIZE";
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "%s is %.20s: %s started that many processes, but %s is %s, which makes each a world of one. Start "
                   "them with 'tutti run' or torchrun; for worlds of one set TUTTI_RANK=0 TUTTI_WORLD_SIZE=1",
                   launcher->names[RANKS], value, launcher->who, name, said ? said->value : "not set");
  }
  return TUTTI_OK;
}

/* What `tutti run` says about its port counts for that port only: a program may have been given another one since. */
static tutti_err read_reserved(struct tu_boot_place *place, struct tu_error *error) {
  uint64_t reserved = 0;
  tutti_err err = tu_env_uint("TUTTI_RESERVED_PORT", 65535, &reserved, error);
  place->reserved = err == TUTTI_OK && reserved > 0 && reserved == place->port;
  return err;
}

tutti_err tu_boot_place(struct tu_boot_place *place, struct tu_error *error) {
  memset(place, 0, sizeof *place);
  place->ranks = 1;
  struct setting settings[NAMES];
  int set = 0;
  for (int n = 0; n < NAMES; n++) {
    settings[n] = look_up(n);
    set += settings[n].value != NULL;
  }
  if (set == 0) {
    place->alone = true;
    return check_alone(NULL, error);
  }
  /* A world of one that says so needs no address to meet at. */
  bool ranked = settings[RANK].value && settings[RANKS].value;
  if (!ranked) return half_set(settings, error);
  tutti_err err = read_ranks(settings, place, error);
  if (err != TUTTI_OK) return err;
  /* Our own variable says it on purpose. */
  if (place->ranks == 1 && settings[RANKS].launcher != &launchers[OWN] &&
      (err = check_alone(&settings[RANKS], error)) != TUTTI_OK)
    return err;
  bool addressed = settings[ADDRESS].value && settings[PORT].value;
  if (!addressed && place->ranks == 1) return TUTTI_OK;
  if (!addressed) return half_set(settings, error);
  if ((err = read_address(settings, place, error)) != TUTTI_OK) return err;
  return read_reserved(place, error);
}
