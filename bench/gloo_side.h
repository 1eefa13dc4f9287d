/* gloo_side.h: C interface of Gloo's collectives for gloo_bench.c; only f32 and sums. */
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
  void *out; /* in broadcast: the only buffer, also at the root */
  size_t count;
  unsigned root;
};

enum gloo_setting {
  GLOO_DEFAULT,
  GLOO_BCUBE, /* allreduce with the algorithm bcube instead of Gloo's choice */
  GLOO_SYNC /* Gloo's older algorithm objects, which can poll sockets: allreduce, broadcast, reduce_scatter, barrier */
};

/* Connects `ranks` processes over TCP on a network interface such as eth0 (NULL: loopback). The processes exchange
 * addresses through files in `folder`, which must be empty. NULL: failed, and an error was printed. */
struct gloo_side *gloo_side_open(const char *folder, const char *interface, unsigned rank, unsigned ranks,
                                 enum gloo_setting setting);
void gloo_side_close(struct gloo_side *side);

/* Creates the objects that Gloo keeps between calls. The caller owns the memory of `in` and `out`, which must stay
 * valid until the next prepare. This and the following functions return false on failure, after printing an error. */
bool gloo_side_prepare(struct gloo_side *side, const struct gloo_call *call);
bool gloo_side_run(struct gloo_side *side);
bool gloo_side_barrier(struct gloo_side *side);
bool gloo_side_combine(struct gloo_side *side, double *values, int count,
                       bool sum); /* in-place allreduce: of the sum, or, if `sum` is false, of the maximum */

#ifdef __cplusplus
}
#endif

#endif
