/* paced.h: a loader whose loads take time and go on beside the stores, by a clock of its own: it runs with the work, not with the
 * world. What it loads is there when the wait for it is over, and not before: until then the tile holds rubbish, so
 * that a store too early, or a load into a tile that is still wanted, shows in the data. */
#ifndef PACED_H
#define PACED_H

#include <stdlib.h>
#include <string.h>

#include "api/staged.h"

struct paced_moment {
  enum tu_moment moment;
  size_t index;
  uint64_t at;
};

struct paced {
  struct tu_loader loader; /* first */
  uint64_t load_time, store_time;
  uint64_t now;     /* where the caller is */
  uint64_t free_at; /* when the loader has done all that it was given */
  uint64_t ready_at[2];
  struct tu_load loads[2];
  struct paced_moment *trace; /* what happened, in its order */
  size_t count, capacity;
};

static inline struct paced *paced_of(struct tu_loader *loader) { return (struct paced *)(void *)loader; }

static inline void paced_begin(struct tu_loader *loader, size_t index, const struct tu_load *load) {
  struct paced *p = paced_of(loader);
  size_t rows = load->region.extent[0] * load->region.extent[1] * load->region.extent[2] * load->region.extent[3];
  memset(load->tile, 0xee, (rows - 1) * load->pitch + load->region.extent[4] * tu_map_item_bytes(load->region.map));
  p->loads[index % 2] = *load;
  p->free_at = (p->now > p->free_at ? p->now : p->free_at) + p->load_time;
  p->ready_at[index % 2] = p->free_at;
}

static inline void paced_wait(struct tu_loader *loader, size_t index) {
  struct paced *p = paced_of(loader);
  const struct tu_load *load = &p->loads[index % 2];
  if (p->now < p->ready_at[index % 2]) p->now = p->ready_at[index % 2];
  tu_region_load(&load->region, load->data, load->tile, load->pitch);
}

static inline void paced_note(struct tu_loader *loader, enum tu_moment moment, size_t index) {
  struct paced *p = paced_of(loader);
  if (moment == TU_STORE_ENDS) p->now += p->store_time;
  if (p->count == p->capacity) {
    p->capacity = p->capacity ? 2 * p->capacity : 64;
    p->trace = realloc(p->trace, p->capacity * sizeof *p->trace);
    if (!p->trace) abort();
  }
  p->trace[p->count++] = (struct paced_moment){moment, index, p->now};
}

static inline struct paced paced_make(uint64_t load_time, uint64_t store_time) {
  return (struct paced){
      .loader = {paced_begin, paced_wait, paced_note}, .load_time = load_time, .store_time = store_time};
}

static inline void paced_end(struct paced *p) { free(p->trace); }

/* Which place in the trace has that moment of that index; count: none. */
static inline size_t paced_find(const struct paced *p, enum tu_moment moment, size_t index) {
  size_t i = 0;
  while (i < p->count && (p->trace[i].moment != moment || p->trace[i].index != index)) i++;
  return i;
}

/* Of how many tiles did the load begin before the store of the one before had ended? *loads: of how many. */
static inline size_t paced_overlaps(const struct paced *p, size_t *loads) {
  size_t overlaps = 0;
  for (*loads = 0; paced_find(p, TU_LOAD_BEGINS, *loads) < p->count; (*loads)++)
    if (*loads > 0) overlaps += paced_find(p, TU_LOAD_BEGINS, *loads) < paced_find(p, TU_STORE_ENDS, *loads - 1);
  return overlaps;
}

#endif
