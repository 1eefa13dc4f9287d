/* staged.c: the staged engine. */
#include "api/staged.h"

_Thread_local struct tu_loader *tu_stage_loader;

/* The CPU that stores is the one that loads: a load is over as soon as it has begun. */
static void load_now(struct tu_loader *loader, size_t index, const struct tu_load *load) {
  (void)loader, (void)index;
  tu_region_load(&load->region, load->data, load->tile, load->pitch);
}

static void loaded_already(struct tu_loader *loader, size_t index) { (void)loader, (void)index; }

static struct tu_loader cpu = {.begin = load_now, .wait = loaded_already};

static void tell(struct tu_loader *l, enum tu_moment moment, size_t index) {
  if (l->moment) l->moment(l, moment, index);
}

static void begin(struct tu_loader *l, const struct tu_stage *stage, const struct tu_work *work, size_t index) {
  if (index == work->count) return;
  struct tu_load load = {.tile = stage->tiles[index % stage->tile_count], .pitch = stage->pitch};
  work->load(work, index, &load);
  tell(l, TU_LOAD_BEGINS, index);
  l->begin(l, index, &load);
}

/* With two tiles, load i + 1 goes into the tile that store i - 1 has emptied. */
void tu_stage_run(const struct tu_stage *stage, const struct tu_work *work) {
  struct tu_loader *l = tu_stage_loader ? tu_stage_loader : &cpu;
  begin(l, stage, work, 0);
  for (size_t i = 0; i < work->count; i++) {
    l->wait(l, i);
    tell(l, TU_LOAD_ENDS, i);
    if (stage->tile_count == 2) begin(l, stage, work, i + 1);
    tell(l, TU_STORE_BEGINS, i);
    work->store(work, i, stage->tiles[i % stage->tile_count]);
    tell(l, TU_STORE_ENDS, i);
    if (stage->tile_count == 1) begin(l, stage, work, i + 1);
  }
}
