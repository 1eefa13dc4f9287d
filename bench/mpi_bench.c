/* mpi_bench.c: measures an MPI library with the benchmark of tutti: same command line, buffers, loop, checks and
 * output. bench-peers builds and runs it. To run it by hand: mpirun -n 2 mpi_bench allreduce --bytes 8:64K. */
#include <mpi.h>
#include <stdlib.h>

#include "bench/core/core.h"

struct mpi_side {
  struct bench_side side;
  const struct bench_case *c;
  int *counts, *offsets; /* [ranks]: block lengths and displacements of a vector variant */
  MPI_Datatype type;
  MPI_Op op;
};

static struct mpi_side *self_of(struct bench_side *side) { return (struct mpi_side *)(void *)side; }

/* Returns true on success. By default, MPI prints an error and aborts the job before it returns an error code. */
static bool check(int err) { return err == MPI_SUCCESS; }

static bool find_type(tutti_datatype type, MPI_Datatype *found) {
  switch (type) {
    case TUTTI_I8: *found = MPI_INT8_T; return true;
    case TUTTI_U8: *found = MPI_UINT8_T; return true;
    case TUTTI_I16: *found = MPI_INT16_T; return true;
    case TUTTI_U16: *found = MPI_UINT16_T; return true;
    case TUTTI_I32: *found = MPI_INT32_T; return true;
    case TUTTI_U32: *found = MPI_UINT32_T; return true;
    case TUTTI_I64: *found = MPI_INT64_T; return true;
    case TUTTI_U64: *found = MPI_UINT64_T; return true;
    case TUTTI_BOOL: *found = MPI_C_BOOL; return true;
    case TUTTI_F32: *found = MPI_FLOAT; return true;
    case TUTTI_F64: *found = MPI_DOUBLE; return true;
    default: return false;
  }
}

static bool find_op(tutti_op op, MPI_Op *found) {
  switch (op) {
    case TUTTI_SUM: *found = MPI_SUM; return true;
    case TUTTI_PROD: *found = MPI_PROD; return true;
    case TUTTI_MIN: *found = MPI_MIN; return true;
    case TUTTI_MAX: *found = MPI_MAX; return true;
    case TUTTI_BAND: *found = MPI_BAND; return true;
    case TUTTI_BOR: *found = MPI_BOR; return true;
    case TUTTI_BXOR: *found = MPI_BXOR; return true;
    case TUTTI_LAND: *found = MPI_LAND; return true;
    case TUTTI_LOR: *found = MPI_LOR; return true;
    case TUTTI_LXOR: *found = MPI_LXOR; return true;
    default: return false;
  }
}

static bool select_case(struct bench_side *side, const struct bench_case *c) {
  struct mpi_side *s = self_of(side);
  s->c = c;
  if (!c->counts) return true;
  int offset = 0;
  for (uint32_t r = 0; r < c->ranks; r++) {
    s->counts[r] = (int)c->counts[r];
    s->offsets[r] = offset;
    offset += s->counts[r];
  }
  return true;
}

static bool operate_vector(struct mpi_side *s) {
  const struct bench_case *c = s->c;
  const void *in = c->in_data;
  void *out = c->out_data;
  int count = (int)c->count, root = (int)c->root;
  MPI_Datatype t = s->type;
  MPI_Comm w = MPI_COMM_WORLD;
  switch (c->collective) {
    case TUTTI_GATHERV: return check(MPI_Gatherv(in, count, t, out, s->counts, s->offsets, t, root, w));
    case TUTTI_SCATTERV: return check(MPI_Scatterv(in, s->counts, s->offsets, t, out, count, t, root, w));
    case TUTTI_ALLGATHERV: return check(MPI_Allgatherv(in, count, t, out, s->counts, s->offsets, t, w));
    case TUTTI_REDUCE_SCATTERV: return check(MPI_Reduce_scatter(in, out, s->counts, t, s->op, w));
    default: return check(MPI_Alltoallv(in, s->counts, s->offsets, t, out, s->counts, s->offsets, t, w));
  }
}

