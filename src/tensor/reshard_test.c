/* reshard_test.c: checks the steps of reshardings: a table of expected steps, and, on small meshes, all pairs of
 * distributions. There the boxes of the ranks show that each step does what its kind can do, and that no sequence of
 * such steps costs less. */
#include "tensor/reshard.h"

#include "base/types.h"
#include "test.h"

enum { AXES = TUTTI_MESH_AXES, RANKS_MAX = 16, STATES_MAX = 256 };

/* ---- expected steps ---- */

static tutti_spread R(void) { return (tutti_spread){TUTTI_REPLICATED, 0, 0}; }

/* Reads a distribution such as "R S3 P:sum": replicated, sharded along dimension 3, and partial, per mesh axis. */
static void read_words(const char *text, tutti_spread spread[AXES]) {
  for (int a = 0; a < AXES; a++) {
    spread[a] = R();
    char op[8] = "";
    if (*text == 'S') spread[a] = (tutti_spread){TUTTI_SHARDED, text[1] - '0', 0};
    if (*text == 'P' && sscanf(text, "P:%7s", op) == 1) {
      spread[a].kind = TUTTI_PARTIAL;
      CHECK(tu_operation_find(op, &spread[a].op), "%s", text);
    }
    text += strcspn(text, " ");
    text += *text == ' ';
  }
}

static void must_read(const struct tu_whole *whole, const tutti_spread spread[AXES], struct tu_distribution *d) {
  struct tu_error error = {0};
  if (tu_distribution_read(whole, AXES, TUTTI_DIMS, spread, d, &error) != TUTTI_OK) FAIL("%s", error.text);
}

