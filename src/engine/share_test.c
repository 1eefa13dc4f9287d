/* share_test.c: shared copies and reductions give the same bits as unshared ones, for every type and operation, however
 * the program runs the parts. */
#include "engine/share.h"

#include <pthread.h>
#include <stdlib.h>

#include "test.h"

enum { SOURCES_MAX = 5, TARGETS_MAX = 3, SLACK = 256 };

/* ---- ways to run the parts ---- */

struct counts {
  size_t calls, parts;
};

static void run_reversed(void *context, size_t parts, void (*part)(void *argument, size_t i), void *argument) {
  struct counts *c = context;
  c->calls++;
  c->parts += parts;
  for (size_t i = parts; i-- > 0;) part(argument, i);
}

struct work {
  void (*part)(void *argument, size_t i);
  void *argument;
  size_t parts;
  _Atomic size_t next;
};

static void *work(void *argument) {
  struct work *w = argument;
  for (size_t i; (i = w->next++) < w->parts;) w->part(w->argument, i);
  return NULL;
}

static void run_threads(void *context, size_t parts, void (*part)(void *argument, size_t i), void *argument) {
  enum { THREADS = 3 };
  struct work w = {.part = part, .argument = argument, .parts = parts};
  struct counts *c = context;
  pthread_t threads[THREADS];
  c->calls++;
  c->parts += parts;
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, &w) != 0) abort();
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

/* ---- the same bits ---- */

static unsigned char *take_memory(size_t bytes, uint64_t *state) {
  unsigned char *memory = malloc(bytes);
  if (!memory) abort();
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t random = tu_random(state);
    memcpy(memory + i, &random, 8);
  }
  return memory;
}

struct arrays {
  size_t bytes;
  unsigned char *sources[SOURCES_MAX], *want[TARGETS_MAX], *got[TARGETS_MAX];
};

static void take_arrays(struct arrays *a, size_t bytes, uint64_t *state) {
  a->bytes = bytes + SLACK;
  for (int i = 0; i < SOURCES_MAX; i++) a->sources[i] = take_memory(a->bytes, state);
  for (int i = 0; i < TARGETS_MAX; i++) a->want[i] = take_memory(a->bytes, state), a->got[i] = malloc(a->bytes);
}

static void free_arrays(struct arrays *a) {
  for (int i = 0; i < SOURCES_MAX; i++) free(a->sources[i]);
  for (int i = 0; i < TARGETS_MAX; i++) free(a->want[i]), free(a->got[i]);
}

/* Reduces with and without threads, from and into random positions of the arrays, perhaps into the first source. */
static void compare(const tutti_parallel *parallel, const struct tu_arithmetic *a, size_t count, uint64_t *state) {
  struct arrays arrays;
  const size_t bytes = count * tu_datatypes[a->type].bytes;
  take_arrays(&arrays, bytes, state);
  const uint32_t sources = 1 + (uint32_t)(tu_random(state) % SOURCES_MAX),
                 targets = 1 + (uint32_t)(tu_random(state) % 3);
  const enum tu_past past = (enum tu_past)(tu_random(state) % 4);
  const unsigned how = (unsigned)(tu_random(state) % 4); /* TU_FINAL, TU_TREE */
  const bool in_place = tu_random(state) % 3 == 0;
  const size_t shift = tu_random(state) % 2 * (tu_random(state) % 130);
  const void *srcs[SOURCES_MAX];
  void *want[TARGETS_MAX], *got[TARGETS_MAX];
  for (uint32_t i = 0; i < sources; i++) srcs[i] = arrays.sources[i] + tu_random(state) % 2 * (i + 1);
  for (uint32_t i = 0; i < targets; i++) {
    memcpy(arrays.got[i], arrays.want[i], arrays.bytes);
    want[i] = arrays.want[i] + shift;
    got[i] = arrays.got[i] + shift;
  }
  if (in_place) { /* the first source is the first target */
    memcpy(want[0], srcs[0], bytes);
    memcpy(got[0], srcs[0], bytes);
    srcs[0] = want[0];
  }
  tu_reduce_into(a, want, targets, past, srcs, sources, count, how);
  if (in_place) srcs[0] = got[0];
  tu_share_reduce(parallel, a, got, targets, past, srcs, sources, count, how);
  for (uint32_t i = 0; i < targets; i++)
    CHECK(memcmp(arrays.want[i], arrays.got[i], arrays.bytes) == 0,
          "%s of %s, %u sources, %u targets, past %d, %zu items, shift %zu%s", tutti_op_name(a->op),
          tutti_datatype_name(a->type), sources, targets, (int)past, count, shift, in_place ? ", in place" : "");
  free_arrays(&arrays);
}

