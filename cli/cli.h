/* cli.h: the verbs of the command `tutti` and their options. Data goes to standard output, everything else to standard
 * error. Exit status: 0 success, 1 failure, 2 bad usage. */
#ifndef CLI_H
#define CLI_H

#include "base/text.h"

enum { CLI_GOOD = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

enum cli_kind {
  CLI_FLAG,   /* option without a value; target: bool */
  CLI_UINT,   /* integer; target: uint32_t */
  CLI_BYTES,  /* size with an optional suffix K, M or G; target: uint64_t */
  CLI_NUMBER, /* number >= 0, for example 1e-6; target: double */
  CLI_STRING, /* any text; target: const char * */
  CLI_LIST    /* any text, and the option may be repeated; target: struct cli_list */
};

enum { CLI_LIST_MAX = 64 };
struct cli_list {
  const char *items[CLI_LIST_MAX];
  uint32_t count;
};

struct cli_option {
  const char *name; /* name of the option, for example "--json" or "-n" */
  enum cli_kind kind;
  void *target; /* variable that holds the option's default and receives its value */
  /* description of the value in the help text; NULL for flags. Words in lower case separated by '|' are the possible
   * values; completion.c knows some words in upper case, such as FILE or TYPE */
  const char *value;
  const char *help;
};

/* One verb of the command. The verb's source file defines it. */
struct cli_verb {
  const char *name;
  const char *summary;               /* description of the verb in one line, for `tutti --help` */
  const char *synopsis;              /* usage, for example "run -n N [options] -- program [arguments]" */
  int (*run)(int argc, char **argv); /* runs the verb; argv[0] is its name; returns the exit status */
  /* what the verb prints instead of data, for the refusal of --json: "it ..."; NULL: it has the option --json */
  const char *no_data;
  const char *arguments; /* what the arguments without an option are, as cli_option.value; NULL: there are none */
  const char *parts;     /* first arguments after which the verb has other options, separated by '|'; NULL: none */
};
extern const struct cli_verb cli_run, cli_bench, cli_tune, cli_list, cli_plan, cli_check, cli_sim, cli_info, cli_layout,
    cli_slices, cli_topo, cli_mpi, cli_top, cli_trace, cli_as, cli_completion;
/* The verbs that this build of the command has. main sets it. */
extern struct cli_verbs {
  const struct cli_verb *const *items;
  size_t count;
} cli_verbs;

/* Parses options ("--name value", "--name=value", "-n value") anywhere before "--". Other arguments, and all after
 * "--", stay in argv[1..*argc). --help prints the help and sets *done. For an unknown option, the message suggests the
 * most similar name. Returns CLI_GOOD, or CLI_USAGE after printing an error. */
int cli_parse(const struct cli_verb *verb, const struct cli_option *options, size_t option_count, int *argc,
              char **argv, bool *done);

/* If `view` is set, cli_parse hands the table of options to it for --help, and prints nothing. */
extern struct cli_viewer {
  void (*view)(void *context, const struct cli_option *options, size_t option_count);
  void *context;
} cli_viewer;

/* Called before a message is printed, to remove a line of progress from the terminal; NULL: nothing is. */
extern void (*cli_before_message)(void);

/* Prints "tutti VERB: MESSAGE" to standard error; returns exit_code. */
int cli_fail(const char *verb, int exit_code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Writes a text to a file; "-" is standard output. Returns CLI_GOOD, or reports why it could not be written. */
int cli_write_text(const char *verb, const char *path, const struct tu_text *text);
/* The option --json, for a verb's table of options. */
#define JSON_OPTION(target) \
  { "--json", CLI_FLAG, target, NULL, "print one JSON object" }
#define JSON_LINES_OPTION(target) \
  { "--json", CLI_FLAG, target, NULL, "print one JSON object per line" }
/* The option --quiet, for a verb that tells its progress. */
#define QUIET_OPTION(target) \
  { "--quiet", CLI_FLAG, target, NULL, "do not tell the progress on standard error" }
/* For a verb that has --as, and --json was given: sets *as to "json". Returns CLI_GOOD, or reports that --as asks for
 * another form. */
int cli_choose_json(const char *verb, const char **as);
/* Reads the value of an option --order: "any" (also NULL) or "canonical". Returns CLI_GOOD, or reports the error. */
int cli_read_order(const char *verb, const char *text, bool *canonical);

#endif
