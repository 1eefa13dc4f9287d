/* identity.c: reads this process's rank and job from the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "boot/identity.h"
#include "boot/pmix.h"

/* Maximum number of ranks. A star of TCP connections does not suit larger jobs. */
enum { RANKS_MAX = 65536 };

enum { RANK, RANKS, ADDRESS, PORT, NAMES };

/* The launchers that can define a job, in the order in which they are tried, and the environment variables that they set.
 * `choice`: the value of TUTTI_LAUNCHER that chooses the launcher. */
static const struct launcher {
  const char *choice, *who;
  const char *names[NAMES];
  enum tu_boot_carrier carrier;
  /* Number that is added to the port in the variable, to get the job's port. It is 1 for torchrun, because torchrun
   * itself listens on the port in the variable. */
  unsigned port_after;
} launchers[] = {
    {"tutti", "tutti run", {"TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_MASTER_ADDR", "TUTTI_MASTER_PORT"}, 0, 0},
    {"pmi", "a launcher with PMI", {"PMI_RANK", "PMI_SIZE"}, TU_CARRIER_PMI, 0},
    {"pmix", "a launcher with PMIx", {"PMIX_RANK", "OMPI_COMM_WORLD_SIZE"}, TU_CARRIER_PMIX, 0},
    {"torchrun", "torchrun", {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}, 0, 1},
    {.choice = "none"},
};
enum { OWN, PMI, PMIX, TORCHRUN, NONE, LAUNCHERS };

/* Variables that tell how many processes a launcher has started. They give no rank, or no means to meet. They are only
 * checked: otherwise each process that such a launcher started would silently become a world of one. SLURM_NTASKS is
 * not in the table, because it is also set in batch scripts outside of job steps. */
static const struct sign {
  const char *name, *who, *advice;
} signs[] = {
    {"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun",
     "It did not set PMIX_RANK and PMIX_NAMESPACE: use Open MPI 2 or newer"},
    {"PMI_SIZE", "a launcher with PMI, such as MPICH's mpirun,",
     "It did not set PMI_RANK and PMI_FD, the connection to it: start the ranks with its default kind of PMI"},
    {"MV2_COMM_WORLD_SIZE", "MVAPICH2's mpirun", "Use mpirun of MPICH, or 'tutti run'"},
    {"SLURM_STEP_NUM_TASKS", "Slurm's srun", "It gives them no means to meet: use srun --mpi=pmi2 or srun --mpi=pmix"},
    {"LOCAL_WORLD_SIZE", "torchrun", "Keep the variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT that it sets"},
};
enum { SIGNS = sizeof signs / sizeof signs[0] };

/* Returns the value of a variable; NULL: it is not set, or empty. */
static const char *value_of(const char *name) {
  const char *value = strncmp(name, "TUTTI_", 6) == 0 ? tu_env(name) : getenv(name);
  return value && *value ? value : NULL;
}

struct setting {
  const char *name; /* the variable from which the setting comes; if no launcher's variable is set, that of torchrun */
  const char *value;
  const struct launcher *launcher;
};

/* Looks a setting up in the variables of `tutti run`, then in those of torchrun. `only`: in those of this launcher;
 * NULL: of both. */
