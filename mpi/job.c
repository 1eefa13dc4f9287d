/* job.c: translates a call of the program into one of tutti. Moves are calls on bytes, because only the signatures of both
 * sides have to agree, not their datatypes. Contiguous data is used where it lies; other data goes through memory of the
 * job, packed by the MPI. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "door.h"

/* Longest element of a reduction by MPI_Reduce_local: tutti has slots of at least this length. */
#define ELEMENT_BYTES_MAX 8192
/* Largest part of data that one call of MPI_Pack gets, because it counts bytes as int. */
#define PACK_BYTES ((size_t)1 << 30)

static bool is_root(const struct tm_job *job) { return job->from->root == (int)job->comm->rank; }

static size_t count_of(const struct tm_packing *p, const struct tm_call *c, uint32_t block) {
  return p->by_counts ? (size_t)tm_count(c, p->side, block) : (size_t)p->side->count;
}

/* ---- what a side of a call holds ---- */

/* What begin_side finds out. */
struct held {
  size_t bytes; /* of all blocks */
  bool direct;  /* tutti may use the program's memory */
};

/* Looks at a side that holds `blocks` blocks. */
static enum tm_reason begin_side(const struct tm_job *job, struct tm_packing *p, const struct tm_side *s,
                                 uint32_t blocks, bool by_counts, struct held *held) {
  *p = (struct tm_packing){.side = s, .blocks = blocks, .by_counts = by_counts, .type = tm_type_find(s->type)};
  if (!p->type || (by_counts && !s->counts)) return TM_ARGUMENTS;
  size_t items = 0, longest = 0;
  if (!by_counts) {
    if (s->count < 0) return TM_ARGUMENTS;
    items = longest = (size_t)s->count * blocks;
  } else {
    for (uint32_t i = 0; i < blocks; i++) {
      const MPI_Count count = tm_count(job->from, s, i);
      if (count < 0) return TM_ARGUMENTS;
      items += (size_t)count;
      if ((size_t)count > longest) longest = (size_t)count;
    }
  }
  held->bytes = items * p->type->size;
  held->direct = p->type->dense || longest == 0 || (p->type->solid && longest == 1);
  if (held->bytes > 0 && held->direct && (MPI_Aint)s->buffer + p->type->first == 0 && !s->displs) return TM_ARGUMENTS;
  return TM_ROUTED;
}

static void *data_of(const struct tm_packing *p) {
  return p->packed ? p->packed : (char *)p->side->target + p->type->first;
}

/* ---- packing ---- */

/* MPICH refuses MPI_BOTTOM (NULL) in MPI_Pack. So addresses of the datatype become relative to its first byte. Sets *type
 * and *memory, and returns true if *type is to be freed. */
static bool leave_bottom(const struct tm_packing *p, char **memory, MPI_Datatype *type) {
  const int one = 1;
  const MPI_Aint back = -p->type->first;
  *type = p->side->type;
  if (*memory || p->type->first == 0) return false;
  if (PMPI_Type_create_hindexed(1, &one, &back, p->side->type, type) != MPI_SUCCESS) return false;
  PMPI_Type_commit(type);
  *memory = (char *)p->type->first; /* an absolute address */
  return true;
}

/* Packs items from memory, or unpacks them into it. */
static char *pack_items(char *packed, char *memory, size_t items, const struct tm_packing *p, bool unpacks) {
  MPI_Datatype type;
  const bool made = leave_bottom(p, &memory, &type);
  const size_t size = p->type->size;
  for (size_t done = 0; size > 0 && done < items;) {
    const size_t most = PACK_BYTES / size > 0 ? PACK_BYTES / size : 1, now = items - done < most ? items - done : most;
    char *at = memory + (MPI_Aint)done * p->type->extent;
    int position = 0;
    if (unpacks) PMPI_Unpack(packed, (int)(now * size), &position, at, (int)now, type, MPI_COMM_SELF);
    else PMPI_Pack(at, (int)now, type, packed, (int)(now * size), &position, MPI_COMM_SELF);
    packed += now * size;
    done += now;
  }
  if (made) PMPI_Type_free(&type);
  return packed;
}

