/* schedule_test.c: compares schedules with all orders and all packings of few transfers, checks bounds for larger
 * cases, and executes the command lists with link ends that run independently. */
#include "topology/schedule.h"

#include "clusters.h"
#include "topology/route.h"

struct case_of {
  struct tu_cluster *cluster;
  uint32_t count;
  struct tu_transfer transfers[64];
  uint32_t nodes[64][40];
};

static void close_case(struct case_of *k) { tu_cluster_destroy(k->cluster); }

static void add(struct case_of *k, uint32_t hops, const uint32_t nodes[]) {
  memcpy(k->nodes[k->count], nodes, (hops + 1) * sizeof *nodes);
  k->transfers[k->count] = (struct tu_transfer){hops, k->nodes[k->count]};
  k->count++;
}

/* Checks that no step uses a link twice, that each hop uses a link of the two nodes that it joins, and that
 * `order` is sorted by step. */
static void check_schedule(const struct case_of *k, const struct tu_schedule *s, const char *name) {
  const struct tu_cluster *c = k->cluster;
  uint32_t last = 0, steps = 0;
  bool *busy = tu_allocate((size_t)c->link_count * (s->steps + 1), sizeof *busy);
  CHECK(s->bound <= s->steps && s->count == k->count, "%s: %u steps, at least %u", name, s->steps, s->bound);
  for (uint32_t i = 0; i < k->count; i++) {
    uint32_t t = s->order[i], step = s->step[t];
    CHECK(step >= last && step < s->steps, "%s: transfer %u in step %u after %u", name, t, step, last);
    last = step;
    if (step + 1 > steps) steps = step + 1;
    CHECK(s->link_first[t + 1] - s->link_first[t] == k->transfers[t].hops, "%s: links of %u", name, t);
    for (uint32_t h = 0; h < k->transfers[t].hops; h++) {
      uint32_t l = s->links[s->link_first[t] + h], a = k->nodes[t][h], b = k->nodes[t][h + 1];
      const struct tu_cluster_link *link = &c->links[l];
      bool there =
          (link->ends[0].node == a && link->ends[1].node == b) || (link->ends[0].node == b && link->ends[1].node == a);
      CHECK(there && !link->reserved, "%s: transfer %u, hop %u: link %u", name, t, h, l);
      CHECK(!busy[(size_t)l * s->steps + step], "%s: link %u is held twice in step %u", name, l, step);
      busy[(size_t)l * s->steps + step] = true;
    }
  }
  CHECK(steps == s->steps, "%s: %u steps are used of %u", name, steps, s->steps);
  free(busy);
}

/* Simulates the execution of the command lists. lists[link]: transfers, ended by TU_NONE. A hop can run if the earlier
 * hops of its transfer have run and the transfer is first in the link's list. Each time, a random hop is tried. Returns
 * true if all transfers end. */
static bool play(const struct case_of *k, const struct tu_schedule *s, uint32_t *lists[], uint64_t *seed) {
  uint32_t *head = tu_allocate(k->cluster->link_count + 1, sizeof *head),
           *done = tu_allocate(k->count + 1, sizeof *done);
  uint32_t open = 0;
  for (uint32_t t = 0; t < k->count; t++) open += k->transfers[t].hops > 0;
  for (uint32_t idle = 0; open > 0 && idle < 64 * k->count + 1000; idle++) {
    uint32_t t = below(seed, k->count);
    if (done[t] == k->transfers[t].hops) continue;
    uint32_t link = s->links[s->link_first[t] + done[t]];
    if (lists[link][head[link]] != t) continue;
    head[link]++;
    open -= ++done[t] == k->transfers[t].hops;
    idle = 0;
  }
  free(head);
  free(done);
  return open == 0;
}

static uint32_t **lists_of(const struct case_of *k, const struct tu_schedule *s) {
  uint32_t **lists = tu_allocate(k->cluster->link_count + 1, sizeof *lists);
  for (uint32_t l = 0; l < k->cluster->link_count; l++) {
    uint32_t count = 0;
    lists[l] = tu_allocate(64 * 40 + 1, sizeof **lists);
    for (uint32_t i = 0; i < k->count; i++)
      for (uint32_t h = s->link_first[s->order[i]]; h < s->link_first[s->order[i] + 1]; h++)
        if (s->links[h] == l) lists[l][count++] = s->order[i];
    lists[l][count] = TU_NONE;
  }
  return lists;
}

