/* tuning_test.c: selection tables: reading, refusals with their messages, and selection. */
#include "algo/tuning.h"

#include "base/text.h"
#include "test.h"

static tutti_err read_text(const char *rules, const char *forced, struct tu_tuning **tuning, struct tu_error *error) {
  const struct tu_tuning_text text = {rules ? "table" : NULL, rules, rules ? strlen(rules) : 0, forced};
  return tu_tuning_read(&text, tuning, error);
}

/* Returns the table; if it cannot be read, fails the test and returns NULL. */
static struct tu_tuning *must_read(const char *rules, const char *forced) {
  struct tu_tuning *tuning = NULL;
  struct tu_error error = {0};
  CHECK(read_text(rules, forced, &tuning, &error) == TUTTI_OK, "refused: %s", error.text);
  return tuning;
}

static const char *pick(const struct tu_tuning *t, tutti_collective c, uint32_t ranks, size_t bytes) {
  const struct tu_wanted wanted = {.collective = c, .ranks = ranks, .bytes = bytes};
  return tu_tuning_select(t, &wanted)->name;
}

/* The built-in table can be read, and it selects an algorithm that serves the call in every case. */
static void test_builtin(void) {
  const struct tu_tuning *t = tu_tuning_builtin();
  CHECK(t == tu_tuning_builtin() && t->rule_count > 0, "it is read once");
  static const size_t sizes[] = {0, 8, 4096, 4097, 65536, 65537, 1 << 30, SIZE_MAX};
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c))
    for (uint32_t ranks = 1; ranks <= 70; ranks++)
      for (unsigned i = 0; i < 8 * sizeof sizes / sizeof sizes[0]; i++) {
        if (tu_collectives[c].family == TUTTI_SEND && ranks != 2) continue;
        uint32_t group = i / 8 % 2 + 2;
        const struct tu_wanted wanted = {.collective = (tutti_collective)c,
                                         .ranks = ranks,
                                         .bytes = sizes[i / 8],
                                         .canonical = i & 4 && tu_reduces((tutti_collective)c),
                                         .rank_order = i & 1 && tu_reduces((tutti_collective)c),
                                         .any_blocks = i & 2,
                                         .group = ranks > group && ranks % group == 0 ? group : 0,
                                         .share = ranks % 3};
        const char *why;
        CHECK(tu_algorithm_serves(tu_tuning_select(NULL, &wanted), &wanted, &why), "%s on %u ranks: %s",
              tu_collectives[c].name, ranks, why);
      }
}

static void test_rules(void) {
  struct tu_tuning *t = must_read(
      "# a comment\r\n\n"
      "allreduce ranks=3 bytes<=1K direct # the first that fits wins\n"
      "allreduce\tranks >= 3 ranks<=5 bytes>= 1K bytes<=64K reduce_broadcast\n"
      "allgatherv direct\n"
      "broadcast ranks<=1024 bytes=100 binomial",
      NULL);
  if (!t) return;
  CHECK(t->rule_count == 4, "%u rules", t->rule_count);
  static const struct {
    tutti_collective collective;
    uint32_t ranks;
    size_t bytes;
    const char *name; /* expected algorithm; NULL: the choice of the built-in table */
  } table[] = {
      {TUTTI_ALLREDUCE, 3, 0, "direct"},
      {TUTTI_ALLREDUCE, 3, 1024, "direct"},
      {TUTTI_ALLREDUCE, 3, 1025, "reduce_broadcast"},
      {TUTTI_ALLREDUCE, 4, 1023, NULL},
      {TUTTI_ALLREDUCE, 4, 1024, "reduce_broadcast"},
      {TUTTI_ALLREDUCE, 5, 65536, "reduce_broadcast"},
      {TUTTI_ALLREDUCE, 5, 65537, NULL},
      {TUTTI_ALLREDUCE, 6, 2048, NULL},
      {TUTTI_ALLREDUCE, 2, 2048, NULL},
      {TUTTI_ALLGATHERV, 20, 2048, "direct"},
      {TUTTI_ALLGATHER, 20, 2048, NULL},
      {TUTTI_BROADCAST, 2, 100, "binomial"},
      {TUTTI_BROADCAST, 2, 101, NULL},
      {TUTTI_BROADCAST, 2, SIZE_MAX, NULL},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    const char *got = pick(t, table[i].collective, table[i].ranks, table[i].bytes);
    const char *wanted =
        table[i].name ? table[i].name : pick(NULL, table[i].collective, table[i].ranks, table[i].bytes);
    CHECK(strcmp(got, wanted) == 0, "%s of %zu bytes on %u ranks: %s, expected %s",
          tu_collectives[table[i].collective].name, table[i].bytes, table[i].ranks, got, wanted);
  }
  struct tu_wanted wanted = {.collective = TUTTI_ALLREDUCE, .ranks = 3};
  static const size_t ends[] = {1024, 65536, SIZE_MAX}; /* the last size comes from the built-in table */
  for (int i = 0; i < 3; i++) {
    size_t until = tu_tuning_select_until(t, &wanted);
    CHECK(until == ends[i], "from %zu on it is the same until %zu, expected %zu", wanted.bytes, until, ends[i]);
    wanted.bytes = until + 1;
  }
  tu_tuning_release(t);
}

