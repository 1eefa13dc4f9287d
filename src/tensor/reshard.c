/* reshard.c: searches for the cheapest steps from one distribution to another. */
#include "tensor/reshard.h"

#include <string.h>

enum { AXES = TUTTI_MESH_AXES, MASKS = 1 << AXES, CODES = 7 * 7 * 7 * 27 * 2 };
_Static_assert(TU_ROLES == 7, "CODES assumes 7 roles of an axis");

const char *const tu_reshard_names[TU_RESHARD_KINDS] = {
    [TU_RESHARD_SLICE] = "slice",         [TU_RESHARD_PARTIAL] = "partial",
    [TU_RESHARD_ALLGATHER] = "allgather", [TU_RESHARD_REDUCE_SCATTER] = "reduce_scatter",
    [TU_RESHARD_ALLREDUCE] = "allreduce", [TU_RESHARD_ALLTOALL] = "alltoall",
    [TU_RESHARD_EXCHANGE] = "exchange",
};

/* A distribution that the search has reached, with the best path found so far. */
struct node {
  struct tu_distribution at;
  struct tu_reshard_step step; /* last step of the path */
  uint32_t before, steps;
  size_t cost, copied;
  bool settled;
};

struct search {
  struct tu_arena arena; /* contains all memory of the search */
  struct tu_route *route;
  const struct tu_reshard *r;
  size_t largest; /* maximum allowed length of a rank's part on the path, in bytes */
  struct node *nodes;
  uint32_t count, capacity;
  uint16_t *index; /* [code of a distribution, see code_of]: index in `nodes`, plus one; 0: not reached yet */
};

static bool has(uint32_t mask, uint32_t axis) { return mask >> axis & 1; }

/* ---- partitions of a dimension ---- */

static bool is_partial(const struct tu_distribution *d) {
  for (uint32_t a = 0; a < AXES; a++)
    if (d->role[a] == TU_PARTIAL) return true;
  return false;
}

/* Returns true if a communicator over these axes has its ranks in the order of the pieces. For that, all axes must have
 * the same role. If they partition a dimension, they must be in axis order, and no other axis may partition the
 * dimension further in. */
static bool go_together(const struct tu_distribution *d, uint32_t axes) {
  uint32_t first = (uint32_t)__builtin_ctz(axes), role = d->role[first], cuts = 0;
  for (uint32_t a = 0; a < AXES; a++) cuts += d->role[a] == role;
  uint32_t level = role < TUTTI_DIMS ? cuts - (uint32_t)__builtin_popcount(axes) : 0;
  for (uint32_t a = 0; a < AXES; a++) {
    if (!has(axes, a)) continue;
    if (d->role[a] != role || d->level[a] != level) return false;
    if (role < TUTTI_DIMS) level++;
  }
  return true;
}

static struct tu_distribution with_role(struct tu_distribution d, uint32_t axes, uint32_t role) {
  for (uint32_t a = 0; a < AXES; a++)
    if (has(axes, a)) d.role[a] = (uint8_t)role, d.level[a] = 0;
  if (!is_partial(&d)) d.op = 0;
  return d;
}

/* Lets the axes (a bit mask) partition dimension `dim` further, as its innermost axes. Returns false if the pieces
 * would not be equal. */
static bool cut_further(const struct tu_whole *whole, struct tu_distribution *d, uint32_t axes, uint32_t dim) {
  uint8_t level = 0;
  *d = with_role(*d, axes, TU_REPLICATED);
  for (uint32_t a = 0; a < AXES; a++)
    if (d->role[a] == dim) level++;
  for (uint32_t a = 0; a < AXES; a++)
    if (has(axes, a)) d->role[a] = (uint8_t)dim, d->level[a] = level++;
  return tu_whole_divides(whole, dim, tu_distribution_pieces(whole, d, dim));
}

/* ---- reaching a distribution ---- */

