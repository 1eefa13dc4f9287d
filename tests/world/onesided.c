/* onesided.c: the acts of a program that use windows and streams of messages. */
#include <stdlib.h>
#include <string.h>
#include <tutti/channel.h>
#include <tutti/window.h>

#include "base/base.h"
#include "tests/world/rank.h"

static int32_t value_of(uint64_t seed, uint32_t from, uint32_t to, size_t i) {
  return (int32_t)(world_mix(seed, from * 64 + to, i) % 100000);
}

static tutti_tensor row_of(void *data, size_t count) {
  tutti_tensor t;
  const size_t shape[] = {1, count};
  if (tutti_tensor_strided(&t, (tutti_tensor_of){data, TUTTI_I32, 2, shape}, NULL) != TUTTI_OK) abort();
  return t;
}

/* ---- windows ---- */

/* A rank's part of the window: two signals, and a row of `count` items for each rank. */
struct part {
  int32_t arrived, sum;
  int32_t rows[];
};

struct view {
  struct actor *actor;
  tutti_comm *comm;
  tutti_window *window;
  uint32_t rank, ranks;
  size_t count;
  uint64_t seed;
  int timeout_ms;
};

static struct part *part_of(const struct view *v, uint32_t rank) { return tutti_window_address(v->window, rank); }
static int32_t *row_in(const struct view *v, uint32_t rank, uint32_t row) {
  return part_of(v, rank)->rows + row * v->count;
}

static void compare(const struct view *v, const int32_t *row, uint32_t from, uint32_t to, const char *what) {
  for (size_t i = 0; i < v->count; i++)
    if (row[i] != value_of(v->seed, from, to, i)) {
      world_fail("%s of act %u: rank %u of %u: item %zu of rank %u is %d, expected %d", what, v->actor->act, v->rank,
                 v->ranks, i, from, row[i], value_of(v->seed, from, to, i));
      return;
    }
}

/* Each rank puts a row into the part of every other rank, and adds 1 to its signal. */
static tutti_err put_to_all(const struct view *v) {
  tutti_err err = TUTTI_OK;
  int32_t *row = malloc(v->count * sizeof *row + 1);
  if (!row) abort();
  for (uint32_t step = 1; step < v->ranks && err == TUTTI_OK; step++) {
    const uint32_t to = (v->rank + step) % v->ranks;
    for (size_t i = 0; i < v->count; i++) row[i] = value_of(v->seed, v->rank, to, i);
    const tutti_tensor from = row_of(row, v->count), there = row_of(row_in(v, to, v->rank), v->count);
    int32_t mine = (int32_t)v->rank + 1;
    const tutti_tensor one = row_of(&mine, 1), sum = row_of(&part_of(v, to)->sum, 1);
    err = tutti_put(&from, &there, NULL, NULL);
    if (err == TUTTI_OK) err = tutti_put_add(&one, &sum, NULL, NULL);
    if (err == TUTTI_OK) err = tutti_signal_add(&part_of(v, to)->arrived, 1, NULL);
  }
  free(row);
  const tutti_tensor signal = row_of(&part_of(v, v->rank)->arrived, 1);
  if (err == TUTTI_OK) err = tutti_signal_wait(&signal, TUTTI_GE, (int32_t)v->ranks - 1, v->timeout_ms, NULL);
  if (err != TUTTI_OK) return err;
  int32_t sum = 0;
  for (uint32_t r = 0; r < v->ranks; r++)
    if (r != v->rank) compare(v, row_in(v, v->rank, r), r, v->rank, "put"), sum += (int32_t)r + 1;
  if (part_of(v, v->rank)->sum != sum)
    world_fail("put_add of act %u: rank %u of %u: %d, expected %d", v->actor->act, v->rank, v->ranks,
               part_of(v, v->rank)->sum, sum);
  return TUTTI_OK;
}

/* Each rank fills the rows of its part. After a barrier each gets its row of the next rank's part, or the root gathers
 * the rows that are meant for it. */
