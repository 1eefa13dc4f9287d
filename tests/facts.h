/* facts.h: how tests compare a message: by the facts in it, not by its words. For C and C++. */
#ifndef FACTS_H
#define FACTS_H

#include <stdbool.h>
#include <string.h>

/* Returns true if the text contains each of the facts, in any order. '|' separates the facts: "rank 3|tutti_wait". */
static inline bool test_contains(const char *text, const char *facts) {
  for (;; facts++) {
    size_t length = strcspn(facts, "|");
    if (!memmem(text, strlen(text), facts, length)) return false;
    facts += length;
    if (*facts == '\0') return true;
  }
}

#endif
