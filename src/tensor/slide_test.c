/* slide_test.c: checks that a tile stops everywhere once, in the documented order. Regions are copied through matrices,
 * and directly to each other, and compared with the definition of their layouts. */
#include "tensor/slide.h"

#include "tensors.h"
#include "test.h"

/* ---- stops ---- */

/* Checks the stops against the loops that define them. */
static void check_order(const struct tu_slide *s, const size_t shape[TUTTI_DIMS], size_t rows, size_t cols) {
  size_t n = 0;
  for (size_t a = 0; a < shape[0]; a++)
    for (size_t b = 0; b < shape[1]; b++)
      for (size_t c = 0; c < shape[2]; c++)
        for (size_t row = 0; row < shape[3]; row += rows)
          for (size_t col = 0; col < shape[4]; col += cols, n++) {
            const size_t origin[] = {a, b, c, row, col};
            const size_t extent[] = {1, 1, 1, tu_min(rows, shape[3] - row), tu_min(cols, shape[4] - col)};
            if (n >= s->count) continue;
            struct tu_stop stop = tu_slide_stop(s, n);
            CHECK(memcmp(stop.origin, origin, sizeof origin) == 0, "stop %zu begins at %zu, %zu", n, stop.origin[3],
                  stop.origin[4]);
            CHECK(memcmp(stop.extent, extent, sizeof extent) == 0, "stop %zu is %zux%zu", n, stop.extent[3],
                  stop.extent[4]);
          }
  CHECK(s->count == n, "%zu stops, not %zu", s->count, n);
}

static void stops_are_those_of_five_loops(void) {
  uint64_t seed = test_seed();
  for (int i = 0; i < 2000; i++) {
    size_t shape[TUTTI_DIMS], all = 1;
    for (int d = 0; d < TUTTI_DIMS; d++) shape[d] = tu_random(&seed) % (d < 3 ? 3 : 20);
    size_t rows = 1 + tu_random(&seed) % 25, cols = 1 + tu_random(&seed) % 25;
    struct tu_slide s = tu_slide_over(shape, rows, cols);
    for (int d = 0; d < 4; d++) all *= shape[d];
    if (all > rows || shape[4] > cols) {
      check_order(&s, shape, rows, cols);
    } else if (all * shape[4] == 0) {
      CHECK(s.count == 0, "%zu stops in nothing", s.count);
    } else {
      struct tu_stop stop = tu_slide_stop(&s, 0);
      const size_t zeros[TUTTI_DIMS] = {0};
      CHECK(s.count == 1 && memcmp(stop.extent, shape, sizeof shape) == 0 &&
                memcmp(stop.origin, zeros, sizeof zeros) == 0,
            "%zu rows of %zu fit %zux%zu, but there are %zu stops", all, shape[4], rows, cols, s.count);
    }
  }
}

/* ---- regions ---- */

struct body {
  tutti_tensor tensor;
  struct tu_map *map;
  unsigned char *data;
  size_t bytes;
};

static struct body make(const struct tensors_kind *kind, tutti_datatype type, const size_t shape[TUTTI_DIMS],
                        uint64_t *seed) {
  struct body b = {0};
  struct tu_error error = {0};
  if (tensors_make(&b.tensor, kind, type, shape, (tutti_tiles){.rows = 4, .cols = 8}) != TUTTI_OK)
    FAIL("%s: %s", kind->name, tutti_error_message(NULL));
  if (tu_map_create(&b.tensor, &b.map, &error) != TUTTI_OK) FAIL("%s: %s", kind->name, error.text);
  b.bytes = tu_map_extent(b.map);
  b.data = malloc(b.bytes + 1);
  for (size_t i = 0; i < b.bytes; i++) b.data[i] = (unsigned char)tu_random(seed);
  return b;
}

static void end(struct body *b) {
  tu_map_destroy(b->map);
  free(b->data);
}

static size_t offset_of(const struct body *b, const struct tu_region *g, const size_t i[TUTTI_DIMS]) {
  size_t index[TUTTI_DIMS];
  for (int d = 0; d < TUTTI_DIMS; d++) index[d] = g->origin[d] + i[d];
  return tensors_where(&b->tensor, index) * tutti_datatype_size(b->tensor.type);
}

/* Chooses two random regions of the same extent, anywhere in two tensors. */
static void draw(struct tu_region *a, const struct body *in, struct tu_region *b, const struct body *out,
                 uint64_t *seed) {
  *a = (struct tu_region){.map = in->map};
  *b = (struct tu_region){.map = out->map};
  for (int d = 0; d < TUTTI_DIMS; d++) {
    size_t extent = 1 + tu_random(seed) % tu_min(in->tensor.shape[d], out->tensor.shape[d]);
    if (tu_random(seed) % 3 == 0) extent = tu_min(in->tensor.shape[d], out->tensor.shape[d]);
    a->extent[d] = b->extent[d] = extent;
    a->origin[d] = tu_random(seed) % (in->tensor.shape[d] - extent + 1);
    b->origin[d] = tu_random(seed) % (out->tensor.shape[d] - extent + 1);
  }
}

