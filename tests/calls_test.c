/* test: slow timeout=600 */
/* calls_test.c: the calls of tutti.h between real processes: requests of every kind, point to point, communicators,
 * threads, many ranks on few cores. Each test starts this program again as its ranks. */
#include <pthread.h>

#include "plan/collective.h"
#include "ranks.h"
#include "test.h"

static tutti_comm *world;
static uint32_t rank, ranks;

/* Checks that a call succeeds; else prints the error and ends this rank. */
#define MUST(call)                                                                                 \
  do {                                                                                             \
    tutti_err must_err = (call);                                                                   \
    if (must_err != TUTTI_OK) {                                                                    \
      printf("  %s:%d: rank %u: %s: %s; %s\n", __FILE__, __LINE__, rank, tutti_err_name(must_err), \
             tutti_error_message(world), tutti_error_message(NULL));                               \
      fflush(stdout);                                                                              \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

static int32_t *numbers(size_t count) {
  int32_t *n = malloc(count * sizeof *n + 1);
  if (!n) abort();
  return n;
}

/* ---- requests ---- */

/* Returns the sum of element i over all ranks. In a round, element i of rank r is r * 1000 + i + round. */
static int32_t sum_at(size_t i, int round) {
  return (int32_t)(ranks * (ranks - 1) / 2 * 1000 + ranks * (uint32_t)((int)i + round));
}

static void persistent(void) {
  enum { COUNT = 50, ROUNDS = 2000 };
  int32_t in[COUNT], out[COUNT], all[COUNT * 8], got[COUNT];
  tutti_request *sum, *gather, *shift;
  MUST(tutti_prepare(
      world, &(tutti_call){.collective = TUTTI_ALLREDUCE, .send = in, .recv = out, .count = COUNT, .type = TUTTI_I32},
      &sum));
  MUST(tutti_prepare(
      world, &(tutti_call){.collective = TUTTI_ALLGATHER, .send = in, .recv = all, .count = COUNT, .type = TUTTI_I32},
      &gather));
  uint32_t to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  MUST(tutti_prepare(
      world, &(tutti_call){.collective = TUTTI_RECV, .recv = got, .count = COUNT, .type = TUTTI_I32, .peer = from},
      &shift));
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < COUNT; i++) in[i] = (int32_t)rank * 1000 + i + round;
    MUST(tutti_restart(sum));
    MUST(tutti_restart(gather));
    MUST(tutti_restart(shift));
    MUST(tutti_start(world,
                     &(tutti_call){.collective = TUTTI_SEND, .send = in, .count = COUNT, .type = TUTTI_I32, .peer = to},
                     NULL));
    tutti_request *list[] = {sum, gather, shift};
    if (round % 2) MUST(tutti_wait_all(list, 3));
    MUST(tutti_wait_all(NULL, 0));
    for (int k = 0; k < 3; k++) {
      bool done = false;
      MUST(tutti_test(&list[k], &done));
      CHECK(done && list[k], "request %d of round %d: done is %d, the handle is %s", k, round, done,
            list[k] ? "kept" : "NULL");
    }
    for (size_t i = 0; i < COUNT; i++) {
      CHECK(out[i] == sum_at(i, round), "round %d: sum %d, wanted %d", round, out[i], sum_at(i, round));
      CHECK(got[i] == (int32_t)from * 1000 + (int)i + round, "round %d: received %d", round, got[i]);
      for (uint32_t r = 0; r < ranks; r++)
        CHECK(all[r * COUNT + i] == (int32_t)r * 1000 + (int)i + round, "round %d: gathered %d", round,
              all[r * COUNT + i]);
    }
    if (test_failures) return;
  }
  tutti_request_free(sum);
  tutti_request_free(gather);
  tutti_request_free(shift);
  tutti_request_free(NULL);
}

/* Starts many requests of very different sizes, and waits for them from the last to the first. */
static void out_of_order(void) {
  enum { OPEN = 24 };
  static const size_t counts[] = {1, 200000, 3, 70000, 0, 1000};
  tutti_request *requests[OPEN];
  int32_t *in[OPEN], *out[OPEN];
  for (int round = 0; round < 5; round++) {
    for (int k = 0; k < OPEN; k++) {
      size_t count = counts[(k + round) % 6];
      in[k] = numbers(count);
      out[k] = numbers(count);
      for (size_t i = 0; i < count; i++) in[k][i] = (int32_t)(rank * 1000 + i % 1000) + k;
      MUST(tutti_start(
          world,
          &(tutti_call){
              .collective = TUTTI_ALLREDUCE, .send = in[k], .recv = out[k], .count = count, .type = TUTTI_I32},
          &requests[k]));
    }
    if (rank == 1) ranks_sleep_us(20000);
    for (int k = OPEN - 1; k >= 0; k -= 2) MUST(tutti_wait(&requests[k])); /* every second request; then the rest */
    for (int left = OPEN / 2; left > 0; left--) {
      size_t index = OPEN;
      MUST(tutti_wait_any(requests, OPEN, &index));
      CHECK(index < OPEN && index % 2 == 0 && !requests[index], "wait_any: index %zu", index);
    }
    size_t index = 0;
    MUST(tutti_wait_any(requests, OPEN, &index));
    CHECK(index == OPEN, "wait_any of nothing: index %zu", index);
    for (int k = 0; k < OPEN; k++) {
      size_t count = counts[(k + round) % 6], wrong = 0;
      for (size_t i = 0; i < count; i++) wrong += out[k][i] != sum_at(i % 1000, k);
      CHECK(wrong == 0, "request %d of %zu: %zu wrong", k, count, wrong);
      free(in[k]);
      free(out[k]);
    }
  }
}

