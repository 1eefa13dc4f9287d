/* matching.c: decides which message belongs to which receive. All messages from one rank to another use one channel,
 * and a receive gets the first message with its tag.
 *
 * A message that no receive has asked for yet may be in front of the wanted message. Then the first one is set aside:
 * it is copied into separate memory. If messages arrive in the order in which they are received, nothing is set aside,
 * and nothing is copied twice. Then a sender that runs ahead has to wait when it has no credit left. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

struct tu_early {
  struct tu_early *next;
  uint64_t tag; /* tag that the lines of the message carry */
  size_t bytes, have;
  unsigned char *data;
  bool claimed;
};

struct tu_matching {
  struct tu_expected *posted;  /* receives that have no message yet, in the order in which they were started */
  struct tu_expected *current; /* the receive that gets the message at the head of the channel; NULL: none */
  struct tu_early *early;      /* messages that were set aside, in order of arrival */
  struct tu_early *filling;    /* the message at the head of the channel, if it is being copied aside; otherwise NULL */
};

bool tu_matching_prepare(struct tu_receiver *r) {
  if (!r->matching) r->matching = tu_try_allocate(1, sizeof *r->matching);
  return r->matching != NULL;
}

void tu_matching_destroy(struct tu_matching *m) {
  if (!m) return;
  for (struct tu_early *early = m->early, *next; early; early = next) {
    next = early->next;
    free(early->data);
    free(early);
  }
  free(m);
}

static void unpost(struct tu_matching *m, struct tu_expected *e) {
  for (struct tu_expected **link = &m->posted; *link; link = &(*link)->next) {
    if (*link != e) continue;
    *link = e->next;
    break;
  }
  e->posted = false;
}

void tu_matching_post(struct tu_expected *e, uint32_t tag, struct tu_receiver *r) {
  struct tu_matching *m = r->matching;
  *e = (struct tu_expected){.tag = tag};
  for (struct tu_early *early = m->early; early; early = early->next) {
    if (early->claimed || (uint32_t)early->tag != tag) continue;
    early->claimed = true;
    e->early = early;
    return;
  }
  struct tu_expected **link = &m->posted;
  while (*link) link = &(*link)->next;
  *link = e;
  e->posted = true;
}

/* Copies the slices that have arrived of the message that is being set aside (copied into separate memory, because no
 * receive has asked for it yet). */
static void fill_early(struct tu_mover *mover, struct tu_receiver *r, struct tu_matching *m) {
  const struct tu_line *line;
  while (m->filling && (line = tu_receiver_line(r))) {
    struct tu_early *early = m->filling;
    if (line->bytes > 0) memcpy(early->data + early->have, tu_receiver_payload(r, line), line->bytes);
    early->have += line->bytes;
    if (early->have == early->bytes) m->filling = NULL;
    tu_receiver_release(r);
    tu_mover_ring(mover, r->bell);
  }
}

/* Begins to set a message aside (to copy it into separate memory). Its line states the length of the whole message.
 * Returns false if out of memory. */
static bool set_aside(struct tu_matching *m, const struct tu_line *line) {
  struct tu_early *early = tu_try_allocate(1, sizeof *early);
  unsigned char *data = early ? malloc(tu_max(line->message_bytes, 1)) : NULL;
  if (!data) {
    free(early);
    return false;
  }
  *early = (struct tu_early){.tag = line->tag, .bytes = line->message_bytes, .data = data};
  struct tu_early **link = &m->early;
  while (*link) link = &(*link)->next;
  *link = early;
  m->filling = early;
  return true;
}

enum tu_match tu_matching_poll(struct tu_mover *mover, struct tu_expected *e, struct tu_receiver *r) {
  struct tu_matching *m = r->matching;
  for (;;) {
    fill_early(mover, r, m);
    if (e->early) return e->early->have == e->early->bytes ? TU_MATCH_EARLY : TU_MATCH_NONE;
    if (m->current || m->filling) break;
    const struct tu_line *line = tu_receiver_line(r);
    if (!line) break;
    struct tu_expected *owner = m->posted;
    while (owner && owner->tag != (uint32_t)line->tag) owner = owner->next;
    if (owner) {
      unpost(m, owner);
      m->current = owner;
      break;
    }
    if (!set_aside(m, line)) return TU_MATCH_NO_MEMORY;
  }
  return m->current == e ? TU_MATCH_HEAD : TU_MATCH_NONE;
}

const void *tu_matching_early(const struct tu_expected *e, size_t *bytes, uint64_t *tag) {
  *bytes = e->early->bytes;
  *tag = e->early->tag;
  return e->early->data;
}

void tu_matching_end(struct tu_expected *e, struct tu_receiver *r) {
  struct tu_matching *m = r->matching;
  if (m->current == e) m->current = NULL;
  if (!e->early) return;
  for (struct tu_early **link = &m->early; *link; link = &(*link)->next) {
    if (*link != e->early) continue;
    *link = e->early->next;
    break;
  }
  free(e->early->data);
  free(e->early);
  e->early = NULL;
}

void tu_matching_cancel(struct tu_expected *e, struct tu_receiver *r) {
  if (!r->matching) return;
  if (e->posted) unpost(r->matching, e);
  if (r->matching->current == e) r->matching->current = NULL;
  e->early = NULL;
}
