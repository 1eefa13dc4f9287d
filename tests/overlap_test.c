/* test: slow timeout=300 */
/* overlap_test.c: partitioned calls. An element that on_ready reports must have its final value at once, and keep it;
 * every element is reported once. Input that is not filled is not read, and in place not written: it holds poison until
 * it is filled. Tests every algorithm, in place and not, on threads and on processes, and errors. */
#include <sched.h>
#include <tutti/tensor.h>

#include "algo/algo.h"
#include "base/text.h"
#include "buffers.h"
#include "call/pace.h"
#include "comm/failure.h"
#include "reference.h"
#include "troupe.h"

/* ---- a buffer as a row of elements ---- */

#define NOWHERE UINT32_MAX

/* Position of element n of a buffer: element `index` of block `block`, or a gap. */
struct spot {
  uint32_t block; /* NOWHERE: the element is in a gap */
  size_t index;
};

struct row {
  size_t count; /* number of elements, gaps included */
  uint32_t item;
  struct spot *spots;
  unsigned char *data; /* address of element 0 */
};

static struct row row_of(const struct ref_buffer *b, uint32_t item, unsigned char *data) {
  struct row row = {.item = item, .data = data};
  for (uint32_t k = 0; k < b->blocks; k++)
    if (b->counts[k] > 0 && b->offsets[k] + b->counts[k] > row.count) row.count = b->offsets[k] + b->counts[k];
  row.spots = malloc((row.count + 1) * sizeof *row.spots);
  if (!row.spots) abort();
  for (size_t n = 0; n < row.count; n++) row.spots[n] = (struct spot){NOWHERE, 0};
  for (uint32_t k = 0; k < b->blocks; k++)
    for (size_t i = 0; i < b->counts[k]; i++) row.spots[b->offsets[k] + i] = (struct spot){k, i};
  return row;
}

static struct row input_row(const struct ref_run *r) {
  uint32_t item = ref_item_bytes(r->c.type);
  unsigned char *data = r->in_home->data;
  if (r->in_place && ref_longer_of(r->c.collective) == REF_OUT_LONGER) data += r->out.offsets[r->rank] * item;
  return row_of(&r->in, item, data);
}

static struct row output_row(const struct ref_run *r) {
  uint32_t item = ref_item_bytes(r->c.type);
  unsigned char *data = r->out_home->data;
  if (r->in_place && r->out_home == &r->in) data += r->in.offsets[r->rank] * item;
  /* The root of a broadcast may give its input only. */
  if (r->c.collective == TUTTI_BROADCAST && r->rank == r->c.root && !r->call.recv) data = r->in_home->data;
  if (r->c.collective == TUTTI_EXSCAN && r->rank == 0) return (struct row){.item = item, .data = data};
  return row_of(&r->out, item, data);
}

/* ---- elements that on_ready has reported ---- */

struct witness {
  struct player *player;
  struct ref_run *run;
  struct row out;
  bool *told;
  size_t told_count, calls;
};

static bool is_right(const struct witness *w, size_t n) {
  const struct spot *s = &w->out.spots[n];
  return ref_load(w->out.data + n * w->out.item, w->out.item) ==
         ref_output(&w->run->c, w->run->rank, s->block, s->index);
}

static void say_wrong(const struct witness *w, const char *what, size_t first, size_t count) {
  char text[768];
  ref_case_print(&w->run->c, text, sizeof text);
  wrong(w->player, "rank %u: %s, in %zu elements from %zu on of %zu: %s", w->player->rank, what, count, first,
        w->out.count, text);
}

static void on_ready(void *context, size_t first, size_t count) {
  struct witness *w = context;
  w->calls++;
  if (count == 0 || first + count > w->out.count) {
    say_wrong(w, "on_ready outside the buffer", first, count);
    return;
  }
  for (size_t n = first; n < first + count; n++) {
    if (w->out.spots[n].block == NOWHERE) say_wrong(w, "on_ready for a gap", n, 1);
    else if (w->told[n]) say_wrong(w, "on_ready twice", n, 1);
    else if (!is_right(w, n)) say_wrong(w, "on_ready before the value is final", n, 1);
    if (w->player->stage->failures) return;
    w->told[n] = true;
  }
  w->told_count += count;
}

/* Checks that no later write has changed a reported element. */
static void check_told(const struct witness *w) {
  for (size_t n = 0; n < w->out.count && w->player->stage->failures == 0; n++)
    if (w->told[n] && !is_right(w, n)) say_wrong(w, "changed after on_ready", n, 1);
}

static void check_all_told(const struct witness *w) {
  for (size_t n = 0; n < w->out.count && w->player->stage->failures == 0; n++)
    if (w->out.spots[n].block != NOWHERE && !w->told[n]) say_wrong(w, "complete without on_ready", n, 1);
}

/* ---- elements that are filled ---- */

enum { PIECES_MAX = 9 };

struct filler {
  struct row in;
  unsigned char *kept; /* copy of the input while the input is poisoned */
  size_t firsts[PIECES_MAX], counts[PIECES_MAX];
  uint32_t piece_count, next;
  size_t missing; /* number of elements not yet filled */
};

static unsigned char poison_at(size_t i) { return (unsigned char)(0xc3 ^ (i * 11)); }

/* Overwrites the elements with poison; gaps may be overwritten, too. */
static void poison(struct filler *f) {
  size_t item = f->in.item;
  f->kept = malloc(f->in.count * item + 1);
  if (!f->kept) abort();
  if (f->in.count > 0) memcpy(f->kept, f->in.data, f->in.count * item);
  for (size_t i = 0; i < f->in.count * item; i++)
    if (f->in.spots[i / item].block != NOWHERE) f->in.data[i] = poison_at(i), f->missing++;
  f->missing /= item;
}

