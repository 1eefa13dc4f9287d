/* test: fast waits timeout=120 */
/* blame_test.c: the rank that a time-out names. One rank does not move, other ranks wait for it, and more ranks wait
 * for these. The message of each must first name the rank that does not move, and then the chain of waits that leads to
 * it. */
#include <tutti/channel.h>

#include "api/comm_create.h"
#include "boot/job_tcp.h"
#include "call/look.h"
#include "comm/chain.h"
#include "mover/channel.h"
#include "mover/join.h"
#include "ranks.h"
#include "test.h"
#include "transport/transport.h"

enum { LIMIT_MS = 800, HANG_MS = 60000 };

/* ---- what the ranks do ---- */

static tutti_comm *join(int timeout_ms) {
  tutti_comm *world = NULL;
  if (tutti_init(&(tutti_options){.timeout_ms = timeout_ms}, &world) == TUTTI_OK) return world;
  printf("  cannot join: %s\n", tutti_error_message(NULL));
  fflush(stdout);
  _exit(9);
}

/* Sleeps until all other ranks have noted their results. A rank that ended earlier would look as if it had died. */
static void sleep_through(struct ranks_world *w, uint32_t rank) {
  uint64_t end = ranks_now_ms() + HANG_MS / 2;
  for (uint32_t r = 0; r < w->ranks; r++)
    while (r != rank && w->shared->rank[r].noted == 0 && ranks_now_ms() < end) ranks_sleep_us(1000);
}

/* A barrier without the library: waits until all ranks have called it as often as this rank. */
static void meet(struct ranks_world *w, uint32_t rank) {
  const uint64_t end = ranks_now_ms() + HANG_MS / 2;
  const uint32_t stage = ++w->shared->rank[rank].stage;
  for (uint32_t r = 0; r < w->ranks; r++)
    while (w->shared->rank[r].stage < stage && ranks_now_ms() < end) ranks_sleep_us(200);
}

static tutti_err receive(tutti_comm *comm, uint32_t from) {
  int32_t x = 0;
  return tutti_recv(comm, &x, 1, TUTTI_I32, from, 0);
}

enum { ITEMS = 1000000 };

/* Rank 0, the first of a chain of ranks, starts the call but never waits for it. */
static tutti_err play_chain(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  float *in = calloc(ITEMS, sizeof *in), *out = calloc(ITEMS, sizeof *out);
  if (!in || !out) return TUTTI_ERR_MEMORY;
  tutti_request *request = NULL;
  const tutti_call call = {
      .collective = TUTTI_SCAN, .send = in, .recv = out, .count = ITEMS, .type = TUTTI_F32, .algorithm = "chain"};
  tutti_err err = tutti_start(world, &call, &request);
  meet(w, rank);
  if (rank == 0) sleep_through(w, rank);
  return err == TUTTI_OK ? tutti_wait(&request) : err;
}

static tutti_err play_receives(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  if (rank == 2) sleep_through(w, rank);
  if (rank == 1) (void)!tutti_comm_set_timeout(world, 3 * LIMIT_MS); /* so that rank 0 reports the time-out */
  return rank == 2 ? tutti_barrier(world) : receive(world, rank + 1);
}

/* Rank 1 is late in the world, because it waits in its half for rank 3, which is late there. */
static tutti_err play_halves(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  tutti_comm *half;
  tutti_err err = tutti_comm_split(world, (int)(rank % 2), 0, &half);
  if (err != TUTTI_OK) return err;
  (void)!tutti_comm_set_timeout(half, 4 * LIMIT_MS);
  meet(w, rank);
  if (rank == 3) sleep_through(w, rank);
  if (rank == 1) (void)!tutti_barrier(half);
  return tutti_barrier(world);
}

static tutti_err play_circle(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  return receive(world, (rank + 1) % w->ranks);
}

static tutti_err play_mixed_circle(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  (void)w;
  return rank == 0 ? receive(world, 1) : tutti_barrier(world);
}

