/* completion_words.c: what may stand for a value of an option or for an argument. */
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "base/types.h"
#include "cli/completion/completion.h"
#include "engine/isa.h"
#include "plan/collective.h"
#include "topology/cluster.h"

void completion_split(const char *description, void (*each)(void *context, const char *name), void *context) {
  while (description && *description) {
    char name[64];
    const size_t length = strcspn(description, "|");
    snprintf(name, sizeof name, "%.*s", (int)tu_min(length, sizeof name - 1), description);
    each(context, name);
    description += length + (description[length] == '|');
  }
}

static void add(struct completion_words *w, const char *word) {
  tu_text_print(&w->words, "%s%s", w->words.length ? " " : "", word);
}

static void add_collectives(struct completion_words *w) {
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c))
    if (c != TUTTI_RECV) add(w, tu_collectives[c].name);
}

/* The collectives whose algorithms are their own: not allgatherv, for example. */
static void add_families(struct completion_words *w) {
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c))
    if (tu_collectives[c].family == c && c != TUTTI_SEND) add(w, tu_collectives[c].name);
}

static void add_algorithms(struct completion_words *w) {
  for (size_t i = 0; i < tu_algorithm_count; i++) {
    char name[TU_NAME_BYTES + 32];
    snprintf(name, sizeof name, "%s.%s", tu_collectives[tu_algorithms[i]->collective].name, tu_algorithms[i]->name);
    add(w, name);
  }
}

static void add_types(struct completion_words *w) {
  for (tutti_datatype t = 0; t < TU_DATATYPES; t = tu_datatype_next(t)) add(w, tu_datatypes[t].name);
}

static void add_operations(struct completion_words *w) {
  for (unsigned o = 0; o < TU_OPS; o++) add(w, tu_operations[o].name);
}

static void add_instruction_sets(struct completion_words *w) {
  for (uint32_t i = 0; tu_isa_name(i); i++) add(w, tu_isa_name(i));
}

static void add_clusters(struct completion_words *w) {
  for (uint32_t i = 0; tu_cluster_preset_name(i); i++) add(w, tu_cluster_preset_name(i));
  w->files = true;
}

static void add_verbs(struct completion_words *w) {
  for (size_t i = 0; i < cli_verbs.count; i++) add(w, cli_verbs.items[i]->name);
}

static void add_files(struct completion_words *w) { w->files = true; }
static void add_programs(struct completion_words *w) { w->programs = true; }

static const struct {
  const char *name;
  void (*add)(struct completion_words *w);
} kinds[] = {
    {"COLLECTIVE", add_collectives},
    {"FAMILY", add_families},
    {"ALGORITHM", add_algorithms},
    {"TYPE", add_types},
    {"OP", add_operations},
    {"ISA", add_instruction_sets},
    {"CLUSTER", add_clusters},
    {"VERB", add_verbs},
    {"FILE", add_files},
    {"PROGRAM", add_programs},
};

/* Returns true for a word that stands for itself: it has lower case letters, digits and dashes only. */
static bool is_literal(const char *name) {
  return name[0] >= 'a' && name[0] <= 'z' && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

static void read_name(void *context, const char *name) {
  if (is_literal(name)) add(context, name);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strcmp(kinds[i].name, name) == 0) kinds[i].add(context);
}

void completion_words_read(const char *description, struct completion_words *words) {
  *words = (struct completion_words){.files = false};
  completion_split(description, read_name, words);
}
