/* onto.c: maps plans onto clusters: tries the possible orders of the ranks on the chips and keeps the best order. */
#include "cli/onto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/composite.h"
#include "cli/units.h"
#include "plan/plan_messages.h"
#include "plan/plan_relabel.h"

static const char *const order_names[ONTO_ORDERS] = {
    [ONTO_NUMBER] = "number", [ONTO_RING] = "ring", [ONTO_GRID] = "grid"};

/* ---- opening a cluster ---- */

int onto_open(struct onto *o, const char *verb) {
  struct tu_error error;
  o->order = ONTO_ORDERS;
  for (int i = 0; o->place && i < ONTO_ORDERS; i++)
    if (strcmp(o->place, order_names[i]) == 0) o->order = (enum onto_order)i;
  if (o->place && strcmp(o->place, "auto") == 0) o->place = NULL;
  if (o->place && o->order == ONTO_ORDERS)
    return cli_fail(verb, CLI_USAGE, "--place: expected 'auto', 'ring', 'grid' or 'number', found '%s'", o->place);
  tutti_err err = tu_cluster_load(o->what, &o->cluster, &error);
  if (err == TUTTI_OK) err = tu_cluster_reserve(o->cluster, o->reserve, &error);
  if (err != TUTTI_OK) return cli_fail(verb, CLI_FAILED, "%s", error.text);
  tu_grid_find(o->cluster, &o->grid);
  tu_ring_find(o->cluster, &o->grid, &o->ring);
  if (o->order == ONTO_GRID && o->grid.dims == 0)
    return cli_fail(verb, CLI_FAILED, "--place grid: the chips of %s do not form a grid", o->cluster->name);
  if (o->order == ONTO_RING && o->ring.kind == TU_APART)
    return cli_fail(verb, CLI_FAILED, "--place ring: the chips of %s are not all connected", o->cluster->name);
  enum tu_routing routing = o->dimension_order ? TU_DIMENSION_ORDER : TU_SHORTEST;
  if (tu_router_create(o->cluster, &o->grid, routing, &o->router, &error) != TUTTI_OK)
    return cli_fail(verb, CLI_FAILED, "%s", error.text);
  return CLI_GOOD;
}

void onto_close(struct onto *o) {
  tu_loads_fini(&o->loads);
  tu_router_destroy(o->router);
  if (o->cluster) {
    tu_ring_fini(&o->ring);
    tu_grid_fini(&o->grid);
  }
  tu_cluster_destroy(o->cluster);
}

/* ---- orders of the ranks on the chips ---- */

/* Returns an array with the chip of each rank, if the ranks are placed in the given order. ONTO_RING: along the
 * cluster's ring; ONTO_GRID: along its grid; ONTO_NUMBER: by the chips' numbers (`ids`). Returns NULL if the cluster
 * has no such order, or if --place names another order. */
static const uint32_t *chips_of(const struct onto *o, enum onto_order order, const uint32_t ids[]) {
  if (o->place && strcmp(o->place, order_names[order]) != 0) return NULL;
  if (order == ONTO_RING) return o->ring.kind == TU_APART ? NULL : o->ring.order;
  if (order == ONTO_GRID) return o->grid.dims > 0 ? o->grid.chip : NULL;
  return ids;
}

/* A plan whose ranks are placed on chips, and the loads of the links that result. */
struct laid {
  struct tu_plan *plan;
  enum onto_order order;
  size_t messages;
  struct tu_loads loads;
  double busiest;
};

static void drop(struct laid *l) {
  tu_plan_destroy(l->plan);
  tu_loads_fini(&l->loads);
  *l = (struct laid){.plan = NULL};
}

static bool better(const struct laid *l, const struct laid *than) {
  if (!than->plan) return true;
  return l->busiest < than->busiest || (l->busiest == than->busiest && l->loads.hops < than->loads.hops);
}

/* Finds the routes of all messages of the plan, and adds up the load of each link. Returns false if two chips that
 * exchange a message are not connected. */
static bool load(const struct onto *o, struct laid *l, struct tu_error *error) {
  struct tu_plan_message *messages = tu_plan_messages(l->plan, &l->messages);
  tu_loads_init(&l->loads, o->router);
  bool there = true;
  for (size_t m = 0; m < l->messages && there; m++) {
    const struct tu_plan_message *s = &messages[m];
    there = tu_loads_add(&l->loads, s->from, s->to, s->lane, (double)s->chunks / l->plan->split) != TU_NONE;
    if (!there)
      tu_fail(error, TUTTI_ERR_ARGUMENT, "there is no route from chip %u to chip %u of %s",
              o->cluster->nodes[s->from].id, o->cluster->nodes[s->to].id, o->cluster->name);
  }
  free(messages);
  uint32_t busiest = tu_loads_busiest(&l->loads);
  l->busiest = busiest == TU_NONE ? 0 : l->loads.amounts[busiest];
  return there;
}

