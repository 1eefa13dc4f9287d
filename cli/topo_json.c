/* topo_json.c: `tutti topo --as json`: prints a cluster and its properties as one JSON object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/topo.h"

/* Prints a JSON string with escapes, because the name of a cluster may be any file name. */
static void print_string(const char *chars, struct tu_text *t) {
  tu_text_print(t, "\"");
  for (; *chars; chars++) {
    if (*chars == '"' || *chars == '\\') tu_text_print(t, "\\%c", *chars);
    else if ((unsigned char)*chars < ' ') tu_text_print(t, "\\u%04x", (unsigned)*chars);
    else tu_text_print(t, "%c", *chars);
  }
  tu_text_print(t, "\"");
}

static void print_bounds(const char *name, struct tu_bounds b, struct tu_text *t) {
  if (b.high == TU_NONE) tu_text_print(t, " \"%s\": null,", name);
  else if (b.low == b.high) tu_text_print(t, " \"%s\": %u,", name, b.low);
  else tu_text_print(t, " \"%s\": [%u, %u],", name, b.low, b.high);
}

static void print_chips(const struct topo *topo, const uint32_t chips[], uint32_t count, struct tu_text *t) {
  tu_text_print(t, "[");
  for (uint32_t i = 0; i < count; i++) tu_text_print(t, i ? ", %u" : "%u", topo->cluster->nodes[chips[i]].id);
  tu_text_print(t, "]");
}

static void print_nodes(const struct topo *topo, struct tu_text *t) {
  static const char *const kinds[] = {[TU_CHIP] = "chip", [TU_GATEWAY] = "gateway", [TU_SWITCH] = "switch"};
  const struct tu_cluster *c = topo->cluster;
  uint32_t *mmio = tu_allocate(c->chip_count, sizeof *mmio), *hops = tu_allocate(c->chip_count, sizeof *hops);
  if (!tu_cluster_reach(c, mmio, hops)) tu_memory_ends(c->node_count, 3 * sizeof *hops);
  tu_text_print(t, "\n\"nodes\": [");
  for (uint32_t i = 0; i < c->node_count; i++) {
    const struct tu_node *n = &c->nodes[i];
    tu_text_print(t, "%s\n{\"name\": \"%s\", \"kind\": \"%s\", \"id\": %u, \"arch\": \"%s\", \"mmio\": %s",
                  i ? "," : "", tu_node_name(c, i).chars, kinds[n->kind], n->id, n->arch, n->mmio ? "true" : "false");
    if (n->has_coords)
      tu_text_print(t, ", \"place\": [%u, %u, %u, %u]", n->coords[0], n->coords[1], n->coords[2], n->coords[3]);
    if (i < c->chip_count && hops[i] != TU_NONE)
      tu_text_print(t, ", \"reached_by\": \"%s\", \"host_hops\": %u", tu_node_name(c, mmio[i]).chars, hops[i]);
    tu_text_print(t, "}");
  }
  tu_text_print(t, "],");
  free(mmio);
  free(hops);
}

static void print_links(const struct topo *topo, struct tu_text *t) {
  const struct tu_cluster *c = topo->cluster;
  tu_text_print(t, "\n\"connections\": [");
  for (uint32_t l = 0; l < c->link_count; l++) {
    tu_text_print(t, "%s\n{\"ends\": [", l ? "," : "");
    for (int e = 0; e < 2; e++) {
      struct tu_cluster_link_end end = c->links[l].ends[e];
      tu_text_print(t, "%s{\"node\": \"%s\", \"channel\": %u", e ? ", " : "", tu_node_name(c, end.node).chars,
                    end.channel);
      if (topo->soc && end.channel < topo->soc->channel_count)
        tu_text_print(t, ", \"core\": [%u, %u]", topo->soc->channels[end.channel].x,
                      topo->soc->channels[end.channel].y);
      tu_text_print(t, "}");
    }
    tu_text_print(t, "], \"reserved\": %s", c->links[l].reserved ? "true" : "false");
    if (c->links[l].relaxed) tu_text_print(t, ", \"relaxed\": true");
    if (c->links[l].loose) tu_text_print(t, ", \"loose\": true");
    tu_text_print(t, "}");
  }
  tu_text_print(t, "]");
}

