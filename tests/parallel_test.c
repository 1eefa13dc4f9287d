/* test: timeout=300 */
/* parallel_test.c: tutti_options.parallel: long copies and reductions of collectives are shared out by the program's
 * own function. Results are the same bits as without, in every kind of memory. */
#include "buffers.h"
#include "conform.h"
#include "troupe.h"

#include <pthread.h>

enum { SLOT_BYTES = 4 << 20 };

/* ---- functions of the program that run parts ---- */

static _Atomic uint64_t runs, done; /* calls of a function below, and of a part, in this process */

static void run_reversed(void *context, size_t parts, void (*part)(void *argument, size_t i), void *argument) {
  (void)context;
  runs++;
  for (size_t i = parts; i-- > 0; done++) part(argument, i);
}

struct share {
  pthread_t thread;
  void (*part)(void *argument, size_t i);
  void *argument;
  size_t i;
};

static void *run_part(void *argument) {
  struct share *s = argument;
  s->part(s->argument, s->i);
  done++;
  return NULL;
}

/* Each part has a thread of its own, and all are started before one is waited for. */
static void run_threads(void *context, size_t parts, void (*part)(void *argument, size_t i), void *argument) {
  struct share shares[8];
  (void)context;
  runs++;
  if (parts < 2 || parts > sizeof shares / sizeof shares[0]) abort();
  for (size_t i = 0; i < parts; i++) {
    shares[i] = (struct share){.part = part, .argument = argument, .i = i};
    if (pthread_create(&shares[i].thread, NULL, run_part, &shares[i]) != 0) abort();
  }
  for (size_t i = 0; i < parts; i++) pthread_join(shares[i].thread, NULL);
}

/* ---- collectives ---- */

static struct ref_case draw_case(uint32_t ranks, uint64_t *state) {
  struct ref_case c = {.collective = ref_collectives[ranks_random(state) % REF_COLLECTIVES], .ranks = ranks};
  c.aliasing = c.collective == TUTTI_BARRIER ? REF_APART : (enum ref_aliasing)(ranks_random(state) % REF_ALIASINGS);
  c.blocks = (enum ref_blocks)(ranks_random(state) % REF_BLOCKS);
  c.pointers = ranks_random(state) % 2;
  c.type = ref_types[ranks_random(state) % REF_TYPES];
  c.op = (uint32_t)(ranks_random(state) % REF_OPS);
  c.root = (uint32_t)(ranks_random(state) % ranks);
  c.count = ((size_t)600 << 10) / ref_item_bytes(c.type) + ranks_random(state) % 40000;
  c.seed = ranks_random(state);
  return c;
}

/* Runs the same cases without and with sharing, each on a communicator of its own. Calls of a communicator keep what was
 * set when they were made, so the communicators must be new. */
static void same_bits(struct player *p, tutti_parallel parallel) {
  enum { CASES = 24 };
  if (!good(p, buffers_init(p->comm, SLOT_BYTES), "buffers")) return;
  tutti_comm *const world = p->comm;
  uint64_t hashes[2] = {1, 1}, before = runs;
  for (int shared = 0; shared < 2; shared++) {
    uint64_t state = p->seed;
    troupe_meet(p);
    p->transport->parallel = shared ? parallel : (tutti_parallel){0};
    if (!good(p, tutti_comm_dup(world, &p->comm), "tutti_comm_dup")) break;
    for (int i = 0; i < CASES && p->stage->failures == 0; i++) {
      const struct ref_case c = draw_case(p->ranks, &state);
      if (ref_valid(&c)) conform(p, &c, &hashes[shared]);
    }
    if (!shared && runs != before && !p->is_thread) wrong(p, "rank %u: shared without a function", p->rank);
    good(p, tutti_comm_free(p->comm), "tutti_comm_free");
  }
  p->comm = world;
  p->transport->parallel = (tutti_parallel){0};
  if (hashes[0] != hashes[1]) wrong(p, "rank %u: other bits with sharing", p->rank);
  if (runs == before) wrong(p, "rank %u: nothing was shared", p->rank);
  good(p, buffers_fini(), "end of the buffers");
}

static void reversed(struct player *p) { same_bits(p, (tutti_parallel){.run = run_reversed, .threads = 5}); }
static void threads(struct player *p) { same_bits(p, (tutti_parallel){.run = run_threads, .threads = 3}); }

