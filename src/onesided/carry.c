/* carry.c: moves the data of one-sided calls between tensors: copies, adds or reduces it, directly or through tiles
 * (small buffers of the user). */
#include "onesided/carry.h"

#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "engine/kernels.h"
#include "onesided/transit.h"
#include "tensor/slide.h"

enum { SCRATCH_BYTES = 16 << 10 };

static struct tu_region region_at(const struct tu_end *end, const struct tu_stop *stop) {
  struct tu_region region = {.map = end->located->map};
  memcpy(region.origin, stop->origin, sizeof region.origin);
  memcpy(region.extent, stop->extent, sizeof region.extent);
  region.origin[3] += end->row;
  return region;
}

static void *data_of(const struct tu_end *end) { return end->located->tensor.data; }

static size_t rows_of(const struct tu_stop *stop) {
  return stop->extent[0] * stop->extent[1] * stop->extent[2] * stop->extent[3];
}

static struct tu_slide slide_over(const struct tu_end *end, size_t rows, size_t cols) {
  struct tu_region whole = tu_end_region(end);
  return tu_slide_over(whole.extent, rows, cols);
}

/* Divides one side of a transfer into rectangles of at most SCRATCH_BYTES, as a tile that moves over it. Returns the
 * sequence of the tile's positions (a slide). */
static struct tu_slide slide_by_scratch(const struct tu_end *end) {
  struct tu_region whole = tu_end_region(end);
  size_t room = SCRATCH_BYTES / tu_map_item_bytes(whole.map);
  size_t cols = tu_max(1, tu_min(whole.extent[4], room));
  return tu_slide_over(whole.extent, room / cols, cols);
}

/* Position of the current load or store. Loads and stores run in order. So the next position follows from the current
 * one, and no division is needed. */
struct cursor {
  size_t at;     /* index of the current stop (position of the tile) */
  uint32_t item; /* copies: index of the current pair of tensors; reductions: index of the current source */
  struct tu_stop stop;
};

/* One transfer: its two sides, its tile and its positions. `work` must be the first field, because callbacks get a
 * pointer to `work` and cast it to this struct. */
struct carrying {
  struct tu_work work;
  struct tu_transit *transit;
  struct tu_slide slide;
  size_t pitch;
  const struct tu_end *to, *from;
  uint32_t count;
  const struct tu_arithmetic *arithmetic;
  void *accumulator;
  struct cursor *loads, *stores;
  const struct tu_end *sources; /* reductions: all sources */
  unsigned char *scratch;       /* reductions: as large as the accumulator */
  /* Reductions across hosts: `from` and `count` are the sources on other hosts, in order. */
  uint32_t source_count;
  uint32_t *next; /* number of the next source to combine at this stop */
};

/* Advances the cursor to the next stop (position of the tile) of the same item: a pair of tensors, or a source. After
 * the last stop, advances to the first stop of the next item. index: number of the load or store, from 0. Index 0
 * starts at the first stop of item 0. */
static const struct cursor *go_on(const struct carrying *c, struct cursor *cursor, size_t index) {
  if (index == 0) {
    *cursor = (struct cursor){.stop = tu_slide_stop(&c->slide, 0)};
    return cursor;
  }
  tu_slide_next(&c->slide, &cursor->stop);
  if (++cursor->at == c->slide.count) cursor->at = 0, cursor->item++;
  return cursor;
}

/* Advances the cursor to the next item (a source) at the same stop (position of the tile). After the last item,
 * advances to item 0 at the next stop. index: number of the load or store, from 0. Index 0 starts at item 0 and the
 * first stop. */
static const struct cursor *go_round(const struct carrying *c, struct cursor *cursor, size_t index) {
  if (index == 0) {
    *cursor = (struct cursor){.stop = tu_slide_stop(&c->slide, 0)};
    return cursor;
  }
  if (++cursor->item < c->count) return cursor;
  cursor->item = 0;
  tu_slide_next(&c->slide, &cursor->stop);
  return cursor;
}

static const struct carrying *carrying_of(const struct tu_work *work) { return (const struct carrying *)work; }

static void load_from(const struct tu_end *from, const struct tu_stop *stop, struct tu_load *load) {
  load->region = region_at(from, stop);
  load->data = data_of(from);
  load->from = from->located;
}

static void store_to(const struct carrying *c, const struct tu_end *to, const struct tu_stop *stop, const void *rows,
                     size_t pitch) {
  struct tu_region region = region_at(to, stop);
  tu_transit_store(c->transit, to, &region, rows, pitch);
}

