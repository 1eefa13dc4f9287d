/* sim_spread_test.c: tests that a contracted graph (with fewer nodes), and a graph of one rank that is spread
 * (extended) to all ranks, take the same time as the plan's own graph. */
#include "sim/sim_spread.h"

#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "algo/composite.h"
#include "sim/sim_internal.h"
#include "test.h"

static const struct tu_sim_cost costs[] = {{1e-6, 8e-11, 5e-11}, {1e-6, 0, 0}, {0, 1e-9, 1e-9}, {3e-7, 1e-10, 7e-9}};
enum { COSTS = sizeof costs / sizeof costs[0] };

/* Returns (time of b / time of a) - 1; 0: equal times; NAN: the two graphs send different messages. */
static double excess(const struct tu_sim *a, const struct tu_sim *b, const struct tu_sim_cost *cost) {
  struct tu_sim_report x, y;
  tu_sim_run(a, 12345, cost, &x);
  tu_sim_run(b, 12345, cost, &y);
  if (x.messages != y.messages || !test_near(x.bytes_sent_max, y.bytes_sent_max)) return NAN;
  if (test_near(x.time_s, y.time_s)) return 0;
  return y.time_s / x.time_s - 1;
}

/* Checks that two graphs of a plan take the same time, with several costs. `most`: maximum relative difference. */
static void compare(const struct tu_sim *a, const struct tu_sim *b, const struct tu_build *what, const char *how,
                    double most) {
  for (size_t i = 0; i < COSTS; i++) {
    double by = excess(a, b, &costs[i]);
    CHECK(fabs(by) <= most, "%s.%s, %u ranks, %u pieces, cost %zu, %s: time differs by %g",
          tu_collectives[what->algorithm->collective].name, what->algorithm->name, what->ranks, what->slot_pieces, i,
          how, by);
  }
}

static double time_when_late(const struct tu_sim *sim, const double *late) {
  struct tu_sim_course course = {.sim = sim, .chunk_bytes = 1, .alpha = 1e-6, .chunk_beta = 1e-7, .late = late};
  struct tu_sim_network *ports = tu_sim_ports_create(&course);
  tu_sim_play(&course, ports);
  double time = course.now;
  tu_sim_ports_destroy(ports);
  tu_sim_course_fini(&course);
  return time;
}

/* Compares the two graphs with one late rank: then the time depends on which node waits for which. */
static void compare_late(const struct tu_sim *a, const struct tu_sim *b, const struct tu_build *what) {
  double late[32] = {0};
  late[what->ranks / 2] = 3e-6;
  double x = time_when_late(a, late), y = time_when_late(b, late);
  CHECK(test_near(x, y), "%s.%s, %u ranks, one late: %.12g s, spread %.12g",
        tu_collectives[what->algorithm->collective].name, what->algorithm->name, what->ranks, x, y);
}

/* Returns true if every edge leads to a node of the right rank: the receiving rank of a message if the edge's field
 * `crosses` is set, otherwise the rank of its first node. */
static bool edges_lead_right(const struct tu_sim *sim) {
  bool right = true;
  for (uint32_t i = 0; i < sim->node_count; i++)
    for (uint32_t e = sim->nodes[i].edge; e != TU_NONE; e = sim->edges[e].next)
      right = right &&
              sim->nodes[sim->edges[e].node].rank == (sim->edges[e].crosses ? sim->nodes[i].to : sim->nodes[i].rank);
  return right;
}

static void spread(const struct tu_sim *all, struct tu_build what) {
  what.rank = 0;
  struct tu_sim *one = tu_sim_build(&what), *whole = tu_sim_spread(one, what.ranks);
  compare(all, whole, &what, "spread", 0);
  compare_late(all, whole, &what);
  CHECK(edges_lead_right(all) && edges_lead_right(whole) && all->edge_count == whole->edge_count,
        "%s.%s, %u ranks: edges lead to other ranks than they say", tu_collectives[what.algorithm->collective].name,
        what.algorithm->name, what.ranks);
  struct tu_sim *few = tu_sim_contract(one, TU_SIM_EXACT), *few_whole = tu_sim_spread(few, what.ranks);
  compare(all, few, &what, "contracted, one for all", 0);
  compare(all, few_whole, &what, "contracted and spread", 0);
  tu_sim_destroy(one);
  tu_sim_destroy(whole);
  tu_sim_destroy(few);
  tu_sim_destroy(few_whole);
}

