/* link.c: how the two ends of a link are created, find each other, and are closed. docs/CHANNELS.md explains the
 * order of the steps. */
#include "stream/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream/link_internal.h"

void (*tu_link_trace)(const struct tu_link_event *event);

/* Links of this process that have begun and whose handshakes were not over at the last look. */
static struct {
  pthread_mutex_t lock;
  struct tu_link *first;
} shaking = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Atomic uint32_t tu_mover_handshakes;

/* Clears the counters and flags of the channels on which this end sends. They lie in this end's link memory. */
static void clear(struct tu_link *link) {
  tu_link_tell(link, TU_LINK_CLEAR, 0);
  for (uint32_t n = 0; n < link->view.channels; n++) {
    struct tu_link_end *end = link->ends[n];
    if (!end || !end->sends) continue;
    tu_link_locate(end, link->memory, &link->view);
    if (link->far) end->done = &link->far->counts[n].done, end->acked = &link->far->counts[n].acked;
    atomic_store_explicit(end->done, 0, memory_order_relaxed);
    atomic_store_explicit(end->acked, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < link->view.slots; i++)
      atomic_store_explicit(&tu_link_line_at(end, i)->sequence, 0, memory_order_relaxed);
  }
  link->free_slots = link->view.slots == TU_LINK_SLOTS ? ~UINT64_C(0) : (UINT64_C(1) << link->view.slots) - 1;
}

/* ---- creating ---- */

static tutti_err take_number(struct tu_link *link, struct tu_error *error) {
  struct tu_mover *m = link->mover;
  struct tu_link_book *book = tu_link_book_of(m, link->peer, error);
  if (!book) return error->code;
  if (book->taken[link->number])
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "tutti_channel_build: rank %u has already built its end of link %u to rank %u, and it is still open; "
        "close its channels first, or use another link number",
        m->rank, link->number, link->peer);
  if (tu_control_local(&m->control, link->peer) == TU_REMOTE) {
    link->far = tu_far_link_of(book, link->number);
    if (!link->far) return tu_fail_memory(error, sizeof *link, "a link to rank %u", link->peer);
    link->theirs = &link->far->cell;
  }
  book->taken[link->number] = true;
  link->mine = &book->cells[link->number];
  return TUTTI_OK;
}

static void give_number_back(struct tu_link *link) {
  pthread_mutex_lock(&tu_link_books_lock);
  if (link->mine) link->mover->books[link->peer]->taken[link->number] = false;
  pthread_mutex_unlock(&tu_link_books_lock);
}

tutti_err tu_link_create(struct tu_mover *m, uint32_t peer, uint32_t number, const struct tu_link_view *view,
                         unsigned char *memory, struct tu_link **link, struct tu_error *error) {
  size_t bytes = tu_link_memory_bytes(view);
  struct tu_link *l = tu_try_allocate(1, sizeof *l);
  if (!l) return tu_fail_memory(error, sizeof *l, "a link to rank %u", peer);
  *l = (struct tu_link){
      .mover = m, .peer = peer, .bell = tu_control_bell(&m->control, peer), .number = number, .view = *view};
  l->memory = memory;
  l->slot_stride = tu_link_slot_stride(view);
  l->line_stride = tu_link_line_stride(view);
  pthread_mutex_init(&l->lock, NULL);
  pthread_mutex_lock(&tu_link_books_lock);
  tutti_err err = take_number(l, error);
  pthread_mutex_unlock(&tu_link_books_lock);
  if (err == TUTTI_OK && !memory && bytes > 0) {
    l->memory = tu_transport_acquire(m->transport, bytes, &l->own_offset, error);
    if (!l->memory) err = error->code;
    else if (m->populates) tu_transport_populate(m->transport, l->own_offset, bytes, true);
    l->view.offset = l->own_offset;
  }
  if (err != TUTTI_OK) tu_link_destroy(l, true);
  else *link = l;
  return err;
}

void tu_link_adopt(struct tu_link *link, uint32_t number, struct tu_link_end *end) {
  *end = (struct tu_link_end){.link = link,
                              .number = number,
                              .sends = link->view.sends >> number & 1,
                              .ends_at = link->view.counted ? link->view.messages[number] : 0};
  link->ends[number] = end;
  atomic_fetch_add(&link->open_ends, 1);
}

void tu_link_begin(struct tu_link *link) {
  pthread_mutex_lock(&tu_link_books_lock);
  link->operation = ++link->mover->books[link->peer]->operations[link->number];
  pthread_mutex_unlock(&tu_link_books_lock);
  pthread_mutex_lock(&shaking.lock);
  link->next = shaking.first;
  shaking.first = link;
  atomic_fetch_add(&tu_mover_handshakes, 1);
  pthread_mutex_unlock(&shaking.lock);
}