static void every_type_and_operation(tutti_parallel parallel) {
  uint64_t state = test_seed();
  uint32_t cases = 0;
  for (uint32_t type = 0; type < TU_DATATYPES; type++)
    for (tutti_op op = 0; op < TU_OPS; op++) {
      const struct tu_arithmetic a = {.type = (tutti_datatype)type, .op = op, .scale = 1, .divisor = 3};
      if (!tu_is_datatype(a.type) || tu_arithmetic_check(&a, NULL) != TUTTI_OK) continue;
      parallel.threads = 2 + (uint32_t)(tu_random(&state) % 5);
      const size_t bytes = TU_SHARED_BYTES + tu_random(&state) % (4 * TU_PART_BYTES);
      compare(&parallel, &a, bytes / tu_datatypes[type].bytes + 1, &state);
      cases++;
    }
  const struct counts *c = parallel.context;
  CHECK(c->calls == cases && c->parts >= 2 * cases, "%u cases, %zu calls, %zu parts", cases, c->calls, c->parts);
}

static void reversed(void) {
  struct counts counts = {0};
  every_type_and_operation((tutti_parallel){.run = run_reversed, .context = &counts});
}

static void threads(void) {
  struct counts counts = {0};
  every_type_and_operation((tutti_parallel){.run = run_threads, .context = &counts});
}

static void copies(void) {
  uint64_t state = test_seed();
  struct counts counts = {0};
  const tutti_parallel parallel = {.run = run_reversed, .context = &counts, .threads = 4};
  for (int round = 0; round < 50; round++) {
    struct arrays a;
    const size_t bytes = TU_SHARED_BYTES + tu_random(&state) % (4 * TU_PART_BYTES);
    take_arrays(&a, bytes, &state);
    const uint32_t targets = 1 + (uint32_t)(tu_random(&state) % 3);
    const size_t shift = tu_random(&state) % 100;
    void *got[TARGETS_MAX];
    for (uint32_t i = 0; i < targets; i++) {
      memcpy(a.got[i], a.want[i], a.bytes);
      memcpy(a.want[i] + shift, a.sources[0], bytes);
      got[i] = a.got[i] + shift;
    }
    tu_share_copy(&parallel, got, targets, (enum tu_past)(round % 4), a.sources[0], bytes);
    for (uint32_t i = 0; i < targets; i++)
      CHECK(memcmp(a.want[i], a.got[i], a.bytes) == 0, "%zu bytes, shift %zu, target %u", bytes, shift, i);
    free_arrays(&a);
  }
  CHECK(counts.calls == 50, "%zu calls", counts.calls);
}

/* ---- what is not shared ---- */

static void add(void *result, const void *left, const void *right, size_t count, tutti_datatype type, void *context) {
  uint64_t *to = result;
  const uint64_t *l = left, *r = right;
  (void)type;
  ++*(int *)context;
  for (size_t i = 0; i < count; i++) to[i] = l[i] + r[i];
}

static void short_ones_and_operations_of_the_program(void) {
  int calls = 0;
  struct counts counts = {0};
  const tutti_parallel parallel = {.run = run_reversed, .context = &counts, .threads = 4};
  const struct tu_user_op user = {.function = add, .context = &calls, .commutative = true, .name = "add"};
  struct tu_arithmetic a = {.type = TUTTI_U64, .user = &user};
  const size_t count = 4 * TU_SHARED_BYTES / 8;
  uint64_t *x = calloc(count, 8), *y = calloc(count, 8), *z = calloc(count, 8);
  if (!x || !y || !z) abort();
  const void *srcs[] = {x, y};
  void *dsts[] = {z};
  tu_share_reduce(&parallel, &a, dsts, 1, TU_PAST_NONE, srcs, 2, count, true);
  CHECK(counts.calls == 0 && calls == 1, "%zu calls of run, %d of the operation", counts.calls, calls);
  a = (struct tu_arithmetic){
      .type = TUTTI_BYTES, .user = &user, .item_bytes = 8}; /* has no row in the table of datatypes */
  tu_share_reduce(&parallel, &a, dsts, 1, TU_PAST_NONE, srcs, 2, count, true);
  CHECK(counts.calls == 0 && calls == 2, "%zu calls of run, %d of the operation", counts.calls, calls);
  a = (struct tu_arithmetic){.type = TUTTI_U64, .op = TUTTI_SUM};
  tu_share_reduce(&parallel, &a, dsts, 1, TU_PAST_NONE, srcs, 2, TU_SHARED_BYTES / 8 - 1, true);
  tu_share_copy(&parallel, dsts, 1, TU_PAST_NONE, x, TU_SHARED_BYTES - 1);
  CHECK(counts.calls == 0, "a short one was shared");
  tu_share_copy(&parallel, dsts, 1, TU_PAST_NONE, x, TU_SHARED_BYTES);
  CHECK(counts.calls == 1 && counts.parts == 2, "%zu calls, %zu parts", counts.calls, counts.parts);
  free(x), free(y), free(z);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"reversed", reversed},
      {"threads", threads},
      {"copies", copies},
      {"short_ones_and_operations_of_the_program", short_ones_and_operations_of_the_program},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
