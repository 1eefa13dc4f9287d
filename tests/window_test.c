/* test: slow timeout=400 */
/* window_test.c: windows over every kind of memory; put, get and atomic addition between every two layouts, directly
 * and through tiles; gather, scatter, broadcast and reduce by the root alone. On threads and on real processes. Results
 * are compared byte by byte, padding included, with a naive evaluation. */
#include "onesided.h"

enum { SLOT = 128 << 10, PAGE = 4096 };

/* ---- windows ---- */

enum memory_kind { OWN, HEAP, PART_OF_HEAP, REGISTERED, MEMORY_KINDS };

static size_t bytes_of(uint32_t rank) { return 100 + 1000 * (size_t)rank; }

/* Returns the byte that a rank writes at a position of its part. */
static unsigned char pattern(uint32_t rank, size_t at) { return (unsigned char)(rank * 31 + at * 7 + 1); }

static void *give_memory(struct player *p, enum memory_kind kind, void **base) {
  *base = NULL;
  if (kind == OWN) return NULL;
  if (kind == REGISTERED) {
    *base = aligned_alloc(PAGE, 4 * PAGE);
    fine(p, tutti_register(p->comm, *base, (size_t)4 * PAGE), "register");
    return (char *)*base + 40;
  }
  fine(p, tutti_alloc(p->comm, (size_t)4 * PAGE, base), "alloc");
  return kind == HEAP ? *base : (char *)*base + 5000;
}

static void take_memory(struct player *p, enum memory_kind kind, void *base) {
  if (kind == REGISTERED) {
    fine(p, tutti_deregister(p->comm, base), "deregister");
    free(base);
  } else {
    fine(p, tutti_free(p->comm, base), "free");
  }
}

static void check_part(struct player *p, const tutti_window *window, uint32_t rank, uint32_t writer) {
  unsigned char *part = copy_of_part(p, window, rank, bytes_of(rank));
  if (!tutti_window_address(window, rank) || tutti_window_bytes(window, rank) != bytes_of(rank)) {
    wrong(p, "rank %u: rank %u has %zu bytes", p->rank, rank, tutti_window_bytes(window, rank));
  }
  for (size_t i = 0; i < bytes_of(rank); i++)
    if (part[i] != pattern(writer, i)) wrong(p, "rank %u: byte %zu of rank %u is %u", p->rank, i, rank, part[i]);
  free(part);
}

static void one_window(struct player *p, enum memory_kind kind) {
  tutti_window *window = NULL;
  void *base, *memory = give_memory(p, kind, &base);
  size_t mine = bytes_of(p->rank);
  if (!fine(p, tutti_window_create(p->comm, memory, mine, &window), "create")) return;
  unsigned char *part = tutti_window_address(window, p->rank);
  if (memory && part != memory) wrong(p, "rank %u: its part is at %p, expected %p", p->rank, (void *)part, memory);
  for (size_t i = 0; !memory && i < mine; i++)
    if (part[i] != 0) wrong(p, "rank %u: the part is not cleared", p->rank);
  for (size_t i = 0; i < mine; i++) part[i] = pattern(p->rank, i);
  if (tutti_window_address(window, p->ranks) || tutti_window_bytes(window, p->ranks))
    wrong(p, "a part beyond the last rank was returned");
  meet(p);
  for (uint32_t r = 0; r < p->ranks; r++) check_part(p, window, r, r);
  meet(p);
  uint32_t next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
  unsigned char *remote = is_mapped(p, window, next) ? tutti_window_address(window, next) : malloc(bytes_of(next));
  for (size_t i = 0; i < bytes_of(next); i++) remote[i] = pattern(p->rank, i);
  if (!is_mapped(p, window, next)) {
    write_part(p, window, next, remote, bytes_of(next));
    free(remote);
  }
  meet(p);
  check_part(p, window, p->rank, before);
  for (size_t i = 0; memory && i < mine; i++)
    if (((unsigned char *)memory)[i] != pattern(before, i))
      wrong(p, "rank %u: the window does not use the given memory", p->rank);
  fine(p, tutti_window_free(window), "free of the window");
  take_memory(p, kind, base);
}

/* Creates windows over each kind of memory, and over a mix of kinds. All kinds are used twice, as memory that was used
 * before must be cleared. */
static void every_kind_of_memory(struct player *p) {
  for (int k = 0; k < 2 * MEMORY_KINDS; k++) one_window(p, (enum memory_kind)(k % MEMORY_KINDS));
  one_window(p, (enum memory_kind)(p->rank % MEMORY_KINDS));
  tutti_window *windows[3], *empty;
  for (int i = 0; i < 3; i++) fine(p, tutti_window_create(p->comm, NULL, SLOT, &windows[i]), "create of three windows");
  fine(p, tutti_window_create(p->comm, NULL, 0, &empty), "create of an empty window");
  for (int i = 0; i < 3; i++) *(uint32_t *)tutti_window_address(windows[i], p->rank) = (uint32_t)i * 10 + p->rank;
  meet(p);
  for (uint32_t r = 0; r < p->ranks; r++)
    for (uint32_t i = 0; i < 3; i++) {
      uint32_t *first = copy_of_part(p, windows[i], r, sizeof *first);
      if (*first != i * 10 + r) wrong(p, "window %u of rank %u", i, r);
      free(first);
    }
  for (int i = 2; i >= 0; i--) fine(p, tutti_window_free(windows[i]), "free of three windows");
  fine(p, tutti_window_free(empty), "free of an empty window");
  fine(p, tutti_window_free(NULL), "free of NULL");
}

