/* derive.h: what was measured on a link, or simulated, and what follows from it: how long slots should be, how much should
 * be on its way, and from which size on it is bandwidth that counts. One rule for real and for simulated numbers. */
#ifndef TU_DERIVE_H
#define TU_DERIVE_H

#include "base/base.h"

enum { TU_WIRE_ROWS_MAX = 256 };

/* Messages of one size on so many channels each way, both ways at once. */
struct tu_wire_bandwidth {
  size_t bytes;
  uint32_t channels;
  double gbs; /* of both ways together */
};

/* Once round a ring. */
struct tu_wire_ping {
  size_t bytes;
  uint32_t hops, channels;
  double ns, ns_min; /* of the whole way: median, least */
};

/* There and back on one link; the reply is short. */
struct tu_wire_trip {
  size_t bytes;
  double full_ns;     /* from before the message is issued until the reply is here */
  double acks_ns;     /* from when it is issued until its acknowledgement is here */
  double receiver_ns; /* from one arrival to the next, at the other end */
  double issue_ns;    /* what the sender takes to issue it, beside filling the slot */
  double answer_ns;   /* what the other end takes until the reply is issued, beside reading the slot */
  double ideal_ns;    /* bytes at the bandwidth of long messages, one way */
  double wire_ns;     /* what is left for each way: (full - issue - answer - ideal) / 2 */
  double hop_ns;      /* (full - ideal) / 2 */
};

struct tu_wire_figures {
  struct tu_wire_bandwidth bandwidths[TU_WIRE_ROWS_MAX];
  struct tu_wire_ping pings[TU_WIRE_ROWS_MAX];
  struct tu_wire_trip trips[TU_WIRE_ROWS_MAX];
  uint32_t bandwidth_count, ping_count, trip_count;
};

/* The row of that size with the highest bandwidth; NULL: there is none. */
const struct tu_wire_bandwidth *tu_wire_best(const struct tu_wire_figures *f, size_t bytes);
/* The highest bandwidth of one way, in bytes a nanosecond (GB/s): half of the best row. */
double tu_wire_peak(const struct tu_wire_figures *f);
/* Fills in ideal_ns, wire_ns and hop_ns of all trips. */
void tu_wire_complete(struct tu_wire_figures *f);

struct tu_wire_advice {
  size_t slot_low, slot_high; /* sizes that are measured */
  size_t outstanding_bytes;   /* at least so many on their way */
  uint32_t slots;             /* of slot_low, that hold so many; at least two */
  size_t crossover_bytes;     /* 0: the time of a hop does not grow with the size */
};

/* Slots: from the smallest of the sizes below the fastest one that reach 95% of its bandwidth, with their best number of
 * channels, to the fastest one: longer ones take memory and gain nothing.
 * Outstanding: the bandwidth of one way times the longest hop of a trip whose size is one of those (if there is none, of
 * any), rounded up to a power of two. Crossover: a / b of the line a + b * bytes that fits the time of a hop by size best
 * (least squares, the pings of one channel and of the shortest ring): from there on a hop takes longer for the bytes than for
 * everything else. False: there are no bandwidths, no trips, or fewer than two sizes of such pings. */
bool tu_wire_advise(const struct tu_wire_figures *f, struct tu_wire_advice *advice);

#endif
