/* test: slow timeout=3000 */
/* sweep_test.c: every algorithm on 1, 2, 3, 4, 5, 7 and 8 real processes, with all sizes, types, operations and roots,
 * in place and not, against the naive reference. Each rank's buffers are in private, heap or registered memory, at
 * random. By default a seeded sample runs; with TEST_LONG, all combinations (a million cases), except that sizes from
 * 100,003 elements up use every type with sum only, and every operation with one type only. */
#include "algo/algo.h"
#include "buffers.h"
#include "ranks.h"
#include "reference.h"
#include "test.h"

static const uint32_t rank_counts[] = {1, 2, 3, 4, 5, 7, 8};
enum { RANK_COUNTS = sizeof rank_counts / sizeof rank_counts[0] };

static const size_t sizes[] = {0, 1, 2, 3, 7, 64, 1000, 4097, 100003, SIZE_MAX /* some MiB */};
enum { SIZES = sizeof sizes / sizeof sizes[0], SMALL_SIZES = 8, SAMPLE = 10, SLOT_BYTES = 4 << 20 };

/* An algorithm with a collective to test it on: its own, or the v-form of that. */
struct subject {
  tutti_collective collective;
  const char *algorithm; /* NULL: chosen by the library */
  bool rank_order;
};

static uint32_t list_subjects(struct subject subjects[], uint32_t max) {
  static const struct {
    tutti_collective plain, vector;
  } families[] = {{TUTTI_GATHER, TUTTI_GATHERV},
                  {TUTTI_SCATTER, TUTTI_SCATTERV},
                  {TUTTI_ALLGATHER, TUTTI_ALLGATHERV},
                  {TUTTI_REDUCE_SCATTER, TUTTI_REDUCE_SCATTERV},
                  {TUTTI_ALLTOALL, TUTTI_ALLTOALLV}};
  uint32_t count = 0;
  for (tutti_collective c = 0; c < TUTTI_SEND; c = tu_collective_next(c))
    subjects[count++] = (struct subject){c, NULL, true};
  const struct tu_algorithm *a;
  for (size_t i = 0; (a = tu_algorithm_at(i)) != NULL; i++) {
    if (a->collective >= TUTTI_SEND) continue;
    if (count + 2 > max) abort();
    bool rank_order = (a->flags & TU_RANK_ORDER) != 0;
    subjects[count++] = (struct subject){a->collective, a->name, rank_order};
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
      if (families[f].plain == a->collective && !(a->flags & TU_EQUAL_BLOCKS))
        subjects[count++] = (struct subject){families[f].vector, a->name, rank_order};
  }
  return count;
}

/* Returns the number of cases of a subject. */
static uint64_t product(const struct subject *s) {
  if (s->collective == TUTTI_BARRIER) return 1;
  uint64_t n = (uint64_t)SIZES * REF_TYPES * REF_ALIASINGS;
  if (ref_reduces(s->collective)) n *= REF_OPS;
  if (ref_rooted(s->collective)) n *= 3;
  if (ref_vector(s->collective)) n *= REF_BLOCKS;
  return n;
}

static uint32_t take(uint64_t *number, uint32_t base) {
  uint32_t digit = (uint32_t)(*number % base);
  *number /= base;
  return digit;
}

/* Makes the case of that number; returns false if there is no such case. */
static bool decode(const struct subject *s, uint32_t ranks, uint64_t number, uint64_t seed, struct ref_case *c) {
  *c = (struct ref_case){
      .collective = s->collective, .algorithm = s->algorithm, .ranks = ranks, .seed = ref_mix(seed + number)};
  if (s->collective == TUTTI_BARRIER) return true;
  uint32_t size = take(&number, SIZES);
  c->type = ref_types[take(&number, REF_TYPES)];
  c->aliasing = (enum ref_aliasing)take(&number, REF_ALIASINGS);
  if (ref_reduces(s->collective)) c->op = take(&number, REF_OPS);
  if (ref_rooted(s->collective)) {
    uint32_t which = take(&number, 3);
    c->root = which == 0 ? 0 : which == 1 ? ranks / 2 : ranks - 1;
    if (which == 1 && ranks < 3) return false; /* the same root as in another case */
  }
  if (ref_vector(s->collective)) c->blocks = (enum ref_blocks)take(&number, REF_BLOCKS);
  const struct tu_algorithm *a = s->algorithm ? tu_algorithm_find(s->collective, s->algorithm) : NULL;
  uint32_t lanes_max = a ? tu_build_lanes_max(a) : TU_LANES_MAX;
  if (c->seed % 3 == 0)
    c->lanes = (uint32_t)(c->seed / 3 % (lanes_max + 1)); /* lanes are random, not one more dimension of the product */
  c->pointers = c->seed / 64 % 2;                         /* so are addresses of blocks */
  c->count = sizes[size];
  if (size >= SMALL_SIZES) {
    if (c->op != TUTTI_SUM && c->type != TUTTI_I32 && c->type != TUTTI_F32) return false;
    size_t bytes = 3 * 1024 * 1024 + 5, item = ref_item_bytes(c->type);
    size_t share =
        ref_longer_of(c->collective) || ref_vector(c->collective) || c->collective == TUTTI_ALLTOALL ? ranks : 1;
    if (c->count == SIZE_MAX) c->count = bytes / item / share;
  }
  return ref_valid(c) && (s->rank_order || c->op != REF_AFFINE);
}

