/* world.c: the simulated world: copies of the library, their memory, time, the scheduler, and faults. */
#include "tests/world/inside.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_BYTES = 1 << 20, STACK_FILLED = 1 << 16, DIES_BYTES = 1 << 21, SIZES = 48 };
#define HEAP_BYTES ((size_t)256 << 20)
#define SLICE_BYTES ((size_t)32 << 20)
/* Fixed addresses, so that a seed has the same addresses in each run. */
#define HEAPS_AT ((uintptr_t)0x100000000000)
#define SEGMENTS_AT ((uintptr_t)0x200000000000)
#define FOREVER UINT64_MAX

/* Simulated durations, in ns. */
#define POINT_NS 25u
#define CLOCK_NS 30u
#define SYSTEM_NS 500u
#define NAP_NS UINT64_C(20000000)       /* sleeps are shorter where no rank wakes the sleeper */
#define LIMIT_NS UINT64_C(120000000000) /* a world that lasts longer hangs */

#define DESCRIPTORS UINTPTR_MAX
enum { CPUS = 3 }; /* number of CPUs of each host */

enum state { READY, ASLEEP, STOPPED, GONE };

struct rank {
  /* for the life of this process */
  world_run_rank *run;
  char *data, *first; /* writable data of the copy, and its content after loading */
  size_t data_bytes;
  char *heap, *stack, *segment;
  /* of the current world */
  enum state state;
  bool dead;         /* its process has ended */
  bool paused;       /* state is STOPPED, and it will go on at wake_at */
  enum state before; /* state before it was paused */
  jmp_buf at;
  uint64_t wake_at; /* of a sleeper or a paused rank */
  uintptr_t word;   /* 1 + offset in the segment of the futex on which it sleeps; DESCRIPTORS: it waits for descriptors;
                     * 0: neither */
  size_t used;
  void *free_lists[SIZES];
  uint64_t points, allocations;
  int cpu; /* where it runs */
};

struct world world;
static struct rank ranks[WORLD_RANKS_MAX];
/* Declared in points.h, which is for the copies only. */
extern int world_left;
void world_decide(void);
int world_left;
static bool inside; /* a rank runs */
static int memory;
static jmp_buf home;
static uint64_t random_state;
static uint64_t run_length; /* mean number of switch points between two decisions */

uint64_t world_draw(uint64_t below) {
  uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (z ^ z >> 31) % below;
}

static uint64_t at_least(uint64_t a, uint64_t b) { return a > b ? a : b; }

bool world_alive(uint32_t rank) { return !ranks[rank].dead; }

unsigned world_direct_bytes(void) { return world.program->direct_bytes; }

/* ---- scheduling ---- */

static void note(enum world_event_kind kind, uint32_t rank, uint64_t value) {
  world.hash = world_mix(world.hash ^ kind, rank + world.now, value);
  world_trace_note(kind, rank, value);
}

static void continue_rank(uint32_t rank) {
  if (rank != world.current || !inside) note(WORLD_RUNS, rank, ranks[rank].points);
  world.current = rank;
  world_left = 1 + (int)world_draw(2 * run_length);
  inside = true;
  _longjmp(ranks[rank].at, 1);
}

_Noreturn static void end_world(void) {
  inside = false;
  _longjmp(home, 1);
}

/* ---- faults ---- */

/* Ends the process of a rank. Its connections are closed, unless its host is gone. */
static void end_rank(uint32_t rank, bool closes) {
  struct rank *k = &ranks[rank];
  world_fabric_end_rank(rank, false);
  if (closes) world_network_end(rank);
  k->state = GONE;
  k->dead = true;
  if (world.died_at[rank] == 0) world.died_at[rank] = world.now + 1;
  world.last_fault = at_least(world.last_fault, world.now);
  memset(k->heap, 0xdb, k->used < DIES_BYTES ? k->used : DIES_BYTES); /* its memory dies with it */
}

static void happens(uint32_t fault) {
  world.happened[fault] = true;
  world.last_fault = at_least(world.last_fault, world.now);
  note(WORLD_SUFFERS, world.current, fault);
}

