/* program.c: programs of the simulated world: made from a seed, printed, and the membership of their communicators. */
#include <stdio.h>
#include <string.h>

#include "tests/world/world.h"

uint64_t world_mix(uint64_t seed, uint64_t a, uint64_t b) {
  uint64_t z = seed + a * 0x9e3779b97f4a7c15u + b * 0xc2b2ae3d27d4eb4fu + 0x165667b19e3779f9u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

struct source {
  uint64_t seed, drawn;
};

static uint64_t draw(struct source *s, uint64_t below) { return world_mix(s->seed, ++s->drawn, 0) % below; }

/* ---- communicators ---- */

uint32_t world_colour(const struct world_act *act, uint32_t rank) {
  uint32_t colours = act->kind == WORLD_CREATE ? 2 : 1 + (uint32_t)(act->seed % 3);
  return act->kind == WORLD_DUP ? 0 : (uint32_t)(world_mix(act->seed, rank, 1) % colours);
}

uint32_t world_maker(const struct world_program *p, uint32_t act, uint8_t slot) {
  uint32_t maker = UINT32_MAX;
  for (uint32_t i = 0; i < act; i++) {
    const struct world_act *a = &p->act[i];
    if (world_makes(a) && a->made == slot) maker = i;
    if ((a->kind == WORLD_FREE || a->kind == WORLD_CLOSE || a->kind == WORLD_LEAVE) && a->comm == slot)
      maker = UINT32_MAX;
  }
  return maker;
}

uint32_t world_members(const struct world_program *p, uint32_t act, uint8_t slot, uint32_t rank,
                       uint32_t members[WORLD_RANKS_MAX]) {
  uint32_t parents[WORLD_RANKS_MAX], count = 0;
  if (slot == 0) {
    for (uint32_t r = 0; r < p->ranks; r++) members[r] = r;
    return p->ranks;
  }
  uint32_t maker = world_maker(p, act, slot);
  if (maker == UINT32_MAX) return 0;
  const struct world_act *a = &p->act[maker];
  uint32_t colour = world_colour(a, rank);
  if (a->kind == WORLD_CREATE && colour != 0) return 0;
  uint32_t parent = world_members(p, maker, a->comm, rank, parents);
  for (uint32_t i = 0; i < parent; i++)
    if (world_colour(a, parents[i]) == colour) members[count++] = parents[i];
  return count;
}

/* ---- hosts ---- */

uint32_t world_local(const struct world_program *p, uint32_t rank) {
  uint32_t before = 0;
  for (uint32_t r = 0; r < rank; r++) before += p->host[r] == p->host[rank];
  return before;
}

uint32_t world_locals(const struct world_program *p, uint32_t host) {
  uint32_t count = 0;
  for (uint32_t r = 0; r < p->ranks; r++) count += p->host[r] == host;
  return count;
}

bool world_speaks(const struct world_program *p, uint32_t rank, uint32_t other) {
  const uint32_t both = 1u << p->host[rank] | 1u << p->host[other];
  return p->host[rank] != p->host[other] && (p->fabric_hosts & both) == both;
}

/* ---- time ---- */

/* The time limit that an act of kind WORLD_LIMIT sets, in ms. */
static uint32_t limit_of(const struct world_program *p, const struct world_act *a) {
  return (uint32_t)(world_mix(a->seed, 3, 0) % 2 ? 10000 : 200 + world_mix(a->seed, 4, 0) % 400) +
         (world_locals(p, p->host[0]) < p->ranks ? 500 : 0);
}

uint32_t world_limit(const struct world_program *p, uint32_t act, uint8_t slot) {
  const uint32_t maker = world_maker(p, act, slot);
  uint32_t limit = (unsigned)p->timeout_ms;
  if (maker != UINT32_MAX) limit = world_limit(p, maker, p->act[maker].comm);
  for (uint32_t i = maker == UINT32_MAX ? 0 : maker; i < act; i++)
    if (p->act[i].kind == WORLD_LIMIT && p->act[i].comm == slot) limit = limit_of(p, &p->act[i]);
  return limit;
}

uint32_t world_limit_max(const struct world_program *p) {
  uint32_t most = (unsigned)p->timeout_ms;
  for (uint32_t i = 0; i < p->acts; i++)
    if (p->act[i].kind == WORLD_LIMIT && limit_of(p, &p->act[i]) > most) most = limit_of(p, &p->act[i]);
  return most;
}

uint64_t world_work_us(const struct world_program *p, uint32_t act, uint32_t rank) {
  const uint64_t s = p->act[act].seed;
  uint32_t before = 0;
  for (uint32_t i = 0; i < act; i++) before += p->act[i].kind == WORLD_COMPUTE;
  /* Less than half of the shortest time limit, so that no rank waits too long. */
  return before == 0 && s % p->ranks == rank ? world_mix(s, 5, 0) % 90000 : world_mix(s, rank, 1) % 3000;
}

/* ---- making ---- */

static uint8_t any_comm(const struct world_program *p, uint32_t act, struct source *s) {
  uint8_t full[WORLD_COMMS_MAX] = {0}, count = 1;
  for (uint8_t slot = 1; slot < WORLD_COMMS_MAX; slot++)
    if (world_maker(p, act, slot) != UINT32_MAX) full[count++] = slot;
  return full[draw(s, count)];
}

static uint8_t empty_slot(const struct world_program *p, uint32_t act) {
  for (uint8_t slot = 1; slot < WORLD_COMMS_MAX; slot++)
    if (world_maker(p, act, slot) == UINT32_MAX) return slot;
  return 0;
}

/* Adds acts that finish the open requests of a communicator (slot UINT8_MAX: all). */
static void finish(struct world_program *p, uint8_t open[WORLD_REQUESTS_MAX], uint8_t slot) {
  for (uint8_t i = 0; i < WORLD_REQUESTS_MAX; i++)
    if (open[i] != UINT8_MAX && (open[i] == slot || slot == UINT8_MAX)) {
      p->act[p->acts++] = (struct world_act){.kind = WORLD_FINISH, .comm = open[i], .request = i};
      open[i] = UINT8_MAX;
    }
}

bool world_makes(const struct world_act *act) {
  return act->kind == WORLD_DUP || act->kind == WORLD_SPLIT || act->kind == WORLD_CREATE;
}

/* Makes the act like an earlier one on the same parent: of the same ranks, with the same tag. */
static void repeat_create(const struct world_program *p, struct world_act *a) {
  for (uint32_t i = 0; i < p->acts; i++)
    if (p->act[i].kind == WORLD_CREATE && p->act[i].comm == a->comm) a->seed = p->act[i].seed;
}

static void add_act(struct world_program *p, struct source *s, uint8_t open[WORLD_REQUESTS_MAX]) {
  static const uint8_t weights[WORLD_KINDS] = {
      [WORLD_CALL] = 50,  [WORLD_EXCHANGE] = 5, [WORLD_BURST] = 3, [WORLD_TENSOR] = 6,  [WORLD_WINDOW] = 6,
      [WORLD_STREAM] = 6, [WORLD_FINISH] = 6,   [WORLD_DUP] = 3,   [WORLD_SPLIT] = 4,   [WORLD_CREATE] = 3,
      [WORLD_FREE] = 3,   [WORLD_CLOSE] = 2,    [WORLD_LEAVE] = 4, [WORLD_COMPUTE] = 8, [WORLD_LIMIT] = 2};
  struct world_act a = {.seed = world_mix(s->seed, ++s->drawn, 7)};
  uint64_t at = draw(s, 111);
  while (at >= weights[a.kind]) at -= weights[a.kind++];
  a.comm = any_comm(p, p->acts, s);
  a.request = (uint8_t)draw(s, WORLD_REQUESTS_MAX);
  a.form = (enum world_form)draw(s, WORLD_FORMS);
  a.made = empty_slot(p, p->acts);
  switch (a.kind) {
    case WORLD_DUP:
    case WORLD_SPLIT:
    case WORLD_CREATE:
      if (a.made == 0) return;
      if (a.kind == WORLD_CREATE && a.seed % 2) repeat_create(p, &a);
      break;
    case WORLD_FREE:
    case WORLD_CLOSE:
    case WORLD_LEAVE:
      if (a.comm == 0) return;
      finish(p, open, a.comm);
      break;
    case WORLD_FINISH:
      if (open[a.request] == UINT8_MAX) return;
      a.comm = open[a.request];
      open[a.request] = UINT8_MAX;
      break;
    case WORLD_CALL:
    case WORLD_EXCHANGE:
      if (a.form != WORLD_LATER) break;
      if (open[a.request] != UINT8_MAX) a.form = WORLD_START;
      else open[a.request] = a.comm;
      break;
    default: break;
  }
  p->act[p->acts++] = a;
}

bool world_is_at_act(enum world_mishap mishap) {
  return mishap == WORLD_ABORT || mishap == WORLD_MISMATCH || mishap == WORLD_ABSENT || mishap == WORLD_EXIT;
}

static void add_faults(struct world_program *p, struct source *s) {
  uint32_t faults = (uint32_t)draw(s, 3);
  if (faults == 2) faults = (uint32_t)draw(s, WORLD_FAULTS_MAX + 1);
  for (uint32_t i = 0; i < faults; i++) {
    struct world_fault f = {(enum world_mishap)draw(s, WORLD_MISHAPS), (uint32_t)draw(s, p->ranks), 0, false};
    f.timed =
        (f.mishap == WORLD_KILL || f.mishap == WORLD_STOP || f.mishap == WORLD_PAUSE || f.mishap == WORLD_REFUSED) &&
        draw(s, 2) == 0;
    f.at = f.timed && f.mishap == WORLD_REFUSED ? draw(s, p->acts * WORLD_ACT_ALLOCATIONS)
           : f.timed                            ? draw(s, (uint64_t)1000000 << draw(s, 8))
           : world_is_at_act(f.mishap)          ? draw(s, p->acts)
           : f.mishap == WORLD_REFUSED          ? draw(s, 2000)
                                                : draw(s, 20000);
    p->fault[p->faults++] = f;
  }
}

static uint32_t draw_below(struct source *s, uint64_t below) { return (uint32_t)draw(s, below); }

/* Draws traits of the fabric. Each is absent in half of the worlds or more. */
static void draw_traits(struct fake_fabric_traits *t, struct source *s) {
  static const int modes[] = {TU_FI_MR_LOCAL, TU_FI_MR_VIRT_ADDR, TU_FI_MR_ALLOCATED, TU_FI_MR_PROV_KEY,
                              TU_FI_MR_ENDPOINT};
  static const uint64_t contexts[] = {0, TU_FI_CONTEXT, TU_FI_CONTEXT2};
  *t = (struct fake_fabric_traits){.seed = draw(s, UINT64_MAX), .mode = contexts[draw(s, 3)]};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) t->mr_mode |= draw(s, 2) ? modes[i] : 0;
  if (draw(s, 2)) t->mode |= TU_FI_RX_CQ_DATA;
  t->no_descriptor = draw(s, 8) == 0;
  t->arms = draw(s, 2);
  t->shuffles = draw(s, 2);
  t->loses_on_close = draw(s, 2);
  t->late = draw(s, 2) ? draw_below(s, 8) : 0;
  t->connecting = draw(s, 2) ? draw_below(s, 30) : 0;
  t->busy_per_1000 = draw(s, 2) ? draw_below(s, 400) : 0;
  t->errors_per_1000 = draw(s, 2) ? 1 + draw_below(s, 30) : 0;
  t->operations_max = draw(s, 2) ? 1 + draw_below(s, 20) : 0;
  t->receives_max = draw(s, 2) ? 1 + draw_below(s, 4) : 0;
  t->regions_max = draw(s, 8) == 0 ? 1 + draw_below(s, 6) : 0;
  t->key_bytes = draw(s, 2) ? 1 + draw_below(s, 8) : 0;
  /* A rank that closes must close bound regions before its endpoint. Writes of other ranks may come between. */
  if (t->mr_mode & TU_FI_MR_ENDPOINT) t->allowed = 1 << FAKE_KEY | 1 << FAKE_LOCAL;
}