static const struct finding {
  uint32_t extents[AXES];
  size_t shape[TUTTI_DIMS];
  const char *from, *to, *steps; /* steps: for each its kind, axes, partitioned dimension, joined dimension */
  size_t moved, largest;
} findings[] = {
    /* one axis; a tensor of 1 MiB */
    {{4, 1, 1}, {1, 1, 1, 512, 512}, "S3 R R", "S3 R R", "", 0, 256 << 10},
    {{4, 1, 1}, {1, 1, 1, 512, 512}, "R R R", "S4 R R", "slice 0", 0, 1 << 20},
    {{4, 1, 1}, {1, 1, 1, 512, 512}, "S3 R R", "R R R", "allgather 0 3", 768 << 10, 1 << 20},
    {{4, 1, 1}, {1, 1, 1, 512, 512}, "S3 R R", "S4 R R", "alltoall 0 4 3", 192 << 10, 256 << 10},
    {{4, 1, 1}, {1, 1, 1, 512, 512}, "P:sum R R", "R R R", "allreduce 0", 1536 << 10, 1 << 20},
    {{4, 1, 1}, {1, 1, 1, 512, 512}, "P:max R R", "S3 R R", "reduce_scatter 0 3", 768 << 10, 1 << 20},
    {{4, 1, 1}, {1, 1, 1, 512, 512}, "R R R", "P:min R R", "partial 0", 0, 1 << 20},
    {{4, 1, 1}, {1, 1, 1, 512, 512}, "S4 R R", "P:sum R R", "partial 0", 0, 1 << 20},
    {{4, 1, 1}, {1, 1, 1, 512, 512}, "S4 R R", "P:min R R", "allgather 0 4, partial 0", 768 << 10, 1 << 20},
    {{4, 1, 1}, {1, 1, 1, 512, 512}, "P:sum R R", "P:min R R", "allreduce 0, partial 0", 1536 << 10, 1 << 20},
    {{4, 1, 1}, {1, 1, 1, 2, 2}, "P:sum R R", "R R R", "allreduce 0", 24, 16},
    /* two axes */
    {{2, 4, 1}, {1, 1, 1, 512, 512}, "S3 S4 R", "R R R", "allgather 0 3, allgather 1 4", 896 << 10, 1 << 20},
    {{2, 4, 1}, {1, 1, 1, 512, 512}, "S3 S3 R", "R R R", "allgather 0,1 3", 896 << 10, 1 << 20},
    {{2, 4, 1}, {1, 1, 1, 512, 512}, "R R R", "S4 S3 R", "slice 0,1", 0, 1 << 20},
    {{2, 4, 1}, {1, 1, 1, 512, 512}, "P:sum P:sum R", "R R R", "allreduce 0,1", 1792 << 10, 1 << 20},
    {{2, 4, 1}, {1, 1, 1, 512, 512}, "P:sum P:sum R", "S4 S4 R", "reduce_scatter 0,1 4", 896 << 10, 1 << 20},
    {{2, 4, 1}, {1, 1, 1, 512, 512}, "P:sum R R", "R S4 R", "slice 1, allreduce 0", 256 << 10, 1 << 20},
    {{2, 4, 1}, {1, 1, 1, 512, 512}, "S3 R R", "R S4 R", "slice 1, allgather 0 3", 128 << 10, 512 << 10},
    {{2, 4, 1}, {1, 1, 1, 512, 512}, "S3 S3 R", "S3 R R", "allgather 1 3", 384 << 10, 512 << 10},
    {{2, 4, 1}, {1, 1, 1, 512, 512}, "S3 S3 R", "R S3 R", "exchange 0,1, allgather 0 3", 256 << 10, 256 << 10},
    {{2, 2, 1}, {1, 1, 1, 512, 512}, "S3 S4 R", "S4 S3 R", "exchange 0,1", 256 << 10, 256 << 10},
    {{2, 2, 1}, {1, 1, 1, 512, 512}, "R S4 R", "S4 R R", "exchange 0,1", 512 << 10, 512 << 10},
    {{2, 2, 1}, {1, 1, 1, 512, 512}, "P:min S4 R", "S4 P:min R", "exchange 0,1", 512 << 10, 512 << 10},
    {{2, 4, 1},
     {1, 1, 1, 512, 512},
     "S3 S4 R",
     "S4 S3 R",
     "alltoall 0 4 3, exchange 0,1, alltoall 1 3 4",
     288 << 10,
     128 << 10},
    {{2, 4, 1},
     {1, 1, 8, 128, 256},
     "S3 S4 R",
     "S4 S3 R",
     "alltoall 0 2 3, alltoall 1 3 4, alltoall 0 4 2",
     224 << 10,
     128 << 10},
    {{2, 4, 1}, {1, 1, 1, 4, 4}, "S3 S4 R", "S4 S3 R", "allgather 0 3, alltoall 1 3 4, slice 0", 20, 16},
    {{2, 1, 2}, {1, 1, 1, 512, 512}, "P:sum S3 R", "R S3 S3", "slice 2, allreduce 0", 512 << 10, 1 << 20},
    /* three axes */
    {{2, 2, 2}, {1, 1, 1, 512, 512}, "P:sum P:sum P:sum", "R R R", "allreduce 0,1,2", 1792 << 10, 1 << 20},
    {{2, 2, 2},
     {1, 1, 1, 512, 512},
     "S3 S4 P:sum",
     "R S4 S4",
     "reduce_scatter 2 4, allgather 0 3",
     256 << 10,
     256 << 10},
};

static void print_route(const struct tu_route *route, char *text, size_t chars) {
  size_t length = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < route->count; i++) {
    const struct tu_reshard_step *s = &route->steps[i];
    const char *comma = " ";
    length += (size_t)snprintf(text + length, chars - length, "%s%s", i ? ", " : "", tu_reshard_names[s->kind]);
    for (unsigned a = 0; a < AXES; a++)
      if (s->axes >> a & 1) {
        length += (size_t)snprintf(text + length, chars - length, "%s%u", comma, a);
        comma = ",";
      }
    bool one = s->kind == TU_RESHARD_ALLGATHER || s->kind == TU_RESHARD_REDUCE_SCATTER;
    if (one) length += (size_t)snprintf(text + length, chars - length, " %u", s->dim);
    if (s->kind == TU_RESHARD_ALLTOALL)
      length += (size_t)snprintf(text + length, chars - length, " %u %u", s->dim, s->out_dim);
  }
}