/* Cuts the input into pieces of random sizes, in random order. */
static void cut(struct filler *f, uint64_t *state) {
  f->piece_count = 1 + (uint32_t)(tu_random(state) % PIECES_MAX);
  size_t at = 0;
  for (uint32_t i = 0; i < f->piece_count; i++) {
    size_t left = f->in.count - at, count = i + 1 == f->piece_count ? left : (size_t)(tu_random(state) % (left + 1));
    f->firsts[i] = at;
    f->counts[i] = count;
    at += count;
  }
  for (uint32_t i = f->piece_count; i > 1; i--) {
    uint32_t k = (uint32_t)(tu_random(state) % i);
    size_t first = f->firsts[k], count = f->counts[k];
    f->firsts[k] = f->firsts[i - 1], f->counts[k] = f->counts[i - 1];
    f->firsts[i - 1] = first, f->counts[i - 1] = count;
  }
}

/* Fills the next piece. The poison must still be there, so no write happened before; a read would show in the
 * results. */
static bool fill_next(struct player *p, struct filler *f, tutti_request *request) {
  size_t item = f->in.item, first = f->firsts[f->next], count = f->counts[f->next];
  f->next++;
  for (size_t i = first * item; i < (first + count) * item; i++) {
    if (f->in.spots[i / item].block == NOWHERE) continue;
    if (f->in.data[i] != poison_at(i)) {
      wrong(p, "rank %u: the input's element %zu was written before it was filled", p->rank, i / item);
      return false;
    }
    f->in.data[i] = f->kept[i];
    f->missing -= i % item == 0;
  }
  return good(p, tutti_request_fill(request, first, count), "tutti_request_fill");
}

/* Checks that a call has failed, with a message that contains the facts in `part`. */
static void refused(struct player *p, tutti_err err, const char *part) {
  const char *said = tutti_error_message(NULL);
  if (err != TUTTI_ERR_ARGUMENT || !test_contains(said, part))
    wrong(p, "rank %u: expected TUTTI_ERR_ARGUMENT with the facts '%s', found %s: %s", p->rank, part,
          tutti_err_name(err), said);
}

/* ---- one case ---- */

enum { TELLS = 1, FILLS = 2 };

/* Fills all pieces, with tests in between, and then tests or waits until the request is complete. */
static void move_on(struct player *p, struct witness *w, struct filler *f, tutti_request **request, uint64_t *state) {
  bool done = false, waits = tu_random(state) % 2;
  while (f->next < f->piece_count && p->stage->failures == 0) {
    if (!fill_next(p, f, *request)) return;
    for (uint64_t tests = tu_random(state) % 3; tests > 0 && f->next < f->piece_count; tests--) {
      if (!good(p, tutti_test(request, &done), "tutti_test")) return;
      if (done && f->missing > 0) wrong(p, "rank %u: complete before its input was filled", p->rank);
      if (done) return;
    }
    if (w->out.count < 5000) check_told(w);
  }
  if (waits) good(p, tutti_wait(request), "tutti_wait");
  while (!waits && !done && p->stage->failures == 0) {
    if (!good(p, tutti_test(request, &done), "tutti_test")) return;
    if (!done) sched_yield();
    if (w->out.count < 500) check_told(w);
  }
}

/* Runs the case once. *request is NULL or a prepared request. */
static void play_once(struct player *p, struct witness *w, struct filler *f, tutti_request **request, uint64_t *state) {
  const tutti_call *call = &w->run->call;
  memset(w->told, 0, (w->out.count + 1) * sizeof *w->told);
  *f = (struct filler){.in = f->in};
  if (call->in_parts) poison(f), cut(f, state);
  bool started = *request ? good(p, tutti_restart(*request), "tutti_restart")
                          : good(p, tutti_start(p->comm, call, request), "tutti_start");
  if (started) move_on(p, w, f, request, state);
  if (p->stage->failures == 0 && call->on_ready) check_all_told(w);
  p->stage->counted += w->calls + f->piece_count;
  free(f->kept);
}

static void play_case(struct player *p, const struct ref_case *c, int how) {
  char text[768];
  struct ref_run run;
  tutti_request *request = NULL;
  uint64_t state = ref_mix(c->seed ^ p->rank);
  ref_run_init(&run, c, p->rank);
  ref_fill(&run);
  ref_want(&run);
  struct witness w = {.player = p, .run = &run, .out = output_row(&run)};
  struct filler f = {.in = input_row(&run)};
  w.told = calloc(w.out.count + 1, sizeof *w.told);
  if (!w.told) abort();
  run.call.on_ready = how & TELLS ? on_ready : NULL;
  run.call.on_ready_context = &w;
  run.call.in_parts = how & FILLS;
  bool kept = c->seed % 5 == 0 && good(p, tutti_prepare(p->comm, &run.call, &request), "tutti_prepare");
  for (int round = 0; round <= kept && p->stage->failures == 0; round++) {
    ref_fill(&run);
    play_once(p, &w, &f, &request, &state);
  }
  if (p->stage->failures == 0 && !ref_agrees(&run, text, sizeof text)) wrong(p, "%s (used as %d)", text, how);
  if (p->stage->failures == 0) tutti_request_free(request);
  free(w.told);
  free(w.out.spots);
  free(f.in.spots);
  ref_run_fini(&run);
}

/* ---- every algorithm ---- */

static const tutti_collective vectors[][2] = {{TUTTI_GATHER, TUTTI_GATHERV},
                                              {TUTTI_SCATTER, TUTTI_SCATTERV},
                                              {TUTTI_ALLGATHER, TUTTI_ALLGATHERV},
                                              {TUTTI_REDUCE_SCATTER, TUTTI_REDUCE_SCATTERV},
                                              {TUTTI_ALLTOALL, TUTTI_ALLTOALLV}};

static tutti_collective vector_of(const struct tu_algorithm *a) {
  for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
    if (vectors[i][0] == a->collective && !(a->flags & TU_EQUAL_BLOCKS)) return vectors[i][1];
  return TU_COLLECTIVES;
}

