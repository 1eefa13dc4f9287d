/* channel_test.c: channels. Seeded schedules: one thread plays both ends, with calls that look once, in every order that the
 * seed gives. Then the same between threads and between real processes, with waiting. Then all that is refused, ends that do not
 * agree, ranks that die, and calls that are out of time. */
#include <sched.h>
#include <signal.h>
#include <tutti/channel.h>

#include "api/channel.h"
#include "troupe.h"

enum { SLICE = 8 << 20, CHANNELS_MAX = 8 };

/* ---- what is sent ---- */

static unsigned char content(uint64_t key, uint64_t message, size_t at) {
  return (unsigned char)(key * 131 + message * 29 + at * 7 + (at >> 8));
}

/* From none to a whole slot, often at an edge. */
static size_t length(uint64_t key, uint64_t message, size_t slot_bytes) {
  uint64_t state = key * 1000003 + message;
  switch (tu_random(&state) % 6) {
    case 0: return 0;
    case 1: return slot_bytes;
    case 2: return tu_min(48, slot_bytes);
    case 3: return tu_min(49, slot_bytes);
    default: return tu_random(&state) % (slot_bytes + 1);
  }
}

static void fill(void *slot, uint64_t key, uint64_t message, size_t bytes) {
  unsigned char *to = slot;
  for (size_t i = 0; i < bytes; i++) to[i] = content(key, message, i);
}

