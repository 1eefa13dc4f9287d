/* test: slow timeout=400 */
/* tensor_test.c: every collective from every layout to every other, along every dimension: all combinations on threads,
 * and a seeded sample on processes, in which layouts differ from rank to rank. Results are compared byte by byte,
 * padding included, with a naive evaluation. */
#include "tensors.h"
#include "troupe.h"

enum { TYPES = 4 };
static const tutti_datatype types[TYPES] = {TUTTI_BF16, TUTTI_F32, TUTTI_U8, TUTTI_I32};

static const struct op {
  const char *name;
  tutti_collective collective;
  bool in_cut, out_cut;         /* that tensor is the longer one, with a block per rank */
  bool in_at_root, out_at_root; /* that tensor exists at the root only */
  bool sums;
  bool halves; /* sends one half of the data to the next rank and the other to the rank before, at the same time */
  const char *both_ways; /* algorithm that uses both directions of a ring; NULL: none (send and recv use lanes) */
} ops[] = {
    {.name = "allgather", .collective = TUTTI_ALLGATHER, .out_cut = true, .both_ways = "bidirectional_split"},
    {.name = "reduce_scatter",
     .collective = TUTTI_REDUCE_SCATTER,
     .in_cut = true,
     .sums = true,
     .both_ways = "bidirectional"},
    {.name = "allreduce", .collective = TUTTI_ALLREDUCE, .sums = true, .both_ways = "bidirectional_ring"},
    {.name = "reduce", .collective = TUTTI_REDUCE, .out_at_root = true, .sums = true, .both_ways = "bidirectional"},
    {.name = "gather", .collective = TUTTI_GATHER, .out_cut = true, .out_at_root = true, .both_ways = "bidirectional"},
    {.name = "scatter", .collective = TUTTI_SCATTER, .in_cut = true, .in_at_root = true, .both_ways = "bidirectional"},
    {.name = "broadcast", .collective = TUTTI_BROADCAST, .in_at_root = true, .both_ways = "bidirectional"},
    {.name = "alltoall", .collective = TUTTI_ALLTOALL, .in_cut = true, .out_cut = true, .both_ways = "bidirectional"},
    {.name = "send and recv", .collective = TUTTI_SEND},
    {.name = "send and recv, a half each way round", .collective = TUTTI_SEND, .halves = true},
};
enum { OPS = sizeof ops / sizeof ops[0] };

struct trial {
  const struct op *op;
  const struct tensors_kind *in, *out;
  size_t block[TUTTI_DIMS];
  int dim, out_dim;
  tutti_datatype type;
  tutti_tiles tiles;
  uint32_t root, lanes;
  const char *algorithm;
  uint32_t half; /* which of the two halves is checked, 0 or 1 */
  /* Other ranks may have other shapes: 0: not; 1: this rank gives its tensors; 2: tensors of one dimension, if its own are
   * dense; 3: buffers, if its own are dense. */
  uint32_t any_shape;
};

/* Returns an element of the input of `rank`. It is so small that sums are exact in every type. */
static int value(uint32_t rank, const size_t i[TUTTI_DIMS]) {
  return (int)((rank * 11 + i[0] * 7 + i[1] * 5 + i[2] * 3 + i[3] * 13 + i[4]) % 29);
}

static void put(tutti_datatype type, unsigned char *at, int v) {
  float f = (float)v;
  switch (type) {
    case TUTTI_U8: *at = (unsigned char)v; break;
    case TUTTI_I32: memcpy(at, &v, 4); break;
    case TUTTI_F32: memcpy(at, &f, 4); break;
    default: memcpy(at, (unsigned char *)&f + 2, 2); /* bf16 holds integers up to 256 exactly */
  }
}

/* Returns the expected element of the output of `rank`. */
static int wanted(const struct trial *t, uint32_t ranks, uint32_t rank, const size_t out[TUTTI_DIMS]) {
  size_t in[TUTTI_DIMS];
  memcpy(in, out, sizeof in);
  uint32_t from = t->root;
  if (t->op->out_cut) { /* find the block, and the position within the block */
    from = (uint32_t)(in[t->out_dim] / t->block[t->out_dim]);
    in[t->out_dim] %= t->block[t->out_dim];
  }
  if (t->op->in_cut) in[t->dim] += rank * t->block[t->dim]; /* this rank's block of the input */
  if (t->half == 1)
    return value(ranks + (rank + 1) % ranks, in); /* second halves have the values of ranks beyond the last */
  if (t->op->collective == TUTTI_SEND) from = (rank + ranks - 1) % ranks;
  int sum = 0;
  for (uint32_t r = 0; r < ranks; r++)
    if (t->op->sums || r == from) sum += value(r, in);
  return sum;
}

