/* pat_test.c: compares PAT's operations with NCCL's tables, and its messages and scratch with closed forms; checks the
 * worked example of recursive halving. The full tables and the example are external data in ../shared: without them,
 * these tests are skipped. The small tables tests/data/pat_*.csv and the example halving_4.txt are always compared. */
#include "algo/pat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "check/check.h"
#include "test.h"

#define SHARED SOURCE_DIR "/../shared/"
#define DATA SOURCE_DIR "/tests/data/"

enum { OWN_TABLES = 2 };

static char *read_all(const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) return NULL;
  char *data = calloc(1, 1 << 20);
  if (!data || fread(data, 1, (1 << 20) - 1, file) == 0) abort();
  fclose(file);
  return data;
}

/* ---- NCCL's tables ---- */

/* Extracts the rows of a number of ranks, without skipped operations and without the columns `skipped` and `flags`. */
static void table_of(char *data, unsigned ranks, struct tu_text *table) {
  unsigned here = 0;
  for (char *line = strtok(data, "\n"); line; line = strtok(NULL, "\n")) {
    if (sscanf(line, "# Pat%*s nranks=%u", &here) == 1 || here != ranks || strncmp(line, "rank", 4) == 0) continue;
    int fields = 1, skipped = 0;
    struct tu_text row = {0};
    for (const char *c = line; *c; c++) {
      fields += *c == ',';
      if (fields == 7 && *c == '1') skipped = 1;
      if (fields != 7 && fields != 19) tu_text_print(&row, "%c", *c);
    }
    if (!skipped) tu_text_print(table, "%s\n", row.chars);
    tu_text_fini(&row);
  }
}

static void compare_tables(bool own) {
  static const struct {
    const char *file;
    tutti_collective collective;
    struct tu_build what;
  } cases[] = {
      {"pat_rs.csv", TUTTI_REDUCE_SCATTER, {.slot_pieces = 2, .depth = 2}},
      {"pat_ag.csv", TUTTI_ALLGATHER, {.slot_pieces = 2, .depth = 2}},
      {"pat_rs_big_depth1.csv", TUTTI_REDUCE_SCATTER, {.depth = 1}},
      {"pat_rs_big_depth8.csv", TUTTI_REDUCE_SCATTER, {.depth = 8}},
      {"pat_rs_small4_depth1.csv", TUTTI_REDUCE_SCATTER, {.slot_pieces = 4, .depth = 1}},
      {"pat_rs_chunks3_depth8.csv", TUTTI_REDUCE_SCATTER, {.depth = 8, .chunks = 3}},
      {"pat_ag_big_depth1.csv", TUTTI_ALLGATHER, {.depth = 1}},
      {"pat_ag_big_depth8.csv", TUTTI_ALLGATHER, {.depth = 8}},
      {"pat_ag_small4_depth1.csv", TUTTI_ALLGATHER, {.slot_pieces = 4, .depth = 1}},
  };
  unsigned compared = 0;
  for (size_t i = own ? 0 : OWN_TABLES; i < (own ? OWN_TABLES : sizeof cases / sizeof cases[0]); i++) {
    for (unsigned ranks = 2; ranks <= (own ? 4 : 8); ranks++) {
      char path[512];
      snprintf(path, sizeof path, "%s%s", own ? DATA : SHARED "oracle/", cases[i].file);
      char *data = read_all(path);
      if (!data) {
        CHECK(!own, "there is no %s", path);
        SKIP("there is no ../shared/oracle");
        return;
      }
      struct tu_build what = cases[i].what;
      what.algorithm = tu_algorithm_find(cases[i].collective, "pat");
      what.ranks = ranks;
      struct tu_pat pat;
      struct tu_arena arena = {0};
      if (cases[i].collective == TUTTI_ALLGATHER) tu_pat_allgather(&pat, &what, &arena);
      else tu_pat_reduce_scatter(&pat, &what, &arena);
      struct tu_text ours = {0}, theirs = {0};
      tu_pat_write(&pat, &what, &ours);
      table_of(data, ranks, &theirs);
      const char *rows = strchr(ours.chars, '\n') + 1;
      CHECK(theirs.chars && strcmp(rows, theirs.chars) == 0, "%s, %u ranks: ours\n%stheirs\n%s", cases[i].file, ranks,
            rows, theirs.chars);
      compared++;
      tu_text_fini(&ours);
      tu_text_fini(&theirs);
      tu_arena_fini(&arena);
      free(data);
    }
  }
  printf("  %u tables are equal\n", compared);
}
static void own_tables(void) { compare_tables(true); }
static void tables(void) { compare_tables(false); }

/* ---- closed forms ---- */

static uint32_t messages_sent(const struct tu_rank_plan *r) {
  uint32_t messages = 0;
  for (uint32_t s = 0; s < r->step_count; s++) messages += r->steps[s].kind == TU_SEND && !r->steps[s].joined;
  return messages;
}

