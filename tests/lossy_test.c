/* test: slow timeout=120 */
/* lossy_test.c: the library over wires that lose, double, damage and disorder packets and are down for a while: every result is
 * that of the loop transport, bit for bit; a wire that stays down is an error in time; and transports that are reliable
 * have nothing of all this. */
#include "lossy.h"

#include <dirent.h>
#include <tutti/channel.h>
#include <tutti/window.h>

#include "algo/algo.h"
#include "conform.h"

static struct lossy_faults wires;

static void troupe_over_lossy(struct troupe *t) {
  struct tu_error error = {0};
  if (lossy_create(t->ranks, (size_t)1 << 30, wires, t->seed, t->endpoints, &error) != TUTTI_OK) {
    FAIL("lossy_create: %s", error.text);
    return;
  }
  troupe_over_endpoints(t);
  struct lossy_counts c = lossy_end();
  printf("  %u ranks: %llu packets, of which %llu lost, %llu doubled, %llu damaged, %llu late; %llu outages\n",
         t->ranks, (unsigned long long)c.sent, (unsigned long long)c.lost, (unsigned long long)c.doubled,
         (unsigned long long)c.damaged, (unsigned long long)c.late, (unsigned long long)c.outages);
}

/* ---- the same results ---- */

static uint64_t results[TROUPE_MAX]; /* of each rank: a hash of all that its calls gave */

static void keep(uint32_t rank, const void *bytes, size_t count) {
  results[rank] = tu_hash(bytes, count, results[rank]);
}

static void every_algorithm(struct player *p) {
  static const size_t counts[] = {1000, 5, 0, 20001, 1};
  uint64_t state = p->seed;
  for (size_t k = 0; k < tu_algorithm_count; k++) {
    const struct tu_algorithm *a = tu_algorithms[k];
    if (a->collective >= TUTTI_SEND || !tu_algorithm_fits(a, p->ranks)) continue;
    for (int i = 0; i < (test_long() ? 10 : 2) && p->stage->failures == 0; i++) {
      struct ref_case c = {
          .collective = a->collective, .algorithm = a->name, .ranks = p->ranks, .count = counts[((size_t)i + k) % 5]};
      c.place = (enum ref_place)(ranks_random(&state) % 2);
      c.type = i & 1 ? TUTTI_I32 : TUTTI_F32;
      c.root = (uint32_t)(ranks_random(&state) % p->ranks);
      c.op = TUTTI_SUM;
      c.lanes = (uint32_t)(ranks_random(&state) % (tu_build_lanes_max(a) + 1));
      c.seed = ranks_random(&state);
      conform(p, &c, &results[p->rank]);
    }
  }
}

static void random_calls(struct player *p) {
  uint64_t state = p->seed;
  int calls = test_long() ? 2000 : 150;
  for (int i = 0; i < calls && p->stage->failures == 0; i++) {
    struct ref_case c = {.collective = (tutti_collective)(ranks_random(&state) % TUTTI_SEND), .ranks = p->ranks};
    c.place = (enum ref_place)(ranks_random(&state) % 2);
    c.blocks = (enum ref_blocks)(ranks_random(&state) % REF_BLOCKS);
    c.type = (tutti_datatype)(ranks_random(&state) % REF_TYPES);
    c.op = (uint32_t)(ranks_random(&state) % REF_OPS);
    c.root = (uint32_t)(ranks_random(&state) % p->ranks);
    c.count = ranks_random(&state) % 5 ? ranks_random(&state) % 300 : ranks_random(&state) % 30000;
    c.seed = ranks_random(&state);
    if (ref_valid(&c)) conform(p, &c, &results[p->rank]);
  }
}

