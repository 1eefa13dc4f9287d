/* test: slow timeout=600 */
/* order_test.c: the canonical order (docs/ORDER.md): every reduction has the bits of a naive fold over the ranks, whatever the
 * collective, count, algorithm, lanes, layout, memory and transport.
 *
 * The calls are a covering array: every pair of values of two axes occurs in some call, if there are such calls. TEST_LONG:
 * also every combination of world, ranks, collective, count, type and place, with the other axes drawn. */
#include <tutti/tensor.h>

#include "algo/algo.h"
#include "base/types.h"
#include "hosts.h"
#include "kernels_reference.h"

/* ---- axes ---- */

enum axis { WORLD, RANKS, COLLECTIVE, COUNT, TYPE, OP, OFFSET, LANES, LAYOUT, PLACE, ALGORITHM, SOURCE, LEAVES, AXES };

enum layout { PACKED, GAPS, TILES, LAYOUTS };
enum source { OF_CALL, OF_COMM, SOURCES };
enum { ALGORITHMS = 5, OPERANDS_CHECKED = 3200 };
/* MOST: 4 M elements and one, on at most 4 ranks. The input repeats after PERIOD items, so that it is quickly written. */
enum { MOST = (4 << 20) + 1, PERIOD = 10007 };

static const uint32_t rank_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 12};
static const tutti_collective collectives[] = {TUTTI_ALLREDUCE,       TUTTI_REDUCE, TUTTI_REDUCE_SCATTER,
                                               TUTTI_REDUCE_SCATTERV, TUTTI_SCAN,   TUTTI_EXSCAN};
/* Elements of a block: around the limits of the selection table, and of slots, and many. */
static const size_t counts[] = {0, 1, 7, 255, 1000, 2049, 8193, 16385, 40000, 262145, MOST};
static const tutti_datatype types[] = {TUTTI_F32,    TUTTI_F64,  TUTTI_F16,  TUTTI_BF16, TUTTI_F8E4M3,
                                       TUTTI_F8E5M2, TUTTI_BFP8, TUTTI_BFP4, TUTTI_I32,  TUTTI_U8};
/* User operations stand beyond those of the library. */
enum { USER = TU_OPS, USER_IN_ORDER };
static const tutti_op ops[] = {TUTTI_SUM, TUTTI_PROD,       TUTTI_MIN, TUTTI_MAX,
                               TUTTI_AVG, TUTTI_PREMUL_SUM, USER,      USER_IN_ORDER};
static const size_t offsets[] = {0, 1, 3};
static const uint32_t lanes[] = {0, 1, 2, 4};

/* Leaves of each rank; 0: none. Numbers that are no power of two are for one rank. */
static const struct leaves {
  uint32_t count;
  bool folded;
} leaf_counts[] = {{0, false}, {1, false}, {2, false}, {4, false}, {16, false}, {7, false}, {12, false},
                   {1, true},  {2, true},  {4, true},  {16, true}, {7, true},   {12, true}};

struct world {
  const char *name;
  void (*over)(struct troupe *t);
  uint32_t ranks_min;
};

/* Hosts of two ranks, and of four, of which the last may have fewer; and hosts whose ranks are no blocks of the tree. */
static uint32_t in_pairs(uint32_t rank, uint32_t ranks) { return ranks > 6 ? rank / 4 : rank / 2; }
static uint32_t in_threes(uint32_t rank, uint32_t ranks) { return ranks > 9 ? rank / 7 : rank / 3; }
static void over_pairs(struct troupe *t) { troupe_over_hosts(t, in_pairs); }
static void over_threes(struct troupe *t) { troupe_over_hosts(t, in_threes); }

static const struct world worlds[] = {
#ifndef __SANITIZE_THREAD__
    {"shm", troupe_over_shm, 1},
#endif
    {"loop", troupe_over_loop, 1},
    {"hosts of two or four", over_pairs, 3},
    {"hosts of three", over_threes, 4},
    {"woven hosts", troupe_over_two_hosts, 2}};

#define SIZE(array) (sizeof(array) / sizeof(array)[0])
static const uint32_t sizes[AXES] = {[WORLD] = SIZE(worlds),
                                     [RANKS] = SIZE(rank_counts),
                                     [COLLECTIVE] = SIZE(collectives),
                                     [COUNT] = SIZE(counts),
                                     [TYPE] = SIZE(types),
                                     [OP] = SIZE(ops),
                                     [OFFSET] = SIZE(offsets),
                                     [LANES] = SIZE(lanes),
                                     [LAYOUT] = LAYOUTS,
                                     [PLACE] = 2,
                                     [ALGORITHM] = ALGORITHMS,
                                     [SOURCE] = SOURCES,
                                     [LEAVES] = SIZE(leaf_counts)};

