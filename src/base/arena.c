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

/* A second block, for what the first was too short for, is no longer than that. */
#define NEXT_BLOCK_BYTES ((size_t)4 << 10)

/* Stands in tu_arena_piece.next of a piece that is part of a block. */
static struct tu_arena_piece in_block;

#if defined(__SANITIZE_ADDRESS__)
#define BLOCKS false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BLOCKS false
#endif
#endif
#if !defined(BLOCKS)
#define BLOCKS true
#endif

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

static bool is_of_block(void *memory) { return piece_of(memory)->next == &in_block; }

/* Returns true if a piece fits the rest of the last block. A new block is made only for a piece that leaves most of it. */
static bool fits_block(const struct tu_arena *arena, size_t bytes) {
  enum { PART = 4 };
  const size_t rest = arena->block ? arena->block_left : arena->block_bytes;
  const size_t need = bytes + 2 * sizeof(struct tu_arena_piece); /* its head, and room to align the next one */
  return BLOCKS && (need <= rest || need < arena->block_bytes / PART);
}

/* Returns a short piece of the arena's last block, or of a new one; NULL: out of memory. */
static void *take_of_block(struct tu_arena *arena, size_t bytes) {
  const size_t need = sizeof(struct tu_arena_piece) + tu_round_up(bytes, alignof(struct tu_arena_piece));
  if (need > arena->block_left) {
    struct tu_arena_piece *block = calloc(1, sizeof *block + arena->block_bytes);
    if (!block) return NULL;
    link_first(arena, block);
    arena->block = (unsigned char *)(block + 1);
    arena->block_left = arena->block_bytes;
    arena->block_bytes = tu_min(arena->block_bytes, NEXT_BLOCK_BYTES);
  }
  struct tu_arena_piece *piece = (struct tu_arena_piece *)(void *)arena->block;
  piece->next = &in_block;
  arena->block += need;
  arena->block_left -= need;
  return piece + 1;
}

void *tu_arena_allocate(struct tu_arena *arena, size_t count, size_t item_bytes) {
  size_t bytes;
  struct tu_arena_piece *piece = NULL;
  if (tu_multiply(count, item_bytes, &bytes) && bytes <= SIZE_MAX - sizeof *piece) {
    if (fits_block(arena, bytes)) {
      void *memory = take_of_block(arena, bytes);
      if (!memory) tu_arena_refuse(1, arena->block_bytes);
      return memory;
    }
    piece = calloc(1, sizeof *piece + bytes);
  }
  if (!piece) tu_arena_refuse(count, item_bytes);
  link_first(arena, piece);
  return piece + 1;
}

/* Returns a piece of `bytes` bytes with the first bytes of `array`, which was part of a block. NULL: out of memory. */
static struct tu_arena_piece *leave_block(struct tu_arena *arena, const void *array, size_t used_bytes, size_t bytes) {
  struct tu_arena_piece *piece = malloc(sizeof *piece + bytes);
  if (!piece) return NULL;
  memcpy(piece + 1, array, used_bytes);
  link_first(arena, piece);
  return piece;
}

void *tu_arena_try_grow(struct tu_arena *arena, void *array, uint32_t count, uint32_t *capacity, size_t item_bytes) {
  tu_assert(count <= *capacity);
  if (count < *capacity) return array;
  uint32_t next = *capacity ? *capacity * 2 : 8;
  size_t bytes, used_bytes = *capacity * item_bytes;
  if (next <= *capacity || !tu_multiply(next, item_bytes, &bytes) || bytes > SIZE_MAX - sizeof(struct tu_arena_piece))
    return NULL;
  if (!array && fits_block(arena, bytes)) {
    array = take_of_block(arena, bytes);
    if (array) *capacity = next;
    return array;
  }
  struct tu_arena_piece *piece;
  if (array && is_of_block(array)) {
    if (!(piece = leave_block(arena, array, used_bytes, bytes))) return NULL;
  } else {
    piece = realloc(array ? piece_of(array) : NULL, sizeof *piece + bytes);
    if (!piece) return NULL;
    if (array) update_links(arena, piece);
    else link_first(arena, piece);
  }
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
  if (!memory || is_of_block(memory)) return;
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
  arena->block = NULL;
  arena->block_left = 0;
  for (struct tu_arena_piece *next; piece; piece = next) {
    next = piece->next;
    free(piece);
  }
}
