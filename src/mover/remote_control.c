/* remote_control.c: control frames (frames without slices) to and from ranks of other hosts. */
#include <string.h>

#include "mover/remote_internal.h"

/* Returns true if the member runs on another host, and is the leader there: the lowest rank of the communicator. */
static bool leads_elsewhere(const struct tu_control *c, uint32_t rank) {
  const uint32_t *host = tu_remote_of(c->transport)->wire->host;
  if (tu_control_local(c, rank) != TU_REMOTE) return false;
  for (uint32_t i = 0; i < rank; i++)
    if (host[c->members[i]] == host[c->members[rank]]) return false;
  return true;
}

/* Sends a control frame to one rank of each other host, for all its ranks. Returns false if out of memory; ranks that did
 * not get the frame then wait until their time-outs. */
static bool say_to_hosts(const struct tu_control *c, const struct tu_frame *f, const void *body, size_t bytes) {
  struct tu_remote *r = tu_remote_of(c->transport);
  bool said = true;
  pthread_mutex_lock(&r->lock);
  for (uint32_t i = 0; i < c->ranks; i++)
    if (leads_elsewhere(c, i)) said &= r->wire->ops->post(r->wire, c->members[i], TU_URGENT, f, body, bytes);
  pthread_mutex_unlock(&r->lock);
  return said;
}

/* ---- receiving ---- */

static void hear_call(struct tu_remote *r, struct tu_control *c, uint32_t from, uint32_t member,
                      const struct tu_frame *f, const struct tu_call_note *call) {
  struct tu_board *theirs = &c->boards[member], *mine = &c->boards[c->rank];
  struct tu_error error;
  tu_board_hear(theirs, call->number, call->words, tu_max(call->number, call->latest));
  if (f->code == 0) {
    c->others[member].asked = false;
    return;
  }
  const struct tu_frame answer = {.comm_id = f->comm_id, .kind = TU_FRAME_CALL};
  struct tu_call_note own = {.latest = atomic_load(&mine->latest)};
  const uint64_t asked[] = {call->number, own.latest};
  for (int i = 0; i < 2 && own.number == 0; i++)
    if (asked[i] > 0 && tu_board_read(mine, asked[i], own.words)) own.number = asked[i];
  (void)r->wire->ops->post(r->wire, from, TU_URGENT, &answer, &own, sizeof own);
  const struct tu_frame here = {.comm_id = f->comm_id, .kind = TU_FRAME_HERE};
  if (atomic_load(&mine->here)) (void)r->wire->ops->post(r->wire, from, TU_URGENT, &here, NULL, 0);
  if (!tu_control_verdict(c, &error)) return;
  const struct tu_frame verdict = {.comm_id = f->comm_id, .kind = TU_FRAME_VERDICT, .code = error.code};
  (void)r->wire->ops->post(r->wire, from, TU_URGENT, &verdict, error.text, strlen(error.text) + 1);
}

void tu_remote_hear(struct tu_remote *r, struct tu_control *c, uint32_t from, const struct tu_frame *f, void *body,
                    size_t bytes) {
  struct tu_error error = {.code = (tutti_err)f->code};
  uint32_t member = tu_control_member_of(c, from);
  if (member == TU_NONE) return;
  atomic_store(&c->others[member].heard, true);
  switch ((enum tu_frame_kind)f->kind) {
    case TU_FRAME_CALL:
      if (bytes == sizeof(struct tu_call_note)) hear_call(r, c, from, member, f, body);
      return;
    case TU_FRAME_VERDICT:
      if (error.code == TUTTI_OK) error.code = TUTTI_ERR_SYSTEM;
      if (bytes > 0) memcpy(error.text, body, tu_min(bytes, sizeof error.text));
      error.text[sizeof error.text - 1] = '\0';
      if (tu_verdict_post(&c->block->verdict, c->rank, &error)) tu_control_wake_all(c);
      return;
    case TU_FRAME_WORDS:
      if (tu_control_hear_words(c, body, bytes, &error) != TUTTI_OK) tu_remote_fail(r, c->far, &error);
      return;
    case TU_FRAME_HERE:
      atomic_store(&c->boards[member].here, 1);
      tu_control_wake_all(c);
      return;
    case TU_FRAME_DEPARTED: atomic_store(&c->others[member].departed, true); return;
    case TU_FRAME_LINK: {
      struct tu_link_head head;
      memcpy(&head, f, sizeof head);
      if (c->links->hear(c, member, &head, body, bytes)) return;
      tu_fail_memory(&error, bytes, "a link with rank %u", member);
      tu_remote_fail(r, c->far, &error);
      return;
    }
    case TU_FRAME_MISSED: atomic_store(&c->boards[member].missed, f->code); return;
    default: return;
  }
}

