/* test: slow waits timeout=300 */
/* any_rank_test.c: receives from any rank and of any tag, and probes: which message a receive gets, in which order, over
 * all ways in which messages cross, between threads, processes and simulated hosts. */
#include "base/text.h"
#include "hosts.h"

enum { TAGS = 3, REGULAR_MAX = 6, STARTS_MAX = 10, CREDITS_SURE = 4 };

/* The first bytes of every message. The rest follows from them. */
struct body {
  uint32_t from, tag, index; /* index: position among the messages from one rank to another */
  uint32_t unused;
  uint64_t sent_ns;
};

static void write_body(unsigned char *to, size_t bytes, const struct body *b) {
  memcpy(to, b, sizeof *b);
  for (size_t i = sizeof *b; i < bytes; i++) to[i] = (unsigned char)(i * 7 + b->from * 31 + b->index);
}

static bool is_body(const unsigned char *data, size_t bytes, struct body *b) {
  memcpy(b, data, sizeof *b);
  for (size_t i = sizeof *b; i < bytes; i++)
    if (data[i] != (unsigned char)(i * 7 + b->from * 31 + b->index)) return false;
  return true;
}

static tutti_call receive_of(void *buffer, size_t bytes, uint32_t peer, uint32_t tag, tutti_message *message) {
  return (tutti_call){.collective = TUTTI_RECV,
                      .recv = buffer,
                      .count = bytes,
                      .type = TUTTI_U8,
                      .peer = peer,
                      .tag = tag,
                      .message = message};
}

static void send_value(struct player *p, tutti_comm *comm, uint32_t value, uint32_t peer, uint32_t tag) {
  good(p, tutti_send(comm, &value, 1, TUTTI_U32, peer, tag), "send");
}

/* Receives a number, and checks which one it is, and what is told about the message. */
static void expect_value(struct player *p, uint32_t peer, uint32_t tag, const tutti_message *want, uint32_t value) {
  uint32_t got = 0;
  tutti_message message = {0};
  const tutti_call call = receive_of(&got, sizeof got, peer, tag, &message);
  if (!good(p, tutti_run_call(p->comm, &call), "receive")) return;
  if (got != value || message.rank != want->rank || message.tag != want->tag || message.bytes != sizeof got)
    wrong(p, "rank %u: got %u from rank %u, tag %u, %llu bytes; expected %u from rank %u, tag %u", p->rank, got,
          message.rank, message.tag, (unsigned long long)message.bytes, value, want->rank, want->tag);
}

/* ---- random programs ---- */

/* Messages from each rank to each rank, itself included: first regular ones, of random tags. Then as many of each tag as
 * the receiver has started receives, so that each receive gets one, whatever the others took. The receiver takes the rest
 * from any rank, with any tag. */
struct program {
  uint64_t seed;
  size_t bytes;    /* of every message, because a receive of any rank must know the length */
  uint32_t starts; /* number of receives that each rank starts before it takes the rest */
};

struct receive {
  uint32_t peer, tag; /* wanted */
  tutti_request *request;
  unsigned char *buffer;
  tutti_message message;
  struct body got;
  uint64_t done_ns; /* time when the rank saw that the receive was complete; 0: not yet */
};

struct rank_state {
  struct player *p;
  const struct program *program;
  uint64_t random;
  uint32_t sent[TROUPE_MAX];
  tutti_request **sends;
  unsigned char **send_buffers;
  size_t send_count, receive_count, total;
  struct receive *receives;
};

static uint32_t regular(const struct program *g, uint32_t from, uint32_t to) {
  uint64_t state = g->seed + from * 1000 + to;
  return (uint32_t)(ranks_random(&state) % (REGULAR_MAX + 1));
}

static uint32_t count_between(const struct program *g, uint32_t from, uint32_t to) {
  return regular(g, from, to) + TAGS * g->starts;
}

static uint32_t tag_of(const struct program *g, uint32_t from, uint32_t to, uint32_t index) {
  const uint32_t first = regular(g, from, to);
  uint64_t state = g->seed + from * 77 + to * 7777 + index * 777777;
  return index < first ? (uint32_t)(ranks_random(&state) % TAGS) : (index - first) % TAGS;
}

static void start_send(struct rank_state *s, uint32_t to) {
  const struct program *g = s->program;
  const uint32_t index = s->sent[to]++, from = s->p->rank;
  const struct body b = {.from = from, .tag = tag_of(g, from, to, index), .index = index, .sent_ns = tu_clock_ns()};
  unsigned char *buffer = s->send_buffers[s->send_count] = malloc(g->bytes);
  if (!buffer) abort();
  write_body(buffer, g->bytes, &b);
  good(s->p, tutti_isend(s->p->comm, buffer, g->bytes, TUTTI_U8, to, b.tag, &s->sends[s->send_count++]), "isend");
}

