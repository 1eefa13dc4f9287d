/* channel_test.c: channels between two ranks in one thread, with calls that do not wait: seeded schedules, in which
 * the seed gives the order of the calls at both ends; then single steps of the protocol, and its trace. */
#include "stream/channel.h"
#include "channels.h"
#include "stream/link.h"

enum { CHANNELS_MAX = 8 };

/* ---- seeded schedules ---- */

/* One end of a channel, as the test expects it to be. */
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

/* Reads the acknowledgements, which may not decrease, nor exceed the number of sent messages. */
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

/* Runs one operation of the link. One end is built after the other, and all steps are random. */
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

/* ---- one link of one or two channels ---- */

/* The default is two slots of 16 KiB. An acknowledgement does not free a slot. */
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
  CHECK(tutti_channel_try_acquire(ends[0], &slot) == TUTTI_OK && !slot, "try_acquire returned a third slot of two");
  CHECK(tutti_channel_ack(ends[1]) == TUTTI_OK, "ack without a new message");
  CHECK(tutti_channel_try_acked(ends[0], &acked) == TUTTI_OK && acked == 0, "%u acked, but none was peeked at",
        (unsigned)acked);
  CHECK(tutti_channel_try_peek(ends[1], 1, &m) == TUTTI_OK && m.data && m.number == 1, "peek ahead");
  CHECK(tutti_channel_ack(ends[1]) == TUTTI_OK, "ack");
  CHECK(tutti_channel_try_acked(ends[0], &acked) == TUTTI_OK && acked == 2, "%u acked, expected 2", (unsigned)acked);
  CHECK(tutti_channel_acked(ends[0], 2, 1) == TUTTI_OK, "acked: %s", tutti_error_message(NULL));
  CHECK(tutti_channel_try_acquire(ends[0], &slot) == TUTTI_OK && !slot, "an acknowledgement freed a slot");
  take(ends[1], "a");
  CHECK(tutti_channel_try_acquire(ends[0], &slot) == TUTTI_OK && slot, "a release freed no slot");
  CHECK(tutti_channel_commit(ends[0], 16384, true) == TUTTI_OK, "16 KiB: %s", tutti_error_message(NULL));
  take(ends[1], "b");
  CHECK(tutti_channel_try_acked(ends[0], &acked) == TUTTI_OK && acked == 2, "%u acked, expected 2", (unsigned)acked);
  CHECK(tutti_channel_try_peek(ends[1], 0, &m) == TUTTI_OK && m.last && m.bytes == 16384, "peek of the last message");
  CHECK(tutti_channel_release(ends[1]) == TUTTI_OK, "release");
  CHECK(tutti_channel_try_acked(ends[0], &acked) == TUTTI_OK && acked == 3, "a release did not acknowledge");
  close_both(ends);
  pair_close(&pair);
}

/* After all messages are released, an acknowledgement writes nothing: the sender may have closed its end, and its
 * memory may be in use again. */
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
    if (((unsigned char *)memory)[i] != 0x77) FAIL("byte %zu was written after the channel was closed", i);
  CHECK(tutti_channel_close(ends[1], 1000) == TUTTI_OK && tutti_free(pair.comm[0], memory) == TUTTI_OK, "free");
  pair_close(&pair);
}

/* The receiver reads messages in the sender's memory, and slots are aligned as channel.h says. */
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
      /* A merged flag and the first 48 bytes of data share a cache line. */
      CHECK(slot && (uintptr_t)slot % 64 == (kind == 0 ? 16 : 0), "kind %u: slot at %p", kind, slot);
      CHECK(tutti_channel_commit(ends[0], 5, i == 6) == TUTTI_OK, "commit");
      CHECK(tutti_channel_peek(ends[1], 0, 1000, &m) == TUTTI_OK && m.data == slot, "kind %u: the message was copied",
            kind);
      CHECK(tutti_channel_release(ends[1]) == TUTTI_OK, "release");
    }
    close_both(ends);
  }
  pair_close(&pair);
}

/* Counters have 32 bits, and a stream continues when they wrap around. */
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

/* ---- steps that wait for the other end ---- */