static void free_lists(const struct case_of *k, uint32_t **lists) {
  for (uint32_t l = 0; l < k->cluster->link_count; l++) free(lists[l]);
  free(lists);
}

static void check_play(const struct case_of *k, const struct tu_schedule *s, uint64_t *seed, const char *name) {
  uint32_t **lists = lists_of(k, s);
  CHECK(play(k, s, lists, seed), "%s: the lists end in a deadlock", name);
  free_lists(k, lists);
}

/* The example of Tenstorrent's multi-chip guide: on a ring of four chips, each chip sends to the chip two hops further.
 * In the given order, the transfers take four steps; two steps are enough. */
static void guide(void) {
  struct case_of k = {.cluster = cluster_of("ring:4")};
  static const uint32_t ways[4][3] = {{3, 0, 1}, {0, 1, 2}, {1, 2, 3}, {2, 3, 0}};
  static const uint32_t better[] = {0, 2, 3, 1}, worse_steps[] = {0, 1, 2, 3};
  uint64_t seed = test_seed();
  for (int i = 0; i < 4; i++) add(&k, 2, ways[i]);
  struct tu_schedule naive, reordered, found;
  tutti_err err = tu_schedule_in_order(k.cluster, k.transfers, 4, NULL, &naive, NULL);
  if (err == TUTTI_OK) err = tu_schedule_in_order(k.cluster, k.transfers, 4, better, &reordered, NULL);
  if (err == TUTTI_OK) err = tu_schedule_find(k.cluster, k.transfers, 4, &found, NULL);
  CHECK(err == TUTTI_OK, "%s", tutti_err_name(err));
  CHECK(naive.steps == 4 && memcmp(naive.step, worse_steps, sizeof worse_steps) == 0, "in order: %u steps",
        naive.steps);
  CHECK(reordered.steps == 2 && reordered.step[0] == 0 && reordered.step[2] == 0 && reordered.step[3] == 1 &&
            reordered.step[1] == 1,
        "A, C, D, B: %u steps", reordered.steps);
  CHECK(found.steps == 2 && found.bound == 2, "found: %u steps, at least %u", found.steps, found.bound);
  check_schedule(&k, &naive, "naive");
  check_schedule(&k, &reordered, "reordered");
  check_schedule(&k, &found, "found");
  check_play(&k, &found, &seed, "found");
  check_play(&k, &naive, &seed, "naive");
  /* A negative example: each link's list begins with the transfer that crosses the link as its second hop. Such lists
   * deadlock. */
  uint32_t **lists = lists_of(&k, &naive);
  /* the two transfers of the links 3-0, 0-1, 1-2, 2-3 */
  static const uint32_t second_first[4][2] = {{3, 0}, {0, 1}, {1, 2}, {2, 3}};
  for (int i = 0; i < 4; i++) {
    uint32_t link = tu_cluster_link_between(k.cluster, (uint32_t)(i + 3) % 4, (uint32_t)i, 0);
    lists[link][0] = second_first[i][0];
    lists[link][1] = second_first[i][1];
  }
  CHECK(!play(&k, &naive, lists, &seed), "lists that lock each other out are played to their end");
  free_lists(&k, lists);
  tu_schedule_fini(&naive);
  tu_schedule_fini(&reordered);
  tu_schedule_fini(&found);
  close_case(&k);
}

/* Makes transfers along random walks in a random graph. A route visits no node twice. */
static void random_case(struct case_of *k, uint64_t *seed, uint32_t count, uint32_t chips, uint32_t links_max) {
  *k = (struct case_of){.cluster = cluster_random(seed, chips, 250 / chips, links_max)};
  while (k->count < count) {
    uint32_t nodes[8] = {below(seed, chips)}, hops = 0, wanted = below(seed, 6);
    for (; hops < wanted; hops++) {
      uint32_t n = tu_neighbour_count(k->cluster, nodes[hops]), next, again = 0;
      if (n == 0) break;
      next = tu_neighbours(k->cluster, nodes[hops])[below(seed, n)].node;
      for (uint32_t h = 0; h <= hops; h++) again += nodes[h] == next;
      if (again) break;
      nodes[hops + 1] = next;
    }
    add(k, hops, nodes);
  }
}