static tutti_err get_after_barrier(const struct view *v, bool gathers) {
  const uint32_t root = (uint32_t)(v->seed % v->ranks), next = (v->rank + 1) % v->ranks;
  for (uint32_t r = 0; r < v->ranks; r++)
    for (size_t i = 0; i < v->count; i++) row_in(v, v->rank, r)[i] = value_of(v->seed, v->rank, r, i);
  tutti_err err = tutti_barrier(v->comm);
  if (err != TUTTI_OK) return err;
  int32_t *rows = malloc(v->ranks * v->count * sizeof *rows + 1);
  if (!rows) abort();
  if (!gathers) {
    const tutti_tensor there = row_of(row_in(v, next, v->rank), v->count), here = row_of(rows, v->count);
    err = tutti_get(&there, &here, NULL, NULL);
    if (err == TUTTI_OK) compare(v, rows, next, v->rank, "get");
  } else if (v->rank == root) {
    tutti_tensor tensors[WORLD_RANKS_MAX], all;
    const size_t shape[] = {v->ranks, v->count};
    for (uint32_t r = 0; r < v->ranks; r++) tensors[r] = row_of(row_in(v, r, root), v->count);
    if (tutti_tensor_strided(&all, (tutti_tensor_of){rows, TUTTI_I32, 2, shape}, NULL) != TUTTI_OK) abort();
    err = tutti_onesided_gather(&(tutti_onesided_group){tensors, v->ranks, root}, &all, NULL, NULL);
    for (uint32_t r = 0; r < v->ranks && err == TUTTI_OK; r++) compare(v, rows + r * v->count, r, root, "gather");
  }
  free(rows);
  return err == TUTTI_OK ? tutti_barrier(v->comm) : err;
}

/* Each rank puts items one by one into the part of the next rank, by a session, and waits for the last. */
static tutti_err put_items(const struct view *v) {
  const uint32_t next = (v->rank + 1) % v->ranks, before = (v->rank + v->ranks - 1) % v->ranks;
  const size_t count = tu_min(v->count, 200);
  tutti_session *session = NULL;
  tutti_event event = {0};
  int32_t *row = malloc(v->count * sizeof *row);
  if (!row) abort();
  for (size_t i = 0; i < v->count; i++) row[i] = value_of(v->seed, v->rank, next, i);
  tutti_err err = tutti_session_create(&session);
  for (size_t i = 0; i < count && err == TUTTI_OK; i++) {
    const size_t items = i + 1 < count ? 1 : v->count - i;
    const tutti_tensor from = row_of(row + i, items), there = row_of(row_in(v, next, v->rank) + i, items);
    err = tutti_put_start(session, &from, &there, &event);
  }
  if (err == TUTTI_OK) err = tutti_event_wait(event);
  if (session) (void)!tutti_session_free(session);
  free(row);
  if (err == TUTTI_OK) err = tutti_barrier(v->comm);
  if (err == TUTTI_OK) compare(v, row_in(v, v->rank, before), before, v->rank, "session");
  return err;
}

tutti_err rank_window(struct actor *a, const struct world_act *act) {
  const uint64_t s = act->seed;
  struct view v = {a, a->comm[act->comm], .seed = s, .timeout_ms = (int)world_limit(a->program, a->act, act->comm)};
  v.rank = tutti_rank(v.comm);
  v.ranks = tutti_ranks(v.comm);
  v.count = 1 + world_mix(s, 2, 0) % (world_mix(s, 3, 0) % 3 ? 20 : 3000);
  const size_t bytes = sizeof(struct part) + v.ranks * v.count * sizeof(int32_t);
  void *memory = NULL;
  tutti_err err = world_mix(s, 4, 0) % 2 ? tutti_alloc(v.comm, bytes, &memory) : TUTTI_OK;
  if (err == TUTTI_OK && memory) memset(memory, 0, bytes);
  if (err == TUTTI_OK) err = tutti_window_create(v.comm, memory, bytes, &v.window);
  if (err == TUTTI_OK) {
    rank_abort(a, act);
    const uint64_t use = world_mix(s, 5, 0) % 6;
    err = use < 3 ? put_to_all(&v) : use == 3 ? put_items(&v) : get_after_barrier(&v, use == 4);
    /* After an error the rank ends: it does not wait for the others to free the window. */
    if (err == TUTTI_OK) err = tutti_window_free(v.window);
  }
  if (memory && err == TUTTI_OK) err = tutti_free(v.comm, memory);
  return err;
}

