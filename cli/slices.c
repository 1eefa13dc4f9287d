/* slices.c: `tutti slices`: prints the slices of a tensor and the order in which each worker processes them. */
#include "tensor/slices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/types.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/names.h"

#define ALL UINT32_MAX

struct request {
  const char *shape, *dim, *slice, *pages, *buffers, *type;
  uint32_t max_slice, rank;
  uint64_t max_bytes;
  bool json;
  uint32_t dims; /* number of dimensions given with --shape; the output has the same number */
  tutti_slicing how;
};

/* Parses up to `max` sizes, for example "2x12". Returns the number of sizes; 0 on a syntax error. */
static uint32_t read_sizes(const char *text, char separator, size_t *sizes, uint32_t max) {
  char copy[160];
  if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy) return 0;
  uint32_t count = 0;
  for (char *at = copy, *next; at; at = next) {
    uint64_t size;
    next = strchr(at, separator);
    if (next) *next++ = '\0';
    if (count == max || !tu_parse_uint(at, SIZE_MAX, &size)) return 0;
    sizes[count++] = size;
  }
  return count;
}

static int fail(const char *option, const char *expected, const char *found) {
  return cli_fail("slices", CLI_USAGE, "%s: expected %s, found '%s'", option, expected, found);
}

/* Reads --shape; a shape with fewer dimensions gets leading sizes of 1. */
static int read_shape(struct request *r) {
  size_t sizes[TUTTI_DIMS];
  r->dims = r->shape ? read_sizes(r->shape, 'x', sizes, TUTTI_DIMS) : 0;
  if (r->dims == 0)
    return fail("--shape", "up to five sizes, for example 2x12 or 1x1x48x1024", r->shape ? r->shape : "");
  for (uint32_t d = 0; d < TUTTI_DIMS; d++)
    r->how.shape[d] = d < TUTTI_DIMS - r->dims ? 1 : sizes[d - (TUTTI_DIMS - r->dims)];
  return CLI_GOOD;
}

static int read_dim(struct request *r) {
  uint64_t dim = 0;
  bool from_end = r->dim[0] == '-';
  bool good = tu_parse_uint(r->dim + from_end, r->dims, &dim) && (from_end ? dim > 0 : dim < r->dims);
  if (!good)
    return cli_fail("slices", CLI_USAGE, "--dim: expected a dimension of the shape, from -%u to %u, found '%s'",
                    r->dims, r->dims - 1, r->dim);
  r->how.dim = (uint32_t)(from_end ? TUTTI_DIMS - dim : TUTTI_DIMS - r->dims + dim);
  return CLI_GOOD;
}

static int read_pair(const char *option, const char *text, size_t *rows, size_t *cols) {
  size_t sizes[2];
  if (!text) return CLI_GOOD;
  if (read_sizes(text, 'x', sizes, 2) != 2 || sizes[0] == 0 || sizes[1] == 0)
    return fail(option, "rows and columns, for example 32x32", text);
  *rows = sizes[0];
  *cols = sizes[1];
  return CLI_GOOD;
}

/* Sets the maximum size of a slice to the smallest of the given limits, in pages. */
static int read_limit(struct request *r) {
  size_t sizes[4], most = r->max_slice ? r->max_slice : SIZE_MAX;
  if (r->buffers) {
    if (read_sizes(r->buffers, ',', sizes, 4) != 4)
      return fail("--buffers", "the sizes of four buffers in pages (SHORT_CIRCUIT,IN0,OUT,CHANNEL)", r->buffers);
    most = tu_min(most, tu_slice_max(sizes[0], sizes[1], sizes[2], sizes[3]));
  }
  if (r->max_bytes) {
    tutti_datatype type;
    size_t page = tu_max(r->how.page_rows, 1), bytes = 0;
    if (!cli_find_datatype(r->type, &type)) return fail("--dtype", "a datatype that tutti info lists", r->type);
    bool fits = tu_multiply(page, tu_max(r->how.page_cols, 1), &bytes) &&
                tu_multiply(bytes, tutti_datatype_size(type), &bytes) && bytes <= r->max_bytes;
    if (!fits)
      return cli_fail("slices", CLI_USAGE, "--max-bytes: expected at least the %zu bytes of one page, found %llu",
                      bytes, (unsigned long long)r->max_bytes);
    most = tu_min(most, r->max_bytes / bytes);
  }
  if (most == 0) return cli_fail("slices", CLI_USAGE, "--buffers: no page fits into the buffers");
  r->how.pages_max = most == SIZE_MAX ? 0 : most;
  return CLI_GOOD;
}

/* Sets the fracture with which the given rank of a ring begins. A fracture is a piece of the tensor; there is one per
 * rank. The rank begins with the fracture of the next rank in the ring's direction, so that its own fracture comes
 * last. */
static int read_order(struct request *r) {
  if (r->rank == ALL) return CLI_GOOD;
  if (r->rank >= r->how.ranks)
    return cli_fail("slices", CLI_USAGE, "--rank: expected a rank below %u, found %u", r->how.ranks, r->rank);
  r->how.first = (r->rank + (r->how.down ? r->how.ranks - 1 : 1)) % r->how.ranks;
  return CLI_GOOD;
}

