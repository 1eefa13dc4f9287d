/* user_plan.c: plans that a program loads. Reads each plan, proves it correct, and checks it against the calls that
 * name it. */
#include "call/user_plan.h"

#include <stdlib.h>

#include "base/text.h"
#include "check/check.h"
#include "comm/failure.h"
#include "comm/operations.h"

struct tutti_plan {
  struct tu_plan *plan; /* the plan, with the steps of all ranks */
  uint64_t hash;        /* hash of the plan's text form, so that it does not depend on the format of the file; not 0 */
};

struct hashing {
  const struct tu_plan *plan;
  struct tu_arena arena;
  uint64_t hash;
};

static tutti_err write_and_hash(void *argument, struct tu_error *error) {
  struct hashing *h = argument;
  struct tu_text text = {.arena = &h->arena};
  (void)error;
  tu_plan_write(h->plan, &text);
  h->hash = tu_hash(text.chars, text.length, 0);
  if (h->hash == 0) h->hash = 1;
  return TUTTI_OK;
}

static tutti_err read_and_prove(const char *path, struct tu_plan **plan, struct tu_error *error) {
  char *data;
  size_t bytes;
  tutti_err err = tu_read_file_of(path, TU_DATA_BYTES, &data, &bytes, error);
  if (err != TUTTI_OK) return err;
  err = tu_plan_read_any(data, bytes, path, false, plan, error);
  free(data);
  if (err != TUTTI_OK) return err;
  struct tu_check_report report;
  /* The check uses one credit (one free slot per channel). A plan that does not deadlock with one credit does not
   * deadlock with more credits. */
  if (tu_check(*plan, 1, &report)) {
    (*plan)->order = report.order; /* what was proved, also if the file claims less */
    return TUTTI_OK;
  }
  tu_plan_destroy(*plan);
  if (report.no_memory) return tu_fail(error, TUTTI_ERR_MEMORY, "%s: %s", path, report.text);
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the checker refuses this plan: %s", path, report.text);
}

tutti_err tutti_plan_load(const char *path, tutti_plan **plan) {
  struct tu_error error;
  if (plan) *plan = NULL;
  if (!path || !plan) return tu_refuse_null("tutti_plan_load", path ? "plan" : "path");
  struct tu_plan *read;
  if (read_and_prove(path, &read, &error) != TUTTI_OK) return tu_thread_error(&error);
  struct hashing h = {.plan = read};
  tutti_err err = tu_arena_build(write_and_hash, &h, path, &error);
  tu_arena_fini(&h.arena);
  if (err == TUTTI_OK && !(*plan = tu_try_allocate(1, sizeof **plan)))
    err = tu_fail_memory(&error, sizeof **plan, "the plan in %s", path);
  if (err != TUTTI_OK) {
    tu_plan_destroy(read);
    return tu_thread_error(&error);
  }
  **plan = (struct tutti_plan){read, h.hash};
  return TUTTI_OK;
}

void tutti_plan_free(tutti_plan *plan) {
  if (!plan) return;
  tu_plan_destroy(plan->plan);
  free(plan);
}

const struct tu_plan *tu_user_plan(const tutti_plan *plan, uint64_t *hash) {
  *hash = plan->hash;
  return plan->plan;
}

const char *tu_user_plan_name(const tutti_plan *plan) { return plan->plan->algorithm; }

/* Checks that the plan and the call agree on being in place. The check is not needed if the rank lacks one of the
 * buffers, or if one buffer is empty. */
static tutti_err check_in_place(const struct tu_plan *p, const struct tu_call *views, const char *collective,
                                bool in_place, struct tu_error *error) {
  size_t begin;
  bool both = tu_view_extent(&views->in, &begin) > 0 && tu_view_extent(&views->out, &begin) > 0;
  if (!both || p->in_place == in_place) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the plan '%s' is for calls %s (in_place %s), but this call is %s",
                 collective, p->algorithm, p->in_place ? "in place" : "out of place", p->in_place ? "yes" : "no",
                 in_place ? "in place" : "out of place");
}

tutti_err tu_user_plan_serves(const struct tutti_comm *comm, const tutti_call *call, const struct tu_call *views,
                              bool in_place, struct tu_error *error) {
  const struct tu_plan *p = call->plan->plan;
  const struct tu_collective *c = &tu_collectives[call->collective];
  const char *name = p->algorithm;
  if (call->algorithm)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: the call names the algorithm '%s' and the plan '%s'; name only one of them", c->name,
                   call->algorithm, name);
  if (c->family == TUTTI_SEND)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the call names the plan '%s'; only collectives run plans", c->name,
                   name);
  if (p->collective != c->family)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the plan '%s' is for %s", c->name, name,
                   tu_collectives[p->collective].name);
  if (p->ranks != comm->ranks)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the plan '%s' is for %u ranks, but the communicator has %u", c->name,
                   name, p->ranks, comm->ranks);
  if (c->rooted && p->root != call->root)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the plan '%s' is for root %u, but the call's root is %u", c->name,
                   name, p->root, call->root);
  if (c->vector && p->equal_blocks)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the plan '%s' is only for blocks of equal size (equal_blocks yes)",
                   c->name, name);
  struct tu_user_op user;
  if (tu_reduces(call->collective) && tu_user_op_find(comm, call->op, &user) && !user.commutative && !p->rank_order)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: the operation '%s' is not commutative, but the plan '%s' does not combine in rank order "
                   "(rank_order no)",
                   c->name, user.name, name);
  if (views->signature.form & TU_ORDERED && p->order != TU_CANONICAL)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: the call asks for the canonical order, but the plan '%s' reduces in another one; `tutti check` "
                   "shows which",
                   c->name, name);
  return check_in_place(p, views, c->name, in_place, error);
}
