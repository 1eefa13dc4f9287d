/* group.c: gather, scatter, broadcast and reduce that only the root calls. Each rank of the group has a tensor in the
 * window. The root has one more tensor in its own memory: the argument `to` or `from`. A call moves data between this
 * tensor and the tensors of all ranks. In this file, rank r is rank number r of the group. `members` contains the
 * ranks' numbers in the window. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/tensors.h"
#include "comm/comm.h"
#include "comm/failure.h"
#include "onesided/carry.h"
#include "onesided/events.h"
#include "onesided/located.h"
#include "onesided/staged.h"
#include "onesided/staging.h"
#include "onesided/window.h"
#include "onesided/windows.h"

/* State of one gather, scatter, broadcast or reduce on the root. */
struct party {
  const char *call;
  struct tutti_window *window;
  uint32_t count, root;
  uint32_t *members; /* [count]: ranks of the group, numbered as in the window, in ascending order */
  char (*names)[24]; /* [count]: names of the ranks' tensors, for messages */
  /* [count + 1]: the tensor of each rank of the group; the last entry is the argument `to` or `from`, the root's own
   * memory */
  struct tu_located *located;
  struct tu_end *ends[2]; /* [count] entries each: memory for the sources and the targets of the call's copies */
};

/* Returns the tensor of a rank of the group. The tensors lie struct_bytes apart, because the program may use a version
 * of tutti_tensor that is longer than this library's. */
static const tutti_tensor *tensor_of(const tutti_onesided_group *g, uint32_t rank) {
  return (const tutti_tensor *)(const void *)((const unsigned char *)g->tensors +
                                              rank * (size_t)g->tensors->struct_bytes);
}

static const struct tu_located *roots(const struct party *p) { return &p->located[p->count]; }
static size_t rows_of(const struct tu_located *l) { return l->tensor.shape[3]; }

/* ---- checks ---- */

static tutti_err check_group(const char *call, const tutti_onesided_group *g, struct tu_error *error) {
  if (!g || !g->tensors || g->count == 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the group is NULL or has no tensors; expected one tensor per rank",
                   call);
  if (g->root >= g->count)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: root is %u; expected a rank of the group, below %u", call, g->root,
                   g->count);
  return TUTTI_OK;
}

static tutti_err open_tensors(struct party *p, const tutti_onesided_group *g, const char *own_name,
                              const tutti_tensor *own, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  for (uint32_t r = 0; r < g->count && err == TUTTI_OK; r++) {
    snprintf(p->names[r], sizeof p->names[r], "tensors[%u]", r);
    err = tu_located_open(&p->located[r], p->call, p->names[r], tensor_of(g, r), error);
    if (err == TUTTI_OK && r > 0) err = tu_located_match(&p->located[r], &p->located[0], true, error);
    if (err == TUTTI_OK && r > 0 && !tu_tensors_alike(&p->located[r].tensor, &p->located[0].tensor))
      err = tu_fail(error, TUTTI_ERR_ARGUMENT,
                    "%s: tensors[%u] and tensors[0] have equal shapes but different strides or layouts; expected equal "
                    "layouts on all ranks",
                    p->call, r);
  }
  if (err == TUTTI_OK) err = tu_located_open(&p->located[g->count], p->call, own_name, own, error);
  if (err == TUTTI_OK) err = tu_located_match(roots(p), &p->located[0], false, error);
  return err;
}

static int by_number(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Sets p->members, in ascending order. If a rank has two tensors in the group, returns an error. */
static tutti_err check_members(struct party *p, struct tu_error *error) {
  for (uint32_t i = 0; i < p->count; i++) p->members[i] = p->located[i].rank;
  qsort(p->members, p->count, sizeof *p->members, by_number);
  for (uint32_t i = 1; i < p->count; i++)
    if (p->members[i] == p->members[i - 1])
      return tu_fail(error, TUTTI_ERR_ARGUMENT,
                     "%s: two tensors of the group lie in rank %u's part of the window; expected one tensor per rank",
                     p->call, p->members[i]);
  return TUTTI_OK;
}

/* Checks that all tensors lie in one window: each in the part of a different rank, and the root's tensor in the
 * caller's part. The root's second tensor (`to` or `from`) must not lie in another rank's part. */
static tutti_err check_located(struct party *p, struct tu_error *error) {
  for (uint32_t r = 0; r < p->count; r++) {
    const struct tu_located *s = &p->located[r];
    tutti_err err = tu_located_need_window(s, error);
    if (err != TUTTI_OK) return err;
    if (s->window != p->located[0].window)
      return tu_fail(error, TUTTI_ERR_ARGUMENT,
                     "%s: tensors[%u] and tensors[0] lie in different windows; expected one window for the whole group",
                     p->call, r);
  }
  p->window = p->located[0].window;
  const struct tutti_comm *comm = p->window->comm;
  tutti_err err = check_members(p, error);
  if (err != TUTTI_OK) return err;
  if (p->located[p->root].rank != comm->rank)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: root is %u, whose tensor lies in rank %u's part of the window, but the caller is rank %u; only "
                   "the root may make this call",
                   p->call, p->root, p->located[p->root].rank, comm->rank);
  const struct tu_located *own = roots(p);
  if (own->window && own->rank != own->window->comm->rank)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: %s lies in rank %u's part of a window; expected the root's own memory", p->call, own->name,
                   own->rank);
  return TUTTI_OK;
}

