/* slices.h: what tutti_slices_at (tutti/tensor.h) is made of: a region is cut along one dimension into a fracture for each
 * rank, and every fracture by the same lines into slices that fit some buffer; slices are dealt out to workers. Each
 * worker takes one slice after the other, and each slice from all fractures, one a step, before the next: what is on its
 * way round a ring of ranks is never more than a slice.
 *
 * A slice is what a window of rows x cols pages covers that slides over the last two dimensions, rows first (slide.h). A
 * page is what is never cut: an item, or a tile; pages are counted from where a fracture begins, and the last ones of a
 * row or column may be filled in part. Any slice can be asked for: nothing is allocated, nothing is remembered. */
#ifndef TU_SLICES_H
#define TU_SLICES_H

#include "tensor/slide.h"

struct tu_slices {
  tutti_slicing how;
  size_t fracture[TUTTI_DIMS]; /* items */
  struct tu_slide slide;       /* over the pages of a fracture */
};

/* ARGUMENT if it cannot be cut so. Of ranks and workers there is one at least. */
tutti_err tu_slices_init(struct tu_slices *slices, const tutti_slicing *how, struct tu_error *error);

/* Slices of a fracture. */
static inline size_t tu_slices_count(const struct tu_slices *s) { return s->slide.count; }
/* Slices that a worker takes, each `ranks` times. */
static inline size_t tu_slices_dealt(const struct tu_slices *s, uint32_t worker) {
  return worker < s->slide.count ? (s->slide.count - worker - 1) / s->how.workers + 1 : 0;
}

/* The `order`-th thing that a worker does, of tu_slices_dealt * ranks. */
tutti_slice tu_slices_at(const struct tu_slices *slices, uint32_t worker, size_t order);

/* How long a slice may be so that a worker of a pipeline never waits for itself: what it holds of one, on the way past the
 * reduction or through it, and in the channel that it comes from. All in one unit. */
static inline size_t tu_slice_max(size_t short_circuit, size_t in0, size_t out, size_t channel) {
  return tu_min(short_circuit, in0 + out) + channel;
}

#endif