static void table(void) {
  for (size_t i = 0; i < sizeof findings / sizeof findings[0]; i++) {
    const struct finding *f = &findings[i];
    struct tu_reshard r = {.whole.type = TUTTI_F32};
    memcpy(r.whole.extents, f->extents, sizeof f->extents);
    memcpy(r.whole.shape, f->shape, sizeof f->shape);
    tutti_spread spread[AXES];
    read_words(f->from, spread);
    must_read(&r.whole, spread, &r.from);
    read_words(f->to, spread);
    must_read(&r.whole, spread, &r.to);
    struct tu_route route;
    char text[512];
    tu_assert(tu_reshard_find(&r, &route, NULL) == TUTTI_OK);
    print_route(&route, text, sizeof text);
    CHECK(strcmp(text, f->steps) == 0, "%s to %s: '%s', expected '%s'", f->from, f->to, text, f->steps);
    CHECK(route.moved == f->moved, "%s to %s moves %zu, expected %zu", f->from, f->to, route.moved, f->moved);
    CHECK(route.largest_bytes == f->largest, "%s to %s: largest %zu, expected %zu", f->from, f->to, route.largest_bytes,
          f->largest);
    tu_route_fini(&route);
  }
  printf("  %zu reshardings\n", sizeof findings / sizeof findings[0]);
}

/* ---- what a step can do, derived from the ranks' boxes (parts of the tensor) ---- */

struct world {
  struct tu_whole whole;
  uint32_t ranks, at[RANKS_MAX][AXES];
  tutti_op op;
  uint32_t count;
  struct tu_distribution states[STATES_MAX];
  struct tu_box boxes[STATES_MAX][RANKS_MAX];
  /* bytes of a rank's part; cost of the cheapest step between two states; SIZE_MAX: no step */
  size_t bytes[STATES_MAX], edges[STATES_MAX][STATES_MAX];
};
static struct world w;

static uint32_t partial_axes(const struct tu_distribution *d) {
  uint32_t axes = 0;
  for (uint32_t a = 0; a < AXES; a++)
    if (d->role[a] == TU_PARTIAL) axes |= 1u << a;
  return axes;
}

static bool same_line(uint32_t x, uint32_t y, uint32_t axes) {
  for (uint32_t a = 0; a < AXES; a++)
    if (!(axes >> a & 1) && w.at[x][a] != w.at[y][a]) return false;
  return true;
}

static uint32_t find_line(uint32_t rank, uint32_t axes, uint32_t line[RANKS_MAX], uint32_t *own) {
  uint32_t count = 0;
  for (uint32_t r = 0; r < w.ranks; r++) {
    if (!same_line(r, rank, axes)) continue;
    if (r == rank) *own = count;
    line[count++] = r;
  }
  return count;
}

/* Returns true if `piece` is piece k of `count` equal pieces of `box` along dim. */
static bool is_piece(const struct tu_box *piece, const struct tu_box *box, uint32_t dim, uint32_t k, uint32_t count) {
  struct tu_box p = *box;
  if (box->extent[dim] % count != 0) return false;
  p.extent[dim] /= count;
  p.origin[dim] += k * p.extent[dim];
  return memcmp(&p, piece, sizeof p) == 0;
}

static bool is_equal(const struct tu_box *a, const struct tu_box *b) { return memcmp(a, b, sizeof *a) == 0; }

static bool is_inside(const struct tu_box *a, const struct tu_box *b) {
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (a->origin[d] < b->origin[d] || a->origin[d] + a->extent[d] > b->origin[d] + b->extent[d]) return false;
  return true;
}

static size_t volume(const struct tu_box *b) {
  size_t v = 1;
  for (int d = 0; d < TUTTI_DIMS; d++) v *= b->extent[d];
  return v;
}

/* Returns true if a step of this kind over these axes and dimensions can turn the boxes x of all ranks into the boxes
 * y. */
static bool is_step(enum tu_reshard_kind kind, const struct tu_box *x, const struct tu_box *y, uint32_t axes,
                    uint32_t dim, uint32_t out_dim) {
  for (uint32_t r = 0; r < w.ranks; r++) {
    uint32_t line[RANKS_MAX], own = 0, n = find_line(r, axes, line, &own);
    size_t filled = 0;
    for (uint32_t k = 0; k < n; k++) {
      const struct tu_box *other = &x[line[k]];
      bool seen = false;
      for (uint32_t i = 0; i < k; i++) seen |= is_equal(&x[line[i]], other);
      if (!seen) filled += is_inside(other, &y[r]) ? volume(other) : SIZE_MAX / RANKS_MAX;
      if (kind == TU_RESHARD_ALLGATHER && !is_piece(other, &y[r], dim, k, n)) return false;
      if (kind == TU_RESHARD_ALLTOALL) { /* the part that one rank sends another is a piece of the box of each */
        struct tu_box crosses = *other;
        crosses.extent[dim] /= n;
        crosses.origin[dim] += own * crosses.extent[dim];
        if (other->extent[dim] % n != 0 || !is_piece(&crosses, &y[r], out_dim, k, n)) return false;
      }
    }
    if (kind == TU_RESHARD_SLICE && !is_inside(&y[r], &x[r])) return false;
    if (kind == TU_RESHARD_PARTIAL && filled != volume(&y[r])) return false;
    if (kind == TU_RESHARD_ALLREDUCE && !is_equal(&x[r], &y[r])) return false;
    if (kind == TU_RESHARD_REDUCE_SCATTER && !is_piece(&y[r], &x[r], dim, own, n)) return false;
  }
  return true;
}

