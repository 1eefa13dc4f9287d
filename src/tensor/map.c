/* map.c: layouts, checked and turned into tables. */
#include "tensor/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/types.h"

enum {
  PLANES_MAX = 2,
  GROUP = 16,      /* elements of a block float that share an exponent */
  LONG_RUN = 8192, /* bytes */
  AHEAD = 4096,    /* bytes */
};

/* Items of a block float lie in two places: their exponents before all others of the tile, then the rest. */
struct plane {
  size_t unit; /* bytes of an item there */
  size_t base; /* where a page has it */
  size_t *cols;
};

struct tu_map {
  size_t item_bytes;
  size_t columns; /* elements in dimension 4 */
  size_t shape[TUTTI_DIMS];
  size_t extent;
  bool plain, strided;
  size_t strides[TUTTI_DIMS]; /* bytes; strided, and plain ones */
  /* All others; rows and columns are those of the whole matrix, padded. */
  size_t matrix_rows;
  size_t shard_rows, shard_cols, shard_row_step, shard_col_step;
  size_t tile_rows, tile_cols, face_rows, face_cols;
  size_t page_bytes, pages_across; /* a shard */
  size_t banks, bank_bytes;
  size_t segment; /* so many items of a row lie together */
  uint32_t plane_count;
  struct plane planes[PLANES_MAX];
};

size_t tu_map_item_bytes(const struct tu_map *map) { return map->item_bytes; }
const size_t *tu_map_shape(const struct tu_map *map) { return map->shape; }
size_t tu_map_extent(const struct tu_map *map) { return map->extent; }
bool tu_map_is_plain(const struct tu_map *map) { return map->plain; }

/* ---- making ---- */

static size_t divide_up(size_t a, size_t b) { return a / b + (a % b != 0); }

static tutti_err fail(struct tu_error *error, const tutti_tensor *t, const char *what) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "tensor of %s, %zux%zux%zux%zux%zu: %s", tutti_datatype_name(t->type),
                 t->shape[0], t->shape[1], t->shape[2], t->shape[3], t->shape[4], what);
}

static tutti_err check_shape(const tutti_tensor *t, struct tu_error *error) {
  size_t items = 1;
  if ((unsigned)t->type >= TUTTI_DATATYPES) return fail(error, t, "its type is unknown; see tutti_datatype");
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (!tu_multiply(items, tu_max(t->shape[d], 1), &items)) return fail(error, t, "has more elements than memory");
  if (items > PTRDIFF_MAX / 64) return fail(error, t, "has more elements than memory");
  if ((unsigned)t->layout.placement >= TUTTI_PLACEMENTS) return fail(error, t, "its placement is unknown");
  return TUTTI_OK;
}

struct axis {
  size_t extent, stride;
};

static int compare_axes(const void *a, const void *b) {
  const struct axis *x = a, *y = b;
  return (x->stride > y->stride) - (x->stride < y->stride);
}

/* Sufficient, and met by all that slicing and transposing make: each stride is beyond what the smaller ones reach. */
static bool strides_apart(const tutti_tensor *t) {
  struct axis axes[TUTTI_DIMS];
  uint32_t count = 0;
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (t->shape[d] > 1) axes[count++] = (struct axis){t->shape[d], t->strides[d]};
  qsort(axes, count, sizeof *axes, compare_axes);
  size_t reach = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (axes[i].stride <= reach) return false;
    reach += (axes[i].extent - 1) * axes[i].stride;
  }
  return true;
}

static tutti_err lay_strided(const tutti_tensor *t, struct tu_map *m, struct tu_error *error) {
  if (t->layout.tiles.rows) return fail(error, t, "tiles have no strides; make it interleaved, with one bank");
  size_t last = 0, dense = 1;
  bool empty = false;
  m->strided = m->plain = true;
  for (int d = TUTTI_DIMS - 1; d >= 0; d--) {
    size_t reach;
    empty |= t->shape[d] == 0;
    if (!tu_multiply(t->strides[d], m->item_bytes, &m->strides[d]) ||
        !tu_multiply(tu_max(t->shape[d], 1) - 1, m->strides[d], &reach) || reach > PTRDIFF_MAX / 8)
      return fail(error, t, "its strides reach beyond memory");
    last += reach;
    m->plain &= t->shape[d] <= 1 || t->strides[d] == dense;
    dense *= t->shape[d];
  }
  if (!empty && !strides_apart(t))
    return fail(error, t,
                "its strides put elements on top of each other; each must exceed what the smaller ones reach");
  m->extent = empty ? 0 : last + m->item_bytes;
  m->segment = t->shape[4] <= 1 || t->strides[4] == 1 ? tu_max(t->shape[4], 1) : 1;
  return TUTTI_OK;
}

