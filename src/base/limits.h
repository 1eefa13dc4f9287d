/* limits.h: the limit on file descriptors of this process, and the number of descriptors that are open. */
#ifndef TU_LIMITS_H
#define TU_LIMITS_H

#include <stdint.h>

/* Raises the process's soft limit on file descriptors to its hard limit. Returns the old soft limit, which the caller
 * passes to tu_files_restore; 0 if nothing was changed. */
uint64_t tu_files_raise(void);
void tu_files_restore(uint64_t before);

/* Returns the soft limit on file descriptors; UINT64_MAX if there is no limit. */
uint64_t tu_files_max(void);
/* Returns the number of open file descriptors; if /proc is not mounted, 3 is assumed. */
uint64_t tu_files_open(void);

#endif
