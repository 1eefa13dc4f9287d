/* job_test.c: starting up, with real processes: what the environment means, joining, the many ways in which joining
 * goes wrong, and that no descriptor is left behind. Every rank is a fork of this program. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "boot/job_tcp_wire.h"
#include "test.h"
#include "transport/transport.h"

#define SECRET "0123456789abcdef0123456789abcdef"
enum { RANKS_MAX = 64 };

/* ---- the environment ---- */

static void clear_environment(void) {
  static const char *const names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TUTTI_RANK",
                                      "TUTTI_WORLD_SIZE", "TUTTI_MASTER_ADDR", "TUTTI_MASTER_PORT",
                                      "TUTTI_RESERVED_PORT", "TUTTI_SECRET", "TUTTI_SECRET_FILE",
                                      /* other launchers' */
                                      "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS",
                                      "SLURM_NTASKS", "LOCAL_WORLD_SIZE"};
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

static void test_place(void) {
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
      /* the launcher's word is about another port than the one that was set since */
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h TUTTI_MASTER_PORT=78 TUTTI_RESERVED_PORT=77", false, 0, 2, 78, false},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=77 TUTTI_RESERVED_PORT=77", false, 0, 2, 78, false},
      /* worlds of one on purpose, or of launchers that started one */
      {"TUTTI_RANK=0 TUTTI_WORLD_SIZE=1 OMPI_COMM_WORLD_SIZE=4 PMI_SIZE=4 SLURM_STEP_NUM_TASKS=4", false, 0, 1, 0,
       false},
      {"TUTTI_RANK=0 TUTTI_WORLD_SIZE=1 LOCAL_WORLD_SIZE=2", false, 0, 1, 0, false},
      {"OMPI_COMM_WORLD_SIZE=1 PMI_SIZE=1 MV2_COMM_WORLD_SIZE=1 SLURM_STEP_NUM_TASKS=1", true, 0, 1, 0, false},
      {"OMPI_COMM_WORLD_SIZE= PMI_SIZE=many SLURM_STEP_NUM_TASKS=-2", true, 0, 1, 0, false},
      {"RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1", false, 0, 1, 0, false},
      {"SLURM_NTASKS=8", true, 0, 1, 0, false},
      /* a job of many, whatever started it */
      {"RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=9 LOCAL_WORLD_SIZE=2 PMI_SIZE=2", false, 1, 4, 10, false},
  };
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    set_environment(good[i].settings);
    struct tu_boot_place place;
    struct tu_error error = {0};
    tutti_err err = tu_boot_place(&place, &error);
    CHECK(err == TUTTI_OK, "'%s' is refused: %s", good[i].settings, error.text);
    CHECK(place.alone == good[i].alone && place.rank == good[i].rank && place.ranks == good[i].ranks &&
              place.port == good[i].port && place.reserved == good[i].reserved,
          "'%s': alone %d rank %u of %u port %u reserved %d", good[i].settings, place.alone, place.rank, place.ranks,
          place.port, place.reserved);
  }
  clear_environment();
}

