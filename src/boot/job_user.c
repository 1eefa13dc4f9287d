/* job_user.c: a job whose allgather is done by the program, in one of two ways: by an allgather callback, or by the
 * callbacks of a key-value store. In the store each rank sets its data under its own key, and gets the data of the
 * other ranks. */
#include "boot/job_user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

struct user {
  struct tu_job job;
  tutti_bootstrap bootstrap;
  uint32_t calls; /* number of allgathers so far */
  uint64_t files; /* old limit on file descriptors, restored by tu_files_restore when the job is closed */
  /* First failure. No callback is called after it, because it is unknown whether the other ranks still call their
   * callbacks. */
  struct tu_error failure;
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
                   "rank %u: tutti_options.bootstrap->set('%s', %zu bytes) returned %d, expected 0", b->rank, key,
                   bytes, code);
  memcpy((char *)all + b->rank * bytes, mine, bytes);
  for (uint32_t r = 0; r < b->ranks; r++) {
    if (r == b->rank) continue;
    key_of(u, r, key);
    code = b->get(b->context, key, (char *)all + r * bytes, bytes);
    if (code != 0)
      return tu_fail(error, TUTTI_ERR_SYSTEM,
                     "rank %u: tutti_options.bootstrap->get('%s', %zu bytes) returned %d, expected 0", b->rank, key,
                     bytes, code);
  }
  return TUTTI_OK;
}

static tutti_err by_callback(const struct user *u, const void *mine, void *all, size_t bytes, struct tu_error *error) {
  const tutti_bootstrap *b = &u->bootstrap;
  int code = b->allgather(b->context, mine, all, bytes);
  if (code == 0) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_SYSTEM,
                 "rank %u: tutti_options.bootstrap->allgather(%zu bytes) returned %d, expected 0", b->rank, bytes,
                 code);
}

static tutti_err user_allgather(struct tu_job *job, const void *mine, void *all, size_t bytes, struct tu_error *error) {
  struct user *u = user_of(job);
  if (u->failure.code == TUTTI_OK) {
    bool has_allgather = u->bootstrap.allgather != NULL;
    tutti_err err = has_allgather ? by_callback(u, mine, all, bytes, error) : by_store(u, mine, all, bytes, error);
    u->calls++;
    /* Set a new deadline after each allgather, because the time spent in the program's callbacks does not count. */
    job->deadline_ns = tu_job_deadline_ns(job->timeout_ms);
    if (err == TUTTI_OK) return TUTTI_OK;
    u->failure = *error;
  }
  *error = u->failure;
  return error->code;
}

/* Records the failure. From then on this rank calls no callback. It does not tell the other ranks. */
static void user_fail(struct tu_job *job, const struct tu_error *error) { user_of(job)->failure = *error; }

static void user_close(struct tu_job *job) {
  tu_files_restore(user_of(job)->files);
  tu_job_fini(job);
  free(user_of(job));
}

static const struct tu_job_ops user_ops = {.allgather = user_allgather, .fail = user_fail, .close = user_close};

tutti_err tu_job_user_create(const tutti_bootstrap *b, int timeout_ms, struct tu_job **job, struct tu_error *error) {
  if (!b->allgather && !(b->set && b->get))
    return tu_fail(
        error, TUTTI_ERR_ARGUMENT,
        "tutti_options.bootstrap has no allgather, and not both of set and get; expected allgather, or set and get");
  struct user *u = tu_try_allocate(1, sizeof *u);
  if (!u) return tu_fail_memory(error, sizeof *u, "rank %u's part of a job", b->rank);
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
