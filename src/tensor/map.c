/* map.c: checks layouts, and makes the maps of tensors, which state where each element lies. */
#include "tensor/map_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "base/types.h"

size_t tu_map_item_bytes(const struct tu_map *map) { return map->item_bytes; }
const size_t *tu_map_shape(const struct tu_map *map) { return map->shape; }
size_t tu_map_extent(const struct tu_map *map) { return map->extent; }
bool tu_map_is_plain(const struct tu_map *map) { return map->plain; }

/* ---- tensors of the program ---- */

tutti_err tu_tensor_take(const tutti_tensor *theirs, const char *what, tutti_tensor *ours, struct tu_error *error) {
  tutti_err err = tu_sized_take(&tu_sized_tensor, theirs, theirs->struct_bytes, ours, what, error);
  if (err == TUTTI_OK) ours->struct_bytes = sizeof *ours;
  return err;
}

/* ---- checking layouts and making maps ---- */

static tutti_err fail(struct tu_error *error, const tutti_tensor *t, const char *what) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "tensor of %s, %zux%zux%zux%zux%zu: %s", tutti_datatype_name(t->type),
                 t->shape[0], t->shape[1], t->shape[2], t->shape[3], t->shape[4], what);
}

static tutti_err check_shape(const tutti_tensor *t, struct tu_error *error) {
  size_t items = 1;
  if (!tu_is_datatype(t->type)) return fail(error, t, "unknown data type; expected a tutti_datatype");
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (!tu_multiply(items, tu_max(t->shape[d], 1), &items))
      return fail(error, t, "the tensor has more elements than memory can hold");
  if (items > PTRDIFF_MAX / 64) return fail(error, t, "the tensor has more elements than memory can hold");
  if ((unsigned)t->layout.placement > TUTTI_BLOCK_SHARDED)
    return fail(error, t, "unknown placement; expected a tutti_placement");
  return TUTTI_OK;
}

struct axis {
  size_t extent, stride;
};

static int compare_axes(const void *a, const void *b) {
  const struct axis *x = a, *y = b;
  return (x->stride > y->stride) - (x->stride < y->stride);
}

/* Returns true if each stride is longer than the range of memory that all smaller strides cover. Then no two elements
 * overlap. The condition is sufficient, and all tensors made by slicing and transposing meet it. */
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
  if (t->layout.tiles.rows)
    return fail(error, t, "a strided tensor has no tiles; use an interleaved tensor with 1 bank");
  size_t last = 0, dense = 1;
  bool empty = false;
  m->strided = m->plain = true;
  for (int d = TUTTI_DIMS - 1; d >= 0; d--) {
    size_t reach;
    empty |= t->shape[d] == 0;
    if (!tu_multiply(t->strides[d], m->item_bytes, &m->strides[d]) ||
        !tu_multiply(tu_max(t->shape[d], 1) - 1, m->strides[d], &reach) || reach > PTRDIFF_MAX / 8)
      return fail(error, t, "the strides reach beyond the end of the address space");
    last += reach;
    m->plain &= t->shape[d] <= 1 || t->strides[d] == dense;
    dense *= t->shape[d];
  }
  if (!empty && !strides_apart(t))
    return fail(
        error, t,
        "the strides put elements on top of each other; each stride must exceed the reach of all smaller strides");
  m->extent = empty ? 0 : last + m->item_bytes;
  m->segment = t->shape[4] <= 1 || t->strides[4] == 1 ? tu_max(t->shape[4], 1) : 1;
  return TUTTI_OK;
}

static tutti_err check_tiles(const tutti_tensor *t, struct tu_error *error) {
  const tutti_tiles *tiles = &t->layout.tiles;
  if (!tiles->rows != !tiles->cols) return fail(error, t, "tiles need both rows and columns; one of them is 0");
  if (tiles->rows > 4096 || tiles->cols > 4096) return fail(error, t, "the tiles are larger than 4096x4096 elements");
  if (!tiles->face_rows != !tiles->face_cols)
    return fail(error, t, "faces need both rows and columns; one of them is 0");
  if (tiles->face_rows && (!tiles->rows || tiles->rows % tiles->face_rows || tiles->cols % tiles->face_cols))
    return fail(error, t, "the faces do not divide the tiles into equal parts");
  return TUTTI_OK;
}

