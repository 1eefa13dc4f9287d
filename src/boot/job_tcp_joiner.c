/* job_tcp_joiner.c: a job over TCP, on ranks other than 0: connects to rank 0, checks rank 0's proof, proves that this
 * rank belongs to the job, and exchanges messages with rank 0 alone. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "boot/job_tcp_wire.h"

/* Maximum time in ms for which a rank waits for the answer to its call (its first message) before it tries again. */
enum { ANSWER_MS = 5000 };
/* Time in ms that a rank waits for rank 0 beyond its own deadline. Rank 0 may have sent a message about a time-out at
 * that deadline, and the message may still be on its way. */
enum { VERDICT_MS = 1000 };

struct joiner {
  struct tu_job job;
  struct tu_boot_identity identity;
  struct tu_boot_secret secret;
  char name[264];
  struct tu_boot_line line;
  bool met;       /* true: the process that listens at the address has proved that it is rank 0 */
  char why[320];  /* if the rank may try again to join: reason why the last attempt failed */
  uint64_t files; /* old limit on file descriptors, restored by tu_files_restore when the job is closed */
  struct tu_error failure;
};

static struct joiner *joiner_of(struct tu_job *job) { return (struct joiner *)job; }

/* If the listening process belongs to another user, writes a clause of an error message that says this. Otherwise, or
 * if the kernel does not report the user, writes "". */
static void describe_other_user(int fd, char *text, size_t bytes) {
  uid_t uid;
  text[0] = '\0';
  if (tu_boot_peer_user(fd, &uid) != TU_BOOT_USER_KNOWN || uid == geteuid()) return;
  snprintf(text, bytes, "; it belongs to another user (uid %u; this rank has uid %u)", (unsigned)uid,
           (unsigned)geteuid());
}

/* Waits for the next note (message header). If `body` is not NULL, also waits for the bytes that follow a DATA note.
 * Sets *got to false if rank 0 closed the connection, sent something that is no note, or sent a DATA note of another
 * size. Returns TUTTI_ERR_TIMEOUT at the deadline. */
static tutti_err await_note(struct joiner *joiner, void *body, size_t bytes, uint64_t deadline_ns, bool *got,
                            struct tu_error *error) {
  for (;;) {
    enum tu_boot_taken taken = body ? tu_boot_take_data(&joiner->line, body, bytes) : tu_boot_take(&joiner->line);
    *got = taken == TU_BOOT_TAKEN;
    if (taken != TU_BOOT_NOT_YET) return TUTTI_OK;
    struct pollfd polled = {.fd = joiner->line.fd, .events = POLLIN};
    int ready = poll(&polled, 1, tu_clock_left_ms(deadline_ns));
    if (ready < 0 && errno != EINTR) return tu_fail_errno(error, "cannot wait for rank 0: poll failed");
    if (ready == 0 && tu_clock_left_ms(deadline_ns) == 0) {
      return tu_fail(error, TUTTI_ERR_TIMEOUT,
                     "waited %d ms for rank 0 at %s: it accepted the connection, but then sent "
                     "nothing",
                     joiner->job.timeout_ms, joiner->name);
    }
  }
}

/* Rank 0 is of another round of the job, and has proved that. If its round is older, it will end, and rank 0 of this
 * round will come. Otherwise this rank should have ended. */
static tutti_err judge_round(struct joiner *joiner, const struct tu_boot_call *call,
                             const struct tu_boot_answer *answer, struct tu_error *error) {
  char theirs[TU_BOOT_ROUND_CHARS], ours[TU_BOOT_ROUND_CHARS];
  tu_boot_round_name(&answer->round, theirs);
  tu_boot_round_name(&call->round, ours);
  if (strncmp(call->round.run, answer->round.run, sizeof call->round.run) == 0 &&
      answer->round.restart < call->round.restart) {
    snprintf(joiner->why, sizeof joiner->why, "rank 0 of %s is there, this rank belongs to %s", theirs, ours);
    return TUTTI_OK;
  }
  return tu_fail(error, TUTTI_ERR_PEER, "rank %u belongs to %s, but the job at %s is %s: this process is left over",
                 call->rank, ours, joiner->name, theirs);
}

/* Checks whether the answer to this rank's call (its first message) comes from rank 0. If it does, sets joiner->met. No
 * text of an unproved answer appears in error messages, because an impostor could blame another rank in it. Returns
 * TUTTI_OK and leaves joiner->met false if the rank may try again; joiner->why is then the reason. */