/* Sums that are rounded: another order, or a lost summand, shows. Long ones, in memory that all ranks could map. */
static void rounded_sums(struct player *p) {
  enum { COUNT = 150000 };
  float *in, *out;
  if (!good(p, tutti_alloc(p->comm, COUNT * sizeof *in, (void **)&in), "alloc") ||
      !good(p, tutti_alloc(p->comm, COUNT * sizeof *out, (void **)&out), "alloc"))
    return;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < COUNT; i++) in[i] = 1.0f / (float)(3 + i + (int)p->rank * 7 + round);
    if (!good(p, tutti_allreduce(p->comm, in, out, COUNT, TUTTI_F32, TUTTI_SUM), "allreduce")) return;
    keep(p->rank, out, COUNT * sizeof *out);
  }
  good(p, tutti_barrier(p->comm), "barrier");
  good(p, tutti_free(p->comm, in), "free");
  good(p, tutti_free(p->comm, out), "free");
}

/* Messages by tag, in both directions; longer than all that a channel holds. */
static void messages(struct player *p) {
  enum { LONG = 200000 };
  uint32_t to = (p->rank + 1) % p->ranks, from = (p->rank + p->ranks - 1) % p->ranks;
  int32_t *in = calloc(LONG, 4), *out = calloc(LONG, 4), small = -1, mine = (int32_t)p->rank;
  if (!in || !out) abort();
  for (int i = 0; i < LONG; i++) in[i] = (int32_t)p->rank + i;
  for (uint32_t round = 0; round < 3; round++) {
    tutti_call calls[] = {
        {.collective = TUTTI_SEND, .send = in, .count = LONG, .type = TUTTI_I32, .peer = to, .tag = 2},
        {.collective = TUTTI_SEND, .send = &mine, .count = 1, .type = TUTTI_I32, .peer = to, .tag = 1},
        {.collective = TUTTI_RECV, .recv = &small, .count = 1, .type = TUTTI_I32, .peer = from, .tag = 1},
        {.collective = TUTTI_RECV, .recv = out, .count = LONG, .type = TUTTI_I32, .peer = from, .tag = 2}};
    calls[0].lanes = calls[3].lanes = round;
    tutti_request *requests[4] = {NULL};
    if (!good(p, tutti_start_group(p->comm, calls, 4, &requests[0]), "group")) break;
    if (!good(p, tutti_wait(&requests[0]), "wait")) break;
    keep(p->rank, out, LONG * 4);
    keep(p->rank, &small, sizeof small);
  }
  if (small != (int32_t)from || out[LONG - 1] != (int32_t)from + LONG - 1) wrong(p, "rank %u: wrong messages", p->rank);
  free(in);
  free(out);
}

/* Communicators that come and go, at the places of others: what is left of the old ones on the wire reaches no new one. */
static void parts(struct player *p) {
  for (int round = 0; round < (test_long() ? 50 : 8); round++) {
    tutti_comm *dup, *part;
    if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
    if (!good(p, tutti_comm_split(dup, (int)p->rank % 2, -(int)p->rank, &part), "split")) return;
    int32_t one = 1, sums[2] = {0, 0};
    if (!good(p, tutti_allreduce(part, &one, &sums[0], 1, TUTTI_I32, TUTTI_SUM), "allreduce of a part")) return;
    if (!good(p, tutti_allreduce(dup, &one, &sums[1], 1, TUTTI_I32, TUTTI_SUM), "allreduce of a dup")) return;
    if (sums[0] != (int32_t)(p->ranks + 1 - p->rank % 2) / 2 || sums[1] != (int32_t)p->ranks)
      wrong(p, "rank %u: sums %d and %d", p->rank, sums[0], sums[1]);
    keep(p->rank, sums, sizeof sums);
    if (!good(p, tutti_comm_free(part), "free of a part") || !good(p, tutti_comm_free(dup), "free of a dup")) return;
  }
}

