/* tune_choose.c: makes selection rules from measured times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tune.h"
#include "cli/units.h"

/* Minimum noise of a measured time, relative to the time. Smaller differences are not reproducible from run to run,
 * even if the measurements of one run agree. */
static const double NOISE_PART = 0.05;

static uint32_t fastest(const struct tune_table *t, uint32_t size) {
  uint32_t best = 0;
  for (uint32_t k = 1; k < t->candidate_count; k++)
    if (t->candidates[k].time_us[size] < t->candidates[best].time_us[size]) best = k;
  return best;
}

/* Returns true if, at this size, the time of candidate k is within the noise of the fastest candidate's time. */
static bool is_good(const struct tune_table *t, uint32_t k, uint32_t size) {
  const struct tune_candidate *c = &t->candidates[k], *best = &t->candidates[fastest(t, size)];
  double noise = fmax(c->noise_us[size] + best->noise_us[size], NOISE_PART * best->time_us[size]);
  return c->time_us[size] - best->time_us[size] <= noise;
}

/* Returns a sum over the sizes [first, end): candidate k's time divided by the fastest candidate's time. */
static double slowness(const struct tune_table *t, uint32_t k, uint32_t first, uint32_t end) {
  double sum = 0;
  for (uint32_t size = first; size < end; size++)
    sum += t->candidates[k].time_us[size] / t->candidates[fastest(t, size)].time_us[size];
  return sum;
}

/* Chooses greedily: from each size on, chooses the candidate that stays within the noise of the fastest for the most
 * sizes. No other choice needs fewer rules. */
void tune_choose(const struct tune_table *t, uint32_t *choices) {
  for (uint32_t first = 0, end; first < t->size_count; first = end) {
    uint32_t choice = 0;
    end = first;
    for (uint32_t k = 0; k < t->candidate_count; k++) {
      uint32_t until = first;
      while (until < t->size_count && is_good(t, k, until)) until++;
      if (until < end || until == first) continue;
      if (until == end && slowness(t, k, first, end) >= slowness(t, choice, first, end)) continue;
      choice = k;
      end = until;
    }
    /* the fastest candidate is always within the noise, so it covers at least the size `first` */
    tu_assert(end > first);
    for (uint32_t size = first; size < end; size++) choices[size] = choice;
  }
}

/* ---- writing ---- */

enum { COMMENT_COLUMN = 60 };

/* Returns a round number near the geometric mean of the measured sizes low < high: at least low, and below high. */
static size_t boundary(size_t low, size_t high) {
  if (low == 0) return 0; /* for low == 0, the range contains only size 0, and ends at 0 bytes */
  double middle = sqrt((double)low * (double)high);
  size_t power = 1;
  while (power <= SIZE_MAX / 4 && (double)power * 2 <= middle) power *= 2;
  size_t near = middle < 1.25 * (double)power ? power : middle < 1.75 * (double)power ? power + power / 2 : power * 2;
  return tu_max(low, tu_min(near, high - 1));
}

static void write_times(const struct tune_table *t, struct tu_text *text) {
  int width = 28;
  for (uint32_t k = 0; k < t->candidate_count; k++)
    width = (int)tu_max((size_t)width, strlen(t->candidates[k].algorithm->name));
  tu_text_print(text, "\n# %s, microseconds by size:\n# %-*s", tu_collectives[t->collective].name, width, "");
  for (uint32_t size = 0; size < t->size_count; size++)
    tu_text_print(text, " %9s", units_bytes((double)t->sizes[size]).chars);
  tu_text_print(text, "\n");
  for (uint32_t k = 0; k < t->candidate_count; k++) {
    tu_text_print(text, "# %-*s", width, t->candidates[k].algorithm->name);
    for (uint32_t size = 0; size < t->size_count; size++) tu_text_print(text, " %9.2f", t->candidates[k].time_us[size]);
    tu_text_print(text, "\n");
  }
}

/* The sizes for which one rule is written: those with indices first to end - 1. */
struct range {
  uint32_t first, end;
  size_t bytes_max;
};

static void write_rule(const struct tune_table *t, uint32_t k, struct range range, struct tu_text *text) {
  const struct tune_candidate *c = &t->candidates[k];
  const uint32_t hosts = t->placement ? t->placement->hosts : 1;
  const struct tu_rule rule = {.collective = t->collective,
                               .ranks_min = t->ranks,
                               .ranks_max = t->ranks,
                               .hosts_min = hosts,
                               .hosts_max = hosts,
                               .groups_min = 1,
                               .groups_max = TU_RANKS_MAX,
                               .share_min = 1,
                               .share_max = TU_RANKS_MAX,
                               .orders = TU_FOR_CANONICAL | (t->canonical ? 0 : TU_FOR_ANY),
                               .bytes_max = range.bytes_max,
                               .algorithm = c->algorithm};
  size_t begin = text->length;
  tu_rule_write(&rule, text);
  while (text->length < begin + COMMENT_COLUMN) tu_text_print(text, " ");
  tu_text_print(text, "  # %.2f", c->time_us[range.first]);
  if (range.end - range.first > 1) tu_text_print(text, " to %.2f", c->time_us[range.end - 1]);
  tu_text_print(text, " us\n");
}

