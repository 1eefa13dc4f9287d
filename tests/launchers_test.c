/* launchers_test.c: a program with this library, started by other launchers (those that are installed). tutti_init must
 * fail, instead of making worlds of one rank. With TUTTI_RANK=0 TUTTI_WORLD_SIZE=1, worlds of one are allowed. */
/* test: slow timeout=120 */
#include <signal.h>
#include <sys/wait.h>
#include <tutti/tutti.h>

#include "test.h"

struct launcher {
  const char *command, *variable;
  const char *options;
};

/* Runs as a rank under the launcher: prints the result of tutti_init. */
static int be_rank(void) {
  tutti_comm *world;
  if (tutti_init(NULL, &world) != TUTTI_OK) {
    printf("refused: %s\n", tutti_error_message(NULL));
    return 0;
  }
  printf("world of %u\n", tutti_ranks(world));
  return tutti_comm_free(world) != TUTTI_OK;
}

/* Runs a command, and counts the lines of its output that contain both words. Returns the status of the command. */
static int run(const char *command, const char *word, const char *other, int *lines) {
  char line[1024];
  FILE *output = popen(command, "re");
  *lines = 0;
  if (!output) return -1;
  while (fgets(line, sizeof line, output)) {
    bool counts = strstr(line, word) && strstr(line, other);
    *lines += counts;
    if (!counts) printf("  %s", line);
  }
  return pclose(output);
}

/* Returns how many lines of the output of `ranks` processes contain both words. MPICH's launcher (4.0.2) may write to a
 * helper process that has ended because its ranks have; a SIGPIPE kills it then. So it is started again. */
static int count(const struct launcher *launcher, int ranks, const char *before, const char *word, const char *other) {
  enum { STARTS_MAX = 10 };
  char command[4608], self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  self[length > 0 ? length : 0] = '\0';
  snprintf(command, sizeof command, "%s %s -n %d %s'%s' rank 2>&1", launcher->command, launcher->options, ranks, before,
           self);
  int status = 0, lines = 0;
  for (int starts = 0; starts < STARTS_MAX; starts++) {
    status = run(command, word, other, &lines);
    bool killed = WIFSIGNALED(status) ? WTERMSIG(status) == SIGPIPE : WEXITSTATUS(status) == 128 + SIGPIPE;
    if (!killed) break;
  }
  CHECK(status == 0, "%s failed: status %x", command, (unsigned)status);
  return lines;
}

static void check_launcher(const struct launcher *launcher) {
  char found[256];
  snprintf(found, sizeof found, "command -v %s >/dev/null", launcher->command);
  if (system(found) != 0) {
    printf("  skipped: %s is not installed\n", launcher->command);
    return;
  }
  CHECK(count(launcher, 2, "", launcher->variable, "set TUTTI_RANK=0 TUTTI_WORLD_SIZE=1") == 2,
        "%s -n 2: expected two refusals", launcher->command);
  CHECK(count(launcher, 2, "env TUTTI_RANK=0 TUTTI_WORLD_SIZE=1 ", "world of 1", "") == 2,
        "%s: expected two worlds of one rank", launcher->command);
}

static void test_openmpi(void) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  check_launcher(&(struct launcher){"mpirun.openmpi", "OMPI_COMM_WORLD_SIZE is 2", "--oversubscribe"});
}

static void test_mpich(void) { check_launcher(&(struct launcher){"mpirun.mpich", "PMI_SIZE is 2", ""}); }

static void test_slurm(void) { check_launcher(&(struct launcher){"srun", "SLURM_STEP_NUM_TASKS is 2", ""}); }

int main(int argc, char **argv) {
  static const struct test tests[] = {{"openmpi", test_openmpi}, {"mpich", test_mpich}, {"slurm", test_slurm}};
  if (argc == 2 && strcmp(argv[1], "rank") == 0) return be_rank();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