/* Runs each count; the other parameters are random. */
static void play_algorithm(struct player *p, const struct tu_algorithm *a, tutti_collective collective, uint64_t seed) {
  static const size_t counts[] = {0, 1, 3, 64, 257, 1000, 20011};
  enum { COUNTS = sizeof counts / sizeof counts[0] };
  uint64_t state = seed;
  int cases = COUNTS * (test_long() ? 3 * REF_ALIASINGS : 1);
  for (int i = 0; i < cases && p->stage->failures == 0; i++) {
    struct ref_case c = {.collective = collective, .algorithm = a->name, .ranks = p->ranks};
    c.count = counts[i % COUNTS];
    c.aliasing = (enum ref_aliasing)(tu_random(&state) % REF_ALIASINGS);
    c.type = ref_types[tu_random(&state) % REF_TYPES];
    c.op = (uint32_t)(tu_random(&state) % (a->flags & TU_RANK_ORDER ? REF_OPS : REF_AFFINE));
    if (ref_vector(collective)) c.blocks = (enum ref_blocks)(tu_random(&state) % REF_BLOCKS);
    c.root = (uint32_t)(tu_random(&state) % p->ranks);
    c.seed = tu_random(&state);
    if (tu_random(&state) % 3 == 0) c.lanes = (uint32_t)(tu_random(&state) % (tu_build_lanes_max(a) + 1));
    if (c.count > 10000 && tu_random(&state) % 4 > 0 && !test_long()) continue;
    if (!test_long() && tu_random(&state) % 5 < (p->is_thread ? 2 : 3)) continue;
    if (!ref_valid(&c)) c.op = TUTTI_SUM;
    if (collective == TUTTI_BARRIER)
      c = (struct ref_case){.collective = TUTTI_BARRIER, .algorithm = a->name, .ranks = p->ranks};
    play_case(p, &c, (int)(ref_mix(c.seed + p->rank) % 4)); /* how this rank uses the call differs between ranks */
  }
}

static void play_every_algorithm(struct player *p) {
  const struct tu_algorithm *a;
  if (!p->is_thread) {
    if (!good(p, buffers_init(p->comm, 4 << 20), "buffers_init")) return;
    ref_memory = (struct ref_memory){buffers_acquire, buffers_release};
  }
  for (size_t k = 0; (a = tu_algorithm_at(k)) != NULL; k++) {
    if (a->collective >= TUTTI_SEND || !tu_algorithm_fits(a, p->ranks)) continue;
    play_algorithm(p, a, a->collective, ref_mix(p->seed + k));
    if (vector_of(a) < TU_COLLECTIVES) play_algorithm(p, a, vector_of(a), ref_mix(p->seed + k + 1000));
  }
  if (p->is_thread || p->stage->failures > 0) return;
  ref_memory = (struct ref_memory){ref_malloc, free};
  good(p, buffers_fini(), "buffers_fini");
}

static void sweep(void (*over)(struct troupe *), uint64_t seed) {
  uint64_t counted = 0;
  for (uint32_t n = 1; n <= (test_long() ? 8 : 5) && test_failures == 0; n++)
    counted += troupe_perform((struct troupe){.run = play_every_algorithm, .ranks = n, .seed = seed + n}, over);
  printf("  %llu calls of on_ready\n", (unsigned long long)counted);
  CHECK(test_failures || counted > 10000, "only %llu calls of on_ready", (unsigned long long)counted);
}

static void every_algorithm_on_threads(void) { sweep(troupe_over_loop, test_seed()); }
#ifndef __SANITIZE_THREAD__
static void every_algorithm_on_processes(void) { sweep(troupe_over_shm, test_seed()); }

static tutti_err set_wire(tutti_comm *comm, double bytes_per_s) {
  struct tu_error error;
  tutti_err err = tu_comm_set_wire(comm, bytes_per_s, &error);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}
#endif

/* ---- with a simulated wire ---- */

static void play_over_wire(struct player *p) {
  static const char *const algorithms[] = {"ring", "recursive_doubling", "direct"};
  uint64_t state = p->seed;
  if (!good(p, set_wire(p->comm, 400e6), "set_wire")) return;
  for (int i = 0; i < 60 && p->stage->failures == 0; i++) {
    struct ref_case c = {.collective = ref_collectives[tu_random(&state) % REF_COLLECTIVES], .ranks = p->ranks};
    if (i % 2 == 0 || c.collective == TUTTI_BARRIER) c.collective = TUTTI_ALLREDUCE;
    const char *algorithm = algorithms[tu_random(&state) % 3];
    const struct tu_algorithm *a = tu_algorithm_find(TUTTI_ALLREDUCE, algorithm);
    if (c.collective == TUTTI_ALLREDUCE && a && tu_algorithm_fits(a, p->ranks)) c.algorithm = algorithm;
    c.count = (size_t)(tu_random(&state) % (i % 8 ? 500 : 50000));
    c.aliasing = (enum ref_aliasing)(tu_random(&state) % REF_ALIASINGS);
    c.type = TUTTI_F32;
    c.seed = tu_random(&state);
    if (i == 40) good(p, set_wire(p->comm, 0), "set_wire"); /* calls of other ranks are still slow */
    if (i == 50) good(p, set_wire(p->comm, 1e9 * (1 + p->rank)), "set_wire");
    play_case(p, &c, (int)(tu_random(&state) % 4));
    uint32_t one = 1, sum = 0; /* a short call, which would take the fast path without a wire */
    if (!good(p, tutti_allreduce(p->comm, &one, &sum, 1, TUTTI_U32, TUTTI_SUM), "tutti_allreduce") || sum != p->ranks)
      wrong(p, "rank %u: the sum is %u", p->rank, sum);
  }
}

