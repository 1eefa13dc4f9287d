/* test: slow timeout=400 */
/* mesh_test.c: tensors over meshes of ranks. Resharding from every distribution to every other, between random layouts,
 * on threads and on processes, is compared with a naive reference, as every rank can compute all data. Then: calls
 * along one axis, coordinates of ranks, and errors. */
#include <math.h>
#include <tutti/mesh.h>

#include "tensors.h"
#include "troupe.h"

enum { AXES = TUTTI_MESH_AXES, TYPES = 4 };
static const tutti_datatype types[TYPES] = {TUTTI_BF16, TUTTI_F32, TUTTI_U8, TUTTI_I32};
static bool is_blocks(tutti_datatype type) { return type == TUTTI_BFP8 || type == TUTTI_BFP4; }

/* Checks that a call has succeeded. The error message is this thread's. */
static bool fine(struct player *p, tutti_err err, const char *what) {
  if (err == TUTTI_OK) return true;
  wrong(p, "rank %u: %s: %s: %s", p->rank, what, tutti_err_name(err), tutti_error_message(NULL));
  return false;
}

/* ---- numbers ---- */

static uint64_t mix(uint64_t seed, uint64_t more) {
  seed ^= more * 0x9e3779b97f4a7c15u;
  return ranks_random(&seed);
}

/* All block floats here have this one exponent, with which the codes are integers. */
static int exponent_of_ones(tutti_datatype type) { return type == TUTTI_BFP8 ? 133 : 129; }

static void put(const tutti_tensor *t, const size_t i[TUTTI_DIMS], float f) {
  unsigned char *data = t->data, *at = data + tensors_where(t, i) * tutti_datatype_size(t->type);
  int32_t whole = (int32_t)f;
  struct tensors_code code;
  switch (t->type) {
    case TUTTI_BFP4:
    case TUTTI_BFP8:
      code = tensors_code_where(t, i);
      data[code.exponent] = (unsigned char)exponent_of_ones(t->type);
      tensors_put_code(data, code, (unsigned)whole);
      break;
    case TUTTI_U8: *at = (unsigned char)whole; break;
    case TUTTI_I32: memcpy(at, &whole, 4); break;
    case TUTTI_F32: memcpy(at, &f, 4); break;
    default: memcpy(at, (unsigned char *)&f + 2, 2); /* bf16 holds integers up to 256 exactly */
  }
}

static float get(const tutti_tensor *t, const size_t i[TUTTI_DIMS]) {
  const unsigned char *data = t->data, *at = data + tensors_where(t, i) * tutti_datatype_size(t->type);
  float f = 0;
  int32_t whole;
  struct tensors_code code;
  switch (t->type) {
    case TUTTI_BFP4:
    case TUTTI_BFP8:
      code = tensors_code_where(t, i);
      return ldexpf((float)tensors_get_code(data, code), data[code.exponent] - exponent_of_ones(t->type));
    case TUTTI_U8: return *at;
    case TUTTI_I32: memcpy(&whole, at, 4); return (float)whole;
    case TUTTI_F32: memcpy(&f, at, 4); return f;
    default: memcpy((unsigned char *)&f + 2, at, 2); return f;
  }
}

enum { UNTOUCHED = 0xa5 };
/* Sets an element to its content before the call. */
static void clear(unsigned char *data, const tutti_tensor *t, const size_t i[TUTTI_DIMS]) {
  size_t item = tutti_datatype_size(t->type);
  if (!is_blocks(t->type)) {
    memset(data + tensors_where(t, i) * item, UNTOUCHED, item);
    return;
  }
  struct tensors_code code = tensors_code_where(t, i);
  data[code.exponent] = UNTOUCHED;
  tensors_put_code(data, code, !code.half ? UNTOUCHED : code.high ? UNTOUCHED >> 4 : UNTOUCHED & 15);
}

/* ---- a trial: one resharding ---- */

/* Parameters of one resharding, equal on all ranks. */
struct trial {
  tutti_mesh *mesh;
  size_t shape[TUTTI_DIMS];
  tutti_datatype type;
  tutti_spread from[AXES], to[AXES];
  uint64_t seed;
  bool zeros; /* elements of value 0 are -0 */
};

/* The tensor before or after the resharding, on this rank. */
struct side {
  tutti_mesh_tensor tensor;
  size_t origin[TUTTI_DIMS], bytes;
};

/* Returns the rank's coordinate along an axis. The last axis varies fastest. */
static uint32_t coordinate(const tutti_mesh *mesh, uint32_t rank, uint32_t axis) {
  for (uint32_t a = tutti_mesh_axes(mesh); a-- > axis + 1;) rank /= tutti_mesh_extent(mesh, a);
  return rank % tutti_mesh_extent(mesh, axis);
}

/* Returns an element of the logical tensor. For block floats, all values fit into the codes with the common
 * exponent. */
static float logical(const struct trial *t, const size_t i[TUTTI_DIMS]) {
  size_t v = (i[0] * 7 + i[1] * 5 + i[2] * 3 + i[3] * 13 + i[4] + t->seed % 11) % 29;
  if (is_blocks(t->type)) return (float)(3 + v % (t->type == TUTTI_BFP8 ? 29 : 5));
  return v == 0 && t->zeros ? -0.0f : (float)v;
}

/* Returns what the rank that holds summand `number` of `count` has for the element. */
static float summand(const struct trial *t, tutti_op op, uint32_t number, uint32_t count, const size_t i[TUTTI_DIMS]) {
  uint64_t random = mix(t->seed, (((i[0] * 64 + i[1]) * 64 + i[2]) * 64 + i[3]) * 64 + i[4]);
  float v = logical(t, i);
  if (op != TUTTI_SUM) { /* one summand, drawn at random, is the result itself */
    float more = (float)(1 + (random + number) % 5);
    if (random % count == number) return v;
    if (op == TUTTI_MIN) return t->type == TUTTI_BFP4 && v + more > 7 ? 7 : v + more;
    return t->type == TUTTI_U8 || is_blocks(t->type) ? (v > more ? v - more : 0) : v - more;
  }
  float rest = 0;
  for (uint32_t k = 1; k < count; k++) {
    float other = is_blocks(t->type) ? (float)(k < 3 ? mix(random, k) % 2 : 0) : (float)(mix(random, k) % 9) - 4;
    if (k == number) return other;
    rest += other;
  }
  return count == 1 ? v : v - rest;
}

/* Returns the number of the summand that this rank holds; sets the number of summands and the operation. */
static uint32_t number_of(const struct trial *t, const tutti_spread *spread, uint32_t rank, uint32_t *count,
                          tutti_op *op) {
  uint32_t number = 0;
  *count = 1;
  *op = TUTTI_SUM;
  for (uint32_t a = 0; a < tutti_mesh_axes(t->mesh); a++) {
    if (spread[a].kind != TUTTI_PARTIAL) continue;
    number = number * tutti_mesh_extent(t->mesh, a) + coordinate(t->mesh, rank, a);
    *count *= tutti_mesh_extent(t->mesh, a);
    *op = spread[a].op;
  }
  return number;
}

