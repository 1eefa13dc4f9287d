/* builder_test.c: what the builder derives: order from hazards, marks, one rank's steps as among all, and messages that do
 * not depend on whether a call is in place. */
#include "plan/builder.h"

#include "algo/algo.h"
#include "base/text.h"
#include "test.h"

static void one_rank_alone_gets_the_same_steps(void) {
  for (size_t i = 0; tu_algorithm_at(i); i++)
    for (uint32_t n = 1; n <= 9; n++) {
      if (!tu_algorithm_fits(tu_algorithm_at(i), n)) continue;
      uint32_t root = tu_algorithm_at(i)->collective == TUTTI_SEND ? 0 : n / 2;
      struct tu_plan *all = tu_plan_build(&(struct tu_build){
          .algorithm = tu_algorithm_at(i), .ranks = n, .root = root, .in_place = false, .rank = TU_ALL_RANKS});
      for (uint32_t rank = 0; rank < n; rank++) {
        struct tu_plan *one = tu_plan_build(&(struct tu_build){
            .algorithm = tu_algorithm_at(i), .ranks = n, .root = root, .in_place = false, .rank = rank});
        const struct tu_rank_plan *a = &all->rank[rank], *b = &one->rank[0];
        bool same = a->step_count == b->step_count && a->after_count == b->after_count &&
                    a->tmp_count == b->tmp_count && a->operand_count == b->operand_count &&
                    a->peer_count == b->peer_count;
        same = same && (!a->after_count || memcmp(a->afters, b->afters, a->after_count * sizeof *a->afters) == 0);
        for (uint32_t k = 0; same && k < a->step_count; k++)
          same = memcmp(&a->steps[k], &b->steps[k], sizeof a->steps[k]) == 0;
        CHECK(same, "%s rank %u of %u differs when built alone", tu_algorithm_at(i)->name, rank, n);
        tu_plan_destroy(one);
      }
      tu_plan_destroy(all);
    }
}

/* The messages of a rank, in order, as text: kind, peer and number of chunks. */
static void print_messages(const struct tu_rank_plan *r, struct tu_text *text) {
  for (uint32_t i = 0; i < r->step_count; i++) {
    const struct tu_step *s = &r->steps[i];
    for (uint32_t k = 0; k < s->peer_count; k++)
      tu_text_print(text, "%d %u %u;", s->kind == TU_SEND, r->peers[s->peer_first + k],
                    s->kind == TU_SEND ? s->source.count : s->target.count);
    for (uint32_t k = 0; k < s->operand_count; k++)
      if (r->operands[s->operand_first + k].peer != TU_LOCAL)
        tu_text_print(text, "0 %u %u;", r->operands[s->operand_first + k].peer, s->target.count);
  }
}

/* Ranks need not agree on in place: so says the comparison of calls. It holds only if the messages are the same. */
static void in_place_changes_no_message(void) {
  for (size_t i = 0; tu_algorithm_at(i); i++)
    for (uint32_t n = 1; n <= 9; n++) {
      if (!tu_algorithm_fits(tu_algorithm_at(i), n)) continue;
      struct tu_plan *apart = tu_plan_build(&(struct tu_build){
          .algorithm = tu_algorithm_at(i), .ranks = n, .root = 0, .in_place = false, .rank = TU_ALL_RANKS});
      struct tu_plan *in_place = tu_plan_build(&(struct tu_build){
          .algorithm = tu_algorithm_at(i), .ranks = n, .root = 0, .in_place = true, .rank = TU_ALL_RANKS});
      for (uint32_t rank = 0; rank < n; rank++) {
        struct tu_text a = {0}, b = {0};
        tu_text_print(&a, "messages: ");
        tu_text_print(&b, "messages: ");
        print_messages(&apart->rank[rank], &a);
        print_messages(&in_place->rank[rank], &b);
        CHECK(strcmp(a.chars, b.chars) == 0, "%s rank %u of %u: %s in place: %s", tu_algorithm_at(i)->name, rank, n,
              a.chars, b.chars);
        tu_text_fini(&a);
        tu_text_fini(&b);
      }
      tu_plan_destroy(apart);
      tu_plan_destroy(in_place);
    }
}

static const struct test tests[] = {
    {"one_rank_alone_gets_the_same_steps", one_rank_alone_gets_the_same_steps},
    {"in_place_changes_no_message", in_place_changes_no_message},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
