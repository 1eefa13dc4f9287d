/* transport_test.c: tests the allocator of a slice against a model, and registered memory. Also tests that
 * a process counts as alive as long as its memory exists, whatever it does with its descriptors. */
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test.h"

static void memory_comes_and_goes(void) {
  struct tu_transport *t[2];
  struct tu_error error = {0};
  tu_assert(tu_loop_create(2, 1 << 20, t, &error) == TUTTI_OK);
  uint64_t first, second, again;
  CHECK(tu_transport_acquire(t[0], 100, &first, &error) && first == TU_HEAD_BYTES, "rank 0's first offset");
  CHECK(tu_transport_acquire(t[1], 5000, &second, &error) && second >= (1 << 20), "rank 1 allocates in its own slice");
  CHECK(tu_transport_at(t[0], second) == tu_transport_at(t[1], second), "an offset is the same on all ranks");
  CHECK(tu_transport_release(t[1], second), "it was there");
  CHECK(tu_transport_acquire(t[1], 8000, &again, &error) && again == second, "what was released is used again");
  CHECK(!tu_transport_acquire(t[0], 1 << 20, &again, &error), "a slice has an end");
  CHECK(error.code == TUTTI_ERR_MEMORY && strstr(error.text, "TUTTI_SHM_BYTES"), "'%s' says what to do", error.text);
  CHECK(tu_transport_alive(t[0], 1), "rank 1 lives");
  tu_loop_kill(t[1]);
  CHECK(!tu_transport_alive(t[0], 1) && tu_transport_alive(t[0], 0), "rank 1 was killed");
  t[0]->ops->close(t[0]);
  t[1]->ops->close(t[1]);
}

/* ---- the allocator against a model: ranges acquired and released in any order ---- */

enum { HELD_MAX = 96, MODEL_SLICE = 40 << 20 };

struct held {
  uint64_t offset, bytes;
};

struct model {
  struct tu_transport *t;
  uint64_t begin, end; /* offsets of the slice */
  struct held held[HELD_MAX];
  uint32_t held_count;
  uint64_t seed;
};

static bool overlaps(const struct model *m, uint64_t offset, uint64_t bytes) {
  for (uint32_t i = 0; i < m->held_count; i++)
    if (offset < m->held[i].offset + m->held[i].bytes && m->held[i].offset < offset + bytes) return true;
  return false;
}

/* Returns true if `bytes` bytes fit anywhere. If so, they also fit right after a range in use, or at the beginning. */
static bool fits(const struct model *m, uint64_t bytes, uint64_t align) {
  for (uint32_t i = 0; i <= m->held_count; i++) {
    uint64_t after = i < m->held_count ? m->held[i].offset + m->held[i].bytes : m->begin;
    uint64_t offset = tu_round_up(after, align);
    if (offset + bytes <= m->end && !overlaps(m, offset, bytes)) return true;
  }
  return false;
}

/* Draws short and long lengths, and lengths whose end or alignment is near a boundary. */
static size_t draw_bytes(uint64_t *seed) {
  uint64_t r = tu_random(seed);
  switch (r % 8) {
    case 0: return TU_LARGE_PAGE + r / 8 % 3 - 1;
    case 1: return TU_LARGE_PAGE + r / 8 % (3 * TU_LARGE_PAGE);
    case 2: return r / 8 % 3 * 4096 + r / 32 % 3;
    case 3: return r / 8 % TU_LARGE_PAGE;
    default: return r / 8 % 65536;
  }
}

static void take_one(struct model *m) {
  struct tu_error error = {0};
  size_t bytes = draw_bytes(&m->seed);
  uint64_t offset = 0, whole = tu_round_up(tu_max(bytes, 1), 4096);
  uint64_t align = whole >= TU_LARGE_PAGE ? TU_LARGE_PAGE : 4096;
  bool fit = fits(m, whole, align);
  const void *memory = tu_transport_acquire(m->t, bytes, &offset, &error);
  CHECK((memory != NULL) == fit, "%zu bytes: %s, but %s", bytes, memory ? "given" : "refused",
        fit ? "there is room" : "there is no room");
  if (!memory) {
    CHECK(error.code == TUTTI_ERR_MEMORY && strstr(error.text, "TUTTI_SHM_BYTES"), "'%s'", error.text);
    return;
  }
  CHECK(memory == tu_transport_at(m->t, offset), "the address is another offset's");
  CHECK(offset % align == 0, "%zu bytes lie at %llu", bytes, (unsigned long long)offset);
  CHECK(offset >= m->begin && offset + whole <= m->end, "%zu bytes lie outside of the slice", bytes);
  CHECK(!overlaps(m, offset, whole), "%zu bytes at %llu lie in what is in use", bytes, (unsigned long long)offset);
  m->held[m->held_count++] = (struct held){offset, whole};
}

