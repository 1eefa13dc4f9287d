/* mesh_tensor.c: a logical tensor over a mesh: which part of it is whose, and can it be? */
#include <stdio.h>
#include <string.h>

#include "api/mesh.h"
#include "base/types.h"
#include "tensor/map.h"

/* Shape and type of the whole; `shape` has `dims` numbers. */
static tutti_err read_whole(const tutti_mesh *mesh, uint32_t dims, const size_t *shape, tutti_datatype type,
                            struct tu_whole *whole, struct tu_error *error) {
  size_t items = 1;
  if (!mesh) return tu_fail(error, TUTTI_ERR_ARGUMENT, "a mesh tensor needs a mesh; tutti_mesh_create makes one");
  if (dims < 1 || dims > TUTTI_DIMS || !shape)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "a mesh tensor has a shape of 1 to %d dimensions, not of %u", TUTTI_DIMS,
                   shape ? dims : 0);
  if ((unsigned)type >= TUTTI_DATATYPES)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "a mesh tensor's type, %d, is unknown; see tutti_datatype", (int)type);
  *whole = (struct tu_whole){.type = type, .shape = {1, 1, 1, 1, 1}};
  memcpy(whole->extents, mesh->extents, sizeof whole->extents);
  memcpy(whole->shape + TUTTI_DIMS - dims, shape, dims * sizeof *shape);
  for (uint32_t d = 0; d < TUTTI_DIMS; d++)
    if (!tu_multiply(items, tu_max(whole->shape[d], 1), &items) || items > PTRDIFF_MAX / 64)
      return tu_fail(error, TUTTI_ERR_ARGUMENT, "a mesh tensor has more elements than memory");
  return TUTTI_OK;
}

static tutti_err read_distribution(const tutti_mesh *mesh, uint32_t dims, const struct tu_whole *whole,
                                   const tutti_spread *spread, struct tu_distribution *d, struct tu_error *error) {
  if (!spread)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "a mesh tensor needs a tutti_spread for each of the mesh's %u axes",
                   mesh->axes);
  return tu_distribution_read(whole, mesh->axes, dims, spread, d, error);
}

static void print_shape(const size_t *shape, uint32_t dims, char text[128]) {
  size_t length = 0;
  text[0] = '\0';
  for (uint32_t d = 0; d < dims; d++)
    length += (size_t)snprintf(text + length, 128 - length, "%s%zu", d ? "x" : "", shape[d]);
}

/* Is this rank's part what the distribution says? */
static tutti_err check_part(const tutti_mesh *mesh, const struct tu_whole *whole, const struct tu_distribution *d,
                            const tutti_tensor *local, struct tu_error *error) {
  char is[128], wanted[128];
  size_t bytes;
  struct tu_box box = tu_distribution_box(whole, d, mesh->at);
  tutti_err err = tu_map_measure(local, &bytes, error);
  if (err != TUTTI_OK) return err;
  if (local->type != whole->type)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "this rank's part is of %s, the whole of %s",
                   tutti_datatype_name(local->type), tutti_datatype_name(whole->type));
  if (memcmp(box.extent, local->shape, sizeof box.extent) == 0) return TUTTI_OK;
  print_shape(local->shape, TUTTI_DIMS, is);
  print_shape(box.extent, TUTTI_DIMS, wanted);
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "this rank's part is of shape %s, and has to be %s; see tutti_mesh_part",
                 is, wanted);
}

tutti_err tu_mesh_tensor_read(const tutti_mesh_tensor *t, const char *name, struct tu_whole *whole,
                              struct tu_distribution *d, struct tu_error *error) {
  struct tu_error why;
  if (!t) return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s is NULL", name);
  const size_t *shape = t->dims <= TUTTI_DIMS ? t->shape + TUTTI_DIMS - t->dims : NULL;
  tutti_err err = read_whole(t->mesh, t->dims, shape, t->local.type, whole, &why);
  if (err == TUTTI_OK) err = read_distribution(t->mesh, t->dims, whole, t->spread, d, &why);
  if (err == TUTTI_OK) err = check_part(t->mesh, whole, d, &t->local, &why);
  return err == TUTTI_OK ? err : tu_fail(error, err, "%s: %.480s", name, why.text);
}

