/* list.c: tutti list: the algorithms, one a line. */
#include <stdio.h>
#include <stdlib.h>

#include "names.h"

/* "any N", "N a multiple of 2, rank order, equal blocks" */
static void print_requirements(const struct tu_algorithm *a, char *text, size_t bytes) {
  char ranks[40] = "any N";
  if (a->multiple_of) snprintf(ranks, sizeof ranks, "N a multiple of %u", a->multiple_of);
  if (a->collective == TUTTI_SEND) snprintf(ranks, sizeof ranks, "N = 2");
  snprintf(text, bytes, "%s%s%s", ranks, a->flags & TU_RANK_ORDER ? ", rank order" : "",
           a->flags & TU_EQUAL_BLOCKS ? ", equal blocks" : "");
}

/* Summaries are our own plain text; quotes and backslashes are all that JSON minds in it. */
static void print_json_string(const char *text) {
  putchar('"');
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar(*text);
  }
  putchar('"');
}

static void print_json(const struct tu_algorithm *a) {
  static const char *const answers[] = {"false", "true"};
  printf(
      "{\"collective\": \"%s\", \"name\": \"%s\", \"multiple_of\": %u, \"rank_order\": %s, \"equal_blocks\": %s, "
      "\"summary\": ",
      tu_collectives[a->collective].name, a->name, a->multiple_of ? a->multiple_of : 1,
      answers[(a->flags & TU_RANK_ORDER) != 0], answers[(a->flags & TU_EQUAL_BLOCKS) != 0]);
  print_json_string(a->summary);
  puts("}");
}

static int run(int argc, char **argv) {
  bool json = false, done;
  const struct cli_option options[] = {{"--json", CLI_FLAG, &json, NULL, "one object a line"}};
  int code = cli_parse(&cli_list, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  bool *wanted = tu_allocate(tu_algorithm_count, sizeof *wanted);
  for (size_t i = 0; i < tu_algorithm_count; i++) wanted[i] = argc < 2;
  for (int k = 1; k < argc && code == CLI_GOOD; k++) {
    struct cli_name name;
    if (!cli_find_name(argv[k], &name)) code = cli_fail_name("list", CLI_USAGE, argv[k]);
    for (size_t i = 0; code == CLI_GOOD && i < tu_algorithm_count; i++)
      wanted[i] |=
          name.algorithm ? tu_algorithms[i] == name.algorithm : tu_algorithms[i]->collective == name.collective;
  }
  for (size_t i = 0; code == CLI_GOOD && i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    if (!wanted[i]) continue;
    if (json) {
      print_json(a);
      continue;
    }
    char full[96], requirements[64];
    snprintf(full, sizeof full, "%s.%s", tu_collectives[a->collective].name, a->name);
    print_requirements(a, requirements, sizeof requirements);
    printf("%-30s %-32s %s\n", full, requirements, a->summary);
  }
  free(wanted);
  return code;
}

const struct cli_verb cli_list = {"list", "the algorithms, one a line", "list [--json] [COLLECTIVE[.NAME] ...]", run};