/* Returns the index of the rank's summand of a partial sum among the ranks of its plane along `axes`. */
static uint32_t summand_of(const struct tu_distribution *d, uint32_t rank, uint32_t axes) {
  uint32_t number = 0;
  for (uint32_t a = 0; a < AXES; a++)
    if (d->role[a] == TU_PARTIAL && axes >> a & 1) number = number * w.whole.extents[a] + w.at[rank][a];
  return number;
}

/* Returns true if, in each plane of these axes, the states x and y consist of the same parts, with the same number of
 * copies of each part. Then each rank can send one part and receive one. */
static bool is_exchange(uint32_t x, uint32_t y, uint32_t axes) {
  for (uint32_t r = 0; r < w.ranks; r++) {
    uint32_t line[RANKS_MAX], own, n = find_line(r, axes, line, &own), wanted = 0, there = 0;
    for (uint32_t k = 0; k < n; k++) {
      uint32_t other = line[k], mine = summand_of(&w.states[y], r, axes);
      there += is_equal(&w.boxes[x][other], &w.boxes[y][r]) && summand_of(&w.states[x], other, axes) == mine;
      wanted += is_equal(&w.boxes[y][other], &w.boxes[y][r]) && summand_of(&w.states[y], other, axes) == mine;
    }
    if (there != wanted) return false;
  }
  return true;
}

/* Returns true if the partial axes change as the kind of step requires. */
static bool is_sum_step(enum tu_reshard_kind kind, uint32_t before, uint32_t after, uint32_t axes) {
  if (kind == TU_RESHARD_PARTIAL) return (before & axes) == 0 && after == (before | axes);
  if (kind == TU_RESHARD_ALLREDUCE || kind == TU_RESHARD_REDUCE_SCATTER)
    return (before & axes) == axes && after == (before & ~axes);
  if (kind == TU_RESHARD_EXCHANGE) return (before & ~axes) == (after & ~axes);
  return before == after;
}

static size_t cost_of(enum tu_reshard_kind kind, size_t before, size_t after, size_t ranks) {
  switch (kind) {
    case TU_RESHARD_ALLGATHER: return TU_RESHARD_COLLECTIVE_BYTES + after - before;
    case TU_RESHARD_ALLREDUCE: return TU_RESHARD_COLLECTIVE_BYTES + 2 * (before - before / ranks);
    case TU_RESHARD_REDUCE_SCATTER:
    case TU_RESHARD_ALLTOALL: return TU_RESHARD_COLLECTIVE_BYTES + before - before / ranks;
    case TU_RESHARD_EXCHANGE: return TU_RESHARD_COLLECTIVE_BYTES + before;
    default: return 0;
  }
}

static size_t line_length(uint32_t axes) {
  size_t n = 1;
  for (uint32_t a = 0; a < AXES; a++)
    if (axes >> a & 1) n *= w.whole.extents[a];
  return n;
}

/* Returns the cost of the cheapest step from state x to state y (distributions). */
static size_t find_edge(uint32_t x, uint32_t y) {
  size_t best = SIZE_MAX;
  uint32_t before = partial_axes(&w.states[x]), after = partial_axes(&w.states[y]);
  for (int k = 0; k < TU_RESHARD_KINDS; k++)
    for (uint32_t axes = 1; axes < 1u << AXES; axes++) {
      enum tu_reshard_kind kind = (enum tu_reshard_kind)k;
      bool cuts = kind == TU_RESHARD_ALLGATHER || kind == TU_RESHARD_REDUCE_SCATTER || kind == TU_RESHARD_ALLTOALL;
      bool joins = kind == TU_RESHARD_ALLTOALL, possible = false;
      if (line_length(axes) == 1 || !is_sum_step(kind, before, after, axes)) continue;
      if (kind == TU_RESHARD_PARTIAL && w.op != TUTTI_SUM && w.bytes[x] != w.bytes[y]) continue;
      size_t cost = cost_of(kind, w.bytes[x], w.bytes[y], line_length(axes));
      if (cost >= best) continue;
      if (kind == TU_RESHARD_EXCHANGE) {
        if (is_exchange(x, y, axes)) best = cost;
        continue;
      }
      for (uint32_t dim = 0; dim < (cuts ? TUTTI_DIMS : 1u) && !possible; dim++)
        for (uint32_t out_dim = 0; out_dim < (joins ? TUTTI_DIMS : 1u) && !possible; out_dim++)
          possible = is_step(kind, w.boxes[x], w.boxes[y], axes, dim, out_dim);
      if (possible) best = cost;
    }
  return best;
}