static uint32_t code_of(const struct search *s, const struct tu_distribution *d) {
  uint32_t code = 0;
  for (uint32_t a = 0; a < AXES; a++) code = (code * TU_ROLES + d->role[a]) * AXES + d->level[a];
  return code * 2 + (d->op != s->r->to.op);
}

static size_t count_moved(const struct tu_whole *whole, const struct tu_reshard_step *step, size_t bytes) {
  size_t ranks = 1;
  for (uint32_t a = 0; a < AXES; a++)
    if (has(step->axes, a)) ranks *= whole->extents[a];
  switch (step->kind) {
    case TU_RESHARD_ALLGATHER: return step->part_bytes - bytes;
    case TU_RESHARD_ALLREDUCE: return 2 * (bytes - bytes / ranks);
    case TU_RESHARD_REDUCE_SCATTER:
    case TU_RESHARD_ALLTOALL: return bytes - bytes / ranks;
    case TU_RESHARD_EXCHANGE: return bytes;
    default: return 0;
  }
}

/* Compares two paths: the lower cost wins, then fewer copied bytes, then fewer steps. */
static bool is_better(const struct node *a, const struct node *b) {
  if (a->cost != b->cost) return a->cost < b->cost;
  if (a->copied != b->copied) return a->copied < b->copied;
  return a->steps < b->steps;
}

static void reach(struct search *s, uint32_t before, struct tu_reshard_step step) {
  const struct tu_whole *whole = &s->r->whole;
  struct node n = {.at = step.after, .before = before, .step = step};
  bool local = tu_reshard_is_local(step.kind);
  n.step.part_bytes = tu_distribution_bytes(whole, &step.after);
  if (n.step.part_bytes > s->largest) return;
  n.step.moved = count_moved(whole, &n.step, tu_distribution_bytes(whole, &s->nodes[before].at));
  n.cost = s->nodes[before].cost + n.step.moved + (local ? 0 : TU_RESHARD_COLLECTIVE_BYTES);
  n.copied = s->nodes[before].copied + (local ? n.step.part_bytes : 0);
  n.steps = s->nodes[before].steps + 1;
  uint16_t *entry = &s->index[code_of(s, &step.after)];
  if (*entry == 0) {
    s->nodes = tu_arena_grow(&s->arena, s->nodes, s->count, &s->capacity, sizeof *s->nodes);
    s->nodes[s->count++] = n;
    *entry = (uint16_t)s->count;
  } else if (!s->nodes[*entry - 1].settled && is_better(&n, &s->nodes[*entry - 1])) {
    s->nodes[*entry - 1] = n;
  }
}

/* ---- steps ---- */

/* Tries steps after which the axes (a bit mask) partition another dimension: each dimension except the one that they
 * partition now. */
static void try_cuts(struct search *s, uint32_t before, uint32_t axes, enum tu_reshard_kind kind) {
  const struct tu_distribution d = s->nodes[before].at;
  uint8_t role = d.role[__builtin_ctz(axes)];
  for (uint8_t dim = 0; dim < TUTTI_DIMS; dim++) {
    struct tu_reshard_step step = {.kind = kind, .axes = (uint8_t)axes, .dim = dim, .out_dim = dim, .after = d};
    if (kind == TU_RESHARD_ALLTOALL) step.out_dim = role;
    if (dim != role && cut_further(&s->r->whole, &step.after, axes, dim)) reach(s, before, step);
  }
}

/* Tries a step to partial sums, but only for axes that are partial in the distribution that the search looks for. */
static void try_partial(struct search *s, uint32_t before, uint32_t axes) {
  const struct tu_distribution *d = &s->nodes[before].at, *to = &s->r->to;
  bool cut = d->role[__builtin_ctz(axes)] < TUTTI_DIMS;
  for (uint32_t a = 0; a < AXES; a++)
    if (has(axes, a) && to->role[a] != TU_PARTIAL) return;
  if ((is_partial(d) && d->op != to->op) || (cut && to->op != TUTTI_SUM)) return;
  struct tu_reshard_step step = {.kind = TU_RESHARD_PARTIAL, .axes = (uint8_t)axes};
  step.after = with_role(*d, axes, TU_PARTIAL);
  step.after.op = to->op;
  reach(s, before, step);
}