static void check_copy(struct body *in, struct body *out, const char *name, uint64_t *seed) {
  struct tu_region from, to;
  draw(&from, in, &to, out, seed);
  size_t item = tutti_datatype_size(in->tensor.type), i[TUTTI_DIMS] = {0};
  unsigned char *want = malloc(out->bytes + 1);
  memcpy(want, out->data, out->bytes);
  do memcpy(want + offset_of(out, &to, i), in->data + offset_of(in, &from, i), item);
  while (tensors_next(from.extent, i));
  tu_region_copy(&to, out->data, &from, in->data);
  CHECK(memcmp(want, out->data, out->bytes) == 0, "%s: a copy is wrong", name);
  free(want);
}

/* Tests loading a region into a matrix and storing from the matrix. The gaps between the rows of the matrix must stay
 * unchanged. */
static void check_matrix(struct body *in, const char *name, uint64_t *seed) {
  struct tu_region g, same;
  draw(&g, in, &same, in, seed);
  size_t item = tutti_datatype_size(in->tensor.type), rows = g.extent[0] * g.extent[1] * g.extent[2] * g.extent[3];
  size_t pitch = g.extent[4] * item + tu_random(seed) % 2 * 5, i[TUTTI_DIMS] = {0}, n = 0;
  unsigned char *got = malloc(rows * pitch), *want = malloc(rows * pitch), *data = malloc(in->bytes + 1);
  memset(got, 0xa5, rows * pitch), memset(want, 0xa5, rows * pitch);
  size_t offset, own_pitch;
  bool matrix = tu_region_is_matrix(&g, &offset, &own_pitch);
  do {
    size_t row = n / g.extent[4], col = n % g.extent[4];
    memcpy(want + row * pitch + col * item, in->data + offset_of(in, &g, i), item);
    CHECK(!matrix || offset_of(in, &g, i) == offset + row * own_pitch + col * item, "%s: is no such matrix", name);
    n++;
  } while (tensors_next(g.extent, i));
  tu_region_load(&g, in->data, got, pitch);
  CHECK(memcmp(got, want, rows * pitch) == 0, "%s: loaded into a matrix wrong", name);
  for (size_t b = 0; b < rows * pitch; b++) got[b] = (unsigned char)tu_random(seed);
  memcpy(data, in->data, in->bytes);
  n = 0, memset(i, 0, sizeof i);
  do memcpy(data + offset_of(in, &g, i), got + n / g.extent[4] * pitch + n % g.extent[4] * item, item), n++;
  while (tensors_next(g.extent, i));
  tu_region_store(&g, in->data, got, pitch);
  CHECK(memcmp(data, in->data, in->bytes) == 0, "%s: stored from a matrix wrong", name);
  free(got), free(want), free(data);
}

static void regions_come_through_matrices_and_into_each_other(void) {
  static const tutti_datatype types[] = {TUTTI_U8, TUTTI_BF16, TUTTI_F32, TUTTI_F64};
  uint64_t seed = test_seed();
  for (int k = 0; k < TENSORS_KINDS; k++)
    for (int l = 0; l < TENSORS_KINDS; l++)
      for (int i = 0; i < 4; i++) {
        size_t shapes[2][TUTTI_DIMS];
        bool large = i == 3; /* larger than the scratch memory of a copy */
        for (int d = 0; d < TUTTI_DIMS; d++) {
          shapes[0][d] = 1 + tu_random(&seed) % (d < 3 ? 2 : large ? 90 : 20);
          shapes[1][d] = tu_random(&seed) % 2 ? shapes[0][d] : 1 + tu_random(&seed) % (d < 3 ? 2 : large ? 90 : 20);
        }
        tutti_datatype type = types[tu_random(&seed) % 4];
        struct body in = make(&tensors_kinds[k], type, shapes[0], &seed);
        struct body out = make(&tensors_kinds[l], type, shapes[1], &seed);
        check_copy(&in, &out, tensors_kinds[l].name, &seed);
        check_matrix(&in, tensors_kinds[k].name, &seed);
        end(&in), end(&out);
      }
}

/* Tests that regions that lie in rows are recognised; otherwise copies would take the slow path. */
static void rows_are_known_to_be_matrices(void) {
  const size_t shape[] = {2, 1, 3, 5, 7};
  static const struct {
    int kind;
    bool matrix;
  } cases[] = {{0, true}, {2, false}, {3, true}, {4, false}, {6, true}, {9, false}};
  uint64_t seed = 1;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct body b = make(&tensors_kinds[cases[i].kind], TUTTI_F32, shape, &seed);
    struct tu_region g = {.map = b.map, .extent = {2, 1, 3, 5, 7}};
    size_t offset = 9, pitch = 9;
    bool matrix = tu_region_is_matrix(&g, &offset, &pitch);
    CHECK(matrix == cases[i].matrix, "%s: %d", tensors_kinds[cases[i].kind].name, matrix);
    CHECK(!matrix || (offset == 0 && pitch == 28), "%s: from %zu on, %zu apart", tensors_kinds[cases[i].kind].name,
          offset, pitch);
    end(&b);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"stops_are_those_of_five_loops", stops_are_those_of_five_loops},
      {"regions_come_through_matrices_and_into_each_other", regions_come_through_matrices_and_into_each_other},
      {"rows_are_known_to_be_matrices", rows_are_known_to_be_matrices},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
