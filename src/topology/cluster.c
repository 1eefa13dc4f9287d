/* cluster.c: builds the index of a cluster (the sorted ports and neighbours of each node), and answers queries with
 * it. */
#include "topology/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "topology/cluster_internal.h"

/* ---- making a cluster ---- */

struct tu_cluster *tu_cluster_create(const char *name) {
  struct tu_arena arena = {0};
  struct tu_cluster *cluster = tu_arena_allocate(&arena, 1, sizeof *cluster);
  cluster->arena = arena;
  snprintf(cluster->name, sizeof cluster->name, "%s", name);
  return cluster;
}

static void drop_index(struct tu_cluster *cluster) {
  tu_arena_free(&cluster->arena, cluster->port_first);
  tu_arena_free(&cluster->arena, cluster->ports);
  tu_arena_free(&cluster->arena, cluster->neighbour_first);
  tu_arena_free(&cluster->arena, cluster->neighbours);
  cluster->port_first = cluster->neighbour_first = NULL;
  cluster->ports = NULL;
  cluster->neighbours = NULL;
}

void tu_cluster_destroy(struct tu_cluster *cluster) {
  if (cluster) tu_arena_fini(&cluster->arena);
}

void tu_cluster_note(struct tu_cluster *cluster, const char *format, ...) {
  char line[400];
  va_list arguments;
  if (cluster->note_count++ >= TU_NOTES_MAX) return;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  for (char *c = line; *c; c++)
    if (*c < ' ' || *c > '~') *c = '?';
  cluster->notes.arena = &cluster->arena;
  tu_text_print(&cluster->notes, "%s\n", line);
}

uint32_t tu_cluster_add(struct tu_cluster *cluster, const struct tu_node *node) {
  tu_assert(node->kind != TU_CHIP || cluster->chip_count == cluster->node_count);
  cluster->nodes = tu_arena_grow(&cluster->arena, cluster->nodes, cluster->node_count, &cluster->node_capacity,
                                 sizeof *cluster->nodes);
  cluster->nodes[cluster->node_count] = *node;
  cluster->chip_count += node->kind == TU_CHIP;
  return cluster->node_count++;
}

void tu_cluster_connect(struct tu_cluster *cluster, struct tu_cluster_link_end a, struct tu_cluster_link_end b) {
  tu_assert(a.node < cluster->node_count && b.node < cluster->node_count);
  cluster->links = tu_arena_grow(&cluster->arena, cluster->links, cluster->link_count, &cluster->link_capacity,
                                 sizeof *cluster->links);
  cluster->links[cluster->link_count++] = (struct tu_cluster_link){.ends = {a, b}};
}

void tu_copy_arch(struct tu_node *node, const char *arch) {
  size_t length = strnlen(arch, sizeof node->arch - 1);
  for (size_t i = 0; i < length; i++) {
    char c = arch[i];
    bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.';
    node->arch[i] = plain ? c : '_';
  }
  node->arch[length] = '\0';
}

static int compare_ports(const void *left, const void *right) {
  const struct tu_port *a = left, *b = right;
  if (a->channel != b->channel) return a->channel < b->channel ? -1 : 1;
  return a->link < b->link ? -1 : a->link > b->link;
}

static int compare_nodes(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return a < b ? -1 : a > b;
}

/* Turns counts into offsets. On entry, first[n + 1] is the number of entries of node n. On return, first[n] is the
 * index of the first entry of node n in one array of all entries. */
static void sum_up(uint32_t first[], uint32_t count) {
  for (uint32_t n = 0; n < count; n++) first[n + 1] += first[n];
}

static void index_ports(struct tu_cluster *c) {
  c->port_first = tu_arena_allocate(&c->arena, c->node_count + 1, sizeof *c->port_first);
  c->ports = tu_arena_allocate(&c->arena, 2 * (size_t)c->link_count + 1, sizeof *c->ports);
  for (uint32_t l = 0; l < c->link_count; l++)
    for (int e = 0; e < 2; e++) c->port_first[c->links[l].ends[e].node + 1]++;
  sum_up(c->port_first, c->node_count);
  uint32_t *used = tu_arena_allocate(&c->arena, c->node_count + 1, sizeof *used);
  for (uint32_t l = 0; l < c->link_count; l++)
    for (int e = 0; e < 2; e++) {
      struct tu_cluster_link_end end = c->links[l].ends[e];
      c->ports[c->port_first[end.node] + used[end.node]++] = (struct tu_port){end.channel, l};
    }
  tu_arena_free(&c->arena, used);
  for (uint32_t n = 0; n < c->node_count; n++)
    qsort(c->ports + c->port_first[n], c->port_first[n + 1] - c->port_first[n], sizeof *c->ports, compare_ports);
}

