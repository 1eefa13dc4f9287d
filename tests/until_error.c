/* until_error.c: a rank of a job that calls allreduce until a call fails, or a file appears, and prints which:
 * `until_error ELEMENTS FILE [fork | late]`. With fork, each rank first forks a child that outlives it. With late, the
 * last rank makes no call, so that the others wait for it without data under way.
 *
 * It prints one line: "knew MICROSECONDS ERROR MESSAGE", the time of the clock that `date` shows; or "done ROUNDS". The
 * exit status is 0 in both cases, and 1 if an element is wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

static tutti_comm *world;

static int report(const tutti_comm *comm, tutti_err err) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  printf("knew %lld %s %s\n", (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000, tutti_err_name(err),
         tutti_error_message(comm));
  return 0;
}

/* The first element tells all ranks that rank 0 has seen the file. */
static int call_until(const char *file, size_t elements) {
  int32_t *in = malloc(elements * sizeof *in), *out = malloc(elements * sizeof *out);
  if (!in || !out) return 2;
  const int32_t ranks = (int32_t)tutti_ranks(world), rank = (int32_t)tutti_rank(world);
  int status = 0;
  for (int32_t round = 0; status == 0; round++) {
    for (size_t i = 0; i < elements; i++) in[i] = round % 1000 + rank + (int32_t)(i % 1000);
    in[0] = rank == 0 && access(file, F_OK) == 0;
    const tutti_err err = tutti_allreduce(world, in, out, elements, TUTTI_I32, TUTTI_SUM);
    if (err != TUTTI_OK) {
      status = report(world, err);
      break;
    }
    for (size_t i = 1; i < elements; i++) {
      const int32_t wanted = ranks * (round % 1000 + (int32_t)(i % 1000)) + ranks * (ranks - 1) / 2;
      if (out[i] != wanted) status = 1;
    }
    if (status == 1) printf("wrong in round %d\n", round);
    else if (out[0] != 0) {
      printf("done %d\n", round + 1);
      break;
    } else if (round == 0) {
      printf("begun\n");
    }
  }
  free(in);
  free(out);
  return status;
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  const size_t elements = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
  const char *how = argc > 3 ? argv[3] : "";
  if (elements == 0 || (*how && strcmp(how, "fork") != 0 && strcmp(how, "late") != 0)) {
    fprintf(stderr, "usage: until_error ELEMENTS FILE [fork | late]\n");
    return 2;
  }
  const tutti_err err = tutti_init(NULL, &world);
  if (err != TUTTI_OK) return report(NULL, err);
  if (strcmp(how, "fork") == 0 && fork() == 0) {
    for (;;) pause();
  }
  if (strcmp(how, "late") == 0) {
    if (tutti_barrier(world) != TUTTI_OK) return report(world, TUTTI_ERR_PEER);
    printf("begun\n");
    while (tutti_rank(world) == tutti_ranks(world) - 1 && access(argv[2], F_OK) != 0) usleep(10000);
  }
  const int status = call_until(argv[2], elements);
  const tutti_err freed = tutti_comm_free(world);
  if (freed != TUTTI_OK && status == 0) printf("free: %s\n", tutti_error_message(NULL));
  return status;
}
