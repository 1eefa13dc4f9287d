/* waits.h: what a rank that waits in vain tells the others: whom it waits for, and since when. It lies in the head of the rank's
 * slice. A thread tells it after 10 ms, and then every 10 ms at most, so it costs short waits nothing; a rank whose time is over
 * reads it, to find the one that does not move. */
#ifndef TU_WAITS_H
#define TU_WAITS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

struct tu_transport;

#define TU_WAITS_THREADS 4u /* of a rank, that can tell at the same time */
#define TU_WAITS_ENTRIES 8u

/* tu_wait_entry.flags */
#define TU_WAIT_NOT_COME 1u /* that rank has not come to the call */
#define TU_WAIT_INPUT 2u    /* for its own caller, who has not filled in the input */
#define TU_WAIT_SIGNAL 4u   /* for a signal, from whichever rank */
#define TU_WAIT_CREATE 8u   /* for that rank to make its side of the communicator */

struct tu_wait_entry {
  uint64_t comm;   /* its session */
  uint32_t number; /* of the collective, its lower half; 0: it is none */
  uint16_t rank;   /* of the job, that is waited for */
  uint16_t flags;
};

struct tu_waits {
  uint64_t since;  /* ns; when it began to wait in vain */
  uint64_t looked; /* when it last looked whether it still must */
  uint64_t until;  /* when it went on; 0: it still waits */
  uint64_t count;
  struct tu_wait_entry entries[TU_WAITS_ENTRIES];
};

/* One thread's, shared. */
struct tu_waits_note {
  _Alignas(TU_LINE_BYTES) _Atomic uint64_t version; /* odd while it is written; 0: nothing was ever told */
  _Atomic uint64_t words[sizeof(struct tu_waits) / sizeof(uint64_t)];
};

/* Which thread of this process tells in which note. */
struct tu_waits_owners {
  pthread_mutex_t lock;
  const void *threads[TU_WAITS_THREADS];
};

/* `thread` is any address that is the thread's own. If too many tell at the same time, this one does not. */
void tu_waits_tell(struct tu_transport *t, const void *thread, const struct tu_waits *waits);
/* It goes on; what it told stays readable, as what it waited for until now. */
void tu_waits_end(struct tu_transport *t, const void *thread, uint64_t now);
/* False: nothing was told there, or nothing can be read. */
bool tu_waits_read(const struct tu_transport *t, uint32_t rank, uint32_t note, struct tu_waits *waits);

#endif
