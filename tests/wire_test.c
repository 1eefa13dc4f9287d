/* test: fast waits timeout=180 */
/* wire_test.c: the wires between hosts, alone: two ends in one process exchange frames, close, and break off. Each test
 * runs for each kind of wire. The test fake_fabric runs them over a provider that fails in many ways; TEST_SEED repeats
 * one of its runs. */
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/wire_ofi.h"
#include "fake_fabric.h"
#include "ranks.h"
#include "ready_dialer.h"
#include "reference.h"
#include "test.h"
#include "transport/wire.h"

enum { PATIENCE_MS = 60000, NARROW = 4096, NARROW_TCP = 64 << 10, PATTERN = 251, BODY_MAX = 1 << 20 };

#ifdef __SANITIZE_ADDRESS__
/* libfabric 1.17 sometimes leaves a connection behind that a peer was about to make when the endpoint was closed. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libfabric.so\n"; }
#endif

static unsigned char pattern[BODY_MAX + PATTERN]; /* bodies of frames are parts of this pattern */

static const size_t body_sizes[] = {0, 1, 87, 4096, BODY_MAX};

/* One end of a connection. */
struct wire_end {
  struct tu_wire_reader reader; /* must be the first member */
  struct tu_wire *wire;
  struct wire_end *other;
  uint32_t rank;
  uint64_t seed;             /* seed of the frames that this end sends */
  uint32_t sent, came, lost; /* numbers of frames */
  uint32_t begun;            /* number of frames whose heads have arrived */
  unsigned char *lent;       /* the body of the last frame that was sent, if the wire may still read it */
  unsigned char *body;       /* buffer for the body of the current frame */
  bool fails;                /* a failure was printed already */
  bool slow;                 /* it waits between two looks */
  unsigned char name[TU_FABRIC_NAME_BYTES]; /* of its endpoint */
  size_t name_bytes;                        /* 0: there is none */
};

/* Head of a frame. The second field is not that of a frame of wires (TU_FRAME_OF_WIRE). */
struct wire_head {
  uint64_t seed, body_bytes, at;
  unsigned char rest[TU_FRAME_HEAD_BYTES - 24];
};
_Static_assert(sizeof(struct wire_head) == TU_FRAME_HEAD_BYTES, "no padding");

static uint64_t frame_number(uint64_t seed, uint32_t at) { return ref_hash(seed, at, 3, 3); }

static size_t body_bytes_of(uint64_t seed, uint32_t at) {
  uint64_t number = frame_number(seed, at);
  if (number % 16 == 0) return body_sizes[4];
  return body_sizes[number / 16 % 4];
}

static struct wire_head head_of(uint64_t seed, uint32_t at) {
  struct wire_head head = {.seed = seed, .at = at, .body_bytes = body_bytes_of(seed, at)};
  for (size_t i = 0; i < sizeof head.rest; i++) head.rest[i] = (unsigned char)(frame_number(seed, at) >> (i % 8 * 8));
  return head;
}

static const unsigned char *body_of(uint64_t seed, uint32_t at) { return pattern + frame_number(seed, at) % PATTERN; }

/* Returns true if the receiver does not want the body of this frame. */
static bool passes_over(uint64_t seed, uint32_t at) { return frame_number(seed, at) >> 60 == 0; }

static bool is_expected(struct wire_end *end, uint32_t from, const void *head, uint32_t at) {
  const struct wire_head wanted = head_of(end->other->seed, at);
  if (from == end->other->rank && memcmp(head, &wanted, sizeof wanted) == 0) return true;
  if (!end->fails) FAIL("frame %u, from rank %u, differs from the sent one", at, from);
  end->fails = true;
  return false;
}

static void *wire_begin(struct tu_wire_reader *reader, uint32_t from, const void *head, size_t body_bytes) {
  struct wire_end *end = (struct wire_end *)(void *)reader;
  const uint32_t at = end->begun++;
  if (!is_expected(end, from, head, at)) return NULL;
  if (body_bytes != body_bytes_of(end->other->seed, at)) FAIL("frame %u has %zu bytes", at, body_bytes);
  if (passes_over(end->other->seed, at)) return NULL;
  memset(end->body, 0xa5, body_bytes);
  return end->body;
}