static void give_one(struct model *m) {
  uint32_t i = (uint32_t)(tu_random(&m->seed) % m->held_count);
  struct held h = m->held[i];
  if (h.bytes > 4096) CHECK(!tu_transport_release(m->t, h.offset + 4096), "its middle was released");
  CHECK(tu_transport_release(m->t, h.offset), "%llu is in use", (unsigned long long)h.offset);
  CHECK(!tu_transport_release(m->t, h.offset), "%llu was released twice", (unsigned long long)h.offset);
  m->held[i] = m->held[--m->held_count];
}

static void a_slice_gives_and_takes(void) {
  struct tu_transport *t[2];
  struct tu_error error;
  tu_assert(tu_loop_create(2, MODEL_SLICE, t, &error) == TUTTI_OK);
  struct model m = {.t = t[1], .begin = MODEL_SLICE + TU_HEAD_BYTES, .end = 2 * MODEL_SLICE, .seed = test_seed()};
  CHECK(!tu_transport_release(t[1], m.begin) && !tu_transport_release(t[1], 0), "nothing was acquired there");
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < 1500; i++) {
      bool take = m.held_count == 0 || (m.held_count < HELD_MAX && tu_random(&m.seed) % 100 < 55);
      if (take) take_one(&m);
      else give_one(&m);
    }
    CHECK(m.held_count == 0 || !tu_transport_release(t[0], m.held[0].offset), "another rank's was released");
    while (m.held_count > 0) give_one(&m);
    CHECK(t[1]->resting_bytes <= TU_REST_BYTES_MAX, "round %d: %zu bytes rest", round, t[1]->resting_bytes);
    CHECK(tu_transport_free_bytes(t[1]) == MODEL_SLICE - TU_HEAD_BYTES, "round %d: some bytes are not free", round);
    tu_transport_trim(t[1]);
    const struct tu_range *all = t[1]->ranges;
    CHECK(!all->next && !all->used && all->offset == m.begin && all->offset + all->bytes == m.end,
          "round %d: the free memory is not one range again", round);
    CHECK(all == t[1]->free_ranges && !all->chain, "round %d: it is not in the list of free ones", round);
  }
  t[0]->ops->close(t[0]);
  t[1]->ops->close(t[1]);
}

/* A request is refused if it is as long as the slice, or so long that rounding it up to pages would overflow. */
static void too_much_is_refused(void) {
  struct tu_transport *t;
  struct tu_error error;
  tu_assert(tu_loop_create(1, 1 << 20, &t, &error) == TUTTI_OK);
  const size_t lengths[] = {SIZE_MAX, SIZE_MAX - 4094, SIZE_MAX - 4095, SIZE_MAX / 2, 1 << 20, (1 << 20) - 4095};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    uint64_t offset = 0;
    error = (struct tu_error){0};
    CHECK(!tu_transport_acquire(t, lengths[i], &offset, &error), "%zu bytes were given", lengths[i]);
    CHECK(error.code == TUTTI_ERR_MEMORY, "%zu bytes: '%s'", lengths[i], error.text);
  }
  CHECK(!t->ranges->next && !t->ranges->used, "something is in use");
  t->ops->close(t);
}

/* ---- the user's memory ---- */

enum { PAGES = 12, PAGE = 4096, SHM_SLICE = 16 << 20 };

/* Creates the shm endpoints of two ranks in this process, so that the test can read registered memory as the peer. */
static void create_pair(struct tu_transport *t[2]) {
  struct tu_error error;
  int fd = memfd_create("test", MFD_CLOEXEC);
  tu_assert(fd >= 0 && ftruncate(fd, 2 * (off_t)SHM_SLICE) == 0);
  tu_assert(tu_shm_create(0, 2, fcntl(fd, F_DUPFD_CLOEXEC, 0), SHM_SLICE, &t[0], &error) == TUTTI_OK);
  tu_assert(tu_shm_create(1, 2, fd, SHM_SLICE, &t[1], &error) == TUTTI_OK);
}

