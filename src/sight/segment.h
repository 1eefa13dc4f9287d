/* segment.h: finds the shared memory of jobs on this host, and maps it for reading. The reader is any process of the same
 * user. It finds a segment through the descriptors (/proc/PID/fd) of the processes that have it open: the ranks, and
 * `tutti run` and its agents, which keep it open for this purpose. So a segment is also found if all ranks are stopped,
 * dead, or have closed their descriptors. */
#ifndef TU_SEGMENT_H
#define TU_SEGMENT_H

#include <sys/types.h>

#include "transport/transport.h"

/* The segment of a job on this host, mapped for reading. Its content may change at any time. */
struct tu_segment {
  uint64_t device, inode; /* identity of its file */
  unsigned char *base;
  size_t bytes, slice_bytes;
  uint32_t here;  /* number of ranks of the job on this host */
  uint32_t ranks; /* of the job */
  uint64_t id;    /* of the job */
  pid_t *holders; /* [holder_count], owned: processes that have the segment open, in ascending order */
  uint32_t holder_count;
  pid_t launcher; /* `tutti run`, if it or its agent is a holder; 0: none */
};

struct tu_segments {
  struct tu_segment *list; /* owned, in the order of their processes */
  uint32_t count;
  uint32_t foreign; /* segments of another build of the library, which cannot be read */
  uint32_t unready; /* segments whose ranks have not joined yet */
};

/* Finds all segments of this user on this host. `only`: process that a segment must belong to: a rank, a holder, or an
 * ancestor of one; 0: all. Errors: TUTTI_ERR_SYSTEM (/proc cannot be read), TUTTI_ERR_MEMORY. The caller calls
 * tu_segments_fini in any case. */
tutti_err tu_segments_find(pid_t only, struct tu_segments *segments, struct tu_error *error);
/* Makes a segment of a descriptor of the shared memory, which stays the caller's. Returns false if it is none, or not
 * readable by this build. */
bool tu_segment_map(int fd, struct tu_segment *segment);
void tu_segment_unmap(struct tu_segment *segment);
void tu_segments_fini(struct tu_segments *segments);

/* Returns the head of a slice. */
static inline const struct tu_slice_head *tu_segment_head(const struct tu_segment *s, uint32_t local) {
  return (const struct tu_slice_head *)(const void *)(s->base + local * s->slice_bytes);
}
/* Returns true if the rank has joined the job, so that its plate can be read. */
static inline bool tu_segment_has(const struct tu_segment *s, uint32_t local) {
  return atomic_load_explicit(&((struct tu_slice_head *)(void *)(s->base + local * s->slice_bytes))->plate.magic,
                              memory_order_acquire) == TU_PLATE_MAGIC;
}
/* Returns true if the process is the ancestor of the other, or the same. */
bool tu_process_descends(pid_t pid, pid_t ancestor);

#endif
