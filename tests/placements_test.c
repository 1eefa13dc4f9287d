/* test: fast timeout=180 */
/* placements_test.c: plans for ranks on several hosts. Proves the plans that the built-in table selects for random
 * placements of up to 64 ranks on up to 9 hosts. Counts what crosses between hosts. */
#include <stdio.h>

#include "algo/composite.h"
#include "algo/tuning.h"
#include "check/check.h"
#include "plan/plan_messages.h"
#include "test.h"

enum { RANKS_MAX = 64, HOSTS_MAX = 9 };

/* ---- random placements ---- */

struct place {
  uint32_t ranks, host[RANKS_MAX];
  struct tu_placement *placement; /* NULL: one host */
  uint32_t group;
  char text[RANKS_MAX + 1]; /* a letter for the host of each rank */
};

static uint32_t draw(uint64_t *seed, uint32_t low, uint32_t high) {
  return low + (uint32_t)(tu_random(seed) % (high - low + 1));
}

static void finish(struct place *p) {
  struct tu_error error;
  uint32_t count[HOSTS_MAX] = {0}, common = 0;
  for (uint32_t r = 0; r < p->ranks; r++) {
    p->text[r] = (char)('a' + p->host[r]);
    count[p->host[r]]++;
  }
  for (uint32_t h = 0; h < HOSTS_MAX; h++)
    if (count[h]) common = common ? tu_divisor(common, count[h]) : count[h];
  /* locality groups of half a host or a whole one */
  p->group = common % 2 == 0 && common > 2 ? common / 2 : common > 1 && common < p->ranks ? common : 0;
  CHECK(tu_placement_create(p->host, p->ranks, &p->placement, &error) == TUTTI_OK, "%s", error.text);
}

/* Hosts of equal size or not; their ranks consecutive, dealt in turn, or in any order. */
static struct place draw_place(uint64_t *seed) {
  struct place p = {.ranks = 0};
  uint32_t hosts = draw(seed, 1, HOSTS_MAX), each = draw(seed, 1, RANKS_MAX / hosts);
  bool equal = draw(seed, 0, 1);
  for (uint32_t h = 0; h < hosts; h++) {
    uint32_t size = equal ? each : draw(seed, 1, each);
    for (uint32_t i = 0; i < size; i++) p.host[p.ranks++] = h;
  }
  uint32_t form = draw(seed, 0, 2);
  if (form == 1 && equal)
    for (uint32_t r = 0; r < p.ranks; r++) p.host[r] = r % hosts;
  for (uint32_t r = p.ranks; form == 2 && r-- > 1;) {
    uint32_t other = draw(seed, 0, r), host = p.host[r];
    p.host[r] = p.host[other];
    p.host[other] = host;
  }
  finish(&p);
  return p;
}

/* ---- proofs ---- */

static void prove(const struct place *p, const struct tu_wanted *wanted, struct tu_build *what, uint64_t seed) {
  struct tu_check_report report;
  const struct tu_algorithm *a = what->algorithm;
  struct tu_plan *plan = tu_plan_build(what);
  CHECK(tu_check(plan, 1, &report), "TEST_SEED=%llu: hosts %s: %s.%s, %zu bytes, root %u%s, %u segments: %s",
        (unsigned long long)seed, p->text, tu_collectives[wanted->collective].name, a->name, wanted->bytes, what->root,
        what->in_place ? ", in place" : "", what->segments, report.text);
  CHECK(!wanted->rank_order || plan->rank_order, "hosts %s: %s.%s is not in rank order", p->text,
        tu_collectives[wanted->collective].name, a->name);
  tu_plan_destroy(plan);
}

static void prove_selected(const struct place *p, tutti_collective c, uint64_t *seed) {
  static const size_t sizes[] = {0, 8, 8 << 10, 64 << 10, 1 << 20, 16 << 20, SIZE_MAX};
  uint64_t before = *seed;
  const char *why;
  const struct tu_wanted wanted = {.collective = c,
                                   .ranks = p->ranks,
                                   .bytes = sizes[draw(seed, 0, 6)],
                                   .rank_order = tu_reduces(c) && draw(seed, 0, 3) == 0,
                                   .any_blocks = tu_collectives[c].vector,
                                   .group = p->group,
                                   .placement = p->placement,
                                   .lanes = c != TUTTI_BARRIER && draw(seed, 0, 3) == 0 ? TU_LANES_MAX : 0};
  const struct tu_algorithm *a = tu_tuning_select(NULL, &wanted);
  CHECK(tu_algorithm_serves(a, &wanted, &why), "%s: %s", a->name, why);
  CHECK(wanted.lanes <= tu_build_lanes_max(a), "%s does not support %u lanes", a->name, wanted.lanes);
  struct tu_build what = {.algorithm = a,
                          .ranks = p->ranks,
                          .root = tu_collectives[c].rooted ? draw(seed, 0, p->ranks - 1) : 0,
                          .in_place = draw(seed, 0, 1),
                          .rank = TU_ALL_RANKS,
                          .segments = c != TUTTI_BARRIER && draw(seed, 0, 3) == 0 ? 3 : 0,
                          .lanes = wanted.lanes,
                          .placement = tu_wanted_placement(&wanted)};
  prove(p, &wanted, &what, before);
}

