/* boot.h: how the processes of a job find each other and come to share memory.
 *
 * Rank 0 listens on TCP at the agreed address; the others join there (a star), and both sides prove the job's secret. Ranks
 * of one host then get one memfd from the host's lowest rank over a UNIX socket. */
#ifndef TU_BOOT_H
#define TU_BOOT_H

#include "base/base.h"

/* What the environment says about this process. */
struct tu_boot_place {
  uint32_t rank, ranks;
  bool alone; /* nothing was set: a world of one */
  char address[256];
  uint16_t port;
  bool reserved; /* `tutti run` keeps the port bound for this job */
};
/* ENVIRONMENT if half set (names what is missing) or malformed, or if it says one rank, or nothing, where another launcher's
 * variables say more. */
tutti_err tu_boot_place(struct tu_boot_place *place, struct tu_error *error);

/* What TUTTI_SHM_BYTES says, or the default: a rank's part of the memory that all share, in whole pages. ENVIRONMENT. */
tutti_err tu_boot_slice_bytes(size_t *bytes, struct tu_error *error);

/* The memory that all ranks of this job share. */
struct tu_boot_share {
  int memory_fd; /* CLOEXEC, slice_bytes * ranks long, sealed against shrinking and growing; the caller closes it */
  size_t slice_bytes; /* each rank's part: rank 0's TUTTI_SHM_BYTES, or the default */
};
/* Collective: joins the others and hands out the memory. place->ranks > 1. Reads the job's secret from the environment; rank 0
 * says on stderr if there is none. Errors: TIMEOUT names the ranks that have not come; PEER a rank of another user, with a wrong
 * secret, or gone; ENVIRONMENT an unusable secret; SYSTEM a limit of this process; UNSUPPORTED a rank of another host. */
tutti_err tu_boot_join(const struct tu_boot_place *place, int timeout_ms, struct tu_boot_share *share,
                       struct tu_error *error);

#endif
