/* tensors.h: tensors for tests: a table of layouts, and the position of an element, computed from the definition of its
 * layout. It shares no code with src/tensor. */
#ifndef TENSORS_H
#define TENSORS_H

#include <stdlib.h>
#include <string.h>
#include <tutti/tensor.h>

struct tensors_kind {
  const char *name;
  tutti_placement placement;
  bool tiled, faces, column;
  uint32_t banks;
  int strides; /* 0: dense; 1: with gaps; 2: transposed, dimension 4 slowest */
};

static const struct tensors_kind tensors_kinds[] = {
    {.name = "rows", .placement = TUTTI_STRIDED},
    {.name = "rows with gaps", .placement = TUTTI_STRIDED, .strides = 1},
    {.name = "transposed", .placement = TUTTI_STRIDED, .strides = 2},
    {.name = "interleaved rows", .placement = TUTTI_INTERLEAVED, .banks = 1},
    {.name = "rows in 3 banks", .placement = TUTTI_INTERLEAVED, .banks = 3},
    {.name = "rows, width-sharded", .placement = TUTTI_WIDTH_SHARDED},
    {.name = "rows, height-sharded", .placement = TUTTI_HEIGHT_SHARDED},
    {.name = "rows, block-sharded", .placement = TUTTI_BLOCK_SHARDED},
    {.name = "rows, block-sharded by columns", .placement = TUTTI_BLOCK_SHARDED, .column = true},
    {.name = "tiles", .placement = TUTTI_INTERLEAVED, .banks = 1, .tiled = true},
    {.name = "tiles in 4 banks", .placement = TUTTI_INTERLEAVED, .banks = 4, .tiled = true},
    {.name = "tiles with faces in 3 banks", .placement = TUTTI_INTERLEAVED, .banks = 3, .tiled = true, .faces = true},
    {.name = "tiles, width-sharded", .placement = TUTTI_WIDTH_SHARDED, .tiled = true},
    {.name = "tiles, height-sharded", .placement = TUTTI_HEIGHT_SHARDED, .tiled = true},
    {.name = "tiles, block-sharded", .placement = TUTTI_BLOCK_SHARDED, .tiled = true},
    {.name = "tiles with faces, block-sharded by columns",
     .placement = TUTTI_BLOCK_SHARDED,
     .tiled = true,
     .faces = true,
     .column = true},
};
enum { TENSORS_KINDS = sizeof tensors_kinds / sizeof tensors_kinds[0] };

static inline size_t tensors_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

/* Makes a tensor of kind `k` without memory, with tiles of size `tiles`. Faces, if any, are half as high and wide as
 * tiles. */
static inline tutti_err tensors_make(tutti_tensor *t, const struct tensors_kind *k, tutti_datatype type,
                                     const size_t shape[TUTTI_DIMS], tutti_tiles tiles) {
  const tutti_tensor_of of = {.type = type, .dims = TUTTI_DIMS, .shape = shape};
  if (k->faces) tiles.face_rows = tiles.rows / 2, tiles.face_cols = tiles.cols / 2;
  const tutti_tiles *used = k->tiled ? &tiles : NULL;
  size_t tile_rows = k->tiled ? tiles.rows : 1, tile_cols = k->tiled ? tiles.cols : 1;
  size_t rows = shape[0] * shape[1] * shape[2] * tensors_up(shape[3], tile_rows);
  size_t cols = tensors_up(shape[4], tile_cols);
  size_t shard_rows = tensors_up((rows + 1) / 2, tile_rows), shard_cols = tensors_up((cols + 2) / 3, tile_cols);
  switch (k->placement) {
    case TUTTI_INTERLEAVED: return tutti_tensor_interleaved(t, of, used, k->banks);
    case TUTTI_WIDTH_SHARDED: return tutti_tensor_width_sharded(t, of, used, 3, shard_cols);
    case TUTTI_HEIGHT_SHARDED: return tutti_tensor_height_sharded(t, of, used, 2, shard_rows);
    case TUTTI_BLOCK_SHARDED:
      return tutti_tensor_block_sharded(t, of, used, (tutti_grid){2, 3, shard_rows, shard_cols, k->column});
    default: break;
  }
  size_t strides[TUTTI_DIMS], stride = k->strides == 1 ? 2 : 1;
  for (int i = TUTTI_DIMS - 1; i >= 0; i--) {
    int d = k->strides == 2 ? (i + TUTTI_DIMS - 1) % TUTTI_DIMS : i; /* d takes the values 3, 2, 1, 0, 4 */
    strides[d] = stride;
    stride = stride * (shape[d] ? shape[d] : 1) + (k->strides == 1 ? 3 : 0);
  }
  return tutti_tensor_strided(t, of, strides);
}

