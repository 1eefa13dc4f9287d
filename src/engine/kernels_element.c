/* kernels_element.c: converts one element to and from double, for printing, filling and checking. */
#include <math.h>

#include "engine/kernels.h"
#include "engine/kernels_narrow.h"
#include "engine/kernels_set.h"

struct element {
  double (*to_double)(const void *element);
  void (*from_double)(void *element, double number);
};

#define ELEMENT(name, T, load, store)                              \
  typedef T name##_element __attribute__((may_alias, aligned(1))); \
  static double name##_to_double(const void *element) {            \
    const name##_element *x = element;                             \
    return (double)load(*x);                                       \
  }                                                                \
  static void name##_from_double(void *element, double number) {   \
    name##_element *x = element;                                   \
    *x = (T)store(number);                                         \
  }
#define SAME(x) (x)
#define IS_TRUE(x) ((x) != 0)

uint64_t tu_integer_from(double number) {
  if (!isfinite(number)) return 0;
  double whole = fmod(rint(number), 0x1p64);
  return whole < 0 ? 0 - (uint64_t)-whole : (uint64_t)whole;
}

static float f32_nearest(double x) { return f32_one_nan((float)x); }

/* Converts a double to f32, which the caller then rounds to a narrower type. If the bits that f32 cannot hold are not
 * all zero, the last bit is set (round to odd). So the second rounding does not mistake a number slightly beside the
 * middle of two narrow values for the middle. */
static float f32_odd(double number) {
  float nearest = (float)number;
  if (isnan(number) || (double)nearest == number) return f32_one_nan(nearest);
  uint32_t bits = f32_bits(nearest) - (fabs((double)nearest) > fabs(number));
  return f32_of_bits(bits | 1);
}
static uint32_t f16_rounded(double number) { return f16_store(f32_odd(number)); }
static uint32_t bf16_rounded(double number) { return bf16_store(f32_odd(number)); }
static uint32_t f8e4m3_rounded(double number) { return f8e4m3_store(f32_odd(number)); }
static uint32_t f8e5m2_rounded(double number) { return f8e5m2_store(f32_odd(number)); }

ELEMENT(i8, int8_t, SAME, tu_integer_from)
ELEMENT(u8, uint8_t, SAME, tu_integer_from)
ELEMENT(i16, int16_t, SAME, tu_integer_from)
ELEMENT(u16, uint16_t, SAME, tu_integer_from)
ELEMENT(i32, int32_t, SAME, tu_integer_from)
ELEMENT(u32, uint32_t, SAME, tu_integer_from)
ELEMENT(i64, int64_t, SAME, tu_integer_from)
ELEMENT(u64, uint64_t, SAME, tu_integer_from)
ELEMENT(truth, uint8_t, IS_TRUE, IS_TRUE)
ELEMENT(f16, uint16_t, f16_load, f16_rounded)
ELEMENT(bf16, uint16_t, bf16_load, bf16_rounded)
ELEMENT(f32, float, SAME, f32_nearest)
ELEMENT(f64, double, SAME, f64_one_nan)
ELEMENT(f8e4m3, uint8_t, f8e4m3_load, f8e4m3_rounded)
ELEMENT(f8e5m2, uint8_t, f8e5m2_load, f8e5m2_rounded)

#define BOTH(name) \
  { name##_to_double, name##_from_double }
static const struct element elements[TU_DATATYPES] = {
    [TUTTI_I8] = BOTH(i8),         [TUTTI_U8] = BOTH(u8),         [TUTTI_I16] = BOTH(i16),    [TUTTI_U16] = BOTH(u16),
    [TUTTI_I32] = BOTH(i32),       [TUTTI_U32] = BOTH(u32),       [TUTTI_I64] = BOTH(i64),    [TUTTI_U64] = BOTH(u64),
    [TUTTI_F16] = BOTH(f16),       [TUTTI_F32] = BOTH(f32),       [TUTTI_BF16] = BOTH(bf16),  [TUTTI_F64] = BOTH(f64),
    [TUTTI_F8E4M3] = BOTH(f8e4m3), [TUTTI_F8E5M2] = BOTH(f8e5m2), [TUTTI_BOOL] = BOTH(truth),
};

double tu_to_double(tutti_datatype type, const void *element) {
  tu_assert(tu_datatypes[type].elements == 0);
  return elements[type].to_double(element);
}

void tu_from_double(tutti_datatype type, void *element, double value) {
  tu_assert(tu_datatypes[type].elements == 0);
  elements[type].from_double(element, value);
}
