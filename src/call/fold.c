/* fold.c: tutti_fold: adds up leaves one after the other.
 *
 * It counts as a binary number does. Sums of 2^i leaves stand for its digits, the largest first, one after the other in
 * memory. The next leaf is added to the last sum if that is one leaf, their sum to the one before if that has two, and so
 * on. After the last leaf all sums are added, the last first. On a single rank the first sum stays, and the call adds it
 * to the rest. */
#include <stdlib.h>

#include "base/sized.h"
#include "call/request.h"
#include "call/resolve.h"
#include "call/tensors.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "comm/operations.h"

/* A fold takes at most this part of the shared memory that is free. */
enum { SHARED_PART = 4 };

struct tutti_fold {
  tutti_comm *comm;
  struct tu_leaves leaves;
  struct tu_user_op user;          /* copy of the operation of the program */
  struct tu_call_tensors *tensors; /* of the call; NULL: none */
  size_t *blocks;                  /* owned: counts and offsets of the view; NULL: it has none */
  uint32_t count, added;           /* leaves of the fold; those that were added */
  bool shared;                     /* the memory is of tutti_alloc */
  unsigned char *memory;           /* owned: sums, leaves.bytes each */
};

/* Copies counts and offsets of the view. */
static tutti_err keep_blocks(tutti_fold *fold, struct tu_view *view, struct tu_error *error) {
  const uint32_t n = view->blocks;
  if (!view->counts) return TUTTI_OK;
  fold->blocks = tu_try_allocate(2 * (size_t)n, sizeof *fold->blocks);
  if (!fold->blocks) return tu_fail_memory(error, 2 * (size_t)n * sizeof *fold->blocks, "the blocks of %u ranks", n);
  tu_view_keep(view, fold->blocks);
  return TUTTI_OK;
}

/* Allocates the sums: one for each digit of count - 1, and one more if the last leaf stays separate. */
static tutti_err allocate_sums(tutti_fold *fold, struct tu_error *error) {
  void *memory = NULL;
  size_t bytes, sums = 1;
  for (uint32_t n = fold->count; n > 1; n /= 2) sums++;
  if (!tu_multiply(fold->leaves.bytes, sums, &bytes) || bytes > PTRDIFF_MAX)
    return tu_fail(error, TUTTI_ERR_MEMORY, "%zu sums of %zu bytes are more than memory can hold", sums,
                   fold->leaves.bytes);
  bytes = tu_round_up(tu_max(bytes, 1), TU_LINE_BYTES);
  /* Channels of later calls need shared memory, too, and cannot do without. */
  fold->shared = bytes <= tu_transport_free_bytes(fold->comm->transport) / SHARED_PART &&
                 tutti_alloc(fold->comm, bytes, &memory) == TUTTI_OK;
  if (!fold->shared) memory = aligned_alloc(TU_LINE_BYTES, bytes);
  fold->memory = memory;
  return memory ? TUTTI_OK : tu_fail_memory(error, bytes, "%zu sums of leaves", sums);
}

static tutti_err prepare(tutti_fold *fold, const tutti_call *call, struct tu_error *error) {
  struct tu_call resolved;
  struct tu_view in;
  tutti_call input = *call;
  if (input.folded == 0) input.folded = true;
  input.in_parts = false;
  input.send_blocks = NULL;
  tutti_err err = tu_call_resolve_input(fold->comm, &input, &resolved, error);
  fold->tensors = resolved.tensors;
  if (err != TUTTI_OK) return err;
  const bool has_user = tu_user_op_find(fold->comm, call->op, &fold->user);
  if (has_user && call->op_context) fold->user.context = call->op_context;
  fold->count = call->leaves;
  in = resolved.in;
  fold->leaves.scales = call->op == TUTTI_PREMUL_SUM;
  if ((err = tu_call_arithmetic(fold->comm, &resolved, has_user ? &fold->user : NULL, &fold->leaves.a, error)) !=
          TUTTI_OK ||
      (err = keep_blocks(fold, &in, error)) != TUTTI_OK ||
      (err = tu_leaves_init(&fold->leaves, &in, 1, error)) != TUTTI_OK)
    return err;
  return allocate_sums(fold, error);
}

static tutti_err create(tutti_comm *comm, const tutti_call *call, size_t call_bytes, tutti_fold **fold) {
  static const char name[] = "tutti_fold_create";
  struct tu_error error;
  tutti_call known;
  tutti_err err = tu_sized_take(&tu_sized_call, call, call_bytes, &known, name, &error);
  if (err != TUTTI_OK) return tu_thread_error(&error);
  tutti_fold *made = tu_try_allocate(1, sizeof *made);
  if (made) {
    made->comm = comm;
    err = prepare(made, &known, &error);
  } else {
    err = tu_fail_memory(&error, sizeof *made, "a fold");
  }
  if (err == TUTTI_OK) {
    *fold = made;
    return TUTTI_OK;
  }
  tutti_fold_free(made);
  (void)tu_fail_in(name, &error);
  return tu_thread_error(&error);
}

tutti_err tutti_fold_create_sized(tutti_comm *comm, const tutti_call *call, size_t call_bytes, tutti_fold **fold) {
  static const char name[] = "tutti_fold_create";
  struct tu_visit visit;
  if (!comm || !call || !fold) return tu_refuse_null(name, !comm ? "comm" : call ? "fold" : "call");
  *fold = NULL;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit(name);
  tutti_err err = create(comm, call, call_bytes, fold);
  tu_leave(&visit);
  return err;
}

tutti_err tutti_fold_add(tutti_fold *fold, const void *leaf) {
  if (!fold || (!leaf && fold->leaves.bytes > 0)) return tu_refuse_null("tutti_fold_add", fold ? "leaf" : "fold");
  if (fold->added == fold->count) fold->added = 0;
  const uint32_t before = fold->added++, sums = (uint32_t)__builtin_popcount(before);
  uint32_t merged = (uint32_t)__builtin_ctz(~before);
  if (fold->added == fold->count) merged = sums - (fold->comm->ranks == 1 && sums > 0);
  tu_leaves_add(&fold->leaves, fold->memory + sums * fold->leaves.bytes, merged, leaf);
  return TUTTI_OK;
}

void *tutti_fold_result(const tutti_fold *fold) { return fold && fold->added == fold->count ? fold->memory : NULL; }

void tutti_fold_free(tutti_fold *fold) {
  if (!fold) return;
  tu_leaves_fini(&fold->leaves);
  tu_call_tensors_release(fold->tensors);
  if (fold->shared) (void)tutti_free(fold->comm, fold->memory);
  else free(fold->memory);
  free(fold->leaves.a.room);
  free(fold->blocks);
  free(fold);
}
