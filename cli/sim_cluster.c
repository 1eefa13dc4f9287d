/* sim_cluster.c: `tutti sim --cluster`: simulates a plan on the links of a cluster. Reads the link model and the
 * faults, maps the ranks onto chips, and prints the results. */
#include "cli/sim_cluster.h"

#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/units.h"
#include "draw/draw_timeline.h"
#include "sim/sim_cluster.h"
#include "topology/ring.h"

/* The cluster, the link model, the faults and the mapping of a simulation, made from the options. */
struct scene {
  struct tu_cluster *cluster;
  struct tu_grid grid;
  struct tu_ring ring;
  struct tu_router *router;
  struct tu_link_model model;
  struct tu_links_down *downs;
  uint32_t down_count, down_capacity;
  double *slowness, *late;
  struct tu_sim_where where;
};

static int fail(const struct tu_error *error) { return cli_fail("sim", CLI_FAILED, "%s", error->text); }

static void close_scene(struct scene *s) {
  tu_router_destroy(s->router);
  tu_ring_fini(&s->ring);
  tu_grid_fini(&s->grid);
  tu_cluster_destroy(s->cluster);
  free(s->downs);
  free(s->slowness);
  free(s->late);
}

/* ---- lists of faults ---- */

/* Copies the next item of a comma-separated list; returns false at the end of the list. */
static bool next_item(const char **list, char *item, size_t item_bytes) {
  if (!*list || !**list) return false;
  size_t length = strcspn(*list, ",");
  snprintf(item, item_bytes, "%.*s", (int)(length < item_bytes ? length : item_bytes - 1), *list);
  *list += length + ((*list)[length] == ',');
  return true;
}

/* Parses "A-B", the ids of two linked chips. Sets *rest to the text after them. */
static int read_pair(const struct scene *s, const char *option, const char *item, uint32_t pair[2], const char **rest) {
  char *end;
  for (int i = 0; i < 2; i++) {
    if (*item < '0' || *item > '9')
      return cli_fail("sim", CLI_USAGE, "%s: expected two chips, for example 3-7, found '%s'", option, item);
    errno = 0;
    unsigned long id = strtoul(item, &end, 10);
    pair[i] = errno == 0 && id < TU_NONE ? tu_cluster_chip(s->cluster, (uint32_t)id) : TU_NONE;
    if (pair[i] == TU_NONE)
      return cli_fail("sim", CLI_USAGE, "%s: cluster %s has no chip %lu", option, s->cluster->name, id);
    if (i == 0 && *end != '-')
      return cli_fail("sim", CLI_USAGE, "%s: expected two chips, for example 3-7, found '%s'", option, item);
    item = i == 0 ? end + 1 : end;
  }
  if (tu_cluster_usable(s->cluster, pair[0], pair[1]) == 0)
    return cli_fail("sim", CLI_USAGE, "%s: there is no usable link between chips %u and %u", option,
                    s->cluster->nodes[pair[0]].id, s->cluster->nodes[pair[1]].id);
  *rest = item;
  return CLI_GOOD;
}

static int compare_downs(const void *a, const void *b) {
  const struct tu_links_down *x = a, *y = b;
  if (x->link != y->link) return x->link < y->link ? -1 : 1;
  return (x->from > y->from) - (x->from < y->from);
}

/* Parses A-B@T+D,...: all links between chips A and B fail at T seconds, for D seconds. Afterwards they stay down for
 * the time that the link model states for retraining. */
