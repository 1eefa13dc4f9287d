/* collectives.h: the collectives of MPI that the door takes, as a table. Each has a row of three macros:
 *
 *   TM_PARAMETERS_Name(N, D)   the parameters of MPI_Name, without the request of other forms. N: type of a count; D: type of
 *                              a displacement. (int, int), or (MPI_Count, MPI_Aint) for MPI_Name_c
 *   TM_FIELDS_Name             the fields of struct tm_call that these parameters set
 *   TM_ARGUMENTS_Name(c, N)    the arguments of a call of PMPI_Name, from a struct tm_call *c
 *
 * Source: MPI 4.0, chapter 6. */
#ifndef TM_COLLECTIVES_H
#define TM_COLLECTIVES_H

/* MPI_Barrier counts nothing, and has no MPI_Barrier_c. */
#define TM_COLLECTIVES(X) TM_COUNTING(X) X(Barrier, barrier)
/* clang-format off */
#define TM_COUNTING(X)                                                                                            \
  X(Allreduce, allreduce) X(Reduce, reduce) X(Bcast, bcast) X(Gather, gather) X(Gatherv, gatherv)                 \
  X(Scatter, scatter) X(Scatterv, scatterv) X(Allgather, allgather) X(Allgatherv, allgatherv)                     \
  X(Alltoall, alltoall) X(Alltoallv, alltoallv) X(Reduce_scatter, reduce_scatter)                                 \
  X(Reduce_scatter_block, reduce_scatter_block) X(Scan, scan) X(Exscan, exscan)
/* clang-format on */

#define TM_ENUM(Name, name) TM_##Name,
enum tm_kind { TM_COLLECTIVES(TM_ENUM) TM_KINDS };
#undef TM_ENUM

/* ---- reductions ---- */

#define TM_PARAMETERS_Allreduce(N, D) \
  const void *sendbuf, void *recvbuf, N count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm
#define TM_FIELDS_Allreduce \
  .send = {.buffer = sendbuf, .count = count, .type = datatype}, .recv = {.buffer = recvbuf}, .op = op, .comm = comm
#define TM_ARGUMENTS_Allreduce(c, N) \
  (c)->send.buffer, (c)->recv.target, (N)(c)->send.count, (c)->send.type, (c)->op, (c)->comm

#define TM_PARAMETERS_Scan TM_PARAMETERS_Allreduce
#define TM_FIELDS_Scan TM_FIELDS_Allreduce
#define TM_ARGUMENTS_Scan TM_ARGUMENTS_Allreduce

#define TM_PARAMETERS_Exscan TM_PARAMETERS_Allreduce
#define TM_FIELDS_Exscan TM_FIELDS_Allreduce
#define TM_ARGUMENTS_Exscan TM_ARGUMENTS_Allreduce

#define TM_PARAMETERS_Reduce_scatter_block TM_PARAMETERS_Allreduce
#define TM_FIELDS_Reduce_scatter_block TM_FIELDS_Allreduce
#define TM_ARGUMENTS_Reduce_scatter_block TM_ARGUMENTS_Allreduce

#define TM_PARAMETERS_Reduce(N, D) \
  const void *sendbuf, void *recvbuf, N count, MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm
#define TM_FIELDS_Reduce TM_FIELDS_Allreduce, .root = root
#define TM_ARGUMENTS_Reduce(c, N) \
  (c)->send.buffer, (c)->recv.target, (N)(c)->send.count, (c)->send.type, (c)->op, (c)->root, (c)->comm

#define TM_PARAMETERS_Reduce_scatter(N, D) \
  const void *sendbuf, void *recvbuf, const N recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm comm
#define TM_FIELDS_Reduce_scatter                                                                              \
  .send = {.buffer = sendbuf, .counts = recvcounts, .type = datatype}, .recv = {.buffer = recvbuf}, .op = op, \
  .comm = comm
#define TM_ARGUMENTS_Reduce_scatter(c, N) \
  (c)->send.buffer, (c)->recv.target, (c)->send.counts, (c)->send.type, (c)->op, (c)->comm

/* ---- moves ---- */

#define TM_PARAMETERS_Barrier(N, D) MPI_Comm comm
#define TM_FIELDS_Barrier .comm = comm
#define TM_ARGUMENTS_Barrier(c, N) (c)->comm

#define TM_PARAMETERS_Bcast(N, D) void *buffer, N count, MPI_Datatype datatype, int root, MPI_Comm comm
#define TM_FIELDS_Bcast .recv = {.buffer = buffer, .count = count, .type = datatype}, .root = root, .comm = comm
#define TM_ARGUMENTS_Bcast(c, N) (c)->recv.target, (N)(c)->recv.count, (c)->recv.type, (c)->root, (c)->comm

