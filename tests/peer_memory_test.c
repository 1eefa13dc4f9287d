/* peer_memory_test.c: messages that receivers read from the sender's process (transport/peer_memory.h). The library uses this
 * way only where it is faster (engine/sending.c); here all ranks try it, and some kinds of machine are pretended. */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call/request.h"
#include "conform.h"
#include "engine/program.h"
#include "transport/peer_memory.h"

/* Minimum bytes of a message that is read. SHARED: with two ranks per CPU. CROWDED: with more, and of an exchange. LEAST: in a
 * mesh, of an allgather of two ranks. CACHE: bytes of the last-level cache. LONG: bytes of messages of which four ranks and more
 * move more than the cache holds. COUNT: items of 4 bytes of a block. */
enum {
  LEAST = 4 * TU_READ_BYTES,
  CROWDED = 8 * TU_READ_BYTES,
  SHARED = 16 * TU_READ_BYTES,
  PAIR = 64 * TU_READ_BYTES,
  CACHE = 16 << 20,
  LONG = CACHE / 8,
  COUNT = 140000
};

static bool is_read(const struct tu_execution *e, uint32_t i) { return e->progress[i].way == TU_WAY_READ; }

/* Returns true if the send may be read: it is long, and its source stays as it is. */
static bool may_be_read(const struct tu_execution *e, uint32_t i, size_t least) {
  const struct tu_instruction *ins = &e->program->instructions[i];
  return ins->kind == TU_SEND && ins->lasting && ins->bytes >= least;
}

/* Carries out a call of private buffers, and checks that its messages of `least` bytes or more were read, and no others. */
static void exchange(struct player *p, struct ref_case c, size_t least) {
  c.ranks = p->ranks;
  c.type = TUTTI_I32;
  if (c.count == 0) c.count = COUNT;
  conform(p, &c, NULL);
  const struct tutti_request *last = p->comm->idle;
  if (p->stage->failures > 0) return;
  if (least == SIZE_MAX && last && last->number != p->comm->number) return; /* by the fast path, which reads nothing */
  if (!last) {
    wrong(p, "rank %u: no request is idle after the call", p->rank);
    return;
  }
  const struct tu_execution *e = &last->execution;
  for (uint32_t i = 0; i < e->program->instruction_count; i++)
    if (is_read(e, i) != may_be_read(e, i, least))
      wrong(p, "rank %u: %s, step %u of %zu bytes is%s read", p->rank, tutti_collective_name(c.collective), i,
            e->program->instructions[i].bytes, is_read(e, i) ? "" : " not");
}

/* How lines are overwritten; AMD: slowly, whatever is measured. */
enum fills { SLOW, FAST, AMD };

/* A kind of machine. share: number of ranks per CPU; far: lines take long to the others. Senders read in shared memory what their
 * receivers say of it, so all ranks must have ended the call before. */
static void pretend(struct player *p, uint32_t share, enum fills fills, bool far) {
  struct tu_mover *m = p->comm->mover;
  troupe_meet(p);
  m->share = share;
  m->fills = (struct tu_fills){.slow = fills == AMD, .fast = fills == FAST, .left = UINT32_MAX};
  for (uint32_t i = 0; i < tu_mover_channels(m); i++) {
    struct tu_receiver *r = tu_mover_nth_receiver(m, i);
    if (!r || !r->credit) continue;
    r->next_timed = r->received - 1; /* never */
    r->far = far;
    atomic_store(&r->credit->far, far);
  }
  troupe_meet(p);
}

/* Lets all ranks try to read the others' memory. */
static void try_all(struct player *p, bool expected) {
  pretend(p, 3, SLOW, false);
  p->comm->mover->cache_bytes = 0; /* not known */
  tu_peer_memory_try(p->transport);
  troupe_meet(p);
  if (tu_peer_memory_reads(p->transport, p->transport->rank) != (expected && p->ranks > 1))
    wrong(p, "rank %u: reads the others' memory: %d", p->rank, !expected);
}

static void all_forms(struct player *p) {
  try_all(p, true);
  for (int blocks = 0; blocks < REF_BLOCKS; blocks++)
    for (int aliasing = 0; aliasing < REF_ALIASINGS && p->stage->failures == 0; aliasing++) {
      struct ref_case c = {.blocks = (enum ref_blocks)blocks, .aliasing = (enum ref_aliasing)aliasing, .seed = p->seed};
      c.collective = blocks == REF_EQUAL ? TUTTI_ALLTOALL : TUTTI_ALLTOALLV;
      exchange(p, c, CROWDED);
    }
}

