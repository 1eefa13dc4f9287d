/* cluster_test.c: tests the readers of cluster descriptions, mesh graphs and chips' cores with good and broken files;
 * presets and generators against known properties; reserved links; and how a host reaches chips. */
#include "topology/cluster.h"

#include "clusters.h"
#include "topology/soc.h"

static struct tu_cluster *read_text(const char *text, struct tu_error *error) {
  struct tu_cluster *cluster;
  tutti_err err = tu_cluster_read(text, strlen(text), "folder/x.yaml", &cluster, error);
  CHECK((err == TUTTI_OK) == (cluster != NULL), "a result without a cluster");
  return cluster;
}

/* Prints the links as "0.8=1.0 0.9=1.1" (chip.channel, chips by index); a reserved link is followed by *. */
static void print_links(const struct tu_cluster *c, char *line, size_t bytes) {
  size_t length = 0;
  line[0] = '\0';
  for (uint32_t l = 0; l < c->link_count && length < bytes; l++) {
    const struct tu_cluster_link_end *e = c->links[l].ends;
    length += (size_t)snprintf(line + length, bytes - length, "%s%u.%u=%u.%u%s", l ? " " : "", e[0].node, e[0].channel,
                               e[1].node, e[1].channel, c->links[l].reserved ? "*" : "");
  }
}

/* Reads the same cluster written in different styles of YAML. */
static void styles(void) {
  static const char *const texts[] = {
      "arch: {0: wormhole_b0, 1: wormhole_b0}\nchips: {0: [0,0,0,0], 1: [1,0,0,0]}\n"
      "ethernet_connections: [[{chip: 0, chan: 8}, {chip: 1, chan: 0}], [{chip: 0, chan: 9}, {chip: 1, chan: 1}]]\n"
      "chips_with_mmio: [0]\n",
      /* a text with trailing commas, one-pair maps in a list, comments, unknown keys */
      "# a board\narch: {\n   0: wormhole_b0,\n   1: wormhole_b0,\n}\nchips: {\n   0: [0,0,0,0,],\n   1: "
      "[1,0,0,0],\n}\n"
      "ethernet_connections: [\n   [{chip: 0, chan: 8}, {chip: 1, chan: 0}, {routing_enabled: true}],\n"
      "   [{chip: 0, chan: 9}, {chip: 1, chan: 1},],\n]\nchips_with_mmio: [\n   0: 0,\n]\nsomething: {else: [1, 2]}\n",
      /* block style; a map with more than one pair; coordinates only; another order */
      "chips_with_mmio:\n  - 0: 3\n    # nothing else\nethernet_connections:\n  -\n    - chip: 0\n      chan: 8\n    - "
      "chan: 0\n"
      "      chip: 1\n      speed: 100\n  -\n    - chip: 0\n      chan: 9\n    - chip: 1\n      chan: 1\nchips:\n  "
      "1:\n    - 1\n"
      "    - 0\n    - 0\n    - 0\n  0: [0, 0, 0, 0]\nethernet_connections_to_remote_devices:\n  []\n",
      "{\"arch\": {\"0\": \"wormhole_b0\", \"1\": \"wormhole_b0\"}, \"chips\": {}, \"chips_with_mmio\": [{\"0\": 0}],"
      "\"ethernet_connections\": [[{\"chip\": 0, \"chan\": 8}, {\"chip\": 1, \"chan\": 0}],"
      "[{\"chip\": 0, \"chan\": 9}, {\"chip\": 1, \"chan\": 1}]]}",
      "\xef\xbb\xbf"
      "arch: {0: a, 1: b}\r\nethernet_connections:\r\n - [{chip: 0, chan: 8}, {chip: 1, chan: 0}]\r\n"
      " - [{chip: 0, chan: 9}, {chip: 1, chan: 1}]\r\nchips_with_mmio: [0: 0]\r\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    struct tu_error error = {.text = ""};
    char line[200];
    struct tu_cluster *c = read_text(texts[i], &error);
    CHECK(c, "text %zu: %s", i, error.text);
    if (!c) continue;
    print_links(c, line, sizeof line);
    CHECK(c->chip_count == 2 && c->nodes[0].mmio && !c->nodes[1].mmio, "text %zu: chips", i);
    CHECK(strcmp(line, "0.8=1.0 0.9=1.1") == 0, "text %zu: %s", i, line);
    CHECK(strcmp(c->name, "x.yaml") == 0, "text %zu: is called %s", i, c->name);
    tu_cluster_destroy(c);
  }
}

/* A valid but unusual file: chips with arbitrary ids; a cable from a chip to itself; links to chips outside the
 * cluster. */
