/* sim_cluster_test.c: simulates plans on the links of clusters: compares times with closed forms, and flows with
 * packets; tests the cost of faults; and runs every algorithm on every kind of cluster, with few slots. */
#include "sim/sim_cluster.h"

#include <math.h>
#include <string.h>

#include "algo/algo.h"
#include "sim/sim_spread.h"
#include "test.h"
#include "topology/ring.h"

/* A cluster on which plans are run, with its ring, router and link model. */
struct field {
  struct tu_cluster *cluster;
  struct tu_grid grid;
  struct tu_ring ring;
  struct tu_router *router;
  struct tu_link_model model;
  struct tu_sim_where where;
};

static bool open_field(struct field *f, const char *cluster, const char *links, bool ring) {
  struct tu_error error;
  *f = (struct field){.cluster = NULL};
  tutti_err err = tu_cluster_load(cluster, &f->cluster, &error);
  if (err == TUTTI_OK) err = tu_link_model_load(links, &f->model, &error);
  if (err == TUTTI_OK) {
    tu_grid_find(f->cluster, &f->grid);
    tu_ring_find(f->cluster, &f->grid, &f->ring);
    err = tu_router_create(f->cluster, &f->grid, TU_SHORTEST, &f->router, &error);
  }
  CHECK(err == TUTTI_OK, "%s, %s: %s", cluster, links, error.text);
  f->where = (struct tu_sim_where){
      .cluster = f->cluster, .router = f->router, .model = &f->model, .chip = ring ? f->ring.order : NULL};
  return err == TUTTI_OK;
}

static void close_field(struct field *f) {
  tu_router_destroy(f->router);
  tu_ring_fini(&f->ring);
  tu_grid_fini(&f->grid);
  tu_cluster_destroy(f->cluster);
}

static const struct tu_algorithm *find(const char *collective, const char *name) {
  for (size_t i = 0; i < tu_algorithm_count; i++)
    if (strcmp(tu_collectives[tu_algorithms[i]->collective].name, collective) == 0 &&
        strcmp(tu_algorithms[i]->name, name) == 0)
      return tu_algorithms[i];
  FAIL("no %s.%s", collective, name);
  exit(1);
}

static struct tu_sim *graph(const struct tu_algorithm *algorithm, uint32_t ranks) {
  return tu_sim_build(&(struct tu_build){.algorithm = algorithm, .ranks = ranks, .rank = TU_ALL_RANKS});
}

/* Returns the simulated time in seconds; -1: the run was refused, with the reason in *error. */
static double play(const struct tu_sim *sim, double bytes, const struct tu_sim_where *where,
                   struct tu_sim_cluster_report *report, struct tu_error *error) {
  return tu_sim_run_on(sim, bytes, where, report, error) == TUTTI_OK ? report->plan.time_s : -1;
}

static double time_of(const struct tu_sim *sim, double bytes, const struct tu_sim_where *where) {
  struct tu_sim_cluster_report report;
  struct tu_error error;
  double time = play(sim, bytes, where, &report, &error);
  CHECK(time >= 0, "%s", error.text);
  if (time >= 0) tu_sim_cluster_report_fini(&report);
  return time;
}

/* ---- times compared with formulas ---- */

/* On a ring whose neighbours are linked, no message has to wait for another one, so packets and flows both take the
 * time of the formula. */
static void rings(void) {
  static const char *const clusters[] = {"ring:2", "ring:5", "ring:16", "t3000", "torus:4x4", "galaxy"};
  for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
    struct field f;
    if (!open_field(&f, clusters[c], "plain", true)) continue;
    uint32_t n = f.cluster->chip_count;
    struct tu_sim *sim = graph(find("allgather", "bucket"), n);
    for (double bytes = 64; bytes < 1e9; bytes *= 1000) {
      double form = (n - 1) * (f.model.latency + bytes / n / f.model.bandwidth);
      f.where.fluid = false;
      CHECK(test_near(time_of(sim, bytes, &f.where), form), "%s, %g bytes: packets", clusters[c], bytes);
      f.where.fluid = true;
      CHECK(test_near(time_of(sim, bytes, &f.where), form), "%s, %g bytes: flows", clusters[c], bytes);
    }
    tu_sim_destroy(sim);
    close_field(&f);
  }
}