static tutti_err check_tiles(const tutti_tensor *t, struct tu_error *error) {
  const tutti_tiles *tiles = &t->layout.tiles;
  if (!tiles->rows != !tiles->cols) return fail(error, t, "its tiles have no rows, or no columns");
  if (tiles->rows > 4096 || tiles->cols > 4096) return fail(error, t, "its tiles are larger than 4096x4096");
  if (!tiles->face_rows != !tiles->face_cols) return fail(error, t, "its faces have no rows, or no columns");
  if (tiles->face_rows && (!tiles->rows || tiles->rows % tiles->face_rows || tiles->cols % tiles->face_cols))
    return fail(error, t, "its faces do not divide its tiles");
  return TUTTI_OK;
}

static tutti_err check_shards(const tutti_tensor *t, const struct tu_map *m, size_t rows, size_t cols,
                              struct tu_error *error) {
  const tutti_layout *l = &t->layout;
  char what[160];
  if (!l->grid_rows || !l->grid_cols) return fail(error, t, "its grid has no cores");
  if (!l->shard_rows || !l->shard_cols) return fail(error, t, "its shards have no rows, or no columns");
  if (l->placement == TUTTI_WIDTH_SHARDED && l->grid_rows != 1)
    return fail(error, t, "width-sharded over several rows");
  if (l->placement == TUTTI_HEIGHT_SHARDED && l->grid_cols != 1)
    return fail(error, t, "height-sharded over several columns");
  if (l->tiles.rows && (l->shard_rows % l->tiles.rows || l->shard_cols % l->tiles.cols)) {
    snprintf(what, sizeof what, "shards of %zux%zu do not consist of whole tiles of %ux%u", l->shard_rows,
             l->shard_cols, l->tiles.rows, l->tiles.cols);
    return fail(error, t, what);
  }
  size_t have_rows, have_cols;
  if (!tu_multiply(l->shard_rows, l->grid_rows, &have_rows) || !tu_multiply(m->shard_cols, l->grid_cols, &have_cols) ||
      have_rows > PTRDIFF_MAX / 64 || have_cols > PTRDIFF_MAX / 64)
    return fail(error, t, "its shards are larger than memory");
  if (have_rows >= rows && have_cols >= cols) return TUTTI_OK;
  snprintf(what, sizeof what, "%ux%u shards of %zux%zu hold less than its matrix of %zux%zu", l->grid_rows,
           l->grid_cols, l->shard_rows, l->shard_cols, rows, cols);
  return fail(error, t, what);
}

/* The product of sizes, none of which may be 0; false if it is beyond memory. */
static bool product(size_t *out, size_t a, size_t b, size_t c) {
  return tu_multiply(a, b, out) && tu_multiply(*out, c, out) && *out <= PTRDIFF_MAX / 64;
}

