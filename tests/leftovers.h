/* leftovers.h: finds what a case of a test has left behind: in its own process descriptors, threads, mappings of shared
 * memory and heap; child processes, also those of a process that has ended; files. */
#ifndef LEFTOVERS_H
#define LEFTOVERS_H

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct leftovers_held {
  uint64_t fds, threads;
  uint64_t mappings;   /* of the library's shared memory */
  uint64_t heap_bytes; /* 0 if the C library does not report it */
};

/* Returns the number of entries of a folder whose name contains `part`. */
static inline uint32_t leftovers_files(const char *path, const char *part) {
  uint32_t files = 0;
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) files += strstr(entry->d_name, part) != NULL;
  if (folder) closedir(folder);
  return files;
}

/* Returns what this process holds now. */
static inline struct leftovers_held leftovers_look(void) {
  /* Not what libfabric keeps: it closes connections of strangers late, and has state that lasts. */
  const bool by_fabric = getenv("TUTTI_FABRIC") != NULL;
  struct leftovers_held held = {.fds = by_fabric ? 0 : leftovers_files("/proc/self/fd", ""),
                                .threads = leftovers_files("/proc/self/task", "")};
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  struct mallinfo2 heap = mallinfo2();
  held.heap_bytes = by_fabric ? 0 : heap.uordblks + heap.hblkhd;
#endif
  char line[512];
  FILE *file = fopen("/proc/self/maps", "r");
  while (file && fgets(line, sizeof line, file)) held.mappings += strstr(line, "/memfd:tutti") != NULL;
  if (file) fclose(file);
  return held;
}

/* From now on, a process whose parent ends becomes a child of this process, if the parent is a descendant of it. */
static inline void leftovers_adopt(void) { (void)prctl(PR_SET_CHILD_SUBREAPER, 1); }

/* Kills all children of this process, and waits for them. Returns how many there were, zombies included. */
static inline uint32_t leftovers_end_children(void) {
  uint32_t count = 0;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  for (;;) {
    /* A child that is killed may leave children of its own, which become children of this process. */
    FILE *file = fopen(path, "r");
    for (int pid; file && fscanf(file, "%d", &pid) == 1;) kill((pid_t)pid, SIGKILL);
    if (file) fclose(file);
    pid_t ended = waitpid(-1, NULL, file ? 0 : WNOHANG);
    if (ended == 0) return count + 1; /* the kernel does not list children */
    if (ended < 0 && errno != EINTR) return count;
    count += ended > 0;
  }
}

#endif
