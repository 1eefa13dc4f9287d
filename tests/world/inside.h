/* inside.h: what the scheduler of the simulated world, its notes and its checks share. */
#ifndef WORLD_INSIDE_H
#define WORLD_INSIDE_H

#include "tests/world/world.h"

enum world_event_kind { WORLD_RUNS, WORLD_GOES_ON, WORLD_SUFFERS, WORLD_BEGINS, WORLD_ENDS };

/* The current world. Times are in simulated ns since its start. */
struct world {
  const struct world_program *program;
  uint32_t current; /* rank that runs */
  uint64_t now;
  uint64_t hash;                /* of all events: equal in two runs of a program */
  bool joined[WORLD_RANKS_MAX]; /* has begun its first act: faults before are the business of src/boot */
  bool happened[WORLD_FAULTS_MAX];
  uint64_t last_fault;               /* time of the last fault, end of a process, or end of a pause */
  bool stopped[WORLD_RANKS_MAX];     /* stopped, paused or absent at some time */
  bool aborted[WORLD_RANKS_MAX];     /* ended by abort() */
  uint64_t died_at[WORLD_RANKS_MAX]; /* 1 + time of the end of its process; 0: it lives */
  bool failed;
  char text[1024]; /* the first broken promise */
};
extern struct world world;

/* Loads the copies of the library. */
void world_load(const char *path);
/* Called before the ranks of a world run. */
void world_reset_checks(void);
/* Runs a program. world.failed and world.text are the result. */
void world_perform(const struct world_program *program);
/* Makes a failing program smaller that fails, too, and runs the result. */
void world_shrink(struct world_program *program);

/* Writes the events of the next world as text (path NULL), or to a file of Chrome-trace JSON. */
bool world_trace_begin(const char *path);
void world_trace_note(enum world_event_kind kind, uint32_t rank, uint64_t value);
void world_trace_error(tutti_err err, const char *message);
void world_trace_end(void);

#endif