/* Waits for detached requests, and for lists of requests with NULL entries. */
static void wait_all_forms(void) {
  enum { OPEN = 40 };
  int32_t in[OPEN], out[OPEN];
  for (int k = 0; k < OPEN; k++) {
    in[k] = (int32_t)rank + k;
    MUST(tutti_start(world,
                     &(tutti_call){.collective = TUTTI_ALLREDUCE,
                                   .send = &in[k],
                                   .recv = &out[k],
                                   .count = 1,
                                   .type = TUTTI_I32,
                                   .op = TUTTI_MAX},
                     NULL));
  }
  MUST(tutti_wait_all(NULL, 0));
  for (int k = 0; k < OPEN; k++) CHECK(out[k] == (int32_t)ranks - 1 + k, "detached %d: %d", k, out[k]);
  tutti_request *requests[5] = {NULL};
  for (int k = 1; k < 5; k += 2)
    MUST(tutti_start(
        world, &(tutti_call){.collective = TUTTI_SCAN, .send = &in[k], .recv = &out[k], .count = 1, .type = TUTTI_I32},
        &requests[k]));
  MUST(tutti_wait_all(requests, 5));
  CHECK(!requests[1] && !requests[3], "wait_all did not set a handle to NULL");
  CHECK(out[1] == (int32_t)(rank * (rank + 1) / 2 + rank + 1), "scan: %d", out[1]);
  MUST(tutti_wait_all(requests, 5));
  MUST(tutti_wait_all(NULL, 0));
  /* Without a list, handles stay valid, and their requests are complete. */
  MUST(tutti_start(world, &(tutti_call){.collective = TUTTI_BARRIER}, &requests[0]));
  MUST(tutti_wait_all(NULL, 0));
  CHECK(requests[0] != NULL, "wait_all(NULL) set a handle to NULL");
  bool done = false;
  MUST(tutti_test(&requests[0], &done));
  CHECK(done && !requests[0], "tutti_test does not report a completed request as done");
  done = false;
  MUST(tutti_test(&requests[0], &done));
  CHECK(done, "tutti_test of no request does not report done");
  MUST(tutti_wait(&requests[0]));
}

/* tutti_test never blocks, even if another rank comes late: rank 0 comes when each of the others has polled in vain and
 * has told it so. */
static void polling(void) {
  enum { POLLS = 10, BLOCKED_MS = 5000 };
  int32_t one = 1, sum = 0;
  for (uint32_t from = 1; rank == 0 && from < ranks; from++) MUST(tutti_recv(world, &sum, 1, TUTTI_I32, from, 0));
  tutti_request *request;
  MUST(tutti_start(
      world, &(tutti_call){.collective = TUTTI_ALLREDUCE, .send = &one, .recv = &sum, .count = 1, .type = TUTTI_I32},
      &request));
  bool done = false;
  uint64_t calls = 0, longest = 0;
  while (!done) {
    uint64_t before = ranks_now_ms();
    MUST(tutti_test(&request, &done));
    uint64_t took = ranks_now_ms() - before;
    longest = took > longest ? took : longest;
    calls++;
    if (rank > 0 && calls <= POLLS) CHECK(!done, "rank %u: done at poll %llu", rank, (unsigned long long)calls);
    if (!done) CHECK(request, "not done, but the handle is NULL");
    if (rank > 0 && calls == POLLS) MUST(tutti_send(world, &one, 1, TUTTI_I32, 0, 0));
    if (!done) sched_yield();
  }
  CHECK(sum == (int32_t)ranks && !request, "sum %d", sum);
  CHECK(longest < BLOCKED_MS, "one test took %llu ms", (unsigned long long)longest);
}

/* ---- point to point ---- */

/* Rank 0 sends with tags 0 to n - 1. Rank 1 receives them in another order. Some messages are much longer than a
 * ring. */