static tutti_err lay_pages(const tutti_tensor *t, struct tu_map *m, bool groups, struct tu_error *error) {
  const tutti_layout *l = &t->layout;
  tutti_err err = check_tiles(t, error);
  if (err != TUTTI_OK) return err;
  bool tiled = l->tiles.rows > 0, sharded = l->placement != TUTTI_INTERLEAVED;
  size_t per_col = groups ? GROUP : 1; /* elements of a column of items */
  if (groups && (!tiled || l->tiles.cols % GROUP || l->tiles.face_cols % GROUP))
    return fail(error, t, "block floats lie in tiles, and tiles and faces of theirs have a multiple of 16 columns");
  m->tile_rows = tiled ? l->tiles.rows : 1;
  m->tile_cols = tiled ? l->tiles.cols / per_col : tu_max(m->shape[4], 1);
  tu_assert(m->tile_rows > 0 && m->tile_cols > 0);
  m->matrix_rows = tu_round_up(m->shape[3], m->tile_rows);
  size_t rows, cols = divide_up(m->shape[4], m->tile_cols) * m->tile_cols, shard_bytes;
  if (!product(&rows, m->shape[0] * m->shape[1] * m->shape[2], m->matrix_rows, 1) ||
      !product(&shard_bytes, rows, tu_max(cols, 1), m->item_bytes))
    return fail(error, t, "is larger than memory");
  m->shard_rows = sharded ? l->shard_rows : tu_max(rows, 1);
  m->shard_cols = sharded ? l->shard_cols / per_col : tu_max(cols, m->tile_cols);
  if (sharded && (err = check_shards(t, m, rows, cols, error)) != TUTTI_OK) return err;
  if (sharded && !tiled) m->tile_rows = m->shard_rows, m->tile_cols = m->shard_cols;
  m->face_rows = tiled && l->tiles.face_rows ? l->tiles.face_rows : m->tile_rows;
  m->face_cols = tiled && l->tiles.face_cols ? l->tiles.face_cols / per_col : m->tile_cols;
  m->segment = m->face_cols;
  m->pages_across = tu_max(m->shard_cols / m->tile_cols, 1); /* a tensor may be empty */
  m->page_bytes = m->tile_rows * m->tile_cols * m->item_bytes;
  if (!product(&shard_bytes, m->shard_rows, m->shard_cols, m->item_bytes))
    return fail(error, t, "is larger than memory");
  if (!sharded) {
    if (!l->banks) return fail(error, t, "its pages have no bank to lie in");
    size_t pages = rows / m->tile_rows * (cols / m->tile_cols);
    m->banks = l->banks;
    m->bank_bytes = divide_up(pages, m->banks) * m->page_bytes;
    if (!product(&m->extent, m->banks, tu_max(m->bank_bytes, 1), 1)) return fail(error, t, "is larger than memory");
    m->extent = m->banks * m->bank_bytes;
    /* One bank, or rows that come one after the other: then a row of pages is no more than that. */
    m->plain = !tiled && m->banks == 1;
    return TUTTI_OK;
  }
  m->banks = 1;
  m->shard_row_step = shard_bytes * (l->column_orientation ? 1 : l->grid_cols);
  m->shard_col_step = shard_bytes * (l->column_orientation ? l->grid_rows : 1);
  if (!product(&m->extent, shard_bytes, l->grid_rows, l->grid_cols)) return fail(error, t, "is larger than memory");
  m->plain = !tiled && m->shard_cols == m->shape[4] && l->grid_cols == 1;
  return TUTTI_OK;
}

/* Where the items of a row lie, from where the row begins: segment by segment. False without memory. */
static bool lay_cols(const struct tu_map *m, struct plane *plane) {
  if (m->strided) {
    size_t count = divide_up(m->shape[4], m->segment);
    plane->cols = tu_try_allocate(count + 1, sizeof *plane->cols);
    for (size_t c = 0; plane->cols && c < count; c++) plane->cols[c] = c * m->strides[4];
    return plane->cols != NULL;
  }
  size_t faces = m->tile_cols / m->face_cols, across = divide_up(m->shape[4], m->tile_cols);
  /* With banks a row may begin at any of them: the table goes on for so many more pages. */
  size_t pages = m->banks > 1 ? across + m->banks : across;
  plane->cols = tu_try_allocate(pages * faces + 1, sizeof *plane->cols);
  for (size_t p = 0; plane->cols && p < pages; p++)
    for (size_t f = 0; f < faces; f++) {
      size_t shard = p / m->pages_across, page = p % m->pages_across;
      size_t at = m->banks > 1 ? p % m->banks * m->bank_bytes + p / m->banks * m->page_bytes
                               : shard * m->shard_col_step + page * m->page_bytes;
      plane->cols[p * faces + f] = at + f * m->face_rows * m->face_cols * plane->unit;
    }
  return plane->cols != NULL;
}

/* All but the tables. */
static tutti_err lay_out(const tutti_tensor *t, struct tu_map *map, struct tu_error *error) {
  tutti_err err = check_shape(t, error);
  if (err != TUTTI_OK) return err;
  struct tu_map m = {.item_bytes = tu_datatypes[t->type].bytes, .columns = t->shape[4], .plane_count = 1};
  bool groups = tu_datatypes[t->type].group > 1;
  memcpy(m.shape, t->shape, sizeof m.shape);
  if (groups) m.shape[4] = divide_up(t->shape[4], GROUP);
  if (t->layout.placement == TUTTI_STRIDED)
    err = groups ? fail(error, t, "block floats lie in tiles") : lay_strided(t, &m, error);
  else err = lay_pages(t, &m, groups, error);
  if (err != TUTTI_OK) return err;
  tu_assert(m.segment > 0 && (m.strided || (m.face_cols > 0 && m.tile_cols > 0 && m.pages_across > 0)));
  m.planes[0] = (struct plane){.unit = m.item_bytes};
  if (groups) {
    m.plane_count = 2;
    m.planes[0] = (struct plane){.unit = 1};
    m.planes[1] = (struct plane){.unit = m.item_bytes - 1, .base = m.tile_rows * m.tile_cols};
  }
  size_t stride = m.item_bytes;
  for (int d = TUTTI_DIMS - 1; d >= 0 && m.plain && !m.strided; d--) {
    m.strides[d] = stride;
    stride *= m.shape[d];
  }
  *map = m;
  return TUTTI_OK;
}