/* ---- streams ---- */

enum { STREAMS_MAX = 3, AT_ONCE = 100, WORK_US = 300 };

/* Some streams from each rank to the next one of the communicator. */
struct ring {
  struct actor *actor;
  tutti_channel *ends[2][STREAMS_MAX]; /* to the next rank, and from the rank before */
  uint32_t streams;
  uint32_t rank, before;
  uint32_t slots;
  uint64_t messages;
  size_t slot_bytes;
  bool marked, polls;
  uint64_t seed;
  int timeout_ms;
};

static size_t bytes_of(const struct ring *r, uint32_t from, uint64_t message) {
  return world_mix(r->seed, from, message) % (r->slot_bytes + 1);
}
static unsigned char byte_of(const struct ring *r, uint32_t from, uint64_t message, size_t i) {
  return (unsigned char)world_mix(r->seed + 1, from * 1000 + message, i / 8);
}

/* Returns true if a program that has polled this often without success polls again. It works in between. */
static bool polls_again(const struct ring *r, uint32_t polls) {
  if (polls >= AT_ONCE + (uint32_t)r->timeout_ms * 1000 / WORK_US) return false;
  if (polls > AT_ONCE) world_sleep_us(WORK_US);
  return true;
}

static tutti_err acquire(const struct ring *r, tutti_channel *to, void **slot) {
  tutti_err err = TUTTI_OK;
  if (!r->polls) return tutti_channel_acquire(to, r->timeout_ms, slot);
  *slot = NULL;
  for (uint32_t i = 0; !*slot && err == TUTTI_OK && polls_again(r, i); i++) err = tutti_channel_try_acquire(to, slot);
  return err == TUTTI_OK && !*slot ? rank_loses_patience(r->actor) : err;
}

static tutti_err peek(const struct ring *r, tutti_channel *from, tutti_channel_message *m) {
  tutti_err err = TUTTI_OK;
  if (!r->polls) return tutti_channel_peek(from, 0, r->timeout_ms, m);
  m->data = NULL;
  for (uint32_t i = 0; !m->data && err == TUTTI_OK && polls_again(r, i); i++) err = tutti_channel_try_peek(from, 0, m);
  return err == TUTTI_OK && !m->data ? rank_loses_patience(r->actor) : err;
}

static tutti_err send_one(const struct ring *r, uint32_t stream, uint64_t message) {
  void *slot;
  tutti_channel *to = r->ends[0][stream];
  const size_t bytes = bytes_of(r, r->rank + 100 * stream, message);
  tutti_err err = acquire(r, to, &slot);
  if (err != TUTTI_OK) return err;
  for (size_t i = 0; i < bytes; i++) ((unsigned char *)slot)[i] = byte_of(r, r->rank + 100 * stream, message, i);
  return tutti_channel_commit(to, bytes, r->marked && message + 1 == r->messages);
}

static tutti_err receive_one(const struct ring *r, uint32_t stream, uint64_t message) {
  tutti_channel_message m;
  tutti_channel *from = r->ends[1][stream];
  const size_t bytes = bytes_of(r, r->before + 100 * stream, message);
  tutti_err err = peek(r, from, &m);
  if (err != TUTTI_OK) return err;
  bool equal = m.bytes == bytes && m.number == message && m.last == (message + 1 == r->messages);
  for (size_t i = 0; i < bytes && equal; i++)
    equal = ((const unsigned char *)m.data)[i] == byte_of(r, r->before + 100 * stream, message, i);
  if (!equal) world_fail("stream of act %u: rank %u: message %zu is wrong", r->actor->act, r->rank, (size_t)message);
  if (world_mix(r->seed, message, 3) % 4 == 0) err = tutti_channel_ack(from);
  return err == TUTTI_OK ? tutti_channel_release(from) : err;
}

/* Each rank sends a burst of messages on one stream, and then receives one. Bursts are not longer than the number of
 * slots, so no rank waits for itself. With shared slots the streams follow one another. */