static void test_selected(void) {
  uint64_t seed = test_seed();
  for (int round = 0; round < 500; round++) {
    struct place p = draw_place(&seed);
    for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c))
      if (tu_collectives[c].family != TUTTI_SEND) prove_selected(&p, c, &seed);
    tu_placement_destroy(p.placement);
  }
}

/* Algorithms that the built-in table does not select everywhere: those of the table of algorithms, and composites of
 * three levels. */
static void test_all(void) {
  static const struct tu_composite_example more[] = {
      {TUTTI_ALLREDUCE, "rs:direct/2+rs:direct/h+ar:ring+ag:direct/h+ag:direct/2"},
      {TUTTI_ALLREDUCE, "re:direct/2+re:binomial/h+ar:recursive_doubling+bc:binomial/h+bc:direct/2"},
      {TUTTI_ALLREDUCE, "rs:direct/2+re:direct/h+ar:ring+bc:direct/h+ag:direct/2"},
      {TUTTI_REDUCE, "re:direct/2+re:line/h+re:binomial"},
      {TUTTI_BROADCAST, "bc:chain+bc:binomial/h+bc:direct/3"},
      {TUTTI_ALLGATHER, "ag:direct/2+ag:bucket/h+ag:direct"},
      {TUTTI_ALLGATHER, "ag:direct/h+ag:bucket"},
      {TUTTI_REDUCE_SCATTER, "rs:bucket+rs:direct/h+rs:direct/2"},
  };
  static const char *const places[] = {"aabb", "abab", "aaab", "abcab", "baacbca", "aaaabbbb", "abababcc", "abcdabcd"};
  const size_t count = sizeof more / sizeof more[0];
  uint64_t seed = test_seed();
  size_t proved = 0, by_more[sizeof more / sizeof more[0]] = {0};
  for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
    struct place p = {.ranks = (uint32_t)strlen(places[k])};
    for (uint32_t r = 0; r < p.ranks; r++) p.host[r] = (uint32_t)(places[k][r] - 'a');
    finish(&p);
    const struct tu_algorithm *a;
    for (size_t i = 0; i < count || (a = tu_algorithm_at(i - count)) != NULL; i++) {
      if (i < count) a = tu_algorithm_find(more[i].collective, more[i].name);
      CHECK(a, "there is no %s", more[i % count].name);
      if (!a) continue;
      const struct tu_wanted wanted = {.collective = a->collective, .ranks = p.ranks, .placement = p.placement};
      const char *why;
      if (!tu_algorithm_serves(a, &wanted, &why)) continue;
      proved++;
      if (i < count) by_more[i]++;
      for (uint32_t in_place = 0; in_place < 2; in_place++) {
        struct tu_build what = {.algorithm = a,
                                .ranks = p.ranks,
                                .root = tu_collectives[a->collective].rooted ? draw(&seed, 0, p.ranks - 1) : 0,
                                .in_place = in_place,
                                .rank = TU_ALL_RANKS,
                                .segments = in_place && a->collective != TUTTI_BARRIER ? 2 : 0,
                                .placement = tu_wanted_placement(&wanted)};
        if (a->collective != TUTTI_SEND) prove(&p, &wanted, &what, 0);
      }
    }
    tu_placement_destroy(p.placement);
  }
  CHECK(proved > tu_algorithm_count * 7, "only %zu plans", proved);
  for (size_t i = 0; i < count; i++) CHECK(by_more[i] > 0, "%s serves none of the placements", more[i].name);
}

/* ---- one rank's steps ---- */

