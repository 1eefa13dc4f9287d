/* channel_refusals_test.c: errors of channels between two ranks of one process: ends with different options, invalid
 * arguments and calls, lack of memory, time-outs, and two threads at one end. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>

#include "channels.h"
#include "stream/channel.h"

/* ---- ends that disagree ---- */

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
  CHECK(strstr(text[0], word) && test_contains(text[0], "rank 0 |rank 1 "), "\"%s\" does not contain %s", text[0],
        word);
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
  /* Builds the link again, now with matching ends. */
  tutti_channel *ends[2];
  if (!open_both(&pair, &o, ends)) return;
  put(ends[0], "at last", true);
  take(ends[1], "at last");
  close_both(ends);
  pair_close(&pair);
}

/* An end that disagrees cannot be closed before the other end has seen the mismatch. */
static void test_disagree_and_leave(void) {
  struct pair pair;
  tutti_channel *ends[2];
  bool closed = true, ready;
  if (!pair_open(&pair)) return;
  one_end(pair.comm[1], NULL, "<", 0, &ends[1]);
  one_end(pair.comm[0], &(tutti_channel_options){.slots = 7}, ">", 0, &ends[0]);
  CHECK(tutti_channel_try_ready(ends[0], &ready) == TUTTI_ERR_MISMATCH, "rank 0 does not see the mismatch at once");
  CHECK(tutti_channel_try_close(ends[0], &closed) == TUTTI_OK && !closed,
        "rank 0 closed its end before rank 1 saw the mismatch");
  CHECK(tutti_channel_try_ready(ends[1], &ready) == TUTTI_ERR_MISMATCH, "rank 1 does not see the mismatch");
  CHECK(tutti_channel_try_close(ends[0], &closed) == TUTTI_OK && closed, "rank 0 cannot close its end");
  CHECK(tutti_channel_try_close(ends[1], &closed) == TUTTI_OK && closed, "rank 1 cannot close its end");
  pair_close(&pair);
}

/* ---- errors ---- */

static void refused(tutti_err err, const char *word) {
  CHECK(err == TUTTI_ERR_ARGUMENT && test_contains(tutti_error_message(NULL), word), "%s: %s: %s", word,
        tutti_err_name(err), tutti_error_message(NULL));
}

static tutti_err create(tutti_comm *comm, tutti_channel_options options) {
  tutti_channel_builder *b = NULL;
  tutti_err err = tutti_channel_builder_create(comm, &options, &b);
  CHECK((err == TUTTI_OK) == (b != NULL), "a builder was returned with an error");
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
  refused(tutti_channel_builder_create(NULL, NULL, &b), "tutti_channel_builder_create");
  refused(tutti_channel_builder_create(comm, NULL, NULL), "tutti_channel_builder_create");
  CHECK(create(comm, (tutti_channel_options){0}) == TUTTI_OK, "all defaults");
  CHECK(create(comm, (tutti_channel_options){.slots = 64, .slot_bytes = 1 << 30, .link = 15}) == TUTTI_OK,
        "the maximum of slots, slot_bytes and link");
  refused(create(comm, (tutti_channel_options){.slots = 65}), "slots|65");
  refused(create(comm, (tutti_channel_options){.slot_bytes = (1u << 30) + 1}), "1073741825");
  refused(create(comm, (tutti_channel_options){.link = 16}), "link|16");
  refused(create(comm, (tutti_channel_options){.ending = (tutti_channel_ending)2}), "TUTTI_CHANNEL_MARKED|2");
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
  refused(tutti_channel_add_sender(b, 0, 0, NULL), "rank 0 of 2|with rank 0");
  refused(tutti_channel_add_receiver(b, 2, 0, NULL), "rank 0 of 2|with rank 2");
  refused(tutti_channel_add_receiver(b, 1, 5, NULL), "messages|5");
  refused(tutti_channel_add_sender(counted, 1, 0, NULL), "counted stream");
  refused(tutti_channel_build(b, channels), "no channel");
  refused(tutti_channel_build(NULL, channels), "builder");
  CHECK(tutti_channel_builder_bytes(b) == 0 && tutti_channel_builder_bytes(NULL) == 0,
        "builder_bytes is not 0 without channels");
  for (int i = 0; i < 64; i++) CHECK(tutti_channel_add_receiver(b, 1, 0, NULL) == TUTTI_OK, "channel %d", i);
  CHECK(tutti_channel_builder_bytes(b) == 0, "builder_bytes is not 0 for receivers");
  refused(tutti_channel_add_sender(b, 1, 0, NULL), "at most 64");
  refused(tutti_channel_build(b, NULL), "tutti_channel_build|channels is NULL");
  CHECK(tutti_channel_build(b, channels) == TUTTI_OK, "64 channels: %s", tutti_error_message(NULL));
  refused(tutti_channel_build(b, channels), "tutti_channel_build|64 channels");
  refused(tutti_channel_add_sender(b, 1, 0, NULL), "builder has");
  CHECK(tutti_channel_add_sender(twin, 1, 0, NULL) == TUTTI_OK, "add");
  refused(tutti_channel_build(twin, &none), "link 0 to rank 1");
  refused(tutti_channel_open(comm, 1, TUTTI_CHANNEL_SENDS, NULL, &none), "already");
  refused(tutti_channel_open(comm, 1, TUTTI_CHANNEL_SENDS, NULL, NULL), "tutti_channel_open");
  refused(tutti_channel_open(comm, 1, (tutti_channel_direction)2, NULL, &none), "direction");
  refused(tutti_channel_open(NULL, 1, TUTTI_CHANNEL_SENDS, NULL, &none), "tutti_channel");
  CHECK(!none, "a channel was returned with an error");
  tutti_channel_builder_free(b);
  tutti_channel_builder_free(twin);
  tutti_channel_builder_free(counted);
  tutti_channel_builder_free(NULL);
  /* A rank that frees a communicator with open channels causes an error on all ranks. */
  refused(tutti_comm_free(comm), "64 channels");
  refused(tutti_comm_free(pair.comm[1]), "rank 0|64 channels");
}

