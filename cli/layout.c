/* layout.c: `tutti layout`: prints the memory layout of a tensor as text, data or a picture. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tensor.h>

#include "base/types.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/names.h"
#include "draw/draw_tensor.h"

#define ALL UINT32_MAX

struct request {
  const char *shape, *type, *strides, *tiles, *faces, *width, *height, *grid, *title, *as;
  uint32_t banks, blocks, block;
  const char *dim;
  bool columns, json;
};

/* Parses numbers that are separated by one of `separators`. Returns the number of numbers; 0 on a syntax error. */
static uint32_t read_numbers(const char *text, const char *separators, size_t numbers[], uint32_t max) {
  uint32_t count = 0;
  while (count < max) {
    char *end;
    if (*text < '0' || *text > '9') return 0;
    numbers[count++] = strtoull(text, &end, 10);
    if (*end == '\0') return count;
    if (!strchr(separators, *end)) return 0;
    text = end + 1;
  }
  return 0;
}

static int bad(const char *option, const char *expected, const char *found) {
  return cli_fail("layout", CLI_USAGE, "--%s: expected %s, found '%s'", option, expected, found);
}

static int read_tiles(const struct request *r, tutti_tiles *tiles) {
  size_t n[2];
  if (r->tiles && read_numbers(r->tiles, "x", n, 2) != 2)
    return bad("tiles", "rows and columns, for example 32x32", r->tiles);
  if (r->tiles) tiles->rows = (uint32_t)n[0], tiles->cols = (uint32_t)n[1];
  if (r->faces && (!r->tiles || read_numbers(r->faces, "x", n, 2) != 2))
    return bad("faces", "rows and columns, for example 16x16, together with --tiles", r->faces);
  if (r->faces) tiles->face_rows = (uint32_t)n[0], tiles->face_cols = (uint32_t)n[1];
  return CLI_GOOD;
}

static int make(const struct request *r, tutti_tensor *t) {
  size_t shape[TUTTI_DIMS], strides[TUTTI_DIMS], n[4];
  tutti_tensor_of of = {.type = TUTTI_F32, .shape = shape};
  tutti_tiles tiles = {0};
  int code = read_tiles(r, &tiles);
  if (code != CLI_GOOD) return code;
  if (!r->shape || (of.dims = read_numbers(r->shape, "x", shape, TUTTI_DIMS)) == 0)
    return bad("shape", "1 to 5 sizes, for example 2x64x128", r->shape ? r->shape : "nothing");
  if (!cli_find_datatype(r->type, &of.type)) return bad("dtype", "a datatype that tutti info lists", r->type);
  if (tu_item_elements(of.type) > 1)
    return bad("dtype", "a datatype other than block floats, whose elements share an exponent", r->type);
  int placements = (r->strides != NULL) + (r->banks > 0) + (r->width != NULL) + (r->height != NULL) + (r->grid != NULL);
  if (placements > 1)
    return cli_fail("layout", CLI_USAGE, "expected at most one of --strides, --banks, --width, --height and --block");
  const tutti_tiles *used = r->tiles ? &tiles : NULL;
  tutti_err err;
  if (r->width) {
    if (read_numbers(r->width, ":", n, 2) != 2) return bad("width", "CORES:COLUMNS, for example 4:32", r->width);
    err = tutti_tensor_width_sharded(t, of, used, (uint32_t)n[0], n[1]);
  } else if (r->height) {
    if (read_numbers(r->height, ":", n, 2) != 2) return bad("height", "CORES:ROWS, for example 4:32", r->height);
    err = tutti_tensor_height_sharded(t, of, used, (uint32_t)n[0], n[1]);
  } else if (r->grid) {
    if (read_numbers(r->grid, "x:", n, 4) != 4) return bad("block", "GRID:SHARD, for example 2x4:32x32", r->grid);
    err = tutti_tensor_block_sharded(t, of, used, (tutti_grid){(uint32_t)n[0], (uint32_t)n[1], n[2], n[3], r->columns});
  } else if (r->banks || r->tiles) {
    err = tutti_tensor_interleaved(t, of, used, r->banks ? r->banks : 1);
  } else {
    if (r->strides && read_numbers(r->strides, ",", strides, TUTTI_DIMS) != of.dims)
      return bad("strides", "one stride per dimension, for example 128,1", r->strides);
    err = tutti_tensor_strided(t, of, r->strides ? strides : NULL);
  }
  return err == TUTTI_OK ? CLI_GOOD : cli_fail("layout", CLI_FAILED, "%s", tutti_error_message(NULL));
}

static void describe(const tutti_tensor *t, char *line, size_t bytes) {
  FILE *file = fmemopen(line, bytes, "w");
  if (!file) return;
  tutti_tensor_print(t, file);
  fclose(file);
  line[strcspn(line, "\n")] = '\0';
}

