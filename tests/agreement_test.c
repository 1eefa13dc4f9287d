/* agreement_test.c: all ranks of a world, and of communicators made from it, run the same algorithm. Rank 0's selection
 * table and environment variables decide; those of other ranks are ignored. */
#include "algo/algo.h"
#include "algo/tuning.h"
#include "api/tuning.h"
#include "call/request.h"

#include <sys/stat.h>

#include "ranks.h"
#include "test.h"

/* Environment of a rank; NULL: not set. */
struct setting {
  const char *rules; /* content of the file that TUTTI_TUNING names */
  const char *tuning, *forced;
};

struct scene {
  const char *name;
  struct setting settings[3]; /* by rank; ranks beyond have the last one's */
  const char *small, *large;  /* expected algorithms of an allreduce of 8 bytes and of 1 MiB */
  const char *failure; /* part of the error message of every rank if tutti_init must fail; NULL: it must succeed */
  const char
      *refusal; /* part of the error message if the allreduce of 8 bytes must be refused; NULL: it must succeed */
};

enum { RANKS = 3 };
#define BUILT_IN "rs:direct+ag:di" /* the built-in choice for 1 MiB, with the name cut to 15 characters */

static void set(const char *name, const char *value) {
  if (value) setenv(name, value, 1);
  else unsetenv(name);
}

static void settle(const struct setting *s, uint32_t rank) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/agreement_test_%d_%u", (int)getppid(), rank);
  if (s->rules) {
    FILE *file = fopen(path, "w");
    if (!file || fputs(s->rules, file) < 0 || fclose(file) != 0) abort();
  }
  set("TUTTI_TUNING", s->rules ? path : s->tuning);
  set("TUTTI_ALGORITHM", s->forced);
}

static void tidy(void) {
  char path[64];
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    snprintf(path, sizeof path, "/tmp/agreement_test_%d_%u", (int)getpid(), rank);
    unlink(path);
  }
}

/* An operation that does not commute. */
static void keep_left(void *result, const void *left, const void *right, size_t count, tutti_datatype type,
                      void *context) {
  (void)right, (void)context;
  memmove(result, left, count * tutti_datatype_size(type));
}

static const char *algorithm_of(tutti_comm *comm, tutti_op op, size_t count, float *buffer) {
  tutti_request *request;
  const tutti_call call = {.collective = TUTTI_ALLREDUCE,
                           .send = TUTTI_IN_PLACE,
                           .recv = buffer,
                           .count = count,
                           .type = TUTTI_F32,
                           .op = op};
  if (tutti_prepare(comm, &call, &request) != TUTTI_OK) return NULL;
  static char plan_name[sizeof request->facts.plan_name];
  memcpy(plan_name, request->facts.plan_name, sizeof plan_name);
  const char *name = request->facts.plan ? plan_name : tu_algorithms[request->facts.algorithm]->name;
  if (tutti_restart(request) != TUTTI_OK || tutti_wait(&request) != TUTTI_OK) return "(the call failed)";
  tutti_request_free(request);
  return name;
}

/* Notes the names of the algorithms for both sizes; the error code says whether the call succeeded. */
static void note_names(struct ranks_world *w, uint32_t rank, tutti_comm *comm) {
  const struct scene *s = w->context;
  tutti_op op = TUTTI_SUM;
  if (s->refusal && tutti_op_create(keep_left, NULL, false, "keep_left", &op) != TUTTI_OK) return;
  static float buffer[1 << 18];
  char names[RANKS_TEXT];
  const char *small = algorithm_of(comm, op, 2, buffer);
  if (!small) {
    ranks_note(w, rank, TUTTI_ERR_ARGUMENT, tutti_error_message(comm));
    return;
  }
  snprintf(names, sizeof names, "%s %s", small, algorithm_of(comm, op, 1 << 18, buffer));
  ranks_note(w, rank, TUTTI_OK, names);
}

static int body(struct ranks_world *w, uint32_t rank) {
  const struct scene *s = w->context;
  tutti_comm *world, *half = NULL;
  settle(&s->settings[rank], rank);
  tutti_err err = tutti_init(&(tutti_options){.timeout_ms = 20000, .join_timeout_ms = 20000}, &world);
  if (err != TUTTI_OK) {
    ranks_note(w, rank, err, tutti_error_message(NULL));
    return 0;
  }
  note_names(w, rank, world);
  if (tutti_comm_split(world, 0, -(int)rank, &half) == TUTTI_OK) note_names(w, rank, half);
  tutti_comm_free(half);
  tutti_comm_free(world);
  return 0;
}

static void play(const struct scene *s) {
  struct ranks_world w = {.context = s};
  ranks_start(&w, RANKS, body);
  CHECK(ranks_end(&w, 60000), "%s: hangs", s->name);
  char expected[128];
  snprintf(expected, sizeof expected, "%s %s", s->small ? s->small : "", s->large ? s->large : "");
  for (uint32_t r = 0; r < RANKS; r++) {
    const struct ranks_note *notes = w.shared->rank[r].notes;
    const char *part = s->failure ? s->failure : s->refusal;
    uint32_t count = w.shared->rank[r].noted;
    CHECK(w.status[r] == 0 && count >= 1, "%s: rank %u ended with status %d", s->name, r, w.status[r]);
    if (part) {
      CHECK(notes[0].err != TUTTI_OK && test_contains(notes[0].text, part),
            "%s: rank %u: '%s', expected the facts '%s'", s->name, r, notes[0].text, part);
      continue;
    }
    CHECK(count == 2, "%s: rank %u has %u notes", s->name, r, count);
    for (uint32_t i = 0; i < count; i++)
      CHECK(notes[i].err == TUTTI_OK && strcmp(notes[i].text, expected) == 0,
            "%s: rank %u, communicator %u: '%s', not '%s'", s->name, r, i, notes[i].text, expected);
  }
  ranks_fini(&w);
  tidy();
}