static MPI_Aint displacement_of(const struct tm_packing *p, const struct tm_call *c, uint32_t block) {
  if (!p->by_counts) return (MPI_Aint)(block * (size_t)p->side->count);
  if (p->side->displs) return tm_displ(c, p->side, block);
  MPI_Aint before = 0;
  for (uint32_t i = 0; i < block; i++) before += (MPI_Aint)tm_count(c, p->side, i);
  return before;
}

static void pack_blocks(const struct tm_packing *p, const struct tm_call *c, bool unpacks) {
  char *packed = p->packed, *memory = p->side->target;
  for (uint32_t i = 0; i < p->blocks; i++)
    packed = pack_items(packed, memory + displacement_of(p, c, i) * p->type->extent, count_of(p, c, i), p, unpacks);
}

/* Items for MPI_Reduce_local keep their gaps. */
static void copy_strided_in(const struct tm_packing *p, size_t items) {
  const struct tm_type *t = p->type;
  if (items == 0) return;
  const size_t bytes = (items - 1) * (size_t)t->extent + (size_t)t->span;
  memcpy(p->packed + t->first, (const char *)p->side->buffer + t->first, bytes);
}
static void copy_strided_out(const struct tm_packing *p, size_t items) {
  char *between = malloc(items * p->type->size + 1);
  if (!between) return;
  (void)pack_items(between, p->packed, items, p, false);
  (void)pack_items(between, p->side->target, items, p, true);
  free(between);
}

static size_t items_of(const struct tm_packing *p, const struct tm_call *c) {
  size_t items = 0;
  for (uint32_t i = 0; i < p->blocks; i++) items += count_of(p, c, i);
  return items;
}

void tm_job_pack(const struct tm_job *job) {
  if (!job->in.packed) return;
  if (job->in.strided) copy_strided_in(&job->in, items_of(&job->in, job->from));
  else pack_blocks(&job->in, job->from, false);
}

void tm_job_unpack(const struct tm_job *job) {
  if (job->first_block) memcpy(job->first_block, job->call.recv, job->out.bytes);
  if (!job->out.packed) return;
  if (job->out.strided) copy_strided_out(&job->out, job->out.bytes / (size_t)job->out.type->extent);
  else pack_blocks(&job->out, job->from, true);
}

/* ---- memory of the job ---- */

struct wants {
  size_t in_bytes, out_bytes; /* packed data; 0: none */
  uint32_t arrays;            /* number of arrays of a size_t per rank */
};

static bool take_memory(struct tm_job *job, const struct wants *w, size_t **arrays) {
  const bool few = job->comm->ranks <= TM_FEW_RANKS;
  const size_t array_bytes = few ? 0 : (w->arrays * job->comm->ranks * sizeof(size_t) + 63) & ~(size_t)63;
  *arrays = job->few;
  const size_t in_bytes = (w->in_bytes + 63) & ~(size_t)63, bytes = array_bytes + in_bytes + w->out_bytes;
  if (bytes == 0) return true;
  job->memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
  if (!job->memory) return false;
  if (!few) *arrays = job->memory;
  char *at = (char *)job->memory + array_bytes;
  if (w->in_bytes > 0) job->in.packed = at;
  if (w->out_bytes > 0) job->out.packed = at + in_bytes;
  return true;
}

/* Sets counts and offsets of the blocks of a v-form, in elements of `unit` bytes of data and of memory. Offsets may not be
 * negative: the buffer begins at the first block. */
static void set_blocks(const struct tm_job *job, const struct tm_packing *p, size_t *counts, size_t *offsets,
                       char **data) {
  const struct tm_call *c = job->from;
  MPI_Aint least = 0, at = 0;
  for (uint32_t i = 0; !p->packed && p->side->displs && i < p->blocks; i++)
    if (tm_displ(c, p->side, i) < least) least = tm_displ(c, p->side, i);
  for (uint32_t i = 0; i < p->blocks; i++) {
    const MPI_Count count = tm_count(c, p->side, i);
    counts[i] = (size_t)count * p->type->size;
    if (p->packed || !p->side->displs) offsets[i] = (size_t)at * (p->packed ? p->type->size : (size_t)p->type->extent);
    else offsets[i] = (size_t)((tm_displ(c, p->side, i) - least) * p->type->extent);
    at += (MPI_Aint)count;
  }
  *data = (char *)data_of(p) + least * p->type->extent;
}

