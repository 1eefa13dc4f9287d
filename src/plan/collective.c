/* collective.c: the table of collectives, and functions that number and classify blocks by this table. */
#include "plan/collective.h"

#include <string.h>

#include "base/text.h"

#define SUM TU_SUM_OF_ALL
const struct tu_collective tu_collectives[TU_COLLECTIVES] = {
    /* columns: name, family, vector, rooted, in, out, in_at_root, out_at_root, promise (what OUT must hold) */
    [TUTTI_ALLREDUCE] = {"allreduce", TUTTI_ALLREDUCE, false, false, TU_ONE, TU_ONE, false, false, SUM},
    [TUTTI_REDUCE] = {"reduce", TUTTI_REDUCE, false, true, TU_ONE, TU_ONE, false, true, SUM},
    [TUTTI_BROADCAST] = {"broadcast", TUTTI_BROADCAST, false, true, TU_ONE, TU_ONE, true, false, TU_COPY_OF},
    [TUTTI_GATHER] = {"gather", TUTTI_GATHER, false, true, TU_ONE, TU_EACH, false, true, TU_COPY_OF},
    [TUTTI_SCATTER] = {"scatter", TUTTI_SCATTER, false, true, TU_EACH, TU_ONE, true, false, TU_COPY_OF},
    [TUTTI_ALLGATHER] = {"allgather", TUTTI_ALLGATHER, false, false, TU_ONE, TU_EACH, false, false, TU_COPY_OF},
    [TUTTI_REDUCE_SCATTER] = {"reduce_scatter", TUTTI_REDUCE_SCATTER, false, false, TU_EACH, TU_ONE, false, false, SUM},
    [TUTTI_ALLTOALL] = {"alltoall", TUTTI_ALLTOALL, false, false, TU_EACH, TU_EACH, false, false, TU_COPY_OF},
    [TUTTI_BARRIER] = {"barrier", TUTTI_BARRIER, false, false, TU_ONE, TU_ONE, false, false, TU_NOTHING},
    [TUTTI_SCAN] = {"scan", TUTTI_SCAN, false, false, TU_ONE, TU_ONE, false, false, TU_SUM_TO},
    [TUTTI_EXSCAN] = {"exscan", TUTTI_EXSCAN, false, false, TU_ONE, TU_ONE, false, false, TU_SUM_BEFORE},
    [TUTTI_GATHERV] = {"gatherv", TUTTI_GATHER, true, true, TU_ONE, TU_EACH, false, true, TU_COPY_OF},
    [TUTTI_SCATTERV] = {"scatterv", TUTTI_SCATTER, true, true, TU_EACH, TU_ONE, true, false, TU_COPY_OF},
    [TUTTI_ALLGATHERV] = {"allgatherv", TUTTI_ALLGATHER, true, false, TU_ONE, TU_EACH, false, false, TU_COPY_OF},
    [TUTTI_REDUCE_SCATTERV] = {"reduce_scatterv", TUTTI_REDUCE_SCATTER, true, false, TU_EACH, TU_ONE, false, false,
                               SUM},
    [TUTTI_ALLTOALLV] = {"alltoallv", TUTTI_ALLTOALL, true, false, TU_EACH, TU_EACH, false, false, TU_COPY_OF},
    [TUTTI_SEND] = {"send", TUTTI_SEND, false, true, TU_ONE, TU_ONE, true, false, TU_COPY_OF},
    [TUTTI_RECV] = {"recv", TUTTI_SEND, false, true, TU_ONE, TU_ONE, true, false, TU_COPY_OF},
};

const char *tutti_collective_name(tutti_collective collective) {
  return tu_is_collective(collective) ? tu_collectives[collective].name : "unknown";
}

bool tu_collective_find(const char *name, tutti_collective *collective) {
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c)) {
    if (strcmp(name, tu_collectives[c].name) != 0) continue;
    *collective = c;
    return true;
  }
  return false;
}

const char *tu_collective_nearest(const char *name) {
  const char *names[TU_COLLECTIVES];
  size_t count = 0;
  for (tutti_collective c = 0; c < TU_COLLECTIVES; c = tu_collective_next(c)) names[count++] = tu_collectives[c].name;
  return tu_nearest(name, names, count);
}

static uint32_t extent_blocks(enum tu_extent extent, uint32_t ranks) { return extent == TU_ONE ? 1 : ranks; }

uint32_t tu_in_blocks(tutti_collective c, uint32_t ranks, uint32_t root, uint32_t rank) {
  const struct tu_collective *k = &tu_collectives[c];
  return k->in_at_root && rank != root ? 0 : extent_blocks(k->in, ranks);
}

uint32_t tu_out_blocks(tutti_collective c, uint32_t ranks, uint32_t root, uint32_t rank) {
  const struct tu_collective *k = &tu_collectives[c];
  if (k->out_at_root && rank != root) return 0;
  if (k->family == TUTTI_SEND && rank == root) return 0;
  if (k->promise == TU_SUM_BEFORE && rank == 0) return 0;
  return extent_blocks(k->out, ranks);
}

struct tu_promised tu_promise_of(tutti_collective c, uint32_t ranks, uint32_t root, uint32_t rank, uint32_t block) {
  const struct tu_collective *k = &tu_collectives[c];
  /* The input block for this output: if the sender has one block per rank, the receiver's block, else the only
   * block. */
  uint32_t in_block = k->in == TU_EACH ? rank : 0;
  switch (k->promise) {
    case TU_SUM_OF_ALL: return (struct tu_promised){0, ranks, in_block};
    case TU_SUM_TO: return (struct tu_promised){0, rank + 1, in_block};
    case TU_SUM_BEFORE: return (struct tu_promised){0, rank, in_block};
    default: break;
  }
  uint32_t from = k->in_at_root ? root : block;
  return (struct tu_promised){from, from + 1, in_block};
}

uint32_t tu_alias_offset(tutti_collective c, uint32_t rank) {
  const struct tu_collective *k = &tu_collectives[c];
  return k->in == k->out ? 0 : rank;
}

uint32_t tu_size_class(tutti_collective c, uint32_t ranks, uint32_t rank, bool is_out, uint32_t block) {
  const struct tu_collective *k = &tu_collectives[c];
  if (k->in == TU_EACH && k->out == TU_EACH) return is_out ? block * ranks + rank : rank * ranks + block;
  if (k->in == k->out) return 0;
  enum tu_extent extent = is_out ? k->out : k->in;
  return extent == TU_EACH ? block : rank;
}
