/* bench_hosts_measure.c: the loops of `tutti bench links --hosts`. In a put or a get, only rank 0 is active: the peer
 * waits for a message meanwhile. All data is checked after each batch; a ping also while it runs, by its number. */
#include "cli/bench/bench_hosts.h"

#include <string.h>

enum {
  BATCHES = 7,      /* number of measured batches */
  BATCHES_SLOW = 3, /* the same, if a batch takes longer than SLOW_US */
  SLOW_US = 1000000,
  WARM_BATCHES = 20,   /* maximum number of batches of the warm-up */
  WARM_GROWTH = 8,     /* maximum growth of a batch in the warm-up */
  COUNT_MAX = 1 << 24, /* maximum number of operations of a batch */
  STAMP_BYTES = 8      /* of a ping: its number */
};

struct batch {
  size_t bytes;
  uint32_t count; /* number of operations */
  double wrong;   /* number of wrong words on this rank */
  /* when the last operation has ended on this rank */
  uint64_t ended_ns;
  double ended_cpu_us;
};

/* ---- contents ---- */

static unsigned char *from_slot(unsigned char *part, const struct hosts_end *e, uint32_t slot) {
  return part + slot * e->stride;
}
static unsigned char *to_slot(unsigned char *part, const struct hosts_end *e, uint32_t slot) {
  return part + (HOSTS_BUFFERS + slot) * e->stride;
}

static uint64_t word(const struct hosts_end *e, bool of_leader, uint32_t slot, size_t i) {
  return (e->round << 40 | (uint64_t)slot << 32 | i) * 0x9e3779b97f4a7c15u + of_leader;
}

static void fill(const struct hosts_end *e, size_t bytes) {
  for (uint32_t slot = 0; slot < HOSTS_BUFFERS; slot++) {
    unsigned char *to = from_slot(e->own, e, slot);
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
      const uint64_t value = word(e, e->leads, slot, at / sizeof value);
      memcpy(to + at, &value, tu_min(bytes - at, sizeof value));
    }
  }
}

/* Counts the wrong words in a buffer that the peer has filled, from the byte `at` on. */
static double count_wrong(const struct hosts_end *e, uint32_t slot, size_t at, size_t bytes) {
  const unsigned char *found = to_slot(e->own, e, slot);
  size_t wrong = 0;
  for (; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t value = word(e, !e->leads, slot, at / sizeof value);
    wrong += memcmp(found + at, &value, tu_min(bytes - at, sizeof value)) != 0;
  }
  return (double)wrong;
}

static double count_all_wrong(const struct hosts_end *e, size_t bytes) {
  double wrong = 0;
  for (uint32_t slot = 0; slot < HOSTS_BUFFERS; slot++) wrong += count_wrong(e, slot, 0, bytes);
  return wrong;
}

/* ---- the tests ---- */

static void end(struct batch *b) {
  b->ended_ns = tu_clock_ns();
  b->ended_cpu_us = bench_cpu_us();
}

static tutti_err give(const struct hosts_end *e, const void *from, size_t bytes) {
  return tutti_send(e->world, from, bytes, TUTTI_U8, e->peer, 0);
}
static tutti_err take(const struct hosts_end *e, void *to, size_t bytes) {
  return tutti_recv(e->world, to, bytes, TUTTI_U8, e->peer, 0);
}

static tutti_err exchange(const struct hosts_end *e, const void *out, void *in, size_t bytes) {
  const tutti_err err = e->leads ? give(e, out, bytes) : take(e, in, bytes);
  if (err != TUTTI_OK) return err;
  return e->leads ? take(e, in, bytes) : give(e, out, bytes);
}

static tutti_err meet(const struct hosts_end *e) {
  char out = 0, in;
  return exchange(e, &out, &in, sizeof out);
}

static tutti_err run_ping(const struct hosts_end *e, struct batch *b) {
  unsigned char *out = from_slot(e->own, e, 0), *in = to_slot(e->own, e, 0);
  const size_t stamp_bytes = tu_min(b->bytes, STAMP_BYTES);
  tutti_err err = TUTTI_OK;
  for (uint64_t i = 0; i < b->count && err == TUTTI_OK; i++) {
    memcpy(out, &i, stamp_bytes);
    err = exchange(e, out, in, b->bytes);
    b->wrong += memcmp(in, &i, stamp_bytes) != 0;
  }
  end(b);
  b->wrong += count_wrong(e, 0, stamp_bytes, b->bytes);
  return err;
}

static tutti_err flat(tutti_tensor *t, void *data, size_t bytes) {
  const size_t shape[] = {bytes};
  return tutti_tensor_strided(t, (tutti_tensor_of){data, TUTTI_U8, 1, shape}, NULL);
}

static tutti_err start_copy(const struct hosts_end *e, bool puts, uint32_t slot, size_t bytes, tutti_event *event) {
  tutti_tensor from, to;
  tutti_err err = flat(&from, from_slot(puts ? e->own : e->others, e, slot), bytes);
  if (err == TUTTI_OK) err = flat(&to, to_slot(puts ? e->others : e->own, e, slot), bytes);
  if (err != TUTTI_OK) return err;
  return puts ? tutti_put_start(e->session, &from, &to, event) : tutti_get_start(e->session, &from, &to, event);
}

/* Copies to and from the same buffers are open at the same time: they carry the same data. */
static tutti_err copy(const struct hosts_end *e, bool puts, struct batch *b) {
  tutti_err err = TUTTI_OK;
  tutti_event event = {0};
  for (uint32_t i = 0; i < b->count && err == TUTTI_OK && e->leads; i++) {
    err = start_copy(e, puts, i % HOSTS_BUFFERS, b->bytes, &event);
    if (err == TUTTI_OK && ((i + 1) % e->outstanding == 0 || i + 1 == b->count)) err = tutti_event_wait(event);
  }
  if (e->leads) end(b);
  if (err == TUTTI_OK) err = meet(e);
  if (!e->leads) end(b);
  if (e->leads != puts) b->wrong += count_all_wrong(e, b->bytes);
  return err;
}