static void closed_forms(void) {
  const tutti_collective both[] = {TUTTI_REDUCE_SCATTER, TUTTI_ALLGATHER};
  for (uint32_t n = 2; n <= 70; n++) {
    for (int k = 0; k < 2; k++) {
      struct tu_build what = {.algorithm = tu_algorithm_find(both[k], "pat"), .ranks = n, .rank = TU_ALL_RANKS};
      const struct { uint32_t pieces, depth; } shapes[] = {{1, 1}, {1, 8}, {4, 1}, {4, 4}, {n, 1}};
      for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        what.slot_pieces = shapes[i].pieces;
        what.depth = shapes[i].depth;
        struct tu_pat pat;
        struct tu_arena arena = {0};
        if (k == 0) tu_pat_reduce_scatter(&pat, &what, &arena);
        else tu_pat_allgather(&pat, &what, &arena);
        CHECK(pat.op_count == 3 * (1u << pat.dims) / 2 - 1, "%u ranks: %u operations", n, pat.op_count);
        struct tu_plan *plan = tu_plan_build(&what);
        struct tu_check_report report;
        CHECK(tu_check(plan, 1, &report), "%u ranks, %u pieces, depth %u: %s", n, what.slot_pieces, what.depth,
              report.text);
        /* Scratch is logarithmic: one FIFO for each dimension over which partial sums are sent,
         * that is, all but the first. */
        uint32_t bound = (pat.dims - 1) * shapes[i].depth * pat.per_slot;
        CHECK(report.tmp_chunks_max <= bound, "%u ranks, %u pieces, depth %u: %u chunks of scratch, at most %u", n,
              what.slot_pieces, what.depth, report.tmp_chunks_max, bound);
        for (uint32_t rank = 0; rank < n; rank++) {
          uint32_t sent = messages_sent(&plan->rank[rank]);
          if (shapes[i].pieces == 1) CHECK(sent == n - 1, "%u ranks: %u messages", n, sent);
          if (shapes[i].pieces == n && (n & (n - 1)) == 0) CHECK(sent == pat.dims, "%u ranks: %u messages", n, sent);
        }
        tu_plan_destroy(plan);
        tu_arena_fini(&arena);
      }
    }
  }
}

/* ---- the document's 8-rank example of recursive halving ---- */

/* Returns true if rank `from` sends block `block` to rank `to` in its message number `round`. */
static bool sends(const struct tu_plan *plan, uint32_t from, uint32_t to, uint32_t block, uint32_t round) {
  const struct tu_rank_plan *r = &plan->rank[from];
  uint32_t messages = 0;
  for (uint32_t s = 0; s < r->step_count; s++) {
    const struct tu_step *step = &r->steps[s];
    if (step->kind != TU_SEND) continue;
    messages += !step->joined;
    uint32_t chunk = step->source.buffer == TU_TMP ? r->tmp[step->source.first].chunk : step->source.first;
    if (messages == round && r->peers[step->peer_first] == to && chunk == block) return true;
  }
  return false;
}

/* Compares the steps in the text, from the words `begin` on, with the plan for `ranks` ranks. Each rank must send
 * `rounds` messages, and the text must name `expected` portions. */
static void follow(char *data, const char *begin, uint32_t ranks, uint32_t rounds, uint32_t expected) {
  struct tu_plan *plan = tu_plan_build(&(struct tu_build){
      .algorithm = tu_algorithm_find(TUTTI_REDUCE_SCATTER, "recursive_halving"), .ranks = ranks, .rank = TU_ALL_RANKS});
  char *at = strstr(data, begin);
  CHECK(at, "the table is not there");
  unsigned round = 0, lines = 0;
  for (char *line = strtok(at, "\n"); line; line = strtok(NULL, "\n")) {
    sscanf(line, "STEP %u", &round);
    for (const char *p = line; (p = strstr(p, "portion[")); p++) {
      unsigned portion, a, b, to;
      if (sscanf(p, "portion[%u]: R%u,R%u -> R%u", &portion, &a, &b, &to) != 4) continue;
      lines++;
      CHECK(to == a || to == b, "%s", line);
      CHECK(sends(plan, to == a ? b : a, to, portion, round), "step %u: %s", round, line);
    }
  }
  CHECK(lines == expected, "%u lines", lines);
  for (uint32_t rank = 0; rank < ranks; rank++) { /* the average is taken once, in the last step */
    const struct tu_rank_plan *r = &plan->rank[rank];
    CHECK(messages_sent(r) == rounds, "rank %u sends %u messages", rank, messages_sent(r));
    uint32_t finals = 0;
    for (uint32_t s = 0; s < r->step_count; s++) finals += r->steps[s].final;
    CHECK(finals == 1, "rank %u divides %u times", rank, finals);
  }
  printf("  %u lines of the document hold\n", lines);
  tu_plan_destroy(plan);
}

static void own_example(void) {
  char *data = read_all(DATA "halving_4.txt");
  CHECK(data, "there is no tests/data/halving_4.txt");
  if (data) follow(data, "STEP 1", 4, 2, 12);
  free(data);
}

static void worked_example(void) {
  char *data = read_all(SHARED "seeds/4_pat_reduce_scatter.md");
  if (!data) {
    SKIP("there is no ../shared/seeds/4_pat_reduce_scatter.md");
    return;
  }
  follow(data, "### All 8 Portions", 8, 3, 24);
  free(data);
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"own_tables", own_tables},
                               {"tables", tables},
                               {"closed_forms", closed_forms},
                               {"own_example", own_example},
                               {"worked_example", worked_example}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
