/* events.c: sessions. A session is a queue of non-blocking copies, which run in the order in which they were started.
 * They do not run at once: they run when the program waits for them, or when the queue is full. */
#include "onesided/events.h"

#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "comm/failure.h"
#include "engine/copy.h"

enum { OPEN_MAX = 64, RELAY_BYTES = 1 << 20 };

struct tutti_session {
  uint64_t id;      /* id of the session, from 1 */
  uint64_t process; /* tu_process_number of the process that created the session */
  /* numbers of the last copy started and of the last copy done; done <= started <= done + OPEN_MAX */
  uint64_t started, done;
  bool crosses; /* true: a copy to or from another host was started */
  struct tu_flat open[OPEN_MAX];
  struct tutti_session *next;
};

/* All sessions of this process, and the number of sessions ever created. `lock` protects both. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tutti_session *sessions;
static uint64_t session_count;

tutti_err tutti_session_create(tutti_session **session) {
  struct tu_error error;
  if (!session) return tu_refuse_null("tutti_session_create", "session");
  struct tutti_session *s = tu_try_allocate(1, sizeof *s);
  *session = NULL;
  if (!s) {
    tu_fail_memory(&error, sizeof *s, "a session");
    return tu_thread_error(&error);
  }
  pthread_mutex_lock(&lock);
  s->id = ++session_count;
  s->process = tu_process_number(NULL);
  s->next = sessions;
  sessions = s;
  pthread_mutex_unlock(&lock);
  *session = s;
  return TUTTI_OK;
}

/* Copies memory of one other host to that of another, piece by piece. */
static void relay(struct tu_far *far, const struct tu_flat *flat, struct tu_error *error) {
  void *buffer = malloc(tu_min(flat->bytes, RELAY_BYTES));
  if (!buffer) tu_fail_memory(error, tu_min(flat->bytes, RELAY_BYTES), "%s", far->call);
  for (size_t at = 0; buffer && at < flat->bytes; at += RELAY_BYTES) {
    const size_t bytes = tu_min(flat->bytes - at, RELAY_BYTES);
    struct tu_far_memory from = flat->from_far, to = flat->to_far;
    from.offset += at;
    to.offset += at;
    tu_far_wait(far, tu_far_read(far, from, buffer, bytes));
    tu_far_wait(far, tu_far_write(far, to, buffer, bytes));
  }
  free(buffer);
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* Returns true if the later copy must not begin before the earlier one is complete: one of them writes what the other
 * reads or writes. Memory of other hosts has addresses in this process, too (window.h). */
static bool clash(const struct tu_flat *earlier, const struct tu_flat *later) {
  return overlap(earlier->to, earlier->bytes, later->to, later->bytes) ||
         overlap(earlier->to, earlier->bytes, later->from, later->bytes) ||
         overlap(earlier->from, earlier->bytes, later->to, later->bytes);
}

/* Carries out a copy on this host, and begins one with another host. */
static void carry_one(struct tu_far *far, const struct tu_flat *flat) {
  if (flat->bytes == 0 || far->error.code != TUTTI_OK) return;
  if (flat->from_far.window && flat->to_far.window) relay(far, flat, &far->error);
  else if (flat->from_far.window) (void)tu_far_read(far, flat->from_far, flat->to, flat->bytes);
  else if (flat->to_far.window) (void)tu_far_write(far, flat->to_far, flat->from, flat->bytes);
  else tu_copy_bytes(flat->to, flat->from, flat->bytes);
}

static void copy_here(struct tutti_session *s, uint64_t up_to) {
  while (s->done < up_to) {
    const struct tu_flat *flat = &s->open[++s->done % OPEN_MAX];
    if (flat->bytes > 0) tu_copy_bytes(flat->to, flat->from, flat->bytes);
  }
}

/* Carries out the copies up to that number, in order. An error ends it; the copy that has failed counts as done, and
 * those after it are open. */
static tutti_err carry_across(const char *call, struct tutti_session *s, uint64_t up_to, struct tu_error *error) {
  uint64_t last[OPEN_MAX] = {0}; /* number of the last request that was begun by the end of a copy */
  const uint64_t first = s->done + 1;
  struct tu_far far;
  tu_far_start(&far, call);
  while (s->done < up_to && far.error.code == TUTTI_OK) {
    const size_t at = ++s->done % OPEN_MAX;
    for (uint64_t i = first; i < s->done; i++)
      if (last[i % OPEN_MAX] > far.completed && clash(&s->open[i % OPEN_MAX], &s->open[at]))
        tu_far_wait(&far, last[i % OPEN_MAX]);
    carry_one(&far, &s->open[at]);
    last[at] = far.begun;
  }
  const tutti_err err = tu_far_end(&far, error);
  while (err != TUTTI_OK && s->done > first && last[(s->done - 1) % OPEN_MAX] > far.completed) s->done--;
  return err;
}

static tutti_err carry_out(const char *call, struct tutti_session *s, uint64_t up_to, struct tu_error *error) {
  if (s->crosses) return carry_across(call, s, up_to, error);
  copy_here(s, up_to);
  return TUTTI_OK;
}

tutti_err tu_session_check(const tutti_session *s, const char *call, struct tu_error *error) {
  return tu_refuse_child(s->process, call, error);
}

tutti_err tu_session_start(tutti_session *s, const struct tu_flat *flat, tutti_event *event, struct tu_error *error) {
  tutti_err err = TUTTI_OK;
  if (s->started - s->done == OPEN_MAX) err = carry_out("the start of a copy", s, s->done + 1, error);
  if (err != TUTTI_OK) return err;
  s->open[++s->started % OPEN_MAX] = *flat;
  s->crosses |= flat->to_far.window || flat->from_far.window;
  *event = (tutti_event){s->id, s->started};
  return TUTTI_OK;
}

tutti_err tutti_session_free(tutti_session *session) {
  struct tu_error error;
  if (!session) return TUTTI_OK;
  /* In a child of fork(), the call is refused: the session belongs to the parent process, which runs the remaining
   * copies. */
  if (tu_session_check(session, "tutti_session_free", &error) != TUTTI_OK) return tu_thread_error(&error);
  tutti_err err = TUTTI_OK;
  while (session->done < session->started) {
    struct tu_error later;
    const bool whole = err == TUTTI_OK;
    const tutti_err found = carry_out("tutti_session_free", session, session->started, whole ? &error : &later);
    if (whole) err = found;
  }
  pthread_mutex_lock(&lock);
  struct tutti_session **at = &sessions;
  while (*at != session) at = &(*at)->next;
  *at = session->next;
  pthread_mutex_unlock(&lock);
  free(session);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}

/* Waits for the event. If the event's session was freed, the event is complete, because tutti_session_free runs all
 * copies. */
static tutti_err wait_for(const char *call, tutti_event event, struct tu_error *error) {
  if (event.number == 0) return TUTTI_OK;
  pthread_mutex_lock(&lock);
  struct tutti_session *s = sessions;
  while (s && s->id != event.session) s = s->next;
  bool known = event.session > 0 && event.session <= session_count;
  pthread_mutex_unlock(&lock);
  if (!known || (s && event.number > s->started))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: unknown event %llu of session %llu; expected an event that a call has returned, or zero", call,
                   (unsigned long long)event.number, (unsigned long long)event.session);
  tutti_err err = s ? tu_session_check(s, call, error) : TUTTI_OK;
  if (s && err == TUTTI_OK) err = carry_out(call, s, event.number, error);
  return err;
}

tutti_err tutti_event_wait(tutti_event event) {
  struct tu_error error;
  tutti_err err = wait_for("tutti_event_wait", event, &error);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}

tutti_err tu_events_begin(const char *call, const tutti_events *events, struct tu_error *error) {
  if (!events) return TUTTI_OK;
  if (events->event) *events->event = (tutti_event){0};
  if (!events->after && events->after_count > 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: after_count is %u, but `after` is NULL", call, events->after_count);
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < events->after_count && err == TUTTI_OK; i++) err = wait_for(call, events->after[i], error);
  return err;
}
