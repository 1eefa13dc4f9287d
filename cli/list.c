/* list.c: `tutti list`: prints the algorithms, one per line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/composite.h"
#include "cli/json.h"
#include "cli/names.h"

/* Returns for which numbers of ranks an algorithm has plans of the canonical order: "always" (all that it supports), "some",
 * or "never" (more than two ranks). NULL: it reduces nothing. */
static const char *canonical_of(const struct tu_algorithm *a) {
  enum { RANKS = 64 };
  bool all = true, some = false;
  if (!tu_reduces(a->collective)) return NULL;
  for (uint32_t ranks = 3; ranks <= RANKS; ranks++) {
    if (!tu_algorithm_fits(a, ranks)) continue;
    const bool is = tu_algorithm_is_canonical(a, ranks, NULL);
    all &= is, some |= is;
  }
  return !some ? "never" : all ? "always" : "some";
}

/* Writes what an algorithm requires, for example "any N" or "N a multiple of 2, rank order, equal blocks". */
static void print_requirements(const struct tu_algorithm *a, char *text, size_t bytes) {
  char ranks[32] = "any N";
  if (a->multiple_of) snprintf(ranks, sizeof ranks, "N a multiple of %u", a->multiple_of);
  if (a->collective == TUTTI_SEND) snprintf(ranks, sizeof ranks, "N = 2");
  const char *canonical = canonical_of(a);
  const bool is = canonical && strcmp(canonical, "never") != 0;
  snprintf(text, bytes, "%s%s%s%s", ranks, a->flags & TU_RANK_ORDER ? ", rank order" : "",
           !is                              ? ""
           : strcmp(canonical, "some") == 0 ? ", canonical at some N"
                                            : ", canonical",
           a->flags & TU_EQUAL_BLOCKS ? ", equal blocks" : "");
}

static void print_json(const struct tu_algorithm *a) {
  struct json j = {0};
  json_begin(&j, "list");
  json_text(&j, "collective", tu_collectives[a->collective].name);
  json_text(&j, "name", a->name);
  json_count(&j, "multiple_of", a->multiple_of ? a->multiple_of : 1);
  json_bool(&j, "rank_order", a->flags & TU_RANK_ORDER);
  json_bool(&j, "equal_blocks", a->flags & TU_EQUAL_BLOCKS);
  json_text(&j, "canonical", canonical_of(a));
  json_text(&j, "summary", a->summary);
  json_end(&j);
}

static void print(const struct tu_algorithm *a, bool json) {
  if (json) {
    print_json(a);
    return;
  }
  char full[TU_NAME_BYTES + 32], requirements[128];
  snprintf(full, sizeof full, "%s.%s", tu_collectives[a->collective].name, a->name);
  print_requirements(a, requirements, sizeof requirements);
  printf("%-30s %-39s %s\n", full, requirements, a->summary);
}

static int run(int argc, char **argv) {
  bool json = false, done;
  const struct cli_option options[] = {JSON_LINES_OPTION(&json)};
  int code = cli_parse(&cli_list, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  struct cli_name *names = tu_allocate((size_t)argc, sizeof *names);
  for (int k = 1; k < argc && code == CLI_GOOD; k++)
    if (!cli_find_name(argv[k], &names[k])) code = cli_fail_name("list", CLI_USAGE, argv[k]);
  /* Print the algorithms of the built-in table in its order, then the composite algorithms that are named on the
   * command line. */
  for (size_t i = 0; code == CLI_GOOD && i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    bool wanted = argc < 2;
    for (int k = 1; k < argc; k++)
      wanted |= names[k].algorithm ? a == names[k].algorithm : a->collective == names[k].collective;
    if (wanted) print(a, json);
  }
  for (int k = 1; k < argc && code == CLI_GOOD; k++)
    if (names[k].algorithm && tu_is_composite(names[k].algorithm->name)) print(names[k].algorithm, json);
  free(names);
  return code;
}

const struct cli_verb cli_list = {
    .name = "list",
    .summary = "list the algorithms, one per line",
    .synopsis = "list [--json] [COLLECTIVE[.NAME] ...]",
    .run = run,
    .arguments = "COLLECTIVE|ALGORITHM",
};
