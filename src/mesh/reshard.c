/* reshard.c: converts mesh tensors from one distribution to another, by running the steps that tensor/reshard.h
 * computes. Between two steps, a rank's part of the tensor lies in one of two buffers; the steps use the buffers in
 * turn. A call moves no data before all ranks that take part have confirmed that they make the same call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "call/exchange.h"
#include "call/start.h"
#include "call/tensors.h"
#include "comm/failure.h"
#include "mesh/mesh.h"
#include "tensor/map.h"
#include "tensor/reshard.h"

enum { AXES = TUTTI_MESH_AXES, CHUNK_BYTES = 16 << 10 };

static bool has(uint32_t mask, uint32_t axis) { return mask >> axis & 1; }

/* ---- local steps ---- */

static bool is_whole(const struct tu_region *g) {
  return memcmp(g->extent, tu_map_shape(g->map), sizeof g->extent) == 0;
}

/* Copies a region of a tensor to another region. The data passes through a small buffer. No buffer is needed if the
 * target is a whole tensor in logical order without gaps. */
static void copy_region(const struct tu_region *to, void *to_data, const struct tu_region *from,
                        const void *from_data) {
  unsigned char buffer[CHUNK_BYTES], *packed = to_data;
  size_t bytes = tu_map_item_bytes(to->map);
  for (int d = 0; d < TUTTI_DIMS; d++) bytes *= to->extent[d];
  if (bytes == 0) return;
  if (tu_map_is_plain(to->map) && is_whole(to)) {
    tu_region_pack(from, from_data, 0, bytes, packed);
    return;
  }
  for (size_t at = 0; at < bytes; at += CHUNK_BYTES) {
    size_t part = tu_min(bytes - at, CHUNK_BYTES);
    tu_region_pack(from, from_data, at, part, buffer);
    tu_region_unpack(to, to_data, at, part, buffer);
  }
}

/* Fills a region with the summand that changes no sum: zero. For floating-point types it is -0, because adding +0 to -0
 * would give +0. For block floats, which have no -0, it is 0. */
static void fill_zeros(const struct tu_region *to, tutti_datatype type, void *data) {
  const struct tu_datatype *t = &tu_datatypes[type];
  unsigned char zeros[CHUNK_BYTES] = {0};
  size_t bytes = tu_map_item_bytes(to->map);
  for (int d = 0; d < TUTTI_DIMS; d++) bytes *= to->extent[d];
  if (t->floating && t->elements <= 1)
    for (size_t i = t->bytes - 1u; i < CHUNK_BYTES; i += t->bytes) zeros[i] = 0x80;
  for (size_t at = 0; at < bytes; at += CHUNK_BYTES)
    tu_region_unpack(to, data, at, tu_min(bytes - at, CHUNK_BYTES), zeros);
}

/* Converts the box `common` into a region of this rank's shard. `box` is the part of the whole tensor that the shard
 * covers; it contains `common`. Both boxes count elements of the whole tensor. The region counts items, from the first
 * item of the shard. An item is `group` elements of the last dimension. */
static struct tu_region region_of(const struct tu_map *map, const struct tu_box *box, const struct tu_box *common,
                                  size_t group) {
  struct tu_region g = {.map = map};
  for (int d = 0; d < TUTTI_DIMS; d++) {
    size_t unit = d + 1 == TUTTI_DIMS ? group : 1;
    g.origin[d] = (common->origin[d] - box->origin[d]) / unit;
    g.extent[d] = tu_round_up(common->extent[d], unit) / unit;
  }
  return g;
}

/* Returns the smaller of two boxes, of which one contains the other. */
static struct tu_box smaller_of(const struct tu_box *a, const struct tu_box *b) {
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (a->extent[d] != b->extent[d]) return a->extent[d] < b->extent[d] ? *a : *b;
  return *a;
}

/* ---- the state of a resharding ---- */

