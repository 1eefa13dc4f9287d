/* segment.c: finds and maps the shared memory of jobs, for a reader that is no rank. */
#include "sight/segment.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sight/plate.h"

#define LINK "/memfd:tutti (deleted)" /* what /proc/PID/fd says of the memory of shm_memory.c */
enum { GENERATIONS = 64 };            /* ancestors that are looked at */

/* ---- processes ---- */

bool tu_process_descends(pid_t pid, pid_t ancestor) {
  struct tu_life_line line;
  for (int i = 0; i < GENERATIONS && pid > 1; i++) {
    if (pid == ancestor) return true;
    if (!tu_life_read((uint32_t)pid, &line)) return false;
    pid = (pid_t)line.parent;
  }
  return false;
}

static bool is_mine(pid_t pid) {
  char path[32];
  struct stat status;
  snprintf(path, sizeof path, "/proc/%d", (int)pid);
  return stat(path, &status) == 0 && status.st_uid == geteuid();
}

/* ---- one segment ---- */

/* Reads the plate of any rank that has one. */
static bool read_plates(struct tu_segment *s, const struct tu_plate *first) {
  if (first->layout != tu_plate_layout() || first->here == 0 || first->slice_bytes < TU_HEAD_BYTES) return false;
  size_t bytes;
  if (!tu_multiply((size_t)first->slice_bytes, first->here, &bytes) || bytes != s->bytes) return false;
  s->slice_bytes = (size_t)first->slice_bytes;
  s->here = first->here;
  s->ranks = first->ranks;
  s->id = first->job;
  return first->ranks >= first->here;
}

bool tu_segment_map(int fd, struct tu_segment *segment) {
  struct stat status;
  *segment = (struct tu_segment){0};
  const int seals = fcntl(fd, F_GET_SEALS); /* a file that shrank would kill the reader */
  if (seals < 0 || !(seals & F_SEAL_SHRINK)) return false;
  if (fstat(fd, &status) != 0 || status.st_size < (off_t)TU_HEAD_BYTES) return false;
  void *base = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) return false;
  segment->device = status.st_dev;
  segment->inode = status.st_ino;
  segment->base = base;
  segment->bytes = (size_t)status.st_size;
  struct tu_plate *plate = base; /* rank 0 of the segment creates it, and joins it first */
  if (atomic_load_explicit(&plate->magic, memory_order_acquire) == TU_PLATE_MAGIC && read_plates(segment, plate))
    return true;
  tu_segment_unmap(segment);
  return false;
}

void tu_segment_unmap(struct tu_segment *s) {
  if (s->base) munmap(s->base, s->bytes);
  free(s->holders);
  s->base = NULL;
  s->holders = NULL;
}

/* ---- all segments ---- */

/* While the processes are searched. */
struct search {
  struct tu_segments *segments;
  struct {
    uint64_t device, inode;
  } * unread; /* segments that cannot be read: counted once */
  uint32_t unread_count;
  bool out_of_memory;
};

static void *grow(struct search *search, void *list, uint32_t count, size_t bytes) {
  if (count & (count - 1)) return list; /* it has room up to the next power of two */
  void *longer = realloc(list, (count ? 2 * (size_t)count : 1) * bytes);
  search->out_of_memory |= !longer;
  return longer ? longer : list;
}

static void add_holder(struct search *search, struct tu_segment *s, pid_t pid) {
  if (s->holder_count > 0 && s->holders[s->holder_count - 1] == pid) return;
  s->holders = grow(search, s->holders, s->holder_count, sizeof *s->holders);
  if (!search->out_of_memory) s->holders[s->holder_count++] = pid;
}

static void note_unread(struct search *search, const struct stat *status, int fd) {
  for (uint32_t i = 0; i < search->unread_count; i++)
    if (search->unread[i].device == status->st_dev && search->unread[i].inode == status->st_ino) return;
  search->unread = grow(search, search->unread, search->unread_count, sizeof *search->unread);
  if (search->out_of_memory) return;
  search->unread[search->unread_count].device = status->st_dev;
  search->unread[search->unread_count++].inode = status->st_ino;
  uint64_t magic = 0;
  const bool has_plate = pread(fd, &magic, sizeof magic, 0) == (ssize_t)sizeof magic && magic == TU_PLATE_MAGIC;
  if (has_plate) search->segments->foreign++;
  else search->segments->unready++;
}

