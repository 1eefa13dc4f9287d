/* suspects.c: failed communicators whose ranks have not all ended their sides. */
#include "mover/suspects.h"

#include <pthread.h>
#include <stdlib.h>

struct tu_suspect {
  struct tu_suspect *next;
  uint32_t *locals; /* ranks of the segment, by member; TU_REMOTE: on another host, where this memory is not */
  uint32_t ranks, rank;
  const struct tu_board *boards; /* of a block that is left alone */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* May one of them still write? Those of which that was seen are not asked again. */
static bool may_write(struct tu_transport *t, const struct tu_suspect *s) {
  for (uint32_t i = 0; i < s->ranks; i++) {
    if (s->locals[i] == TU_REMOTE) continue;
    if (i != s->rank && !atomic_load(&s->boards[i].ended) && tu_transport_alive(t, s->locals[i])) return true;
    s->locals[i] = TU_REMOTE;
  }
  return false;
}

static void look(struct tu_transport *t) {
  struct tu_suspect *left = NULL;
  for (struct tu_suspect *s = atomic_load(&t->suspects), *next; s; s = next) {
    next = s->next;
    if (may_write(t, s)) {
      s->next = left;
      left = s;
    } else {
      free(s->locals);
      free(s);
    }
  }
  atomic_store(&t->suspects, left);
  if (!left) tu_transport_release_held(t);
}

void tu_suspects_add(struct tu_control *c) {
  struct tu_suspect *s = tu_try_allocate(1, sizeof *s);
  if (!s) return; /* what others might write into stays where it is, but is used again: there is no memory to know it */
  for (uint32_t i = 0; i < c->ranks; i++) c->members[i] = tu_control_local(c, i);
  *s = (struct tu_suspect){.locals = c->members, .ranks = c->ranks, .rank = c->rank, .boards = c->boards};
  c->members = NULL;
  pthread_mutex_lock(&lock);
  s->next = atomic_load(&c->transport->suspects);
  atomic_store(&c->transport->suspects, s);
  look(c->transport);
  pthread_mutex_unlock(&lock);
}

void tu_suspects_look(struct tu_transport *t) {
  if (!atomic_load(&t->suspects)) return;
  pthread_mutex_lock(&lock);
  look(t);
  pthread_mutex_unlock(&lock);
}

void tu_suspects_forget(struct tu_transport *t) {
  pthread_mutex_lock(&lock);
  for (struct tu_suspect *s = atomic_exchange(&t->suspects, NULL), *next; s; s = next) {
    next = s->next;
    free(s->locals);
    free(s);
  }
  pthread_mutex_unlock(&lock);
}