/* ---- the handshake ---- */

static uint32_t look(const _Atomic uint32_t *word) { return atomic_load_explicit(word, memory_order_acquire); }

static void store(struct tu_link *link, _Atomic uint32_t *word) {
  atomic_store_explicit(word, link->operation, memory_order_release);
  if (link->far) tu_far_link_tell_cell(link->mover, link->peer, link->number, link->mine);
  tu_mover_ring(link->mover, link->bell);
}

/* Returns true if the peer has not departed. Then data that was read from the peer's cells before this call is valid,
 * because a peer departs before it frees its cells. */
static bool peer_stays(const struct tu_link *link) { return !tu_control_departed(&link->mover->control, link->peer); }

static bool find_theirs(struct tu_link *link) {
  if (link->theirs) return true;
  uint64_t offset = tu_control_look_up(&link->mover->control, link->peer, TU_LINKS_LANE);
  if (offset == 0) return false;
  link->theirs = tu_link_cells_behind(tu_transport_at(link->mover->transport, offset)) + link->number;
  return true;
}

/* Returns true if this end sends on channel 0; such an end starts the handshake. If the two views agree, only one end
 * sends on channel 0, so only one end starts it. */
static bool is_initiator(const struct tu_link *link) { return link->view.sends & 1; }

static bool call(struct tu_link *link) {
  if (link->operation > 1) {
    if (!find_theirs(link) || look(&link->theirs->closed) != link->operation - 1 || !peer_stays(link)) return false;
    tu_link_tell(link, TU_LINK_SEE_PREVIOUS, link->operation - 1);
  }
  clear(link);
  tu_link_tell(link, TU_LINK_CALL, link->operation);
  link->mine->view = link->view;
  store(link, &link->mine->called);
  if (is_initiator(link)) {
    tu_link_tell(link, TU_LINK_HELLO, link->operation);
    store(link, &link->mine->hello);
  }
  return true;
}

static bool agree(const struct tu_link_view *a, const struct tu_link_view *b) {
  uint64_t all = a->channels == TU_LINK_CHANNELS ? ~UINT64_C(0) : (UINT64_C(1) << a->channels) - 1;
  if (a->slots != b->slots || a->slot_bytes != b->slot_bytes || a->channels != b->channels) return false;
  if (a->shared != b->shared || a->separate != b->separate || a->counted != b->counted) return false;
  if ((a->sends ^ b->sends) != all) return false;
  return !a->counted || memcmp(a->messages, b->messages, a->channels * sizeof *a->messages) == 0;
}

static void print_view(const struct tu_link_view *v, bool upward, char *text, size_t bytes) {
  char ways[TU_LINK_CHANNELS + 1] = "";
  for (uint32_t n = 0; n < v->channels; n++) ways[n] = (v->sends >> n & 1) == upward ? '>' : '<';
  snprintf(text, bytes, "%u %s slots of %u bytes, %s flags, %s streams, %u channels %s", v->slots,
           v->shared ? "shared" : "own", v->slot_bytes, tu_link_is_merged(v) ? "merged" : "separate",
           v->counted ? "counted" : "marked", v->channels, ways);
}

/* Writes the error message of a mismatch. The text is the same at both ends. The view of the lower rank comes first.
 * The sign > stands for a channel from the lower to the higher rank, and < for the opposite direction. */
static void refuse(struct tu_link *link, const struct tu_link_view *theirs) {
  char views[2][180], counts[100] = "";
  bool low = link->mover->rank < link->peer;
  const struct tu_link_view *a = low ? &link->view : theirs, *b = low ? theirs : &link->view;
  print_view(a, true, views[0], sizeof views[0]);
  print_view(b, false, views[1], sizeof views[1]);
  for (uint32_t n = 0; n < a->channels && n < b->channels && a->counted && b->counted && !counts[0]; n++)
    if (a->messages[n] != b->messages[n])
      snprintf(counts, sizeof counts, "; %llu and %llu messages on channel %u", (unsigned long long)a->messages[n],
               (unsigned long long)b->messages[n], n);
  tu_fail(&link->refusal, TUTTI_ERR_MISMATCH, "link %u: the two ends do not match: rank %u sees %s; rank %u sees %s%s",
          link->number, low ? link->mover->rank : link->peer, views[0], low ? link->peer : link->mover->rank, views[1],
          counts);
}

