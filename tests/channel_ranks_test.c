/* channel_ranks_test.c: channels between threads and between real processes, with calls that wait: links to several
 * ranks, memory that is used again, split communicators, and ranks that die, leave or abort. */
#include <sched.h>
#include <signal.h>

#include "channels.h"
#include "comm/failure.h"

/* ---- ranks that run at the same time, and wait ---- */

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

/* Opens WAYS channels in each direction between neighbours in a ring, with a thread for each end. Two ranks are
 * neighbours on both sides. */
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
    /* Even ranks add the channels with the next rank first, odd ranks those with the rank before. So two neighbours add
     * them in the same order. */
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

/* ---- ranks that wait for something else ---- */

/* Rank 1 builds its end before rank 0 does, and then waits in a collective, in a tutti_recv, or for its own message to
 * rank 2, while rank 0 needs rank 1's answer to the handshake before it can send. In the last turn, rank 1 waits on the
 * channel while rank 0 needs it in an allreduce that rank 1 has started. */
static void play_busy(struct player *p) {
  enum { TURNS = 4, WAIT_MS = 10000, COUNT = 400000 };
  static int32_t items[TROUPE_MAX][COUNT], sums[TROUPE_MAX][COUNT];
  for (uint32_t way = 0; way < TURNS && p->stage->failures == 0; way++) {
    tutti_channel *in = NULL, *out = NULL, *built[2];
    tutti_channel_builder *builder = NULL;
    tutti_channel_message message;
    void *slot;
    int32_t item = 0;
    if (p->rank != 1) troupe_meet(p);
    tutti_err err = tutti_channel_builder_create(p->comm, &(tutti_channel_options){.slots = 1, .link = way}, &builder);
    if (err == TUTTI_OK) err = tutti_channel_add_sender(builder, (p->rank + 1) % p->ranks, 0, NULL);
    if (err == TUTTI_OK) err = tutti_channel_add_receiver(builder, (p->rank + p->ranks - 1) % p->ranks, 0, NULL);
    if (err == TUTTI_OK) err = tutti_channel_build(builder, built);
    if (!good(p, err, "build")) return;
    tutti_channel_builder_free(builder);
    out = built[0], in = built[1];
    if (p->rank == 1) troupe_meet(p);
    tutti_request *request = NULL;
    const tutti_call sum = {.collective = TUTTI_ALLREDUCE,
                            .send = items[p->rank],
                            .recv = sums[p->rank],
                            .count = COUNT,
                            .type = TUTTI_I32,
                            .op = TUTTI_SUM};
    if (way == 3) good(p, tutti_start(p->comm, &sum, &request), "start");
    if (way == 3 && p->rank == 0) good(p, tutti_wait(&request), "wait");
    if (way < 2 && p->rank == 1) {
      err = way == 0 ? tutti_barrier(p->comm) : tutti_recv(p->comm, &item, 1, TUTTI_I32, 0, 0);
      good(p, err, "the other wait");
    }
    good(p, tutti_channel_acquire(out, WAIT_MS, &slot), "acquire");
    if (p->stage->failures == 0) good(p, tutti_channel_commit(out, 0, true), "commit");
    if (way == 0 && p->rank != 1) good(p, tutti_barrier(p->comm), "barrier");
    if (way == 1 && p->rank == 0) good(p, tutti_send(p->comm, &item, 1, TUTTI_I32, 1, 0), "send");
    if (p->stage->failures == 0) good(p, tutti_channel_peek(in, 0, WAIT_MS, &message), "peek");
    if (p->stage->failures == 0) good(p, tutti_channel_release(in), "release");
    if (request) good(p, tutti_wait(&request), "wait");
    good(p, tutti_channel_close(in, WAIT_MS), "close");
    good(p, tutti_channel_close(out, WAIT_MS), "close");
  }
}

static void test_busy(void) { over_both((struct troupe){.run = play_busy, .ranks = 3}); }

/* ---- memory that is used again ---- */

enum { OPERATIONS = 100 };

/* Rank 0's memory serves links to rank 1 and rank 2 in turn. */
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
    /* No rank uses the memory until the next link opens, which must not depend on its content. */
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

/* ---- links to several ranks, and several links to one rank ---- */

/* Rank 0 has the channels in the order of ranks 1, 2, 3, 1, 2, 3. */
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

/* Rank 0 sends to each other rank on two links, with two channels each. All channels of a link are in one piece of
 * memory, whose length the builder has computed. */
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
  /* Rank 0 serves one channel after the other; 200 messages are more than there are slots. */
  for (uint32_t link = 0; link < 2; link++) stream_all(p, channels[link], count, 333);
  for (uint32_t link = 0; link < 2 && p->rank == 0; link++) {
    for (int i = 0; i < 4096; i++)
      if (((char *)memory[link])[bytes[link] + (size_t)i] != 0x55) wrong(p, "byte %d beyond the memory was written", i);
    good(p, tutti_free(p->comm, memory[link]), "free");
  }
}

