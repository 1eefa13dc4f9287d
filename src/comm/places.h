/* places.h: on which CPUs the ranks of a host wait. A waiting rank moves to another CPU if too many ranks wait on its own.
 *
 * The kernel distributes threads by how long they have run, and does not know that ranks wait for each other. Beside other
 * programs it puts two ranks on one CPU every few ms, although each could have its own. Then each message waits until the
 * kernel switches from one rank to the other: some us if they yield or sleep, a time slice (some ms) if they poll.
 *
 * Where ranks share CPUs, and all of them wait, each has a place: ranks that follow each other are on different CPUs.
 *
 * A rank moves by setting the affinity of its waiting thread to the new CPU, and at once back to what it was. So the thread
 * is not bound, and the kernel may move it again. A thread that is bound to one CPU never moves. */
#ifndef TU_PLACES_H
#define TU_PLACES_H

#include <sched.h>

#include "comm/comm.h"

#define TU_PLACES_NS 1000000u /* minimum time between two calls of tu_places_look, in ns */
#define TU_FRESH_NS 10000000u /* a rank counts as waiting on a CPU for this time after it has published it, in ns */
#define TU_BUSY_COST 0x10000u /* more than that of all ranks */
#define TU_ALLOWED_SEED 1u    /* of the hash that a rank publishes of its set of CPUs (tu_slice_head.allowed) */

/* Publishes on which CPU this thread runs at the time `now` (ns). If another CPU has fewer waiting ranks, moves to it, unless
 * `may_move` is false. Returns which ranks wait on its CPU then: bit i: the rank that comes i ranks after this one.
 * crowded: ranks share CPUs. Then a CPU that other programs use, as one of the ranks has noticed, is worse than one with any
 * number of ranks. And if all ranks of the host wait, and may use the same CPUs, each moves to the one of tu_places_own. */
uint64_t tu_places_look(const struct tu_transport *t, uint64_t now, bool may_move, bool crowded);

/* Returns the CPU of `allowed` on which a rank waits if ranks share CPUs and nothing else uses them: the first one for rank 0,
 * the next one for rank 1, and so on in turn. So neighbours in rank order can run at the same time: one root after the other,
 * and the ranks of a scan. */
uint32_t tu_places_own(const cpu_set_t *allowed, uint32_t rank);

/* Publishes that other programs use the CPU of this thread, until the time `until` (ns). */
void tu_places_note_busy(const struct tu_transport *t, uint64_t until);

/* Adds 1 to the cost of a CPU for each other rank that waits there, and TU_BUSY_COST if other programs use it and `crowded` is
 * true. */
void tu_places_costs(const struct tu_transport *t, uint64_t now, bool crowded, uint32_t cost[CPU_SETSIZE]);

/* Returns the CPU of `allowed` that has the lowest cost: `own` if no cost is lower, otherwise the one whose number is closest
 * to `own`. */
uint32_t tu_places_best(const cpu_set_t *allowed, const uint32_t cost[CPU_SETSIZE], uint32_t own);

#endif
