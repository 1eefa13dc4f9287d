/* wire_ofi.c: a wire over libfabric: its functions, and how it looks at the fabric and at the sockets. */
#include "fabric/wire_ofi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fabric/ofi.h"

enum {
  SOCKETS_NS = 10000, /* time between two looks at the sockets, in ns */
  NAP_NS = 200000,    /* longest sleep if the fabric has no descriptor, in ns */
  RETRY_NS = 500000,  /* longest sleep if the fabric has refused an operation, in ns */
};

static const struct tu_ofi *const_ofi_of(const struct tu_wire *w) { return (const struct tu_ofi *)(const void *)w; }
static struct tu_ofi *ofi_of_reader(struct tu_wire_reader *r) {
  return (struct tu_ofi *)(void *)((unsigned char *)r - offsetof(struct tu_ofi, reader));
}

/* Updates the counts that callers read. */
static void count(struct tu_ofi *o) {
  o->wire.unsent = o->sockets->unsent;
  o->wire.losses = o->lost + o->sockets->losses;
  for (const struct tu_ofi_path *p = o->waiting; p; p = p->next_waiting)
    o->wire.unsent += !p->gone && tu_ofi_has_frames(p);
}

/* ---- the reader of the sockets ---- */

static struct tu_ofi_path *path_of_frame(const struct tu_ofi *o, uint32_t from, const void *head) {
  return ((const unsigned char *)head)[TU_FRAME_KIND_AT] == TU_FRAME_OF_WIRE ? o->paths[from] : NULL;
}

static void *reader_begin(struct tu_wire_reader *reader, uint32_t from, const void *head, size_t bytes) {
  struct tu_ofi *o = ofi_of_reader(reader);
  struct tu_ofi_path *p = path_of_frame(o, from, head);
  if (!p) return o->wire.reader->begin(o->wire.reader, from, head, bytes);
  p->hears = true;
  return bytes > 0 && bytes <= TU_OFI_SLOT_BYTES ? malloc(bytes) : NULL;
}

static void reader_end(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body, size_t bytes) {
  struct tu_ofi *o = ofi_of_reader(reader);
  struct tu_ofi_path *p = path_of_frame(o, from, head);
  struct tu_ofi_frame f;
  if (!p) {
    o->wire.reader->end(o->wire.reader, from, head, body, bytes);
    return;
  }
  memcpy(&f, head, sizeof f);
  p->hears = false;
  tu_ofi_hear(p, &f, body, bytes);
  free(body);
}

static void reader_lost(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body) {
  struct tu_ofi *o = ofi_of_reader(reader);
  struct tu_ofi_path *p = path_of_frame(o, from, head);
  if (!p) {
    o->wire.reader->lost(o->wire.reader, from, head, body);
    return;
  }
  p->hears = false;
  free(body);
}

/* ---- the wire ---- */

/* Returns the path by which frames for this rank go; NULL: they go over the sockets. */
static struct tu_ofi_path *choose(const struct tu_ofi *o, uint32_t rank) {
  struct tu_ofi_path *p = o->paths[rank];
  return p && p->state != TU_OFI_DIVERTED ? p : NULL;
}

static bool ofi_send(struct tu_wire *w, uint32_t rank, const void *head, const void *body, size_t bytes) {
  struct tu_ofi *o = tu_ofi_of(w);
  struct tu_ofi_path *p = choose(o, rank);
  if (p && p->gone) return true;
  if (p) tu_ofi_greet(p);
  bool sent = p && p->state == TU_OFI_OPEN && tu_ofi_drain(p);
  if (sent && p->state == TU_OFI_OPEN) {
    tu_frames_begin(&p->out, head, body, bytes);
    (void)tu_ofi_drain(p);
  } else if (!choose(o, rank)) {
    sent = o->sockets->ops->send(o->sockets, rank, head, body, bytes);
  }
  count(o);
  return sent;
}

static bool ofi_reads(const struct tu_wire *w, uint32_t rank) {
  const struct tu_ofi *o = const_ofi_of(w);
  const struct tu_ofi_path *p = choose(o, rank);
  return p ? tu_frames_reads(&p->out) : o->sockets->ops->reads(o->sockets, rank);
}

static void ofi_detach(struct tu_wire *w, uint32_t rank) {
  struct tu_ofi *o = tu_ofi_of(w);
  struct tu_ofi_path *p = choose(o, rank);
  if (p && tu_frames_reads(&p->out) && !tu_frames_detach(&p->out)) tu_ofi_end_path(p);
  if (!p) o->sockets->ops->detach(o->sockets, rank);
}