/* ---- all distributions of a mesh, with every order of the axes that partition a dimension ---- */

static void add_state(struct tu_distribution d) {
  tu_assert(w.count < STATES_MAX);
  uint32_t i = w.count++;
  if (partial_axes(&d)) d.op = (uint8_t)w.op;
  w.states[i] = d;
  w.bytes[i] = tu_distribution_bytes(&w.whole, &d);
  for (uint32_t r = 0; r < w.ranks; r++) w.boxes[i][r] = tu_distribution_box(&w.whole, &d, w.at[r]);
}

/* Returns true if the axes that partition a dimension have different levels: 0, 1, ... */
static bool has_levels(const struct tu_distribution *d) {
  for (uint32_t a = 0; a < AXES; a++) {
    uint32_t cuts = 0, equal = 0;
    for (uint32_t b = 0; b < AXES; b++) {
      cuts += d->role[b] == d->role[a];
      equal += d->role[b] == d->role[a] && d->level[b] == d->level[a];
    }
    if (d->role[a] >= TUTTI_DIMS ? d->level[a] != 0 : d->level[a] >= cuts || equal != 1) return false;
  }
  return true;
}

static void add_states(void) {
  uint32_t roles = 1, levels = 27;
  for (int a = 0; a < AXES; a++) roles *= TU_ROLES;
  w.count = 0;
  for (uint32_t code = 0; code < roles * levels; code++) {
    struct tu_distribution d = {.role = {0}};
    uint32_t rest = code;
    bool good = true;
    for (uint32_t a = 0; a < AXES; a++) {
      d.role[a] = (uint8_t)(rest % TU_ROLES);
      rest /= TU_ROLES;
      d.level[a] = (uint8_t)(rest % 3);
      rest /= 3;
      good = good && (w.whole.extents[a] > 1 || d.role[a] == TU_REPLICATED);
      good = good && (d.role[a] >= TUTTI_DIMS || w.whole.shape[d.role[a]] > 1);
    }
    if (!good || !has_levels(&d)) continue;
    for (uint32_t dim = 0; dim < TUTTI_DIMS; dim++)
      good = good && tu_whole_divides(&w.whole, dim, tu_distribution_pieces(&w.whole, &d, dim));
    if (good) add_state(d);
  }
}

/* Returns the least cost of a sequence of steps with parts of at most `largest` bytes; SIZE_MAX if there is none.
 * Partial sums are made only for axes that are partial in the end. */
static size_t least_cost(uint32_t from, uint32_t to, size_t largest) {
  size_t cost[STATES_MAX];
  bool settled[STATES_MAX] = {false};
  uint32_t wanted = partial_axes(&w.states[to]);
  for (uint32_t i = 0; i < w.count; i++) cost[i] = SIZE_MAX;
  cost[from] = 0;
  for (;;) {
    uint32_t best = w.count;
    for (uint32_t i = 0; i < w.count; i++)
      if (!settled[i] && cost[i] != SIZE_MAX && (best == w.count || cost[i] < cost[best])) best = i;
    if (best == w.count || best == to) return cost[to];
    settled[best] = true;
    for (uint32_t i = 0; i < w.count; i++) {
      uint32_t new_sums = partial_axes(&w.states[i]) & ~partial_axes(&w.states[best]);
      if (w.edges[best][i] == SIZE_MAX || w.bytes[i] > largest || (new_sums & ~wanted)) continue;
      if (cost[best] + w.edges[best][i] < cost[i]) cost[i] = cost[best] + w.edges[best][i];
    }
  }
}

