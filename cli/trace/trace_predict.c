/* trace_predict.c: simulates the plans of a job's calls, as tutti sim does. */
#include <math.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "cli/trace/trace.h"
#include "trace/costs.h"

enum { RANKS_MAX = 128, SEGMENTS_MAX = 128, PIECES_MAX = 1024 };

/* The hosts of the ranks of a communicator. Returns false if some trace is missing. */
static bool place(const struct trace_job *job, const struct tu_traced_comm *comm, struct tu_placement **placement) {
  const struct tu_trace *t = &job->trace;
  struct tu_error error;
  uint32_t *host = tu_allocate(comm->ranks, sizeof *host), found = 0;
  for (uint32_t i = 0; i < comm->ranks; i++)
    for (uint32_t r = 0; r < t->rank_count; r++)
      if (t->ranks[r].head.rank == comm->members[i]) host[i] = t->host_of[r], found++;
  const bool good = found == comm->ranks && tu_placement_create(host, comm->ranks, placement, &error) == TUTTI_OK;
  free(host);
  return good;
}

/* Returns false if the plan is not one of the library's, or cannot be built again. */
static bool describe(const struct trace_job *job, const struct tu_traced_program *p, struct tu_placement **placement,
                     struct tu_build *what) {
  const struct tu_trace_program *head = &p->head;
  const bool built = head->built && head->collective < TUTTI_SEND && head->bytes < SIZE_MAX &&
                     p->comm->ranks <= RANKS_MAX && head->segments <= SEGMENTS_MAX && head->slot_pieces <= PIECES_MAX;
  if (!built || (head->placed && !place(job, p->comm, placement))) return false;
  *what = (struct tu_build){.algorithm = tu_algorithm_find((tutti_collective)head->collective, head->algorithm),
                            .ranks = p->comm->ranks,
                            .root = head->root,
                            .in_place = head->in_place,
                            .rank = TU_ALL_RANKS,
                            .slot_pieces = head->slot_pieces,
                            .segments = head->segments,
                            .lanes = head->lanes,
                            .canonical = head->canonical,
                            .placement = *placement};
  return what->algorithm && what->root < what->ranks && what->lanes <= tu_build_lanes_max(what->algorithm) &&
         tu_algorithm_fits_on(what->algorithm, what->ranks, what->placement);
}

static double predict(const struct trace_job *job, const struct tu_traced_program *p, const struct tu_sim_cost *cost) {
  struct tu_placement *placement = NULL;
  struct tu_build what;
  struct tu_sim_report report = {.time_s = NAN};
  if (tu_traced_is_pair(p)) return cost->alpha + cost->beta * (double)p->head.moved;
  if (describe(job, p, &placement, &what)) {
    struct tu_sim *sim = tu_sim_build(&what);
    tu_sim_run(sim, (double)p->head.bytes, cost, &report);
    tu_sim_destroy(sim);
  }
  tu_placement_destroy(placement);
  return report.time_s;
}

/* Returns true if the trace has messages enough to tell the costs of a program's, or they are given. */
static bool is_known(const struct tu_traced_program *p, const struct tu_sim_cost *given,
                     const struct tu_traced_costs *measured) {
  const bool alpha = given->alpha >= 0 || measured->alpha_s > 0, beta = given->beta >= 0 || measured->beta_s > 0;
  bool known = true;
  for (uint32_t i = 0; i < p->head.step_count && known; i++)
    if (p->steps[i].message_count > 0) known = p->steps[i].bytes > TU_TRACE_SHORT_BYTES ? beta : alpha;
  return known;
}

void trace_predict(struct trace_job *job, struct tu_sim_cost *cost) {
  const struct tu_sim_cost given = *cost;
  struct tu_traced_costs measured;
  tu_trace_costs(&job->trace, &measured);
  const bool unknown = cost->alpha < 0 && cost->beta < 0 && measured.alpha_s == 0 && measured.beta_s == 0;
  if (cost->alpha < 0) cost->alpha = measured.alpha_s;
  if (cost->beta < 0) cost->beta = measured.beta_s;
  if (cost->gamma < 0) cost->gamma = measured.gamma_s;
  job->predicted_s = tu_allocate(job->sums.kind_count, sizeof *job->predicted_s);
  if (unknown) cost->alpha = cost->beta = NAN;
  for (uint32_t k = 0; k < job->sums.kind_count; k++)
    job->predicted_s[k] =
        is_known(job->sums.kinds[k].program, &given, &measured) ? predict(job, job->sums.kinds[k].program, cost) : NAN;
}