struct job {
  tutti_mesh *mesh;
  char name[64]; /* rank and name of the call, as text for messages */
  struct tu_reshard plan;
  struct tu_route route;
  uint32_t dims;
  tutti_tensor from, to;
  bool staged; /* true: `from` overlaps `to`, so `from` is first copied to a buffer */
  tutti_tensor between[2];
  void *memory[2];
};

/* Returns true if this rank keeps its data, false if it fills its part with zeros. Zeros are needed if a replicated
 * axis becomes a partial sum: all ranks of a line hold the same data, so only the rank with coordinate 0 keeps its
 * data. */
static bool keeps(const struct job *j, const struct tu_distribution *before, const struct tu_distribution *after) {
  if (after->op != TUTTI_SUM) return true;
  for (uint32_t a = 0; a < AXES; a++)
    if (after->role[a] == TU_PARTIAL && before->role[a] == TU_REPLICATED && j->mesh->at[a] > 0) return false;
  return true;
}

/* Runs a step without communication: this rank takes a slice of its part, converts it to a partial sum, or copies
 * it. */
static tutti_err run_local(const struct job *j, const struct tu_distribution *before,
                           const struct tu_distribution *after, const tutti_tensor *in, const tutti_tensor *out) {
  struct tu_error error;
  struct tu_map *from = NULL, *to = NULL;
  tutti_err err = tu_map_create(in, &from, &error);
  if (err == TUTTI_OK) err = tu_map_create(out, &to, &error);
  if (err != TUTTI_OK) {
    tu_map_destroy(from);
    return tu_thread_error(&error);
  }
  struct tu_box had = tu_distribution_box(&j->plan.whole, before, j->mesh->at);
  struct tu_box gets = tu_distribution_box(&j->plan.whole, after, j->mesh->at);
  struct tu_box common = smaller_of(&had, &gets);
  size_t group = tu_item_elements(in->type);
  struct tu_region all = region_of(to, &gets, &gets, group), target = region_of(to, &gets, &common, group);
  struct tu_region source = region_of(from, &had, &common, group);
  bool keeper = keeps(j, before, after);
  if (!keeper || !is_whole(&target)) fill_zeros(&all, in->type, out->data);
  if (keeper) copy_region(&target, out->data, &source, in->data);
  tu_map_destroy(from);
  tu_map_destroy(to);
  return TUTTI_OK;
}

/* Returns the rank number, in a step's communicator, of the rank at coordinates `at`. The communicator has the ranks
 * along the step's axes; the first axis varies slowest. */
static uint32_t rank_in_line(const struct job *j, uint32_t axes, const uint32_t at[AXES]) {
  uint32_t rank = 0;
  for (uint32_t a = 0; a < AXES; a++)
    if (has(axes, a)) rank = rank * j->plan.whole.extents[a] + at[a];
  return rank;
}

static tutti_err run_exchange(const struct job *j, const struct tu_reshard_step *step,
                              const struct tu_distribution *before, const tutti_tensor *in, const tutti_tensor *out) {
  uint32_t source[AXES], target[AXES];
  tu_reshard_source(&j->plan.whole, step, before, j->mesh->at, source);
  tu_reshard_target(&j->plan.whole, step, before, j->mesh->at, target);
  if (memcmp(source, j->mesh->at, sizeof source) == 0) {
    return run_local(j, before, before, in, out);
  }
  const tutti_call calls[] = {
      {.collective = TUTTI_SEND, .in = in, .peer = rank_in_line(j, step->axes, target)},
      {.collective = TUTTI_RECV, .out = out, .peer = rank_in_line(j, step->axes, source)},
  };
  tutti_request *request;
  tutti_comm *line = j->mesh->lines[step->axes];
  tutti_err err = tu_refuse_to_hang(line);
  if (err == TUTTI_OK) err = tutti_start_all(line, calls, 2, &request);
  return err != TUTTI_OK ? err : tutti_wait(&request);
}

