/* tensors.c: the tensors of a call: checks the tensors, and converts them into vectors. */
#include "call/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"

void tu_call_tensors_release(struct tu_call_tensors *t) {
  if (!t || --t->users > 0) return;
  tu_map_destroy(t->in_map);
  tu_map_destroy(t->out_map);
  free(t);
}

/* One tensor of a call: its input or its output. */
struct side {
  const tutti_tensor *tensor; /* copy of the program's tensor; NULL: this rank has no such tensor */
  const char *name;
  bool is_out;
  bool cut; /* true: the tensor is cut into one block per rank */
  int dim;
  struct tu_map *map;
  uint32_t axis;
  size_t block[TUTTI_DIMS]; /* shape of a block, in elements */
};

static tutti_err refuse(struct tu_error *error, tutti_collective c, const char *what) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s of tensors: %s", tu_collectives[c].name, what);
}

static void print_shape(const size_t shape[TUTTI_DIMS], char text[128]) {
  snprintf(text, 128, "%zux%zux%zux%zux%zu", shape[0], shape[1], shape[2], shape[3], shape[4]);
}

/* Makes s->tensor a copy of the program's tensor, or NULL if the program gives none. */
static tutti_err take(tutti_collective c, struct side *s, const tutti_tensor *theirs, tutti_tensor *copy,
                      struct tu_error *error) {
  char what[64];
  if (!theirs) return TUTTI_OK;
  snprintf(what, sizeof what, "%s of tensors: %s", tu_collectives[c].name, s->name);
  s->tensor = copy;
  return tu_tensor_take(theirs, what, copy, error);
}

static tutti_err cut(const struct tutti_comm *comm, tutti_collective c, struct side *s, struct tu_error *error) {
  const tutti_tensor *t = s->tensor;
  tutti_err err = tu_map_create(t, &s->map, error);
  if (err != TUTTI_OK) return err;
  memcpy(s->block, t->shape, sizeof s->block);
  int dims = t->dims ? (int)t->dims : TUTTI_DIMS, dim = s->dim < 0 ? s->dim + dims : s->dim;
  if (dims > TUTTI_DIMS || dim < 0 || dim >= dims)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s of tensors: invalid dim %d; %s has %d dimensions; expected %d to %d",
                   tu_collectives[c].name, s->dim, s->name, dims, -dims, dims - 1);
  s->axis = (uint32_t)(TUTTI_DIMS - dims + dim);
  if (!s->cut) return TUTTI_OK;
  /* group: number of elements that one rank must write together. Several ranks must not write into one group of block
   * floats, because each of them would replace the exponent that the whole group shares. */
  size_t group = s->axis == TUTTI_DIMS - 1 && s->is_out ? tu_item_elements(t->type) : 1;
  if (t->shape[s->axis] % (comm->ranks * group) != 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s of tensors: dimension %d of %s has %zu elements, which cannot be divided among %u ranks%s",
                   tu_collectives[c].name, s->dim, s->name, t->shape[s->axis], comm->ranks,
                   group > 1 ? " in whole groups of 16, as block floats require; use bf16 instead" : "");
  s->block[s->axis] /= comm->ranks;
  return TUTTI_OK;
}

static tutti_err compare(tutti_collective c, const struct side *in, const struct side *out, struct tu_error *error) {
  char a[128], b[128];
  if (in->tensor->type != out->tensor->type)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s of tensors: the datatypes differ: in is %s, out is %s",
                   tu_collectives[c].name, tutti_datatype_name(in->tensor->type),
                   tutti_datatype_name(out->tensor->type));
  if (memcmp(in->block, out->block, sizeof in->block) == 0) return TUTTI_OK;
  print_shape(in->block, a);
  print_shape(out->block, b);
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "%s of tensors: a block of in has shape %s, a block of out %s; expected equal shapes",
                 tu_collectives[c].name, a, b);
}

