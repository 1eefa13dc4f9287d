/* chain.h: finds the rank that blocks the others. A waiting rank publishes which ranks it waits for. A rank whose
 * time-out has passed follows the published waits from rank to rank. */
#ifndef TU_CHAIN_H
#define TU_CHAIN_H

#include "comm/comm.h"

/* ---- publishing: a rank writes which ranks it waits for into the head of its slice of shared memory ---- */
/* Returns true if this thread may publish a wait again, because it has published none for 10 ms. */
bool tu_chain_is_due(uint64_t now);
/* Returns true if a wait that began at `since` is long enough to be published: at least 10 ms. */
bool tu_chain_is_long(uint64_t since, uint64_t now);
/* Returns true if that member has started the collective with this number; always true for number 0. */
bool tu_chain_has_come(const struct tutti_comm *comm, uint64_t number, uint32_t member);
/* Adds an entry to `waits`: this rank waits for the member in collective `number` (0: the wait is in no collective).
 * flags: TU_WAIT_... Does nothing if `waits` is full. */
void tu_chain_add(struct tu_waits *waits, const struct tutti_comm *comm, uint64_t number, uint32_t member,
                  uint16_t flags);
/* Publishes `waits`: which ranks this thread waits for, and since when. */
void tu_chain_tell(struct tu_transport *t, const struct tu_waits *waits, uint64_t now);
/* Publishes that this rank has waited since `since` for each member p with waits_for[p]. creates true: it waits until
 * these members have created their sides of the communicator. Does nothing if the wait is shorter than 10 ms, or if
 * this thread has published a wait within the last 10 ms. Any thread may call this function. */
void tu_chain_tell_members(const struct tutti_comm *comm, const bool waits_for[], bool creates, uint64_t since,
                           uint64_t now);
/* Like tu_chain_tell_members, but for one member. If the member is this rank itself, the wait is for a signal. */
void tu_chain_tell_one(const struct tutti_comm *comm, uint32_t member, uint64_t since, uint64_t now);
/* Like tu_chain_tell_one, but for a message of that member. TUTTI_ANY_RANK: of any rank. */
void tu_chain_tell_sender(const struct tutti_comm *comm, uint32_t member, uint64_t since, uint64_t now);
/* Publishes that this thread's wait on this endpoint is over. Cheap if the thread has published no wait. A thread that
 * completes a request of another endpoint (ranks may be threads of one process) may call this function with that
 * endpoint; its waits on other endpoints stay published. */
void tu_chain_go_on(struct tu_transport *t);

/* ---- following waits ---- */
/* Input of tu_chain_print: a wait whose time-out has passed. */
struct tu_chain_wait {
  const bool *members; /* [ranks]: true for each awaited rank; NULL: `member` is the only awaited rank */
  uint32_t member;
  uint64_t number; /* number of the collective; 0: the wait is in no collective */
  uint64_t since;
  bool creates; /* true: the wait is for the members to create their sides of a new communicator */
};
/* Follows the published waits from rank to rank. Prints the ranks that block the others, the most certain findings
 * first, and the chain of waits from this rank to the first of them. Returns false if this rank waits for no other
 * member. Any thread may call this function. */
bool tu_chain_print(const struct tutti_comm *comm, const struct tu_chain_wait *wait, char *text, size_t bytes);

#endif