/* Checks that the tensor has at least `needed` rows; the error message gives `why` as the reason. */
static tutti_err need_rows(const struct party *p, const struct tu_located *l, size_t needed, const char *why,
                           struct tu_error *error) {
  if (rows_of(l) >= needed) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: %s has %zu rows (dimension 3); expected %zu or more: %s", p->call,
                 l->name, rows_of(l), needed, why);
}

/* Checks that `to` or `from`, the root's own memory, has enough rows for the blocks of all ranks, one block after the
 * other. */
static tutti_err need_all_blocks(const struct party *p, struct tu_error *error) {
  char why[96];
  size_t rows = rows_of(&p->located[0]), all;
  if (!tu_multiply(rows, p->count, &all)) all = SIZE_MAX;
  snprintf(why, sizeof why, "%zu for each of %u ranks", rows, p->count);
  return need_rows(p, roots(p), all, why, error);
}

static tutti_err need_one_block(const struct party *p, struct tu_error *error) {
  return need_rows(p, roots(p), rows_of(&p->located[0]), "as many as each rank's tensor has", error);
}

static tutti_err need_room(const struct party *p, struct tu_error *error) {
  return need_rows(p, &p->located[0], rows_of(roots(p)), "as many as the root sends to each rank", error);
}

/* ---- beginning and end of a call ---- */

/* Arguments of a gather, scatter, broadcast or reduce, except the group, and the functions that check and move its
 * rows. */
struct order {
  const char *call, *own_name;
  const tutti_tensor *own;
  tutti_op op;
  void *accumulator;
  struct tu_given_staging staging;
  const tutti_events *events;
  /* Which tensors have the shape of the data that moves. true: `own` (the argument `to` or `from`); false: the ranks'
   * tensors */
  bool from_root;
  tutti_err (*check_rows)(const struct party *p, struct tu_error *error);
  tutti_err (*carry)(struct party *p, const struct order *o, struct tu_error *error);
};

static tutti_err open_party(struct party *p, const tutti_onesided_group *g, const struct order *o,
                            struct tu_error *error) {
  tutti_err err = check_group(o->call, g, error);
  if (err != TUTTI_OK) return err;
  *p = (struct party){.call = o->call, .count = g->count, .root = g->root};
  p->located = tu_try_allocate((size_t)g->count + 1, sizeof *p->located);
  p->members = tu_try_allocate(g->count, sizeof *p->members);
  p->names = tu_try_allocate(g->count, sizeof *p->names);
  p->ends[0] = tu_try_allocate(g->count, sizeof *p->ends[0]);
  p->ends[1] = tu_try_allocate(g->count, sizeof *p->ends[1]);
  if (!p->located || !p->members || !p->names || !p->ends[0] || !p->ends[1])
    return tu_fail_memory(error, g->count * sizeof *p->located, "%s over %u ranks", o->call, g->count);
  return open_tensors(p, g, o->own_name, o->own, error);
}

static void close_party(struct party *p) {
  for (uint32_t i = 0; p->located && i <= p->count; i++) tu_located_close(&p->located[i]);
  free(p->located);
  free(p->members);
  free(p->names);
  free(p->ends[0]);
  free(p->ends[1]);
}

static const struct tu_located *passing(const struct party *p, const struct order *o) {
  return o->from_root ? roots(p) : &p->located[0];
}

static tutti_err perform(const tutti_onesided_group *group, const struct order *o) {
  struct tu_error error;
  struct party p = {0};
  tutti_err err = open_party(&p, group, o, &error);
  if (err == TUTTI_OK && tu_located_is_empty(passing(&p, o))) {
    err = tu_events_begin(o->call, o->events, &error);
  } else if (err == TUTTI_OK) {
    err = o->check_rows(&p, &error);
    if (err == TUTTI_OK) err = check_located(&p, &error);
    if (err == TUTTI_OK) err = o->carry(&p, o, &error);
  }
  close_party(&p);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}

