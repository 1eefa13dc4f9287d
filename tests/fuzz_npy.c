/* fuzz_npy.c: libFuzzer entry for the reader of NumPy files. An array that was read lies within the file, and its
 * header, written again, gives the same array. Built with -fsanitize=fuzzer; seeds in tests/fuzz_seeds/npy. */
#include <stdlib.h>
#include <string.h>

#include "base/npy.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct tu_npy npy, again;
  struct tu_error error;
  if (tu_npy_read(data, bytes, "fuzz", &npy, &error) != TUTTI_OK) {
    tu_assert(error.text[0]);
    return 0;
  }
  const uint8_t *elements = npy.data;
  tu_assert(elements >= data && elements <= data + bytes && npy.bytes == (size_t)(data + bytes - elements));
  struct tu_text file = {0};
  tu_npy_header(&npy, &file);
  char *whole = malloc(file.length + npy.bytes);
  tu_assert(whole);
  memcpy(whole, file.chars, file.length);
  memcpy(whole + file.length, elements, npy.bytes);
  tu_assert(tu_npy_read(whole, file.length + npy.bytes, "again", &again, NULL) == TUTTI_OK);
  tu_assert(again.type == npy.type && again.dims == npy.dims && again.bytes == npy.bytes);
  tu_assert(memcmp(again.shape, npy.shape, sizeof npy.shape) == 0);
  free(whole);
  tu_text_fini(&file);
  return 0;
}