static void start_receive(struct rank_state *s, uint32_t peer, uint32_t tag) {
  struct receive *r = &s->receives[s->receive_count++];
  *r = (struct receive){.peer = peer, .tag = tag, .buffer = malloc(s->program->bytes)};
  if (!r->buffer) abort();
  const tutti_call call = receive_of(r->buffer, s->program->bytes, peer, tag, &r->message);
  good(s->p, tutti_start(s->p->comm, &call, &r->request), "start of a receive");
}

static void end_receive(struct rank_state *s, struct receive *r) {
  r->done_ns = tu_clock_ns();
  if (!is_body(r->buffer, s->program->bytes, &r->got)) wrong(s->p, "rank %u: a message has wrong bytes", s->p->rank);
  if (r->got.from != r->message.rank || r->got.tag != r->message.tag || r->message.bytes != s->program->bytes)
    wrong(s->p, "rank %u: the message of rank %u, tag %u is said to be of rank %u, tag %u, %llu bytes", s->p->rank,
          r->got.from, r->got.tag, r->message.rank, r->message.tag, (unsigned long long)r->message.bytes);
  free(r->buffer);
  r->buffer = NULL;
}

static void test_receives(struct rank_state *s) {
  for (size_t i = 0; i < s->receive_count; i++) {
    struct receive *r = &s->receives[i];
    bool done = false;
    if (r->done_ns || !good(s->p, tutti_test(&r->request, &done), "test")) continue;
    if (done) end_receive(s, r);
  }
}

static uint32_t random_peer(struct rank_state *s) {
  return ranks_random(&s->random) % 2 ? TUTTI_ANY_RANK : (uint32_t)(ranks_random(&s->random) % s->p->ranks);
}

static uint32_t random_tag(struct rank_state *s) {
  return ranks_random(&s->random) % 5 < 2 ? TUTTI_ANY_TAG : (uint32_t)(ranks_random(&s->random) % TAGS);
}

/* Probes. A message that is found must be the one that a receive gets which names its rank and tag. */
static void probe_and_receive(struct rank_state *s) {
  bool found;
  tutti_message m;
  const int timeout_ms = ranks_random(&s->random) % 8 ? 0 : 1;
  const uint32_t peer = random_peer(s), tag = random_tag(s);
  if (!good(s->p, tutti_probe(s->p->comm, peer, tag, timeout_ms, &found, &m), "probe") || !found) return;
  if ((peer != TUTTI_ANY_RANK && peer != m.rank) || (tag != TUTTI_ANY_TAG && tag != m.tag) ||
      m.bytes != s->program->bytes)
    wrong(s->p, "rank %u: a probe of rank %u, tag %u found a message of rank %u, tag %u", s->p->rank, peer, tag, m.rank,
          m.tag);
  start_receive(s, m.rank, m.tag);
  struct receive *r = &s->receives[s->receive_count - 1];
  if (good(s->p, tutti_wait(&r->request), "wait for a message that was found")) end_receive(s, r);
}

static void act(struct rank_state *s) {
  const uint32_t to = (uint32_t)(ranks_random(&s->random) % s->p->ranks);
  switch (ranks_random(&s->random) % 4) {
    case 0:
      if (s->sent[to] < regular(s->program, s->p->rank, to)) start_send(s, to);
      return;
    case 1:
      if (s->receive_count < s->program->starts) start_receive(s, random_peer(s), random_tag(s));
      return;
    case 2:
      if (s->receive_count < s->program->starts) probe_and_receive(s);
      return;
    default: test_receives(s);
  }
}

static void play_program(struct rank_state *s) {
  struct player *p = s->p;
  for (int i = 0; i < 60 && p->stage->failures == 0; i++) act(s);
  for (uint32_t to = 0; to < p->ranks; to++)
    while (s->sent[to] < count_between(s->program, p->rank, to)) start_send(s, to);
  for (size_t i = 0; i < s->total && p->stage->failures == 0; i++) {
    if (i >= s->receive_count) start_receive(s, TUTTI_ANY_RANK, TUTTI_ANY_TAG);
    struct receive *r = &s->receives[i];
    if (!r->done_ns && good(p, tutti_wait(&r->request), "wait for a receive")) end_receive(s, r);
  }
  for (size_t i = 0; i < s->send_count && p->stage->failures == 0; i++) good(p, tutti_wait(&s->sends[i]), "wait");
}