/* Returns true if origin and shape are the rank's part. Each sharded axis cuts the part further. */
static bool is_part(const struct trial *t, const tutti_spread *spread, uint32_t rank, const size_t origin[TUTTI_DIMS],
                    const size_t shape[TUTTI_DIMS]) {
  size_t first[TUTTI_DIMS] = {0}, size[TUTTI_DIMS];
  memcpy(size, t->shape, sizeof size);
  for (uint32_t a = 0; a < tutti_mesh_axes(t->mesh); a++) {
    if (spread[a].kind != TUTTI_SHARDED) continue;
    size[spread[a].dim] /= tutti_mesh_extent(t->mesh, a);
    first[spread[a].dim] += coordinate(t->mesh, rank, a) * size[spread[a].dim];
  }
  return memcmp(first, origin, sizeof first) == 0 && memcmp(size, shape, sizeof size) == 0;
}

static bool make(struct player *p, const struct trial *t, const tutti_spread *spread, uint64_t *random,
                 struct side *s) {
  static const tutti_tiles tiles[] = {{4, 8, 0, 0}, {2, 4, 0, 0}, {32, 32, 0, 0}}, block_tiles = {4, 32, 0, 0};
  const tutti_tensor_of of = {.type = t->type, .dims = TUTTI_DIMS, .shape = t->shape};
  size_t part[TUTTI_DIMS];
  tutti_tensor local;
  if (!fine(p, tutti_mesh_shard(t->mesh, p->rank, of, spread, s->origin, part), "tutti_mesh_shard")) return false;
  if (!is_part(t, spread, p->rank, s->origin, part)) wrong(p, "rank %u: tutti_mesh_shard is wrong", p->rank);
  const struct tensors_kind *kind;
  do kind = &tensors_kinds[ranks_random(random) % TENSORS_KINDS];
  while (is_blocks(t->type) && !kind->tiled);
  const tutti_tiles *tile = is_blocks(t->type) ? &block_tiles : &tiles[ranks_random(random) % 3];
  if (!fine(p, tensors_make(&local, kind, t->type, part, *tile), kind->name)) return false;
  s->bytes = tutti_tensor_bytes(&local);
  return fine(p, tutti_mesh_tensor_wrap(&s->tensor, t->mesh, TUTTI_DIMS, t->shape, spread, &local), "wrap");
}

static void fill(const struct player *p, const struct trial *t, const struct side *s) {
  size_t i[TUTTI_DIMS] = {0};
  const tutti_tensor *local = &s->tensor.local;
  uint32_t count, number;
  tutti_op op;
  number = number_of(t, s->tensor.spread, p->rank, &count, &op);
  do {
    size_t at[TUTTI_DIMS];
    for (int d = 0; d < TUTTI_DIMS; d++) at[d] = s->origin[d] + i[d];
    put(local, i, summand(t, op, number, count, at));
  } while (tensors_next(local->shape, i));
}

static float combine(tutti_datatype type, tutti_op op, float a, float b) {
  if (op == TUTTI_MIN) return signbit(a) != signbit(b) && a == b ? -0.0f : a < b ? a : b;
  if (op == TUTTI_MAX) return signbit(a) != signbit(b) && a == b ? 0.0f : a > b ? a : b;
  return type == TUTTI_U8 ? (float)(((int)a + (int)b) & 255) : a + b;
}

/* Gets this rank's part in logical order, combined with the parts of the ranks that hold the other summands. */
static bool collect(struct player *p, const struct trial *t, const struct side *s, float *values, size_t count) {
  uint32_t summands;
  tutti_op op;
  const tutti_tensor *local = &s->tensor.local;
  size_t i[TUTTI_DIMS] = {0}, n = 0;
  do values[n++] = get(local, i);
  while (tensors_next(local->shape, i));
  number_of(t, s->tensor.spread, p->rank, &summands, &op);
  if (summands == 1) return true;
  float *all = malloc(p->ranks * count * sizeof *all);
  bool told = good(p, tutti_allgather(p->comm, values, all, count, TUTTI_F32), "the test's allgather");
  bool first = true;
  for (uint32_t r = 0; r < p->ranks && told; r++) {
    bool mine = true;
    for (uint32_t a = 0; a < tutti_mesh_axes(t->mesh); a++)
      mine = mine && (s->tensor.spread[a].kind == TUTTI_PARTIAL ||
                      coordinate(t->mesh, r, a) == coordinate(t->mesh, p->rank, a));
    for (size_t k = 0; k < count && mine; k++)
      values[k] = first ? all[r * count + k] : combine(t->type, op, values[k], all[r * count + k]);
    first = first && !mine;
  }
  free(all);
  return told;
}

/* Returns true if all elements are correct, and the bytes between them are unchanged. */
static bool agrees(struct player *p, const struct trial *t, const struct side *s, bool was_filled) {
  const tutti_tensor *local = &s->tensor.local;
  size_t i[TUTTI_DIMS] = {0}, count = 1, n = 0;
  for (int d = 0; d < TUTTI_DIMS; d++) count *= local->shape[d];
  float *values = malloc((count + 1) * sizeof *values);
  unsigned char *between = malloc(s->bytes + 1);
  bool equal = collect(p, t, s, values, count);
  memcpy(between, local->data, s->bytes);
  do {
    size_t at[TUTTI_DIMS];
    for (int d = 0; d < TUTTI_DIMS; d++) at[d] = s->origin[d] + i[d];
    float wanted = logical(t, at), value = values[n++];
    if (t->type == TUTTI_U8 || t->type == TUTTI_I32) wanted += 0.0f; /* integers have no -0 */
    equal = equal && memcmp(&wanted, &value, sizeof wanted) == 0;
    clear(between, local, i);
  } while (tensors_next(local->shape, i));
  for (size_t b = 0; b < s->bytes && was_filled; b++) equal = equal && between[b] == UNTOUCHED;
  free(values), free(between);
  return equal;
}

/* ---- the call of a trial: a call along one axis, if one fits, or tutti_reshard ---- */

static const struct along {
  const char *name;
  tutti_spread_kind from, to;
  tutti_err (*call)(const tutti_mesh_tensor *from, const tutti_mesh_tensor *to, uint32_t axis);
} alongs[] = {
    {"allgather", TUTTI_SHARDED, TUTTI_REPLICATED, tutti_mesh_allgather},
    {"reduce_scatter", TUTTI_PARTIAL, TUTTI_SHARDED, tutti_mesh_reduce_scatter},
    {"allreduce", TUTTI_PARTIAL, TUTTI_REPLICATED, tutti_mesh_allreduce},
    {"alltoall", TUTTI_SHARDED, TUTTI_SHARDED, tutti_mesh_alltoall},
};

static bool same_spread(const tutti_spread *a, const tutti_spread *b) {
  return a->kind == b->kind && (a->kind != TUTTI_SHARDED || a->dim == b->dim) &&
         (a->kind != TUTTI_PARTIAL || a->op == b->op);
}

