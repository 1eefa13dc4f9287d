/* fuzz_pto.c: libFuzzer entry for PTO assembly. A program that was read is written as text, read again, and must give
 * the same text. Its lowered form must be valid, and is written and read again, too. Built with -fsanitize=fuzzer;
 * seeds in tests/fuzz_seeds/pto. */
#include <string.h>

#include "pto/pto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void round_trip(const struct tu_pto_module *module) {
  struct tu_pto_module *again;
  struct tu_text first = {0}, second = {0};
  tu_pto_write(module, &first);
  tu_assert(tu_pto_read(first.chars, first.length, "again", &again, NULL) == TUTTI_OK);
  tu_pto_write(again, &second);
  tu_assert(strcmp(first.chars, second.chars) == 0);
  tu_pto_destroy(again);
  tu_text_fini(&first);
  tu_text_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct tu_pto_module *module;
  struct tu_error error;
  if (tu_pto_read((const char *)data, bytes, "fuzz", &module, &error) != TUTTI_OK) {
    tu_assert(strncmp(error.text, "fuzz:", 5) == 0 && strstr(error.text, "expected"));
    return 0;
  }
  round_trip(module);
  for (uint32_t i = 0; i < module->instruction_count; i++) {
    int64_t shape[TUTTI_DIMS];
    if (module->instructions[i].opcode == TU_PTO_TSYNC) continue;
    tu_pto_extent(module, &module->instructions[i], shape);
    for (int d = 0; d < TUTTI_DIMS; d++) tu_assert(shape[d] >= TU_PTO_OPEN);
  }
  const struct tu_pto_lowering how = {
      .rows = 1 + (uint32_t)bytes % 40, .cols = 1 + (uint32_t)bytes % 70, .ping_pong = bytes % 2};
  if (tu_pto_lower(module, &how, &error) == TUTTI_OK) {
    tu_assert(tu_pto_check(module, NULL) == TUTTI_OK);
    round_trip(module);
  }
  tu_pto_destroy(module);
  return 0;
}