static int read_downs(struct scene *s, const char *list) {
  char item[128];
  const char *rest;
  while (next_item(&list, item, sizeof item)) {
    uint32_t pair[2];
    int code = read_pair(s, "--down", item, pair, &rest);
    if (code != CLI_GOOD) return code;
    double from, seconds;
    char *plus = strchr(rest, '+');
    if (plus) *plus = '\0';
    if (!plus || *rest != '@' || !tu_parse_number(rest + 1, &from) || !tu_parse_number(plus + 1, &seconds))
      return cli_fail("sim", CLI_USAGE,
                      "--down: expected CHIP-CHIP@SECONDS+SECONDS, for example 3-7@1e-3+5e-4, found '%s'", item);
    for (uint32_t i = 0; i < tu_cluster_usable(s->cluster, pair[0], pair[1]); i++) {
      s->downs = tu_grow(s->downs, s->down_count, &s->down_capacity, sizeof *s->downs);
      s->downs[s->down_count++] = (struct tu_links_down){tu_cluster_link_between(s->cluster, pair[0], pair[1], i), from,
                                                         from + seconds + s->model.retrain};
    }
  }
  if (s->down_count > 1) qsort(s->downs, s->down_count, sizeof *s->downs, compare_downs);
  for (uint32_t d = 1; d < s->down_count; d++)
    if (s->downs[d].link == s->downs[d - 1].link && s->downs[d].from < s->downs[d - 1].until)
      return cli_fail("sim", CLI_USAGE,
                      "--down: a link goes down at %g s, but its previous failure ends later, at %g s",
                      s->downs[d].from, s->downs[d - 1].until);
  return CLI_GOOD;
}

/* Parses A-B=FACTOR,...: the factors by which the links between chips A and B are slower. */
static int read_slow(struct scene *s, const char *list) {
  char item[128];
  const char *rest;
  if (!list) return CLI_GOOD;
  s->slowness = tu_allocate(s->cluster->link_count, sizeof *s->slowness);
  for (uint32_t i = 0; i < s->cluster->link_count; i++) s->slowness[i] = 1;
  while (next_item(&list, item, sizeof item)) {
    uint32_t pair[2];
    double factor;
    int code = read_pair(s, "--slow", item, pair, &rest);
    if (code != CLI_GOOD) return code;
    if (*rest != '=' || !tu_parse_number(rest + 1, &factor) || factor < 1)
      return cli_fail("sim", CLI_USAGE, "--slow: expected CHIP-CHIP=FACTOR with a factor >= 1, found '%s'", item);
    for (uint32_t i = 0; i < tu_cluster_usable(s->cluster, pair[0], pair[1]); i++)
      s->slowness[tu_cluster_link_between(s->cluster, pair[0], pair[1], i)] = factor;
  }
  return CLI_GOOD;
}

/* Parses RANK=SECONDS,...: how late each rank starts, in seconds. */
static int read_late(struct scene *s, const char *list, uint32_t ranks) {
  char item[128];
  if (!list) return CLI_GOOD;
  s->late = tu_allocate(ranks, sizeof *s->late);
  while (next_item(&list, item, sizeof item)) {
    uint64_t rank;
    char *equals = strchr(item, '=');
    if (equals) *equals = '\0';
    if (!equals || !tu_parse_uint(item, UINT32_MAX, &rank) || rank >= ranks)
      return cli_fail("sim", CLI_USAGE, "--late: expected RANK=SECONDS with a rank below %u, found '%s'", ranks, item);
    if (!tu_parse_number(equals + 1, &s->late[rank]))
      return cli_fail("sim", CLI_USAGE, "--late: expected seconds, for example 1e-3, found '%s'", equals + 1);
  }
  return CLI_GOOD;
}

/* ---- input of the simulation ---- */

static int order_ranks(struct scene *s, const struct sim_cluster_question *q, const struct tu_sim *sim,
                       uint32_t ranks) {
  if (strcmp(q->place, "number") == 0) return CLI_GOOD;
  bool grid = strcmp(q->place, "grid") == 0, asked = grid || strcmp(q->place, "ring") == 0;
  if (!asked && strcmp(q->place, "auto") != 0)
    return cli_fail("sim", CLI_USAGE, "--place: expected 'auto', 'ring', 'grid' or 'number', found '%s'", q->place);
  if (asked && ranks != s->cluster->chip_count)
    return cli_fail("sim", CLI_USAGE, "--place %s: expected %u ranks, one per chip of %s, found %u", q->place,
                    s->cluster->chip_count, s->cluster->name, ranks);
  if (grid && s->grid.dims == 0)
    return cli_fail("sim", CLI_USAGE, "--place grid: the chips of %s do not form a grid", s->cluster->name);
  if (grid) s->where.chip = s->grid.chip;
  if (grid) return CLI_GOOD;
  if (ranks != s->cluster->chip_count || (!asked && !tu_sim_goes_round(sim))) return CLI_GOOD;
  tu_ring_find(s->cluster, &s->grid, &s->ring);
  if (s->ring.kind != TU_APART) s->where.chip = s->ring.order;
  return CLI_GOOD;
}