/* Over the loop, then over bad wires. */
static void same_results(void (*run)(struct player *p)) {
  static const uint32_t rank_counts[] = {2, 3, 4};
  uint64_t seed = test_seed(), wanted[TROUPE_MAX];
  wires = lossy_usual;
  for (size_t k = 0; k < sizeof rank_counts / sizeof rank_counts[0] && test_failures == 0; k++) {
    const struct troupe t = {.run = run, .ranks = rank_counts[k], .seed = seed};
    memset(results, 0, sizeof results);
    troupe_perform(t, troupe_over_loop);
    memcpy(wanted, results, sizeof results);
    memset(results, 0, sizeof results);
    troupe_perform(t, troupe_over_lossy);
    CHECK(memcmp(wanted, results, sizeof results) == 0, "%u ranks: the results are others than over the loop", t.ranks);
  }
}

static void every_algorithm_is_the_same(void) { same_results(every_algorithm); }
static void random_calls_are_the_same(void) { same_results(random_calls); }
static void rounded_sums_are_the_same(void) { same_results(rounded_sums); }
static void messages_are_the_same(void) { same_results(messages); }
static void parts_are_the_same(void) { same_results(parts); }

/* ---- channels alone ---- */

/* Slices of a channel by number, of 8 bytes to a slot, one after the other. */
static uint64_t slice_count(void) { return test_long() ? 1000000 : 10000; }

static size_t slice_bytes(uint64_t n) { return n % 97 == 0 ? 5000 : 8 + n % 90; }

static void send_slices(struct player *p, struct tu_sender *s) {
  for (uint64_t n = 0; n < slice_count(); n++) {
    size_t bytes = slice_bytes(n);
    uint64_t place = 0;
    while (!tu_sender_ready(s) || (bytes > TU_INLINE_BYTES && !(place = tu_sender_room(s, bytes)))) {
      if (tu_comm_failed(p->comm)) {
        wrong(p, "the sender: %s", tutti_error_message(p->comm));
        return;
      }
      sched_yield();
    }
    unsigned char *to = bytes > TU_INLINE_BYTES ? s->base + place : tu_sender_line(s)->at.payload;
    memset(to, (int)(n % 251), bytes);
    memcpy(to, &n, sizeof n);
    if (bytes > TU_INLINE_BYTES) {
      tu_staging_fill(&s->staging, place, bytes);
      tu_sender_line(s)->at.place = place;
    }
    tu_sender_commit(s, bytes, n, bytes, false);
  }
}

static void receive_slices(struct player *p, struct tu_receiver *r) {
  const struct tu_line *line;
  for (uint64_t n = 0; n < slice_count() && p->stage->failures == 0; n++) {
    while ((!r->lines && !tu_mover_attach(p->comm->mover, r)) || !(line = tu_receiver_line(r))) {
      if (tu_comm_failed(p->comm)) {
        wrong(p, "the receiver: %s", tutti_error_message(p->comm));
        return;
      }
      sched_yield();
    }
    const unsigned char *payload = tu_receiver_payload(r, line);
    bool right = line->bytes == slice_bytes(n) && line->tag == n && memcmp(payload, &n, sizeof n) == 0;
    for (size_t i = sizeof n; right && i < line->bytes; i++) right = payload[i] == n % 251;
    if (!right)
      wrong(p, "slice %llu came as %llu, of %u bytes", (unsigned long long)n, (unsigned long long)line->tag,
            line->bytes);
    tu_receiver_release(r);
  }
}

static void a_stream(struct player *p) {
  struct tu_error error;
  if (p->rank == 0) send_slices(p, tu_mover_sender(p->comm->mover, 1, 3, &error));
  else receive_slices(p, tu_mover_receiver(p->comm->mover, 0, 3));
}

static void a_long_stream(void) {
  wires = lossy_usual;
  troupe_perform((struct troupe){.run = a_stream, .ranks = 2, .seed = test_seed()}, troupe_over_lossy);
  printf("  %llu slices\n", (unsigned long long)slice_count());
}

/* ---- wires that are down ---- */

enum { DOWN_MS = 600 };