static bool could_get(const struct receive *r, const struct body *message) {
  return (r->peer == TUTTI_ANY_RANK || r->peer == message->from) && (r->tag == TUTTI_ANY_TAG || r->tag == message->tag);
}

/* Checks two receives, of which `a` was started first, against the rules of matching. */
static const char *broken_rule(const struct receive *a, const struct receive *b) {
  const bool same = a->got.from == b->got.from;
  if (same && a->got.index == b->got.index) return "one message was received twice";
  if (same && could_get(a, &b->got) && b->got.index < a->got.index) return "a message overtook another one";
  /* When `b` was complete, the message of `a` was not even sent. */
  if (could_get(a, &b->got) && b->done_ns < a->got.sent_ns) return "a later receive took a message of an earlier one";
  return NULL;
}

static void check_receives(struct rank_state *s) {
  struct player *p = s->p;
  for (size_t i = 0; i < s->total && p->stage->failures == 0; i++) {
    const struct receive *a = &s->receives[i];
    if (!could_get(a, &a->got) || a->got.index >= count_between(s->program, a->got.from, p->rank) ||
        a->got.tag != tag_of(s->program, a->got.from, p->rank, a->got.index))
      wrong(p,
            "rank %u: receive %zu got message %u of rank %u, tag %u, which it did not ask for, or which was not sent",
            p->rank, i, a->got.index, a->got.from, a->got.tag);
    for (size_t k = i + 1; k < s->total; k++) {
      const char *rule = broken_rule(a, &s->receives[k]);
      if (rule)
        wrong(p, "rank %u: receives %zu and %zu got messages %u and %u of ranks %u and %u: %s", p->rank, i, k,
              a->got.index, s->receives[k].got.index, a->got.from, s->receives[k].got.from, rule);
    }
  }
  p->stage->counted += s->total;
}

static void random_program(struct player *p, const struct program *g) {
  struct rank_state s = {.p = p, .program = g, .random = g->seed * 31 + p->rank};
  size_t sends = 0;
  for (uint32_t r = 0; r < p->ranks; r++) {
    sends += count_between(g, p->rank, r);
    s.total += count_between(g, r, p->rank);
  }
  s.sends = calloc(sends, sizeof *s.sends);
  s.send_buffers = calloc(sends, sizeof *s.send_buffers);
  s.receives = calloc(s.total, sizeof *s.receives);
  if (!s.sends || !s.send_buffers || !s.receives) abort();
  play_program(&s);
  if (p->stage->failures == 0) check_receives(&s);
  for (size_t i = 0; i < s.send_count; i++) free(s.send_buffers[i]);
  free(s.sends);
  free(s.send_buffers);
  free(s.receives);
}

static void random_programs(struct player *p) {
  static const size_t sizes[] = {24, 32, 33, 600, 5000, 70000};
  for (uint32_t i = 0; i < 30 && p->stage->failures == 0; i++) {
    uint64_t state = p->seed + i;
    struct program g = {.bytes = sizes[i % 6]};
    g.seed = ranks_random(&state) % 1000000007;
    g.starts = g.bytes > 10000 ? 3 : STARTS_MAX;
    random_program(p, &g);
    good(p, tutti_barrier(p->comm), "barrier");
  }
}

/* ---- which receive gets which message ---- */

enum { MATCHES_MAX = 4, ANY = -1 };

/* Rank 0 starts receives, and the last rank sends messages to it. gets: for each receive, the message that it must get,
 * counted from 0. Peers: ANY, or 0 for the sender. */
static const struct match {
  const char *name;
  struct {
    int peer, tag;
    uint32_t gets;
  } receives[MATCHES_MAX];
  int tags[MATCHES_MAX]; /* of the messages */
  uint32_t count;
} matches[] = {
    {"any rank first", {{ANY, 1, 0}, {0, 1, 1}}, {1, 1}, 2},
    {"named rank first", {{0, 1, 0}, {ANY, 1, 1}}, {1, 1}, 2},
    {"any tag first", {{0, ANY, 0}, {0, 1, 1}}, {1, 1}, 2},
    {"any tag last", {{0, 1, 0}, {0, ANY, 1}}, {1, 1}, 2},
    {"another tag in front", {{ANY, 2, 1}, {0, 1, 0}}, {1, 2}, 2},
    {"another tag in front, of any rank", {{ANY, 2, 1}, {ANY, 1, 0}}, {1, 2}, 2},
    {"all first", {{ANY, ANY, 0}, {ANY, 2, 1}, {0, 1, 2}, {0, ANY, 3}}, {3, 2, 1, 1}, 4},
    {"all last", {{0, 1, 1}, {ANY, 2, 2}, {0, ANY, 0}, {ANY, ANY, 3}}, {3, 1, 2, 1}, 4},
    {"backwards", {{ANY, 4, 3}, {0, 3, 2}, {ANY, 2, 1}, {0, 1, 0}}, {1, 2, 3, 4}, 4},
};

