/* test: fast waits */
/* job_failures_test.c: tests of failures while a job starts, with real processes: foreign connections, and ranks that
 * leave or die. */
#include "boot/job_tcp_wire.h"
#include "job_ranks.h"

/* ---- foreign connections, and ranks that die ---- */

static int connect_port(const struct tu_boot_identity *identity) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(identity->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  for (int turn = 0; turn < 2000; turn++) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
    usleep(2000);
  }
  _exit(1);
}

static void put(int fd, const void *data, size_t bytes) {
  if (send(fd, data, bytes, MSG_NOSIGNAL) < 0) usleep(1);
}

/* Opens connections that send nothing, noise, or incomplete messages: more connections than rank 0 keeps open. */
static void be_strangers(const struct tu_boot_identity *identity) {
  uint64_t seed = test_seed();
  char noise[4096];
  for (int i = 0; i < 300; i++) {
    int fd = connect_port(identity);
    for (size_t k = 0; k < sizeof noise; k++) noise[k] = (char)tu_random(&seed);
    if (i % 4 == 1) put(fd, noise, sizeof noise);
    if (i % 4 == 2) put(fd, "GET / HTTP/1.0\r\n\r\n", 18);
    if (i % 4 == 3) put(fd, TU_BOOT_MAGIC, 8);
    if (i % 16 == 7) put(fd, noise, tu_random(&seed) % 300);
  }
  sleep(1);
  _exit(0);
}

static void test_strangers(void) {
  struct part parts[] = {{.rank = 0, .ranks = 3, .secret = SECRET, .timeout_ms = 15000},
                         {.rank = 9, .ranks = 3, .secret = "", .act = be_strangers},
                         {.rank = 8, .ranks = 3, .secret = "", .delay_ms = 20, .act = be_strangers},
                         {.rank = 1, .ranks = 3, .secret = SECRET, .timeout_ms = 15000, .delay_ms = 30},
                         {.rank = 2, .ranks = 3, .secret = SECRET, .timeout_ms = 15000, .delay_ms = 400}};
  struct outcome outcomes[5];
  run_parts(parts, 5, outcomes, hold_port());
  expect(&parts[0], &outcomes[0], TUTTI_OK, "");
  expect(&parts[3], &outcomes[3], TUTTI_OK, "");
  expect(&parts[4], &outcomes[4], TUTTI_OK, "");
  CHECK(outcomes[4].seconds < 10, "strangers held rank 2 up for %.1f s", outcomes[4].seconds);
}

static struct tu_job *enter(const struct tu_boot_identity *identity) {
  struct tu_error error;
  struct tu_job *job;
  if (tu_job_tcp_create(identity, 15000, &job, &error) != TUTTI_OK) _exit(1);
  return job;
}

static void leave_when_welcome(const struct tu_boot_identity *identity) {
  (void)enter(identity);
  _exit(0);
}

static void leave_having_met(const struct tu_boot_identity *identity) {
  struct tu_error error;
  (void)tu_job_meet(enter(identity), NULL, &error);
  _exit(0);
}

/* Exits in the middle of sending its data. */
static void leave_halfway_through_data(const struct tu_boot_identity *identity) {
  struct tu_job *job = enter(identity);
  struct tu_boot_note note;
  tu_boot_note_init(&note, TU_BOOT_DATA, NULL);
  note.bytes = sizeof(struct tu_job_process);
  for (int fd = 3; fd < 64; fd++) { /* one of these is the connection to rank 0 */
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.ss_family == AF_INET)
      put(fd, &note, sizeof note);
  }
  usleep(50000);
  (void)job;
  _exit(0);
}

/* Sends less data than the other ranks. */
static void bring_too_little(const struct tu_boot_identity *identity) {
  struct tu_job *job = enter(identity);
  struct tu_error error;
  char all[64];
  (void)tu_job_allgather(job, "x", all, 1, &error);
  _exit(0);
}

static void give_up(const struct tu_boot_identity *identity) {
  struct tu_job *job = enter(identity);
  struct tu_error error;
  tu_fail(&error, TUTTI_ERR_ABORTED, "had enough");
  job->ops->fail(job, &error);
  tu_job_close(job);
  _exit(0);
}

