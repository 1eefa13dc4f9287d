/* pmi.c: the client of PMI-1. A request and its answer are one line each: words of the form key=value, the first of which
 * is cmd. The protocol is that of MPICH's src/pmi/src/pmi_v1.c. Values have no spaces, so a text is percent-encoded. */
#include "boot/pmi.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "boot/job.h"
#include "boot/mpi_beside.h"

enum { LINE = 4096 };

struct pmi {
  int fd;
  uint64_t deadline_ns;
  int timeout_ms;
  char line[LINE]; /* the last answer, without its newline */
  char value[LINE];
};

/* ---- lines ---- */

static tutti_err fail_closed(struct tu_error *error) {
  return tu_fail(error, TUTTI_ERR_PEER,
                 "the launcher has closed its connection (PMI_FD) to this process: the launcher has ended, or this "
                 "process is a child of a rank; for a world of one set TUTTI_LAUNCHER=none");
}

/* Waits until the descriptor is ready. `waits`: for what, for the message of a time-out. */
static tutti_err await(const struct pmi *p, short events, const char *waits, struct tu_error *error) {
  for (;;) {
    struct pollfd polled = {.fd = p->fd, .events = events};
    const int ready = poll(&polled, 1, tu_clock_left_ms(p->deadline_ns));
    if (ready > 0) return TUTTI_OK;
    if (ready < 0 && errno != EINTR) return tu_fail_errno(error, "cannot wait for the launcher: poll failed");
    if (ready == 0 && tu_clock_left_ms(p->deadline_ns) == 0)
      return tu_fail(error, TUTTI_ERR_TIMEOUT, "waited %d ms for %s", p->timeout_ms, waits);
  }
}

static tutti_err send_line(const struct pmi *p, const char *line, struct tu_error *error) {
  for (size_t sent = 0, bytes = strlen(line); sent < bytes;) {
    tutti_err err = await(p, POLLOUT, "the launcher to read from PMI_FD", error);
    if (err != TUTTI_OK) return err;
    const ssize_t n = send(p->fd, line + sent, bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) sent += (size_t)n;
    if (n < 0 && errno != EINTR && errno != EAGAIN) return fail_closed(error);
  }
  return TUTTI_OK;
}

