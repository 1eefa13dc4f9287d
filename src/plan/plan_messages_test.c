/* plan_messages_test.c: lists as many messages as the checker counts, and sends as many chunks as are received. */
#include "plan/plan_messages.h"

#include "algo/algo.h"
#include "check/check.h"
#include "test.h"

static uint64_t chunks_received(const struct tu_plan *plan) {
  uint64_t chunks = 0;
  for (uint32_t rank = 0; rank < plan->ranks; rank++) {
    const struct tu_rank_plan *p = &plan->rank[rank];
    for (uint32_t s = 0; s < p->step_count; s++) {
      if (p->steps[s].kind == TU_RECV) chunks += p->steps[s].target.count;
      for (uint32_t i = 0; p->steps[s].kind == TU_RECV_REDUCE && i < p->steps[s].operand_count; i++)
        if (p->operands[p->steps[s].operand_first + i].peer != TU_LOCAL) chunks += p->steps[s].target.count;
    }
  }
  return chunks;
}

static void all_algorithms(void) {
  for (size_t i = 0; tu_algorithm_at(i); i++) {
    const struct tu_algorithm *a = tu_algorithm_at(i);
    for (uint32_t ranks = 1; ranks <= 12; ranks++) {
      if (!tu_algorithm_fits(a, ranks) || a->flags & TU_OPEN_GROUPS) continue;
      struct tu_plan *plan =
          tu_plan_build(&(struct tu_build){.algorithm = a, .ranks = ranks, .rank = TU_ALL_RANKS, .slot_pieces = 3});
      struct tu_check_report report;
      size_t count;
      uint64_t chunks = 0;
      struct tu_plan_message *messages = tu_plan_messages(plan, &count);
      CHECK(tu_check(plan, 1, &report) && report.messages == count, "%s of %u: %zu messages, not %llu", a->name, ranks,
            count, (unsigned long long)report.messages);
      for (size_t m = 0; m < count; m++) {
        chunks += messages[m].chunks;
        CHECK(messages[m].from < ranks && messages[m].to < ranks && messages[m].from != messages[m].to &&
                  messages[m].lane < TU_LANES_MAX && messages[m].chunks > 0 &&
                  (m == 0 || messages[m].from >= messages[m - 1].from),
              "%s of %u: message %zu, from %u to %u", a->name, ranks, m, messages[m].from, messages[m].to);
      }
      CHECK(chunks == chunks_received(plan), "%s of %u: %llu chunks", a->name, ranks, (unsigned long long)chunks);
      free(messages);
      tu_plan_destroy(plan);
    }
  }
}

/* A plan of one rank has the same messages from that rank as a plan of all ranks. */
static void one_rank(void) {
  struct tu_build what = {.algorithm = tu_algorithm_find(TUTTI_ALLTOALL, "bruck"), .ranks = 7, .rank = TU_ALL_RANKS};
  struct tu_plan *plan = tu_plan_build(&what), *part;
  what.rank = 5;
  part = tu_plan_build(&what);
  size_t count, own, seen = 0;
  struct tu_plan_message *all = tu_plan_messages(plan, &count), *mine = tu_plan_messages(part, &own);
  for (size_t m = 0; m < count; m++) {
    if (all[m].from != 5) continue;
    CHECK(seen < own && all[m].to == mine[seen].to && all[m].chunks == mine[seen].chunks && mine[seen].from == 5,
          "message %zu", seen);
    seen++;
  }
  CHECK(seen == own && own == 3, "%zu of %zu", seen, own);
  free(all);
  free(mine);
  tu_plan_destroy(plan);
  tu_plan_destroy(part);
}

static const struct test tests[] = {{"all algorithms", all_algorithms}, {"one rank", one_rank}};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