static bool same_steps(const struct tu_plan *all, const struct tu_plan *one) {
  const struct tu_rank_plan *a = &all->rank[one->rank_first], *b = &one->rank[0];
  if (a->step_count != b->step_count || a->peer_count != b->peer_count || a->tmp_count != b->tmp_count) return false;
  for (uint32_t i = 0; i < a->step_count; i++) {
    const struct tu_step *s = &a->steps[i], *t = &b->steps[i];
    if (s->kind != t->kind || s->source.first != t->source.first || s->target.first != t->target.first ||
        s->source.count != t->source.count || s->joined != t->joined)
      return false;
    for (uint32_t k = 0; k < s->peer_count; k++)
      if (a->peers[s->peer_first + k] != b->peers[t->peer_first + k]) return false;
  }
  return true;
}

/* Each rank builds only its own steps. They are those of the plan of all ranks, which the other tests prove. */
static void test_one_rank(void) {
  uint64_t seed = test_seed();
  for (int round = 0; round < 40; round++) {
    struct place p = draw_place(&seed);
    for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c)) {
      if (tu_collectives[c].family == TUTTI_SEND) continue;
      const struct tu_wanted wanted = {.collective = c, .ranks = p.ranks, .bytes = 1 << 20, .placement = p.placement};
      struct tu_build what = {.algorithm = tu_tuning_select(NULL, &wanted),
                              .ranks = p.ranks,
                              .rank = TU_ALL_RANKS,
                              .placement = tu_wanted_placement(&wanted)};
      struct tu_plan *all = tu_plan_build(&what);
      what.rank = draw(&seed, 0, p.ranks - 1);
      struct tu_plan *one = tu_plan_build(&what);
      CHECK(same_steps(all, one), "hosts %s: %s.%s, rank %u", p.text, tu_collectives[c].name, what.algorithm->name,
            what.rank);
      tu_plan_destroy(all);
      tu_plan_destroy(one);
    }
    tu_placement_destroy(p.placement);
  }
}

/* ---- what crosses between hosts ---- */

/* Returns how many blocks the host receives from other hosts (or, if `sends`, sends to them) in the plan that is
 * selected for a long vector. */
static double crossing(const struct place *p, tutti_collective c, uint32_t root, uint32_t host, bool sends) {
  const struct tu_wanted wanted = {.collective = c, .ranks = p->ranks, .bytes = 16 << 20, .placement = p->placement};
  const struct tu_build what = {.algorithm = tu_tuning_select(NULL, &wanted),
                                .ranks = p->ranks,
                                .root = root,
                                .rank = TU_ALL_RANKS,
                                .placement = tu_wanted_placement(&wanted)};
  struct tu_plan *plan = tu_plan_build(&what);
  size_t count;
  struct tu_plan_message *messages = tu_plan_messages(plan, &count);
  double chunks = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t from = p->host[messages[i].from], to = p->host[messages[i].to];
    if (from != to && (sends ? from : to) == host) chunks += messages[i].chunks;
  }
  chunks /= plan->split;
  free(messages);
  tu_plan_destroy(plan);
  return chunks;
}

static void test_crossing(void) {
  static const char *const places[] = {"aabb", "abab", "aaab", "abcabc", "aabbccdd", "abbaccddaabb", "abbcccc", "ab"};
  for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
    struct place p = {.ranks = (uint32_t)strlen(places[k])};
    uint32_t size[HOSTS_MAX] = {0}, hosts = 0;
    for (uint32_t r = 0; r < p.ranks; r++) {
      p.host[r] = (uint32_t)(places[k][r] - 'a');
      hosts = (uint32_t)tu_max(hosts, p.host[r] + 1);
      size[p.host[r]]++;
    }
    finish(&p);
    for (uint32_t h = 0; h < hosts; h++) {
      for (uint32_t root = 0; root < p.ranks; root++) {
        double other = p.host[root] == h ? 0 : 1;
        CHECK(crossing(&p, TUTTI_BROADCAST, root, h, false) == other, "%s: broadcast from %u to host %u", places[k],
              root, h);
        CHECK(crossing(&p, TUTTI_REDUCE, root, h, true) == other, "%s: reduce to %u from host %u", places[k], root, h);
      }
      double blocks = crossing(&p, TUTTI_ALLGATHER, 0, h, false),
             sums = crossing(&p, TUTTI_REDUCE_SCATTER, 0, h, false),
             vector = crossing(&p, TUTTI_ALLREDUCE, 0, h, false), bound = 2.0 * (hosts - 1) / hosts;
      CHECK(blocks == p.ranks - size[h], "%s: allgather: %g blocks to host %u", places[k], blocks, h);
      CHECK(vector > bound - 1e-6 && vector < bound + 1e-6, "%s: allreduce: %g vectors to host %u", places[k], vector,
            h);
      CHECK(sums == (hosts - 1) * size[h], "%s: reduce_scatter: %g blocks to host %u", places[k], sums, h);
    }
    tu_placement_destroy(p.placement);
  }
}

