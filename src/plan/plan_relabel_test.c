/* plan_relabel_test.c: tests relabelled plans. Plans of all algorithms are relabelled and proved again. With the ring
 * of a T3000 as order, messages go only between neighbours. */
#include "plan/plan_relabel.h"

#include "algo/algo.h"
#include "base/text.h"
#include "check/check.h"
#include "clusters.h"
#include "plan/plan_text.h"
#include "topology/ring.h"

static void shuffle(uint32_t order[], uint32_t count, uint64_t *seed) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t k = below(seed, i + 1);
    order[i] = order[k];
    order[k] = i;
  }
}

static uint64_t messages_of(const struct tu_plan *plan) {
  struct tu_check_report report;
  return tu_check(plan, 1, &report) ? report.messages : 0;
}

static void prove(const struct tu_plan *plan, const uint32_t order[], const char *what, uint64_t *more) {
  struct tu_plan *made;
  struct tu_error error = {.text = ""};
  struct tu_check_report report;
  tutti_err err = tu_plan_relabel(plan, order, &made, &error);
  CHECK(err == TUTTI_OK, "%s: %s", what, error.text);
  if (err != TUTTI_OK) return;
  for (uint32_t credits = 1; credits <= 3; credits += 2)
    CHECK(tu_check(made, credits, &report), "%s, %u credits: %s", what, credits, report.text);
  CHECK(made->root == (tu_collectives[plan->collective].rooted ? order[plan->root] : 0) && !made->rank_order,
        "%s: root %u", what, made->root);
  /* The number of messages is the same, unless a message has several receivers: then its pieces cannot be joined. */
  *more += report.messages > messages_of(plan);
  tu_plan_destroy(made);
}

static void all_algorithms(void) {
  uint64_t seed = test_seed(), more = 0;
  uint32_t ranks_max = test_long() ? 16 : 9, plans = 0, refused = 0;
  for (size_t i = 0; tu_algorithm_at(i); i++) {
    const struct tu_algorithm *a = tu_algorithm_at(i);
    for (uint32_t ranks = 2; ranks <= ranks_max; ranks++) {
      if (!tu_algorithm_fits(a, ranks) || a->flags & TU_OPEN_GROUPS) continue;
      for (int in_place = 0; in_place < 2; in_place++) {
        struct tu_build what = {.algorithm = a, .ranks = ranks, .in_place = in_place, .rank = TU_ALL_RANKS};
        what.root = tu_collectives[a->collective].rooted && a->collective != TUTTI_SEND ? below(&seed, ranks) : 0;
        what.slot_pieces = 1 + below(&seed, 4);
        struct tu_plan *plan = tu_plan_build(&what);
        uint32_t order[16];
        char name[160];
        do shuffle(order, ranks, &seed);
        while (ranks > 1 && order[0] == 0 && order[1] == 1 && ranks < 4); /* not the identity */
        snprintf(name, sizeof name, "%s.%s of %u ranks%s", tu_collectives[a->collective].name, a->name, ranks,
                 in_place ? ", in place" : "");
        bool own_order = a->collective == TUTTI_SCAN || a->collective == TUTTI_EXSCAN || a->collective == TUTTI_SEND;
        if (own_order) {
          struct tu_plan *made;
          struct tu_error error;
          bool same = true;
          for (uint32_t k = 0; k < ranks; k++) same &= order[k] == k;
          CHECK(same || (tu_plan_relabel(plan, order, &made, &error) == TUTTI_ERR_ARGUMENT &&
                         test_contains(error.text, "relabelled|order of the ranks")),
                "%s: not refused", name);
          refused += !same;
        } else {
          bool same = true;
          for (uint32_t k = 0; k < ranks; k++) same &= order[k] == k;
          if (!same) prove(plan, order, name, &more);
          plans++;
        }
        tu_plan_destroy(plan);
      }
    }
  }
  printf("  %u plans proved, %llu of them with more messages; %u refused\n", plans, (unsigned long long)more, refused);
  CHECK(refused > 0 && plans > 500 && more < plans / 4, "not enough came up");
}

