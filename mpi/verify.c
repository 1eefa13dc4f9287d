/* verify.c: TUTTI_MPI=verify: each call is carried out twice, by tutti in the program's buffers, and by the MPI in a copy of
 * what the call may write. Then both are compared: byte by byte, including the gaps of derived datatypes, which no one may
 * write. Sums and products of floats depend on the order of the ranks, so these may differ by a bound: two orders of n
 * numbers differ by at most 2 (n - 1) u S, where u is half a unit in the last place of 1, and S the sum of their absolute
 * values, which a third execution finds (Higham, Accuracy and Stability of Numerical Algorithms, 4.2). */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "door.h"

enum { SAID_MAX = 10 };
/* The bound is taken this many times, because the sum of absolute values is rounded, too. */
#define SLACK 4

struct tm_shadow {
  const struct tm_job *job;
  struct tm_call call, magnitudes; /* the same call in other memory; the same for the absolute values of the input */
  char *region;                    /* what the call may write, in the program's memory */
  size_t bytes;                    /* its length; 0: the call writes nothing on this rank */
  char *copy;
  size_t items; /* reductions: number of elements of the result */
  char *input, *sums;
  bool bounded; /* `magnitudes` is carried out, too */
  MPI_Request requests[2];
  MPI_Comm comm; /* of a persistent request */
};

static _Atomic uint64_t calls, differences;

uint64_t tm_verify_calls(void) { return calls; }
uint64_t tm_verify_differences(void) { return differences; }

/* ---- what a call writes ---- */

static size_t total_of(const struct tm_call *c, const struct tm_side *s, uint32_t ranks) {
  size_t items = 0;
  for (uint32_t i = 0; i < ranks; i++) items += (size_t)tm_count(c, s, i);
  return items;
}

/* Sets the region to `items` items from `buffer` on. */
static void cover(struct tm_shadow *s, void *buffer, size_t items, const struct tm_type *t) {
  if (items == 0 || t->size == 0) return;
  const MPI_Aint last = (MPI_Aint)(items - 1) * t->extent;
  const MPI_Aint low = t->first + (last < 0 ? last : 0), high = t->first + t->span + (last > 0 ? last : 0);
  s->region = (char *)buffer + low;
  s->bytes = (size_t)(high - low);
}

/* Sets the region to blocks at displacements. */
static void cover_blocks(struct tm_shadow *s, const struct tm_side *side, uint32_t ranks, const struct tm_type *t) {
  char *low = NULL, *high = NULL;
  for (uint32_t i = 0; i < ranks; i++) {
    struct tm_shadow one = {0};
    cover(&one, (char *)side->target + tm_displ(&s->call, side, i) * t->extent, (size_t)tm_count(&s->call, side, i), t);
    if (one.bytes == 0) continue;
    if (!low || one.region < low) low = one.region;
    if (!high || one.region + one.bytes > high) high = one.region + one.bytes;
  }
  s->region = low;
  s->bytes = (size_t)(high - low);
}

static void find_region(struct tm_shadow *s) {
  const struct tm_call *c = &s->call;
  const struct tm_comm *k = s->job->comm;
  const bool root = c->root == (int)k->rank;
  const struct tm_type *t = s->job->in.type;
  size_t items = (size_t)c->send.count;
  s->items = items;
  switch (c->kind) {
    case TM_Barrier: return;
    case TM_Reduce:
      if (!root) return;
      break;
    case TM_Reduce_scatter:
      s->items = (size_t)tm_count(c, &c->send, k->rank);
      items = total_of(c, &c->send, k->ranks);
      break;
    case TM_Reduce_scatter_block: items *= k->ranks; break;
    case TM_Gather:
    case TM_Gatherv:
      if (!root) return;
      break;
    case TM_Scatter:
    case TM_Scatterv:
      if (c->recv.buffer == MPI_IN_PLACE) return;
      break;
    default: break;
  }
  if (tm_reduces(c->kind)) {
    cover(s, c->recv.target, c->send.buffer == MPI_IN_PLACE ? items : s->items, t);
    return;
  }
  t = tm_type_find(c->recv.type);
  if (!t) return;
  if (c->recv.counts) cover_blocks(s, &c->recv, k->ranks, t);
  else {
    const bool all = c->kind == TM_Gather || c->kind == TM_Allgather || c->kind == TM_Alltoall;
    cover(s, c->recv.target, (size_t)c->recv.count * (all ? k->ranks : 1), t);
  }
}

/* ---- numbers ---- */

