/* mpi.c: `tutti mpi`: starts a program of MPI, or its launcher, so that its collectives run on tutti: sets LD_PRELOAD to
 * libtutti_mpi.so, and has the launcher pass it on to other hosts. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"

#define LIBRARY "libtutti_mpi.so"
#ifndef TUTTI_LIBDIR /* folder of the libraries, from that of the command */
#define TUTTI_LIBDIR "../lib"
#endif

/* A launcher passes variables on to ranks of other hosts by these arguments; by_name: they have the name only, and the
 * launcher takes the value from its own environment. */
struct launcher {
  const char *program; /* name of the file, after all links */
  const char *option;
  bool by_name;
};
static const struct launcher launchers[] = {
    {"orterun", "-x", true}, {"prterun", "-x", true}, {"mpirun", "-x", true}, {"mpiexec.hydra", "-genv", false}};
enum { LAUNCHERS = sizeof launchers / sizeof launchers[0] };

/* Sets path to the library: beside the command, where the build puts it, or where it is installed. */
static bool find_library(char *path, size_t bytes, char *looked, size_t looked_bytes) {
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0) return false;
  self[length] = '\0';
  *strrchr(self, '/') = '\0';
  static const char *const folders[] = {".", TUTTI_LIBDIR};
  size_t at = 0;
  for (int i = 0; i < 2; i++) {
    char name[PATH_MAX + 64];
    snprintf(name, sizeof name, "%s/%s/" LIBRARY, self, folders[i]);
    if (realpath(name, path) && strlen(path) < bytes) return true;
    at += (size_t)snprintf(looked + at, looked_bytes - at, "%s%s", i ? " and " : "", name);
  }
  return false;
}

/* Adds the library to those that the user preloads already. */
static int set_preload(const char *library) {
  const char *before = getenv("LD_PRELOAD");
  char *value = tu_allocate(strlen(library) + (before ? strlen(before) : 0) + 2, 1);
  sprintf(value, "%s%s%s", library, before && *before ? ":" : "", before ? before : "");
  const int failed = setenv("LD_PRELOAD", value, 1);
  free(value);
  return failed;
}

/* Sets path to the file that execvp would execute, after all links. */
static bool find_program(const char *name, char *path) {
  if (strchr(name, '/')) return realpath(name, path) != NULL;
  const char *folders = getenv("PATH");
  for (const char *at = folders ? folders : "/usr/bin:/bin"; *at;) {
    const size_t length = strcspn(at, ":");
    char file[PATH_MAX + NAME_MAX];
    snprintf(file, sizeof file, "%.*s/%s", (int)tu_min(length, PATH_MAX - 1), at, name);
    if (access(file, X_OK) == 0) return realpath(file, path) != NULL;
    at += length + (at[length] == ':');
  }
  return false;
}

static const struct launcher *find_launcher(const char *name) {
  char path[PATH_MAX];
  if (!find_program(name, path)) return NULL;
  const char *base = strrchr(path, '/') + 1;
  for (int i = 0; i < LAUNCHERS; i++)
    if (strcmp(base, launchers[i].program) == 0) return &launchers[i];
  return NULL;
}

/* Returns the command with the arguments by which the launcher passes the variables on. */
static char **pass_on(const struct launcher *l, int argc, char **argv) {
  static char preload[] = "LD_PRELOAD", mode[] = "TUTTI_MPI";
  char **all = tu_allocate((size_t)argc + 8, sizeof *all), *option = l ? strdup(l->option) : NULL;
  int n = 0;
  all[n++] = argv[0];
  for (int i = 0; option && i < 2; i++) {
    char *name = i ? mode : preload, *value = getenv(name);
    if (!value) continue;
    all[n++] = option;
    all[n++] = name;
    if (!l->by_name) all[n++] = value;
  }
  for (int i = 1; i < argc; i++) all[n++] = argv[i];
  all[n] = NULL;
  return all;
}

static int run(int argc, char **argv) {
  bool report = false, verify = false, off = false, done;
  const struct cli_option options[] = {
      {"--report", CLI_FLAG, &report, NULL,
       "print at the end what was carried out with tutti, and what was not, and why"},
      {"--verify", CLI_FLAG, &verify, NULL, "carry out each call with tutti and with the MPI, and compare"},
      {"--off", CLI_FLAG, &off, NULL, "leave all calls to the MPI, for comparison"}};
  int code = cli_parse(&cli_mpi, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if (report + verify + off > 1)
    return cli_fail("mpi", CLI_USAGE, "expected at most one of --report, --verify and --off");
  if (argc < 2)
    return cli_fail("mpi", CLI_USAGE, "expected a command after --, for example: tutti mpi -- mpirun -n 4 ./program");
  char library[PATH_MAX], looked[3 * PATH_MAX] = "";
  if (!find_library(library, sizeof library, looked, sizeof looked))
    return cli_fail("mpi", CLI_FAILED,
                    "no " LIBRARY " at %s; the build makes it if it finds Open MPI or MPICH (tools/setup mpi)", looked);
  const char *mode = report ? "report" : verify ? "verify" : off ? "off" : NULL;
  if (set_preload(library) != 0 || (mode && setenv("TUTTI_MPI", mode, 1) != 0))
    return cli_fail("mpi", CLI_FAILED, "setenv: %s", strerror(errno));
  char **command = pass_on(find_launcher(argv[1]), argc - 1, argv + 1);
  execvp(command[0], command);
  return cli_fail("mpi", CLI_FAILED, "%s: %s", command[0], strerror(errno));
}

const struct cli_verb cli_mpi = {
    .name = "mpi",
    .summary = "run a program of MPI with its collectives on tutti",
    .synopsis = "mpi [--report | --verify | --off] -- mpirun [arguments] program [arguments]",
    .run = run,
    .no_data = "it runs a program, and prints what that prints",
    .arguments = "PROGRAM",
};