static uint32_t find_state(const struct tu_distribution *d) {
  uint32_t i = 0;
  while (i < w.count && !tu_distribution_equal(&w.states[i], d)) i++;
  return i;
}

/* Returns true if each rank receives from a rank that holds what it needs, and no two ranks receive from the same
 * rank. */
static bool is_held(const struct tu_reshard_step *s, uint32_t x, uint32_t y) {
  uint32_t users[RANKS_MAX] = {0};
  for (uint32_t r = 0; r < w.ranks; r++) {
    uint32_t at[AXES], holder, back[AXES];
    tu_reshard_source(&w.whole, s, &w.states[x], w.at[r], at);
    holder = (at[0] * w.whole.extents[1] + at[1]) * w.whole.extents[2] + at[2];
    tu_reshard_target(&w.whole, s, &w.states[x], at, back);
    if (users[holder]++ > 0 || memcmp(back, w.at[r], sizeof back) != 0 || !same_line(r, holder, s->axes)) return false;
    if (!is_equal(&w.boxes[x][holder], &w.boxes[y][r])) return false;
    if (summand_of(&w.states[x], holder, s->axes) != summand_of(&w.states[y], r, s->axes)) return false;
  }
  return true;
}

/* Checks that each step is valid for its kind, and that the totals of the route are the sums over its steps. */
static void check_steps(const struct tu_reshard *r, const struct tu_route *route, const char *what) {
  uint32_t x = find_state(&r->from), axes = 0;
  size_t moved = 0, largest = w.bytes[x];
  for (uint32_t i = 0; i < route->count; i++) {
    const struct tu_reshard_step *s = &route->steps[i];
    uint32_t y = find_state(&s->after);
    size_t cost = y < w.count ? cost_of(s->kind, w.bytes[x], w.bytes[y], line_length(s->axes)) : 0;
    bool good = y < w.count && is_step(s->kind, w.boxes[x], w.boxes[y], s->axes, s->dim, s->out_dim) &&
                is_sum_step(s->kind, partial_axes(&w.states[x]), partial_axes(&w.states[y]), s->axes);
    if (s->kind == TU_RESHARD_EXCHANGE) good = good && is_exchange(x, y, s->axes) && is_held(s, x, y);
    CHECK(good, "%s: step %u is wrong", what, i);
    if (!good) return;
    CHECK(s->part_bytes == w.bytes[y], "%s: step %u: a part of %zu, not %zu", what, i, w.bytes[y], s->part_bytes);
    if (!tu_reshard_is_local(s->kind)) {
      CHECK(s->moved + TU_RESHARD_COLLECTIVE_BYTES == cost, "%s: step %u moves %zu", what, i, s->moved);
      axes |= s->axes;
    }
    moved += s->moved;
    if (s->part_bytes > largest) largest = s->part_bytes;
    x = y;
  }
  CHECK(tu_distribution_equal(&w.states[x], &r->to), "%s: does not end where it should", what);
  CHECK(moved == route->moved && largest == route->largest_bytes && axes == route->axes, "%s: sums", what);
}

/* Checks what the search guarantees: first the largest part is as small as possible, then the cost. Returns true if the
 * route has a larger part between its ends than at its ends. */
static bool check_pair(uint32_t from, uint32_t to) {
  const struct tu_reshard r = {.whole = w.whole, .from = w.states[from], .to = w.states[to]};
  struct tu_route route;
  char what[160], before[TU_DISTRIBUTION_CHARS], after[TU_DISTRIBUTION_CHARS];
  tu_distribution_print(&r.from, AXES, TUTTI_DIMS, before);
  tu_distribution_print(&r.to, AXES, TUTTI_DIMS, after);
  snprintf(what, sizeof what, "%ux%ux%u: %s to %s", w.whole.extents[0], w.whole.extents[1], w.whole.extents[2], before,
           after);
  tu_assert(tu_reshard_find(&r, &route, NULL) == TUTTI_OK);
  check_steps(&r, &route, what);
  size_t cost = 0, least = SIZE_MAX, ends = w.bytes[from] > w.bytes[to] ? w.bytes[from] : w.bytes[to];
  for (uint32_t i = 0; i < route.count; i++)
    cost += route.steps[i].moved + (tu_reshard_is_local(route.steps[i].kind) ? 0 : TU_RESHARD_COLLECTIVE_BYTES);
  size_t largest = ends;
  while ((least = least_cost(from, to, largest)) == SIZE_MAX) {
    size_t next = SIZE_MAX;
    for (uint32_t i = 0; i < w.count; i++)
      if (w.bytes[i] > largest && w.bytes[i] < next) next = w.bytes[i];
    tu_assert(next != SIZE_MAX);
    largest = next;
  }
  CHECK(cost == least, "%s: costs %zu, and %zu is possible", what, cost, least);
  CHECK(route.largest_bytes <= largest, "%s: a part of %zu, and %zu is possible", what, route.largest_bytes, largest);
  tu_route_fini(&route);
  return largest > ends;
}