static void print_sizes(const size_t sizes[TUTTI_DIMS], uint32_t dims, const char *between, int width) {
  int printed = 0;
  for (uint32_t d = TUTTI_DIMS - dims; d < TUTTI_DIMS; d++)
    printed += printf("%s%zu", d > TUTTI_DIMS - dims ? between : "", sizes[d]);
  while (printed++ < width) putchar(' ');
}

static void print_sizes_json(struct json *j, const char *key, const size_t sizes[TUTTI_DIMS], uint32_t dims) {
  json_open(j, key, JSON_LIST);
  for (uint32_t d = TUTTI_DIMS - dims; d < TUTTI_DIMS; d++) json_count(j, NULL, sizes[d]);
  json_close(j, JSON_LIST);
}

static void print_json(const struct request *r, uint32_t worker, size_t order, const tutti_slice *s) {
  struct json j = {0};
  json_begin(&j, "slices");
  json_count(&j, "worker", worker);
  json_count(&j, "order", order);
  json_count(&j, "slice", s->number);
  json_count(&j, "step", s->step);
  json_count(&j, "fracture", s->fracture);
  print_sizes_json(&j, "offset", s->origin, r->dims);
  print_sizes_json(&j, "shape", s->extent, r->dims);
  json_end(&j);
}

static void print_slice(const struct request *r, uint32_t worker, size_t order, const tutti_slice *s) {
  if (r->json) {
    print_json(r, worker, order, s);
    return;
  }
  printf("%6u %6zu %6zu %5u %8u  ", worker, order, s->number, s->step, s->fracture);
  print_sizes(s->origin, r->dims, ",", 18);
  printf("  ");
  print_sizes(s->extent, r->dims, "x", 0);
  putchar('\n');
}

static int print(const struct request *r) {
  struct tu_slices slices;
  struct tu_error error;
  if (tu_slices_init(&slices, &r->how, &error) != TUTTI_OK) return cli_fail("slices", CLI_USAGE, "%s", error.text);
  if (!r->json)
    printf("%6s %6s %6s %5s %8s  %-18s  %s\n", "worker", "order", "slice", "step", "fracture", "offset", "shape");
  for (uint32_t w = 0; w < r->how.workers; w++)
    for (size_t i = 0; i < tu_slices_dealt(&slices, w) * r->how.ranks; i++) {
      tutti_slice slice = tu_slices_at(&slices, w, i);
      print_slice(r, w, i, &slice);
    }
  return CLI_GOOD;
}

static int run(int argc, char **argv) {
  struct request r = {.dim = "-1", .type = "f32", .rank = ALL, .how = {.ranks = 1, .workers = 1}};
  bool done;
  const struct cli_option options[] = {
      {"--shape", CLI_STRING, &r.shape, "AxB..", "shape of the tensor, in elements; up to five dimensions"},
      {"--dim", CLI_STRING, &r.dim, "D", "dimension cut into one fracture per rank; -1 is the last one (-1)"},
      {"--ranks", CLI_UINT, &r.how.ranks, "N", "number of fractures (1)"},
      {"--workers", CLI_UINT, &r.how.workers, "W", "number of workers, which take slices round-robin (1)"},
      {"--pages", CLI_STRING, &r.pages, "RxC", "rows and columns of a page, which is never cut (1x1)"},
      {"--max-slice", CLI_UINT, &r.max_slice, "P", "maximum size of a slice, in pages"},
      {"--max-bytes", CLI_BYTES, &r.max_bytes, "B", "maximum size of a slice, in bytes"},
      {"--dtype", CLI_STRING, &r.type, "TYPE", "datatype of the elements, for --max-bytes (f32)"},
      {"--buffers", CLI_STRING, &r.buffers, "S,I,O,C",
       "pages of a pipeline's buffers; a slice has at most min(S, I + O) + C"},
      {"--slice", CLI_STRING, &r.slice, "RxC", "rows and columns of a slice, in pages (as many as fit)"},
      {"--rank", CLI_UINT, &r.rank, "R", "order of the fractures for rank R of a ring, its own last (from 0 on)"},
      {"--down", CLI_FLAG, &r.how.down, NULL, "fractures in descending order"},
      JSON_LINES_OPTION(&r.json),
  };
  int code = cli_parse(&cli_slices, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if (argc > 1) return cli_fail("slices", CLI_USAGE, "expected options only, found '%s'", argv[1]);
  if ((code = read_shape(&r)) != CLI_GOOD) return code;
  if ((code = read_dim(&r)) != CLI_GOOD) return code;
  if ((code = read_pair("--pages", r.pages, &r.how.page_rows, &r.how.page_cols)) != CLI_GOOD) return code;
  if ((code = read_pair("--slice", r.slice, &r.how.slice_rows, &r.how.slice_cols)) != CLI_GOOD) return code;
  if ((code = read_limit(&r)) != CLI_GOOD) return code;
  if ((code = read_order(&r)) != CLI_GOOD) return code;
  return print(&r);
}

const struct cli_verb cli_slices = {
    .name = "slices",
    .summary = "print how a tensor is cut into slices, and when each worker takes them",
    .synopsis = "slices --shape AxB.. [--dim D] [--ranks N] [--workers W] [options]",
    .run = run,
};
