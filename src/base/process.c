/* process.c: numbers by which a process and its children can be told apart, and a lock that blocks fork(). The number
 * lies on a page that the kernel clears in children. */
#include "base/process.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* Holds the number of this process if the kernel cannot clear a page in children (MADV_WIPEONFORK, from Linux 4.14). A
 * fork handler then sets it to 0 in children. */
static _Atomic uint64_t spare;
static _Atomic uint64_t *word = &spare;
const _Atomic uint64_t *tu_process_word = &spare;
/* Counter from which the numbers of processes are taken. A child inherits its value, and so gets a higher number. */
static _Atomic uint64_t given;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t forks = PTHREAD_MUTEX_INITIALIZER;

/* Descriptors that children close; protected by `forks`. */
static int *own;
static size_t own_count, own_room;

static void begin_fork(void) { pthread_mutex_lock(&forks); }
static void end_fork(void) { pthread_mutex_unlock(&forks); }
static void end_fork_in_child(void) {
  atomic_store(&spare, 0);
  for (size_t i = 0; i < own_count; i++) close(own[i]);
  own_count = 0;
  end_fork();
}

static void set_up(void) {
  size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED && madvise(page, bytes, MADV_WIPEONFORK) == 0) tu_process_word = word = page;
  else if (page != MAP_FAILED) munmap(page, bytes);
  (void)pthread_atfork(begin_fork, end_fork, end_fork_in_child);
}

uint64_t tu_process_number(bool *fresh) {
  pthread_once(&once, set_up);
  uint64_t number = 0, next = atomic_fetch_add(&given, 1) + 1;
  bool first = atomic_compare_exchange_strong(word, &number, next);
  if (fresh) *fresh = first;
  return first ? next : number;
}

void tu_process_hold_forks(void) {
  pthread_once(&once, set_up);
  begin_fork();
}

void tu_process_allow_forks(void) { end_fork(); }

bool tu_process_keep_own(int fd) {
  tu_process_hold_forks();
  if (own_count == own_room) {
    const size_t room = own_room ? 2 * own_room : 16;
    int *more = realloc(own, room * sizeof *more);
    if (more) {
      own = more;
      own_room = room;
    }
  }
  const bool kept = own_count < own_room;
  if (kept) own[own_count++] = fd;
  tu_process_allow_forks();
  return kept;
}

void tu_process_give_up(int fd) {
  tu_process_hold_forks();
  for (size_t i = 0; i < own_count; i++)
    if (own[i] == fd) {
      own[i] = own[--own_count];
      break;
    }
  if (own_count == 0) {
    free(own);
    own = NULL;
    own_room = 0;
  }
  tu_process_allow_forks();
}
