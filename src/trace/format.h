/* format.h: the file in which a rank records what it does (TUTTI_TRACE). It has a head of TU_TRACE_HEAD_BYTES bytes, a ring
 * of events, and records behind the ring: communicators and programs, which the events name. The ring is memory that the
 * rank maps, so what it has recorded is in the file even if the rank is killed. Records are only appended, up to
 * TU_TRACE_RECORDS times the bytes of the ring, or 1 MiB: a program that calls with ever other sizes does not fill the disk.
 *
 * All numbers have the byte order of the rank's machine. */
#ifndef TU_TRACE_FORMAT_H
#define TU_TRACE_FORMAT_H

#include <stdint.h>

#define TU_TRACE_MAGIC "tutti trace v1\n"
enum {
  TU_TRACE_HEAD_BYTES = 4096,
  TU_TRACE_ORDER = 0x01020304,
  TU_TRACE_HOST_BYTES = 64,
  TU_TRACE_NAME_BYTES = 104,
  TU_TRACE_RECORDS = 8
};

struct tu_trace_head {
  char magic[16];
  uint32_t order; /* TU_TRACE_ORDER */
  uint32_t rank, ranks;
  uint32_t pid;
  uint64_t job; /* number of the job, the same on all its ranks */
  uint64_t began_ns;
  int64_t wall_ns;   /* the clock of the day, minus the clock of the events, when the trace began */
  uint64_t capacity; /* events that the ring holds */
  uint64_t written;  /* number of events recorded so far; event i is at place i % capacity */
  char host[TU_TRACE_HOST_BYTES];
  uint64_t left_out; /* calls that were not recorded, because there was no room for their programs */
};

enum tu_trace_kind {
  TU_TRACE_NONE,  /* an event that was not finished */
  TU_TRACE_BEGIN, /* a call begins. at: its program; bytes: sequence number of the collective, or tag of a message */
  TU_TRACE_STEP,  /* an instruction has advanced. at: which of the program; bytes: how far */
  TU_TRACE_LAST,  /* the same, and the instruction is finished */
  /* The call has ended. at: sender of a message from any rank, or UINT32_MAX; bytes: tag of a message */
  TU_TRACE_END,
  TU_TRACE_FAILED, /* the call has failed; the same */
  TU_TRACE_WAITED, /* the rank has waited for rank `at` of the call's communicator */
  TU_TRACE_DONE    /* TU_TRACE_LAST, and the end of a collective; who reads it makes two events of it */
};

struct tu_trace_event {
  uint64_t end_ns;  /* when it ended, or happened, by the monotonic clock of the host */
  uint32_t took_ns; /* how long it took; UINT32_MAX: as long or longer */
  uint32_t run;     /* number of the call on this rank, from 1 */
  uint32_t at;
  uint32_t kind; /* enum tu_trace_kind */
  uint64_t bytes;
};

/* A record: this head, `bytes` bytes, and zeros up to a multiple of 8. */
enum tu_trace_record_kind { TU_TRACE_COMM = 1, TU_TRACE_PROGRAM };
struct tu_trace_record {
  uint32_t kind, bytes;
};

/* A communicator. The numbers of its members in the job follow: uint32_t [ranks]. */
struct tu_trace_comm {
  uint64_t id;
  uint32_t rank, ranks;
};

/* The program of a call on this rank. Its steps and messages follow. */
struct tu_trace_program {
  uint64_t comm;  /* id of its communicator */
  uint64_t bytes; /* size of the longest buffer of any rank; UINT64_MAX: not known on all ranks */
  uint64_t moved; /* what it moves on this rank: bytes of all steps */
  uint32_t number;
  uint32_t step_count, message_count;
  uint32_t peer; /* of a message between two ranks; UINT32_MAX: any, or a collective */
  /* parameters of tu_build, if the plan is one of the library's */
  uint32_t collective, root, slot_pieces, segments, lanes;
  uint8_t in_place, canonical, placed, built;
  char algorithm[TU_TRACE_NAME_BYTES]; /* name of the algorithm, or of the program's plan */
  char call[TU_TRACE_NAME_BYTES];      /* for people, such as "allreduce(count 4, f32, algorithm ring, sum)" */
};

struct tu_trace_step {
  uint64_t bytes;
  uint32_t kind;                         /* enum tu_step_kind */
  uint32_t message_first, message_count; /* messages that it sends, or receives */
  uint32_t operands;                     /* of a reduction */
};

struct tu_trace_message {
  uint32_t peer; /* rank of the communicator */
  uint32_t lane;
  uint32_t ordinal; /* which of the program's messages on this channel */
  uint32_t sends;   /* 1: this rank sends it */
};

#endif