struct row {
  uint8_t at[AXES];
};

/* ---- which calls there are ---- */

static bool is_scatter(tutti_collective c) { return tu_collectives[c].family == TUTTI_REDUCE_SCATTER; }

static uint32_t leaves_of(const struct row *r) {
  return leaf_counts[r->at[LEAVES]].count ? leaf_counts[r->at[LEAVES]].count : 1;
}

/* Items of a block. Block floats lie in tiles of one group, so that memory has one item after the other. */
static size_t items_of(const struct row *r) {
  const size_t count = counts[r->at[COUNT]];
  return is_grouped(types[r->at[TYPE]]) ? count / GROUP : count;
}

static bool is_real(const struct row *r) {
  const tutti_collective c = collectives[r->at[COLLECTIVE]];
  const tutti_datatype type = types[r->at[TYPE]];
  const tutti_op op = ops[r->at[OP]];
  const uint32_t ranks = rank_counts[r->at[RANKS]];
  const bool prefix = c == TUTTI_SCAN || c == TUTTI_EXSCAN, packed = r->at[LAYOUT] == PACKED;
  if (ranks < worlds[r->at[WORLD]].ranks_min) return false;
  if (prefix && op == TUTTI_AVG) return false;
  if (op >= USER && type != TUTTI_F32) return false;
  if (is_grouped(type) != (r->at[LAYOUT] == TILES)) return false; /* only block floats lie in tiles here */
  if (!packed && (c == TUTTI_REDUCE_SCATTERV || (is_scatter(c) && r->at[PLACE]))) return false;
  if (!packed && items_of(r) == 0) return false;
  if (r->at[LAYOUT] == TILES && r->at[OFFSET] > 0) return false;
  if (ranks > 1 && (leaves_of(r) & (leaves_of(r) - 1))) return false;
  if (counts[r->at[COUNT]] == MOST) return leaves_of(r) == 1 && ranks <= (is_scatter(c) ? 2 : 4);
  return items_of(r) * ranks * leaves_of(r) <= (size_t)1 << (ranks <= 4 ? 20 : 18);
}

/* ---- the covering array ---- */

enum { TRIES = 30 };
struct array {
  struct row *rows;
  uint32_t count, capacity, pairs, left;
};

enum { VALUES = 16 };
static uint8_t covered[AXES * VALUES * AXES * VALUES]; /* [axis a][value][axis b][value] */
static uint8_t *pair_at(uint32_t a, uint32_t x, uint32_t b, uint32_t y) {
  return &covered[((a * VALUES + x) * AXES + b) * VALUES + y];
}

static uint32_t gain_of(const struct row *r) {
  uint32_t gain = 0;
  for (uint32_t a = 0; a < AXES; a++)
    for (uint32_t b = 0; b < a; b++) gain += !*pair_at(a, r->at[a], b, r->at[b]);
  return gain;
}

/* Draws a row that has these two values. Returns false if there seems to be none. */
static bool draw(struct row *r, uint32_t a, uint32_t x, uint32_t b, uint32_t y, uint64_t *state) {
  for (int i = 0; i < 2000; i++) {
    for (uint32_t k = 0; k < AXES; k++) r->at[k] = (uint8_t)(ranks_random(state) % sizes[k]);
    r->at[a] = (uint8_t)x;
    r->at[b] = (uint8_t)y;
    if (is_real(r)) return true;
  }
  return false;
}

static void add(struct array *all, const struct row *r) {
  if (all->count == all->capacity) {
    all->capacity = 2 * all->capacity + 64;
    all->rows = realloc(all->rows, all->capacity * sizeof *all->rows);
  }
  all->rows[all->count++] = *r;
  for (uint32_t a = 0; a < AXES; a++)
    for (uint32_t b = 0; b < a; b++) *pair_at(a, r->at[a], b, r->at[b]) = 1;
}

static void cover(struct array *all, uint64_t *state) {
  memset(covered, 0, sizeof covered);
  for (uint32_t a = 0; a < AXES; a++)
    for (uint32_t b = 0; b < a; b++)
      for (uint32_t x = 0; x < sizes[a]; x++)
        for (uint32_t y = 0; y < sizes[b]; y++, all->pairs++) {
          struct row best = {{0}}, tried;
          uint32_t gain = 0;
          for (int k = 0; k < TRIES && !*pair_at(a, x, b, y); k++) {
            if (!draw(&tried, a, x, b, y, state)) break;
            if (gain_of(&tried) <= gain) continue;
            gain = gain_of(&tried);
            best = tried;
          }
          if (gain > 0) add(all, &best);
          all->left += !*pair_at(a, x, b, y);
        }
}

