/* map_test.c: packs and unpacks regions of tensors, any range of their bytes, and compares them with the definition of
 * their layouts. Invalid tensors must be refused with a message. */
#include "tensor/map.h"

#include <math.h>

#include "tensors.h"
#include "test.h"

static struct tu_map *must_map(const tutti_tensor *t) {
  struct tu_map *map = NULL;
  struct tu_error error = {0};
  if (tu_map_create(t, &map, &error) != TUTTI_OK) FAIL("%s", error.text);
  return map;
}

/* Checks that elements lie where the definition says, do not overlap, and lie within the tensor's bytes. */
static void check_offsets(const tutti_tensor *t, const char *name) {
  size_t bytes = tutti_tensor_bytes(t), item = tutti_datatype_size(t->type), index[TUTTI_DIMS] = {0};
  unsigned char *used = calloc(bytes + 1, 1);
  struct tu_map *map = must_map(t);
  bool plain = true;
  size_t next = 0;
  do {
    size_t at = tensors_where(t, index) * item;
    CHECK(at + item <= bytes, "%s: at %zu of %zu bytes", name, at, bytes);
    CHECK(tu_map_offset(map, index) == at && tutti_tensor_offset(t, index) == at, "%s: at %zu, expected %zu", name,
          tu_map_offset(map, index), at);
    CHECK(!used[at], "%s: two elements at %zu", name, at);
    used[at] = 1;
    plain &= at == next;
    next = at + item;
  } while (tensors_next(t->shape, index));
  CHECK(tu_map_is_plain(map) <= plain, "%s: is said to be plain", name);
  tu_map_destroy(map);
  free(used);
}

/* Packs a box of a tensor by the definition: fills in the packed bytes, and the offset of each of them in the
 * tensor. */
static size_t naive_pack(const tutti_tensor *t, const struct tu_region *g, const unsigned char *data,
                         unsigned char *packed, size_t *where) {
  size_t item = tutti_datatype_size(t->type), i[TUTTI_DIMS] = {0}, bytes = 0;
  do {
    size_t index[TUTTI_DIMS];
    for (int d = 0; d < TUTTI_DIMS; d++) index[d] = g->origin[d] + i[d];
    for (size_t b = 0; b < item; b++, bytes++) {
      where[bytes] = tensors_where(t, index) * item + b;
      packed[bytes] = data[where[bytes]];
    }
  } while (tensors_next(g->extent, i));
  return bytes;
}

static void check_region(const tutti_tensor *t, const struct tu_map *map, const char *name, uint64_t *seed) {
  struct tu_region g = {.map = map};
  size_t bytes = tutti_tensor_bytes(t), count = tutti_datatype_size(t->type);
  for (int d = 0; d < TUTTI_DIMS; d++) {
    g.origin[d] = tu_random(seed) % t->shape[d];
    g.extent[d] = 1 + tu_random(seed) % (t->shape[d] - g.origin[d]);
    count *= g.extent[d];
  }
  unsigned char *data = malloc(bytes), *expected = malloc(bytes), *want = malloc(count), *got = malloc(count);
  size_t *where = malloc(count * sizeof *where);
  for (size_t i = 0; i < bytes; i++) data[i] = expected[i] = (unsigned char)tu_random(seed);
  CHECK(naive_pack(t, &g, data, want, where) == count, "%s: a box of %zu bytes", name, count);
  for (int k = 0; k < 4; k++) {
    size_t from = k == 0 ? 0 : tu_random(seed) % count;
    size_t length = k == 0 ? count : 1 + tu_random(seed) % (count - from);
    memset(got, 0, count);
    tu_region_pack(&g, data, from, length, got);
    CHECK(memcmp(got, want + from, length) == 0, "%s: packed [%zu, +%zu) of %zu", name, from, length, count);
    for (size_t i = 0; i < length; i++) got[i] = expected[where[from + i]] = (unsigned char)tu_random(seed);
    tu_region_unpack(&g, data, from, length, got);
    CHECK(memcmp(data, expected, bytes) == 0, "%s: unpacked [%zu, +%zu) of %zu", name, from, length, count);
    for (size_t i = 0; i < count; i++) want[i] = data[where[i]];
  }
  free(data), free(expected), free(want), free(got), free(where);
}

