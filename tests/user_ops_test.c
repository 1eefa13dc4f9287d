/* test: slow timeout=300 */
/* user_ops_test.c: operations of a communicator, and elements of TUTTI_BYTES: every reducing algorithm against a naive
 * fold in rank order, contexts of calls, freed operations, moves, ranks that disagree, and misuse. Ranks are threads or
 * processes. */
#include "algo/algo.h"

#include "troupe.h"

enum { PRIME = 251, GUARD = 32 };

/* ---- operations ---- */

/* The context of the operations: the size of an element, and what the function has seen. */
struct context {
  size_t element_bytes;
  uint64_t combined; /* number of elements */
  bool crooked;      /* true: operands were not aligned as promised, or overlapped partly */
};

static bool overlap_partly(const void *a, const void *b, size_t bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return x != y && x < y + bytes && y < x + bytes;
}

static void note_call(struct context *c, const void *result, const void *left, const void *right, size_t count) {
  size_t aligned = c->element_bytes & -c->element_bytes, bytes = count * c->element_bytes;
  if (aligned > 16) aligned = 16;
  c->combined += count;
  c->crooked |= ((uintptr_t)result | (uintptr_t)left | (uintptr_t)right) % aligned != 0;
  c->crooked |= overlap_partly(result, left, bytes) || overlap_partly(result, right, bytes);
}

/* Multiplies 2x2 matrices of bytes modulo a prime: associative, not commutative. The bytes of an element are such
 * matrices, one after the other; those that are left over are taken from the left operand. */
static void multiply_one(unsigned char *to, const unsigned char *l, const unsigned char *r, size_t bytes) {
  for (size_t at = 0; at + 4 <= bytes; at += 4) {
    const unsigned char *a = l + at, *b = r + at;
    const unsigned char product[4] = {
        (unsigned char)((a[0] * b[0] + a[1] * b[2]) % PRIME), (unsigned char)((a[0] * b[1] + a[1] * b[3]) % PRIME),
        (unsigned char)((a[2] * b[0] + a[3] * b[2]) % PRIME), (unsigned char)((a[2] * b[1] + a[3] * b[3]) % PRIME)};
    memcpy(to + at, product, 4);
  }
  memmove(to + bytes / 4 * 4, l + bytes / 4 * 4, bytes % 4);
}

static void multiply(void *result, const void *left, const void *right, size_t count, tutti_datatype type,
                     void *context) {
  struct context *c = context;
  const size_t bytes = c->element_bytes;
  c->crooked |= type != TUTTI_BYTES;
  note_call(c, result, left, right, count);
  for (size_t i = 0; i < count; i++)
    multiply_one((unsigned char *)result + i * bytes, (const unsigned char *)left + i * bytes,
                 (const unsigned char *)right + i * bytes, bytes);
}

static void add_one(unsigned char *to, const unsigned char *l, const unsigned char *r, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) to[i] = (unsigned char)(l[i] + r[i]);
}

static void add(void *result, const void *left, const void *right, size_t count, tutti_datatype type, void *context) {
  struct context *c = context;
  c->crooked |= type != TUTTI_BYTES;
  note_call(c, result, left, right, count);
  add_one(result, left, right, count * c->element_bytes);
}

/* ---- one call against the naive fold ---- */

struct job {
  tutti_collective collective;
  const char *algorithm; /* NULL: chosen by the library */
  size_t element_bytes, count;
  bool commutes, in_place;
  uint32_t lanes, root;
  uint64_t seed;
};

static unsigned char input_byte(const struct job *j, uint32_t rank, size_t at) {
  uint64_t state = j->seed + rank * 1000003 + at;
  return (unsigned char)(tu_random(&state) % PRIME);
}

static size_t count_of(const struct job *j, uint32_t rank) {
  return j->collective == TUTTI_REDUCE_SCATTERV ? j->count + 3 * rank : j->count;
}