/* The call takes at least the time of the simulated wire. */
static void play_slow_wire(struct player *p) {
  enum { BYTES = 1 << 20 };
  const double pace = 100e6;
  unsigned char *in = calloc(1, BYTES), *out = calloc(p->ranks, BYTES);
  if (!in || !out) abort();
  refused(p, set_wire(p->comm, -1), "positive");
  refused(p, set_wire(p->comm, NAN), "positive");
  refused(p, set_wire(p->comm, INFINITY), "positive");
  tutti_request *request = NULL;
  const tutti_call call = {
      .collective = TUTTI_ALLGATHER, .send = in, .recv = out, .count = BYTES, .type = TUTTI_U8, .in_parts = true};
  good(p, set_wire(p->comm, pace), "set_wire");
  uint64_t start = tu_clock_ns();
  if (!good(p, tutti_start(p->comm, &call, &request), "tutti_start")) return;
  refused(p, set_wire(p->comm, 0), "1 requests|open");
  if (good(p, tutti_request_fill(request, 0, BYTES), "tutti_request_fill")) good(p, tutti_wait(&request), "tutti_wait");
  double s = (double)(tu_clock_ns() - start) / 1e9, least = (p->ranks - 1) * BYTES / pace;
  if (s < 0.999 * least) wrong(p, "rank %u: took %g s, but the wire needs %g s", p->rank, s, least);
  free(in);
  free(out);
}

static void a_wire_that_takes_its_time(void) {
  uint64_t seed = test_seed();
  for (uint32_t n = 2; n <= 3; n++) {
    troupe_perform((struct troupe){.run = play_over_wire, .ranks = n, .seed = seed}, troupe_over_loop);
    troupe_perform((struct troupe){.run = play_slow_wire, .ranks = n}, troupe_over_loop);
#ifndef __SANITIZE_THREAD__
    troupe_perform((struct troupe){.run = play_over_wire, .ranks = n, .seed = seed}, troupe_over_shm);
#endif
  }
}

/* ---- send and recv ---- */

/* Sends to the next rank and receives from the rank before, with and without lanes. */
static void play_point_to_point(struct player *p) {
  uint64_t state = p->seed; /* the same on all ranks */
  for (int i = 0; i < 20 && p->stage->failures == 0; i++) {
    size_t count = (size_t)(tu_random(&state) % (i < 15 ? 300 : 60000));
    uint32_t lanes = (uint32_t)(tu_random(&state) % 4), to = (p->rank + 1) % p->ranks,
             from = (p->rank + p->ranks - 1) % p->ranks;
    /* For the reference, the message is a broadcast whose root is the sender. */
    struct ref_case c = {.collective = TUTTI_BROADCAST,
                         .ranks = p->ranks,
                         .count = count,
                         .type = TUTTI_I32,
                         .root = from,
                         .seed = tu_random(&state)};
    struct ref_run receives = {.c = c, .rank = p->rank};
    uint32_t *in = calloc(count + 1, 4), *out = calloc(count + 1, 4);
    if (!in || !out) abort();
    for (size_t n = 0; n < count; n++) in[n] = (uint32_t)ref_input(&c, p->rank, 0, n);
    struct ref_buffer block = {.blocks = 1, .counts = {count}};
    struct witness w = {.player = p, .run = &receives, .out = row_of(&block, 4, (unsigned char *)out)};
    struct filler f = {.in = row_of(&block, 4, (unsigned char *)in)};
    w.told = calloc(count + 1, sizeof *w.told);
    if (!w.told) abort();
    uint64_t own = ref_mix(state + p->rank);
    poison(&f), cut(&f, &own);
    tutti_request *request = NULL, *other = NULL;
    const tutti_call receive = {.collective = TUTTI_RECV,
                                .recv = out,
                                .count = count,
                                .type = TUTTI_I32,
                                .peer = from,
                                .lanes = lanes,
                                .on_ready = on_ready,
                                .on_ready_context = &w};
    const tutti_call send = {.collective = TUTTI_SEND,
                             .send = in,
                             .count = count,
                             .type = TUTTI_I32,
                             .peer = to,
                             .lanes = lanes,
                             .in_parts = true};
    if (!good(p, tutti_start(p->comm, &receive, &other), "tutti_start") ||
        !good(p, tutti_start(p->comm, &send, &request), "tutti_start"))
      break;
    move_on(p, &w, &f, &request, &own);
    if (p->stage->failures == 0 && good(p, tutti_wait(&other), "tutti_wait")) check_all_told(&w);
    free(w.told);
    free(w.out.spots);
    free(f.in.spots);
    free(f.kept);
    free(in);
    free(out);
  }
}

static void messages_between_two(void) {
  uint64_t seed = test_seed();
  for (uint32_t n = 1; n <= 3; n++) {
    troupe_perform((struct troupe){.run = play_point_to_point, .ranks = n, .seed = seed}, troupe_over_loop);
#ifndef __SANITIZE_THREAD__
    troupe_perform((struct troupe){.run = play_point_to_point, .ranks = n, .seed = seed}, troupe_over_shm);
#endif
  }
}

/* ---- one call provides the input of the next ---- */

/* Passes the result of an allgather, part by part within on_ready, to the input of a reduction. */
struct chain {
  struct player *player;
  const uint32_t *gathered;
  uint32_t *next;
  tutti_request *request; /* NULL: the reduction is not started yet, and parts are noted */
  size_t firsts[64], counts[64];
  uint32_t noted;
};

static void pass_on(void *context, size_t first, size_t count) {
  struct chain *c = context;
  if (!c->request) {
    c->firsts[c->noted] = first;
    c->counts[c->noted++] = count;
    return;
  }
  for (size_t i = first; i < first + count; i++) c->next[i] = 3 * c->gathered[i];
  good(c->player, tutti_request_fill(c->request, first, count), "tutti_request_fill");
}

