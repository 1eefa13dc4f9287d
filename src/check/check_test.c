/* check_test.c: plans that are right, and plans with one thing wrong that the checker must name. */
#include "check/check.h"

#include "algo/algo.h"
#include "plan/plan_text.h"
#include "test.h"

/* A plan as text, and the expected report. Flags: i (in place), e (equal blocks), o (rank order), 6 (blocks of six
 * chunks), u (uniform), c (canonical). */
struct example {
  const char *what;
  const char *collective;
  uint32_t ranks;
  const char *flags;
  const char *steps;
  const char *refusal; /* facts that the report must contain; NULL: the plan is proved */
};

static struct tu_plan *read_example(const struct example *e) {
  struct tu_text text = {0};
  tu_text_print(&text, "tutti-plan 1\ncollective %s\nalgorithm test\nranks %u\nroot 0\nsplit %u\n", e->collective,
                e->ranks, strchr(e->flags, '6') ? 6 : 1);
  tu_text_print(&text, "in_place %s\nequal_blocks %s\nrank_order %s\n", strchr(e->flags, 'i') ? "yes" : "no",
                strchr(e->flags, 'e') ? "yes" : "no", strchr(e->flags, 'o') ? "yes" : "no");
  if (strchr(e->flags, 'u')) tu_text_print(&text, "order uniform\n");
  if (strchr(e->flags, 'c')) tu_text_print(&text, "order canonical\n");
  tu_text_print(&text, "%s", e->steps);
  struct tu_plan *plan = NULL;
  struct tu_error error;
  if (tu_plan_read(text.chars, text.length, e->what, &plan, &error) != TUTTI_OK) FAIL("%s", error.text);
  tu_text_fini(&text);
  return plan;
}

#define SENDS_OF_3 \
  "rank 1\n0: send first in[0] to 0\nrank 2\n0: send first in[0] to 0\nrank 3\n0: send first in[0] to 0"