/* Adds every combination of the axes that have most to do with the order. */
static void add_product(struct array *all, uint64_t *state) {
  static const enum axis fixed[] = {WORLD, RANKS, COLLECTIVE, COUNT, TYPE, PLACE};
  uint32_t total = 1;
  for (size_t f = 0; f < SIZE(fixed); f++) total *= sizes[fixed[f]];
  for (uint32_t n = 0; n < total; n++) {
    struct row r;
    bool real = false;
    for (int tries = 0; tries < 100 && !real; tries++) {
      for (uint32_t k = 0; k < AXES; k++) r.at[k] = (uint8_t)(ranks_random(state) % sizes[k]);
      for (uint32_t rest = n, f = 0; f < SIZE(fixed); rest /= sizes[fixed[f]], f++)
        r.at[fixed[f]] = (uint8_t)(rest % sizes[fixed[f]]);
      real = is_real(&r);
    }
    if (real) add(all, &r);
  }
}

/* ---- data ---- */

struct call {
  struct player *p;
  const struct row *row;
  tutti_collective collective;
  struct tu_arithmetic a; /* its op is that of the reference */
  tutti_op op;            /* of the call */
  size_t items;           /* of a block */
  uint32_t root, leaves;
  bool in_place;
};

static void combine_user(void *result, const void *left, const void *right, size_t count, tutti_datatype type,
                         void *context) {
  (void)type;
  for (size_t i = 0; i < count; i++) {
    float x, y;
    memcpy(&x, (const char *)left + 4 * i, 4), memcpy(&y, (const char *)right + 4 * i, 4);
    x = context ? x * 0.75f + y : (x + y) * 1.0625f;
    memcpy((char *)result + 4 * i, &x, 4);
  }
}

static double draw_value(uint64_t bits, bool spread) {
  const double fraction = (double)(bits >> 12) * 0x1p-52 - 0.5;
  return spread ? ldexp(fraction, (int)(bits % 12) - 4) : fraction * 4;
}

/* Writes item `i` of a leaf. Leaves are numbered over all ranks. */
static void input(const struct call *k, uint32_t leaf, size_t i, void *item) {
  const tutti_datatype type = k->a.type;
  uint64_t state = k->p->seed ^ (leaf * 0x9e3779b97f4a7c15u) ^ (i % PERIOD * 0xc2b2ae3d27d4eb4fu);
  double values[GROUP];
  for (int g = 0; g < (is_grouped(type) ? GROUP : 1); g++)
    values[g] = draw_value(ranks_random(&state), k->a.op != TUTTI_PROD);
  if (is_grouped(type)) group_write(type, item, values);
  else if (tu_datatypes[type].floating) float_write(type, item, values[0]);
  else integer_write(type, item, (wide)(ranks_random(&state) % 200));
}

static double scale_of(const struct call *k, uint32_t rank) {
  return tu_datatypes[k->a.type].floating ? 0.3 * (rank + 1) : 1 + rank % 3;
}

/* The operand of a leaf: its input, for premul_sum multiplied and rounded. */
static void operand(const struct call *k, uint32_t leaf, size_t i, void *item) {
  const tutti_datatype type = k->a.type;
  const uint32_t rank = leaf / k->leaves;
  input(k, leaf, i, item);
  if (k->a.op != TUTTI_PREMUL_SUM) return;
  const double factor = tu_datatypes[type].floating ? float_round(type, scale_of(k, rank)) : 0;
  if (is_grouped(type)) {
    double values[GROUP];
    for (size_t g = 0; g < GROUP; g++)
      values[g] = float_round(type, float_step(TUTTI_PROD, group_read(type, item, g), factor));
    group_write(type, item, values);
  } else if (tu_datatypes[type].floating) {
    float_write(type, item, float_round(type, float_step(TUTTI_PROD, float_read(type, item), factor)));
  } else {
    integer_write(type, item, integer_read(type, item) * (wide)scale_of(k, rank));
  }
}

/* The naive fold of the leaves `first` to `first` + n - 1. */
static void fold(const struct call *k, uint32_t first, uint32_t n, size_t i, bool root, void *item) {
  char left[ITEM_MAX], right[ITEM_MAX];
  const void *operands[] = {left, right};
  if (n == 1) {
    operand(k, first, i, left);
    reference(&k->a, item, operands, 1, 1, root);
    return;
  }
  uint32_t half = 1;
  while (2 * half < n) half *= 2;
  fold(k, first, half, i, false, left);
  fold(k, first + half, n - half, i, false, right);
  if (k->op >= USER) combine_user(item, left, right, 1, TUTTI_F32, k->op == USER_IN_ORDER ? item : NULL);
  else reference(&k->a, item, operands, 2, 1, root);
}

/* ---- one call ---- */

