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

static const struct tu_comm_goal presence = {all_present, is_absent, "to map the shared memory"};

static tutti_err fail_to_come(const struct tutti_comm *comm, const struct tu_comm_goal *goal, int timeout_ms,
                              struct tu_error *error) {
  char list[200] = "";
  size_t at = 0;
  uint32_t ranks = comm->mover ? comm->ranks : comm->transport->ranks, late = 0;
  for (uint32_t r = 0; r < ranks; r++) {
    if (!goal->lacks(comm, r)) continue;
    if (at + 16 < sizeof list) at += (size_t)snprintf(list + at, sizeof list - at, "%s%u", late ? ", " : "", r);
    else if (list[at - 1] != '.') at += (size_t)snprintf(list + at, sizeof list - at, ", ...");
    late++;
  }
  return tu_fail(error, TUTTI_ERR_TIMEOUT, "rank %u has waited %d ms for rank%s %s %s", comm->rank, timeout_ms,
                 late == 1 ? "" : "s", list, goal->what);
}

/* One of the ranks whose turn it is has died, or given up: says so. */
static bool find_lost(const struct tutti_comm *comm, const struct tu_comm_goal *goal, struct tu_error *error) {
  const struct tu_control *control = comm->mover ? &comm->mover->control : NULL;
  uint32_t ranks = control ? comm->ranks : comm->transport->ranks;
  for (uint32_t i = 0; i < ranks; i++) {
    if (!goal->lacks(comm, i)) continue;
    uint32_t local = control ? tu_control_local(control, i) : i;
    if (tu_transport_gave_up(comm->transport, local, error)) return true;
    if (control && tu_control_missed(control, i))
      tu_fail(error, TUTTI_ERR_PEER, "rank %u could not make its side of the communicator", i);
    else if (!tu_transport_alive(comm->transport, local))
      tu_fail(error, TUTTI_ERR_PEER, "rank %u has died or exited while the communicator was made", i);
    else continue;
    return true;
  }
  return false;
}

struct awaiting {
  struct tutti_comm *comm;
  const struct tu_comm_goal *goal;
};

static bool is_there(void *context) {
  const struct awaiting *a = context;
  if (a->comm->mover) (void)tu_mover_look(a->comm->mover);
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
    if (due != TU_GO_ON && find_lost(comm, goal, error) && !goal->there(comm)) return error->code;
    if (due == TU_TOO_LATE && !goal->there(comm)) return fail_to_come(comm, goal, timeout_ms, error);
  }
  return TUTTI_OK;
}

static bool has_block(const struct tutti_comm *comm) { return tu_mover_ready(comm->mover); }
static bool is_leader(const struct tutti_comm *comm, uint32_t rank) { return rank == comm->mover->control.leader; }

static const struct tu_comm_goal block = {has_block, is_leader, "to begin with the communicator"};

static void drop_endpoint(struct tu_transport *t) {
  if (atomic_fetch_sub(&t->users, 1) == 1) t->ops->close(t);
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
  if (comm->mover)
    for (uint32_t i = 0; i < tu_mover_channels(comm->mover); i++) {
      const struct tu_receiver *r = tu_mover_nth_receiver(comm->mover, i);
      if (r) tu_matching_destroy(r->matching);
    }
  tu_mover_destroy(comm->mover, in_order);
  drop_endpoint(comm->transport);
  tu_call_tensors_release(comm->memo.resolved.tensors);
  tu_tuning_release(comm->tuning);
  free(comm->domains);
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
    drop_endpoint(t);
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

/* ---- communicators from communicators ---- */

/* Without memory for what it inherits, the child fails, for all, and is gone on this rank. */
static tutti_err inherit(tutti_comm **child, const tutti_comm *parent, struct tu_error *error) {
  tutti_comm_set_timeout(*child, parent->timeout_ms);
  (*child)->patience = parent->patience;
  (*child)->tuning = tu_tuning_share(parent->tuning);
  tutti_err err = tu_groups_inherit(*child, parent, error);
  if (err == TUTTI_OK) return err;
  tu_comm_fail(*child, error);
  tu_comm_destroy(*child, false);
  *child = NULL;
  return err;
}

/* Of more ranks the library's own exchanges take few messages, and a plan that is built in no time. */
#define EXCHANGE_RANKS 64u

/* What TUTTI_ALGORITHM forces may not serve it: it is for the user's calls. */
tutti_err tu_comm_exchange(tutti_comm *comm, const void *mine, void *all, size_t bytes) {
  const struct tu_wanted wanted = {.collective = TUTTI_ALLGATHER,
                                   .ranks = comm->ranks,
                                   .bytes = bytes * comm->ranks,
                                   .group = comm->group,
                                   .host = comm->host,
                                   .share = comm->share};
  const struct tu_algorithm *algorithm;
  struct tu_error error;
  const struct tu_algorithm *few_messages =
      comm->ranks > EXCHANGE_RANKS ? tu_algorithm_find(TUTTI_ALLGATHER, "bruck") : NULL;
  tutti_err err = tu_tuning_choose(comm->tuning, few_messages, &wanted, &algorithm, &error);
  if (err != TUTTI_OK) return tu_comm_fail(comm, &error);
  const tutti_call call = {.collective = TUTTI_ALLGATHER,
                           .send = mine,
                           .recv = all,
                           .count = bytes,
                           .type = TUTTI_U8,
                           .algorithm = algorithm->name};
  return tu_call_and_wait(comm, &call);
}

tutti_err tutti_comm_self(tutti_comm *parent, tutti_comm **self) {
  struct tu_error error;
  struct tu_transport *t;
  uint32_t member = 0;
  if (!parent || !self) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_comm_self: a communicator and a place for the new one are needed");
    return tu_thread_error(&error);
  }
  *self = NULL;
  struct tu_visit visit;
  if (!tu_hold(parent, &visit)) return tu_refuse_visit("tutti_comm_self");
  tutti_err err = tu_world_alone(&t, &error);
  if (err == TUTTI_OK) err = tu_comm_create(t, &member, 1, 0, TU_WORLD_SESSION, TU_JOIN_TIMEOUT_MS, self, &error);
  if (err == TUTTI_OK) err = inherit(self, parent, &error);
  if (err != TUTTI_OK) (void)tu_thread_error(&error);
  tu_leave(&visit);
  return err;
}

