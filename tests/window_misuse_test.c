/* window_misuse_test.c: invalid one-sided calls, their error messages, and that valid calls work afterwards. On threads
 * and on real processes. */
#include "onesided.h"

enum { PAGE = 4096, PART = 1024 };

/* ---- windows ---- */

/* A part that is invalid on one rank fails on all ranks, with that rank's message. */
static void refuse_part(struct player *p, uint32_t rank, void *memory, size_t bytes, tutti_err wanted,
                        const char *words, const char *what) {
  tutti_window *window = (void *)p;
  char whose[64];
  tutti_err err = p->rank == rank ? tutti_window_create(p->comm, memory, bytes, &window)
                                  : tutti_window_create(p->comm, NULL, PART, &window);
  snprintf(whose, sizeof whose, "tutti_window_create: rank %u: ", rank);
  refused(p, err, wanted, words, what);
  refused(p, err, wanted, whose, what);
  if (window) wrong(p, "rank %u: %s: a window was returned with an error", p->rank, what);
}

static void bad_windows(struct player *p) {
  unsigned char mine[64];
  void *heap = NULL, *pages = aligned_alloc(PAGE, 2 * PAGE), *theirs;
  tutti_window *window, *none = NULL;
  fine(p, tutti_alloc(p->comm, 2 * PAGE, &heap), "alloc");
  refused(p, tutti_window_create(NULL, NULL, PART, &none), TUTTI_ERR_ARGUMENT, "tutti_window_create|NULL", "no comm");
  for (uint32_t r = 0; r < p->ranks; r++) {
    refuse_part(p, r, mine, sizeof mine, TUTTI_ERR_ARGUMENT, "tutti_alloc|tutti_register", "the stack");
    refuse_part(p, r, pages, PAGE, TUTTI_ERR_ARGUMENT, "tutti_alloc|tutti_register", "memory of malloc");
    refuse_part(p, r, heap, 2 * PAGE + 1, TUTTI_ERR_ARGUMENT, "tutti_alloc|tutti_register", "more than was allocated");
    refuse_part(p, r, (char *)heap + PAGE, PAGE + 1, TUTTI_ERR_ARGUMENT, "tutti_alloc|tutti_register",
                "beyond the end");
    refuse_part(p, r, heap, SIZE_MAX, TUTTI_ERR_ARGUMENT, "tutti_alloc|tutti_register", "all memory behind an address");
    refuse_part(p, r, NULL, (size_t)1 << 50, TUTTI_ERR_MEMORY, "TUTTI_SHM_BYTES", "too much");
    refuse_part(p, r, NULL, SIZE_MAX, TUTTI_ERR_MEMORY, "TUTTI_SHM_BYTES", "all memory");
  }
  tutti_err err =
      p->rank == 0 ? tutti_window_create(p->comm, NULL, PART, NULL) : tutti_window_create(p->comm, NULL, PART, &none);
  refused(p, err, TUTTI_ERR_ARGUMENT, "tutti_window_create: rank 0: |window", "window is NULL");
  fine(p, tutti_register(p->comm, pages, PAGE), "register");
  refuse_part(p, 0, pages, PAGE + 8, TUTTI_ERR_ARGUMENT, "tutti_alloc|tutti_register", "more than was registered");
  fine(p, tutti_window_create(p->comm, heap, PAGE, &window), "a window over the first half");
  refuse_part(p, p->ranks - 1, (char *)heap + PAGE - 1, 2, TUTTI_ERR_ARGUMENT, "another window", "in two windows");
  refuse_part(p, 0, heap, PAGE, TUTTI_ERR_ARGUMENT, "another window", "twice the same");
  fine(p, tutti_window_create(p->comm, (char *)heap + PAGE, PAGE, &none), "a second window in the same allocation");
  fine(p, tutti_window_free(none), "free");
  theirs = tutti_window_address(window, (p->rank + 1) % p->ranks);
  if (p->ranks > 1) /* all ranks pass another rank's memory */
    refused(p, tutti_window_create(p->comm, theirs, PAGE, &none), TUTTI_ERR_ARGUMENT, "tutti_alloc|tutti_register",
            "memory of another rank");
  fine(p, tutti_window_free(window), "free");
  fine(p, tutti_window_create(p->comm, heap, PAGE, &window), "create again after the free");
  fine(p, tutti_window_free(window), "free");
  fine(p, tutti_deregister(p->comm, pages), "deregister");
  fine(p, tutti_free(p->comm, heap), "free");
  free(pages);
  if (tutti_window_address(NULL, 0) || tutti_window_bytes(NULL, 0)) wrong(p, "a window that is NULL has a part");
}