/* Looks for links that use a channel that is already in use: by a link of lower number, or by a link to a chip outside
 * the cluster. Returns the first such link; TU_NONE: there is none. */
static uint32_t find_clash(const struct tu_cluster *c) {
  uint32_t clash = TU_NONE;
  for (uint32_t n = 0; n < c->node_count; n++)
    for (uint32_t p = c->port_first[n] + 1; p < c->port_first[n + 1]; p++)
      if (c->ports[p - 1].channel == c->ports[p].channel && c->ports[p].link < clash) clash = c->ports[p].link;
  for (uint32_t r = 0; r < c->remote_count; r++) {
    uint32_t link = tu_cluster_link_at(c, c->remotes[r].end);
    if (link < clash) clash = link;
  }
  return clash;
}

static void count_usable(struct tu_cluster *c) {
  for (uint32_t i = 0; i < c->neighbour_first[c->node_count]; i++) c->neighbours[i].usable = c->neighbours[i].links;
  for (uint32_t l = 0; l < c->link_count; l++) {
    const struct tu_cluster_link *link = &c->links[l];
    for (int e = 0; e < 2 && link->reserved && link->ends[0].node != link->ends[1].node; e++) {
      uint32_t from = link->ends[e].node, to = link->ends[1 - e].node;
      c->neighbours[tu_cluster_pair(c, from, to) - c->neighbours].usable--;
    }
  }
}

/* Builds the list of neighbours of each node. A chip that is linked to itself is not its own neighbour. */
static void index_neighbours(struct tu_cluster *c) {
  c->neighbour_first = tu_arena_allocate(&c->arena, c->node_count + 1, sizeof *c->neighbour_first);
  c->neighbours = tu_arena_allocate(&c->arena, 2 * (size_t)c->link_count + 1, sizeof *c->neighbours);
  uint32_t *far = tu_arena_allocate(&c->arena, 2 * (size_t)c->link_count + 1, sizeof *far), count = 0;
  for (uint32_t n = 0; n < c->node_count; n++) {
    c->neighbour_first[n] = count;
    uint32_t ports = 0;
    for (uint32_t p = c->port_first[n]; p < c->port_first[n + 1]; p++) {
      struct tu_cluster_link_end end =
          tu_link_far(&c->links[c->ports[p].link], (struct tu_cluster_link_end){n, c->ports[p].channel});
      if (end.node != n) far[ports++] = end.node;
    }
    qsort(far, ports, sizeof *far, compare_nodes);
    for (uint32_t i = 0; i < ports; i++) {
      if (i == 0 || far[i] != far[i - 1]) c->neighbours[count++] = (struct tu_neighbour){.node = far[i]};
      c->neighbours[count - 1].links++;
    }
  }
  c->neighbour_first[c->node_count] = count;
  tu_arena_free(&c->arena, far);
  count_usable(c);
}

uint32_t tu_cluster_index(struct tu_cluster *cluster) {
  tu_assert(!cluster->ports);
  index_ports(cluster);
  uint32_t clash = find_clash(cluster);
  if (clash == TU_NONE) index_neighbours(cluster);
  else drop_index(cluster);
  return clash;
}

/* ---- reserved links ---- */

static void reserve_for_dispatch(struct tu_cluster *c) {
  for (uint32_t n = 0; n < c->node_count; n++) {
    if (!c->nodes[n].mmio) continue;
    for (uint32_t i = 0; i < tu_neighbour_count(c, n); i++) {
      uint32_t other = tu_neighbours(c, n)[i].node;
      if (!c->nodes[other].mmio && c->nodes[other].kind == TU_CHIP)
        c->links[tu_cluster_link_between(c, n, other, 0)].reserved = true;
    }
  }
}

/* Reads a link end, written CHIP:CHANNEL, and advances *at to the character behind it. Returns false if there is
 * none. */