/* Tries all orders of the transfers and returns the least number of steps of tu_schedule_in_order. With one link per
 * pair this is the optimum. */
static uint32_t best_order(const struct case_of *k, uint32_t order[], uint32_t depth) {
  if (depth == k->count) {
    struct tu_schedule s;
    if (tu_schedule_in_order(k->cluster, k->transfers, k->count, order, &s, NULL) != TUTTI_OK) abort();
    uint32_t steps = s.steps;
    tu_schedule_fini(&s);
    return steps;
  }
  uint32_t least = TU_NONE;
  for (uint32_t i = depth; i < k->count; i++) {
    uint32_t t = order[i];
    order[i] = order[depth];
    order[depth] = t;
    uint32_t steps = best_order(k, order, depth + 1);
    if (steps < least) least = steps;
    order[depth] = order[i];
    order[i] = t;
  }
  return least;
}

/* Returns true if the transfers fit into `steps` steps: tries all ways to assign a step to each transfer. In a step no
 * pair may carry more transfers than it has links. */
static bool packs(const struct case_of *k, uint32_t steps, uint32_t step[], uint32_t depth) {
  if (depth == k->count) return true;
  for (uint32_t s = 0; s < steps; s++) {
    bool room = true;
    step[depth] = s;
    for (uint32_t h = 0; h < k->transfers[depth].hops && room; h++) {
      uint32_t a = k->nodes[depth][h], b = k->nodes[depth][h + 1], load = 0;
      for (uint32_t t = 0; t <= depth; t++)
        for (uint32_t i = 0; i < k->transfers[t].hops && step[t] == s; i++)
          load += (k->nodes[t][i] == a && k->nodes[t][i + 1] == b) || (k->nodes[t][i] == b && k->nodes[t][i + 1] == a);
      room = load <= tu_cluster_usable(k->cluster, a, b);
    }
    if (room && packs(k, steps, step, depth + 1)) return true;
  }
  return false;
}

static void against_brute_force(void) {
  uint64_t seed = test_seed();
  uint32_t rounds = test_long() ? 3000 : 300, gains = 0;
  for (uint32_t round = 0; round < rounds; round++) {
    struct case_of k;
    struct tu_schedule s, naive;
    uint32_t order[8], step[8], least = 0;
    random_case(&k, &seed, 1 + below(&seed, 7), 3 + below(&seed, 5), round % 2 ? 1 : 3);
    for (uint32_t i = 0; i < 8; i++) order[i] = i;
    tutti_err err = tu_schedule_find(k.cluster, k.transfers, k.count, &s, NULL);
    if (err == TUTTI_OK) err = tu_schedule_in_order(k.cluster, k.transfers, k.count, NULL, &naive, NULL);
    if (err != TUTTI_OK) abort();
    check_schedule(&k, &s, "found");
    check_schedule(&k, &naive, "naive");
    check_play(&k, &s, &seed, "found");
    check_play(&k, &naive, &seed, "naive");
    do least++;
    while (!packs(&k, least, step, 0));
    CHECK(s.steps == least && s.bound == least, "round %u: %u steps, at least %u; %u is the least", round, s.steps,
          s.bound, least);
    uint32_t best = best_order(&k, order, 0);
    CHECK(best >= s.steps && (round % 2 == 0 || best == s.steps), "round %u: an order takes %u steps", round, best);
    gains += naive.steps > s.steps;
    tu_schedule_fini(&s);
    tu_schedule_fini(&naive);
    close_case(&k);
  }
  printf("  better than the first order: %u of %u\n", gains, rounds);
  CHECK(gains > 0, "the first order is always the best");
}

/* Ten transfers must always be solved exactly; for more transfers, the bounds must hold. */
static void many(void) {
  uint64_t seed = test_seed();
  uint32_t open = 0;
  for (uint32_t round = 0; round < (test_long() ? 400u : 60u); round++) {
    struct case_of k;
    struct tu_schedule s;
    uint32_t count = round % 2 ? TU_SCHEDULE_EXACT : 11 + below(&seed, 50);
    random_case(&k, &seed, count, 4 + below(&seed, 16), 2);
    if (tu_schedule_find(k.cluster, k.transfers, k.count, &s, NULL) != TUTTI_OK) abort();
    check_schedule(&k, &s, "many");
    check_play(&k, &s, &seed, "many");
    CHECK(count > TU_SCHEDULE_EXACT || s.bound == s.steps, "round %u: %u to %u steps", round, s.bound, s.steps);
    open += s.bound < s.steps;
    tu_schedule_fini(&s);
    close_case(&k);
  }
  printf("  not proved the best: %u\n", open);
}

