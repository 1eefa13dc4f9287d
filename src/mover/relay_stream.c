/* relay_stream.c: the channels that programs stream through (link.h), over a relay: the receiver has a copy of the sender's link
 * memory, into which lines and payloads are carried; its counts are carried back. */
#include <string.h>

#include "mover/link.h"
#include "mover/relay_parts.h"

static struct tu_link_line *line_at(const struct tu_relay_stream *s, uint32_t message) {
  return (struct tu_link_line *)(void *)(s->lines + message % s->slots * s->line_stride);
}

void tu_relay_add_stream(struct tu_relay *r, struct tu_relay_stream *s) {
  pthread_mutex_lock(&r->lock);
  s->next = r->streams;
  r->streams = s;
  pthread_mutex_unlock(&r->lock);
}

void tu_relay_remove_stream(struct tu_relay *r, struct tu_relay_stream *s) {
  pthread_mutex_lock(&r->lock);
  struct tu_relay_stream **at = &r->streams;
  while (*at && *at != s) at = &(*at)->next;
  if (*at) *at = s->next;
  pthread_mutex_unlock(&r->lock);
}

bool tu_relay_has_told(struct tu_relay *r, const struct tu_relay_stream *s) {
  pthread_mutex_lock(&r->lock);
  bool told = s->told_done == atomic_load_explicit(s->done, memory_order_relaxed);
  pthread_mutex_unlock(&r->lock);
  return told;
}

/* Under the lock. NULL: it has been given up, with its communicator. */
static struct tu_relay_stream *find(const struct tu_relay *r, uint32_t peer, uint64_t key) {
  struct tu_relay_stream *s = r->streams;
  while (s && (s->peer != peer || s->key != key)) s = s->next;
  return s;
}

/* ---- what comes ---- */

static void write_line(struct tu_relay_stream *s, const struct tu_relay_message *m, const unsigned char *part) {
  struct tu_link_line *line = line_at(s, s->carried);
  tu_assert(m->at + m->part <= m->bytes && m->bytes <= s->slot_stride && m->slot < s->slots);
  memcpy(s->payloads + m->slot * s->slot_stride + m->at, part, m->part);
  if (m->at + m->part < m->bytes) return;
  line->bytes = m->bytes;
  line->slot = m->slot;
  line->last = m->last;
  atomic_store_explicit(&line->sequence, ++s->carried, memory_order_release);
}

void tu_relay_take_line(struct tu_relay *r, uint32_t peer, const struct tu_relay_message *m,
                        const unsigned char *part) {
  pthread_mutex_lock(&r->lock);
  struct tu_relay_stream *s = find(r, peer, m->key);
  if (s) write_line(s, m, part);
  pthread_mutex_unlock(&r->lock);
}

void tu_relay_take_counts(struct tu_relay *r, uint32_t peer, const struct tu_relay_message *m) {
  pthread_mutex_lock(&r->lock);
  const struct tu_relay_stream *s = find(r, peer, m->key);
  if (s) atomic_store_explicit(s->acked, m->acked, memory_order_release);
  if (s) atomic_store_explicit(s->done, m->done, memory_order_release);
  pthread_mutex_unlock(&r->lock);
}

/* ---- what goes ---- */

static void put_part(struct tu_reliable *link, struct tu_relay_stream *s, const struct tu_link_line *line) {
  uint32_t room = tu_reliable_bytes_max(link) - (uint32_t)sizeof(struct tu_relay_message);
  struct tu_relay_message m = {.kind = TU_RELAY_LINE, .bytes = line->bytes, .at = s->part_at, .key = s->key};
  m.slot = line->slot;
  m.last = line->last;
  m.part = (uint32_t)tu_min(room, line->bytes - s->part_at);
  unsigned char *to = tu_reliable_place(link);
  memcpy(to, &m, sizeof m);
  memcpy(to + sizeof m, s->payloads + line->slot * s->slot_stride + m.at, m.part);
  tu_reliable_put(link, (uint32_t)sizeof m + m.part, tu_clock_ns());
  s->part_at += m.part;
  if (s->part_at < line->bytes) return;
  s->part_at = 0;
  s->carried++;
}

static bool carry_lines(struct tu_reliable *link, struct tu_relay_stream *s) {
  bool moved = false;
  while (tu_reliable_ready(link)) {
    const struct tu_link_line *line = line_at(s, s->carried);
    if (atomic_load_explicit(&line->sequence, memory_order_acquire) != s->carried + 1) break;
    put_part(link, s, line);
    moved = true;
  }
  return moved;
}

/* `done` is read first: an acknowledgement is older than the last release, so it is told with it, and nothing after it. */
static bool tell_counts(struct tu_reliable *link, struct tu_relay_stream *s) {
  struct tu_relay_message m = {.kind = TU_RELAY_COUNTS, .key = s->key};
  m.done = atomic_load_explicit(s->done, memory_order_acquire);
  m.acked = atomic_load_explicit(s->acked, memory_order_acquire);
  if ((m.done == s->told_done && m.acked == s->told_acked) || !tu_reliable_ready(link)) return false;
  memcpy(tu_reliable_place(link), &m, sizeof m);
  tu_reliable_put(link, sizeof m, tu_clock_ns());
  s->told_done = m.done;
  s->told_acked = m.acked;
  return true;
}

bool tu_relay_carry_streams(struct tu_relay *r, uint32_t peer) {
  bool moved = false;
  pthread_mutex_lock(&r->lock);
  for (struct tu_relay_stream *s = r->streams; s; s = s->next) {
    if (s->peer != peer) continue;
    moved |= s->sends ? carry_lines(&r->links[peer], s) : tell_counts(&r->links[peer], s);
  }
  pthread_mutex_unlock(&r->lock);
  return moved;
}
