/* sockets_bench.c: a bare allreduce of two ranks over one TCP connection, measured with the benchmark of tutti: same
 * command line, buffers, loop, checks and output. It has no framing and no plan, survives no failure, and never sleeps. For
 * short vectors, what a library adds to it is the price of the library. Long ones are not cut into slices, so a library
 * can be faster. bench-peers builds and runs it on two hosts. To run it by hand, with the address of rank 0:
 *   SOCKETS_ADDRESS=10.0.0.1:7000 tutti run --hosts 10.0.0.1,10.0.0.2 --env SOCKETS_ADDRESS -- sockets_bench */
#include <stdlib.h>
#include <unistd.h>

#include "bench/core/core.h"
#include "boot/identity.h"

/* Vectors of so many bytes are reduced in halves, one on each rank; shorter ones as a whole on both. */
#define HALVES_BYTES ((size_t)64 << 10)

struct side {
  struct bench_side side;
  const struct bench_case *c;
  int fd;
  float *came; /* [elements]: what has arrived from the other rank */
};

static struct side *self_of(struct bench_side *side) { return (struct side *)(void *)side; }

static void add(float *sum, const float *x, const float *y, size_t count) {
  for (size_t i = 0; i < count; i++) sum[i] = x[i] + y[i];
}

static bool reduce_whole(const struct side *s, const float *in, float *out, size_t count) {
  if (!bench_pair_exchange(s->fd, in, count * sizeof *in, s->came, count * sizeof *in)) return false;
  add(out, in, s->came, count);
  return true;
}

static bool reduce_halves(const struct side *s, const float *in, float *out, size_t count) {
  const size_t parts[] = {count / 2, count - count / 2};
  const size_t mine = parts[s->side.rank], other = parts[1 - s->side.rank];
  const size_t at = s->side.rank ? parts[0] : 0, other_at = s->side.rank ? 0 : parts[0];
  if (!bench_pair_exchange(s->fd, in + other_at, other * sizeof *in, s->came, mine * sizeof *in)) return false;
  add(out + at, in + at, s->came, mine);
  return bench_pair_exchange(s->fd, out + at, mine * sizeof *in, out + other_at, other * sizeof *in);
}

static bool select_case(struct bench_side *side, const struct bench_case *c) {
  struct side *s = self_of(side);
  s->c = c;
  free(s->came);
  s->came = malloc(c->count * sizeof *s->came);
  return s->came != NULL;
}

static bool operate(struct bench_side *side) {
  const struct side *s = self_of(side);
  const bool halves = s->c->count * sizeof(float) >= HALVES_BYTES;
  return (halves ? reduce_halves : reduce_whole)(s, s->c->in_data, s->c->out_data, s->c->count);
}

static bool barrier(struct bench_side *side) {
  char out = 0, in;
  return bench_pair_exchange(self_of(side)->fd, &out, 1, &in, 1);
}

static bool combine(struct bench_side *side, double *values, int count, tutti_op op) {
  for (int i = 0; i < count; i++) {
    double other;
    if (!bench_pair_exchange(self_of(side)->fd, &values[i], sizeof other, &other, sizeof other)) return false;
    values[i] = op == TUTTI_SUM ? values[i] + other : values[i] > other ? values[i] : other;
  }
  return true;
}

/* ---- the command ---- */

static int measure(struct side *s, const struct bench_options *options) {
  struct bench_item *items;
  uint32_t count;
  int code = bench_list_items("sockets_bench", options, s->side.ranks, s->side.rank != 0, &items, &count);
  if (code != CLI_GOOD) return code;
  for (uint32_t i = 0; i < count && code == CLI_GOOD; i++)
    if (items[i].collective != TUTTI_ALLREDUCE || options->type != TUTTI_F32 || options->op != TUTTI_SUM)
      code = cli_fail("sockets_bench", CLI_USAGE, "expected allreduce, of type f32 with operation sum");
  if (code == CLI_GOOD) code = bench_sweep(&s->side, options, items, count);
  free(items);
  return code;
}

static int run(int argc, char **argv) {
  const struct cli_verb self = {.name = "sockets_bench",
                                .summary = "measure a bare allreduce of two ranks over TCP",
                                .synopsis = "sockets_bench [allreduce] [options]   (started by tutti run)",
                                .run = run};
  struct bench_options options;
  struct tu_boot_identity identity;
  struct tu_error error;
  bool done;
  int code = bench_read_options(&self, argc, argv, &options, &done);
  if (code != CLI_GOOD || done) return code;
  if (tu_boot_identity_read(&identity, &error) != TUTTI_OK)
    return cli_fail("sockets_bench", CLI_USAGE, "%s", error.text);
  int fd;
  if ((code = bench_pair_connect("sockets_bench", "SOCKETS_ADDRESS", identity.rank, identity.ranks, &fd)) != CLI_GOOD)
    return code;
  struct side s = {.side = {.automatic = "sockets",
                            .select = select_case,
                            .operate = operate,
                            .barrier = barrier,
                            .combine = combine},
                   .fd = fd};
  s.side.rank = identity.rank;
  s.side.ranks = identity.ranks;
  code = measure(&s, &options);
  free(s.came);
  close(s.fd);
  return code;
}

int main(int argc, char **argv) { return run(argc, argv); }
