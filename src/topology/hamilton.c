/* hamilton.c: searches for a Hamiltonian cycle. A path grows from a start vertex, one vertex at a time. The search goes
 * back when the path can no longer be completed. Three tests detect this, the cheapest first:
 * - Edges. The path needs two edges at each remaining vertex. If a vertex has exactly two, both are forced: the path
 *   must use them. This can force edges at other vertices, so the rule is applied repeatedly. The test fails if a
 *   vertex has too few edges or too many forced ones, or if forced edges close a ring that misses vertices.
 * - Parts. The test fails if the remaining vertices are not connected. It also fails if the removal of one of them
 *   leaves a part that contains neither end of the path.
 * - Spanning tree (Held and Karp). Each vertex has a price. An edge costs the sum of the prices of its two vertices.
 *   The test fails if the cheapest spanning tree of the remaining vertices costs more than a path would. Prices rise at
 *   vertices where the tree has too many edges. So the test finds parts that are connected by too few vertices.
 *
 * If several vertices have the same neighbours, only the first remaining one is tried, because the others lead to the
 * same result. The spanning tree test makes the search short: graphs of 32 vertices, random ones and some known hard
 * ones, took at most 450 steps. */
#include "topology/hamilton.h"

#include <string.h>

/* PRICES_AFTER: number of search steps before the spanning tree test is used. This test takes longer than the others,
 * and easy graphs do not need it. PRICE_ROUNDS: number of times that a test adjusts the prices. */
enum { PRICES_AFTER = 32, PRICE_ROUNDS = 24 };

struct search {
  const uint64_t *linked;
  uint32_t count, start;
  uint32_t *path;
  uint64_t todo[TU_HAMILTON_MAX];  /* [depth of the path]: bit set of the next vertices that have not been tried yet */
  uint64_t twins[TU_HAMILTON_MAX]; /* [vertex]: bit set of the vertices of lower number with the same neighbours */
  /* [vertex]: price of the vertex in the spanning tree test; see prices_do() */
  int64_t price[TU_HAMILTON_MAX];
  uint32_t tries;
};

static uint32_t lowest(uint64_t set) { return (uint32_t)__builtin_ctzll(set); }
static uint32_t size(uint64_t set) { return (uint32_t)__builtin_popcountll(set); }
static uint64_t bit(uint32_t v) { return UINT64_C(1) << v; }

/* Returns the vertices of the set (a bit set) that are connected to its first vertex by edges within the set. */
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

/* The rest of the path leads from `end` through all vertices of `left` to the start. ways[v]: bit set of the neighbours
 * of v to which the rest of the path may use the edge; forced[v]: of those, the ones to which it must use the edge. */
struct rest {
  /* bit sets; left: the vertices that the path must still visit; all: `left` and the two ends `end` and `start` */
  uint64_t left, all;
  uint32_t end, start;
  uint64_t ways[TU_HAMILTON_MAX];
  uint64_t forced[TU_HAMILTON_MAX];
};

/* Returns how many edges the rest of the path uses at vertex v: one at each of its two ends, two at every other vertex.
 * If both ends are the same vertex (before the first step), it uses two there. */
static uint32_t need(const struct rest *r, uint32_t v) {
  return r->end != r->start && (v == r->end || v == r->start) ? 1 : 2;
}

static void strike(struct rest *r, uint32_t v, uint32_t w) {
  r->ways[v] &= ~bit(w);
  r->ways[w] &= ~bit(v);
}

/* Repeats two rules until nothing changes. If a vertex has exactly as many edges as it needs, all of them become
 * forced. A vertex with enough forced edges loses its other edges. Returns false if a vertex has too few edges or too
 * many forced edges. */
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

/* From v, follows forced edges to the end of their path, and returns the vertex there. *seen: bit set of the vertices
 * on the way. */
static uint32_t follow(const struct rest *r, uint32_t v, uint64_t *seen) {
  *seen = bit(v);
  for (uint64_t next; (next = r->forced[v] & ~*seen);) {
    v = lowest(next);
    *seen |= bit(v);
  }
  return v;
}

/* Removes edges that must not be used, because with the forced edges they would close a ring that does not contain all
 * vertices. Returns 1 if an edge was removed, 0 if none. Returns -1 if the forced edges alone already close such a
 * ring, or already connect the two ends without visiting all vertices. */
static int keep_open(struct rest *r) {
  int struck = 0;
  for (uint64_t todo = r->all; todo;) {
    uint32_t v = lowest(todo);
    uint64_t seen;
    uint32_t w = follow(r, v, &seen), x = follow(r, w, &seen);
    todo &= ~seen;
    if (seen == r->all || w == x) continue;
    /* w and x are the ends of a path of forced edges; a forced edge between them makes it a ring */
    if (r->forced[w] & bit(x) && size(seen) > 2) return -1;
    if (r->end != r->start && seen & bit(r->end) && seen & bit(r->start)) return -1;
    if (size(seen) > 2 && r->ways[w] & bit(x)) {
      strike(r, w, x);
      struck = 1;
    }
  }
  return struck;
}

/* Returns true if two conditions are met. The remaining vertices are connected. And no single one of them blocks the
 * path: if it is removed, each part of the graph still contains one of the two ends. */
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

/* Computes the cheapest spanning tree of r->all among those that use forced edges first (Prim). Returns its cost.
 * ways[v] receives the number of edges of the tree at v. */
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
    tu_assert(any); /* true because parts_do() has checked that all vertices are connected */
    total += price[best] + price[from];
    ways[best]++;
    ways[from]++;
    in |= bit(best);
  }
  return total;
}

/* The spanning tree test. Each vertex has a price, and an edge costs the sum of its two prices. So the cost of the rest
 * of the path is known, although the path is not: it uses one edge at each end, and two edges at every other vertex. A
 * path is a spanning tree, too. So if the cheapest spanning tree costs more, there is no path: returns false. Not
 * called before the first step, when both ends are the same vertex. */
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

/* Returns the vertices to try as the next one of the path, as a bit set. The path now ends at `end`, and must still
 * visit the vertices `left`. 0: the path cannot be completed. */
static uint64_t next_vertices(struct search *s, uint64_t left, uint32_t end) {
  struct rest r = {.left = left, .all = left | bit(end) | bit(s->start), .end = end, .start = s->start};
  for (uint64_t rest = r.all; rest; rest &= rest - 1) r.ways[lowest(rest)] = s->linked[lowest(rest)] & r.all;
  /* Vertices are left, so the next edge must not lead from `end` to the start: only the last edge of the ring does
   * that. */
  if (end != s->start) strike(&r, end, s->start);
  for (int struck = 1; struck;) {
    if (!mark_forced(&r)) return 0;
    struck = keep_open(&r);
    if (struck < 0) return 0;
  }
  if (!parts_do(&r)) return 0;
  if (s->tries > PRICES_AFTER && end != s->start && !prices_do(&r, s->price)) return 0;
  uint64_t next = r.forced[end] ? r.forced[end] : r.ways[end];
  /* The ring must use the forced edges of `end`, so the next edge is one of them. At the start there may be two. Then
   * trying one is enough, because the ring can be followed in both directions. */
  if (r.forced[end]) return next & -next;
  /* The ring uses two neighbours of the start, so one neighbour need not be tried as the first step. */
  if (end == s->start) next &= next - 1;
  for (uint64_t rest = next; rest; rest &= rest - 1)
    if (s->twins[lowest(rest)] & next) next &= ~(rest & -rest);
  return next;
}

/* Returns the candidate that has the fewest edges to the remaining vertices (`left`). */
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
