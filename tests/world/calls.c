/* calls.c: the acts of a program that are collectives: all forms, on vectors and on tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/base.h"
#include "tests/buffers.h"
#include "tests/tensors.h"
#include "tests/world/rank.h"

/* ---- on vectors ---- */

tutti_err rank_prepare(tutti_comm *world) {
  buffers.comm = world;
  ref_memory = (struct ref_memory){buffers_acquire, buffers_release};
  return ref_register();
}

static tutti_err call_by_name(tutti_comm *comm, const tutti_call *c) {
  if (c->op == TUTTI_PREMUL_SUM) return tutti_run_call(comm, c); /* named functions have no factor */
  switch (c->collective) {
    case TUTTI_ALLREDUCE: return tutti_allreduce(comm, c->send, c->recv, c->count, c->type, c->op);
    case TUTTI_REDUCE: return tutti_reduce(comm, c->send, c->recv, c->count, c->type, c->op, c->root);
    case TUTTI_ALLGATHER: return tutti_allgather(comm, c->send, c->recv, c->count, c->type);
    case TUTTI_ALLTOALL: return tutti_alltoall(comm, c->send, c->recv, c->count, c->type);
    case TUTTI_BARRIER: return tutti_barrier(comm);
    default: return tutti_run_call(comm, c);
  }
}

/* Polls; a program that polls for long works in between. */
static tutti_err wait_polling(tutti_request **request) {
  enum { AT_ONCE = 200, OFTEN = 4000, SHORT_US = 20, LONG_US = 500 };
  bool done = false;
  tutti_err err = TUTTI_OK;
  for (uint32_t polls = 0; !done && err == TUTTI_OK; polls++) {
    if (polls >= AT_ONCE) world_sleep_us(polls < OFTEN ? SHORT_US : LONG_US);
    err = tutti_test(request, &done);
  }
  return err;
}

/* Returns the name of an algorithm that serves the case; NULL: the library chooses. */
static const char *any_algorithm(const struct ref_case *c, uint64_t seed) {
  const struct tu_algorithm *a = tu_algorithms[world_mix(seed, 12, 0) % tu_algorithm_count];
  const struct tu_wanted wanted = {
      .collective = c->collective, .ranks = c->ranks, .bytes = SIZE_MAX, .rank_order = c->op >= REF_BUILT_IN};
  const char *why;
  return a->collective == c->collective && tu_algorithm_serves(a, &wanted, &why) ? a->name : NULL;
}

/* The large counts take long where much is sent over the network, so calls that cross it have smaller ones. */
static struct ref_case case_of(const struct actor *a, const struct world_act *act, tutti_comm *comm) {
  const uint64_t s = act->seed;
  static const size_t counts[] = {0, 1, 2, 7, 64, 500, 3000, 20000};
  struct ref_case c = {.ranks = tutti_ranks(comm), .seed = world_mix(s, 3, 0)};
  c.collective = ref_collectives[world_mix(s, 4, 0) % REF_COLLECTIVES];
  c.aliasing = (enum ref_aliasing)(world_mix(s, 5, 0) % REF_ALIASINGS);
  c.blocks = (enum ref_blocks)(world_mix(s, 6, 0) % REF_BLOCKS);
  c.type = ref_types[world_mix(s, 7, 0) % REF_TYPES];
  c.op = (uint32_t)(world_mix(s, 8, 0) % REF_OPS);
  const bool near = world_locals(a->program, a->program->host[a->rank]) == a->program->ranks;
  c.count = counts[world_mix(s, 9, 0) % (world_mix(s, 10, 0) % 4 != 0  ? 6
                                         : near                        ? 8
                                         : act->form == WORLD_REPEATED ? 5
                                                                       : 7)];
  /* Through very short rings, longer vectors take longer than the world's limits. */
  if (a->program->ring_bytes) c.count = tu_min(c.count, a->program->ring_bytes < 1024 ? 1000 : 3000);
  c.root = (uint32_t)(world_mix(s, 11, 0) % c.ranks);
  if (!ref_valid(&c)) c.op = TUTTI_MAX;
  if (c.collective == TUTTI_BARRIER) c.aliasing = REF_APART;
  c.algorithm = any_algorithm(&c, s);
  return c;
}