#define TM_PARAMETERS_Allgather(N, D)                                                                         \
  const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount, MPI_Datatype recvtype, \
      MPI_Comm comm
#define TM_FIELDS_Allgather                                          \
  .send = {.buffer = sendbuf, .count = sendcount, .type = sendtype}, \
  .recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype}, .comm = comm
#define TM_ARGUMENTS_Allgather(c, N) \
  (c)->send.buffer, (N)(c)->send.count, (c)->send.type, (c)->recv.target, (N)(c)->recv.count, (c)->recv.type, (c)->comm

#define TM_PARAMETERS_Alltoall TM_PARAMETERS_Allgather
#define TM_FIELDS_Alltoall TM_FIELDS_Allgather
#define TM_ARGUMENTS_Alltoall TM_ARGUMENTS_Allgather

#define TM_PARAMETERS_Gather(N, D)                                                                            \
  const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, N recvcount, MPI_Datatype recvtype, \
      int root, MPI_Comm comm
#define TM_FIELDS_Gather TM_FIELDS_Allgather, .root = root
#define TM_ARGUMENTS_Gather(c, N)                                                                             \
  (c)->send.buffer, (N)(c)->send.count, (c)->send.type, (c)->recv.target, (N)(c)->recv.count, (c)->recv.type, \
      (c)->root, (c)->comm

#define TM_PARAMETERS_Scatter TM_PARAMETERS_Gather
#define TM_FIELDS_Scatter TM_FIELDS_Gather
#define TM_ARGUMENTS_Scatter TM_ARGUMENTS_Gather

#define TM_PARAMETERS_Gatherv(N, D)                                                                               \
  const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, const N recvcounts[], const D displs[], \
      MPI_Datatype recvtype, int root, MPI_Comm comm
#define TM_FIELDS_Gatherv TM_FIELDS_Allgatherv, .root = root
#define TM_ARGUMENTS_Gatherv(c, N)                                                                            \
  (c)->send.buffer, (N)(c)->send.count, (c)->send.type, (c)->recv.target, (c)->recv.counts, (c)->recv.displs, \
      (c)->recv.type, (c)->root, (c)->comm

#define TM_PARAMETERS_Allgatherv(N, D)                                                                            \
  const void *sendbuf, N sendcount, MPI_Datatype sendtype, void *recvbuf, const N recvcounts[], const D displs[], \
      MPI_Datatype recvtype, MPI_Comm comm
#define TM_FIELDS_Allgatherv                                         \
  .send = {.buffer = sendbuf, .count = sendcount, .type = sendtype}, \
  .recv = {.buffer = recvbuf, .counts = recvcounts, .displs = displs, .type = recvtype}, .comm = comm
#define TM_ARGUMENTS_Allgatherv(c, N)                                                                         \
  (c)->send.buffer, (N)(c)->send.count, (c)->send.type, (c)->recv.target, (c)->recv.counts, (c)->recv.displs, \
      (c)->recv.type, (c)->comm

#define TM_PARAMETERS_Scatterv(N, D)                                                                              \
  const void *sendbuf, const N sendcounts[], const D displs[], MPI_Datatype sendtype, void *recvbuf, N recvcount, \
      MPI_Datatype recvtype, int root, MPI_Comm comm
#define TM_FIELDS_Scatterv                                                               \
  .send = {.buffer = sendbuf, .counts = sendcounts, .displs = displs, .type = sendtype}, \
  .recv = {.buffer = recvbuf, .count = recvcount, .type = recvtype}, .root = root, .comm = comm
#define TM_ARGUMENTS_Scatterv(c, N)                                                                           \
  (c)->send.buffer, (c)->send.counts, (c)->send.displs, (c)->send.type, (c)->recv.target, (N)(c)->recv.count, \
      (c)->recv.type, (c)->root, (c)->comm

#define TM_PARAMETERS_Alltoallv(N, D)                                                                 \
  const void *sendbuf, const N sendcounts[], const D sdispls[], MPI_Datatype sendtype, void *recvbuf, \
      const N recvcounts[], const D rdispls[], MPI_Datatype recvtype, MPI_Comm comm
#define TM_FIELDS_Alltoallv                                                               \
  .send = {.buffer = sendbuf, .counts = sendcounts, .displs = sdispls, .type = sendtype}, \
  .recv = {.buffer = recvbuf, .counts = recvcounts, .displs = rdispls, .type = recvtype}, .comm = comm
#define TM_ARGUMENTS_Alltoallv(c, N)                                                                        \
  (c)->send.buffer, (c)->send.counts, (c)->send.displs, (c)->send.type, (c)->recv.target, (c)->recv.counts, \
      (c)->recv.displs, (c)->recv.type, (c)->comm

#endif
