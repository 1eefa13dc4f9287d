/* derive.h: derives advice from the measured or simulated performance of a link: which slot size to use, and how many
 * bytes should be in transit. Also derives the message size from which on the bytes take longer than the fixed cost of
 * a message. */
#ifndef TU_DERIVE_H
#define TU_DERIVE_H

#include "base/base.h"

enum { TU_WIRE_ROWS_MAX = 256 };

/* A measured bandwidth: messages of one size, on `channels` channels in each direction. Both directions send at the
 * same time. */
struct tu_wire_bandwidth {
  size_t bytes;
  uint32_t channels;
  double gbs; /* bandwidth in GB/s: sum of both directions */
};

/* A ping: one trip of a message round a ring of chips. */
struct tu_wire_ping {
  size_t bytes;
  uint32_t hops, channels;
  double ns, ns_min; /* nanoseconds of the whole trip: median and minimum of the measurements */
};

/* A round trip on one link: a message, and a short reply from the other end. */
struct tu_wire_trip {
  size_t bytes;
  double full_ns;     /* time from before the message is issued until the reply has arrived */
  double acks_ns;     /* time from the issue of the message until its acknowledgement has arrived */
  double receiver_ns; /* time at the other end between the arrivals of two consecutive messages */
  double issue_ns;    /* time that the sender needs to issue the message, without the time to fill the slot */
  /* time at the other end from the arrival until the reply is issued, without the time to read the slot */
  double answer_ns;
  double ideal_ns; /* time of the message's bytes at the highest bandwidth of one direction (tu_wire_peak) */
  double wire_ns;  /* time on the wire in one direction: (full - issue - answer - ideal) / 2 */
  double hop_ns;   /* time of one hop: (full - ideal) / 2 */
};

struct tu_wire_figures {
  struct tu_wire_bandwidth bandwidths[TU_WIRE_ROWS_MAX];
  struct tu_wire_ping pings[TU_WIRE_ROWS_MAX];
  struct tu_wire_trip trips[TU_WIRE_ROWS_MAX];
  uint32_t bandwidth_count, ping_count, trip_count;
};

/* Returns the measurement with the highest bandwidth among those with messages of `bytes` bytes; NULL: there is
 * none. */
const struct tu_wire_bandwidth *tu_wire_best(const struct tu_wire_figures *f, size_t bytes);
/* Returns the highest bandwidth of one direction, in bytes per nanosecond (GB/s). This is half the highest measured
 * bandwidth, which is the sum of both directions. */
double tu_wire_peak(const struct tu_wire_figures *f);
/* Computes the fields ideal_ns, wire_ns and hop_ns of all round trips from their measured fields. */
void tu_wire_complete(struct tu_wire_figures *f);

struct tu_wire_advice {
  /* smallest and largest advised slot size in bytes; each is a message size that was measured */
  size_t slot_low, slot_high;
  size_t outstanding_bytes; /* minimum number of bytes that should be in transit at any time */
  uint32_t slots;           /* number of slots of slot_low bytes that hold outstanding_bytes; at least two */
  /* message size in bytes from which on the bytes of a hop take longer than the fixed cost of the hop; 0: the time of a
   * hop does not grow with the size */
  size_t crossover_bytes;
};

/* Derives advice from the measurements. Returns false if there are no bandwidths, no round trips, or pings of fewer
 * than two sizes.
 * - Slots: the largest advised size is the message size with the highest bandwidth; a longer slot takes memory and
 *   gains nothing. The smallest advised size is the smallest one from which on all sizes, up to the largest, reach 95%
 *   of this bandwidth. Each size counts with its best number of channels.
 * - Outstanding bytes: the bandwidth of one direction times the longest time of a hop, rounded up to a power of two.
 *   Only round trips whose size lies between the two advised slot sizes count. If there are none, all round trips
 *   count.
 * - Crossover: the time of a hop is approximated by a + b * bytes (least squares over the pings with one channel on the
 *   shortest ring). The crossover is a / b bytes: there the time of the bytes equals the fixed time a. */
bool tu_wire_advise(const struct tu_wire_figures *f, struct tu_wire_advice *advice);

#endif
