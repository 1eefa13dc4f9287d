/* walk.c: finds closed walks in which each hop uses a different link. */
#include <stdlib.h>
#include <string.h>

#include "topology/hamilton.h"
#include "topology/ring.h"

/* TRIES: maximum number of steps of a search. TRIES_FIRST: the maximum of two kinds of searches: for a walk without
 * repeated chips, and for a walk that never goes straight back. (If the second kind fails, a search follows in which
 * the walk may go straight back.) */
enum { TRIES = 1000000, TRIES_FIRST = 100000 };

void tu_walk_fini(struct tu_walk *walk) {
  free(walk->chips);
  free(walk->links);
  *walk = (struct tu_walk){0};
}

/* ---- assignment of links ---- */

static void use(const struct tu_cluster *c, uint32_t used[], uint32_t a, uint32_t b, int how_often) {
  used[tu_cluster_pair(c, a, b) - c->neighbours] += (uint32_t)how_often;
  used[tu_cluster_pair(c, b, a) - c->neighbours] += (uint32_t)how_often;
}

static tutti_err refuse(const struct tu_cluster *c, const uint32_t chips[], uint32_t hops, uint32_t hop,
                        struct tu_error *error) {
  uint32_t from = chips[hop], to = chips[(hop + 1) % hops], visits = 0;
  uint32_t a = (uint32_t)tu_min(from, to), b = (uint32_t)tu_max(from, to), usable = tu_cluster_usable(c, a, b);
  if (usable == 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "hop %u of the walk: there is no usable link between chips %u and %u",
                   hop, c->nodes[a].id, c->nodes[b].id);
  for (uint32_t i = 0; i < hops; i++) {
    uint32_t low = (uint32_t)tu_min(chips[i], chips[(i + 1) % hops]);
    visits += low == a && chips[i] + chips[(i + 1) % hops] == a + b;
  }
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "too few links between chips %u and %u: the walk needs %u, found %u usable",
                 c->nodes[a].id, c->nodes[b].id, visits, usable);
}

tutti_err tu_walk_assign(const struct tu_cluster *cluster, const uint32_t chips[], uint32_t hops, struct tu_walk *walk,
                         struct tu_error *error) {
  *walk = (struct tu_walk){.hops = hops};
  if (hops < 2) return tu_fail(error, TUTTI_ERR_ARGUMENT, "expected a closed walk of 2 hops or more, found %u", hops);
  walk->chips = tu_allocate(hops, sizeof *walk->chips);
  walk->links = tu_allocate(hops, sizeof *walk->links);
  memcpy(walk->chips, chips, hops * sizeof *chips);
  uint32_t *used = tu_allocate(cluster->neighbour_first[cluster->node_count] + 1, sizeof *used);
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < hops && err == TUTTI_OK; i++) {
    uint32_t a = chips[i], b = chips[(i + 1) % hops], low = (uint32_t)tu_min(a, b);
    const struct tu_neighbour *pair = a == b ? NULL : tu_cluster_pair(cluster, a, b);
    if (!pair || used[pair - cluster->neighbours] >= pair->usable) {
      err = refuse(cluster, chips, hops, i, error);
      break;
    }
    walk->links[i] = tu_cluster_link_between(cluster, low, a + b - low, used[pair - cluster->neighbours]);
    use(cluster, used, a, b, 1);
  }
  free(used);
  if (err != TUTTI_OK) tu_walk_fini(walk);
  return err;
}

/* ---- search ---- */

/* State of a search for a walk from chip to chip that returns to the start after `hops` hops and uses each link at most
 * once. */