tutti_err tu_map_measure(const tutti_tensor *t, size_t *bytes, struct tu_error *error) {
  struct tu_map m;
  tutti_err err = lay_out(t, &m, error);
  if (err == TUTTI_OK) *bytes = m.extent;
  return err;
}

tutti_err tu_map_create(const tutti_tensor *t, struct tu_map **map, struct tu_error *error) {
  struct tu_map m, *made;
  tutti_err err = lay_out(t, &m, error);
  if (err != TUTTI_OK) return err;
  bool laid = (made = tu_try_allocate(1, sizeof *made)) != NULL;
  if (laid) *made = m;
  for (uint32_t p = 0; laid && p < m.plane_count; p++) laid = lay_cols(made, &made->planes[p]);
  if (!laid) {
    tu_map_destroy(made);
    return tu_fail_memory(error, m.shape[4] * sizeof(size_t), "a table of where the elements of a tensor's row lie");
  }
  *map = made;
  return TUTTI_OK;
}

void tu_map_destroy(struct tu_map *map) {
  if (!map) return;
  for (uint32_t p = 0; p < map->plane_count; p++) free(map->planes[p].cols);
  free(map);
}

/* ---- where ---- */

/* A row, and how many after it (in its matrix) lie `step` bytes apart each. */
struct row {
  size_t at[PLANES_MAX], step[PLANES_MAX];
  size_t left;
  size_t first_segment;
};

static void find_row(const struct tu_map *m, const size_t index[4], struct row *row) {
  if (m->strided) {
    row->at[0] =
        index[0] * m->strides[0] + index[1] * m->strides[1] + index[2] * m->strides[2] + index[3] * m->strides[3];
    row->step[0] = m->strides[3];
    row->left = m->shape[3] - index[3];
    row->first_segment = 0;
    return;
  }
  size_t r = ((index[0] * m->shape[1] + index[1]) * m->shape[2] + index[2]) * m->matrix_rows + index[3];
  size_t shard = r / m->shard_rows, in_shard = r % m->shard_rows;
  size_t tile = in_shard / m->tile_rows, in_tile = in_shard % m->tile_rows;
  size_t face = in_tile / m->face_rows, in_face = in_tile % m->face_rows;
  size_t page = tile * m->pages_across, at = shard * m->shard_row_step + page * m->page_bytes;
  row->first_segment = 0;
  if (m->banks > 1) {
    row->first_segment = page % m->banks * (m->tile_cols / m->face_cols);
    at = page / m->banks * m->page_bytes;
  }
  size_t item = face * m->face_rows * m->tile_cols + in_face * m->face_cols;
  for (uint32_t p = 0; p < m->plane_count; p++) {
    row->at[p] = at + m->planes[p].base + item * m->planes[p].unit;
    row->step[p] = m->face_cols * m->planes[p].unit;
  }
  row->left = tu_min(m->face_rows - in_face, m->shape[3] - index[3]);
}

size_t tu_map_offset(const struct tu_map *m, const size_t index[TUTTI_DIMS]) {
  struct row row;
  tu_assert(m->plane_count == 1);
  find_row(m, index, &row);
  size_t segment = index[4] / m->segment, within = index[4] % m->segment;
  return row.at[0] + m->planes[0].cols[row.first_segment + segment] + within * m->item_bytes;
}

/* ---- moving ---- */

#define INLINE static inline __attribute__((always_inline))

/* One load and one store, or two of each, as the instructions have it. */
typedef unsigned char wide __attribute__((vector_size(32), aligned(1), may_alias));
INLINE void copy_32(unsigned char *to, const unsigned char *from) { *(wide *)to = *(const wide *)from; }

/* Runs are short, and of lengths that the C library's memcpy takes long to tell apart. What will be wanted lies `ahead` of them
 * in the tensor: the machine does not see so many streams, with gaps in them, by itself. */
