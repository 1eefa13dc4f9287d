/* fuzz_mesh_text.c: libFuzzer entry for mesh graph descriptors in protobuf text format. A cluster that was read can be
 * measured and searched. A refusal names a line. Built with -fsanitize=fuzzer; seeds in tests/fuzz_seeds/mesh_text. */
#include <stdlib.h>
#include <string.h>

#include "topology/grid.h"
#include "topology/proto_text.h"

/* larger inputs would only be slow */
enum { CHIPS_MAX = 64, BYTES_MAX = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void ask(const struct tu_cluster *c) {
  struct tu_cluster_counts n = tu_cluster_count(c);
  struct tu_grid grid;
  tu_assert(n.links == c->link_count && n.relaxed <= n.links && n.loose <= n.links && n.pairs <= n.links);
  if (c->chip_count > CHIPS_MAX) return;
  tu_grid_find(c, &grid);
  uint32_t pairs[4][2], beyond = tu_grid_beyond(&grid, c, pairs, 4);
  for (uint32_t i = 0; i < beyond && i < 4; i++) tu_assert(tu_cluster_usable(c, pairs[i][0], pairs[i][1]) > 0);
  tu_assert(beyond <= n.pairs);
  tu_grid_fini(&grid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct tu_cluster *c;
  struct tu_yaml tree;
  struct tu_error error;
  if (bytes > BYTES_MAX) return 0;
  if (tu_proto_text_read((const char *)data, bytes, "fuzz", &tree, &error) == TUTTI_OK) {
    tu_assert(tree.node_count <= bytes + 1);
    tu_yaml_fini(&tree);
  } else {
    tu_assert(strncmp(error.text, "fuzz:", 5) == 0);
  }
  if (tu_cluster_read((const char *)data, bytes, "fuzz.textproto", &c, &error) == TUTTI_OK) ask(c);
  else tu_assert(strncmp(error.text, "fuzz.textproto:", 15) == 0);
  tu_cluster_destroy(c);
  return 0;
}
