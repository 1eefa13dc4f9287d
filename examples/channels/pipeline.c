/* pipeline.c: streams data through three stages, each in its own process.
 *
 *   tutti run -n 3 -- pipeline [FILE]
 *
 * Rank 0 reads the file into slots; without a file, it generates 64 MiB of numbers. Rank 1 rotates letters by 13
 * (ROT13), from the slot it received to the slot it sends. Rank 2 computes a checksum of the data in the slot, without
 * a copy, and sends the checksum to rank 0, which compares it with its own. No stage knows the length of the stream in
 * advance: the last message is marked. All stages work at the same time, on successive parts of the stream. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/channel.h>

enum { SLOT_BYTES = 16 << 10, SLOTS = 4, MADE_UP_BYTES = 64 << 20 };

static const tutti_channel_options options = {.slots = SLOTS, .slot_bytes = SLOT_BYTES};

static void must(tutti_err err) {
  if (err == TUTTI_OK) return;
  fprintf(stderr, "pipeline: %s\n", tutti_error_message(NULL));
  exit(1);
}

struct result {
  uint64_t bytes, checksum;
};

/* Adds data to the checksum: FNV-1a, eight bytes at a time; the remaining bytes one by one. */
static void add_to(struct result *r, const unsigned char *data, size_t bytes) {
  size_t i = 0;
  for (uint64_t word; i + sizeof word <= bytes; i += sizeof word) {
    memcpy(&word, data + i, sizeof word);
    r->checksum = (r->checksum ^ word) * UINT64_C(0x100000001b3);
  }
  for (; i < bytes; i++) r->checksum = (r->checksum ^ data[i]) * UINT64_C(0x100000001b3);
  r->bytes += bytes;
}

static unsigned char turn(unsigned char c) {
  if (c >= 'a' && c <= 'z') return (unsigned char)('a' + (c - 'a' + 13) % 26);
  if (c >= 'A' && c <= 'Z') return (unsigned char)('A' + (c - 'A' + 13) % 26);
  return c;
}

static void transform(unsigned char *to, const unsigned char *from, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) to[i] = turn(from[i]);
}

/* ---- the stages ---- */

struct source {
  FILE *file; /* NULL: generate numbers */
  uint64_t left, state;
};

static size_t read_part(struct source *s, unsigned char *to, size_t bytes) {
  if (s->file) return fread(to, 1, bytes, s->file);
  if (bytes > s->left) bytes = (size_t)s->left;
  for (size_t i = 0; i < bytes; i++) {
    s->state = s->state * UINT64_C(6364136223846793005) + 1;
    to[i] = (unsigned char)(s->state >> 56);
  }
  s->left -= bytes;
  return bytes;
}

/* Reads one part ahead, because the last part must be marked when it is sent. An empty file is one empty part. */
static void first_stage(tutti_comm *world, struct source *s, struct result *expected) {
  static unsigned char turned[SLOT_BYTES], ahead[SLOT_BYTES];
  tutti_channel *out;
  void *slot;
  must(tutti_channel_open(world, 1, TUTTI_CHANNEL_SENDS, &options, &out));
  size_t bytes = read_part(s, ahead, SLOT_BYTES);
  for (bool last = false; !last;) {
    must(tutti_channel_acquire(out, 0, &slot));
    memcpy(slot, ahead, bytes);
    size_t next = bytes < SLOT_BYTES ? 0 : read_part(s, ahead, SLOT_BYTES);
    last = next == 0;
    transform(turned, slot, bytes);
    add_to(expected, turned, bytes);
    must(tutti_channel_commit(out, bytes, last));
    bytes = next;
  }
  must(tutti_channel_close(out, 0));
}

static void second_stage(tutti_comm *world) {
  tutti_channel *in, *out;
  tutti_channel_message m;
  void *slot;
  must(tutti_channel_open(world, 0, TUTTI_CHANNEL_RECEIVES, &options, &in));
  must(tutti_channel_open(world, 2, TUTTI_CHANNEL_SENDS, &options, &out));
  while (!tutti_channel_ended(in)) {
    must(tutti_channel_peek(in, 0, 0, &m));
    must(tutti_channel_acquire(out, 0, &slot));
    transform(slot, m.data, m.bytes);
    must(tutti_channel_commit(out, m.bytes, m.last));
    must(tutti_channel_release(in));
  }
  must(tutti_channel_close(in, 0));
  must(tutti_channel_close(out, 0));
}

static void third_stage(tutti_comm *world) {
  tutti_channel *in, *back;
  tutti_channel_message m;
  void *slot;
  struct result found = {0};
  must(tutti_channel_open(world, 1, TUTTI_CHANNEL_RECEIVES, &options, &in));
  while (!tutti_channel_ended(in)) {
    must(tutti_channel_peek(in, 0, 0, &m));
    add_to(&found, m.data, m.bytes);
    must(tutti_channel_release(in));
  }
  must(tutti_channel_close(in, 0));
  must(tutti_channel_open(world, 0, TUTTI_CHANNEL_SENDS, NULL, &back));
  must(tutti_channel_acquire(back, 0, &slot));
  memcpy(slot, &found, sizeof found);
  must(tutti_channel_commit(back, sizeof found, true));
  must(tutti_channel_close(back, 0));
}

static struct result hear_back(tutti_comm *world) {
  tutti_channel *in;
  tutti_channel_message m;
  struct result found;
  must(tutti_channel_open(world, 2, TUTTI_CHANNEL_RECEIVES, NULL, &in));
  must(tutti_channel_peek(in, 0, 0, &m));
  memcpy(&found, m.data, sizeof found);
  must(tutti_channel_release(in));
  must(tutti_channel_close(in, 0));
  return found;
}

static int lead(tutti_comm *world, struct source *s) {
  struct timespec start, end;
  struct result expected = {0};
  clock_gettime(CLOCK_MONOTONIC, &start);
  first_stage(world, s, &expected);
  struct result found = hear_back(world);
  clock_gettime(CLOCK_MONOTONIC, &end);
  double seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
  bool right = found.bytes == expected.bytes && found.checksum == expected.checksum;
  printf("%llu bytes, checksum %016llx, %s, %.1f MB/s\n", (unsigned long long)found.bytes,
         (unsigned long long)found.checksum, right ? "as expected" : "WRONG", (double)found.bytes / seconds / 1e6);
  return right ? 0 : 1;
}

int main(int argc, char **argv) {
  tutti_comm *world;
  int code = 0;
  must(tutti_init(NULL, &world));
  uint32_t rank = tutti_rank(world);
  if (tutti_ranks(world) != 3) {
    if (rank == 0)
      fprintf(stderr, "pipeline: expected 3 ranks, one per stage; start it with: tutti run -n 3 -- %s [FILE]\n",
              argv[0]);
    must(tutti_comm_free(world));
    return 2;
  }
  struct source s = {.file = argc > 1 && rank == 0 ? fopen(argv[1], "rb") : NULL, .left = MADE_UP_BYTES};
  if (argc > 1 && rank == 0 && !s.file) {
    perror(argv[1]);
    tutti_abort(world, "cannot read the file");
    code = 1;
  } else if (rank == 0) {
    code = lead(world, &s);
  } else if (rank == 1) {
    second_stage(world);
  } else {
    third_stage(world);
  }
  if (s.file) fclose(s.file);
  tutti_err err = tutti_comm_free(world);
  return err == TUTTI_OK ? code : 1;
}