static unsigned char *map_pages(size_t bytes) {
  unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  tu_assert(memory != MAP_FAILED);
  return memory;
}

static unsigned char pattern(size_t i, unsigned salt) { return (unsigned char)(i * 31 + (i >> 12) * 7 + salt); }
static void fill(unsigned char *memory, size_t bytes, unsigned salt) {
  for (size_t i = 0; i < bytes; i++) memory[i] = pattern(i, salt);
}
static size_t count_wrong(const unsigned char *memory, size_t bytes, unsigned salt) {
  size_t wrong = 0;
  for (size_t i = 0; i < bytes; i++) wrong += memory[i] != pattern(i, salt);
  return wrong;
}

static bool is_all_free(struct tu_transport *t) {
  tu_transport_trim(t);
  return !t->ranges->next && !t->ranges->used;
}

static void registered_memory_is_seen(void) {
  struct tu_transport *t[2];
  struct tu_error error;
  create_pair(t);
  unsigned char *memory = map_pages(PAGES * PAGE), *middle = memory + 3 * PAGE;
  fill(memory, PAGES * PAGE, 1);
  CHECK(tu_transport_offset(t[0], middle) == 0, "it is this process's own");
  CHECK(tu_transport_register(t[0], middle, 5 * PAGE, &error) == TUTTI_OK, "%s", error.text);
  CHECK(count_wrong(memory, PAGES * PAGE, 1) == 0, "registering has changed the content");
  uint64_t offset = tu_transport_offset(t[0], middle);
  CHECK(offset != 0 && tu_transport_offset(t[0], middle + 5 * PAGE - 1) == offset + 5 * PAGE - 1,
        "any part of it will do");
  CHECK(!tu_transport_offset(t[0], middle - 1) && !tu_transport_offset(t[0], middle + 5 * PAGE),
        "nothing beside it is");
  unsigned char *seen = tu_transport_at(t[1], offset);
  CHECK(memcmp(seen, middle, 5 * PAGE) == 0, "the peer sees something else");
  middle[7] = 201;
  seen[4 * PAGE] = 202;
  CHECK(seen[7] == 201 && middle[4 * PAGE] == 202, "what one writes the other does not see");
  CHECK(tu_transport_deregister(t[0], middle + PAGE, &error) == TUTTI_ERR_ARGUMENT, "of its middle: '%s'", error.text);
  CHECK(tu_transport_deregister(t[1], middle, &error) == TUTTI_ERR_ARGUMENT, "of another rank: '%s'", error.text);
  CHECK(tu_transport_deregister(t[0], middle, &error) == TUTTI_OK, "%s", error.text);
  CHECK(middle[7] == 201 && middle[4 * PAGE] == 202, "deregistering has lost what was written");
  CHECK(!tu_transport_offset(t[0], middle), "it is still shared");
  middle[7] = pattern(3 * PAGE + 7, 1), middle[4 * PAGE] = pattern(7 * PAGE, 1);
  CHECK(count_wrong(memory, PAGES * PAGE, 1) == 0, "deregistering has changed the content");
  CHECK(tu_transport_deregister(t[0], middle, &error) == TUTTI_ERR_ARGUMENT, "twice: '%s'", error.text);
  CHECK(is_all_free(t[0]), "its room was not given back");
  t[0]->ops->close(t[0]);
  t[1]->ops->close(t[1]);
  munmap(memory, PAGES * PAGE);
}