/* The host of the current rank loses its power. */
static void end_host(void) {
  const uint32_t host = world.program->host[world.current];
  for (uint32_t other = 0; other < WORLD_HOSTS_MAX; other++)
    if (other != host) world.last_fault = at_least(world.last_fault, world_network_silence(host, other, FOREVER));
  for (uint32_t r = 0; r < world.program->ranks; r++)
    if (world.program->host[r] == host && !ranks[r].dead) end_rank(r, false);
}

/* A connection of the current rank breaks, or nothing passes between its host and another one. */
static void cut_off(const struct world_fault *f) {
  const struct world_program *p = world.program;
  const uint64_t draws = world_mix(p->seed, f->at, 9);
  const uint32_t peer = (uint32_t)(draws % p->ranks), host = p->host[world.current], other = p->host[peer];
  if (host == other || !world.joined[peer]) return;
  world.cut_off[world.current] = world.cut_off[peer] = true;
  if (f->mishap == WORLD_CUT) {
    world_network_cut(world.current, peer);
    return;
  }
  const uint64_t ns = draws / p->ranks % 5000000000;
  world.last_fault = at_least(world.last_fault, world_network_silence(host, other, ns));
  for (uint32_t r = 0; r < p->ranks; r++) world.cut_off[r] |= p->host[r] == host || p->host[r] == other;
}

static void stop(const struct world_fault *f) {
  struct rank *k = &ranks[f->rank];
  k->state = STOPPED;
  k->paused = f->mishap == WORLD_PAUSE;
  k->wake_at = world.now + world_mix(world.program->seed, f->at, 9) % 3000000000u;
  world.stopped[f->rank] = true;
}

/* The fault happens to its rank, which must be the current one. */
static void strike(uint32_t fault) {
  const struct world_fault *f = &world.program->fault[fault];
  happens(fault);
  switch (f->mishap) {
    case WORLD_KILL: end_rank(f->rank, true); break;
    case WORLD_OUTAGE: end_host(); break;
    case WORLD_CUT:
    case WORLD_SILENCE: cut_off(f); break;
    default: stop(f);
  }
}

static bool may_happen(uint32_t fault, bool timed) {
  const struct world_fault *f = &world.program->fault[fault];
  const bool here = !world_is_at_act(f->mishap) && f->mishap != WORLD_REFUSED;
  return here && f->timed == timed && !world.happened[fault] && world.joined[f->rank] && !ranks[f->rank].dead;
}

/* Carries out the faults of the current rank that are due. */
static void suffer(void) {
  for (uint32_t i = 0; i < world.program->faults; i++) {
    const struct world_fault *f = &world.program->fault[i];
    if (f->rank == world.current && may_happen(i, false) && ranks[f->rank].points >= f->at) strike(i);
  }
}

/* Carries out the timed faults that are due, whatever their ranks do. Returns the time of the next one. */
static uint64_t suffer_in_time(void) {
  uint64_t next = FOREVER;
  for (uint32_t i = 0; i < world.program->faults; i++) {
    const struct world_fault *f = &world.program->fault[i];
    if (!may_happen(i, true)) continue;
    if (f->at > world.now && f->at < next) next = f->at;
    if (f->at > world.now) continue;
    world.current = f->rank;
    strike(i);
  }
  return next;
}

/* ---- choosing ranks ---- */

/* Returns true if each rank has ended or sleeps until another rank wakes it, and no fault has happened. */
static bool all_await_each_other(void) {
  for (uint32_t r = 0; r < world.program->ranks; r++)
    if (ranks[r].state != GONE && (ranks[r].state != ASLEEP || ranks[r].word == 0)) return false;
  for (uint32_t f = 0; f < world.program->faults; f++)
    if (world.happened[f]) return false;
  return true;
}