static tutti_err run_collective(const struct job *j, const struct tu_reshard_step *step,
                                const struct tu_distribution *before, const tutti_tensor *in, const tutti_tensor *out) {
  static const tutti_collective collectives[TU_RESHARD_KINDS] = {
      [TU_RESHARD_ALLGATHER] = TUTTI_ALLGATHER,
      [TU_RESHARD_REDUCE_SCATTER] = TUTTI_REDUCE_SCATTER,
      [TU_RESHARD_ALLREDUCE] = TUTTI_ALLREDUCE,
      [TU_RESHARD_ALLTOALL] = TUTTI_ALLTOALL,
  };
  const tutti_call call = {.collective = collectives[step->kind],
                           .in = in,
                           .out = out,
                           .dim = step->dim,
                           .out_dim = step->out_dim,
                           .has_out_dim = step->kind == TU_RESHARD_ALLTOALL,
                           .op = before->op};
  return tu_call_and_wait(j->mesh->lines[step->axes], &call);
}

static tutti_err run_step(const struct job *j, uint32_t number, const tutti_tensor *in, const tutti_tensor *out) {
  const struct tu_reshard_step *step = &j->route.steps[number];
  const struct tu_distribution *before = number > 0 ? &j->route.steps[number - 1].after : &j->plan.from;
  if (tu_reshard_is_local(step->kind)) return run_local(j, before, &step->after, in, out);
  if (step->kind == TU_RESHARD_EXCHANGE) return run_exchange(j, step, before, in, out);
  return run_collective(j, step, before, in, out);
}

/* ---- memory ---- */

static bool overlap(const tutti_tensor *a, const tutti_tensor *b) {
  uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
  size_t x_bytes = tutti_tensor_bytes(a), y_bytes = tutti_tensor_bytes(b);
  return x_bytes > 0 && y_bytes > 0 && x < y + y_bytes && y < x + x_bytes;
}

/* Sets *t to the layout of this rank's part of the tensor between two steps: without gaps, and in tiles for block
 * floats. */
static void lay_between(const struct job *j, const struct tu_distribution *d, tutti_tensor *t) {
  static const tutti_tiles tiles = {32, 32, 0, 0};
  struct tu_box box = tu_distribution_box(&j->plan.whole, d, j->mesh->at);
  const tutti_tensor_of of = {.data = t->data, .type = j->plan.whole.type, .dims = TUTTI_DIMS, .shape = box.extent};
  tutti_err err =
      tu_item_elements(of.type) > 1 ? tutti_tensor_interleaved(t, of, &tiles, 1) : tutti_tensor_strided(t, of, NULL);
  /* This cannot fail. A part is no larger than the whole tensor, and the size of the whole tensor was checked
   * before. */
  tu_assert(err == TUTTI_OK);
}

/* Allocates the buffers for intermediate parts. Part i is this rank's part of the tensor after i steps, and lies in
 * buffer i % 2. Part 0 is needed only if `from` has to be copied first. */
static tutti_err find_memory(struct job *j, struct tu_error *error) {
  size_t bytes[2] = {0};
  uint32_t first = j->staged ? 0 : 1;
  for (uint32_t i = first; i < tu_max(j->route.count, 1); i++) {
    tutti_tensor t = {0};
    lay_between(j, i > 0 ? &j->route.steps[i - 1].after : &j->plan.from, &t);
    bytes[i % 2] = tu_max(bytes[i % 2], tutti_tensor_bytes(&t));
  }
  for (int i = 0; i < 2; i++) {
    if (bytes[i] > 0 && !(j->memory[i] = aligned_alloc(TU_LINE_BYTES, tu_round_up(bytes[i], TU_LINE_BYTES))))
      return tu_fail(error, TUTTI_ERR_MEMORY, "%s: out of memory: cannot allocate %zu bytes for an intermediate part",
                     j->name, bytes[i]);
    j->between[i].data = j->memory[i];
  }
  return TUTTI_OK;
}

