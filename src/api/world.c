/* world.c: tutti_init: finds this process's rank and job, maps the shared memory, and creates the world
 * communicator. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/comm_create.h"
#include "api/comm_end.h"
#include "api/tuning.h"
#include "base/env.h"
#include "base/log.h"
#include "base/sized.h"
#include "boot/job_carried.h"
#include "boot/job_tcp.h"
#include "boot/job_user.h"
#include "call/again.h"
#include "call/look.h"
#include "call/progress.h"
#include "call/queue.h"
#include "call/trace.h"
#include "comm/enter.h"
#include "comm/failure.h"
#include "comm/groups.h"
#include "comm/patience.h"
#include "engine/share.h"
#include "mover/join.h"
#include "onesided/windows.h"
#include "sight/plate.h"
#include "sight/report.h"
#include "stream/link.h"
#include "transport/shm_memory.h"

/* ---- finding the job ---- */

static tutti_err check_address(const tutti_options *o, struct tu_error *error) {
  if (!o->address || !*o->address || strlen(o->address) >= sizeof((struct tu_boot_identity *)0)->address)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_options.address is %s; expected the host name or address at which rank 0 of %u listens",
                   !o->address   ? "NULL"
                   : *o->address ? "longer than 1023 characters"
                                 : "empty",
                   o->ranks);
  if (o->port == 0 && (o->rank > 0 || !o->on_listen))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_options.port is 0 on rank %u; expected the port at which rank 0 listens (0 is allowed on "
                   "rank 0 only, with on_listen, which receives the chosen port)",
                   o->rank);
  return TUTTI_OK;
}

/* Sets the rank, the job's size and the address from the options; does not read the environment. */
static tutti_err identity_of_options(const tutti_options *o, struct tu_boot_identity *identity,
                                     struct tu_error *error) {
  if (o->rank >= o->ranks || o->ranks > TU_RANKS_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_options: rank %u of %u ranks; expected 1 to %u ranks, and ranks counted from 0", o->rank,
                   o->ranks, TU_RANKS_MAX);
  *identity = (struct tu_boot_identity){.rank = o->rank, .ranks = o->ranks, .port = o->port};
  if (o->ranks == 1) return TUTTI_OK;
  tutti_err err = check_address(o, error);
  if (err == TUTTI_OK) memcpy(identity->address, o->address, strlen(o->address) + 1);
  return err;
}

static tutti_err find_identity(const tutti_options *o, struct tu_boot_identity *identity, struct tu_error *error) {
  tutti_err err;
  if (o->bootstrap && o->ranks > 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_options has both bootstrap and ranks; expected only one of them");
  if (!o->bootstrap && o->ranks == 0 && (o->rank > 0 || o->address || o->port > 0))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_options has rank, address or port, but ranks is 0; expected the number of ranks as well");
  if (o->bootstrap) {
    *identity = (struct tu_boot_identity){.rank = o->bootstrap->rank, .ranks = o->bootstrap->ranks};
    if (identity->rank < identity->ranks && identity->ranks <= TU_RANKS_MAX) return TUTTI_OK;
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_options.bootstrap: rank %u of %u; expected 1 to %u ranks, and ranks counted from 0",
                   identity->rank, identity->ranks, TU_RANKS_MAX);
  }
  err = o->ranks > 0 ? identity_of_options(o, identity, error) : tu_boot_identity_read(identity, error);
  identity->secret = o->secret;
  identity->on_listen = o->on_listen;
  identity->on_listen_context = o->on_listen_context;
  return err;
}

/* Joins the job. `failed` and *error: an earlier failure of this rank, or TUTTI_OK. A rank that has failed may still
 * have to join. If the program gives a bootstrap (its own callbacks), the rank joins and reports the failure, because
 * the other ranks would wait for it without a limit. Otherwise the job uses TCP, and the rank returns the failure at
 * once. */
static tutti_err open_job(const tutti_options *o, struct tu_boot_identity *identity, int timeout_ms, tutti_err failed,
                          struct tu_job **job, struct tu_error *error) {
  *job = NULL;
  if (!o->bootstrap) {
    if (failed == TUTTI_OK && identity->carrier != TU_CARRIER_NONE) failed = tu_job_carry(identity, timeout_ms, error);
    return failed != TUTTI_OK ? failed : tu_job_tcp_create(identity, timeout_ms, job, error);
  }
  struct tu_error why;
  tutti_err err = tu_job_user_create(o->bootstrap, timeout_ms, job, failed != TUTTI_OK ? &why : error);
  if (err != TUTTI_OK) return failed != TUTTI_OK ? failed : err;
  return tu_job_agree(*job, failed, error);
}

/* ---- the world ---- */

static _Atomic uint64_t *word_of(void *context, uint32_t rank) {
  return &tu_transport_head(context, tu_transport_local(context, rank))->word;
}