static void print_json(const tutti_tensor *t, const char *line) {
  size_t index[TUTTI_DIMS] = {0}, count = 1;
  for (int d = 0; d < TUTTI_DIMS; d++) count *= t->shape[d];
  struct json j = {0};
  json_begin(&j, "layout");
  json_text(&j, "tensor", line);
  json_count(&j, "bytes", tutti_tensor_bytes(t));
  json_open(&j, "shape", JSON_LIST);
  for (int d = 0; d < TUTTI_DIMS; d++) json_count(&j, NULL, t->shape[d]);
  json_close(&j, JSON_LIST);
  json_open(&j, "offsets", JSON_LIST);
  for (size_t e = 0; e < count; e++) {
    for (size_t d = TUTTI_DIMS, rest = e; d-- > 0; rest /= t->shape[d]) index[d] = rest % t->shape[d];
    json_count(&j, NULL, tutti_tensor_offset(t, index));
  }
  json_close(&j, JSON_LIST);
  json_end(&j);
}

static int show(const struct request *r, const tutti_tensor *t) {
  char line[256] = "";
  describe(t, line, sizeof line);
  struct tu_draw_tensor what = {.tensor = t,
                                .title = r->title ? r->title : line,
                                .blocks = r->blocks,
                                .block = r->block,
                                .one_block = r->block != ALL};
  struct tu_text text = {0};
  struct tu_error error;
  if (r->block != ALL && r->block >= r->blocks)
    return cli_fail("layout", CLI_USAGE,
                    "--block-number: expected a number below the number of blocks (--blocks), found %u", r->block);
  if (r->blocks) {
    char *end;
    long dim = r->dim ? strtol(r->dim, &end, 10) : 0;
    if (r->dim && (*end || end == r->dim)) return bad("dim", "a dimension, for example 0 or -1", r->dim);
    if (dim < 0) dim += (long)t->dims;
    if (dim < 0 || dim >= (long)t->dims) return bad("dim", "a dimension of the shape", r->dim);
    what.axis = (uint32_t)(TUTTI_DIMS - (long)t->dims + dim);
  }
  tutti_err err = TUTTI_OK;
  if (strcmp(r->as, "json") == 0) print_json(t, line);
  else if (strcmp(r->as, "svg") == 0) err = tu_draw_tensor_svg(&what, &text, &error);
  else if (strcmp(r->as, "text") == 0) {
    tu_text_print(&text, "# %s\n# offset of each element, in elements\n", line);
    err = tu_draw_tensor_text(&what, &text, &error);
  } else return bad("as", "text or svg (or --json)", r->as);
  if (err == TUTTI_OK && text.chars) fputs(text.chars, stdout);
  tu_text_fini(&text);
  return err == TUTTI_OK ? CLI_GOOD : cli_fail("layout", CLI_FAILED, "%s", error.text);
}

static int run(int argc, char **argv) {
  struct request r = {.type = "f32", .as = "text", .block = ALL};
  bool done;
  const struct cli_option options[] = {
      {"--shape", CLI_STRING, &r.shape, "AxB..", "sizes of 1 to 5 dimensions"},
      {"--dtype", CLI_STRING, &r.type, "TYPE", "datatype of the elements (f32)"},
      {"--tiles", CLI_STRING, &r.tiles, "RxC", "tiles of R rows and C columns (no tiles: row-major)"},
      {"--faces", CLI_STRING, &r.faces, "RxC", "with --tiles: faces of R rows and C columns in each tile"},
      {"--strides", CLI_STRING, &r.strides, "A,B..", "strides of the dimensions, in elements"},
      {"--banks", CLI_UINT, &r.banks, "B", "interleaved over B banks"},
      {"--width", CLI_STRING, &r.width, "N:C", "width-sharded: N cores, C columns each"},
      {"--height", CLI_STRING, &r.height, "N:R", "height-sharded: N cores, R rows each"},
      {"--block", CLI_STRING, &r.grid, "AxB:RxC", "block-sharded: a grid of AxB cores, RxC each"},
      {"--columns", CLI_FLAG, &r.columns, NULL, "with --block: number the cores down the columns"},
      {"--blocks", CLI_UINT, &r.blocks, "N", "one colour per block of a call with N blocks (per page)"},
      {"--dim", CLI_STRING, &r.dim, "D", "with --blocks: dimension that is cut into blocks (0)"},
      {"--block-number", CLI_UINT, &r.block, "B", "with --blocks: the whole tensor is block B"},
      {"--title", CLI_STRING, &r.title, "WORDS", "title of a picture (description of the tensor)"},
      {"--as", CLI_STRING, &r.as, "text|svg", "text, or a picture (text)"},
      JSON_OPTION(&r.json),
  };
  int code = cli_parse(&cli_layout, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if (argc > 1) return cli_fail("layout", CLI_USAGE, "expected options only, found '%s'", argv[1]);
  if (r.json && (code = cli_choose_json("layout", &r.as)) != CLI_GOOD) return code;
  tutti_tensor t = {0};
  code = make(&r, &t);
  return code == CLI_GOOD ? show(&r, &t) : code;
}

const struct cli_verb cli_layout = {
    .name = "layout",
    .summary = "print the memory layout of a tensor as text, data or a picture",
    .synopsis = "layout --shape AxB.. [options]",
    .run = run,
};