/* Returns true if ranks use the fabric. */
static bool is_spoken(const struct world_program *p) {
  bool any = false;
  for (uint32_t a = 0; a < p->ranks; a++)
    for (uint32_t b = 0; b < a; b++) any |= world_speaks(p, a, b);
  return any;
}

/* Decides about the fabric with numbers of its own, so that it does not change what else a seed means. */
static void add_fabric(struct world_program *p, bool forced) {
  struct source s = {world_mix(p->seed, 11, 12), 0};
  const bool wanted = draw(&s, 2) == 0, mixed = draw(&s, 4) == 0;
  draw_traits(&p->fabric, &s);
  if (forced && world_locals(p, p->host[0]) == p->ranks) {
    p->host[0] = 1 - p->host[0] % 2;
    for (uint32_t r = 2; r < p->ranks; r++) p->host[r] = draw_below(&s, WORLD_HOSTS_MAX);
    p->timeout_ms += 500;
  }
  if (wanted || forced) p->fabric_hosts = mixed ? draw_below(&s, 1u << WORLD_HOSTS_MAX) : (1u << WORLD_HOSTS_MAX) - 1;
  if (forced && !is_spoken(p)) p->fabric_hosts = (1u << WORLD_HOSTS_MAX) - 1;
  if (!is_spoken(p)) p->fabric_hosts = 0;
}