/* ---- making ---- */

tutti_err tutti_mesh_part(const tutti_mesh *mesh, uint32_t rank, tutti_tensor_of of, const tutti_spread *spread,
                          size_t *origin, size_t *shape) {
  struct tu_error error;
  struct tu_whole whole;
  struct tu_distribution d;
  uint32_t at[TUTTI_MESH_AXES] = {0};
  tutti_err err = read_whole(mesh, of.dims, of.shape, of.type, &whole, &error);
  if (err == TUTTI_OK) err = read_distribution(mesh, of.dims, &whole, spread, &d, &error);
  if (err == TUTTI_OK && !tutti_mesh_coordinates(mesh, rank, at))
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_mesh_part: there is no rank %u; the mesh's are 0 to %u", rank,
                  mesh->ranks - 1);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  struct tu_box box = tu_distribution_box(&whole, &d, at);
  if (origin) memcpy(origin, box.origin + TUTTI_DIMS - of.dims, of.dims * sizeof *origin);
  if (shape) memcpy(shape, box.extent + TUTTI_DIMS - of.dims, of.dims * sizeof *shape);
  return TUTTI_OK;
}

tutti_err tutti_mesh_tensor_wrap(tutti_mesh_tensor *tensor, tutti_mesh *mesh, uint32_t dims, const size_t *shape,
                                 const tutti_spread *spread, const tutti_tensor *local) {
  struct tu_error error;
  struct tu_whole whole;
  struct tu_distribution d;
  tutti_err err = TUTTI_OK;
  if (tensor) *tensor = (tutti_mesh_tensor){0};
  if (!tensor || !local)
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "a mesh tensor needs a place to be made in, and this rank's part");
  if (err == TUTTI_OK) err = read_whole(mesh, dims, shape, local->type, &whole, &error);
  if (err == TUTTI_OK) err = read_distribution(mesh, dims, &whole, spread, &d, &error);
  if (err == TUTTI_OK) err = check_part(mesh, &whole, &d, local, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  *tensor = (tutti_mesh_tensor){.mesh = mesh, .dims = dims, .local = *local};
  memcpy(tensor->shape, whole.shape, sizeof tensor->shape);
  memcpy(tensor->spread, spread, mesh->axes * sizeof *spread);
  return TUTTI_OK;
}

tutti_err tutti_mesh_tensor_strided(tutti_mesh_tensor *tensor, tutti_mesh *mesh, tutti_tensor_of of,
                                    const tutti_spread *spread) {
  size_t shape[TUTTI_DIMS];
  tutti_tensor local;
  if (tensor) *tensor = (tutti_mesh_tensor){0};
  tutti_err err = tutti_mesh_part(mesh, mesh ? mesh->rank : 0, of, spread, NULL, shape);
  if (err != TUTTI_OK) return err;
  tutti_tensor_of part = {.data = of.data, .type = of.type, .dims = of.dims, .shape = shape};
  err = tutti_tensor_strided(&local, part, NULL);
  return err != TUTTI_OK ? err : tutti_mesh_tensor_wrap(tensor, mesh, of.dims, of.shape, spread, &local);
}

void tutti_mesh_tensor_print(const tutti_mesh_tensor *tensor, FILE *file) {
  struct tu_error error;
  struct tu_whole whole;
  struct tu_distribution d;
  char shape[128], mesh[128], spread[TU_DISTRIBUTION_CHARS];
  if (tu_mesh_tensor_read(tensor, "mesh tensor", &whole, &d, &error) != TUTTI_OK) {
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
  tutti_tensor_print(&tensor->local, file);
}
