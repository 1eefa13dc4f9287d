/* bench_onesided.c: `tutti bench onesided`: measures a one-sided gather, which only the root calls, in three ways: by a
 * direct copy, through one staging tile, and through two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/window.h>

#include "base/text.h"
#include "base/types.h"
#include "boot/identity.h"
#include "cli/bench/bench.h"
#include "cli/json.h"
#include "onesided/staged.h"

enum { COLS = 256, TILES_MAX = 16, RUNS_MIN = 5, RUNS_MAX = 4096, RANKS_MAX = 1024 };
enum { PACED_LOADS = 16, PACED_RUNS = 5, PACED_US = 1000 };
enum way { STRAIGHT, ONE_TILE, TWO_TILES, WAYS };

struct tile_size {
  size_t rows, cols;
};

struct onesided_bench {
  struct bench_options sizes;
  struct tile_size tiles[TILES_MAX];
  uint32_t tile_count;
  uint32_t time_ms;
  bool json;
  tutti_comm *world;
  uint32_t rank, ranks;
};

/* The buffers of one gather. */
struct gathering {
  tutti_window *window;
  tutti_tensor *tensors;
  tutti_tensor to;
  size_t rows; /* number of rows of each rank's matrix */
};

static const char verb_name[] = "bench onesided";

static int say(tutti_err err) {
  return err == TUTTI_OK ? CLI_GOOD : cli_fail(verb_name, CLI_FAILED, "%s", tutti_error_message(NULL));
}

static tutti_err matrix(tutti_tensor *t, void *data, size_t rows) {
  const size_t shape[] = {rows, COLS};
  return tutti_tensor_strided(t, (tutti_tensor_of){data, TUTTI_F32, 2, shape}, NULL);
}

/* Returns element i of a rank's input: a whole number that f32 represents exactly. */
static float value(uint32_t rank, size_t i) { return (float)((rank * 4099 + i) % (1 << 24)); }

/* Creates the window, the ranks' inputs and, on rank 0, the output. Collective. */
static int open_gathering(const struct onesided_bench *b, size_t rows, struct gathering *g) {
  *g = (struct gathering){.rows = rows};
  tutti_err err = tutti_window_create(b->world, NULL, rows * COLS * sizeof(float), &g->window);
  if (err != TUTTI_OK) return b->rank == 0 ? say(err) : CLI_FAILED;
  float *mine = tutti_window_address(g->window, b->rank);
  for (size_t i = 0; i < rows * COLS; i++) mine[i] = value(b->rank, i);
  g->tensors = tu_allocate(b->ranks, sizeof *g->tensors);
  for (uint32_t r = 0; r < b->ranks && err == TUTTI_OK; r++)
    err = matrix(&g->tensors[r], tutti_window_address(g->window, r), rows);
  if (err == TUTTI_OK) err = tutti_barrier(b->world);
  if (err != TUTTI_OK || b->rank != 0) return say(err);
  size_t bytes = rows * b->ranks * COLS * sizeof(float);
  void *memory = aligned_alloc(4096, tu_round_up(bytes, 4096));
  if (!memory)
    return cli_fail(verb_name, CLI_FAILED, "out of memory: cannot allocate %zu bytes; give a smaller size with --bytes",
                    bytes);
  memset(memory, 0, bytes);
  return say(matrix(&g->to, memory, rows * b->ranks));
}

static int close_gathering(const struct onesided_bench *b, struct gathering *g, int code) {
  free(g->to.data);
  free(g->tensors);
  if (!g->window) return code;
  tutti_err err = tutti_window_free(g->window);
  return code == CLI_GOOD && b->rank == 0 ? say(err) : code;
}

/* Runs and times one gather. */
static int gather(const struct onesided_bench *b, const struct gathering *g, const tutti_staging *staging,
                  double *seconds) {
  const tutti_onesided_group group = {g->tensors, b->ranks, 0};
  uint64_t began = tu_clock_ns();
  tutti_err err = tutti_onesided_gather(&group, &g->to, staging, NULL);
  *seconds = (double)(tu_clock_ns() - began) * 1e-9;
  return say(err);
}

static size_t count_wrong(const struct onesided_bench *b, const struct gathering *g) {
  const float *data = g->to.data;
  size_t wrong = 0, block = g->rows * COLS;
  for (uint32_t r = 0; r < b->ranks; r++)
    for (size_t i = 0; i < block; i++) wrong += data[r * block + i] != value(r, i);
  return wrong;
}