static void test_place_refuses(void) {
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
      {"RANK=-1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1", "RANK is '-1'", "expected a rank"},
      {"RANK=0x1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1", "RANK is '0x1'", ""},
      {"TUTTI_RANK=one WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1", "TUTTI_RANK is 'one'", ""},
      {"RANK=0 WORLD_SIZE=0 MASTER_ADDR=h MASTER_PORT=1", "WORLD_SIZE is '0'", ""},
      {"RANK=0 WORLD_SIZE=99999999999999999999 MASTER_ADDR=h MASTER_PORT=1", "WORLD_SIZE is '9", ""},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=0", "MASTER_PORT is '0'", ""},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=65535", "MASTER_PORT is '65535'", "65534"},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h TUTTI_MASTER_PORT=65536", "TUTTI_MASTER_PORT is '65536'", "65535"},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1 TUTTI_RESERVED_PORT=x", "TUTTI_RESERVED_PORT is 'x'", "65535"},
      {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_SIZE is 2", "set TUTTI_RANK=0 TUTTI_WORLD_SIZE=1"},
      {"PMI_SIZE=3 SLURM_NTASKS=1", "PMI_SIZE is 3", "TUTTI_WORLD_SIZE is not set"},
      {"MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_SIZE is 2", "'tutti run'"},
      {"SLURM_STEP_NUM_TASKS=128", "SLURM_STEP_NUM_TASKS is 128: Slurm's srun", "world of one"},
      {"RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=2", "LOCAL_WORLD_SIZE is 2", "WORLD_SIZE is 1"},
      {"RANK=0 WORLD_SIZE=1 MASTER_ADDR=h MASTER_PORT=1 LOCAL_WORLD_SIZE=2", "LOCAL_WORLD_SIZE is 2",
       "WORLD_SIZE is 1"},
      {"LOCAL_WORLD_SIZE=2", "LOCAL_WORLD_SIZE is 2", "not set"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    set_environment(bad[i].settings);
    struct tu_boot_place place;
    struct tu_error error = {0};
    tutti_err err = tu_boot_place(&place, &error);
    CHECK(err == TUTTI_ERR_ENVIRONMENT, "'%s' gives %s", bad[i].settings, tutti_err_name(err));
    CHECK(strstr(error.text, bad[i].says) && strstr(error.text, bad[i].says_too),
          "'%s': says '%s', expected '%s', '%s'", bad[i].settings, error.text, bad[i].says, bad[i].says_too);
  }
  clear_environment();
}

/* ---- ranks as processes ---- */

struct outcome {
  bool came; /* false: the process died before it could say */
  struct tu_error error;
  uint32_t fds_left;
  uint32_t wrong_words; /* of the shared memory, or of an allgather */
  double seconds;
};

/* What one process does; `act` NULL: joins as it should. */
struct part {
  uint32_t rank, ranks;
  const char *secret;
  int timeout_ms;
  int delay_ms;
  bool unused_memory; /* joins, and leaves it at that */
  uint64_t host;      /* says that it runs there; 0: where it does */
  rlim_t files;       /* descriptors it may have, soft and hard; 0: as many as we */
  bool short_of_soft; /* only the soft limit is so low */
  void (*act)(const struct tu_boot_place *place);
};

static int held_port = -1;

