/* state.h: what the ranks of a job do, read from its segment at one moment. The reader is no rank (segment.h), so it
 * changes nothing, and the ranks go on meanwhile: parts of a state may be some microseconds apart. */
#ifndef TU_STATE_H
#define TU_STATE_H

#include "comm/facts.h"
#include "mover/board.h"
#include "sight/segment.h"

/* What is known about the process of a rank. */
enum tu_rank_life {
  TU_RANK_ABSENT, /* it has not joined the job yet */
  TU_RANK_LIVES,
  TU_RANK_CLOSED, /* it has left the job in order (tutti_comm_free of the world), and may have exited since */
  TU_RANK_DEAD    /* it has died or exited */
};

/* A rank of this host. */
struct tu_rank_state {
  enum tu_rank_life life;
  uint32_t rank; /* in the job */
  pid_t pid;
  char host[64];
  char run;        /* state of the process as in /proc/PID/stat: R, S, D, T, t, Z; '?': unknown */
  uint64_t cpu_ns; /* CPU time of the process */
  struct tu_waits waits[TU_WAITS_THREADS]; /* count 0: none */
};

/* A member of a communicator. */
struct tu_member_state {
  uint32_t rank;   /* in the job */
  bool here;       /* it runs on this host; of the others is known what they have told ranks of this host */
  bool departed;   /* it has freed the communicator */
  bool known;      /* `facts` are those of its last call */
  uint64_t latest; /* number of its last collective; 0: none */
  uint64_t messages, message_bytes;
  uint64_t waited_ns, awaited_ns; /* see comm/stats.h */
  struct tu_call_facts facts;
};

struct tu_comm_state {
  uint64_t comm_id;
  uint32_t ranks;
  struct tu_member_state *members; /* [ranks], owned */
  struct tu_error verdict;         /* code TUTTI_OK: it has not failed */
};

struct tu_job_state {
  uint64_t now;               /* when it was read, on tu_clock_ns() */
  uint64_t began_ns;          /* start of the job */
  uint32_t ranks;             /* of the job */
  uint32_t here;              /* on this host */
  struct tu_rank_state *rank; /* [here], owned */
  struct tu_comm_state *comm; /* [comms], owned: in ascending order of their ids, the world first */
  uint32_t comms;
};

/* Reads the state of a job. Error: TUTTI_ERR_MEMORY. The caller calls tu_job_state_fini in any case. */
tutti_err tu_job_state_read(const struct tu_segment *segment, struct tu_job_state *state, struct tu_error *error);
/* Adds the state of ranks of another host, whose content moves to *state. Error: TUTTI_ERR_MEMORY. */
tutti_err tu_job_state_merge(struct tu_job_state *state, struct tu_job_state *from, struct tu_error *error);
void tu_job_state_fini(struct tu_job_state *state);

/* Returns the rank of the job with that number; NULL: it does not run on this host. */
const struct tu_rank_state *tu_job_state_rank(const struct tu_job_state *state, uint32_t rank);
/* Returns the communicator's member with that number in the job; NULL: not a member. */
const struct tu_member_state *tu_comm_state_member(const struct tu_comm_state *comm, uint32_t rank);
/* Returns the communicator; NULL: there is none with that id. */
const struct tu_comm_state *tu_job_state_comm(const struct tu_job_state *state, uint64_t comm_id);
/* Returns the wait of a rank that began first and still lasts; NULL: it does not wait. */
const struct tu_waits *tu_rank_state_wait(const struct tu_rank_state *rank);

#endif
