/* windows.h: the list of all windows of this process. */
#ifndef TU_WINDOWS_H
#define TU_WINDOWS_H

#include "onesided/window.h"

/* Adds the window to the list. Returns false if another window already contains some memory of this rank's part, because
 * an address must belong to one window only. */
bool tu_windows_add(struct tutti_window *window);
void tu_windows_take_out(const struct tutti_window *window);
/* Takes a window of the communicator out of the list, and returns it; NULL: there is none. */
struct tutti_window *tu_windows_take_any(const struct tutti_comm *comm);
/* Between these calls, parts of windows in the list may change. */
void tu_windows_lock(void);
void tu_windows_unlock(void);
/* Called in a child of fork(), before it joins a world: a thread of the parent may have held the lock. */
void tu_windows_reset(void);

/* Returns the window whose memory contains the address; NULL: no window does. *rank: the rank in whose part of the
 * window the address lies. Any thread may call this function. */
struct tutti_window *tu_window_find(const void *address, uint32_t *rank);
/* Returns the window of that number; NULL: none. Any thread may call this function. */
struct tutti_window *tu_window_numbered(uint32_t number);

/* Returns the verdict (the first failure) if the window's communicator has failed, or TUTTI_ERR_ARGUMENT if another
 * process created the window. Any thread may call this function. */
tutti_err tu_window_check(const struct tutti_window *window, const char *call, struct tu_error *error);

/* Reserves the parts of the members, in ascending order, for a call of that root; the window's rank 0 is on this host.
 * Returns 0, or, if another root holds a part: 1 + its rank + ranks * the index of the part in `members`. */
uint32_t tu_window_reserve(struct tutti_window *window, uint32_t root, const uint32_t members[], uint32_t count);
void tu_window_release(struct tutti_window *window, const uint32_t members[], uint32_t count);

#endif
