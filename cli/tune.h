/* tune.h: `tutti tune`: measures the algorithms of a collective and chooses among them. */
#ifndef CLI_TUNE_H
#define CLI_TUNE_H

#include "algo/tuning.h"
#include "base/text.h"
#include "cli/bench/bench.h"
#include "cli/json.h"

enum { TUNE_ROUNDS = 5 };

/* The time for all measurements. A size may take a part of what is left, and so the whole time is kept, on a busy
 * machine, too, if each algorithm can run a few times at each size. */
struct tune_budget {
  double begun, seconds; /* when the measurements began, on this rank's clock, and how long they may take, in s */
  double planned, spent; /* sums of tune_table.planned_s: of all sizes, and of the sizes that are done */
  uint32_t sizes, sizes_done;
};

/* The measured times of one algorithm, for each size. */
struct tune_candidate {
  const struct tu_algorithm *algorithm;
  double *time_us;  /* median of the rounds for each size, in us; array of size_count */
  double *noise_us; /* half of the interquartile range of the rounds for each size, in us; array of size_count */
};

struct tune_table {
  tutti_collective collective; /* the collective; not a variant such as allgatherv */
  uint32_t ranks;
  bool canonical;                       /* for calls in the canonical order */
  const struct tu_placement *placement; /* the hosts of the ranks; NULL: one host */
  size_t *sizes;                        /* ascending sizes in bytes; array of size_count */
  uint32_t size_count;
  double *planned_s;                 /* time for each size, in s, the same on all ranks; array of size_count */
  struct tune_candidate *candidates; /* the algorithms to choose from; array of candidate_count */
  uint32_t candidate_count;
};

/* Initializes the table with the algorithms that support `ranks` ranks on the hosts of options->placement; there may be
 * none. Nothing is measured yet. */
void tune_table_init(struct tune_table *t, const struct bench_options *options, tutti_collective collective,
                     uint32_t ranks);
void tune_table_fini(struct tune_table *t);

/* Plans how long the sizes take, by a few samples at the smallest and the largest size. Measures all algorithms at all
 * sizes within the budget, and tells the progress. All ranks must call. On failure print the reason and return
 * false. */
bool tune_plan(struct bench_side *side, const struct bench_options *options, struct tune_table *t);
bool tune_measure(struct bench_side *side, const struct bench_options *options, struct tune_table *t,
                  struct tune_budget *budget);

/* ---- choosing among the algorithms (tune_choose.c) ---- */

/* Chooses a candidate (algorithm) for each size. The candidate's time is within the noise of the fastest time, and the
 * choice changes between sizes as rarely as possible. */
void tune_choose(const struct tune_table *t, uint32_t *choices);
/* Writes the selection rules for the chosen candidates, with the measured times as comments. If a chosen algorithm does
 * not support every call, the next rule names the fastest candidate that does. */
void tune_write(const struct tune_table *t, const uint32_t *choices, struct tu_text *text);
/* Writes the measured times and the chosen candidates as an item of a list. */
void tune_write_json(const struct tune_table *t, const uint32_t *choices, struct json *j);

#endif