static void print_lines(const struct topo *topo, struct tu_text *t) {
  const struct tu_grid *g = &topo->grid;
  tu_text_print(t, "\n\"dimensions\": [");
  for (uint32_t d = 0; d < g->dims; d++) {
    uint32_t lines = tu_grid_line_count(g, d), *chips = tu_allocate(g->size[d], sizeof *chips);
    tu_text_print(t, "%s\n{\"size\": %u, \"ring\": %s, \"lines\": [", d ? "," : "", g->size[d],
                  g->wraps[d] ? "true" : "false");
    for (uint32_t i = 0; i < lines; i++) {
      tu_grid_line(g, d, i, chips);
      tu_text_print(t, i ? ", " : "");
      print_chips(topo, chips, g->size[d], t);
    }
    tu_text_print(t, "]}");
    free(chips);
  }
  tu_text_print(t, "],");
}

/* Prints the linked pairs of chips that are not neighbours in the grid. */
static void print_beyond(const struct topo *topo, struct tu_text *t) {
  const struct tu_cluster *c = topo->cluster;
  uint32_t count = tu_grid_beyond(&topo->grid, c, NULL, 0), (*pairs)[2] = tu_allocate(count + 1, sizeof *pairs);
  tu_grid_beyond(&topo->grid, c, pairs, count);
  tu_text_print(t, "\n\"beyond\": [");
  for (uint32_t i = 0; i < count; i++)
    tu_text_print(t, "%s[%u, %u]", i ? ", " : "", c->nodes[pairs[i][0]].id, c->nodes[pairs[i][1]].id);
  tu_text_print(t, "],");
  free(pairs);
}

static void print_notes(const struct tu_cluster *c, struct tu_text *t) {
  tu_text_print(t, "\n\"notes\": [");
  const char *line = c->notes.chars;
  for (uint32_t i = 0; i < c->note_count && i < TU_NOTES_MAX; i++) {
    char note[512];
    size_t length = strcspn(line, "\n");
    snprintf(note, sizeof note, "%.*s", (int)length, line);
    tu_text_print(t, i ? ", " : "");
    print_string(note, t);
    line += length + 1;
  }
  tu_text_print(t, "],");
}

void topo_json(const struct topo *topo, struct tu_text *t) {
  static const char *const kinds[] = {[TU_RING] = "ring", [TU_LINE] = "line", [TU_TOUR] = "tour", [TU_APART] = "apart"};
  const struct tu_cluster *c = topo->cluster;
  const struct tu_ring *ring = &topo->ring;
  struct tu_cluster_counts n = tu_cluster_count(c);
  tu_text_print(t, "{\"cluster\": ");
  print_string(c->name, t);
  tu_text_print(t, ", \"chips\": %u, \"mmio\": %u, \"links\": %u, \"reserved\": %u, \"pairs\": %u, \"gateways\": %u,",
                c->chip_count, n.mmio, n.links, n.reserved, n.pairs, n.gateways);
  tu_text_print(t, " \"gateway_links\": %u, \"switches\": %u, \"remote_links\": %u,", n.gateway_links, n.switches,
                c->remote_count);
  tu_text_print(t, " \"relaxed\": %u, \"loose\": %u,", n.relaxed, n.loose);
  print_bounds("diameter", topo->diameter, t);
  print_bounds("bisection", topo->bisection, t);
  tu_text_print(t, "\n\"ring\": {\"kind\": \"%s\", \"none_proved\": %s, \"links\": %u, \"order\": ", kinds[ring->kind],
                ring->proved ? "true" : "false", ring->links);
  print_chips(topo, ring->order, c->chip_count, t);
  if (ring->hops != TU_NONE) tu_text_print(t, ", \"hops\": %u", ring->hops);
  tu_text_print(t, "},");
  print_lines(topo, t);
  print_beyond(topo, t);
  print_notes(c, t);
  print_nodes(topo, t);
  print_links(topo, t);
  tu_text_print(t, "}\n");
}
