/* bench_links_measure.c: the microbenchmarks of `tutti bench links`. The sender copies each message from its memory
 * into the slot, and the receiver copies it out of the slot. Without these copies, only the times of the flags would be
 * measured. Each rank uses one thread. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_links.h"

enum {
  WAY_BYTES = 2 << 20, /* bytes that are sent in each direction in one round */
  MESSAGES_MIN = 8,    /* minimum number of messages per channel in one round */
  MESSAGES_MAX = 1024,
  ROUNDS_MIN = 5,
  ROUNDS_MAX = 2000,
  REPLY_BYTES = 16
};

/* The channels of one rank, and the memory that its messages are copied from and to. */
struct ends {
  tutti_channel *channels[2 * LINKS_CHANNELS_MAX];
  uint64_t left[2 * LINKS_CHANNELS_MAX]; /* [channel]: number of messages still to send or to receive in this round */
  uint32_t count;                        /* channels in each direction: [0, count) send, [count, 2 * count) receive */
  size_t bytes;
  unsigned char *from, *to;
};

static tutti_channel_options options_of(const struct links_bench *b, size_t bytes) {
  return (tutti_channel_options){.slots = b->slots, .slot_bytes = bytes, .separate_flag = b->separate_flag};
}

/* Opens `count` channels to rank `to` and `count` channels from rank `from`. If this rank is lower than `to`, it adds
 * its sending channels first, otherwise its receiving channels. Thus both ranks of a pair add their channels in the
 * same order. */
static tutti_err open_ends(const struct links_bench *b, uint32_t to, uint32_t from, uint32_t count, size_t bytes,
                           struct ends *e) {
  tutti_channel_builder *builder = NULL;
  *e =
      (struct ends){.count = count, .bytes = bytes, .from = tu_allocate(1, bytes + 1), .to = tu_allocate(1, bytes + 1)};
  tutti_channel *added[2 * LINKS_CHANNELS_MAX];
  const tutti_channel_options o = options_of(b, tu_max(bytes, REPLY_BYTES));
  memset(e->from, 0x5a, bytes);
  tutti_err err = tutti_channel_builder_create(b->world, &o, &builder);
  bool senders_first = b->rank < to;
  for (uint32_t i = 0; i < 2 * count && err == TUTTI_OK; i++)
    err = (i < count) == senders_first ? tutti_channel_add_sender(builder, to, 0, NULL)
                                       : tutti_channel_add_receiver(builder, from, 0, NULL);
  if (err == TUTTI_OK) err = tutti_channel_build(builder, added);
  tutti_channel_builder_free(builder);
  for (uint32_t i = 0; i < 2 * count && err == TUTTI_OK; i++)
    e->channels[senders_first ? i : (i + count) % (2 * count)] = added[i];
  for (uint32_t i = 0; i < 2 * count && err == TUTTI_OK; i++) err = tutti_channel_ready(e->channels[i], 0);
  return err;
}

/* Ends each channel with an empty message, closes the channels and frees the memory. Returns err if it is an error,
 * otherwise the first error of these steps. */
static tutti_err close_ends(struct ends *e, tutti_err err) {
  void *slot;
  tutti_channel_message m;
  for (uint32_t i = 0; i < e->count && err == TUTTI_OK; i++) {
    err = tutti_channel_acquire(e->channels[i], 0, &slot);
    if (err == TUTTI_OK) err = tutti_channel_commit(e->channels[i], 0, true);
  }
  for (uint32_t i = e->count; i < 2 * e->count && err == TUTTI_OK; i++) {
    err = tutti_channel_peek(e->channels[i], 0, 0, &m);
    if (err == TUTTI_OK) err = tutti_channel_release(e->channels[i]);
  }
  for (uint32_t i = 2 * e->count; i-- > 0 && err == TUTTI_OK;) err = tutti_channel_close(e->channels[i], 0);
  free(e->from);
  free(e->to);
  return err;
}

static tutti_err send_some(struct ends *e, uint32_t i, bool *moved) {
  void *slot;
  tutti_err err = tutti_channel_try_acquire(e->channels[i], &slot);
  if (err != TUTTI_OK || !slot) return err;
  memcpy(slot, e->from, e->bytes);
  e->left[i]--;
  *moved = true;
  return tutti_channel_commit(e->channels[i], e->bytes, false);
}