/* Conditions on groups, and algorithms that take their group size from the call. */
static void test_groups(void) {
  struct tu_tuning *t = must_read(
      "allreduce groups=2 bytes<=1K reduce_broadcast\n"
      "allreduce groups<=3 bytes<=2K rs:direct/g+ar:ring+ag:direct/g\n"
      "reduce groups>=2 re:direct/g+re:binomial\n"
      "broadcast share>=2 share<=4 chain\n"
      "reduce_scatter rs:pairwise+rs:pat/g\n",
      NULL);
  if (!t) return;
  static const struct {
    tutti_collective collective;
    uint32_t ranks, group;
    size_t bytes;
    const char *name; /* expected algorithm; NULL: the choice of the built-in table */
    uint32_t share;
  } table[] = {
      {TUTTI_ALLREDUCE, 8, 4, 1024, "reduce_broadcast", 0},
      {TUTTI_ALLREDUCE, 8, 2, 1024, NULL, 0},
      {TUTTI_ALLREDUCE, 9, 3, 1024, "rs:direct/3+ar:ring+ag:direct/3", 0},
      {TUTTI_ALLREDUCE, 8, 4, 2048, "rs:direct/4+ar:ring+ag:direct/4", 0},
      {TUTTI_ALLREDUCE, 8, 0, 1024, NULL, 0},
      {TUTTI_ALLREDUCE, 8, 4, 2049, NULL, 0},
      {TUTTI_REDUCE, 8, 2, 0, "re:direct/2+re:binomial", 0},
      {TUTTI_REDUCE, 8, 0, 0, NULL, 0},
      {TUTTI_REDUCE_SCATTER, 8, 2, 1 << 20, "rs:pairwise+rs:pat/2", 0},
      {TUTTI_REDUCE_SCATTER, 8, 0, 1 << 20, NULL, 0},
      {TUTTI_REDUCE_SCATTERV, 8, 2, 1 << 20, NULL, 0}, /* pat requires equal blocks */
      {TUTTI_BROADCAST, 8, 0, 0, NULL, 1},
      {TUTTI_BROADCAST, 8, 0, 0, "chain", 2},
      {TUTTI_BROADCAST, 8, 0, 0, "chain", 4},
      {TUTTI_BROADCAST, 8, 0, 0, NULL, 5},
      {TUTTI_BROADCAST, 8, 0, 0, NULL, 0},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    const struct tu_wanted wanted = {.collective = table[i].collective,
                                     .ranks = table[i].ranks,
                                     .bytes = table[i].bytes,
                                     .any_blocks = tu_collectives[table[i].collective].vector,
                                     .group = table[i].group,
                                     .share = table[i].share};
    const char *got = tu_tuning_select(t, &wanted)->name;
    const char *name = table[i].name ? table[i].name : tu_tuning_select(NULL, &wanted)->name;
    CHECK(strcmp(got, name) == 0, "row %zu: %s, expected %s", i, got, name);
  }
  const struct tu_wanted wanted = {.collective = TUTTI_ALLREDUCE, .ranks = 8, .group = 4};
  CHECK(tu_tuning_select_until(t, &wanted) == 1024, "until %zu", tu_tuning_select_until(t, &wanted));
  struct tu_text text = {0};
  tu_rule_write(&t->rules[1], &text);
  CHECK(strstr(text.chars, "groups<=3") && strstr(text.chars, "rs:direct/g+ar:ring+ag:direct/g"), "'%s'", text.chars);
  tu_text_fini(&text);
  tu_tuning_release(t);
}