/* A port that nobody else is given, held as `tutti run` holds it: bound, never listening. */
static uint16_t hold_port(void) {
  if (held_port >= 0) close(held_port);
  held_port = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int one = 1;
  setsockopt(held_port, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  if (bind(held_port, (struct sockaddr *)&address, bytes) != 0) FAIL("cannot bind");
  getsockname(held_port, (struct sockaddr *)&address, &bytes);
  return ntohs(address.sin_port);
}

static uint32_t count_fds(void) {
  uint32_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

/* Every rank writes a word into every slice and finds those of all others, so the memory is really one. */
static uint32_t use_memory(struct tu_transport *t) {
  enum { AT = 2048 }; /* in the first page after the head */
  for (uint32_t r = 0; r < t->ranks; r++) {
    _Atomic uint32_t *words = tu_transport_at(t, r * t->slice_bytes + TU_HEAD_BYTES + AT);
    atomic_store(&words[t->rank], t->rank + 7);
  }
  uint32_t wrong = 1;
  for (int turn = 0; turn < 5000 && wrong; turn++) {
    const _Atomic uint32_t *words = tu_transport_at(t, t->rank * t->slice_bytes + TU_HEAD_BYTES + AT);
    wrong = 0;
    for (uint32_t r = 0; r < t->ranks; r++) wrong += atomic_load(&words[r]) != r + 7;
    if (wrong) usleep(1000);
  }
  return wrong;
}

/* Parts of several lengths, up to more than a socket's buffer holds. */
static uint32_t gather(struct tu_job *job, struct tu_error *error) {
  static const size_t sizes[] = {1, 8, 4000, 300000};
  uint32_t wrong = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    size_t bytes = job->ranks > 16 ? sizes[i] / 64 + 1 : sizes[i];
    unsigned char *mine = malloc(bytes), *all = malloc(bytes * job->ranks);
    for (size_t k = 0; k < bytes; k++) mine[k] = (unsigned char)(job->rank * 31 + k * 7 + i);
    if (tu_job_allgather(job, mine, all, bytes, error) != TUTTI_OK) wrong += 5000;
    for (uint32_t r = 0; r < job->ranks && !wrong; r++)
      for (size_t k = 0; k < bytes; k++) wrong += all[r * bytes + k] != (unsigned char)(r * 31 + k * 7 + i);
    free(mine);
    free(all);
  }
  return wrong;
}

/* What tutti_init does with a job. */
static tutti_err begin(struct tu_job *job, const struct part *part, struct tu_transport **t, struct tu_error *error) {
  struct tu_job_process mine;
  tu_job_process_mine(&mine);
  if (part->host) mine.host = part->host;
  tutti_err err = tu_job_meet(job, &mine, error);
  return err == TUTTI_OK ? tu_shm_join(job, t, error) : err;
}

static void fill_place(const struct part *part, uint16_t port, struct tu_boot_place *place) {
  *place = (struct tu_boot_place){.rank = part->rank, .ranks = part->ranks, .port = port, .reserved = true};
  snprintf(place->address, sizeof place->address, "127.0.0.1");
  setenv("TUTTI_SECRET", part->secret, 1);
  struct rlimit limit;
  if (part->files == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = part->files;
  if (!part->short_of_soft) limit.rlim_max = part->files;
  setrlimit(RLIMIT_NOFILE, &limit);
}

static _Noreturn void play(const struct part *part, uint16_t port, int report) {
  struct tu_boot_place place;
  fill_place(part, port, &place);
  usleep((useconds_t)part->delay_ms * 1000);
  if (part->act) part->act(&place);
  struct outcome outcome = {.came = true};
  uint32_t fds = count_fds();
  struct tu_job *job;
  struct tu_transport *t = NULL;
  uint64_t start = tu_clock_ns();
  tutti_err err = tu_job_tcp_create(&place, part->timeout_ms, &job, &outcome.error);
  if (err == TUTTI_OK) err = begin(job, part, &t, &outcome.error);
  outcome.seconds = (double)(tu_clock_ns() - start) * 1e-9;
  outcome.error.code = err;
  if (err == TUTTI_OK) {
    if (!part->unused_memory) outcome.wrong_words = gather(job, &outcome.error) + use_memory(t);
    t->ops->close(t);
  } else if (t) {
    outcome.wrong_words = 4000;
  }
  tu_job_close(job);
  outcome.fds_left = count_fds() - fds;
  _exit(write(report, &outcome, sizeof outcome) == (ssize_t)sizeof outcome ? 0 : 1);
}

/* Runs the parts side by side and fills outcomes[count]. Nobody may take longer than 20 s. */
static double run_parts(const struct part parts[], size_t count, struct outcome outcomes[], uint16_t port) {
  int reports[RANKS_MAX];
  pid_t pids[RANKS_MAX];
  uint64_t start = tu_clock_ns();
  for (size_t i = 0; i < count; i++) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) FAIL("pipe");
    pids[i] = fork();
    if (pids[i] == 0) play(&parts[i], port, ends[1]);
    close(ends[1]);
    reports[i] = ends[0];
  }
  uint64_t deadline = tu_clock_ns() + UINT64_C(20000000000);
  for (size_t i = 0; i < count; i++) {
    struct pollfd polled = {.fd = reports[i], .events = POLLIN};
    if (poll(&polled, 1, tu_clock_left_ms(deadline)) <= 0) {
      FAIL("rank %u hangs", parts[i].rank);
      kill(pids[i], SIGKILL);
    }
    outcomes[i] = (struct outcome){0};
    if (read(reports[i], &outcomes[i], sizeof outcomes[i]) != (ssize_t)sizeof outcomes[i]) outcomes[i].came = false;
    close(reports[i]);
  }
  double seconds = (double)(tu_clock_ns() - start) * 1e-9;
  for (size_t i = 0; i < count; i++) waitpid(pids[i], NULL, 0);
  for (size_t i = 0; i < count; i++) {
    CHECK(outcomes[i].fds_left == 0, "rank %u left %u descriptors open", parts[i].rank, outcomes[i].fds_left);
    CHECK(outcomes[i].wrong_words == 0, "rank %u: memory is wrong: %u", parts[i].rank, outcomes[i].wrong_words);
  }
  return seconds;
}