/* Calls `visit` for every selected case with that number of ranks; returns their number. */
static uint64_t each_case(uint32_t ranks, uint64_t seed, bool (*visit)(const struct ref_case *c)) {
  struct subject subjects[256];
  uint32_t subject_count = list_subjects(subjects, 256);
  uint64_t cases = 0;
  for (uint32_t k = 0; k < subject_count; k++) {
    const struct subject *s = &subjects[k];
    const struct tu_algorithm *a = s->algorithm ? tu_algorithm_find(s->collective, s->algorithm) : NULL;
    if (a && !tu_algorithm_fits(a, ranks)) continue;
    uint64_t all = product(s), state = ref_hash(seed, k, ranks, 5);
    struct ref_case c;
    if (test_long()) {
      for (uint64_t n = 0; n < all; n++) {
        if (!decode(s, ranks, n, seed, &c)) continue;
        cases++;
        if (visit && !visit(&c)) return cases;
      }
      continue;
    }
    for (uint32_t drawn = 0; drawn < SAMPLE;) {
      uint64_t n = ranks_random(&state) % all;
      /* Runs only one of 8 large cases, as they are slow. */
      if (s->collective != TUTTI_BARRIER && n % SIZES >= SMALL_SIZES && ranks_random(&state) % 8) continue;
      if (!decode(s, ranks, n, seed + drawn, &c)) continue;
      drawn++, cases++;
      if (visit && !visit(&c)) return cases;
    }
  }
  return cases;
}

/* ---- one rank ---- */

static tutti_comm *world;
static uint64_t wrong;

/* Runs a case: by start and wait, by a blocking call, as a persistent request twice, or with tests until done. */
static tutti_err carry_out(struct ref_run *run) {
  tutti_request *request = NULL;
  tutti_err err;
  bool done = false;
  switch ((run->c.seed >> 50) % 4) {
    case 0:
      if ((err = tutti_prepare(world, &run->call, &request)) != TUTTI_OK) return err;
      for (int round = 0; round < 2; round++) {
        ref_fill(run);
        err = tutti_restart(request);
        if (err == TUTTI_OK) err = tutti_wait(&request);
        if (err != TUTTI_OK) return err;
      }
      tutti_request_free(request);
      return TUTTI_OK;
    case 1:
      if ((err = tutti_start(world, &run->call, &request)) != TUTTI_OK) return err;
      while (!done)
        if ((err = tutti_test(&request, &done)) != TUTTI_OK) return err;
      return TUTTI_OK;
    case 2:
      if ((err = tutti_start(world, &run->call, NULL)) != TUTTI_OK) return err;
      return tutti_wait_all(NULL, 0);
    default:
      if ((err = tutti_start(world, &run->call, &request)) != TUTTI_OK) return err;
      return tutti_wait(&request);
  }
}

static bool visit_on_rank(const struct ref_case *c) {
  struct ref_run run;
  char text[768];
  ref_run_init(&run, c, tutti_rank(world));
  ref_fill(&run);
  ref_want(&run);
  tutti_err err = carry_out(&run);
  if (err != TUTTI_OK) {
    ref_case_print(c, text, sizeof text);
    printf("rank %u: %s: %s, in %s\n", tutti_rank(world), tutti_err_name(err), tutti_error_message(world), text);
    wrong++;
    return false; /* the communicator has failed */
  }
  if (!ref_agrees(&run, text, sizeof text) && wrong++ < 10) printf("%s\n", text);
  ref_run_fini(&run);
  return true;
}

static int be_a_rank(const char *argument) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  uint64_t seed = strtoull(argument, NULL, 0);
  tutti_err err = ref_register();
  if (err == TUTTI_OK) err = tutti_init(&(tutti_options){.timeout_ms = 60000}, &world);
  if (err != TUTTI_OK) {
    printf("%s\n", tutti_error_message(NULL));
    return 1;
  }
  if (buffers_init(world, SLOT_BYTES) != TUTTI_OK) {
    printf("%s\n", tutti_error_message(NULL));
    return 1;
  }
  ref_memory = (struct ref_memory){buffers_acquire, buffers_release};
  uint64_t cases = each_case(tutti_ranks(world), seed, visit_on_rank);
  if (tutti_rank(world) == 0) printf("cases=%llu\n", (unsigned long long)cases);
  if (wrong == 0 && (buffers_fini() != TUTTI_OK || tutti_comm_free(world) != TUTTI_OK)) {
    printf("free: %s\n", tutti_error_message(NULL));
    return 1;
  }
  return wrong ? 1 : 0;
}

/* ---- the test ---- */

static void every_algorithm_agrees(void) {
  uint64_t seed = test_seed(), total = 0;
  char argument[32];
  snprintf(argument, sizeof argument, "%llu", (unsigned long long)seed);
  for (uint32_t k = 0; k < RANK_COUNTS; k++) {
    uint32_t n = rank_counts[k];
    struct ranks_output output;
    int status = ranks_launch(n, "rank", argument, test_long() ? 2400 : 120, &output);
    const char *said = strstr(output.chars, "cases=");
    uint64_t wanted = each_case(n, seed, NULL), ran = said ? strtoull(said + 6, NULL, 10) : 0;
    CHECK(status == 0, "%u ranks: exit status %d:\n%s", n, status, output.chars);
    CHECK(ran == wanted, "%u ranks: %llu cases ran, expected %llu", n, (unsigned long long)ran,
          (unsigned long long)wanted);
    total += ran;
    free(output.chars);
  }
  printf("  %llu cases\n", (unsigned long long)total);
  uint64_t least = test_long() ? 500000 : 5000;
  CHECK(total >= least, "%llu cases, expected at least %llu", (unsigned long long)total, (unsigned long long)least);
}

int main(int argc, char **argv) {
  if (argc > 3 && strcmp(argv[1], "--as") == 0) return be_a_rank(argv[3]);
  const struct test tests[] = {{"every_algorithm_agrees", every_algorithm_agrees}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
