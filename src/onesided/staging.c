/* staging.c: checks the staging (tiles) that the user gave, and converts it to a tu_stage. */
#include "onesided/staging.h"
#include "base/sized.h"

#include "base/types.h"
#include "tensor/slide.h"

/* Memory of a tile or of a tensor. A tile must not overlap any other piece. */
struct piece {
  const char *name;
  const void *memory;
  size_t bytes;
};
enum { TILES_MAX = 3 };

static bool overlap(const struct piece *a, const struct piece *b) {
  uintptr_t x = (uintptr_t)a->memory, y = (uintptr_t)b->memory;
  return x < y + b->bytes && y < x + a->bytes;
}

static tutti_err check_pieces(const struct tu_passage *p, const struct piece tiles[], uint32_t count,
                              struct tu_error *error) {
  for (uint32_t i = 0; i < count; i++) {
    if ((uintptr_t)tiles[i].memory % tu_datatypes[p->type].bytes != 0)
      return tu_fail(error, TUTTI_ERR_ARGUMENT,
                     "%s: %s is at %p, which is not aligned to its elements, which are %s of %u bytes", p->call,
                     tiles[i].name, tiles[i].memory, tutti_datatype_name(p->type), tu_datatypes[p->type].bytes);
    for (uint32_t k = 0; k < i; k++)
      if (overlap(&tiles[i], &tiles[k]))
        return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s at %p and %s at %p overlap; each has %zu bytes", p->call,
                       tiles[k].name, tiles[k].memory, tiles[i].name, tiles[i].memory, tiles[i].bytes);
    for (size_t k = 0; k < p->located_count; k++) {
      const struct tu_located *s = &p->located[k];
      const struct piece data = {s->name, s->tensor.data, s->extent};
      if (overlap(&tiles[i], &data))
        return tu_fail(error, TUTTI_ERR_ARGUMENT,
                       "%s: %s, %zu bytes at %p, overlaps the data of %s; expected separate memory", p->call,
                       tiles[i].name, tiles[i].bytes, tiles[i].memory, s->name);
    }
  }
  return TUTTI_OK;
}

/* The user may have fixed the number of rows or columns of a tile that are used. Then the data's number of rows or
 * columns must be a multiple of that number. This function checks it. No check is needed if all data fits into the tile
 * at once. */
static tutti_err check_fixed(const struct tu_passage *p, const tutti_staging *g, const struct tu_stage *s,
                             struct tu_error *error) {
  if (tu_slide_over(p->shape, s->rows, s->cols).at_once) return TUTTI_OK;
  const bool fixed[] = {g->fixed_rows, g->fixed_cols};
  const size_t used[] = {s->rows, s->cols};
  static const char *const names[] = {"rows", "cols"};
  for (int i = 0; i < 2; i++)
    if (fixed[i] && p->shape[3 + i] % used[i] != 0)
      return tu_fail(error, TUTTI_ERR_ARGUMENT,
                     "%s: %zu elements of dimension %d are not a multiple of the tile's valid_%s, which is fixed to "
                     "%zu; set fixed_%s to false, or use a tile size that divides them",
                     p->call, p->shape[3 + i], 3 + i, names[i], used[i], names[i]);
  return TUTTI_OK;
}

static tutti_err check_size(const struct tu_passage *p, const tutti_staging *g, struct tu_stage *s,
                            struct tu_error *error) {
  if (g->rows == 0 || g->cols == 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: a tile of %zux%zu is empty; expected rows and cols above 0", p->call,
                   g->rows, g->cols);
  if (g->valid_rows > g->rows || g->valid_cols > g->cols)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %zux%zu valid elements do not fit a tile of %zux%zu", p->call,
                   g->valid_rows, g->valid_cols, g->rows, g->cols);
  if (!tu_multiply(g->cols, tu_datatypes[p->type].bytes, &s->pitch) ||
      !tu_multiply(s->pitch, g->rows, &s->tile_bytes) || s->tile_bytes > PTRDIFF_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: a tile of %zux%zu has more bytes than memory can hold", p->call,
                   g->rows, g->cols);
  s->rows = g->valid_rows ? g->valid_rows : g->rows;
  s->cols = g->valid_cols ? g->valid_cols : g->cols;
  return TUTTI_OK;
}

tutti_err tu_staging_open(struct tu_stage *stage, const struct tu_passage *p, struct tu_given_staging staging,
                          void *accumulator, struct tu_error *error) {
  tutti_staging known = {0};
  const tutti_staging *g = &known;
  tutti_err err = TUTTI_OK;
  *stage = (struct tu_stage){0};
  if (staging.given) err = tu_sized_take(&tu_sized_staging, staging.given, staging.bytes, &known, p->call, error);
  if (err != TUTTI_OK || (!g->tiles[0] && !g->tiles[1])) return err;
  if (!g->tiles[0])
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: tiles[1] is set but tiles[0] is NULL; expected a single tile in tiles[0]", p->call);
  if (tu_datatypes[p->type].elements > 1)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: elements of %s share exponents, so they do not fit into a row-major tile; expected no staging "
                   "for block floats",
                   p->call, tutti_datatype_name(p->type));
  err = check_size(p, g, stage, error);
  if (err == TUTTI_OK) err = check_fixed(p, g, stage, error);
  if (err != TUTTI_OK) return err;
  stage->accumulator = accumulator;
  struct piece tiles[TILES_MAX];
  uint32_t count = 0;
  for (int i = 0; i < 2 && g->tiles[i]; i++) {
    stage->tiles[stage->tile_count++] = g->tiles[i];
    tiles[count++] = (struct piece){i ? "tiles[1]" : "tiles[0]", g->tiles[i], stage->tile_bytes};
  }
  if (accumulator) tiles[count++] = (struct piece){"the accumulator", accumulator, stage->tile_bytes};
  return check_pieces(p, tiles, count, error);
}
