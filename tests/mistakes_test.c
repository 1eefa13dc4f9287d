/* mistakes_test.c: invalid calls of a program get an error message, and never end the process by an assertion of the
 * library. */
#include "ranks.h"
#include "troupe.h"

static bool says(struct player *p, const char *text, const char *part) {
  if (test_contains(text, part)) return true;
  wrong(p, "rank %u: expected the facts '%s', found '%s'", p->rank, part, text);
  return false;
}

/* ---- tutti_request_free of an open request: the communicator and all its open requests fail, on all ranks ---- */

static void free_of_open(struct player *p) {
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
      !good(p, tutti_restart(request), "restart") || !good(p, tutti_start_all(p->comm, receives, 2, &group), "group"))
    return;
  tutti_request_free(request);
  says(p, tutti_error_message(p->comm), "request|still open");
  tutti_request_free(group);
  if (tutti_barrier(p->comm) != TUTTI_ERR_ARGUMENT) wrong(p, "the communicator has not failed");
}

/* ---- tutti_comm_free within on_ready ---- */

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
  says(t->player, tutti_error_message(NULL), "within the callback on_ready");
}

static void free_in_on_ready(struct player *p) {
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
  if (told.times == 0) wrong(p, "rank %u: on_ready was not called", p->rank);
  good(p, tutti_barrier(p->comm), "barrier after the error");
}

/* ---- time limits that are negative and not TUTTI_NO_TIMEOUT ---- */

static void negative_limits(struct player *p) {
  const char *words = "timeout_ms is -2|TUTTI_NO_TIMEOUT (-1)";
  if (tutti_comm_set_timeout(p->comm, -2) != TUTTI_ERR_ARGUMENT) wrong(p, "tutti_comm_set_timeout took -2");
  says(p, tutti_error_message(NULL), words);
  if (tutti_progress(p->comm, -2) != TUTTI_ERR_ARGUMENT) wrong(p, "tutti_progress took -2");
  says(p, tutti_error_message(NULL), words);
  good(p, tutti_comm_set_timeout(p->comm, TUTTI_NO_TIMEOUT), "tutti_comm_set_timeout: no limit");
  const tutti_call patient = {.collective = TUTTI_BARRIER, .timeout_ms = TUTTI_NO_TIMEOUT};
  good(p, tutti_run_call(p->comm, &patient), "barrier without a limit");
  troupe_meet(p); /* the refused call fails the communicator, so all ranks must have left the barrier */
  const tutti_call barrier = {.collective = TUTTI_BARRIER, .timeout_ms = -2};
  if (tutti_run_call(p->comm, &barrier) != TUTTI_ERR_ARGUMENT) wrong(p, "a call took -2");
  says(p, tutti_error_message(p->comm), words);
}

/* ---- all tests ---- */

static const struct troupe_case cases[] = {
    {TROUPE_CASE(free_of_open), .fails = true},
    {TROUPE_CASE(free_in_on_ready)},
    {TROUPE_CASE(negative_limits), .fails = true},
};

int main(int argc, char **argv) {
  return troupe_main(cases, sizeof cases / sizeof cases[0], TROUPE_TRANSPORTS(3), argc, argv);
}