static tutti_err check_shards(const tutti_tensor *t, const struct tu_map *m, size_t rows, size_t cols,
                              struct tu_error *error) {
  const tutti_layout *l = &t->layout;
  char what[160];
  if (!l->grid_rows || !l->grid_cols)
    return fail(error, t, "the grid has no cores; expected at least 1 row and 1 column");
  if (!l->shard_rows || !l->shard_cols) return fail(error, t, "shards need both rows and columns; one of them is 0");
  if (l->placement == TUTTI_WIDTH_SHARDED && l->grid_rows != 1)
    return fail(error, t, "the tensor is width-sharded over several rows of cores; expected a grid of 1 row");
  if (l->placement == TUTTI_HEIGHT_SHARDED && l->grid_cols != 1)
    return fail(error, t, "the tensor is height-sharded over several columns of cores; expected a grid of 1 column");
  if (l->tiles.rows && (l->shard_rows % l->tiles.rows || l->shard_cols % l->tiles.cols)) {
    snprintf(what, sizeof what, "shards of %zux%zu do not consist of whole tiles of %ux%u", l->shard_rows,
             l->shard_cols, l->tiles.rows, l->tiles.cols);
    return fail(error, t, what);
  }
  size_t have_rows, have_cols;
  if (!tu_multiply(l->shard_rows, l->grid_rows, &have_rows) || !tu_multiply(m->shard_cols, l->grid_cols, &have_cols) ||
      have_rows > PTRDIFF_MAX / 64 || have_cols > PTRDIFF_MAX / 64)
    return fail(error, t, "the shards are larger than memory can hold");
  if (have_rows >= rows && have_cols >= cols) return TUTTI_OK;
  snprintf(what, sizeof what, "%ux%u shards of %zux%zu hold less than the tensor's matrix of %zux%zu", l->grid_rows,
           l->grid_cols, l->shard_rows, l->shard_cols, rows, cols);
  return fail(error, t, what);
}

/* Multiplies three sizes, all greater than 0. Returns false if the product exceeds the address space. */
static bool product(size_t *out, size_t a, size_t b, size_t c) {
  return tu_multiply(a, b, out) && tu_multiply(*out, c, out) && *out <= PTRDIFF_MAX / 64;
}

static tutti_err lay_pages(const tutti_tensor *t, struct tu_map *m, bool groups, struct tu_error *error) {
  const tutti_layout *l = &t->layout;
  tutti_err err = check_tiles(t, error);
  if (err != TUTTI_OK) return err;
  bool tiled = l->tiles.rows > 0, sharded = l->placement != TUTTI_INTERLEAVED;
  size_t per_col = groups ? TU_MAP_GROUP : 1; /* number of elements in an item: 16 for block floats, otherwise 1 */
  if (groups && (!tiled || l->tiles.cols % TU_MAP_GROUP || l->tiles.face_cols % TU_MAP_GROUP))
    return fail(error, t, "block floats need tiles, and the tiles and their faces need a multiple of 16 columns");
  m->tile_rows = tiled ? l->tiles.rows : 1;
  m->tile_cols = tiled ? l->tiles.cols / per_col : tu_max(m->shape[4], 1);
  tu_assert(m->tile_rows > 0 && m->tile_cols > 0);
  m->matrix_rows = tu_round_up(m->shape[3], m->tile_rows);
  size_t rows, cols = tu_map_divide_up(m->shape[4], m->tile_cols) * m->tile_cols, shard_bytes;
  if (!product(&rows, m->shape[0] * m->shape[1] * m->shape[2], m->matrix_rows, 1) ||
      !product(&shard_bytes, rows, tu_max(cols, 1), m->item_bytes))
    return fail(error, t, "the tensor is larger than memory can hold");
  m->shard_rows = sharded ? l->shard_rows : tu_max(rows, 1);
  m->shard_cols = sharded ? l->shard_cols / per_col : tu_max(cols, m->tile_cols);
  if (sharded && (err = check_shards(t, m, rows, cols, error)) != TUTTI_OK) return err;
  if (sharded && !tiled) m->tile_rows = m->shard_rows, m->tile_cols = m->shard_cols;
  m->face_rows = tiled && l->tiles.face_rows ? l->tiles.face_rows : m->tile_rows;
  m->face_cols = tiled && l->tiles.face_cols ? l->tiles.face_cols / per_col : m->tile_cols;
  m->segment = m->face_cols;
  m->pages_across = tu_max(m->shard_cols / m->tile_cols, 1); /* at least 1 page, even for an empty tensor */
  m->page_bytes = m->tile_rows * m->tile_cols * m->item_bytes;
  if (!product(&shard_bytes, m->shard_rows, m->shard_cols, m->item_bytes))
    return fail(error, t, "the tensor is larger than memory can hold");
  if (!sharded) {
    if (!l->banks) return fail(error, t, "the number of banks for the pages is 0; expected at least 1");
    size_t pages = rows / m->tile_rows * (cols / m->tile_cols);
    m->banks = l->banks;
    m->bank_bytes = tu_map_divide_up(pages, m->banks) * m->page_bytes;
    if (!product(&m->extent, m->banks, tu_max(m->bank_bytes, 1), 1))
      return fail(error, t, "the tensor is larger than memory can hold");
    m->extent = m->banks * m->bank_bytes;
    /* Without tiles, a page is a row. With one bank, the rows lie one after the other. */
    m->plain = !tiled && m->banks == 1;
    return TUTTI_OK;
  }
  m->banks = 1;
  m->shard_row_step = shard_bytes * (l->column_orientation ? 1 : l->grid_cols);
  m->shard_col_step = shard_bytes * (l->column_orientation ? l->grid_rows : 1);
  if (!product(&m->extent, shard_bytes, l->grid_rows, l->grid_cols))
    return fail(error, t, "the tensor is larger than memory can hold");
  m->plain = !tiled && m->shard_cols == m->shape[4] && l->grid_cols == 1;
  return TUTTI_OK;
}