/* Registers several ranges and deregisters them in all orders. One range is longer than a large page. */
static void several_are_registered(void) {
  struct tu_transport *t[2];
  struct tu_error error;
  create_pair(t);
  unsigned char *memory[3];
  const size_t bytes[3] = {PAGE, 5 * PAGE, (5 << 20) + PAGE};
  for (int i = 0; i < 3; i++) fill(memory[i] = map_pages(bytes[i]), bytes[i], (unsigned)i);
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (int k = 0; k < 6; k++) {
    for (int i = 0; i < 3; i++)
      CHECK(tu_transport_register(t[1], memory[i], bytes[i], &error) == TUTTI_OK, "%s", error.text);
    for (int i = 0; i < 3; i++) {
      const unsigned char *seen = tu_transport_at(t[0], tu_transport_offset(t[1], memory[i]));
      CHECK(count_wrong(seen, bytes[i], (unsigned)i) == 0, "order %d: the peer does not see number %d", k, i);
    }
    for (int i = 0; i < 3; i++) {
      int which = orders[k][i];
      CHECK(tu_transport_deregister(t[1], memory[which], &error) == TUTTI_OK, "order %d: %s", k, error.text);
      for (int m = 0; m < 3; m++)
        CHECK(count_wrong(memory[m], bytes[m], (unsigned)m) == 0, "order %d: number %d changed", k, m);
    }
    CHECK(is_all_free(t[1]), "order %d: some room was not given back", k);
  }
  unsigned char *large = map_pages(2 * (size_t)SHM_SLICE);
  large[SHM_SLICE] = 9;
  CHECK(tu_transport_register(t[1], large, 2 * (size_t)SHM_SLICE, &error) == TUTTI_ERR_MEMORY, "twice a slice");
  CHECK(large[SHM_SLICE] == 9 && !tu_transport_offset(t[1], large), "it is not as it was");
  munmap(large, 2 * (size_t)SHM_SLICE);
  for (int i = 0; i < 3; i++) munmap(memory[i], bytes[i]);
  t[0]->ops->close(t[0]);
  t[1]->ops->close(t[1]);
}

/* Registering and deregistering leaks nothing, neither in the slice nor on the heap: list entries are reused. */
static void registering_takes_nothing(void) {
  struct tu_transport *t[2];
  struct tu_error error;
  create_pair(t);
  unsigned char *memory[2] = {map_pages(PAGE), map_pages(3 * PAGE)};
  size_t free_bytes = tu_transport_free_bytes(t[0]);
  for (int i = 0; i < 200; i++) {
    for (int k = 0; k < 2; k++)
      CHECK(tu_transport_register(t[0], memory[k], (k ? 3 : 1) * PAGE, &error) == TUTTI_OK, "%s", error.text);
    for (int k = 0; k < 2; k++)
      CHECK(tu_transport_deregister(t[0], memory[(i + k) % 2], &error) == TUTTI_OK, "%s", error.text);
  }
  int kept = 0;
  for (const struct tu_registered *r = t[0]->retired; r; r = r->next) kept++;
  CHECK(kept == 2, "%d entries are kept of 2 at a time", kept);
  CHECK(tu_transport_free_bytes(t[0]) == free_bytes, "%zu bytes are free, of %zu before", tu_transport_free_bytes(t[0]),
        free_bytes);
  for (int i = 0; i < 2; i++) t[i]->ops->close(t[i]);
  munmap(memory[0], PAGE);
  munmap(memory[1], 3 * PAGE);
}

static bool map_nothing(struct tu_transport *t, void *memory, uint64_t offset, size_t bytes) {
  (void)t;
  (void)memory;
  (void)offset;
  (void)bytes;
  errno = ENOMEM;
  return false;
}

/* If the system cannot map private memory, the memory stays registered, and nothing is lost. */
static void deregistering_may_fail(void) {
  struct tu_transport *t[2];
  struct tu_error error;
  create_pair(t);
  unsigned char *memory = map_pages(PAGE);
  fill(memory, PAGE, 5);
  size_t free_bytes = tu_transport_free_bytes(t[0]);
  CHECK(tu_transport_register(t[0], memory, PAGE, &error) == TUTTI_OK, "%s", error.text);
  const struct tu_transport_ops *ops = t[0]->ops;
  struct tu_transport_ops poor = *ops;
  poor.map_over = map_nothing;
  t[0]->ops = &poor;
  CHECK(tu_transport_deregister(t[0], memory, &error) == TUTTI_ERR_MEMORY, "code %d", (int)error.code);
  t[0]->ops = ops;
  CHECK(tu_transport_offset(t[0], memory) != 0, "it is not registered any more");
  CHECK(tu_transport_deregister(t[0], memory, &error) == TUTTI_OK, "%s", error.text);
  CHECK(count_wrong(memory, PAGE, 5) == 0, "its content is lost");
  CHECK(tu_transport_free_bytes(t[0]) == free_bytes, "some bytes are lost");
  for (int i = 0; i < 2; i++) t[i]->ops->close(t[i]);
  munmap(memory, PAGE);
}

