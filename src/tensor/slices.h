/* slices.h: the implementation of tutti_slices_at (tutti/tensor.h), for programs that process a region in a ring of
 * ranks.
 *
 * A region is cut along one dimension into one fracture per rank. All fractures are cut into slices in the same way, so
 * that a slice fits a buffer. The slices are dealt to workers. A worker handles its first slice in one fracture after
 * the other, until it has handled it in all fractures. Only then does it go on to its next slice. So a worker has at
 * most one slice on its way around the ring.
 *
 * A slice is what a window of rows x cols pages covers. The window slides over the last two dimensions, row by row
 * (slide.h). A page is an item or a tile, and is never cut. Pages are counted from the beginning of the fracture; the
 * last pages of a row or column may be filled in part. Any slice can be computed directly, without the slices before
 * it. */
#ifndef TU_SLICES_H
#define TU_SLICES_H

#include "tensor/slide.h"

struct tu_slices {
  tutti_slicing how;
  size_t fracture[TUTTI_DIMS]; /* shape of a rank's share of the region, in items */
  /* a window slides over the pages of a rank's share; what it covers at one stop is a slice */
  struct tu_slide slide;
};

/* Checks a slicing and fills in missing sizes. ranks and workers must be at least 1. Error: TUTTI_ERR_ARGUMENT if the
 * region cannot be cut in this way. */
tutti_err tu_slices_init(struct tu_slices *slices, const tutti_slicing *how, struct tu_error *error);

/* Returns the number of slices of a fracture (a rank's share of the region). */
static inline size_t tu_slices_count(const struct tu_slices *s) { return s->slide.count; }
/* Returns the number of slices that a worker gets. The worker handles each of these slices `ranks` times, once per
 * fracture (a rank's share of the region). */
static inline size_t tu_slices_dealt(const struct tu_slices *s, uint32_t worker) {
  return worker < s->slide.count ? (s->slide.count - worker - 1) / s->how.workers + 1 : 0;
}

/* Returns work item number `order` of a worker (a slice in one fracture), where order < tu_slices_dealt * ranks. */
tutti_slice tu_slices_at(const struct tu_slices *slices, uint32_t worker, size_t order);

/* Returns the maximum length of a slice for which a worker of a ring pipeline never waits for itself. It is the size of
 * the worker's buffers plus that of the channel from which the slice arrives. Which buffers count depends on the slice:
 * one that is only passed on lies in the buffer `short_circuit`; one that is reduced lies in `in0` and `out`. The
 * smaller of the two sizes is used. All lengths have the same unit. */
static inline size_t tu_slice_max(size_t short_circuit, size_t in0, size_t out, size_t channel) {
  return tu_min(short_circuit, in0 + out) + channel;
}

#endif