static tutti_err play_free(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  tutti_comm *copy;
  tutti_err err = tutti_comm_dup(world, &copy);
  if (err != TUTTI_OK) return err;
  meet(w, rank);
  if (rank == 1) sleep_through(w, rank);
  return tutti_comm_free(copy);
}

/* Rank 0 waits for rank 1 on a channel; rank 1 waits for rank 2 in a receive. */
static tutti_err play_channel(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  tutti_channel *channel = NULL;
  tutti_channel_message message;
  const tutti_channel_options options = {.slots = 2, .slot_bytes = 64, .timeout_ms = 5000};
  tutti_err err = TUTTI_OK;
  if (rank < 2)
    err = tutti_channel_open(world, 1 - rank, rank == 0 ? TUTTI_CHANNEL_RECEIVES : TUTTI_CHANNEL_SENDS, &options,
                             &channel);
  meet(w, rank);
  if (err != TUTTI_OK) return err;
  if (rank == 0) return tutti_channel_peek(channel, 0, LIMIT_MS, &message);
  if (rank == 2) sleep_through(w, rank);
  (void)!tutti_comm_set_timeout(world, 4 * LIMIT_MS);
  return rank == 1 ? receive(world, 2) : TUTTI_OK;
}

/* Ranks 0 and 1 send to rank 2, which takes nothing, until they have no credits for it. Then they cannot send their
 * notices of a barrier, which go to rank 2 and to each other at once. */
static tutti_err play_credits(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  int32_t item = 0;
  tutti_err err = TUTTI_OK;
  if (rank == 2) sleep_through(w, rank);
  for (uint32_t root = 0; root < 2; root++)
    for (uint32_t i = 0; i < world->mover->shape.credits && err == TUTTI_OK; i++)
      err = tutti_broadcast(world, &item, 1, TUTTI_I32, root);
  return err == TUTTI_OK ? tutti_barrier(world) : err;
}

/* ---- what their messages must say ---- */

struct scene {
  const char *name;
  uint32_t ranks;
  tutti_err (*play)(struct ranks_world *w, uint32_t rank, tutti_comm *world);
  uint32_t still;      /* the rank that does not move; `ranks`: none */
  const char *says[3]; /* parts of the message of every rank except `still` */
};

static const struct scene scenes[] = {
    {"chain", 4, play_chain, 0, {"rank 0 (has started", "scan"}},
    {"receives", 3, play_receives, 2, {"rank 2 (does not", "rank 0 waits for rank 1, rank 1 for rank 2"}},
    {"halves", 4, play_halves, 3, {"rank 3 (has not", "barrier"}},
    {"circle", 3, play_circle, 3, {"each other", " for rank 1", " for rank 2"}},
    {"mixed circle", 2, play_mixed_circle, 2, {"each other"}},
    {"free", 2, play_free, 1, {"tutti_comm_free", "rank 1 (does not"}},
    {"channel", 3, play_channel, 2, {"rank 2 (does not"}},
    {"credits", 3, play_credits, 2, {"rank 2 (has not", "barrier"}},
};
enum { SCENES = sizeof scenes / sizeof scenes[0] };

static int play(struct ranks_world *w, uint32_t rank) {
  const struct scene *s = w->context;
  tutti_comm *world = join(LIMIT_MS);
  meet(w, rank);
  tutti_err err = s->play(w, rank, world);
  ranks_note(w, rank, err, tutti_error_message(NULL));
  sleep_through(w, rank);
  return 0;
}

/* Returns true if the first rank that the message names after " for rank " is `rank`. */
static bool blames(const char *text, uint32_t rank) {
  const char *waited = strstr(text, " has waited "), *waits_for = waited ? strstr(waited, " for rank ") : NULL;
  return waits_for && (uint32_t)atoi(waits_for + 10) == rank;
}

