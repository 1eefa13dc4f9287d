/* mesh_proto_test.c: tests mesh graph descriptors in their newer forms: the chips and links of own and real files,
 * relaxed and loose links, errors with their lines, and the cost of the largest files. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "clusters.h"
#include "topology/grid.h"

static struct tu_cluster *read_as(const char *text, const char *name, struct tu_error *error) {
  struct tu_cluster *c = NULL;
  tutti_err err = tu_cluster_read(text, strlen(text), name, &c, error);
  CHECK((err == TUTTI_OK) == (c != NULL), "'%.40s': %s", text, error->text);
  return c;
}

struct expected {
  const char *file;
  uint32_t chips, pairs, links, relaxed, loose, beyond;
};

static void compare(const struct tu_cluster *c, const struct expected *e) {
  struct tu_cluster_counts n = tu_cluster_count(c);
  struct tu_grid grid;
  tu_grid_find(c, &grid);
  uint32_t beyond = tu_grid_beyond(&grid, c, NULL, 0);
  CHECK(c->chip_count == e->chips && n.pairs == e->pairs && n.links == e->links && n.relaxed == e->relaxed &&
            n.loose == e->loose && beyond == e->beyond,
        "%s: %u chips, %u pairs, %u links, %u relaxed, %u loose, %u pairs beyond the grid", e->file, c->chip_count,
        n.pairs, n.links, n.relaxed, n.loose, beyond);
  tu_grid_fini(&grid);
}

static void own_files(void) {
  static const struct expected files[] = {
      {"express.textproto", 18, 40, 80, 0, 0, 4},
      {"graphs.textproto", 20, 31, 67, 14, 12, 0},
      {"relaxed.yaml", 16, 25, 43, 7, 7, 0},
      {"ports.yaml", 11, 14, 19, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/data/%s", SOURCE_DIR, files[i].file);
    struct tu_cluster *c = cluster_of(path);
    compare(c, &files[i]);
    tu_cluster_destroy(c);
  }
}

/* Compares files of real machines with the values that are documented beside these files. */
static void real_files(void) {
  static const struct expected files[] = {
      {"t3k_mesh_graph_descriptor.textproto", 8, 10, 20, 20, 0, 0},
      {"single_galaxy_torus_x_graph_descriptor.textproto", 32, 60, 240, 240, 0, 0},
      {"single_galaxy_torus_xy_graph_descriptor.textproto", 32, 64, 256, 0, 0, 0},
      {"p150_x8_ring_mesh_graph_descriptor.textproto", 8, 8, 16, 16, 0, 0},
      {"express_links_8x4_mesh_graph_descriptor.textproto", 32, 68, 136, 0, 0, 4},
      {"dual_t3k_strict_connection_mgd.textproto", 16, 24, 44, 40, 0, 0},
      {"fabric_cpu_only_blitz_single_galaxy_4x2_ring_4stage_ring_mesh_graph_descriptor.textproto", 32, 80, 128, 128, 32,
       16},
      {"single_bh_galaxy_2x4x4_z_graph_descriptor.textproto", 32, 64, 120, 8, 8, 4},
      {"5_galaxy_wh_exabox_mgd.yaml", 160, 300, 1080, 40, 40, 0},
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    char file[200];
    snprintf(file, sizeof file, "mgd/%s", files[i].file);
    struct tu_cluster *c = cluster_shared(file);
    if (!c) continue;
    compare(c, &files[i]);
    CHECK(!strstr(c->notes.chars ? c->notes.chars : "", "not known"), "%s: %s", file, c->notes.chars);
    tu_cluster_destroy(c);
  }
}

static bool linked(const struct tu_cluster *c, uint32_t a, uint32_t b, uint32_t links) {
  const struct tu_neighbour *n = tu_cluster_pair(c, a, b);
  return n && n->links == links;
}

#define MESH(name, dims, more) \
  "mesh_descriptors {\n name: \"" name "\" device_topology { dims: " dims " } channels { count: 1 }\n" more "}\n"
#define TOP "top_level_instance { mesh { mesh_descriptor: \"M\" } }\n"
#define INSTANCE(name, id) "instances { mesh { mesh_descriptor: \"" name "\" mesh_id: " id " } }\n"
#define END(name, id) "nodes { mesh { mesh_descriptor: \"" name "\" mesh_id: " id " } }\n"
#define TOP_GRAPH "top_level_instance { graph { graph_descriptor: \"G\" } }\n"

