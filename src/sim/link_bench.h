/* link_bench.h: microbenchmarks of one kind of link, played: those that the multi-chip guide measured on real ones, and the
 * data mover with workers at both ends. Times are seconds, speeds bytes a second. */
#ifndef TU_LINK_BENCH_H
#define TU_LINK_BENCH_H

#include "sim/link_model.h"

/* Two ends send to each other, on so many channels each way, all at once; each channel has one slot and so many messages. Both
 * directions together. */
double tu_link_bandwidth(const struct tu_link_model *model, double bytes, uint32_t channels, uint32_t messages);
/* The best of all numbers of channels that fit the model. */
double tu_link_best_bandwidth(const struct tu_link_model *model, double bytes, uint32_t messages, uint32_t *channels);
/* The same with workers that fill slots and empty them over the chip's network; so many slots a channel. */
double tu_link_mover_bandwidth(const struct tu_link_model *model, double bytes, uint32_t channels, uint32_t slots,
                               uint32_t messages);
/* From the first message's start until the last one has come round: one on each channel, at once. */
double tu_link_ring_ping(const struct tu_link_model *model, double bytes, uint32_t channels, uint32_t hops, bool flags);

/* There and back on one link, and what the ends' clocks say of it. */
struct tu_link_round_trip {
  double full;     /* the sender: from its start until the answer is there */
  double ack_wait; /* of which it waits */
  double receiver; /* from one message's end to the next one's */
  double wire;     /* one way, without what the ends do, and without bytes / bandwidth */
  double one_hop;  /* the same, with what they do */
  double issue;    /* to start the send */
};
void tu_link_round_trip(const struct tu_link_model *model, double bytes, struct tu_link_round_trip *parts);

#endif
