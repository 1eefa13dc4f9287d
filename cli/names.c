/* names.c: finds collectives, datatypes and algorithms by the names on the command line, and reads plans from files. */
#include "cli/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/composite.h"
#include "base/text.h"
#include "base/types.h"

/* Names that programs of NCCL, MPI, numpy and torch use for what has another name here. */
struct alias {
  const char *word, *name;
};
static const struct alias collective_aliases[] = {
    {"all_reduce", "allreduce"},         {"bcast", "broadcast"},
    {"all_gather", "allgather"},         {"all_gatherv", "allgatherv"},
    {"reducescatter", "reduce_scatter"}, {"reduce_scatter_block", "reduce_scatter"},
    {"all_to_all", "alltoall"},          {"all_to_allv", "alltoallv"},
};
static const struct alias datatype_aliases[] = {
    {"int8", "i8"},
    {"uint8", "u8"},
    {"int16", "i16"},
    {"uint16", "u16"},
    {"int32", "i32"},
    {"uint32", "u32"},
    {"int64", "i64"},
    {"uint64", "u64"},
    {"half", "f16"},
    {"float16", "f16"},
    {"bfloat16", "bf16"},
    {"float", "f32"},
    {"float32", "f32"},
    {"double", "f64"},
    {"float64", "f64"},
    {"float8_e4m3", "f8e4m3"},
    {"float8_e5m2", "f8e5m2"},
};

/* Returns the name for which the word is an alias; if it is none, the word. */
static const char *name_of_alias(const char *word, const struct alias aliases[], size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(word, aliases[i].word) == 0) return aliases[i].name;
  return word;
}

bool cli_find_collective(const char *word, tutti_collective *collective) {
  const size_t count = sizeof collective_aliases / sizeof collective_aliases[0];
  return tu_collective_find(name_of_alias(word, collective_aliases, count), collective);
}

bool cli_find_datatype(const char *word, tutti_datatype *type) {
  const size_t count = sizeof datatype_aliases / sizeof datatype_aliases[0];
  return tu_datatype_find(name_of_alias(word, datatype_aliases, count), type);
}

bool cli_find_name(const char *word, struct cli_name *name) {
  char collective[64];
  size_t length = strcspn(word, ".");
  if (length >= sizeof collective) return false;
  memcpy(collective, word, length);
  collective[length] = '\0';
  if (!cli_find_collective(collective, &name->collective)) return false;
  name->algorithm = word[length] ? tu_algorithm_find(name->collective, word + length + 1) : NULL;
  name->collective = tu_collectives[name->collective].family;
  return !word[length] || name->algorithm;
}

tutti_err cli_read_plan(const char *path, bool in_place, struct tu_plan **plan, struct tu_error *error) {
  char *data;
  size_t bytes;
  tutti_err err = tu_read_file_of(path, TU_DATA_BYTES, &data, &bytes, error);
  if (err != TUTTI_OK) return err;
  err = tu_plan_read_any(data, bytes, path, in_place, plan, error);
  free(data);
  return err;
}

/* Returns true if the word is meant as the name of a file: it has a folder, or ends as files of plans do. */
static bool names_a_file(const char *word) {
  static const char *const ends[] = {".plan", ".xml", ".txt", ".json"};
  const char *end = strrchr(word, '.');
  bool is_one = strchr(word, '/') != NULL;
  for (size_t i = 0; end && i < sizeof ends / sizeof ends[0]; i++) is_one |= strcmp(end, ends[i]) == 0;
  return is_one && !tu_is_composite(word);
}

/* Returns the name in names[count], such as allreduce.ring, whose algorithm is `word`; if there is none, the most similar
 * name, or NULL. */
static const char *similar_name(const char *word, const char *const names[], size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *dot = strchr(names[i], '.');
    if (dot && strcmp(dot + 1, word) == 0) return names[i];
  }
  return tu_nearest(word, names, count);
}

int cli_fail_name(const char *verb, int exit_code, const char *word) {
  char collective[64];
  tutti_collective found;
  struct tu_error why;
  if (names_a_file(word)) {
    (void)!access(word, R_OK); /* sets errno */
    return cli_fail(verb, exit_code, "cannot read the file '%s': %s", word, strerror(errno));
  }
  snprintf(collective, sizeof collective, "%.*s", (int)tu_min(strcspn(word, "."), sizeof collective - 1), word);
  if (tu_is_composite(word) && cli_find_collective(collective, &found) && word[strlen(collective)] == '.' &&
      !tu_composite_find(found, word + strlen(collective) + 1, &why))
    return cli_fail(verb, exit_code, "%s", why.text);
  /* Collect all valid names: COLLECTIVE, and COLLECTIVE.ALGORITHM for each of its algorithms. */
  size_t count = 0, room = TU_COLLECTIVES * (tu_algorithm_count + 1);
  char(*texts)[96] = tu_allocate(room, sizeof *texts);
  const char **names = tu_allocate(room, sizeof *names);
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c)) {
    snprintf(texts[count++], sizeof *texts, "%s", tu_collectives[c].name);
    for (size_t i = 0; i < tu_algorithm_count; i++)
      if (tu_algorithms[i]->collective == tu_collectives[c].family)
        snprintf(texts[count++], sizeof *texts, "%s.%s", tu_collectives[c].name, tu_algorithms[i]->name);
  }
  for (size_t i = 0; i < count; i++) names[i] = texts[i];
  const char *near = similar_name(word, names, count);
  if (near) cli_fail(verb, exit_code, "unknown algorithm '%s'; did you mean '%s'?", word, near);
  else cli_fail(verb, exit_code, "unknown algorithm '%s'; tutti list shows the algorithms", word);
  free(texts);
  free(names);
  return exit_code;
}

