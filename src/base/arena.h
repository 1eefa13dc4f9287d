/* arena.h: the memory of one thing that is built (a plan, a program, a cluster, ...), which is freed as a whole.
 *
 * Whoever builds does not look whether there is memory: a refusal ends the building, at once and in one place
 * (tu_arena_build), and what had been made of the thing lies in its arena, where the caller finds it and frees it. So within a
 * building everything comes from arenas that the caller knows; a thing that keeps other things (files, threads, memory that other
 * ranks see) is built without one, and looks (tu_try_allocate).
 *
 * Each piece is one of the C library's, with a link to the next: sanitizers see its bounds, and it may be freed early. */
#ifndef TU_ARENA_H
#define TU_ARENA_H

#include "base/base.h"

/* Zero-initialise. May be copied, if only the copy is used afterwards. One thread at a time. */
struct tu_arena {
  struct tu_arena_piece *first;
};

/* Zeroed memory, aligned for any type; never NULL: a refusal ends the innermost building of this thread, and where there is none
 * the process, as tu_allocate does. */
void *tu_arena_allocate(struct tu_arena *arena, size_t count, size_t item_bytes);
/* Doubles an array of *capacity items when `count` of them are in use. NULL and 0 to begin with. */
void *tu_arena_grow(struct tu_arena *arena, void *array, uint32_t count, uint32_t *capacity, size_t item_bytes);
/* The same for code that may not be left in the middle, as another library called it: NULL if it is refused, and `array` is as
 * it was. */
void *tu_arena_try_grow(struct tu_arena *arena, void *array, uint32_t count, uint32_t *capacity, size_t item_bytes);
/* Early: one piece, or NULL. */
void tu_arena_free(struct tu_arena *arena, void *memory);
/* Everything; the arena is as new. */
void tu_arena_fini(struct tu_arena *arena);

/* Returns build(what, error), or MEMORY with a sentence ("no memory for THING: ...") if memory was refused within. Then `build`
 * was left in the middle: it must hold no lock and nothing else that is to be given back but arenas that the caller can reach.
 * Buildings may be within each other. */
tutti_err tu_arena_build(tutti_err (*build)(void *what, struct tu_error *error), void *what, const char *thing,
                         struct tu_error *error);

/* So many bytes were refused to who has looked and cannot go on either: ends the innermost building, or the process. */
_Noreturn void tu_arena_refuse(size_t count, size_t item_bytes);
/* For who called tu_arena_build and cannot go on: the same refusal ends the next outer building, or the process. */
_Noreturn void tu_arena_refuse_again(void);

#endif
