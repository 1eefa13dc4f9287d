/* distribution.c: checks a user's distribution of a tensor over a mesh of ranks, and finds the part that a rank
 * holds. */
#include "tensor/distribution.h"

#include <stdio.h>
#include <string.h>

#include "base/types.h"

enum { AXES = TUTTI_MESH_AXES };

/* ---- reading a user's distribution ---- */

static tutti_err read_cut(uint32_t axis, uint32_t dims, int said, uint8_t *role, struct tu_error *error) {
  int dim = said < 0 ? said + (int)dims : said;
  if (dim < 0 || dim >= (int)dims)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "mesh axis %u: sharded dimension is %d, but the tensor has %u dimensions; expected %d to %d", axis,
                   said, dims, -(int)dims, (int)dims - 1);
  *role = (uint8_t)(TUTTI_DIMS - (int)dims + dim);
  return TUTTI_OK;
}

static tutti_err read_partial(uint32_t axis, tutti_op op, const tutti_spread *first, struct tu_error *error) {
  if (op != TUTTI_SUM && op != TUTTI_MIN && op != TUTTI_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "mesh axis %u is partial with operation %s; expected sum, min or max",
                   axis, tutti_op_name(op));
  if (first && first->op != op)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "mesh axis %u is partial with %s, but an earlier axis is partial with %s; expected one operation "
                   "for all partial axes",
                   axis, tutti_op_name(op), tutti_op_name(first->op));
  return TUTTI_OK;
}

static tutti_err check_pieces(const struct tu_whole *whole, const struct tu_distribution *d, uint32_t dims,
                              struct tu_error *error) {
  for (uint32_t dim = 0; dim < TUTTI_DIMS; dim++) {
    uint32_t pieces = tu_distribution_pieces(whole, d, dim);
    if (tu_whole_divides(whole, dim, pieces)) continue;
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "dimension %u has %zu elements; the mesh axes that shard it need %u equal pieces%s",
                   dim + dims - TUTTI_DIMS, whole->shape[dim], pieces,
                   tu_item_elements(whole->type) > 1 && dim + 1 == TUTTI_DIMS ? " of whole groups of 16" : "");
  }
  return TUTTI_OK;
}

/* Several axes may partition the same dimension. Numbers these axes (their levels) from 0 in axis order, so that the
 * first axis is the outermost. An axis of one rank partitions nothing and becomes replicated. */
static void normalise(const struct tu_whole *whole, struct tu_distribution *d) {
  uint8_t cuts[TUTTI_DIMS] = {0};
  bool partial = false;
  for (uint32_t a = 0; a < AXES; a++) {
    if (whole->extents[a] == 1) d->role[a] = TU_REPLICATED;
    d->level[a] = d->role[a] < TUTTI_DIMS ? cuts[d->role[a]]++ : 0;
    partial |= d->role[a] == TU_PARTIAL;
  }
  if (!partial) d->op = 0;
}

tutti_err tu_distribution_read(const struct tu_whole *whole, uint32_t axes, uint32_t dims, const tutti_spread *spread,
                               struct tu_distribution *d, struct tu_error *error) {
  const tutti_spread *partial = NULL;
  *d = (struct tu_distribution){.role = {TU_REPLICATED, TU_REPLICATED, TU_REPLICATED}};
  for (uint32_t a = 0; a < axes; a++) {
    const tutti_spread *s = &spread[a];
    tutti_err err = TUTTI_OK;
    switch (s->kind) {
      case TUTTI_REPLICATED: break;
      case TUTTI_SHARDED: err = read_cut(a, dims, s->dim, &d->role[a], error); break;
      case TUTTI_PARTIAL:
        err = read_partial(a, s->op, partial, error);
        partial = s;
        d->role[a] = TU_PARTIAL;
        d->op = (uint8_t)s->op;
        break;
      default:
        err = tu_fail(error, TUTTI_ERR_ARGUMENT, "mesh axis %u: unknown kind %d; expected a tutti_spread_kind", a,
                      (int)s->kind);
    }
    if (err != TUTTI_OK) return err;
  }
  normalise(whole, d);
  return check_pieces(whole, d, dims, error);
}

bool tu_distribution_equal(const struct tu_distribution *a, const struct tu_distribution *b) {
  return memcmp(a->role, b->role, sizeof a->role) == 0 && memcmp(a->level, b->level, sizeof a->level) == 0 &&
         a->op == b->op;
}