static const struct example examples[] = {
    {"one rank", "allreduce", 1, "", "rank 0\n0: copy first in[0] into out[0] final", NULL},
    {"one rank, in place", "allreduce", 1, "i", "rank 0\n0: copy first in[0] into out[0] final", NULL},
    {"one rank, nothing done", "allreduce", 1, "i", "rank 0\n", "out[0]|in[0] of rank 0|not marked"},
    {"one rank, no first", "allreduce", 1, "", "rank 0\n0: copy in[0] into out[0] final",
     "step 0|marked final|in[0] of rank 0"},
    {"one rank, no final", "allreduce", 1, "", "rank 0\n0: copy first in[0] into out[0]",
     "out[0]|divided sum|marked final"},
    {"one rank, final twice", "allreduce", 1, "i",
     "rank 0\n0: copy first in[0] into out[0] final\n1: copy out[0] into out[0] final after 0",
     "marked final|undivided"},
    {"one rank, scaled twice", "allreduce", 1, "i",
     "rank 0\n0: copy first in[0] into out[0] final\n1: copy first out[0] into out[0] after 0",
     "step 1|unscaled input|sum of in[0]"},
    {"reduce", "reduce", 2, "o",
     "rank 0\n0: recv_reduce first in[0] + @1 into out[0] final\nrank 1\n0: send first in[0] to 0", NULL},
    {"reduce, claimed order", "reduce", 2, "o",
     "rank 0\n0: recv_reduce @1 + first in[0] into out[0] final\nrank 1\n0: send first in[0] to 0", "rank order"},
    {"reduce, unclaimed order", "reduce", 2, "",
     "rank 0\n0: recv_reduce @1 + first in[0] into out[0] final\nrank 1\n0: send first in[0] to 0", NULL},
    {"canonical", "reduce", 4, "c",
     "rank 0\n0: recv_reduce first in[0] + @1 + @2 + @3 into out[0] tree final\n" SENDS_OF_3, NULL},
    {"canonical, as a tree, but swapped", "reduce", 4, "c",
     "rank 0\n0: recv_reduce @1 + first in[0] + @3 + @2 into out[0] tree final\n" SENDS_OF_3, NULL},
    {"canonical, halves swapped", "reduce", 4, "c",
     "rank 0\n0: recv_reduce @3 + @2 + @1 + first in[0] into out[0] tree final\n" SENDS_OF_3, NULL},
    {"canonical, but other pairs", "reduce", 4, "c",
     "rank 0\n0: recv_reduce first in[0] + @2 + @1 + @3 into out[0] tree final\n" SENDS_OF_3,
     "rank 0|out[0]|((0 2) (1 3))|canonical|((0 1) (2 3))"},
    {"canonical, but from left to right", "reduce", 4, "c",
     "rank 0\n0: recv_reduce first in[0] + @1 + @2 + @3 into out[0] final\n" SENDS_OF_3,
     "out[0]|(0 1 2 3)|((0 1) (2 3))"},
    {"canonical, but in a chain", "reduce", 4, "c",
     "rank 0\ntmp in[0] in[0]\n0: recv_reduce first in[0] + @1 into tmp[0]\n"
     "1: recv_reduce tmp[0] + @2 into tmp[1] after 0\n2: recv_reduce tmp[1] + @3 into out[0] final after "
     "1\n" SENDS_OF_3,
     "(((0 1) 2) 3)|((0 1) (2 3))"},
    {"canonical for three", "reduce", 3, "c",
     "rank 0\ntmp in[0]\n0: recv_reduce first in[0] + @1 into tmp[0]\n1: recv_reduce tmp[0] + @2 into out[0] final "
     "after 0\nrank 1\n0: send first in[0] to 0\nrank 2\n0: send first in[0] to 0",
     NULL},
    {"canonical, but divided later", "reduce", 2, "c",
     "rank 0\ntmp in[0]\n0: recv_reduce first in[0] + @1 into tmp[0]\n1: copy tmp[0] into out[0] final after 0\n"
     "rank 1\n0: send first in[0] to 0",
     "(0 1), and divided later|canonical"},
    {"uniform", "reduce", 4, "u6",
     "rank 0\n0: recv_reduce first in[0:6] + @1 + @2 + @3 into out[0:6] final\nrank 1\n0: send first in[0:6] to 0\n"
     "rank 2\n0: send first in[0:6] to 0\nrank 3\n0: send first in[0:6] to 0",
     NULL},
    {"uniform, but by chunk", "reduce", 3, "u6",
     "rank 0\n0: recv_reduce first in[0:3] + @1 + @2 into out[0:3] final\n"
     "1: recv_reduce @1 + first in[3:6] + @2 into out[3:6] final\nrank 1\n0: send first in[0:3] to 0\n"
     "1: send first in[3:6] to 0\nrank 2\n0: send first in[0:3] to 0\n1: send first in[3:6] to 0",
     "out[3]|(1 0 2)|one order|(0 1 2)"},
    {"a tree of two", "reduce", 2, "",
     "rank 0\n0: recv_reduce first in[0] + @1 into out[0] tree final\nrank 1\n0: send first in[0] to 0",
     "step 0|tree|three or more"},
    {"own input twice", "reduce", 2, "",
     "rank 0\n0: recv_reduce first in[0] + @1 + first in[0] into out[0]\nrank 1\n0: send first in[0] to 0",
     "rank 0's in[0]|second time"},
    {"too early final", "reduce", 3, "",
     "rank 0\ntmp in[0]\n0: recv_reduce first in[0] + @1 into tmp[0] final\n"
     "1: recv_reduce tmp[0] + @2 into out[0] final after 0\n"
     "rank 1\n0: send first in[0] to 0\nrank 2\n0: send first in[0] to 0",
     "marked final|ranks 0-1|undivided sum"},
    {"incomplete", "reduce", 3, "",
     "rank 0\n0: recv_reduce first in[0] + @1 into out[0]\nrank 1\n0: send first in[0] to 0\nrank 2",
     "sum of in[0] of ranks 0-1|divided sum of in[0] of ranks 0-2"},
    {"scaled elsewhere", "reduce", 2, "",
     "rank 0\ntmp in[0]\n0: recv from 1 into tmp[0]\n1: reduce first in[0] + first tmp[0] into out[0] final after 0\n"
     "rank 1\n0: send in[0] to 0",
     "unscaled input|rank 1|scale"},
    {"input written", "reduce", 2, "",
     "rank 0\n0: recv_reduce first in[0] + @1 into in[0]\nrank 1\n0: send first in[0] to 0", "writes chunk 0|input"},
    {"reduce of one", "reduce", 2, "", "rank 0\n0: recv_reduce @1 into out[0]\nrank 1\n0: send first in[0] to 0",
     "1 operands"},
    {"reduction in a copy", "broadcast", 2, "",
     "rank 0\n0: copy in[0] into out[0]\n1: send in[0] to 1\nrank 1\n0: recv_reduce out[0] + @0 into out[0]",
     "recv_reduce|broadcast"},
    {"mark in a copy", "broadcast", 2, "",
     "rank 0\n0: copy in[0] into out[0]\n1: send first in[0] to 1\nrank 1\n0: recv from 0 into out[0]",
     "mark|broadcast"},
    {"out of range", "broadcast", 2, "", "rank 0\n0: copy in[1] into out[0]\nrank 1",
     "source|1 chunks from chunk 1|buffer has 1"},
    {"no buffer", "broadcast", 2, "", "rank 0\nrank 1\n0: copy in[0] into out[0]", "buffer has 0"},
    {"unwritten", "broadcast", 2, "",
     "rank 0\n0: send in[0] to 1\n1: copy in[0] into out[0]\nrank 1\ntmp out[0]\n0: copy tmp[0] into out[0]\n"
     "1: recv from 0 into tmp[0] after 0",
     "chunk 0|source|written"},
    {"other size", "gather", 3, "",
     "rank 0\n0: copy in[0] into out[0]\n1: recv from 1 into out[2]\n2: recv from 2 into out[1]\n"
     "rank 1\n0: send in[0] to 0\nrank 2\n0: send in[0] to 0",
     "chunk 0|differ in size"},
    {"other size, but equal blocks", "gather", 3, "e",
     "rank 0\n0: copy in[0] into out[0]\n1: recv from 1 into out[2]\n2: recv from 2 into out[1]\n"
     "rank 1\n0: send in[0] to 0\nrank 2\n0: send in[0] to 0",
     "out[1] holds in[0] of rank 2|in[0] of rank 1"},
    {"other count", "gather", 2, "e", "rank 0\n0: recv from 1 into out[0:2]\nrank 1\n0: send in[0] to 0",
     "2 chunks|rank 1 sends 1"},
    {"scratch of another size", "gather", 2, "",
     "rank 0\ntmp in[0]\n0: copy in[0] into out[0]\n1: recv from 1 into tmp[0]\nrank 1\n0: send in[0] to 0",
     "chunk 0|differ in size"},
    {"never received", "broadcast", 2, "", "rank 0\n0: copy in[0] into out[0]\n1: send in[0] to 1\nrank 1",
     "rank 1 never receives|number 1"},
    {"never sent", "broadcast", 2, "", "rank 0\n0: copy in[0] into out[0]\nrank 1\n0: recv from 0 into out[0]",
     "message 1 from rank 0|lane 0|sends 0"},
    {"other lane", "broadcast", 2, "",
     "rank 0\n0: copy in[0] into out[0]\n1: send in[0] to 1 lane 1\nrank 1\n0: recv from 0 into out[0]",
     "rank 0|lane 0"},
    {"a peer twice", "broadcast", 2, "",
     "rank 0\n0: copy in[0] into out[0]\n1: send in[0] to 1,1\nrank 1\n0: recv from 0 into out[0]", "rank 1|twice"},
    {"write after write", "broadcast", 2, "",
     "rank 0\n0: copy in[0] into out[0]\n1: send in[0] to 1\n2: copy in[0] into out[0]\nrank 1\n0: recv from 0 into "
     "out[0]",
     "rank 0, step 2 (copy in[0] into out[0])|races with step 0"},
    {"write after read", "alltoall", 2, "i",
     "rank 0\n0: send in[1] to 1\n1: recv from 1 into out[1]\nrank 1\n0: send in[0] to 0\n1: recv from 0 into out[0] "
     "after 0",
     "races with step 0 (send in[1] to 1)"},
    {"read after write", "broadcast", 3, "",
     "rank 0\n0: copy in[0] into out[0]\n1: send in[0] to 1\nrank 1\n0: recv from 0 into out[0]\n1: send out[0] to 2\n"
     "rank 2\n0: recv from 1 into out[0]",
     "races with step 0"},
    {"exchange, slice by slice", "alltoall", 2, "i",
     "rank 0\n0: send in[1] to 1\n1: recv from 1 into out[1] after 0\nrank 1\n0: send in[0] to 0\n"
     "1: recv from 0 into out[0] after 0",
     NULL},
    {"ordered by way of another", "broadcast", 1, "i",
     "rank 0\ntmp in[0] in[0]\n0: copy in[0] into tmp[0]\n1: copy tmp[0] into tmp[1] after 0\n"
     "2: copy tmp[1] into out[0] after 1",
     NULL},
    {"overlap in a step", "allgather", 2, "e",
     "rank 0\ntmp out[0] out[0:2]\n0: copy in[0] into tmp[0]\n1: copy tmp[0:2] into tmp[1:3] after 0\nrank 1",
     "overlap"},
    /* Step 1 follows step 0 slice by slice, and step 2 follows step 1. But slice 0 of step 2 reads tmp[1:3], which
     * needs more than slice 0 of step 0. */
    {"slice order is not enough", "reduce_scatter", 2, "e",
     "rank 0\ntmp in[0:2] in[0:2] in[0:2] in[0:2]\n0: copy first in[0:2] into tmp[2:4]\n"
     "1: copy tmp[2:4] into tmp[4:6] after 0\n2: reduce tmp[4:6] + tmp[1:3] into tmp[6:8] after 1\nrank 1",
     "races with step 0"},
    {"the whole is enough", "reduce_scatter", 2, "e",
     "rank 0\ntmp in[0:2] in[0:2] in[0:2] in[0:2]\n0: copy first in[0:2] into tmp[2:4]\n"
     "1: copy tmp[2:4] into tmp[4:6] after 0\n2: reduce tmp[4:6] + tmp[1:3] into tmp[6:8] after 0,1\nrank 1",
     "chunk 0|source|written"},
    {"deadlock", "allgather", 2, "",
     "rank 0\n0: copy in[0] into out[0]\n1: recv from 1 into out[1]\n2: send in[0] to 1 after 1\n"
     "rank 1\n0: copy in[0] into out[1]\n1: recv from 0 into out[0]\n2: send in[0] to 0 after 1",
     "rank 0, step 1 (recv from 1 into out[1])|deadlock|message from rank 1|never reaches step 2"},
    {"deadlock of long messages", "allgather", 2, "",
     "rank 0\n0: copy in[0] into out[0]\n1: send in[0] to 1\n2: recv from 1 into out[1] after 1\n"
     "rank 1\n0: copy in[0] into out[1]\n1: send in[0] to 0\n2: recv from 0 into out[0] after 1",
     "deadlock|longer|channels"},
    {"crossed rings", "alltoall", 2, "e",
     /* Both ranks send twice before they receive. With one credit, the second send waits for the first message to be
      * taken. */
     "rank 0\ntmp in[0]\n0: send in[1] to 1\n1: send in[0] to 1 after 0\n2: recv from 1 into tmp[0] after 1\n"
     "3: recv from 1 into out[1] after 2\n4: copy in[0] into out[0]\n"
     "rank 1\ntmp in[0]\n0: send in[1] to 0\n1: send in[0] to 0 after 0\n2: recv from 0 into out[0] after 1\n"
     "3: recv from 0 into tmp[0] after 2\n4: copy in[1] into out[1]",
     "deadlock|free slot"},
    {"joined", "alltoall", 2, "e",
     "rank 0\ntmp in[0]\n0: copy in[0] into out[0]\n1: send in[1] to 1\n2: send in[0] to 1 joined\n"
     "3: recv from 1 into out[1]\n4: recv from 1 joined into tmp[0]\n"
     "rank 1\ntmp in[0]\n0: copy in[1] into out[1]\n1: send in[0] to 0\n2: send in[1] to 0 joined\n"
     "3: recv from 0 into out[0]\n4: recv from 0 joined into tmp[0]",
     NULL},
    {"joined at one end", "broadcast", 2, "",
     "rank 0\n0: copy in[0] into out[0]\n1: send in[0] to 1\n2: send in[0] to 1 joined\n"
     "rank 1\ntmp out[0]\n0: recv from 0 into out[0]\n1: recv from 0 into tmp[0]",
     "joined|both ends"},
    {"joined to nothing", "broadcast", 2, "",
     "rank 0\n0: copy in[0] into out[0]\n1: send in[0] to 1 joined\nrank 1\n0: recv from 0 joined into out[0]",
     "joined|first message from rank 0"},
    /* The second part of rank 0's joined message waits for an answer to its first part. */
    {"deadlock as one", "alltoall", 2, "e",
     "rank 0\n0: copy in[0] into out[0]\n1: send in[1] to 1\n2: recv from 1 into out[1]\n"
     "3: send in[1] to 1 joined after 2\n"
     "rank 1\ntmp in[0]\n0: copy in[1] into out[1]\n1: recv from 0 into out[0]\n2: send in[0] to 0 after 1\n"
     "3: recv from 0 joined into tmp[0]",
     "deadlock|joined messages|as one"},
    /* A deadlock if the join from rank 0 crosses as one and the join from rank 1 does not. Rank 1 can receive no part
     * before rank 0 has received the second part from rank 1. That part follows the first part, which follows the
     * message on lane 1, which answers what rank 1 receives. With both joins as one, or both apart, there is no
     * deadlock. */
    {"deadlock as one and apart", "alltoall", 2, "e6",
     "rank 0\n0: copy in[0:6] into out[0:6]\n1: send in[6] to 1\n2: recv from 1 into out[10:12] lane 1\n"
     "3: recv from 1 into out[6:8] after 2\n4: recv from 1 joined into out[8:10]\n"
     "5: send in[7] to 1 joined after 4\n6: send in[8:12] to 1 after 5\n"
     "rank 1\n0: copy in[6:12] into out[6:12]\n1: send in[0:2] to 0\n2: send in[2:4] to 0 joined\n"
     "3: recv from 0 into out[0]\n4: send in[4:6] to 0 lane 1 after 3\n5: recv from 0 joined into out[1]\n"
     "6: recv from 0 into out[2:6]",
     "deadlock|joined messages|as one"},
    {"barrier", "barrier", 2, "i",
     "rank 0\n0: send in[0] to 1\n1: recv from 1 into out[0] after 0\nrank 1\n0: send in[0] to 0\n"
     "1: recv from 0 into out[0] after 0",
     NULL},
    {"half a barrier", "barrier", 3, "",
     "rank 0\n0: send in[0] to 1\n1: recv from 2 into out[0]\nrank 1\n0: send in[0] to 2\n1: recv from 0 into out[0]\n"
     "rank 2\n0: send in[0] to 0\n1: recv from 1 into out[0]",
     "rank 0|leave|rank 1|entered"},
    {"scan", "scan", 2, "o",
     "rank 0\n0: copy first in[0] into out[0]\n1: send first in[0] to 1\nrank 1\n0: recv_reduce @0 + first in[0] into "
     "out[0]",
     NULL},
    {"scan with final", "scan", 2, "",
     "rank 0\n0: copy first in[0] into out[0]\n1: send first in[0] to 1\n"
     "rank 1\n0: recv_reduce @0 + first in[0] into out[0] final",
     "marked final|complete"},
    {"exscan, too much", "exscan", 2, "", "rank 0\nrank 1\n0: copy first in[0] into out[0]", "of ranks 1;"},
    {"set with gaps", "reduce", 4, "",
     "rank 0\ntmp in[0]\n0: recv_reduce first in[0] + @2 into tmp[0]\n1: recv_reduce tmp[0] + @1 into out[0] final "
     "after 0\n"
     "rank 1\ntmp in[0]\n0: recv_reduce first in[0] + @3 into tmp[0]\n1: send tmp[0] to 0 after 0\n"
     "rank 2\n0: send first in[0] to 0\nrank 3\n0: send first in[0] to 1",
     NULL},
    {"set with gaps, doubled", "reduce", 4, "",
     "rank 0\ntmp in[0]\n0: recv_reduce first in[0] + @2 into tmp[0]\n1: recv_reduce tmp[0] + @1 into out[0] final "
     "after 0\n"
     "rank 1\ntmp in[0]\n0: recv_reduce first in[0] + @2 + @3 into tmp[0]\n1: send tmp[0] to 0 after 0\n"
     "rank 2\n0: send first in[0] to 0,1\nrank 3\n0: send first in[0] to 1",
     "rank 2's in[0]|second time"},
};

