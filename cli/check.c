/* check.c: `tutti check`: proves that plans are correct; the plans are built-in or from files. */
#include "check/check.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/budget.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/onto.h"
#include "cli/progress.h"
#include "cli/units.h"
#include "plan/plan_relabel.h"

/* The options of `tutti check`, and the counts of checked plans so far. */
struct tally {
  uint32_t credits;
  uint32_t low, high;     /* range of the numbers of ranks to check */
  uint32_t lanes;         /* number of lanes; 0: the algorithm's own number of lanes */
  bool canonical;         /* check the plans of the canonical order, and only those */
  struct onto onto;       /* cluster given by --cluster; low and high then equal its number of chips */
  struct cli_hosts hosts; /* hosts given by --hosts; low and high then equal their number of ranks */
  struct budget budget;
  /* Progress: numbers of plans, and their work. The work of a plan grows with the square of its number of ranks. */
  uint64_t plans, plans_done;
  double work, work_done;
  uint64_t proved, refused, in_rank_order, of_class[TU_CANONICAL + 1];
  uint32_t scratch_max; /* largest scratch memory of one rank in any plan, in chunks */
  char scratch_of[160]; /* description of the plan with the largest scratch memory */
  bool json, quiet;
  struct json data; /* with --json: the object, up to the list of refused plans */
};

/* Counts a refused plan, and prints it. what NULL: the reason names the plan. */
static void refuse(struct tally *t, const char *what, const char *reason) {
  t->refused++;
  progress_clear();
  if (!t->json) {
    printf("%s%s%s\n", what ? what : "", what ? ": " : "", reason);
    return;
  }
  json_open(&t->data, NULL, JSON_OBJECT);
  json_text(&t->data, "plan", what);
  json_text(&t->data, "reason", reason);
  json_close(&t->data, JSON_OBJECT);
}

/* Counts a plan that is done, and tells the progress. */
static void advance(struct tally *t, double work) {
  t->work_done += work;
  progress_step(++t->plans_done, t->work_done);
}

/* Tries to prove one plan correct, and counts it as proved or refused. `what` describes the plan for messages. */
static void count(struct tally *t, const struct tu_plan *plan, const char *what) {
  struct tu_check_report report;
  if (tu_check(plan, t->credits, &report)) {
    t->proved++;
    t->in_rank_order += plan->rank_order;
    if (tu_reduces(plan->collective)) t->of_class[report.order]++;
    if (report.tmp_chunks_max > t->scratch_max) {
      t->scratch_max = report.tmp_chunks_max;
      snprintf(t->scratch_of, sizeof t->scratch_of, "%s", what);
    }
    return;
  }
  if (!report.no_memory) {
    refuse(t, what, report.text);
    return;
  }
  t->refused++;
  (void)cli_fail("check", CLI_FAILED, "%s: the check could not be completed: %s", what, report.text);
}

static const struct tu_placement *placement_of(const struct tally *t, const struct tu_algorithm *a) {
  return tu_placement_for(t->hosts.placement, a->collective, t->canonical);
}

/* Builds a plan and, if --cluster is given, maps it onto the cluster. If it cannot be mapped, prints the reason and
 * returns NULL. */
static struct tu_plan *build(struct tally *t, struct tu_build *what) {
  if (!t->onto.what) return tu_plan_build(what);
  struct cli_name name = {what->algorithm->collective, what->algorithm};
  struct tu_plan *plan = NULL;
  char word[160];
  snprintf(word, sizeof word, "%s.%s", tu_collectives[name.collective].name, what->algorithm->name);
  onto_build(&t->onto, "check", word, &name, what, &plan);
  return plan;
}

static double work_of(uint32_t ranks) { return (double)ranks * ranks; }

/* The roots that are checked: if the collective has one, rank 0, rank 1, the middle rank and the last rank. */
struct roots {
  uint32_t root[4], count;
};

static struct roots roots_of(const struct tu_algorithm *a, uint32_t ranks) {
  const uint32_t all[] = {0, 1, ranks / 2, ranks - 1};
  const bool rooted = tu_collectives[a->collective].rooted && a->collective != TUTTI_SEND;
  struct roots roots = {.count = 0};
  for (uint32_t i = 0; i < (rooted ? 4 : 1); i++) {
    bool known = all[i] >= ranks;
    for (uint32_t k = 0; k < roots.count; k++) known |= roots.root[k] == all[i];
    if (!known) roots.root[roots.count++] = all[i];
  }
  return roots;
}

static uint32_t plan_count(const struct tu_algorithm *a, uint32_t ranks) { return 2 * roots_of(a, ranks).count; }

