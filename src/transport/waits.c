/* waits.c: notes in shared memory, of one writer each. */
#include "transport/waits.h"

#include <string.h>

#include "transport/transport.h"

#define WORDS (sizeof(struct tu_waits) / sizeof(uint64_t))
#define TRIES 1000u /* of a reader who meets the writer */

static struct tu_waits_note *note_of(const struct tu_transport *t, uint32_t rank, uint32_t i) {
  return &tu_transport_head(t, rank)->waits[i];
}

/* The version is odd while words change; each word is released, so that who reads a new one sees the version gone, too. */
static void write_words(struct tu_waits_note *note, const uint64_t *words, size_t first, size_t count) {
  uint64_t version = atomic_load_explicit(&note->version, memory_order_relaxed) | 1;
  atomic_store_explicit(&note->version, version, memory_order_relaxed);
  for (size_t i = first; i < first + count; i++) atomic_store_explicit(&note->words[i], words[i], memory_order_release);
  atomic_store_explicit(&note->version, version + 1, memory_order_release);
}

static uint64_t word_until(const struct tu_waits_note *note) {
  return atomic_load_explicit(&note->words[offsetof(struct tu_waits, until) / sizeof(uint64_t)], memory_order_relaxed);
}

/* The thread's own note, one that nobody has, or one whose thread waits no more. */
static struct tu_waits_note *find_note(struct tu_transport *t, const void *thread, bool take) {
  const void **threads = t->waits.threads;
  uint32_t found = TU_WAITS_THREADS;
  for (uint32_t i = 0; i < TU_WAITS_THREADS; i++)
    if (threads[i] == thread) return note_of(t, t->rank, i);
  for (uint32_t i = 0; i < TU_WAITS_THREADS && take; i++) {
    if (threads[i] && (found < TU_WAITS_THREADS || word_until(note_of(t, t->rank, i)) == 0)) continue;
    found = i;
    if (!threads[i]) break;
  }
  if (found == TU_WAITS_THREADS) return NULL;
  threads[found] = thread;
  return note_of(t, t->rank, found);
}

void tu_waits_tell(struct tu_transport *t, const void *thread, const struct tu_waits *waits) {
  uint64_t words[WORDS];
  memcpy(words, waits, sizeof words);
  pthread_mutex_lock(&t->waits.lock);
  struct tu_waits_note *note = find_note(t, thread, true);
  if (note) write_words(note, words, 0, WORDS);
  pthread_mutex_unlock(&t->waits.lock);
}

void tu_waits_end(struct tu_transport *t, const void *thread, uint64_t now) {
  struct tu_waits waits = {.until = now};
  uint64_t words[WORDS];
  memcpy(words, &waits, sizeof words);
  pthread_mutex_lock(&t->waits.lock);
  struct tu_waits_note *note = find_note(t, thread, false);
  if (note) write_words(note, words, offsetof(struct tu_waits, until) / sizeof(uint64_t), 1);
  pthread_mutex_unlock(&t->waits.lock);
}

bool tu_waits_read(const struct tu_transport *t, uint32_t rank, uint32_t note_index, struct tu_waits *waits) {
  const struct tu_waits_note *note = note_of(t, rank, note_index);
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
    for (size_t k = 0; k < waits->count; k++)
      if (waits->entries[k].rank >= tu_transport_job_ranks(t)) return false; /* no rank writes that */
    return true;
  }
  return false;
}
