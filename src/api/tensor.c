/* tensor.c: public constructors of tensors. */
#include <tutti/tensor.h>

#include <string.h>

#include "base/sized.h"
#include "base/types.h"
#include "comm/failure.h"
#include "tensor/map.h"

/* Sets data, type and shape of a tensor. Sets the strides of a row-major tensor without gaps. */
static tutti_err begin(tutti_tensor *tensor, tutti_tensor_of of, struct tu_error *error) {
  *tensor = (tutti_tensor){.data = of.data, .type = of.type, .dims = of.dims, .struct_bytes = sizeof *tensor};
  if (of.dims < 1 || of.dims > TUTTI_DIMS || !of.shape)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "tensor shape: expected 1 to %d dimensions, found %u", TUTTI_DIMS,
                   of.shape ? of.dims : 0);
  for (uint32_t d = 0; d < TUTTI_DIMS; d++) tensor->shape[d] = 1;
  memcpy(tensor->shape + TUTTI_DIMS - of.dims, of.shape, of.dims * sizeof *of.shape);
  size_t stride = 1;
  for (int d = TUTTI_DIMS - 1; d >= 0; d--) {
    tensor->strides[d] = stride;
    if (!tu_multiply(stride, tu_max(tensor->shape[d], 1), &stride))
      stride = SIZE_MAX; /* on overflow of the stride, use a size that tu_map_measure will reject */
  }
  return TUTTI_OK;
}

/* Checks the tensor, and copies it to the caller's tensor *theirs, which has struct_bytes bytes. If the tensor is
 * invalid, *theirs becomes zeros. `err`: an earlier error of the constructor, or TUTTI_OK. */
static tutti_err finish(tutti_tensor *tensor, tutti_err err, tutti_tensor *theirs, size_t struct_bytes,
                        struct tu_error *error) {
  size_t bytes;
  if (!theirs) return tu_refuse_null("tensor constructor", "tensor");
  if (tu_sized_check(&tu_sized_tensor, struct_bytes, "tensor constructor", error) != TUTTI_OK)
    return tu_thread_error(error);
  if (err == TUTTI_OK) err = tu_map_measure(tensor, &bytes, error);
  if (err != TUTTI_OK) *tensor = (tutti_tensor){0};
  else tensor->struct_bytes = (uint32_t)struct_bytes;
  tu_sized_give(&tu_sized_tensor, tensor, theirs, struct_bytes);
  return err == TUTTI_OK ? err : tu_thread_error(error);
}

tutti_err tutti_tensor_strided_sized(tutti_tensor *tensor, size_t struct_bytes, tutti_tensor_of of,
                                     const size_t *strides) {
  tutti_tensor made;
  struct tu_error error;
  tutti_err err = begin(&made, of, &error);
  if (err == TUTTI_OK && strides) memcpy(made.strides + TUTTI_DIMS - of.dims, strides, of.dims * sizeof *strides);
  return finish(&made, err, tensor, struct_bytes, &error);
}

/* The caller's tensor, which a constructor fills, and its size in bytes. */
struct wanted {
  tutti_tensor *tensor;
  size_t struct_bytes;
};

static tutti_err lay(struct wanted wanted, tutti_tensor_of of, const tutti_tiles *tiles, tutti_layout layout) {
  tutti_tensor made;
  struct tu_error error;
  tutti_err err = begin(&made, of, &error);
  if (err == TUTTI_OK) {
    made.layout = layout;
    if (tiles) made.layout.tiles = *tiles;
    if (tiles && !tiles->rows)
      err = tu_fail(&error, TUTTI_ERR_ARGUMENT,
                    "tiles: rows is 0; expected rows and columns, for example 32 and 32, or NULL for no tiles");
  }
  return finish(&made, err, wanted.tensor, wanted.struct_bytes, &error);
}

tutti_err tutti_tensor_interleaved_sized(tutti_tensor *tensor, size_t struct_bytes, tutti_tensor_of of,
                                         const tutti_tiles *tiles, uint32_t banks) {
  return lay((struct wanted){tensor, struct_bytes}, of, tiles,
             (tutti_layout){.placement = TUTTI_INTERLEAVED, .banks = banks});
}

/* Computes the numbers of rows and columns of the tensor, regarded as one matrix and rounded up to whole tiles; each
 * number is at least 1. */
static void matrix(tutti_tensor_of of, const tutti_tiles *tiles, size_t *rows, size_t *cols) {
  *rows = *cols = 1;
  if (of.dims < 1 || of.dims > TUTTI_DIMS || !of.shape) return;
  size_t height = of.dims > 1 ? of.shape[of.dims - 2] : 1, width = of.shape[of.dims - 1];
  *rows = tiles && tiles->rows ? tu_round_up(height, tiles->rows) : height;
  *cols = tu_max(tiles && tiles->cols ? tu_round_up(width, tiles->cols) : width, 1);
  /* The outer dimensions become rows, too. If their product overflows, the number of rows is SIZE_MAX, which
   * tu_map_measure will reject. */
  for (uint32_t d = 0; d + 2 < of.dims; d++)
    if (!tu_multiply(*rows, of.shape[d], rows)) *rows = SIZE_MAX;
  *rows = tu_max(*rows, 1);
}