/* Chooses the next rank and continues it. Ends the world if there is none. */
_Noreturn static void dispatch(void) {
  for (;;) {
    uint32_t ready[WORLD_RANKS_MAX], count = 0;
    uint64_t next = FOREVER;
    const uint64_t strikes = suffer_in_time();
    for (uint32_t r = 0; r < world.program->ranks; r++) {
      struct rank *k = &ranks[r];
      if (k->state == STOPPED && k->paused && k->wake_at <= world.now) {
        k->state = READY; /* a sleeper that was paused wakes for no reason, as futexes may */
        k->paused = false;
        world.last_fault = at_least(world.last_fault, world.now);
        note(WORLD_GOES_ON, r, 0);
      }
      if (k->state == ASLEEP && k->wake_at <= world.now) k->state = READY, k->word = 0;
      if (k->state == READY) ready[count++] = r;
      if ((k->state == ASLEEP || (k->state == STOPPED && k->paused)) && k->wake_at < next) next = k->wake_at;
    }
    if (world.now > LIMIT_NS) {
      world_fail("the world still runs after %llu s", (unsigned long long)(LIMIT_NS / 1000000000));
      end_world();
    }
    if (count > 0) continue_rank(ready[world_draw(count)]);
    if (next == FOREVER) end_world();
    if (next - world.now > NAP_NS && all_await_each_other()) {
      world_fail("all ranks sleep for %.3f ms, and nothing has failed", (double)(next - world.now) / 1e6);
      end_world();
    }
    world.now = strikes < next ? strikes : next;
  }
}

static void leave(void) {
  if (_setjmp(ranks[world.current].at) == 0) dispatch();
}

void world_decide(void) {
  if (!inside) {
    world_left = 1 << 30;
    return;
  }
  struct rank *k = &ranks[world.current];
  k->points += run_length;
  world.now += run_length * POINT_NS;
  suffer();
  leave();
}

void world_system_call(void) {
  world.now += SYSTEM_NS;
  if (--world_left <= 0) world_decide();
}

void world_sleep_for(uint64_t until, uint64_t next) {
  struct rank *k = &ranks[world.current];
  k->state = ASLEEP;
  k->wake_at = until < next ? until : next;
  k->word = DESCRIPTORS;
  leave();
}

void world_wake(uint32_t rank, uint64_t at) {
  struct rank *k = &ranks[rank];
  if (k->state == ASLEEP && k->word == DESCRIPTORS && k->wake_at > at) k->wake_at = at;
}

void world_sleep_us(uint64_t us) {
  ranks[world.current].state = ASLEEP;
  ranks[world.current].wake_at = world.now + us * 1000;
  ranks[world.current].word = 0;
  leave();
}

_Noreturn void world_exit(void) {
  note(WORLD_SUFFERS, world.current, UINT64_MAX);
  end_rank(world.current, true);
  dispatch();
}

void world_stop(void) {
  ranks[world.current].state = STOPPED;
  ranks[world.current].paused = false;
  leave();
}

bool world_is_hit(uint32_t act, enum world_mishap mishap) {
  for (uint32_t i = 0; i < world.program->faults; i++) {
    const struct world_fault *f = &world.program->fault[i];
    if (f->mishap != mishap || f->rank != world.current || f->at != act) continue;
    happens(i);
    if (mishap == WORLD_ABSENT) world.stopped[f->rank] = true;
    return true;
  }
  return false;
}

/* ---- the system calls of the copies (linked with --wrap) ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t) {
  (void)id;
  world.now += CLOCK_NS;
  t->tv_sec = (time_t)(1000 + world.now / 1000000000);
  t->tv_nsec = (long)(world.now % 1000000000);
  return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest) {
  (void)rest;
  world_sleep_us((uint64_t)t->tv_sec * 1000000u + (uint64_t)t->tv_nsec / 1000 + 1);
  return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void) {
  world.now += SYSTEM_NS;
  world_decide();
  return 0;
}

/* membarrier needs no action, because the world is sequentially consistent. */
long __wrap_syscall(long number, uintptr_t address, long operation, uint32_t value, const struct timespec *timeout);
long __wrap_syscall(long number, uintptr_t address, long operation, uint32_t value, const struct timespec *timeout) {
  world.now += SYSTEM_NS;
  if (number == SYS_membarrier) return 0;
  if (number != SYS_futex) return errno = ENOSYS, -1;
  struct rank *k = &ranks[world.current];
  const uintptr_t word = address - (uintptr_t)k->segment + 1;
  if (operation == FUTEX_WAIT) {
    if (__atomic_load_n((const uint32_t *)address, __ATOMIC_RELAXED) != value) return errno = EAGAIN, -1;
    k->state = ASLEEP;
    k->word = word;
    k->wake_at = timeout ? world.now + (uint64_t)timeout->tv_sec * 1000000000u + (uint64_t)timeout->tv_nsec : FOREVER;
    leave();
    return 0;
  }
  for (uint32_t r = 0; r < world.program->ranks; r++)
    if (ranks[r].state == ASLEEP && ranks[r].word == word) ranks[r].state = READY, ranks[r].word = 0;
  return 0;
}

