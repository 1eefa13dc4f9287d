/* check_order.c: two steps of a rank that touch one cell, one of them writing, are ordered by `after`.
 *
 * It suffices to look at neighbours in the history of each cell: a reader and the last writer, a writer and the
 * readers since (or the last writer, if nobody read). The rest follows by transitivity. A step may follow another
 * slice by slice where both touch the same span (tu_check_sliced), so a chain of such waits orders slice i of its ends
 * only: two ends that overlap otherwise need a chain with a wait for a whole step in it. */
#include "check/check_parts.h"

#define NONE UINT32_MAX

struct reader {
  uint32_t step; /* of the rank */
  uint32_t next; /* earlier reader of the same cell, or NONE */
};

/* `before` must come before `step` by way of other steps. */
struct query {
  uint32_t before, step;
  uint32_t next; /* of the same 64 steps `before` lies in, or NONE */
};

struct history {
  struct tu_checking *c;
  uint32_t rank;
  uint32_t *writer, *reader; /* of each cell: a step, an index into readers; NONE */
  struct reader *readers;
  uint32_t reader_count, reader_capacity;
  uint32_t *stamp; /* of each step of the rank: the last step that has it in `after` */
  struct query *queries;
  uint32_t query_count, query_capacity;
};

static void need(struct history *h, uint32_t before, uint32_t step) {
  if (before == NONE || before == step || h->stamp[before] == step) return;
  h->queries = tu_arena_grow(h->c->arena, h->queries, h->query_count, &h->query_capacity, sizeof *h->queries);
  h->queries[h->query_count++] = (struct query){before, step, NONE};
}

static void visit(struct history *h, uint32_t step) {
  struct tu_checking *c = h->c;
  uint32_t global = c->ranks[h->rank].step_base + step;
  const struct tu_step *s = tu_check_step_at(c, global);
  for (uint32_t i = 0; i < s->after_count; i++) h->stamp[c->plan->rank[h->rank].afters[s->after_first + i]] = step;
  struct tu_access a;
  for (uint32_t i = 0; tu_check_access(c, global, i, &a); i++) {
    for (uint32_t cell = a.cell; cell < a.cell + a.count; cell++) {
      if (!a.write || h->reader[cell] == NONE) need(h, h->writer[cell], step);
      for (uint32_t k = h->reader[cell]; a.write && k != NONE; k = h->readers[k].next)
        need(h, h->readers[k].step, step);
    }
  }
  /* Reads are noted first: what the step itself writes comes after what it reads. */
  for (uint32_t i = 0; tu_check_access(c, global, i, &a); i++) {
    for (uint32_t cell = a.cell; !a.write && cell < a.cell + a.count; cell++) {
      h->readers = tu_arena_grow(c->arena, h->readers, h->reader_count, &h->reader_capacity, sizeof *h->readers);
      h->readers[h->reader_count] = (struct reader){step, h->reader[cell]};
      h->reader[cell] = h->reader_count++;
    }
  }
  tu_check_access(c, global, 0, &a);
  for (uint32_t cell = a.cell; a.write && cell < a.cell + a.count; cell++) {
    h->writer[cell] = step;
    h->reader[cell] = NONE;
  }
}

static bool refuse_race(struct tu_checking *c, uint32_t before, uint32_t step) {
  return tu_check_refuse_step(c, step,
                              "races with %s: they touch the same memory, and its `after` does not make it wait",
                              tu_check_name(c, before).chars);
}

/* Do the two touch shared memory in places that differ, so that slice by slice is not enough? */
static bool needs_whole(const struct tu_checking *c, uint32_t before, uint32_t step) {
  return !tu_check_sliced(c, before, step);
}