/* ---- sending ---- */

void tu_remote_spread_verdict(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  struct tu_error error;
  if (!tu_control_verdict(c, &error)) return;
  pthread_mutex_lock(&r->lock);
  tu_remote_post_verdict(r, c, &error);
  pthread_mutex_unlock(&r->lock);
}

void tu_remote_say_here(const struct tu_control *c) {
  const struct tu_frame f = {.comm_id = c->comm_id, .kind = TU_FRAME_HERE};
  (void)say_to_hosts(c, &f, NULL, 0);
}

void tu_remote_say_departed(const struct tu_control *c) {
  struct tu_remote *r = tu_remote_of(c->transport);
  const struct tu_frame f = {.comm_id = c->comm_id, .kind = TU_FRAME_DEPARTED};
  pthread_mutex_lock(&r->lock);
  /* A peer may count this rank as lost once it has the departure, so the slices go first. */
  if (c->far) tu_remote_post_rest(r, c->far);
  (void)tu_remote_post(r, c, TU_IF_MET, &f, NULL, 0);
  if (c->far) c->far->deaf = true;
  pthread_mutex_unlock(&r->lock);
}

bool tu_remote_say_words(const struct tu_control *c, const void *words, size_t bytes) {
  const struct tu_frame f = {.comm_id = c->comm_id, .kind = TU_FRAME_WORDS};
  return say_to_hosts(c, &f, words, bytes);
}

void tu_remote_say_missed(struct tu_transport *t, uint64_t comm_id, tutti_err why, const uint32_t members[],
                          uint32_t ranks) {
  struct tu_remote *r = tu_remote_of(t);
  const struct tu_frame f = {.comm_id = comm_id, .kind = TU_FRAME_MISSED, .code = why};
  pthread_mutex_lock(&r->lock);
  for (uint32_t i = 0; i < ranks; i++)
    if (tu_transport_local(t, members[i]) == TU_REMOTE)
      (void)r->wire->ops->post(r->wire, members[i], TU_URGENT, &f, NULL, 0);
  pthread_mutex_unlock(&r->lock);
}

void tu_remote_ask(const struct tu_control *c, const bool whom[], uint64_t number, bool urgent) {
  struct tu_remote *r = tu_remote_of(c->transport);
  const struct tu_board *mine = &c->boards[c->rank];
  const struct tu_frame f = {.comm_id = c->comm_id, .kind = TU_FRAME_CALL, .code = 1};
  struct tu_call_note call = {.latest = atomic_load(&mine->latest)};
  if (number == 0) number = call.latest;
  if (number > 0 && tu_board_read(mine, number, call.words)) call.number = number;
  pthread_mutex_lock(&r->lock);
  for (uint32_t i = 0; i < c->ranks; i++) {
    if (!whom[i] || tu_control_local(c, i) != TU_REMOTE || (c->others[i].asked && !urgent)) continue;
    c->others[i].asked = r->wire->ops->post(r->wire, c->members[i], TU_URGENT, &f, &call, sizeof call);
  }
  pthread_mutex_unlock(&r->lock);
}

bool tu_remote_alive(const struct tu_transport *t, uint32_t job_rank) {
  struct tu_remote *r = tu_remote_of(t);
  pthread_mutex_lock(&r->lock);
  bool alive = r->wire->ops->alive(r->wire, job_rank);
  pthread_mutex_unlock(&r->lock);
  return alive;
}
