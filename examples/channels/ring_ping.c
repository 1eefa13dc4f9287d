/* ring_ping.c: measures the time of a message around a ring of ranks.
 *
 *   tutti run -n 4 -- ring_ping [CHANNELS [BYTES ...]]
 *
 * Rank 0 sends a message on each of its channels to rank 1. Each rank forwards the messages to the next rank, until
 * they return to rank 0. Every rank increments a counter in the message, which rank 0 checks. The first round is not
 * measured, because it waits for ranks that started late. The result is the time of one hop: the time of a round
 * divided by the number of ranks. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/channel.h>

enum { CHANNELS_MAX = 30, ROUNDS = 2000, BYTES_MAX = 1 << 20 };

struct ring {
  uint32_t rank, ranks, count;
  tutti_channel *out[CHANNELS_MAX], *in[CHANNELS_MAX];
};

/* If `err` is an error, prints it and exits. The other ranks then fail, too. */
static void must(tutti_err err) {
  if (err == TUTTI_OK) return;
  fprintf(stderr, "ring_ping: %s\n", tutti_error_message(NULL));
  exit(1);
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Opens the channels to the next rank and from the previous rank. In a ring of two ranks, both are the same peer. So
 * the lower rank adds its senders first, and the higher rank adds its receivers first. */
static void build(tutti_comm *world, struct ring *r, size_t slot_bytes) {
  tutti_channel_builder *builder;
  tutti_channel *all[2 * CHANNELS_MAX];
  const tutti_channel_options options = {.slot_bytes = slot_bytes, .ending = TUTTI_CHANNEL_COUNTED};
  uint32_t next = (r->rank + 1) % r->ranks, before = (r->rank + r->ranks - 1) % r->ranks;
  must(tutti_channel_builder_create(world, &options, &builder));
  for (uint32_t i = 0; i < 2 * r->count; i++) {
    if ((i < r->count) == (r->rank < next)) must(tutti_channel_add_sender(builder, next, ROUNDS + 1, NULL));
    else must(tutti_channel_add_receiver(builder, before, ROUNDS + 1, NULL));
  }
  must(tutti_channel_build(builder, all));
  tutti_channel_builder_free(builder);
  for (uint32_t i = 0; i < r->count; i++) {
    r->out[i] = all[r->rank < next ? i : i + r->count];
    r->in[i] = all[r->rank < next ? i + r->count : i];
  }
}

static void inject(tutti_channel *out, size_t bytes) {
  void *slot;
  uint64_t hops = 1;
  must(tutti_channel_acquire(out, 0, &slot));
  memset(slot, 0, bytes);
  memcpy(slot, &hops, sizeof hops);
  must(tutti_channel_commit(out, bytes, false));
}

/* Receives a message and acknowledges it. Ranks other than 0 then forward it; rank 0 checks the counter in it. */
static void pass_on(const struct ring *r, uint32_t channel) {
  tutti_channel_message m;
  uint64_t hops;
  void *slot;
  must(tutti_channel_peek(r->in[channel], 0, 0, &m));
  must(tutti_channel_ack(r->in[channel]));
  memcpy(&hops, m.data, sizeof hops);
  if (r->rank > 0) {
    must(tutti_channel_acquire(r->out[channel], 0, &slot));
    memcpy(slot, m.data, m.bytes);
    hops++;
    memcpy(slot, &hops, sizeof hops);
    must(tutti_channel_commit(r->out[channel], m.bytes, false));
  } else if (hops != r->ranks) {
    fprintf(stderr, "ring_ping: a message came back after %llu of %u hops\n", (unsigned long long)hops, r->ranks);
    exit(1);
  }
  must(tutti_channel_release(r->in[channel]));
}

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void ping(tutti_comm *world, struct ring *r, size_t bytes) {
  static uint64_t times[ROUNDS + 1];
  build(world, r, bytes);
  for (uint32_t round = 0; round <= ROUNDS; round++) {
    uint64_t start = now_ns();
    for (uint32_t i = 0; i < r->count && r->rank == 0; i++) inject(r->out[i], bytes);
    for (uint32_t i = 0; i < r->count; i++) pass_on(r, i);
    times[round] = now_ns() - start;
  }
  for (uint32_t i = 0; i < r->count; i++) {
    must(tutti_channel_close(r->in[i], 0));
    must(tutti_channel_close(r->out[i], 0));
  }
  if (r->rank > 0) return;
  qsort(times + 1, ROUNDS, sizeof *times, compare);
  printf("%9zu %12.1f %12.1f\n", bytes, (double)times[1 + ROUNDS / 2] / r->ranks, (double)times[1] / r->ranks);
}

int main(int argc, char **argv) {
  static const size_t sizes[] = {16, 64, 256, 1024, 4096, 16384};
  tutti_comm *world;
  long channels = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
  if (channels < 1 || channels > CHANNELS_MAX) {
    fprintf(stderr, "ring_ping: expected 1 to %d channels, found '%s'\n", CHANNELS_MAX, argv[1]);
    return 2;
  }
  for (int i = 2; i < argc; i++)
    if (strtol(argv[i], NULL, 10) < 8 || strtol(argv[i], NULL, 10) > BYTES_MAX) {
      fprintf(stderr, "ring_ping: expected messages of 8 to %d bytes, found '%s'\n", BYTES_MAX, argv[i]);
      return 2;
    }
  must(tutti_init(NULL, &world));
  struct ring r = {.rank = tutti_rank(world), .ranks = tutti_ranks(world), .count = (uint32_t)channels};
  if (r.ranks < 2) {
    fprintf(stderr, "ring_ping: expected at least 2 ranks; start it with: tutti run -n N -- %s\n", argv[0]);
    must(tutti_comm_free(world));
    return 2;
  }
  if (r.rank == 0)
    printf("# %u ranks, %u channel%s, time of a hop\n#   bytes  median (ns)   least (ns)\n", r.ranks, r.count,
           r.count == 1 ? "" : "s");
  if (argc > 2)
    for (int i = 2; i < argc; i++) ping(world, &r, (size_t)strtol(argv[i], NULL, 10));
  else
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) ping(world, &r, sizes[i]);
  must(tutti_comm_free(world));
  return 0;
}