/* A name that leaves the group size open finds one algorithm for all sizes, which serves nothing itself. */
static void test_open_groups(void) {
  const struct tu_algorithm *a = tu_algorithm_find(TUTTI_ALLREDUCE, "re:binomial/g+ar:ring+bc:binomial/g");
  CHECK(a && (a->flags & TU_OPEN_GROUPS), "it is open");
  if (!a) return;
  for (uint32_t ranks = 1; ranks < 20; ranks++) CHECK(!tu_algorithm_fits(a, ranks), "it fits %u ranks", ranks);
  const struct tu_algorithm *of_7 = tu_algorithm_in_groups(a, 7);
  CHECK(strcmp(of_7->name, "re:binomial/7+ar:ring+bc:binomial/7") == 0, "%s", of_7->name);
  CHECK(!(of_7->flags & TU_OPEN_GROUPS) && tu_algorithm_fits(of_7, 14), "%s is closed", of_7->name);
  CHECK(tu_algorithm_in_groups(a, 7) == of_7 && tu_algorithm_in_groups(of_7, 5) == of_7, "closed, it stays");
  const char *why;
  const struct tu_wanted wanted = {.collective = TUTTI_ALLREDUCE, .ranks = 14};
  CHECK(tu_algorithm_in_groups(a, 0) == a && !tu_algorithm_serves(a, &wanted, &why), "no groups: it serves nothing");
  CHECK(!tu_algorithm_find(TUTTI_ALLREDUCE, "re:binomial/g+ar:ring+bc:binomial/4"), "two sizes in one name");
  CHECK(!tu_algorithm_find(TUTTI_ALLREDUCE, "re:binomial/g+ar:ring+bc:binomial/h"), "two kinds of groups in one name");
  const struct tu_algorithm *by_host = tu_algorithm_find(TUTTI_ALLREDUCE, "re:binomial/h+ar:ring+bc:binomial/h");
  CHECK(by_host && by_host != a && !tu_algorithm_fits(by_host, 14), "groups are hosts");
  CHECK(by_host && tu_algorithm_in_groups(by_host, 7) == by_host, "it is not open");
  CHECK(by_host && !tu_algorithm_serves(by_host, &wanted, &why) && strstr(why, "one host"), "%s", why);
}

/* A rule is skipped if its algorithm cannot serve the call. */
static void test_passed_over(void) {
  for (size_t i = 0; i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    struct tu_text text = {0};
    tu_text_print(&text, "%s %s\n", tu_collectives[a->collective].name, a->name);
    struct tu_tuning *t = must_read(text.chars, NULL);
    for (unsigned k = 0; t && k < 4 * 9; k++) {
      const struct tu_wanted wanted = {
          .collective = a->collective, .ranks = k / 4 + 1, .rank_order = k & 1, .any_blocks = k & 2};
      const char *why;
      if (a->collective == TUTTI_SEND && wanted.ranks != 2) continue;
      if (wanted.rank_order && !tu_reduces(a->collective)) continue;
      const struct tu_algorithm *got = tu_tuning_select(t, &wanted);
      const struct tu_algorithm *other = tu_tuning_select(NULL, &wanted);
      const struct tu_algorithm *expected = tu_algorithm_serves(a, &wanted, &why) ? a : other;
      CHECK(got == expected, "%s on %u ranks: %s, expected %s", text.chars, wanted.ranks, got->name, expected->name);
    }
    tu_tuning_release(t);
    tu_text_fini(&text);
  }
}

