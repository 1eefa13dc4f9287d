/* fuzz_trace.c: libFuzzer entry for traces. The input is the files of some ranks, one behind the other. What can be read is
 * joined, summed and drawn. The critical path must have no gaps. Built with -fsanitize=fuzzer; seeds in tests/fuzz_seeds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "draw/draw_timeline.h"
#include "trace/costs.h"
#include "trace/line.h"
#include "trace/sums.h"

/* A few bytes can name many ranks, which would only make the pictures large. */
enum { FILES_MAX = 4, RANKS_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Returns the begin of the next file in data[from, bytes). */
static size_t find_next(const uint8_t *data, size_t from, size_t bytes) {
  while (from < bytes && (bytes - from < sizeof TU_TRACE_MAGIC || memcmp(data + from, TU_TRACE_MAGIC, 16) != 0)) from++;
  return from;
}

/* Returns the ranks whose files can be read and belong to one job. */
static uint32_t read_all(const uint8_t *data, size_t bytes, struct tu_traced_rank ranks[FILES_MAX]) {
  uint32_t count = 0;
  for (size_t from = 0, next; from < bytes && count < FILES_MAX; from = next) {
    next = from + 1 < bytes ? find_next(data, from + 1, bytes) : bytes;
    struct tu_traced_rank *rank = &ranks[count];
    bool good = tu_traced_read(data + from, next - from, "fuzz", rank, NULL) == TUTTI_OK;
    good = good && rank->head.ranks <= RANKS_MAX && rank->head.ranks == ranks[0].head.ranks;
    for (uint32_t i = 0; i < count; i++) good = good && ranks[i].head.rank != rank->head.rank;
    if (good) count++;
    else tu_traced_fini(rank);
  }
  return count;
}

static void draw(const struct tu_trace *trace, const struct tu_traced_path *path, double from_s, double until_s) {
  struct tu_traced_line line;
  struct tu_text text = {0};
  const struct tu_grid grid = {0};
  tu_trace_line(trace, path, from_s, until_s, &line);
  struct tu_ring ring = {.kind = TU_APART, .order = tu_allocate(line.ranks, sizeof *ring.order)};
  for (uint32_t i = 0; i < line.ranks; i++) ring.order[i] = i;
  const struct tu_draw_timeline what = {.cluster = {.cluster = line.cluster, .grid = &grid, .ring = &ring},
                                        .timeline = &line.timeline,
                                        .ranks = line.ranks,
                                        .places = (const char *const *)line.places};
  tu_draw_timeline_trace(&what, &text);
  tu_draw_timeline_html(&what, &text);
  tu_text_fini(&text);
  tu_ring_fini(&ring);
  tu_traced_line_fini(&line);
}

static void look(const struct tu_trace *trace) {
  struct tu_traced_path path;
  struct tu_traced_sums sums;
  struct tu_traced_costs costs;
  tu_trace_costs(trace, &costs);
  tu_trace_sum(trace, &sums);
  tu_trace_path(trace, &path);
  for (uint32_t i = 0; i < path.count; i++) {
    tu_assert(path.parts[i].end > path.parts[i].begin);
    tu_assert(i == 0 || path.parts[i].begin == path.parts[i - 1].end);
  }
  const double begin = path.count > 0 ? path.parts[0].begin : 0,
               end = path.count > 0 ? path.parts[path.count - 1].end : 0;
  draw(trace, &path, begin, end);
  draw(trace, &path, begin + (end - begin) / 4, end - (end - begin) / 4);
  tu_traced_path_fini(&path);
  tu_traced_sums_fini(&sums);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct tu_traced_rank *ranks = tu_allocate(FILES_MAX, sizeof *ranks);
  const uint32_t count = read_all(data, bytes, ranks);
  if (count == 0) {
    free(ranks);
    return 0;
  }
  struct tu_trace trace;
  tu_trace_join(ranks, count, &trace);
  look(&trace);
  tu_trace_fini(&trace);
  return 0;
}
