/* groups.c: the groups of a communicator's ranks: rank 0 of a new world looks to which cache and NUMA node each is bound
 * and writes it down for all, who come to the same groups. Selection may read them (tutti-tuning(5)). */
#include <stdlib.h>

#include "api/comm.h"

/* ---- a domain in one word: 0 is kept for nothing said yet ---- */

#define SAID (UINT64_C(1) << 63)
#define NUMBER_MAX (UINT32_MAX >> 1) /* in 31 bits; it stands for any */

static uint64_t pack_number(uint32_t number) { return number < NUMBER_MAX ? number : NUMBER_MAX; }
static uint32_t unpack_number(uint64_t word) {
  return (word & NUMBER_MAX) < NUMBER_MAX ? (uint32_t)(word & NUMBER_MAX) : TU_DOMAIN_ANY;
}

static uint64_t pack(struct tu_boot_domain domain) {
  return SAID | pack_number(domain.numa) << 32 | pack_number(domain.cache);
}

static struct tu_boot_domain unpack(uint64_t word) {
  return (struct tu_boot_domain){.numa = unpack_number(word >> 32), .cache = unpack_number(word)};
}

/* ---- a world ---- */

static bool has_failed(const struct tutti_comm *world) {
  struct tu_error verdict;
  return tu_verdict_read(&world->mover->block->verdict, &verdict);
}

static bool has_not_come(const struct tutti_comm *world, uint32_t rank) {
  return atomic_load_explicit(&world->mover->boards[rank].thread, memory_order_acquire) == 0;
}

static bool all_came(const struct tutti_comm *world) {
  for (uint32_t r = 0; r < world->ranks; r++)
    if (has_not_come(world, r)) return false;
  return true;
}

/* The leader looks for all, so that hwloc is loaded once; the last word that it writes is rank 0's. */
static tutti_err look(struct tutti_comm *world, struct tu_error *error) {
  pid_t *threads = tu_try_allocate(world->ranks, sizeof *threads);
  if (!threads)
    return tu_fail_memory(error, world->ranks * sizeof *threads, "looking where %u ranks are", world->ranks);
  for (uint32_t r = 0; r < world->ranks; r++)
    threads[r] = (pid_t)(atomic_load_explicit(&world->mover->boards[r].thread, memory_order_relaxed) & ~SAID);
  tu_boot_domains(threads, world->ranks, world->domains);
  for (uint32_t r = world->ranks; r-- > 0;)
    atomic_store_explicit(&world->mover->boards[r].domain, pack(world->domains[r]), memory_order_release);
  free(threads);
  tu_mover_wake_all(world->mover);
  return TUTTI_OK;
}

static bool looked(const struct tutti_comm *world) {
  return atomic_load_explicit(&world->mover->boards[0].domain, memory_order_acquire) != 0;
}

static bool came_or_failed(const struct tutti_comm *world) { return all_came(world) || has_failed(world); }
static bool looked_or_failed(const struct tutti_comm *world) { return looked(world) || has_failed(world); }
/* Rank 0 waits for the others before it looks. */
static bool holds_up(const struct tutti_comm *world, uint32_t rank) {
  return has_not_come(world, rank) || (rank == 0 && all_came(world));
}

static const struct tu_comm_goal coming = {came_or_failed, has_not_come, "to say where it runs"};
static const struct tu_comm_goal looking = {looked_or_failed, holds_up, "to find out which caches the ranks share"};

tutti_err tu_groups_agree(struct tutti_comm *world, int timeout_ms) {
  tutti_err err;
  struct tu_error error;
  struct tu_board *boards = world->mover->boards;
  if (world->ranks <= 2) return TUTTI_OK;
  world->domains = tu_try_allocate(world->ranks, sizeof *world->domains);
  if (!world->domains) {
    tu_fail_memory(&error, world->ranks * sizeof *world->domains, "where the %u ranks of the world are", world->ranks);
    return tu_comm_fail(world, &error);
  }
  atomic_store_explicit(&boards[world->rank].thread, SAID | (uint64_t)tu_boot_bound_thread(), memory_order_release);
  if (world->rank == 0) {
    err = tu_comm_await(world, &coming, timeout_ms, &error);
    if (err == TUTTI_OK && all_came(world)) err = look(world, &error);
  } else {
    tu_bell_ring(world->transport, world->mover->members[0]);
    err = tu_comm_await(world, &looking, timeout_ms, &error);
  }
  if (err != TUTTI_OK) return tu_comm_fail(world, &error);
  if (!looked(world)) { /* what another rank said counts */
    tu_assert(tu_comm_failed(world));
    return tu_comm_fail(world, &world->error);
  }
  for (uint32_t r = 0; r < world->ranks; r++)
    world->domains[r] = unpack(atomic_load_explicit(&boards[r].domain, memory_order_relaxed));
  world->group = tu_boot_group(world->domains, world->ranks, NULL);
  return TUTTI_OK;
}

/* ---- a communicator made of another's ranks ---- */

tutti_err tu_groups_inherit(struct tutti_comm *child, const struct tutti_comm *parent, struct tu_error *error) {
  if (!parent->domains || child->ranks <= 2) return TUTTI_OK;
  const uint32_t *world_ranks = child->mover->members;
  uint32_t *place =
      tu_try_allocate(parent->transport->ranks, sizeof *place); /* rank of the transport -> in the parent */
  child->domains = place ? tu_try_allocate(child->ranks, sizeof *child->domains) : NULL;
  if (!child->domains) {
    free(place);
    return tu_fail_memory(error, child->ranks * sizeof *child->domains, "where the %u ranks of a communicator are",
                          child->ranks);
  }
  for (uint32_t r = 0; r < parent->ranks; r++) place[parent->mover->members[r]] = r;
  for (uint32_t r = 0; r < child->ranks; r++) child->domains[r] = parent->domains[place[world_ranks[r]]];
  child->group = tu_boot_group(child->domains, child->ranks, NULL);
  free(place);
  return TUTTI_OK;
}
