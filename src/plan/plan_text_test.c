/* plan_text_test.c: tests the text form of plans. Written plans read back equal. Invalid texts are refused with a line
 * number and a reason. */
#include "plan/plan_text.h"
#include "algo/algo.h"
#include "test.h"

static bool equal_lists(const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count) {
  return a_count == b_count && (a_count == 0 || memcmp(a, b, a_count * sizeof *a) == 0);
}

static bool equal_spans(struct tu_span a, struct tu_span b) {
  return a.buffer == b.buffer && a.first == b.first && a.count == b.count;
}

static bool equal_steps(const struct tu_rank_plan *a, const struct tu_step *x, const struct tu_rank_plan *b,
                        const struct tu_step *y) {
  if (x->kind != y->kind || x->lane != y->lane || x->first != y->first || x->final != y->final || x->tree != y->tree)
    return false;
  if (!equal_spans(x->source, y->source) || !equal_spans(x->target, y->target)) return false;
  if (!equal_lists(a->peers + x->peer_first, x->peer_count, b->peers + y->peer_first, y->peer_count)) return false;
  if (!equal_lists(a->afters + x->after_first, x->after_count, b->afters + y->after_first, y->after_count))
    return false;
  if (x->operand_count != y->operand_count) return false;
  for (uint32_t i = 0; i < x->operand_count; i++) {
    const struct tu_operand *o = &a->operands[x->operand_first + i], *p = &b->operands[y->operand_first + i];
    if (o->peer != p->peer || o->first != p->first || !equal_spans(o->span, p->span)) return false;
  }
  return true;
}

static bool equal_plans(const struct tu_plan *a, const struct tu_plan *b) {
  if (a->collective != b->collective || strcmp(a->algorithm, b->algorithm) != 0 || a->ranks != b->ranks ||
      a->root != b->root || a->split != b->split || a->in_place != b->in_place || a->equal_blocks != b->equal_blocks ||
      a->rank_order != b->rank_order || a->order != b->order || a->rank_first != b->rank_first ||
      a->rank_count != b->rank_count)
    return false;
  for (uint32_t r = 0; r < a->rank_count; r++) {
    const struct tu_rank_plan *x = &a->rank[r], *y = &b->rank[r];
    if (x->step_count != y->step_count || x->tmp_count != y->tmp_count) return false;
    for (uint32_t i = 0; i < x->tmp_count; i++)
      if (x->tmp[i].buffer != y->tmp[i].buffer || x->tmp[i].chunk != y->tmp[i].chunk) return false;
    for (uint32_t s = 0; s < x->step_count; s++)
      if (!equal_steps(x, &x->steps[s], y, &y->steps[s])) return false;
  }
  return true;
}

static void test_round_trip(void) {
  for (size_t i = 0; i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    for (uint32_t k = 2; k < 26; k++) {
      const uint32_t n = k / 2;
      if (!tu_algorithm_fits(a, n)) continue;
      uint32_t root = tu_collectives[a->collective].rooted && a->collective != TUTTI_SEND ? n / 2 : 0;
      struct tu_plan
          *plan = tu_plan_build(&(struct tu_build){
              .algorithm = a, .ranks = n, .root = root, .in_place = n % 2, .rank = TU_ALL_RANKS, .canonical = k % 2}),
          *again = NULL;
      struct tu_text text = {0};
      tu_plan_write(plan, &text);
      struct tu_error error;
      if (tu_plan_read(text.chars, text.length, "plan", &again, &error) != TUTTI_OK) FAIL("%s", error.text);
      else
        CHECK(equal_plans(plan, again), "%s.%s, %u ranks: read back different", tu_collectives[a->collective].name,
              a->name, n);
      if (again) tu_plan_destroy(again);
      tu_plan_destroy(plan);
      tu_text_fini(&text);
    }
  }
}

#define HEAD                                                                    \
  "tutti-plan 1\ncollective allreduce\nalgorithm x\nranks 2\nroot 0\nsplit 1\n" \
  "in_place no\nequal_blocks no\nrank_order no\n"