static const struct along *find_along(const struct trial *t, uint32_t *axis) {
  uint32_t differ = 0;
  for (uint32_t a = 0; a < tutti_mesh_axes(t->mesh); a++)
    if (!same_spread(&t->from[a], &t->to[a])) *axis = a, differ++;
  for (size_t k = 0; k < sizeof alongs / sizeof alongs[0] && differ == 1; k++)
    if (t->from[*axis].kind == alongs[k].from && t->to[*axis].kind == alongs[k].to) return &alongs[k];
  return NULL;
}

static const char *text_of(const tutti_mesh *mesh, const tutti_spread *spread, char text[64]) {
  static const char *const kinds[] = {"R", "S", "P"};
  size_t length = 0;
  for (uint32_t a = 0; a < tutti_mesh_axes(mesh); a++)
    length += (size_t)snprintf(text + length, 64 - length, "%s%s%d", a ? " " : "", kinds[spread[a].kind],
                               spread[a].kind == TUTTI_PARTIAL ? (int)spread[a].op : spread[a].dim);
  return text;
}

/* Runs one trial. `to` has its own memory, or shares that of `from`: on some ranks at the same address, on some
 * shifted. */
static void play_trial(struct player *p, const struct trial *t) {
  uint64_t common = mix(t->seed, 1), own = mix(t->seed, 2 + p->rank);
  struct side from = {0}, to = {0};
  if (!make(p, t, t->from, &own, &from) || !make(p, t, t->to, &own, &to)) return;
  bool shared = ranks_random(&own) % 4 == 0;
  size_t shift = shared ? ranks_random(&own) % 3 * 64 : from.bytes + 64;
  unsigned char *memory = malloc(from.bytes + to.bytes + 256), *before = malloc(from.bytes + 1);
  memset(memory, UNTOUCHED, from.bytes + to.bytes + 256);
  from.tensor.local.data = memory;
  to.tensor.local.data = memory + tensors_up(shift, 64);
  fill(p, t, &from);
  memcpy(before, from.tensor.local.data, from.bytes);
  uint32_t axis = 0;
  const struct along *along = ranks_random(&common) % 2 ? find_along(t, &axis) : NULL;
  tutti_err err = along ? along->call(&from.tensor, &to.tensor, axis) : tutti_reshard(&from.tensor, &to.tensor);
  bool kept = shared || memcmp(before, from.tensor.local.data, from.bytes) == 0;
  char a[64], b[64];
  if (err != TUTTI_OK || !kept || !agrees(p, t, &to, !shared))
    wrong(p, "rank %u: %s of %zux%zux%zux%zux%zu %s from %s to %s%s: %s", p->rank, along ? along->name : "reshard",
          t->shape[0], t->shape[1], t->shape[2], t->shape[3], t->shape[4], tutti_datatype_name(t->type),
          text_of(t->mesh, t->from, a), text_of(t->mesh, t->to, b), shared ? " in place" : "",
          err != TUTTI_OK ? tutti_error_message(NULL)
          : kept          ? "wrong"
                          : "`from` was changed");
  free(memory), free(before);
  if (p->rank == 0) p->stage->counted++;
}

/* Draws a shape that both distributions divide, with small parts. */
static void draw_shape(struct trial *t, uint64_t *random) {
  for (int d = 0; d < TUTTI_DIMS; d++) {
    size_t from = 1, to = 1;
    for (uint32_t a = 0; a < tutti_mesh_axes(t->mesh); a++) {
      if (t->from[a].kind == TUTTI_SHARDED && t->from[a].dim == d) from *= tutti_mesh_extent(t->mesh, a);
      if (t->to[a].kind == TUTTI_SHARDED && t->to[a].dim == d) to *= tutti_mesh_extent(t->mesh, a);
    }
    size_t unit = from > to ? from : to;
    while (unit % from || unit % to) unit++;
    t->shape[d] = unit * (1 + ranks_random(random) % (unit > 1 || d < 2 ? 2 : 4));
    if (d + 1 == TUTTI_DIMS && is_blocks(t->type))
      t->shape[d] *= unit > 1 ? 16 : 11; /* whole groups if sharded; else any number */
  }
}

static void draw_rest(struct trial *t, uint64_t seed, bool blocks) {
  static const tutti_datatype block_types[] = {TUTTI_BFP8, TUTTI_BFP4};
  uint64_t random = seed;
  bool sums = false;
  t->seed = seed;
  t->type = blocks ? block_types[ranks_random(&random) % 2] : types[ranks_random(&random) % TYPES];
  for (uint32_t a = 0; a < tutti_mesh_axes(t->mesh); a++)
    sums = sums || (t->from[a].kind == TUTTI_PARTIAL && t->from[a].op == TUTTI_SUM);
  t->zeros = !sums && ranks_random(&random) % 2; /* reference sums lose the sign of 0 */
  draw_shape(t, &random);
}

/* ---- all pairs ---- */

/* Meshes, and a set of distributions for each: every axis is replicated (R), sharded along one of `dims` (S), or
 * partial with one of the first operations (P). */
struct field {
  uint32_t axes, extents[AXES];
  uint32_t dim_count;
  int dims[TUTTI_DIMS];
  uint32_t ops; /* number of operations used, of sum, min, max */
  bool is_long;
  bool blocks; /* with block floats */
};
static const struct field fields[] = {
    {1, {2}, 5, {0, 1, 2, 3, 4}, 3, .is_long = false},   {1, {3}, 5, {0, 1, 2, 3, 4}, 3, .is_long = false},
    {2, {2, 2}, 5, {0, 1, 2, 3, 4}, 3, .is_long = true}, {2, {2, 3}, 5, {0, 1, 2, 3, 4}, 3, .is_long = true},
    {2, {2, 2}, 3, {1, 3, 4}, 3, .is_long = false},      {2, {2, 3}, 3, {0, 2, 4}, 3, .is_long = false},
    {2, {2, 2}, 2, {3, 4}, 3, .blocks = true},           {3, {2, 2, 2}, 2, {2, 4}, 1, .is_long = false},
    {3, {2, 2, 2}, 3, {0, 3, 4}, 3, .is_long = true},    {3, {2, 1, 3}, 1, {3}, 1, .is_long = false},
};
enum { FIELDS = sizeof fields / sizeof fields[0], SPREADS_MAX = 400 };
static const tutti_op ops[] = {TUTTI_SUM, TUTTI_MIN, TUTTI_MAX};

/* Lists all distributions: each one with a partial axis once per operation, each one without once. */
static uint32_t list_spreads(const struct field *f, tutti_spread list[][AXES]) {
  uint32_t roles = 2 + f->dim_count, codes = 1, count = 0;
  for (uint32_t a = 0; a < f->axes; a++) codes *= roles;
  for (uint32_t op = 0; op < f->ops; op++)
    for (uint32_t code = 0; code < codes; code++) {
      tutti_spread s[AXES] = {0};
      uint32_t rest = code, partial = 0;
      for (uint32_t a = 0; a < f->axes; a++, rest /= roles) {
        uint32_t role = rest % roles;
        if (role == 1) s[a] = (tutti_spread){TUTTI_PARTIAL, 0, ops[op]}, partial++;
        if (role > 1) s[a] = (tutti_spread){TUTTI_SHARDED, f->dims[role - 2], 0};
      }
      if (partial == 0 && op > 0) continue;
      if (list) memcpy(list[count], s, sizeof s);
      count++;
    }
  return count;
}

