/* life.h: finds out whether a process still lives. A process is identified by its PID, and by values that distinguish
 * it from a later process with the same PID. Normally each live process holds a file lock that its peers query (shm.c).
 * The functions here are for the case in which this lock cannot be queried or proves nothing. */
#ifndef TU_LIFE_H
#define TU_LIFE_H

#include <stdbool.h>
#include <stdint.h>

struct tu_life {
  uint32_t pid;
  uint64_t started; /* start time of the process, in clock ticks since boot; 0: /proc is not available */
  uint64_t stack;   /* start address of the process's main stack, which changes on exec; 0: unknown */
};

/* What the kernel tells of a process. */
struct tu_life_line {
  uint64_t pid, parent, threads, started, stack;
  uint64_t ticks; /* CPU time, in clock ticks */
  char state;     /* R, S, D, T, t, Z, X: see proc_pid_stat(5) */
};
/* Reads /proc/PID/stat; pid 0: of this process. Returns false if there is no such process, or no /proc. */
bool tu_life_read(uint32_t pid, struct tu_life_line *line);

void tu_life_mine(struct tu_life *life);
/* Returns true if the process lives. The process must be in this process's PID namespace. A zombie (a process that has
 * exited, and whose parent has not waited for it) counts as dead. */
bool tu_life_goes_on(const struct tu_life *life);

#endif
