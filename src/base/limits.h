/* limits.h: how many file descriptors this process may have, and has. */
#ifndef TU_LIMITS_H
#define TU_LIMITS_H

#include <stdint.h>

/* Raises the soft limit to the hard one; returns what to restore, 0 if nothing was changed. The limit is the whole process's. */
uint64_t tu_files_raise(void);
void tu_files_restore(uint64_t before);

uint64_t tu_files_max(void);  /* the soft limit; UINT64_MAX if there is none */
uint64_t tu_files_open(void); /* how many are open; 3 where /proc is not mounted */

#endif
