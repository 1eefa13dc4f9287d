/* comm_create.c: creates a communicator over an endpoint (a rank's access to the memory of other ranks), and destroys
 * it. */
#include "api/comm_create.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "algo/tuning.h"
#include "api/await.h"
#include "base/env.h"
#include "call/pace.h"
#include "call/progress.h"
#include "call/queue.h"
#include "call/request.h"
#include "call/resolve.h"
#include "call/trace.h"
#include "comm/operations.h"
#include "comm/patience.h"
#include "comm/stats.h"
#include "engine/isa.h"
#include "locality/cpus.h"
#include "stream/link.h"
#include "transport/shm_memory.h"

/* Credits of a channel (number of messages that may be under way) if no ranks share a CPU. The number is small: the
 * headers of so few messages stay in the caches of the two ranks. This is fastest if both ranks poll. */
#define CREDITS_ROOMY 8u
/* Credits of a channel if ranks share CPUs: the number of messages that a rank can send before it has to wait for a
 * CPU core. */
#define CREDITS_CROWDED 64u

/* Slices of programs that only send, if no ranks share a CPU. Broadcast and reduce of 64, 128 and 256 KiB on two ranks of an
 * Intel mesh take 0.72, 0.67 and 0.84 of the time that they take with slices of 128 KiB. In exchanges both ranks write and then
 * both read, so shorter slices only cost. Where ranks share CPUs, sender and receiver do not run at the same time. In the
 * simulated world, shorter ones. */
#ifndef TU_ONE_WAY_BYTES
#define TU_ONE_WAY_BYTES (16u << 10)
#endif

/* ---- creating ---- */

/* Default sizes in bytes of a channel's ring buffer, and of its slots (longest slice of a message). With many pairs of
 * ranks the sizes are smaller. A ring buffer is long for this reason: when the sender writes a cache line again, the
 * line has already left the reader's cache. Taking it from the reader's cache would be slower. Where many ranks share a
 * CPU, the reader's cache is mostly the sender's, and all rings should stay in it. A rank has only one ring for slices that
 * several ranks read, so this one stays long: on 16 ranks with a core each, broadcasts of 64 KiB to 4 MiB take 0.5 to 0.65 of
 * the time that they take through 64 KiB. */
static const struct {
  uint32_t ranks, share; /* maximum number of ranks, and of ranks per CPU, to which this row applies */
  uint32_t ring_bytes, slot_bytes, cast_ring_bytes, cast_slot_bytes;
} stagings[] = {{2, UINT32_MAX, 2u << 20, 128u << 10, 2u << 20, 128u << 10},
                {4, UINT32_MAX, 1u << 20, 64u << 10, 1u << 20, 64u << 10},
                {8, 2, 512u << 10, 64u << 10, 512u << 10, 64u << 10},
                {8, UINT32_MAX, 128u << 10, 64u << 10, 512u << 10, 64u << 10},
                {UINT32_MAX, UINT32_MAX, 64u << 10, 8u << 10, 1u << 20, 64u << 10}};

/* Reads TUTTI_RING_BYTES and TUTTI_SLOT_BYTES, which are for both kinds of rings. */
static tutti_err read_shape(uint32_t ranks, uint32_t share, struct tu_channel_shape *shape, struct tu_error *error) {
  tutti_err err;
  uint32_t i = 0;
  while (ranks > stagings[i].ranks || share > stagings[i].share) i++;
  uint64_t ring = stagings[i].ring_bytes, slot = 0;
  if ((err = tu_env_bytes("TUTTI_RING_BYTES", &ring, error)) != TUTTI_OK) return err;
  if ((err = tu_env_bytes("TUTTI_SLOT_BYTES", &slot, error)) != TUTTI_OK) return err;
  if (ring < 2 * TU_LINE_BYTES || ring > (1u << 30))
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_RING_BYTES is %llu; expected 128 to 1G",
                   (unsigned long long)ring);
  if (slot > ring / 2 || (slot > 0 && slot < TU_LINE_BYTES))
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "TUTTI_SLOT_BYTES is %llu; expected 64 to half of TUTTI_RING_BYTES, which is %llu",
                   (unsigned long long)slot, (unsigned long long)ring);
  if (slot == 0) slot = tu_min(stagings[i].slot_bytes, ring / 2);
  const bool usual = ring == stagings[i].ring_bytes && slot == stagings[i].slot_bytes;
  shape->credits = CREDITS_ROOMY;
  shape->slot_bytes = (uint32_t)(slot / TU_LINE_BYTES * TU_LINE_BYTES);
  shape->one_way_slot_bytes = shape->slot_bytes;
  shape->ring_bytes = (uint32_t)(ring / TU_LINE_BYTES * TU_LINE_BYTES);
  shape->cast_slot_bytes = usual ? stagings[i].cast_slot_bytes : shape->slot_bytes;
  shape->cast_ring_bytes = usual ? stagings[i].cast_ring_bytes : shape->ring_bytes;
  return TUTTI_OK;
}