/* ---- printing ---- */

static bool in_order(const struct tu_distribution *d, uint8_t role) {
  uint8_t next = 0;
  for (uint32_t a = 0; a < AXES; a++)
    if (d->role[a] == role && d->level[a] != next++) return false;
  return true;
}

void tu_distribution_print(const struct tu_distribution *d, uint32_t axes, uint32_t dims,
                           char text[TU_DISTRIBUTION_CHARS]) {
  size_t length = 0;
  text[0] = '\0';
  for (uint32_t a = 0; a < axes; a++) {
    char token[16] = "R";
    if (d->role[a] == TU_PARTIAL) snprintf(token, sizeof token, "P:%s", tutti_op_name(d->op));
    if (d->role[a] < TUTTI_DIMS) {
      unsigned dim = d->role[a] + dims - TUTTI_DIMS;
      if (in_order(d, d->role[a])) snprintf(token, sizeof token, "S%u", dim);
      else snprintf(token, sizeof token, "S%u.%u", dim, (unsigned)d->level[a]);
    }
    length += (size_t)snprintf(text + length, TU_DISTRIBUTION_CHARS - length, "%s%s", a ? " " : "", token);
  }
}

/* ---- parts of the tensor ---- */

uint32_t tu_distribution_pieces(const struct tu_whole *whole, const struct tu_distribution *d, uint32_t dim) {
  uint32_t pieces = 1;
  for (uint32_t a = 0; a < AXES; a++)
    if (d->role[a] == dim) pieces *= whole->extents[a];
  return pieces;
}

static size_t group_of(const struct tu_whole *whole, uint32_t dim) {
  return dim + 1 == TUTTI_DIMS ? tu_item_elements(whole->type) : 1;
}

bool tu_whole_divides(const struct tu_whole *whole, uint32_t dim, uint32_t pieces) {
  return pieces == 1 || whole->shape[dim] % (pieces * group_of(whole, dim)) == 0;
}

size_t tu_distribution_bytes(const struct tu_whole *whole, const struct tu_distribution *d) {
  size_t bytes = tu_datatypes[whole->type].bytes;
  for (uint32_t dim = 0; dim < TUTTI_DIMS; dim++)
    bytes *= tu_round_up(whole->shape[dim], group_of(whole, dim)) / group_of(whole, dim) /
             tu_distribution_pieces(whole, d, dim);
  return bytes;
}

/* Lists the axes that partition dimension `dim`, the outermost first; returns the number of these axes. */
static uint32_t find_cuts(const struct tu_distribution *d, uint32_t dim, uint32_t cuts[AXES]) {
  uint32_t count = 0;
  for (uint32_t a = 0; a < AXES; a++)
    if (d->role[a] == dim) {
      cuts[d->level[a]] = a;
      count++;
    }
  return count;
}

/* Returns the index of the piece of dimension `dim` that belongs to the rank with the mesh coordinates `at`. */
static uint32_t find_piece(const struct tu_whole *whole, const struct tu_distribution *d, uint32_t dim,
                           const uint32_t at[AXES]) {
  uint32_t cuts[AXES], count = find_cuts(d, dim, cuts), piece = 0;
  for (uint32_t i = 0; i < count; i++) piece = piece * whole->extents[cuts[i]] + at[cuts[i]];
  return piece;
}

struct tu_box tu_distribution_box(const struct tu_whole *whole, const struct tu_distribution *d,
                                  const uint32_t at[AXES]) {
  struct tu_box box;
  for (uint32_t dim = 0; dim < TUTTI_DIMS; dim++) {
    box.extent[dim] = whole->shape[dim] / tu_distribution_pieces(whole, d, dim);
    box.origin[dim] = box.extent[dim] * find_piece(whole, d, dim, at);
  }
  return box;
}

void tu_distribution_find(const struct tu_whole *whole, const struct tu_distribution *has,
                          const struct tu_distribution *wants, const uint32_t at[AXES], uint32_t holder[AXES]) {
  for (uint32_t dim = 0; dim < TUTTI_DIMS; dim++) {
    uint32_t cuts[AXES], count = find_cuts(has, dim, cuts), piece = find_piece(whole, wants, dim, at);
    while (count-- > 0) {
      holder[cuts[count]] = piece % whole->extents[cuts[count]];
      piece /= whole->extents[cuts[count]];
    }
    tu_assert(piece == 0); /* must be 0, because both distributions cut the dimension into equally many pieces */
  }
}
