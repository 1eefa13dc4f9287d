/* groups.c: the groups of a communicator's ranks, by where they run. Selection may read them (tutti-tuning(5)). */
#include <stdlib.h>
#include <string.h>

#include "api/comm.h"

#define GROUPED_RANKS 3u /* fewer have no groups */

/* NULL and MEMORY, or the communicator's own table of where its ranks run, blank. */
static struct tu_domain *allocate_domains(struct tutti_comm *comm, struct tu_error *error) {
  comm->domains = tu_try_allocate(comm->ranks, sizeof *comm->domains);
  if (!comm->domains)
    tu_fail_memory(error, comm->ranks * sizeof *comm->domains, "where the %u ranks of a communicator are", comm->ranks);
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
  uint32_t *place = tu_try_allocate(job_ranks, sizeof *place); /* rank of the job -> in the parent */
  if (!place)
    return tu_fail_memory(error, job_ranks * sizeof *place, "where the %u ranks of a communicator are", child->ranks);
  if (allocate_domains(child, error)) {
    for (uint32_t r = 0; r < parent->ranks; r++) place[parent->mover->control.members[r]] = r;
    for (uint32_t r = 0; r < child->ranks; r++) child->domains[r] = parent->domains[place[world_ranks[r]]];
    find_groups(child);
  }
  free(place);
  return child->domains ? TUTTI_OK : error->code;
}