static void receive_matches(struct player *p, const struct match *m, bool late) {
  uint32_t values[MATCHES_MAX], sender = p->ranks - 1;
  tutti_request *requests[MATCHES_MAX];
  tutti_message messages[MATCHES_MAX];
  if (late) troupe_meet(p);
  for (uint32_t i = 0; i < m->count; i++) {
    const uint32_t peer = m->receives[i].peer == ANY ? TUTTI_ANY_RANK : sender;
    const uint32_t tag = m->receives[i].tag == ANY ? TUTTI_ANY_TAG : (uint32_t)m->receives[i].tag;
    const tutti_call call = receive_of(&values[i], sizeof values[i], peer, tag, &messages[i]);
    if (!good(p, tutti_start(p->comm, &call, &requests[i]), "start")) return;
  }
  if (!late) troupe_meet(p);
  for (uint32_t i = 0; i < m->count; i++) {
    const uint32_t gets = m->receives[i].gets;
    if (!good(p, tutti_wait(&requests[i]), "wait")) return;
    if (values[i] != gets || messages[i].rank != sender || messages[i].tag != (uint32_t)m->tags[gets])
      wrong(p, "%s%s: receive %u got message %u of rank %u, tag %u; expected message %u", m->name,
            late ? ", started late" : "", i, values[i], messages[i].rank, messages[i].tag, gets);
  }
}

static void order_of_starts(struct player *p) {
  for (size_t k = 0; k < 2 * sizeof matches / sizeof matches[0] && p->stage->failures == 0; k++) {
    const struct match *m = &matches[k / 2];
    const bool late = k % 2;
    tutti_request *requests[MATCHES_MAX];
    uint32_t values[MATCHES_MAX];
    /* The only rank of a communicator sends to itself, before its receives or after them. */
    if (p->ranks == 1 && !late) continue;
    if (p->rank < p->ranks - 1 && p->rank > 0) troupe_meet(p);
    if (p->rank == p->ranks - 1) {
      if (!late) troupe_meet(p);
      for (uint32_t i = 0; i < m->count; i++) {
        values[i] = i;
        good(p, tutti_isend(p->comm, &values[i], 1, TUTTI_U32, 0, (uint32_t)m->tags[i], &requests[i]), "isend");
      }
      if (late && p->ranks > 1) troupe_meet(p);
    }
    if (p->rank == 0) receive_matches(p, m, late);
    if (p->rank == p->ranks - 1) good(p, tutti_wait_all(requests, m->count), "wait_all");
    good(p, tutti_barrier(p->comm), "barrier");
  }
}

/* Messages of all ranks are there. They are taken in turn. */
static void in_turn(struct player *p) {
  for (uint32_t i = 0; i < CREDITS_SURE && p->rank > 0; i++) send_value(p, p->comm, i, 0, 5);
  good(p, tutti_barrier(p->comm), "barrier");
  for (uint32_t i = 0; p->rank == 0 && i < CREDITS_SURE; i++) {
    uint32_t seen = 0;
    /* The barrier tells that the others have sent, not that what other hosts sent has arrived. */
    for (uint32_t r = 1; r < p->ranks; r++) {
      bool found;
      tutti_message m;
      good(p, tutti_probe(p->comm, r, 5, TUTTI_NO_TIMEOUT, &found, &m), "probe");
    }
    for (uint32_t r = 1; r < p->ranks; r++) {
      uint32_t value;
      tutti_message m = {0};
      const tutti_call call = receive_of(&value, sizeof value, TUTTI_ANY_RANK, 5, &m);
      if (!good(p, tutti_run_call(p->comm, &call), "receive")) return;
      if (value != i || seen >> m.rank & 1) wrong(p, "round %u: rank %u sent %u, out of turn", i, m.rank, value);
      seen |= 1u << m.rank;
    }
  }
}

/* ---- ways of crossing, kinds of requests ---- */