/* A process has the shared memory of a job open: `path` is the descriptor. */
static void take_descriptor(struct search *search, pid_t pid, const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) return;
  struct tu_segments *segments = search->segments;
  for (uint32_t i = 0; i < segments->count; i++)
    if (segments->list[i].device == status.st_dev && segments->list[i].inode == status.st_ino) {
      add_holder(search, &segments->list[i], pid);
      return;
    }
  struct tu_segment found;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return;
  if (!tu_segment_map(fd, &found)) {
    note_unread(search, &status, fd);
  } else {
    segments->list = grow(search, segments->list, segments->count, sizeof *segments->list);
    if (search->out_of_memory) tu_segment_unmap(&found);
    else segments->list[segments->count++] = found, add_holder(search, &segments->list[segments->count - 1], pid);
  }
  close(fd);
}

static void search_process(struct search *search, pid_t pid) {
  char folder[32], path[300], target[sizeof LINK + 1];
  snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
  DIR *fds = opendir(folder);
  if (!fds) return; /* it has ended, or belongs to another user */
  for (const struct dirent *entry; (entry = readdir(fds)) && !search->out_of_memory;) {
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    const ssize_t n = readlink(path, target, sizeof target);
    if (n == (ssize_t)sizeof LINK - 1 && memcmp(target, LINK, sizeof LINK - 1) == 0) take_descriptor(search, pid, path);
  }
  closedir(fds);
}

static bool is_rank(const struct tu_segment *s, pid_t pid) {
  for (uint32_t i = 0; i < s->here; i++)
    if (tu_segment_has(s, i) && (pid_t)tu_segment_head(s, i)->plate.pid == pid) return true;
  return false;
}

/* Returns true if the process runs the command `tutti`. Another holder that is no rank is a child of one. */
static bool is_command(pid_t pid) {
  char path[32], name[16] = "";
  snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
  FILE *file = fopen(path, "re");
  const bool read = file && fgets(name, sizeof name, file);
  if (file) fclose(file);
  return read && strcmp(name, "tutti\n") == 0;
}

/* Returns the launcher that started an agent on this host; the process itself if there is none. */
static pid_t outermost(pid_t pid) {
  struct tu_life_line line;
  pid_t launcher = pid;
  for (int i = 0; i < GENERATIONS && pid > 1 && tu_life_read((uint32_t)pid, &line); i++) {
    pid = (pid_t)line.parent;
    if (is_command(pid)) launcher = pid;
  }
  return launcher;
}

static bool belongs(const struct tu_segment *s, pid_t pid) {
  for (uint32_t i = 0; i < s->here; i++)
    if (tu_segment_has(s, i) && (is_rank(s, pid) || tu_process_descends((pid_t)tu_segment_head(s, i)->plate.pid, pid)))
      return true;
  for (uint32_t i = 0; i < s->holder_count; i++)
    if (tu_process_descends(s->holders[i], pid)) return true;
  return false;
}

static int by_number(const void *a, const void *b) {
  return (*(const pid_t *)a > *(const pid_t *)b) - (*(const pid_t *)a < *(const pid_t *)b);
}

/* Removes the segments that do not belong to the process, and finds the launchers of the others. */
static void sift(struct tu_segments *segments, pid_t only) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < segments->count; i++) {
    struct tu_segment *s = &segments->list[i];
    qsort(s->holders, s->holder_count, sizeof *s->holders, by_number);
    for (uint32_t k = 0; k < s->holder_count && !s->launcher; k++)
      if (!is_rank(s, s->holders[k]) && is_command(s->holders[k])) s->launcher = outermost(s->holders[k]);
    if (only == 0 || belongs(s, only)) segments->list[kept++] = *s;
    else tu_segment_unmap(s);
  }
  segments->count = kept;
}

tutti_err tu_segments_find(pid_t only, struct tu_segments *segments, struct tu_error *error) {
  *segments = (struct tu_segments){0};
  struct search search = {.segments = segments};
  DIR *processes = opendir("/proc");
  if (!processes) return tu_fail_errno(error, "cannot read /proc, where the processes of this host are found");
  for (const struct dirent *entry; (entry = readdir(processes)) && !search.out_of_memory;) {
    const pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;
    if (pid > 0 && pid != getpid() && is_mine(pid)) search_process(&search, pid);
  }
  closedir(processes);
  free(search.unread);
  if (search.out_of_memory) return tu_fail_memory(error, sizeof *segments->list, "the list of jobs");
  sift(segments, only);
  return TUTTI_OK;
}

void tu_segments_fini(struct tu_segments *segments) {
  for (uint32_t i = 0; i < segments->count; i++) tu_segment_unmap(&segments->list[i]);
  free(segments->list);
  *segments = (struct tu_segments){0};
}