/* Reports invalid settings before this rank waits for others. */
static tutti_err check_settings(const struct tutti_comm *comm, struct tu_error *error) {
  struct tu_channel_shape shape;
  tutti_err err;
  if ((err = tu_isa_check(error)) != TUTTI_OK) return err;
  return read_shape(comm->ranks, 1, &shape, error);
}

/* Sets the number of ranks per CPU, and the settings that depend on it. All ranks of the world are counted, because
 * ranks outside this communicator need CPUs, too. */
static tutti_err settle(struct tutti_comm *comm, struct tu_channel_shape *shape, struct tu_error *error) {
  struct tu_transport *t = comm->transport;
  comm->share = t->share > 0 ? t->share : tu_cpus_share_alike(t->ranks);
  tutti_err err = read_shape(comm->ranks, comm->share, shape, error);
  if (err != TUTTI_OK) return err;
  if (comm->share > 1) shape->credits = CREDITS_CROWDED;
  else shape->one_way_slot_bytes = (uint32_t)tu_min(shape->slot_bytes, TU_ONE_WAY_BYTES);
  return tu_patience_init(&comm->patience, 0, comm->share, t->hosts != NULL, error);
}

static bool is_absent(const struct tutti_comm *comm, uint32_t rank) {
  return !atomic_load(&tu_transport_head(comm->transport, rank)->present);
}

static bool all_present(const struct tutti_comm *comm) {
  for (uint32_t i = 0; i < comm->transport->ranks; i++)
    if (is_absent(comm, i)) return false;
  return true;
}

static const struct tu_comm_goal presence = {all_present, is_absent, "to map the shared memory", false};

static bool has_block(const struct tutti_comm *comm) { return tu_mover_ready(comm->mover); }
static bool is_leader(const struct tutti_comm *comm, uint32_t rank) { return rank == comm->mover->control.leader; }

static const struct tu_comm_goal block = {has_block, is_leader, "to create the shared block of the communicator", true};

tutti_err tu_endpoint_alone(struct tu_transport **t, struct tu_error *error) {
  size_t slice_bytes;
  tutti_err err = tu_shm_slice_bytes(&slice_bytes, error);
  return err != TUTTI_OK ? err : tu_loop_create(1, slice_bytes, t, error);
}

void tu_comm_drop_endpoint(struct tu_transport *t) {
  tu_progress_note_at(t, NULL);
  if (atomic_fetch_sub(&t->users, 1) > 1) return;
  tu_progress_end(t);
  tu_trace_close(t);
  t->ops->close(t);
}

static void destroy_matching(const struct tutti_comm *comm) {
  for (uint32_t i = 0; comm->mover && i < tu_mover_channels(comm->mover); i++) {
    struct tu_receiver *r = tu_mover_nth_receiver(comm->mover, i);
    if (!r) continue;
    tu_matching_destroy(r->matching);
    r->matching = NULL;
  }
}

void tu_comm_forget_mover(struct tutti_comm *comm) {
  destroy_matching(comm);
  comm->mover = NULL;
  comm->transport = NULL;
}