/* No memory is lost, however often windows are created and freed. */
static void windows_come_and_go(struct player *p) {
  for (int i = 0; i < 40; i++) {
    tutti_window *window;
    if (!fine(p, tutti_window_create(p->comm, NULL, TROUPE_SLICE / 4, &window), "create, repeated")) return;
    fine(p, tutti_window_free(window), "free, repeated");
  }
}

/* In windows of a split communicator, ranks are those of that communicator. */
static void windows_of_a_split(struct player *p) {
  tutti_comm *half;
  tutti_window *window;
  int color = (int)(p->rank % 2);
  fine(p, tutti_comm_split(p->comm, color, -(int)p->rank, &half), "split");
  uint32_t rank = tutti_rank(half), ranks = tutti_ranks(half);
  fine(p, tutti_window_create(half, NULL, SLOT, &window), "create on a part");
  int32_t mine = (int32_t)(100 + p->rank), *all = calloc(ranks, sizeof *all);
  tutti_tensor to = rows_of(tutti_window_address(window, (rank + 1) % ranks), TUTTI_I32, 1, 1);
  tutti_tensor from = rows_of(&mine, TUTTI_I32, 1, 1);
  fine(p, tutti_put(&from, &to, NULL, NULL), "put in a part");
  fine(p, tutti_barrier(half), "barrier of a part");
  tutti_tensor tensors[TROUPE_MAX], gathered = rows_of(all, TUTTI_I32, ranks, 1);
  for (uint32_t r = 0; r < ranks; r++) tensors[r] = rows_of(tutti_window_address(window, r), TUTTI_I32, 1, 1);
  if (rank == ranks - 1)
    fine(p, tutti_onesided_gather(&(tutti_onesided_group){tensors, ranks, rank}, &gathered, NULL, NULL),
         "gather in a part");
  for (uint32_t r = 0; r < ranks && rank == ranks - 1; r++) {
    uint32_t writer = (r + ranks - 1) % ranks; /* rank order is reversed in the split communicator */
    int32_t wanted = (int32_t)(100 + 2 * (ranks - 1 - writer) + (uint32_t)color);
    if (all[r] != wanted) wrong(p, "rank %u of the split has %d, expected %d", r, all[r], wanted);
  }
  free(all);
  fine(p, tutti_window_free(window), "free on a part");
  fine(p, tutti_comm_free(half), "free of a part");
}

/* ---- put and get ---- */

static const tutti_datatype types[] = {TUTTI_U8, TUTTI_BF16, TUTTI_F32, TUTTI_I32, TUTTI_F64, TUTTI_I16};
enum { TYPES = sizeof types / sizeof types[0] };

struct trial {
  const struct tensors_kind *remote, *local;
  tutti_datatype type;
  size_t shape[TUTTI_DIMS];
  tutti_tiles tiles;
  uint64_t seed; /* seed of each rank's own random choices */
};

static void draw_trial(struct trial *t, uint64_t *state) {
  t->remote = &tensors_kinds[ranks_random(state) % TENSORS_KINDS];
  t->local = &tensors_kinds[ranks_random(state) % TENSORS_KINDS];
  t->type = types[ranks_random(state) % TYPES];
  for (int d = 0; d < TUTTI_DIMS; d++) t->shape[d] = 1 + ranks_random(state) % (d < 3 ? 2 : d == 3 ? 14 : 20);
  t->tiles = ranks_random(state) % 2 ? (tutti_tiles){4, 8, 0, 0} : (tutti_tiles){8, 16, 0, 0};
  t->seed = ranks_random(state);
}

static void make(struct player *p, const struct trial *t, const struct tensors_kind *kind,
                 const size_t shape[TUTTI_DIMS], tutti_tensor *tensor) {
  if (tensors_make(tensor, kind, t->type, shape, t->tiles) != TUTTI_OK)
    wrong(p, "%s: %s", kind->name, tutti_error_message(NULL));
}

static void *buffer_for(tutti_tensor *tensor) {
  size_t bytes = tutti_tensor_bytes(tensor);
  tensor->data = aligned_alloc(8, tensors_up(bytes + 1, 8));
  memset(tensor->data, 0xa5, bytes);
  return tensor->data;
}

/* Each rank puts into another rank's part, at its own position, checks the data that arrived there, and gets back what
 * it put. */
