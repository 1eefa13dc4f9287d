/* arena.c: arenas (lists of allocated pieces). If memory runs out while an object is built, longjmp leaves the function
 * that builds it. */
#include "base/arena.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

/* Header in front of each allocated piece of memory: links to its neighbours in the arena's list of pieces. */
struct tu_arena_piece {
  alignas(max_align_t) struct tu_arena_piece *next;
  struct tu_arena_piece *previous;
};

static struct tu_arena_piece *piece_of(void *memory) { return (struct tu_arena_piece *)memory - 1; }

/* ---- builds: functions that end by longjmp if memory runs out ---- */

struct building {
  jmp_buf refused;
  struct building *outer;
};

static _Thread_local struct building *innermost;
static _Thread_local size_t refused_bytes;

/* Local variables that change between setjmp and longjmp would be undefined after longjmp. No local variable of
 * tu_arena_build changes there. */
tutti_err tu_arena_build(tutti_err (*build)(void *what, struct tu_error *error), void *what, const char *thing,
                         struct tu_error *error) {
  struct building here = {.outer = innermost};
  if (setjmp(here.refused) == 0) {
    innermost = &here;
    tutti_err err = build(what, error);
    innermost = here.outer;
    return err;
  }
  innermost = here.outer;
  return tu_fail_memory(error, refused_bytes, "%s", thing);
}

void tu_arena_refuse_again(void) {
  if (innermost) longjmp(innermost->refused, 1);
  tu_memory_ends(refused_bytes, 1);
}

void tu_arena_refuse(size_t count, size_t item_bytes) {
  if (!tu_multiply(count, item_bytes, &refused_bytes)) refused_bytes = SIZE_MAX;
  tu_arena_refuse_again();
}

/* ---- pieces: the blocks of memory of an arena ---- */

static void link_first(struct tu_arena *arena, struct tu_arena_piece *piece) {
  piece->previous = NULL;
  piece->next = arena->first;
  if (piece->next) piece->next->previous = piece;
  arena->first = piece;
}

/* Makes the list pointers of the arena and of the neighbouring pieces point to `piece`, after realloc has moved it. */
static void update_links(struct tu_arena *arena, struct tu_arena_piece *piece) {
  if (piece->previous) piece->previous->next = piece;
  else arena->first = piece;
  if (piece->next) piece->next->previous = piece;
}

void *tu_arena_allocate(struct tu_arena *arena, size_t count, size_t item_bytes) {
  size_t bytes;
  struct tu_arena_piece *piece = NULL;
  if (tu_multiply(count, item_bytes, &bytes) && bytes <= SIZE_MAX - sizeof *piece)
    piece = calloc(1, sizeof *piece + bytes);
  if (!piece) tu_arena_refuse(count, item_bytes);
  link_first(arena, piece);
  return piece + 1;
}

void *tu_arena_try_grow(struct tu_arena *arena, void *array, uint32_t count, uint32_t *capacity, size_t item_bytes) {
  tu_assert(count <= *capacity);
  if (count < *capacity) return array;
  uint32_t next = *capacity ? *capacity * 2 : 8;
  size_t bytes;
  if (next <= *capacity || !tu_multiply(next, item_bytes, &bytes) || bytes > SIZE_MAX - sizeof(struct tu_arena_piece))
    return NULL;
  struct tu_arena_piece *piece = realloc(array ? piece_of(array) : NULL, sizeof *piece + bytes);
  if (!piece) return NULL;
  if (array) update_links(arena, piece);
  else link_first(arena, piece);
  size_t used_bytes = *capacity * item_bytes;
  memset((unsigned char *)(piece + 1) + used_bytes, 0, bytes - used_bytes);
  *capacity = next;
  return piece + 1;
}

void *tu_arena_grow(struct tu_arena *arena, void *array, uint32_t count, uint32_t *capacity, size_t item_bytes) {
  void *grown = tu_arena_try_grow(arena, array, count, capacity, item_bytes);
  if (!grown) tu_arena_refuse(2 * (size_t)*capacity, item_bytes);
  return grown;
}

void tu_arena_free(struct tu_arena *arena, void *memory) {
  if (!memory) return;
  struct tu_arena_piece *piece = piece_of(memory);
  if (piece->previous) piece->previous->next = piece->next;
  else arena->first = piece->next;
  if (piece->next) piece->next->previous = piece->previous;
  free(piece);
}

void tu_arena_fini(struct tu_arena *arena) {
  /* The struct tu_arena may itself lie in one of its pieces, so *arena must not be accessed once a piece is freed. */
  struct tu_arena_piece *piece = arena->first;
  arena->first = NULL;
  for (struct tu_arena_piece *next; piece; piece = next) {
    next = piece->next;
    free(piece);
  }
}
