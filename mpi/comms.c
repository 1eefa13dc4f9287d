/* comms.c: the communicator of tutti that belongs to a communicator of the MPI. It is created together with it (creators.c),
 * or in the first blocking collective if the door did not see how the communicator was made. Where a program makes many
 * communicators, it is created only for those that it uses often. All that waits for all ranks, as the MPI may. It is closed
 * when the MPI frees the communicator, which an attribute tells; that is local. */
#include <pthread.h>
#include <stdlib.h>

#include "door.h"

static struct tm_map comms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int keyval = MPI_KEYVAL_INVALID;
static _Atomic uint32_t created; /* number of communicators that this rank has named */

struct tm_comm *tm_comm_find(MPI_Comm comm) {
  return tm_map_find(&comms, TM_KEY(comm));
}

void tm_comm_release(struct tm_comm *k) {
  if (tm_add(&k->users, -1u) > 1) return;
  if (k->tutti) tutti_comm_close(k->tutti);
  free(k);
}

static struct tm_comm *forget(uint64_t key) {
  pthread_mutex_lock(&lock);
  struct tm_comm *k = tm_map_remove(&comms, key);
  pthread_mutex_unlock(&lock);
  return k;
}

static int on_free(MPI_Comm comm, int key, void *value, void *context) {
  (void)key, (void)value, (void)context;
  struct tm_comm *k = forget(TM_KEY(comm));
  if (k) tm_comm_release(k);
  return MPI_SUCCESS;
}

/* Sets ranks[i] to the rank in MPI_COMM_WORLD of rank i of the communicator. Returns false if one of them is not there. */
static bool find_ranks(MPI_Comm comm, uint32_t count, uint32_t *ranks) {
  MPI_Group group;
  int *from = malloc(2 * count * sizeof *from), *to = from + count;
  bool found = from && PMPI_Comm_group(comm, &group) == MPI_SUCCESS;
  if (found) {
    for (uint32_t i = 0; i < count; i++) from[i] = (int)i;
    found = PMPI_Group_translate_ranks(group, (int)count, from, tm_door.group, to) == MPI_SUCCESS;
    for (uint32_t i = 0; found && i < count; i++) {
      found = to[i] != MPI_UNDEFINED;
      ranks[i] = (uint32_t)to[i];
    }
    PMPI_Group_free(&group);
  }
  free(from);
  return found;
}

/* Creates the communicator of tutti. All ranks get one, or none does. The name that rank 0 makes keeps communicators of the
 * same ranks apart. */
static bool create(MPI_Comm comm, struct tm_comm *k, const uint32_t *ranks) {
  if (k->ranks == 1) return tutti_comm_self(tm_door.world, &k->tutti) == TUTTI_OK;
  uint64_t name = (uint64_t)(uint32_t)tm_door.rank << 32 | ++created;
  PMPI_Bcast(&name, 1, MPI_UINT64_T, 0, comm);
  tutti_err err = tutti_comm_create(tm_door.world, ranks, k->ranks, name, &k->tutti);
  if (err != TUTTI_OK)
    tm_say("a communicator of %u ranks is left to " TM_MPI_NAME ": %s", k->ranks, tutti_error_message(NULL));
  int good = err == TUTTI_OK, all = 0;
  PMPI_Allreduce(&good, &all, 1, MPI_INT, MPI_LAND, comm);
  if (good && !all) {
    tutti_comm_close(k->tutti);
    k->tutti = NULL;
  }
  return all;
}

static enum tm_reason look_at(MPI_Comm comm, struct tm_comm *k) {
  int is_inter, rank, ranks;
  if (PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter) return TM_INTERCOMM;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &ranks);
  k->rank = (uint32_t)rank;
  k->ranks = (uint32_t)ranks;
  uint32_t *members = malloc(k->ranks * sizeof *members);
  const bool known = members && find_ranks(comm, k->ranks, members);
  enum tm_reason reason = TM_OTHER_JOB;
  if (known) reason = create(comm, k, members) ? TM_ROUTED : TM_NO_MEMORY;
  free(members);
  return reason;
}

static struct tm_comm *remember(MPI_Comm comm, struct tm_comm *k) {
  pthread_mutex_lock(&lock);
  const bool kept = tm_map_set(&comms, TM_KEY(comm), k);
  pthread_mutex_unlock(&lock);
  /* Freed with MPI_COMM_WORLD and MPI_COMM_SELF are only the attributes that MPI_Finalize finds. */
  if (kept && comm != MPI_COMM_WORLD && comm != MPI_COMM_SELF) PMPI_Comm_set_attr(comm, keyval, k);
  return kept ? k : NULL;
}

static void settle(struct tm_comm *k) {
  tm_native_begin();
  k->reason = look_at(k->handle, k);
  tm_native_end();
}

static struct tm_comm *new_comm(MPI_Comm comm, uint32_t line) {
  struct tm_comm *k = calloc(1, sizeof *k);
  if (k) *k = (struct tm_comm){.reason = TM_NEW, .users = 1, .handle = comm, .line = line};
  return k;
}

struct tm_comm *tm_comm_settle(MPI_Comm comm) {
  if (!tm_door.open || comm == MPI_COMM_NULL) return NULL;
  struct tm_comm *k = tm_comm_find(comm);
  if (k && k->reason == TM_NEW) settle(k);
  if (k) return k;
  k = new_comm(comm, 0);
  if (!k) return NULL;
  settle(k);
  return remember(comm, k);
}

struct tm_comm *tm_comm_enter(MPI_Comm comm) {
  struct tm_comm *k = tm_comm_find(comm);
  return k && (k->reason != TM_NEW || ++k->calls < tm_door.many.calls) ? k : tm_comm_settle(comm);
}

void tm_comm_made(MPI_Comm parent, MPI_Comm comm) {
  if (!tm_door.open) return;
  struct tm_comm *from = parent == MPI_COMM_NULL ? NULL : tm_comm_find(parent);
  /* Ranks that are not in the communicator count it, too. One that only some ranks make, these cannot count alike. */
  uint32_t line = parent == MPI_COMM_NULL ? TM_LATE : 1;
  if (from && from->line < TM_LATE) from->line++;
  if (from) line = from->line;
  if (comm == MPI_COMM_NULL) return;
  struct tm_comm *k = new_comm(comm, line);
  if (!k) return;
  if (line <= tm_door.many.at_once) settle(k);
  (void)remember(comm, k);
}

tutti_err tm_comms_begin(void) {
  return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &keyval, NULL) == MPI_SUCCESS ? TUTTI_OK
                                                                                               : TUTTI_ERR_SYSTEM;
}

static void release_any(void *k) { tm_comm_release(k); }

void tm_comms_end(void) {
  pthread_mutex_lock(&lock);
  tm_map_each(&comms, release_any);
  comms.table = NULL;
  pthread_mutex_unlock(&lock);
}
