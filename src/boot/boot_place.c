/* boot_place.c: which rank of which job this process is, as the environment says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "boot/boot.h"

/* Beyond it a star of TCP connections is not the way to start a job. */
enum { RANKS_MAX = 65536 };

enum { RANK, RANKS, ADDRESS, PORT, NAMES };
static const char *const own_names[NAMES] = {"TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_MASTER_ADDR",
                                             "TUTTI_MASTER_PORT"};
#define PLAIN(n) (own_names[n] + strlen("TUTTI_"))

struct setting {
  const char *name; /* the spelling that was found */
  const char *value;
};

static struct setting look_up(int n) {
  const char *value = tu_env(own_names[n]);
  if (value) return (struct setting){own_names[n], value};
  value = getenv(PLAIN(n));
  return (struct setting){PLAIN(n), value && *value ? value : NULL};
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

  /* The plain name is torchrun's, which keeps that port for itself: the job meets at the next one. */
  unsigned next = settings[PORT].name == own_names[PORT] ? 0 : 1;
  uint64_t port;
  tutti_err err = read_number(&settings[PORT], next ? "a port (the one after it is used)" : "a port", 1, 65535 - next,
                              &port, error);
  if (err == TUTTI_OK) place->port = (uint16_t)(port + next);
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
    return TUTTI_OK;
  }
  /* A world of one that says so needs no address to meet at. */
  bool ranked = settings[RANK].value && settings[RANKS].value;
  if (!ranked) return half_set(settings, error);
  tutti_err err = read_ranks(settings, place, error);
  if (err != TUTTI_OK) return err;
  bool addressed = settings[ADDRESS].value && settings[PORT].value;
  if (!addressed && place->ranks == 1) return TUTTI_OK;
  if (!addressed) return half_set(settings, error);
  if ((err = read_address(settings, place, error)) != TUTTI_OK) return err;

  const char *secret = tu_env("TUTTI_SECRET");
  if (secret && strlen(secret) >= sizeof place->secret) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_SECRET has %zu characters, at most %zu are expected",
                   strlen(secret), sizeof place->secret - 1);
  }
  if (secret) snprintf(place->secret, sizeof place->secret, "%s", secret);
  return TUTTI_OK;
}
