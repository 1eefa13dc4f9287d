/* cli.h: the command's verbs and their options. Data goes to standard output, everything else to standard error.
 * Exit 0 good, 1 failed, 2 bad usage. */
#ifndef CLI_H
#define CLI_H

#include "base/base.h"

enum { CLI_GOOD = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

enum cli_kind {
  CLI_FLAG,   /* bool */
  CLI_UINT,   /* uint32_t */
  CLI_BYTES,  /* uint64_t, with suffix K, M, G */
  CLI_NUMBER, /* double, 0 or more: 1e-6 */
  CLI_STRING, /* const char * */
  CLI_LIST    /* struct cli_list: may be given several times */
};

enum { CLI_LIST_MAX = 64 };
struct cli_list {
  const char *items[CLI_LIST_MAX];
  uint32_t count;
};

struct cli_option {
  const char *name; /* "--json" or "-n" */
  enum cli_kind kind;
  void *target;      /* holds the default, receives the value */
  const char *value; /* what help calls it; NULL for flags */
  const char *help;
};

/* One verb: its own file exports this. */
struct cli_verb {
  const char *name;
  const char *summary;               /* one line for `tutti --help` */
  const char *synopsis;              /* "run -n N [options] -- program [arguments]" */
  int (*run)(int argc, char **argv); /* argv[0] is the verb */
};
extern const struct cli_verb cli_run, cli_bench, cli_tune, cli_list, cli_plan, cli_check, cli_sim, cli_info, cli_layout,
    cli_slices, cli_topo, cli_as;

/* Reads options ("--name value", "--name=value", "-n value") anywhere before "--"; what is left (and all after "--")
 * stays in argv[1..*argc). Handles --help (prints, *done = true). An unknown option is an error that names the nearest.
 * Returns CLI_GOOD or CLI_USAGE, having said why. */
int cli_parse(const struct cli_verb *verb, const struct cli_option *options, size_t option_count, int *argc,
              char **argv, bool *done);

/* "tutti VERB: sentence" on standard error; returns `exit_code`. */
int cli_fail(const char *verb, int exit_code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