static tutti_staging *stage(tutti_staging *s, enum way way, struct tile_size size, void *const tiles[2]) {
  *s = (tutti_staging){.rows = size.rows, .cols = size.cols};
  for (int i = 0; i < 2 && i < (int)way; i++) s->tiles[i] = tiles[i];
  return s;
}

struct timing {
  double best[WAYS]; /* time of the fastest run, in s (other programs can only make a run slower) */
  double ratio;      /* median over the runs of: time with one tile / time with two tiles */
  size_t wrong;      /* number of wrong elements */
};

/* Measures the three ways to gather (direct, through one tile, through two tiles). Each run measures all three. */
static int measure(const struct onesided_bench *b, const struct gathering *g, struct tile_size size,
                   void *const tiles[2], struct timing *t) {
  const uint64_t end = tu_clock_ns() + (uint64_t)b->time_ms * 1000000;
  double ratios[RUNS_MAX];
  int code = CLI_GOOD;
  uint32_t run = 0;
  *t = (struct timing){.best = {1e30, 1e30, 1e30}};
  for (; code == CLI_GOOD && run < RUNS_MAX && (run < RUNS_MIN || tu_clock_ns() < end); run++) {
    double seconds[WAYS];
    for (enum way way = STRAIGHT; way < WAYS && code == CLI_GOOD; way++) {
      tutti_staging s;
      if (run == 0) memset(g->to.data, 0xff, g->rows * b->ranks * COLS * sizeof(float));
      code = gather(b, g, stage(&s, way, size, tiles), &seconds[way]);
      if (seconds[way] < t->best[way]) t->best[way] = seconds[way];
      if (run == 0) t->wrong += count_wrong(b, g);
    }
    ratios[run] = seconds[ONE_TILE] / seconds[TWO_TILES];
  }
  t->ratio = bench_median(ratios, run);
  return code;
}

/* Allocates two tiles of this size. If there is not enough memory, prints an error and returns false. */
static bool make_tiles(struct tile_size size, void *tiles[2]) {
  size_t bytes = tu_round_up(size.rows * size.cols * sizeof(float), 4096);
  for (int i = 0; i < 2; i++) {
    tiles[i] = aligned_alloc(4096, bytes);
    if (tiles[i]) memset(tiles[i], 0, bytes);
  }
  if (tiles[0] && tiles[1]) return true;
  cli_fail(verb_name, CLI_FAILED,
           "out of memory: cannot allocate two tiles of %zu bytes; give smaller tiles with --tiles", bytes);
  return false;
}

static void free_tiles(void *tiles[2]) {
  free(tiles[0]);
  free(tiles[1]);
}

static int measure_row(const struct onesided_bench *b, const struct gathering *g, struct tile_size size) {
  void *tiles[2];
  struct timing t;
  double bytes = (double)(g->rows * b->ranks * COLS * sizeof(float));
  int code = make_tiles(size, tiles) ? measure(b, g, size, tiles, &t) : CLI_FAILED;
  free_tiles(tiles);
  if (code != CLI_GOOD) return code;
  double gbs[WAYS];
  for (int w = 0; w < WAYS; w++) gbs[w] = bytes / t.best[w] * 1e-9;
  if (b->json) {
    json_print_head("bench");
    printf(
        ", \"ranks\": %u, \"bytes\": %zu, \"tile_rows\": %zu, \"tile_cols\": %zu, \"straight_gbs\": %.4g, "
        "\"one_tile_gbs\": %.4g, \"two_tiles_gbs\": %.4g, \"ratio\": %.4g, \"wrong\": %zu}\n",
        b->ranks, g->rows * COLS * sizeof(float), size.rows, size.cols, gbs[STRAIGHT], gbs[ONE_TILE], gbs[TWO_TILES],
        t.ratio, t.wrong);
  } else {
    char name[48];
    snprintf(name, sizeof name, "%zux%zu", size.rows, size.cols);
    printf("%12zu %10s %9.2f %9.2f %9.2f %9.2f %9zu\n", g->rows * COLS * sizeof(float), name, gbs[STRAIGHT],
           gbs[ONE_TILE], gbs[TWO_TILES], t.ratio, t.wrong);
  }
  fflush(stdout);
  return t.wrong ? CLI_FAILED : CLI_GOOD;
}

static int measure_size(const struct onesided_bench *b, size_t bytes) {
  struct gathering g;
  size_t rows = tu_max(bytes / (COLS * sizeof(float)), 1);
  int code = open_gathering(b, rows, &g);
  for (uint32_t i = 0; i < b->tile_count && code == CLI_GOOD && b->rank == 0; i++)
    code = measure_row(b, &g, b->tiles[i]);
  return close_gathering(b, &g, code);
}

