/* sim_graph_text_test.c: tests the text of graphs, line by line, and flows that share a link by latency.
 * tests/simgrid_test.sh runs such texts in another simulator. */
#include <math.h>

#include "plan/plan.h"
#include "sim/sim_cluster.h"
#include "test.h"

/* A link model with simple numbers: links have 1 s latency and 1 byte per second; reductions take 1 s per 2 bytes. */
static const char links[] =
    "bandwidth 1 B/s\nlatency 1 s\nreduce_bandwidth 2 B/s\nnoc_latency 3 s\nnoc_bandwidth 4 B/s\n";

struct field {
  struct tu_cluster *cluster;
  struct tu_grid grid;
  struct tu_router *router;
  struct tu_link_model model;
  struct tu_sim *sim;
  struct tu_sim_where where;
};

static bool open_field(struct field *f, const char *cluster, const char *model, const char *steps) {
  struct tu_error error;
  struct tu_text text = {0};
  struct tu_plan *plan;
  *f = (struct field){.cluster = NULL};
  tu_text_print(&text, "tutti-plan 1\ncollective alltoall\nalgorithm test\nranks 4\nroot 0\nsplit 1\n");
  tu_text_print(&text, "in_place no\nequal_blocks no\nrank_order no\n%s", steps);
  tutti_err err = tu_plan_read(text.chars, text.length, "test", &plan, &error);
  tu_text_fini(&text);
  if (err == TUTTI_OK) {
    f->sim = tu_sim_create(plan);
    tu_plan_destroy(plan);
    err = tu_cluster_load(cluster, &f->cluster, &error);
  }
  if (err == TUTTI_OK) err = tu_link_model_read(model, strlen(model), "test", &f->model, &error);
  if (err == TUTTI_OK) {
    tu_grid_find(f->cluster, &f->grid);
    err = tu_router_create(f->cluster, &f->grid, TU_SHORTEST, &f->router, &error);
  }
  CHECK(err == TUTTI_OK, "%s", error.text);
  f->where = (struct tu_sim_where){.cluster = f->cluster, .router = f->router, .model = &f->model, .fluid = true};
  return err == TUTTI_OK;
}

static void close_field(struct field *f) {
  tu_sim_destroy(f->sim);
  tu_router_destroy(f->router);
  tu_grid_fini(&f->grid);
  tu_cluster_destroy(f->cluster);
}

/* Checks the text of the graph for a collective of 32 bytes, whose chunks have 8 bytes. */
static void expect_text(const struct field *f, const char *what, const char *expected) {
  struct tu_text text = {0};
  struct tu_error error;
  tutti_err err = tu_sim_graph_text(f->sim, 32, &f->where, &text, &error);
  CHECK(err == TUTTI_OK && strcmp(text.chars, expected) == 0, "%s: %s, expected\n%s", what,
        err == TUTTI_OK ? text.chars : error.text, expected);
  tu_text_fini(&text);
}

/* Rank 0 sends two messages to rank 1 on one FIFO, and one message to rank 2, two hops away. The second message
 * consists of two joined sends. Rank 1 reduces the first message. */
static const char some_steps[] =
    "rank 0\n0: send in[0] to 1\n1: send in[1] to 1\n2: send in[2] to 1 joined\n3: send in[3] to 2\n"
    "rank 1\n0: recv_reduce in[0] + @0 into out[0]\n1: recv from 0 into out[1]\n2: recv from 0 joined into out[2]\n"
    "rank 2\n0: recv from 0 into out[3]\nrank 3";
#define SOME_NODES                                                                                     \
  "message 0 0 1 8 0\nmessage 1 0 1 16 0\nmessage 2 0 2 8 0 2\nreduce 3 1 4\nstep 4\nstep 5\nstep 6\n" \
  "then 0 3\nbehind 0 1\nthen 1 5 4\nthen 2 6\n"