static bool right(const tutti_channel_message *m, uint64_t key, uint64_t message, size_t slot_bytes) {
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

static bool pair_open(struct pair *p) {
  struct tu_error error = {0};
  const uint32_t members[2] = {0, 1};
  bool good = tu_loop_create(2, SLICE, p->endpoints, &error) == TUTTI_OK;
  for (uint32_t r = 0; r < 2 && good; r++)
    good = tu_comm_create(p->endpoints[r], members, 2, r, TU_WORLD_SESSION, TROUPE_JOIN_MS, &p->comm[r], &error) ==
           TUTTI_OK;
  CHECK(good, "two ranks: %s", error.text);
  return good;
}

/* The leader is the last to go. */
static void pair_close(struct pair *p) {
  tutti_err b = tutti_comm_free(p->comm[1]), a = tutti_comm_free(p->comm[0]);
  CHECK(a == TUTTI_OK && b == TUTTI_OK, "free: %s, %s", tutti_err_name(b), tutti_error_message(NULL));
}

/* One end of a channel, as the schedule sees it. */
struct end {
  tutti_channel *channel;
  uint64_t key, messages, at, acked, seen;
  bool sends, closed;
};

struct play {
  tutti_channel_options options;
  uint32_t channels;
  struct end ends[2][CHANNELS_MAX];
  uint64_t random;
};

static void draw_options(struct play *p) {
  uint64_t *r = &p->random;
  p->options = (tutti_channel_options){
      .slots = 1 + (uint32_t)(tu_random(r) % 8),
      .slot_bytes = 1 + tu_random(r) % (tu_random(r) % 2 ? 200 : 64),
      .ending = tu_random(r) % 2 ? TUTTI_CHANNEL_COUNTED : TUTTI_CHANNEL_MARKED,
      .shared = tu_random(r) % 3 == 0,
      .separate_flag = tu_random(r) % 2,
      .link = (uint32_t)(tu_random(r) % 16),
  };
  p->channels = 1 + (uint32_t)(tu_random(r) % (CHANNELS_MAX / 2));
}

static bool build(struct pair *pair, struct play *p, uint32_t rank, const uint64_t counts[], uint32_t downward) {
  tutti_channel_builder *b = NULL;
  tutti_channel *channels[CHANNELS_MAX];
  bool good = tutti_channel_builder_create(pair->comm[rank], &p->options, &b) == TUTTI_OK;
  for (uint32_t c = 0; c < p->channels && good; c++) {
    bool sends = (downward >> c & 1) == rank;
    uint64_t stated = p->options.ending == TUTTI_CHANNEL_COUNTED ? counts[c] : 0;
    uint32_t index = 99;
    good = (sends ? tutti_channel_add_sender : tutti_channel_add_receiver)(b, 1 - rank, stated, &index) == TUTTI_OK;
    good &= index == c;
    p->ends[rank][c] = (struct end){.key = p->random + c, .messages = counts[c], .sends = sends};
  }
  good = good && tutti_channel_build(b, channels) == TUTTI_OK;
  CHECK(good, "build: %s", tutti_error_message(NULL));
  for (uint32_t c = 0; c < p->channels && good; c++) p->ends[rank][c].channel = channels[c];
  tutti_channel_builder_free(b);
  return good;
}

static bool send_one(struct play *p, struct end *e) {
  void *slot = NULL, *again = NULL;
  if (tutti_channel_try_acquire(e->channel, &slot) != TUTTI_OK) return false;
  if (!slot) return true;
  if (tutti_channel_try_acquire(e->channel, &again) != TUTTI_OK || again != slot) return false;
  size_t bytes = length(e->key, e->at, p->options.slot_bytes);
  fill(slot, e->key, e->at, bytes);
  e->at++;
  bool last = e->at == e->messages && p->options.ending == TUTTI_CHANNEL_MARKED;
  return tutti_channel_commit(e->channel, bytes, last) == TUTTI_OK;
}

/* Acknowledgements never go back, nor beyond what was sent. */
static bool ask(struct end *e) {
  uint64_t acked = 0;
  if (tutti_channel_try_acked(e->channel, &acked) != TUTTI_OK || acked < e->acked || acked > e->at) return false;
  e->acked = acked;
  return true;
}

static bool receive_one(struct play *p, struct end *e) {
  tutti_channel_message m;
  uint32_t ahead = (uint32_t)(tu_random(&p->random) % p->options.slots);
  if (e->at + ahead >= e->messages) ahead = 0;
  if (tutti_channel_try_peek(e->channel, ahead, &m) != TUTTI_OK) return false;
  if (!m.data) return true;
  if (!right(&m, e->key, e->at + ahead, p->options.slot_bytes)) return false;
  if (m.last != (m.number + 1 == e->messages)) return false;
  if (e->seen <= m.number) e->seen = m.number + 1;
  return tu_random(&p->random) % 2 ? tutti_channel_ack(e->channel) == TUTTI_OK : true;
}

static bool release_one(struct end *e) {
  if (e->seen == e->at) return true;
  e->at++;
  return tutti_channel_release(e->channel) == TUTTI_OK;
}

static bool step(struct play *p, struct end *e) {
  if (e->closed) return true;
  if (e->at == e->messages) {
    if (!tutti_channel_ended(e->channel)) return false;
    return tutti_channel_try_close(e->channel, &e->closed) == TUTTI_OK;
  }
  if (tutti_channel_ended(e->channel)) return false;
  uint32_t what = (uint32_t)(tu_random(&p->random) % 4);
  if (e->sends) return what == 0 ? ask(e) : send_one(p, e);
  return what < 2 ? release_one(e) : receive_one(p, e);
}

static bool all_closed(const struct play *p) {
  bool closed = true;
  for (uint32_t i = 0; i < 2 * p->channels; i++) closed &= p->ends[i % 2][i / 2].closed;
  return closed;
}

/* One operation: the ends come one after the other, and every step is drawn. */
static bool operate(struct pair *pair, struct play *p) {
  uint64_t counts[CHANNELS_MAX];
  uint32_t downward = (uint32_t)tu_random(&p->random), first = (uint32_t)(tu_random(&p->random) % 2);
  for (uint32_t c = 0; c < p->channels; c++) counts[c] = 1 + tu_random(&p->random) % 20;
  if (!build(pair, p, first, counts, downward)) return false;
  for (uint32_t i = 0; i < tu_random(&p->random) % 4; i++)
    if (!step(p, &p->ends[first][0])) return false;
  uint64_t keys = p->ends[first][0].key;
  if (!build(pair, p, 1 - first, counts, downward)) return false;
  for (uint32_t c = 0; c < p->channels; c++) p->ends[0][c].key = p->ends[1][c].key = keys + c;
  for (uint32_t steps = 0; !all_closed(p); steps++) {
    uint64_t drawn = tu_random(&p->random);
    if (!step(p, &p->ends[drawn % 2][drawn / 2 % p->channels])) return false;
    if (steps == 1000000) return false;
  }
  return true;
}

static void test_seeded(void) {
  uint64_t seed = test_seed();
  uint32_t plays = test_long() ? 20000 : 1000;
  struct pair pair;
  if (!pair_open(&pair)) return;
  for (uint32_t i = 0; i < plays && test_failures == 0; i++) {
    struct play p = {.random = seed + i};
    draw_options(&p);
    for (int operation = 0; operation < 2 && test_failures == 0; operation++)
      CHECK(operate(&pair, &p), "play %u, operation %d: %s", i, operation, tutti_error_message(NULL));
  }
  if (test_failures == 0) pair_close(&pair);
}

/* ---- one thread, one link of one or two channels ---- */

/* Both ends of one channel, from rank 0 to rank 1, ready. */
static bool open_both(struct pair *pair, const tutti_channel_options *options, tutti_channel *ends[2]) {
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
  CHECK(ready[0] && ready[1], "two rounds do not make the link ready");
  return ready[0] && ready[1];
}

static void put(tutti_channel *to, const char *text, bool last) {
  void *slot = NULL;
  CHECK(tutti_channel_try_acquire(to, &slot) == TUTTI_OK && slot, "no slot for %s", text);
  if (!slot) return;
  memcpy(slot, text, strlen(text));
  CHECK(tutti_channel_commit(to, strlen(text), last) == TUTTI_OK, "commit: %s", tutti_error_message(NULL));
}

static void take(tutti_channel *from, const char *text) {
  tutti_channel_message m = {0};
  CHECK(tutti_channel_try_peek(from, 0, &m) == TUTTI_OK && m.data && m.bytes == strlen(text) &&
            memcmp(m.data, text, m.bytes) == 0,
        "%s did not come", text);
  CHECK(tutti_channel_release(from) == TUTTI_OK, "release: %s", tutti_error_message(NULL));
}

static void close_both(tutti_channel *ends[2]) {
  for (uint32_t r = 2; r-- > 0;)
    CHECK(tutti_channel_close(ends[r], 1000) == TUTTI_OK, "close: %s", tutti_error_message(NULL));
}

/* A default channel has two slots of 16 KiB. An acknowledgement is not a credit. */
static void test_ack(void) {
  struct pair pair;
  tutti_channel *ends[2];
  tutti_channel_message m;
  void *slot;
  uint64_t acked = 9;
  if (!pair_open(&pair) || !open_both(&pair, NULL, ends)) return;
  CHECK(tutti_channel_try_acked(ends[0], &acked) == TUTTI_OK && acked == 0, "%u acked", (unsigned)acked);
  put(ends[0], "a", false);
  put(ends[0], "b", false);
  CHECK(tutti_channel_try_acquire(ends[0], &slot) == TUTTI_OK && !slot, "a third slot");
  CHECK(tutti_channel_ack(ends[1]) == TUTTI_OK, "nothing to acknowledge is nothing");
  CHECK(tutti_channel_try_acked(ends[0], &acked) == TUTTI_OK && acked == 0, "%u acked unseen", (unsigned)acked);
  CHECK(tutti_channel_try_peek(ends[1], 1, &m) == TUTTI_OK && m.data && m.number == 1, "peek ahead");
  CHECK(tutti_channel_ack(ends[1]) == TUTTI_OK, "ack");
  CHECK(tutti_channel_try_acked(ends[0], &acked) == TUTTI_OK && acked == 2, "%u of 2 acked", (unsigned)acked);
  CHECK(tutti_channel_acked(ends[0], 2, 1) == TUTTI_OK, "acked: %s", tutti_error_message(NULL));
  CHECK(tutti_channel_try_acquire(ends[0], &slot) == TUTTI_OK && !slot, "an acknowledgement freed a slot");
  take(ends[1], "a");
  CHECK(tutti_channel_try_acquire(ends[0], &slot) == TUTTI_OK && slot, "a release freed no slot");
  CHECK(tutti_channel_commit(ends[0], 16384, true) == TUTTI_OK, "16 KiB: %s", tutti_error_message(NULL));
  take(ends[1], "b");
  CHECK(tutti_channel_try_acked(ends[0], &acked) == TUTTI_OK && acked == 2, "%u of 2 released", (unsigned)acked);
  CHECK(tutti_channel_try_peek(ends[1], 0, &m) == TUTTI_OK && m.last && m.bytes == 16384, "the last one");
  CHECK(tutti_channel_release(ends[1]) == TUTTI_OK, "release");
  CHECK(tutti_channel_try_acked(ends[0], &acked) == TUTTI_OK && acked == 3, "a release acknowledges");
  close_both(ends);
  pair_close(&pair);
}

static tutti_channel *one_end(tutti_comm *comm, const tutti_channel_options *o, const char *ways, uint64_t messages,
                              tutti_channel *all[]) {
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

/* Once everything has been released, an acknowledgement writes nothing: the sender may be gone, and its memory another's. */
static void test_late_ack(void) {
  struct pair pair;
  tutti_channel *ends[2];
  void *memory = NULL;
  if (!pair_open(&pair)) return;
  CHECK(tutti_alloc(pair.comm[0], 65536, &memory) == TUTTI_OK, "alloc");
  tutti_channel *both[2][1];
  one_end(pair.comm[0], &(tutti_channel_options){.memory = memory, .memory_bytes = 65536}, ">", 0, both[0]);
  one_end(pair.comm[1], NULL, "<", 0, both[1]);
  ends[0] = both[0][0], ends[1] = both[1][0];
  CHECK(tutti_channel_ready(ends[1], 1000) == TUTTI_OK && tutti_channel_ready(ends[0], 1000) == TUTTI_OK, "ready");
  put(ends[0], "x", true);
  take(ends[1], "x");
  CHECK(tutti_channel_close(ends[0], 1000) == TUTTI_OK, "close");
  memset(memory, 0x77, 65536);
  CHECK(tutti_channel_ack(ends[1]) == TUTTI_OK, "ack");
  for (size_t i = 0; i < 65536; i++)
    if (((unsigned char *)memory)[i] != 0x77) FAIL("byte %zu of memory that is not the channel's any more", i);
  CHECK(tutti_channel_close(ends[1], 1000) == TUTTI_OK && tutti_free(pair.comm[0], memory) == TUTTI_OK, "free");
  pair_close(&pair);
}

/* The receiver reads where the sender wrote; slots are aligned as the header says. */
static void test_in_place(void) {
  struct pair pair;
  if (!pair_open(&pair)) return;
  for (uint32_t kind = 0; kind < 3; kind++) {
    const tutti_channel_options o = {
        .slots = 3, .slot_bytes = 5, .separate_flag = kind == 1, .shared = kind == 2, .link = kind};
    tutti_channel *ends[2];
    tutti_channel_message m;
    if (!open_both(&pair, &o, ends)) return;
    for (uint32_t i = 0; i < 7; i++) {
      void *slot = NULL;
      CHECK(tutti_channel_acquire(ends[0], 1000, &slot) == TUTTI_OK, "acquire");
      /* A merged flag and the first 48 bytes share a line. */
      CHECK(slot && (uintptr_t)slot % 64 == (kind == 0 ? 16 : 0), "kind %u: slot at %p", kind, slot);
      CHECK(tutti_channel_commit(ends[0], 5, i == 6) == TUTTI_OK, "commit");
      CHECK(tutti_channel_peek(ends[1], 0, 1000, &m) == TUTTI_OK && m.data == slot, "kind %u: it was copied", kind);
      CHECK(tutti_channel_release(ends[1]) == TUTTI_OK, "release");
    }
    close_both(ends);
  }
  pair_close(&pair);
}

/* Counters are 32 bits: a stream goes on where they begin anew. */
static void test_wrap(void) {
  struct pair pair;
  if (!pair_open(&pair)) return;
  for (uint32_t shared = 0; shared < 2; shared++) {
    const uint64_t begin = UINT32_MAX - 5;
    tutti_channel *ends[2];
    if (!open_both(&pair, &(tutti_channel_options){.slots = 3, .shared = shared}, ends)) return;
    ends[0]->end.sent = ends[0]->end.done_seen = ends[0]->end.acked_seen = begin;
    ends[1]->end.taken = ends[1]->end.peeked = begin;
    atomic_store(ends[0]->end.done, (uint32_t)begin);
    atomic_store(ends[0]->end.acked, (uint32_t)begin);
    for (uint32_t i = 0; i < 20; i++) {
      put(ends[0], "over", i == 19);
      if (i % 3 != 2 && i != 19) continue;
      for (uint32_t k = 0; k < i % 3 + 1; k++) take(ends[1], "over");
      CHECK(tutti_channel_acked(ends[0], begin + i + 1, 1) == TUTTI_OK, "acked: %s", tutti_error_message(NULL));
    }
    close_both(ends);
  }
  pair_close(&pair);
}

/* ---- ends that do not agree ---- */

static void disagree(struct pair *pair, const tutti_channel_options *a, const char *a_ways, uint64_t a_messages,
                     const tutti_channel_options *b, const char *b_ways, uint64_t b_messages, const char *word) {
  tutti_channel *ends[2][4] = {{0}};
  char text[2][512] = {"", ""};
  bool ready;
  void *slot;
  one_end(pair->comm[0], a, a_ways, a_messages, ends[0]);
  one_end(pair->comm[1], b, b_ways, b_messages, ends[1]);
  for (int i = 0; i < 6; i++) {
    tutti_err err = tutti_channel_try_ready(ends[i % 2][0], &ready);
    if (i >= 4) CHECK(err == TUTTI_ERR_MISMATCH, "%s: %s", word, tutti_err_name(err));
    if (i >= 4) snprintf(text[i % 2], sizeof text[0], "%s", tutti_error_message(NULL));
  }
  CHECK(strcmp(text[0], text[1]) == 0, "\"%s\" and \"%s\"", text[0], text[1]);
  CHECK(strstr(text[0], word) && strstr(text[0], "rank 0 sees") && strstr(text[0], "rank 1 sees"), "\"%s\" lacks %s",
        text[0], word);
  if (a_ways[0] == '>')
    CHECK(tutti_channel_acquire(ends[0][0], 10, &slot) == TUTTI_ERR_MISMATCH && !slot, "acquire after a mismatch");
  for (uint32_t i = 0; i < 8; i++)
    CHECK(tutti_channel_close(ends[i % 2][i / 2], 1000) == TUTTI_OK, "close: %s", tutti_error_message(NULL));
}

static void test_disagree(void) {
  struct pair pair;
  const tutti_channel_options o = {0}, slots = {.slots = 3}, bytes = {.slot_bytes = 99}, shared = {.shared = true},
                              apart = {.separate_flag = true}, counted = {.ending = TUTTI_CHANNEL_COUNTED};
  if (!pair_open(&pair)) return;
  disagree(&pair, &o, ">", 0, &slots, "<", 0, "3 own slots");
  disagree(&pair, &bytes, ">", 0, &o, "<", 0, "99 bytes");
  disagree(&pair, &o, ">", 0, &shared, "<", 0, "2 shared slots");
  disagree(&pair, &apart, "<", 0, &o, ">", 0, "separate flags");
  disagree(&pair, &o, ">", 0, &counted, "<", 7, "counted streams");
  disagree(&pair, &counted, ">>", 7, &counted, "<<", 8, "7 and 8 messages on channel 0");
  disagree(&pair, &o, ">>", 0, &o, "<", 0, "2 channels >>");
  disagree(&pair, &o, "><", 0, &o, "<<", 0, "channels ><");
  disagree(&pair, &o, ">", 0, &o, ">", 0, "1 channels <");
  disagree(&pair, &o, "<", 0, &o, "<", 0, "1 channels <");
  /* The same link, agreed upon. */
  tutti_channel *ends[2];
  if (!open_both(&pair, &o, ends)) return;
  put(ends[0], "at last", true);
  take(ends[1], "at last");
  close_both(ends);
  pair_close(&pair);
}

/* Who disagrees does not leave before the other has seen it, too. */
static void test_disagree_and_leave(void) {
  struct pair pair;
  tutti_channel *ends[2];
  bool closed = true, ready;
  if (!pair_open(&pair)) return;
  one_end(pair.comm[1], NULL, "<", 0, &ends[1]);
  one_end(pair.comm[0], &(tutti_channel_options){.slots = 7}, ">", 0, &ends[0]);
  CHECK(tutti_channel_try_ready(ends[0], &ready) == TUTTI_ERR_MISMATCH, "rank 0 sees it at once");
  CHECK(tutti_channel_try_close(ends[0], &closed) == TUTTI_OK && !closed, "rank 0 left without a word");
  CHECK(tutti_channel_try_ready(ends[1], &ready) == TUTTI_ERR_MISMATCH, "rank 1 sees it, too");
  CHECK(tutti_channel_try_close(ends[0], &closed) == TUTTI_OK && closed, "rank 0 cannot leave");
  CHECK(tutti_channel_try_close(ends[1], &closed) == TUTTI_OK && closed, "rank 1 cannot leave");
  pair_close(&pair);
}

/* ---- steps that wait for the other end ---- */

static uint32_t calls;
static void count_calls(const struct tu_link_event *event) { calls += event->step == TU_LINK_CALL; }

/* The initiator, who sends, is not ready before it is welcomed; nor is the next operation called before both have closed
 * this one. */
static void test_steps(void) {
  struct pair pair;
  tutti_channel *ends[2], *next;
  void *slot;
  bool ready = true;
  if (!pair_open(&pair)) return;
  one_end(pair.comm[1], NULL, "<", 0, &ends[1]);
  one_end(pair.comm[0], NULL, ">", 0, &ends[0]);
  CHECK(tutti_channel_try_ready(ends[0], &ready) == TUTTI_OK && !ready, "ready without a welcome");
  CHECK(tutti_channel_try_acquire(ends[0], &slot) == TUTTI_OK && !slot, "a slot without a welcome");
  CHECK(tutti_channel_try_ready(ends[1], &ready) == TUTTI_OK && ready, "the other one has its hello");
  CHECK(tutti_channel_try_ready(ends[0], &ready) == TUTTI_OK && ready, "not ready after the welcome");
  put(ends[0], "x", true);
  take(ends[1], "x");
  CHECK(tutti_channel_close(ends[0], 1000) == TUTTI_OK, "close");
  tu_link_trace = count_calls;
  one_end(pair.comm[0], NULL, ">", 0, &next);
  CHECK(calls == 0, "the next operation is called while this one is open");
  CHECK(tutti_channel_close(ends[1], 1000) == TUTTI_OK, "close");
  CHECK(tutti_channel_try_ready(next, &ready) == TUTTI_OK && !ready && calls == 1, "the next operation is not called");
  tu_link_trace = NULL;
  one_end(pair.comm[1], NULL, "<", 0, &ends[1]);
  CHECK(tutti_channel_ready(ends[1], 1000) == TUTTI_OK, "ready");
  ends[0] = next;
  put(ends[0], "y", true);
  take(ends[1], "y");
  close_both(ends);
  pair_close(&pair);
}

/* The only slot of two channels: what comes home on one serves the other, though nobody sends on the first any more. */
static void test_shared(void) {
  struct pair pair;
  tutti_channel *a[2], *b[2];
  void *slot;
  if (!pair_open(&pair)) return;
  const tutti_channel_options o = {.slots = 1, .slot_bytes = 8, .shared = true};
  one_end(pair.comm[0], &o, ">>", 0, a);
  one_end(pair.comm[1], &o, "<<", 0, b);
  CHECK(tutti_channel_ready(a[0], 1000) == TUTTI_OK, "ready");
  put(a[0], "first", true);
  CHECK(tutti_channel_try_acquire(a[1], &slot) == TUTTI_OK && !slot, "a slot that is taken");
  take(b[0], "first");
  put(a[1], "second", true);
  take(b[1], "second");
  for (int i = 0; i < 2; i++)
    CHECK(tutti_channel_close(a[i], 1000) == TUTTI_OK && tutti_channel_close(b[i], 1000) == TUTTI_OK, "close");
  pair_close(&pair);
}

/* ---- what is refused ---- */

static void refused(tutti_err err, const char *word) {
  CHECK(err == TUTTI_ERR_ARGUMENT && strstr(tutti_error_message(NULL), word), "%s: %s: %s", word, tutti_err_name(err),
        tutti_error_message(NULL));
}

static tutti_err create(tutti_comm *comm, tutti_channel_options options) {
  tutti_channel_builder *b = NULL;
  tutti_err err = tutti_channel_builder_create(comm, &options, &b);
  CHECK((err == TUTTI_OK) == (b != NULL), "a builder in spite of an error");
  tutti_channel_builder_free(b);
  return err;
}

static void test_refused_options(void) {
  struct pair pair;
  char mine[64];
  void *heap = NULL;
  tutti_channel_builder *b;
  if (!pair_open(&pair)) return;
  tutti_comm *comm = pair.comm[0];
  CHECK(tutti_alloc(comm, 8192, &heap) == TUTTI_OK, "alloc");
  refused(tutti_channel_builder_create(NULL, NULL, &b), "communicator");
  refused(tutti_channel_builder_create(comm, NULL, NULL), "place for the builder");
  CHECK(create(comm, (tutti_channel_options){0}) == TUTTI_OK, "all defaults");
  CHECK(create(comm, (tutti_channel_options){.slots = 64, .slot_bytes = 1 << 30, .link = 15}) == TUTTI_OK, "the most");
  refused(create(comm, (tutti_channel_options){.slots = 65}), "65 slots");
  refused(create(comm, (tutti_channel_options){.slot_bytes = (1u << 30) + 1}), "1073741825 bytes");
  refused(create(comm, (tutti_channel_options){.link = 16}), "no link 16");
  refused(create(comm, (tutti_channel_options){.ending = (tutti_channel_ending)2}), "2 is neither");
  refused(create(comm, (tutti_channel_options){.memory = mine, .memory_bytes = 64}), "64");
  refused(create(comm, (tutti_channel_options){.memory_bytes = 64}), "64");
  refused(create(comm, (tutti_channel_options){.memory = (char *)heap + 1, .memory_bytes = 64}), "multiple of 64");
  refused(create(comm, (tutti_channel_options){.memory = heap, .memory_bytes = 8193}), "8193 bytes");
  CHECK(tutti_free(comm, heap) == TUTTI_OK, "free");
  pair_close(&pair);
}

static void test_refused_builds(void) {
  struct pair pair;
  tutti_channel_builder *b = NULL, *twin = NULL, *counted = NULL;
  tutti_channel *channels[70], *none = NULL;
  if (!pair_open(&pair)) return;
  tutti_comm *comm = pair.comm[0];
  bool made = tutti_channel_builder_create(comm, NULL, &b) == TUTTI_OK &&
              tutti_channel_builder_create(comm, NULL, &twin) == TUTTI_OK &&
              tutti_channel_builder_create(comm, &(tutti_channel_options){.ending = TUTTI_CHANNEL_COUNTED}, &counted) ==
                  TUTTI_OK;
  CHECK(made, "builders");
  if (!made) return;
  refused(tutti_channel_add_sender(NULL, 1, 0, NULL), "NULL");
  refused(tutti_channel_add_sender(b, 0, 0, NULL), "another rank");
  refused(tutti_channel_add_receiver(b, 2, 0, NULL), "another rank");
  refused(tutti_channel_add_receiver(b, 1, 5, NULL), "5 messages");
  refused(tutti_channel_add_sender(counted, 1, 0, NULL), "at least one");
  refused(tutti_channel_build(b, channels), "no channel");
  refused(tutti_channel_build(NULL, channels), "builder");
  CHECK(tutti_channel_builder_bytes(b) == 0 && tutti_channel_builder_bytes(NULL) == 0, "bytes for nothing");
  for (int i = 0; i < 64; i++) CHECK(tutti_channel_add_receiver(b, 1, 0, NULL) == TUTTI_OK, "channel %d", i);
  CHECK(tutti_channel_builder_bytes(b) == 0, "bytes for receivers");
  refused(tutti_channel_add_sender(b, 1, 0, NULL), "at most 64");
  refused(tutti_channel_build(b, NULL), "list");
  CHECK(tutti_channel_build(b, channels) == TUTTI_OK, "64 channels: %s", tutti_error_message(NULL));
  refused(tutti_channel_build(b, channels), "built its 64 channels already");
  refused(tutti_channel_add_sender(b, 1, 0, NULL), "has built");
  CHECK(tutti_channel_add_sender(twin, 1, 0, NULL) == TUTTI_OK, "add");
  refused(tutti_channel_build(twin, &none), "has built its end of link 0 to rank 1 already");
  refused(tutti_channel_open(comm, 1, TUTTI_CHANNEL_SENDS, NULL, &none), "already");
  refused(tutti_channel_open(comm, 1, TUTTI_CHANNEL_SENDS, NULL, NULL), "a place");
  refused(tutti_channel_open(comm, 1, (tutti_channel_direction)2, NULL, &none), "direction");
  refused(tutti_channel_open(NULL, 1, TUTTI_CHANNEL_SENDS, NULL, &none), "communicator");
  CHECK(!none, "a channel in spite of an error");
  tutti_channel_builder_free(b);
  tutti_channel_builder_free(twin);
  tutti_channel_builder_free(counted);
  tutti_channel_builder_free(NULL);
  /* Channels that are open when the communicator goes are an error on all ranks. */
  refused(tutti_comm_free(comm), "64 channels");
  refused(tutti_comm_free(pair.comm[1]), "rank 0 still has 64 channels");
}

/* In the user's memory: too little of it; none left in the slice: nothing stays behind. */
static void test_no_memory(void) {
  struct pair pair;
  void *heap = NULL;
  if (!pair_open(&pair)) return;
  tutti_comm *comm = pair.comm[0];
  tutti_channel *channel = NULL;
  CHECK(tutti_alloc(comm, 4096, &heap) == TUTTI_OK, "alloc");
  tutti_channel_options o = {.slots = 4, .slot_bytes = 1000, .memory = heap, .memory_bytes = 4096};
  refused(tutti_channel_open(comm, 1, TUTTI_CHANNEL_SENDS, &o, &channel), "the senders need 4224 bytes");
  o = (tutti_channel_options){.slots = 64, .slot_bytes = 1 << 20};
  for (int i = 0; i < 20; i++) {
    tutti_err err = tutti_channel_open(comm, 1, TUTTI_CHANNEL_SENDS, &o, &channel);
    CHECK(err == TUTTI_ERR_MEMORY && !channel, "64 MiB of 8: %s", tutti_err_name(err));
  }
  o = (tutti_channel_options){.slots = 4, .slot_bytes = 1 << 20};
  tutti_channel *ends[2];
  for (int i = 0; i < 10 && open_both(&pair, &o, ends); i++) {
    put(ends[0], "once more", true);
    take(ends[1], "once more");
    close_both(ends);
  }
  CHECK(tutti_free(comm, heap) == TUTTI_OK, "free");
  pair_close(&pair);
}

static void test_refused_calls(void) {
  struct pair pair;
  tutti_channel *ends[2];
  tutti_channel_message m;
  void *slot;
  bool answer;
  uint64_t acked;
  if (!pair_open(&pair)) return;
  const tutti_channel_options o = {.slots = 2, .slot_bytes = 100, .ending = TUTTI_CHANNEL_COUNTED, .messages = 2};
  if (!open_both(&pair, &o, ends)) return;
  refused(tutti_channel_try_acquire(NULL, &slot), "NULL");
  refused(tutti_channel_try_acquire(ends[1], &slot), "receiving end");
  refused(tutti_channel_try_acquire(ends[0], NULL), "place");
  refused(tutti_channel_acquire(ends[0], 1, NULL), "place");
  refused(tutti_channel_commit(ends[0], 1, false), "no slot is acquired");
  refused(tutti_channel_commit(ends[1], 1, false), "receiving end");
  refused(tutti_channel_try_peek(ends[0], 0, &m), "sending end");
  refused(tutti_channel_try_peek(ends[1], 0, NULL), "place");
  refused(tutti_channel_peek(ends[1], 2, 1, &m), "2 messages ahead");
  refused(tutti_channel_ack(ends[0]), "sending end");
  refused(tutti_channel_release(ends[0]), "sending end");
  refused(tutti_channel_release(ends[1]), "no message");
  refused(tutti_channel_try_acked(ends[0], NULL), "place");
  refused(tutti_channel_try_acked(ends[1], &acked), "receiving end");
  refused(tutti_channel_acked(ends[0], 1, 1), "0 have been sent");
  refused(tutti_channel_try_ready(ends[0], NULL), "place");
  refused(tutti_channel_ready(NULL, 1), "NULL");
  refused(tutti_channel_try_close(ends[0], NULL), "place");
  refused(tutti_channel_close(ends[0], 1), "0 of 2 messages have been sent");
  refused(tutti_channel_close(ends[1], 1), "0 of 2 messages have been released");
  CHECK(tutti_channel_try_acquire(ends[0], &slot) == TUTTI_OK && slot, "acquire");
  refused(tutti_channel_commit(ends[0], 101, false), "101 bytes");
  refused(tutti_channel_commit(ends[0], 5, true), "counted stream");
  CHECK(tutti_channel_commit(ends[0], 0, false) == TUTTI_OK, "0 bytes");
  put(ends[0], "end", false);
  CHECK(tutti_channel_ended(ends[0]) && !tutti_channel_ended(ends[1]), "ended");
  refused(tutti_channel_try_acquire(ends[0], &slot), "has ended");
  refused(tutti_channel_acquire(ends[0], 1, &slot), "has ended");
  take(ends[1], "");
  refused(tutti_channel_try_peek(ends[1], 1, &m), "beyond the end");
  CHECK(tutti_channel_try_close(ends[0], &answer) == TUTTI_OK && !answer, "closed while a slot is out");
  take(ends[1], "end");
  refused(tutti_channel_peek(ends[1], 0, 1, &m), "beyond the end");
  CHECK(tutti_channel_ended(ends[1]) && tutti_channel_ended(NULL), "ended");
  CHECK(tutti_channel_try_close(ends[0], &answer) == TUTTI_OK && answer, "not closed");
  CHECK(tutti_channel_try_close(NULL, &answer) == TUTTI_OK && answer, "NULL");
  CHECK(tutti_channel_close(ends[1], 0) == TUTTI_OK && tutti_channel_close(NULL, 0) == TUTTI_OK, "close");
  /* A marked stream: beyond the mark; and no end without one. */
  if (!open_both(&pair, NULL, ends)) return;
  refused(tutti_channel_close(ends[0], 1), "none marked");
  put(ends[0], "last", true);
  refused(tutti_channel_try_acquire(ends[0], &slot), "has ended");
  refused(tutti_channel_peek(ends[1], 1, 0, &m), "message 1 is beyond the end of the stream: it has 1");
  take(ends[1], "last");
  close_both(ends);
  pair_close(&pair);
}

/* ---- time ---- */

static void late(tutti_err err, const char *word) {
  CHECK(err == TUTTI_ERR_TIMEOUT && strstr(tutti_error_message(NULL), word), "%s: %s: %s", word, tutti_err_name(err),
        tutti_error_message(NULL));
}

static void test_late(void) {
  struct pair pair;
  tutti_channel *ends[2], *alone[1], *none = NULL;
  tutti_channel_message m = {.bytes = 9};
  void *slot = &pair;
  if (!pair_open(&pair)) return;
  const tutti_channel_options o = {.slots = 1, .timeout_ms = 3, .link = 1};
  late(tutti_channel_open(pair.comm[0], 1, TUTTI_CHANNEL_SENDS, &o, &none), "the other end has not come");
  CHECK(!none, "a channel in spite of being late");
  refused(tutti_channel_open(pair.comm[0], 1, TUTTI_CHANNEL_SENDS, &o, &none), "already");
  one_end(pair.comm[0], NULL, ">", 0, alone);
  late(tutti_channel_ready(alone[0], 3), "rank 0 has waited 3 ms for the other end's handshake on channel 0 of link 0");
  late(tutti_channel_acquire(alone[0], 3, &slot), "has not come");
  CHECK(!slot, "a slot in spite of being late");
  one_end(pair.comm[1], NULL, "<", 0, &ends[1]);
  ends[0] = alone[0];
  late(tutti_channel_peek(ends[1], 0, 3, &m), "0 messages have come");
  CHECK(tutti_channel_ready(ends[0], 1000) == TUTTI_OK && tutti_channel_ready(ends[1], 1000) == TUTTI_OK, "ready");
  late(tutti_channel_peek(ends[1], 0, 3, &m), "0 messages have come");
  CHECK(!m.data, "a message in spite of being late");
  put(ends[0], "a", false);
  put(ends[0], "b", true);
  late(tutti_channel_acked(ends[0], 1, 3), "an acknowledgement");
  late(tutti_channel_close(ends[0], 3), "2 messages are sent and 0 of them released");
  take(ends[1], "a");
  late(tutti_channel_close(ends[0], 3), "1 of them released");
  take(ends[1], "b");
  close_both(ends);
  pair_close(&pair);
}

/* ---- traces ---- */

static struct tu_link_event seen[64];
static uint32_t seen_count;
static void note(const struct tu_link_event *event) {
  if (seen_count < 64) seen[seen_count] = *event;
  seen_count++;
}

/* All of one operation, step by step, when it is the second of its link. */
static void test_trace(void) {
  static const struct {
    uint32_t rank;
    enum tu_link_step step;
    uint64_t number;
  } expected[] = {
      {0, TU_LINK_SEE_PREVIOUS, 1}, {0, TU_LINK_CLEAR, 0},      {0, TU_LINK_CALL, 2},    {0, TU_LINK_HELLO, 2},
      {1, TU_LINK_SEE_PREVIOUS, 1}, {1, TU_LINK_CLEAR, 0},      {1, TU_LINK_CALL, 2},    {1, TU_LINK_SEE_CALL, 2},
      {1, TU_LINK_SEE_HELLO, 2},    {1, TU_LINK_WELCOME, 2},    {1, TU_LINK_OPEN, 2},    {0, TU_LINK_SEE_CALL, 2},
      {0, TU_LINK_SEE_WELCOME, 2},  {0, TU_LINK_OPEN, 2},       {0, TU_LINK_ACQUIRE, 0}, {0, TU_LINK_FILL, 0},
      {0, TU_LINK_FLAG, 0},         {1, TU_LINK_SEE_FLAG, 0},   {1, TU_LINK_ACK, 1},     {0, TU_LINK_SEE_ACK, 1},
      {1, TU_LINK_RELEASE, 0},      {0, TU_LINK_SEE_CREDIT, 1}, {0, TU_LINK_ACQUIRE, 1}, {0, TU_LINK_FILL, 1},
      {0, TU_LINK_FLAG, 1},         {1, TU_LINK_SEE_FLAG, 1},   {1, TU_LINK_RELEASE, 1}, {1, TU_LINK_ENDED, 2},
      {1, TU_LINK_CLOSED, 2},       {0, TU_LINK_SEE_CREDIT, 2}, {0, TU_LINK_DRAINED, 2}, {0, TU_LINK_CLOSED, 2}};
  enum { STEPS = sizeof expected / sizeof *expected };
  struct pair pair;
  tutti_channel *ends[2];
  tutti_channel_message m;
  uint64_t acked;
  const tutti_channel_options o = {.slots = 1, .link = 3};
  if (!pair_open(&pair)) return;
  for (int operation = 1; operation <= 2; operation++) {
    if (operation == 2) tu_link_trace = note;
    if (!open_both(&pair, &o, ends)) return;
    put(ends[0], "abc", false);
    CHECK(tutti_channel_try_peek(ends[1], 0, &m) == TUTTI_OK && tutti_channel_ack(ends[1]) == TUTTI_OK, "ack");
    CHECK(tutti_channel_try_acked(ends[0], &acked) == TUTTI_OK && acked == 1, "acked");
    take(ends[1], "abc");
    put(ends[0], "de", true);
    take(ends[1], "de");
    close_both(ends);
  }
  tu_link_trace = NULL;
  CHECK(seen_count == STEPS, "%u steps, not %d", seen_count, STEPS);
  for (uint32_t i = 0; i < tu_min(seen_count, STEPS); i++) {
    const struct tu_link_event *e = &seen[i];
    CHECK(e->rank == expected[i].rank && e->step == expected[i].step && e->number == expected[i].number,
          "step %u: rank %u, step %d, number %llu", i, e->rank, (int)e->step, (unsigned long long)e->number);
    CHECK(e->peer == 1 - e->rank && e->link == 3 && e->operation == 2 && e->channel == 0, "step %u: whose?", i);
    bool flag = e->step == TU_LINK_FLAG || e->step == TU_LINK_SEE_FLAG;
    CHECK(!flag || (e->last == (e->number == 1) && e->bytes == 3 - e->number), "step %u: the line", i);
  }
  pair_close(&pair);
}

/* ---- ranks that run, and wait ---- */

struct worker {
  struct player *player;
  tutti_channel *channel;
  uint64_t key, messages;
  size_t slot_bytes;
  bool sends, counted, acks;
};

static bool works(struct worker *w, tutti_err err, const char *what) {
  if (err != TUTTI_OK)
    wrong(w->player, "rank %u, key %llu: %s: %s", w->player->rank, (unsigned long long)w->key, what,
          tutti_error_message(NULL));
  return err == TUTTI_OK;
}

static void send_all(struct worker *w) {
  for (uint64_t k = 0; k < w->messages; k++) {
    void *slot;
    if (!works(w, tutti_channel_acquire(w->channel, 0, &slot), "acquire")) return;
    size_t bytes = length(w->key, k, w->slot_bytes);
    fill(slot, w->key, k, bytes);
    if (!works(w, tutti_channel_commit(w->channel, bytes, !w->counted && k + 1 == w->messages), "commit")) return;
    if (w->acks && k % 7 == 0 && !works(w, tutti_channel_acked(w->channel, k + 1, 0), "acked")) return;
  }
}

static void receive_all(struct worker *w) {
  for (uint64_t k = 0; !tutti_channel_ended(w->channel); k++) {
    tutti_channel_message m;
    if (!works(w, tutti_channel_peek(w->channel, 0, 0, &m), "peek")) return;
    if (w->acks && !works(w, tutti_channel_ack(w->channel), "ack")) return;
    if (!right(&m, w->key, k, w->slot_bytes))
      wrong(w->player, "rank %u: message %u is wrong", w->player->rank, (unsigned)k);
    if (!works(w, tutti_channel_release(w->channel), "release")) return;
    if (k >= w->messages)
      wrong(w->player, "rank %u: message %u of %u", w->player->rank, (unsigned)k, (unsigned)w->messages);
  }
}

static void *work(void *argument) {
  struct worker *w = argument;
  if (w->sends) send_all(w);
  else receive_all(w);
  works(w, tutti_channel_close(w->channel, 0), "close");
  return NULL;
}

enum { WAYS = 2, WORKERS = 4 * WAYS };

/* WAYS channels each way between neighbours in a ring, a thread for each end. Two ranks are twice neighbours. */
static void ring_once(struct player *p, const tutti_channel_options *o, uint64_t messages) {
  tutti_channel_builder *b = NULL;
  tutti_channel *channels[WORKERS];
  struct worker workers[WORKERS];
  pthread_t threads[WORKERS];
  uint32_t next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks, count = 0;
  bool counted = o->ending == TUTTI_CHANNEL_COUNTED;
  uint64_t stated = counted ? messages : 0;
  if (!good(p, tutti_channel_builder_create(p->comm, o, &b), "builder")) return;
  for (uint32_t i = 0; i < 4 * WAYS; i++) {
    /* What rank r has with the next one comes first at the even ranks, so that two ranks add in the same order. */
    bool with_next = (i < 2 * WAYS) == (p->rank % 2 == 0), sends = (i % 2 == 0) == with_next;
    uint32_t peer = with_next ? next : before, low = with_next ? p->rank : before;
    tutti_err err = (sends ? tutti_channel_add_sender : tutti_channel_add_receiver)(b, peer, stated, NULL);
    if (!good(p, err, "add")) return;
    workers[count++] = (struct worker){.player = p,
                                       .key = low * 100 + i % (2 * WAYS),
                                       .messages = messages,
                                       .slot_bytes = o->slot_bytes,
                                       .sends = sends,
                                       .counted = counted,
                                       .acks = i % 3 == 0};
  }
  bool built = good(p, tutti_channel_build(b, channels), "build");
  tutti_channel_builder_free(b);
  for (uint32_t i = 0; i < count && built; i++) {
    workers[i].channel = channels[i];
    workers[i].acks = o->separate_flag;
    if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) abort();
  }
  for (uint32_t i = 0; i < count && built; i++) pthread_join(threads[i], NULL);
}

static void play_ring(struct player *p) {
  static const tutti_channel_options kinds[] = {
      {.slots = 1, .slot_bytes = 64},
      {.slots = 4, .slot_bytes = 3000, .ending = TUTTI_CHANNEL_COUNTED, .separate_flag = true},
      {.slots = 3, .slot_bytes = 500, .shared = true, .link = 5},
      {.slots = 8, .slot_bytes = 40, .shared = true, .separate_flag = true, .ending = TUTTI_CHANNEL_COUNTED},
  };
  for (uint32_t i = 0; i < 4 && p->stage->failures == 0; i++) ring_once(p, &kinds[i], test_long() ? 5000 : 150);
}

static void over_both(struct troupe t) {
  troupe_perform(t, troupe_over_loop);
#ifndef __SANITIZE_THREAD__
  troupe_perform(t, troupe_over_shm);
#endif
}

static void test_ring(void) {
  for (uint32_t ranks = 2; ranks <= 3; ranks++)
    over_both((struct troupe){.run = play_ring, .ranks = ranks + ranks % 2});
}

/* ---- the same memory, again and again ---- */

enum { OPERATIONS = 100 };

/* Rank 0's memory serves rank 1 and rank 2 by turns. */
static void play_reuse(struct player *p) {
  void *memory = NULL, *own = NULL;
  size_t bytes = 32768;
  if (p->rank == 0 && p->seed == 0 && !good(p, tutti_alloc(p->comm, bytes, &memory), "alloc")) return;
  if (p->rank == 0 && p->seed == 1) {
    memory = own = aligned_alloc(4096, bytes);
    if (!good(p, tutti_register(p->comm, memory, bytes), "register")) return;
  }
  for (uint32_t i = 0; i < OPERATIONS && p->stage->failures == 0; i++) {
    if (p->rank > 0 && p->rank != 1 + i % 2) continue;
    tutti_channel_options o = {
        .slots = 1 + i % 8, .slot_bytes = 300, .shared = i % 5 == 0, .separate_flag = i % 3 == 0};
    if (p->rank == 0) o.memory = memory, o.memory_bytes = bytes;
    struct worker w = {
        .player = p, .key = i, .messages = 1 + i % 13, .slot_bytes = o.slot_bytes, .sends = p->rank == 0};
    tutti_channel_direction direction = w.sends ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
    if (!good(p, tutti_channel_open(p->comm, w.sends ? 1 + i % 2 : 0, direction, &o, &w.channel), "open")) return;
    work(&w);
    /* Nobody reads it, and nobody writes it, until the next one opens; which does not trust what it finds. */
    if (memory && i % 2) memset(memory, 0xff, bytes);
  }
  if (p->rank > 0) return;
  if (own) good(p, tutti_deregister(p->comm, own), "deregister");
  else good(p, tutti_free(p->comm, memory), "free");
  free(own);
}

static void test_reuse(void) {
  for (uint64_t kind = 0; kind < 2; kind++) over_both((struct troupe){.run = play_reuse, .ranks = 3, .seed = kind});
}

/* ---- links to several ranks, and several to one ---- */

/* Rank 0 has them in the order 1, 2, 3, 1, 2, 3 of the others. */
static void stream_all(struct player *p, tutti_channel *channels[], uint32_t count, size_t slot_bytes) {
  for (uint32_t i = 0; i < count; i++) {
    struct worker w = {.player = p,
                       .channel = channels[i],
                       .key = p->rank == 0 ? i : p->rank - 1 + i * (p->ranks - 1),
                       .messages = 200,
                       .slot_bytes = slot_bytes,
                       .sends = p->rank == 0};
    work(&w);
  }
}

/* Rank 0 sends to each other rank on two channels of each of two links, out of one piece of memory a link: exactly as long as the
 * builder says. */
static void play_star(struct player *p) {
  void *memory[2] = {NULL, NULL};
  size_t bytes[2];
  tutti_channel *channels[2][2 * TROUPE_MAX];
  uint32_t count = 0;
  for (uint32_t link = 0; link < 2; link++) {
    tutti_channel_options o = {.slots = link ? 64 : 3, .slot_bytes = 333, .shared = link == 1, .link = 14 + link};
    tutti_channel_builder *b = NULL;
    for (int with_memory = 0; with_memory < 2; with_memory++) {
      if (!good(p, tutti_channel_builder_create(p->comm, &o, &b), "builder")) return;
      count = 0;
      for (uint32_t r = 0; r < 2 * p->ranks; r++)
        if (p->rank == 0 && r % p->ranks > 0)
          good(p, tutti_channel_add_sender(b, r % p->ranks, 0, NULL), "add"), count++;
      for (uint32_t i = 0; i < 2 && p->rank > 0; i++)
        good(p, tutti_channel_add_receiver(b, 0, 0, NULL), "add"), count++;
      if (p->rank > 0 || with_memory) break;
      bytes[link] = o.memory_bytes = tutti_channel_builder_bytes(b);
      tutti_channel_builder_free(b);
      if (!good(p, tutti_alloc(p->comm, o.memory_bytes + 4096, &memory[link]), "alloc")) return;
      o.memory = memory[link];
      memset((char *)memory[link] + o.memory_bytes, 0x55, 4096);
    }
    if (!good(p, tutti_channel_build(b, channels[link]), "build")) return;
    tutti_channel_builder_free(b);
  }
  /* Rank 0 serves rank after rank, channel by channel; 200 messages are more than there are slots. */
  for (uint32_t link = 0; link < 2; link++) stream_all(p, channels[link], count, 333);
  for (uint32_t link = 0; link < 2 && p->rank == 0; link++) {
    for (int i = 0; i < 4096; i++)
      if (((char *)memory[link])[bytes[link] + (size_t)i] != 0x55) wrong(p, "byte %d beyond the memory", i);
    good(p, tutti_free(p->comm, memory[link]), "free");
  }
}

/* Three links of 24 MiB do not fit 64: the two that did are undone, so that one of 40 MiB fits. */
static void play_undone(struct player *p) {
  const tutti_channel_options much = {.slots = 24, .slot_bytes = 1 << 20}, more = {.slots = 40, .slot_bytes = 1 << 20};
  tutti_channel *channels[3], *one = NULL;
  for (int i = 0; i < 5 && p->rank == 0; i++) {
    tutti_channel_builder *b = NULL;
    if (!good(p, tutti_channel_builder_create(p->comm, &much, &b), "builder")) return;
    for (uint32_t r = 1; r < 4; r++) good(p, tutti_channel_add_sender(b, r, 0, NULL), "add");
    tutti_err err = tutti_channel_build(b, channels);
    if (err != TUTTI_ERR_MEMORY) wrong(p, "72 of 64 MiB: %s", tutti_err_name(err));
    tutti_channel_builder_free(b);
  }
  if (p->rank > 1) return;
  tutti_channel_direction direction = p->rank == 0 ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  if (!good(p, tutti_channel_open(p->comm, 1 - p->rank, direction, &more, &one), "40 of 64 MiB")) return;
  struct worker w = {.player = p, .channel = one, .key = 1, .messages = 2, .slot_bytes = 100, .sends = p->rank == 0};
  work(&w);
}

static void test_links(void) {
  over_both((struct troupe){.run = play_star, .ranks = 4});
  over_both((struct troupe){.run = play_undone, .ranks = 4});
}

/* ---- communicators ---- */

static void pass_one(struct player *p, tutti_comm *comm, uint32_t from, uint32_t to, uint64_t key) {
  struct worker w = {.player = p, .key = key, .messages = 9, .slot_bytes = 16384, .sends = tutti_rank(comm) == from};
  tutti_channel_direction direction = w.sends ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  if (tutti_rank(comm) != from && tutti_rank(comm) != to) return;
  if (good(p, tutti_channel_open(comm, w.sends ? to : from, direction, NULL, &w.channel), "open")) work(&w);
}

/* Ranks are the communicator's; the same link number on two of them is two links. */
static void play_split(struct player *p) {
  tutti_comm *child = NULL;
  tutti_channel *held = NULL;
  if (!good(p, tutti_comm_split(p->comm, 0, (int)(p->ranks - p->rank), &child), "split")) return;
  uint32_t there = tutti_rank(child); /* 2, 1, 0 */
  if (there != p->ranks - 1 - p->rank) wrong(p, "rank %u is %u of the child", p->rank, there);
  tutti_channel_direction direction = p->rank == 0 ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  if (p->rank != 1) good(p, tutti_channel_open(p->comm, 2 - p->rank, direction, NULL, &held), "open");
  pass_one(p, child, 0, 2, 1);
  pass_one(p, child, 2, 1, 2);
  good(p, tutti_comm_free(child), "free");
  struct worker w = {.player = p, .channel = held, .key = 3, .messages = 4, .slot_bytes = 16384, .sends = p->rank == 0};
  if (held) work(&w);
}

static void test_split(void) { over_both((struct troupe){.run = play_split, .ranks = 3}); }

/* ---- who dies, leaves or gives up ---- */

static void expect_end(struct player *p, tutti_err err, tutti_err wanted, const char *word) {
  if (err != wanted || !strstr(tutti_error_message(NULL), word))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(NULL));
}

