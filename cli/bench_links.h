/* bench_links.h: `tutti bench links`: the microbenchmarks of a link, on channels between real processes. */
#ifndef CLI_BENCH_LINKS_H
#define CLI_BENCH_LINKS_H

#include <tutti/channel.h>

#include "bench.h"
#include "sim/derive.h"

enum { LINKS_COUNTS_MAX = 16, LINKS_CHANNELS_MAX = 30, LINKS_HOPS_MAX = 1024 };

struct links_bench {
  size_t sizes[BENCH_SIZES_MAX], ping_sizes[BENCH_SIZES_MAX];
  uint32_t size_count, ping_size_count;
  uint32_t counts[LINKS_COUNTS_MAX]; /* of channels each way */
  uint32_t count_count;
  uint32_t slots, time_ms;
  bool separate_flag;
  tutti_comm *world;
  uint32_t rank, ranks;
};

/* ---- measuring (bench_links_measure.c). All ranks call; rank 0 has the figures. An error is everybody's: its sentence is at
 * tutti_error_message(NULL). ---- */

/* Ranks 0 and 1: messages of every size on every number of channels each way, both ways at once. */
tutti_err links_measure_bandwidth(const struct links_bench *b, struct tu_wire_figures *f);
/* All ranks, a ring: one message a channel goes round. */
tutti_err links_measure_pings(const struct links_bench *b, struct tu_wire_figures *f);
/* Ranks 0 and 1: one message there, a short one back, and when what happened. */
tutti_err links_measure_trips(const struct links_bench *b, struct tu_wire_figures *f);

/* ---- playing (bench_links_sim.c): the same figures of links of that model, and of a ring of b->ranks chips ---- */
struct tu_link_model;
void links_simulate(const struct links_bench *b, const struct tu_link_model *model, struct tu_wire_figures *f);

/* ---- printing (bench_links.c): measured or simulated ---- */
void links_print(const struct tu_wire_figures *f, bool json);

#endif