static void wire_ends(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body, size_t body_bytes) {
  struct wire_end *end = (struct wire_end *)(void *)reader;
  const uint32_t at = end->came++;
  if (end->begun != end->came) FAIL("frame %u ended, but %u have begun", at, end->begun);
  if (!is_expected(end, from, head, at)) return;
  if (passes_over(end->other->seed, at)) CHECK(!body, "frame %u has a body that was not wanted", at);
  else CHECK(body == end->body && memcmp(body, body_of(end->other->seed, at), body_bytes) == 0, "frame %u differs", at);
}

static void wire_loses(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body) {
  struct wire_end *end = (struct wire_end *)(void *)reader;
  is_expected(end, from, head, end->came);
  if (!passes_over(end->other->seed, end->came)) CHECK(body == end->body, "a lost frame has a wrong body buffer");
  end->lost++;
}

/* ---- kinds of wires ---- */

enum kind { SOCKET_PAIR, TCP, FABRIC, FAKE, KINDS };
static const char *const kind_names[KINDS] = {"socket pair", "tcp", "libfabric's tcp", "fake fabric"};
/* Numbers of frames that an end exchanges, and posts before it closes. */
static const uint32_t exchanged[KINDS] = {400, 400, 400, 40}, posted[KINDS] = {60, 60, 60, 30};

static void make_pair(bool tcp, int pair[2]) {
  const int narrow = tcp ? NARROW_TCP : NARROW, no_delay = 1;
  if (!tcp && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) abort();
  if (tcp) {
    uint16_t port;
    int door = ranks_bind(&port);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listen(door, 1) != 0 || connect(pair[0], (struct sockaddr *)&address, sizeof address) != 0 ||
        (pair[1] = accept4(door, NULL, NULL, SOCK_CLOEXEC)) < 0)
      abort();
    close(door);
  }
  for (int i = 0; i < 2; i++) {
    if (setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &narrow, sizeof narrow) != 0 ||
        setsockopt(pair[i], SOL_SOCKET, SO_RCVBUF, &narrow, sizeof narrow) != 0)
      abort();
    if (tcp) (void)setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
  }
}

static struct tu_fabric *open_fabric(const struct tu_fabric_library *library, const char *provider) {
  const struct tu_fabric_wish wish = {.how = TU_FABRIC_NAMED};
  const struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct tu_fabric *fabric = NULL;
  struct tu_error error;
  struct tu_fi_info *list = tu_fabric_list(library, provider, NULL);
  const struct tu_fi_info *info = tu_fabric_choose(list, &wish, (const struct sockaddr *)&own);
  if (!info) abort();
  if (tu_fabric_open(library, info, &fabric, &error) != TUTTI_OK && library != &fake_fabric) {
    printf("%s\n", error.text);
    abort();
  }
  library->freeinfo(list);
  return fabric;
}

/* Puts wires over libfabric above those over sockets, unless the fake provider refuses. */
static void add_fabrics(struct wire_end ends[2], enum kind kind) {
  static const bool speaks[2] = {true, true};
  const struct tu_fabric_library *library = &fake_fabric;
  struct tu_fabric *fabrics[2];
  struct tu_error error;
  if (kind == FABRIC && tu_fabric_load(&library, &error) != TUTTI_OK) abort();
  for (int i = 0; i < 2; i++) fabrics[i] = open_fabric(library, kind == FAKE ? "fake" : "tcp");
  const bool both = fabrics[0] && fabrics[1];
  for (uint32_t i = 0; i < 2; i++) {
    struct wire_end *end = &ends[i];
    if (!both) {
      tu_fabric_close(fabrics[i]);
      continue;
    }
    memcpy(end->name, fabrics[i]->name, fabrics[i]->name_bytes);
    end->name_bytes = fabrics[i]->name_bytes;
    if (tu_wire_ofi(i, 2, speaks, fabrics[i], end->wire, &end->wire, &error) != TUTTI_OK) abort();
  }
}