static void tags_out_of_order(void) {
  enum { MESSAGES = 12 };
  static const size_t counts[] = {1, 3, 1000000, 0, 10, 20000};
  int32_t *data[MESSAGES];
  tutti_request *requests[MESSAGES];
  for (int round = 0; round < 4; round++) {
    for (uint32_t k = 0; k < MESSAGES; k++) {
      uint32_t tag = rank == 0 ? k
                               : (k * 5 + (uint32_t)round) %
                                     MESSAGES; /* 5 and 12 have no common divisor, so that each tag occurs once */
      size_t count = counts[tag % 6];
      data[tag] = numbers(count);
      for (size_t i = 0; i < count; i++) data[tag][i] = rank == 0 ? (int32_t)(i * 7 + tag) : -1;
      tutti_call call = {.collective = rank == 0 ? TUTTI_SEND : TUTTI_RECV,
                         .count = count,
                         .type = TUTTI_I32,
                         .peer = 1 - rank,
                         .tag = tag};
      if (rank == 0) call.send = data[tag];
      else call.recv = data[tag];
      MUST(tutti_start(world, &call, &requests[k]));
      if (rank == 1 && round % 2)
        MUST(tutti_wait(&requests[k])); /* one receive at a time, so that messages with other tags must be set aside */
    }
    MUST(tutti_wait_all(requests, MESSAGES));
    for (uint32_t tag = 0; tag < MESSAGES; tag++) {
      size_t wrong = 0;
      for (size_t i = 0; i < counts[tag % 6]; i++) wrong += data[tag][i] != (int32_t)(i * 7 + tag);
      CHECK(wrong == 0, "round %d, tag %u: %zu of %zu wrong", round, tag, wrong, counts[tag % 6]);
      free(data[tag]);
    }
  }
}

/* Messages with equal tags keep their order, with messages of the other direction and collectives in between. */
static void equal_tags_keep_order(void) {
  enum { MESSAGES = 300 };
  int32_t in[MESSAGES], out[MESSAGES], sum;
  for (int k = 0; k < MESSAGES; k++) {
    in[k] = (int32_t)rank * 10000 + k;
    out[k] = -1;
    MUST(tutti_start(world,
                     &(tutti_call){.collective = TUTTI_SEND,
                                   .send = &in[k],
                                   .count = 1,
                                   .type = TUTTI_I32,
                                   .peer = 1 - rank,
                                   .tag = (uint32_t)k % 3},
                     NULL));
    if (k % 50 == 0) {
      int32_t one = 1;
      MUST(tutti_allreduce(world, &one, &sum, 1, TUTTI_I32, TUTTI_SUM));
      CHECK(sum == 2, "sum %d", sum);
    }
  }
  for (uint32_t tag = 3; tag-- > 0;)
    for (int k = (int)tag; k < MESSAGES; k += 3) MUST(tutti_recv(world, &out[k], 1, TUTTI_I32, 1 - rank, tag));
  MUST(tutti_wait_all(NULL, 0));
  for (int k = 0; k < MESSAGES; k++) CHECK(out[k] == (int32_t)(1 - rank) * 10000 + k, "message %d: %d", k, out[k]);
}

/* A ring of messages, started as one group, as no rank could be the first to wait otherwise. Some messages are long,
 * and one is from a rank to itself. */
static void grouped_ring(void) {
  for (int round = 0; round < 6; round++) {
    size_t count = round % 2 ? 700000 : 5;
    int32_t *in = numbers(count), *out = numbers(count), own = (int32_t)rank, back = -1;
    for (size_t i = 0; i < count; i++) in[i] = (int32_t)(rank + i);
    uint32_t to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    const tutti_call calls[] = {
        {.collective = TUTTI_SEND, .send = in, .count = count, .type = TUTTI_I32, .peer = to, .tag = 1},
        {.collective = TUTTI_RECV, .recv = out, .count = count, .type = TUTTI_I32, .peer = from, .tag = 1},
        {.collective = TUTTI_RECV, .recv = &back, .count = 1, .type = TUTTI_I32, .peer = rank, .tag = 2},
        {.collective = TUTTI_SEND, .send = &own, .count = 1, .type = TUTTI_I32, .peer = rank, .tag = 2},
    };
    tutti_request *request = NULL;
    MUST(tutti_start_all(world, calls, 4, round < 3 ? &request : NULL));
    if (round < 3) MUST(tutti_wait(&request));
    else MUST(tutti_wait_all(NULL, 0));
    CHECK(back == (int32_t)rank, "message to itself: %d", back);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) wrong += out[i] != (int32_t)(from + i);
    CHECK(wrong == 0, "round %d: %zu of %zu wrong", round, wrong, count);
    free(in);
    free(out);
  }
  tutti_request *request = NULL;
  MUST(tutti_start_all(world, NULL, 0, &request));
  MUST(tutti_wait(&request));
}

/* Each rank sends a message longer than a ring to itself, and starts the send before or after the receive. */
static void to_itself(void) {
  enum { COUNT = 3000000 };
  int32_t *in = numbers(COUNT), *out = numbers(COUNT);
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < COUNT; i++) in[i] = i + round, out[i] = -1;
    tutti_call send = {.collective = TUTTI_SEND, .send = in, .count = COUNT, .type = TUTTI_I32, .peer = rank, .tag = 9};
    tutti_call receive = {
        .collective = TUTTI_RECV, .recv = out, .count = COUNT, .type = TUTTI_I32, .peer = rank, .tag = 9};
    tutti_request *first, *second;
    MUST(tutti_start(world, round % 2 ? &send : &receive, &first));
    MUST(tutti_start(world, round % 2 ? &receive : &send, &second));
    MUST(tutti_wait(&second));
    MUST(tutti_wait(&first));
    CHECK(memcmp(in, out, COUNT * sizeof *in) == 0, "round %d: received data differs from sent data", round);
  }
  free(in);
  free(out);
}

