/* channel_trace_test.c: traces of channels, that is, all steps of the real code in seeded schedules, as tu_link_trace
 * reports them. The same seed gives the same trace, and each trace shows the whole protocol. tests/model_test.sh calls
 * `channel_trace_test --write FILE COUNT SEED schedules|threads|spoilt`, which writes traces to a file, and then checks
 * that the model of the protocol can follow them. */
#include <pthread.h>
#include <sched.h>
#include <tutti/channel.h>

#include "api/comm_create.h"
#include "ranks.h"
#include "stream/channel.h"
#include "stream/link.h"
#include "test.h"

enum {
  SLICE = 1 << 20,
  CHANNELS_MAX = 3,
  SLOTS_MAX = 4,
  MESSAGES_MAX = 8,
  OPERATIONS_MAX = 3,
  EVENTS_MAX = 2000,
  STEPS_MAX = 1000000
};

/* ---- the trace ---- */

static struct tu_link_event events[EVENTS_MAX];
static uint32_t event_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local uint64_t
    pauses; /* random state for pauses, if each end has its own thread; 0: one thread, no pauses */

static void hear(const struct tu_link_event *event) {
  pthread_mutex_lock(&lock);
  if (event_count < EVENTS_MAX) events[event_count] = *event;
  event_count++;
  pthread_mutex_unlock(&lock);
  if (pauses && tu_random(&pauses) % 3 == 0) sched_yield();
}

/* ---- a schedule: one thread drives both ends in random order, or each end has a thread ---- */

struct end {
  tutti_channel *channel; /* NULL: closed */
  bool sends;
  uint64_t length, at, peeked, acked;
};

struct side {
  tutti_comm *comm;
  uint32_t operation; /* number of operations begun */
  uint64_t random;
  struct end ends[CHANNELS_MAX];
};

struct play {
  tutti_channel_options options;
  uint32_t channels, operations;
  uint32_t from[CHANNELS_MAX]; /* rank that sends */
  uint64_t length[OPERATIONS_MAX]
                 [CHANNELS_MAX]; /* numbers of messages; for counted streams, the same in all operations */
  struct side sides[2];
  uint64_t random;
  _Atomic bool stops; /* a call of one end has failed */
};

static void draw(struct play *p) {
  uint64_t *r = &p->random;
  p->options = (tutti_channel_options){.slots = 1 + (uint32_t)(tu_random(r) % SLOTS_MAX),
                                       .slot_bytes = 16,
                                       .ending = tu_random(r) % 2 ? TUTTI_CHANNEL_COUNTED : TUTTI_CHANNEL_MARKED,
                                       .shared = tu_random(r) % 3 == 0,
                                       .separate_flag = tu_random(r) % 2};
  p->channels = 1 + (uint32_t)(tu_random(r) % CHANNELS_MAX);
  p->operations = 1 + (uint32_t)(tu_random(r) % OPERATIONS_MAX);
  for (uint32_t c = 0; c < p->channels; c++) p->from[c] = (uint32_t)(tu_random(r) % 2);
  bool counted = p->options.ending == TUTTI_CHANNEL_COUNTED;
  for (uint32_t n = 0; n < p->operations; n++)
    for (uint32_t c = 0; c < p->channels; c++)
      p->length[n][c] = counted && n > 0 ? p->length[0][c] : 1 + tu_random(r) % MESSAGES_MAX;
}

static bool build(struct play *p, uint32_t rank) {
  struct side *s = &p->sides[rank];
  tutti_channel_builder *b = NULL;
  tutti_channel *channels[CHANNELS_MAX];
  bool good = tutti_channel_builder_create(s->comm, &p->options, &b) == TUTTI_OK;
  for (uint32_t c = 0; c < p->channels && good; c++) {
    uint64_t length = p->length[s->operation][c];
    uint64_t stated = p->options.ending == TUTTI_CHANNEL_COUNTED ? length : 0;
    s->ends[c] = (struct end){.sends = p->from[c] == rank, .length = length};
    good = (s->ends[c].sends ? tutti_channel_add_sender : tutti_channel_add_receiver)(b, 1 - rank, stated, NULL) ==
           TUTTI_OK;
  }
  good = good && tutti_channel_build(b, channels) == TUTTI_OK;
  for (uint32_t c = 0; c < p->channels && good; c++) s->ends[c].channel = channels[c];
  tutti_channel_builder_free(b);
  s->operation++;
  return good;
}