static void test_examples(void) {
  for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
    const struct example *e = &examples[i];
    struct tu_plan *plan = read_example(e);
    if (!plan) continue;
    struct tu_check_report report;
    bool proved = tu_check(plan, 1, &report);
    CHECK(proved == !e->refusal, "%s: %s", e->what, proved ? "proved" : report.text);
    if (e->refusal)
      CHECK(test_contains(report.text, e->refusal), "%s: expected '%s' in '%s'", e->what, e->refusal, report.text);
    tu_plan_destroy(plan);
  }
}

/* Proves every algorithm with different numbers of credits, and with random options for algorithms that aggregate. */
static void test_table(void) {
  uint64_t seed = test_seed();
  uint32_t ranks_max = test_long() ? 64 : 24;
  const struct tu_algorithm *a;
  for (size_t i = 0; (a = tu_algorithm_at(i)) != NULL; i++) {
    uint32_t roots = tu_collectives[a->collective].rooted && a->collective != TUTTI_SEND ? UINT32_MAX : 1;
    for (uint32_t n = 1; n <= ranks_max; n++) {
      if (!tu_algorithm_fits(a, n)) continue;
      for (uint32_t root = 0; root < n && root < roots; root++) {
        for (int in_place = 0; in_place < 2; in_place++) {
          struct tu_build what = {.algorithm = a, .ranks = n, .root = root, .in_place = in_place, .rank = TU_ALL_RANKS};
          what.slot_pieces = (uint32_t)(tu_random(&seed) % 10);
          what.depth = (uint32_t)(tu_random(&seed) % 10);
          what.chunks = (uint32_t)(tu_random(&seed) % 4);
          what.segments = a->collective == TUTTI_BARRIER ? 0 : (uint32_t)(tu_random(&seed) % 4);
          what.lanes = (uint32_t)(tu_random(&seed) % (tu_build_lanes_max(a) + 1));
          if (tu_random(&seed) % 4) what.lanes %= 4;
          what.canonical = tu_random(&seed) % 2;
          struct tu_plan *plan = tu_plan_build(&what);
          struct tu_check_report report;
          CHECK(tu_check(plan, 1 + root % 3, &report),
                "%s.%s, %u ranks, root %u, in place %d, slot_pieces %u, depth %u, chunks %u, segments %u, lanes %u: %s",
                tu_collectives[a->collective].name, a->name, n, root, in_place, what.slot_pieces, what.depth,
                what.chunks, what.segments, what.lanes, report.text);
          CHECK(report.rank_order || !plan->rank_order, "rank order is claimed, and not reported");
          CHECK(report.order >= plan->order, "an order is claimed, and not reported");
          tu_plan_destroy(plan);
        }
      }
    }
  }
}