void world_program_make(struct world_program *p, uint64_t seed, bool fabric) {
  struct source s = {world_mix(seed, 1, 2), 0}, own = {world_mix(seed, 13, 14), 0};
  uint8_t open[WORLD_REQUESTS_MAX];
  memset(open, UINT8_MAX, sizeof open);
  /* Long time limits show that ranks learn of faults at once, and not by the limit; short ones that limits hold. */
  *p = (struct world_program){.seed = seed, .timeout_ms = draw(&s, 2) ? 10000 : 200 + 100 * (int)draw(&s, 5)};
  p->ranks = 2 + (uint32_t)draw(&s, WORLD_RANKS_MAX - 1);
  p->ring_bytes = draw(&s, 3) == 0 ? (size_t)256 << draw(&s, 6) : 0;
  p->share = draw(&s, 8) == 0 ? 1 : 2;
  p->direct_bytes = draw(&own, 2) == 0 ? 32768 : 64u << draw(&own, 6);
  const bool alone = draw(&s, 3) == 0; /* a program that uses the world's communicator only */
  uint32_t acts = 1 + (uint32_t)draw(&s, WORLD_ACTS_MAX - 2 * WORLD_REQUESTS_MAX - 1);
  while (acts-- > 0 && p->acts + 2 * WORLD_REQUESTS_MAX < WORLD_ACTS_MAX) {
    const uint32_t before = p->acts;
    add_act(p, &s, open);
    if (alone && p->acts > before && world_makes(&p->act[before])) p->acts = before;
  }
  finish(p, open, UINT8_MAX);
  if (p->acts == 0) p->act[p->acts++] = (struct world_act){.kind = WORLD_CALL, .seed = seed};
  const uint32_t hosts = draw(&s, 5) < 3 ? 1 : 2 + (uint32_t)draw(&s, WORLD_HOSTS_MAX - 1);
  for (uint32_t r = 0; r < p->ranks; r++) p->host[r] = (uint32_t)draw(&s, hosts);
  if (hosts > 1) p->timeout_ms += 500; /* a long burst through short rings needs many trips */
  add_fabric(p, fabric);
  add_faults(p, &s);
}

