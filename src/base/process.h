/* process.h: numbers by which a process and its children can be told apart. With them the library detects that a child
 * uses an object of its parent: each object stores the number of the process that made it. The check costs two loads.
 *
 * The number of a process lies on a page that the kernel clears in every child. This also works for children that were
 * made without fork() of the C library. A child therefore has no number at first, and draws a new one. */
#ifndef TU_PROCESS_H
#define TU_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern const _Atomic uint64_t *tu_process_word; /* the number of this process; 0: the process has none yet */

/* Returns the number of this process, which is never 0. The first call in a process draws the number and sets *fresh to
 * true; all later calls set it to false. fresh may be NULL. Any thread may call. */
uint64_t tu_process_number(bool *fresh);
/* Returns true if tu_process_number returned `number` in this process; returns false in a child of that process. */
static inline bool tu_process_is(uint64_t number) {
  return atomic_load_explicit(tu_process_word, memory_order_relaxed) == number;
}

/* Blocks fork() in all threads until tu_process_allow_forks is called. Used while a resource is created that a child
 * must not inherit. Block fork() only briefly, and do not nest these calls. */
void tu_process_hold_forks(void);
void tu_process_allow_forks(void);

/* From now on, children of fork() close the descriptor. Otherwise a connection would stay open when this process ends, as
 * long as a child lives. Returns false if out of memory. */
bool tu_process_keep_own(int fd);
/* Ends that. Called before the descriptor is closed. */
void tu_process_give_up(int fd);

#endif
