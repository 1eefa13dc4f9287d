/* waits.c: notes (records of what threads wait for) in shared memory. Each note has one writer. */
#include "transport/waits.h"

#include <string.h>

#include "transport/transport.h"

#define WORDS (sizeof(struct tu_waits) / sizeof(uint64_t))
#define TRIES 1000u /* maximum number of attempts to read a note (record of a wait) that its writer is changing */

static struct tu_waits_note *note_of(const struct tu_transport *t, uint32_t rank, uint32_t i) {
  return &tu_transport_head(t, rank)->waits[i];
}

/* Writes `count` words of a note (record of a wait). The version is odd during the change. Each word is written by a
 * release store. So a reader that sees a new word also sees that the version has changed. */
static void write_words(struct tu_waits_note *note, const uint64_t *words, size_t first, size_t count) {
  uint64_t version = atomic_load_explicit(&note->version, memory_order_relaxed) | 1;
  atomic_store_explicit(&note->version, version, memory_order_relaxed);
  for (size_t i = first; i < first + count; i++) atomic_store_explicit(&note->words[i], words[i], memory_order_release);
  atomic_store_explicit(&note->version, version + 1, memory_order_release);
}

/* Returns true if the note contains a wait that is not over. */
static bool lasts(const struct tu_waits_note *note) {
  const size_t until = offsetof(struct tu_waits, until) / sizeof(uint64_t);
  return atomic_load_explicit(&note->version, memory_order_relaxed) != 0 &&
         atomic_load_explicit(&note->words[until], memory_order_relaxed) == 0;
}

/* Returns the thread's note (record of a wait). If the thread has none: returns NULL if `take` is false. If `take` is
 * true, the thread gets an unused note, or the note of a thread that no longer waits. */
static struct tu_waits_note *find_note(struct tu_transport *t, const void *thread, bool take) {
  const void **threads = t->waits.threads;
  uint32_t found = TU_WAITS_THREADS;
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++)
    if (threads[i] == thread) return note_of(t, t->rank, i);
  for (uint32_t i = 0; i < TU_WAITS_THREADS && take; i++) {
    if (threads[i] && (found < TU_WAITS_THREADS || lasts(note_of(t, t->rank, i)))) continue;
    found = i;
    if (!threads[i]) break;
  }
  if (found == TU_WAITS_THREADS) return NULL;
  threads[found] = thread;
  return note_of(t, t->rank, found);
}

bool tu_waits_tell(struct tu_transport *t, const void *thread, const struct tu_waits *waits) {
  uint64_t words[WORDS];
  memcpy(words, waits, sizeof words);
  pthread_mutex_lock(&t->waits.lock);
  struct tu_waits_note *note = find_note(t, thread, true);
  bool begins = note && !lasts(note);
  if (note) write_words(note, words, 0, WORDS);
  pthread_mutex_unlock(&t->waits.lock);
  return begins;
}

/* Changes one word of the thread's note, if its wait is not over. */
static bool change(struct tu_transport *t, const void *thread, size_t offset, uint64_t value) {
  uint64_t words[WORDS];
  const size_t word = offset / sizeof words[0];
  words[word] = value;
  pthread_mutex_lock(&t->waits.lock);
  struct tu_waits_note *note = find_note(t, thread, false);
  bool changes = note && lasts(note);
  if (changes) write_words(note, words, word, 1);
  pthread_mutex_unlock(&t->waits.lock);
  return changes;
}

void tu_waits_check(struct tu_transport *t, const void *thread, uint64_t now) {
  (void)change(t, thread, offsetof(struct tu_waits, looked), now);
}

bool tu_waits_end(struct tu_transport *t, const void *thread, uint64_t now) {
  return change(t, thread, offsetof(struct tu_waits, until), now);
}

bool tu_waits_read_note(const struct tu_waits_note *note, uint32_t ranks, struct tu_waits *waits) {
  uint64_t words[WORDS];
  for (uint32_t i = 0; i < TRIES; i++) {
    uint64_t version = atomic_load_explicit(&note->version, memory_order_acquire);
    if (version == 0) return false;
    if (version % 2) {
      tu_pause();
      continue;
    }
    for (size_t k = 0; k < WORDS; k++) words[k] = atomic_load_explicit(&note->words[k], memory_order_acquire);
    if (atomic_load_explicit(&note->version, memory_order_relaxed) != version) continue;
    memcpy(waits, words, sizeof words);
    waits->count = tu_min(waits->count, TU_WAITS_ENTRIES);
    for (size_t k = 0; k < waits->count; k++) /* an entry with the number of a rank that does not exist is invalid */
      if (waits->entries[k].rank >= ranks) return false;
    return true;
  }
  return false;
}

bool tu_waits_read(const struct tu_transport *t, uint32_t rank, uint32_t note, struct tu_waits *waits) {
  return tu_waits_read_note(note_of(t, rank, note), tu_transport_job_ranks(t), waits);
}