/* Fails for lack of memory: the user's memory is too short, or the slice is used up. Nothing remains allocated. */
static void test_no_memory(void) {
  struct pair pair;
  void *heap = NULL;
  if (!pair_open(&pair)) return;
  tutti_comm *comm = pair.comm[0];
  tutti_channel *channel = NULL;
  CHECK(tutti_alloc(comm, 4096, &heap) == TUTTI_OK, "alloc");
  tutti_channel_options o = {.slots = 4, .slot_bytes = 1000, .memory = heap, .memory_bytes = 4096};
  refused(tutti_channel_open(comm, 1, TUTTI_CHANNEL_SENDS, &o, &channel), "4224 bytes");
  o = (tutti_channel_options){.slots = 64, .slot_bytes = 1 << 20};
  for (int i = 0; i < 20; i++) {
    tutti_err err = tutti_channel_open(comm, 1, TUTTI_CHANNEL_SENDS, &o, &channel);
    CHECK(err == TUTTI_ERR_MEMORY && !channel, "64 MiB in a slice of 8 MiB: %s", tutti_err_name(err));
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
  refused(tutti_channel_try_acquire(ends[0], NULL), "tutti_channel_try_acquire");
  refused(tutti_channel_acquire(ends[0], 1, NULL), "tutti_channel_acquire");
  refused(tutti_channel_commit(ends[0], 1, false), "tutti_channel_commit|no slot");
  refused(tutti_channel_commit(ends[1], 1, false), "receiving end");
  refused(tutti_channel_try_peek(ends[0], 0, &m), "sending end");
  refused(tutti_channel_try_peek(ends[1], 0, NULL), "tutti_channel_try_peek");
  refused(tutti_channel_peek(ends[1], 2, 1, &m), "tutti_channel_peek|ahead|2");
  refused(tutti_channel_ack(ends[0]), "sending end");
  refused(tutti_channel_release(ends[0]), "sending end");
  refused(tutti_channel_release(ends[1]), "tutti_channel_release|no message");
  refused(tutti_channel_try_acked(ends[0], NULL), "tutti_channel_try_acked");
  refused(tutti_channel_try_acked(ends[1], &acked), "receiving end");
  refused(tutti_channel_acked(ends[0], 1, 1), "tutti_channel_acked|0 have");
  refused(tutti_channel_try_ready(ends[0], NULL), "tutti_channel_try_ready");
  refused(tutti_channel_ready(NULL, 1), "NULL");
  refused(tutti_channel_try_close(ends[0], NULL), "tutti_channel_try_close");
  refused(tutti_channel_close(ends[0], 1), "0 of 2 messages|sent");
  refused(tutti_channel_close(ends[1], 1), "0 of 2 messages|released");
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
  CHECK(tutti_channel_try_close(ends[0], &answer) == TUTTI_OK && !answer, "closed before all messages were released");
  take(ends[1], "end");
  refused(tutti_channel_peek(ends[1], 0, 1, &m), "beyond the end");
  CHECK(tutti_channel_ended(ends[1]) && tutti_channel_ended(NULL), "ended");
  CHECK(tutti_channel_try_close(ends[0], &answer) == TUTTI_OK && answer, "not closed");
  CHECK(tutti_channel_try_close(NULL, &answer) == TUTTI_OK && answer, "NULL");
  CHECK(tutti_channel_close(ends[1], 0) == TUTTI_OK && tutti_channel_close(NULL, 0) == TUTTI_OK, "close");
  /* A marked stream: errors beyond its end, and when it is closed before its end. */
  if (!open_both(&pair, NULL, ends)) return;
  refused(tutti_channel_close(ends[0], 1), "marked");
  put(ends[0], "last", true);
  refused(tutti_channel_try_acquire(ends[0], &slot), "has ended");
  refused(tutti_channel_peek(ends[1], 1, 0, &m), "message 1|beyond the end");
  take(ends[1], "last");
  close_both(ends);
  pair_close(&pair);
}

/* ---- time-outs ---- */

static void late(tutti_err err, const char *word) {
  CHECK(err == TUTTI_ERR_TIMEOUT && test_contains(tutti_error_message(NULL), word), "%s: %s: %s", word,
        tutti_err_name(err), tutti_error_message(NULL));
}

static void test_late(void) {
  struct pair pair;
  tutti_channel *ends[2], *alone[1], *none = NULL;
  tutti_channel_message m = {.bytes = 9};
  void *slot = &pair;
  if (!pair_open(&pair)) return;
  const tutti_channel_options o = {.slots = 1, .timeout_ms = 3, .link = 1};
  late(tutti_channel_open(pair.comm[0], 1, TUTTI_CHANNEL_SENDS, &o, &none), "the other end");
  CHECK(!none, "a channel was returned after a time-out");
  refused(tutti_channel_open(pair.comm[0], 1, TUTTI_CHANNEL_SENDS, &o, &none), "already");
  one_end(pair.comm[0], NULL, ">", 0, alone);
  late(tutti_channel_ready(alone[0], 3), "rank 0|3 ms|handshake|channel 0 of link 0");
  late(tutti_channel_acquire(alone[0], 3, &slot), "the other end");
  CHECK(!slot, "a slot was returned after a time-out");
  one_end(pair.comm[1], NULL, "<", 0, &ends[1]);
  ends[0] = alone[0];
  late(tutti_channel_peek(ends[1], 0, 3, &m), "0 messages");
  CHECK(tutti_channel_ready(ends[0], 1000) == TUTTI_OK && tutti_channel_ready(ends[1], 1000) == TUTTI_OK, "ready");
  late(tutti_channel_peek(ends[1], 0, 3, &m), "0 messages");
  CHECK(!m.data, "a message was returned after a time-out");
  put(ends[0], "a", false);
  put(ends[0], "b", true);
  late(tutti_channel_acked(ends[0], 1, 3), "acknowledgement");
  late(tutti_channel_close(ends[0], 3), "2 messages|0 of them");
  take(ends[1], "a");
  late(tutti_channel_close(ends[0], 3), "1 of them");
  take(ends[1], "b");
  close_both(ends);
  pair_close(&pair);
}

/* Time limits are 0, positive or TUTTI_NO_TIMEOUT. A limit is checked even if the call would not wait. */
static void test_negative_limits(void) {
  struct pair pair;
  tutti_channel *ends[2], *none = NULL;
  tutti_channel_message m;
  void *slot;
  const char *words = "timeout_ms is -2|TUTTI_NO_TIMEOUT (-1)";
  if (!pair_open(&pair)) return;
  const tutti_channel_options o = {.timeout_ms = -2, .link = 1};
  refused(tutti_channel_open(pair.comm[0], 1, TUTTI_CHANNEL_SENDS, &o, &none), words);
  one_end(pair.comm[0], NULL, ">", 0, &ends[0]);
  one_end(pair.comm[1], NULL, "<", 0, &ends[1]);
  CHECK(tutti_channel_ready(ends[0], TUTTI_NO_TIMEOUT) == TUTTI_OK, "ready: %s", tutti_error_message(NULL));
  refused(tutti_channel_ready(ends[0], -2), words);
  refused(tutti_channel_acquire(ends[0], -2, &slot), words);
  put(ends[0], "a", true);
  refused(tutti_channel_peek(ends[1], 0, -2, &m), words);
  CHECK(tutti_channel_peek(ends[1], 0, TUTTI_NO_TIMEOUT, &m) == TUTTI_OK, "peek: %s", tutti_error_message(NULL));
  refused(tutti_channel_acked(ends[0], 0, -2), words);
  refused(tutti_channel_acked(ends[0], 1, INT_MIN), "timeout_ms is -2147483648");
  take(ends[1], "a");
  refused(tutti_channel_close(ends[0], -2), words);
  close_both(ends);
  pair_close(&pair);
}

/* ---- two threads in calls on one end ---- */

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
      {"disagree", test_disagree},
      {"disagree_and_leave", test_disagree_and_leave},
      {"refused_options", test_refused_options},
      {"refused_builds", test_refused_builds},
      {"no_memory", test_no_memory},
      {"refused_calls", test_refused_calls},
      {"late", test_late},
      {"negative limits", test_negative_limits},
      {"two_readers", test_two_readers},
  };
  return test_main(tests, sizeof tests / sizeof *tests, argc, argv);
}
