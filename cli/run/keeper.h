/* keeper.h: keeps the shared memory of the job's ranks on this host open, so that it can be looked at (src/sight) even if
 * its ranks are dead or have closed their descriptors. Each world of the ranks sends its memory to a socket. */
#ifndef CLI_RUN_KEEPER_H
#define CLI_RUN_KEEPER_H

#include "cli/run/console.h"

enum { RUN_KEPT_MAX = 16 };

struct run_keeper {
  int fd;                 /* socket at which memory arrives; -1: none */
  char name[40];          /* of the socket, for the ranks (TUTTI_KEEPER) */
  int kept[RUN_KEPT_MAX]; /* [count]: descriptors of memory */
  uint32_t count;
};

/* Opens the socket. If that fails, the keeper keeps nothing. */
void run_keeper_open(struct run_keeper *keeper);
void run_keeper_close(struct run_keeper *keeper);
/* Takes the memory that has arrived, and closes what no rank uses any more. */
void run_keeper_serve(struct run_keeper *keeper);
/* Returns after which time run_keeper_serve is due, in ms; -1: not before memory arrives. */
int run_keeper_wait_ms(const struct run_keeper *keeper);
/* Sends the state of the ranks of this host as frames: RUN_STATE for each world, and RUN_LOOKED. */
void run_keeper_tell(const struct run_keeper *keeper, struct run_sink *sink);
/* Prints who makes the ranks of this host wait, and where each rank stands. */
void run_keeper_report(const struct run_keeper *keeper, struct run_console *console);

#endif