/* Plans with values out of range, which only a program can make: the reader of files refuses them. */
static void test_wild(void) {
  struct tu_check_report report;
  const struct example base = {"base",
                               "broadcast",
                               2,
                               "",
                               "rank 0\n0: copy in[0] into out[0]\n1: send in[0] to 1 after 0\nrank 1\n"
                               "0: recv from 0 into out[0]",
                               NULL};
  static const char *const what[] = {"kind",   "lane", "after", "peers", "span",
                                     "buffer", "root", "split", "ranks", "tmp"};
  for (size_t i = 0; i < sizeof what / sizeof what[0]; i++) {
    struct tu_plan *plan = read_example(&base);
    struct tu_step *send = &plan->rank[0].steps[1];
    switch (i) {
      case 0: send->kind = 77; break;
      case 1: send->lane = 200; break;
      case 2: plan->rank[0].afters[send->after_first] = 1; break;
      case 3: send->peer_first = UINT32_MAX; break;
      case 4: send->source.first = UINT32_MAX; break;
      case 5: send->source.buffer = 3; break;
      case 6: plan->root = 2; break;
      case 7: plan->split = 1u << 31; break;
      case 8: plan->rank_first = 1; break;
      default:
        plan->rank[1].tmp = tu_arena_allocate(&plan->arena, 1, sizeof *plan->rank[1].tmp);
        plan->rank[1].tmp[plan->rank[1].tmp_count++] = (struct tu_like){TU_TMP, 0};
        break;
    }
    CHECK(!tu_check(plan, 1, &report) && strlen(report.text) > 20, "%s out of range: proved", what[i]);
    tu_plan_destroy(plan);
  }
}