/* A communicator that is freed with windows gives an error. */
static void left_behind(struct player *p) {
  tutti_comm *copy;
  tutti_window *window, *another;
  fine(p, tutti_comm_dup(p->comm, &copy), "dup");
  fine(p, tutti_window_create(copy, NULL, PART, &window), "create");
  fine(p, tutti_window_create(copy, NULL, PART, &another), "create");
  void *memory = tutti_window_address(window, p->rank);
  meet(p); /* else the error of the first rank could reach others while they create */
  tutti_err err = tutti_comm_free(copy);
  refused(p, err, TUTTI_ERR_ARGUMENT, "2 windows|tutti_window_free", "free with windows");
  meet(p); /* so that the memory is in no thread's window any more */
  refused(p, tutti_signal_set(memory, 1, NULL), TUTTI_ERR_ARGUMENT, "no window", "a signal there");
}

/* Windows of a failed communicator return its verdict, and can be freed without the other ranks. */
static void after_a_failure(struct player *p) {
  tutti_comm *copy;
  tutti_window *window;
  int32_t mine = 1;
  fine(p, tutti_comm_dup(p->comm, &copy), "dup");
  fine(p, tutti_window_create(copy, NULL, PART, &window), "create");
  meet(p); /* no rank is still in the call */
  if (p->rank == 0) tutti_abort(copy, "abort in a test");
  meet(p);
  int32_t *signal = tutti_window_address(window, p->rank);
  tutti_tensor to = rows_of(signal, TUTTI_I32, 1, 1), from = rows_of(&mine, TUTTI_I32, 1, 1);
  const char *words = "rank 0|abort in a test";
  refused(p, tutti_put(&from, &to, NULL, NULL), TUTTI_ERR_ABORTED, words, "put");
  refused(p, tutti_get(&to, &from, NULL, NULL), TUTTI_ERR_ABORTED, words, "get");
  refused(p, tutti_put_add(&from, &to, NULL, NULL), TUTTI_ERR_ABORTED, words, "put_add");
  refused(p, tutti_signal_add(signal, 1, NULL), TUTTI_ERR_ABORTED, words, "signal_add");
  refused(p, tutti_signal_wait(&to, TUTTI_EQ, 5, 0, NULL), TUTTI_ERR_ABORTED, words, "signal_wait");
  refused(p, tutti_window_free(window), TUTTI_ERR_ABORTED, words, "free");
  refused(p, tutti_comm_free(copy), TUTTI_ERR_ABORTED, words, "free of the communicator");
}

/* ---- put and get ---- */

/* A window, and valid tensors; each test makes one of them invalid. */
struct scene {
  tutti_window *window;
  unsigned char *part, *remote; /* this rank's part, and the next rank's */
  float local[8][8];
  tutti_tensor here, there; /* 4 x 6 elements */
};

static void set_scene(struct player *p, struct scene *s) {
  fine(p, tutti_window_create(p->comm, NULL, PART, &s->window), "create");
  s->part = tutti_window_address(s->window, p->rank);
  s->remote = tutti_window_address(s->window, (p->rank + 1) % p->ranks);
  s->here = rows_of(s->local, TUTTI_F32, 4, 6);
  s->there = rows_of(s->remote, TUTTI_F32, 4, 6);
}

