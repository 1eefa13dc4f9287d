/* window.h: windows, as the library sees them. */
#ifndef TU_WINDOW_H
#define TU_WINDOW_H

#include <tutti/window.h>

#include "api/comm.h"

/* What the ranks of a window share; lies in the slice of its rank 0. */
struct tu_window_block {
  uint32_t ranks;
  /* [ranks]: rank + 1 of the root whose call that rank's part is in; 0: in none. Taken in ascending order. */
  _Atomic uint32_t roots[];
};

struct tu_window_part {
  unsigned char *memory; /* NULL: not known yet */
  size_t bytes;
};

struct tutti_window {
  struct tutti_comm *comm;
  struct tu_window_block *block;
  uint64_t block_place; /* on rank 0, who made it; else 0 */
  uint64_t own_place;   /* of the part that the window allocated; 0: it is the user's */
  const void *thread; /* that made it: ranks that are threads of one process have a window each over the same memory */
  struct tu_stall tests; /* of signals, in vain */
  struct tutti_window *next;
  struct tu_window_part parts[]; /* [ranks] */
};

/* The window in whose part an address lies, and whose part it is; NULL: in none. For any thread. */
struct tutti_window *tu_window_find(const void *address, uint32_t *rank);
/* The verdict, if the window's communicator has failed; ARGUMENT, if it is another process's. For any thread. */
tutti_err tu_window_check(const struct tutti_window *window, const char *call, struct tu_error *error);

#endif