/* ---- moves ---- */

/* Where the blocks of a move lie: how many there are in each buffer, and whose own block the call leaves in place. */
struct form {
  tutti_collective collective;
  bool rooted, send_by_counts, recv_by_counts;
  bool send_has_all, recv_has_all; /* one block per rank */
  bool in_place_in_send;           /* MPI_IN_PLACE stands for the receive buffer */
};
static const struct form forms[TM_KINDS] = {
    [TM_Gather] = {.collective = TUTTI_GATHER, .rooted = true, .recv_has_all = true},
    [TM_Gatherv] = {.collective = TUTTI_GATHERV, .rooted = true, .recv_has_all = true, .recv_by_counts = true},
    [TM_Scatter] = {.collective = TUTTI_SCATTER, .rooted = true, .send_has_all = true, .in_place_in_send = true},
    [TM_Scatterv] = {.collective = TUTTI_SCATTERV,
                     .rooted = true,
                     .send_has_all = true,
                     .send_by_counts = true,
                     .in_place_in_send = true},
    [TM_Allgather] = {.collective = TUTTI_ALLGATHER, .recv_has_all = true},
    [TM_Allgatherv] = {.collective = TUTTI_ALLGATHERV, .recv_has_all = true, .recv_by_counts = true},
    [TM_Alltoall] = {.collective = TUTTI_ALLTOALL, .send_has_all = true, .recv_has_all = true},
    [TM_Alltoallv] = {.collective = TUTTI_ALLTOALLV,
                      .send_has_all = true,
                      .recv_has_all = true,
                      .send_by_counts = true,
                      .recv_by_counts = true},
};

static bool is_in_place(const void *buffer) { return buffer == MPI_IN_PLACE; }

/* Sets what the call takes of one side. */
static void set_side(struct tm_job *job, const struct tm_packing *p, bool sends, size_t **arrays) {
  tutti_call *call = &job->call;
  char *data = data_of(p);
  if (!p->by_counts) call->count = p->blocks > 0 ? p->bytes / p->blocks : 0;
  else {
    size_t *counts = *arrays, *offsets = counts + job->comm->ranks;
    const bool second = !sends && job->from->kind == TM_Alltoallv;
    set_blocks(job, p, counts, offsets, &data);
    *arrays = offsets + job->comm->ranks;
    if (second) call->recv_counts = counts, call->recv_offsets = offsets;
    else call->counts = counts, call->offsets = offsets;
  }
  if (sends) call->send = data;
  else call->recv = data;
}

/* Returns the bytes of a rank's own block on a side. */
static size_t own_bytes(const struct tm_job *job, const struct tm_packing *p) {
  if (p->blocks == 1) return p->bytes;
  return count_of(p, job->from, job->comm->rank) * p->type->size;
}

/* If the two sides of this rank disagree on the block that it sends to itself, all ranks get an error. */
static void check_own_block(const struct tm_job *job) {
  if (own_bytes(job, &job->in) == own_bytes(job, &job->out)) return;
  char why[160];
  snprintf(why, sizeof why, "MPI_%s: rank %u sends %zu bytes to itself, and receives %zu",
           tm_kind_names[job->from->kind], job->comm->rank, own_bytes(job, &job->in), own_bytes(job, &job->out));
  tutti_abort(job->comm->tutti, why);
}

static bool overlap(const struct tm_packing *a, size_t a_bytes, const struct tm_packing *b, size_t b_bytes) {
  const char *first = data_of(a), *second = data_of(b);
  return first < second + b_bytes && second < first + a_bytes;
}

