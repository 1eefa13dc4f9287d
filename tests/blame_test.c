/* test: fast timeout=120 */
/* blame_test.c: whom a timeout names. One rank does not move, others wait for it, and others for these: the sentence of each
 * names that one first, and then how its rank comes to wait for it. */
#include <tutti/channel.h>

#include "api/comm.h"
#include "boot/job_tcp.h"
#include "ranks.h"
#include "test.h"
#include "transport/transport.h"

enum { LIMIT_MS = 400, HANG_MS = 20000 };

/* ---- what ranks do ---- */

static tutti_comm *join(int timeout_ms) {
  tutti_comm *world = NULL;
  if (tutti_init(&(tutti_options){.timeout_ms = timeout_ms}, &world) == TUTTI_OK) return world;
  printf("  cannot join: %s\n", tutti_error_message(NULL));
  fflush(stdout);
  _exit(9);
}

/* Sleeps until all others have noted what they were told: who ended before would look as if it had died. */
static void sleep_through(struct ranks_world *w, uint32_t rank) {
  uint64_t end = ranks_now_ms() + HANG_MS / 2;
  for (uint32_t r = 0; r < w->ranks; r++)
    while (r != rank && w->shared->rank[r].noted == 0 && ranks_now_ms() < end) ranks_sleep_us(1000);
}

static tutti_err receive(tutti_comm *comm, uint32_t from) {
  int32_t x = 0;
  return tutti_recv(comm, &x, 1, TUTTI_I32, from, 0);
}

enum { ITEMS = 1000000 };

/* The last of a chain of ranks has started the call, and does not come to wait for it. */
static tutti_err play_chain(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  float *in = calloc(ITEMS, sizeof *in), *out = calloc(ITEMS, sizeof *out);
  if (!in || !out) return TUTTI_ERR_MEMORY;
  tutti_request *request = NULL;
  const tutti_call call = {
      .collective = TUTTI_SCAN, .send = in, .recv = out, .count = ITEMS, .type = TUTTI_F32, .algorithm = "chain"};
  tutti_err err = tutti_start(world, &call, &request);
  if (rank == 0) sleep_through(w, rank);
  return err == TUTTI_OK ? tutti_wait(&request) : err;
}

static tutti_err play_receives(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  if (rank == 2) sleep_through(w, rank);
  if (rank == 1) tutti_comm_set_timeout(world, 3 * LIMIT_MS); /* so it is rank 0 that says it */
  return rank == 2 ? tutti_barrier(world) : receive(world, rank + 1);
}

/* Rank 1 is late for the world, as it waits in its half for rank 3, which is late for that. */
static tutti_err play_halves(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  tutti_comm *half;
  tutti_err err = tutti_comm_split(world, (int)(rank % 2), 0, &half);
  if (err != TUTTI_OK) return err;
  tutti_comm_set_timeout(half, 4 * LIMIT_MS);
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
  if (rank == 1) sleep_through(w, rank);
  return tutti_comm_free(copy);
}

/* Rank 0 waits on a channel for rank 1, and that in a receive for rank 2. */
static tutti_err play_channel(struct ranks_world *w, uint32_t rank, tutti_comm *world) {
  tutti_channel *channel = NULL;
  tutti_channel_message message;
  const tutti_channel_options options = {.slots = 2, .slot_bytes = 64, .timeout_ms = 5000};
  tutti_err err = TUTTI_OK;
  if (rank < 2)
    err = tutti_channel_open(world, 1 - rank, rank == 0 ? TUTTI_CHANNEL_RECEIVES : TUTTI_CHANNEL_SENDS, &options,
                             &channel);
  if (err != TUTTI_OK) return err;
  if (rank == 0) return tutti_channel_peek(channel, 0, LIMIT_MS, &message);
  if (rank == 2) sleep_through(w, rank);
  tutti_comm_set_timeout(world, 4 * LIMIT_MS);
  return rank == 1 ? receive(world, 2) : TUTTI_OK;
}

/* ---- what they must be told ---- */

struct scene {
  const char *name;
  uint32_t ranks;
  tutti_err (*play)(struct ranks_world *w, uint32_t rank, tutti_comm *world);
  uint32_t still;      /* the one that does not move; ranks: none */
  const char *says[3]; /* in the sentence of every rank but that one */
};