static void odd_but_good(void) {
  struct tu_error error = {.text = ""};
  struct tu_cluster *c = read_text(
      "arch: {7: Wormhole, 3: 'two words/', 4294967294: a_name_that_is_much_longer_than_any}\nchips: {}\n"
      "ethernet_connections: [[{chip: 7, chan: 1}, {chip: 3, chan: 1023}], [{chip: 3, chan: 0}, {chip: 3, chan: 1}]]\n"
      "ethernet_connections_to_remote_devices: [[{chip: 7, chan: 2}, {remote_chip_id: 18446744073709551615, chan: "
      "5}],\n"
      "  [{remote_chip_id: 4, chan: 6}, {chip: 7, chan: 3}]]\nchips_with_mmio: [{3: 0, 7: 1}]\n",
      &error);
  CHECK(c, "%s", error.text);
  if (!c) return;
  struct tu_cluster_counts counts = tu_cluster_count(c);
  CHECK(c->chip_count == 3 && c->nodes[0].id == 3 && c->nodes[1].id == 7 && c->nodes[2].id == 4294967294u, "chips");
  CHECK(strcmp(c->nodes[0].arch, "two_words_") == 0 && strlen(c->nodes[2].arch) == TU_ARCH_BYTES - 1, "architectures");
  CHECK(counts.mmio == 2 && counts.links == 2 && counts.pairs == 1, "%u links, %u pairs", counts.links, counts.pairs);
  CHECK(tu_cluster_usable(c, 0, 1) == 1 && tu_cluster_usable(c, 0, 0) == 0 && tu_cluster_usable(c, 0, 2) == 0,
        "usable");
  struct tu_cluster_link_end far = tu_link_far(&c->links[1], (struct tu_cluster_link_end){0, 1});
  CHECK(far.node == 0 && far.channel == 0, "the loop's far end is %u.%u", far.node, far.channel);
  CHECK(c->remote_count == 2 && c->remotes[0].chip == UINT64_MAX && c->remotes[0].channel == 5 &&
            c->remotes[1].chip == 4 && c->remotes[1].end.node == 1 && c->remotes[1].end.channel == 3,
        "links that lead out");
  CHECK(tu_cluster_chip(c, 7) == 1 && tu_cluster_chip(c, 8) == TU_NONE, "chips by id");
  tu_cluster_destroy(c);
}

/* ---- files that are refused ---- */

/* facts: of the error message, after "folder/x.yaml:". */
struct broken {
  const char *text, *facts;
};

static void check_broken(const struct broken cases[], size_t count) {
  for (size_t i = 0; i < count; i++) {
    char facts[300];
    struct tu_error error = {.text = ""};
    snprintf(facts, sizeof facts, "folder/x.yaml:%s", cases[i].facts);
    struct tu_cluster *c = read_text(cases[i].text, &error);
    CHECK(!c && error.code == TUTTI_ERR_ARGUMENT && test_contains(error.text, facts), "'%s': '%s'", cases[i].text,
          error.text);
    tu_cluster_destroy(c);
  }
}

