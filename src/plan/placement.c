/* placement.c: on which hosts the ranks of a plan run. */
#include "plan/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/plan.h"
#include "plan/plan_relabel.h"

static tutti_err fail_memory(struct tu_error *error, uint32_t ranks) {
  return tu_fail_memory(error, ranks * sizeof(uint32_t), "the hosts of %u ranks", ranks);
}

/* ---- creating ---- */

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* Fills in the tables of the placement. keys[i] is the host (upper half) and the rank (lower half) at position i. */
static void lay_out(struct tu_placement *p, const uint64_t *keys) {
  uint32_t h = 0;
  for (uint32_t i = 0; i < p->ranks; i++) {
    if (i > 0 && keys[i] >> 32 != keys[i - 1] >> 32) h++;
    p->end[h] = i + 1;
    if (p->order) p->order[i] = (uint32_t)keys[i];
  }
  p->each = p->end[0];
  for (h = 1; h < p->hosts; h++)
    if (p->end[h] - p->end[h - 1] != p->end[0]) p->each = 0;
}

/* Returns the number of times that the host changes from one entry to the next, plus 1. */
static uint32_t count_runs(const uint64_t *keys, uint32_t ranks) {
  uint32_t runs = 1;
  for (uint32_t i = 1; i < ranks; i++) runs += keys[i] >> 32 != keys[i - 1] >> 32;
  return runs;
}

static bool create(uint64_t *keys, uint32_t ranks, struct tu_placement **placement) {
  uint32_t runs = count_runs(keys, ranks);
  uint64_t *sorted = tu_try_allocate(ranks, sizeof *sorted);
  if (!sorted) return false;
  memcpy(sorted, keys, ranks * sizeof *sorted);
  qsort(sorted, ranks, sizeof *sorted, compare);
  uint32_t hosts = count_runs(sorted, ranks);
  bool good = hosts == 1;
  struct tu_placement *p = hosts > 1 ? tu_try_allocate(1, sizeof *p) : NULL;
  if (p) {
    *p = (struct tu_placement){.ranks = ranks, .hosts = hosts, .end = tu_try_allocate(hosts, sizeof *p->end)};
    if (runs > hosts) p->order = tu_try_allocate(ranks, sizeof *p->order);
    good = p->end && (p->order || runs == hosts);
    if (good) lay_out(p, runs > hosts ? sorted : keys);
  }
  free(sorted);
  *placement = p;
  return good;
}

tutti_err tu_placement_create(const uint32_t host[], uint32_t ranks, struct tu_placement **placement,
                              struct tu_error *error) {
  uint64_t *keys = tu_try_allocate(ranks, sizeof *keys);
  *placement = NULL;
  for (uint32_t r = 0; keys && r < ranks; r++) keys[r] = (uint64_t)host[r] << 32 | r;
  bool good = keys && create(keys, ranks, placement);
  free(keys);
  if (good) return TUTTI_OK;
  tu_placement_destroy(*placement);
  *placement = NULL;
  return fail_memory(error, ranks);
}

void tu_placement_destroy(struct tu_placement *placement) {
  if (!placement) return;
  free(placement->end);
  free(placement->order);
  free(placement);
}

/* ---- reading ---- */

/* Parses the numbers of ranks of the hosts, "4,4". Writes the host of each rank to `host`, if it is not NULL. Returns
 * the number of ranks; 0: the text is not of this form. */
static uint32_t parse_sizes(const char *text, uint32_t *host) {
  uint32_t ranks = 0, hosts = 0;
  for (const char *at = text;; at++) {
    char word[16];
    size_t length = strcspn(at, ",");
    uint64_t size;
    if (length >= sizeof word) return 0;
    memcpy(word, at, length);
    word[length] = '\0';
    if (!tu_parse_uint(word, TU_RANKS_MAX, &size) || size == 0 || ranks + size > TU_RANKS_MAX) return 0;
    for (uint64_t i = 0; host && i < size; i++) host[ranks + i] = hosts;
    ranks += (uint32_t)size;
    hosts++;
    at += length;
    if (!*at) return ranks;
  }
}

/* Parses one letter per rank, "abab", like parse_sizes. */
static uint32_t parse_letters(const char *text, uint32_t *host) {
  uint32_t ranks = 0;
  for (; text[ranks]; ranks++) {
    char letter = text[ranks];
    if (ranks == TU_RANKS_MAX || !((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))) return 0;
    if (host) host[ranks] = (uint32_t)letter;
  }
  return ranks;
}

tutti_err tu_placement_read(const char *text, uint32_t *ranks, struct tu_placement **placement,
                            struct tu_error *error) {
  uint32_t (*parse)(const char *text, uint32_t *host) = parse_sizes(text, NULL) > 0 ? parse_sizes : parse_letters;
  *placement = NULL;
  *ranks = parse(text, NULL);
  if (*ranks == 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "expected the numbers of ranks of the hosts (4,4) or a letter per rank, which names its host "
                   "(abab), found '%.64s'",
                   text);
  uint32_t *host = tu_try_allocate(*ranks, sizeof *host);
  if (!host) return fail_memory(error, *ranks);
  parse(text, host);
  tutti_err err = tu_placement_create(host, *ranks, placement, error);
  free(host);
  return err;
}

/* ---- using ---- */

const struct tu_placement *tu_placement_for(const struct tu_placement *placement, tutti_collective collective,
                                            bool rank_order) {
  if (!placement || !placement->order) return placement;
  return rank_order || !tu_plan_may_relabel(collective) ? NULL : placement;
}

uint32_t tu_placement_host(const struct tu_placement *placement, uint32_t position) {
  uint32_t low = 0, high = placement->hosts - 1;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (position < placement->end[middle]) high = middle;
    else low = middle + 1;
  }
  return low;
}
