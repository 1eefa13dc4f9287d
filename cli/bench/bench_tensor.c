/* bench_tensor.c: `tutti bench tensor`: measures how fast one core packs tensors of each layout into message order and
 * unpacks them, compared with memcpy of the same bytes. It starts no ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tensor.h>

#include "cli/bench/bench.h"
#include "cli/json.h"
#include "engine/copy.h"
#include "tensor/map.h"

enum { RUNS_MIN = 5, GAP = 2 };

struct tensor_bench {
  uint32_t time_ms;
  bool json;
};

/* A layout of the matrix: one row of the printed table. */
struct layout_row {
  const char *name;
  tutti_datatype type;
  size_t cols; /* columns; for a strided matrix: length of its contiguous runs, in elements */
  tutti_tiles tiles;
  tutti_placement placement;
  uint32_t banks;
};

static const struct layout_row rows[] = {
    {"rows without gaps", TUTTI_BF16, 1024, {0}, TUTTI_STRIDED, 0},
    {"rows of 64 B, gaps", TUTTI_BF16, 32, {0}, TUTTI_STRIDED, 0},
    {"rows of 256 B, gaps", TUTTI_BF16, 128, {0}, TUTTI_STRIDED, 0},
    {"rows of 1 KiB, gaps", TUTTI_BF16, 512, {0}, TUTTI_STRIDED, 0},
    {"rows of 4 KiB, gaps", TUTTI_BF16, 2048, {0}, TUTTI_STRIDED, 0},
    {"tiles 32x32, bf16", TUTTI_BF16, 1024, {32, 32, 0, 0}, TUTTI_INTERLEAVED, 1},
    {"tiles 32x32, f32", TUTTI_F32, 1024, {32, 32, 0, 0}, TUTTI_INTERLEAVED, 1},
    {"faces 16x16, bf16", TUTTI_BF16, 1024, {32, 32, 16, 16}, TUTTI_INTERLEAVED, 1},
    {"tiles in 8 banks, bf16", TUTTI_BF16, 1024, {32, 32, 0, 0}, TUTTI_INTERLEAVED, 8},
    {"tiles 32x128, bf16", TUTTI_BF16, 1024, {32, 128, 0, 0}, TUTTI_INTERLEAVED, 1},
    {"tiles, block-sharded, bf16", TUTTI_BF16, 1024, {32, 32, 0, 0}, TUTTI_BLOCK_SHARDED, 0},
    {"rows, width-sharded, bf16", TUTTI_BF16, 1024, {0}, TUTTI_WIDTH_SHARDED, 0},
};

static tutti_err make(const struct layout_row *row, size_t bytes, tutti_tensor *t) {
  size_t item = tutti_datatype_size(row->type), height = tu_round_up(tu_max(bytes / item / row->cols, 1), 32);
  const size_t shape[] = {height, row->cols}, strides[] = {GAP * row->cols, 1};
  const tutti_tensor_of of = {.type = row->type, .dims = 2, .shape = shape};
  const tutti_tiles *tiles = row->tiles.rows ? &row->tiles : NULL;
  switch (row->placement) {
    case TUTTI_INTERLEAVED: return tutti_tensor_interleaved(t, of, tiles, row->banks);
    case TUTTI_WIDTH_SHARDED: return tutti_tensor_width_sharded(t, of, tiles, 4, row->cols / 4);
    case TUTTI_BLOCK_SHARDED:
      return tutti_tensor_block_sharded(t, of, tiles, (tutti_grid){1, 4, height, row->cols / 4, false});
    default: return tutti_tensor_strided(t, of, strcmp(row->name, "rows without gaps") == 0 ? NULL : strides);
  }
}

enum direction { COPY, PACK, UNPACK, DIRECTIONS };

/* Copies, packs or unpacks all bytes in pieces of SLICE bytes, as the transport does with the slices of a message. */
static void carry_out(const struct tu_fold *fold, void *tensor, char *packed, size_t bytes, enum direction direction) {
  enum { SLICE = 64 << 10 };
  for (size_t at = 0; at < bytes; at += SLICE) {
    size_t slice = tu_min(SLICE, bytes - at);
    if (direction == COPY) tu_copy_bytes(packed + at, (char *)tensor + at, slice);
    else if (direction == PACK) tu_fold_pack(fold, tensor, at, slice, packed + at);
    else tu_fold_unpack(fold, tensor, at, slice, packed + at);
  }
}

/* Measures copying, packing and unpacking alternately. best[] receives the GB/s of the fastest runs, because other
 * programs can only make a run slower. */