/* Calls of a few sizes, whose buffers lie elsewhere each time: a call finds the request of an equal one, which has run with
 * other buffers, and other calls may have been open meanwhile. */
static void moving_buffers(void) {
  enum { ROUNDS = 4000, PLACES = 50, COUNT_MAX = 3000, SPAN = COUNT_MAX * 8 + PLACES };
  static const size_t counts[] = {1, 3, 40, 200, COUNT_MAX};
  static const tutti_collective collectives[] = {TUTTI_ALLREDUCE, TUTTI_REDUCE, TUTTI_BROADCAST, TUTTI_ALLGATHER,
                                                 TUTTI_SCAN};
  uint64_t shared = strtoull(getenv("TEST_SEED"), NULL, 0), own = shared + rank + 1;
  int32_t *in = numbers(SPAN), *out = numbers(SPAN), sum = 0;
  for (int round = 0; round < ROUNDS; round++) {
    const tutti_collective c = collectives[ranks_random(&shared) % 5];
    const size_t count = counts[ranks_random(&shared) % 5], blocks = c == TUTTI_ALLGATHER ? ranks : 1;
    const uint32_t root = (uint32_t)(ranks_random(&shared) % ranks), last = c == TUTTI_SCAN ? rank : ranks - 1;
    const bool others = ranks_random(&shared) % 8 == 0;
    int32_t *from = in + ranks_random(&own) % PLACES, *to = out + ranks_random(&own) % PLACES;
    for (size_t i = 0; i < count; i++) from[i] = (int32_t)rank * 1000 + (int32_t)i + round;
    if (c == TUTTI_BROADCAST && rank == root) memcpy(to, from, count * sizeof *to);
    tutti_request *request = NULL;
    const int32_t one = 1;
    if (others)
      MUST(tutti_start(
          world,
          &(tutti_call){.collective = TUTTI_ALLREDUCE, .send = &one, .recv = &sum, .count = 1, .type = TUTTI_I32},
          &request));
    const tutti_call call = {
        .collective = c, .send = from, .recv = to, .count = count, .type = TUTTI_I32, .root = root};
    if (c == TUTTI_BROADCAST) MUST(tutti_broadcast(world, to, count, TUTTI_I32, root));
    else MUST(tutti_run_call(world, &call));
    if (others) MUST(tutti_wait(&request));
    if (others) CHECK(sum == (int32_t)ranks, "the other call: %d", sum);
    size_t wrong = 0;
    for (size_t i = 0; i < count * blocks && (c != TUTTI_REDUCE || rank == root); i++) {
      const int32_t item = (int32_t)(i % count) + round;
      int32_t expected = c == TUTTI_BROADCAST ? (int32_t)root * 1000 + item : (int32_t)(i / count) * 1000 + item;
      if (c != TUTTI_BROADCAST && c != TUTTI_ALLGATHER)
        expected = (int32_t)(last * (last + 1) / 2 * 1000) + (int32_t)(last + 1) * item;
      wrong += to[i] != expected;
    }
    CHECK(wrong == 0, "round %d: %s of %zu: %zu wrong", round, tutti_collective_name(c), count, wrong);
  }
  free(in);
  free(out);
}

/* Messages between every pair of ranks at once, in both directions, with random sizes, started in random order. */
static void random_traffic(void) {
  uint64_t shared = strtoull(getenv("TEST_SEED"), NULL, 0), own = shared + rank + 1;
  enum { PER_PAIR = 6 };
  for (int round = 0; round < 10; round++) {
    tutti_call calls[2 * PER_PAIR * 8];
    uint32_t count = 0;
    for (uint32_t peer = 0; peer < ranks; peer++)
      for (uint32_t k = 0; k < PER_PAIR; k++)
        for (int way = 0; way < 2; way++) {
          uint32_t from = way ? peer : rank, to = way ? rank : peer;
          uint64_t h = shared + from * 64 + to * 8 + k + (uint64_t)round * 10000;
          size_t n = ranks_random(&h) % 3 ? ranks_random(&h) % 100 : ranks_random(&h) % 60000;
          int32_t *data = numbers(n);
          for (size_t i = 0; i < n; i++) data[i] = way ? -1 : (int32_t)(from * 100 + to * 10 + k + i);
          calls[count++] = (tutti_call){.collective = way ? TUTTI_RECV : TUTTI_SEND,
                                        .send = way ? NULL : data,
                                        .recv = way ? data : NULL,
                                        .count = n,
                                        .type = TUTTI_I32,
                                        .peer = peer,
                                        .tag = k,
                                        .lanes = (uint32_t)(ranks_random(&h) % 4)};
        }
    for (uint32_t i = count; i-- > 1;) {
      uint32_t k = (uint32_t)(ranks_random(&own) % (i + 1));
      tutti_call swap = calls[i];
      calls[i] = calls[k];
      calls[k] = swap;
    }
    tutti_request *requests[2 * PER_PAIR * 8];
    for (uint32_t i = 0; i < count; i++) MUST(tutti_start(world, &calls[i], &requests[i]));
    MUST(tutti_barrier(world));
    MUST(tutti_wait_all(requests, count));
    for (uint32_t k = 0; k < count; k++) {
      const tutti_call *c = &calls[k];
      if (c->collective == TUTTI_RECV) {
        const int32_t *data = c->recv;
        size_t wrong = 0;
        for (size_t i = 0; i < c->count; i++) wrong += data[i] != (int32_t)(c->peer * 100 + rank * 10 + c->tag + i);
        CHECK(wrong == 0, "round %d, from %u, tag %u: %zu of %zu wrong", round, c->peer, c->tag, wrong, c->count);
        free(c->recv);
      } else {
        union {
          const void *in;
          void *out;
        } pointer = {.in = c->send};
        free(pointer.out);
      }
    }
  }
}

