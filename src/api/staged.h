/* staged.h: the staged engine: a row of loads and stores through one or two tiles. With two, the load of the next
 * part begins before the store of the last does; with one, after it has ended. */
#ifndef TU_STAGED_H
#define TU_STAGED_H

#include "tensor/map.h"

/* The tiles; no tiles: straight from there to here. */
struct tu_stage {
  uint32_t tile_count;
  void *tiles[2];
  void *accumulator; /* NULL: the library's own */
  size_t rows, cols; /* so much of a tile is used, at most */
  size_t pitch;      /* bytes from row to row */
  size_t tile_bytes;
};

/* A part of a tensor that goes into a tile. */
struct tu_load {
  struct tu_region region;
  const void *data; /* the tensor's */
  void *tile;
  size_t pitch;
};

enum tu_moment { TU_LOAD_BEGINS, TU_LOAD_ENDS, TU_STORE_BEGINS, TU_STORE_ENDS };

/* Who fills the tiles. Each function is called by the thread of the call, with the number of the load, from 0 on;
 * loads are begun and waited for in that order, and at most two are under way. */
struct tu_loader {
  /* The tile belongs to the loader from here ... */
  void (*begin)(struct tu_loader *loader, size_t index, const struct tu_load *load);
  /* ... until this has returned: then the tile is filled. */
  void (*wait)(struct tu_loader *loader, size_t index);
  /* Told of what happens, or NULL. */
  void (*moment)(struct tu_loader *loader, enum tu_moment moment, size_t index);
  bool
      late; /* nothing goes into the tile before the wait: then one tile may serve many loads, and stays in the cache */
};

/* The one that the staged calls of this thread use; NULL: the CPU loads. For tests, and for the benchmark. */
extern _Thread_local struct tu_loader *tu_stage_loader __attribute__((tls_model("initial-exec")));

/* What is to be done: `count` times a load (where from: region and data), and then a store of what is in the tile. */
struct tu_work {
  size_t count;
  void (*load)(const struct tu_work *work, size_t index, struct tu_load *load);
  void (*store)(const struct tu_work *work, size_t index, const void *tile);
};

void tu_stage_run(const struct tu_stage *stage, const struct tu_work *work);

#endif
