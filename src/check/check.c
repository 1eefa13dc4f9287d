/* check.c: proves a plan part by part, and words what is wrong. Linear in steps, messages and chunks, but for steps
 * that `after` orders only by way of others. */
#include <stdio.h>
#include <string.h>

#include "check/check_parts.h"
#include "plan/plan_text.h"

/* ---- sentences -------------------------------------------------------------------------------------------------- */

struct tu_check_name tu_check_name(const struct tu_checking *c, uint32_t step) {
  struct tu_text text = {.arena = c->arena};
  tu_plan_write_step(tu_check_rank_of(c, step), tu_check_step_at(c, step), &text);
  struct tu_check_name name;
  uint32_t number = step - c->ranks[c->steps[step].rank].step_base;
  enum { SHOWN = 72 };
  snprintf(name.chars, sizeof name.chars, "step %u (%.*s%s)", number, SHOWN, text.chars,
           text.length > SHOWN ? "..." : "");
  tu_text_fini(&text);
  return name;
}

bool tu_check_refuse(struct tu_checking *c, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(c->report->text, sizeof c->report->text, format, arguments);
  va_end(arguments);
  return false;
}

bool tu_check_refuse_step(struct tu_checking *c, uint32_t step, const char *format, ...) {
  char *text = c->report->text;
  size_t bytes = sizeof c->report->text;
  int length = snprintf(text, bytes, "rank %u, %s: ", c->steps[step].rank, tu_check_name(c, step).chars);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + length, bytes - (size_t)length, format, arguments);
  va_end(arguments);
  return false;
}

/* ---- what a step touches ---------------------------------------------------------------------------------------- */

bool tu_check_access(const struct tu_checking *c, uint32_t step, uint32_t index, struct tu_access *access) {
  const struct tu_step *s = tu_check_step_at(c, step);
  struct tu_span span;
  if (index == 0) {
    span = s->kind == TU_SEND ? s->source : s->target;
  } else if (s->kind == TU_COPY) {
    if (index > 1) return false;
    span = s->source;
  } else {
    bool reduces = s->kind == TU_RECV_REDUCE || s->kind == TU_REDUCE;
    if (!reduces || index > s->operand_count) return false;
    const struct tu_operand *o = &tu_check_rank_of(c, step)->operands[s->operand_first + index - 1];
    if (o->peer != TU_LOCAL) {
      *access = (struct tu_access){0};
      return true;
    }
    span = o->span;
  }
  bool write = index == 0 && s->kind != TU_SEND;
  *access = (struct tu_access){tu_check_cell(c, c->steps[step].rank, span), span.count, write};
  return true;
}

bool tu_check_sliced(const struct tu_checking *c, uint32_t before, uint32_t step) {
  bool shared = false;
  struct tu_access a, b;
  for (uint32_t i = 0; tu_check_access(c, before, i, &a); i++) {
    for (uint32_t k = 0; tu_check_access(c, step, k, &b); k++) {
      if (!a.write && !b.write) continue;
      if (a.cell + a.count <= b.cell || b.cell + b.count <= a.cell || a.count == 0 || b.count == 0) continue;
      if (a.cell != b.cell || a.count != b.count) return false;
      shared = true;
    }
  }
  return shared;
}

/* ----------------------------------------------------------------------------------------------------------------- */

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
