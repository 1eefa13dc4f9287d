/* remote_state.c: the state of communicators with ranks on other hosts, and of the ends of their channels. All
 * functions are called with tu_remote.lock held. */
#include <stdlib.h>
#include <string.h>

#include "mover/remote_internal.h"

struct tu_remote *tu_remote_of(const struct tu_transport *t) {
  return (struct tu_remote *)(void *)t->hosts;
}

static struct tu_remote_comm **comm_bucket(struct tu_remote *r, uint64_t number) {
  return &r->comms[tu_hash(&number, sizeof number, 1) % TU_REMOTE_BUCKETS];
}

static bool is_remote(const struct tu_control *c, uint32_t rank) { return tu_control_local(c, rank) == TU_REMOTE; }

struct tu_remote_comm *tu_remote_find_comm(struct tu_remote *r, uint64_t number) {
  struct tu_remote_comm *s = *comm_bucket(r, number);
  while (s && s->number != number) s = s->chain;
  return s;
}

/* Returns the state of a communicator, created on first use; NULL: out of memory. */
struct tu_remote_comm *tu_remote_get_comm(struct tu_remote *r, uint64_t number) {
  struct tu_remote_comm *s = tu_remote_find_comm(r, number);
  if (s || !(s = tu_try_allocate(1, sizeof *s))) return s;
  s->number = number;
  s->chain = *comm_bucket(r, number);
  *comm_bucket(r, number) = s;
  return s;
}

static struct tu_remote_end **end_bucket(struct tu_remote *r, const struct tu_remote_comm *s, uint32_t peer,
                                         uint32_t lane) {
  const uint64_t key[] = {s->number, (uint64_t)peer << 32 | lane};
  return &r->buckets[tu_hash(key, sizeof key, 1) % TU_REMOTE_BUCKETS];
}

struct tu_remote_end *tu_remote_find_end(struct tu_remote *r, const struct tu_remote_comm *s, uint32_t peer,
                                         uint32_t lane) {
  struct tu_remote_end *e = *end_bucket(r, s, peer, lane);
  while (e && (e->comm != s || e->peer != peer || e->lane != lane)) e = e->chain;
  return e;
}

/* Returns an end of a channel, created on first use; NULL: out of memory. */
struct tu_remote_end *tu_remote_get_end(struct tu_remote *r, struct tu_remote_comm *s, uint32_t peer, uint32_t lane) {
  struct tu_remote_end *e = tu_remote_find_end(r, s, peer, lane);
  if (e) return e;
  e = aligned_alloc(_Alignof(struct tu_remote_end), sizeof *e);
  if (!e) return NULL;
  memset(e, 0, sizeof *e);
  e->comm = s;
  e->peer = peer;
  e->lane = lane;
  e->chain = *end_bucket(r, s, peer, lane);
  *end_bucket(r, s, peer, lane) = e;
  e->next = s->ends;
  s->ends = e;
  return e;
}

void tu_remote_free_end(struct tu_remote_end *e) {
  free(e->lines);
  free(e->slots);
  free(e->lent);
  free(e);
}

/* Removes an end of a channel from its hash bucket and from r->left, and frees it. The caller has removed it from the
 * list of its communicator. */
static void drop_end(struct tu_remote *r, struct tu_remote_end *e) {
  struct tu_remote_end **link = end_bucket(r, e->comm, e->peer, e->lane);
  while (*link != e) link = &(*link)->chain;
  *link = e->chain;
  for (link = &r->left; e->left && *link != e;) link = &(*link)->after;
  if (e->left) *link = e->after;
  tu_remote_free_end(e);
}

void tu_remote_free_held(struct tu_remote_comm *s) {
  for (struct tu_held *next; s->first; s->first = next) {
    next = s->first->next;
    free(s->first);
  }
  s->last = NULL;
}

void tu_remote_sweep(struct tu_remote *r, struct tu_remote_comm *s) {
  for (struct tu_remote_end **link = &s->ends; s->closed && *link;) {
    struct tu_remote_end *e = *link;
    if (e->filling) {
      link = &e->next;
      continue;
    }
    *link = e->next;
    drop_end(r, e);
  }
  if (!s->closed || s->ends || s->other_count > 0) return;
  struct tu_remote_comm **link = comm_bucket(r, s->number);
  while (*link != s) link = &(*link)->chain;
  *link = s->chain;
  tu_remote_free_comm(s);
}

void tu_remote_free_comm(struct tu_remote_comm *s) {
  tu_remote_free_held(s);
  free(s->others);
  free(s);
}

/* ---- members that have closed ---- */

static uint32_t find_other(const struct tu_remote_comm *s, uint32_t job_rank) {
  uint32_t at = 0;
  while (at < s->other_count && s->others[at] != job_rank) at++;
  return at;
}

/* If out of memory, the member is not recorded, and the state stays until the endpoint closes. */
void tu_remote_note_closed(struct tu_remote_comm *s, uint32_t job_rank) {
  const uint32_t at = find_other(s, job_rank);
  if (s->closed) {
    if (at < s->other_count) s->others[at] = s->others[--s->other_count];
    return;
  }
  uint32_t *more = at < s->other_count ? NULL : realloc(s->others, (at + 1) * sizeof *more);
  if (!more) return;
  s->others = more;
  s->others[s->other_count++] = job_rank;
}

void tu_remote_mark_closed(struct tu_remote *r, struct tu_remote_comm *s) {
  const struct tu_control *c = s->control;
  uint32_t count = 0, *awaited = malloc(c->ranks * sizeof *awaited);
  for (uint32_t i = 0; awaited && i < c->ranks; i++) {
    const uint32_t member = c->members[i];
    if (is_remote(c, i) && find_other(s, member) == s->other_count && r->wire->ops->met(r->wire, member))
      awaited[count++] = member;
  }
  free(s->others);
  s->others = awaited;
  s->other_count = count;
  s->control = NULL;
  s->closed = true;
}

/* ---- to members on other hosts ---- */

bool tu_remote_post(struct tu_remote *r, const struct tu_control *c, unsigned how, const struct tu_frame *f,
                    const void *body, size_t bytes) {
  bool posted = true;
  for (uint32_t i = 0; i < c->ranks; i++)
    if (is_remote(c, i)) posted &= r->wire->ops->post(r->wire, c->members[i], how, f, body, bytes);
  return posted;
}

void tu_remote_post_verdict(struct tu_remote *r, const struct tu_control *c, const struct tu_error *error) {
  const struct tu_frame f = {.comm_id = c->comm_id, .kind = TU_FRAME_VERDICT, .code = error->code};
  (void)tu_remote_post(r, c, TU_URGENT | TU_IF_MET, &f, error->text, strlen(error->text) + 1);
}

void tu_remote_fail(struct tu_remote *r, struct tu_remote_comm *s, const struct tu_error *error) {
  struct tu_control *c = s->control;
  if (!c && s->lost.code == TUTTI_OK) s->lost = *error;
  if (!c || s->deaf || !tu_verdict_post(&c->block->verdict, c->rank, error)) return;
  tu_control_wake_all(c);
  tu_remote_post_verdict(r, c, error);
}