static void test_tables(void) {
  static const struct scene scenes[] = {
      {"tables of their own",
       {{.rules = "allreduce bytes<=1K reduce_broadcast\n"},
        {.rules = "allreduce direct\n"},
        {.rules = "allreduce recursive_doubling\n"}},
       .small = "reduce_broadcast",
       .large = BUILT_IN},
      {"only the others have one",
       {{.tuning = "none"}, {.rules = "allreduce reduce_broadcast\n"}, {.rules = "allreduce reduce_broadcast\n"}},
       .small = "direct",
       .large = BUILT_IN},
      {"set to nothing", {{.tuning = ""}, {.rules = "allreduce ring\n"}}, .small = "direct", .large = BUILT_IN},
      {"broken on others, which do not read it",
       {{.rules = "allreduce ring"}, {.rules = "allreduce rang\n"}, {.tuning = "/there/is/no/such/file"}},
       .small = "ring",
       .large = "ring"},
      {"forced by rank 0",
       {{.tuning = "none", .forced = "allreduce=recursive_doubling"},
        {.forced = "allreduce=direct"},
        {.forced = "nonsense"}},
       .small = "recursive_doubling",
       .large = "recursive_doubling"},
      {"forced and a table",
       {{.rules = "allreduce direct\nallgather direct\n", .forced = "allreduce=ring"}},
       .small = "ring",
       .large = "ring"},
  };
  for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) play(&scenes[i]);
}

static void test_broken(void) {
  static const struct scene scenes[] = {
      {"broken", {{.rules = "# hm\nallreduce rang\n"}}, .failure = ":2:|ranks, hosts, groups, share, bytes or order"},
      {"missing", {{.tuning = "/there/is/no/such/file"}}, .failure = "rank 0|selection table|'/there/is"},
      {"unknown", {{.tuning = "none", .forced = "allreduce=rang"}}, .failure = "'rang'|'ring'"},
  };
  for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) play(&scenes[i]);
}

/* Forces an algorithm that does not keep rank order, then calls it with an operation that does not commute. */
static void test_refusal(void) {
  size_t i = 0;
  while (tu_algorithms[i]->collective != TUTTI_ALLREDUCE || tu_algorithms[i]->flags & TU_RANK_ORDER ||
         !tu_algorithm_fits(tu_algorithms[i], RANKS))
    i++;
  char forced[128], refusal[256];
  snprintf(forced, sizeof forced, "allreduce=%s", tu_algorithms[i]->name);
  snprintf(refusal, sizeof refusal, "algorithm %s|TUTTI_ALGORITHM|allreduce on %d ranks|operation",
           tu_algorithms[i]->name, RANKS);
  const struct scene scene = {"refused", {{.tuning = "none", .forced = forced}}, .refusal = refusal};
  play(&scene);
}

/* Finds the default selection table: tutti's file in the user's configuration folder. */
static void test_default_paths(void) {
  char folder[] = "/tmp/agreement_test_XXXXXX", path[256];
  if (!mkdtemp(folder)) abort();
  static const char *const parts[] = {"/.config", "/.config/tutti"};
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s%s", folder, parts[i]);
    if (mkdir(path, 0700) != 0) abort();
  }
  snprintf(path, sizeof path, "%s/.config/tutti/tuning", folder);
  FILE *file = fopen(path, "w");
  if (!file || fputs("allreduce reduce_broadcast\n", file) < 0 || fclose(file) != 0) abort();
  ranks_clear_environment();
  unsetenv("TUTTI_TUNING");
  static const struct {
    const char *home, *config; /* relative to the test's folder; NULL: not set */
    bool found;
  } table[] = {
      {"", NULL, true},          {"/.config", "/.config", true},   {"", "/elsewhere", false},
      {"/.config", NULL, false}, {"/elsewhere", "/.config", true},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    char home[256], config[256];
    struct tu_tuning *tuning;
    struct tu_error error = {0};
    snprintf(home, sizeof home, "%s%s", folder, table[i].home);
    snprintf(config, sizeof config, "%s%s", folder, table[i].config ? table[i].config : "");
    set("HOME", home);
    set("XDG_CONFIG_HOME", table[i].config ? config : NULL);
    CHECK(tu_tuning_load(&tuning, &error) == TUTTI_OK, "row %zu: %s", i, error.text);
    bool found = tuning && tuning->name && strcmp(tuning->name, path) == 0;
    CHECK(found == table[i].found, "row %zu: %s", i, found ? "found" : "not found");
    tu_tuning_release(tuning);
  }
  set("XDG_CONFIG_HOME", ".config"); /* a relative path, which must be ignored */
  set("HOME", folder);
  file = fopen(path, "w");
  if (!file || fputs("allreduce rang\n", file) < 0 || fclose(file) != 0) abort();
  struct tu_tuning *tuning;
  struct tu_error error = {0};
  CHECK(tu_tuning_load(&tuning, &error) == TUTTI_ERR_ARGUMENT && strstr(error.text, path), "'%s'", error.text);
  setenv("TUTTI_TUNING", "none", 1);
  CHECK(tu_tuning_load(&tuning, &error) == TUTTI_OK && !tuning, "none: %s", error.text);
  unlink(path);
  for (int i = 2; i-- > 0;) {
    snprintf(path, sizeof path, "%s%s", folder, parts[i]);
    rmdir(path);
  }
  rmdir(folder);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"tables", test_tables},
                                      {"broken", test_broken},
                                      {"refusal", test_refusal},
                                      {"default_paths", test_default_paths}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
