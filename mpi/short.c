/* short.c: calls whose buffers tutti can use as they are. They are carried out without a job (job.c): for a call of 8 bytes,
 * the translation there would take longer than the call. Blocking ones go to the named functions of tutti, which repeat a
 * call fastest. */
#include "door.h"

/* A call of tutti that needs no job. */
struct short_call {
  tutti_collective collective;
  const void *in;
  void *out;
  size_t count;
  tutti_datatype type;
  tutti_op op;
  uint32_t root;
};

/* Returns the buffer as tutti names it. */
static const void *buffer_of(const struct tm_side *s) { return s->buffer == MPI_IN_PLACE ? TUTTI_IN_PLACE : s->buffer; }

static bool has_root(const struct tm_call *c, const struct tm_comm *k) {
  return (unsigned)c->root < k->ranks && (c->send.buffer != MPI_IN_PLACE || c->root == (int)k->rank);
}

/* ---- reductions ---- */

static bool find_reduction(const struct tm_call *c, const struct tm_comm *k, struct short_call *s) {
  static const tutti_collective collectives[TM_KINDS] = {[TM_Allreduce] = TUTTI_ALLREDUCE,
                                                         [TM_Reduce] = TUTTI_REDUCE,
                                                         [TM_Scan] = TUTTI_SCAN,
                                                         [TM_Exscan] = TUTTI_EXSCAN,
                                                         [TM_Reduce_scatter_block] = TUTTI_REDUCE_SCATTER};
  const struct tm_type *t = tm_type_find(c->send.type);
  bool native;
  if (c->kind == TM_Reduce_scatter || (c->kind == TM_Reduce && !has_root(c, k))) return false;
  /* In place, MPI has the result elsewhere. */
  if (c->kind == TM_Reduce_scatter_block && c->send.buffer == MPI_IN_PLACE) return false;
  if (!t || !t->native || c->send.count < 0 || !tm_op_find(c->op, t, &s->op, &native) || !native) return false;
  s->collective = collectives[c->kind];
  s->in = buffer_of(&c->send);
  s->out = c->recv.target;
  s->count = (size_t)c->send.count;
  s->type = t->type;
  s->root = c->kind == TM_Reduce ? (uint32_t)c->root : 0;
  return true;
}

/* ---- moves ---- */

/* Finds the memory of a side, and the bytes of a block. Returns false if tutti cannot use the memory as it is. */
static bool find_side(const struct tm_side *s, char **data, size_t *bytes) {
  const struct tm_type *t = tm_type_find(s->type);
  if (!t || !t->dense || s->count < 0) return false;
  *data = (char *)s->target + t->first;
  *bytes = (size_t)s->count * t->size;
  return true;
}

static bool are_apart(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
  return a + a_bytes <= b || b + b_bytes <= a;
}

static bool set_move(struct short_call *s, tutti_collective collective, const char *in, char *out, size_t bytes,
                     int root) {
  *s = (struct short_call){collective, in, out, bytes, TUTTI_U8, TUTTI_SUM, (uint32_t)root};
  return true;
}

static bool find_broadcast(const struct tm_call *c, const struct tm_comm *k, struct short_call *s) {
  char *data;
  size_t bytes;
  if ((unsigned)c->root >= k->ranks) return false;
  /* For one rank there is nothing to move, so its datatype, which may be a new one, need not be looked at. */
  if (k->ranks == 1 && c->recv.count >= 0 && c->recv.type != MPI_DATATYPE_NULL)
    return set_move(s, TUTTI_BROADCAST, NULL, NULL, 0, 0);
  if (!find_side(&c->recv, &data, &bytes)) return false;
  return set_move(s, TUTTI_BROADCAST, data, data, bytes, c->root);
}

/* A collective without a root that moves blocks of equal size. */
static bool find_exchange(const struct tm_call *c, const struct tm_comm *k, struct short_call *s) {
  const bool gathers = c->kind == TM_Allgather;
  char *in = TUTTI_IN_PLACE, *out;
  size_t bytes, in_bytes;
  if (!find_side(&c->recv, &out, &bytes)) return false;
  if (c->send.buffer != MPI_IN_PLACE) {
    if (!find_side(&c->send, &in, &in_bytes) || in_bytes != bytes) return false;
    if (!are_apart(in, gathers ? bytes : k->ranks * bytes, out, k->ranks * bytes)) return false;
  }
  return set_move(s, gathers ? TUTTI_ALLGATHER : TUTTI_ALLTOALL, in, out, bytes, 0);
}

