/* blocks_test.c: calls that give the address of each block. The suites of reference.h compare their results with those
 * of other calls; here is what is special: addresses that change, the numbers of elements in partitioned calls, and
 * mistakes. */
#include "ranks.h"
#include "troupe.h"

enum { MOST = 5000 };

/* Memory for one block of each rank, in random order, with gaps. */
struct room {
  int32_t memory[TROUPE_MAX * (MOST + 8)];
  void *blocks[TROUPE_MAX];
};

static void scatter_blocks(struct room *room, uint32_t ranks, size_t count, uint64_t *state) {
  uint32_t order[TROUPE_MAX];
  size_t at = 0;
  for (uint32_t k = 0; k < ranks; k++) {
    const uint32_t other = (uint32_t)(ranks_random(state) % (k + 1));
    order[k] = k;
    order[k] = order[other];
    order[other] = k;
  }
  for (uint32_t k = 0; k < ranks; k++) {
    at += ranks_random(state) % 8;
    room->blocks[order[k]] = room->memory + at;
    at += count;
  }
}

static void check_gathered(struct player *p, void *const blocks[], size_t count, int32_t round, const char *what) {
  for (uint32_t r = 0; r < p->ranks; r++) {
    const int32_t *block = blocks[r];
    for (size_t i = 0; i < count; i++)
      if (block[i] != (int32_t)(r * 10000 + i) + round) {
        wrong(p, "%s, round %d, rank %u: element %zu of block %u is %d", what, round, p->rank, i, r, block[i]);
        return;
      }
  }
}

static void fill_input(const struct player *p, int32_t in[], size_t count, int32_t round) {
  for (size_t i = 0; i < count; i++) in[i] = (int32_t)(p->rank * 10000 + i) + round;
}

/* Addresses change from call to call. The program of the first call serves all of them. The array of addresses belongs
 * to the caller again when the call has started. */
static void addresses_change(struct player *p) {
  static const size_t counts[] = {3, 700, MOST};
  struct room *rooms = calloc(2, sizeof *rooms);
  int32_t *in = malloc(MOST * sizeof *in);
  uint64_t state = p->seed + p->rank;
  if (!rooms || !in) abort();
  for (int k = 0; k < 3; k++) {
    const size_t count = counts[k];
    uint64_t made = 0;
    for (int32_t round = 0; round < 40 && p->stage->failures == 0; round++) {
      struct room *room = &rooms[round % 2];
      void *given[TROUPE_MAX];
      if (round % 5 < 2) scatter_blocks(room, p->ranks, count, &state); /* otherwise the addresses of before */
      memcpy(given, room->blocks, sizeof given);
      fill_input(p, in, count, round);
      const tutti_call call = {
          .collective = TUTTI_ALLGATHER, .send = in, .recv_blocks = given, .count = count, .type = TUTTI_I32};
      tutti_request *request = NULL;
      if (round % 3 == 0) {
        if (!good(p, tutti_run_call(p->comm, &call), "tutti_run_call")) break;
      } else {
        if (!good(p, tutti_start(p->comm, &call, &request), "tutti_start")) break;
        memset(given, 0xff, sizeof given);
        if (!good(p, tutti_wait(&request), "tutti_wait")) break;
      }
      check_gathered(p, room->blocks, count, round, "allgather");
      /* a short call keeps one request for repetitions, so two requests may be in use */
      if (round == 5) made = p->comm->request_ids;
      if (round > 5 && p->comm->request_ids != made) wrong(p, "rank %u: round %d made a request", p->rank, round);
    }
  }
  free(rooms);
  free(in);
}

/* A persistent request keeps its addresses, whatever other calls of the same signature use. */
static void prepared(struct player *p) {
  enum { COUNT = 300 };
  struct room *rooms = calloc(2, sizeof *rooms);
  int32_t in[COUNT];
  uint64_t state = p->seed + p->rank;
  tutti_request *request = NULL;
  if (!rooms) abort();
  for (int k = 0; k < 2; k++) scatter_blocks(&rooms[k], p->ranks, COUNT, &state);
  tutti_call call = {
      .collective = TUTTI_ALLGATHER, .send = in, .recv_blocks = rooms[0].blocks, .count = COUNT, .type = TUTTI_I32};
  bool going = good(p, tutti_prepare(p->comm, &call, &request), "tutti_prepare");
  call.recv_blocks = rooms[1].blocks;
  for (int32_t round = 0; round < 6 && going; round++) {
    fill_input(p, in, COUNT, round);
    going = good(p, tutti_restart(request), "tutti_restart") && good(p, tutti_wait(&request), "tutti_wait") &&
            good(p, tutti_run_call(p->comm, &call), "tutti_run_call");
    check_gathered(p, rooms[0].blocks, COUNT, round, "prepared");
    check_gathered(p, rooms[1].blocks, COUNT, round, "between");
  }
  tutti_request_free(request);
  free(rooms);
}