/* Messages: each buffer has at most one under way. */
static tutti_err stream(const struct hosts_end *e, bool sends, bool receives, struct batch *b) {
  tutti_request *out[HOSTS_BUFFERS] = {NULL}, *in[HOSTS_BUFFERS] = {NULL};
  tutti_err err = TUTTI_OK;
  for (uint32_t i = 0; i < b->count + HOSTS_BUFFERS && err == TUTTI_OK; i++) {
    const uint32_t slot = i % HOSTS_BUFFERS;
    if (in[slot]) err = tutti_wait(&in[slot]);
    if (err == TUTTI_OK && out[slot]) err = tutti_wait(&out[slot]);
    if (i >= b->count) continue;
    if (err == TUTTI_OK && receives)
      err = tutti_irecv(e->world, to_slot(e->own, e, slot), b->bytes, TUTTI_U8, e->peer, 0, &in[slot]);
    if (err == TUTTI_OK && sends)
      err = tutti_isend(e->world, from_slot(e->own, e, slot), b->bytes, TUTTI_U8, e->peer, 0, &out[slot]);
  }
  for (uint32_t slot = 0; slot < HOSTS_BUFFERS && err != TUTTI_OK; slot++) {
    if (in[slot]) tutti_request_free(in[slot]);
    if (out[slot]) tutti_request_free(out[slot]);
  }
  if (err == TUTTI_OK) err = meet(e);
  end(b);
  if (receives) b->wrong += count_all_wrong(e, b->bytes);
  return err;
}

static tutti_err run_test(const struct hosts_end *e, enum hosts_test test, struct batch *b) {
  switch (test) {
    case HOSTS_PING: return run_ping(e, b);
    case HOSTS_PUT: return copy(e, true, b);
    case HOSTS_GET: return copy(e, false, b);
    case HOSTS_SEND: return stream(e, e->leads, !e->leads, b);
    default: return stream(e, true, true, b);
  }
}

/* ---- measuring ---- */

/* Of one operation; equal on both ranks. */
struct sample {
  double us, cpu_us, peer_us, wrong;
};

static tutti_err run_batch(struct hosts_end *e, enum hosts_test test, size_t bytes, uint32_t count,
                           struct sample *sample) {
  struct batch b = {.bytes = bytes, .count = count};
  e->round++;
  fill(e, bytes);
  tutti_err err = meet(e);
  if (err != TUTTI_OK) return err;
  const double cpu_us = bench_cpu_us(), steps = test == HOSTS_PING ? 2.0 * count : count;
  const uint64_t started_ns = tu_clock_ns();
  err = run_test(e, test, &b);
  const double mine[] = {(double)(b.ended_ns - started_ns) / 1e3 / steps, (b.ended_cpu_us - cpu_us) / steps, b.wrong};
  double others[3] = {0};
  if (err == TUTTI_OK) err = exchange(e, mine, others, sizeof mine);
  const double *first = e->leads ? mine : others, *second = e->leads ? others : mine;
  *sample = (struct sample){.us = first[0], .cpu_us = first[1], .peer_us = second[1], .wrong = mine[2] + others[2]};
  return err;
}

/* Finds a number of operations that takes the wanted time. */
static tutti_err warm(struct hosts_end *e, enum hosts_test test, size_t bytes, uint32_t *count, double *wrong,
                      double *batch_us) {
  const double wanted_us = e->time_ms * 1e3 / BATCHES;
  const double per_step = test == HOSTS_PING ? 2 : 1;
  *count = HOSTS_BUFFERS;
  for (uint32_t i = 0; i < WARM_BATCHES; i++) {
    struct sample sample;
    const tutti_err err = run_batch(e, test, bytes, *count, &sample);
    if (err != TUTTI_OK) return err;
    const double us = sample.us * per_step, fitting = wanted_us / us;
    *wrong += sample.wrong;
    *batch_us = us * *count;
    if (*count >= fitting * 0.8 && (i > 0 || *batch_us > SLOW_US)) break;
    *count = (uint32_t)tu_max(*count, tu_min(tu_min((size_t)fitting, COUNT_MAX), (size_t)*count * WARM_GROWTH));
  }
  return TUTTI_OK;
}

tutti_err hosts_measure(struct hosts_end *e, enum hosts_test test, size_t bytes, struct hosts_row *row) {
  double us[BATCHES], cpu_us[BATCHES], peer_us[BATCHES], batch_us = 0;
  uint32_t count;
  *row = (struct hosts_row){0};
  tutti_err err = warm(e, test, bytes, &count, &row->wrong, &batch_us);
  if (err != TUTTI_OK) return err;
  const uint32_t batches = batch_us > SLOW_US ? BATCHES_SLOW : BATCHES;
  for (uint32_t i = 0; i < batches; i++) {
    struct sample sample;
    if ((err = run_batch(e, test, bytes, count, &sample)) != TUTTI_OK) return err;
    us[i] = sample.us;
    cpu_us[i] = sample.cpu_us;
    peer_us[i] = sample.peer_us;
    row->wrong += sample.wrong;
  }
  row->us = bench_median(us, batches); /* bench_median sorts */
  row->us_min = us[0];
  row->cpu_us = bench_median(cpu_us, batches);
  row->peer_us = bench_median(peer_us, batches);
  return TUTTI_OK;
}