/* Returns the fold of the inputs of ranks [0, to), elements [first, first + count). The caller frees it. */
static unsigned char *fold(const struct job *j, uint32_t to, size_t first, size_t count) {
  const size_t bytes = j->element_bytes, all = count * bytes;
  unsigned char *folded = malloc(all + 1), *next = malloc(all + 1);
  if (!folded || !next) abort();
  for (uint32_t r = 0; r < to; r++) {
    unsigned char *into = r == 0 ? folded : next;
    for (size_t i = 0; i < all; i++) into[i] = input_byte(j, r, first * bytes + i);
    for (size_t i = 0; r > 0 && i < all; i += bytes)
      (j->commutes ? add_one : multiply_one)(folded + i, folded + i, next + i, bytes);
  }
  free(next);
  return folded;
}

static void describe(const struct job *j, char *text, size_t text_bytes) {
  snprintf(text, text_bytes, "%s.%s, %zu elements of %zu bytes, %u lanes, root %u%s%s",
           tutti_collective_name(j->collective), j->algorithm ? j->algorithm : "(default)", j->count, j->element_bytes,
           j->lanes, j->root, j->in_place ? ", in place" : "", j->commutes ? ", commutative" : "");
}

/* The buffers of one rank: a guard, the data, a guard. */
struct buffers {
  unsigned char *in_memory, *out_memory, *in, *out;
  size_t in_bytes, out_bytes;
  size_t counts[TROUPE_MAX];
};

static void fill(struct buffers *b, const struct job *j, const struct player *p, tutti_call *call) {
  const size_t bytes = j->element_bytes, shift = j->seed % 3 ? 0 : 1 + j->seed % 7;
  const bool scatters = j->collective == TUTTI_REDUCE_SCATTER || j->collective == TUTTI_REDUCE_SCATTERV;
  size_t total = 0, own = 0;
  for (uint32_t r = 0; r < p->ranks; r++) {
    if (r == p->rank) own = total;
    b->counts[r] = count_of(j, r);
    total += b->counts[r];
  }
  if (!scatters) total = j->count, own = 0;
  const bool has_out = j->collective != TUTTI_REDUCE || p->rank == j->root, in_place = j->in_place && has_out;
  b->in_bytes = total * bytes;
  b->out_bytes = has_out ? count_of(j, p->rank) * bytes : 0;
  b->in_memory = malloc(b->in_bytes + 2 * GUARD);
  b->out_memory = malloc(b->out_bytes + 2 * GUARD);
  if (!b->in_memory || !b->out_memory) abort();
  memset(b->in_memory, 0x5a, b->in_bytes + 2 * GUARD);
  memset(b->out_memory, 0x5a, b->out_bytes + 2 * GUARD);
  b->in = b->in_memory + GUARD / 2 + shift;
  b->out = in_place ? b->in + own * bytes : b->out_memory + GUARD / 2;
  for (size_t i = 0; i < b->in_bytes; i++) b->in[i] = input_byte(j, p->rank, i);
  *call = (tutti_call){.collective = j->collective,
                       .send = b->in,
                       .recv = b->out,
                       .count = j->count,
                       .type = TUTTI_BYTES,
                       .root = j->root,
                       .algorithm = j->algorithm,
                       .lanes = j->lanes,
                       .element_bytes = bytes};
  if (j->collective == TUTTI_REDUCE_SCATTERV) call->counts = b->counts;
}

static void check_guard(struct player *p, const unsigned char *memory, const unsigned char *data, size_t bytes,
                        const char *what) {
  size_t all = bytes + 2 * GUARD, begin = (size_t)(data - memory), wrong_bytes = 0;
  for (size_t i = 0; i < all; i++) wrong_bytes += (i < begin || i >= begin + bytes) && memory[i] != 0x5a;
  if (wrong_bytes > 0) wrong(p, "rank %u: %zu bytes beside a buffer were written in %s", p->rank, wrong_bytes, what);
}