/* End i is rank i. */
static void begin_wires(struct wire_end ends[2], enum kind kind, uint64_t seed) {
  int pair[2];
  make_pair(kind != SOCKET_PAIR, pair);
  for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = (unsigned char)(i % PATTERN * 5 + (i >> 9));
  for (int i = 0; i < 2; i++) {
    struct tu_error error;
    const int sockets[2] = {i == 0 ? -1 : pair[i], i == 0 ? pair[i] : -1};
    ends[i] = (struct wire_end){.reader = {wire_begin, wire_ends, wire_loses},
                                .other = &ends[1 - i],
                                .rank = (uint32_t)i,
                                .slow = kind != FAKE,
                                .seed = seed + (uint64_t)i};
    if (tu_wire_sockets(2, ready_dialer(2, sockets, NULL, NULL), &ends[i].wire, &error) != TUTTI_OK) abort();
    if (!(ends[i].body = malloc(BODY_MAX))) abort();
  }
  if (kind >= FABRIC) add_fabrics(ends, kind);
  for (int i = 0; i < 2; i++) ends[i].wire->reader = &ends[i].reader;
}

static void end_wires(struct wire_end ends[2]) {
  for (int i = 0; i < 2; i++) {
    if (ends[i].wire) ends[i].wire->ops->close(ends[i].wire, 0);
    free(ends[i].body);
    free(ends[i].lent);
  }
}

/* ---- tests, which run for each kind ---- */

/* Writes other bytes into the body of the last frame that was sent, if the wire does not read it any more. */
static void take_back(struct wire_end *end, bool detach) {
  const struct tu_wire_ops *ops = end->wire->ops;
  if (detach) ops->detach(end->wire, end->other->rank);
  CHECK(!detach || !ops->reads(end->wire, end->other->rank), "the wire reads a body that it has copied");
  if (!end->lent || ops->reads(end->wire, end->other->rank)) return;
  memset(end->lent, 0x5a, body_bytes_of(end->seed, end->sent - 1));
  free(end->lent);
  end->lent = NULL;
}

static bool give(struct wire_end *end, bool posts) {
  const struct wire_head head = head_of(end->seed, end->sent);
  const struct tu_wire_ops *ops = end->wire->ops;
  take_back(end, posts);
  unsigned char *body = end->lent ? NULL : malloc(head.body_bytes + 1);
  if (!body) return false;
  memcpy(body, body_of(end->seed, end->sent), head.body_bytes);
  bool given = posts ? ops->post(end->wire, end->other->rank, TU_IN_ORDER, &head, body, head.body_bytes)
                     : ops->send(end->wire, end->other->rank, &head, body, head.body_bytes);
  CHECK(given || !posts, "a frame could not be posted");
  end->sent += given;
  if (given && !posts) end->lent = body;
  else free(body);
  return given;
}

/* Gives one frame, or several that the wire may gather. Returns false if it takes none. */
static bool give_some(struct wire_end *end, uint32_t most, uint64_t *state) {
  if (ranks_random(state) % 4 > 0) return give(end, ranks_random(state) % 2);
  bool any = false;
  end->wire->ops->gather(end->wire, true);
  for (uint32_t left = (uint32_t)(ranks_random(state) % 40); left > 0 && end->sent < most; left--)
    any |= give(end, ranks_random(state) % 2);
  end->wire->ops->gather(end->wire, false);
  return any;
}

/* Waits until a descriptor of the wires is readable, which must happen soon as frames are on their way. */
static bool wait_for_wires(struct wire_end ends[2]) {
  struct pollfd descriptors[2] = {{.events = POLLIN}, {.events = POLLIN}};
  for (int i = 0; i < 2; i++) {
    const struct tu_wire *w = ends[i].wire;
    descriptors[i].fd = w ? w->descriptor : -1;
    if (w && w->ops->arm) w->ops->arm(ends[i].wire);
  }
  if (poll(descriptors, 2, PATIENCE_MS) > 0) return true;
  FAIL("%u of %u and %u of %u frames arrived, but no descriptor is readable", ends[0].came, ends[1].sent, ends[1].came,
       ends[0].sent);
  return false;
}

static void look_at_both(struct wire_end ends[2]) {
  for (int i = 0; i < 2; i++) (void)ends[i].wire->ops->look(ends[i].wire);
}

