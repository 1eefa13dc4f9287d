/* launchers_test.c: a program of this library that another launcher started, by the launchers that are installed: it says that it
 * cannot join, and is no world of one; a world of one on purpose is one. */
/* test: slow timeout=120 */
#include <tutti/tutti.h>

#include "test.h"

struct launcher {
  const char *command, *variable;
  const char *options;
};

/* Started by the launcher: says what it finds. */
static int be_rank(void) {
  tutti_comm *world;
  if (tutti_init(NULL, &world) != TUTTI_OK) {
    printf("refused: %s\n", tutti_error_message(NULL));
    return 0;
  }
  printf("world of %u\n", tutti_ranks(world));
  return tutti_comm_free(world) != TUTTI_OK;
}

/* How many lines of the output of `ranks` processes have both words. */
static int count(const struct launcher *launcher, int ranks, const char *before, const char *word, const char *other) {
  char command[4608], self[4096], line[1024];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  self[length > 0 ? length : 0] = '\0';
  snprintf(command, sizeof command, "%s %s -n %d %s'%s' rank 2>&1", launcher->command, launcher->options, ranks, before,
           self);
  FILE *output = popen(command, "re");
  int lines = 0;
  while (output && fgets(line, sizeof line, output)) {
    bool counts = strstr(line, word) && strstr(line, other);
    lines += counts;
    if (!counts) printf("  %s: %s", launcher->command, line);
  }
  CHECK(output && pclose(output) == 0, "%s failed", command);
  return lines;
}

static void check_launcher(const struct launcher *launcher) {
  char found[256];
  snprintf(found, sizeof found, "command -v %s >/dev/null", launcher->command);
  if (system(found) != 0) {
    printf("  skipped: there is no %s\n", launcher->command);
    return;
  }
  CHECK(count(launcher, 2, "", launcher->variable, "set TUTTI_RANK=0 TUTTI_WORLD_SIZE=1") == 2,
        "%s -n 2 made worlds of one", launcher->command);
  CHECK(count(launcher, 2, "env TUTTI_RANK=0 TUTTI_WORLD_SIZE=1 ", "world of 1", "") == 2,
        "%s: no world of one on purpose", launcher->command);
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