/* Reads byte by byte, so that no byte of a later line is taken: the library of MPI may read those. */
static tutti_err receive_line(struct pmi *p, const char *waits, struct tu_error *error) {
  size_t length = 0;
  for (;;) {
    tutti_err err = await(p, POLLIN, waits, error);
    if (err != TUTTI_OK) return err;
    const ssize_t n = recv(p->fd, &p->line[length], 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return fail_closed(error);
    if (p->line[length] == '\n') break;
    if (++length == sizeof p->line)
      return tu_fail(error, TUTTI_ERR_PEER, "the launcher sent a line of more than %zu bytes over PMI_FD",
                     sizeof p->line - 1);
  }
  p->line[length] = '\0';
  return TUTTI_OK;
}

/* Copies the value of a key of the answer to p->value. Returns false if the answer does not have the key. */
static bool find(struct pmi *p, const char *key) {
  const size_t length = strlen(key);
  for (const char *at = p->line; *at; at += strspn(at, " ")) {
    const size_t word = strcspn(at, " ");
    if (word > length && memcmp(at, key, length) == 0 && at[length] == '=') {
      snprintf(p->value, sizeof p->value, "%.*s", (int)(word - length - 1), at + length + 1);
      return true;
    }
    at += word;
  }
  return false;
}

/* Sends a request, and waits for the answer `expected`. The answer must not report an error. */
static tutti_err ask(struct pmi *p, const char *request, const char *expected, const char *waits,
                     struct tu_error *error) {
  tutti_err err = send_line(p, request, error);
  if (err == TUTTI_OK) err = receive_line(p, waits, error);
  if (err != TUTTI_OK) return err;
  const int shown = (int)strcspn(request, " \n");
  if (!find(p, "cmd") || strcmp(p->value, expected) != 0)
    return tu_fail(error, TUTTI_ERR_PEER,
                   "the launcher does not speak PMI-1 over PMI_FD: asked '%.*s', expected the "
                   "answer 'cmd=%s', got '%.100s'",
                   shown, request, expected, p->line);
  if (find(p, "rc") && strcmp(p->value, "0") != 0)
    return tu_fail(error, TUTTI_ERR_PEER, "the launcher refuses the PMI request '%.*s': '%.200s'", shown, request,
                   p->line);
  return TUTTI_OK;
}

/* ---- values: percent-encoded ---- */

static void encode(const char *text, char *value, size_t bytes) {
  for (; *text && bytes > 4; text++) {
    const bool plain = isalnum((unsigned char)*text) || strchr(".:,;-_[]", *text);
    const int n = snprintf(value, bytes, plain ? "%c" : "%%%02x", (unsigned char)*text);
    value += n;
    bytes -= (size_t)n;
  }
  *value = '\0';
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static void decode(const char *value, char *text, size_t bytes) {
  for (; *value && bytes > 1; bytes--) {
    const bool coded = value[0] == '%' && digit(value[1]) >= 0 && digit(value[2]) >= 0;
    *text++ = coded ? (char)(digit(value[1]) * 16 + digit(value[2])) : value[0];
    value += coded ? 3 : 1;
  }
  *text = '\0';
}

/* ---- the end ----
 *
 * The launcher ends the job if a process that has begun PMI closes the connection without ending PMI. After the end, PMI
 * cannot begin again. */

static struct {
  int fd;
  pid_t pid; /* process that has begun PMI; a child of fork() does not end it */
} open_end;

static tutti_err finalize(struct pmi *p, struct tu_error *error) {
  return ask(p, "cmd=finalize\n", "finalize_ack", "the launcher to answer the end of PMI", error);
}

static void end_at_exit(void) {
  if (open_end.pid != getpid() || tu_mpi_initialized()) return;
  struct tu_error ignored;
  struct pmi p = {.fd = open_end.fd, .deadline_ns = tu_clock_ns() + UINT64_C(2000000000)};
  (void)!finalize(&p, &ignored);
}

/* ---- the exchange ---- */

static tutti_err begin(struct pmi *p, const struct tu_boot_identity *identity, struct tu_error *error) {
  const char *text = getenv("PMI_FD");
  uint64_t number;
  if (tu_mpi_finalized())
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "MPI_Finalize has ended PMI in this process: call tutti_init before it");
  int type;
  socklen_t type_bytes = sizeof type;
  if (!text || !tu_parse_uint(text, INT32_MAX, &number) ||
      getsockopt((int)number, SOL_SOCKET, SO_TYPE, &type, &type_bytes) != 0)
    return tu_fail(
        error, TUTTI_ERR_ENVIRONMENT,
        "PMI_FD is %.40s; expected an open socket, since PMI_RANK is %u. A program between launcher and rank "
        "(ssh, sudo) may have closed it; for a world of one set TUTTI_LAUNCHER=none",
        text ? text : "not set", identity->rank);
  p->fd = (int)number;
  if (tu_mpi_initialized()) return TUTTI_OK;
  return ask(p, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", "the launcher to answer over PMI_FD",
             error);
}

static tutti_err end(struct pmi *p, struct tu_error *error) {
  if (tu_mpi_initialized()) return TUTTI_OK;
  if (!tu_mpi_is_loaded()) return finalize(p, error);
  open_end.fd = p->fd;
  open_end.pid = getpid();
  (void)!atexit(end_at_exit);
  return TUTTI_OK;
}

static tutti_err exchange(struct pmi *p, const struct tu_boot_identity *identity, char *text, size_t bytes,
                          struct tu_error *error) {
  char request[LINE], space[256], value[3072];
  tutti_err err = ask(p, "cmd=get_my_kvsname\n", "my_kvsname", "the launcher to name its store", error);
  if (err != TUTTI_OK) return err;
  if (!find(p, "kvsname"))
    return tu_fail(error, TUTTI_ERR_PEER, "the launcher does not name its PMI store: got '%.100s'", p->line);
  snprintf(space, sizeof space, "%.255s", p->value);
  if (identity->rank == 0) {
    encode(text, value, sizeof value);
    snprintf(request, sizeof request, "cmd=put kvsname=%s key=tutti value=%s\n", space, value);
    if ((err = ask(p, request, "put_result", "the launcher to take the address of rank 0", error)) != TUTTI_OK)
      return err;
  }
  if ((err = ask(p, "cmd=barrier_in\n", "barrier_out",
                 "the other ranks in a barrier of the launcher (PMI): at least one has not called tutti_init",
                 error)) != TUTTI_OK)
    return err;
  if (identity->rank == 0) return TUTTI_OK;
  snprintf(request, sizeof request, "cmd=get kvsname=%s key=tutti\n", space);
  if ((err = ask(p, request, "get_result", "the launcher to give the address of rank 0", error)) != TUTTI_OK)
    return err;
  if (!find(p, "value")) return tu_fail(error, TUTTI_ERR_PEER, "the launcher gives no value for the PMI key 'tutti'");
  decode(p->value, text, bytes);
  return TUTTI_OK;
}

tutti_err tu_pmi_carry(const struct tu_boot_identity *identity, char *text, size_t bytes, int timeout_ms,
                       struct tu_error *error) {
  struct pmi p = {.deadline_ns = tu_job_deadline_ns(timeout_ms), .timeout_ms = timeout_ms};
  tutti_err err = begin(&p, identity, error);
  if (err == TUTTI_OK) err = exchange(&p, identity, text, bytes, error);
  if (err == TUTTI_OK) err = end(&p, error);
  explicit_bzero(&p, sizeof p); /* the text has the secret */
  return err;
}