static void play_put_and_get(struct player *p, tutti_window *window, const struct trial *t, uint32_t distance) {
  tutti_tensor remote, local, back;
  struct staging g;
  uint64_t state = t->seed + p->rank;
  make(p, t, t->remote, t->shape, &remote);
  make(p, t, t->local, t->shape, &local);
  back = local;
  size_t bytes = tutti_tensor_bytes(&remote);
  if (bytes > SLOT) abort();
  memset(tutti_window_address(window, p->rank), 0xa5, SLOT * (size_t)p->ranks);
  meet(p);
  remote.data = (char *)tutti_window_address(window, (p->rank + distance) % p->ranks) + (size_t)p->rank * SLOT;
  fill(&local, buffer_for(&local), value_of_rank, &p->rank);
  draw_staging(&g, t->type, t->shape, &state);
  fine(p, tutti_put(&local, &remote, begin_staging(&g), NULL), "put");
  end_staging(p, &g, "put");
  meet(p);
  uint32_t writer = (p->rank + p->ranks - distance) % p->ranks;
  if (!is_filled(&remote, (char *)tutti_window_address(window, p->rank) + (size_t)writer * SLOT, SLOT, value_of_rank,
                 &writer))
    wrong(p, "rank %u: put of %s, %s into %s, by rank %u: wrong", p->rank, tutti_datatype_name(t->type), t->local->name,
          t->remote->name, writer);
  draw_staging(&g, t->type, t->shape, &state);
  buffer_for(&back);
  fine(p, tutti_get(&remote, &back, begin_staging(&g), NULL), "get");
  end_staging(p, &g, "get");
  if (!is_filled(&back, back.data, tutti_tensor_bytes(&back), value_of_rank, &p->rank))
    wrong(p, "rank %u: get of %s, %s into %s: wrong", p->rank, tutti_datatype_name(t->type), t->remote->name,
          t->local->name);
  free(local.data), free(back.data);
  meet(p);
}

static void puts_and_gets(struct player *p) {
  tutti_window *window;
  uint64_t state = p->seed;
  int trials = test_long() ? 3000 : 200;
  if (!fine(p, tutti_window_create(p->comm, NULL, SLOT * (size_t)p->ranks, &window), "create")) return;
  for (int i = 0; i < trials && p->stage->failures == 0; i++) {
    struct trial t;
    draw_trial(&t, &state);
    play_put_and_get(p, window, &t, (uint32_t)(ranks_random(&state) % p->ranks));
    if (p->rank == 0) p->stage->counted++;
  }
  fine(p, tutti_window_free(window), "free");
}

/* ---- atomic addition ---- */

static const tutti_datatype adds[] = {TUTTI_I32, TUTTI_U32, TUTTI_I64, TUTTI_U64,
                                      TUTTI_F32, TUTTI_F64, TUTTI_F16, TUTTI_BF16};
enum { ADDS = sizeof adds / sizeof adds[0], ROUNDS = 20 };

static int one_to_three(const void *rank, const size_t i[TUTTI_DIMS]) {
  return value_at(*(const uint32_t *)rank, i) % 3;
}

/* Returns the sum of ROUNDS additions by all ranks: at most 2 * 20 * 4, exact in every type. */
static int sum_of_all(const void *player, const size_t i[TUTTI_DIMS]) {
  const struct player *p = player;
  int sum = 0;
  for (uint32_t r = 0; r < p->ranks; r++) sum += ROUNDS * one_to_three(&r, i);
  return sum;
}

static int nothing(const void *context, const size_t i[TUTTI_DIMS]) {
  (void)context, (void)i;
  return 0;
}

/* All ranks add to rank 0's tensor at the same time. */
static void play_addition(struct player *p, tutti_window *window, const struct trial *t) {
  tutti_tensor remote, local;
  struct staging g;
  uint64_t state = t->seed + p->rank;
  make(p, t, t->remote, t->shape, &remote);
  make(p, t, t->local, t->shape, &local);
  remote.data = tutti_window_address(window, 0);
  if (p->rank == 0) {
    memset(remote.data, 0xa5, SLOT);
    fill(&remote, remote.data, nothing, NULL);
  }
  fill(&local, buffer_for(&local), one_to_three, &p->rank);
  meet(p);
  for (int i = 0; i < ROUNDS; i++) {
    draw_staging(&g, t->type, t->shape, &state);
    fine(p, tutti_put_add(&local, &remote, begin_staging(&g), NULL), "put_add");
    end_staging(p, &g, "put_add");
  }
  meet(p);
  if (p->rank == 0 && !is_filled(&remote, remote.data, SLOT, sum_of_all, p))
    wrong(p, "addition of %s, %s into %s: wrong", tutti_datatype_name(t->type), t->local->name, t->remote->name);
  free(local.data);
  meet(p);
}

static void additions(struct player *p) {
  tutti_window *window;
  uint64_t state = p->seed;
  int trials = (test_long() ? 20 : 4) * ADDS;
  if (!fine(p, tutti_window_create(p->comm, NULL, SLOT, &window), "create")) return;
  for (int i = 0; i < trials && p->stage->failures == 0; i++) {
    struct trial t;
    draw_trial(&t, &state);
    t.type = adds[i % ADDS];
    play_addition(p, window, &t);
    if (p->rank == 0) p->stage->counted++;
  }
  fine(p, tutti_window_free(window), "free");
}

/* ---- calls that only the root makes ---- */

enum group_call { GATHER, SCATTER, BROADCAST, REDUCE, GROUP_CALLS };
static const char *const group_names[] = {"gather", "scatter", "broadcast", "reduce"};

struct group_trial {
  struct trial t; /* t.remote: layout of the ranks' tensors; t.local: layout of the root's own tensor */
  enum group_call call;
  uint32_t root, ranks;         /* root: position of the root in the group; ranks: size of the group */
  uint32_t members[TROUPE_MAX]; /* [ranks]: ranks of the window, in group order */
  size_t more_rows;             /* rows by which the longer tensor exceeds the minimum */
  tutti_op op;
  uint32_t rank; /* rank of the window whose tensor is checked */
};