/* A buffer of items, and where they lie. */
struct buffer {
  unsigned char *memory, *base;
  size_t stride, item_bytes;
};

static struct buffer make(const struct call *k, size_t items) {
  const size_t bytes = tu_datatypes[k->a.type].bytes;
  struct buffer b = {.stride = k->row->at[LAYOUT] == GAPS ? 2 * bytes : bytes, .item_bytes = bytes};
  b.memory = tu_allocate(items * b.stride + 64 + 4 * bytes, 1);
  b.base = b.memory + offsets[k->row->at[OFFSET]] * bytes;
  return b;
}

/* Describes a buffer as a tensor of `rows` times as many items as a block. */
static bool describe(const struct call *k, const struct buffer *b, size_t rows, tutti_tensor *tensor) {
  const size_t items = rows * k->items, shape[] = {items}, gaps[] = {2};
  const size_t of_tiles[] = {items, GROUP};
  const tutti_tiles tiles = {.rows = 1, .cols = GROUP};
  if (k->row->at[LAYOUT] == GAPS)
    return good(k->p, tutti_tensor_strided(tensor, (tutti_tensor_of){b->base, k->a.type, 1, shape}, gaps), "tensor");
  return good(k->p, tutti_tensor_interleaved(tensor, (tutti_tensor_of){b->base, k->a.type, 2, of_tiles}, &tiles, 1),
              "tensor of tiles");
}

static void complain(const struct call *k, size_t i, const char *what) {
  const struct row *r = k->row;
  wrong(k->p,
        "%s, %u ranks, rank %u: %s of %zu %s, op %u, offset %zu, %u lanes, layout %u, %s, algorithm %u, %u leaves%s: "
        "item %zu: %s",
        worlds[r->at[WORLD]].name, k->p->ranks, k->p->rank, tutti_collective_name(k->collective), k->items,
        tutti_datatype_name(k->a.type), ops[r->at[OP]], offsets[r->at[OFFSET]], lanes[r->at[LANES]], r->at[LAYOUT],
        k->in_place ? "in place" : "out of place", r->at[ALGORITHM], leaf_counts[r->at[LEAVES]].count,
        leaf_counts[r->at[LEAVES]].folded ? ", folded" : "", i, what);
}

/* Compares items of the output with the fold: all of a short one, or a sample, with the first and the last ones. */
static void compare(const struct call *k, const struct buffer *out, size_t first, size_t items) {
  const uint32_t high = k->collective == TUTTI_SCAN     ? k->p->rank + 1
                        : k->collective == TUTTI_EXSCAN ? k->p->rank
                                                        : k->p->ranks;
  const size_t many = tu_max(OPERANDS_CHECKED / (k->p->ranks * k->leaves), 40), checked = tu_min(items, many);
  uint64_t state = k->p->seed + k->p->rank;
  for (size_t n = 0; n < checked; n++) {
    const size_t i = items == checked || n < many / 4 ? n
                     : n < many / 2                   ? items - 1 - (n - many / 4)
                                                      : ranks_random(&state) % items;
    char want[ITEM_MAX];
    fold(k, 0, high * k->leaves, first + i, true, want);
    if (memcmp(out->base + i * out->stride, want, out->item_bytes) == 0) continue;
    complain(k, i, "differs from the canonical fold");
    return;
  }
}

/* Returns one of the algorithms that have the canonical order, or NULL. */
static const char *algorithm_of(const struct call *k) {
  uint32_t number = k->row->at[ALGORITHM], seen = 0;
  const tutti_collective family = tu_collectives[k->collective].family;
  for (size_t i = 0; number > 0 && i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    const bool serves = a->collective == family && !(a->flags & TU_BY_HOSTS) && /* worlds of one host */
                        tu_algorithm_is_canonical(a, k->p->ranks, NULL) && tu_algorithm_fits(a, k->p->ranks) &&
                        lanes[k->row->at[LANES]] <= tu_build_lanes_max(a) && (k->op < USER || a->flags & TU_RANK_ORDER);
    if (serves && ++seen == number) return a->name;
  }
  return NULL;
}

/* The buffers of a call on one rank. */
struct buffers {
  struct buffer in, out;    /* in: of the first leaf */
  size_t leaf_bytes;        /* from the start of a leaf to the next */
  size_t sizes[TROUPE_MAX]; /* items of each rank's block */
  size_t first, items;      /* where this rank's part of the result begins, and its length, in items */
  bool has_out;
  tutti_tensor tensors[2];
};

