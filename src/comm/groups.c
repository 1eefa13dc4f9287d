/* groups.c: finds where the ranks of a communicator run: on which hosts, and in which locality groups. The selection of
 * algorithms uses both (tutti-tuning(5)). */
#include "comm/groups.h"

#include <stdlib.h>
#include <string.h>

#include "plan/placement.h"

/* Allocates the communicator's table of where its ranks run, filled with zeros. Returns NULL and sets TUTTI_ERR_MEMORY
 * if out of memory. */
static struct tu_domain *allocate_domains(struct tutti_comm *comm, struct tu_error *error) {
  comm->domains = tu_try_allocate(comm->ranks, sizeof *comm->domains);
  if (!comm->domains)
    tu_fail_memory(error, comm->ranks * sizeof *comm->domains, "the placement of the %u ranks of a communicator",
                   comm->ranks);
  return comm->domains;
}

/* Finds the placement and the locality groups. Groups lie within hosts, so they are found in the order of the
 * placement. */
static tutti_err find_groups(struct tutti_comm *comm, struct tu_error *error) {
  const size_t bytes = comm->ranks * sizeof *comm->domains;
  uint32_t *host = tu_try_allocate(comm->ranks, sizeof *host);
  struct tu_domain *placed = tu_try_allocate(comm->ranks, sizeof *placed);
  tutti_err err = TUTTI_OK;
  if (!host || !placed) err = tu_fail_memory(error, bytes, "the hosts of the %u ranks of a communicator", comm->ranks);
  for (uint32_t r = 0; err == TUTTI_OK && r < comm->ranks; r++) host[r] = comm->domains[r].host;
  if (err == TUTTI_OK) err = tu_placement_create(host, comm->ranks, &comm->placement, error);
  if (err == TUTTI_OK) {
    const uint32_t *order = comm->placement ? comm->placement->order : NULL;
    for (uint32_t i = 0; i < comm->ranks; i++) placed[i] = comm->domains[order ? order[i] : i];
    comm->group = tu_group_of(placed, comm->ranks, NULL);
  }
  free(host);
  free(placed);
  return err;
}

tutti_err tu_groups_begin(struct tutti_comm *world, const struct tu_locality *locality, struct tu_error *error) {
  if (!locality->domains) return TUTTI_OK;
  if (!allocate_domains(world, error)) return error->code;
  memcpy(world->domains, locality->domains, world->ranks * sizeof *world->domains);
  return find_groups(world, error);
}

tutti_err tu_groups_inherit(struct tutti_comm *child, const struct tutti_comm *parent, struct tu_error *error) {
  if (!parent->domains || child->ranks < 2) return TUTTI_OK;
  const uint32_t *world_ranks = child->mover->control.members;
  const uint32_t job_ranks = tu_transport_job_ranks(parent->transport);
  uint32_t *parent_rank = tu_try_allocate(job_ranks, sizeof *parent_rank); /* [rank in the job] */
  if (!parent_rank)
    return tu_fail_memory(error, job_ranks * sizeof *parent_rank, "the placement of the %u ranks of a communicator",
                          child->ranks);
  tutti_err err = TUTTI_OK;
  if (!allocate_domains(child, error)) err = error->code;
  else {
    for (uint32_t r = 0; r < parent->ranks; r++) parent_rank[parent->mover->control.members[r]] = r;
    for (uint32_t r = 0; r < child->ranks; r++) child->domains[r] = parent->domains[parent_rank[world_ranks[r]]];
    err = find_groups(child, error);
  }
  free(parent_rank);
  return err;
}