static int read_hosts(struct cli_hosts *hosts, const char *verb, uint32_t *ranks) {
  enum { PLACED_RANKS_MAX = 1024 }; /* the cost of a plan on hosts is not estimated, so this bounds it */
  struct tu_error error;
  uint32_t placed;
  if (tu_placement_read(hosts->text, &placed, &hosts->placement, &error) != TUTTI_OK)
    return cli_fail(verb, CLI_USAGE, "--hosts: %s", error.text);
  if (*ranks > 0 && *ranks != placed)
    return cli_fail(verb, CLI_USAGE, "--hosts: -n says %u ranks, but these hosts have %u; omit -n", *ranks, placed);
  if (placed > PLACED_RANKS_MAX)
    return cli_fail(verb, CLI_USAGE, "--hosts: expected at most %d ranks, found %u", PLACED_RANKS_MAX, placed);
  *ranks = placed;
  return CLI_GOOD;
}

void cli_hosts_fini(struct cli_hosts *hosts) { tu_placement_destroy(hosts->placement); }

int cli_hosts_read(struct cli_hosts *hosts, const char *verb, uint32_t *ranks) {
  if (!hosts->text) return CLI_GOOD;
  const int code = read_hosts(hosts, verb, ranks);
  if (code != CLI_GOOD) {
    cli_hosts_fini(hosts);
    hosts->placement = NULL;
  }
  return code;
}

/* Reports that the algorithm does not support the ranks of `what`. */
static int fail_ranks(const char *verb, const char *word, const struct cli_name *name, const struct tu_build *what) {
  if (!(name->algorithm->flags & TU_BY_HOSTS))
    return cli_fail(verb, CLI_USAGE, "%s does not support %u ranks; tutti list shows its requirements", word,
                    what->ranks);
  if (!what->placement)
    return cli_fail(verb, CLI_USAGE, "%s: its groups, /h, are hosts; say with --hosts which hosts the ranks have",
                    word);
  return cli_fail(verb, CLI_USAGE,
                  "%s does not support these hosts; phases rs and ag with /h need the same number of ranks on each",
                  word);
}

int cli_check_build(const char *verb, const char *word, const struct cli_name *name, struct tu_build *what) {
  if (!name->algorithm)
    return cli_fail(verb, CLI_USAGE, "expected COLLECTIVE.NAME, found '%s'; tutti list %s shows the names", word, word);
  if (what->ranks == 0 || what->ranks > TU_RANKS_MAX)
    return cli_fail(verb, CLI_USAGE, "-n: expected the number of ranks, from 1 to %u, found %u", TU_RANKS_MAX,
                    what->ranks);
  if (name->algorithm->flags & TU_OPEN_GROUPS)
    return cli_fail(verb, CLI_USAGE, "%s: the size of the groups is open; give a number, for example /4", word);
  what->placement = tu_placement_for(what->placement, name->collective, what->canonical);
  if (!tu_algorithm_fits_on(name->algorithm, what->ranks, what->placement)) return fail_ranks(verb, word, name, what);
  if (what->canonical && !tu_algorithm_is_canonical(name->algorithm, what->ranks, what->placement))
    return cli_fail(verb, CLI_USAGE,
                    "--order canonical: %s has no plan of that order for %u ranks; tutti list shows which have", word,
                    what->ranks);
  if (what->root >= what->ranks)
    return cli_fail(verb, CLI_USAGE, "--root: expected a rank below %u, found %u", what->ranks, what->root);
  if (what->root > 0 && (!tu_collectives[name->collective].rooted || name->collective == TUTTI_SEND))
    return cli_fail(verb, CLI_USAGE, "--root: %s has no root", tu_collectives[name->collective].name);
  uint32_t pieces_max = (1u << 28) / what->ranks / what->ranks;
  if (what->chunks > tu_max(pieces_max, 1))
    return cli_fail(verb, CLI_USAGE, "--chunks: expected at most %u for %u ranks, found %u", pieces_max, what->ranks,
                    what->chunks);
  uint32_t lanes_max = tu_build_lanes_max(name->algorithm);
  if (what->lanes > lanes_max)
    return cli_fail(verb, CLI_USAGE, "--lanes: %s supports at most %u lanes, found %u", word, lanes_max, what->lanes);
  what->algorithm = name->algorithm;
  return CLI_GOOD;
}