static void lay_out(const struct call *k, struct buffers *b) {
  const struct player *p = k->p;
  const bool scatters = is_scatter(k->collective), varies = k->collective == TUTTI_REDUCE_SCATTERV;
  size_t all = 0;
  for (uint32_t r = 0; r < p->ranks; r++) {
    b->sizes[r] = varies && r % 2 ? k->items / 2 : k->items;
    if (r == p->rank) b->first = scatters ? all : 0;
    all += b->sizes[r];
  }
  if (!scatters) all = k->items;
  b->items = b->sizes[p->rank];
  b->has_out = (k->collective != TUTTI_REDUCE || p->rank == k->root) && (k->collective != TUTTI_EXSCAN || p->rank > 0);
  b->in = make(k, all * k->leaves);
  b->leaf_bytes = all ? (all - 1) * b->in.stride + b->in.item_bytes : 0;
  for (uint32_t leaf = 0; leaf < k->leaves; leaf++)
    for (size_t i = 0; i < all; i++) {
      unsigned char *item = b->in.base + leaf * b->leaf_bytes + i * b->in.stride;
      if (i < PERIOD) input(k, p->rank * k->leaves + leaf, i, item);
      else memcpy(item, item - PERIOD * b->in.stride, b->in.item_bytes);
    }
  b->out = k->in_place && b->has_out ? b->in : make(k, b->items);
  if (k->in_place && b->has_out) b->out.base += b->first * b->in.stride;
}

static bool describe_both(const struct call *k, struct buffers *b, tutti_call *call) {
  call->in = &b->tensors[0];
  call->out = b->has_out ? &b->tensors[1] : NULL;
  return describe(k, &b->in, is_scatter(k->collective) ? k->p->ranks : 1, &b->tensors[0]) &&
         (!b->has_out || describe(k, &b->out, 1, &b->tensors[1]));
}

static struct call call_of(struct player *p, const struct row *row) {
  const tutti_op op = ops[row->at[OP]];
  return (struct call){
      .p = p,
      .row = row,
      .collective = collectives[row->at[COLLECTIVE]],
      .a = {.type = types[row->at[TYPE]], .op = op < USER ? op : TUTTI_SUM, .divisor = p->ranks * leaves_of(row)},
      .op = op,
      .items = items_of(row),
      .root = (uint32_t)(row->at[COUNT] + row->at[TYPE]) % p->ranks,
      .leaves = leaves_of(row),
      .in_place = row->at[PLACE],
  };
}

/* Adds up the leaves by tutti_fold, twice, and makes the result the input of the call. */
static bool fold_leaves(const struct call *k, struct buffers *b, tutti_call *call, tutti_fold **made) {
  struct player *p = k->p;
  if (!good(p, tutti_fold_create(p->comm, call, made), "fold_create")) return false;
  for (uint32_t n = 0; n < 2 * k->leaves; n++) {
    if (n % k->leaves && tutti_fold_result(*made)) wrong(p, "a fold of %u of %u leaves has a result", n, k->leaves);
    if (!good(p, tutti_fold_add(*made, b->in.base + n % k->leaves * b->leaf_bytes), "fold_add")) return false;
  }
  unsigned char *result = tutti_fold_result(*made);
  if (!result) return wrong(p, "a fold of %u leaves has no result", k->leaves), false;
  if (k->in_place && b->has_out) b->out.base = result + b->first * b->in.stride, call->recv = b->out.base;
  call->send = result;
  b->tensors[0].data = result;
  if (k->in_place) b->tensors[1].data = b->out.base;
  return true;
}

static void play_row(struct player *p, const struct row *row, const tutti_op user[2]) {
  const struct call k = call_of(p, row);
  struct buffers b = {.first = 0};
  lay_out(&k, &b);
  tutti_call call = {.collective = k.collective,
                     .send = b.in.base,
                     .recv = b.has_out ? b.out.base : NULL,
                     .count = k.items,
                     .type = k.a.type,
                     .op = k.op < USER ? k.op : user[k.op - USER],
                     .root = k.root,
                     .counts = k.collective == TUTTI_REDUCE_SCATTERV ? b.sizes : NULL,
                     .scale = scale_of(&k, p->rank),
                     .algorithm = algorithm_of(&k),
                     .lanes = lanes[row->at[LANES]],
                     .leaves = leaf_counts[row->at[LEAVES]].count,
                     .folded = leaf_counts[row->at[LEAVES]].folded,
                     .order = row->at[SOURCE] == OF_CALL ? TUTTI_ORDER_CANONICAL : TUTTI_ORDER_ANY};
  p->comm->order = row->at[SOURCE] == OF_COMM ? TUTTI_ORDER_CANONICAL : TUTTI_ORDER_ANY;
  tutti_fold *folded = NULL;
  bool made = row->at[LAYOUT] == PACKED || describe_both(&k, &b, &call);
  if (made && call.folded) made = fold_leaves(&k, &b, &call, &folded);
  const tutti_err err = made ? tutti_run_call(p->comm, &call) : TUTTI_OK;
  if (err != TUTTI_OK) complain(&k, 0, tutti_error_message(p->comm));
  else if (made && b.has_out) compare(&k, &b.out, b.first, b.items);
  tutti_fold_free(folded);
  free(b.in.memory);
  if (b.out.memory != b.in.memory) free(b.out.memory);
  if (p->rank == 0) p->stage->counted++;
}

