/* why.h: which ranks make the others wait, from the state of a job (state.h). A rank that waits has published for which
 * ranks; from rank to rank these waits lead to those that do not wait, or cannot go on. The answer is right for a job that
 * hangs. In a job that runs, it names the ranks that are last at this moment. */
#ifndef TU_WHY_H
#define TU_WHY_H

#include "sight/state.h"

/* Why a rank at the end of a chain of waits does not go on, the most certain reasons first. */
enum tu_why_kind {
  TU_WHY_DEAD,     /* it has died or exited */
  TU_WHY_LEFT,     /* it has left the job, or freed the communicator */
  TU_WHY_ABSENT,   /* it has not joined the job */
  TU_WHY_STOPPED,  /* its process is stopped by a signal or a debugger */
  TU_WHY_NOT_COME, /* it has not started the call: its program does something else */
  TU_WHY_OUTSIDE,  /* it has started the call, but does not wait in the library */
  TU_WHY_SILENT,   /* it waits, but has not looked for its messages for SILENT_NS: its program does something else */
  TU_WHY_INPUT,    /* it waits until its own program fills in input */
  TU_WHY_SIGNAL,   /* it waits for a signal, or a message, of any rank */
  TU_WHY_ELSEWHERE /* it runs on a host whose state is not known */
};

struct tu_why_rank {
  enum tu_why_kind kind;
  uint32_t rank;    /* in the job */
  uint64_t since;   /* since when another rank has waited for it, on tu_clock_ns() */
  uint32_t waiters; /* ranks that wait for it, also through other ranks */
  uint64_t comm_id; /* the call in which they wait for it directly */
  uint64_t number;  /* of the collective; 0: another kind of call */
};

struct tu_why {
  uint32_t waiting;          /* ranks that wait */
  struct tu_why_rank *ranks; /* [count], owned: who makes them wait, the most certain first */
  uint32_t count;
  uint32_t
      *circle; /* [circle_count], owned: ranks that wait for each other, each for the next, if no rank is to blame */
  uint32_t circle_count;
};

/* Error: TUTTI_ERR_MEMORY. The caller calls tu_why_fini in any case. */
tutti_err tu_why_find(const struct tu_job_state *state, struct tu_why *why, struct tu_error *error);
void tu_why_fini(struct tu_why *why);

#endif