/* The identity order changes nothing. */
static void identity(void) {
  static const uint32_t order[] = {0, 1, 2, 3, 4, 5};
  for (size_t i = 0; tu_algorithm_at(i); i++) {
    const struct tu_algorithm *a = tu_algorithm_at(i);
    uint32_t ranks = a->collective == TUTTI_SEND ? 2 : 6;
    if (!tu_algorithm_fits(a, ranks) || a->flags & TU_OPEN_GROUPS) continue;
    struct tu_plan *plan = tu_plan_build(&(struct tu_build){.algorithm = a, .ranks = ranks, .rank = TU_ALL_RANKS}),
                   *made;
    struct tu_text before = {0}, after = {0};
    if (tu_plan_relabel(plan, order, &made, NULL) != TUTTI_OK) abort();
    tu_plan_write(plan, &before);
    tu_plan_write(made, &after);
    CHECK(strcmp(before.chars, after.chars) == 0, "%s.%s changes", tu_collectives[a->collective].name, a->name);
    tu_text_fini(&before);
    tu_text_fini(&after);
    tu_plan_destroy(plan);
    tu_plan_destroy(made);
  }
}

/* Returns how many peers of the plan's messages are chips without a link to the chip of their rank. */
static uint32_t strangers(const struct tu_plan *plan, const struct tu_cluster *c) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < plan->ranks; rank++) {
    const struct tu_rank_plan *p = &plan->rank[rank];
    for (uint32_t i = 0; i < p->peer_count; i++) count += tu_cluster_usable(c, rank, p->peers[i]) == 0;
    for (uint32_t i = 0; i < p->operand_count; i++)
      count += p->operands[i].peer != TU_LOCAL && tu_cluster_usable(c, rank, p->operands[i].peer) == 0;
  }
  return count;
}

static void around(const struct tu_cluster *c) {
  static const struct {
    tutti_collective collective;
    const char *name;
  } plans[] = {{TUTTI_ALLGATHER, "bucket"},
               {TUTTI_REDUCE_SCATTER, "bucket"},
               {TUTTI_ALLREDUCE, "ring"},
               {TUTTI_ALLREDUCE, "bidirectional_ring"},
               {TUTTI_ALLGATHER, "bidirectional_full"},
               {TUTTI_ALLGATHER, "bidirectional_split"},
               {TUTTI_ALLTOALL, "ring"},
               {TUTTI_BROADCAST, "chain"}};
  struct tu_grid grid;
  struct tu_ring ring;
  tu_grid_find(c, &grid);
  tu_ring_find(c, &grid, &ring);
  CHECK(ring.kind == TU_RING, "%s has no ring", c->name);
  for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
    const struct tu_algorithm *a = tu_algorithm_find(plans[i].collective, plans[i].name);
    CHECK(a, "there is no %s", plans[i].name);
    if (!a) continue;
    for (int in_place = 0; in_place < 2; in_place++) {
      struct tu_build what = {.algorithm = a, .ranks = c->chip_count, .in_place = in_place, .rank = TU_ALL_RANKS};
      struct tu_plan *plan = tu_plan_build(&what), *made;
      struct tu_check_report report;
      struct tu_error error = {.text = ""};
      CHECK(tu_plan_relabel(plan, ring.order, &made, &error) == TUTTI_OK, "%s: %s", a->name, error.text);
      /* The proof includes the rank order of outputs: block b of every output is the input of rank b. */
      CHECK(tu_check(made, 1, &report), "%s on %s: %s", a->name, c->name, report.text);
      CHECK(strangers(plan, c) > 0, "%s: the ring of %s is that of the ranks' numbers", a->name, c->name);
      CHECK(strangers(made, c) == 0, "%s on %s: %u messages between chips that are not linked", a->name, c->name,
            strangers(made, c));
      tu_plan_destroy(made);
      tu_plan_destroy(plan);
    }
  }
  tu_ring_fini(&ring);
  tu_grid_fini(&grid);
}

