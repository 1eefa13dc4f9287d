/* test: timeout=120 */
/* bfp_test.c: block floats in collectives: every collective, along every dimension, between all tile layouts;
 * reductions with slots that are not a multiple of an item; errors. Results are compared with naive evaluations, and
 * padding must not change. */
#include <math.h>

#include "algo/algo.h"
#include "tensors.h"
#include "troupe.h"

enum { RANKS = 3, ITEM_MAX = 17 };

static const struct op {
  const char *name;
  tutti_collective collective;
  bool in_cut, out_cut;
  bool in_at_root, out_at_root;
  bool sums;
} ops[] = {
    {.name = "allgather", .collective = TUTTI_ALLGATHER, .out_cut = true},
    {.name = "reduce_scatter", .collective = TUTTI_REDUCE_SCATTER, .in_cut = true, .sums = true},
    {.name = "allreduce", .collective = TUTTI_ALLREDUCE, .sums = true},
    {.name = "reduce", .collective = TUTTI_REDUCE, .out_at_root = true, .sums = true},
    {.name = "gather", .collective = TUTTI_GATHER, .out_cut = true, .out_at_root = true},
    {.name = "scatter", .collective = TUTTI_SCATTER, .in_cut = true, .in_at_root = true},
    {.name = "broadcast", .collective = TUTTI_BROADCAST, .in_at_root = true},
    {.name = "alltoall", .collective = TUTTI_ALLTOALL, .in_cut = true, .out_cut = true},
    {.name = "send and recv", .collective = TUTTI_SEND},
};
enum { OPS = sizeof ops / sizeof ops[0] };

static uint64_t perform(void (*run)(struct player *p), uint32_t ranks, uint64_t seed, bool processes) {
#ifndef __SANITIZE_THREAD__
  if (processes) return troupe_perform((struct troupe){.run = run, .ranks = ranks, .seed = seed}, troupe_over_shm);
#endif
  (void)processes;
  return troupe_perform((struct troupe){.run = run, .ranks = ranks, .seed = seed}, troupe_over_loop);
}

static tutti_err call_now(struct player *p, const tutti_call *call) {
  tutti_request *request = NULL;
  tutti_err err = tutti_start(p->comm, call, &request);
  return err == TUTTI_OK ? tutti_wait(&request) : err;
}

/* ---- every operation between all tile layouts ---- */

struct trial {
  const struct op *op;
  const struct tensors_kind *in, *out;
  size_t block[TUTTI_DIMS];
  int dim, out_dim;
  tutti_datatype type;
  uint32_t root;
};

/* Returns a small integer, so that sums are exact. With the exponent of exponent_of_ones, it is the magnitude
 * itself. */
static unsigned value(tutti_datatype type, uint32_t rank, const size_t i[TUTTI_DIMS]) {
  size_t mixed = rank * 11 + i[0] * 7 + i[1] * 5 + i[2] * 3 + i[3] * 13 + i[4];
  return (unsigned)(mixed % (type == TUTTI_BFP8 ? 43 : 3));
}
static unsigned char exponent_of_ones(tutti_datatype type) { return type == TUTTI_BFP8 ? 133 : 129; }

static unsigned wanted(const struct trial *t, uint32_t rank, const size_t out[TUTTI_DIMS]) {
  size_t in[TUTTI_DIMS];
  memcpy(in, out, sizeof in);
  uint32_t from = t->root;
  if (t->op->out_cut) {
    from = (uint32_t)(in[t->out_dim] / t->block[t->out_dim]);
    in[t->out_dim] %= t->block[t->out_dim];
  }
  if (t->op->in_cut) in[t->dim] += rank * t->block[t->dim];
  if (t->op->collective == TUTTI_SEND) from = (rank + RANKS - 1) % RANKS;
  unsigned sum = 0;
  for (uint32_t r = 0; r < RANKS; r++)
    if (t->op->sums || r == from) sum += value(t->type, r, in);
  return sum;
}

static bool make(struct player *p, const struct trial *t, const struct tensors_kind *kind, bool cut, int dim,
                 tutti_tensor *tensor) {
  size_t shape[TUTTI_DIMS];
  memcpy(shape, t->block, sizeof shape);
  if (cut) shape[dim] *= RANKS;
  if (!good(p, tensors_make(tensor, kind, t->type, shape, (tutti_tiles){4, 32, 0, 0}), kind->name)) return false;
  tensor->data = malloc(tutti_tensor_bytes(tensor) + 1);
  memset(tensor->data, 0xff, tutti_tensor_bytes(tensor)); /* padding is NaN */
  return true;
}