/* A reduction of N operands has N - 1 additions; each takes the time of its operand's bytes at the model's speed. If
 * the model has no speed of arithmetic, reductions take no time. The critical path includes reductions. */
static void reductions(void) {
  static const struct {
    const char *collective, *algorithm;
    double messages, blocks, reduced; /* on the critical path: numbers of messages, of blocks sent, of blocks reduced */
    double parts;                     /* number of blocks in the collective's size */
  } forms[] = {
      {"reduce_scatter", "bucket", 4, 4, 4, 5},
      {"allreduce", "ring", 8, 8, 4, 5},
      {"reduce", "direct", 1, 1, 4, 1},
      {"allreduce", "direct", 1, 1, 4, 1},
  };
  static const char *const models[] = {"plain", "wormhole"};
  for (size_t i = 0; i < 2 * sizeof forms / sizeof forms[0]; i++) {
    struct field f;
    const size_t k = i / 2;
    /* algorithms that pass blocks round a ring run on a ring, the others on a torus */
    bool round = forms[k].messages > 1;
    if (!open_field(&f, round ? "ring:5" : "torus:5x5", models[i % 2], false)) continue;
    f.model.reduce_bandwidth = 7e9;
    struct tu_sim *sim = graph(find(forms[k].collective, forms[k].algorithm), 5);
    const double bytes = 1e6, block = bytes / forms[k].parts;
    for (int fluid = 0; fluid < 2; fluid++) {
      struct tu_sim_cluster_report with, without;
      struct tu_error error;
      f.where.fluid = fluid, f.where.traced = true;
      double slow = play(sim, bytes, &f.where, &with, &error);
      f.model.reduce_bandwidth = 0;
      double quick = play(sim, bytes, &f.where, &without, &error);
      f.model.reduce_bandwidth = 7e9;
      if (slow < 0 || quick < 0) {
        FAIL("%s", error.text);
        continue;
      }
      const char *name = forms[k].algorithm;
      double more = forms[k].reduced * block / 7e9;
      CHECK(with.reduced_bytes > 0 && test_near(with.reduced_bytes, without.reduced_bytes), "%s: %g bytes", name,
            with.reduced_bytes);
      CHECK(test_near(with.plan.critical_reduced_bytes, forms[k].reduced * block), "%s, %s, fluid %d: %g on the path",
            name, models[i % 2], fluid, with.plan.critical_reduced_bytes);
      /* The Wormhole model's processors serve channels in turn, so a packet may be served a little earlier or later. */
      double phase = i % 2 ? 1e-4 : 1e-9;
      if (round)
        CHECK(fabs(slow - quick - more) < phase * slow, "%s, %s: %g s more, not %g", name, models[i % 2], slow - quick,
              more);
      else
        CHECK(slow > quick + more / 4 && slow < quick + more * (1 + phase), "%s, %s: %g s more", name, models[i % 2],
              slow - quick);
      double played = 0; /* bytes reduced on the critical path of the timeline */
      for (uint32_t d = with.timeline.last; d != TU_NONE; d = with.timeline.deeds[d].cause)
        if (with.timeline.deeds[d].to == TU_NONE) played += with.timeline.deeds[d].bytes;
      CHECK(test_near(played, with.plan.critical_reduced_bytes), "%s: %g bytes in the timeline", name, played);
      tu_sim_cluster_report_fini(&with);
      tu_sim_cluster_report_fini(&without);
    }
    tu_sim_destroy(sim);
    close_field(&f);
  }
}

/* In the built-in link models, reductions take time. */
static void models_charge(void) {
  static const char *const models[] = {"plain", "wormhole"};
  for (size_t i = 0; i < 2; i++) {
    struct tu_link_model model;
    struct tu_error error;
    CHECK(tu_link_model_load(models[i], &model, &error) == TUTTI_OK && model.reduce_bandwidth > 0, "%s", models[i]);
  }
}

