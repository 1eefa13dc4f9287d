/* test: slow timeout=600 */
/* sim_world_test.c: random programs with random faults, in the simulated world (tests/world). A seed determines the
 * program, its faults and the order in which the ranks run.
 *
 *   sim_world_test [TEST...]                     as other tests
 *   sim_world_test --seeds FIRST:LAST            these seeds
 *   sim_world_test --find FIRST:LAST [COPY.so]   the first of these seeds that fails; with another copy of the library
 *   sim_world_test --seed SEED [--small] [--trace [FILE]] [COPY.so]
 *       one seed: its program and what failed, and a smaller program that fails, too; the events of the program, or of
 *       the smaller one, in order, or in a file as Chrome-trace JSON
 *
 * --fabric before these: in all programs, ranks run on several hosts and use a fabric. Otherwise the seed decides. */
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "test.h"
#include "tests/world/inside.h"

#define COPY BUILD_DIR "/tests/libworld_copy.so"
#define NS_PER_MS UINT64_C(1000000)
#define JOIN_MS 20000u
#define AWAKE_MS 90u    /* less than a sleep: an abort wakes all ranks */
#define SURELY_MS 1000u /* a call ends at the latest this long after its time limit */

/* For each rank: the act that it carries out, and 1 + the time when it began; 0: none. */
static struct {
  uint32_t act;
  uint64_t began;
} current_act[WORLD_RANKS_MAX];
static bool gave_up[WORLD_RANKS_MAX]; /* the rank has got an error, and ends */
static uint64_t last_error;           /* time when a rank last got an error */

void world_fail(const char *format, ...) {
  if (world.failed) return;
  world.failed = true;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(world.text, sizeof world.text, format, arguments);
  va_end(arguments);
}

/* ---- checks of each act ---- */

/* Returns true if the rank suffered a fault, has got an error, or has ended, so that it may be the reason for an error
 * of another rank. */
static bool is_guilty(uint32_t rank) {
  const struct world_program *p = world.program;
  bool guilty = world.died_at[rank] || world.stopped[rank] || world.cut_off[rank] || gave_up[rank];
  for (uint32_t f = 0; f < p->faults; f++) guilty |= world.happened[f] && p->fault[f].rank == rank;
  return guilty;
}

/* Returns true if the message names a guilty rank by its number in the communicator of the slot. */
static bool names_member(const char *message, uint32_t act, uint8_t slot) {
  uint32_t members[WORLD_RANKS_MAX];
  const uint32_t count = world_members(world.program, act, slot, world.current, members);
  for (uint32_t i = 0; i < count; i++) {
    char name[32];
    snprintf(name, sizeof name, "rank %u", i);
    if (is_guilty(members[i]) && strstr(message, name)) return true;
  }
  return false;
}

/* Returns true if the message names a guilty rank by its number in the world. */
static bool names_in_world(const char *message) {
  for (uint32_t r = 0; r < world.program->ranks; r++) {
    char name[48];
    snprintf(name, sizeof name, "rank %u of the world", r);
    if (is_guilty(r) && strstr(message, name)) return true;
  }
  return false;
}

/* Returns the end of a text in parentheses, which may contain others. */
static const char *after_parentheses(const char *text) {
  int depth = 0;
  do depth += (*text == '(') - (*text == ')');
  while (*text++ != '\0' && depth > 0);
  return text;
}

static bool has_happened(enum world_mishap mishap) {
  const struct world_program *p = world.program;
  bool happened = false;
  for (uint32_t f = 0; f < p->faults; f++) happened |= world.happened[f] && p->fault[f].mishap == mishap;
  return happened;
}

/* Returns true if the ranks for which a call waited, by its error message, are guilty, or if the message is not that of a
 * time-out in a call. The message has the form "... for rank 1 (what it does), rank 2 (what it does); ...". */
static bool names_only_guilty(uint32_t act, const char *message) {
  uint32_t members[WORLD_RANKS_MAX], number, own;
  const struct world_act *a = act == WORLD_NO_ACT ? NULL : &world.program->act[act];
  if (!a || a->kind != WORLD_CALL || a->form == WORLD_DETACHED || sscanf(message, "rank %u has waited", &own) != 1)
    return true;
  const char *waits = strstr(message, " for rank ");
  if (!waits || strstr(message, " of the world")) return true;
  /* of two ranks whose hosts do not hear each other, one may wait for data, and the other for the credit of an earlier
   * slice */
  if (strstr(message, "they wait for each other") && has_happened(WORLD_SILENCE)) return true;
  const uint32_t count = world_members(world.program, act, a->comm, world.current, members);
  /* a rank that was paused cannot know that it was late itself */
  if (own < count && world.stopped[members[own]]) return true;
  for (waits += 4; sscanf(waits, " rank %u", &number) == 1;) {
    if (number >= count || !is_guilty(members[number])) return false;
    waits = strchr(waits, '(');
    if (!waits) return true;
    waits = after_parentheses(waits);
    if (*waits == ',') waits++;
  }
  return true;
}

