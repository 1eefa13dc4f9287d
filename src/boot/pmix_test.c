/* pmix_test.c: tests of PMIx with a library of the same name instead of libpmix (tests/fake_pmix.c), whose functions fail or
 * hang. Each case is a process of its own. No rank may hang. */
#include "boot/pmix.h"

#include <sys/wait.h>

#include "test.h"

enum { PATIENCE_MS = 200 };
static int patience_ms = PATIENCE_MS;

struct scene {
  const char *fake; /* FAKE_PMIX */
  uint32_t rank;
  tutti_err expected;
  const char *facts;
  bool asks; /* asks for the number of ranks first */
};

static tutti_err play(const struct scene *scene, struct tu_error *error) {
  const struct tu_boot_identity identity = {.rank = scene->rank, .ranks = 2, .carrier = TU_CARRIER_PMIX};
  char text[64] = "", number[8];
  uint32_t ranks = 2;
  snprintf(number, sizeof number, "%u", scene->rank);
  setenv("PMIX_RANK", number, 1);
  setenv("FAKE_PMIX", scene->fake, 1);
  if (scene->rank == 0) snprintf(text, sizeof text, "1;2 3;a,b");
  tutti_err err = scene->asks ? tu_pmix_ranks(&ranks, error) : TUTTI_OK;
  if (err == TUTTI_OK) err = tu_pmix_carry(&identity, text, sizeof text, patience_ms, error);
  if (err == TUTTI_OK && (strcmp(text, "1;2 3;a,b") != 0 || ranks != 2))
    return tu_fail(error, TUTTI_ERR_SYSTEM, "text '%s', %u ranks", text, ranks);
  return err;
}

static void run_scenes(const struct scene scenes[], size_t count) {
  for (size_t i = 0; i < count; i++) {
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      struct tu_error error = {0};
      tutti_err err = play(&scenes[i], &error);
      const bool good = err == scenes[i].expected && (err == TUTTI_OK || test_contains(error.text, scenes[i].facts));
      if (!good) printf("  '%s', rank %u: %s '%s'\n", scenes[i].fake, scenes[i].rank, tutti_err_name(err), error.text);
      exit(!good); /* also runs what PMIx is to do at exit */
    }
    waitpid(pid, &status, 0);
    CHECK(status == 0, "case '%s', rank %u: status %#x", scenes[i].fake, scenes[i].rank, (unsigned)status);
  }
}

static void test_carry(void) {
  static const struct scene scenes[] = {
      {"", 0, TUTTI_OK, "", false},
      {"", 1, TUTTI_OK, "", false},
      /* PMIx is begun once for both. */
      {"", 0, TUTTI_OK, "", true},
      {"", 1, TUTTI_OK, "", true},
  };
  run_scenes(scenes, sizeof scenes / sizeof scenes[0]);
}

static void test_refusals(void) {
  static const struct scene scenes[] = {
      {"fail PMIx_Init", 0, TUTTI_ERR_PEER, "PMIx_Init returned -50 (FAKE)", false},
      {"fail PMIx_Put", 0, TUTTI_ERR_PEER, "PMIx_Put returned -50 (FAKE)", false},
      {"fail PMIx_Commit", 0, TUTTI_ERR_PEER, "PMIx_Commit returned -50", false},
      {"fail PMIx_Fence", 1, TUTTI_ERR_PEER, "PMIx_Fence returned -50", false},
      {"fail PMIx_Get", 1, TUTTI_ERR_PEER, "PMIx_Get returned -50", true},
      {"fail PMIx_Finalize", 1, TUTTI_ERR_PEER, "PMIx_Finalize returned -50", false},
      {"type", 1, TUTTI_ERR_PEER, "PMIx_Get returned -18", false},
      {"alone", 1, TUTTI_ERR_ENVIRONMENT, "no launcher answers|TUTTI_LAUNCHER=none", true},
      {"version", 1, TUTTI_ERR_ENVIRONMENT, "PMIx 1.2.5|PMIx 2 or newer", false},
      {"rank", 1, TUTTI_ERR_ENVIRONMENT, "rank 1 of 2|rank 2 of 2", false},
  };
  run_scenes(scenes, sizeof scenes / sizeof scenes[0]);
}

static void test_hangs(void) {
  static const struct scene scenes[] = {
      {"hang PMIx_Init", 0, TUTTI_ERR_TIMEOUT, "200 ms|PMIx_Init", false},
      {"hang PMIx_Put", 0, TUTTI_ERR_TIMEOUT, "PMIx_Put", false},
      {"hang PMIx_Commit", 0, TUTTI_ERR_TIMEOUT, "PMIx_Commit", false},
      {"hang PMIx_Fence", 1, TUTTI_ERR_TIMEOUT, "PMIx_Fence|tutti_init", true},
      {"hang PMIx_Get", 1, TUTTI_ERR_TIMEOUT, "PMIx_Get", false},
      {"hang PMIx_Finalize", 1, TUTTI_ERR_TIMEOUT, "PMIx_Finalize", false},
  };
  run_scenes(scenes, sizeof scenes / sizeof scenes[0]);
}

/* The time is over before the thread that speaks to PMIx has begun, or soon after. */
static void test_no_time(void) {
  static const struct scene scenes[] = {{"hang PMIx_Init", 0, TUTTI_ERR_TIMEOUT, "waited 0 ms|PMIx_Init", false}};
  patience_ms = 0;
  for (int i = 0; i < 20; i++) run_scenes(scenes, sizeof scenes / sizeof scenes[0]);
  patience_ms = PATIENCE_MS;
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"carry", test_carry}, {"refusals", test_refusals}, {"hangs", test_hangs}, {"no time", test_no_time}};
  char path[] = "/tmp/pmix_test.XXXXXX";
  if (!getenv("FAKE_PMIX_FILE")) {
    /* The loader reads LD_LIBRARY_PATH when a program starts. */
    const int file = mkstemp(path);
    if (file < 0) return 1;
    close(file);
    setenv("FAKE_PMIX_FILE", path, 1);
    setenv("FAKE_PMIX_RANKS", "2", 1);
    setenv("LD_LIBRARY_PATH", BUILD_DIR "/tests/fake_pmix", 1);
    execv("/proc/self/exe", argv);
    return 1;
  }

  const int failed = test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
  unlink(getenv("FAKE_PMIX_FILE"));
  return failed;
}
