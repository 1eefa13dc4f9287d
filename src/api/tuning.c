/* tuning.c: finds the selection table (which selects algorithms), and distributes it to all ranks. Rank 0 reads its
 * files and environment variables and sends the text to the other ranks, which do not read their own files. */
#include "api/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/tuning.h"
#include "api/await.h"
#include "base/env.h"
#include "base/text.h"
#include "comm/failure.h"

#define SYSTEM_TABLE "/etc/tutti/tuning"

/* The selection table that was found, and the memory that contains it. */
struct found {
  struct tu_tuning_text text;
  char path[4096];
  char *rules;
};

static void found_fini(struct found *found) { free(found->rules); }

/* ---- finding ---- */

static tutti_err take_file(struct found *found, struct tu_error *error) {
  tutti_err err = tu_read_file_of(found->path, TU_TABLE_BYTES, &found->rules, &found->text.rules_bytes, error);
  if (err != TUTTI_OK) return tu_fail(error, err, "selection table: %s", error->text);
  found->text.name = found->path;
  found->text.rules = found->rules;
  return TUTTI_OK;
}

/* Writes the path, `base` followed by `rest`, to found->path. Returns false if no such file exists. If `base` is not
 * an absolute path, it is ignored, as the XDG base directory specification requires. */
static bool is_there(struct found *found, const char *base, const char *rest) {
  if (!base || base[0] != '/') return false;
  int length = snprintf(found->path, sizeof found->path, "%s%s", base, rest);
  return length < (int)sizeof found->path && access(found->path, F_OK) == 0;
}

static tutti_err find(struct found *found, struct tu_error *error) {
  *found = (struct found){.text.forced = tu_env("TUTTI_ALGORITHM")};
  const char *path = tu_env("TUTTI_TUNING");
  if (path && strcmp(path, "-") == 0)
    return tu_fail(
        error, TUTTI_ERR_ENVIRONMENT,
        "TUTTI_TUNING: expected the path of a file, or none, found '-'; standard input belongs to the program");
  if (path && strcmp(path, "none") != 0) {
    if (snprintf(found->path, sizeof found->path, "%s", path) >= (int)sizeof found->path)
      return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                     "TUTTI_TUNING: expected a path of fewer than %zu characters, found %zu", sizeof found->path,
                     strlen(path));
    return take_file(found, error);
  }
  if (tu_env_is_set("TUTTI_TUNING")) return TUTTI_OK;
  const char *config = getenv("XDG_CONFIG_HOME");
  bool there = config && config[0] == '/' ? is_there(found, config, "/tutti/tuning")
                                          : is_there(found, getenv("HOME"), "/.config/tutti/tuning");
  if (there || is_there(found, SYSTEM_TABLE, "")) return take_file(found, error);
  return TUTTI_OK;
}

static bool is_empty(const struct tu_tuning_text *text) { return !text->name && !text->forced; }

tutti_err tu_tuning_load(struct tu_tuning **tuning, struct tu_error *error) {
  struct found found;
  *tuning = NULL;
  tutti_err err = find(&found, error);
  if (err == TUTTI_OK && !is_empty(&found.text)) err = tu_tuning_read(&found.text, tuning, error);
  found_fini(&found);
  return err;
}

/* ---- distributing ---- */

/* Header of the message that carries the selection table: lengths in bytes of its file name, of its rules, and of the
 * value of TUTTI_ALGORITHM (`forced`). These texts follow in the same order; file name and `forced` end with NUL. */
struct lengths {
  size_t name, rules, forced; /* lengths in bytes; 0: there is no such text */
};

/* Packs the selection table into one message and returns it; the caller frees it. NULL: out of memory. */
static unsigned char *pack(const struct tu_tuning_text *text, size_t *bytes) {
  struct lengths n = {
      .name = text->name ? strlen(text->name) + 1 : 0,
      .rules = text->rules_bytes,
      .forced = text->forced ? strlen(text->forced) + 1 : 0,
  };
  *bytes = sizeof n + n.name + n.rules + n.forced;
  unsigned char *words = tu_try_allocate(*bytes, 1), *at = words;
  if (!words) return NULL;
  memcpy(at, &n, sizeof n);
  at += sizeof n;
  if (n.name) memcpy(at, text->name, n.name);
  at += n.name;
  if (n.rules) memcpy(at, text->rules, n.rules);
  at += n.rules;
  if (n.forced) memcpy(at, text->forced, n.forced);
  return words;
}

static struct tu_tuning_text unpack(const void *words, size_t bytes) {
  struct lengths n;
  memcpy(&n, words, sizeof n);
  tu_assert(bytes == sizeof n + n.name + n.rules + n.forced);
  const char *at = (const char *)words + sizeof n;
  return (struct tu_tuning_text){
      .name = n.name ? at : NULL,
      .rules = at + n.name,
      .rules_bytes = n.rules,
      .forced = n.forced ? at + n.name + n.rules : NULL,
  };
}

/* Runs on rank 0: finds the selection table and sends it to the other ranks. Parses the table first; if it is invalid,
 * this call fails, and the other ranks get the verdict (the communicator's first failure). */
static tutti_err tell(struct tutti_comm *world, struct tu_error *error) {
  struct found found;
  tutti_err err = find(&found, error);
  size_t bytes = 0;
  unsigned char *words = NULL;
  if (err == TUTTI_OK && !is_empty(&found.text)) {
    err = tu_tuning_read(&found.text, &world->tuning, error);
    if (err == TUTTI_OK && !(words = pack(&found.text, &bytes)))
      err = tu_fail_memory(error, bytes, "the selection table for the other ranks");
  }
  if (err == TUTTI_OK) err = tu_control_tell(&world->mover->control, words, bytes, error);
  free(words);
  found_fini(&found);
  return err;
}

static bool told_or_failed(const struct tutti_comm *world) {
  const void *words;
  size_t bytes;
  return tu_control_told(&world->mover->control, &words, &bytes) || tu_control_failed(&world->mover->control);
}

static bool is_teller(const struct tutti_comm *world, uint32_t rank) {
  (void)world;
  return rank == 0;
}

static const struct tu_comm_goal telling = {told_or_failed, is_teller, "to read its selection table", false};

static tutti_err hear(struct tutti_comm *world, int timeout_ms, struct tu_error *error) {
  const void *words;
  size_t bytes;
  tutti_err err = tu_comm_await(world, &telling, timeout_ms, error);
  if (err != TUTTI_OK) return err;
  if (!tu_control_told(&world->mover->control, &words, &bytes)) {
    tu_assert(tu_comm_failed(world));
    *error = world->error;
    return error->code;
  }
  if (bytes == 0) return TUTTI_OK;
  struct tu_tuning_text text = unpack(words, bytes);
  return tu_tuning_read(&text, &world->tuning, error);
}

tutti_err tu_tuning_agree(struct tutti_comm *world, int timeout_ms) {
  struct tu_error error;
  tutti_err err = world->rank == 0 ? tell(world, &error) : hear(world, timeout_ms, &error);
  if (err == TUTTI_OK) return TUTTI_OK;
  if (world->ranks > 1) tu_fail(&error, err, "rank %u: %s", world->rank, error.text);
  /* if rank 0 has failed before, its failure stays the verdict (the world's first failure) */
  return tu_comm_fail(world, &error);
}