static tutti_err run(struct job *j, struct tu_error *error) {
  const tutti_tensor *at = &j->from;
  const struct tu_distribution *from = &j->plan.from;
  tutti_err err = TUTTI_OK;
  bool in_place = tu_tensor_same(at, &j->to);
  if (j->staged) {
    lay_between(j, from, &j->between[0]);
    err = run_local(j, from, from, at, &j->between[0]);
    at = &j->between[0];
  }
  if (err == TUTTI_OK && j->route.count == 0 && !in_place) err = run_local(j, from, from, at, &j->to);
  for (uint32_t i = 0; i < j->route.count && err == TUTTI_OK; i++) {
    const tutti_tensor *next = &j->to;
    if (i + 1 < j->route.count) {
      tutti_tensor *between = &j->between[(i + 1) % 2];
      lay_between(j, &j->route.steps[i].after, between);
      next = between;
    }
    err = run_step(j, i, at, next);
    at = next;
  }
  return err == TUTTI_OK ? err : tu_fail(error, err, "%s", tutti_error_message(NULL));
}

/* ---- agreement of the ranks ---- */

static uint64_t hash_job(const struct job *j, uint32_t axis, uint32_t root) {
  const struct tu_whole *w = &j->plan.whole;
  const uint64_t words[] = {w->type, axis, root};
  uint64_t hash = tu_hash(words, sizeof words, tu_hash(w->shape, sizeof w->shape, 1));
  hash = tu_hash(&j->plan.from, sizeof j->plan.from, hash);
  return tu_hash(&j->plan.to, sizeof j->plan.to, hash);
}

/* Checks that all ranks of `comm` make the same call. Ranks with different calls would wait for each other in different
 * communicators. */
static tutti_err agree(const struct job *j, tutti_comm *comm, uint64_t mine, struct tu_error *error) {
  uint64_t *all = tu_try_allocate(comm->ranks, sizeof *all);
  if (!all) return tu_fail_memory(error, comm->ranks * sizeof *all, "%s", j->name);
  tutti_err err = tu_comm_exchange(comm, &mine, all, sizeof mine);
  if (err != TUTTI_OK) err = tu_fail(error, err, "%s", tutti_error_message(comm));
  for (uint32_t r = 0; r < comm->ranks && err == TUTTI_OK; r++)
    if (all[r] != all[0])
      err = tu_fail(error, TUTTI_ERR_MISMATCH,
                    "%s: ranks 0 and %u of the %u that take part make different calls; shape, type and both "
                    "distributions must be equal on all ranks",
                    j->name, r, comm->ranks);
  free(all);
  return err;
}

/* ---- the calls ---- */

/* The change of distribution that a call along one axis makes. */
struct change {
  const char *name, *words;
  tutti_spread_kind from, to;
};

static tutti_err read(struct job *j, const tutti_mesh_tensor *from, const tutti_mesh_tensor *to,
                      struct tu_error *error) {
  struct tu_whole other;
  struct tu_error why;
  tutti_err err = tu_mesh_tensor_read(from, "from", &j->plan.whole, &j->plan.from, &j->from, &why);
  if (err == TUTTI_OK) err = tu_mesh_tensor_read(to, "to", &other, &j->plan.to, &j->to, &why);
  if (err != TUTTI_OK) return tu_fail(error, err, "%s: %.440s", j->name, why.text);
  if (from->mesh != to->mesh)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: from and to belong to different meshes", j->name);
  if (j->from.type != j->to.type || memcmp(from->shape, to->shape, sizeof from->shape) != 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: from and to have different datatypes or shapes", j->name);
  j->dims = from->dims;
  /* from now on both have all five dimensions, because the steps number dimensions from the first of the five */
  j->from.dims = j->to.dims = TUTTI_DIMS;
  return TUTTI_OK;
}

static tutti_err check_data(const struct job *j, bool reads, struct tu_error *error) {
  bool from_bad = reads && !j->from.data && tutti_tensor_bytes(&j->from) > 0;
  if (!from_bad && (j->to.data || tutti_tensor_bytes(&j->to) == 0)) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: local.data of %s is NULL", j->name, from_bad ? "from" : "to");
}

static bool is_kind(uint8_t role, tutti_spread_kind kind) {
  if (role == TU_PARTIAL) return kind == TUTTI_PARTIAL;
  return kind == (role == TU_REPLICATED ? TUTTI_REPLICATED : TUTTI_SHARDED);
}

/* Checks that the distributions differ as the call requires, and only along the given axis. An axis with one rank
 * may have any role in a distribution. */
static tutti_err check_change(const struct job *j, const struct change *change, uint32_t axis, struct tu_error *error) {
  const struct tu_distribution *from = &j->plan.from, *to = &j->plan.to;
  if (axis >= j->mesh->axes)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the mesh has no axis %u; expected 0 to %u", j->name, axis,
                   j->mesh->axes - 1);
  bool good = j->mesh->extents[axis] == 1 ||
              (is_kind(from->role[axis], change->from) && is_kind(to->role[axis], change->to) &&
               (from->role[axis] == to->role[axis]) == (change->to == change->from && change->to != TUTTI_SHARDED));
  for (uint32_t a = 0; a < AXES; a++) {
    if (a != axis) good = good && from->role[a] == to->role[a];
    if (a != axis && from->role[a] == TU_PARTIAL) good = good && from->op == to->op;
  }
  if (good) return TUTTI_OK;
  char before[TU_DISTRIBUTION_CHARS], after[TU_DISTRIBUTION_CHARS];
  tu_distribution_print(from, j->mesh->axes, j->dims, before);
  tu_distribution_print(to, j->mesh->axes, j->dims, after);
  return tu_fail(
      error, TUTTI_ERR_ARGUMENT,
      "%s: along axis %u the tensor must go %s, and must not change along the other axes; from is '%s', to is '%s'",
      j->name, axis, change->words, before, after);
}

