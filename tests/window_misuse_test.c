/* window_misuse_test.c: what one-sided calls refuse, in which words, and that all goes on afterwards: on threads, and
 * with real processes. */
#include "onesided.h"

enum { PAGE = 4096, PART = 1024, TROUPE = 3 };

/* ---- windows ---- */

/* A part that is refused on one rank is refused on all, in that rank's words. */
static void refuse_part(struct player *p, uint32_t rank, void *memory, size_t bytes, tutti_err wanted,
                        const char *words, const char *what) {
  tutti_window *window = (void *)p;
  char whose[64];
  tutti_err err = p->rank == rank ? tutti_window_create(p->comm, memory, bytes, &window)
                                  : tutti_window_create(p->comm, NULL, PART, &window);
  snprintf(whose, sizeof whose, "tutti_window_create: rank %u: ", rank);
  refused(p, err, wanted, words, what);
  refused(p, err, wanted, whose, what);
  if (window) wrong(p, "rank %u: %s: there is a window", p->rank, what);
}

static void bad_windows(struct player *p) {
  unsigned char mine[64];
  void *heap = NULL, *pages = aligned_alloc(PAGE, 2 * PAGE), *theirs;
  tutti_window *window, *none = NULL;
  fine(p, tutti_alloc(p->comm, 2 * PAGE, &heap), "alloc");
  refused(p, tutti_window_create(NULL, NULL, PART, &none), TUTTI_ERR_ARGUMENT, "the communicator is NULL", "no comm");
  for (uint32_t r = 0; r < p->ranks; r++) {
    refuse_part(p, r, mine, sizeof mine, TUTTI_ERR_ARGUMENT, "tutti_alloc or registered", "the stack");
    refuse_part(p, r, pages, PAGE, TUTTI_ERR_ARGUMENT, "Allocate or register them first", "memory of malloc");
    refuse_part(p, r, heap, 2 * PAGE + 1, TUTTI_ERR_ARGUMENT, "not as a whole", "more than was allocated");
    refuse_part(p, r, (char *)heap + PAGE, PAGE + 1, TUTTI_ERR_ARGUMENT, "not as a whole", "beyond the end");
    refuse_part(p, r, heap, SIZE_MAX, TUTTI_ERR_ARGUMENT, "not as a whole", "all memory from there");
    refuse_part(p, r, NULL, (size_t)TROUPE_SLICE, TUTTI_ERR_MEMORY, "TUTTI_SHM_BYTES", "too much");
    refuse_part(p, r, NULL, SIZE_MAX, TUTTI_ERR_MEMORY, "TUTTI_SHM_BYTES", "all memory");
  }
  tutti_err err =
      p->rank == 0 ? tutti_window_create(p->comm, NULL, PART, NULL) : tutti_window_create(p->comm, NULL, PART, &none);
  refused(p, err, TUTTI_ERR_ARGUMENT, "no place for the window", "no place");
  fine(p, tutti_register(p->comm, pages, PAGE), "register");
  refuse_part(p, 0, pages, PAGE + 8, TUTTI_ERR_ARGUMENT, "not as a whole", "more than was registered");
  fine(p, tutti_window_create(p->comm, heap, PAGE, &window), "a window over the first half");
  refuse_part(p, p->ranks - 1, (char *)heap + PAGE - 1, 2, TUTTI_ERR_ARGUMENT, "belong to another window already",
              "in two windows");
  refuse_part(p, 0, heap, PAGE, TUTTI_ERR_ARGUMENT, "belong to another window already", "twice the same");
  fine(p, tutti_window_create(p->comm, (char *)heap + PAGE, PAGE, &none), "a window beside it");
  fine(p, tutti_window_free(none), "free");
  theirs = tutti_window_address(window, (p->rank + 1) % p->ranks);
  if (p->ranks > 1) /* all ranks offer what is another's */
    refused(p, tutti_window_create(p->comm, theirs, PAGE, &none), TUTTI_ERR_ARGUMENT, "not as a whole",
            "memory of another rank");
  fine(p, tutti_window_free(window), "free");
  fine(p, tutti_window_create(p->comm, heap, PAGE, &window), "again, after the free");
  fine(p, tutti_window_free(window), "free");
  fine(p, tutti_deregister(p->comm, pages), "deregister");
  fine(p, tutti_free(p->comm, heap), "free");
  free(pages);
  if (tutti_window_address(NULL, 0) || tutti_window_bytes(NULL, 0)) wrong(p, "a window that is NULL has a part");
}

