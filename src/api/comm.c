/* comm.c: communicators: made from an endpoint, split, failed and freed. */
#include "api/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/env.h"

#define CREDITS_ROOMY 8u    /* few lines stay where they are used: the fastest exchange of two ranks that poll */
#define CREDITS_CROWDED 64u /* ... of ranks that have to wait for a core: as much as one can do before that */
#define SLEEP_MS_MAX 16u    /* ... sleeps at a time: what it waits for may come without a bell */

int tutti_version(void) { return TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH; }

uint32_t tutti_rank(const tutti_comm *comm) { return comm->rank; }
uint32_t tutti_ranks(const tutti_comm *comm) { return comm->ranks; }

void tutti_comm_set_timeout(tutti_comm *comm, int timeout_ms) {
  struct tu_visit visit;
  if (!tu_hold(comm, &visit)) {
    (void)tu_refuse_visit("tutti_comm_set_timeout");
    return;
  }
  comm->timeout_ms = timeout_ms;
  tu_leave(&visit);
}

/* ---- failing ---- */

bool tu_comm_find_verdict(struct tutti_comm *comm) {
  if (comm->failed) return true;
  if (!tu_control_verdict(&comm->mover->control, &comm->error)) return false;
  return comm->failed = true;
}

tutti_err tu_comm_verdict(const tutti_comm *comm, struct tu_error *error) {
  struct tu_error found;
  if (!tu_control_verdict(&comm->mover->control, &found)) return TUTTI_OK;
  *error = found;
  return found.code;
}

tutti_err tu_comm_fail(struct tutti_comm *comm, const struct tu_error *error) {
  if (!comm->failed) {
    tu_control_fail(&comm->mover->control, error);
    comm->failed = true;
    /* The first word counts, also if it was another rank's. */
    if (!tu_control_verdict(&comm->mover->control, &comm->error)) comm->error = *error;
  }
  return tu_thread_error(&comm->error);
}

void tutti_abort(tutti_comm *comm, const char *reason) {
  struct tu_error error;
  struct tu_visit visit;
  tu_fail(&error, TUTTI_ERR_ABORTED, "rank %u aborted: %s", comm->rank, reason ? reason : "it gave no reason");
  if (!tu_process_is(comm->process)) {
    (void)tu_refuse_visit("tutti_abort");
  } else if (tu_try_hold(comm, &visit)) {
    (void)tu_comm_fail(comm, &error);
    tu_leave(&visit);
  } else { /* the thread that is inside finds it */
    tu_control_fail(&comm->mover->control, &error);
    (void)tu_thread_error(&error);
  }
}

/* ---- making ---- */

/* Staging memory from one rank to another, and how much of it one slice takes at most: less where there are many pairs. A
 * ring is long, so that what is written into it has left the reader's cache: to take a line back from there costs more. */
static const struct {
  uint32_t ranks; /* up to so many */
  uint32_t ring_bytes, slot_bytes;
} stagings[] = {
    {2, 2u << 20, 128u << 10}, {4, 1u << 20, 64u << 10}, {8, 512u << 10, 64u << 10}, {UINT32_MAX, 64u << 10, 8u << 10}};

static tutti_err read_shape(uint32_t ranks, struct tu_channel_shape *shape, struct tu_error *error) {
  tutti_err err;
  uint32_t i = 0;
  while (ranks > stagings[i].ranks) i++;
  uint64_t ring = stagings[i].ring_bytes, slot = 0;
  if ((err = tu_env_bytes("TUTTI_RING_BYTES", &ring, error)) != TUTTI_OK) return err;
  if ((err = tu_env_bytes("TUTTI_SLOT_BYTES", &slot, error)) != TUTTI_OK) return err;
  if (ring < 2 * TU_LINE_BYTES || ring > (1u << 30))
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_RING_BYTES is %llu; from 128 to 1G is possible",
                   (unsigned long long)ring);
  if (slot > ring / 2 || (slot > 0 && slot < TU_LINE_BYTES))
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "TUTTI_SLOT_BYTES is %llu; from 64 to half of TUTTI_RING_BYTES, which is %llu, is possible",
                   (unsigned long long)slot, (unsigned long long)ring);
  if (slot == 0) slot = tu_min(stagings[i].slot_bytes, ring / 2);
  *shape = (struct tu_channel_shape){.credits = CREDITS_ROOMY,
                                     .slot_bytes = (uint32_t)(slot / TU_LINE_BYTES * TU_LINE_BYTES),
                                     .ring_bytes = (uint32_t)(ring / TU_LINE_BYTES * TU_LINE_BYTES)};
  return TUTTI_OK;
}