/* Maps the plan with the ranks in one order. Keeps the result in *best if it is better than *best: it has less load on
 * its busiest link, or the same load there and fewer hops in total. */
static tutti_err try_order(const struct onto *o, const struct tu_plan *plan, enum onto_order order,
                           const uint32_t chips[], struct laid *best, struct tu_error *error) {
  struct laid l = {.order = order};
  tutti_err err = tu_plan_relabel(plan, chips, &l.plan, error);
  if (err != TUTTI_OK) return err;
  if (!load(o, &l, error)) err = TUTTI_ERR_ARGUMENT;
  if (err == TUTTI_OK && better(&l, best)) {
    drop(best);
    *best = l;
  } else drop(&l);
  return err;
}

/* Moves *best, the best placement that was found, to *plan and *o. If no placement was found, prints the last error and
 * returns CLI_FAILED. */
static int keep(struct onto *o, const char *verb, const char *word, struct laid *best, struct tu_plan **plan,
                const struct tu_error *error) {
  if (!best->plan) return cli_fail(verb, CLI_FAILED, "%s on %s: %s", word, o->cluster->name, error->text);
  tu_loads_fini(&o->loads);
  o->loads = best->loads;
  o->messages = best->messages;
  o->order = best->order;
  *plan = best->plan;
  return CLI_GOOD;
}

static uint32_t *ids_of(const struct onto *o) {
  uint32_t *ids = tu_allocate(o->cluster->chip_count, sizeof *ids);
  for (uint32_t i = 0; i < o->cluster->chip_count; i++) ids[i] = i;
  return ids;
}

int onto_lay(struct onto *o, const char *verb, const char *word, struct tu_plan **plan) {
  if ((*plan)->ranks != o->cluster->chip_count)
    return cli_fail(verb, CLI_FAILED, "%s: the plan is for %u ranks, but %s has %u chips", word, (*plan)->ranks,
                    o->cluster->name, o->cluster->chip_count);
  struct laid best = {.plan = NULL};
  struct tu_error error = {.text = "the cluster has no order of the chips that --place allows"};
  uint32_t *ids = ids_of(o);
  for (int i = 0; i < ONTO_ORDERS; i++) {
    const uint32_t *chips = chips_of(o, (enum onto_order)i, ids);
    if (chips) try_order(o, *plan, (enum onto_order)i, chips, &best, &error);
  }
  free(ids);
  struct tu_plan *old = *plan;
  int code = keep(o, verb, word, &best, plan, &error);
  if (code == CLI_GOOD) tu_plan_destroy(old);
  return code;
}

/* ---- choice of the algorithm ---- */

/* Default algorithms of each collective, by kind of cluster: a ring, a line, a two-dimensional grid, any other cluster.
 * "": there is none. The names in `grid` have placeholders: R is the algorithm of the grid's rows, C that of its
 * columns, G the number of ranks in a row. */
static const struct {
  const char *ring, *line, *grid, *any;
} own[TU_COLLECTIVES] = {
    [TUTTI_ALLGATHER] = {"bidirectional_split", "line", "ag:R/G+ag:C", "pat"},
    [TUTTI_REDUCE_SCATTER] = {"bidirectional", "line", "rs:C+rs:R/G", "pat"},
    [TUTTI_ALLREDUCE] = {"bidirectional_ring", "line", "rs:R/G+rs:C+ag:C+ag:R/G", "rs:pat+ag:pat"},
    [TUTTI_REDUCE] = {"bidirectional", "line", "re:R/G+re:C", "binomial"},
    [TUTTI_BROADCAST] = {"bidirectional", "line", "bc:C+bc:R/G", "binomial"},
    [TUTTI_GATHER] = {"bidirectional", "line", "", "binomial"},
    [TUTTI_SCATTER] = {"bidirectional", "line", "", "binomial"},
    [TUTTI_ALLTOALL] = {"bidirectional", "line", "", "pairwise"},
    [TUTTI_BARRIER] = {"", "", "", "dissemination"},
    [TUTTI_SCAN] = {"", "", "", "chain"},
    [TUTTI_EXSCAN] = {"", "", "", "chain"},
    [TUTTI_SEND] = {"", "", "", "direct"},
};

