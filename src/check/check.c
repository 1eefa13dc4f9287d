/* check.c: runs all parts of the check of a plan, and reports the reason if the plan is refused. The time is linear in
 * the number of steps, messages and chunks. It is longer only for pairs of steps that are ordered by way of other
 * steps, not directly by an `after` list. */
#include <stdio.h>

#include "check/check_internal.h"

static tutti_err prove(void *argument, struct tu_error *error) {
  struct tu_checking *c = argument;
  (void)error;
  c->report->proved = tu_check_form(c) && tu_check_order(c) && tu_check_match(c) && tu_check_play(c) &&
                      tu_check_length(c) && tu_check_outputs(c);
  c->report->messages = c->message_count - c->joined_count;
  return TUTTI_OK;
}

bool tu_check(const struct tu_plan *plan, uint32_t credits, struct tu_check_report *report) {
  *report = (struct tu_check_report){0};
  struct tu_error error;
  struct tu_arena arena = {0};
  struct tu_checking c = {.plan = plan, .arena = &arena, .credits = credits ? credits : 1, .report = report};
  report->no_memory = tu_arena_build(prove, &c, "the proof of a plan", &error) != TUTTI_OK;
  if (report->no_memory) snprintf(report->text, sizeof report->text, "%.*s", (int)sizeof report->text - 1, error.text);
  tu_arena_fini(&arena);
  return report->proved;
}