/* Tenstorrent's multi-chip guide says: in a line, a rank gets half of the bandwidth of both directions together; in a
 * ring that uses both directions it gets nearly all of it. */
static void line_is_half(void) {
  const double bytes = 64 << 20, peak = 25e9, sent = bytes * 7 / 8;
  const struct {
    const char *cluster, *algorithm;
    double part;
  } rows[] = {{"line:8", "line", 0.5}, {"ring:8", "bidirectional_split", 1}};
  for (size_t i = 0; i < 2; i++) {
    struct field f;
    if (!open_field(&f, rows[i].cluster, "wormhole", false)) continue;
    f.where.credits = 8;
    struct tu_sim *sim = tu_sim_build(&(struct tu_build){
        .algorithm = find("allgather", rows[i].algorithm), .ranks = 8, .rank = TU_ALL_RANKS, .segments = 8});
    double speed = sent / time_of(sim, bytes, &f.where);
    printf("  %s on %s: %.1f GB/s a rank, %.0f%% of both ways' peak\n", rows[i].algorithm, rows[i].cluster, speed / 1e9,
           100 * speed / peak);
    CHECK(fabs(speed / peak - rows[i].part) < 0.1 * rows[i].part, "%g of the peak", speed / peak);
    tu_sim_destroy(sim);
    close_field(&f);
  }
}

/* Two flows through one link get half of its bandwidth each; when one ends, the other one gets all of it. */
static void flows_share(void) {
  struct field f;
  if (!open_field(&f, "line:3", "plain", false)) return;
  f.where.fluid = true;
  /* In an alltoall of 3 ranks on a line, every link carries 2 messages in each direction, all of which are ready at
   * time 0. */
  struct tu_sim *sim = graph(find("alltoall", "direct"), 3);
  const double bytes = 3e6, block = bytes / 3, half = f.model.bandwidth / 2, l = f.model.latency;
  /* The flow over one hop begins one latency before the flow over two hops; then both flows have half, until the first
   * one ends. */
  double alone = l * f.model.bandwidth, shared = (block - alone) / half;
  double rest = block - shared * half;
  double form = 2 * l + shared + rest / f.model.bandwidth;
  CHECK(test_near(time_of(sim, bytes, &f.where), form), "%.12g, expected %.12g", time_of(sim, bytes, &f.where), form);
  tu_sim_destroy(sim);
  close_field(&f);
}

/* ---- faults ---- */

static void faults(void) {
  struct field f;
  if (!open_field(&f, "ring:8", "wormhole", false)) return;
  struct tu_sim *sim = graph(find("allgather", "bucket"), 8);
  struct tu_sim_cluster_report report;
  struct tu_error error;
  const double bytes = 8 * 1024, base = time_of(sim, bytes, &f.where), late = 1e-3;
  const double lates[8] = {[3] = late};
  f.where.late = lates;
  double slow = time_of(sim, bytes, &f.where);
  CHECK(slow >= base + late * 0.99 && slow <= base + late, "a late rank: %g more", slow - base);
  f.where.late = NULL;
  /* Each message of this allgather crosses one link. The link between chips 2 and 3 is down in the middle of the
   * plan. */
  uint32_t link = tu_cluster_link_between(f.cluster, 2, 3, 0);
  const struct tu_links_down down = {link, base / 2, base / 2 + 2e-3};
  f.where.downs = &down;
  f.where.down_count = 1;
  CHECK(play(sim, bytes, &f.where, &report, &error) > base + 1.9e-3 && report.plan.time_s <= base + 2e-3,
        "a link that is down: %g more", report.plan.time_s - base);
  CHECK(report.retrained[link] == 1, "%u times", report.retrained[link]);
  tu_sim_cluster_report_fini(&report);
  f.where.downs = NULL;
  f.where.down_count = 0;
  double slowness[64];
  for (uint32_t l = 0; l < f.cluster->link_count; l++) slowness[l] = l == link ? 10 : 1;
  f.where.slowness = slowness;
  CHECK(time_of(sim, bytes, &f.where) > base * 1.2, "a slow link");
  tu_sim_destroy(sim);
  /* A single message is late by exactly the time that the link was down and retrained. */
  sim = graph(find("broadcast", "direct"), 2);
  close_field(&f);
  if (!open_field(&f, "line:2", "wormhole", false)) return;
  double one = time_of(sim, 4096, &f.where);
  const struct tu_links_down in_it = {0, one / 2, one / 2 + 5e-3 + f.model.retrain};
  f.where.downs = &in_it;
  f.where.down_count = 1;
  CHECK(test_near(time_of(sim, 4096, &f.where), one + 5e-3 + f.model.retrain), "one message");
  tu_sim_destroy(sim);
  close_field(&f);
}

