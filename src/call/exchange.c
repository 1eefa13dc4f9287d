/* exchange.c: an allgather of a few bytes, for the library's own use. */
#include "call/exchange.h"

#include "algo/algo.h"
#include "algo/tuning.h"
#include "call/start.h"
#include "comm/failure.h"

/* With more ranks than this, the exchange uses an algorithm with few messages, whose plan is built quickly. */
#define EXCHANGE_RANKS 64u

/* Gathers `bytes` bytes of each rank on all ranks. Does not use the algorithm that TUTTI_ALGORITHM forces: that setting
 * is for the user's calls, and a forced algorithm may not support this exchange. */
tutti_err tu_comm_exchange(tutti_comm *comm, const void *mine, void *all, size_t bytes) {
  const struct tu_wanted wanted = {.collective = TUTTI_ALLGATHER,
                                   .ranks = comm->ranks,
                                   .bytes = bytes * comm->ranks,
                                   .group = comm->group,
                                   .placement = comm->placement,
                                   .share = comm->share};
  const struct tu_algorithm *algorithm;
  struct tu_error error;
  const struct tu_algorithm *few_messages =
      comm->ranks > EXCHANGE_RANKS ? tu_algorithm_find(TUTTI_ALLGATHER, "bruck") : NULL;
  tutti_err err = tu_tuning_choose(comm->tuning, few_messages, &wanted, &algorithm, &error);
  if (err != TUTTI_OK) return tu_comm_fail(comm, &error);
  const tutti_call call = {
      .collective = TUTTI_ALLGATHER,
      .send = mine,
      .recv = all,
      .count = bytes,
      .type = TUTTI_U8,
      .algorithm = algorithm->name,
      /* A call with a time-out is not kept (again.h). The buffers of this one do not come again. */
      .timeout_ms = comm->timeout_ms ? comm->timeout_ms : TUTTI_NO_TIMEOUT};
  return tu_call_and_wait(comm, &call);
}