static void ofi_skip(struct tu_wire *w, uint32_t rank) {
  struct tu_ofi *o = tu_ofi_of(w);
  struct tu_ofi_path *p = o->paths[rank];
  if (p) p->in.body = NULL;
  if (!p || !p->hears) o->sockets->ops->skip(o->sockets, rank);
}

/* Frames that go over the fabric are not gathered. */
static void ofi_gather(struct tu_wire *w, bool begins) {
  struct tu_ofi *o = tu_ofi_of(w);
  o->sockets->ops->gather(o->sockets, begins);
  if (!begins) count(o);
}

static bool ofi_post(struct tu_wire *w, uint32_t rank, unsigned how, const void *head, const void *body, size_t bytes) {
  struct tu_ofi *o = tu_ofi_of(w);
  struct tu_ofi_path *p = choose(o, rank);
  bool posted = true;
  if (!p || how & TU_URGENT || (how & TU_IF_MET && p->state == TU_OFI_APART)) {
    posted = o->sockets->ops->post(o->sockets, rank, how, head, body, bytes);
  } else if (!p->gone) {
    posted = tu_frames_post(&p->out, head, body, bytes);
    tu_ofi_greet(p);
    (void)tu_ofi_drain(p);
  }
  count(o);
  return posted;
}

static bool uses_fabric(const struct tu_ofi *o) { return o->fabric && !o->cut; }

/* Tries again to send what could not be sent. */
static void serve_waiting(struct tu_ofi *o) {
  struct tu_ofi_path *list = o->waiting;
  o->waiting = NULL;
  o->refused = false;
  while (list) {
    struct tu_ofi_path *p = list;
    list = p->next_waiting;
    p->waits = false;
    if (p->state == TU_OFI_GREETED && !o->sockets->ops->alive(o->sockets, p->rank)) tu_ofi_end_path(p);
    if (p->gone) continue;
    tu_ofi_send_credit(p);
    (void)tu_ofi_drain(p);
    if (p->state == TU_OFI_GREETED) tu_ofi_try_later(p);
  }
}

/* Ends the paths to ranks that have ended. What they have written before is taken first. */
static void end_paths(struct tu_ofi *o) {
  if (o->seen_losses == o->sockets->losses) return;
  o->seen_losses = o->sockets->losses;
  while (uses_fabric(o) && tu_fabric_look(o->fabric, tu_ofi_arrived, o)) continue;
  for (uint32_t r = 0; r < o->ranks; r++)
    if (o->paths[r] && !o->paths[r]->gone && !o->sockets->ops->alive(o->sockets, r)) tu_ofi_end_path(o->paths[r]);
}

static void set_timer(struct tu_ofi *o, long ns) {
  const struct itimerspec at = {.it_value.tv_nsec = ns};
  o->is_set = ns > 0;
  (void)timerfd_settime(o->timer, 0, &at, NULL);
}

static bool ofi_look(struct tu_wire *w) {
  struct tu_ofi *o = tu_ofi_of(w);
  if (o->is_set) set_timer(o, 0);
  bool any = uses_fabric(o) && tu_fabric_look(o->fabric, tu_ofi_arrived, o);
  const uint64_t now = tu_clock_ns();
  if (o->sockets_busy || now - o->sockets_ns >= SOCKETS_NS) {
    o->sockets_busy = o->sockets->ops->look(o->sockets);
    o->sockets_ns = now;
    any |= o->sockets_busy;
    end_paths(o);
  }
  if (o->waiting) serve_waiting(o);
  if (o->transfers) tu_ofi_serve_transfers(o);
  count(o);
  return any;
}

static void ofi_arm(struct tu_wire *w) {
  struct tu_ofi *o = tu_ofi_of(w);
  if (!uses_fabric(o)) return;
  if (!tu_fabric_arm(o->fabric)) set_timer(o, 1);
  else if (o->fabric->descriptor < 0) set_timer(o, NAP_NS);
  else if (o->refused || tu_fabric_lacks_receives(o->fabric)) set_timer(o, RETRY_NS);
}

static bool ofi_alive(struct tu_wire *w, uint32_t rank) {
  struct tu_ofi *o = tu_ofi_of(w);
  const struct tu_ofi_path *p = o->paths[rank];
  const bool alive = o->sockets->ops->alive(o->sockets, rank);
  /* What the rank has written before it has ended is taken by the next look. */
  return p && p->state != TU_OFI_APART ? !p->gone : alive;
}

static bool ofi_met(const struct tu_wire *w, uint32_t rank) {
  const struct tu_ofi *o = const_ofi_of(w);
  return o->sockets->ops->met(o->sockets, rank);
}

