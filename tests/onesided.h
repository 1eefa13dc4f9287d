/* onesided.h: helpers of the tests of one-sided calls: checks of results and errors, tensors with known values, random
 * staging tiles with guard bytes. */
#ifndef ONESIDED_H
#define ONESIDED_H

#include <tutti/window.h>

#include "engine/kernels.h"
#include "paced.h"
#include "tensors.h"
#include "troupe.h"

/* Checks that a call has succeeded. The error message is this thread's. */
static inline bool fine(struct player *p, tutti_err err, const char *what) {
  if (err == TUTTI_OK) return true;
  wrong(p, "rank %u: %s: %s: %s", p->rank, what, tutti_err_name(err), tutti_error_message(NULL));
  return false;
}

/* Checks that a call has failed with error `wanted`, and that the error message contains the facts in `words`. */
static inline bool refused(struct player *p, tutti_err err, tutti_err wanted, const char *words, const char *what) {
  if (err == wanted && test_contains(tutti_error_message(NULL), words)) return true;
  wrong(p, "rank %u: %s: %s, expected the facts '%s' in: %s", p->rank, what, tutti_err_name(err), words,
        err == TUTTI_OK ? "" : tutti_error_message(NULL));
  return false;
}

static inline void meet(struct player *p) { good(p, tutti_barrier(p->comm), "barrier"); }

/* Returns a row-major matrix without gaps. */
static inline tutti_tensor rows_of(void *data, tutti_datatype type, size_t rows, size_t cols) {
  tutti_tensor t;
  const size_t shape[] = {rows, cols};
  if (tutti_tensor_strided(&t, (tutti_tensor_of){data, type, 2, shape}, NULL) != TUTTI_OK) abort();
  return t;
}

/* ---- parts of any rank, also of one on another host, where no load or store reaches ---- */

/* Returns a copy of the first bytes of a rank's part. The caller frees it. */
static inline void *copy_of_part(struct player *p, const tutti_window *window, uint32_t rank, size_t bytes) {
  unsigned char *copy = calloc(bytes + 1, 1);
  const tutti_tensor from = rows_of(tutti_window_address(window, rank), TUTTI_U8, 1, bytes);
  const tutti_tensor to = rows_of(copy, TUTTI_U8, 1, bytes);
  fine(p, tutti_get(&from, &to, NULL, NULL), "get of a part");
  return copy;
}

/* Writes to the beginning of a rank's part. */
static inline void write_part(struct player *p, const tutti_window *window, uint32_t rank, const void *bytes,
                              size_t count) {
  const tutti_tensor to = rows_of(tutti_window_address(window, rank), TUTTI_U8, 1, count);
  const tutti_tensor from = rows_of((void *)(uintptr_t)bytes, TUTTI_U8, 1, count);
  fine(p, tutti_put(&from, &to, NULL, NULL), "put to a part");
}

/* Returns true if this process can load from and store to the rank's part. */
static inline bool is_mapped(struct player *p, const tutti_window *window, uint32_t rank) {
  void *memory;
  const tutti_err err = tutti_window_memory(window, rank, &memory);
  if (err == TUTTI_OK && memory != tutti_window_address(window, rank))
    wrong(p, "the part of rank %u is elsewhere", rank);
  return err == TUTTI_OK || !refused(p, err, TUTTI_ERR_UNSUPPORTED, "another host|tutti_get|tutti_put", "its memory");
}

/* ---- values ---- */

/* Returns the value of an element, so small that sums of eight values are exact in every type. */
static inline int value_at(uint32_t source, const size_t i[TUTTI_DIMS]) {
  return (int)((source * 11 + i[0] * 7 + i[1] * 5 + i[2] * 3 + i[3] * 13 + i[4]) % 29);
}

typedef int value_function(const void *context, const size_t index[TUTTI_DIMS]);

/* Writes the tensor's elements into `memory`, which stands for the tensor's own memory. */
static inline void fill(const tutti_tensor *t, void *memory, value_function *value, const void *context) {
  size_t i[TUTTI_DIMS] = {0}, item = tutti_datatype_size(t->type);
  do tu_from_double(t->type, (char *)memory + tensors_where(t, i) * item, value(context, i));
  while (tensors_next(t->shape, i));
}

static inline int value_of_rank(const void *rank, const size_t i[TUTTI_DIMS]) {
  return value_at(*(const uint32_t *)rank, i);
}

/* Returns true if the memory holds the tensor's elements, and 0xa5 in all other bytes. */
static inline bool is_filled(const tutti_tensor *t, const void *memory, size_t bytes, value_function *value,
                             const void *context) {
  unsigned char *want = malloc(bytes + 1);
  memset(want, 0xa5, bytes);
  fill(t, want, value, context);
  bool equal = memcmp(want, memory, bytes) == 0;
  free(want);
  return equal;
}

/* ---- staging ---- */

enum { GUARD = 64 };

struct staging {
  tutti_staging s;
  uint32_t tiles;
  size_t bytes;
  unsigned char *memory[3]; /* two tiles and the accumulator, each with guard bytes before and behind */
  void *accumulator;
  struct paced paced;
  bool is_paced;
};

static inline void *guarded(struct staging *g, int which) {
  g->memory[which] = aligned_alloc(GUARD, tensors_up(g->bytes, GUARD) + 2 * GUARD);
  memset(g->memory[which], 0x5c, tensors_up(g->bytes, GUARD) + 2 * GUARD);
  return g->memory[which] + GUARD;
}

/* Chooses a random staging (tiles for a one-sided call): no, one or two tiles for tensors of this shape, and a loader:
 * the simulated one (paced.h) or the CPU. */
static inline void draw_staging(struct staging *g, tutti_datatype type, const size_t shape[TUTTI_DIMS],
                                uint64_t *state) {
  *g = (struct staging){.tiles = (uint32_t)(ranks_random(state) % 3)};
  g->s.valid_rows = 1 + ranks_random(state) % (shape[3] + 3),
  g->s.valid_cols = 1 + ranks_random(state) % (shape[4] + 3);
  g->s.rows = g->s.valid_rows + ranks_random(state) % 2, g->s.cols = g->s.valid_cols + ranks_random(state) % 2;
  g->s.fixed_rows = shape[3] % g->s.valid_rows == 0, g->s.fixed_cols = shape[4] % g->s.valid_cols == 0;
  if (g->s.rows == g->s.valid_rows && ranks_random(state) % 2) g->s.valid_rows = 0;
  g->bytes = g->s.rows * g->s.cols * tutti_datatype_size(type);
  for (uint32_t i = 0; i < g->tiles; i++) g->s.tiles[i] = guarded(g, (int)i);
  if (ranks_random(state) % 2) g->accumulator = guarded(g, 2);
  g->is_paced = ranks_random(state) % 2;
  g->paced = paced_make(1, 1);
}

/* Sets this thread's loader for one call, and returns the staging (tiles) to pass to the call. */
static inline const tutti_staging *begin_staging(struct staging *g) {
  tu_stage_loader = g->is_paced ? &g->paced.loader : NULL;
  return g->tiles || g->is_paced ? &g->s : NULL;
}

static inline void end_staging(struct player *p, struct staging *g, const char *what) {
  tu_stage_loader = NULL;
  for (int i = 0; i < 3; i++) {
    for (size_t b = 0; g->memory[i] && b < GUARD; b++)
      if (g->memory[i][b] != 0x5c || g->memory[i][GUARD + g->bytes + b] != 0x5c)
        wrong(p, "rank %u: %s: bytes beyond tile %d were overwritten", p->rank, what, i);
    free(g->memory[i]);
  }
  paced_end(&g->paced);
}

#endif