/* ---- partitioned calls: elements are numbered as if the blocks were packed ---- */

struct told {
  struct player *player;
  void *const *blocks;
  size_t count;
  bool seen[TROUPE_MAX * MOST];
};

static void note(void *context, size_t first, size_t count) {
  struct told *t = context;
  for (size_t i = first; i < first + count; i++) {
    const size_t block = i / t->count, at = i % t->count;
    if (block >= t->player->ranks || t->seen[i]) {
      wrong(t->player, "element %zu was reported twice, or is none", i);
      return;
    }
    t->seen[i] = true;
    const int32_t found = ((const int32_t *)t->blocks[block])[at], wanted = (int32_t)(block * 10000 + at);
    if (found != wanted) wrong(t->player, "element %zu is %d when it is reported, expected %d", i, found, wanted);
  }
}

static void reports(struct player *p) {
  struct room *room = calloc(1, sizeof *room);
  struct told *told = calloc(1, sizeof *told);
  int32_t *in = malloc(MOST * sizeof *in);
  uint64_t state = p->seed + p->rank;
  if (!room || !told || !in) abort();
  scatter_blocks(room, p->ranks, MOST, &state);
  fill_input(p, in, MOST, 0);
  *told = (struct told){.player = p, .blocks = room->blocks, .count = MOST};
  const tutti_call call = {.collective = TUTTI_ALLGATHER,
                           .send = in,
                           .recv_blocks = room->blocks,
                           .count = MOST,
                           .type = TUTTI_I32,
                           .on_ready = note,
                           .on_ready_context = told};
  if (good(p, tutti_run_call(p->comm, &call), "tutti_run_call"))
    for (size_t i = 0; i < p->ranks * (size_t)MOST; i++)
      if (!told->seen[i]) wrong(p, "rank %u: element %zu was not reported", p->rank, i);
  free(room);
  free(told);
  free(in);
}

static void fills(struct player *p) {
  enum { COUNT = 1200, PART = 500 };
  struct room *room = calloc(1, sizeof *room);
  int32_t out[COUNT];
  uint64_t state = p->seed + p->rank;
  tutti_request *request = NULL;
  if (!room) abort();
  scatter_blocks(room, p->ranks, COUNT, &state);
  const tutti_call call = {.collective = TUTTI_REDUCE_SCATTER,
                           .send_blocks = (const void *const *)room->blocks,
                           .recv = out,
                           .count = COUNT,
                           .type = TUTTI_I32,
                           .in_parts = true};
  bool going = good(p, tutti_start(p->comm, &call, &request), "tutti_start");
  const size_t all = p->ranks * (size_t)COUNT;
  for (size_t end = all; end > 0 && going;) { /* from the last part to the first */
    const size_t first = end > PART ? end - PART : 0;
    for (size_t i = first; i < end; i++)
      ((int32_t *)room->blocks[i / COUNT])[i % COUNT] = (int32_t)(p->rank * 100000 + i);
    going = good(p, tutti_request_fill(request, first, end - first), "tutti_request_fill");
    end = first;
  }
  if (going && good(p, tutti_wait(&request), "tutti_wait"))
    for (size_t i = 0; i < COUNT; i++) {
      const int32_t before = (int32_t)(p->ranks * (p->ranks - 1) / 2 * 100000);
      const int32_t wanted = before + (int32_t)(p->ranks * (p->rank * COUNT + i));
      if (out[i] != wanted) wrong(p, "rank %u: element %zu is %d, expected %d", p->rank, i, out[i], wanted);
    }
  free(room);
}

/* ---- mistakes ---- */

enum { COUNT = 4 };

static void refused(struct player *p, const tutti_call *call, const char *facts) {
  tutti_comm *dup = NULL;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "tutti_comm_dup")) return;
  const tutti_err err = tutti_run_call(dup, call);
  if (err != TUTTI_ERR_ARGUMENT || !test_contains(tutti_error_message(dup), facts))
    wrong(p, "rank %u: expected the facts '%s', found %s: '%s'", p->rank, facts, tutti_err_name(err),
          tutti_error_message(dup));
  tutti_comm_free(dup);
}

