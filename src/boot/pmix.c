/* pmix.c: the client of PMIx. The types and constants below are those of the ABI of libpmix.so.2 (PMIx 2 to 5); they are
 * declared here, so that the build does not need its headers. tests/launchers_test.sh compares them with the headers.
 *
 * Functions of PMIx block, some without a limit. So a thread calls them, and the rank waits for it until its time limit
 * expires. */
#include "boot/pmix.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "boot/job.h"
#include "boot/mpi_beside.h"
#include "boot/pmix_abi.h"

/* ---- the library ---- */

enum { VERSION_MIN = 2 };

struct library {
  const char *(*version)(void);
  int (*init)(struct tu_pmix_proc *me, void *info, size_t count);
  int (*finalize)(const void *info, size_t count);
  int (*put)(uint8_t scope, const char key[], struct tu_pmix_value *value);
  int (*commit)(void);
  int (*fence)(const struct tu_pmix_proc procs[], size_t count, const struct tu_pmix_info info[], size_t info_count);
  int (*get)(const struct tu_pmix_proc *proc, const char key[], const void *info, size_t count,
             struct tu_pmix_value **value);
  const char *(*explain)(int status);
};

static tutti_err load(struct library *library, struct tu_error *error) {
  static const char *const names[] = {"PMIx_Get_version", "PMIx_Init",  "PMIx_Finalize", "PMIx_Put",
                                      "PMIx_Commit",      "PMIx_Fence", "PMIx_Get",      "PMIx_Error_string"};
  enum { NAMES = sizeof names / sizeof names[0] };
  void *found[NAMES];
  _Static_assert(sizeof found == sizeof *library, "one function for each name, in order");
  void *handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (!handle)
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "PMIX_RANK is set, but libpmix cannot be loaded: %.200s. Install it (Debian: libpmix2), set "
                   "LD_LIBRARY_PATH, or start with 'tutti run'",
                   dlerror());
  for (int i = 0; i < NAMES; i++)
    if (!(found[i] = dlsym(handle, names[i])))
      return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "libpmix.so.2 has no function %s: expected PMIx %d or newer",
                     names[i], VERSION_MIN);
  memcpy(library, found, sizeof found);
  const char *version = library->version(), *number = version + strcspn(version, "0123456789");
  if (atoi(number) >= VERSION_MIN) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "libpmix.so.2 has version '%.60s': expected PMIx %d or newer", version,
                 VERSION_MIN);
}

/* ---- the work of the thread ---- */

struct work {
  struct library library;
  bool asks; /* true: only the number of ranks is wanted */
  uint32_t rank, ranks;
  char text[TU_BOOT_ADDRESS_CHARS * 2];
  const char *_Atomic step; /* for messages */
  tutti_err err;
  struct tu_error error;
  int done; /* eventfd */
};

static tutti_err fail(struct work *w, int status) {
  const bool alone = status == TU_PMIX_UNREACHABLE;
  return tu_fail(
      &w->error, alone ? TUTTI_ERR_ENVIRONMENT : TUTTI_ERR_PEER, "%s returned %d (%.60s)%s", w->step, status,
      w->library.explain(status),
      alone ? ": PMIX_RANK is set, but no launcher answers; for a world of one set TUTTI_LAUNCHER=none" : "");
}

static int get(struct work *w, const struct tu_pmix_proc *from, const char *key, uint16_t type,
               struct tu_pmix_value **value) {
  w->step = "PMIx_Get";
  const int status = w->library.get(from, key, NULL, 0, value);
  if (status != 0 || (*value)->type == type) return status;
  if ((*value)->type == TU_PMIX_TYPE_STRING) free((*value)->data.string);
  free(*value);
  return TU_PMIX_WRONG_TYPE;
}

static int read_ranks(struct work *w, const struct tu_pmix_proc *me) {
  struct tu_pmix_proc job = *me;
  struct tu_pmix_value *value;
  job.rank = TU_PMIX_ANY_RANK;
  const int status = get(w, &job, "pmix.job.size", TU_PMIX_TYPE_UINT32, &value);
  if (status != 0) return status;
  w->ranks = value->data.number;
  free(value);
  return 0;
}

static int exchange(struct work *w, const struct tu_pmix_proc *me) {
  struct tu_pmix_value own = {.type = TU_PMIX_TYPE_STRING, .data.string = w->text}, *got;
  struct tu_pmix_info collect = {.key = "pmix.collect", .value = {.type = TU_PMIX_TYPE_BOOL, .data.flag = true}};
  struct tu_pmix_proc root = *me;
  int status = 0;
  root.rank = 0;
  if (me->rank == 0) {
    w->step = "PMIx_Put";
    if ((status = w->library.put(TU_PMIX_SCOPE_GLOBAL, "tutti", &own)) != 0) return status;
    w->step = "PMIx_Commit";
    if ((status = w->library.commit()) != 0) return status;
  }
  w->step = "PMIx_Fence";
  status = w->library.fence(NULL, 0, &collect, 1);
  if (status != 0 || me->rank == 0) return status;
  status = get(w, &root, "tutti", TU_PMIX_TYPE_STRING, &got);
  if (status != 0) return status;
  snprintf(w->text, sizeof w->text, "%s", got->data.string);
  free(got->data.string);
  free(got);
  return 0;
}

/* ---- begin and end ----
 *
 * Between the question for the number of ranks and the exchange, PMIx stays begun: a fence fails if a rank has ended PMIx,
 * and has not begun it again yet. */

