/* far.h: memory of ranks on other hosts, in one-sided calls. It is read and changed by requests to the rank that has it
 * (mover/remote_memory.h), whose process carries them out (served.c).
 *
 * A call may have several requests open at a time. They are completed in the order in which they were begun. If one
 * fails, the others are given up, later ones are not begun, and tu_far_end returns the error. */
#ifndef TU_FAR_H
#define TU_FAR_H

#include "mover/remote_memory.h"
#include "onesided/window.h"
#include "tensor/map.h"

/* What is requested. Offsets count from the beginning of the part. */
enum tu_far_what {
  TU_FAR_READ = 1, /* `value` bytes from the offset on; the answer's body has them */
  TU_FAR_WRITE,    /* the body, to the offset */
  TU_FAR_READ_ROWS, /* a region; the body is a struct tu_far_rows; the answer's body has the region's rows, without gaps */
  TU_FAR_WRITE_ROWS, /* a region; the body is a struct tu_far_rows, and the rows, without gaps */
  TU_FAR_ADD_ROWS,   /* as TU_FAR_WRITE_ROWS; each addition is atomic */
  TU_FAR_SET,        /* the signal at the offset becomes `value` */
  TU_FAR_INCREASE,   /* `value` is added to the signal at the offset */
  TU_FAR_RESERVE,    /* of rank 0 of the window: tu_window_reserve for the ranks in the body; `value` is the root */
  TU_FAR_RELEASE     /* of rank 0 of the window: tu_window_release for the ranks in the body */
};

/* A region of a tensor in a part of a window. */
struct tu_far_rows {
  uint64_t row_count, row_bytes; /* of the region */
  uint64_t pitch;      /* the rows begin at the offset, `pitch` bytes apart; 0: the fields below say where they lie */
  tutti_tensor tensor; /* whose data begins at the offset; `data` has no meaning */
  uint64_t origin[TUTTI_DIMS], extent[TUTTI_DIMS]; /* the region, in items */
};

/* The requests of one call. */
struct tu_far {
  const char *call;
  struct tu_far_request *first, *last; /* requests that are not completed */
  uint64_t begun, completed;           /* numbers of requests; those that were given up do not count as completed */
  struct tu_error error;               /* the first error */
};

/* Memory of a rank on another host. */
struct tu_far_memory {
  struct tutti_window *window;
  uint32_t rank;
  size_t offset;
};

/* Called first. The text of the error is not cleared, because that would take as long as a short call. */
static inline void tu_far_start(struct tu_far *far, const char *call) {
  far->call = call;
  far->first = far->last = NULL;
  far->begun = far->completed = 0;
  far->error.code = TUTTI_OK;
}

/* Begin a request, and return its number, from 1. read, write: contiguous memory. `to` and `from` of these two, and
 * `to` of tu_far_load, must stay until the request is completed. load, store and add: a region of a tensor whose data
 * begins at `at`; as tu_region_load and tu_region_store. add: as tu_carry_add. */
uint64_t tu_far_read(struct tu_far *far, struct tu_far_memory at, void *to, size_t bytes);
uint64_t tu_far_write(struct tu_far *far, struct tu_far_memory at, const void *from, size_t bytes);
uint64_t tu_far_load(struct tu_far *far, struct tu_far_memory at, const tutti_tensor *tensor,
                     const struct tu_region *region, void *to, size_t pitch);
uint64_t tu_far_store(struct tu_far *far, struct tu_far_memory at, const tutti_tensor *tensor,
                      const struct tu_region *region, const void *rows, size_t pitch);
uint64_t tu_far_add(struct tu_far *far, struct tu_far_memory at, const tutti_tensor *tensor,
                    const struct tu_region *region, const void *rows, size_t pitch);
/* Waits until the request of that number, and all before it, are completed. */
void tu_far_wait(struct tu_far *far, uint64_t number);
/* Waits until all requests are completed, or given up. Returns the first error. */
tutti_err tu_far_end(struct tu_far *far, struct tu_error *error);

/* Makes one request that moves no data, and waits for its answer. *value: of the request, then of the answer. */
tutti_err tu_far_ask(const char *call, struct tu_far_memory at, enum tu_far_what what, uint32_t *value,
                     const void *body, size_t bytes, struct tu_error *error);

#endif