/* Returns the bytes of the real numbers of which the elements consist; 0: they are no floats. */
static size_t real_bytes(const struct tm_type *t) {
  return t->class == TM_FLOAT ? t->size : t->class == TM_COMPLEX ? t->size / 2 : 0;
}
static long double get(const char *at, size_t bytes) {
  float f;
  double d;
  long double l;
  if (bytes == sizeof f) return memcpy(&f, at, sizeof f), f;
  if (bytes == sizeof d) return memcpy(&d, at, sizeof d), d;
  return memcpy(&l, at, sizeof l), l;
}
static void set_magnitude(char *at, size_t bytes) {
  const long double value = fabsl(get(at, bytes));
  const float f = (float)value;
  const double d = (double)value;
  if (bytes == sizeof f) memcpy(at, &f, sizeof f);
  else if (bytes == sizeof d) memcpy(at, &d, sizeof d);
  else memcpy(at, &value, sizeof value);
}
static long double unit(size_t bytes) {
  return bytes == sizeof(float) ? FLT_EPSILON : bytes == sizeof(double) ? (long double)DBL_EPSILON : LDBL_EPSILON;
}

/* ---- begin and start ---- */

static size_t input_items(const struct tm_shadow *s) {
  const struct tm_call *c = &s->call;
  if (c->kind == TM_Reduce_scatter) return total_of(c, &c->send, s->job->comm->ranks);
  return (size_t)c->send.count * (c->kind == TM_Reduce_scatter_block ? s->job->comm->ranks : 1);
}

/* Prepares the execution that sums absolute values. */
static bool begin_magnitudes(struct tm_shadow *s) {
  const struct tm_call *c = &s->call;
  if (!tm_reduces(c->kind) || c->op != MPI_SUM || real_bytes(s->job->in.type) == 0) return true;
  const size_t size = s->job->in.type->size, items = input_items(s);
  s->input = malloc(items * size + 1);
  s->sums = malloc(s->items * size + 1);
  s->bounded = true;
  s->magnitudes = *c;
  s->magnitudes.send.buffer = s->input;
  s->magnitudes.recv.target = s->sums;
  return s->input && s->sums;
}

struct tm_shadow *tm_shadow_begin(const struct tm_job *job, bool persistent) {
  struct tm_shadow *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->job = job;
  s->call = *job->from;
  s->requests[0] = s->requests[1] = MPI_REQUEST_NULL;
  s->comm = MPI_COMM_NULL;
  find_region(s);
  s->copy = malloc(s->bytes + 1);
  if (!s->copy || !begin_magnitudes(s)) {
    tm_shadow_end(s);
    return NULL;
  }
  if (s->bytes > 0) s->call.recv.target = s->copy + ((char *)s->call.recv.target - s->region);
  /* Persistent requests may start in any order. The second executions are nonblocking calls, which match in the order of
   * their start, so each request has a communicator of its own for them. (MPI_Gather_init of MPICH 4.0.2 sends what the
   * buffer held then.) */
  if (persistent) {
    tm_native_begin();
    PMPI_Comm_dup(s->call.comm, &s->comm);
    tm_native_end();
    s->call.comm = s->magnitudes.comm = s->comm;
  }
  return s;
}

/* Copies what the call reads and writes. */
static void copy_in(struct tm_shadow *s) {
  if (s->bytes > 0) memcpy(s->copy, s->region, s->bytes);
  if (!s->bounded) return;
  const struct tm_call *c = s->job->from;
  const size_t real = real_bytes(s->job->in.type), bytes = input_items(s) * s->job->in.type->size;
  memcpy(s->input, c->send.buffer == MPI_IN_PLACE ? c->recv.buffer : c->send.buffer, bytes);
  for (size_t at = 0; at < bytes; at += real) set_magnitude(s->input + at, real);
}

void tm_shadow_start(struct tm_shadow *s) {
  copy_in(s);
  tm_native_start(&s->call, &s->requests[0]);
  if (s->bounded) tm_native_start(&s->magnitudes, &s->requests[1]);
}

