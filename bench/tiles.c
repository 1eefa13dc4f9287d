/* tiles.c: measures whether a one-sided gather or reduce from other hosts hides its stores behind its loads.
 * tools/bench-tiles runs it as every rank of a job:
 *
 *   tiles gather|reduce BYTES TILE_BYTES strided|contiguous ROUNDS
 *
 * Each rank has BYTES bytes of u8 in a window, in rows of 256. Rank 0 gathers or reduces them through tiles; the other
 * ranks sleep, so only the thread of the library serves them. `strided`: the elements of the result lie 64 bytes apart
 * along columns, and far apart along rows, so a store of a tile takes long. Medians of ROUNDS: of loading a tile alone
 * (load_us: tutti_get, one after the other) and storing one alone (store_us: the same call on rank 0's data alone), and of
 * the whole call with one tile and with two. Rank 0 prints
 * `load_us store_us one_us two_us ratio wrong`; ratio: the median of one / two of each round. ROUNDS 0: only the first two
 * are measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/window.h>

enum { COLS = 256, LINE = 64, ROUNDS_MAX = 1000, LOADS_MAX = 64, SLEEP_MS = 20, RANKS_MAX = 16, TILE_ROUNDS = 3 };

struct tiles {
  tutti_comm *world;
  tutti_window *window;
  uint32_t rank, ranks;
  bool reduces;
  size_t rows, tile_rows;
  tutti_tensor parts[RANKS_MAX], to, to_own;
  void *memory[3];
};

static void must(tutti_err err, const char *what) {
  if (err == TUTTI_OK) return;
  fprintf(stderr, "tiles: %s: %s\n", what, tutti_error_message(NULL));
  exit(1);
}

static void *allocate(size_t bytes) {
  void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!memory) {
    fprintf(stderr, "tiles: out of memory: cannot allocate %zu bytes\n", bytes);
    exit(1);
  }
  memset(memory, 0, bytes);
  return memory;
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static tutti_tensor matrix(void *data, size_t rows, const size_t strides[2]) {
  tutti_tensor t;
  const size_t shape[] = {rows, COLS};
  must(tutti_tensor_strided(&t, (tutti_tensor_of){data, TUTTI_U8, 2, shape}, strides), "a matrix");
  return t;
}

static unsigned char value(uint32_t rank, size_t i) { return (unsigned char)((rank + 1) * 17 + i * 7 + i / 251); }

/* ---- the calls ---- */

static tutti_staging stage(const struct tiles *t, uint32_t tiles) {
  tutti_staging s = {.rows = t->tile_rows, .cols = COLS};
  for (uint32_t i = 0; i < tiles; i++) s.tiles[i] = t->memory[i];
  return s;
}

static double collect(const struct tiles *t, uint32_t ranks, const tutti_tensor *to, uint32_t tiles) {
  const tutti_onesided_group group = {t->parts, ranks, 0};
  const tutti_staging s = stage(t, tiles);
  const double began = now_us();
  if (t->reduces) must(tutti_onesided_reduce(&group, to, TUTTI_SUM, t->memory[2], &s, NULL), "reduce");
  else must(tutti_onesided_gather(&group, to, &s, NULL), "gather");
  return now_us() - began;
}

/* Returns the time of loading a tile from the last rank, which is on another host. */
static double load(const struct tiles *t) {
  const size_t tiles = t->rows / t->tile_rows, count = tiles < LOADS_MAX ? tiles : LOADS_MAX;
  unsigned char *data = t->parts[t->ranks - 1].data;
  const tutti_tensor to = matrix(t->memory[0], t->tile_rows, NULL);
  const double began = now_us();
  for (size_t i = 0; i < count; i++) {
    const tutti_tensor from = matrix(data + i * t->tile_rows * COLS, t->tile_rows, NULL);
    must(tutti_get(&from, &to, NULL, NULL), "get");
  }
  return (now_us() - began) / (double)count;
}

static double store(const struct tiles *t) { return collect(t, 1, &t->to_own, 1) / (double)(t->rows / t->tile_rows); }

static size_t count_wrong(const struct tiles *t) {
  const unsigned char *data = t->to.data;
  size_t wrong = 0;
  for (uint32_t r = 0; r < (t->reduces ? 1 : t->ranks); r++)
    for (size_t i = 0; i < t->rows * COLS; i++) {
      unsigned char wanted = value(r, i);
      for (uint32_t other = 1; t->reduces && other < t->ranks; other++)
        wanted = (unsigned char)(wanted + value(other, i));
      const size_t row = r * t->rows + i / COLS;
      wrong += data[row * t->to.strides[3] + i % COLS * t->to.strides[4]] != wanted;
    }
  return wrong;
}

