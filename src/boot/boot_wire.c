/* boot_wire.c: hellos and notes, over sockets that may be slow, strange or dead, and deadlines. */
#include "boot/boot_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct tu_boot_call) == 56, "no padding: messages travel as they lie in memory");
_Static_assert(sizeof(struct tu_boot_answer) == 88, "no padding");
_Static_assert(sizeof(struct tu_boot_hello) == 128, "no padding");
_Static_assert(sizeof(struct tu_boot_offer) == 56, "no padding");
_Static_assert(sizeof(struct tu_boot_note) == 584, "no padding");

static uint64_t hash_file(const char *path, uint64_t hash) {
  char text[128];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
  if (fd >= 0) close(fd);
  return n > 0 ? tu_hash(text, (size_t)n, hash) : hash;
}

static uint64_t hash_inode(const char *path, uint64_t hash) {
  struct stat status;
  if (stat(path, &status) != 0) return hash;
  uint64_t identity[2] = {(uint64_t)status.st_dev, (uint64_t)status.st_ino};
  return tu_hash(identity, sizeof identity, hash);
}

/* Equal for processes that can share memory and see each other: one kernel, and one namespace each for
 * abstract sockets (network), for process numbers, and for what hostname and /dev/shm stand for. */
static uint64_t host_identity(const char *hostname) {
  uint64_t hash = tu_hash(hostname, strlen(hostname), 1);
  hash = hash_file("/proc/sys/kernel/random/boot_id", hash);
  hash = hash_inode("/proc/self/ns/net", hash);
  hash = hash_inode("/proc/self/ns/pid", hash);
  return hash_inode("/dev/shm", hash);
}

void tu_boot_hello_init(struct tu_boot_hello *hello, int timeout_ms) {
  memset(hello, 0, sizeof *hello);
  memcpy(hello->magic, TU_BOOT_MAGIC, sizeof hello->magic);
  hello->pid = (uint32_t)getpid();
  hello->timeout_ms = hello->left_ms = (uint32_t)timeout_ms;
  gethostname(hello->hostname, sizeof hello->hostname - 1);
  hello->host = host_identity(hello->hostname);
}

enum tu_boot_taken tu_boot_receive(int fd, void *message, size_t bytes, size_t *got) {
  const size_t magic_bytes = sizeof TU_BOOT_MAGIC;
  while (*got < bytes) {
    ssize_t n = recv(fd, (char *)message + *got, bytes - *got, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return TU_BOOT_NOT_YET;
    if (n <= 0) return TU_BOOT_GONE;
    *got += (size_t)n;
    if (memcmp(message, TU_BOOT_MAGIC, tu_min(*got, magic_bytes)) != 0) return TU_BOOT_GONE;
  }
  return TU_BOOT_TAKEN;
}

enum tu_boot_taken tu_boot_take(struct tu_boot_line *line) {
  enum tu_boot_taken taken = tu_boot_receive(line->fd, &line->note, sizeof line->note, &line->got);
  if (taken != TU_BOOT_TAKEN) return taken;
  line->got = 0;
  line->note.text[sizeof line->note.text - 1] = '\0';
  return TU_BOOT_TAKEN;
}

bool tu_boot_send(int fd, const void *data, size_t bytes) {
  ssize_t n;
  do n = send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  return n == (ssize_t)bytes;
}

void tu_boot_note_init(struct tu_boot_note *note, enum tu_boot_kind kind, const struct tu_error *error) {
  memset(note, 0, sizeof *note);
  memcpy(note->magic, TU_BOOT_MAGIC, sizeof note->magic);
  note->kind = kind;
  if (!error) return;
  note->code = (uint32_t)error->code;
  memcpy(note->text, error->text, strnlen(error->text, sizeof note->text - 1));
}

int tu_boot_left_ms(uint64_t deadline_ns) {
  uint64_t now = tu_clock_ns();
  if (now >= deadline_ns) return 0;
  uint64_t ms = (deadline_ns - now + 999999) / 1000000;
  return ms > INT_MAX ? INT_MAX : (int)ms;
}

void tu_boot_close(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}
