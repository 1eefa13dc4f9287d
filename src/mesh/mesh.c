/* mesh.c: creates meshes. A mesh arranges the ranks of a communicator in a grid, and has a communicator for every
 * line and every plane of the grid. */
#include "mesh/mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/exchange.h"
#include "comm/enter.h"
#include "comm/failure.h"

enum { AXES = TUTTI_MESH_AXES };

/* ---- coordinates ---- */

uint32_t tutti_mesh_axes(const tutti_mesh *mesh) { return mesh ? mesh->axes : 0; }
uint32_t tutti_mesh_extent(const tutti_mesh *mesh, uint32_t axis) {
  return mesh && axis < mesh->axes ? mesh->extents[axis] : 0;
}

bool tutti_mesh_coordinates(const tutti_mesh *mesh, uint32_t rank, uint32_t *coordinates) {
  if (!mesh || !coordinates || rank >= mesh->ranks) return false;
  for (uint32_t a = mesh->axes; a-- > 0; rank /= mesh->extents[a]) coordinates[a] = rank % mesh->extents[a];
  return true;
}

uint32_t tutti_mesh_rank(const tutti_mesh *mesh, const uint32_t *coordinates) {
  uint32_t rank = 0;
  if (!mesh || !coordinates) return UINT32_MAX;
  for (uint32_t a = 0; a < mesh->axes; a++) {
    if (coordinates[a] >= mesh->extents[a]) return UINT32_MAX;
    rank = rank * mesh->extents[a] + coordinates[a];
  }
  return rank;
}

tutti_comm *tutti_mesh_line(const tutti_mesh *mesh, uint32_t axis) {
  return mesh && axis < mesh->axes ? mesh->lines[1u << axis] : NULL;
}

/* ---- creation ---- */

/* The arguments with which each rank wants to create the mesh. */
struct proposal {
  uint32_t good, axes, extents[AXES];
};

static tutti_err propose(const tutti_comm *comm, uint32_t axes, const uint32_t *extents, struct proposal *p,
                         struct tu_error *error) {
  size_t ranks = 1;
  *p = (struct proposal){.axes = axes, .extents = {1, 1, 1}};
  if (axes < 1 || axes > AXES || !extents)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_mesh_create: expected 1 to %d axes and an extent for each axis%s",
                   AXES, extents ? "" : "; extents is NULL");
  for (uint32_t a = 0; a < axes; a++) {
    p->extents[a] = extents[a];
    if (!tu_multiply(ranks, extents[a], &ranks)) ranks = SIZE_MAX / 2;
  }
  if (ranks != comm->ranks)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_mesh_create: the product of the extents is %zu, but the communicator has %u ranks", ranks,
                   comm->ranks);
  p->good = 1;
  return TUTTI_OK;
}

static void print_extents(const struct proposal *p, char text[48]) {
  size_t length = 0;
  for (uint32_t a = 0; a < p->axes; a++)
    length += (size_t)snprintf(text + length, 48 - length, "%s%u", a ? "x" : "", p->extents[a]);
}

/* Exchanges the proposals of all ranks, and checks that they are equal. If they differ, the call fails on all ranks. */
static tutti_err agree(tutti_comm *comm, const struct proposal *mine, struct tu_error *error) {
  struct proposal *all = tu_try_allocate(comm->ranks, sizeof *all);
  struct tu_error refusal;
  if (!all) { /* out of memory: the other ranks wait for this rank's proposal, so the communicator fails */
    tu_fail_memory(&refusal, comm->ranks * sizeof *all, "tutti_mesh_create on rank %u", comm->rank);
    return tu_fail(error, tu_comm_fail(comm, &refusal), "%s", tutti_error_message(comm));
  }
  tutti_err err = tu_comm_exchange(comm, mine, all, sizeof *mine);
  if (err != TUTTI_OK) err = tu_fail(error, err, "%s", tutti_error_message(comm));
  for (uint32_t r = 0; r < comm->ranks && err == TUTTI_OK; r++) {
    char there[48], here[48];
    if (!all[r].good)
      err = tu_fail(error, TUTTI_ERR_ARGUMENT,
                    "tutti_mesh_create: rank %u refused the call; the error message on that rank says why", r);
    if (!all[r].good || memcmp(&all[r], mine, sizeof *mine) == 0) continue;
    print_extents(&all[r], there);
    print_extents(mine, here);
    err = tu_fail(error, TUTTI_ERR_MISMATCH,
                  "tutti_mesh_create: rank %u creates a mesh of %s, but rank %u creates one of %s", r, there,
                  comm->rank, here);
  }
  free(all);
  return err;
}

/* Returns true if the mesh has a communicator for these axes (a bit mask). */
static bool is_line(const struct tutti_mesh *m, uint32_t axes) {
  if (axes == 0 || axes >= 1u << m->axes) return false;
  return (axes & (axes - 1)) == 0 || (axes & m->long_axes) == axes;
}

/* Returns the color for tutti_comm_split with which this rank joins its communicator for these axes (a bit mask). The
 * color is computed from the rank's coordinates along all other axes, because these coordinates are equal for all ranks
 * of one communicator. */
static int color_of(const struct tutti_mesh *m, uint32_t axes) {
  uint32_t color = 0;
  for (uint32_t a = 0; a < m->axes; a++)
    if (!(axes >> a & 1)) color = color * m->extents[a] + m->at[a];
  return (int)color;
}