/* ---- communicators ---- */

static int32_t sum_over(tutti_comm *comm, int32_t value) {
  int32_t sum = -1;
  MUST(tutti_allreduce(comm, &value, &sum, 1, TUTTI_I32, TUTTI_SUM));
  return sum;
}

static void communicators(void) {
  tutti_comm *self, *dup, *halves, *some, *reversed, *nested;
  MUST(tutti_comm_self(world, &self));
  CHECK(tutti_ranks(self) == 1 && tutti_rank(self) == 0, "self: %u of %u", tutti_rank(self), tutti_ranks(self));
  CHECK(sum_over(self, 5 + (int32_t)rank) == 5 + (int32_t)rank, "sum over self");
  MUST(tutti_comm_dup(world, &dup));
  CHECK(tutti_ranks(dup) == ranks && tutti_rank(dup) == rank, "dup: %u of %u", tutti_rank(dup), tutti_ranks(dup));
  MUST(tutti_comm_split(world, (int)(rank % 2), 0, &halves));
  CHECK(tutti_ranks(halves) == (ranks + 1 - rank % 2) / 2 && tutti_rank(halves) == rank / 2, "halves: %u of %u",
        tutti_rank(halves), tutti_ranks(halves));
  MUST(tutti_comm_split(world, 7, -(int)rank, &reversed)); /* negative keys are allowed, and sort first */
  CHECK(tutti_rank(reversed) == ranks - 1 - rank, "reversed: %u", tutti_rank(reversed));
  some = world;
  MUST(tutti_comm_split(world, rank == 1 ? TUTTI_NO_COLOR : 2147483647, 0, &some));
  CHECK(rank == 1 ? some == NULL : tutti_ranks(some) == ranks - 1, "without rank 1");
  MUST(tutti_comm_split(halves, 0, rank == 0 ? 1 : 0, &nested));
  int32_t odd = rank % 2, members = 0;
  for (uint32_t r = 0; r < ranks; r++) members += (int32_t)r % 2 == odd ? (int32_t)r : 0;
  /* Calls of all communicators are open at once, and must not mix. */
  int32_t value[5], sum[5];
  tutti_comm *comms[] = {world, dup, halves, reversed, nested};
  for (int round = 0; round < 100; round++) {
    tutti_request *requests[5];
    for (int k = 0; k < 5; k++) {
      value[k] = (int32_t)rank + k * round;
      MUST(tutti_start(
          comms[k],
          &(tutti_call){
              .collective = TUTTI_ALLREDUCE, .send = &value[k], .recv = &sum[k], .count = 1, .type = TUTTI_I32},
          &requests[k]));
    }
    MUST(tutti_wait_all(requests, 5));
    for (int k = 0; k < 5; k++) {
      int32_t n = (int32_t)tutti_ranks(comms[k]),
              base = k == 2 || k == 4 ? members : (int32_t)(ranks * (ranks - 1) / 2);
      CHECK(sum[k] == base + n * k * round, "communicator %d, round %d: %d", k, round, sum[k]);
    }
    if (test_failures) return;
  }
  int32_t order = -1;
  if (tutti_rank(reversed) == 0) order = 77;
  MUST(tutti_broadcast(reversed, &order, 1, TUTTI_I32, 0));
  CHECK(order == 77, "broadcast from reversed rank 0: %d", order);
  tutti_comm *frees[] = {nested, some, reversed, halves, self, dup, NULL};
  for (int k = 0; k < 7; k++) CHECK(tutti_comm_free(frees[k]) == TUTTI_OK, "free %d", k);
  CHECK(sum_over(world, 1) == (int32_t)ranks, "sum over the world, after all other communicators were freed");
}

/* A message of one communicator must not be received on another. */
static void communicators_keep_apart(void) {
  tutti_comm *dup;
  MUST(tutti_comm_dup(world, &dup));
  int32_t one = 1, two = 2, a = 0, b = 0;
  if (rank == 0) {
    MUST(tutti_send(dup, &two, 1, TUTTI_I32, 1, 5));
    MUST(tutti_send(world, &one, 1, TUTTI_I32, 1, 5));
  } else {
    MUST(tutti_recv(world, &a, 1, TUTTI_I32, 0, 5));
    MUST(tutti_recv(dup, &b, 1, TUTTI_I32, 0, 5));
    CHECK(a == 1 && b == 2, "received %d and %d", a, b);
  }
  MUST(tutti_comm_free(dup));
}