/* Measures PACED_RUNS gathers with a loader whose loads take PACED_US microseconds. Sets *best to the time of the
 * fastest, in s. */
static int measure_paced(const struct onesided_bench *b, const struct gathering *g, enum way way, double *best) {
  struct tu_loader *loader = bench_paced_open((uint64_t)PACED_US * 1000, (uint64_t)PACED_US * 1000);
  if (!loader)
    return cli_fail(verb_name, CLI_FAILED, "pthread_create failed for the thread that simulates slow loads of tiles");
  void *tiles[2];
  const struct tile_size size = {1, COLS};
  int code = make_tiles(size, tiles) ? CLI_GOOD : CLI_FAILED;
  *best = 1e30;
  for (int run = 0; run < PACED_RUNS && code == CLI_GOOD; run++) {
    double seconds;
    tutti_staging s;
    memset(g->to.data, 0xff, g->rows * b->ranks * COLS * sizeof(float));
    tu_stage_loader = loader;
    code = gather(b, g, stage(&s, way, size, tiles), &seconds);
    tu_stage_loader = NULL;
    if (seconds < *best) *best = seconds;
    if (code == CLI_GOOD && count_wrong(b, g) > 0)
      code = cli_fail(verb_name, CLI_FAILED, "the gather with simulated slow loads of tiles has a wrong result");
  }
  free_tiles(tiles);
  bench_paced_close(loader);
  return code;
}

/* Returns true if all ranks are on this host. Only then a tile can be loaded by a thread that copies. */
static bool on_one_host(const struct onesided_bench *b, const struct gathering *g) {
  void *memory;
  for (uint32_t r = 0; r < b->ranks; r++)
    if (tutti_window_memory(g->window, r, &memory) != TUTTI_OK) return false;
  return true;
}

/* Compares a gather through one tile with a gather through two tiles, with a loader whose loads run on a separate
 * thread and take as long as a store. */
static int compare_paced(const struct onesided_bench *b) {
  struct gathering g;
  double one = 0, two = 0;
  int code = open_gathering(b, tu_max(PACED_LOADS / b->ranks, 1), &g);
  if (code == CLI_GOOD && !on_one_host(b, &g)) return close_gathering(b, &g, code);
  if (code == CLI_GOOD && b->rank == 0) code = measure_paced(b, &g, ONE_TILE, &one);
  if (code == CLI_GOOD && b->rank == 0) code = measure_paced(b, &g, TWO_TILES, &two);
  if (code == CLI_GOOD && b->rank == 0 && b->json) {
    json_print_head("bench");
    printf(
        ", \"ranks\": %u, \"paced_loads\": %zu, \"load_us\": %d, \"store_us\": %d, \"one_tile_ms\": %.4g, "
        "\"two_tiles_ms\": %.4g, \"ratio\": %.4g}\n",
        b->ranks, g.rows * b->ranks, PACED_US, PACED_US, one * 1e3, two * 1e3, one / two);
  } else if (code == CLI_GOOD && b->rank == 0)
    printf(
        "# %zu loads of %d us by a thread, stores of the same time: one tile %.2f ms, two tiles %.2f ms, ratio %.2f\n",
        g.rows * b->ranks, PACED_US, one * 1e3, two * 1e3, one / two);
  return close_gathering(b, &g, code);
}

/* Runs the benchmark on this rank. Every rank makes every collective call, even after rank 0 has failed. The status of
 * rank 0 becomes the status of the job. */
static int run_rank(struct onesided_bench *b, uint32_t ranks) {
  if (tutti_init(NULL, &b->world) != TUTTI_OK) return say(TUTTI_ERR_SYSTEM);
  b->rank = tutti_rank(b->world);
  b->ranks = tutti_ranks(b->world);
  int code = CLI_GOOD;
  if (ranks && ranks != b->ranks)
    code = b->rank ? CLI_USAGE
                   : cli_fail(verb_name, CLI_USAGE, "-n %u is given, but this job has %u ranks; omit -n within a job",
                              ranks, b->ranks);
  if (code == CLI_GOOD && b->rank == 0 && !b->json)
    printf(
        "# gather that only rank 0 of %u calls, matrices of f32 with %d columns, GB/s received by rank 0\n"
        "#%11s %10s %9s %9s %9s %9s %9s\n",
        b->ranks, COLS, "bytes", "tile", "straight", "one tile", "two tiles", "two/one", "#wrong");
  bool agreed = code == CLI_GOOD;
  for (uint32_t i = 0; i < b->sizes.size_count && agreed; i++) {
    int one = measure_size(b, b->sizes.sizes[i]);
    if (code == CLI_GOOD) code = one;
  }
  if (agreed && code == CLI_GOOD) code = compare_paced(b);
  tutti_err err = tutti_comm_free(b->world);
  return code == CLI_GOOD ? say(err) : code;
}