/* Begins a move in which both sides of this rank may count. */
static enum tm_reason begin_move(struct tm_job *job) {
  const struct tm_call *c = job->from;
  const struct form *f = &forms[c->kind];
  const bool root = !f->rooted || is_root(job);
  const bool stays = root && is_in_place(f->in_place_in_send ? c->recv.buffer : c->send.buffer);
  const bool sends = f->send_has_all ? root && (!stays || f->in_place_in_send) : !stays;
  const bool receives = f->recv_has_all ? root : !stays;
  struct held in = {0}, out = {0};
  enum tm_reason reason = TM_ROUTED;
  if (sends)
    reason = begin_side(job, &job->in, &c->send, f->send_has_all ? job->comm->ranks : 1, f->send_by_counts, &in);
  if (receives && reason == TM_ROUTED)
    reason = begin_side(job, &job->out, &c->recv, f->recv_has_all ? job->comm->ranks : 1, f->recv_by_counts, &out);
  if (reason != TM_ROUTED) return reason;
  job->in.bytes = in.bytes;
  job->out.bytes = out.bytes;
  /* In place, the side that has all blocks is read and written. */
  const bool apart = sends && receives;
  if (apart && in.direct && out.direct && !f->send_by_counts && !f->recv_by_counts &&
      overlap(&job->in, in.bytes, &job->out, out.bytes))
    in.direct = false;
  job->call.collective = f->collective;
  job->call.root = f->rooted ? (uint32_t)c->root : 0;
  if (apart) check_own_block(job);
  const bool strided = (sends && !in.direct) || (receives && !out.direct);
  if (strided && !stays && !f->send_by_counts && !f->recv_by_counts &&
      tm_job_stride(job, sends, receives, in.direct, out.direct))
    return TM_ROUTED;
  struct wants w = {.in_bytes = sends && !in.direct ? in.bytes : 0,
                    .out_bytes = receives && !out.direct ? out.bytes : 0};
  w.arrays = (sends && f->send_by_counts ? 2u : 0u) + (receives && f->recv_by_counts ? 2u : 0u);
  size_t *arrays = NULL;
  if (!take_memory(job, &w, &arrays)) return TM_NO_MEMORY;
  job->call.type = TUTTI_U8;
  if (receives) set_side(job, &job->out, false, &arrays);
  if (sends) set_side(job, &job->in, true, &arrays);
  if (stays && f->in_place_in_send) job->call.recv = TUTTI_IN_PLACE;
  else if (stays) {
    job->call.send = TUTTI_IN_PLACE;
    job->in = job->out; /* the own block, or in alltoall all blocks, are sent from the packed buffer */
    if (c->kind == TM_Alltoallv) job->call.counts = job->call.recv_counts, job->call.offsets = job->call.recv_offsets;
  }
  return TM_ROUTED;
}

static enum tm_reason begin_broadcast(struct tm_job *job) {
  struct held held;
  const enum tm_reason reason = begin_side(job, &job->out, &job->from->recv, 1, false, &held);
  if (reason != TM_ROUTED) return reason;
  size_t *arrays;
  job->out.bytes = held.bytes;
  job->call.collective = TUTTI_BROADCAST;
  job->call.root = (uint32_t)job->from->root;
  if (is_root(job)) job->in = job->out;
  if (!held.direct && tm_job_stride(job, is_root(job), !is_root(job), false, false)) return TM_ROUTED;
  if (!take_memory(job, &(struct wants){.out_bytes = held.direct ? 0 : held.bytes}, &arrays)) return TM_NO_MEMORY;
  void *data = data_of(&job->out);
  job->call.type = TUTTI_U8;
  job->call.count = held.bytes;
  job->call.send = job->call.recv = data;
  if (is_root(job)) job->in = job->out, job->out.packed = NULL;
  return TM_ROUTED;
}

/* ---- reductions ---- */

/* Sets datatype and operation of the call. `unit`: bytes from one element to the next. */
static enum tm_reason set_arithmetic(struct tm_job *job, const struct tm_type *t, bool *strided) {
  bool native;
  *strided = false;
  if (!tm_op_find(job->from->op, t, &job->call.op, &native)) return TM_OPERATION;
  if (native) {
    job->call.type = t->type;
    return TM_ROUTED;
  }
  *strided = t->class == TM_DERIVED && !(t->dense && t->first == 0);
  if (t->extent <= 0 || t->extent > ELEMENT_BYTES_MAX || t->first < 0 || t->first + t->span > t->extent)
    return TM_OPERATION;
  job->call.type = TUTTI_BYTES;
  job->call.element_bytes = (size_t)t->extent;
  job->reduction = (struct tm_reduction){job->from->op, job->from->send.type, (size_t)t->extent};
  job->call.op_context = &job->reduction;
  return TM_ROUTED;
}