static void test_regions(void) {
  static const tutti_tiles tiles[] = {{4, 8, 0, 0}, {2, 2, 0, 0}, {32, 32, 0, 0}, {2, 32, 0, 0}};
  static const tutti_datatype types[] = {TUTTI_U8, TUTTI_BF16, TUTTI_F32, TUTTI_F64};
  uint64_t seed = test_seed();
  uint32_t regions = 0;
  for (int round = 0; round < 60; round++)
    for (size_t k = 0; k < TENSORS_KINDS; k++) {
      size_t shape[TUTTI_DIMS];
      for (int d = 0; d < TUTTI_DIMS; d++) shape[d] = 1 + tu_random(&seed) % (d < 3 ? 3 : d == 3 ? 11 : 70);
      tutti_tensor t;
      tutti_err err = tensors_make(&t, &tensors_kinds[k], types[tu_random(&seed) % 4], shape, tiles[round % 4]);
      CHECK(err == TUTTI_OK, "%s: %s", tensors_kinds[k].name, tutti_error_message(NULL));
      if (err != TUTTI_OK) continue;
      check_offsets(&t, tensors_kinds[k].name);
      struct tu_map *map = must_map(&t);
      for (int i = 0; i < 4; i++, regions++) check_region(&t, map, tensors_kinds[k].name, &seed);
      tu_map_destroy(map);
    }
  printf("  %u regions\n", regions);
}

/* Tests that packed blocks equal packed regions, one after the other. */
static void test_folds(void) {
  uint64_t seed = test_seed();
  for (size_t k = 0; k < TENSORS_KINDS; k++)
    for (uint32_t dim = 0; dim < TUTTI_DIMS; dim++) {
      size_t shape[TUTTI_DIMS] = {2, 1, 3, 5, 10};
      shape[dim] *= 3;
      tutti_tensor t;
      if (tensors_make(&t, &tensors_kinds[k], TUTTI_F32, shape, (tutti_tiles){4, 8, 0, 0}) != TUTTI_OK)
        FAIL("%s", tutti_error_message(NULL));
      struct tu_fold fold = {.map = must_map(&t), .dim = dim, .blocks = 3};
      size_t bytes = tutti_tensor_bytes(&t), block = tu_fold_block_bytes(&fold);
      CHECK(block == 300 * sizeof(float), "a block of %zu bytes", block);
      unsigned char *data = malloc(bytes), *want = malloc(3 * block), *got = malloc(3 * block);
      size_t *where = malloc(block * sizeof *where);
      for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)tu_random(&seed);
      for (uint32_t b = 0; b < 3; b++) {
        struct tu_region region = tu_fold_block(&fold, b);
        naive_pack(&t, &region, data, want + b * block, where);
      }
      size_t from = tu_random(&seed) % block, length = 3 * block - from - tu_random(&seed) % block;
      tu_fold_pack(&fold, data, from, length, got);
      CHECK(memcmp(got, want + from, length) == 0, "%s along %u", tensors_kinds[k].name, dim);
      if (tu_fold_is_plain(&fold))
        CHECK(memcmp(data, want, 3 * block) == 0, "%s along %u is not plain", tensors_kinds[k].name, dim);
      free(data), free(want), free(got), free(where);
      tu_map_destroy((struct tu_map *)(uintptr_t)fold.map);
    }
}

/* ---- block floats ---- */

/* A region of block floats, packed by the definition: each row is packed in new items of 16 elements. */
struct naive {
  const tutti_tensor *t;
  size_t origin[TUTTI_DIMS], extent[TUTTI_DIMS]; /* in elements */
};

/* Returns where element `col` of a row of the region lies in the tensor. */
static struct tensors_code naive_where(const struct naive *n, const size_t row[TUTTI_DIMS], size_t col) {
  size_t index[TUTTI_DIMS];
  for (int d = 0; d < TUTTI_DIMS; d++) index[d] = n->origin[d] + (d < 4 ? row[d] : col);
  return tensors_code_where(n->t, index);
}

