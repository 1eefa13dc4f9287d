/* tensor_values_test.c: copies f32 to tensors of every type and layout and back, and checks each element at the offset
 * that the definition of the layout gives. */
#include <math.h>

#include "engine/kernels.h"
#include "tensors.h"
#include "test.h"

enum { GROUP = 16 };

/* Returns the expected value of an element, computed group by group. A group is 16 consecutive elements of a row, which
 * share an exponent as block floats; elements beyond the row's end are zeros. */
static double rounded(const tutti_tensor *t, const float *values, const size_t i[TUTTI_DIMS]) {
  size_t cols = t->shape[4], row = ((i[0] * t->shape[1] + i[1]) * t->shape[2] + i[2]) * t->shape[3] + i[3];
  size_t item_bytes = tutti_datatype_size(t->type);
  unsigned char item[17];
  if (item_bytes <= 8) {
    tu_from_double(t->type, item, (double)values[row * cols + i[4]]);
    return tu_to_double(t->type, item);
  }
  float group[GROUP] = {0};
  for (size_t k = i[4] / GROUP * GROUP; k < cols && k / GROUP == i[4] / GROUP; k++)
    group[k % GROUP] = values[row * cols + k];
  tu_block_floats_from_f32(t->type, item, group, 1);
  tu_block_floats_to_f32(t->type, group, item, 1);
  return (double)group[i[4] % GROUP];
}

/* Returns the value that the tensor holds at index i. */
static double held(const tutti_tensor *t, const size_t i[TUTTI_DIMS]) {
  const unsigned char *data = t->data;
  size_t item_bytes = tutti_datatype_size(t->type);
  if (item_bytes <= 8) return tu_to_double(t->type, data + tensors_where(t, i) * item_bytes);
  struct tensors_code at = tensors_code_where(t, i);
  unsigned code = tensors_get_code(data, at), bits = item_bytes == 17 ? 7 : 3, sign = 1u << bits;
  double magnitude = ldexp(code & (sign - 1), data[at.exponent] - 126 - (int)bits);
  return code & sign ? -magnitude : magnitude;
}

static void check_tensor(tutti_tensor *t, const char *name, uint64_t *seed) {
  size_t bytes = tutti_tensor_bytes(t), count = 1, i[TUTTI_DIMS] = {0}, n = 0;
  for (int d = 0; d < TUTTI_DIMS; d++) count *= t->shape[d];
  float *values = malloc(count * sizeof *values), *back = malloc(count * sizeof *back);
  /* The tensor is written twice: into memory of 0 bits, and into memory of 1 bits. Bits that differ afterwards are
   * padding, and must be unchanged. */
  unsigned char *memory[2] = {calloc(bytes + 1, 1), malloc(bytes + 1)};
  memset(memory[1], 0xff, bytes);
  for (size_t k = 0; k < count; k++) values[k] = (float)(tu_random(seed) % 801) / 8 - 50;
  for (int m = 0; m < 2; m++) {
    t->data = memory[m];
    CHECK(tutti_tensor_from_f32(t, values) == TUTTI_OK, "%s: %s", name, tutti_error_message(NULL));
  }
  for (size_t b = 0; b < bytes; b++) {
    unsigned differ = memory[0][b] ^ memory[1][b];
    CHECK((memory[0][b] & differ) == 0 && (differ == 0 || differ == 0xff || differ == 0x0f || differ == 0xf0),
          "%s of %s: byte %zu of the padding was written", name, tutti_datatype_name(t->type), b);
  }
  memset(back, 0xff, count * sizeof *back);
  CHECK(tutti_tensor_to_f32(t, back) == TUTTI_OK, "%s: %s", name, tutti_error_message(NULL));
  size_t wrong = 0;
  do {
    double want = rounded(t, values, i);
    wrong += held(t, i) != want || (double)back[n] != (double)(float)want;
    n++;
  } while (tensors_next(t->shape, i));
  CHECK(wrong == 0 && n == count, "%s of %s: %zu of %zu wrong", name, tutti_datatype_name(t->type), wrong, count);
  free(values), free(back), free(memory[0]), free(memory[1]);
}

static void test_values(void) {
  uint64_t seed = test_seed();
  for (tutti_datatype type = 0; type < TU_DATATYPES; type = tu_datatype_next(type))
    for (size_t k = 0; k < TENSORS_KINDS; k++) {
      if (tutti_datatype_size(type) > 8 && !tensors_kinds[k].tiled) continue;
      static const size_t widths[] = {10, 33, 1030};
      const size_t shape[] = {2, 1, 3, 5, widths[tu_random(&seed) % 3]};
      tutti_tensor t;
      if (tensors_make(&t, &tensors_kinds[k], type, shape, (tutti_tiles){4, 32, 0, 0}) != TUTTI_OK)
        FAIL("%s", tutti_error_message(NULL));
      else check_tensor(&t, tensors_kinds[k].name, &seed);
    }
}

static void test_refusals(void) {
  float value = 1, kept = 1;
  const size_t one[] = {1}, none[] = {3, 0};
  const tutti_tiles tiles = {32, 32, 0, 0};
  tutti_tensor t, bare, empty;
  if (tutti_tensor_strided(&t, (tutti_tensor_of){&kept, TUTTI_F32, 1, one}, NULL) != TUTTI_OK ||
      tutti_tensor_interleaved(&empty, (tutti_tensor_of){&kept, TUTTI_BFP8, 2, none}, &tiles, 1) != TUTTI_OK)
    FAIL("%s", tutti_error_message(NULL));
  bare = t;
  bare.data = NULL;
  CHECK(tutti_tensor_from_f32(NULL, &value) == TUTTI_ERR_ARGUMENT, "no tensor");
  CHECK(strstr(tutti_error_message(NULL), "the tensor is NULL"), "'%s'", tutti_error_message(NULL));
  CHECK(tutti_tensor_to_f32(&t, NULL) == TUTTI_ERR_ARGUMENT, "no values");
  CHECK(strstr(tutti_error_message(NULL), "values is NULL"), "'%s'", tutti_error_message(NULL));
  CHECK(tutti_tensor_to_f32(&bare, &value) == TUTTI_ERR_ARGUMENT, "no data");
  CHECK(strstr(tutti_error_message(NULL), "data is NULL"), "'%s'", tutti_error_message(NULL));
  bare = t;
  bare.type = TUTTI_BFP4;
  CHECK(tutti_tensor_from_f32(&bare, &value) == TUTTI_ERR_ARGUMENT, "a tensor that cannot be");
  CHECK(tutti_tensor_from_f32(&empty, &value) == TUTTI_OK && tutti_tensor_to_f32(&empty, &value) == TUTTI_OK, "empty");
  CHECK(value == 1 && kept == 1, "something was written");
  CHECK(tutti_tensor_offset(&empty, (size_t[TUTTI_DIMS]){0}) == SIZE_MAX, "a block float has one offset");
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"values", test_values}, {"refusals", test_refusals}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