/* Makes the table `cols` of a plane: for each segment of a row (items that lie together), its offset from the row's
 * beginning. Returns false if out of memory. */
static bool lay_cols(const struct tu_map *m, struct tu_map_plane *plane) {
  if (m->strided) {
    size_t count = tu_map_divide_up(m->shape[4], m->segment);
    plane->cols = tu_try_allocate(count + 1, sizeof *plane->cols);
    for (size_t c = 0; plane->cols && c < count; c++) plane->cols[c] = c * m->strides[4];
    return plane->cols != NULL;
  }
  size_t faces = m->tile_cols / m->face_cols, across = tu_map_divide_up(m->shape[4], m->tile_cols);
  /* With several banks, pages are dealt to the banks in turn, and a row may begin in any bank. A row that begins in
   * bank b uses the table from page b on. So the table has `banks` pages more than a row. */
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

/* Computes all fields of a map except the tables. */
static tutti_err lay_out(const tutti_tensor *t, struct tu_map *map, struct tu_error *error) {
  tu_assert(t->struct_bytes == sizeof *t);
  tutti_err err = check_shape(t, error);
  if (err != TUTTI_OK) return err;
  struct tu_map m = {.item_bytes = tu_datatypes[t->type].bytes, .columns = t->shape[4], .plane_count = 1};
  bool groups = tu_datatypes[t->type].elements > 1;
  memcpy(m.shape, t->shape, sizeof m.shape);
  if (groups) m.shape[4] = tu_map_divide_up(t->shape[4], TU_MAP_GROUP);
  if (t->layout.placement == TUTTI_STRIDED)
    err = groups ? fail(error, t, "block floats need tiles; a strided tensor has none") : lay_strided(t, &m, error);
  else err = lay_pages(t, &m, groups, error);
  if (err != TUTTI_OK) return err;
  tu_assert(m.segment > 0 && (m.strided || (m.face_cols > 0 && m.tile_cols > 0 && m.pages_across > 0)));
  m.planes[0] = (struct tu_map_plane){.unit = m.item_bytes};
  if (groups) {
    m.plane_count = 2;
    m.planes[0] = (struct tu_map_plane){.unit = 1};
    m.planes[1] = (struct tu_map_plane){.unit = m.item_bytes - 1, .base = m.tile_rows * m.tile_cols};
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
    return tu_fail_memory(error, m.shape[4] * sizeof(size_t), "the table of column offsets of a tensor");
  }
  *map = made;
  return TUTTI_OK;
}

void tu_map_destroy(struct tu_map *map) {
  if (!map) return;
  for (uint32_t p = 0; p < map->plane_count; p++) free(map->planes[p].cols);
  free(map);
}