/* Returns this process's resident memory of a kind, for example "RssShmem:", in KiB. */
static size_t resident_kib(const char *kind) {
  FILE *file = fopen("/proc/self/status", "r");
  if (!file) return 0;
  char line[256];
  size_t kib = 0;
  while (fgets(line, sizeof line, file))
    if (strncmp(line, kind, strlen(kind)) == 0) kib = strtoull(line + strlen(kind), NULL, 10);
  fclose(file);
  return kib;
}

static void made_and_freed(void) {
  size_t early_shared = 0, early_own = 0;
  int32_t *data = numbers(100000);
  for (int round = 0; round < 200; round++) {
    tutti_comm *comm;
    if (round % 3 == 0) MUST(tutti_comm_dup(world, &comm));
    else MUST(tutti_comm_split(world, (int)(rank + (uint32_t)round) % 2, 0, &comm));
    for (int i = 0; i < 100000; i++) data[i] = 1;
    MUST(tutti_allreduce(comm, TUTTI_IN_PLACE, data, 100000, TUTTI_I32, TUTTI_SUM));
    CHECK(data[99999] == (int32_t)tutti_ranks(comm), "round %d: %d", round, data[99999]);
    MUST(tutti_comm_free(comm));
    if (round == 20) early_shared = resident_kib("RssShmem:"), early_own = resident_kib("RssAnon:");
  }
  size_t shared = resident_kib("RssShmem:"), own = resident_kib("RssAnon:");
  CHECK(early_shared > 0 && shared < early_shared + 1024, "shared memory grew from %zu to %zu KiB", early_shared,
        shared);
#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer keeps freed memory for a while */
  CHECK(own < early_own + 4096, "own memory grew from %zu to %zu KiB", early_own, own);
#else
  (void)own;
  (void)early_own;
#endif
  free(data);
}

/* ---- threads ---- */

struct worker {
  tutti_comm *comm;
  int32_t wrong;
};

static void *work(void *argument) {
  struct worker *w = argument;
  int32_t data[500];
  for (int round = 0; round < 1500 && !w->wrong; round++) {
    size_t count = round % 10 ? 1 + (size_t)round % 7 : 500;
    for (size_t i = 0; i < count; i++) data[i] = (int32_t)rank + round;
    tutti_request *request;
    tutti_call call = {.collective = TUTTI_ALLREDUCE, .send = data, .recv = data, .count = count, .type = TUTTI_I32};
    if (tutti_start(w->comm, &call, &request) != TUTTI_OK || tutti_wait(&request) != TUTTI_OK) w->wrong++;
    for (size_t i = 0; i < count; i++)
      w->wrong += data[i] != (int32_t)(ranks * (ranks - 1) / 2 + ranks * (uint32_t)round);
    tutti_comm *dup;
    if (round % 100 == 0 && (tutti_comm_dup(w->comm, &dup) != TUTTI_OK || tutti_barrier(dup) != TUTTI_OK ||
                             tutti_comm_free(dup) != TUTTI_OK))
      w->wrong++;
  }
  return NULL;
}

static void two_threads(void) {
  struct worker workers[3] = {{.comm = world}};
  pthread_t threads[2];
  for (int k = 1; k < 3; k++) MUST(tutti_comm_dup(world, &workers[k].comm));
  for (int k = 0; k < 2; k++)
    if (pthread_create(&threads[k], NULL, work, &workers[k + 1]) != 0) abort();
  work(&workers[0]);
  for (int k = 0; k < 2; k++) pthread_join(threads[k], NULL);
  for (int k = 0; k < 3; k++)
    CHECK(workers[k].wrong == 0, "thread %d: %d wrong: %s", k, workers[k].wrong, tutti_error_message(workers[k].comm));
  for (int k = 1; k < 3; k++) MUST(tutti_comm_free(workers[k].comm));
}

/* ---- edges ---- */

/* All collectives with count 0, and the functions of each collective with extreme arguments. */
static void zero_counts(void) {
  const size_t none[64] = {0};
  for (tutti_collective c = 0; c < TUTTI_SEND; c = tu_collective_next(c)) {
    tutti_request *request;
    tutti_call call = {.collective = c, .type = TUTTI_F64, .root = ranks - 1};
    if (c >= TUTTI_GATHERV) call.counts = call.recv_counts = none;
    MUST(tutti_start(world, &call, &request));
    MUST(tutti_wait(&request));
  }
  MUST(tutti_send(world, NULL, 0, TUTTI_U8, rank, 3));
  MUST(tutti_recv(world, NULL, 0, TUTTI_U8, rank, 3));
  MUST(tutti_allreduce(world, NULL, NULL, 0, TUTTI_F32, TUTTI_AVG));
}

