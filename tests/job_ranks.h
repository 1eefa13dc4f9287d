/* job_ranks.h: helpers of the tests of starting a job: runs ranks as processes, each a fork of the test program, and
 * checks what they report. */
#ifndef JOB_RANKS_H
#define JOB_RANKS_H

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "boot/job.h"
#include "boot/job_tcp.h"
#include "mover/join.h"
#include "test.h"
#include "transport/transport.h"

#define SECRET "0123456789abcdef0123456789abcdef"
enum { JOB_RANKS_MAX = 64 };

struct outcome {
  bool came; /* false: the process died before it reported an outcome */
  struct tu_error error;
  uint32_t fds_left;
  uint32_t wrong_words; /* number of wrong words in the shared memory, or in the result of an allgather */
  double seconds;
};

/* Instructions for one process. If `act` is not NULL, the process calls `act` first. Then it joins the job. */
struct part {
  uint32_t rank, ranks;
  const char *secret;
  const char *address; /* NULL: 127.0.0.1 */
  struct tu_boot_round round;
  int timeout_ms;
  int delay_ms;
  uint32_t after;     /* the process begins when this many others have reported */
  bool unused_memory; /* the process joins, but does not use the shared memory */
  uint64_t host;      /* host identity that the process claims; 0: its own */
  bool quits;         /* the process exits when it has the shared memory of its host */
  rlim_t files;       /* limit on file descriptors, soft and hard; 0: unchanged */
  bool short_of_soft; /* `files` is only the soft limit */
  void (*act)(const struct tu_boot_identity *identity);
};

static int held_port = -1;
static _Atomic uint32_t *reported; /* number of processes of the current job that have reported */

/* Reserves a free port as `tutti run` does (bound, not listening) and returns it. */
static inline uint16_t hold_port(void) {
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

static inline uint32_t count_fds(void) {
  uint32_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

/* Each rank writes a word into every slice and checks the words of all others, which shows that they share one
 * memory. */
static inline uint32_t use_memory(struct tu_transport *t) {
  enum { AT = 2048 }; /* offset of the words, in the first page after the head of a slice */
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

/* Runs allgathers of several lengths, up to more than a socket's buffer holds; returns the number of wrong bytes. */
static inline uint32_t gather(struct tu_job *job, struct tu_error *error) {
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

/* Runs the steps that tutti_init runs with a job. */
static inline tutti_err begin(struct tu_job *job, const struct part *part, struct tu_transport **t,
                              struct tu_error *error) {
  struct tu_job_process mine;
  tu_job_process_mine(&mine);
  if (part->host) mine.host = part->host;
  tutti_err err = tu_job_meet(job, &mine, error);
  if (part->quits) (void)!tu_shm_join(job, t, error);
  if (part->quits) _exit(0);
  return err == TUTTI_OK ? tu_join(job, t, error) : err;
}

static inline void fill_identity(const struct part *part, uint16_t port, struct tu_boot_identity *identity) {
  *identity = (struct tu_boot_identity){.rank = part->rank, .ranks = part->ranks, .port = port, .reserved = true};
  snprintf(identity->address, sizeof identity->address, "%s", part->address ? part->address : "127.0.0.1");
  identity->round = part->round;
  unsetenv("TUTTI_SECRET_FILE");
  setenv("TUTTI_SECRET", part->secret, 1);
  struct rlimit limit;
  if (part->files == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = part->files;
  if (!part->short_of_soft) limit.rlim_max = part->files;
  setrlimit(RLIMIT_NOFILE, &limit);
}

static inline _Noreturn void play(const struct part *part, uint16_t port, int report) {
  struct tu_boot_identity identity;
  fill_identity(part, port, &identity);
  usleep((useconds_t)part->delay_ms * 1000);
  while (atomic_load(reported) < part->after) usleep(1000);
  if (part->act) part->act(&identity);
  struct outcome outcome = {.came = true};
  uint32_t fds = count_fds();
  struct tu_job *job;
  struct tu_transport *t = NULL;
  uint64_t start = tu_clock_ns();
  tutti_err err = tu_job_tcp_create(&identity, part->timeout_ms, &job, &outcome.error);
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
  bool written = write(report, &outcome, sizeof outcome) == (ssize_t)sizeof outcome;
  atomic_fetch_add(reported, 1);
  _exit(written ? 0 : 1);
}

/* Runs one process per part, in parallel, and fills outcomes[count]. No process may take longer than 20 s. Returns the
 * time in s. */
static inline double run_parts(const struct part parts[], size_t count, struct outcome outcomes[], uint16_t port) {
  int reports[JOB_RANKS_MAX];
  pid_t pids[JOB_RANKS_MAX];
  uint64_t start = tu_clock_ns();
  reported = mmap(NULL, sizeof *reported, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (reported == MAP_FAILED) abort();
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
  munmap(reported, sizeof *reported);
  for (size_t i = 0; i < count; i++) {
    CHECK(outcomes[i].fds_left == 0, "rank %u left %u descriptors open", parts[i].rank, outcomes[i].fds_left);
    CHECK(outcomes[i].wrong_words == 0, "rank %u: memory is wrong: %u", parts[i].rank, outcomes[i].wrong_words);
  }
  return seconds;
}

static inline void expect(const struct part *part, const struct outcome *outcome, tutti_err code, const char *facts) {
  CHECK(outcome->came, "rank %u died", part->rank);
  CHECK(outcome->error.code == code && (code == TUTTI_OK || test_contains(outcome->error.text, facts)),
        "rank %u: %s '%s', expected %s '%s'", part->rank, tutti_err_name(outcome->error.code), outcome->error.text,
        tutti_err_name(code), facts);
}

#endif
