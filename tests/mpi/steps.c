/* steps.c: counts the machine instructions of a call of MPI, and of the same call of tutti, by single steps: `steps` runs itself
 * under ptrace. With one rank no rank waits for another, so the number does not depend on time. Prints a line "NAME MPI
 * TUTTI" for each call that repeats an earlier one: with the door, the difference is what the door costs. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#if !defined(__x86_64__)
int main(void) { return 77; }
#else

enum { ALLREDUCE, REDUCE, BCAST, ALLGATHER, BARRIER, IALLREDUCE, CALLS };
static const char *const names[CALLS] = {"MPI_Allreduce", "MPI_Reduce",  "MPI_Bcast",
                                         "MPI_Allgather", "MPI_Barrier", "MPI_Iallreduce"};
#define MARK __asm__ volatile("int3")

static float in[2] = {1, 2}, out[2];
static tutti_comm *self;

static void call_mpi(int which) {
  MPI_Request request;
  switch (which) {
    case ALLREDUCE: MPI_Allreduce(in, out, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF); break;
    case REDUCE: MPI_Reduce(in, out, 2, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_SELF); break;
    case BCAST: MPI_Bcast(in, 2, MPI_FLOAT, 0, MPI_COMM_SELF); break;
    case ALLGATHER: MPI_Allgather(in, 2, MPI_FLOAT, out, 2, MPI_FLOAT, MPI_COMM_SELF); break;
    case BARRIER: MPI_Barrier(MPI_COMM_SELF); break;
    default:
      MPI_Iallreduce(in, out, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

static tutti_err call_tutti(int which) {
  tutti_request *request;
  switch (which) {
    case ALLREDUCE: return tutti_allreduce(self, in, out, 2, TUTTI_F32, TUTTI_SUM);
    case REDUCE: return tutti_reduce(self, in, out, 2, TUTTI_F32, TUTTI_SUM, 0);
    case BCAST: return tutti_broadcast(self, in, 8, TUTTI_U8, 0);
    case ALLGATHER: return tutti_allgather(self, in, out, 8, TUTTI_U8);
    case BARRIER: return tutti_barrier(self);
    default: {
      const tutti_err err = tutti_iallreduce(self, in, out, 2, TUTTI_F32, TUTTI_SUM, &request);
      return err == TUTTI_OK ? tutti_wait(&request) : err;
    }
  }
}

static int make_calls(void) {
  int failures = 0;
  MPI_Init(NULL, NULL);
  if (tutti_init(&(tutti_options){.ranks = 1}, &self) != TUTTI_OK) return 1;
  for (int which = 0; which < CALLS; which++) {
    for (int i = 0; i < 20; i++) {
      call_mpi(which);
      failures += call_tutti(which) != TUTTI_OK;
    }
    call_mpi(which);
    MARK;
    call_mpi(which);
    MARK;
    failures += call_tutti(which) != TUTTI_OK;
    MARK;
    failures += call_tutti(which) != TUTTI_OK;
    MARK;
  }
  failures += tutti_comm_free(self) != TUTTI_OK;
  MPI_Finalize();
  return failures > 0;
}

/* Lets the process go on until it stops at a mark. Returns false when it has ended. */
static int go_on(pid_t child, int how, int *status) {
  int signal = 0;
  do {
    ptrace(how, child, NULL, (void *)(long)signal);
    if (waitpid(child, status, 0) != child || !WIFSTOPPED(*status)) return 0;
    signal = WSTOPSIG(*status) == SIGTRAP ? 0 : WSTOPSIG(*status);
  } while (signal != 0);
  return 1;
}

/* Returns true if the process has stopped behind a mark, the byte 0xcc, and not after a single step. */
static int is_mark(pid_t child) {
  siginfo_t info;
  ptrace(PTRACE_GETSIGINFO, child, NULL, &info);
  return info.si_code == SI_KERNEL;
}

static int count_steps(pid_t child) {
  int status, counted = 0;
  if (waitpid(child, &status, 0) != child) return 1;
  while (go_on(child, PTRACE_CONT, &status)) {
    long steps = 0;
    while (go_on(child, PTRACE_SINGLESTEP, &status) && !is_mark(child)) steps++;
    if (counted % 2 == 0) printf("%s %ld", names[counted / 2], steps);
    else printf(" %ld\n", steps);
    counted++;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv) {
  if (argc > 1) return make_calls();
  fflush(stdout);
  const pid_t child = fork();
  if (child != 0) return count_steps(child);
  ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  execl("/proc/self/exe", argv[0], "calls", (char *)NULL);
  return 1;
}
#endif
