/* world.c: tutti_init: which job this process is a rank of, the memory that it shares with the others, and the world's
 * communicator. */
#include <stdlib.h>
#include <string.h>

#include "api/comm.h"
#include "base/env.h"
#include "boot/job_tcp.h"
#include "boot/job_user.h"
#include "transport/shm_memory.h"

/* ---- which job? ---- */

static tutti_err check_address(const tutti_options *o, struct tu_error *error) {
  if (!o->address || !*o->address || strlen(o->address) >= sizeof((struct tu_boot_place *)0)->address)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_options.address is %s; expected the host name or address at which rank 0 of %u listens",
                   !o->address   ? "NULL"
                   : *o->address ? "longer than 255 characters"
                                 : "empty",
                   o->ranks);
  if (o->port == 0 && (o->rank > 0 || !o->on_listen))
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "tutti_options.port is 0 on rank %u; expected the port at which rank 0 listens (0 is for rank 0 alone, "
        "with on_listen, which is told what port it took)",
        o->rank);
  return TUTTI_OK;
}

/* As the program says; the environment is not asked. */
static tutti_err place_of_options(const tutti_options *o, struct tu_boot_place *place, struct tu_error *error) {
  if (o->rank >= o->ranks || o->ranks > TU_RANKS_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_options: rank %u of %u ranks; expected 1 to %u ranks, and ranks counted from 0", o->rank,
                   o->ranks, TU_RANKS_MAX);
  *place = (struct tu_boot_place){.rank = o->rank, .ranks = o->ranks, .port = o->port};
  if (o->ranks == 1) return TUTTI_OK;
  tutti_err err = check_address(o, error);
  if (err == TUTTI_OK) memcpy(place->address, o->address, strlen(o->address) + 1);
  return err;
}

static tutti_err find_place(const tutti_options *o, struct tu_boot_place *place, struct tu_error *error) {
  tutti_err err;
  if (o->bootstrap && o->ranks > 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_options has bootstrap and ranks; expected one of them");
  if (!o->bootstrap && o->ranks == 0 && (o->rank > 0 || o->address || o->port > 0))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_options has rank, address or port, but ranks is 0; expected the number of ranks as well");
  if (o->bootstrap) {
    *place = (struct tu_boot_place){.rank = o->bootstrap->rank, .ranks = o->bootstrap->ranks};
    if (place->rank < place->ranks && place->ranks <= TU_RANKS_MAX) return TUTTI_OK;
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_options.bootstrap: rank %u of %u; expected 1 to %u ranks, and ranks counted from 0",
                   place->rank, place->ranks, TU_RANKS_MAX);
  }
  err = o->ranks > 0 ? place_of_options(o, place, error) : tu_boot_place(place, error);
  place->secret = o->secret;
  place->on_listen = o->on_listen;
  place->on_listen_context = o->on_listen_context;
  return err;
}

/* What has failed here before (*error) ends the job for all, where others would wait for this rank without a limit; a rank that
 * joins by TCP says it at once, and not only when all others have come. */
static tutti_err open_job(const tutti_options *o, const struct tu_boot_place *place, int timeout_ms, tutti_err failed,
                          struct tu_job **job, struct tu_error *error) {
  *job = NULL;
  if (!o->bootstrap) return failed != TUTTI_OK ? failed : tu_job_tcp_create(place, timeout_ms, job, error);
  struct tu_error why;
  tutti_err err = tu_job_user_create(o->bootstrap, timeout_ms, job, failed != TUTTI_OK ? &why : error);
  if (err != TUTTI_OK) return failed != TUTTI_OK ? failed : err;
  return tu_job_agree(*job, failed, error);
}

/* ---- the world ---- */

tutti_err tu_world_alone(struct tu_transport **t, struct tu_error *error) {
  size_t slice_bytes;
  tutti_err err = tu_shm_slice_bytes(&slice_bytes, error);
  return err != TUTTI_OK ? err : tu_loop_create(1, slice_bytes, t, error);
}

static _Atomic uint64_t *word_of(void *context, uint32_t rank) { return &tu_transport_head(context, rank)->word; }

/* The ranks meet, come to share memory, and learn where they run. */
static tutti_err begin(struct tu_job *job, struct tu_transport **t, struct tu_locality *locality,
                       struct tu_error *error) {
  *t = NULL;
  tutti_err err = tu_job_meet(job, NULL, error);
  if (err == TUTTI_OK) err = tu_shm_join(job, t, error);
  if (err != TUTTI_OK) return err;
  const struct tu_locality_words words = {word_of, *t};
  err = tu_locality_learn(job, &words, locality, error);
  (*t)->share = locality->share;
  if (err != TUTTI_OK) (*t)->ops->close(*t);
  return err;
}