struct split_entry {
  int32_t color, key;
  uint32_t rank; /* in the parent */
  uint32_t world_rank;
};

static int compare_entries(const void *a, const void *b) {
  const struct split_entry *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The same on all ranks of the parent; known before a rank knows who else will be in its part. */
static uint64_t session_of_split(const tutti_comm *parent) {
  return tu_hash(&parent->number, sizeof parent->number, parent->mover->control.session) | 1;
}

/* Each rank makes its own side, the first one of each host what they share there. */
static tutti_err make_part(tutti_comm *parent, const struct split_entry *part, uint32_t ranks, uint32_t rank,
                           tutti_comm **comm, struct tu_error *error) {
  uint32_t *members = tu_try_allocate(ranks, sizeof *members);
  if (!members) return tu_fail_memory(error, ranks * sizeof *members, "a communicator of %u ranks", ranks);
  for (uint32_t i = 0; i < ranks; i++) members[i] = part[i].world_rank;
  tutti_err err = tu_comm_create(parent->transport, members, ranks, rank, session_of_split(parent), TU_JOIN_TIMEOUT_MS,
                                 comm, error);
  free(members);
  return err == TUTTI_OK ? inherit(comm, parent, error) : err;
}

/* The others may have made their sides, or be about to. */
static void tell_missed(const tutti_comm *parent) {
  tu_control_miss(parent->transport, session_of_split(parent), parent->mover->control.members, parent->ranks);
}

static tutti_err split(tutti_comm *parent, int color, int key, tutti_comm **comm) {
  struct tu_error error;
  struct split_entry mine = {color, key, parent->rank, parent->mover->control.members[parent->rank]};
  struct split_entry *all = tu_try_allocate(parent->ranks, sizeof *all);
  if (!all) {
    tu_fail_memory(&error, parent->ranks * sizeof *all, "rank %u: a split", parent->rank);
    return tu_comm_fail(parent, &error);
  }
  tutti_err err = tu_comm_exchange(parent, &mine, all, sizeof mine);
  if (err == TUTTI_OK && color != TUTTI_NO_COLOR) {
    uint32_t ranks = 0, rank = 0;
    for (uint32_t i = 0; i < parent->ranks; i++)
      if (all[i].color == color) all[ranks++] = all[i];
    qsort(all, ranks, sizeof *all, compare_entries);
    while (all[rank].rank != parent->rank) rank++;
    err = make_part(parent, all, ranks, rank, comm, &error);
    if (err != TUTTI_OK) parent->error = error;
    if (err != TUTTI_OK) (void)tu_thread_error(&error);
  }
  if (err != TUTTI_OK) tell_missed(parent);
  free(all);
  return err;
}

static tutti_err enter_and_split(const char *call, tutti_comm *parent, int color, int key, tutti_comm **comm) {
  struct tu_error error;
  struct tu_visit visit;
  tutti_err err;
  if (!parent || !comm) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: a communicator and a place for the new one are needed", call);
    return tu_thread_error(&error);
  }
  *comm = NULL;
  if (!tu_hold(parent, &visit)) return tu_refuse_visit(call);
  if (color < 0 && color != TUTTI_NO_COLOR) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: colour %d is negative; use 0 or more, or TUTTI_NO_COLOR", call, color);
    err = tu_comm_fail(parent, &error);
  } else {
    err = split(parent, color, key, comm);
  }
  tu_leave(&visit);
  return err;
}

