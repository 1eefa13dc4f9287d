/* test: fast waits timeout=180 */
/* pmi_test.c: tests of PMI-1 with a small server instead of a launcher: ranks that meet, and a server that refuses, talks
 * nonsense, is silent or ends, at each step. No rank may hang. */
#include "boot/pmi.h"

#include "boot/job_carried.h"
#include "job_ranks.h"

/* SHORT: for answers that never come. */
enum { SHORT_MS = 200, PATIENCE_MS = 60000, RANKS = 3 };

static void set_pmi(int fd) {
  char text[16];
  snprintf(text, sizeof text, "%d", fd);
  setenv("PMI_FD", text, 1);
}

/* ---- a server that follows a script, for one rank ---- */

static const char SILENT[] = "silent", CLOSES[] = "closes", FLOOD[] = "flood";
static const char *const proper[] = {"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
                                     "cmd=my_kvsname kvsname=k_1\n", "cmd=barrier_out\n",
                                     "cmd=get_result rc=0 msg=success value=a%3bb%20c\n", "cmd=finalize_ack\n"};
enum { STEPS = sizeof proper / sizeof proper[0] };

static bool read_request(int fd) {
  for (char c = 0; c != '\n';)
    if (read(fd, &c, 1) != 1) return false;
  return true;
}

/* Answers the requests properly, except for request `at`. */
static _Noreturn void serve_script(int fd, int at, const char *answer) {
  for (int i = 0; i < STEPS && read_request(fd); i++) {
    const char *says = i == at ? answer : proper[i];
    if (says == CLOSES) _exit(0);
    if (says == SILENT) pause();
    for (int k = 0; says == FLOOD; k++)
      if (send(fd, "cmd=x ", 6, MSG_NOSIGNAL) != 6) _exit(0);
    /* Byte by byte: an answer may arrive in pieces. */
    for (const char *c = says; *c; c++) (void)!send(fd, c, 1, MSG_NOSIGNAL);
  }
  _exit(0);
}

static tutti_err carry(int at, const char *answer, char *text, size_t bytes, struct tu_error *error) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) FAIL("socketpair");
  pid_t server = fork();
  if (server == 0) {
    close(ends[0]);
    serve_script(ends[1], at, answer);
  }
  close(ends[1]);
  set_pmi(ends[0]);
  const struct tu_boot_identity identity = {.rank = 1, .ranks = 2, .carrier = TU_CARRIER_PMI};
  tutti_err err = tu_pmi_carry(&identity, text, bytes, answer == SILENT ? SHORT_MS : PATIENCE_MS, error);
  close(ends[0]);
  kill(server, SIGKILL);
  waitpid(server, NULL, 0);
  return err;
}

static void test_carry(void) {
  char text[64] = "", small[4] = "";
  struct tu_error error = {0};
  CHECK(carry(-1, NULL, text, sizeof text, &error) == TUTTI_OK && strcmp(text, "a;b c") == 0, "'%s' %s", text,
        error.text);
  CHECK(carry(-1, NULL, small, sizeof small, &error) == TUTTI_OK && strcmp(small, "a;b") == 0, "'%s'", small);
}

static void test_bad_servers(void) {
  static const char *const steps[] = {"init", "get_my_kvsname", "barrier", "get", "finalize"};
  for (int at = 0; at < STEPS; at++) {
    char text[64], facts[64];
    struct tu_error error = {0};
    tutti_err err = carry(at, CLOSES, text, sizeof text, &error);
    CHECK(err == TUTTI_ERR_PEER && test_contains(error.text, "PMI_FD|TUTTI_LAUNCHER=none"), "%s closes: %s", steps[at],
          error.text);
    err = carry(at, SILENT, text, sizeof text, &error);
    CHECK(err == TUTTI_ERR_TIMEOUT && test_contains(error.text, "200 ms|launcher"), "%s silent: %s", steps[at],
          error.text);
    err = carry(at, FLOOD, text, sizeof text, &error);
    CHECK(err == TUTTI_ERR_PEER && test_contains(error.text, "4095 bytes"), "%s flood: %s", steps[at], error.text);
    static const char *const nonsense[] = {"\n", "HTTP/1.1 400 Bad Request\n", "cmd=\n", "cmd=spawn_result rc=0\n",
                                           "\x01\x02 \xff=\n"};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
      err = carry(at, nonsense[i], text, sizeof text, &error);
      snprintf(facts, sizeof facts, "PMI-1|%s|expected", steps[at]);
      CHECK(err == TUTTI_ERR_PEER && test_contains(error.text, facts), "%s nonsense: %s", steps[at], error.text);
    }
  }
}