static void check_scene(const struct scene *s, struct ranks_world *w) {
  CHECK(ranks_end(w, HANG_MS), "%s: hangs", s->name);
  for (uint32_t r = 0; r < s->ranks; r++) {
    const struct ranks_note *n = &w->shared->rank[r].notes[0];
    if (r == s->still) continue;
    CHECK(n->err == TUTTI_ERR_TIMEOUT, "%s: rank %u: %s: %s", s->name, r, tutti_err_name(n->err), n->text);
    bool channel = s->play == play_channel && r == 0; /* the message of rank 0 names its peer on the channel first */
    CHECK(s->still == s->ranks || channel || blames(n->text, s->still), "%s: rank %u: does not name rank %u first: %s",
          s->name, r, s->still, n->text);
    for (int i = 0; i < 3 && s->says[i]; i++)
      CHECK(strstr(n->text, s->says[i]), "%s: rank %u: '%s' is not in: %s", s->name, r, s->says[i], n->text);
  }
  ranks_fini(w);
}

static void who_does_not_move_is_named(void) {
  static struct ranks_world worlds[SCENES]; /* all run at the same time, as they mostly wait */
  for (int i = 0; i < SCENES; i++) {
    worlds[i].context = &scenes[i];
    ranks_start(&worlds[i], scenes[i].ranks, play);
  }
  for (int i = 0; i < SCENES; i++) check_scene(&scenes[i], &worlds[i]);
}

/* ---- a rank that waited, too, and has ended ---- */

/* Rank 0 waits for rank 2, rank 2 for rank 3, rank 3 for rank 1, in communicators of two ranks. Rank 1 never waits; it
 * starts its call if *w->context is true. Rank 3's time-out comes first, and it exits. Its wait explains that of rank 0
 * if it has lasted at least half as long. */
static int play_ended(struct ranks_world *w, uint32_t rank) {
  const bool *starts = w->context;
  tutti_comm *world = join(LIMIT_MS), *parity, *half;
  tutti_err err = tutti_comm_split(world, (int)(rank % 2), 0, &parity);
  if (err == TUTTI_OK) err = tutti_comm_split(world, (int)(rank / 2), 0, &half);
  if (err != TUTTI_OK) return 1;
  (void)!tutti_comm_set_timeout(parity, rank == 0 ? 5 * LIMIT_MS : 4 * LIMIT_MS);
  if (rank == 2) (void)!tutti_comm_set_timeout(half, HANG_MS);
  /* In a central barrier, rank 0 of the communicator answers the other rank. Rank 1 of the world starts it first: it would
   * answer at once if rank 3 had started before. */
  const tutti_call call = {.collective = TUTTI_BARRIER, .algorithm = "central"};
  tutti_request *request = NULL;
  if (rank == 1 && *starts) err = tutti_start(parity, &call, &request);
  meet(w, rank);
  if (rank != 1) err = tutti_start(rank == 2 ? half : parity, &call, &request);
  meet(w, rank);
  if (rank == 1) sleep_through(w, rank);
  if (rank != 1 && err == TUTTI_OK) err = tutti_wait(&request);
  ranks_note(w, rank, err, tutti_error_message(NULL));
  if (rank == 3) _exit(0);
  sleep_through(w, rank);
  return 0;
}

static void who_has_waited_and_ended_is_followed(void) {
  static const bool starts[] = {false, true};
  static const char *const facts[] = {"for rank 1 of the world (|has not", "for rank 1 of the world (|does not wait"};
  for (int i = 0; i < 2; i++) {
    struct ranks_world w = {.context = &starts[i]};
    ranks_start(&w, 4, play_ended);
    CHECK(ranks_end(&w, HANG_MS), "hangs");
    const struct ranks_note *n = &w.shared->rank[0].notes[0];
    CHECK(n->err == TUTTI_ERR_TIMEOUT && test_contains(n->text, facts[i]), "%s: %s", tutti_err_name(n->err), n->text);
    CHECK(test_contains(n->text, "rank 3 of the world for rank 1 of the world"), "%s", n->text);
    ranks_fini(&w);
  }
}