static bool make(struct player *p, const struct trial *t, const struct tensors_kind *kind, bool cut, int dim,
                 tutti_tensor *tensor) {
  size_t shape[TUTTI_DIMS];
  memcpy(shape, t->block, sizeof shape);
  if (cut) shape[dim] *= p->ranks;
  if (!good(p, tensors_make(tensor, kind, t->type, shape, t->tiles), kind->name)) return false;
  tensor->data = malloc(tutti_tensor_bytes(tensor) + 1);
  memset(tensor->data, 0xa5, tutti_tensor_bytes(tensor));
  return true;
}

/* Returns true if all elements and the bytes between them are as expected. */
static bool agrees(struct player *p, const struct trial *t, const tutti_tensor *out) {
  size_t bytes = tutti_tensor_bytes(out), item = tutti_datatype_size(t->type), i[TUTTI_DIMS] = {0};
  unsigned char *want = malloc(bytes + 1);
  memset(want, 0xa5, bytes);
  do put(t->type, want + tensors_where(out, i) * item, wanted(t, p->ranks, p->rank, i));
  while (tensors_next(out->shape, i));
  bool equal = memcmp(want, out->data, bytes) == 0;
  free(want);
  return equal;
}

static void fill(struct trial t, uint32_t rank, const tutti_tensor *in) {
  size_t i[TUTTI_DIMS] = {0}, item = tutti_datatype_size(t.type);
  do put(t.type, (unsigned char *)in->data + tensors_where(in, i) * item, value(rank, i));
  while (tensors_next(in->shape, i));
}

static void complain(struct player *p, const struct trial *t, tutti_err err) {
  wrong(p, "rank %u: %s of %s along %d, %s into %s, %s, %u lanes: %s", p->rank, t->op->name,
        tutti_datatype_name(t->type), t->dim, t->in->name, t->out->name, t->algorithm ? t->algorithm : "any algorithm",
        t->lanes, err == TUTTI_OK ? "wrong" : tutti_error_message(p->comm));
}

