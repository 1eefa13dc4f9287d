/* plan.c: `tutti plan`: prints the plan of an algorithm as text, data or a picture. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/pat.h"
#include "base/text.h"
#include "check/check.h"
#include "cli/budget.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/onto.h"
#include "cli/progress.h"
#include "draw/draw.h"
#include "plan/plan_text.h"

#define ALL UINT32_MAX

/* Prints the plan rank by rank. The first rank thus appears early, and the whole text is never in memory. */
static void print_text(const struct tu_draw *what, struct tu_text *text) {
  tu_plan_write_head(what->plan, text);
  for (uint32_t i = 0; i < what->plan->rank_count; i++) {
    tu_plan_write_rank(what->plan, i, text);
    fputs(text->chars, stdout);
    text->length = 0;
    text->chars[0] = '\0';
  }
}

static void print_json(const struct tu_draw *what, struct tu_text *text) {
  json_head("plan", text);
  tu_text_print(text, ", ");
  tu_draw_json(what, text);
  tu_text_print(text, "\n}\n");
}

/* An output form of a plan (--as; json is that of --json). */
struct form {
  const char *name;
  void (*print)(const struct tu_draw *what, struct tu_text *text);
};
static const struct form forms[] = {
    {"text", print_text}, {"svg", tu_draw_svg}, {"html", tu_draw_html}, {"json", print_json}};
enum { FORMS = sizeof forms / sizeof forms[0], TEXT = 0 };

/* The output forms that need the option --cluster: the loads of the links, and the routes of the messages. */
static const struct form onto_forms[] = {{"links", NULL}, {"routes", NULL}};
enum { ONTO_FORMS = sizeof onto_forms / sizeof onto_forms[0], LINKS = 0 };

struct request {
  const char *as;
  const struct form *form;
  struct tu_build build;
  const char *summary;
  bool steps, quiet;
  struct onto onto;
  struct cli_hosts hosts;
  struct budget budget;
};

