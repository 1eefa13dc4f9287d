/* bench_kernels.c: `tutti bench kernels`: measures reductions and copies of arrays on one core, by instruction set. It
 * starts no ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/types.h"
#include "cli/bench/bench.h"
#include "cli/json.h"
#include "cli/names.h"
#include "engine/copy.h"
#include "engine/isa.h"
#include "engine/kernels.h"

enum { SOURCES_MAX = 4, TARGETS_MAX = 2, PAGE_BYTES = 4096, RUNS_MIN = 3, GROUP_MAX = 16, ITEM_BYTES_MAX = 17 };

/* One operation to measure, which is a column of the printed table. */
struct work {
  const char *title;
  bool copy;
  tutti_op op;
  uint32_t sources, targets;
  bool stream; /* true: stores bypass the caches */
};
static const struct work reductions[] = {
    {"sum", false, TUTTI_SUM, 2, 1, false},       {"sum of 4", false, TUTTI_SUM, 4, 1, false},
    {"max", false, TUTTI_MAX, 2, 1, false},       {"avg", false, TUTTI_AVG, 2, 1, false},
    {"sum to 2", false, TUTTI_SUM, 2, 2, false},  {"sum, past", false, TUTTI_SUM, 2, 1, true},
    {"to 2, past", false, TUTTI_SUM, 2, 2, true},
};
static const struct work copies[] = {
    {"copy", true, TUTTI_SUM, 1, 1, false},
    {"copy to 2", true, TUTTI_SUM, 1, 2, false},
    {"past", true, TUTTI_SUM, 1, 1, true},
    {"to 2, past", true, TUTTI_SUM, 1, 2, true},
};
enum { REDUCTIONS = sizeof reductions / sizeof reductions[0], COPIES = sizeof copies / sizeof copies[0] };

struct kernels_bench {
  struct bench_options sizes; /* ascending sizes of the arrays */
  const char *isa;            /* instruction set to measure; NULL: all */
  tutti_datatype first, last; /* range of datatypes to measure */
  uint32_t time_ms;
  bool json;
  char *sources[SOURCES_MAX], *targets[TARGETS_MAX];
};

static size_t longest(const struct kernels_bench *k) { return k->sizes.sizes[k->sizes.size_count - 1]; }

static bool make_buffers(struct kernels_bench *k) {
  const size_t room = tu_round_up(longest(k), PAGE_BYTES);
  bool good = true;
  for (int s = 0; s < SOURCES_MAX; s++) good &= (k->sources[s] = aligned_alloc(PAGE_BYTES, room)) != NULL;
  for (int t = 0; t < TARGETS_MAX; t++) {
    good &= (k->targets[t] = aligned_alloc(PAGE_BYTES, room)) != NULL;
    if (good) memset(k->targets[t], 0, room);
  }
  return good;
}

static void free_buffers(struct kernels_bench *k) {
  for (int s = 0; s < SOURCES_MAX; s++) free(k->sources[s]);
  for (int t = 0; t < TARGETS_MAX; t++) free(k->targets[t]);
}

/* Fills the source arrays with small numbers (1 to 13), which every datatype represents as ordinary values (no
 * infinity, no denormal). */
static void fill(struct kernels_bench *k, tutti_datatype type) {
  const size_t item_bytes = tu_datatypes[type].bytes, group = tu_item_elements(type);
  const size_t items = PAGE_BYTES / item_bytes, filled = items * item_bytes;
  for (int s = 0; s < SOURCES_MAX; s++) {
    char page[PAGE_BYTES];
    for (size_t i = 0; i < items; i++) {
      float values[GROUP_MAX];
      for (size_t v = 0; v < group; v++) values[v] = (float)(1 + ((i * group + v) * 7 + (size_t)s) % 13);
      if (group > 1) tu_block_floats_from_f32(type, page + i * item_bytes, values, 1);
      else tu_from_double(type, page + i * item_bytes, (double)values[0]);
    }
    for (size_t at = 0; at < longest(k); at += filled)
      memcpy(k->sources[s] + at, page, tu_min(filled, longest(k) - at));
  }
}

static void carry_out(struct kernels_bench *k, const struct work *w, tutti_datatype type, size_t bytes) {
  const struct tu_arithmetic a = {.type = type, .op = w->op, .divisor = 3};
  const void *const *srcs = (const void *const *)k->sources;
  void *const *dsts = (void *const *)k->targets;
  size_t count = bytes / tu_datatypes[type].bytes;
  if (w->copy) tu_copy_into(dsts, w->targets, w->stream ? TU_PAST_ALL : TU_PAST_NONE, srcs[0], bytes);
  else tu_reduce_into(&a, dsts, w->targets, w->stream ? TU_PAST_ALL : TU_PAST_NONE, srcs, w->sources, count, true);
}

/* Measures several runs and returns the speed of the fastest, in GB/s read and written. The fastest run counts because
 * other programs can only make a run slower. Each run is long enough for the clock's resolution. */
static double measure(struct kernels_bench *k, const struct work *w, tutti_datatype type, size_t bytes) {
  const uint64_t end = tu_clock_ns() + (uint64_t)k->time_ms * 1000000;
  uint32_t times = (uint32_t)tu_max(1, (256 << 10) / tu_max(bytes, 1));
  double best = 0;
  for (uint32_t run = 0; run < RUNS_MIN || tu_clock_ns() < end; run++) {
    uint64_t began = tu_clock_ns();
    for (uint32_t i = 0; i < times; i++) carry_out(k, w, type, bytes);
    double speed = (double)(w->sources + w->targets) * (double)bytes * times / (double)(tu_clock_ns() - began);
    if (speed > best) best = speed;
  }
  return best;
}

