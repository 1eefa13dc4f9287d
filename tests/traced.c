/* traced.c: a program for tests of traces: `traced WHAT [VICTIM [FILE]]`. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

enum { TIMES = 10, PAUSE_US = 50000, THREADS = 3, OPEN = 50, SIZES = 4000 };

static void must(tutti_err err, const char *what) {
  if (err == TUTTI_OK) return;
  fprintf(stderr, "%s: %s\n", what, tutti_error_message(NULL));
  exit(1);
}

static void reduce(tutti_comm *comm) {
  double in[64] = {1}, out[64];
  must(tutti_allreduce(comm, in, out, 64, TUTTI_F64, TUTTI_SUM), "allreduce");
}

/* The victim sleeps before each call. Rank 0 prints how long the ranks have waited, and were waited for, in ns. */
static void be_slow(tutti_comm *world, uint32_t victim) {
  for (int i = 0; i < TIMES; i++) {
    if (tutti_rank(world) == victim) usleep(PAUSE_US);
    reduce(world);
  }
  for (uint32_t r = 0; r < tutti_ranks(world); r++) {
    tutti_rank_stats stats;
    must(tutti_stats(world, r, &stats), "stats");
    if (tutti_rank(world) == 0)
      printf("%u %llu %llu\n", r, (unsigned long long)stats.waited_ns, (unsigned long long)stats.awaited_ns);
  }
}

/* The victim makes the file, and is killed. */
static void be_killed(tutti_comm *world, uint32_t victim, const char *file) {
  for (int i = 0; i < TIMES; i++) reduce(world);
  if (tutti_rank(world) == victim) {
    FILE *there = fopen(file, "w");
    if (there) fprintf(there, "%d\n", (int)getpid()), fclose(there);
    raise(SIGKILL);
  }
  double in = 1, out;
  (void)!tutti_allreduce(world, &in, &out, 1, TUTTI_F64, TUTTI_SUM);
}

/* The victim is killed while the others receive from it. */
static void be_orphaned(tutti_comm *world, uint32_t victim) {
  double out;
  reduce(world);
  if (tutti_rank(world) != victim) {
    (void)!tutti_recv(world, &out, 1, TUTTI_F64, victim, 0);
    return;
  }
  usleep(6 * PAUSE_US);
  raise(SIGKILL);
}

/* Many messages at once, in a ring, with few tags; the receivers do not know from whom. */
static void be_open(tutti_comm *world) {
  static double sent[OPEN][64], taken[OPEN][64];
  tutti_request *requests[2 * OPEN + 1];
  double in = 1, out;
  const uint32_t to = (tutti_rank(world) + 1) % tutti_ranks(world);
  must(tutti_iallreduce(world, &in, &out, 1, TUTTI_F64, TUTTI_SUM, &requests[2 * OPEN]), "iallreduce");
  for (uint32_t i = 0; i < OPEN; i++) {
    must(tutti_irecv(world, taken[i], 64, TUTTI_F64, TUTTI_ANY_RANK, i % 3, &requests[2 * i]), "irecv");
    must(tutti_isend(world, sent[i], 64, TUTTI_F64, to, i % 3, &requests[2 * i + 1]), "isend");
  }
  must(tutti_wait_all(requests, 2 * OPEN + 1), "wait");
}

static void *reduce_often(void *comm) {
  for (int i = 0; i < TIMES; i++) reduce(comm);
  return NULL;
}

static void run_threads(tutti_comm *world) {
  tutti_comm *comms[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) must(tutti_comm_dup(world, &comms[i]), "dup");
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, reduce_often, comms[i]) != 0) exit(1);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    must(tutti_comm_free(comms[i]), "free");
  }
}

/* Communicators that have the same id, but not the same ranks. */
static void split(tutti_comm *world) {
  tutti_comm *part;
  must(tutti_comm_split(world, (int)(tutti_rank(world) % 2), 0, &part), "split");
  for (int i = 0; i < TIMES; i++) reduce(part);
  must(tutti_comm_free(part), "free");
}

/* Each call has another size. */
static void vary_sizes(tutti_comm *world) {
  static double in[SIZES], out[SIZES];
  for (size_t i = 1; i < SIZES; i++) must(tutti_allreduce(world, in, out, i, TUTTI_F64, TUTTI_SUM), "allreduce");
}

/* The program closes all descriptors, and opens files, which get the numbers that the library had. They stay empty. */
static void close_all(tutti_comm *world, const char *name) {
  char path[64];
  double in[8] = {1}, out[8];
  if (chdir("..") != 0) exit(1);
  for (int fd = 3; fd < 256; fd++) close(fd);
  for (int i = 0; i < 64; i++) {
    snprintf(path, sizeof path, "%s.%u.%d", name, tutti_rank(world), i);
    if (!fopen(path, "w")) exit(1);
  }
  for (size_t i = 1; i <= 8; i++) must(tutti_allreduce(world, in, out, i, TUTTI_F64, TUTTI_SUM), "allreduce");
}

static void fork_child(tutti_comm *world) {
  reduce(world);
  const pid_t child = fork();
  double in = 1, out;
  if (child == 0) exit(tutti_allreduce(world, &in, &out, 1, TUTTI_F64, TUTTI_SUM) == TUTTI_OK);
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) exit(1);
  reduce(world);
}

/* Two worlds, one after the other, or both at once. The second one has one call more. */
static void run_worlds(bool at_once) {
  tutti_comm *first, *second;
  must(tutti_init(NULL, &first), "init");
  reduce(first);
  if (!at_once) must(tutti_comm_free(first), "free");
  must(tutti_init(NULL, &second), "init");
  reduce(second);
  if (at_once) reduce(first);
  reduce(second);
  must(tutti_comm_free(second), "free");
  if (at_once) must(tutti_comm_free(first), "free");
}

int main(int argc, char **argv) {
  tutti_comm *world;
  const char *what = argc > 1 ? argv[1] : "";
  const uint32_t victim = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
  if (strncmp(what, "worlds", 6) == 0) {
    run_worlds(strcmp(what, "worlds") == 0);
    return 0;
  }
  must(tutti_init(NULL, &world), "init");
  if (strcmp(what, "slow") == 0) be_slow(world, victim);
  if (strcmp(what, "killed") == 0 && argc > 3) be_killed(world, victim, argv[3]);
  if (strcmp(what, "orphaned") == 0) be_orphaned(world, victim);
  if (strcmp(what, "open") == 0) be_open(world);
  if (strcmp(what, "threads") == 0) run_threads(world);
  if (strcmp(what, "sizes") == 0) vary_sizes(world);
  if (strcmp(what, "closes") == 0 && argc > 3) close_all(world, argv[3]);
  if (strcmp(what, "split") == 0) split(world);
  if (strcmp(what, "fork") == 0) fork_child(world);
  return tutti_comm_free(world) != TUTTI_OK;
}
