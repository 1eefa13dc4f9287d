/* wire_ofi.c: a wire over libfabric. A frame is copied into slots, and out of them.
 *
 * written - credited <= SLOTS: the peer has room for every slot that is written. So writes never wait for each other, and
 * may complete in any order. The peer takes the slots in the order of their numbers. */
#include "fabric/wire_ofi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "transport/frames.h"

enum {
  SLOTS = 16,              /* in a ring; a power of 2 */
  SLOT_BYTES = 64 << 10,   /* with the head */
  CREDITS_DUE = SLOTS / 2, /* a credit is sent when so many slots were taken */
  SOCKETS_NS = 10000,      /* time between two looks at the sockets, in ns */
  NAP_NS = 200000,         /* longest sleep if the fabric has no descriptor, in ns */
  RETRY_NS = 500000,       /* longest sleep if the fabric has refused an operation, in ns */
  ALIGNMENT = 4096         /* of rings */
};

/* ---- what ranks tell each other ---- */

struct slot_head {
  uint32_t number; /* of the slot, from 1 */
  uint32_t bytes;  /* of frames, after the head */
  uint32_t taken;  /* number of slots that the sender has taken itself */
  uint32_t reserved;
};
#define PAYLOAD_BYTES (SLOT_BYTES - sizeof(struct slot_head))

/* The data of a completion: number of a slot that was written, or number of slots that were taken, modulo NUMBERS; whether
 * it is the second; and the rank that sends it. */
#define NUMBERS 256u
#define IS_CREDIT NUMBERS
#define RANK_UNIT (2u * NUMBERS)
_Static_assert(NUMBERS % SLOTS == 0 && NUMBERS >= 4 * SLOTS,
               "a number tells its slot, and is not taken for an old one");

/* Frames over the sockets. */
enum { GREETING = 1, SLOT, CREDIT };
struct own_frame {
  uint64_t reserved;
  uint8_t kind; /* TU_FRAME_OF_WIRE */
  uint8_t what;
  uint16_t refuses; /* of a greeting, 1: this rank cannot use the fabric */
  uint32_t number;  /* of a slot, or of slots that were taken */
  uint64_t unused[3];
};
_Static_assert(sizeof(struct own_frame) == TU_FRAME_HEAD_BYTES, "no padding");
_Static_assert(offsetof(struct own_frame, kind) == TU_FRAME_KIND_AT, "where the mover has it");

/* The body of a greeting: where the sender's ring is. */
struct greeting {
  uint64_t address, key;
  unsigned char name[TU_FABRIC_NAME_BYTES];
};

/* ---- state ---- */

enum state {
  APART,   /* the two ranks have not used the wire */
  GREETED, /* this rank has sent its greeting, and waits for the peer's */
  OPEN,    /* frames go over the fabric */
  DIVERTED /* frames go over the sockets */
};

struct ofi;
struct path;

struct write {
  struct tu_fabric_op op; /* must be the first member */
  struct path *path;
  bool open;
};

/* What this rank has with one other rank. */
struct path {
  struct ofi *ofi;
  struct path *next_waiting;
  uint32_t rank;
  enum state state;
  bool waits; /* in ofi.waiting: something could not be sent yet */
  bool gone;
  tu_fi_addr peer;
  struct greeting there; /* the peer's */
  /* Slots that this rank writes: filled, given to the fabric, and taken by the peer. */
  unsigned char *outgoing;
  struct tu_fabric_region outgoing_region;
  uint32_t written, begun, credited;
  struct write writes[SLOTS], credit;
  struct tu_frames_out out;
  /* Slots that the peer writes. arrived: bit i is slot i of the ring. told: slots of which the peer knows. */
  unsigned char *incoming;
  struct tu_fabric_region incoming_region;
  uint32_t taken, told, arrived;
  bool diverted; /* the peer's slots come over the sockets */
  struct tu_frames_in in;
  bool hears; /* a frame of this wire is partly received over the sockets */
};

