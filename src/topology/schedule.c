/* schedule.c: packs transfers into as few timesteps as possible (bin packing). In one step, as many transfers can cross
 * a pair of nodes as the pair has links. So each pair gives a lower bound of the number of steps: the number of
 * transfers that cross it, divided by its links.
 * - First, each transfer goes into the first step with room for it.
 * - Then a search tries to do with one step fewer, again and again. It ends when it has proved that this is impossible,
 *   or when the largest lower bound is reached.
 * - If that search gives up before it has an answer, a second search tries the lower bound itself as the number of
 *   steps. Each time it proves that there is no such schedule, it raises the bound by one. */
#include "topology/schedule.h"

#include <stdlib.h>
#include <string.h>

/* maximum number of hops that each of the two searches examines; this takes less than a second */
enum { LOOKS_MAX = 200000000 };

/* A pair of linked nodes that transfers cross. */
struct crossing {
  uint32_t a, b; /* the two nodes, a < b */
  uint32_t room; /* number of usable links of the pair */
  uint32_t load; /* number of times that transfers cross the pair */
};

struct packing {
  const struct tu_cluster *cluster;
  const struct tu_transfer *transfers;
  uint32_t count;
  struct crossing *crossings;
  uint32_t crossing_count;
  uint32_t *hop_first; /* [count + 1]: index in `hops` of the first hop of each transfer */
  uint32_t *hops;      /* for each hop of each transfer: index in `crossings` of the pair that the hop crosses */
  uint32_t *used;      /* [step * crossing_count + crossing]: number of links of the pair that are in use in the step */
  /* the transfers in the order in which they are packed: first those that cross the pairs with the highest load */
  uint32_t *sorted;
  uint64_t looks;
};

static void close_packing(struct packing *p) {
  free(p->crossings);
  free(p->hop_first);
  free(p->hops);
  free(p->used);
  free(p->sorted);
}

void tu_schedule_fini(struct tu_schedule *schedule) {
  free(schedule->step);
  free(schedule->order);
  free(schedule->link_first);
  free(schedule->links);
  *schedule = (struct tu_schedule){0};
}

static int compare_crossings(const void *left, const void *right) {
  const struct crossing *a = left, *b = right;
  if (a->a != b->a) return a->a < b->a ? -1 : 1;
  return a->b < b->b ? -1 : a->b > b->b;
}

static struct crossing crossing_of(uint32_t from, uint32_t to) {
  return (struct crossing){.a = (uint32_t)tu_min(from, to), .b = (uint32_t)tu_max(from, to)};
}

static uint32_t find_crossing(const struct packing *p, uint32_t from, uint32_t to) {
  struct crossing key = crossing_of(from, to);
  const struct crossing *found =
      bsearch(&key, p->crossings, p->crossing_count, sizeof *p->crossings, compare_crossings);
  return (uint32_t)(found - p->crossings);
}

/* Lists all crossings (pairs of nodes that transfers cross) without duplicates, and the crossings of each transfer. */
static tutti_err open_packing(struct packing *p, struct tu_error *error) {
  const struct tu_cluster *c = p->cluster;
  size_t hops = 0;
  for (uint32_t t = 0; t < p->count; t++) hops += p->transfers[t].hops;
  p->crossings = tu_allocate(hops + 1, sizeof *p->crossings);
  p->hops = tu_allocate(hops + 1, sizeof *p->hops);
  p->hop_first = tu_allocate(p->count + 1, sizeof *p->hop_first);
  p->sorted = tu_allocate(p->count + 1, sizeof *p->sorted);
  for (uint32_t t = 0; t < p->count; t++)
    for (uint32_t h = 0; h < p->transfers[t].hops; h++) {
      const uint32_t *n = p->transfers[t].nodes + h;
      struct crossing crossing = crossing_of(n[0], n[1]);
      crossing.room = n[0] == n[1] ? 0 : tu_cluster_usable(c, n[0], n[1]);
      if (crossing.room == 0)
        return tu_fail(error, TUTTI_ERR_ARGUMENT, "transfer %u, hop %u: there is no usable link between %s and %s", t,
                       h, tu_node_name(c, n[0]).chars, tu_node_name(c, n[1]).chars);
      p->crossings[p->crossing_count++] = crossing;
    }
  qsort(p->crossings, p->crossing_count, sizeof *p->crossings, compare_crossings);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < p->crossing_count; i++)
    if (kept == 0 || compare_crossings(&p->crossings[kept - 1], &p->crossings[i]) != 0)
      p->crossings[kept++] = p->crossings[i];
  p->crossing_count = kept;
  for (uint32_t t = 0, hop = 0; t < p->count; t++) {
    for (uint32_t h = 0; h < p->transfers[t].hops; h++) {
      uint32_t i = p->hops[hop++] = find_crossing(p, p->transfers[t].nodes[h], p->transfers[t].nodes[h + 1]);
      p->crossings[i].load++;
    }
    p->hop_first[t + 1] = hop;
  }
  return TUTTI_OK;
}