static bool read_end(const char **at, struct tu_cluster_link_end *end) {
  uint64_t number[2];
  for (int i = 0; i < 2; i++) {
    char digits[16];
    size_t length = strspn(*at, "0123456789");
    if (length >= sizeof digits) return false;
    memcpy(digits, *at, length);
    digits[length] = '\0';
    *at += length;
    if (!tu_parse_uint(digits, UINT32_MAX - 1, &number[i])) return false;
    if (i == 0 && *(*at)++ != ':') return false;
  }
  *end = (struct tu_cluster_link_end){(uint32_t)number[0], (uint32_t)number[1]};
  return true;
}

static tutti_err reserve_list(struct tu_cluster *c, const char *list, struct tu_error *error) {
  for (const char *at = list; *at;) {
    struct tu_cluster_link_end end;
    if (!read_end(&at, &end) || (*at && *at != ','))
      return tu_fail(
          error, TUTTI_ERR_ARGUMENT,
          "reserved links: expected 'none', 'dispatch' or a list such as 0:8,3:9 (chip:channel), found '%.60s'", list);
    uint32_t chip = tu_cluster_chip(c, end.node);
    uint32_t link = chip == TU_NONE ? TU_NONE : tu_cluster_link_at(c, (struct tu_cluster_link_end){chip, end.channel});
    if (link == TU_NONE)
      return tu_fail(error, TUTTI_ERR_ARGUMENT, "reserved links: there is no link at channel %u of chip %u of %s",
                     end.channel, end.node, c->name);
    c->links[link].reserved = true;
    if (*at == ',') at++;
  }
  return TUTTI_OK;
}

tutti_err tu_cluster_reserve(struct tu_cluster *cluster, const char *which, struct tu_error *error) {
  if (!which) return TUTTI_OK;
  for (uint32_t l = 0; l < cluster->link_count; l++) cluster->links[l].reserved = false;
  count_usable(cluster);
  tutti_err err = TUTTI_OK;
  if (strcmp(which, "dispatch") == 0) reserve_for_dispatch(cluster);
  else if (strcmp(which, "none") != 0) err = reserve_list(cluster, which, error);
  count_usable(cluster);
  return err;
}

/* ---- queries ---- */

const struct tu_neighbour *tu_cluster_pair(const struct tu_cluster *cluster, uint32_t a, uint32_t b) {
  const struct tu_neighbour *all = tu_neighbours(cluster, a);
  uint32_t low = 0, high = tu_neighbour_count(cluster, a);
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (all[middle].node < b) low = middle + 1;
    else high = middle;
  }
  return low < tu_neighbour_count(cluster, a) && all[low].node == b ? &all[low] : NULL;
}

uint32_t tu_cluster_usable(const struct tu_cluster *cluster, uint32_t a, uint32_t b) {
  const struct tu_neighbour *pair = tu_cluster_pair(cluster, a, b);
  return pair ? pair->usable : 0;
}

uint32_t tu_cluster_link_between(const struct tu_cluster *cluster, uint32_t a, uint32_t b, uint32_t index) {
  for (uint32_t p = cluster->port_first[a]; p < cluster->port_first[a + 1]; p++) {
    const struct tu_cluster_link *link = &cluster->links[cluster->ports[p].link];
    struct tu_cluster_link_end far = tu_link_far(link, (struct tu_cluster_link_end){a, cluster->ports[p].channel});
    if (far.node == b && !link->reserved && index-- == 0) return cluster->ports[p].link;
  }
  return TU_NONE;
}

uint32_t tu_cluster_link_at(const struct tu_cluster *cluster, struct tu_cluster_link_end end) {
  uint32_t low = cluster->port_first[end.node], high = cluster->port_first[end.node + 1], last = high;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (cluster->ports[middle].channel < end.channel) low = middle + 1;
    else high = middle;
  }
  return low < last && cluster->ports[low].channel == end.channel ? cluster->ports[low].link : TU_NONE;
}

uint32_t tu_cluster_chip(const struct tu_cluster *cluster, uint32_t id) {
  uint32_t low = 0, high = cluster->chip_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (cluster->nodes[middle].id < id) low = middle + 1;
    else high = middle;
  }
  return low < cluster->chip_count && cluster->nodes[low].id == id ? low : TU_NONE;
}

struct tu_node_name tu_node_name(const struct tu_cluster *cluster, uint32_t node) {
  static const char *const kinds[] = {[TU_CHIP] = "", [TU_GATEWAY] = "gateway ", [TU_SWITCH] = "switch "};
  const struct tu_node *n = &cluster->nodes[node];
  struct tu_node_name name;
  snprintf(name.chars, sizeof name.chars, "%s%u", kinds[n->kind], n->id);
  return name;
}

