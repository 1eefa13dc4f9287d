/* plan.c: plans that a user brings: read, proved, and held against the calls that name them. */
#include <stdlib.h>

#include "api/comm.h"
#include "base/text.h"
#include "check/check.h"

struct tutti_plan {
  struct tu_plan *plan; /* with all ranks' steps */
  uint64_t hash;        /* of its text form, so that a plan is the same in whatever form it came; not 0 */
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
  if (tu_check(*plan, 1, &report)) return TUTTI_OK; /* one credit: it then ends with any number */
  tu_plan_destroy(*plan);
  if (report.no_memory) return tu_fail(error, TUTTI_ERR_MEMORY, "%s: %s", path, report.text);
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: this plan is wrong: %s", path, report.text);
}

tutti_err tutti_plan_load(const char *path, tutti_plan **plan) {
  struct tu_error error;
  if (plan) *plan = NULL;
  if (!path || !plan) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_plan_load needs the path of a file and a place for the plan");
    return tu_thread_error(&error);
  }
  struct tu_plan *read;
  if (read_and_prove(path, &read, &error) != TUTTI_OK) return tu_thread_error(&error);
  struct hashing h = {.plan = read};
  tutti_err err = tu_arena_build(write_and_hash, &h, path, &error);
  tu_arena_fini(&h.arena);
  if (err == TUTTI_OK && !(*plan = tu_try_allocate(1, sizeof **plan)))
    err = tu_fail_memory(&error, sizeof **plan, "%s", path);
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

/* In place or not: where both buffers are, and hold something. */
static tutti_err check_place(const struct tu_plan *p, const struct tu_call *views, const char *collective,
                             bool in_place, struct tu_error *error) {
  size_t begin;
  bool both = tu_view_extent(&views->in, &begin) > 0 && tu_view_extent(&views->out, &begin) > 0;
  if (!both || p->in_place == in_place) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the plan '%s' is for calls %s (in_place %s), and this one is %s",
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
                   "%s: the call names the algorithm '%s' and the plan '%s'; name one of them", c->name,
                   call->algorithm, name);
  if (c->family == TUTTI_SEND)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the call names the plan '%s'; only collectives run plans", c->name,
                   name);
  if (p->collective != c->family)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the plan '%s' is for %s", c->name, name,
                   tu_collectives[p->collective].name);
  if (p->ranks != comm->ranks)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the plan '%s' is for %u ranks, and the communicator has %u", c->name,
                   name, p->ranks, comm->ranks);
  if (c->rooted && p->root != call->root)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the plan '%s' is for root %u, and the call's root is %u", c->name,
                   name, p->root, call->root);
  if (c->vector && p->equal_blocks)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: the plan '%s' serves blocks of equal size only (equal_blocks yes)",
                   c->name, name);
  struct tu_user_op user;
  if (tu_reduces(call->collective) && tu_user_op_find(call->op, &user) && !user.commutative && !p->rank_order)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: the operation '%s' does not commute, and the plan '%s' does not combine in rank order "
                   "(rank_order no)",
                   c->name, user.name, name);
  return check_place(p, views, c->name, in_place, error);
}
