/* must.h: checks in the ranks of ranks.h, and a job of such ranks that must end. */
#ifndef MUST_H
#define MUST_H

#include "ranks.h"
#include "test.h"

enum { HANG_MS = 60000 };

/* Checks that a call succeeds; else prints its line and error, and ends the rank with status 1. */
#define MUST(call)                                                                                \
  do {                                                                                            \
    if ((call) != TUTTI_OK) {                                                                     \
      printf("  rank %u, line %d: %s: '%s'\n", rank, __LINE__, #call, tutti_error_message(NULL)); \
      return 1;                                                                                   \
    }                                                                                             \
  } while (0)
#define EXPECT(condition)                                             \
  do {                                                                \
    if (!(condition)) {                                               \
      printf("  rank %u, line %d: %s\n", rank, __LINE__, #condition); \
      return 1;                                                       \
    }                                                                 \
  } while (0)

/* Runs `body` on all ranks. Each must return 0, except the victims (a bit each), which must be killed. */
static inline void run_world(const char *name, uint32_t ranks, const void *context,
                             int (*body)(struct ranks_world *w, uint32_t rank), uint32_t victims) {
  struct ranks_world w = {.context = context};
  ranks_start(&w, ranks, body);
  CHECK(ranks_end(&w, HANG_MS), "%s: hangs", name);
  for (uint32_t r = 0; r < ranks; r++) {
    bool killed = WIFSIGNALED(w.status[r]) && WTERMSIG(w.status[r]) == SIGKILL;
    if (victims >> r & 1) CHECK(killed, "%s: rank %u was not killed: status %x", name, r, (unsigned)w.status[r]);
    else CHECK(w.status[r] == 0, "%s: rank %u: status %x", name, r, (unsigned)w.status[r]);
  }
  ranks_fini(&w);
}

#endif
