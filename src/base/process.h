/* process.h: which process is this? A child of fork() has another number than its parent. What a process makes keeps the number,
 * so that its use by a child is noticed, at the price of two loads: the number lies on a page that the kernel empties in
 * children, however they are made. */
#ifndef TU_PROCESS_H
#define TU_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern const _Atomic uint64_t *tu_process_word;

/* The number of this process, not 0. Any thread. *fresh (or NULL): this process has none of its parent, and none yet. */
uint64_t tu_process_number(bool *fresh);
/* Is this the process that had that number from tu_process_number? */
static inline bool tu_process_is(uint64_t number) {
  return atomic_load_explicit(tu_process_word, memory_order_relaxed) == number;
}

/* No thread can fork() in between: for what a child must not get. Short, and not nested. */
void tu_process_hold_forks(void);
void tu_process_allow_forks(void);

#endif
