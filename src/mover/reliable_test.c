/* reliable_test.c: two ends and the wires between them, played in one thread by counted polls: whatever the wires do, what was
 * put in comes out, once and in order; over good wires nothing is sent twice; over none there is silence. */
#include "mover/reliable.h"

#include "lossy.h"
#include "test.h"

enum { PACKET = 256, WINDOW = 64, RESEND = 40 };

struct end {
  struct tu_reliable link;
  struct lossy_wire *out, *in;
  uint64_t put, got, messages; /* it puts in so many */
};

struct pair {
  struct end ends[2];
  struct lossy_wire wires[2];
  uint64_t now, seed;
};

static void pair_init(struct pair *p, struct lossy_faults faults, uint64_t seed, uint64_t messages, uint64_t back) {
  *p = (struct pair){.seed = seed};
  const struct tu_reliable_shape shape = {
      .packet_bytes = PACKET, .window = WINDOW, .resend_ticks = RESEND, .session = 7};
  for (int i = 0; i < 2; i++) {
    lossy_wire_init(&p->wires[i], faults, tu_random(&p->seed));
    p->ends[i] = (struct end){.out = &p->wires[i], .in = &p->wires[1 - i], .messages = i ? back : messages};
    tu_reliable_init(&p->ends[i].link, shape);
  }
}

static void pair_fini(struct pair *p) {
  for (int i = 0; i < 2; i++) {
    tu_reliable_fini(&p->ends[i].link);
    lossy_wire_fini(&p->wires[i]);
  }
}

/* Message n of an end: its length and every byte follow from n. */
static uint32_t length_of(uint64_t n) {
  return 8 + (uint32_t)(n * 2654435761u >> 7) % (PACKET - TU_RELIABLE_HEAD_BYTES - 7);
}

static void put_one(struct end *e, uint64_t now) {
  unsigned char *to = tu_reliable_place(&e->link);
  uint32_t bytes = length_of(e->put);
  memset(to, (int)(e->put % 251), bytes);
  memcpy(to, &e->put, sizeof e->put);
  tu_reliable_put(&e->link, bytes, now);
  e->put++;
}

static bool get_one(struct end *e) {
  uint32_t bytes;
  const unsigned char *message = tu_reliable_get(&e->link, &bytes);
  if (!message) return false;
  uint64_t number;
  memcpy(&number, message, sizeof number);
  bool right = number == e->got && bytes == length_of(e->got);
  for (uint32_t i = sizeof number; right && i < bytes; i++) right = message[i] == e->got % 251;
  CHECK(right, "message %llu came as number %llu of %u bytes", (unsigned long long)e->got, (unsigned long long)number,
        bytes);
  tu_reliable_release(&e->link);
  e->got++;
  return true;
}

/* One poll: some messages go in, packets out and in, some messages come out. */
static void poll_end(struct end *e, uint64_t now, uint64_t *seed) {
  unsigned char packet[LOSSY_PACKET_BYTES];
  uint32_t from, bytes;
  uint64_t r = tu_random(seed);
  for (uint64_t k = r % 8; k > 0 && e->put < e->messages && tu_reliable_ready(&e->link); k--) put_one(e, now);
  const unsigned char *next;
  while ((next = tu_reliable_next(&e->link, now, &bytes)) != NULL) lossy_put(e->out, 0, 0, next, bytes);
  size_t length;
  for (uint64_t k = r / 8 % 16; k > 0 && (length = lossy_take(e->in, 0, &from, packet)) > 0; k--)
    (void)tu_reliable_take(&e->link, packet, length, now);
  for (uint64_t k = r / 128 % 16; k > 0 && get_one(e); k--) continue;
}

static bool is_over(const struct pair *p) {
  const struct end *e = p->ends;
  return e[0].put == e[0].messages && e[1].put == e[1].messages && tu_reliable_quiet(&e[0].link) &&
         tu_reliable_quiet(&e[1].link);
}

/* Polls both ends until all is over, or so often. */
static void pair_run(struct pair *p, uint64_t polls) {
  for (uint64_t i = 0; i < polls && !is_over(p) && test_failures == 0; i++) {
    p->now++;
    for (int k = 0; k < 2; k++) poll_end(&p->ends[k], p->now, &p->seed);
  }
}

static void check_all_came(const struct pair *p) {
  CHECK(is_over(p), "after %llu polls %llu of %llu messages were acknowledged", (unsigned long long)p->now,
        (unsigned long long)p->ends[0].link.acked, (unsigned long long)p->ends[0].messages);
  for (int i = 0; i < 2; i++)
    CHECK(p->ends[1 - i].got == p->ends[i].messages, "%llu of %llu messages came",
          (unsigned long long)p->ends[1 - i].got, (unsigned long long)p->ends[i].messages);
}

static void a_million_messages(void) {
  struct pair p;
  pair_init(&p, lossy_usual, test_seed(), 1000000, 1000);
  pair_run(&p, 100000000);
  check_all_came(&p);
  const struct lossy_counts *c = &p.wires[0].counts;
  printf(
      "  1,000,000 messages: %llu packets, of which %llu lost, %llu doubled, %llu damaged, %llu late, %llu outages; "
      "%llu sent again; %llu polls\n",
      (unsigned long long)c->sent, (unsigned long long)c->lost, (unsigned long long)c->doubled,
      (unsigned long long)c->damaged, (unsigned long long)c->late, (unsigned long long)c->outages,
      (unsigned long long)p.ends[0].link.resent_count, (unsigned long long)p.now);
  CHECK(c->lost > 9000 && c->doubled > 9000 && c->late > 9000 && c->outages > 50, "the wire was too good");
  CHECK(p.ends[1].link.doubled_count > 0 && p.ends[1].link.damaged_count > 0, "none was doubled, or none damaged");
  pair_fini(&p);
}

