/* comm_make.c: communicators from communicators. */
#include <pthread.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "api/comm.h"

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

/* Of the split whose exchange is the next collective: the same on all ranks of the parent, and known before a rank knows who else
 * will be in its part. */
static uint64_t session_of_split(const tutti_comm *parent) {
  const uint64_t number = parent->number + 1;
  return tu_hash(&number, sizeof number, parent->mover->control.session) | 1;
}

/* Each rank makes its own side, the first one of each host what they share there. */
static tutti_err make_part(tutti_comm *parent, const struct split_entry *part, uint32_t ranks, uint32_t rank,
                           uint64_t session, tutti_comm **comm, struct tu_error *error) {
  uint32_t *members = tu_try_allocate(ranks, sizeof *members);
  if (!members) return tu_fail_memory(error, ranks * sizeof *members, "a communicator of %u ranks", ranks);
  for (uint32_t i = 0; i < ranks; i++) members[i] = part[i].world_rank;
  tutti_err err = tu_comm_create(parent->transport, members, ranks, rank, session, TU_JOIN_TIMEOUT_MS, comm, error);
  free(members);
  return err == TUTTI_OK ? inherit(comm, parent, error) : err;
}

static tutti_err split(tutti_comm *parent, int color, int key, tutti_comm **comm) {
  struct tu_error error;
  struct split_entry mine = {color, key, parent->rank, parent->mover->control.members[parent->rank]};
  struct split_entry *all = tu_try_allocate(parent->ranks, sizeof *all);
  const uint64_t session = session_of_split(parent);
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
    err = make_part(parent, all, ranks, rank, session, comm, &error);
    if (err != TUTTI_OK) parent->error = error;
    if (err != TUTTI_OK) (void)tu_thread_error(&error);
  }
  /* The others may have made their sides, or be about to. */
  if (err != TUTTI_OK) tu_control_miss(parent->transport, session, err, parent->mover->control.members, parent->ranks);
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

/* ---- of some ranks, which alone call ---- */

/* How often this process has made a communicator of such ranks, with such a tag, from that parent. */
struct tu_use {
  uint64_t key, count;
};

static pthread_mutex_t uses_lock = PTHREAD_MUTEX_INITIALIZER;

/* Members make the communicators that they share in one order: so this is the same number on all of them. 0 without memory. */
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

/* This rank's place in the list; `ranks`: it is not in it, or the list is not one of different ranks of the parent. */
static uint32_t find_place(const tutti_comm *parent, const uint32_t ranks[], size_t n, struct tu_error *error) {
  uint32_t place = UINT32_MAX;
  bool *seen = tu_try_allocate(parent->ranks, sizeof *seen);
  if (!seen) tu_fail_memory(error, parent->ranks, "tutti_comm_create");
  error->code = seen ? TUTTI_OK : error->code;
  for (size_t i = 0; i < n && error->code == TUTTI_OK; i++) {
    if (ranks[i] >= parent->ranks)
      tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_comm_create: ranks[%zu] is %u; expected a rank of the parent, below %u",
              i, ranks[i], parent->ranks);
    else if (seen[ranks[i]])
      tu_fail(error, TUTTI_ERR_ARGUMENT,
              "tutti_comm_create: ranks[%zu] is %u, which stands in the list before; expected "
              "each rank once",
              i, ranks[i]);
    else seen[ranks[i]] = true;
    if (ranks[i] == parent->rank) place = (uint32_t)i;
  }
  if (error->code == TUTTI_OK && place == UINT32_MAX)
    tu_fail(error, TUTTI_ERR_ARGUMENT,
            "tutti_comm_create: rank %u of the parent calls, and is not in the list of %zu ranks; only members call",
            parent->rank, n);
  free(seen);
  return place;
}

/* All members have made their sides, or it has failed for all that have. */
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
  const uint32_t *ranks; /* of the parent */
  uint32_t *members;     /* of the job */
  uint32_t count, place;
  uint64_t session;
  int timeout_ms;
};

/* What is needed of the parent, which is held. */
static tutti_err prepare_group(tutti_comm *parent, uint64_t tag, struct group *g, struct tu_error *error) {
  if (tu_comm_failed_by_now(parent)) {
    *error = parent->error;
    return error->code;
  }
  g->place = find_place(parent, g->ranks, g->count, error);
  if (error->code != TUTTI_OK) return error->code;
  g->members = tu_try_allocate(g->count, sizeof *g->members);
  const uint64_t key = tu_hash(g->ranks, g->count * sizeof *g->ranks, tag);
  const uint64_t use[] = {key, g->members ? count_use(parent, key) : 0, parent->mover->control.session};
  if (use[1] == 0) return tu_fail_memory(error, g->count * sizeof *g->members, "a communicator of %u ranks", g->count);
  for (uint32_t i = 0; i < g->count; i++) g->members[i] = parent->mover->control.members[g->ranks[i]];
  g->session = tu_hash(use, sizeof use, 1) | 1;
  g->timeout_ms = parent->timeout_ms > 0 ? parent->timeout_ms : TU_JOIN_TIMEOUT_MS;
  return TUTTI_OK;
}

/* The parent is not held while the others are waited for: other threads make other communicators meanwhile. */
static tutti_err create_group(tutti_comm *parent, uint64_t tag, struct group *g, tutti_comm **comm,
                              struct tu_error *error) {
  struct tu_visit visit;
  if (!tu_hold(parent, &visit)) return tu_explain_visit("tutti_comm_create", error);
  tutti_err err = prepare_group(parent, tag, g, error);
  tu_leave(&visit);
  if (err != TUTTI_OK) return err;
  struct tu_transport *t = parent->transport;
  tu_comm_sweep(t);
  err = tu_comm_create(t, g->members, g->count, g->place, g->session, g->timeout_ms, comm, error);
  if (err == TUTTI_OK) {
    if (!tu_hold(parent, &visit)) abort(); /* it was this process's just now */
    err = inherit(comm, parent, error);
    tu_leave(&visit);
  }
  if (err == TUTTI_OK && (err = meet(*comm, g->timeout_ms, error)) != TUTTI_OK) {
    tu_comm_destroy(*comm, false);
    *comm = NULL;
  }
  if (err != TUTTI_OK) tu_control_miss(t, g->session, err, g->members, g->count);
  return err;
}

tutti_err tutti_comm_create(tutti_comm *parent, const uint32_t ranks[], size_t count, uint64_t tag, tutti_comm **comm) {
  struct tu_error error;
  struct group group = {.ranks = ranks, .count = (uint32_t)count};
  tutti_err err = TUTTI_OK;
  if (!parent || !comm)
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_comm_create: %s is NULL", parent ? "comm" : "parent");
  else if (!ranks || count == 0 || count > parent->ranks)
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_comm_create: %zu ranks at %p; expected 1 to %u", count,
                  (const void *)ranks, parent->ranks);
  if (comm) *comm = NULL;
  if (err == TUTTI_OK) err = create_group(parent, tag, &group, comm, &error);
  free(group.members);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}