/* Addresses that are missing, or of blocks that overlap. */
static void bad_addresses(struct player *p, const tutti_call *gather) {
  int32_t all[TROUPE_MAX * COUNT] = {0}, out[COUNT];
  void *blocks[TROUPE_MAX], **last = &blocks[p->ranks - 1], *kept;
  char facts[128];
  for (uint32_t r = 0; r < p->ranks; r++) blocks[r] = all + r * COUNT;
  tutti_call call = *gather, sum = {.collective = TUTTI_REDUCE_SCATTER,
                                    .send_blocks = (const void *const *)blocks,
                                    .recv = (char *)all + 2,
                                    .count = COUNT,
                                    .type = TUTTI_I32};
  call.recv_blocks = blocks;
  kept = *last;
  *last = NULL;
  snprintf(facts, sizeof facts, "allgather: |recv_blocks[%u] is NULL|16 bytes", p->ranks - 1);
  refused(p, &call, facts);
  *last = TUTTI_IN_PLACE;
  snprintf(facts, sizeof facts, "allgather: |recv_blocks[%u] is TUTTI_IN_PLACE", p->ranks - 1);
  refused(p, &call, facts);
  *last = kept;
  refused(p, &sum, "reduce_scatter: |overlap at address");
  if (p->ranks == 1) return;
  *last = (char *)blocks[0] + 1; /* not a whole element */
  snprintf(facts, sizeof facts, "allgather: |ranks 0 and %u overlap at address", p->ranks - 1);
  refused(p, &call, facts);
  sum.recv = out;
  good(p, tutti_run_call(p->comm, &sum), "blocks that are only read may overlap");
}

static void mistakes(struct player *p) {
  int32_t in[COUNT] = {0}, all[TROUPE_MAX * COUNT];
  void *blocks[TROUPE_MAX];
  size_t counts[TROUPE_MAX], offsets[TROUPE_MAX];
  for (uint32_t r = 0; r < p->ranks; r++) blocks[r] = all + r * COUNT, counts[r] = COUNT, offsets[r] = r * COUNT;
  const void *const *from = (const void *const *)blocks;
  const tutti_call gather = {
      .collective = TUTTI_ALLGATHER, .send = in, .recv_blocks = blocks, .count = COUNT, .type = TUTTI_I32};
  const tutti_call gatherv = {.collective = TUTTI_ALLGATHERV,
                              .send = in,
                              .recv_blocks = blocks,
                              .counts = counts,
                              .offsets = offsets,
                              .type = TUTTI_I32};
  const tutti_call exchange = {.collective = TUTTI_ALLTOALLV,
                               .send_blocks = from,
                               .recv = all,
                               .counts = counts,
                               .recv_counts = counts,
                               .recv_offsets = offsets,
                               .offsets = offsets,
                               .type = TUTTI_I32};
  const tutti_call sum = {
      .collective = TUTTI_ALLREDUCE, .send = in, .recv_blocks = blocks, .count = COUNT, .type = TUTTI_I32};
  tutti_call call = gather;
  call.recv = all;
  refused(p, &call, "allgather: |recv and recv_blocks");
  call = gather;
  call.send_blocks = from;
  refused(p, &call, "allgather: |send_blocks is set|expected NULL");
  refused(p, &gatherv, "allgatherv: |offsets and recv_blocks");
  refused(p, &exchange, "alltoallv: |offsets and send_blocks");
  refused(p, &sum, "allreduce: |recv_blocks is set");
  call = (tutti_call){.collective = TUTTI_BARRIER, .send_blocks = from};
  refused(p, &call, "barrier: |send_blocks is set");
  call = (tutti_call){.collective = TUTTI_SEND, .send_blocks = from, .count = COUNT, .type = TUTTI_I32};
  refused(p, &call, "send: |send_blocks is set");
  bad_addresses(p, &gather);
  good(p, tutti_barrier(p->comm), "barrier after the mistakes");
}

static const struct troupe_case cases[] = {{TROUPE_CASE(addresses_change)},
                                           {TROUPE_CASE(prepared)},
                                           {TROUPE_CASE(reports)},
                                           {TROUPE_CASE(fills)},
                                           {TROUPE_CASE(mistakes)}};

static const struct troupe_transport transports[] = {
#ifndef __SANITIZE_THREAD__
    {"shm", troupe_over_shm, {1, 2, 3, 6}},
#endif
    {"loop", troupe_over_loop, {1, 4}},
    {0},
};

int main(int argc, char **argv) { return troupe_main(cases, sizeof cases / sizeof cases[0], transports, argc, argv); }
