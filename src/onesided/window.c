/* window.c: windows (memory that other ranks can access): creates a window from one part per rank, keeps a list of
 * windows, and finds a window by an address. */
#include "onesided/window.h"

#include <stdlib.h>
#include <string.h>

#include "call/exchange.h"
#include "comm/enter.h"
#include "comm/failure.h"

/* List of all windows of this process. `lock` protects the list. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct tutti_window *windows;

/* The data that a rank sends to the other ranks when they create a window. */
struct offer {
  /* offset in the segment of the rank's part; 0: use `address`, as all ranks are in this process */
  uint64_t offset;
  uint64_t address;
  uint64_t bytes;
  uint64_t block_offset; /* offset in the segment of the window's shared state; set by rank 0 only */
  struct tu_error error;
};

/* ---- the list ---- */

static const struct tu_window_part *own_part(const struct tutti_window *w) { return &w->parts[w->comm->rank]; }

static bool overlap(const struct tu_window_part *a, const struct tu_window_part *b) {
  uintptr_t x = (uintptr_t)a->memory, y = (uintptr_t)b->memory;
  return a->bytes > 0 && b->bytes > 0 && x < y + b->bytes && y < x + a->bytes;
}

/* Adds the window to the list. Returns false if another window already contains some memory of this rank's part,
 * because an address must belong to one window only. */