static const struct scene scenes[] = {
    {"chain", 4, play_chain, 0, {"rank 0 (has started it, and not waited in tutti since)", "scan"}},
    {"receives", 3, play_receives, 2, {"rank 2 (does not wait in tutti", "rank 0 waits for rank 1, rank 1 for rank 2"}},
    {"halves", 4, play_halves, 3, {"rank 3 (has not come to", "barrier"}},
    {"circle", 3, play_circle, 3, {"they wait for each other", " for rank 1", " for rank 2"}},
    {"mixed circle", 2, play_mixed_circle, 2, {"they wait for each other"}},
    {"free", 2, play_free, 1, {"in tutti_comm_free for rank 1 (does not wait in tutti"}},
    {"channel", 3, play_channel, 2, {"rank 2 (does not wait in tutti"}},
};
enum { SCENES = sizeof scenes / sizeof scenes[0] };

static int play(struct ranks_world *w, uint32_t rank) {
  const struct scene *s = w->context;
  tutti_comm *world = join(LIMIT_MS);
  tutti_err err = s->play(w, rank, world);
  ranks_note(w, rank, err, tutti_error_message(NULL));
  sleep_through(w, rank);
  return 0;
}

/* The first rank that is named after "for" is the one to blame. */
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
    bool channel = s->play == play_channel && r == 0; /* its sentence names the channel's peer as well */
    CHECK(s->still == s->ranks || channel || blames(n->text, s->still), "%s: rank %u: blames not rank %u: %s", s->name,
          r, s->still, n->text);
    for (int i = 0; i < 3 && s->says[i]; i++)
      CHECK(strstr(n->text, s->says[i]), "%s: rank %u: '%s' is not in: %s", s->name, r, s->says[i], n->text);
  }
  ranks_fini(w);
}

static void who_does_not_move_is_named(void) {
  static struct ranks_world worlds[SCENES]; /* at the same time, as most of it is waiting */
  for (int i = 0; i < SCENES; i++) {
    worlds[i].context = &scenes[i];
    ranks_start(&worlds[i], scenes[i].ranks, play);
  }
  for (int i = 0; i < SCENES; i++) check_scene(&scenes[i], &worlds[i]);
}

/* ---- one that has waited too, and ended ---- */

/* Rank 0 waits for rank 2, that for rank 3, and that for rank 1, in communicators of two; but rank 3's time is over first, and it
 * exits. */
static int play_ended(struct ranks_world *w, uint32_t rank) {
  tutti_comm *world = join(LIMIT_MS), *parity, *half;
  tutti_err err = tutti_comm_split(world, (int)(rank % 2), 0, &parity);
  if (err == TUTTI_OK) err = tutti_comm_split(world, (int)(rank / 2), 0, &half);
  if (err != TUTTI_OK) return 1;
  if (rank == 1) sleep_through(w, rank);
  if (rank == 0) tutti_comm_set_timeout(parity, LIMIT_MS + 100);
  if (rank == 2) tutti_comm_set_timeout(half, HANG_MS);
  err = rank == 1 ? TUTTI_OK : tutti_barrier(rank == 2 ? half : parity);
  ranks_note(w, rank, err, tutti_error_message(NULL));
  if (rank == 3) _exit(0);
  sleep_through(w, rank);
  return 0;
}

static void who_has_waited_and_ended_is_followed(void) {
  static struct ranks_world w;
  ranks_start(&w, 4, play_ended);
  CHECK(ranks_end(&w, HANG_MS), "hangs");
  const struct ranks_note *n = &w.shared->rank[0].notes[0];
  CHECK(n->err == TUTTI_ERR_TIMEOUT && strstr(n->text, "rank 1 of the world (has not come to"), "%s: %s",
        tutti_err_name(n->err), n->text);
  CHECK(strstr(n->text, "rank 3 of the world for rank 1 of the world"), "%s", n->text);
  ranks_fini(&w);
}

/* ---- while the world is made ---- */

