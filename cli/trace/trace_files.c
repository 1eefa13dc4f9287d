/* trace_files.c: reads the traces of the ranks of one job, and writes what they tell as a timeline. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/trace/trace.h"
#include "draw/draw_timeline.h"
#include "trace/line.h"

struct files {
  char **names;
  uint32_t count, capacity;
};

static void add_name(struct files *f, const char *directory, const char *name) {
  char *path = NULL;
  if (asprintf(&path, "%s%s%s", directory ? directory : "", directory ? "/" : "", name) < 0) path = NULL;
  if (!path) tu_memory_ends(1, strlen(name));
  f->names = tu_grow(f->names, f->count, &f->capacity, sizeof *f->names);
  f->names[f->count++] = path;
}

static bool is_trace(const char *name) {
  const size_t length = strlen(name);
  return strncmp(name, "tutti-", 6) == 0 && length > 6 && strcmp(name + length - 6, ".trace") == 0;
}

static int find_files(const char *verb, const char *path, struct files *f) {
  const uint32_t before = f->count;
  struct stat status;
  if (stat(path, &status) != 0) return cli_fail(verb, CLI_FAILED, "%s: %s", path, strerror(errno));
  if (!S_ISDIR(status.st_mode)) {
    add_name(f, NULL, path);
    return CLI_GOOD;
  }
  DIR *directory = opendir(path);
  if (!directory) return cli_fail(verb, CLI_FAILED, "%s: %s", path, strerror(errno));
  for (struct dirent *entry; (entry = readdir(directory));)
    if (is_trace(entry->d_name)) add_name(f, path, entry->d_name);
  closedir(directory);
  if (f->count > before) return CLI_GOOD;
  return cli_fail(verb, CLI_FAILED,
                  "%s: expected a directory with traces (tutti-JOB-RANK.trace), which programs write if TUTTI_TRACE=%s "
                  "is set; found none",
                  path, path);
}

/* Returns true for the file of a rank that was killed before it had written the head. */
static bool is_unborn(const char *data, size_t bytes) {
  for (size_t i = 0; i < sizeof TU_TRACE_MAGIC && i < bytes; i++)
    if (data[i] != '\0') return false;
  return true;
}

/* *unborn: there is nothing in the file. */
static int read_file(const char *verb, const char *name, struct tu_traced_rank *rank, bool *unborn) {
  struct stat status = {0};
  struct tu_error error;
  const int fd = open(name, O_RDONLY | O_CLOEXEC);
  int code = CLI_GOOD;
  *rank = (struct tu_traced_rank){0};
  if (fd < 0 || fstat(fd, &status) != 0) code = cli_fail(verb, CLI_FAILED, "%s: %s", name, strerror(errno));
  else if (!S_ISREG(status.st_mode)) code = cli_fail(verb, CLI_FAILED, "%s: expected a regular file", name);
  const size_t bytes = code == CLI_GOOD ? (size_t)status.st_size : 0;
  void *data = bytes > 0 ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
  if (data == MAP_FAILED) code = cli_fail(verb, CLI_FAILED, "%s: %s", name, strerror(errno));
  *unborn = code == CLI_GOOD && is_unborn(data, bytes);
  if (code == CLI_GOOD && !*unborn && tu_traced_read(data, bytes, name, rank, &error) != TUTTI_OK)
    code = cli_fail(verb, CLI_FAILED, "%s", error.text);
  if (data && data != MAP_FAILED) munmap(data, bytes);
  if (fd >= 0) close(fd);
  return code;
}

/* ---- which job ---- */

static int choose_job(const char *verb, const struct tu_traced_rank ranks[], uint32_t count, const char *id,
                      uint64_t *job) {
  int64_t latest = INT64_MIN;
  char *end = NULL;
  const uint64_t wanted = id ? strtoull(id, &end, 16) : 0;
  bool found = !id;
  if (id && (*id == '\0' || *end != '\0'))
    return cli_fail(verb, CLI_USAGE,
                    "--job is '%s'; expected the number in the names of the files: tutti-JOB-RANK.trace", id);
  for (uint32_t i = 0; i < count; i++) {
    const int64_t began = (int64_t)((uint64_t)ranks[i].head.wall_ns + ranks[i].head.began_ns);
    found = found || ranks[i].head.job == wanted;
    if (!id && began > latest) latest = began, *job = ranks[i].head.job;
  }
  if (id) *job = wanted;
  return found ? CLI_GOOD : cli_fail(verb, CLI_FAILED, "--job: there is no trace of job %s", id);
}

/* Keeps the traces of one job, and one for each rank. Returns how many there are. */
static uint32_t keep_job(struct tu_traced_rank ranks[], uint32_t count, struct trace_job *job) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++) {
    bool wanted = ranks[i].head.job == job->id;
    for (uint32_t k = 0; k < kept; k++) wanted = wanted && ranks[k].head.rank != ranks[i].head.rank;
    job->others += ranks[i].head.job != job->id;
    if (wanted) ranks[kept++] = ranks[i];
    else tu_traced_fini(&ranks[i]);
  }
  return kept;
}

