/* identity.h: this process's rank, its job, and the address at which the job's ranks meet, from the environment or the
 * program. */
#ifndef TU_IDENTITY_H
#define TU_IDENTITY_H

#include "base/base.h"

enum { TU_BOOT_ADDRESS_CHARS = 1024 };

struct tu_boot_identity {
  uint32_t rank, ranks;
  bool alone;        /* true: no variable is set, so the process is a world of one rank */
  /* host name or address at which rank 0 listens, or a list of them with commas */
  char address[TU_BOOT_ADDRESS_CHARS];
  /* port on which rank 0 listens; 0 (on rank 0 only): rank 0 chooses a free port and passes it to on_listen */
  uint16_t port;
  bool reserved;      /* true: `tutti run` keeps the port bound, so that no other program gets it before this job */
  const char *secret; /* the job's secret; NULL: read the secret from the environment */
  void (*on_listen)(void *context, uint16_t port); /* called on rank 0 once it listens; may be NULL */
  void *on_listen_context;
};

/* Reads this process's identity (rank, job, address of rank 0) from the environment. Returns TUTTI_ERR_ENVIRONMENT in
 * three cases: a variable is missing (the message names it); a variable is malformed; or the process would be a world
 * of one, although the variables of another launcher report several processes. */
tutti_err tu_boot_identity_read(struct tu_boot_identity *identity, struct tu_error *error);

#endif
