/* onesided.c: put, get and atomic addition. One of two ranks makes the call; the other rank does not have to call
 * anything. */
#include "base/types.h"
#include "comm/failure.h"
#include "onesided/carry.h"
#include "onesided/events.h"
#include "onesided/located.h"
#include "onesided/staged.h"
#include "onesided/staging.h"

enum { TO, FROM, BOTH };

static tutti_err open_tensors(struct tu_located located[BOTH], const char *call, const tutti_tensor *from,
                              const tutti_tensor *to, struct tu_error *error) {
  tutti_err err = tu_located_open(&located[TO], call, "to", to, error);
  if (err == TUTTI_OK) err = tu_located_open(&located[FROM], call, "from", from, error);
  if (err == TUTTI_OK) err = tu_located_match(&located[TO], &located[FROM], true, error);
  return err;
}

static void close_tensors(struct tu_located located[BOTH]) {
  tu_located_close(&located[TO]);
  tu_located_close(&located[FROM]);
}

static tutti_err open_stage(struct tu_stage *stage, const struct tu_located located[BOTH],
                            struct tu_given_staging staging, struct tu_error *error) {
  const tutti_tensor *t = &located[TO].tensor;
  const struct tu_passage passage = {located[TO].call, t->type, t->shape, located, BOTH};
  return tu_staging_open(stage, &passage, staging, NULL, error);
}

/* Checks that located[remote], the tensor of the other rank, lies in a window, and that the two tensors do not overlap.
 * Sets *same to true if both are the same elements, so that there is nothing to copy. */
static tutti_err check_located(const struct tu_located located[BOTH], int remote, bool *same, struct tu_error *error) {
  struct tu_end to = tu_end_whole(&located[TO]), from = tu_end_whole(&located[FROM]);
  tutti_err err = tu_located_need_window(&located[remote], error);
  if (err != TUTTI_OK) return err;
  *same = tu_end_same(&to, &from);
  return *same ? TUTTI_OK : tu_end_apart(&to, &from, error);
}

static tutti_err move(struct tu_located located[BOTH], int remote, struct tu_given_staging staging,
                      struct tu_error *error) {
  struct tu_stage stage;
  bool same;
  if (tu_located_is_empty(&located[TO])) return TUTTI_OK;
  tutti_err err = check_located(located, remote, &same, error);
  if (err == TUTTI_OK) err = open_stage(&stage, located, staging, error);
  if (err != TUTTI_OK || same) return err;
  struct tu_end to = tu_end_whole(&located[TO]), from = tu_end_whole(&located[FROM]);
  return tu_carry_pairs(&stage, &to, &from, 1, error);
}

static tutti_err move_now(const char *call, int remote, const tutti_tensor *from, const tutti_tensor *to,
                          struct tu_given_staging staging, const tutti_events *events) {
  struct tu_error error;
  struct tu_located located[BOTH] = {0};
  tutti_err err = open_tensors(located, call, from, to, &error);
  if (err == TUTTI_OK) err = tu_events_begin(call, events, &error);
  if (err == TUTTI_OK) err = move(located, remote, staging, &error);
  close_tensors(located);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}

tutti_err tutti_put_sized(const tutti_tensor *from, const tutti_tensor *to, const tutti_staging *staging,
                          size_t staging_bytes, const tutti_events *events) {
  return move_now("tutti_put", TO, from, to, (struct tu_given_staging){staging, staging_bytes}, events);
}

tutti_err tutti_get_sized(const tutti_tensor *from, const tutti_tensor *to, const tutti_staging *staging,
                          size_t staging_bytes, const tutti_events *events) {
  return move_now("tutti_get", FROM, from, to, (struct tu_given_staging){staging, staging_bytes}, events);
}

/* ---- atomic addition ---- */

