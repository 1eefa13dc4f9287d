/* many.c: measures the memory and time that ranks and communicators cost. tools/bench-many runs it as every rank of a
 * job:
 *
 *   many time|stages|communicators FILE
 *
 * FILE is empty; the ranks map it as shared memory. It holds a barrier, because a barrier of the library would open
 * channels, and the results of all ranks. Rank 0 prints the results: `time RANK INIT_NS FIRST_NS`, or for each stage
 * and rank `STAGE RANK PRIVATE SHARED BOUND TABLES CHANNELS FDS MAPPINGS`; memory is in bytes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "memory_bound.h"

enum {
  STAGES = 5,
  COMMUNICATORS = 64,
  SMALL_BYTES = 8,
  LARGE_BYTES = 1 << 20,
  BLOCK_BYTES = 64 << 10, /* length of the block for each rank in the alltoall */
};

struct sample {
  uint64_t private_bytes; /* resident private memory of the process */
  uint64_t shared_bytes;  /* allocated pages in this rank's slice of the shared memory */
  uint64_t bound_bytes;   /* upper bound of shared_bytes, computed from the open channels */
  uint64_t table_bytes;   /* size of the page tables */
  uint64_t channels, fds, mappings;
};

struct notes {
  uint64_t init_ns, first_ns;
  struct sample samples[STAGES];
};

struct table {
  _Atomic uint32_t arrived, rounds;
  struct notes ranks[];
};

struct many {
  uint32_t rank, ranks;
  struct table *table;
  tutti_comm *world;
  unsigned char *in, *out;
  tutti_comm *communicators[COMMUNICATORS];
  uint32_t stages;
};

static void must(const struct many *m, const tutti_comm *comm, tutti_err err, const char *what) {
  if (err == TUTTI_OK) return;
  fprintf(stderr, "many: rank %u: %s: %s\n", m->rank, what, tutti_error_message(comm));
  exit(1);
}

static void give_up(const char *what) {
  fprintf(stderr, "many: %s: %s\n", what, strerror(errno));
  exit(1);
}

static uint32_t read_number(const char *name) {
  const char *text = getenv(name);
  if (text) return (uint32_t)strtoul(text, NULL, 10);
  fprintf(stderr, "many: %s is not set; start the program with tutti run\n", name);
  exit(2);
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Barrier of all ranks. Waiting ranks sleep instead of polling, so that they take no CPU time from ranks being
 * timed. */
static void meet(const struct many *m) {
  struct table *t = m->table;
  uint32_t round = atomic_load(&t->rounds);
  if (atomic_fetch_add(&t->arrived, 1) + 1 == m->ranks) {
    atomic_store(&t->arrived, 0);
    atomic_store(&t->rounds, round + 1);
    syscall(SYS_futex, (uintptr_t)&t->rounds, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  }
  while (atomic_load(&t->rounds) == round) syscall(SYS_futex, (uintptr_t)&t->rounds, FUTEX_WAIT, round, NULL, NULL, 0);
}

/* ---- reading the memory use of the process ---- */

/* Returns the value of a line "NAME: NUMBER kB" in /proc/self/status, in bytes. */
static uint64_t status_bytes(const char *name) {
  char line[256];
  unsigned long long kib = 0;
  FILE *file = fopen("/proc/self/status", "r");
  if (!file) give_up("/proc/self/status");
  while (fgets(line, sizeof line, file))
    if (strncmp(line, name, strlen(name)) == 0) kib = strtoull(line + strlen(name) + 1, NULL, 10);
  fclose(file);
  return kib * 1024;
}

static uint64_t count_mappings(void) {
  uint64_t lines = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  if (!file) give_up("/proc/self/maps");
  for (int c; (c = getc(file)) != EOF;) lines += c == '\n';
  fclose(file);
  return lines;
}

/* Returns the number of open descriptors. *memory_fd: the library's own descriptor of the shared memory; -1: none. The
 * caller must not open another descriptor of that memory: closing it would release the library's locks. */
static uint64_t count_fds(int *memory_fd) {
  uint64_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) give_up("/proc/self/fd");
  *memory_fd = -1;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char target[64];
    if (entry->d_name[0] == '.') continue;
    count++;
    ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
    if (length > 0 && strncmp(target, "/memfd:tutti", tu_min((size_t)length, 12)) == 0)
      *memory_fd = (int)strtol(entry->d_name, NULL, 10);
  }
  closedir(folder);
  return count - 1; /* excluding the descriptor of the folder */
}

/* Returns the bytes of the allocated pages between two offsets of a file in memory. */
static uint64_t existing_bytes(int fd, off_t begin, off_t end) {
  uint64_t bytes = 0;
  while (begin < end) {
    off_t data = lseek(fd, begin, SEEK_DATA);
    if (data < 0 || data >= end) break;
    off_t hole = lseek(fd, data, SEEK_HOLE);
    if (hole < 0 || hole > end) hole = end;
    bytes += (uint64_t)(hole - data);
    begin = hole;
  }
  return bytes;
}