/* Rank 0 sends to rank 1, which dies with a message in its hands; rank 2 waits for rank 0, which never comes. */
static void play_death(struct player *p) {
  tutti_channel *channel = NULL;
  tutti_channel_message m;
  void *slot;
  const tutti_channel_options o = {.slots = 1};
  if (p->rank == 2) {
    expect_end(p, tutti_channel_open(p->comm, 0, TUTTI_CHANNEL_RECEIVES, &o, &channel), TUTTI_ERR_PEER, "rank 1");
    return;
  }
  tutti_channel_direction direction = p->rank == 0 ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  if (!good(p, tutti_channel_open(p->comm, 1 - p->rank, direction, &o, &channel), "open")) return;
  if (p->rank == 1) {
    good(p, tutti_channel_peek(channel, 0, 0, &m), "peek");
    if (!p->is_thread) raise(SIGKILL);
    tu_loop_kill(p->transport);
    while (!tu_comm_failed(p->comm)) sched_yield(); /* the dead do not free it */
    return;
  }
  if (!good(p, tutti_channel_acquire(channel, 0, &slot), "acquire")) return;
  if (!good(p, tutti_channel_commit(channel, 10, true), "commit")) return;
  bool closed = false;
  tutti_err err = TUTTI_OK;
  if (p->seed == 0) err = tutti_channel_close(channel, 0);
  if (p->seed == 1) err = tutti_channel_acked(channel, 1, 0);
  while (p->seed == 2 && err == TUTTI_OK && !closed) err = tutti_channel_try_close(channel, &closed);
  expect_end(p, err, TUTTI_ERR_PEER, "died");
  /* From now on it is the verdict; a channel that was not closed can be. */
  if (p->seed == 1) expect_end(p, tutti_channel_try_ready(channel, &closed), TUTTI_ERR_PEER, "died");
  if (p->seed == 1) expect_end(p, tutti_channel_try_close(channel, &closed), TUTTI_ERR_PEER, "died");
  if (p->seed == 1 && !closed) wrong(p, "rank 0 still has the channel");
  expect_end(p, tutti_channel_open(p->comm, 2, TUTTI_CHANNEL_SENDS, &o, &channel), TUTTI_ERR_PEER, "died");
  expect_end(p, tutti_barrier(p->comm), TUTTI_ERR_PEER, "died");
}

