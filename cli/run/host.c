/* host.c: reaches a host by ssh, or the program in TUTTI_RSH. */
#include "cli/run/host.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/run/spawn.h"

enum {
  SAID_BYTES_MAX = 1 << 13,
  STATUS_MS = 300, /* to learn the exit status of ssh after its output has ended */
  KILL_MS = 1000,  /* time in ms from SIGTERM to SIGKILL */
};

/* ---- calling ---- */

/* Backslashes are the only quotes that all shells understand in the same way. No shell can quote a newline by one. */
tutti_err run_agent_command(const char *verb, char *command, size_t bytes, struct tu_error *error) {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length < 0) return tu_fail_errno(error, "cannot read /proc/self/exe, the path of this program");
  path[length] = '\0';
  size_t n = (size_t)snprintf(command, bytes, "exec ");
  for (const char *c = path; *c; c++) {
    if (*c == '\n') return tu_fail(error, TUTTI_ERR_SYSTEM, "the path of this program contains a newline");
    const bool plain = isalnum((unsigned char)*c) || strchr("/._-+=:,@%", *c) || (unsigned char)*c >= 0x80;
    if (n + 3 < bytes && !plain) command[n++] = '\\';
    if (n + 2 < bytes) command[n++] = *c;
  }
  const size_t rest = (size_t)snprintf(command + n, bytes - n, " %s --agent", verb);
  return n + rest < bytes ? TUTTI_OK : tu_fail(error, TUTTI_ERR_SYSTEM, "the path of this program is too long");
}

tutti_err run_hosts_allow(uint32_t hosts, struct tu_error *error) {
  enum { SPARE = 16 };
  const uint64_t needed = tu_files_open() + SPARE + RUN_HOST_FILES * (uint64_t)hosts;
  if (needed > tu_files_max()) (void)tu_files_raise();
  if (needed <= tu_files_max()) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_SYSTEM,
                 "--hosts: %u hosts need %llu file descriptors, three per host, but the hard limit is %llu; raise it "
                 "(ulimit -n)",
                 hosts, (unsigned long long)needed, (unsigned long long)tu_files_max());
}

/* Returns the arguments of the process: what TUTTI_RSH has, or ssh, then host and command. The caller frees the array and
 * *words. */
