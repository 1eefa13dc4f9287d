/* copy.c: a rank of the simulated world, compiled into its copy of the library: its endpoint, and the acts of a
 * program with their checks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm_create.h"
#include "api/comm_end.h"
#include "comm/groups.h"
#include "fabric/wire_ofi.h"
#include "mover/remote.h"
#include "tests/world/rank.h"
#include "transport/peer_memory.h"

enum { JOIN_MS = 20000 };

/* ---- the endpoint: shared memory, and liveness as the world knows it ---- */

static uint32_t neighbours[WORLD_RANKS_MAX]; /* the ranks of this host, in the order of the segment */

static bool endpoint_alive(struct tu_transport *t, uint32_t rank) {
  (void)t;
  return world_alive(neighbours[rank]);
}

/* Ranges of this rank's slice that are released and not yet acquired again. The beginning of each contains the value
 * RELEASED; no rank may write to it. */
enum { RANGES_MAX = 1024, RELEASED = 0xde, CHECKED_BYTES = 1 << 14 };
static struct {
  uint64_t offset;
  size_t bytes;
} released[RANGES_MAX];
static uint32_t released_count;

static void check_released(const struct tu_transport *t, uint32_t i) {
  const unsigned char *bytes = tu_transport_at(t, released[i].offset);
  for (size_t k = 0; k < released[i].bytes; k++)
    if (bytes[k] != RELEASED) {
      world_fail("byte %zu of released shared memory of rank %u was written", k, t->rank);
      return;
    }
}

/* Forgets the released ranges in a part of the slice, and checks them. */
static void forget_released(const struct tu_transport *t, uint64_t offset, size_t bytes) {
  for (uint32_t i = 0; i < released_count;) {
    if (released[i].offset < offset || released[i].offset >= offset + bytes) {
      i++;
      continue;
    }
    check_released(t, i);
    released[i] = released[--released_count];
  }
}

bool __real_tu_transport_release(struct tu_transport *t, uint64_t offset);
bool __wrap_tu_transport_release(struct tu_transport *t, uint64_t offset);
bool __wrap_tu_transport_release(struct tu_transport *t, uint64_t offset) {
  const size_t before = t->free_bytes;
  if (!__real_tu_transport_release(t, offset)) return false;
  if (released_count == RANGES_MAX) return true;
  released[released_count].offset = offset;
  released[released_count].bytes = tu_min(t->free_bytes - before, CHECKED_BYTES);
  memset(tu_transport_at(t, offset), RELEASED, released[released_count++].bytes);
  return true;
}

void *__real_tu_transport_acquire(struct tu_transport *t, size_t bytes, uint64_t *offset, struct tu_error *error);
void *__wrap_tu_transport_acquire(struct tu_transport *t, size_t bytes, uint64_t *offset, struct tu_error *error);
void *__wrap_tu_transport_acquire(struct tu_transport *t, size_t bytes, uint64_t *offset, struct tu_error *error) {
  void *memory = __real_tu_transport_acquire(t, bytes, offset, error);
  if (memory) forget_released(t, *offset, bytes);
  return memory;
}

static void endpoint_discard(struct tu_transport *t, uint64_t offset, size_t bytes) {
  forget_released(t, offset, bytes);
  memset(t->base + offset, 0, bytes);
}
static void endpoint_close(struct tu_transport *t) {
  const uint32_t rank = tu_transport_job_rank(t);
  tu_transport_fini(t);
  free(t);
  if (world_descriptors(rank) > 0)
    world_fail("rank %u has %u descriptors after its endpoint has closed", rank, world_descriptors(rank));
}
static const struct tu_transport_ops endpoint_ops = {
    .name = "world", .alive = endpoint_alive, .discard = endpoint_discard, .close = endpoint_close};