/* Which messages are read on which machines. */
static const struct {
  tutti_collective collective;
  uint32_t share; /* of the machine */
  enum fills fills;
  bool far;
  size_t block;      /* bytes */
  uint32_t from, to; /* with so many ranks, messages are read */
} faster[] = {
    {TUTTI_ALLTOALL, 1, SLOW, false, LEAST, 9, 9},
    {TUTTI_ALLTOALL, 1, SLOW, true, LEAST, 9, 9},
    {TUTTI_ALLTOALL, 1, FAST, false, LEAST, 9, 9},
    {TUTTI_ALLTOALL, 1, FAST, true, LEAST / 2, 2, 9},
    {TUTTI_ALLTOALL, 1, FAST, true, LEAST / 2 - 4, 9, 9},
    {TUTTI_ALLTOALL, 1, FAST, true, LONG, 2, 3},
    {TUTTI_ALLTOALL, 2, SLOW, false, CROWDED, 2, 9},
    {TUTTI_ALLTOALL, 2, FAST, true, CROWDED, 2, 9},
    {TUTTI_ALLTOALL, 2, FAST, true, CROWDED - 4, 9, 9},
    {TUTTI_ALLTOALL, 2, FAST, true, LONG, 2, 9},
    {TUTTI_ALLTOALL, 3, SLOW, false, CROWDED, 2, 9},
    {TUTTI_ALLTOALL, 3, FAST, true, CROWDED, 2, 9},
    {TUTTI_ALLTOALL, 3, FAST, true, CROWDED - 4, 9, 9},
    {TUTTI_ALLTOALL, 3, FAST, false, LONG, 2, 9},
    {TUTTI_ALLGATHER, 1, SLOW, false, LEAST, 9, 9},
    {TUTTI_ALLGATHER, 1, FAST, true, LEAST, 2, 2},
    {TUTTI_ALLGATHER, 1, FAST, true, LEAST - 4, 9, 9},
    {TUTTI_ALLGATHER, 2, FAST, true, SHARED - 4, 9, 9},
    {TUTTI_ALLGATHER, 2, SLOW, false, SHARED, 2, 2},
    {TUTTI_ALLGATHER, 3, FAST, true, CROWDED, 2, 2},
    {TUTTI_ALLGATHER, 3, FAST, true, CROWDED - 4, 9, 9},
    {TUTTI_ALLGATHER, 3, SLOW, false, SHARED, 2, 9},
    {TUTTI_ALLGATHER, 3, SLOW, false, LONG, 2, 9},
    {TUTTI_SCATTER, 1, FAST, true, LEAST, 4, 9},
    {TUTTI_SCATTER, 1, FAST, true, LEAST / 2, 4, 9},
    {TUTTI_SCATTER, 1, FAST, true, 1 << 20, 2, 9},
    {TUTTI_SCATTER, 1, FAST, true, (1 << 20) - 4, 4, 9},
    {TUTTI_SCATTER, 2, SLOW, false, 1 << 20, 2, 9},
    {TUTTI_SCATTER, 2, FAST, true, (1 << 20) - 4, 9, 9},
    {TUTTI_SCATTER, 3, SLOW, false, CROWDED, 2, 9},
    {TUTTI_SCATTER, 3, FAST, true, CROWDED, 2, 9},
    {TUTTI_SCATTER, 3, FAST, true, CROWDED - 4, 9, 9},
    {TUTTI_SCATTER, 3, FAST, true, LONG, 2, 9},
    {TUTTI_GATHER, 3, FAST, true, CROWDED, 9, 9},
    {TUTTI_BROADCAST, 3, FAST, true, CROWDED, 9, 9},
    {TUTTI_GATHER, 1, FAST, true, LEAST, 9, 9},
    {TUTTI_BROADCAST, 1, FAST, true, LEAST, 9, 9},
    {TUTTI_GATHER, 3, SLOW, false, SHARED, 2, 9},
    {TUTTI_GATHER, 3, FAST, true, SHARED - 4, 9, 9},
    {TUTTI_GATHER, 2, SLOW, false, 2 * SHARED, 2, 9},
    {TUTTI_GATHER, 2, FAST, true, 2 * SHARED - 4, 9, 9},
    {TUTTI_ALLGATHER, 2, FAST, true, 2 * SHARED, 2, 9},
    {TUTTI_ALLGATHER, 2, FAST, true, 2 * SHARED - 4, 2, 2},
    {TUTTI_ALLTOALL, 1, AMD, true, PAIR / 2, 2, 2},
    {TUTTI_ALLTOALL, 1, AMD, false, PAIR / 2 - 4, 9, 9},
    {TUTTI_ALLGATHER, 1, AMD, false, PAIR, 2, 2},
    {TUTTI_ALLGATHER, 1, AMD, true, PAIR - 4, 9, 9},
    {TUTTI_SCATTER, 1, AMD, true, PAIR, 2, 2},
    {TUTTI_SCATTER, 1, AMD, true, PAIR - 4, 9, 9},
    {TUTTI_GATHER, 1, AMD, true, PAIR, 9, 9},
    {TUTTI_ALLTOALL, 3, AMD, true, CROWDED, 2, 9},
};

