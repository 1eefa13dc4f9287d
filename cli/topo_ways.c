/* topo_ways.c: `tutti topo --walk` prints a closed walk over the links of the cluster. `tutti topo --routes` prints the
 * routes of transfers between chips, and a schedule: the time step of each transfer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/topo.h"
#include "topology/route.h"
#include "topology/schedule.h"

/* Reads the id of a chip, which ends at one of the characters `ends` or at the end of the text. Sets *chip to the chip,
 * and *end to the character after the id ('\0' at the end of the text). Moves *text behind this character. */
static bool read_chip(const struct tu_cluster *c, const char **text, const char *ends, uint32_t *chip, char *end) {
  char digits[16];
  uint64_t id;
  size_t length = strcspn(*text, ends);
  if (length == 0 || length >= sizeof digits) return false;
  memcpy(digits, *text, length);
  digits[length] = '\0';
  if (!tu_parse_uint(digits, UINT32_MAX - 1, &id)) return false;
  *chip = tu_cluster_chip(c, (uint32_t)id);
  *text += length;
  *end = **text;
  if (**text) ++*text;
  return *chip != TU_NONE;
}

static void print_hop(const struct tu_cluster *c, uint32_t link, uint32_t from) {
  const struct tu_cluster_link_end *e = c->links[link].ends;
  int near = e[0].node == from ? 0 : 1;
  printf("%s.%u = %s.%u", tu_node_name(c, e[near].node).chars, e[near].channel, tu_node_name(c, e[1 - near].node).chars,
         e[1 - near].channel);
}

static void print_hop_json(const struct tu_cluster *c, uint32_t link, uint32_t from, struct json *j) {
  const struct tu_cluster_link_end *e = c->links[link].ends;
  const int near = e[0].node == from ? 0 : 1;
  json_open(j, NULL, JSON_OBJECT);
  json_text(j, "from", tu_node_name(c, e[near].node).chars);
  json_count(j, "channel", e[near].channel);
  json_text(j, "to", tu_node_name(c, e[1 - near].node).chars);
  json_count(j, "to_channel", e[1 - near].channel);
  json_close(j, JSON_OBJECT);
}

static void print_walk(const struct tu_cluster *c, const struct tu_walk *w) {
  printf("%u hops:", w->hops);
  for (uint32_t i = 0; i < w->hops; i++) printf(" %u", c->nodes[w->chips[i]].id);
  printf("\n");
  for (uint32_t i = 0; i < w->hops; i++) {
    printf("  ");
    print_hop(c, w->links[i], w->chips[i]);
    printf("\n");
  }
}

static void print_walk_json(const struct tu_cluster *c, const struct tu_walk *w) {
  struct json j = {0};
  json_begin(&j, "topo");
  json_text(&j, "cluster", c->name);
  json_open(&j, "walk", JSON_LIST);
  for (uint32_t i = 0; i < w->hops; i++) json_count(&j, NULL, c->nodes[w->chips[i]].id);
  json_close(&j, JSON_LIST);
  json_open(&j, "hops", JSON_LIST);
  for (uint32_t i = 0; i < w->hops; i++) print_hop_json(c, w->links[i], w->chips[i], &j);
  json_close(&j, JSON_LIST);
  json_end(&j);
}

int topo_walk(const struct topo *t, const char *walk, bool json) {
  const struct tu_cluster *c = t->cluster;
  uint32_t *chips = tu_allocate(strlen(walk) + 1, sizeof *chips), count = 0;
  uint64_t hops;
  struct tu_walk found;
  struct tu_error error;
  tutti_err err;
  if (tu_parse_uint(walk, UINT32_MAX, &hops)) {
    err = tu_walk_find(c, (uint32_t)hops, &found, &error);
  } else {
    char end = ',';
    for (const char *at = walk; end == ',';)
      if (!read_chip(c, &at, ",", &chips[count++], &end)) {
        free(chips);
        return cli_fail("topo", CLI_USAGE,
                        "--walk: expected a number of hops, or chips of %s, for example 0,4,5,1, found '%s'", c->name,
                        walk);
      }
    err = tu_walk_assign(c, chips, count, &found, &error);
  }
  free(chips);
  if (err != TUTTI_OK) return cli_fail("topo", CLI_FAILED, "%s", error.text);
  if (json) print_walk_json(c, &found);
  else print_walk(c, &found);
  tu_walk_fini(&found);
  return CLI_GOOD;
}

/* ---- routes of transfers (--routes) ---- */

struct ways {
  struct tu_transfer *transfers;
  uint32_t count, capacity;
};