/* Sends round the ring of all ranks, in both directions at the same time. */
static void play_halves(struct player *p, struct trial t) {
  tutti_tensor in[2] = {0}, out[2] = {0};
  tutti_call calls[4];
  const uint32_t next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
  for (uint32_t h = 0; h < 2; h++) {
    if (!make(p, &t, t.in, false, 0, &in[h]) || !make(p, &t, t.out, false, 0, &out[h])) return;
    fill(t, p->rank + h * p->ranks, &in[h]);
    calls[h] =
        (tutti_call){.collective = TUTTI_SEND, .in = &in[h], .peer = h ? before : next, .lanes = t.lanes, .tag = h};
    calls[2 + h] =
        (tutti_call){.collective = TUTTI_RECV, .out = &out[h], .peer = h ? next : before, .lanes = t.lanes, .tag = h};
  }
  tutti_request *request = NULL;
  tutti_err err = tutti_start_all(p->comm, calls, 4, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  for (t.half = 0; t.half < 2; t.half++) {
    if (err != TUTTI_OK || !agrees(p, &t, &out[t.half])) complain(p, &t, err);
    free(in[t.half].data), free(out[t.half].data);
  }
  if (p->rank == 0) p->stage->counted++;
}

/* Returns true if the elements of each block of the tensor lie together, in logical order. */
static bool is_dense(const tutti_tensor *tensor, const struct tensors_kind *kind, bool cut, int dim) {
  size_t before = 1;
  for (int d = 0; d < dim; d++) before *= tensor->shape[d];
  return kind == &tensors_kinds[0] && (!cut || before == 1);
}

static size_t elements_of(const tutti_tensor *tensor) {
  size_t elements = 1;
  for (int d = 0; d < TUTTI_DIMS; d++) elements *= tensor->shape[d];
  return elements;
}

/* Changes a call with dense tensors into one with buffers, or with tensors of one dimension, which replace in and out. */
static void reshape(const struct trial *t, tutti_call *call, tutti_tensor flat[2]) {
  const tutti_tensor *of[2] = {call->in, call->out};
  call->flags = TUTTI_ANY_SHAPE;
  if (call->in && !is_dense(call->in, t->in, t->op->in_cut, t->dim)) return;
  if (call->out && !is_dense(call->out, t->out, t->op->out_cut, t->out_dim)) return;
  if (t->any_shape == 3) {
    call->flags = 0;
    call->send = call->in ? call->in->data : NULL, call->recv = call->out ? call->out->data : NULL;
    call->in = call->out = NULL;
    call->type = t->type;
    call->count = 1;
    for (int d = 0; d < TUTTI_DIMS; d++) call->count *= t->block[d];
  }
  if (t->any_shape != 2) return;
  call->dim = call->out_dim = -1;
  for (int i = 0; i < 2; i++) {
    if (!of[i]) continue;
    const size_t elements = elements_of(of[i]);
    if (tutti_tensor_strided(&flat[i], (tutti_tensor_of){of[i]->data, t->type, 1, &elements}, NULL) != TUTTI_OK)
      abort();
    *(i == 0 ? &call->in : &call->out) = &flat[i];
  }
}

static void play_trial(struct player *p, const struct trial *t) {
  if (t->op->halves) {
    play_halves(p, *t);
    return;
  }
  tutti_tensor in = {0}, out = {0};
  bool p2p = t->op->collective == TUTTI_SEND, at_root = p->rank == t->root;
  bool has_in = !t->op->in_at_root || at_root, has_out = !t->op->out_at_root || at_root;
  if (has_in && !make(p, t, t->in, t->op->in_cut, t->dim, &in)) return;
  if (has_out && !make(p, t, t->out, t->op->out_cut, t->out_dim, &out)) return;
  if (has_in) fill(*t, p->rank, &in);
  tutti_call call = {
      .collective = t->op->collective,
      .in = has_in ? &in : NULL,
      .out = has_out ? &out : NULL,
      .dim = t->dim - (t->dim % 2 ? TUTTI_DIMS : 0), /* gives the dimension as a positive or a negative number */
      .out_dim = t->out_dim,
      .has_out_dim = t->op->collective == TUTTI_ALLTOALL,
      .op = TUTTI_SUM,
      .root = t->root,
      .algorithm = t->algorithm,
      .lanes = t->lanes,
      .peer = (p->rank + 1) % p->ranks};
  if (t->op->out_cut && !t->op->in_cut) call.dim = t->out_dim;
  tutti_tensor flat[2];
  if (t->any_shape) reshape(t, &call, flat);
  tutti_request *request = NULL;
  tutti_err err;
  if (p2p) {
    tutti_call calls[2] = {call, call};
    calls[0].out = NULL, calls[0].recv = NULL;
    calls[1].collective = TUTTI_RECV, calls[1].in = NULL, calls[1].send = NULL,
    calls[1].peer = (p->rank + p->ranks - 1) % p->ranks;
    err = tutti_start_all(p->comm, calls, 2, &request);
  } else {
    err = tutti_start(p->comm, &call, &request);
  }
  if (err == TUTTI_OK) err = tutti_wait(&request);
  if (err != TUTTI_OK || (has_out && !agrees(p, t, &out))) complain(p, t, err);
  free(in.data), free(out.data);
  if (p->rank == 0) p->stage->counted++;
}

/* Returns the number of dimensions along which the operation can run. */
static int dims_of(const struct op *op) { return op->in_cut || op->out_cut ? TUTTI_DIMS : 1; }

static void every_layout(struct player *p) {
  uint32_t number = 0;
  for (size_t o = 0; o < OPS; o++)
    for (int dim = 0; dim < dims_of(&ops[o]); dim++)
      for (size_t in = 0; in < TENSORS_KINDS; in++)
        for (size_t out = 0; out < TENSORS_KINDS && p->stage->failures == 0; out++, number++) {
          struct trial t = {
              .op = &ops[o], .in = &tensors_kinds[in], .out = &tensors_kinds[out], .block = {2, 1, 2, 3, 10}};
          t.tiles = (tutti_tiles){4, 8, 0, 0};
          /* Some messages are so short that they fit into a cache line. */
          if (number % 3 == 0) memcpy(t.block, (const size_t[TUTTI_DIMS]){1, 1, 2, 1, 3}, sizeof t.block);
          t.dim = dim;
          t.out_dim = ops[o].in_cut ? (dim + (int)number % 3) % TUTTI_DIMS
                                    : dim; /* alltoall often uses another dimension for the output */
          t.type = types[number % TYPES];
          t.root = number % p->ranks;
          t.lanes = number % 5;
          if ((in + out + (size_t)dim + p->ranks) % 2)
            t.algorithm = ops[o].both_ways; /* with and without that algorithm, in turn */
          play_trial(p, &t);
        }
}

static uint64_t every_count(void) {
  uint64_t count = 0;
  for (size_t o = 0; o < OPS; o++) count += (uint64_t)dims_of(&ops[o]) * TENSORS_KINDS * TENSORS_KINDS;
  return count;
}

static uint64_t perform(void (*run)(struct player *p), uint32_t ranks, uint64_t seed, void (*over)(struct troupe *t)) {
  return troupe_perform((struct troupe){.run = run, .ranks = ranks, .seed = seed}, over);
}

static void perform_all(void (*over)(struct troupe *t)) {
  static const uint32_t ranks[] = {2, 3, 8};
  uint64_t count = 0;
  for (int i = 0; i < 3; i++) count += perform(every_layout, ranks[i], 0, over);
  printf("  %llu calls\n", (unsigned long long)count);
  CHECK(count == 3 * every_count(), "%llu calls, expected %llu", (unsigned long long)count,
        (unsigned long long)(3 * every_count()));
}

static void test_loop(void) { perform_all(troupe_over_loop); }

#ifndef __SANITIZE_THREAD__
enum { SAMPLE = 500 };
static void some_layouts(struct player *p) {
  uint64_t state = p->seed;
  for (int k = 0; k < SAMPLE && p->stage->failures == 0; k++) {
    struct trial t = {.op = &ops[ranks_random(&state) % OPS]};
    uint64_t in = ranks_random(&state), out = ranks_random(&state); /* every rank has its own layouts */
    t.in = &tensors_kinds[(in + p->rank * (in >> 32)) % TENSORS_KINDS];
    t.out = &tensors_kinds[(out + p->rank * (out >> 32)) % TENSORS_KINDS];
    if (ranks_random(&state) % 3 == 0) t.any_shape = 1 + (uint32_t)(in >> 16 ^ p->rank * (out >> 40)) % 3;
    if (t.any_shape > 1) t.in = t.out = &tensors_kinds[0];
    bool large = ranks_random(&state) % 2,
         tiny = ranks_random(&state) % 4 == 0; /* tiny: the message fits into its cache line */
    for (int d = 0; d < TUTTI_DIMS; d++) t.block[d] = 1 + ranks_random(&state) % (d < 3 ? 2 : d == 3 ? 40 : 90);
    if (tiny) t.block[3] = 1 + t.block[3] % 2, t.block[4] = 1 + t.block[4] % 3;
    t.tiles = large ? (tutti_tiles){32, 32, 0, 0} : (tutti_tiles){2, 16, 0, 0};
    t.dim = (int)(ranks_random(&state) % (uint64_t)dims_of(t.op));
    t.out_dim = t.op->in_cut && t.op->out_cut ? (int)(ranks_random(&state) % TUTTI_DIMS) : t.dim;
    t.type = types[ranks_random(&state) % TYPES];
    t.root = (uint32_t)(ranks_random(&state) % p->ranks);
    if (ranks_random(&state) % 4 == 0) t.algorithm = t.op->both_ways;
    t.lanes = (uint32_t)(ranks_random(&state) % (t.algorithm ? 5 : 9));
    play_trial(p, &t);
  }
}

static void test_shm(void) {
  uint64_t count = perform(some_layouts, 3, test_seed(), troupe_over_shm);
  printf("  %llu calls\n", (unsigned long long)count);
  CHECK(count == SAMPLE, "%llu calls, expected %d", (unsigned long long)count, SAMPLE);
  if (test_long()) perform_all(troupe_over_shm);
}
#endif

int main(int argc, char **argv) {
  static const struct test tests[] = {
#ifndef __SANITIZE_THREAD__
      {"shm", test_shm},
#endif
      {"loop", test_loop},
  };
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
