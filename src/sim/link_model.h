/* link_model.h: what a link costs, and the processors that drive its ends: a small text file (tutti-links(5)).
 *
 * A *link* joins two chips. At each of its ends stands a processor that looks after the link's channels in turn, as the data
 * mover does: at each channel it looks whether there is something to send, or something has come. A message is cut into what fits
 * a slot, a slot into packets; each packet takes a header along. Times are seconds, speeds bytes a second. */
#ifndef TU_LINK_MODEL_H
#define TU_LINK_MODEL_H

#include "base/base.h"

enum { TU_LINK_NAME_BYTES = 64, TU_ACK_BYTES = 16 };

struct tu_link_model {
  char name[TU_LINK_NAME_BYTES];
  /* The wire, each way. */
  double bandwidth;
  double latency;      /* of the wire, and of what stands before and behind it */
  double packet_bytes; /* of payload, at most; 0: no limit */
  double header_bytes; /* of each packet */
  bool stored;         /* a packet is taken in whole before it is passed on: the first one's time counts twice */
  /* A processor at an end. */
  double look_send, look_receive; /* to see that a channel has nothing to send; that nothing has come on it */
  double change;                  /* to go on to another channel; not where there is only one */
  double issue;                   /* to start a send */
  double flag_gap;                /* from a send to that of its flag, where the flag crosses by itself */
  double respond;                 /* to see to what has come, and answer */
  double acknowledge;             /* to take in an answer */
  double forward;                 /* to see to what has come, and pass it on */
  /* The chip's own network. 0: takes no time. */
  double noc_bandwidth, noc_latency;
  /* Arithmetic, a byte of one operand. 0: takes no time. */
  double reduce_bandwidth;
  /* What fits. 0: no limit. */
  double memory_bytes; /* of a processor, for the slots of both directions */
  double channels;     /* of a direction */
  double granule;      /* bytes: messages are rounded up to that */
  double slot_bytes;   /* usual size; 0: a message is one slot */
  double credits;      /* slots of a channel; 0: no limit */
  double retrain;      /* before a link that was down can be used */
  /* What the guide's own measuring takes. */
  double timer;   /* to read a clock, twice, around what is timed */
  double between; /* from a send to the wait for its answer */
  double loop;    /* from one round trip to the next */
};

/* Some that come along: "wormhole", "plain"; NULL otherwise. */
const char *tu_link_model_text(const char *name);
/* ARGUMENT: with name and line. What is not said is 0. */
tutti_err tu_link_model_read(const char *data, size_t bytes, const char *name, struct tu_link_model *model,
                             struct tu_error *error);
/* One that comes along, or a file. */
tutti_err tu_link_model_load(const char *what, struct tu_link_model *model, struct tu_error *error);

/* Which part of the bandwidth is left for payload: p / (p + header * packets). */
double tu_link_utilization(const struct tu_link_model *model, double bytes);
/* For how long a wire is taken, headers included. */
double tu_link_wire_time(const struct tu_link_model *model, double bytes);
/* From when the wire is taken until all of it is there: wire time, latency, and the first packet once more if it is stored. */
double tu_link_crossing(const struct tu_link_model *model, double bytes);
double tu_link_noc_time(const struct tu_link_model *model, double bytes);

/* Do so many channels each way, each with so many slots, fit the memory and the number of channels? ARGUMENT. */
tutti_err tu_link_fits(const struct tu_link_model *model, uint32_t channels_out, uint32_t channels_in,
                       double slot_bytes, uint32_t slots, struct tu_error *error);

#endif