static void test_refusals(void) {
  char text[64];
  struct tu_error error = {0};
  tutti_err err = carry(3, "cmd=get_result rc=-1 msg=key_tutti_not_found\n", text, sizeof text, &error);
  CHECK(err == TUTTI_ERR_PEER && test_contains(error.text, "get|key_tutti_not_found"), "%s", error.text);
  err = carry(3, "cmd=get_result rc=0 msg=success\n", text, sizeof text, &error);
  CHECK(err == TUTTI_ERR_PEER && test_contains(error.text, "no value"), "%s", error.text);
  err = carry(0, "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1\n", text, sizeof text, &error);
  CHECK(err == TUTTI_ERR_PEER && test_contains(error.text, "init|pmi_version=2"), "%s", error.text);
  err = carry(1, "cmd=my_kvsname\n", text, sizeof text, &error);
  CHECK(err == TUTTI_ERR_PEER && test_contains(error.text, "store"), "%s", error.text);
}

static void test_bad_descriptors(void) {
  static const char *const bad[] = {"", "x", "-1", "999999", "99999999999999999999"};
  const struct tu_boot_identity identity = {.rank = 1, .ranks = 2, .carrier = TU_CARRIER_PMI};
  char text[64];
  for (size_t i = 0; i <= sizeof bad / sizeof bad[0]; i++) {
    struct tu_error error = {0};
    const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (i < sizeof bad / sizeof bad[0]) setenv("PMI_FD", bad[i], 1);
    else set_pmi(file); /* no socket */
    tutti_err err = tu_pmi_carry(&identity, text, sizeof text, PATIENCE_MS, &error);
    CHECK(err == TUTTI_ERR_ENVIRONMENT && test_contains(error.text, "PMI_FD is|socket|PMI_RANK is 1"), "%s",
          error.text);
    close(file);
  }
}

/* ---- a server for a job ---- */

/* Serves all ranks as a launcher does, until they have closed their connections. */
static _Noreturn void serve(const int fds[RANKS]) {
  struct pollfd polled[RANKS];
  char line[4096], value[3072] = "";
  int in_barrier = 0, open = RANKS;
  for (int r = 0; r < RANKS; r++) polled[r] = (struct pollfd){.fd = fds[r], .events = POLLIN};
  while (open > 0 && poll(polled, RANKS, -1) > 0)
    for (int r = 0; r < RANKS; r++) {
      if (!polled[r].revents) continue;
      size_t length = 0;
      while (length < sizeof line - 1 && read(fds[r], line + length, 1) == 1 && line[length] != '\n') length++;
      line[length] = '\0';
      if (length == 0) open--, polled[r].fd = -1;
      if (strncmp(line, "cmd=init", 8) == 0) dprintf(fds[r], "%s", proper[0]);
      if (strncmp(line, "cmd=get_my", 10) == 0) dprintf(fds[r], "%s", proper[1]);
      if (sscanf(line, "cmd=put kvsname=k_1 key=tutti value=%3071s", value) == 1)
        dprintf(fds[r], "cmd=put_result rc=0 msg=success\n");
      if (strcmp(line, "cmd=barrier_in") == 0 && ++in_barrier == RANKS)
        for (int other = 0; other < RANKS; other++) dprintf(fds[other], "%s", proper[2]);
      if (strcmp(line, "cmd=get kvsname=k_1 key=tutti") == 0)
        dprintf(fds[r], "cmd=get_result rc=0 msg=success value=%s\n", value);
      if (strcmp(line, "cmd=finalize") == 0) dprintf(fds[r], "%s", proper[4]);
    }
  _exit(0);
}

/* What the ranks of a job do. */
struct scene {
  const char *interface; /* TUTTI_INTERFACE of rank 0 */
  const char *secrets[RANKS];
  bool stays_away; /* rank 2 does not join */
  tutti_err expected;
  const char *facts;
};

