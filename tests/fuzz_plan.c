/* fuzz_plan.c: libFuzzer entry for the reader of plans and the checker. A plan that was read is written as text, read
 * again, and must give the same text. The checker may find errors in it, but must return. Built with -fsanitize=fuzzer;
 * seeds in tests/fuzz_seeds. */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "plan/plan_text.h"

/* A few characters can name millions of chunks, which would only make the checker slow. Below this limit, the reader's
 * bound on scratch memory does not depend on the length of the text, which may differ when it is written again. */
enum { CHUNKS_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static bool is_small(const struct tu_plan *plan) {
  uint64_t chunks = 0;
  for (uint32_t r = 0; r < plan->ranks; r++)
    for (uint32_t b = TU_IN; b <= TU_TMP; b++) chunks += tu_plan_chunks(plan, r, (enum tu_buffer)b);
  return chunks <= CHUNKS_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct tu_plan *plan, *again;
  if (tu_plan_read((const char *)data, bytes, "fuzz", &plan, NULL) != TUTTI_OK) return 0;
  if (!is_small(plan)) {
    tu_plan_destroy(plan);
    return 0;
  }
  struct tu_text first = {0}, second = {0};
  tu_plan_write(plan, &first);
  tu_assert(tu_plan_read(first.chars, first.length, "again", &again, NULL) == TUTTI_OK);
  tu_plan_write(again, &second);
  tu_assert(strcmp(first.chars, second.chars) == 0);
  struct tu_check_report report;
  for (uint32_t credits = 1; credits <= 2; credits++) tu_assert(tu_check(plan, credits, &report) || report.text[0]);
  tu_plan_destroy(plan);
  tu_plan_destroy(again);
  tu_text_fini(&first);
  tu_text_fini(&second);
  return 0;
}