/* ---- tutti_init: rank 0 makes a world of its own ---- */

static tutti_comm *world_with(struct player *p, tutti_parallel parallel) {
  tutti_comm *world = NULL;
  if (tutti_init(&(tutti_options){.ranks = 1, .parallel = parallel}, &world) != TUTTI_OK)
    wrong(p, "tutti_init: %s", tutti_error_message(NULL));
  return world;
}

/* Reduces over one rank, which is a copy, and checks how often the function was called. */
static void copy_and_count(struct player *p, tutti_comm *comm, size_t count, uint64_t runs_wanted,
                           uint64_t parts_wanted) {
  float *in = malloc(count * sizeof *in), *out = calloc(count, sizeof *out);
  if (!in || !out) abort();
  for (size_t i = 0; i < count; i++) in[i] = (float)i;
  runs = done = 0;
  if (tutti_allreduce(comm, in, out, count, TUTTI_F32, TUTTI_SUM) != TUTTI_OK)
    wrong(p, "%s", tutti_error_message(comm));
  if (runs != runs_wanted || done != parts_wanted)
    wrong(p, "%zu elements: %llu calls, %llu parts; expected %llu, %llu", count, (unsigned long long)runs,
          (unsigned long long)done, (unsigned long long)runs_wanted, (unsigned long long)parts_wanted);
  if (memcmp(in, out, count * sizeof *in) != 0) wrong(p, "%zu elements: other bits", count);
  free(in), free(out);
}

static void counts(struct player *p) {
  enum { COUNT = 1 << 20, SHORT = (512 << 10) / 4 };
  if (p->rank > 0) return;
  tutti_comm *world = world_with(p, (tutti_parallel){.run = run_reversed, .threads = 4}), *dup = NULL;
  if (!world || tutti_comm_dup(world, &dup) != TUTTI_OK) abort();
  copy_and_count(p, world, SHORT - 1, 0, 0);
  copy_and_count(p, world, SHORT, 1, 2);
  copy_and_count(p, world, COUNT, 1, 4);
  copy_and_count(p, dup, COUNT, 1, 4);
  if (tutti_comm_free(dup) != TUTTI_OK || tutti_comm_free(world) != TUTTI_OK) wrong(p, "free");
  if (!(world = world_with(p, (tutti_parallel){.run = run_reversed, .threads = 1}))) abort();
  copy_and_count(p, world, COUNT, 0, 0);
  if (tutti_comm_free(world) != TUTTI_OK) wrong(p, "free");
}

static void refused(struct player *p, tutti_parallel parallel, const char *facts) {
  tutti_comm *world = NULL;
  const tutti_err err = tutti_init(&(tutti_options){.ranks = 1, .parallel = parallel}, &world);
  if (err != TUTTI_ERR_ARGUMENT || world || !test_contains(tutti_error_message(NULL), facts))
    wrong(p, "expected the facts '%s', found %s: '%s'", facts, tutti_err_name(err), tutti_error_message(NULL));
}

static void mistakes(struct player *p) {
  if (p->rank > 0) return;
  refused(p, (tutti_parallel){.threads = 2}, "tutti_options.parallel|2 threads|run is NULL");
  refused(p, (tutti_parallel){.run = run_reversed}, "tutti_options.parallel|0 threads|1 to 1024");
  refused(p, (tutti_parallel){.run = run_reversed, .threads = 1025}, "1025 threads|at most 1024");
  refused(p, (tutti_parallel){.run = run_reversed, .threads = 2, .reserved = 1}, "reserved is 1|expected 0");
}

static const struct troupe_case cases[] = {
    {TROUPE_CASE(reversed)}, {TROUPE_CASE(threads)}, {TROUPE_CASE(counts)}, {TROUPE_CASE(mistakes)}};

static const struct troupe_transport transports[] = {
#ifdef __SANITIZE_THREAD__
    {"loop", troupe_over_loop, {2}},
#else
    {"shm", troupe_over_shm, {1, 2, 4}},
    {"loop", troupe_over_loop, {1, 3}},
#endif
    {0},
};

int main(int argc, char **argv) {
  if (ref_register() != TUTTI_OK) return 1;
  ref_memory = (struct ref_memory){buffers_acquire, buffers_release};
  return troupe_main(cases, sizeof cases / sizeof cases[0], transports, argc, argv);
}
