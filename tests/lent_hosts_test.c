/* lent_hosts_test.c: long messages to ranks of other hosts, which are sent from the user's memory. They may be longer
 * than all slots of a channel, and in place. When a call fails, its buffers are the user's again at once: they are
 * unmapped, and later calls on other communicators use the same connections. */
#include <sys/mman.h>

#include "hosts.h"
#include "reference.h"

enum { LONG = 3 << 20, SHORT_MS = 200, PATIENCE_MS = 60000 }; /* LONG: number of items of 8 bytes */

static const struct hosts_world worlds[] = {
#ifndef __SANITIZE_THREAD__
    {"two hosts, processes", troupe_over_processes_of_two_hosts, .ranks = 2},
    {"two hosts of two, processes, narrow sockets", troupe_over_processes_of_two_hosts, .ranks = 4,
     .socket_bytes = 4096},
#endif
    {"two hosts, threads", troupe_over_two_hosts, .ranks = 2},
    {"three hosts, threads", troupe_over_three_hosts, .ranks = 3},
};

static void play(void (*run)(struct player *p)) {
  for (uint32_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
    hosts_perform(&worlds[i], (struct troupe){.run = run, .seed = test_seed()});
}

static int64_t *map(size_t items) {
  int64_t *memory = mmap(NULL, items * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

static int64_t item(const struct player *p, uint32_t rank, uint32_t to, size_t i) {
  return (int64_t)(ref_hash(p->seed, rank, to, i) >> 16);
}

/* ---- calls in place, longer than all slots of a channel ---- */

static void reduce_in_place(struct player *p, size_t items) {
  int64_t *data = map(items);
  for (size_t i = 0; i < items; i++) data[i] = item(p, p->rank, 0, i);
  if (good(p, tutti_allreduce(p->comm, data, data, items, TUTTI_I64, TUTTI_SUM), "allreduce"))
    for (size_t i = 0; i < items; i += 1 + i % 7) {
      int64_t sum = 0;
      for (uint32_t r = 0; r < p->ranks; r++) sum += item(p, r, 0, i);
      if (data[i] == sum) continue;
      wrong(p, "rank %u: item %zu of %zu is %lld, expected %lld", p->rank, i, items, (long long)data[i],
            (long long)sum);
      break;
    }
  munmap(data, items * 8);
}

static void exchange_in_place(struct player *p, size_t items) {
  int64_t *data = map(items * p->ranks);
  for (uint32_t r = 0; r < p->ranks; r++)
    for (size_t i = 0; i < items; i++) data[r * items + i] = item(p, p->rank, r, i);
  bool same = good(p, tutti_alltoall(p->comm, data, data, items, TUTTI_I64), "alltoall");
  for (uint32_t r = 0; r < p->ranks; r++)
    for (size_t i = 0; i < items && same; i += 1 + i % 7)
      if (data[r * items + i] != item(p, r, p->rank, i))
        same = false, wrong(p, "rank %u: item %zu differs", p->rank, i);
  munmap(data, items * p->ranks * 8);
}

/* Both ends send before they receive. What is sent is overwritten as soon as the send has ended. */
static void send_both_ways(struct player *p, size_t items) {
  const uint32_t peer = p->rank ^ 1;
  if (peer >= p->ranks) return;
  int64_t *out = map(items), *in = map(items);
  tutti_request *request = NULL;
  const tutti_call receive = {.collective = TUTTI_RECV, .recv = in, .count = items, .type = TUTTI_I64, .peer = peer};
  for (size_t i = 0; i < items; i++) out[i] = item(p, p->rank, 1, i);
  if (good(p, tutti_start(p->comm, &receive, &request), "recv") &&
      good(p, tutti_send(p->comm, out, items, TUTTI_I64, peer, 0), "send")) {
    memset(out, 0xee, items * 8);
    bool same = good(p, tutti_wait(&request), "wait");
    for (size_t i = 0; i < items && same; i += 1 + i % 7)
      if (in[i] != item(p, peer, 1, i)) same = false, wrong(p, "rank %u: received item %zu differs", p->rank, i);
  }
  munmap(out, items * 8);
  munmap(in, items * 8);
}

static void call_with_long_messages(struct player *p) {
  static const size_t counts[] = {5000, 100003, LONG};
  for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    reduce_in_place(p, counts[i]);
    exchange_in_place(p, counts[i] / 2);
    send_both_ways(p, counts[i]);
  }
}

static void test_long_messages(void) { play(call_with_long_messages); }

/* ---- calls that fail ---- */

/* What the last rank does: nothing, or it aborts; or it begins to send, and stops. So the others get stuck in the middle
 * of a slice that they send or receive. */
enum failure { TIME_OUT, ABORT, STOPS, FAILURES }; /* STOPS is the last one: await_others relies on it */
static const tutti_err failures[FAILURES] = {TUTTI_ERR_TIMEOUT, TUTTI_ERR_ABORTED, TUTTI_ERR_TIMEOUT};

static tutti_err gather(tutti_comm *comm, uint32_t rank, int64_t *data, size_t items) {
  return tutti_allgather(comm, data + rank * items, data, items, TUTTI_I64);
}

/* Waits until all calls of the other ranks have ended. */
static void await_others(struct player *p) {
  const uint64_t end = ranks_now_ms() + PATIENCE_MS, goal = (uint64_t)FAILURES * (p->ranks - 1);
  while (p->stage->counted < goal && ranks_now_ms() < end) ranks_sleep_us(1000);
}

/* A receive is only posted if its channel has been used before. */
static void use_channels(struct player *p, tutti_comm *comm) {
  int64_t *data = map(p->ranks * 10000);
  for (int i = 0; i < 3; i++) (void)good(p, gather(comm, p->rank, data, 10000), "allgather");
  munmap(data, p->ranks * 10000 * 8);
}

static void fail(struct player *p, enum failure failure) {
  tutti_comm *dup;
  const bool last = p->rank == p->ranks - 1;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  use_channels(p, dup);
  if (failure != ABORT && !good(p, tutti_comm_set_timeout(dup, SHORT_MS), "set_timeout")) return;
  int64_t *data = map((size_t)LONG * p->ranks), *own = data + (size_t)LONG * p->rank;
  const tutti_call call = {.collective = TUTTI_ALLGATHER, .send = own, .recv = data, .count = LONG, .type = TUTTI_I64};
  tutti_request *request = NULL;
  tutti_err err = failures[failure];
  memset(own, (int)p->rank + 1, (size_t)LONG * 8);
  if (!last && failure == STOPS) err = gather(dup, p->rank, data, LONG);
  else if (!last) err = tutti_allreduce(dup, data, data, LONG, TUTTI_I64, TUTTI_SUM);
  else if (failure == STOPS) (void)good(p, tutti_start(dup, &call, &request), "start");
  else if (failure == ABORT) ranks_sleep_us(SHORT_MS * 1000), tutti_abort(dup, "enough");
  if (!last) p->stage->counted++;
  if (request) await_others(p), err = tutti_wait(&request);
  munmap(data, (size_t)LONG * p->ranks * 8);
  if (err != failures[failure])
    wrong(p, "rank %u: %s, expected %s", p->rank, tutti_err_name(err), tutti_err_name(failures[failure]));
  troupe_meet(p);
  (void)!tutti_comm_free(dup);
  reduce_in_place(p, 1000);
  send_both_ways(p, 100003);
}

/* A waiting thread also advances calls that other threads of its process have started: no thread stops. */
static void fail_in_turn(struct player *p) {
  for (enum failure failure = 0; failure < (p->is_thread ? STOPS : FAILURES); failure++) fail(p, failure);
}

static void test_failures_give_back(void) { play(fail_in_turn); }

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"long_messages", test_long_messages},
      {"failures_give_back", test_failures_give_back},
  };
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
