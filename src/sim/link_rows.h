/* link_rows.h: what was measured on links, row by row (tutti-links(5)), and what a link model says of the same. */
#ifndef TU_LINK_ROWS_H
#define TU_LINK_ROWS_H

#include "sim/link_model.h"

enum tu_row_kind {
  TU_ROW_RING_PING,        /* channels, hops; the flag crosses by itself */
  TU_ROW_RING_PING_MERGED, /* the flag is behind the payload */
  TU_ROW_ROUND_TRIP,       /* part */
  TU_ROW_BANDWIDTH,        /* channels */
  TU_ROW_BEST_BANDWIDTH,   /* the best number of channels */
};

/* What the row is for. */
enum tu_row_use { TU_ROW_FIT, TU_ROW_HELD, TU_ROW_REPORTED };

struct tu_link_row {
  enum tu_row_kind kind;
  double bytes;
  uint32_t channels, hops;
  uint32_t part; /* of a round trip: an index of tu_row_parts */
  double value;  /* seconds, or bytes a second */
  double bound;  /* how far off a model may be */
  enum tu_row_use use;
};

extern const char *const tu_row_kinds[]; /* "ring_ping", ...; NULL ends */
extern const char *const tu_row_parts[]; /* "full", "ack_wait", "receiver", "wire", "one_hop", "issue"; NULL ends */
extern const char *const tu_row_uses[];  /* "fit", "held", "reported"; NULL ends */

/* Of CSV text with the header benchmark,bytes,channels,hops,part,value,unit,error,tolerance,use; lines that begin with # are
 * comments. The caller frees *rows. ARGUMENT: with name and line. */
tutti_err tu_link_rows_read(const char *data, size_t bytes, const char *name, struct tu_link_row **rows,
                            uint32_t *row_count, struct tu_error *error);
/* What the model says; *channels (of the best bandwidth) is what it took. */
double tu_link_row_play(const struct tu_link_row *row, const struct tu_link_model *model, uint32_t *channels);

#endif
