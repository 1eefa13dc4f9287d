/* window.h: internal declarations of windows. */
#ifndef TU_WINDOW_H
#define TU_WINDOW_H

#include <tutti/window.h>

#include "comm/patience.h"
#include "mover/remote_memory.h"

/* State of a window, in the slice of shared memory that belongs to the window's rank 0. The ranks of its host share it;
 * the others make requests to rank 0 (windows.h). */
struct tu_window_block {
  uint32_t ranks;
  /* [ranks]: one entry per rank's part of the window: which root uses the part now in a one-sided collective. The value
   * is 1 + the number of that root; 0: no root. A root sets the entries of its group's ranks in ascending order. */
  _Atomic uint32_t roots[];
};

struct tu_window_part {
  /* Address of the part in this process; NULL: not known yet. For a rank on another host: addresses of this process that
   * name the part, and that no load or store can use. */
  unsigned char *memory;
  size_t bytes;
  uint32_t number; /* the window's number on that rank */
  /* exposed: the ranks of other hosts may have direct access to the part (wire.h, transfer), by this address and key */
  bool exposed;
  uint64_t address, key;
};

struct tutti_window {
  struct tutti_comm *comm;
  struct tu_window_block *block; /* NULL: rank 0 runs on another host */
  /* offset in the segment of the block, on rank 0, which allocates the block; 0 on other ranks */
  uint64_t block_offset;
  /* offset in the segment of this rank's part, if the window has allocated the part; 0: the part is the user's
   * memory */
  uint64_t own_offset;
  /* Address of tu_thread (the state of a thread) of the thread that created the window. It distinguishes ranks that are
   * threads of one process: each of them has its own window object over the same memory. */
  const void *thread;
  uint32_t number;               /* unique in this process, from 1 */
  struct tu_wire_memory exposed; /* this rank's part */
  bool served;                   /* true: the thread of the library serves the ranks of other hosts */
  struct tu_stall tests;         /* counts unsuccessful calls of tutti_signal_test, for tu_patience_test */
  struct tutti_window *next;
  struct tu_window_part parts[]; /* [ranks]: the part of the window that each rank contributes */
};

/* Returns true if that rank runs on another host. */
static inline bool tu_window_is_far(const struct tutti_window *window, uint32_t rank) {
  return tu_control_local(&window->comm->mover->control, rank) == TU_REMOTE;
}
/* Sets the signal, or adds to it. */
static inline void tu_window_signal(int32_t *signal, int32_t value, bool adds) {
  /* Add as unsigned numbers, so that an overflow wraps around. */
  if (adds) (void)__atomic_fetch_add((uint32_t *)signal, (uint32_t)value, __ATOMIC_ACQ_REL);
  else __atomic_store_n(signal, value, __ATOMIC_RELEASE);
}
/* Frees the window objects of a communicator that ends, but not the windows' memory. Returns the number of windows. */
uint32_t tu_windows_abandon(const struct tutti_comm *comm);

#endif
