/* fuzz_links.c: libFuzzer entry for the readers of link models and of rows of measurements. A model that was read can
 * be simulated: no time is negative, infinite or NaN. Built with -fsanitize=fuzzer; seeds in tests/fuzz_seeds/links. */
#include <math.h>
#include <stdlib.h>

#include "sim/link_bench.h"
#include "sim/link_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void play(const struct tu_link_model *model) {
  struct tu_link_round_trip trip;
  tu_link_round_trip(model, 1000, &trip);
  tu_assert(trip.full >= 0 && !isinf(trip.full));
  tu_assert(tu_link_ring_ping(model, 64, 2, 3, true) >= 0);
  tu_assert(tu_link_bandwidth(model, 1000, 2, 3) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct tu_link_model model;
  struct tu_link_row *rows;
  struct tu_error error;
  uint32_t count;
  if (tu_link_model_read((const char *)data, bytes, "fuzz", &model, &error) == TUTTI_OK) play(&model);
  else tu_assert(error.text[0]);
  if (tu_link_rows_read((const char *)data, bytes, "fuzz", &rows, &count, &error) == TUTTI_OK) {
    tu_assert(count > 0);
    free(rows);
  } else {
    tu_assert(error.text[0]);
  }
  return 0;
}
