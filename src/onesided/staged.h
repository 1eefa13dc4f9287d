/* staged.h: the staged engine. It moves data through one or two tiles (small buffers): each load fills a tile, and a
 * store then empties it. With two tiles, load i + 1 may begin before store i. With one tile, load i + 1 begins after
 * store i has ended. */
#ifndef TU_STAGED_H
#define TU_STAGED_H

#include "tensor/map.h"

struct tu_loader;
struct tu_located;

/* Tiles (small buffers) through which a call moves its data. tile_count 0: data is copied directly. */
struct tu_stage {
  uint32_t tile_count;
  void *tiles[2];
  void *accumulator; /* one more tile, for the result of a reduction; NULL: the library allocates it */
  size_t rows, cols; /* largest number of rows, and of columns, that one load fills in a tile */
  size_t pitch;      /* bytes from one row of a tile to the next */
  size_t tile_bytes;
  struct tu_loader *loader; /* fills the tiles; NULL: tu_stage_loader */
};

/* One load: the region of a tensor to read, and the tile to fill. */
struct tu_load {
  struct tu_region region;
  const void *data;              /* address of the tensor's data */
  const struct tu_located *from; /* the tensor, as carry.c knows it; NULL: of no interest to a loader */
  void *tile;
  size_t pitch;
};

enum tu_moment { TU_LOAD_BEGINS, TU_LOAD_ENDS, TU_STORE_BEGINS, TU_STORE_ENDS };

/* A loader fills the tiles. Its functions are called by the thread that makes the one-sided call. `index` is the number
 * of the load, from 0. Loads begin and complete in the order of their numbers. At most two loads are in progress at a
 * time. */
struct tu_loader {
  /* Begins a load. The loader may write to the tile until `wait` has returned for this load. */
  void (*begin)(struct tu_loader *loader, size_t index, const struct tu_load *load);
  /* Waits until the tile of this load is filled. */
  void (*wait)(struct tu_loader *loader, size_t index);
  /* Called at the beginning and at the end of each load and store; NULL: not called. */
  void (*moment)(struct tu_loader *loader, enum tu_moment moment, size_t index);
  /* true: a tile is filled only in `wait`, not from `begin` on. So one tile can serve many loads, and stays in the
   * CPU's cache */
  bool late;
};

/* Loader for the staged calls of this thread, set by tests and the benchmark; NULL: the CPU does the loads. If `begin` is
 * NULL, or data crosses hosts, only `moment` is called. */
extern _Thread_local struct tu_loader *tu_stage_loader __attribute__((tls_model("initial-exec")));

/* Work for the staged engine: `count` loads, each followed by a store. The function `load` sets the fields `region` and
 * `data` of a load. The function `store` stores the content of the tile. */
struct tu_work {
  size_t count;
  void (*load)(const struct tu_work *work, size_t index, struct tu_load *load);
  void (*store)(const struct tu_work *work, size_t index, const void *tile);
};

void tu_stage_run(const struct tu_stage *stage, const struct tu_work *work);

#endif