/* Returns true if every element is correct and all bytes that belong to no element are unchanged. */
static bool agrees(struct player *p, const struct trial *t, const tutti_tensor *out) {
  size_t bytes = tutti_tensor_bytes(out), i[TUTTI_DIMS] = {0};
  unsigned char *data = out->data;
  bool equal = true;
  unsigned char *touched = calloc(bytes + 1, 1);
  do {
    struct tensors_code at = tensors_code_where(out, i);
    int exponent = data[at.exponent] - exponent_of_ones(t->type);
    unsigned code = tensors_get_code(data, at);
    equal &= ldexp(code, exponent) == (double)wanted(t, p->rank, i);
    touched[at.exponent] = 1;
    if (at.half) touched[at.code] |= at.high ? 0xf0 : 0x0f;
    else touched[at.code] = 0xff;
  } while (tensors_next(out->shape, i));
  for (size_t b = 0; b < bytes; b++)
    if (touched[b] != 1 && (data[b] | touched[b]) != 0xff) equal = false;
  free(touched);
  return equal;
}

static void play_trial(struct player *p, const struct trial *t) {
  tutti_tensor in = {0}, out = {0};
  bool at_root = p->rank == t->root, has_in = !t->op->in_at_root || at_root, has_out = !t->op->out_at_root || at_root;
  if (has_in && !make(p, t, t->in, t->op->in_cut, t->dim, &in)) return;
  if (has_out && !make(p, t, t->out, t->op->out_cut, t->out_dim, &out)) return;
  size_t i[TUTTI_DIMS] = {0};
  if (has_in) do {
      struct tensors_code at = tensors_code_where(&in, i);
      ((unsigned char *)in.data)[at.exponent] = exponent_of_ones(t->type);
      tensors_put_code(in.data, at, value(t->type, p->rank, i));
    } while (tensors_next(in.shape, i));
  tutti_call call = {.collective = t->op->collective,
                     .in = has_in ? &in : NULL,
                     .out = has_out ? &out : NULL,
                     .dim = t->op->in_cut ? t->dim : t->out_dim,
                     .out_dim = t->out_dim,
                     .has_out_dim = t->op->collective == TUTTI_ALLTOALL,
                     .root = t->root,
                     .peer = (p->rank + 1) % RANKS};
  tutti_request *request = NULL;
  tutti_err err;
  if (t->op->collective == TUTTI_SEND) {
    tutti_call calls[2] = {call, call};
    calls[0].out = NULL;
    calls[1].collective = TUTTI_RECV, calls[1].in = NULL, calls[1].peer = (p->rank + RANKS - 1) % RANKS;
    err = tutti_start_all(p->comm, calls, 2, &request);
  } else {
    err = tutti_start(p->comm, &call, &request);
  }
  if (err == TUTTI_OK) err = tutti_wait(&request);
  if (err != TUTTI_OK || (has_out && !agrees(p, t, &out)))
    wrong(p, "rank %u: %s of %s along %d, %s into %s: %s", p->rank, t->op->name, tutti_datatype_name(t->type), t->dim,
          t->in->name, t->out->name, err == TUTTI_OK ? "wrong" : tutti_error_message(p->comm));
  free(in.data), free(out.data);
  if (p->rank == 0) p->stage->counted++;
}

static uint32_t dims_of(const struct op *op) { return op->in_cut || op->out_cut ? TUTTI_DIMS : 1; }

/* Widths along dimension 4. Blocks that are read may begin within a group of 16. Blocks that are written side by side
 * may not; their widths are multiples of 16. */