static void play_chain(struct player *p) {
  enum { BLOCK = 20000 };
  uint32_t *in = calloc(BLOCK, 4), *gathered = calloc((size_t)BLOCK * p->ranks, 4),
           *next = calloc((size_t)BLOCK * p->ranks, 4), *out = calloc(BLOCK, 4);
  if (!in || !gathered || !next || !out) abort();
  for (uint32_t i = 0; i < BLOCK; i++) in[i] = p->rank * BLOCK + i;
  struct chain c = {.player = p, .gathered = gathered, .next = next};
  const tutti_call gather = {.collective = TUTTI_ALLGATHER,
                             .send = in,
                             .recv = gathered,
                             .count = BLOCK,
                             .type = TUTTI_U32,
                             .on_ready = pass_on,
                             .on_ready_context = &c};
  const tutti_call reduce = {.collective = TUTTI_REDUCE_SCATTER,
                             .send = next,
                             .recv = out,
                             .count = BLOCK,
                             .type = TUTTI_U32,
                             .in_parts = true};
  tutti_request *gathers = NULL;
  bool done = false;
  /* The allgather is started first. So its messages go before those of the reduction, which has none before its input
   * is filled. */
  if (good(p, tutti_start(p->comm, &gather, &gathers), "tutti_start") &&
      good(p, tutti_start(p->comm, &reduce, &c.request), "tutti_start")) {
    for (uint32_t i = 0; i < c.noted; i++) pass_on(&c, c.firsts[i], c.counts[i]);
    while (!done && good(p, tutti_test(&c.request, &done), "tutti_test")) sched_yield();
    good(p, tutti_wait(&gathers), "tutti_wait");
  }
  for (uint32_t i = 0; i < BLOCK; i++)
    if (out[i] != 3 * p->ranks * (p->rank * BLOCK + i)) {
      wrong(p, "rank %u: element %u is %u", p->rank, i, out[i]);
      break;
    }
  free(in);
  free(gathered);
  free(next);
  free(out);
}

static void one_call_feeds_another(void) {
  for (uint32_t n = 1; n <= 4; n++) troupe_perform((struct troupe){.run = play_chain, .ranks = n}, troupe_over_loop);
}

/* ---- tensors ---- */

enum { ROWS = 6, COLUMNS = 40, BLOCK = ROWS * COLUMNS };

/* A call of tensors. in_cut, out_cut: that tensor has one block per rank along `dim` or `out_dim` (of two
 * dimensions). */
struct tensor_case {
  tutti_collective collective;
  bool in_cut, out_cut;
  int dim, out_dim;
};

static float value_at(uint32_t rank, uint32_t block, size_t row, size_t column) {
  return (float)(((rank * 5 + block * 3 + 1) * (row * COLUMNS + column)) % 1009);
}

/* Returns the element of block `block` in the output of `rank`. */
static float result_at(const struct tensor_case *c, uint32_t ranks, uint32_t rank, uint32_t block, size_t row,
                       size_t column) {
  if (c->collective == TUTTI_ALLGATHER) return value_at(block, 0, row, column);
  if (c->collective == TUTTI_ALLTOALL) return value_at(block, rank, row, column);
  float sum = 0;
  for (uint32_t r = 0; r < ranks; r++) sum += value_at(r, c->in_cut ? rank : 0, row, column);
  return sum;
}

/* Position of an element, given by its number. */
struct tensor_spot {
  uint32_t block;
  size_t row, column;
  unsigned char *address;
};

static struct tensor_spot tensor_spot(const tutti_tensor *t, int dim, size_t number) {
  struct tensor_spot s = {(uint32_t)(number / BLOCK), number % BLOCK / COLUMNS, number % COLUMNS, NULL};
  size_t row = s.row + (dim == 0 ? s.block * ROWS : 0), column = s.column + (dim == 1 ? s.block * COLUMNS : 0);
  s.address = (unsigned char *)t->data + tutti_tensor_offset(t, (size_t[]){0, 0, 0, row, column});
  return s;
}

static void make_tiles(struct player *p, tutti_tensor *t, bool is_cut, int dim, uint32_t banks) {
  size_t blocks = is_cut ? p->ranks : 1;
  const size_t shape[] = {dim == 0 ? ROWS * blocks : ROWS, dim == 1 ? COLUMNS * blocks : COLUMNS};
  const tutti_tiles tiles = {4, 8, 0, 0};
  good(p, tutti_tensor_interleaved(t, (tutti_tensor_of){NULL, TUTTI_F32, 2, shape}, &tiles, banks), "tensor");
  t->data = calloc(1, tutti_tensor_bytes(t));
  if (!t->data) abort();
}

struct tensor_witness {
  struct player *player;
  const struct tensor_case *c;
  const tutti_tensor *out;
  bool told[8 * BLOCK];
  size_t count;
};

static void tensor_ready(void *context, size_t first, size_t count) {
  struct tensor_witness *w = context;
  struct player *p = w->player;
  for (size_t n = first; n < first + count; n++) {
    struct tensor_spot s = tensor_spot(w->out, w->c->out_dim, n);
    float value;
    memcpy(&value, s.address, sizeof value);
    if (w->told[n] || value != result_at(w->c, p->ranks, p->rank, s.block, s.row, s.column))
      wrong(p, "rank %u: %s: number %zu is %g", p->rank, tutti_collective_name(w->c->collective), n, (double)value);
    w->told[n] = true;
    w->count++;
  }
}

static void play_tensor_case(struct player *p, const struct tensor_case *c) {
  tutti_tensor in, out;
  struct tensor_witness w = {.player = p, .c = c, .out = &out};
  make_tiles(p, &in, c->in_cut, c->dim, 1);
  make_tiles(p, &out, c->out_cut, c->out_dim, 2);
  const tutti_call call = {.collective = c->collective,
                           .in = &in,
                           .out = &out,
                           .dim = c->dim,
                           .out_dim = c->out_dim,
                           .has_out_dim = true,
                           .on_ready = tensor_ready,
                           .on_ready_context = &w,
                           .in_parts = true};
  tutti_request *request = NULL;
  bool done = false;
  bool going = good(p, tutti_start(p->comm, &call, &request), "tutti_start");
  for (size_t n = BLOCK * (c->in_cut ? p->ranks : 1); n > 0 && going; n--) { /* from the last element to the first */
    struct tensor_spot s = tensor_spot(&in, c->dim, n - 1);
    float value = value_at(p->rank, s.block, s.row, s.column);
    memcpy(s.address, &value, sizeof value);
    going = good(p, tutti_request_fill(request, n - 1, 1), "tutti_request_fill");
    if (n % 7 == 0) going = going && good(p, tutti_test(&request, &done), "tutti_test");
  }
  if (going && request) good(p, tutti_wait(&request), "tutti_wait");
  if (w.count != (size_t)BLOCK * (c->out_cut ? p->ranks : 1))
    wrong(p, "rank %u: %s: on_ready for %zu elements", p->rank, tutti_collective_name(c->collective), w.count);
  free(in.data);
  free(out.data);
}