static void one_rank(void) {
  CHECK(ranks == 1, "%u ranks", ranks);
  int32_t in[3] = {1, 2, 3}, out[3] = {0};
  MUST(tutti_allreduce(world, in, out, 3, TUTTI_I32, TUTTI_AVG));
  CHECK(memcmp(in, out, sizeof in) == 0, "allreduce");
  double x = 3.0, y = 0.0;
  tutti_request *request;
  MUST(tutti_start(world,
                   &(tutti_call){.collective = TUTTI_ALLREDUCE,
                                 .send = &x,
                                 .recv = &y,
                                 .count = 1,
                                 .type = TUTTI_F64,
                                 .op = TUTTI_PREMUL_SUM,
                                 .scale = 2.5},
                   &request));
  MUST(tutti_wait(&request));
  CHECK(y == 7.5, "premul_sum of one rank: %g", y);
  MUST(tutti_start(world,
                   &(tutti_call){.collective = TUTTI_ALLREDUCE,
                                 .send = TUTTI_IN_PLACE,
                                 .recv = &x,
                                 .count = 1,
                                 .type = TUTTI_F64,
                                 .op = TUTTI_PREMUL_SUM,
                                 .scale = 2.5},
                   &request));
  MUST(tutti_wait(&request));
  CHECK(x == 7.5, "premul_sum of one rank, in place: %g", x);
  out[0] = -5;
  MUST(tutti_exscan(world, in, out, 3, TUTTI_I32, TUTTI_SUM));
  CHECK(out[0] == -5 && out[1] == 2, "exscan wrote the result buffer of rank 0");
  MUST(tutti_alltoall(world, in, out, 3, TUTTI_I32));
  CHECK(memcmp(in, out, sizeof in) == 0, "alltoall");
  MUST(tutti_gather(world, in, out, 3, TUTTI_I32, 0));
  MUST(tutti_scatter(world, in, out, 3, TUTTI_I32, 0));
  MUST(tutti_broadcast(world, in, 3, TUTTI_I32, 0));
  MUST(tutti_reduce_scatter(world, in, out, 3, TUTTI_I32, TUTTI_SUM));
  MUST(tutti_reduce(world, in, out, 3, TUTTI_I32, TUTTI_SUM, 0));
  MUST(tutti_allgather(world, in, out, 3, TUTTI_I32));
  MUST(tutti_scan(world, in, out, 3, TUTTI_I32, TUTTI_SUM));
  CHECK(memcmp(in, out, sizeof in) == 0, "scan");
  MUST(tutti_barrier(world));
  tutti_comm *dup, *split;
  MUST(tutti_comm_dup(world, &dup));
  MUST(tutti_comm_split(dup, TUTTI_NO_COLOR, 0, &split));
  CHECK(split == NULL, "split with TUTTI_NO_COLOR returned a communicator");
  MUST(tutti_comm_free(dup));
}

static void many_ranks(void) {
  int32_t mine[64 * 3], theirs[64 * 3];
  for (int round = 0; round < 6; round++) {
    CHECK(sum_over(world, (int32_t)rank) == (int32_t)(ranks * (ranks - 1) / 2), "allreduce");
    for (uint32_t i = 0; i < ranks * 3; i++) mine[i] = (int32_t)(rank * 1000 + i);
    MUST(tutti_alltoall(world, mine, theirs, 3, TUTTI_I32));
    for (uint32_t i = 0; i < ranks * 3; i++)
      CHECK(theirs[i] == (int32_t)(i / 3 * 1000 + rank * 3 + i % 3), "alltoall: item %u is %d", i, theirs[i]);
    MUST(tutti_barrier(world));
    tutti_comm *comm;
    MUST(tutti_comm_split(world, (int)(rank % 5), (int)(ranks - rank), &comm));
    uint32_t members = (ranks - rank % 5 + 4) / 5;
    CHECK(tutti_ranks(comm) == members && tutti_rank(comm) == members - 1 - rank / 5, "split: %u of %u",
          tutti_rank(comm), tutti_ranks(comm));
    CHECK(sum_over(comm, 1) == (int32_t)members, "sum over a split communicator");
    MUST(tutti_comm_free(comm));
  }
}

/* Moves a vector of 3 GiB, for which counts, displacements and lengths of 32 bits do not suffice. */
static void three_gib(void) {
  size_t count = (size_t)3 << 30;
  unsigned char *data = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) abort();
  for (size_t i = 0; i < count; i++) data[i] = rank == 0 ? (unsigned char)(i % 251) : 0;
  MUST(tutti_broadcast(world, data, count, TUTTI_U8, 0));
  size_t wrong = 0;
  for (size_t i = 0; i < count; i++) wrong += data[i] != (unsigned char)(i % 251);
  CHECK(wrong == 0, "broadcast: %zu wrong", wrong);
  MUST(tutti_allreduce(world, TUTTI_IN_PLACE, data, count, TUTTI_U8, TUTTI_SUM));
  for (size_t i = 0; i < count; i++) wrong += data[i] != (unsigned char)(2 * (i % 251));
  CHECK(wrong == 0, "allreduce: %zu wrong", wrong);
  munmap(data, count);
}

