/* staged.c: the staged engine. */
#include "api/staged.h"

_Thread_local struct tu_loader *tu_stage_loader;

/* The CPU that stores is the one that loads: all that can go on beside a store is that memory brings the first lines
 * of what is loaded next, which pays where caches do not hold the data (FAR_BYTES). The copy comes when the store is
 * done; then the same tile is free again, and still in the cache. So both tiles are used, the first two loads in turn,
 * but then each for a while: a change costs what it takes to bring the other tile into the cache, and one change in
 * RUN_BYTES is not to be measured. */
struct cpu_loader {
  struct tu_loader loader; /* first */
  struct tu_load loads[2];
};
enum { LINES_AHEAD = 4, ASK_BYTES = 4096, RUN_BYTES = 128 << 10, FAR_BYTES = 8 << 20 };

static struct cpu_loader *cpu_of(struct tu_loader *loader) { return (struct cpu_loader *)(void *)loader; }

static void ask_for(struct tu_loader *loader, size_t index, const struct tu_load *load) {
  size_t offset, pitch, bytes = load->region.extent[4] * tu_map_item_bytes(load->region.map);
  cpu_of(loader)->loads[index % 2] = *load;
  if (bytes * load->region.extent[3] < ASK_BYTES) return; /* that would take longer than what it saves */
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
  size_t run = l->late && index > 1 ? tu_max(1, RUN_BYTES / tu_max(1, stage->tile_bytes)) : 1;
  return stage->tiles[index / run % stage->tile_count];
}

static void begin(struct tu_loader *l, const struct tu_stage *stage, const struct tu_work *work, size_t index) {
  if (index == work->count) return;
  struct tu_load load = {.tile = tile_of(l, stage, index), .pitch = stage->pitch};
  work->load(work, index, &load);
  tell(l, TU_LOAD_BEGINS, index);
  l->begin(l, index, &load);
}

/* Does the next load begin before the store of the last? */
static bool overlaps(const struct tu_loader *l, const struct tu_stage *stage, const struct tu_work *work) {
  return stage->tile_count == 2 && (!l->late || work->count > FAR_BYTES / tu_max(1, stage->tile_bytes));
}

/* With two tiles, load i + 1 goes into the tile that store i - 1 has emptied. */
void tu_stage_run(const struct tu_stage *stage, const struct tu_work *work) {
  struct cpu_loader cpu = {.loader = {.begin = ask_for, .wait = load_now, .late = true}};
  struct tu_loader *l = tu_stage_loader ? tu_stage_loader : &cpu.loader;
  const bool ahead = overlaps(l, stage, work);
  begin(l, stage, work, 0);
  for (size_t i = 0; i < work->count; i++) {
    l->wait(l, i);
    tell(l, TU_LOAD_ENDS, i);
    if (ahead) begin(l, stage, work, i + 1);
    tell(l, TU_STORE_BEGINS, i);
    work->store(work, i, tile_of(l, stage, i));
    tell(l, TU_STORE_ENDS, i);
    if (!ahead) begin(l, stage, work, i + 1);
  }
}
