/* shm_memory.h: the memory that the ranks of a host share. The lowest rank of the host creates it and hands it to
 * the other ranks. */
#ifndef TU_SHM_MEMORY_H
#define TU_SHM_MEMORY_H

#include "boot/job.h"

struct tu_shm_memory {
  /* File descriptor of the memory, with CLOEXEC. The file has slice_bytes * ranks bytes and is sealed against shrinking
   * and growing. The caller closes it. -1: none. */
  int fd;
  size_t slice_bytes; /* bytes of each rank's slice */
};

/* Where a rank gets the shared memory, and the token that it must show. Sent to the ranks as raw bytes. */
struct tu_shm_offer {
  uint64_t slice_bytes;
  char socket[32]; /* name of the UNIX socket in the abstract namespace, zero-padded */
  uint8_t token[16];
};

/* Sets *bytes to the bytes per rank, in whole pages: TUTTI_SHM_BYTES, or the default. Error: TUTTI_ERR_ENVIRONMENT. */
tutti_err tu_shm_slice_bytes(size_t *bytes, struct tu_error *error);
/* Creates the sealed memfd for `ranks` ranks, with the bytes per rank of TUTTI_SHM_BYTES or of its default. Errors:
 * TUTTI_ERR_ENVIRONMENT, TUTTI_ERR_SYSTEM. */
tutti_err tu_shm_memory_make(uint32_t ranks, struct tu_shm_memory *memory, struct tu_error *error);
/* Sends the memory to the process that keeps it open for readers (TUTTI_KEEPER), if there is one. */
void tu_shm_memory_keep(const struct tu_shm_memory *memory);
/* For that process: opens a socket at which memory arrives, and writes its name. Returns -1 on failure. */
int tu_shm_memory_await(char *name, size_t bytes);
/* Takes the next memory that has arrived at the socket. Returns false if there is none. *fd is -1 if what arrived is not
 * sealed memory of this user. The caller closes it. */
bool tu_shm_memory_arrives(int socket, int *fd);
/* Returns true if ranks hold locks of the memory (shm.c), so they live and use it. */
bool tu_shm_memory_is_used(int fd);
struct tu_shm_handing;
/* Hands the memory to processes of this user that show the token of *offer. A thread is created to do so until
 * tu_shm_memory_end, which accepts NULL. The memory must stay open until then. Errors: TUTTI_ERR_SYSTEM,
 * TUTTI_ERR_MEMORY. */
tutti_err tu_shm_memory_hand_out(const struct tu_shm_memory *memory, struct tu_shm_handing **handing,
                                 struct tu_shm_offer *offer, struct tu_error *error);
void tu_shm_memory_end(struct tu_shm_handing *handing);
/* Gets the memory of `ranks` ranks that rank `from` offers, and verifies it. Waits until the deadline of the job.
 * Errors: TUTTI_ERR_PEER, TUTTI_ERR_TIMEOUT, TUTTI_ERR_SYSTEM. */
tutti_err tu_shm_memory_take(struct tu_job *job, uint32_t from, const struct tu_shm_offer *offer, uint32_t ranks,
                             struct tu_shm_memory *memory, struct tu_error *error);

#endif