static bool add(struct tutti_window *window) {
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

static void take_out(const struct tutti_window *window) {
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

/* ---- creating ---- */

static tutti_err allocate_part(struct tutti_window *w, struct offer *offer, struct tu_error *error) {
  struct tu_transport *t = w->comm->transport;
  void *memory = tu_transport_acquire(t, offer->bytes, &w->own_offset, error);
  if (!memory) return error->code;
  tu_transport_populate(t, w->own_offset, offer->bytes, true);
  memset(memory, 0, offer->bytes);
  offer->offset = w->own_offset;
  w->parts[w->comm->rank].memory = memory;
  return TUTTI_OK;
}

/* Prepares this rank's part, and adds the window to the list, so that no other window can use the same memory. */
static tutti_err prepare_part(struct tutti_window *w, void *memory, struct offer *offer, struct tu_error *error) {
  struct tu_window_part *part = &w->parts[w->comm->rank];
  *part = (struct tu_window_part){memory, offer->bytes};
  tutti_err err = TUTTI_OK;
  if (!memory) err = allocate_part(w, offer, error);
  else if (!tu_transport_offers(w->comm->transport, memory, offer->bytes, &offer->offset))
    err =
        tu_fail(error, TUTTI_ERR_ARGUMENT,
                "%zu bytes at %p do not lie within one allocation of tutti_alloc, or one registration of "
                "tutti_register, on a communicator of this world; allocate or register the memory first, or pass NULL",
                part->bytes, memory);
  if (err != TUTTI_OK) return err;
  offer->address = (uint64_t)(uintptr_t)part->memory;
  if (!add(w))
    err = tu_fail(error, TUTTI_ERR_ARGUMENT,
                  "part of the %zu bytes at %p belongs to another window; free that window first, or use other memory",
                  part->bytes, memory);
  return err;
}

static tutti_err prepare_block(struct tutti_window *w, struct offer *offer, struct tu_error *error) {
  if (w->comm->rank != 0) return TUTTI_OK;
  size_t bytes = sizeof *w->block + w->comm->ranks * sizeof w->block->roots[0];
  struct tu_window_block *block = tu_transport_acquire(w->comm->transport, bytes, &w->block_offset, error);
  if (!block) return error->code;
  memset(block, 0, bytes);
  block->ranks = w->comm->ranks;
  offer->block_offset = w->block_offset;
  return TUTTI_OK;
}

/* Reads the offers of all ranks (their parts of the window). If ranks have failed, returns the error of the first of
 * them. */
static tutti_err accept(struct tutti_window *w, const struct offer *offers, struct tu_error *error) {
  const struct tu_transport *t = w->comm->transport;
  for (uint32_t r = 0; r < w->comm->ranks; r++)
    if (offers[r].error.code != TUTTI_OK)
      return tu_fail(error, offers[r].error.code, "tutti_window_create: rank %u: %s", r, offers[r].error.text);
  pthread_rwlock_wrlock(&lock);
  w->block = tu_transport_at(t, offers[0].block_offset);
  for (uint32_t r = 0; r < w->comm->ranks; r++) {
    if (r == w->comm->rank) continue;
    void *memory = offers[r].offset ? tu_transport_at(t, offers[r].offset) : (void *)(uintptr_t)offers[r].address;
    w->parts[r] = (struct tu_window_part){memory, offers[r].bytes};
  }
  pthread_rwlock_unlock(&lock);
  return TUTTI_OK;
}

/* Removes the window from the list and frees it. give_back true: no other rank uses the window any more, so this also
 * releases the memory that this rank has allocated for it. */
static void destroy(struct tutti_window *w, bool give_back) {
  take_out(w);
  if (give_back && w->own_offset) (void)tu_transport_give_back(w->comm->transport, w->own_offset);
  if (give_back && w->block_offset) tu_transport_release(w->comm->transport, w->block_offset);
  free(w);
}

static tutti_err create(tutti_comm *comm, void *memory, size_t bytes, tutti_window **window) {
  struct tu_error error = {0};
  struct offer mine = {.bytes = bytes}, *all = tu_try_allocate(comm->ranks, sizeof *all);
  struct tutti_window *w = all ? tu_try_allocate(1, sizeof *w + comm->ranks * sizeof *w->parts) : NULL;
  if (!w) { /* The other ranks wait for this rank's data, so the communicator fails. */
    free(all);
    tu_fail_memory(&error, comm->ranks * sizeof *all, "tutti_window_create on rank %u", comm->rank);
    return tu_comm_fail(comm, &error);
  }
  w->comm = comm;
  comm->mover->control.exposes = true;
  w->thread = &tu_thread;
  tutti_err err = TUTTI_OK;
  if (!window) err = tu_fail(&mine.error, TUTTI_ERR_ARGUMENT, "window is NULL");
  if (err == TUTTI_OK) err = prepare_part(w, memory, &mine, &mine.error);
  if (err == TUTTI_OK) err = prepare_block(w, &mine, &mine.error);
  mine.error.code = err;
  bool met = (err = tu_comm_exchange(comm, &mine, all, sizeof mine)) == TUTTI_OK;
  if (met && (err = accept(w, all, &error)) != TUTTI_OK) (void)tu_thread_error(&error);
  free(all);
  if (window) *window = err == TUTTI_OK ? w : NULL;
  /* If `met` is true, all ranks have exchanged their data and return the same error, so no rank has the window.
   * Otherwise another rank may have created the window and may write to it, so the memory is not released. */
  if (err != TUTTI_OK) destroy(w, met);
  return err;
}

/* Returns the error for a communicator whose ranks run on several hosts. All ranks return the same error code. */
static tutti_err refuse_hosts(const tutti_comm *comm, struct tu_error *error) {
  const struct tu_control *control = &comm->mover->control;
  uint32_t away = 0;
  while (tu_control_local(control, away) != TU_REMOTE) away++;
  return tu_fail(error, TUTTI_ERR_UNSUPPORTED,
                 "tutti_window_create: rank %u runs on another host than rank %u; a window needs memory that all ranks "
                 "of the communicator can map, so split the communicator by host first",
                 away, comm->rank);
}

tutti_err tutti_window_create(tutti_comm *comm, void *memory, size_t bytes, tutti_window **window) {
  struct tu_error error;
  struct tu_visit visit;
  if (window) *window = NULL;
  if (!comm) return tu_refuse_null("tutti_window_create", "comm");
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_window_create");
  tutti_err err = TUTTI_OK;
  if (!comm->mover->control.remote) err = create(comm, memory, bytes, window);
  else if (refuse_hosts(comm, &error) != TUTTI_OK) err = tu_thread_error(&error);
  tu_leave(&visit);
  return err;
}

tutti_err tutti_window_free(tutti_window *window) {
  struct tu_visit visit;
  if (!window) return TUTTI_OK;
  struct tu_error error;
  tutti_comm *comm = window->comm;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_window_free");
  char mine = 0, *all = tu_try_allocate(comm->ranks, 1);
  if (!all) tu_fail_memory(&error, comm->ranks, "tutti_window_free on rank %u", comm->rank);
  tutti_err err = all ? tu_comm_exchange(comm, &mine, all, 1) : tu_comm_fail(comm, &error);
  free(all);
  /* If the communicator has failed, other ranks may still write to the window. Then the window's memory stays
   * allocated until the world communicator ends. */
  destroy(window, err == TUTTI_OK);
  tu_leave(&visit);
  return err;
}

uint32_t tu_windows_abandon(const struct tutti_comm *comm) {
  uint32_t count = 0;
  struct tutti_window *left = NULL;
  pthread_rwlock_wrlock(&lock);
  for (struct tutti_window **at = &windows; *at;) {
    struct tutti_window *w = *at;
    if (w->comm != comm) {
      at = &w->next;
      continue;
    }
    *at = w->next;
    w->next = left;
    left = w;
    count++;
  }
  pthread_rwlock_unlock(&lock);
  while (left) {
    struct tutti_window *w = left;
    left = w->next;
    free(w);
  }
  return count;
}

/* ---- queries ---- */

void *tutti_window_address(const tutti_window *window, uint32_t rank) {
  return window && rank < window->comm->ranks ? window->parts[rank].memory : NULL;
}

size_t tutti_window_bytes(const tutti_window *window, uint32_t rank) {
  return window && rank < window->comm->ranks ? window->parts[rank].bytes : 0;
}

/* Any number of threads may call this function, even while another thread is in a call on the communicator. So this
 * function reads only shared memory, and fields of the communicator that never change. */
tutti_err tu_window_check(const struct tutti_window *window, const char *call, struct tu_error *error) {
  tutti_err err = tu_refuse_child(window->comm->process, call, error);
  return err == TUTTI_OK ? tu_comm_verdict(window->comm, error) : err;
}