/* Three links of 24 MiB do not fit into 64 MiB. The failed build must undo the first two, so that a link of 40 MiB
 * fits. */
static void play_undone(struct player *p) {
  const tutti_channel_options much = {.slots = 24, .slot_bytes = 1 << 20}, more = {.slots = 40, .slot_bytes = 1 << 20};
  tutti_channel *channels[3], *one = NULL;
  for (int i = 0; i < 5 && p->rank == 0; i++) {
    tutti_channel_builder *b = NULL;
    if (!good(p, tutti_channel_builder_create(p->comm, &much, &b), "builder")) return;
    for (uint32_t r = 1; r < 4; r++) good(p, tutti_channel_add_sender(b, r, 0, NULL), "add");
    tutti_err err = tutti_channel_build(b, channels);
    if (err != TUTTI_ERR_MEMORY) wrong(p, "72 MiB in a slice of 64 MiB: %s", tutti_err_name(err));
    tutti_channel_builder_free(b);
  }
  if (p->rank > 1) return;
  tutti_channel_direction direction = p->rank == 0 ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  if (!good(p, tutti_channel_open(p->comm, 1 - p->rank, direction, &more, &one), "40 MiB in a slice of 64 MiB")) return;
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

/* Ranks are those of the child communicator. Equal link numbers on two communicators are different links. */
static void play_split(struct player *p) {
  tutti_comm *child = NULL;
  tutti_channel *held = NULL;
  if (!good(p, tutti_comm_split(p->comm, 0, (int)(p->ranks - p->rank), &child), "split")) return;
  uint32_t there = tutti_rank(child); /* ranks 0, 1, 2 of the parent are 2, 1, 0 of the child */
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

/* ---- ranks that die, leave or abort ---- */

static void expect_end(struct player *p, tutti_err err, tutti_err wanted, const char *word) {
  if (err != wanted || !test_contains(tutti_error_message(NULL), word))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(NULL));
}

/* Rank 1 dies with a message of rank 0 not yet released. Rank 2 waits for rank 0, which never comes. */
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
    while (!tu_comm_failed(p->comm)) sched_yield(); /* a dead rank does not free its communicator */
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
  /* The death is the communicator's verdict now. An end that was not closed can be closed. */
  if (p->seed == 1) expect_end(p, tutti_channel_try_ready(channel, &closed), TUTTI_ERR_PEER, "died");
  if (p->seed == 1) expect_end(p, tutti_channel_try_close(channel, &closed), TUTTI_ERR_PEER, "died");
  if (p->seed == 1 && !closed) wrong(p, "rank 0 cannot close the channel");
  expect_end(p, tutti_channel_open(p->comm, 2, TUTTI_CHANNEL_SENDS, &o, &channel), TUTTI_ERR_PEER, "died");
  expect_end(p, tutti_barrier(p->comm), TUTTI_ERR_PEER, "died");
}

static void test_death(void) {
  for (uint64_t kind = 0; kind < 3; kind++)
    over_both((struct troupe){.run = play_death, .ranks = 3, .rank_1_dies = true, .seed = kind});
}

/* Rank 1 frees the communicator while rank 0 waits for a channel to it. */
static void play_leave(struct player *p) {
  tutti_channel *channel = NULL;
  if (p->rank == 1) return;
  tutti_err err = tutti_channel_open(p->comm, 1, TUTTI_CHANNEL_SENDS, NULL, &channel);
  expect_end(p, err, TUTTI_ERR_PEER, "rank 1|freed|rank 0");
}

/* Rank 0 aborts while rank 1 waits for a message. */
static void play_abort(struct player *p) {
  tutti_channel *channel = NULL;
  tutti_channel_message m;
  tutti_channel_direction direction = p->rank == 0 ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  tutti_err err = tutti_channel_open(p->comm, 1 - p->rank, direction, NULL, &channel);
  if (p->rank == 1 &&
      err == TUTTI_ERR_ABORTED) { /* rank 0 completed the handshake first, and aborted before this rank did */
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

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"ring", test_ring},   {"busy", test_busy},   {"reuse", test_reuse},         {"links", test_links},
      {"split", test_split}, {"death", test_death}, {"giving_up", test_giving_up},
  };
  if (placement_count() > 0) setenv("TUTTI_SHM_BYTES", "64M", 1); /* as on one host; the test `links` fills it */
  return test_main(tests, sizeof tests / sizeof *tests, argc, argv);
}
