/* bench_links_sim.c: `tutti bench links --links MODEL`: the figures of simulated links. */
#include "cli/bench/bench_links.h"
#include "sim/link_bench.h"

enum { MESSAGES = 128 };

static void play_bandwidths(const struct links_bench *b, const struct tu_link_model *model, struct tu_wire_figures *f) {
  struct tu_error error;
  for (uint32_t s = 0; s < b->size_count; s++)
    for (uint32_t c = 0; c < b->count_count; c++) {
      double bytes = (double)b->sizes[s];
      bool fits = tu_link_fits(model, b->counts[c], b->counts[c], bytes, 1, &error) == TUTTI_OK;
      f->bandwidths[f->bandwidth_count++] =
          (struct tu_wire_bandwidth){.bytes = b->sizes[s],
                                     .channels = b->counts[c],
                                     .gbs = fits ? tu_link_bandwidth(model, bytes, b->counts[c], MESSAGES) / 1e9 : 0};
    }
}

/* Simulates messages round a ring: every size with the first number of channels, and the first size with each other
 * number of channels. */
static void play_pings(const struct links_bench *b, const struct tu_link_model *model, struct tu_wire_figures *f) {
  struct tu_error error;
  for (uint32_t c = 0; c < b->count_count; c++)
    for (uint32_t s = 0; s < (c == 0 ? b->ping_size_count : 1); s++) {
      double bytes = (double)b->ping_sizes[s];
      if (tu_link_fits(model, b->counts[c], 0, bytes, 1, &error) != TUTTI_OK) continue;
      double ns = 1e9 * tu_link_ring_ping(model, bytes, b->counts[c], b->ranks, b->separate_flag);
      f->pings[f->ping_count++] = (struct tu_wire_ping){
          .bytes = b->ping_sizes[s], .hops = b->ranks, .channels = b->counts[c], .ns = ns, .ns_min = ns};
    }
}

static void play_trip(const struct tu_link_model *model, size_t bytes, struct tu_wire_figures *f) {
  struct tu_link_round_trip t;
  tu_link_round_trip(model, (double)bytes, &t);
  f->trips[f->trip_count++] = (struct tu_wire_trip){.bytes = bytes,
                                                    .full_ns = 1e9 * t.full,
                                                    .acks_ns = 1e9 * t.ack_wait,
                                                    .receiver_ns = 1e9 * t.receiver,
                                                    .issue_ns = 1e9 * t.issue,
                                                    .answer_ns = 1e9 * (model->respond + model->timer)};
}

void links_simulate(const struct links_bench *b, const struct tu_link_model *model, struct tu_wire_figures *f) {
  play_bandwidths(b, model, f);
  play_pings(b, model, f);
  for (uint32_t s = 0; s < b->ping_size_count; s++) play_trip(model, b->ping_sizes[s], f);
  for (uint32_t s = 0; s < b->size_count; s++)
    if (b->sizes[s] > b->ping_sizes[b->ping_size_count - 1]) play_trip(model, b->sizes[s], f);
  tu_wire_complete(f);
}
