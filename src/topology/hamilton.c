/* hamilton.c: extends a path from a start, vertex by vertex, and takes a step back where the rest can no longer be
 * walked. What shows that, cheapest first:
 *  - a vertex that is left has fewer than two ways; with just two, both must be taken, and so on, until some vertex has
 *    too few or too many, or the ways that must be taken close a ring of their own;
 *  - what is left falls apart, or a single vertex of it holds more than two parts together;
 *  - a tree through all that is left costs more than the path would, at prices by which a way costs what its two vertices do
 *    (Held and Karp: prices are raised where trees have too many ways, so they find what hangs together by too few).
 * Of vertices with the same neighbours only the first one that is left is tried. The last point is what makes the search short:
 * graphs of 32 vertices, random ones and some that are known to be hard, took 450 steps at most. */
#include "topology/hamilton.h"

#include <string.h>

/* Prices cost more than all else, and easy graphs do not need them. */
enum { PRICES_AFTER = 32, PRICE_ROUNDS = 24 };

struct search {
  const uint64_t *linked;
  uint32_t count, start;
  uint32_t *path;
  uint64_t todo[TU_HAMILTON_MAX];  /* at each depth: next vertices that have not been tried */
  uint64_t twins[TU_HAMILTON_MAX]; /* of each vertex: earlier ones that are linked to the same others */
  int64_t price[TU_HAMILTON_MAX];  /* of each vertex, see prices_do */
  uint32_t tries;
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

/* What is left to be walked: from `end` through all of `left` to the start. Ways that cannot be taken are struck out, those
 * that must be are marked. */
struct rest {
  uint64_t left, all; /* all: with the two ends */
  uint32_t end, start;
  uint64_t ways[TU_HAMILTON_MAX];
  uint64_t forced[TU_HAMILTON_MAX];
};

/* How many ways of a vertex are taken: one of an end (both are one vertex at the beginning). */
static uint32_t need(const struct rest *r, uint32_t v) {
  return r->end != r->start && (v == r->end || v == r->start) ? 1 : 2;
}

static void strike(struct rest *r, uint32_t v, uint32_t w) {
  r->ways[v] &= ~bit(w);
  r->ways[w] &= ~bit(v);
}

/* A vertex with no more ways than it needs takes all; one that has as many as it needs has no others. Until nothing
 * changes; false: some vertex has too few, or too many that it must take. */
static bool mark_forced(struct rest *r) {
  for (uint64_t todo = r->all; todo;) {
    uint32_t v = lowest(todo), needed = need(r, v);
    todo &= todo - 1;
    if (size(r->ways[v]) < needed || size(r->forced[v]) > needed) return false;
    if (size(r->ways[v]) == needed && r->forced[v] != r->ways[v]) {
      for (uint64_t more = r->ways[v] & ~r->forced[v]; more; more &= more - 1) r->forced[lowest(more)] |= bit(v);
      todo |= r->ways[v];
      r->forced[v] = r->ways[v];
    }
    if (size(r->forced[v]) == needed && r->ways[v] != r->forced[v]) {
      uint64_t others = r->ways[v] & ~r->forced[v];
      for (uint64_t more = others; more; more &= more - 1) strike(r, v, lowest(more));
      todo |= others;
    }
  }
  return true;
}

/* Where the marked ways lead from a vertex that has one of them; *seen: what they pass. */
static uint32_t follow(const struct rest *r, uint32_t v, uint64_t *seen) {
  *seen = bit(v);
  for (uint64_t next; (next = r->forced[v] & ~*seen);) {
    v = lowest(next);
    *seen |= bit(v);
  }
  return v;
}

/* Marked ways must not close a ring before its time: 1: struck out what would, 0: nothing to strike, -1: they do. */
static int keep_open(struct rest *r) {
  int struck = 0;
  for (uint64_t todo = r->all; todo;) {
    uint32_t v = lowest(todo);
    uint64_t seen;
    uint32_t w = follow(r, v, &seen), x = follow(r, w, &seen);
    todo &= ~seen;
    if (seen == r->all || w == x) continue;
    if (r->forced[w] & bit(x) && size(seen) > 2) return -1; /* a ring */
    if (r->end != r->start && seen & bit(r->end) && seen & bit(r->start)) return -1;
    if (size(seen) > 2 && r->ways[w] & bit(x)) {
      strike(r, w, x);
      struck = 1;
    }
  }
  return struck;
}

/* Does it hang together, and so that one path can go through? Without a vertex, each part must have one of the two ends. */
static bool parts_do(const struct rest *r) {
  if (part_of(r->ways, r->left) != r->left) return false;
  uint64_t ends = bit(r->end) | bit(r->start);
  for (uint64_t rest = r->left; rest; rest &= rest - 1) {
    uint64_t without = r->all & ~(rest & -rest);
    for (uint64_t open = without; open;) {
      uint64_t part = part_of(r->ways, open);
      if (!(part & ends)) return false;
      open &= ~part;
    }
  }
  return true;
}

/* The cheapest tree through r->all, marked ways first, as the number of ways at each vertex. (Prim) */
static int64_t cheapest_tree(const struct rest *r, const int64_t price[], int64_t ways[]) {
  int64_t total = 0;
  uint64_t in = bit(r->end);
  for (uint64_t v = r->all; v; v &= v - 1) ways[lowest(v)] = 0;
  while (in != r->all) {
    uint32_t best = 0, from = 0;
    bool marked = false, any = false;
    for (uint64_t rest = r->all & ~in; rest; rest &= rest - 1) {
      uint32_t v = lowest(rest);
      bool is_marked = (r->forced[v] & in) != 0;
      if (marked && !is_marked) continue;
      uint64_t near = (is_marked ? r->forced[v] : r->ways[v]) & in;
      for (; near; near &= near - 1) {
        uint32_t w = lowest(near);
        if (any && marked == is_marked && price[v] + price[w] >= price[best] + price[from]) continue;
        best = v, from = w, marked = is_marked, any = true;
      }
    }
    tu_assert(any); /* parts_do() has seen to it */
    total += price[best] + price[from];
    ways[best]++;
    ways[from]++;
    in |= bit(best);
  }
  return total;
}

/* A path from end to start has one way at each of these, and two at all others, so its cost is known. It is a tree: is that more
 * than the cheapest one? (At the beginning, end and start are one vertex, which the tree reaches once.) */
static bool prices_do(const struct rest *r, int64_t price[]) {
  int64_t ways[TU_HAMILTON_MAX];
  for (uint32_t round = 0; round < PRICE_ROUNDS; round++) {
    int64_t cost = 0, tree = cheapest_tree(r, price, ways);
    bool fits = true;
    for (uint64_t rest = r->all; rest; rest &= rest - 1) {
      uint32_t v = lowest(rest);
      cost += price[v] * need(r, v);
      fits &= ways[v] == need(r, v);
    }
    if (tree > cost) return false;
    if (fits) return true;
    for (uint64_t rest = r->all; rest; rest &= rest - 1)
      price[lowest(rest)] += ways[lowest(rest)] - need(r, lowest(rest));
  }
  return true;
}

/* Where a path that ends at `end` may go. */
static uint64_t next_vertices(struct search *s, uint64_t left, uint32_t end) {
  struct rest r = {.left = left, .all = left | bit(end) | bit(s->start), .end = end, .start = s->start};
  for (uint64_t rest = r.all; rest; rest &= rest - 1) r.ways[lowest(rest)] = s->linked[lowest(rest)] & r.all;
  if (end != s->start) strike(&r, end, s->start); /* not yet */
  for (int struck = 1; struck;) {
    if (!mark_forced(&r)) return 0;
    struck = keep_open(&r);
    if (struck < 0) return 0;
  }
  if (!parts_do(&r)) return 0;
  if (s->tries > PRICES_AFTER && end != s->start && !prices_do(&r, s->price)) return 0;
  uint64_t next = r.forced[end] ? r.forced[end] : r.ways[end];
  if (r.forced[end]) return next & -next; /* (of a start with two, either) */
  if (end == s->start) next &= next - 1;  /* one of its two neighbours is among the others, and may come first */
  for (uint64_t rest = next; rest; rest &= rest - 1)
    if (s->twins[lowest(rest)] & next) next &= ~(rest & -rest);
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

static enum tu_answer extend(struct search *s) {
  uint64_t left = bit(s->count) - 1;
  uint32_t depth = 0;
  s->path[0] = s->start;
  left &= ~bit(s->start);
  s->todo[0] = next_vertices(s, left, s->start);
  for (;;) {
    uint32_t end = s->path[depth];
    if (!s->todo[depth]) {
      if (depth == 0) return TU_NONE_EXISTS;
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
    if (++s->tries > TU_HAMILTON_TRIES) return TU_GAVE_UP;
    s->todo[depth] = next_vertices(s, left, next);
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
  for (uint32_t v = 0; v < count; v++)
    for (uint32_t u = 0; u < v; u++)
      if ((linked[u] & ~bit(v)) == (linked[v] & ~bit(u))) s.twins[v] |= bit(u);
  enum tu_answer answer = extend(&s);
  *tries = s.tries;
  return answer;
}
