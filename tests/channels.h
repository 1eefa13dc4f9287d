/* channels.h: helpers of the tests of channels: the content of messages, and both ends of a link in one thread. */
#ifndef CHANNELS_H
#define CHANNELS_H

#include <tutti/channel.h>

#include "api/comm_create.h"
#include "troupe.h"

enum { SLICE = 8 << 20 };

/* ---- content of messages ---- */

static inline unsigned char content(uint64_t key, uint64_t message, size_t at) {
  return (unsigned char)(key * 131 + message * 29 + at * 7 + (at >> 8));
}

/* Returns the length of a message, from 0 to a whole slot, often one of these two. */
static inline size_t length(uint64_t key, uint64_t message, size_t slot_bytes) {
  uint64_t state = key * 1000003 + message;
  switch (tu_random(&state) % 6) {
    case 0: return 0;
    case 1: return slot_bytes;
    case 2: return tu_min(48, slot_bytes);
    case 3: return tu_min(49, slot_bytes);
    default: return tu_random(&state) % (slot_bytes + 1);
  }
}

static inline void fill(void *slot, uint64_t key, uint64_t message, size_t bytes) {
  unsigned char *to = slot;
  for (size_t i = 0; i < bytes; i++) to[i] = content(key, message, i);
}

static inline bool right(const tutti_channel_message *m, uint64_t key, uint64_t message, size_t slot_bytes) {
  const unsigned char *data = m->data;
  if (!data || m->number != message || m->bytes != length(key, message, slot_bytes)) return false;
  for (size_t i = 0; i < m->bytes; i++)
    if (data[i] != content(key, message, i)) return false;
  return true;
}

/* ---- two ranks in one thread ---- */

struct pair {
  tutti_comm *comm[2];
  struct tu_transport *endpoints[2];
};

static inline bool pair_open(struct pair *p) {
  struct tu_error error = {0};
  const uint32_t members[2] = {0, 1};
  bool good = tu_loop_create(2, SLICE, p->endpoints, &error) == TUTTI_OK;
  for (uint32_t r = 0; r < 2 && good; r++)
    good = tu_comm_create(p->endpoints[r], members, 2, r, TU_WORLD_ID, TROUPE_JOIN_MS, &p->comm[r], &error) == TUTTI_OK;
  CHECK(good, "two ranks: %s", error.text);
  return good;
}

/* Frees the communicators, last that of rank 0, in whose slice the shared block lies. */
static inline void pair_close(struct pair *p) {
  tutti_err b = tutti_comm_free(p->comm[1]), a = tutti_comm_free(p->comm[0]);
  CHECK(a == TUTTI_OK && b == TUTTI_OK, "free: %s, %s", tutti_err_name(b), tutti_error_message(NULL));
}

/* Builds both ends of a channel from rank 0 to rank 1, until both are ready. */
static inline bool open_both(struct pair *pair, const tutti_channel_options *options, tutti_channel *ends[2]) {
  const tutti_channel_options o = options ? *options : (tutti_channel_options){0};
  for (uint32_t r = 0; r < 2; r++) {
    tutti_channel_builder *b = NULL;
    bool good = tutti_channel_builder_create(pair->comm[r], &o, &b) == TUTTI_OK;
    good = good && (r == 0 ? tutti_channel_add_sender(b, 1, o.messages, NULL)
                           : tutti_channel_add_receiver(b, 0, o.messages, NULL)) == TUTTI_OK;
    good = good && tutti_channel_build(b, &ends[r]) == TUTTI_OK;
    tutti_channel_builder_free(b);
    CHECK(good, "build: %s", tutti_error_message(NULL));
    if (!good) return false;
  }
  bool ready[2] = {false, false};
  for (int i = 0; i < 4; i++) CHECK(tutti_channel_try_ready(ends[i % 2], &ready[i % 2]) == TUTTI_OK, "try_ready");
  CHECK(ready[0] && ready[1], "the link is not ready after two rounds");
  return ready[0] && ready[1];
}

static inline void put(tutti_channel *to, const char *text, bool last) {
  void *slot = NULL;
  CHECK(tutti_channel_try_acquire(to, &slot) == TUTTI_OK && slot, "no slot for %s", text);
  if (!slot) return;
  memcpy(slot, text, strlen(text));
  CHECK(tutti_channel_commit(to, strlen(text), last) == TUTTI_OK, "commit: %s", tutti_error_message(NULL));
}

static inline void take(tutti_channel *from, const char *text) {
  tutti_channel_message m = {0};
  CHECK(tutti_channel_try_peek(from, 0, &m) == TUTTI_OK && m.data && m.bytes == strlen(text) &&
            memcmp(m.data, text, m.bytes) == 0,
        "message '%s' did not arrive", text);
  CHECK(tutti_channel_release(from) == TUTTI_OK, "release: %s", tutti_error_message(NULL));
}

static inline void close_both(tutti_channel *ends[2]) {
  for (uint32_t r = 2; r-- > 0;)
    CHECK(tutti_channel_close(ends[r], 1000) == TUTTI_OK, "close: %s", tutti_error_message(NULL));
}

static inline tutti_channel *one_end(tutti_comm *comm, const tutti_channel_options *o, const char *ways,
                                     uint64_t messages, tutti_channel *all[]) {
  tutti_channel_builder *b = NULL;
  bool good = tutti_channel_builder_create(comm, o, &b) == TUTTI_OK;
  uint32_t peer = 1 - tutti_rank(comm);
  for (uint32_t c = 0; good && ways[c]; c++)
    good =
        (ways[c] == '>' ? tutti_channel_add_sender : tutti_channel_add_receiver)(b, peer, messages, NULL) == TUTTI_OK;
  good = good && tutti_channel_build(b, all) == TUTTI_OK;
  tutti_channel_builder_free(b);
  CHECK(good, "one end: %s", tutti_error_message(NULL));
  return all[0];
}

#endif
