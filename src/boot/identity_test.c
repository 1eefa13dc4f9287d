/* identity_test.c: tests what a process learns of its job before it joins: its rank and the job's address, from the
 * environment, and the secret of the job, from the environment or a file. */
#include <fcntl.h>
#include <sys/stat.h>

#include "boot/job_tcp_wire.h"
#include "test.h"

/* libpmix, which the test of PMIx without a launcher loads, keeps some memory. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libpmix"; }

/* ---- the environment ---- */

static void clear_environment(void) {
  static const char *const names[] = {
      "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_MASTER_ADDR",
      "TUTTI_MASTER_PORT", "TUTTI_RESERVED_PORT", "TUTTI_SECRET", "TUTTI_SECRET_FILE", "TUTTI_LAUNCHER",
      "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
      /* variables of other launchers */
      "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "PMI_FD", "PMI_ID", "PMI_PORT",
      "PMIX_RANK", "PMIX_NAMESPACE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_PROCID",
      "SLURM_JOB_ID", "LOCAL_WORLD_SIZE", "PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
}

static void set_environment(const char *settings) {
  clear_environment();
  char copy[512];
  snprintf(copy, sizeof copy, "%s", settings);
  char *rest = NULL;
  for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    char *value = strchr(word, '=');
    *value++ = '\0';
    setenv(word, value, 1);
  }
}

/* Returns the identity that these settings give. They must not be refused. */
static struct tu_boot_identity identity_from(const char *settings) {
  struct tu_boot_identity identity;
  struct tu_error error = {0};
  set_environment(settings);
  tutti_err err = tu_boot_identity_read(&identity, &error);
  CHECK(err == TUTTI_OK, "'%s' is refused: %s", settings, error.text);
  return identity;
}

static void test_identity(void) {
  static const struct {
    const char *settings;
    bool alone;
    uint32_t rank, ranks;
    uint16_t port;
    bool reserved;
  } good[] = {
      {"", true, 0, 1, 0, false},
      {"RANK= WORLD_SIZE=", true, 0, 1, 0, false},
      {"RANK=0 WORLD_SIZE=1", false, 0, 1, 0, false},
      {"RANK=0 WORLD_SIZE=1 MASTER_ADDR=h MASTER_PORT=29500", false, 0, 1, 29501, false},
      {"RANK=3 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=29500", false, 3, 4, 29501, false},
      {"TUTTI_RANK=3 TUTTI_WORLD_SIZE=4 TUTTI_MASTER_ADDR=h TUTTI_MASTER_PORT=29500", false, 3, 4, 29500, false},
      {"RANK=1 TUTTI_RANK=2 WORLD_SIZE=3 MASTER_ADDR=h MASTER_PORT=9 TUTTI_MASTER_PORT=7", false, 2, 3, 7, false},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=65534", false, 0, 2, 65535, false},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h TUTTI_MASTER_PORT=65535", false, 0, 2, 65535, false},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h TUTTI_MASTER_PORT=77 TUTTI_RESERVED_PORT=77", false, 0, 2, 77, true},
      /* the job's port was changed after another port was reserved, so it does not count as reserved */
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h TUTTI_MASTER_PORT=78 TUTTI_RESERVED_PORT=77", false, 0, 2, 78, false},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=77 TUTTI_RESERVED_PORT=77", false, 0, 2, 78, false},
      /* worlds of one rank, which are requested, or whose launcher started one process */
      {"TUTTI_RANK=0 TUTTI_WORLD_SIZE=1 OMPI_COMM_WORLD_SIZE=4 PMI_SIZE=4 SLURM_STEP_NUM_TASKS=4", false, 0, 1, 0,
       false},
      {"TUTTI_RANK=0 TUTTI_WORLD_SIZE=1 LOCAL_WORLD_SIZE=2", false, 0, 1, 0, false},
      {"OMPI_COMM_WORLD_SIZE=1 PMI_SIZE=1 MV2_COMM_WORLD_SIZE=1 SLURM_STEP_NUM_TASKS=1", true, 0, 1, 0, false},
      {"OMPI_COMM_WORLD_SIZE= PMI_SIZE=many SLURM_STEP_NUM_TASKS=-2", true, 0, 1, 0, false},
      {"RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1", false, 0, 1, 0, false},
      {"SLURM_NTASKS=8", true, 0, 1, 0, false},
      /* a job of several ranks, with variables of other launchers set */
      {"RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=9 LOCAL_WORLD_SIZE=2 PMI_SIZE=2", false, 1, 4, 10, false},
  };
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    const struct tu_boot_identity identity = identity_from(good[i].settings);
    CHECK(identity.alone == good[i].alone && identity.rank == good[i].rank && identity.ranks == good[i].ranks &&
              identity.port == good[i].port && identity.reserved == good[i].reserved,
          "'%s': alone %d rank %u of %u port %u reserved %d", good[i].settings, identity.alone, identity.rank,
          identity.ranks, identity.port, identity.reserved);
  }
  clear_environment();
}