/* Puts a transfer into a step. Returns false if the step has no free links for it. A route may cross a pair twice, and
 * then needs two of its links. */
static bool put(struct packing *p, uint32_t transfer, uint32_t step) {
  uint32_t *used = p->used + (size_t)step * p->crossing_count, hop = p->hop_first[transfer];
  for (; hop < p->hop_first[transfer + 1]; hop++) {
    p->looks++;
    if (used[p->hops[hop]] == p->crossings[p->hops[hop]].room) break;
    used[p->hops[hop]]++;
  }
  if (hop == p->hop_first[transfer + 1]) return true;
  while (hop-- > p->hop_first[transfer]) used[p->hops[hop]]--;
  return false;
}

static void take(struct packing *p, uint32_t transfer, uint32_t step) {
  uint32_t *used = p->used + (size_t)step * p->crossing_count;
  for (uint32_t hop = p->hop_first[transfer]; hop < p->hop_first[transfer + 1]; hop++) used[p->hops[hop]]--;
}

static void empty_steps(struct packing *p) {
  memset(p->used, 0, (size_t)p->count * p->crossing_count * sizeof *p->used);
}

/* Puts each transfer into the first step with enough free links. Returns the number of steps; 0: a transfer does not
 * fit even into an empty step. */
static uint32_t pack_first_fit(struct packing *p, uint32_t step[]) {
  uint32_t steps = 0;
  empty_steps(p);
  for (uint32_t i = 0; i < p->count; i++) {
    uint32_t t = p->sorted[i], s = 0;
    while (s < p->count && !put(p, t, s)) s++;
    if (s == p->count) return 0;
    step[t] = s;
    steps = (uint32_t)tu_max(steps, s + 1);
  }
  return steps;
}

/* Sorts the transfers by the load of the pairs of nodes that they cross: the sum, over their hops, of the pair's
 * crossings per link. The transfer with the highest sum comes first. */
static void sort_transfers(struct packing *p) {
  uint64_t *weight = tu_allocate(p->count + 1, sizeof *weight);
  for (uint32_t t = 0; t < p->count; t++) {
    for (uint32_t hop = p->hop_first[t]; hop < p->hop_first[t + 1]; hop++) {
      const struct crossing *c = &p->crossings[p->hops[hop]];
      weight[t] += (uint64_t)c->load * 1024 / c->room;
    }
    uint32_t at = t;
    for (; at > 0 && weight[p->sorted[at - 1]] < weight[t]; at--) p->sorted[at] = p->sorted[at - 1];
    p->sorted[at] = t;
  }
  free(weight);
}

/* Tries all ways to pack the transfers into `steps` steps. Of several empty steps, tries only the first, because they
 * are equivalent. Returns 1 if a way was found, 0 if there is none, -1 if the search limit was reached. */
