/* slices.c: chooses the size of slices of a region, and computes where each slice lies. */
#include "tensor/slices.h"

#include <string.h>

static size_t divide_up(size_t a, size_t b) { return a / b + (a % b != 0); }

static tutti_err check(const tutti_slicing *how, struct tu_error *error) {
  size_t items = 1;
  for (int d = 0; d < TUTTI_DIMS; d++)
    if (!tu_multiply(items, tu_max(how->shape[d], 1), &items) || items > PTRDIFF_MAX / 64)
      return tu_fail(error, TUTTI_ERR_ARGUMENT, "slices: the region has more items than memory can hold");
  if (how->dim >= TUTTI_DIMS)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "slices: dim is %u; expected 0 to %d", how->dim, TUTTI_DIMS - 1);
  if (how->ranks == 0 || how->workers == 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "slices: %u ranks and %u workers; expected at least 1 of each",
                   how->ranks, how->workers);
  if (how->shape[how->dim] % how->ranks != 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "slices: dimension %u has %zu items, which %u ranks cannot share equally",
                   how->dim, how->shape[how->dim], how->ranks);
  if (how->first >= how->ranks)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "slices: first is %u, but there are only %u fractures (pieces of the region), counted from 0",
                   how->first, how->ranks);
  if (!how->page_rows != !how->page_cols || !how->slice_rows != !how->slice_cols)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "slices: %s needs both rows and columns; one of them is 0",
                   !how->page_rows != !how->page_cols ? "a page" : "a slice");
  size_t pages;
  if (!tu_multiply(how->slice_rows, how->slice_cols, &pages)) pages = SIZE_MAX;
  if (how->pages_max == 0 || pages <= how->pages_max) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "slices: a slice of %zux%zu pages exceeds the maximum of %zu pages",
                 how->slice_rows, how->slice_cols, how->pages_max);
}

/* Chooses the size of a slice: as large as allowed, but small enough that there is a slice for every worker. */
static void choose_size(tutti_slicing *how, const size_t pages[TUTTI_DIMS]) {
  size_t all = pages[0] * pages[1] * pages[2] * pages[3] * pages[4], share = tu_max(all / how->workers, 1);
  size_t most = how->pages_max ? tu_min(how->pages_max, share) : share;
  how->slice_cols = tu_max(tu_min(pages[4], most), 1);
  how->slice_rows = most / how->slice_cols;
}

tutti_err tu_slices_init(struct tu_slices *s, const tutti_slicing *how, struct tu_error *error) {
  tutti_err err = check(how, error);
  if (err != TUTTI_OK) return err;
  s->how = *how;
  s->how.page_rows = tu_max(how->page_rows, 1);
  s->how.page_cols = tu_max(how->page_cols, 1);
  memcpy(s->fracture, how->shape, sizeof s->fracture);
  s->fracture[how->dim] /= how->ranks;
  size_t pages[TUTTI_DIMS];
  memcpy(pages, s->fracture, sizeof pages);
  pages[3] = divide_up(pages[3], s->how.page_rows);
  pages[4] = divide_up(pages[4], s->how.page_cols);
  if (!s->how.slice_rows) choose_size(&s->how, pages);
  s->slide = tu_slide_over(pages, s->how.slice_rows, s->how.slice_cols);
  return TUTTI_OK;
}

tutti_slice tu_slices_at(const struct tu_slices *s, uint32_t worker, size_t order) {
  const tutti_slicing *how = &s->how;
  tu_assert(worker < how->workers && order / how->ranks < tu_slices_dealt(s, worker));
  tutti_slice slice = {.number = worker + order / how->ranks * how->workers, .step = (uint32_t)(order % how->ranks)};
  uint64_t turn = how->down ? how->ranks - slice.step : slice.step;
  slice.fracture = (uint32_t)((how->first + turn) % how->ranks);
  struct tu_stop stop = tu_slide_stop(&s->slide, slice.number);
  const size_t unit[TUTTI_DIMS] = {1, 1, 1, how->page_rows, how->page_cols};
  for (int d = 0; d < TUTTI_DIMS; d++) {
    slice.origin[d] = stop.origin[d] * unit[d];
    slice.extent[d] = tu_min(stop.extent[d] * unit[d], s->fracture[d] - slice.origin[d]);
  }
  slice.origin[how->dim] += slice.fracture * s->fracture[how->dim];
  return slice;
}
