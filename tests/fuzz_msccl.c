/* fuzz_msccl.c: libFuzzer entry for the reader of MSCCL algorithms. A plan that was read is written as text, read
 * again, and must give the same text. The checker may find errors in it, but must return. Built with -fsanitize=fuzzer;
 * seeds in tests/fuzz_seeds/msccl. */
#include <string.h>

#include "check/check.h"
#include "plan/plan_text.h"

/* A few characters can name many chunks, which would only make the checker slow (see fuzz_plan.c). */
enum { CHUNKS_MAX = 1 << 14, BYTES_MAX = 1 << 15 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static bool is_small(const struct tu_plan *plan) {
  uint64_t chunks = 0;
  for (uint32_t r = 0; r < plan->ranks; r++)
    for (uint32_t b = TU_IN; b <= TU_TMP; b++) chunks += tu_plan_chunks(plan, r, (enum tu_buffer)b);
  return chunks <= CHUNKS_MAX;
}

static void follow(struct tu_plan *plan) {
  struct tu_plan *again;
  struct tu_text first = {0}, second = {0};
  tu_plan_write(plan, &first);
  tu_assert(tu_plan_read_any(first.chars, first.length, "again", false, &again, NULL) == TUTTI_OK);
  tu_plan_write(again, &second);
  tu_assert(strcmp(first.chars, second.chars) == 0);
  struct tu_check_report report;
  tu_assert(tu_check(plan, 1, &report) || report.text[0]);
  tu_plan_destroy(again);
  tu_text_fini(&first);
  tu_text_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct tu_error error;
  struct tu_plan *plan;
  if (bytes > BYTES_MAX) return 0;
  for (int in_place = 0; in_place < 2; in_place++) {
    if (tu_plan_read_msccl((const char *)data, bytes, "fuzz", in_place, &plan, &error) != TUTTI_OK) return 0;
    if (is_small(plan)) follow(plan);
    tu_plan_destroy(plan);
  }
  return 0;
}