struct ofi {
  struct tu_wire wire;
  struct tu_wire_reader reader; /* of the sockets */
  struct tu_wire *sockets;
  struct tu_fabric *fabric;
  uint32_t rank, ranks;
  struct path *waiting; /* list of paths with something that could not be sent */
  uint32_t lost;        /* number of paths that have ended */
  uint32_t seen_losses; /* of the sockets */
  uint64_t sockets_ns;  /* time of the last look at the sockets */
  bool sockets_busy;    /* that look has found something */
  int timer;
  bool is_set;         /* the timer is set */
  bool refused;        /* the fabric has refused an operation for lack of room */
  bool cut;            /* for tests */
  struct path **paths; /* [ranks]; NULL: the rank does not speak the fabric */
};

static struct ofi *ofi_of(struct tu_wire *w) { return (struct ofi *)(void *)w; }
static const struct ofi *const_ofi_of(const struct tu_wire *w) { return (const struct ofi *)(const void *)w; }
static struct ofi *ofi_of_reader(struct tu_wire_reader *r) {
  return (struct ofi *)(void *)((unsigned char *)r - offsetof(struct ofi, reader));
}

static bool has_frames(const struct path *p) { return !tu_frames_is_empty(&p->out) || p->begun != p->written; }

/* Updates the counts that callers read. */
static void count(struct ofi *o) {
  o->wire.unsent = o->sockets->unsent;
  o->wire.losses = o->lost + o->sockets->losses;
  for (const struct path *p = o->waiting; p; p = p->next_waiting) o->wire.unsent += !p->gone && has_frames(p);
}

/* The next looks try again to send what the path has. */
static void try_later(struct path *p) {
  if (p->waits || p->gone) return;
  p->waits = true;
  p->next_waiting = p->ofi->waiting;
  p->ofi->waiting = p;
}

/* The peer is gone. */
static void end_path(struct path *p) {
  if (p->gone) return;
  p->gone = true;
  p->ofi->lost++;
  tu_frames_drop(&p->out);
  tu_frames_lose(&p->in, p->ofi->wire.reader, p->rank);
}

/* ---- over the sockets ---- */

static bool tell(struct path *p, struct own_frame f, const void *body, size_t bytes) {
  f.kind = TU_FRAME_OF_WIRE;
  return p->ofi->sockets->ops->post(p->ofi->sockets, p->rank, TU_IN_ORDER, &f, body, bytes);
}

/* Copies bytes of frames that wait; returns their number. */
static size_t pack(struct tu_frames_out *out, unsigned char *to, size_t room) {
  struct iovec parts[2];
  size_t filled = 0;
  while (filled < room && tu_frames_parts(out, parts) > 0) {
    const size_t bytes = tu_min(parts[0].iov_len, room - filled);
    memcpy(to + filled, parts[0].iov_base, bytes);
    tu_frames_sent(out, bytes);
    filled += bytes;
  }
  return filled;
}

static struct slot_head *slot_at(unsigned char *ring, uint32_t number) {
  return (struct slot_head *)(void *)(ring + (size_t)((number - 1) % SLOTS) * SLOT_BYTES);
}

/* From now on, frames to this rank go over the sockets: first the slots that it may not have, and the frames that wait. The
 * ring stays as it is, because the fabric may still write from it. */
static void divert(struct path *p) {
  if (p->state == DIVERTED || p->gone) return;
  p->state = DIVERTED;
  unsigned char *rest = malloc(PAYLOAD_BYTES);
  bool told = rest != NULL;
  for (uint32_t n = p->credited; n != p->written && told; n++) {
    const struct slot_head *head = slot_at(p->outgoing, n + 1);
    told = tell(p, (struct own_frame){.what = SLOT, .number = n + 1}, head + 1, head->bytes);
  }
  for (size_t bytes; told && (bytes = pack(&p->out, rest, PAYLOAD_BYTES)) > 0;)
    told = tell(p, (struct own_frame){.what = SLOT, .number = ++p->written}, rest, bytes);
  p->begun = p->written;
  free(rest);
  if (!told) end_path(p); /* out of memory */
}

/* ---- slots that leave ---- */

static struct path *path_of(struct tu_fabric_op *op) { return ((struct write *)(void *)op)->path; }

static void end_write(struct tu_fabric_op *op, int error) {
  ((struct write *)(void *)op)->open = false;
  if (error) divert(path_of(op));
}