static void play_tensors(struct player *p) {
  static const struct tensor_case cases[] = {
      {TUTTI_ALLGATHER, false, true, 0, 0},      {TUTTI_ALLGATHER, false, true, 1, 1},
      {TUTTI_REDUCE_SCATTER, true, false, 0, 0}, {TUTTI_REDUCE_SCATTER, true, false, 1, 1},
      {TUTTI_ALLTOALL, true, true, 1, 1},        {TUTTI_ALLTOALL, true, true, 1, 0},
      {TUTTI_ALLTOALL, true, true, 0, 1},        {TUTTI_ALLREDUCE, false, false, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0] && p->stage->failures == 0; i++) play_tensor_case(p, &cases[i]);
}

static void tensors_that_lie_in_tiles(void) {
  for (uint32_t n = 1; n <= 4; n++) troupe_perform((struct troupe){.run = play_tensors, .ranks = n}, troupe_over_loop);
}

/* ---- a user-defined plan ---- */

static void play_plan(struct player *p) {
  char path[64];
  tutti_plan *plan = NULL;
  snprintf(path, sizeof path, "/tmp/overlap_test.%d", (int)getpid());
  if (tutti_plan_load(path, &plan) != TUTTI_OK) {
    wrong(p, "rank %u: tutti_plan_load: %s", p->rank, tutti_error_message(NULL));
    return;
  }
  for (int turn = 0; turn < 2; turn++) {
    struct ref_case c = {
        .collective = TUTTI_ALLREDUCE, .type = TUTTI_I64, .count = 5000, .ranks = p->ranks, .seed = p->seed};
    struct ref_run run;
    uint64_t state = p->seed;
    ref_run_init(&run, &c, p->rank);
    ref_fill(&run);
    ref_want(&run);
    struct witness w = {.player = p, .run = &run, .out = output_row(&run)};
    struct filler f = {.in = input_row(&run)};
    w.told = calloc(w.out.count + 1, sizeof *w.told);
    run.call.plan = plan;
    run.call.on_ready = on_ready;
    run.call.on_ready_context = &w;
    run.call.in_parts = true;
    tutti_request *request = NULL;
    play_once(p, &w, &f, &request, &state);
    char text[768];
    if (p->stage->failures == 0 && !ref_agrees(&run, text, sizeof text)) wrong(p, "%s", text);
    free(w.told);
    free(w.out.spots);
    free(f.in.spots);
    ref_run_fini(&run);
  }
  tutti_plan_free(plan);
}

static void plan_of_the_user(void) {
  char path[64];
  struct tu_plan *plan = tu_plan_build(&(struct tu_build){
      .algorithm = tu_algorithm_find(TUTTI_ALLREDUCE, "ring"), .ranks = 3, .rank = TU_ALL_RANKS, .segments = 2});
  struct tu_text text = {0};
  tu_plan_write(plan, &text);
  snprintf(path, sizeof path, "/tmp/overlap_test.%d", (int)getpid());
  FILE *file = fopen(path, "w");
  if (!file) abort();
  fputs(text.chars, file);
  fclose(file);
  troupe_perform((struct troupe){.run = play_plan, .ranks = 3, .seed = test_seed()}, troupe_over_loop);
  remove(path);
  tu_text_fini(&text);
  tu_plan_destroy(plan);
}

/* ---- errors ---- */

static tutti_request *of_other_thread;

static void *fill_from_elsewhere(void *player) {
  good(player, tutti_request_fill(of_other_thread, 0, 1), "tutti_request_fill by another thread");
  return NULL;
}

static void play_misuse(struct player *p) {
  enum { COUNT = 10 };
  uint32_t in[COUNT] = {0}, out[2 * COUNT];
  tutti_call call = {.collective = TUTTI_ALLGATHER, .send = in, .recv = out, .count = COUNT, .type = TUTTI_U32};
  tutti_request *request = NULL, *later = NULL;
  bool done;
  size_t index;
  refused(p, tutti_request_fill(NULL, 0, 0), "NULL");

  if (!good(p, tutti_prepare(p->comm, &call, &request), "tutti_prepare")) return;
  refused(p, tutti_request_fill(request, 0, 1), "in_parts");
  tutti_request_free(request);

  call.in_parts = true;
  if (!good(p, tutti_prepare(p->comm, &call, &request), "tutti_prepare")) return;
  refused(p, tutti_request_fill(request, 0, 1), "tutti_restart");
  if (!good(p, tutti_restart(request), "tutti_restart")) return;
  refused(p, tutti_request_fill(request, 0, COUNT + 1), "range|10 elements");
  refused(p, tutti_request_fill(request, COUNT + 1, 0), "range|10 elements");
  refused(p, tutti_request_fill(request, 3, SIZE_MAX), "range|10 elements");
  good(p, tutti_request_fill(request, COUNT, 0), "tutti_request_fill of 0 elements");
  good(p, tutti_request_fill(request, 2, 3), "tutti_request_fill");
  refused(p, tutti_request_fill(request, 4, 2), "filled before");
  refused(p, tutti_request_fill(request, 0, 3), "filled before");
  refused(p, tutti_request_fill(request, 0, COUNT), "filled before");
  refused(p, tutti_request_fill(request, 3, 1), "filled before");
  if (p->rank == 0) {
    pthread_t other;
    of_other_thread = request;
    if (pthread_create(&other, NULL, fill_from_elsewhere, p) != 0) abort();
    pthread_join(other, NULL);
  }

  /* Waits for the request, or for a later one, would never end. */
  good(p, tutti_request_fill(request, p->rank == 0 ? 1 : 0, p->rank == 0 ? 1 : 2), "tutti_request_fill");
  refused(p, tutti_wait(&request), "element 5");
  refused(p, tutti_wait_all(&request, 1), "element 5");
  refused(p, tutti_wait_all(NULL, 0), "element 5");
  refused(p, tutti_wait_any(&request, 1, &index), "element 5");
  call.in_parts = false;
  if (!good(p, tutti_start(p->comm, &call, &later), "tutti_start")) return;
  refused(p, tutti_wait(&later), "element 5");
  tutti_request *both[] = {later, request};
  refused(p, tutti_wait_any(both, 2, &index), "element 5");
  good(p, tutti_test(&request, &done), "tutti_test");
  if (done) wrong(p, "rank %u: complete without its input", p->rank);
  good(p, tutti_request_fill(request, 5, 5), "tutti_request_fill");
  good(p, tutti_wait(&request), "tutti_wait");
  good(p, tutti_wait(&later), "tutti_wait");
  refused(p, tutti_request_fill(request, 0, 1),
          "filled before"); /* the request is complete, and was not started again */
  tutti_request_free(request);
}