/* Draws the group: all ranks of the window in order, or some of them in any order. */
static void draw_members(struct group_trial *g, uint32_t ranks, uint64_t *state) {
  for (uint32_t r = 0; r < ranks; r++) g->members[r] = r;
  g->ranks = ranks;
  if (ranks_random(state) % 4 > 0) {
    for (uint32_t r = ranks - 1; r > 0; r--) {
      uint32_t other = (uint32_t)(ranks_random(state) % (r + 1)), kept = g->members[r];
      g->members[r] = g->members[other];
      g->members[other] = kept;
    }
    g->ranks = 1 + (uint32_t)(ranks_random(state) % ranks);
  }
  g->root = (uint32_t)(ranks_random(state) % g->ranks);
}

/* Returns the position of a window's rank in the group; g->ranks: it is not in the group. */
static uint32_t rank_in_group(const struct group_trial *g, uint32_t rank) {
  uint32_t number = 0;
  while (number < g->ranks && g->members[number] != rank) number++;
  return number;
}

/* Returns an element of the root's own tensor before the call: 77 for gather and reduce. */
static int own_before(const void *context, const size_t i[TUTTI_DIMS]) {
  const struct group_trial *g = context;
  return g->call == SCATTER || g->call == BROADCAST ? value_at(50, i) : 77;
}

static int reduced(const struct group_trial *g, const size_t i[TUTTI_DIMS]) {
  int result = value_at(g->members[0], i);
  for (uint32_t r = 1; r < g->ranks; r++) {
    int v = value_at(g->members[r], i);
    if (g->op == TUTTI_SUM) result += v;
    else if (g->op == TUTTI_MIN ? v < result : v > result) result = v;
  }
  return result;
}

static int own_after(const void *context, const size_t i[TUTTI_DIMS]) {
  const struct group_trial *g = context;
  size_t rows = g->t.shape[3], in_block[] = {i[0], i[1], i[2], i[3] % rows, i[4]};
  if (g->call == GATHER && i[3] < rows * g->ranks) return value_at(g->members[i[3] / rows], in_block);
  if (g->call == REDUCE && i[3] < rows) return reduced(g, i);
  return own_before(context, i);
}

/* Returns the expected element of a rank's tensor after the call. */
static int rank_after(const void *context, const size_t i[TUTTI_DIMS]) {
  const struct group_trial *g = context;
  uint32_t number = rank_in_group(g, g->rank);
  size_t in_own[] = {i[0], i[1], i[2], i[3] + number * g->t.shape[3], i[4]};
  if (number == g->ranks) return value_at(g->rank, i);
  if (g->call == SCATTER) return value_at(50, in_own);
  if (g->call == BROADCAST && i[3] < g->t.shape[3]) return value_at(50, i);
  return value_at(g->rank, i);
}

static tutti_err call_group(const struct group_trial *g, const tutti_onesided_group *group, const tutti_tensor *own,
                            struct staging *s) {
  const tutti_staging *staging = begin_staging(s);
  switch (g->call) {
    case GATHER: return tutti_onesided_gather(group, own, staging, NULL);
    case SCATTER: return tutti_onesided_scatter(group, own, staging, NULL);
    case BROADCAST: return tutti_onesided_broadcast(group, own, staging, NULL);
    default: return tutti_onesided_reduce(group, own, g->op, s->accumulator, staging, NULL);
  }
}

static void play_root(struct player *p, const struct group_trial *g, const tutti_tensor tensors[]) {
  size_t shape[TUTTI_DIMS];
  uint64_t state = g->t.seed;
  tutti_tensor own;
  struct staging s;
  memcpy(shape, g->t.shape, sizeof shape);
  if (g->call == GATHER || g->call == SCATTER) shape[3] *= g->ranks;
  if (g->call != BROADCAST) shape[3] += g->more_rows;
  make(p, &g->t, g->t.local, shape, &own);
  fill(&own, buffer_for(&own), own_before, g);
  draw_staging(&s, g->t.type, g->t.shape, &state);
  fine(p, call_group(g, &(tutti_onesided_group){tensors, g->ranks, g->root}, &own, &s), group_names[g->call]);
  end_staging(p, &s, group_names[g->call]);
  if (!is_filled(&own, own.data, tutti_tensor_bytes(&own), own_after, g))
    wrong(p, "rank %u: %s of %s, %s, the root has %s, %u tiles: wrong", p->rank, group_names[g->call],
          tutti_datatype_name(g->t.type), g->t.remote->name, g->t.local->name, s.tiles);
  free(own.data);
}

static void play_group(struct player *p, tutti_window *window, struct group_trial *g) {
  size_t shape[TUTTI_DIMS];
  tutti_tensor tensors[TROUPE_MAX], mine;
  memcpy(shape, g->t.shape, sizeof shape);
  if (g->call == BROADCAST) shape[3] += g->more_rows;
  make(p, &g->t, g->t.remote, shape, &mine);
  for (uint32_t i = 0; i < g->ranks; i++) {
    tensors[i] = mine;
    tensors[i].data = (char *)tutti_window_address(window, g->members[i]) + 64;
  }
  mine.data = (char *)tutti_window_address(window, p->rank) + 64;
  if (tutti_tensor_bytes(&mine) > SLOT) abort();
  memset(mine.data, 0xa5, SLOT);
  fill(&mine, mine.data, value_of_rank, &p->rank);
  g->rank = p->rank;
  meet(p);
  if (p->rank == g->members[g->root]) play_root(p, g, tensors);
  meet(p);
  if (!is_filled(&mine, mine.data, SLOT, rank_after, g))
    wrong(p, "rank %u: %s from root %u: %s: wrong", p->rank, group_names[g->call], g->root, g->t.remote->name);
}