/* Makes the wire between hosts: over sockets, and over the fabric if this rank and another one have it. */
static struct tu_wire *make_wire(const struct world_program *p, uint32_t rank) {
  static const struct tu_fabric_wish wish = {.how = TU_FABRIC_NAMED};
  const struct tu_fabric_library *library = world_fabric();
  bool speaks[WORLD_RANKS_MAX], any = false;
  struct tu_error error;
  struct tu_wire *wire;
  struct tu_fabric *fabric;
  if (tu_wire_sockets(p->ranks, world_dialer(rank), &wire, &error) != TUTTI_OK) abort();
  for (uint32_t r = 0; r < p->ranks; r++) any |= speaks[r] = world_speaks(p, rank, r);
  if (!any) return wire;
  struct tu_fi_info *list = tu_fabric_list(library, "fake", NULL);
  if (tu_fabric_open(library, tu_fabric_choose(list, &wish, NULL), &fabric, &error) != TUTTI_OK) abort();
  library->freeinfo(list);
  world_name_endpoint(fabric->name, fabric->name_bytes);
  if (tu_wire_ofi(rank, p->ranks, speaks, fabric, wire, &wire, &error) != TUTTI_OK) abort();
  return wire;
}

/* Makes this rank's endpoint. Each host has a part of the memory. */
static struct tu_transport *make_endpoint(const struct world_program *p, uint32_t rank, unsigned char *memory,
                                          size_t slice_bytes) {
  uint32_t before = 0, locals[WORLD_RANKS_MAX];
  struct tu_error error;
  struct tu_transport *t = calloc(1, sizeof *t);
  for (uint32_t r = 0; r < p->ranks; r++) {
    before += p->host[r] < p->host[rank];
    locals[r] = p->host[r] == p->host[rank] ? world_local(p, r) : TU_REMOTE;
    if (locals[r] != TU_REMOTE) neighbours[locals[r]] = r;
  }
  const uint32_t here = world_locals(p, p->host[rank]);
  unsigned char *slice = memory + (before + locals[rank]) * slice_bytes;
  struct tu_slice_head *head = (struct tu_slice_head *)(void *)slice;
  head->life.pid = rank;
  tu_peer_memory_offer(head);
  if (!t || !tu_transport_init(t, &endpoint_ops, locals[rank], here, memory + before * slice_bytes, slice_bytes))
    abort();
  t->share = p->share;
  if (here == p->ranks) return t;
  if (tu_remote_create(t, rank, p->ranks, locals, make_wire(p, rank), &error) != TUTTI_OK) abort();
  return t;
}

/* ---- acts that make and end communicators ---- */

static tutti_err make_comm(struct actor *a, const struct world_act *act) {
  uint32_t members[WORLD_RANKS_MAX], parents[WORLD_RANKS_MAX], list[WORLD_RANKS_MAX];
  tutti_comm *parent = a->comm[act->comm], *made = NULL;
  const uint32_t count = world_members(a->program, a->act + 1, act->made, a->rank, members);
  const uint32_t all = world_members(a->program, a->act, act->comm, a->rank, parents);
  tutti_err err;
  if (act->kind == WORLD_DUP) err = tutti_comm_dup(parent, &made);
  else if (act->kind == WORLD_SPLIT) err = tutti_comm_split(parent, (int)world_colour(act, a->rank), 0, &made);
  else {
    if (count == 0) return TUTTI_OK;
    uint32_t position = 0, own = 0;
    for (uint32_t i = 0; i < all; i++) {
      if (position < count && parents[i] == members[position]) list[position++] = i;
      own += parents[i] == a->rank;
    }
    err = tutti_comm_create(parent, list, count, act->seed % 5, &made);
  }
  if (err != TUTTI_OK) return err;
  if (tutti_ranks(made) != count || members[tutti_rank(made)] != a->rank)
    world_fail("act %u: rank %u is rank %u of %u in the new communicator, expected %u ranks", a->act, a->rank,
               tutti_rank(made), tutti_ranks(made), count);
  a->comm[act->made] = made;
  return TUTTI_OK;
}

