/* short.c: calls whose buffers tutti can use as they are, by the named functions of tutti, which repeat a call fastest. For
 * a call of 8 bytes, the translation in job.c would take longer than the call. */
#include "door.h"

/* Returns the buffer as tutti names it. */
static const void *buffer_of(const struct tm_side *s) { return s->buffer == MPI_IN_PLACE ? TUTTI_IN_PLACE : s->buffer; }

static bool has_root(const struct tm_call *c, const struct tm_comm *k) {
  return (unsigned)c->root < k->ranks && (c->send.buffer != MPI_IN_PLACE || c->root == (int)k->rank);
}

/* Finds a reduction that tutti has. */
static bool find_reduction(const struct tm_call *c, tutti_datatype *type, tutti_op *op) {
  const struct tm_type *t = tm_type_find(c->send.type);
  bool native;
  if (!t || !t->native || c->send.count < 0 || !tm_op_find(c->op, t, op, &native)) return false;
  *type = t->type;
  return native;
}

bool tm_run_short(const struct tm_call *c, const struct tm_comm *k, tutti_err *err) {
  tutti_datatype type;
  tutti_op op;
  const struct tm_type *t;
  const size_t count = (size_t)(c->kind == TM_Bcast ? c->recv.count : c->send.count);
  switch (c->kind) {
    case TM_Allreduce:
      if (!find_reduction(c, &type, &op)) return false;
      *err = tutti_allreduce(k->tutti, buffer_of(&c->send), c->recv.target, count, type, op);
      return true;
    case TM_Reduce:
      if (!has_root(c, k) || !find_reduction(c, &type, &op)) return false;
      *err = tutti_reduce(k->tutti, buffer_of(&c->send), c->recv.target, count, type, op, (uint32_t)c->root);
      return true;
    case TM_Bcast:
      t = tm_type_find(c->recv.type);
      if (!t || !t->dense || c->recv.count < 0 || (unsigned)c->root >= k->ranks) return false;
      *err = tutti_broadcast(k->tutti, (char *)c->recv.target + t->first, count * t->size, TUTTI_U8, (uint32_t)c->root);
      return true;
    case TM_Barrier: *err = tutti_barrier(k->tutti); return true;
    default: return false;
  }
}
