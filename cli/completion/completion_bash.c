/* completion_bash.c: writes the completion for bash: a function that knows, for each verb, its options and what may
 * follow them. */
#include "cli/completion/completion.h"

static const char head[] =
    "# Completes command lines of tutti in bash. Made by `tutti completion bash`.\n"
    "# _tutti_table VERB PART OPTION: sets `options` of the verb, and what may follow: `words`, `files`, `programs`. "
    "If\n"
    "# the option takes a value, `takes` is set, and they are about the value.\n"
    "_tutti_table() {\n"
    "  case \"$1 $2\" in\n";

static const char tail[] =
    "  esac\n"
    "}\n"
    "\n"
    "_tutti() {\n"
    "  local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} i ended=\n"
    "  local options= words= files= programs= takes=\n"
    "  COMPREPLY=()\n"
    "  # bash takes the = of --option=value as a word.\n"
    "  if [ \"$current\" = = ]; then\n"
    "    current=\n"
    "  elif [ \"$option\" = = ]; then\n"
    "    option=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "  fi\n"
    "  for ((i = 2; i < COMP_CWORD; i++)); do [ \"${COMP_WORDS[i]}\" != -- ] || ended=1; done\n"
    "  case $COMP_CWORD in\n"
    "    1) _tutti_table '' '' '' ;;\n"
    "    2) _tutti_table \"${COMP_WORDS[1]}\" '' '' ;;\n"
    "    *) _tutti_table \"${COMP_WORDS[1]}\" \"${COMP_WORDS[2]}\" \"$option\" ;;\n"
    "  esac\n"
    "  if [ -n \"$ended\" ]; then\n"
    "    [ -n \"$programs\" ] && [ \"$option\" = -- ] && COMPREPLY=($(compgen -c -- \"$current\"))\n"
    "    files=1\n"
    "  elif [ -z \"$takes\" ] && [ \"${current:0:1}\" = - ]; then\n"
    "    COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
    "    return\n"
    "  else\n"
    "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
    "  fi\n"
    "  if [ -n \"$files\" ]; then\n"
    "    local IFS=$'\\n'\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    COMPREPLY+=($(compgen -f -- \"$current\"))\n"
    "  fi\n"
    "}\n"
    "\n"
    "complete -F _tutti tutti\n";

/* Writes assignments for what a description stands for, such as words='...' files=1 programs=. */
static void write_words(const struct completion_words *w, struct tu_text *text) {
  tu_text_print(text, " words='%s' files=%s programs=%s", w->words.length ? w->words.chars : "", w->files ? "1" : "",
                w->programs ? "1" : "");
}

static void write_description(const char *description, struct tu_text *text) {
  struct completion_words w;
  completion_words_read(description, &w);
  write_words(&w, text);
  tu_text_fini(&w.words);
}

/* Writes a line for each option whose values are known, and a line for all others that take a value. */
static void write_values(const struct completion_table *t, struct tu_text *text) {
  struct tu_text unknown = {0};
  for (uint32_t i = 0; i < t->option_count; i++) {
    const struct cli_option *o = &t->options[i];
    struct completion_words w;
    if (o->kind == CLI_FLAG) continue;
    completion_words_read(o->value, &w);
    if (w.words.length || w.files) {
      tu_text_print(text, "        %s) takes=1", o->name);
      write_words(&w, text);
      tu_text_print(text, " ;;\n");
    } else {
      tu_text_print(&unknown, "%s%s", unknown.length ? " | " : "", o->name);
    }
    tu_text_fini(&w.words);
  }
  if (unknown.length) tu_text_print(text, "        %s) takes=1 words='' files= programs= ;;\n", unknown.chars);
  tu_text_fini(&unknown);
}

static void write_options(const struct completion_table *t, struct tu_text *text) {
  tu_text_print(text, "      options='");
  for (uint32_t i = 0; i < t->option_count; i++) tu_text_print(text, "%s ", t->options[i].name);
  tu_text_print(text, "--help'");
}

static void write_table(const struct completion_table *t, struct tu_text *text) {
  const bool whole = !*t->part;
  tu_text_print(text, "    '%s %s'%s)\n", t->verb->name, t->part, whole ? "*" : "");
  write_options(t, text);
  if (whole) {
    struct tu_text arguments = {0};
    tu_text_print(&arguments, "%s|%s", t->verb->parts ? t->verb->parts : "",
                  t->verb->arguments ? t->verb->arguments : "");
    write_description(arguments.chars, text);
    tu_text_fini(&arguments);
  }
  tu_text_print(text, "\n      case $3 in\n");
  write_values(t, text);
  tu_text_print(text, "      esac ;;\n");
}

void completion_bash(const struct completion *c, struct tu_text *text) {
  tu_text_print(text, "%s", head);
  for (uint32_t i = 0; i < c->table_count; i++) write_table(&c->tables[i], text);
  tu_text_print(text, "    'help '*)");
  write_description("VERB", text);
  tu_text_print(text, " ;;\n    ' ') options='--help --version'");
  write_description("VERB|help", text);
  tu_text_print(text, " ;;\n%s", tail);
}
