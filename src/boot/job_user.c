/* job_user.c: the program's own allgather, or one over its key-value store: each rank sets its part under a key of its own, and
 * gets those of the others. */
#include "boot/job_user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

struct user {
  struct tu_job job;
  tutti_bootstrap bootstrap;
  uint32_t calls;          /* allgathers so far */
  uint64_t files;          /* the limit on descriptors as it was */
  struct tu_error failure; /* nothing is called any more: the others may have failed, or not */
};

static struct user *user_of(struct tu_job *job) { return (struct user *)job; }

static void key_of(const struct user *u, uint32_t rank, char key[64]) {
  snprintf(key, 64, "tutti/%u/%u", u->calls, rank);
}

static tutti_err by_store(const struct user *u, const void *mine, void *all, size_t bytes, struct tu_error *error) {
  const tutti_bootstrap *b = &u->bootstrap;
  char key[64];
  key_of(u, b->rank, key);
  int code = b->set(b->context, key, mine, bytes);
  if (code != 0)
    return tu_fail(error, TUTTI_ERR_SYSTEM,
                   "rank %u: tutti_options.bootstrap->set('%s', %zu bytes) returned %d; 0 is success", b->rank, key,
                   bytes, code);
  memcpy((char *)all + b->rank * bytes, mine, bytes);
  for (uint32_t r = 0; r < b->ranks; r++) {
    if (r == b->rank) continue;
    key_of(u, r, key);
    code = b->get(b->context, key, (char *)all + r * bytes, bytes);
    if (code != 0)
      return tu_fail(error, TUTTI_ERR_SYSTEM,
                     "rank %u: tutti_options.bootstrap->get('%s', %zu bytes) returned %d; 0 is success", b->rank, key,
                     bytes, code);
  }
  return TUTTI_OK;
}

static tutti_err by_callback(const struct user *u, const void *mine, void *all, size_t bytes, struct tu_error *error) {
  const tutti_bootstrap *b = &u->bootstrap;
  int code = b->allgather(b->context, mine, all, bytes);
  if (code == 0) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_SYSTEM,
                 "rank %u: tutti_options.bootstrap->allgather(%zu bytes) returned %d; 0 is success", b->rank, bytes,
                 code);
}

static tutti_err user_allgather(struct tu_job *job, const void *mine, void *all, size_t bytes, struct tu_error *error) {
  struct user *u = user_of(job);
  if (u->failure.code == TUTTI_OK) {
    bool has_allgather = u->bootstrap.allgather != NULL;
    tutti_err err = has_allgather ? by_callback(u, mine, all, bytes, error) : by_store(u, mine, all, bytes, error);
    u->calls++;
    job->deadline_ns =
        tu_clock_ns() + (uint64_t)job->timeout_ms * 1000000u; /* callbacks take the time that they take */
    if (err == TUTTI_OK) return TUTTI_OK;
    u->failure = *error;
  }
  *error = u->failure;
  return error->code;
}

/* The others cannot be told; they hear of it in the next allgather, which this rank joins, or from the program. */
static void user_fail(struct tu_job *job, const struct tu_error *error) { user_of(job)->failure = *error; }

static void user_close(struct tu_job *job) {
  tu_files_restore(user_of(job)->files);
  tu_job_fini(job);
  free(user_of(job));
}

static const struct tu_job_ops user_ops = {.allgather = user_allgather, .fail = user_fail, .close = user_close};

tutti_err tu_job_user_create(const tutti_bootstrap *b, int timeout_ms, struct tu_job **job, struct tu_error *error) {
  if (!b->allgather && !(b->set && b->get))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "tutti_options.bootstrap has no allgather, and not both of set and get; one of the two is needed");
  struct user *u = tu_try_allocate(1, sizeof *u);
  if (!u) return tu_fail_memory(error, sizeof *u, "rank %u: a job", b->rank);
  tutti_err err = tu_job_init(&u->job, &user_ops, b->rank, b->ranks, timeout_ms, error);
  if (err != TUTTI_OK) {
    free(u);
    return err;
  }
  u->bootstrap = *b;
  u->files = tu_files_raise();
  *job = &u->job;
  return TUTTI_OK;
}
