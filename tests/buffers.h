/* buffers.h: buffers of a rank for tests, in every kind of memory: private, of the heap that all ranks map, registered,
 * or newly allocated from the heap. A buffer begins at the start of its memory or at an offset. A number that the
 * caller gives decides on kind and offset, so that ranks differ and a run can be repeated. */
#ifndef BUFFERS_H
#define BUFFERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tutti/tutti.h>

enum buffers_kind { BUFFERS_PRIVATE, BUFFERS_HEAP, BUFFERS_REGISTERED, BUFFERS_FRESH, BUFFERS_KINDS };
enum { BUFFERS_SLOTS = 2, BUFFERS_OFFSETS = 4096, BUFFERS_FRESH_MAX = 16 };

/* Shared memory of one kind, cut into slots. */
struct buffers_arena {
  unsigned char *memory;
  bool used[BUFFERS_SLOTS];
};

struct buffers {
  tutti_comm *comm; /* NULL: all buffers are private */
  size_t slot_bytes;
  struct buffers_arena arenas[BUFFERS_KINDS];   /* only for BUFFERS_HEAP and BUFFERS_REGISTERED */
  unsigned char *fresh[BUFFERS_FRESH_MAX];      /* heap memory allocated for one buffer alone; NULL: free entry */
  unsigned char *fresh_data[BUFFERS_FRESH_MAX]; /* first byte of the buffer in fresh[i] */
};

static _Thread_local struct buffers buffers; /* buffers of this thread's rank */

/* Allocates slots of slot_bytes, which must be whole pages, in the heap and in registered memory. Longer buffers are
 * private, or allocated one by one. */
static inline tutti_err buffers_init(tutti_comm *comm, size_t slot_bytes) {
  size_t bytes = slot_bytes * BUFFERS_SLOTS;
  void *heap, *registered = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (registered == MAP_FAILED) abort();
  buffers = (struct buffers){.comm = comm, .slot_bytes = slot_bytes};
  tutti_err err = tutti_alloc(comm, bytes, &heap);
  if (err == TUTTI_OK) err = tutti_register(comm, registered, bytes);
  if (err != TUTTI_OK) return err;
  buffers.arenas[BUFFERS_HEAP].memory = heap;
  buffers.arenas[BUFFERS_REGISTERED].memory = registered;
  return TUTTI_OK;
}

static inline tutti_err buffers_fini(void) {
  unsigned char *registered = buffers.arenas[BUFFERS_REGISTERED].memory;
  tutti_err err = tutti_free(buffers.comm, buffers.arenas[BUFFERS_HEAP].memory);
  if (err == TUTTI_OK) err = tutti_deregister(buffers.comm, registered);
  munmap(registered, buffers.slot_bytes * BUFFERS_SLOTS);
  buffers.comm = NULL;
  return err;
}

static inline void *buffers_acquire_fresh(size_t bytes, size_t offset) {
  for (int i = 0; i < BUFFERS_FRESH_MAX; i++) {
    void *memory;
    if (buffers.fresh[i]) continue;
    if (tutti_alloc(buffers.comm, bytes + offset, &memory) != TUTTI_OK) break;
    buffers.fresh[i] = memory;
    return buffers.fresh_data[i] = buffers.fresh[i] + offset;
  }
  return malloc(bytes);
}

/* Returns a buffer. `number` is arbitrary: number % 4 gives the kind of memory, the rest gives the offset, a multiple
 * of 8. */
static inline void *buffers_acquire(size_t bytes, uint64_t number) {
  enum buffers_kind kind = buffers.comm ? number % BUFFERS_KINDS : BUFFERS_PRIVATE;
  size_t offset = number / BUFFERS_KINDS % 3 ? number / 64 % (BUFFERS_OFFSETS / 8) * 8 : 0;
  if (kind == BUFFERS_FRESH) return buffers_acquire_fresh(bytes, offset);
  struct buffers_arena *arena = &buffers.arenas[kind];
  for (size_t i = 0; arena->memory && bytes + offset <= buffers.slot_bytes && i < BUFFERS_SLOTS; i++) {
    if (arena->used[i]) continue;
    arena->used[i] = true;
    return arena->memory + i * buffers.slot_bytes + offset;
  }
  return malloc(bytes);
}

static inline void buffers_release(void *memory) {
  const unsigned char *data = memory;
  for (int kind = BUFFERS_HEAP; kind <= BUFFERS_REGISTERED; kind++) {
    struct buffers_arena *arena = &buffers.arenas[kind];
    size_t at = (size_t)((uintptr_t)data - (uintptr_t)arena->memory);
    if (!arena->memory || at >= buffers.slot_bytes * BUFFERS_SLOTS) continue;
    arena->used[at / buffers.slot_bytes] = false;
    return;
  }
  for (int i = 0; i < BUFFERS_FRESH_MAX; i++) {
    if (!data || buffers.fresh_data[i] != data) continue;
    if (tutti_free(buffers.comm, buffers.fresh[i]) != TUTTI_OK) {
      printf("%s\n", tutti_error_message(NULL));
      abort();
    }
    buffers.fresh[i] = buffers.fresh_data[i] = NULL;
    return;
  }
  free(memory);
}

#endif
