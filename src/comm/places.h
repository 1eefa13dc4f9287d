/* places.h: on which CPUs the ranks of a host wait. A waiting rank moves to another CPU if too many ranks wait on its own.
 *
 * The kernel distributes threads by how long they have run, and does not know that ranks wait for each other. Beside other
 * programs it puts two ranks on one CPU every few ms, although each could have its own. Then each message waits until the
 * kernel switches from one rank to the other: some us if they yield or sleep, a time slice (some ms) if they poll.
 *
 * Where ranks share CPUs, and all of them wait, each has a place. Ranks that follow each other are on different CPUs, unless
 * one CPU would then have clearly more work: as in an allgatherv to which each second rank gives the most.
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
 * number of ranks. If there is no such CPU, and all ranks of the host may use the same ones, each moves to its place while all of
 * them wait, and stays where it is otherwise; the first of them deals the places from time to time (tu_places_deal). */
uint64_t tu_places_look(const struct tu_transport *t, uint64_t now, bool may_move, bool crowded);

/* Deals `ranks` ranks to `cpus` CPUs, if ranks share CPUs and nothing else uses them. At most TU_SEEN_RANKS ranks, and fewer
 * CPUs than ranks. Rank r has worked for work[r] ns, of `passed` ns. place[r]: its CPU, from 0, so far and from now on.
 * Usually the ranks get the CPUs in turn. So neighbours in rank order can run at the same time: one root after the other, and
 * the ranks of a scan. If one CPU would then have clearly more work than it need have, the ranks keep their places; and if
 * that is so in these, too, each rank, from the one with the most work down, gets the CPU that has the least. */
void tu_places_deal(const uint64_t work[], uint64_t passed, uint32_t ranks, uint32_t cpus, uint32_t place[]);

/* Returns the number of the CPU that is number `place` of `allowed`, counted from 0, and from 0 again after the last one. */
uint32_t tu_places_own(const cpu_set_t *allowed, uint32_t place);

/* Publishes that other programs use the CPU of this thread, until the time `until` (ns). lasting: they have done so for some
 * time, so that ranks should leave that CPU. */
void tu_places_note_busy(const struct tu_transport *t, uint64_t until, bool lasting);

/* Adds 1 to the cost of a CPU for each other rank that waits there, and TU_BUSY_COST if other programs use it and `crowded` is
 * true. */
void tu_places_costs(const struct tu_transport *t, uint64_t now, bool crowded, uint32_t cost[CPU_SETSIZE]);

/* Returns the CPU of `allowed` that has the lowest cost: `own` if no cost is lower, otherwise the one whose number is closest
 * to `own`. */
uint32_t tu_places_best(const cpu_set_t *allowed, const uint32_t cost[CPU_SETSIZE], uint32_t own);

#endif
