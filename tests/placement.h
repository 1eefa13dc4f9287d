/* placement.h: puts the ranks of a test on hosts, without the test's knowledge. TEST_HOSTS is a list of words, which rank
 * 0 and the following ranks take in turns: a name, which becomes TUTTI_HOST; NAME=FABRIC, where the second becomes
 * TUTTI_FABRIC; or @PID:LINK, the namespaces of that process and the link to them (tests/netns.sh makes such hosts).
 * TEST_MASTER_ADDR is the address of rank 0; by default
 * the test's own choice. */
#ifndef PLACEMENT_H
#define PLACEMENT_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the number of words in TEST_HOSTS. Copies the word of rank `rank` to `word`. */
static inline uint32_t placement_word(uint32_t rank, char *word, size_t bytes) {
  const char *list = getenv("TEST_HOSTS");
  uint32_t count = 0;
  for (const char *at = list; at && *(at += strspn(at, " ")); at += strcspn(at, " ")) count++;
  const char *at = list;
  for (uint32_t i = 0; count > 0 && i <= rank % count; i++, at += i <= rank % count ? strcspn(at, " ") : 0)
    at += strspn(at, " ");
  if (count > 0) snprintf(word, bytes, "%.*s", (int)strcspn(at, " "), at);
  return count;
}

static inline uint32_t placement_count(void) {
  char word[64];
  return placement_word(0, word, sizeof word);
}

/* Moves this process, which must have one thread, into the namespaces of a process. Its folder stays the same. */
static inline void placement_enter_namespaces(const char *pid) {
  static const char *const kinds[] = {"net", "uts", "ipc", "mnt"};
  char path[96], folder[4096];
  int spaces[4];
  bool good = getcwd(folder, sizeof folder) != NULL;
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "/proc/%.*s/ns/%s", (int)strcspn(pid, ":"), pid, kinds[i]);
    good &= (spaces[i] = open(path, O_RDONLY | O_CLOEXEC)) >= 0;
  }
  for (int i = 0; i < 4 && good; i++) good = setns(spaces[i], 0) == 0;
  if (good && chdir(folder) == 0) {
    for (int i = 0; i < 4; i++) close(spaces[i]);
    return;
  }
  fprintf(stderr, "TEST_HOSTS: the namespaces of process %s cannot be entered: %s\n", pid, strerror(errno));
  exit(9);
}

/* Puts this process, rank `rank` of a job, on its host. Does nothing without TEST_HOSTS. */
static inline void placement_enter(uint32_t rank) {
  char word[64];
  const char *address = getenv("TEST_MASTER_ADDR");
  if (placement_word(rank, word, sizeof word) == 0) return;
  if (word[0] == '@') {
    placement_enter_namespaces(word + 1);
    /* The launcher has reserved the port in its own namespace. In this one, it may have been that of an earlier job. */
    unsetenv("TUTTI_RESERVED_PORT");
  } else {
    char *fabric = strchr(word, '=');
    if (fabric) *fabric++ = '\0';
    if (fabric) setenv("TUTTI_FABRIC", fabric, 1);
    setenv("TUTTI_HOST", word, 1);
  }
  if (address) setenv("TUTTI_MASTER_ADDR", address, 1);
}

#endif
