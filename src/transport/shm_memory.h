/* shm_memory.h: the memory that the ranks of a host share: made by the lowest of them, and handed to the others. */
#ifndef TU_SHM_MEMORY_H
#define TU_SHM_MEMORY_H

#include "boot/job.h"

struct tu_shm_memory {
  int fd; /* CLOEXEC, slice_bytes * ranks long, sealed against shrinking and growing; the caller closes it; -1: none */
  size_t slice_bytes; /* each rank's part */
};

/* Where a rank gets the memory and what it must show there. Travels as it lies in memory. */
struct tu_shm_offer {
  uint64_t slice_bytes;
  char socket[32]; /* name in the abstract namespace, zero-padded */
  uint8_t token[16];
};

/* What TUTTI_SHM_BYTES says, or the default: a rank's part, in whole pages. ENVIRONMENT. */
tutti_err tu_shm_slice_bytes(size_t *bytes, struct tu_error *error);
/* Makes the sealed memfd for so many ranks, of the length that the environment says. ENVIRONMENT, SYSTEM. */
tutti_err tu_shm_memory_make(uint32_t ranks, struct tu_shm_memory *memory, struct tu_error *error);
/* Hands it out, by a thread of its own, to processes of this user that show the offer's token: until tu_shm_memory_end,
 * which accepts NULL. The memory must stay open as long. SYSTEM, MEMORY. */
struct tu_shm_handing;
tutti_err tu_shm_memory_hand_out(const struct tu_shm_memory *memory, struct tu_shm_handing **handing,
                                 struct tu_shm_offer *offer, struct tu_error *error);
void tu_shm_memory_end(struct tu_shm_handing *handing);
/* Fetches and verifies the memory of so many ranks, which that rank offers, until the job's deadline. PEER, TIMEOUT, SYSTEM. */
tutti_err tu_shm_memory_take(struct tu_job *job, uint32_t from, const struct tu_shm_offer *offer, uint32_t ranks,
                             struct tu_shm_memory *memory, struct tu_error *error);

#endif
