/* loop.c: ranks inside one process, over memory of their own: for tests, and for a world of one. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport/transport.h"

#define LOOP_SLICE_BYTES ((size_t)64 << 20)

struct segment {
  _Atomic uint32_t open_endpoints; /* the last one frees it */
};

struct loop {
  struct tu_transport transport;
  struct segment *segment;
};

static bool loop_alive(struct tu_transport *t, uint32_t rank) {
  return !atomic_load(&tu_transport_head(t, rank)->gone);
}

static void loop_discard(struct tu_transport *t, uint64_t place, size_t bytes) {
  (void)madvise(t->base + place, bytes, MADV_DONTNEED);
}

static void loop_close(struct tu_transport *t) {
  struct loop *loop = (struct loop *)t;
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
    return tu_fail_errno(error, "%zu bytes for %u ranks in one process", slice_bytes * ranks, ranks);
  struct segment *segment = tu_allocate(1, sizeof *segment);
  atomic_store(&segment->open_endpoints, ranks);
  for (uint32_t rank = 0; rank < ranks; rank++) {
    struct loop *loop = tu_allocate(1, sizeof *loop);
    tu_transport_init(&loop->transport, &loop_ops, rank, ranks, base, slice_bytes);
    loop->segment = segment;
    endpoints[rank] = &loop->transport;
  }
  return TUTTI_OK;
}

void tu_loop_kill(struct tu_transport *t) { atomic_store(&tu_transport_head(t, t->rank)->gone, 1); }