/* Released memory is given out again with its pages. Above the limit of released bytes, the longest ranges lose their
 * pages. */
static void memory_rests(void) {
  struct tu_transport *t;
  struct tu_error error;
  tu_assert(tu_loop_create(1, (size_t)64 << 20, &t, &error) == TUTTI_OK);
  uint64_t shorter, longer[20], again;
  unsigned char *memory = tu_transport_acquire(t, 3 * PAGE, &shorter, &error);
  memory[PAGE] = 7;
  for (int i = 0; i < 20; i++) tu_assert(tu_transport_acquire(t, 1 << 20, &longer[i], &error));
  for (int i = 0; i < 20; i++) CHECK(tu_transport_release(t, longer[i]), "number %d", i);
  CHECK(t->resting_bytes == TU_REST_BYTES_MAX, "%zu bytes rest", t->resting_bytes);
  CHECK(tu_transport_release(t, shorter), "it was there");
  CHECK(t->resting_bytes == TU_REST_BYTES_MAX - (1 << 20) + 3 * PAGE, "%zu bytes rest", t->resting_bytes);
  CHECK(tu_transport_acquire(t, 3 * PAGE, &again, &error) == memory && memory[PAGE] == 7, "other pages were given");
  /* Released ranges that keep their pages do not block other requests. */
  CHECK(tu_transport_acquire(t, (size_t)60 << 20, &again, &error), "%s", error.text);
  CHECK(t->resting_bytes == 0, "%zu bytes rest", t->resting_bytes);
  t->ops->close(t);
}

static _Atomic bool looking;

struct look {
  struct tu_transport *t;
  const unsigned char *memory;
  uint64_t offset, wrong;
};

static void *look_up(void *context) {
  struct look *look = context;
  while (atomic_load(&looking)) look->wrong += tu_transport_offset(look->t, look->memory) != look->offset;
  return NULL;
}

/* A thread can look up its registered memory while another thread registers and deregisters memory. */
static void others_look_up_meanwhile(void) {
  struct tu_transport *t[2];
  struct tu_error error;
  pthread_t thread;
  create_pair(t);
  unsigned char *first = map_pages(PAGE), *memory = map_pages(PAGE), *last = map_pages(PAGE);
  CHECK(tu_transport_register(t[0], first, PAGE, &error) == TUTTI_OK, "%s", error.text);
  struct look look = {.t = t[0], .memory = first, .offset = tu_transport_offset(t[0], first)};
  atomic_store(&looking, true);
  tu_assert(pthread_create(&thread, NULL, look_up, &look) == 0);
  for (int i = 0; i < 300; i++) {
    CHECK(tu_transport_register(t[0], memory, PAGE, &error) == TUTTI_OK, "%s", error.text);
    CHECK(tu_transport_register(t[0], last, PAGE, &error) == TUTTI_OK, "%s", error.text);
    CHECK(tu_transport_deregister(t[0], memory, &error) == TUTTI_OK, "%s", error.text);
    CHECK(tu_transport_deregister(t[0], last, &error) == TUTTI_OK, "%s", error.text);
  }
  atomic_store(&looking, false);
  pthread_join(thread, NULL);
  CHECK(look.wrong == 0, "another thread's memory was not found %llu times", (unsigned long long)look.wrong);
  for (int i = 0; i < 2; i++) t[i]->ops->close(t[i]);
  unsigned char *const mapped[] = {first, memory, last};
  for (int i = 0; i < 3; i++) munmap(mapped[i], PAGE);
}

static void registered_memory_outlives_the_endpoint(void) {
  struct tu_transport *t[2];
  struct tu_error error;
  create_pair(t);
  unsigned char *memory = map_pages(PAGES * PAGE);
  fill(memory, PAGES * PAGE, 3);
  CHECK(tu_transport_register(t[0], memory, PAGES * PAGE, &error) == TUTTI_OK, "%s", error.text);
  t[0]->ops->close(t[0]);
  t[1]->ops->close(t[1]);
  CHECK(count_wrong(memory, PAGES * PAGE, 3) == 0, "its content went with the endpoint");
  fill(memory, PAGES * PAGE, 4);
  CHECK(count_wrong(memory, PAGES * PAGE, 4) == 0, "it cannot be written any more");
  munmap(memory, PAGES * PAGE);
}