/* Answers the queries whose `before` is one of 64 steps from `low`: which of these does each later step follow? */
static bool answer(struct history *h, uint32_t low, uint32_t head, uint64_t *any, uint64_t *whole,
                   bool *const *sliced) {
  struct tu_checking *c = h->c;
  const struct tu_rank_plan *r = &c->plan->rank[h->rank];
  for (uint32_t s = low; s < r->step_count; s++) {
    const struct tu_step *step = &r->steps[s];
    const bool *step_sliced = sliced[s];
    any[s] = whole[s] = 0;
    for (uint32_t i = 0; i < step->after_count; i++) {
      uint32_t before = r->afters[step->after_first + i];
      if (before < low) continue;
      uint64_t follows = any[before] | (before - low < 64 ? 1ull << (before - low) : 0);
      any[s] |= follows;
      whole[s] |= step_sliced[i] ? whole[before] : follows;
    }
  }
  for (uint32_t q = head; q != NONE; q = h->queries[q].next) {
    uint32_t before = h->queries[q].before, step = h->queries[q].step, base = c->ranks[h->rank].step_base;
    uint64_t bit = 1ull << (before - low);
    if (!(any[step] & bit) || (!(whole[step] & bit) && needs_whole(c, base + before, base + step)))
      return refuse_race(c, base + before, base + step);
  }
  return true;
}

static bool answer_all(struct history *h) {
  struct tu_checking *c = h->c;
  const struct tu_rank_plan *r = &c->plan->rank[h->rank];
  uint32_t base = c->ranks[h->rank].step_base, blocks = r->step_count / 64 + 1;
  uint32_t *head = tu_arena_allocate(c->arena, blocks, sizeof *head);
  uint64_t *any = tu_arena_allocate(c->arena, r->step_count, sizeof *any),
           *whole = tu_arena_allocate(c->arena, r->step_count, sizeof *whole);
  bool **sliced = tu_arena_allocate(c->arena, r->step_count, sizeof *sliced); /* [step][its after] */
  for (uint32_t i = 0; i < blocks; i++) head[i] = NONE;
  for (uint32_t q = 0; q < h->query_count; q++) {
    uint32_t block = h->queries[q].before / 64;
    h->queries[q].next = head[block];
    head[block] = q;
  }
  for (uint32_t s = 0; s < r->step_count; s++) {
    const struct tu_step *step = &r->steps[s];
    sliced[s] = tu_arena_allocate(c->arena, step->after_count, sizeof *sliced[s]);
    for (uint32_t i = 0; i < step->after_count; i++)
      sliced[s][i] = tu_check_sliced(c, base + r->afters[step->after_first + i], base + s);
  }
  bool good = true;
  for (uint32_t i = 0; good && i < blocks; i++)
    if (head[i] != NONE) good = answer(h, i * 64, head[i], any, whole, sliced);
  for (uint32_t s = 0; s < r->step_count; s++) tu_arena_free(c->arena, sliced[s]);
  tu_arena_free(c->arena, head);
  tu_arena_free(c->arena, any);
  tu_arena_free(c->arena, whole);
  tu_arena_free(c->arena, sliced);
  return good;
}

static bool check_rank(struct history *h, uint32_t rank) {
  h->rank = rank;
  h->reader_count = h->query_count = 0;
  uint32_t steps = h->c->plan->rank[rank].step_count;
  for (uint32_t s = 0; s < steps; s++) h->stamp[s] = NONE;
  for (uint32_t s = 0; s < steps; s++) visit(h, s);
  return h->query_count == 0 || answer_all(h);
}

bool tu_check_order(struct tu_checking *c) {
  uint32_t cells = tu_check_cells(c), steps_max = 0;
  for (uint32_t i = 0; i < c->plan->ranks; i++)
    if (c->plan->rank[i].step_count > steps_max) steps_max = c->plan->rank[i].step_count;
  struct history h = {.c = c,
                      .writer = tu_arena_allocate(c->arena, cells, sizeof *h.writer),
                      .reader = tu_arena_allocate(c->arena, cells, sizeof *h.reader),
                      .stamp = tu_arena_allocate(c->arena, steps_max, sizeof *h.stamp)};
  for (uint32_t i = 0; i < cells; i++) h.writer[i] = h.reader[i] = NONE;
  bool good = true;
  for (uint32_t i = 0; good && i < c->plan->ranks; i++) good = check_rank(&h, i);
  tu_arena_free(c->arena, h.writer);
  tu_arena_free(c->arena, h.reader);
  tu_arena_free(c->arena, h.readers);
  tu_arena_free(c->arena, h.stamp);
  tu_arena_free(c->arena, h.queries);
  return good;
}
