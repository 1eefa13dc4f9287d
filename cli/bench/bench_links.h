/* bench_links.h: `tutti bench links`: the microbenchmarks of a link, measured on channels between processes or
 * simulated. */
#ifndef CLI_BENCH_LINKS_H
#define CLI_BENCH_LINKS_H

#include <tutti/channel.h>

#include "cli/bench/bench.h"
#include "sim/derive.h"

enum { LINKS_COUNTS_MAX = 16, LINKS_CHANNELS_MAX = 30, LINKS_HOPS_MAX = 1024 };

struct links_bench {
  size_t sizes[BENCH_SIZES_MAX], ping_sizes[BENCH_SIZES_MAX];
  uint32_t size_count, ping_size_count;
  uint32_t counts[LINKS_COUNTS_MAX]; /* numbers of channels in each direction */
  uint32_t count_count;
  uint32_t slots, time_ms;
  bool separate_flag;
  tutti_comm *world;
  uint32_t rank, ranks;
};

/* ---- measuring (bench_links_measure.c) ---- The functions are collective; rank 0 prints the figures. If a function
 * fails, it returns the same error on all ranks; tutti_error_message(NULL) returns the message. */

/* Measures bandwidth between ranks 0 and 1, in both directions at once, for each size and number of channels. */
tutti_err links_measure_bandwidth(const struct links_bench *b, struct tu_wire_figures *f);
/* Measures the time in which one message per channel passes round the ring of all ranks. */
tutti_err links_measure_pings(const struct links_bench *b, struct tu_wire_figures *f);
/* Measures the round trip between ranks 0 and 1 (one message and a short reply), and the times of its parts. */
tutti_err links_measure_trips(const struct links_bench *b, struct tu_wire_figures *f);

/* ---- simulation (bench_links_sim.c) ---- */

struct tu_link_model;
/* Computes all figures by simulation, for links of the model and a ring of b->ranks chips. */
void links_simulate(const struct links_bench *b, const struct tu_link_model *model, struct tu_wire_figures *f);

/* ---- printing (bench_links.c): measured or simulated ---- */
void links_print(const struct tu_wire_figures *f, bool json);

#endif