static const size_t widths[] = {10, 2, 24, 33};
static void every_layout(struct player *p) {
  uint32_t number = 0;
  for (size_t o = 0; o < OPS; o++)
    for (uint32_t dim = 0; dim < dims_of(&ops[o]); dim++)
      for (size_t in = 0; in < TENSORS_KINDS; in++)
        for (size_t out = 0; out < TENSORS_KINDS; out++) {
          if (!tensors_kinds[in].tiled || !tensors_kinds[out].tiled || p->stage->failures > 0) continue;
          struct trial t = {.op = &ops[o], .in = &tensors_kinds[in], .out = &tensors_kinds[out]};
          t.dim = (int)dim;
          t.out_dim = ops[o].in_cut ? (int)((dim + number % 3) % TUTTI_DIMS) : t.dim;
          size_t width = ops[o].out_cut && t.out_dim == 4 ? 16 + number % 2 * 16 : widths[number % 4];
          memcpy(t.block, (size_t[]){2, 1, 2, 3, width}, sizeof t.block);
          t.type = number / 2 % 2 ? TUTTI_BFP8 : TUTTI_BFP4;
          t.root = number++ % RANKS;
          play_trial(p, &t);
        }
}

static void test_every_layout(void) {
  uint32_t tiled = 0, dims = 0;
  for (size_t k = 0; k < TENSORS_KINDS; k++) tiled += tensors_kinds[k].tiled;
  for (size_t o = 0; o < OPS; o++) dims += dims_of(&ops[o]);
  for (int processes = 0; processes < 2; processes++) {
    uint64_t count = perform(every_layout, RANKS, 0, processes);
    printf("  %llu calls\n", (unsigned long long)count);
    CHECK(count == tiled * tiled * dims, "%llu calls, expected %u", (unsigned long long)count, tiled * tiled * dims);
  }
}

/* ---- sizes of slots ---- */

static const struct arithmetic {
  tutti_op op;
  double scale;
} arithmetics[] = {{TUTTI_SUM, 1}, {TUTTI_PROD, 1}, {TUTTI_MIN, 1},
                   {TUTTI_MAX, 1}, {TUTTI_AVG, 1},  {TUTTI_PREMUL_SUM, 3}};
enum { ARITHMETICS = sizeof arithmetics / sizeof arithmetics[0] };
static const struct reduction {
  tutti_collective collective;
  const char *algorithm;
  bool in_rank_order; /* combines all operands at once, in rank order */
} reductions[] = {
    {TUTTI_ALLREDUCE, "direct", true},
    {TUTTI_ALLREDUCE, "ring", false},
    {TUTTI_ALLREDUCE, "rabenseifner", false},
    {TUTTI_ALLREDUCE, "recursive_doubling", false},
    {TUTTI_ALLREDUCE, "swing", false},
    {TUTTI_ALLREDUCE, "bidirectional_ring", false},
    {TUTTI_REDUCE_SCATTER, "direct", true},
    {TUTTI_REDUCE_SCATTER, "bucket", false},
    {TUTTI_REDUCE_SCATTER, "pairwise", false},
    {TUTTI_REDUCE_SCATTER, "line", false},
    {TUTTI_REDUCE_SCATTER, "pat", false},
    {TUTTI_REDUCE_SCATTER, "bidirectional", false},
    {TUTTI_REDUCE_SCATTER, "recursive_halving", false},
};
enum { REDUCTIONS = sizeof reductions / sizeof reductions[0], ROWS = 30, COLS = 90, SLOTS = 4 };
static const char *const slots[SLOTS] = {"64K", "64", "1000", "4K"};

/* results with the longest slots, as hashes: [reduction][arithmetic][rank] */
static uint64_t (*results)[ARITHMETICS][RANKS];
static uint32_t slot;

/* Fills in random numbers. Numbers of one group of 16 have similar sizes, as small ones would lose all their bits
 * otherwise. */
static void fill(float *values, size_t count, uint64_t seed) {
  for (size_t i = 0; i < count; i++) {
    double x = (double)(ranks_random(&seed) % 20001) / 10000 - 1;
    values[i] = (float)(x * (1 + (double)(i / 16 % 7)));
  }
}

/* Reduces the inputs of all ranks in rank order, in f32, and rounds once. */
static void evaluate(const struct arithmetic *a, const float *inputs, size_t count, tutti_tensor *result) {
  float *values = malloc(count * sizeof *values);
  for (size_t i = 0; i < count; i++) {
    float x = inputs[i] * (float)a->scale;
    for (uint32_t r = 1; r < RANKS; r++) {
      float y = inputs[r * count + i] * (float)a->scale;
      if (a->op == TUTTI_PROD) x *= y;
      else if (a->op == TUTTI_MIN) x = fminf(x, y);
      else if (a->op == TUTTI_MAX) x = fmaxf(x, y);
      else x += y;
    }
    values[i] = a->op == TUTTI_AVG ? x / RANKS : x;
  }
  if (tutti_tensor_from_f32(result, values) != TUTTI_OK) abort();
  free(values);
}

