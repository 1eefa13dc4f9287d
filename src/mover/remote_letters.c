/* remote_letters.c: letters: frames whose bodies are sent from where they lie, in order for each rank. Slices do not need
 * them, because the lines of a channel say what is to be sent. */
#include <stdlib.h>
#include <string.h>

#include "mover/remote_internal.h"

struct tu_letter {
  struct tu_letter *next;
  uint32_t to;
  bool sent; /* true: only the body is needed, until the wire has read it */
  unsigned char head[TU_FRAME_HEAD_BYTES];
  const void *body;
  size_t bytes;
  void *owned; /* freed with the letter */
};

static void drop(struct tu_letter **link) {
  struct tu_letter *l = *link;
  *link = l->next;
  free(l->owned);
  free(l);
}

static bool is_blocked(const struct tu_letter *first, const struct tu_letter *l) {
  while (first != l && (first->sent || first->to != l->to)) first = first->next;
  return first != l;
}

/* The wire reads at most the body of the last frame that was sent to a rank. So a letter is over once the wire reads no
 * body for its rank. */
bool tu_remote_send_letters(struct tu_remote *r) {
  const struct tu_wire_ops *ops = r->wire->ops;
  bool moved = false;
  for (struct tu_letter **link = &r->letters; *link;) {
    struct tu_letter *l = *link;
    if (!l->sent && !is_blocked(r->letters, l) && ops->send(r->wire, l->to, l->head, l->body, l->bytes))
      moved = l->sent = true;
    if (l->sent && !ops->reads(r->wire, l->to)) drop(link);
    else link = &l->next;
  }
  return moved;
}

bool tu_remote_has_letters(const struct tu_remote *r) {
  const struct tu_letter *l = r->letters;
  while (l && l->sent) l = l->next;
  return l != NULL;
}

bool tu_remote_write(struct tu_remote *r, uint32_t to, const void *head, const void *body, size_t bytes, void *owned) {
  struct tu_letter *l = malloc(sizeof *l), **link = &r->letters;
  if (!l) {
    free(owned);
    return false;
  }
  *l = (struct tu_letter){.to = to, .body = body, .bytes = bytes, .owned = owned};
  memcpy(l->head, head, sizeof l->head);
  while (*link) link = &(*link)->next;
  *link = l;
  (void)tu_remote_send_letters(r);
  return true;
}

void tu_remote_recall(struct tu_remote *r, bool (*is_one)(const void *head, uint64_t key), uint64_t key) {
  for (struct tu_letter **link = &r->letters; *link;) {
    struct tu_letter *l = *link;
    if (!is_one(l->head, key)) {
      link = &l->next;
      continue;
    }
    if (l->sent) r->wire->ops->detach(r->wire, l->to);
    drop(link);
  }
}

static bool is_of_comm(const void *head, uint64_t comm_id) {
  struct tu_frame f;
  memcpy(&f, head, sizeof f);
  return f.comm_id == comm_id;
}

void tu_remote_post_letters(struct tu_remote *r, const struct tu_remote_comm *s) {
  const struct tu_wire_ops *ops = r->wire->ops;
  for (struct tu_letter **link = &r->letters; *link;) {
    struct tu_letter *l = *link;
    if (!l->sent && is_of_comm(l->head, s->number) &&
        ops->post(r->wire, l->to, TU_IN_ORDER, l->head, l->body, l->bytes))
      drop(link);
    else link = &l->next;
  }
}

void tu_remote_recall_all(struct tu_remote *r, const struct tu_remote_comm *s) {
  tu_remote_recall(r, is_of_comm, s->number);
}

void tu_remote_free_letters(struct tu_remote *r) {
  while (r->letters) drop(&r->letters);
}