static void groups(struct player *p) {
  static const tutti_op ops[] = {TUTTI_SUM, TUTTI_MIN, TUTTI_MAX};
  tutti_window *window;
  uint64_t state = p->seed;
  int trials = (test_long() ? 600 : 40) * GROUP_CALLS;
  if (!fine(p, tutti_window_create(p->comm, NULL, SLOT + 64, &window), "create")) return;
  for (int i = 0; i < trials && p->stage->failures == 0; i++) {
    struct group_trial g = {.call = (enum group_call)(i % GROUP_CALLS)};
    draw_trial(&g.t, &state);
    draw_members(&g, p->ranks, &state);
    g.more_rows = ranks_random(&state) % 2 * (ranks_random(&state) % 5);
    g.op = ops[ranks_random(&state) % 3];
    play_group(p, window, &g);
    if (p->rank == 0) p->stage->counted++;
  }
  fine(p, tutti_window_free(window), "free");
}

/* ---- the root's own tensor is a part of the whole tensor ---- */

enum { ROWS = 3, COLS = 4 };

/* The root's part of the window holds the whole tensor, and the root's own tensor is a view of a part of it. */
static void in_place_with(struct player *p, tutti_window *window, uint32_t root, const tutti_staging *staging) {
  tutti_tensor tensors[TROUPE_MAX];
  int32_t *part = tutti_window_address(window, p->rank);
  for (uint32_t r = 0; r < p->ranks; r++)
    tensors[r] =
        rows_of((int32_t *)tutti_window_address(window, r) + (size_t)root * ROWS * COLS, TUTTI_I32, ROWS, COLS);
  tutti_tensor whole = rows_of(part, TUTTI_I32, (size_t)p->ranks * ROWS, COLS);
  const tutti_onesided_group group = {tensors, p->ranks, p->rank};
  int32_t *mine = tensors[p->rank].data;
  for (int32_t i = 0; i < ROWS * COLS; i++) mine[i] = (int32_t)p->rank * 100 + i;
  meet(p);
  if (p->rank == root) {
    fine(p, tutti_onesided_gather(&group, &whole, staging, NULL), "gather in place");
    for (int32_t r = 0; r < (int32_t)p->ranks; r++)
      for (int32_t i = 0; i < ROWS * COLS; i++)
        if (part[r * ROWS * COLS + i] != r * 100 + i) wrong(p, "gather in place: %d of rank %d is wrong", i, r);
    for (int32_t i = 0; i < (int32_t)p->ranks * ROWS * COLS; i++) part[i] += 1000;
    fine(p, tutti_onesided_scatter(&group, &whole, staging, NULL), "scatter in place");
  }
  meet(p);
  for (int32_t i = 0; i < ROWS * COLS; i++)
    if (mine[i] != 1000 + (int32_t)p->rank * 100 + i) wrong(p, "rank %u: scatter in place: %d", p->rank, mine[i]);
  meet(p);
  if (p->rank == root) {
    fine(p, tutti_onesided_reduce(&group, &tensors[root], TUTTI_SUM, NULL, staging, NULL), "reduce in place");
    fine(p, tutti_onesided_broadcast(&group, &tensors[root], staging, NULL), "broadcast in place");
  }
  meet(p);
  int32_t n = (int32_t)p->ranks;
  for (int32_t i = 0; i < ROWS * COLS; i++)
    if (mine[i] != n * (1000 + i) + 100 * n * (n - 1) / 2) wrong(p, "rank %u: reduce in place: %d", p->rank, mine[i]);
  meet(p);
}

static void in_place(struct player *p) {
  tutti_window *window;
  int32_t tiles[2][2 * 3];
  const tutti_staging stagings[] = {
      {.rows = 0}, {.tiles = {tiles[0]}, .rows = 2, .cols = 3}, {.tiles = {tiles[0], tiles[1]}, .rows = 2, .cols = 3}};
  fine(p, tutti_window_create(p->comm, NULL, SLOT, &window), "create");
  for (uint32_t root = 0; root < p->ranks; root++)
    for (int i = 0; i < 3; i++) in_place_with(p, window, root, &stagings[i]);
  /* Views in each other's gaps share no memory. A tensor that is put to itself stays unchanged. */
  int32_t *part = tutti_window_address(window, p->rank);
  const size_t shape[] = {4, 3}, strides[] = {6, 2};
  tutti_tensor even, odd;
  fine(p, tutti_tensor_strided(&even, (tutti_tensor_of){part, TUTTI_I32, 2, shape}, strides), "even");
  fine(p, tutti_tensor_strided(&odd, (tutti_tensor_of){part + 1, TUTTI_I32, 2, shape}, strides), "odd");
  for (int32_t i = 0; i < 24; i++) part[i] = i;
  fine(p, tutti_put(&even, &odd, NULL, NULL), "put into the gaps");
  fine(p, tutti_put(&odd, &odd, NULL, NULL), "put to itself");
  for (int32_t i = 0; i < 24; i++)
    if (part[i] != i / 2 * 2) wrong(p, "rank %u: element %d is %d", p->rank, i, part[i]);
  fine(p, tutti_put_add(&odd, &odd, NULL, NULL), "put_add to itself");
  for (int32_t i = 0; i < 24; i++)
    if (part[i] != i / 2 * 2 * (1 + i % 2)) wrong(p, "rank %u: doubled, element %d is %d", p->rank, i, part[i]);
  meet(p);
  fine(p, tutti_window_free(window), "free");
}