static tutti_err find_steps(struct job *j, struct tu_error *error) {
  tutti_err err = tu_reshard_find(&j->plan, &j->route, error);
  if (err != TUTTI_OK) return tu_fail(error, err, "%s: %.400s", j->name, error->text);
  bool same = tu_tensor_same(&j->from, &j->to);
  bool in_place = j->route.count == 0 || (j->route.count == 1 && j->route.steps[0].kind == TU_RESHARD_ALLREDUCE);
  j->staged = j->route.count <= 1 && overlap(&j->from, &j->to) && !(same && in_place);
  return find_memory(j, error);
}

/* Frees what the call has allocated. If err is an error, the mesh fails with it. Returns the result of the call. */
static tutti_err end(struct job *j, tutti_err err, const struct tu_error *error) {
  tu_route_fini(&j->route);
  free(j->memory[0]);
  free(j->memory[1]);
  if (err != TUTTI_OK) err = j->mesh ? tu_mesh_fail(j->mesh, error) : tu_thread_error(error);
  return err;
}

/* Begins a call: finds the mesh, and reads both tensors. If the mesh has failed, returns the verdict (its first
 * failure). */
static tutti_err begin(struct job *j, const char *name, const tutti_mesh_tensor *from, const tutti_mesh_tensor *to,
                       struct tu_error *error) {
  *j = (struct job){.mesh = from && from->mesh ? from->mesh : to ? to->mesh : NULL};
  snprintf(j->name, sizeof j->name, "rank %u: %s", j->mesh ? j->mesh->rank : 0, name);
  if (j->mesh && tu_mesh_check(j->mesh, name, error) != TUTTI_OK) {
    j->mesh = NULL; /* in a child of fork(), the mesh must not fail, because the parent process still uses it */
    return error->code;
  }
  for (uint32_t axes = 0; j->mesh && axes < TU_MESH_LINES; axes++)
    if (j->mesh->lines[axes] && tu_comm_verdict(j->mesh->lines[axes], error) != TUTTI_OK) return error->code;
  return read(j, from, to, error);
}

tutti_err tutti_reshard(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to) {
  struct job j;
  struct tu_error error;
  tutti_err err = begin(&j, "tutti_reshard", from, to, &error);
  if (err == TUTTI_OK) err = check_data(&j, true, &error);
  if (err == TUTTI_OK) err = find_steps(&j, &error);
  if (err == TUTTI_OK) err = agree(&j, tu_mesh_all(j.mesh), hash_job(&j, 0, 0), &error);
  if (err == TUTTI_OK) err = run(&j, &error);
  return end(&j, err, &error);
}

