/* mistakes_test.c: what a program does wrong is refused with a sentence, and never ends the process as a fault of the library. */
#include "ranks.h"
#include "troupe.h"

static bool says(struct player *p, const char *text, const char *part) {
  if (strstr(text, part)) return true;
  wrong(p, "rank %u: expected '...%s...', found '%s'", p->rank, part, text);
  return false;
}

/* ---- an open request is freed: the communicator fails, on all ranks, and with it what is open ---- */

static void play_free_of_open(struct player *p) {
  float in = 1, out = 0, more[2] = {0};
  tutti_request *request = NULL, *group = NULL;
  const tutti_call sum = {.collective = TUTTI_ALLREDUCE, .send = &in, .recv = &out, .count = 1, .type = TUTTI_F32};
  if (p->rank != 0) {
    tutti_err err = tutti_start(p->comm, &sum, &request);
    if (err == TUTTI_OK) err = tutti_wait(&request);
    if (err != TUTTI_ERR_ARGUMENT) wrong(p, "rank %u: %s", p->rank, tutti_err_name(err));
    says(p, tutti_error_message(p->comm), "tutti_request_free: ");
    return;
  }
  const tutti_call receives[] = {
      {.collective = TUTTI_RECV, .recv = &more[0], .count = 1, .type = TUTTI_F32, .peer = 1, .tag = 1},
      {.collective = TUTTI_RECV, .recv = &more[1], .count = 1, .type = TUTTI_F32, .peer = 1, .tag = 2}};
  if (!good(p, tutti_prepare(p->comm, &receives[0], &request), "prepare") ||
      !good(p, tutti_restart(request), "restart") || !good(p, tutti_start_group(p->comm, receives, 2, &group), "group"))
    return;
  tutti_request_free(request);
  says(p, tutti_error_message(p->comm), "the request is still open");
  tutti_request_free(group);
  if (tutti_barrier(p->comm) != TUTTI_ERR_ARGUMENT) wrong(p, "the communicator has not failed");
}

/* ---- a communicator is freed by who is told of a result ---- */

struct told {
  struct player *player;
  uint32_t times;
};

static void free_all(void *context, size_t first, size_t count) {
  struct told *t = context;
  (void)first, (void)count;
  t->times++;
  tutti_err err = tutti_comm_free(t->player->comm);
  if (err != TUTTI_ERR_ARGUMENT) wrong(t->player, "tutti_comm_free within on_ready: %s", tutti_err_name(err));
  says(t->player, tutti_error_message(NULL), "within on_ready");
}

static void play_free_in_on_ready(struct player *p) {
  float in[100], out[100];
  struct told told = {p, 0};
  for (int i = 0; i < 100; i++) in[i] = (float)i;
  const tutti_call sum = {.collective = TUTTI_ALLREDUCE,
                          .send = in,
                          .recv = out,
                          .count = 100,
                          .type = TUTTI_F32,
                          .on_ready = free_all,
                          .on_ready_context = &told};
  tutti_request *request = NULL;
  if (!good(p, tutti_start(p->comm, &sum, &request), "start") || !good(p, tutti_wait(&request), "wait")) return;
  for (int i = 0; i < 100; i++)
    if (out[i] != (float)i * (float)p->ranks) wrong(p, "rank %u: element %d is %g", p->rank, i, (double)out[i]);
  if (told.times == 0) wrong(p, "rank %u was told of nothing", p->rank);
  good(p, tutti_barrier(p->comm), "the communicator goes on");
}

/* ---- */

static void over_all(const struct troupe *t) {
  (void)troupe_perform(*t, troupe_over_loop);
#ifndef __SANITIZE_THREAD__
  (void)troupe_perform(*t, troupe_over_shm);
#endif
}

static void free_of_open(void) { over_all(&(struct troupe){.run = play_free_of_open, .fails = true, .ranks = 3}); }
static void free_in_on_ready(void) { over_all(&(struct troupe){.run = play_free_in_on_ready, .ranks = 3}); }

static const struct test tests[] = {
    {"free_of_open", free_of_open},
    {"free_in_on_ready", free_in_on_ready},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