/* The communicator of all ranks, from the first of which on they are each other's peers. */
static tutti_err make_world(struct tu_transport *t, const struct tu_boot_place *place, const tutti_options *o,
                            const struct tu_locality *locality, int join_timeout_ms, tutti_comm **world,
                            struct tu_error *error) {
  uint32_t *members = tu_try_allocate(place->ranks, sizeof *members);
  if (!members) {
    tu_fail_memory(error, place->ranks * sizeof *members, "a world of %u ranks", place->ranks);
    tu_transport_give_up(t, error);
    t->ops->close(t);
    return error->code;
  }
  for (uint32_t i = 0; i < place->ranks; i++) members[i] = i;
  tutti_err err =
      tu_comm_create(t, members, place->ranks, place->rank, TU_WORLD_SESSION, join_timeout_ms, world, error);
  free(members);
  if (err != TUTTI_OK) return err;
  if ((err = tu_groups_begin(*world, locality, error)) != TUTTI_OK) err = tu_comm_fail(*world, error);
  if (err == TUTTI_OK) err = tu_tuning_agree(*world, join_timeout_ms);
  if (err == TUTTI_OK) err = tu_patience_init(&(*world)->patience, o->spin_us, (*world)->share, error);
  else *error = (*world)->error;
  if (err == TUTTI_OK) return err;
  tu_comm_destroy(*world, false);
  *world = NULL;
  return err;
}

/* The world begins on all ranks, or on none. */
static tutti_err end_job(struct tu_job *job, tutti_err made, tutti_comm **world, struct tu_error *error) {
  job->step = "to begin with the communicator";
  tutti_err err = tu_job_agree(job, made, error);
  if (err == TUTTI_OK || made != TUTTI_OK) return err;
  tu_comm_destroy(*world, false);
  *world = NULL;
  return err;
}

static tutti_err read_timeout(const tutti_options *o, int *timeout_ms, struct tu_error *error) {
  uint64_t ms = o->timeout_ms > 0 ? (uint64_t)o->timeout_ms : 0;
  tutti_err err = tu_env_check(error);
  if (err == TUTTI_OK && o->timeout_ms == 0) err = tu_env_uint("TUTTI_TIMEOUT_MS", INT32_MAX, &ms, error);
  *timeout_ms = (int)ms;
  return err;
}

static tutti_err init(const tutti_options *o, tutti_comm **world, struct tu_error *error) {
  struct tu_boot_place place;
  struct tu_job *job = NULL;
  struct tu_transport *t;
  struct tu_locality locality = {0};
  int join_timeout_ms = o->join_timeout_ms > 0 ? o->join_timeout_ms : TU_JOIN_TIMEOUT_MS, timeout_ms;
  struct tu_error misplaced;
  tutti_err err = read_timeout(o, &timeout_ms, error);
  tutti_err placed = find_place(o, &place, err == TUTTI_OK ? error : &misplaced);
  if (placed != TUTTI_OK) return err == TUTTI_OK ? placed : err;
  if (place.ranks == 1 && err == TUTTI_OK) err = tu_world_alone(&t, error);
  if (place.ranks != 1) err = open_job(o, &place, join_timeout_ms, err, &job, error);
  if (job && err == TUTTI_OK) err = begin(job, &t, &locality, error);
  if (err == TUTTI_OK) {
    err = make_world(t, &place, o, &locality, join_timeout_ms, world, error);
    if (job) err = end_job(job, err, world, error);
  }
  tu_job_close(job);
  tu_locality_fini(&locality);
  if (err == TUTTI_OK) tutti_comm_set_timeout(*world, timeout_ms);
  return err;
}

tutti_err tutti_init(const tutti_options *options, tutti_comm **world) {
  struct tu_error error = {0};
  const tutti_options none = {0};
  if (!world) {
    tu_fail(&error, TUTTI_ERR_ARGUMENT, "tutti_init: world is NULL; expected where to put the communicator");
    return tu_thread_error(&error);
  }
  *world = NULL;
  bool fresh;
  (void)tu_process_number(&fresh);
  if (fresh) tu_queue_reset(), tu_comm_sweep_reset();
  tutti_err err = init(options ? options : &none, world, &error);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}
