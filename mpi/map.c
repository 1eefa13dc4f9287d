/* map.c: maps from handles of the MPI to objects of the door. Open addressing; a table is at most half full. Readers take no
 * lock: a writer stores the key of an entry before its object, and a reader that finds a key without an object finds
 * nothing. A table that has become too small stays, because a reader may still be in it. */
#include <stdlib.h>

#include "door.h"

struct entry {
  _Atomic uint64_t key; /* 0: free, and always was */
  void *_Atomic value;  /* NULL: free */
};
struct tm_table {
  size_t mask, used; /* entries - 1; entries with a key */
  struct tm_table *before;
  struct entry entries[];
};

enum { ENTRIES = 256 };

static size_t place_of(const struct tm_table *t, uint64_t key) {
  return (size_t)((key * 0x9E3779B97F4A7C15u) >> 32) & t->mask;
}

void *tm_map_find(const struct tm_map *map, uint64_t key) {
  const struct tm_table *t = atomic_load_explicit(&map->table, memory_order_acquire);
  if (!t) return NULL;
  for (size_t i = place_of(t, key);; i = (i + 1) & t->mask) {
    const uint64_t found = atomic_load_explicit(&t->entries[i].key, memory_order_acquire);
    if (found == key) return atomic_load_explicit(&t->entries[i].value, memory_order_acquire);
    if (found == 0) return NULL;
  }
}

/* Returns the entry of the key, or else one that is free for it. */
static struct entry *entry_for(struct tm_table *t, uint64_t key) {
  struct entry *free_one = NULL;
  for (size_t i = place_of(t, key);; i = (i + 1) & t->mask) {
    struct entry *e = &t->entries[i];
    if (e->key == key) return e;
    if (!e->value && !free_one) free_one = e;
    if (e->key == 0) return free_one;
  }
}

static void put(struct tm_table *t, uint64_t key, void *value) {
  struct entry *e = entry_for(t, key);
  if (e->key == 0) t->used++;
  atomic_store_explicit(&e->key, key, memory_order_release);
  atomic_store_explicit(&e->value, value, memory_order_release);
}

/* Replaces the table by one in which at most a quarter of the entries is used. */
static struct tm_table *grow(struct tm_map *map, struct tm_table *old) {
  size_t live = 0, entries = ENTRIES;
  for (size_t i = 0; old && i <= old->mask; i++) live += old->entries[i].value != NULL;
  while (entries < 4 * (live + 1)) entries *= 2;
  struct tm_table *t = calloc(1, sizeof *t + entries * sizeof t->entries[0]);
  if (!t) return NULL;
  t->mask = entries - 1;
  t->before = old;
  for (size_t i = 0; old && i <= old->mask; i++)
    if (old->entries[i].value) put(t, old->entries[i].key, old->entries[i].value);
  atomic_store_explicit(&map->table, t, memory_order_release);
  return t;
}

bool tm_map_set(struct tm_map *map, uint64_t key, void *value) {
  struct tm_table *t = atomic_load_explicit(&map->table, memory_order_relaxed);
  if (!t || 2 * (t->used + 1) > t->mask) t = grow(map, t);
  if (!t) return false;
  put(t, key, value);
  return true;
}

void *tm_map_remove(struct tm_map *map, uint64_t key) {
  struct tm_table *t = atomic_load_explicit(&map->table, memory_order_relaxed);
  void *value = tm_map_find(map, key);
  if (value) atomic_store_explicit(&entry_for(t, key)->value, NULL, memory_order_release);
  return value;
}

void tm_map_each(struct tm_map *map, void (*visit)(void *value)) {
  struct tm_table *t = atomic_load_explicit(&map->table, memory_order_relaxed);
  for (size_t i = 0; t && i <= t->mask; i++)
    if (t->entries[i].value) visit(t->entries[i].value);
}