static void both_ways(enum kind kind, uint64_t seed) {
  const uint32_t frames = exchanged[kind];
  struct wire_end ends[2];
  uint64_t state = seed;
  uint32_t idle = 0;
  begin_wires(ends, kind, ranks_random(&state));
  while (ends[0].came < frames || ends[1].came < frames) {
    struct wire_end *end = &ends[ranks_random(&state) % 2];
    bool moved = ranks_random(&state) % 2 && end->sent < frames && give_some(end, frames, &state);
    if (ranks_random(&state) % 2) moved |= end->wire->ops->look(end->wire);
    take_back(end, ranks_random(&state) % 8 == 0);
    idle = moved ? 0 : idle + 1;
    if (ends[0].fails || ends[1].fails) break;
    if (idle < 100 || ends[0].sent + ends[1].sent < 2 * frames) continue;
    if (!wait_for_wires(ends)) break;
    idle = 0;
  }
  for (int i = 0; i < 2; i++) {
    CHECK(ends[i].came == frames && ends[i].lost == 0, "end %d: %u frames arrived, %u were lost", i, ends[i].came,
          ends[i].lost);
    CHECK(ends[i].wire->ops->alive(ends[i].wire, ends[i].other->rank), "end %d: the other end counts as closed", i);
  }
  end_wires(ends);
}

/* Short frames that are gathered leave together, when the gathering ends. */
static void test_gathered(void) {
  enum { FRAMES = 5, SHORT = 1000 };
  struct wire_end ends[2];
  uint64_t state = test_seed(), seed;
  bool all_short;
  do {
    seed = ranks_random(&state);
    all_short = true;
    for (uint32_t i = 0; i < FRAMES; i++) all_short &= body_bytes_of(seed, i) <= SHORT;
  } while (!all_short);
  begin_wires(ends, SOCKET_PAIR, seed);
  const struct tu_wire_ops *ops = ends[0].wire->ops;
  ops->gather(ends[0].wire, true);
  for (uint32_t i = 0; i < FRAMES; i++) CHECK(give(&ends[0], i % 2), "short frame %u is not taken", i);
  (void)ends[1].wire->ops->look(ends[1].wire);
  CHECK(ends[1].begun == 0, "%u frames have left before the gathering has ended", ends[1].begun);
  ops->gather(ends[0].wire, false);
  (void)ends[1].wire->ops->look(ends[1].wire);
  CHECK(ends[1].came == FRAMES, "%u of %u frames have left", ends[1].came, FRAMES);
  end_wires(ends);
}

static void *close_wire(void *argument) {
  struct wire_end *end = argument;
  end->wire->ops->close(end->wire, PATIENCE_MS);
  end->wire = NULL;
  return NULL;
}

/* Reads frames until the other end has closed, slowly, so that the sockets are full when it closes. */
static void look_to_the_end(struct wire_end *end) {
  const uint64_t until = ranks_now_ms() + PATIENCE_MS;
  while (end->wire->ops->alive(end->wire, end->other->rank) && ranks_now_ms() < until && !end->fails) {
    struct pollfd descriptor = {.fd = end->wire->descriptor, .events = POLLIN};
    if (end->wire->ops->arm) end->wire->ops->arm(end->wire);
    (void)poll(&descriptor, 1, 1000);
    (void)end->wire->ops->look(end->wire);
    if (end->slow) ranks_sleep_us(500);
  }
  CHECK(!end->wire->ops->alive(end->wire, end->other->rank), "the other end has closed, but counts as alive");
  CHECK(end->wire->ops->send(end->wire, end->other->rank, pattern, NULL, 0) &&
            end->wire->ops->post(end->wire, end->other->rank, TU_IN_ORDER, pattern, NULL, 0),
        "a send to a closed end is not ignored");
}

/* One end posts frames and closes, while it has not read all frames of the other end. */
static void close_behind(enum kind kind, uint64_t seed, uint32_t unread) {
  struct wire_end ends[2];
  pthread_t closer;
  uint64_t state = seed;
  begin_wires(ends, kind, ranks_random(&state));
  for (uint32_t i = 0; i < unread; i++) give(&ends[1], true);
  for (uint32_t i = 0; i < posted[kind]; i++) give(&ends[0], true);
  if (pthread_create(&closer, NULL, close_wire, &ends[0]) != 0) abort();
  look_to_the_end(&ends[1]);
  pthread_join(closer, NULL);
  CHECK(ends[1].came == posted[kind] && ends[1].lost == 0, "%u of %u frames arrived, %u were lost", ends[1].came,
        posted[kind], ends[1].lost);
  end_wires(ends);
}