/* Starts the job: the ranks find each other, map shared memory, and find out where each rank runs. */
static tutti_err begin(struct tu_job *job, struct tu_transport **t, struct tu_locality *locality,
                       struct tu_error *error) {
  *t = NULL;
  tutti_err err = tu_job_meet(job, NULL, error);
  if (err == TUTTI_OK) err = tu_join(job, t, error);
  if (err != TUTTI_OK) return err;
  const struct tu_locality_words words = {word_of, *t};
  err = tu_locality_learn(job, &words, locality, error);
  (*t)->share = locality->share;
  if (err != TUTTI_OK) (*t)->ops->close(*t);
  return err;
}

/* Destroys a world that the program has never had. Holds it first, because another thread of the process, which advances
 * requests of all communicators, may be in it. */
static void drop_world(tutti_comm **world) {
  struct tu_visit visit;
  (void)tu_hold(*world, &visit);
  tu_comm_destroy(*world, false);
  *world = NULL;
}

/* Creates the communicator of all ranks of the job. */
static tutti_err make_world(struct tu_transport *t, const struct tu_job *job, const struct tu_boot_identity *identity,
                            const tutti_options *o, const struct tu_locality *locality, int join_timeout_ms,
                            tutti_comm **world, struct tu_error *error) {
  uint32_t *members = tu_try_allocate(identity->ranks, sizeof *members);
  if (!members) {
    tu_fail_memory(error, identity->ranks * sizeof *members, "a world of %u ranks", identity->ranks);
    tu_transport_give_up(t, error);
    t->ops->close(t);
    return error->code;
  }
  for (uint32_t i = 0; i < identity->ranks; i++) members[i] = i;
  tu_plate_write(t, job ? tu_job_id(job) : 0, identity->rank, identity->ranks);
  tutti_err err =
      tu_comm_create(t, members, identity->ranks, identity->rank, TU_WORLD_ID, join_timeout_ms, world, error);
  free(members);
  if (err != TUTTI_OK) return err;
  if ((err = tu_groups_begin(*world, locality, error)) != TUTTI_OK) err = tu_comm_fail(*world, error);
  if (err == TUTTI_OK) err = tu_tuning_agree(*world, join_timeout_ms);
  if (err == TUTTI_OK)
    err = tu_patience_init(&(*world)->patience, o->spin_us, (*world)->share, t->hosts != NULL, error);
  else *error = (*world)->error;
  if (err == TUTTI_OK)
    err = tu_trace_open(&(struct tu_trace_rank){job ? tu_job_id(job) : 0, identity->rank, identity->ranks, t}, error);
  if (err == TUTTI_OK && (t->hosts || o->progress_thread)) err = tu_progress_begin(t, o->progress_thread, error);
  if (err != TUTTI_OK) drop_world(world);
  return err;
}

/* Tells the other ranks whether this rank has created the world communicator, and learns the same from them. If a rank
 * has failed, destroys the communicator here, so that it exists on all ranks or on none. */
static tutti_err end_job(struct tu_job *job, tutti_err made, tutti_comm **world, struct tu_error *error) {
  job->step = "to create the world communicator";
  tutti_err err = tu_job_agree(job, made, error);
  if (err != TUTTI_OK && made == TUTTI_OK) drop_world(world);
  return err;
}

/* Reads TUTTI_ORDER. */
static tutti_err read_order(tutti_order *order, struct tu_error *error) {
  const char *value = tu_env("TUTTI_ORDER");
  if (!value || strcmp(value, "any") == 0) return TUTTI_OK;
  if (strcmp(value, "canonical") != 0)
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "environment: TUTTI_ORDER is '%.64s'; expected any or canonical",
                   value);
  *order = TUTTI_ORDER_CANONICAL;
  return TUTTI_OK;
}

/* Reads options that are 0 from the environment. */
static tutti_err read_environment(tutti_options *o, struct tu_error *error) {
  int64_t ms = o->timeout_ms; /* 0: no limit */
  uint64_t report = 0;
  tutti_err err = tu_env_check(error);
  if (err == TUTTI_OK && ms == 0) err = tu_env_int("TUTTI_TIMEOUT_MS", TUTTI_NO_TIMEOUT, INT32_MAX, &ms, error);
  if (err == TUTTI_OK && o->progress_thread == 0)
    err = tu_env_uint("TUTTI_PROGRESS_THREAD", 1, &o->progress_thread, error);
  if (err == TUTTI_OK && o->order == TUTTI_ORDER_ANY) err = read_order(&o->order, error);
  if (err == TUTTI_OK) err = tu_env_uint("TUTTI_HANG_REPORT", 1, &report, error);
  tu_when_late = report ? tu_report_own : NULL;
  o->timeout_ms = (int)ms;
  return err;
}

