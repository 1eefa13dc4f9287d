/* window.h: internal declarations of windows. */
#ifndef TU_WINDOW_H
#define TU_WINDOW_H

#include <tutti/window.h>

#include "comm/patience.h"

/* State of a window that its ranks share. The state lies in shared memory, in the slice that belongs to the window's
 * rank 0. */
struct tu_window_block {
  uint32_t ranks;
  /* [ranks]: one entry per rank's part of the window: which root uses the part now in a one-sided collective. The value
   * is 1 + the number of that root; 0: no root. A root sets the entries of its group's ranks in ascending order. */
  _Atomic uint32_t roots[];
};

struct tu_window_part {
  unsigned char *memory; /* address of the part in this process; NULL: not known yet */
  size_t bytes;
};

struct tutti_window {
  struct tutti_comm *comm;
  struct tu_window_block *block;
  /* offset in the segment of the block, on rank 0, which allocates the block; 0 on other ranks */
  uint64_t block_offset;
  /* offset in the segment of this rank's part, if the window has allocated the part; 0: the part is the user's
   * memory */
  uint64_t own_offset;
  /* Address of tu_thread (the state of a thread) of the thread that created the window. It distinguishes ranks that are
   * threads of one process: each of them has its own window object over the same memory. */
  const void *thread;
  struct tu_stall tests; /* counts unsuccessful calls of tutti_signal_test, for tu_patience_test */
  struct tutti_window *next;
  struct tu_window_part parts[]; /* [ranks]: the part of the window that each rank contributes */
};

/* Returns the window whose memory contains the address; NULL: no window does. *rank: the rank in whose part of the
 * window the address lies. Any thread may call this function. */
struct tutti_window *tu_window_find(const void *address, uint32_t *rank);
/* Returns the verdict (the first failure) if the window's communicator has failed, or TUTTI_ERR_ARGUMENT if another
 * process created the window. Any thread may call this function. */
tutti_err tu_window_check(const struct tutti_window *window, const char *call, struct tu_error *error);
/* Frees the window objects of a communicator that ends, but not the windows' memory. Returns the number of windows. */
uint32_t tu_windows_abandon(const struct tutti_comm *comm);

#endif