/* ---- the test ---- */

static struct array array;
static uint32_t world_at, ranks_at;

static void play(struct player *p) {
  tutti_op user[2];
  const tutti_op_options commutes = {.function = combine_user, .commutative = true, .name = "mean"};
  const tutti_op_options in_order = {.function = combine_user, .context = p, .name = "lean"};
  if (!good(p, tutti_comm_op_create(p->comm, &commutes, &user[0]), "op_create") ||
      !good(p, tutti_comm_op_create(p->comm, &in_order, &user[1]), "op_create"))
    return;
  for (uint32_t i = 0; i < array.count && p->stage->failures == 0; i++)
    if (array.rows[i].at[WORLD] == world_at && array.rows[i].at[RANKS] == ranks_at) play_row(p, &array.rows[i], user);
}

/* Makes all calls of the array. */
static void perform_rows(uint64_t *state) {
  uint64_t calls = 0;
  for (world_at = 0; world_at < SIZE(worlds); world_at++)
    for (ranks_at = 0; ranks_at < SIZE(rank_counts) && !test_failures; ranks_at++) {
      if (rank_counts[ranks_at] < worlds[world_at].ranks_min) continue;
      calls += troupe_perform((struct troupe){.run = play, .ranks = rank_counts[ranks_at], .seed = ranks_random(state)},
                              worlds[world_at].over);
    }
  CHECK(test_failures || calls == array.count, "%llu of %u calls were made", (unsigned long long)calls, array.count);
  free(array.rows);
}

static void test_cover(void) {
  uint64_t state = test_seed();
  array = (struct array){.count = 0};
  cover(&array, &state);
  if (test_long()) add_product(&array, &state);
  printf("  %u calls cover %u of %u pairs\n", array.count, array.pairs - array.left, array.pairs);
  perform_rows(&state);
}

/* 12 and 16 leaves, on all numbers of ranks on which they have the same bits, of all types and operations. */
static void test_leaves(void) {
  enum { LOOP = SIZE(worlds) - 4, SOME = 3 };
  uint64_t state = test_seed();
  uint32_t at[] = {0, 0, 0, 0};
  const uint32_t ends[] = {SIZE(rank_counts), SIZE(leaf_counts), SIZE(types), SIZE(ops)};
  array = (struct array){.count = 0};
  while (at[3] < ends[3]) {
    struct row r = {{[WORLD] = LOOP,
                     [COUNT] = SOME,
                     [RANKS] = (uint8_t)at[0],
                     [LEAVES] = (uint8_t)at[1],
                     [TYPE] = (uint8_t)at[2],
                     [OP] = (uint8_t)at[3]}};
    const uint32_t leaves = leaf_counts[at[1]].count * rank_counts[at[0]];
    if (is_grouped(types[at[2]])) r.at[LAYOUT] = TILES;
    r.at[COLLECTIVE] = (uint8_t)(ranks_random(&state) % SIZE(collectives));
    if (!is_real(&r)) r.at[COLLECTIVE] = 0;
    if ((leaves == 12 || leaves == 16) && is_real(&r)) add(&array, &r);
    for (uint32_t i = 0; i < 4 && ++at[i] == ends[i] && i < 3; i++) at[i] = 0;
  }
  printf("  %u calls of 12 and 16 leaves\n", array.count);
  perform_rows(&state);
}

