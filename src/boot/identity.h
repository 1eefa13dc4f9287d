/* identity.h: this process's rank, its job, and the address at which the job's ranks meet, from the environment or the
 * program. */
#ifndef TU_IDENTITY_H
#define TU_IDENTITY_H

#include "base/base.h"

enum { TU_BOOT_ADDRESS_CHARS = 1024 };

/* How a rank learns the address of rank 0 and the secret: by variables, or by a text that the launcher carries
 * (job_carried.h). */
enum tu_boot_carrier { TU_CARRIER_NONE, TU_CARRIER_PMI, TU_CARRIER_PMIX };

/* Round of a job that torchrun starts again after failures. Processes of an older round are refused. Zeros: none. */
struct tu_boot_round {
  char run[60]; /* TORCHELASTIC_RUN_ID; a longer one is cut, and ends with a hash of it */
  uint32_t restart;
};

struct tu_boot_identity {
  uint32_t rank, ranks;
  bool alone; /* true: no variable is set, so the process is a world of one rank */
  enum tu_boot_carrier carrier;
  /* host name or address at which rank 0 listens, or a list of them with commas */
  char address[TU_BOOT_ADDRESS_CHARS];
  /* port on which rank 0 listens; 0 (on rank 0 only): rank 0 chooses a free port and passes it to on_listen */
  uint16_t port;
  struct tu_boot_round round;
  bool reserved;      /* true: `tutti run` keeps the port bound, so that no other program gets it before this job */
  const char *secret; /* the job's secret; NULL: read the secret from the environment */
  void (*on_listen)(void *context, uint16_t port); /* called on rank 0 once it listens; may be NULL */
  void *on_listen_context;
};

/* Reads this process's identity (rank, job, address of rank 0) from the environment. TUTTI_RANK and TUTTI_WORLD_SIZE come
 * first, then PMI, PMIx, and the variables of torchrun; TUTTI_LAUNCHER chooses among them. Returns TUTTI_ERR_ENVIRONMENT
 * if a variable is missing or malformed (the message names it), if two launchers disagree, or if the process would be a
 * world of one although a launcher's variables report several processes. Without a number of ranks, PMIx is asked, which
 * may also fail with TUTTI_ERR_TIMEOUT. */
tutti_err tu_boot_identity_read(struct tu_boot_identity *identity, struct tu_error *error);

#endif