/* ---- liveness ---- */

enum { LIFE_SLICE = 1 << 20, ORDINARY_USER = 65534 };

/* A test case: what rank 1 does before rank 0 checks whether it is alive, and under which conditions. */
struct life {
  const char *name;
  void (*does)(int memory_fd);
  bool dies;          /* the action replaces the process (exec) */
  bool we_lose;       /* rank 0 loses its descriptor of the shared memory, too */
  bool ordinary_user; /* both ranks run as a user without privileges */
  bool no_proc;       /* there is no /proc; removing it needs a privilege */
};

static void does_nothing(int memory_fd) { (void)memory_fd; }

static void opens_and_closes(int memory_fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory_fd);
  int again = open(path, O_RDWR | O_CLOEXEC);
  tu_assert(again >= 0 && close(again) == 0);
}

static void closes_a_copy(int memory_fd) {
  int copy = fcntl(memory_fd, F_DUPFD_CLOEXEC, 0);
  tu_assert(copy >= 0 && close(copy) == 0);
}

static void close_all(void) { tu_assert(syscall(SYS_close_range, 3, ~0U, 0) == 0); }

static void closes_all(int memory_fd) {
  (void)memory_fd;
  close_all();
}

/* Replaces the file behind the descriptor of the shared memory by another file. */
static void opens_another_there(int memory_fd) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  tu_assert(null >= 0 && dup2(null, memory_fd) == memory_fd);
}

static int tell, hear; /* rank 1's ends of the pipes to and from rank 0 */

/* Forks a child that does not exec, and lives until rank 0 ends, thus longer than its parent. */
static void forks(int memory_fd) {
  char byte;
  (void)memory_fd;
  if (fork() != 0) return;
  close(tell);
  while (read(hear, &byte, 1) > 0) continue;
  _exit(0);
}

static void execs(int memory_fd) {
  (void)memory_fd;
  execlp("sleep", "sleep", "60", (char *)NULL);
}

static void become_ordinary(void) {
  if (geteuid() == 0) tu_assert(setgid(ORDINARY_USER) == 0 && setuid(ORDINARY_USER) == 0);
  prctl(PR_SET_DUMPABLE, 1);
}

static bool take_proc_away(void) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
         umount2("/proc", MNT_DETACH) == 0;
}

static void live_as_rank_1(const struct life *life, int memory_fd) {
  struct tu_transport *t;
  struct tu_error error;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char byte;
  fcntl(tell, F_SETFD, FD_CLOEXEC);
  if (tu_shm_create(1, 2, memory_fd, LIFE_SLICE, &t, &error) != TUTTI_OK) _exit(1);
  if (write(tell, "x", 1) != 1) _exit(1);
  if (read(hear, &byte, 1) != 1) _exit(1); /* rank 0 has checked that rank 1 is alive */
  life->does(memory_fd);
  close(tell); /* rank 0 sees the end of the pipe */
  for (;;) pause();
}

/* Runs rank 0, which checks whether rank 1 is alive. Returns what is wrong; NULL: nothing is wrong. */
static const char *look_at(const struct life *life, int memory_fd, pid_t child, int heard, int answers) {
  struct tu_transport *t;
  struct tu_error error;
  char byte;
  if (tu_shm_create(0, 2, memory_fd, LIFE_SLICE, &t, &error) != TUTTI_OK) return error.text[0] ? "no endpoint" : "?";
  if (read(heard, &byte, 1) != 1) return "rank 1 has not come";
  if (!tu_transport_alive(t, 1)) return "rank 1 has come, and seems dead";
  if (write(answers, "x", 1) != 1) return "write";
  while (read(heard, &byte, 1) > 0) continue;
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (life->we_lose && dup2(null, memory_fd) != memory_fd) return "dup2";
  if (life->dies) /* exec closes the pipe shortly before or after it replaces the memory */
    for (int i = 0; i < 500 && tu_transport_alive(t, 1); i++) usleep(10000);
  for (int i = 0; i < 3; i++)
    if (tu_transport_alive(t, 1) == life->dies) return life->dies ? "rank 1 seems alive" : "rank 1 seems dead";
  kill(child, SIGKILL);
  waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT); /* rank 1 is now a zombie, which counts as dead */
  if (tu_transport_alive(t, 1)) return "rank 1 was killed and not waited for, and seems alive";
  waitpid(child, NULL, 0);
  if (tu_transport_alive(t, 1)) return "rank 1 was killed, and seems alive";
  struct stat is, was;
  t->ops->close(t);
  if (life->we_lose && (fstat(memory_fd, &is) != 0 || fstat(null, &was) != 0 || is.st_ino != was.st_ino))
    return "what another file has become was closed";
  close(null);
  return NULL;
}

