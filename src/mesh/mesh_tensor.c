/* mesh_tensor.c: tensors that are distributed over a mesh: finds which part of a tensor each rank holds, and checks
 * that a distribution is possible. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/sized.h"
#include "base/types.h"
#include "comm/failure.h"
#include "mesh/mesh.h"
#include "tensor/map.h"

/* Checks mesh, shape and type of the whole tensor, and copies them to *whole. `shape` has `dims` numbers. */
static tutti_err read_whole(const tutti_mesh *mesh, uint32_t dims, const size_t *shape, tutti_datatype type,
                            struct tu_whole *whole, struct tu_error *error) {
  size_t items = 1;
  if (!mesh)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "mesh tensor: mesh is NULL; expected a mesh from tutti_mesh_create");
  if (dims < 1 || dims > TUTTI_DIMS || !shape)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "mesh tensor: expected a shape of 1 to %d dimensions, found %u",
                   TUTTI_DIMS, shape ? dims : 0);
  if (!tu_is_datatype(type))
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "mesh tensor: unknown datatype %d; see tutti_datatype", (int)type);
  *whole = (struct tu_whole){.type = type, .shape = {1, 1, 1, 1, 1}};
  memcpy(whole->extents, mesh->extents, sizeof whole->extents);
  memcpy(whole->shape + TUTTI_DIMS - dims, shape, dims * sizeof *shape);
  for (uint32_t d = 0; d < TUTTI_DIMS; d++)
    if (!tu_multiply(items, tu_max(whole->shape[d], 1), &items) || items > PTRDIFF_MAX / 64)
      return tu_fail(error, TUTTI_ERR_ARGUMENT, "mesh tensor: the shape has more elements than memory can hold");
  return TUTTI_OK;
}

static tutti_err read_distribution(const tutti_mesh *mesh, uint32_t dims, const struct tu_whole *whole,
                                   const tutti_spread *spread, struct tu_distribution *d, struct tu_error *error) {
  if (!spread)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "mesh tensor: spread is NULL; expected a tutti_spread for each of the mesh's %u axes", mesh->axes);
  return tu_distribution_read(whole, mesh->axes, dims, spread, d, error);
}

static void print_shape(const size_t *shape, uint32_t dims, char text[128]) {
  size_t length = 0;
  text[0] = '\0';
  for (uint32_t d = 0; d < dims; d++)
    length += (size_t)snprintf(text + length, 128 - length, "%s%zu", d ? "x" : "", shape[d]);
}

/* Checks that this rank's part has the shape and type that the distribution requires. */
static tutti_err check_part(const tutti_mesh *mesh, const struct tu_whole *whole, const struct tu_distribution *d,
                            const tutti_tensor *local, struct tu_error *error) {
  char is[128], wanted[128];
  size_t bytes;
  struct tu_box box = tu_distribution_box(whole, d, mesh->at);
  tutti_err err = tu_map_measure(local, &bytes, error);
  if (err != TUTTI_OK) return err;
  if (local->type != whole->type)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "mesh tensor: the datatypes differ: this rank's part is %s, the whole tensor %s",
                   tutti_datatype_name(local->type), tutti_datatype_name(whole->type));
  if (memcmp(box.extent, local->shape, sizeof box.extent) == 0) return TUTTI_OK;
  print_shape(local->shape, TUTTI_DIMS, is);
  print_shape(box.extent, TUTTI_DIMS, wanted);
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "mesh tensor: this rank's part has shape %s, expected %s; see tutti_mesh_shard", is, wanted);
}

tutti_err tu_mesh_tensor_read(const tutti_mesh_tensor *t, const char *name, struct tu_whole *whole,
                              struct tu_distribution *d, tutti_tensor *local, struct tu_error *error) {
  struct tu_error why;
  if (!t) return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s is NULL", name);
  const size_t *shape = t->dims <= TUTTI_DIMS ? t->shape + TUTTI_DIMS - t->dims : NULL;
  tutti_err err = read_whole(t->mesh, t->dims, shape, t->local.type, whole, &why);
  if (err == TUTTI_OK) err = read_distribution(t->mesh, t->dims, whole, t->spread, d, &why);
  if (err == TUTTI_OK) err = tu_tensor_take(&t->local, "local", local, &why);
  if (err == TUTTI_OK) err = check_part(t->mesh, whole, d, local, &why);
  return err == TUTTI_OK ? err : tu_fail(error, err, "%s: %.480s", name, why.text);
}

/* ---- creation ---- */

tutti_err tutti_mesh_shard(const tutti_mesh *mesh, uint32_t rank, tutti_tensor_of of, const tutti_spread *spread,
                           size_t *origin, size_t *shape) {
  struct tu_error error;
  struct tu_whole whole;
  struct tu_distribution d;
  uint32_t at[TUTTI_MESH_AXES] = {0};
  tutti_err err = read_whole(mesh, of.dims, of.shape, of.type, &whole, &error);
  if (err == TUTTI_OK) err = read_distribution(mesh, of.dims, &whole, spread, &d, &error);
  if (err == TUTTI_OK && !tutti_mesh_coordinates(mesh, rank, at))
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_mesh_shard: invalid rank %u; expected 0 to %u", rank,
                  mesh->ranks - 1);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  struct tu_box box = tu_distribution_box(&whole, &d, at);
  if (origin) memcpy(origin, box.origin + TUTTI_DIMS - of.dims, of.dims * sizeof *origin);
  if (shape) memcpy(shape, box.extent + TUTTI_DIMS - of.dims, of.dims * sizeof *shape);
  return TUTTI_OK;
}