/* On which machines which messages are read. */
static void where_it_is_faster(struct player *p) {
  try_all(p, true);
  p->comm->mover->cache_bytes = CACHE;
  for (size_t i = 0; i < sizeof faster / sizeof faster[0] && p->stage->failures == 0; i++) {
    pretend(p, faster[i].share, faster[i].fills, faster[i].far);
    const struct ref_case c = {
        .collective = faster[i].collective, .seed = p->seed, .count = faster[i].block / sizeof(int32_t)};
    exchange(p, c, p->ranks >= faster[i].from && p->ranks <= faster[i].to ? 1 : SIZE_MAX);
    if (p->stage->failures > 0) wrong(p, "row %zu", i);
  }
}

/* Ranks measure their machine each for itself. One lets the others read, which have found the opposite, and carry out later calls
 * on the fast path. */
static void ranks_differ(struct player *p) {
  enum { CALLS = 3, APART = 16 };
  const size_t longest = CROWDED / sizeof(uint32_t);
  uint32_t *in = calloc(p->ranks + 1, CROWDED), *results = calloc(p->ranks + 1, CROWDED);
  if (!in || !results) abort();
  try_all(p, true);
  for (size_t count = longest / 4; count <= longest; count *= 2)
    for (uint32_t i = 0; i < CALLS * p->ranks && p->stage->failures == 0; i++) {
      const uint32_t who = i / CALLS;
      uint32_t *out = results + (size_t)who * APART; /* so that the first call of each rank repeats none */
      pretend(p, p->ranks > 2 ? 3 : 1, who == p->rank ? FAST : SLOW, true);
      for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t k = 0; k < count; k++) in[r * count + k] = (uint32_t)k + (p->rank << 8) + r + i;
      if (!good(p, tutti_alltoall(p->comm, in, out, count, TUTTI_U32), "alltoall")) break;
      for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t k = 0; k < count; k++)
          if (out[r * count + k] != (uint32_t)k + (r << 8) + p->rank + i) {
            wrong(p, "rank %u: call %u of %zu items: item %zu from rank %u is wrong", p->rank, i, count, k, r);
            break;
          }
    }
  free(in);
  free(results);
}

/* A program may forbid other processes to read its memory at any time. */
static void not_dumpable(struct player *p) {
  const struct ref_case c = {.collective = TUTTI_ALLTOALL, .seed = p->seed};
  try_all(p, true);
  exchange(p, c, CROWDED);
  if (p->rank == 1 && prctl(PR_SET_DUMPABLE, 0) != 0) wrong(p, "prctl(PR_SET_DUMPABLE) failed");
  exchange(p, c, p->rank != 1 ? CROWDED : SIZE_MAX);
}

/* In another PID namespace, the number of a rank may be that of another process, whose memory is then found to be another. */
static void another_process(struct player *p) {
  const struct ref_case c = {.collective = TUTTI_ALLTOALL, .seed = p->seed};
  for (uint32_t odd = 0; odd < p->ranks && p->ranks > 1; odd++) {
    if (p->rank == odd) tu_transport_head(p->transport, p->transport->rank)->mark ^= 2;
    try_all(p, p->rank == odd);
    conform(p, &c, NULL);
    troupe_meet(p);
    if (p->rank == odd) tu_transport_head(p->transport, p->transport->rank)->mark ^= 2;
    troupe_meet(p);
  }
}

/* A page in the middle of what rank 0 sends to rank 1, which no process can read: a mistake of the program, which ends the
 * call. Other ranks may have ended theirs before. */