/* Tests so many transfers that the search cannot finish: its schedule and its lower bound must still be valid. */
static void beyond(void) {
  struct case_of k = {.cluster = cluster_of("ring:31")};
  struct tu_schedule s;
  uint64_t seed = 7;
  for (uint32_t t = 0; t < 62; t++) {
    uint32_t nodes[32], hops = 2 + below(&seed, 14);
    for (uint32_t h = 0; h <= hops; h++) nodes[h] = (t + h) % 31;
    add(&k, hops, nodes);
  }
  if (tu_schedule_find(k.cluster, k.transfers, k.count, &s, NULL) != TUTTI_OK) abort();
  check_schedule(&k, &s, "beyond");
  printf("  %u steps, %u at least\n", s.steps, s.bound);
  tu_schedule_fini(&s);
  close_case(&k);
}

/* Each chip of a ring of n chips sends clockwise to the chip `hops` further on, so each link carries `hops` transfers.
 * The expected numbers of steps are known; they are larger than `hops` where `hops` does not divide n. */
static void rings(void) {
  static const uint32_t known[][3] = {{4, 2, 2}, {5, 2, 3}, {6, 3, 3}, {6, 2, 2},
                                      {8, 4, 4}, {7, 2, 3}, {9, 3, 3}, {10, 3, 4}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    char name[20];
    uint32_t n = known[i][0], hops = known[i][1], nodes[40];
    snprintf(name, sizeof name, "ring:%u", n);
    struct case_of k = {.cluster = cluster_of(name)};
    struct tu_schedule s;
    for (uint32_t from = 0; from < n; from++) {
      for (uint32_t h = 0; h <= hops; h++) nodes[h] = (from + h) % n;
      add(&k, hops, nodes);
    }
    if (tu_schedule_find(k.cluster, k.transfers, k.count, &s, NULL) != TUTTI_OK) abort();
    CHECK(s.steps == known[i][2] && s.bound == s.steps, "%u chips, %u hops: %u to %u steps", n, hops, s.bound, s.steps);
    tu_schedule_fini(&s);
    close_case(&k);
  }
}

static void refusals(void) {
  struct case_of k = {.cluster = cluster_of("t3000")};
  struct tu_schedule s;
  struct tu_error error;
  add(&k, 1, (const uint32_t[]){0, 4});
  add(&k, 2, (const uint32_t[]){0, 1, 3});
  CHECK(tu_schedule_find(k.cluster, k.transfers, k.count, &s, &error) == TUTTI_ERR_ARGUMENT &&
            test_contains(error.text, "transfer 1, hop 1: |1 and 3|usable link"),
        "'%s'", error.text);
  k.count = 0;
  add(&k, 3, (const uint32_t[]){0, 4, 0, 4});
  CHECK(tu_schedule_in_order(k.cluster, k.transfers, k.count, NULL, &s, &error) == TUTTI_ERR_ARGUMENT &&
            test_contains(error.text, "transfer 0: |(0, 4)|3 times|1 usable"),
        "'%s'", error.text);
  CHECK(tu_schedule_find(k.cluster, k.transfers, 0, &s, &error) == TUTTI_OK && s.steps == 0, "none at all: %u",
        s.steps);
  tu_schedule_fini(&s);
  static struct tu_transfer nothing[TU_SCHEDULE_MAX + 1];
  CHECK(tu_schedule_find(k.cluster, nothing, TU_SCHEDULE_MAX + 1, &s, &error) == TUTTI_ERR_ARGUMENT &&
            test_contains(error.text, "4096 transfers|found 4097"),
        "'%s'", error.text);
  close_case(&k);
}

static const struct test tests[] = {{"guide", guide}, {"against brute force", against_brute_force},
                                    {"many", many},   {"beyond", beyond},
                                    {"rings", rings}, {"refusals", refusals}};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