/* The same comparison finds that a ring has another order. */
static void play_ring(struct player *p) {
  enum { MANY = 1000 };
  const struct row row = {{[RANKS] = 0}};
  const struct call k = call_of(p, &row);
  float in[MANY], out[MANY], want;
  uint64_t differs = 0;
  for (size_t i = 0; i < MANY; i++) input(&k, p->rank, i, &in[i]);
  const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                           .send = in,
                           .recv = out,
                           .count = MANY,
                           .type = TUTTI_F32,
                           .op = TUTTI_SUM,
                           .algorithm = "ring"};
  if (!good(p, tutti_run_call(p->comm, &call), "ring")) return;
  for (size_t i = 0; i < MANY; i++) {
    fold(&k, 0, p->ranks, i, true, &want);
    differs += memcmp(&want, &out[i], sizeof want) != 0;
  }
  p->stage->counted += differs;
  const char *name;
  bool canonical = true;
  if (!good(p, tutti_query_call(p->comm, &call, &name, &canonical), "query")) return;
  if (strcmp(name, "ring") != 0 || canonical) wrong(p, "the query of a ring: %s, %d", name, canonical);
  tutti_call asks = call;
  asks.algorithm = NULL;
  asks.order = TUTTI_ORDER_CANONICAL;
  if (!good(p, tutti_query_call(p->comm, &asks, &name, &canonical), "query") || !canonical)
    wrong(p, "the query of a canonical call: %d", canonical);
  asks.order = TUTTI_ORDER_ANY;
  asks.type = TUTTI_I32;
  if (!good(p, tutti_query_call(p->comm, &asks, NULL, &canonical), "query") || !canonical)
    wrong(p, "the query of a call of integers: %d", canonical);
  tutti_call refused = call;
  refused.order = TUTTI_ORDER_CANONICAL;
  if (tutti_check_call(p->comm, &refused) != TUTTI_ERR_ARGUMENT ||
      !test_contains(tutti_error_message(NULL), "ring|allreduce|canonical order"))
    wrong(p, "a ring in the canonical order: %s", tutti_error_message(NULL));
}

/* One rank asks for the canonical order, the others do not. With integers that makes no difference. */
static void play_mismatch(struct player *p) {
  float x = 1, y = 0;
  uint32_t a = 1, b = 0;
  tutti_call call = {.collective = TUTTI_ALLREDUCE,
                     .send = &a,
                     .recv = &b,
                     .count = 1,
                     .type = TUTTI_U32,
                     .op = TUTTI_SUM,
                     .order = p->rank == 0 ? TUTTI_ORDER_CANONICAL : TUTTI_ORDER_ANY};
  if (!good(p, tutti_run_call(p->comm, &call), "integers") || b != p->ranks) wrong(p, "integers: %u", b);
  call.send = &x, call.recv = &y, call.type = TUTTI_F32;
  const tutti_err err = tutti_run_call(p->comm, &call);
  if (err != TUTTI_ERR_MISMATCH || !test_contains(tutti_error_message(p->comm), "rank 0|sum, canonical"))
    wrong(p, "another order on rank 0: %s: %s", tutti_err_name(err), tutti_error_message(p->comm));
  p->stage->counted++;
}

static void test_mismatch(void) {
  for (uint32_t ranks = 2; ranks <= 5; ranks++)
    (void)troupe_perform((struct troupe){.run = play_mismatch, .ranks = ranks, .fails = true}, troupe_over_loop);
}

/* Rank 0 has other leaves than the others. */
static void play_other_leaves(struct player *p) {
  const float x[] = {1, 2, 3, 4};
  float y;
  const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                           .send = x,
                           .recv = &y,
                           .count = 1,
                           .type = TUTTI_F32,
                           .op = TUTTI_SUM,
                           .leaves = p->rank == 0 ? 4 : 2};
  const tutti_err err = tutti_run_call(p->comm, &call);
  if (err != TUTTI_ERR_MISMATCH || !test_contains(tutti_error_message(p->comm), "4 leaves|2 leaves"))
    wrong(p, "other leaves on rank 0: %s: %s", tutti_err_name(err), tutti_error_message(p->comm));
  p->stage->counted++;
}

static void test_other_leaves(void) {
  for (uint32_t ranks = 2; ranks <= 5; ranks++)
    (void)troupe_perform((struct troupe){.run = play_other_leaves, .ranks = ranks, .fails = true}, troupe_over_loop);
}

/* A persistent request adds up its leaves at every start, and calls in turn do not mix their leaves. */
static void play_repeated(struct player *p) {
  enum { LEAVES_EACH = 4, MANY = 3000, STARTS = 3 };
  static _Thread_local float in[LEAVES_EACH * MANY], out[MANY];
  tutti_call call = {.collective = TUTTI_ALLREDUCE,
                     .send = in,
                     .recv = out,
                     .count = MANY,
                     .type = TUTTI_F32,
                     .op = TUTTI_SUM,
                     .leaves = LEAVES_EACH};
  tutti_request *request;
  if (!good(p, tutti_prepare(p->comm, &call, &request), "prepare")) return;
  for (uint32_t start = 1; start <= STARTS; start++) {
    for (size_t i = 0; i < LEAVES_EACH * MANY; i++) in[i] = (float)start;
    if (!good(p, tutti_restart(request), "restart") || !good(p, tutti_wait(&request), "wait")) return;
    for (uint32_t leaves = 1; leaves <= LEAVES_EACH; leaves *= 2) {
      const float all = out[0], want = (float)(start * LEAVES_EACH * p->ranks);
      if (leaves == 1 && (all != want || out[MANY - 1] != want)) wrong(p, "start %u: %g, not %g", start, all, want);
      call.leaves = leaves;
      if (!good(p, tutti_run_call(p->comm, &call), "leaves")) return;
      if (out[MANY - 1] != (float)(start * leaves * p->ranks)) wrong(p, "%u leaves: %g", leaves, out[MANY - 1]);
    }
    if (!good(p, tutti_allreduce(p->comm, in, out, MANY, TUTTI_F32, TUTTI_SUM), "allreduce")) return;
    if (out[0] != (float)(start * p->ranks)) wrong(p, "no leaves: %g", out[0]);
  }
  tutti_request_free(request);
  p->stage->counted++;
}