/* Returns the name of the ring algorithm for one phase of a composite algorithm. `kind` begins with the phase: "ag"
 * (allgather), "rs" (reduce_scatter), "re" (reduce) or "bc" (broadcast). */
static const char *ring_of_kind(const char *kind) {
  static const struct {
    const char *kind;
    tutti_collective collective;
  } kinds[] = {{"ag", TUTTI_ALLGATHER}, {"rs", TUTTI_REDUCE_SCATTER}, {"re", TUTTI_REDUCE}, {"bc", TUTTI_BROADCAST}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strncmp(kind, kinds[i].kind, 2) == 0) return own[kinds[i].collective].ring;
  return "";
}

/* Returns the collective's algorithm for a grid; NULL: none. Takes the name in the table `own` and replaces its
 * placeholders R, C and G. For example, "ag:R/G+ag:C" becomes "ag:line/4+ag:bidirectional_split". */
static const struct tu_algorithm *grid_algorithm(const struct onto *o, tutti_collective collective) {
  const char *form = own[collective].grid;
  struct tu_text name = {0};
  struct tu_error error;
  if (!*form || o->grid.dims != 2) return NULL;
  for (const char *at = form; *at; at++) {
    bool row = *at == 'R';
    if (*at == 'G') tu_text_print(&name, "%u", o->grid.size[0]);
    else if (!row && *at != 'C') tu_text_print(&name, "%c", *at);
    else tu_text_print(&name, "%s", o->grid.wraps[row ? 0 : 1] ? ring_of_kind(at - 3) : "line");
  }
  const struct tu_algorithm *found = tu_composite_find(collective, name.chars, &error);
  tu_text_fini(&name);
  return found;
}

/* Returns the collective's default algorithm for this order of the ranks (ring, grid or by number); NULL: there is
 * none. */
static const struct tu_algorithm *own_algorithm(const struct onto *o, tutti_collective collective,
                                                enum onto_order order) {
  const char *name = own[collective].any;
  if (order == ONTO_GRID) return grid_algorithm(o, collective);
  if (order == ONTO_RING)
    name = o->ring.kind == TU_RING ? own[collective].ring : o->ring.kind == TU_LINE ? own[collective].line : "";
  if (!*name) return NULL;
  if (!tu_is_composite(name)) return tu_algorithm_find(collective, name);
  struct tu_error error;
  return tu_composite_find(collective, name, &error);
}

const struct tu_algorithm *onto_algorithm(const struct onto *o, const struct tu_algorithm *a) {
  return o->grid.dims == 2 ? tu_algorithm_in_groups(a, o->grid.size[0]) : a;
}

/* Returns the rank of the plan that runs on the chip. */
static uint32_t part_of(const uint32_t chips[], uint32_t chip) {
  uint32_t part = 0;
  while (chips[part] != chip) part++;
  return part;
}

int onto_build(struct onto *o, const char *verb, const char *word, const struct cli_name *name, struct tu_build *what,
               struct tu_plan **plan) {
  uint32_t chips_count = o->cluster->chip_count, root = what->root, *ids = ids_of(o);
  struct cli_name fitting = *name;
  struct laid best = {.plan = NULL};
  struct tu_error error = {.text = "no default algorithm for this order; give COLLECTIVE.NAME"};
  const struct tu_algorithm *chosen = NULL;
  int code = CLI_GOOD;
  if (name->algorithm) fitting.algorithm = onto_algorithm(o, name->algorithm);
  if (what->ranks && what->ranks != chips_count)
    code = cli_fail(verb, CLI_USAGE, "-n: expected one rank for each of the %u chips of %s, found %u", chips_count,
                    o->cluster->name, what->ranks);
  what->ranks = chips_count;
  for (int i = 0; i < ONTO_ORDERS && code == CLI_GOOD; i++) {
    const uint32_t *chips = chips_of(o, (enum onto_order)i, ids);
    if (!name->algorithm) fitting.algorithm = own_algorithm(o, name->collective, (enum onto_order)i);
    if (!chips || !fitting.algorithm) continue;
    what->root = root;
    if ((code = cli_check_build(verb, word, &fitting, what)) != CLI_GOOD) break;
    if (tu_collectives[name->collective].rooted) what->root = part_of(chips, root);
    what->rank = TU_ALL_RANKS;
    const struct budget_question question = {.verb = verb, .use = BUDGET_DRAW, .what = *what};
    if ((code = budget_allow(o->budget, &question)) != CLI_GOOD) break;
    struct tu_plan *built = tu_plan_build(what), *before = best.plan;
    try_order(o, built, (enum onto_order)i, chips, &best, &error);
    tu_plan_destroy(built);
    if (best.plan != before) chosen = fitting.algorithm;
  }
  free(ids);
  what->root = root;
  what->algorithm = chosen;
  if (code == CLI_GOOD) return keep(o, verb, word, &best, plan, &error);
  drop(&best);
  return code;
}