static void print_head(const char *isa, size_t bytes, const char *row, const struct work *works, int work_count) {
  printf("# %s, arrays of %zu bytes, GB/s\n#%11s", isa, bytes, row);
  for (int i = 0; i < work_count; i++) printf(" %11s", works[i].title);
  putchar('\n');
}

static void measure_row(struct kernels_bench *k, const struct work *works, int work_count, const char *row,
                        tutti_datatype type, size_t bytes) {
  if (!k->json) printf("%12s", row);
  for (int i = 0; i < work_count; i++) {
    const struct work *w = &works[i];
    if (tu_datatypes[type].boolean && w->op == TUTTI_AVG) {
      if (!k->json) printf(" %11s", "-");
      continue;
    }
    double speed = measure(k, w, type, bytes);
    if (k->json) json_print_head("bench");
    if (k->json)
      printf(
          ", \"isa\": \"%s\", \"kernel\": \"%s\", \"dtype\": \"%s\", \"bytes\": %zu, \"sources\": %u, \"targets\": "
          "%u, \"past_caches\": %s, \"gbs\": %.4g}\n",
          tu_isa_used(), w->copy ? "copy" : tu_operations[w->op].name, w->copy ? "none" : row, bytes, w->sources,
          w->targets, w->stream ? "true" : "false", speed);
    else printf(" %11.1f", speed);
    fflush(stdout);
  }
  if (!k->json) putchar('\n');
}

static void measure_isa(struct kernels_bench *k, const char *isa) {
  tu_isa_use(isa);
  for (uint32_t i = 0; i < k->sizes.size_count; i++) {
    size_t bytes = k->sizes.sizes[i];
    if (!k->json) print_head(isa, bytes, "type", reductions, REDUCTIONS);
    for (tutti_datatype type = k->first; type <= k->last; type = tu_datatype_next(type)) {
      fill(k, type);
      measure_row(k, reductions, REDUCTIONS, tu_datatypes[type].name, type, bytes);
    }
    if (!k->json) print_head(isa, bytes, "", copies, COPIES);
    measure_row(k, copies, COPIES, "bytes", TUTTI_U8, bytes);
  }
}

static int read_options(const struct cli_verb *verb, int argc, char **argv, struct kernels_bench *k, bool *done) {
  const char *sizes = "64K,64M", *type = NULL;
  const struct cli_option table[] = {
      {"--bytes", CLI_STRING, &sizes, "LIST", "sizes of the arrays, in bytes (64K,64M)"},
      {"--dtype", CLI_STRING, &type, "TYPE", "measure only this datatype (all)"},
      {"--isa", CLI_STRING, &k->isa, "ISA", "measure only this instruction set (all)"},
      {"--time-ms", CLI_UINT, &k->time_ms, "T", "approximate time to measure each figure, in ms (10)"},
      {"--json", CLI_FLAG, &k->json, NULL, "print one JSON object per line"},
  };
  int code = cli_parse(verb, table, sizeof table / sizeof table[0], &argc, argv, done);
  if (code != CLI_GOOD || *done) return code;
  if (argc > 1) return cli_fail(verb->name, CLI_USAGE, "expected options only, found '%s'", argv[1]);
  if ((code = bench_read_sizes(verb->name, sizes, &k->sizes)) != CLI_GOOD) return code;
  if (k->sizes.sizes[0] < ITEM_BYTES_MAX)
    return cli_fail(verb->name, CLI_USAGE, "--bytes: expected at least %d, the size of the largest element, found %zu",
                    ITEM_BYTES_MAX, k->sizes.sizes[0]);
  if (type && !cli_find_datatype(type, &k->first))
    return cli_fail(verb->name, CLI_USAGE, "--dtype: unknown datatype '%s'; tutti info lists the datatypes", type);
  k->last = type ? k->first : TU_DATATYPES - 1;
  if (!k->isa || tu_isa_use(k->isa)) return CLI_GOOD;
  struct tu_text here = {0};
  for (uint32_t i = 0; tu_isa_name(i); i++) tu_text_print(&here, "%s%s", i ? ", " : "", tu_isa_name(i));
  code = cli_fail(verb->name, CLI_USAGE, "--isa: expected an instruction set of this machine (%s), found '%s'",
                  here.chars, k->isa);
  tu_text_fini(&here);
  return code;
}

int bench_kernels(int argc, char **argv) {
  static const struct cli_verb verb = {
      .name = "bench kernels",
      .summary = "measure reductions and copies of arrays on one core, in GB/s read and written",
      .synopsis = "bench kernels [options]",
  };
  struct kernels_bench k = {.time_ms = 10};
  bool done;
  int code = read_options(&verb, argc, argv, &k, &done);
  if (code != CLI_GOOD || done) return code;
  if (make_buffers(&k)) {
    for (uint32_t i = 0; tu_isa_name(i); i++)
      if (!k.isa || strcmp(k.isa, tu_isa_name(i)) == 0) measure_isa(&k, tu_isa_name(i));
  } else {
    code =
        cli_fail(verb.name, CLI_FAILED,
                 "out of memory: cannot allocate 6 arrays of %zu bytes; give a smaller size with --bytes", longest(&k));
  }
  free_buffers(&k);
  return code;
}