/* Breadth-first search from `count` start nodes, queue[0] to queue[count - 1]. distance[node] receives the number of
 * hops from the nearest start node. origin[node], if `origin` is not NULL, receives that start node; if several are
 * nearest, the first of them in the queue. */
static void spread(const struct tu_cluster *c, uint32_t queue[], uint32_t count, bool reserved_too, uint32_t distance[],
                   uint32_t origin[]) {
  for (uint32_t at = 0; at < count; at++) {
    uint32_t node = queue[at];
    for (uint32_t i = 0; i < tu_neighbour_count(c, node); i++) {
      const struct tu_neighbour *next = &tu_neighbours(c, node)[i];
      if (distance[next->node] != TU_NONE || (next->usable == 0 && !reserved_too)) continue;
      distance[next->node] = distance[node] + 1;
      if (origin) origin[next->node] = origin[node];
      queue[count++] = next->node;
    }
  }
}

bool tu_cluster_reach(const struct tu_cluster *cluster, uint32_t mmio[], uint32_t hops[]) {
  uint32_t n = cluster->node_count, count = 0;
  uint32_t *queue = tu_try_allocate(3 * (size_t)n + 1, sizeof *queue);
  if (!queue) return false;
  uint32_t *distance = queue + n, *origin = distance + n;
  for (uint32_t i = 0; i < n; i++) {
    distance[i] = cluster->nodes[i].mmio ? 0 : TU_NONE;
    origin[i] = cluster->nodes[i].mmio ? i : TU_NONE;
    if (cluster->nodes[i].mmio) queue[count++] = i;
  }
  spread(cluster, queue, count, true, distance, origin);
  if (mmio) memcpy(mmio, origin, cluster->chip_count * sizeof *mmio);
  if (hops) memcpy(hops, distance, cluster->chip_count * sizeof *hops);
  free(queue);
  return true;
}

void tu_cluster_distances(const struct tu_cluster *cluster, uint32_t from, uint32_t distance[]) {
  uint32_t *queue = tu_allocate(cluster->node_count, sizeof *queue);
  memset(distance, 0xff, cluster->node_count * sizeof *distance);
  distance[from] = 0;
  queue[0] = from;
  spread(cluster, queue, 1, false, distance, NULL);
  free(queue);
}

uint32_t tu_cluster_parts(const struct tu_cluster *cluster, uint32_t *other) {
  uint32_t n = cluster->node_count, parts = 0;
  uint32_t *queue = tu_allocate(2 * (size_t)n + 1, sizeof *queue), *distance = queue + n;
  memset(distance, 0xff, n * sizeof *distance);
  for (uint32_t chip = 0; chip < cluster->chip_count; chip++) {
    if (distance[chip] != TU_NONE) continue;
    if (++parts == 2) *other = chip;
    distance[chip] = 0;
    queue[0] = chip;
    spread(cluster, queue, 1, false, distance, NULL);
  }
  free(queue);
  return parts;
}

struct tu_cluster_counts tu_cluster_count(const struct tu_cluster *cluster) {
  struct tu_cluster_counts counts = {0};
  for (uint32_t n = 0; n < cluster->node_count; n++) {
    const struct tu_node *node = &cluster->nodes[n];
    counts.gateways += node->kind == TU_GATEWAY;
    counts.switches += node->kind == TU_SWITCH;
    counts.mmio += node->kind == TU_CHIP && node->mmio;
    for (uint32_t i = 0; i < tu_neighbour_count(cluster, n); i++) {
      uint32_t other = tu_neighbours(cluster, n)[i].node;
      counts.pairs += other > n && node->kind != TU_GATEWAY && cluster->nodes[other].kind != TU_GATEWAY;
    }
  }
  for (uint32_t l = 0; l < cluster->link_count; l++) {
    const struct tu_cluster_link *link = &cluster->links[l];
    bool gateway = false;
    for (int e = 0; e < 2; e++) gateway |= cluster->nodes[link->ends[e].node].kind == TU_GATEWAY;
    if (gateway) counts.gateway_links++;
    else counts.links++;
    counts.reserved += link->reserved && !gateway;
    counts.relaxed += link->relaxed;
    counts.loose += link->loose;
  }
  return counts;
}