/* ---- copies of pairs, one after the other ---- */

static void load_pair(const struct tu_work *work, size_t index, struct tu_load *load) {
  const struct carrying *c = carrying_of(work);
  const struct cursor *at = go_on(c, c->loads, index);
  load_from(&c->from[at->item], &at->stop, load);
}

static void store_pair(const struct tu_work *work, size_t index, const void *tile) {
  const struct carrying *c = carrying_of(work);
  const struct cursor *at = go_on(c, c->stores, index);
  store_to(c, &c->to[at->item], &at->stop, tile, c->pitch);
}

/* Copies through tiles. */
static void carry_staged(struct tu_transit *transit, const struct tu_end *to, const struct tu_end *from,
                         uint32_t count) {
  const struct tu_stage *stage = &transit->stage;
  struct cursor cursors[2];
  struct carrying c = {
      .transit = transit, .to = to, .from = from, .pitch = stage->pitch, .loads = &cursors[0], .stores = &cursors[1]};
  c.slide = slide_over(from, stage->rows, stage->cols);
  c.work = (struct tu_work){c.slide.count * count, load_pair, store_pair};
  tu_stage_run(stage, &c.work);
}

tutti_err tu_carry_pairs(const struct tu_stage *stage, const struct tu_end *to, const struct tu_end *from,
                         uint32_t count, struct tu_error *error) {
  struct tu_transit transit;
  if (count == 0) return TUTTI_OK;
  tutti_err err = tu_transit_open(&transit, stage, to, count, from, count, error);
  if (err == TUTTI_OK && stage->tile_count > 0) carry_staged(&transit, to, from, count);
  for (uint32_t i = 0; err == TUTTI_OK && stage->tile_count == 0 && i < count; i++)
    if (!tu_transit_copy(&transit, &to[i], &from[i])) carry_staged(&transit, &to[i], &from[i], 1);
  return tu_transit_close(&transit, err, error);
}

/* ---- broadcast: load once, store to all targets ---- */

static void store_cast(const struct tu_work *work, size_t index, const void *tile) {
  const struct carrying *c = carrying_of(work);
  const struct cursor *at = go_on(c, c->stores, index);
  for (uint32_t i = 0; i < c->count; i++) store_to(c, &c->to[i], &at->stop, tile, c->pitch);
}

static void cast_staged(struct tu_transit *transit, const struct tu_end *to, uint32_t count,
                        const struct tu_end *from) {
  const struct tu_stage *stage = &transit->stage;
  struct cursor cursors[2];
  struct carrying c = {.transit = transit,
                       .to = to,
                       .from = from,
                       .count = count,
                       .pitch = stage->pitch,
                       .loads = &cursors[0],
                       .stores = &cursors[1]};
  c.slide = slide_over(from, stage->rows, stage->cols);
  c.work = (struct tu_work){c.slide.count, load_pair, store_cast};
  tu_stage_run(stage, &c.work);
}

tutti_err tu_carry_cast(const struct tu_stage *stage, const struct tu_end *to, uint32_t count,
                        const struct tu_end *from, struct tu_error *error) {
  struct tu_transit transit;
  if (count == 0) return TUTTI_OK;
  tutti_err err = tu_transit_open(&transit, stage, to, count, from, 1, error);
  if (err == TUTTI_OK && stage->tile_count > 0) cast_staged(&transit, to, count, from);
  for (uint32_t i = 0; err == TUTTI_OK && stage->tile_count == 0 && i < count; i++)
    if (!tu_transit_copy(&transit, &to[i], from)) carry_staged(&transit, &to[i], from, 1);
  return tu_transit_close(&transit, err, error);
}

/* ---- atomic addition ---- */

bool tu_carry_can_add(tutti_datatype type) {
  switch (type) {
    case TUTTI_I32:
    case TUTTI_U32:
    case TUTTI_I64:
    case TUTTI_U64:
    case TUTTI_F32:
    case TUTTI_F64:
    case TUTTI_F16:
    case TUTTI_BF16: return true;
    default: return false;
  }
}

/* Adds x to a float by compare-and-exchange of its bits; tries again if another thread has changed the float
 * meanwhile. */
