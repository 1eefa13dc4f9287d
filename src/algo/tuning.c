/* tuning.c: reads and writes the text of a selection table, and reads the list of forced algorithms. Time and memory
 * are linear in the length of the text. */
#include "algo/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* maximum length of a token; tokens may be long, because the name of a composite contains several names */
enum { TOKEN_BYTES = 192 };

struct reader {
  struct tu_scan scan;
  struct tu_error *error;
};

/* ---- error messages: "name:line: expected ..., found '...'" ------------------------------------------------------ */

static tutti_err expected(struct reader *r, struct tu_scan at, const char *what) {
  return tu_scan_fail(&at, r->error, what);
}

/* Sets the error of an unknown name, adds the nearest known name to the message, and returns the error. `at`: position
 * of the unknown name. */
static tutti_err expected_name(struct reader *r, struct tu_scan at, const char *what, const char *nearest) {
  tutti_err err = tu_scan_fail(&at, r->error, what);
  if (!nearest || !r->error) return err;
  return tu_fail(r->error, err, "%s; did you mean '%s'?", r->error->text, nearest);
}

/* ---- reading one rule ------------------------------------------------------------------------------------------- */

enum quantity { RANKS, HOSTS, GROUPS, SHARE, BYTES, QUANTITIES };
static const char *const quantity_names[] = {
    [RANKS] = "ranks", [HOSTS] = "hosts", [GROUPS] = "groups", [SHARE] = "share", [BYTES] = "bytes"};
static const char *const quantity_values[] = {[RANKS] = "a number of ranks from 1 to 65536",
                                              [HOSTS] = "a number of hosts from 1 to 65536",
                                              [GROUPS] = "a number of groups from 1 to 65536",
                                              [SHARE] = "a number of ranks per CPU from 1 to 65536",
                                              [BYTES] = "a size, for example 4096, 64K, 16M or 3G"};
#define CONDITION "a condition on ranks, hosts, groups, share, bytes or order"

/* Reads the name of a quantity (ranks, hosts, groups, share or bytes) if it comes next in the text. Otherwise reads nothing
 * and returns false. */
static bool take_quantity(struct reader *r, enum quantity *quantity) {
  struct tu_scan before = r->scan;
  char word[TOKEN_BYTES];
  if (tu_scan_word(&r->scan, word, sizeof word))
    for (unsigned q = 0; q < QUANTITIES; q++) {
      if (strcmp(word, quantity_names[q]) != 0) continue;
      *quantity = (enum quantity)q;
      return true;
    }
  r->scan = before;
  return false;
}

static bool parse_value(enum quantity quantity, const char *token, uint64_t *value) {
  if (quantity != BYTES) return tu_parse_uint(token, TU_RANKS_MAX, value) && *value > 0;
  return tu_parse_bytes(token, value) && *value <= SIZE_MAX;
}

/* Narrows the range min..max to its intersection with low..high. Returns false if the intersection is empty. */
static bool narrow_count(uint32_t *min, uint32_t *max, size_t low, size_t high) {
  *min = (uint32_t)tu_max(*min, low);
  *max = (uint32_t)tu_min(*max, high);
  return *min <= *max;
}

static bool narrow_bytes(size_t *min, size_t *max, size_t low, size_t high) {
  *min = tu_max(*min, low);
  *max = tu_min(*max, high);
  return *min <= *max;
}

/* Parses the rest of a condition, for example "<=8K", and narrows a range of the rule accordingly. */
static tutti_err read_condition(struct reader *r, enum quantity quantity, struct tu_rule *rule) {
  bool below = tu_scan_literal(&r->scan, "<="), above = !below && tu_scan_literal(&r->scan, ">=");
  if (!below && !above && !tu_scan_literal(&r->scan, "=")) return expected(r, r->scan, "'<=', '>=' or '='");
  struct tu_scan before = r->scan;
  char token[TOKEN_BYTES];
  uint64_t value;
  if (!tu_scan_token(&r->scan, token, sizeof token) || !parse_value(quantity, token, &value))
    return expected(r, before, quantity_values[quantity]);
  size_t low = above || !below ? (size_t)value : 0, high = below || !above ? (size_t)value : SIZE_MAX;
  if (quantity == RANKS    ? narrow_count(&rule->ranks_min, &rule->ranks_max, low, high)
      : quantity == HOSTS  ? narrow_count(&rule->hosts_min, &rule->hosts_max, low, high)
      : quantity == GROUPS ? narrow_count(&rule->groups_min, &rule->groups_max, low, high)
      : quantity == SHARE  ? narrow_count(&rule->share_min, &rule->share_max, low, high)
                           : narrow_bytes(&rule->bytes_min, &rule->bytes_max, low, high))
    return TUTTI_OK;
  char what[96];
  snprintf(what, sizeof what, "conditions on %s that do not exclude each other", quantity_names[quantity]);
  return expected(r, before, what);
}