static void test_broken(void) {
  static const struct {
    const char *text, *facts;
  } table[] = {
      {"alreduce ring", "table:1: |a collective|'alreduce'|'allreduce'"},
      {"\n\n  = ring", "table:3: |a collective|'='"},
      {"allreduce # ring\n", "table:1: |a condition|an algorithm|allreduce|the line"},
      {"barrier direct\nallreduce", "table:2: |a condition|an algorithm|allreduce|the text"},
      {"allreduce rimg", "table:1: |a condition|an algorithm|allreduce|'rimg'|'ring'"},
      {"allreduce rank<=4 ring", "table:1: |a condition|'rank<=4'|'ranks'"},
      {"allreduce ranks ring", "table:1: |'<=', '>=' or '='|'ring'"},
      {"allreduce ranks<4 ring", "table:1: |'<=', '>=' or '='|'<4'"},
      {"allreduce ranks<=0 ring", "table:1: |ranks from 1 to 65536|'0'"},
      {"allreduce ranks<=65537 ring", "table:1: |ranks from 1 to 65536|'65537'"},
      {"allreduce ranks<=4K ring", "table:1: |ranks from 1 to 65536|'4K'"},
      {"allreduce ranks=", "table:1: |ranks from 1 to 65536|the text"},
      {"allreduce bytes<=8KB ring", "table:1: |a size|'8KB'"},
      {"allreduce bytes<=99999999999G ring", "table:1: |a size|'99999999999G'"},
      {"allreduce ranks<=2 ranks>=3 ring", "table:1: |conditions on ranks|exclude|'3'"},
      {"allreduce bytes=2 bytes=3 ring", "table:1: |conditions on bytes|exclude|'3'"},
      {"allreduce hosts<=0 ring", "table:1: |hosts from 1 to 65536|'0'"},
      {"allreduce hosts=2 hosts=3 ring", "table:1: |conditions on hosts|exclude|'3'"},
      {"allreduce groups<=0 ring", "table:1: |groups from 1 to 65536|'0'"},
      {"allreduce groups>=2K ring", "table:1: |groups from 1 to 65536|'2K'"},
      {"allreduce groups=2 groups=3 ring", "table:1: |conditions on groups|exclude|'3'"},
      {"allreduce group=2 ring", "table:1: |a condition|'group=2'|'groups'"},
      {"allreduce rs:direct/x+ar:ring+ag:direct/x",
       "table:1: |a condition|an algorithm|allreduce|'rs:direct/x+ar:ring+ag:direct/x'"},
      {"allreduce ring bytes<=3", "table:1: |the line|'bytes<=3'"},
      {"allreduce ring\nsend ring", "table:2: |a condition|an algorithm|send|'ring'"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_tuning *t;
    struct tu_error error = {0};
    CHECK(read_text(table[i].text, NULL, &t, &error) == TUTTI_ERR_ARGUMENT, "'%s' was taken", table[i].text);
    CHECK(test_contains(error.text, table[i].facts), "'%s', expected '%s'", error.text, table[i].facts);
    CHECK(read_text(table[i].text, NULL, &t, NULL) == TUTTI_ERR_ARGUMENT, "refused without an error struct");
  }
}

static void test_forced(void) {
  struct tu_tuning *t = must_read(NULL, "allreduce=ring,broadcast=binomial,allreduce=ring");
  if (!t) return;
  CHECK(!t->name && t->rule_count == 0, "there are no rules");
  CHECK(t->forced[TUTTI_ALLREDUCE] == tu_algorithm_find(TUTTI_ALLREDUCE, "ring"), "ring was asked for");
  CHECK(t->forced[TUTTI_BROADCAST] == tu_algorithm_find(TUTTI_BROADCAST, "binomial"), "binomial was asked for");
  CHECK(!t->forced[TUTTI_REDUCE] && !t->forced[TUTTI_ALLGATHERV], "others are free");
  CHECK(tu_tuning_share(t) == t, "shared");
  tu_tuning_release(t);
  tu_tuning_release(t);
  static const struct {
    const char *list, *facts;
  } table[] = {
      {"ring", "COLLECTIVE=ALGORITHM|'ring'"},
      {"allreduce=", "COLLECTIVE=ALGORITHM|'allreduce='"},
      {"allreduce=ring,", "COLLECTIVE=ALGORITHM|''"},
      {"alreduce=ring", "a collective|'alreduce'|'allreduce'"},
      {"allreduce=rimg", "an algorithm|allreduce|'rimg'|'ring'"},
      {"allreduce=ring,allreduce=direct", "one algorithm|allreduce|ring and direct"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_error error = {0};
    CHECK(read_text(NULL, table[i].list, &t, &error) == TUTTI_ERR_ENVIRONMENT, "'%s' was taken", table[i].list);
    CHECK(strncmp(error.text, "TUTTI_ALGORITHM: ", 17) == 0 && test_contains(error.text + 17, table[i].facts),
          "'%s', expected '%s'", error.text, table[i].facts);
  }
}

/* Every random rule reads back as it was written. */
static void test_write(void) {
  static const size_t sizes[] = {0, 1, 1023, 1024, 1 << 20, (size_t)3 << 30, SIZE_MAX - 1, SIZE_MAX};
  static const uint32_t ranks[] = {1, 2, 1024, TU_RANKS_MAX};
  uint64_t seed = test_seed();
  for (int round = 0; round < 2000; round++) {
    struct tu_rule rule = {
        .hosts_min = ranks[tu_random(&seed) % 4],
        .hosts_max = ranks[tu_random(&seed) % 4],
        .ranks_min = ranks[tu_random(&seed) % 4],
        .ranks_max = ranks[tu_random(&seed) % 4],
        .groups_min = ranks[tu_random(&seed) % 4],
        .groups_max = ranks[tu_random(&seed) % 4],
        .share_min = ranks[tu_random(&seed) % 4],
        .share_max = ranks[tu_random(&seed) % 4],
        .orders = 1 + (uint32_t)(tu_random(&seed) % 3),
        .bytes_min = sizes[tu_random(&seed) % 8],
        .bytes_max = sizes[tu_random(&seed) % 8],
        .algorithm = tu_algorithms[tu_random(&seed) % tu_algorithm_count],
    };
    rule.collective = rule.algorithm->collective;
    if (rule.hosts_min > rule.hosts_max || rule.ranks_min > rule.ranks_max || rule.bytes_min > rule.bytes_max ||
        rule.groups_min > rule.groups_max || rule.share_min > rule.share_max)
      continue;
    struct tu_text text = {0};
    tu_rule_write(&rule, &text);
    struct tu_tuning *t = must_read(text.chars, NULL);
    bool same = t && t->rule_count == 1 && t->rules[0].collective == rule.collective &&
                t->rules[0].ranks_min == rule.ranks_min && t->rules[0].ranks_max == rule.ranks_max &&
                t->rules[0].hosts_min == rule.hosts_min && t->rules[0].hosts_max == rule.hosts_max &&
                t->rules[0].groups_min == rule.groups_min && t->rules[0].groups_max == rule.groups_max &&
                t->rules[0].share_min == rule.share_min && t->rules[0].share_max == rule.share_max &&
                t->rules[0].bytes_min == rule.bytes_min && t->rules[0].bytes_max == rule.bytes_max &&
                t->rules[0].orders == rule.orders && t->rules[0].algorithm == rule.algorithm;
    CHECK(same, "'%s' reads back as another", text.chars);
    tu_tuning_release(t);
    tu_text_fini(&text);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"builtin", test_builtin},         {"rules", test_rules},
      {"groups", test_groups},           {"open_groups", test_open_groups},
      {"passed_over", test_passed_over}, {"broken", test_broken},
      {"forced", test_forced},           {"write", test_write},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