INLINE void move_run(unsigned char *tensor, unsigned char *packed, size_t bytes, size_t ahead, bool unpacks) {
  unsigned char *to = unpacks ? tensor : packed;
  const unsigned char *from = unpacks ? packed : tensor;
  if (bytes >= LONG_RUN) {
    memcpy(to, from, bytes);
    return;
  }
  for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
    if (ahead > 0 && unpacks) __builtin_prefetch(to + ahead, 1);
    if (ahead > 0 && !unpacks) __builtin_prefetch(from + ahead, 0);
    copy_32(to, from);
    copy_32(to + 32, from + 32);
  }
  if (bytes == 0) return;
  if (bytes & 32) copy_32(to, from), to += 32, from += 32;
  if (bytes & 16) memcpy(to, from, 16), to += 16, from += 16;
  if (bytes & 8) memcpy(to, from, 8), to += 8, from += 8;
  if (bytes & 4) memcpy(to, from, 4), to += 4, from += 4;
  if (bytes & 2) memcpy(to, from, 2), to += 2, from += 2;
  if (bytes & 1) *to = *from;
}

/* Whole segments; where their length is known, that is a few instructions each. Stores into tiles gain nothing from being
 * announced. */
INLINE unsigned char *move_segments(unsigned char *row, const size_t *cols, size_t count, size_t whole, size_t ahead,
                                    unsigned char *packed, bool unpacks) {
  for (size_t i = 0; i < count; i++, packed += whole)
    move_run(row + cols[i], packed, whole, unpacks ? 0 : ahead, unpacks);
  return packed;
}

/* Whole rows of one run each, `step` bytes apart here and `pitch` there; where their length is known, a few instructions. */
INLINE void move_runs(unsigned char *tensor, size_t step, unsigned char *packed, size_t pitch, size_t count,
                      size_t bytes, size_t ahead, bool unpacks) {
  for (; count > 0; count--, tensor += step, packed += pitch) move_run(tensor, packed, bytes, ahead, unpacks);
}

INLINE void move_rows(unsigned char *tensor, size_t step, unsigned char *packed, size_t pitch, size_t count,
                      size_t bytes, size_t ahead, bool unpacks) {
  if (bytes == 64) move_runs(tensor, step, packed, pitch, count, 64, ahead, unpacks);
  else if (bytes == 128) move_runs(tensor, step, packed, pitch, count, 128, ahead, unpacks);
  else if (bytes == 256) move_runs(tensor, step, packed, pitch, count, 256, ahead, unpacks);
  else if (bytes == 512) move_runs(tensor, step, packed, pitch, count, 512, ahead, unpacks);
  else move_runs(tensor, step, packed, pitch, count, bytes, ahead, unpacks);
}

/* Bytes [from, from + bytes) of a row, counted from column `first`. */
INLINE void move_row(const struct tu_map *m, unsigned char *row, const size_t *cols, size_t first, size_t from,
                     size_t bytes, size_t ahead, unsigned char *packed, bool unpacks) {
  size_t whole = m->segment * m->item_bytes, byte = first * m->item_bytes + from;
  if (byte + bytes <= whole) { /* one run */
    move_run(row + cols[0] + byte, packed, bytes, ahead, unpacks);
    return;
  }
  size_t segment = byte / whole, within = byte % whole;
  if (within > 0) {
    size_t part = tu_min(whole - within, bytes);
    move_run(row + cols[segment] + within, packed, part, 0, unpacks);
    packed += part, bytes -= part, segment++;
  }
  size_t count = bytes / whole;
  if (whole == 64) packed = move_segments(row, cols + segment, count, 64, ahead, packed, unpacks);
  else if (whole == 128) packed = move_segments(row, cols + segment, count, 128, ahead, packed, unpacks);
  else if (whole == 32) packed = move_segments(row, cols + segment, count, 32, ahead, packed, unpacks);
  else packed = move_segments(row, cols + segment, count, whole, ahead, packed, unpacks);
  if (bytes % whole > 0) move_run(row + cols[segment + count], packed, bytes % whole, 0, unpacks);
}

/* ---- block floats: each item is an exponent here and a rest there ---- */

struct group {
  unsigned char *exponent, *rest;
};

