/* job_tcp_root.c: a job over TCP, on rank 0: waits until all ranks have joined, and executes their allgathers. Rank 0
 * sends the first failure of any rank to all ranks that have joined. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "boot/job_address.h"
#include "boot/job_tcp_star.h"

static struct tu_star *star_of(struct tu_job *job) { return (struct tu_star *)job; }

static void tell_all(const struct tu_star *star, const struct tu_error *error) {
  struct tu_boot_note note;
  tu_boot_note_init(&note, TU_BOOT_FAILED, error);
  /* Ignore a failed send: the rank is dead then, and the next read from its connection will report that. */
  for (uint32_t r = 1; r < star->identity.ranks; r++)
    if (star->peers[r].line.fd >= 0) (void)tu_boot_send(star->peers[r].line.fd, &note, sizeof note);
}

/* ---- time-outs ---- */

static bool is_missing(const struct tu_star *star, uint32_t rank) {
  return star->all ? !star->peers[rank].given : star->peers[rank].line.fd < 0;
}

/* Writes the list of ranks for which rank 0 still waits, such as "1, 2, 5-9". */
static void list_missing(const struct tu_star *star, char *list, size_t bytes) {
  uint32_t ranks = star->identity.ranks;
  size_t length = 0;
  list[0] = '\0';
  for (uint32_t r = 1; r < ranks;) {
    uint32_t end = r;
    while (end < ranks && is_missing(star, end)) end++;
    if (end == r) {
      r++;
      continue;
    }
    if (length + 40 > bytes) {
      snprintf(list + length, bytes - length, ", ...");
      return;
    }
    const char *comma = length ? ", " : "";
    if (end - r == 1) length += (size_t)snprintf(list + length, bytes - length, "%s%u", comma, r);
    else if (end - r == 2) length += (size_t)snprintf(list + length, bytes - length, "%s%u, %u", comma, r, r + 1);
    else length += (size_t)snprintf(list + length, bytes - length, "%s%u-%u", comma, r, end - 1);
    r = end;
  }
}

static tutti_err fail_late(const struct tu_star *star, struct tu_error *error) {
  char list[160], refused[320] = "", step[96] = "";
  list_missing(star, list, sizeof list);
  uint32_t ranks = star->identity.ranks, missing = ranks - 1 - (star->all ? star->given : star->joined);
  if (star->refusals && !star->all) {
    snprintf(refused, sizeof refused, "; %u join%s refused, the last because %s", star->refusals,
             star->refusals == 1 ? " was" : "s were", star->refused);
  }
  if (star->all) snprintf(step, sizeof step, " %s", star->job.step);
  return tu_fail(error, TUTTI_ERR_TIMEOUT, "rank 0 waited %d ms at %s for rank%s %s of %u%s%s", star->job.timeout_ms,
                 star->name, missing == 1 ? "" : "s", list, ranks, step, refused);
}

/* ---- poll loop ---- */

static tutti_err fail_died(struct tu_star *star, uint32_t rank, struct tu_error *error) {
  tu_boot_close(&star->peers[rank].line.fd);
  return tu_fail(error, TUTTI_ERR_PEER, "rank %u (pid %u) died or left while the ranks were joining the job at %s",
                 rank, star->peers[rank].hello.pid, star->name);
}

/* Called if a rank from which rank 0 expects no data has closed its connection. Sets and returns the error: the one in
 * the rank's FAILED note (message) if there is such a note, otherwise that the rank left. */
static tutti_err hear_leaving(struct tu_star *star, uint32_t rank, struct tu_error *error) {
  struct tu_star_peer *peer = &star->peers[rank];
  char who[24];
  snprintf(who, sizeof who, "rank %u: ", rank);
  if (tu_boot_take(&peer->line) == TU_BOOT_TAKEN && peer->line.note.kind == TU_BOOT_FAILED)
    return tu_boot_fail_as_told(&peer->line.note, who, error);
  return fail_died(star, rank, error);
}

static bool wants(const struct tu_star *star, uint32_t rank) { return star->all && !star->peers[rank].given; }

static tutti_err hear_peer(struct tu_star *star, uint32_t rank, struct tu_error *error) {
  struct tu_star_peer *peer = &star->peers[rank];
  if (!wants(star, rank)) return hear_leaving(star, rank, error);
  switch (tu_boot_take_data(&peer->line, star->all + rank * star->bytes, star->bytes)) {
    case TU_BOOT_NOT_YET: return TUTTI_OK;
    case TU_BOOT_GONE: break;
    case TU_BOOT_TAKEN:
      if (peer->line.note.kind == TU_BOOT_DATA) {
        peer->given = true;
        star->given++;
        return TUTTI_OK;
      }
      if (peer->line.note.kind != TU_BOOT_FAILED) break;
      char who[24];
      snprintf(who, sizeof who, "rank %u: ", rank);
      return tu_boot_fail_as_told(&peer->line.note, who, error);
  }
  return fail_died(star, rank, error);
}