tutti_err tutti_tensor_width_sharded_sized(tutti_tensor *tensor, size_t struct_bytes, tutti_tensor_of of,
                                           const tutti_tiles *tiles, uint32_t cores, size_t shard_cols) {
  size_t rows, cols;
  matrix(of, tiles, &rows, &cols);
  return lay((struct wanted){tensor, struct_bytes}, of, tiles,
             (tutti_layout){.placement = TUTTI_WIDTH_SHARDED,
                            .grid_rows = 1,
                            .grid_cols = cores,
                            .shard_rows = rows,
                            .shard_cols = shard_cols});
}

tutti_err tutti_tensor_height_sharded_sized(tutti_tensor *tensor, size_t struct_bytes, tutti_tensor_of of,
                                            const tutti_tiles *tiles, uint32_t cores, size_t shard_rows) {
  size_t rows, cols;
  matrix(of, tiles, &rows, &cols);
  return lay((struct wanted){tensor, struct_bytes}, of, tiles,
             (tutti_layout){.placement = TUTTI_HEIGHT_SHARDED,
                            .grid_rows = cores,
                            .grid_cols = 1,
                            .shard_rows = shard_rows,
                            .shard_cols = cols});
}

tutti_err tutti_tensor_block_sharded_sized(tutti_tensor *tensor, size_t struct_bytes, tutti_tensor_of of,
                                           const tutti_tiles *tiles, tutti_grid grid) {
  return lay((struct wanted){tensor, struct_bytes}, of, tiles,
             (tutti_layout){.placement = TUTTI_BLOCK_SHARDED,
                            .grid_rows = grid.rows,
                            .grid_cols = grid.cols,
                            .shard_rows = grid.shard_rows,
                            .shard_cols = grid.shard_cols,
                            .column_orientation = grid.column_orientation});
}

size_t tutti_tensor_bytes(const tutti_tensor *tensor) {
  tutti_tensor t;
  size_t bytes;
  if (!tensor || tu_tensor_take(tensor, "tutti_tensor_bytes", &t, NULL) != TUTTI_OK) return 0;
  return tu_map_measure(&t, &bytes, NULL) == TUTTI_OK ? bytes : 0;
}

size_t tutti_tensor_offset(const tutti_tensor *tensor, const size_t index[TUTTI_DIMS]) {
  tutti_tensor t;
  struct tu_map *map;
  if (!tensor || tu_tensor_take(tensor, "tutti_tensor_offset", &t, NULL) != TUTTI_OK) return SIZE_MAX;
  if (!tu_is_datatype(t.type) || tu_datatypes[t.type].elements > 1 || tu_map_create(&t, &map, NULL) != TUTTI_OK)
    return SIZE_MAX;
  bool inside = true;
  for (int d = 0; d < TUTTI_DIMS; d++) inside &= index[d] < t.shape[d];
  size_t offset = inside ? tu_map_offset(map, index) : SIZE_MAX;
  tu_map_destroy(map);
  return offset;
}

void tutti_tensor_print(const tutti_tensor *tensor, FILE *file) {
  static const char *const placements[] = {[TUTTI_STRIDED] = "strided",
                                           [TUTTI_INTERLEAVED] = "interleaved",
                                           [TUTTI_WIDTH_SHARDED] = "width-sharded",
                                           [TUTTI_HEIGHT_SHARDED] = "height-sharded",
                                           [TUTTI_BLOCK_SHARDED] = "block-sharded"};
  const tutti_layout *l = &tensor->layout;
  fprintf(file, "%s ", tutti_datatype_name(tensor->type));
  for (uint32_t d = TUTTI_DIMS - tensor->dims; d < TUTTI_DIMS; d++)
    fprintf(file, "%s%zu", d > TUTTI_DIMS - tensor->dims ? "x" : "", tensor->shape[d]);
  fprintf(file, ", %s", (unsigned)l->placement <= TUTTI_BLOCK_SHARDED ? placements[l->placement] : "unknown");
  if (l->placement == TUTTI_STRIDED) {
    fprintf(file, " by");
    for (uint32_t d = TUTTI_DIMS - tensor->dims; d < TUTTI_DIMS; d++) fprintf(file, " %zu", tensor->strides[d]);
  } else if (l->placement == TUTTI_INTERLEAVED) {
    fprintf(file, " over %u bank%s", l->banks, l->banks == 1 ? "" : "s");
  } else {
    fprintf(file, " over %ux%u cores, %zux%zu each%s", l->grid_rows, l->grid_cols, l->shard_rows, l->shard_cols,
            l->column_orientation ? ", numbered down the columns" : "");
  }
  if (l->tiles.rows) {
    fprintf(file, ", tiles of %ux%u", l->tiles.rows, l->tiles.cols);
    if (l->tiles.face_rows) fprintf(file, ", faces of %ux%u", l->tiles.face_rows, l->tiles.face_cols);
  } else if (l->placement != TUTTI_STRIDED) {
    fprintf(file, ", row-major");
  }
  fprintf(file, ", %zu bytes\n", tutti_tensor_bytes(tensor));
}