/* All lengths, from the program's memory and from shared memory, so that messages cross in all ways. */
static void ways(struct player *p) {
  static const size_t sizes[] = {0, 1, 32, 33, 4096, 100000, 3000000};
  const size_t longest = sizes[sizeof sizes / sizeof sizes[0] - 1];
  void *shared;
  unsigned char *plain = p->ranks > 1 ? malloc(longest) : NULL; /* rank 1 sends */
  if (!plain || !good(p, tutti_alloc(p->comm, longest, &shared), "alloc")) return;
  for (size_t k = 0; k < 4 * sizeof sizes / sizeof sizes[0] && p->stage->failures == 0; k++) {
    const size_t bytes = sizes[k / 4];
    unsigned char *data = k % 2 ? shared : plain;
    const bool late = k / 2 % 2;
    tutti_request *request = NULL;
    tutti_message m = {0};
    const tutti_call call = receive_of(data, bytes, TUTTI_ANY_RANK, TUTTI_ANY_TAG, &m);
    memset(data, p->rank == 0 ? 0xee : (int)k, longest);
    if (p->rank == 0 && !late) good(p, tutti_start(p->comm, &call, &request), "start");
    troupe_meet(p);
    if (p->rank == 1) good(p, tutti_isend(p->comm, data, bytes, TUTTI_U8, 0, (uint32_t)k, &request), "isend");
    troupe_meet(p);
    if (p->rank == 0 && late) good(p, tutti_start(p->comm, &call, &request), "start");
    if (!good(p, tutti_wait(&request), "wait") || p->rank != 0) continue;
    if (m.rank != 1 || m.tag != k || m.bytes != bytes) wrong(p, "%zu bytes: told wrong", bytes);
    for (size_t i = 0; i < longest; i++)
      if (data[i] != (i < bytes ? (unsigned char)k : 0xee)) {
        wrong(p, "%zu bytes, case %zu: byte %zu is wrong", bytes, k, i);
        break;
      }
  }
  good(p, tutti_barrier(p->comm), "barrier");
  tutti_free(p->comm, shared);
  free(plain);
}

static void persistent(struct player *p) {
  uint32_t value = 0;
  tutti_message m;
  tutti_request *request = NULL;
  const tutti_call call = receive_of(&value, sizeof value, TUTTI_ANY_RANK, TUTTI_ANY_TAG, &m);
  const uint32_t count = 20 * (p->ranks - 1);
  for (uint32_t i = 0; i < 20 && p->rank > 0; i++) send_value(p, p->comm, p->rank, 0, i);
  if (p->rank > 0 || !good(p, tutti_prepare(p->comm, &call, &request), "prepare")) return;
  uint32_t next[TROUPE_MAX] = {0};
  for (uint32_t i = 0; i < count && p->stage->failures == 0; i++) {
    good(p, tutti_restart(request), "restart");
    good(p, tutti_wait(&request), "wait");
    if (m.rank != value || m.tag != next[m.rank]++) wrong(p, "start %u: tag %u of rank %u", i, m.tag, m.rank);
  }
  tutti_request_free(request);
}

static void groups(struct player *p) {
  uint32_t values[TROUPE_MAX], seen = 0;
  tutti_message messages[TROUPE_MAX];
  tutti_call calls[TROUPE_MAX + 1];
  tutti_request *request;
  for (uint32_t r = 0; r < p->ranks; r++)
    calls[r] = receive_of(&values[r], sizeof values[r], TUTTI_ANY_RANK, 9, &messages[r]);
  for (uint32_t to = 0; to < p->ranks; to++)
    good(p, tutti_isend(p->comm, &p->rank, 1, TUTTI_U32, to, 9, NULL), "isend");
  if (!good(p, tutti_start_all(p->comm, calls, p->ranks, &request), "start_all")) return;
  good(p, tutti_wait(&request), "wait");
  good(p, tutti_wait_all(NULL, 0), "wait_all");
  for (uint32_t r = 0; r < p->ranks; r++) {
    if (values[r] != messages[r].rank) wrong(p, "a message of rank %u has %u", messages[r].rank, values[r]);
    seen |= 1u << values[r];
  }
  if (seen != (1u << p->ranks) - 1) wrong(p, "rank %u: messages of ranks %x", p->rank, seen);
}

/* ---- threads ---- */

enum { THREADS = 3, EACH = 40 };

struct thread {
  struct player *p;
  uint32_t *counts; /* [value]: how often it was received */
  pthread_t id;
};

static pthread_mutex_t counts_lock = PTHREAD_MUTEX_INITIALIZER;