/* Fills in the descriptors for poll() and returns their number. If rank 0 expects no data from a rank, poll() waits
 * only for the end of its connection (POLLRDHUP). Such a rank may already have sent its data for the next allgather,
 * which is read later. */
static nfds_t fill_poll_set(struct tu_star *star) {
  nfds_t n = 0;
  star->polled[n++] = (struct pollfd){.fd = star->listener, .events = POLLIN};
  /* Each entry of the table of guests has its place in the poll set. poll ignores unused entries, because their
   * descriptor is negative. */
  for (uint32_t i = 0; i < star->guests_max; i++)
    star->polled[n++] = (struct pollfd){.fd = star->guests[i].fd, .events = POLLIN};
  for (uint32_t r = 1; r < star->identity.ranks; r++)
    star->polled[n++] =
        (struct pollfd){.fd = star->peers[r].line.fd, .events = wants(star, r) ? POLLIN : (short)POLLRDHUP};
  return n;
}

/* Waits at most wait_ms for events on the connections, and handles the events that have occurred. */
static tutti_err step(struct tu_star *star, int wait_ms, struct tu_error *error) {
  nfds_t count = fill_poll_set(star);
  int ready = poll(star->polled, count, (int)tu_min((size_t)wait_ms, TU_STAR_GUEST_MS));
  if (ready < 0 && errno != EINTR) return tu_fail_errno(error, "rank 0 cannot wait for the other ranks: poll failed");
  tu_star_expire(star);
  if (ready <= 0) return TUTTI_OK;

  tutti_err err = TUTTI_OK;
  const struct pollfd *polled = star->polled + 1;
  for (uint32_t i = 0; i < star->guests_max && err == TUTTI_OK; i++)
    if (polled[i].revents && star->guests[i].fd >= 0) err = tu_star_hear_guest(star, &star->guests[i], error);
  polled += star->guests_max;
  for (uint32_t r = 1; r < star->identity.ranks && err == TUTTI_OK; r++)
    if (polled[r - 1].revents && star->peers[r].line.fd >= 0) err = hear_peer(star, r, error);
  if (err == TUTTI_OK && star->polled[0].revents) err = tu_star_accept(star, error);
  return err;
}

/* Runs the poll loop. During the join, ends when all ranks have joined; in an allgather, when the data of all ranks has
 * arrived. */
static tutti_err run(struct tu_star *star, struct tu_error *error) {
  const uint32_t *count = star->all ? &star->given : &star->joined;
  while (*count < star->identity.ranks - 1) {
    int left_ms = tu_clock_left_ms(star->job.deadline_ns);
    if (left_ms == 0) return fail_late(star, error);
    tutti_err err = step(star, left_ms, error);
    if (err != TUTTI_OK) return err;
  }
  return TUTTI_OK;
}

/* ---- operations of the job ---- */

static tutti_err fail_for_all(struct tu_star *star, const struct tu_error *error) {
  if (star->failure.code == TUTTI_OK) tell_all(star, error);
  star->failure = *error;
  return error->code;
}

/* A rank that has left does not fail this allgather, which is complete for the ranks that were sent the data. The next
 * allgather fails, or after the last one the collectives. */
static tutti_err hand_out(struct tu_star *star, struct tu_error *error) {
  for (uint32_t r = 1; r < star->identity.ranks; r++) {
    if (tu_boot_send_data(star->peers[r].line.fd, star->all, star->bytes * star->identity.ranks, star->job.deadline_ns))
      continue;
    if (tu_clock_left_ms(star->job.deadline_ns) > 0) continue;
    return tu_fail(error, TUTTI_ERR_TIMEOUT,
                   "rank 0 waited %d ms at %s for rank %u of %u to receive the other ranks' data", star->job.timeout_ms,
                   star->name, r, star->identity.ranks);
  }
  return TUTTI_OK;
}

static tutti_err root_allgather(struct tu_job *job, const void *mine, void *all, size_t bytes, struct tu_error *error) {
  struct tu_star *star = star_of(job);
  if (star->failure.code != TUTTI_OK) {
    *error = star->failure;
    return error->code;
  }
  star->all = all;
  star->bytes = bytes;
  star->given = 0;
  for (uint32_t r = 1; r < job->ranks; r++) star->peers[r].given = false;
  memcpy(all, mine, bytes);
  tutti_err err = run(star, error);
  if (err == TUTTI_OK) err = hand_out(star, error);
  star->all = NULL;
  return err == TUTTI_OK ? err : fail_for_all(star, error);
}