static void try_axes(struct search *s, uint32_t before, uint32_t axes) {
  const struct tu_distribution d = s->nodes[before].at;
  uint8_t role = d.role[__builtin_ctz(axes)];
  struct tu_reshard_step step = {.axes = (uint8_t)axes, .dim = role, .out_dim = role};
  if (!go_together(&d, axes)) return;
  step.after = with_role(d, axes, TU_REPLICATED);
  if (role == TU_REPLICATED) {
    try_cuts(s, before, axes, TU_RESHARD_SLICE);
  } else if (role == TU_PARTIAL) {
    step.kind = TU_RESHARD_ALLREDUCE;
    step.dim = step.out_dim = 0;
    reach(s, before, step);
    try_cuts(s, before, axes, TU_RESHARD_REDUCE_SCATTER);
  } else {
    step.kind = TU_RESHARD_ALLGATHER;
    reach(s, before, step);
    try_cuts(s, before, axes, TU_RESHARD_ALLTOALL);
  }
  if (role != TU_PARTIAL) try_partial(s, before, axes);
}

/* Tries an exchange, where each axis adopts the role of another axis. The number of pieces of every dimension must not
 * change. The roles replicated and partial can only move to an axis of the same length, because each coordinate of such
 * an axis has one copy, or one summand. */
static void try_exchange(struct search *s, uint32_t before, const uint8_t from_axes[AXES]) {
  const struct tu_whole *whole = &s->r->whole;
  const struct tu_distribution d = s->nodes[before].at;
  struct tu_reshard_step step = {.kind = TU_RESHARD_EXCHANGE, .after = d};
  memcpy(step.from_axes, from_axes, sizeof step.from_axes);
  for (uint32_t a = 0; a < AXES; a++) {
    if (d.role[from_axes[a]] >= TUTTI_DIMS && whole->extents[from_axes[a]] != whole->extents[a]) return;
    step.after.role[a] = d.role[from_axes[a]];
    step.after.level[a] = d.level[from_axes[a]];
    if (whole->extents[a] > 1 && (from_axes[a] != a || d.role[a] < TUTTI_DIMS)) step.axes |= (uint8_t)(1u << a);
  }
  for (uint32_t dim = 0; dim < TUTTI_DIMS; dim++)
    if (tu_distribution_pieces(whole, &d, dim) != tu_distribution_pieces(whole, &step.after, dim)) return;
  if (!tu_distribution_equal(&d, &step.after)) reach(s, before, step);
}

void tu_reshard_source(const struct tu_whole *whole, const struct tu_reshard_step *step,
                       const struct tu_distribution *before, const uint32_t at[AXES], uint32_t source[AXES]) {
  for (uint32_t a = 0; a < AXES; a++) source[step->from_axes[a]] = at[a];
  tu_distribution_find(whole, before, &step->after, at, source);
}

void tu_reshard_target(const struct tu_whole *whole, const struct tu_reshard_step *step,
                       const struct tu_distribution *before, const uint32_t at[AXES], uint32_t target[AXES]) {
  for (uint32_t a = 0; a < AXES; a++) target[a] = at[step->from_axes[a]];
  tu_distribution_find(whole, &step->after, before, at, target);
}

static void expand(struct search *s, uint32_t before) {
  static const uint8_t permutations[][AXES] = {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  uint32_t axes_there = 0;
  for (uint32_t a = 0; a < AXES; a++)
    if (s->r->whole.extents[a] > 1) axes_there |= 1u << a;
  for (uint32_t axes = 1; axes < MASKS; axes++)
    if ((axes & axes_there) == axes) try_axes(s, before, axes);
  for (size_t i = 0; i < sizeof permutations / sizeof permutations[0]; i++) try_exchange(s, before, permutations[i]);
}

/* ---- the search ---- */

/* Returns the index in s->nodes of the target distribution; UINT32_MAX: it cannot be reached. */
static uint32_t search(struct search *s) {
  s->nodes = tu_arena_grow(&s->arena, s->nodes, 0, &s->capacity, sizeof *s->nodes);
  s->nodes[0] = (struct node){.at = s->r->from};
  s->count = 1;
  s->index[code_of(s, &s->r->from)] = 1;
  for (;;) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < s->count; i++)
      if (!s->nodes[i].settled && (best == UINT32_MAX || is_better(&s->nodes[i], &s->nodes[best]))) best = i;
    if (best == UINT32_MAX || tu_distribution_equal(&s->nodes[best].at, &s->r->to)) return best;
    s->nodes[best].settled = true;
    expand(s, best);
  }
}

