/* life.h: does a process still live? By its number and what tells it from a later one of that number: for when the lock that
 * says so (shm.c) cannot be asked. */
#ifndef TU_LIFE_H
#define TU_LIFE_H

#include <stdbool.h>
#include <stdint.h>

struct tu_life {
  uint32_t pid;
  uint64_t started; /* when, in ticks of the clock since boot; 0: there is no /proc that could say */
  uint64_t stack;   /* where its first stack begins: exec moves it; 0: not known */
};

void tu_life_mine(struct tu_life *life);
/* It must be in this process's namespace of process numbers. A process that has ended and that its parent has not waited for
 * is dead. */
bool tu_life_goes_on(const struct tu_life *life);

#endif