static void what_is_refused(void) { troupe_perform((struct troupe){.run = play_misuse, .ranks = 2}, troupe_over_loop); }

/* Checks a start that must fail, which makes the communicator fail on all ranks. */
static void ends(struct player *p, const tutti_call *calls, size_t count, const char *part) {
  tutti_request *request = NULL;
  tutti_err err = count > 0 ? tutti_start_all(p->comm, calls, count, &request) : tutti_start(p->comm, calls, NULL);
  refused(p, err, part);
}

static void play_group(struct player *p) {
  uint32_t in = 1, out[2];
  const tutti_call call = {
      .collective = TUTTI_ALLGATHER, .send = &in, .recv = out, .count = 1, .type = TUTTI_U32, .in_parts = true};
  ends(p, &call, 1, "request to fill");
}

static void play_detached(struct player *p) {
  uint32_t in = 1, out[2];
  const tutti_call call = {
      .collective = TUTTI_ALLGATHER, .send = &in, .recv = out, .count = 1, .type = TUTTI_U32, .in_parts = true};
  ends(p, &call, 0, "request to fill");
}

/* Checks that blocking calls fail after a call whose input is not filled. */
static void play_behind(struct player *p, tutti_err (*call_and_wait)(tutti_comm *comm)) {
  uint32_t in = 1, out[2];
  const tutti_call call = {
      .collective = TUTTI_ALLGATHER, .send = &in, .recv = out, .count = 1, .type = TUTTI_U32, .in_parts = true};
  tutti_request *request = NULL;
  bool done = false;
  tutti_err err = tutti_start(p->comm, &call, &request);
  if (err != TUTTI_OK) { /* the other rank's error has arrived already */
    refused(p, err, "element 0");
    return;
  }
  refused(p, call_and_wait(p->comm), "element 0");
  refused(p, tutti_test(&request, &done), "element 0");
  if (!done) wrong(p, "rank %u: the failed call is not complete", p->rank);
}

static tutti_err duplicate(tutti_comm *comm) {
  tutti_comm *other = NULL;
  return tutti_comm_dup(comm, &other);
}

static tutti_err send_to_oneself(tutti_comm *comm) { return tutti_send(comm, "", 1, TUTTI_U8, tutti_rank(comm), 0); }

static void play_barrier_behind(struct player *p) { play_behind(p, tutti_barrier); }
static void play_dup_behind(struct player *p) { play_behind(p, duplicate); }
static void play_send_behind(struct player *p) { play_behind(p, send_to_oneself); }

static void refused_starts(void) {
  void (*const plays[])(struct player *) = {play_group, play_detached, play_barrier_behind, play_dup_behind,
                                            play_send_behind};
  for (size_t i = 0; i < sizeof plays / sizeof plays[0]; i++)
    troupe_perform((struct troupe){.run = plays[i], .ranks = 2, .fails = true}, troupe_over_loop);
}

/* A group's input cannot be partitioned, but on_ready of its calls works. */
static void count_elements(void *context, size_t first, size_t count) {
  (void)first;
  *(size_t *)context += count;
}

static void play_told_group(struct player *p) {
  uint32_t in[5] = {0}, out[2][15];
  size_t told[2] = {0};
  tutti_call calls[2];
  for (int i = 0; i < 2; i++)
    calls[i] = (tutti_call){.collective = TUTTI_ALLGATHER,
                            .send = in,
                            .recv = out[i],
                            .count = 5,
                            .type = TUTTI_U32,
                            .on_ready = count_elements,
                            .on_ready_context = &told[i]};
  tutti_request *request = NULL;
  if (!good(p, tutti_start_all(p->comm, calls, 2, &request), "tutti_start_all")) return;
  refused(p, tutti_request_fill(request, 0, 1), "a group");
  good(p, tutti_wait(&request), "tutti_wait");
  if (told[0] != 5 * p->ranks || told[1] != 5 * p->ranks)
    wrong(p, "rank %u: on_ready for %zu and %zu elements", p->rank, told[0], told[1]);
  /* on_ready of a detached call counts all elements, too. */
  told[0] = 0;
  good(p, tutti_start(p->comm, &calls[0], NULL), "tutti_start");
  good(p, tutti_wait_all(NULL, 0), "tutti_wait_all");
  if (told[0] != 5 * p->ranks) wrong(p, "rank %u: on_ready for %zu elements", p->rank, told[0]);
}

static void groups_tell(void) {
  for (uint32_t n = 1; n < 4; n++)
    troupe_perform((struct troupe){.run = play_told_group, .ranks = n}, troupe_over_loop);
}

/* Calls of start, test and wait within on_ready must fail. */
struct meddler {
  struct player *player;
  tutti_request **request, *idle;
};

static void meddle(void *context, size_t first, size_t count) {
  struct meddler *m = context;
  bool done;
  size_t index;
  (void)first;
  (void)count;
  refused(m->player, tutti_test(m->request, &done), "within the callback on_ready");
  refused(m->player, tutti_wait(m->request), "within the callback on_ready");
  refused(m->player, tutti_wait_any(m->request, 1, &index), "within the callback on_ready");
  refused(m->player, tutti_wait_all(NULL, 0), "within the callback on_ready");
  refused(m->player, tutti_restart(m->idle), "within the callback on_ready");
}