static void contract_and_spread(struct tu_build what) {
  what.rank = TU_ALL_RANKS;
  struct tu_sim *all = tu_sim_build(&what);
  struct tu_sim *few = tu_sim_contract(all, TU_SIM_EXACT), *batches = tu_sim_contract(all, TU_SIM_BATCHES);
  CHECK(few->node_count <= all->node_count && batches->node_count <= few->node_count &&
            few->edge_count <= all->edge_count,
        "%s.%s, %u ranks: %u nodes and %u edges have become %u and %u, and %u in batches",
        tu_collectives[what.algorithm->collective].name, what.algorithm->name, what.ranks, all->node_count,
        all->edge_count, few->node_count, few->edge_count, batches->node_count);
  compare(all, few, &what, "contracted", 0);
  compare(all, batches, &what, "in batches", 0.2 + 1e-9);
  tu_sim_destroy(few);
  tu_sim_destroy(batches);
  if (what.algorithm->flags & TU_ROTATES) spread(all, what);
  tu_sim_destroy(all);
}

static void test_all(void) {
  uint32_t ranks_max = test_long() ? 20 : 9;
  for (size_t i = 0; tu_algorithm_at(i); i++) {
    const struct tu_algorithm *a = tu_algorithm_at(i);
    for (uint32_t n = 2; n <= ranks_max; n++) {
      if (!tu_algorithm_fits(a, n)) continue;
      contract_and_spread((struct tu_build){.algorithm = a, .ranks = n});
      contract_and_spread((struct tu_build){.algorithm = a, .ranks = n, .in_place = true});
      if (!(a->flags & TU_AGGREGATES)) continue;
      for (uint32_t pieces = 2; pieces < 2 * n; pieces *= 2)
        contract_and_spread((struct tu_build){.algorithm = a, .ranks = n, .slot_pieces = pieces, .chunks = n % 3});
    }
  }
}

/* In PAT with a power of two of ranks, no node becomes ready between merged reductions, so merging does not change the
 * time. */
static void test_batches(void) {
  for (uint32_t n = 2; n <= 64; n *= 2) {
    for (uint32_t pieces = 1; pieces <= n; pieces *= 2) {
      struct tu_build what = {
          .algorithm = tu_algorithm_find(TUTTI_REDUCE_SCATTER, "pat"), .ranks = n, .slot_pieces = pieces};
      struct tu_sim *one = tu_sim_build(&what), *batches = tu_sim_contract(one, TU_SIM_BATCHES);
      compare(one, batches, &what, "in batches", 0);
      tu_sim_destroy(one);
      tu_sim_destroy(batches);
    }
  }
}

/* If PAT sends its pieces in log2(N) messages, the contracted graph has only these messages, each of which waits for
 * all before it, and at most three reductions per message. */
static void test_sizes(void) {
  for (uint32_t log = 2; log <= 10; log++) {
    struct tu_build what = {.algorithm = tu_algorithm_find(TUTTI_ALLGATHER, "pat"), .ranks = 1u << log};
    what.slot_pieces = what.ranks / 2;
    struct tu_sim *one = tu_sim_build(&what), *few = tu_sim_contract(one, TU_SIM_EXACT);
    CHECK(one->node_count >= what.ranks, "%u ranks: %u nodes", what.ranks, one->node_count);
    CHECK(few->node_count == log && few->edge_count == log * (log - 1) / 2, "%u ranks: %u nodes, %u edges", what.ranks,
          few->node_count, few->edge_count);
    tu_sim_destroy(one);
    tu_sim_destroy(few);
    what.algorithm = tu_algorithm_find(TUTTI_REDUCE_SCATTER, "pat");
    one = tu_sim_build(&what);
    few = tu_sim_contract(one, TU_SIM_BATCHES);
    CHECK(few->node_count <= 4 * log, "%u ranks: %u nodes", what.ranks, few->node_count);
    tu_sim_destroy(one);
    tu_sim_destroy(few);
  }
}

/* Rank 5 starts late. It has something to send, as sim_spread.h requires of a late rank. */
static void test_late(void) {
  const double late[8] = {[5] = 1};
  const char *const names[] = {"ring", "recursive_doubling", "reduce_broadcast"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct tu_build what = {
        .algorithm = tu_algorithm_find(TUTTI_ALLREDUCE, names[i]), .ranks = 8, .rank = TU_ALL_RANKS};
    struct tu_sim *all = tu_sim_build(&what), *few = tu_sim_contract(all, TU_SIM_EXACT);
    double a = time_when_late(all, late), b = time_when_late(few, late);
    CHECK(a > 1 && test_near(a, b), "%s: %.12g s, contracted %.12g", names[i], a, b);
    tu_sim_destroy(all);
    tu_sim_destroy(few);
  }
}

/* ---- many ranks ---- */