static void expect(const struct part *part, const struct outcome *outcome, tutti_err code, const char *text) {
  CHECK(outcome->came, "rank %u died", part->rank);
  CHECK(outcome->error.code == code && (code == TUTTI_OK || strstr(outcome->error.text, text)),
        "rank %u: %s '%s', expected %s '%s'", part->rank, tutti_err_name(outcome->error.code), outcome->error.text,
        tutti_err_name(code), text);
}

static void all_join(uint32_t ranks, double seconds_max) {
  struct part parts[RANKS_MAX] = {0};
  struct outcome outcomes[RANKS_MAX];
  for (uint32_t r = 0; r < ranks; r++) {
    parts[r] = (struct part){.rank = r, .ranks = ranks, .secret = SECRET, .timeout_ms = 15000};
  }
  double seconds = run_parts(parts, ranks, outcomes, hold_port());
  double slowest = 0;
  for (uint32_t r = 0; r < ranks; r++) {
    expect(&parts[r], &outcomes[r], TUTTI_OK, "");
    if (outcomes[r].seconds > slowest) slowest = outcomes[r].seconds;
  }
  printf("  %u ranks joined: slowest join %.0f ms, with starting and ending %.0f ms\n", ranks, slowest * 1e3,
         seconds * 1e3);
  CHECK(slowest < seconds_max, "%u ranks took %.1f s to join", ranks, slowest);
}

static void test_join(void) {
  static const uint32_t sizes[] = {2, 3, 5, 16, 64};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) all_join(sizes[i], 10);
}

static void test_join_in_any_order(void) {
  struct part parts[3];
  struct outcome outcomes[3];
  for (uint32_t late = 0; late < 3; late++) {
    for (uint32_t r = 0; r < 3; r++) {
      parts[r] =
          (struct part){.rank = r, .ranks = 3, .secret = "", .timeout_ms = 10000, .delay_ms = r == late ? 300 : 0};
    }
    run_parts(parts, 3, outcomes, hold_port());
    for (uint32_t r = 0; r < 3; r++) expect(&parts[r], &outcomes[r], TUTTI_OK, "");
  }
}

static void test_missing_ranks(void) {
  uint16_t port = hold_port();
  struct part parts[] = {{.rank = 0, .ranks = 7, .secret = SECRET, .timeout_ms = 3000},
                         {.rank = 1, .ranks = 7, .secret = SECRET, .timeout_ms = 600},
                         {.rank = 4, .ranks = 7, .secret = SECRET, .timeout_ms = 9000}};
  struct outcome outcomes[3];
  double seconds = run_parts(parts, 3, outcomes, port);
  char text[96];
  snprintf(text, sizeof text, "waited 600 ms at 127.0.0.1:%u for ranks 2, 3, 5, 6 of 7", port);
  for (size_t i = 0; i < 3; i++) expect(&parts[i], &outcomes[i], TUTTI_ERR_TIMEOUT, text);
  CHECK(seconds < 2.5, "the shortest patience is 0.6 s, it took %.1f s", seconds);

  struct part alone = {.rank = 1, .ranks = 2, .secret = SECRET, .timeout_ms = 300};
  run_parts(&alone, 1, outcomes, hold_port());
  expect(&alone, outcomes, TUTTI_ERR_TIMEOUT, "did not let rank 1 of 2 in: Connection refused");
  alone.rank = 0;
  run_parts(&alone, 1, outcomes, hold_port());
  expect(&alone, outcomes, TUTTI_ERR_TIMEOUT, "for rank 1 of 2");
}