/* Checks the plans of an algorithm, out of place and in place, with all roots. */
static int check_algorithm(struct tally *t, const struct tu_algorithm *a, uint32_t ranks) {
  const struct roots roots = roots_of(a, ranks);
  for (uint32_t i = 0; i < roots.count; i++) {
    for (int in_place = 0; in_place < 2; in_place++) {
      struct tu_plan *plan = build(t, &(struct tu_build){.algorithm = a,
                                                         .ranks = ranks,
                                                         .root = roots.root[i],
                                                         .in_place = in_place,
                                                         .rank = TU_ALL_RANKS,
                                                         .lanes = t->lanes,
                                                         .canonical = t->canonical,
                                                         .placement = placement_of(t, a)});
      if (!plan) return CLI_FAILED;
      char what[160], lanes[24] = "";
      if (t->lanes) snprintf(lanes, sizeof lanes, ", lanes %u", t->lanes);
      snprintf(what, sizeof what, "%s.%s, %u ranks, root %u%s%s", tu_collectives[a->collective].name, a->name, ranks,
               roots.root[i], in_place ? ", in place" : "", lanes);
      count(t, plan, what);
      tu_plan_destroy(plan);
      advance(t, work_of(ranks));
    }
  }
  return CLI_GOOD;
}

/* Returns true if the algorithm has a plan for so many ranks, in the order that is checked. */
static bool serves(const struct tally *t, const struct tu_algorithm *a, uint32_t ranks) {
  const struct tu_placement *placement = placement_of(t, a);
  return tu_algorithm_fits_on(a, ranks, placement) && (!t->canonical || tu_algorithm_is_canonical(a, ranks, placement));
}

/* Counts the plans that check_ranks checks. */
static int count_ranks(struct tally *t, const struct tu_algorithm *a) {
  for (uint32_t ranks = t->low; ranks <= t->high; ranks++) {
    if (!serves(t, a, ranks)) continue;
    t->plans += plan_count(a, ranks);
    t->work += plan_count(a, ranks) * work_of(ranks);
  }
  return CLI_GOOD;
}

static int check_ranks(struct tally *t, const struct tu_algorithm *a) {
  int code = CLI_GOOD;
  for (uint32_t ranks = t->low; ranks <= t->high && code == CLI_GOOD; ranks++)
    if (serves(t, a, ranks)) code = check_algorithm(t, a, ranks);
  return code;
}

/* Returns CLI_GOOD if proving the plans for all numbers of ranks is within the limits of time and memory. The cost of a
 * plan grows with the square of its number of ranks, so the plans for 1 to N ranks together cost N / 3 times as much as
 * the plan for N ranks. */
static int allow_ranks(struct tally *t, const struct tu_algorithm *a) {
  uint32_t ranks = t->high, range = t->high - t->low + 1;
  const struct tu_placement *placement = placement_of(t, a);
  while (ranks > t->low && !serves(t, a, ranks)) ranks--;
  if (!serves(t, a, ranks)) return CLI_GOOD;
  bool rooted = tu_collectives[a->collective].rooted && a->collective != TUTTI_SEND;
  const struct budget_question question = {
      .verb = "check",
      .use = BUDGET_CHECK,
      .times = (rooted ? 8 : 2) * (range > 3 ? range / 3 : 1),
      .what = {.algorithm = a, .ranks = ranks, .rank = TU_ALL_RANKS, .lanes = t->lanes, .placement = placement}};
  return budget_allow(&t->budget, &question);
}

/* Calls `each` for every algorithm that the name stands for; if `name` is NULL, for all algorithms. */
static int check_name(struct tally *t, const struct cli_name *name,
                      int (*each)(struct tally *t, const struct tu_algorithm *a)) {
  const struct tu_algorithm *a, *only = name ? name->algorithm : NULL;
  int code = CLI_GOOD;
  if (only && t->onto.what) only = onto_algorithm(&t->onto, only);
  for (size_t i = 0; code == CLI_GOOD && (a = only ? only : tu_algorithm_at(i)) != NULL; i++) {
    bool wanted = (!name || a->collective == name->collective) && t->lanes <= tu_build_lanes_max(a);
    /* --place changes which chip each rank runs on, except for --place number. If no name is given, skip collectives
     * whose ranks must not be renumbered in this way. */
    wanted &= name || !t->onto.place || strcmp(t->onto.place, "number") == 0 || tu_plan_may_relabel(a->collective);
    if (wanted) code = each(t, a);
    if (a == only) break;
  }
  return code;
}

