/* world.h: the simulated world: what the copies of the library, the scheduler and the programs of ranks share.
 *
 * A world is one process with one thread. Each rank is a coroutine with a copy of the library of its own (copy.c), so
 * what is static or thread-local in the library belongs to one rank, as in processes. Time, scheduling, memory and
 * faults come from the world (world.c), which draws them from a seed. */
#ifndef WORLD_H
#define WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/tutti.h>

#include "tests/fake_fabric.h"

enum {
  WORLD_RANKS_MAX = 6,
  WORLD_ACTS_MAX = 40,
  WORLD_COMMS_MAX = 6,    /* slots for communicators; slot 0 holds the world */
  WORLD_REQUESTS_MAX = 4, /* slots for open requests */
  WORLD_FAULTS_MAX = 3,
  WORLD_HOSTS_MAX = 3
};
#define WORLD_ACT_ALLOCATIONS 64u
#define WORLD_NO_ACT UINT32_MAX /* the making of the world's communicator, before the first act */

/* ---- programs ---- */

enum world_kind {
  WORLD_CALL,     /* a collective, in one of several forms */
  WORLD_EXCHANGE, /* each rank sends to the next one and receives from the one before */
  WORLD_BURST,    /* the same with many messages of two tags, received in another order */
  WORLD_TENSOR,   /* a collective on tensors, which each rank lays out in its own way */
  WORLD_WINDOW,   /* the ranks put, get, or gather through a window that they make and free */
  WORLD_STREAM,   /* each rank sends a stream of messages to the next one */
  WORLD_FINISH,   /* waits for the request in a slot */
  WORLD_DUP,      /* makes a communicator in slot `made` */
  WORLD_SPLIT,    /* the same; ranks with equal colours share one */
  WORLD_CREATE,   /* the same; of the ranks that have colour 0 */
  WORLD_FREE,     /* frees the communicator */
  WORLD_CLOSE,    /* frees it without waiting for the other ranks */
  WORLD_LEAVE, /* each rank sends to the next one, and closes the communicator when it has received; slot: any but 0 */
  WORLD_COMPUTE, /* the ranks work outside the library; in the first such act one of them may work for long */
  WORLD_LIMIT,   /* the ranks set another time limit */
  WORLD_KINDS
};

enum world_form {
  WORLD_NAMED,
  WORLD_RUN,
  WORLD_START,
  WORLD_LATER,
  WORLD_PERSISTENT,
  WORLD_GROUP,
  WORLD_POLLED,
  WORLD_REPEATED, /* several times by name, on the same buffers */
  WORLD_DETACHED, /* without a handle */
  WORLD_FORMS
};

/* One step of a program. All ranks of the communicator in slot `comm` take part. */
struct world_act {
  enum world_kind kind;
  uint8_t comm, made, request;
  enum world_form form;
  uint64_t seed; /* of data, roots, colours, durations, ... */
};

enum world_mishap {
  WORLD_KILL,     /* the process dies */
  WORLD_EXIT,     /* the process exits without freeing anything */
  WORLD_PAUSE,    /* the process is stopped, and continued later */
  WORLD_STOP,     /* the process is stopped for good */
  WORLD_ABORT,    /* the rank calls tutti_abort */
  WORLD_MISMATCH, /* the rank makes another call than the others */
  WORLD_ABSENT,   /* the rank never makes its next call */
  WORLD_REFUSED,  /* an allocation of the rank fails */
  WORLD_CUT,      /* the connection to a rank of another host breaks */
  WORLD_SILENCE,  /* nothing passes between two hosts, for a while or for good */
  WORLD_OUTAGE,   /* the host is gone with all its ranks */
  WORLD_MISHAPS
};

/* Returns true if such a fault happens at an act, and not at a switch point or an allocation. */
bool world_is_at_act(enum world_mishap mishap);

struct world_fault {
  enum world_mishap mishap;
  uint32_t rank;
  /* Number of the rank's switch point, allocation or act. timed: simulated time, in ns; of a refused allocation: its
   * number in an act, plus WORLD_ACT_ALLOCATIONS times that of the act. */
  uint64_t at;
  bool timed;
};

