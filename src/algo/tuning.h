/* tuning.h: selection tables: which algorithm runs for which size. Users can read and replace them. tutti-tuning(5) has
 * the grammar: one rule per line; the first rule that fits wins; a rule is skipped if its algorithm cannot serve the
 * call. If no rule of a table fits, the built-in table (select.c) decides. It has the same format.
 *
 * Selection depends only on values that are equal on all ranks. It runs when a request is made, not at every call. */
#ifndef TU_TUNING_H
#define TU_TUNING_H

#include <stdatomic.h>

#include "algo/algo.h"
#include "base/arena.h"

struct tu_text;

/* Calls that a rule is for: those of any order, those of the canonical order. */
enum tu_for_order { TU_FOR_ANY = 1, TU_FOR_CANONICAL = 2 };

/* One rule. The rules of a collective also apply to its vector variant; the rules of a vector variant apply only to
 * that variant. */
struct tu_rule {
  tutti_collective collective;
  uint32_t ranks_min, ranks_max;
  uint32_t hosts_min, hosts_max;   /* range of the number of hosts */
  uint32_t groups_min, groups_max; /* range of the number of locality groups; 1 for a communicator without groups */
  uint32_t share_min, share_max;   /* range of the number of ranks that share a CPU; 1: no rank shares its CPU */
  /* range of sizes in bytes; bytes_max SIZE_MAX: any size from bytes_min on, and a size that is not known to all
   * ranks */
  size_t bytes_min, bytes_max;
  uint32_t orders; /* for which calls: bits of enum tu_for_order */
  /* algorithm of the rule; its group size may be open (TU_OPEN_GROUPS) */
  const struct tu_algorithm *algorithm;
};

struct tu_tuning {
  struct tu_arena arena; /* memory of the whole table, including this struct */
  _Atomic uint32_t users;
  char *name; /* name of the text that contains the rules; NULL: there are no rules */
  struct tu_rule *rules;
  uint32_t rule_count;
  /* [collective]: algorithm that is used instead of any rule; NULL: none */
  const struct tu_algorithm *forced[TU_COLLECTIVES];
};

/* Input of tu_tuning_read. */
struct tu_tuning_text {
  const char *name; /* name of the source of the rules, for error messages; NULL: there are no rules */
  const char *rules;
  size_t rules_bytes;
  const char *forced; /* list of forced algorithms, such as "allreduce=ring,broadcast=binomial"; NULL: none */
};

/* Reads the rules and the list of forced algorithms. The last tu_tuning_release frees the table. Returns
 * TUTTI_ERR_ARGUMENT for an invalid rule, TUTTI_ERR_ENVIRONMENT for an invalid list, or TUTTI_ERR_MEMORY. The message
 * for an invalid rule contains name, line, what was expected, and the nearest known name. */
tutti_err tu_tuning_read(const struct tu_tuning_text *text, struct tu_tuning **tuning, struct tu_error *error);
/* tu_tuning_share adds a user of the table. tu_tuning_release removes one, and frees the table after the last. Both
 * accept NULL. */
struct tu_tuning *tu_tuning_share(struct tu_tuning *tuning);
void tu_tuning_release(struct tu_tuning *tuning);

/* Returns the built-in table, which has rules for every call that no other rule serves. Any thread may call this
 * function. The first call reads the table, which then lives as long as the process. If memory runs out, the function
 * does not return: it jumps (longjmp) to the enclosing tu_arena_build (base/arena.h), which returns
 * TUTTI_ERR_MEMORY. */
const struct tu_tuning *tu_tuning_builtin(void);

/* Sets *choice to `forced` or, if `forced` is NULL, to the result of tu_tuning_select. If the algorithm leaves its
 * group size open ("/g"), the size becomes that in `wanted`. May return TUTTI_ERR_MEMORY. */
tutti_err tu_tuning_choose(const struct tu_tuning *tuning, const struct tu_algorithm *forced,
                           const struct tu_wanted *wanted, const struct tu_algorithm **choice, struct tu_error *error);
/* Returns the algorithm that the rules of `tuning` select (NULL: no rules) or, if no rule fits, that the built-in rules
 * select; never NULL. If memory runs out, the function does not return: it jumps (longjmp) to the enclosing
 * tu_arena_build (base/arena.h), which returns TUTTI_ERR_MEMORY. */
const struct tu_algorithm *tu_tuning_select(const struct tu_tuning *tuning, const struct tu_wanted *wanted);
/* Returns the largest size in bytes, from wanted->bytes on, up to which tu_tuning_select selects the same algorithm;
 * SIZE_MAX if this holds for all larger sizes. */
size_t tu_tuning_select_until(const struct tu_tuning *tuning, const struct tu_wanted *wanted);

/* Writes the rule as one line without its line end. Reading this line gives the same rule. */
void tu_rule_write(const struct tu_rule *rule, struct tu_text *text);

#endif
