/* window.c: windows: made from what every rank offers, kept in a list of the process, found by address. */
#include "api/window.h"

#include <stdlib.h>
#include <string.h>

/* All windows of this process. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct tutti_window *windows;

/* What one rank tells the others. */
struct offer {
  uint64_t place; /* of its part; 0: `address`, for all ranks are in this process */
  uint64_t address;
  uint64_t bytes;
  uint64_t block_place; /* from rank 0 */
  struct tu_error error;
};

/* ---- the list ---- */

static const struct tu_window_part *own_part(const struct tutti_window *w) { return &w->parts[w->comm->rank]; }

static bool overlap(const struct tu_window_part *a, const struct tu_window_part *b) {
  uintptr_t x = (uintptr_t)a->memory, y = (uintptr_t)b->memory;
  return a->bytes > 0 && b->bytes > 0 && x < y + b->bytes && y < x + a->bytes;
}

/* False if some of this rank's part is in a window already: whose would it be? */
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

/* ---- making ---- */

static tutti_err allocate_part(struct tutti_window *w, struct offer *offer, struct tu_error *error) {
  struct tu_transport *t = w->comm->transport;
  void *memory = tu_transport_acquire(t, offer->bytes, &w->own_place, error);
  if (!memory) return error->code;
  tu_transport_populate(t, w->own_place, offer->bytes, true);
  memset(memory, 0, offer->bytes);
  offer->place = w->own_place;
  w->parts[w->comm->rank].memory = memory;
  return TUTTI_OK;
}

/* This rank's part, in the list from now on, so that no other window takes the same. */
static tutti_err prepare_part(struct tutti_window *w, void *memory, struct offer *offer, struct tu_error *error) {
  struct tu_window_part *part = &w->parts[w->comm->rank];
  *part = (struct tu_window_part){memory, offer->bytes};
  tutti_err err = TUTTI_OK;
  if (!memory) err = allocate_part(w, offer, error);
  else if (!tu_transport_offers(w->comm->transport, memory, offer->bytes, &offer->place))
    err = tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "%zu bytes at %p are not as a whole in memory of tutti_alloc or registered with tutti_register, on this "
        "communicator or one of its world; others cannot reach them. Allocate or register them first, or give "
        "NULL",
        part->bytes, memory);
  if (err != TUTTI_OK) return err;
  offer->address = (uint64_t)(uintptr_t)part->memory;
  if (!add(w))
    err = tu_fail(error, TUTTI_ERR_ARGUMENT,
                  "some of the %zu bytes at %p belong to another window already; "
                  "free that one first, or give memory of its own",
                  part->bytes, memory);
  return err;
}

static tutti_err prepare_block(struct tutti_window *w, struct offer *offer, struct tu_error *error) {
  if (w->comm->rank != 0) return TUTTI_OK;
  size_t bytes = sizeof *w->block + w->comm->ranks * sizeof w->block->roots[0];
  struct tu_window_block *block = tu_transport_acquire(w->comm->transport, bytes, &w->block_place, error);
  if (!block) return error->code;
  memset(block, 0, bytes);
  block->ranks = w->comm->ranks;
  offer->block_place = w->block_place;
  return TUTTI_OK;
}

/* What all ranks offer, or the first rank's reason why it does not. */
static tutti_err accept(struct tutti_window *w, const struct offer *offers, struct tu_error *error) {
  const struct tu_transport *t = w->comm->transport;
  for (uint32_t r = 0; r < w->comm->ranks; r++)
    if (offers[r].error.code != TUTTI_OK)
      return tu_fail(error, offers[r].error.code, "tutti_window_create: rank %u: %s", r, offers[r].error.text);
  pthread_rwlock_wrlock(&lock);
  w->block = tu_transport_at(t, offers[0].block_place);
  for (uint32_t r = 0; r < w->comm->ranks; r++) {
    if (r == w->comm->rank) continue;
    void *memory = offers[r].place ? tu_transport_at(t, offers[r].place) : (void *)(uintptr_t)offers[r].address;
    w->parts[r] = (struct tu_window_part){memory, offers[r].bytes};
  }
  pthread_rwlock_unlock(&lock);
  return TUTTI_OK;
}