/* How far the rank comes that does not come further. */
enum { JOINS, MEETS, MAPS };
struct beginning {
  uint32_t still;
  int comes_to;
  const char *says;
};
static const struct beginning beginnings[] = {
    {0, JOINS, "for rank 0 at 127.0.0.1"},
    {1, JOINS, "for rank 1 of 3 to meet"},
    {2, JOINS, "for rank 2 of 3 to meet"},
    {2, MEETS, "for rank 2 of 3 to offer the shared memory"},
    {1, MAPS, "for rank 1 of 3 to say where it runs"},
};
enum { BEGINNINGS = sizeof beginnings / sizeof beginnings[0] };

static int begin(struct ranks_world *w, uint32_t rank) {
  const struct beginning *b = w->context;
  struct tu_error error = {0};
  if (rank == b->still) {
    struct tu_boot_place place;
    struct tu_job *job;
    struct tu_transport *t = NULL;
    tutti_err err = tu_boot_place(&place, &error);
    if (err == TUTTI_OK) err = tu_job_tcp_create(&place, 5000, &job, &error);
    if (err == TUTTI_OK && b->comes_to >= MEETS) err = tu_job_meet(job, NULL, &error);
    if (err == TUTTI_OK && b->comes_to >= MAPS) err = tu_shm_join(job, &t, &error);
    if (err != TUTTI_OK) printf("  rank %u cannot join: %s\n", rank, error.text);
    sleep_through(w, rank);
    ranks_note(w, rank, err, error.text);
    _exit(0);
  }
  tutti_comm *world = NULL;
  tutti_err err = tutti_init(&(tutti_options){.join_timeout_ms = 1000}, &world);
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
      CHECK(n->err == TUTTI_ERR_TIMEOUT && strstr(n->text, beginnings[i].says), "rank %u: '%s' is not in: %s: %s", r,
            beginnings[i].says, tutti_err_name(n->err), n->text);
    }
    ranks_fini(&worlds[i]);
  }
}

/* ---- what has come is not late ---- */

static void *send_seven(void *context) {
  const int32_t seven = 7;
  return tutti_send(context, &seven, 1, TUTTI_I32, 0, 0) == TUTTI_OK ? context : NULL;
}

/* Two ranks of one process: the message has come when the time of its receive is over, and nothing has looked for it since. */
static void what_has_come_is_not_late(void) {
  struct tu_transport *endpoints[2];
  tutti_comm *comm[2];
  struct tu_error error = {0};
  const uint32_t members[] = {0, 1};
  bool good = tu_loop_create(2, 1 << 26, endpoints, &error) == TUTTI_OK;
  for (uint32_t r = 0; r < 2 && good; r++)
    good = tu_comm_create(endpoints[r], members, 2, r, TU_WORLD_SESSION, 1000, &comm[r], &error) == TUTTI_OK;
  CHECK(good, "two ranks: %s", error.text);
  if (!good) return;
  int32_t received = 0;
  tutti_request *in = NULL;
  pthread_t sender;
  void *sent = NULL;
  const tutti_call receives = {
      .collective = TUTTI_RECV, .recv = &received, .count = 1, .type = TUTTI_I32, .peer = 1, .timeout_ms = 100};
  uint64_t now = tu_clock_ns();
  CHECK(tutti_start(comm[0], &receives, &in) == TUTTI_OK, "%s", tutti_error_message(NULL));
  (void)tu_look_round(comm[0], now, 100);
  if (pthread_create(&sender, NULL, send_seven, comm[1]) != 0) abort();
  pthread_join(sender, &sent);
  CHECK(sent, "the message is not sent");
  (void)tu_look_round(comm[0], now + 1000000000u, 100);
  CHECK(tutti_wait(&in) == TUTTI_OK && received == 7, "%s", tutti_error_message(NULL));
  CHECK(tutti_comm_free(comm[1]) == TUTTI_OK && tutti_comm_free(comm[0]) == TUTTI_OK, "%s", tutti_error_message(NULL));
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"who_does_not_move_is_named", who_does_not_move_is_named},
                               {"who_has_waited_and_ended_is_followed", who_has_waited_and_ended_is_followed},
                               {"who_does_not_begin_is_named", who_does_not_begin_is_named},
                               {"what_has_come_is_not_late", what_has_come_is_not_late}};
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