/* Meets outside the library. */
static void meet(struct player *p, uint32_t time) {
  p->stage->here++;
  while (p->stage->here < p->ranks * time) ranks_sleep_us(100);
}

static void a_call_that_fails(struct player *p, tutti_comm *comm, tutti_err expected, const char *word) {
  uint64_t before = ranks_now_ms();
  tutti_err err = TUTTI_OK;
  for (int i = 0; i < 1000 && err == TUTTI_OK; i++) err = tutti_barrier(comm);
  uint64_t took = ranks_now_ms() - before;
  if (err != expected || !strstr(tutti_error_message(comm), word))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(comm));
  if (took > DOWN_MS + 5000) wrong(p, "rank %u: it took %llu ms", p->rank, (unsigned long long)took);
}

/* It breaks in the middle: the ranks know which link it is, before the deadline of their calls. */
static void break_in_the_middle(struct player *p) {
  good(p, tutti_barrier(p->comm), "barrier");
  tutti_comm_set_timeout(p->comm, DOWN_MS);
  meet(p, 1);
  lossy_cut(1, true);
  a_call_that_fails(p, p->comm, TUTTI_ERR_PEER, " is down: ");
}

/* Nothing ever came over it. */
static void never_there(struct player *p) {
  for (uint32_t rank = 0; rank < p->ranks; rank++) lossy_cut(rank, true);
  tutti_comm_set_timeout(p->comm, DOWN_MS);
  meet(p, 1);
  a_call_that_fails(p, p->comm, TUTTI_ERR_PEER, " is down: ");
}