static void express(void) {
  struct tu_error error = {.text = ""};
  /* The pattern partitions chips 0 to 6 into blocks of 3, beginning at chip 1: 1-3 and 4-6. In a ring there is also a
   * block across the edge: 7-9, which are chips 0-2. */
  struct tu_cluster *c =
      read_as(MESH("M", "7", "express_links { pattern { start: 1 step: 3 } wrap: RING }") TOP, "x", &error);
  CHECK(c && c->link_count == 6 + 3 && linked(c, 1, 3, 1) && linked(c, 4, 6, 1) && linked(c, 0, 2, 1), "%s",
        error.text);
  tu_cluster_destroy(c);
  c = read_as(MESH("M", "7", "express_links { pattern { start: 1 step: 3 } }") TOP, "x", &error);
  CHECK(c && c->link_count == 6 + 2 && !tu_cluster_pair(c, 0, 2), "a line drops the block over the edge");
  tu_cluster_destroy(c);
  /* An express connection between two chips that are already linked adds a link to this pair. */
  c = read_as(MESH("M", "[1, 3, 2]", "express_connections { src: 0 dst: 2 }") TOP, "x", &error);
  CHECK(c && c->link_count == 3 + 4 + 1 && linked(c, 0, 2, 2) && linked(c, 0, 1, 1), "%s", error.text);
  tu_cluster_destroy(c);
}

/* If the file names two meshes, but not the chips, the links are spread evenly over the chips of both meshes. */
static void spread(void) {
  struct tu_error error = {.text = ""};
  struct tu_cluster *c = read_as(
      MESH("M", "[2, 4]", "") MESH("N", "[1, 4]", "") "graph_descriptors { name: 'G'\n" INSTANCE("N", "5")
          INSTANCE("M", "2") "connections {\n" END("M", "2") END("N", "5") "channels { count: 4 } } }\n" TOP_GRAPH,
      "x", &error);
  CHECK(
      c && c->chip_count == 12 && linked(c, 0, 4, 1) && linked(c, 1, 6, 1) && linked(c, 2, 8, 1) && linked(c, 3, 10, 1),
      "%s", error.text);
  CHECK(c && tu_cluster_count(c).loose == 4 && tu_cluster_count(c).relaxed == 0, "strict, and loose");
  tu_cluster_destroy(c);
  c = read_as(
      MESH("M", "2", "") "graph_descriptors { name: 'G'\n" INSTANCE("M", "0") INSTANCE("M", "1") INSTANCE("M", "2")
          INSTANCE("M", "3") "graph_topology: ALL_TO_ALL channels { count: 1 policy: RELAXED } }\n" TOP_GRAPH,
      "x", &error);
  CHECK(c && c->link_count == 4 + 6 && linked(c, 0, 6, 1) && tu_cluster_count(c).relaxed == 6, "%s", error.text);
  tu_cluster_destroy(c);
}

static void notes(void) {
  struct tu_error error = {.text = ""};
  struct tu_cluster *c =
      read_as("colour: blue\n" MESH("M", "2", "smell { a: 1 }\n taste: [1, 2]\n") TOP, "x.textproto", &error);
  CHECK(c && c->note_count == 3 &&
            test_contains(c->notes.chars, "line 1: 'colour'|line 4: 'smell' in mesh_descriptors|line 5: 'taste'"),
        "%s", c ? c->notes.chars : error.text);
  tu_cluster_destroy(c);
  struct tu_text many = {0};
  for (int i = 0; i < 1000; i++) tu_text_print(&many, "a%d: 1\n", i);
  tu_text_print(&many, "%s%s", MESH("M", "2", ""), TOP);
  c = read_as(many.chars, "x.textproto", &error);
  CHECK(c && c->note_count == 1000 && c->notes.length < 2000, "%u notes", c ? c->note_count : 0);
  tu_cluster_destroy(c);
  tu_text_fini(&many);
}