static tutti_err along_axis(const struct change *change, const tutti_mesh_tensor *from, const tutti_mesh_tensor *to,
                            uint32_t axis) {
  struct job j;
  struct tu_error error;
  tutti_err err = begin(&j, change->name, from, to, &error);
  if (err == TUTTI_OK) err = check_data(&j, true, &error);
  if (err == TUTTI_OK) err = check_change(&j, change, axis, &error);
  if (err == TUTTI_OK) err = find_steps(&j, &error);
  if (err == TUTTI_OK) err = agree(&j, j.mesh->lines[j.route.axes | 1u << axis], hash_job(&j, axis, 0), &error);
  if (err == TUTTI_OK) err = run(&j, &error);
  return end(&j, err, &error);
}

tutti_err tutti_mesh_allgather(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to, uint32_t axis) {
  static const struct change change = {"tutti_mesh_allgather", "from sharded to replicated", TUTTI_SHARDED,
                                       TUTTI_REPLICATED};
  return along_axis(&change, from, to, axis);
}

tutti_err tutti_mesh_reduce_scatter(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to, uint32_t axis) {
  static const struct change change = {"tutti_mesh_reduce_scatter", "from partial to sharded", TUTTI_PARTIAL,
                                       TUTTI_SHARDED};
  return along_axis(&change, from, to, axis);
}

tutti_err tutti_mesh_allreduce(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to, uint32_t axis) {
  static const struct change change = {"tutti_mesh_allreduce", "from partial to replicated", TUTTI_PARTIAL,
                                       TUTTI_REPLICATED};
  return along_axis(&change, from, to, axis);
}

tutti_err tutti_mesh_alltoall(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to, uint32_t axis) {
  static const struct change change = {"tutti_mesh_alltoall", "from sharded to sharded along another dimension",
                                       TUTTI_SHARDED, TUTTI_SHARDED};
  return along_axis(&change, from, to, axis);
}

/* ---- broadcast: not a resharding, because only the root's part counts ---- */

static tutti_err run_broadcast(struct job *j, uint32_t axis, uint32_t root, struct tu_error *error) {
  bool at_root = j->mesh->at[axis] == root;
  const tutti_tensor *in = at_root ? &j->from : NULL;
  tutti_err err = TUTTI_OK;
  if (at_root && j->staged) {
    lay_between(j, &j->plan.from, &j->between[0]);
    err = run_local(j, &j->plan.from, &j->plan.from, in, &j->between[0]);
    in = &j->between[0];
  }
  const tutti_call call = {.collective = TUTTI_BROADCAST, .in = in, .out = &j->to, .root = root};
  if (err == TUTTI_OK) err = tu_call_and_wait(j->mesh->lines[1u << axis], &call);
  return err == TUTTI_OK ? err : tu_fail(error, err, "%s", tutti_error_message(NULL));
}

tutti_err tutti_mesh_broadcast(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to, uint32_t axis,
                               uint32_t root) {
  static const struct change change = {"tutti_mesh_broadcast", "from replicated to replicated", TUTTI_REPLICATED,
                                       TUTTI_REPLICATED};
  struct job j;
  struct tu_error error;
  tutti_err err = begin(&j, change.name, from, to, &error);
  if (err == TUTTI_OK) err = check_change(&j, &change, axis, &error);
  if (err == TUTTI_OK && root >= j.mesh->extents[axis])
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: invalid root %u; axis %u has %u ranks", j.name, root, axis,
                  j.mesh->extents[axis]);
  if (err == TUTTI_OK) err = check_data(&j, j.mesh->at[axis] == root, &error);
  if (err == TUTTI_OK) err = find_steps(&j, &error);
  if (err == TUTTI_OK) err = agree(&j, j.mesh->lines[1u << axis], hash_job(&j, axis, root), &error);
  if (err == TUTTI_OK) err = run_broadcast(&j, axis, root, &error);
  return end(&j, err, &error);
}