/* Which launcher's variables count, if those of several are set. */
#define PMI_OF(rank, ranks) "PMI_FD=9 PMI_RANK=" #rank " PMI_SIZE=" #ranks " "
#define PMIX_OF(rank, ranks) "PMIX_NAMESPACE=n PMIX_RANK=" #rank " OMPI_COMM_WORLD_SIZE=" #ranks " "
#define TORCH_OF(rank, ranks) "RANK=" #rank " WORLD_SIZE=" #ranks " MASTER_ADDR=h MASTER_PORT=9 "
#define OWN_OF(rank, ranks) "TUTTI_RANK=" #rank " TUTTI_WORLD_SIZE=" #ranks " TUTTI_MASTER_ADDR=h TUTTI_MASTER_PORT=7 "
static void test_launchers(void) {
  static const struct {
    const char *settings;
    enum tu_boot_carrier carrier;
    uint32_t rank, ranks;
    uint16_t port;
    bool alone;
  } good[] = {
      {PMI_OF(1, 3), TU_CARRIER_PMI, 1, 3, 0, false},
      {PMIX_OF(1, 3), TU_CARRIER_PMIX, 1, 3, 0, false},
      /* variables of two launchers that agree: PMI, PMIx, torchrun */
      {PMI_OF(1, 3) PMIX_OF(1, 3) TORCH_OF(1, 3), TU_CARRIER_PMI, 1, 3, 0, false},
      {PMIX_OF(1, 3) TORCH_OF(1, 3), TU_CARRIER_PMIX, 1, 3, 0, false},
      {PMI_OF(1, 3) "MASTER_ADDR=h MASTER_PORT=9", TU_CARRIER_PMI, 1, 3, 0, false},
      {PMI_OF(1, 3) "RANK=1", TU_CARRIER_PMI, 1, 3, 0, false},
      /* TUTTI_RANK and TUTTI_WORLD_SIZE come first, and are not compared */
      {OWN_OF(0, 2) PMI_OF(1, 3) PMIX_OF(2, 4) TORCH_OF(4, 5), TU_CARRIER_NONE, 0, 2, 7, false},
      {"TUTTI_RANK=0 TUTTI_WORLD_SIZE=1 " PMI_OF(1, 3), TU_CARRIER_NONE, 0, 1, 0, false},
      /* TUTTI_LAUNCHER chooses */
      {"TUTTI_LAUNCHER=tutti " OWN_OF(0, 2) PMI_OF(1, 3), TU_CARRIER_NONE, 0, 2, 7, false},
      {"TUTTI_LAUNCHER=pmi " PMI_OF(1, 3) PMIX_OF(2, 4) TORCH_OF(4, 5), TU_CARRIER_PMI, 1, 3, 0, false},
      {"TUTTI_LAUNCHER=pmi " OWN_OF(0, 2) PMI_OF(0, 1) "SLURM_STEP_NUM_TASKS=4", TU_CARRIER_NONE, 0, 1, 0, true},
      {"TUTTI_LAUNCHER=pmix " PMI_OF(1, 3) PMIX_OF(2, 4) TORCH_OF(4, 5), TU_CARRIER_PMIX, 2, 4, 0, false},
      {"TUTTI_LAUNCHER=torchrun " PMI_OF(1, 3) PMIX_OF(2, 4) TORCH_OF(4, 5), TU_CARRIER_NONE, 4, 5, 10, false},
      {"TUTTI_LAUNCHER=torchrun TUTTI_MASTER_PORT=77 " TORCH_OF(4, 5), TU_CARRIER_NONE, 4, 5, 77, false},
      {"TUTTI_LAUNCHER=torchrun TUTTI_RANK=1 " TORCH_OF(4, 5), TU_CARRIER_NONE, 4, 5, 10, false},
      {"TUTTI_LAUNCHER=none " OWN_OF(0, 2) PMI_OF(1, 3) "SLURM_STEP_NUM_TASKS=4", TU_CARRIER_NONE, 0, 1, 0, true},
      /* the program's place to meet instead of a text */
      {PMI_OF(1, 3) "TUTTI_MASTER_ADDR=h TUTTI_MASTER_PORT=7", TU_CARRIER_NONE, 1, 3, 7, false},
      /* Slurm sets its variables in PMI's ranks, too; mpirun in a Slurm job inherits those of another step */
      {PMI_OF(1, 3) "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2", TU_CARRIER_PMI, 1, 3, 0, false},
      {TORCH_OF(1, 3) "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2", TU_CARRIER_NONE, 1, 3, 10, false},
      /* PMI without a connection, but torchrun has all */
      {"PMI_RANK=1 PMI_SIZE=3 " TORCH_OF(1, 3), TU_CARRIER_NONE, 1, 3, 10, false},
      /* worlds of one: one rank, a batch script, settings for torchrun */
      {PMI_OF(0, 1), TU_CARRIER_NONE, 0, 1, 0, true},
      {PMIX_OF(0, 1), TU_CARRIER_NONE, 0, 1, 0, true},
      {"SLURM_JOB_ID=3 SLURM_NTASKS=8 SLURM_PROCID=0", TU_CARRIER_NONE, 0, 1, 0, true},
      {"PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=h", TU_CARRIER_NONE, 0, 1, 0, true},
  };
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    const struct tu_boot_identity identity = identity_from(good[i].settings);
    CHECK(identity.carrier == good[i].carrier && identity.rank == good[i].rank && identity.ranks == good[i].ranks &&
              identity.port == good[i].port && identity.alone == good[i].alone,
          "'%s': carrier %d rank %u of %u port %u alone %d", good[i].settings, (int)identity.carrier, identity.rank,
          identity.ranks, identity.port, identity.alone);
  }
  clear_environment();
}

