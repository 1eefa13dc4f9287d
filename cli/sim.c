/* sim.c: `tutti sim`: simulates a plan, built-in or from a file, on a network. The network is given by three cost
 * parameters or by a cluster. */
#include "sim/sim.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "check/check.h"
#include "cli/budget.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/progress.h"
#include "cli/sim_cluster.h"
#include "cli/units.h"
#include "sim/sim_spread.h"

struct question {
  struct tu_build what; /* parameters for building a built-in plan */
  uint64_t bytes;
  struct tu_sim_cost cost;
  bool all_ranks, json, quiet;
  struct sim_cluster_question cluster;
  struct cli_hosts hosts;
  struct budget budget;
  /* These fields are set when the plan is built or read. */
  const char *collective, *algorithm;
  char algorithm_name[TU_NAME_BYTES];
  uint32_t ranks;
  struct tu_sim *sim;
};

/* Makes the graph of all ranks from the graph of one rank. This works if all ranks have the same steps. A cluster needs
 * the graph of all ranks, because its links differ, and so do the times of the ranks. */
static void spread(struct question *q) {
  struct tu_sim *less = tu_sim_contract(q->sim, TU_SIM_EXACT), *all = tu_sim_spread(less, q->ranks);
  tu_sim_destroy(q->sim);
  tu_sim_destroy(less);
  q->sim = all;
}

static int load_name(struct question *q, const char *word, const struct cli_name *name) {
  int code = CLI_GOOD;
  if (q->cluster.cluster && q->what.ranks == 0) code = sim_cluster_chips(&q->cluster, &q->what.ranks);
  q->what.placement = q->hosts.placement;
  if (code == CLI_GOOD) code = cli_check_build("sim", word, name, &q->what);
  if (code != CLI_GOOD) return code;
  q->collective = tu_collectives[name->collective].name;
  q->algorithm = name->algorithm->name;
  q->ranks = q->what.ranks;
  /* Build the steps of all ranks for --graph, which prints every step, and for --late. --late may delay a rank that
   * only receives; spread() would leave out the steps of such a rank. In canonical order, the steps of ranks differ. */
  bool whole = q->all_ranks || q->cluster.graph || q->cluster.late || q->what.placement || q->what.canonical;
  bool alike = !whole && (name->algorithm->flags & TU_ROTATES);
  q->what.rank = alike && !q->cluster.cluster
                     ? 0
                     /* on a cluster, estimate the cost of all ranks' steps, because spread() makes them later */
                     : TU_ALL_RANKS;
  const struct budget_question question = {.verb = "sim",
                                           .use = BUDGET_SIM,
                                           .what = q->what,
                                           .one_rank = q->all_ranks ? "possible without --all-ranks" : NULL};
  if ((code = budget_allow(&q->budget, &question)) != CLI_GOOD) return code;
  q->what.rank = alike ? 0 : TU_ALL_RANKS;
  q->sim = tu_sim_build(&q->what);
  if (alike && q->cluster.cluster) spread(q);
  return CLI_GOOD;
}

/* Loads a plan from a file. The plan is first proved correct, because the simulation of a deadlock would never end.
 * Like the simulator, the proof assumes channels that are never full. */
static int load_plan(struct question *q, const char *path, const struct tu_plan *plan) {
  if (q->what.ranks != 0 && q->what.ranks != plan->ranks)
    return cli_fail("sim", CLI_USAGE, "-n: %s is a plan for %u ranks, not %u", path, plan->ranks, q->what.ranks);
  struct tu_check_report report;
  if (!tu_check(plan, UINT32_MAX, &report)) return cli_fail("sim", CLI_FAILED, "%s: %s", path, report.text);
  q->collective = tu_collectives[plan->collective].name;
  snprintf(q->algorithm_name, sizeof q->algorithm_name, "%s", plan->algorithm);
  q->algorithm = q->algorithm_name;
  q->ranks = plan->ranks;
  q->sim = tu_sim_create(plan);
  return CLI_GOOD;
}

static int load_file(struct question *q, const char *path) {
  struct tu_error error;
  struct tu_plan *plan;
  tutti_err err = cli_read_plan(path, false, &plan, &error);
  if (err != TUTTI_OK)
    return cli_fail("sim", err == TUTTI_ERR_ARGUMENT || err == TUTTI_ERR_MEMORY ? CLI_FAILED : CLI_USAGE, "%s",
                    error.text);
  int code = load_plan(q, path, plan);
  tu_plan_destroy(plan);
  return code;
}

static void print_json(const struct question *q, const struct tu_sim_report *r) {
  struct json j = {0};
  json_begin(&j, "sim");
  json_text(&j, "collective", q->collective);
  json_text(&j, "algorithm", q->algorithm);
  json_count(&j, "ranks", q->ranks);
  json_count(&j, "bytes", q->bytes);
  json_number(&j, "time_s", r->time_s);
  json_count(&j, "messages", r->messages);
  json_number(&j, "bytes_sent_max", r->bytes_sent_max);
  json_count(&j, "critical_messages", r->critical_messages);
  json_end(&j);
}

