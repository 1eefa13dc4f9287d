/* operations.c: operations of the MPI. tutti has the most usual ones for numbers of up to 8 bytes. For all others, tutti
 * calls MPI_Reduce_local. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "door.h"

struct predefined {
  tutti_op op;
  bool has_op;      /* tutti has the operation, for datatypes that it has */
  uint32_t classes; /* bits of enum tm_class: datatypes for which the operation is defined */
};

#define ON(class) (1u << (class))
#define WHOLE ON(TM_INTEGER)
#if TM_OPEN_MPI
#define LOGICAL (ON(TM_INTEGER) | ON(TM_LOGICAL))
#else
#define LOGICAL (ON(TM_INTEGER) | ON(TM_LOGICAL) | ON(TM_FLOAT)) /* MPICH takes floats, too */
#endif

static struct tm_map predefined, held;
static struct predefined table[12];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool tm_op_is_predefined(MPI_Op handle) { return tm_map_find(&predefined, TM_KEY(handle)) != NULL; }

bool tm_op_find(MPI_Op handle, const struct tm_type *type, tutti_op *op, bool *native) {
  const struct predefined *p = tm_map_find(&predefined, TM_KEY(handle));
  if (p) {
    *native = p->has_op && type->native && !(type->class == TM_FLOAT && p->op >= TUTTI_BAND);
    *op = *native ? p->op : tm_door.commutes;
    return p->classes & ON(type->class);
  }
  int commutes;
  if (handle == MPI_OP_NULL || handle == MPI_REPLACE || handle == MPI_NO_OP) return false;
  if (PMPI_Op_commutative(handle, &commutes) != MPI_SUCCESS) return false;
  *native = false;
  *op = commutes ? tm_door.commutes : tm_door.ordered;
  return true;
}

/* ---- MPI_Reduce_local as an operation of tutti ---- */

/* Computes inout = left op inout. */
static void call_mpi(const char *left, char *inout, size_t count, const struct tm_reduction *r) {
  for (size_t done = 0; done < count;) {
    const int now = count - done > INT32_MAX / 2 ? INT32_MAX / 2 : (int)(count - done);
    PMPI_Reduce_local(left + done * r->extent, inout + done * r->extent, now, r->type, r->op);
    done += (size_t)now;
  }
}

enum { PIECE_BYTES = 16384 };

static void reduce_local(void *result, const void *left, const void *right, size_t count, tutti_datatype type,
                         void *context) {
  const struct tm_reduction *r = context;
  (void)type;
  if (result != left) {
    if (result != right) memcpy(result, right, count * r->extent);
    call_mpi(left, result, count, r);
    return;
  }
  /* MPI_Reduce_local writes into its right operand, but here the result is the left one. */
  _Alignas(64) char piece[PIECE_BYTES];
  const size_t most = PIECE_BYTES / r->extent;
  for (size_t done = 0; done < count; done += most) {
    const size_t now = count - done < most ? count - done : most, at = done * r->extent;
    memcpy(piece, (const char *)right + at, now * r->extent);
    call_mpi((const char *)left + at, piece, now, r);
    memcpy((char *)result + at, piece, now * r->extent);
  }
}

/* ---- operations that the program frees while a request needs them ---- */

struct hold {
  MPI_Op op;
  uint32_t users;
  bool freed;
};

void tm_op_hold(MPI_Op op) {
  pthread_mutex_lock(&lock);
  struct hold *h = tm_map_find(&held, TM_KEY(op));
  if (!h && (h = calloc(1, sizeof *h))) {
    h->op = op;
    if (!tm_map_set(&held, TM_KEY(op), h)) free(h), h = NULL;
  }
  if (h) h->users++;
  pthread_mutex_unlock(&lock);
}

void tm_op_release(MPI_Op op) {
  pthread_mutex_lock(&lock);
  struct hold *h = tm_map_find(&held, TM_KEY(op));
  const bool last = h && --h->users == 0;
  if (last) tm_map_remove(&held, TM_KEY(op));
  pthread_mutex_unlock(&lock);
  if (last && h->freed) PMPI_Op_free(&op);
  if (last) free(h);
}

TM_EXPORT int MPI_Op_free(MPI_Op *op) {
  if (!op) return PMPI_Op_free(op);
  pthread_mutex_lock(&lock);
  struct hold *h = tm_map_find(&held, TM_KEY(*op));
  if (h) h->freed = true;
  pthread_mutex_unlock(&lock);
  if (!h) return PMPI_Op_free(op);
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

/* ---- begin and end ---- */

static void add(size_t i, MPI_Op handle, tutti_op op, bool has_op, uint32_t classes) {
  table[i] = (struct predefined){op, has_op, classes};
  (void)tm_map_set(&predefined, TM_KEY(handle), &table[i]);
}

tutti_err tm_ops_begin(void) {
  const uint32_t numbers = WHOLE | ON(TM_FLOAT), sums = numbers | ON(TM_COMPLEX), bits = WHOLE | ON(TM_BYTE);
  add(0, MPI_MAX, TUTTI_MAX, true, numbers);
  add(1, MPI_MIN, TUTTI_MIN, true, numbers);
  add(2, MPI_SUM, TUTTI_SUM, true, sums);
  add(3, MPI_PROD, TUTTI_PROD, true, sums);
  add(4, MPI_LAND, TUTTI_LAND, true, LOGICAL);
  add(5, MPI_LOR, TUTTI_LOR, true, LOGICAL);
  add(6, MPI_LXOR, TUTTI_LXOR, true, LOGICAL);
  add(7, MPI_BAND, TUTTI_BAND, true, bits);
  add(8, MPI_BOR, TUTTI_BOR, true, bits);
  add(9, MPI_BXOR, TUTTI_BXOR, true, bits);
  add(10, MPI_MINLOC, 0, false, ON(TM_PAIR));
  add(11, MPI_MAXLOC, 0, false, ON(TM_PAIR));
  tutti_err err = tutti_op_create(reduce_local, NULL, true, "MPI", &tm_door.commutes);
  return err == TUTTI_OK ? tutti_op_create(reduce_local, NULL, false, "MPI, ordered", &tm_door.ordered) : err;
}

void tm_ops_end(void) { predefined.table = NULL; }