static void one_closes(enum kind kind, uint64_t seed) { close_behind(kind, seed, 0); }
static void one_closes_with_frames_unread(enum kind kind, uint64_t seed) { close_behind(kind, seed, 9); }

/* Both ends have more to send than the sockets take, and close. Each must read while it sends. */
static void both_close(enum kind kind, uint64_t seed) {
  struct wire_end ends[2];
  pthread_t closer;
  uint64_t state = seed;
  begin_wires(ends, kind, ranks_random(&state));
  for (uint32_t i = 0; i < 2 * posted[kind]; i++) give(&ends[i % 2], true);
  const uint64_t begun = ranks_now_ms();
  if (pthread_create(&closer, NULL, close_wire, &ends[0]) != 0) abort();
  close_wire(&ends[1]);
  pthread_join(closer, NULL);
  CHECK(ranks_now_ms() - begun < PATIENCE_MS, "two ends that close waited for each other");
  end_wires(ends);
}

/* One end closes in the middle of a frame. */
static void break_off(enum kind kind, uint64_t seed, bool cut) {
  struct wire_end ends[2];
  while (body_bytes_of(seed, 0) < BODY_MAX) seed++;
  begin_wires(ends, kind, seed);
  give(&ends[0], true);
  /* Over a fabric, frames begin when both ends have greeted each other. The other end has not room for the whole frame. */
  while (kind >= FABRIC && ends[1].begun == 0 && wait_for_wires(ends)) look_at_both(ends);
  if (cut) ends[0].wire->ops->cut(ends[0].wire);
  else ends[0].wire->ops->close(ends[0].wire, 0);
  if (!cut) ends[0].wire = NULL;
  look_to_the_end(&ends[1]);
  /* The fake fabric may have carried all of the frame but a slot, which the sockets take when the wire closes. */
  const uint32_t came = kind == FAKE && !cut ? ends[1].came : 0;
  CHECK(ends[1].begun == 1 && ends[1].came == came && ends[1].came + ends[1].lost == 1,
        "%u frames began, %u arrived, %u were lost", ends[1].begun, ends[1].came, ends[1].lost);
  if (cut) look_to_the_end(&ends[0]);
  end_wires(ends);
}

static void one_is_cut(enum kind kind, uint64_t seed) { break_off(kind, seed, true); }
static void one_closes_in_a_frame(enum kind kind, uint64_t seed) { break_off(kind, seed, false); }

/* One end closes while the second one receives frames of the first one. */
static void one_closes_within(enum kind kind, uint64_t seed) {
  struct wire_end ends[2];
  uint64_t state = seed;
  begin_wires(ends, kind, ranks_random(&state));
  for (uint32_t i = 0; i < posted[kind]; i++) give(&ends[0], true);
  while (ends[1].came == 0 && wait_for_wires(ends)) look_at_both(ends);
  for (uint64_t looks = ranks_random(&state) % 30; looks > 0; looks--) {
    struct wire_end *end = &ends[ranks_random(&state) % 2];
    (void)end->wire->ops->look(end->wire);
  }
  struct wire_end *closes = &ends[ranks_random(&state) % 2];
  closes->wire->ops->close(closes->wire, 0);
  closes->wire = NULL;
  look_to_the_end(closes->other);
  end_wires(ends);
}

/* ---- direct access to memory ---- */

enum { PLACES = 8, PLACE_BYTES = 9000, SPOILED = 0x77 };

/* A place in the memory of each end, for one transfer at a time. */
struct place {
  struct tu_wire_transfer transfer;
  unsigned char *here, *there;
  bool open;    /* the transfer is not done */
  bool spoiled; /* a transfer has failed or was recalled. The memory of this end must not change any more. */
};

/* What one end does with the memory of the other one. */
struct visitor {
  struct wire_end *end;
  struct tu_wire_memory own, *others;
  unsigned char memory[PLACES * PLACE_BYTES]; /* exposed */
  unsigned char waste[PLACES * PLACE_BYTES];  /* not exposed */
  struct place places[PLACES];
  uint32_t carried_out;
};

