/* arena.h: an arena holds all memory of one object (a plan, a program, a cluster, ...) and is freed as a whole.
 *
 * The function that builds an object is called by tu_arena_build. It does not check for failed allocations: if an
 * allocation fails, tu_arena_allocate jumps (longjmp) to tu_arena_build, which returns TUTTI_ERR_MEMORY. The pieces
 * allocated so far stay in their arenas, and the caller frees the arenas. For this reason, the function may allocate
 * only from arenas that its caller can reach. Objects that own files, threads or shared memory are built without an
 * arena, and their code checks each allocation (tu_try_allocate).
 *
 * Each piece of an arena is a separate block of malloc that begins with list pointers. Sanitizers can therefore check
 * the bounds of a piece, and a piece can be freed before its arena. An arena for many short pieces, of an object that is made
 * often, may take them from longer blocks instead (`block_bytes`). Then they are freed with the arena only, and under a
 * sanitizer they remain separate. */
#ifndef TU_ARENA_H
#define TU_ARENA_H

#include "base/base.h"

/* A list of allocated pieces of memory that are freed together. Initialise it with zeros. It may be copied if only the
 * copy is used afterwards. One thread at a time may use it. */
struct tu_arena {
  struct tu_arena_piece *first;
  size_t block_bytes;   /* set before the first allocation: size of the first block; 0: there are none */
  unsigned char *block; /* rest of the last block: its next byte, and how many there are */
  size_t block_left;
};

/* Returns zeroed memory, aligned for any type; never NULL. If memory runs out, jumps (longjmp) out of the innermost
 * tu_arena_build of this thread. If there is none, ends the process as tu_allocate does. */
void *tu_arena_allocate(struct tu_arena *arena, size_t count, size_t item_bytes);
/* Returns the array with room for one item more: if count == *capacity, doubles the capacity (8 at first), which may
 * move the array. New items are zeroed. Begin with array NULL and *capacity 0. If memory runs out, jumps out of
 * tu_arena_build or ends the process, as tu_arena_allocate does. */
void *tu_arena_grow(struct tu_arena *arena, void *array, uint32_t count, uint32_t *capacity, size_t item_bytes);
/* Grows an array as tu_arena_grow does, but if memory runs out, returns NULL and leaves `array` unchanged. For code
 * that must not be left by longjmp, such as callbacks of other libraries. */
void *tu_arena_try_grow(struct tu_arena *arena, void *array, uint32_t count, uint32_t *capacity, size_t item_bytes);
/* Frees one piece of memory before the rest of the arena, if it is not part of a block. NULL is ignored. */
void tu_arena_free(struct tu_arena *arena, void *memory);
/* Frees all memory of the arena, which is then empty and may be used again. */
void tu_arena_fini(struct tu_arena *arena);

/* Runs build(what, error) and returns its result. If memory runs out in `build`, returns TUTTI_ERR_MEMORY with the
 * message "out of memory: THING: ...". In that case longjmp has left `build` before its end, so `build` must hold no
 * lock, and no resource except arenas that the caller can reach. `build` may itself call tu_arena_build. */
tutti_err tu_arena_build(tutti_err (*build)(void *what, struct tu_error *error), void *what, const char *thing,
                         struct tu_error *error);

/* Ends an attempt to build an object, because the caller could not allocate count * item_bytes bytes. Jumps (longjmp)
 * out of the innermost tu_arena_build of this thread; if there is none, ends the process. For code that allocates by
 * itself and has got NULL. */
_Noreturn void tu_arena_refuse(size_t count, size_t item_bytes);
/* Does what tu_arena_refuse does, for the last allocation that failed in this thread. For a caller of tu_arena_build
 * that got TUTTI_ERR_MEMORY and cannot continue: jumps out of the next outer tu_arena_build. */
_Noreturn void tu_arena_refuse_again(void);

#endif
