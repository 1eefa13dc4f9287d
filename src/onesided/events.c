/* events.c: sessions. A session is a queue of non-blocking copies, which run in the order in which they were started.
 * They do not run at once: they run when the program waits for them, or when the queue is full. */
#include "onesided/events.h"

#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "comm/failure.h"
#include "engine/copy.h"

enum { OPEN_MAX = 64 };

struct tutti_session {
  uint64_t id;      /* id of the session, from 1 */
  uint64_t process; /* tu_process_number of the process that created the session */
  /* numbers of the last copy started and of the last copy done; done <= started <= done + OPEN_MAX */
  uint64_t started, done;
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

static void carry_out(struct tutti_session *s, uint64_t up_to) {
  while (s->done < up_to) {
    const struct tu_flat *flat = &s->open[++s->done % OPEN_MAX];
    if (flat->bytes > 0) tu_copy_bytes(flat->to, flat->from, flat->bytes);
  }
}

tutti_err tu_session_check(const tutti_session *s, const char *call, struct tu_error *error) {
  return tu_refuse_child(s->process, call, error);
}

tutti_event tu_session_start(tutti_session *s, const struct tu_flat *flat) {
  if (s->started - s->done == OPEN_MAX) carry_out(s, s->done + 1);
  s->open[++s->started % OPEN_MAX] = *flat;
  return (tutti_event){s->id, s->started};
}

tutti_err tutti_session_free(tutti_session *session) {
  struct tu_error error;
  if (!session) return TUTTI_OK;
  /* In a child of fork(), the call is refused: the session belongs to the parent process, which runs the remaining
   * copies. */
  if (tu_session_check(session, "tutti_session_free", &error) != TUTTI_OK) return tu_thread_error(&error);
  carry_out(session, session->started);
  pthread_mutex_lock(&lock);
  struct tutti_session **at = &sessions;
  while (*at != session) at = &(*at)->next;
  *at = session->next;
  pthread_mutex_unlock(&lock);
  free(session);
  return TUTTI_OK;
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
  if (s && err == TUTTI_OK) carry_out(s, event.number);
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
