/* tuning.h: which algorithm runs for which size: a table that a person can read and replace. tutti-tuning(5) has the
 * grammar: one rule a line, the first that fits wins, a rule whose algorithm cannot do what is wanted is passed over. What a
 * table does not cover falls to the built-in one, which is the same text (select.c).
 *
 * Selection reads only facts equal on all ranks. It happens when a request is made, not at every call. */
#ifndef TU_TUNING_H
#define TU_TUNING_H

#include <stdatomic.h>

#include "algo/algo.h"
#include "base/arena.h"

struct tu_text;

/* A collective's rules serve its vector variant too; those of a vector variant serve it alone. */
struct tu_rule {
  tutti_collective collective;
  uint32_t ranks_min, ranks_max;
  uint32_t groups_min, groups_max;      /* a communicator without groups is one */
  uint32_t share_min, share_max;        /* ranks that share a CPU; 1 if none has to */
  size_t bytes_min, bytes_max;          /* SIZE_MAX: any, also what not all ranks know */
  const struct tu_algorithm *algorithm; /* its groups may be open */
};

struct tu_tuning {
  struct tu_arena arena; /* all of it, this struct as well */
  _Atomic uint32_t users;
  char *name; /* of the text that the rules came from; NULL if there are none */
  struct tu_rule *rules;
  uint32_t rule_count;
  const struct tu_algorithm *forced[TUTTI_COLLECTIVES]; /* what runs whatever the rules say, or NULL */
};

/* What is to be read. */
struct tu_tuning_text {
  const char *name; /* for messages; NULL: there are no rules */
  const char *rules;
  size_t rules_bytes;
  const char *forced; /* "allreduce=ring,broadcast=binomial", or NULL */
};

/* Reads both. A broken line is ARGUMENT with name, line, what was expected and the nearest known name; a broken list of
 * forced ones ENVIRONMENT; MEMORY. Released by the last tu_tuning_release. */
tutti_err tu_tuning_read(const struct tu_tuning_text *text, struct tu_tuning **tuning, struct tu_error *error);
/* One more user; NULL is fine in both. */
struct tu_tuning *tu_tuning_share(struct tu_tuning *tuning);
void tu_tuning_release(struct tu_tuning *tuning);

/* The rules that serve what no other table covers; every collective is covered. Any thread; lasts for ever. Made when it
 * is first asked for; a refusal of memory then ends the building that this is in (base/arena.h). */
const struct tu_tuning *tu_tuning_builtin(void);

/* On groups of the size that is wanted: `forced`, or if that is NULL what tu_tuning_select picks. MEMORY. */
tutti_err tu_tuning_choose(const struct tu_tuning *tuning, const struct tu_algorithm *forced,
                           const struct tu_wanted *wanted, const struct tu_algorithm **choice, struct tu_error *error);
/* Picks by the rules of `tuning` (NULL: it has none), then by the built-in ones. Never NULL; memory that is refused ends the
 * building that this is in (base/arena.h). */
const struct tu_algorithm *tu_tuning_select(const struct tu_tuning *tuning, const struct tu_wanted *wanted);
/* Up to which size, from wanted->bytes on, it is the same choice; SIZE_MAX: for all. */
size_t tu_tuning_select_until(const struct tu_tuning *tuning, const struct tu_wanted *wanted);

/* One line, without its end, that reads back as the rule. */
void tu_rule_write(const struct tu_rule *rule, struct tu_text *text);

#endif