static bool meet(struct tu_link *link) {
  if (!find_theirs(link) || look(&link->theirs->called) != link->operation) return false;
  struct tu_link_view theirs = link->theirs->view;
  if (!peer_stays(link)) return false;
  tu_link_tell(link, TU_LINK_SEE_CALL, link->operation);
  store(link, &link->mine->met);
  if (!agree(&link->view, &theirs)) {
    tu_link_tell(link, TU_LINK_MISMATCH, link->operation);
    refuse(link, &theirs);
    atomic_store_explicit(&link->stage, TU_LINK_IS_REFUSED, memory_order_release);
    return false;
  }
  unsigned char *memory = link->far       ? link->far->memory
                          : theirs.offset ? tu_transport_at(link->mover->transport, theirs.offset)
                                          : (unsigned char *)(uintptr_t)theirs.address;
  for (uint32_t n = 0; n < link->view.channels; n++)
    if (link->ends[n] && !link->ends[n]->sends) tu_link_locate(link->ends[n], memory, &theirs);
  return true;
}

static bool greet(struct tu_link *link) {
  if (look(&link->theirs->hello) != link->operation || !peer_stays(link)) return false;
  if (is_initiator(link)) {
    tu_link_tell(link, TU_LINK_SEE_WELCOME, link->operation);
  } else {
    tu_link_tell(link, TU_LINK_SEE_HELLO, link->operation);
    tu_link_tell(link, TU_LINK_WELCOME, link->operation);
    store(link, &link->mine->hello);
  }
  tu_link_tell(link, TU_LINK_OPEN, link->operation);
  return true;
}

bool tu_link_advance(struct tu_link *link) {
  static bool (*const go[])(struct tu_link *) = {
      [TU_LINK_IS_NEW] = call, [TU_LINK_IS_CALLING] = meet, [TU_LINK_IS_GREETING] = greet};
  if (tu_link_is_open(link) || tu_link_is_refused(link)) return true;
  pthread_mutex_lock(&link->lock);
  uint32_t stage = atomic_load(&link->stage);
  while (stage < TU_LINK_IS_OPEN && go[stage](link)) atomic_store_explicit(&link->stage, ++stage, memory_order_release);
  stage = atomic_load(&link->stage);
  pthread_mutex_unlock(&link->lock);
  return stage >= TU_LINK_IS_OPEN;
}

static void unlist(struct tu_link **at) {
  *at = (*at)->next;
  atomic_fetch_sub(&tu_mover_handshakes, 1);
}

/* Continues the handshakes of the listed links of an endpoint. Does nothing if another thread uses the list. */
static void continue_all(const struct tu_transport *t) {
  if (pthread_mutex_trylock(&shaking.lock) != 0) return;
  for (struct tu_link **at = &shaking.first; *at;)
    if ((*at)->mover->transport == t && tu_link_advance(*at)) unlist(at);
    else at = &(*at)->next;
  pthread_mutex_unlock(&shaking.lock);
}

void (*const tu_mover_continue_handshakes)(const struct tu_transport *t) = continue_all;

void tu_link_reset(void) {
  pthread_mutex_init(&shaking.lock, NULL);
  shaking.first = NULL;
  atomic_store(&tu_mover_handshakes, 0);
}

/* ---- closing ---- */

bool tu_link_drained(struct tu_link_end *end) {
  struct tu_link *link = end->link;
  if (tu_link_is_refused(link)) return look(&link->theirs->met) == link->operation;
  if (end->sends && tu_link_done(end) != end->sent) return false;
  if (tu_link_trace)
    tu_link_say(end, end->sends ? TU_LINK_DRAINED : TU_LINK_ENDED, end->sends ? end->sent : end->taken, NULL);
  return true;
}

void tu_link_leave(struct tu_link_end *end, bool in_order) {
  struct tu_link *link = end->link;
  pthread_mutex_lock(&link->lock);
  link->ends[end->number] = NULL;
  pthread_mutex_unlock(&link->lock);
  if (atomic_fetch_sub(&link->open_ends, 1) > 1) return;
  tu_link_tell(link, TU_LINK_CLOSED, link->operation);
  const uint32_t operation = link->operation, bell = link->bell, peer = link->peer, number = link->number;
  const bool far = link->far;
  struct tu_link_cell *mine = link->mine;
  struct tu_mover *m = link->mover;
  tu_link_destroy(link, in_order);
  if (!in_order) return;
  atomic_store_explicit(&mine->closed, operation, memory_order_release);
  if (far) tu_far_link_tell_cell(m, peer, number, mine);
  tu_mover_ring(m, bell);
}

void tu_link_destroy(struct tu_link *link, bool in_order) {
  pthread_mutex_lock(&shaking.lock);
  struct tu_link **at = &shaking.first;
  while (*at && *at != link) at = &(*at)->next;
  if (*at) unlist(at);
  pthread_mutex_unlock(&shaking.lock);
  if (in_order && link->own_offset) tu_transport_release(link->mover->transport, link->own_offset);
  if (in_order) give_number_back(link);
  pthread_mutex_destroy(&link->lock);
  free(link);
}