static bool ofi_fabric(const struct tu_wire *w, uint32_t rank, char *text, size_t text_bytes) {
  const struct tu_ofi *o = const_ofi_of(w);
  const struct tu_ofi_path *p = o->paths[rank];
  if (!p || p->state != TU_OFI_OPEN || p->diverted) return false;
  const struct tu_fi_info *info = o->fabric->info;
  snprintf(text, text_bytes, "%s/%s", info->fabric_attr->prov_name, info->domain_attr->name);
  return true;
}

static void ofi_cut(struct tu_wire *w) {
  struct tu_ofi *o = tu_ofi_of(w);
  o->cut = true;
  o->sockets->ops->cut(o->sockets);
}

/* What the peers may not have goes over the sockets, because the fabric is closed before they have looked. */
static void ofi_close(struct tu_wire *w, int timeout_ms) {
  struct tu_ofi *o = tu_ofi_of(w);
  if (uses_fabric(o)) (void)tu_fabric_look(o->fabric, tu_ofi_arrived_late, o);
  for (uint32_t r = 0; o->paths && r < o->ranks && !o->cut; r++)
    if (o->paths[r] && o->paths[r]->state != TU_OFI_APART) tu_ofi_divert(o->paths[r]);
  tu_fabric_close(o->fabric);
  o->sockets->ops->close(o->sockets, timeout_ms);
  for (uint32_t r = 0; o->paths && r < o->ranks; r++)
    if (o->paths[r]) tu_ofi_free_path(o->paths[r]);
  free(o->paths);
  if (o->timer >= 0) close(o->timer);
  if (w->descriptor >= 0) close(w->descriptor);
  free(o);
}

static const struct tu_wire_ops ofi_ops = {
    .name = "ofi",
    .send = ofi_send,
    .reads = ofi_reads,
    .detach = ofi_detach,
    .skip = ofi_skip,
    .post = ofi_post,
    .gather = ofi_gather,
    .look = ofi_look,
    .arm = ofi_arm,
    .alive = ofi_alive,
    .met = ofi_met,
    .fabric = ofi_fabric,
    .cut = ofi_cut,
    .close = ofi_close,
    .expose = tu_ofi_expose,
    .conceal = tu_ofi_conceal,
    .transfer = tu_ofi_transfer,
    .recall = tu_ofi_recall,
};

/* ---- creating ---- */

static bool watch(const struct tu_ofi *o, int fd) {
  struct epoll_event event = {.events = EPOLLIN};
  return fd < 0 || epoll_ctl(o->wire.descriptor, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool make_paths(struct tu_ofi *o, const bool speaks[]) {
  o->paths = tu_try_allocate(o->ranks, sizeof(struct tu_ofi_path *));
  for (uint32_t r = 0; o->paths && r < o->ranks; r++) {
    if (!speaks[r] || r == o->rank) continue;
    if (!(o->paths[r] = tu_ofi_make_path(o, r))) return false;
  }
  return o->paths != NULL;
}

tutti_err tu_wire_ofi(uint32_t rank, uint32_t ranks, const bool speaks[], struct tu_fabric *fabric,
                      struct tu_wire *sockets, struct tu_wire **wire, struct tu_error *error) {
  struct tu_ofi *o = tu_try_allocate(1, sizeof *o);
  if (!o) {
    tu_fabric_close(fabric);
    sockets->ops->close(sockets, 0);
    return tu_fail_memory(error, sizeof *o, "the connections to the other hosts of %u ranks", ranks);
  }
  *o = (struct tu_ofi){.wire = {.ops = &ofi_ops, .host = sockets->host, .descriptor = epoll_create1(EPOLL_CLOEXEC)},
                       .reader = {reader_begin, reader_end, reader_lost},
                       .sockets = sockets,
                       .fabric = fabric,
                       .rank = rank,
                       .ranks = ranks,
                       .timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  sockets->reader = &o->reader;
  const bool watched = o->wire.descriptor >= 0 && o->timer >= 0 && watch(o, sockets->descriptor) &&
                       watch(o, fabric->descriptor) && watch(o, o->timer);
  if (!watched) tu_fail_errno(error, "epoll failed for the connections to the other hosts of %u ranks", ranks);
  if (watched && make_paths(o, speaks)) {
    *wire = &o->wire;
    return TUTTI_OK;
  }
  if (watched)
    tu_fail_memory(error, ranks * sizeof(struct tu_ofi_path), "the connections to the other hosts of %u ranks", ranks);
  ofi_close(&o->wire, 0);
  return error->code;
}