static void a_hole(struct player *p) {
  const size_t page = 65536, block = CROWDED + 2 * page, bytes = p->ranks * block;
  unsigned char *in = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                *out = calloc(1, bytes);
  if (in == MAP_FAILED || !out) abort();
  try_all(p, true);
  if (p->rank == 0 && mprotect(in + block + page, page, PROT_NONE) != 0) abort();
  tutti_err err = tutti_alltoall(p->comm, in, out, block, TUTTI_U8);
  const char *text = tutti_error_message(p->comm);
  const bool may_end = p->rank > 1 && err == TUTTI_OK;
  if (!may_end && (err != TUTTI_ERR_SYSTEM || !strstr(text, "cannot read") || !strstr(text, "memory of rank 0")))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), text);
  munmap(in, bytes);
  free(out);
}

static void some_memory_is_not_readable(void) {
  const size_t page = 65536;
  unsigned char *memory = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + 2 * page, page, PROT_NONE) != 0) abort();
  CHECK(tu_peer_memory_is_readable(memory, 2 * page), "memory of this process is not readable");
  CHECK(!tu_peer_memory_is_readable(memory, 2 * page + 1), "a page without permissions counts as readable");
  CHECK(!tu_peer_memory_is_readable(memory + 2 * page, 1), "a page without permissions counts as readable");
  munmap(memory, 3 * page);
}

/* Compares with the system call itself, for all memory of this process: some of it is read-only, and some, such as [vvar],
 * belongs to the kernel or to a device. */
static void memory_that_the_kernel_reads(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long long first, end;
  int yes = 0, no = 0;
  if (!maps) abort();
  while (fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%llx-%llx", &first, &end) != 2) continue;
    for (int at_end = 0; at_end < 2; at_end++) {
      unsigned char *at, byte;
      const uintptr_t address = (uintptr_t)(at_end ? end - 1 : first);
      memcpy(&at, &address, sizeof at);
      const struct iovec here = {&byte, 1}, there = {at, 1};
      const bool can = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
      can ? yes++ : no++;
      CHECK(tu_peer_memory_is_readable(at, 1) == can, "%s byte of %s", at_end ? "last" : "first", line);
    }
  }
  fclose(maps);
  CHECK(yes > 0, "no memory can be read");
  printf("  %d bytes can be read, %d cannot\n", yes, no);
}

static uint64_t seed;

static void play(void (*run)(struct player *p)) {
  for (uint32_t ranks = 1; ranks <= 5; ranks++)
    (void)troupe_perform((struct troupe){.run = run, .ranks = ranks, .seed = seed + ranks}, troupe_over_shm);
}

static void test_all_forms(void) { play(all_forms); }
static void test_where_it_is_faster(void) { play(where_it_is_faster); }
static void test_ranks_differ(void) { play(ranks_differ); }
static void test_not_dumpable(void) { play(not_dumpable); }
static void test_another_process(void) { play(another_process); }
static void test_a_hole(void) {
  for (uint32_t ranks = 2; ranks <= 4; ranks++)
    (void)troupe_perform((struct troupe){.run = a_hole, .ranks = ranks, .seed = seed, .fails = true}, troupe_over_shm);
}

/* Returns true if this system lets a process read the memory of its child. */
static bool is_allowed(void) {
  static char there = 1, here;
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  struct iovec from = {&there, 1}, to = {&here, 1};
  const bool allowed = child > 0 && process_vm_readv(child, &to, 1, &from, 1, 0) == 1;
  if (child > 0) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
  }
  return allowed;
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"all_forms", test_all_forms},
                                      {"where_it_is_faster", test_where_it_is_faster},
                                      {"ranks_differ", test_ranks_differ},
                                      {"not_dumpable", test_not_dumpable},
                                      {"another_process", test_another_process},
                                      {"a_hole", test_a_hole},
                                      {"some_memory_is_not_readable", some_memory_is_not_readable},
                                      {"memory_that_the_kernel_reads", memory_that_the_kernel_reads}};
  ranks_clear_environment();
  seed = test_seed();
#ifdef __SANITIZE_THREAD__
  printf("skipped: processes only\n0 passed, 0 failed\n");
  return 77;
#endif
  if (!is_allowed()) {
    printf("skipped: this system does not let processes read each other's memory\n0 passed, 0 failed\n");
    return 77;
  }
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