/* Returns the position of an element, in elements from `data` on. */
static inline size_t tensors_where(const tutti_tensor *t, const size_t i[TUTTI_DIMS]) {
  const tutti_layout *l = &t->layout;
  size_t at = 0;
  if (l->placement == TUTTI_STRIDED) {
    for (int d = 0; d < TUTTI_DIMS; d++) at += i[d] * t->strides[d];
    return at;
  }
  bool sharded = l->placement != TUTTI_INTERLEAVED;
  size_t tr = l->tiles.rows ? l->tiles.rows : 1, tc = l->tiles.rows ? l->tiles.cols : t->shape[4];
  size_t matrix = (i[0] * t->shape[1] + i[1]) * t->shape[2] + i[2];
  size_t row = matrix * tensors_up(t->shape[3], tr) + i[3], col = i[4];
  size_t rows = t->shape[0] * t->shape[1] * t->shape[2] * tensors_up(t->shape[3], tr);
  if (sharded) {
    size_t down = row / l->shard_rows, across = col / l->shard_cols;
    size_t core = l->column_orientation ? across * l->grid_rows + down : down * l->grid_cols + across;
    at = core * l->shard_rows * l->shard_cols;
    row %= l->shard_rows, col %= l->shard_cols;
    if (!l->tiles.rows) return at + row * l->shard_cols + col;
  }
  size_t across = sharded ? l->shard_cols / tc : tensors_up(t->shape[4], tc) / tc;
  size_t page = row / tr * across + col / tc, r = row % tr, c = col % tc, in_page = r * tc + c;
  if (l->tiles.face_rows) {
    size_t fr = l->tiles.face_rows, fc = l->tiles.face_cols;
    in_page = (r / fr * (tc / fc) + c / fc) * fr * fc + r % fr * fc + c % fc;
  }
  if (sharded) return at + page * tr * tc + in_page;
  size_t pages = rows / tr * across, slots = (pages + l->banks - 1) / l->banks;
  return (page % l->banks * slots + page / l->banks) * tr * tc + in_page;
}

/* Position of an element of a block float: the byte of its exponent, and the byte of its code (sign and magnitude).
 * `half`: the code is 4 bits, the high or the low ones of that byte. */
struct tensors_code {
  size_t exponent, code;
  bool half, high;
};
static inline struct tensors_code tensors_code_where(const tutti_tensor *t, const size_t i[TUTTI_DIMS]) {
  size_t item = tutti_datatype_size(t->type), tile = (size_t)t->layout.tiles.rows * t->layout.tiles.cols;
  size_t at = tensors_where(t, i), page = at / tile * (tile / 16 * item), in_tile = at % tile;
  return (struct tensors_code){.exponent = page + in_tile / 16,
                               .code = page + tile / 16 + in_tile * (item - 1) / 16,
                               .half = item == 9,
                               .high = item == 9 && in_tile % 2};
}
static inline unsigned tensors_get_code(const unsigned char *data, struct tensors_code at) {
  return at.half ? (unsigned)data[at.code] >> (at.high ? 4 : 0) & 15u : data[at.code];
}
static inline void tensors_put_code(unsigned char *data, struct tensors_code at, unsigned code) {
  unsigned char byte = data[at.code];
  if (!at.half) byte = (unsigned char)code;
  else if (at.high) byte = (unsigned char)((byte & 15u) | code << 4);
  else byte = (unsigned char)((byte & 0xf0u) | code);
  data[at.code] = byte;
}

/* Advances to the next index in logical order; returns false after the last. */
static inline bool tensors_next(const size_t shape[TUTTI_DIMS], size_t i[TUTTI_DIMS]) {
  for (int d = TUTTI_DIMS - 1; d >= 0; d--) {
    if (++i[d] < shape[d]) return true;
    i[d] = 0;
  }
  return false;
}

#endif