static tutti_err read_settings(struct tutti_comm *comm, struct tu_channel_shape *shape, struct tu_error *error) {
  tutti_err err;
  if ((err = tu_isa_check(error)) != TUTTI_OK) return err;
  return read_shape(comm->ranks, shape, error);
}

/* A rank of the world that is not in this communicator wants its share of the CPUs, too. */
static tutti_err settle(struct tutti_comm *comm, struct tu_channel_shape *shape, struct tu_error *error) {
  struct tu_transport *t = comm->transport;
  comm->share = t->share > 0 ? t->share : tu_cpus_share_alike(t->ranks);
  if (comm->share > 1) shape->credits = CREDITS_CROWDED;
  return tu_patience_init(&comm->patience, 0, comm->share, error);
}

static bool is_absent(const struct tutti_comm *comm, uint32_t rank) {
  return !atomic_load(&tu_transport_head(comm->transport, rank)->present);
}

static bool all_present(const struct tutti_comm *comm) {
  for (uint32_t i = 0; i < comm->transport->ranks; i++)
    if (is_absent(comm, i)) return false;
  return true;
}

static const struct tu_comm_goal presence = {all_present, is_absent, "to map the shared memory", false};

static tutti_err fail_to_come(const struct tutti_comm *comm, const struct tu_comm_goal *goal, int timeout_ms,
                              uint64_t since, struct tu_error *error) {
  char list[200] = "";
  size_t at = 0;
  uint32_t ranks = comm->mover ? comm->ranks : comm->transport->ranks, late = 0;
  for (uint32_t r = 0; r < ranks; r++) {
    if (!goal->lacks(comm, r)) continue;
    if (at + 16 < sizeof list) at += (size_t)snprintf(list + at, sizeof list - at, "%s%u", late ? ", " : "", r);
    else if (list[at - 1] != '.') at += (size_t)snprintf(list + at, sizeof list - at, ", ...");
    late++;
  }
  char chain[400] = "";
  const struct tu_chain_wait wait = {.members = comm->waits_for, .since = since, .creates = true};
  bool others = goal->chains && tu_chain_print(comm, &wait, chain, sizeof chain);
  return tu_fail(error, TUTTI_ERR_TIMEOUT, "rank %u has waited %d ms for rank%s %s %s%s%s", comm->rank, timeout_ms,
                 late == 1 ? "" : "s", list, goal->what, others ? "; it waits for " : "", chain);
}

/* One of the ranks whose turn it is has died, or given up: says so. */
static bool find_lost(const struct tutti_comm *comm, const struct tu_comm_goal *goal, struct tu_error *error) {
  const struct tu_control *control = comm->mover ? &comm->mover->control : NULL;
  uint32_t ranks = control ? comm->ranks : comm->transport->ranks;
  for (uint32_t i = 0; i < ranks; i++) {
    if (!goal->lacks(comm, i)) continue;
    uint32_t local = control ? tu_control_local(control, i) : i;
    if (local != TU_REMOTE && tu_transport_gave_up(comm->transport, local, error)) return true;
    tutti_err missed = control ? tu_control_missed(control, i) : TUTTI_OK;
    if (missed != TUTTI_OK) tu_fail(error, missed, "rank %u of the communicator could not make its side of it", i);
    else if (control ? !tu_control_alive(control, i) : !tu_transport_alive(comm->transport, local))
      tu_fail(error, TUTTI_ERR_PEER, "rank %u has died or exited while the communicator was made", i);
    else continue;
    return true;
  }
  return false;
}

static void tell_lacking(struct tutti_comm *comm, const struct tu_comm_goal *goal, uint64_t since) {
  for (uint32_t r = 0; r < comm->ranks; r++) comm->waits_for[r] = goal->lacks(comm, r);
  tu_chain_tell_members(comm, comm->waits_for, true, since, tu_clock_ns());
}

struct awaiting {
  struct tutti_comm *comm;
  const struct tu_comm_goal *goal;
};

static bool is_there(void *context) {
  const struct awaiting *a = context;
  if (a->comm->mover) (void)tu_mover_look(a->comm->mover);
  if (!tu_thread.telling) (void)tu_queue_poll_others(a->comm);
  return a->goal->there(a->comm);
}

/* A rank that found what it waited for may have done its work and left since: only a death that leaves this rank
 * waiting counts. */