/* Checks the plan in a file. A malformed plan counts as refused, like a wrong plan. If the file cannot be read, prints
 * the reason and returns CLI_USAGE. */
static int check_file(struct tally *t, const char *path) {
  struct tu_error error;
  struct tu_plan *plan;
  tutti_err err = cli_read_plan(path, false, &plan, &error);
  if (err == TUTTI_OK) {
    int code = t->onto.what ? onto_lay(&t->onto, "check", path, &plan) : CLI_GOOD;
    if (code == CLI_GOOD) count(t, plan, path);
    tu_plan_destroy(plan);
    advance(t, 0);
    return code;
  }
  if (err != TUTTI_ERR_ARGUMENT) return cli_fail("check", CLI_USAGE, "%s", error.text);
  refuse(t, NULL, error.text);
  return CLI_GOOD;
}

/* Parses "LO..HI" or "N". Returns true if the text is valid and 1 <= LO <= HI. */
static bool read_range(const char *text, uint32_t *low, uint32_t *high) {
  char first[16];
  const char *dots = strstr(text, "..");
  size_t length = dots ? (size_t)(dots - text) : strlen(text);
  if (length >= sizeof first) return false;
  memcpy(first, text, length);
  first[length] = '\0';
  uint64_t a, b;
  if (!tu_parse_uint(first, TU_RANKS_MAX, &a) || !tu_parse_uint(dots ? dots + 2 : first, TU_RANKS_MAX, &b))
    return false;
  *low = (uint32_t)a;
  *high = (uint32_t)b;
  return a > 0 && a <= b;
}

/* Prints what was proved, and the largest scratch memory of a plan. */
static void print_proof(const struct tally *t) {
  if (t->proved == 0) return;
  printf(
      "proved: every output has the result of the collective; steps that share memory are ordered; no deadlock "
      "with %u %s per channel, for messages of any size\n",
      t->credits, t->credits == 1 ? "credit" : "credits");
  printf("plans that combine in rank order: %s", units_count(t->in_rank_order).chars);
  const uint64_t *of = t->of_class;
  if (of[TU_CANONICAL] + of[TU_UNIFORM] + of[TU_BY_CHUNK] > 0)
    printf("; order of reduction: canonical %s, uniform %s, by chunk %s", units_count(of[TU_CANONICAL]).chars,
           units_count(of[TU_UNIFORM]).chars, units_count(of[TU_BY_CHUNK]).chars);
  if (t->scratch_max > 0)
    printf("; largest scratch: %s chunks per rank (%s)", units_count(t->scratch_max).chars, t->scratch_of);
  printf("\n");
}

/* Prints the object of --json: what print_proof prints, and the counts. */
static void print_json(struct tally *t) {
  struct json *j = &t->data;
  json_close(j, JSON_LIST);
  json_count(j, "proved", t->proved);
  json_count(j, "refused", t->refused);
  json_count(j, "credits", t->credits);
  json_count(j, "in_rank_order", t->in_rank_order);
  json_count(j, "canonical", t->of_class[TU_CANONICAL]);
  json_count(j, "uniform", t->of_class[TU_UNIFORM]);
  json_count(j, "by_chunk", t->of_class[TU_BY_CHUNK]);
  json_count(j, "scratch_chunks_max", t->scratch_max);
  json_text(j, "scratch_of", t->scratch_max > 0 ? t->scratch_of : NULL);
  json_end(j);
}

/* Checks the options, and reads the range of the numbers of ranks and the order. */
static int check_options(struct tally *t, const char *range, const char *order) {
  if (t->hosts.text && (range || t->onto.what))
    return cli_fail("check", CLI_USAGE, "--hosts cannot be combined with -n or --cluster: it sets the number of ranks");
  if (range && t->onto.what)
    return cli_fail("check", CLI_USAGE, "-n cannot be combined with --cluster, which sets the number of ranks");
  if (!read_range(range ? range : "2..16", &t->low, &t->high))
    return cli_fail("check", CLI_USAGE, "-n: expected a range LO..HI of numbers of ranks, from 1 to %u, found '%s'",
                    TU_RANKS_MAX, range);
  const int code = cli_read_order("check", order, &t->canonical);
  if (code != CLI_GOOD) return code;
  if (t->canonical && t->onto.what)
    return cli_fail("check", CLI_USAGE,
                    "--order canonical cannot be combined with --cluster, which gives the ranks other numbers");
  if (t->lanes > TU_LANES_MAX)
    return cli_fail("check", CLI_USAGE, "--lanes: expected 1 to %u, found %u", TU_LANES_MAX, t->lanes);
  if (t->credits == 0) return cli_fail("check", CLI_USAGE, "--credits: expected 1 or more, found 0");
  return CLI_GOOD;
}