/* A rank that is not killed writes its ranks; a file of another size of the job is not of it. */
static int check_job(const char *verb, const struct trace_job *job) {
  const struct tu_trace *t = &job->trace;
  for (uint32_t r = 1; r < t->rank_count; r++)
    if (t->ranks[r].head.ranks != t->ranks[0].head.ranks)
      return cli_fail(verb, CLI_FAILED, "the traces of ranks %u and %u are of jobs of %u and of %u ranks",
                      t->ranks[0].head.rank, t->ranks[r].head.rank, t->ranks[0].head.ranks, t->ranks[r].head.ranks);
  return CLI_GOOD;
}

static void find_times(struct trace_job *job) {
  const struct tu_trace *t = &job->trace;
  job->begin_s = HUGE_VAL, job->end_s = -HUGE_VAL;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    job->lost += t->ranks[r].lost;
    job->unread += t->ranks[r].unread;
    for (uint32_t c = 0; c < t->ranks[r].call_count; c++) {
      job->begin_s = fmin(job->begin_s, tu_trace_time(t, r, t->ranks[r].calls[c].begin_ns));
      job->end_s = fmax(job->end_s, tu_trace_time(t, r, t->ranks[r].calls[c].end_ns));
    }
  }
  if (job->begin_s > job->end_s) job->begin_s = job->end_s = 0;
}

int trace_read(const char *verb, const char *const paths[], uint32_t count, const char *id, struct trace_job *job) {
  struct files files = {0};
  int code = CLI_GOOD;
  uint32_t read = 0;
  *job = (struct trace_job){0};
  for (uint32_t i = 0; i < count && code == CLI_GOOD; i++) code = find_files(verb, paths[i], &files);
  struct tu_traced_rank *ranks = tu_allocate(files.count, sizeof *ranks);
  for (uint32_t i = 0; i < files.count && code == CLI_GOOD; i++) {
    bool unborn;
    code = read_file(verb, files.names[i], &ranks[read], &unborn);
    if (code == CLI_GOOD && !unborn) read++;
  }
  if (code == CLI_GOOD && read == 0)
    code = cli_fail(verb, CLI_FAILED, "%s: the ranks were killed before they had recorded anything", paths[0]);
  if (code == CLI_GOOD) code = choose_job(verb, ranks, read, id, &job->id);
  for (uint32_t i = 0; i < files.count; i++) free(files.names[i]);
  free(files.names);
  if (code != CLI_GOOD) {
    for (uint32_t i = 0; i < read; i++) tu_traced_fini(&ranks[i]);
    free(ranks);
    return code;
  }
  tu_trace_join(ranks, keep_job(ranks, read, job), &job->trace);
  if ((code = check_job(verb, job)) != CLI_GOOD) return code;
  find_times(job);
  tu_trace_sum(&job->trace, &job->sums);
  tu_trace_path(&job->trace, &job->path);
  return CLI_GOOD;
}

void trace_close(struct trace_job *job) {
  tu_traced_path_fini(&job->path);
  tu_traced_sums_fini(&job->sums);
  tu_trace_fini(&job->trace);
  free(job->predicted_s);
}

/* ---- the timeline ---- */

int trace_write(const char *verb, const struct trace_job *job, double from_s, double until_s, const char *trace,
                const char *page) {
  struct tu_traced_line line;
  const struct tu_grid grid = {0};
  char title[200], words[80];
  int code = CLI_GOOD;
  tu_trace_line(&job->trace, &job->path, job->begin_s + from_s, job->begin_s + until_s, &line);
  struct tu_ring ring = {.kind = TU_APART, .order = tu_allocate(line.ranks, sizeof *ring.order)};
  for (uint32_t i = 0; i < line.ranks; i++) ring.order[i] = i; /* the picture has the ranks on a circle */
  snprintf(title, sizeof title, "Job %016llx: %u ranks on %u host%s", (unsigned long long)job->id, line.ranks,
           job->trace.host_count, job->trace.host_count == 1 ? "" : "s");
  snprintf(words, sizeof words, "%u messages between %u pairs of ranks", line.timeline.crossing_count,
           line.cluster->link_count);
  const struct tu_draw_timeline what = {
      .cluster = {.cluster = line.cluster, .grid = &grid, .ring = &ring, .title = title, .words = words},
      .timeline = &line.timeline,
      .ranks = line.ranks,
      .places = (const char *const *)line.places};
  void (*const draw[])(const struct tu_draw_timeline *, struct tu_text *) = {tu_draw_timeline_trace,
                                                                             tu_draw_timeline_html};
  const char *const names[] = {trace, page};
  for (int i = 0; i < 2 && code == CLI_GOOD; i++) {
    struct tu_text text = {0};
    if (!names[i]) continue;
    draw[i](&what, &text);
    code = cli_write_text(verb, names[i], &text);
    tu_text_fini(&text);
  }
  tu_ring_fini(&ring);
  tu_traced_line_fini(&line);
  return code;
}
