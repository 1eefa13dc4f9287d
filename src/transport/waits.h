/* waits.h: notes: shared records that state which ranks a thread waits for, and since when. The notes lie at the head
 * of the rank's slice of shared memory. A thread publishes its wait after 10 ms, and then at most every 10 ms, so short
 * waits cost nothing. A rank whose time-out has passed reads the notes to find the rank that does not progress. */
#ifndef TU_WAITS_H
#define TU_WAITS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

struct tu_transport;

#define TU_WAITS_THREADS 4u /* maximum number of threads of a rank that can publish a wait at the same time */
#define TU_WAITS_ENTRIES 8u

/* Bits of tu_wait_entry.flags: what the thread waits for. */
#define TU_WAIT_NOT_COME 1u /* the awaited rank has not started the call */
#define TU_WAIT_INPUT 2u    /* the rank waits for its own program to fill in the input of a partitioned call */
#define TU_WAIT_SIGNAL 4u   /* the rank waits for a signal from any rank */
#define TU_WAIT_CREATE 8u   /* the rank waits until the other rank has made its side of the communicator */
#define TU_WAIT_ANY 16u     /* the rank waits for a message from any rank */

struct tu_wait_entry {
  uint64_t comm;   /* id of the communicator in which the thread waits */
  uint32_t number; /* lower 32 bits of the collective's sequence number; 0: not a collective */
  uint16_t rank;   /* awaited rank, numbered in the job */
  uint16_t flags;
};

struct tu_waits {
  uint64_t since;  /* start of the wait, in ns */
  uint64_t looked; /* time when the thread last checked whether the wait is over, in ns */
  uint64_t until;  /* end of the wait, in ns; 0: still waiting */
  uint64_t count;
  struct tu_wait_entry entries[TU_WAITS_ENTRIES];
};

/* A note: the record, in shared memory, of what one thread waits for. */
struct tu_waits_note {
  /* Odd while the record is being written; 0: never written. */
  _Alignas(TU_LINE_BYTES) _Atomic uint64_t version;
  _Atomic uint64_t words[sizeof(struct tu_waits) / sizeof(uint64_t)];
};

/* Which thread of this process owns which note (record of a wait). */
struct tu_waits_owners {
  pthread_mutex_t lock;
  const void *threads[TU_WAITS_THREADS];
};

/* Publishes a wait of this thread; `thread` is any address that is unique to the thread. Does nothing if other threads
 * use all notes (shared records of waits). Returns true if the thread had no published wait on this endpoint, or one
 * that was over, and has one now. */
bool tu_waits_tell(struct tu_transport *t, const void *thread, const struct tu_waits *waits);
/* Publishes that the thread has checked its published wait at time `now`, and that it lasts. */
void tu_waits_check(struct tu_transport *t, const void *thread, uint64_t now);
/* Publishes that the thread's wait ended at time `now`. The note (record of the wait) stays readable, so other ranks
 * can still see what the thread waited for. Returns false if the thread has no published wait on this endpoint, or if
 * its wait is over. */
bool tu_waits_end(struct tu_transport *t, const void *thread, uint64_t now);
/* Reads a note (the record of a wait) in a job of that many ranks. Returns false if the note was never written, or cannot
 * be read consistently. */
bool tu_waits_read_note(const struct tu_waits_note *note, uint32_t ranks, struct tu_waits *waits);
/* The same for a note of a rank. */
bool tu_waits_read(const struct tu_transport *t, uint32_t rank, uint32_t note, struct tu_waits *waits);

#endif