INLINE struct group find_group(const struct tu_map *m, unsigned char *data, const struct row *row, size_t k,
                               size_t item) {
  size_t segment = row->first_segment + item / m->segment, in_segment = item % m->segment;
  return (struct group){
      data + row->at[0] + k * row->step[0] + m->planes[0].cols[segment] + in_segment,
      data + row->at[1] + k * row->step[1] + m->planes[1].cols[segment] + in_segment * m->planes[1].unit};
}

/* Sign and magnitude of an element; the first of two that share a byte is its low half. */
static uint32_t get_code(const unsigned char *rest, size_t i, bool halves) {
  return halves ? (uint32_t)rest[i / 2] >> (i % 2 * 4) & 15u : rest[i];
}

static void put_code(unsigned char *rest, size_t i, bool halves, uint32_t code) {
  uint32_t shift = halves ? i % 2 * 4 : 0, kept = halves ? rest[i / 2] & (0xf0u >> shift) : 0;
  rest[halves ? i / 2 : i] = (unsigned char)(kept | code << shift);
}

/* For an exponent that is larger by `by`: to nearest even. */
static uint32_t lower_code(uint32_t code, uint32_t by, bool halves) {
  uint32_t sign = halves ? 8 : 128, magnitude = code & (sign - 1), shift = by < 8 ? by : 8;
  if (shift == 0) return code;
  magnitude = (magnitude + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1)) >> shift;
  return magnitude ? magnitude | (code & sign) : 0;
}

/* The item of `count` elements from element `column` of the row on: of one group, or two. */
static void pack_group(const struct tu_map *m, unsigned char *data, const struct row *row, size_t k, size_t column,
                       size_t count, unsigned char *item) {
  bool halves = m->item_bytes == 1 + GROUP / 2;
  size_t first = column / GROUP, skip = column % GROUP;
  struct group groups[2] = {find_group(m, data, row, k, first)};
  bool two = skip + count > GROUP;
  groups[1] = two ? find_group(m, data, row, k, first + 1) : groups[0];
  unsigned char most = *groups[0].exponent > *groups[1].exponent ? *groups[0].exponent : *groups[1].exponent;
  memset(item, 0, m->item_bytes);
  item[0] = most;
  for (size_t i = 0; i < count; i++) {
    const struct group *from = &groups[(skip + i) / GROUP];
    uint32_t code = get_code(from->rest, (skip + i) % GROUP, halves);
    put_code(item + 1, i, halves, lower_code(code, (uint32_t)(most - *from->exponent), halves));
  }
}

/* Bytes [from, from + bytes) of an item with only `count` elements: what is beyond them is not the tensor's. */
static void unpack_group(const struct tu_map *m, struct group to, size_t count, size_t from, size_t bytes,
                         const unsigned char *packed) {
  bool halves = m->item_bytes == 1 + GROUP / 2;
  size_t whole = halves ? count / 2 : count; /* bytes */
  for (size_t b = from; b < from + bytes; b++, packed++) {
    if (b == 0) *to.exponent = *packed;
    else if (b <= whole) to.rest[b - 1] = *packed;
    else if (b == whole + 1 && halves && count % 2) put_code(to.rest, count - 1, halves, *packed & 15u);
  }
}

/* Bytes of a row of items, of a region with so many columns. */
INLINE void move_groups(const struct tu_region *g, unsigned char *data, const struct row *row, size_t k, size_t from,
                        size_t bytes, unsigned char *packed, bool unpacks) {
  const struct tu_map *m = g->map;
  size_t begin = g->origin[4] * GROUP + g->skip, cols = g->cols ? g->cols : m->columns - begin;
  while (bytes > 0) {
    size_t item = from / m->item_bytes, within = from % m->item_bytes, part = tu_min(m->item_bytes - within, bytes);
    size_t count = tu_min(cols - item * GROUP, GROUP);
    struct group group = find_group(m, data, row, k, g->origin[4] + item);
    if (count == GROUP && g->skip == 0) {
      size_t head = within == 0;
      if (head) move_run(group.exponent, packed, 1, 0, unpacks);
      if (part > head) move_run(group.rest + within + head - 1, packed + head, part - head, 0, unpacks);
    } else if (unpacks) {
      tu_assert(g->skip == 0);
      unpack_group(m, group, count, within, part, packed);
    } else {
      unsigned char whole[1 + GROUP];
      pack_group(m, data, row, k, begin + item * GROUP, count, whole);
      memcpy(packed, whole + within, part);
    }
    from += part, packed += part, bytes -= part;
  }
}

/* ---- regions ---- */

