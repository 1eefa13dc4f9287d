/* limits.c: the process's limit on file descriptors, and the number of open descriptors. Counting the open descriptors
 * takes time linear in their number. */
#include "base/limits.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

uint64_t tu_files_raise(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return 0;
  uint64_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? before : 0;
}

void tu_files_restore(uint64_t before) {
  struct rlimit limit;
  if (before == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = before;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

uint64_t tu_files_max(void) {
  struct rlimit limit;
  bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return known ? limit.rlim_cur : UINT64_MAX;
}

uint64_t tu_files_open(void) {
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) return 3;
  uint64_t count = 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count >= 3 ? count - 3 : 0; /* do not count ".", ".." and the descriptor of this directory itself */
}