struct search {
  const struct tu_cluster *cluster;
  uint32_t start, hops;
  /* true: the walk visits no chip twice, and no chip with a lower number than the start. false: it visits all chips,
   * and may visit a chip several times. */
  bool simple;
  bool endless; /* true: ignore how many links a pair of chips has: the walk may cross the pair any number of times */
  bool back;    /* true: the walk may go straight back to the chip that it came from */
  uint32_t tries, tries_max;
  /* for each entry of cluster->neighbours (a pair of chips): number of links of the pair that the walk uses */
  uint32_t *used;
  uint32_t *visits;   /* number of visits to each chip */
  uint32_t *distance; /* hops from the start to each node */
  uint32_t *path;     /* [hops]: the chips of the walk */
  /* stack of the chips that can still be tried as the next chip. It contains the chips of all hops so far; those of the
   * last hop are on top. */
  uint32_t *todo;
  uint32_t *todo_first;
  uint32_t todo_count, todo_capacity;
  uint32_t missing; /* number of chips that have not been visited yet */
};

static void open_search(struct search *s, const struct tu_cluster *c, uint32_t hops) {
  *s = (struct search){.cluster = c, .hops = hops};
  s->used = tu_allocate(c->neighbour_first[c->node_count] + 1, sizeof *s->used);
  s->visits = tu_allocate(c->node_count, sizeof *s->visits);
  s->distance = tu_allocate(c->node_count, sizeof *s->distance);
  s->path = tu_allocate((size_t)hops + 1, sizeof *s->path);
  s->todo_first = tu_allocate((size_t)hops + 1, sizeof *s->todo_first);
}

static void close_search(struct search *s) {
  free(s->used);
  free(s->visits);
  free(s->distance);
  free(s->path);
  free(s->todo);
  free(s->todo_first);
}

/* Returns true if hop number `hop` of the walk may go to this neighbour. */
static bool may_go(const struct search *s, const struct tu_neighbour *to, uint32_t hop) {
  uint32_t next = to->node, rest = s->hops - hop - 1;
  if (next >= s->cluster->chip_count || to->usable == 0) return false;
  if (!s->endless && s->used[to - s->cluster->neighbours] >= to->usable) return false;
  if (s->distance[next] > rest) return false;
  if (s->simple) return next == s->start ? rest == 0 : next > s->start && s->visits[next] == 0 && rest > 0;
  if (s->missing - (s->visits[next] == 0) > (rest > 0 ? rest - 1 : 0)) return false;
  return s->back || hop == 0 || s->path[hop - 1] != next;
}

/* Lists the chips to which hop number `hop` may go, by pushing them onto the stack s->todo. The best one is pushed
 * last, so it is tried first. A chip is better if the walk has visited it less often; of equals, the one with the lower
 * number. */
static void push_candidates(struct search *s, uint32_t hop) {
  const struct tu_cluster *c = s->cluster;
  uint32_t chip = s->path[hop], first = s->todo_count;
  s->todo_first[hop] = first;
  for (uint32_t i = 0; i < tu_neighbour_count(c, chip); i++) {
    const struct tu_neighbour *to = &tu_neighbours(c, chip)[i];
    if (!may_go(s, to, hop)) continue;
    s->todo = tu_grow(s->todo, s->todo_count, &s->todo_capacity, sizeof *s->todo);
    uint32_t at = s->todo_count++;
    for (; at > first && s->visits[s->todo[at - 1]] <= s->visits[to->node]; at--) s->todo[at] = s->todo[at - 1];
    s->todo[at] = to->node;
  }
}

static void step(struct search *s, uint32_t hop, uint32_t next, int way) {
  use(s->cluster, s->used, s->path[hop], next, way);
  if (way > 0) s->missing -= s->visits[next]++ == 0;
  else s->missing += --s->visits[next] == 0;
}

/* Searches for a walk from s->start and writes it to s->path. On entry, s->used counts the links that are in use
 * already. A walk that is found adds its links to s->used; if there is none, s->used is unchanged. */