bool tu_tensors_alike(const tutti_tensor *a, const tutti_tensor *b) {
  const tutti_layout *x = &a->layout, *y = &b->layout;
  return memcmp(a->shape, b->shape, sizeof a->shape) == 0 && x->placement == y->placement &&
         (x->placement != TUTTI_STRIDED || memcmp(a->strides, b->strides, sizeof a->strides) == 0) &&
         x->tiles.rows == y->tiles.rows && x->tiles.cols == y->tiles.cols && x->tiles.face_rows == y->tiles.face_rows &&
         x->tiles.face_cols == y->tiles.face_cols && x->banks == y->banks && x->grid_rows == y->grid_rows &&
         x->grid_cols == y->grid_cols && x->shard_rows == y->shard_rows && x->shard_cols == y->shard_cols &&
         x->column_orientation == y->column_orientation;
}

bool tu_tensor_same(const tutti_tensor *a, const tutti_tensor *b) {
  /* A struct of another size, of a program that was compiled with other headers, never counts as equal. */
  return a->struct_bytes == sizeof *a && b->struct_bytes == sizeof *b && a->data == b->data && a->type == b->type &&
         a->dims == b->dims && tu_tensors_alike(a, b);
}

bool tu_call_tensors_same(const struct tu_call_tensors *a, const struct tu_call_tensors *b) {
  if (!a || !b) return a == b;
  return a->in.type == b->in.type && a->out.type == b->out.type && tu_tensors_alike(&a->in, &b->in) &&
         tu_tensors_alike(&a->out, &b->out) && a->in_fold.dim == b->in_fold.dim && a->out_fold.dim == b->out_fold.dim;
}

static uint64_t hash_layout(const struct side *s, uint64_t seed) {
  const tutti_tensor *t = s->tensor;
  if (!t) return seed * 3 + 1;
  const tutti_layout *l = &t->layout;
  const uint64_t words[] = {
      s->axis,  t->type,      l->placement, l->tiles.rows, l->tiles.cols, l->tiles.face_rows,   l->tiles.face_cols,
      l->banks, l->grid_rows, l->grid_cols, l->shard_rows, l->shard_cols, l->column_orientation};
  seed = tu_hash(t->shape, sizeof t->shape, seed);
  if (l->placement == TUTTI_STRIDED) seed = tu_hash(t->strides, sizeof t->strides, seed);
  return tu_hash(words, sizeof words, seed);
}

static struct tu_region whole(const struct side *s) {
  struct tu_region region = {.map = s->map};
  memcpy(region.extent, tu_map_shape(s->map), sizeof region.extent);
  return region;
}

/* Returns true if both tensors have the same shape and layout. The stride of a dimension of length 1 is ignored. */
static bool lie_alike(const tutti_tensor *a, const tutti_tensor *b) {
  if (tu_tensors_alike(a, b)) return true;
  if (a->layout.placement != TUTTI_STRIDED || b->layout.placement != TUTTI_STRIDED) return false;
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (a->shape[d] != b->shape[d] || (a->shape[d] > 1 && a->strides[d] != b->strides[d])) return false;
  return true;
}

/* Sets *in_place if both tensors are the same memory with the same layout, and are cut into blocks alike. Otherwise the
 * tensors must share no byte, but one tensor may lie in the gaps of the other. */
static tutti_err settle_overlap(tutti_collective c, const struct side *in, const struct side *out, bool *in_place,
                                struct tu_error *error) {
  *in_place = in->tensor->data == out->tensor->data && in->cut == out->cut && in->axis == out->axis &&
              lie_alike(in->tensor, out->tensor);
  if (*in_place) return TUTTI_OK;
  const struct tu_region from = whole(in), to = whole(out);
  bool shared;
  if (!tu_regions_share(&to, out->tensor->data, &from, in->tensor->data, &shared))
    return tu_fail(error, TUTTI_ERR_MEMORY,
                   "%s of tensors: out of memory: cannot check whether in (%zu bytes) and out (%zu bytes) overlap",
                   tu_collectives[c].name, tu_map_extent(in->map), tu_map_extent(out->map));
  if (!shared) return TUTTI_OK;
  return refuse(error, c,
                "in and out overlap; expected separate memory, or in place the same memory, shape and layout");
}

/* Converts a call with tensors into a call with vectors. call->in and call->out are the tensors of this rank; the
 * collective and `dim` determine how the tensors are cut into blocks. */