static uint32_t calls;
static void count_calls(const struct tu_link_event *event) { calls += event->step == TU_LINK_CALL; }

/* The sender is the initiator. It is not ready before the other end's welcome, and it does not start the next operation
 * before both ends have closed this one. */
static void test_steps(void) {
  struct pair pair;
  tutti_channel *ends[2], *next;
  void *slot;
  bool ready = true;
  if (!pair_open(&pair)) return;
  one_end(pair.comm[1], NULL, "<", 0, &ends[1]);
  one_end(pair.comm[0], NULL, ">", 0, &ends[0]);
  CHECK(tutti_channel_try_ready(ends[0], &ready) == TUTTI_OK && !ready, "the sender is ready before the welcome");
  CHECK(tutti_channel_try_acquire(ends[0], &slot) == TUTTI_OK && !slot, "the sender got a slot before the welcome");
  CHECK(tutti_channel_try_ready(ends[1], &ready) == TUTTI_OK && ready, "the receiver is not ready after the hello");
  CHECK(tutti_channel_try_ready(ends[0], &ready) == TUTTI_OK && ready, "the sender is not ready after the welcome");
  put(ends[0], "x", true);
  take(ends[1], "x");
  CHECK(tutti_channel_close(ends[0], 1000) == TUTTI_OK, "close");
  tu_link_trace = count_calls;
  one_end(pair.comm[0], NULL, ">", 0, &next);
  CHECK(calls == 0, "the next operation was called before this one was closed");
  CHECK(tutti_channel_close(ends[1], 1000) == TUTTI_OK, "close");
  CHECK(tutti_channel_try_ready(next, &ready) == TUTTI_OK && !ready && calls == 1, "the next operation was not called");
  tu_link_trace = NULL;
  one_end(pair.comm[1], NULL, "<", 0, &ends[1]);
  CHECK(tutti_channel_ready(ends[1], 1000) == TUTTI_OK, "ready");
  ends[0] = next;
  put(ends[0], "y", true);
  take(ends[1], "y");
  close_both(ends);
  pair_close(&pair);
}

/* Two channels share one slot. A slot that comes back on one channel serves the other, even if the first stream has
 * ended. */
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
  CHECK(tutti_channel_try_acquire(a[1], &slot) == TUTTI_OK && !slot, "try_acquire returned a slot that is in use");
  take(b[0], "first");
  put(a[1], "second", true);
  take(b[1], "second");
  for (int i = 0; i < 2; i++)
    CHECK(tutti_channel_close(a[i], 1000) == TUTTI_OK && tutti_channel_close(b[i], 1000) == TUTTI_OK, "close");
  pair_close(&pair);
}

/* ---- traces ---- */

static struct tu_link_event seen[64];
static uint32_t seen_count;
static void note(const struct tu_link_event *event) {
  if (seen_count < 64) seen[seen_count] = *event;
  seen_count++;
}

/* Traces one whole operation, the second of its link. */
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
  CHECK(seen_count == STEPS, "%u steps, expected %d", seen_count, STEPS);
  for (uint32_t i = 0; i < tu_min(seen_count, STEPS); i++) {
    const struct tu_link_event *e = &seen[i];
    CHECK(e->rank == expected[i].rank && e->step == expected[i].step && e->number == expected[i].number,
          "step %u: rank %u, step %d, number %llu", i, e->rank, (int)e->step, (unsigned long long)e->number);
    CHECK(e->peer == 1 - e->rank && e->link == 3 && e->operation == 2 && e->channel == 0,
          "step %u: wrong peer, link, operation or channel", i);
    bool flag = e->step == TU_LINK_FLAG || e->step == TU_LINK_SEE_FLAG;
    CHECK(!flag || (e->last == (e->number == 1) && e->bytes == 3 - e->number), "step %u: wrong length or end mark", i);
  }
  pair_close(&pair);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"seeded", test_seeded}, {"ack", test_ack},     {"late_ack", test_late_ack}, {"in_place", test_in_place},
      {"wrap", test_wrap},     {"steps", test_steps}, {"shared", test_shared},     {"trace", test_trace},
  };
  return test_main(tests, sizeof tests / sizeof *tests, argc, argv);
}