static bool send_step(const struct play *p, struct side *s, struct end *e) {
  uint64_t acked;
  void *slot = NULL;
  if (tu_random(&s->random) % 3 == 0) return tutti_channel_try_acked(e->channel, &acked) == TUTTI_OK;
  if (tutti_channel_try_acquire(e->channel, &slot) != TUTTI_OK) return false;
  if (!slot || tu_random(&s->random) % 3 == 0) return true; /* the message is delayed at random */
  memcpy(slot, &e->at, sizeof e->at);
  e->at++;
  bool last = e->at == e->length && p->options.ending == TUTTI_CHANNEL_MARKED;
  return tutti_channel_commit(e->channel, sizeof e->at, last) == TUTTI_OK;
}

static bool peek_step(const struct play *p, struct side *s, struct end *e) {
  tutti_channel_message m;
  uint64_t number, ahead = tu_random(&s->random) % p->options.slots;
  if (e->at + ahead >= e->length) ahead = 0;
  if (tutti_channel_try_peek(e->channel, (uint32_t)ahead, &m) != TUTTI_OK) return false;
  if (!m.data) return true;
  memcpy(&number, m.data, sizeof number);
  if (e->peeked < m.number + 1) e->peeked = m.number + 1;
  return number == m.number && m.number == e->at + ahead;
}

/* Acknowledges what was peeked at, even if it has been released since. */
static bool ack_step(struct end *e) {
  if (e->acked == e->peeked) return true;
  e->acked = e->peeked;
  return tutti_channel_ack(e->channel) == TUTTI_OK;
}

static bool receive_step(const struct play *p, struct side *s, struct end *e) {
  switch (tu_random(&s->random) % 3) {
    case 0: return e->at < e->length ? peek_step(p, s, e) : true;
    case 1: return ack_step(e);
    default:
      if (e->at == e->peeked) return true;
      e->at++;
      return tutti_channel_release(e->channel) == TUTTI_OK;
  }
}

static bool step(struct play *p, uint32_t rank) {
  struct side *s = &p->sides[rank];
  uint32_t open = 0;
  for (uint32_t c = 0; c < p->channels; c++) open += s->ends[c].channel != NULL;
  if (open == 0) return s->operation == p->operations || build(p, rank);
  struct end *e = &s->ends[tu_random(&s->random) % p->channels];
  if (!e->channel) return true;
  if (e->at < e->length) return e->sends ? send_step(p, s, e) : receive_step(p, s, e);
  if (!e->sends && tu_random(&s->random) % 2 && !ack_step(e)) return false;
  bool closed = false;
  if (tutti_channel_try_close(e->channel, &closed) != TUTTI_OK) return false;
  if (closed) e->channel = NULL;
  return true;
}

static bool side_is_over(const struct play *p, uint32_t rank) {
  const struct side *s = &p->sides[rank];
  bool over = s->operation == p->operations;
  for (uint32_t c = 0; c < p->channels; c++) over &= s->ends[c].channel == NULL;
  return over;
}

static bool is_over(const struct play *p) { return side_is_over(p, 0) && side_is_over(p, 1); }

/* One thread makes random steps of both ends. In some schedules one end makes most steps, so that the other is late. */
static bool play_alone(struct play *p) {
  uint32_t bias = (uint32_t)(tu_random(&p->random) % 9) + 1;
  bool good = true;
  for (uint32_t i = 0; i < STEPS_MAX && good && !is_over(p); i++) good = step(p, tu_random(&p->random) % 10 < bias);
  return good && is_over(p);
}

struct player {
  struct play *play;
  uint32_t rank;
  bool good;
};

/* Makes the steps of one end on a thread of its own. The other end waits without a time limit, as a thread may be
 * without a core for long. */