static void test_rounds(void) {
  static const struct {
    const char *settings, *run;
    uint32_t restart;
  } rounds[] = {
      {TORCH_OF(1, 3), "", 0},
      {TORCH_OF(1, 3) "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0", "none", 0},
      {TORCH_OF(1, 3) "TORCHELASTIC_RUN_ID=x TORCHELASTIC_RESTART_COUNT=7", "x", 7},
      {TORCH_OF(1, 3) "TORCHELASTIC_RUN_ID=aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg",
       "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd-", 0},
      /* `tutti run` below torchrun */
      {OWN_OF(1, 3) "TORCHELASTIC_RUN_ID=x TORCHELASTIC_RESTART_COUNT=7", "", 0},
  };
  for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
    struct tu_boot_identity identity;
    struct tu_error error = {0};
    set_environment(rounds[i].settings);
    CHECK(tu_boot_identity_read(&identity, &error) == TUTTI_OK, "'%s': %s", rounds[i].settings, error.text);
    CHECK(strncmp(identity.round.run, rounds[i].run, 41) == 0 && identity.round.restart == rounds[i].restart,
          "'%s': restart %u of '%.60s'", rounds[i].settings, identity.round.restart, identity.round.run);
  }
  clear_environment();
}

static const struct {
  const char *settings, *says, *says_too;
} bad[] = {
    {"RANK=0", "set: RANK;", "missing: WORLD_SIZE, MASTER_ADDR, MASTER_PORT"},
    {"WORLD_SIZE=1", "set: WORLD_SIZE;", "missing: RANK, MASTER_ADDR, MASTER_PORT"},
    {"MASTER_PORT=29500", "set: MASTER_PORT;", "missing: RANK, WORLD_SIZE, MASTER_ADDR"},
    {"TUTTI_MASTER_ADDR=h", "set: TUTTI_MASTER_ADDR;", "missing: RANK, WORLD_SIZE, MASTER_PORT"},
    {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=h", "missing: MASTER_PORT", "set: RANK, WORLD_SIZE, MASTER_ADDR"},
    {"RANK=1 WORLD_SIZE=2 MASTER_PORT=1", "missing: MASTER_ADDR", "set: RANK, WORLD_SIZE, MASTER_PORT"},
    {"RANK=2 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1", "RANK is 2", "WORLD_SIZE is 2"},
    {"RANK=-1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1", "RANK is '-1'", "a rank"},
    {"RANK=0x1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1", "RANK is '0x1'", ""},
    {"TUTTI_RANK=one WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1", "TUTTI_RANK is 'one'", ""},
    {"RANK=0 WORLD_SIZE=0 MASTER_ADDR=h MASTER_PORT=1", "WORLD_SIZE is '0'", ""},
    {"RANK=0 WORLD_SIZE=99999999999999999999 MASTER_ADDR=h MASTER_PORT=1", "WORLD_SIZE is '9", ""},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=0", "MASTER_PORT is '0'", ""},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=65535", "MASTER_PORT is '65535'", "65534"},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h TUTTI_MASTER_PORT=65536", "TUTTI_MASTER_PORT is '65536'", "65535"},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1 TUTTI_RESERVED_PORT=x", "TUTTI_RESERVED_PORT is 'x'", "65535"},
    {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_SIZE is 2", "TUTTI_LAUNCHER=none"},
    {"PMI_SIZE=3 SLURM_NTASKS=1", "PMI_SIZE is 3", "TUTTI_WORLD_SIZE is not set"},
    {"MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_SIZE is 2", "'tutti run'"},
    {"SLURM_STEP_NUM_TASKS=128", "SLURM_STEP_NUM_TASKS is 128: Slurm's srun", "srun --mpi=pmi2"},
    {"RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=2", "LOCAL_WORLD_SIZE is 2", "WORLD_SIZE is 1"},
    {"RANK=0 WORLD_SIZE=1 MASTER_ADDR=h MASTER_PORT=1 LOCAL_WORLD_SIZE=2", "LOCAL_WORLD_SIZE is 2", "WORLD_SIZE is 1"},
    {"LOCAL_WORLD_SIZE=2", "LOCAL_WORLD_SIZE is 2", "not set"},
    /* two launchers that disagree: a cluster's RANK that counts hosts, a world of one */
    {PMI_OF(1, 4) "RANK=0", "PMI_RANK is 1, but RANK is 0|rank", "TUTTI_LAUNCHER|pmi or torchrun"},
    {PMI_OF(0, 4) "RANK=0 WORLD_SIZE=1", "PMI_SIZE is 4, but WORLD_SIZE is 1|number of ranks", "TUTTI_LAUNCHER"},
    {PMIX_OF(1, 4) TORCH_OF(0, 4), "PMIX_RANK is 1, but RANK is 0", "pmix or torchrun"},
    {PMIX_OF(1, 4) TORCH_OF(1, 2), "OMPI_COMM_WORLD_SIZE is 4, but WORLD_SIZE is 2", "TUTTI_LAUNCHER"},
    {PMI_OF(1, 4) PMIX_OF(2, 4), "PMI_RANK is 1, but PMIX_RANK is 2", "pmi or pmix"},
    /* found, but unusable */
    {"PMI_RANK=0 PMI_SIZE=3", "PMI_SIZE is 3", "PMI_FD"},
    {"PMI_ID=0 PMI_PORT=h:1", "PMI_ID is 0", "-pmi-port"},
    {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=2", "SLURM_STEP_NUM_TASKS is 2", "--mpi=pmi2"},
    {PMI_OF(0, 1) "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_TASKS is 2", "PMI_SIZE is 1"},
    {PMI_OF(0, many), "PMI_SIZE is 'many'", "number of ranks"},
    {PMI_OF(3, 3), "PMI_RANK is 3", "PMI_SIZE is 3"},
    {"PMIX_RANK=0 PMIX_NAMESPACE=n", "PMIX_RANK is set", ""},
    {PMI_OF(1, 3) "TUTTI_MASTER_ADDR=h", "TUTTI_MASTER_ADDR is set", "TUTTI_MASTER_PORT is not"},
    {TORCH_OF(0, 2) "TORCHELASTIC_RESTART_COUNT=x", "TORCHELASTIC_RESTART_COUNT is 'x'", "number of restarts"},
    /* TUTTI_LAUNCHER */
    {"TUTTI_LAUNCHER=mpirun", "TUTTI_LAUNCHER is 'mpirun'", "tutti, pmi, pmix, torchrun or none"},
    {"TUTTI_LAUNCHER=pmi " TORCH_OF(1, 3), "TUTTI_LAUNCHER is pmi", "PMI_RANK is not set"},
    {"TUTTI_LAUNCHER=torchrun " PMI_OF(1, 3), "missing: RANK, WORLD_SIZE", ""},
    {"TUTTI_LAUNCHER=tutti RANK=1", "missing: TUTTI_RANK, TUTTI_WORLD_SIZE", ""},
};
static void test_identity_refuses(void) {
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    set_environment(bad[i].settings);
    struct tu_boot_identity identity;
    struct tu_error error = {0};
    tutti_err err = tu_boot_identity_read(&identity, &error);
    CHECK(err == TUTTI_ERR_ENVIRONMENT, "'%s' gives %s", bad[i].settings, tutti_err_name(err));
    CHECK(test_contains(error.text, bad[i].says) && test_contains(error.text, bad[i].says_too),
          "'%s': says '%s', expected '%s', '%s'", bad[i].settings, error.text, bad[i].says, bad[i].says_too);
  }
  clear_environment();
}