/* Reads "order=any" or "order=canonical" if the word "order" comes next in the text; *taken tells. */
static tutti_err read_order(struct reader *r, struct tu_rule *rule, bool *taken) {
  struct tu_scan before = r->scan;
  char word[TOKEN_BYTES];
  *taken = tu_scan_word(&r->scan, word, sizeof word) && strcmp(word, "order") == 0;
  if (!*taken) {
    r->scan = before;
    return TUTTI_OK;
  }
  if (!tu_scan_literal(&r->scan, "=")) return expected(r, r->scan, "'='");
  before = r->scan;
  uint32_t order = 0;
  if (tu_scan_word(&r->scan, word, sizeof word))
    order = strcmp(word, "any") == 0 ? TU_FOR_ANY : strcmp(word, "canonical") == 0 ? TU_FOR_CANONICAL : 0;
  if (order == 0) return expected(r, before, "any or canonical");
  rule->orders &= order;
  return rule->orders ? TUTTI_OK : expected(r, before, "conditions on order that do not exclude each other");
}

static tutti_err read_algorithm(struct reader *r, struct tu_rule *rule) {
  struct tu_scan before = r->scan;
  const char *collective = tu_collectives[rule->collective].name;
  char token[TOKEN_BYTES], what[96];
  snprintf(what, sizeof what, CONDITION ", or an algorithm of %s", collective);
  if (!tu_scan_token(&r->scan, token, sizeof token)) return expected(r, before, what);
  size_t length = strcspn(token, "<>=");
  if (token[length]) { /* the token looks like a condition, but no quantity has this name */
    token[length] = '\0';
    return expected_name(r, before, CONDITION,
                         tu_nearest(token, quantity_names, sizeof quantity_names / sizeof quantity_names[0]));
  }
  rule->algorithm = tu_algorithm_find(rule->collective, token);
  if (rule->algorithm) return TUTTI_OK;
  return expected_name(r, before, what, tu_algorithm_nearest(rule->collective, token));
}

static tutti_err read_rule(struct reader *r, struct tu_rule *rule) {
  *rule = (struct tu_rule){.ranks_min = 1,
                           .ranks_max = TU_RANKS_MAX,
                           .hosts_min = 1,
                           .hosts_max = TU_RANKS_MAX,
                           .groups_min = 1,
                           .groups_max = TU_RANKS_MAX,
                           .share_min = 1,
                           .share_max = TU_RANKS_MAX,
                           .orders = TU_FOR_ANY | TU_FOR_CANONICAL,
                           .bytes_max = SIZE_MAX};
  struct tu_scan before = r->scan;
  char token[TOKEN_BYTES];
  bool taken = tu_scan_token(&r->scan, token, sizeof token);
  if (!taken || !tu_collective_find(token, &rule->collective))
    return expected_name(r, before, "a collective", taken ? tu_collective_nearest(token) : NULL);
  enum quantity quantity;
  bool more = true;
  tutti_err err = TUTTI_OK;
  while (more && err == TUTTI_OK) {
    err = read_order(r, rule, &more);
    if (more || err != TUTTI_OK) continue;
    more = take_quantity(r, &quantity);
    if (more) err = read_condition(r, quantity, rule);
  }
  if (err == TUTTI_OK) err = read_algorithm(r, rule);
  if (err != TUTTI_OK) return err;
  return tu_scan_end_of_line(&r->scan) ? TUTTI_OK : expected(r, r->scan, "the end of the line");
}

/* ---- reading the list of forced algorithms ----------------------------------------------------------------------- */

static tutti_err force(struct tu_tuning *tuning, const char *entry, struct tu_error *error) {
  char collective[TOKEN_BYTES];
  const char *name = strchr(entry, '=');
  if (!name || name[1] == '\0')
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "TUTTI_ALGORITHM: expected COLLECTIVE=ALGORITHM, for example allreduce=ring, found '%.64s'", entry);
  snprintf(collective, sizeof collective, "%.*s", (int)tu_min((size_t)(name - entry), sizeof collective), entry);
  name++;
  tutti_collective c;
  if (!tu_collective_find(collective, &c)) {
    const char *near = tu_collective_nearest(collective);
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_ALGORITHM: expected a collective, found '%.64s'%s%s%s",
                   collective, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  const struct tu_algorithm *a = tu_algorithm_find(c, name);
  if (!a) {
    const char *near = tu_algorithm_nearest(c, name);
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_ALGORITHM: expected an algorithm of %s, found '%.64s'%s%s%s",
                   tu_collectives[c].name, name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  if (tuning->forced[c] && tuning->forced[c] != a)
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_ALGORITHM: expected one algorithm for %s, found two: %s and %s",
                   tu_collectives[c].name, tuning->forced[c]->name, a->name);
  tuning->forced[c] = a;
  return TUTTI_OK;
}