static tutti_err receive_some(struct ends *e, uint32_t i, bool *moved) {
  tutti_channel_message m;
  tutti_err err = tutti_channel_try_peek(e->channels[i], 0, &m);
  if (err != TUTTI_OK || !m.data) return err;
  memcpy(e->to, m.data, m.bytes);
  e->left[i]--;
  *moved = true;
  return tutti_channel_release(e->channels[i]);
}

/* Called when no channel can proceed: sleeps until the channel with the most remaining messages can proceed. Polling
 * instead would delay the peer if both ranks share a core. */
static tutti_err wait_some(struct ends *e) {
  uint32_t most = 0;
  void *slot;
  tutti_channel_message m;
  for (uint32_t i = 0; i < 2 * e->count; i++)
    if (e->left[i] > e->left[most]) most = i;
  return most < e->count ? tutti_channel_acquire(e->channels[most], 0, &slot)
                         : tutti_channel_peek(e->channels[most], 0, 0, &m);
}

/* Sends and receives `messages` messages on every channel. */
static tutti_err stream(struct ends *e, uint64_t messages) {
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < 2 * e->count; i++) e->left[i] = messages;
  for (bool busy = true; busy && err == TUTTI_OK;) {
    bool moved = false;
    busy = false;
    for (uint32_t i = 0; i < 2 * e->count && err == TUTTI_OK; i++) {
      if (e->left[i] == 0) continue;
      busy = true;
      err = i < e->count ? send_some(e, i, &moved) : receive_some(e, i, &moved);
    }
    if (busy && !moved && err == TUTTI_OK) err = wait_some(e);
  }
  return err;
}

/* ---- bandwidth ---- */

/* Rank 0 decides whether another round follows: the time limit has not passed and there are not too many rounds. All
 * ranks get the decision by a broadcast. */
static tutti_err go_on(const struct links_bench *b, uint32_t round, uint64_t end, bool *on) {
  uint8_t answer = round < ROUNDS_MIN || (round < ROUNDS_MAX && tu_clock_ns() < end);
  tutti_err err = tutti_broadcast(b->world, &answer, 1, TUTTI_U8, 0);
  *on = answer != 0;
  return err;
}

static tutti_err measure_point(const struct links_bench *b, size_t bytes, uint32_t channels, double *gbs) {
  struct ends e = {0};
  double times[ROUNDS_MAX];
  uint32_t rounds = 0;
  bool on, plays = b->rank < 2;
  uint64_t messages = tu_max(MESSAGES_MIN, tu_min(MESSAGES_MAX, WAY_BYTES / bytes / channels));
  tutti_err err = plays ? open_ends(b, 1 - b->rank, 1 - b->rank, channels, bytes, &e) : TUTTI_OK;
  if (plays && err == TUTTI_OK) err = stream(&e, messages);
  uint64_t end = tu_clock_ns() + (uint64_t)b->time_ms * 1000000;
  for (; err == TUTTI_OK && (err = go_on(b, rounds, end, &on)) == TUTTI_OK && on; rounds++) {
    err = tutti_barrier(b->world);
    uint64_t start = tu_clock_ns();
    if (plays && err == TUTTI_OK) err = stream(&e, messages);
    times[rounds] = (double)(tu_clock_ns() - start);
  }
  if (plays) err = close_ends(&e, err);
  if (err != TUTTI_OK) return err;
  *gbs = 2.0 * (double)(bytes * channels * messages) / bench_median(times, rounds);
  return TUTTI_OK;
}

tutti_err links_measure_bandwidth(const struct links_bench *b, struct tu_wire_figures *f) {
  tutti_err err = TUTTI_OK;
  for (uint32_t s = 0; s < b->size_count && err == TUTTI_OK; s++)
    for (uint32_t c = 0; c < b->count_count && err == TUTTI_OK; c++) {
      struct tu_wire_bandwidth row = {.bytes = b->sizes[s], .channels = b->counts[c]};
      err = measure_point(b, row.bytes, row.channels, &row.gbs);
      f->bandwidths[f->bandwidth_count++] = row;
    }
  return err;
}

/* ---- ring ping ---- */

/* Sends one message per channel round the ring: rank 0 sends the message and gets it back, the other ranks forward
 * it. */