/* ---- printing ---- */

static const char *const kinds[WORLD_KINDS] = {"call",   "exchange", "burst", "tensor",  "window",
                                               "stream", "finish",   "dup",   "split",   "create",
                                               "free",   "close",    "leave", "compute", "limit"};
static const char *const forms[WORLD_FORMS] = {"by name", "run_call",   "start and wait",
                                               "start",   "persistent", "start_all",
                                               "polled",  "repeated",   "without a handle"};
static const char *const mishaps[WORLD_MISHAPS] = {
    "is killed",          "exits",         "is paused",      "is stopped", "aborts",
    "makes another call", "does not come", "gets no memory", "is cut off", "hears another host no more",
    "loses its host"};

const char *world_kind_name(enum world_kind kind) { return kinds[kind]; }
const char *world_mishap_name(enum world_mishap mishap) { return mishaps[mishap]; }

static void print_fabric(const struct world_program *p) {
  const struct fake_fabric_traits *t = &p->fabric;
  if (!p->fabric_hosts) return;
  printf("  hosts with a fabric:");
  for (uint32_t h = 0; h < WORLD_HOSTS_MAX; h++)
    if (p->fabric_hosts >> h & 1) printf(" %u", h);
  printf("; it%s%s%s%s%s late %u, connects in %u looks, busy %u and errors %u per 1000\n", t->arms ? " arms," : "",
         t->shuffles ? " shuffles," : "", t->no_descriptor ? " has no descriptor," : "",
         t->mode & TU_FI_RX_CQ_DATA ? " needs receives," : "", " is", t->late, t->connecting, t->busy_per_1000,
         t->errors_per_1000);
  printf(
      "    registration bits %#x, context bits %#llx; at most (0: enough) %u operations, %u receives, %u regions, keys "
      "of "
      "%llu bytes\n",
      (unsigned)t->mr_mode, (unsigned long long)(t->mode & ~TU_FI_RX_CQ_DATA), t->operations_max, t->receives_max,
      t->regions_max, (unsigned long long)t->key_bytes);
}