/* Returns true if the message names a culprit. A message about a communicator that is being made uses the numbers of
 * the parent if the parent has failed, otherwise those of the new communicator. A rank that gets no memory need not
 * name itself. A signal may come from any rank, so a wait for a signal names the signal only. */
static bool names_culprit(uint32_t act, const char *message) {
  if (strcmp(message, WORLD_IMPATIENT) == 0 || strstr(message, "out of memory") || strstr(message, "ms for signal [") ||
      names_in_world(message))
    return true;
  if (act == WORLD_NO_ACT) return names_member(message, 0, 0);
  const struct world_act *a = &world.program->act[act];
  /* tutti_wait_all may return the error of a request on any communicator */
  const bool any = a->kind == WORLD_BURST || (a->kind == WORLD_CALL && a->form == WORLD_DETACHED);
  for (uint8_t slot = 0; slot < WORLD_COMMS_MAX && any; slot++)
    if (names_member(message, act, slot)) return true;
  return names_member(message, act, a->comm) || (world_makes(a) && names_member(message, act + 1, a->made));
}

/* The first failure of a communicator, which must become the error of all its ranks. */
static struct verdict {
  uint32_t maker, first, host; /* act that made the communicator, its first member, and the host */
  tutti_err err;
  char text[512];
} verdicts[4 * WORLD_COMMS_MAX];
static uint32_t verdict_count;

/* Checks that the error of a call is that of the communicator's other ranks on this host. Hosts may notice different
 * failures first. */
