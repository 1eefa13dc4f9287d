/* link_rows.h: measurements of links, read as rows of a table (tutti-links(5)), and the simulation of each measurement
 * with a link model. */
#ifndef TU_LINK_ROWS_H
#define TU_LINK_ROWS_H

#include "sim/link_model.h"

enum tu_row_kind {
  /* a ping round a ring of `hops` links, on `channels` channels; the flag that announces a message is a separate
   * message */
  TU_ROW_RING_PING,
  TU_ROW_RING_PING_MERGED, /* as TU_ROW_RING_PING, but without a separate flag: the message itself carries it */
  TU_ROW_ROUND_TRIP,       /* one figure of a round trip; the field `part` says which */
  TU_ROW_BANDWIDTH,        /* bandwidth with `channels` channels */
  TU_ROW_BEST_BANDWIDTH,   /* bandwidth with the number of channels that is fastest */
};

/* Use of a measurement. FIT: the values of the link model are fitted to it. HELD: it is left out of the fit, and used
 * to judge the fit. REPORTED: it is only displayed. */
enum tu_row_use { TU_ROW_FIT, TU_ROW_HELD, TU_ROW_REPORTED };

struct tu_link_row {
  enum tu_row_kind kind;
  double bytes;
  uint32_t channels, hops;
  uint32_t part; /* for round trips: index of the measured figure in tu_row_parts */
  double value;  /* measured value: a time in seconds, or a bandwidth in bytes per second */
  /* maximum difference allowed between the measured value and a model's prediction, in the unit of `value` */
  double bound;
  enum tu_row_use use;
};

extern const char *const tu_row_kinds[]; /* names of enum tu_row_kind in files: "ring_ping", ...; ends with NULL */
/* names of the figures of a round trip: "full", "ack_wait", "receiver", "wire", "one_hop", "issue"; ends with NULL */
extern const char *const tu_row_parts[];
/* names of enum tu_row_use in files: "fit", "held", "reported"; ends with NULL */
extern const char *const tu_row_uses[];

/* Reads rows from CSV text with the header benchmark,bytes,channels,hops,part,value,unit,error,tolerance,use. Lines
 * that begin with # are comments. The caller frees *rows. For invalid text, returns TUTTI_ERR_ARGUMENT with a message
 * that contains `name` and the line. */
tutti_err tu_link_rows_read(const char *data, size_t bytes, const char *name, struct tu_link_row **rows,
                            uint32_t *row_count, struct tu_error *error);
/* Simulates the row's measurement with the model, and returns the predicted value. *channels: number of channels used;
 * for TU_ROW_BEST_BANDWIDTH, tu_link_best_bandwidth chooses this number. */
double tu_link_row_play(const struct tu_link_row *row, const struct tu_link_model *model, uint32_t *channels);

#endif
