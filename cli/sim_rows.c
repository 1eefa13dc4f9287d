/* sim_rows.c: `tutti sim --rows FILE`: compares a link model with measurements. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/sim_cluster.h"
#include "sim/link_rows.h"

/* The result of the comparison: counts and largest errors. Each array is indexed by what a row of the file is used for
 * (enum tu_row_use). */
struct verdict {
  uint32_t rows[3], off[3]; /* number of rows, and number of rows outside their tolerance */
  double worst[3];          /* largest value of (error of a row) / (tolerance of the row) */
};

static bool is_speed(const struct tu_link_row *row) { return row->kind >= TU_ROW_BANDWIDTH; }

static void print_row_json(const struct tu_link_row *row, double played, uint32_t channels) {
  const double unit = is_speed(row) ? 1e9 : 1e-9;
  struct json j = {0};
  json_begin(&j, "sim");
  json_text(&j, "benchmark", tu_row_kinds[row->kind]);
  json_text(&j, "part", row->kind == TU_ROW_ROUND_TRIP ? tu_row_parts[row->part] : "");
  json_number(&j, "bytes", row->bytes);
  json_count(&j, "channels", channels);
  json_count(&j, "hops", row->hops);
  json_text(&j, "unit", is_speed(row) ? "GB/s" : "ns");
  json_number(&j, "measured", row->value / unit);
  json_number(&j, "simulated", played / unit);
  json_number(&j, "bound", row->bound / unit);
  json_text(&j, "use", tu_row_uses[row->use]);
  json_end(&j);
}

static void print_row(const struct tu_link_row *row, double played, uint32_t channels) {
  double unit = is_speed(row) ? 1e9 : 1e-9, percent = 100 * (played / row->value - 1);
  const char *what = row->kind == TU_ROW_ROUND_TRIP ? tu_row_parts[row->part] : "";
  printf("| %s%s%s | %.0f | %u | %u | %.*f %s | %.*f | %+.1f%% | %s |\n", tu_row_kinds[row->kind], *what ? " " : "",
         what, row->bytes, channels, row->hops, is_speed(row) ? 2 : 0, row->value / unit, is_speed(row) ? "GB/s" : "ns",
         is_speed(row) ? 2 : 0, played / unit, percent, tu_row_uses[row->use]);
}

static int judge(const struct verdict *v, const char *links) {
  for (int u = 0; u < 3; u++)
    if (v->rows[u] > 0 && u != TU_ROW_REPORTED)
      fprintf(stderr, "%s: %u rows, %u outside their tolerance; the largest error is %.0f%% of its tolerance\n",
              tu_row_uses[u], v->rows[u], v->off[u], 100 * v->worst[u]);
  uint32_t off = v->off[TU_ROW_FIT] + v->off[TU_ROW_HELD];
  return off == 0
             ? CLI_GOOD
             : cli_fail("sim", CLI_FAILED,
                        "%s: %u measured rows differ from the simulation by more than their tolerance", links, off);
}

int sim_rows(const char *path, const char *links, bool json) {
  struct tu_error error;
  struct tu_link_model model;
  struct tu_link_row *rows;
  struct verdict v = {.rows = {0}};
  uint32_t count;
  char *data;
  size_t bytes;
  if (tu_read_file(path, &data, &bytes, &error) != TUTTI_OK) return cli_fail("sim", CLI_USAGE, "%s", error.text);
  tutti_err err = tu_link_rows_read(data, bytes, path, &rows, &count, &error);
  free(data);
  if (err != TUTTI_OK) return cli_fail("sim", CLI_FAILED, "%s", error.text);
  if (tu_link_model_load(links, &model, &error) != TUTTI_OK) {
    free(rows);
    return cli_fail("sim", CLI_FAILED, "%s", error.text);
  }
  if (!json)
    printf(
        "| benchmark | bytes | channels | hops | measured | simulated | off by | use "
        "|\n|---|---|---|---|---|---|---|---|\n");
  for (uint32_t i = 0; i < count; i++) {
    uint32_t channels;
    double played = tu_link_row_play(&rows[i], &model, &channels), off = fabs(played - rows[i].value) / rows[i].bound;
    if (json) print_row_json(&rows[i], played, channels);
    else print_row(&rows[i], played, channels);
    v.rows[rows[i].use]++;
    if (rows[i].use == TU_ROW_REPORTED) continue;
    v.off[rows[i].use] += off > 1;
    v.worst[rows[i].use] = fmax(v.worst[rows[i].use], off);
  }
  free(rows);
  return judge(&v, links);
}