static bool operate(struct bench_side *side) {
  struct mpi_side *s = self_of(side);
  const struct bench_case *c = s->c;
  const void *in = c->in_data;
  void *out = c->out_data;
  int count = (int)c->count, root = (int)c->root;
  MPI_Datatype t = s->type;
  MPI_Comm w = MPI_COMM_WORLD;
  switch (c->collective) {
    case TUTTI_ALLREDUCE: return check(MPI_Allreduce(in, out, count, t, s->op, w));
    case TUTTI_REDUCE: return check(MPI_Reduce(in, out, count, t, s->op, root, w));
    case TUTTI_BROADCAST: return check(MPI_Bcast(c->rank == c->root ? c->in_data : out, count, t, root, w));
    case TUTTI_GATHER: return check(MPI_Gather(in, count, t, out, count, t, root, w));
    case TUTTI_SCATTER: return check(MPI_Scatter(in, count, t, out, count, t, root, w));
    case TUTTI_ALLGATHER: return check(MPI_Allgather(in, count, t, out, count, t, w));
    case TUTTI_REDUCE_SCATTER: return check(MPI_Reduce_scatter_block(in, out, count, t, s->op, w));
    case TUTTI_ALLTOALL: return check(MPI_Alltoall(in, count, t, out, count, t, w));
    case TUTTI_BARRIER: return check(MPI_Barrier(w));
    case TUTTI_SCAN: return check(MPI_Scan(in, out, count, t, s->op, w));
    case TUTTI_EXSCAN: return check(MPI_Exscan(in, out, count, t, s->op, w));
    case TUTTI_SEND:
      if (c->rank == 0) return check(MPI_Send(in, count, t, 1, 0, w));
      return check(MPI_Recv(out, count, t, 0, 0, w, MPI_STATUS_IGNORE));
    default: return operate_vector(s);
  }
}

static bool barrier(struct bench_side *side) {
  (void)side;
  return check(MPI_Barrier(MPI_COMM_WORLD));
}

static bool combine(struct bench_side *side, double *values, int count, tutti_op op) {
  (void)side;
  return check(
      MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, op == TUTTI_SUM ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD));
}

static int run_rank(struct mpi_side *s, const struct bench_options *options) {
  bool quiet = s->side.rank != 0;
  if (!find_type(options->type, &s->type) || !find_op(options->op, &s->op))
    return quiet ? CLI_USAGE : cli_fail("mpi_bench", CLI_USAGE, "--dtype, --op: MPI has no such type or operation");
  struct bench_item *items;
  uint32_t item_count;
  int code = bench_list_items("mpi_bench", options, s->side.ranks, quiet, &items, &item_count);
  if (code != CLI_GOOD) return code;
  s->counts = tu_allocate(s->side.ranks, sizeof *s->counts);
  s->offsets = tu_allocate(s->side.ranks, sizeof *s->offsets);
  code = bench_sweep(&s->side, options, items, item_count);
  free(s->counts);
  free(s->offsets);
  free(items);
  return code;
}

static int run(int argc, char **argv) {
  const struct cli_verb self = {.name = "mpi_bench",
                                .summary = "measure the collectives of an MPI library in the way of tutti bench",
                                .synopsis = "mpi_bench [COLLECTIVE ...] [options]   (started by mpirun)",
                                .run = run};
  struct bench_options options;
  bool done;
  int code = bench_read_options(&self, argc, argv, &options, &done);
  if (code != CLI_GOOD || done) return code;
  if (options.plan) return cli_fail("mpi_bench", CLI_USAGE, "--plan: not supported with MPI");
  if (options.poll) return cli_fail("mpi_bench", CLI_USAGE, "--poll: not supported with MPI");
  if (options.lanes) return cli_fail("mpi_bench", CLI_USAGE, "--lanes: not supported with MPI");
  struct mpi_side s = {
      .side = {.automatic = "mpi", .select = select_case, .operate = operate, .barrier = barrier, .combine = combine}};
  int rank, ranks, provided;
  MPI_Init_thread(&argc, &argv, options.pool ? MPI_THREAD_FUNNELED : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  s.side.rank = (uint32_t)rank;
  s.side.ranks = (uint32_t)ranks;
  code = run_rank(&s, &options);
  MPI_Finalize();
  return code;
}

int main(int argc, char **argv) { return run(argc, argv); }
