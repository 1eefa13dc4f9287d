/* bench_launch.c: starts the ranks of a benchmark. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench/bench.h"

int bench_launch(const char *verb, uint32_t ranks, const char *bind, int argc, char **argv) {
  char program[4096], number[16];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length < 0)
    return cli_fail(verb, CLI_FAILED, "cannot find the path of this program: readlink of /proc/self/exe failed");
  program[length] = '\0';
  snprintf(number, sizeof number, "%u", ranks);
  const char *const head[] = {program, "run", "-n", number, "--bind", bind, "--", program, verb};
  enum { HEAD = sizeof head / sizeof head[0] };
  const char **all = tu_allocate(HEAD + (size_t)argc, sizeof *all);
  memcpy(all, head, sizeof head);
  for (int i = 1; i < argc; i++) all[HEAD + i - 1] = argv[i];
  char *const *arguments;
  memcpy(&arguments, &all, sizeof arguments); /* the parameters of execv are not const, but execv does not change the
                                               * strings */
  execv(program, arguments);
  free(all);
  return cli_fail(verb, CLI_FAILED, "cannot start '%s run'", program);
}