static void print_table(const struct question *q, const struct tu_sim_report *r) {
  const struct tu_sim_cost *cost = &q->cost;
  printf("%s.%s, %u ranks, %s; alpha %s, beta %s/B, gamma %s/B\n", q->collective, q->algorithm, q->ranks,
         units_bytes((double)q->bytes).chars, units_seconds(cost->alpha).chars, units_seconds(cost->beta).chars,
         units_seconds(cost->gamma).chars);
  printf("  time            %s\n", units_seconds(r->time_s).chars);
  printf("  messages        %s\n", units_count(r->messages).chars);
  printf("  bytes sent      %s by the rank that sends most\n", units_bytes(r->bytes_sent_max).chars);
  printf("  critical chain  %s messages, %s sent, %s reduced\n", units_count(r->critical_messages).chars,
         units_bytes(r->critical_bytes).chars, units_bytes(r->critical_reduced_bytes).chars);
  double sent = (double)r->critical_messages * cost->alpha;
  printf("  of the time     %s alpha, %s beta, %s gamma\n", units_seconds(sent).chars,
         units_seconds(r->critical_bytes * cost->beta).chars,
         units_seconds(r->critical_reduced_bytes * cost->gamma).chars);
}

static int load(struct question *q, const char *word) {
  struct cli_name name;
  if (cli_find_name(word, &name)) return load_name(q, word, &name);
  if (strcmp(word, "-") != 0 && access(word, R_OK) != 0) return cli_fail_name("sim", CLI_USAGE, word);
  if (q->hosts.text || q->what.root > 0 || q->what.slot_pieces > 0 || q->what.depth > 0 || q->what.chunks > 0 ||
      q->what.lanes > 0 || q->what.canonical)
    return cli_fail("sim", CLI_USAGE,
                    "--hosts, --root, --slot-pieces, --depth, --chunks, --lanes and --order cannot be combined with "
                    "the plan file %s",
                    word);
  return load_file(q, word);
}

/* Tells the progress of a simulation. */
static void see(uint64_t ended, uint64_t nodes) {
  progress_count("messages and steps", nodes);
  progress_step(ended, (double)ended);
}

static int simulate(struct question *q, const char *word) {
  if (q->cluster.graph && !q->cluster.cluster)
    return cli_fail("sim", CLI_USAGE, "--graph needs a cluster; add --cluster");
  if (q->hosts.text && q->cluster.cluster)
    return cli_fail("sim", CLI_USAGE, "--hosts cannot be combined with --cluster");
  int code = cli_hosts_read(&q->hosts, "sim", &q->what.ranks);
  if (code == CLI_GOOD) code = load(q, word);
  if (code != CLI_GOOD) return code;
  tu_sim_watch(q->sim, see);
  if (q->cluster.cluster) {
    const struct sim_plan_name plan = {q->collective, q->algorithm, q->bytes};
    code = sim_cluster_run(&q->cluster, &plan, q->sim, q->ranks, q->json);
    tu_sim_destroy(q->sim);
    return code;
  }
  struct tu_sim_report report;
  tu_sim_run(q->sim, (double)q->bytes, &q->cost, &report);
  progress_stop();
  tu_sim_destroy(q->sim);
  if (report.time_s > DBL_MAX)
    return cli_fail("sim", CLI_USAGE,
                    "the simulated time overflows a double; use a smaller --alpha, --beta or --gamma");
  if (q->json) print_json(q, &report);
  else print_table(q, &report);
  return CLI_GOOD;
}

static int answer(struct question *q, const char *rows, int argc, char **argv) {
  if (rows && argc == 1) return sim_rows(rows, q->cluster.links, q->json);
  if (rows) return cli_fail("sim", CLI_USAGE, "--rows cannot be combined with a plan, found '%s'", argv[1]);
  if (argc != 2)
    return cli_fail("sim", CLI_USAGE, "expected one COLLECTIVE.NAME (see tutti list) or FILE, found %d arguments",
                    argc - 1);
  const int code = simulate(q, argv[1]);
  cli_hosts_fini(&q->hosts);
  return code;
}