/* Orders two steps by a long chain of `after`, longer than the 64 steps that are checked together. The last copy of the
 * chain overwrites what the first one wrote. If the chain is cut at one point, there is a race. */
static void test_chain(void) {
  enum { LINKS = 300 };
  for (uint32_t cut = 0; cut <= LINKS; cut += 50) {
    struct tu_text text = {0};
    tu_text_print(&text, "rank 0\n  tmp");
    for (uint32_t i = 0; i <= LINKS; i++) tu_text_print(&text, " in[0]");
    tu_text_print(&text, "\n0: copy in[0] into tmp[0]\n");
    for (uint32_t i = 1; i <= LINKS; i++) {
      tu_text_print(&text, "%u: copy in[0] into tmp[%u]", i, i);
      if (i != cut) tu_text_print(&text, " after %u", i - 1);
      tu_text_print(&text, "\n");
    }
    tu_text_print(&text, "%d: copy in[0] into tmp[0] after %d\n", LINKS + 1, LINKS);
    tu_text_print(&text, "%d: copy tmp[0] into out[0] after %d\n", LINKS + 2, LINKS + 1);
    struct tu_plan *plan = read_example(&(struct example){"chain", "broadcast", 1, "", text.chars, NULL});
    struct tu_check_report report;
    bool proved = tu_check(plan, 1, &report);
    CHECK(proved == (cut == 0), "cut at %u: %s", cut, proved ? "proved" : report.text);
    tu_plan_destroy(plan);
    tu_text_fini(&text);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"examples", test_examples}, {"table", test_table}, {"wild", test_wild}, {"chain", test_chain}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