static int find_form(struct request *r) {
  const char *names[FORMS + ONTO_FORMS];
  for (int i = 0; i < FORMS + ONTO_FORMS; i++) {
    const struct form *form = i < FORMS ? &forms[i] : &onto_forms[i - FORMS];
    names[i] = form->name;
    if (strcmp(r->as, form->name) == 0) r->form = form;
  }
  if (r->form && (r->form->print || r->onto.what)) return CLI_GOOD;
  if (r->form) return cli_fail("plan", CLI_USAGE, "--as %s needs --cluster CLUSTER", r->as);
  const char *near = tu_nearest(r->as, names, FORMS + ONTO_FORMS);
  return cli_fail("plan", CLI_USAGE, "--as: expected text, svg, html, links or routes (or --json), found '%s'%s%s%s",
                  r->as, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Prints the operations of an algorithm PAT (parallel aggregated trees) as a table in the format of NCCL's PAT
 * (--steps). */
static int print_steps(const struct request *r, const char *word) {
  const struct tu_build *b = &r->build;
  if (strcmp(b->algorithm->name, "pat") != 0)
    return cli_fail("plan", CLI_USAGE, "--steps: expected allgather.pat or reduce_scatter.pat, found %s", word);
  if (b->lanes > 1) return cli_fail("plan", CLI_USAGE, "--steps: expected one lane (--lanes 1), found %u", b->lanes);
  if (b->rank != ALL || r->form != &forms[TEXT])
    return cli_fail("plan", CLI_USAGE, "--steps prints all ranks as CSV; omit --rank and --as");
  if (b->slot_pieces > 64)
    return cli_fail("plan", CLI_USAGE, "--slot-pieces: expected at most 64 if --steps is given, found %u",
                    b->slot_pieces);
  struct tu_pat pat;
  struct tu_arena arena = {0};
  struct tu_text text = {0};
  if (b->algorithm->collective == TUTTI_ALLGATHER) tu_pat_allgather(&pat, b, &arena);
  else tu_pat_reduce_scatter(&pat, b, &arena);
  tu_pat_write(&pat, b, &text);
  fputs(text.chars, stdout);
  tu_text_fini(&text);
  tu_arena_fini(&arena);
  return CLI_GOOD;
}

/* Reads a plan from a file. For every output form except text, the plan is first proved correct, because a wrong plan
 * cannot be drawn. */
static int read_plan(const struct request *r, const char *path, struct tu_plan **plan) {
  struct tu_error error;
  if (r->hosts.text)
    return cli_fail("plan", CLI_USAGE, "--hosts cannot be combined with the plan file %s, which names ranks", path);
  if (r->build.ranks || r->build.root || r->build.rank != ALL || r->build.lanes || r->steps)
    return cli_fail("plan", CLI_USAGE,
                    "-n, --root, --rank, --lanes and --steps cannot be combined with the plan file %s", path);
  tutti_err err = cli_read_plan(path, r->build.in_place, plan, &error);
  if (err != TUTTI_OK)
    return cli_fail("plan", err == TUTTI_ERR_ARGUMENT || err == TUTTI_ERR_MEMORY ? CLI_FAILED : CLI_USAGE, "%s",
                    error.text);
  struct tu_check_report report;
  if (r->form == &forms[TEXT] || tu_check(*plan, 1, &report)) return CLI_GOOD;
  tu_plan_destroy(*plan);
  *plan = NULL;
  return cli_fail("plan", CLI_FAILED, "%s: the plan is refused, so it is not drawn: %s", path, report.text);
}

/* Makes a plan that is mapped onto the cluster, with one rank per chip. */
static int make_onto(struct request *r, const char *word, struct tu_plan **plan) {
  struct cli_name name;
  if (r->build.rank != ALL || r->steps)
    return cli_fail("plan", CLI_USAGE, "--rank and --steps cannot be combined with --cluster, which prints all ranks");
  if (cli_find_name(word, &name)) {
    int code = onto_build(&r->onto, "plan", word, &name, &r->build, plan);
    if (code == CLI_GOOD) r->summary = r->build.algorithm->summary;
    return code;
  }
  if (strcmp(word, "-") != 0 && access(word, R_OK) != 0) return cli_fail_name("plan", CLI_USAGE, word);
  int code = read_plan(r, word, plan);
  return code == CLI_GOOD ? onto_lay(&r->onto, "plan", word, plan) : code;
}

static int make_plan(struct request *r, const char *word, struct tu_plan **plan) {
  struct cli_name name;
  if (!cli_find_name(word, &name)) {
    if (strcmp(word, "-") == 0 || access(word, R_OK) == 0) return read_plan(r, word, plan);
    return cli_fail_name("plan", CLI_USAGE, word);
  }
  struct tu_build *b = &r->build;
  b->placement = r->hosts.placement;
  int code = cli_check_build("plan", word, &name, b);
  if (code != CLI_GOOD) return code;
  if (b->rank != ALL && b->rank >= b->ranks)
    return cli_fail("plan", CLI_USAGE, "--rank: expected a rank below %u, found %u", b->ranks, b->rank);
  if (b->rank != ALL && r->form != &forms[TEXT])
    return cli_fail("plan", CLI_USAGE, "--rank needs --as text, but found --as %s, which shows all ranks", r->as);
  if (b->rank == ALL) b->rank = TU_ALL_RANKS;
  struct budget_question question = {.verb = "plan",
                                     .use = r->form == &forms[TEXT] ? BUDGET_TEXT : BUDGET_DRAW,
                                     .what = *b,
                                     .one_rank = "--rank R shows the steps of one rank"};
  if (r->steps)
    question.what.rank = 0; /* --steps derives the steps of all ranks from those of one rank: estimate only these */
  if ((code = budget_allow(&r->budget, &question)) != CLI_GOOD) return code;
  if (r->steps) return print_steps(r, word);
  r->summary = b->algorithm->summary;
  *plan = tu_plan_build(b);
  return CLI_GOOD;
}

/* Returns the column of each rank in a picture in which the ranks of a host stand side by side. */
static uint32_t *columns_by_host(const struct tu_placement *p) {
  uint32_t *columns = tu_allocate(p->ranks, sizeof *columns);
  for (uint32_t i = 0; i < p->ranks; i++) columns[p->order[i]] = i;
  return columns;
}

/* Prints the plan to standard output. With --cluster, also prints the order of the ranks and the loads of the links to
 * standard error, and adds the order to the text above a picture. */
static void print_plan(const struct request *r, const struct tu_plan *plan) {
  struct tu_text text = {0}, words = {0};
  struct tu_draw what = {.plan = plan, .summary = r->summary};
  uint32_t *columns = NULL;
  if (r->onto.what) {
    if (r->summary) tu_text_print(&words, "%s, ", r->summary);
    onto_say_order(&r->onto, &words);
    what.summary = words.chars;
    what.column_of = columns = onto_columns(&r->onto);
    progress_clear();
    fprintf(stderr, "%s.%s %s\n", tu_collectives[plan->collective].name, plan->algorithm,
            words.chars + (r->summary ? strlen(r->summary) + 2 : 0));
    struct tu_text loads = {0};
    onto_say_loads(&r->onto, &loads);
    fprintf(stderr, "%s\n", loads.chars);
    tu_text_fini(&loads);
  }
  if (r->build.placement && r->build.placement->order) what.column_of = columns = columns_by_host(r->build.placement);
  if (r->form == &forms[TEXT]) progress_stop(); /* it prints rank by rank */
  if (r->form->print) r->form->print(&what, &text);
  else if (r->form == &onto_forms[LINKS]) onto_list_links(&r->onto, &text);
  else onto_list_routes(&r->onto, plan, &text);
  progress_stop();
  if (text.chars) fputs(text.chars, stdout);
  free(columns);
  tu_text_fini(&words);
  tu_text_fini(&text);
}

static int run(int argc, char **argv) {
  struct request r = {.as = "text", .build = {.rank = ALL}, .budget = BUDGET_DEFAULT};
  struct tu_build *b = &r.build;
  const char *order = NULL;
  bool json = false, done;
  const struct cli_option options[] = {
      {"-n", CLI_UINT, &b->ranks, "N", "number of ranks"},
      {"--root", CLI_UINT, &b->root, "R", "root, for rooted collectives (0)"},
      {"--rank", CLI_UINT, &b->rank, "R", "print the steps of this rank only"},
      {"--in-place", CLI_FLAG, &b->in_place, NULL, "input and output are one buffer"},
      {"--slot-pieces", CLI_UINT, &b->slot_pieces, "P", "pieces of a message that fit into a slot"},
      {"--depth", CLI_UINT, &b->depth, "D", "slots of a channel"},
      {"--chunks", CLI_UINT, &b->chunks, "C", "pieces of a block"},
      {"--lanes", CLI_UINT, &b->lanes, "L", "number of lanes; each carries a part of every block (1)"},
      {"--order", CLI_STRING, &order, "any|canonical", "canonical: the plan for calls that need this order (any)"},
      {"--steps", CLI_FLAG, &r.steps, NULL, "print the operations of a pat algorithm, as CSV"},
      HOSTS_OPTION(&r.hosts),
      ONTO_OPTIONS(&r.onto),
      BUDGET_OPTION(&r.budget),
      {"--as", CLI_STRING, &r.as, "text|svg|html|links|routes",
       "text, a picture or an interactive page; with --cluster also links or routes (text)"},
      JSON_OPTION(&json),
      QUIET_OPTION(&r.quiet),
  };
  int code = cli_parse(&cli_plan, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if (argc != 2)
    return cli_fail("plan", CLI_USAGE, "expected one COLLECTIVE.NAME (see tutti list), found %d arguments", argc - 1);
  if ((code = cli_read_order("plan", order, &b->canonical)) != CLI_GOOD) return code;
  if (b->canonical && r.onto.what)
    return cli_fail("plan", CLI_USAGE,
                    "--order canonical cannot be combined with --cluster, which gives the ranks other numbers");
  if (json && (code = cli_choose_json("plan", &r.as)) != CLI_GOOD) return code;
  progress_start(&(struct progress_task){.verb = "plan", .quiet = r.quiet, .by_alarm = true});
  r.onto.budget = &r.budget;
  code = find_form(&r);
  if (code == CLI_GOOD && r.hosts.text && r.onto.what)
    code = cli_fail("plan", CLI_USAGE, "--hosts cannot be combined with --cluster");
  if (code == CLI_GOOD) code = cli_hosts_read(&r.hosts, "plan", &b->ranks);
  struct tu_plan *plan = NULL;
  if (code == CLI_GOOD && r.onto.what) {
    code = onto_open(&r.onto, "plan");
    if (code == CLI_GOOD) code = make_onto(&r, argv[1], &plan);
  } else if (code == CLI_GOOD) code = make_plan(&r, argv[1], &plan);
  if (code == CLI_GOOD && plan) print_plan(&r, plan);
  progress_stop();
  tu_plan_destroy(plan);
  onto_close(&r.onto);
  cli_hosts_fini(&r.hosts);
  return code;
}

const struct cli_verb cli_plan = {
    .name = "plan",
    .summary = "print the plan of an algorithm as text, data, a picture or an interactive page",
    .synopsis =
        "plan COLLECTIVE.NAME -n N [--as FORM] [options], plan FILE [--in-place] [--as "
        "FORM], or either with --cluster CLUSTER",
    .run = run,
    .arguments = "ALGORITHM|FILE",
};
