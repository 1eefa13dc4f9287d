/* link_bench.c: simulates microbenchmarks on links (links.h): a few channels, and functions that are called when
 * packets arrive. */
#include "sim/link_bench.h"

#include <stdlib.h>

#include "sim/links.h"

/* STARTS: number of runs over which a bandwidth is averaged. In each run, one end of the link starts later than the
 * other, by a different time. The bandwidth depends on this time, because it stays the same during the whole run. */
enum { CHANNELS_MAX = 64, STARTS = 8 };

struct bench {
  const struct tu_link_model *model;
  struct tu_events events;
  struct tu_links *links;
  double bytes, end;
  uint32_t *left; /* [channel]: number of messages that are still to be sent */
  bool workers;   /* true: workers (other processors of the chip) fill and empty the slots */
};

static void play(struct bench *b) {
  while (b->events.count > 0) {
    struct tu_event event = tu_events_take(&b->events);
    tu_links_event(b->links, &event);
  }
  tu_links_destroy(b->links);
  tu_events_fini(&b->events);
}

static void begin(struct bench *b, const struct tu_links_options *options, const struct tu_links_told *told) {
  b->links = tu_links_create(options, &b->events, 0, told);
}

/* ---- bandwidth ---- */

static void send_next(struct bench *b, uint32_t channel, double when) {
  if (b->left[channel] == 0) return;
  b->left[channel]--;
  tu_links_send(b->links, channel, b->bytes, b->workers ? when + tu_link_noc_time(b->model, b->bytes) : when);
}

static void on_freed(void *self, uint32_t channel, double when) {
  struct bench *b = self;
  if (when > b->end) b->end = when;
  send_next(b, channel, when);
}

static void on_arrived(void *self, uint32_t channel, double bytes, double when) {
  struct bench *b = self;
  (void)bytes;
  if (b->workers) tu_links_release(b->links, channel, when + tu_link_noc_time(b->model, b->bytes));
}

/* Simulates a stream of messages in each direction, in which port 1 (the second end of the link) starts `late` seconds
 * after port 0. Returns the duration of the run in seconds. */
static double stream(struct bench *b, uint32_t channels, uint32_t slots, uint32_t messages, double late) {
  const struct tu_links_options options = {.model = b->model, .links = 1};
  const struct tu_links_told told = {b, on_arrived, on_freed, NULL};
  begin(b, &options, &told);
  b->left = tu_allocate(2 * (size_t)channels, sizeof *b->left);
  for (uint32_t i = 0; i < 2 * channels; i++) {
    uint32_t channel = tu_links_add(b->links, i % 2, slots, b->workers ? TU_LINKS_KEEPS : TU_LINKS_ANSWERS);
    b->left[channel] = messages;
  }
  for (uint32_t i = 0; i < 2 * channels; i++)
    for (uint32_t s = 0; s < slots; s++) send_next(b, i, i % 2 * late);
  play(b);
  free(b->left);
  return b->end;
}

static double bandwidth(const struct bench *what, uint32_t channels, uint32_t slots, uint32_t messages) {
  const struct tu_link_model *m = what->model;
  double turn = channels * (m->look_send + m->look_receive + m->change), seconds = 0;
  uint32_t starts = turn > 0 ? STARTS : 1;
  for (uint32_t i = 0; i < starts; i++) {
    struct bench b = *what;
    seconds += stream(&b, channels, slots, messages, turn * i / starts);
  }
  return 2.0 * channels * messages * what->bytes * starts / seconds;
}

double tu_link_bandwidth(const struct tu_link_model *model, double bytes, uint32_t channels, uint32_t messages) {
  struct bench b = {.model = model, .bytes = bytes};
  return bandwidth(&b, channels, 1, messages);
}

double tu_link_mover_bandwidth(const struct tu_link_model *model, double bytes, uint32_t channels, uint32_t slots,
                               uint32_t messages) {
  struct bench b = {.model = model, .bytes = bytes, .workers = true};
  return bandwidth(&b, channels, slots, messages);
}

double tu_link_best_bandwidth(const struct tu_link_model *model, double bytes, uint32_t messages, uint32_t *channels) {
  double best = 0;
  struct tu_error error;
  for (uint32_t c = 1; c <= CHANNELS_MAX && tu_link_fits(model, c, c, bytes, 1, &error) == TUTTI_OK; c++) {
    double speed = tu_link_bandwidth(model, bytes, c, messages);
    if (speed <= best) continue;
    best = speed;
    *channels = c;
  }
  return best;
}

/* ---- pings ---- */

/* A ping on a ring of links: each chip sends an arriving packet on over the next link. Channels are numbered link by
 * link: first all channels of the first link, then those of the second. */
struct ping {
  struct bench b;
  uint32_t channels, hops;
};

static void pass_on(void *self, uint32_t channel, double bytes, double when) {
  struct ping *p = self;
  if (channel / p->channels + 1 < p->hops) tu_links_send(p->b.links, channel + p->channels, bytes, when);
  else if (when > p->b.end) p->b.end = when;
}

static void ignore(void *self, uint32_t channel, double when) { (void)self, (void)channel, (void)when; }

double tu_link_ring_ping(const struct tu_link_model *model, double bytes, uint32_t channels, uint32_t hops,
                         bool flags) {
  struct ping p = {.b = {.model = model, .bytes = bytes}, .channels = channels, .hops = hops};
  const struct tu_links_options options = {.model = model, .links = hops, .way = TU_LINKS_WAITS, .flags = flags};
  const struct tu_links_told told = {&p, pass_on, ignore, NULL};
  begin(&p.b, &options, &told);
  for (uint32_t i = 0; i < hops * channels; i++) tu_links_add(p.b.links, 2 * (i / channels), 1, TU_LINKS_FORWARDS);
  for (uint32_t c = 0; c < channels; c++) tu_links_send(p.b.links, c, bytes, 0);
  play(&p.b);
  return p.b.end;
}

static void nothing(void *self, uint32_t channel, double bytes, double when) {
  (void)self, (void)channel, (void)bytes, (void)when;
}

static void note_end(void *self, uint32_t channel, double when) {
  struct bench *b = self;
  (void)channel;
  b->end = when;
}

void tu_link_round_trip(const struct tu_link_model *model, double bytes, struct tu_link_round_trip *parts) {
  struct bench b = {.model = model, .bytes = bytes};
  const struct tu_links_options options = {.model = model, .links = 1, .way = TU_LINKS_WAITS};
  const struct tu_links_told told = {&b, nothing, note_end, NULL};
  begin(&b, &options, &told);
  tu_links_send(b.links, tu_links_add(b.links, 0, 1, TU_LINKS_ANSWERS), bytes, 0);
  play(&b);
  double issue = model->issue + model->timer, respond = model->respond + model->timer;
  double full = b.end + 2 * model->timer, ideal = bytes / model->bandwidth;
  *parts = (struct tu_link_round_trip){.full = full,
                                       .ack_wait = full - issue - model->between,
                                       .receiver = full + model->loop,
                                       .wire = (full - ideal - issue - respond) / 2,
                                       .one_hop = (full - ideal) / 2,
                                       .issue = issue};
}
