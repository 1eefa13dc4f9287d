/* bench.h: functions of `tutti bench`. The core of the benchmark (bench/core/core.h) measures the collectives of any
 * library. bench_open returns what it needs to measure this library: a struct bench_side with the library's operations.
 * bench_kernels, bench_tensor, ... are the benchmarks of everything except collectives. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "bench/core/core.h"

/* ---- the operations of this library (bench.c) ---- */

/* Joins the job as a rank, with the threads of `parallel`. If that fails, prints the reason and returns NULL. */
struct bench_side *bench_open(const char *verb, tutti_parallel parallel);
/* Leaves the job and frees `side`. Returns `code`, the exit status so far, or CLI_FAILED if leaving fails. */
int bench_close(struct bench_side *side, int code);

/* ---- threads that share out copies (bench_team.c) ---- */

/* Starts a team of `threads` threads, of which one is the caller of parallel->run, and describes it in *parallel. Returns NULL
 * and sets errno if a thread cannot be started. */
struct bench_team *bench_team_create(uint32_t threads, tutti_parallel *parallel);
void bench_team_destroy(struct bench_team *team); /* NULL: does nothing */

/* ---- starting ranks (bench_launch.c) ---- */

/* Replaces this process by `tutti run -n RANKS --bind BIND -- tutti ARGV`. Returns only on failure, with the exit
 * status. */
int bench_launch(const char *verb, uint32_t ranks, const char *bind, int argc, char **argv);

/* ---- the arithmetic kernels (bench_kernels.c) ---- */

/* Runs `tutti bench kernels`; argv[0] is "kernels". */
int bench_kernels(int argc, char **argv);

/* ---- packing of tensors (bench_tensor.c) ---- */

/* Runs `tutti bench tensor`; argv[0] is "tensor". */
int bench_tensor(int argc, char **argv);

/* ---- one-sided calls (bench_onesided.c, bench_paced.c) ---- */

/* Runs `tutti bench onesided`. argv[0] is "bench", because bench_onesided passes its arguments on to the ranks that it
 * starts. */
int bench_onesided(int argc, char **argv);

/* ---- communicators (bench_comm.c) ---- */

/* Runs `tutti bench comm`. argv[0] is "bench", because bench_comm passes its arguments on to the ranks that it
 * starts. */
int bench_comm(int argc, char **argv);

/* ---- links (bench_links.c, bench_links_measure.c) ---- */

/* Runs `tutti bench links`; argv[0] is "bench", argv[1] is "links". */
int bench_links(int argc, char **argv);
/* Runs `tutti bench links --hosts` (bench_hosts.c, bench_hosts_measure.c). argv[0] is "links". */
int bench_hosts(int argc, char **argv);

struct tu_loader;
/* Creates a loader: an object that loads tiles and stores them. A load takes at least load_ns, a store at least
 * store_ns. A thread of its own executes the loads. Returns NULL if the thread cannot be created. */
struct tu_loader *bench_paced_open(uint64_t load_ns, uint64_t store_ns);
void bench_paced_close(struct tu_loader *loader);

#endif