#define CHIPS "arch: {0: w, 1: w}\n"
static const struct broken broken_files[] = {
    {"", "1: |description|nothing"},
    {"# nothing\n", "1: |description|nothing"},
    {"just words", "1: |cluster|a map|'just words'"},
    {"[1, 2]", "1: |cluster|a map|list of 2"},
    {"a: [1, 2\nb: 3\n", "2: |YAML|',' or ']'"},
    {"a: b: c\n", "1: |YAML|mapping"},
    {"a: \x80\n", "1: |UTF-8|byte 3"},
    {"\xef\xbb\xbf# x\nb: \xff\n", "2: |UTF-8|byte 7"},
    {"a: 1\nb: \x80\n", "2: |UTF-8|byte 8"},
    {"a: \"x\\0y\"\n", "1: |text|NUL"},
    {"a: &x 1\nb: *x\n", "2: |*name|aliases"},
    {"arch: {0: w}\n---\narch: {}\n", "2: |second document"},
    {"arch: {[0]: w}\n", "1: |as key|a list|a map"},
    {"a: [[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]\n", "1: |16 levels"},
    {"title: x\n", "1: |'arch' or 'chips'|none"},
    {"\narch: [0]\n", "2: |architectures|list of 1"},
    {"chips: 3\n", "1: |coordinates|'3'"},
    {"arch: {}\n", "1: |1 to 65536 chips|'arch' and 'chips'|found 0"},
    {"arch: {0: w, x: w}\n", "1: |chip's number|4294967294|'x'"},
    {"arch:\n  0: w\n  -1: w\n", "3: |chip's number|4294967294|'-1'"},
    {"arch: {0: w, 1: w, 0: w}\n", "1: |each chip|chip 0 twice"},
    {"arch: {0: [w]}\n", "1: |architecture's name|list of 1"},
    {"chips: {0: [1, 2, 3]}\n", "1: |[x, y, rack, shelf]|list of 3"},
    {"chips: {0: [1, 2, 3, far]}\n", "1: |coordinate|4294967294|'far'"},
    {CHIPS, "1: |'ethernet_connections'|none"},
    {CHIPS "ethernet_connections: none\n", "2: |of connections|'none'"},
    {CHIPS "ethernet_connections:\n - [{chip: 0, chan: 8}]\n", "3: |two ends|list of 1"},
    {CHIPS "ethernet_connections:\n - [{chip: 0, chan: 8},\n    {chip: 2, chan: 8}]\n", "4: |'arch' or 'chips'|'2'"},
    {CHIPS "ethernet_connections: [[{chip: 0, chan: 8}, {chip: 1}]]\n", "2: |one end|'chan'|map of 1"},
    {CHIPS "ethernet_connections: [[{chip: 0, chan: 8}, {chan: 1}]]\n", "2: |one end|{chip: 0, chan: 8}|map of 1"},
    {CHIPS "ethernet_connections: [[{chip: 0, chan: 8}, 1]]\n", "2: |one end|{chip: 0, chan: 8}|'1'"},
    {CHIPS "ethernet_connections: [[{chip: 0, chan: 1024}, {chip: 1, chan: 0}]]\n", "2: |a channel|1023|'1024'"},
    {CHIPS "ethernet_connections: [[{chip:0, chan: 8}, {chip: 1, chan: 0}]]\n",
     "2: |one end|{chip: 0, chan: 8}|map of 2"},
    {CHIPS "ethernet_connections:\n - [{chip: 0, chan: 8}, {chip: 1, chan: 0}]\n - [{chip: 0, chan: 9}, {chip: 1, "
           "chan: 0}]\n",
     "4: |without|channel 0|chip 1|line 3"},
    {CHIPS "ethernet_connections: [[{chip: 0, chan: 8}, {chip: 0, chan: 8}]]\n", "2: |without|channel 8|chip 0|line 2"},
    {CHIPS "ethernet_connections: [[{chip: 0, chan: 8}, {chip: 1, chan: 8}]]\n"
           "ethernet_connections_to_remote_devices: [[{chip: 0, chan: 8}, {remote_chip_id: 5, chan: 8}]]\n",
     "3: |without|channel 8|chip 0|line 2"},
    {CHIPS
     "ethernet_connections: []\nethernet_connections_to_remote_devices: [[{chip: 0, chan: 8}, {chip: 1, chan: 8}]]\n",
     "3: |remote end|remote_chip_id|map of 2"},
    {CHIPS "ethernet_connections: []\nethernet_connections_to_remote_devices: {}\n", "3: |of connections|map of 0"},
    {CHIPS "ethernet_connections: []\nchips_with_mmio: 0\n", "3: |of chips|'0'"},
    {CHIPS "ethernet_connections: []\nchips_with_mmio: [0: 0, 2: 0]\n", "3: |'arch' or 'chips'|'2'"},
    {"grid: {x_size: 1}\nfunctional_workers: []\n", "1: |cluster|mesh graph|chip's cores"},
};

static void broken(void) { check_broken(broken_files, sizeof broken_files / sizeof broken_files[0]); }

/* ---- mesh graphs ---- */

#define SPEC "ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 2, E: 1, S: 2, W: 1}}\n"
static void mesh_graphs(void) {
  struct tu_error error = {.text = ""};
  char line[400];
  /* With SPEC, a chip has ports 0 and 1 (north), 2 (east), 3 and 4 (south), 5 (west). The first file is a row of boards
   * of one column each. The second file has two meshes; one of their joints (links between meshes) is listed from both
   * sides. */
  struct tu_cluster *c = read_text(SPEC
                                   "Board: [{name: B, type: Mesh, topology: [2, 1]}]\n"
                                   "Mesh: [{id: 0, board: B, topology: [1, 2], host_ranks: [[0, 1]]}]\nGraph: [\n]\n",
                                   &error);
  CHECK(c, "%s", error.text);
  if (c) print_links(c, line, sizeof line);
  CHECK(c && c->chip_count == 4 && strcmp(line, "0.2=1.5 0.3=2.0 0.4=2.1 1.3=3.0 1.4=3.1 2.2=3.5") == 0, "%s", line);
  CHECK(c && c->nodes[3].coords[0] == 1 && c->nodes[3].coords[1] == 1 && strcmp(c->nodes[3].arch, "wormhole_b0") == 0,
        "coordinates");
  tu_cluster_destroy(c);

  c = read_text(SPEC
                "Board: [{name: A, type: mesh, topology: [1, 1]}, {name: B, type: TORUS_X, topology: [1, 3]}]\n"
                "Mesh: [{id: 1, board: B, topology: [1, 1]}, {id: 0, board: A, topology: [1, 1]}]\n"
                "Graph: [[[0, S0], [1, N4]], [[1, N4], [0, S0]], [[0, W0], [1, S1]]]\n",
                &error);
  CHECK(c, "%s", error.text);
  if (c) print_links(c, line, sizeof line);
  CHECK(c && c->chip_count == 4 && strcmp(line, "1.2=2.5 2.2=3.5 3.2=1.5 0.3=3.0 0.5=1.4") == 0, "%s", line);
  CHECK(c && !c->nodes[0].has_coords, "two meshes have no coordinates");
  tu_cluster_destroy(c);
}