/* Tests spellings that the grammar allows but the writer does not use. */
static void test_spelling(void) {
  static const char written[] = HEAD
      "rank 0\n  tmp in[0] out[0] in[0]\n    0: send first in[0] to 1 lane 7\n"
      "    1: recv_reduce first in[0] + @1 into tmp[0] after 0\n    2: reduce tmp[0] + out[0] into out[0] final after "
      "0,1\n"
      "rank 1\n    0: copy in[0] into out[0]\n    1: recv from 0 into out[0] lane 7 after 0\n";
  static const char typed[] = "# a comment\n\n" HEAD
                              "rank 0 # the first\r\ntmp in[0:1] out[ 0 ] in[0]\n0:send first in[0:1]to 1 lane 7\n\n"
                              "  1 : recv_reduce first in[0]+@1 into tmp[0] lane 0 after 0 # why\n2: reduce tmp[0] + "
                              "out[0] into out[0] final after 0 , 1\n"
                              "rank 1\n0: copy in[0] into out[0]\n1: recv from 0 into out[0] lane 7 after 0";
  struct tu_plan *plan;
  struct tu_error error;
  if (tu_plan_read(typed, sizeof typed - 1, "typed", &plan, &error) != TUTTI_OK) {
    FAIL("%s", error.text);
    return;
  }
  struct tu_text text = {0};
  tu_plan_write(plan, &text);
  CHECK(strcmp(text.chars, written) == 0, "written as\n%s", text.chars);
  tu_text_fini(&text);
  tu_plan_destroy(plan);
}