static char **arguments_for(char *host, char *command, char **words) {
  /* -T and BatchMode: ssh fails where it would ask. */
  static const char ssh[] = "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ClearAllForwardings=yes --";
  const char *text = tu_env("TUTTI_RSH");
  if (text && text[strspn(text, " ")] == '\0') text = NULL;
  char **list = NULL, *rest = NULL;
  uint32_t count = 0, capacity = 0;
  *words = strdup(text ? text : ssh);
  if (!*words) tu_memory_ends(1, strlen(text ? text : ssh));
  for (char *word = strtok_r(*words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    list = tu_grow(list, count, &capacity, sizeof *list);
    list[count++] = word;
  }
  char *const last[] = {host, command, NULL};
  for (size_t i = 0; i < sizeof last / sizeof last[0]; i++) {
    list = tu_grow(list, count, &capacity, sizeof *list);
    list[count++] = last[i];
  }
  return list;
}

tutti_err run_host_call(struct run_host *host, char *command, const struct run_console *console,
                        struct tu_error *error) {
  struct run_child child = {.in = -1, .out = -1, .err = -1, .death_signal = SIGTERM};
  char *words, name[TU_HOST_NAME_BYTES];
  int in = -1, out = -1;
  pid_t pid = -1;
  snprintf(name, sizeof name, "%s", host->name);
  child.argv = arguments_for(name, command, &words);
  child.path = child.argv[0];
  const char *slash = strrchr(child.path, '/');
  snprintf(host->rsh, sizeof host->rsh, "%s", slash ? slash + 1 : child.path);
  const bool piped = run_open_pipe(&out, &child.in, false) && run_open_pipe(&in, &child.out, true) &&
                     run_open_pipe(&host->err_fd, &child.err, true);
  const int why = piped ? run_spawn(&child, console, &pid) : errno;
  const int theirs[] = {child.in, child.out, child.err};
  for (size_t i = 0; i < sizeof theirs / sizeof theirs[0]; i++)
    if (theirs[i] >= 0) close(theirs[i]);
  run_pipe_open(&host->pipe, in, out);
  free(child.argv);
  free(words);
  host->state = RUN_CALLED;
  host->deadline_ns = tu_clock_ns() + host->answer_ms * UINT64_C(1000000);
  if (pid > 0) host->pid = pid;
  errno = why;
  return why == 0 ? TUTTI_OK : tu_fail_errno(error, "cannot start '%s' to reach host %s", host->rsh, host->name);
}

/* ---- what the process says ---- */

void run_host_reap(struct run_host *host) {
  if (host->pid <= 0 || waitpid(host->pid, &host->status, WNOHANG) != host->pid) return;
  host->pid = 0;
}

/* Finds the agent's greeting in what has arrived, and skips what a login shell printed before it. */
bool run_host_answer(struct run_host *host) {
  static const char greeting[] = RUN_GREETING;
  struct run_bytes *got = &host->pipe.received;
  char text[64], version[32] = "unknown", own[32];
  int protocol = 0;
  if (got->begin == got->end) return true;
  const char *begin = got->data + got->begin, *end = got->data + got->end;
  const char *at = memmem(begin, (size_t)(end - begin), greeting, sizeof greeting - 1);
  const char *newline = at ? memchr(at, '\n', (size_t)(end - at)) : NULL;
  if (!newline) return true;
  at += sizeof greeting - 1;
  snprintf(text, sizeof text, "%.*s", (int)(newline - at), at);
  got->begin += (size_t)(newline + 1 - begin);
  host->state = RUN_ANSWERED;
  snprintf(own, sizeof own, "%d.%d.%d", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
  if (sscanf(text, "%d %31s", &protocol, version) == 2 && protocol == RUN_PROTOCOL && strcmp(version, own) == 0)
    return true;
  char path[PATH_MAX] = "tutti";
  (void)!readlink("/proc/self/exe", path, sizeof path - 1);
  snprintf(
      host->reason, sizeof host->reason,
      "%.256s there is version %.31s (protocol %d), but here it is version %s (protocol %d); install the same version "
      "on all hosts",
      path, version, protocol, own, RUN_PROTOCOL);
  return false;
}

static void print_lines(struct run_host *host, struct run_console *console, bool all) {
  char own[32]; /* begins the messages of the agent */
  const size_t own_bytes = (size_t)snprintf(own, sizeof own, "tutti %s: ", run_console_verb(console));
  struct run_bytes *said = &host->said;
  while (said->begin < said->end) {
    const char *line = said->data + said->begin;
    size_t length = said->end - said->begin;
    const char *newline = memchr(line, '\n', length);
    if (!newline && !all) return;
    if (newline) length = (size_t)(newline - line);
    said->begin += length + (newline != NULL);
    if (length > 0 && line[length - 1] == '\r') length--; /* ssh ends its lines as terminals do */
    if (length >= own_bytes && memcmp(line, own, own_bytes) == 0) line += own_bytes, length -= own_bytes;
    if (length > 0) run_say(console, "host %s: %.*s", host->name, (int)length, line);
  }
}

void run_host_listen(struct run_host *host, struct run_console *console) {
  char data[4096];
  ssize_t n = -1;
  errno = EINTR;
  while (host->err_fd >= 0 && (n > 0 || errno == EINTR)) {
    n = read(host->err_fd, data, sizeof data);
    if (n > 0 && !host->mute) run_bytes_append(&host->said, data, (size_t)n);
    if (n == 0) break;
  }
  /* Another process may keep the descriptor open after ssh has ended, such as a master that ssh has started. */
  if (host->err_fd >= 0 && (n == 0 || errno != EAGAIN || host->pid <= 0)) {
    close(host->err_fd);
    host->err_fd = -1;
  }
  const size_t waiting = host->said.end - host->said.begin;
  if (host->state == RUN_CALLED && waiting < SAID_BYTES_MAX) return;
  if (!host->mute) print_lines(host, console, host->err_fd < 0 || waiting >= SAID_BYTES_MAX);
}

/* Appends at most `max` bytes of a text, on one line. */
static void quote(char *text, size_t bytes, const struct run_bytes *from, size_t max) {
  size_t length = strlen(text), count = tu_min(from->end - from->begin, max);
  const char *data = from->data + from->begin;
  while (count > 0 && isspace((unsigned char)data[count - 1])) count--;
  for (size_t i = 0; i < count && length + 3 < bytes; i++) {
    const char c = data[i];
    if (c == '\n') text[length++] = ';';
    if (c != '\r') text[length++] = isprint((unsigned char)c) ? c : ' ';
  }
  text[length] = '\0';
}

/* Sets host->reason to why no agent has answered, with what was printed there. */
static void explain(struct run_host *host) {
  enum { SSH_FAILED = 255 };
  char how[96] = "", said[320] = "", path[PATH_MAX] = "tutti", *reason = host->reason;
  const int status = host->status;
  (void)!readlink("/proc/self/exe", path, sizeof path - 1);
  if (host->pipe.received.end - host->pipe.received.begin > RUN_BANNER_BYTES_MAX)
    snprintf(how, sizeof how, "%.40s printed more than %d bytes", host->rsh, RUN_BANNER_BYTES_MAX);
  else if (host->pid > 0)
    snprintf(how, sizeof how, "%.40s gave no answer within %u s", host->rsh, host->answer_ms / 1000);
  else if (WIFSIGNALED(status)) snprintf(how, sizeof how, "%.40s was killed by signal %d", host->rsh, WTERMSIG(status));
  else snprintf(how, sizeof how, "%.40s ended with status %d", host->rsh, WEXITSTATUS(status));
  quote(said, sizeof said, &host->said, 200);
  if (host->pipe.received.begin < host->pipe.received.end) {
    snprintf(said + strlen(said), sizeof said - strlen(said), "%sit printed '", said[0] ? "; " : "");
    quote(said, sizeof said - 1, &host->pipe.received, 80);
    strcat(said, "'");
  }
  if (host->pid <= 0 && WIFEXITED(status) && WEXITSTATUS(status) == SSH_FAILED)
    snprintf(reason, sizeof host->reason, "%s%s%s", how, said[0] ? ": " : "", said);
  else
    snprintf(reason, sizeof host->reason,
             "%.150s did not start there (%s%s%s); it must be installed at this path on all hosts", path, how,
             said[0] ? ": " : "", said);
}

bool run_host_refuses(struct run_host *host, struct run_console *console) {
  if (host->state != RUN_CALLED) return false;
  const bool ended = (host->pipe.in < 0 || host->pipe.out.broken) && host->pid <= 0;
  const size_t banner = host->pipe.received.end - host->pipe.received.begin;
  if (!ended && tu_clock_ns() < host->deadline_ns && banner <= RUN_BANNER_BYTES_MAX) return false;
  run_host_listen(host, console);
  explain(host);
  return true;
}

void run_host_distrust(struct run_host *host, const struct run_frame *frame) {
  snprintf(
      host->reason, sizeof host->reason,
      "expected a frame of its agent, found kind %u with %u bytes; does its login shell write to standard output in "
      "the background?",
      frame->kind, frame->bytes);
}

/* ---- the end ---- */

bool run_host_has_ended(struct run_host *host) {
  if (host->pipe.in >= 0 && !host->pipe.out.broken) return false;
  if (!host->ended_ns) host->ended_ns = tu_clock_ns();
  return host->pid <= 0 || tu_clock_ns() - host->ended_ns > STATUS_MS * UINT64_C(1000000);
}

const char *run_host_how_ended(const struct run_host *host, char how[64]) {
  how[0] = '\0';
  if (host->pid <= 0 && WIFEXITED(host->status))
    snprintf(how, 64, " (%.30s ended with status %d)", host->rsh, WEXITSTATUS(host->status));
  if (host->pid <= 0 && WIFSIGNALED(host->status))
    snprintf(how, 64, " (%.30s was killed by signal %d)", host->rsh, WTERMSIG(host->status));
  return how;
}

void run_host_hang_up(struct run_host *host, uint32_t ms) {
  run_pipe_close(&host->pipe);
  host->state = RUN_OVER;
  host->alive = 0;
  host->deadline_ns = tu_clock_ns() + ms * UINT64_C(1000000);
}

void run_host_end(struct run_host *host) {
  if (host->pid <= 0 || tu_clock_left_ms(host->deadline_ns) > 0) return;
  kill(-host->pid, host->asked ? SIGKILL : SIGTERM);
  host->asked = true;
  host->deadline_ns = tu_clock_ns() + KILL_MS * UINT64_C(1000000);
}

bool run_host_gone(const struct run_host *host) {
  return host->state == RUN_IDLE || (host->state == RUN_OVER && host->pid <= 0 && host->err_fd < 0);
}

void run_host_fini(struct run_host *host) {
  run_pipe_close(&host->pipe);
  if (host->err_fd >= 0) close(host->err_fd);
  run_bytes_fini(&host->said);
}
