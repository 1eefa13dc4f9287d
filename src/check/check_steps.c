/* check_steps.c: steps of a plan, as the checker uses them. Names of steps for error messages; the refusal of a plan
 * because of a step; the cells (chunks of memory) that a step reads and writes. */
#include <stdio.h>
#include <string.h>

#include "check/check_internal.h"
#include "plan/plan_text.h"

/* ---- error messages --------------------------------------------------------------------------------------------- */

struct tu_check_name tu_check_name(const struct tu_checking *c, uint32_t step) {
  struct tu_text text = {.arena = c->arena};
  tu_plan_write_step(tu_check_rank_of(c, step), tu_check_step_at(c, step), &text);
  struct tu_check_name name;
  uint32_t number = step - c->ranks[c->steps[step].rank].step_base;
  enum { SHOWN = 72 };
  const struct tu_origin *origins = tu_check_rank_of(c, step)->origins;
  char from[64] = "";
  if (origins)
    snprintf(from, sizeof from, "gpu %u, threadblock %u, line %u: ", c->steps[step].rank, origins[number].threadblock,
             origins[number].line);
  snprintf(name.chars, sizeof name.chars, "step %u (%s%.*s%s)", number, from, SHOWN, text.chars,
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

/* ---- accesses of a step ----------------------------------------------------------------------------------------- */

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