static void one_life(const struct life *life) {
  int fd = memfd_create("test", MFD_CLOEXEC), heard[2], answered[2], said[2];
  tu_assert(fd >= 0 && ftruncate(fd, 2 * LIFE_SLICE) == 0 && pipe(said) == 0);
  fflush(stdout);
  pid_t judge = fork();
  if (judge == 0) {
    if (life->no_proc && !take_proc_away()) _exit(0);
    if (life->ordinary_user) become_ordinary();
    if (pipe(heard) != 0 || pipe(answered) != 0) _exit(1);
    pid_t child = fork();
    if (child == 0) {
      close(heard[0]);
      close(answered[1]);
      close(said[1]);
      tell = heard[1];
      hear = answered[0];
      live_as_rank_1(life, fd);
    }
    close(heard[1]);
    close(answered[0]);
    const char *wrong = look_at(life, fd, child, heard[0], answered[1]);
    if (wrong && write(said[1], wrong, strlen(wrong)) < 0) _exit(2);
    kill(child, SIGKILL);
    _exit(wrong != NULL);
  }
  close(said[1]);
  char wrong[200] = "";
  ssize_t got = read(said[0], wrong, sizeof wrong - 1);
  int status;
  waitpid(judge, &status, 0);
  CHECK(got == 0 && status == 0, "rank 1 %s%s%s: %s (status %x)", life->name,
        life->we_lose ? ", rank 0 loses its descriptor" : "", life->ordinary_user ? ", as an ordinary user" : "", wrong,
        (unsigned)status);
  close(said[0]);
  close(fd);
}

static void a_life_is_that_of_the_memory(void) {
  static const struct life lives[] = {{.name = "does nothing", .does = does_nothing},
                                      {.name = "opens and closes", .does = opens_and_closes},
                                      {.name = "closes a copy", .does = closes_a_copy},
                                      {.name = "closes all", .does = closes_all},
                                      {.name = "opens another file", .does = opens_another_there},
                                      {.name = "forks", .does = forks},
                                      {.name = "execs", .does = execs, .dies = true}};
  for (size_t i = 0; i < sizeof lives / sizeof lives[0]; i++)
    for (int k = 0; k < 4; k++) {
      struct life life = lives[i];
      life.we_lose = k & 1;
      life.ordinary_user = k & 2;
      one_life(&life);
    }
  const struct life without = {.name = "has no /proc", .does = does_nothing, .no_proc = true};
  one_life(&without);
}

/* Registering and releasing memory works after the descriptors of the shared memory were replaced by other files. */
static void memory_needs_no_descriptor(void) {
  struct tu_error error;
  struct tu_transport *t[2];
  int fd = memfd_create("test", MFD_CLOEXEC);
  tu_assert(fd >= 0 && ftruncate(fd, 2 * (off_t)SHM_SLICE) == 0);
  int other = fcntl(fd, F_DUPFD_CLOEXEC, 0), null = open("/dev/null", O_RDWR | O_CLOEXEC);
  tu_assert(tu_shm_create(0, 2, fd, SHM_SLICE, &t[0], &error) == TUTTI_OK);
  tu_assert(tu_shm_create(1, 2, other, SHM_SLICE, &t[1], &error) == TUTTI_OK);
  tu_assert(null >= 0 && dup2(null, fd) == fd && dup2(null, other) == other);
  unsigned char *memory = map_pages(PAGES * PAGE);
  fill(memory, PAGES * PAGE, 5);
  CHECK(tu_transport_register(t[0], memory, PAGES * PAGE, &error) == TUTTI_OK, "%s", error.text);
  uint64_t offset = tu_transport_offset(t[0], memory);
  const unsigned char *seen = tu_transport_at(t[1], offset);
  CHECK(offset != 0 && count_wrong(memory, PAGES * PAGE, 5) == 0, "registering has changed the content");
  memory[5] = 77;
  CHECK(seen[5] == 77, "the peer does not see it");
  memory[5] = pattern(5, 5);
  CHECK(tu_transport_deregister(t[0], memory, &error) == TUTTI_OK, "%s", error.text);
  CHECK(count_wrong(memory, PAGES * PAGE, 5) == 0, "deregistering has changed the content");
  t[0]->ops->discard(t[0], offset, PAGES * PAGE); /* until this call the released range keeps its pages */
  CHECK(seen[5] == 0, "pages that were given back keep their content, and their memory");
  CHECK(tu_transport_alive(t[0], 1) && tu_transport_alive(t[1], 0), "both live");
  for (int i = 0; i < 2; i++) t[i]->ops->close(t[i]);
  CHECK(fcntl(fd, F_GETFD) >= 0 && fcntl(other, F_GETFD) >= 0, "a file that was not ours was closed");
  close(fd);
  close(other);
  close(null);
  munmap(memory, PAGES * PAGE);
}

