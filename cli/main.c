/* main.c: the command `tutti`: finds the verb and runs it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"
#include "cli/cli.h"

static const struct cli_verb *const verbs[] = {
    &cli_run,    &cli_bench,  &cli_tune, &cli_list, &cli_plan, &cli_check, &cli_sim,        &cli_info,
    &cli_layout, &cli_slices, &cli_topo, &cli_mpi,  &cli_top,  &cli_trace, &cli_completion,
#if defined(TUTTI_PTO)
    &cli_as,
#endif
};
enum { VERBS = sizeof verbs / sizeof verbs[0] };

static void print_help(FILE *file) {
  fprintf(file, "usage: tutti VERB [options]\n\n");
  for (size_t i = 0; i < VERBS; i++) fprintf(file, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
  fprintf(file, "\nSee tutti help VERB, and man tutti-VERB for details.\n");
}

static const char *verb_name; /* the verb that is being executed, for messages */

/* Handles an allocation failure: prints a message and exits. The kernel frees the resources of the process. */
static void end_without_memory(size_t bytes) {
  (void)cli_fail(verb_name, CLI_FAILED, "out of memory: %zu bytes were refused; " TU_MORE_MEMORY, bytes);
  _exit(CLI_FAILED);
}

static int run_verb(int argc, char **argv) {
  const char *names[VERBS];
  for (size_t i = 0; i < VERBS; i++) {
    names[i] = verbs[i]->name;
    if (strcmp(argv[0], verbs[i]->name) != 0) continue;
    verb_name = verbs[i]->name;
    tu_when_memory_ends = end_without_memory;
    return verbs[i]->run(argc, argv);
  }
  const char *near = tu_nearest(argv[0], names, VERBS);
  fprintf(stderr, "tutti: unknown verb '%s'%s%s%s; tutti --help lists the verbs\n", argv[0],
          near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
  return CLI_USAGE;
}

int main(int argc, char **argv) {
  cli_verbs = (struct cli_verbs){verbs, VERBS};
  if (argc < 2) {
    print_help(stderr);
    return CLI_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    print_help(stdout);
    return CLI_GOOD;
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("tutti %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
    return CLI_GOOD;
  }
  struct tu_error error;
  /* The script of `completion` does not depend on the environment. */
  if (strcmp(argv[1], cli_completion.name) != 0 && tu_env_check(&error) != TUTTI_OK) {
    fprintf(stderr, "tutti: %s\n", error.text);
    return CLI_USAGE;
  }
  /* tutti help VERB: the same as tutti VERB --help */
  const bool help = strcmp(argv[1], "help") == 0;
  if (help && argc < 3) {
    print_help(stdout);
    return CLI_GOOD;
  }
  char *asked[] = {argv[1 + help], (char[]){"--help"}, NULL};
  return help ? run_verb(2, asked) : run_verb(argc - 1, argv + 1);
}