static void end_scene(struct player *p, struct scene *s) {
  meet(p);
  fine(p, tutti_window_free(s->window), "free");
}

typedef tutti_err mover(const tutti_tensor *from, const tutti_tensor *to, const tutti_staging *staging,
                        const tutti_events *events);
static const struct {
  mover *move;
  const char *name;
  bool gets;
} movers[] = {
    {tutti_put, "tutti_put: ", false}, {tutti_get, "tutti_get: ", true}, {tutti_put_add, "tutti_put_add: ", false}};

/* Checks that put, get and put_add between these tensors fail. */
static void refuse_pair(struct player *p, const tutti_tensor *remote, const tutti_tensor *local,
                        const tutti_staging *staging, const char *words) {
  for (int i = 0; i < 3; i++) {
    tutti_err err =
        movers[i].gets ? movers[i].move(remote, local, staging, NULL) : movers[i].move(local, remote, staging, NULL);
    refused(p, err, TUTTI_ERR_ARGUMENT, words, movers[i].name);
    refused(p, err, TUTTI_ERR_ARGUMENT, movers[i].name, movers[i].name);
  }
}

static void bad_tensors(struct player *p) {
  struct scene s;
  set_scene(p, &s);
  tutti_tensor t = s.there, odd;
  refuse_pair(p, NULL, &s.here, NULL, "NULL");
  refuse_pair(p, &s.there, NULL, NULL, "NULL");
  t.data = NULL;
  refuse_pair(p, &t, &s.here, NULL, "data is NULL");
  refuse_pair(p, &s.there, &t, NULL, "data is NULL");
  refuse_pair(p, &s.here, &s.there, NULL, "no window");
  t = s.there, t.data = s.remote + PART;
  refuse_pair(p, &t, &s.here, NULL, "no window");
  t = s.there, t.data = s.remote + PART - 95;
  refuse_pair(p, &t, &s.here, NULL, "96 bytes|byte 929");
  refuse_pair(p, &t, &s.here, NULL, "1024");
  t = rows_of(s.local, TUTTI_F32, 6, 4);
  refuse_pair(p, &s.there, &t, NULL, "shape");
  refuse_pair(p, &s.there, &t, NULL, "1x1x1x6x4");
  t = rows_of(s.local, TUTTI_I32, 4, 6);
  refuse_pair(p, &s.there, &t, NULL, "f32|i32");
  t = s.there, t.strides[3] = 2;
  refuse_pair(p, &t, &s.here, NULL, "strides");
  t = s.there, t.type = (tutti_datatype)(TUTTI_BOOL + 1);
  refuse_pair(p, &t, &s.here, NULL, "data type");
  t = rows_of(s.part, TUTTI_F32, 4, 6), odd = rows_of(s.part + 4, TUTTI_F32, 4, 6);
  refuse_pair(p, &t, &odd, NULL, "to|from|overlap");
  t = rows_of(s.remote, TUTTI_U8, 4, 6), odd = rows_of(s.local, TUTTI_U8, 4, 6);
  refused(p, tutti_put_add(&odd, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "atomic addition|u8", "put_add");
  t = s.there, t.data = s.remote + 2;
  refused(p, tutti_put_add(&s.here, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "not aligned", "put_add");
  fine(p, tutti_put(&s.here, &s.there, NULL, NULL), "put after the errors");
  end_scene(p, &s);
}

static void bad_staging(struct player *p) {
  struct scene s;
  float tiles[3][4][4];
  set_scene(p, &s);
  const tutti_staging good_one = {.tiles = {tiles[0], tiles[1]}, .rows = 4, .cols = 4};
  tutti_staging g = good_one;
  g.tiles[0] = NULL;
  refuse_pair(p, &s.there, &s.here, &g, "tiles[1]|tiles[0]");
  g = good_one, g.rows = 0;
  refuse_pair(p, &s.there, &s.here, &g, "tile of 0x4");
  g = good_one, g.cols = 0;
  refuse_pair(p, &s.there, &s.here, &g, "tile of 4x0");
  g = good_one, g.valid_rows = 5;
  refuse_pair(p, &s.there, &s.here, &g, "5x0|4x4");
  g = good_one, g.valid_cols = 5;
  refuse_pair(p, &s.there, &s.here, &g, "0x5|4x4");
  g = good_one, g.rows = SIZE_MAX / 4;
  refuse_pair(p, &s.there, &s.here, &g, "memory");
  g = good_one, g.tiles[1] = &tiles[0][3][3];
  refuse_pair(p, &s.there, &s.here, &g, "tiles[0]|tiles[1]|overlap");
  g = good_one, g.tiles[1] = g.tiles[0];
  refuse_pair(p, &s.there, &s.here, &g, "tiles[0]|tiles[1]|overlap");
  g = good_one, g.tiles[0] = &s.local[1][0];
  refuse_pair(p, &s.there, &s.here, &g, "tiles[0]|64 bytes|overlaps");
  g = good_one, g.tiles[1] = s.remote + 92;
  refuse_pair(p, &s.there, &s.here, &g, "tiles[|overlaps");
  g = good_one, g.tiles[1] = (char *)tiles[1] + 1;
  refuse_pair(p, &s.there, &s.here, &g, "not aligned");
  g = good_one, g.fixed_rows = true, g.valid_rows = 3;
  refuse_pair(p, &s.there, &s.here, &g, "valid_rows|3|fixed");
  g = good_one, g.fixed_cols = true;
  refuse_pair(p, &s.there, &s.here, &g, "valid_cols|4|fixed");
  fine(p, tutti_put(&s.here, &s.there, &good_one, NULL), "put after the errors");
  g = good_one, g.fixed_rows = g.fixed_cols = true, g.valid_cols = 3;
  fine(p, tutti_put(&s.here, &s.there, &g, NULL), "fixed sizes that divide");
  tutti_tensor small = rows_of(s.local, TUTTI_F32, 3, 3), away = rows_of(s.remote, TUTTI_F32, 3, 3);
  g.valid_rows = 4, g.valid_cols = 4;
  fine(p, tutti_put(&small, &away, &g, NULL), "a fixed tile larger than the data");
  end_scene(p, &s);
}

/* Calls that move no data check shapes and types only. */
static void nothing_at_all(struct player *p) {
  struct scene s;
  set_scene(p, &s);
  for (int cols = 0; cols < 2; cols++) {
    tutti_tensor none = rows_of(NULL, TUTTI_F32, cols ? 4 : 0, cols ? 0 : 6);
    tutti_tensor here = rows_of(s.local, TUTTI_F32, cols ? 4 : 0, cols ? 0 : 6);
    tutti_tensor tensors[TROUPE_MAX], other = rows_of(s.local, TUTTI_F32, 4, 5);
    for (uint32_t r = 0; r < p->ranks; r++) tensors[r] = none;
    const tutti_onesided_group group = {tensors, p->ranks, p->rank};
    for (int i = 0; i < 3; i++) fine(p, movers[i].move(&none, &here, NULL, NULL), "nothing to move");
    fine(p, tutti_onesided_gather(&group, cols ? &here : &s.here, NULL, NULL), "nothing to gather");
    fine(p, tutti_onesided_scatter(&group, cols ? &here : &s.here, NULL, NULL), "nothing to scatter");
    fine(p, tutti_onesided_reduce(&group, cols ? &here : &s.here, TUTTI_SUM, NULL, NULL, NULL), "nothing to reduce");
    fine(p, tutti_onesided_broadcast(&group, &none, NULL, NULL), "nothing to broadcast");
    refused(p, tutti_onesided_gather(&group, &other, NULL, NULL), TUTTI_ERR_ARGUMENT, "shape", "of another shape");
  }
  end_scene(p, &s);
}

/* ---- calls that only the root makes ---- */

enum { ROWS = 4, COLS = 6 };

struct group_scene {
  struct scene s;
  tutti_window *another;
  tutti_tensor tensors[TROUPE_MAX], own;
  float memory[TROUPE_MAX * ROWS][COLS];
  tutti_onesided_group group;
};

static tutti_err call(int which, const tutti_onesided_group *group, const tutti_tensor *own,
                      const tutti_staging *staging, void *accumulator) {
  switch (which) {
    case 0: return tutti_onesided_gather(group, own, staging, NULL);
    case 1: return tutti_onesided_scatter(group, own, staging, NULL);
    case 2: return tutti_onesided_broadcast(group, own, staging, NULL);
    default: return tutti_onesided_reduce(group, own, TUTTI_SUM, accumulator, staging, NULL);
  }
}
static const char *const names[] = {
    "tutti_onesided_gather: ", "tutti_onesided_scatter: ", "tutti_onesided_broadcast: ", "tutti_onesided_reduce: "};

/* Checks that all four calls fail; `own` NULL: with a valid tensor of the root that is long enough. */
static void refuse_group(struct player *p, const struct group_scene *g, const tutti_onesided_group *group,
                         const tutti_tensor *own, const tutti_staging *staging, const char *words) {
  for (int i = 0; i < 4; i++) {
    tutti_tensor block = g->own;
    block.shape[3] = ROWS;
    tutti_err err = call(i, group, own ? own : i < 2 ? &g->own : &block, staging, NULL);
    refused(p, err, TUTTI_ERR_ARGUMENT, words, names[i]);
    refused(p, err, TUTTI_ERR_ARGUMENT, names[i], names[i]);
  }
}

static void bad_groups_of(struct player *p, struct group_scene *g) {
  tutti_onesided_group group = g->group;
  tutti_tensor tensors[TROUPE_MAX], t;
  memcpy(tensors, g->tensors, sizeof tensors);
  refuse_group(p, g, NULL, NULL, NULL, "group|one tensor");
  group.count = 0;
  refuse_group(p, g, &group, NULL, NULL, "group|one tensor");
  group = g->group, group.tensors = NULL;
  refuse_group(p, g, &group, NULL, NULL, "group|one tensor");
  group = g->group, group.root = p->ranks;
  refuse_group(p, g, &group, NULL, NULL, "root|group");
  group = g->group, group.root = (p->rank + 1) % p->ranks;
  if (p->ranks > 1) refuse_group(p, g, &group, NULL, NULL, "root|caller");
  group = g->group, group.tensors = tensors;
  uint32_t last = p->ranks - 1;
  tensors[last].data = g->memory;
  refuse_group(p, g, &group, NULL, NULL, "no window");
  tensors[last] = g->tensors[last], tensors[last].type = TUTTI_I32;
  refuse_group(p, g, &group, NULL, NULL, "f32|i32");
  if (p->ranks > 1) {
    tensors[last] = rows_of(g->tensors[last].data, TUTTI_F32, ROWS + 1, COLS);
    refuse_group(p, g, &group, NULL, NULL, "shape");
    tensors[last] = g->tensors[last], tensors[last].strides[3] = COLS + 1;
    refuse_group(p, g, &group, NULL, NULL, "equal shapes|strides");
    tensors[last] = g->tensors[last], tensors[last].data = tutti_window_address(g->another, last);
    refuse_group(p, g, &group, NULL, NULL, "different windows");
    tensors[last] = g->tensors[0];
    refuse_group(p, g, &group, NULL, NULL, "two tensors|rank 0's part");
    t = rows_of(g->s.remote, TUTTI_F32, ROWS, COLS), tensors[last] = g->tensors[last];
    refused(p, tutti_onesided_broadcast(&group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "root's own",
            "memory of another rank");
  }
}

static void bad_own_tensors(struct player *p, struct group_scene *g) {
  tutti_tensor t = rows_of(g->memory, TUTTI_F32, ROWS, COLS + 1),
               longer = rows_of(g->memory, TUTTI_F32, ROWS + 1, COLS);
  refuse_group(p, g, &g->group, &t, NULL, "shape|dimension 3");
  t = rows_of(g->memory, TUTTI_I32, p->ranks * ROWS, COLS);
  refuse_group(p, g, &g->group, &t, NULL, "f32|i32");
  t = g->own, t.data = NULL;
  refuse_group(p, g, &g->group, &t, NULL, "data is NULL");
  t = rows_of(g->memory, TUTTI_F32, p->ranks * ROWS - 1, COLS);
  char words[64];
  snprintf(words, sizeof words, "%u rows|%u|4 |%u ranks", p->ranks * ROWS - 1, p->ranks * ROWS, p->ranks);
  refused(p, tutti_onesided_gather(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, words, "too small");
  refused(p, tutti_onesided_scatter(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, words, "too small");
  t = rows_of(g->memory, TUTTI_F32, 0, COLS);
  refused(p, tutti_onesided_gather(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "has 0 rows",
          "nothing to gather into");
  t = rows_of(g->memory, TUTTI_F32, ROWS - 1, COLS);
  refused(p, tutti_onesided_reduce(&g->group, &t, TUTTI_SUM, NULL, NULL, NULL), TUTTI_ERR_ARGUMENT, "to has 3 rows|4",
          "too small");
  refused(p, tutti_onesided_broadcast(&g->group, &longer, NULL, NULL), TUTTI_ERR_ARGUMENT, "tensors[0] has 4 rows|5",
          "too small");
  /* The root's own tensor of the group, shifted by one element. */
  float *mine = g->tensors[p->rank].data;
  t = rows_of(mine + 1, TUTTI_F32, p->ranks * ROWS, COLS);
  refused(p, tutti_onesided_gather(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "overlap", "gather onto itself");
  refused(p, tutti_onesided_scatter(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "overlap", "scatter onto itself");
  t = rows_of(mine + 1, TUTTI_F32, ROWS, COLS);
  refused(p, tutti_onesided_reduce(&g->group, &t, TUTTI_SUM, NULL, NULL, NULL), TUTTI_ERR_ARGUMENT, "overlap",
          "reduce");
  refused(p, tutti_onesided_broadcast(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "overlap", "broadcast");
  static const tutti_op ops[] = {TUTTI_PROD, TUTTI_AVG, TUTTI_BAND, TUTTI_PREMUL_SUM, TUTTI_USER_OPS, 1u << 30};
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
    refused(p, tutti_onesided_reduce(&g->group, &g->own, ops[i], NULL, NULL, NULL), TUTTI_ERR_ARGUMENT, "sum, min",
            "an operation");
}

static void bad_tiles_of_groups(struct player *p, struct group_scene *g) {
  float tiles[3][2][COLS];
  const tutti_staging good_one = {.tiles = {tiles[0], tiles[1]}, .rows = 2, .cols = COLS};
  tutti_staging s = good_one;
  s.tiles[1] = &tiles[0][1][0];
  refuse_group(p, g, &g->group, NULL, &s, "tiles[0]|tiles[1]|overlap");
  s = good_one, s.tiles[0] = (char *)g->tensors[p->ranks - 1].data + ROWS * COLS * sizeof(float) - 4;
  refuse_group(p, g, &g->group, NULL, &s, "overlaps|tensors[");
  s = good_one, s.tiles[0] = g->memory;
  refuse_group(p, g, &g->group, NULL, &s, "tiles[|overlaps");
  s = good_one, s.rows = 3, s.valid_rows = 3, s.fixed_rows = true, s.tiles[1] = NULL;
  float wide[3][COLS];
  s.tiles[0] = wide;
  refuse_group(p, g, &g->group, NULL, &s, "valid_|fixed");
  s = good_one, s.valid_cols = 4, s.fixed_cols = true;
  refuse_group(p, g, &g->group, NULL, &s, "valid_|fixed");
  refused(p, call(3, &g->group, &g->own, &good_one, tiles[1]), TUTTI_ERR_ARGUMENT, "tiles[1]|accumulator|overlap",
          "the accumulator");
  refused(p, call(3, &g->group, &g->own, &good_one, g->memory[1]), TUTTI_ERR_ARGUMENT, "accumulator|48 bytes",
          "the accumulator");
  refused(p, call(3, &g->group, &g->own, &good_one, (char *)tiles[2] + 1), TUTTI_ERR_ARGUMENT, "not aligned",
          "the accumulator");
}

static void bad_groups(struct player *p) {
  struct group_scene *g = calloc(1, sizeof *g);
  set_scene(p, &g->s);
  fine(p, tutti_window_create(p->comm, NULL, PART, &g->another), "create another");
  for (uint32_t r = 0; r < p->ranks; r++)
    g->tensors[r] = rows_of(tutti_window_address(g->s.window, r), TUTTI_F32, ROWS, COLS);
  g->own = rows_of(g->memory, TUTTI_F32, (size_t)p->ranks * ROWS, COLS);
  g->group = (tutti_onesided_group){g->tensors, p->ranks, p->rank};
  for (uint32_t turn = 0; turn < p->ranks; turn++) {
    if (turn == p->rank) {
      bad_groups_of(p, g);
      bad_own_tensors(p, g);
      bad_tiles_of_groups(p, g);
      tutti_tensor block = g->own;
      block.shape[3] = ROWS;
      for (int i = 0; i < 4; i++)
        fine(p, call(i, &g->group, i < 2 ? &g->own : &block, NULL, NULL), "call after the errors");
    }
    meet(p);
  }
  fine(p, tutti_window_free(g->another), "free");
  end_scene(p, &g->s);
  free(g);
}

/* A tile of 2 GiB is large enough for anything, but not for data of another host. */
static void huge_tiles(struct player *p) {
  struct scene s;
  float mine[2] = {1, 2};
  const size_t bytes = (size_t)2 << 30;
  set_scene(p, &s);
  void *tile = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (tile == MAP_FAILED) abort();
  const uint32_t next = (p->rank + 1) % p->ranks;
  const tutti_staging staging = {.tiles = {tile}, .rows = bytes / 1024, .cols = 256};
  const tutti_tensor from = rows_of(mine, TUTTI_F32, 1, 2), to = rows_of(s.remote, TUTTI_F32, 1, 2);
  const bool mapped = is_mapped(p, s.window, next);
  const tutti_err err = tutti_put(&from, &to, &staging, NULL);
  if (mapped) fine(p, err, "a huge tile");
  else refused(p, err, TUTTI_ERR_ARGUMENT, "tutti_put|tile|2147483648|another host", "a huge tile");
  munmap(tile, bytes);
  end_scene(p, &s);
}

/* ---- two roots at a time ---- */

/* Stays in the call, after the first load, until the other ranks have got their errors. */
struct stopper {
  struct tu_loader loader; /* must be the first member */
  struct player *player;
};

static void wait_for_others(struct tu_loader *loader, enum tu_moment moment, size_t index) {
  struct player *p = ((struct stopper *)(void *)loader)->player;
  if (moment != TU_LOAD_ENDS || index > 0) return;
  atomic_store(&p->stage->here, 1);
  while (atomic_load(&p->stage->here) < p->ranks) ranks_sleep_us(200);
}

static void two_at_once(struct player *p) {
  struct scene s;
  float own[TROUPE_MAX * 2], tile[2];
  tutti_tensor tensors[TROUPE_MAX], to = rows_of(own, TUTTI_F32, p->ranks, 2);
  set_scene(p, &s);
  for (uint32_t r = 0; r < p->ranks; r++) tensors[r] = rows_of(tutti_window_address(s.window, r), TUTTI_F32, 1, 2);
  const tutti_onesided_group group = {tensors, p->ranks, p->rank};
  const tutti_staging one = {.tiles = {tile}, .rows = 1, .cols = 2};
  meet(p);
  if (p->rank == 0) {
    struct stopper stopper = {.loader = {.moment = wait_for_others}, .player = p};
    tu_stage_loader = &stopper.loader;
    fine(p, tutti_onesided_gather(&group, &to, &one, NULL), "the first");
    tu_stage_loader = NULL;
  } else {
    while (atomic_load(&p->stage->here) == 0) ranks_sleep_us(200);
    tutti_tensor block = rows_of(own, TUTTI_F32, 1, 2);
    for (int i = 0; i < 4; i++) {
      tutti_err err = call(i, &group, i < 2 ? &to : &block, i % 2 ? &one : NULL, NULL);
      refused(p, err, TUTTI_ERR_ARGUMENT, "rank 0|in a call|window", "the second");
      char words[32];
      snprintf(words, sizeof words, "rank %u", p->rank);
      refused(p, err, TUTTI_ERR_ARGUMENT, words, "the second");
    }
    atomic_fetch_add(&p->stage->here, 1);
  }
  for (uint32_t turn = 0; turn < p->ranks; turn++) {
    meet(p);
    if (p->rank == turn) fine(p, tutti_onesided_gather(&group, &to, &one, NULL), "gather by one root after the other");
  }
  end_scene(p, &s);
}

/* Roots of groups without a common rank do not wait for each other: rank 0 stays in its call until all others have
 * finished theirs. Groups are pairs, with the upper rank first. */
static void apart_at_once(struct player *p) {
  struct scene s;
  float own[4] = {-1, -1, -1, -1}, tile[2];
  const uint32_t lower = p->rank & ~1u, count = lower + 1 < p->ranks ? 2 : 1;
  tutti_tensor tensors[2], to = rows_of(own, TUTTI_F32, count, 2);
  set_scene(p, &s);
  float *mine = tutti_window_address(s.window, p->rank);
  mine[0] = (float)p->rank, mine[1] = (float)p->rank + 0.5f;
  for (uint32_t i = 0; i < count; i++)
    tensors[i] = rows_of(tutti_window_address(s.window, lower + count - 1 - i), TUTTI_F32, 1, 2);
  const tutti_onesided_group group = {tensors, count, count - 1};
  const tutti_staging one = {.tiles = {tile}, .rows = 1, .cols = 2};
  struct stopper stopper = {.loader = {.moment = wait_for_others}, .player = p};
  meet(p);
  while (p->rank > 0 && atomic_load(&p->stage->here) == 0) ranks_sleep_us(200);
  tu_stage_loader = p->rank == 0 ? &stopper.loader : NULL;
  if (p->rank == lower) fine(p, tutti_onesided_gather(&group, &to, &one, NULL), "gather in a group of its own");
  tu_stage_loader = NULL;
  if (p->rank > 0) atomic_fetch_add(&p->stage->here, 1);
  for (uint32_t i = 0; p->rank == lower && i < count; i++) {
    float wanted = (float)(lower + count - 1 - i);
    if (own[2 * i] != wanted || own[2 * i + 1] != wanted + 0.5f) wrong(p, "rank %u: row %u is wrong", p->rank, i);
  }
  meet(p);
  end_scene(p, &s);
}

/* ---- all tests ---- */

static const struct troupe_case cases[] = {
    {TROUPE_CASE(bad_windows)},   {TROUPE_CASE(left_behind)}, {TROUPE_CASE(after_a_failure)},
    {TROUPE_CASE(bad_tensors)},   {TROUPE_CASE(bad_staging)}, {TROUPE_CASE(nothing_at_all)},
    {TROUPE_CASE(huge_tiles)},    {TROUPE_CASE(bad_groups)},  {TROUPE_CASE(two_at_once)},
    {TROUPE_CASE(apart_at_once)},
};

int main(int argc, char **argv) {
  return troupe_main(cases, sizeof cases / sizeof cases[0], TROUPE_TRANSPORTS(1, 2, 3), argc, argv);
}