/* Gives the filled slots to the fabric. Returns false if it does not take all. */
static bool give(struct path *p) {
  struct ofi *o = p->ofi;
  while (p->state == OPEN && p->begun != p->written) {
    const uint32_t number = ++p->begun;
    const struct slot_head *head = slot_at(p->outgoing, number);
    struct write *w = &p->writes[(number - 1) % SLOTS];
    w->open = true;
    if (tu_fabric_write(o->fabric, p->peer, &p->outgoing_region, head, sizeof *head + head->bytes,
                        p->there.address + (uint64_t)((const unsigned char *)head - p->outgoing), p->there.key,
                        o->rank * RANK_UNIT + number % NUMBERS, &w->op))
      continue;
    w->open = false;
    p->begun--;
    o->refused = true;
    return false;
  }
  return true;
}

static bool fill(struct path *p) {
  if (p->written - p->credited >= SLOTS || p->writes[p->written % SLOTS].open) return false;
  struct slot_head *head = slot_at(p->outgoing, p->written + 1);
  const size_t bytes = pack(&p->out, (unsigned char *)(head + 1), PAYLOAD_BYTES);
  if (bytes == 0) return false;
  *head = (struct slot_head){.number = ++p->written, .bytes = (uint32_t)bytes, .taken = p->taken};
  p->told = p->taken;
  return true;
}

/* Sends the frames of the path, as far as possible. Returns true if no frame is left. */
static bool drain(struct path *p) {
  if (p->ofi->cut) return false;
  while (p->state == OPEN && give(p) && fill(p)) continue;
  if (!has_frames(p)) return true;
  try_later(p);
  return false;
}

static void note_credit(struct path *p, uint32_t taken) {
  const uint32_t more = (taken - p->credited) % NUMBERS;
  if (more <= p->begun - p->credited) p->credited += more;
}

/* Tells the peer how many of its slots were taken, if that is due. */
static void send_credit(struct path *p) {
  struct ofi *o = p->ofi;
  if (p->taken - p->told < CREDITS_DUE || p->diverted) return;
  bool told = false;
  if (p->state == DIVERTED) {
    told = tell(p, (struct own_frame){.what = CREDIT, .number = p->taken}, NULL, 0);
  } else if (p->state == OPEN && !p->credit.open) {
    p->credit.open = true;
    told = tu_fabric_write(o->fabric, p->peer, &p->outgoing_region, p->outgoing, 0, p->there.address, p->there.key,
                           o->rank * RANK_UNIT + IS_CREDIT + p->taken % NUMBERS, &p->credit.op);
    if (!told) p->credit.open = false;
  }
  if (told) p->told = p->taken;
  else o->refused = true, try_later(p);
}

/* ---- making a path ---- */

static bool make_rings(struct path *p) {
  struct ofi *o = p->ofi;
  struct tu_error error;
  const size_t bytes = (size_t)SLOTS * SLOT_BYTES;
  p->incoming = aligned_alloc(ALIGNMENT, bytes);
  p->outgoing = aligned_alloc(ALIGNMENT, bytes);
  return p->incoming && p->outgoing &&
         tu_fabric_expose(o->fabric, p->incoming, bytes, TU_FI_REMOTE_WRITE, &p->incoming_region, &error) == TUTTI_OK &&
         tu_fabric_expose(o->fabric, p->outgoing, bytes, TU_FI_WRITE, &p->outgoing_region, &error) == TUTTI_OK;
}

/* Sends this rank's greeting, unless it is sent. */
static void greet(struct path *p) {
  const struct tu_fabric *f = p->ofi->fabric;
  if (p->state != APART || p->gone) return;
  const bool able = make_rings(p);
  struct greeting here = {.address = p->incoming_region.address, .key = p->incoming_region.key};
  memcpy(here.name, f->name, f->name_bytes);
  p->state = GREETED;
  try_later(p);
  if (!tell(p, (struct own_frame){.what = GREETING, .refuses = !able}, &here, sizeof here)) end_path(p);
  else if (!able) divert(p);
}