void world_program_print(const struct world_program *p) {
  printf(
      "program of seed %llu: %u ranks, %u per core, time-out %d ms, rings of %zu bytes (0: the default), rendezvous "
      "from %u bytes\n",
      (unsigned long long)p->seed, p->ranks, p->share, p->timeout_ms, p->ring_bytes, p->direct_bytes);
  printf("  hosts of the ranks:");
  for (uint32_t r = 0; r < p->ranks; r++) printf(" %u", p->host[r]);
  printf("\n");
  print_fabric(p);
  for (uint32_t i = 0; i < p->acts; i++) {
    const struct world_act *a = &p->act[i];
    printf("  %2u  %-8s comm %u", i, kinds[a->kind], a->comm);
    if (world_makes(a)) {
      printf(" -> comm %u:", a->made);
      for (uint32_t r = 0; r < p->ranks; r++) printf(" %u", world_colour(a, r));
    }
    if (a->kind == WORLD_CALL) printf(" %s", forms[a->form]);
    if ((a->kind == WORLD_CALL && a->form == WORLD_LATER) || a->kind == WORLD_FINISH)
      printf(" (request %u)", a->request);
    printf("\n");
  }
  for (uint32_t i = 0; i < p->faults; i++)
    printf("  rank %u %s at %llu%s\n", p->fault[i].rank, mishaps[p->fault[i].mishap],
           (unsigned long long)p->fault[i].at,
           !p->fault[i].timed                    ? ""
           : p->fault[i].mishap == WORLD_REFUSED ? " of its act"
                                                 : " ns");
}