#define MESH "Board: [{name: B, type: Mesh, topology: [2, 2]}]\nMesh: [{id: 0, board: B, topology: [1, 1]}]\n"
static const struct broken broken_mesh_graphs[] = {
    {"Mesh: []\n", "1: |a key|'ChipSpec'|map of 1"},
    {"ChipSpec: {arch: x}\n", "1: |a key|'ethernet_ports'|map of 1"},
    {"ChipSpec: {ethernet_ports: {N: 1, E: 1, S: 1}}\n", "1: |a key|'W'|map of 3"},
    {"ChipSpec: {ethernet_ports: {N: 1, E: 1, S: 1, W: 257}}\n", "1: |'W'|up to 256|'257'"},
    {SPEC "Board: []\n", "1: |a key|'Mesh'|map of 2"},
    {SPEC "Mesh: []\n", "2: |1 to 4096 meshes|list of 0"},
    {SPEC "Mesh: [{id: 0, board: B}]\n", "1: |a key|'Board'|map of 2"},
    {SPEC "Board: [{name: C}]\nMesh:\n- {id: 0, board: B}\n", "4: |a board|'Board'|'B'"},
    {SPEC "Board: [{name: B, topology: [2]}]\nMesh: [{id: 0, board: B}]\n", "2: |[8, 4]|list of 1"},
    {SPEC "Board: [{name: B, topology: [2, 0]}]\nMesh: [{id: 0, board: B}]\n", "2: |[8, 4]|'0'"},
    {SPEC "Board: [{name: B, type: Moebius, topology: [2, 1]}]\nMesh: [{id: 0, board: B}]\n",
     "2: |Mesh, TORUS_X, TORUS_Y and TORUS_2D|'Moebius'"},
    {SPEC "Board: [{name: B, topology: [256, 256]}]\nMesh: [{id: 0, board: B, topology: [1, 2]}]\n",
     "3: |the mesh|65536 chips"},
    {SPEC "Board: [{name: B, topology: [256, 256]}]\nMesh: [{id: 0, board: B, topology: [1, 1]}, {id: 1, board: B, "
          "topology: [1, 1]}]\n",
     "3: |65536 chips|meshes"},
    {"ChipSpec: {ethernet_ports: {N: 256, E: 256, S: 256, W: 256}}\nBoard: [{name: B, topology: [256, 256]}]\n"
     "Mesh: [{id: 0, board: B, topology: [1, 1]}]\n",
     "3: |2^20 links|found 33554432"},
    {SPEC "Board: [{name: B, topology: [1, 1]}]\nMesh: [{id: 1, board: B, topology: [1, 1]}]\n",
     "3: |'id'|up to 0|'1'"},
    {SPEC "Board: [{name: B, topology: [1, 1]}]\nMesh: [{id: 1, board: B, topology: [1, 1]},\n {id: 1, board: B}]\n",
     "4: |an id|'1'"},
    {SPEC MESH "Graph: [[[0, N0]]]\n", "4: |[[0, S0], [4, N0]]|list of 1"},
    {SPEC MESH "Graph: [[[0, N0], [1, N0]]]\n", "4: |a mesh|up to 0|'1'"},
    {SPEC MESH "Graph: [[[0, N0], [0, N4]]]\n", "4: |existing port|'N4'"},
    {SPEC MESH "Graph: [[[0, N0], [0, Q1]]]\n", "4: |[0, N4]|'Q1'"},
    {SPEC MESH "Graph: [[[0, N0], [0, S0]], [[0, N0], [0, S1]]]\n", "4: |two ports|no other connection|list of 2"},
};

static void mesh_graphs_refused(void) {
  check_broken(broken_mesh_graphs, sizeof broken_mesh_graphs / sizeof broken_mesh_graphs[0]);
}

/* ---- files of real machines ---- */

