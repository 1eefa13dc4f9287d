/* topo_json.c: `tutti topo --json`: prints a cluster and its properties as one JSON object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/topo.h"

static void print_bounds(const char *name, struct tu_bounds b, struct json *j) {
  if (b.high == TU_NONE) {
    json_null(j, name);
  } else if (b.low == b.high) {
    json_count(j, name, b.low);
  } else {
    json_open(j, name, JSON_LIST);
    json_count(j, NULL, b.low);
    json_count(j, NULL, b.high);
    json_close(j, JSON_LIST);
  }
}

static void print_chips(const struct topo *topo, const char *key, const uint32_t chips[], uint32_t count,
                        struct json *j) {
  json_open(j, key, JSON_LIST);
  for (uint32_t i = 0; i < count; i++) json_count(j, NULL, topo->cluster->nodes[chips[i]].id);
  json_close(j, JSON_LIST);
}

static void print_node(const struct topo *topo, uint32_t i, uint32_t mmio, uint32_t hops, struct json *j) {
  static const char *const kinds[] = {[TU_CHIP] = "chip", [TU_GATEWAY] = "gateway", [TU_SWITCH] = "switch"};
  const struct tu_cluster *c = topo->cluster;
  const struct tu_node *n = &c->nodes[i];
  json_line(j);
  json_open(j, NULL, JSON_OBJECT);
  json_text(j, "name", tu_node_name(c, i).chars);
  json_text(j, "kind", kinds[n->kind]);
  json_count(j, "id", n->id);
  json_text(j, "arch", n->arch);
  json_bool(j, "mmio", n->mmio);
  if (n->has_coords) {
    json_open(j, "place", JSON_LIST);
    for (int d = 0; d < 4; d++) json_count(j, NULL, n->coords[d]);
    json_close(j, JSON_LIST);
  }
  if (hops != TU_NONE) {
    json_text(j, "reached_by", tu_node_name(c, mmio).chars);
    json_count(j, "host_hops", hops);
  }
  json_close(j, JSON_OBJECT);
}

static void print_nodes(const struct topo *topo, struct json *j) {
  const struct tu_cluster *c = topo->cluster;
  uint32_t *mmio = tu_allocate(c->chip_count, sizeof *mmio), *hops = tu_allocate(c->chip_count, sizeof *hops);
  if (!tu_cluster_reach(c, mmio, hops)) tu_memory_ends(c->node_count, 3 * sizeof *hops);
  json_line(j);
  json_open(j, "nodes", JSON_LIST);
  for (uint32_t i = 0; i < c->node_count; i++) {
    const bool is_chip = i < c->chip_count;
    print_node(topo, i, is_chip ? mmio[i] : TU_NONE, is_chip ? hops[i] : TU_NONE, j);
  }
  json_close(j, JSON_LIST);
  free(mmio);
  free(hops);
}

static void print_end(const struct topo *topo, struct tu_cluster_link_end end, struct json *j) {
  json_open(j, NULL, JSON_OBJECT);
  json_text(j, "node", tu_node_name(topo->cluster, end.node).chars);
  json_count(j, "channel", end.channel);
  if (topo->soc && end.channel < topo->soc->channel_count) {
    json_open(j, "core", JSON_LIST);
    json_count(j, NULL, topo->soc->channels[end.channel].x);
    json_count(j, NULL, topo->soc->channels[end.channel].y);
    json_close(j, JSON_LIST);
  }
  json_close(j, JSON_OBJECT);
}

static void print_links(const struct topo *topo, struct json *j) {
  const struct tu_cluster *c = topo->cluster;
  json_line(j);
  json_open(j, "connections", JSON_LIST);
  for (uint32_t l = 0; l < c->link_count; l++) {
    json_line(j);
    json_open(j, NULL, JSON_OBJECT);
    json_open(j, "ends", JSON_LIST);
    for (int e = 0; e < 2; e++) print_end(topo, c->links[l].ends[e], j);
    json_close(j, JSON_LIST);
    json_bool(j, "reserved", c->links[l].reserved);
    if (c->links[l].relaxed) json_bool(j, "relaxed", true);
    if (c->links[l].loose) json_bool(j, "loose", true);
    json_close(j, JSON_OBJECT);
  }
  json_close(j, JSON_LIST);
}

static void print_lines(const struct topo *topo, struct json *j) {
  const struct tu_grid *g = &topo->grid;
  json_line(j);
  json_open(j, "dimensions", JSON_LIST);
  for (uint32_t d = 0; d < g->dims; d++) {
    uint32_t lines = tu_grid_line_count(g, d), *chips = tu_allocate(g->size[d], sizeof *chips);
    json_line(j);
    json_open(j, NULL, JSON_OBJECT);
    json_count(j, "size", g->size[d]);
    json_bool(j, "ring", g->wraps[d]);
    json_open(j, "lines", JSON_LIST);
    for (uint32_t i = 0; i < lines; i++) {
      tu_grid_line(g, d, i, chips);
      print_chips(topo, NULL, chips, g->size[d], j);
    }
    json_close(j, JSON_LIST);
    json_close(j, JSON_OBJECT);
    free(chips);
  }
  json_close(j, JSON_LIST);
}

/* Prints the linked pairs of chips that are not neighbours in the grid. */
static void print_beyond(const struct topo *topo, struct json *j) {
  const struct tu_cluster *c = topo->cluster;
  uint32_t count = tu_grid_beyond(&topo->grid, c, NULL, 0), (*pairs)[2] = tu_allocate(count + 1, sizeof *pairs);
  tu_grid_beyond(&topo->grid, c, pairs, count);
  json_line(j);
  json_open(j, "beyond", JSON_LIST);
  for (uint32_t i = 0; i < count; i++) print_chips(topo, NULL, pairs[i], 2, j);
  json_close(j, JSON_LIST);
  free(pairs);
}

