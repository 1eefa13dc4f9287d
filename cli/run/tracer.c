/* tracer.c: collects the traces of the ranks of all hosts. */
#include "cli/run/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/trace/trace.h"

enum { PART_BYTES = 1 << 20, PATH_BYTES = 4096 };

/* Checks that the file can be written, before the job runs for hours. */
static tutti_err check_file(const char *file, struct tu_error *error) {
  const bool output = strcmp(file, "-") == 0, there = output || access(file, F_OK) == 0;
  const int fd = output ? dup(STDOUT_FILENO) : open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd >= 0 && !there) (void)unlink(file);
  if (fd < 0) return tu_fail(error, TUTTI_ERR_SYSTEM, "--trace: %.500s: %s", file, strerror(errno));
  close(fd);
  return TUTTI_OK;
}

tutti_err run_tracer_open(struct run_tracer *tracer, const char *file, struct tu_error *error) {
  const char *parent = getenv("TMPDIR");
  char path[PATH_BYTES];
  if (file && check_file(file, error) != TUTTI_OK) return error->code;
  if (!parent || !*parent) parent = "/tmp";
  snprintf(path, sizeof path, "%s/tutti-trace-XXXXXX", parent);
  if (!mkdtemp(path) || setenv("TUTTI_TRACE", path, 1) != 0)
    return tu_fail(error, TUTTI_ERR_SYSTEM, "--trace: cannot make a directory in %.200s (TMPDIR): %s", parent,
                   strerror(errno));
  tracer->directory = strdup(path);
  return TUTTI_OK;
}

/* Calls `visit` for each file of the directory. */
static void visit_files(const struct run_tracer *tracer,
                        void (*visit)(const char *path, const char *name, void *context), void *context) {
  char path[PATH_BYTES];
  DIR *directory = tracer->directory ? opendir(tracer->directory) : NULL;
  if (!directory) return;
  for (struct dirent *entry; (entry = readdir(directory));) {
    if (*entry->d_name == '.') continue;
    snprintf(path, sizeof path, "%s/%s", tracer->directory, entry->d_name);
    visit(path, entry->d_name, context);
  }
  closedir(directory);
}

static void remove_file(const char *path, const char *name, void *context) {
  (void)name, (void)context;
  (void)unlink(path);
}

void run_tracer_close(struct run_tracer *tracer) {
  if (!tracer->directory) return;
  if (tracer->reading) close(tracer->fd);
  if (tracer->sending) closedir(tracer->sending);
  visit_files(tracer, remove_file, NULL);
  (void)rmdir(tracer->directory);
  free(tracer->directory);
  tracer->directory = NULL;
}

/* ---- from host to host ---- */

static bool is_empty(const char *data, size_t bytes) {
  return bytes == 0 || (*data == '\0' && memcmp(data, data + 1, bytes - 1) == 0);
}

/* Opens the next file of the directory. Returns false if there is none. */
static bool open_next(struct run_tracer *tracer, struct run_sink *sink) {
  char path[PATH_BYTES];
  struct stat status;
  for (struct dirent *entry; (entry = readdir(tracer->sending));) {
    snprintf(path, sizeof path, "%s/%s", tracer->directory, entry->d_name);
    tracer->fd = *entry->d_name != '.' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    tracer->reading = tracer->fd >= 0 && fstat(tracer->fd, &status) == 0;
    if (!tracer->reading && tracer->fd >= 0) close(tracer->fd);
    if (!tracer->reading) continue;
    tracer->bytes = (uint64_t)status.st_size;
    tracer->part = 0;
    run_frame_put(sink, RUN_TRACE_FILE, 0, entry->d_name, strlen(entry->d_name));
    return true;
  }
  return false;
}

/* Sends the next part of the file, or closes it. Parts that are empty are left out: most of a ring may be. The last part is
 * sent in any case, because the file is as long as that says. */
static void send_part(struct run_tracer *tracer, struct run_sink *sink, char data[PART_BYTES]) {
  const uint64_t at = (uint64_t)tracer->part * PART_BYTES;
  const ssize_t bytes = at < tracer->bytes ? pread(tracer->fd, data, PART_BYTES, (off_t)at) : 0;
  if (bytes > 0 && (!is_empty(data, (size_t)bytes) || at + PART_BYTES >= tracer->bytes))
    run_frame_put(sink, RUN_TRACE_PART, tracer->part, data, (size_t)bytes);
  tracer->part++;
  if (bytes > 0) return;
  close(tracer->fd);
  tracer->reading = false;
}

bool run_tracer_send(struct run_tracer *tracer, struct run_sink *sink) {
  if (tracer->directory && !tracer->sending) tracer->sending = opendir(tracer->directory);
  if (!tracer->sending) return true;
  char *data = tu_allocate(PART_BYTES, 1);
  bool more = true;
  while (more && !run_sink_full(sink)) {
    if (tracer->reading) send_part(tracer, sink, data);
    else more = open_next(tracer, sink);
  }
  free(data);
  if (more) return false;
  closedir(tracer->sending);
  tracer->sending = NULL;
  return true;
}

static int make_file(const struct run_tracer *tracer, const struct run_frame *frame) {
  char path[PATH_BYTES];
  if (frame->bytes == 0 || *frame->data == '.' || memchr(frame->data, '/', frame->bytes)) return -1;
  snprintf(path, sizeof path, "%s/%.*s", tracer->directory, (int)frame->bytes, frame->data);
  return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

bool run_tracer_take(const struct run_tracer *tracer, const struct run_frame *frame, int *fd) {
  if (!tracer->directory) return false;
  if (frame->kind == RUN_TRACE_FILE) {
    if (*fd >= 0) close(*fd);
    return (*fd = make_file(tracer, frame)) >= 0;
  }
  return *fd >= 0 && pwrite(*fd, frame->data, frame->bytes, (off_t)frame->number * PART_BYTES) == (ssize_t)frame->bytes;
}

/* ---- the end ---- */

static void count_file(const char *path, const char *name, void *context) {
  (void)path, (void)name;
  ++*(uint32_t *)context;
}

int run_tracer_write(const struct run_tracer *tracer, const char *file) {
  const size_t length = strlen(file);
  const bool page = length > 5 && strcmp(file + length - 5, ".html") == 0;
  const char *const paths[] = {tracer->directory};
  struct trace_job job;
  uint32_t files = 0;
  visit_files(tracer, count_file, &files);
  if (files == 0)
    return cli_fail("run", CLI_FAILED, "--trace: no rank has recorded anything; expected a program that uses tutti");
  int code = trace_read("run", paths, 1, NULL, &job);
  if (code == CLI_GOOD) code = trace_write("run", &job, 0, DBL_MAX, page ? NULL : file, page ? file : NULL);
  if (code == CLI_GOOD && job.trace.rank_count < job.trace.ranks[0].head.ranks)
    fprintf(stderr, "tutti run: %s has the traces of %u of %u ranks\n", file, job.trace.rank_count,
            job.trace.ranks[0].head.ranks);
  trace_close(&job);
  return code;
}