/* No other program uses the cores. */
int __wrap_getrusage(int who, struct rusage *usage);
int __wrap_getrusage(int who, struct rusage *usage) {
  (void)who;
  *usage = (struct rusage){.ru_nvcsw = 0};
  return 0;
}

/* ---- CPUs: each rank may use all of its host, and is moved from time to time ---- */

int __wrap_sched_getcpu(void);
int __wrap_sched_getcpu(void) {
  enum { MOVED_OF = 4 }; /* the kernel has moved one of so many ranks meanwhile */
  struct rank *k = &ranks[world.current];
  if (world_draw(MOVED_OF) == 0) k->cpu = (int)world_draw(CPUS);
  return k->cpu;
}

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus) {
  (void)pid;
  memset(cpus, 0, bytes);
  for (int c = 0; c < CPUS; c++) CPU_SET_S((size_t)c, bytes, cpus);
  return 0;
}

int __wrap_sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *cpus);
int __wrap_sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *cpus) {
  struct rank *k = &ranks[world.current];
  (void)pid;
  world.now += SYSTEM_NS;
  for (int c = 0; c < CPUS && !CPU_ISSET_S((size_t)k->cpu, bytes, cpus); c++)
    if (CPU_ISSET_S((size_t)c, bytes, cpus)) k->cpu = c;
  return 0;
}

long __wrap_sysconf(int name);
long __wrap_sysconf(int name) { return name == _SC_NPROCESSORS_ONLN ? CPUS : sysconf(name); }

/* Reads the memory of a rank, whose number is its process number. Any other number is that of the process of the world. */
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *here, unsigned long here_count,
                                const struct iovec *there, unsigned long there_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *here, unsigned long here_count,
                                const struct iovec *there, unsigned long there_count, unsigned long flags) {
  if (here_count != 1 || there_count != 1 || flags != 0 || here->iov_len != there->iov_len) abort();
  world_system_call();
  if (pid < (pid_t)world.program->ranks && !world_alive((uint32_t)pid)) return errno = ESRCH, -1;
  memcpy(here->iov_base, there->iov_base, here->iov_len);
  return (ssize_t)here->iov_len;
}

int __wrap_prctl(int option);
int __wrap_prctl(int option) { return option == PR_GET_DUMPABLE; }

int __wrap___register_atfork(void);
int __wrap___register_atfork(void) { return 0; }

/* ---- memory of a rank: pieces of powers of two, in the rank's heap ---- */

struct piece {
  size_t bytes; /* and FREE */
  struct piece *next;
};
#define FREE ((size_t)1)                   /* flag of a piece that is not allocated */
enum { FREED = 0xdd, POISON_BYTES = 512 }; /* the first bytes of free pieces have the value FREED */

static size_t size_class(size_t bytes) { return bytes <= 16 ? 4 : 64 - (size_t)__builtin_clzl(bytes - 1); }

/* Fails the world if a free piece has been written to. */
static void check_free(const struct piece *p) {
  static unsigned char freed[POISON_BYTES];
  const size_t bytes = p->bytes & ~FREE;
  if (freed[0] != FREED) memset(freed, FREED, sizeof freed);
  if (memcmp(p + 1, freed, bytes < POISON_BYTES ? bytes : POISON_BYTES) != 0)
    world_fail("rank %u: one of the first %d of %zu bytes of freed memory was written", world.current, POISON_BYTES,
               bytes);
}

