/* troubled.c: a program that gets into trouble, for tests of `tutti top`. `troubled TROUBLE VICTIM FILE` calls allreduce ten
 * times; then the rank VICTIM does what TROUBLE says, the others call allreduce again, and FILE is made. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

static const char *there; /* name of the file that says that the trouble is there */

static void say_there(void) {
  FILE *file = fopen(there, "w");
  if (file) fprintf(file, "%d\n", (int)getpid()), fclose(file);
}

static void compute(void) {
  for (volatile uint64_t i = 0;; i++) continue;
}

static tutti_err reduce(tutti_comm *world) {
  double in[64] = {1}, out[64];
  return tutti_allreduce(world, in, out, 64, TUTTI_F64, TUTTI_SUM);
}

static void get_into_trouble(tutti_comm *world, const char *trouble) {
  uint32_t next = (tutti_rank(world) + 1) % tutti_ranks(world);
  double x;
  say_there();
  if (strcmp(trouble, "stopped") == 0) raise(SIGSTOP);
  else if (strcmp(trouble, "computes") == 0) compute();
  else if (strcmp(trouble, "dies") == 0) raise(SIGKILL);
  else if (strcmp(trouble, "receives") == 0) (void)!tutti_recv(world, &x, 1, TUTTI_F64, next, 7);
  for (;;) sleep(1000);
}

/* Makes and frees worlds one after the other. */
static int make_worlds(void) {
  tutti_comm *world;
  for (int i = 0; i < 30; i++)
    if (tutti_init(NULL, &world) != TUTTI_OK || reduce(world) != TUTTI_OK || tutti_comm_free(world) != TUTTI_OK)
      return 1;
  say_there();
  return sleep(1000) != 0;
}

int main(int argc, char **argv) {
  tutti_comm *world;
  if (argc != 4) return 2;
  there = argv[3];
  if (strcmp(argv[1], "worlds") == 0) return make_worlds();
  if (tutti_init(NULL, &world) != TUTTI_OK) {
    fprintf(stderr, "%s\n", tutti_error_message(NULL));
    return 1;
  }
  for (int i = 0; i < 10; i++)
    if (reduce(world) != TUTTI_OK) return 1;
  if (strcmp(argv[1], "ends") == 0) return tutti_comm_free(world) != TUTTI_OK;
  if (strcmp(argv[1], "closes") == 0)
    for (int fd = 3; fd < 1024; fd++) close(fd);
  if (tutti_rank(world) == (uint32_t)atoi(argv[2])) get_into_trouble(world, argv[1]);
  if (reduce(world) != TUTTI_OK) fprintf(stderr, "%s\n", tutti_error_message(world));
  for (;;) sleep(1000); /* a rank that exits would end the job */
}