/* Parses a list of tile sizes, for example "16x256,64x256". */
static bool parse_tiles(const char *text, struct onesided_bench *b) {
  char copy[256];
  if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy) return false;
  for (char *tile = copy, *next; tile; tile = next) {
    next = strchr(tile, ',');
    if (next) *next++ = '\0';
    char *cols = strchr(tile, 'x');
    uint64_t size[2];
    if (!cols || b->tile_count == TILES_MAX) return false;
    *cols++ = '\0';
    if (!tu_parse_uint(tile, 1 << 20, &size[0]) || !tu_parse_uint(cols, 1 << 20, &size[1])) return false;
    if (size[0] == 0 || size[1] == 0) return false;
    b->tiles[b->tile_count++] = (struct tile_size){size[0], size[1]};
  }
  return true;
}

static int read_options(const struct cli_verb *verb, int argc, char **argv, struct onesided_bench *b, uint32_t *ranks,
                        const char **bind, bool *done) {
  const char *sizes = "64K,1M,16M", *tiles = "8x64,16x256,64x256";
  const struct cli_option table[] = {
      {"-n", CLI_UINT, ranks, "N", "ranks to start (2)"},
      {"--bytes", CLI_STRING, &sizes, "LIST", "approximate bytes of each rank's input (64K,1M,16M)"},
      {"--tiles", CLI_STRING, &tiles, "LIST", "sizes of tiles, ROWSxCOLS (8x64,16x256,64x256)"},
      {"--time-ms", CLI_UINT, &b->time_ms, "T", "approximate time to measure each row, in ms (100)"},
      {"--bind", CLI_STRING, bind, "core|none", "bind each rank to one CPU, as tutti run does (none)"},
      {"--json", CLI_FLAG, &b->json, NULL, "print one JSON object per line"},
  };
  int code = cli_parse(verb, table, sizeof table / sizeof table[0], &argc, argv, done);
  if (code != CLI_GOOD || *done) return code;
  if (argc > 1) return cli_fail(verb->name, CLI_USAGE, "expected options only, found '%s'", argv[1]);
  if (*ranks > RANKS_MAX)
    return cli_fail(verb->name, CLI_USAGE, "-n: expected 1 to %d ranks, found %u", RANKS_MAX, *ranks);
  if (strcmp(*bind, "core") != 0 && strcmp(*bind, "none") != 0)
    return cli_fail(verb->name, CLI_USAGE, "--bind: expected 'core' or 'none', found '%s'", *bind);
  if ((code = bench_read_sizes(verb->name, sizes, &b->sizes)) != CLI_GOOD) return code;
  if (parse_tiles(tiles, b)) return CLI_GOOD;
  return cli_fail(verb->name, CLI_USAGE,
                  "--tiles: expected up to %d sizes ROWSxCOLS, for example 16x256,64x256; found '%s'", TILES_MAX,
                  tiles);
}

int bench_onesided(int argc, char **argv) {
  static const struct cli_verb verb = {
      .name = verb_name,
      .summary = "measure a gather that only the root calls: direct, through one tile, through two tiles",
      .synopsis = "bench onesided -n N [options]",
  };
  /* cli_parse reorders its arguments. Parse a copy, so that the ranks get the original arguments. */
  char **copy = tu_allocate((size_t)argc, sizeof *copy);
  memcpy(copy, argv + 1, (size_t)(argc - 1) * sizeof *copy);
  struct onesided_bench b = {.time_ms = 100};
  const char *bind = "none";
  uint32_t ranks = 0;
  bool done;
  struct tu_boot_identity identity;
  struct tu_error error;
  int code = read_options(&verb, argc - 1, copy, &b, &ranks, &bind, &done);
  free(copy);
  if (code != CLI_GOOD || done) return code;
  if (tu_boot_identity_read(&identity, &error) != TUTTI_OK) return cli_fail(verb.name, CLI_USAGE, "%s", error.text);
  if (!identity.alone) return run_rank(&b, ranks);
  return bench_launch("bench", ranks ? ranks : 2, bind, argc, argv);
}