tutti_err tutti_comm_split(tutti_comm *parent, int color, int key, tutti_comm **comm) {
  return enter_and_split("tutti_comm_split", parent, color, key, comm);
}

tutti_err tutti_comm_dup(tutti_comm *parent, tutti_comm **comm) {
  return enter_and_split("tutti_comm_dup", parent, 0, parent ? (int)parent->rank : 0, comm);
}

/* ---- the end ---- */

/* The time is over. */
static tutti_err fail_to_drain(struct tutti_comm *comm, uint64_t since) {
  struct tu_error error;
  char late[400];
  const struct tu_chain_wait wait = {.members = comm->waits_for, .since = since};
  if (!tu_chain_print(comm, &wait, late, sizeof late)) snprintf(late, sizeof late, "its own messages");
  tu_fail(&error, TUTTI_ERR_TIMEOUT, "rank %u has waited %d ms in tutti_comm_free for %s", comm->rank, comm->timeout_ms,
          late);
  return tu_comm_fail(comm, &error);
}

static tutti_err wait_drained(struct tutti_comm *comm) {
  struct tu_error error;
  struct tu_wait wait = {.stall.sleep_ms = 1, .timeout_ms = comm->timeout_ms};
  tu_mover_flush(comm->mover);
  for (;;) {
    (void)tu_mover_look(comm->mover);
    tu_note_departed(comm); /* with those that it waited for at the last look */
    memset(comm->waits_for, 0, comm->ranks * sizeof *comm->waits_for);
    if (tu_comm_failed(comm)) return comm->error.code;
    if (tu_mover_drained(comm->mover, comm->waits_for)) return TUTTI_OK;
    enum tu_due due = tu_wait_inside(comm, &wait);
    if (due == TU_GO_ON) continue;
    if (tu_peer_lost(comm, "tutti_comm_free", &error)) return tu_comm_fail(comm, &error);
    tu_chain_tell_members(comm, comm->waits_for, wait.since, tu_clock_ns());
    if (due == TU_TOO_LATE) return fail_to_drain(comm, wait.since);
  }
}

tutti_err tutti_comm_free(tutti_comm *comm) {
  struct tu_visit visit;
  if (!comm) return TUTTI_OK;
  if (!tu_hold(comm, &visit)) return tu_refuse_visit("tutti_comm_free");
  tutti_err err = TUTTI_OK;
  if (tu_thread.telling) { /* on_ready is called within a function that goes on with the communicator afterwards */
    struct tu_error error;
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_comm_free was called within on_ready, where only tutti_request_fill is possible; nothing is freed");
    tu_leave(&visit);
    return tu_thread_error(&error);
  }
  while (comm->open_requests > 0 && comm->failed) tu_queue_poll(comm); /* ends them with the verdict */
  if (comm->open_requests > 0) {
    struct tu_error error;
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_comm_free: %u requests are still open on rank %u; wait for them first",
            comm->open_requests, comm->rank);
    err = tu_comm_fail(comm, &error);
    tu_queue_poll(comm);
  }
  uint32_t windows = tu_windows_abandon(comm);
  if (windows > 0 && err == TUTTI_OK && !comm->failed) {
    struct tu_error error;
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_comm_free: rank %u still has %u windows; tutti_window_free comes first",
            comm->rank, windows);
    err = tu_comm_fail(comm, &error);
  }
  uint32_t channels = tu_channels_abandon(comm);
  if (channels > 0 && err == TUTTI_OK && !comm->failed) {
    struct tu_error error;
    tu_fail(&error, TUTTI_ERR_ARGUMENT,
            "tutti_comm_free: rank %u still has %u channels open; tutti_channel_close comes first", comm->rank,
            channels);
    err = tu_comm_fail(comm, &error);
  }
  if (err == TUTTI_OK) err = wait_drained(comm);
  tu_chain_go_on(comm->transport);
  if (err != TUTTI_OK) (void)tu_thread_error(&comm->error);
  tu_comm_destroy(comm, err == TUTTI_OK);
  return err;
}
