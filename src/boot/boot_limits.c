/* boot_limits.c: how many descriptors joining takes, and how many this process may have. */
#include <dirent.h>
#include <stdio.h>

#include "boot/boot_wire.h"

/* Two listeners, the memory, a question to the kernel, a connection that is refused; and some for other threads. */
enum { OWN = 5, SPARE = 3, GUESTS_MIN = 4 };

void tu_boot_descriptors_raise(rlim_t *before) {
  struct rlimit limit;
  *before = 0;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  *before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) *before = 0;
}

void tu_boot_descriptors_restore(rlim_t before) {
  struct rlimit limit;
  if (before == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = before;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Without /proc: the standard streams. */
static uint64_t count_open(void) {
  DIR *folder = opendir("/proc/self/fd");
  uint64_t count = 0;
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count >= 3 ? count - 3 : 3; /* ".", ".." and the folder itself */
}

tutti_err tu_boot_descriptors_guests(uint32_t ranks, uint32_t most, uint32_t *guests, struct tu_error *error) {
  struct rlimit limit;
  *guests = most;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return TUTTI_OK;
  uint64_t open = count_open(), needed = open + ranks - 1 + OWN + SPARE;
  if (needed + GUESTS_MIN > limit.rlim_cur) {
    return tu_fail(
        error, TUTTI_ERR_SYSTEM,
        "rank 0 of %u needs %llu file descriptors to let the others join, one for each of them, and %llu are "
        "open; the hard limit is %llu: raise it (ulimit -n), or start fewer ranks",
        ranks, (unsigned long long)(needed + GUESTS_MIN), (unsigned long long)open, (unsigned long long)limit.rlim_cur);
  }
  if (limit.rlim_cur - needed < most) *guests = (uint32_t)(limit.rlim_cur - needed);
  return TUTTI_OK;
}