static void check_result(struct player *p, const struct job *j, const struct buffers *b) {
  char text[256];
  describe(j, text, sizeof text);
  check_guard(p, b->in_memory, b->in, b->in_bytes, text);
  if (b->out < b->in || b->out > b->in + b->in_bytes) check_guard(p, b->out_memory, b->out, b->out_bytes, text);
  if (b->out_bytes == 0 || (j->collective == TUTTI_EXSCAN && p->rank == 0)) return;
  const bool scatters = j->collective == TUTTI_REDUCE_SCATTER || j->collective == TUTTI_REDUCE_SCATTERV;
  uint32_t to = j->collective == TUTTI_SCAN ? p->rank + 1 : j->collective == TUTTI_EXSCAN ? p->rank : p->ranks;
  size_t first = 0, count = b->out_bytes / j->element_bytes;
  for (uint32_t r = 0; scatters && r < p->rank; r++) first += b->counts[r];
  unsigned char *expected = fold(j, to, first, count);
  size_t at = 0;
  while (at < b->out_bytes && b->out[at] == expected[at]) at++;
  if (at < b->out_bytes)
    wrong(p, "rank %u: byte %zu of element %zu is %u, expected %u, in %s", p->rank, at % j->element_bytes,
          at / j->element_bytes, b->out[at], expected[at], text);
  free(expected);
}

/* Creates an operation, carries out the call, and frees the operation; in some jobs it is freed while the call is open,
 * or the call is a persistent one. */