/* Makes the case another one: of another collective, operation, root or count. */
static void change(struct ref_case *c, uint64_t seed) {
  const struct ref_case before = *c;
  const uint64_t how = world_mix(seed, 16, 0) % 4;
  if (how == 1 && ref_reduces(c->collective)) c->op = c->op == TUTTI_MAX ? TUTTI_MIN : TUTTI_MAX;
  if (how == 2 && ref_rooted(c->collective)) c->root = (c->root + 1) % c->ranks;
  if (how == 3 && !ref_vector(c->collective) && c->collective != TUTTI_BARRIER) c->count++;
  if (!ref_valid(c) || memcmp(c, &before, sizeof before) == 0) {
    *c = before;
    c->collective = before.collective == TUTTI_ALLGATHER ? TUTTI_ALLTOALL : TUTTI_ALLGATHER;
  }
  c->algorithm = NULL;
}

/* Returns true if ranks must notice a different call. Without data, vector collectives send no messages. */
static bool may_differ(const struct ref_case *c) {
  return c->ranks > 1 && (c->count > 0 || c->collective == TUTTI_BARRIER);
}

/* Makes another call than the other ranks. */
static tutti_err call_otherwise(tutti_comm *comm, struct ref_case c, uint64_t seed) {
  struct ref_run run;
  change(&c, seed);
  ref_run_init(&run, &c, tutti_rank(comm));
  ref_fill(&run);
  const tutti_err err = call_by_name(comm, &run.call);
  ref_run_fini(&run);
  return err == TUTTI_OK ? tutti_barrier(comm) : err; /* a root may be done before the others notice */
}

/* Makes the same call on the same buffers several times, with other data. Some ranks are late. The last call may be
 * another one than that of the other ranks. */
static tutti_err call_repeatedly(struct actor *a, tutti_comm *comm, struct work *w, uint64_t seed) {
  char text[512];
  tutti_err err = TUTTI_OK;
  const uint64_t times = 2 + world_mix(seed, 13, 0) % 12;
  for (uint64_t i = 0; i < times && err == TUTTI_OK; i++) {
    if (world_mix(seed, 14 + a->rank, i) % 4 == 0) world_sleep_us(world_mix(seed, 15 + a->rank, i) % 400);
    if (i > 0) ref_fill(&w->run);
    if (i + 1 == times && may_differ(&w->run.c) && world_is_hit(a->act, WORLD_MISMATCH))
      return call_otherwise(comm, w->run.c, seed);
    err = call_by_name(comm, &w->run.call);
    /* the caller compares the results of the last call */
    if (err == TUTTI_OK && i + 1 < times && !ref_agrees(&w->run, text, sizeof text))
      world_fail("call %u: %s", (unsigned)i, text);
  }
  return err;
}

/* Starts a persistent call up to four times. If all ranks take part, one of them may be late each time, in total for
 * longer than a short time limit. */
static tutti_err restart_repeatedly(struct actor *a, const struct world_act *act, struct work *w) {
  char text[512];
  tutti_comm *comm = a->comm[act->comm];
  const uint64_t s = act->seed, times = 1 + world_mix(s, 13, 0) % 4;
  const bool late = act->comm == 0 && world_mix(s, 14, 0) % 2 && s % tutti_ranks(comm) == tutti_rank(comm);
  tutti_err err = tutti_prepare(comm, &w->run.call, &w->request);
  for (uint64_t i = 0; i < times && err == TUTTI_OK; i++) {
    if (i > 0) {
      if (!ref_agrees(&w->run, text, sizeof text)) world_fail("call %u: %s", (unsigned)i, text);
      ref_fill(&w->run);
      err = tutti_barrier(comm);
    }
    if (late) world_sleep_us(80000);
    tutti_request *request = w->request;
    if (err == TUTTI_OK) err = tutti_restart(w->request);
    if (err == TUTTI_OK) err = tutti_wait(&request);
  }
  tutti_request_free(w->request);
  return err;
}