static int open_cluster(const struct sim_cluster_question *q, struct tu_cluster **cluster) {
  struct tu_error error;
  if (tu_cluster_load(q->cluster, cluster, &error) != TUTTI_OK) return fail(&error);
  if (tu_cluster_reserve(*cluster, q->reserve, &error) == TUTTI_OK) return CLI_GOOD;
  tu_cluster_destroy(*cluster);
  return fail(&error);
}

int sim_cluster_chips(const struct sim_cluster_question *q, uint32_t *chips) {
  struct tu_cluster *cluster;
  int code = open_cluster(q, &cluster);
  if (code != CLI_GOOD) return code;
  *chips = cluster->chip_count;
  tu_cluster_destroy(cluster);
  return CLI_GOOD;
}

static int open_scene(struct scene *s, const struct sim_cluster_question *q, const struct tu_sim *sim, uint32_t ranks) {
  struct tu_error error;
  bool separate = strcmp(q->flag, "separate") == 0;
  if (!separate && strcmp(q->flag, "merged") != 0)
    return cli_fail("sim", CLI_USAGE, "--flag: expected 'merged' or 'separate', found '%s'", q->flag);
  bool by_latency = strcmp(q->share, "latency") == 0;
  if (!by_latency && strcmp(q->share, "fair") != 0)
    return cli_fail("sim", CLI_USAGE, "--share: expected 'fair' or 'latency', found '%s'", q->share);
  if (by_latency && !q->fluid) return cli_fail("sim", CLI_USAGE, "--share latency needs --fluid, which is missing");
  int code = open_cluster(q, &s->cluster);
  if (code != CLI_GOOD) return code;
  tu_grid_find(s->cluster, &s->grid);
  enum tu_routing routing = q->dimension_order ? TU_DIMENSION_ORDER : TU_SHORTEST;
  if (tu_link_model_load(q->links, &s->model, &error) != TUTTI_OK ||
      tu_router_create(s->cluster, &s->grid, routing, &s->router, &error) != TUTTI_OK)
    return fail(&error);
  s->where = (struct tu_sim_where){.cluster = s->cluster,
                                   .router = s->router,
                                   .model = &s->model,
                                   .fluid = q->fluid,
                                   .by_latency = by_latency,
                                   .flags = separate,
                                   .slot_bytes = (double)q->slot_bytes,
                                   .credits = q->credits,
                                   .traced = q->trace || q->page};
  if ((code = read_downs(s, q->down)) != CLI_GOOD) return code;
  if ((code = read_slow(s, q->slow)) != CLI_GOOD) return code;
  if ((code = read_late(s, q->late, ranks)) != CLI_GOOD) return code;
  if (q->fluid && (s->down_count > 0 || separate))
    return cli_fail("sim", CLI_USAGE, "--fluid cannot be combined with --down, nor with --flag separate");
  if (q->graph && (s->down_count > 0 || separate))
    return cli_fail("sim", CLI_USAGE, "--graph cannot be combined with --down, nor with --flag separate");
  s->where.downs = s->downs;
  s->where.down_count = s->down_count;
  s->where.slowness = s->slowness;
  s->where.late = s->late;
  return order_ranks(s, q, sim, ranks);
}

/* ---- output of the results ---- */

static uint32_t busiest(const struct tu_sim_cluster_report *r) {
  uint32_t port = 0;
  for (uint32_t p = 1; p < r->port_count; p++)
    if (r->loads[p].busy > r->loads[port].busy) port = p;
  return port;
}

