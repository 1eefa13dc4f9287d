/* staged.c: the staged engine: moves data through tiles (small buffers), so that loads overlap with stores. */
#include "onesided/staged.h"

_Thread_local struct tu_loader *tu_stage_loader;

/* The loader that uses the CPU. The same CPU also stores, so `begin` does not copy. It only prefetches the first cache
 * lines of the data, so that they arrive during the previous store. This pays off only if the caches do not hold the
 * data (FAR_BYTES). `wait` copies the data into the tile. By then the previous store has ended, and its tile is free
 * again and still in the cache.
 *
 * With two tiles, the first two loads use one tile each. After that, one tile serves all loads of RUN_BYTES together,
 * and then the other tile serves as many. Changing tiles at each load would be slower, because each time the other tile
 * would have to be brought into the cache. */
struct cpu_loader {
  struct tu_loader loader; /* must be the first field, because cpu_of() casts a pointer to it to this struct */
  struct tu_load loads[2];
};
enum { LINES_AHEAD = 4, ASK_BYTES = 4096, RUN_BYTES = 128 << 10, FAR_BYTES = 8 << 20 };

static struct cpu_loader *cpu_of(struct tu_loader *loader) { return (struct cpu_loader *)(void *)loader; }

static void ask_for(struct tu_loader *loader, size_t index, const struct tu_load *load) {
  size_t offset, pitch, bytes = load->region.extent[4] * tu_map_item_bytes(load->region.map);
  cpu_of(loader)->loads[index % 2] = *load;
  if (bytes * load->region.extent[3] < ASK_BYTES) return; /* prefetching so few bytes takes longer than it saves */
  if (!tu_region_is_matrix(&load->region, &offset, &pitch)) return;
  const char *first = (const char *)load->data + offset;
  for (size_t at = 0; at < bytes && at < LINES_AHEAD * TU_LINE_BYTES; at += TU_LINE_BYTES)
    __builtin_prefetch(first + at);
}

static void load_now(struct tu_loader *loader, size_t index) {
  const struct tu_load *load = &cpu_of(loader)->loads[index % 2];
  tu_region_load(&load->region, load->data, load->tile, load->pitch);
}

static void tell(enum tu_moment moment, size_t index) {
  if (tu_stage_loader && tu_stage_loader->moment) tu_stage_loader->moment(tu_stage_loader, moment, index);
}

/* Returns the loader: that of the call, which can reach other hosts; that of the thread; or the CPU's. */
static struct tu_loader *choose(const struct tu_stage *stage, struct tu_loader *cpu) {
  if (stage->loader) return stage->loader;
  return tu_stage_loader && tu_stage_loader->begin ? tu_stage_loader : cpu;
}

static void *tile_of(const struct tu_loader *l, const struct tu_stage *stage, size_t index) {
  size_t run = l->late && index > 1 ? tu_max(1, RUN_BYTES / tu_max(1, stage->tile_bytes)) : 1;
  return stage->tiles[index / run % stage->tile_count];
}

static void begin(struct tu_loader *l, const struct tu_stage *stage, const struct tu_work *work, size_t index) {
  if (index == work->count) return;
  struct tu_load load = {.tile = tile_of(l, stage, index), .pitch = stage->pitch};
  work->load(work, index, &load);
  tell(TU_LOAD_BEGINS, index);
  l->begin(l, index, &load);
}

/* Returns true if load i + 1 begins before store i begins. false: it begins after store i has ended. */
static bool overlaps(const struct tu_loader *l, const struct tu_stage *stage, const struct tu_work *work) {
  return stage->tile_count == 2 && (!l->late || work->count > FAR_BYTES / tu_max(1, stage->tile_bytes));
}

/* Runs all loads and stores of the work, in the order that overlaps() states. */
void tu_stage_run(const struct tu_stage *stage, const struct tu_work *work) {
  struct cpu_loader cpu = {.loader = {.begin = ask_for, .wait = load_now, .late = true}};
  struct tu_loader *l = choose(stage, &cpu.loader);
  const bool ahead = overlaps(l, stage, work);
  begin(l, stage, work, 0);
  for (size_t i = 0; i < work->count; i++) {
    l->wait(l, i);
    tell(TU_LOAD_ENDS, i);
    if (ahead) begin(l, stage, work, i + 1);
    tell(TU_STORE_BEGINS, i);
    work->store(work, i, tile_of(l, stage, i));
    tell(TU_STORE_ENDS, i);
    if (!ahead) begin(l, stage, work, i + 1);
  }
}
