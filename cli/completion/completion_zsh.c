/* completion_zsh.c: writes the completion for zsh: the arguments of _arguments for each verb. */
#include <string.h>

#include "cli/completion/completion.h"

/* Writes a text within single quotes, and with a backslash before what _arguments takes as its own syntax. */
static void write_quoted(const char *chars, struct tu_text *text) {
  for (; *chars; chars++) {
    if (*chars == '\'') tu_text_print(text, "'\\''");
    else tu_text_print(text, strchr("[]:\\", *chars) ? "\\%c" : "%c", *chars);
  }
}

/* Writes the action that completes what a description stands for; nothing if that is nothing. */
static void write_action(const char *description, struct tu_text *text) {
  struct completion_words w;
  completion_words_read(description, &w);
  if (w.words.length && w.files) tu_text_print(text, "{compadd -- %s; _files}", w.words.chars);
  else if (w.words.length) tu_text_print(text, "(%s)", w.words.chars);
  else if (w.files) tu_text_print(text, "_files");
  tu_text_fini(&w.words);
}

static void write_option(const struct cli_option *o, struct tu_text *text) {
  tu_text_print(text, "        '%s%s%s[", o->kind == CLI_LIST ? "*" : "", o->name,
                o->kind != CLI_FLAG && o->name[1] == '-' ? "=" : "");
  write_quoted(o->help, text);
  tu_text_print(text, "]");
  if (o->kind != CLI_FLAG) {
    tu_text_print(text, ":");
    write_quoted(o->value, text);
    tu_text_print(text, ":");
    write_action(o->value, text);
  }
  tu_text_print(text, "' \\\n");
}

static void write_arguments(const struct completion_table *t, struct tu_text *text) {
  struct completion_words w;
  completion_words_read(t->verb->arguments, &w);
  if (w.programs) {
    tu_text_print(text, "        '*::program:_normal'");
  } else if (t->verb->arguments && !*t->part) {
    struct tu_text all = {0};
    tu_text_print(&all, "%s|%s", t->verb->parts ? t->verb->parts : "", t->verb->arguments);
    tu_text_print(text, "        '*:argument:");
    write_action(all.chars, text);
    tu_text_print(text, "'");
    tu_text_fini(&all);
  } else {
    tu_text_print(text, "        '*:no argument:'");
  }
  tu_text_fini(&w.words);
}

static void write_table(const struct completion_table *t, struct tu_text *text) {
  if (*t->part) tu_text_print(text, "    '%s %s')\n      shift words; (( CURRENT-- ))\n", t->verb->name, t->part);
  else tu_text_print(text, "    '%s '*)\n", t->verb->name);
  tu_text_print(text, "      _arguments \\\n");
  for (uint32_t i = 0; i < t->option_count; i++) write_option(&t->options[i], text);
  tu_text_print(text, "        '--help[print the options]' \\\n");
  write_arguments(t, text);
  tu_text_print(text, " ;;\n");
}

void completion_zsh(const struct completion *c, struct tu_text *text) {
  tu_text_print(text,
                "#compdef tutti\n"
                "# Completes command lines of tutti in zsh. Made by `tutti completion zsh`.\n"
                "_tutti() {\n"
                "  local -a verbs\n"
                "  verbs=(\n");
  for (size_t i = 0; i < cli_verbs.count; i++) {
    tu_text_print(text, "    '%s:", cli_verbs.items[i]->name);
    write_quoted(cli_verbs.items[i]->summary, text);
    tu_text_print(text, "'\n");
  }
  tu_text_print(text,
                "    'help:print the options of a verb'\n"
                "  )\n"
                "  if (( CURRENT == 2 )); then\n"
                "    _describe -t verbs verb verbs\n"
                "    compadd -- --help --version\n"
                "    return\n"
                "  fi\n"
                "  shift words; (( CURRENT-- ))\n"
                "  local part=\n"
                "  (( CURRENT > 2 )) && part=${words[2]}\n"
                "  case \"${words[1]} $part\" in\n");
  for (uint32_t i = 0; i < c->table_count; i++) write_table(&c->tables[i], text);
  tu_text_print(text,
                "    'help '*) _describe -t verbs verb verbs ;;\n"
                "  esac\n"
                "}\n"
                "\n"
                "_tutti \"$@\"\n");
}
