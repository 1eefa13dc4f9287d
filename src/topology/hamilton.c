/* hamilton.c: extends a path from a start, vertex by vertex, and takes a step back where the rest can no longer be
 * walked. What shows that, cheapest first:
 *  - a vertex that is left has fewer than two ways, or two of them need the path's end at once;
 *  - what is left falls apart, or a single vertex of it holds more than two parts together;
 *  - vertices that are left have, together, fewer successors than they are (Hall's condition, by a matching);
 *  - the same was left before: a table remembers sets and ends that failed.
 * Graphs of chips have few links each, and answers come within thousands of steps; 32 vertices that are made to be hard
 * take some ten thousands. */
#include "topology/hamilton.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORY_BITS = 16, MEMORY_AFTER = 256 };

/* A state that has failed: the vertices that were left, and where the path ended. */
struct memory {
  uint64_t left;
  uint64_t end; /* + 1; 0: nothing here */
};

struct search {
  const uint64_t *linked;
  uint32_t count, start;
  uint32_t *path;
  uint64_t todo[TU_HAMILTON_MAX]; /* at each depth: next vertices that have not been tried */
  struct memory *memory;
};

static uint32_t lowest(uint64_t set) { return (uint32_t)__builtin_ctzll(set); }
static uint32_t size(uint64_t set) { return (uint32_t)__builtin_popcountll(set); }
static uint64_t bit(uint32_t v) { return UINT64_C(1) << v; }

/* What is linked to the first vertex of the set, within it. */
static uint64_t part_of(const uint64_t linked[], uint64_t set) {
  uint64_t part = set & -set, fresh = part;
  while (fresh) {
    uint64_t next = 0;
    for (; fresh; fresh &= fresh - 1) next |= linked[lowest(fresh)];
    fresh = next & set & ~part;
    part |= fresh;
  }
  return part;
}

/* The path goes on from `end` through all of `left` to the start: is each of these vertices linked to enough? */
static bool degrees_do(const struct search *s, uint64_t left, uint32_t end) {
  uint64_t there = left | bit(end) | bit(s->start);
  uint32_t need_end = 0, need_start = 0;
  for (uint64_t rest = left; rest; rest &= rest - 1) {
    uint64_t ways = s->linked[lowest(rest)] & there;
    uint32_t count = size(ways);
    if (count < 2) return false;
    if (count == 2) {
      need_end += (ways & bit(end)) != 0;
      need_start += (ways & bit(s->start)) != 0;
    }
  }
  uint32_t once = end == s->start ? 2 : 1; /* a start that stands alone has two sides */
  return need_end <= once && need_start <= once;
}

/* Does it hang together, and so that one path can go through? Without a vertex, each part must have one of the two ends. */
static bool parts_do(const struct search *s, uint64_t left, uint32_t end) {
  if (part_of(s->linked, left) != left) return false;
  uint64_t all = left | bit(end) | bit(s->start), ends = bit(end) | bit(s->start);
  for (uint64_t rest = left; rest; rest &= rest - 1) {
    uint64_t without = all & ~(rest & -rest);
    for (uint64_t open = without; open;) {
      uint64_t part = part_of(s->linked, open);
      if (!(part & ends)) return false;
      open &= ~part;
    }
  }
  return true;
}

/* Finds a successor for `v`, moving others' on if need be. */
static bool match(const struct search *s, uint64_t to, uint32_t v, uint32_t taken_by[]) {
  uint32_t from[TU_HAMILTON_MAX], queue[TU_HAMILTON_MAX + 1], count = 0; /* from[w]: who asked for w */
  uint64_t seen = 0;
  queue[count++] = v;
  for (uint32_t at = 0; at < count; at++) {
    for (uint64_t ways = s->linked[queue[at]] & to & ~seen; ways; ways &= ways - 1) {
      uint32_t w = lowest(ways);
      seen |= bit(w);
      from[w] = queue[at];
      if (taken_by[w] != UINT32_MAX) {
        queue[count++] = taken_by[w];
        continue;
      }
      for (;;) { /* hand it back along the way that led here */
        uint32_t u = from[w], before = UINT32_MAX;
        for (uint64_t rest = seen; rest && u != v; rest &= rest - 1)
          if (taken_by[lowest(rest)] == u) before = lowest(rest);
        taken_by[w] = u;
        if (u == v) return true;
        w = before;
      }
    }
  }
  return false;
}