static void check_verdict(uint32_t act, tutti_err err, const char *message) {
  const struct world_act *a = act == WORLD_NO_ACT ? NULL : &world.program->act[act];
  uint32_t members[WORLD_RANKS_MAX];
  /* a wait for a signal may end by its time limit, without a failure of the communicator */
  const bool counts = a && (a->kind == WORLD_CALL || a->kind == WORLD_EXCHANGE || a->kind == WORLD_FINISH ||
                            (a->kind == WORLD_WINDOW && (err == TUTTI_ERR_PEER || err == TUTTI_ERR_ABORTED)));
  if (!counts) return;
  /* tutti_wait_all may return the error of a request on another communicator */
  if (a->kind == WORLD_CALL && a->form == WORLD_DETACHED) return;
  world_members(world.program, act, a->comm, world.current, members);
  const uint32_t maker = world_maker(world.program, act, a->comm), host = world.program->host[world.current];
  for (uint32_t i = 0; i < verdict_count; i++) {
    const struct verdict *v = &verdicts[i];
    if (v->maker != maker || v->first != members[0] || v->host != host) continue;
    if (v->err != err || strncmp(v->text, message, sizeof v->text - 1) != 0)
      world_fail("rank %u, act %u: %s: %s; another rank: %s: %s", world.current, act, tutti_err_name(err), message,
                 tutti_err_name(v->err), v->text);
    return;
  }
  if (verdict_count == sizeof verdicts / sizeof verdicts[0]) return;
  struct verdict *v = &verdicts[verdict_count++];
  *v = (struct verdict){.maker = maker, .first = members[0], .host = host, .err = err};
  snprintf(v->text, sizeof v->text, "%s", message);
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Returns true if only faults have happened that other ranks learn of at once. A rank that was stopped, or never comes,
 * is known to others by their time limit only. */
static bool are_seen_at_once(void) {
  return !has_happened(WORLD_PAUSE) && !has_happened(WORLD_STOP) && !has_happened(WORLD_ABSENT);
}

/* Returns true if the act is one wait of the library. Other acts make several calls, each with its own time limit. */
static bool is_one_wait(uint32_t act) {
  if (act == WORLD_NO_ACT) return false;
  const struct world_act *a = &world.program->act[act];
  return a->kind == WORLD_EXCHANGE || a->kind == WORLD_FINISH ||
         (a->kind == WORLD_CALL && a->form != WORLD_REPEATED && a->form != WORLD_PERSISTENT);
}

/* Time limit of the act's calls, in ms. A request has the limit of its start, and an act may wait for several. */
static uint32_t limit_in(uint32_t act) {
  const struct world_act *a = &world.program->act[act];
  const bool one = a->kind == WORLD_EXCHANGE || (a->kind == WORLD_CALL && a->form != WORLD_DETACHED);
  return one ? world_limit(world.program, act, a->comm) : world_limit_max(world.program);
}

/* Checks how long the current rank's act took, until it ended with `err`: at most until 1 s after the last fault or
 * error of any rank, or, if a rank has been stopped or did not come, the time limit of a call and 1 s. */
static void check_time(uint32_t act, uint64_t took, tutti_err err) {
  const uint32_t rank = world.current;
  const uint64_t limit = act == WORLD_NO_ACT ? JOIN_MS : limit_in(act);
  const uint64_t begun = later(later(world.last_fault, last_error), world.now - took);
  const uint64_t since = begun < world.now ? begun : world.now; /* some faults are noticed later */
  if (world.stopped[rank]) return;
  if ((is_one_wait(act) ? took : world.now - since) > (limit + SURELY_MS) * NS_PER_MS)
    world_fail("rank %u, act %d: took %.3f s with a limit of %u ms", rank, (int)act, (double)took / 1e9,
               (unsigned)limit);
  else if (err == TUTTI_ERR_ABORTED && are_seen_at_once() && world.now - since > AWAKE_MS * NS_PER_MS)
    world_fail("rank %u, act %d: ended %.3f s after an abort", rank, (int)act, (double)(world.now - since) / 1e9);
  else if (are_seen_at_once() && world.now - since > SURELY_MS * NS_PER_MS)
    world_fail("rank %u, act %d: ended %.3f s after the last fault", rank, (int)act, (double)(world.now - since) / 1e9);
}

void world_begin_act(uint32_t act) {
  world.joined[world.current] = true;
  world.act[world.current] = act;
  world.act_allocations[world.current] = 0;
  current_act[world.current].act = act;
  current_act[world.current].began = world.now + 1;
  world_trace_note(WORLD_BEGINS, world.current, act);
}

void world_give_up(void) {
  gave_up[world.current] = true;
  last_error = world.now;
}

void world_end_act(uint32_t act, tutti_err err, const char *message) {
  const struct world_program *p = world.program;
  const uint32_t rank = world.current;
  const uint64_t took = world.now + 1 - current_act[rank].began;
  bool any = false;
  current_act[rank].began = 0;
  world_trace_note(WORLD_ENDS, rank, err);
  if (err != TUTTI_OK) world_trace_error(err, message);
  for (uint32_t f = 0; f < p->faults; f++) any |= world.happened[f];
  if (err != TUTTI_OK && !any)
    world_fail("rank %u, act %d: an error without a fault: %s: %s", rank, (int)act, tutti_err_name(err), message);
  if (err != TUTTI_OK && any && !names_culprit(act, message))
    world_fail("rank %u, act %d: no culprit is named: %s: %s", rank, (int)act, tutti_err_name(err), message);
  if (err != TUTTI_OK && any && !names_only_guilty(act, message))
    world_fail("rank %u, act %d: an innocent rank is named: %s", rank, (int)act, message);
  check_time(act, took, err);
  if (err == TUTTI_OK) return;
  check_verdict(act, err, message);
  world_give_up();
}

/* ---- seeds ---- */

/* Called before each world. */
void world_reset_checks(void) {
  const size_t bytes = world.program->ring_bytes;
  char ring[32];
  snprintf(ring, sizeof ring, "%zu", bytes);
  if (bytes) setenv("TUTTI_RING_BYTES", ring, 1);
  else unsetenv("TUTTI_RING_BYTES");
  memset(current_act, 0, sizeof current_act);
  memset(gave_up, 0, sizeof gave_up);
  last_error = 0;
  verdict_count = 0;
}

/* A rank that makes another call than the others must not go unnoticed. */
void world_check_end(void) {
  bool noticed = world.program->faults != 1; /* two ranks may make the same other call */
  for (uint32_t r = 0; r < world.program->ranks; r++) noticed |= gave_up[r] || world.died_at[r] == 0;
  for (uint32_t f = 0; f < world.program->faults && !noticed; f++)
    if (world.happened[f] && world.program->fault[f].mishap == WORLD_MISMATCH)
      world_fail("rank %u made another call in act %llu, and no rank noticed", world.program->fault[f].rank,
                 (unsigned long long)world.program->fault[f].at);
}

static unsigned long long current_seed;

/* Reports a seed that crashes, or does not end. */
static void say_crashed(int number) {
  static const char *const how[] = {": crashes\n", ": does not end\n"};
  const char *end = how[number == SIGALRM];
  char text[40];
  size_t at = sizeof text;
  for (unsigned long long n = current_seed; at == sizeof text || n > 0; n /= 10) text[--at] = (char)('0' + n % 10);
  (void)!write(STDOUT_FILENO, text + at, sizeof text - at);
  (void)!write(STDOUT_FILENO, end, strlen(end));
  _exit(1);
}

static void report_crashes(void) {
  enum { ALTERNATE_BYTES = 1 << 16 };
  static char alternate[ALTERNATE_BYTES];
  const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
  struct sigaction action = {.sa_handler = say_crashed, .sa_flags = SA_ONSTACK};
  if (sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, NULL) != 0) abort();
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) sigaction(signals[i], &action, NULL);
}