tutti_err tu_comm_await(struct tutti_comm *comm, const struct tu_comm_goal *goal, int timeout_ms,
                        struct tu_error *error) {
  struct awaiting awaiting = {comm, goal};
  struct tu_wait wait = {.timeout_ms = timeout_ms, .stall.sleep_ms = 1};
  while (!is_there(&awaiting)) {
    enum tu_due due = tu_wait_outside(comm, &wait, is_there, &awaiting);
    if (wait.since) wait.stall.sleep_ms = (int)tu_min(2 * (size_t)wait.stall.sleep_ms, SLEEP_MS_MAX);
    if (due != TU_GO_ON && goal->chains) tell_lacking(comm, goal, wait.since);
    if (due != TU_GO_ON && find_lost(comm, goal, error) && !goal->there(comm)) return error->code;
    if (due == TU_TOO_LATE && !goal->there(comm)) return fail_to_come(comm, goal, timeout_ms, wait.since, error);
  }
  if (wait.since && goal->chains) tu_chain_go_on(comm->transport);
  return TUTTI_OK;
}

static bool has_block(const struct tutti_comm *comm) { return tu_mover_ready(comm->mover); }
static bool is_leader(const struct tutti_comm *comm, uint32_t rank) { return rank == comm->mover->control.leader; }

static const struct tu_comm_goal block = {has_block, is_leader, "to begin with the communicator", true};

void tu_comm_drop_endpoint(struct tu_transport *t) {
  if (atomic_fetch_sub(&t->users, 1) == 1) t->ops->close(t);
}

static void destroy_matching(const struct tutti_comm *comm) {
  for (uint32_t i = 0; comm->mover && i < tu_mover_channels(comm->mover); i++) {
    struct tu_receiver *r = tu_mover_nth_receiver(comm->mover, i);
    if (!r) continue;
    tu_matching_destroy(r->matching);
    r->matching = NULL;
  }
}

void tu_comm_forget_mover(struct tutti_comm *comm) {
  destroy_matching(comm);
  comm->mover = NULL;
  comm->transport = NULL;
}

void tu_comm_destroy(struct tutti_comm *comm, bool in_order) {
  tu_queue_forget(comm);
  while (comm->lost) {
    struct tutti_request *r = comm->lost;
    comm->lost = r->next;
    tu_request_destroy(r);
  }
  for (size_t i = 0; i < TUTTI_COLLECTIVES; i++) tu_request_destroy(comm->again[i]);
  while (comm->idle) {
    struct tutti_request *r = comm->idle;
    comm->idle = r->idle_next;
    tu_request_destroy(r);
  }
  while (comm->plans) {
    struct tu_cached_plan *p = comm->plans;
    comm->plans = p->next;
    tu_plan_destroy(p->plan);
    free(p);
  }
  destroy_matching(comm);
  tu_mover_destroy(comm->mover, in_order);
  if (comm->transport) tu_comm_drop_endpoint(comm->transport);
  tu_call_tensors_release(comm->memo.resolved.tensors);
  tu_tuning_release(comm->tuning);
  free(comm->domains);
  free(comm->uses);
  free(comm->waits_for);
  free(comm->departed);
  free(comm);
}

tutti_err tu_comm_create(struct tu_transport *t, const uint32_t members[], uint32_t ranks, uint32_t rank,
                         uint64_t session, int timeout_ms, struct tutti_comm **comm, struct tu_error *error) {
  tutti_err err;
  struct tu_channel_shape shape;
  struct tutti_comm *c = tu_try_allocate(1, sizeof *c);
  atomic_fetch_add(&t->users, 1);
  if (!c) {
    tu_comm_drop_endpoint(t);
    return tu_fail_memory(error, sizeof *c, "a communicator");
  }
  *c = (struct tutti_comm){.process = tu_process_number(NULL), .rank = rank, .ranks = ranks, .transport = t};
  c->waits_for = tu_try_allocate(ranks, sizeof *c->waits_for);
  c->departed = tu_try_allocate(ranks, sizeof *c->departed);
  if (!c->waits_for || !c->departed) {
    err = tu_fail_memory(error, ranks, "a communicator of %u ranks", ranks);
    goto failed;
  }
  if ((err = read_settings(c, &shape, error)) != TUTTI_OK) goto failed;
  err = tu_comm_await(c, &presence, timeout_ms, error);
  if (err != TUTTI_OK) goto failed;
  tu_transport_settle(t);
  if ((err = settle(c, &shape, error)) != TUTTI_OK) goto failed;
  if ((err = tu_mover_create(t, members, ranks, rank, session, shape, &c->mover, error)) != TUTTI_OK) goto failed;
  if ((err = tu_comm_await(c, &block, timeout_ms, error)) != TUTTI_OK) goto failed;
  if ((err = tu_control_begin(&c->mover->control, error)) != TUTTI_OK) goto failed;
  *comm = c;
  return TUTTI_OK;

failed:
  if (atomic_load(&t->users) == 1) tu_transport_give_up(t, error);
  tu_comm_destroy(c, false);
  return err;
}