static tutti_err perform(struct actor *a, const struct world_act *act) {
  tutti_comm *comm = a->comm[act->comm];
  switch (act->kind) {
    case WORLD_CALL: return rank_call(a, act);
    case WORLD_EXCHANGE: return rank_exchange(a, act);
    case WORLD_BURST: return rank_burst(a, act);
    case WORLD_LEAVE: return rank_leave(a, act);
    case WORLD_FINISH: return rank_finish(a, act);
    case WORLD_TENSOR: return rank_tensor(a, act);
    case WORLD_WINDOW: return rank_window(a, act);
    case WORLD_STREAM: return rank_stream(a, act);
    case WORLD_FREE:
    case WORLD_CLOSE:
      a->comm[act->comm] = NULL;
      return act->kind == WORLD_FREE ? tutti_comm_free(comm) : tutti_comm_close(comm);
    case WORLD_COMPUTE: world_sleep_us(world_work_us(a->program, a->act, a->rank)); return TUTTI_OK;
    case WORLD_LIMIT: return tutti_comm_set_timeout(comm, (int)world_limit(a->program, a->act + 1, act->comm));
    default: return make_comm(a, act);
  }
}

/* Returns true if the rank takes part in the act. Windows of several hosts need a thread of the library, which the world
 * does not have, so windows are for ranks of one host. */
static bool takes_part(const struct actor *a, const struct world_act *act) {
  uint32_t members[WORLD_RANKS_MAX];
  if (act->kind == WORLD_WINDOW)
    for (uint32_t i = world_members(a->program, a->act, act->comm, a->rank, members); i-- > 0;)
      if (a->program->host[members[i]] != a->program->host[a->rank]) return false;
  if (act->kind == WORLD_COMPUTE) return true;
  if (act->kind == WORLD_FINISH) return a->work[act->request].open;
  return a->comm[act->comm] != NULL;
}

/* A program does not always end at once after an error. In a program with one communicator the other ranks must learn
 * of the failure all the same, as it is the verdict of that communicator. All ranks that make a communicator must learn
 * that one of them cannot. (On several hosts the message about it may
 * wait behind data, until the rank calls the library again.) */
static void linger(const struct actor *a, const struct world_act *act, tutti_err err) {
  const struct world_program *p = a->program;
  uint32_t members[WORLD_RANKS_MAX];
  const bool lingers = world_mix(p->seed, a->rank, 77) % 2 && world_locals(p, p->host[a->rank]) == p->ranks;
  bool alone = true;
  for (uint32_t i = 0; i < p->acts; i++) alone &= !world_makes(&p->act[i]);
  const bool told = world_makes(act) && err == TUTTI_ERR_MEMORY &&
                    world_members(p, a->act + 1, act->made, a->rank, members) == p->ranks;
  if (!lingers) return;
  if (told || (alone && (err == TUTTI_ERR_ABORTED || err == TUTTI_ERR_MISMATCH || err == TUTTI_ERR_PEER)))
    world_sleep_us(5000000);
}

static void perform_all(struct actor *a) {
  for (a->act = 0; a->act < a->program->acts; a->act++) {
    const struct world_act *act = &a->program->act[a->act];
    if (!takes_part(a, act)) continue;
    if (world_is_hit(a->act, WORLD_EXIT)) world_exit();
    if (world_is_hit(a->act, WORLD_ABSENT)) world_stop();
    tutti_comm *comm = a->comm[act->comm];
    if (comm && !rank_aborts_inside(act)) rank_abort(a, act);
    world_begin_act(a->act);
    tutti_err err = perform(a, act);
    const char *message = tutti_error_message(act->kind == WORLD_CALL ? comm : NULL);
    world_end_act(a->act, err, err == TUTTI_OK ? "" : a->impatient ? WORLD_IMPATIENT : message);
    for (uint32_t i = 0; i < TU_WAITS_THREADS; i++) {
      struct tu_waits waits;
      if (!a->impatient && tu_waits_read(a->transport, a->transport->rank, i, &waits) && waits.count > 0 &&
          waits.until == 0)
        world_fail("rank %u, act %u: its wait is still published after the act", a->rank, a->act);
    }
    if (err == TUTTI_OK) continue;
    linger(a, act, err);
    return;
  }
}