static void play_meddling(struct player *p) {
  uint32_t in = p->rank, out[4];
  tutti_request *request = NULL;
  struct meddler m = {.player = p, .request = &request};
  const tutti_call idle = {.collective = TUTTI_BARRIER};
  const tutti_call call = {.collective = TUTTI_ALLGATHER,
                           .send = &in,
                           .recv = out,
                           .count = 1,
                           .type = TUTTI_U32,
                           .on_ready = meddle,
                           .on_ready_context = &m};
  if (!good(p, tutti_prepare(p->comm, &idle, &m.idle), "tutti_prepare")) return;
  if (!good(p, tutti_prepare(p->comm, &call, &request), "tutti_prepare")) return;
  if (good(p, tutti_restart(request), "tutti_restart")) good(p, tutti_wait(&request), "tutti_wait");
  tutti_request_free(request);
  tutti_request_free(m.idle);
}

static void start_another(void *context, size_t first, size_t count) {
  struct player *p = context;
  (void)first;
  (void)count;
  if (!p->comm->failed)
    refused(p, tutti_start(p->comm, &(tutti_call){.collective = TUTTI_BARRIER}, NULL), "within the callback on_ready");
}

static void play_starting_within(struct player *p) {
  uint32_t in = p->rank, out[4];
  const tutti_call call = {.collective = TUTTI_ALLGATHER,
                           .send = &in,
                           .recv = out,
                           .count = 1,
                           .type = TUTTI_U32,
                           .on_ready = start_another,
                           .on_ready_context = p};
  tutti_request *request = NULL;
  tutti_err err = tutti_start(p->comm, &call, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  if (err == TUTTI_OK) err = tutti_barrier(p->comm); /* if the first request was complete already */
  if (err != TUTTI_ERR_ARGUMENT)
    wrong(p, "rank %u: a call was started within on_ready; expected TUTTI_ERR_ARGUMENT, found %s", p->rank,
          tutti_err_name(err));
}

static void within_on_ready(void) {
  for (uint32_t n = 1; n < 4; n++) troupe_perform((struct troupe){.run = play_meddling, .ranks = n}, troupe_over_loop);
  troupe_perform((struct troupe){.run = play_starting_within, .ranks = 2, .fails = true}, troupe_over_loop);
}

/* ---- a rank that never fills its input ---- */

/* Rank 0 has no time limit and tests again and again. Rank 1's time-out names rank 0 and ends both, so that no rank
 * waits forever. */
static void play_never_filled(struct player *p) {
  uint32_t in = 1, out[2] = {0};
  bool done = false;
  tutti_call call = {.collective = TUTTI_ALLGATHER, .send = &in, .recv = out, .count = 1, .type = TUTTI_U32};
  call.timeout_ms = p->rank == 0 ? -1 : 100;
  call.in_parts = p->rank == 0;
  tutti_request *request = NULL, *held = NULL;
  if (!good(p, tutti_start(p->comm, &call, &request), "tutti_start")) return;
  held = request;
  tutti_err err = TUTTI_OK;
  if (p->rank == 1) err = tutti_wait(&request);
  while (p->rank == 0 && err == TUTTI_OK && !done) {
    if (p->comm->failed && tutti_request_fill(held, 0, 1) == TUTTI_OK)
      wrong(p, "tutti_request_fill succeeded after the failure");
    err = tutti_test(&request, &done);
    sched_yield();
  }
  if (err != TUTTI_ERR_TIMEOUT || !strstr(tutti_error_message(NULL), "rank 0"))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(NULL));
}

/* The rank that does not fill has a time limit. Its error names the missing element. */
static void play_late_filler(struct player *p) {
  uint32_t in[4] = {0}, out[8] = {0};
  bool done = false;
  const tutti_call call = {.collective = TUTTI_ALLGATHER,
                           .send = in,
                           .recv = out,
                           .count = 4,
                           .type = TUTTI_U32,
                           .in_parts = true,
                           .timeout_ms = 100};
  tutti_request *request = NULL;
  if (!good(p, tutti_start(p->comm, &call, &request), "tutti_start")) return;
  if (!good(p, tutti_request_fill(request, 0, 2), "tutti_request_fill")) return;
  tutti_err err = TUTTI_OK;
  while (err == TUTTI_OK && !done) err = tutti_test(&request, &done), sched_yield();
  if (err != TUTTI_ERR_TIMEOUT || !test_contains(tutti_error_message(NULL), "element 2|input"))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(NULL));
}

static void nobody_waits_for_ever(void) {
  troupe_perform((struct troupe){.run = play_never_filled, .ranks = 2, .fails = true}, troupe_over_loop);
  troupe_perform((struct troupe){.run = play_late_filler, .ranks = 2, .fails = true}, troupe_over_loop);
#ifndef __SANITIZE_THREAD__
  troupe_perform((struct troupe){.run = play_never_filled, .ranks = 2, .fails = true}, troupe_over_shm);
#endif
}

int main(int argc, char **argv) {
  if (ref_register() != TUTTI_OK) return 1;
  const struct test tests[] = {
      {"every_algorithm_on_threads", every_algorithm_on_threads},
#ifndef __SANITIZE_THREAD__
      {"every_algorithm_on_processes", every_algorithm_on_processes},
#endif
      {"a_wire_that_takes_its_time", a_wire_that_takes_its_time},
      {"messages_between_two", messages_between_two},
      {"one_call_feeds_another", one_call_feeds_another},
      {"tensors_that_lie_in_tiles", tensors_that_lie_in_tiles},
      {"plan_of_the_user", plan_of_the_user},
      {"what_is_refused", what_is_refused},
      {"refused_starts", refused_starts},
      {"groups_tell", groups_tell},
      {"within_on_ready", within_on_ready},
      {"nobody_waits_for_ever", nobody_waits_for_ever},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
