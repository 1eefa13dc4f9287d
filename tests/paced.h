/* paced.h: a simulated loader of tiles. Its loads take time and overlap with stores, by a simulated clock that advances
 * only by this work. Data is in the tile when the wait for its load returns, not before: until then the tile holds
 * garbage. So a store that comes too early, or a load into a tile that is still in use, corrupts the result. */
#ifndef PACED_H
#define PACED_H

#include <stdlib.h>
#include <string.h>

#include "onesided/staged.h"

struct paced_moment {
  enum tu_moment moment;
  size_t index;
  uint64_t at;
};

struct paced {
  struct tu_loader loader; /* must be the first member */
  uint64_t load_time, store_time;
  uint64_t now;     /* simulated time of the caller */
  uint64_t free_at; /* simulated time at which the loader has finished all loads that it was given */
  uint64_t ready_at[2];
  struct tu_load loads[2];
  struct paced_moment *trace; /* events, in the order in which they happened */
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
  return (struct paced){.loader = {.begin = paced_begin, .wait = paced_wait, .moment = paced_note},
                        .load_time = load_time,
                        .store_time = store_time};
}

static inline void paced_end(struct paced *p) { free(p->trace); }

/* Returns the position in the trace of event `moment` of load `index`; p->count: no such event. */
static inline size_t paced_find(const struct paced *p, enum tu_moment moment, size_t index) {
  size_t i = 0;
  while (i < p->count && (p->trace[i].moment != moment || p->trace[i].index != index)) i++;
  return i;
}

/* Returns how many tiles began to load before the store of the previous tile had ended; sets *loads to the number of
 * tiles. */
static inline size_t paced_overlaps(const struct paced *p, size_t *loads) {
  size_t overlaps = 0;
  for (*loads = 0; paced_find(p, TU_LOAD_BEGINS, *loads) < p->count; (*loads)++)
    if (*loads > 0) overlaps += paced_find(p, TU_LOAD_BEGINS, *loads) < paced_find(p, TU_STORE_ENDS, *loads - 1);
  return overlaps;
}

#endif
