/* test: fast waits timeout=180 */
/* shm_memory_test.c: tests the memory that the ranks of a host share: its size, and which processes get it. */
#include "transport/shm_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

enum { SLICE = 1 << 20 };

/* If RLIMIT_FSIZE is too low for the shared memory, the call returns an error and no SIGXFSZ is sent. A rank that
 * follows the advice of the error message succeeds. */
static _Noreturn void limit_files(void) {
  struct tu_shm_memory memory;
  struct tu_error error = {0};
  const rlim_t mega = 1 << 20;
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){9 * mega, 9 * mega});
  tutti_err err = tu_shm_memory_make(4, &memory, &error);
  bool good = err == TUTTI_ERR_SYSTEM &&
              test_contains(error.text, "4 ranks x 1073741824 bytes|9437184 bytes|ulimit -f|TUTTI_SHM_BYTES=2M");
  setenv("TUTTI_SHM_BYTES", "2M", 1);
  good = good && tu_shm_memory_make(4, &memory, NULL) == TUTTI_OK;
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){mega, mega});
  good = good && tu_shm_memory_make(4, &memory, &error) == TUTTI_ERR_SYSTEM && !strstr(error.text, "TUTTI_SHM_BYTES");
  _exit(good ? 0 : 1);
}

static void test_file_limit(void) {
  int status;
  pid_t pid = fork();
  if (pid == 0) limit_files();
  CHECK(waitpid(pid, &status, 0) == pid && status == 0, "status %#x", (unsigned)status);
}

/* ---- memory ---- */

static void test_slice_bytes(void) {
  static const struct {
    const char *value;
    size_t bytes; /* expected bytes per rank; 0: the value is refused */
  } cases[] = {{"", (size_t)1 << 30}, {"1M", 1 << 20}, {"3M", 3 << 20}, {"1048577", (1 << 20) + 4096},
               {"1023K", 0},          {"0", 0},        {"much", 0},     {"9000000000G", 0}};
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    setenv("TUTTI_SHM_BYTES", cases[i].value, 1);
    struct tu_shm_memory memory;
    struct tu_error error = {0};
    tutti_err err = tu_shm_memory_make(4, &memory, &error);
    size_t expected = cases[i].bytes & 4096 ? (1 << 20) + page : cases[i].bytes;
    if (!expected) {
      CHECK(err == TUTTI_ERR_ENVIRONMENT && strstr(error.text, "TUTTI_SHM_BYTES"), "'%s': %s", cases[i].value,
            error.text);
      continue;
    }
    struct stat status;
    CHECK(err == TUTTI_OK && memory.slice_bytes == expected, "'%s': %zu, %s", cases[i].value, memory.slice_bytes,
          error.text);
    CHECK(fstat(memory.fd, &status) == 0 && (size_t)status.st_size == 4 * expected && status.st_blocks == 0,
          "'%s': %lld bytes in %lld blocks", cases[i].value, (long long)status.st_size, (long long)status.st_blocks);
    close(memory.fd);
  }
  unsetenv("TUTTI_SHM_BYTES");
}

/* ---- handing the memory to another process ---- */

struct outcome {
  bool came; /* false: the process died before it could report */
  struct tu_error error;
};

/* Returns a job with only the fields that the tested calls read. */
static struct tu_job job_of(uint32_t rank) {
  return (struct tu_job){.rank = rank, .ranks = 2, .timeout_ms = 5000, .deadline_ns = tu_clock_ns() + 5000000000u};
}

/* Hands `memory_fd` to a child that expects 2 ranks of SLICE bytes. wrong_token: the child shows a wrong token.
 * Returns what the child reports. */