static tutti_err add(struct tu_located located[BOTH], struct tu_given_staging staging, struct tu_error *error) {
  const tutti_tensor *t = &located[TO].tensor;
  struct tu_stage stage;
  bool same;
  if (!tu_carry_can_add(t->type))
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: there is no atomic addition of %s; expected i32, u32, i64, u64, f32, f64, f16 or bf16",
                   located[TO].call, tutti_datatype_name(t->type));
  if (tu_located_is_empty(&located[TO])) return TUTTI_OK;
  tutti_err err = check_located(located, TO, &same, error);
  if (err == TUTTI_OK && (uintptr_t)t->data % tu_datatypes[t->type].bytes != 0)
    err = tu_fail(error, TUTTI_ERR_ARGUMENT,
                  "%s: to is at %p, which is not aligned to its elements, which are %s of %u bytes", located[TO].call,
                  t->data, tutti_datatype_name(t->type), tu_datatypes[t->type].bytes);
  if (err == TUTTI_OK) err = open_stage(&stage, located, staging, error);
  if (err != TUTTI_OK) return err;
  struct tu_end to = tu_end_whole(&located[TO]), from = tu_end_whole(&located[FROM]);
  return tu_carry_add(&stage, &to, &from, error);
}

tutti_err tutti_put_add_sized(const tutti_tensor *from, const tutti_tensor *to, const tutti_staging *staging,
                              size_t staging_bytes, const tutti_events *events) {
  struct tu_error error;
  struct tu_located located[BOTH] = {0};
  tutti_err err = open_tensors(located, "tutti_put_add", from, to, &error);
  if (err == TUTTI_OK) err = tu_events_begin("tutti_put_add", events, &error);
  if (err == TUTTI_OK) err = add(located, (struct tu_given_staging){staging, staging_bytes}, &error);
  close_tensors(located);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}

/* ---- non-blocking calls of a session ---- */

static tutti_err start(const char *call, int remote, tutti_session *session, const tutti_tensor *from,
                       const tutti_tensor *to, tutti_event *event) {
  struct tu_error error;
  struct tu_located located[BOTH] = {0};
  bool same;
  if (event) *event = (tutti_event){0};
  tutti_err err = open_tensors(located, call, from, to, &error);
  if (err == TUTTI_OK && !session)
    err = tu_fail(&error, TUTTI_ERR_ARGUMENT, "%s: session is NULL; tutti_session_create creates a session", call);
  if (err == TUTTI_OK) err = tu_session_check(session, call, &error);
  for (int i = 0; i < BOTH && err == TUTTI_OK; i++)
    if (!tu_map_is_plain(located[i].map))
      err = tu_fail(&error, TUTTI_ERR_ARGUMENT,
                    "%s: %s is not one contiguous run of memory; expected a flat tensor, or a call of %s", call,
                    located[i].name, remote == TO ? "tutti_put" : "tutti_get");
  if (err == TUTTI_OK && !tu_located_is_empty(&located[TO])) {
    err = check_located(located, remote, &same, &error);
    if (err == TUTTI_OK) {
      struct tu_flat flat = {.to = to->data, .from = from->data, .bytes = same ? 0 : located[TO].extent};
      if (located[TO].far) flat.to_far = tu_located_far(&located[TO]);
      if (located[FROM].far) flat.from_far = tu_located_far(&located[FROM]);
      tutti_event started;
      err = tu_session_start(session, &flat, &started, &error);
      if (event && err == TUTTI_OK) *event = started;
    }
  }
  close_tensors(located);
  return err == TUTTI_OK ? err : tu_thread_error(&error);
}

tutti_err tutti_put_start(tutti_session *session, const tutti_tensor *from, const tutti_tensor *to,
                          tutti_event *event) {
  return start("tutti_put_start", TO, session, from, to, event);
}

tutti_err tutti_get_start(tutti_session *session, const tutti_tensor *from, const tutti_tensor *to,
                          tutti_event *event) {
  return start("tutti_get_start", FROM, session, from, to, event);
}