static tutti_err go_round(const struct links_bench *b, struct ends *e) {
  tutti_err err = TUTTI_OK;
  void *slot;
  tutti_channel_message m;
  for (uint32_t i = 0; i < e->count && err == TUTTI_OK && b->rank == 0; i++) {
    if ((err = tutti_channel_acquire(e->channels[i], 0, &slot)) != TUTTI_OK) return err;
    memcpy(slot, e->from, e->bytes);
    err = tutti_channel_commit(e->channels[i], e->bytes, false);
  }
  for (uint32_t i = 0; i < e->count && err == TUTTI_OK; i++) {
    if ((err = tutti_channel_peek(e->channels[e->count + i], 0, 0, &m)) != TUTTI_OK) return err;
    if (b->rank == 0) {
      memcpy(e->to, m.data, m.bytes);
    } else {
      if ((err = tutti_channel_acquire(e->channels[i], 0, &slot)) != TUTTI_OK) return err;
      memcpy(slot, m.data, m.bytes);
      if ((err = tutti_channel_commit(e->channels[i], m.bytes, false)) != TUTTI_OK) return err;
    }
    err = tutti_channel_release(e->channels[e->count + i]);
  }
  return err;
}

enum { PINGS = 32 }; /* number of timed rounds between two calls of go_on(), which checks the time limit */

static tutti_err measure_ping(const struct links_bench *b, struct tu_wire_ping *row) {
  struct ends e = {0};
  uint32_t rounds = 0, next = (b->rank + 1) % b->ranks, before = (b->rank + b->ranks - 1) % b->ranks;
  double *times = tu_allocate(ROUNDS_MAX + PINGS, sizeof *times);
  bool on;
  tutti_err err = open_ends(b, next, before, row->channels, row->bytes, &e);
  uint64_t end = tu_clock_ns() + (uint64_t)b->time_ms * 1000000;
  while (err == TUTTI_OK && (err = go_on(b, rounds, end, &on)) == TUTTI_OK && on) {
    /* The first round is not timed, because it waits for late ranks. */
    err = go_round(b, &e);
    for (uint32_t i = 0; i < PINGS && err == TUTTI_OK; i++) {
      uint64_t start = tu_clock_ns();
      err = go_round(b, &e);
      times[rounds++] = (double)(tu_clock_ns() - start);
    }
  }
  err = close_ends(&e, err);
  if (err == TUTTI_OK) row->ns = bench_median(times, rounds); /* bench_median sorts times[], so times[0] is the least */
  if (err == TUTTI_OK) row->ns_min = times[0];
  free(times);
  return err;
}

tutti_err links_measure_pings(const struct links_bench *b, struct tu_wire_figures *f) {
  static const uint32_t counts[] = {1, 2, 3, 8};
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < b->ping_size_count && err == TUTTI_OK; i++)
    for (uint32_t c = 0; c < 4 && err == TUTTI_OK; c++) {
      struct tu_wire_ping row = {.bytes = b->ping_sizes[i], .hops = b->ranks, .channels = counts[c]};
      err = measure_ping(b, &row);
      f->pings[f->ping_count++] = row;
    }
  return err;
}

/* ---- round trip ---- */

enum part { FULL, ACKS, ISSUE, RECEIVER, ANSWER, PARTS };

/* Times of the parts of several round trips. */
struct stopwatch {
  double *ns[PARTS]; /* [ROUNDS_MAX + PINGS] each: samples of the time of each part, in ns */
  uint32_t count;
  uint64_t came; /* time at which the last message arrived at the receiver, in ns */
};

static double since(uint64_t start) { return (double)(tu_clock_ns() - start); }

/* Measures one round trip at the sender. The time to copy the message into the slot is part of FULL (the whole trip).
 * It is not part of ISSUE (the start of a send), because it counts as part of the link's bandwidth. */
static tutti_err ask(struct ends *e, struct stopwatch *w, uint64_t number) {
  void *slot;
  tutti_channel_message m;
  uint64_t start = tu_clock_ns();
  tutti_err err = tutti_channel_acquire(e->channels[0], 0, &slot);
  if (err != TUTTI_OK) return err;
  uint64_t fill = tu_clock_ns();
  memcpy(slot, e->from, e->bytes);
  uint64_t filled = tu_clock_ns();
  if ((err = tutti_channel_commit(e->channels[0], e->bytes, false)) != TUTTI_OK) return err;
  uint64_t issued = tu_clock_ns();
  if ((err = tutti_channel_acked(e->channels[0], number, 0)) != TUTTI_OK) return err;
  w->ns[ACKS][w->count] = since(issued);
  if ((err = tutti_channel_peek(e->channels[1], 0, 0, &m)) != TUTTI_OK) return err;
  w->ns[FULL][w->count] = since(start);
  w->ns[ISSUE][w->count] = (double)(fill - start + issued - filled);
  return tutti_channel_release(e->channels[1]);
}