static void texts(void) {
  struct field f;
  if (!open_field(&f, "line:4", links, some_steps)) return;
  expect_text(&f, "a graph", "graph 1\nlink 0 1 1\nlink 2 1 1\n" SOME_NODES);
  const double slowness[] = {1, 4, 1}, late[] = {0, 2.5, 0, 0};
  f.where.slowness = slowness;
  expect_text(&f, "a slow link", "graph 1\nlink 0 1 1\nlink 2 0.25 1\n" SOME_NODES);
  f.where.slowness = NULL;
  f.where.late = late;
  expect_text(&f, "a late rank",
              "graph 1\nlink 0 1 1\nlink 2 1 1\n" SOME_NODES "delay 8 2.5\nthen 8 3\nthen 8 4\nthen 8 5\n");
  f.where.late = NULL;
  /* Ranks 0 and 1 are on one chip: their messages cross the chip's own network, which has 3 s latency and 4 bytes per
   * second. */
  const uint32_t chips[] = {1, 1, 0, 0};
  f.where.chip = chips;
  expect_text(&f, "on one chip",
              "graph 1\nlink 1 1 1\ndelay 0 5\ndelay 1 7\nmessage 2 0 2 8 1\nreduce 3 1 4\nstep 4\nstep 5\nstep 6\n"
              "then 0 3\nbehind 0 1\nthen 1 5 4\nthen 2 6\n");
  close_field(&f);
  /* If arithmetic takes no time, a reduction is written as a plain step. */
  if (open_field(&f, "line:4", "bandwidth 1 B/s", some_steps))
    expect_text(&f, "free reductions",
                "graph 1\nlink 0 1 0\nlink 2 1 0\nmessage 0 0 1 8 0\nmessage 1 0 1 16 0\nmessage 2 0 2 8 0 2\nstep 3\n"
                "step 4\nstep 5\nstep 6\nthen 0 3\nbehind 0 1\nthen 1 5 4\nthen 2 6\n");
  close_field(&f);
}

static void refused(void) {
  static const char *const clusters[] = {"line:3", "n300"}, *const facts[] = {"line:3|3 chips|4 ranks",
                                                                              "n300|2 chips|4 ranks"};
  for (size_t i = 0; i < 2; i++) {
    struct field f;
    if (!open_field(&f, clusters[i], links, some_steps)) continue;
    struct tu_text text = {0};
    struct tu_error error = {.text = ""};
    tutti_err err = tu_sim_graph_text(f.sim, 32, &f.where, &text, &error);
    CHECK(err == TUTTI_ERR_ARGUMENT && test_contains(error.text, facts[i]), "%s: %s", clusters[i], error.text);
    CHECK(text.length == 0, "%s: there is text: %s", clusters[i], text.chars);
    tu_text_fini(&text);
    close_field(&f);
  }
}

/* Rank 0 sends 12 bytes to rank 1 over one link and 12 bytes to rank 2 over two links; then rank 1 answers. Computed by
 * hand: the first message flows from 1 s on, the second one from 2 s on, when 11 bytes of the first are left. */
static void shares(void) {
  static const char steps[] =
      "rank 0\n0: send in[0] to 1\n1: send in[1] to 2\n2: recv from 1 into out[0]\n"
      "rank 1\n0: recv from 0 into out[0]\n1: send out[0] to 0 after 0\n"
      "rank 2\n0: recv from 0 into out[1]\nrank 3";
  static const struct {
    const char *what, *model;
    bool by_latency;
    double time_s;
  } rows[] = {
      {"fair: half each until 24 s; 13 s for the answer", "bandwidth 1 B/s\nlatency 1 s", false, 37},
      {"by latency: 2/3 and 1/3 until 18.5 s", "bandwidth 1 B/s\nlatency 1 s", true, 31.5},
      {"without latency all are alike", "bandwidth 1 B/s", true, 36},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct field f;
    if (!open_field(&f, "line:4", rows[i].model, steps)) continue;
    struct tu_sim_cluster_report r;
    struct tu_error error;
    f.where.by_latency = rows[i].by_latency;
    tutti_err err = tu_sim_run_on(f.sim, 48, &f.where, &r, &error);
    CHECK(err == TUTTI_OK, "%s: %s", rows[i].what, error.text);
    if (err == TUTTI_OK) {
      CHECK(fabs(r.plan.time_s - rows[i].time_s) < 1e-9, "%s: %.12g s, expected %g", rows[i].what, r.plan.time_s,
            rows[i].time_s);
      tu_sim_cluster_report_fini(&r);
    }
    close_field(&f);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"texts", texts}, {"refused", refused}, {"shares", shares}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