static tutti_err judge(struct joiner *joiner, const struct tu_boot_call *call, const struct tu_boot_answer *answer,
                       struct tu_error *error) {
  uid_t uid, own = geteuid();
  enum tu_boot_user user = tu_boot_peer_user(joiner->line.fd, &uid);
  bool has_secret = joiner->secret.bytes > 0;
  if (user == TU_BOOT_USER_KNOWN && uid != own) {
    return tu_fail(error, TUTTI_ERR_PEER,
                   "the process that listens at %s belongs to another user (uid %u; this rank has uid %u): another job "
                   "uses this port, or rank 0 runs as another user than rank %u",
                   joiner->name, (unsigned)uid, (unsigned)own, call->rank);
  }
  if (user == TU_BOOT_USER_UNKNOWN && !has_secret) {
    snprintf(joiner->why, sizeof joiner->why,
             "the kernel does not report the user of the process that answered; set TUTTI_SECRET on all ranks");
    return TUTTI_OK;
  }
  if (answer->version != TU_BOOT_VERSION) {
    return tu_fail(error, TUTTI_ERR_PEER, "the job at %s uses protocol version %u, but rank %u uses version %u: %s",
                   joiner->name, answer->version, call->rank, (unsigned)TU_BOOT_VERSION,
                   "all ranks need the same build of the library");
  }
  if (answer->reply != TU_BOOT_PROVES) {
    bool told = answer->reply == TU_BOOT_OTHER_USER;
    return tu_fail(
        error, TUTTI_ERR_PEER,
        "the job at %s refused rank %u: the kernel of rank 0's host %s (uid %u there; rank %u has uid %u); all ranks "
        "must run as one user",
        joiner->name, call->rank, told ? "reports that it belongs to another user" : "does not report its user",
        answer->uid, call->rank, (unsigned)own);
  }
  if (has_secret != (answer->has_secret != 0)) {
    return tu_fail(error, TUTTI_ERR_PEER, "the job at %s %s TUTTI_SECRET, rank %u %s: all ranks need the same secret",
                   joiner->name, answer->has_secret ? "has a" : "has no", call->rank,
                   has_secret ? "has one" : "has none");
  }
  if (!tu_boot_proven(&joiner->secret, TU_BOOT_ROLE_HOST, call, answer, answer->proof)) {
    return tu_fail(
        error, TUTTI_ERR_PEER,
        "the process that listens at %s does not know the TUTTI_SECRET of rank %u: it belongs to another job, "
        "or the secrets differ",
        joiner->name, call->rank);
  }
  if (!tu_boot_same_round(&call->round, &answer->round)) return judge_round(joiner, call, answer, error);
  joiner->met = true;
  return TUTTI_OK;
}

/* Sends the call (first message of a join), waits for rank 0's answer and checks it. Returns TUTTI_OK and leaves
 * joiner->met false if the rank may try again. */
static tutti_err call_host(struct joiner *joiner, struct tu_boot_call *call, struct tu_boot_answer *answer,
                           struct tu_error *error) {
  *call = (struct tu_boot_call){.magic = TU_BOOT_MAGIC,
                                .version = TU_BOOT_VERSION,
                                .rank = joiner->identity.rank,
                                .ranks = joiner->identity.ranks,
                                .round = joiner->identity.round,
                                .has_secret = joiner->secret.bytes > 0};
  tu_boot_nonce(call->nonce);
  size_t got = 0;
  enum tu_boot_taken taken = tu_boot_send(joiner->line.fd, call, sizeof *call) ? TU_BOOT_NOT_YET : TU_BOOT_GONE;
  uint64_t until_ns = tu_clock_ns() + ANSWER_MS * UINT64_C(1000000);
  if (until_ns > joiner->job.deadline_ns) until_ns = joiner->job.deadline_ns;
  while (taken == TU_BOOT_NOT_YET &&
         (taken = tu_boot_receive(joiner->line.fd, answer, sizeof *answer, &got)) == TU_BOOT_NOT_YET) {
    struct pollfd polled = {.fd = joiner->line.fd, .events = POLLIN};
    if (poll(&polled, 1, tu_clock_left_ms(until_ns)) == 0) break;
  }
  if (taken == TU_BOOT_TAKEN) return judge(joiner, call, answer, error);
  /* No answer came: another program may use the port, or rank 0 had too many connections that were not yet admitted. */
  char whose[96];
  bool closed = taken == TU_BOOT_GONE;
  describe_other_user(joiner->line.fd, whose, sizeof whose);
  snprintf(joiner->why, sizeof joiner->why, "%s%s",
           closed ? "the connection was closed without an answer" : "it accepted the connection, but sent nothing",
           whose);
  return TUTTI_OK;
}

/* Makes one attempt to join at an address. Sets *in to true if rank 0 has admitted this rank. If *in is false and no
 * error is returned, the rank should try again; joiner->why is then the reason. */