static enum tu_answer run_search(struct search *s) {
  const struct tu_cluster *c = s->cluster;
  tu_cluster_distances(c, s->start, s->distance);
  memset(s->visits, 0, c->node_count * sizeof *s->visits);
  s->path[0] = s->start;
  s->visits[s->start] = 1;
  s->missing = c->chip_count - 1;
  s->todo_count = 0;
  push_candidates(s, 0);
  for (uint32_t hop = 0;;) {
    if (s->todo_count == s->todo_first[hop]) {
      if (hop == 0) return TU_NONE_EXISTS;
      hop--;
      step(s, hop, s->path[hop + 1], -1);
      continue;
    }
    uint32_t next = s->todo[--s->todo_count];
    if (++s->tries > s->tries_max) break;
    step(s, hop, next, 1);
    s->path[++hop] = next;
    if (hop == s->hops)
      /* may_go has already checked that `next` is the start. It has also checked that no chip that must be visited is
       * missing. */
      return TU_FOUND;
    push_candidates(s, hop);
  }
  return TU_GAVE_UP;
}

/* Searches for a closed walk of `hops` hops that visits no chip twice. On entry, s->used counts the links that are
 * already in use. */
static enum tu_answer find_simple(struct search *s, uint32_t hops) {
  const struct tu_cluster *c = s->cluster;
  size_t bytes = (c->neighbour_first[c->node_count] + 1) * sizeof *s->used;
  uint32_t *taken = tu_allocate(bytes, 1);
  memcpy(taken, s->used, bytes);
  s->simple = true;
  s->back = hops == 2;
  s->hops = hops;
  s->tries = 0;
  s->tries_max = TRIES_FIRST;
  enum tu_answer answer = TU_NONE_EXISTS;
  for (s->start = 0; s->start < c->chip_count && answer == TU_NONE_EXISTS; s->start++) {
    answer = run_search(s);
    /* starting a search takes time in proportion to the number of nodes, so count this time as search steps */
    s->tries += c->node_count / 8;
  }
  if (answer != TU_FOUND) memcpy(s->used, taken, bytes);
  s->simple = false;
  free(taken);
  return answer;
}

/* ---- walks longer than a ring: a ring and additional loops ---- */

/* Inserts a loop (a closed walk of `hops` chips) into the walk at the first chip that both have in common. Returns the
 * new length of the walk. */
static uint32_t splice(uint32_t walk[], uint32_t length, const uint32_t loop[], uint32_t hops) {
  for (uint32_t at = 0; at < length; at++)
    for (uint32_t k = 0; k < hops; k++) {
      if (walk[at] != loop[k]) continue;
      memmove(&walk[at + hops], &walk[at], (length - at) * sizeof *walk);
      for (uint32_t i = 0; i < hops; i++) walk[at + i] = loop[(k + i) % hops];
      return length + hops;
    }
  tu_assert(false); /* not reached: the walk visits all chips, so it meets the loop */
  return 0;
}

/* Inserts hops back and forth between neighbours that have two unused links, until the walk has `hops` hops or no such
 * neighbours are left. Returns the new length of the walk. */
static uint32_t go_to_and_fro(struct search *s, uint32_t walk[], uint32_t length, uint32_t hops) {
  const struct tu_cluster *c = s->cluster;
  for (uint32_t a = 0; a < c->chip_count && length + 2 <= hops; a++)
    for (uint32_t i = 0; i < tu_neighbour_count(c, a) && length + 2 <= hops; i++) {
      const struct tu_neighbour *to = &tu_neighbours(c, a)[i];
      while (to->node > a && to->node < c->chip_count && length + 2 <= hops &&
             s->used[to - c->neighbours] + 2 <= to->usable) {
        use(c, s->used, a, to->node, 2);
        length = splice(walk, length, (const uint32_t[]){a, to->node}, 2);
      }
    }
  return length;
}

/* Extends the ring to a walk of `hops` hops. First tries to insert one loop (closed walk) with all missing hops. If
 * there is no such loop, inserts pairs of hops back and forth. They add an even number of hops; if the missing number
 * is odd, a loop of odd length is inserted before them. */