void tu_comm_destroy(struct tutti_comm *comm, bool in_order) {
  tu_queue_forget(comm);
  while (comm->lost) {
    struct tutti_request *r = comm->lost;
    comm->lost = r->next;
    tu_request_destroy(r);
  }
  for (size_t i = 0; i < TU_AGAIN_PLACES; i++) tu_request_destroy(comm->again[i]);
  while (comm->idle) tu_request_drop_idle(comm);
  while (comm->plans) {
    struct tu_cached_plan *p = comm->plans;
    comm->plans = p->next;
    tu_plan_destroy(p->plan);
    free(p);
  }
  destroy_matching(comm);
  tu_mover_destroy(comm->mover, in_order);
  if (comm->transport) tu_comm_drop_endpoint(comm->transport);
  tu_memo_destroy(comm->memo);
  tu_tuning_release(comm->tuning);
  tu_comm_ops_destroy(comm);
  free(comm->domains);
  tu_placement_destroy(comm->placement);
  free(comm->uses);
  free(comm->waits_for);
  free(comm->awaited);
  free(comm->departed);
  free(comm);
}

/* Makes the communicator send through a simulated, slower network, if TUTTI_WIRE_BYTES_PER_S requests one. */
static tutti_err lay_wire(struct tutti_comm *comm, struct tu_error *error) {
  uint64_t bytes_per_s = 0;
  tutti_err err = tu_env_bytes("TUTTI_WIRE_BYTES_PER_S", &bytes_per_s, error);
  return err != TUTTI_OK || bytes_per_s == 0 ? err : tu_comm_set_wire(comm, (double)bytes_per_s, error);
}

tutti_err tu_comm_create(struct tu_transport *t, const uint32_t members[], uint32_t ranks, uint32_t rank,
                         uint64_t comm_id, int timeout_ms, struct tutti_comm **comm, struct tu_error *error) {
  tutti_err err;
  struct tu_channel_shape shape;
  struct tutti_comm *c = tu_try_allocate(1, sizeof *c);
  atomic_fetch_add(&t->users, 1);
  if (!c) {
    tu_comm_drop_endpoint(t);
    return tu_fail_memory(error, sizeof *c, "a communicator");
  }
  *c = (struct tutti_comm){.process = tu_process_number(NULL), .rank = rank, .ranks = ranks, .transport = t};
  c->waits_for = tu_try_allocate(ranks, sizeof *c->waits_for);
  c->departed = tu_try_allocate(ranks, sizeof *c->departed);
  c->awaited = tu_try_allocate(ranks, sizeof *c->awaited);
  c->memo = tu_try_allocate(1, sizeof *c->memo);
  if (!c->waits_for || !c->departed || !c->awaited || !c->memo) {
    err = tu_fail_memory(error, ranks, "a communicator of %u ranks", ranks);
    goto failed;
  }
  if ((err = check_settings(c, error)) != TUTTI_OK) goto failed;
  err = tu_comm_await(c, &presence, timeout_ms, error);
  if (err != TUTTI_OK) goto failed;
  tu_transport_settle(t);
  if ((err = settle(c, &shape, error)) != TUTTI_OK) goto failed;
  if ((err = tu_mover_create(t, members, ranks, rank, comm_id, shape, &c->mover, error)) != TUTTI_OK) goto failed;
  c->mover->share = c->share;
  c->mover->is_pair = c->ranks == 2 && c->share <= 1;
  c->mover->control.links = &tu_link_hearer;
  if ((err = tu_comm_await(c, &block, timeout_ms, error)) != TUTTI_OK) goto failed;
  if ((err = tu_control_begin(&c->mover->control, error)) != TUTTI_OK) goto failed;
  if ((err = lay_wire(c, error)) != TUTTI_OK) goto failed;
  *comm = c;
  return TUTTI_OK;

failed:
  if (atomic_load(&t->users) == 1) tu_transport_give_up(t, error);
  tu_comm_destroy(c, false);
  return err;
}