static tutti_err open_stage(const struct party *p, const struct order *o, struct tu_stage *stage,
                            struct tu_error *error) {
  const tutti_tensor *t = &passing(p, o)->tensor;
  const struct tu_passage passage = {p->call, t->type, t->shape, p->located, (size_t)p->count + 1};
  return tu_staging_open(stage, &passage, o->staging, o->accumulator, error);
}

/* Asks the window's rank 0, on another host, to reserve or release the members' parts. */
static tutti_err ask_rank_0(const struct party *p, enum tu_far_what what, uint32_t *value, struct tu_error *error) {
  const struct tu_far_memory at = {.window = p->window};
  return tu_far_ask(p->call, at, what, value, p->members, p->count * sizeof *p->members, error);
}

/* Releases the members' parts after a call whose error is `err`. Returns the call's error, or that of the release. */
static tutti_err leave(const struct party *p, tutti_err err, struct tu_error *error) {
  struct tu_error ours;
  uint32_t unused = 0;
  if (!tu_window_is_far(p->window, 0)) {
    tu_window_release(p->window, p->members, p->count);
    return err;
  }
  const tutti_err left = ask_rank_0(p, TU_FAR_RELEASE, &unused, &ours);
  if (err != TUTTI_OK || left == TUTTI_OK) return err;
  *error = ours;
  return left;
}

/* Reserves the members' parts of the window for this root, so that no other root changes their data during this call.
 * For this it sets one entry per member in the window's shared state. Called after all checks. All calls set their
 * entries in ascending order, so that of several competing calls one always gets all its entries. */
static tutti_err enter(struct party *p, const struct order *o, struct tu_error *error) {
  const uint32_t caller = p->window->comm->rank, ranks = p->window->comm->ranks;
  uint32_t held = 0;
  tutti_err err = tu_events_begin(p->call, o->events, error);
  if (err == TUTTI_OK && tu_window_is_far(p->window, 0)) err = ask_rank_0(p, TU_FAR_RESERVE, &held, error);
  else if (err == TUTTI_OK) held = tu_window_reserve(p->window, caller, p->members, p->count);
  if (err != TUTTI_OK || held == 0) return err;
  return tu_fail(
      error, TUTTI_ERR_ARGUMENT,
      "%s: rank %u is in a call on this window that uses rank %u's part, so rank %u must wait; only one root at "
      "a time may use a part, so synchronize the roots by a signal or a barrier",
      p->call, (held - 1) % ranks, p->members[(held - 1) / ranks], caller);
}

/* For the root itself, the data moves from its tensor in the group to its block of `to` or `from`, or back. Sets *same
 * if this tensor and `block` are the same memory, so that nothing has to be copied. Otherwise the tensor must not
 * overlap any part of `to` or `from` (`all`). */
static tutti_err check_root(const struct party *p, const struct tu_end *block, const struct tu_end *all, bool *same,
                            struct tu_error *error) {
  struct tu_end mine = {&p->located[p->root], 0, block->rows};
  *same = tu_end_same(&mine, block);
  return *same ? TUTTI_OK : tu_end_apart(all, &mine, error);
}

/* ---- gather and scatter ---- */

/* Lists one copy per rank of the group: between the rank's tensor and its block of `to` or `from`. Leaves out the
 * root's copy if its tensor and its block are the same memory. */
static tutti_err pair_up(struct party *p, uint32_t *pairs, struct tu_error *error) {
  size_t rows = rows_of(&p->located[0]);
  const struct tu_end all = {roots(p), 0, rows * p->count}, block = {roots(p), rows * p->root, rows};
  bool same;
  tutti_err err = check_root(p, &block, &all, &same, error);
  *pairs = 0;
  for (uint32_t r = 0; r < p->count && err == TUTTI_OK; r++) {
    if (same && r == p->root) continue;
    p->ends[0][*pairs] = tu_end_whole(&p->located[r]);
    p->ends[1][(*pairs)++] = (struct tu_end){roots(p), rows * r, rows};
  }
  return err;
}

static tutti_err carry_blocks(struct party *p, const struct order *o, bool gathers, struct tu_error *error) {
  struct tu_stage stage;
  uint32_t pairs;
  tutti_err err = open_stage(p, o, &stage, error);
  if (err == TUTTI_OK) err = pair_up(p, &pairs, error);
  if (err == TUTTI_OK) err = enter(p, o, error);
  if (err != TUTTI_OK) return err;
  err = tu_carry_pairs(&stage, p->ends[gathers], p->ends[!gathers], pairs, error);
  return leave(p, err, error);
}