/* ---- the order of a reduction, bit by bit ---- */

enum { REDUCED = 40 };

/* Checks a sum: the root's operand first, then those of the other ranks, rounded after each addition, in plain C
 * arithmetic. */
static void check_order(struct player *p, uint32_t root, float *const parts[], const float *result, const char *way) {
  for (int i = 0; i < REDUCED; i++) {
    float sum = parts[root][i];
    for (uint32_t r = 0; r < p->ranks; r++)
      if (r != root) sum += parts[r][i];
    if (memcmp(&sum, &result[i], sizeof sum) != 0)
      wrong(p, "%s, root %u: element %d is %.9g, expected %.9g", way, root, i, (double)result[i], (double)sum);
  }
}

static void sums_in_order(struct player *p) {
  tutti_window *window;
  uint64_t state = p->seed + p->rank;
  float *parts[TROUPE_MAX], tiles[3][7], result[REDUCED];
  tutti_tensor tensors[TROUPE_MAX], to = rows_of(result, TUTTI_F32, 1, REDUCED);
  const tutti_staging one = {.tiles = {tiles[0]}, .rows = 1, .cols = 7},
                      two = {.tiles = {tiles[0], tiles[1]}, .rows = 1, .cols = 7};
  fine(p, tutti_window_create(p->comm, NULL, sizeof result, &window), "create");
  float *mine = tutti_window_address(window, p->rank);
  for (uint32_t r = 0; r < p->ranks; r++) tensors[r] = rows_of(tutti_window_address(window, r), TUTTI_F32, 1, REDUCED);
  for (int i = 0; i < REDUCED; i++) mine[i] = (float)((double)(int64_t)ranks_random(&state) * (i % 2 ? 1e-10 : 1e-17));
  meet(p);
  for (uint32_t r = 0; r < p->ranks; r++) parts[r] = copy_of_part(p, window, r, sizeof result);
  for (uint32_t root = 0; root < p->ranks; root++) {
    const tutti_onesided_group group = {tensors, p->ranks, root};
    if (p->rank == root) {
      fine(p, tutti_onesided_reduce(&group, &to, TUTTI_SUM, NULL, NULL, NULL), "reduce without tiles");
      check_order(p, root, parts, result, "no tiles");
      fine(p, tutti_onesided_reduce(&group, &to, TUTTI_SUM, tiles[2], &one, NULL), "reduce, one tile");
      check_order(p, root, parts, result, "one tile");
      fine(p, tutti_onesided_reduce(&group, &to, TUTTI_SUM, NULL, &two, NULL), "reduce, two tiles");
      check_order(p, root, parts, result, "two tiles");
    }
    meet(p);
  }
  for (uint32_t r = 0; r < p->ranks; r++) free(parts[r]);
  fine(p, tutti_window_free(window), "free");
}

/* bf16 and f16 are rounded after each rank, with and without tiles. */
static void narrow_sums_are_equal_in_all_ways(struct player *p) {
  tutti_window *window;
  uint64_t state = p->seed + p->rank;
  uint16_t tiles[2][5], results[3][REDUCED];
  tutti_tensor tensors[TROUPE_MAX];
  const tutti_staging one = {.tiles = {tiles[0]}, .rows = 1, .cols = 5},
                      two = {.tiles = {tiles[0], tiles[1]}, .rows = 1, .cols = 5};
  const tutti_staging *const ways[] = {NULL, &one, &two};
  fine(p, tutti_window_create(p->comm, NULL, sizeof results[0], &window), "create");
  for (int k = 0; k < 2; k++) {
    tutti_datatype type = k ? TUTTI_F16 : TUTTI_BF16;
    uint16_t *mine = tutti_window_address(window, p->rank);
    for (int i = 0; i < REDUCED; i++) tu_from_double(type, &mine[i], (double)(ranks_random(&state) % 10000) / 37);
    for (uint32_t r = 0; r < p->ranks; r++) tensors[r] = rows_of(tutti_window_address(window, r), type, 1, REDUCED);
    meet(p);
    for (int w = 0; w < 3 && p->rank == p->ranks - 1; w++) {
      tutti_tensor to = rows_of(results[w], type, 1, REDUCED);
      fine(p,
           tutti_onesided_reduce(&(tutti_onesided_group){tensors, p->ranks, p->rank}, &to, TUTTI_SUM, NULL, ways[w],
                                 NULL),
           "reduce of narrow floats");
      if (memcmp(results[w], results[0], sizeof results[0]) != 0) wrong(p, "staging %d gives different bits", w);
    }
    uint16_t sums[REDUCED];
    memcpy(sums, mine, sizeof sums);
    for (uint32_t r = 0; r + 1 < p->ranks && p->rank == p->ranks - 1; r++) {
      uint16_t *theirs = copy_of_part(p, window, r, sizeof sums);
      for (int i = 0; i < REDUCED; i++)
        tu_from_double(type, &sums[i], (float)tu_to_double(type, &sums[i]) + (float)tu_to_double(type, &theirs[i]));
      free(theirs);
    }
    for (int i = 0; i < REDUCED && p->rank == p->ranks - 1; i++)
      if (sums[i] != results[0][i])
        wrong(p, "element %d of %s is %x, expected %x", i, tutti_datatype_name(type), results[0][i], sums[i]);
    meet(p);
  }
  fine(p, tutti_window_free(window), "free");
}

