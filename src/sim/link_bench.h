/* link_bench.h: simulated microbenchmarks of one link: bandwidth, pings and round trips, as Tenstorrent's multi-chip
 * guide measured them on real links. Times are in seconds, speeds in bytes per second. */
#ifndef TU_LINK_BENCH_H
#define TU_LINK_BENCH_H

#include "sim/link_model.h"

/* Returns the sum of the bandwidths of both directions when the two ends of a link send to each other at the same
 * time. Each direction has `channels` channels with one slot each, and sends `messages` messages per channel. */
double tu_link_bandwidth(const struct tu_link_model *model, double bytes, uint32_t channels, uint32_t messages);
/* Returns the best bandwidth over all numbers of channels that the model's limits allow. *channels: the number of
 * channels with this bandwidth. */
double tu_link_best_bandwidth(const struct tu_link_model *model, double bytes, uint32_t messages, uint32_t *channels);
/* Returns the sum of the bandwidths of both directions, as tu_link_bandwidth does. But each channel has `slots` slots,
 * and workers (other processors of the chip) fill and empty them over the chip's own network. */
double tu_link_mover_bandwidth(const struct tu_link_model *model, double bytes, uint32_t channels, uint32_t slots,
                               uint32_t messages);
/* Sends one message on each channel at time 0, on a trip round a ring of `hops` links. Returns the time at which the
 * last one is back. flags: true if each message is followed by a separate flag that announces it. */
double tu_link_ring_ping(const struct tu_link_model *model, double bytes, uint32_t channels, uint32_t hops, bool flags);

/* The times, in seconds, of a round trip on one link, as measured by the clocks at the link's two ends. */
struct tu_link_round_trip {
  double full;     /* time at the sender, from the start of the message until the answer has arrived */
  double ack_wait; /* part of `full` during which the sender only waits for the answer */
  double receiver; /* time at the receiver, from the end of one message to the end of the next message */
  /* time of one direction, without the work at the two ends and without the time of the bytes (bytes / bandwidth) */
  double wire;
  /* time of one direction, with the work at the two ends, but without the time of the bytes (bytes / bandwidth) */
  double one_hop;
  double issue; /* time that the sender needs to start the send */
};
void tu_link_round_trip(const struct tu_link_model *model, double bytes, struct tu_link_round_trip *parts);

#endif