static void *receive_some(void *argument) {
  struct thread *t = argument;
  for (uint32_t i = 0; i < EACH * (t->p->ranks - 1); i++) {
    uint32_t value = 0;
    if (!good(t->p, tutti_recv(t->p->comm, &value, 1, TUTTI_U32, TUTTI_ANY_RANK, TUTTI_ANY_TAG), "recv")) break;
    pthread_mutex_lock(&counts_lock);
    t->counts[value]++;
    pthread_mutex_unlock(&counts_lock);
  }
  return NULL;
}

static void several_threads(struct player *p) {
  const uint32_t each = THREADS * EACH;
  for (uint32_t i = 0; i < each && p->rank > 0; i++) send_value(p, p->comm, (p->rank - 1) * each + i, 0, i % 5);
  if (p->rank > 0) return;
  uint32_t counts[TROUPE_MAX * THREADS * EACH] = {0};
  struct thread threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    threads[i] = (struct thread){.p = p, .counts = counts};
    if (pthread_create(&threads[i].id, NULL, receive_some, &threads[i]) != 0) abort();
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i].id, NULL);
  for (uint32_t i = 0; i < each * (p->ranks - 1); i++)
    if (counts[i] != 1) wrong(p, "message %u was received %u times", i, counts[i]);
}

/* ---- probes ---- */

static void expect_probe(struct player *p, uint32_t rank, uint32_t tag, int timeout_ms, const tutti_message *want) {
  bool found;
  tutti_message m = {0};
  if (!good(p, tutti_probe(p->comm, rank, tag, timeout_ms, &found, &m), "probe")) return;
  if (found != (want != NULL) || (want && (m.rank != want->rank || m.tag != want->tag || m.bytes != want->bytes)))
    wrong(p, "probe of rank %u, tag %u: found %d: rank %u, tag %u, %llu bytes", rank, tag, found, m.rank, m.tag,
          (unsigned long long)m.bytes);
}

static void probes(struct player *p) {
  const uint32_t last = p->ranks - 1;
  const tutti_message first = {last, 3, 4}, second = {last, 4, 4};
  uint32_t value = 0;
  tutti_request *request = NULL;
  if (p->rank == 0) expect_probe(p, TUTTI_ANY_RANK, TUTTI_ANY_TAG, 0, NULL);
  if (p->rank == 0) expect_probe(p, last, 3, 5, NULL);
  troupe_meet(p);
  if (p->rank == last) good(p, tutti_isend(p->comm, &last, 1, TUTTI_U32, 0, 3, NULL), "isend");
  if (p->rank == last) good(p, tutti_isend(p->comm, &last, 1, TUTTI_U32, 0, 4, NULL), "isend");
  if (p->rank == 0) {
    expect_probe(p, TUTTI_ANY_RANK, 3, TUTTI_NO_TIMEOUT, &first);
    expect_probe(p, last, TUTTI_ANY_TAG, 20000, &first);
    expect_probe(p, last, 4, TUTTI_NO_TIMEOUT, &second);
    expect_probe(p, TUTTI_ANY_RANK, TUTTI_ANY_TAG, 0, &first);
    /* A message that an open receive takes does not count. */
    good(p, tutti_irecv(p->comm, &value, 1, TUTTI_U32, TUTTI_ANY_RANK, TUTTI_ANY_TAG, &request), "irecv");
    expect_probe(p, TUTTI_ANY_RANK, 3, 0, NULL);
    expect_probe(p, TUTTI_ANY_RANK, TUTTI_ANY_TAG, 0, &second);
    good(p, tutti_wait(&request), "wait");
    expect_value(p, TUTTI_ANY_RANK, 4, &second, last);
    expect_probe(p, TUTTI_ANY_RANK, TUTTI_ANY_TAG, 0, NULL);
  }
  good(p, tutti_wait_all(NULL, 0), "wait_all");
}

/* ---- errors ---- */

static void expect_error(struct player *p, tutti_comm *comm, tutti_err err, tutti_err want, const char *facts) {
  const char *said = tutti_error_message(comm);
  if (err != want || !test_contains(said, facts))
    wrong(p, "rank %u: %s, \"%s\"; expected %s with %s", p->rank, tutti_err_name(err), said, tutti_err_name(want),
          facts);
}