static bool find_gather(const struct tm_call *c, const struct tm_comm *k, struct short_call *s) {
  const bool root = c->root == (int)k->rank;
  char *in = TUTTI_IN_PLACE, *out = NULL;
  size_t bytes = 0, in_bytes;
  if (!has_root(c, k) || (root && !find_side(&c->recv, &out, &bytes))) return false;
  if (c->send.buffer != MPI_IN_PLACE) {
    if (!find_side(&c->send, &in, &in_bytes) || (root && in_bytes != bytes)) return false;
    if (root && !are_apart(in, bytes, out, k->ranks * bytes)) return false;
    bytes = in_bytes;
  }
  return set_move(s, TUTTI_GATHER, in, out, bytes, c->root);
}

static bool find_scatter(const struct tm_call *c, const struct tm_comm *k, struct short_call *s) {
  const bool root = c->root == (int)k->rank, stays = c->recv.buffer == MPI_IN_PLACE;
  char *in = NULL, *out = TUTTI_IN_PLACE;
  size_t bytes = 0, out_bytes;
  if ((unsigned)c->root >= k->ranks || (stays && !root) || (root && !find_side(&c->send, &in, &bytes))) return false;
  if (!stays) {
    if (!find_side(&c->recv, &out, &out_bytes) || (root && out_bytes != bytes)) return false;
    if (root && !are_apart(out, bytes, in, k->ranks * bytes)) return false;
    bytes = out_bytes;
  }
  return set_move(s, TUTTI_SCATTER, in, out, bytes, c->root);
}

/* Where the blocks of a buffer lie, in bytes. */
struct blocks {
  size_t counts[TM_FEW_RANKS], offsets[TM_FEW_RANKS];
};

/* A collective without a root that moves blocks of different sizes. */
struct call_by_counts {
  char *in, *out;
  struct blocks sent, received; /* sent: only of alltoallv */
};

static bool has_counts(const struct tm_call *c) { return c->kind == TM_Allgatherv || c->kind == TM_Alltoallv; }

/* As find_side, for a side with counts and displacements. */
static bool find_blocks(const struct tm_call *c, const struct tm_side *s, uint32_t ranks, char **data,
                        struct blocks *blocks) {
  const struct tm_type *t = tm_type_find(s->type);
  if (!t || !t->dense) return false;
  *data = (char *)s->target + t->first;
  for (uint32_t i = 0; i < ranks; i++) {
    const MPI_Count count = tm_count(c, s, i);
    const MPI_Aint displ = tm_displ(c, s, i);
    if (count < 0 || displ < 0) return false;
    blocks->counts[i] = (size_t)count * t->size;
    blocks->offsets[i] = (size_t)displ * t->size;
  }
  return true;
}

/* Returns false also if the two sides disagree on this rank's own block: a job finds what to do then. */
static bool find_by_counts(const struct tm_call *c, const struct tm_comm *k, struct call_by_counts *s) {
  size_t bytes;
  if (k->ranks > TM_FEW_RANKS || c->send.buffer == MPI_IN_PLACE) return false;
  if (!find_blocks(c, &c->recv, k->ranks, &s->out, &s->received)) return false;
  if (c->kind == TM_Allgatherv) {
    if (!find_side(&c->send, &s->in, &bytes)) return false;
  } else {
    if (!find_blocks(c, &c->send, k->ranks, &s->in, &s->sent)) return false;
    bytes = s->sent.counts[k->rank];
  }
  return bytes == s->received.counts[k->rank];
}