/* ---- block floats ---- */

enum { BFP_ROWS = 40, BFP_COLS = 70, BFP_VALUES = BFP_ROWS * BFP_COLS };

static void bfp_tensor(struct player *p, tutti_tensor *t, tutti_datatype type, size_t rows, uint32_t banks) {
  const size_t shape[] = {rows, BFP_COLS};
  fine(p,
       tutti_tensor_interleaved(t, (tutti_tensor_of){.type = type, .dims = 2, .shape = shape},
                                &(tutti_tiles){16, 32, 0, 0}, banks),
       "tensor of block floats");
}

/* Returns integers that both block float types hold exactly, in any group. */
static float bfp_value(uint32_t source, size_t i) { return (float)((source + i) % 8) - 4; }

static void check_bfp(struct player *p, const tutti_tensor *t, uint32_t first, uint32_t ranks, bool sums,
                      const char *what) {
  float *values = malloc(sizeof *values * t->shape[3] * BFP_COLS);
  fine(p, tutti_tensor_to_f32(t, values), "to f32");
  for (size_t i = 0; i < t->shape[3] * BFP_COLS; i++) {
    float wanted = sums ? 0 : bfp_value(first + (uint32_t)(i / BFP_VALUES), i % BFP_VALUES);
    for (uint32_t r = 0; r < ranks && sums; r++) {
      float v = bfp_value(r, i);
      if (r == 0 || v > wanted) wanted = v;
    }
    if (values[i] != wanted) wrong(p, "%s: value %zu is %g, expected %g", what, i, (double)values[i], (double)wanted);
  }
  free(values);
}

/* Block floats go without staging, from tiles in two banks to tiles in three. A staging tile could not hold them. */
static void block_floats(struct player *p) {
  tutti_window *window;
  fine(p, tutti_window_create(p->comm, NULL, SLOT, &window), "create");
  for (int k = 0; k < 2; k++) {
    tutti_datatype type = k ? TUTTI_BFP4 : TUTTI_BFP8;
    tutti_tensor tensors[TROUPE_MAX], all, one;
    float values[BFP_VALUES], tile[4];
    for (uint32_t r = 0; r < p->ranks; r++) {
      bfp_tensor(p, &tensors[r], type, BFP_ROWS, 2);
      tensors[r].data = tutti_window_address(window, r);
    }
    bfp_tensor(p, &all, type, (size_t)p->ranks * BFP_ROWS, 3);
    bfp_tensor(p, &one, type, BFP_ROWS, 3);
    buffer_for(&all), buffer_for(&one);
    for (size_t i = 0; i < BFP_VALUES; i++) values[i] = bfp_value(p->rank, i);
    fine(p, tutti_tensor_from_f32(&tensors[p->rank], values), "from f32");
    meet(p);
    uint32_t next = (p->rank + 1) % p->ranks;
    fine(p, tutti_get(&tensors[next], &one, NULL, NULL), "get");
    check_bfp(p, &one, next, 0, false, "get");
    const tutti_staging staging = {.tiles = {tile}, .rows = 2, .cols = 2};
    refused(p, tutti_get(&tensors[next], &one, &staging, NULL), TUTTI_ERR_ARGUMENT, "exponents|staging", "staged");
    meet(p);
    if (p->rank == 0) {
      const tutti_onesided_group group = {tensors, p->ranks, 0};
      fine(p, tutti_onesided_gather(&group, &all, NULL, NULL), "gather");
      check_bfp(p, &all, 0, 0, false, "gather");
      fine(p, tutti_onesided_reduce(&group, &one, TUTTI_MAX, NULL, NULL, NULL), "reduce");
      check_bfp(p, &one, 0, p->ranks, true, "reduce");
      fine(p, tutti_onesided_broadcast(&group, &one, NULL, NULL), "broadcast");
    }
    meet(p);
    check_bfp(p, &tensors[p->rank], 0, p->ranks, true, "broadcast");
    free(all.data), free(one.data);
    meet(p);
  }
  fine(p, tutti_window_free(window), "free");
}

/* ---- threads ---- */

enum { HELPERS = 4, HELPER_ROUNDS = 30, HELPER_WORDS = 64 };

/* One of several threads of a rank that use the same window. */
struct helper {
  tutti_window *window;
  struct player *player;
  int32_t number;
  bool failed;
};

/* Adds to rank 0's numbers, puts and gets at its own position, and counts itself. */
static void *help(void *argument) {
  struct helper *h = argument;
  int32_t *root = tutti_window_address(h->window, 0), ones[HELPER_WORDS], back[HELPER_WORDS];
  size_t number = 1 + (size_t)h->player->rank * HELPERS + (size_t)h->number;
  tutti_tensor from = rows_of(ones, TUTTI_I32, 1, HELPER_WORDS), sums = rows_of(root, TUTTI_I32, 1, HELPER_WORDS);
  tutti_tensor own = rows_of(root + number * HELPER_WORDS, TUTTI_I32, 1, HELPER_WORDS);
  tutti_tensor into = rows_of(back, TUTTI_I32, 1, HELPER_WORDS);
  for (int32_t round = 1; round <= HELPER_ROUNDS; round++) {
    for (int32_t i = 0; i < HELPER_WORDS; i++) ones[i] = round * 1000 + h->number;
    h->failed |= tutti_put(&from, &own, NULL, NULL) != TUTTI_OK || tutti_get(&own, &into, NULL, NULL) != TUTTI_OK ||
                 memcmp(ones, back, sizeof ones) != 0;
    for (int32_t i = 0; i < HELPER_WORDS; i++) ones[i] = 1;
    h->failed |= tutti_put_add(&from, &sums, NULL, NULL) != TUTTI_OK;
    h->failed |= tutti_signal_add((int32_t *)tutti_window_address(h->window, 0) + SLOT / 8, 1, NULL) != TUTTI_OK;
  }
  return NULL;
}