/* What is left is the communicator's fault. */
static void left_behind(struct player *p) {
  tutti_comm *copy;
  tutti_window *window, *another;
  fine(p, tutti_comm_dup(p->comm, &copy), "dup");
  fine(p, tutti_window_create(copy, NULL, PART, &window), "create");
  fine(p, tutti_window_create(copy, NULL, PART, &another), "create");
  void *memory = tutti_window_address(window, p->rank);
  meet(p); /* else the first one's fault is the others' verdict while they create */
  tutti_err err = tutti_comm_free(copy);
  refused(p, err, TUTTI_ERR_ARGUMENT, "still has 2 windows; tutti_window_free comes first", "free with windows");
  meet(p); /* threads: it is in the others' windows, too */
  refused(p, tutti_signal_set(memory, 1, NULL), TUTTI_ERR_ARGUMENT, "in no window", "a signal there");
}

/* A failed communicator's windows return its verdict, and can be freed without the others. */
static void after_a_failure(struct player *p) {
  tutti_comm *copy;
  tutti_window *window;
  int32_t mine = 1;
  fine(p, tutti_comm_dup(p->comm, &copy), "dup");
  fine(p, tutti_window_create(copy, NULL, PART, &window), "create");
  if (p->rank == 0) tutti_abort(copy, "enough");
  meet(p);
  int32_t *signal = tutti_window_address(window, p->rank);
  tutti_tensor to = rows_of(signal, TUTTI_I32, 1, 1), from = rows_of(&mine, TUTTI_I32, 1, 1);
  const char *words = "rank 0 aborted: enough";
  refused(p, tutti_put(&to, &from, NULL, NULL), TUTTI_ERR_ABORTED, words, "put");
  refused(p, tutti_get(&from, &to, NULL, NULL), TUTTI_ERR_ABORTED, words, "get");
  refused(p, tutti_put_add(&to, &from, NULL, NULL), TUTTI_ERR_ABORTED, words, "put_add");
  refused(p, tutti_signal_add(signal, 1, NULL), TUTTI_ERR_ABORTED, words, "signal_add");
  refused(p, tutti_signal_wait(&to, TUTTI_EQ, 5, 0, NULL), TUTTI_ERR_ABORTED, words, "signal_wait");
  refused(p, tutti_window_free(window), TUTTI_ERR_ABORTED, words, "free");
  refused(p, tutti_comm_free(copy), TUTTI_ERR_ABORTED, words, "free of the communicator");
}

/* ---- put and get ---- */