static int pack_exactly(struct packing *p, uint32_t steps, uint32_t step[]) {
  uint32_t *next = tu_allocate(p->count + 1, sizeof *next), *open = tu_allocate(p->count + 1, sizeof *open);
  uint32_t depth = 0;
  int found = -1;
  empty_steps(p);
  while (p->looks < LOOKS_MAX) {
    if (depth == p->count) {
      found = 1;
      break;
    }
    uint32_t t = p->sorted[depth], most = (uint32_t)tu_min(steps, open[depth] + 1);
    p->looks++;
    while (next[depth] < most && !put(p, t, next[depth])) next[depth]++;
    if (next[depth] < most) {
      step[t] = next[depth]++;
      open[depth + 1] = (uint32_t)tu_max(open[depth], step[t] + 1);
      next[++depth] = 0;
      continue;
    }
    if (depth == 0) {
      found = 0;
      break;
    }
    depth--;
    take(p, p->sorted[depth], step[p->sorted[depth]]);
  }
  free(next);
  free(open);
  return found;
}

/* Assigns a link to each hop of each transfer, in the order of the timesteps. */
static void assign_links(const struct packing *p, struct tu_schedule *s) {
  s->link_first = tu_allocate(p->count + 1, sizeof *s->link_first);
  s->links = tu_allocate(p->hop_first[p->count] + 1, sizeof *s->links);
  memcpy(s->link_first, p->hop_first, (p->count + 1) * sizeof *s->link_first);
  uint32_t *taken = tu_allocate(p->crossing_count + 1, sizeof *taken);
  for (uint32_t i = 0; i < p->count; i++) {
    if (i > 0 && s->step[s->order[i]] != s->step[s->order[i - 1]]) memset(taken, 0, p->crossing_count * sizeof *taken);
    for (uint32_t hop = p->hop_first[s->order[i]]; hop < p->hop_first[s->order[i] + 1]; hop++) {
      const struct crossing *c = &p->crossings[p->hops[hop]];
      s->links[hop] = tu_cluster_link_between(p->cluster, c->a, c->b, taken[p->hops[hop]]++);
    }
  }
  free(taken);
}

/* Sorts `order` by step, then by transfer. */
static void sort_by_step(struct tu_schedule *s) {
  uint32_t *first = tu_allocate(s->count + 2, sizeof *first);
  for (uint32_t t = 0; t < s->count; t++) first[s->step[t] + 1]++;
  for (uint32_t i = 0; i < s->count; i++) first[i + 1] += first[i];
  for (uint32_t t = 0; t < s->count; t++) s->order[first[s->step[t]]++] = t;
  free(first);
}

static tutti_err start(const struct tu_cluster *cluster, const struct tu_transfer transfers[], uint32_t count,
                       struct packing *p, struct tu_schedule *s, struct tu_error *error) {
  *s = (struct tu_schedule){.count = count};
  *p = (struct packing){.cluster = cluster, .transfers = transfers, .count = count};
  if (count > TU_SCHEDULE_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "expected up to %u transfers, found %u", TU_SCHEDULE_MAX, count);
  tutti_err err = open_packing(p, error);
  if (err != TUTTI_OK) return err;
  for (uint32_t t = 0; t < count; t++)
    for (uint32_t hop = p->hop_first[t]; hop < p->hop_first[t + 1]; hop++) {
      const struct crossing *c = &p->crossings[p->hops[hop]];
      uint32_t own = 0;
      for (uint32_t k = p->hop_first[t]; k < p->hop_first[t + 1]; k++) own += p->hops[k] == p->hops[hop];
      if (own > c->room)
        return tu_fail(
            error, TUTTI_ERR_ARGUMENT,
            "transfer %u: the route crosses between chips (%s, %s) %u times, but this pair has only %u usable links", t,
            tu_node_name(cluster, c->a).chars, tu_node_name(cluster, c->b).chars, own, c->room);
      s->bound = (uint32_t)tu_max(s->bound, (c->load + c->room - 1) / c->room);
    }
  s->step = tu_allocate(count + 1, sizeof *s->step);
  s->order = tu_allocate(count + 1, sizeof *s->order);
  s->bound = (uint32_t)tu_max(s->bound, count > 0);
  return TUTTI_OK;
}

