/* staging.h: checks the staging that the user gave: the tiles (small buffers) through which the data of a call
 * moves. */
#ifndef TU_STAGING_H
#define TU_STAGING_H

#include "onesided/located.h"
#include "onesided/staged.h"

/* The staging that the user gave, or NULL, and the size of the user's struct. */
struct tu_given_staging {
  const tutti_staging *given;
  size_t bytes;
};

/* Describes the data that moves through the tiles, and the call's tensors. */
struct tu_passage {
  const char *call;
  tutti_datatype type;
  const size_t *shape;
  const struct tu_located *located; /* tensors of the call, which the tiles must not overlap */
  size_t located_count;
};
/* Checks the staging that the user gave, and sets *stage. accumulator: one more tile, for the result of a reduction,
 * or NULL. Error: TUTTI_ERR_ARGUMENT. */
tutti_err tu_staging_open(struct tu_stage *stage, const struct tu_passage *passage, struct tu_given_staging staging,
                          void *accumulator, struct tu_error *error);

#endif