static void carry_out(struct player *p, const struct job *j) {
  struct buffers b;
  tutti_call call;
  tutti_request *request = NULL;
  struct context own = {.element_bytes = j->element_bytes}, other = own;
  const tutti_op_options options = {j->commutes ? add : multiply, &own, j->commutes, j->commutes ? "add" : "multiply"};
  fill(&b, j, p, &call);
  if (!good(p, tutti_comm_op_create(p->comm, &options, &call.op), "op_create")) return;
  const bool frees_early = j->seed % 5 == 0, prepares = j->seed % 7 == 0;
  if (j->seed % 2) call.op_context = &other;
  tutti_err err = prepares ? tutti_prepare(p->comm, &call, &request) : tutti_start(p->comm, &call, &request);
  if (frees_early) good(p, tutti_comm_op_free(p->comm, call.op), "op_free");
  if (prepares && err == TUTTI_OK) err = tutti_restart(request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  char text[256];
  describe(j, text, sizeof text);
  if (good(p, err, text)) check_result(p, j, &b);
  if (prepares) tutti_request_free(request);
  if (!frees_early) good(p, tutti_comm_op_free(p->comm, call.op), "op_free");
  if ((call.op_context ? &own : &other)->combined > 0) wrong(p, "%s: the other context was used", text);
  if (own.crooked || other.crooked) wrong(p, "%s: the operands were not as promised", text);
  p->stage->counted++;
  free(b.in_memory);
  free(b.out_memory);
}

/* ---- reductions ---- */

static void draw(struct player *p, uint64_t *state, struct job *j) {
  static const size_t elements[] = {24, 5, 1, 16, 60, 100, 5000}, counts[] = {0, 1, 7, 300, 9001};
  j->element_bytes = elements[ranks_random(state) % (sizeof elements / sizeof elements[0])];
  j->count = counts[ranks_random(state) % (sizeof counts / sizeof counts[0])];
  if (j->element_bytes > 1000 && j->count > 7) j->count = 40;
  j->in_place = ranks_random(state) % 2;
  j->root = (uint32_t)(ranks_random(state) % p->ranks);
  j->seed = ranks_random(state) % 100000;
}

static void every_algorithm(struct player *p) {
  static const tutti_collective collectives[] = {TUTTI_ALLREDUCE,       TUTTI_REDUCE, TUTTI_REDUCE_SCATTER,
                                                 TUTTI_REDUCE_SCATTERV, TUTTI_SCAN,   TUTTI_EXSCAN};
  uint64_t state = p->seed;
  for (size_t c = 0; c < sizeof collectives / sizeof collectives[0]; c++)
    for (int round = 0; round < 8 && p->stage->failures == 0; round++) {
      struct job j = {.collective = collectives[c], .commutes = round % 4 == 3};
      draw(p, &state, &j);
      if (round % 3 == 1) j.lanes = 1 + (uint32_t)(ranks_random(&state) % 4);
      carry_out(p, &j);
    }
  const struct tu_algorithm *a;
  for (size_t k = 0; (a = tu_algorithm_at(k)) != NULL; k++) {
    if (!tu_reduces(a->collective) || !tu_algorithm_fits(a, p->ranks)) continue;
    for (int round = 0; round < 2 && p->stage->failures == 0; round++) {
      struct job j = {.collective = a->collective, .algorithm = a->name, .commutes = !(a->flags & TU_RANK_ORDER)};
      draw(p, &state, &j);
      if (round == 1) j.lanes = 1 + (uint32_t)(ranks_random(&state) % tu_build_lanes_max(a));
      carry_out(p, &j);
    }
  }
}

/* Long vectors: many slices, and several segments. */
static void long_vectors(struct player *p) {
  static const size_t elements[] = {24, 5, 65536};
  for (int i = 0; i < 3; i++)
    for (uint32_t lanes = 0; lanes < 3; lanes += 2) {
      struct job j = {.collective = lanes ? TUTTI_REDUCE_SCATTER : TUTTI_ALLREDUCE,
                      .element_bytes = elements[i],
                      .count = (lanes ? 3u << 20 : 9u << 20) / elements[i] + 1,
                      .in_place = i % 2,
                      .lanes = lanes,
                      .seed = p->seed % 1000 + (uint64_t)i};
      carry_out(p, &j);
    }
}

/* ---- moves ---- */

static void moves(struct player *p) {
  enum { BYTES = 24, COUNT = 5000 };
  const size_t all = (size_t)BYTES * COUNT;
  const struct job from = {.element_bytes = BYTES, .seed = p->seed};
  unsigned char *mine = malloc(all), *others = malloc(all * p->ranks);
  if (!mine || !others) abort();
  for (size_t i = 0; i < all; i++) mine[i] = input_byte(&from, p->rank, i);
  tutti_call call = {.collective = TUTTI_ALLGATHER,
                     .send = mine,
                     .recv = others,
                     .count = COUNT,
                     .type = TUTTI_BYTES,
                     .element_bytes = BYTES};
  good(p, tutti_run_call(p->comm, &call), "allgather");
  size_t differ = 0;
  for (uint32_t r = 0; r < p->ranks; r++)
    for (size_t i = 0; i < all; i++) differ += others[r * all + i] != input_byte(&from, r, i);
  tutti_call both[2] = {call, call};
  both[0].collective = TUTTI_SEND;
  both[0].peer = (p->rank + 1) % p->ranks;
  both[1].collective = TUTTI_RECV;
  both[1].peer = (p->rank + p->ranks - 1) % p->ranks;
  tutti_request *request = NULL;
  if (good(p, tutti_start_all(p->comm, both, 2, &request), "start")) good(p, tutti_wait(&request), "messages");
  for (size_t i = 0; i < all; i++) differ += others[i] != input_byte(&from, both[1].peer, i);
  if (differ > 0) wrong(p, "rank %u: %zu bytes differ", p->rank, differ);
  free(mine);
  free(others);
}

/* ---- ids, contexts and the end of an operation ---- */

/* Adds, and counts its calls in its context. */
static void chain(void *result, const void *left, const void *right, size_t count, tutti_datatype type, void *context) {
  (void)type;
  for (size_t i = 0; i < count; i++)
    ((uint32_t *)result)[i] = ((const uint32_t *)left)[i] + ((const uint32_t *)right)[i];
  if (context) ++*(uint64_t *)context;
}

static void ids(struct player *p) {
  tutti_comm *dup;
  tutti_op ops[4], first;
  const tutti_op_options options = {.function = chain, .name = "chain"};
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  for (int i = 0; i < 4; i++) {
    good(p, tutti_comm_op_create(dup, &options, &ops[i]), "op_create");
    if (ops[i] != TUTTI_COMM_OPS + (tutti_op)i) wrong(p, "operation %d has the id %u", i, ops[i]);
    if (i == 1) good(p, tutti_comm_op_free(dup, ops[0]), "op_free");
  }
  good(p, tutti_comm_op_free(dup, ops[2]), "op_free");
  good(p, tutti_comm_op_create(p->comm, &options, &first), "op_create");
  good(p, tutti_comm_op_free(p->comm, first), "op_free");
  uint32_t x = 1, sum = 0;
  good(p, tutti_allreduce(dup, &x, &sum, 1, TUTTI_U32, ops[3]), "allreduce");
  if (sum != p->ranks) wrong(p, "the sum is %u", sum);
  if (strcmp(tutti_op_name(ops[3]), "user") != 0 || tutti_datatype_size(TUTTI_BYTES) != 0 ||
      strcmp(tutti_datatype_name(TUTTI_BYTES), "bytes") != 0)
    wrong(p, "names");
  good(p, tutti_comm_free(dup), "free");
}

/* The context of a call holds for this call alone, also if calls repeat. */
static void contexts(struct player *p) {
  uint64_t calls[3] = {0}, counted[3];
  tutti_op op;
  uint32_t x[4] = {1, 2, 3, 4}, sum[4];
  const tutti_op_options options = {.function = chain, .context = &calls[0], .commutative = true};
  if (!good(p, tutti_comm_op_create(p->comm, &options, &op), "op_create")) return;
  for (int i = 0; i < 12; i++) {
    tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = x, .recv = sum, .count = 4, .type = TUTTI_U32, .op = op};
    if (i % 4 >= 2) call.op_context = &calls[i % 4 - 1];
    good(p, tutti_run_call(p->comm, &call), "allreduce");
  }
  good(p, tutti_allreduce(p->comm, calls, counted, 3, TUTTI_U64, TUTTI_SUM), "sum of calls");
  if (counted[0] != 2 * counted[1] || counted[1] != counted[2] || (p->ranks > 1) != (counted[0] > 0))
    wrong(p, "calls by context: %llu, %llu, %llu", (unsigned long long)counted[0], (unsigned long long)counted[1],
          (unsigned long long)counted[2]);
  good(p, tutti_comm_op_free(p->comm, op), "op_free");
}

