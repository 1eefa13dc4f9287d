/* place.h: which rank of which job this process is, and where the job meets: as the environment says, or the program. */
#ifndef TU_PLACE_H
#define TU_PLACE_H

#include "base/base.h"

struct tu_boot_place {
  uint32_t rank, ranks;
  bool alone; /* nothing was set: a world of one */
  char address[256];
  uint16_t port;                                   /* 0, on rank 0: any that is free, which on_listen is told */
  bool reserved;                                   /* `tutti run` keeps the port bound for this job */
  const char *secret;                              /* NULL: what the environment says */
  void (*on_listen)(void *context, uint16_t port); /* may be NULL; called on rank 0 once it listens */
  void *on_listen_context;
};

/* ENVIRONMENT if half set (names what is missing) or malformed, or if it says one rank, or nothing, where another launcher's
 * variables say more. */
tutti_err tu_boot_place(struct tu_boot_place *place, struct tu_error *error);

#endif
