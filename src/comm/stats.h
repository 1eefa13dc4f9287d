/* stats.h: how long the ranks of a communicator wait for each other. Only waits count in which a thread has read the clock,
 * because its polls were in vain for some time: a rank that never waits pays nothing. */
#ifndef TU_STATS_H
#define TU_STATS_H

#include "comm/comm.h"

/* How long this rank has waited for another, in ns. */
struct tu_awaited {
  uint64_t ns;
  uint64_t told_ns; /* part of it that has been published */
};

/* A thread that holds the communicator has waited, and goes on. Does nothing if the wait was short. */
void tu_stats_count(struct tutti_comm *comm, struct tu_stall *stall);
/* Called for each wait of a run that counts; NULL: there is no trace. */
extern void (*tu_when_waited)(uint32_t run, uint32_t rank, uint64_t from, uint64_t until);
/* Publishes the waits that were counted: at the end of the communicator. */
void tu_stats_tell(struct tutti_comm *comm);

/* Writes into the log how long this rank has waited, and for which rank most. */
void tu_stats_log(struct tutti_comm *comm);

#endif