static void look(struct many *m, uint32_t stage) {
  meet(m);
  struct sample *s = &m->table->ranks[m->rank].samples[stage];
  int memory_fd;
  *s = (struct sample){.private_bytes = status_bytes("RssAnon"),
                       .table_bytes = status_bytes("VmPTE"),
                       .fds = count_fds(&memory_fd),
                       .mappings = count_mappings()};
  m->stages = stage + 1;
  if (m->world && memory_fd >= 0) {
    off_t slice = (off_t)m->world->transport->slice_bytes;
    s->shared_bytes = existing_bytes(memory_fd, (off_t)m->rank * slice, ((off_t)m->rank + 1) * slice);
    s->bound_bytes = MEMORY_HEAD_BYTES + memory_bound(m->world, &s->channels) + m->world->transport->resting_bytes;
    for (uint32_t i = 0; i < COMMUNICATORS; i++)
      if (m->communicators[i]) s->bound_bytes += memory_bound(m->communicators[i], &s->channels);
  }
  meet(m);
}

/* ---- the measurements ---- */

static void allreduce(const struct many *m, tutti_comm *comm, size_t bytes) {
  must(m, comm, tutti_allreduce(comm, m->in, m->out, bytes / sizeof(float), TUTTI_F32, TUTTI_SUM), "allreduce");
}

static void measure_time(struct many *m) {
  struct notes *notes = &m->table->ranks[m->rank];
  meet(m);
  uint64_t started = now_ns();
  must(m, NULL, tutti_init(NULL, &m->world), "init");
  uint64_t joined = now_ns();
  allreduce(m, m->world, SMALL_BYTES);
  notes->init_ns = joined - started;
  notes->first_ns = now_ns() - joined;
}

static void measure_stages(struct many *m) {
  look(m, 0);
  must(m, NULL, tutti_init(NULL, &m->world), "init");
  look(m, 1);
  allreduce(m, m->world, SMALL_BYTES);
  look(m, 2);
  allreduce(m, m->world, LARGE_BYTES);
  look(m, 3);
  must(m, m->world, tutti_alltoall(m->world, m->in, m->out, BLOCK_BYTES, TUTTI_U8), "alltoall");
  look(m, 4);
}

static void use_communicators(struct many *m, uint32_t stage) {
  for (uint32_t i = 0; i < COMMUNICATORS; i++) {
    must(m, m->world, tutti_comm_dup(m->world, &m->communicators[i]), "dup");
    allreduce(m, m->communicators[i], LARGE_BYTES);
  }
  look(m, stage);
  for (uint32_t i = 0; i < COMMUNICATORS; i++) {
    must(m, m->communicators[i], tutti_comm_free(m->communicators[i]), "free");
    m->communicators[i] = NULL;
  }
}

static void measure_communicators(struct many *m) {
  must(m, NULL, tutti_init(NULL, &m->world), "init");
  allreduce(m, m->world, LARGE_BYTES);
  look(m, 0);
  use_communicators(m, 1);
  look(m, 2);
  use_communicators(m, 3); /* a second time, to show that freed memory is reused */
  look(m, 4);
}

static const struct mode {
  const char *name;
  void (*measure)(struct many *m);
  bool large; /* needs buffers for the large collectives */
  const char *stages[STAGES];
} modes[] = {
    {"time", measure_time, false, {NULL}},
    {"stages", measure_stages, true, {"start", "init", "allreduce_8", "allreduce_1M", "alltoall_64K"}},
    {"communicators", measure_communicators, true, {"before", "held", "freed", "held_again", "freed_again"}},
};

static void print(const struct many *m, const struct mode *mode) {
  for (uint32_t rank = 0; rank < m->ranks; rank++) {
    const struct notes *notes = &m->table->ranks[rank];
    if (m->stages == 0)
      printf("%s %u %llu %llu\n", mode->name, rank, (unsigned long long)notes->init_ns,
             (unsigned long long)notes->first_ns);
    for (uint32_t stage = 0; stage < m->stages; stage++) {
      const struct sample *s = &notes->samples[stage];
      const uint64_t columns[] = {s->private_bytes, s->shared_bytes, s->bound_bytes, s->table_bytes,
                                  s->channels,      s->fds,          s->mappings};
      printf("%s %u", mode->stages[stage], rank);
      for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) printf(" %llu", (unsigned long long)columns[i]);
      printf("\n");
    }
  }
}

/* Allocates a buffer and writes to it before the measurements, so that its pages are not counted for the library. */
static void *make_buffer(const struct many *m, bool large) {
  size_t bytes = large ? tu_max(LARGE_BYTES, (size_t)BLOCK_BYTES * m->ranks) : SMALL_BYTES;
  void *buffer = malloc(bytes);
  if (!buffer) give_up("allocation of the buffers");
  return memset(buffer, 1, bytes);
}

static void share_table(struct many *m, const char *path) {
  size_t bytes = sizeof *m->table + m->ranks * sizeof m->table->ranks[0];
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) give_up(path);
  m->table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (m->table == MAP_FAILED) give_up(path);
  close(fd);
}

int main(int argc, char **argv) {
  const struct mode *mode = NULL;
  for (size_t i = 0; argc == 3 && i < sizeof modes / sizeof modes[0]; i++)
    if (strcmp(argv[1], modes[i].name) == 0) mode = &modes[i];
  if (!mode) {
    fprintf(stderr, "usage: many time|stages|communicators FILE (run as every rank of a job)\n");
    return 2;
  }
  struct many m = {.rank = read_number("TUTTI_RANK"), .ranks = read_number("TUTTI_WORLD_SIZE")};
  share_table(&m, argv[2]);
  m.in = make_buffer(&m, mode->large);
  m.out = make_buffer(&m, mode->large);
  mode->measure(&m);
  meet(&m);
  if (m.rank == 0) print(&m, mode);
  must(&m, m.world, tutti_comm_free(m.world), "free");
  free(m.in);
  free(m.out);
  return 0;
}