static void test_refusals(void) {
  static const struct {
    const char *text, *facts;
  } table[] = {
      {"", "plan:1: |'tutti-plan NUMBER'|the text"},
      {"tutti-plan 2\n", "plan:1: |from 1 to 1|'2'"},
      {"tutti-plan 1\nalgorithm x\n", "plan:2: |'collective NAME'|'algorithm'"},
      {"tutti-plan 1\ncollective allgatherv\n", "plan:2: |vector variant|'allgatherv'"},
      {"tutti-plan 1\ncollective barrier\nalgorithm # none\n", "plan:3: |99 letters|_.-:+/|found"},
      {"tutti-plan 1\ncollective barrier\nalgorithm x\nranks 65537\n", "plan:4: |from 1 to 65536|'65537'"},
      {"tutti-plan 1\ncollective barrier\nalgorithm x\nranks 4\nroot 1\n", "plan:5: |from 0 to 0|'1'"},
      {"tutti-plan 1\ncollective gather\nalgorithm x\nranks 4\nroot 4\n", "plan:5: |from 0 to 3|'4'"},
      {"tutti-plan 1\ncollective gather\nalgorithm x\nranks 4\nroot 0\nsplit 0\n", "plan:6: |from 1 to|'0'"},
      {"tutti-plan 1\ncollective gather\nalgorithm x\nranks 4\nroot 0\nsplit 4294967295\n",
       "plan:6: |from 1 to|'4294967295'"},
      {"tutti-plan 1\ncollective gather\nalgorithm x\nranks 4\nroot 0\nsplit 1\nin_place maybe\n",
       "plan:7: |yes or no|'maybe'"},
      {HEAD, "plan:10: |'rank NUMBER'|the text"},
      {HEAD "rank 1\n", "plan:10: |from 0 to 0|'1'"},
      {HEAD "rank 0\n", "plan:11: |'rank NUMBER'|the text"},
      {HEAD "rank 0\nrank 1\nrank 2\n", "plan:12: |last rank|'rank'"},
      {HEAD "rank 0\n1: copy in[0] into out[0]\n", "plan:11: |'0:'|'1:'"},
      {HEAD "rank 0\n0 copy in[0] into out[0]\n", "plan:11: |':'|'copy'"},
      {HEAD "rank 0\n0: move in[0] into out[0]\n", "plan:11: |send, recv, recv_reduce, copy or reduce|'move'"},
      {HEAD "rank 0\n0: copy im[0] into out[0]\n", "plan:11: |in[...], out[...] or tmp[...]|'im[0]'"},
      {HEAD "rank 0\n0: copy in(0) into out[0]\n", "plan:11: |'['|'(0)'"},
      {HEAD "rank 0\n0: copy in[x] into out[0]\n", "plan:11: |chunk's number|'x]'"},
      {HEAD "rank 0\n0: copy in[4294967296] into out[0]\n", "plan:11: |chunk's number|'4294967296]'"},
      {HEAD "rank 0\n0: copy in[4294967295] into out[0]\n", "plan:11: |chunk's number|']'"},
      {HEAD "rank 0\n0: copy in[2:2] into out[0]\n", "plan:11: |an end|'2]'"},
      {HEAD "rank 0\n0: copy in[0 into out[0]\n", "plan:11: |']'|'into'"},
      {HEAD "rank 0\n0: copy in[0] to out[0]\n", "plan:11: |'into SPAN'|'to'"},
      {HEAD "rank 0\n0: send in[0] 1\n", "plan:11: |'to RANK'|'1'"},
      {HEAD "rank 0\n0: send in[0] to 0\n", "plan:11: |rank other than 0|below 2|'0'"},
      {HEAD "rank 0\n0: send in[0] to 2\n", "plan:11: |rank other than 0|below 2|'2'"},
      {HEAD "rank 0\n0: recv from 1,1 into out[0]\n", "plan:11: |'into SPAN'|',1'"},
      {HEAD "rank 0\n0: recv_reduce in[0] + out[0] into out[0]\n", "plan:11: |'+ @RANK'|'into'"},
      {HEAD "rank 0\n0: reduce in[0] + @1 into out[0]\n", "plan:11: |in[...], out[...] or tmp[...]|'@1'"},
      {HEAD "rank 0\n0: recv_reduce in[0] + first @1 into out[0]\n", "plan:11: |in[...], out[...] or tmp[...]|'@1'"},
      {HEAD "rank 0\n0: copy in[0] into out[0] lane 8\n", "plan:11: |lane below 8|'8'"},
      {HEAD "rank 0\n0: copy in[0] into out[0] after 0\n", "plan:11: |earlier step|'0'"},
      {HEAD "rank 0\n0: copy in[0] into out[0] after\n", "plan:11: |earlier step|the line"},
      {HEAD "rank 0\n0: copy in[0] into out[0] lane 1 final\n", "plan:11: |the line|'final'"},
      {HEAD "rank 0\n0: copy in[0] into out[0]\ntmp in[0]\n", "plan:12: |'1:'|'tmp'"},
      {HEAD "rank 0\ntmp tmp[0]\n", "plan:11: |in or out|rank 0|found tmp[0:1]"},
      {HEAD "rank 0\ntmp in[1]\n", "plan:11: |in or out|rank 0|found in[1:2]|1 chunks"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_plan *plan;
    struct tu_error error = {0};
    tutti_err err = tu_plan_read(table[i].text, strlen(table[i].text), "plan", &plan, &error);
    CHECK(err == TUTTI_ERR_ARGUMENT && test_contains(error.text, table[i].facts), "expected '%s', found '%s'",
          table[i].facts, err == TUTTI_OK ? "no fault" : error.text);
    if (err == TUTTI_OK) tu_plan_destroy(plan);
  }
}

/* A short text cannot allocate much memory. */
static void test_scratch_bound(void) {
  struct tu_text text = {0};
  tu_text_print(&text,
                "tutti-plan 1\ncollective allgather\nalgorithm x\nranks 1\nroot 0\nsplit 1000000\nin_place no\n"
                "equal_blocks no\nrank_order no\nrank 0\ntmp in[0:1000000]\n");
  struct tu_plan *plan;
  struct tu_error error;
  CHECK(tu_plan_read(text.chars, text.length, "plan", &plan, &error) != TUTTI_OK &&
            test_contains(error.text, "plan:11: |scratch|1000000 chunks"),
        "a million chunks of scratch were granted");
  tu_text_fini(&text);
}

/* Reads randomly damaged texts. Each is refused, or is read as a plan that is written and read back equal. */
static void test_damage(void) {
  uint64_t seed = test_seed();
  struct tu_text text = {0}, again = {0};
  uint32_t read = 0, rounds = test_long() ? 2000000 : 20000;
  for (uint32_t round = 0; round < rounds; round++) {
    if (round % 1000 == 0) {
      const struct tu_algorithm *a = tu_algorithms[tu_random(&seed) % tu_algorithm_count];
      uint32_t ranks = 4;
      while (!tu_algorithm_fits(a, ranks)) ranks = ranks > 2 ? ranks - 1 : 5;
      struct tu_plan *plan = tu_plan_build(&(struct tu_build){
          .algorithm = a, .ranks = ranks, .root = 0, .in_place = round % 2000 == 0, .rank = TU_ALL_RANKS});
      tu_text_fini(&text);
      tu_plan_write(plan, &text);
      tu_plan_destroy(plan);
    }
    char *copy = malloc(text.length);
    memcpy(copy, text.chars, text.length);
    for (uint64_t k = 1 + tu_random(&seed) % 3; k > 0; k--) {
      size_t at = tu_random(&seed) % text.length;
      if (tu_random(&seed) % 4 == 0) copy[at] = (char)tu_random(&seed);
      else copy[at] = text.chars[tu_random(&seed) % text.length];
    }
    struct tu_plan *plan, *back;
    struct tu_error error;
    if (tu_plan_read(copy, text.length, "plan", &plan, &error) == TUTTI_OK) {
      read++;
      again.length = 0;
      tu_plan_write(plan, &again);
      if (tu_plan_read(again.chars, again.length, "again", &back, &error) != TUTTI_OK) {
        FAIL("%s", error.text);
      } else {
        CHECK(equal_plans(plan, back), "read back different:\n%s", again.chars);
        tu_plan_destroy(back);
      }
      tu_plan_destroy(plan);
    }
    free(copy);
  }
  CHECK(read > rounds / 100, "only %u of %u damaged texts were read", read, rounds);
  tu_text_fini(&text);
  tu_text_fini(&again);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"round_trip", test_round_trip},
                                      {"spelling", test_spelling},
                                      {"refusals", test_refusals},
                                      {"scratch_bound", test_scratch_bound},
                                      {"damage", test_damage}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