/* Returns the CPU time of this process in seconds. Elapsed time would be wrong if the machine is busy with other
 * processes. */
static double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static long peak_mib(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

/* Simulates PAT on the graph of all ranks. Each rank sends log2(N) messages, one after the other; each has a power of
 * two of pieces. */
static void large_pat(tutti_collective collective, uint32_t ranks) {
  const struct tu_sim_cost cost = costs[0];
  double start = cpu_seconds();
  struct tu_build what = {.algorithm = tu_algorithm_find(collective, "pat"), .ranks = ranks, .slot_pieces = ranks / 2};
  struct tu_sim *one = tu_sim_build(&what), *few = tu_sim_contract(one, TU_SIM_BATCHES);
  struct tu_sim *all = tu_sim_spread(few, ranks);
  double built = cpu_seconds();
  struct tu_sim_report r;
  tu_sim_run(all, 1 << 20, &cost, &r);
  double ended = cpu_seconds(), sent = (1 << 20) * (1 - 1.0 / ranks);
  printf("  %s.pat, %u ranks: made in %.2f s, played in %.2f s: %.1f million messages a minute; %ld MiB\n",
         tu_collectives[collective].name, ranks, built - start, ended - built,
         (double)r.messages / (ended - built) * 60e-6, peak_mib());
  double time = tu_log2_ceil(ranks) * cost.alpha + sent * cost.beta;
  if (collective == TUTTI_REDUCE_SCATTER) time += sent * cost.gamma;
  CHECK(test_near(r.time_s, time) && r.messages == (uint64_t)tu_log2_ceil(ranks) * ranks, "%.12g s, expected %.12g",
        r.time_s, time);
  tu_sim_destroy(one);
  tu_sim_destroy(few);
  tu_sim_destroy(all);
}

/* Simulates hierarchical plans, and others with few messages, from the steps of all ranks. */
static void large_plan(tutti_collective collective, const char *name, uint32_t ranks, uint64_t messages) {
  struct tu_error error;
  const struct tu_algorithm *a =
      strchr(name, ':') ? tu_composite_find(collective, name, &error) : tu_algorithm_find(collective, name);
  double start = cpu_seconds();
  struct tu_sim *sim = tu_sim_build(&(struct tu_build){.algorithm = a, .ranks = ranks, .rank = TU_ALL_RANKS});
  double built = cpu_seconds();
  struct tu_sim_report r;
  tu_sim_run(sim, 1 << 20, &costs[0], &r);
  double ended = cpu_seconds();
  printf("  %s.%s, %u ranks: made in %.2f s, played in %.2f s: %.1f million messages a minute; %ld MiB\n",
         tu_collectives[collective].name, name, ranks, built - start, ended - built,
         (double)r.messages / (ended - built) * 60e-6, peak_mib());
  CHECK(r.messages == messages, "%s: %llu messages, expected %llu", name, (unsigned long long)r.messages,
        (unsigned long long)messages);
  CHECK(!test_long() || (ended - start < 120 && peak_mib() < 2048), "expected under 2 minutes and 2 GiB");
  tu_sim_destroy(sim);
}

static void test_large(void) {
  uint32_t log = test_long() ? 16 : 10, n = 1u << log, half = log / 2, group = 1u << half, groups = n / group;
  char name[TU_NAME_BYTES];
  large_pat(TUTTI_ALLGATHER, n);
  large_pat(TUTTI_REDUCE_SCATTER, n);
  snprintf(name, sizeof name, "bc:binomial+bc:binomial/%u", group);
  large_plan(TUTTI_BROADCAST, name, n, n - 1);
  snprintf(name, sizeof name, "re:binomial/%u+ar:recursive_doubling+bc:binomial/%u", group, group);
  large_plan(TUTTI_ALLREDUCE, name, n, 2 * (n - groups) + groups * (log - half));
  snprintf(name, sizeof name, "rs:recursive_halving/16+ar:recursive_doubling+ag:recursive_doubling/16");
  large_plan(TUTTI_ALLREDUCE, name, n, n * (4 + log));
  snprintf(name, sizeof name, "ag:recursive_doubling/%u+ag:recursive_doubling", group);
  large_plan(TUTTI_ALLGATHER, name, n, n * log);
  large_plan(TUTTI_ALLREDUCE, "rabenseifner", n, 2 * n * log);
  if (test_long()) large_plan(TUTTI_ALLGATHER, "bucket", 1024, 1024 * 1023);
}

static const struct test tests[] = {
    {"all", test_all}, {"batches", test_batches}, {"sizes", test_sizes}, {"late", test_late}, {"large", test_large},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