static void on_files(bool own) {
  static const struct {
    const char *file;
    uint32_t chips, mmio, links, pairs, remotes, dispatch;
  } cases[] = {
      {"own/eight.yaml", 8, 4, 20, 10, 0, 4},
      {"own/pair.yaml", 2, 1, 2, 1, 1, 1},
      {"own/ports.yaml", 11, 0, 19, 14, 0, 0},
      {"t3k_cluster_desc.yaml", 8, 4, 20, 10, 0, 4},
      {"6u_cluster_desc.yaml", 32, 32, 208, 52, 0, 0},
      {"blackhole_4xP150.yaml", 4, 4, 16, 4, 0, 0},
      {"blackhole_P300_both_mmio.yaml", 2, 2, 2, 1, 0, 0},
      {"wormhole_N150.yaml", 1, 1, 0, 0, 0, 0},
      {"wormhole_N300.yaml", 2, 1, 2, 1, 0, 1},
      {"wormhole_N300_routing_info.yaml", 2, 1, 2, 1, 0, 1},
      {"wormhole_N300_with_remote_connections.yaml", 2, 1, 2, 1, 6, 1},
      {"mesh/n300_mesh_graph_descriptor.yaml", 2, 0, 2, 1, 0, 0},
      {"mesh/t3k_mesh_graph_descriptor.yaml", 8, 0, 20, 10, 0, 0},
      {"mesh/p150_x4_mesh_graph_descriptor.yaml", 4, 0, 16, 4, 0, 0},
      {"mesh/quanta_galaxy_torus_2d_graph_descriptor.yaml", 32, 0, 256, 64, 0, 0},
      {"mesh/dual_galaxy_mesh_graph_descriptor.yaml", 64, 0, 112, 112, 0, 0},
      {"mesh/tg_mesh_graph_descriptor.yaml", 36, 0, 216, 60, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (cluster_is_own(cases[i].file) != own) continue;
    struct tu_cluster *c = cluster_shared(cases[i].file);
    if (!c) continue;
    struct tu_cluster_counts n = tu_cluster_count(c);
    CHECK(c->chip_count == cases[i].chips && n.mmio == cases[i].mmio && n.links == cases[i].links &&
              n.pairs == cases[i].pairs && c->remote_count == cases[i].remotes && n.reserved == 0,
          "%s: %u chips, %u with mmio, %u links, %u pairs, %u remote", cases[i].file, c->chip_count, n.mmio, n.links,
          n.pairs, c->remote_count);
    if (tu_cluster_reserve(c, "dispatch", NULL) != TUTTI_OK) FAIL("%s", cases[i].file);
    n = tu_cluster_count(c);
    CHECK(n.reserved == cases[i].dispatch, "%s: %u for dispatch", cases[i].file, n.reserved);
    tu_cluster_destroy(c);
  }
}
static void own_files(void) { on_files(true); }
static void real_files(void) { on_files(false); }

static void refused_files(bool own) {
  static const char *const files[][2] = {
      {"own/cores.yaml", "chip's cores"},
      {"own/README.md", "expected"},
      {"schema_cluster_descriptor.yaml", "'arch' or 'chips'|none"},
      {"soc/wormhole_b0_80_arch.yaml", "chip's cores"},
      {"README.md", "expected"},
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    char path[512];
    struct tu_cluster *c;
    struct tu_error error;
    if (cluster_is_own(files[i][0]) != own || !cluster_path(files[i][0], path)) continue;
    CHECK(tu_cluster_load(path, &c, &error) == TUTTI_ERR_ARGUMENT && test_contains(error.text, files[i][1]), "%s: '%s'",
          files[i][0], error.text);
  }
}
static void own_files_refused(void) { refused_files(true); }
static void real_files_refused(void) { refused_files(false); }

/* ---- presets and generators ---- */

static void presets(void) {
  static const struct {
    const char *what, *reserve;
    uint32_t chips, mmio, links, pairs, reserved, gateways, gateway_links;
  } cases[] = {
      {"n300", NULL, 2, 1, 2, 1, 1, 0, 0},
      {"n300", "none", 2, 1, 2, 1, 0, 0, 0},
      {"t3000", NULL, 8, 4, 20, 10, 4, 0, 0},
      {"t3000", "dispatch", 8, 4, 20, 10, 4, 0, 0},
      {"t3000", "0:6,7:0", 8, 4, 20, 10, 2, 0, 0},
      {"galaxy", NULL, 32, 0, 208, 52, 24, 4, 8},
      {"galaxy", "dispatch", 32, 0, 208, 52, 0, 4, 8},
      {"galaxy", "none", 32, 0, 208, 52, 0, 4, 8},
      {"galaxy-torus", NULL, 32, 32, 256, 64, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tu_cluster *c = cluster_reserved(cases[i].what, cases[i].reserve);
    struct tu_cluster_counts n = tu_cluster_count(c);
    CHECK(c->chip_count == cases[i].chips && n.mmio == cases[i].mmio && n.links == cases[i].links &&
              n.pairs == cases[i].pairs && n.reserved == cases[i].reserved && n.gateways == cases[i].gateways &&
              n.gateway_links == cases[i].gateway_links,
          "%s: %u chips, %u with mmio, %u links, %u pairs, %u reserved, %u gateways, %u of them", cases[i].what,
          c->chip_count, n.mmio, n.links, n.pairs, n.reserved, n.gateways, n.gateway_links);
    for (uint32_t l = 0; l < c->link_count; l++)
      for (int e = 0; e < 2; e++)
        CHECK(c->links[l].ends[e].channel < 16, "%s: channel %u", cases[i].what, c->links[l].ends[e].channel);
    tu_cluster_destroy(c);
  }
  /* In a galaxy, 96 links run along rows, of which 24 are reserved; 112 run along columns, of which none is
   * reserved. */
  struct tu_cluster *c = cluster_of("galaxy");
  uint32_t rows = 0, reserved_rows = 0, cols = 0, reserved_cols = 0;
  for (uint32_t l = 0; l < c->link_count; l++) {
    uint32_t a = c->links[l].ends[0].node, b = c->links[l].ends[1].node;
    if (a >= 32 || b >= 32) CHECK(c->links[l].reserved, "a gateway's link is for use");
    else if (c->nodes[a].coords[1] == c->nodes[b].coords[1]) rows++, reserved_rows += c->links[l].reserved;
    else cols++, reserved_cols += c->links[l].reserved;
  }
  CHECK(rows == 96 && reserved_rows == 24 && cols == 112 && reserved_cols == 0, "%u of %u, %u of %u", reserved_rows,
        rows, reserved_cols, cols);
  tu_cluster_destroy(c);
}

static void generators(void) {
  static const struct {
    const char *what;
    uint32_t chips, switches, links, pairs;
  } cases[] = {
      {"ring:1", 1, 0, 0, 0},
      {"ring:2", 2, 0, 1, 1},
      {"ring:3", 3, 0, 3, 3},
      {"ring:8:2", 8, 0, 16, 8},
      {"line:5", 5, 0, 4, 4},
      {"mesh:3x4", 12, 0, 17, 17},
      {"mesh:3x4:4", 12, 0, 68, 17},
      {"torus:3x4", 12, 0, 24, 24},
      {"torus:2x4", 8, 0, 12, 12},
      {"torus:4x4x4", 64, 0, 192, 192},
      {"mesh:2x2x2x2", 16, 0, 32, 32},
      {"fat-tree:4x1", 4, 1, 4, 4},
      {"fat-tree:2x3", 8, 12, 24, 24},
      {"fat-tree:4x2:2", 16, 8, 64, 32},
      {"hosts:4x8", 32, 5, 36, 36},
      {"hosts:1x3", 3, 1, 3, 3},
      {"hosts:4x8:3", 32, 5, 44, 36},
      {"mesh:256x256", 65536, 0, 130560, 130560},
      {"torus:16x16x16x16", 65536, 0, 262144, 262144},
      {"torus:65536:16", 65536, 0, 1048576, 65536},
      {"fat-tree:1x3", 1, 3, 3, 3},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tu_cluster *c = cluster_of(cases[i].what);
    struct tu_cluster_counts n = tu_cluster_count(c);
    uint32_t other;
    CHECK(c->chip_count == cases[i].chips && n.switches == cases[i].switches && n.links == cases[i].links &&
              n.pairs == cases[i].pairs,
          "%s: %u chips, %u switches, %u links, %u pairs", cases[i].what, c->chip_count, n.switches, n.links, n.pairs);
    CHECK(tu_cluster_parts(c, &other) == 1, "%s falls apart", cases[i].what);
    tu_cluster_destroy(c);
  }
  /* Each switch of a fat tree, except at the top level, has as many links upwards as downwards. */
  struct tu_cluster *c = cluster_of("fat-tree:3x3");
  for (uint32_t s = 0; s < 27; s++) {
    uint32_t expected = s < 18 ? 6 : 3;
    CHECK(tu_neighbour_count(c, 27 + s) == expected, "switch %u has %u neighbours", s, tu_neighbour_count(c, 27 + s));
  }
  tu_cluster_destroy(c);
}

static void names_refused(void) {
  static const char *const cases[][2] = {
      {"t30000", "'t30000'|'t3000'|galaxy-torus|mesh:4x8|file"},
      {"banana", "'banana'|galaxy-torus|mesh:4x8|file"},
      {"no/such.yaml", "cannot open 'no/such.yaml'"},
      {"ring:", "ring:N|LINKS|128|'ring:'"},
      {"ring:0", "ring:N|LINKS|128|'ring:0'"},
      {"ring:4x4", "ring:N|LINKS|128|'ring:4x4'"},
      {"ring:65537", "ring:N|LINKS|128|'ring:65537'"},
      {"mesh:4x", "mesh:AxB|LINKS|128|'mesh:4x'"},
      {"mesh:1x2x3x4x5", "mesh:AxB|LINKS|128|'mesh:1x2x3x4x5'"},
      {"mesh:4x4:129", "mesh:AxB|LINKS|128|'mesh:4x4:129'"},
      {"mesh:4x4:2:2", "mesh:AxB|LINKS|128|'mesh:4x4:2:2'"},
      {"torus:256x257", "'torus:256x257'|65536 chips|2^20 links"},
      {"torus:256x256:16", "'torus:256x256:16'|65536 chips|2^20 links"},
      {"fat-tree:4", "fat-tree:KxL|LINKS|128|'fat-tree:4'"},
      {"fat-tree:1x65536", "'fat-tree:1x65536'|65536 chips|2^20 links"},
      {"hosts:70000x1", "hosts:HxC|LINKS|128|'hosts:70000x1'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tu_cluster *c;
    struct tu_error error = {.text = ""};
    tutti_err err = tu_cluster_load(cases[i][0], &c, &error);
    CHECK(err != TUTTI_OK && test_contains(error.text, cases[i][1]), "%s: '%s'", cases[i][0], error.text);
  }
  struct tu_cluster *c = cluster_of("n300");
  static const char *const lists[][2] = {
      {"nothing", "reserved links: |dispatch|(chip:channel)|'nothing'"},
      {"0", "reserved links: |dispatch|(chip:channel)|'0'"},
      {"0:8;1:0", "reserved links: |dispatch|(chip:channel)|'0:8;1:0'"},
      {"0:7", "reserved links: |channel 7|chip 0|n300"},
      {"2:0", "reserved links: |channel 0|chip 2|n300"},
  };
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    struct tu_error error = {.text = ""};
    CHECK(tu_cluster_reserve(c, lists[i][0], &error) == TUTTI_ERR_ARGUMENT && test_contains(error.text, lists[i][1]),
          "%s: '%s'", lists[i][0], error.text);
  }
  tu_cluster_destroy(c);
}

/* ---- queries ---- */

/* Compares the index of random clusters (neighbours, channels, far ends of links) with the list of links. */
static void index_of_links(void) {
  uint64_t seed = test_seed();
  for (uint32_t round = 0; round < 100; round++) {
    struct tu_cluster *c = cluster_random(&seed, 2 + below(&seed, 12), 50, 4);
    for (uint32_t l = 0; l < c->link_count; l++) {
      c->links[l].reserved = false;
      for (int e = 0; e < 2; e++) {
        struct tu_cluster_link_end near = c->links[l].ends[e], far = tu_link_far(&c->links[l], near);
        CHECK(tu_cluster_link_at(c, near) == l, "link %u is not at its end", l);
        CHECK(far.node == c->links[l].ends[1 - e].node && far.channel == c->links[l].ends[1 - e].channel, "far end");
      }
    }
    for (uint32_t a = 0; a < c->node_count; a++)
      for (uint32_t b = 0; b < c->node_count; b++) {
        uint32_t links = 0, last = 0;
        for (uint32_t l = 0; l < c->link_count; l++)
          links += a != b && (c->links[l].ends[0].node == a || c->links[l].ends[1].node == a) &&
                   (c->links[l].ends[0].node == b || c->links[l].ends[1].node == b);
        CHECK(tu_cluster_usable(c, a, b) == links, "%u usable, not %u", tu_cluster_usable(c, a, b), links);
        for (uint32_t i = 0; i < links; i++) {
          uint32_t l = tu_cluster_link_between(c, a, b, i);
          uint32_t channel = c->links[l].ends[c->links[l].ends[0].node != a].channel;
          CHECK(i == 0 || channel > last, "links between are not by channel");
          last = channel;
        }
        CHECK(tu_cluster_link_between(c, a, b, links) == TU_NONE, "one link too many");
      }
    CHECK(tu_cluster_link_at(c, (struct tu_cluster_link_end){0, 1000}) == TU_NONE, "a link where none is");
    tu_cluster_destroy(c);
  }
}

static void reach(void) {
  static const struct {
    const char *what;
    uint32_t chip, mmio, hops;
  } cases[] = {
      {"n300", 0, 0, 0},     {"n300", 1, 0, 1},    {"t3000", 2, 2, 0},        {"t3000", 4, 0, 1},
      {"t3000", 5, 1, 1},    {"t3000", 6, 2, 1},   {"t3000", 7, 3, 1},        {"galaxy", 0, 32, 1},
      {"galaxy", 3, 32, 4},  {"galaxy", 4, 32, 1}, {"galaxy", 8, 33, 1},      {"galaxy", 31, 35, 4},
      {"galaxy", 18, 34, 3}, {"ring:5", 4, 4, 0},  {"fat-tree:2x2", 3, 3, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tu_cluster *c = cluster_of(cases[i].what);
    uint32_t mmio[64], hops[64];
    if (!tu_cluster_reach(c, mmio, hops)) abort();
    CHECK(mmio[cases[i].chip] == cases[i].mmio && hops[cases[i].chip] == cases[i].hops, "%s, chip %u: by %u, %u hops",
          cases[i].what, cases[i].chip, mmio[cases[i].chip], hops[cases[i].chip]);
    tu_cluster_destroy(c);
  }
  /* In random clusters, compares with all-pairs distances: expects the nearest node with mmio, and the lowest one if
   * several are equally near. */
  uint64_t seed = test_seed();
  for (uint32_t round = 0; round < 100; round++) {
    struct tu_cluster *c = cluster_random(&seed, 12, 15, 1);
    uint32_t *d = cluster_distances(c), mmio[12], hops[12];
    for (uint32_t i = 0; i < 12; i++) c->nodes[i].mmio = below(&seed, 4) == 0;
    if (!tu_cluster_reach(c, mmio, hops)) abort();
    for (uint32_t i = 0; i < 12; i++) {
      uint32_t best = TU_NONE;
      for (uint32_t m = 12; m-- > 0;)
        if (c->nodes[m].mmio && d[m * 12 + i] < TU_NONE / 4 && (best == TU_NONE || d[m * 12 + i] <= d[best * 12 + i]))
          best = m;
      CHECK(mmio[i] == best && hops[i] == (best == TU_NONE ? TU_NONE : d[best * 12 + i]),
            "round %u, chip %u: by %u, not %u", round, i, mmio[i], best);
    }
    free(d);
    tu_cluster_destroy(c);
  }
}

/* ---- descriptions of a chip's cores ---- */

static void socs(void) {
  static const char text[] =
      "grid:\n  x_size: 10\n  y_size: 12\neth:\n  [\n   9-0, 1-0,\n   9-6,\n  ]\narch_name: WORMHOLE_B0\nx: y\n";
  struct tu_soc *soc;
  struct tu_error error = {.text = ""};
  CHECK(tu_soc_read(text, strlen(text), "s", &soc, &error) == TUTTI_OK, "%s", error.text);
  CHECK(soc->channel_count == 3 && soc->channels[0].x == 9 && soc->channels[0].y == 0 && soc->channels[2].y == 6 &&
            soc->width == 10 && soc->height == 12 && strcmp(soc->arch, "WORMHOLE_B0") == 0,
        "cores");
  tu_soc_destroy(soc);
  static const char *const cases[][2] = {
      {"[]", "s:1: |chip's cores|a map|list of 0"},
      {"eth: []", "s:1: |chip's cores|'grid' and 'eth'|map of 1"},
      {"grid: {x_size: 3}\neth: []", "s:1: |{x_size: 10, y_size: 12}|map of 1"},
      {"grid: {x_size: 3, y_size: 5000}\neth: []", "s:1: |a number of cores|4096|'5000'"},
      {"grid: {x_size: 3, y_size: 3}\neth: 0-0", "s:2: |of cores|'0-0'"},
      {"grid: {x_size: 3, y_size: 3}\neth:\n - 0-0\n - 3-0\n", "s:4: |9-6 (x-y)|'3-0'"},
      {"grid: {x_size: 3, y_size: 3}\neth: [0]\n", "s:2: |9-6 (x-y)|'0'"},
      {"grid: {x_size: 3, y_size: 3}\neth: [-1-1]\n", "s:2: |9-6 (x-y)|'-1-1'"},
      {"grid: {x_size: 3, y_size: 3}\neth: [[0-0]]\n", "s:2: |9-6 (x-y)|list of 1"},
      {"grid: {x_size: 3, y_size: 3}\neth: []\narch_name: []", "s:3: |architecture's name|list of 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    CHECK(tu_soc_read(cases[i][0], strlen(cases[i][0]), "s", &soc, &error) == TUTTI_ERR_ARGUMENT && !soc &&
              test_contains(error.text, cases[i][1]),
          "'%s'", error.text);
}

static void soc_files(bool own) {
  static const struct {
    const char *file, *arch;
    uint32_t channels, channel, x, y;
  } cases[] = {
      {"own/cores.yaml", "OURS", 4, 0, 1, 0},
      {"own/cores.yaml", "OURS", 4, 3, 0, 0},
      {"soc/wormhole_b0_80_arch.yaml", "WORMHOLE_B0", 16, 0, 9, 0},
      {"soc/wormhole_b0_80_arch.yaml", "WORMHOLE_B0", 16, 2, 8, 0},
      {"soc/wormhole_b0_80_arch.yaml", "WORMHOLE_B0", 16, 8, 9, 6},
      {"soc/wormhole_b0_80_arch.yaml", "WORMHOLE_B0", 16, 15, 4, 6},
      {"soc/blackhole_140_arch.yaml", "BLACKHOLE", 14, 0, 1, 1},
      {"soc/blackhole_140_arch.yaml", "BLACKHOLE", 14, 13, 10, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char path[512], *data;
    size_t bytes;
    struct tu_soc *soc;
    struct tu_error error = {.text = ""};
    if (cluster_is_own(cases[i].file) != own || !cluster_path(cases[i].file, path)) continue;
    if (tu_read_file(path, &data, &bytes, &error) != TUTTI_OK ||
        tu_soc_read(data, bytes, path, &soc, &error) != TUTTI_OK) {
      FAIL("%s", error.text);
      continue;
    }
    struct tu_core core = soc->channels[cases[i].channel];
    CHECK(soc->channel_count == cases[i].channels && core.x == cases[i].x && core.y == cases[i].y &&
              strcmp(soc->arch, cases[i].arch) == 0,
          "%s: channel %u of %u at %u-%u", cases[i].file, cases[i].channel, soc->channel_count, core.x, core.y);
    tu_soc_destroy(soc);
    free(data);
  }
}
static void own_socs(void) { soc_files(true); }
static void real_socs(void) { soc_files(false); }

static const struct test tests[] = {
    {"styles", styles},
    {"odd but good", odd_but_good},
    {"broken", broken},
    {"mesh graphs", mesh_graphs},
    {"mesh graphs refused", mesh_graphs_refused},
    {"own files", own_files},
    {"real files", real_files},
    {"own files refused", own_files_refused},
    {"real files refused", real_files_refused},
    {"presets", presets},
    {"generators", generators},
    {"names refused", names_refused},
    {"index of links", index_of_links},
    {"reach", reach},
    {"socs", socs},
    {"own socs", own_socs},
    {"real socs", real_socs},
};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
