/* random_types.c: the datatypes and reductions of random programs, as tables, and derived datatypes. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "random_programs.h"

/* Values of operations of the program are residues, so that they do not overflow. */
enum { MODULUS = 251 };

static struct row rows[] = {
    {"MPI_SIGNED_CHAR", MPI_SIGNED_CHAR, OF_INTEGER, 1, {I8}, {0}, 1, false},
    {"MPI_UNSIGNED_CHAR", MPI_UNSIGNED_CHAR, OF_INTEGER, 1, {U8}, {0}, 1, false},
    {"MPI_SHORT", MPI_SHORT, OF_INTEGER, 1, {I16}, {0}, 2, false},
    {"MPI_UNSIGNED_SHORT", MPI_UNSIGNED_SHORT, OF_INTEGER, 1, {U16}, {0}, 2, false},
    {"MPI_INT", MPI_INT, OF_INTEGER, 1, {I32}, {0}, 4, false},
    {"MPI_UNSIGNED", MPI_UNSIGNED, OF_INTEGER, 1, {U32}, {0}, 4, false},
    {"MPI_LONG", MPI_LONG, OF_INTEGER, 1, {I64}, {0}, 8, false},
    {"MPI_UNSIGNED_LONG", MPI_UNSIGNED_LONG, OF_INTEGER, 1, {U64}, {0}, 8, false},
    {"MPI_LONG_LONG", MPI_LONG_LONG, OF_INTEGER, 1, {I64}, {0}, 8, false},
    {"MPI_UNSIGNED_LONG_LONG", MPI_UNSIGNED_LONG_LONG, OF_INTEGER, 1, {U64}, {0}, 8, false},
    {"MPI_INT8_T", MPI_INT8_T, OF_INTEGER, 1, {I8}, {0}, 1, false},
    {"MPI_UINT8_T", MPI_UINT8_T, OF_INTEGER, 1, {U8}, {0}, 1, false},
    {"MPI_INT16_T", MPI_INT16_T, OF_INTEGER, 1, {I16}, {0}, 2, false},
    {"MPI_UINT16_T", MPI_UINT16_T, OF_INTEGER, 1, {U16}, {0}, 2, false},
    {"MPI_INT32_T", MPI_INT32_T, OF_INTEGER, 1, {I32}, {0}, 4, false},
    {"MPI_UINT32_T", MPI_UINT32_T, OF_INTEGER, 1, {U32}, {0}, 4, false},
    {"MPI_INT64_T", MPI_INT64_T, OF_INTEGER, 1, {I64}, {0}, 8, false},
    {"MPI_UINT64_T", MPI_UINT64_T, OF_INTEGER, 1, {U64}, {0}, 8, false},
    {"MPI_AINT", MPI_AINT, OF_INTEGER, 1, {I64}, {0}, 8, false},
    {"MPI_OFFSET", MPI_OFFSET, OF_INTEGER, 1, {I64}, {0}, 8, false},
    {"MPI_COUNT", MPI_COUNT, OF_INTEGER, 1, {I64}, {0}, 8, false},
    {"MPI_FLOAT", MPI_FLOAT, OF_FLOAT, 1, {F32}, {0}, 4, false},
    {"MPI_DOUBLE", MPI_DOUBLE, OF_FLOAT, 1, {F64}, {0}, 8, false},
    {"MPI_LONG_DOUBLE", MPI_LONG_DOUBLE, OF_FLOAT, 1, {F80}, {0}, 16, false},
    {"MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX, OF_COMPLEX, 2, {F32, F32}, {0, 4}, 8, false},
    {"MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, OF_COMPLEX, 2, {F64, F64}, {0, 8}, 16, false},
    {"MPI_C_LONG_DOUBLE_COMPLEX", MPI_C_LONG_DOUBLE_COMPLEX, OF_COMPLEX, 2, {F80, F80}, {0, 16}, 32, false},
    {"MPI_C_BOOL", MPI_C_BOOL, OF_LOGICAL, 1, {BOOL}, {0}, 1, false},
    {"MPI_BYTE", MPI_BYTE, OF_BYTES, 1, {U8}, {0}, 1, false},
    {"MPI_FLOAT_INT", MPI_FLOAT_INT, OF_PAIR, 2, {F32, I32}, {0, 4}, 8, false},
    {"MPI_DOUBLE_INT", MPI_DOUBLE_INT, OF_PAIR, 2, {F64, I32}, {0, 8}, 16, false},
    {"MPI_LONG_INT", MPI_LONG_INT, OF_PAIR, 2, {I64, I32}, {0, 8}, 16, false},
    {"MPI_2INT", MPI_2INT, OF_PAIR, 2, {I32, I32}, {0, 4}, 8, false},
    {"MPI_SHORT_INT", MPI_SHORT_INT, OF_PAIR, 2, {I16, I32}, {0, 4}, 8, false},
    {"MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT, OF_PAIR, 2, {F80, I32}, {0, 16}, 32, false},
    {"MPI_CHAR", MPI_CHAR, OF_MOVED, 1, {I8}, {0}, 1, false},
    {"MPI_WCHAR", MPI_WCHAR, OF_MOVED, 1, {I32}, {0}, sizeof(wchar_t), false},
    {"short, double with gaps", MPI_DATATYPE_NULL, OF_MOVED, 2, {I16, F64}, {2, 8}, 24, true},
    {"byte, int without alignment", MPI_DATATYPE_NULL, OF_MOVED, 2, {U8, I32}, {0, 1}, 5, true},
    {"MPI_INT for operations", MPI_INT, OF_USER_ONE, 1, {I32}, {0}, 4, false},
    {"two int", MPI_DATATYPE_NULL, OF_USER_TWO, 2, {I32, I32}, {0, 4}, 8, true},
    {"two int with gaps", MPI_DATATYPE_NULL, OF_USER_TWO, 2, {I32, I32}, {4, 12}, 20, true},
    {"two int, descending", MPI_DATATYPE_NULL, OF_USER_TWO, 2, {I32, I32}, {8, 0}, 16, true},
    {"matrix of int", MPI_DATATYPE_NULL, OF_USER_FOUR, 4, {I32, I32, I32, I32}, {0, 4, 8, 12}, 16, true},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const struct {
  MPI_Datatype type;
  int bytes;
  bool is_signed;
} parts[] = {
    [I8] = {MPI_INT8_T, 1, true},     [U8] = {MPI_UINT8_T, 1, false},      [I16] = {MPI_INT16_T, 2, true},
    [U16] = {MPI_UINT16_T, 2, false}, [I32] = {MPI_INT, 4, true},          [U32] = {MPI_UINT32_T, 4, false},
    [I64] = {MPI_INT64_T, 8, true},   [U64] = {MPI_UINT64_T, 8, false},    [F32] = {MPI_FLOAT, 4, true},
    [F64] = {MPI_DOUBLE, 8, true},    [F80] = {MPI_LONG_DOUBLE, 10, true}, [BOOL] = {MPI_C_BOOL, 1, false},
};

/* ---- elements ---- */

static void write_part(enum part part, int64_t x, bool real, char *at) {
  const long double l = real ? (long double)x / 7 : (long double)x;
  const float f = (float)l;
  const double d = (double)l;
  const void *from = &x; /* little endian: the low bytes come first */
  if (part == F32) from = &f;
  else if (part == F64) from = &d;
  else if (part == F80) from = &l;
  memcpy(at, from, (size_t)parts[part].bytes);
}

void rp_encode(const struct row *row, struct value value, bool real, char *at) {
  for (int i = 0; i < row->parts; i++) write_part(row->part[i], value.x[i], real, at + row->at[i]);
}

void rp_copy_gaps(const struct row *row, const char *from, char *to) {
  char numbers[64];
  for (int i = 0; i < row->parts; i++) memcpy(numbers + row->at[i], to + row->at[i], (size_t)parts[row->part[i]].bytes);
  memcpy(to, from, (size_t)row->extent);
  for (int i = 0; i < row->parts; i++) memcpy(to + row->at[i], numbers + row->at[i], (size_t)parts[row->part[i]].bytes);
}

/* ---- values ---- */

static struct value draw_move(const struct row *row, uint64_t hash, int rank) {
  (void)rank;
  const int64_t most = row->part[0] == BOOL ? 2 : 100;
  return (struct value){{(int64_t)(hash % (uint64_t)most), (int64_t)((hash >> 8) % 100), (int64_t)((hash >> 16) % 100),
                         (int64_t)((hash >> 24) % 100)}};
}
static struct value draw_extreme(const struct row *row, uint64_t hash, int rank) {
  (void)rank;
  /* Open MPI 4.1.4 takes MPI_OFFSET for unsigned: the smallest of -1 and 1 is 1. */
  const bool negative = parts[row->part[0]].is_signed && row->type != MPI_OFFSET;
  return (struct value){{(int64_t)(hash % 100) - (negative ? 50 : 0)}};
}
static struct value draw_sum(const struct row *row, uint64_t hash, int rank) {
  (void)row, (void)rank;
  return (struct value){{(int64_t)(hash % 6), (int64_t)((hash >> 8) % 6)}};
}
static struct value draw_product(const struct row *row, uint64_t hash, int rank) {
  const int64_t more = rank < 4 ? (int64_t)(hash & 1) : 0;
  if (row->class == OF_COMPLEX) return (struct value){{1, more}};
  return (struct value){{1 + more}};
}
static struct value draw_logical(const struct row *row, uint64_t hash, int rank) {
  (void)rank;
  const int64_t truth = hash % 5 != 0;
  return (struct value){{row->class == OF_LOGICAL ? truth : truth * (int64_t)(1 + (hash >> 8) % 3)}};
}
static struct value draw_bits(const struct row *row, uint64_t hash, int rank) {
  (void)row, (void)rank;
  return (struct value){{(int64_t)(hash & 127)}};
}
static struct value draw_pair(const struct row *row, uint64_t hash, int rank) {
  (void)row, (void)rank;
  return (struct value){{(int64_t)(hash % 5) - 2, (int64_t)((hash >> 8) % 7)}};
}
static struct value draw_residues(const struct row *row, uint64_t hash, int rank) {
  (void)row, (void)rank;
  struct value v;
  for (int i = 0; i < PARTS_MAX; i++) v.x[i] = (int64_t)((hash >> (8 * i)) % MODULUS);
  return v;
}

struct value rp_input(const struct operation *operation, const struct row *row, uint64_t key, int rank, size_t index) {
  const uint64_t hash = rp_mix(key + (uint64_t)rank * 0x10001, index);
  return operation ? operation->draw(row, hash, rank) : draw_move(row, hash, rank);
}

/* ---- reductions ---- */

#define SIMPLE(name, expression)                                                              \
  static struct value apply_##name(enum class class, struct value left, struct value right) { \
    const int64_t a = left.x[0], b = right.x[0];                                              \
    (void)class;                                                                              \
    return (struct value){{expression}};                                                      \
  }
SIMPLE(max, a > b ? a : b)
SIMPLE(min, a < b ? a : b)
SIMPLE(land, a &&b)
SIMPLE(lor, a || b)
SIMPLE(lxor, !a != !b)
SIMPLE(band, a &b)
SIMPLE(bor, a | b)
SIMPLE(bxor, a ^ b)
SIMPLE(residue_sum, (a + b) % MODULUS)
SIMPLE(first, b < 0 ? b : a) /* residues are not negative */
#undef SIMPLE

static struct value apply_sum(enum class class, struct value left, struct value right) {
  (void)class;
  return (struct value){{left.x[0] + right.x[0], left.x[1] + right.x[1]}};
}
static struct value apply_product(enum class class, struct value left, struct value right) {
  const int64_t a = left.x[0], b = left.x[1], c = right.x[0], d = right.x[1];
  if (class == OF_COMPLEX) return (struct value){{a * c - b * d, a * d + b * c}};
  return (struct value){{a * c}};
}
static struct value apply_minloc(enum class class, struct value left, struct value right) {
  (void)class;
  if (left.x[0] != right.x[0]) return left.x[0] < right.x[0] ? left : right;
  return left.x[1] < right.x[1] ? left : right;
}
static struct value apply_maxloc(enum class class, struct value left, struct value right) {
  (void)class;
  if (left.x[0] != right.x[0]) return left.x[0] > right.x[0] ? left : right;
  return left.x[1] < right.x[1] ? left : right;
}
/* x -> a x + b, the left one after the right one */
static struct value apply_affine(enum class class, struct value left, struct value right) {
  (void)class;
  return (struct value){{left.x[0] * right.x[0] % MODULUS, (left.x[0] * right.x[1] + left.x[1]) % MODULUS}};
}
static struct value apply_matrix(enum class class, struct value l, struct value r) {
  (void)class;
  return (struct value){{(l.x[0] * r.x[0] + l.x[1] * r.x[2]) % MODULUS, (l.x[0] * r.x[1] + l.x[1] * r.x[3]) % MODULUS,
                         (l.x[2] * r.x[0] + l.x[3] * r.x[2]) % MODULUS, (l.x[2] * r.x[1] + l.x[3] * r.x[3]) % MODULUS}};
}

/* The functions that MPI calls: the numbers are of int, at the offsets of a row. */
static void combine(const char *in, char *inout, int count, MPI_Datatype type, const int *at, int numbers,
                    struct value (*apply)(enum class, struct value, struct value)) {
  MPI_Aint lower, extent;
  MPI_Type_get_extent(type, &lower, &extent);
  for (int i = 0; i < count; i++) {
    struct value left = {{0}}, right = {{0}};
    for (int k = 0; k < numbers; k++) {
      int32_t a, b;
      memcpy(&a, in + i * extent + at[k], sizeof a);
      memcpy(&b, inout + i * extent + at[k], sizeof b);
      left.x[k] = a;
      right.x[k] = b;
    }
    const struct value result = apply(OF_USER_ONE, left, right);
    for (int k = 0; k < numbers; k++) {
      const int32_t x = (int32_t)result.x[k];
      memcpy(inout + i * extent + at[k], &x, sizeof x);
    }
  }
}
static void call_residue_sum(void *in, void *inout, int *count, MPI_Datatype *type) {
  combine(in, inout, *count, *type, (const int[]){0}, 1, apply_residue_sum);
}
static void call_first(void *in, void *inout, int *count, MPI_Datatype *type) {
  combine(in, inout, *count, *type, (const int[]){0}, 1, apply_first);
}
static void call_affine(void *in, void *inout, int *count, MPI_Datatype *type) {
  MPI_Aint lower, extent;
  MPI_Type_get_extent(*type, &lower, &extent);
  for (int i = 0; i < ROWS; i++)
    if (rows[i].class == OF_USER_TWO && rows[i].extent == extent)
      combine(in, inout, *count, *type, rows[i].at, 2, apply_affine);
}
static void call_matrix(void *in, void *inout, int *count, MPI_Datatype *type) {
  combine(in, inout, *count, *type, (const int[]){0, 4, 8, 12}, 4, apply_matrix);
}

#define ON(class) (1u << (class))
#define NUMBERS (ON(OF_INTEGER) | ON(OF_FLOAT))
static const struct operation operations[] = {
    {"MPI_MAX", MPI_MAX, NULL, true, NUMBERS, apply_max, draw_extreme},
    {"MPI_MIN", MPI_MIN, NULL, true, NUMBERS, apply_min, draw_extreme},
    {"MPI_SUM", MPI_SUM, NULL, true, NUMBERS | ON(OF_COMPLEX), apply_sum, draw_sum},
    {"MPI_PROD", MPI_PROD, NULL, true, NUMBERS | ON(OF_COMPLEX), apply_product, draw_product},
    {"MPI_LAND", MPI_LAND, NULL, true, ON(OF_INTEGER) | ON(OF_LOGICAL), apply_land, draw_logical},
    {"MPI_LOR", MPI_LOR, NULL, true, ON(OF_INTEGER) | ON(OF_LOGICAL), apply_lor, draw_logical},
    {"MPI_LXOR", MPI_LXOR, NULL, true, ON(OF_INTEGER) | ON(OF_LOGICAL), apply_lxor, draw_logical},
    {"MPI_BAND", MPI_BAND, NULL, true, ON(OF_INTEGER) | ON(OF_BYTES), apply_band, draw_bits},
    {"MPI_BOR", MPI_BOR, NULL, true, ON(OF_INTEGER) | ON(OF_BYTES), apply_bor, draw_bits},
    {"MPI_BXOR", MPI_BXOR, NULL, true, ON(OF_INTEGER) | ON(OF_BYTES), apply_bxor, draw_bits},
    {"MPI_MINLOC", MPI_MINLOC, NULL, true, ON(OF_PAIR), apply_minloc, draw_pair},
    {"MPI_MAXLOC", MPI_MAXLOC, NULL, true, ON(OF_PAIR), apply_maxloc, draw_pair},
    {"sum of residues", MPI_OP_NULL, call_residue_sum, true, ON(OF_USER_ONE), apply_residue_sum, draw_residues},
    {"first", MPI_OP_NULL, call_first, false, ON(OF_USER_ONE), apply_first, draw_residues},
    {"affine", MPI_OP_NULL, call_affine, false, ON(OF_USER_TWO), apply_affine, draw_residues},
    {"matrix", MPI_OP_NULL, call_matrix, false, ON(OF_USER_FOUR), apply_matrix, draw_residues},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* Open MPI 4.1.4 writes over the end of 16 bytes, or loses bytes, if a message ends its first part inside an element of 32
 * bytes. MPICH 4.0.2 copies 10 of the 16 bytes of a long double, or all, as the algorithm has it, so a second execution may
 * differ; and of a message of 33 KiB that it receives as derived elements of 32 bytes, it writes the first 257. */
static bool is_avoided(const struct row *row, bool strict) {
#ifdef OPEN_MPI
  return !strict && (row->type == MPI_C_LONG_DOUBLE_COMPLEX || row->type == MPI_LONG_DOUBLE_INT);
#else
  return !strict && row->part[0] == F80;
#endif
}

const struct row *rp_any_row(struct random *r, bool strict) {
  const struct row *row;
  do row = &rows[rp_below(r, ROWS)];
  while (is_avoided(row, strict));
  return row;
}

const struct operation *rp_any_operation(struct random *r, const struct row **row) {
  const struct operation *o = &operations[rp_below(r, OPERATIONS)];
  do *row = &rows[rp_below(r, ROWS)];
  while (!(o->classes & ON((*row)->class)));
  return o;
}

/* ---- begin and end ---- */

void rp_types_begin(void) {
  for (int i = 0; i < ROWS; i++) {
    struct row *row = &rows[i];
    if (row->type != MPI_DATATYPE_NULL) continue;
    int lengths[PARTS_MAX];
    MPI_Aint at[PARTS_MAX];
    MPI_Datatype types[PARTS_MAX], gapped;
    for (int k = 0; k < row->parts; k++) {
      lengths[k] = 1;
      at[k] = row->at[k];
      types[k] = parts[row->part[k]].type;
    }
    MPI_Type_create_struct(row->parts, lengths, at, types, &gapped);
    MPI_Type_create_resized(gapped, 0, row->extent, &row->type);
    MPI_Type_free(&gapped);
    MPI_Type_commit(&row->type);
  }
}

void rp_types_end(void) {
  for (int i = 0; i < ROWS; i++) {
    int integers, addresses, inner, combiner;
    MPI_Type_get_envelope(rows[i].type, &integers, &addresses, &inner, &combiner);
    if (combiner == MPI_COMBINER_RESIZED) MPI_Type_free(&rows[i].type);
  }
}

/* ---- layouts ---- */

void rp_shuffle(struct random *r, int *order, int count) {
  for (int i = 0; i < count; i++) {
    const int k = (int)rp_below(r, (uint32_t)i + 1);
    order[i] = order[k];
    order[k] = i;
  }
}

/* Replaces the datatype. */
static void replace(struct layout *l, MPI_Datatype type) {
  if (l->owned) MPI_Type_free(&l->type);
  l->type = type;
  l->owned = true;
  MPI_Aint lower;
  MPI_Type_get_extent(type, &lower, &l->extent);
}

static void make_contiguous(struct layout *l) {
  MPI_Datatype type;
  MPI_Type_contiguous(l->elements, l->row->type, &type);
  for (int i = 0; i < l->elements; i++) l->at[i] = (int64_t)i * l->row->extent;
  replace(l, type);
}

/* blocks of `length` elements, `stride` bytes apart */
static void make_vector(struct layout *l, int blocks, int length, int64_t stride, bool in_bytes) {
  MPI_Datatype type;
  if (in_bytes) MPI_Type_create_hvector(blocks, length, stride, l->row->type, &type);
  else MPI_Type_vector(blocks, length, (int)(stride / l->row->extent), l->row->type, &type);
  for (int i = 0; i < blocks * length; i++) l->at[i] = i / length * stride + i % length * l->row->extent;
  replace(l, type);
}

/* blocks of `length` elements in any order, with gaps; as indexed, or as struct */
static void make_indexed(struct layout *l, int blocks, int length, bool as_struct, struct random *r) {
  int order[ITEM_ELEMENTS_MAX], lengths[ITEM_ELEMENTS_MAX], places[ITEM_ELEMENTS_MAX];
  MPI_Aint addresses[ITEM_ELEMENTS_MAX];
  MPI_Datatype types[ITEM_ELEMENTS_MAX], type;
  rp_shuffle(r, order, blocks);
  if (rp_chance(r, 40))
    for (int i = 0; i < blocks; i++) order[i] = blocks - 1 - i;
  const int gap = (int)rp_below(r, 3), start = (int)rp_below(r, 3);
  for (int i = 0; i < blocks; i++) {
    lengths[i] = length;
    places[i] = start + order[i] * (length + gap);
    addresses[i] = (MPI_Aint)places[i] * l->row->extent;
    types[i] = l->row->type;
    for (int k = 0; k < length; k++) l->at[i * length + k] = addresses[i] + (int64_t)k * l->row->extent;
  }
  if (as_struct) MPI_Type_create_struct(blocks, lengths, addresses, types, &type);
  else MPI_Type_indexed(blocks, lengths, places, l->row->type, &type);
  replace(l, type);
}

/* columns of a matrix: the items are shorter than what they span */
static void make_columns(struct layout *l, int64_t items) {
  MPI_Datatype type;
  make_vector(l, l->elements, 1, items * l->row->extent, true);
  MPI_Type_create_resized(l->type, 0, l->row->extent, &type);
  replace(l, type);
}

/* Open MPI 4.1.4 takes blocks of one element with stride -1 for ascending ones. */
#ifdef OPEN_MPI
enum { GAP_LEAST = 1 };
#else
enum { GAP_LEAST = 0 };
#endif

static void make_inner(struct layout *l, int64_t items, struct random *r) {
  const int n = l->elements;
  int length = 1 + (int)rp_below(r, (uint32_t)n);
  while (n % length != 0) length--;
  switch (rp_below(r, 7)) {
    case 0: make_contiguous(l); return;
    case 1: make_vector(l, n / length, length, (length + (int64_t)rp_below(r, 3)) * l->row->extent, false); return;
    case 2:
      make_vector(l, n / length, length, -(length + GAP_LEAST + (int64_t)rp_below(r, 3)) * l->row->extent, false);
      return;
    case 3: make_vector(l, n / length, length, length * l->row->extent + 8 * (int64_t)rp_below(r, 4), true); return;
    case 4: make_indexed(l, n / length, length, false, r); return;
    case 5: make_indexed(l, n / length, length, true, r); return;
    default: make_columns(l, items); return;
  }
}

/* Two items of the datatype so far, which becomes the inner one. */
static void make_twice(struct layout *l, struct random *r) {
  MPI_Datatype type;
  const MPI_Aint distance = l->extent + 8 * (MPI_Aint)rp_below(r, 3);
  for (int i = 0; i < l->elements; i++) l->at[l->elements + i] = l->at[i] + distance;
  l->elements *= 2;
  if (distance == l->extent) MPI_Type_contiguous(2, l->type, &type);
  else MPI_Type_create_hvector(2, 1, distance, l->type, &type);
  replace(l, type);
}

static void make_longer(struct layout *l, struct random *r) {
  MPI_Datatype type;
  MPI_Aint lower, extent;
  MPI_Type_get_extent(l->type, &lower, &extent);
  MPI_Type_create_resized(l->type, lower - 8 * (MPI_Aint)rp_below(r, 2), extent + 8 * (MPI_Aint)rp_below(r, 4), &type);
  replace(l, type);
}

void rp_layout_make(struct layout *l, const struct row *row, int elements, int64_t items, struct random *r) {
  *l = (struct layout){.row = row, .type = row->type, .elements = elements, .extent = row->extent};
  const bool nested = elements > 1 && elements % 2 == 0 && rp_chance(r, 25);
  if (nested) l->elements = elements / 2;
  MPI_Datatype type;
  if (elements == 0) {
    MPI_Type_contiguous(0, row->type, &type);
    replace(l, type);
  } else if (elements > 1 || rp_chance(r, 50)) {
    make_inner(l, 2 * items, r);
    if (nested && l->extent > l->row->extent) make_twice(l, r);
    else if (nested) { /* columns: two of them would overlap the next ones */ l->elements = elements;
      make_columns(l, items);
    } else if (l->extent > row->extent && rp_chance(r, 30)) make_longer(l, r);
  }
  if (rp_chance(r, 10)) MPI_Type_dup(l->type, &type), replace(l, type);
  if (l->owned) MPI_Type_commit(&l->type);
}

void rp_layout_move(struct layout *l, const void *to) {
  MPI_Aint address;
  MPI_Datatype type;
  MPI_Get_address(to, &address);
  MPI_Type_create_hindexed(1, (const int[]){1}, &address, l->type, &type);
  replace(l, type);
  MPI_Type_commit(&l->type);
}

void rp_layout_free(struct layout *l) {
  if (l->owned) MPI_Type_free(&l->type);
  l->owned = false;
}