static void reduce_with(struct player *p, const struct reduction *r, const struct arithmetic *a, uint64_t *result) {
  const tutti_tiles tiles = {4, 32, 2, 16};
  bool scatters = r->collective == TUTTI_REDUCE_SCATTER;
  const size_t long_shape[] = {scatters ? ROWS * RANKS : ROWS, COLS}, short_shape[] = {ROWS, COLS};
  size_t count = long_shape[0] * COLS;
  tutti_datatype type = a->op == TUTTI_MAX ? TUTTI_BFP4 : TUTTI_BFP8;
  tutti_tensor in, out, expected;
  if (!good(p,
            tutti_tensor_interleaved(&in, (tutti_tensor_of){.type = type, .dims = 2, .shape = long_shape}, &tiles, 3),
            "in") ||
      !good(p,
            tutti_tensor_interleaved(&out, (tutti_tensor_of){.type = type, .dims = 2, .shape = short_shape}, &tiles, 1),
            "out"))
    return;
  size_t in_bytes = tutti_tensor_bytes(&in), out_bytes = tutti_tensor_bytes(&out);
  in.data = calloc(in_bytes, 1), out.data = calloc(out_bytes, 1);
  expected = in;
  expected.data = calloc(in_bytes, 1);
  float *inputs = malloc(RANKS * count * sizeof *inputs);
  for (uint32_t rank = 0; rank < RANKS; rank++) { /* inputs as the type holds them, after rounding */
    fill(inputs + rank * count, count, p->seed + rank);
    if (tutti_tensor_from_f32(&expected, inputs + rank * count) != TUTTI_OK ||
        tutti_tensor_to_f32(&expected, inputs + rank * count) != TUTTI_OK)
      abort();
    if (rank == p->rank) memcpy(in.data, expected.data, in_bytes);
    /* Premultiplied inputs are rounded to the type, too. */
    if (a->op != TUTTI_PREMUL_SUM) continue;
    for (size_t i = 0; i < count; i++) inputs[rank * count + i] *= (float)a->scale;
    if (tutti_tensor_from_f32(&expected, inputs + rank * count) != TUTTI_OK ||
        tutti_tensor_to_f32(&expected, inputs + rank * count) != TUTTI_OK)
      abort();
  }
  const tutti_call call = {
      .collective = r->collective, .in = &in, .out = &out, .op = a->op, .scale = a->scale, .algorithm = r->algorithm};
  if (good(p, call_now(p, &call), r->algorithm) && r->in_rank_order) {
    const struct arithmetic once = {a->op, 1};
    evaluate(&once, inputs, count, &expected);
    if (tutti_tensor_to_f32(&expected, inputs) != TUTTI_OK || tutti_tensor_to_f32(&out, inputs + count) != TUTTI_OK)
      abort();
    const float *block = inputs + (scatters ? p->rank * ROWS * COLS : 0);
    if (memcmp(block, inputs + count, ROWS * COLS * sizeof *block) != 0)
      wrong(p, "rank %u: %s of %s by %s differs from the reduction in rank order", p->rank, tutti_op_name(a->op),
            tutti_datatype_name(type), r->algorithm);
  }
  *result = 1;
  for (size_t b = 0; b < out_bytes; b++) *result = *result * 1099511628211u + ((unsigned char *)out.data)[b];
  free(in.data), free(out.data), free(expected.data), free(inputs);
}

/* Results must be equal, bit by bit, for all sizes of slots. */
static void reduce_in_slices(struct player *p) {
  for (size_t r = 0; r < REDUCTIONS; r++)
    for (size_t a = 0; a < ARITHMETICS && p->stage->failures == 0; a++) {
      uint64_t result = 0, *first = &results[r][a][p->rank];
      reduce_with(p, &reductions[r], &arithmetics[a], &result);
      if (slot == 0) *first = result;
      else if (result != *first)
        wrong(p, "rank %u: %s by %s differs with slots of %s", p->rank, tutti_op_name(arithmetics[a].op),
              reductions[r].algorithm, slots[slot]);
      if (p->rank == 0) p->stage->counted++;
    }
}