static tutti_err try_to_enter(struct joiner *joiner, const struct tu_boot_place *at, uint64_t connect_until_ns,
                              bool *in, struct tu_error *error) {
  *in = joiner->met = false;
  joiner->line = (struct tu_boot_line){.fd = tu_boot_connect(at, connect_until_ns)};
  if (joiner->line.fd < 0) {
    snprintf(joiner->why, sizeof joiner->why, "%s", strerror(errno));
    return TUTTI_OK;
  }
  struct tu_boot_call call;
  struct tu_boot_answer answer;
  bool got = false;
  tutti_err err = call_host(joiner, &call, &answer, error);
  if (err == TUTTI_OK && joiner->met) {
    struct tu_boot_hello hello;
    tu_boot_hello_init(&hello, joiner->job.timeout_ms);
    hello.left_ms = (uint32_t)tu_clock_left_ms(joiner->job.deadline_ns);
    tu_boot_prove(&joiner->secret, TU_BOOT_ROLE_JOINER, &call, &answer, hello.proof);
    snprintf(joiner->why, sizeof joiner->why, "it closed the connection");
    if (tu_boot_send(joiner->line.fd, &hello, sizeof hello))
      err = await_note(joiner, NULL, 0, joiner->job.deadline_ns, &got, error);
    if (err == TUTTI_OK && got && joiner->line.note.kind == TU_BOOT_FAILED)
      err = tu_boot_fail_as_told(&joiner->line.note, "", error);
    *in = err == TUTTI_OK && got && joiner->line.note.kind == TU_BOOT_WELCOME;
  }
  if (!*in) tu_boot_close(&joiner->line.fd);
  return err;
}

/* Adds why the attempt at an address has failed to the reasons of a round of attempts. */
static void note_why(const struct joiner *joiner, const struct tu_boot_place *at, char *whys, size_t bytes) {
  char name[64];
  const size_t length = strlen(whys);
  tu_boot_place_name(at, name);
  snprintf(whys + length, bytes - length, "%s%s: %.120s", length ? "; " : "", name, joiner->why);
}

/* Attempts to join at each of the addresses in turn. `whys`: the reasons why all have failed. */
static tutti_err try_all(struct joiner *joiner, const struct tu_boot_places *places, int connect_ms, bool *in,
                         char *whys, size_t bytes, struct tu_error *error) {
  whys[0] = '\0';
  for (uint32_t i = 0; i < places->count; i++) {
    uint64_t until_ns = tu_clock_ns() + (uint64_t)connect_ms * 1000000;
    if (places->count == 1 || until_ns > joiner->job.deadline_ns) until_ns = joiner->job.deadline_ns;
    tutti_err err = try_to_enter(joiner, &places->at[i], until_ns, in, error);
    if (*in) return err;
    if (err != TUTTI_OK && (err != TUTTI_ERR_PEER || joiner->met || places->count == 1)) return err;
    if (err != TUTTI_OK) snprintf(joiner->why, sizeof joiner->why, "%.310s", error->text);
    if (places->count > 1) note_why(joiner, &places->at[i], whys, bytes);
    else snprintf(whys, bytes, "%s", joiner->why);
  }
  return TUTTI_OK;
}

/* Repeats attempts to join until rank 0 admits this rank, because rank 0 may start later than this rank. If another
 * process listens at the address, that is an error, because rank 0 cannot use the port any more. There is one
 * exception: if there are several addresses, rank 0 may still listen at another one of them. An address that does not
 * answer takes little time then: half a second at first, and longer when it is tried again. */
static tutti_err enter(struct joiner *joiner, struct tu_error *error) {
  struct tu_boot_places places;
  char whys[400];
  tutti_err err = tu_boot_resolve(&joiner->identity, &places, error);
  int connect_ms = 500;
  long pause_ms = 2;
  for (bool in = false; !in && err == TUTTI_OK;) {
    err = try_all(joiner, &places, connect_ms, &in, whys, sizeof whys, error);
    if (in || err != TUTTI_OK) break;
    if (tu_clock_left_ms(joiner->job.deadline_ns) == 0)
      return tu_fail(error, TUTTI_ERR_TIMEOUT,
                     "waited %d ms for rank 0 at %s, which did not let rank %u of %u join: %s", joiner->job.timeout_ms,
                     joiner->name, joiner->identity.rank, joiner->identity.ranks, whys);
    nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000}, NULL);
    if (pause_ms < 50) pause_ms += pause_ms / 2;
    if (connect_ms < 4000) connect_ms *= 2;
  }
  return err;
}

/* ---- operations of the job ---- */

static tutti_err fail_left(const struct joiner *joiner, struct tu_error *error) {
  return tu_fail(error, TUTTI_ERR_PEER, "rank 0 at %s died or left while the ranks were joining the job", joiner->name);
}

