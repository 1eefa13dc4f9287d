/* check_order.c: checks that two steps of a rank that touch one cell (chunk of memory) are ordered by `after` if one of
 * them writes.
 *
 * It suffices to check neighbours in the history of each cell. A reader must come after the last writer. A writer must
 * come after the readers since the last write, or after the last writer if there are no readers. The other pairs follow
 * by transitivity.
 *
 * A step may follow another one slice by slice if both touch the same span (tu_check_sliced). Steps that follow each
 * other in this way form a chain. The chain orders only slice i of its first step before slice i of its last step. This
 * is not enough if the first and the last step overlap, but not in the same span. Then the chain must have at least one
 * wait for a whole step. */
#include "check/check_internal.h"

#define NONE UINT32_MAX

struct reader {
  uint32_t step; /* number of the step that reads, within its rank */
  uint32_t next; /* next entry of the list: an earlier reader of the same cell, or NONE */
};

/* A pair of steps to check: a chain of `after` lists must lead from `step` back to `before`. */
struct query {
  uint32_t before, step;
  uint32_t next; /* next query whose `before` is in the same 64 steps (0 to 63, 64 to 127, ...), or NONE */
};

struct history {
  struct tu_checking *c;
  uint32_t rank;
  /* Indexed by cell (chunk of memory). writer: last step that wrote the cell, or NONE. reader: first entry of the list
   * of steps that read the cell since then, or NONE. */
  uint32_t *writer, *reader;
  struct reader *readers;
  uint32_t reader_count, reader_capacity;
  uint32_t *stamp; /* [step of the rank]: number of the last step whose `after` list names this one */
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
  /* Record a step's reads before its writes, because the step reads before it writes. */
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
  return tu_check_refuse_step(
      c, step, "the step races with %s: both access the same memory, and no dependency (`after`) orders them",
      tu_check_name(c, before).chars);
}

/* Returns true if `step` must wait for the whole of `before`, because they share memory in different spans: waiting
 * slice by slice is then not enough. */
static bool needs_whole(const struct tu_checking *c, uint32_t before, uint32_t step) {
  return !tu_check_sliced(c, before, step);
}

/* Checks the queries (pairs of steps to be ordered) whose `before` is one of the 64 steps from `low` on. `head` is the
 * first of these queries.
 * any[s]: one bit for each of the 64 steps, set if that step comes before step s. whole[s]: one bit for each of the 64
 * steps, set if that step comes before step s by a chain with at least one wait for a whole step. sliced[s][i]: true if
 * step s follows step number i of its `after` list slice by slice. */
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
  /* [step][index in its `after`]: true if the step follows that earlier step slice by slice */
  bool **sliced = tu_arena_allocate(c->arena, r->step_count, sizeof *sliced);
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