/* Packs the item that begins with element `col` of a row. */
static void naive_item(const struct naive *n, const unsigned char *data, const size_t row[TUTTI_DIMS], size_t col,
                       unsigned char *item) {
  size_t item_bytes = tutti_datatype_size(n->t->type), count = n->extent[4] - col < 16 ? n->extent[4] - col : 16;
  unsigned bits = item_bytes == 9 ? 3 : 7, most = 0;
  memset(item, 0, item_bytes);
  for (size_t i = 0; i < count; i++) {
    unsigned exponent = data[naive_where(n, row, col + i).exponent];
    if (exponent > most) most = exponent;
  }
  item[0] = (unsigned char)most;
  for (size_t i = 0; i < count; i++) {
    struct tensors_code at = naive_where(n, row, col + i);
    unsigned code = tensors_get_code(data, at), sign = code >> bits, magnitude = code & ((1u << bits) - 1);
    if (data[at.exponent] < most) {
      magnitude = (unsigned)nearbyint(ldexp(magnitude, (int)data[at.exponent] - (int)most));
      code = magnitude ? magnitude | sign << bits : 0;
    }
    at = (struct tensors_code){.code = 1 + i * (item_bytes - 1) / 16, .half = item_bytes == 9, .high = i % 2};
    tensors_put_code(item, at, code);
  }
}

/* Unpacks an item to element `col` of a row and the elements after it. */
static void naive_put(const struct naive *n, unsigned char *data, const size_t row[TUTTI_DIMS], size_t col,
                      const unsigned char *item) {
  size_t item_bytes = tutti_datatype_size(n->t->type);
  for (size_t i = 0; i < 16 && col + i < n->extent[4]; i++) {
    struct tensors_code to = naive_where(n, row, col + i);
    struct tensors_code from = {
        .code = 1 + i * (item_bytes - 1) / 16, .half = item_bytes == 9, .high = item_bytes == 9 && i % 2};
    data[to.exponent] = item[0];
    tensors_put_code(data, to, tensors_get_code(item, from));
  }
}

/* Packs all of the region; or unpacks it, if `unpacks` is true. Returns the packed length in bytes. */
static size_t naive_move(const struct naive *n, unsigned char *data, unsigned char *packed, bool unpacks) {
  size_t item_bytes = tutti_datatype_size(n->t->type), row[TUTTI_DIMS] = {0}, at = 0, rows[TUTTI_DIMS];
  memcpy(rows, n->extent, sizeof rows);
  rows[4] = 1;
  do
    for (size_t col = 0; col < n->extent[4]; col += 16, at += item_bytes) {
      if (unpacks) naive_put(n, data, row, col, packed + at);
      else naive_item(n, data, row, col, packed + at);
    }
  while (tensors_next(rows, row));
  return at;
}

static void fill_bytes(unsigned char *bytes, size_t count, uint64_t *seed) {
  for (size_t i = 0; i < count; i++) bytes[i] = (unsigned char)tu_random(seed);
}

/* Fills the tensor with new data, then packs and unpacks parts of `fold` or `region`. */
static void check_groups(const struct naive *n, const struct tu_fold *fold, const struct tu_region *region,
                         const char *name, uint64_t *seed) {
  size_t bytes = tutti_tensor_bytes(n->t), item_bytes = tutti_datatype_size(n->t->type);
  unsigned char *data = malloc(bytes + 1), *expected = malloc(bytes + 1);
  fill_bytes(data, bytes, seed);
  /* Choose exponents close to each other, so that rounding to a higher exponent keeps some bits. */
  size_t tile = (size_t)n->t->layout.tiles.rows * n->t->layout.tiles.cols / 16;
  for (size_t at = 0; at < bytes; at += tile * item_bytes)
    for (size_t g = 0; g < tile; g++) data[at + g] = (unsigned char)(120 + tu_random(seed) % 6);
  memcpy(expected, data, bytes);
  unsigned char *want = malloc(bytes * 17), *got = malloc(bytes * 17);
  size_t total = naive_move(n, data, want, false);
  size_t from = tu_random(seed) % total, length = 1 + tu_random(seed) % (total - from);
  if (tu_random(seed) % 2) from = 0, length = total;
  if (fold) tu_fold_pack(fold, data, from, length, got);
  else tu_region_pack(region, data, from, length, got);
  CHECK(memcmp(got, want + from, length) == 0, "%s: packed [%zu, +%zu) of %zu", name, from, length, total);
  if (region && region->skip) goto done;
  fill_bytes(want, total, seed);
  if (fold) tu_fold_unpack(fold, data, 0, from, want), tu_fold_unpack(fold, data, from, total - from, want + from);
  else tu_region_unpack(region, data, 0, from, want), tu_region_unpack(region, data, from, total - from, want + from);
  naive_move(n, expected, want, true);
  CHECK(memcmp(data, expected, bytes) == 0, "%s: unpacked, cut at %zu of %zu", name, from, total);
done:
  free(data), free(expected), free(want), free(got);
}