static void hear_greeting(struct path *p, const struct own_frame *f, const struct greeting *there) {
  greet(p);
  if (p->state != GREETED) return;
  p->there = *there;
  if (f->refuses || !tu_fabric_add(p->ofi->fabric, there->name, &p->peer)) {
    divert(p);
    return;
  }
  p->state = OPEN;
  (void)drain(p);
}

/* ---- slots that arrive ---- */

static void parse(struct path *p, const unsigned char *bytes, size_t count) {
  for (size_t done = 0; done < count && !p->gone;)
    done += tu_frames_take(&p->in, p->ofi->wire.reader, p->rank, bytes + done, count - done);
}

static void take_slots(struct path *p) {
  for (uint32_t bit; bit = 1u << p->taken % SLOTS, p->arrived & bit && !p->gone;) {
    const struct slot_head *head = slot_at(p->incoming, p->taken + 1);
    p->arrived &= ~bit;
    if (head->number != p->taken + 1 || head->bytes > PAYLOAD_BYTES) {
      end_path(p); /* not written by a rank of this job */
      return;
    }
    note_credit(p, head->taken);
    parse(p, (const unsigned char *)(head + 1), head->bytes);
    p->taken++;
    send_credit(p);
  }
}

/* A write of another endpoint has completed. Its data is not to be trusted: a fabric does not know who is in
 * the job. */
static struct path *find(const struct ofi *o, uint32_t data) {
  const uint32_t rank = data / RANK_UNIT;
  struct path *p = rank < o->ranks ? o->paths[rank] : NULL;
  return p && p->incoming && !p->gone ? p : NULL;
}

static void arrived(void *context, uint32_t data) {
  struct path *p = find(context, data);
  const uint32_t number = data % NUMBERS;
  if (!p) return;
  if (data & IS_CREDIT) {
    note_credit(p, number);
    return;
  }
  const uint32_t ahead = (number - p->taken - 1) % NUMBERS;
  if (p->diverted || ahead >= SLOTS) return;
  p->arrived |= 1u << (p->taken + ahead) % SLOTS;
  take_slots(p);
}

static void hear_slot(struct path *p, uint32_t number, const unsigned char *bytes, size_t count) {
  p->diverted = true;
  if (number != p->taken + 1) return; /* it has come over the fabric */
  if (bytes) parse(p, bytes, count);
  else end_path(p); /* out of memory */
  p->taken++;
}

/* ---- the reader of the sockets ---- */

static struct path *path_of_frame(const struct ofi *o, uint32_t from, const void *head) {
  return ((const unsigned char *)head)[TU_FRAME_KIND_AT] == TU_FRAME_OF_WIRE ? o->paths[from] : NULL;
}

static void *reader_begin(struct tu_wire_reader *reader, uint32_t from, const void *head, size_t bytes) {
  struct ofi *o = ofi_of_reader(reader);
  struct path *p = path_of_frame(o, from, head);
  if (!p) return o->wire.reader->begin(o->wire.reader, from, head, bytes);
  p->hears = true;
  return bytes > 0 && bytes <= SLOT_BYTES ? malloc(bytes) : NULL;
}

static void reader_end(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body, size_t bytes) {
  struct ofi *o = ofi_of_reader(reader);
  struct path *p = path_of_frame(o, from, head);
  struct own_frame f;
  if (!p) {
    o->wire.reader->end(o->wire.reader, from, head, body, bytes);
    return;
  }
  memcpy(&f, head, sizeof f);
  p->hears = false;
  if (f.what == GREETING && bytes == sizeof(struct greeting) && body) hear_greeting(p, &f, body);
  else if (f.what == CREDIT) note_credit(p, f.number);
  else if (f.what == SLOT && bytes <= PAYLOAD_BYTES) hear_slot(p, f.number, body, bytes);
  else end_path(p);
  free(body);
}

static void reader_lost(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body) {
  struct ofi *o = ofi_of_reader(reader);
  struct path *p = path_of_frame(o, from, head);
  if (!p) {
    o->wire.reader->lost(o->wire.reader, from, head, body);
    return;
  }
  p->hears = false;
  free(body);
}

/* ---- the wire ---- */