static void print_notes(const struct tu_cluster *c, struct json *j) {
  json_line(j);
  json_open(j, "notes", JSON_LIST);
  const char *line = c->notes.chars;
  for (uint32_t i = 0; i < c->note_count && i < TU_NOTES_MAX; i++) {
    char note[512];
    size_t length = strcspn(line, "\n");
    snprintf(note, sizeof note, "%.*s", (int)length, line);
    json_text(j, NULL, note);
    line += length + 1;
  }
  json_close(j, JSON_LIST);
}

static void print_counts(const struct tu_cluster *c, struct json *j) {
  struct tu_cluster_counts n = tu_cluster_count(c);
  json_text(j, "cluster", c->name);
  json_count(j, "chips", c->chip_count);
  json_count(j, "mmio", n.mmio);
  json_count(j, "links", n.links);
  json_count(j, "reserved", n.reserved);
  json_count(j, "pairs", n.pairs);
  json_count(j, "gateways", n.gateways);
  json_count(j, "gateway_links", n.gateway_links);
  json_count(j, "switches", n.switches);
  json_count(j, "remote_links", c->remote_count);
  json_count(j, "relaxed", n.relaxed);
  json_count(j, "loose", n.loose);
}

static void print_ring(const struct topo *topo, struct json *j) {
  static const char *const kinds[] = {[TU_RING] = "ring", [TU_LINE] = "line", [TU_TOUR] = "tour", [TU_APART] = "apart"};
  const struct tu_ring *ring = &topo->ring;
  json_line(j);
  json_open(j, "ring", JSON_OBJECT);
  json_text(j, "kind", kinds[ring->kind]);
  json_bool(j, "none_proved", ring->proved);
  json_count(j, "links", ring->links);
  print_chips(topo, "order", ring->order, topo->cluster->chip_count, j);
  if (ring->hops != TU_NONE) json_count(j, "hops", ring->hops);
  json_close(j, JSON_OBJECT);
}

void topo_json(const struct topo *topo) {
  struct json j = {0};
  json_begin(&j, "topo");
  print_counts(topo->cluster, &j);
  print_bounds("diameter", topo->diameter, &j);
  print_bounds("bisection", topo->bisection, &j);
  print_ring(topo, &j);
  print_lines(topo, &j);
  print_beyond(topo, &j);
  print_notes(topo->cluster, &j);
  print_nodes(topo, &j);
  print_links(topo, &j);
  json_end(&j);
}