static bool all_have_fabrics; /* --fabric */

static uint64_t perform(uint64_t seed) {
  enum { SECONDS = 20 };
  struct world_program program;
  current_seed = seed;
  alarm(SECONDS);
  world_program_make(&program, seed, all_have_fabrics);
  world_perform(&program);
  alarm(0);
  return world.hash;
}

/* Shows one seed. If it fails, shows also a smaller program that fails. small: shows this one only. */
static int show(uint64_t seed, bool small, bool traces, const char *path) {
  struct world_program program;
  world_program_make(&program, seed, all_have_fabrics);
  if (small) {
    world_perform(&program);
    if (world.failed) world_shrink(&program);
  }
  world_program_print(&program);
  if (traces && !world_trace_begin(path)) {
    printf("cannot write %s\n", path);
    return 1;
  }
  world_perform(&program);
  world_trace_end();
  if (!world.failed) return 0;
  printf("failed: %s\n", world.text);
  if (small) return 1;
  printf("\na smaller ");
  world_shrink(&program);
  world_program_print(&program);
  printf("failed: %s\n", world.text);
  return 1;
}

static int find(unsigned long long first, unsigned long long last) {
  for (unsigned long long seed = first; seed <= last; seed++) {
    perform(seed);
    if (!world.failed) continue;
    printf("%llu: %s\n", seed, world.text);
    return 1;
  }
  printf("no seed from %llu to %llu fails\n", first, last);
  return 0;
}

/* ---- tests ---- */

static void perform_seeds(uint64_t first, uint64_t last) {
  for (uint64_t seed = first; seed <= last; seed++) {
    perform(seed);
    if (world.failed) FAIL("seed %llu: %s", (unsigned long long)seed, world.text);
  }
}

static void seeds(void) { perform_seeds(1, test_long() ? 100000 : 5000); }

static void fabrics(void) {
  all_have_fabrics = true;
  perform_seeds(1, test_long() ? 10000 : 200);
  all_have_fabrics = false;
}

/* Binds this thread to one of the CPUs that it may use: to another one in each call, if there are several. */
static void move_on(const cpu_set_t *allowed) {
  static size_t cpu;
  do cpu = (cpu + 1) % CPU_SETSIZE;
  while (!CPU_ISSET(cpu, allowed));
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  tu_assert(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* A seed has the same events in each run, whatever ran before it, and on whatever CPU the world runs. */
static void replay(void) {
  uint64_t hashes[200];
  cpu_set_t allowed;
  tu_assert(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  for (uint64_t seed = 0; seed < 200; seed++) hashes[seed] = perform(seed);
  for (uint64_t seed = 200; seed-- > 0;) {
    move_on(&allowed);
    CHECK(perform(seed) == hashes[seed], "seed %llu differs in its second run", (unsigned long long)seed);
  }
  tu_assert(sched_setaffinity(0, sizeof allowed, &allowed) == 0);
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"replay", replay}, {"seeds", seeds}, {"fabrics", fabrics}};
  unsigned long long first = 0, last = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  setenv("TUTTI_TUNING", "none", 1);
  const bool other = argc > 3 && strstr(argv[argc - 1], ".so");
  world_load(other ? argv[--argc] : COPY);
  report_crashes();
  all_have_fabrics = argc > 1 && strcmp(argv[1], "--fabric") == 0;
  if (all_have_fabrics) argv[1] = argv[0], argv++, argc--;
  if (argc > 2 && strcmp(argv[1], "--find") == 0 && sscanf(argv[2], "%llu:%llu", &first, &last) == 2)
    return find(first, last);
  if (argc < 3 || strncmp(argv[1], "--seed", 6) != 0)
    return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
  if (strcmp(argv[1], "--seeds") == 0 && sscanf(argv[2], "%llu:%llu", &first, &last) == 2) {
    perform_seeds(first, last);
    return test_failures > 0;
  }
  const bool small = argc > 3 && strcmp(argv[3], "--small") == 0;
  const bool traces = argc > 3 + small && strcmp(argv[3 + small], "--trace") == 0;
  return show(strtoull(argv[2], NULL, 0), small, traces, argc > 4 + small ? argv[4 + small] : NULL);
}
