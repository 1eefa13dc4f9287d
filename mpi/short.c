/* short.c: calls whose buffers tutti can use as they are, by the named functions of tutti, which repeat a call fastest. For
 * a call of 8 bytes, the translation in job.c would take longer than the call. */
#include "door.h"

/* Returns the buffer as tutti names it. */
static const void *buffer_of(const struct tm_side *s) { return s->buffer == MPI_IN_PLACE ? TUTTI_IN_PLACE : s->buffer; }

static bool has_root(const struct tm_call *c, const struct tm_comm *k) {
  return (unsigned)c->root < k->ranks && (c->send.buffer != MPI_IN_PLACE || c->root == (int)k->rank);
}

/* ---- reductions ---- */

static bool run_reduction(const struct tm_call *c, const struct tm_comm *k, tutti_err *err) {
  const struct tm_type *t = tm_type_find(c->send.type);
  const size_t count = (size_t)c->send.count;
  bool native;
  tutti_op op;
  if (!t || !t->native || c->send.count < 0 || !tm_op_find(c->op, t, &op, &native) || !native) return false;
  const void *in = buffer_of(&c->send);
  void *out = c->recv.target;
  switch (c->kind) {
    case TM_Allreduce: *err = tutti_allreduce(k->tutti, in, out, count, t->type, op); return true;
    case TM_Scan: *err = tutti_scan(k->tutti, in, out, count, t->type, op); return true;
    case TM_Exscan: *err = tutti_exscan(k->tutti, in, out, count, t->type, op); return true;
    case TM_Reduce:
      if (!has_root(c, k)) return false;
      *err = tutti_reduce(k->tutti, in, out, count, t->type, op, (uint32_t)c->root);
      return true;
    case TM_Reduce_scatter_block: /* in place, MPI has the result elsewhere */
      if (in == TUTTI_IN_PLACE) return false;
      *err = tutti_reduce_scatter(k->tutti, in, out, count, t->type, op);
      return true;
    default: return false;
  }
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

static bool run_broadcast(const struct tm_call *c, const struct tm_comm *k, tutti_err *err) {
  char *data;
  size_t bytes;
  if ((unsigned)c->root >= k->ranks || !find_side(&c->recv, &data, &bytes)) return false;
  *err = tutti_broadcast(k->tutti, data, bytes, TUTTI_U8, (uint32_t)c->root);
  return true;
}

/* A collective without a root that moves blocks of equal size. */
static bool run_exchange(const struct tm_call *c, const struct tm_comm *k, tutti_err *err) {
  const bool gathers = c->kind == TM_Allgather;
  char *in = TUTTI_IN_PLACE, *out;
  size_t bytes, in_bytes;
  if (!find_side(&c->recv, &out, &bytes)) return false;
  if (c->send.buffer != MPI_IN_PLACE) {
    if (!find_side(&c->send, &in, &in_bytes) || in_bytes != bytes) return false;
    if (!are_apart(in, gathers ? bytes : k->ranks * bytes, out, k->ranks * bytes)) return false;
  }
  if (gathers) *err = tutti_allgather(k->tutti, in, out, bytes, TUTTI_U8);
  else *err = tutti_alltoall(k->tutti, in, out, bytes, TUTTI_U8);
  return true;
}

static bool run_gather(const struct tm_call *c, const struct tm_comm *k, tutti_err *err) {
  const bool root = c->root == (int)k->rank;
  char *in = TUTTI_IN_PLACE, *out = NULL;
  size_t bytes = 0, in_bytes;
  if (!has_root(c, k) || (root && !find_side(&c->recv, &out, &bytes))) return false;
  if (c->send.buffer != MPI_IN_PLACE) {
    if (!find_side(&c->send, &in, &in_bytes) || (root && in_bytes != bytes)) return false;
    if (root && !are_apart(in, bytes, out, k->ranks * bytes)) return false;
    bytes = in_bytes;
  }
  *err = tutti_gather(k->tutti, in, out, bytes, TUTTI_U8, (uint32_t)c->root);
  return true;
}

static bool run_scatter(const struct tm_call *c, const struct tm_comm *k, tutti_err *err) {
  const bool root = c->root == (int)k->rank, stays = c->recv.buffer == MPI_IN_PLACE;
  char *in = NULL, *out = TUTTI_IN_PLACE;
  size_t bytes = 0, out_bytes;
  if ((unsigned)c->root >= k->ranks || (stays && !root) || (root && !find_side(&c->send, &in, &bytes))) return false;
  if (!stays) {
    if (!find_side(&c->recv, &out, &out_bytes) || (root && out_bytes != bytes)) return false;
    if (root && !are_apart(out, bytes, in, k->ranks * bytes)) return false;
    bytes = out_bytes;
  }
  *err = tutti_scatter(k->tutti, in, out, bytes, TUTTI_U8, (uint32_t)c->root);
  return true;
}

bool tm_run_short(const struct tm_call *c, const struct tm_comm *k, tutti_err *err) {
  switch (c->kind) {
    case TM_Bcast: return run_broadcast(c, k, err);
    case TM_Barrier: *err = tutti_barrier(k->tutti); return true;
    case TM_Gather: return run_gather(c, k, err);
    case TM_Scatter: return run_scatter(c, k, err);
    case TM_Allgather:
    case TM_Alltoall: return run_exchange(c, k, err);
    default: return tm_reduces(c->kind) && run_reduction(c, k, err);
  }
}