static const struct field *current_field;

static void every_pair(struct player *p) {
  const struct field *f = current_field;
  tutti_spread(*list)[AXES] = malloc(SPREADS_MAX * sizeof *list);
  uint32_t count = list_spreads(f, list);
  struct trial t = {0};
  if (fine(p, tutti_mesh_create(p->comm, f->axes, f->extents, &t.mesh), "tutti_mesh_create"))
    for (uint32_t k = 0; k < count * count && p->stage->failures == 0; k++) {
      memcpy(t.from, list[k / count], sizeof t.from);
      memcpy(t.to, list[k % count], sizeof t.to);
      draw_rest(&t, mix(p->seed, k), f->blocks);
      play_trial(p, &t);
    }
  fine(p, tutti_mesh_free(t.mesh), "tutti_mesh_free");
  free(list);
}

static uint32_t ranks_of(const struct field *f) {
  uint32_t ranks = 1;
  for (uint32_t a = 0; a < f->axes; a++) ranks *= f->extents[a];
  return ranks;
}

static void test_pairs(void) {
  uint64_t seed = test_seed(), count = 0, expected = 0;
  for (size_t i = 0; i < FIELDS; i++) {
    current_field = &fields[i];
    if (fields[i].is_long && !test_long()) continue;
    uint64_t spreads = list_spreads(current_field, NULL);
    expected += spreads * spreads;
    count += troupe_perform((struct troupe){.run = every_pair, .ranks = ranks_of(current_field), .seed = seed},
                            troupe_over_loop);
  }
  /* Numbers of distributions: 9 for 2 and for 3 ranks; over 2x2 and 2x3: 43 with three dimensions, 30 with two, 75 with
   * five; over 2x2x2: 64 with two, 247 with three; over 2x1x3: 27 with one. */
  uint64_t by_hand = 2 * 81 + 2 * 43 * 43 + 30 * 30 + 64 * 64 + 27 * 27 + (test_long() ? 2 * 75 * 75 + 247 * 247 : 0);
  printf("  %llu reshardings\n", (unsigned long long)count);
  CHECK(count == expected && count == by_hand, "%llu, expected %llu", (unsigned long long)count,
        (unsigned long long)by_hand);
}

/* ---- a sample: any mesh, any distribution ---- */

static void draw_spread(const tutti_mesh *mesh, tutti_spread *spread, uint64_t *random) {
  tutti_op op = ops[ranks_random(random) % 3];
  for (uint32_t a = 0; a < tutti_mesh_axes(mesh); a++) {
    uint32_t role = (uint32_t)(ranks_random(random) % 9);
    spread[a] = (tutti_spread){0};
    if (role < 2) spread[a] = (tutti_spread){TUTTI_PARTIAL, 0, op};
    if (role > 3) spread[a] = (tutti_spread){TUTTI_SHARDED, (int)role - 4, 0};
  }
}

static const struct field *some_meshes;
enum { SAMPLE = 150 };

static void some_pairs(struct player *p) {
  struct trial t = {0};
  const struct field *f = some_meshes;
  uint64_t random = p->seed;
  if (fine(p, tutti_mesh_create(p->comm, f->axes, f->extents, &t.mesh), "tutti_mesh_create"))
    for (int k = 0; k < (test_long() ? 20 * SAMPLE : SAMPLE) && p->stage->failures == 0; k++) {
      draw_spread(t.mesh, t.from, &random);
      draw_spread(t.mesh, t.to, &random);
      draw_rest(&t, ranks_random(&random), k % 8 == 7);
      play_trial(p, &t);
    }
  fine(p, tutti_mesh_free(t.mesh), "tutti_mesh_free");
}

static void sample(const struct field *meshes, size_t count, void (*over)(struct troupe *t)) {
  uint64_t seed = test_seed(), done = 0, expected = count * (test_long() ? 20 : 1) * SAMPLE;
  for (size_t i = 0; i < count; i++) {
    some_meshes = &meshes[i];
    done += troupe_perform((struct troupe){.run = some_pairs, .ranks = ranks_of(&meshes[i]), .seed = seed + i}, over);
  }
  printf("  %llu reshardings\n", (unsigned long long)done);
  CHECK(done == expected, "%llu, expected %llu", (unsigned long long)done, (unsigned long long)expected);
}

static void test_loop(void) {
  static const struct field meshes[] = {{.axes = 1, .extents = {1}},       {.axes = 3, .extents = {1, 2, 1}},
                                        {.axes = 1, .extents = {5}},       {.axes = 2, .extents = {2, 4}},
                                        {.axes = 3, .extents = {3, 2, 2}}, {.axes = 3, .extents = {2, 2, 4}}};
  sample(meshes, sizeof meshes / sizeof meshes[0], troupe_over_loop);
}

#ifndef __SANITIZE_THREAD__
static void test_shm(void) {
  static const struct field meshes[] = {{.axes = 1, .extents = {4}},
                                        {.axes = 2, .extents = {2, 3}},
                                        {.axes = 2, .extents = {4, 2}},
                                        {.axes = 3, .extents = {2, 2, 2}}};
  sample(meshes, sizeof meshes / sizeof meshes[0], troupe_over_shm);
}
#endif

/* ---- coordinates of ranks ---- */

static void check_coordinates(struct player *p, tutti_mesh *mesh) {
  uint32_t at[AXES] = {9, 9, 9}, outside[] = {0, 3};
  for (uint32_t r = 0; r < 6; r++)
    if (!tutti_mesh_coordinates(mesh, r, at) || at[0] != r / 3 || at[1] != r % 3 || tutti_mesh_rank(mesh, at) != r)
      wrong(p, "rank %u is at %u, %u", r, at[0], at[1]);
  if (tutti_mesh_axes(mesh) != 2 || tutti_mesh_extent(mesh, 0) != 2 || tutti_mesh_extent(mesh, 1) != 3 ||
      tutti_mesh_extent(mesh, 2) != 0 || tutti_mesh_coordinates(mesh, 6, at) ||
      tutti_mesh_rank(mesh, outside) != UINT32_MAX || tutti_mesh_line(mesh, 2))
    wrong(p, "wrong extents, or a rank outside was found");
  if (tutti_mesh_axes(NULL) != 0 || tutti_mesh_extent(NULL, 0) != 0 || tutti_mesh_coordinates(NULL, 0, at) ||
      tutti_mesh_rank(NULL, at) != UINT32_MAX || tutti_mesh_line(NULL, 0))
    wrong(p, "wrong answers for a mesh that is NULL");
}