static void test_repeated(void) {
  for (uint32_t ranks = 1; ranks <= 4; ranks++)
    (void)troupe_perform((struct troupe){.run = play_repeated, .ranks = ranks}, troupe_over_loop);
}

/* Calls that are refused on this many ranks, and the facts that the message must have. */
static const struct refusal {
  const char *what;
  uint32_t ranks;
  tutti_call call; /* is made complete by play_refused */
  bool fold;       /* tutti_fold_create refuses it, too */
  const char *facts;
} refusals[] = {
    {"folded without leaves", 2, {.folded = true}, true, "leaves is 0, and folded is true|expected the number"},
    {"a broadcast", 2, {.collective = TUTTI_BROADCAST, .leaves = 2}, true, "broadcast|leaves is 2|no reduction"},
    {"3 on 4 ranks",
     4,
     {.leaves = 3},
     true,
     "leaves is 3|power of two on 4 ranks|12 leaves|12 x 1, 6 x 2, 3 x 4, 1 x 12"},
    {"5 on 2 ranks, folded", 2, {.leaves = 5, .folded = true}, true, "leaves is 5|10 x 1, 5 x 2, 1 x 10"},
    {"too many", 1, {.leaves = 65537}, true, "65537|at most 65536"},
    {"in parts", 2, {.leaves = 2, .in_parts = true}, false, "in_parts"},
    {"in parts, folded on a single rank", 1, {.leaves = 2, .folded = true, .in_parts = true}, false, "in_parts"},
    {"folded twice", 2, {.leaves = 2, .folded = 2}, true, "folded to be true"},
    {"another algorithm", 5, {.leaves = 2, .algorithm = "ring"}, false, "ring|canonical"},
    {"overlap", 2, {.leaves = 4, .recv = (void *)2}, false, "recv overlaps leaf 2 in send|leaves 0 to 3"},
    {"too long", 2, {.leaves = 4, .send = TUTTI_IN_PLACE, .count = SIZE_MAX / 16}, false, "more bytes than"},
};

static uint32_t refusal_at;
static void play_refused(struct player *p) {
  const struct refusal *r = &refusals[refusal_at];
  float in[8] = {0}, out[8];
  tutti_call call = r->call;
  tutti_fold *fold = NULL;
  if (!call.send) call.send = in;
  call.recv = call.recv ? in + (uintptr_t)call.recv * 2 : out;
  if (!call.count) call.count = 2;
  call.type = TUTTI_F32;
  tutti_err err = tutti_check_call(p->comm, &call);
  if (err != TUTTI_ERR_ARGUMENT || !test_contains(tutti_error_message(NULL), r->facts))
    wrong(p, "%s: %s: %s", r->what, tutti_err_name(err), tutti_error_message(NULL));
  err = tutti_fold_create(p->comm, &call, &fold);
  if (r->fold && (err != TUTTI_ERR_ARGUMENT || fold || !test_contains(tutti_error_message(NULL), r->facts)))
    wrong(p, "tutti_fold_create, %s: %s: %s", r->what, tutti_err_name(err), tutti_error_message(NULL));
  tutti_fold_free(fold);
  if (!good(p, tutti_barrier(p->comm), "barrier")) return;
  p->stage->counted++;
}

static void test_refusals(void) {
  for (refusal_at = 0; refusal_at < SIZE(refusals); refusal_at++)
    (void)troupe_perform((struct troupe){.run = play_refused, .ranks = refusals[refusal_at].ranks}, troupe_over_loop);
}

static void test_ring_differs(void) {
  test_seed();
  for (uint32_t ranks = 5; ranks <= 9; ranks++) {
    const uint64_t differs =
        troupe_perform((struct troupe){.run = play_ring, .ranks = ranks, .seed = ranks}, troupe_over_loop);
    CHECK(differs > 100, "%u ranks: a ring differs in %llu elements only", ranks, (unsigned long long)differs);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"cover", test_cover},
                                      {"leaves", test_leaves},
                                      {"ring_differs", test_ring_differs},
                                      {"mismatch", test_mismatch},
                                      {"other_leaves", test_other_leaves},
                                      {"repeated", test_repeated},
                                      {"refusals", test_refusals}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