/* ---- measuring ---- */

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double values[], int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return values[count / 2];
}

static void measure(const struct tiles *t, int rounds) {
  static double loads[ROUNDS_MAX], stores[ROUNDS_MAX], ones[ROUNDS_MAX], twos[ROUNDS_MAX], ratios[ROUNDS_MAX];
  const bool whole = rounds > 0;
  size_t wrong = 0;
  if (!whole) rounds = TILE_ROUNDS;
  for (uint32_t tiles = 1; tiles <= 2 && whole; tiles++) {
    (void)collect(t, t->ranks, &t->to, tiles);
    wrong += count_wrong(t);
  }
  for (int i = 0; i < rounds; i++) {
    loads[i] = load(t);
    stores[i] = store(t);
    if (!whole) continue;
    ones[i] = collect(t, t->ranks, &t->to, 1);
    twos[i] = collect(t, t->ranks, &t->to, 2);
    ratios[i] = ones[i] / twos[i];
  }
  printf("%.1f %.1f %.0f %.0f %.2f %zu\n", median(loads, rounds), median(stores, rounds), median(ones, rounds),
         median(twos, rounds), median(ratios, rounds), wrong);
  fflush(stdout);
}

/* The rank sleeps until rank 0 sets its signal, which the thread of the library writes. */
static void sleep_until(const int32_t *signal) {
  while (__atomic_load_n(signal, __ATOMIC_ACQUIRE) == 0)
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_MS * 1000000}, NULL);
}

static void run(struct tiles *t, bool strided, int rounds) {
  const size_t bytes = t->rows * COLS, all = t->reduces ? t->rows : t->rows * t->ranks;
  must(tutti_window_create(t->world, NULL, bytes + LINE, &t->window), "window");
  for (uint32_t r = 0; r < t->ranks; r++) t->parts[r] = matrix(tutti_window_address(t->window, r), t->rows, NULL);
  unsigned char *mine = t->parts[t->rank].data;
  for (size_t i = 0; i < bytes; i++) mine[i] = value(t->rank, i);
  must(tutti_barrier(t->world), "barrier");
  if (t->rank > 0) {
    sleep_until((const int32_t *)(const void *)(mine + bytes));
  } else {
    const size_t strides[] = {LINE, all * LINE};
    for (int i = 0; i < 3; i++) t->memory[i] = allocate(t->tile_rows * COLS);
    t->to = matrix(allocate(strided ? all * LINE * COLS : all * COLS), all, strided ? strides : NULL);
    t->to_own = t->to;
    t->to_own.shape[3] = t->rows;
    measure(t, rounds);
    for (uint32_t r = 1; r < t->ranks; r++)
      must(tutti_signal_set((int32_t *)(void *)((unsigned char *)t->parts[r].data + bytes), 1, NULL), "signal");
  }
  must(tutti_window_free(t->window), "free");
}

int main(int argc, char **argv) {
  struct tiles t = {0};
  if (argc != 6) {
    fprintf(stderr, "usage: tiles gather|reduce BYTES TILE_BYTES strided|contiguous ROUNDS\n");
    return 2;
  }
  t.reduces = strcmp(argv[1], "reduce") == 0;
  t.rows = strtoul(argv[2], NULL, 10) / COLS;
  t.tile_rows = strtoul(argv[3], NULL, 10) / COLS;
  const int rounds = atoi(argv[5]);
  must(tutti_init(NULL, &t.world), "tutti_init");
  t.rank = tutti_rank(t.world);
  t.ranks = tutti_ranks(t.world);
  if (t.tile_rows == 0 || t.rows % t.tile_rows != 0 || t.ranks < 2 || t.ranks > RANKS_MAX || rounds < 0 ||
      rounds > ROUNDS_MAX) {
    fprintf(stderr, "tiles: expected whole tiles of rows of %d bytes, 2 to %d ranks, 0 to %d rounds\n", COLS, RANKS_MAX,
            ROUNDS_MAX);
    return 2;
  }
  run(&t, strcmp(argv[4], "strided") == 0, rounds);
  return tutti_comm_free(t.world) != TUTTI_OK;
}