/* Tells the communicator on which hosts its ranks run, as tutti_init does. */
static tutti_err place(tutti_comm *comm, const struct world_program *p) {
  struct tu_domain domains[WORLD_RANKS_MAX];
  struct tu_error error;
  for (uint32_t r = 0; r < p->ranks; r++)
    domains[r] = (struct tu_domain){.numa = TU_DOMAIN_ANY, .cache = TU_DOMAIN_ANY, .host = p->host[r]};
  return tu_groups_begin(comm, &(struct tu_locality){.domains = domains}, &error);
}

__attribute__((visibility("default"))) world_run_rank world_rank;
void world_rank(const struct world_program *program, uint32_t rank, void *segment, size_t slice_bytes) {
  struct actor a = {.program = program, .rank = rank};
  struct tu_error error = {0};
  uint32_t members[WORLD_RANKS_MAX];
  for (uint32_t r = 0; r < program->ranks; r++) members[r] = r;
  struct tu_transport *t = make_endpoint(program, rank, segment, slice_bytes);
  a.transport = t;
  t->users = 1; /* this function's */
  size_t room = tu_transport_free_bytes(t);
  world_begin_act(WORLD_NO_ACT);
  tutti_err err = tu_comm_create(t, members, program->ranks, rank, TU_WORLD_ID, JOIN_MS, &a.comm[0], &error);
  world_end_act(WORLD_NO_ACT, err, error.text);
  if (err == TUTTI_OK) err = place(a.comm[0], program);
  if (err == TUTTI_OK) err = tutti_comm_set_timeout(a.comm[0], program->timeout_ms);
  if (err == TUTTI_OK) err = rank_prepare(a.comm[0]);
  if (err == TUTTI_OK) perform_all(&a);
  bool good = a.act == program->acts, closes = false;
  const bool ends = good;
  if (ends) world_begin_act(WORLD_NO_ACT);
  for (int slot = WORLD_COMMS_MAX; slot-- > 1;)
    if (a.comm[slot]) good &= (good ? tutti_comm_free : tutti_comm_close)(a.comm[slot]) == TUTTI_OK;
  if (!good) world_give_up();
  rank_drop(&a);
  if (good && program->seed % 4 == 0) {
    /* The last communicator is closed, and with it the endpoint, while the next rank may still have to receive. */
    const struct world_act last = {.kind = WORLD_LEAVE, .seed = program->seed};
    atomic_fetch_sub(&t->users, 1);
    a.act = WORLD_NO_ACT;
    err = rank_leave(&a, &last);
    world_end_act(WORLD_NO_ACT, err, err == TUTTI_OK ? "" : tutti_error_message(NULL));
    return;
  }
  /* Memory of closed communicators is released after all ranks have closed them. */
  if (good && tutti_barrier(a.comm[0]) == TUTTI_OK) tu_comm_sweep(t);
  if (a.comm[0]) err = (good ? tutti_comm_free : tutti_comm_close)(a.comm[0]);
  if (ends) world_end_act(WORLD_NO_ACT, err, err == TUTTI_OK ? "" : tutti_error_message(NULL));
  good &= err == TUTTI_OK;
  for (uint32_t i = 0; i < program->acts; i++)
    closes |= program->act[i].kind == WORLD_CLOSE || program->act[i].kind == WORLD_LEAVE;
  /* A closed communicator may keep its memory until the endpoint closes. */
  if (good && !closes && program->faults == 0 && tu_transport_free_bytes(t) != room)
    world_fail("rank %u: %zu of %zu bytes of its slice are free at the end", rank, tu_transport_free_bytes(t), room);
  for (uint32_t i = 0; i < released_count; i++) check_released(t, i);
  endpoint_close(t);
}
