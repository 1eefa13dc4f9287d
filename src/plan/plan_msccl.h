/* plan_msccl.h: an MSCCL algorithm as it stands in its XML file, between its reader (plan_msccl_xml.c) and what makes a
 * plan of it (plan_msccl.c).
 *
 * The form is that of microsoft/msccl-tools (msccl/language/ir.py writes it) as microsoft/msccl and RCCL read it
 * (src/misc/msccl/msccl_parser.cc there) and carry it out (src/collectives/device/msccl_interpreter.h). */
#ifndef TU_PLAN_MSCCL_H
#define TU_PLAN_MSCCL_H

#include "plan/plan.h"

#define TU_MSCCL_NONE UINT32_MAX

enum tu_msccl_type {
  TU_MSCCL_S,    /* source -> peer */
  TU_MSCCL_R,    /* peer -> target */
  TU_MSCCL_RCS,  /* peer -> target -> peer */
  TU_MSCCL_RRS,  /* source op peer -> peer */
  TU_MSCCL_RRC,  /* source op peer -> target */
  TU_MSCCL_RRCS, /* source op peer -> target -> peer */
  TU_MSCCL_CPY,  /* source -> target */
  TU_MSCCL_RE,   /* target op source -> target */
  TU_MSCCL_NOP   /* waits */
};

struct tu_msccl_step {
  uint32_t line;
  uint8_t type;                /* enum tu_msccl_type */
  bool signals;                /* hasdep: who waits for it is told */
  struct tu_span source;       /* first = TU_MSCCL_NONE: -1 */
  struct tu_span target;       /* both are there in every step, and not all types use them */
  uint32_t wait_tb, wait_step; /* depid, deps: a threadblock of this GPU and a step of it; TU_MSCCL_NONE */
};

/* A threadblock: its steps run one after the other. */
struct tu_msccl_tb {
  uint32_t line;
  uint32_t gpu;
  uint32_t send, recv; /* peers, or TU_MSCCL_NONE */
  uint8_t lane;
  uint32_t step_first, step_count;
};

struct tu_msccl_gpu {
  uint32_t line;
  uint32_t chunks[3]; /* i_chunks, o_chunks, s_chunks, by enum tu_buffer */
  uint32_t tb_first, tb_count;
};

struct tu_msccl {
  struct tu_arena arena;
  const char *file; /* its name, for messages */
  uint32_t line;    /* of <algo> */
  char name[TU_NAME_BYTES];
  tutti_collective collective;
  uint32_t ranks, channels;
  uint32_t chunks; /* nchunksperloop */
  bool in_place, out_of_place;
  struct tu_msccl_gpu *gpus; /* [ranks], by id */
  struct tu_msccl_tb *tbs;   /* of one GPU after the other, by id */
  struct tu_msccl_step *steps;
  uint32_t gpu_count, tb_count, step_count;
};

#define TU_MSCCL_TBS_MAX 1024u /* of a GPU; MSCCL itself has room for 216 */

/* Reads the tables; what an attribute may be is checked, how they fit together is not. Fini in every case. */
tutti_err tu_msccl_read(const char *data, size_t bytes, const char *name, struct tu_msccl *file,
                        struct tu_error *error);
void tu_msccl_fini(struct tu_msccl *file);

#endif
