/* completion.h: `tutti completion`: the tables of options of all verbs, and the scripts for shells that are made from
 * them. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "base/text.h"
#include "cli/cli.h"

/* The options of a verb, or of a part of it, such as `bench kernels`. */
struct completion_table {
  const struct cli_verb *verb;
  char part[32];              /* first argument; "": the verb itself */
  struct cli_option *options; /* [option_count]; copied, without targets */
  uint32_t option_count, capacity;
};

struct completion {
  struct completion_table *tables; /* [table_count]; the parts of a verb precede the verb itself */
  uint32_t table_count, capacity;
};

/* What may stand in a place of the command line. */
struct completion_words {
  struct tu_text words; /* separated by blanks; no chars: none */
  bool files;           /* names of files, too */
  bool programs;        /* a program and its arguments */
};

/* Reads the description of a value or an argument: names separated by '|'. One in lower case stands for itself; the
 * names in upper case that are known, such as TYPE or FILE, stand for what they say; others for nothing. The caller
 * calls tu_text_fini(&words->words). */
void completion_words_read(const char *description, struct completion_words *words);
/* Calls `each` for each name of a description. */
void completion_split(const char *description, void (*each)(void *context, const char *name), void *context);

/* Write the script of a shell. */
void completion_bash(const struct completion *c, struct tu_text *text);
void completion_zsh(const struct completion *c, struct tu_text *text);

#endif