static void measure(const struct tensor_bench *k, const struct tu_fold *fold, void *tensor, char *packed, size_t bytes,
                    double best[DIRECTIONS]) {
  const uint64_t end = tu_clock_ns() + (uint64_t)k->time_ms * 1000000;
  uint32_t times = (uint32_t)tu_max(1, (1 << 20) / bytes);
  for (int d = 0; d < DIRECTIONS; d++) best[d] = 0;
  for (uint32_t run = 0; run < RUNS_MIN || tu_clock_ns() < end; run++)
    for (enum direction d = COPY; d < DIRECTIONS; d++) {
      uint64_t began = tu_clock_ns();
      for (uint32_t i = 0; i < times; i++) carry_out(fold, tensor, packed, bytes, d);
      double speed = (double)bytes * times / (double)(tu_clock_ns() - began);
      if (speed > best[d]) best[d] = speed;
    }
}

static int measure_row(const struct tensor_bench *k, const struct layout_row *row, size_t bytes) {
  tutti_tensor t;
  struct tu_map *map;
  struct tu_error error;
  if (make(row, bytes, &t) != TUTTI_OK) return cli_fail("bench tensor", CLI_FAILED, "%s", tutti_error_message(NULL));
  if (tu_map_create(&t, &map, &error) != TUTTI_OK) return cli_fail("bench tensor", CLI_FAILED, "%s", error.text);
  const struct tu_fold fold = {.map = map, .dim = 0, .blocks = 1};
  bytes = tu_fold_block_bytes(&fold);
  size_t extent = tu_round_up(tu_map_extent(map), 4096);
  char *tensor = aligned_alloc(4096, extent), *packed = aligned_alloc(4096, tu_round_up(bytes, 4096));
  double speed[DIRECTIONS];
  if (!tensor || !packed)
    return cli_fail("bench tensor", CLI_FAILED,
                    "out of memory: cannot allocate the %zu bytes of a tensor and its packed copy", extent + bytes);
  memset(tensor, 1, extent);
  memset(packed, 2, bytes);
  measure(k, &fold, tensor, packed, bytes, speed);
  if (k->json) json_print_head("bench");
  if (k->json)
    printf(", \"layout\": \"%s\", \"bytes\": %zu, \"copy_gbs\": %.4g, \"pack_gbs\": %.4g, \"unpack_gbs\": %.4g}\n",
           row->name, bytes, speed[COPY], speed[PACK], speed[UNPACK]);
  else
    printf("%-28s %10zu %8.1f %8.1f %8.1f %7.0f%% %7.0f%%\n", row->name, bytes, speed[COPY], speed[PACK], speed[UNPACK],
           100 * speed[PACK] / speed[COPY], 100 * speed[UNPACK] / speed[COPY]);
  fflush(stdout);
  free(tensor);
  free(packed);
  tu_map_destroy(map);
  return CLI_GOOD;
}

int bench_tensor(int argc, char **argv) {
  const struct cli_verb verb = {
      .name = "bench tensor",
      .summary = "measure how fast one core packs and unpacks tensors, by layout, compared with memcpy",
      .synopsis = "bench tensor [options]",
  };
  struct tensor_bench k = {.time_ms = 50};
  struct bench_options sizes = {0};
  const char *list = "256K,16M";
  const struct cli_option table[] = {
      {"--bytes", CLI_STRING, &list, "LIST", "approximate sizes of the tensors, in bytes (256K,16M)"},
      {"--time-ms", CLI_UINT, &k.time_ms, "T", "approximate time to measure each figure, in ms (50)"},
      {"--json", CLI_FLAG, &k.json, NULL, "print one JSON object per line"},
  };
  bool done;
  int code = cli_parse(&verb, table, sizeof table / sizeof table[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if (argc > 1) return cli_fail(verb.name, CLI_USAGE, "expected options only, found '%s'", argv[1]);
  if ((code = bench_read_sizes(verb.name, list, &sizes)) != CLI_GOOD) return code;
  if (!k.json)
    printf("# GB/s of payload, one core\n#%-27s %10s %8s %8s %8s %8s %8s\n", "layout", "bytes", "memcpy", "pack",
           "unpack", "pack", "unpack");
  for (uint32_t i = 0; i < sizes.size_count && code == CLI_GOOD; i++)
    for (size_t r = 0; r < sizeof rows / sizeof rows[0] && code == CLI_GOOD; r++)
      code = measure_row(&k, &rows[r], tu_max(sizes.sizes[i], 1));
  return code;
}