/* Parses pairs of chips, for example "3-1,0-2", and finds their routes. */
static int read_ways(const struct topo *t, const char *routes, struct tu_router *router, struct ways *w) {
  const struct tu_cluster *c = t->cluster;
  char end = ',';
  for (const char *at = routes; end == ',';) {
    uint32_t from, to;
    if (!read_chip(c, &at, "-", &from, &end) || !end || !read_chip(c, &at, ",", &to, &end))
      return cli_fail("topo", CLI_USAGE, "--routes: expected pairs of chips of %s, for example 3-1,0-2, found '%s'",
                      c->name, routes);
    uint32_t *nodes = tu_allocate(c->node_count, sizeof *nodes), hops = tu_router_route(router, from, to, nodes);
    w->transfers = tu_grow(w->transfers, w->count, &w->capacity, sizeof *w->transfers);
    w->transfers[w->count++] = (struct tu_transfer){hops, nodes};
    if (hops == TU_NONE)
      return cli_fail("topo", CLI_FAILED, "there is no route from chip %u to chip %u", c->nodes[from].id,
                      c->nodes[to].id);
  }
  return CLI_GOOD;
}

static void print_schedule(const struct tu_cluster *c, const struct ways *w, const struct tu_schedule *s,
                           const struct tu_schedule *naive) {
  printf("%u transfer%s in %u timestep%s", w->count, w->count == 1 ? "" : "s", s->steps, s->steps == 1 ? "" : "s");
  if (s->bound == s->steps) printf(", the fewest");
  else printf("; %u at least", s->bound);
  printf("; %u in the order given\n", naive->steps);
  for (uint32_t i = 0; i < s->count; i++) {
    uint32_t k = s->order[i];
    const struct tu_transfer *t = &w->transfers[k];
    printf("  step %u: transfer %u, %s", s->step[k], k, tu_node_name(c, t->nodes[0]).chars);
    for (uint32_t h = 1; h <= t->hops; h++) printf(" > %s", tu_node_name(c, t->nodes[h]).chars);
    for (uint32_t h = 0; h < t->hops; h++) {
      printf(h ? ", " : ":  ");
      print_hop(c, s->links[s->link_first[k] + h], t->nodes[h]);
    }
    printf("\n");
  }
}

static void print_schedule_json(const struct tu_cluster *c, const struct ways *w, const struct tu_schedule *s,
                                const struct tu_schedule *naive) {
  struct json j = {0};
  json_begin(&j, "topo");
  json_text(&j, "cluster", c->name);
  json_count(&j, "steps", s->steps);
  json_count(&j, "steps_min", s->bound);
  json_count(&j, "steps_in_order", naive->steps);
  json_open(&j, "transfers", JSON_LIST);
  for (uint32_t i = 0; i < s->count; i++) {
    const uint32_t k = s->order[i];
    const struct tu_transfer *t = &w->transfers[k];
    json_open(&j, NULL, JSON_OBJECT);
    json_count(&j, "transfer", k);
    json_count(&j, "step", s->step[k]);
    json_open(&j, "hops", JSON_LIST);
    for (uint32_t h = 0; h < t->hops; h++) print_hop_json(c, s->links[s->link_first[k] + h], t->nodes[h], &j);
    json_close(&j, JSON_LIST);
    json_close(&j, JSON_OBJECT);
  }
  json_close(&j, JSON_LIST);
  json_end(&j);
}

int topo_routes(const struct topo *t, const char *routes, bool dimension_order, bool json) {
  struct tu_error error;
  struct tu_router *router;
  struct ways w = {0};
  enum tu_routing routing = dimension_order ? TU_DIMENSION_ORDER : TU_SHORTEST;
  if (tu_router_create(t->cluster, &t->grid, routing, &router, &error) != TUTTI_OK)
    return cli_fail("topo", CLI_FAILED, "%s", error.text);
  int code = read_ways(t, routes, router, &w);
  if (code == CLI_GOOD) {
    struct tu_schedule found = {0}, naive = {0};
    tutti_err err = tu_schedule_in_order(t->cluster, w.transfers, w.count, NULL, &naive, &error);
    if (err == TUTTI_OK) err = tu_schedule_find(t->cluster, w.transfers, w.count, &found, &error);
    if (err == TUTTI_OK && json) print_schedule_json(t->cluster, &w, &found, &naive);
    else if (err == TUTTI_OK) print_schedule(t->cluster, &w, &found, &naive);
    else code = cli_fail("topo", CLI_FAILED, "%s", error.text);
    tu_schedule_fini(&found);
    tu_schedule_fini(&naive);
  }
  for (uint32_t i = 0; i < w.count; i++) free((void *)(uintptr_t)w.transfers[i].nodes);
  free(w.transfers);
  tu_router_destroy(router);
  return code;
}