/* Tests boxes of whole items, and boxes that begin at any element. The last item of a row is often filled in part. */
static void check_boxes(const tutti_tensor *t, const struct tu_map *map, const char *name, uint64_t *seed) {
  for (int k = 0; k < 6; k++) {
    struct naive n = {.t = t};
    struct tu_region g = {.map = map};
    for (int d = 0; d < TUTTI_DIMS; d++) {
      n.origin[d] = tu_random(seed) % t->shape[d];
      n.extent[d] = 1 + tu_random(seed) % (t->shape[d] - n.origin[d]);
    }
    bool whole = k % 3 == 0;
    if (whole || k % 3 == 1) n.origin[4] -= n.origin[4] % 16;
    if (whole) n.extent[4] = t->shape[4] - n.origin[4]; /* extend the box to the end of the row */
    memcpy(g.origin, n.origin, sizeof g.origin);
    memcpy(g.extent, n.extent, sizeof g.extent);
    g.origin[4] = n.origin[4] / 16;
    g.extent[4] = (n.extent[4] + 15) / 16;
    g.skip = n.origin[4] % 16;
    g.cols = whole ? 0 : n.extent[4];
    check_groups(&n, NULL, &g, name, seed);
  }
}

static void test_groups(void) {
  static const tutti_tiles tiles[] = {{4, 32, 0, 0}, {2, 16, 0, 0}, {32, 32, 0, 0}, {2, 64, 0, 0}};
  uint64_t seed = test_seed();
  uint32_t tensors = 0;
  for (int round = 0; round < 80; round++)
    for (size_t k = 0; k < TENSORS_KINDS; k++) {
      if (!tensors_kinds[k].tiled || (tensors_kinds[k].faces && tiles[round % 4].cols == 16)) continue;
      size_t shape[TUTTI_DIMS];
      for (int d = 0; d < TUTTI_DIMS; d++) shape[d] = 1 + tu_random(&seed) % (d < 3 ? 3 : d == 3 ? 11 : 150);
      tutti_tensor t;
      tutti_err err =
          tensors_make(&t, &tensors_kinds[k], round % 8 < 4 ? TUTTI_BFP8 : TUTTI_BFP4, shape, tiles[round % 4]);
      CHECK(err == TUTTI_OK, "%s: %s", tensors_kinds[k].name, tutti_error_message(NULL));
      if (err != TUTTI_OK) continue;
      struct tu_map *map = must_map(&t);
      CHECK(!tu_map_is_plain(map) && tu_map_shape(map)[4] == (shape[4] + 15) / 16, "%zu items", tu_map_shape(map)[4]);
      check_boxes(&t, map, tensors_kinds[k].name, &seed);
      tu_map_destroy(map);
      tensors++;
    }
  printf("  %u tensors\n", tensors);
}