static bool has_vector_variant(tutti_collective family) {
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c))
    if (tu_collectives[c].family == family && tu_collectives[c].vector) return true;
  return false;
}

/* Among the candidates that support the calls `wanted`, returns the fastest one in the range of sizes; candidate_count
 * if none supports them. */
static uint32_t find_substitute(const struct tune_table *t, const struct tu_wanted *wanted, struct range range) {
  const char *why;
  uint32_t found = t->candidate_count;
  double least = 0;
  for (uint32_t k = 0; k < t->candidate_count; k++) {
    double slow = slowness(t, k, range.first, range.end);
    if (!tu_algorithm_serves(t->candidates[k].algorithm, wanted, &why)) continue;
    if (found < t->candidate_count && slow >= least) continue;
    found = k;
    least = slow;
  }
  return found;
}

/* Writes a rule for the chosen candidate. Then writes rules for other candidates, for the calls that the chosen
 * candidate does not support. */
static void write_range(const struct tune_table *t, uint32_t choice, struct range range, struct tu_text *text) {
  /* Candidates that got a rule: the chosen one, and at most one for each of three kinds of calls. These are calls that
   * need results in rank order, calls with blocks of any size, and calls with both. */
  uint32_t written[4], count = 0;
  bool ordered = tu_reduces(t->collective), unequal = has_vector_variant(t->collective);
  written[count++] = choice;
  write_rule(t, choice, range, text);
  for (unsigned need = 1; need < 4; need++) {
    const struct tu_wanted wanted = {.collective = t->collective,
                                     .ranks = t->ranks,
                                     .rank_order = need & 1,
                                     .canonical = t->canonical,
                                     .any_blocks = need & 2,
                                     .placement = t->placement};
    if ((wanted.rank_order && !ordered) || (wanted.any_blocks && !unequal)) continue;
    const char *why;
    bool served = false;
    for (uint32_t i = 0; i < count; i++)
      served |= tu_algorithm_serves(t->candidates[written[i]].algorithm, &wanted, &why);
    uint32_t substitute = served ? t->candidate_count : find_substitute(t, &wanted, range);
    if (substitute == t->candidate_count) continue;
    written[count++] = substitute;
    write_rule(t, substitute, range, text);
  }
}

void tune_write(const struct tune_table *t, const uint32_t *choices, struct tu_text *text) {
  write_times(t, text);
  for (struct range range = {0}; range.first < t->size_count; range.first = range.end) {
    range.end = range.first + 1;
    while (range.end < t->size_count && choices[range.end] == choices[range.first]) range.end++;
    range.bytes_max = range.end < t->size_count ? boundary(t->sizes[range.end - 1], t->sizes[range.end]) : SIZE_MAX;
    write_range(t, choices[range.first], range, text);
  }
}

static void write_candidate(const struct tune_table *t, const struct tune_candidate *c, struct json *j) {
  json_open(j, NULL, JSON_OBJECT);
  json_text(j, "algorithm", c->algorithm->name);
  json_open(j, "time_us", JSON_LIST);
  for (uint32_t size = 0; size < t->size_count; size++) json_number(j, NULL, c->time_us[size]);
  json_close(j, JSON_LIST);
  json_open(j, "noise_us", JSON_LIST);
  for (uint32_t size = 0; size < t->size_count; size++) json_number(j, NULL, c->noise_us[size]);
  json_close(j, JSON_LIST);
  json_close(j, JSON_OBJECT);
}

void tune_write_json(const struct tune_table *t, const uint32_t *choices, struct json *j) {
  json_line(j);
  json_open(j, NULL, JSON_OBJECT);
  json_text(j, "collective", tu_collectives[t->collective].name);
  json_open(j, "bytes", JSON_LIST);
  for (uint32_t size = 0; size < t->size_count; size++) json_count(j, NULL, t->sizes[size]);
  json_close(j, JSON_LIST);
  json_open(j, "chosen", JSON_LIST);
  for (uint32_t size = 0; size < t->size_count; size++)
    json_text(j, NULL, t->candidates[choices[size]].algorithm->name);
  json_close(j, JSON_LIST);
  json_open(j, "candidates", JSON_LIST);
  for (uint32_t k = 0; k < t->candidate_count; k++) write_candidate(t, &t->candidates[k], j);
  json_close(j, JSON_LIST);
  json_close(j, JSON_OBJECT);
}