__attribute__((noinline)) static bool run_by_counts(const struct tm_call *c, const struct tm_comm *k, tutti_err *err) {
  struct call_by_counts s;
  if (!find_by_counts(c, k, &s)) return false;
  const size_t *counts = s.received.counts, *offsets = s.received.offsets;
  if (c->kind == TM_Allgatherv) *err = tutti_allgatherv(k->tutti, s.in, s.out, counts, offsets, TUTTI_U8);
  else *err = tutti_alltoallv(k->tutti, s.in, s.sent.counts, s.sent.offsets, s.out, counts, offsets, TUTTI_U8);
  return true;
}

__attribute__((noinline)) static bool start_by_counts(const struct tm_call *c, const struct tm_comm *k,
                                                      tutti_request **request, tutti_err *err) {
  struct call_by_counts s;
  if (!find_by_counts(c, k, &s)) return false;
  tutti_call call = {.collective = TUTTI_ALLGATHERV,
                     .send = s.in,
                     .recv = s.out,
                     .counts = s.received.counts,
                     .offsets = s.received.offsets,
                     .type = TUTTI_U8};
  if (c->kind == TM_Alltoallv) {
    call.collective = TUTTI_ALLTOALLV;
    call.counts = s.sent.counts, call.offsets = s.sent.offsets;
    call.recv_counts = s.received.counts, call.recv_offsets = s.received.offsets;
  }
  *err = tutti_start(k->tutti, &call, request);
  return true;
}

/* ---- all of them ---- */

static inline bool find_short(const struct tm_call *c, const struct tm_comm *k, struct short_call *s) {
  switch (c->kind) {
    case TM_Bcast: return find_broadcast(c, k, s);
    case TM_Barrier: return set_move(s, TUTTI_BARRIER, NULL, NULL, 0, 0);
    case TM_Gather: return find_gather(c, k, s);
    case TM_Scatter: return find_scatter(c, k, s);
    case TM_Allgather:
    case TM_Alltoall: return find_exchange(c, k, s);
    default: return tm_reduces(c->kind) && find_reduction(c, k, s);
  }
}

bool tm_run_short(const struct tm_call *c, const struct tm_comm *k, tutti_err *err) {
  struct short_call s;
  if (!find_short(c, k, &s)) return has_counts(c) && run_by_counts(c, k, err);
  switch (s.collective) {
    case TUTTI_ALLREDUCE: *err = tutti_allreduce(k->tutti, s.in, s.out, s.count, s.type, s.op); return true;
    case TUTTI_REDUCE: *err = tutti_reduce(k->tutti, s.in, s.out, s.count, s.type, s.op, s.root); return true;
    case TUTTI_SCAN: *err = tutti_scan(k->tutti, s.in, s.out, s.count, s.type, s.op); return true;
    case TUTTI_EXSCAN: *err = tutti_exscan(k->tutti, s.in, s.out, s.count, s.type, s.op); return true;
    case TUTTI_REDUCE_SCATTER: *err = tutti_reduce_scatter(k->tutti, s.in, s.out, s.count, s.type, s.op); return true;
    case TUTTI_BROADCAST: *err = tutti_broadcast(k->tutti, s.out, s.count, s.type, s.root); return true;
    case TUTTI_GATHER: *err = tutti_gather(k->tutti, s.in, s.out, s.count, s.type, s.root); return true;
    case TUTTI_SCATTER: *err = tutti_scatter(k->tutti, s.in, s.out, s.count, s.type, s.root); return true;
    case TUTTI_ALLGATHER: *err = tutti_allgather(k->tutti, s.in, s.out, s.count, s.type); return true;
    case TUTTI_ALLTOALL: *err = tutti_alltoall(k->tutti, s.in, s.out, s.count, s.type); return true;
    default: *err = tutti_barrier(k->tutti); return true;
  }
}

bool tm_start_short(const struct tm_call *c, const struct tm_comm *k, tutti_request **request, tutti_err *err) {
  struct short_call s;
  if (!find_short(c, k, &s)) return has_counts(c) && start_by_counts(c, k, request, err);
  *err = tutti_start(k->tutti,
                     &(tutti_call){.collective = s.collective,
                                   .send = s.in,
                                   .recv = s.out,
                                   .count = s.count,
                                   .type = s.type,
                                   .op = s.op,
                                   .root = s.root},
                     request);
  return true;
}