static tutti_collective reduction_of(enum tm_kind kind) {
  switch (kind) {
    case TM_Reduce: return TUTTI_REDUCE;
    case TM_Reduce_scatter: return TUTTI_REDUCE_SCATTERV;
    case TM_Reduce_scatter_block: return TUTTI_REDUCE_SCATTER;
    case TM_Scan: return TUTTI_SCAN;
    case TM_Exscan: return TUTTI_EXSCAN;
    default: return TUTTI_ALLREDUCE;
  }
}

/* Sets the memory of a reduction: `items` elements of input, `own` of result. */
static bool set_operands(struct tm_job *job, size_t items, size_t own, const struct tm_type *t, bool strided) {
  const struct tm_call *c = job->from;
  const bool stays = is_in_place(c->send.buffer),
             scatters = c->kind == TM_Reduce_scatter || c->kind == TM_Reduce_scatter_block;
  const bool receives = c->kind != TM_Reduce || is_root(job);
  const size_t extent = (size_t)t->extent;
  job->operands[0] = job->operands[1] = c->send;
  job->operands[1].target = c->recv.target;
  if (stays) job->operands[0].target = c->recv.target;
  job->in.side = &job->operands[0];
  job->out.side = &job->operands[1];
  struct wants w = {.in_bytes = strided ? items * extent : 0, .arrays = c->kind == TM_Reduce_scatter};
  if (receives && (strided || (stays && scatters))) w.out_bytes = own * extent;
  size_t *arrays = NULL;
  if (!take_memory(job, &w, &arrays)) return false;
  if (c->kind == TM_Reduce_scatter) {
    for (uint32_t i = 0; i < job->comm->ranks; i++) arrays[i] = (size_t)tm_count(c, &c->send, i);
    job->call.counts = arrays;
  }
  job->call.send = job->in.packed ? job->in.packed : job->operands[0].buffer;
  if (receives) job->call.recv = job->out.packed ? job->out.packed : c->recv.target;
  if (stays && !job->in.packed && !scatters) job->call.send = TUTTI_IN_PLACE;
  job->out.bytes = own * extent;
  if (stays && scatters && !strided) {
    job->first_block = c->recv.target;
    job->out.packed = NULL;
  }
  return true;
}

static enum tm_reason begin_reduction(struct tm_job *job) {
  const struct tm_call *c = job->from;
  const bool by_counts = c->kind == TM_Reduce_scatter;
  const uint32_t blocks = by_counts || c->kind == TM_Reduce_scatter_block ? job->comm->ranks : 1;
  if (is_in_place(c->send.buffer) && c->kind == TM_Reduce && !is_root(job)) return TM_ARGUMENTS;
  bool strided;
  struct held held;
  enum tm_reason reason = begin_side(job, &job->in, &c->send, blocks, by_counts, &held);
  if (reason == TM_ARGUMENTS) return reason;
  const struct tm_type *t = job->in.type;
  reason = set_arithmetic(job, t, &strided);
  if (reason != TM_ROUTED) return reason;
  const size_t items = items_of(&job->in, c), own = blocks == 1 ? items : count_of(&job->in, c, job->comm->rank);
  job->out = job->in;
  job->call.collective = reduction_of(c->kind);
  job->call.root = c->kind == TM_Reduce ? (uint32_t)c->root : 0;
  job->call.count = blocks == 1 ? items : own;
  job->in.strided = job->out.strided = strided;
  return set_operands(job, items, own, t, strided) ? TM_ROUTED : TM_NO_MEMORY;
}

/* ---- begin and end ---- */

enum tm_reason tm_job_begin(struct tm_job *job, const struct tm_call *from, struct tm_comm *comm) {
  memset(job, 0, offsetof(struct tm_job, few));
  job->comm = comm;
  job->from = from;
  const bool rooted = from->kind == TM_Bcast || from->kind == TM_Reduce || forms[from->kind].rooted;
  if (rooted && (from->root < 0 || from->root >= (int)comm->ranks)) return TM_ARGUMENTS;
  if (from->kind == TM_Barrier) {
    job->call.collective = TUTTI_BARRIER;
    return TM_ROUTED;
  }
  if (from->kind == TM_Bcast) return begin_broadcast(job);
  return tm_reduces(from->kind) ? begin_reduction(job) : begin_move(job);
}

void tm_job_end(struct tm_job *job) {
  free(job->memory);
  job->memory = NULL;
}
