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
  uint64_t last_fault;               /* time when the last fault, end of a process or end of a pause can be noticed */
  bool stopped[WORLD_RANKS_MAX];     /* stopped, paused or absent at some time */
  bool aborted[WORLD_RANKS_MAX];     /* ended by abort() */
  bool cut_off[WORLD_RANKS_MAX];     /* a connection, or the path to another host, has failed */
  uint64_t died_at[WORLD_RANKS_MAX]; /* 1 + time of the end of its process; 0: it lives */
  bool failed;
  uint32_t act[WORLD_RANKS_MAX];             /* that each rank carries out */
  uint32_t act_allocations[WORLD_RANKS_MAX]; /* since it began */
  char text[1024];                           /* the first broken promise */
};
extern struct world world;

uint64_t world_draw(uint64_t below);
/* The current rank calls the system, which takes time and may let another rank run. */
void world_system_call(void);
/* The current rank sleeps until `until`, or until `next`, or until world_wake. */
void world_sleep_for(uint64_t until, uint64_t next);
/* Something that a sleeping rank may wait for happens at that time. */
void world_wake(uint32_t rank, uint64_t at);

/* ---- network.c ---- */

void world_network_reset(void);
/* The process of the rank ends; its connections are closed. */
void world_network_end(uint32_t rank);
/* The connection between two ranks breaks. */
void world_network_cut(uint32_t rank, uint32_t peer);
/* Nothing passes between two hosts for that long; a long silence ends their connections. Returns when all that was under
 * way has arrived, or all ranks have seen the end. */
uint64_t world_network_silence(uint32_t host, uint32_t other, uint64_t ns);

/* ---- fabric.c ---- */

void world_fabric_begin(void);
/* The process of the rank ends; in_order: it has closed its endpoint, if it had one. */
void world_fabric_end_rank(uint32_t rank, bool in_order);
/* Frees the fabric, and checks how it was used. */
void world_fabric_end(void);
/* Wait descriptors of a fabric, in network.c: as in struct fake_fabric_traits. */
int world_wait_open(void);
void world_wait_set(int descriptor, bool readable);
void world_wait_close(int descriptor);

/* ---- world.c ---- */

/* Loads the copies of the library. */
void world_load(const char *path);
/* Called before the ranks of a world run, and after they have ended. */
void world_reset_checks(void);
void world_check_end(void);
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