/* ---- reading ---- */

static void test_read(void) {
  static const struct {
    const char *text;
    uint32_t ranks, hosts, each;
    bool order;
  } good[] = {{"2,2", 4, 2, 2, false}, {"aabb", 4, 2, 2, false}, {"bbaa", 4, 2, 2, false}, {"abab", 4, 2, 2, true},
              {"3,1", 4, 2, 0, false}, {"aba", 3, 2, 0, true},   {"1,1", 2, 2, 1, false},  {"aaaa", 4, 1, 0, false},
              {"5", 5, 1, 0, false},   {"aB", 2, 2, 1, false},   {"abc", 3, 3, 1, false},  {"2,3,4", 9, 3, 0, false}};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    struct tu_placement *p;
    struct tu_error error = {.text = ""};
    uint32_t ranks;
    CHECK(tu_placement_read(good[i].text, &ranks, &p, &error) == TUTTI_OK, "%s: %s", good[i].text, error.text);
    CHECK(ranks == good[i].ranks && (p ? p->hosts : 1) == good[i].hosts, "%s: %u ranks", good[i].text, ranks);
    CHECK(!p || (p->each == good[i].each && (p->order != NULL) == good[i].order), "%s: hosts of %u", good[i].text,
          p->each);
    for (uint32_t h = 0; p && h < p->hosts; h++)
      for (uint32_t i2 = tu_placement_first(p, h); i2 < p->end[h]; i2++)
        CHECK(tu_placement_host(p, i2) == h, "%s: position %u", good[i].text, i2);
    tu_placement_destroy(p);
  }
  static const char *const bad[] = {"", "2,", ",2", "0,2", "2,2,x", "a1", "a,b", "70000", "65536,1", "a b", "-1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct tu_placement *p;
    struct tu_error error = {.text = ""};
    uint32_t ranks;
    CHECK(tu_placement_read(bad[i], &ranks, &p, &error) == TUTTI_ERR_ARGUMENT && strstr(error.text, "abab"),
          "'%s' was taken: %s", bad[i], error.text);
  }
}

/* ---- one host ---- */

/* For ranks of one host, the rules for several hosts change nothing. */
static void test_one_host(void) {
  const struct tu_tuning *t = tu_tuning_builtin();
  static const size_t sizes[] = {0, 1 << 10, (1 << 10) + 1, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 26, SIZE_MAX};
  for (uint32_t i = 0; i < 10 * 9 * 3 * 4; i++)
    for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c)) {
      static const uint32_t ranks[] = {1, 2, 3, 4, 5, 8, 16, 32, 33, 64};
      struct tu_wanted wanted = {.collective = c,
                                 .ranks = ranks[i % 10],
                                 .bytes = sizes[i / 10 % 9],
                                 .group = i / 90 % 3 && ranks[i % 10] % 4 == 0 ? ranks[i % 10] / 2 : 0,
                                 .share = i / 90 % 3,
                                 .rank_order = tu_reduces(c) && (i / 270 & 1),
                                 .any_blocks = i / 270 & 2};
      if (tu_collectives[c].family == TUTTI_SEND) continue;
      const struct tu_algorithm *selected = tu_tuning_select(NULL, &wanted), *expected = NULL;
      uint32_t groups = wanted.group ? wanted.ranks / wanted.group : 1, share = (uint32_t)tu_max(wanted.share, 1);
      for (uint32_t k = 0; k < t->rule_count && !expected; k++) {
        const struct tu_rule *r = &t->rules[k];
        const struct tu_algorithm *a = tu_algorithm_in_groups(r->algorithm, wanted.group);
        const char *why;
        if (r->hosts_min > 1 || r->collective != tu_collectives[c].family || wanted.ranks < r->ranks_min ||
            wanted.ranks > r->ranks_max || groups < r->groups_min || groups > r->groups_max || share < r->share_min ||
            share > r->share_max || wanted.bytes < r->bytes_min || wanted.bytes > r->bytes_max)
          continue;
        if (tu_algorithm_serves(a, &wanted, &why)) expected = a;
      }
      CHECK(selected == expected, "%s, %u ranks, %zu bytes: %s", tu_collectives[c].name, wanted.ranks, wanted.bytes,
            selected->name);
      CHECK(!(selected->flags & TU_BY_HOSTS), "%s", selected->name);
    }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"selected", test_selected}, {"all", test_all},   {"one_rank", test_one_rank},
      {"crossing", test_crossing}, {"read", test_read}, {"one_host", test_one_host},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
