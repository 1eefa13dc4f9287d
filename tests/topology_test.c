/* topology_test.c: tests of the public calls for clusters. */
#include <tutti/topology.h>

#include "test.h"

#define DATA SOURCE_DIR "/tests/data/"
#define SHARED SOURCE_DIR "/../shared/clusters/"

static tutti_cluster *load(const char *what, const char *reserve) {
  tutti_cluster *c = NULL;
  if (tutti_cluster_load(what, reserve, &c) == TUTTI_OK) return c;
  printf("%s: %s\n", what, tutti_error_message(NULL));
  abort();
}

/* Returns the usable channels of a chip as text, for example "6 7 9". */
static const char *channels(const tutti_cluster *c, uint32_t chip) {
  static char line[200];
  uint32_t all[32], count;
  size_t length = 0;
  line[0] = '\0';
  if (tutti_cluster_channels(c, chip, all, 32, &count) != TUTTI_OK) return tutti_error_message(NULL);
  for (uint32_t i = 0; i < count; i++)
    length += (size_t)snprintf(line + length, sizeof line - length, i ? " %u" : "%u", all[i]);
  return line;
}

static void usable_channels(void) {
  static const struct {
    const char *what, *reserve;
    uint32_t chip;
    const char *channels;
  } cases[] = {
      {"n300", NULL, 0, "9"},
      {"n300", "none", 0, "8 9"},
      {"n300", NULL, 1, "1"},
      {"n300", "0:8,0:9", 0, ""},
      {"t3000", NULL, 0, "6 7 9 14 15"},
      {"t3000", "none", 0, "6 7 8 9 14 15"},
      {"t3000", NULL, 4, "1 6 7"},
      {"galaxy", NULL, 0, "5 6 7 12 13 14 15"},
      {"galaxy-torus", NULL, 5, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"},
      {"ring:4:2", NULL, 1, "0 1 2 3"},
      {"hosts:2x2", NULL, 3, "0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tutti_cluster *c = load(cases[i].what, cases[i].reserve);
    CHECK(strcmp(channels(c, cases[i].chip), cases[i].channels) == 0, "%s, chip %u: '%s'", cases[i].what, cases[i].chip,
          channels(c, cases[i].chip));
    uint32_t two[2] = {99, 99}, count;
    CHECK(tutti_cluster_channels(c, cases[i].chip, two, 1, &count) == TUTTI_OK && two[1] == 99,
          "channels beyond max were written");
    CHECK(tutti_cluster_channels(c, cases[i].chip, NULL, 0, &count) == TUTTI_OK, "count without a list");
    tutti_cluster_free(c);
  }
}

/* For every channel of every chip, the far end of the far end is the channel itself. */
static void far_ends(void) {
  static const char *const names[] = {"t3000", "galaxy", "torus:3x4:2", "fat-tree:2x2", "hosts:2x3"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    tutti_cluster *c = load(names[i], "none");
    uint32_t ends = 0;
    for (uint32_t chip = 0; chip < tutti_cluster_chips(c); chip++) {
      uint32_t all[64], count;
      if (tutti_cluster_channels(c, chip, all, 64, &count) != TUTTI_OK) abort();
      for (uint32_t k = 0; k < count; k++) {
        tutti_link_end near = {chip, all[k]}, far, back = {0};
        tutti_err err = tutti_cluster_far_end(c, near, &far);
        if (err == TUTTI_OK) err = tutti_cluster_far_end(c, far, &back);
        CHECK(err == TUTTI_OK && back.chip == chip && back.channel == all[k], "%s: %u.%u", names[i], chip, all[k]);
        ends++;
      }
    }
    CHECK(ends > 0, "%s has no links", names[i]);
    tutti_cluster_free(c);
  }
  tutti_cluster *c = load("n300", NULL);
  tutti_link_end far;
  CHECK(tutti_cluster_far_end(c, (tutti_link_end){0, 8}, &far) == TUTTI_OK && far.chip == 1 && far.channel == 0,
        "far end of a reserved link");
  tutti_cluster_free(c);
}

static void mmio_and_reach(void) {
  tutti_cluster *c = load("t3000", NULL);
  uint32_t mmio, hops;
  for (uint32_t chip = 0; chip < 8; chip++) {
    CHECK(tutti_cluster_has_mmio(c, chip) == (chip < 4), "chip %u", chip);
    CHECK(tutti_cluster_reach(c, chip, &mmio, &hops) == TUTTI_OK && mmio == chip % 4 && hops == chip / 4,
          "chip %u: reached from %u in %u hops", chip, mmio, hops);
    CHECK(tutti_cluster_chip_id(c, chip) == chip, "chip id");
  }
  CHECK(!tutti_cluster_has_mmio(c, 8) && tutti_cluster_chip_id(c, 8) == UINT32_MAX, "chip 8");
  tutti_cluster_free(c);
  c = load("galaxy", NULL);
  CHECK(tutti_cluster_chips(c) == 32 && tutti_cluster_reach(c, 31, &mmio, &hops) == TUTTI_OK && mmio == 35 &&
            hops == 4 && tutti_cluster_has_mmio(c, mmio) && tutti_cluster_reach(c, 31, NULL, NULL) == TUTTI_OK,
        "galaxy: reached from %u in %u hops", mmio, hops);
  tutti_cluster_free(c);
}

static void refusals(void) {
  tutti_cluster *c = load("n300", NULL), *none;
  tutti_soc *soc;
  uint32_t count;
  tutti_link_end far;
#define REFUSED(err, call, facts) \
  CHECK((call) == (err) && test_contains(tutti_error_message(NULL), facts), "'%s'", tutti_error_message(NULL))
  REFUSED(TUTTI_ERR_ARGUMENT, tutti_cluster_load(NULL, NULL, &none), "cluster");
  REFUSED(TUTTI_ERR_ARGUMENT, tutti_cluster_load("n300", "all", &none), "reserved links|'none', 'dispatch'|'all'");
  REFUSED(TUTTI_ERR_ARGUMENT, tutti_cluster_load("ring:x", NULL, &none), "ring:N|:LINKS|128|'ring:x'");
  CHECK(tutti_cluster_load("no/such/file", NULL, &none) == TUTTI_ERR_SYSTEM && !none, "no such file");
  REFUSED(TUTTI_ERR_ARGUMENT, tutti_cluster_channels(c, 2, NULL, 0, &count), "n300|0 to 1|2");
  REFUSED(TUTTI_ERR_ARGUMENT, tutti_cluster_channels(NULL, 2, NULL, 0, &count), "cluster|NULL");
  REFUSED(TUTTI_ERR_ARGUMENT, tutti_cluster_channels(c, 0, NULL, 3, &count), "channels|3");
  REFUSED(TUTTI_ERR_ARGUMENT, tutti_cluster_far_end(c, (tutti_link_end){0, 7}, &far), "channel 7 of chip 0 of n300");
  REFUSED(TUTTI_ERR_ARGUMENT, tutti_cluster_far_end(c, (tutti_link_end){2, 0}, &far), "n300|0 to 1|2");
  REFUSED(TUTTI_ERR_ARGUMENT, tutti_cluster_reach(c, 3, NULL, NULL), "n300|0 to 1|3");
  REFUSED(TUTTI_ERR_ARGUMENT, tutti_soc_load(NULL, &soc), "path");
  CHECK(tutti_soc_load("no/such/file", &soc) == TUTTI_ERR_SYSTEM && !soc, "no such file");
  REFUSED(TUTTI_ERR_ARGUMENT, tutti_soc_core(NULL, 0, NULL), "core|channel below 0");
  CHECK(tutti_cluster_chips(NULL) == 0 && !tutti_cluster_has_mmio(NULL, 0) && tutti_soc_channels(NULL) == 0, "NULL");
  tutti_cluster_free(c);
  tutti_cluster_free(NULL);
  tutti_soc_free(NULL);
}

/* A mesh graph file has no hosts, so that no chip can be reached. */
static void files(void) {
  char path[] = "/tmp/tutti-topology-XXXXXX";
  static const char mesh[] =
      "ChipSpec: {arch: w, ethernet_ports: {N: 1, E: 1, S: 1, W: 1}}\nBoard: [{name: B, topology: [2, 2]}]\n"
      "Mesh: [{id: 0, board: B, topology: [1, 1]}]\n";
  static const char cores[] = "grid: {x_size: 10, y_size: 12}\neth: [9-0, 1-0, 8-0]\n";
  tutti_cluster *c;
  tutti_soc *soc;
  tutti_core core;
  uint32_t hops;
  int file = mkstemp(path);
  if (file < 0 || write(file, mesh, sizeof mesh - 1) != sizeof mesh - 1) abort();
  CHECK(tutti_cluster_load(path, NULL, &c) == TUTTI_OK && tutti_cluster_chips(c) == 4, "%s", tutti_error_message(NULL));
  CHECK(tutti_cluster_reach(c, 1, NULL, &hops) == TUTTI_ERR_UNSUPPORTED &&
            test_contains(tutti_error_message(NULL), "chip 1|mmio"),
        "%s", tutti_error_message(NULL));
  tutti_cluster_free(c);
  if (ftruncate(file, 0) != 0 || pwrite(file, cores, sizeof cores - 1, 0) != sizeof cores - 1) abort();
  CHECK(tutti_soc_load(path, &soc) == TUTTI_OK && tutti_soc_channels(soc) == 3, "%s", tutti_error_message(NULL));
  CHECK(tutti_soc_core(soc, 2, &core) == TUTTI_OK && core.x == 8 && core.y == 0, "channel 2");
  CHECK(tutti_soc_core(soc, 3, &core) == TUTTI_ERR_ARGUMENT, "channel 3");
  tutti_soc_free(soc);
  CHECK(tutti_cluster_load(path, NULL, &c) == TUTTI_ERR_ARGUMENT && !c, "a core description was loaded as a cluster");
  unlink(path);
  close(file);
}

/* Combines a cluster and a core description: finds the core at which the link from chip 0 to chip 1 ends. */
static void own_files(void) {
  tutti_cluster *c;
  tutti_soc *soc;
  tutti_link_end far;
  tutti_core core;
  if (tutti_cluster_load(DATA "pair.yaml", "dispatch", &c) != TUTTI_OK ||
      tutti_soc_load(DATA "cores.yaml", &soc) != TUTTI_OK) {
    FAIL("%s", tutti_error_message(NULL));
    return;
  }
  CHECK(strcmp(channels(c, 0), "3") == 0, "'%s'", channels(c, 0));
  CHECK(tutti_cluster_far_end(c, (tutti_link_end){0, 3}, &far) == TUTTI_OK && far.chip == 1 && far.channel == 1,
        "far end");
  CHECK(tutti_soc_core(soc, 3, &core) == TUTTI_OK && core.x == 0 && core.y == 0, "core %u-%u", core.x, core.y);
  CHECK(tutti_soc_core(soc, far.channel, &core) == TUTTI_OK && core.x == 2 && core.y == 0, "core %u-%u", core.x,
        core.y);
  tutti_soc_free(soc);
  tutti_cluster_free(c);
}

static void real_files(void) {
  tutti_cluster *c;
  tutti_soc *soc;
  tutti_link_end far;
  tutti_core core;
  if (access(SHARED "wormhole_N300.yaml", R_OK) != 0) {
    SKIP("no folder ../shared/clusters");
    return;
  }
  if (tutti_cluster_load(SHARED "wormhole_N300.yaml", "dispatch", &c) != TUTTI_OK ||
      tutti_soc_load(SHARED "soc/wormhole_b0_80_arch.yaml", &soc) != TUTTI_OK) {
    FAIL("%s", tutti_error_message(NULL));
    return;
  }
  CHECK(strcmp(channels(c, 0), "9") == 0, "'%s'", channels(c, 0));
  CHECK(tutti_cluster_far_end(c, (tutti_link_end){0, 9}, &far) == TUTTI_OK && far.chip == 1 && far.channel == 1,
        "far end");
  CHECK(tutti_soc_core(soc, 9, &core) == TUTTI_OK && core.x == 1 && core.y == 6, "core %u-%u", core.x, core.y);
  CHECK(tutti_soc_core(soc, far.channel, &core) == TUTTI_OK && core.x == 1 && core.y == 0, "core %u-%u", core.x,
        core.y);
  tutti_soc_free(soc);
  tutti_cluster_free(c);
}

static const struct test tests[] = {
    {"usable channels", usable_channels},
    {"far ends", far_ends},
    {"mmio and reach", mmio_and_reach},
    {"refusals", refusals},
    {"files", files},
    {"own files", own_files},
    {"real files", real_files},
};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
