/* cli.c: code common to all verbs: option parsing, help texts and error messages. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

int cli_fail(const char *verb, int exit_code, const char *format, ...) {
  /* Write the message with one call, so that the messages of several ranks that fail at the same time do not mix. */
  char sentence[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  fflush(stdout);
  if (cli_before_message) cli_before_message();
  fprintf(stderr, "tutti %s: %s\n", verb, sentence);
  return exit_code;
}

int cli_write_text(const char *verb, const char *path, const struct tu_text *text) {
  FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
  if (!file) return cli_fail(verb, CLI_FAILED, "%s: %s", path, strerror(errno));
  bool good = fwrite(text->chars, 1, text->length, file) == text->length;
  good &= (file == stdout ? fflush(file) : fclose(file)) == 0;
  return good ? CLI_GOOD : cli_fail(verb, CLI_FAILED, "%s: %s", path, strerror(errno));
}

void (*cli_before_message)(void);
struct cli_verbs cli_verbs;
struct cli_viewer cli_viewer;

static void print_help(const struct cli_verb *verb, const struct cli_option *options, size_t option_count) {
  printf("usage: tutti %s\n\n%s\n\n", verb->synopsis, verb->summary);
  for (size_t i = 0; i <= option_count; i++) {
    const struct cli_option help = {.name = "--help", .help = "print this help; see also man tutti-VERB"};
    const struct cli_option *o = i < option_count ? &options[i] : &help;
    char left[64];
    snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    printf("  %-22s %s\n", left, o->help);
  }
}

/* Returns the option that the argument names; NULL: there is none. Sets *value to the text after '=', or to NULL if
 * there is no '='. */
static const struct cli_option *find_option(const struct cli_option *options, size_t option_count, char *argument,
                                            char **value) {
  size_t length = strcspn(argument, "=");
  *value = argument[length] ? argument + length + 1 : NULL;
  for (size_t i = 0; i < option_count; i++)
    if (strlen(options[i].name) == length && memcmp(options[i].name, argument, length) == 0) return &options[i];
  return NULL;
}

static int fail_unknown(const struct cli_verb *verb, const struct cli_option *options, size_t option_count,
                        char *argument) {
  enum { NAMES_MAX = 64 };
  const char *names[NAMES_MAX];
  tu_assert(option_count < NAMES_MAX);
  /* Without their dashes, which would make all options look similar. */
  for (size_t i = 0; i < option_count; i++) names[i] = options[i].name + strspn(options[i].name, "-");
  names[option_count] = "help";
  argument[strcspn(argument, "=")] = '\0';
  const char *near = tu_nearest(argument + strspn(argument, "-"), names, option_count + 1);
  if (verb->no_data && strcmp(argument, "--json") == 0)
    return cli_fail(verb->name, CLI_USAGE, "there is no --json: %s", verb->no_data);
  if (near)
    return cli_fail(verb->name, CLI_USAGE, "unknown option '%s'; did you mean '%s%s'?", argument, near[1] ? "--" : "-",
                    near);
  return cli_fail(verb->name, CLI_USAGE, "unknown option '%s'; tutti %s --help lists the options", argument,
                  verb->name);
}

static int store(const struct cli_verb *verb, const struct cli_option *option, char *value) {
  uint64_t number;
  switch (option->kind) {
    case CLI_STRING: *(const char **)option->target = value; return CLI_GOOD;
    case CLI_UINT:
      if (!tu_parse_uint(value, UINT32_MAX, &number))
        return cli_fail(verb->name, CLI_USAGE, "%s: expected an integer from 0 to 2^32 - 1, found '%s'", option->name,
                        value);
      *(uint32_t *)option->target = (uint32_t)number;
      return CLI_GOOD;
    case CLI_BYTES:
      if (!tu_parse_bytes(value, (uint64_t *)option->target))
        return cli_fail(verb->name, CLI_USAGE, "%s: expected a size, for example 4096, 64K, 16M or 3G, found '%s'",
                        option->name, value);
      return CLI_GOOD;
    case CLI_NUMBER:
      if (!tu_parse_number(value, (double *)option->target))
        return cli_fail(verb->name, CLI_USAGE, "%s: expected a number >= 0, for example 2, 0.5 or 1e-6, found '%s'",
                        option->name, value);
      return CLI_GOOD;
    case CLI_LIST: {
      struct cli_list *list = option->target;
      if (list->count == CLI_LIST_MAX)
        return cli_fail(verb->name, CLI_USAGE, "option %s may be given at most %d times", option->name, CLI_LIST_MAX);
      list->items[list->count++] = value;
      return CLI_GOOD;
    }
    case CLI_FLAG: break;
  }
  *(bool *)option->target = true;
  return CLI_GOOD;
}

int cli_parse(const struct cli_verb *verb, const struct cli_option *options, size_t option_count, int *argc,
              char **argv, bool *done) {
  int kept = 1, i = 1;
  *done = false;
  for (; i < *argc; i++) {
    if (strcmp(argv[i], "--") == 0) {
      i++;
      break;
    }
    if (argv[i][0] != '-' || argv[i][1] == '\0') {
      argv[kept++] = argv[i];
      continue;
    }
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      if (cli_viewer.view) cli_viewer.view(cli_viewer.context, options, option_count);
      else print_help(verb, options, option_count);
      *done = true;
      return CLI_GOOD;
    }
    char *value;
    const struct cli_option *option = find_option(options, option_count, argv[i], &value);
    if (!option) return fail_unknown(verb, options, option_count, argv[i]);
    if (option->kind == CLI_FLAG && value)
      return cli_fail(verb->name, CLI_USAGE, "option %s takes no value, found '%s'", option->name, value);
    if (option->kind != CLI_FLAG && !value) {
      if (i + 1 == *argc)
        return cli_fail(verb->name, CLI_USAGE, "%s: value %s is missing", option->name, option->value);
      value = argv[++i];
    }
    int code = store(verb, option, value);
    if (code != CLI_GOOD) return code;
  }
  while (i < *argc) argv[kept++] = argv[i++];
  *argc = kept;
  argv[kept] = NULL;
  return CLI_GOOD;
}

int cli_choose_json(const char *verb, const char **as) {
  if (strcmp(*as, "text") != 0 && strcmp(*as, "json") != 0)
    return cli_fail(verb, CLI_USAGE, "--json cannot be combined with --as %s; --as is for text and pictures", *as);
  *as = "json";
  return CLI_GOOD;
}

int cli_read_order(const char *verb, const char *text, bool *canonical) {
  *canonical = text && strcmp(text, "canonical") == 0;
  if (!text || *canonical || strcmp(text, "any") == 0) return CLI_GOOD;
  return cli_fail(verb, CLI_USAGE, "--order: expected any or canonical, found '%s'", text);
}
