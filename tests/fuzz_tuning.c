/* fuzz_tuning.c: libFuzzer entry for the readers of selection tables and of the list of forced algorithms. A table that
 * was read is written as text, read again, and must give the same text. It must select an algorithm for every call.
 * Built with -fsanitize=fuzzer; seeds in tests/fuzz_seeds/tuning. */
#include <stdlib.h>
#include <string.h>

#include "algo/tuning.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void write_rules(const struct tu_tuning *tuning, struct tu_text *text) {
  tu_text_print(text, "%s", "");
  for (uint32_t i = 0; i < tuning->rule_count; i++) {
    tu_rule_write(&tuning->rules[i], text);
    tu_text_print(text, "\n");
  }
}

static void select_all(const struct tu_tuning *tuning) {
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c))
    for (uint32_t ranks = 2; ranks <= 4; ranks++) {
      struct tu_wanted wanted = {.collective = (tutti_collective)c, .ranks = ranks, .group = ranks == 4 ? 2 : 0};
      if (tu_collectives[c].family == TUTTI_SEND && ranks != 2) continue;
      const char *why;
      while (tu_algorithm_serves(tu_tuning_select(tuning, &wanted), &wanted, &why)) {
        size_t until = tu_tuning_select_until(tuning, &wanted);
        if (until == SIZE_MAX) break;
        tu_assert(until >= wanted.bytes);
        wanted.bytes = until + 1;
      }
      tu_assert(!why);
    }
}

static void read_forced(const uint8_t *data, size_t bytes) {
  char *list = tu_allocate(bytes + 1, 1);
  memcpy(list, data, bytes);
  struct tu_tuning *tuning;
  struct tu_error error;
  const struct tu_tuning_text text = {.forced = list};
  if (tu_tuning_read(&text, &tuning, &error) == TUTTI_OK) tu_tuning_release(tuning);
  free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct tu_tuning *tuning, *again;
  struct tu_error error;
  if (bytes > 1 << 16) return 0; /* selection is quadratic here */
  read_forced(data, bytes);
  const struct tu_tuning_text text = {"fuzz", (const char *)data, bytes, NULL};
  if (tu_tuning_read(&text, &tuning, &error) != TUTTI_OK) {
    tu_assert(error.text[0]);
    return 0;
  }
  struct tu_text first = {0}, second = {0};
  write_rules(tuning, &first);
  const struct tu_tuning_text written = {"again", first.chars, first.length, NULL};
  tu_assert(tu_tuning_read(&written, &again, NULL) == TUTTI_OK);
  write_rules(again, &second);
  tu_assert(strcmp(first.chars, second.chars) == 0);
  if (tuning->rule_count <= 64) select_all(tuning);
  tu_tuning_release(tuning);
  tu_tuning_release(again);
  tu_text_fini(&first);
  tu_text_fini(&second);
  return 0;
}
