/* bench.h: what `tutti bench` has beside the core of the benchmark (bench/core/core.h): this library's side, and what is
 * measured without a collective. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "bench/core/core.h"

/* ---- this library's side (bench.c) ---- */

/* This process as a rank of its job; NULL: failed, and it has said why. */
struct bench_side *bench_open(const char *verb);
/* Leaves the job; returns `code`, or CLI_FAILED if leaving fails. */
int bench_close(struct bench_side *side, int code);
/* Becomes `tutti run -n RANKS --bind BIND -- tutti ARGV`; returns only if that fails. */
int bench_launch(const char *verb, uint32_t ranks, const char *bind, int argc, char **argv);

/* ---- the kernels (bench_kernels.c) ---- */

/* `tutti bench kernels`, argv[0] being "kernels". */
int bench_kernels(int argc, char **argv);

/* ---- packing of tensors (bench_tensor.c) ---- */

/* `tutti bench tensor ...`; argv[0] is "tensor". */
int bench_tensor(int argc, char **argv);

/* ---- one-sided calls (bench_onesided.c, bench_paced.c) ---- */

/* `tutti bench onesided ...`; argv[0] is "bench", for it starts ranks. */
int bench_onesided(int argc, char **argv);

/* ---- communicators (bench_comm.c) ---- */

/* `tutti bench comm ...`; argv[0] is "bench", for it starts ranks. */
int bench_comm(int argc, char **argv);

/* ---- links (bench_links.c, bench_links_measure.c) ---- */

/* `bench links [options]`: argv[1] is "links". */
int bench_links(int argc, char **argv);

struct tu_loader;
/* Loads and stores that take so long each, at least; loads are a thread's. NULL: there is no thread. */
struct tu_loader *bench_paced_open(uint64_t load_ns, uint64_t store_ns);
void bench_paced_close(struct tu_loader *loader);

#endif
