/* completion.c: `tutti completion`: collects the tables of options of all verbs, and prints a script that completes
 * command lines in a shell. The tables are those that the verbs parse their options with: each verb is asked for its
 * help, and hands over its table instead of printing it. */
#include "cli/completion/completion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take_options(void *context, const struct cli_option *options, size_t option_count) {
  struct completion_table *t = context;
  for (size_t i = 0; i < option_count; i++) {
    t->options = tu_grow(t->options, t->option_count, &t->capacity, sizeof *t->options);
    t->options[t->option_count] = options[i];
    t->options[t->option_count++].target = NULL;
  }
}

/* Asks a verb, or the part of it, for its options. */
static void ask(struct completion *c, const struct cli_verb *verb, const char *part) {
  char name[32], argument[32], help[] = "--help";
  snprintf(name, sizeof name, "%s", verb->name);
  snprintf(argument, sizeof argument, "%s", part);
  char *argv[] = {name, argument, help, NULL};
  c->tables = tu_grow(c->tables, c->table_count, &c->capacity, sizeof *c->tables);
  struct completion_table *t = &c->tables[c->table_count++];
  *t = (struct completion_table){.verb = verb};
  snprintf(t->part, sizeof t->part, "%s", part);
  cli_viewer = (struct cli_viewer){take_options, t};
  if (*part) {
    verb->run(3, argv);
  } else {
    argv[1] = help;
    argv[2] = NULL;
    verb->run(2, argv);
  }
  cli_viewer = (struct cli_viewer){NULL, NULL};
}

struct asked {
  struct completion *completion;
  const struct cli_verb *verb;
};

static void ask_part(void *context, const char *name) {
  const struct asked *a = context;
  ask(a->completion, a->verb, name);
}

static void collect(struct completion *c) {
  for (size_t i = 0; i < cli_verbs.count; i++) {
    struct asked a = {c, cli_verbs.items[i]};
    completion_split(cli_verbs.items[i]->parts, ask_part, &a);
    ask(c, cli_verbs.items[i], "");
  }
}

static void completion_fini(struct completion *c) {
  for (uint32_t i = 0; i < c->table_count; i++) free(c->tables[i].options);
  free(c->tables);
}

static int run(int argc, char **argv) {
  bool done;
  int code = cli_parse(&cli_completion, NULL, 0, &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  const bool bash = argc == 2 && strcmp(argv[1], "bash") == 0;
  if (!bash && (argc != 2 || strcmp(argv[1], "zsh") != 0))
    return cli_fail("completion", CLI_USAGE, "expected bash or zsh, found %s%s%s", argc == 2 ? "'" : "",
                    argc == 2  ? argv[1]
                    : argc < 2 ? "nothing"
                               : "several arguments",
                    argc == 2 ? "'" : "");
  struct completion c = {0};
  struct tu_text text = {0};
  collect(&c);
  if (bash) completion_bash(&c, &text);
  else completion_zsh(&c, &text);
  fputs(text.chars, stdout);
  tu_text_fini(&text);
  completion_fini(&c);
  return CLI_GOOD;
}

const struct cli_verb cli_completion = {
    .name = "completion",
    .summary = "print a script that completes command lines in bash or zsh",
    .synopsis = "completion bash|zsh",
    .run = run,
    .arguments = "bash|zsh",
    .no_data = "it prints a script for a shell",
};
