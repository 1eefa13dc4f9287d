/* window.c: windows (memory that other ranks can access): creates a window from one part per rank, and frees it. */
#include "onesided/window.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "call/exchange.h"
#include "call/progress.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "onesided/served.h"
#include "onesided/windows.h"

static _Atomic uint32_t last_number; /* number of the last window that was created */

/* The data that a rank sends to the other ranks when they create a window. */
struct offer {
  /* offset in the segment of the rank's part; 0: use `address`, as all ranks are in this process */
  uint64_t offset;
  uint64_t address;
  uint64_t bytes;
  uint64_t block_offset; /* offset in the segment of the window's shared state; set by rank 0 only */
  uint32_t number;       /* of the window, on this rank */
  bool exposed;          /* the part's memory, for ranks of other hosts, by: */
  uint64_t far_address, key;
  struct tu_error error;
};

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
  *part = (struct tu_window_part){.memory = memory, .bytes = offer->bytes, .number = w->number};
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
  if (!tu_windows_add(w))
    err = tu_fail(error, TUTTI_ERR_ARGUMENT,
                  "part of the %zu bytes at %p belongs to another window; free that window first, or use other memory",
                  part->bytes, memory);
  return err;
}

/* Lets the ranks of other hosts read and write this rank's part directly, if the wire can. */
static void expose_part(struct tutti_window *w, struct offer *offer) {
  struct tu_control *control = &w->comm->mover->control;
  const struct tu_window_part *part = &w->parts[w->comm->rank];
  if (!control->remote) return;
  tu_memory_expose(control, part->memory, part->bytes, &w->exposed);
  offer->exposed = w->exposed.region != NULL;
  offer->far_address = w->exposed.address;
  offer->key = w->exposed.key;
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

/* Reserves addresses that stand for the part of a rank on another host. */
static void *reserve_addresses(size_t bytes, struct tu_error *error) {
  void *memory = mmap(NULL, tu_max(bytes, 1), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) return memory;
  tu_fail_errno(error, "tutti_window_create: cannot reserve %zu bytes of addresses for memory of another host", bytes);
  return NULL;
}

static void free_addresses(const struct tutti_window *w) {
  for (uint32_t r = 0; r < w->comm->ranks; r++)
    if (tu_window_is_far(w, r) && w->parts[r].memory) (void)munmap(w->parts[r].memory, tu_max(w->parts[r].bytes, 1));
}

/* Looks at the offers of all ranks. If ranks have failed, returns the error of the first of them. */
static tutti_err check_offers(const struct tutti_window *w, const struct offer *offers, struct tu_error *error) {
  for (uint32_t r = 0; r < w->comm->ranks; r++)
    if (offers[r].error.code != TUTTI_OK)
      return tu_fail(error, offers[r].error.code, "tutti_window_create: rank %u: %s", r, offers[r].error.text);
  return TUTTI_OK;
}

/* Takes the parts of all ranks from their offers. */
static tutti_err take_parts(struct tutti_window *w, const struct offer *offers, struct tu_error *error) {
  const struct tu_transport *t = w->comm->transport;
  tutti_err err = TUTTI_OK;
  tu_windows_lock();
  if (!tu_window_is_far(w, 0)) w->block = tu_transport_at(t, offers[0].block_offset);
  for (uint32_t r = 0; r < w->comm->ranks && err == TUTTI_OK; r++) {
    if (r == w->comm->rank) continue;
    void *memory = offers[r].offset ? tu_transport_at(t, offers[r].offset) : (void *)(uintptr_t)offers[r].address;
    if (tu_window_is_far(w, r) && !(memory = reserve_addresses(offers[r].bytes, error))) err = error->code;
    w->parts[r] = (struct tu_window_part){.memory = memory,
                                          .bytes = offers[r].bytes,
                                          .number = offers[r].number,
                                          .exposed = offers[r].exposed,
                                          .address = offers[r].far_address,
                                          .key = offers[r].key};
  }
  tu_windows_unlock();
  return err;
}

/* Lets the thread of the library serve the window, as its ranks on other hosts need it. All ranks tell each other whether
 * they are ready, so that all return the same. */
static tutti_err serve(struct tutti_window *w, tutti_err err, struct tu_error *error) {
  struct tutti_comm *comm = w->comm;
  if (err == TUTTI_OK) err = tu_progress_serve(comm->transport, error);
  if (err == TUTTI_OK) tu_memory_serve(&comm->mover->control, &tu_windows_server);
  w->served = err == TUTTI_OK;
  struct offer mine = {.error = {.code = err}}, *all = tu_try_allocate(comm->ranks, sizeof *all);
  if (err != TUTTI_OK) mine.error = *error;
  if (!all) {
    tu_fail_memory(error, comm->ranks * sizeof *all, "tutti_window_create on rank %u", comm->rank);
    return tu_comm_fail(comm, error);
  }
  err = tu_comm_exchange(comm, &mine, all, sizeof mine);
  for (uint32_t r = 0; r < comm->ranks && err == TUTTI_OK; r++)
    if ((err = all[r].error.code) != TUTTI_OK) *error = all[r].error;
  free(all);
  return err;
}

/* Ends the requests of other hosts to this rank's part, once the window is not in the list any more. in_order: they make
 * none any more. */
static void stop_serving(struct tutti_window *w, bool in_order) {
  struct tu_control *control = &w->comm->mover->control;
  if (control->remote) tu_memory_conceal(control, &w->exposed, in_order);
  if (control->remote) tu_memory_close_window(control, w->number);
  if (w->served) tu_progress_serve_no_more(w->comm->transport);
  w->served = false;
}

/* Removes the window from the list and frees it. give_back true: no other rank uses the window any more, so this also
 * releases the memory that this rank has allocated for it. */
static void destroy(struct tutti_window *w, bool give_back) {
  tu_windows_take_out(w);
  stop_serving(w, give_back);
  free_addresses(w);
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
  mine.number = w->number = 1 + atomic_fetch_add(&last_number, 1);
  comm->mover->control.exposes = true;
  w->thread = &tu_thread;
  tutti_err err = TUTTI_OK;
  if (!window) err = tu_fail(&mine.error, TUTTI_ERR_ARGUMENT, "window is NULL");
  if (err == TUTTI_OK) err = prepare_part(w, memory, &mine, &mine.error);
  if (err == TUTTI_OK) err = prepare_block(w, &mine, &mine.error);
  if (err == TUTTI_OK) expose_part(w, &mine);
  mine.error.code = err;
  bool met = (err = tu_comm_exchange(comm, &mine, all, sizeof mine)) == TUTTI_OK;
  if (met && (err = check_offers(w, all, &error)) == TUTTI_OK) {
    err = take_parts(w, all, &error);
    if (comm->mover->control.remote) err = serve(w, err, &error);
    met = !comm->failed;
  }
  if (met && err != TUTTI_OK) (void)tu_thread_error(&error);
  free(all);
  if (window) *window = err == TUTTI_OK ? w : NULL;
  /* If `met` is true, all ranks have exchanged their data and return the same error, so no rank has the window.
   * Otherwise another rank may have created the window and may write to it, so the memory is not released. */
  if (err != TUTTI_OK) destroy(w, met);
  return err;
}

tutti_err tutti_window_create(tutti_comm *comm, void *memory, size_t bytes, tutti_window **window) {
  struct tu_visit visit;
  if (window) *window = NULL;
  if (!comm) return tu_refuse_null("tutti_window_create", "comm");
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_window_create");
  tutti_err err = create(comm, memory, bytes, window);
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
  for (struct tutti_window *w; (w = tu_windows_take_any(comm)); count++) destroy(w, false);
  return count;
}

/* ---- queries ---- */

void *tutti_window_address(const tutti_window *window, uint32_t rank) {
  return window && rank < window->comm->ranks ? window->parts[rank].memory : NULL;
}

size_t tutti_window_bytes(const tutti_window *window, uint32_t rank) {
  return window && rank < window->comm->ranks ? window->parts[rank].bytes : 0;
}

tutti_err tutti_window_memory(const tutti_window *window, uint32_t rank, void **memory) {
  struct tu_error error;
  if (memory) *memory = NULL;
  if (!window || !memory) return tu_refuse_null("tutti_window_memory", window ? "memory" : "window");
  const uint32_t mine = window->comm->rank, ranks = window->comm->ranks;
  tutti_err err = TUTTI_OK;
  if (rank >= ranks)
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_window_memory: rank is %u; expected a rank below %u", rank, ranks);
  else if (tu_window_is_far(window, rank))
    err =
        tu_fail(&error, TUTTI_ERR_UNSUPPORTED,
                "tutti_window_memory: rank %u runs on another host than rank %u, which cannot load from its memory or "
                "store to it; use tutti_get, tutti_put or signals",
                rank, mine);
  else *memory = window->parts[rank].memory;
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}