/* Ends a call: compares the results if it succeeded. */
static void end_work(struct work *w, tutti_err err) {
  char text[512];
  if (err == TUTTI_OK && !ref_agrees(&w->run, text, sizeof text)) world_fail("%s", text);
  ref_run_fini(&w->run);
  w->open = false;
}

tutti_err rank_call(struct actor *a, const struct world_act *act) {
  tutti_comm *comm = a->comm[act->comm];
  struct work own = {.open = false}, *w = act->form == WORLD_LATER ? &a->work[act->request] : &own;
  struct ref_case c = case_of(a, act, comm);
  if (act->form != WORLD_REPEATED && may_differ(&c) && world_is_hit(a->act, WORLD_MISMATCH)) change(&c, act->seed);
  ref_run_init(&w->run, &c, tutti_rank(comm));
  ref_fill(&w->run);
  ref_want(&w->run);
  w->request = NULL;
  tutti_err err = TUTTI_OK;
  switch (act->form) {
    case WORLD_NAMED: err = call_by_name(comm, &w->run.call); break;
    case WORLD_RUN: err = tutti_run_call(comm, &w->run.call); break;
    case WORLD_REPEATED: err = call_repeatedly(a, comm, w, act->seed); break;
    case WORLD_DETACHED:
      err = tutti_start(comm, &w->run.call, NULL);
      if (err == TUTTI_OK) err = tutti_wait_all(NULL, 0);
      break;
    case WORLD_PERSISTENT: err = restart_repeatedly(a, act, w); break;
    case WORLD_GROUP:
      err = tutti_start_all(comm, &w->run.call, 1, &w->request);
      if (err == TUTTI_OK) err = tutti_wait(&w->request);
      break;
    default:
      err = tutti_start(comm, &w->run.call, &w->request);
      if (err == TUTTI_OK && act->form == WORLD_LATER) {
        w->open = true;
        return TUTTI_OK;
      }
      if (err == TUTTI_OK) err = act->form == WORLD_POLLED ? wait_polling(&w->request) : tutti_wait(&w->request);
  }
  end_work(w, err);
  return err;
}

tutti_err rank_finish(struct actor *a, const struct world_act *act) {
  struct work *w = &a->work[act->request];
  tutti_err err = tutti_wait(&w->request);
  end_work(w, err);
  return err;
}

void rank_drop(struct actor *a) {
  for (int i = 0; i < WORLD_REQUESTS_MAX; i++)
    if (a->work[i].open) ref_run_fini(&a->work[i].run);
}

/* ---- messages ---- */