static struct setting look_up(int n, const struct launcher *only) {
  static const int order[] = {OWN, TORCHRUN};
  struct setting found = {0};
  for (int i = 0; i < 2 && !found.value; i++) {
    const struct launcher *l = &launchers[order[i]];
    if (!only || only == l) found = (struct setting){l->names[n], value_of(l->names[n]), l};
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

/* Called if this process would be a world of one. Returns an error if a variable of a launcher states that it started
 * several processes. `said` is the setting that makes this process a world of one; NULL: no variable is set. */
static tutti_err check_alone(const struct setting *said, struct tu_error *error) {
  if (value_of("PMI_ID") && !value_of("PMI_RANK"))
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "PMI_ID is %.20s, but PMI_RANK is not set: the launcher (mpirun -pmi-port) tells ranks over a port, "
                   "which tutti does not support. Start without -pmi-port; for worlds of one set TUTTI_LAUNCHER=none",
                   value_of("PMI_ID"));
  for (int i = 0; i < SIGNS; i++) {
    const char *value = getenv(signs[i].name);
    uint64_t processes;
    if (!value || !tu_parse_uint(value, UINT32_MAX, &processes) || processes <= 1) continue;
    return tu_fail(
        error, TUTTI_ERR_ENVIRONMENT,
        "%s is %.20s: %s started that many processes, but %s is %s, which makes each process a world of one. "
        "%s. 'tutti run' and torchrun work, too; for worlds of one set TUTTI_LAUNCHER=none",
        signs[i].name, value, signs[i].who, said ? said->name : "TUTTI_WORLD_SIZE", said ? said->value : "not set",
        signs[i].advice);
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

/* Reads the round of the job, which torchrun gives. */
static tutti_err read_round(struct tu_boot_round *round, struct tu_error *error) {
  const char *run = value_of("TORCHELASTIC_RUN_ID"), *restart = value_of("TORCHELASTIC_RESTART_COUNT");
  const struct setting setting = {"TORCHELASTIC_RESTART_COUNT", restart, NULL};
  uint64_t number = 0;
  if (run && strlen(run) < sizeof round->run) snprintf(round->run, sizeof round->run, "%s", run);
  else if (run)
    snprintf(round->run, sizeof round->run, "%.40s-%016llx", run, (unsigned long long)tu_hash(run, strlen(run), 1));
  tutti_err err = restart ? read_number(&setting, "a number of restarts", 0, UINT32_MAX, &number, error) : TUTTI_OK;
  round->restart = (uint32_t)number;
  return err;
}

/* Reads the identity from the variables of `tutti run` and torchrun. `only`: rank and number of ranks must be those of
 * this launcher; NULL: each comes from the first of the two that has it. */
static tutti_err read_variables(const struct launcher *only, struct tu_boot_identity *identity,
                                struct tu_error *error) {
  struct setting settings[NAMES];
  int set = 0;
  for (int n = 0; n < NAMES; n++) {
    /* TUTTI_MASTER_ADDR and TUTTI_MASTER_PORT replace those of torchrun, whatever gives the rank. */
    settings[n] = look_up(n, n >= ADDRESS && only == &launchers[TORCHRUN] ? NULL : only);
    set += settings[n].value != NULL;
  }
  if (set == 0 && !only) {
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
  if (identity->ranks == 1 && settings[RANKS].launcher != &launchers[OWN] && !only &&
      (err = check_alone(&settings[RANKS], error)) != TUTTI_OK)
    return err;
  bool addressed = settings[ADDRESS].value && settings[PORT].value;
  if (!addressed && identity->ranks == 1) return TUTTI_OK;
  if (!addressed) return half_set(settings, error);
  if ((err = read_address(settings, identity, error)) != TUTTI_OK) return err;
  if (settings[RANK].launcher == &launchers[TORCHRUN] && (err = read_round(&identity->round, error)) != TUTTI_OK)
    return err;
  return read_reserved(identity, error);
}

/* Reads the identity of a rank of a launcher that carries a text. TUTTI_MASTER_ADDR and TUTTI_MASTER_PORT make that
 * unnecessary. */
static tutti_err read_carried(const struct launcher *launcher, bool chosen, struct tu_boot_identity *identity,
                              struct tu_error *error) {
  struct setting settings[NAMES];
  char asked[24];
  for (int n = 0; n < NAMES; n++) {
    const char *name = launcher->names[n] ? launcher->names[n] : launchers[OWN].names[n];
    settings[n] = (struct setting){name, value_of(name), &launchers[OWN]};
  }
  tutti_err err = TUTTI_OK;
  if (launcher == &launchers[PMIX] && settings[RANK].value && !settings[RANKS].value) {
    uint32_t ranks = 0;
    if ((err = tu_pmix_ranks(&ranks, error)) != TUTTI_OK) return err;
    snprintf(asked, sizeof asked, "%u", ranks);
    settings[RANKS] = (struct setting){"the number of ranks that PMIx tells", asked, launcher};
  }
  if (!settings[RANK].value || !settings[RANKS].value)
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_LAUNCHER is %s, but %s is not set: expected %s",
                   launcher->choice, settings[settings[RANK].value ? RANKS : RANK].name, launcher->who);
  if ((err = read_ranks(settings, identity, error)) != TUTTI_OK) return err;
  identity->alone = identity->ranks == 1;
  if (identity->alone) return chosen ? TUTTI_OK : check_alone(&settings[RANKS], error);
  if (!settings[ADDRESS].value != !settings[PORT].value)
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "%s is set, but %s is not: set both, or none (then %s tells the ranks where to meet)",
                   settings[settings[ADDRESS].value ? ADDRESS : PORT].name,
                   settings[settings[ADDRESS].value ? PORT : ADDRESS].name, launcher->who);
  if (settings[ADDRESS].value) return read_address(settings, identity, error);
  identity->carrier = launcher->carrier;
  return TUTTI_OK;
}

/* Returns an error if two launchers that have set variables disagree on the rank or the number of ranks. */
static tutti_err compare(struct tu_error *error) {
  for (int n = RANK; n <= RANKS; n++) {
    struct setting first = {0};
    for (int i = PMI; i <= TORCHRUN; i++) {
      /* A launcher that gives no rank starts no ranks here: Open MPI's size without PMIX_RANK is only a sign. */
      if (i != TORCHRUN && !value_of(launchers[i].names[RANK])) continue;
      const char *name = launchers[i].names[n], *value = value_of(name);
      if (value && first.value && strcmp(value, first.value) != 0)
        return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                       "%s is %.20s, but %s is %.20s: two launchers disagree on the %s. TUTTI_LAUNCHER chooses one: "
                       "%s or %s (or none: a world of one)",
                       first.name, first.value, name, value, n == RANK ? "rank" : "number of ranks",
                       first.launcher->choice, launchers[i].choice);
      if (value && !first.value) first = (struct setting){name, value, &launchers[i]};
    }
  }
  return TUTTI_OK;
}

/* Finds the launcher: that of TUTTI_LAUNCHER; otherwise NULL, which stands for the first that has set its variables. */
static tutti_err read_choice(const struct launcher **chosen, struct tu_error *error) {
  const char *choice = tu_env("TUTTI_LAUNCHER");
  *chosen = NULL;
  if (!choice) return TUTTI_OK;
  for (int i = 0; i < LAUNCHERS; i++)
    if (strcmp(choice, launchers[i].choice) == 0) *chosen = &launchers[i];
  if (*chosen) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_LAUNCHER is '%.64s'; expected tutti, pmi, pmix, torchrun or none",
                 choice);
}

tutti_err tu_boot_identity_read(struct tu_boot_identity *identity, struct tu_error *error) {
  memset(identity, 0, sizeof *identity);
  identity->ranks = 1;
  const struct launcher *chosen;
  tutti_err err = read_choice(&chosen, error);
  if (err != TUTTI_OK) return err;
  if (chosen == &launchers[NONE]) {
    identity->alone = true;
    return TUTTI_OK;
  }
  if (chosen)
    return chosen->carrier ? read_carried(chosen, true, identity, error) : read_variables(chosen, identity, error);
  if (tu_env("TUTTI_RANK") || tu_env("TUTTI_WORLD_SIZE")) return read_variables(NULL, identity, error);
  if ((err = compare(error)) != TUTTI_OK) return err;
  if (value_of("PMI_RANK") && value_of("PMI_SIZE") && value_of("PMI_FD"))
    return read_carried(&launchers[PMI], false, identity, error);
  if (value_of("PMIX_RANK") && value_of("PMIX_NAMESPACE"))
    return read_carried(&launchers[PMIX], false, identity, error);
  return read_variables(NULL, identity, error);
}