/* Prints the result; returns the exit status. */
static int finish(struct tally *t) {
  if (t->json) {
    print_json(t);
  } else {
    print_proof(t);
    printf("%s plans proved, %s refused\n", units_count(t->proved).chars, units_count(t->refused).chars);
  }
  return t->refused ? CLI_FAILED : CLI_GOOD;
}

/* Checks what the arguments name, if that is within the limits. */
static int check_arguments(struct tally *t, int argc, char **argv) {
  struct cli_name name;
  int code = argc == 1 ? check_name(t, NULL, allow_ranks) : CLI_GOOD;
  for (int i = 1; i < argc && code == CLI_GOOD; i++)
    if (cli_find_name(argv[i], &name)) code = check_name(t, &name, allow_ranks);
  if (argc == 1 && code == CLI_GOOD) code = check_name(t, NULL, count_ranks);
  for (int i = 1; i < argc && code == CLI_GOOD; i++)
    if (cli_find_name(argv[i], &name)) code = check_name(t, &name, count_ranks);
    else t->plans++;
  progress_start(&(struct progress_task){.verb = "check",
                                         .things = "plans",
                                         .total = t->plans > 1 ? t->plans : 0,
                                         .work = t->plans > 1 ? t->work : 0,
                                         .quiet = t->quiet,
                                         .by_alarm = true});
  if (t->json) {
    json_begin(&t->data, "check");
    json_open(&t->data, "refusals", JSON_LIST);
  }
  if (argc == 1 && code == CLI_GOOD) code = check_name(t, NULL, check_ranks);
  for (int i = 1; i < argc && code == CLI_GOOD; i++)
    code = cli_find_name(argv[i], &name) ? check_name(t, &name, check_ranks) : check_file(t, argv[i]);
  progress_stop();
  return code;
}

static int run(int argc, char **argv) {
  struct tally t = {.credits = 1, .budget = BUDGET_DEFAULT};
  const char *range = NULL, *order = NULL;
  bool done;
  const struct cli_option options[] = {
      {"-n", CLI_STRING, &range, "LO..HI", "range of the number of ranks (2..16)"},
      {"--credits", CLI_UINT, &t.credits, "K", "slots of a channel (1, the strictest)"},
      {"--lanes", CLI_UINT, &t.lanes, "L", "number of lanes; each carries a part of every block (1)"},
      {"--order", CLI_STRING, &order, "any|canonical", "canonical: only plans that claim this order (any)"},
      HOSTS_OPTION(&t.hosts),
      ONTO_OPTIONS(&t.onto),
      BUDGET_OPTION(&t.budget),
      JSON_OPTION(&t.json),
      QUIET_OPTION(&t.quiet),
  };
  int code = cli_parse(&cli_check, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if ((code = check_options(&t, range, order)) != CLI_GOOD) return code;
  struct cli_name name;
  /* Validate all arguments first, so that an error in the last argument does not waste a long run. */
  for (int i = 1; i < argc; i++)
    if (!cli_find_name(argv[i], &name) && strcmp(argv[i], "-") != 0 && access(argv[i], R_OK) != 0)
      return cli_fail_name("check", CLI_USAGE, argv[i]);
    else if (t.hosts.text && !cli_find_name(argv[i], &name))
      return cli_fail("check", CLI_USAGE, "--hosts cannot be combined with the plan file %s, which names ranks",
                      argv[i]);
  /* Thousands of plans of some MiB each are built and freed. Keeping freed memory in the heap saves about a tenth of
   * the time. */
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  t.onto.budget = &t.budget;
  uint32_t placed = 0;
  code = cli_hosts_read(&t.hosts, "check", &placed);
  if (placed > 0) t.low = t.high = placed;
  if (t.onto.what) {
    code = onto_open(&t.onto, "check");
    if (code == CLI_GOOD) t.low = t.high = t.onto.cluster->chip_count;
  }
  if (code == CLI_GOOD) code = check_arguments(&t, argc, argv);
  onto_close(&t.onto);
  cli_hosts_fini(&t.hosts);
  if (code == CLI_GOOD) return finish(&t);
  json_drop(&t.data);
  return code;
}

const struct cli_verb cli_check = {
    .name = "check",
    .summary = "prove that plans deliver the right data and cannot deadlock",
    .synopsis = "check [COLLECTIVE[.NAME]|FILE ...] [-n LO..HI] [--cluster CLUSTER] [options]",
    .run = run,
    .arguments = "COLLECTIVE|ALGORITHM|FILE",
};