/* A window, and tensors that are good: the tests spoil one thing at a time. */
struct scene {
  tutti_window *window;
  unsigned char *part, *remote; /* this rank's, and the next one's */
  float local[8][8];
  tutti_tensor here, there; /* 4 x 6 */
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

typedef tutti_err mover(const tutti_tensor *to, const tutti_tensor *from, const tutti_staging *staging,
                        const tutti_events *events);
static const struct {
  mover *move;
  const char *name;
  bool gets;
} movers[] = {
    {tutti_put, "tutti_put: ", false}, {tutti_get, "tutti_get: ", true}, {tutti_put_add, "tutti_put_add: ", false}};

/* The call between these, the remote one where it belongs. */
static void refuse_pair(struct player *p, const tutti_tensor *remote, const tutti_tensor *local,
                        const tutti_staging *staging, const char *words) {
  for (int i = 0; i < 3; i++) {
    tutti_err err =
        movers[i].gets ? movers[i].move(local, remote, staging, NULL) : movers[i].move(remote, local, staging, NULL);
    refused(p, err, TUTTI_ERR_ARGUMENT, words, movers[i].name);
    refused(p, err, TUTTI_ERR_ARGUMENT, movers[i].name, movers[i].name);
  }
}

static void bad_tensors(struct player *p) {
  struct scene s;
  set_scene(p, &s);
  tutti_tensor t = s.there, odd;
  refuse_pair(p, NULL, &s.here, NULL, "it is NULL");
  refuse_pair(p, &s.there, NULL, NULL, "it is NULL");
  t.data = NULL;
  refuse_pair(p, &t, &s.here, NULL, "its data is NULL");
  refuse_pair(p, &s.there, &t, NULL, "its data is NULL");
  refuse_pair(p, &s.here, &s.there, NULL, "in no window of this process");
  t = s.there, t.data = s.remote + PART;
  refuse_pair(p, &t, &s.here, NULL, "in no window");
  t = s.there, t.data = s.remote + PART - 95;
  refuse_pair(p, &t, &s.here, NULL, "takes 96 bytes from byte 929 of rank");
  refuse_pair(p, &t, &s.here, NULL, "which has only 1024");
  t = rows_of(s.local, TUTTI_F32, 6, 4);
  refuse_pair(p, &s.there, &t, NULL, "shape");
  refuse_pair(p, &s.there, &t, NULL, "1x1x1x6x4");
  t = rows_of(s.local, TUTTI_I32, 4, 6);
  refuse_pair(p, &s.there, &t, NULL, "both must be of one type");
  t = s.there, t.strides[3] = 2;
  refuse_pair(p, &t, &s.here, NULL, "on top of each other");
  t = s.there, t.type = TUTTI_DATATYPES;
  refuse_pair(p, &t, &s.here, NULL, "type is unknown");
  t = rows_of(s.part, TUTTI_F32, 4, 6), odd = rows_of(s.part + 4, TUTTI_F32, 4, 6);
  refuse_pair(p, &t, &odd, NULL, "to and from overlap");
  t = rows_of(s.remote, TUTTI_U8, 4, 6), odd = rows_of(s.local, TUTTI_U8, 4, 6);
  refused(p, tutti_put_add(&t, &odd, NULL, NULL), TUTTI_ERR_ARGUMENT, "no atomic addition of u8", "put_add");
  t = s.there, t.data = s.remote + 2;
  refused(p, tutti_put_add(&t, &s.here, NULL, NULL), TUTTI_ERR_ARGUMENT, "not aligned to its elements", "put_add");
  fine(p, tutti_put(&s.there, &s.here, NULL, NULL), "put, after all that");
  end_scene(p, &s);
}

static void bad_staging(struct player *p) {
  struct scene s;
  float tiles[3][4][4];
  set_scene(p, &s);
  const tutti_staging good_one = {.tiles = {tiles[0], tiles[1]}, .rows = 4, .cols = 4};
  tutti_staging g = good_one;
  g.tiles[0] = NULL;
  refuse_pair(p, &s.there, &s.here, &g, "tiles[1] without tiles[0]");
  g = good_one, g.rows = 0;
  refuse_pair(p, &s.there, &s.here, &g, "holds nothing");
  g = good_one, g.cols = 0;
  refuse_pair(p, &s.there, &s.here, &g, "holds nothing");
  g = good_one, g.valid_rows = 5;
  refuse_pair(p, &s.there, &s.here, &g, "5x0 valid elements do not fit a tile of 4x4");
  g = good_one, g.valid_cols = 5;
  refuse_pair(p, &s.there, &s.here, &g, "do not fit");
  g = good_one, g.rows = SIZE_MAX / 4;
  refuse_pair(p, &s.there, &s.here, &g, "larger than memory");
  g = good_one, g.tiles[1] = &tiles[0][3][3];
  refuse_pair(p, &s.there, &s.here, &g, "tiles[0] and tiles[1] overlap");
  g = good_one, g.tiles[1] = g.tiles[0];
  refuse_pair(p, &s.there, &s.here, &g, "tiles[0] and tiles[1] overlap");
  g = good_one, g.tiles[0] = &s.local[1][0];
  refuse_pair(p, &s.there, &s.here, &g, "tiles[0], 64 bytes at");
  g = good_one, g.tiles[1] = s.remote + 92;
  refuse_pair(p, &s.there, &s.here, &g, "overlaps the data of");
  g = good_one, g.tiles[1] = (char *)tiles[1] + 1;
  refuse_pair(p, &s.there, &s.here, &g, "not aligned to its elements");
  g = good_one, g.fixed_rows = true, g.valid_rows = 3;
  refuse_pair(p, &s.there, &s.here, &g, "valid_rows, 3, which is fixed; use a dynamic one");
  g = good_one, g.fixed_cols = true;
  refuse_pair(p, &s.there, &s.here, &g, "valid_cols, 4, which is fixed; use a dynamic one");
  fine(p, tutti_put(&s.there, &s.here, &good_one, NULL), "put, after all that");
  g = good_one, g.fixed_rows = g.fixed_cols = true, g.valid_cols = 3;
  fine(p, tutti_put(&s.there, &s.here, &g, NULL), "fixed ones that divide");
  tutti_tensor small = rows_of(s.local, TUTTI_F32, 3, 3), away = rows_of(s.remote, TUTTI_F32, 3, 3);
  g.valid_rows = 4, g.valid_cols = 4;
  fine(p, tutti_put(&away, &small, &g, NULL), "a fixed tile that is larger than all of it");
  end_scene(p, &s);
}

/* Nothing is looked at where nothing would be moved, but for shapes and types. */
static void nothing_at_all(struct player *p) {
  struct scene s;
  set_scene(p, &s);
  for (int cols = 0; cols < 2; cols++) {
    tutti_tensor none = rows_of(NULL, TUTTI_F32, cols ? 4 : 0, cols ? 0 : 6);
    tutti_tensor here = rows_of(s.local, TUTTI_F32, cols ? 4 : 0, cols ? 0 : 6);
    tutti_tensor tensors[TROUPE_MAX], other = rows_of(s.local, TUTTI_F32, 4, 5);
    for (uint32_t r = 0; r < p->ranks; r++) tensors[r] = none;
    const tutti_group group = {tensors, p->ranks, p->rank};
    for (int i = 0; i < 3; i++) fine(p, movers[i].move(&none, &here, NULL, NULL), "nothing to move");
    fine(p, tutti_group_gather(&group, cols ? &here : &s.here, NULL, NULL), "nothing to gather");
    fine(p, tutti_group_scatter(&group, cols ? &here : &s.here, NULL, NULL), "nothing to scatter");
    fine(p, tutti_group_reduce(&group, cols ? &here : &s.here, TUTTI_SUM, NULL, NULL, NULL), "nothing to reduce");
    fine(p, tutti_group_broadcast(&group, &none, NULL, NULL), "nothing to broadcast");
    refused(p, tutti_group_gather(&group, &other, NULL, NULL), TUTTI_ERR_ARGUMENT, "shape", "of another shape");
  }
  end_scene(p, &s);
}

/* ---- calls of the root alone ---- */

enum { ROWS = 4, COLS = 6 };

struct group_scene {
  struct scene s;
  tutti_window *another;
  tutti_tensor tensors[TROUPE_MAX], own;
  float memory[TROUPE_MAX * ROWS][COLS];
  tutti_group group;
};

static tutti_err call(int which, const tutti_group *group, const tutti_tensor *own, const tutti_staging *staging,
                      void *accumulator) {
  switch (which) {
    case 0: return tutti_group_gather(group, own, staging, NULL);
    case 1: return tutti_group_scatter(group, own, staging, NULL);
    case 2: return tutti_group_broadcast(group, own, staging, NULL);
    default: return tutti_group_reduce(group, own, TUTTI_SUM, accumulator, staging, NULL);
  }
}
static const char *const names[] = {
    "tutti_group_gather: ", "tutti_group_scatter: ", "tutti_group_broadcast: ", "tutti_group_reduce: "};

/* All four calls, each with a tensor of its own that is long enough, unless another is given. */
static void refuse_group(struct player *p, const struct group_scene *g, const tutti_group *group,
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
  tutti_group group = g->group;
  tutti_tensor tensors[TROUPE_MAX], t;
  memcpy(tensors, g->tensors, sizeof tensors);
  refuse_group(p, g, NULL, NULL, NULL, "a group of one tensor a rank is needed");
  group.count = 0;
  refuse_group(p, g, &group, NULL, NULL, "a group of one tensor a rank is needed");
  group = g->group, group.tensors = NULL;
  refuse_group(p, g, &group, NULL, NULL, "a group of one tensor a rank is needed");
  group = g->group, group.root = p->ranks;
  refuse_group(p, g, &group, NULL, NULL, "is not in a group of");
  group = g->group, group.root = (p->rank + 1) % p->ranks;
  if (p->ranks > 1) refuse_group(p, g, &group, NULL, NULL, "the root alone makes this call");
  group = g->group, group.tensors = tensors;
  uint32_t last = p->ranks - 1;
  tensors[last].data = g->memory;
  refuse_group(p, g, &group, NULL, NULL, "in no window");
  tensors[last] = g->tensors[last], tensors[last].type = TUTTI_I32;
  refuse_group(p, g, &group, NULL, NULL, "both must be of one type");
  if (p->ranks > 1) {
    tensors[last] = rows_of(g->tensors[last].data, TUTTI_F32, ROWS + 1, COLS);
    refuse_group(p, g, &group, NULL, NULL, "they must be equal");
    tensors[last] = g->tensors[last], tensors[last].strides[3] = COLS + 1;
    refuse_group(p, g, &group, NULL, NULL, "equal shapes, but other strides");
    tensors[last] = g->tensors[last], tensors[last].data = tutti_window_address(g->another, last);
    refuse_group(p, g, &group, NULL, NULL, "lie in different windows");
    tensors[last] = g->tensors[0];
    refuse_group(p, g, &group, NULL, NULL,
                 "two tensors of the group lie in rank 0's part of the window; each rank has one");
    t = rows_of(g->s.remote, TUTTI_F32, ROWS, COLS), tensors[last] = g->tensors[last];
    refused(p, tutti_group_broadcast(&group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "must be the root's own memory",
            "another's memory");
  }
}

static void bad_own_tensors(struct player *p, struct group_scene *g) {
  tutti_tensor t = rows_of(g->memory, TUTTI_F32, ROWS, COLS + 1),
               longer = rows_of(g->memory, TUTTI_F32, ROWS + 1, COLS);
  refuse_group(p, g, &g->group, &t, NULL, "they must be equal, but for dimension 3");
  t = rows_of(g->memory, TUTTI_I32, p->ranks * ROWS, COLS);
  refuse_group(p, g, &g->group, &t, NULL, "both must be of one type");
  t = g->own, t.data = NULL;
  refuse_group(p, g, &g->group, &t, NULL, "its data is NULL");
  t = rows_of(g->memory, TUTTI_F32, p->ranks * ROWS - 1, COLS);
  char words[64];
  snprintf(words, sizeof words, "has %u rows (dimension 3), and needs %u: 4 for each of %u ranks", p->ranks * ROWS - 1,
           p->ranks * ROWS, p->ranks);
  refused(p, tutti_group_gather(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, words, "too small");
  refused(p, tutti_group_scatter(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, words, "too small");
  t = rows_of(g->memory, TUTTI_F32, 0, COLS);
  refused(p, tutti_group_gather(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "has 0 rows", "nothing to gather into");
  t = rows_of(g->memory, TUTTI_F32, ROWS - 1, COLS);
  refused(p, tutti_group_reduce(&g->group, &t, TUTTI_SUM, NULL, NULL, NULL), TUTTI_ERR_ARGUMENT,
          "to has 3 rows (dimension 3), and needs 4", "too small");
  refused(p, tutti_group_broadcast(&g->group, &longer, NULL, NULL), TUTTI_ERR_ARGUMENT,
          "tensors[0] has 4 rows (dimension 3), and needs 5", "too small");
  /* The root's own tensor of the group, shifted by an element. */
  float *mine = g->tensors[p->rank].data;
  t = rows_of(mine + 1, TUTTI_F32, p->ranks * ROWS, COLS);
  refused(p, tutti_group_gather(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "overlap", "gather onto itself");
  refused(p, tutti_group_scatter(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "overlap", "scatter onto itself");
  t = rows_of(mine + 1, TUTTI_F32, ROWS, COLS);
  refused(p, tutti_group_reduce(&g->group, &t, TUTTI_SUM, NULL, NULL, NULL), TUTTI_ERR_ARGUMENT, "overlap", "reduce");
  refused(p, tutti_group_broadcast(&g->group, &t, NULL, NULL), TUTTI_ERR_ARGUMENT, "overlap", "broadcast");
  static const tutti_op ops[] = {TUTTI_PROD, TUTTI_AVG, TUTTI_BAND, TUTTI_PREMUL_SUM, TUTTI_OPS, 1u << 30};
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
    refused(p, tutti_group_reduce(&g->group, &g->own, ops[i], NULL, NULL, NULL), TUTTI_ERR_ARGUMENT,
            "sum, min and max are possible", "an operation");
}

static void bad_tiles_of_groups(struct player *p, struct group_scene *g) {
  float tiles[3][2][COLS];
  const tutti_staging good_one = {.tiles = {tiles[0], tiles[1]}, .rows = 2, .cols = COLS};
  tutti_staging s = good_one;
  s.tiles[1] = &tiles[0][1][0];
  refuse_group(p, g, &g->group, NULL, &s, "tiles[0] and tiles[1] overlap");
  s = good_one, s.tiles[0] = (char *)g->tensors[p->ranks - 1].data + ROWS * COLS * sizeof(float) - 4;
  refuse_group(p, g, &g->group, NULL, &s, "overlaps the data of tensors[");
  s = good_one, s.tiles[0] = g->memory;
  refuse_group(p, g, &g->group, NULL, &s, "overlaps the data of");
  s = good_one, s.rows = 3, s.valid_rows = 3, s.fixed_rows = true, s.tiles[1] = NULL;
  float wide[3][COLS];
  s.tiles[0] = wide;
  refuse_group(p, g, &g->group, NULL, &s, "use a dynamic one");
  s = good_one, s.valid_cols = 4, s.fixed_cols = true;
  refuse_group(p, g, &g->group, NULL, &s, "use a dynamic one");
  refused(p, call(3, &g->group, &g->own, &good_one, tiles[1]), TUTTI_ERR_ARGUMENT,
          "tiles[1] and the accumulator overlap", "the accumulator");
  refused(p, call(3, &g->group, &g->own, &good_one, g->memory[1]), TUTTI_ERR_ARGUMENT, "the accumulator, 48 bytes at",
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
  g->group = (tutti_group){g->tensors, p->ranks, p->rank};
  for (uint32_t turn = 0; turn < p->ranks; turn++) {
    if (turn == p->rank) {
      bad_groups_of(p, g);
      bad_own_tensors(p, g);
      bad_tiles_of_groups(p, g);
      tutti_tensor block = g->own;
      block.shape[3] = ROWS;
      for (int i = 0; i < 4; i++) fine(p, call(i, &g->group, i < 2 ? &g->own : &block, NULL, NULL), "after all that");
    }
    meet(p);
  }
  fine(p, tutti_window_free(g->another), "free");
  end_scene(p, &g->s);
  free(g);
}

/* ---- two at once ---- */

/* A loader that stays in the call until the others have had their answer. */
struct stopper {
  struct tu_loader loader; /* first */
  struct player *player;
};

static void load_now(struct tu_loader *loader, size_t index, const struct tu_load *load) {
  (void)loader, (void)index;
  tu_region_load(&load->region, load->data, load->tile, load->pitch);
}

static void wait_for_others(struct tu_loader *loader, size_t index) {
  struct player *p = ((struct stopper *)(void *)loader)->player;
  if (index > 0) return;
  atomic_store(&p->stage->here, 1);
  while (atomic_load(&p->stage->here) < p->ranks) ranks_sleep_us(200);
}

static void two_at_once(struct player *p) {
  struct scene s;
  float own[TROUPE * 2], tile[2];
  tutti_tensor tensors[TROUPE_MAX], to = rows_of(own, TUTTI_F32, p->ranks, 2);
  set_scene(p, &s);
  for (uint32_t r = 0; r < p->ranks; r++) tensors[r] = rows_of(tutti_window_address(s.window, r), TUTTI_F32, 1, 2);
  const tutti_group group = {tensors, p->ranks, p->rank};
  const tutti_staging one = {.tiles = {tile}, .rows = 1, .cols = 2};
  meet(p);
  if (p->rank == 0) {
    struct stopper stopper = {.loader = {.begin = load_now, .wait = wait_for_others}, .player = p};
    tu_stage_loader = &stopper.loader;
    fine(p, tutti_group_gather(&group, &to, &one, NULL), "the first");
    tu_stage_loader = NULL;
  } else {
    while (atomic_load(&p->stage->here) == 0) ranks_sleep_us(200);
    tutti_tensor block = rows_of(own, TUTTI_F32, 1, 2);
    for (int i = 0; i < 4; i++) {
      tutti_err err = call(i, &group, i < 2 ? &to : &block, i % 2 ? &one : NULL, NULL);
      refused(p, err, TUTTI_ERR_ARGUMENT, "rank 0 is in a call that the root alone makes on this window", "the second");
      char words[32];
      snprintf(words, sizeof words, "and rank %u comes second", p->rank);
      refused(p, err, TUTTI_ERR_ARGUMENT, words, "the second");
    }
    atomic_fetch_add(&p->stage->here, 1);
  }
  for (uint32_t turn = 0; turn < p->ranks; turn++) {
    meet(p);
    if (p->rank == turn) fine(p, tutti_group_gather(&group, &to, &one, NULL), "one after the other");
  }
  end_scene(p, &s);
}

/* Roots of groups that share no rank do not meet: rank 0 stays in its call until all others are through theirs. Pairs, the upper
 * rank first. */
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
  const tutti_group group = {tensors, count, count - 1};
  const tutti_staging one = {.tiles = {tile}, .rows = 1, .cols = 2};
  struct stopper stopper = {.loader = {.begin = load_now, .wait = wait_for_others}, .player = p};
  meet(p);
  while (p->rank > 0 && atomic_load(&p->stage->here) == 0) ranks_sleep_us(200);
  tu_stage_loader = p->rank == 0 ? &stopper.loader : NULL;
  if (p->rank == lower) fine(p, tutti_group_gather(&group, &to, &one, NULL), "apart from the others");
  tu_stage_loader = NULL;
  if (p->rank > 0) atomic_fetch_add(&p->stage->here, 1);
  for (uint32_t i = 0; p->rank == lower && i < count; i++) {
    float wanted = (float)(lower + count - 1 - i);
    if (own[2 * i] != wanted || own[2 * i + 1] != wanted + 0.5f) wrong(p, "rank %u: row %u is wrong", p->rank, i);
  }
  meet(p);
  end_scene(p, &s);
}

/* ---- all of it ---- */

static const struct part {
  const char *name;
  void (*run)(struct player *p);
} parts[] = {
    {"bad_windows", bad_windows}, {"left_behind", left_behind}, {"after_a_failure", after_a_failure},
    {"bad_tensors", bad_tensors}, {"bad_staging", bad_staging}, {"nothing_at_all", nothing_at_all},
    {"bad_groups", bad_groups},   {"two_at_once", two_at_once}, {"apart_at_once", apart_at_once},
};

static void play_all(void (*over)(struct troupe *t)) {
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    for (uint32_t ranks = 1; ranks <= TROUPE && test_failures == 0; ranks++)
      troupe_perform((struct troupe){.run = parts[i].run, .ranks = ranks}, over);
    if (test_failures) printf("  in %s\n", parts[i].name);
  }
}

static void test_loop(void) { play_all(troupe_over_loop); }
#ifndef __SANITIZE_THREAD__
static void test_shm(void) { play_all(troupe_over_shm); }
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
