/* info_reshard.c: `tutti info --reshard`: prints the steps that convert a tensor from one distribution over a mesh to
 * another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/types.h"
#include "cli/cli.h"
#include "cli/info.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/units.h"
#include "tensor/reshard.h"

enum { AXES = TUTTI_MESH_AXES, RANKS_MAX = 1 << 20 };

/* The parsed options of `tutti info --reshard`. */
struct question {
  struct tu_reshard plan;
  uint32_t axes, dims;
  char from[TU_DISTRIBUTION_CHARS], to[TU_DISTRIBUTION_CHARS];
};

static int fail(const char *option, const char *expected, const char *found) {
  return cli_fail("info", CLI_USAGE, "%s: expected %s, found '%s'", option, expected, found);
}

/* Parses sizes that are separated by 'x', for example "2x4". Returns the number of sizes; 0 on a syntax error. */
static uint32_t read_sizes(const char *text, uint64_t numbers[], uint32_t max) {
  uint32_t count = 0;
  for (;; text++) {
    char digits[24];
    size_t length = strcspn(text, "x");
    if (count == max || length >= sizeof digits) return 0;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (!tu_parse_uint(digits, UINT32_MAX, &numbers[count++])) return 0;
    text += length;
    if (!*text) return count;
  }
}

/* Parses how a tensor is distributed along one axis of the mesh: R (replicated), S3 or S-1 (dimension 3 or the last one
 * is sharded), or P:sum (partial sums). */
static bool read_token(const char *token, tutti_spread *spread) {
  uint64_t dim;
  *spread = (tutti_spread){TUTTI_REPLICATED, 0, TUTTI_SUM};
  if (strcmp(token, "R") == 0) return true;
  if (strncmp(token, "P:", 2) == 0) {
    spread->kind = TUTTI_PARTIAL;
    return tu_operation_find(token + 2, &spread->op);
  }
  bool negative = token[0] == 'S' && token[1] == '-';
  if (token[0] != 'S' || !tu_parse_uint(token + (negative ? 2 : 1), 99, &dim)) return false;
  spread->kind = TUTTI_SHARDED;
  spread->dim = negative ? -(int)dim : (int)dim;
  return true;
}

static int read_distribution(struct question *q, const char *text, struct tu_distribution *d, char *shown) {
  tutti_spread spread[AXES];
  struct tu_error error;
  char token[16];
  uint32_t count = 0;
  for (const char *at = text; *(at += strspn(at, " ,")); at += strcspn(at, " ,")) {
    snprintf(token, sizeof token, "%.*s", (int)tu_min(strcspn(at, " ,"), sizeof token), at);
    if (count == q->axes || !read_token(token, &spread[count++])) count = AXES + 1;
    if (count > AXES) break;
  }
  if (count != q->axes)
    return cli_fail("info", CLI_USAGE,
                    "--reshard: expected one of R (replicated), S followed by a dimension such as S2 or S-1 (sharded), "
                    "or P:sum, P:min or P:max (partial) for each of the mesh's %u axes, found '%s'",
                    q->axes, text);
  if (tu_distribution_read(&q->plan.whole, q->axes, q->dims, spread, d, &error) != TUTTI_OK)
    return cli_fail("info", CLI_USAGE, "'%s': %s", text, error.text);
  tu_distribution_print(d, q->axes, q->dims, shown);
  return CLI_GOOD;
}

static int read_question(const struct info_reshard *asked, struct question *q) {
  struct tu_whole *w = &q->plan.whole;
  uint64_t extents[AXES], shape[TUTTI_DIMS], ranks = 1;
  size_t items = 1;
  *q = (struct question){.plan.whole = {.extents = {1, 1, 1}, .shape = {1, 1, 1, 1, 1}}};
  if (!asked->to || !asked->mesh || !asked->shape)
    return cli_fail("info", CLI_USAGE,
                    "--reshard FROM TO needs --mesh and --shape, for example --reshard \"S0 R\" \"R S1\" --mesh 2x4 "
                    "--shape 64x128");
  if ((q->axes = read_sizes(asked->mesh, extents, AXES)) == 0)
    return fail("--mesh", "the numbers of ranks along 1 to 3 axes, for example 2x4", asked->mesh);
  for (uint32_t a = 0; a < q->axes; a++) {
    if (extents[a] < 1 || extents[a] > RANKS_MAX || (ranks *= extents[a]) > RANKS_MAX)
      return fail("--mesh", "1 to 1048576 ranks in total", asked->mesh);
    w->extents[a] = (uint32_t)extents[a];
  }
  if ((q->dims = read_sizes(asked->shape, shape, TUTTI_DIMS)) == 0)
    return fail("--shape", "1 to 5 sizes, for example 1x1x64x128", asked->shape);
  for (uint32_t d = 0; d < q->dims; d++) {
    w->shape[TUTTI_DIMS - q->dims + d] = shape[d];
    if (!tu_multiply(items, tu_max(shape[d], 1), &items) || items > PTRDIFF_MAX / 64)
      return fail("--shape", "a tensor with fewer elements", asked->shape);
  }
  if (!cli_find_datatype(asked->type, &w->type)) return fail("--type", "a datatype that tutti info lists", asked->type);
  int code = read_distribution(q, asked->from, &q->plan.from, q->from);
  return code != CLI_GOOD ? code : read_distribution(q, asked->to, &q->plan.to, q->to);
}

