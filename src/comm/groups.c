/* groups.c: finds the locality groups of a communicator: ranks that share a cache or a host. The selection of
 * algorithms may use the groups (tutti-tuning(5)). */
#include "comm/groups.h"

#include <stdlib.h>
#include <string.h>

#define GROUPED_RANKS 3u /* minimum number of ranks of a communicator that has locality groups */

/* Allocates the communicator's table of where its ranks run, filled with zeros. Returns NULL and sets TUTTI_ERR_MEMORY
 * if out of memory. */
static struct tu_domain *allocate_domains(struct tutti_comm *comm, struct tu_error *error) {
  comm->domains = tu_try_allocate(comm->ranks, sizeof *comm->domains);
  if (!comm->domains)
    tu_fail_memory(error, comm->ranks * sizeof *comm->domains, "the placement of the %u ranks of a communicator",
                   comm->ranks);
  return comm->domains;
}

static void find_groups(struct tutti_comm *comm) {
  comm->group = tu_group_of(comm->domains, comm->ranks, NULL);
  comm->host = tu_group_by_host(comm->domains, comm->ranks);
}

tutti_err tu_groups_begin(struct tutti_comm *world, const struct tu_locality *locality, struct tu_error *error) {
  if (!locality->domains || world->ranks < GROUPED_RANKS) return TUTTI_OK;
  if (!allocate_domains(world, error)) return error->code;
  memcpy(world->domains, locality->domains, world->ranks * sizeof *world->domains);
  find_groups(world);
  return TUTTI_OK;
}

tutti_err tu_groups_inherit(struct tutti_comm *child, const struct tutti_comm *parent, struct tu_error *error) {
  if (!parent->domains || child->ranks < GROUPED_RANKS) return TUTTI_OK;
  const uint32_t *world_ranks = child->mover->control.members;
  const uint32_t job_ranks = tu_transport_job_ranks(parent->transport);
  uint32_t *parent_rank = tu_try_allocate(job_ranks, sizeof *parent_rank); /* [rank in the job] */
  if (!parent_rank)
    return tu_fail_memory(error, job_ranks * sizeof *parent_rank, "the placement of the %u ranks of a communicator",
                          child->ranks);
  if (allocate_domains(child, error)) {
    for (uint32_t r = 0; r < parent->ranks; r++) parent_rank[parent->mover->control.members[r]] = r;
    for (uint32_t r = 0; r < child->ranks; r++) child->domains[r] = parent->domains[parent_rank[world_ranks[r]]];
    find_groups(child);
  }
  free(parent_rank);
  return child->domains ? TUTTI_OK : error->code;
}
