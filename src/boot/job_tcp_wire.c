/* job_tcp_wire.c: sends and receives the messages between rank 0 and the other ranks, over sockets that may be slow or
 * dead, with deadlines. */
#include "boot/job_tcp_wire.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(sizeof(struct tu_boot_call) == 128, "no padding: messages are sent as their bytes in memory");
_Static_assert(sizeof(struct tu_boot_answer) == 152, "no padding");
_Static_assert(sizeof(struct tu_boot_hello) == 128, "no padding");
_Static_assert(sizeof(struct tu_boot_note) == 536, "no padding");

void tu_boot_hello_init(struct tu_boot_hello *hello, int timeout_ms) {
  struct tu_job_process mine;
  tu_job_process_mine(&mine);
  memset(hello, 0, sizeof *hello);
  memcpy(hello->magic, TU_BOOT_MAGIC, sizeof hello->magic);
  hello->pid = mine.pid;
  hello->timeout_ms = timeout_ms;
  hello->left_ms = (uint32_t)timeout_ms;
  memcpy(hello->hostname, mine.hostname, sizeof hello->hostname);
  hello->host = mine.host;
}

bool tu_boot_same_round(const struct tu_boot_round *a, const struct tu_boot_round *b) {
  return a->restart == b->restart && strncmp(a->run, b->run, sizeof a->run) == 0;
}

void tu_boot_round_name(const struct tu_boot_round *round, char name[TU_BOOT_ROUND_CHARS]) {
  if (round->run[0] == '\0' && round->restart == 0) snprintf(name, TU_BOOT_ROUND_CHARS, "no run of torchrun");
  else snprintf(name, TU_BOOT_ROUND_CHARS, "restart %u of run '%.60s'", round->restart, round->run);
}

/* Receives at most bytes - *got further bytes of `data` without blocking, and adds the number of received bytes to
 * *got. */
static enum tu_boot_taken receive_bytes(int fd, void *data, size_t bytes, size_t *got) {
  while (*got < bytes) {
    ssize_t n = recv(fd, (char *)data + *got, bytes - *got, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return TU_BOOT_NOT_YET;
    if (n <= 0) return TU_BOOT_GONE;
    *got += (size_t)n;
  }
  return TU_BOOT_TAKEN;
}

enum tu_boot_taken tu_boot_receive(int fd, void *message, size_t bytes, size_t *got) {
  const size_t magic_bytes = sizeof TU_BOOT_MAGIC;
  enum tu_boot_taken taken = receive_bytes(fd, message, bytes, got);
  return memcmp(message, TU_BOOT_MAGIC, tu_min(*got, magic_bytes)) == 0 ? taken : TU_BOOT_GONE;
}

enum tu_boot_taken tu_boot_take(struct tu_boot_line *line) {
  enum tu_boot_taken taken = tu_boot_receive(line->fd, &line->note, sizeof line->note, &line->got);
  if (taken != TU_BOOT_TAKEN) return taken;
  line->got = 0;
  line->note.text[sizeof line->note.text - 1] = '\0';
  return TU_BOOT_TAKEN;
}

enum tu_boot_taken tu_boot_take_data(struct tu_boot_line *line, void *body, size_t bytes) {
  enum tu_boot_taken taken = tu_boot_receive(line->fd, &line->note, sizeof line->note, &line->got);
  if (taken != TU_BOOT_TAKEN) return taken;
  if (line->note.kind == TU_BOOT_DATA) {
    if (line->note.bytes != bytes) return TU_BOOT_GONE;
    if ((taken = receive_bytes(line->fd, body, bytes, &line->body_got)) != TU_BOOT_TAKEN) return taken;
  }
  line->got = line->body_got = 0;
  line->note.text[sizeof line->note.text - 1] = '\0';
  return TU_BOOT_TAKEN;
}

bool tu_boot_send(int fd, const void *data, size_t bytes) {
  ssize_t n;
  do n = send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  return n == (ssize_t)bytes;
}

/* Sends all bytes. Returns false if the deadline passes, or if data comes in while the send buffer is full. Such data
 * can only be a FAILED message, because the other end sends nothing else before it has received all of these bytes. */
static bool send_all(int fd, const void *data, size_t bytes, uint64_t deadline_ns) {
  for (size_t sent = 0; sent < bytes;) {
    ssize_t n = send(fd, (const char *)data + sent, bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) sent += (size_t)n;
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    struct pollfd polled = {.fd = fd, .events = POLLOUT | POLLIN};
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return false;
    int ready = poll(&polled, 1, tu_clock_left_ms(deadline_ns));
    if ((ready < 0 && errno != EINTR) || ready == 0 || polled.revents & (POLLIN | POLLERR | POLLHUP)) return false;
  }
  return true;
}

bool tu_boot_send_data(int fd, const void *body, size_t bytes, uint64_t deadline_ns) {
  struct tu_boot_note note;
  tu_boot_note_init(&note, TU_BOOT_DATA, NULL);
  note.bytes = bytes;
  return send_all(fd, &note, sizeof note, deadline_ns) && send_all(fd, body, bytes, deadline_ns);
}

void tu_boot_note_init(struct tu_boot_note *note, enum tu_boot_kind kind, const struct tu_error *error) {
  memset(note, 0, sizeof *note);
  memcpy(note->magic, TU_BOOT_MAGIC, sizeof note->magic);
  note->kind = kind;
  if (!error) return;
  note->code = (uint32_t)error->code;
  memcpy(note->text, error->text, strnlen(error->text, sizeof note->text - 1));
}

void tu_boot_close(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}