static int run(int argc, char **argv) {
  /* Default costs, those of a common machine: 1 us per message, links of 12.5 GB/s, reductions at 20 GB/s. */
  struct question q = {.bytes = 1 << 20,
                       .budget = BUDGET_DEFAULT,
                       .cost = {1e-6, 8e-11, 5e-11},
                       .cluster = {.links = "wormhole", .place = "auto", .flag = "merged", .share = "fair"}};
  bool done;
  const char *rows = NULL, *order = NULL;
  const struct cli_option options[] = {
      {"-n", CLI_UINT, &q.what.ranks, "N", "number of ranks"},
      {"--bytes", CLI_BYTES, &q.bytes, "B", "size of the longer of input and output (1M)"},
      {"--alpha", CLI_NUMBER, &q.cost.alpha, "S", "time per message, in s (1e-6)"},
      {"--beta", CLI_NUMBER, &q.cost.beta, "S", "time per byte sent, in s (8e-11: 12.5 GB/s)"},
      {"--gamma", CLI_NUMBER, &q.cost.gamma, "S", "time per byte reduced, in s (5e-11: 20 GB/s)"},
      {"--root", CLI_UINT, &q.what.root, "R", "root, for rooted collectives (0)"},
      {"--slot-pieces", CLI_UINT, &q.what.slot_pieces, "P",
       "pieces that fit into a slot, for algorithms that aggregate (1)"},
      {"--depth", CLI_UINT, &q.what.depth, "D", "slots of a channel, for algorithms that aggregate (8)"},
      {"--chunks", CLI_UINT, &q.what.chunks, "C", "consecutive pieces of a block, for algorithms that aggregate (1)"},
      {"--lanes", CLI_UINT, &q.what.lanes, "L", "number of lanes; each carries a part of every block (1)"},
      {"--order", CLI_STRING, &order, "any|canonical", "canonical: the plan for calls that need this order (any)"},
      {"--cluster", CLI_STRING, &q.cluster.cluster, "CLUSTER", "simulate the links of a cluster; see tutti-topo(1)"},
      {"--reserve", CLI_STRING, &q.cluster.reserve, "none|dispatch|LIST", "links of the cluster that must not be used"},
      {"--links", CLI_STRING, &q.cluster.links, "wormhole|plain|FILE", "cost model of the links (wormhole)"},
      {"--place", CLI_STRING, &q.cluster.place, "ring|grid|number|auto", "order of the ranks on the chips (auto)"},
      {"--dimension-order", CLI_FLAG, &q.cluster.dimension_order, NULL, "use dimension-order routing on a grid"},
      {"--slot", CLI_BYTES, &q.cluster.slot_bytes, "S", "size of a channel's slots (that of the model, or what fits)"},
      {"--credits", CLI_UINT, &q.cluster.credits, "C", "slots of a channel (those of the model)"},
      {"--flag", CLI_STRING, &q.cluster.flag, "merged|separate", "flags merged with the payload, or separate (merged)"},
      {"--fluid", CLI_FLAG, &q.cluster.fluid, NULL, "simulate flows that share links, without slots and packets"},
      {"--share", CLI_STRING, &q.cluster.share, "fair|latency",
       "how flows share a link; latency: less for longer latency (fair)"},
      {"--late", CLI_STRING, &q.cluster.late, "R=S,...", "rank R starts S seconds late"},
      {"--down", CLI_STRING, &q.cluster.down, "A-B@T+D,...", "links between chips A and B are down from T to T + D s"},
      {"--slow", CLI_STRING, &q.cluster.slow, "A-B=F,...", "links between chips A and B are F times slower"},
      {"--trace", CLI_STRING, &q.cluster.trace, "FILE", "write a timeline of ranks and links as Chrome-trace JSON"},
      {"--page", CLI_STRING, &q.cluster.page, "FILE", "write the timeline as a page with the load of the links"},
      {"--rows", CLI_STRING, &rows, "FILE", "compare --links with the measurements of a file; see tutti-links(5)"},
      {"--graph", CLI_STRING, &q.cluster.graph, "FILE",
       "write messages and links for another simulator; see tutti-graph(5)"},
      {"--all-ranks", CLI_FLAG, &q.all_ranks, NULL, "simulate all ranks, even if one rank represents all"},
      HOSTS_OPTION(&q.hosts),
      BUDGET_OPTION(&q.budget),
      JSON_OPTION(&q.json),
      QUIET_OPTION(&q.quiet),
  };
  int code = cli_parse(&cli_sim, options, sizeof options / sizeof options[0], &argc, argv, &done);
  if (code != CLI_GOOD || done) return code;
  if ((code = cli_read_order("sim", order, &q.what.canonical)) != CLI_GOOD) return code;
  progress_start(&(struct progress_task){.verb = "sim", .quiet = q.quiet, .by_alarm = true});
  code = answer(&q, rows, argc, argv);
  progress_stop();
  return code;
}

const struct cli_verb cli_sim = {
    .name = "sim",
    .summary = "simulate a plan on a network of three cost parameters, or on a cluster",
    .synopsis = "sim COLLECTIVE.NAME|FILE [-n N] [--bytes B] [--alpha S] [--beta S] [--gamma S] ...",
    .run = run,
    .arguments = "ALGORITHM|FILE",
};