static void test_death(void) {
  for (uint64_t kind = 0; kind < 3; kind++)
    over_both((struct troupe){.run = play_death, .ranks = 3, .rank_1_dies = true, .seed = kind});
}

/* Rank 1 frees the communicator while rank 0 waits for it. */
static void play_leave(struct player *p) {
  tutti_channel *channel = NULL;
  if (p->rank == 1) return;
  tutti_err err = tutti_channel_open(p->comm, 1, TUTTI_CHANNEL_SENDS, NULL, &channel);
  expect_end(p, err, TUTTI_ERR_PEER, "has freed the communicator while rank 0 still waits");
}

/* Rank 0 gives up while rank 1 waits for a message. */
static void play_abort(struct player *p) {
  tutti_channel *channel = NULL;
  tutti_channel_message m;
  tutti_channel_direction direction = p->rank == 0 ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  tutti_err err = tutti_channel_open(p->comm, 1 - p->rank, direction, NULL, &channel);
  if (p->rank == 1 &&
      err == TUTTI_ERR_ABORTED) { /* rank 0 was done with the handshake, and gave up before this one was */
    expect_end(p, err, TUTTI_ERR_ABORTED, "no more to say");
    return;
  }
  if (!good(p, err, "open")) return;
  if (p->rank == 0) tutti_abort(p->comm, "no more to say");
  else expect_end(p, tutti_channel_peek(channel, 0, 0, &m), TUTTI_ERR_ABORTED, "no more to say");
  expect_end(p, tutti_channel_close(channel, 0), TUTTI_ERR_ABORTED, "no more to say");
}