/* Somebody only sends, and goes to the end: there he learns it. */
static void break_before_the_end(struct player *p) {
  int32_t x = 7, y = 0;
  tutti_comm *dup;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  tutti_comm_set_timeout(dup, DOWN_MS);
  meet(p, 1);
  if (p->rank == 0) lossy_cut(1, true);
  meet(p, 2);
  if (p->rank == 0) good(p, tutti_send(dup, &x, 1, TUTTI_I32, 1, 5), "send");
  tutti_err err = p->rank == 1 ? tutti_recv(dup, &y, 1, TUTTI_I32, 0, 5) : TUTTI_OK;
  if (p->rank == 1 && err == TUTTI_OK) wrong(p, "it came");
  err = tutti_comm_free(dup);
  if (p->rank < 2 ? err != TUTTI_ERR_PEER && err != TUTTI_ERR_TIMEOUT : err != TUTTI_OK && err != TUTTI_ERR_PEER)
    wrong(p, "rank %u: free: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(NULL));
  meet(p, 3);
  if (p->rank == 0) lossy_cut(1, false);
  good(p, tutti_barrier(p->comm), "the other communicator, when the wire is up again");
}

/* Shorter than the patience: nobody notices. */
static void a_pause(struct player *p) {
  tutti_comm_set_timeout(p->comm, 20000);
  for (uint32_t i = 1; i < 6; i++) {
    int32_t one = 1, sum = 0;
    good(p, tutti_allreduce(p->comm, &one, &sum, 1, TUTTI_I32, TUTTI_SUM), "allreduce");
    if (sum != (int32_t)p->ranks) wrong(p, "rank %u: %d", p->rank, sum);
    meet(p, i);
    if (p->rank == 0) lossy_cut(i % p->ranks, true);
    if (p->rank == p->ranks - 1) ranks_sleep_us(30000), lossy_cut(i % p->ranks, false);
  }
}

static void over_wires(void (*run)(struct player *p), bool fails) {
  wires = (struct lossy_faults){.lost = 100};
  for (uint32_t ranks = 2; ranks <= 3; ranks++)
    troupe_perform((struct troupe){.run = run, .ranks = ranks, .seed = 1, .rank_1_dies = fails}, troupe_over_lossy);
}

static void a_broken_link_is_named(void) { over_wires(break_in_the_middle, true); }
static void a_link_that_never_was_is_named(void) { over_wires(never_there, true); }
static void a_broken_link_is_found_at_the_end(void) { over_wires(break_before_the_end, false); }
static void a_pause_is_nothing(void) { over_wires(a_pause, false); }

/* What one rank stores into another's memory does not go through channels: that is said. */
static void look_for_windows(struct player *p) {
  tutti_window *window = NULL;
  char memory[64];
  tutti_err err = tutti_window_create(p->comm, memory, sizeof memory, &window);
  if (err != TUTTI_ERR_UNSUPPORTED || !strstr(tutti_error_message(NULL), "lossy transport is unreliable"))
    wrong(p, "window: %s: %s", tutti_err_name(err), tutti_error_message(NULL));
  good(p, tutti_barrier(p->comm), "barrier");
}

static void windows_are_refused(void) {
  wires = lossy_usual;
  troupe_perform((struct troupe){.run = look_for_windows, .ranks = 2, .seed = test_seed()}, troupe_over_lossy);
}

/* ---- the channels of programs ---- */

enum { STREAMS = 3, STREAM_SLOT_BYTES = 3000 };

struct stream {
  tutti_channel *channel; /* NULL: closed */
  bool sends;
  uint64_t key, messages, at;
};

static size_t message_bytes(uint64_t n) { return n % 7 == 0 ? STREAM_SLOT_BYTES - n % 97 : 8 + n % 60; }

static bool send_message(const struct stream *s, bool marked) {
  unsigned char *slot = NULL;
  if (tutti_channel_try_acquire(s->channel, (void **)&slot) != TUTTI_OK || !slot) return false;
  uint64_t id = s->key + s->at;
  memset(slot, (int)(id % 251), message_bytes(s->at));
  memcpy(slot, &id, sizeof id);
  return tutti_channel_commit(s->channel, message_bytes(s->at), marked && s->at + 1 == s->messages) == TUTTI_OK;
}

static bool receive_message(struct player *p, const struct stream *s) {
  tutti_channel_message m = {0};
  if (tutti_channel_try_peek(s->channel, 0, &m) != TUTTI_OK || !m.data) return false;
  const unsigned char *data = m.data;
  uint64_t id = s->key + s->at;
  bool right = m.number == s->at && m.bytes == message_bytes(s->at) && memcmp(data, &id, sizeof id) == 0;
  for (size_t i = sizeof id; right && i < m.bytes; i++) right = data[i] == id % 251;
  if (!right)
    wrong(p, "rank %u: message %llu of stream %llu", p->rank, (unsigned long long)s->at, (unsigned long long)s->key);
  if (s->at % 3 == 0) good(p, tutti_channel_ack(s->channel), "ack");
  return good(p, tutti_channel_release(s->channel), "release");
}

/* Until all are closed; whatever can move does. */
static void run_streams(struct player *p, struct stream *streams, uint32_t count, bool marked) {
  for (uint32_t open = count; open > 0 && p->stage->failures == 0;) {
    bool moved = false;
    for (uint32_t i = 0; i < count; i++) {
      struct stream *s = &streams[i];
      bool closed = false;
      if (!s->channel) continue;
      if (s->at < s->messages) {
        bool one = s->sends ? send_message(s, marked) : receive_message(p, s);
        s->at += one;
        moved |= one;
      } else if (good(p, tutti_channel_try_close(s->channel, &closed), "close") && closed) {
        s->channel = NULL;
        open--;
      }
    }
    if (tu_comm_failed(p->comm)) wrong(p, "rank %u: %s", p->rank, tutti_error_message(p->comm));
    if (!moved) ranks_sleep_us(50);
  }
}

/* One after the other on the same memory, which serves something else in between: nothing is written there then. */
static void some_streams(struct player *p) {
  enum { BYTES = 1 << 16 };
  unsigned char *memory;
  uint32_t operations = test_long() ? 100 : 6;
  if (!good(p, tutti_alloc(p->comm, BYTES, (void **)&memory), "alloc")) return;
  for (uint32_t n = 0; n < operations && p->stage->failures == 0; n++) {
    const tutti_channel_options o = {.slots = 1 + n % 4,
                                     .slot_bytes = STREAM_SLOT_BYTES,
                                     .ending = n % 2 ? TUTTI_CHANNEL_COUNTED : TUTTI_CHANNEL_MARKED,
                                     .shared = n % 3 == 2,
                                     .separate_flag = n % 5 == 1,
                                     .memory = memory,
                                     .memory_bytes = BYTES};
    struct stream streams[STREAMS] = {{0}};
    tutti_channel *channels[STREAMS];
    tutti_channel_builder *b = NULL;
    if (!good(p, tutti_channel_builder_create(p->comm, &o, &b), "builder")) break;
    for (uint32_t c = 0; c < STREAMS; c++) {
      streams[c] =
          (struct stream){.sends = c % 2 == p->rank, .key = (n * STREAMS + c) * 1000u, .messages = 20 + 30 * c};
      uint64_t stated = o.ending == TUTTI_CHANNEL_COUNTED ? streams[c].messages : 0;
      good(p, (streams[c].sends ? tutti_channel_add_sender : tutti_channel_add_receiver)(b, 1 - p->rank, stated, NULL),
           "add");
    }
    bool built = good(p, tutti_channel_build(b, channels), "build");
    tutti_channel_builder_free(b);
    if (!built) break;
    for (uint32_t c = 0; c < STREAMS; c++) streams[c].channel = channels[c];
    run_streams(p, streams, STREAMS, o.ending == TUTTI_CHANNEL_MARKED);
    memset(memory, 0xa7, BYTES);
    if (n % 2) ranks_sleep_us(2000);
    for (size_t i = 0; i < BYTES; i++)
      if (memory[i] != 0xa7) wrong(p, "rank %u: operation %u: byte %zu was written after close", p->rank, n, i);
  }
  good(p, tutti_barrier(p->comm), "barrier");
  good(p, tutti_free(p->comm, memory), "free");
}

static void one_long_stream(struct player *p) {
  uint64_t messages = slice_count();
  const tutti_channel_options o = {
      .slots = 64, .slot_bytes = STREAM_SLOT_BYTES, .ending = TUTTI_CHANNEL_COUNTED, .messages = messages};
  struct stream s = {.sends = p->rank == 0, .messages = messages};
  tutti_channel_direction direction = s.sends ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  if (good(p, tutti_channel_open(p->comm, 1 - p->rank, direction, &o, &s.channel), "open"))
    run_streams(p, &s, 1, false);
}

static void channels_of_programs(void) {
  wires = lossy_usual;
  uint64_t seed = test_seed();
  troupe_perform((struct troupe){.run = some_streams, .ranks = 2, .seed = seed}, troupe_over_lossy);
  troupe_perform((struct troupe){.run = one_long_stream, .ranks = 2, .seed = seed}, troupe_over_lossy);
}

/* A stream over a link that breaks: both ends learn it, and a rank that waits with a time-out of its own. */
static void break_a_stream(struct player *p) {
  tutti_channel *channel = NULL;
  tutti_channel_message m;
  void *slot;
  tutti_comm_set_timeout(p->comm, DOWN_MS);
  tutti_channel_direction direction = p->rank == 0 ? TUTTI_CHANNEL_SENDS : TUTTI_CHANNEL_RECEIVES;
  if (!good(p, tutti_channel_open(p->comm, 1 - p->rank, direction, NULL, &channel), "open")) return;
  meet(p, 1);
  lossy_cut(1, true);
  tutti_err err = TUTTI_OK;
  for (int i = 0; i < 1000 && err == TUTTI_OK; i++) {
    if (p->rank == 0) err = tutti_channel_acquire(channel, 0, &slot);
    if (p->rank == 0 && err == TUTTI_OK) err = tutti_channel_commit(channel, 100, false);
    if (p->rank == 1) err = tutti_channel_peek(channel, 0, 0, &m);
    if (p->rank == 1 && err == TUTTI_OK) err = tutti_channel_release(channel);
  }
  if (err != TUTTI_ERR_PEER || !strstr(tutti_error_message(NULL), " is down: "))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(NULL));
}