static bool extend_ring(struct search *s, const struct tu_ring *ring, uint32_t hops, uint32_t walk[]) {
  const struct tu_cluster *c = s->cluster;
  uint32_t n = c->chip_count, length = n, missing = hops - n;
  memcpy(walk, ring->order, n * sizeof *walk);
  memset(s->used, 0, (c->neighbour_first[c->node_count] + 1) * sizeof *s->used);
  for (uint32_t i = 0; i < n; i++) use(c, s->used, ring->order[i], ring->order[(i + 1) % n], 1);
  if (missing > 2 && missing <= n && find_simple(s, missing) == TU_FOUND)
    return splice(walk, length, s->path, missing) == hops;
  for (uint32_t odd = 3; missing % 2 == 1 && length == n && odd <= tu_min(missing, n); odd += 2)
    if (find_simple(s, odd) == TU_FOUND) length = splice(walk, length, s->path, odd);
  return go_to_and_fro(s, walk, length, hops) == hops;
}

static enum tu_answer find_covering(struct search *s, uint32_t hops, bool back, bool endless, uint32_t tries) {
  memset(s->used, 0, (s->cluster->neighbour_first[s->cluster->node_count] + 1) * sizeof *s->used);
  s->simple = false;
  s->back = back;
  s->endless = endless;
  s->hops = hops;
  s->start = s->tries = 0;
  s->tries_max = tries;
  return run_search(s);
}

static enum tu_answer find_long(struct search *s, uint32_t hops) {
  const struct tu_cluster *c = s->cluster;
  enum tu_answer answer = TU_GAVE_UP;
  struct tu_grid grid;
  struct tu_ring ring;
  tu_grid_find(c, &grid);
  tu_ring_find(c, &grid, &ring);
  if (ring.kind == TU_RING && c->chip_count > 2) {
    uint32_t *walk = tu_allocate(hops + 1, sizeof *walk);
    if (extend_ring(s, &ring, hops, walk)) {
      memcpy(s->path, walk, hops * sizeof *walk);
      answer = TU_FOUND;
    }
    free(walk);
  }
  tu_ring_fini(&ring);
  tu_grid_fini(&grid);
  if (answer != TU_FOUND) answer = find_covering(s, hops, false, false, TRIES_FIRST);
  if (answer != TU_FOUND) answer = find_covering(s, hops, true, false, TRIES);
  return answer;
}

/* Returns TUTTI_ERR_ARGUMENT with a message that states why there is no walk. */
static tutti_err explain(struct search *s, uint32_t hops, enum tu_answer answer, struct tu_error *error) {
  const struct tu_cluster *c = s->cluster;
  uint32_t other;
  if (tu_cluster_parts(c, &other) > 1 && hops >= c->chip_count)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "there is no walk of %u hops, because chips %u and %u are not connected",
                   hops, c->nodes[0].id, c->nodes[other].id);
  if (answer == TU_GAVE_UP)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "found no walk of %u hops: the search gave up after trying many; there may be one", hops);
  if (hops < c->chip_count)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "there is no walk of %u hops that visits a different chip at each hop",
                   hops);
  struct tu_error why = {.text = "not even if each link could be used any number of times"};
  struct tu_walk walk;
  enum tu_answer endless = find_covering(s, hops, false, true, TRIES_FIRST);
  if (endless != TU_FOUND) endless = find_covering(s, hops, true, true, TRIES);
  if (endless == TU_FOUND) {
    tutti_err err = tu_walk_assign(c, s->path, hops, &walk, &why);
    tu_assert(err != TUTTI_OK);
  }
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "there is no walk of %u hops through all chips: %s", hops, why.text);
}

tutti_err tu_walk_find(const struct tu_cluster *cluster, uint32_t hops, struct tu_walk *walk, struct tu_error *error) {
  *walk = (struct tu_walk){0};
  if (hops < 2 || hops > TU_WALK_HOPS_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "expected a closed walk of 2 to %u hops, found %u", TU_WALK_HOPS_MAX,
                   hops);
  struct search s;
  open_search(&s, cluster, hops);
  enum tu_answer answer = hops < cluster->chip_count ? find_simple(&s, hops) : TU_GAVE_UP;
  if (hops >= cluster->chip_count) answer = find_long(&s, hops);
  tutti_err err =
      answer == TU_FOUND ? tu_walk_assign(cluster, s.path, hops, walk, error) : explain(&s, hops, answer, error);
  close_search(&s);
  return err;
}