/* Calls that are refused, each on a communicator of its own. */
static void refusals(struct player *p) {
  uint32_t value = 0;
  tutti_message m;
  const struct {
    tutti_call call;
    const char *facts;
  } bad[] = {
      {{.collective = TUTTI_SEND, .send = &value, .count = 1, .type = TUTTI_U32, .tag = TUTTI_ANY_TAG},
       "send|TUTTI_ANY_TAG|0 to 4294967294"},
      {{.collective = TUTTI_SEND, .send = &value, .count = 1, .type = TUTTI_U32, .peer = TUTTI_ANY_RANK}, "send|peer"},
      {{.collective = TUTTI_RECV, .recv = &value, .count = 1, .type = TUTTI_U32, .peer = TUTTI_ANY_RANK, .lanes = 2},
       "recv|2 lanes|0 or 1|TUTTI_ANY_RANK"},
      {{.collective = TUTTI_RECV, .recv = &value, .count = 1, .type = TUTTI_U32, .tag = TUTTI_ANY_TAG, .lanes = 2},
       "recv|2 lanes|0 or 1|TUTTI_ANY_TAG"},
      {{.collective = TUTTI_ALLREDUCE, .send = &value, .recv = &value, .count = 1, .type = TUTTI_U32, .message = &m},
       "allreduce|tutti_call.message|NULL"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    tutti_comm *dup;
    if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
    if (p->rank == 0) expect_error(p, dup, tutti_run_call(dup, &bad[i].call), TUTTI_ERR_ARGUMENT, bad[i].facts);
    troupe_meet(p);
    (void)!tutti_comm_free(dup);
  }
  bool found;
  expect_error(p, NULL, tutti_probe(p->comm, p->ranks, 0, 0, &found, &m), TUTTI_ERR_ARGUMENT,
               "tutti_probe|rank|TUTTI_ANY_RANK");
  expect_error(p, NULL, tutti_probe(p->comm, 0, 0, -2, &found, &m), TUTTI_ERR_ARGUMENT, "tutti_probe|timeout_ms");
  expect_error(p, NULL, tutti_probe(p->comm, 0, 0, 0, NULL, &m), TUTTI_ERR_ARGUMENT, "tutti_probe|found");
}

/* A message has another length, or more lanes, than the receive that takes it. */
static void misfits(struct player *p) {
  uint32_t values[2] = {0};
  static const struct {
    uint32_t bytes, lanes;
    const char *facts;
  } sent[] = {{8, 1, "rank 1 sends 8 bytes|rank 0 expects 4|peer any, tag any"},
              {4, 2, "rank 1 sends over 2 lanes|expects 1"}};
  for (size_t i = 0; i < sizeof sent / sizeof sent[0] && p->ranks > 1; i++) {
    tutti_comm *dup;
    if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
    tutti_call call = receive_of(values, 4, TUTTI_ANY_RANK, TUTTI_ANY_TAG, NULL);
    if (p->rank == 0) expect_error(p, dup, tutti_run_call(dup, &call), TUTTI_ERR_MISMATCH, sent[i].facts);
    call = (tutti_call){
        .collective = TUTTI_SEND, .send = values, .count = sent[i].bytes, .type = TUTTI_U8, .lanes = sent[i].lanes};
    if (p->rank == 1) (void)!tutti_run_call(dup, &call);
    troupe_meet(p);
    (void)!tutti_comm_free(dup);
  }
}

/* A time limit passes: the message says that the rank waits for any rank. So does that of a rank that waits for it. */
static void late(struct player *p) {
  tutti_comm *dup;
  uint32_t value;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  const tutti_call call = {.collective = TUTTI_RECV,
                           .recv = &value,
                           .count = 1,
                           .type = TUTTI_U32,
                           .peer = TUTTI_ANY_RANK,
                           .tag = TUTTI_ANY_TAG,
                           .timeout_ms = 400};
  if (p->rank == 0)
    expect_error(p, dup, tutti_run_call(dup, &call), TUTTI_ERR_TIMEOUT,
                 "rank 0|400 ms|recv|peer any, tag any|any rank");
  troupe_meet(p);
  (void)!tutti_comm_free(dup);
}

/* Rank 0 waits for any rank. Rank 1 waits for rank 0, and its limit passes first. Rank 0's answer across hosts may come
 * too late on a busy machine, which the message says; then both try again. */
static void blamed(struct player *p) {
  const uint32_t tries = 20;
  for (uint32_t again = 1, k = 0; again && k < tries; k++) {
    tutti_comm *dup;
    uint32_t value;
    if (p->ranks < 2 || !good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
    tutti_call call = receive_of(&value, sizeof value, p->rank == 0 ? TUTTI_ANY_RANK : 0, 1, NULL);
    call.timeout_ms = p->rank == 0 ? 20000 : 500;
    const tutti_err err = tutti_run_call(dup, &call);
    again = p->rank == 1 && k + 1 < tries && test_contains(tutti_error_message(dup), "does not answer");
    if (p->rank == 1) good(p, tutti_send(p->comm, &again, 1, TUTTI_U32, 0, 3), "send");
    else good(p, tutti_recv(p->comm, &again, 1, TUTTI_U32, 1, 3), "recv");
    if (!again) expect_error(p, dup, err, TUTTI_ERR_TIMEOUT, "rank 1|500 ms|rank 0|waits for a message from any rank");
    troupe_meet(p);
    (void)!tutti_comm_free(dup);
  }
}

/* All other ranks free the communicator, so no message can come any more. */
static void left_alone(struct player *p) {
  tutti_comm *dup;
  uint32_t value;
  if (p->ranks < 2 || !good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  const uint32_t last = p->ranks - 1;
  if (p->rank == last) {
    good(p, tutti_recv(dup, &value, 1, TUTTI_U32, TUTTI_ANY_RANK, 1), "recv");
    expect_error(p, dup, tutti_recv(dup, &value, 1, TUTTI_U32, TUTTI_ANY_RANK, 1), TUTTI_ERR_PEER,
                 "all other ranks|recv|peer any, tag 1");
    (void)!tutti_comm_free(dup);
    return;
  }
  if (p->rank == 0) send_value(p, dup, 1, last, 1);
  (void)!tutti_comm_free(dup);
}

/* All ranks but two end at once, before rank 1 could hear of them. That is no error for a rank that waits for any rank. */
static void others_end_early(struct player *p) {
  const tutti_message want = {0, 2, sizeof(uint32_t)};
  if (p->ranks < 2) return;
  if (p->rank == 1) ranks_sleep_us(100000);
  if (p->rank == 0) ranks_sleep_us(250000), send_value(p, p->comm, 17, 1, 2);
  if (p->rank == 1) expect_value(p, TUTTI_ANY_RANK, 2, &want, 17);
}

/* A communicator is freed while a receive from any rank is open. */
static void still_open(struct player *p) {
  tutti_comm *dup;
  uint32_t value;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup")) return;
  good(p, tutti_irecv(dup, &value, 1, TUTTI_U32, TUTTI_ANY_RANK, 1, NULL), "irecv");
  good(p, tutti_irecv(dup, &value, 1, TUTTI_U32, TUTTI_ANY_RANK, 1, NULL), "irecv");
  troupe_meet(p);
  if (tutti_comm_free(dup) == TUTTI_OK) wrong(p, "a communicator with open receives was freed without an error");
}

/* Rank 1 dies while the others wait for any rank, in a receive or in a probe. */
static void death(struct player *p) {
  uint32_t value;
  bool found;
  tutti_message m;
  good(p, tutti_barrier(p->comm), "barrier");
  if (p->is_thread) return;
  if (p->rank == 1) ranks_sleep_us(50000), raise(SIGKILL);
  tutti_err err = p->rank == 0 ? tutti_recv(p->comm, &value, 1, TUTTI_U32, TUTTI_ANY_RANK, 1)
                               : tutti_probe(p->comm, TUTTI_ANY_RANK, 1, TUTTI_NO_TIMEOUT, &found, &m);
  expect_error(p, p->comm, err, TUTTI_ERR_PEER, "rank 1");
}

static const struct troupe_case cases[] = {
    {TROUPE_CASE(order_of_starts)},
    {TROUPE_CASE(probes)},
    {TROUPE_CASE(ways)},
    {TROUPE_CASE(in_turn)},
    {TROUPE_CASE(persistent)},
    {TROUPE_CASE(groups)},
    {TROUPE_CASE(several_threads)},
    {TROUPE_CASE(random_programs)},
    {TROUPE_CASE(refusals)},
    {TROUPE_CASE(misfits)},
    {TROUPE_CASE(late), .ranks_max = 2},
    {TROUPE_CASE(blamed), .ranks_max = 2},
    {TROUPE_CASE(left_alone)},
    {TROUPE_CASE(others_end_early)},
    {TROUPE_CASE(still_open)},
    {TROUPE_CASE(death), .rank_1_dies = true, .fails = true},
};

int main(int argc, char **argv) {
  const struct troupe_transport transports[] = {
#ifndef __SANITIZE_THREAD__
      {"shm", troupe_over_shm, {1, 2, 3, 5}},
      {"hosts", troupe_over_processes_of_two_hosts, {2, 3, 5}},
#endif
      {"loop", troupe_over_loop, {1, 2, 3, 5}},
      {"two_hosts", troupe_over_two_hosts, {2, 3, 5}},
      {0}};
  return troupe_main(cases, sizeof cases / sizeof cases[0], transports, argc, argv);
}