/* ---- printing ---- */

static unsigned shown_dim(const struct question *q, uint8_t dim) { return dim + q->dims - TUTTI_DIMS; }

static void print_step(const struct question *q, const struct tu_reshard_step *s) {
  char axes[16], dims[32] = "", after[TU_DISTRIBUTION_CHARS];
  size_t length = 0;
  for (uint32_t a = 0; a < q->axes; a++)
    if (s->axes >> a & 1) length += (size_t)snprintf(axes + length, sizeof axes - length, "%s%u", length ? "," : "", a);
  if (s->kind == TU_RESHARD_ALLGATHER || s->kind == TU_RESHARD_REDUCE_SCATTER)
    snprintf(dims, sizeof dims, "%u", shown_dim(q, s->dim));
  if (s->kind == TU_RESHARD_ALLTOALL)
    snprintf(dims, sizeof dims, "%u to %u", shown_dim(q, s->out_dim), shown_dim(q, s->dim));
  tu_distribution_print(&s->after, q->axes, q->dims, after);
  printf("  %-15s %-6s %-7s %10s  %10s  %s\n", tu_reshard_names[s->kind], axes, dims,
         units_bytes((double)s->moved).chars, units_bytes((double)s->part_bytes).chars, after);
}

static void print_text(const struct question *q, const struct tu_route *route) {
  if (route->count == 0) {
    printf("%s to %s: every rank has its part already; nothing moves\n", q->from, q->to);
    return;
  }
  printf("  %-15s %-6s %-7s %10s  %10s  %s\n", "step", "axes", "dim", "moved", "then part", q->from);
  for (uint32_t i = 0; i < route->count; i++) print_step(q, &route->steps[i]);
  printf("a rank moves %s; its largest part has %s\n", units_bytes((double)route->moved).chars,
         units_bytes((double)route->largest_bytes).chars);
}

static void print_step_json(const struct question *q, const struct tu_reshard_step *s, struct json *j) {
  char after[TU_DISTRIBUTION_CHARS];
  json_open(j, NULL, JSON_OBJECT);
  json_text(j, "step", tu_reshard_names[s->kind]);
  json_open(j, "axes", JSON_LIST);
  for (uint32_t a = 0; a < q->axes; a++)
    if (s->axes >> a & 1) json_count(j, NULL, a);
  json_close(j, JSON_LIST);
  if (s->kind == TU_RESHARD_ALLGATHER || s->kind == TU_RESHARD_REDUCE_SCATTER || s->kind == TU_RESHARD_ALLTOALL)
    json_count(j, "dim", shown_dim(q, s->dim));
  if (s->kind == TU_RESHARD_ALLTOALL) json_count(j, "out_dim", shown_dim(q, s->out_dim));
  tu_distribution_print(&s->after, q->axes, q->dims, after);
  json_count(j, "moved", s->moved);
  json_count(j, "part", s->part_bytes);
  json_text(j, "after", after);
  json_close(j, JSON_OBJECT);
}

static void print_json(const struct question *q, const struct tu_route *route) {
  struct json j = {0};
  json_begin(&j, "info");
  json_text(&j, "from", q->from);
  json_text(&j, "to", q->to);
  json_open(&j, "steps", JSON_LIST);
  for (uint32_t i = 0; i < route->count; i++) print_step_json(q, &route->steps[i], &j);
  json_close(&j, JSON_LIST);
  json_count(&j, "moved", route->moved);
  json_count(&j, "largest", route->largest_bytes);
  json_end(&j);
}

int info_reshard(const struct info_reshard *asked) {
  struct question q;
  struct tu_route route;
  int code = read_question(asked, &q);
  if (code != CLI_GOOD) return code;
  struct tu_error error;
  if (tu_reshard_find(&q.plan, &route, &error) != TUTTI_OK) return cli_fail("info", CLI_FAILED, "%s", error.text);
  if (asked->json) print_json(&q, &route);
  else print_text(&q, &route);
  tu_route_fini(&route);
  return CLI_GOOD;
}
