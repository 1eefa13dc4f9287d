/* windows.c: the list of all windows of this process. */
#include "onesided/windows.h"

#include <pthread.h>

#include "comm/enter.h"
#include "comm/failure.h"

/* List of all windows of this process. `lock` protects the list. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct tutti_window *windows;
static const struct tu_window_part *own_part(const struct tutti_window *w) { return &w->parts[w->comm->rank]; }

static bool overlap(const struct tu_window_part *a, const struct tu_window_part *b) {
  uintptr_t x = (uintptr_t)a->memory, y = (uintptr_t)b->memory;
  return a->bytes > 0 && b->bytes > 0 && x < y + b->bytes && y < x + a->bytes;
}

bool tu_windows_add(struct tutti_window *window) {
  bool fits = true;
  pthread_rwlock_wrlock(&lock);
  for (const struct tutti_window *w = windows; w; w = w->next) fits &= !overlap(own_part(w), own_part(window));
  if (fits) {
    window->next = windows;
    windows = window;
  }
  pthread_rwlock_unlock(&lock);
  return fits;
}

void tu_windows_take_out(const struct tutti_window *window) {
  pthread_rwlock_wrlock(&lock);
  struct tutti_window **at = &windows;
  while (*at && *at != window) at = &(*at)->next;
  if (*at) *at = window->next;
  pthread_rwlock_unlock(&lock);
}

static bool holds(const struct tutti_window *w, const void *address, uint32_t *rank) {
  for (uint32_t r = 0; r < w->comm->ranks; r++) {
    if (!w->parts[r].memory || (uintptr_t)address - (uintptr_t)w->parts[r].memory >= w->parts[r].bytes) continue;
    *rank = r;
    return true;
  }
  return false;
}

struct tutti_window *tu_window_find(const void *address, uint32_t *rank) {
  struct tutti_window *found = NULL;
  uint32_t r;
  pthread_rwlock_rdlock(&lock);
  for (struct tutti_window *w = windows; w; w = w->next) {
    if ((found && w->thread != &tu_thread) || !holds(w, address, &r)) continue;
    found = w;
    *rank = r;
    if (w->thread == &tu_thread) break;
  }
  pthread_rwlock_unlock(&lock);
  return found;
}

struct tutti_window *tu_window_numbered(uint32_t number) {
  pthread_rwlock_rdlock(&lock);
  struct tutti_window *w = windows;
  while (w && w->number != number) w = w->next;
  pthread_rwlock_unlock(&lock);
  return w;
}

/* Takes a window of the communicator out of the list, and returns it; NULL: there is none. */
struct tutti_window *tu_windows_take_any(const struct tutti_comm *comm) {
  pthread_rwlock_wrlock(&lock);
  struct tutti_window **at = &windows, *w;
  while (*at && (*at)->comm != comm) at = &(*at)->next;
  if ((w = *at)) *at = w->next;
  pthread_rwlock_unlock(&lock);
  return w;
}

void tu_windows_lock(void) { pthread_rwlock_wrlock(&lock); }

void tu_windows_unlock(void) { pthread_rwlock_unlock(&lock); }

void tu_windows_reset(void) { pthread_rwlock_init(&lock, NULL); }

/* ---- reserving parts for a root ---- */

uint32_t tu_window_reserve(struct tutti_window *w, uint32_t root, const uint32_t members[], uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t holder = 0;
    if (atomic_compare_exchange_strong(&w->block->roots[members[i]], &holder, root + 1)) continue;
    tu_window_release(w, members, i);
    return 1 + (holder - 1) + w->comm->ranks * i;
  }
  return 0;
}

void tu_window_release(struct tutti_window *w, const uint32_t members[], uint32_t count) {
  for (uint32_t i = 0; i < count; i++) atomic_store(&w->block->roots[members[i]], 0);
}

/* Any number of threads may call this function, even while another thread is in a call on the communicator. So this
 * function reads only shared memory, and fields of the communicator that never change. */
tutti_err tu_window_check(const struct tutti_window *window, const char *call, struct tu_error *error) {
  tutti_err err = tu_refuse_child(window->comm->process, call, error);
  return err == TUTTI_OK ? tu_comm_verdict(window->comm, error) : err;
}