static tutti_err run_stream(const struct ring *r, uint32_t stream) {
  tutti_err err = TUTTI_OK;
  for (uint64_t first = 0; first < r->messages && err == TUTTI_OK;) {
    const uint64_t burst = tu_min(1 + world_mix(r->seed, first, 4) % r->slots, r->messages - first);
    for (uint64_t m = first; m < first + burst && err == TUTTI_OK; m++) err = send_one(r, stream, m);
    for (uint64_t m = first; m < first + burst && err == TUTTI_OK; m++) err = receive_one(r, stream, m);
    first += burst;
  }
  if (err == TUTTI_OK && world_mix(r->seed, stream, 5) % 2)
    err = tutti_channel_acked(r->ends[0][stream], r->messages, r->timeout_ms);
  return err;
}

static tutti_err run_ring(const struct ring *r) {
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < r->streams && err == TUTTI_OK; i++) err = run_stream(r, i);
  for (uint32_t i = 0; i < 2 * r->streams && err == TUTTI_OK; i++)
    err = tutti_channel_close(r->ends[i % 2][i / 2], r->timeout_ms);
  return err;
}

/* Both ends of a link must add its channels in the same order. With two ranks, the streams of both are on one link. */
static tutti_err build_ring(struct ring *r, tutti_comm *comm, const tutti_channel_options *options) {
  const uint32_t n = tutti_ranks(comm), sends_at = n == 2 && r->rank == 1;
  const uint64_t messages = r->marked ? 0 : r->messages;
  tutti_channel_builder *builder = NULL;
  tutti_channel *built[2 * STREAMS_MAX];
  tutti_err err = tutti_channel_builder_create(comm, options, &builder);
  for (uint32_t i = 0; i < 2 * r->streams && err == TUTTI_OK; i++)
    err = i % 2 == sends_at ? tutti_channel_add_sender(builder, (r->rank + 1) % n, messages, NULL)
                            : tutti_channel_add_receiver(builder, r->before, messages, NULL);
  if (err == TUTTI_OK) err = tutti_channel_build(builder, built);
  for (uint32_t i = 0; i < 2 * r->streams && err == TUTTI_OK; i++) r->ends[i % 2 != sends_at][i / 2] = built[i];
  tutti_channel_builder_free(builder);
  return err;
}

tutti_err rank_stream(struct actor *a, const struct world_act *act) {
  const uint64_t s = act->seed;
  tutti_comm *comm = a->comm[act->comm];
  const uint32_t n = tutti_ranks(comm), times = 1 + (uint32_t)(world_mix(s, 10, 0) % 3);
  struct ring r = {
      .actor = a, .rank = tutti_rank(comm), .seed = s, .timeout_ms = (int)world_limit(a->program, a->act, act->comm)};
  if (n == 1) return TUTTI_OK;
  r.before = (r.rank + n - 1) % n;
  r.streams = 1 + (uint32_t)(world_mix(s, 8, 0) % STREAMS_MAX);
  r.slots = 1 + (uint32_t)(world_mix(s, 1, 0) % 5);
  r.messages = 1 + world_mix(s, 2, 0) % 12;
  r.slot_bytes = 1 + world_mix(s, 3, 0) % (world_mix(s, 4, 0) % 2 ? 60 : 3000);
  r.polls = world_mix(s, 9, 0) % 4 == 0;
  r.marked = world_mix(s, 5, 0) % 2;
  tutti_channel_options options = {.slots = r.slots,
                                   .slot_bytes = r.slot_bytes,
                                   .ending = r.marked ? TUTTI_CHANNEL_MARKED : TUTTI_CHANNEL_COUNTED,
                                   .shared = world_mix(s, 6, 0) % 2,
                                   .separate_flag = world_mix(s, 7, 0) % 2};
  tutti_err err = TUTTI_OK;
  /* Some programs use a link several times, in the same memory. */
  if (times > 1) options.memory_bytes = r.streams * (256 + r.slots * (tu_round_up(r.slot_bytes, 64) + 192));
  if (times > 1) err = tutti_alloc(comm, options.memory_bytes, &options.memory);
  for (uint32_t i = 0; i < times && err == TUTTI_OK; i++) {
    err = build_ring(&r, comm, &options);
    if (i == 0) rank_abort(a, act);
    if (err == TUTTI_OK) err = run_ring(&r);
  }
  if (times > 1 && err == TUTTI_OK) err = tutti_free(comm, options.memory);
  return err;
}