static struct {
  pid_t pid; /* process that has begun PMIx, and must end it; a child of fork() does not */
  bool ends_at_exit;
  struct tu_pmix_proc me;
  int (*finalize)(const void *info, size_t count);
} opened;

static void end_at_exit(void) {
  if (opened.pid == getpid()) (void)opened.finalize(NULL, 0);
}

static int begin(struct work *w) {
  if (opened.pid == getpid()) return 0;
  w->step = "PMIx_Init";
  const int status = w->library.init(&opened.me, NULL, 0);
  if (status != 0) return status;
  opened.pid = getpid();
  opened.finalize = w->library.finalize;
  return 0;
}

static int end(struct work *w, bool failed) {
  const bool exchange_follows = w->asks && w->ranks > 1, mpi_follows = tu_mpi_is_loaded() && !tu_mpi_initialized();
  if (!failed && (exchange_follows || mpi_follows)) {
    if (!opened.ends_at_exit) (void)!atexit(end_at_exit);
    opened.ends_at_exit = true;
    return 0;
  }
  opened.pid = 0;
  w->step = "PMIx_Finalize";
  return w->library.finalize(NULL, 0);
}

static tutti_err converse(struct work *w) {
  const uint32_t expected = w->ranks;
  int status = begin(w);
  if (status != 0) return fail(w, status);
  const struct tu_pmix_proc me = opened.me;
  status = read_ranks(w, &me);
  tutti_err err = TUTTI_OK;
  if (status == 0 && !w->asks && (me.rank != w->rank || w->ranks != expected))
    err = tu_fail(&w->error, TUTTI_ERR_ENVIRONMENT,
                  "the environment says rank %u of %u, but PMIx says rank %u of %u; TUTTI_LAUNCHER chooses a launcher",
                  w->rank, expected, me.rank, w->ranks);
  if (status == 0 && !w->asks && err == TUTTI_OK) status = exchange(w, &me);
  if (status != 0) err = fail(w, status);
  status = end(w, err != TUTTI_OK);
  return status != 0 && err == TUTTI_OK ? fail(w, status) : err;
}

static void *run(void *context) {
  struct work *w = context;
  w->err = converse(w);
  const uint64_t one = 1;
  (void)!write(w->done, &one, sizeof one);
  return NULL;
}

/* ---- waiting for the thread ---- */

/* The thread takes no signals of the program. */
static int begin_thread(struct work *w, pthread_t *thread) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int why = pthread_create(thread, NULL, run, w);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return why;
}

/* Does the work. After a time-out *finished is false: the thread still uses the memory of the work. */
static tutti_err perform(struct work *w, int timeout_ms, bool *finished, struct tu_error *error) {
  const uint64_t deadline_ns = tu_job_deadline_ns(timeout_ms);
  pthread_t thread;
  w->step = "PMIx_Init"; /* the time may be over before the thread has begun */
  const int why = begin_thread(w, &thread);
  if (why != 0) return tu_fail(error, TUTTI_ERR_SYSTEM, "cannot create a thread for PMIx: %s", strerror(why));
  struct pollfd polled = {.fd = w->done, .events = POLLIN};
  *finished = false;
  while (!*finished && tu_clock_left_ms(deadline_ns) > 0)
    *finished = poll(&polled, 1, tu_clock_left_ms(deadline_ns)) > 0;
  if (*finished) {
    pthread_join(thread, NULL);
    *error = w->error;
    return w->err;
  }
  pthread_detach(thread);
  opened.pid = 0; /* PMIx_Finalize might hang as well when the process exits */
  const char *step = w->step;
  return tu_fail(
      error, TUTTI_ERR_TIMEOUT, "waited %d ms for %s%s", timeout_ms, step,
      strcmp(step, "PMIx_Fence") == 0 ? ": at least one rank has not called tutti_init" : " of the launcher");
}

static tutti_err work(struct work *w, int timeout_ms, bool *finished, struct tu_error *error) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `opened` */
  tutti_err err = load(&w->library, error);
  if (err != TUTTI_OK) return err;
  w->done = eventfd(0, EFD_CLOEXEC);
  if (w->done < 0) return tu_fail_errno(error, "eventfd failed");
  pthread_mutex_lock(&lock);
  err = perform(w, timeout_ms, finished, error);
  pthread_mutex_unlock(&lock);
  if (*finished) close(w->done);
  return err;
}

tutti_err tu_pmix_ranks(uint32_t *ranks, struct tu_error *error) {
  enum { ASK_MS = 60000 };
  bool finished = true;
  struct work *w = tu_try_allocate(1, sizeof *w);
  if (!w) return tu_fail_memory(error, sizeof *w, "a question to PMIx");
  w->asks = true;
  tutti_err err = work(w, ASK_MS, &finished, error);
  if (err == TUTTI_OK) *ranks = w->ranks;
  if (finished) free(w);
  return err;
}

tutti_err tu_pmix_carry(const struct tu_boot_identity *identity, char *text, size_t bytes, int timeout_ms,
                        struct tu_error *error) {
  bool finished = true;
  struct work *w = tu_try_allocate(1, sizeof *w);
  if (!w) return tu_fail_memory(error, sizeof *w, "a question to PMIx");
  w->rank = identity->rank;
  w->ranks = identity->ranks;
  if (identity->rank == 0) snprintf(w->text, sizeof w->text, "%s", text);
  tutti_err err = work(w, timeout_ms, &finished, error);
  if (err == TUTTI_OK && identity->rank != 0) snprintf(text, bytes, "%s", w->text);
  if (finished) {
    explicit_bzero(w->text, sizeof w->text); /* the text has the secret */
    free(w);
  }
  return err;
}