/* Checks the communicator of each axis, by an allgather along it. */
static void check_lines(struct player *p, tutti_mesh *mesh) {
  uint32_t at[AXES] = {0}, ranks[3] = {9, 9, 9};
  tutti_mesh_coordinates(mesh, p->rank, at);
  for (uint32_t axis = 0; axis < 2; axis++) {
    tutti_comm *line = tutti_mesh_line(mesh, axis);
    if (tutti_rank(line) != at[axis] || tutti_ranks(line) != tutti_mesh_extent(mesh, axis))
      wrong(p, "rank %u is %u of %u along axis %u", p->rank, tutti_rank(line), tutti_ranks(line), axis);
    fine(p, tutti_allgather(line, &p->rank, ranks, 1, TUTTI_U32), "allgather along an axis");
    for (uint32_t k = 0; k < tutti_ranks(line); k++) {
      uint32_t there[AXES] = {at[0], at[1]};
      there[axis] = k;
      if (ranks[k] != tutti_mesh_rank(mesh, there))
        wrong(p, "rank %u is wrong on an axis of rank %u", ranks[k], p->rank);
    }
  }
}

/* Checks the parts of a 4x6 tensor over 2x3 ranks: the first coordinate selects the rows, the second the columns. */
static void check_parts(struct player *p, tutti_mesh *mesh) {
  static const size_t whole[] = {4, 6};
  const tutti_spread spread[] = {{TUTTI_SHARDED, 0, 0}, {TUTTI_SHARDED, -1, 0}};
  const tutti_tensor_of of = {.type = TUTTI_F32, .dims = 2, .shape = whole};
  size_t origin[2] = {9, 9}, shape[2] = {9, 9};
  for (uint32_t r = 0; r < 6; r++)
    if (!fine(p, tutti_mesh_shard(mesh, r, of, spread, origin, shape), "part") || origin[0] != r / 3 * 2 ||
        origin[1] != r % 3 * 2 || shape[0] != 2 || shape[1] != 2)
      wrong(p, "part of rank %u: %zux%zu from %zu, %zu on", r, shape[0], shape[1], origin[0], origin[1]);
  tutti_mesh_tensor t;
  if (!fine(p, tutti_mesh_tensor_strided(&t, mesh, of, spread), "strided")) return;
  if (t.dims != 2 || t.shape[2] != 1 || t.shape[3] != 4 || t.shape[4] != 6 || t.local.shape[3] != 2 ||
      t.local.shape[4] != 2 || t.local.dims != 2 || t.mesh != mesh)
    wrong(p, "wrong tensor of 4x6 over 2x3");
  char text[256] = "", wanted[256];
  FILE *file = fmemopen(text, sizeof text, "w");
  tutti_mesh_tensor_print(&t, file);
  fclose(file);
  snprintf(wanted, sizeof wanted, "f32 4x6|mesh of 2x3|S0 S1|rank %u: f32 2x2|strided|2 1|16 bytes\n", p->rank);
  if (!test_contains(text, wanted)) wrong(p, "tutti_mesh_tensor_print printed '%s'", text);
}

static void coordinates(struct player *p) {
  static const uint32_t extents[] = {2, 3};
  tutti_mesh *mesh;
  if (!fine(p, tutti_mesh_create(p->comm, 2, extents, &mesh), "tutti_mesh_create")) return;
  check_coordinates(p, mesh);
  check_lines(p, mesh);
  check_parts(p, mesh);
  fine(p, tutti_mesh_free(mesh), "tutti_mesh_free");
  fine(p, tutti_mesh_free(NULL), "tutti_mesh_free(NULL)");
}

static void test_coordinates(void) {
  troupe_perform((struct troupe){.run = coordinates, .ranks = 6}, troupe_over_loop);
}

/* ---- broadcast along an axis ---- */

/* Each rank's part is marked with its rank. The call is in place on every other rank. */
static void broadcast_once(struct player *p, tutti_mesh *mesh, uint32_t axis, uint32_t root) {
  static const size_t whole[] = {6, 4};
  tutti_spread spread[2] = {{TUTTI_SHARDED, 0, 0}, {TUTTI_SHARDED, 0, 0}};
  spread[axis] = (tutti_spread){0};
  int32_t in[24], out[24];
  uint32_t at[AXES] = {0};
  tutti_mesh_tensor from, to;
  for (int i = 0; i < 24; i++) in[i] = (int)p->rank * 100 + i, out[i] = -1;
  tutti_mesh_coordinates(mesh, p->rank, at);
  bool in_place = p->rank % 2, is_root = at[axis] == root;
  at[axis] = root;
  const tutti_tensor_of of = {.type = TUTTI_I32, .dims = 2, .shape = whole};
  if (!fine(p, tutti_mesh_tensor_strided(&from, mesh, of, spread), "from") ||
      !fine(p, tutti_mesh_tensor_strided(&to, mesh, of, spread), "to"))
    return;
  from.local.data = in_place ? out : is_root ? in : NULL; /* only the root's `from` is read */
  to.local.data = out;
  if (in_place) memcpy(out, in, sizeof in);
  fine(p, tutti_mesh_broadcast(&from, &to, axis, root), "tutti_mesh_broadcast");
  size_t count = from.local.shape[3] * 4;
  for (size_t i = 0; i < count; i++)
    if (out[i] != (int)(tutti_mesh_rank(mesh, at) * 100 + i))
      wrong(p, "rank %u: broadcast along %u from %u: %d at %zu", p->rank, axis, root, out[i], i);
}

static void broadcasts(struct player *p) {
  static const uint32_t extents[] = {2, 3};
  tutti_mesh *mesh;
  if (!fine(p, tutti_mesh_create(p->comm, 2, extents, &mesh), "tutti_mesh_create")) return;
  for (uint32_t axis = 0; axis < 2; axis++)
    for (uint32_t root = 0; root < extents[axis]; root++) broadcast_once(p, mesh, axis, root);
  fine(p, tutti_mesh_free(mesh), "tutti_mesh_free");
}

static void test_broadcast(void) { troupe_perform((struct troupe){.run = broadcasts, .ranks = 6}, troupe_over_loop); }

/* ---- ranks along one axis wait for no others ---- */

/* Ranks 0 and 1 gather along axis 1 while ranks 2 and 3 wait for a message that rank 0 sends after that. */
static void alone(struct player *p) {
  static const uint32_t extents[] = {2, 2};
  static const size_t whole[] = {4, 4};
  const tutti_spread cut[] = {{0}, {TUTTI_SHARDED, 1, 0}}, uncut[] = {{0}, {0}};
  tutti_mesh *mesh;
  tutti_mesh_tensor from, to;
  float in[8] = {0}, out[16];
  uint32_t word = 0;
  if (!fine(p, tutti_mesh_create(p->comm, 2, extents, &mesh), "tutti_mesh_create")) return;
  tutti_tensor_of of = {.data = in, .type = TUTTI_F32, .dims = 2, .shape = whole};
  fine(p, tutti_mesh_tensor_strided(&from, mesh, of, cut), "from");
  of.data = out;
  fine(p, tutti_mesh_tensor_strided(&to, mesh, of, uncut), "to");
  if (p->rank > 1) good(p, tutti_recv(p->comm, &word, 1, TUTTI_U32, 0, 0), "word");
  for (int i = 0; i < 8; i++) in[i] = (float)(p->rank * 8 + (uint32_t)i);
  fine(p, tutti_mesh_allgather(&from, &to, 1), "tutti_mesh_allgather");
  for (uint32_t i = 0; i < 16; i++) {
    uint32_t rank = p->rank / 2 * 2 + i % 4 / 2;
    if (out[i] != (float)(rank * 8 + i / 4 * 2 + i % 2)) wrong(p, "rank %u: %g at %u", p->rank, (double)out[i], i);
  }
  for (uint32_t r = 2; r < 4 && p->rank == 0; r++) good(p, tutti_send(p->comm, &word, 1, TUTTI_U32, r, 0), "send");
  fine(p, tutti_mesh_free(mesh), "tutti_mesh_free");
}