/* give_back: nobody else can reach what it allocated. */
static void destroy(struct tutti_window *w, bool give_back) {
  take_out(w);
  if (give_back && w->own_place) (void)tu_transport_give_back(w->comm->transport, w->own_place);
  if (give_back && w->block_place) tu_transport_release(w->comm->transport, w->block_place);
  free(w);
}

static tutti_err create(tutti_comm *comm, void *memory, size_t bytes, tutti_window **window) {
  struct tu_error error = {0};
  struct offer mine = {.bytes = bytes}, *all = tu_try_allocate(comm->ranks, sizeof *all);
  struct tutti_window *w = all ? tu_try_allocate(1, sizeof *w + comm->ranks * sizeof *w->parts) : NULL;
  if (!w) { /* the others wait for this rank's offer */
    free(all);
    tu_fail_memory(&error, comm->ranks * sizeof *all, "rank %u: tutti_window_create", comm->rank);
    return tu_comm_fail(comm, &error);
  }
  w->comm = comm;
  comm->mover->control.exposes = true;
  w->thread = &tu_thread;
  tutti_err err = TUTTI_OK;
  if (!window) err = tu_fail(&mine.error, TUTTI_ERR_ARGUMENT, "there is no place for the window");
  if (err == TUTTI_OK) err = prepare_part(w, memory, &mine, &mine.error);
  if (err == TUTTI_OK) err = prepare_block(w, &mine, &mine.error);
  mine.error.code = err;
  bool met = (err = tu_comm_exchange(comm, &mine, all, sizeof mine)) == TUTTI_OK;
  if (met && (err = accept(w, all, &error)) != TUTTI_OK) (void)tu_thread_error(&error);
  free(all);
  if (window) *window = err == TUTTI_OK ? w : NULL;
  /* Of ranks that have met none has a window. Else one may have, and write. */
  if (err != TUTTI_OK) destroy(w, met);
  return err;
}

/* All ranks find the same. */
static tutti_err refuse_hosts(const tutti_comm *comm, struct tu_error *error) {
  const struct tu_control *control = &comm->mover->control;
  uint32_t away = 0;
  while (tu_control_local(control, away) != TU_REMOTE) away++;
  return tu_fail(
      error, TUTTI_ERR_UNSUPPORTED,
      "tutti_window_create: rank %u runs on another host than rank %u; a window needs memory that all ranks of "
      "its communicator map, so split the communicator by host first",
      away, comm->rank);
}

tutti_err tutti_window_create(tutti_comm *comm, void *memory, size_t bytes, tutti_window **window) {
  struct tu_error error;
  struct tu_visit visit;
  if (window) *window = NULL;
  if (!comm) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_window_create: the communicator is NULL");
    return tu_thread_error(&error);
  }
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
  if (!all) tu_fail_memory(&error, comm->ranks, "rank %u: tutti_window_free", comm->rank);
  tutti_err err = all ? tu_comm_exchange(comm, &mine, all, 1) : tu_comm_fail(comm, &error);
  free(all);
  /* Of a communicator that has failed, others may still be writing: then the memory stays as long as the world. */
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

/* ---- asking ---- */

void *tutti_window_address(const tutti_window *window, uint32_t rank) {
  return window && rank < window->comm->ranks ? window->parts[rank].memory : NULL;
}

size_t tutti_window_bytes(const tutti_window *window, uint32_t rank) {
  return window && rank < window->comm->ranks ? window->parts[rank].bytes : 0;
}

/* Any number of threads ask, while another one may be in a call: of the communicator, only what all ranks see is read. */
tutti_err tu_window_check(const struct tutti_window *window, const char *call, struct tu_error *error) {
  tutti_err err = tu_refuse_child(window->comm->process, call, error);
  return err == TUTTI_OK ? tu_comm_verdict(window->comm, error) : err;
}