/* gap: bytes between packed rows. */
INLINE void move(const struct tu_region *g, unsigned char *data, size_t from, size_t bytes, unsigned char *packed,
                 size_t gap, bool unpacks) {
  const struct tu_map *m = g->map;
  size_t row_bytes = g->extent[4] * m->item_bytes;
  if (bytes == 0) return;
  size_t r = from / row_bytes, at[4], within = from % row_bytes;
  size_t rows_ahead = tu_max(2, AHEAD / row_bytes);
  bool in_segment = g->origin[4] % m->segment + g->extent[4] <= m->segment; /* a row is one run */
  bool one_segment = m->segment == g->extent[4] && in_segment;
  for (int d = 3; d >= 0; d--) {
    at[d] = r % g->extent[d];
    r /= g->extent[d];
  }
  while (bytes > 0) {
    size_t index[4];
    struct row row;
    for (int d = 0; d < 4; d++) index[d] = g->origin[d] + at[d];
    find_row(m, index, &row);
    size_t rows = tu_min(row.left, g->extent[3] - at[3]);
    if (m->plane_count == 1 && row.step[0] == row_bytes && one_segment && gap == 0) { /* one behind the other */
      size_t part = tu_min(rows * row_bytes - within, bytes), moved = (within + part) / row_bytes;
      unsigned char *run = data + row.at[0] + m->planes[0].cols[row.first_segment + g->origin[4] / m->segment];
      move_run(run + within, packed, part, 0, unpacks);
      packed += part, bytes -= part, at[3] += moved;
      within = 0; /* or there is nothing left */
      rows = 0;
    }
    size_t k = 0;
    if (m->plane_count == 1 && within == 0 && in_segment) {
      k = tu_min(rows, bytes / row_bytes);
      move_rows(data + row.at[0] + m->planes[0].cols[row.first_segment + g->origin[4] / m->segment] +
                    g->origin[4] % m->segment * m->item_bytes,
                row.step[0], packed, row_bytes + gap, k, row_bytes, rows_ahead * row.step[0], unpacks);
      packed += k * (row_bytes + gap), bytes -= k * row_bytes, at[3] += k;
    }
    for (; k < rows && bytes > 0; k++, at[3]++) {
      size_t part = tu_min(row_bytes - within, bytes);
      if (m->plane_count == 1)
        move_row(m, data + row.at[0] + k * row.step[0], m->planes[0].cols + row.first_segment, g->origin[4], within,
                 part, rows_ahead * row.step[0], packed, unpacks);
      else move_groups(g, data, &row, k, within, part, packed, unpacks);
      packed += part + gap, bytes -= part;
      within = 0;
    }
    for (int d = 3; d > 0 && at[d] == g->extent[d]; d--) {
      at[d] = 0;
      at[d - 1]++;
    }
  }
}

typedef void mover(const struct tu_region *g, unsigned char *data, size_t from, size_t bytes, unsigned char *packed,
                   size_t gap);
static void pack_plainly(const struct tu_region *g, unsigned char *data, size_t from, size_t bytes,
                         unsigned char *packed, size_t gap) {
  move(g, data, from, bytes, packed, gap, false);
}
static void unpack_plainly(const struct tu_region *g, unsigned char *data, size_t from, size_t bytes,
                           unsigned char *packed, size_t gap) {
  move(g, data, from, bytes, packed, gap, true);
}
#ifdef __x86_64__
__attribute__((target("avx2"))) static void pack_avx2(const struct tu_region *g, unsigned char *data, size_t from,
                                                      size_t bytes, unsigned char *packed, size_t gap) {
  move(g, data, from, bytes, packed, gap, false);
}
__attribute__((target("avx2"))) static void unpack_avx2(const struct tu_region *g, unsigned char *data, size_t from,
                                                        size_t bytes, unsigned char *packed, size_t gap) {
  move(g, data, from, bytes, packed, gap, true);
}
static mover *packer(void) { return __builtin_cpu_supports("avx2") ? pack_avx2 : pack_plainly; }
static mover *unpacker(void) { return __builtin_cpu_supports("avx2") ? unpack_avx2 : unpack_plainly; }
#else
static mover *packer(void) { return pack_plainly; }
static mover *unpacker(void) { return unpack_plainly; }
#endif

void tu_region_pack(const struct tu_region *region, const void *data, size_t from, size_t bytes, void *packed) {
  packer()(region, (unsigned char *)(uintptr_t)data, from, bytes, packed, 0);
}