/* The one with the wrong secret is sent away; the job waits on, and is complete when the right one comes. */
static void test_wrong_secret(void) {
  struct part parts[] = {{.rank = 0, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                         {.rank = 1, .ranks = 3, .secret = "guess", .timeout_ms = 10000},
                         {.rank = 2, .ranks = 3, .secret = "", .timeout_ms = 10000},
                         {.rank = 1, .ranks = 3, .secret = SECRET, .timeout_ms = 10000, .delay_ms = 500},
                         {.rank = 2, .ranks = 3, .secret = SECRET, .timeout_ms = 10000, .delay_ms = 500}};
  struct outcome outcomes[5];
  run_parts(parts, 5, outcomes, hold_port());
  expect(&parts[1], &outcomes[1], TUTTI_ERR_PEER, "does not know the TUTTI_SECRET of rank 1");
  expect(&parts[2], &outcomes[2], TUTTI_ERR_PEER, "has a TUTTI_SECRET, rank 2 has none");
  expect(&parts[0], &outcomes[0], TUTTI_OK, "");
  expect(&parts[3], &outcomes[3], TUTTI_OK, "");
  expect(&parts[4], &outcomes[4], TUTTI_OK, "");

  parts[0].timeout_ms = 500;
  run_parts(parts, 2, outcomes, hold_port());
  expect(&parts[0], &outcomes[0], TUTTI_ERR_TIMEOUT, "1 join was refused, the last because its TUTTI_SECRET is not");

  parts[0].secret = "";
  run_parts(parts, 2, outcomes, hold_port());
  expect(&parts[1], &outcomes[1], TUTTI_ERR_PEER, "has no TUTTI_SECRET, rank 1 has one");
}

static void test_misfits(void) {
  static const struct {
    struct part odd;
    tutti_err code;
    const char *text;
  } cases[] = {
      {{.rank = 1, .ranks = 3, .secret = SECRET}, TUTTI_ERR_ENVIRONMENT, "two processes say they are rank 1: pid "},
      {{.rank = 2, .ranks = 4, .secret = SECRET}, TUTTI_ERR_ENVIRONMENT, "was told WORLD_SIZE 4, rank 0 "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct part parts[] = {{.rank = 0, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                           {.rank = 1, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                           cases[i].odd};
    parts[2].timeout_ms = 10000;
    parts[2].delay_ms = 300;
    struct outcome outcomes[3];
    run_parts(parts, 3, outcomes, hold_port());
    for (int r = 0; r < 3; r++) expect(&parts[r], &outcomes[r], cases[i].code, cases[i].text);
  }
}

/* ---- strangers and deaths ---- */

static int connect_port(const struct tu_boot_place *place) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(place->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
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

/* Silent, noisy, half-way and endless ones: more of them than rank 0 has places for guests. */
static void be_strangers(const struct tu_boot_place *place) {
  uint64_t seed = test_seed();
  char noise[4096];
  for (int i = 0; i < 300; i++) {
    int fd = connect_port(place);
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
  CHECK(outcomes[4].seconds < 4, "strangers held rank 2 up for %.1f s", outcomes[4].seconds);
}

static struct tu_job *enter(const struct tu_boot_place *place) {
  struct tu_error error;
  struct tu_job *job;
  if (tu_job_tcp_create(place, 15000, &job, &error) != TUTTI_OK) _exit(1);
  return job;
}

static void leave_when_welcome(const struct tu_boot_place *place) {
  (void)enter(place);
  _exit(0);
}

static void leave_having_met(const struct tu_boot_place *place) {
  struct tu_error error;
  (void)tu_job_meet(enter(place), NULL, &error);
  _exit(0);
}

/* Ends in the middle of what it brings. */
static void leave_halfway_through_data(const struct tu_boot_place *place) {
  struct tu_job *job = enter(place);
  struct tu_boot_note note;
  tu_boot_note_init(&note, TU_BOOT_DATA, NULL);
  note.bytes = sizeof(struct tu_job_process);
  for (int fd = 3; fd < 64; fd++) { /* the star's is among them */
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.ss_family == AF_INET)
      put(fd, &note, sizeof note);
  }
  usleep(50000);
  (void)job;
  _exit(0);
}

/* Brings less than the others. */
static void bring_too_little(const struct tu_boot_place *place) {
  struct tu_job *job = enter(place);
  struct tu_error error;
  char all[64];
  (void)tu_job_allgather(job, "x", all, 1, &error);
  _exit(0);
}

static void give_up(const struct tu_boot_place *place) {
  struct tu_job *job = enter(place);
  struct tu_error error;
  tu_fail(&error, TUTTI_ERR_ABORTED, "had enough");
  job->ops->fail(job, &error);
  tu_job_close(job);
  _exit(0);
}

static void disagree(const struct tu_boot_place *place) {
  struct tu_job *job = enter(place);
  struct tu_error error;
  (void)tu_job_meet(job, NULL, &error);
  tu_fail(&error, TUTTI_ERR_ABORTED, "cannot go on: %0300d", 7);
  (void)tu_job_agree(job, error.code, &error);
  tu_job_close(job);
  _exit(0);
}

static void test_halfway(void) {
  static const struct {
    void (*act)(const struct tu_boot_place *place);
    tutti_err code;
    const char *text;
  } cases[] = {
      {leave_when_welcome, TUTTI_ERR_PEER, "died or left while the job was joining"},
      {leave_having_met, TUTTI_ERR_PEER, "died or left while the job was joining"},
      {leave_halfway_through_data, TUTTI_ERR_PEER, "died or left while the job was joining"},
      {bring_too_little, TUTTI_ERR_PEER, "died or left while the job was joining"},
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
    CHECK(seconds < 3, "case %zu took %.1f s", i, seconds);
  }
}

static void test_other_host(void) {
  struct part parts[] = {{.rank = 0, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                         {.rank = 1, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                         {.rank = 2, .ranks = 3, .secret = SECRET, .timeout_ms = 10000, .host = 12345}};
  struct outcome outcomes[3];
  run_parts(parts, 3, outcomes, hold_port());
  for (int r = 0; r < 3; r++) expect(&parts[r], &outcomes[r], TUTTI_ERR_UNSUPPORTED, "rank 2 (pid ");
}

static void die(int signal_number) {
  (void)signal_number;
  raise(SIGKILL);
}

/* Joins as it should and is killed after some microseconds, wherever it is then. */
static uint32_t die_after_us;
static void die_on_the_way(const struct tu_boot_place *place) {
  struct tu_error error;
  struct tu_job *job;
  struct tu_transport *t;
  signal(SIGALRM, die);
  ualarm(die_after_us, 0);
  if (tu_job_tcp_create(place, 10000, &job, &error) == TUTTI_OK && tu_job_meet(job, NULL, &error) == TUTTI_OK)
    (void)!tu_shm_join(job, &t, &error);
  raise(SIGKILL);
}

/* Is the rank named, alone or in a list as "ranks 1, 3-5 of 9"? */
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

/* The others fail with an error that names the dead one, or had all they needed and succeed; nobody hangs. One that
 * comes when rank 0 has given up already finds nobody, and says that. */
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

/* ---- secrets ---- */

/* How many lines a job of two writes to standard error. */
static int count_lines(const char *secret) {
  struct part parts[] = {{.rank = 0, .ranks = 2, .secret = secret, .timeout_ms = 10000},
                         {.rank = 1, .ranks = 2, .secret = secret, .timeout_ms = 10000}};
  struct outcome outcomes[2];
  FILE *said = tmpfile();
  int kept = dup(STDERR_FILENO), lines = 0;
  fflush(stderr);
  dup2(fileno(said), STDERR_FILENO);
  run_parts(parts, 2, outcomes, hold_port());
  dup2(kept, STDERR_FILENO);
  close(kept);
  for (int r = 0; r < 2; r++) expect(&parts[r], &outcomes[r], TUTTI_OK, "");
  char line[512];
  rewind(said);
  for (; fgets(line, sizeof line, said); lines++)
    CHECK(strstr(line, "has no secret: any process that reaches the port can join"), "says: %s", line);
  fclose(said);
  return lines;
}

static void test_open_job(void) {
  int open = count_lines(""), closed = count_lines(SECRET);
  CHECK(open == 1 && closed == 0, "%d lines without a secret, %d with one", open, closed);
}

static const char *secret_path;

static void write_secret(const void *bytes, size_t count, mode_t mode) {
  unlink(secret_path); /* it may be read-only, by now */
  int fd = open(secret_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  CHECK(write(fd, bytes, count) == (ssize_t)count && fchmod(fd, mode) == 0, "cannot write %s", secret_path);
  close(fd);
}

static void refuse_secret(const char *says) {
  struct tu_boot_secret secret;
  struct tu_error error = {0};
  tutti_err err = tu_boot_secret_read(NULL, &secret, &error);
  CHECK(err == TUTTI_ERR_ENVIRONMENT && strstr(error.text, says), "%s '%s', expected '%s'", tutti_err_name(err),
        error.text, says);
  CHECK(!strstr(error.text, "guarded"), "a sentence has the secret: %s", error.text);
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
  refuse_secret("cannot be opened: No such file");
  /* Whether it came from a file or not, with a newline or not, it is one secret. */
  write_secret("guarded\n", 8, 0600);
  CHECK(tu_boot_secret_read(NULL, &secret, NULL) == TUTTI_OK && secret.bytes == 7, "%zu bytes", secret.bytes);
  write_secret("guarded", 7, 0400);
  CHECK(tu_boot_secret_read(NULL, &same, NULL) == TUTTI_OK && same.bytes == 7, "%zu bytes", same.bytes);
  CHECK(memcmp(secret.value, same.value, 7) == 0, "two secrets");
  static const mode_t open_modes[] = {0640, 0604, 0620, 0644, 0601};
  for (size_t i = 0; i < sizeof open_modes / sizeof open_modes[0]; i++) {
    write_secret("guarded", 7, open_modes[i]);
    refuse_secret("other users may access");
  }
  write_secret("", 0, 0600);
  refuse_secret("is empty");
  write_secret("\n", 1, 0600);
  refuse_secret("is empty");
  memset(text, 'x', sizeof text);
  write_secret(text, TU_BOOT_SECRET_BYTES_MAX, 0600);
  CHECK(tu_boot_secret_read(NULL, &secret, NULL) == TUTTI_OK && secret.bytes == TU_BOOT_SECRET_BYTES_MAX,
        "the longest");
  write_secret(text, TU_BOOT_SECRET_BYTES_MAX + 1, 0600);
  refuse_secret("is too long");
  if (truncate(path, (off_t)1 << 40) == 0) refuse_secret("is too long");
  setenv("TUTTI_SECRET", "guarded", 1);
  refuse_secret("both set");
  unsetenv("TUTTI_SECRET");
  if (geteuid() == 0 && chown(path, 65534, 65534) == 0) refuse_secret("belongs to uid 65534");
  unlink(path);
  CHECK(mkfifo(path, 0600) == 0, "mkfifo");
  refuse_secret("expected a regular file");
  unlink(path);
  rmdir(folder);
  clear_environment();
}

/* ---- limits ---- */

/* 40 others need 40 descriptors: where the hard limit has them, it is enough; where not, a sentence says how many. */
static void test_descriptors(void) {
  static const struct {
    rlim_t files;
    bool short_of_soft;
    tutti_err code;
  } cases[] = {{24, true, TUTTI_OK}, {70, false, TUTTI_OK}, {48, false, TUTTI_ERR_SYSTEM}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct part parts[41];
    struct outcome outcomes[41];
    uint32_t count = cases[i].code == TUTTI_OK ? 41 : 1;
    for (uint32_t r = 0; r < count; r++)
      parts[r] = (struct part){.rank = r, .ranks = 41, .secret = SECRET, .timeout_ms = 15000};
    parts[0].files = cases[i].files;
    parts[0].short_of_soft = cases[i].short_of_soft;
    run_parts(parts, count, outcomes, hold_port());
    for (uint32_t r = 0; r < count; r++) expect(&parts[r], &outcomes[r], cases[i].code, "file descriptors");
    if (cases[i].code != TUTTI_OK)
      CHECK(strstr(outcomes[0].error.text, "the hard limit is 48: raise it (ulimit -n)"), "%s", outcomes[0].error.text);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"place", test_place},
      {"place_refuses", test_place_refuses},
      {"join", test_join},
      {"join_in_any_order", test_join_in_any_order},
      {"missing_ranks", test_missing_ranks},
      {"wrong_secret", test_wrong_secret},
      {"misfits", test_misfits},
      {"strangers", test_strangers},
      {"halfway", test_halfway},
      {"other_host", test_other_host},
      {"deaths", test_deaths},
      {"open_job", test_open_job},
      {"secret_files", test_secret_files},
      {"descriptors", test_descriptors},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