static void test_alone(void) { troupe_perform((struct troupe){.run = alone, .ranks = 4}, troupe_over_loop); }

/* ---- errors ---- */

static void refused(struct player *p, tutti_err err, tutti_err wanted, const char *words) {
  if (err != wanted || !test_contains(tutti_error_message(NULL), words))
    wrong(p, "rank %u: %s '%s', expected the facts '%s'", p->rank, tutti_err_name(err), tutti_error_message(NULL),
          words);
}

/* Invalid distributions and parts over 2x3 ranks. */
static const struct {
  uint32_t dims;
  size_t shape[TUTTI_DIMS], part[TUTTI_DIMS]; /* part: shape of this rank's part; 0: use tutti_mesh_tensor_strided */
  tutti_datatype type;
  tutti_spread spread[2];
  const char *words;
} impossible[] = {
    {2, {5, 6}, {0}, TUTTI_F32, {{TUTTI_SHARDED, 0, 0}}, "dimension 0|5 elements|2 equal"},
    {2, {6, 5}, {0}, TUTTI_F32, {{0}, {TUTTI_SHARDED, -1, 0}}, "dimension 1|5 elements|3"},
    {2, {9, 6}, {0}, TUTTI_F32, {{TUTTI_SHARDED, 0, 0}, {TUTTI_SHARDED, 0, 0}}, "dimension 0|9 elements|6 equal"},
    {2, {6, 6}, {0}, TUTTI_F32, {{TUTTI_SHARDED, 2, 0}}, "mesh axis 0|dimension is 2|-2 to 1"},
    {2, {6, 6}, {0}, TUTTI_F32, {{0}, {TUTTI_SHARDED, -3, 0}}, "mesh axis 1|-3"},
    {2, {6, 6}, {0}, TUTTI_F32, {{TUTTI_PARTIAL, 0, TUTTI_PROD}}, "mesh axis 0|prod|sum, min or max"},
    {2, {6, 6}, {0}, TUTTI_F32, {{TUTTI_PARTIAL, 0, 4000}}, "mesh axis 0|unknown"},
    {2, {6, 6}, {0}, TUTTI_F32, {{TUTTI_PARTIAL, 0, TUTTI_MIN}, {TUTTI_PARTIAL, 0, TUTTI_SUM}}, "mesh axis 1|sum|min"},
    {2, {6, 6}, {0}, TUTTI_F32, {{(tutti_spread_kind)7, 0, 0}}, "mesh axis 0|kind|7"},
    {6, {1}, {0}, TUTTI_F32, {{0}}, "1 to 5|6"},
    {0, {1}, {0}, TUTTI_F32, {{0}}, "1 to 5|0"},
    {1, {6}, {0}, (tutti_datatype)99, {{0}}, "type|99|unknown"},
    {2, {4, 24}, {0}, TUTTI_BFP8, {{0}, {TUTTI_SHARDED, 1, 0}}, "3 equal|groups of 16"},
    {2, {SIZE_MAX / 2, 6}, {0}, TUTTI_F32, {{0}}, "elements|memory"},
    {2, {6, 6}, {3, 6}, TUTTI_F32, {{0}}, "1x1x1x3x6|1x1x1x6x6"},
    {2, {6, 6}, {6, 6}, TUTTI_F32, {{TUTTI_SHARDED, 0, 0}}, "1x1x1x6x6|1x1x1x3x6"},
    {2, {6, 6}, {3, 3}, TUTTI_F32, {{TUTTI_SHARDED, 0, 0}, {TUTTI_SHARDED, 1, 0}}, "1x1x1x3x3|1x1x1x3x2"},
};

static void constructors(struct player *p) {
  static const uint32_t extents[] = {2, 3};
  static const size_t six[] = {6};
  const tutti_spread spread[2] = {{0}};
  tutti_mesh *mesh;
  tutti_mesh_tensor t;
  tutti_tensor local;
  if (!fine(p, tutti_mesh_create(p->comm, 2, extents, &mesh), "tutti_mesh_create")) return;
  for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
    tutti_tensor_of of = {.type = impossible[i].type, .dims = impossible[i].dims, .shape = impossible[i].shape};
    const tutti_tensor_of part = {.type = impossible[i].type, .dims = impossible[i].dims, .shape = impossible[i].part};
    if (impossible[i].part[0] == 0) {
      refused(p, tutti_mesh_tensor_strided(&t, mesh, of, impossible[i].spread), TUTTI_ERR_ARGUMENT,
              impossible[i].words);
      refused(p, tutti_mesh_shard(mesh, 0, of, impossible[i].spread, NULL, NULL), TUTTI_ERR_ARGUMENT,
              impossible[i].words);
    } else if (fine(p, tutti_tensor_strided(&local, part, NULL), "part")) {
      refused(p, tutti_mesh_tensor_wrap(&t, mesh, of.dims, of.shape, impossible[i].spread, &local), TUTTI_ERR_ARGUMENT,
              impossible[i].words);
    }
  }
  tutti_tensor_of of = {.type = TUTTI_F32, .dims = 1, .shape = six};
  refused(p, tutti_mesh_shard(mesh, 6, of, spread, NULL, NULL), TUTTI_ERR_ARGUMENT, "rank 6|5");
  refused(p, tutti_mesh_shard(NULL, 0, of, spread, NULL, NULL), TUTTI_ERR_ARGUMENT, "mesh");
  refused(p, tutti_mesh_tensor_strided(&t, mesh, of, NULL), TUTTI_ERR_ARGUMENT, "tutti_spread|2 axes");
  refused(p, tutti_mesh_tensor_strided(NULL, mesh, of, spread), TUTTI_ERR_ARGUMENT, "tensor");
  refused(p, tutti_mesh_tensor_wrap(&t, mesh, 1, six, spread, NULL), TUTTI_ERR_ARGUMENT, "tensor");
  of.shape = NULL;
  refused(p, tutti_mesh_tensor_strided(&t, mesh, of, spread), TUTTI_ERR_ARGUMENT, "1 to 5");
  if (!fine(p, tutti_tensor_strided(&local, (tutti_tensor_of){.type = TUTTI_F32, .dims = 1, .shape = six}, NULL),
            "six"))
    return;
  local.strides[4] = 0;
  refused(p, tutti_mesh_tensor_wrap(&t, mesh, 1, six, spread, &local), TUTTI_ERR_ARGUMENT, "strides");
  fine(p, tutti_mesh_free(mesh), "tutti_mesh_free");
}