/* Receives one message and sends the short reply. Measures the parts of the trip at the receiver. */
static tutti_err answer(struct ends *e, struct stopwatch *w) {
  void *slot;
  tutti_channel_message m;
  tutti_err err = tutti_channel_peek(e->channels[1], 0, 0, &m);
  if (err != TUTTI_OK) return err;
  uint64_t came = tu_clock_ns();
  w->ns[RECEIVER][w->count] = (double)(came - w->came);
  w->came = came;
  if ((err = tutti_channel_ack(e->channels[1])) != TUTTI_OK) return err;
  uint64_t take = tu_clock_ns();
  memcpy(e->to, m.data, m.bytes);
  uint64_t taken = tu_clock_ns();
  if ((err = tutti_channel_release(e->channels[1])) != TUTTI_OK) return err;
  if ((err = tutti_channel_acquire(e->channels[0], 0, &slot)) != TUTTI_OK) return err;
  memcpy(slot, e->from, REPLY_BYTES);
  err = tutti_channel_commit(e->channels[0], REPLY_BYTES, false);
  w->ns[ANSWER][w->count] = (double)(take - came) + since(taken);
  return err;
}

static tutti_err run_trips(const struct links_bench *b, struct ends *e, struct stopwatch *w) {
  bool on;
  uint64_t number = 0;
  tutti_err err = TUTTI_OK;
  uint64_t end = tu_clock_ns() + (uint64_t)b->time_ms * 1000000;
  while (err == TUTTI_OK && (err = go_on(b, w->count, end, &on)) == TUTTI_OK && on) {
    uint32_t first = w->count;
    for (uint32_t i = 0; i <= PINGS && err == TUTTI_OK && b->rank < 2; i++) {
      w->count = first + (i > 0 ? i - 1 : 0); /* trip 0 warms up: trip 1 overwrites its times */
      err = b->rank == 0 ? ask(e, w, ++number) : answer(e, w);
    }
    w->count = first + PINGS;
  }
  return err;
}

static tutti_err measure_trip(const struct links_bench *b, struct tu_wire_trip *row) {
  struct ends e = {0};
  struct stopwatch w = {0};
  double medians[PARTS] = {0};
  for (int p = 0; p < PARTS; p++) w.ns[p] = tu_allocate(ROUNDS_MAX + PINGS, sizeof *w.ns[p]);
  tutti_err err =
      b->rank < 2 ? open_ends(b, 1 - b->rank, 1 - b->rank, 1, tu_max(row->bytes, REPLY_BYTES), &e) : TUTTI_OK;
  e.bytes = row->bytes;
  if (err == TUTTI_OK) err = run_trips(b, &e, &w);
  if (b->rank < 2) err = close_ends(&e, err);
  for (int p = 0; p < PARTS; p++) {
    if (b->rank < 2 && err == TUTTI_OK) medians[p] = bench_median(w.ns[p], w.count);
    free(w.ns[p]);
  }
  /* The median of a part is 0 on ranks that did not measure the part. The sum therefore gives every median to all
   * ranks. */
  if (err == TUTTI_OK) err = tutti_allreduce(b->world, medians, medians, PARTS, TUTTI_F64, TUTTI_SUM);
  row->full_ns = medians[FULL];
  row->acks_ns = medians[ACKS];
  row->issue_ns = medians[ISSUE];
  row->receiver_ns = medians[RECEIVER];
  row->answer_ns = medians[ANSWER];
  return err;
}

tutti_err links_measure_trips(const struct links_bench *b, struct tu_wire_figures *f) {
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < b->size_count + b->ping_size_count && err == TUTTI_OK; i++) {
    size_t bytes = i < b->ping_size_count ? b->ping_sizes[i] : b->sizes[i - b->ping_size_count];
    if (f->trip_count > 0 && f->trips[f->trip_count - 1].bytes >= bytes) continue;
    struct tu_wire_trip row = {.bytes = bytes};
    err = measure_trip(b, &row);
    f->trips[f->trip_count++] = row;
  }
  return err;
}
