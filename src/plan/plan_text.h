/* plan_text.h: pieces of the text form that others print too. */
#ifndef TU_PLAN_TEXT_H
#define TU_PLAN_TEXT_H

#include "base/text.h"
#include "plan/plan.h"

/* "in", "out", "tmp" */
const char *tu_buffer_name(uint32_t buffer);

/* The parts of tu_plan_write: what stands before the first rank; the i-th of the ranks that are here. */
void tu_plan_write_head(const struct tu_plan *plan, struct tu_text *text);
void tu_plan_write_rank(const struct tu_plan *plan, uint32_t i, struct tu_text *text);

/* One step as it stands behind its number, without the line end: "recv from 1 into tmp[0:4]". Its indices must lie in
 * the arrays of `r`. */
void tu_plan_write_step(const struct tu_rank_plan *r, const struct tu_step *step, struct tu_text *text);

#endif