/* ---- output as text ---- */

/* Maximum number of chips for which the order of the ranks is printed. */
enum { LIST_MAX = 64 };

static const uint32_t *order_of(const struct onto *o) {
  return o->order == ONTO_RING ? o->ring.order : o->order == ONTO_GRID ? o->grid.chip : NULL;
}

uint32_t *onto_columns(const struct onto *o) {
  const uint32_t *chips = order_of(o);
  if (!chips) return NULL;
  uint32_t *columns = tu_allocate(o->cluster->chip_count, sizeof *columns);
  for (uint32_t i = 0; i < o->cluster->chip_count; i++) columns[chips[i]] = i;
  return columns;
}

void onto_say_order(const struct onto *o, struct tu_text *text) {
  static const char *const rings[] = {
      [TU_RING] = "its ring", [TU_LINE] = "its line", [TU_TOUR] = "a tour", [TU_APART] = ""};
  const struct tu_cluster *c = o->cluster;
  const uint32_t *chips = order_of(o);
  tu_text_print(text, "on %s in the order of ", c->name);
  if (o->order == ONTO_RING) tu_text_print(text, "%s", rings[o->ring.kind]);
  else tu_text_print(text, "%s", o->order == ONTO_GRID ? "its grid" : "its chips' numbers");
  for (uint32_t i = 0; chips && i < c->chip_count && c->chip_count <= LIST_MAX; i++)
    tu_text_print(text, "%s %u", i ? "" : ",", c->nodes[chips[i]].id);
}

static void print_directed(const struct tu_cluster *c, uint32_t link, struct tu_text *text) {
  struct tu_cluster_link_end from = tu_directed_from(c, link), to = tu_directed_to(c, link);
  tu_text_print(text, "%s.%u > %s.%u", tu_node_name(c, from.node).chars, from.channel, tu_node_name(c, to.node).chars,
                to.channel);
}

void onto_say_loads(const struct onto *o, struct tu_text *text) {
  uint32_t busiest = tu_loads_busiest(&o->loads);
  tu_text_print(text, "%s message%s", units_count(o->messages).chars, o->messages == 1 ? "" : "s");
  if (busiest == TU_NONE) return;
  if (o->loads.hops_max == 1) tu_text_print(text, ", all between neighbours");
  else tu_text_print(text, ", %s hops, %u at most", units_count(o->loads.hops).chars, o->loads.hops_max);
  tu_text_print(text, "; the busiest link carries %.6g block%s: ", o->loads.amounts[busiest],
                o->loads.amounts[busiest] == 1 ? "" : "s");
  print_directed(o->cluster, busiest, text);
}

void onto_list_links(const struct onto *o, struct tu_text *text) {
  tu_text_print(text, "messages      blocks  link\n");
  for (uint32_t l = 0; l < 2 * o->cluster->link_count; l++) {
    if (o->loads.messages[l] == 0) continue;
    tu_text_print(text, "%8llu  %10.6g  ", (unsigned long long)o->loads.messages[l], o->loads.amounts[l]);
    print_directed(o->cluster, l, text);
    tu_text_print(text, "\n");
  }
}

void onto_list_routes(const struct onto *o, const struct tu_plan *plan, struct tu_text *text) {
  size_t count;
  struct tu_plan_message *messages = tu_plan_messages(plan, &count);
  uint32_t *links = tu_allocate(o->cluster->node_count, sizeof *links);
  for (size_t m = 0; m < count; m++) {
    const struct tu_plan_message *s = &messages[m];
    uint32_t hops = tu_router_links(o->router, s->from, s->to, s->lane, links);
    tu_text_print(text, "%u to %u, lane %u, %.6g block%s:", o->cluster->nodes[s->from].id, o->cluster->nodes[s->to].id,
                  s->lane, (double)s->chunks / plan->split, s->chunks == plan->split ? "" : "s");
    for (uint32_t h = 0; h < hops; h++) {
      tu_text_print(text, h ? ", " : "  ");
      print_directed(o->cluster, links[h], text);
    }
    tu_text_print(text, "\n");
  }
  free(links);
  free(messages);
}
