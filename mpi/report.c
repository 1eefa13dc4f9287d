/* report.c: counts what was routed and what was left to the MPI. */
#include <stdio.h>
#include <string.h>

#include "door.h"

static uint64_t counted[TM_KINDS][TM_FORMS][TM_REASONS];

static const char *const reasons[TM_REASONS] = {
    [TM_ROUTED] = "routed",
    [TM_CLOSED] = "before MPI_Init or after MPI_Finalize",
    [TM_INTERCOMM] = "intercommunicator",
    [TM_OTHER_JOB] = "ranks of another MPI_COMM_WORLD",
    [TM_UNSETTLED] = "no blocking collective yet on a communicator of MPI_Comm_idup",
    [TM_NEW] = "one of many communicators, with few blocking collectives so far",
    [TM_NO_MEMORY] = "no memory for the communicator",
    [TM_OPERATION] = "operation and datatype",
    [TM_ARGUMENTS] = "wrong arguments",
    [TM_NOT_TAKEN] = "function that is not taken",
};

/* Several threads may count at once. */
static void add(uint64_t *number) { __atomic_fetch_add(number, 1, __ATOMIC_RELAXED); }

void tm_count_call(enum tm_kind kind, enum tm_form form, enum tm_reason reason) { add(&counted[kind][form][reason]); }

/* Functions that the door never takes. */
enum { OTHERS_MAX = 64 };
static struct {
  const char *_Atomic name; /* a string constant of the caller */
  uint64_t count;
} others[OTHERS_MAX];

void tm_count_other(const char *function) {
  for (int i = 0; i < OTHERS_MAX; i++) {
    const char *name = NULL;
    if (!atomic_compare_exchange_strong(&others[i].name, &name, function) && name != function) continue;
    add(&others[i].count);
    return;
  }
}

static void name_form(char *text, size_t bytes, int kind, int form) {
  const char *name = tm_kind_names[kind];
  if (form == TM_NONBLOCKING) snprintf(text, bytes, "MPI_I%c%s", name[0] + 'a' - 'A', name + 1);
  else
    snprintf(text, bytes, "MPI%s_%s%s", form == TM_PERSISTENT && TM_OPEN_MPI ? "X" : "", name,
             form == TM_PERSISTENT ? "_init" : "");
}

static void print_table(uint64_t (*sum)[TM_FORMS][TM_REASONS]) {
  unsigned long long routed = 0, left = 0;
  for (int k = 0; k < TM_KINDS; k++)
    for (int f = 0; f < TM_FORMS; f++)
      for (int r = 0; r < TM_REASONS; r++) {
        char name[64];
        if (sum[k][f][r] == 0) continue;
        *(r == TM_ROUTED ? &routed : &left) += sum[k][f][r];
        name_form(name, sizeof name, k, f);
        fprintf(stderr, "tutti-mpi:   %-30s %10llu  %s%s\n", name, (unsigned long long)sum[k][f][r],
                r == TM_ROUTED ? "" : "left to " TM_MPI_NAME ": ", reasons[r]);
      }
  for (int i = 0; i < OTHERS_MAX && others[i].name; i++)
    fprintf(stderr, "tutti-mpi:   %-30s %10llu  left to " TM_MPI_NAME ": %s (rank 0)\n", others[i].name,
            (unsigned long long)others[i].count, reasons[TM_NOT_TAKEN]);
  fprintf(stderr, "tutti-mpi: %llu calls of %d ranks: %llu routed, %llu left to " TM_MPI_NAME "\n", routed + left,
          tm_door.ranks, routed, left);
}

void tm_report(void) {
  static uint64_t sum[TM_KINDS][TM_FORMS][TM_REASONS];
  const uint64_t mine[2] = {tm_verify_calls(), tm_verify_differences()};
  uint64_t all[2];
  PMPI_Reduce(counted, sum, sizeof counted / sizeof(uint64_t), MPI_UINT64_T, MPI_SUM, 0, tm_door.lobby);
  PMPI_Reduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, 0, tm_door.lobby);
  if (tm_door.rank != 0) return;
  print_table(sum);
  if (tm_door.mode == TM_VERIFY)
    fprintf(stderr, "tutti-mpi: verify: %llu results compared, %llu differences\n", (unsigned long long)all[0],
            (unsigned long long)all[1]);
}