tutti_err rank_exchange(struct actor *a, const struct world_act *act) {
  tutti_comm *comm = a->comm[act->comm];
  enum { MAX = 4000 };
  const uint32_t n = tutti_ranks(comm), me = tutti_rank(comm);
  const size_t count =
      world_mix(act->seed, 2, 0) % 3 ? world_mix(act->seed, 3, 0) % 20 : world_mix(act->seed, 3, 0) % MAX;
  int32_t *in = malloc(MAX * sizeof *in), *out = malloc(MAX * sizeof *out);
  if (!in || !out) abort();
  for (size_t i = 0; i < count; i++) in[i] = (int32_t)world_mix(act->seed, me, i);
  const uint32_t tag = (uint32_t)(act->seed % 3), before = (me + n - 1) % n;
  const tutti_call calls[2] = {
      {.collective = TUTTI_SEND, .send = in, .count = count, .type = TUTTI_I32, .peer = (me + 1) % n, .tag = tag},
      {.collective = TUTTI_RECV, .recv = out, .count = count, .type = TUTTI_I32, .peer = before, .tag = tag}};
  tutti_request *request;
  tutti_err err = tutti_start_all(comm, calls, 2, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  for (size_t i = 0; i < count && err == TUTTI_OK; i++)
    if (out[i] != (int32_t)world_mix(act->seed, before, i)) {
      world_fail("exchange of act %u: rank %u of %u got a wrong item %zu", a->act, me, n, i);
      break;
    }
  free(in);
  free(out);
  return err;
}

/* Each rank sends many messages of tag 0 and one of tag 1 to the next rank, and receives that of tag 1 first. */
tutti_err rank_burst(struct actor *a, const struct world_act *act) {
  enum { MAX = 100, ITEMS = 40 };
  tutti_comm *comm = a->comm[act->comm];
  const uint32_t n = tutti_ranks(comm), me = tutti_rank(comm), next = (me + 1) % n, before = (me + n - 1) % n;
  const uint32_t messages = 2 + (uint32_t)(world_mix(act->seed, 2, 0) % (MAX - 1));
  const size_t items = world_mix(act->seed, 3, 0) % (ITEMS + 1);
  static int32_t in[MAX + 1][ITEMS], out[ITEMS];
  tutti_err err = TUTTI_OK;
  for (uint32_t m = 0; m < messages && err == TUTTI_OK; m++) {
    for (size_t i = 0; i < items; i++) in[m][i] = (int32_t)world_mix(act->seed, me * 1000 + m, i);
    const tutti_call call = {.collective = TUTTI_SEND,
                             .send = in[m],
                             .count = items,
                             .type = TUTTI_I32,
                             .peer = next,
                             .tag = m + 1 == messages};
    err = tutti_start(comm, &call, NULL);
  }
  for (uint32_t k = 0; k < messages && err == TUTTI_OK; k++) {
    const uint32_t m = k == 0 ? messages - 1 : k - 1;
    err = tutti_recv(comm, out, items, TUTTI_I32, before, k == 0);
    for (size_t i = 0; i < items && err == TUTTI_OK; i++)
      if (out[i] != (int32_t)world_mix(act->seed, before * 1000 + m, i)) {
        world_fail("burst of act %u: rank %u of %u: item %zu of message %u is wrong", a->act, me, n, i, m);
        return err;
      }
  }
  return err == TUTTI_OK ? tutti_wait_all(NULL, 0) : err;
}

/* Each rank sends to the next one, and closes the communicator once it has received. So messages to a late rank must
 * outlive the sender's communicator. */
tutti_err rank_leave(struct actor *a, const struct world_act *act) {
  tutti_comm *comm = a->comm[act->comm];
  const uint32_t n = tutti_ranks(comm), me = tutti_rank(comm), before = (me + n - 1) % n;
  int32_t in[16], out[16];
  a->comm[act->comm] = NULL;
  for (size_t i = 0; i < 16; i++) in[i] = (int32_t)world_mix(act->seed, me, i);
  tutti_err err = tutti_send(comm, in, 16, TUTTI_I32, (me + 1) % n, 3);
  if (err == TUTTI_OK && world_mix(act->seed, me, 99) % 2) world_sleep_us(world_mix(act->seed, me, 98) % 3000);
  if (err == TUTTI_OK) err = tutti_recv(comm, out, 16, TUTTI_I32, before, 3);
  for (size_t i = 0; i < 16 && err == TUTTI_OK; i++)
    if (out[i] != (int32_t)world_mix(act->seed, before, i))
      world_fail("leave of act %u: rank %u got a wrong item", a->act, me);
  const tutti_err end = tutti_comm_close(comm);
  return err == TUTTI_OK ? end : err;
}

/* ---- on tensors ---- */

/* The value of an element of a rank's input. */
static int32_t value_of(uint64_t seed, uint32_t rank, const size_t i[TUTTI_DIMS]) {
  uint64_t at = 0;
  for (int d = 0; d < TUTTI_DIMS; d++) at = at * 1000 + i[d];
  return (int32_t)(world_mix(seed, rank, at) % 1000);
}

/* A call on tensors of i32, cut along dimension `dim`. */
struct cut {
  tutti_collective collective;
  uint32_t ranks, rank, root;
  int dim;
  size_t shape[TUTTI_DIMS]; /* of one block */
  uint64_t seed;
};

/* Returns the value that an element of this rank's output must have. */
static int32_t wanted_of(const struct cut *c, const size_t index[TUTTI_DIMS]) {
  size_t i[TUTTI_DIMS];
  const size_t length = c->shape[c->dim];
  int32_t sum = 0;
  memcpy(i, index, sizeof i);
  switch (c->collective) {
    case TUTTI_BROADCAST: return value_of(c->seed, c->root, i);
    case TUTTI_ALLGATHER: i[c->dim] %= length; return value_of(c->seed, (uint32_t)(index[c->dim] / length), i);
    case TUTTI_ALLTOALL:
      i[c->dim] = c->rank * length + index[c->dim] % length;
      return value_of(c->seed, (uint32_t)(index[c->dim] / length), i);
    case TUTTI_REDUCE_SCATTER: i[c->dim] += c->rank * length; break;
    default: break;
  }
  for (uint32_t r = 0; r < c->ranks; r++) sum += value_of(c->seed, r, i);
  return sum;
}

/* Makes a tensor of `blocks` blocks along the dimension, in a random layout, and its memory. */
static int32_t *make_tensor(tutti_tensor *t, const struct cut *c, uint32_t blocks, uint64_t seed) {
  const struct tensors_kind *k = &tensors_kinds[world_mix(seed, 1, 0) % TENSORS_KINDS];
  size_t shape[TUTTI_DIMS];
  memcpy(shape, c->shape, sizeof shape);
  shape[c->dim] *= blocks;
  if (tensors_make(t, k, TUTTI_I32, shape, (tutti_tiles){.rows = 4, .cols = 4}) != TUTTI_OK &&
      tensors_make(t, &tensors_kinds[0], TUTTI_I32, shape, (tutti_tiles){0}) != TUTTI_OK)
    abort();
  t->data = calloc(1, tutti_tensor_bytes(t) + 1);
  if (!t->data) abort();
  return t->data;
}

tutti_err rank_tensor(struct actor *a, const struct world_act *act) {
  static const tutti_collective collectives[] = {TUTTI_ALLREDUCE, TUTTI_BROADCAST, TUTTI_ALLGATHER,
                                                 TUTTI_REDUCE_SCATTER, TUTTI_ALLTOALL};
  static const size_t lengths[] = {1, 2, 3, 5, 8, 17};
  const uint64_t s = act->seed;
  tutti_comm *comm = a->comm[act->comm];
  struct cut c = {collectives[world_mix(s, 3, 0) % 5], tutti_ranks(comm), tutti_rank(comm), 0, 0, {0}, s};
  c.root = (uint32_t)(world_mix(s, 4, 0) % c.ranks);
  c.dim = (int)(world_mix(s, 5, 0) % TUTTI_DIMS);
  for (int d = 0; d < TUTTI_DIMS; d++)
    c.shape[d] = d < 2 ? 1 + world_mix(s, 6, (uint64_t)d) % 2 : lengths[world_mix(s, 6, (uint64_t)d) % 6];
  const bool scatters = c.collective == TUTTI_REDUCE_SCATTER || c.collective == TUTTI_ALLTOALL;
  const bool gathers = c.collective == TUTTI_ALLGATHER || c.collective == TUTTI_ALLTOALL;
  const bool has_in = c.collective != TUTTI_BROADCAST || c.rank == c.root;
  tutti_tensor in, out;
  size_t i[TUTTI_DIMS] = {0};
  int32_t *from = make_tensor(&in, &c, scatters ? c.ranks : 1, s + 1 + 2 * c.rank);
  int32_t *to = make_tensor(&out, &c, gathers ? c.ranks : 1, s + 2 + 2 * c.rank);
  do from[tensors_where(&in, i)] = value_of(s, c.rank, i);
  while (tensors_next(in.shape, i));
  tutti_err err = tutti_run_call(comm, &(tutti_call){.collective = c.collective,
                                                     .op = TUTTI_SUM,
                                                     .root = c.root,
                                                     .in = has_in ? &in : NULL,
                                                     .out = &out,
                                                     .dim = c.dim});
  memset(i, 0, sizeof i);
  do {
    const int32_t found = to[tensors_where(&out, i)];
    if (err == TUTTI_OK && found != wanted_of(&c, i))
      world_fail("tensor of act %u: rank %u of %u: element %zu,%zu,%zu,%zu,%zu is %d, expected %d", a->act, c.rank,
                 c.ranks, i[0], i[1], i[2], i[3], i[4], found, wanted_of(&c, i));
  } while (err == TUTTI_OK && tensors_next(out.shape, i));
  free(from);
  free(to);
  return err;
}