/* ---- large pages ---- */

/* Returns how much of the mapping that contains an address is in large pages, in KiB. */
static unsigned large_kib(const void *address) {
  char line[512];
  unsigned kib = 0;
  bool here = false;
  FILE *file = fopen("/proc/self/smaps", "re");
  while (file && fgets(line, sizeof line, file)) {
    unsigned long long first, last;
    if (sscanf(line, "%llx-%llx ", &first, &last) == 2) here = (uintptr_t)address >= first && (uintptr_t)address < last;
    if (here && strncmp(line, "ShmemPmdMapped:", 15) == 0) sscanf(line + 15, "%u", &kib);
  }
  if (file) fclose(file);
  return kib;
}

/* Creates new pages, and returns how much of them is in large pages. */
static unsigned populate_new_pages(struct tu_transport *t) {
  const uint64_t offset = SHM_SLICE / 2;
  t->ops->populate(t, offset, TU_LARGE_PAGE, true);
  const unsigned kib = large_kib(tu_transport_at(t, offset));
  t->ops->discard(t, offset, TU_LARGE_PAGE);
  return kib;
}

/* If the machine has much more work than CPUs, a rank waits for no large pages, because the kernel may take seconds. */
static void a_crowded_machine_has_no_large_pages(void) {
  enum { BUSY_MAX = 640 };
  struct tu_transport *t[2];
  pid_t busy[BUSY_MAX];
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  create_pair(t);
  if (5 * cpus > BUSY_MAX || populate_new_pages(t[0]) == 0) {
    SKIP("there are too many CPUs, or no large pages, or the machine is crowded");
  } else {
    fflush(stdout);
    for (long i = 0; i < 5 * cpus; i++) {
      if ((busy[i] = fork()) != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (volatile uint64_t turns = 0;; turns++) continue;
    }
    CHECK(populate_new_pages(t[0]) == 0, "large pages, although %ld busy processes share %ld CPUs", 5 * cpus, cpus);
    for (long i = 0; i < 5 * cpus; i++) {
      kill(busy[i], SIGKILL);
      waitpid(busy[i], NULL, 0);
    }
  }
  for (int i = 0; i < 2; i++) t[i]->ops->close(t[i]);
}

static const struct test tests[] = {
    {"a_crowded_machine_has_no_large_pages", a_crowded_machine_has_no_large_pages},
    {"memory_comes_and_goes", memory_comes_and_goes},
    {"a_slice_gives_and_takes", a_slice_gives_and_takes},
    {"too_much_is_refused", too_much_is_refused},
    {"registered_memory_is_seen", registered_memory_is_seen},
    {"several_are_registered", several_are_registered},
    {"registering_takes_nothing", registering_takes_nothing},
    {"deregistering_may_fail", deregistering_may_fail},
    {"memory_rests", memory_rests},
    {"others_look_up_meanwhile", others_look_up_meanwhile},
    {"registered_memory_outlives_the_endpoint", registered_memory_outlives_the_endpoint},
    {"a_life_is_that_of_the_memory", a_life_is_that_of_the_memory},
    {"memory_needs_no_descriptor", memory_needs_no_descriptor},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
