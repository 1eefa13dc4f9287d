/* leaves.h: the leaves of a rank: the inputs of a reduction with tutti_call.leaves, and the sums of some of them. */
#ifndef TU_LEAVES_H
#define TU_LEAVES_H

#include "call/call.h"

/* Maximum of tutti_call.leaves: the largest tree that one reduction combines (kernels.c). */
#define TU_LEAVES_MAX 65536u

/* How the leaves of a call lie in memory, and how they are added. Sums lie as leaves do. */
struct tu_leaves {
  struct tu_arithmetic a; /* its op is that of the call */
  const tutti_parallel *parallel;
  struct tu_view view; /* items of a leaf; split is 1 */
  size_t bytes;        /* from the start of a leaf to the start of the next */
  bool scales;         /* every leaf is first multiplied by a.scale (premul_sum) */
  unsigned char *room; /* owned; NULL: leaves are read where they lie */
};

/* The leaves that a request adds up when it starts. */
struct tu_leaf_sum {
  struct tu_leaves leaves;
  uint32_t count;
  unsigned how;         /* TU_FINAL if this rank is the only one, because the last of its sums is the result then */
  const void **sources; /* owned: [count] */
  unsigned char *sum;   /* owned: room for a leaf */
};

/* Checks tutti_call.leaves and .folded of a resolved call, and sets the fields leaves, operands and folded of *resolved.
 * If this rank adds up leaves, the call is not in place any more, because its input is their sum. Error:
 * TUTTI_ERR_ARGUMENT. */
tutti_err tu_leaves_resolve(const struct tutti_comm *comm, const tutti_call *call, struct tu_call *resolved,
                            bool *in_place, struct tu_error *error);
/* Checks what can be checked without buffers. */
tutti_err tu_leaves_check(const struct tutti_comm *comm, const tutti_call *call, struct tu_error *error);

/* Prepares *l for leaves of a view, whose counts and offsets, if it has some, stay valid as long as *l. `count`: number
 * of leaves that are added at once. Error: TUTTI_ERR_MEMORY. */
tutti_err tu_leaves_init(struct tu_leaves *l, const struct tu_view *view, uint32_t count, struct tu_error *error);
void tu_leaves_fini(struct tu_leaves *l);
/* Adds a leaf to `merged` sums, which lie one after the other and end before `end`: to the last, their sum to the one
 * before, and so on. The result replaces the first of them. merged = 0: copies the leaf to `end`. */
void tu_leaves_add(const struct tu_leaves *l, unsigned char *end, uint32_t merged, const void *leaf);

/* Creates what a request needs to add up `count` leaves of a view. Also after an error, tu_leaf_sum_destroy frees it.
 * Error: TUTTI_ERR_MEMORY. */
tutti_err tu_leaf_sum_create(const struct tu_leaves *l, const struct tu_view *view, uint32_t count, unsigned how,
                             struct tu_leaf_sum **sum, struct tu_error *error);
void tu_leaf_sum_destroy(struct tu_leaf_sum *s);
/* Adds up the leaves that begin at `first`, as a tree. Returns the sum. */
const void *tu_leaf_sum_take(struct tu_leaf_sum *s, const void *first);

#endif