struct world_program {
  uint64_t seed; /* of the schedule */
  uint32_t ranks, acts, faults;
  uint32_t share;                 /* ranks per core, as the library is told */
  int timeout_ms;                 /* of the world's communicator at first; others inherit that of their parent */
  size_t ring_bytes;              /* of the ring of a channel; 0: the default */
  uint32_t direct_bytes;          /* minimum of a message that is lent or stored */
  uint32_t host[WORLD_RANKS_MAX]; /* of each rank */
  /* The hosts that have a fabric: host i is bit i; 0: no host has one. Their ranks use it with ranks of the others. */
  uint32_t fabric_hosts;
  struct fake_fabric_traits fabric;
  struct world_act act[WORLD_ACTS_MAX];
  struct world_fault fault[WORLD_FAULTS_MAX];
};

/* Makes a program from a seed. fabric: of several hosts, of which at least two have a fabric. */
void world_program_make(struct world_program *program, uint64_t seed, bool fabric);
/* Prints it, to be read. */
void world_program_print(const struct world_program *program);
const char *world_kind_name(enum world_kind kind);
const char *world_mishap_name(enum world_mishap mishap);
/* Members of the communicator in a slot, as rank `rank` sees it before act `act`, in the order of its ranks. Returns
 * their number; 0: the slot is empty. */
uint32_t world_members(const struct world_program *program, uint32_t act, uint8_t slot, uint32_t rank,
                       uint32_t members[WORLD_RANKS_MAX]);
/* Returns the act before `act` that made the communicator in a slot; UINT32_MAX: the slot is empty, or holds the world. */
uint32_t world_maker(const struct world_program *program, uint32_t act, uint8_t slot);
bool world_makes(const struct world_act *act); /* the act makes a communicator */
/* The time limit of the communicator in a slot before an act, and the longest of all in the program, in ms. */
uint32_t world_limit(const struct world_program *program, uint32_t act, uint8_t slot);
uint32_t world_limit_max(const struct world_program *program);
/* Time for which a rank works in the act, in us. */
uint64_t world_work_us(const struct world_program *program, uint32_t act, uint32_t rank);
uint32_t world_colour(const struct world_act *act, uint32_t rank);
uint64_t world_mix(uint64_t seed, uint64_t a, uint64_t b);
/* Returns the number of ranks with smaller numbers on the same host (before), or of all ranks of the host. */
uint32_t world_local(const struct world_program *program, uint32_t rank);
uint32_t world_locals(const struct world_program *program, uint32_t host);
/* Returns true if the two ranks use the fabric with each other. */
bool world_speaks(const struct world_program *program, uint32_t rank, uint32_t other);

/* ---- what the world offers to the copies ---- */

unsigned world_direct_bytes(void); /* of the program (points.h) */
bool world_alive(uint32_t rank);
/* Reports a broken promise; the seed has then failed. */
void world_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The current rank begins or ends an act; with its result. WORLD_IMPATIENT is the message of a program that gives up. */
#define WORLD_IMPATIENT "the program has polled for long"
void world_begin_act(uint32_t act);
void world_end_act(uint32_t act, tutti_err err, const char *message);
/* The current rank has got an error that is not checked, and ends. */
void world_give_up(void);
/* Returns true if this rank's act is hit by a fault of this kind. */
bool world_is_hit(uint32_t act, enum world_mishap mishap);
_Noreturn void world_exit(void);
/* The current rank is never continued. */
void world_stop(void);
void world_sleep_us(uint64_t us);
/* Returns the dialer of the current rank. */
struct tu_dialer *world_dialer(uint32_t rank);
/* Returns the functions of libfabric. The caller tells the name of the endpoint that it has opened. */
const struct tu_fabric_library *world_fabric(void);
void world_name_endpoint(const void *name, size_t bytes);
/* Number of descriptors that a rank has. */
uint32_t world_descriptors(uint32_t rank);

/* A rank's part of a program, in its copy of the library. */
typedef void world_run_rank(const struct world_program *program, uint32_t rank, void *segment, size_t slice_bytes);

#endif
