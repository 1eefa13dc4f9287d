/* conform.h: runs one case of a collective on one rank and reports a wrong result. */
#ifndef CONFORM_H
#define CONFORM_H

#include "reference.h"
#include "troupe.h"

/* Runs the case and checks the result. If hash is not NULL, mixes all output of the call into *hash. */
static inline void conform(struct player *p, const struct ref_case *c, uint64_t *hash) {
  struct ref_run run;
  char text[768];
  ref_run_init(&run, c, p->rank);
  ref_fill(&run);
  ref_want(&run);
  tutti_request *request = NULL;
  tutti_err err = tutti_start(p->comm, &run.call, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  if (err != TUTTI_OK) {
    ref_case_print(c, text, sizeof text);
    wrong(p, "rank %u: %s: %s, in %s", p->rank, tutti_err_name(err), tutti_error_message(p->comm), text);
  } else if (!ref_agrees(&run, text, sizeof text)) {
    wrong(p, "%s", text);
  }
  if (hash && run.in.memory) *hash = tu_hash(run.in.memory, run.in.bytes, *hash);
  if (hash && run.in.spare.memory) *hash = tu_hash(run.in.spare.memory, run.in.spare.bytes, *hash);
  if (hash && run.out.spare.memory) *hash = tu_hash(run.out.spare.memory, run.out.spare.bytes, *hash);
  if (hash && run.out.memory) *hash = tu_hash(run.out.memory, run.out.bytes, *hash);
  ref_run_fini(&run);
}

#endif
