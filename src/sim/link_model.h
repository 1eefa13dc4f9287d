/* link_model.h: the costs of a link and of the processors that drive its ends, read from a small text file
 * (tutti-links(5)).
 *
 * A *link* joins two chips. At each end, a processor serves the channels of the link in turn. At each channel it checks
 * whether a message must be sent, and whether one has arrived. A message is divided into parts that each fill a slot.
 * The link divides the content of a slot into packets, each with a header. Times are in seconds, speeds in bytes per
 * second. */
#ifndef TU_LINK_MODEL_H
#define TU_LINK_MODEL_H

#include "base/base.h"

enum { TU_LINK_NAME_BYTES = 64, TU_ACK_BYTES = 16 };

struct tu_link_model {
  char name[TU_LINK_NAME_BYTES];
  /* Bandwidth of the wire in each direction, in bytes per second. */
  double bandwidth;
  double latency;      /* seconds of latency of the wire and of the hardware before and behind it */
  double packet_bytes; /* maximum payload of a packet; 0: no limit */
  double header_bytes; /* bytes of header per packet */
  /* true: the link receives each packet in full before it passes the packet on (store and forward). So the time of a
   * message's first packet counts twice. */
  bool stored;
  /* The following times, in seconds, are those of the processor at each end of the link. It serves the channels of the
   * link in turn. */
  /* look_send: time to find that a channel has nothing to send; look_receive: time to find that nothing has arrived on
   * a channel */
  double look_send, look_receive;
  /* time to move from one channel to another; a processor with a single channel does not spend it */
  double change;
  double issue; /* time to start a send */
  /* If a message is announced by a flag that is a message of its own: time from the send of the message to the send of
   * the flag. */
  double flag_gap;
  double respond;     /* time to handle an arrived packet and answer it */
  double acknowledge; /* time of the sender to handle an answer (acknowledgement) */
  double forward;     /* time to handle an arrived packet and pass it on */
  /* speed (bytes per second) and latency (seconds) of the chip's own network; speed 0: only the latency counts */
  double noc_bandwidth, noc_latency;
  /* Speed of arithmetic, in bytes of one operand per second; 0: arithmetic takes no time. */
  double reduce_bandwidth;
  /* In the following limits, 0 means no limit. */
  double memory_bytes; /* bytes of memory that a processor has for the slots of both directions */
  double channels;     /* maximum number of channels per direction */
  double granule;      /* unit of sizes, in bytes: message sizes are rounded up to a multiple of this unit */
  double slot_bytes;   /* default slot size in bytes; 0: each message is one slot */
  double credits;      /* slots per channel; 0: no limit */
  double retrain;      /* seconds from the end of an outage until the link can be used again */
  /* The remaining values are overheads, in seconds, of the programs that measured the links of Tenstorrent's multi-chip
   * guide. */
  double timer; /* time of the two clock readings around a measurement */
  /* benchmark of round trips: time from the end of a send to the start of the wait for its answer */
  double between;
  double loop; /* benchmark of round trips: time from the end of one round trip to the start of the next */
};

/* Returns the text of the built-in model "wormhole" or "plain"; NULL for any other name. */
const char *tu_link_model_text(const char *name);
/* Reads a link model from text. Values that the text does not give become 0. For invalid text, returns
 * TUTTI_ERR_ARGUMENT with a message that contains `name` and the line. */
tutti_err tu_link_model_read(const char *data, size_t bytes, const char *name, struct tu_link_model *model,
                             struct tu_error *error);
/* Loads the built-in model named `what`, or else reads the file of this name. */
tutti_err tu_link_model_load(const char *what, struct tu_link_model *model, struct tu_error *error);

/* Returns the fraction of the wire's bandwidth that is left for payload: bytes / (bytes + headers of all packets). */
double tu_link_utilization(const struct tu_link_model *model, double bytes);
/* Returns the seconds for which a transfer of `bytes` bytes occupies a wire, headers included. */
double tu_link_wire_time(const struct tu_link_model *model, double bytes);
/* Returns the seconds from the start of a transfer until all bytes have arrived: the wire time plus the latency. If the
 * model's packets are stored before they are passed on (`stored`), the time of the first packet is added once more. */
double tu_link_crossing(const struct tu_link_model *model, double bytes);
double tu_link_noc_time(const struct tu_link_model *model, double bytes);

/* Checks that one end of a link can have `channels_out` channels that send there and `channels_in` that arrive there,
 * with `slots` slots each. The slots must fit the memory of the processor. The number of channels must not exceed the
 * limit of the model. Otherwise returns TUTTI_ERR_ARGUMENT. */
tutti_err tu_link_fits(const struct tu_link_model *model, uint32_t channels_out, uint32_t channels_in,
                       double slot_bytes, uint32_t slots, struct tu_error *error);

#endif