/* Tests blocks along each dimension. Along the last one, blocks may also end within a group; these are only packed. */
static void test_group_folds(void) {
  uint64_t seed = test_seed();
  for (size_t k = 0; k < TENSORS_KINDS; k++)
    for (uint32_t dim = 0; dim < TUTTI_DIMS && tensors_kinds[k].tiled; dim++)
      for (size_t width = 2; width <= 48; width += dim == 4 ? 1 : 23) {
        size_t shape[TUTTI_DIMS] = {2, 1, 3, 5, width};
        shape[dim] *= 3;
        tutti_tensor t;
        if (tensors_make(&t, &tensors_kinds[k], width % 2 ? TUTTI_BFP8 : TUTTI_BFP4, shape,
                         (tutti_tiles){4, 32, 0, 0}) != TUTTI_OK)
          FAIL("%s", tutti_error_message(NULL));
        struct tu_fold fold = {.map = must_map(&t), .dim = dim, .blocks = 3};
        for (uint32_t b = 0; b < 3; b++) {
          struct naive n = {.t = &t};
          struct tu_region region = tu_fold_block(&fold, b);
          memcpy(n.extent, shape, sizeof shape);
          n.extent[dim] /= 3;
          n.origin[dim] = b * n.extent[dim];
          check_groups(&n, NULL, &region, tensors_kinds[k].name, &seed);
          size_t rows = n.extent[0] * n.extent[1] * n.extent[2] * n.extent[3], items = (n.extent[4] + 15) / 16;
          CHECK(tu_fold_block_bytes(&fold) == rows * items * tutti_datatype_size(t.type), "a block of %zu bytes",
                tu_fold_block_bytes(&fold));
        }
        struct naive all = {.t = &t, .extent = {2, 1, 3, 5, width}};
        all.extent[dim] *= 3;
        if (dim == 0) check_groups(&all, &fold, NULL, tensors_kinds[k].name, &seed);
        tu_map_destroy((struct tu_map *)(uintptr_t)fold.map);
      }
}

/* Tests tensors without elements, in every layout. */
static void test_empty(void) {
  static const tutti_datatype types[] = {TUTTI_U8, TUTTI_F64, TUTTI_BFP8};
  for (size_t k = 0; k < TENSORS_KINDS; k++)
    for (int type = 0; type < 3; type++)
      for (int d = 0; d < TUTTI_DIMS; d++) {
        size_t shape[TUTTI_DIMS] = {2, 1, 3, 5, 10};
        shape[d] = 0;
        tutti_tensor t;
        if (types[type] == TUTTI_BFP8 && !tensors_kinds[k].tiled) continue;
        tutti_err err = tensors_make(&t, &tensors_kinds[k], types[type], shape, (tutti_tiles){4, 32, 0, 0});
        /* these layouts would have shards of 0 rows, which are refused */
        bool sharded = tensors_kinds[k].placement >= TUTTI_WIDTH_SHARDED;
        CHECK(err == TUTTI_OK || sharded, "%s: %s", tensors_kinds[k].name, tutti_error_message(NULL));
        if (err != TUTTI_OK) continue;
        struct tu_fold fold = {.map = must_map(&t), .blocks = 1};
        CHECK(tu_fold_block_bytes(&fold) == 0, "%s: %zu bytes", tensors_kinds[k].name, tu_fold_block_bytes(&fold));
        tu_fold_pack(&fold, NULL, 0, 0, NULL);
        tu_map_destroy((struct tu_map *)(uintptr_t)fold.map);
      }
}

static const size_t *const shape_2x10 = (const size_t[]){2, 10};