/* Joins twice: a process may leave its world and join again. */
static tutti_err join(uint32_t rank, int patience_ms, struct tu_error *error) {
  for (int turn = 0; turn < 2; turn++) {
    struct tu_boot_identity identity = {.rank = rank, .ranks = RANKS, .carrier = TU_CARRIER_PMI};
    struct tu_job *job;
    tutti_err err = tu_job_carry(&identity, patience_ms, error);
    if (err == TUTTI_OK) err = tu_job_tcp_create(&identity, 10000, &job, error);
    if (err == TUTTI_OK) err = tu_job_meet(job, NULL, error);
    if (err != TUTTI_OK) return err;
    const uint32_t wrong = gather(job, error);
    tu_job_close(job);
    if (wrong > 0) return tu_fail(error, TUTTI_ERR_SYSTEM, "%u wrong bytes", wrong);
  }
  return TUTTI_OK;
}

static _Noreturn void be_rank(uint32_t rank, const struct scene *scene, int fd) {
  struct tu_error error = {0};
  set_pmi(fd);
  if (scene->interface && rank == 0) setenv("TUTTI_INTERFACE", scene->interface, 1);
  if (scene->secrets[rank]) setenv("TUTTI_SECRET", scene->secrets[rank], 1);
  if (scene->stays_away && rank == 2) {
    char c; /* as long as the launcher keeps the connection */
    while (read(fd, &c, 1) > 0) continue;
    _exit(0);
  }
  tutti_err err = join(rank, scene->stays_away ? 10 * SHORT_MS : PATIENCE_MS, &error);
  const bool good = err == scene->expected && (err == TUTTI_OK || test_contains(error.text, scene->facts));
  if (!good) printf("  rank %u: %s '%s'\n", rank, tutti_err_name(err), error.text);
  fflush(stdout);
  _exit(!good);
}

static void play_scene(const struct scene *scene) {
  int ends[RANKS][2], servers[RANKS];
  pid_t pids[RANKS];
  for (int r = 0; r < RANKS; r++) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[r]) != 0) FAIL("socketpair");
    servers[r] = ends[r][1];
  }
  fflush(stdout);
  pid_t server = fork();
  if (server == 0) {
    for (int r = 0; r < RANKS; r++) close(ends[r][0]);
    serve(servers);
  }
  for (uint32_t r = 0; r < RANKS; r++) {
    pids[r] = fork();
    if (pids[r] != 0) continue;
    for (uint32_t i = 0; i < RANKS; i++) close(ends[i][1]);
    for (uint32_t i = 0; i < RANKS; i++)
      if (i != r) close(ends[i][0]);
    be_rank(r, scene, ends[r][0]);
  }
  for (int r = 0; r < RANKS; r++) close(ends[r][0]), close(ends[r][1]);
  for (int r = 0; r < RANKS; r++) {
    int status = -1;
    if (r == 2 && scene->stays_away) kill(pids[r], SIGKILL);
    waitpid(pids[r], &status, 0);
    CHECK(status == 0 || (r == 2 && scene->stays_away), "rank %d: status %#x", r, (unsigned)status);
  }
  kill(server, SIGKILL);
  waitpid(server, NULL, 0);
}

static void test_jobs(void) {
  static const struct scene scenes[] = {
      {.expected = TUTTI_OK},
      {.secrets = {"one", "one", "one"}, .expected = TUTTI_OK},
      /* Only rank 0 decides whether a secret is carried. */
      {.secrets = {NULL, "two", NULL}, .expected = TUTTI_OK},
      {.interface = "nosuch0", .expected = TUTTI_ERR_ENVIRONMENT, .facts = "TUTTI_INTERFACE|nosuch0"},
      {.stays_away = true, .expected = TUTTI_ERR_TIMEOUT, .facts = "2000 ms|barrier|tutti_init"},
  };
  for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) play_scene(&scenes[i]);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"carry", test_carry},
                                      {"bad_servers", test_bad_servers},
                                      {"refusals", test_refusals},
                                      {"bad_descriptors", test_bad_descriptors},
                                      {"jobs", test_jobs}};
  unsetenv("TUTTI_SECRET");
  unsetenv("TUTTI_SECRET_FILE");
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