static void refusals(void) {
#define GRAPH(body) MESH("M", "2", "") "graph_descriptors { name: 'G'\n" body "}\n" TOP_GRAPH
#define PAIR INSTANCE("M", "0") INSTANCE("M", "1")
  static const char *const cases[][2] = {
      {MESH("M", "2", ""), "1: |a field|'top_level_instance'|map of 1"},
      {MESH("N", "2", "") TOP, "4: |a mesh|not 'M'|map of 1"},
      {MESH("M", "2", "") MESH("M", "2", "") TOP, "5: |a name|other descriptor|'M'"},
      {MESH("M", "0", "") TOP, "2: |'dims'|from 1 to 65536|'0'"},
      {MESH("M", "-2", "") TOP, "2: |'dims'|from 1 to 65536|'-2'"},
      {MESH("M", "[2, 'x']", "") TOP, "2: |'dims'|from 1 to 65536|'x'"},
      {MESH("M", "[1, 2, 3, 4, 5]", "") TOP, "2: |the mesh|4 dimensions"},
      {MESH("M", "[256, 257]", "") TOP, "2: |the mesh|65536 chips"},
      {MESH("M", "[2, 2, 2]", "arch: WORMHOLE_B0") TOP, "3: |architecture|`dims`|'WORMHOLE_B0'"},
      {MESH("M", "2", "arch: BLACKHOLE") MESH("N", "2", "arch: WORMHOLE_B0") TOP,
       "6: |same architecture|'WORMHOLE_B0'"},
      {MESH("M", "2", "host_topology { dims: 3 }") TOP, "3: |dimensions|divisor|map of 1"},
      {MESH("M", "2", "express_connections { src: 0 dst: 2 }") TOP, "3: |'dst'|from 0 to 1|'2'"},
      {MESH("M", "2", "express_connections { src: 1 dst: 1 }") TOP, "3: |different chips|map of 2"},
      {MESH("M", "4", "express_links { dim_idx: 1 pattern { step: 2 } }") TOP, "3: |'dim_idx'|from 0 to 0|'1'"},
      {MESH("M", "4", "express_links { pattern { step: 1 } }") TOP, "3: |'step'|from 2 to 4|'1'"},
      {MESH("M", "2", "name: 'N'") TOP, "3: |only once|'name'"},
      {MESH("M", "2", "channels { count: 2 policy: LAX }") TOP, "3: |only once|'channels'"},
      {"mesh_descriptors { name: M }", "1: |'name'|quotation marks|'M'"},
      {"mesh_descriptors { name: 'M' device_topology { dims: 2 types: [RING, LINE] } }", "1: |more dimension types"},
      {"mesh_descriptors { name: 'M' device_topology { dims: 2 } channels { count: 2 policy: LAX } }",
       "1: |STRICT or RELAXED|'LAX'"},
      {"mesh_descriptors { name: 'M' device_topology { dims: 2 } channels { count: 513 } }",
       "1: |'count'|from 1 to 512|'513'"},
      {GRAPH(""), "4: |a field|'instances'|map of 1"},
      {GRAPH(INSTANCE("M", "3") INSTANCE("M", "3")), "6: |instance|id|unique|map of 1"},
      {GRAPH("instances { switch { } }"), "5: |graph|switches|map of 1"},
      {GRAPH("instances { mesh { mesh_descriptor: 'M' device_id: 1 } }"), "5: |whole mesh or graph|device_id"},
      {GRAPH("instances { graph { graph_descriptor: 'G' } }"), "4: |contains itself|16"},
      {GRAPH(PAIR "connections {\n" END("M", "0") "channels { count: 1 } }"), "7: |two nodes|map of 2"},
      {GRAPH(PAIR "connections {\n" END("M", "0") END("M", "2") "channels { count: 1 } }"), "9: |this graph|map of 2"},
      {GRAPH(PAIR "connections {\n" END("M", "0") END("M", "0") "channels { count: 1 } }"),
       "7: |two ends|in common|map of 3"},
      {GRAPH(PAIR "connections {\n" END("M", "0") END("M", "1") "channels { count: 1 } directional: true }"),
       "7: |directional|map of 4"},
      {GRAPH(PAIR "connections {\n" END("M", "0") END("M", "1") "channels { count: 4000 } }"), "4: |1024 links|chip 0"},
      {GRAPH(PAIR "connections { } graph_topology: RING"), "7: |connections|graph_topology|map of 0"},
      {GRAPH(PAIR "graph_topology { layout_type: STAR channels { count: 1 } }"), "7: |ALL_TO_ALL or RING|'STAR'"},
      {GRAPH(PAIR "graph_topology { layout_type: RING }"), "4: |a field|'channels'|map of 4"},
      {MESH("M", "65536", "") "graph_descriptors { name: 'G'\n" PAIR "}\n" TOP_GRAPH, "8: |the cluster|65536 chips"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char facts[300];
    struct tu_error error = {.text = ""};
    snprintf(facts, sizeof facts, "x.textproto:%s", cases[i][1]);
    struct tu_cluster *c = read_as(cases[i][0], "x.textproto", &error);
    CHECK(!c && test_contains(error.text, facts), "%s: '%s', not '%s'", cases[i][0], error.text, facts);
    tu_cluster_destroy(c);
  }
}

static void refusals_in_yaml(void) {
#define SPEC "ChipSpec: {ethernet_ports: {N: 2, E: 2, S: 2, W: 2}}\nBoard: [{name: B, topology: [2, 2]}]\n"
#define TWO SPEC "Mesh: [{id: 0, board: B, device_topology: [4, 2]}, {id: 1, board: B, device_topology: [2, 2]}]\n"
  static const char *const cases[][2] = {
      {SPEC "Mesh: [{id: 0, board: B, device_topology: [4]}]\n", "3: |[8, 4]|list of 1"},
      {SPEC "Mesh: [{id: 0, board: B, device_topology: [4, 2], host_topology: [3, 1]}]\n", "3: |host rows|list of 2"},
      {SPEC "Mesh: [{id: 0, board: B, device_topology: [256, 257]}]\n", "3: |the mesh|65536 chips"},
      {TWO "RelaxedGraph: 3\n", "4: |connected meshes|'3'"},
      {TWO "RelaxedGraph: [[M0, M1]]\n", "4: |[M0, M1, 4]|list of 2"},
      {TWO "RelaxedGraph: [[M0, M2, 1]]\n", "4: |a mesh|'Mesh'|'M2'"},
      {TWO "RelaxedGraph: [[M0, M0, 1]]\n", "4: |different meshes|list of 3"},
      {TWO "RelaxedGraph: [[M0, M1, 0]]\n", "4: |one link|'0'"},
      {TWO "RelaxedGraph: [[M0, M1, 4100]]\n", "4: |no chip|1024 links|'4100'"},
      {TWO "RelaxedGraph: [[M0, M1, 1048577]]\n", "4: |links|1048576|'1048577'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char facts[300];
    struct tu_error error = {.text = ""};
    snprintf(facts, sizeof facts, "x.yaml:%s", cases[i][1]);
    struct tu_cluster *c = read_as(cases[i][0], "x.yaml", &error);
    CHECK(!c && test_contains(error.text, facts), "%s: '%s', not '%s'", cases[i][0], error.text, facts);
    tu_cluster_destroy(c);
  }
}

static size_t peak_kib(void) {
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) abort();
  return (size_t)usage.ru_maxrss;
}

/* A file of a few hundred bytes can request the maximum number of links, or more. 2^20 links take about 100 MB; a
 * larger request is refused before memory is allocated. */
static void costs(void) {
  static const struct {
    const char *text;
    bool read;
  } cases[] = {
      {MESH("M", "[256, 256]", "") TOP, true},
      {"mesh_descriptors { name: 'M' device_topology { dims: [256, 256] } channels { count: 8 } }" TOP, true},
      {"mesh_descriptors { name: 'M' device_topology { dims: [256, 256] } channels { count: 9 } }" TOP, false},
      {MESH("M", "65536", "express_links { pattern { step: 2 } }") TOP, true},
      {GRAPH(PAIR "connections {\n" END("M", "0") END("M", "1") "channels { count: 1048576 } }"), false},
      {GRAPH(PAIR "connections {\n" END("M", "0") END("M", "1") "channels { count: 1048577 } }"), false},
  };
  size_t before = peak_kib();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tu_error error = {.text = ""};
    struct tu_cluster *c = read_as(cases[i].text, "x.textproto", &error);
    CHECK((c != NULL) == cases[i].read, "%s: %s", cases[i].text, error.text);
    tu_cluster_destroy(c);
  }
  /* Graphs within graphs: each level has 16 instances of the level below. */
  struct tu_text deep = {0};
  tu_text_print(&deep, "%s", MESH("G0", "1", ""));
  for (int level = 1; level < 12; level++) {
    tu_text_print(&deep, "graph_descriptors { name: \"G%d\"\n", level);
    for (int i = 0; i < 16; i++) {
      const char *kind = level == 1 ? "mesh" : "graph";
      tu_text_print(&deep, "instances { %s { %s_descriptor: \"G%d\" %s_id: %d } }\n", kind, kind, level - 1, kind, i);
    }
    tu_text_print(&deep, "graph_topology { layout_type: ALL_TO_ALL channels { count: 1 } } }\n");
  }
  for (int level = 4; level < 12; level += 7) {
    struct tu_error error = {.text = ""};
    struct tu_text whole = {0};
    tu_text_print(&whole, "%stop_level_instance { graph { graph_descriptor: \"G%d\" } }\n", deep.chars, level);
    struct tu_cluster *c = read_as(whole.chars, "x.textproto", &error);
    CHECK((c != NULL) == (level == 4), "level %d: %s", level, error.text);
    tu_cluster_destroy(c);
    tu_text_fini(&whole);
  }
  tu_text_fini(&deep);
  size_t grown = peak_kib() - before;
  CHECK(grown < 400 * 1024, "%zu KiB", grown);
}

static const struct test tests[] = {
    {"own files", own_files},
    {"real files", real_files},
    {"express", express},
    {"spread", spread},
    {"notes", notes},
    {"refusals", refusals},
    {"refusals in YAML", refusals_in_yaml},
    {"costs", costs},
};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