/* Creates the communicators of the mesh. A creation may fail on this rank alone, and the other ranks then go on to the
 * next communicator. So this rank creates the remaining ones, too, even after a failure. Finally the ranks exchange
 * their results. */
static tutti_err make_lines(struct tutti_mesh *m, tutti_comm *comm, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  int32_t *all = tu_try_allocate(comm->ranks, sizeof *all);
  struct tu_error refusal;
  if (!all) {
    tu_fail_memory(&refusal, comm->ranks * sizeof *all, "tutti_mesh_create on rank %u", comm->rank);
    return tu_fail(error, tu_comm_fail(comm, &refusal), "%s", tutti_error_message(comm));
  }
  for (uint32_t axes = 0; axes < TU_MESH_LINES; axes++) {
    if (!is_line(m, axes)) continue;
    tutti_err made = tutti_comm_split(comm, color_of(m, axes), (int)m->rank, &m->lines[axes]);
    if (made != TUTTI_OK && err == TUTTI_OK) err = tu_fail(error, made, "%s", tutti_error_message(comm));
  }
  int32_t mine = (int32_t)err;
  tutti_err told = tu_comm_exchange(comm, &mine, all, sizeof mine);
  if (told != TUTTI_OK && err == TUTTI_OK) err = tu_fail(error, told, "%s", tutti_error_message(comm));
  for (uint32_t r = 0; r < comm->ranks && err == TUTTI_OK; r++)
    if (all[r] != TUTTI_OK)
      err = tu_fail(error, (tutti_err)all[r], "tutti_mesh_create: rank %u could not create its communicators", r);
  free(all);
  return err;
}

static tutti_err create(tutti_comm *comm, uint32_t axes, const uint32_t *extents, tutti_mesh **mesh) {
  struct tu_error error;
  struct proposal p;
  tutti_err refused = propose(comm, axes, extents, &p, &error);
  tutti_err err = agree(comm, &p, refused == TUTTI_OK ? &error : NULL);
  if (refused != TUTTI_OK || err != TUTTI_OK) return tu_thread_error(&error);
  struct tutti_mesh *m = tu_try_allocate(1, sizeof *m);
  if (!m) {
    tu_fail_memory(&error, sizeof *m, "tutti_mesh_create on rank %u", comm->rank);
    return tu_comm_fail(comm, &error);
  }
  *m = (struct tutti_mesh){.axes = axes, .rank = comm->rank, .ranks = comm->ranks};
  for (uint32_t a = 0; a < AXES; a++) {
    tu_assert(p.extents[a] > 0); /* no extent is 0, because the product of the extents is the number of ranks */
    m->extents[a] = p.extents[a];
    if (m->extents[a] > 1) m->long_axes |= 1u << a;
  }
  tutti_mesh_coordinates(m, m->rank, m->at);
  err = make_lines(m, comm, &error);
  if (err != TUTTI_OK) {
    /* fail the mesh, so that no rank waits in a communicator that another rank could not create */
    tu_mesh_fail(m, &error);
    tutti_mesh_free(m);
    return tu_thread_error(&error);
  }
  *mesh = m;
  return TUTTI_OK;
}

tutti_err tutti_mesh_create(tutti_comm *comm, uint32_t axes, const uint32_t *extents, tutti_mesh **mesh) {
  struct tu_visit visit;
  if (!comm || !mesh) return tu_refuse_null("tutti_mesh_create", comm ? "mesh" : "comm");
  *mesh = NULL;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_mesh_create");
  tutti_err err = create(comm, axes, extents, mesh);
  tu_leave(&visit);
  return err;
}

/* ---- freeing ---- */

tutti_err tu_mesh_check(const struct tutti_mesh *mesh, const char *call, struct tu_error *error) {
  /* a mesh whose creation has failed has only some of its communicators */
  for (uint32_t axes = 0; axes < TU_MESH_LINES; axes++)
    if (mesh->lines[axes]) return tu_refuse_child(mesh->lines[axes]->process, call, error);
  return TUTTI_OK;
}

tutti_err tu_mesh_fail(struct tutti_mesh *mesh, const struct tu_error *error) {
  for (uint32_t axes = 0; axes < TU_MESH_LINES; axes++) {
    struct tu_visit visit;
    if (!mesh->lines[axes] || !tu_hold(mesh->lines[axes], &visit)) continue;
    (void)tu_comm_fail(mesh->lines[axes], error);
    tu_leave(&visit);
  }
  return tu_thread_error(error);
}

tutti_err tutti_mesh_free(tutti_mesh *mesh) {
  tutti_err first = TUTTI_OK;
  struct tu_error error = {0};
  if (!mesh) return TUTTI_OK;
  if (tu_mesh_check(mesh, "tutti_mesh_free", &error) != TUTTI_OK) return tu_thread_error(&error);
  for (uint32_t axes = 0; axes < TU_MESH_LINES; axes++) {
    tutti_err err = tutti_comm_free(mesh->lines[axes]);
    if (err != TUTTI_OK && first == TUTTI_OK) first = tu_fail(&error, err, "%s", tutti_error_message(NULL));
  }
  free(mesh);
  return first == TUTTI_OK ? first : tu_thread_error(&error);
}