static void disagree(const struct tu_boot_identity *identity) {
  struct tu_job *job = enter(identity);
  struct tu_error error;
  (void)tu_job_meet(job, NULL, &error);
  tu_fail(&error, TUTTI_ERR_ABORTED, "cannot go on: %0300d", 7);
  (void)tu_job_agree(job, error.code, &error);
  tu_job_close(job);
  _exit(0);
}

static void test_halfway(void) {
  static const struct {
    void (*act)(const struct tu_boot_identity *identity);
    tutti_err code;
    const char *text;
  } cases[] = {
      {leave_when_welcome, TUTTI_ERR_PEER, "rank 2|died"},
      {leave_having_met, TUTTI_ERR_PEER, "rank 2|died"},
      {leave_halfway_through_data, TUTTI_ERR_PEER, "rank 2|died"},
      {bring_too_little, TUTTI_ERR_PEER, "rank 2|died"},
      {give_up, TUTTI_ERR_ABORTED, "rank 2: had enough"},
      {disagree, TUTTI_ERR_ABORTED, "rank 2: cannot go on: 0000"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct part parts[] = {{.rank = 0, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                           {.rank = 1, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                           {.rank = 2, .ranks = 3, .secret = SECRET, .delay_ms = 200, .act = cases[i].act}};
    struct outcome outcomes[3];
    double seconds = run_parts(parts, 3, outcomes, hold_port());
    for (int r = 0; r < 2; r++) {
      expect(&parts[r], &outcomes[r], cases[i].code, cases[i].text);
      CHECK(strstr(outcomes[r].error.text, "rank 2"), "rank 2 is not named: %s", outcomes[r].error.text);
    }
    CHECK(seconds < 9, "case %zu took %.1f s", i, seconds);
  }
}

static void die(int signal_number) {
  (void)signal_number;
  raise(SIGKILL);
}

/* Joins the job like any rank, but is killed after die_after_us microseconds. */
static uint32_t die_after_us;
static void die_on_the_way(const struct tu_boot_identity *identity) {
  struct tu_error error;
  struct tu_job *job;
  struct tu_transport *t;
  signal(SIGALRM, die);
  ualarm(die_after_us, 0);
  if (tu_job_tcp_create(identity, 10000, &job, &error) == TUTTI_OK && tu_job_meet(job, NULL, &error) == TUTTI_OK)
    (void)!tu_join(job, &t, &error);
  raise(SIGKILL);
}

/* Returns true if the text names the rank, alone or in a list such as "ranks 1, 3-5 of 9". */
static bool names(const char *text, uint32_t rank) {
  char alone[16];
  snprintf(alone, sizeof alone, "rank %u", rank);
  if (strstr(text, alone)) return true;
  const char *at = strstr(text, "for ranks ");
  unsigned begin, end;
  int length;
  for (at = at ? at + strlen("for ranks ") : ""; sscanf(at, "%u%n", &begin, &length) == 1; at += strspn(at, ", ")) {
    at += length;
    end = begin;
    if (sscanf(at, "-%u%n", &end, &length) == 1) at += length;
    if (rank >= begin && rank <= end) return true;
  }
  return false;
}

/* When a rank dies, the others fail with an error that names it, or succeed because they had all its data; none hangs.
 * A rank that comes after rank 0 has given up finds no listener, and reports that. */
static void test_deaths(void) {
  uint64_t seed = test_seed();
  int turns = test_long() ? 300 : 12;
  uint32_t named = 0, joined = 0;
  for (int turn = 0; turn < turns; turn++) {
    uint32_t victim = (uint32_t)(tu_random(&seed) % 4);
    die_after_us = 1 + (uint32_t)(tu_random(&seed) % 8000);
    struct part parts[4];
    struct outcome outcomes[4];
    for (uint32_t r = 0; r < 4; r++) {
      parts[r] = (struct part){.rank = r, .ranks = 4, .secret = SECRET, .timeout_ms = 250, .unused_memory = true};
    }
    parts[victim].act = die_on_the_way;
    parts[(victim + 1) % 4].delay_ms = (int)(tu_random(&seed) % 8);
    run_parts(parts, 4, outcomes, hold_port());
    for (uint32_t r = 0; r < 4; r++) {
      if (r == victim) continue;
      const struct tu_error *error = &outcomes[r].error;
      CHECK(outcomes[r].came, "rank %u died too", r);
      CHECK(error->code == TUTTI_OK || error->code == TUTTI_ERR_PEER || error->code == TUTTI_ERR_TIMEOUT, "rank %u: %s",
            r, error->text);
      bool too_late = error->code == TUTTI_ERR_TIMEOUT && strstr(error->text, "for rank 0 at");
      CHECK(error->code == TUTTI_OK || too_late || names(error->text, victim),
            "rank %u died after %u us; rank %u says '%s'", victim, die_after_us, r, error->text);
      named += error->code == TUTTI_ERR_PEER;
      joined += error->code == TUTTI_OK;
    }
  }
  printf("  %d deaths: %u ranks told at once, %u had joined, %u timed out\n", turns, named, joined,
         (uint32_t)turns * 3 - named - joined);
}

/* ---- a rank that dies while rank 0 hands out the data of all ---- */

enum { LONG_DATA = 4 << 20 }; /* more than the buffers of a connection hold */
static struct long_end {
  tutti_err code; /* of rank 0's allgather */
  size_t heard;   /* bytes that rank 1 has received */
} * long_end;

static void gather_long(const struct tu_boot_identity *identity) {
  struct tu_error error;
  unsigned char *mine = calloc(1, LONG_DATA), *all = malloc(3 * (size_t)LONG_DATA);
  if (identity->rank == 2) ualarm(200000, 0); /* dies when it has sent its data, as rank 1 does not read for longer */
  tutti_err err = tu_job_allgather(enter(identity), mine, all, LONG_DATA, &error);
  if (identity->rank == 0) long_end->code = err;
  if (err != TUTTI_OK) printf("  rank %u: %s\n", identity->rank, error.text);
  fflush(stdout);
  _exit(0);
}

static void gather_long_and_pause(const struct tu_boot_identity *identity) {
  struct tu_job *job = enter(identity);
  unsigned char *data = calloc(1, LONG_DATA);
  int fd = 3;
  for (struct sockaddr_storage peer; fd < 64; fd++) { /* the connection to rank 0 */
    socklen_t bytes = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.ss_family == AF_INET) break;
  }
  (void)tu_boot_send_data(fd, data, LONG_DATA, job->deadline_ns);
  usleep(500000);
  for (ssize_t n = 1; n > 0; long_end->heard += n > 0 ? (size_t)n : 0) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    (void)poll(&polled, 1, 5000);
    n = recv(fd, data, LONG_DATA, MSG_DONTWAIT);
  }
  _exit(0);
}

/* Rank 0 does not fail alone: where the data of all has reached one rank, the allgather is complete for rank 0, too. */
static void test_all_or_none(void) {
  struct part parts[] = {{.rank = 0, .ranks = 3, .secret = SECRET, .act = gather_long},
                         {.rank = 1, .ranks = 3, .secret = SECRET, .act = gather_long_and_pause},
                         {.rank = 2, .ranks = 3, .secret = SECRET, .act = gather_long}};
  struct outcome outcomes[3];
  long_end = mmap(NULL, sizeof *long_end, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (long_end == MAP_FAILED) abort();
  long_end->code = TUTTI_ERR_SYSTEM;
  run_parts(parts, 3, outcomes, hold_port());
  const bool complete = long_end->heard >= 3 * (size_t)LONG_DATA;
  CHECK((long_end->code == TUTTI_OK) == complete, "rank 1 got %zu bytes, and rank 0 %s", long_end->heard,
        tutti_err_name(long_end->code));
  printf("  rank 1 got %s, rank 0 %s\n", complete ? "all" : "not all", tutti_err_name(long_end->code));
  munmap(long_end, sizeof *long_end);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"strangers", test_strangers},
      {"halfway", test_halfway},
      {"deaths", test_deaths},
      {"all_or_none", test_all_or_none},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