static void test_slices(void) {
  uint64_t seed = test_seed();
  size_t bytes = REDUCTIONS * sizeof *results;
  results = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (results == MAP_FAILED) abort();
  for (int processes = 0; processes < 2; processes++)
    for (slot = 0; slot < SLOTS; slot++) {
      setenv("TUTTI_SLOT_BYTES", slots[slot], 1);
      uint64_t count = perform(reduce_in_slices, RANKS, seed, processes);
      CHECK(count == REDUCTIONS * ARITHMETICS, "%llu calls", (unsigned long long)count);
    }
  unsetenv("TUTTI_SLOT_BYTES");
  munmap(results, bytes);
}

/* Runs every algorithm on tensors longer than what is scaled or reduced at a time without a message. All values are
 * small integers, so that all orders of additions give the same result. */
static void reduce_long(struct player *p) {
  enum { LONG_ROWS = 999, LONG_COLS = 512, LONG = LONG_ROWS * LONG_COLS };
  static const tutti_tiles tiles = {32, 32, 16, 16};
  float *values = malloc(LONG * sizeof *values);
  const struct tu_algorithm *a;
  for (size_t n = 0; (a = tu_algorithm_at(n)) != NULL && p->stage->failures == 0; n++) {
    bool scatters = a->collective == TUTTI_REDUCE_SCATTER;
    if ((!scatters && a->collective != TUTTI_ALLREDUCE && a->collective != TUTTI_REDUCE) ||
        !tu_algorithm_fits(a, RANKS))
      continue;
    const size_t in_shape[] = {LONG_ROWS, LONG_COLS},
                 out_shape[] = {scatters ? LONG_ROWS / RANKS : LONG_ROWS, LONG_COLS};
    tutti_tensor in, out;
    if (!good(p, tutti_tensor_interleaved(&in, (tutti_tensor_of){NULL, TUTTI_BFP8, 2, in_shape}, &tiles, 1), "in") ||
        !good(p, tutti_tensor_interleaved(&out, (tutti_tensor_of){NULL, TUTTI_BFP8, 2, out_shape}, &tiles, 8), "out"))
      break;
    in.data = malloc(tutti_tensor_bytes(&in)), out.data = malloc(tutti_tensor_bytes(&out));
    for (size_t i = 0; i < LONG; i++) values[i] = (float)((i / 7 + p->rank) % 13) - 6;
    if (tutti_tensor_from_f32(&in, values) != TUTTI_OK) abort();
    tutti_call call = {.collective = a->collective, .in = &in, .out = &out, .algorithm = a->name};
    call.op = TUTTI_PREMUL_SUM, call.scale = 1 + p->rank % 2;
    if (!good(p, call_now(p, &call), a->name)) break;
    size_t count = out_shape[0] * LONG_COLS, wrong_ones = 0;
    if (tutti_tensor_to_f32(&out, values) != TUTTI_OK) abort();
    for (size_t k = 0; k < count && (a->collective != TUTTI_REDUCE || p->rank == 0); k++) {
      size_t i = scatters ? p->rank * count + k : k;
      float sum = 0;
      for (uint32_t r = 0; r < RANKS; r++) sum += (float)(1 + r % 2) * ((float)((i / 7 + r) % 13) - 6);
      wrong_ones += values[k] != sum;
    }
    if (wrong_ones)
      wrong(p, "rank %u: %s.%s: %zu wrong", p->rank, tutti_collective_name(a->collective), a->name, wrong_ones);
    free(in.data), free(out.data);
    if (p->rank == 0) p->stage->counted++;
  }
  free(values);
}

static void test_long_ones(void) {
  uint64_t count = perform(reduce_long, RANKS, 0, true);
  printf("  %llu algorithms\n", (unsigned long long)count);
  CHECK(count >= 15, "%llu algorithms", (unsigned long long)count);
}

/* ---- a user-defined operation, and errors ---- */

/* Returns, of each pair of groups, the one with the larger exponent. */
static void larger_group(void *result, const void *left, const void *right, size_t count, tutti_datatype type,
                         void *context) {
  _Atomic uint32_t *calls = context;
  *calls += type == TUTTI_BFP8;
  for (size_t i = 0; i < count; i++) {
    const unsigned char *l = (const unsigned char *)left + i * ITEM_MAX,
                        *r = (const unsigned char *)right + i * ITEM_MAX;
    memmove((unsigned char *)result + i * ITEM_MAX, *r > *l ? r : l, ITEM_MAX);
  }
}