static void *play_side(void *argument) {
  struct player *player = argument;
  struct play *p = player->play;
  pauses = p->random + player->rank;
  player->good = true;
  for (uint32_t i = 1; player->good && !p->stops && !side_is_over(p, player->rank); i++) {
    player->good = step(p, player->rank);
    if (i % 8 == 0) sched_yield();
    if (i % 1024 == 0) ranks_sleep_us(100);
  }
  if (!player->good) p->stops = true;
  return NULL;
}

static bool play_together(struct play *p) {
  pthread_t threads[2];
  struct player players[2] = {{.play = p, .rank = 0}, {.play = p, .rank = 1}};
  for (uint32_t r = 0; r < 2; r++)
    if (pthread_create(&threads[r], NULL, play_side, &players[r]) != 0) abort();
  for (uint32_t r = 0; r < 2; r++) pthread_join(threads[r], NULL);
  return players[0].good && players[1].good;
}

/* Runs a schedule and leaves the trace in events[]. */
static bool play(struct play *p, uint64_t seed, bool (*how)(struct play *p)) {
  struct tu_transport *endpoints[2];
  struct tu_error error = {0};
  const uint32_t members[2] = {0, 1};
  *p = (struct play){.random = seed};
  draw(p);
  event_count = 0;
  if (tu_loop_create(2, SLICE, endpoints, &error) != TUTTI_OK) return false;
  for (uint32_t r = 0; r < 2; r++) {
    p->sides[r].random = tu_random(&p->random);
    if (tu_comm_create(endpoints[r], members, 2, r, TU_WORLD_ID, 10000, &p->sides[r].comm, &error) != TUTTI_OK)
      return false;
  }
  tu_link_trace = hear;
  bool good = how(p) && event_count <= EVENTS_MAX;
  tu_link_trace = NULL;
  for (uint32_t r = 2; r-- > 0;) good &= tutti_comm_free(p->sides[r].comm) == TUTTI_OK;
  return good;
}

/* ---- traces in a file ---- */

/* Changes the trace into one that the protocol does not allow: removes a step, or changes its number. */
static void spoil(uint64_t *random) {
  static const bool needed[TU_LINK_STEPS] = {
      [TU_LINK_CLEAR] = true, [TU_LINK_CALL] = true,    [TU_LINK_SEE_CALL] = true, [TU_LINK_OPEN] = true,
      [TU_LINK_FILL] = true,  [TU_LINK_FLAG] = true,    [TU_LINK_ACQUIRE] = true,  [TU_LINK_SEE_FLAG] = true,
      [TU_LINK_ENDED] = true, [TU_LINK_RELEASE] = true, [TU_LINK_DRAINED] = true,  [TU_LINK_HELLO] = true};
  uint32_t at = (uint32_t)(tu_random(random) % event_count);
  if (tu_random(random) % 2) {
    events[at].number++;
    return;
  }
  while (!needed[events[at].step]) at = at ? at - 1 : event_count - 1;
  memmove(&events[at], &events[at + 1], (--event_count - at) * sizeof events[0]);
}

static void print(FILE *file, const struct play *p) {
  fprintf(file, "trace %u %u %u %d %d", p->channels, p->options.slots, p->operations,
          p->options.ending == TUTTI_CHANNEL_COUNTED, p->options.shared);
  for (uint32_t c = 0; c < p->channels; c++) fprintf(file, " %u %u", p->from[c], (unsigned)p->length[0][c]);
  fprintf(file, "\n");
  for (uint32_t i = 0; i < event_count; i++) {
    const struct tu_link_event *e = &events[i];
    fprintf(file, "%d %u %u %u %u %u %d\n", (int)e->step, e->rank, e->operation, e->channel, (unsigned)e->number,
            e->slot, e->last);
  }
}