/* Assigns links to the hops of the transfer. A hop crosses a pair of nodes, and gets the link of this pair that becomes
 * free first. free_at[link]: first step in which the link is free. */
static void take_links(const struct packing *p, uint32_t transfer, uint32_t free_at[], struct tu_schedule *s) {
  uint32_t step = 0;
  for (uint32_t hop = p->hop_first[transfer]; hop < p->hop_first[transfer + 1]; hop++) {
    const struct crossing *c = &p->crossings[p->hops[hop]];
    uint32_t best = TU_NONE;
    for (uint32_t k = 0; k < c->room; k++) {
      uint32_t link = tu_cluster_link_between(p->cluster, c->a, c->b, k);
      bool own = false; /* true: an earlier hop of this route uses the link; each hop needs a link of its own */
      for (uint32_t h = p->hop_first[transfer]; h < hop; h++) own |= s->links[h] == link;
      if (!own && (best == TU_NONE || free_at[link] < free_at[best])) best = link;
    }
    s->links[hop] = best;
    step = (uint32_t)tu_max(step, free_at[best]);
  }
  s->step[transfer] = step;
  for (uint32_t hop = p->hop_first[transfer]; hop < p->hop_first[transfer + 1]; hop++)
    free_at[s->links[hop]] = step + 1;
}

tutti_err tu_schedule_in_order(const struct tu_cluster *cluster, const struct tu_transfer transfers[], uint32_t count,
                               const uint32_t *order, struct tu_schedule *schedule, struct tu_error *error) {
  struct packing p;
  tutti_err err = start(cluster, transfers, count, &p, schedule, error);
  if (err == TUTTI_OK) {
    struct tu_schedule *s = schedule;
    uint32_t *free_at = tu_allocate(cluster->link_count + 1, sizeof *free_at);
    s->link_first = tu_allocate(count + 1, sizeof *s->link_first);
    s->links = tu_allocate(p.hop_first[count] + 1, sizeof *s->links);
    memcpy(s->link_first, p.hop_first, (count + 1) * sizeof *s->link_first);
    for (uint32_t i = 0; i < count; i++) {
      uint32_t t = order ? order[i] : i;
      take_links(&p, t, free_at, s);
      s->steps = (uint32_t)tu_max(s->steps, s->step[t] + 1);
    }
    sort_by_step(s);
    free(free_at);
  }
  close_packing(&p);
  if (err != TUTTI_OK) tu_schedule_fini(schedule);
  return err;
}

tutti_err tu_schedule_find(const struct tu_cluster *cluster, const struct tu_transfer transfers[], uint32_t count,
                           struct tu_schedule *schedule, struct tu_error *error) {
  struct packing p;
  tutti_err err = start(cluster, transfers, count, &p, schedule, error);
  if (err == TUTTI_OK) {
    struct tu_schedule *s = schedule;
    uint32_t *fewer = tu_allocate(count + 1, sizeof *fewer);
    p.used = tu_allocate((size_t)count * p.crossing_count + 1, sizeof *p.used);
    sort_transfers(&p);
    s->steps = pack_first_fit(&p, s->step);
    p.looks = 0;
    for (int found = 1; found == 1 && s->steps > s->bound;) {
      found = pack_exactly(&p, s->steps - 1, fewer);
      if (found == 1) memcpy(s->step, fewer, count * sizeof *fewer), s->steps--;
      if (found == 0) s->bound = s->steps;
    }
    p.looks = 0;
    for (int found = 0; found == 0 && s->steps > s->bound;) {
      found = pack_exactly(&p, s->bound, fewer);
      if (found == 1) memcpy(s->step, fewer, count * sizeof *fewer), s->steps = s->bound;
      if (found == 0) s->bound++;
    }
    free(fewer);
    sort_by_step(s);
    assign_links(&p, s);
  }
  close_packing(&p);
  if (err != TUTTI_OK) tu_schedule_fini(schedule);
  return err;
}