static void spoil(struct place *p) {
  p->open = false;
  p->spoiled = true;
  memset(p->here, SPOILED, p->transfer.bytes);
}

static void transfer_ends(struct tu_wire_transfer *t, bool carried_out) {
  struct place *p = (struct place *)(void *)t;
  struct visitor *v = t->context;
  CHECK(p->open, "a transfer ends twice");
  p->open = false;
  v->carried_out += carried_out;
  if (carried_out) CHECK(memcmp(p->here, p->there, t->bytes) == 0, "a transfer of %zu bytes is not complete", t->bytes);
  else spoil(p);
}

/* Begins a transfer in a place that is free. */
static void visit(struct visitor *v, struct visitor *other, uint64_t *state) {
  const size_t at = ranks_random(state) % PLACES, first = at * PLACE_BYTES;
  struct place *p = &v->places[at];
  /* The two ends use different halves of each memory. */
  const bool half = (at < PLACES / 2) == (v->end->rank == 0);
  if (p->open || p->spoiled || !half || !other->own.region) return;
  const bool exposed = ranks_random(state) % 2;
  const size_t skipped = ranks_random(state) % 8, bytes = 1 + ranks_random(state) % (PLACE_BYTES - 8);
  p->here = (exposed ? v->memory : v->waste) + first + skipped;
  p->there = other->memory + first + skipped;
  p->transfer = (struct tu_wire_transfer){.reads = ranks_random(state) % 2,
                                          .here = p->here,
                                          .bytes = bytes,
                                          .address = other->own.address + first + skipped,
                                          .key = other->own.key,
                                          .done = transfer_ends,
                                          .context = v};
  unsigned char *source = p->transfer.reads ? p->there : p->here;
  for (size_t i = 0; i < bytes; i++) source[i] = (unsigned char)ranks_random(state);
  p->open = true;
  if (!v->end->wire->ops->transfer(v->end->wire, v->end->other->rank, &p->transfer)) p->open = false;
}

static void recall(struct visitor *v, struct place *p) {
  if (!p->open) return;
  v->end->wire->ops->recall(v->end->wire, &p->transfer);
  spoil(p);
}

static bool has_open_places(const struct visitor *v) {
  bool any = false;
  for (int i = 0; i < PLACES; i++) any |= v->places[i].open;
  return any;
}

static void check_places(const struct visitor *v) {
  for (int i = 0; i < PLACES; i++) {
    const struct place *p = &v->places[i];
    for (size_t k = 0; p->spoiled && k < p->transfer.bytes; k++) {
      if (p->here[k] == SPOILED) continue;
      FAIL("place %d: memory of a transfer that has failed or was recalled has changed", i);
      return;
    }
  }
}

/* Both ends read and write memory of each other, while frames are on their way. Some transfers are recalled, and one end may
 * conceal its memory before the other is done. */