static struct outcome hand_over(int memory_fd, bool wrong_token) {
  struct tu_shm_offer offer;
  struct tu_shm_handing *handing;
  struct outcome outcome = {0};
  struct tu_error error;
  int ends[2];
  const struct tu_shm_memory memory = {.fd = memory_fd, .slice_bytes = SLICE};
  if (tu_shm_memory_hand_out(&memory, &handing, &offer, &error) != TUTTI_OK || pipe2(ends, O_CLOEXEC) != 0) {
    FAIL("no sockets");
    return outcome;
  }
  if (wrong_token) offer.token[3] ^= 1;
  pid_t pid = fork();
  if (pid == 0) {
    struct tu_job job = job_of(1);
    struct tu_shm_memory taken;
    outcome.came = true;
    outcome.error.code = tu_shm_memory_take(&job, 0, &offer, 2, &taken, &outcome.error);
    _exit(write(ends[1], &outcome, sizeof outcome) < 0);
  }
  close(ends[1]);
  CHECK(read(ends[0], &outcome, sizeof outcome) == (ssize_t)sizeof outcome, "the child died");
  waitpid(pid, NULL, 0);
  tu_shm_memory_end(handing);
  close(ends[0]);
  return outcome;
}

/* A rank refuses memory that could shrink, or that is not as long as promised. */
static void test_memory_is_verified(void) {
  static const struct {
    long bytes;
    int seals;
    bool wrong_token;
    tutti_err code;
    const char *text;
  } cases[] = {
      {2 * SLICE, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, false, TUTTI_OK, ""},
      {2 * SLICE, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, true, TUTTI_ERR_PEER, "rank 1|receive"},
      {2 * SLICE, 0, false, TUTTI_ERR_PEER, "not sealed"},
      {2 * SLICE, F_SEAL_GROW | F_SEAL_SEAL, false, TUTTI_ERR_PEER, "not sealed"},
      {2 * SLICE - 1, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, false, TUTTI_ERR_PEER, "2097151 bytes"},
      {0, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, false, TUTTI_ERR_PEER, " 0 bytes"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ftruncate(fd, cases[i].bytes) != 0 || (cases[i].seals && fcntl(fd, F_ADD_SEALS, cases[i].seals) != 0))
      FAIL("cannot make case %zu", i);
    struct outcome outcome = hand_over(fd, cases[i].wrong_token);
    CHECK(outcome.came && outcome.error.code == cases[i].code &&
              (cases[i].code == TUTTI_OK || test_contains(outcome.error.text, cases[i].text)),
          "case %zu: %s '%s', expected '%s'", i, tutti_err_name(outcome.error.code), outcome.error.text, cases[i].text);
    close(fd);
  }
}

/* A rank gets its memory despite noise at the socket, and despite more connections than the server keeps open. */
static void test_strangers(void) {
  struct tu_shm_offer offer;
  struct tu_shm_handing *handing;
  struct tu_shm_memory memory, taken;
  struct tu_error error;
  setenv("TUTTI_SHM_BYTES", "1M", 1);
  if (tu_shm_memory_make(2, &memory, &error) != TUTTI_OK ||
      tu_shm_memory_hand_out(&memory, &handing, &offer, &error) != TUTTI_OK) {
    FAIL("%s", error.text);
    return;
  }
  int strangers[100];
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(offer.socket);
  memcpy(address.sun_path + 1, offer.socket, length);
  for (int i = 0; i < 100; i++) {
    strangers[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(connect(strangers[i], (struct sockaddr *)&address,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0,
          "stranger %d", i);
    if (i % 2) CHECK(send(strangers[i], "noise", 5, MSG_NOSIGNAL) == 5, "stranger %d", i);
  }
  struct tu_job job = job_of(1);
  CHECK(tu_shm_memory_take(&job, 0, &offer, 2, &taken, &error) == TUTTI_OK, "%s", error.text);
  close(taken.fd);
  for (int i = 0; i < 100; i++) close(strangers[i]);
  tu_shm_memory_end(handing);
  close(memory.fd);
  unsetenv("TUTTI_SHM_BYTES");
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"slice_bytes", test_slice_bytes},
      {"file_limit", test_file_limit},
      {"memory_is_verified", test_memory_is_verified},
      {"strangers", test_strangers},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
