/* matching.c: decides which message belongs to which receive. All messages from one rank to another use one channel. A
 * receive names the channel, or takes messages of all channels (from any rank), and gets the first message with its tag.
 * If several receives could get a message, the one that was started first gets it. So a receive from any rank competes
 * with the receives of each channel, and both carry their position in the order of starts.
 *
 * A message that no receive has asked for yet may be in front of the wanted message. Then the first one is set aside:
 * it is copied into separate memory. If messages arrive in the order in which they are received, nothing is set aside,
 * and nothing is copied twice. Then a sender that runs ahead has to wait when it has no credit left.
 *
 * No open receive fits a message that is set aside and not claimed: a receive looks for such messages when it is started,
 * and a message that an open receive fits is not set aside. So a later receive cannot take a message from an earlier one. */
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

/* A loop over the ranks that `rank` names: one, or all of them if it is TUTTI_ANY_RANK. The loop begins at the rank whose
 * turn it is. */
struct ranks {
  uint32_t first, count;
};
static struct ranks ranks_named(const struct tu_mover *mover, uint32_t rank) {
  return rank == TUTTI_ANY_RANK ? (struct ranks){mover->any_turn, mover->ranks} : (struct ranks){rank, 1};
}

tutti_err tu_matching_prepare_from(struct tu_mover *mover, uint32_t rank, struct tu_error *error) {
  const struct ranks named = ranks_named(mover, rank);
  for (uint32_t i = 0; i < named.count; i++) {
    const uint32_t peer = (named.first + i) % mover->ranks;
    struct tu_receiver *r = tu_mover_receiver(mover, peer, TU_POINT_TO_POINT_LANE);
    if (!r || !tu_matching_prepare(r)) return tu_fail_memory(error, sizeof *r, "a channel from rank %u", peer);
  }
  return TUTTI_OK;
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

/* ---- the receives that have no message yet ---- */

static struct tu_expected **list_of(struct tu_mover *mover, const struct tu_expected *e) {
  return e->receiver ? &e->receiver->matching->posted : &mover->any;
}

static void add(struct tu_expected **link, struct tu_expected *e) {
  while (*link) link = &(*link)->next;
  *link = e;
  e->posted = true;
}

static void unpost(struct tu_mover *mover, struct tu_expected *e) {
  struct tu_expected **link = list_of(mover, e);
  while (*link != e) link = &(*link)->next;
  *link = e->next;
  e->posted = false;
}

static inline bool fits(uint32_t wanted, uint64_t tag) { return wanted == TUTTI_ANY_TAG || wanted == (uint32_t)tag; }

static struct tu_expected *first_for(struct tu_expected *list, uint64_t tag) {
  while (list && !fits(list->tag, tag)) list = list->next;
  return list;
}

/* Returns the receive that gets a message of this channel; NULL: no open receive asks for it. Receives from any rank have
 * one lane. */
static struct tu_expected *find_owner(const struct tu_mover *mover, const struct tu_receiver *r, uint64_t tag) {
  struct tu_expected *named = first_for(r->matching->posted, tag);
  struct tu_expected *any = r->lane == TU_POINT_TO_POINT_LANE ? first_for(mover->any, tag) : NULL;
  if (!named || !any) return named ? named : any;
  return named->order < any->order ? named : any;
}

/* Records that a receive gets a message of channel `r`. The next receive from any rank prefers the ranks after it. */
static void give(struct tu_mover *mover, struct tu_expected *e, struct tu_receiver *r, uint64_t tag) {
  if (e->posted) unpost(mover, e);
  if (!e->receiver) mover->any_turn = (r->peer + 1) % mover->ranks;
  e->receiver = r;
  e->tag = (uint32_t)tag;
}

/* ---- messages that are set aside ---- */

static struct tu_early *find_early(const struct tu_matching *m, uint32_t tag) {
  struct tu_early *early = m->early;
  while (early && (early->claimed || !fits(tag, early->tag))) early = early->next;
  return early;
}

/* Gives the receive a message of this channel that was set aside. Returns false if there is none that fits. */
static bool claim_early(struct tu_mover *mover, struct tu_expected *e, struct tu_receiver *r) {
  struct tu_early *early = find_early(r->matching, e->tag);
  if (!early) return false;
  early->claimed = true;
  e->early = early;
  give(mover, e, r, early->tag);
  return true;
}

/* Copies the slices that have arrived of the message that is being set aside (copied into separate memory, because no
 * receive has asked for it yet). */
static void fill_early(struct tu_mover *mover, struct tu_receiver *r) {
  struct tu_matching *m = r->matching;
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

/* ---- messages at the head of a channel ---- */

enum head {
  HEAD_NONE,   /* no message is there, or it has its receive */
  HEAD_WANTED, /* no receive asks for it, and it has the tag `probed` */
  HEAD_NO_MEMORY
};

/* Gives the message at the head of a channel to its receive. A message that no receive asks for is set aside, and the next
 * one follows. probed: NULL, or the tag of messages that are not set aside. */
static enum head advance(struct tu_mover *mover, struct tu_receiver *r, const uint32_t *probed) {
  struct tu_matching *m = r->matching;
  for (;;) {
    fill_early(mover, r);
    const struct tu_line *line = m->current || m->filling ? NULL : tu_receiver_line(r);
    if (!line) return HEAD_NONE;
    struct tu_expected *owner = find_owner(mover, r, line->tag);
    if (owner) {
      m->current = owner;
      give(mover, owner, r, line->tag);
      return HEAD_NONE;
    }
    if (probed && fits(*probed, line->tag)) return HEAD_WANTED;
    if (!set_aside(m, line)) return HEAD_NO_MEMORY;
  }
}

/* Returns the prepared channel from the peer, or NULL if the peer has not sent anything on it yet. */
static struct tu_receiver *channel_from(struct tu_mover *mover, uint32_t peer) {
  struct tu_receiver *r = tu_mover_receiver(mover, peer, TU_POINT_TO_POINT_LANE);
  return r->lines || tu_mover_attach(mover, r) ? r : NULL;
}

/* Looks at the channels of all ranks as long as a receive from any rank has no message. starts: this one has just been
 * started, so it also looks at messages that were set aside. Returns the channel for whose message there was no memory;
 * otherwise NULL. */
static struct tu_receiver *look_at_all(struct tu_mover *mover, struct tu_expected *starts) {
  const struct ranks all = ranks_named(mover, TUTTI_ANY_RANK);
  for (uint32_t i = 0; i < all.count && mover->any; i++) {
    struct tu_receiver *r = channel_from(mover, (all.first + i) % mover->ranks);
    if (!r || (starts && starts->posted && claim_early(mover, starts, r))) continue;
    if (advance(mover, r, NULL) == HEAD_NO_MEMORY) return r;
  }
  return NULL;
}

/* ---- receives ---- */

void tu_matching_post(struct tu_mover *mover, struct tu_expected *e, uint32_t tag, struct tu_receiver *r) {
  *e = (struct tu_expected){.tag = tag, .receiver = r, .order = ++mover->receives};
  if (!claim_early(mover, e, r)) add(list_of(mover, e), e);
}

/* Nothing is done about a lack of memory: the first poll finds it, too, and reports it. */
void tu_matching_post_any(struct tu_mover *mover, struct tu_expected *e, uint32_t tag) {
  *e = (struct tu_expected){.tag = tag, .order = ++mover->receives};
  add(&mover->any, e);
  (void)look_at_all(mover, e);
}

/* A message that arrives for another receive rings the bell, so it is not lost on a rank that is about to sleep. Therefore
 * only the first of the receives from any rank has to look at all channels. */
enum tu_match tu_matching_poll(struct tu_mover *mover, struct tu_expected *e, struct tu_receiver **r) {
  if (e == mover->any && (*r = look_at_all(mover, NULL))) return TU_MATCH_NO_MEMORY;
  *r = e->receiver;
  if (!e->receiver || (!e->receiver->lines && !tu_mover_attach(mover, e->receiver))) return TU_MATCH_NONE;
  if (e->early) {
    fill_early(mover, e->receiver);
    return e->early->have == e->early->bytes ? TU_MATCH_EARLY : TU_MATCH_NONE;
  }
  struct tu_matching *m = e->receiver->matching;
  if (m->current != e && advance(mover, e->receiver, NULL) == HEAD_NO_MEMORY) return TU_MATCH_NO_MEMORY;
  return m->current == e ? TU_MATCH_HEAD : TU_MATCH_NONE;
}

const void *tu_matching_early(const struct tu_expected *e, size_t *bytes, uint64_t *tag) {
  *bytes = e->early->bytes;
  *tag = e->early->tag;
  return e->early->data;
}

void tu_matching_end(struct tu_expected *e) {
  struct tu_matching *m = e->receiver->matching;
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

void tu_matching_cancel(struct tu_mover *mover, struct tu_expected *e) {
  if (e->receiver && !e->receiver->matching) return; /* the communicator is closed */
  if (e->posted) unpost(mover, e);
  if (e->receiver && e->receiver->matching->current == e) e->receiver->matching->current = NULL;
  e->early = NULL;
}

/* ---- probes ---- */

/* Looks for a message on one channel. Returns false if out of memory. */
static bool probe_channel(struct tu_mover *mover, struct tu_receiver *r, uint32_t tag, bool *found,
                          tutti_message *message) {
  const struct tu_early *early = find_early(r->matching, tag);
  const enum head head = early ? HEAD_NONE : advance(mover, r, &tag);
  const struct tu_line *line = head == HEAD_WANTED ? tu_receiver_line(r) : NULL;
  if (early) *message = (tutti_message){.rank = r->peer, .tag = (uint32_t)early->tag, .bytes = early->bytes};
  if (line) *message = (tutti_message){.rank = r->peer, .tag = (uint32_t)line->tag, .bytes = line->message_bytes};
  *found = early || line;
  return head != HEAD_NO_MEMORY;
}

tutti_err tu_matching_probe(struct tu_mover *mover, uint32_t rank, uint32_t tag, bool *found, tutti_message *message,
                            struct tu_error *error) {
  const struct ranks named = ranks_named(mover, rank);
  *found = false;
  for (uint32_t i = 0; i < named.count && !*found; i++) {
    struct tu_receiver *r = channel_from(mover, (named.first + i) % mover->ranks);
    if (r && !probe_channel(mover, r, tag, found, message))
      return tu_fail_memory(error, 64, "a copy of a message from rank %u", r->peer);
  }
  return TUTTI_OK;
}