static tutti_err read_forced(struct tu_tuning *tuning, const char *list, struct tu_error *error) {
  size_t bytes = strlen(list) + 1;
  char *copy = tu_arena_allocate(&tuning->arena, bytes, 1);
  memcpy(copy, list, bytes);
  tutti_err err = TUTTI_OK;
  for (char *entry = copy, *next; entry && err == TUTTI_OK; entry = next) {
    next = strchr(entry, ',');
    if (next) *next++ = '\0';
    err = force(tuning, entry, error);
  }
  tu_arena_free(&tuning->arena, copy);
  return err;
}

/* ---- reading the whole table ------------------------------------------------------------------------------------- */

static tutti_err read_rules(struct tu_tuning *tuning, const struct tu_tuning_text *text, struct tu_error *error) {
  struct reader r = {
      .scan = {.at = text->rules, .end = text->rules + text->rules_bytes, .line = 1, .name = text->name},
      .error = error,
  };
  uint32_t capacity = 0;
  while (!tu_scan_at_end(&r.scan)) {
    struct tu_rule rule;
    tutti_err err = read_rule(&r, &rule);
    if (err != TUTTI_OK) return err;
    tuning->rules = tu_arena_grow(&tuning->arena, tuning->rules, tuning->rule_count, &capacity, sizeof *tuning->rules);
    tuning->rules[tuning->rule_count++] = rule;
  }
  return TUTTI_OK;
}

struct job {
  const struct tu_tuning_text *text;
  struct tu_tuning *tuning;
};

static tutti_err read_both(void *argument, struct tu_error *error) {
  struct job *job = argument;
  const struct tu_tuning_text *text = job->text;
  struct tu_arena arena = {0};
  struct tu_tuning *t = job->tuning = tu_arena_allocate(&arena, 1, sizeof *t);
  t->arena = arena;
  atomic_init(&t->users, 1);
  tutti_err err = TUTTI_OK;
  if (text->name) {
    size_t bytes = strlen(text->name) + 1;
    t->name = tu_arena_allocate(&t->arena, bytes, 1);
    memcpy(t->name, text->name, bytes);
    err = read_rules(t, text, error);
  }
  if (err == TUTTI_OK && text->forced) err = read_forced(t, text->forced, error);
  return err;
}

tutti_err tu_tuning_read(const struct tu_tuning_text *text, struct tu_tuning **tuning, struct tu_error *error) {
  struct job job = {.text = text};
  tutti_err err = tu_arena_build(read_both, &job, "the selection table", error);
  if (err == TUTTI_OK) *tuning = job.tuning;
  else tu_tuning_release(job.tuning);
  return err;
}

struct tu_tuning *tu_tuning_share(struct tu_tuning *tuning) {
  if (tuning) atomic_fetch_add(&tuning->users, 1);
  return tuning;
}

void tu_tuning_release(struct tu_tuning *tuning) {
  if (!tuning || atomic_fetch_sub(&tuning->users, 1) > 1) return;
  tu_arena_fini(&tuning->arena);
}

/* ---- writing a rule --------------------------------------------------------------------------------------------- */

static void write_value(enum quantity quantity, size_t value, char *text, size_t text_bytes) {
  static const char *const units[] = {"", "K", "M", "G"};
  int unit = 0;
  while (quantity == BYTES && unit < 3 && value > 0 && value % 1024 == 0) value /= 1024, unit++;
  snprintf(text, text_bytes, "%zu%s", value, units[unit]);
}

/* Writes the conditions that describe the range low..high of a quantity. min..max is the range if there are no
 * conditions. */
static void write_conditions(enum quantity quantity, size_t low, size_t high, size_t min, size_t max,
                             struct tu_text *text) {
  const char *name = quantity_names[quantity];
  char value[32];
  bool one = low == high;
  if (low > min || one) {
    write_value(quantity, low, value, sizeof value);
    tu_text_print(text, " %s%s%s", name, one ? "=" : ">=", value);
  }
  if (high < max && !one) {
    write_value(quantity, high, value, sizeof value);
    tu_text_print(text, " %s<=%s", name, value);
  }
}

void tu_rule_write(const struct tu_rule *rule, struct tu_text *text) {
  struct tu_text conditions = {0};
  tu_text_print(&conditions, "%s", "");
  write_conditions(RANKS, rule->ranks_min, rule->ranks_max, 1, TU_RANKS_MAX, &conditions);
  write_conditions(HOSTS, rule->hosts_min, rule->hosts_max, 1, TU_RANKS_MAX, &conditions);
  write_conditions(GROUPS, rule->groups_min, rule->groups_max, 1, TU_RANKS_MAX, &conditions);
  write_conditions(SHARE, rule->share_min, rule->share_max, 1, TU_RANKS_MAX, &conditions);
  if (rule->orders == TU_FOR_ANY) tu_text_print(&conditions, " order=any");
  if (rule->orders == TU_FOR_CANONICAL) tu_text_print(&conditions, " order=canonical");
  write_conditions(BYTES, rule->bytes_min, rule->bytes_max, 0, SIZE_MAX, &conditions);
  tu_text_print(text, "%-14s%-22s %s", tu_collectives[rule->collective].name, conditions.chars, rule->algorithm->name);
  tu_text_fini(&conditions);
}