static void check_all_free(const struct rank *k) {
  for (uint32_t class = 0; class < SIZES; class ++)
    for (const struct piece *p = k->free_lists[class]; p; p = p->next) check_free(p);
}

static bool is_refused(struct rank *k) {
  if (!world.joined[world.current]) return false;
  const uint64_t in_act =
      (uint64_t)world.act[world.current] * WORLD_ACT_ALLOCATIONS + world.act_allocations[world.current]++;
  k->allocations++;
  for (uint32_t i = 0; i < world.program->faults; i++) {
    const struct world_fault *f = &world.program->fault[i];
    if (f->mishap != WORLD_REFUSED || f->rank != world.current || f->at != (f->timed ? in_act : k->allocations))
      continue;
    happens(i);
    errno = ENOMEM;
    return true;
  }
  return false;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  struct rank *k = &ranks[world.current];
  const size_t class = size_class(bytes);
  if (is_refused(k)) return NULL;
  if (alignment <= 16 && k->free_lists[class]) {
    struct piece *p = k->free_lists[class];
    k->free_lists[class] = p->next;
    check_free(p);
    p->bytes &= ~FREE;
    return p + 1;
  }
  size_t at = (k->used + sizeof(struct piece) + alignment - 1) / alignment * alignment;
  if (class >= SIZES || at + ((size_t)1 << class) > HEAP_BYTES) return NULL;
  k->used = at + ((size_t)1 << class);
  struct piece *p = (struct piece *)(void *)(k->heap + at) - 1;
  p->bytes = (size_t)1 << class;
  return p + 1;
}

void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) { return __wrap_aligned_alloc(16, bytes); }

void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) {
  void *p = __wrap_malloc(count * bytes);
  return p ? memset(p, 0, count * bytes) : NULL;
}

void __wrap_free(void *pointer);
void __wrap_free(void *pointer) {
  if (!pointer) return;
  struct rank *k = &ranks[world.current];
  struct piece *p = (struct piece *)pointer - 1;
  if (p->bytes & FREE) {
    world_fail("rank %u frees memory twice", world.current);
    return;
  }
  const size_t class = size_class(p->bytes);
  memset(pointer, FREED, p->bytes > POISON_BYTES ? POISON_BYTES : p->bytes);
  p->bytes |= FREE;
  p->next = k->free_lists[class];
  k->free_lists[class] = p;
}

void *__wrap_realloc(void *pointer, size_t bytes);
void *__wrap_realloc(void *pointer, size_t bytes) {
  void *moved = __wrap_malloc(bytes);
  if (!moved || !pointer) return moved;
  const size_t old = ((struct piece *)pointer - 1)->bytes;
  memcpy(moved, pointer, old < bytes ? old : bytes);
  __wrap_free(pointer);
  return moved;
}

/* The library ends its process: with the rank's message on standard error, which is discarded. */
_Noreturn void __wrap_abort(void);
_Noreturn void __wrap_abort(void) {
  if (!inside) abort();
  world.aborted[world.current] = true;
  world_exit();
}

/* ---- copies ---- */

struct search {
  uintptr_t address;
  struct rank *rank;
};

static int find_data(struct dl_phdr_info *info, size_t size, void *context) {
  struct search *s = context;
  (void)size;
  if (info->dlpi_addr != s->address) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_W)) continue;
    s->rank->data = (char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    s->rank->data_bytes = info->dlpi_phdr[i].p_memsz;
  }
  return 1;
}

/* Loads a copy of the library. Each copy is a file of its own, because the linker loads a file once only. */
static void load(struct rank *k, const void *content, size_t bytes) {
  char name[64];
  struct link_map *map;
  int copy = memfd_create("copy", MFD_CLOEXEC);
  snprintf(name, sizeof name, "/proc/self/fd/%d", copy);
  void *library =
      copy >= 0 && write(copy, content, bytes) == (ssize_t)bytes ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) {
    fprintf(stderr, "sim_world: cannot load a copy of the library: %s\n", dlerror());
    exit(1);
  }
  *(void **)&k->run = dlsym(library, "world_rank");
  struct search search = {map->l_addr, k};
  dl_iterate_phdr(find_data, &search);
  k->first = malloc(k->data_bytes);
  if (!k->run || !k->data || !k->first) abort();
  memcpy(k->first, k->data, k->data_bytes);
}

