/* tune.h: `tutti tune`, in pieces: measuring the algorithms of a collective, and choosing among them. */
#ifndef CLI_TUNE_H
#define CLI_TUNE_H

#include "algo/tuning.h"
#include "base/text.h"
#include "bench.h"

enum { TUNE_ROUNDS = 5 };

/* What was measured of one algorithm, at each size. */
struct tune_candidate {
  const struct tu_algorithm *algorithm;
  double *time_us;  /* [size_count]: the median of the rounds */
  double *noise_us; /* [size_count]: half of what the middle half of the rounds spans */
};

struct tune_table {
  tutti_collective collective; /* a family */
  uint32_t ranks;
  size_t *sizes; /* [size_count], ascending */
  uint32_t size_count;
  struct tune_candidate *candidates; /* [candidate_count] */
  uint32_t candidate_count;
};

/* All that serve so many ranks, not yet measured; perhaps none. */
void tune_table_init(struct tune_table *t, const struct bench_options *options, tutti_collective collective,
                     uint32_t ranks);
void tune_table_fini(struct tune_table *t);

/* Measures all of it (tune_measure.c). Called by all ranks alike; false: failed, and it has said why. */
bool tune_measure(struct bench_side *side, const struct bench_options *options, struct tune_table *t);

/* ---- tune_choose.c ---- */

/* Which candidate for each size: within the noise of the fastest, and changing as rarely as that allows. */
void tune_choose(const struct tune_table *t, uint32_t *choices);
/* The rules for these choices, and the times as comments. Where the choice cannot serve every call, the fastest that can
 * follows. */
void tune_write(const struct tune_table *t, const uint32_t *choices, struct tu_text *text);

#endif