/* ---- secrets ---- */

static const char *secret_path;

static void write_secret(const void *bytes, size_t count, mode_t mode) {
  unlink(secret_path); /* an older file may be read-only */
  int fd = open(secret_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  CHECK(write(fd, bytes, count) == (ssize_t)count && fchmod(fd, mode) == 0, "cannot write %s", secret_path);
  close(fd);
}

static void refuse_secret(const char *says) {
  struct tu_boot_secret secret;
  struct tu_error error = {0};
  tutti_err err = tu_boot_secret_read(NULL, &secret, &error);
  CHECK(err == TUTTI_ERR_ENVIRONMENT && test_contains(error.text, says), "%s '%s', expected '%s'", tutti_err_name(err),
        error.text, says);
  CHECK(!strstr(error.text, "guarded"), "a message has the secret: %s", error.text);
}

static void test_secret_files(void) {
  char folder[] = "boot_test.XXXXXX", path[64], text[TU_BOOT_SECRET_BYTES_MAX + 2];
  struct tu_boot_secret secret, same;
  clear_environment();
  CHECK(tu_boot_secret_read(NULL, &secret, NULL) == TUTTI_OK && secret.bytes == 0, "a secret from nowhere");
  if (!mkdtemp(folder)) FAIL("mkdtemp");
  snprintf(path, sizeof path, "%s/secret", folder);
  secret_path = path;
  setenv("TUTTI_SECRET_FILE", path, 1);
  refuse_secret("TUTTI_SECRET_FILE|No such file");
  /* The variable, the file, and the file with a newline at its end give the same secret. */
  write_secret("guarded\n", 8, 0600);
  CHECK(tu_boot_secret_read(NULL, &secret, NULL) == TUTTI_OK && secret.bytes == 7, "%zu bytes", secret.bytes);
  write_secret("guarded", 7, 0400);
  CHECK(tu_boot_secret_read(NULL, &same, NULL) == TUTTI_OK && same.bytes == 7, "%zu bytes", same.bytes);
  CHECK(memcmp(secret.value, same.value, 7) == 0, "two secrets");
  static const mode_t open_modes[] = {0640, 0604, 0620, 0644, 0601};
  for (size_t i = 0; i < sizeof open_modes / sizeof open_modes[0]; i++) {
    write_secret("guarded", 7, open_modes[i]);
    refuse_secret("other users");
  }
  write_secret("", 0, 0600);
  refuse_secret("empty");
  write_secret("\n", 1, 0600);
  refuse_secret("empty");
  memset(text, 'x', sizeof text);
  write_secret(text, TU_BOOT_SECRET_BYTES_MAX, 0600);
  CHECK(tu_boot_secret_read(NULL, &secret, NULL) == TUTTI_OK && secret.bytes == TU_BOOT_SECRET_BYTES_MAX,
        "the longest");
  write_secret(text, TU_BOOT_SECRET_BYTES_MAX + 1, 0600);
  refuse_secret("too long");
  if (truncate(path, (off_t)1 << 40) == 0) refuse_secret("too long");
  setenv("TUTTI_SECRET", "guarded", 1);
  refuse_secret("TUTTI_SECRET and TUTTI_SECRET_FILE");
  unsetenv("TUTTI_SECRET");
  if (geteuid() == 0 && chown(path, 65534, 65534) == 0) refuse_secret("uid 65534");
  unlink(path);
  CHECK(mkfifo(path, 0600) == 0, "mkfifo");
  refuse_secret("regular file");
  unlink(path);
  rmdir(folder);
  clear_environment();
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"identity", test_identity},
      {"launchers", test_launchers},
      {"rounds", test_rounds},
      {"identity_refuses", test_identity_refuses},
      {"secret_files", test_secret_files},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