static void test_giving_up(void) {
  over_both((struct troupe){.run = play_leave, .ranks = 2, .rank_1_dies = true});
  over_both((struct troupe){.run = play_abort, .ranks = 2, .rank_1_dies = true});
}

/* ---- two threads on one end ---- */

static void *wait_there(void *argument) {
  tutti_channel_message m;
  CHECK(tutti_channel_peek(argument, 0, 0, &m) == TUTTI_OK, "peek: %s", tutti_error_message(NULL));
  return NULL;
}

static void test_two_readers(void) {
  struct pair pair;
  tutti_channel *ends[2];
  tutti_channel_message m;
  pthread_t thread;
  bool closed;
  if (!pair_open(&pair) || !open_both(&pair, NULL, ends)) return;
  if (pthread_create(&thread, NULL, wait_there, ends[1]) != 0) abort();
  while (!atomic_load(&ends[1]->busy)) sched_yield();
  refused(tutti_channel_try_peek(ends[1], 0, &m), "another thread");
  refused(tutti_channel_release(ends[1]), "another thread");
  refused(tutti_channel_close(ends[1], 1), "another thread");
  refused(tutti_channel_try_close(ends[1], &closed), "another thread");
  put(ends[0], "for the first one", true);
  pthread_join(thread, NULL);
  take(ends[1], "for the first one");
  close_both(ends);
  pair_close(&pair);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"seeded", test_seeded},
      {"ack", test_ack},
      {"late_ack", test_late_ack},
      {"in_place", test_in_place},
      {"wrap", test_wrap},
      {"disagree", test_disagree},
      {"disagree_and_leave", test_disagree_and_leave},
      {"steps", test_steps},
      {"shared", test_shared},
      {"refused_options", test_refused_options},
      {"refused_builds", test_refused_builds},
      {"no_memory", test_no_memory},
      {"refused_calls", test_refused_calls},
      {"late", test_late},
      {"trace", test_trace},
      {"ring", test_ring},
      {"reuse", test_reuse},
      {"links", test_links},
      {"split", test_split},
      {"death", test_death},
      {"giving_up", test_giving_up},
      {"two_readers", test_two_readers},
  };
  return test_main(tests, sizeof tests / sizeof *tests, argc, argv);
}