static void names_and_version(void) {
  CHECK(tutti_version() == TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH, "version %d",
        tutti_version());
  CHECK(strcmp(tutti_err_name(TUTTI_ERR_PEER), "TUTTI_ERR_PEER") == 0, "%s", tutti_err_name(TUTTI_ERR_PEER));
  CHECK(tutti_err_name((tutti_err)77) != NULL, "no name for an unknown error");
  CHECK(tutti_datatype_size(TUTTI_F8E5M2) == 1 && tutti_datatype_size((tutti_datatype)99) == 0, "sizes");
  CHECK(strcmp(tutti_datatype_name(TUTTI_BF16), "bf16") == 0, "%s", tutti_datatype_name(TUTTI_BF16));
  CHECK(tutti_datatype_name((tutti_datatype)99) != NULL, "no name for an unknown type");
  CHECK(tutti_op_name(9999) != NULL && strcmp(tutti_op_name(TUTTI_PREMUL_SUM), "premul_sum") == 0, "operation names");
  CHECK(strcmp(tutti_collective_name(TUTTI_REDUCE_SCATTERV), "reduce_scatterv") == 0, "collective names");
  CHECK(tutti_collective_name((tutti_collective)99) != NULL, "no name for an unknown collective");
  CHECK(tutti_error_message(world)[0] == '\0', "an error message without an error: %s", tutti_error_message(world));
}

/* ---- roles of a rank ---- */

static const struct role {
  const char *name;
  void (*run)(void);
  uint32_t ranks[5]; /* numbers of ranks to run with; 0 ends the list */
  bool only_long;
} roles[] = {{"persistent", persistent, {1, 2, 4}, false},
             {"out_of_order", out_of_order, {2, 3}, false},
             {"wait_all_forms", wait_all_forms, {1, 2, 3}, false},
             {"polling", polling, {2, 4}, false},
             {"tags_out_of_order", tags_out_of_order, {2}, false},
             {"equal_tags_keep_order", equal_tags_keep_order, {2}, false},
             {"grouped_ring", grouped_ring, {1, 2, 3, 5}, false},
             {"to_itself", to_itself, {1, 2}, false},
             {"random_traffic", random_traffic, {1, 2, 4, 8}, false},
             {"moving_buffers", moving_buffers, {1, 2, 3, 8}, false},
             {"communicators", communicators, {2, 3, 5}, false},
             {"communicators_keep_apart", communicators_keep_apart, {2}, false},
             {"made_and_freed", made_and_freed, {2, 3}, false},
             {"two_threads", two_threads, {2, 3}, false},
             {"zero_counts", zero_counts, {1, 2, 5}, false},
             {"one_rank", one_rank, {1}, false},
             {"many_ranks", many_ranks, {16, 64}, false},
             {"names_and_version", names_and_version, {1, 2}, false},
             {"three_gib", three_gib, {2}, true}};
enum { ROLES = sizeof roles / sizeof roles[0] };

static int be_a_rank(const char *name, const char *seed) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  setenv("TEST_SEED", seed, 1);
  tutti_err err = tutti_init(&(tutti_options){.timeout_ms = 100000}, &world);
  if (err != TUTTI_OK) {
    printf("  init: %s: %s\n", tutti_err_name(err), tutti_error_message(NULL));
    return 1;
  }
  rank = tutti_rank(world);
  ranks = tutti_ranks(world);
  for (size_t i = 0; i < ROLES; i++)
    if (strcmp(roles[i].name, name) == 0) roles[i].run();
  if ((err = tutti_comm_free(world)) != TUTTI_OK) {
    printf("  free: rank %u: %s: %s\n", rank, tutti_err_name(err), tutti_error_message(NULL));
    return 1;
  }
  return test_failures ? 1 : 0;
}

static bool memory_for(const struct role *role) {
  if (!role->only_long) return true;
  if (!test_long()) return SKIP("runs only with TEST_LONG"), false;
  uint64_t there = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  if (there < (uint64_t)9 << 30) return SKIP("needs 9 GiB of free memory"), false;
  return true;
}

static void play(const struct role *role) {
  if (!memory_for(role)) return;
  char seed[32];
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)test_seed());
  for (int k = 0; k < 5 && role->ranks[k]; k++) {
    struct ranks_output output;
    int status = ranks_launch(role->ranks[k], role->name, seed, 110, &output);
    CHECK(status == 0, "%u ranks: exit status %d:\n%s", role->ranks[k], status, output.chars);
    free(output.chars);
  }
}

/* Tests need an argument, the role, so this loop replaces test_main. */
int main(int argc, char **argv) {
  if (argc > 3 && strcmp(argv[1], "--as") == 0) return be_a_rank(argv[2], argv[3]);
  size_t passed = 0, failed = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (size_t i = 0; i < ROLES; i++) {
    bool wanted = argc < 2;
    for (int k = 1; k < argc; k++) wanted |= strcmp(argv[k], roles[i].name) == 0;
    if (!wanted) continue;
    test_failures = 0;
    play(&roles[i]);
    printf("%s %s\n", test_failures ? "FAILED" : "ok", roles[i].name);
    if (test_failures) failed++;
    else passed++;
  }
  printf("%zu passed, %zu failed\n", passed, failed);
  return failed ? 1 : 0;
}