void tu_region_unpack(const struct tu_region *region, void *data, size_t from, size_t bytes, const void *packed) {
  unpacker()(region, data, from, bytes, (unsigned char *)(uintptr_t)packed, 0);
}

/* ---- matrices ---- */

bool tu_region_is_matrix(const struct tu_region *g, size_t *offset, size_t *pitch) {
  const struct tu_map *m = g->map;
  if (!m->strided && !m->plain) return false;
  if (g->extent[4] > 1 && m->strides[4] != m->item_bytes) return false;
  size_t rows = 1;
  *pitch = g->extent[4] * m->item_bytes;
  for (int d = 3; d >= 0; d--) {
    if (g->extent[d] == 1) continue;
    if (rows == 1) *pitch = m->strides[d];
    else if (m->strides[d] != rows * *pitch) return false;
    rows *= g->extent[d];
  }
  *offset = 0;
  for (int d = 0; d < TUTTI_DIMS; d++) *offset += g->origin[d] * m->strides[d];
  return true;
}

static void move_matrix(const struct tu_region *g, unsigned char *data, unsigned char *rows, size_t pitch,
                        mover *move_them) {
  size_t row_bytes = g->extent[4] * g->map->item_bytes;
  size_t bytes = g->extent[0] * g->extent[1] * g->extent[2] * g->extent[3] * row_bytes;
  move_them(g, data, 0, bytes, rows, bytes > row_bytes ? pitch - row_bytes : 0);
}

void tu_region_load(const struct tu_region *region, const void *data, void *rows, size_t pitch) {
  move_matrix(region, (unsigned char *)(uintptr_t)data, rows, pitch, packer());
}

void tu_region_store(const struct tu_region *region, void *data, const void *rows, size_t pitch) {
  move_matrix(region, data, (unsigned char *)(uintptr_t)rows, pitch, unpacker());
}

/* ---- folds ---- */

/* Items of a block along the fold's dimension. */
static inline size_t block_items(const struct tu_fold *fold) {
  const struct tu_map *m = fold->map;
  bool groups = m->plane_count > 1 && fold->dim == TUTTI_DIMS - 1;
  return groups ? divide_up(m->columns / fold->blocks, GROUP) : m->shape[fold->dim] / fold->blocks;
}

size_t tu_fold_block_bytes(const struct tu_fold *fold) {
  size_t bytes = fold->map->item_bytes;
  for (uint32_t d = 0; d < TUTTI_DIMS; d++) bytes *= d == fold->dim ? block_items(fold) : fold->map->shape[d];
  return bytes;
}

struct tu_region tu_fold_block(const struct tu_fold *fold, uint32_t block) {
  struct tu_region region = {.map = fold->map};
  memcpy(region.extent, fold->map->shape, sizeof region.extent);
  region.extent[fold->dim] = block_items(fold);
  region.origin[fold->dim] = block * region.extent[fold->dim];
  if (fold->map->plane_count > 1 && fold->dim == TUTTI_DIMS - 1) {
    region.cols = fold->map->columns / fold->blocks;
    region.origin[4] = block * region.cols / GROUP;
    region.skip = block * region.cols % GROUP;
  }
  return region;
}

static void move_fold(const struct tu_fold *fold, unsigned char *data, size_t from, size_t bytes, unsigned char *packed,
                      mover *move_block) {
  size_t block_bytes = tu_fold_block_bytes(fold);
  while (bytes > 0) {
    struct tu_region block = tu_fold_block(fold, (uint32_t)(from / block_bytes));
    size_t within = from % block_bytes, part = tu_min(block_bytes - within, bytes);
    move_block(&block, data, within, part, packed, 0);
    from += part, packed += part, bytes -= part;
  }
}

void tu_fold_pack(const struct tu_fold *fold, const void *data, size_t from, size_t bytes, void *packed) {
  move_fold(fold, (unsigned char *)(uintptr_t)data, from, bytes, packed, packer());
}

void tu_fold_unpack(const struct tu_fold *fold, void *data, size_t from, size_t bytes, const void *packed) {
  move_fold(fold, data, from, bytes, (unsigned char *)(uintptr_t)packed, unpacker());
}

bool tu_fold_is_plain(const struct tu_fold *fold) {
  size_t outer = 1;
  for (uint32_t d = 0; d < fold->dim; d++) outer *= fold->map->shape[d];
  return fold->map->plain && (outer <= 1 || fold->blocks == 1);
}