static void add_f32(uint32_t *to, float x) {
  uint32_t before = __atomic_load_n(to, __ATOMIC_RELAXED), after;
  do {
    float sum;
    memcpy(&sum, &before, sizeof sum);
    sum += x;
    memcpy(&after, &sum, sizeof sum);
  } while (!__atomic_compare_exchange_n(to, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static void add_f64(uint64_t *to, double x) {
  uint64_t before = __atomic_load_n(to, __ATOMIC_RELAXED), after;
  do {
    double sum;
    memcpy(&sum, &before, sizeof sum);
    sum += x;
    memcpy(&after, &sum, sizeof sum);
  } while (!__atomic_compare_exchange_n(to, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static void add_narrow(const struct tu_arithmetic *a, uint16_t *to, uint16_t x) {
  uint16_t before = __atomic_load_n(to, __ATOMIC_RELAXED), after;
  do {
    const void *const operands[] = {&before, &x};
    tu_reduce(a, &after, operands, 2, 1, false);
  } while (!__atomic_compare_exchange_n(to, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* Adds the element at x to the element at `to`, atomically. x may be unaligned. */
static inline void add_one(const struct tu_arithmetic *a, void *to, const unsigned char *x) {
  uint16_t narrow;
  uint32_t word;
  uint64_t wide;
  float f;
  double d;
  switch (a->type) {
    case TUTTI_F32: memcpy(&f, x, sizeof f), add_f32(to, f); break;
    case TUTTI_F64: memcpy(&d, x, sizeof d), add_f64(to, d); break;
    case TUTTI_I32:
    case TUTTI_U32:
      memcpy(&word, x, sizeof word);
      (void)__atomic_fetch_add((uint32_t *)to, word, __ATOMIC_RELAXED);
      break;
    case TUTTI_I64:
    case TUTTI_U64:
      memcpy(&wide, x, sizeof wide);
      (void)__atomic_fetch_add((uint64_t *)to, wide, __ATOMIC_RELAXED);
      break;
    default: memcpy(&narrow, x, sizeof narrow), add_narrow(a, to, narrow); break;
  }
}

/* Adds a matrix to a region of a tensor, element by element. `rows`: the matrix; pitch: bytes from one of its rows to
 * the next. If the region is a matrix in memory, too, its rows are found by its pitch. Otherwise the offset of each
 * element is computed separately. */
static void add_rows(const struct tu_arithmetic *a, const struct tu_region *region, unsigned char *data,
                     const unsigned char *rows, size_t pitch) {
  const size_t item = tu_map_item_bytes(region->map), cols = region->extent[4];
  size_t index[4] = {0}, offset, own_pitch;
  bool matrix = tu_region_is_matrix(region, &offset, &own_pitch);
  for (size_t row = 0; index[0] < region->extent[0]; row++) {
    for (size_t col = 0; col < cols; col++) {
      size_t at = offset + row * own_pitch + col * item;
      if (!matrix) {
        size_t position[TUTTI_DIMS] = {[4] = region->origin[4] + col};
        for (int d = 0; d < 4; d++) position[d] = region->origin[d] + index[d];
        at = tu_map_offset(region->map, position);
      }
      add_one(a, data + at, rows + row * pitch + col * item);
    }
    int d = 3;
    for (index[d]++; d > 0 && index[d] == region->extent[d]; index[d]++) index[d--] = 0;
  }
}

void tu_carry_add_rows(tutti_datatype type, const struct tu_region *region, void *data, const void *rows,
                       size_t pitch) {
  const struct tu_arithmetic a = {.type = type, .op = TUTTI_SUM};
  add_rows(&a, region, data, rows, pitch);
}

static void add_to(const struct carrying *c, const struct tu_stop *stop, const void *rows, size_t pitch) {
  const struct tu_located *to = c->to->located;
  struct tu_region region = region_at(c->to, stop);
  if (to->far) (void)tu_far_add(&c->transit->far, tu_located_far(to), &to->tensor, &region, rows, pitch);
  else add_rows(c->arithmetic, &region, data_of(c->to), rows, pitch);
}

static void store_sum(const struct tu_work *work, size_t index, const void *tile) {
  const struct carrying *c = carrying_of(work);
  add_to(c, &go_on(c, c->stores, index)->stop, tile, c->pitch);
}

/* Adds the source to the target, if the user gave no tiles. If the source is a matrix in memory, it is read directly.
 * Otherwise it is first copied to the scratch buffer. */
static void add_straight(struct carrying *c) {
  _Alignas(TU_LINE_BYTES) unsigned char scratch[SCRATCH_BYTES];
  c->slide = slide_by_scratch(c->from);
  for (size_t i = 0; i < c->slide.count; i++) {
    struct tu_stop stop = tu_slide_stop(&c->slide, i);
    struct tu_region source = region_at(c->from, &stop);
    size_t offset, pitch;
    if (tu_region_is_matrix(&source, &offset, &pitch)) {
      add_to(c, &stop, (unsigned char *)data_of(c->from) + offset, pitch);
      continue;
    }
    pitch = stop.extent[4] * tu_map_item_bytes(source.map);
    tu_region_load(&source, data_of(c->from), scratch, pitch);
    add_to(c, &stop, scratch, pitch);
  }
}

tutti_err tu_carry_add(const struct tu_stage *given, const struct tu_end *to, const struct tu_end *from,
                       struct tu_error *error) {
  const struct tu_arithmetic a = {.type = to->located->tensor.type, .op = TUTTI_SUM};
  struct tu_transit transit;
  struct cursor cursors[2];
  tutti_err err = tu_transit_open(&transit, given, to, 1, from, 1, error);
  const struct tu_stage *stage = &transit.stage;
  struct carrying c = {.transit = &transit,
                       .to = to,
                       .from = from,
                       .arithmetic = &a,
                       .pitch = stage->pitch,
                       .loads = &cursors[0],
                       .stores = &cursors[1]};
  if (err == TUTTI_OK && stage->tile_count == 0) {
    add_straight(&c);
  } else if (err == TUTTI_OK) {
    c.slide = slide_over(from, stage->rows, stage->cols);
    c.work = (struct tu_work){c.slide.count, load_pair, store_sum};
    tu_stage_run(stage, &c.work);
  }
  return tu_transit_close(&transit, err, error);
}

/* ---- reduction: at each stop, combines all sources ---- */

/* Computes accumulator = accumulator op rows, for the rows at one stop (tile position). */
static void accumulate(const struct carrying *c, const struct tu_stop *stop, unsigned char *accumulator, size_t pitch,
                       const unsigned char *rows, size_t rows_pitch) {
  size_t item = tu_datatypes[c->arithmetic->type].bytes, count = rows_of(stop), cols = stop->extent[4];
  if (pitch == rows_pitch && pitch == cols * item) cols *= count, count = 1;
  for (size_t row = 0; row < count; row++) {
    const void *const operands[] = {accumulator + row * pitch, rows + row * rows_pitch};
    tu_reduce(c->arithmetic, accumulator + row * pitch, operands, 2, cols, false);
  }
}

static void load_source(const struct tu_work *work, size_t index, struct tu_load *load) {
  const struct carrying *c = carrying_of(work);
  const struct cursor *at = go_round(c, c->loads, index);
  load_from(&c->from[at->item], &at->stop, load);
}

/* Combines source number s, whose rows are in a tile, with the accumulator. */
static void combine_tile(const struct carrying *c, const struct tu_stop *stop, uint32_t s, const void *tile) {
  const size_t row_bytes = stop->extent[4] * tu_datatypes[c->arithmetic->type].bytes;
  if (s == 0) memcpy(c->accumulator, tile, (rows_of(stop) - 1) * c->pitch + row_bytes);
  else accumulate(c, stop, c->accumulator, c->pitch, tile, c->pitch);
}

/* Combines source number s, which is on this host, with the accumulator. The first source is copied there. A further one
 * is read directly if it is aligned and a matrix in memory; otherwise it is first copied to the scratch buffer. */
static void combine_here(const struct carrying *c, const struct tu_stop *stop, uint32_t s) {
  const size_t item = tu_datatypes[c->arithmetic->type].bytes;
  const struct tu_region source = region_at(&c->sources[s], stop);
  const unsigned char *data = data_of(&c->sources[s]);
  size_t offset, pitch;
  if (s == 0) {
    tu_region_load(&source, data, c->accumulator, c->pitch);
  } else if ((uintptr_t)data % item == 0 && tu_region_is_matrix(&source, &offset, &pitch)) {
    accumulate(c, stop, c->accumulator, c->pitch, data + offset, pitch);
  } else {
    tu_region_load(&source, data, c->scratch, c->pitch);
    accumulate(c, stop, c->accumulator, c->pitch, c->scratch, c->pitch);
  }
}

static void reduce_tile(const struct tu_work *work, size_t index, const void *tile) {
  const struct carrying *c = carrying_of(work);
  const struct cursor *at = go_round(c, c->stores, index);
  combine_tile(c, &at->stop, at->item, tile);
  if (at->item == c->count - 1) store_to(c, c->to, &at->stop, c->accumulator, c->pitch);
}

/* Combines the sources on this host, from number s to the next one on another host. Returns the number of that one. */
static uint32_t combine_near(const struct carrying *c, const struct tu_stop *stop, uint32_t s) {
  for (; s < c->source_count && !c->sources[s].located->far; s++) combine_here(c, stop, s);
  return s;
}

/* Only sources on other hosts pass through tiles. So with two tiles, one of them is always being loaded. */
static void reduce_crossing(const struct tu_work *work, size_t index, const void *tile) {
  const struct carrying *c = carrying_of(work);
  const struct cursor *at = go_round(c, c->stores, index);
  if (at->item == 0) *c->next = combine_near(c, &at->stop, 0);
  combine_tile(c, &at->stop, *c->next, tile);
  *c->next = combine_near(c, &at->stop, *c->next + 1);
  if (at->item == c->count - 1) store_to(c, c->to, &at->stop, c->accumulator, c->pitch);
}

/* Reduces the sources, if the user gave no tiles. */
static void reduce_straight(struct carrying *c) {
  _Alignas(TU_LINE_BYTES) unsigned char accumulator[SCRATCH_BYTES], scratch[SCRATCH_BYTES];
  c->sources = c->from;
  c->accumulator = accumulator;
  c->scratch = scratch;
  c->slide = slide_by_scratch(c->from);
  for (size_t i = 0; i < c->slide.count; i++) {
    const struct tu_stop stop = tu_slide_stop(&c->slide, i);
    c->pitch = stop.extent[4] * tu_datatypes[c->arithmetic->type].bytes;
    for (uint32_t s = 0; s < c->count; s++) combine_here(c, &stop, s);
    store_to(c, c->to, &stop, accumulator, c->pitch);
  }
}

/* Prepares a reduction of which some sources are on other hosts. far: memory for the list of these. */
static void cross(struct carrying *c, struct tu_end far[], unsigned char *scratch) {
  c->sources = c->from;
  c->source_count = c->count;
  c->scratch = scratch;
  c->from = far;
  c->count = 0;
  for (uint32_t s = 0; s < c->source_count; s++)
    if (c->sources[s].located->far) far[c->count++] = c->sources[s];
}

static tutti_err reduce(struct tu_transit *transit, const struct tu_end *to, const struct tu_end *from, uint32_t count,
                        tutti_op op, struct tu_error *error) {
  const struct tu_stage *stage = &transit->stage;
  const struct tu_arithmetic a = {.type = to->located->tensor.type, .op = op};
  struct cursor cursors[2];
  uint32_t next = 0;
  struct carrying c = {.transit = transit,
                       .next = &next,
                       .to = to,
                       .from = from,
                       .count = count,
                       .arithmetic = &a,
                       .pitch = stage->pitch,
                       .loads = &cursors[0],
                       .stores = &cursors[1]};
  if (stage->tile_count == 0) {
    reduce_straight(&c);
    return TUTTI_OK;
  }
  const size_t tile_bytes = tu_round_up(stage->tile_bytes, TU_LINE_BYTES);
  unsigned char *own = stage->accumulator ? NULL : aligned_alloc(TU_LINE_BYTES, tile_bytes);
  unsigned char *scratch = transit->crosses ? aligned_alloc(TU_LINE_BYTES, tile_bytes) : NULL;
  struct tu_end *far = transit->crosses ? malloc(count * sizeof *far) : NULL;
  tutti_err err = TUTTI_OK;
  if ((!own && !stage->accumulator) || (transit->crosses && (!scratch || !far)))
    err = tu_fail(error, TUTTI_ERR_MEMORY, "%s: out of memory: cannot allocate an accumulator of %zu bytes (one tile)",
                  to->located->call, stage->tile_bytes);
  if (err == TUTTI_OK) {
    c.accumulator = stage->accumulator ? stage->accumulator : own;
    c.slide = slide_over(from, stage->rows, stage->cols);
    if (transit->crosses) cross(&c, far, scratch);
    c.work = (struct tu_work){c.slide.count * c.count, load_source, transit->crosses ? reduce_crossing : reduce_tile};
    tu_stage_run(stage, &c.work);
  }
  free(far);
  free(scratch);
  free(own);
  return err;
}

tutti_err tu_carry_reduce(const struct tu_stage *stage, const struct tu_end *to, const struct tu_end *from,
                          uint32_t count, tutti_op op, struct tu_error *error) {
  struct tu_transit transit;
  tutti_err err = tu_transit_open(&transit, stage, to, 1, from, count, error);
  if (err == TUTTI_OK) err = reduce(&transit, to, from, count, op, error);
  return tu_transit_close(&transit, err, error);
}