static void t3000(void) {
  static const char *const reserve[] = {"none", "dispatch"};
  for (int i = 0; i < 2; i++) {
    struct tu_cluster *c = cluster_reserved("t3000", reserve[i]);
    around(c);
    tu_cluster_destroy(c);
  }
}

static void eight(const char *file) {
  static const char *const reserve[] = {"none", "dispatch"};
  struct tu_cluster *c;
  for (int i = 0; i < 2 && (c = cluster_shared(file)); i++) {
    if (tu_cluster_reserve(c, reserve[i], NULL) != TUTTI_OK) abort();
    around(c);
    tu_cluster_destroy(c);
  }
}
static void own_eight(void) { eight("own/eight.yaml"); }
static void real_t3000(void) { eight("t3k_cluster_desc.yaml"); }

/* Tests a composite of lines over groups of four, which are the rows of a mesh whose chips have other numbers. */
static void rows_then_columns(void) {
  struct tu_cluster *c = cluster_of("t3000");
  struct tu_error error = {.text = ""};
  struct tu_grid grid;
  tu_grid_find(c, &grid);
  static const struct {
    tutti_collective collective;
    const char *name;
  } names[] = {{TUTTI_ALLGATHER, "ag:line/4+ag:line"}, {TUTTI_REDUCE_SCATTER, "rs:line+rs:line/4"}};
  for (size_t i = 0; i < 2; i++) {
    const struct tu_algorithm *a = tu_algorithm_find(names[i].collective, names[i].name);
    CHECK(a, "there is no %s", names[i].name);
    if (!a) continue;
    struct tu_plan *plan = tu_plan_build(&(struct tu_build){.algorithm = a, .ranks = 8, .rank = TU_ALL_RANKS}), *made;
    struct tu_check_report report;
    CHECK(tu_plan_relabel(plan, grid.chip, &made, &error) == TUTTI_OK, "%s", error.text);
    CHECK(tu_check(made, 1, &report), "%s: %s", a->name, report.text);
    CHECK(strangers(made, c) == 0, "%s: %u messages between chips that are not linked", a->name, strangers(made, c));
    CHECK(report.messages == messages_of(plan), "%s: %llu messages", a->name, (unsigned long long)report.messages);
    tu_plan_destroy(plan);
    tu_plan_destroy(made);
  }
  tu_grid_fini(&grid);
  tu_cluster_destroy(c);
}

static void refusals(void) {
  const struct tu_algorithm *a = tu_algorithm_find(TUTTI_ALLGATHER, "bucket");
  struct tu_build what = {.algorithm = a, .ranks = 4, .rank = TU_ALL_RANKS};
  struct tu_plan *plan = tu_plan_build(&what), *made;
  struct tu_error error;
  CHECK(tu_plan_relabel(plan, (const uint32_t[]){0, 1, 2, 2}, &made, &error) == TUTTI_ERR_ARGUMENT && !made &&
            test_contains(error.text, "order of 4 ranks|once|position 3|rank 2"),
        "'%s'", error.text);
  CHECK(tu_plan_relabel(plan, (const uint32_t[]){0, 4, 2, 1}, &made, &error) == TUTTI_ERR_ARGUMENT &&
            test_contains(error.text, "order of 4 ranks|once|position 1|rank 4"),
        "'%s'", error.text);
  tu_plan_destroy(plan);
  what.rank = 1;
  plan = tu_plan_build(&what);
  CHECK(tu_plan_relabel(plan, (const uint32_t[]){1, 0, 2, 3}, &made, &error) == TUTTI_ERR_ARGUMENT &&
            test_contains(error.text, "steps of 1 of 4 ranks"),
        "'%s'", error.text);
  tu_plan_destroy(plan);
}

static const struct test tests[] = {{"all algorithms", all_algorithms},
                                    {"identity", identity},
                                    {"t3000", t3000},
                                    {"own eight", own_eight},
                                    {"real t3000", real_t3000},
                                    {"rows then columns", rows_then_columns},
                                    {"refusals", refusals}};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
