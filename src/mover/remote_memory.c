/* remote_memory.c: sends requests that concern memory of other hosts, and takes their answers; passes requests that
 * arrive to their server, and answers them. */
#include "mover/remote_memory.h"

#include <stdlib.h>
#include <string.h>

#include "mover/remote_internal.h"

/* ---- requests of this rank ---- */

static bool send_frame(struct tu_request_to *request) {
  struct tu_remote *r = request->remote;
  request->next = r->requests;
  r->requests = request;
  const bool sent = tu_remote_write(r, request->peer, &request->frame, request->body, request->body_bytes, NULL);
  if (!sent) r->requests = request->next;
  return sent;
}

static void complete(struct tu_request_to *request, tutti_err code) {
  request->code = code;
  atomic_store_explicit(&request->done, true, memory_order_release);
}

static void end_transfer(struct tu_wire_transfer *transfer, bool carried_out) {
  struct tu_request_to *request = transfer->context;
  struct tu_transport *t = request->remote->transport;
  request->transfers = false;
  if (carried_out) complete(request, TUTTI_OK);
  else if (!send_frame(request)) complete(request, TUTTI_ERR_MEMORY);
  tu_bell_ring(t, t->rank); /* another thread of this rank may be waiting for it */
}

static bool begin_transfer(struct tu_request_to *request) {
  struct tu_wire *w = request->remote->wire;
  request->transfer.done = end_transfer;
  request->transfer.context = request;
  request->transfers =
      request->transfer.bytes > 0 && w->ops->transfer && w->ops->transfer(w, request->peer, &request->transfer);
  return request->transfers;
}

tutti_err tu_memory_request(struct tu_control *c, struct tu_request_to *request, const void *body, size_t bytes,
                            struct tu_error *error) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  request->frame.kind = TU_FRAME_MEMORY;
  request->frame.comm_id = c->comm_id;
  request->frame.number = ++r->requests_made;
  request->remote = r;
  request->body = body;
  request->body_bytes = bytes;
  const bool sent = begin_transfer(request) || send_frame(request);
  pthread_mutex_unlock(&r->lock);
  return sent ? TUTTI_OK : tu_fail_memory(error, sizeof *request, "a request to rank %u of the job", request->peer);
}

static struct tu_request_to **find(struct tu_remote *r, uint32_t from, uint64_t number) {
  struct tu_request_to **link = &r->requests;
  while (*link && ((*link)->frame.number != number || (*link)->peer != from)) link = &(*link)->next;
  return link;
}

static bool is_request(const void *head, uint64_t number) {
  struct tu_memory_frame f;
  memcpy(&f, head, sizeof f);
  return f.kind == TU_FRAME_MEMORY && f.what != 0 && f.number == number;
}

static bool is_answer_of_window(const void *head, uint64_t window) {
  struct tu_memory_frame f;
  memcpy(&f, head, sizeof f);
  return f.kind == TU_FRAME_MEMORY && f.what == 0 && f.window == window;
}

void tu_memory_withdraw(struct tu_control *c, struct tu_request_to *request) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  if (request->transfers) r->wire->ops->recall(r->wire, &request->transfer);
  request->transfers = false;
  struct tu_request_to **link = find(r, request->peer, request->frame.number);
  if (*link) {
    *link = request->next;
    tu_remote_recall(r, is_request, request->frame.number);
    if (r->filling[request->peer].request == request) r->wire->ops->skip(r->wire, request->peer);
  }
  pthread_mutex_unlock(&r->lock);
}

void tu_memory_close_window(struct tu_control *c, uint32_t window) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  tu_remote_recall(r, is_answer_of_window, window);
  for (uint32_t rank = 0; rank < r->hosts.ranks; rank++)
    if (r->filling[rank].window == window) r->wire->ops->skip(r->wire, rank);
  pthread_mutex_unlock(&r->lock);
}

void tu_memory_serve(const struct tu_control *c, const struct tu_memory_server *server) {
  struct tu_remote *r = tu_remote_of(c->transport);
  pthread_mutex_lock(&r->lock);
  r->server = server;
  pthread_mutex_unlock(&r->lock);
}

