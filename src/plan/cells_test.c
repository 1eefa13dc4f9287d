/* cells_test.c: compares runs of cells with a model of single cells, after random reads, writes and weights. */
#include "plan/cells.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { CELLS = 1000, STEPS = 60 };

/* Expected state of one cell. */
struct model {
  uint32_t writer, weight;
  uint32_t readers[STEPS], reader_count; /* readers, oldest first (in the list of a run, the latest is first) */
};

static bool same_cell(const struct tu_cells *c, const struct model *m, uint32_t cell) {
  const struct tu_cell_run *run = &c->runs[tu_cells_find(c, cell)];
  if (run->writer != m->writer || run->weight != m->weight) return false;
  uint32_t k = run->reader;
  for (uint32_t i = m->reader_count; i-- > 0; k = c->readers[k].next)
    if (k == TU_CELL_NONE || c->readers[k].step != m->readers[i]) return false;
  return k == TU_CELL_NONE;
}

/* Returns true if the runs cover the cells, in order. */
static bool in_order(const struct tu_cells *c) {
  bool right = c->count == 0 || c->runs[0].first == 0;
  for (uint32_t i = 1; i < c->run_count; i++) right = right && c->runs[i].first > c->runs[i - 1].first;
  return right && (c->run_count == 0 || c->runs[c->run_count - 1].first < c->count);
}

static void act(struct tu_cells *c, struct model *model, uint32_t step, uint64_t *seed) {
  uint32_t first = (uint32_t)(tu_random(seed) % c->count),
           end = first + 1 + (uint32_t)(tu_random(seed) % (c->count - first));
  uint32_t kind = (uint32_t)(tu_random(seed) % 3);
  if (kind == 0) tu_cells_read(c, first, end, step);
  else if (kind == 1) tu_cells_write(c, first, end, step);
  else tu_cells_weigh(c, first, end, step % 4);
  for (uint32_t i = first; i < end; i++) {
    struct model *m = &model[i];
    if (kind == 0) m->readers[m->reader_count++] = step;
    else if (kind == 1) m->writer = step, m->reader_count = 0;
    else m->weight = step % 4;
  }
}

static void runs_are_cells(void) {
  uint64_t seed = test_seed();
  uint32_t singly = 0, parted = 0; /* rounds that began with single cells; rounds that changed to single cells */
  struct model *model = calloc(CELLS, sizeof *model);
  if (!model) abort();
  for (uint32_t round = 0; round < 60; round++) {
    struct tu_arena arena = {0};
    struct tu_cells c = {.arena = &arena};
    memset(model, 0, CELLS * sizeof *model);
    for (uint32_t i = 0; i < CELLS; i++) model[i].writer = TU_CELL_NONE;
    bool right = true, began_singly = false;
    for (uint32_t step = 0; right && step < STEPS; step++) {
      if (step == 0) tu_cells_extend(&c, 1 + (uint32_t)(tu_random(&seed) % (CELLS / 2)));
      else if (step % 10 == 0) tu_cells_extend(&c, c.count + (uint32_t)(tu_random(&seed) % (CELLS / 10)));
      began_singly |= step == 0 && c.singly;
      act(&c, model, step, &seed);
      right = in_order(&c) && (!c.singly || c.run_count == c.count);
      for (uint32_t i = 0; i < c.count; i++) right = right && same_cell(&c, &model[i], i);
    }
    CHECK(right, "round %u: runs and cells differ", round);
    singly += began_singly;
    parted += c.singly && !began_singly;
    tu_arena_fini(&arena);
  }
  CHECK(singly > 5 && parted > 5, "%u rounds began with single cells, %u came to them", singly, parted);
  free(model);
}

/* Long spans make few runs, which is the purpose of runs. */
static void long_spans_are_few_runs(void) {
  struct tu_arena arena = {0};
  struct tu_cells c = {.arena = &arena};
  tu_cells_extend(&c, 1u << 30);
  for (uint32_t step = 0; step < 20; step++) {
    tu_cells_read(&c, 0, 1u << step, step);
    tu_cells_write(&c, 1u << step, 2u << step, step);
  }
  CHECK(c.run_count == 22, "20 spans, each as long as all before, are %u runs", c.run_count);
  tu_cells_write(&c, 0, 1u << 30, 20);
  CHECK(c.run_count == 1, "one span over all is %u runs", c.run_count);
  tu_arena_fini(&arena);
}

static const struct test tests[] = {
    {"runs_are_cells", runs_are_cells},
    {"long_spans_are_few_runs", long_spans_are_few_runs},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