static tutti_err root_look(struct tu_job *job, struct tu_error *error) {
  struct tu_star *star = star_of(job);
  for (uint32_t r = 1; r < job->ranks; r++)
    star->polled[r] = (struct pollfd){.fd = star->peers[r].line.fd, .events = POLLRDHUP};
  if (star->failure.code == TUTTI_OK && poll(star->polled + 1, job->ranks - 1, 0) > 0) {
    uint32_t left = 1;
    while (!star->polled[left].revents) left++;
    (void)hear_leaving(star, left, error);
    return fail_for_all(star, error);
  }
  if (star->failure.code != TUTTI_OK) *error = star->failure;
  return star->failure.code;
}

static void root_fail(struct tu_job *job, const struct tu_error *error) { (void)fail_for_all(star_of(job), error); }

static void root_close(struct tu_job *job) {
  struct tu_star *star = star_of(job);
  for (int i = 0; i < TU_STAR_GUESTS; i++) tu_boot_close(&star->guests[i].fd);
  for (uint32_t r = 0; r < star->identity.ranks; r++) tu_boot_close(&star->peers[r].line.fd);
  tu_boot_close(&star->listener);
  tu_boot_secret_wipe(&star->secret);
  tu_files_restore(star->files);
  free(star->peers);
  free(star->polled);
  tu_job_fini(job);
  free(star);
}

static const struct tu_job_ops root_ops = {
    .allgather = root_allgather, .look = root_look, .fail = root_fail, .close = root_close};

/* ---- creation ---- */

/* Allocates a star without connections; returns NULL and sets *error if memory runs out. */
static struct tu_star *allocate(const struct tu_boot_identity *identity, int timeout_ms, struct tu_error *error) {
  struct tu_star *star = tu_try_allocate(1, sizeof *star);
  if (star) star->peers = tu_try_allocate(identity->ranks, sizeof *star->peers);
  if (star) star->polled = tu_try_allocate(identity->ranks + TU_STAR_GUESTS + 1, sizeof *star->polled);
  bool good = star && star->peers && star->polled;
  if (!good) tu_fail_memory(error, identity->ranks * sizeof *star->peers, "a world of %u ranks", identity->ranks);
  else good = tu_job_init(&star->job, &root_ops, 0, identity->ranks, timeout_ms, error) == TUTTI_OK;
  if (!good) {
    if (star) free(star->peers);
    if (star) free(star->polled);
    free(star);
    return NULL;
  }
  star->identity = *identity;
  star->listener = -1;
  for (int i = 0; i < TU_STAR_GUESTS; i++) star->guests[i].fd = -1;
  for (uint32_t r = 0; r < identity->ranks; r++) star->peers[r].line.fd = -1;
  return star;
}

static tutti_err open_star(struct tu_star *star, struct tu_error *error) {
  tu_boot_address_name(&star->identity, star->name, sizeof star->name);
  tu_boot_hello_init(&star->own, star->job.timeout_ms);
  tutti_err err = tu_boot_secret_read(star->identity.secret, &star->secret, error);
  if (err == TUTTI_OK) err = tu_star_limit_guests(star, error);
  if (err == TUTTI_OK) err = tu_star_listen(star, error);
  if (err == TUTTI_OK && star->secret.bytes == 0) {
    fprintf(stderr,
            "tutti: the job at %s has no secret: any process that reaches the port can join; to prevent this, set "
            "TUTTI_SECRET or TUTTI_SECRET_FILE, the same on all ranks\n",
            star->name);
  }
  return err;
}

/* Closes the listener and the connections of all guests, because all ranks have joined. */
static void close_door(struct tu_star *star) {
  for (int i = 0; i < TU_STAR_GUESTS; i++) tu_boot_close(&star->guests[i].fd);
  tu_boot_close(&star->listener);
}

/* Rank 0 is reached at the address to which a rank of another host has connected: the lowest that did not use the
 * loopback, if there is one. */
static void note_address(struct tu_star *star) {
  struct sockaddr_storage address;
  int best = -1;
  for (uint32_t r = star->job.ranks; r-- > 1;) {
    tu_boot_local_address(star->peers[r].line.fd, &address);
    const int how = 2 * !tu_boot_is_loopback(&address) + (star->peers[r].hello.host != star->own.host);
    if (how < best) continue;
    best = how;
    star->job.address = address;
  }
}

tutti_err tu_job_tcp_create_root(const struct tu_boot_identity *identity, int timeout_ms, struct tu_job **job,
                                 struct tu_error *error) {
  uint64_t files = tu_files_raise();
  struct tu_star *star = allocate(identity, timeout_ms, error);
  if (!star) {
    tu_files_restore(files);
    return error->code;
  }
  star->files = files;
  tutti_err err = open_star(star, error);
  if (err == TUTTI_OK) err = run(star, error);
  if (err != TUTTI_OK) {
    root_fail(&star->job, error);
    root_close(&star->job);
    return err;
  }
  close_door(star);
  note_address(star);
  tu_boot_secret_hash(&star->secret, star->job.secret);
  *job = &star->job;
  return TUTTI_OK;
}