static void *map_at(uintptr_t address, size_t bytes, int flags, int fd) {
  void *at = mmap((void *)address, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd, 0);
  if (at != (void *)address) {
    fprintf(stderr, "sim_world: cannot map %zu bytes at %#zx\n", bytes, (size_t)address);
    exit(1);
  }
  return at;
}

void world_load(const char *path) {
  int from = open(path, O_RDONLY | O_CLOEXEC);
  const off_t bytes = from < 0 ? -1 : lseek(from, 0, SEEK_END);
  void *content = bytes > 0 ? mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, from, 0) : MAP_FAILED;
  const size_t all = SLICE_BYTES * WORLD_RANKS_MAX;
  memory = memfd_create("segment", MFD_CLOEXEC);
  if (content == MAP_FAILED || memory < 0 || ftruncate(memory, (off_t)all) != 0) {
    fprintf(stderr, "sim_world: cannot read %s\n", path);
    exit(1);
  }
  for (uint32_t r = 0; r < WORLD_RANKS_MAX; r++) {
    struct rank *k = &ranks[r];
    load(k, content, (size_t)bytes);
    k->heap = map_at(HEAPS_AT + r * 2 * HEAP_BYTES, HEAP_BYTES + STACK_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    k->stack = k->heap + HEAP_BYTES;
    k->segment = map_at(SEGMENTS_AT + r * 2 * all, all, MAP_SHARED, memory);
  }
  munmap(content, (size_t)bytes);
  close(from);
}

/* ---- a world ---- */

static void rank_main(void) {
  const uint32_t rank = world.current;
  if (_setjmp(ranks[rank].at) == 0) _longjmp(home, 1); /* the stack is made; the world begins later */
  ranks[rank].run(world.program, rank, ranks[rank].segment, SLICE_BYTES);
  check_all_free(&ranks[rank]);
  world_fabric_end_rank(rank, true);
  end_rank(rank, true);
  dispatch();
}

static void make_rank(uint32_t rank) {
  struct rank *k = &ranks[rank];
  static ucontext_t context;
  memcpy(k->data, k->first, k->data_bytes);
  memset(k->stack + STACK_BYTES - STACK_FILLED, 0xd5, STACK_FILLED);
  k->state = READY;
  k->dead = k->paused = false;
  k->wake_at = k->word = k->used = 0;
  k->points = k->allocations = 0;
  k->cpu = (int)rank % CPUS;
  memset(k->free_lists, 0, sizeof k->free_lists);
  world.current = rank;
  if (getcontext(&context) != 0) abort();
  context.uc_stack.ss_sp = k->stack;
  context.uc_stack.ss_size = STACK_BYTES;
  context.uc_link = NULL;
  makecontext(&context, rank_main, 0);
  if (_setjmp(home) == 0) setcontext(&context);
}

void world_perform(const struct world_program *program) {
  world = (struct world){.program = program};
  world_reset_checks();
  random_state = world_mix(program->seed, 5, 5);
  world_network_reset();
  world_fabric_begin();
  static const uint64_t lengths[] = {1, 3, 10, 30, 100, 300};
  run_length = lengths[world_draw(6)];
  if (fallocate(memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)(SLICE_BYTES * WORLD_RANKS_MAX)) != 0)
    abort();
  for (uint32_t r = 0; r < program->ranks; r++) make_rank(r);
  if (_setjmp(home) == 0) dispatch();
  world_fabric_end();
  for (uint32_t r = 0; r < program->ranks && !world.failed; r++)
    if (!ranks[r].dead && !world.stopped[r]) {
      world.current = r;
      world_fail("rank %u sleeps for ever", r);
    }
  if (!world.failed) world_check_end();
}