/* ---- frames that arrive ---- */

static struct tu_memory_frame frame_of(const void *head) {
  struct tu_memory_frame f;
  memcpy(&f, head, sizeof f);
  return f;
}

void *tu_remote_begin_memory(struct tu_remote *r, uint32_t from, const void *head, size_t bytes) {
  const struct tu_memory_frame f = frame_of(head);
  struct tu_filling *filling = &r->filling[from];
  if (bytes == 0) return NULL;
  *filling = (struct tu_filling){0};
  if (f.what == 0) {
    struct tu_request_to *request = *find(r, from, f.number);
    if (!request || f.code != TUTTI_OK || request->answer_bytes != bytes) return NULL;
    filling->request = request;
    return request->answer;
  }
  void *memory = r->server ? r->server->place(r->transport, &f, bytes) : NULL;
  if (memory) filling->window = f.window;
  else if (bytes <= TU_SLOT_BYTES_MAX) memory = filling->buffer = malloc(bytes);
  return memory;
}

static void hear_answer(struct tu_remote *r, uint32_t from, const struct tu_memory_frame *f, size_t bytes) {
  struct tu_request_to **link = find(r, from, f->number), *request = *link;
  if (!request) return;
  *link = request->next;
  request->value = f->value;
  /* The peer has carried out the request, so it has received all of it. */
  tu_remote_recall(r, is_request, request->frame.number);
  complete(request, f->code == TUTTI_OK && bytes != request->answer_bytes ? TUTTI_ERR_SYSTEM : (tutti_err)f->code);
}

/* Sends a refusal. A window may be gone because its communicator has failed. So the verdict goes first, on the same
 * connection, and the peer reports that one. */
static void refuse(struct tu_remote *r, uint32_t to, const struct tu_memory_frame *refusal) {
  const struct tu_remote_comm *s = tu_remote_find_comm(r, refusal->comm_id);
  struct tu_error error;
  if (s && s->control && !s->deaf && tu_control_verdict(s->control, &error)) {
    const struct tu_frame f = {.comm_id = refusal->comm_id, .kind = TU_FRAME_VERDICT, .code = error.code};
    (void)r->wire->ops->post(r->wire, to, TU_URGENT, &f, error.text, strlen(error.text) + 1);
  }
  (void)r->wire->ops->post(r->wire, to, TU_URGENT, refusal, NULL, 0);
}

void tu_remote_end_memory(struct tu_remote *r, uint32_t from, const void *head, const void *body, size_t bytes) {
  const struct tu_memory_frame f = frame_of(head);
  /* Frames without a body may come on another connection than the rest, in the middle of a frame that has one. */
  void *buffer = bytes > 0 ? r->filling[from].buffer : NULL;
  if (bytes > 0) r->filling[from] = (struct tu_filling){0};
  if (f.what == 0) {
    hear_answer(r, from, &f, bytes);
    return;
  }
  struct tu_memory_answer answer = {.code = TUTTI_ERR_ARGUMENT};
  if (r->server) r->server->carry_out(r->transport, from, &f, body, bytes, &answer);
  free(buffer);
  const struct tu_memory_frame head_of_answer = {.comm_id = f.comm_id,
                                                 .kind = TU_FRAME_MEMORY,
                                                 .code = (uint16_t)answer.code,
                                                 .window = f.window,
                                                 .number = f.number,
                                                 .value = answer.value};
  /* If out of memory, the peer waits until its time-out. */
  if (answer.code != TUTTI_OK) refuse(r, from, &head_of_answer);
  else (void)tu_remote_write(r, from, &head_of_answer, answer.body, answer.bytes, answer.owned);
}

void tu_remote_lose_memory(struct tu_remote *r, uint32_t from) {
  free(r->filling[from].buffer);
  r->filling[from] = (struct tu_filling){0};
}

void tu_remote_free_fillings(struct tu_remote *r) {
  for (uint32_t rank = 0; r->filling && rank < r->hosts.ranks; rank++) free(r->filling[rank].buffer);
  free(r->filling);
}