static tutti_err exchange(struct joiner *joiner, const void *mine, void *all, size_t bytes, struct tu_error *error) {
  bool got;
  (void)tu_boot_send_data(joiner->line.fd, mine, bytes,
                          /* A failure is ignored: then the await_note below reads rank 0's reason, or fails as well. */
                          joiner->job.deadline_ns);
  tutti_err err = await_note(joiner, all, bytes * joiner->job.ranks,
                             joiner->job.deadline_ns + VERDICT_MS * UINT64_C(1000000), &got, error);
  if (err != TUTTI_OK) return err;
  const struct tu_boot_note *note = &joiner->line.note;
  if (!got && joiner->line.got == sizeof *note && note->kind == TU_BOOT_DATA &&
      note->bytes != bytes * joiner->job.ranks)
    return tu_fail(error, TUTTI_ERR_PEER,
                   "rank 0 at %s sent %llu bytes, expected %zu; all ranks need the same build of the library",
                   joiner->name, (unsigned long long)note->bytes, bytes * joiner->job.ranks);
  if (!got) return fail_left(joiner, error);
  if (note->kind == TU_BOOT_DATA) return TUTTI_OK;
  if (note->kind == TU_BOOT_FAILED) return tu_boot_fail_as_told(note, "", error);
  return tu_fail(error, TUTTI_ERR_PEER,
                 "rank 0 at %s sent a message of kind %u, expected data; all ranks need the same build of the library",
                 joiner->name, note->kind);
}

static tutti_err joiner_allgather(struct tu_job *job, const void *mine, void *all, size_t bytes,
                                  struct tu_error *error) {
  struct joiner *joiner = joiner_of(job);
  if (joiner->failure.code == TUTTI_OK && exchange(joiner, mine, all, bytes, error) != TUTTI_OK)
    joiner->failure = *error;
  if (joiner->failure.code != TUTTI_OK) *error = joiner->failure;
  return joiner->failure.code;
}

/* Before it has sent its data, a rank gets nothing from rank 0 but a FAILED note. */
static tutti_err joiner_look(struct tu_job *job, struct tu_error *error) {
  struct joiner *joiner = joiner_of(job);
  const struct tu_boot_note *note = &joiner->line.note;
  if (joiner->failure.code == TUTTI_OK) {
    enum tu_boot_taken taken = tu_boot_take(&joiner->line);
    if (taken == TU_BOOT_NOT_YET) return TUTTI_OK;
    if (taken == TU_BOOT_TAKEN && note->kind == TU_BOOT_FAILED) (void)tu_boot_fail_as_told(note, "", &joiner->failure);
    else (void)fail_left(joiner, &joiner->failure);
  }
  *error = joiner->failure;
  return error->code;
}

static void joiner_fail(struct tu_job *job, const struct tu_error *error) {
  struct joiner *joiner = joiner_of(job);
  struct tu_boot_note note;
  tu_boot_note_init(&note, TU_BOOT_FAILED, error);
  if (joiner->failure.code == TUTTI_OK) (void)tu_boot_send(joiner->line.fd, &note, sizeof note);
  joiner->failure = *error;
}

static void joiner_close(struct tu_job *job) {
  struct joiner *joiner = joiner_of(job);
  tu_boot_close(&joiner->line.fd);
  tu_boot_secret_wipe(&joiner->secret);
  tu_files_restore(joiner->files);
  tu_job_fini(job);
  free(joiner);
}

static const struct tu_job_ops joiner_ops = {
    .allgather = joiner_allgather, .look = joiner_look, .fail = joiner_fail, .close = joiner_close};

tutti_err tu_job_tcp_create_joiner(const struct tu_boot_identity *identity, int timeout_ms, struct tu_job **job,
                                   struct tu_error *error) {
  struct joiner *joiner = tu_try_allocate(1, sizeof *joiner);
  if (!joiner) return tu_fail_memory(error, sizeof *joiner, "rank %u's part of a job that it joins", identity->rank);
  tutti_err err = tu_job_init(&joiner->job, &joiner_ops, identity->rank, identity->ranks, timeout_ms, error);
  if (err != TUTTI_OK) {
    free(joiner);
    return err;
  }
  joiner->files = tu_files_raise();
  joiner->identity = *identity;
  joiner->line.fd = -1;
  tu_boot_address_name(identity, joiner->name, sizeof joiner->name);
  err = tu_boot_secret_read(identity->secret, &joiner->secret, error);
  if (err == TUTTI_OK) err = enter(joiner, error);
  if (err == TUTTI_OK) tu_boot_local_address(joiner->line.fd, &joiner->job.address);
  tu_boot_secret_hash(&joiner->secret, joiner->job.secret);
  tu_boot_secret_wipe(&joiner->secret);
  if (err != TUTTI_OK) joiner_close(&joiner->job);
  else *job = &joiner->job;
  return err;
}