/* Returns true for distributions that users can give: the axes that partition a dimension are in axis order. */
static bool is_users(const struct tu_distribution *d) {
  for (uint32_t a = 0; a < AXES; a++)
    for (uint32_t b = 0; b < a; b++)
      if (d->role[a] < TUTTI_DIMS && d->role[a] == d->role[b] && d->level[a] < d->level[b]) return false;
  return true;
}

static uint32_t check_world(const uint32_t extents[AXES], const size_t shape[TUTTI_DIMS], tutti_op op,
                            uint32_t *larger) {
  uint32_t pairs = 0;
  w.whole = (struct tu_whole){.type = TUTTI_I32};
  memcpy(w.whole.extents, extents, sizeof w.whole.extents);
  memcpy(w.whole.shape, shape, sizeof w.whole.shape);
  w.ranks = extents[0] * extents[1] * extents[2];
  w.op = op;
  for (uint32_t r = 0; r < w.ranks; r++) {
    w.at[r][2] = r % extents[2];
    w.at[r][1] = r / extents[2] % extents[1];
    w.at[r][0] = r / extents[2] / extents[1];
  }
  add_states();
  for (uint32_t x = 0; x < w.count; x++)
    for (uint32_t y = 0; y < w.count; y++) w.edges[x][y] = x == y ? SIZE_MAX : find_edge(x, y);
  for (uint32_t x = 0; x < w.count; x++)
    for (uint32_t y = 0; y < w.count; y++)
      if (is_users(&w.states[x]) && is_users(&w.states[y])) {
        *larger += check_pair(x, y);
        pairs++;
      }
  return pairs;
}

static void least(void) {
  static const struct {
    uint32_t extents[AXES];
    size_t shape[TUTTI_DIMS];
    tutti_op op;
    uint32_t pairs;
  } worlds[] = {
      {{2, 1, 1}, {2, 4, 6, 8, 10}, TUTTI_SUM, 7 * 7},       {{1, 4, 1}, {4, 4, 4, 4, 4}, TUTTI_MAX, 7 * 7},
      {{2, 2, 1}, {4, 4, 4, 4, 4}, TUTTI_SUM, 49 * 49},      {{2, 3, 1}, {1, 6, 12, 1, 18}, TUTTI_SUM, 25 * 25},
      {{2, 3, 1}, {1, 6, 12, 1, 18}, TUTTI_MIN, 25 * 25},    {{2, 4, 1}, {1, 1, 1, 4096, 8192}, TUTTI_SUM, 16 * 16},
      {{2, 4, 1}, {1, 1, 1, 4, 4}, TUTTI_SUM, 14 * 14},      {{2, 1, 3}, {1, 1, 6, 6, 6}, TUTTI_SUM, 25 * 25},
      {{2, 2, 2}, {1, 1, 1, 8, 8}, TUTTI_SUM, 64 * 64},      {{2, 2, 2}, {1, 1, 1, 4096, 4096}, TUTTI_MIN, 64 * 64},
      {{2, 3, 2}, {1, 1, 1, 1200, 120}, TUTTI_SUM, 64 * 64}, {{2, 2, 2}, {1, 1, 2, 4, 4}, TUTTI_SUM, 110 * 110},
  };
  uint32_t all = 0, larger = 0;
  for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
    uint32_t pairs = check_world(worlds[i].extents, worlds[i].shape, worlds[i].op, &larger);
    CHECK(worlds[i].pairs == pairs, "world %zu: %u pairs, expected %u", i, pairs, worlds[i].pairs);
    all += pairs;
  }
  printf("  %u pairs of distributions, %u of which need larger parts in between\n", all, larger);
  CHECK(larger > 0, "none needs larger parts");
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"table", table}, {"least", least}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