static void print_load_json(const struct scene *s, const struct tu_sim_cluster_report *r, uint32_t port,
                            struct json *j) {
  json_open(j, NULL, JSON_OBJECT);
  json_count(j, "from", s->cluster->nodes[tu_directed_from(s->cluster, port).node].id);
  json_count(j, "channel", tu_directed_from(s->cluster, port).channel);
  json_count(j, "to", s->cluster->nodes[tu_directed_to(s->cluster, port).node].id);
  json_number(j, "busy_s", r->loads[port].busy);
  json_number(j, "bytes", r->loads[port].bytes);
  json_count(j, "packets", r->loads[port].packets);
  json_count(j, "retrained", r->retrained[port / 2]);
  json_close(j, JSON_OBJECT);
}

static void print_json(const struct scene *s, const struct sim_plan_name *plan, uint32_t ranks,
                       const struct tu_sim_cluster_report *r) {
  struct json j = {0};
  json_begin(&j, "sim");
  json_text(&j, "collective", plan->collective);
  json_text(&j, "algorithm", plan->algorithm);
  json_count(&j, "ranks", ranks);
  json_count(&j, "bytes", plan->bytes);
  json_text(&j, "cluster", s->cluster->name);
  json_text(&j, "links", s->model.name);
  json_number(&j, "time_s", r->plan.time_s);
  json_count(&j, "messages", r->plan.messages);
  json_number(&j, "slot_bytes", r->slot_bytes);
  json_count(&j, "credits", r->credits);
  json_count(&j, "channels_most", r->channels_most);
  json_number(&j, "reduce_bandwidth", s->model.reduce_bandwidth);
  json_number(&j, "reduced_bytes", r->reduced_bytes);
  json_number(&j, "critical_reduced_bytes", r->plan.critical_reduced_bytes);
  json_open(&j, "loads", JSON_LIST);
  for (uint32_t p = 0; p < r->port_count; p++)
    if (r->loads[p].packets > 0 || r->retrained[p / 2] > 0) print_load_json(s, r, p, &j);
  json_close(&j, JSON_LIST);
  json_end(&j);
}

/* Prints how many bytes were reduced, and how much of the critical path (in bytes and in time) are reductions. */
static void print_reductions(const struct scene *s, const struct tu_sim_cluster_report *r) {
  double speed = s->model.reduce_bandwidth, critical = r->plan.critical_reduced_bytes;
  if (r->reduced_bytes <= 0) return;
  if (speed <= 0) {
    printf("  reductions      %s, in no time: %s has no reduce_bandwidth\n", units_bytes(r->reduced_bytes).chars,
           s->model.name);
    return;
  }
  printf("  reductions      %s at %.4g GB/s per rank; %s of them on the critical path: %s, %.1f%% of the time\n",
         units_bytes(r->reduced_bytes).chars, speed / 1e9, units_bytes(critical).chars,
         units_seconds(critical / speed).chars, r->plan.time_s > 0 ? 100 * critical / speed / r->plan.time_s : 0);
}