/* Returns the path by which frames for this rank go; NULL: they go over the sockets. */
static struct path *choose(const struct ofi *o, uint32_t rank) {
  struct path *p = o->paths[rank];
  return p && p->state != DIVERTED ? p : NULL;
}

static bool ofi_send(struct tu_wire *w, uint32_t rank, const void *head, const void *body, size_t bytes) {
  struct ofi *o = ofi_of(w);
  struct path *p = choose(o, rank);
  if (p && p->gone) return true;
  if (p) greet(p);
  bool sent = p && p->state == OPEN && drain(p);
  if (sent && p->state == OPEN) {
    tu_frames_begin(&p->out, head, body, bytes);
    (void)drain(p);
  } else if (!choose(o, rank)) {
    sent = o->sockets->ops->send(o->sockets, rank, head, body, bytes);
  }
  count(o);
  return sent;
}

static bool ofi_reads(const struct tu_wire *w, uint32_t rank) {
  const struct ofi *o = const_ofi_of(w);
  const struct path *p = choose(o, rank);
  return p ? tu_frames_reads(&p->out) : o->sockets->ops->reads(o->sockets, rank);
}

static void ofi_detach(struct tu_wire *w, uint32_t rank) {
  struct ofi *o = ofi_of(w);
  struct path *p = choose(o, rank);
  if (p && tu_frames_reads(&p->out) && !tu_frames_detach(&p->out)) end_path(p);
  if (!p) o->sockets->ops->detach(o->sockets, rank);
}

static void ofi_skip(struct tu_wire *w, uint32_t rank) {
  struct ofi *o = ofi_of(w);
  struct path *p = o->paths[rank];
  if (p) p->in.body = NULL;
  if (!p || !p->hears) o->sockets->ops->skip(o->sockets, rank);
}

static bool ofi_post(struct tu_wire *w, uint32_t rank, unsigned how, const void *head, const void *body, size_t bytes) {
  struct ofi *o = ofi_of(w);
  struct path *p = choose(o, rank);
  bool posted = true;
  if (!p || how & TU_URGENT || (how & TU_IF_MET && p->state == APART)) {
    posted = o->sockets->ops->post(o->sockets, rank, how, head, body, bytes);
  } else if (!p->gone) {
    posted = tu_frames_post(&p->out, head, body, bytes);
    greet(p);
    (void)drain(p);
  }
  count(o);
  return posted;
}

/* Tries again to send what could not be sent. */
static void serve_waiting(struct ofi *o) {
  struct path *list = o->waiting;
  o->waiting = NULL;
  o->refused = false;
  while (list) {
    struct path *p = list;
    list = p->next_waiting;
    p->waits = false;
    if (p->state == GREETED && !o->sockets->ops->alive(o->sockets, p->rank)) end_path(p);
    if (p->gone) continue;
    send_credit(p);
    (void)drain(p);
    if (p->state == GREETED) try_later(p);
  }
}

/* Ends the paths to ranks that have ended. What they have written before is taken first. */
static void end_paths(struct ofi *o) {
  if (o->seen_losses == o->sockets->losses) return;
  o->seen_losses = o->sockets->losses;
  while (!o->cut && tu_fabric_look(o->fabric, arrived, o)) continue;
  for (uint32_t r = 0; r < o->ranks; r++)
    if (o->paths[r] && !o->paths[r]->gone && !o->sockets->ops->alive(o->sockets, r)) end_path(o->paths[r]);
}

static void set_timer(struct ofi *o, long ns) {
  const struct itimerspec at = {.it_value.tv_nsec = ns};
  o->is_set = ns > 0;
  (void)timerfd_settime(o->timer, 0, &at, NULL);
}

static bool ofi_look(struct tu_wire *w) {
  struct ofi *o = ofi_of(w);
  if (o->is_set) set_timer(o, 0);
  bool any = !o->cut && tu_fabric_look(o->fabric, arrived, o);
  const uint64_t now = tu_clock_ns();
  if (o->sockets_busy || now - o->sockets_ns >= SOCKETS_NS) {
    o->sockets_busy = o->sockets->ops->look(o->sockets);
    o->sockets_ns = now;
    any |= o->sockets_busy;
    end_paths(o);
  }
  if (o->waiting) serve_waiting(o);
  count(o);
  return any;
}

