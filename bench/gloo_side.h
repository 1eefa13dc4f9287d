/* gloo_side.h: Gloo's collectives behind a C interface, for gloo_bench.c. f32, and sums only. */
#ifndef BENCH_GLOO_SIDE_H
#define BENCH_GLOO_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gloo_side;

struct gloo_call {
  tutti_collective collective;
  const void *in;
  void *out; /* of broadcast: the buffer, at the root too */
  size_t count;
  unsigned root;
};

enum gloo_setting {
  GLOO_DEFAULT,
  GLOO_BCUBE, /* allreduce by that algorithm instead of Gloo's choice */
  GLOO_SYNC /* its older objects, which can poll sockets busily: of allreduce, broadcast, reduce_scatter and barrier */
};

/* Joins `ranks` processes, which meet by files in that folder (empty before), over TCP on the loopback interface. NULL:
 * failed, and it has said why. */
struct gloo_side *gloo_side_open(const char *folder, unsigned rank, unsigned ranks, enum gloo_setting setting);
void gloo_side_close(struct gloo_side *side);

/* Prepares for the call what Gloo keeps from call to call; the memory of in and out stays the caller's, until the next
 * preparation. False, as of the others: failed, and it has said why. */
bool gloo_side_prepare(struct gloo_side *side, const struct gloo_call *call);
bool gloo_side_run(struct gloo_side *side);
bool gloo_side_barrier(struct gloo_side *side);
bool gloo_side_combine(struct gloo_side *side, double *values, int count, bool sum); /* in place; else maximum */

#ifdef __cplusplus
}
#endif

#endif