static void refused(void) {
  static const struct {
    const char *cluster, *collective, *algorithm;
    uint32_t ranks, credits;
    double slot;
    const char *said;
  } rows[] = {
      {"ring:4", "allgather", "bucket", 5, 0, 0, "ring:4 has 4 chips|5 ranks"},
      {"mesh:8x8", "alltoall", "direct", 64, 0, 0, "channels|one direction|wormhole|30"},
      {"ring:4", "allgather", "bucket", 4, 4, 65536, "1 outgoing|0 incoming|4 slots|65536 B"},
      {"ring:4", "allgather", "bucket", 4, 100, 8192, "100 slots|8192 B"},
      {"n300", "allgather", "bucket", 2, 8000, 0, "8000 slots|1 B"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct field f;
    struct tu_sim_cluster_report report;
    struct tu_error error = {.text = ""};
    if (!open_field(&f, rows[i].cluster, "wormhole", false)) continue;
    struct tu_sim *sim = graph(find(rows[i].collective, rows[i].algorithm), rows[i].ranks);
    f.where.credits = rows[i].credits;
    f.where.slot_bytes = rows[i].slot;
    tutti_err err = tu_sim_run_on(sim, 1e6, &f.where, &report, &error);
    CHECK(err == TUTTI_ERR_ARGUMENT && test_contains(error.text, rows[i].said), "said '%s', expected '%s'", error.text,
          rows[i].said);
    tu_sim_destroy(sim);
    close_field(&f);
  }
}

/* ---- every algorithm on every kind of cluster ---- */

/* Returns the sum over all messages of their bytes times their hops, which is what all wires
 * together must have carried. */
static double bytes_times_hops(const struct tu_timeline *t, const struct field *f) {
  double sum = 0;
  uint32_t *nodes = tu_allocate(f->cluster->node_count, sizeof *nodes);
  for (uint32_t i = 0; i < t->deed_count; i++) {
    const struct tu_deed *d = &t->deeds[i];
    if (d->to == TU_NONE || d->to == d->rank) continue;
    const uint32_t *chip = f->where.chip;
    sum += d->bytes * tu_router_route(f->router, chip ? chip[d->rank] : d->rank, chip ? chip[d->to] : d->to, nodes);
  }
  free(nodes);
  return sum;
}

/* Checks that the critical path leads back to the start of the run without a gap. */
static void check_path(const struct tu_timeline *t, const char *what) {
  double begin = t->end;
  for (uint32_t d = t->last; d != TU_NONE; d = t->deeds[d].cause) {
    CHECK(test_near(t->deeds[d].end, begin), "%s: a gap before %g", what, begin);
    begin = t->deeds[d].begin;
  }
  CHECK(t->last == TU_NONE || begin == 0, "%s: the critical path begins at %g", what, begin);
}

static void play_one(struct field *f, const struct tu_algorithm *a, const char *cluster, const char *links) {
  uint32_t ranks = f->cluster->chip_count;
  struct tu_sim_cluster_report report;
  struct tu_error error;
  char what[160];
  struct tu_sim *sim = graph(a, ranks);
  f->where.traced = true;
  snprintf(what, sizeof what, "%s.%s on %s, %s, %s, %u credits", tu_collectives[a->collective].name, a->name, cluster,
           links, f->where.fluid ? "flows" : "packets", f->where.credits);
  if (play(sim, 4096 * ranks, &f->where, &report, &error) < 0) {
    CHECK(test_contains(error.text, "channels|one direction"), "%s: %s", what, error.text);
  } else {
    double carried = 0, crossed = 0, granule = f->model.granule;
    for (uint32_t p = 0; p < report.port_count; p++) carried += report.loads[p].bytes;
    for (uint32_t i = 0; i < report.timeline.crossing_count; i++) crossed += report.timeline.crossings[i].bytes;
    double expected = bytes_times_hops(&report.timeline, f);
    CHECK(test_near(carried, crossed), "%s: %g bytes carried, %g crossed", what, carried, crossed);
    CHECK(granule > 0 ? carried >= expected : test_near(carried, expected), "%s: %g bytes, expected %g", what, carried,
          expected);
    check_path(&report.timeline, what);
    tu_sim_cluster_report_fini(&report);
  }
  tu_sim_destroy(sim);
}

/* Tests that every run ends, also with one slot per channel: ranks never wait for each other in a circle. */
static void everything(void) {
  static const char *const clusters[] = {"t3000", "ring:8", "line:7", "mesh:2x3", "torus:3x3", "fat-tree:2x2", "n300"};
  static const char *const links[] = {"wormhole", "plain"};
  uint32_t played = 0;
  for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++)
    for (size_t l = 0; l < 2; l++) {
      struct field f;
      if (!open_field(&f, clusters[c], links[l], c % 2 == 0)) continue;
      for (size_t a = 0; a < tu_algorithm_count; a++) {
        if (!tu_algorithm_fits(tu_algorithms[a], f.cluster->chip_count)) continue;
        for (uint32_t way = 0; way < 3; way++) {
          f.where.fluid = way == 2;
          f.where.credits = way == 0 ? 1 : 0;
          f.where.slot_bytes = way == 0 ? 1000 : 0;
          play_one(&f, tu_algorithms[a], clusters[c], links[l]);
          played++;
        }
      }
      close_field(&f);
    }
  printf("  %u runs\n", played);
  CHECK(played > 2000, "only %u", played);
}