tutti_err tu_call_of_tensors(const struct tutti_comm *comm, const tutti_call *call, bool has_in, bool has_out,
                             tutti_call *flat, struct tu_call *resolved, bool *in_place, struct tu_error *error) {
  tutti_collective c = call->collective;
  const struct tu_collective *promise = &tu_collectives[c];
  tutti_tensor given_in, given_out;
  struct side in = {.name = "in", .cut = promise->in == TU_EACH, .dim = call->dim};
  struct side out = {.name = "out", .is_out = true, .cut = promise->out == TU_EACH, .dim = call->dim};
  tutti_err err = TUTTI_OK;
  if (has_in) err = take(c, &in, call->in, &given_in, error);
  if (has_out && err == TUTTI_OK) err = take(c, &out, call->out, &given_out, error);
  if (err != TUTTI_OK) return err;
  /* the root of a broadcast may pass one tensor only, which is then both input and output */
  if (c == TUTTI_BROADCAST && has_in && has_out) {
    if (!in.tensor) in.tensor = out.tensor;
    if (!out.tensor) out.tensor = in.tensor;
  }
  if (promise->vector || c == TUTTI_BARRIER) return refuse(error, c, "vector variants and barrier take no tensors");
  if (c == TUTTI_ALLTOALL && call->has_out_dim) out.dim = call->out_dim;
  if ((has_in && !in.tensor) || (has_out && !out.tensor))
    return refuse(error, c, has_in && !in.tensor ? "in is NULL on this rank" : "out is NULL on this rank");
  if (in.tensor) err = cut(comm, c, &in, error);
  if (err == TUTTI_OK && out.tensor) err = cut(comm, c, &out, error);
  if (err == TUTTI_OK && in.tensor && out.tensor) err = compare(c, &in, &out, error);
  *in_place = false;
  if (err == TUTTI_OK && in.tensor && out.tensor) err = settle_overlap(c, &in, &out, in_place, error);
  struct tu_call_tensors *t = err == TUTTI_OK ? tu_try_allocate(1, sizeof *t) : NULL;
  if (err == TUTTI_OK && !t) err = tu_fail_memory(error, sizeof *t, "the tensors of %s", tu_collectives[c].name);
  if (err != TUTTI_OK) {
    tu_map_destroy(in.map);
    tu_map_destroy(out.map);
    return err;
  }
  const struct side *any = in.tensor ? &in : &out;
  *t = (struct tu_call_tensors){.users = 1, .in_map = in.map, .out_map = out.map};
  t->in_fold = (struct tu_fold){.map = in.map, .dim = in.axis, .blocks = in.cut ? comm->ranks : 1};
  t->out_fold = (struct tu_fold){.map = out.map, .dim = out.axis, .blocks = out.cut ? comm->ranks : 1};
  if (in.tensor) t->in = *in.tensor;
  if (out.tensor) t->out = *out.tensor;
  resolved->tensors = t;
  *flat = *call;
  flat->send = in.tensor ? in.tensor->data : NULL;
  flat->recv = out.tensor ? out.tensor->data : NULL;
  flat->count = 0;
  if (any->tensor) {
    const uint64_t axes[] = {any->axis, out.tensor ? out.axis : any->axis};
    const struct tu_fold *fold = in.tensor ? &t->in_fold : &t->out_fold;
    flat->type = any->tensor->type;
    flat->count = tu_fold_block_bytes(fold) / tu_map_item_bytes(fold->map);
    if (!(call->flags & TUTTI_ANY_SHAPE))
      t->facts = tu_hash(any->block, sizeof any->block, tu_hash(axes, sizeof axes, 1)) | 1;
    resolved->signature.tensors = hash_layout(&in, hash_layout(&out, call->flags + 1)) | 1;
  }
  return TUTTI_OK;
}

void tu_call_fold(struct tu_call *resolved, const tutti_call *flat) {
  const struct tu_call_tensors *t = resolved->tensors;
  resolved->in_data = flat->send;
  resolved->out_data = flat->recv;
  if (t->in_map && !tu_fold_is_plain(&t->in_fold)) resolved->in.fold = &t->in_fold;
  if (t->out_map && !tu_fold_is_plain(&t->out_fold)) resolved->out.fold = &t->out_fold;
}