/* Returns the next larger length that a part of the tensor can have, in bytes; the largest part is the whole tensor. */
static size_t larger_part(const struct tu_whole *whole, size_t bytes) {
  static const struct tu_distribution uncut = {.role = {TU_REPLICATED, TU_REPLICATED, TU_REPLICATED}};
  size_t all = tu_distribution_bytes(whole, &uncut), next = all;
  for (uint32_t mask = 0; mask < MASKS; mask++) {
    size_t part = all;
    for (uint32_t a = 0; a < AXES; a++)
      if (has(mask, a)) part /= whole->extents[a];
    if (part > bytes) next = tu_min(next, part);
  }
  return next;
}

/* Appends a step to the route. Successive local steps of one kind become one step. */
static void append(struct tu_route *route, const struct tu_reshard_step *step) {
  struct tu_reshard_step *last = route->count > 0 ? &route->steps[route->count - 1] : NULL;
  if (last && last->kind == step->kind && tu_reshard_is_local(step->kind)) {
    uint8_t axes = last->axes | step->axes;
    *last = *step;
    last->axes = axes;
  } else {
    route->steps[route->count++] = *step;
  }
  route->moved += step->moved;
  if (!tu_reshard_is_local(step->kind)) route->axes |= step->axes;
  route->largest_bytes = tu_max(route->largest_bytes, step->part_bytes);
}

static void collect(struct search *s, uint32_t goal) {
  struct tu_route *route = s->route;
  uint32_t count = s->nodes[goal].steps;
  if (count == 0) return;
  uint32_t *path = tu_arena_allocate(&s->arena, count, sizeof *path);
  route->steps = tu_arena_allocate(&route->arena, count, sizeof *route->steps);
  for (uint32_t i = count, n = goal; i-- > 0; n = s->nodes[n].before) path[i] = n;
  for (uint32_t i = 0; i < count; i++) append(route, &s->nodes[path[i]].step);
}

static tutti_err find(void *argument, struct tu_error *error) {
  struct search *s = argument;
  const struct tu_reshard *r = s->r;
  (void)error;
  s->index = tu_arena_allocate(&s->arena, CODES, sizeof *s->index);
  uint32_t goal;
  while ((goal = search(s)) == UINT32_MAX) {
    size_t larger = larger_part(&r->whole, s->largest);
    /* cannot fail: if each rank may hold the whole tensor, every target distribution can be reached */
    tu_assert(larger > s->largest);
    s->largest = larger;
    memset(s->index, 0, CODES * sizeof *s->index);
  }
  collect(s, goal);
  return TUTTI_OK;
}

tutti_err tu_reshard_find(const struct tu_reshard *r, struct tu_route *route, struct tu_error *error) {
  size_t from = tu_distribution_bytes(&r->whole, &r->from), to = tu_distribution_bytes(&r->whole, &r->to);
  *route = (struct tu_route){.largest_bytes = from};
  struct search s = {.r = r, .route = route, .largest = tu_max(from, to)};
  tutti_err err = tu_arena_build(find, &s, "the search for the steps of a resharding", error);
  tu_arena_fini(&s.arena);
  if (err != TUTTI_OK) tu_route_fini(route);
  return err;
}

void tu_route_fini(struct tu_route *route) {
  tu_arena_fini(&route->arena);
  *route = (struct tu_route){0};
}