static void print_table(const struct scene *s, const struct sim_plan_name *plan, uint32_t ranks,
                        const struct tu_sim_cluster_report *r) {
  printf("%s.%s, %u ranks, %s, on %s; links: %s%s\n", plan->collective, plan->algorithm, ranks,
         units_bytes((double)plan->bytes).chars, s->cluster->name, s->model.name, s->where.fluid ? ", as flows" : "");
  printf("  time            %s\n", units_seconds(r->plan.time_s).chars);
  printf("  messages        %s\n", units_count(r->plan.messages).chars);
  print_reductions(s, r);
  if (r->slot_bytes > 0)
    printf("  slots           %u of %s per channel\n", r->credits, units_bytes(r->slot_bytes).chars);
  if (r->channels_most > 0) printf("  channels        %u at most in one direction of a link\n", r->channels_most);
  if (s->where.chip) {
    printf("  ranks on chips ");
    for (uint32_t i = 0; i < ranks && i < 32; i++) printf(" %u", s->cluster->nodes[s->where.chip[i]].id);
    printf("%s\n", ranks > 32 ? " ..." : "");
  }
  if (r->port_count == 0 || r->plan.time_s <= 0) return;
  uint32_t p = busiest(r);
  printf("  busiest link    %s to %s: %s in %s packets, busy %.1f%% of the time\n",
         tu_node_name(s->cluster, tu_directed_from(s->cluster, p).node).chars,
         tu_node_name(s->cluster, tu_directed_to(s->cluster, p).node).chars, units_bytes(r->loads[p].bytes).chars,
         units_count(r->loads[p].packets).chars, 100 * r->loads[p].busy / r->plan.time_s);
  for (uint32_t l = 0; l < s->cluster->link_count; l++)
    if (r->retrained[l] > 0)
      printf("  retrained       %s to %s (channel %u): %u times\n",
             tu_node_name(s->cluster, s->cluster->links[l].ends[0].node).chars,
             tu_node_name(s->cluster, s->cluster->links[l].ends[1].node).chars, s->cluster->links[l].ends[0].channel,
             r->retrained[l]);
}

static int write_pictures(const struct sim_cluster_question *q, struct scene *s, const struct sim_plan_name *plan,
                          uint32_t ranks, const struct tu_sim_cluster_report *r) {
  char title[200];
  snprintf(title, sizeof title, "%s.%s, %llu bytes, on %s", plan->collective, plan->algorithm,
           (unsigned long long)plan->bytes, s->cluster->name);
  if (s->ring.order == NULL) tu_ring_find(s->cluster, &s->grid, &s->ring);
  const struct tu_draw_timeline what = {
      .cluster = {.cluster = s->cluster, .grid = &s->grid, .ring = &s->ring, .title = title},
      .timeline = &r->timeline,
      .ranks = ranks,
      .chip = s->where.chip};
  int code = CLI_GOOD;
  struct tu_text text = {0};
  if (q->trace) {
    tu_draw_timeline_trace(&what, &text);
    code = cli_write_text("sim", q->trace, &text);
  }
  tu_text_fini(&text);
  text = (struct tu_text){0};
  if (q->page && code == CLI_GOOD) {
    tu_draw_timeline_html(&what, &text);
    code = cli_write_text("sim", q->page, &text);
  }
  tu_text_fini(&text);
  return code;
}

static int write_graph(const char *path, const struct scene *s, const struct sim_plan_name *plan,
                       const struct tu_sim *sim) {
  struct tu_text text = {0};
  struct tu_error error;
  tutti_err err = tu_sim_graph_text(sim, (double)plan->bytes, &s->where, &text, &error);
  int code = err == TUTTI_OK ? cli_write_text("sim", path, &text) : fail(&error);
  tu_text_fini(&text);
  return code;
}

int sim_cluster_run(const struct sim_cluster_question *q, const struct sim_plan_name *plan, const struct tu_sim *sim,
                    uint32_t ranks, bool json) {
  struct scene s = {.cluster = NULL};
  struct tu_sim_cluster_report report;
  struct tu_error error;
  int code = open_scene(&s, q, sim, ranks);
  if (code == CLI_GOOD && q->graph) code = write_graph(q->graph, &s, plan, sim);
  if (code == CLI_GOOD) {
    if (tu_sim_run_on(sim, (double)plan->bytes, &s.where, &report, &error) != TUTTI_OK) {
      code = fail(&error);
    } else {
      progress_clear();
      if (report.plan.time_s > DBL_MAX) code = cli_fail("sim", CLI_USAGE, "the simulated time overflows a double");
      else if (json) print_json(&s, plan, ranks, &report);
      else print_table(&s, plan, ranks, &report);
      if (code == CLI_GOOD && s.where.traced) code = write_pictures(q, &s, plan, ranks, &report);
      tu_sim_cluster_report_fini(&report);
    }
  }
  close_scene(&s);
  return code;
}