static bool refused(struct player *p, tutti_comm *comm, tutti_err err, tutti_err expected, const char *facts) {
  const char *text = tutti_error_message(comm);
  if (err == expected && test_contains(text, facts)) return true;
  wrong(p, "rank %u: %s: '%s', expected %s and '%s'", p->rank, tutti_err_name(err), text, tutti_err_name(expected),
        facts);
  return false;
}

/* Checks that the call fails on all ranks of a new communicator, which has the operation "chain". */
static void fails(struct player *p, const tutti_call *call, tutti_err expected, const char *facts) {
  tutti_comm *dup;
  tutti_request *request = NULL;
  tutti_op op;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  good(p, tutti_comm_op_create(dup, &(tutti_op_options){.function = chain, .name = "chain"}, &op), "op_create");
  good(p, tutti_comm_op_create(dup, &(tutti_op_options){.function = chain, .name = "other"}, &op), "op_create");
  tutti_err err = tutti_start(dup, call, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  refused(p, dup, err, expected, facts);
  tutti_comm_free(dup);
}

/* A repeated call takes short cuts past the checks; not if its operation is freed. */
static void freed(struct player *p) {
  for (int by_name = 0; by_name < 2; by_name++) {
    tutti_comm *dup;
    tutti_op op;
    uint32_t x = 1, sum = 0;
    if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
    good(p, tutti_comm_op_create(dup, &(tutti_op_options){.function = chain, .commutative = true}, &op), "op_create");
    const tutti_call call = {
        .collective = TUTTI_ALLREDUCE, .send = &x, .recv = &sum, .count = 1, .type = TUTTI_U32, .op = op};
    tutti_err err = TUTTI_OK;
    for (int i = 0; i < 3; i++)
      good(p, by_name ? tutti_allreduce(dup, &x, &sum, 1, TUTTI_U32, op) : tutti_run_call(dup, &call), "allreduce");
    if (p->rank == 0 || by_name) good(p, tutti_comm_op_free(dup, op), "op_free");
    good(p, tutti_barrier(p->comm), "barrier"); /* the refusal ends dup, and another rank may still be in a call */
    if (!by_name) {
      tutti_request *request = NULL;
      err = tutti_start(dup, &call, &request);
      if (err == TUTTI_OK) err = tutti_wait(&request);
      if (err == TUTTI_OK) err = tutti_barrier(dup);
    } else {
      err = tutti_allreduce(dup, &x, &sum, 1, TUTTI_U32, op);
    }
    refused(p, dup, err, TUTTI_ERR_ARGUMENT, "operation 65536|tutti_comm_op_create");
    refused(p, NULL, tutti_comm_op_free(dup, op), p->rank == 0 || by_name ? TUTTI_ERR_ARGUMENT : TUTTI_OK,
            p->rank == 0 || by_name ? "tutti_comm_op_free: |operation 65536" : "");
    tutti_comm_free(dup);
  }
}

/* ---- errors ---- */

static void disagreement(struct player *p) {
  unsigned char in[48] = {0}, out[48];
  if (p->ranks == 1) return;
  tutti_call call = {.collective = TUTTI_ALLREDUCE,
                     .send = in,
                     .recv = out,
                     .count = 2,
                     .type = TUTTI_BYTES,
                     .op = TUTTI_COMM_OPS,
                     .element_bytes = 8};
  call.op += p->rank == 1;
  fails(p, &call, TUTTI_ERR_MISMATCH, "rank 1 called allreduce|elements of 8 bytes|chain|other");
  call.op = TUTTI_COMM_OPS;
  call.element_bytes = p->rank == 1 ? 4 : 8;
  fails(p, &call, TUTTI_ERR_MISMATCH, "elements of 4 bytes|elements of 8 bytes");
  /* as many bytes, in other elements */
  call.count = p->rank == 1 ? 4 : 2;
  fails(p, &call, TUTTI_ERR_MISMATCH, "count 4, elements of 4 bytes|count 2, elements of 8 bytes");
  size_t counts[TROUPE_MAX] = {0};
  call = (tutti_call){.collective = TUTTI_REDUCE_SCATTERV,
                      .send = in,
                      .recv = out,
                      .counts = counts,
                      .type = TUTTI_BYTES,
                      .op = TUTTI_COMM_OPS,
                      .element_bytes = p->rank == 1 ? 16 : 8};
  fails(p, &call, TUTTI_ERR_MISMATCH, "elements of 16 bytes|elements of 8 bytes");
}

static void refusals(struct player *p) {
  unsigned char in[64] = {0}, out[64];
  tutti_op op;
  const tutti_call whole = {.collective = TUTTI_ALLREDUCE,
                            .send = in,
                            .recv = out,
                            .count = 2,
                            .type = TUTTI_BYTES,
                            .op = TUTTI_COMM_OPS,
                            .element_bytes = 8};
  tutti_call call = whole;
  call.element_bytes = 0;
  fails(p, &call, TUTTI_ERR_ARGUMENT, "allreduce: |element_bytes is 0|1 to 65536");
  call.element_bytes = 65537;
  fails(p, &call, TUTTI_ERR_ARGUMENT, "element_bytes is 65537");
  call = whole;
  call.type = TUTTI_F32;
  fails(p, &call, TUTTI_ERR_ARGUMENT, "element_bytes is 8|f32|TUTTI_BYTES");
  call = whole;
  call.op = TUTTI_SUM;
  fails(p, &call, TUTTI_ERR_ARGUMENT, "sum|bytes|tutti_comm_op_create");
  call.op = TUTTI_COMM_OPS + 2;
  fails(p, &call, TUTTI_ERR_ARGUMENT, "operation 65538");
  call = (tutti_call){.collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = 2, .type = TUTTI_I32};
  call.op_context = &call;
  fails(p, &call, TUTTI_ERR_ARGUMENT, "op_context|sum");
  call.op_context = NULL;
  call.type = TUTTI_BOOL;
  call.op = TUTTI_AVG;
  fails(p, &call, TUTTI_ERR_ARGUMENT, "allreduce: |avg|bool");

  /* These concern this rank alone, and leave the communicator as it is. */
  const tutti_op_options none = {.name = "none"}, some = {.function = chain};
  refused(p, NULL, tutti_comm_op_create(p->comm, &none, &op), TUTTI_ERR_ARGUMENT, "tutti_comm_op_create: |function");
  refused(p, NULL, tutti_comm_op_create(NULL, &some, &op), TUTTI_ERR_ARGUMENT, "comm is NULL");
  refused(p, NULL, tutti_comm_op_create(p->comm, &some, NULL), TUTTI_ERR_ARGUMENT, "op is NULL");
  refused(p, NULL, tutti_comm_op_create_sized(p->comm, NULL, sizeof some, &op), TUTTI_ERR_ARGUMENT, "options is NULL");
  refused(p, NULL, tutti_comm_op_create_sized(p->comm, &some, 8, &op), TUTTI_ERR_ARGUMENT, "options_bytes is 8");
  refused(p, NULL, tutti_comm_op_free(p->comm, TUTTI_SUM), TUTTI_ERR_ARGUMENT, "tutti_comm_op_free: |operation 0");
  refused(p, NULL, tutti_comm_op_free(NULL, TUTTI_COMM_OPS), TUTTI_ERR_ARGUMENT, "comm is NULL");
  good(p, tutti_barrier(p->comm), "barrier");
}

/* An element longer than a slot could not cross in one slice. */
static void beyond_a_slot(struct player *p) {
  tutti_comm *dup;
  unsigned char in[1000] = {0}, out[1000];
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  const uint32_t slot = dup->mover->shape.slot_bytes;
  dup->mover->shape.slot_bytes = 512;
  tutti_call call = {.collective = TUTTI_BROADCAST, .send = in, .recv = out, .count = 1, .type = TUTTI_BYTES};
  call.element_bytes = sizeof in;
  refused(p, dup, tutti_run_call(dup, &call), TUTTI_ERR_ARGUMENT, "element_bytes is 1000|512|TUTTI_SLOT_BYTES");
  dup->mover->shape.slot_bytes = slot;
  tutti_comm_free(dup);
}

static const struct troupe_case cases[] = {
    {TROUPE_CASE(every_algorithm)}, {TROUPE_CASE(long_vectors)}, {TROUPE_CASE(moves)},        {TROUPE_CASE(ids)},
    {TROUPE_CASE(contexts)},        {TROUPE_CASE(freed)},        {TROUPE_CASE(disagreement)}, {TROUPE_CASE(refusals)},
    {TROUPE_CASE(beyond_a_slot)},
};

int main(int argc, char **argv) {
  return troupe_main(cases, sizeof cases / sizeof cases[0], TROUPE_TRANSPORTS(1, 2, 3, 4, 5), argc, argv);
}