static void both_transfer(enum kind kind, uint64_t seed) {
  enum { STEPS = 2000 };
  static struct visitor visitors[2];
  struct wire_end ends[2];
  uint64_t state = seed;
  begin_wires(ends, kind, ranks_random(&state));
  const uint64_t conceals = kind == FAKE ? ranks_random(&state) % (2 * STEPS) : STEPS;
  const uint64_t recalls = kind == FAKE ? ranks_random(&state) % 50 : 0;
  for (int i = 0; i < 2; i++) {
    visitors[i] = (struct visitor){.end = &ends[i]};
    if (ends[i].wire->ops->expose)
      (void)ends[i].wire->ops->expose(ends[i].wire, visitors[i].memory, sizeof visitors[i].memory, true,
                                      &visitors[i].own);
  }
  for (uint64_t step = 0; step < STEPS || has_open_places(&visitors[0]) || has_open_places(&visitors[1]); step++) {
    struct visitor *v = &visitors[ranks_random(&state) % 2], *other = &visitors[v == visitors];
    if (step < STEPS && ranks_random(&state) % 4 == 0) visit(v, other, &state);
    if (ranks_random(&state) % 1000 < recalls) recall(v, &v->places[ranks_random(&state) % PLACES]);
    if (step < STEPS && v->end->sent < exchanged[kind] / 4) (void)give(v->end, ranks_random(&state) % 2);
    (void)v->end->wire->ops->look(v->end->wire);
    if (step == conceals && v->own.region) v->end->wire->ops->conceal(v->end->wire, &v->own, false);
    if (step > 1000 * STEPS) break;
  }
  for (int i = 0; i < 2; i++) {
    CHECK(!has_open_places(&visitors[i]), "end %d: a transfer does not end", i);
    for (int k = 0; k < PLACES; k++) recall(&visitors[i], &visitors[i].places[k]);
    check_places(&visitors[i]);
  }
  while ((ends[0].came < ends[1].sent || ends[1].came < ends[0].sent) && wait_for_wires(ends)) look_at_both(ends);
  if (kind == FABRIC) CHECK(visitors[0].carried_out && visitors[1].carried_out, "no transfer was carried out");
  for (int i = 0; i < 2; i++)
    if (ends[i].wire->ops->conceal) ends[i].wire->ops->conceal(ends[i].wire, &visitors[i].own, true);
  end_wires(ends);
  for (int i = 0; i < 2; i++) check_places(&visitors[i]);
}

static bool has_fabric(void) {
  const struct tu_fabric_library *library;
  struct tu_error error;
  return tu_fabric_load(&library, &error) == TUTTI_OK;
}

/* Run alone by scripts, which need the fabric. */
static void test_fabric_opens(void) {
  if (!has_fabric()) SKIP("libfabric is not installed");
}

/* Runs the test for each kind but the fake fabric. */
static void for_each_kind(void (*test)(enum kind kind, uint64_t seed)) {
  const uint64_t seed = test_seed();
  for (enum kind kind = 0; kind < FAKE; kind++) {
    const int before = test_failures;
    if (kind == FABRIC && !has_fabric()) {
      SKIP("libfabric is not installed; tools/setup fabrics installs it");
      continue;
    }
    test(kind, seed);
    if (test_failures > before) printf("  wire: %s\n", kind_names[kind]);
  }
}

static void test_both_ways(void) { for_each_kind(both_ways); }
static void test_one_closes(void) { for_each_kind(one_closes); }
static void test_unread(void) { for_each_kind(one_closes_with_frames_unread); }
static void test_both_close(void) { for_each_kind(both_close); }
static void test_cut(void) { for_each_kind(one_is_cut); }
static void test_closes_in_a_frame(void) { for_each_kind(one_closes_in_a_frame); }
static void test_closes_within(void) { for_each_kind(one_closes_within); }
static void test_transfers(void) {
  if (has_fabric()) both_transfer(FABRIC, test_seed());
  else SKIP("libfabric is not installed; tools/setup fabrics installs it");
}

/* ---- the fake fabric ---- */

/* One endpoint dies while frames are on their way, and then one end closes. Sockets have what the fabric has not. */
static void one_endpoint_dies(enum kind kind, uint64_t seed) {
  struct wire_end ends[2];
  pthread_t closer;
  uint64_t state = seed;
  begin_wires(ends, kind, ranks_random(&state));
  const uint64_t steps = ranks_random(&state) % 200, dies = ranks_random(&state) % (steps + 1);
  struct wire_end *killed = &ends[ranks_random(&state) % 2], *closes = &ends[ranks_random(&state) % 2];
  for (uint64_t i = 0; i <= steps; i++) {
    struct wire_end *end = &ends[ranks_random(&state) % 2];
    if (i == dies && killed->name_bytes) fake_fabric_kill(killed->name, killed->name_bytes);
    if (ranks_random(&state) % 2 && end->sent < posted[kind]) (void)give(end, ranks_random(&state) % 2);
    (void)end->wire->ops->look(end->wire);
  }
  if (pthread_create(&closer, NULL, close_wire, closes) != 0) abort();
  look_to_the_end(closes->other);
  pthread_join(closer, NULL);
  CHECK(closes->other->came == closes->sent && closes->other->lost == 0, "%u of %u frames arrived, %u were lost",
        closes->other->came, closes->sent, closes->other->lost);
  end_wires(ends);
}