/* Can each vertex that is left, and the end, have a successor of its own? */
static bool successors_do(const struct search *s, uint64_t left, uint32_t end) {
  uint32_t taken_by[TU_HAMILTON_MAX];
  memset(taken_by, 0xff, sizeof taken_by);
  if (!match(s, left, end, taken_by)) return false;
  for (uint64_t rest = left; rest; rest &= rest - 1)
    if (!match(s, left | bit(s->start), lowest(rest), taken_by)) return false;
  return true;
}

static struct memory *remembered(const struct search *s, uint64_t left, uint32_t end) {
  uint64_t hash = (left + end * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);
  return &s->memory[hash >> (64 - MEMORY_BITS)];
}

/* Where a path that ends at `end` may go. */
static uint64_t next_vertices(const struct search *s, uint64_t left, uint32_t end) {
  uint64_t next = s->linked[end] & left;
  if (!next || !(s->linked[s->start] & left)) return 0;
  if (!degrees_do(s, left, end) || !parts_do(s, left, end) || !successors_do(s, left, end)) return 0;
  /* One that has no other way out must come now. */
  for (uint64_t rest = next; rest; rest &= rest - 1) {
    uint64_t ways = s->linked[lowest(rest)] & (left | bit(end) | bit(s->start));
    if (size(ways) == 2 && left != bit(lowest(rest))) return bit(lowest(rest));
  }
  return next;
}

/* Of those that may come next, the one with the fewest ways on. */
static uint32_t choose(const struct search *s, uint64_t next, uint64_t left) {
  uint32_t best = lowest(next), best_ways = UINT32_MAX;
  for (; next; next &= next - 1) {
    uint32_t ways = size(s->linked[lowest(next)] & left);
    if (ways < best_ways) best = lowest(next), best_ways = ways;
  }
  return best;
}

static enum tu_answer extend(struct search *s, uint32_t *tries) {
  uint64_t left = bit(s->count) - 1;
  uint32_t depth = 0;
  s->path[0] = s->start;
  left &= ~bit(s->start);
  s->todo[0] = next_vertices(s, left, s->start);
  /* One of a start's two neighbours comes first, whichever: the last one of them is not needed. */
  if (size(s->todo[0]) > 1) s->todo[0] &= s->todo[0] - 1;
  for (*tries = 1;;) {
    uint32_t end = s->path[depth];
    if (!s->todo[depth]) {
      if (depth == 0) return TU_NONE_EXISTS;
      if (s->memory) *remembered(s, left, end) = (struct memory){left, end + 1};
      left |= bit(end);
      depth--;
      continue;
    }
    uint32_t next = choose(s, s->todo[depth], left);
    s->todo[depth] &= ~bit(next);
    left &= ~bit(next);
    s->path[++depth] = next;
    if (left == 0) {
      if (s->linked[next] & bit(s->start)) return TU_FOUND;
      s->todo[depth] = 0;
      continue;
    }
    if (++*tries > TU_HAMILTON_TRIES) return TU_GAVE_UP;
    if (!s->memory && *tries > MEMORY_AFTER) s->memory = tu_allocate(1u << MEMORY_BITS, sizeof *s->memory);
    const struct memory *m = s->memory ? remembered(s, left, next) : NULL;
    s->todo[depth] = m && m->left == left && m->end == next + 1 ? 0 : next_vertices(s, left, next);
  }
}

enum tu_answer tu_hamilton(const uint64_t linked[], uint32_t count, uint32_t order[], uint32_t *tries) {
  tu_assert(count > 0 && count <= TU_HAMILTON_MAX);
  *tries = 0;
  for (uint32_t v = 0; v < count; v++) order[v] = v;
  if (count == 1) return TU_FOUND;
  if (count == 2) return linked[0] & bit(1) ? TU_FOUND : TU_NONE_EXISTS;
  struct search s = {.linked = linked, .count = count, .path = order};
  for (uint32_t v = 1; v < count; v++)
    if (size(linked[v]) < size(linked[s.start])) s.start = v;
  enum tu_answer answer = extend(&s, tries);
  free(s.memory);
  return answer;
}
