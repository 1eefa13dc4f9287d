/* mpi_door_cost.c: measures what the door adds to calls of tutti: MPI_Allreduce and others of 8 bytes, which the door
 * carries out with tutti, against the functions of tutti, in turns within one process. tools/bench-mpi --cost runs it.
 *
 *   mpirun -n RANKS [-x LD_PRELOAD=...] mpi_door_cost      prints lines "COLLECTIVE MPI_NS TUTTI_NS"
 *
 * With one rank, MPI_COMM_SELF is used. Times are those of the slowest rank, medians of TURNS loops. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

enum { TURNS = 21, CALLS = 4000, WARM = 100 };

static MPI_Comm comm;
static tutti_comm *ours;
static double in[1] = {1}, out[64];

static void check(tutti_err err) {
  if (err == TUTTI_OK) return;
  fprintf(stderr, "mpi_door_cost: %s\n", tutti_error_message(ours));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void mpi_allreduce(void) { MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, comm); }
static void mpi_broadcast(void) { MPI_Bcast(in, 1, MPI_DOUBLE, 0, comm); }
static void mpi_allgather(void) { MPI_Allgather(in, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, comm); }
static void mpi_barrier(void) { MPI_Barrier(comm); }
static void mpi_iallreduce(void) {
  MPI_Request request;
  MPI_Iallreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void tutti_allreduce_once(void) { check(tutti_allreduce(ours, in, out, 1, TUTTI_F64, TUTTI_SUM)); }
static void tutti_broadcast_once(void) { check(tutti_broadcast(ours, in, 1, TUTTI_F64, 0)); }
static void tutti_allgather_once(void) { check(tutti_allgather(ours, in, out, 1, TUTTI_F64)); }
static void tutti_barrier_once(void) { check(tutti_barrier(ours)); }
static void tutti_iallreduce_once(void) {
  const tutti_call call = {
      .collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = 1, .type = TUTTI_F64, .op = TUTTI_SUM};
  tutti_request *request;
  check(tutti_start(ours, &call, &request));
  check(tutti_wait(&request));
}

static const struct pair {
  const char *name;
  void (*mpi)(void);
  void (*tutti)(void);
} pairs[] = {
    {"allreduce", mpi_allreduce, tutti_allreduce_once},    {"broadcast", mpi_broadcast, tutti_broadcast_once},
    {"allgather", mpi_allgather, tutti_allgather_once},    {"barrier", mpi_barrier, tutti_barrier_once},
    {"iallreduce", mpi_iallreduce, tutti_iallreduce_once},
};

static double time_ns(void (*call)(void)) {
  for (int i = 0; i < WARM; i++) call();
  PMPI_Barrier(comm);
  const double start = MPI_Wtime();
  for (int i = 0; i < CALLS; i++) call();
  double mine = (MPI_Wtime() - start) * 1e9 / CALLS, slowest = 0;
  PMPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm);
  return slowest;
}

static int compare(const void *left, const void *right) {
  const double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static void measure(const struct pair *p, int rank) {
  double mpi_ns[TURNS], tutti_ns[TURNS];
  for (int i = 0; i < TURNS; i++) {
    mpi_ns[i] = time_ns(p->mpi);
    tutti_ns[i] = time_ns(p->tutti);
  }
  qsort(mpi_ns, TURNS, sizeof mpi_ns[0], compare);
  qsort(tutti_ns, TURNS, sizeof tutti_ns[0], compare);
  if (rank == 0) printf("%s %.1f %.1f\n", p->name, mpi_ns[TURNS / 2], tutti_ns[TURNS / 2]);
}

static int exchange(void *context, const void *mine, void *all, size_t bytes) {
  (void)context;
  return PMPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD) != MPI_SUCCESS;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  comm = ranks == 1 ? MPI_COMM_SELF : MPI_COMM_WORLD;
  const tutti_bootstrap bootstrap = {.rank = (uint32_t)rank, .ranks = (uint32_t)ranks, .allgather = exchange};
  tutti_comm *world;
  check(tutti_init(&(tutti_options){.bootstrap = &bootstrap}, &world));
  ours = world;
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) measure(&pairs[i], rank);
  tutti_comm_close(world);
  MPI_Finalize();
  return 0;
}
