/* staged.c: the staged engine. */
#include "api/staged.h"

_Thread_local struct tu_loader *tu_stage_loader;

/* The CPU that stores is the one that loads: all that can go on beside a store is that memory brings the first lines
 * of what is loaded next. The copy comes when the store is done; then the same tile is free again, and still in the
 * cache. */
struct cpu_loader {
  struct tu_loader loader; /* first */
  struct tu_load loads[2];
};
enum { LINES_AHEAD = 4 };

static struct cpu_loader *cpu_of(struct tu_loader *loader) { return (struct cpu_loader *)(void *)loader; }

static void ask_for(struct tu_loader *loader, size_t index, const struct tu_load *load) {
  size_t offset, pitch, bytes = load->region.extent[4] * tu_map_item_bytes(load->region.map);
  cpu_of(loader)->loads[index % 2] = *load;
  if (!tu_region_is_matrix(&load->region, &offset, &pitch)) return;
  const char *first = (const char *)load->data + offset;
  for (size_t at = 0; at < bytes && at < LINES_AHEAD * TU_LINE_BYTES; at += TU_LINE_BYTES)
    __builtin_prefetch(first + at);
}

static void load_now(struct tu_loader *loader, size_t index) {
  const struct tu_load *load = &cpu_of(loader)->loads[index % 2];
  tu_region_load(&load->region, load->data, load->tile, load->pitch);
}

static void tell(struct tu_loader *l, enum tu_moment moment, size_t index) {
  if (l->moment) l->moment(l, moment, index);
}

static void *tile_of(const struct tu_loader *l, const struct tu_stage *stage, size_t index) {
  return stage->tiles[l->late ? 0 : index % stage->tile_count];
}

static void begin(struct tu_loader *l, const struct tu_stage *stage, const struct tu_work *work, size_t index) {
  if (index == work->count) return;
  struct tu_load load = {.tile = tile_of(l, stage, index), .pitch = stage->pitch};
  work->load(work, index, &load);
  tell(l, TU_LOAD_BEGINS, index);
  l->begin(l, index, &load);
}

/* With two tiles, load i + 1 goes into the tile that store i - 1 has emptied. */
void tu_stage_run(const struct tu_stage *stage, const struct tu_work *work) {
  struct cpu_loader cpu = {.loader = {.begin = ask_for, .wait = load_now, .late = true}};
  struct tu_loader *l = tu_stage_loader ? tu_stage_loader : &cpu.loader;
  begin(l, stage, work, 0);
  for (size_t i = 0; i < work->count; i++) {
    l->wait(l, i);
    tell(l, TU_LOAD_ENDS, i);
    if (stage->tile_count == 2) begin(l, stage, work, i + 1);
    tell(l, TU_STORE_BEGINS, i);
    work->store(work, i, tile_of(l, stage, i));
    tell(l, TU_STORE_ENDS, i);
    if (stage->tile_count == 1) begin(l, stage, work, i + 1);
  }
}
