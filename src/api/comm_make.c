/* comm_make.c: creates communicators from a parent communicator, by the calls self, split, dup and create. */
#include <pthread.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "algo/tuning.h"
#include "api/await.h"
#include "api/comm_create.h"
#include "api/comm_end.h"
#include "call/exchange.h"
#include "call/progress.h"
#include "comm/comm.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "comm/groups.h"

/* Copies the parent's settings to the child. If out of memory, fails the child on all ranks, and destroys it on this
 * rank. */
static tutti_err inherit(tutti_comm **child, const tutti_comm *parent, struct tu_error *error) {
  (*child)->timeout_ms = parent->timeout_ms;
  (*child)->order = parent->order;
  (*child)->patience = parent->patience;
  (*child)->tuning = tu_tuning_share(parent->tuning);
  tutti_err err = tu_groups_inherit(*child, parent, error);
  if (err == TUTTI_OK) return err;
  tu_comm_fail(*child, error);
  tu_comm_destroy(*child, false);
  *child = NULL;
  return err;
}

tutti_err tutti_comm_self(tutti_comm *parent, tutti_comm **self) {
  struct tu_error error;
  struct tu_transport *t;
  uint32_t member = 0;
  if (!parent || !self) return tu_refuse_null("tutti_comm_self", parent ? "self" : "parent");
  *self = NULL;
  struct tu_visit visit;
  if (!tu_hold(parent, &visit)) return tu_refuse_visit("tutti_comm_self");
  tutti_err err = tu_endpoint_alone(&t, &error);
  if (err == TUTTI_OK) {
    t->parallel = parent->transport->parallel;
    t->foreign = parent->transport->foreign;
    err = tu_comm_create(t, &member, 1, 0, TU_WORLD_ID, TU_JOIN_TIMEOUT_MS, self, &error);
  }
  if (err == TUTTI_OK) err = inherit(self, parent, &error);
  if (err != TUTTI_OK) (void)tu_thread_error(&error);
  tu_leave(&visit);
  return err;
}

/* Returns how long to wait, in ms, for other ranks that create a communicator together with this one. */
static int time_limit(const tutti_comm *parent) {
  return parent->timeout_ms > 0 ? parent->timeout_ms : TU_JOIN_TIMEOUT_MS;
}

struct split_entry {
  int32_t color, key;
  uint32_t rank; /* rank number in the parent */
  uint32_t world_rank;
};

static int compare_entries(const void *a, const void *b) {
  const struct split_entry *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Returns the communicator id for a split. It is computed from the sequence number of the parent's next collective.
 * This next collective must be the exchange of this split. So the id is equal on all ranks of the parent, and known
 * before the exchange. */
static uint64_t id_of_split(const tutti_comm *parent) {
  const uint64_t number = parent->number + 1;
  return tu_hash(&number, sizeof number, parent->mover->control.comm_id) | 1;
}

/* Creates this rank's side of the communicator of the ranks with the same color. The first of these ranks on each host
 * also creates the memory that they share on that host. */
static tutti_err make_part(tutti_comm *parent, const struct split_entry *part, uint32_t ranks, uint32_t rank,
                           uint64_t comm_id, tutti_comm **comm, struct tu_error *error) {
  uint32_t *members = tu_try_allocate(ranks, sizeof *members);
  if (!members) return tu_fail_memory(error, ranks * sizeof *members, "a communicator of %u ranks", ranks);
  for (uint32_t i = 0; i < ranks; i++) members[i] = part[i].world_rank;
  tutti_err err = tu_comm_create(parent->transport, members, ranks, rank, comm_id, time_limit(parent), comm, error);
  free(members);
  return err == TUTTI_OK ? inherit(comm, parent, error) : err;
}

static tutti_err split(tutti_comm *parent, int color, int key, tutti_comm **comm) {
  struct tu_error error;
  struct split_entry mine = {color, key, parent->rank, parent->mover->control.members[parent->rank]};
  struct split_entry *all = tu_try_allocate(parent->ranks, sizeof *all);
  const uint64_t comm_id = id_of_split(parent);
  if (!all) {
    tu_fail_memory(&error, parent->ranks * sizeof *all, "the split of a communicator on rank %u", parent->rank);
    return tu_comm_fail(parent, &error);
  }
  tutti_err err = tu_comm_exchange(parent, &mine, all, sizeof mine);
  if (err == TUTTI_OK && color != TUTTI_NO_COLOR) {
    uint32_t ranks = 0, rank = 0;
    for (uint32_t i = 0; i < parent->ranks; i++)
      if (all[i].color == color) all[ranks++] = all[i];
    qsort(all, ranks, sizeof *all, compare_entries);
    while (all[rank].rank != parent->rank) rank++;
    err = make_part(parent, all, ranks, rank, comm_id, comm, &error);
    if (err != TUTTI_OK) parent->error = error;
    if (err != TUTTI_OK) (void)tu_thread_error(&error);
  }
  /* Report the failure to the other ranks, because they may have created their sides of the new communicator, or may
   * create them soon. */
  if (err != TUTTI_OK) tu_control_miss(parent->transport, comm_id, err, parent->mover->control.members, parent->ranks);
  free(all);
  return err;
}

static tutti_err enter_and_split(const char *call, tutti_comm *parent, int color, int key, tutti_comm **comm) {
  struct tu_error error;
  struct tu_visit visit;
  tutti_err err;
  if (!parent || !comm) return tu_refuse_null(call, parent ? "comm" : "parent");
  *comm = NULL;
  if (!tu_hold(parent, &visit)) return tu_refuse_visit(call);
  if (color < 0 && color != TUTTI_NO_COLOR) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: color is %d; expected 0 or more, or TUTTI_NO_COLOR", call, color);
    err = tu_comm_fail(parent, &error);
  } else {
    err = split(parent, color, key, comm);
  }
  tu_progress_note(parent);
  tu_leave(&visit);
  return err;
}