static bool one_in(uint64_t *state, uint64_t count) { return ranks_random(state) % count == 0; }
static uint32_t below(uint64_t *state, uint64_t count) { return (uint32_t)(ranks_random(state) % count); }

static struct fake_fabric_traits draw_traits(uint64_t *state) {
  static const int modes[] = {TU_FI_MR_LOCAL, TU_FI_MR_VIRT_ADDR, TU_FI_MR_ALLOCATED, TU_FI_MR_PROV_KEY,
                              TU_FI_MR_ENDPOINT};
  static const uint64_t contexts[] = {0, TU_FI_CONTEXT, TU_FI_CONTEXT2};
  struct fake_fabric_traits t = {.seed = ranks_random(state), .mode = contexts[below(state, 3)]};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) t.mr_mode |= one_in(state, 2) ? modes[i] : 0;
  if (one_in(state, 2)) t.mode |= TU_FI_RX_CQ_DATA;
  t.no_descriptor = one_in(state, 4);
  t.arms = one_in(state, 2);
  t.shuffles = one_in(state, 2);
  t.loses_on_close = one_in(state, 2);
  t.injects_nothing = one_in(state, 4);
  t.late = below(state, 8);
  t.connecting = one_in(state, 2) ? below(state, 30) : 0;
  t.busy_per_1000 = one_in(state, 2) ? below(state, 500) : 0;
  t.errors_per_1000 = one_in(state, 2) ? below(state, 100) : 0;
  t.operations_max = one_in(state, 2) ? 1 + below(state, 20) : 0;
  t.receives_max = one_in(state, 2) ? 1 + below(state, 4) : 0;
  t.regions_max = one_in(state, 8) ? 1 + below(state, 2) : 0;
  t.refused_call = one_in(state, 8) ? 1 + below(state, 20) : 0;
  t.key_bytes = one_in(state, 2) ? 1 + below(state, 8) : 0;
  /* An end that closes must close bound regions before its endpoint. Writes of the other end may come between. */
  if (t.mr_mode & TU_FI_MR_ENDPOINT) t.allowed = 1 << FAKE_KEY | 1 << FAKE_LOCAL;
  return t;
}

static void test_fake_fabric(void) {
  static void (*const runs[])(enum kind kind, uint64_t seed) = {
      both_ways,
      both_ways,
      one_closes,
      one_closes_with_frames_unread,
      both_close,
      one_is_cut,
      one_closes_in_a_frame,
      one_closes_within,
      one_endpoint_dies,
      both_transfer,
      both_transfer,
  };
  const uint64_t first = test_seed(), count = getenv("TEST_SEED") ? 1 : test_long() ? 20000 : 300;
  for (uint64_t seed = first; seed < first + count; seed++) {
    uint64_t state = seed;
    const int before = test_failures;
    const struct fake_fabric_traits traits = draw_traits(&state);
    fake_fabric_begin(&traits);
    runs[below(&state, sizeof runs / sizeof runs[0])](FAKE, ranks_random(&state));
    const uint32_t violations = fake_fabric_end();
    CHECK(violations == 0, "the fake fabric counts %u violations", violations);
    if (test_failures > before) printf("  TEST_SEED=%llu fails\n", (unsigned long long)seed);
  }
}

/* The fabric takes nothing, as behind a firewall that blocks its ports. After a while all goes over the sockets. */
static void test_fabric_refuses(void) {
  const struct fake_fabric_traits traits = {.busy_per_1000 = 1000};
  fake_fabric_begin(&traits);
  both_ways(FAKE, test_seed());
  CHECK(fake_fabric_end() == 0, "the fake fabric counts violations");
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"fabric_opens", test_fabric_opens},
      {"both_ways", test_both_ways},
      {"gathered", test_gathered},
      {"one_closes", test_one_closes},
      {"one_closes_with_frames_unread", test_unread},
      {"both_close", test_both_close},
      {"one_is_cut", test_cut},
      {"one_closes_in_a_frame", test_closes_in_a_frame},
      {"one_closes_within", test_closes_within},
      {"transfers", test_transfers},
      {"fake_fabric", test_fake_fabric},
      {"fabric_refuses", test_fabric_refuses},
  };
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