/* Copies *made to the caller's mesh tensor *theirs; made NULL: sets *theirs to zeros. The field `local` of *theirs has
 * local_bytes bytes, which depends on the headers of the program. */
static void give(const tutti_mesh_tensor *made, tutti_mesh_tensor *theirs, size_t local_bytes) {
  const tutti_mesh_tensor zeros = {0};
  if (!made) made = &zeros;
  memcpy(theirs, made, offsetof(tutti_mesh_tensor, local));
  tu_sized_give(&tu_sized_tensor, &made->local, &theirs->local, local_bytes);
  if (made != &zeros) theirs->local.struct_bytes = (uint32_t)local_bytes;
}

static tutti_err wrap(tutti_mesh_tensor *tensor, size_t local_bytes, tutti_mesh *mesh, uint32_t dims,
                      const size_t *shape, const tutti_spread *spread, const tutti_tensor *local) {
  struct tu_error error;
  struct tu_whole whole;
  struct tu_distribution d;
  tutti_err err = read_whole(mesh, dims, shape, local->type, &whole, &error);
  if (err == TUTTI_OK) err = read_distribution(mesh, dims, &whole, spread, &d, &error);
  if (err == TUTTI_OK) err = check_part(mesh, &whole, &d, local, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  tutti_mesh_tensor made = {.mesh = mesh, .dims = dims, .local = *local};
  memcpy(made.shape, whole.shape, sizeof made.shape);
  memcpy(made.spread, spread, mesh->axes * sizeof *spread);
  give(&made, tensor, local_bytes);
  return TUTTI_OK;
}

tutti_err tutti_mesh_tensor_wrap_sized(tutti_mesh_tensor *tensor, size_t local_bytes, tutti_mesh *mesh, uint32_t dims,
                                       const size_t *shape, const tutti_spread *spread, const tutti_tensor *local) {
  static const char name[] = "tutti_mesh_tensor_wrap";
  struct tu_error error;
  tutti_tensor copy; /* a copy, because `local` may point into *tensor */
  if (!tensor || !local) return tu_refuse_null(name, tensor ? "local" : "tensor");
  tutti_err err = tu_sized_check(&tu_sized_tensor, local_bytes, name, &error);
  if (err == TUTTI_OK) err = tu_tensor_take(local, "tutti_mesh_tensor_wrap: local", &copy, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  give(NULL, tensor, local_bytes);
  return wrap(tensor, local_bytes, mesh, dims, shape, spread, &copy);
}

tutti_err tutti_mesh_tensor_strided_sized(tutti_mesh_tensor *tensor, size_t local_bytes, tutti_mesh *mesh,
                                          tutti_tensor_of of, const tutti_spread *spread) {
  size_t shape[TUTTI_DIMS];
  tutti_tensor local;
  struct tu_error error;
  if (!tensor) return tu_refuse_null("tutti_mesh_tensor_strided", "tensor");
  if (tu_sized_check(&tu_sized_tensor, local_bytes, "tutti_mesh_tensor_strided", &error) != TUTTI_OK)
    return tu_thread_error(&error);
  give(NULL, tensor, local_bytes);
  tutti_err err = tutti_mesh_shard(mesh, mesh ? mesh->rank : 0, of, spread, NULL, shape);
  if (err != TUTTI_OK) return err;
  tutti_tensor_of part = {.data = of.data, .type = of.type, .dims = of.dims, .shape = shape};
  err = tutti_tensor_strided(&local, part, NULL);
  return err != TUTTI_OK ? err : wrap(tensor, local_bytes, mesh, of.dims, of.shape, spread, &local);
}

void tutti_mesh_tensor_print(const tutti_mesh_tensor *tensor, FILE *file) {
  struct tu_error error;
  struct tu_whole whole;
  struct tu_distribution d;
  char shape[128], mesh[128], spread[TU_DISTRIBUTION_CHARS];
  tutti_tensor local;
  if (tu_mesh_tensor_read(tensor, "mesh tensor", &whole, &d, &local, &error) != TUTTI_OK) {
    fprintf(file, "%s\n", error.text);
    return;
  }
  size_t extents[TUTTI_MESH_AXES];
  for (uint32_t a = 0; a < TUTTI_MESH_AXES; a++) extents[a] = tensor->mesh->extents[a];
  print_shape(tensor->shape + TUTTI_DIMS - tensor->dims, tensor->dims, shape);
  print_shape(extents, tensor->mesh->axes, mesh);
  tu_distribution_print(&d, tensor->mesh->axes, tensor->dims, spread);
  fprintf(file, "%s %s over a mesh of %s, %s; rank %u: ", tutti_datatype_name(whole.type), shape, mesh, spread,
          tensor->mesh->rank);
  tutti_tensor_print(&local, file);
}