/* Tests that the graph of one rank, if it is contracted (fewer nodes) and spread (extended to all ranks), takes the
 * same time as the graph of all ranks, also on a network where ranks differ. */
static void spread(void) {
  struct field f;
  uint32_t played = 0;
  if (!open_field(&f, "torus:3x4", "wormhole", false)) return;
  for (size_t a = 0; a < tu_algorithm_count; a++) {
    if (!(tu_algorithms[a]->flags & TU_ROTATES) || !tu_algorithm_fits(tu_algorithms[a], 12)) continue;
    struct tu_sim *all = graph(tu_algorithms[a], 12),
                  *one = tu_sim_build(&(struct tu_build){.algorithm = tu_algorithms[a], .ranks = 12, .rank = 0});
    struct tu_sim *less = tu_sim_contract(one, TU_SIM_EXACT), *many = tu_sim_spread(less, 12);
    f.where.credits = 1;
    f.where.slot_bytes = 512;
    CHECK(test_near(time_of(all, 48000, &f.where), time_of(many, 48000, &f.where)), "%s", tu_algorithms[a]->name);
    tu_sim_destroy(all), tu_sim_destroy(one), tu_sim_destroy(less), tu_sim_destroy(many);
    played++;
  }
  CHECK(played >= 10, "only %u", played);
  close_field(&f);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"reductions", reductions},     {"models charge", models_charge}, {"rings", rings},
      {"line_is_half", line_is_half}, {"flows_share", flows_share},     {"faults", faults},
      {"refused", refused},           {"everything", everything},       {"spread", spread},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