static tutti_tensor tile_tensor(struct player *p, tutti_datatype type, size_t cols, void *data) {
  static const tutti_tiles tiles = {32, 32, 16, 16};
  tutti_tensor t;
  good(p, tutti_tensor_interleaved(&t, (tutti_tensor_of){data, type, 2, (size_t[]){32, cols}}, &tiles, 1), "tensor");
  return t;
}

static tutti_op larger;
static _Atomic uint32_t larger_calls;
static void user_operation(struct player *p) {
  unsigned char in[64 * ITEM_MAX], out[64 * ITEM_MAX], want[64 * ITEM_MAX];
  for (uint32_t r = 0; r < RANKS;
       r++) /* the memory of the tensor is one tile: all exponents, then the codes of all groups */
    for (size_t g = 0; g < 64; g++) {
      unsigned char exponent = (unsigned char)(100 + (g * 7 + r * 5) % 11);
      if (r == p->rank) in[g] = exponent;
      if (r == p->rank) memset(in + 64 + g * 16, (int)(r * 16 + g % 16), 16);
      if (r > 0 && exponent <= want[g]) continue;
      want[g] = exponent;
      memset(want + 64 + g * 16, (int)(r * 16 + g % 16), 16);
    }
  tutti_tensor from = tile_tensor(p, TUTTI_BFP8, 32, in), to = tile_tensor(p, TUTTI_BFP8, 32, out);
  good(p, call_now(p, &(tutti_call){.collective = TUTTI_ALLREDUCE, .in = &from, .out = &to, .op = larger}),
       "allreduce");
  if (memcmp(out, want, sizeof out) != 0) wrong(p, "rank %u: wrong result of a user-defined operation", p->rank);
}

static void test_user_operation(void) {
  if (tutti_op_create(larger_group, &larger_calls, false, "larger group", &larger) != TUTTI_OK) abort();
  perform(user_operation, RANKS, 0, true);
  perform(user_operation, RANKS, 0, false);
#ifndef __SANITIZE_THREAD__
  CHECK(larger_calls > 0, "the user-defined operation was not called with bfp8");
#endif
}

static uint32_t which;
static const char *const facts[] = {"groups of 16", "band", "bfp8|bfp4", "bfp8|tensors"};

static void refused(struct player *p) {
  unsigned char memory[8 * 64 * ITEM_MAX];
  tutti_tensor in = tile_tensor(p, TUTTI_BFP8, 24, memory),
               out = tile_tensor(p, TUTTI_BFP8, 24 * RANKS, memory + 4 * 64 * ITEM_MAX);
  tutti_tensor same = tile_tensor(p, which == 2 ? TUTTI_BFP4 : TUTTI_BFP8, 24, memory + 4 * 64 * ITEM_MAX);
  tutti_call call = {.collective = TUTTI_ALLREDUCE, .in = &in, .out = &same};
  if (which == 0) call.collective = TUTTI_ALLGATHER, call.out = &out, call.dim = -1;
  if (which == 1) call.op = TUTTI_BAND;
  if (which == 3)
    call = (tutti_call){.collective = TUTTI_ALLREDUCE, .send = memory, .recv = memory, .type = TUTTI_BFP8};
  tutti_err err = call_now(p, &call);
  if (err != TUTTI_ERR_ARGUMENT || !test_contains(tutti_error_message(p->comm), facts[which]))
    wrong(p, "rank %u: %s: '%s', expected the facts '%s'", p->rank, tutti_err_name(err), tutti_error_message(p->comm),
          facts[which]);
  p->stage->counted++;
}

/* An error of a call is the communicator's verdict, and tutti_comm_free fails, too. rank_1_dies tells the troupe to
 * expect that. */
static void test_refusals(void) {
  for (which = 0; which < sizeof facts / sizeof facts[0]; which++) {
    uint64_t count =
        troupe_perform((struct troupe){.run = refused, .ranks = RANKS, .rank_1_dies = true}, troupe_over_loop);
    CHECK(count == RANKS, "%llu ranks got the expected error", (unsigned long long)count);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"every_layout", test_every_layout},     {"slices", test_slices},     {"long", test_long_ones},
      {"user_operation", test_user_operation}, {"refusals", test_refusals},
  };
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
