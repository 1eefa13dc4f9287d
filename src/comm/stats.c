/* stats.c: counts how long this rank waits for the others, and publishes it in the shared block: its own total at once, on
 * its board; the time for each of the others once it has grown by TELL_NS, because several ranks add to that. */
#include "comm/stats.h"

#include "base/log.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "comm/patience.h"

#define TELL_NS UINT64_C(1000000)

void (*tu_when_waited)(uint32_t run, uint32_t rank, uint64_t from, uint64_t until);

static struct tu_board *board(const struct tutti_comm *comm, uint32_t rank) {
  return &comm->mover->control.boards[rank];
}

static void tell(struct tutti_comm *comm, uint32_t rank) {
  struct tu_awaited *a = &comm->awaited[rank];
  atomic_fetch_add_explicit(&comm->mover->control.awaited_ns[rank], a->ns - a->told_ns, memory_order_relaxed);
  a->told_ns = a->ns;
}

void tu_stats_count(struct tutti_comm *comm, struct tu_stall *s) {
  if (s->since == 0 || s->awaits == 0 || !comm->mover->control.block) return;
  /* The wait usually ends right after a yield or a sleep, whose end was timed. */
  const uint64_t from = s->counted ? s->counted : s->since;
  const uint64_t rested = tu_core_watch.rested_at, now = rested > from ? rested : tu_clock_ns();
  const uint32_t rank = s->awaits - 1;
  struct tu_awaited *a = &comm->awaited[rank];
  const uint64_t ns = tu_elapsed_ns(from, now);
  _Atomic uint64_t *mine = &board(comm, comm->rank)->waited_ns; /* only this rank writes it */
  a->ns += ns;
  s->counted = now;
  atomic_store_explicit(mine, atomic_load_explicit(mine, memory_order_relaxed) + ns, memory_order_relaxed);
  if (a->ns - a->told_ns >= TELL_NS) tell(comm, rank);
  if (tu_when_waited && s->run != 0) tu_when_waited(s->run, rank, from, now);
}

void tu_stats_tell(struct tutti_comm *comm) {
  for (uint32_t r = 0; r < comm->ranks; r++)
    if (comm->awaited[r].ns > comm->awaited[r].told_ns) tell(comm, r);
}

void tu_stats_log(struct tutti_comm *comm) {
  uint32_t most = 0;
  if (!comm->mover->control.block || comm->ranks == 1) return;
  tu_stats_tell(comm);
  for (uint32_t r = 0; r < comm->ranks; r++)
    if (comm->awaited[r].ns > comm->awaited[most].ns) most = r;
  tu_log(
      TU_LOG_INFO, "end",
      "communicator %llx: %llu collectives; waited %.3f s in all, longest for rank %u: %.3f s; the ranks of this host "
      "have waited %.3f s for this rank",
      (unsigned long long)comm->mover->control.comm_id, (unsigned long long)comm->number,
      (double)atomic_load(&board(comm, comm->rank)->waited_ns) * 1e-9, most, (double)comm->awaited[most].ns * 1e-9,
      (double)atomic_load(&comm->mover->control.awaited_ns[comm->rank]) * 1e-9);
}

tutti_err tutti_stats(tutti_comm *comm, uint32_t rank, tutti_rank_stats *stats) {
  struct tu_visit visit;
  struct tu_error error;
  if (!comm || !stats) return tu_refuse_null("tutti_stats", comm ? "stats" : "comm");
  if (rank >= comm->ranks) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_stats: rank is %u; expected one of 0 to %u", rank, comm->ranks - 1);
    return tu_thread_error(&error);
  }
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_stats");
  tu_stats_tell(comm);
  const struct tu_board *b = board(comm, rank);
  *stats = (tutti_rank_stats){.calls = atomic_load(&b->latest),
                              .messages = atomic_load(&b->messages),
                              .message_bytes = atomic_load(&b->message_bytes),
                              .waited_ns = atomic_load(&b->waited_ns),
                              .awaited_ns = atomic_load(&comm->mover->control.awaited_ns[rank]),
                              .awaited_here_ns = comm->awaited[rank].ns};
  tu_leave(&visit);
  return TUTTI_OK;
}