static void a_broken_stream_is_named(void) {
  wires = (struct lossy_faults){.lost = 100};
  troupe_perform((struct troupe){.run = break_a_stream, .ranks = 2, .seed = 1, .rank_1_dies = true}, troupe_over_lossy);
}

/* ---- transports that are reliable ---- */

static uint32_t count_threads(void) {
  uint32_t threads = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (const struct dirent *d; tasks && (d = readdir(tasks)) != NULL;) threads += d->d_name[0] != '.';
  if (tasks) closedir(tasks);
  return threads;
}

static uint32_t threads_before;

/* No thread, no copy, no packet: a receiver reads the very line that its sender writes. */
static void look_at_the_channels(struct player *p) {
  const struct tu_mover *m = p->comm->mover;
  static struct tu_line *lines[2];
  int32_t one = 1, sum = 0;
  meet(p, 1);
  good(p, tutti_allreduce(p->comm, &one, &sum, 1, TUTTI_I32, TUTTI_SUM), "allreduce");
  bool bad = p->transport->ops->unreliable;
  uint32_t threads = count_threads(), relays = bad ? p->ranks : 0;
  meet(p, 2);
  if (threads != threads_before + p->ranks + relays) wrong(p, "%u threads, %u before", threads, threads_before);
  if ((m->relay != NULL) != bad) wrong(p, "a relay: %d", m->relay != NULL);
  for (uint32_t lane = 0; lane < TU_MOVER_LANES; lane++) {
    if (m->senders[(1 - p->rank) * TU_MOVER_LANES + lane] && p->rank == 0)
      lines[0] = m->senders[TU_MOVER_LANES + lane]->lines;
    if (m->receivers[(1 - p->rank) * TU_MOVER_LANES + lane] && p->rank == 1) lines[1] = m->receivers[lane]->lines;
  }
  meet(p, 3);
  if (!lines[0] || !lines[1] || (lines[0] == lines[1]) == bad)
    wrong(p, "lines at %p and %p", (void *)lines[0], (void *)lines[1]);
  meet(p, 4);
}