/* Wires of all kinds, from the best to those that carry next to nothing. */
static void any_wire(void) {
  uint64_t seed = test_seed();
  int rounds = test_long() ? 3000 : 150;
  for (int i = 0; i < rounds && test_failures == 0; i++) {
    struct lossy_faults f = {.outage_packets = (uint32_t)(tu_random(&seed) % 200)};
    uint32_t *faults[] = {&f.lost, &f.doubled, &f.damaged, &f.late};
    for (int k = 0; k < 4; k++) *faults[k] = (uint32_t)(tu_random(&seed) % 2 * (tu_random(&seed) % 3000));
    f.outages = (uint32_t)(tu_random(&seed) % 2 * (tu_random(&seed) % 30));
    struct pair p;
    pair_init(&p, f, tu_random(&seed), tu_random(&seed) % 1000, tu_random(&seed) % 1000);
    pair_run(&p, 10000000);
    check_all_came(&p);
    if (test_failures)
      printf("  with %u lost, %u doubled, %u damaged, %u late, %u outages of %u\n", f.lost, f.doubled, f.damaged,
             f.late, f.outages, f.outage_packets);
    pair_fini(&p);
  }
}

/* A good wire costs one packet a message, and few acknowledgements. */
static void a_good_wire(void) {
  struct pair p;
  pair_init(&p, (struct lossy_faults){0}, test_seed(), 50000, 0);
  pair_run(&p, 10000000);
  check_all_came(&p);
  CHECK(p.ends[0].link.resent_count == 0 && p.wires[0].counts.sent == 50000, "%llu packets for 50,000 messages",
        (unsigned long long)p.wires[0].counts.sent);
  CHECK(p.wires[1].counts.sent < 50000, "%llu acknowledgements", (unsigned long long)p.wires[1].counts.sent);
  pair_fini(&p);
}

/* Numbers have 32 bits, and go on at 0. */
static void numbers_turn_over(void) {
  struct pair p;
  pair_init(&p, lossy_usual, test_seed(), 20000, 20000);
  for (int i = 0; i < 2; i++) {
    struct tu_reliable *r = &p.ends[i].link;
    r->sent = r->wired = r->acked = r->taken = UINT32_MAX - 5000;
  }
  pair_run(&p, 10000000);
  check_all_came(&p);
  pair_fini(&p);
}

/* While the wire is down nothing is lost; afterwards all goes on. The window bounds what waits. */
static void an_outage(void) {
  struct pair p;
  pair_init(&p, (struct lossy_faults){0}, test_seed(), 10000, 0);
  pair_run(&p, 100);
  struct tu_reliable *r = &p.ends[0].link;
  p.wires[0].down = true;
  uint64_t before = p.now;
  pair_run(&p, 5000);
  CHECK(r->sent - r->acked == WINDOW && !tu_reliable_ready(r), "%u messages wait", r->sent - r->acked);
  uint64_t silence = tu_reliable_silence(r, p.now);
  CHECK(silence > 4900 && silence <= p.now - before, "silent for %llu polls", (unsigned long long)silence);
  CHECK(r->resent >= 5 && r->resent < 20, "the oldest was sent again %u times in 5,000 polls", r->resent);
  p.wires[0].down = false;
  pair_run(&p, 10000000);
  check_all_came(&p);
  CHECK(tu_reliable_silence(r, p.now) == 0, "nothing waits");
  pair_fini(&p);
}

/* Packets that are not of this link, whole or in part, change nothing. */
static void foreign_packets(void) {
  struct pair p;
  uint32_t bytes, got;
  unsigned char copy[2 * PACKET] = {0};
  uint64_t seed = test_seed();
  pair_init(&p, (struct lossy_faults){0}, 1, 10, 0);
  put_one(&p.ends[0], 0);
  const unsigned char *packet = tu_reliable_next(&p.ends[0].link, 0, &bytes);
  struct tu_reliable *to = &p.ends[1].link;
  for (uint32_t length = 0; length < 2 * PACKET; length++) {
    memcpy(copy, packet, bytes);
    if (length != bytes) CHECK(!tu_reliable_take(to, copy, length, 0), "%u bytes of %u were taken", length, bytes);
  }
  for (uint32_t bit = 0; bit < bytes * 8; bit++) {
    memcpy(copy, packet, bytes);
    copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
    CHECK(!tu_reliable_take(to, copy, bytes, 0), "bit %u was turned", bit);
  }
  for (int i = 0; i < 1000; i++) {
    for (size_t k = 0; k < PACKET; k++) copy[k] = (unsigned char)tu_random(&seed);
    CHECK(!tu_reliable_take(to, copy, 24 + tu_random(&seed) % (PACKET - 24), 0), "noise");
  }
  to->shape.session = 8;
  CHECK(!tu_reliable_take(to, packet, bytes, 0), "a packet of another session");
  CHECK(!tu_reliable_get(to, &got) && !to->owes, "something came out");
  to->shape.session = 7;
  CHECK(tu_reliable_take(to, packet, bytes, 0) && tu_reliable_get(to, &got), "it was good");
  pair_fini(&p);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"a_million_messages", a_million_messages}, {"any_wire", any_wire},   {"a_good_wire", a_good_wire},
      {"numbers_turn_over", numbers_turn_over},   {"an_outage", an_outage}, {"foreign_packets", foreign_packets}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