tutti_err tutti_comm_split(tutti_comm *parent, int color, int key, tutti_comm **comm) {
  return enter_and_split("tutti_comm_split", parent, color, key, comm);
}

tutti_err tutti_comm_dup(tutti_comm *parent, tutti_comm **comm) {
  return enter_and_split("tutti_comm_dup", parent, 0, parent ? (int)parent->rank : 0, comm);
}

/* ---- communicators of some ranks, which only these ranks create ---- */

/* Number of communicators that this process has created from one parent with one list of ranks and one tag. key:
 * hash of the list and the tag. */
struct tu_use {
  uint64_t key, count;
};

static pthread_mutex_t uses_lock = PTHREAD_MUTEX_INITIALIZER;

/* Adds one to the count of communicators with this key, and returns the count; 0: out of memory. All members get the
 * same count, because they create the communicators that they share in the same order. */
static uint64_t count_use(tutti_comm *parent, uint64_t key) {
  uint64_t count = 0;
  uint32_t i = 0;
  pthread_mutex_lock(&uses_lock);
  while (i < parent->use_count && parent->uses[i].key != key) i++;
  struct tu_use *uses = parent->uses;
  if (i == parent->use_count) uses = tu_try_grow(uses, i, &parent->use_capacity, sizeof *uses);
  if (uses) {
    if (i == parent->use_count) uses[parent->use_count++] = (struct tu_use){.key = key};
    parent->uses = uses;
    count = ++uses[i].count;
  }
  pthread_mutex_unlock(&uses_lock);
  return count;
}

static bool all_here_or_failed(const struct tutti_comm *comm) {
  if (tu_control_failed(&comm->mover->control)) return true;
  for (uint32_t i = 0; i < comm->ranks; i++)
    if (!tu_control_is_here(&comm->mover->control, i)) return false;
  return true;
}
static bool is_missing(const struct tutti_comm *comm, uint32_t rank) {
  return !tu_control_is_here(&comm->mover->control, rank);
}
static const struct tu_comm_goal members_here = {all_here_or_failed, is_missing, "to create the communicator", true};

/* Returns this rank's position in the list of ranks. Sets *error if the list lacks this rank, contains a rank twice,
 * or contains a rank that is not in the parent. */
static uint32_t find_rank(const tutti_comm *parent, const uint32_t ranks[], size_t n, struct tu_error *error) {
  uint32_t rank = UINT32_MAX;
  bool *seen = tu_try_allocate(parent->ranks, sizeof *seen);
  if (!seen) tu_fail_memory(error, parent->ranks, "tutti_comm_create");
  error->code = seen ? TUTTI_OK : error->code;
  for (size_t i = 0; i < n && error->code == TUTTI_OK; i++) {
    if (ranks[i] >= parent->ranks)
      tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_comm_create: ranks[%zu] is %u; expected a rank of the parent, below %u",
              i, ranks[i], parent->ranks);
    else if (seen[ranks[i]])
      tu_fail(error, TUTTI_ERR_ARGUMENT,
              "tutti_comm_create: ranks[%zu] is %u, which is in the list twice; expected each rank once", i, ranks[i]);
    else seen[ranks[i]] = true;
    if (ranks[i] == parent->rank) rank = (uint32_t)i;
  }
  if (error->code == TUTTI_OK && rank == UINT32_MAX)
    tu_fail(error, TUTTI_ERR_ARGUMENT,
            "tutti_comm_create: called by rank %u of the parent, which is not in the list of %zu ranks; only members "
            "may call",
            parent->rank, n);
  free(seen);
  return rank;
}

