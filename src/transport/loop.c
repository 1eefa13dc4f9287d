/* loop.c: the loop transport: all ranks in one process, over private memory. For tests, and for a world of one rank. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport/transport.h"

#define LOOP_SLICE_BYTES ((size_t)64 << 20)

struct segment {
  /* Number of endpoints that are not closed; closing the last one frees the segment. */
  _Atomic uint32_t open_endpoints;
};

struct loop {
  struct tu_transport transport;
  struct segment *segment;
};

static bool loop_alive(struct tu_transport *t, uint32_t rank) {
  return !atomic_load(&tu_transport_head(t, rank)->gone);
}

static void loop_discard(struct tu_transport *t, uint64_t offset, size_t bytes) {
  (void)madvise(t->base + offset, bytes, MADV_DONTNEED);
}

static void mark_gone(struct tu_transport *t) { atomic_store(&tu_transport_head(t, t->rank)->gone, 1); }

static void loop_close(struct tu_transport *t) {
  struct loop *loop = (struct loop *)t;
  /* From now on the rank counts as dead, like a process that has unmapped the shared memory. This has no effect if the
   * rank has announced before that it leaves its communicators. */
  mark_gone(t);
  tu_transport_fini(t);
  if (atomic_fetch_sub(&loop->segment->open_endpoints, 1) == 1) {
    munmap(t->base, t->slice_bytes * t->ranks);
    free(loop->segment);
  }
  free(loop);
}

static const struct tu_transport_ops loop_ops = {
    .name = "loop",
    .alive = loop_alive,
    .discard = loop_discard,
    .close = loop_close,
};

tutti_err tu_loop_create(uint32_t ranks, size_t slice_bytes, struct tu_transport *endpoints[], struct tu_error *error) {
  slice_bytes = tu_round_up(slice_bytes ? slice_bytes : LOOP_SLICE_BYTES, 4096);
  void *base =
      mmap(NULL, slice_bytes * ranks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return tu_fail_errno(error, "mmap of %zu bytes for %u ranks in one process failed", slice_bytes * ranks, ranks);
  struct segment *segment = tu_try_allocate(1, sizeof *segment);
  uint32_t made = 0;
  for (; segment && made < ranks; made++) {
    struct loop *loop = tu_try_allocate(1, sizeof *loop);
    if (!loop || !tu_transport_init(&loop->transport, &loop_ops, made, ranks, base, slice_bytes)) {
      free(loop);
      break;
    }
    loop->segment = segment;
    endpoints[made] = &loop->transport;
  }
  if (segment) atomic_store(&segment->open_endpoints, made);
  if (made == ranks) return TUTTI_OK;
  if (made == 0) {
    munmap(base, slice_bytes * ranks);
    free(segment);
  }
  while (made > 0) loop_close(endpoints[--made]); /* closing the last endpoint frees the segment */
  return tu_fail_memory(error, sizeof(struct loop), "%u ranks in one process", ranks);
}

void tu_loop_kill(struct tu_transport *t) {
  mark_gone(t);
  if (t->hosts) t->hosts->cut(t->hosts);
}