static int write_traces(const char *name, uint32_t count, uint64_t seed, const char *kind) {
  static struct play p;
  FILE *file = fopen(name, "w");
  bool good = file != NULL;
  for (uint32_t i = 0; i < count && good; i++) {
    uint64_t random = seed + i;
    good = play(&p, tu_random(&random), strcmp(kind, "threads") == 0 ? play_together : play_alone);
    if (good && strcmp(kind, "spoilt") == 0) spoil(&random);
    if (good) print(file, &p);
    else fprintf(stderr, "schedule %u of seed %llu: %s\n", i, (unsigned long long)seed, tutti_error_message(NULL));
  }
  return file && fclose(file) == 0 && good ? 0 : 1;
}

/* ---- properties of traces ---- */

static void a_seed_is_a_schedule(void) {
  static struct play p;
  static struct tu_link_event before[EVENTS_MAX];
  uint64_t seed = test_seed();
  for (uint64_t i = 0; i < 20; i++) {
    CHECK(play(&p, seed + i, play_alone), "schedule %u: %s", (unsigned)i, tutti_error_message(NULL));
    uint32_t count = event_count;
    memcpy(before, events, count * sizeof events[0]);
    CHECK(play(&p, seed + i, play_alone) && event_count == count, "%u steps, then %u with the same seed", count,
          event_count);
    for (uint32_t k = 0; k < count && k < event_count; k++)
      CHECK(before[k].step == events[k].step && before[k].rank == events[k].rank &&
                before[k].number == events[k].number && before[k].channel == events[k].channel,
            "step %u of %u differs", k, count);
  }
}

/* Every step occurs, except the mismatch of two ends. Messages are acquired, filled, flagged, seen and released as
 * often as they are sent. */
static void all_steps_are_told(void) {
  static struct play p;
  uint64_t seed = test_seed(), counts[TU_LINK_STEPS] = {0}, messages = 0;
  for (uint64_t i = 0; i < 200; i++) {
    CHECK(play(&p, seed + i, play_alone), "schedule %u: %s", (unsigned)i, tutti_error_message(NULL));
    for (uint32_t k = 0; k < event_count; k++) counts[events[k].step]++;
    for (uint32_t n = 0; n < p.operations; n++)
      for (uint32_t c = 0; c < p.channels; c++) messages += p.length[n][c];
  }
  for (int s = 0; s < TU_LINK_STEPS; s++)
    CHECK((counts[s] > 0) == (s != TU_LINK_MISMATCH), "step %d: never reported, or reported in error", s);
  static const enum tu_link_step each[] = {TU_LINK_ACQUIRE, TU_LINK_FILL, TU_LINK_FLAG, TU_LINK_SEE_FLAG,
                                           TU_LINK_RELEASE};
  for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
    CHECK(counts[each[i]] == messages, "step %d: %llu times, for %llu messages", (int)each[i],
          (unsigned long long)counts[each[i]], (unsigned long long)messages);
}

/* After all messages that have arrived are released, an acknowledgement must not be written: the memory may be in use
 * again. */
static void what_is_released_is_not_acknowledged(void) {
  static struct play p;
  uint64_t seed = test_seed();
  for (uint64_t i = 0; i < 200 && test_failures == 0; i++) {
    uint64_t released[OPERATIONS_MAX + 1][CHANNELS_MAX] = {{0}};
    CHECK(play(&p, seed + i, play_alone), "schedule %u: %s", (unsigned)i, tutti_error_message(NULL));
    for (uint32_t k = 0; k < event_count; k++) {
      const struct tu_link_event *e = &events[k];
      if (e->step == TU_LINK_RELEASE) released[e->operation][e->channel]++;
      if (e->step == TU_LINK_ACK)
        CHECK(e->number > released[e->operation][e->channel], "step %u: %u messages acknowledged, but all are released",
              k, (unsigned)e->number);
    }
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"a_seed_is_a_schedule", a_seed_is_a_schedule},
                                      {"all_steps_are_told", all_steps_are_told},
                                      {"what_is_released_is_not_acknowledged", what_is_released_is_not_acknowledged}};
  ranks_clear_environment();
  if (argc == 6 && strcmp(argv[1], "--write") == 0)
    return write_traces(argv[2], (uint32_t)strtoul(argv[3], NULL, 10), strtoull(argv[4], NULL, 10), argv[5]);
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