/* ---- ranks that are threads of one process ---- */

static bool is_published(const struct tu_transport *t) {
  struct tu_waits waits;
  return tu_waits_read(t, t->rank, 0, &waits) && waits.count > 0 && waits.until == 0;
}

/* A thread that waits on one endpoint may complete a request of another. Its own wait stays published until it is
 * over, and not longer. */
static void a_wait_ends_on_its_own_endpoint(void) {
  enum { ENDPOINTS = 2 };
  struct tu_transport *t[ENDPOINTS];
  struct tu_error error = {0};
  struct tu_waits waits = {.since = 1, .looked = 1, .count = 1};
  if (tu_loop_create(ENDPOINTS, 0, t, &error) != TUTTI_OK) {
    FAIL("tu_loop_create: %s", error.text);
    return;
  }
  tu_chain_tell(t[0], &waits, tu_clock_ns());
  CHECK(is_published(t[0]) && !is_published(t[1]), "only endpoint 0 has a wait");
  tu_chain_go_on(t[1]);
  CHECK(is_published(t[0]), "the end of a wait on endpoint 1 has ended the wait on endpoint 0");
  tu_chain_go_on(t[0]);
  CHECK(!is_published(t[0]), "the wait on endpoint 0 is over, but still published");
  tu_chain_tell(t[1], &waits, tu_clock_ns());
  tu_chain_tell(t[0], &waits, tu_clock_ns());
  tu_chain_tell(t[0], &waits, tu_clock_ns());
  for (uint32_t i = 0; i < ENDPOINTS; i++) tu_chain_go_on(t[i]);
  for (uint32_t i = 0; i < ENDPOINTS; i++)
    CHECK(!is_published(t[i]), "the wait on endpoint %u is over, but still published", i);
  for (uint32_t i = 0; i < ENDPOINTS; i++) t[i]->ops->close(t[i]);
}

/* ---- while the world is created ---- */

/* Step of tutti_init before which the rank stops. */
enum { JOINS, MEETS, MAPS };
struct beginning {
  uint32_t still;
  int comes_to;
  const char *says;
};
static const struct beginning beginnings[] = {
    {0, JOINS, "rank 0 at 127.0.0.1"},       {1, JOINS, "rank 1 of 3|meet"}, {2, JOINS, "rank 2 of 3|meet"},
    {2, MEETS, "rank 2 of 3|shared memory"}, {1, MAPS, "rank 1 of 3|CPUs"},
};
enum { BEGINNINGS = sizeof beginnings / sizeof beginnings[0] };

static int begin(struct ranks_world *w, uint32_t rank) {
  const struct beginning *b = w->context;
  struct tu_error error = {0};
  if (rank == b->still) {
    struct tu_boot_identity identity;
    struct tu_job *job;
    struct tu_transport *t = NULL;
    tutti_err err = tu_boot_identity_read(&identity, &error);
    if (err == TUTTI_OK) err = tu_job_tcp_create(&identity, HANG_MS / 2, &job, &error);
    if (err == TUTTI_OK && b->comes_to >= MEETS) err = tu_job_meet(job, NULL, &error);
    if (err == TUTTI_OK && b->comes_to >= MAPS) err = tu_join(job, &t, &error);
    if (err != TUTTI_OK) printf("  rank %u cannot join: %s\n", rank, error.text);
    sleep_through(w, rank);
    ranks_note(w, rank, err, error.text);
    _exit(0);
  }
  tutti_comm *world = NULL;
  tutti_err err = tutti_init(&(tutti_options){.join_timeout_ms = 3000}, &world);
  ranks_note(w, rank, err, tutti_error_message(NULL));
  sleep_through(w, rank);
  return 0;
}