/* Creates invalid meshes; the communicator keeps working. */
static void meshes(struct player *p) {
  static const uint32_t good_extents[] = {2, 2, 1}, bad_extents[] = {2, 3}, large[] = {UINT32_MAX, UINT32_MAX, 2};
  tutti_mesh *mesh = NULL;
  refused(p, tutti_mesh_create(p->comm, 2, bad_extents, &mesh), TUTTI_ERR_ARGUMENT, "extents|6|4 ranks");
  refused(p, tutti_mesh_create(p->comm, 3, large, &mesh), TUTTI_ERR_ARGUMENT, "4 ranks");
  refused(p, tutti_mesh_create(p->comm, 0, good_extents, &mesh), TUTTI_ERR_ARGUMENT, "1 to 3 axes");
  refused(p, tutti_mesh_create(p->comm, 4, good_extents, &mesh), TUTTI_ERR_ARGUMENT, "1 to 3 axes");
  refused(p, tutti_mesh_create(p->comm, 2, NULL, &mesh), TUTTI_ERR_ARGUMENT, "extents|NULL");
  refused(p, tutti_mesh_create(p->comm, 2, good_extents, NULL), TUTTI_ERR_ARGUMENT, "tutti_mesh_create");
  refused(p, tutti_mesh_create(NULL, 2, good_extents, &mesh), TUTTI_ERR_ARGUMENT, "tutti_mesh_create");
  refused(p, tutti_mesh_create(p->comm, 2, p->rank == 1 ? bad_extents : good_extents, &mesh), TUTTI_ERR_ARGUMENT,
          p->rank == 1 ? "extents|6" : "rank 1");
  refused(p, tutti_mesh_create(p->comm, p->rank == 2 ? 3 : 2, good_extents, &mesh), TUTTI_ERR_MISMATCH,
          p->rank == 2 ? "rank 0|2x2|rank 2|2x2x1" : "rank 2|2x2x1|2x2");
  if (mesh) wrong(p, "a mesh was returned with an error");
  fine(p, tutti_mesh_create(p->comm, 2, good_extents, &mesh), "tutti_mesh_create");
  fine(p, tutti_mesh_free(mesh), "tutti_mesh_free");
}

/* Rank 1 has no shared memory left, so it cannot create its communicator along axis 0. The call must fail on all
 * ranks. */
static void memory(struct player *p) {
  enum { TAKEN_MAX = 64 };
  static const uint32_t extents[] = {2, 2};
  void *taken[TAKEN_MAX];
  uint32_t count = 0;
  tutti_mesh *mesh;
  if (!fine(p, tutti_mesh_create(p->comm, 2, extents, &mesh), "tutti_mesh_create")) return;
  fine(p, tutti_mesh_free(mesh), "tutti_mesh_free");
  for (size_t bytes = TROUPE_SLICE; p->rank == 1 && bytes >= 64 && count < TAKEN_MAX;)
    if (tutti_alloc(p->comm, bytes, &taken[count]) == TUTTI_OK) count++;
    else bytes /= 2;
  if (count == TAKEN_MAX) wrong(p, "after %u allocations, memory is still free", count);
  tutti_err err = tutti_mesh_create(p->comm, 2, extents, &mesh);
  if (err != TUTTI_ERR_MEMORY || mesh)
    wrong(p, "rank %u: %s '%s'", p->rank, tutti_err_name(err), tutti_error_message(NULL));
  while (count > 0) fine(p, tutti_free(p->comm, taken[--count]), "tutti_free");
  if (fine(p, tutti_mesh_create(p->comm, 2, extents, &mesh), "create with memory"))
    fine(p, tutti_mesh_free(mesh), "tutti_mesh_free");
}

/* An invalid call, and the facts in the message of all ranks; or in the message of rank `odd`, and in those of the
 * others. */
struct misuse {
  const char *words, *others;
  uint32_t odd; /* only this rank makes the invalid call; 9: all ranks */
  int number;
};
static const struct misuse misuses[] = {
    {"from|NULL", NULL, 9, 0},
    {"to|NULL", NULL, 9, 1},
    {"tutti_reshard|local.data|from|NULL", NULL, 9, 2},
    {"tutti_reshard|local.data|to|NULL", NULL, 9, 3},
    {"types|shapes", NULL, 9, 4},
    {"types|shapes", NULL, 9, 5},
    {"to|1x1x1x2x4|1x1x1x4x4", NULL, 9, 6},
    {"from|to|mesh", NULL, 9, 7},
    {"tutti_mesh_allgather|axis|2|0 to 1", NULL, 9, 8},
    {"tutti_mesh_allgather|axis 1|sharded|replicated|'S0 R'|'R R'", NULL, 9, 9},
    {"tutti_mesh_allreduce|axis 0|partial|replicated", NULL, 9, 10},
    {"tutti_mesh_reduce_scatter|axis 0|partial|sharded", NULL, 9, 11},
    {"tutti_mesh_alltoall|axis 0|sharded", NULL, 9, 12},
    {"tutti_mesh_broadcast|axis 0|replicated", NULL, 9, 13},
    {"tutti_mesh_broadcast|root|axis 1|2 ranks", NULL, 9, 14},
    {"'S0 R'|'R S1'", NULL, 9, 15},
    /* one rank makes the invalid call, and all get an error */
    {"rank 1: tutti_reshard: |local.data|to|NULL", "rank 1: tutti_reshard: |local.data|to|NULL", 1, 3},
    {"rank 3: tutti_reshard: |to|1x1x1x2x4|1x1x1x4x4", "rank 3: tutti_reshard: |to|1x1x1x2x4|1x1x1x4x4", 3, 6},
    {"ranks 0 and 2|4|different", "different", 2, 16},
};
enum { MISUSES = sizeof misuses / sizeof misuses[0] };

struct stuff {
  tutti_mesh *mesh, *other;
  tutti_mesh_tensor cut, uncut, foreign, small, across; /* S0 R; R R; R R on `other`; R R with another shape; R S1 */
};

static tutti_err misuse(struct stuff *s, int number) {
  switch (number) {
    case 0: return tutti_reshard(NULL, &s->uncut);
    case 1: return tutti_reshard(&s->cut, NULL);
    case 2: s->cut.local.data = NULL; break;
    case 3: s->uncut.local.data = NULL; break;
    case 4: return tutti_reshard(&s->cut, &s->small);
    case 5: s->uncut.local.type = TUTTI_I32; break;
    case 6: s->uncut.local.shape[3] = 2; break;
    case 7: return tutti_reshard(&s->cut, &s->foreign);
    case 8: return tutti_mesh_allgather(&s->cut, &s->uncut, 2);
    case 9: return tutti_mesh_allgather(&s->cut, &s->uncut, 1);
    case 10: return tutti_mesh_allreduce(&s->cut, &s->uncut, 0);
    case 11: return tutti_mesh_reduce_scatter(&s->cut, &s->uncut, 0);
    case 12: return tutti_mesh_alltoall(&s->cut, &s->cut, 0);
    case 13: return tutti_mesh_broadcast(&s->cut, &s->uncut, 0, 0);
    case 14: return tutti_mesh_broadcast(&s->cut, &s->cut, 1, 2);
    case 15: return tutti_mesh_allgather(&s->cut, &s->across, 0);
    case 16: return tutti_reshard(&s->cut, &s->across);
    default: break;
  }
  return tutti_reshard(&s->cut, &s->uncut);
}