/* Logs who this rank is, and where the others are. */
static void log_start(const tutti_comm *world, const tutti_options *o) {
  const struct tu_transport *t = world->transport;
  const char *how = o->bootstrap ? "callbacks of the program" : o->ranks > 0 ? "options" : "environment";
  tu_log(TU_LOG_INFO, "start",
         "tutti %d.%d.%d, process %d is rank %u of %u; %u rank%s on this host, %u per CPU at most; identity by %s; %zu "
         "MiB of address space per rank; time limit %d ms",
         TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH, (int)getpid(), world->rank, world->ranks,
         t->ranks, t->ranks == 1 ? "" : "s", world->share, how, t->slice_bytes >> 20, world->timeout_ms);
}

static tutti_err init(tutti_options *o, tutti_comm **world, struct tu_error *error) {
  struct tu_boot_identity identity;
  struct tu_job *job = NULL;
  struct tu_transport *t;
  struct tu_locality locality = {0};
  int join_timeout_ms = o->join_timeout_ms == 0 ? TU_JOIN_TIMEOUT_MS : o->join_timeout_ms;
  struct tu_error ignored;
  tutti_err err = read_environment(o, error);
  tutti_err found = find_identity(o, &identity, err == TUTTI_OK ? error : &ignored);
  if (found != TUTTI_OK) return err == TUTTI_OK ? found : err;
  if (err == TUTTI_OK) err = tu_log_begin(identity.rank, error);
  if (identity.ranks == 1 && err == TUTTI_OK) err = tu_endpoint_alone(&t, error);
  if (identity.ranks != 1) err = open_job(o, &identity, join_timeout_ms, err, &job, error);
  if (job && err == TUTTI_OK) err = begin(job, &t, &locality, error);
  if (err == TUTTI_OK) {
    t->parallel = o->parallel;
    t->foreign = o->foreign;
    err = make_world(t, job, &identity, o, &locality, join_timeout_ms, world, error);
    if (job) err = end_job(job, err, world, error);
  }
  tu_job_close(job);
  tu_locality_fini(&locality);
  if (err != TUTTI_OK) return err;
  (*world)->timeout_ms = o->timeout_ms;
  (*world)->order = o->order;
  tu_trace_start();
  if (tu_calls_are_watched) tu_again_forget(*world);
  tu_progress_note(*world);
  if (tu_logs(TU_LOG_INFO)) log_start(*world, o);
  return TUTTI_OK;
}

/* Copies the program's options to *known. */
static tutti_err take_options(const tutti_options *options, size_t options_bytes, tutti_options *known,
                              struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  if (options) err = tu_sized_take(&tu_sized_options, options, options_bytes, known, "tutti_init", error);
  if (err == TUTTI_OK) err = tu_check_timeout("tutti_init", "tutti_options.timeout_ms", known->timeout_ms, error);
  if (err == TUTTI_OK)
    err = tu_check_timeout("tutti_init", "tutti_options.join_timeout_ms", known->join_timeout_ms, error);
  if (err == TUTTI_OK) err = tu_parallel_check(&known->parallel, error);
  if (err == TUTTI_OK) err = tu_check_order_of("tutti_init", "tutti_options.order", known->order, error);
  if (err == TUTTI_OK && known->reserved != 0)
    err = tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_init: tutti_options.reserved is %u; expected 0", known->reserved);
  if (err == TUTTI_OK && known->foreign.reserved != 0)
    err = tu_fail(error, TUTTI_ERR_ARGUMENT, "tutti_init: tutti_options.foreign.reserved is %u; expected 0",
                  known->foreign.reserved);
  if (err != TUTTI_OK || known->progress_thread <= 1) return err;
  return tu_fail(error, TUTTI_ERR_ARGUMENT,
                 "tutti_init: tutti_options.progress_thread is %llu; expected 1, or 0 for the value of "
                 "TUTTI_PROGRESS_THREAD",
                 (unsigned long long)known->progress_thread);
}

tutti_err tutti_init_sized(const tutti_options *options, size_t options_bytes, tutti_comm **world) {
  struct tu_error error = {0};
  tutti_options known = {0};
  if (!world) return tu_refuse_null("tutti_init", "world");
  *world = NULL;
  bool fresh;
  (void)tu_process_number(&fresh);
  if (fresh) tu_queue_reset(), tu_comm_sweep_reset(), tu_link_reset(), tu_progress_reset(), tu_windows_reset();
  tutti_err err = take_options(options, options_bytes, &known, &error);
  if (err == TUTTI_OK) err = init(&known, world, &error);
  if (err != TUTTI_OK && tu_logs(TU_LOG_WARN))
    tu_log(TU_LOG_WARN, "start failed", "%s: %s", tutti_err_name(err), error.text);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}