static void test_refusals(void) {
  const tutti_tensor_of of = {.type = TUTTI_BF16, .dims = 2, .shape = shape_2x10};
  const tutti_tiles tiles = {32, 32, 0, 0}, odd = {32, 0, 0, 0}, faces = {32, 32, 16, 12};
  static const struct {
    const char *facts;
  } refusals[] = {
      {"1 to 5 dimensions|found 0"},
      {"1 to 5 dimensions|found 6"},
      {"data type|tutti_datatype"},
      {"elements|memory"},
      {"strides|elements"},
      {"banks|is 0"},
      {"tiles|rows and columns|0"},
      {"faces|divide"},
      {"tiles: rows|0"},
      {"shards of 32x40|tiles of 32x32"},
      {"grid|cores"},
      {"1x2 shards|2x4|matrix|2x10"},
      {"2x1 shards|32x32|matrix|32x64"},
      {"shards|rows and columns|0"},
      {"block floats|tiles"},
      {"block floats|tiles|16 columns"},
      {"faces|multiple|16 columns"},
      {"faces|multiple|16 columns"},
  };
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
    tutti_tensor t;
    tutti_tensor_of one = of;
    tutti_err err = TUTTI_OK;
    static const size_t huge[] = {SIZE_MAX / 2, 8}, over[] = {4, 1}, wide[] = {32, 33};
    switch (i) {
      case 0: one.shape = NULL, err = tutti_tensor_strided(&t, one, NULL); break;
      case 1: one.dims = 6, err = tutti_tensor_strided(&t, one, NULL); break;
      case 2: one.type = (tutti_datatype)(TUTTI_BOOL + 1), err = tutti_tensor_strided(&t, one, NULL); break;
      case 3: one.shape = huge, err = tutti_tensor_strided(&t, one, NULL); break;
      case 4: err = tutti_tensor_strided(&t, one, over); break;
      case 5: err = tutti_tensor_interleaved(&t, one, &tiles, 0); break;
      case 6: err = tutti_tensor_interleaved(&t, one, &odd, 1); break;
      case 7: err = tutti_tensor_interleaved(&t, one, &faces, 1); break;
      case 8: err = tutti_tensor_interleaved(&t, one, &(tutti_tiles){0, 32, 0, 0}, 1); break;
      case 9: err = tutti_tensor_width_sharded(&t, one, &tiles, 1, 40); break;
      case 10: err = tutti_tensor_width_sharded(&t, one, NULL, 0, 10); break;
      case 11: err = tutti_tensor_width_sharded(&t, one, NULL, 2, 4); break;
      case 12:
        one.shape = wide;
        err = tutti_tensor_block_sharded(&t, one, &tiles, (tutti_grid){2, 1, 32, 32, false});
        break;
      case 13: err = tutti_tensor_height_sharded(&t, one, NULL, 2, 0); break;
      case 14: one.type = TUTTI_BFP8, err = tutti_tensor_strided(&t, one, NULL); break;
      case 15: one.type = TUTTI_BFP4, err = tutti_tensor_interleaved(&t, one, NULL, 1); break;
      case 16: one.type = TUTTI_BFP4, err = tutti_tensor_interleaved(&t, one, &(tutti_tiles){32, 24, 0, 0}, 1); break;
      default: one.type = TUTTI_BFP8, err = tutti_tensor_interleaved(&t, one, &(tutti_tiles){32, 32, 16, 8}, 1);
    }
    CHECK(err == TUTTI_ERR_ARGUMENT, "row %zu was taken", i);
    CHECK(test_contains(tutti_error_message(NULL), refusals[i].facts), "row %zu: '%s'", i, tutti_error_message(NULL));
    CHECK(t.dims == 0 && tutti_tensor_bytes(&t) <= 1, "row %zu: something was made", i);
  }
}

static void test_print(void) {
  static const struct {
    size_t kind;
    const char *facts;
  } lines[] = {
      {0, "bf16 2x1x3x5x10, strided|150 150 50 10 1,|600 bytes\n"},
      {4, "bf16 2x1x3x5x10, interleaved|3 banks|row-major|600 bytes\n"},
      {7, "bf16 2x1x3x5x10, block-sharded|2x3 cores|15x4|row-major|720 bytes\n"},
      {15, "bf16 2x1x3x5x10, block-sharded|2x3 cores|24x8|columns|tiles of 4x8|faces of 2x4|2304 bytes\n"},
  };
  static const size_t shape[] = {2, 1, 3, 5, 10};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    tutti_tensor t;
    char text[256] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    if (tensors_make(&t, &tensors_kinds[lines[i].kind], TUTTI_BF16, shape, (tutti_tiles){4, 8, 0, 0}) != TUTTI_OK)
      FAIL("%s", tutti_error_message(NULL));
    tutti_tensor_print(&t, file);
    fclose(file);
    CHECK(test_contains(text, lines[i].facts), "'%s', expected '%s'", text, lines[i].facts);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"regions", test_regions}, {"folds", test_folds},
                                      {"groups", test_groups},   {"group_folds", test_group_folds},
                                      {"empty", test_empty},     {"refusals", test_refusals},
                                      {"print", test_print}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