static void reliable_ones_pay_nothing(void) {
  wires = (struct lossy_faults){0};
  threads_before = count_threads();
  const struct troupe t = {.run = look_at_the_channels, .ranks = 2, .seed = 1};
  troupe_perform(t, troupe_over_loop);
  troupe_perform(t, troupe_over_lossy);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"every_algorithm_is_the_same", every_algorithm_is_the_same},
                                      {"random_calls_are_the_same", random_calls_are_the_same},
                                      {"rounded_sums_are_the_same", rounded_sums_are_the_same},
                                      {"messages_are_the_same", messages_are_the_same},
                                      {"parts_are_the_same", parts_are_the_same},
                                      {"a_long_stream", a_long_stream},
                                      {"a_broken_link_is_named", a_broken_link_is_named},
                                      {"a_link_that_never_was_is_named", a_link_that_never_was_is_named},
                                      {"a_broken_link_is_found_at_the_end", a_broken_link_is_found_at_the_end},
                                      {"a_pause_is_nothing", a_pause_is_nothing},
                                      {"windows_are_refused", windows_are_refused},
                                      {"channels_of_programs", channels_of_programs},
                                      {"a_broken_stream_is_named", a_broken_stream_is_named},
                                      {"reliable_ones_pay_nothing", reliable_ones_pay_nothing}};
  ranks_clear_environment();
  if (ref_register() != TUTTI_OK) abort();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
