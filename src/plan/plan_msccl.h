/* plan_msccl.h: tables of an MSCCL algorithm. plan_msccl_xml.c reads them from the XML file; plan_msccl.c makes a plan
 * from the tables.
 *
 * The file format is that of microsoft/msccl-tools (written by msccl/language/ir.py). microsoft/msccl and RCCL read it
 * (src/misc/msccl/msccl_parser.cc) and execute it (src/collectives/device/msccl_interpreter.h). */
#ifndef TU_PLAN_MSCCL_H
#define TU_PLAN_MSCCL_H

#include "plan/plan.h"

#define TU_MSCCL_NONE UINT32_MAX

enum tu_msccl_type {
  TU_MSCCL_S,    /* send: source -> peer */
  TU_MSCCL_R,    /* receive: peer -> target */
  TU_MSCCL_RCS,  /* receive, copy, send: peer -> target -> peer */
  TU_MSCCL_RRS,  /* receive, reduce, send: source op message -> peer */
  TU_MSCCL_RRC,  /* receive, reduce, copy: source op message -> target */
  TU_MSCCL_RRCS, /* receive, reduce, copy, send: source op message -> target -> peer */
  TU_MSCCL_CPY,  /* copy: source -> target */
  TU_MSCCL_RE,   /* reduce: target op source -> target */
  TU_MSCCL_NOP   /* no operation: only waits */
};

struct tu_msccl_step {
  uint32_t line;
  uint8_t type; /* enum tu_msccl_type */
  bool signals; /* attribute hasdep: the step signals its end, so that steps of other threadblocks can wait for it */
  struct tu_span source; /* span of the source; if srcoff is -1, its `first` is TU_MSCCL_NONE */
  struct tu_span target; /* span of the target; every step has one in the file, but not every type of step uses it */
  /* attributes depid and deps: threadblock of this GPU and its step to wait for; TU_MSCCL_NONE: no wait */
  uint32_t wait_tb, wait_step;
};

/* A threadblock. Its steps run one after the other. */
struct tu_msccl_tb {
  uint32_t line;
  uint32_t gpu;
  uint32_t send, recv; /* GPU that the threadblock sends to, and GPU that it receives from, or TU_MSCCL_NONE */
  uint8_t lane;
  uint32_t step_first, step_count;
};

struct tu_msccl_gpu {
  uint32_t line;
  /* numbers of chunks of the buffers, indexed by enum tu_buffer: attributes i_chunks, o_chunks and s_chunks */
  uint32_t chunks[3];
  uint32_t tb_first, tb_count;
};

struct tu_msccl {
  struct tu_arena arena;
  const char *file; /* name of the file, for error messages */
  uint32_t line;    /* line of the element <algo> in the file */
  char name[TU_NAME_BYTES];
  tutti_collective collective;
  uint32_t ranks, channels;
  uint32_t chunks; /* number of chunks that the attribute nchunksperloop states */
  bool in_place, out_of_place;
  struct tu_msccl_gpu *gpus; /* [ranks]: ordered by id */
  struct tu_msccl_tb *tbs;   /* threadblocks, ordered by GPU and then by id */
  struct tu_msccl_step *steps;
  uint32_t gpu_count, tb_count, step_count;
};

#define TU_MSCCL_TBS_MAX 1024u /* maximum number of threadblocks of a GPU; 216 in MSCCL itself */

/* Reads the tables from the file. Checks the value of each attribute, but not whether the tables are consistent. The
 * caller must call tu_msccl_fini, even after an error. */
tutti_err tu_msccl_read(const char *data, size_t bytes, const char *name, struct tu_msccl *file,
                        struct tu_error *error);
void tu_msccl_fini(struct tu_msccl *file);

#endif