static bool make_stuff(struct player *p, struct stuff *s, float *memory) {
  static const uint32_t extents[] = {2, 2};
  static const size_t whole[] = {4, 4}, half[] = {4, 2};
  const tutti_spread uncut[2] = {{0}}, rows[2] = {{TUTTI_SHARDED, 0, 0}}, cols[2] = {{0}, {TUTTI_SHARDED, 1, 0}};
  const tutti_tensor_of of = {.data = memory, .type = TUTTI_F32, .dims = 2, .shape = whole};
  tutti_tensor_of target = of, small = of;
  target.data = memory + 16;
  small.shape = half;
  return fine(p, tutti_mesh_create(p->comm, 2, extents, &s->mesh), "mesh") &&
         fine(p, tutti_mesh_create(p->comm, 2, extents, &s->other), "other mesh") &&
         fine(p, tutti_mesh_tensor_strided(&s->cut, s->mesh, of, rows), "cut") &&
         fine(p, tutti_mesh_tensor_strided(&s->uncut, s->mesh, target, uncut), "uncut") &&
         fine(p, tutti_mesh_tensor_strided(&s->across, s->mesh, target, cols), "across") &&
         fine(p, tutti_mesh_tensor_strided(&s->small, s->mesh, small, uncut), "small") &&
         fine(p, tutti_mesh_tensor_strided(&s->foreign, s->other, target, uncut), "foreign");
}

/* Makes invalid calls. The mesh fails on all ranks for good, other meshes do not. */
static void calls(struct player *p) {
  for (size_t i = 0; i < MISUSES && p->stage->failures == 0; i++) {
    const struct misuse *m = &misuses[i];
    float memory[32] = {0};
    struct stuff s = {0};
    if (!make_stuff(p, &s, memory)) return;
    struct stuff good_ones = s;
    bool odd = m->odd == 9 || m->odd == p->rank;
    tutti_err err = odd ? misuse(&s, m->number) : tutti_reshard(&s.cut, &s.uncut), again;
    refused(p, err, m->number == 16 ? TUTTI_ERR_MISMATCH : TUTTI_ERR_ARGUMENT, odd ? m->words : m->others);
    again = tutti_reshard(&good_ones.cut, &good_ones.uncut);
    if (again != err) wrong(p, "%s: the next call returns %s", m->words, tutti_err_name(again));
    tutti_mesh_free(s.mesh);
    fine(p, tutti_reshard(&good_ones.foreign, &good_ones.foreign), "reshard on another mesh");
    fine(p, tutti_mesh_free(s.other), "tutti_mesh_free");
    if (p->rank == 0) p->stage->counted++;
  }
}

static void test_refused(void) {
  troupe_perform((struct troupe){.run = constructors, .ranks = 6}, troupe_over_loop);
  troupe_perform((struct troupe){.run = meshes, .ranks = 4}, troupe_over_loop);
  troupe_perform((struct troupe){.run = memory, .ranks = 4}, troupe_over_loop);
  uint64_t count = troupe_perform((struct troupe){.run = calls, .ranks = 4}, troupe_over_loop);
  printf("  %zu constructions, %llu calls\n", sizeof impossible / sizeof impossible[0], (unsigned long long)count);
  CHECK(count == MISUSES, "%llu of %d calls", (unsigned long long)count, MISUSES);
}

/* ---- empty tensors, a mesh whose communicator was freed, and a death ---- */

static void nothing(struct player *p) {
  static const uint32_t extents[] = {2, 2};
  static const size_t empty[] = {4, 0, 4};
  const tutti_spread from[] = {{TUTTI_SHARDED, 0, 0}, {TUTTI_PARTIAL, 0, TUTTI_SUM}}, to[2] = {{0}};
  tutti_comm *comm;
  tutti_mesh *mesh;
  tutti_mesh_tensor a, b;
  if (!good(p, tutti_comm_dup(p->comm, &comm), "tutti_comm_dup") ||
      !fine(p, tutti_mesh_create(comm, 2, extents, &mesh), "tutti_mesh_create"))
    return;
  fine(p, tutti_comm_free(comm), "tutti_comm_free before tutti_mesh_free");
  const tutti_tensor_of of = {.type = TUTTI_F32, .dims = 3, .shape = empty};
  if (fine(p, tutti_mesh_tensor_strided(&a, mesh, of, from), "from") &&
      fine(p, tutti_mesh_tensor_strided(&b, mesh, of, to), "to")) {
    fine(p, tutti_reshard(&a, &b), "tutti_reshard of an empty tensor");
    fine(p, tutti_reshard(&b, &a), "tutti_reshard of an empty tensor, back");
  }
  fine(p, tutti_mesh_free(mesh), "tutti_mesh_free");
}

static void test_nothing(void) { troupe_perform((struct troupe){.run = nothing, .ranks = 4}, troupe_over_loop); }

#ifndef __SANITIZE_THREAD__
/* Rank 1 of 2x2 dies. Rank 2 shares no axis with it, but waits for ranks that do. */
static void death(struct player *p) {
  static const uint32_t extents[] = {2, 2};
  static const size_t whole[] = {4, 4};
  const tutti_spread rows[2] = {{TUTTI_SHARDED, 0, 0}, {TUTTI_SHARDED, 1, 0}}, uncut[2] = {{0}};
  float in[4] = {0}, out[16];
  tutti_mesh *mesh;
  tutti_mesh_tensor from, to;
  if (!fine(p, tutti_mesh_create(p->comm, 2, extents, &mesh), "tutti_mesh_create")) return;
  const tutti_tensor_of of = {.data = in, .type = TUTTI_F32, .dims = 2, .shape = whole};
  if (!fine(p, tutti_mesh_tensor_strided(&from, mesh, of, rows), "from") ||
      !fine(p, tutti_mesh_tensor_strided(&to, mesh, of, uncut), "to"))
    return;
  to.local.data = out;
  fine(p, tutti_reshard(&from, &to), "tutti_reshard");
  if (p->rank == 1) _exit(0);
  tutti_err err;
  do err = tutti_reshard(&from, &to);
  while (err == TUTTI_OK);
  if (err != TUTTI_ERR_PEER || !strstr(tutti_error_message(NULL), "rank 1"))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(NULL));
  if (tutti_mesh_free(mesh) == TUTTI_OK) wrong(p, "rank %u: tutti_mesh_free succeeded with a dead rank", p->rank);
}

static void test_death(void) {
  troupe_perform((struct troupe){.run = death, .rank_1_dies = true, .ranks = 4}, troupe_over_shm);
}
#endif

int main(int argc, char **argv) {
  static const struct test tests[] = {
#ifndef __SANITIZE_THREAD__
      {"shm", test_shm},
      {"death", test_death},
#endif
      {"coordinates", test_coordinates},
      {"broadcast", test_broadcast},
      {"alone", test_alone},
      {"refused", test_refused},
      {"nothing", test_nothing},
      {"loop", test_loop},
      {"pairs", test_pairs},
  };
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
