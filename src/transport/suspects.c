/* suspects.c: keeps a list of failed communicators with ranks that may still write into this rank's memory. */
#include "transport/suspects.h"

#include <pthread.h>
#include <stdlib.h>

struct tu_suspect {
  struct tu_suspect *next;
  struct tu_suspects of;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool has_ended(const struct tu_suspects *s, uint32_t i) {
  const unsigned char *first = (const void *)(uintptr_t)s->ended;
  return atomic_load((const _Atomic uint32_t *)(const void *)(first + i * s->stride)) != 0;
}

/* Returns true if some rank of the communicator may still write into this rank's memory. A rank that can no longer
 * write is marked with TU_REMOTE, so that it is not checked again. */
static bool may_write(struct tu_transport *t, const struct tu_suspects *s) {
  for (uint32_t i = 0; i < s->ranks; i++) {
    if (s->locals[i] == TU_REMOTE) continue;
    if (i != s->rank && !has_ended(s, i) && tu_transport_alive(t, s->locals[i])) return true;
    s->locals[i] = TU_REMOTE;
  }
  return false;
}

static void destroy(struct tu_suspect *s) {
  free(s->of.locals);
  free(s);
}

static void look(struct tu_transport *t) {
  struct tu_suspect *left = NULL;
  for (struct tu_suspect *s = atomic_load(&t->suspects), *next; s; s = next) {
    next = s->next;
    if (!may_write(t, &s->of)) {
      destroy(s);
      continue;
    }
    s->next = left;
    left = s;
  }
  atomic_store(&t->suspects, left);
  if (!left) tu_transport_release_held(t);
}

void tu_suspects_add(struct tu_transport *t, struct tu_suspects suspects) {
  struct tu_suspect *s = tu_try_allocate(1, sizeof *s);
  if (!s) { /* out of memory: these ranks are not tracked, and memory that they may still write into is reused */
    free(suspects.locals);
    return;
  }
  s->of = suspects;
  pthread_mutex_lock(&lock);
  s->next = atomic_load(&t->suspects);
  atomic_store(&t->suspects, s);
  look(t);
  pthread_mutex_unlock(&lock);
}

void tu_suspects_look(struct tu_transport *t) {
  if (!atomic_load(&t->suspects)) return;
  pthread_mutex_lock(&lock);
  look(t);
  pthread_mutex_unlock(&lock);
}

void tu_suspects_forget(struct tu_transport *t) {
  for (struct tu_suspect *s = atomic_exchange(&t->suspects, NULL), *next; s; s = next) {
    next = s->next;
    destroy(s);
  }
}