static tutti_err gather(struct party *p, const struct order *o, struct tu_error *error) {
  return carry_blocks(p, o, true, error);
}

static tutti_err scatter(struct party *p, const struct order *o, struct tu_error *error) {
  return carry_blocks(p, o, false, error);
}

tutti_err tutti_onesided_gather_sized(const tutti_onesided_group *group, const tutti_tensor *to,
                                      const tutti_staging *staging, size_t staging_bytes, const tutti_events *events) {
  const struct order order = {.call = "tutti_onesided_gather",
                              .own_name = "to",
                              .own = to,
                              .staging = {staging, staging_bytes},
                              .events = events,
                              .check_rows = need_all_blocks,
                              .carry = gather};
  return perform(group, &order);
}

tutti_err tutti_onesided_scatter_sized(const tutti_onesided_group *group, const tutti_tensor *from,
                                       const tutti_staging *staging, size_t staging_bytes, const tutti_events *events) {
  const struct order order = {.call = "tutti_onesided_scatter",
                              .own_name = "from",
                              .own = from,
                              .staging = {staging, staging_bytes},
                              .events = events,
                              .check_rows = need_all_blocks,
                              .carry = scatter};
  return perform(group, &order);
}

/* ---- broadcast ---- */

static tutti_err broadcast(struct party *p, const struct order *o, struct tu_error *error) {
  struct tu_stage stage;
  uint32_t targets = 0;
  bool same = false;
  const struct tu_end from = tu_end_whole(roots(p));
  tutti_err err = open_stage(p, o, &stage, error);
  if (err == TUTTI_OK) err = check_root(p, &from, &from, &same, error);
  for (uint32_t r = 0; r < p->count; r++)
    if (!same || r != p->root) p->ends[0][targets++] = (struct tu_end){&p->located[r], 0, from.rows};
  if (err == TUTTI_OK) err = enter(p, o, error);
  if (err != TUTTI_OK) return err;
  err = tu_carry_cast(&stage, p->ends[0], targets, &from, error);
  return leave(p, err, error);
}

tutti_err tutti_onesided_broadcast_sized(const tutti_onesided_group *group, const tutti_tensor *from,
                                         const tutti_staging *staging, size_t staging_bytes,
                                         const tutti_events *events) {
  const struct order order = {.call = "tutti_onesided_broadcast",
                              .own_name = "from",
                              .own = from,
                              .staging = {staging, staging_bytes},
                              .events = events,
                              .from_root = true,
                              .check_rows = need_room,
                              .carry = broadcast};
  return perform(group, &order);
}

/* ---- reduce ---- */

static tutti_err check_operation(const struct party *p, tutti_op op, struct tu_error *error) {
  const struct tu_arithmetic a = {.type = p->located[0].tensor.type, .op = op};
  if (op != TUTTI_SUM && op != TUTTI_MIN && op != TUTTI_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: operation is %u; expected sum, min or max", p->call, op);
  return tu_arithmetic_check(&a, error) == TUTTI_OK ? TUTTI_OK : tu_fail_in(p->call, error);
}

static tutti_err reduce(struct party *p, const struct order *o, struct tu_error *error) {
  struct tu_stage stage;
  uint32_t sources = 0;
  bool same;
  const struct tu_end to = {roots(p), 0, rows_of(&p->located[0])};
  tutti_err err = check_operation(p, o->op, error);
  if (err == TUTTI_OK) err = open_stage(p, o, &stage, error);
  if (err == TUTTI_OK) err = check_root(p, &to, &to, &same, error);
  if (err == TUTTI_OK) err = enter(p, o, error);
  if (err != TUTTI_OK) return err;
  p->ends[0][sources++] = tu_end_whole(&p->located[p->root]);
  for (uint32_t r = 0; r < p->count; r++)
    if (r != p->root) p->ends[0][sources++] = tu_end_whole(&p->located[r]);
  err = tu_carry_reduce(&stage, &to, p->ends[0], sources, o->op, error);
  return leave(p, err, error);
}

tutti_err tutti_onesided_reduce_sized(const tutti_onesided_group *group, const tutti_tensor *to, tutti_op op,
                                      void *accumulator, const tutti_staging *staging, size_t staging_bytes,
                                      const tutti_events *events) {
  const struct order order = {.call = "tutti_onesided_reduce",
                              .own_name = "to",
                              .own = to,
                              .op = op,
                              .accumulator = accumulator,
                              .staging = {staging, staging_bytes},
                              .events = events,
                              .check_rows = need_one_block,
                              .carry = reduce};
  return perform(group, &order);
}