static void who_does_not_begin_is_named(void) {
  static struct ranks_world worlds[BEGINNINGS];
  for (int i = 0; i < BEGINNINGS; i++) {
    worlds[i].context = &beginnings[i];
    ranks_start(&worlds[i], 3, begin);
  }
  for (int i = 0; i < BEGINNINGS; i++) {
    CHECK(ranks_end(&worlds[i], HANG_MS), "%s: hangs", beginnings[i].says);
    for (uint32_t r = 0; r < 3; r++) {
      const struct ranks_note *n = &worlds[i].shared->rank[r].notes[0];
      if (r == beginnings[i].still) continue;
      CHECK(n->err == TUTTI_ERR_TIMEOUT && test_contains(n->text, beginnings[i].says),
            "rank %u: '%s' is not in: %s: %s", r, beginnings[i].says, tutti_err_name(n->err), n->text);
    }
    ranks_fini(&worlds[i]);
  }
}

/* ---- what is late, and for whom ---- */

static void *send_seven(void *context) {
  const int32_t seven = 7;
  return tutti_send(context, &seven, 1, TUTTI_I32, 0, 0) == TUTTI_OK ? context : NULL;
}

static void send_from(tutti_comm *comm) {
  pthread_t sender;
  void *sent = NULL;
  if (pthread_create(&sender, NULL, send_seven, comm) != 0) abort();
  pthread_join(sender, &sent);
  CHECK(sent, "the message was not sent");
}

/* Two ranks of one process. Rank 0 has a receive with a time limit of 100 ms, and the thread `looker` of a rank looks round
 * when it starts, and a second later. The message has arrived then, if `is_sent`, but no call has looked for it. */
static void look_a_second_later(uint32_t looker, bool is_sent) {
  struct tu_transport *endpoints[2];
  tutti_comm *comm[2];
  struct tu_error error = {0};
  const uint32_t members[] = {0, 1};
  bool good = tu_loop_create(2, 1 << 26, endpoints, &error) == TUTTI_OK;
  for (uint32_t r = 0; r < 2 && good; r++)
    good = tu_comm_create(endpoints[r], members, 2, r, TU_WORLD_ID, 1000, &comm[r], &error) == TUTTI_OK;
  CHECK(good, "two ranks: %s", error.text);
  if (!good) return;
  int32_t received = 0;
  tutti_request *in = NULL;
  const tutti_call receives = {
      .collective = TUTTI_RECV, .recv = &received, .count = 1, .type = TUTTI_I32, .peer = 1, .timeout_ms = 100};
  const uint64_t now = tu_clock_ns();
  CHECK(tutti_start(comm[0], &receives, &in) == TUTTI_OK, "%s", tutti_error_message(NULL));
  (void)tu_look_round(comm[looker], now, 100);
  if (is_sent) send_from(comm[1]);
  (void)tu_look_round(comm[looker], now + 1000000000u, 100);
  if (!is_sent) send_from(comm[1]);
  CHECK(tutti_wait(&in) == TUTTI_OK && received == 7, "%s", tutti_error_message(NULL));
  CHECK(tutti_comm_free(comm[1]) == TUTTI_OK && tutti_comm_free(comm[0]) == TUTTI_OK, "%s", tutti_error_message(NULL));
}

static void what_has_come_is_not_late(void) { look_a_second_later(0, true); }

/* A thread that waits also looks round for other ranks of its process. Their time limits run while they wait themselves. */
static void limits_of_other_ranks_do_not_run(void) { look_a_second_later(1, false); }

int main(int argc, char **argv) {
  const struct test tests[] = {{"who_does_not_move_is_named", who_does_not_move_is_named},
                               {"who_has_waited_and_ended_is_followed", who_has_waited_and_ended_is_followed},
                               {"who_does_not_begin_is_named", who_does_not_begin_is_named},
                               {"what_has_come_is_not_late", what_has_come_is_not_late},
                               {"limits_of_other_ranks_do_not_run", limits_of_other_ranks_do_not_run},
                               {"a_wait_ends_on_its_own_endpoint", a_wait_ends_on_its_own_endpoint}};
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
