/* named_nonblocking.c: the named functions that start a call: tutti_iallreduce and so on. */
#include "call/start.h"

tutti_err tutti_iallreduce(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                           tutti_op op, tutti_request **request) {
  return tu_call_start_named(
      "tutti_iallreduce", comm,
      &(tutti_call){.collective = TUTTI_ALLREDUCE, .send = send, .recv = recv, .count = count, .type = type, .op = op},
      request);
}

tutti_err tutti_ireduce(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type, tutti_op op,
                        uint32_t root, tutti_request **request) {
  return tu_call_start_named(
      "tutti_ireduce", comm,
      &(tutti_call){
          .collective = TUTTI_REDUCE, .send = send, .recv = recv, .count = count, .type = type, .op = op, .root = root},
      request);
}

tutti_err tutti_ibroadcast(tutti_comm *comm, void *buffer, size_t count, tutti_datatype type, uint32_t root,
                           tutti_request **request) {
  return tu_call_start_named(
      "tutti_ibroadcast", comm,
      &(tutti_call){
          .collective = TUTTI_BROADCAST, .send = buffer, .recv = buffer, .count = count, .type = type, .root = root},
      request);
}

tutti_err tutti_igather(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                        uint32_t root, tutti_request **request) {
  return tu_call_start_named(
      "tutti_igather", comm,
      &(tutti_call){.collective = TUTTI_GATHER, .send = send, .recv = recv, .count = count, .type = type, .root = root},
      request);
}

tutti_err tutti_iscatter(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                         uint32_t root, tutti_request **request) {
  return tu_call_start_named(
      "tutti_iscatter", comm,
      &(tutti_call){
          .collective = TUTTI_SCATTER, .send = send, .recv = recv, .count = count, .type = type, .root = root},
      request);
}

tutti_err tutti_iallgather(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                           tutti_request **request) {
  return tu_call_start_named(
      "tutti_iallgather", comm,
      &(tutti_call){.collective = TUTTI_ALLGATHER, .send = send, .recv = recv, .count = count, .type = type}, request);
}

tutti_err tutti_ireduce_scatter(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                                tutti_op op, tutti_request **request) {
  return tu_call_start_named(
      "tutti_ireduce_scatter", comm,
      &(tutti_call){
          .collective = TUTTI_REDUCE_SCATTER, .send = send, .recv = recv, .count = count, .type = type, .op = op},
      request);
}

tutti_err tutti_ialltoall(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type,
                          tutti_request **request) {
  return tu_call_start_named(
      "tutti_ialltoall", comm,
      &(tutti_call){.collective = TUTTI_ALLTOALL, .send = send, .recv = recv, .count = count, .type = type}, request);
}

tutti_err tutti_ibarrier(tutti_comm *comm, tutti_request **request) {
  return tu_call_start_named("tutti_ibarrier", comm, &(tutti_call){.collective = TUTTI_BARRIER}, request);
}

tutti_err tutti_iscan(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type, tutti_op op,
                      tutti_request **request) {
  return tu_call_start_named(
      "tutti_iscan", comm,
      &(tutti_call){.collective = TUTTI_SCAN, .send = send, .recv = recv, .count = count, .type = type, .op = op},
      request);
}

tutti_err tutti_iexscan(tutti_comm *comm, const void *send, void *recv, size_t count, tutti_datatype type, tutti_op op,
                        tutti_request **request) {
  return tu_call_start_named(
      "tutti_iexscan", comm,
      &(tutti_call){.collective = TUTTI_EXSCAN, .send = send, .recv = recv, .count = count, .type = type, .op = op},
      request);
}

tutti_err tutti_igatherv(tutti_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                         const size_t *offsets, tutti_datatype type, uint32_t root, tutti_request **request) {
  return tu_call_start_named("tutti_igatherv", comm,
                             &(tutti_call){.collective = TUTTI_GATHERV,
                                           .send = send,
                                           .count = count,
                                           .recv = recv,
                                           .counts = counts,
                                           .offsets = offsets,
                                           .type = type,
                                           .root = root},
                             request);
}

tutti_err tutti_iscatterv(tutti_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                          size_t count, tutti_datatype type, uint32_t root, tutti_request **request) {
  return tu_call_start_named("tutti_iscatterv", comm,
                             &(tutti_call){.collective = TUTTI_SCATTERV,
                                           .send = send,
                                           .counts = counts,
                                           .offsets = offsets,
                                           .recv = recv,
                                           .count = count,
                                           .type = type,
                                           .root = root},
                             request);
}

tutti_err tutti_iallgatherv(tutti_comm *comm, const void *send, void *recv, const size_t *counts, const size_t *offsets,
                            tutti_datatype type, tutti_request **request) {
  return tu_call_start_named("tutti_iallgatherv", comm,
                             &(tutti_call){.collective = TUTTI_ALLGATHERV,
                                           .send = send,
                                           .recv = recv,
                                           .counts = counts,
                                           .offsets = offsets,
                                           .type = type},
                             request);
}

tutti_err tutti_ireduce_scatterv(tutti_comm *comm, const void *send, const size_t *counts, const size_t *offsets,
                                 void *recv, tutti_datatype type, tutti_op op, tutti_request **request) {
  return tu_call_start_named("tutti_ireduce_scatterv", comm,
                             &(tutti_call){.collective = TUTTI_REDUCE_SCATTERV,
                                           .send = send,
                                           .counts = counts,
                                           .offsets = offsets,
                                           .recv = recv,
                                           .type = type,
                                           .op = op},
                             request);
}

tutti_err tutti_ialltoallv(tutti_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                           const size_t *recv_counts, const size_t *recv_offsets, tutti_datatype type,
                           tutti_request **request) {
  return tu_call_start_named("tutti_ialltoallv", comm,
                             &(tutti_call){.collective = TUTTI_ALLTOALLV,
                                           .send = send,
                                           .counts = counts,
                                           .offsets = offsets,
                                           .recv = recv,
                                           .recv_counts = recv_counts,
                                           .recv_offsets = recv_offsets,
                                           .type = type},
                             request);
}

tutti_err tutti_isend(tutti_comm *comm, const void *buffer, size_t count, tutti_datatype type, uint32_t peer,
                      uint32_t tag, tutti_request **request) {
  return tu_call_start_named(
      "tutti_isend", comm,
      &(tutti_call){.collective = TUTTI_SEND, .send = buffer, .count = count, .type = type, .peer = peer, .tag = tag},
      request);
}

tutti_err tutti_irecv(tutti_comm *comm, void *buffer, size_t count, tutti_datatype type, uint32_t peer, uint32_t tag,
                      tutti_request **request) {
  return tu_call_start_named(
      "tutti_irecv", comm,
      &(tutti_call){.collective = TUTTI_RECV, .recv = buffer, .count = count, .type = type, .peer = peer, .tag = tag},
      request);
}