bool tm_shadow_done(struct tm_shadow *s) {
  int flags[2] = {0};
  for (int i = 0; i < 2; i++)
    if (PMPI_Test(&s->requests[i], &flags[i], MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
  return flags[0] && flags[1];
}

void tm_shadow_end(struct tm_shadow *s) {
  for (int i = 0; i < 2; i++)
    if (s->requests[i] != MPI_REQUEST_NULL) PMPI_Wait(&s->requests[i], MPI_STATUS_IGNORE);
  if (s->comm != MPI_COMM_NULL) PMPI_Comm_free(&s->comm);
  free(s->copy);
  free(s->input);
  free(s->sums);
  free(s);
}

/* ---- compare ---- */

static void complain(const struct tm_shadow *s, size_t at, const char *what) {
  if (atomic_fetch_add(&differences, 1) >= SAID_MAX) return;
  tm_say("verify: MPI_%s of %u ranks: byte %zu of %zu differs%s (algorithm of tutti: see TUTTI_ALGORITHM)",
         tm_kind_names[s->call.kind], s->job->comm->ranks, at, s->bytes, what);
}

/* Compares floats whose value depends on the order of the ranks. */
static void compare_floats(struct tm_shadow *s, size_t real) {
  const size_t bytes = s->items * s->job->in.type->size;
  const long double allowed = SLACK * (long double)s->job->comm->ranks * unit(real);
  for (size_t at = 0; at < bytes; at += real) {
    const long double a = get(s->region + at, real), b = get(s->copy + at, real);
    if (a == b || (isnan(a) && isnan(b))) continue;
    const size_t element = at / s->job->in.type->size * s->job->in.type->size;
    long double scale = fabsl(b);
    if (s->bounded)
      scale = get(s->sums + element, real) + (real < s->job->in.type->size ? get(s->sums + element + real, real) : 0);
    if (fabsl(a - b) <= allowed * scale) continue;
    complain(s, at, " by more than the order of the ranks explains");
    return;
  }
}

/* Returns true if a byte of an item of a predefined datatype is no part of the value: a long double of x86 has 10 bytes of 16. */
static bool is_padding(const struct tm_type *t, size_t at) {
  if (LDBL_MANT_DIG != 64 || t->class == TM_DERIVED) return false;
  if (real_bytes(t) == 16) return at % 16 >= 10;
  return t->class == TM_PAIR && t->size == 20 && at % t->size >= 10 && at % t->size < 16; /* MPI_LONG_DOUBLE_INT */
}

/* Compares the elements of a reduction without their gaps. */
static void compare_packed(struct tm_shadow *s) {
  const size_t bytes = s->items * s->job->in.type->size;
  char *ours = malloc(2 * bytes + 1), *theirs = ours + bytes;
  int at = 0;
  if (!ours || bytes > INT32_MAX) {
    free(ours);
    return;
  }
  const struct tm_side *side = &s->job->from->send;
  PMPI_Pack(s->job->from->recv.buffer, (int)s->items, side->type, ours, (int)bytes, &at, MPI_COMM_SELF);
  at = 0;
  PMPI_Pack(s->call.recv.buffer, (int)s->items, side->type, theirs, (int)bytes, &at, MPI_COMM_SELF);
  for (size_t i = 0; i < bytes; i++)
    if (ours[i] != theirs[i] && !is_padding(s->job->in.type, i)) {
      complain(s, i, "");
      break;
    }
  free(ours);
}

static bool depends_on_order(const struct tm_shadow *s) {
  const MPI_Op op = s->call.op;
  return real_bytes(s->job->in.type) > 0 && (op == MPI_SUM || op == MPI_PROD || !tm_op_is_predefined(op));
}

void tm_shadow_compare(struct tm_shadow *s) {
  const struct tm_call *c = &s->call;
  for (int i = 0; i < 2; i++) PMPI_Wait(&s->requests[i], MPI_STATUS_IGNORE);
  calls++;
  if (s->bytes == 0 || (c->kind == TM_Exscan && s->job->comm->rank == 0)) return;
  if (tm_reduces(c->kind)) {
    if (depends_on_order(s)) compare_floats(s, real_bytes(s->job->in.type));
    else compare_packed(s);
    return;
  }
  const struct tm_type *t = s->job->out.side ? s->job->out.type : NULL;
  for (size_t i = 0; i < s->bytes; i++)
    if (s->region[i] != s->copy[i] && !(t && is_padding(t, i))) {
      complain(s, i, "");
      return;
    }
}

int tm_verify_run(struct tm_job *job) {
  const char *name = tm_kind_names[job->from->kind];
  struct tm_shadow *s = tm_shadow_begin(job, false);
  if (s) copy_in(s);
  const tutti_err err = tm_job_run(job);
  if (s && err == TUTTI_OK) {
    tm_native_run(&s->call);
    if (s->bounded) tm_native_run(&s->magnitudes);
    tm_shadow_compare(s);
  }
  if (s) tm_shadow_end(s);
  tm_job_end(job);
  return err == TUTTI_OK ? MPI_SUCCESS : tm_fail(job->comm, err, name);
}