static void ofi_arm(struct tu_wire *w) {
  struct ofi *o = ofi_of(w);
  if (o->cut) return;
  if (!tu_fabric_arm(o->fabric)) set_timer(o, 1);
  else if (o->fabric->descriptor < 0) set_timer(o, NAP_NS);
  else if (o->refused) set_timer(o, RETRY_NS);
}

static bool ofi_alive(struct tu_wire *w, uint32_t rank) {
  struct ofi *o = ofi_of(w);
  const struct path *p = o->paths[rank];
  const bool alive = o->sockets->ops->alive(o->sockets, rank);
  /* What the rank has written before it has ended is taken by the next look. */
  return p && p->state != APART ? !p->gone : alive;
}

static bool ofi_met(const struct tu_wire *w, uint32_t rank) {
  const struct ofi *o = const_ofi_of(w);
  return o->sockets->ops->met(o->sockets, rank);
}

static void ofi_cut(struct tu_wire *w) {
  struct ofi *o = ofi_of(w);
  o->cut = true;
  o->sockets->ops->cut(o->sockets);
}

/* While the wire closes, only credits are heard. */
static void arrived_late(void *context, uint32_t data) {
  struct path *p = find(context, data);
  if (p && data & IS_CREDIT) note_credit(p, data % NUMBERS);
}

/* What the peers may not have goes over the sockets, because the fabric is closed before they have looked. */
static void ofi_close(struct tu_wire *w, int timeout_ms) {
  struct ofi *o = ofi_of(w);
  if (!o->cut) (void)tu_fabric_look(o->fabric, arrived_late, o);
  for (uint32_t r = 0; o->paths && r < o->ranks && !o->cut; r++)
    if (o->paths[r] && o->paths[r]->state != APART) divert(o->paths[r]);
  tu_fabric_close(o->fabric);
  o->sockets->ops->close(o->sockets, timeout_ms);
  for (uint32_t r = 0; o->paths && r < o->ranks; r++) {
    struct path *p = o->paths[r];
    if (p) tu_frames_drop(&p->out);
    if (p) free(p->incoming), free(p->outgoing);
    free(p);
  }
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
    .look = ofi_look,
    .arm = ofi_arm,
    .alive = ofi_alive,
    .met = ofi_met,
    .cut = ofi_cut,
    .close = ofi_close,
};

/* ---- creating ---- */

static bool watch(const struct ofi *o, int fd) {
  struct epoll_event event = {.events = EPOLLIN};
  return fd < 0 || epoll_ctl(o->wire.descriptor, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool make_paths(struct ofi *o, const bool speaks[]) {
  o->paths = tu_try_allocate(o->ranks, sizeof(struct path *));
  for (uint32_t r = 0; o->paths && r < o->ranks; r++) {
    if (!speaks[r] || r == o->rank) continue;
    struct path *p = o->paths[r] = tu_try_allocate(1, sizeof *p);
    if (!p) return false;
    *p = (struct path){.ofi = o, .rank = r};
    p->credit = (struct write){.op = {.done = end_write}, .path = p};
    for (int i = 0; i < SLOTS; i++) p->writes[i] = p->credit;
  }
  return o->paths != NULL;
}

tutti_err tu_wire_ofi(uint32_t rank, uint32_t ranks, const bool speaks[], struct tu_fabric *fabric,
                      struct tu_wire *sockets, struct tu_wire **wire, struct tu_error *error) {
  struct ofi *o = tu_try_allocate(1, sizeof *o);
  if (!o) {
    tu_fabric_close(fabric);
    sockets->ops->close(sockets, 0);
    return tu_fail_memory(error, sizeof *o, "the connections to the other hosts of %u ranks", ranks);
  }
  *o = (struct ofi){.wire = {.ops = &ofi_ops, .host = sockets->host, .descriptor = epoll_create1(EPOLL_CLOEXEC)},
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
    tu_fail_memory(error, ranks * sizeof(struct path), "the connections to the other hosts of %u ranks", ranks);
  ofi_close(&o->wire, 0);
  return error->code;
}