static void many_threads_at_once(struct player *p) {
  tutti_window *window;
  pthread_t threads[HELPERS];
  struct helper helpers[HELPERS];
  fine(p, tutti_window_create(p->comm, NULL, SLOT, &window), "create");
  for (int i = 0; i < HELPERS; i++) {
    helpers[i] = (struct helper){.window = window, .player = p, .number = i};
    if (pthread_create(&threads[i], NULL, help, &helpers[i]) != 0) abort();
  }
  for (int i = 0; i < HELPERS; i++) {
    pthread_join(threads[i], NULL);
    if (helpers[i].failed) wrong(p, "rank %u: thread %d has failed", p->rank, i);
  }
  if (p->rank == 0) {
    int32_t *mine = tutti_window_address(window, 0), all = (int32_t)p->ranks * HELPERS * HELPER_ROUNDS;
    tutti_tensor count = rows_of(mine + SLOT / 8, TUTTI_I32, 1, 1);
    fine(p, tutti_signal_wait(&count, TUTTI_EQ, all, 0, NULL), "wait for all threads");
    for (int i = 0; i < HELPER_WORDS; i++)
      if (mine[i] != all) wrong(p, "sum %d is %d, expected %d", i, mine[i], all);
  }
  meet(p);
  fine(p, tutti_window_free(window), "free");
}

/* ---- overlap ---- */

/* Checks a whole call: with two tiles, each load except the first begins before the store before it ends; with one
 * tile, none does. */
static void calls_overlap(struct player *p) {
  enum { TILES = 6 };
  tutti_window *window;
  int32_t tiles[3][COLS], own[TROUPE_MAX * TILES][COLS];
  tutti_tensor tensors[TROUPE_MAX], whole = rows_of(own, TUTTI_I32, (size_t)p->ranks * TILES, COLS);
  tutti_tensor block = rows_of(own, TUTTI_I32, TILES, COLS);
  fine(p, tutti_window_create(p->comm, NULL, SLOT, &window), "create");
  for (uint32_t r = 0; r < p->ranks; r++) tensors[r] = rows_of(tutti_window_address(window, r), TUTTI_I32, TILES, COLS);
  memset(own, 0, sizeof own);
  meet(p);
  for (int call = 0; call < GROUP_CALLS && p->rank == 0; call++)
    for (uint32_t count = 1; count <= 2; count++) {
      const tutti_onesided_group group = {tensors, p->ranks, 0};
      struct staging s = {.s = {.tiles = {tiles[0], count == 2 ? tiles[1] : NULL},
                                .rows = 1,
                                .cols = COLS,
                                .fixed_rows = true,
                                .fixed_cols = true},
                          .tiles = count,
                          .accumulator = tiles[2],
                          .is_paced = true,
                          .paced = paced_make(1, 1)};
      const struct group_trial g = {.call = (enum group_call)call, .op = TUTTI_MAX};
      fine(p, call_group(&g, &group, call == GATHER || call == SCATTER ? &whole : &block, &s), group_names[call]);
      size_t loads, overlaps = paced_overlaps(&s.paced, &loads);
      uint32_t away = 0; /* ranks on other hosts: a reduction with some of them loads only these through tiles */
      for (uint32_t r = 0; r < p->ranks; r++) away += !is_mapped(p, window, r);
      size_t wanted = call == BROADCAST ? TILES : (call == REDUCE && away ? away : p->ranks) * (size_t)TILES;
      if (loads != wanted || overlaps != (count == 2 ? loads - 1 : 0))
        wrong(p, "%s, %u tiles: %zu of %zu loads overlap; expected %zu loads", group_names[call], count, overlaps,
              loads, wanted);
      end_staging(p, &s, "overlap");
    }
  meet(p);
  fine(p, tutti_window_free(window), "free");
}

/* ---- all tests ---- */

static const struct troupe_case cases[] = {
    {TROUPE_CASE(every_kind_of_memory)},
    {TROUPE_CASE(windows_come_and_go), .ranks_max = 3},
    {TROUPE_CASE(windows_of_a_split)},
    {TROUPE_CASE(puts_and_gets)},
    {TROUPE_CASE(additions)},
    {TROUPE_CASE(groups)},
    {TROUPE_CASE(in_place)},
    {TROUPE_CASE(sums_in_order)},
    {TROUPE_CASE(narrow_sums_are_equal_in_all_ways)},
    {TROUPE_CASE(block_floats), .ranks_max = 3},
    {TROUPE_CASE(many_threads_at_once)},
    {TROUPE_CASE(calls_overlap)},
};

int main(int argc, char **argv) {
  return troupe_main(cases, sizeof cases / sizeof cases[0], TROUPE_TRANSPORTS(1, 2, 3, 4), argc, argv);
}
