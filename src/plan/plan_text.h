/* plan_text.h: functions that write parts of the text form of plans. */
#ifndef TU_PLAN_TEXT_H
#define TU_PLAN_TEXT_H

#include "base/text.h"
#include "plan/plan.h"

/* Returns the name of a buffer in the text form: "in", "out" or "tmp". */
const char *tu_buffer_name(uint32_t buffer);

/* Returns the name of a class in the text form: "by_chunk", "uniform" or "canonical". */
const char *tu_order_name(enum tu_order_class order);

/* Write parts of the text form. tu_plan_write_head writes the lines before the first rank. tu_plan_write_rank writes
 * the i-th of the ranks in the plan. */
void tu_plan_write_head(const struct tu_plan *plan, struct tu_text *text);
void tu_plan_write_rank(const struct tu_plan *plan, uint32_t i, struct tu_text *text);

/* Writes one step without its number and without the line end: "recv from 1 into tmp[0:4]". The step's indices must be
 * within the arrays of `r`. */
void tu_plan_write_step(const struct tu_rank_plan *r, const struct tu_step *step, struct tu_text *text);

#endif