/* Waits until all members have created their sides of the communicator. An error fails the communicator on all
 * members that have created theirs. */
static tutti_err meet(tutti_comm *comm, int timeout_ms, struct tu_error *error) {
  struct tu_control *control = &comm->mover->control;
  tu_control_come(control);
  tutti_err err = tu_comm_await(comm, &members_here, timeout_ms, error);
  if (err == TUTTI_OK && tu_comm_failed(comm)) {
    *error = comm->error;
    err = error->code;
  }
  if (err != TUTTI_OK) (void)tu_comm_fail(comm, error);
  return err;
}

struct group {
  const uint32_t *ranks; /* [count]: ranks of the new communicator, numbered as in the parent */
  uint32_t *members;     /* [count]: the same ranks, numbered as in the job */
  uint32_t count, rank;
  uint64_t comm_id;
  int timeout_ms;
};

/* Computes what the new communicator needs from its parent: this rank's number, the members, the communicator id and
 * the time limit. The caller holds the parent (no other thread can use it). */
static tutti_err prepare_group(tutti_comm *parent, uint64_t tag, struct group *g, struct tu_error *error) {
  if (tu_comm_failed_by_now(parent)) {
    *error = parent->error;
    return error->code;
  }
  g->rank = find_rank(parent, g->ranks, g->count, error);
  if (error->code != TUTTI_OK) return error->code;
  g->members = tu_try_allocate(g->count, sizeof *g->members);
  const uint64_t key = tu_hash(g->ranks, g->count * sizeof *g->ranks, tag);
  const uint64_t use[] = {key, g->members ? count_use(parent, key) : 0, parent->mover->control.comm_id};
  if (use[1] == 0) return tu_fail_memory(error, g->count * sizeof *g->members, "a communicator of %u ranks", g->count);
  for (uint32_t i = 0; i < g->count; i++) g->members[i] = parent->mover->control.members[g->ranks[i]];
  g->comm_id = tu_hash(use, sizeof use, 1) | 1;
  g->timeout_ms = time_limit(parent);
  return TUTTI_OK;
}

/* Creates the communicator. The parent is not held (reserved for this thread) during the wait for other members, so
 * that other threads can create communicators meanwhile. */
static tutti_err create_group(tutti_comm *parent, uint64_t tag, struct group *g, tutti_comm **comm,
                              struct tu_error *error) {
  struct tu_visit visit;
  if (!tu_hold(parent, &visit)) return tu_explain_visit("tutti_comm_create", error);
  tutti_err err = prepare_group(parent, tag, g, error);
  tu_leave(&visit);
  if (err != TUTTI_OK) return err;
  struct tu_transport *t = parent->transport;
  tu_comm_sweep(t);
  err = tu_comm_create(t, g->members, g->count, g->rank, g->comm_id, g->timeout_ms, comm, error);
  if (err == TUTTI_OK) {
    /* This cannot fail: tu_hold fails only in a child of fork(), and an earlier tu_hold has succeeded. */
    if (!tu_hold(parent, &visit)) abort();
    err = inherit(comm, parent, error);
    tu_leave(&visit);
  }
  if (err == TUTTI_OK && (err = meet(*comm, g->timeout_ms, error)) != TUTTI_OK) {
    tu_comm_destroy(*comm, false);
    *comm = NULL;
  }
  if (err != TUTTI_OK) tu_control_miss(t, g->comm_id, err, g->members, g->count);
  tu_progress_note_at(t, NULL);
  return err;
}

tutti_err tutti_comm_create(tutti_comm *parent, const uint32_t ranks[], size_t count, uint64_t tag, tutti_comm **comm) {
  struct tu_error error;
  struct group group = {.ranks = ranks, .count = (uint32_t)count};
  tutti_err err = TUTTI_OK;
  if (!parent || !comm)
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_comm_create: %s is NULL", parent ? "comm" : "parent");
  else if (!ranks || count == 0 || count > parent->ranks)
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_comm_create: %zu ranks at %p; expected a list of 1 to %u ranks",
                  count, (const void *)ranks, parent->ranks);
  if (comm) *comm = NULL;
  if (err == TUTTI_OK) err = create_group(parent, tag, &group, comm, &error);
  free(group.members);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}
